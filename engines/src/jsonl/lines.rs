//! The writes of a session file, one by one, checked (formats §1, "Validity on read").
//!
//! What is checked here holds for every reader of a file, whatever it takes from it: lines,
//! kinds, ops, routed members, rising seqs. What needs memory of other lines (repeated ids,
//! parents) is checked by who has that memory.

use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use forkline_model::address::{SEQ_MAX, TEXT_BYTES_MAX, shortened};
use forkline_model::{Millis, Seq, StoreKind};

use crate::error::{Error, Place, Result};
use crate::fs::{FileHandle, read_full};
use crate::scan::{Class, Found, Item, Member, Object, Scan, ScanError, Shape, Text, as_integer};

const KIND: usize = 0;
const OP: usize = 1;
const ID: usize = 2;
pub(super) const PARENT_ID: usize = 3;
const TYPE: usize = 4;
const CUSTOM_TYPE: usize = 5;
const SEQ: usize = 6;
const TIMESTAMP: usize = 7;
const NAMESPACE: usize = 8;
const KEY: usize = 9;
pub(super) const VALUE: usize = 10;
const USAGE: usize = 11;
const ADJUSTMENT: usize = 12;
const ENTRY_ID: usize = 13;

/// The members that a write is routed by.
pub(super) static SHAPE: Shape = Shape::new(&[
    Member::decoded("kind"),
    Member::decoded("op"),
    Member::decoded("id"),
    Member::decoded("parentId"),
    Member::decoded("type"),
    Member::decoded("customType"),
    Member::decoded("seq"),
    Member::decoded("timestamp"),
    Member::decoded("namespace"),
    Member::decoded("key"),
    Member::decoded("value"),
    Member::placed("usage"),
    Member::placed("adjustment"),
    Member::decoded("entryId"),
]);

/// Some bytes of a file, from an offset to an end, as a reader of its own.
#[derive(Debug, Clone)]
pub(super) struct Part {
    file: Arc<dyn FileHandle>,
    start: u64,
    at: u64,
    end: u64,
}

impl Part {
    pub(super) fn new(file: &Arc<dyn FileHandle>, range: Range<u64>) -> Self {
        Self { file: file.clone(), start: range.start, at: range.start, end: range.end }
    }
}

impl Read for Part {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let wanted = left.min(buffer.len());
        let count = self.file.read_at(buffer.get_mut(..wanted).unwrap_or_default(), self.at)?;
        if count == 0 && wanted > 0 {
            // The file is shorter than it was when its length was taken.
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for Part {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        let at = match to {
            SeekFrom::Start(offset) => self.start.checked_add(offset),
            SeekFrom::Current(offset) => self.at.checked_add_signed(offset),
            SeekFrom::End(offset) => self.end.checked_add_signed(offset),
        };
        self.at = at.ok_or(std::io::ErrorKind::InvalidInput)?;
        Ok(self.at - self.start)
    }
}

/// One write as it stands in the file. Texts are decoded and valid names.
#[derive(Debug, Clone)]
pub(super) struct Line<'a> {
    /// The number of its line, from 1.
    pub(super) number: u64,
    /// The object's bytes in the file.
    pub(super) span: Range<u64>,
    pub(super) seq: Seq,
    pub(super) what: What<'a>,
}

/// What a write does.
#[derive(Debug, Clone)]
pub(super) enum What<'a> {
    Entry {
        id: &'a str,
        parent: Option<&'a str>,
        entry_type: &'a str,
        custom_type: Option<&'a str>,
        timestamp: Millis,
    },
    Usage {
        id: &'a str,
        usage: Range<u64>,
    },
    Store {
        kind: StoreKind,
        namespace: &'a str,
        key: &'a str,
        /// What is set or appended; none for a delete.
        value: Option<Found<'a>>,
    },
}

