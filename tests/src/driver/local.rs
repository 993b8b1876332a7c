//! The engines of this project as a driver.

mod driving;
mod plant;
mod serving;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use forkline_engines::{
    Context, CreateOptions, Error, ListFilter, Repo, RepoOptions, Result, Session, SessionRef,
    transfer,
};
use forkline_model::{
    Answer, Error as ModelError, ForkRequest, LaneAudit, Op, RepoIndex, SessionId,
};

use super::clock::SetClock;
use super::park::{Arrival, Park};
use super::write::{commit, mutate};
use super::{Capabilities, Fault};
use super::{engine, read};
use crate::lineup::EngineKind;

pub(crate) use plant::text as legacy_text;
pub use serving::OpenRepo;

/// Where sessions stand in the folder of a repository.
const SESSIONS: &str = "sessions";

/// Several repositories, each an engine of this project, in one folder. Behind those that are
/// asked for stands one more, of JSONL, that legacy files are planted in: forks of them go into
/// engines of every kind.
///
/// A fork that is begun runs on a thread of its own and is parked behind its boundary; what
/// comes next happens on the caller's thread meanwhile.
pub struct LocalDriver {
    repos: Vec<LocalRepo>,
    /// What the repositories that were asked for are called.
    name: String,
    clock: SetClock,
    forks: BTreeMap<u64, Underway>,
    last_error: Option<String>,
}

struct LocalRepo {
    kind: EngineKind,
    capabilities: Capabilities,
    repo: Arc<dyn Repo>,
    root: PathBuf,
    slots: BTreeMap<SessionId, Slot>,
    /// The sessions that came as legacy files, deleted ones included.
    planted: BTreeSet<SessionId>,
}

/// What the driver knows of a session. One that was deleted is kept: who asks for it again asks
/// with the reference that he has.
struct Slot {
    reference: SessionRef,
    /// The last handle, which may be closed.
    session: Option<Session>,
    is_stored: bool,
    is_open: bool,
}

/// A fork on its own thread.
struct Underway {
    request: ForkRequest,
    park: Park,
    thread: JoinHandle<Result<SessionRef>>,
}

enum Source {
    Open(Session),
    Stored(SessionRef),
}

impl LocalDriver {
    /// Repositories of these kinds, each in a folder of its own below `folder`. `cwd` is what
    /// forks get whose source has no working directory.
    ///
    /// # Errors
    /// A folder or repository cannot be made.
    pub fn new(
        kinds: &[EngineKind],
        folder: &Path,
        audit: LaneAudit,
        cwd: &str,
    ) -> Result<Self, Fault> {
        Self::wrapped(kinds, folder, audit, cwd, &|_, repo| repo)
    }

    /// The same with `wrap` around each repository, for engines that are wrong on purpose.
    ///
    /// # Errors
    /// A folder or repository cannot be made.
    pub(crate) fn wrapped(
        kinds: &[EngineKind],
        folder: &Path,
        audit: LaneAudit,
        cwd: &str,
        wrap: &dyn Fn(EngineKind, Arc<dyn Repo>) -> Arc<dyn Repo>,
    ) -> Result<Self, Fault> {
        let clock = SetClock::default();
        let new = |index: usize, kind: EngineKind| {
            let root = folder.join(index.to_string());
            let scratch = root.join("scratch");
            for folder in [&root.join(SESSIONS), &scratch] {
                fs::create_dir_all(folder).map_err(|error| {
                    Fault::new(format!("cannot make {}: {error}", folder.display()))
                })?;
            }
            let options = RepoOptions {
                environment: clock.environment(),
                lane_audit: audit,
                cwd: Some(cwd.to_owned()),
                scratch: Some(scratch),
                ..RepoOptions::default()
            };
            let repo = engine::repository(kind, &root.join(SESSIONS), options);
            let repo = repo.map_err(|error| Fault::new(error.chain()))?;
            Ok(LocalRepo::new(kind, engine::capabilities(kind), repo, root))
        };
        let mut repos = Vec::new();
        for (index, &kind) in kinds.iter().enumerate() {
            let mut repo: LocalRepo = new(index, kind)?;
            repo.repo = wrap(kind, repo.repo);
            repos.push(repo);
        }
        let mut sources = new(kinds.len(), EngineKind::Jsonl)?;
        sources.capabilities = Capabilities::all();
        let name = name_of(&repos);
        repos.push(sources);
        Ok(Self { repos, name, clock, forks: BTreeMap::new(), last_error: None })
    }

