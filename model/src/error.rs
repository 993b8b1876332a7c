//! What can be refused, and under which name (contract §4).

use serde::{Deserialize, Serialize};

use crate::address::{BranchName, EntryId, Key, Namespace, SessionId, StoreKind};

/// The result of a model operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kinds of refusal that model and engines share: what the gate compares, and what the
/// engine protocol sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// No session of that id.
    UnknownSession,
    /// The id is taken, or reserved by an operation that began first.
    SessionExists,
    /// The session is open already.
    AlreadyOpen,
    /// The session or repository is closed or closing.
    Closed,
    /// No branch of that name.
    UnknownBranch,
    /// A branch of that name exists.
    BranchExists,
    /// The branch is data-only.
    NotALane,
    /// The branch is a partial lane, or its lane rows cannot be read.
    CorruptLane,
    /// The entry is not on the ancestry of the branch's tip.
    EntryNotOnBranch,
    /// No entry of that id.
    UnknownEntry,
    /// A surviving row in a reserved namespace that is not built in.
    UnknownReserved,
    /// The source's bytes or rows are damaged.
    CorruptSource,
    /// A format or storage version that is not supported.
    UnsupportedVersion,
    /// The file holds another session than the caller named.
    IdentityMismatch,
    /// A legacy session that is open and not yet upgraded.
    OpenLegacySource,
    /// A second use of an entry or usage id.
    DuplicateId,
    /// The parent is not there.
    MissingParent,
    /// A name, id, namespace or key that is not allowed.
    InvalidName,
    /// A limit that is not allowed.
    InvalidLimit,
    /// A payload, usage or write that is not well formed.
    InvalidPayload,
    /// The mutation scope has attempted its commit already.
    CommitAttempted,
    /// An assistant message whose `stopReason` is `pending`.
    PendingAssistant,
    /// The caller cancelled.
    Cancelled,
    /// A stated limit is passed.
    LimitExceeded,
    /// A lock was not had in time.
    Busy,
    /// Reading or writing failed.
    Io,
    /// A publish failed; there is no destination.
    NotCommitted,
    /// The destination is complete and visible, but may not survive a power loss.
    DurabilityUncertain,
    /// Several failures at once.
    Several,
}