/// Visits the writes of some whole lines and gives back the highest seq, or 0.
///
/// `lines` are the bytes behind the header up to a line's end.
///
/// # Errors
/// *Corrupt source* with the line, I/O, and what `visit` answers.
pub(super) fn for_each(
    file: &Arc<dyn FileHandle>,
    path: &Path,
    lines: Range<u64>,
    visit: &mut dyn FnMut(Line<'_>) -> Result<()>,
) -> Result<u64> {
    let mut scan = Scan::new(Part::new(file, lines.clone()), lines.start, &SHAPE).from_line(2);
    let (mut number, mut last_seq) = (2, 0);
    loop {
        match scan.next().map_err(|error| scan_error(path, error))? {
            None => return Ok(last_seq),
            Some(Item::Line { number: done, .. }) => number = done + 1,
            Some(Item::Object(object)) => {
                let line = read(object, number)
                    .map_err(|reason| Error::corrupt(Place::line(path, number), reason))?;
                if line.seq.get() <= last_seq {
                    let reason = format!("seq {} does not rise above {last_seq}", line.seq);
                    return Err(Error::corrupt(Place::line(path, number), reason));
                }
                last_seq = line.seq.get();
                visit(line)?;
            }
        }
    }
}

/// Reads one object again that [`for_each`] has visited.
///
/// # Errors
/// *Corrupt source* when it is not there any more, I/O, and what `visit` answers.
pub(super) fn object_at<T>(
    file: &Arc<dyn FileHandle>,
    path: &Path,
    span: Range<u64>,
    visit: impl FnOnce(&Line<'_>) -> Result<T>,
) -> Result<T> {
    let offset = span.start;
    let mut objects = Scan::new(Part::new(file, span), offset, &SHAPE);
    let line = match objects.next().map_err(|error| scan_error(path, error))? {
        Some(Item::Object(object)) => read(object, 0),
        _ => Err("it is no object any more".to_owned()),
    };
    visit(&line.map_err(|reason| changed(path, offset, &reason))?)
}

/// The error of a file whose bytes are not what they were a moment ago.
pub(super) fn changed(path: &Path, offset: u64, what: &str) -> Error {
    Error::corrupt(path, format!("it changed at byte {offset} while it was read: {what}"))
}

/// The number of the line that holds the byte at `offset`, from 1.
pub(super) fn line_number(file: &dyn FileHandle, path: &Path, offset: u64) -> Result<u64> {
    let mut buffer = vec![0; 64 * 1024];
    let (mut at, mut number) = (0, 1);
    while at < offset {
        let left = usize::try_from(offset - at).map_or(buffer.len(), |left| left.min(buffer.len()));
        let piece = buffer.get_mut(..left).unwrap_or_default();
        let count = read_full(file, piece, at).map_err(|error| Error::io("read", path, error))?;
        if count == 0 {
            break;
        }
        let piece = piece.get(..count).unwrap_or_default();
        number += memchr::memchr_iter(b'\n', piece).count() as u64;
        at += count as u64;
    }
    Ok(number)
}

/// The start of the line behind the one that holds the first byte of a range; its end if there
/// is none.
pub(super) fn next_line(file: &Arc<dyn FileHandle>, path: &Path, range: Range<u64>) -> Result<u64> {
    let mut piece = vec![0; 64 * 1024];
    let mut at = range.start;
    while at < range.end {
        let count =
            read_full(&**file, &mut piece, at).map_err(|error| Error::io("read", path, error))?;
        let read = piece.get(..count).unwrap_or_default();
        if let Some(index) = memchr::memchr(b'\n', read) {
            return Ok(range.end.min(at + index as u64 + 1));
        }
        if count == 0 {
            break;
        }
        at += count as u64;
    }
    Ok(range.end)
}

fn scan_error(path: &Path, error: ScanError) -> Error {
    match error {
        ScanError::Read { source, .. } => Error::io("read", path, source),
        ScanError::Malformed { line, offset, reason } => {
            Error::corrupt(Place::line(path, line), format!("{reason}, at byte {offset}"))
        }
    }
}

/// Reads the routed members of an object, or says what is wrong with them.
pub(super) fn read(object: &Object, number: u64) -> Result<Line<'_>, String> {
    let seq = integer(object, SEQ, "seq")?;
    let seq = Seq::new(seq).map_err(|error| error.to_string())?;
    let what = match text(object, KIND, "kind")? {
        "entry" => entry(object)?,
        "usage" => usage(object)?,
        "value" => store(object, StoreKind::Value, ["set", "delete"])?,
        "list" => store(object, StoreKind::List, ["append", "delete"])?,
        other => return Err(format!("unknown kind {:?}", shortened(other))),
    };
    Ok(Line { number, span: object.span(), seq, what })
}

fn entry(object: &Object) -> Result<What<'_>, String> {
    let parent = object.member(PARENT_ID).ok_or("parentId is missing")?;
    let parent = match parent.class {
        Class::Null => None,
        _ => Some(text(object, PARENT_ID, "parentId")?),
    };
    let entry_type = text(object, TYPE, "type")?;
    let is_typed = entry_type == "custom" && object.member(CUSTOM_TYPE).is_some();
    let timestamp = integer(object, TIMESTAMP, "timestamp")?;
    Ok(What::Entry {
        id: text(object, ID, "id")?,
        parent,
        entry_type,
        custom_type: is_typed.then(|| text(object, CUSTOM_TYPE, "customType")).transpose()?,
        timestamp: Millis::new(timestamp).map_err(|error| error.to_string())?,
    })
}

