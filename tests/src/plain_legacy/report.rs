//! What is wrong with a legacy file, and what a salvage did about it.

use std::fmt;

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// It is not one JSON object.
    NotAnObject,
    /// Its `type` is not one that the import knows.
    UnsupportedType(String),
    /// Its `id` is missing or no text.
    BadId,
    /// Its `timestamp` is needed and no time.
    BadTimestamp,
    /// The `customType` of a custom record is no text.
    BadCustomType,
    /// An earlier record has its id.
    RepeatedId,
    /// Its parent is no earlier record.
    MissingParent,
    /// It names a record that is not there.
    UnknownReference,
    /// What it keeps does not begin on its own path.
    TailNotOnPath,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAnObject => "is not one JSON object",
            Self::UnsupportedType(found) => {
                return write!(f, "unsupported legacy record type {found}");
            }
            Self::BadId => "id is missing or no text",
            Self::BadTimestamp => "timestamp is no time",
            Self::BadCustomType => "customType is no text",
            Self::RepeatedId => "an earlier record has this id",
            Self::MissingParent => "its parent is no earlier record",
            Self::UnknownReference => "names a record that is not there",
            Self::TailNotOnPath => "firstKeptEntryId is not on its path",
        })
    }
}

/// Something that the import stumbled over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The line, from 1.
    pub line: u64,
    /// What is wrong.
    pub what: What,
    /// What a salvage does about it.
    pub repair: Repair,
}

/// What a salvage does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Repair {
    /// Leaves the line or the record out. Its children stay where they are.
    Skip,
    /// Takes the objects of one line as so many records.
    Split,
    /// Hangs the record on the nearest earlier one.
    Reattach,
    /// Sets the reference to null, or the tail to nothing.
    Unlink,
}

/// Why there is no import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The first line is no legacy header.
    Header(String),
    /// A version that is not 1, 2 or 3.
    Version(String),
    /// Damaged lines, in the order of the file.
    Damaged(Vec<Damage>),
}
