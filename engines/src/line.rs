//! The mutation line: first in, first out, one scope at a time (lanes.md, "The mutation line").

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::context::Context;
use crate::error::Error;

/// How often a queued caller looks whether it was cancelled.
const CANCEL_POLL: Duration = Duration::from_millis(20);

#[derive(Clone)]
pub(crate) struct MutationLine(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Tickets in line; the front one is in.
    waiting: std::collections::VecDeque<u64>,
    next_ticket: u64,
    sealed: bool,
}

/// The right to mutate; gives the line to the next when dropped.
pub(crate) struct Turn {
    line: MutationLine,
    ticket: u64,
}

impl MutationLine {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Inner { state: Mutex::new(State::default()), changed: Condvar::new() }))
    }

    /// Waits for its turn.
    ///
    /// # Errors
    /// `None` when the line is sealed, *cancelled* when the caller cancelled.
    pub(crate) fn enter(&self, cx: &Context) -> Result<Turn, Option<Error>> {
        let mut state = self.lock();
        if state.sealed {
            return Err(None);
        }
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.waiting.push_back(ticket);
        // From here on the ticket leaves the line however this ends.
        let turn = Turn { line: self.clone(), ticket };
        while state.waiting.front() != Some(&ticket) {
            if state.sealed {
                drop(state);
                return Err(None);
            }
            if let Err(cancelled) = cx.check() {
                drop(state);
                return Err(Some(cancelled));
            }
            let wait = self.0.changed.wait_timeout(state, CANCEL_POLL);
            state = wait.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        Ok(turn)
    }

    /// From now on nobody enters; who waits is sent away, who is in finishes.
    pub(crate) fn seal(&self) {
        self.lock().sealed = true;
        self.0.changed.notify_all();
    }

    /// Waits until nobody is in.
    pub(crate) fn drain(&self) {
        let mut state = self.lock();
        while !state.waiting.is_empty() {
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two statements, so a panic elsewhere is no harm.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.line.lock();
        state.waiting.retain(|&ticket| ticket != self.ticket);
        drop(state);
        self.line.0.changed.notify_all();
    }
}
