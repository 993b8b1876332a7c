//! Pass 1: every line of a legacy file, damaged ones included, as rows of the index.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use forkline_model::Millis;

use super::super::index::{HASH_BYTES, Keys, spill_error};
use super::super::lines::{Part, next_line};
use super::super::packed::{pack, part, u32_at};
use super::super::storage::Span;
use super::finding::{Findings, Mode, Repair, What};
use super::record::{self, SHAPE};
use super::row::{Kind, Link, ROW_BYTES, Row};
use crate::context::{Context, Progress};
use crate::error::{Error, Result};
use crate::fs::FileHandle;
use crate::scan::{Item, Object, Reason, Scan, ScanError};
use crate::spill::{Sorter, Table};

/// RAM for the rows, in bytes.
const ROWS_BUDGET: usize = 1024 * 1024;
/// RAM for ids that wait for each other, in bytes.
const NAMES_BUDGET: usize = 1024 * 1024;

/// How many records are read between two looks at the context.
const RECORDS_PER_CHECK: u32 = 1024;

/// Bytes of a [`Name`]: an id, what it stands for, and in which record.
pub(super) const NAME_BYTES: usize = HASH_BYTES + 1 + 4;

/// Why an id stands in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It is the record's own.
    Own,
    /// It is the parent's.
    Parent,
    /// The record refers to it.
    Reference,
}

impl Role {
    pub(super) fn from_byte(byte: u8) -> Self {
        match byte {
            0 => Self::Own,
            1 => Self::Parent,
            _ => Self::Reference,
        }
    }
}

/// An id in a record. Sorted, all uses of an id stand together, the record that has it first.
pub(super) struct Name {
    pub(super) hash: [u8; HASH_BYTES],
    pub(super) role: Role,
    pub(super) record: u32,
}

impl Name {
    pub(super) fn to_bytes(&self) -> [u8; NAME_BYTES] {
        pack(&[&self.hash, &[self.role as u8], &self.record.to_be_bytes()])
    }

    pub(super) fn from_bytes(bytes: &[u8; NAME_BYTES]) -> Self {
        let [role] = part(bytes, HASH_BYTES);
        let (hash, record) = (part(bytes, 0), u32_at(bytes, HASH_BYTES + 1));
        Self { hash, role: Role::from_byte(role), record }
    }
}

/// What pass 1 leaves.
pub(super) struct Read {
    pub(super) rows: Table<ROW_BYTES>,
    pub(super) names: Sorter<NAME_BYTES>,
    pub(super) findings: Findings,
    /// The record of the id that the caller asked for.
    pub(super) wanted: Option<u32>,
}

/// A legacy file as far as its whole lines go.
#[derive(Debug, Clone)]
pub(super) struct Lines<'a> {
    pub(super) file: &'a Arc<dyn FileHandle>,
    pub(super) path: &'a Path,
    pub(super) range: Range<u64>,
    pub(super) version: u64,
    pub(super) scratch: &'a Path,
}

/// Reads all records. Damage is collected, whatever the mode.
///
/// # Errors
/// I/O, *cancelled*, *limit exceeded*.
pub(super) fn read(
    lines: &Lines<'_>,
    mode: Mode,
    wanted: Option<&str>,
    cx: &Context,
) -> Result<Read> {
    let mut reader = Reader {
        lines,
        wanted_id: wanted,
        keys: Keys::new(),
        previous_id: String::new(),
        read: Read {
            rows: Table::new(lines.scratch, ROWS_BUDGET),
            names: Sorter::new(lines.scratch, NAMES_BUDGET),
            findings: Findings::new(mode),
            wanted: None,
        },
    };
    reader.all(cx)?;
    Ok(reader.read)
}

struct Reader<'a> {
    lines: &'a Lines<'a>,
    wanted_id: Option<&'a str>,
    keys: Keys,
    /// The id of the last row, where there is one: most parents are it.
    previous_id: String,
    read: Read,
}

