//! Pass 2 over the index: ids become links, links become a tree, entries get their ids.

use forkline_model::EntryId;

use super::super::index::spill_error;
use super::super::packed::{pack, part, u32_at};
use super::finding::{Findings, Repair, What};
use super::reader::{Lines, NAME_BYTES, Name, Read, Role};
use super::row::{Kind, Link, ROW_BYTES, Row};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::ids::IdSource;
use crate::spill::{Sorted, Sorter, SpillError, Table, Tape};

/// RAM for links that wait for their record, in bytes.
const LINKS_BUDGET: usize = 512 * 1024;
/// RAM for the minted ids, in bytes.
const IDS_BUDGET: usize = 512 * 1024;
/// RAM for the labels, in bytes.
const LABELS_BUDGET: usize = 256 * 1024;

/// Bytes of a link: the record that has it, why, and where it leads.
const LINK_BYTES: usize = 9;
/// Bytes of a minted id: the record, a tag, and up to 23 of text.
const ID_BYTES: usize = 4 + 24;
/// Bytes of a label event: target's seq, the label's record, whether it names something.
const EVENT_BYTES: usize = 9;
/// Bytes of a label that is left: its order, the target's seq, the label's record.
pub(super) const LABEL_BYTES: usize = 12;

/// How many records are resolved between two looks at the context.
const RECORDS_PER_CHECK: u32 = 1024;

/// A legacy session as rows.
pub(super) struct Tree {
    pub(super) rows: Table<ROW_BYTES>,
    pub(super) ids: Ids,
    /// How many entries there are: seqs 1 to this.
    pub(super) entries: u32,
    /// The last record, which is the selected position.
    pub(super) last: Option<u32>,
    /// The last record that names the session.
    pub(super) info: Option<u32>,
    /// The labels that are left, in the order of first labelling.
    pub(super) labels: Sorted<LABEL_BYTES>,
    pub(super) scratch: std::path::PathBuf,
}

impl Tree {
    /// The row of a record.
    pub(super) fn row(&mut self, index: u32) -> Result<Row> {
        let row = self.rows.get(index).map_err(|error| spill_error(&self.scratch, error))?;
        Ok(Row::from_bytes(&row))
    }

    pub(super) fn set_row(&mut self, index: u32, row: Row) -> Result<()> {
        let set = self.rows.set(index, row.to_bytes());
        set.map_err(|error| spill_error(&self.scratch, error))
    }

    /// The record of the entry with a seq, which is not 0.
    pub(super) fn record_of_entry(&mut self, seq: u32) -> Result<u32> {
        self.ids.record(seq.saturating_sub(1))
    }

    /// The id of the entry with a seq; none for 0.
    pub(super) fn id(&mut self, seq: u32) -> Result<Option<EntryId>> {
        match seq.checked_sub(1) {
            None => Ok(None),
            Some(index) => self.ids.get(index).map(Some),
        }
    }
}

/// The minted ids and the records of entries, by seq less 1.
pub(super) struct Ids {
    table: Table<ID_BYTES>,
    scratch: std::path::PathBuf,
}

impl Ids {
    /// Keeps the next id: a UUID as its 16 bytes, any other text as it is.
    fn push(&mut self, id: &str, record: u32) -> Result<()> {
        let mut padded = [0; ID_BYTES - 5];
        let uuid = uuid::Uuid::parse_str(id).ok().filter(|uuid| uuid.to_string() == id);
        let (tag, text) = match &uuid {
            Some(uuid) => (u8::MAX, uuid.as_bytes().as_slice()),
            None => (u8::try_from(id.len()).unwrap_or(u8::MAX), id.as_bytes()),
        };
        let place = padded.get_mut(..text.len()).filter(|_| uuid.is_some() || tag < u8::MAX);
        let place = place.ok_or_else(|| Error::LimitExceeded {
            what: format!("an id of {} bytes that is no UUID", id.len()),
        })?;
        place.copy_from_slice(text);
        let pushed = self.table.push(pack(&[&record.to_be_bytes(), &[tag], &padded]));
        pushed.map_err(|error| spill_error(&self.scratch, error)).map(|_| ())
    }

    fn get(&mut self, index: u32) -> Result<EntryId> {
        let bytes = self.table.get(index).map_err(|error| spill_error(&self.scratch, error))?;
        let ([tag], rest) = (part(&bytes, 4), part::<{ ID_BYTES - 5 }>(&bytes, 5));
        let text = if tag == u8::MAX {
            let bytes = rest.first_chunk::<16>().copied().unwrap_or_default();
            uuid::Uuid::from_bytes(bytes).to_string()
        } else {
            let text = rest.get(..usize::from(tag)).unwrap_or_default();
            String::from_utf8_lossy(text).into_owned()
        };
        Ok(EntryId::new(text)?)
    }

