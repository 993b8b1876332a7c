//! One driver before the judge: every step is held against the model (GATE.md, oracles 1 to 3
//! and 5); what it does to the disk is held in [`disk`].

mod disk;

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use forkline_model::diff::{Compare, JsonEquality, diff};
use forkline_model::{Answer, ForkRequest, Json, Metadata, Op, RepoIndex, SessionId, World};

use super::generate::SOURCES;
use crate::driver::{Capabilities, Driver, Fault, Feature};

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
    /// What files hold for who reads them without the engine is what the model's session does.
    File,
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
            Self::File => "file",
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
        if *expected == Answer::Done {
            self.check_made(op, &before, world)?;
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
