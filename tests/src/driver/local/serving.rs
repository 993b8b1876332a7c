//! What a server needs of a driver beyond its operations: scopes that last over several
//! requests, and sessions that were stored before it began.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use forkline_engines::{Context, Environment, Mutation, Repo, Result, Session};
use forkline_model::{Committed, ErrorKind, Millis, Op, RepoIndex, SessionId, Write};

use super::super::write::complete;
use super::{LocalDriver, LocalRepo, SetClock, engine, name_of};
use crate::lineup::EngineKind;

/// A repository that is open already.
pub struct OpenRepo {
    /// What it is.
    pub kind: EngineKind,
    /// The folder that its files are in.
    pub folder: PathBuf,
    /// The repository.
    pub repo: Arc<dyn Repo>,
}

impl LocalDriver {
    /// Over repositories that `open` opens with the driver's clock.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn over(open: impl FnOnce(Environment) -> Result<Vec<OpenRepo>>) -> Result<Self> {
        let clock = SetClock::default();
        let repos = open(clock.environment())?.into_iter().map(|open| {
            LocalRepo::new(open.kind, engine::capabilities(open.kind), open.repo, open.folder)
        });
        let repos: Vec<LocalRepo> = repos.collect();
        let name = name_of(&repos);
        Ok(Self { repos, name, clock, forks: BTreeMap::new(), last_error: None })
    }

    /// How many repositories there are.
    pub(crate) fn repo_count(&self) -> usize {
        self.repos.len()
    }

    /// Looks on the disk for the sessions that an operation names and that were not made here.
    ///
    /// # Errors
    /// The repository cannot be listed.
    pub(crate) fn discover(&mut self, op: &Op) -> Result<()> {
        match op {
            Op::Open { repo, session }
            | Op::Delete { repo, session }
            | Op::Close { repo, session }
            | Op::TearTail { repo, session, .. }
            | Op::Read { repo, session, .. } => self.find(*repo, session),
            Op::Fork { request, .. } => self.find(request.from, &request.source),
            Op::ForkBegin { request, .. } => {
                self.find(request.from, &request.source)?;
                self.find(request.into, &request.id)
            }
            _ => Ok(()),
        }
    }

    fn find(&mut self, repo: RepoIndex, id: &SessionId) -> Result<()> {
        let Some(repo) = self.repos.get_mut(repo) else { return Ok(()) };
        if repo.slots.get(id).is_some_and(|slot| slot.is_stored) {
            return Ok(());
        }
        match repo.repo.find(id, &Context::new()) {
            Ok(reference) => repo.insert_closed(reference),
            Err(error) if error.kind() == ErrorKind::UnknownSession => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The handle of a session.
    ///
    /// # Errors
    /// *Unknown session*, *closed* for one that was never opened here.
    pub(crate) fn handle(&mut self, repo: RepoIndex, id: &SessionId) -> Result<Session> {
        self.session(repo, id)
    }

    /// The attempt of a scope to commit.
    ///
    /// # Errors
    /// Those of [`Mutation::commit`].
    pub(crate) fn commit_in(
        &self,
        scope: &mut Mutation,
        writes: &[Write],
        timestamp: Millis,
    ) -> Result<Committed> {
        self.clock.begin_commit(timestamp);
        let committed = scope.commit(writes)?;
        complete(scope.session(), committed)
    }
}
