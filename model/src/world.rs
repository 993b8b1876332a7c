//! Repositories of sessions as one pure state machine (contract §3.6, §3.7).
//!
//! Whatever takes time in an engine comes in two halves here, so that what happens between them
//! can be said exactly: the first half reserves the id and, for a fork, captures the source; the
//! second does the rest and frees the id. A ticket carries one to the other.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::address::{Millis, Seq, SessionId};
use crate::error::{Error, Result};
use crate::fork::{Birth, fork};
use crate::legacy::Legacy;
use crate::metadata::{ForkOptions, LaneAudit, Metadata, Scope};
use crate::state::{Committed, State};
use crate::usage::Stats;
use crate::write::Write;

/// Which repository. One that nothing was created in is empty.
pub type RepoIndex = usize;

/// Several repositories with one lane audit option.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct World {
    audit: LaneAudit,
    repos: BTreeMap<RepoIndex, Repo>,
    /// The forks under way of operations that name them by a ticket number.
    pub(crate) forks: BTreeMap<u64, ForkTicket>,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct Repo {
    sessions: BTreeMap<SessionId, Session>,
    reserved: BTreeSet<SessionId>,
}

/// A stored session.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    state: State,
    open: bool,
    /// While its file is one of an older version.
    legacy: Option<Legacy>,
}

impl Session {
    /// What it holds.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Its statistics: a recount, and the imported usage as long as no ledger row has it.
    pub fn stats(&self) -> Stats {
        let mut stats = self.state.stats();
        if let Some(usage) = self.legacy.as_ref().and_then(|legacy| legacy.usage) {
            stats.usage.add(&usage);
        }
        stats
    }

    /// What there is to know of it as long as its file is one of an older version.
    pub fn legacy(&self) -> Option<&Legacy> {
        self.legacy.as_ref()
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        self.open
    }
}

/// A fork to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkRequest {
    /// The source's repository.
    pub from: RepoIndex,
    /// The source.
    pub source: SessionId,
    /// The destination's repository.
    pub into: RepoIndex,
    /// The destination's id.
    pub id: SessionId,
    /// What is copied.
    pub scope: Scope,
    /// The destination's creation time, Unix ms.
    pub created_at: Millis,
    /// The destination's working directory, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Whether an engine reads the source at its place, as that of a closed session, even if it
    /// is open. Makes no difference to the outcome (contract §3.6), but for a legacy source:
    /// what stands at its place can be forked while the open session cannot (formats §2).
    #[serde(default)]
    pub closed: bool,
}

impl ForkRequest {
    /// The same as options.
    pub fn options(&self) -> ForkOptions {
        ForkOptions { scope: self.scope.clone(), id: Some(self.id.clone()) }
    }
}

/// A creation that has begun.
#[derive(Debug)]
#[must_use]
pub struct CreateTicket {
    repo: RepoIndex,
    metadata: Metadata,
}

/// A deletion that has begun.
#[derive(Debug)]
#[must_use]
pub struct DeleteTicket {
    repo: RepoIndex,
    id: SessionId,
}

/// A fork that has begun: the captured source, and where to.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct ForkTicket {
    /// The source, or why it is none.
    source: Result<State>,
    request: ForkRequest,
}

impl World {
    /// Empty repositories whose forks go by `audit`.
    pub fn new(audit: LaneAudit) -> Self {
        Self { audit, ..Self::default() }
    }

    // ---- looking ----

    /// The stored session of an id.
    pub fn session(&self, repo: RepoIndex, id: &SessionId) -> Option<&Session> {
        self.repos.get(&repo)?.sessions.get(id)
    }

    /// The state of a session that has to be open.
    ///
    /// # Errors
    /// *Unknown session*, or *closed* for one that is stored but not open.
    pub fn open_state(&self, repo: RepoIndex, id: &SessionId) -> Result<&State> {
        self.open_session(repo, id).map(Session::state)
    }