impl Reader<'_> {
    fn all(&mut self, cx: &Context) -> Result<()> {
        let Range { mut start, end } = self.lines.range.clone();
        let mut number = 2;
        while start < end {
            let rest = Part::new(self.lines.file, start..end);
            let mut scan = Scan::new(rest, start, &SHAPE).from_line(number);
            let Some(damaged) = self.sound_lines(&mut scan, &mut start, &mut number, cx)? else {
                break;
            };
            start = self.damaged_line(number, start, damaged)?;
            number += 1;
        }
        Ok(())
    }

    /// Takes lines up to one that is none. `start` and `number` stay at the line to read next.
    fn sound_lines(
        &mut self,
        scan: &mut Scan<Part>,
        start: &mut u64,
        number: &mut u64,
        cx: &Context,
    ) -> Result<Option<(u64, Reason)>> {
        // A record counts when its whole line is good: until then its row can be taken back.
        let mut pending: Option<Pending> = None;
        let mut objects = 0;
        loop {
            match scan.next() {
                Ok(None) => return Ok(None),
                Ok(Some(Item::Object(object))) => {
                    objects += 1;
                    if objects == 1 {
                        pending = Some(Pending::of(object, self.lines.version));
                    }
                }
                Ok(Some(Item::Line { number: done, span })) => {
                    let is_one = objects == 1 && !self.is_array(&span)?;
                    match pending.take() {
                        Some(pending) if is_one => self.record(done, pending)?,
                        _ => {
                            let what = "an array".to_owned();
                            self.read.findings.lose(done, What::NotAnObject(what), 1);
                        }
                    }
                    objects = 0;
                    *start = span.end;
                    *number = done + 1;
                    if self.read.rows.len().is_multiple_of(RECORDS_PER_CHECK) {
                        let bytes_total = 2 * self.lines.range.end;
                        cx.progress(Progress { bytes_done: *start, bytes_total, rows_done: 0 })?;
                    }
                }
                Err(ScanError::Read { source, .. }) => {
                    return Err(Error::io("read", self.lines.path, source));
                }
                Err(ScanError::Malformed { offset, reason, .. }) => {
                    return Ok(Some((offset, reason)));
                }
            }
        }
    }

    /// Whether the first byte of a line that is no white space opens an array.
    fn is_array(&self, line: &Range<u64>) -> Result<bool> {
        let mut offset = line.start;
        let mut byte = [0];
        while offset < line.end {
            let count = self.lines.file.read_at(&mut byte, offset);
            let count = count.map_err(|error| Error::io("read", self.lines.path, error))?;
            match byte {
                // White space, or a byte order mark, which the first line of a file can have.
                [b' ' | b'\t' | b'\r'] if count > 0 => offset += 1,
                [first] => return Ok(first == b'['),
            }
        }
        Ok(false)
    }

    /// Reports a line that is not one object, or takes the whole objects that it is made of.
    /// Tells where the next line starts.
    fn damaged_line(&mut self, number: u64, start: u64, at: (u64, Reason)) -> Result<u64> {
        let (offset, reason) = at;
        let next = next_line(self.lines.file, self.lines.path, offset..self.lines.range.end)?;
        let what = What::NotAnObject(format!("{reason}, at byte {offset}"));
        // Also for a refusal: what names a record of this line is not damaged by that.
        let objects = match reason {
            Reason::TrailingText => self.glued(start..next)?,
            _ => None,
        };
        let Some(objects) = objects else {
            self.read.findings.lose(number, what, 1);
            return Ok(next);
        };
        self.read.findings.add(number, what, Repair::Split);
        let mut at = start;
        for _ in 0..objects {
            let rest = Part::new(self.lines.file, at..next);
            let mut scan = Scan::new(rest, at, &SHAPE);
            if let Ok(Some(Item::Object(object))) = scan.next() {
                at = object.span().end;
                let pending = Pending::of(object, self.lines.version);
                self.record(number, pending)?;
            }
        }
        Ok(next)
    }

    /// How many whole objects a line is made of; none if it is made of anything else.
    fn glued(&self, line: Range<u64>) -> Result<Option<u64>> {
        let (mut at, mut objects) = (line.start, 0);
        loop {
            let rest = Part::new(self.lines.file, at..line.end);
            let mut scan = Scan::new(rest, at, &SHAPE);
            match scan.next() {
                Ok(Some(Item::Object(object))) => {
                    let is_array = self.is_array(&(at..line.end))?;
                    at = object.span().end;
                    objects += 1;
                    if is_array {
                        return Ok(None);
                    }
                }
                _ => return Ok(None),
            }
            match scan.next() {
                Ok(Some(Item::Line { .. })) => return Ok(Some(objects)),
                Err(ScanError::Malformed { reason: Reason::TrailingText, .. }) => {}
                _ => return Ok(None),
            }
        }
    }

    /// Takes one record.
    fn record(&mut self, line: u64, pending: Pending) -> Result<()> {
        let findings = &mut self.read.findings;
        if pending.id.is_none() && self.lines.version > 1 {
            findings.lose(line, What::BadId, 1);
            return Ok(());
        }
        if let Some(what) = pending.damage {
            findings.add(line, what, Repair::Skipped);
        }
        let index = self.read.rows.len();
        let (parent, parent_id) = match pending.parent {
            _ if self.lines.version == 1 => (Link::from(index.checked_sub(1)), None),
            Named::Nothing => (Link::Nothing, None),
            Named::Id(id) if index > 0 && id == self.previous_id => (Link::To(index - 1), None),
            Named::Id(id) => (Link::Unresolved, Some(id)),
            Named::NoText => (Link::Unresolved, None),
        };
        let (reference, reference_id) = match pending.reference {
            Named::Nothing => (Link::Nothing, None),
            Named::Id(id) => (Link::Unresolved, Some(id)),
            Named::NoText => (Link::Unresolved, None),
        };
        let limit = |what: &str| Error::LimitExceeded {
            what: format!(
                "{} has more {what} than a legacy import takes",
                self.lines.path.display()
            ),
        };
        let row = Row {
            kind: pending.kind,
            is_selected: false,
            line: u32::try_from(line).map_err(|_| limit("lines"))?,
            parent,
            // Version 1 keeps the line in which the kept part begins here until it is resolved.
            entry: pending.first_kept_line,
            reference,
            span: pending.span,
            ms: pending.ms,
        };
        let failed = |error| spill_error(self.lines.scratch, error);
        self.read.rows.push(row.to_bytes()).map_err(failed)?.ok_or_else(|| limit("records"))?;
        if let Some(id) = pending.id {
            if self.read.wanted.is_none() && self.wanted_id == Some(&id) {
                self.read.wanted = Some(index);
            }
            self.name(&id, Role::Own, index)?;
            self.previous_id = id;
        }
        if let Some(id) = parent_id {
            self.name(&id, Role::Parent, index)?;
        }
        if let Some(id) = reference_id {
            self.name(&id, Role::Reference, index)?;
        }
        Ok(())
    }

    fn name(&mut self, id: &str, role: Role, record: u32) -> Result<()> {
        let name = Name { hash: self.keys.entry(id), role, record };
        let failed = |error| spill_error(self.lines.scratch, error);
        self.read.names.push(name.to_bytes()).map_err(failed)
    }
}

