//! What can be wrong with a file of lines, and where.

use std::io;

/// Why a scan ended early. Line numbers count from 1, offsets are absolute in the file.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// The reader failed; nothing is known about the bytes from here on.
    #[error("read line {line} at byte offset {offset}")]
    Read {
        /// Line that was being read.
        line: u64,
        /// Offset of the first byte that could not be read.
        offset: u64,
        /// The reader's error.
        #[source]
        source: io::Error,
    },
    /// The bytes are no line of objects (formats §1, *corrupt source*).
    #[error("line {line}, byte offset {offset}: {reason}")]
    Malformed {
        /// Line with the offending byte.
        line: u64,
        /// Offset of the offending byte.
        offset: u64,
        /// What is wrong there.
        reason: Reason,
    },
}

impl ScanError {
    /// Line in which the scan ended, from 1.
    pub fn line(&self) -> u64 {
        match self {
            Self::Read { line, .. } | Self::Malformed { line, .. } => *line,
        }
    }

    /// Absolute byte offset at which the scan ended.
    pub fn offset(&self) -> u64 {
        match self {
            Self::Read { offset, .. } | Self::Malformed { offset, .. } => *offset,
        }
    }

    /// What is wrong with the bytes; `None` when the reader failed.
    pub fn reason(&self) -> Option<Reason> {
        match self {
            Self::Read { .. } => None,
            Self::Malformed { reason, .. } => Some(*reason),
        }
    }
}

/// What is wrong with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// Nothing but white space before the end of the line.
    #[error("line is blank")]
    BlankLine,
    /// The line, or an element of its array, starts with something else than an object.
    #[error("expected an object or an array of objects")]
    NotAnObject,
    /// Something stands behind the object or the array.
    #[error("unexpected text behind the line's value")]
    TrailingText,
    /// A newline inside a value.
    #[error("line ends inside a value")]
    LineEnd,
    /// The input ends without a newline.
    #[error("input ends inside the line")]
    InputEnd,
    /// A member name was due.
    #[error("expected a member name in double quotes")]
    ExpectedName,
    /// A colon was due behind a member name.
    #[error("expected a colon behind the member name")]
    ExpectedColon,
    /// A value was due.
    #[error("expected a value")]
    ExpectedValue,
    /// A comma or the closing bracket was due.
    #[error("expected a comma or the closing bracket")]
    ExpectedCommaOrEnd,
    /// A byte below 0x20 in a string.
    #[error("raw control character in a string")]
    ControlCharacter,
    /// A backslash with something behind it that JSON does not have.
    #[error("invalid escape in a string")]
    InvalidEscape,
    /// Neither integer, fraction nor exponent.
    #[error("invalid number")]
    InvalidNumber,
    /// A word that is neither `true`, `false` nor `null`.
    #[error("invalid literal")]
    InvalidLiteral,
    /// Bytes that are no UTF-8.
    #[error("invalid UTF-8")]
    InvalidUtf8,
    /// More levels than [`DEPTH_LIMIT`](super::DEPTH_LIMIT).
    #[error("value is nested deeper than {} levels", super::DEPTH_LIMIT)]
    TooDeep,
}
