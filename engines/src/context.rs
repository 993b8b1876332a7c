//! What a caller hands to a long call: cancellation and an observer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

/// Cancels the calls whose [`Context`] carries it. Clones share one state.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// A token that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels; calls notice it between two rows and clean up as after any failure.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How far a call has come. Totals are zero while they are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Bytes read so far, over all passes.
    pub bytes_done: u64,
    /// Bytes there are to read, over all passes.
    pub bytes_total: u64,
    /// Rows written to the destination so far.
    pub rows_done: u64,
}

/// A step of a fork that an observer hears of, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Milestone {
    /// The destination's id is reserved.
    Reserved,
    /// The boundary is captured and the source's commit queue is free again: later commits are
    /// not in the fork and need not wait for it.
    Captured,
    /// Options are checked against the source and rows are selected.
    Planned,
    /// Every row is in the stage; the source is not read any more.
    Staged,
    /// The destination is visible under its name.
    Published,
}

/// Hears of progress. Called on the thread that does the work, which waits for it: an observer
/// that blocks parks the call at exactly that point.
pub trait Observer: Send + Sync {
    /// Some more bytes or rows are done.
    fn progress(&self, progress: Progress) {
        let _ = progress;
    }

    /// A fork has reached a step.
    fn reached(&self, milestone: Milestone) {
        let _ = milestone;
    }
}

/// Cancellation and observer of one call. The default has neither.
///
/// # Example
///
/// A call that is cancelled fails and leaves nothing behind:
///
/// ```
/// use forkline_engines::{CancelToken, Context, CreateOptions, MemoryRepo, Repo};
/// use forkline_model::{ErrorKind, ForkOptions};
///
/// let (cx, repo) = (Context::new(), MemoryRepo::new());
/// let session = repo.create(&CreateOptions::default(), &cx)?;
/// let token = CancelToken::new();
/// let cancellable = Context::new().with_cancel(token.clone());
/// token.cancel();
/// let refused = repo.fork(&session, &ForkOptions::tree(), &cancellable);
/// assert_eq!(refused.err().map(|error| error.kind()), Some(ErrorKind::Cancelled));
/// # Ok::<(), forkline_engines::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Context {
    cancel: CancelToken,
    observer: Option<Arc<dyn Observer>>,
}

impl Context {
    /// Neither cancellation nor observer.
    pub fn new() -> Self {
        Self::default()
    }

    /// With a token that cancels.
    #[must_use]
    pub fn with_cancel(mut self, token: CancelToken) -> Self {
        self.cancel = token;
        self
    }

    /// With an observer.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// To be called between rows.
    ///
    /// # Errors
    /// *Cancelled*.
    pub fn check(&self) -> Result<()> {
        if self.cancel.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Tells the observer how far the call has come, and honours cancellation.
    ///
    /// # Errors
    /// *Cancelled*.
    pub fn progress(&self, progress: Progress) -> Result<()> {
        if let Some(observer) = &self.observer {
            observer.progress(progress);
        }
        self.check()
    }

    /// Tells the observer of a step, and honours cancellation.
    ///
    /// # Errors
    /// *Cancelled*.
    pub fn reached(&self, milestone: Milestone) -> Result<()> {
        if let Some(observer) = &self.observer {
            observer.reached(milestone);
        }
        self.check()
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("cancel", &self.cancel).finish_non_exhaustive()
    }
}
