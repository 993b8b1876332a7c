//! Entries: the nodes of the tree, written once (contract §1, formats §1).

use serde::{Deserialize, Serialize};

use crate::address::{EntryId, Millis, Seq, TypeName};
use crate::error::{Error, Result};
use crate::json::Json;
use crate::members::{self, Member, is_named};

/// The members of an entry's line that are not its payload (formats §1).
pub const ENVELOPE_MEMBERS: [&str; 6] = ["kind", "id", "parentId", "type", "seq", "timestamp"];

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "TypeName", into = "TypeName")]
pub enum EntryType {
    /// A message of the conversation; the only type that `messageCount` counts.
    Message,
    /// A summary that replaces what stands before its retained tail.
    Compaction,
    /// A summary of a branch that was left.
    BranchSummary,
    /// The application's own.
    Custom,
    /// A type that this version does not know; kept and copied.
    Other(TypeName),
}

impl EntryType {
    /// The name in files.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Message => "message",
            Self::Compaction => "compaction",
            Self::BranchSummary => "branch_summary",
            Self::Custom => "custom",
            Self::Other(name) => name.as_str(),
        }
    }

    /// The type of that name.
    pub fn new(name: &str) -> Result<Self> {
        Ok(Self::from(TypeName::new(name)?))
    }
}

impl From<TypeName> for EntryType {
    fn from(name: TypeName) -> Self {
        match name.as_str() {
            "message" => Self::Message,
            "compaction" => Self::Compaction,
            "branch_summary" => Self::BranchSummary,
            "custom" => Self::Custom,
            _ => Self::Other(name),
        }
    }
}

impl From<EntryType> for TypeName {
    fn from(entry_type: EntryType) -> Self {
        match entry_type {
            EntryType::Other(name) => name,
            known => Self::new(known.as_str()).expect("built-in names are valid"),
        }
    }
}

/// An entry before it has a seq and a timestamp.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEntry {
    /// Its id; never used before in the session.
    pub id: EntryId,
    /// The parent, or none for a root.
    pub parent: Option<EntryId>,
    /// What it is.
    pub entry_type: EntryType,
    /// The application's type; only on custom entries.
    pub custom_type: Option<TypeName>,
    /// All other members, as one JSON object without the envelope.
    pub payload: Json,
}

impl NewEntry {
    /// An entry whose parts fit together.
    ///
    /// # Errors
    /// *Invalid payload* when the payload is no object or repeats a member of the envelope (a
    /// reader would take the wrong one), or `custom_type` is set on an entry that is not custom.
    /// *Pending assistant message*.
    pub fn new(
        id: EntryId,
        parent: Option<EntryId>,
        entry_type: EntryType,
        custom_type: Option<TypeName>,
        payload: Json,
    ) -> Result<Self> {
        let entry = Self { id, parent, entry_type, custom_type, payload };
        entry.check()?;
        Ok(entry)
    }

    /// The entry without its payload, as its commit stamps it.
    pub fn head(&self, seq: Seq, timestamp: Millis) -> EntryHead {
        EntryHead {
            id: self.id.clone(),
            parent: self.parent.clone(),
            entry_type: self.entry_type.clone(),
            custom_type: self.custom_type.clone(),
            seq,
            timestamp,
        }
    }

    fn check(&self) -> Result<()> {
        if self.custom_type.is_some() && self.entry_type != EntryType::Custom {
            return Err(invalid("only a custom entry has a customType"));
        }
        let found = payload_members(&self.entry_type, &self.payload)?;
        if self.entry_type == EntryType::Message
            && members::last(&found, "message").is_some_and(is_pending_assistant)
        {
            return Err(Error::PendingAssistant { entry: self.id.clone() });
        }
        Ok(())
    }
}

/// Whether a payload that was read can stand in an entry's line: it is an object, and repeats no
/// member of the envelope.
///
/// # Errors
/// *Invalid payload*.
pub fn require_payload(entry_type: &EntryType, payload: &Json) -> Result<()> {
    payload_members(entry_type, payload).map(|_| ())
}

fn payload_members<'a>(entry_type: &EntryType, payload: &'a Json) -> Result<Vec<Member<'a>>> {
    let found = members::members(payload.as_str())
        .map_err(|error| invalid(format!("no JSON object: {error}")))?;
    for (name, _) in &found {
        if let Some(envelope) = ENVELOPE_MEMBERS.iter().find(|envelope| is_named(name, envelope)) {
            return Err(invalid(format!("member {envelope} belongs to the envelope")));
        }
        if *entry_type == EntryType::Custom && is_named(name, "customType") {
            return Err(invalid("customType of a custom entry is not payload"));
        }
    }
    Ok(found)
}

fn invalid(reason: impl Into<String>) -> Error {
    Error::InvalidPayload { what: "entry payload", reason: reason.into() }
}

/// Whether a message is an assistant's that is still being written.
fn is_pending_assistant(message: &str) -> bool {
    let Ok(found) = members::members(message) else { return false };
    let is = |name, expected: &str| {
        members::last(&found, name)
            .and_then(|value| serde_json::from_str::<String>(value).ok())
            .is_some_and(|value| value == expected)
    };
    is("role", "assistant") && is("stopReason", "pending")
}

/// An entry as it stands in a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Its id.
    pub id: EntryId,
    /// The parent, or none for a root.
    pub parent: Option<EntryId>,
    /// What it is.
    pub entry_type: EntryType,
    /// The application's type; only on custom entries.
    pub custom_type: Option<TypeName>,
    /// All other members, as one JSON object without the envelope.
    pub payload: Json,
    /// The seq of its insert.
    pub seq: Seq,
    /// When its commit was applied, Unix ms.
    pub timestamp: Millis,
}

impl Entry {
    /// The entry without its payload.
    pub fn head(&self) -> EntryHead {
        EntryHead {
            id: self.id.clone(),
            parent: self.parent.clone(),
            entry_type: self.entry_type.clone(),
            custom_type: self.custom_type.clone(),
            seq: self.seq,
            timestamp: self.timestamp,
        }
    }

    /// Whether `messageCount` counts it.
    pub fn is_message(&self) -> bool {
        self.entry_type == EntryType::Message
    }
}

/// An entry without its payload: what `scan_branch_structure` returns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EntryHead {
    /// Its id.
    pub id: EntryId,
    /// The parent, or none for a root.
    pub parent: Option<EntryId>,
    /// What it is.
    pub entry_type: EntryType,
    /// The application's type; only on custom entries.
    pub custom_type: Option<TypeName>,
    /// The seq of its insert.
    pub seq: Seq,
    /// When its commit was applied, Unix ms.
    pub timestamp: Millis,
}
