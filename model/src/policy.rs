//! The classifier: what a fork does with a namespace (contract §3.4).
//!
//! The only file of the workspace that knows. One closed function, no registry: every engine,
//! SQL included, asks it row by row. [`Projector`] drives it as a stream: one current row in,
//! none or one destination row out, no state that grows.

use crate::address::{Address, BranchName, EntryId, Key, Namespace, StoreKind};
use crate::error::{Error, Result};
use crate::json::Json;
use crate::metadata::Scope;

/// Tips of branches.
pub const BRANCH_TIP: &str = "pi.branch.tip";
/// Lane configurations.
pub const LANE_CONFIG: &str = "pi.lane.config";
/// Lane states.
pub const LANE_STATE: &str = "pi.lane.state";
/// The session's name, at the empty key.
pub const SESSION_NAME: &str = "pi.session.name";
/// Labels of entries.
pub const ENTRY_LABEL: &str = "pi.entry.label";
/// Results of operations.
pub const RESULT: &str = "pi.result";
/// Where namespaces of open operations start.
pub const OP_PREFIX: &str = "pi.op.";
/// Where namespaces of content not yet placed start.
pub const PENDING_PREFIX: &str = "pi.pending.";
/// Content of entries not yet placed.
pub const PENDING_ENTRY: &str = "pi.pending.entry";
/// Meta data of an open operation.
pub const OP_META: &str = "pi.op.meta";
/// State of an open operation.
pub const OP_STATE: &str = "pi.op.state";
/// The state of a lane with nothing open and nothing queued (contract §2).
pub const IDLE_STATE: &str = r#"{"currentOperationId":null,"lastOperationId":null,"inbox":[]}"#;

/// Every built-in address (contract §2): the table that the classifier must cover.
pub const BUILT_IN: [(&str, StoreKind); 14] = [
    (BRANCH_TIP, StoreKind::Value),
    (LANE_CONFIG, StoreKind::Value),
    (LANE_STATE, StoreKind::Value),
    (SESSION_NAME, StoreKind::Value),
    (ENTRY_LABEL, StoreKind::Value),
    (RESULT, StoreKind::Value),
    (OP_META, StoreKind::Value),
    (OP_STATE, StoreKind::Value),
    ("pi.op.tool_args", StoreKind::Value),
    ("pi.op.tool_memo", StoreKind::Value),
    ("pi.op.preparation", StoreKind::Value),
    (PENDING_ENTRY, StoreKind::Value),
    ("pi.pending.tool_output", StoreKind::Value),
    ("pi.pending.assistant_frame", StoreKind::List),
];

/// What becomes of the current state at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// Not in the destination.
    LeaveOut,
    /// In the destination, as it is.
    Copy,
    /// In the destination if the entry that the key names is copied.
    CopyIfEntryCopied,
    /// In the destination, holding the selected tip.
    RewriteTip,
    /// In the destination, holding the idle lane state.
    MakeIdle,
    /// Surviving state here makes the fork fail.
    Fail,
}

/// Whether a namespace is reserved: `pi` and all of `pi.*`.
pub fn is_reserved(namespace: &str) -> bool {
    namespace == "pi" || namespace.starts_with("pi.")
}

/// The classifier (contract §3.4): what a fork of `scope` does with current state at
/// `(kind, namespace, key)`.
pub fn classify(scope: &Scope, kind: StoreKind, namespace: &str, key: &str) -> Disposition {
    use Disposition::{Copy, CopyIfEntryCopied, Fail, LeaveOut, MakeIdle, RewriteTip};
    let selected = match scope {
        Scope::Tree => None,
        Scope::Branch { branch, .. } => Some(branch.as_str()),
    };
    match (kind, namespace) {
        (_, RESULT) => LeaveOut,
        (_, open) if open.starts_with(OP_PREFIX) || open.starts_with(PENDING_PREFIX) => LeaveOut,
        (StoreKind::Value, SESSION_NAME) => Copy,
        (StoreKind::Value, ENTRY_LABEL) => CopyIfEntryCopied,
        (StoreKind::Value, BRANCH_TIP) => match selected {
            None => Copy,
            Some(branch) if branch == key => RewriteTip,
            Some(_) => LeaveOut,
        },
        (StoreKind::Value, LANE_CONFIG) => match selected {
            Some(branch) if branch != key => LeaveOut,
            _ => Copy,
        },
        (StoreKind::Value, LANE_STATE) => match selected {
            Some(branch) if branch != key => LeaveOut,
            _ => MakeIdle,
        },
        (_, reserved) if is_reserved(reserved) => Fail,
        (_, _application) => match selected {
            None => Copy,
            Some(_) => LeaveOut,
        },
    }
}

/// What a fork writes for a row that it keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep<'a> {
    /// The row's own value.
    Verbatim,
    /// The selected tip instead of it.
    Tip(Option<&'a EntryId>),
    /// The idle lane state instead of it.
    Idle,
}

impl Keep<'_> {
    /// The value to write, where it is not the row's own.
    pub fn replacement(&self) -> Option<Json> {
        match self {
            Self::Verbatim => None,
            Self::Tip(None) => Some(Json::null()),
            Self::Tip(Some(id)) => Some(Json::string(id.as_str())),
            Self::Idle => Some(idle_state()),
        }
    }
}