    /// A session that has to be open.
    ///
    /// # Errors
    /// Those of [`World::open_state`].
    pub fn open_session(&self, repo: RepoIndex, id: &SessionId) -> Result<&Session> {
        let session = self.session(repo, id).ok_or_else(|| unknown(id))?;
        if session.open { Ok(session) } else { Err(Error::Closed { session: id.clone() }) }
    }

    /// The stored sessions of a repository: createdAt descending, then id, then cwd.
    pub fn list(&self, repo: RepoIndex) -> Vec<Metadata> {
        let sessions = self.repos.get(&repo).into_iter().flat_map(|repo| repo.sessions.values());
        let mut found: Vec<Metadata> =
            sessions.map(|session| session.state.metadata.clone()).collect();
        found.sort_by(|left, right| {
            (right.created_at.cmp(&left.created_at))
                .then_with(|| left.id.cmp(&right.id))
                .then_with(|| left.cwd.cmp(&right.cwd))
        });
        found
    }

    // ---- create ----

    /// Reserves the id of a new session.
    ///
    /// # Errors
    /// *Session exists* for an id that is stored or reserved.
    pub fn create_begin(&mut self, repo: RepoIndex, metadata: Metadata) -> Result<CreateTicket> {
        self.reserve_new(repo, &metadata.id)?;
        Ok(CreateTicket { repo, metadata })
    }

    /// Stores the new, empty session, and opens it.
    pub fn create_finish(&mut self, ticket: CreateTicket) {
        let state = State::new(ticket.metadata);
        self.store(ticket.repo, Session { state, open: true, legacy: None });
    }

    /// Stores a legacy session, closed: `state` is what every import of its file gives, of a
    /// damaged one the metadata alone.
    ///
    /// # Errors
    /// *Session exists* for an id that is stored or reserved.
    pub fn plant(&mut self, repo: RepoIndex, state: State, legacy: Legacy) -> Result<()> {
        self.reserve_new(repo, &state.metadata.id)?;
        self.store(repo, Session { state, open: false, legacy: Some(legacy) });
        Ok(())
    }

    // ---- open, close ----

    /// Opens a stored session. Never creates one.
    ///
    /// # Errors
    /// *Already open*, also for a reserved id; *unknown session*; *corrupt source* for a legacy
    /// file that is damaged or whose usage cannot be summed.
    pub fn open(&mut self, repo: RepoIndex, id: &SessionId) -> Result<()> {
        let session = self.stored_closed(repo, id)?;
        if session.legacy.as_ref().is_some_and(|legacy| !legacy.can_be_opened()) {
            return Err(Error::Damaged { session: id.clone() });
        }
        session.open = true;
        Ok(())
    }

    /// Closes a session; one that is closed already stays so.
    ///
    /// # Errors
    /// *Unknown session*.
    pub fn close(&mut self, repo: RepoIndex, id: &SessionId) -> Result<()> {
        self.stored(repo, id)?.open = false;
        Ok(())
    }

    // ---- delete ----

    /// Reserves the id of a session that goes.
    ///
    /// # Errors
    /// *Already open*, also for a reserved id; *unknown session*.
    pub fn delete_begin(&mut self, repo: RepoIndex, id: &SessionId) -> Result<DeleteTicket> {
        self.stored_closed(repo, id)?;
        self.repo(repo).reserved.insert(id.clone());
        Ok(DeleteTicket { repo, id: id.clone() })
    }

    /// Removes the session and frees its id.
    pub fn delete_finish(&mut self, ticket: &DeleteTicket) {
        let repo = self.repo(ticket.repo);
        repo.sessions.remove(&ticket.id);
        repo.reserved.remove(&ticket.id);
    }

    // ---- commit ----

