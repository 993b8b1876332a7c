//! One driver before the judge: every step is held against the model (GATE.md, oracles 1 to 3
//! and 5).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use forkline_model::diff::{Compare, JsonEquality, diff};
use forkline_model::{Answer, ForkRequest, Json, Metadata, Op, RepoIndex, SessionId, World};

use super::generate::SOURCES;
use crate::driver::{Capabilities, Driver, Fault, Feature, FolderListing, SourceEvidence};

/// Which promise was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Oracle {
    /// Answers and error kinds are the model's.
    Answer,
    /// What a session holds is what the model's does.
    State,
    /// A fork leaves its source's bytes alone.
    Source,
    /// Nothing is left behind, and nothing but the destination appears.
    Folder,
    /// Forks of forks and forks of sources agree.
    Algebra,
    /// The engine goes on working at all.
    Alive,
}

impl Oracle {
    /// A short name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::State => "state",
            Self::Source => "source",
            Self::Folder => "folder",
            Self::Algebra => "algebra",
            Self::Alive => "alive",
        }
    }
}

/// An engine that differs from the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which promise.
    pub oracle: Oracle,
    /// The driver's name.
    pub engine: String,
    /// The step, counted from 0; steps behind the last operation are the closing examination.
    pub step: usize,
    /// The operation, as JSON.
    pub op: String,
    /// What differs.
    pub difference: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { oracle, engine, step, op, difference } = self;
        let oracle = oracle.name();
        write!(f, "{engine}, step {step} ({oracle})\n  {op}\n  {difference}")
    }
}

/// A driver with what has to be remembered of its forks.
pub(super) struct Judge {
    driver: Box<dyn Driver>,
    /// The forks under way.
    tickets: BTreeMap<u64, ForkRequest>,
}

/// What stood on the disk before a step.
struct Before {
    request: Option<ForkRequest>,
    evidence: SourceEvidence,
    /// The file of the session at hand, if it may be a legacy one.
    legacy: Option<(ForkRequest, SourceEvidence)>,
    folders: BTreeMap<RepoIndex, FolderListing>,
    /// The file of a session that is about to go.
    home: Option<std::path::PathBuf>,
}

type Verdict<T = ()> = Result<T, (Oracle, String)>;

impl Judge {
    pub(super) fn new(driver: Box<dyn Driver>) -> Self {
        Self { driver, tickets: BTreeMap::new() }
    }

    pub(super) fn name(&self) -> String {
        self.driver.name()
    }

    /// The engine of one repository.
    pub(super) fn engine(&self, repo: RepoIndex) -> String {
        if repo == SOURCES {
            return "sources".to_owned();
        }
        let name = self.name();
        name.split('+').nth(repo).unwrap_or(&name).to_owned()
    }

    pub(super) fn can_run(&self, op: &Op) -> Result<(), Feature> {
        let missing = repos_of(op).into_iter().find_map(|repo| {
            let capabilities = self.driver.capabilities(repo);
            if repo == SOURCES && !capabilities.has(Feature::Legacy) {
                return Some(Feature::Legacy);
            }
            capabilities.missing_for(op)
        });
        missing.map_or(Ok(()), Err)
    }

    /// Runs one operation and holds what comes of it against the model, which has run it.
    pub(super) fn step(
        &mut self,
        step: usize,
        op: &Op,
        expected: &Answer,
        world: &World,
    ) -> Result<(), Violation> {
        self.judged(op, expected, world).map_err(|found| self.violation(step, op, found))
    }

    fn violation(&self, step: usize, op: &Op, (oracle, difference): (Oracle, String)) -> Violation {
        let op = shown(&serde_json::to_string(op).unwrap_or_else(|error| error.to_string()));
        Violation { oracle, engine: self.name(), step, op, difference }
    }

    fn judged(&mut self, op: &Op, expected: &Answer, world: &World) -> Verdict {
        let before = self.look(op)?;
        let got = self.run(op)?;
        if let (Op::ForkBegin { ticket, request }, Answer::Done) = (op, &got) {
            self.tickets.insert(*ticket, request.clone());
        }
        self.compare_answers(op, expected, &got)?;
        self.check_evidence(&before)?;
        self.check_legacy(op, &before, world)?;
        self.check_folders(op, expected, &before)?;
        for (repo, session) in touched(op, before.request.as_ref()) {
            self.check_state(repo, &session, world)?;
        }
        Ok(())
    }