    fn answer(&mut self, op: &Op) -> Result<Answer> {
        self.clock.begin(op);
        match op {
            Op::Create { repo, id, cwd, parent, .. } => {
                self.create(*repo, id, cwd.as_ref(), parent.as_ref())?;
            }
            Op::Open { repo, session } => self.open(*repo, session)?,
            Op::Close { repo, session } => self.close(*repo, session)?,
            Op::Reopen { repo, session } => {
                self.close(*repo, session)?;
                self.open(*repo, session)?;
            }
            Op::Delete { repo, session } => self.delete(*repo, session)?,
            Op::List { repo } => return self.list(*repo),
            Op::Fork { request, open } => self.fork(request, *open)?,
            Op::ForkBegin { ticket, request } => self.begin(*ticket, request)?,
            Op::ForkFinish { ticket, open } => self.finish(*ticket, *open)?,
            Op::TearTail { repo, session, text } => self.tear(*repo, session, text)?,
            Op::Plant { repo, session, lines, torn } => self.plant(*repo, session, lines, torn)?,
            Op::Read { repo, session, read } => {
                return read::answer(&self.session(*repo, session)?, read);
            }
            Op::Mutate { repo, session, reads, attempts, .. } => {
                return mutate(&self.session(*repo, session)?, reads, attempts);
            }
            Op::Commit { repo, session, .. }
            | Op::CreateBranch { repo, session, .. }
            | Op::Append { repo, session, .. }
            | Op::SetName { repo, session, .. }
            | Op::SetLabel { repo, session, .. } => {
                return commit(&self.session(*repo, session)?, op).map(Answer::Committed);
            }
        }
        Ok(Answer::Done)
    }

    // ---- lifecycle ----

    fn create(
        &mut self,
        repo: RepoIndex,
        id: &SessionId,
        cwd: Option<&String>,
        parent: Option<&SessionId>,
    ) -> Result<()> {
        let options = CreateOptions {
            id: Some(id.clone()),
            cwd: cwd.cloned(),
            parent_session_id: parent.cloned(),
        };
        let repo = self.at(repo);
        let session = repo.repo.create(&options, &Context::new())?;
        repo.insert_open(session);
        Ok(())
    }

    fn open(&mut self, repo: RepoIndex, id: &SessionId) -> Result<()> {
        let repo = self.at(repo);
        let session = repo.repo.open(&repo.reference(id), &Context::new())?;
        repo.insert_open(session);
        Ok(())
    }

    fn close(&mut self, repo: RepoIndex, id: &SessionId) -> Result<()> {
        let slot = self.at(repo).stored(id)?;
        slot.is_open = false;
        slot.session.as_ref().map_or(Ok(()), Session::close)
    }

    fn delete(&mut self, repo: RepoIndex, id: &SessionId) -> Result<()> {
        let repo = self.at(repo);
        repo.repo.delete(&repo.reference(id), &Context::new())?;
        if let Some(slot) = repo.slots.get_mut(id) {
            slot.is_stored = false;
            slot.session = None;
        }
        Ok(())
    }

    fn list(&mut self, repo: RepoIndex) -> Result<Answer> {
        let found = self.at(repo).repo.list(&ListFilter::default(), &Context::new())?;
        Ok(Answer::Sessions(found.into_iter().map(|found| found.metadata).collect()))
    }

