//! Which ids of a repository are taken by something that is going on (contract §3.7).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use forkline_model::SessionId;

use crate::error::{Error, Result};
use crate::session::SessionCore;

/// Reserved and open ids of one repository.
///
/// An id is reserved from the moment create, open, fork or delete begins until it ends. Who
/// loses a race gets *session exists* (create, fork) or *already open* (open, delete).
#[derive(Clone, Default)]
pub(crate) struct Registry(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    closed: bool,
    next_token: u64,
    slots: HashMap<SessionId, Slot>,
}

/// Who has an id. The token tells a slot from a later one of the same id.
struct Slot {
    token: u64,
    open: Option<Weak<SessionCore>>,
}

impl Registry {
    /// Reserves an id for a new session.
    ///
    /// # Errors
    /// *Session exists*, *closed*.
    pub(crate) fn reserve(&self, id: &SessionId) -> Result<Reservation> {
        let taken = || forkline_model::Error::SessionExists { session: id.clone() };
        self.take(id, taken)
    }

    /// Reserves the id of a session that is there, to open or delete it.
    ///
    /// # Errors
    /// *Already open*, *closed*.
    pub(crate) fn reserve_existing(&self, id: &SessionId) -> Result<Reservation> {
        let taken = || forkline_model::Error::AlreadyOpen { session: id.clone() };
        self.take(id, taken)
    }

    fn take(
        &self,
        id: &SessionId,
        taken: impl FnOnce() -> forkline_model::Error,
    ) -> Result<Reservation> {
        let mut inner = self.lock();
        if inner.closed {
            return Err(Error::RepositoryClosed);
        }
        if inner.slots.contains_key(id) {
            return Err(taken().into());
        }
        let ticket = inner.next_token;
        inner.next_token += 1;
        inner.slots.insert(id.clone(), Slot { token: ticket, open: None });
        Ok(Reservation { registry: self.clone(), id: id.clone(), token: ticket })
    }

    /// Refuses everything from now on and returns the sessions that are open.
    pub(crate) fn close(&self) -> Vec<Arc<SessionCore>> {
        let mut inner = self.lock();
        inner.closed = true;
        inner.slots.values().filter_map(|slot| slot.open.as_ref().and_then(Weak::upgrade)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // The map is consistent between any two statements, so a panic elsewhere is no harm.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reserved id; free again when dropped.
#[must_use]
pub(crate) struct Reservation {
    registry: Registry,
    id: SessionId,
    token: u64,
}

impl Reservation {
    /// Keeps the id for an open session instead.
    pub(crate) fn into_open(self) -> OpenSlot {
        OpenSlot(self)
    }

    /// Frees the id, unless it is somebody else's by now.
    fn release(&self) {
        let mut inner = self.registry.lock();
        if inner.slots.get(&self.id).is_some_and(|slot| slot.token == self.token) {
            inner.slots.remove(&self.id);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.release();
    }
}

/// The id of an open session.
pub(crate) struct OpenSlot(Reservation);

impl OpenSlot {
    /// Records who holds it, so that the repository can close it.
    pub(crate) fn fill(&self, core: &Arc<SessionCore>) {
        let mut inner = self.0.registry.lock();
        if let Some(slot) = inner.slots.get_mut(&self.0.id) {
            slot.open = Some(Arc::downgrade(core));
        }
    }

    /// Frees the id before the last handle is gone.
    pub(crate) fn release(&self) {
        self.0.release();
    }
}
