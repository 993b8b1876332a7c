//! The asking side: a program that speaks the protocol, as a driver of the gate.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use forkline_model::{
    Answer, ErrorKind, ForkRequest, Json, LaneAudit, Metadata, Op, ReadOp, RepoIndex, SessionId,
    State, StateBuilder, Stats,
};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::PROTOCOL_VERSION;
use super::command::ProtocolCommand;
use super::compose;
use super::message::{Dumped, Hello, Optional, Refusal, RefusalKind, Row, Welcome};
use super::process::Process;
use crate::driver::{Capabilities, Driver, Fault, Feature, FolderListing, SourceEvidence, Stored};

/// A program that speaks the protocol.
///
/// One process serves as many repositories as it says. Where that are fewer than are asked for,
/// there are several processes, and forks from one into another are a feature that is missing.
///
/// What stands on the disk is the program's own affair: [`Driver::evidence`] and
/// [`Driver::folder`] show nothing.
pub struct ProtocolDriver {
    processes: Vec<Process>,
    welcome: Welcome,
    /// What each repository can do, by index.
    capabilities: Vec<Capabilities>,
    /// The processes of the forks under way.
    tickets: BTreeMap<u64, usize>,
    last_error: Option<String>,
}

impl ProtocolDriver {
    /// Starts the program and greets it. `{dir}` in the command stands for a new folder below
    /// `folder`, which the caller removes; `cwd` is what forks get whose source has no working
    /// directory.
    ///
    /// # Errors
    /// It does not start, speaks another version, or has sessions already: its sequences would
    /// not be repeatable, and nobody's sessions are for playing with.
    pub fn start(
        command: &ProtocolCommand,
        folder: &Path,
        repos: RepoIndex,
        audit: LaneAudit,
        cwd: &str,
    ) -> Result<Self, Fault> {
        let hello =
            Hello { protocol: PROTOCOL_VERSION, lane_audit: audit, cwd: Some(cwd.to_owned()) };
        let (first, welcome) = greet(command, &folder.join("0"), &hello)?;
        let each = welcome.repositories.len();
        let mut processes = vec![first];
        while processes.len() * each < repos {
            let folder = folder.join(processes.len().to_string());
            processes.push(greet(command, &folder, &hello)?.0);
        }
        let features = |repo: RepoIndex| {
            let has = welcome.repositories.get(repo % each).cloned().unwrap_or_default();
            // There is no request that plants a file.
            let has = has.but(Feature::Legacy);
            if processes.len() == 1 { has } else { has.but(Feature::Repositories) }
        };
        let capabilities = (0..processes.len() * each).map(features).collect();
        let tickets = BTreeMap::new();
        let mut driver = Self { processes, welcome, capabilities, tickets, last_error: None };
        driver.require_empty()?;
        Ok(driver)
    }

    fn require_empty(&mut self) -> Result<(), Fault> {
        for repo in 0..self.capabilities.len() {
            if !self.capabilities(repo).has(Feature::Listing) {
                continue;
            }
            let stored = self.run(&Op::List { repo })?;
            if stored != Answer::Sessions(Vec::new()) {
                return Err(Fault::new(format!(
                    "the engine is not empty when it starts: let its command name its folder \
                     {{dir}}, which is fresh each time (repository {repo})"
                )));
            }
        }
        Ok(())
    }

    fn offers(&self, optional: Optional) -> bool {
        self.welcome.optional.contains(&optional)
    }

    fn dispatch(&mut self, op: &Op) -> Result<Answer, Fault> {
        match op {
            Op::Mutate { .. } => self.mutate(op),
            Op::Reopen { repo, session } => self.reopen(*repo, session),
            Op::TearTail { repo, session, text }
                if !self.capabilities(*repo).has(Feature::TornTails) =>
            {
                self.tear_nothing(*repo, session, text)
            }
            Op::CreateBranch { .. } if !self.offers(Optional::CreateBranch) => self.composed(op),
            Op::Append { .. } if !self.offers(Optional::Append) => self.composed(op),
            Op::SetName { .. } if !self.offers(Optional::SetName) => self.composed(op),
            Op::SetLabel { .. } if !self.offers(Optional::SetLabel) => self.composed(op),
            _ => self.send(op),
        }
    }

    // ---- one request ----

    /// Sends an operation as it stands.
    fn send(&mut self, op: &Op) -> Result<Answer, Fault> {
        let process = self.process_of(op)?;
        let op = compose::within(op, self.welcome.repositories.len());
        let text = serde_json::to_string(&op).map_err(|error| Fault::new(error.to_string()))?;
        let name = name_of(&text);
        let answer = self.ask(process, &name, text)?;
        if let (Op::ForkBegin { ticket, .. }, Answer::Done) = (&op, &answer) {
            self.tickets.insert(*ticket, process);
        }
        Ok(answer)
    }

    /// Begins or ends a scope.
    fn scope(&mut self, what: &str, repo: RepoIndex, id: &SessionId) -> Result<Answer, Fault> {
        let (process, repo) = self.place(repo)?;
        self.ask(process, what, json!({ what: { "repo": repo, "session": id } }).to_string())
    }