    fn record(&mut self, index: u32) -> Result<u32> {
        let bytes = self.table.get(index).map_err(|error| spill_error(&self.scratch, error))?;
        Ok(u32_at(&bytes, 0))
    }
}

/// Resolves what pass 1 has read.
///
/// # Errors
/// I/O, *cancelled*, *limit exceeded*.
pub(super) fn resolve(
    lines: &Lines<'_>,
    read: Read,
    ids: &dyn IdSource,
    cx: &Context,
) -> Result<(Tree, Findings)> {
    let Read { rows, names, findings, .. } = read;
    let failed = |error: SpillError| spill_error(lines.scratch, error);
    let found = link(lines, names.finish().map_err(failed)?)?.finish().map_err(failed)?;
    let scratch = lines.scratch.to_owned();
    let ids_table = Ids { table: Table::new(lines.scratch, IDS_BUDGET), scratch: scratch.clone() };
    // Never read: the tree gets its labels at the end.
    let none = Sorter::new(lines.scratch, 0).finish().map_err(failed)?;
    let mut resolver = Resolver {
        version: lines.version,
        tree: Tree {
            rows,
            ids: ids_table,
            entries: 0,
            last: None,
            info: None,
            labels: none,
            scratch,
        },
        findings,
        label_records: Tape::new(lines.scratch, LABELS_BUDGET),
    };
    resolver.all(found, ids, cx)?;
    let labels = resolver.labels()?;
    resolver.tree.labels = labels;
    Ok((resolver.tree, resolver.findings))
}

/// Joins the ids with the records that have them.
fn link(lines: &Lines<'_>, names: Sorted<NAME_BYTES>) -> Result<Sorter<LINK_BYTES>> {
    let failed = |error: SpillError| spill_error(lines.scratch, error);
    let mut found = Sorter::new(lines.scratch, LINKS_BUDGET);
    let mut owner = None;
    for name in names {
        let name = Name::from_bytes(&name.map_err(failed)?);
        let known = owner.filter(|(hash, _)| *hash == name.hash).map(|(_, record)| record);
        match (name.role, known) {
            (Role::Own, None) => owner = Some((name.hash, name.record)),
            (_, None) => {}
            (role, Some(target)) => {
                let link =
                    pack(&[&name.record.to_be_bytes(), &[role as u8], &u32::to_be_bytes(target)]);
                found.push(link).map_err(failed)?;
            }
        }
    }
    Ok(found)
}

/// A link as it comes sorted by the record that has it.
fn read_link(bytes: &[u8; LINK_BYTES]) -> (u32, Role, u32) {
    let [role] = part(bytes, 4);
    (u32_at(bytes, 0), Role::from_byte(role), u32_at(bytes, 5))
}

struct Resolver {
    version: u64,
    tree: Tree,
    findings: Findings,
    label_records: Tape<4>,
}

impl Resolver {
    fn all(&mut self, links: Sorted<LINK_BYTES>, ids: &dyn IdSource, cx: &Context) -> Result<()> {
        let mut links = links.peekable();
        for index in 0..self.tree.rows.len() {
            if index.is_multiple_of(RECORDS_PER_CHECK) {
                cx.check()?;
            }
            let mut row = self.tree.row(index)?;
            while let Some(link) = links.next_if(|link| match link {
                Ok(link) => read_link(link).0 == index,
                Err(_) => true,
            }) {
                let link = link.map_err(|error| spill_error(&self.tree.scratch, error))?;
                let (_, role, target) = read_link(&link);
                match role {
                    Role::Own => {
                        row.kind = Kind::Repeated;
                        row.reference = Link::To(target);
                    }
                    Role::Parent => row.parent = Link::To(target),
                    Role::Reference if row.kind != Kind::Repeated => {
                        row.reference = Link::To(target);
                    }
                    Role::Reference => {}
                }
            }
            self.record(index, &mut row, ids)?;
            self.tree.set_row(index, row)?;
        }
        Ok(())
    }

    fn record(&mut self, index: u32, row: &mut Row, ids: &dyn IdSource) -> Result<()> {
        let line = u64::from(row.line);
        if row.kind == Kind::Repeated {
            self.findings.add(line, What::RepeatedId, Repair::Skipped);
            return Ok(());
        }
        let first_kept_line = std::mem::take(&mut row.entry);
        self.parent(index, row)?;
        let inherited = match row.parent.index() {
            Some(parent) => self.tree.row(parent)?.entry,
            None => 0,
        };
        row.entry = inherited;
        self.reference(index, row, first_kept_line)?;
        if row.kind.is_entry() {
            let id = ids.next(Some(row.ms));
            self.tree.ids.push(&id, index)?;
            self.tree.entries += 1;
            row.entry = self.tree.entries;
        }
        match row.kind {
            Kind::Info => self.tree.info = Some(index),
            Kind::Label | Kind::LabelRemoval => {
                let pushed = self.label_records.push(index.to_be_bytes());
                pushed.map_err(|error| spill_error(&self.tree.scratch, error))?;
            }
            _ => {}
        }
        self.tree.last = Some(index);
        Ok(())
    }

