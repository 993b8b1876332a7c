//! The records of a legacy file, one by one, and how they hang together.

use std::collections::BTreeMap;

use forkline_model::{Millis, TypeName, address::TEXT_BYTES_MAX};

use super::json::{Members, split_glued};
use super::report::{Damage, Repair, What};
use super::time;

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Message,
    CustomMessage,
    Custom,
    BranchSummary,
    Compaction,
    ContextEdit,
    Model,
    Thinking,
    Tools,
    Info,
    Label,
    Usage,
    /// A damaged record of which only the place in the tree is left.
    Place,
}

impl Kind {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "message" => Self::Message,
            "custom_message" => Self::CustomMessage,
            "custom" => Self::Custom,
            "branch_summary" => Self::BranchSummary,
            "compaction" => Self::Compaction,
            "context_edit" => Self::ContextEdit,
            "model_change" => Self::Model,
            "thinking_level_change" => Self::Thinking,
            "active_tools_change" => Self::Tools,
            "session_info" => Self::Info,
            "label" => Self::Label,
            "usage" => Self::Usage,
            _ => return None,
        })
    }

    pub(super) fn is_entry(self) -> bool {
        matches!(
            self,
            Self::Message
                | Self::CustomMessage
                | Self::Custom
                | Self::BranchSummary
                | Self::Compaction
                | Self::ContextEdit
        )
    }
}

/// One record.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) line: u64,
    pub(super) kind: Kind,
    /// Its legacy id; version 1 has none.
    pub(super) id: Option<String>,
    pub(super) parent: Option<usize>,
    pub(super) members: Members,
    pub(super) ms: Millis,
}

/// All records of a file.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) version: u64,
    pub(super) all: Vec<Record>,
    pub(super) by_id: BTreeMap<String, usize>,
    pub(super) damage: Vec<Damage>,
}

impl Records {
    /// Reads the lines behind the header.
    pub(super) fn read(version: u64, lines: &[&[u8]]) -> Self {
        let mut records = Self { version, ..Self::default() };
        for (line, bytes) in (2..).zip(lines) {
            records.line(line, bytes);
        }
        records
    }

    fn report(&mut self, line: u64, what: What, repair: Repair) {
        self.damage.push(Damage { line, what, repair });
    }

    fn line(&mut self, line: u64, bytes: &[u8]) {
        let Ok(text) = str::from_utf8(bytes) else {
            return self.report(line, What::NotAnObject, Repair::Skip);
        };
        if let Some(members) = Members::parse(text) {
            return self.record(line, members);
        }
        let Some(parts) = split_glued(text) else {
            return self.report(line, What::NotAnObject, Repair::Skip);
        };
        self.report(line, What::NotAnObject, Repair::Split);
        for part in parts {
            self.record(line, Members::parse(&part).expect("it is an object"));
        }
    }

    fn record(&mut self, line: u64, members: Members) {
        let id = if self.version == 1 {
            None
        } else {
            match members.text("id").filter(|id| id.len() <= TEXT_BYTES_MAX) {
                None => return self.report(line, What::BadId, Repair::Skip),
                Some(id) if self.by_id.contains_key(&id) => {
                    return self.report(line, What::RepeatedId, Repair::Skip);
                }
                Some(id) => Some(id),
            }
        };
        let (kind, ms) = match content(&members) {
            Ok(found) => found,
            Err(what) => {
                self.report(line, what, Repair::Skip);
                (Kind::Place, Millis::EPOCH)
            }
        };
        let before = self.all.len().checked_sub(1);
        let parent = if self.version == 1 {
            before
        } else if members.is_null("parentId") {
            None
        } else {
            let parent = members.text("parentId").and_then(|id| self.by_id.get(&id).copied());
            if parent.is_none() {
                self.report(line, What::MissingParent, Repair::Reattach);
            }
            parent.or(before)
        };
        if let Some(id) = &id {
            self.by_id.insert(id.clone(), self.all.len());
        }
        self.all.push(Record { line, kind, id, parent, members, ms });
    }

    /// The path from a record back to its root, itself first.
    pub(super) fn path(&self, from: Option<usize>) -> Vec<usize> {
        let mut path = Vec::new();
        let mut next = from;
        while let Some(index) = next {
            path.push(index);
            next = self.all[index].parent;
        }
        path
    }

    /// The nearest record that becomes an entry, the record itself included.
    pub(super) fn entry_of(&self, from: Option<usize>) -> Option<usize> {
        self.path(from).into_iter().find(|&index| self.all[index].kind.is_entry())
    }
}

/// Kind and time of a record.
fn content(members: &Members) -> Result<(Kind, Millis), What> {
    let kind = members
        .text("type")
        .and_then(|name| Kind::of(&name))
        .ok_or_else(|| What::UnsupportedType(members.raw("type").unwrap_or("(none)").to_owned()))?;
    if !kind.is_entry() {
        return Ok((kind, Millis::EPOCH));
    }
    let ms = members.text("timestamp").and_then(|text| time::parse(&text));
    let ms = ms.ok_or(What::BadTimestamp)?;
    let has_type = kind == Kind::Custom && members.raw("customType").is_some();
    if has_type && members.text("customType").and_then(|text| TypeName::new(text).ok()).is_none() {
        return Err(What::BadCustomType);
    }
    Ok((kind, ms))
}
