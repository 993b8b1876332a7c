//! Operations on a world of sessions, and their answers: one vocabulary for the gate, the
//! fuzzers, trace files and the engine protocol.
//!
//! All enums are tagged from outside (`{"commit":{...}}`): payloads are raw JSON text, which
//! serde cannot carry through the other ways of tagging.

use serde::{Deserialize, Serialize};

use crate::address::{
    Address, BranchName, EntryId, Key, Millis, Namespace, Seq, SessionId, TypeName,
};
use crate::entry::{Entry, EntryHead, EntryType};
use crate::error::ErrorKind;
use crate::json::Json;
use crate::metadata::{LaneAudit, Metadata};
use crate::query::{BranchScan, EntryQuery, ListQuery, SeqQuery};
use crate::state::Committed;
use crate::usage::{Stats, UsageRow};
use crate::world::{ForkRequest, RepoIndex};
use crate::write::Write;

/// One operation. Ids and times are the caller's: an engine is given the same clock and ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Makes a new, empty session and opens it.
    Create {
        /// Where.
        repo: RepoIndex,
        /// Its id.
        id: SessionId,
        /// Its working directory, for engines that keep one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
        /// The session it is made for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<SessionId>,
        /// When, Unix ms.
        created_at: Millis,
    },
    /// Opens a stored session.
    Open {
        /// Where.
        repo: RepoIndex,
        /// Which.
        session: SessionId,
    },
    /// Closes a session; one that is closed stays so.
    Close {
        /// Where.
        repo: RepoIndex,
        /// Which.
        session: SessionId,
    },
    /// Closes a session, if it is open, and opens it.
    Reopen {
        /// Where.
        repo: RepoIndex,
        /// Which.
        session: SessionId,
    },
    /// Deletes a session that is not open.
    Delete {
        /// Where.
        repo: RepoIndex,
        /// Which.
        session: SessionId,
    },
    /// Lists the stored sessions.
    List {
        /// Where.
        repo: RepoIndex,
    },
    /// One commit.
    Commit {
        /// Where.
        repo: RepoIndex,
        /// Which.
        session: SessionId,
        /// What; may be empty.
        writes: Vec<Write>,
        /// When, Unix ms.
        timestamp: Millis,
    },
    /// One mutation scope: reads, then attempts to commit. The first attempt counts, every
    /// further one is refused, also when the first failed.
    Mutate {
        /// Where.
        repo: RepoIndex,
        /// Which.
        session: SessionId,
        /// Reads before the attempts.
        #[serde(default)]
        reads: Vec<ReadOp>,
        /// The writes of each attempt.
        #[serde(default)]
        attempts: Vec<Vec<Write>>,
        /// When, Unix ms.
        timestamp: Millis,
    },
    /// Makes a branch.
    CreateBranch {
        /// Where.
        repo: RepoIndex,
        /// Which.
        session: SessionId,
        /// Its name.
        branch: BranchName,
        /// Its tip.
        at: Option<EntryId>,
        /// When, Unix ms.
        timestamp: Millis,
    },
    /// Appends an entry at a branch's tip and moves the tip, in one commit.
    Append {
        /// Where.
        repo: RepoIndex,
        /// Which.
        session: SessionId,
        /// The branch.
        branch: BranchName,
        /// The entry's id.
        id: EntryId,
        /// What it is.
        entry_type: EntryType,
        /// The application's type, of a custom entry.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        custom_type: Option<TypeName>,
        /// Its payload.
        payload: Json,
        /// When, Unix ms.
        timestamp: Millis,
    },
    /// Names the session.
    SetName {
        /// Where.
        repo: RepoIndex,
        /// Which.
        session: SessionId,
        /// The name.
        name: String,
        /// When, Unix ms.
        timestamp: Millis,
    },
    /// Labels an entry that is there, or removes its label.
    SetLabel {
        /// Where.
        repo: RepoIndex,
        /// Which.
        session: SessionId,
        /// The entry.
        entry: EntryId,
        /// The label; none removes it.
        label: Option<String>,
        /// When, Unix ms.
        timestamp: Millis,
    },
    /// Forks.
    Fork {
        /// What and where to.
        request: ForkRequest,
        /// Whether the fork is open afterwards.
        open: bool,
    },
    /// Begins a fork: reserves the destination's id and captures the source. Operations up to
    /// the [`Op::ForkFinish`] of the same ticket happen while the fork is under way.
    ForkBegin {
        /// Names the fork until it is finished.
        ticket: u64,
        /// What and where to.
        request: ForkRequest,
    },
    /// Finishes a fork that has begun.
    ForkFinish {
        /// The fork.
        ticket: u64,
        /// Whether the fork is open afterwards.
        open: bool,
    },
    /// Leaves half a commit behind the last line of a closed session's file, as a crash does.
    /// Without any effect on what the session holds.
    TearTail {
        /// Where.
        repo: RepoIndex,
        /// Which.
        session: SessionId,
        /// What stands there; has no line break.
        text: String,
    },
    /// Puts a session file of an older version (formats §2) where stored sessions are: a closed
    /// session whose first commit upgrades it.
    Plant {
        /// Where.
        repo: RepoIndex,
        /// Its id, as the first line has it.
        session: SessionId,
        /// Its lines, each without the line break that it has in the file.
        lines: Vec<String>,
        /// What stands behind the last line break.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        torn: String,
    },
    /// One read.
    Read {
        /// Where.
        repo: RepoIndex,
        /// Which.
        session: SessionId,
        /// What.
        read: ReadOp,
    },
}