    /// A parent has to stand earlier; a record without one that does hangs on the last one.
    fn parent(&mut self, index: u32, row: &mut Row) -> Result<()> {
        row.parent = match row.parent {
            Link::Nothing => Link::Nothing,
            Link::To(parent) if parent < index => match self.tree.row(parent)? {
                Row { kind: Kind::Repeated, reference, .. } => reference,
                _ => Link::To(parent),
            },
            Link::To(_) | Link::Unresolved => {
                let line = u64::from(row.line);
                self.findings.add(line, What::MissingParent, Repair::Reattached);
                Link::from(self.tree.last)
            }
        };
        Ok(())
    }

    fn reference(&mut self, index: u32, row: &mut Row, first_kept_line: u32) -> Result<()> {
        if self.version == 1 && row.kind == Kind::Compaction {
            row.reference = self.record_of_line(first_kept_line)?;
        }
        let line = u64::from(row.line);
        match (row.kind, row.reference) {
            (Kind::Label | Kind::LabelRemoval, Link::Unresolved) => {
                self.findings.add(line, What::UnknownReference, Repair::Skipped);
                row.kind = Kind::Place;
            }
            (_, Link::Unresolved) => {
                let what = if self.version == 1 && row.kind == Kind::Compaction {
                    What::TailNotOnPath
                } else {
                    What::UnknownReference
                };
                self.findings.add(line, what, Repair::Unlinked);
                row.reference = Link::Nothing;
            }
            (Kind::Compaction, Link::To(first))
                if !self.is_on_path(index, row.parent, first)? =>
            {
                self.findings.add(line, What::TailNotOnPath, Repair::Unlinked);
                row.reference = Link::Nothing;
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether a kept part that begins at `first` ends at a compaction. Its own id means that
    /// nothing is kept.
    fn is_on_path(&mut self, compaction: u32, parent: Link, first: u32) -> Result<bool> {
        if first == compaction {
            return Ok(true);
        }
        let mut next = parent.index();
        // Parents have lower indexes: below `first` nothing can be it.
        while let Some(index) = next.filter(|&index| index >= first) {
            if index == first {
                return Ok(true);
            }
            next = self.tree.row(index)?.parent.index();
        }
        Ok(false)
    }

    /// The first record of a line, by bisection.
    fn record_of_line(&mut self, line: u32) -> Result<Link> {
        let (mut low, mut high) = (0, self.tree.rows.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.tree.row(middle)?.line < line { low = middle + 1 } else { high = middle }
        }
        let is_there = low < self.tree.rows.len() && self.tree.row(low)?.line == line;
        Ok(if is_there { Link::To(low) } else { Link::Unresolved })
    }

    /// The labels that are left: the last one of each target, in the order in which targets
    /// were first labelled after their last removal.
    fn labels(&mut self) -> Result<Sorted<LABEL_BYTES>> {
        let scratch = self.tree.scratch.clone();
        let failed = |error: SpillError| spill_error(&scratch, error);
        let mut events = Sorter::<EVENT_BYTES>::new(&scratch, LABELS_BUDGET);
        for record in self.label_records.forward() {
            let record = u32::from_be_bytes(record.map_err(failed)?);
            let row = self.tree.row(record)?;
            let Some(target) = row.reference.index() else { continue };
            let target = self.tree.row(target)?.entry;
            if target > 0 {
                let is_set = u8::from(row.kind == Kind::Label);
                let event = pack(&[&target.to_be_bytes(), &record.to_be_bytes(), &[is_set]]);
                events.push(event).map_err(failed)?;
            }
        }
        let mut labels = Sorter::<LABEL_BYTES>::new(&scratch, LABELS_BUDGET);
        // The target that is looked at, and the first and last record of its label.
        let mut target = 0;
        let mut label = None;
        let mut leave = |target: u32, label: Option<(u32, u32)>| match label {
            Some((first, last)) => {
                let parts = [first, target, last].map(u32::to_be_bytes);
                labels.push(pack(&parts.each_ref().map(<[u8; 4]>::as_slice))).map_err(failed)
            }
            None => Ok(()),
        };
        for event in events.finish().map_err(failed)? {
            let event = event.map_err(failed)?;
            let (of, record, [is_set]) = (u32_at(&event, 0), u32_at(&event, 4), part(&event, 8));
            if target != of {
                leave(target, label.take())?;
                target = of;
            }
            label = (is_set == 1).then(|| (label.map_or(record, |(first, _)| first), record));
        }
        leave(target, label)?;
        labels.finish().map_err(failed)
    }
}

/// A label that is left: the target's seq, and the record that has the text.
pub(super) fn read_label(bytes: [u8; LABEL_BYTES]) -> (u32, u32) {
    (u32_at(&bytes, 4), u32_at(&bytes, 8))
}