/// An id that a record names.
enum Named {
    Nothing,
    Id(String),
    /// Something that is no id.
    NoText,
}

impl Named {
    fn of(object: &Object, index: usize) -> Self {
        match record::text(object, index) {
            Some(id) => Self::Id(id.to_owned()),
            None if record::is_null(object, index) => Self::Nothing,
            None => Self::NoText,
        }
    }

    /// Of a member that has to be there.
    fn required(object: &Object, index: usize) -> Self {
        match Self::of(object, index) {
            Self::Nothing => Self::NoText,
            other => other,
        }
    }
}

/// A record whose line is not checked to its end yet.
struct Pending {
    id: Option<String>,
    parent: Named,
    reference: Named,
    first_kept_line: u32,
    kind: Kind,
    ms: Millis,
    span: Span,
    damage: Option<What>,
}

impl Pending {
    fn of(object: &Object, version: u64) -> Self {
        let (content, damage) = match record::content(object) {
            Ok(content) => (content, None),
            Err(what) => {
                let (kind, ms) = (Kind::Place, Millis::EPOCH);
                (record::Content { kind, ms, span: object.span() }, Some(what))
            }
        };
        let reference = match content.kind {
            Kind::BranchSummary => match Named::of(object, record::FROM_ID) {
                Named::Id(id) if id == "root" => Named::Nothing,
                other => other,
            },
            Kind::Compaction if version == 1 => Named::Nothing,
            Kind::Compaction => Named::required(object, record::FIRST_KEPT_ID),
            Kind::ContextEdit | Kind::Label | Kind::LabelRemoval => {
                Named::required(object, record::TARGET_ID)
            }
            _ => Named::Nothing,
        };
        let first_kept_line = if version == 1 && content.kind == Kind::Compaction {
            record::first_kept_line(object).and_then(|line| u32::try_from(line).ok()).unwrap_or(0)
        } else {
            0
        };
        Self {
            id: if version == 1 {
                None
            } else {
                record::text(object, record::ID).map(str::to_owned)
            },
            parent: Named::of(object, record::PARENT_ID),
            reference,
            first_kept_line,
            kind: content.kind,
            ms: content.ms,
            span: Span::from(content.span),
            damage,
        }
    }
}
