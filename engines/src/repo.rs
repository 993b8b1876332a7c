//! Repositories: create, open, list, delete, fork, close (contract §3.7).

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use forkline_model::{ForkOptions, LaneAudit, Metadata, SessionId};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::fork::{self, Destination, Forked, Source};
use crate::ids::{Clock, IdSource, SystemClock, UuidSource};
use crate::registry::{Registry, Reservation};
use crate::session::Session;
use crate::storage::Storage;

/// Where time and ids come from.
#[derive(Clone)]
pub struct Environment {
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The id generator.
    pub ids: Arc<dyn IdSource>,
}

impl Default for Environment {
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock), ids: Arc::new(UuidSource::new()) }
    }
}

/// What all repositories let a caller choose.
#[derive(Clone, Default)]
pub struct RepoOptions {
    /// Clock and ids.
    pub environment: Environment,
    /// Which lanes a tree fork looks at (contract §3.5).
    pub lane_audit: LaneAudit,
    /// The working directory of forks whose source has none.
    pub cwd: Option<String>,
    /// Whether a commit is synced to the disk before it returns. A published fork always is.
    pub sync_commits: SyncCommits,
    /// Where temporary files of a fork go that are not the destination: the system's folder
    /// unless given.
    pub scratch: Option<PathBuf>,
}

/// What a commit that returned survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SyncCommits {
    /// The end of this process.
    #[default]
    No,
    /// A power loss.
    Yes,
}

/// What every repository is made of: options and the ids that are in use.
#[derive(Clone, Default)]
pub struct RepoCore {
    options: RepoOptions,
    registry: Registry,
}

impl RepoCore {
    /// For one repository.
    pub fn new(options: RepoOptions) -> Self {
        Self { options, registry: Registry::default() }
    }

    /// The options.
    pub fn options(&self) -> &RepoOptions {
        &self.options
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.options.environment
    }

    pub(crate) fn audit(&self) -> LaneAudit {
        self.options.lane_audit
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Where temporary files go.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.options.scratch.clone().unwrap_or_else(std::env::temp_dir)
    }
}

/// What a new session is created with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CreateOptions {
    /// The id; generated unless given.
    pub id: Option<SessionId>,
    /// The working directory; kept by file-backed sessions with a place for it.
    pub cwd: Option<String>,
    /// The session this one was made for.
    pub parent_session_id: Option<SessionId>,
}

impl CreateOptions {
    /// For a working directory.
    pub fn new(cwd: impl Into<String>) -> Self {
        Self { cwd: Some(cwd.into()), ..Self::default() }
    }

    /// With an id of the caller's.
    #[must_use]
    pub fn with_id(mut self, id: SessionId) -> Self {
        self.id = Some(id);
        self
    }
}

/// Where a session is stored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Location {
    /// In this process.
    Memory,
    /// In a file of its own, or as rows of a container.
    File(PathBuf),
}

/// Names a session that may be closed: what it says of itself, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRef {
    /// The metadata; id and working directory must match what is found there, the rest is not
    /// looked at.
    pub metadata: Metadata,
    /// Where: read at exactly this place.
    pub location: Location,
}

impl SessionRef {
    /// The file, for sessions that have one.
    pub fn path(&self) -> Option<&std::path::Path> {
        match &self.location {
            Location::Memory => None,
            Location::File(path) => Some(path),
        }
    }
}

impl fmt::Display for SessionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.location {
            Location::Memory => write!(f, "{}", self.metadata.id),
            Location::File(path) => write!(f, "{} in {}", self.metadata.id, path.display()),
        }
    }
}

/// Which sessions a listing gives.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListFilter {
    /// Only sessions of this working directory.
    pub cwd: Option<String>,
}

/// A repository of sessions. What a caller uses is provided; a backend brings the rest.
pub trait Repo: Send + Sync {
    // ---- what a backend brings ----

    /// Options and registry.
    fn core(&self) -> &RepoCore;

    /// Stores a new, empty session. Called with its id reserved.
    ///
    /// # Errors
    /// *Session exists*, I/O.
    fn make(&self, metadata: &Metadata, cx: &Context) -> Result<SessionRef>;

    /// Opens what is stored at exactly that place. Called with its id reserved. Never creates.
    ///
    /// # Errors
    /// *Unknown session*, *identity mismatch*, *unsupported version*, *corrupt source*, I/O.
    fn load(&self, at: &SessionRef, cx: &Context) -> Result<Box<dyn Storage>>;

    /// Removes what is stored there. Called with its id reserved.
    ///
    /// # Errors
    /// *Unknown session*, *identity mismatch*, I/O.
    fn remove(&self, at: &SessionRef, cx: &Context) -> Result<()>;

    /// Captures what is stored at exactly that place, by a reader of its own.
    ///
    /// # Errors
    /// *Unknown session*, *identity mismatch*, *unsupported version*, *corrupt source*, I/O.
    fn capture(&self, at: &SessionRef, cx: &Context) -> Result<Box<dyn Source>>;

    /// Begins a destination out of sight. Called with its id reserved and found free.
    fn stage(&self, metadata: &Metadata, cx: &Context) -> Result<Box<dyn Destination>>;

    /// Looks whether a session of that id is stored already.
    ///
    /// # Errors
    /// *Session exists*, *invalid name* for an id that cannot be stored.
    fn require_free(&self, metadata: &Metadata) -> Result<()>;