    /// Leaves bytes behind the last line, as a writer that was killed does.
    fn tear(&mut self, repo: RepoIndex, id: &SessionId, text: &str) -> Result<()> {
        if text.contains('\n') {
            let reason = "it has a line break".to_owned();
            return Err(ModelError::InvalidPayload { what: "torn tail", reason }.into());
        }
        let repo = self.at(repo);
        let has_lines = repo.kind == EngineKind::Jsonl;
        let slot = repo.stored(id)?;
        if slot.is_open {
            return Err(ModelError::AlreadyOpen { session: id.clone() }.into());
        }
        if let (true, Some(path)) = (has_lines, slot.reference.path()) {
            let io = |error| Error::io("tear", path, error);
            let mut file = fs::OpenOptions::new().append(true).open(path).map_err(io)?;
            std::io::Write::write_all(&mut file, text.as_bytes()).map_err(io)?;
        }
        Ok(())
    }

    // ---- forks ----

    fn fork(&mut self, request: &ForkRequest, open: bool) -> Result<()> {
        let source = self.source(request)?;
        let (from, into) = (self.repo(request.from), self.repo(request.into));
        let (options, cx) = (request.options(), Context::new());
        if open {
            let session = match source {
                Source::Open(source) => into.fork(&source, &options, &cx)?,
                Source::Stored(source) if request.from == request.into => {
                    into.fork_closed(&source, &options, &cx)?
                }
                Source::Stored(source) => transfer::fork(&*from, &source, &*into, &options, &cx)?,
            };
            self.at(request.into).insert_open(session);
        } else {
            let forked = fork_unopened(&*from, &source, &*into, request, &cx)?;
            self.at(request.into).insert_closed(forked);
        }
        Ok(())
    }

    fn begin(&mut self, ticket: u64, request: &ForkRequest) -> Result<()> {
        if self.forks.contains_key(&ticket) {
            return Err(ModelError::SessionExists { session: request.id.clone() }.into());
        }
        let source = self.source(request)?;
        let (from, into) = (self.repo(request.from), self.repo(request.into));
        let park = Park::default();
        // An engine looks for a stored session of the id only behind its boundary: such a fork is
        // not parked, so that its refusal is heard now.
        let is_taken = self.at(request.into).slots.get(&request.id).is_some_and(|it| it.is_stored);
        if is_taken {
            park.release();
        }
        let cx = Context::new().with_observer(Arc::new(park.clone()));
        let (end, its_request) = (park.until_end(), request.clone());
        let thread = std::thread::spawn(move || {
            let _end = end;
            fork_unopened(&*from, &source, &*into, &its_request, &cx)
        });
        let arrival = park.wait();
        let underway = Underway { request: request.clone(), park, thread };
        if is_taken || arrival == Arrival::Ended {
            let forked = underway.join()?;
            self.at(request.into).insert_closed(forked);
        } else {
            self.forks.insert(ticket, underway);
        }
        Ok(())
    }

    fn finish(&mut self, ticket: u64, open: bool) -> Result<()> {
        let Some(underway) = self.forks.remove(&ticket) else {
            let session = SessionId::new(format!("fork ticket {ticket}"))?;
            return Err(ModelError::UnknownSession { session }.into());
        };
        let ForkRequest { into, id, created_at, .. } = underway.request.clone();
        self.clock.set(created_at);
        let forked = underway.join()?;
        self.at(into).insert_closed(forked);
        if open { self.open(into, &id) } else { Ok(()) }
    }

    /// The source as a caller has it: its handle while it is open, else its reference.
    fn source(&self, request: &ForkRequest) -> Result<Source> {
        let repo = self.at_ref(request.from);
        let known = repo.slots.get(&request.source);
        match known {
            Some(Slot { session: Some(session), is_open: true, .. }) if !request.closed => {
                Ok(Source::Open(session.clone()))
            }
            Some(slot) if slot.is_stored => Ok(Source::Stored(slot.reference.clone())),
            // There is nothing to name the source with: a caller gets no further. One who has
            // a reference from before it was deleted does, and hears it from the engine, unless
            // the destination's id is refused first.
            Some(slot) if !self.is_taken(request.into, &request.id) => {
                Ok(Source::Stored(slot.reference.clone()))
            }
            _ => Err(ModelError::UnknownSession { session: request.source.clone() }.into()),
        }
    }