    fn ask(&mut self, process: usize, name: &str, op: String) -> Result<Answer, Fault> {
        let called = self.process(process)?.call(name, op, &mut |_| Err(unasked_row()))?;
        match called {
            Ok(ok) => read(name, &ok),
            Err(refusal) => self.refused(name, &refusal),
        }
    }

    /// A refusal of the engine is an answer; one of the protocol is a failure.
    fn refused(&mut self, name: &str, refusal: &Refusal) -> Result<Answer, Fault> {
        match refusal.kind {
            RefusalKind::Engine(kind) => {
                self.last_error = Some(refusal.message.clone());
                Ok(Answer::Error { kind })
            }
            RefusalKind::Protocol(_) => {
                Err(Fault::new(format!("the engine did not take {name}: {refusal}")))
            }
        }
    }

    /// Which process an operation goes to; forgets the ticket of a fork that is finished.
    fn process_of(&mut self, op: &Op) -> Result<usize, Fault> {
        if let Op::ForkFinish { ticket, .. } = op {
            return Ok(self.tickets.remove(ticket).unwrap_or(0));
        }
        if let Op::ForkBegin { ticket, .. } = op
            && let Some(process) = self.tickets.get(ticket)
        {
            // Who has the ticket refuses a second use.
            return Ok(*process);
        }
        Ok(self.place(compose::repo_of(op).unwrap_or_default())?.0)
    }

    /// The process of a repository, and its index there.
    fn place(&self, repo: RepoIndex) -> Result<(usize, RepoIndex), Fault> {
        let each = self.welcome.repositories.len();
        if repo >= self.capabilities.len() {
            return Err(Fault::new(format!("there is no repository {repo}")));
        }
        Ok((repo / each, repo % each))
    }

    fn process(&mut self, index: usize) -> Result<&mut Process, Fault> {
        let missing = || Fault::new(format!("there is no process {index}"));
        self.processes.get_mut(index).ok_or_else(missing)
    }

    // ---- operations that are several requests ----

    fn mutate(&mut self, op: &Op) -> Result<Answer, Fault> {
        let Op::Mutate { repo, session, reads, attempts, timestamp } = op else {
            unreachable!("only a mutation comes here");
        };
        let begun = self.scope("begin", *repo, session)?;
        if begun != Answer::Done {
            return Ok(begun);
        }
        let mut answers = Vec::new();
        for read in reads {
            answers.push(self.read(*repo, session, read.clone())?);
        }
        let mut attempted = Vec::new();
        for writes in attempts {
            let op = compose::commit(*repo, session, writes.clone(), *timestamp);
            attempted.push(self.send(&op)?);
        }
        match self.scope("end", *repo, session)? {
            Answer::Done => Ok(Answer::Scope { reads: answers, attempts: attempted }),
            other => Err(Fault::new(format!("the scope did not end: {other:?}"))),
        }
    }

    pub(super) fn read(
        &mut self,
        repo: RepoIndex,
        session: &SessionId,
        read: ReadOp,
    ) -> Result<Answer, Fault> {
        self.send(&Op::Read { repo, session: session.clone(), read })
    }

    fn reopen(&mut self, repo: RepoIndex, session: &SessionId) -> Result<Answer, Fault> {
        let closed = self.send(&Op::Close { repo, session: session.clone() })?;
        match closed {
            Answer::Done => self.send(&Op::Open { repo, session: session.clone() }),
            refused => Ok(refused),
        }
    }

    /// What a torn tail means to an engine without one: nothing, where it could be.
    fn tear_nothing(
        &mut self,
        repo: RepoIndex,
        session: &SessionId,
        text: &str,
    ) -> Result<Answer, Fault> {
        if text.contains('\n') {
            return Ok(self.refuse(ErrorKind::InvalidPayload, "a torn tail has no line break"));
        }
        Ok(match self.read(repo, session, ReadOp::NextSeq)? {
            Answer::Error { kind: ErrorKind::Closed } => Answer::Done,
            Answer::Error { kind } => Answer::Error { kind },
            _ => self.refuse(ErrorKind::AlreadyOpen, "only a closed session has a torn tail"),
        })
    }

    /// A refusal that does not come from the engine itself.
    pub(super) fn refuse(&mut self, kind: ErrorKind, message: impl Into<String>) -> Answer {
        self.last_error = Some(message.into());
        Answer::Error { kind }
    }

    /// A convenience that the engine does not offer: reads, and one commit.
    fn composed(&mut self, op: &Op) -> Result<Answer, Fault> {
        match compose::writes(self, op)? {
            Ok((repo, session, writes, timestamp)) => {
                self.send(&compose::commit(repo, session, writes, timestamp))
            }
            Err(refused) => Ok(refused),
        }
    }
}

impl Driver for ProtocolDriver {
    fn name(&self) -> String {
        self.welcome.engine.clone()
    }