    /// The working directory that a fork of `source` gets here.
    ///
    /// # Errors
    /// *Invalid payload* when one is needed and neither the source nor the options have one.
    fn destination_cwd(&self, source: &Metadata) -> Result<Option<String>>;

    /// The stored sessions: createdAt descending, then id, then cwd. What cannot be read is left
    /// out.
    fn list(&self, filter: &ListFilter, cx: &Context) -> Result<Vec<SessionRef>>;

    // ---- what a caller uses ----

    /// Makes a new, empty session and opens it.
    ///
    /// # Errors
    /// *Session exists*, *closed*, I/O.
    fn create(&self, options: &CreateOptions, cx: &Context) -> Result<Session> {
        let core = self.core();
        let id = match &options.id {
            Some(id) => id.clone(),
            None => crate::ids::next_session(&*core.environment().ids)?,
        };
        let reservation = core.registry().reserve(&id)?;
        let metadata = Metadata {
            id,
            created_at: core.environment().clock.now(),
            cwd: options.cwd.clone(),
            parent_session_id: options.parent_session_id.clone(),
            legacy_parent_session_path: None,
        };
        self.require_free(&metadata)?;
        let reference = self.make(&metadata, cx)?;
        open_reserved(self, reference, reservation, cx)
    }

    /// Opens a stored session. Never creates one.
    ///
    /// # Errors
    /// *Already open*, and those of [`Repo::load`].
    fn open(&self, at: &SessionRef, cx: &Context) -> Result<Session> {
        let reservation = self.core().registry().reserve_existing(&at.metadata.id)?;
        open_reserved(self, at.clone(), reservation, cx)
    }

    /// The stored session of that id.
    ///
    /// # Errors
    /// *Unknown session*.
    fn find(&self, id: &SessionId, cx: &Context) -> Result<SessionRef> {
        let found = self.list(&ListFilter::default(), cx)?;
        found
            .into_iter()
            .find(|stored| stored.metadata.id == *id)
            .ok_or_else(|| forkline_model::Error::UnknownSession { session: id.clone() }.into())
    }

    /// Deletes a stored session that is not open.
    ///
    /// # Errors
    /// *Already open*, and those of [`Repo::remove`].
    fn delete(&self, at: &SessionRef, cx: &Context) -> Result<()> {
        let _reservation = self.core().registry().reserve_existing(&at.metadata.id)?;
        self.remove(at, cx)
    }

    /// Forks an open session, of this repository or any other, into this one and opens the fork.
    ///
    /// # Errors
    /// Those of contract §3, *session exists*, *not committed*, *durability uncertain*.
    fn fork(&self, source: &Session, options: &ForkOptions, cx: &Context) -> Result<Session> {
        let (forked, reservation) = fork::run(self, options, |cx| source.capture(cx), cx)?;
        open_reserved(self, forked.reference, reservation, cx)
    }

    /// The same without opening the fork.
    fn fork_unopened(
        &self,
        source: &Session,
        options: &ForkOptions,
        cx: &Context,
    ) -> Result<Forked> {
        fork::run(self, options, |cx| source.capture(cx), cx).map(|(forked, _)| forked)
    }

    /// Forks a stored session of this repository, read at exactly the place given, and opens the
    /// fork. The source may be closed or open elsewhere.
    ///
    /// # Errors
    /// Those of [`Repo::fork`] and [`Repo::capture`].
    fn fork_closed(
        &self,
        source: &SessionRef,
        options: &ForkOptions,
        cx: &Context,
    ) -> Result<Session> {
        let (forked, reservation) = fork::run(self, options, |cx| self.capture(source, cx), cx)?;
        open_reserved(self, forked.reference, reservation, cx)
    }

    /// The same without opening the fork.
    fn fork_closed_unopened(
        &self,
        source: &SessionRef,
        options: &ForkOptions,
        cx: &Context,
    ) -> Result<Forked> {
        fork::run(self, options, |cx| self.capture(source, cx), cx).map(|(forked, _)| forked)
    }

    /// Closes every open session and refuses everything from then on. All are closed, whatever
    /// fails.
    ///
    /// # Errors
    /// One failure as itself, several as *several*.
    fn close(&self) -> Result<()> {
        let open = self.core().registry().close();
        let mut failures: Vec<Error> =
            open.into_iter().filter_map(|core| Session::from_core(core).close().err()).collect();
        match failures.len() {
            0 => Ok(()),
            1 => Err(failures.remove(0)),
            _ => Err(Error::Several(failures)),
        }
    }
}

/// Opens a session whose id is reserved already.
pub(crate) fn open_reserved(
    repo: &(impl Repo + ?Sized),
    reference: SessionRef,
    reservation: Reservation,
    cx: &Context,
) -> Result<Session> {
    let storage = repo.load(&reference, cx)?;
    let reference = SessionRef { metadata: storage.metadata().clone(), ..reference };
    let environment = repo.core().environment().clone();
    Ok(Session::new(storage, reference, environment, reservation.into_open()))
}

/// The order of a listing: createdAt descending, then id, then cwd (formats §1).
pub(crate) fn sort_listing(found: &mut [SessionRef]) {
    found.sort_by(|left, right| {
        let (left, right) = (&left.metadata, &right.metadata);
        right
            .created_at
            .cmp(&left.created_at)
            .then_with(|| left.id.cmp(&right.id))
            .then_with(|| left.cwd.cmp(&right.cwd))
    });
}