    /// Applies one commit to an open session. That which has writes upgrades a legacy session:
    /// the imported usage gets the first seq, the commit those behind it (formats §2).
    ///
    /// # Errors
    /// *Unknown session*, *closed*, and those of [`State::apply`].
    pub fn commit(
        &mut self,
        repo: RepoIndex,
        id: &SessionId,
        writes: &[Write],
        timestamp: Millis,
    ) -> Result<Committed> {
        self.open_state(repo, id)?;
        let session = self.stored(repo, id)?;
        let Some(legacy) = session.legacy.as_ref().filter(|_| !writes.is_empty()) else {
            return session.state.apply(writes, timestamp);
        };
        let all: Vec<Write> = legacy.usage_row()?.into_iter().chain(writes.to_vec()).collect();
        let Committed { next_seq, .. } = session.state.apply(&all, timestamp)?;
        session.legacy = None;
        let count = writes.len() as u64;
        let first_seq = Some(Seq::new(next_seq - count)?);
        Ok(Committed { first_seq, writes: count, next_seq, timestamp })
    }

    // ---- fork ----

    /// Reserves the destination's id and captures the source: what is committed now is in the
    /// fork, and nothing that comes later.
    ///
    /// # Errors
    /// *Unknown session* for the source, then *session exists* for the destination.
    pub fn fork_begin(&mut self, request: &ForkRequest) -> Result<ForkTicket> {
        let source = self.session(request.from, &request.source);
        let source = source.ok_or_else(|| unknown(&request.source))?.clone();
        self.reserve_new(request.into, &request.id)?;
        let mut request = request.clone();
        let state = match &source.legacy {
            None => Ok(source.state),
            Some(_) if source.open && !request.closed => {
                Err(Error::OpenLegacySource { session: request.source.clone() })
            }
            Some(legacy) if legacy.is_damaged => {
                Err(Error::Damaged { session: request.source.clone() })
            }
            Some(legacy) => {
                request.scope = legacy.in_state(&request.scope, &source.state);
                Ok(source.state)
            }
        };
        Ok(ForkTicket { source: state, request })
    }

    /// Stores the fork, closed, or rejects it; either way the id is no longer reserved. Returns
    /// where it stands.
    ///
    /// # Errors
    /// *Open legacy source*, *corrupt source* for a legacy file that is damaged, then those of
    /// [`fork`].
    pub fn fork_finish(&mut self, ticket: ForkTicket) -> Result<(RepoIndex, SessionId)> {
        let options = ticket.request.options();
        let ForkRequest { into, id, created_at, cwd, .. } = ticket.request;
        let birth = Birth { id: id.clone(), created_at, cwd };
        let forked = ticket.source.and_then(|source| fork(&source, &options, self.audit, birth));
        self.repo(into).reserved.remove(&id);
        self.store(into, Session { state: forked?, open: false, legacy: None });
        Ok((into, id))
    }

    // ---- helpers ----

    fn repo(&mut self, repo: RepoIndex) -> &mut Repo {
        self.repos.entry(repo).or_default()
    }

    fn stored(&mut self, repo: RepoIndex, id: &SessionId) -> Result<&mut Session> {
        self.repo(repo).sessions.get_mut(id).ok_or_else(|| unknown(id))
    }

    fn stored_closed(&mut self, repo: RepoIndex, id: &SessionId) -> Result<&mut Session> {
        let reserved = self.repo(repo).reserved.contains(id);
        if reserved || self.session(repo, id).is_some_and(Session::is_open) {
            return Err(Error::AlreadyOpen { session: id.clone() });
        }
        self.stored(repo, id)
    }

    fn reserve_new(&mut self, repo: RepoIndex, id: &SessionId) -> Result<()> {
        let repo = self.repo(repo);
        if repo.sessions.contains_key(id) || !repo.reserved.insert(id.clone()) {
            return Err(Error::SessionExists { session: id.clone() });
        }
        Ok(())
    }

    /// Stores a session whose id was reserved for it.
    fn store(&mut self, repo: RepoIndex, session: Session) {
        let repo = self.repo(repo);
        let id = session.state.metadata.id.clone();
        repo.reserved.remove(&id);
        repo.sessions.insert(id, session);
    }
}

fn unknown(id: &SessionId) -> Error {
    Error::UnknownSession { session: id.clone() }
}