impl Op {
    /// The time that the operation happens at, if it leaves one behind, Unix ms.
    pub fn timestamp(&self) -> Option<Millis> {
        match self {
            Self::Create { created_at: time, .. }
            | Self::Commit { timestamp: time, .. }
            | Self::Mutate { timestamp: time, .. }
            | Self::CreateBranch { timestamp: time, .. }
            | Self::Append { timestamp: time, .. }
            | Self::SetName { timestamp: time, .. }
            | Self::SetLabel { timestamp: time, .. } => Some(*time),
            Self::Fork { request, .. } | Self::ForkBegin { request, .. } => {
                Some(request.created_at)
            }
            Self::Open { .. }
            | Self::Close { .. }
            | Self::Reopen { .. }
            | Self::Delete { .. }
            | Self::List { .. }
            | Self::ForkFinish { .. }
            | Self::TearTail { .. }
            | Self::Plant { .. }
            | Self::Read { .. } => None,
        }
    }
}

impl Op {
    /// The repositories that the operation names, a fork's source first; to be renamed.
    /// [`Op::ForkFinish`] names none.
    pub fn repos_mut(&mut self) -> Vec<&mut RepoIndex> {
        match self {
            Self::Create { repo, .. }
            | Self::Open { repo, .. }
            | Self::Close { repo, .. }
            | Self::Reopen { repo, .. }
            | Self::Delete { repo, .. }
            | Self::List { repo }
            | Self::Commit { repo, .. }
            | Self::Mutate { repo, .. }
            | Self::CreateBranch { repo, .. }
            | Self::Append { repo, .. }
            | Self::SetName { repo, .. }
            | Self::SetLabel { repo, .. }
            | Self::TearTail { repo, .. }
            | Self::Plant { repo, .. }
            | Self::Read { repo, .. } => vec![repo],
            Self::Fork { request, .. } | Self::ForkBegin { request, .. } => {
                vec![&mut request.from, &mut request.into]
            }
            Self::ForkFinish { .. } => Vec::new(),
        }
    }

