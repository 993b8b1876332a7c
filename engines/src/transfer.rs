//! Forks from any backend into any other: the same rules, the same bounds (contract §3).
//!
//! An open source needs nothing special: [`Repo::fork`] takes a session of any repository.
//!
//! # Example
//!
//! ```
//! use forkline_engines::{Context, CreateOptions, MemoryRepo, Repo, SqliteRepo, transfer};
//! use forkline_model::ForkOptions;
//!
//! # let folder = tempfile::tempdir().expect("a temporary folder");
//! let cx = Context::new();
//! let (memory, sqlite) = (MemoryRepo::new(), SqliteRepo::per_file(folder.path())?);
//! let session = memory.create(&CreateOptions::default(), &cx)?;
//! session.set_name("to keep", &cx)?;
//! let source = session.reference().clone();
//! session.close()?;
//! let kept = transfer::fork(&memory, &source, &sqlite, &ForkOptions::tree(), &cx)?;
//! assert_eq!(kept.name()?.as_deref(), Some("to keep"));
//! # Ok::<(), forkline_engines::Error>(())
//! ```

use forkline_model::ForkOptions;

use crate::context::Context;
use crate::error::Result;
use crate::fork::{self, Forked};
use crate::repo::{Repo, SessionRef, open_reserved};
use crate::session::Session;

/// Forks a stored session of `from` into `into` and opens the fork.
///
/// # Errors
/// Those of [`Repo::capture`] at the source and of [`Repo::fork`] at the destination; a value
/// that the destination's format cannot hold is *limit exceeded* and named.
pub fn fork(
    from: &dyn Repo,
    source: &SessionRef,
    into: &dyn Repo,
    options: &ForkOptions,
    cx: &Context,
) -> Result<Session> {
    let (forked, reservation) = fork::run(into, options, |cx| from.capture(source, cx), cx)?;
    open_reserved(into, forked.reference, reservation, cx)
}

/// The same without opening the fork.
pub fn fork_unopened(
    from: &dyn Repo,
    source: &SessionRef,
    into: &dyn Repo,
    options: &ForkOptions,
    cx: &Context,
) -> Result<Forked> {
    fork::run(into, options, |cx| from.capture(source, cx), cx).map(|(forked, _)| forked)
}
