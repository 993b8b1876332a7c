//! Sessions that live as long as their repository.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forkline_model::{Error as ModelError, Metadata, SessionId};

use super::State;
use super::fork::{MemoryDestination, MemorySource};
use super::storage::{MemoryStorage, Shared};
use crate::context::Context;
use crate::error::Result;
use crate::fork::{Destination, Source};
use crate::repo::{ListFilter, Location, Repo, RepoCore, RepoOptions, SessionRef};
use crate::storage::Storage;

/// A repository in this process. Closed sessions stay until they are deleted.
///
/// # Example
///
/// ```
/// use forkline_engines::{Context, CreateOptions, MemoryRepo, Repo};
/// use forkline_model::ForkOptions;
///
/// let cx = Context::new();
/// let repo = MemoryRepo::new();
/// let session = repo.create(&CreateOptions::default(), &cx)?;
/// session.set_name("first try", &cx)?;
/// let fork = repo.fork(&session, &ForkOptions::tree(), &cx)?;
/// assert_eq!(fork.name()?.as_deref(), Some("first try"));
/// assert_eq!(fork.metadata().parent_session_id.as_ref(), Some(&session.metadata().id));
/// # Ok::<(), forkline_engines::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct MemoryRepo {
    core: RepoCore,
    sessions: Sessions,
}

/// The stored sessions by id.
#[derive(Clone, Default)]
pub(super) struct Sessions(Arc<Mutex<BTreeMap<SessionId, Arc<Shared>>>>);

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<SessionId, Arc<Shared>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, id: &SessionId) -> Result<Arc<Shared>> {
        let found = self.lock().get(id).cloned();
        found.ok_or_else(|| ModelError::UnknownSession { session: id.clone() }.into())
    }

    /// Makes a session visible in one step.
    pub(super) fn publish(&self, shared: Shared) -> Result<SessionRef> {
        let metadata = shared.metadata.clone();
        let mut sessions = self.lock();
        if sessions.contains_key(&metadata.id) {
            return Err(ModelError::SessionExists { session: metadata.id }.into());
        }
        sessions.insert(metadata.id.clone(), Arc::new(shared));
        Ok(SessionRef { metadata, location: Location::Memory })
    }
}

impl MemoryRepo {
    /// An empty repository.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty repository with options.
    pub fn with(options: RepoOptions) -> Self {
        Self { core: RepoCore::new(options), sessions: Sessions::default() }
    }
}

impl Repo for MemoryRepo {
    fn core(&self) -> &RepoCore {
        &self.core
    }

    fn make(&self, metadata: &Metadata, _cx: &Context) -> Result<SessionRef> {
        self.sessions.publish(Shared::new(metadata.clone(), State::new(1)))
    }

    fn load(&self, at: &SessionRef, _cx: &Context) -> Result<Box<dyn Storage>> {
        Ok(Box::new(MemoryStorage(self.sessions.get(&at.metadata.id)?)))
    }

    fn remove(&self, at: &SessionRef, _cx: &Context) -> Result<()> {
        match self.sessions.lock().remove(&at.metadata.id) {
            Some(_) => Ok(()),
            None => Err(ModelError::UnknownSession { session: at.metadata.id.clone() }.into()),
        }
    }

    fn capture(&self, at: &SessionRef, _cx: &Context) -> Result<Box<dyn Source>> {
        let shared = self.sessions.get(&at.metadata.id)?;
        Ok(Box::new(MemorySource::new(shared.metadata.clone(), shared.snapshot())))
    }

    fn stage(&self, metadata: &Metadata, _cx: &Context) -> Result<Box<dyn Destination>> {
        Ok(Box::new(MemoryDestination::new(self.sessions.clone(), metadata.clone())))
    }

    fn require_free(&self, metadata: &Metadata) -> Result<()> {
        if self.sessions.lock().contains_key(&metadata.id) {
            return Err(ModelError::SessionExists { session: metadata.id.clone() }.into());
        }
        Ok(())
    }

    fn destination_cwd(&self, source: &Metadata) -> Result<Option<String>> {
        Ok(source.cwd.clone().or_else(|| self.core.options().cwd.clone()))
    }

    fn list(&self, filter: &ListFilter, _cx: &Context) -> Result<Vec<SessionRef>> {
        let mut found: Vec<SessionRef> = self
            .sessions
            .lock()
            .values()
            .map(|shared| shared.metadata.clone())
            .filter(|metadata| filter.cwd.is_none() || filter.cwd == metadata.cwd)
            .map(|metadata| SessionRef { metadata, location: Location::Memory })
            .collect();
        crate::repo::sort_listing(&mut found);
        Ok(found)
    }
}