    fn capabilities(&self, repo: RepoIndex) -> &Capabilities {
        static NOTHING: Capabilities = Capabilities::none();
        self.capabilities.get(repo).unwrap_or(&NOTHING)
    }

    fn run(&mut self, op: &Op) -> Result<Answer, Fault> {
        self.last_error = None;
        let answer = self.dispatch(op)?;
        if !matches!(answer, Answer::Error { .. }) {
            // It belonged to a part of the operation.
            self.last_error = None;
        }
        Ok(answer)
    }

    fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    fn dump(&mut self, repo: RepoIndex, session: &SessionId) -> Result<State, Fault> {
        let (process, repo) = self.place(repo)?;
        let op = json!({ "dump": { "repo": repo, "session": session } }).to_string();
        let mut rows = Rows::default();
        let called = self.process(process)?.call("dump", op, &mut |row| rows.take(&row))?;
        let ok = called.map_err(|refusal| Fault::new(refusal.to_string()))?;
        rows.finish(read("dump", &ok)?)
    }

    fn evidence(&mut self, _request: &ForkRequest) -> Result<SourceEvidence, Fault> {
        Ok(SourceEvidence::default())
    }

    fn folder(&mut self, _repo: RepoIndex) -> Result<FolderListing, Fault> {
        Ok(FolderListing::default())
    }

    fn home(&self, _repo: RepoIndex, _session: &SessionId) -> Option<PathBuf> {
        None
    }

    fn stored(&mut self, _repo: RepoIndex, _wanted: &[SessionId]) -> Result<Vec<Stored>, Fault> {
        Ok(Vec::new())
    }
}

fn greet(
    command: &ProtocolCommand,
    folder: &Path,
    hello: &Hello,
) -> Result<(Process, Welcome), Fault> {
    let mut process = Process::start(command, folder)?;
    let op = json!({ "hello": hello }).to_string();
    let welcome = process.call("hello", op, &mut |_| Err(unasked_row()))?;
    let welcome = welcome.map_err(|refusal| Fault::new(format!("hello was refused: {refusal}")))?;
    let welcome: Welcome = read("hello", &welcome)?;
    if welcome.protocol != PROTOCOL_VERSION {
        let Welcome { protocol, engine, .. } = welcome;
        let what = format!("{engine} speaks version {protocol} of the protocol");
        return Err(Fault::new(format!("{what}, and this is {PROTOCOL_VERSION}")));
    }
    if welcome.repositories.is_empty() {
        return Err(Fault::new(format!("{} has no repository", welcome.engine)));
    }
    Ok((process, welcome))
}

fn read<T: DeserializeOwned>(name: &str, ok: &Json) -> Result<T, Fault> {
    serde_json::from_str(ok.as_str()).map_err(|error| {
        let shown = forkline_model::address::shortened(ok.as_str());
        Fault::new(format!("the answer to {name} cannot be read ({error}): {shown}"))
    })
}

fn unasked_row() -> Fault {
    Fault::new("sent a row, and none was asked for")
}

/// The name in an operation's JSON, for messages.
fn name_of(op: &str) -> String {
    op.split('"').nth(1).unwrap_or_default().to_owned()
}

fn add(builder: &mut StateBuilder, row: Row) {
    match row {
        Row::Session { .. } => unreachable!("it is no row of a state"),
        Row::Entry(entry) => builder.entry(entry),
        Row::Usage(row) => builder.usage(row),
        Row::Value { address, seq, value } => builder.value(address, seq, value),
        Row::Element { address, seq, value } => builder.element(address, seq, value),
    };
}

/// The rows of a dump as they come.
#[derive(Default)]
struct Rows {
    count: u64,
    session: Option<(StateBuilder, Stats, Metadata)>,
}

impl Rows {
    fn take(&mut self, row: &Json) -> Result<(), Fault> {
        self.count += 1;
        match (&mut self.session, read("dump", row)?) {
            (Some(_), Row::Session { .. }) => return Err(Fault::new("dumped a second session")),
            (none, Row::Session { metadata, next_seq, stats }) => {
                let builder = StateBuilder::new(metadata.clone(), next_seq);
                *none = Some((builder, stats, metadata));
            }
            (None, _) => return Err(Fault::new("dumped a row before the session")),
            (Some((builder, ..)), row) => add(builder, row),
        }
        Ok(())
    }

    fn finish(self, dumped: Dumped) -> Result<State, Fault> {
        if dumped.rows != self.count {
            let (said, sent) = (dumped.rows, self.count);
            return Err(Fault::new(format!("the dump says {said} rows, and there were {sent}")));
        }
        let Some((builder, said, metadata)) = self.session else {
            return Err(Fault::new("the dump has no session"));
        };
        let state = builder.finish().map_err(|error| {
            Fault::new(format!("the rows of session {} make none: {error}", metadata.id))
        })?;
        let counted = state.stats();
        if said != counted {
            return Err(Fault::new(format!("stats say {said:?}, a recount {counted:?}")));
        }
        Ok(state)
    }
}