fn usage(object: &Object) -> Result<What<'_>, String> {
    let id = text(object, ID, "id")?;
    let usage = object.member(USAGE).filter(|usage| usage.class == Class::Object);
    let usage = usage.ok_or("usage is missing or no object")?.span;
    match object.member(ADJUSTMENT).map(|adjustment| adjustment.class) {
        Some(Class::True | Class::False) => {}
        _ => return Err("adjustment is neither true nor false".to_owned()),
    }
    if object.member(ENTRY_ID).is_some_and(|entry| entry.class != Class::Null) {
        text(object, ENTRY_ID, "entryId")?;
    }
    Ok(What::Usage { id, usage })
}

fn store<'a>(
    object: &'a Object,
    kind: StoreKind,
    [put, delete]: [&str; 2],
) -> Result<What<'a>, String> {
    let op = text(object, OP, "op")?;
    let value = if op == put {
        Some(object.member(VALUE).ok_or("value is missing")?)
    } else if op == delete {
        None
    } else {
        return Err(format!("unknown op {:?} of a {}", shortened(op), kind.as_str()));
    };
    let namespace = text(object, NAMESPACE, "namespace")?;
    if namespace.is_empty() {
        return Err("namespace is empty".to_owned());
    }
    Ok(What::Store { kind, namespace, key: text(object, KEY, "key")?, value })
}

/// The text of a member that has to be one.
fn text<'a>(object: &'a Object, index: usize, name: &str) -> Result<&'a str, String> {
    let found = object.member(index).ok_or_else(|| format!("{name} is missing"))?;
    if found.class != Class::String {
        return Err(format!("{name} is no text"));
    }
    match found.text {
        Text::Decoded(text) if text.contains('\0') => Err(format!("{name} holds U+0000")),
        Text::Decoded(text) => Ok(text),
        Text::TooLong => Err(format!("{name} is longer than {TEXT_BYTES_MAX} bytes")),
        Text::Surrogate | Text::Absent => {
            Err(format!("{name} has a lone surrogate and is no Unicode text"))
        }
    }
}

fn integer(object: &Object, index: usize, name: &str) -> Result<u64, String> {
    let found = object.member(index).ok_or_else(|| format!("{name} is missing"))?;
    let is_number = found.class == Class::Number;
    let integer = found.text.decoded().filter(|_| is_number).and_then(as_integer);
    integer.ok_or_else(|| format!("{name} is no integer from 0 to {SEQ_MAX}"))
}
