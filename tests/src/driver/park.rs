//! Parks a fork right behind its boundary, so that what comes after it is forced, not hoped for.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use forkline_engines::{Milestone, Observer};

/// A gate between the thread of a fork and who drives it.
#[derive(Debug, Clone, Default)]
pub(super) struct Park(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    arrival: Option<Arrival>,
    open: bool,
}

/// How far the fork has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It has captured its source.
    Captured,
    /// Its thread has ended, or is about to, without getting there.
    Ended,
}

impl Park {
    /// Waits until the fork has captured its source or has ended.
    pub(super) fn wait(&self) -> Arrival {
        let mut state = self.lock();
        loop {
            if let Some(arrival) = state.arrival {
                return arrival;
            }
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets the fork go on, also if it comes only later.
    pub(super) fn release(&self) {
        self.lock().open = true;
        self.0.changed.notify_all();
    }

    /// What the thread of the fork holds: tells who waits that it has ended, panics included.
    pub(super) fn until_end(&self) -> AtEnd {
        AtEnd(self.clone())
    }

    fn arrive(&self, arrival: Arrival) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        state.arrival.get_or_insert(arrival);
        self.0.changed.notify_all();
        state
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Park {
    fn reached(&self, milestone: Milestone) {
        if milestone == Milestone::Captured {
            let mut state = self.arrive(Arrival::Captured);
            while !state.open {
                state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

pub(super) struct AtEnd(Park);

impl Drop for AtEnd {
    fn drop(&mut self) {
        drop(self.0.arrive(Arrival::Ended));
    }
}