/// Drives the classifier over the current rows of one fork.
#[derive(Debug, Clone)]
pub struct Projector {
    scope: Scope,
    tip: Option<EntryId>,
}

impl Projector {
    /// For a fork of `scope` whose selected tip is `tip` (none in tree scope).
    pub fn new(scope: Scope, tip: Option<EntryId>) -> Self {
        Self { scope, tip }
    }

    /// What becomes of one current value or element; `is_copied` says whether the entry of an
    /// id is in the destination.
    ///
    /// # Errors
    /// *Unknown reserved namespace*, or what `is_copied` answered.
    pub fn project<E: From<Error>>(
        &self,
        kind: StoreKind,
        namespace: &str,
        key: &str,
        is_copied: impl FnOnce(&str) -> Result<bool, E>,
    ) -> Result<Option<Keep<'_>>, E> {
        Ok(match classify(&self.scope, kind, namespace, key) {
            Disposition::LeaveOut => None,
            Disposition::Copy => Some(Keep::Verbatim),
            Disposition::CopyIfEntryCopied => is_copied(key)?.then_some(Keep::Verbatim),
            Disposition::RewriteTip => Some(Keep::Tip(self.tip.as_ref())),
            Disposition::MakeIdle => Some(Keep::Idle),
            Disposition::Fail => return Err(unknown_reserved(kind, namespace, key)?.into()),
        })
    }
}

/// The error of a surviving row that no fork knows what to do with.
///
/// # Errors
/// When the address itself is not valid.
pub fn unknown_reserved(kind: StoreKind, namespace: &str, key: &str) -> Result<Error> {
    Ok(Error::UnknownReserved { kind, namespace: Namespace::new(namespace)?, key: Key::new(key)? })
}

/// The idle lane state as JSON.
pub fn idle_state() -> Json {
    Json::parse(IDLE_STATE).expect("the constant is JSON")
}

/// Where a branch's tip stands.
pub fn tip_address(branch: &BranchName) -> Address {
    Address::built_in(BRANCH_TIP, branch.as_str())
}

/// Where a lane's configuration stands.
pub fn config_address(branch: &BranchName) -> Address {
    Address::built_in(LANE_CONFIG, branch.as_str())
}

/// Where a lane's state stands.
pub fn state_address(branch: &BranchName) -> Address {
    Address::built_in(LANE_STATE, branch.as_str())
}

/// Where the session's name stands.
pub fn name_address() -> Address {
    Address::built_in(SESSION_NAME, "")
}

/// Where an entry's label stands.
pub fn label_address(entry: &EntryId) -> Address {
    Address::built_in(ENTRY_LABEL, entry.as_str())
}

/// Reads a tip's value: an entry id or null.
///
/// # Errors
/// *Corrupt lane* when it is neither.
pub fn read_tip(branch: &BranchName, value: &Json) -> Result<Option<EntryId>> {
    if value.is_null() {
        return Ok(None);
    }
    let id = value.to_text().and_then(|text| EntryId::new(text).ok());
    id.map(Some).ok_or_else(|| unreadable_tip(branch))
}

/// The error of a tip that is neither an entry id nor null.
pub(crate) fn unreadable_tip(branch: &BranchName) -> Error {
    Error::CorruptLane { branch: branch.clone(), reason: "its tip is neither an entry id nor null" }
}

/// Which of a branch's three rows are there (contract §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneRows {
    /// The tip.
    pub tip: bool,
    /// The configuration.
    pub config: bool,
    /// The state.
    pub state: bool,
}

/// What stands under a branch name (contract §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneShape {
    /// Nothing.
    Absent,
    /// A tip alone.
    DataOnly,
    /// Tip, configuration and state.
    Complete,
    /// Anything else; says what is wrong.
    Partial(&'static str),
}

impl LaneRows {
    /// What these rows make.
    pub fn shape(self) -> LaneShape {
        match (self.tip, self.config, self.state) {
            (false, false, false) => LaneShape::Absent,
            (true, false, false) => LaneShape::DataOnly,
            (true, true, true) => LaneShape::Complete,
            (false, _, _) => LaneShape::Partial("it has lane rows but no tip"),
            (true, true, false) => LaneShape::Partial("it has a configuration but no state"),
            (true, false, true) => LaneShape::Partial("it has a state but no configuration"),
        }
    }

    /// Whether a branch fork of this lane may start (contract §3.1, rule 1).
    ///
    /// # Errors
    /// *Unknown branch*, *not a configured lane*, *corrupt lane*.
    pub fn require_complete(self, branch: &BranchName) -> Result<()> {
        match self.shape() {
            LaneShape::Complete => Ok(()),
            LaneShape::Absent => Err(Error::UnknownBranch { branch: branch.clone() }),
            LaneShape::DataOnly => Err(Error::NotALane { branch: branch.clone() }),
            LaneShape::Partial(reason) => {
                Err(Error::CorruptLane { branch: branch.clone(), reason })
            }
        }
    }
}