/// A refusal of the model: what was wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No session of that id.
    #[error("unknown session {session}")]
    UnknownSession {
        /// The id asked for.
        session: SessionId,
    },
    /// The id is taken.
    #[error("session {session} exists")]
    SessionExists {
        /// The id asked for.
        session: SessionId,
    },
    /// The session is open.
    #[error("session {session} is open already")]
    AlreadyOpen {
        /// The session.
        session: SessionId,
    },
    /// The session is closed.
    #[error("session {session} is closed")]
    Closed {
        /// The session.
        session: SessionId,
    },
    /// No such branch.
    #[error("unknown branch {branch}")]
    UnknownBranch {
        /// The name asked for.
        branch: BranchName,
    },
    /// The branch exists.
    #[error("branch {branch} exists")]
    BranchExists {
        /// The name asked for.
        branch: BranchName,
    },
    /// The branch has a tip, but neither configuration nor state.
    #[error("branch {branch} is not a configured lane")]
    NotALane {
        /// The branch.
        branch: BranchName,
    },
    /// The lane's rows do not belong together.
    #[error("corrupt lane {branch}: {reason}")]
    CorruptLane {
        /// The branch.
        branch: BranchName,
        /// What is missing or unreadable.
        reason: &'static str,
    },
    /// The entry is not on the branch's current path.
    #[error("entry {entry} is not on branch {branch}")]
    EntryNotOnBranch {
        /// The branch.
        branch: BranchName,
        /// The entry.
        entry: EntryId,
    },
    /// No such entry.
    #[error("unknown entry {entry}")]
    UnknownEntry {
        /// The entry.
        entry: EntryId,
    },
    /// Surviving state in a reserved namespace that this version does not know.
    #[error(
        "unknown reserved {} {namespace}/{key}: a fork cannot tell what to do with it",
        kind.as_str()
    )]
    UnknownReserved {
        /// Value or list.
        kind: StoreKind,
        /// The namespace.
        namespace: Namespace,
        /// The key.
        key: Key,
    },
    /// A tip that the fork has to walk names no entry.
    #[error("corrupt source: branch {branch} has an unknown tip {tip}")]
    UnknownTip {
        /// The branch.
        branch: BranchName,
        /// What the tip names.
        tip: EntryId,
    },
    /// The source's bytes are damaged.
    #[error("corrupt source: session {session} is damaged")]
    Damaged {
        /// The session.
        session: SessionId,
    },
    /// A legacy session that is open and not yet upgraded: its ids are not stable.
    #[error("legacy session {session} is open and not yet upgraded")]
    OpenLegacySource {
        /// The session.
        session: SessionId,
    },
    /// A second use of an id.
    #[error("duplicate entry or usage id {id}")]
    DuplicateId {
        /// The id.
        id: EntryId,
    },
    /// The parent is not there.
    #[error("entry {entry} has a missing parent {parent}")]
    MissingParent {
        /// The entry.
        entry: EntryId,
        /// Its parent.
        parent: EntryId,
    },
    /// A text that is no valid name.
    #[error("invalid {what} {text:?}: {reason}")]
    InvalidName {
        /// Which name.
        what: &'static str,
        /// The text, shortened.
        text: String,
        /// Why it is refused.
        reason: &'static str,
    },
    /// A sequence out of range.
    #[error("invalid sequence {seq}: a sequence is 1 to 2^53 - 1")]
    InvalidSeq {
        /// The number.
        seq: u64,
    },
    /// A timestamp out of range.
    #[error("invalid timestamp {ms}: a timestamp is 0 to 2^53 - 1 milliseconds")]
    InvalidTimestamp {
        /// The number.
        ms: u64,
    },
    /// A limit that is zero or negative.
    #[error("invalid limit {limit}: a limit is at least 1")]
    InvalidLimit {
        /// The number.
        limit: i64,
    },
    /// A payload or write that is not well formed.
    #[error("invalid {what}: {reason}")]
    InvalidPayload {
        /// Which part.
        what: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// An assistant message that is still being written.
    #[error("entry {entry} is a pending assistant message")]
    PendingAssistant {
        /// The entry.
        entry: EntryId,
    },
    /// The session has no sequence left, or the commit would need more than there are.
    #[error("limit exceeded: too few sequences are left, the next would be {next_seq}")]
    SeqExhausted {
        /// The next sequence of the session.
        next_seq: u64,
    },
}

impl Error {
    /// The kind that model and engines share.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::UnknownSession { .. } => ErrorKind::UnknownSession,
            Self::SessionExists { .. } => ErrorKind::SessionExists,
            Self::AlreadyOpen { .. } => ErrorKind::AlreadyOpen,
            Self::Closed { .. } => ErrorKind::Closed,
            Self::UnknownBranch { .. } => ErrorKind::UnknownBranch,
            Self::BranchExists { .. } => ErrorKind::BranchExists,
            Self::NotALane { .. } => ErrorKind::NotALane,
            Self::CorruptLane { .. } => ErrorKind::CorruptLane,
            Self::EntryNotOnBranch { .. } => ErrorKind::EntryNotOnBranch,
            Self::UnknownEntry { .. } => ErrorKind::UnknownEntry,
            Self::UnknownReserved { .. } => ErrorKind::UnknownReserved,
            Self::UnknownTip { .. } | Self::Damaged { .. } => ErrorKind::CorruptSource,
            Self::OpenLegacySource { .. } => ErrorKind::OpenLegacySource,
            Self::DuplicateId { .. } => ErrorKind::DuplicateId,
            Self::MissingParent { .. } => ErrorKind::MissingParent,
            Self::InvalidName { .. } => ErrorKind::InvalidName,
            Self::InvalidLimit { .. } => ErrorKind::InvalidLimit,
            Self::InvalidSeq { .. }
            | Self::InvalidTimestamp { .. }
            | Self::InvalidPayload { .. } => ErrorKind::InvalidPayload,
            Self::PendingAssistant { .. } => ErrorKind::PendingAssistant,
            Self::SeqExhausted { .. } => ErrorKind::LimitExceeded,
        }
    }
}
