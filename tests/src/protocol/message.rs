//! What stands in the lines: the shapes that both sides share.

use std::collections::BTreeSet;
use std::fmt;

use forkline_model::{Address, Entry, ErrorKind, Json, LaneAudit, Metadata, Seq, Stats, UsageRow};
use serde::{Deserialize, Serialize};

use crate::driver::Capabilities;

/// The first request's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The version that the client speaks.
    pub protocol: u64,
    /// Which lanes a tree fork looks at; of effect where the engine has `strict_audit`.
    #[serde(default)]
    pub lane_audit: LaneAudit,
    /// The working directory of forks whose source has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// The answer to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The version that is spoken from now on.
    pub protocol: u64,
    /// What the engine is called.
    pub engine: String,
    /// What each repository can do, by index.
    pub repositories: Vec<Capabilities>,
    /// The optional operations that it has.
    #[serde(default)]
    pub optional: BTreeSet<Optional>,
}

/// An operation that can also be put together from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Optional {
    /// Makes a branch.
    CreateBranch,
    /// Appends an entry at a branch's tip.
    Append,
    /// Names the session.
    SetName,
    /// Labels an entry.
    SetLabel,
}

impl Optional {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::CreateBranch, Self::Append, Self::SetName, Self::SetLabel];
}

/// One row of a dump; the first is the session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Row {
    /// What there is one of.
    Session {
        /// Id, creation time, parent, working directory.
        metadata: Metadata,
        /// The seq of the next write.
        next_seq: u64,
        /// What the engine keeps; held against a recount of the rows.
        stats: Stats,
    },
    /// An entry.
    Entry(Entry),
    /// A row of the ledger.
    Usage(UsageRow),
    /// The value at an address.
    Value {
        /// Where.
        address: Address,
        /// The seq of the set.
        seq: Seq,
        /// What.
        value: Json,
    },
    /// An element of a list.
    Element {
        /// Where.
        address: Address,
        /// The seq of the append.
        seq: Seq,
        /// What.
        value: Json,
    },
}

/// The end of a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Dumped {
    /// How many row lines there were.
    pub(super) rows: u64,
}

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// For programs.
    pub kind: RefusalKind,
    /// For people.
    pub message: String,
}

/// The name of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RefusalKind {
    /// The engine refused the operation.
    Engine(ErrorKind),
    /// There is no operation that could have been refused.
    Protocol(ProtocolError),
}

/// A request that no engine has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProtocolError {
    /// The line is no request: no JSON, no id, or an operation of another shape.
    MalformedRequest,
    /// The line is longer than [`LINE_BYTES_MAX`](super::LINE_BYTES_MAX).
    LineTooLong,
    /// No operation of that name.
    UnknownOp,
    /// Not now: before the greeting, a second greeting, or a scope in the way.
    OutOfOrder,
}

impl Refusal {
    /// The request cannot be answered.
    pub(super) fn protocol(kind: ProtocolError, message: impl fmt::Display) -> Self {
        Self { kind: RefusalKind::Protocol(kind), message: message.to_string() }
    }

    /// The engine says no.
    pub(super) fn engine(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind: RefusalKind::Engine(kind), message: message.into() }
    }
}

impl From<forkline_engines::Error> for Refusal {
    fn from(error: forkline_engines::Error) -> Self {
        Self::engine(error.kind(), error.chain())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = serde_json::to_string(&self.kind).map_err(|_| fmt::Error)?;
        write!(f, "{}: {}", kind.trim_matches('"'), self.message)
    }
}

/// One line from the engine: exactly one of the three is there.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Response {
    /// The request's; null when none could be read.
    pub(super) id: Option<u64>,
    pub(super) ok: Option<Json>,
    pub(super) row: Option<Json>,
    pub(super) error: Option<Refusal>,
}