    fn run(&mut self, op: &Op) -> Verdict<Answer> {
        let driver = &mut self.driver;
        match catch_unwind(AssertUnwindSafe(|| driver.run(op))) {
            Ok(answer) => answer.map_err(alive),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                Err((Oracle::Alive, format!("panicked: {}", text.unwrap_or("no message"))))
            }
        }
    }

    // ---- answers and states ----

    fn compare_answers(&self, op: &Op, expected: &Answer, got: &Answer) -> Verdict {
        let capabilities = repos_of(op).first().map(|repo| self.driver.capabilities(*repo));
        let is_same = match capabilities {
            Some(capabilities) => same_answer(expected, got, capabilities),
            None => expected == got,
        };
        if is_same {
            return Ok(());
        }
        let said = match (got, self.driver.last_error()) {
            (Answer::Error { .. }, Some(message)) => format!("\n  it said: {message}"),
            _ => String::new(),
        };
        let (expected, got) = (shown(&json_of(expected)), shown(&json_of(got)));
        Err((Oracle::Answer, format!("the model answers {expected}\n  the engine   {got}{said}")))
    }

    /// Holds an open session against the model's; one that is not open in the model is passed by.
    pub(super) fn check_state(
        &mut self,
        repo: RepoIndex,
        session: &SessionId,
        world: &World,
    ) -> Verdict {
        let Ok(expected) = world.open_state(repo, session) else { return Ok(()) };
        let in_state = |fault: Fault| {
            (Oracle::State, format!("session {session} of repository {repo}: {fault}"))
        };
        let driver = &mut self.driver;
        let got = catch_unwind(AssertUnwindSafe(|| driver.dump(repo, session)))
            .unwrap_or_else(|_| Err(Fault::new("panicked while it was read")))
            .map_err(in_state)?;
        let capabilities = self.driver.capabilities(repo);
        let got = if capabilities.has(Feature::Cwd) {
            got
        } else {
            let cwd = expected.metadata().cwd.clone();
            let metadata = Metadata { cwd, ..got.metadata().clone() };
            got.with_metadata(metadata)
        };
        if got == *expected {
            return Ok(());
        }
        let found = diff(expected, &got, &compare(capabilities));
        if found.is_empty() {
            return Ok(());
        }
        let found = found.to_string().replace('\n', "\n    ");
        Err((
            Oracle::State,
            format!("session {session} of repository {repo}, model != engine:\n    {found}"),
        ))
    }

    /// Holds every open session, and reads that cut across it, against the model.
    pub(super) fn survey(
        &mut self,
        step: usize,
        sessions: &[(RepoIndex, SessionId)],
        reads: &[(Op, Answer)],
        world: &World,
    ) -> Result<(), Violation> {
        for (repo, session) in sessions {
            let what = Op::Read {
                repo: *repo,
                session: session.clone(),
                read: forkline_model::ReadOp::Metadata,
            };
            self.check_state(*repo, session, world)
                .map_err(|found| self.violation(step, &what, found))?;
        }
        for (op, expected) in reads {
            if self.can_run(op).is_err() {
                continue;
            }
            let got = self.run(op).and_then(|got| self.compare_answers(op, expected, &got));
            got.map_err(|found| self.violation(step, op, found))?;
        }
        Ok(())
    }

    /// Two open sessions that must hold the same, whoever they are.
    pub(super) fn same_content(
        &mut self,
        step: usize,
        op: &Op,
        one: (RepoIndex, &SessionId),
        other: (RepoIndex, &SessionId),
    ) -> Result<(), Violation> {
        let dump = |driver: &mut Box<dyn Driver>, at: (RepoIndex, &SessionId)| {
            driver.dump(at.0, at.1).map_err(alive)
        };
        let compared = dump(&mut self.driver, one).and_then(|left| {
            let right = dump(&mut self.driver, other)?.with_metadata(left.metadata().clone());
            let found = diff(&left, &right, &compare(self.driver.capabilities(other.0)));
            if found.is_empty() {
                return Ok(());
            }
            let what = format!("{} and {} differ:\n{found}", one.1, other.1);
            Err((Oracle::Algebra, what.replace('\n', "\n    ")))
        });
        compared.map_err(|found| self.violation(step, op, found))
    }

    // ---- the disk ----

    fn look(&mut self, op: &Op) -> Verdict<Before> {
        let request = match op {
            Op::Fork { request, .. } | Op::ForkBegin { request, .. } => Some(request.clone()),
            Op::ForkFinish { ticket, .. } => self.tickets.remove(ticket),
            _ => None,
        };
        let mut repos: BTreeSet<RepoIndex> = BTreeSet::new();
        let mut home = None;
        match (&request, op) {
            (Some(request), _) => repos.extend([request.from, request.into]),
            (None, Op::Create { repo, .. } | Op::Plant { repo, .. }) => {
                repos.insert(*repo);
            }
            (None, Op::Delete { repo, session }) => {
                repos.insert(*repo);
                home = self.driver.home(*repo, session);
            }
            _ => {}
        }
        let evidence = match &request {
            Some(request) => self.driver.evidence(request).map_err(alive)?,
            None => SourceEvidence::default(),
        };
        let legacy = match legacy_at(op) {
            Some(at) => Some((at.clone(), self.driver.evidence(&at).map_err(alive)?)),
            None => None,
        };
        let mut folders = BTreeMap::new();
        for repo in repos {
            folders.insert(repo, self.driver.folder(repo).map_err(alive)?);
        }
        Ok(Before { request, evidence, legacy, folders, home })
    }

    fn check_evidence(&mut self, before: &Before) -> Verdict {
        let Some(request) = &before.request else { return Ok(()) };
        let after = self.driver.evidence(request).map_err(alive)?;
        match before.evidence.difference(&after) {
            None => Ok(()),
            Some(what) => Err((Oracle::Source, format!("the fork changed its source: {what}"))),
        }
    }

    /// A session that was not upgraded is the file that was planted, byte for byte.
    fn check_legacy(&mut self, op: &Op, before: &Before, world: &World) -> Verdict {
        let Some((at, bytes)) = &before.legacy else { return Ok(()) };
        let session = world.session(at.from, &at.source);
        if session.is_none_or(|session| session.legacy().is_none()) {
            return Ok(());
        }
        let after = self.driver.evidence(at).map_err(alive)?;
        match bytes.difference(&after) {
            None => Ok(()),
            Some(what) => {
                let name = super::shapes::op_name(op);
                Err((Oracle::Source, format!("{name} changed a legacy file: {what}")))
            }
        }
    }

    fn check_folders(&mut self, op: &Op, expected: &Answer, before: &Before) -> Verdict {
        let is_done = !matches!(expected, Answer::Error { .. });
        let made = match (op, &before.request) {
            (Op::Create { repo, id, .. } | Op::Plant { repo, session: id, .. }, _) if is_done => {
                Some((*repo, id))
            }
            (Op::Fork { .. } | Op::ForkFinish { .. }, Some(request)) if is_done => {
                Some((request.into, &request.id))
            }
            _ => None,
        };
        for (repo, listed) in &before.folders {
            let after = self.driver.folder(*repo).map_err(alive)?;
            let new = made.filter(|(at, _)| at == repo);
            let home = new.and_then(|(repo, id)| self.driver.home(repo, id));
            // A session that opens or closes brings its database's side files or takes them.
            let is_expected = |name: &str| match &home {
                Some(home) => is_home(name, home),
                None => false,
            };
            let is_under_way =
                |name: &str| matches!(op, Op::ForkBegin { .. }) && is_done && is_side_file(name);
            if let Some(name) =
                after.added_since(listed).find(|name| !is_expected(name) && !is_under_way(name))
            {
                let what = if is_done { "something else appeared" } else { "a refusal left" };
                return Err((Oracle::Folder, format!("{what}: {name:?}")));
            }
            if let Some(home) = home.filter(|home| !after.0.contains(&*home.to_string_lossy())) {
                return Err((Oracle::Folder, format!("{} is not there", home.display())));
            }
            check_gone(op, is_done, before, listed, &after)?;
        }
        Ok(())
    }

    /// With every session closed: what is left is what holds them.
    pub(super) fn check_rest(
        &mut self,
        step: usize,
        op: &Op,
        sessions: &[(RepoIndex, SessionId)],
        repos: usize,
    ) -> Result<(), Violation> {
        for repo in 0..repos {
            let homes: BTreeSet<_> = sessions
                .iter()
                .filter(|(at, _)| *at == repo)
                .filter_map(|(at, id)| self.driver.home(*at, id))
                .collect();
            let folder = self.driver.folder(repo).map_err(alive);
            let folder = folder.map_err(|found| self.violation(step, op, found))?;
            // Who opens a container to write takes its side files away when he leaves. Where no
            // session is left to open, the last one may have been a fork, which only reads.
            let may_keep_sides = homes.is_empty();
            let is_known = |name: &str| {
                name.ends_with('/')
                    || homes.contains(Path::new(name))
                    || is_container(name)
                    || (may_keep_sides && is_side_of_container(name))
            };
            if let Some(name) = folder.0.iter().find(|name| !is_known(name)) {
                let found = (Oracle::Folder, format!("left with all sessions closed: {name:?}"));
                return Err(self.violation(step, op, found));
            }
        }
        Ok(())
    }
}