    /// Whether a session of that id is stored or being made.
    fn is_taken(&self, repo: RepoIndex, id: &SessionId) -> bool {
        let mut underway = self.forks.values().map(|fork| &fork.request);
        self.at_ref(repo).slots.get(id).is_some_and(|slot| slot.is_stored)
            || underway.any(|other| other.into == repo && other.id == *id)
    }

    // ---- looking things up ----

    fn at(&mut self, repo: RepoIndex) -> &mut LocalRepo {
        self.repos.get_mut(repo).expect("run checks the repositories of an operation")
    }

    fn at_ref(&self, repo: RepoIndex) -> &LocalRepo {
        self.repos.get(repo).expect("run checks the repositories of an operation")
    }

    fn repo(&self, repo: RepoIndex) -> Arc<dyn Repo> {
        Arc::clone(&self.at_ref(repo).repo)
    }

    /// The handle of a stored session, which may be closed.
    fn session(&mut self, repo: RepoIndex, id: &SessionId) -> Result<Session> {
        let slot = self.at(repo).stored(id)?;
        let never_opened = || Error::Model(ModelError::Closed { session: id.clone() });
        slot.session.clone().ok_or_else(never_opened)
    }

    fn require_repos(&self, op: &Op) -> Result<(), Fault> {
        match op.repos().into_iter().find(|&repo| repo >= self.repos.len()) {
            Some(repo) => Err(Fault::new(format!(
                "the operation names repository {repo}, and there are {}",
                self.repos.len()
            ))),
            None => Ok(()),
        }
    }
}

impl LocalRepo {
    fn new(
        kind: EngineKind,
        capabilities: Capabilities,
        repo: Arc<dyn Repo>,
        root: PathBuf,
    ) -> Self {
        let (slots, planted) = (BTreeMap::new(), BTreeSet::new());
        Self { kind, capabilities, repo, root, slots, planted }
    }

    fn reference(&self, id: &SessionId) -> SessionRef {
        match self.slots.get(id) {
            Some(slot) => slot.reference.clone(),
            None => engine::nowhere(self.kind, &self.root.join(SESSIONS), id),
        }
    }

    /// What is known of a stored session.
    ///
    /// # Errors
    /// *Unknown session*: there is nothing to ask an engine with.
    fn stored(&mut self, id: &SessionId) -> Result<&mut Slot> {
        let slot = self.slots.get_mut(id).filter(|slot| slot.is_stored);
        slot.ok_or_else(|| ModelError::UnknownSession { session: id.clone() }.into())
    }

    fn insert_open(&mut self, session: Session) {
        let reference = session.reference().clone();
        let id = reference.metadata.id.clone();
        let slot = Slot { reference, session: Some(session), is_stored: true, is_open: true };
        self.slots.insert(id, slot);
    }

    fn insert_closed(&mut self, reference: SessionRef) {
        let id = reference.metadata.id.clone();
        let slot = Slot { reference, session: None, is_stored: true, is_open: false };
        self.slots.insert(id, slot);
    }
}

impl Underway {
    /// Lets the fork go on and waits for its end. A panic goes on here.
    fn join(self) -> Result<SessionRef> {
        self.park.release();
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn name_of(repos: &[LocalRepo]) -> String {
    let names: Vec<&str> = repos.iter().map(|repo| repo.kind.as_str()).collect();
    names.join("+")
}

fn fork_unopened(
    from: &dyn Repo,
    source: &Source,
    into: &dyn Repo,
    request: &ForkRequest,
    cx: &Context,
) -> Result<SessionRef> {
    let options = request.options();
    let forked = match source {
        Source::Open(source) => into.fork_unopened(source, &options, cx)?,
        Source::Stored(source) if request.from == request.into => {
            into.fork_closed_unopened(source, &options, cx)?
        }
        Source::Stored(source) => transfer::fork_unopened(from, source, into, &options, cx)?,
    };
    Ok(forked.reference)
}

impl Drop for LocalDriver {
    fn drop(&mut self) {
        for (_, underway) in std::mem::take(&mut self.forks) {
            underway.park.release();
            // Its outcome, a panic included, is nobody's any more.
            let _ = underway.thread.join();
        }
    }
}
