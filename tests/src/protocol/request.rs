//! One line becomes one request.

use std::collections::BTreeMap;

use forkline_model::{Millis, Op, RepoIndex, SessionId, Write};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::message::{Hello, ProtocolError, Refusal};

/// What is asked for.
#[derive(Debug)]
pub(super) enum Request {
    Hello(Hello),
    /// Begins a mutation scope.
    Begin(Target),
    /// Ends it.
    End(Target),
    /// The whole logical state.
    Dump(Target),
    /// An operation of the model's vocabulary.
    Op(Op),
}

/// An open session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(super) struct Target {
    pub(super) repo: RepoIndex,
    pub(super) session: SessionId,
}

/// The operations of the model that are requests. A whole mutation and reopening are not: they
/// are put together.
const MODEL_OPS: [&str; 14] = [
    "create",
    "open",
    "close",
    "delete",
    "list",
    "read",
    "fork",
    "fork_begin",
    "fork_finish",
    "tear_tail",
    "create_branch",
    "append",
    "set_name",
    "set_label",
];

#[derive(Deserialize)]
struct Frame<'a> {
    id: Option<u64>,
    #[serde(borrow)]
    op: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Commit {
    repo: RepoIndex,
    session: SessionId,
    writes: Vec<Box<RawValue>>,
    timestamp: Millis,
}

/// Reads a request, with its id as far as there is one.
pub(super) fn parse(line: &[u8]) -> (Option<u64>, Result<Request, Refusal>) {
    let frame = std::str::from_utf8(line)
        .map_err(malformed)
        .and_then(|text| serde_json::from_str::<Frame<'_>>(text).map_err(malformed));
    match frame {
        Ok(Frame { id: Some(id), op: Some(op) }) => (Some(id), operation(op.get())),
        Ok(Frame { id: None, .. }) => (None, Err(malformed("the id is missing"))),
        Ok(Frame { id, op: None }) => (id, Err(malformed("the op is missing"))),
        Err(refusal) => (None, Err(refusal)),
    }
}

fn operation(op: &str) -> Result<Request, Refusal> {
    let named: BTreeMap<String, &RawValue> = serde_json::from_str(op)
        .map_err(|error| malformed(format!("the op is no object of one name: {error}")))?;
    let mut named = named.into_iter();
    let (Some((name, content)), None) = (named.next(), named.next()) else {
        return Err(malformed("the op is no object of one name"));
    };
    match name.as_str() {
        "hello" => read(&name, content.get()).map(Request::Hello),
        "begin" => read(&name, content.get()).map(Request::Begin),
        "end" => read(&name, content.get()).map(Request::End),
        "dump" => read(&name, content.get()).map(Request::Dump),
        "commit" => commit(read(&name, content.get())?).map(Request::Op),
        known if MODEL_OPS.contains(&known) => read(&name, op).map(Request::Op),
        _ => Err(Refusal::protocol(
            ProtocolError::UnknownOp,
            format!("there is no operation {name:?}"),
        )),
    }
}

/// Writes are read one by one, so that what is wrong with one has the name that it has
/// everywhere (contract §4).
fn commit(commit: Commit) -> Result<Op, Refusal> {
    let Commit { repo, session, writes, timestamp } = commit;
    let writes = writes.iter().enumerate().map(|(index, write)| {
        Write::from_jsonl(write.get())
            .map_err(|error| Refusal::engine(error.kind(), format!("write {index}: {error}")))
    });
    Ok(Op::Commit { repo, session, writes: writes.collect::<Result<_, _>>()?, timestamp })
}

fn read<T: DeserializeOwned>(name: &str, text: &str) -> Result<T, Refusal> {
    serde_json::from_str(text).map_err(|error| malformed(format!("{name}: {error}")))
}

fn malformed(message: impl std::fmt::Display) -> Refusal {
    Refusal::protocol(ProtocolError::MalformedRequest, message)
}