fn check_gone(
    op: &Op,
    is_done: bool,
    before: &Before,
    listed: &FolderListing,
    after: &FolderListing,
) -> Verdict {
    let is_delete = matches!(op, Op::Delete { .. }) && is_done;
    let may_go = |name: &str| {
        is_side_file(name)
            || (is_delete && before.home.as_ref().is_some_and(|home| is_home(name, home)))
    };
    if let Some(name) = listed.added_since(after).find(|name| !may_go(name)) {
        return Err((Oracle::Folder, format!("{name:?} is gone")));
    }
    Ok(())
}

fn alive(fault: Fault) -> (Oracle, String) {
    (Oracle::Alive, fault.0)
}

fn compare(capabilities: &Capabilities) -> Compare {
    let json = if capabilities.has(Feature::ExactJson) {
        JsonEquality::Exact
    } else {
        JsonEquality::AsDoubles
    };
    Compare { json, cwd: capabilities.has(Feature::Cwd), ..Compare::default() }
}

fn same_answer(expected: &Answer, got: &Answer, capabilities: &Capabilities) -> bool {
    if expected == got {
        return true;
    }
    let (expected, got) = if capabilities.has(Feature::Cwd) {
        (expected.clone(), got.clone())
    } else {
        (without_cwd(expected), without_cwd(got))
    };
    if capabilities.has(Feature::ExactJson) {
        return expected == got;
    }
    let json = |answer: &Answer| Json::parse(&json_of(answer));
    matches!((json(&expected), json(&got)), (Ok(left), Ok(right)) if left.equals_as_doubles(&right))
}

