//! The serving side: one connection, answered request by request.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};

use forkline_engines::{Context, Environment, Mutation, RepoOptions, StateRow};
use forkline_model::{Answer, ErrorKind, Op, RepoIndex};
use serde::Serialize;

use super::lines::{Line, next_line};
use super::message::{Dumped, Hello, Optional, ProtocolError, Refusal, Row, Welcome};
use super::request::{Request, Target, parse};
use super::{LINE_BYTES_MAX, PROTOCOL_VERSION};
use crate::driver::{Driver, Feature, LocalDriver, OpenRepo};

/// Opens the repositories of a connection with options that carry its clock and what its
/// greeting asks for.
pub type OpenRepos = Box<dyn FnOnce(RepoOptions) -> Result<Vec<OpenRepo>, forkline_engines::Error>>;

/// Answers the requests of `input` on `output`, one line each and in order, until the input ends.
///
/// # Errors
/// The streams fail. A request that is refused is no error here.
pub fn serve(mut input: impl BufRead, mut output: impl Write, open: OpenRepos) -> io::Result<()> {
    let mut connection = Connection::new(open);
    loop {
        match next_line(&mut input, LINE_BYTES_MAX)? {
            Line::Bytes(line) => connection.answer(&line, &mut output)?,
            Line::TooLong => Connection::refuse_long(&mut output)?,
            Line::End => return Ok(()),
        }
    }
}

/// What a client has: repositories, open sessions, forks under way and scopes. Dropping it ends
/// all of them, as the end of a connection does.
pub struct Connection {
    // Before the sessions: one that closes waits for its scope.
    scopes: BTreeMap<Target, Mutation>,
    stage: Stage,
}

enum Stage {
    /// Nothing was said yet.
    New(OpenRepos),
    Greeted(Box<LocalDriver>),
    /// The repositories could not be opened.
    Unusable,
}

/// What a request gave.
enum Reply {
    Welcome(Welcome),
    Answer(Answer),
    Dumped(Dumped),
    /// A scope that ends once the client was told.
    Ended(Option<Mutation>),
}

impl Connection {
    /// Before the greeting.
    pub fn new(open: OpenRepos) -> Self {
        Self { scopes: BTreeMap::new(), stage: Stage::New(open) }
    }

    /// Answers one line.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn answer(&mut self, line: &[u8], output: &mut dyn Write) -> io::Result<()> {
        let (id, request) = parse(line);
        let reply = match request {
            Ok(request) => self.run(id, request, output)?,
            Err(refusal) => Err(refusal),
        };
        match &reply {
            Ok(Reply::Welcome(welcome)) => write(output, id, "ok", welcome)?,
            Ok(Reply::Answer(answer)) => write(output, id, "ok", answer)?,
            Ok(Reply::Dumped(dumped)) => write(output, id, "ok", dumped)?,
            Ok(Reply::Ended(_)) => write(output, id, "ok", &Answer::Done)?,
            Err(refusal) => write(output, id, "error", refusal)?,
        }
        output.flush()?;
        if let Ok(Reply::Ended(scope)) = reply {
            // Only now does the line go to the next: the client was told.
            drop(scope);
        }
        Ok(())
    }

    fn refuse_long(output: &mut impl Write) -> io::Result<()> {
        let what = format!("the line is longer than {LINE_BYTES_MAX} bytes");
        let refusal = Refusal::protocol(ProtocolError::LineTooLong, what);
        write(output, None, "error", &refusal)?;
        output.flush()
    }

    fn run(
        &mut self,
        id: Option<u64>,
        request: Request,
        output: &mut dyn Write,
    ) -> io::Result<Result<Reply, Refusal>> {
        if let Request::Hello(hello) = request {
            return Ok(self.hello(hello).map(Reply::Welcome));
        }
        let Stage::Greeted(driver) = &mut self.stage else {
            return Ok(Err(out_of_order("hello comes first")));
        };
        if let Request::Begin(at) | Request::Dump(at) = &request
            && at.repo >= driver.repo_count()
        {
            let what = format!("there are {} repositories, no {}", driver.repo_count(), at.repo);
            return Ok(Err(Refusal::protocol(ProtocolError::MalformedRequest, what)));
        }
        Ok(match request {
            Request::Begin(at) => self.begin(at).map(Reply::Answer),
            Request::End(at) => Ok(Reply::Ended(self.scopes.remove(&at))),
            Request::Dump(at) => return dump(driver, &at, id, output),
            Request::Op(op) => self.op(&op).map(Reply::Answer),
            Request::Hello(_) => unreachable!("it was answered above"),
        })
    }

    // ---- what a driver does not do ----

    fn hello(&mut self, hello: Hello) -> Result<Welcome, Refusal> {
        if hello.protocol != PROTOCOL_VERSION {
            let what = format!("version {} of the protocol", hello.protocol);
            let only = format!("{what} is not spoken, only {PROTOCOL_VERSION}");
            return Err(Refusal::engine(ErrorKind::UnsupportedVersion, only));
        }
        let open = match std::mem::replace(&mut self.stage, Stage::Unusable) {
            Stage::New(open) => open,
            stage => {
                self.stage = stage;
                return Err(out_of_order("hello comes once"));
            }
        };
        let driver = LocalDriver::over(|environment: Environment| {
            open(RepoOptions {
                environment,
                lane_audit: hello.lane_audit,
                cwd: hello.cwd,
                ..RepoOptions::default()
            })
        })?;
        let is_alone = driver.repo_count() < 2;
        let features = |repo: RepoIndex| {
            let has = driver.capabilities(repo).clone();
            if is_alone { has.but(Feature::Repositories) } else { has }
        };
        let welcome = Welcome {
            protocol: PROTOCOL_VERSION,
            engine: driver.name(),
            repositories: (0..driver.repo_count()).map(features).collect(),
            optional: Optional::ALL.into(),
        };
        self.stage = Stage::Greeted(Box::new(driver));
        Ok(welcome)
    }

    fn begin(&mut self, at: Target) -> Result<Answer, Refusal> {
        if self.scopes.contains_key(&at) {
            return Err(out_of_order("this session has a scope already: end it first"));
        }
        let Stage::Greeted(driver) = &mut self.stage else {
            return Err(out_of_order("hello comes first"));
        };
        let mutation = driver.handle(at.repo, &at.session)?.begin_mutation(&Context::new())?;
        self.scopes.insert(at, mutation);
        Ok(Answer::Done)
    }

    fn op(&mut self, op: &Op) -> Result<Answer, Refusal> {
        let Stage::Greeted(driver) = &mut self.stage else {
            return Err(out_of_order("hello comes first"));
        };
        if let Some(at) = Target::of(op)
            && let Some(scope) = self.scopes.get_mut(&at)
        {
            let Op::Commit { writes, timestamp, .. } = op else {
                // It would wait for the line, which only this connection can free.
                return Err(out_of_order("this session has a scope: end it first"));
            };
            return Ok(Answer::Committed(driver.commit_in(scope, writes, *timestamp)?));
        }
        driver.discover(op)?;
        let answer = driver.run(op);
        match answer {
            Ok(Answer::Error { kind }) => {
                Err(Refusal::engine(kind, driver.last_error().unwrap_or_default()))
            }
            Ok(answer) => Ok(answer),
            Err(fault) => Err(Refusal::protocol(ProtocolError::MalformedRequest, fault)),
        }
    }
}