    /// The repositories that the operation names, a fork's source first.
    pub fn repos(&self) -> Vec<RepoIndex> {
        match self {
            Self::Create { repo, .. }
            | Self::Open { repo, .. }
            | Self::Close { repo, .. }
            | Self::Reopen { repo, .. }
            | Self::Delete { repo, .. }
            | Self::List { repo }
            | Self::Commit { repo, .. }
            | Self::Mutate { repo, .. }
            | Self::CreateBranch { repo, .. }
            | Self::Append { repo, .. }
            | Self::SetName { repo, .. }
            | Self::SetLabel { repo, .. }
            | Self::TearTail { repo, .. }
            | Self::Plant { repo, .. }
            | Self::Read { repo, .. } => vec![*repo],
            Self::Fork { request, .. } | Self::ForkBegin { request, .. } => {
                vec![request.from, request.into]
            }
            Self::ForkFinish { .. } => Vec::new(),
        }
    }
}

/// One read of an open session (contract §1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadOp {
    /// `metadata`.
    Metadata,
    /// The next seq.
    NextSeq,
    /// `get_entries`.
    GetEntries(Vec<EntryId>),
    /// `get_value`.
    GetValue(Address),
    /// `scan_values`.
    ScanValues {
        /// The namespace.
        namespace: Namespace,
        /// What the keys start with.
        key_prefix: String,
    },
    /// `read_list`.
    ReadList {
        /// Where.
        address: Address,
        /// Which elements.
        query: ListQuery,
    },
    /// `scan_branch`.
    ScanBranch(BranchScan),
    /// `scan_branch_structure`.
    ScanBranchStructure(BranchScan),
    /// `scan_entries`.
    ScanEntries(SeqQuery),
    /// `scan_usage`.
    ScanUsage(SeqQuery),
    /// `find_entries` on the session.
    FindEntries(EntryQuery),
    /// `find_entry` on the session.
    FindEntry(EntryQuery),
    /// `stats`.
    Stats,
    /// `name`.
    Name,
    /// `label`.
    Label(EntryId),
    /// The names of all branches.
    Branches,
    /// The tip of a branch.
    Tip(BranchName),
    /// `find_entries` on a branch.
    FindBranchEntries {
        /// The branch.
        branch: BranchName,
        /// Which entries.
        query: EntryQuery,
    },
    /// `find_entry` on a branch.
    FindBranchEntry {
        /// The branch.
        branch: BranchName,
        /// Which entries.
        query: EntryQuery,
    },
}

/// What an operation gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It is done, and there is nothing to say.
    Done,
    /// It was refused, and nothing has changed.
    Error {
        /// Why.
        kind: ErrorKind,
    },
    /// A commit was applied.
    Committed(Committed),
    /// A mutation scope: an answer for every read and every attempt.
    Scope {
        /// Of the reads.
        reads: Vec<Answer>,
        /// Of the attempts to commit.
        attempts: Vec<Answer>,
    },
    /// Sessions of a repository.
    Sessions(Vec<Metadata>),
    /// The metadata of a session.
    Metadata(Metadata),
    /// A seq, which may be that of an exhausted session.
    NextSeq(u64),
    /// Entries in the order asked for.
    Entries(Vec<Entry>),
    /// One answer for every entry asked for.
    Found(Vec<Option<Entry>>),
    /// Entries without payloads.
    Heads(Vec<EntryHead>),
    /// A value.
    Value(Option<(Seq, Json)>),
    /// Values of a namespace.
    Values(Vec<(Key, Seq, Json)>),
    /// Elements of a list.
    Elements(Vec<(Seq, Json)>),
    /// Ledger rows.
    Usage(Vec<UsageRow>),
    /// Statistics.
    Stats(Stats),
    /// A name or a label.
    Text(Option<String>),
    /// Names of branches.
    Branches(Vec<BranchName>),
    /// A tip.
    Tip(Option<EntryId>),
}

/// A sequence of operations to run again: a regression, or a failure that was made small.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// What it shows, for a person.
    pub about: String,
    /// The seed it came from, if it was found by a random run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The engine of each repository, by index; the runner chooses unless given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<String>,
    /// The lane audit of all repositories.
    #[serde(default)]
    pub lane_audit: LaneAudit,
    /// The operations.
    pub ops: Vec<Op>,
}