fn without_cwd(answer: &Answer) -> Answer {
    let bare = |metadata: &Metadata| Metadata { cwd: None, ..metadata.clone() };
    match answer {
        Answer::Metadata(metadata) => Answer::Metadata(bare(metadata)),
        Answer::Sessions(sessions) => Answer::Sessions(sessions.iter().map(bare).collect()),
        // Scopes do not nest.
        Answer::Scope { reads, attempts } => Answer::Scope {
            reads: reads.iter().map(without_cwd).collect(),
            attempts: attempts.clone(),
        },
        other => other.clone(),
    }
}

fn json_of(answer: &Answer) -> String {
    serde_json::to_string(answer).unwrap_or_else(|error| error.to_string())
}

/// Enough of a JSON text for a person.
fn shown(text: &str) -> String {
    const CHARS: usize = 600;
    match text.char_indices().nth(CHARS) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// The repositories whose abilities an operation and its answer depend on.
fn repos_of(op: &Op) -> Vec<RepoIndex> {
    let named = op.repos();
    if named.is_empty() { vec![0] } else { named }
}

/// Where the file of a legacy session is to be looked at before and after an operation that may
/// upgrade it, as the source of a fork.
fn legacy_at(op: &Op) -> Option<ForkRequest> {
    let (repo, session) = match touched(op, None).pop() {
        Some(touched) => touched,
        None => match op {
            Op::Close { repo, session } | Op::Read { repo, session, .. } => {
                (*repo, session.clone())
            }
            _ => return None,
        },
    };
    (repo == SOURCES).then(|| ForkRequest {
        from: repo,
        source: session.clone(),
        into: repo,
        id: session,
        scope: forkline_model::Scope::Tree,
        created_at: forkline_model::Millis::EPOCH,
        cwd: None,
        closed: true,
    })
}

/// The sessions that an operation may have changed, the source of a fork included.
fn touched(op: &Op, request: Option<&ForkRequest>) -> Vec<(RepoIndex, SessionId)> {
    match (request, op) {
        (Some(request), _) => {
            vec![(request.from, request.source.clone()), (request.into, request.id.clone())]
        }
        (None, Op::Create { repo, id, .. }) => vec![(*repo, id.clone())],
        (
            None,
            Op::Open { repo, session }
            | Op::Reopen { repo, session }
            | Op::Commit { repo, session, .. }
            | Op::Mutate { repo, session, .. }
            | Op::CreateBranch { repo, session, .. }
            | Op::Append { repo, session, .. }
            | Op::SetName { repo, session, .. }
            | Op::SetLabel { repo, session, .. },
        ) => vec![(*repo, session.clone())],
        _ => Vec::new(),
    }
}

/// Whether a name is the file of a session, beside it, or a folder above it.
fn is_home(name: &str, home: &Path) -> bool {
    let file = home.to_string_lossy();
    name == file
        || (is_side_file(name) && name.starts_with(&*file))
        || name.strip_suffix('/').is_some_and(|folder| home.starts_with(folder))
}

/// What stands beside a database while it is open.
fn is_side_file(name: &str) -> bool {
    name.ends_with("-wal") || name.ends_with("-shm")
}

fn is_side_of_container(name: &str) -> bool {
    let sides = ["-wal", "-shm"];
    sides.iter().any(|side| name.strip_suffix(side).is_some_and(is_container))
}

fn is_container(name: &str) -> bool {
    Path::new(name).file_name().is_some_and(|name| name == crate::driver::SHARED_CONTAINER)
}

/// A panic outside of any engine.
pub(super) fn of_the_gate() -> Violation {
    Violation {
        oracle: Oracle::Alive,
        engine: "the gate itself".to_owned(),
        step: 0,
        op: "unknown".to_owned(),
        difference: "it panicked; the message is above".to_owned(),
    }
}