impl Target {
    /// The session whose mutation line an operation goes through.
    fn of(op: &Op) -> Option<Self> {
        let (repo, session) = match op {
            Op::Close { repo, session }
            | Op::Reopen { repo, session }
            | Op::Commit { repo, session, .. }
            | Op::CreateBranch { repo, session, .. }
            | Op::Append { repo, session, .. }
            | Op::SetName { repo, session, .. }
            | Op::SetLabel { repo, session, .. } => (*repo, session.clone()),
            _ => return None,
        };
        Some(Self { repo, session })
    }
}

fn out_of_order(what: &str) -> Refusal {
    Refusal::protocol(ProtocolError::OutOfOrder, what)
}

/// Writes the rows of a dump as they come.
fn dump(
    driver: &mut LocalDriver,
    at: &Target,
    id: Option<u64>,
    output: &mut dyn Write,
) -> io::Result<Result<Reply, Refusal>> {
    let mut rows = 0;
    let mut failed = None;
    let mut row = |row: &Row| {
        let written = write(output, id, "row", row);
        rows += 1;
        written.map_err(|error| {
            failed = Some(error);
            // Stops the engine; nobody hears it.
            forkline_engines::Error::Cancelled
        })
    };
    let dumped = driver.handle(at.repo, &at.session).and_then(|session| {
        row(&Row::Session {
            metadata: session.metadata().clone(),
            next_seq: session.next_seq()?,
            stats: session.stats()?,
        })?;
        session.dump(&mut |found| row(&Row::from(found)))
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(dumped.map(|()| Reply::Dumped(Dumped { rows })).map_err(Refusal::from)),
    }
}

impl From<StateRow> for Row {
    fn from(row: StateRow) -> Self {
        match row {
            StateRow::Entry(entry) => Self::Entry(entry),
            StateRow::Usage(row) => Self::Usage(row),
            StateRow::Value { address, seq, value } => Self::Value { address, seq, value },
            StateRow::Element { address, seq, value } => Self::Element { address, seq, value },
        }
    }
}

/// One line. A payload may have line breaks between its tokens: they become spaces.
fn write(
    output: &mut (impl Write + ?Sized),
    id: Option<u64>,
    what: &str,
    content: &impl Serialize,
) -> io::Result<()> {
    let content = one_line(serde_json::to_string(content)?);
    match id {
        Some(id) => writeln!(output, "{{\"id\":{id},\"{what}\":{content}}}"),
        None => writeln!(output, "{{\"id\":null,\"{what}\":{content}}}"),
    }
}

/// JSON text without line breaks: they can only be white space between tokens.
pub(super) fn one_line(json: String) -> String {
    if json.contains(['\n', '\r']) { json.replace(['\n', '\r'], " ") } else { json }
}
