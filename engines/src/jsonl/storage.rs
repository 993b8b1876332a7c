//! One open session in a JSONL file.
//!
//! Invariants: the file is `len` bytes of whole lines, as this session left it, or commits are
//! refused; after a failed write there are no more commits; the structure never shows a commit
//! that is not in the file.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use forkline_model::{
    Address, BranchScan, Entry, EntryHead, EntryId, EntryQuery, Json, Key, ListQuery, Metadata,
    Millis, Namespace, Seq, SeqQuery, Stats, Usage, UsageRow, Write,
};

use super::commit::{CommitLine, payload};
use super::file::{Access, SessionFile};
use super::open::{Opened, Structure, read_json, read_text};
use super::source::JsonlSource;
use crate::context::Context;
use crate::error::{Error, Place, Result};
use crate::fork::Source;
use crate::fs::{FileHandle, FileSystem, Stat, append_all};
use crate::repo::SyncCommits;
use crate::resident::{LedgerNode, Node};
use crate::storage::{Committed, StateRow, Storage};

/// Some bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) offset: u64,
    pub(super) len: u64,
}

impl From<Range<u64>> for Span {
    fn from(range: Range<u64>) -> Self {
        Self { offset: range.start, len: range.end.saturating_sub(range.start) }
    }
}

/// What all open sessions of a repository share.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    pub(super) fs: Arc<dyn FileSystem>,
    pub(super) scratch: PathBuf,
    pub(super) sync: SyncCommits,
}

pub(super) struct JsonlStorage {
    setting: Setting,
    path: PathBuf,
    metadata: Metadata,
    /// The lock is the commit queue.
    state: RwLock<State>,
}

struct State {
    structure: Structure,
    /// None when the session is closed.
    file: Option<Arc<dyn FileHandle>>,
    /// What the file was when this session wrote last.
    left: Stat,
    is_poisoned: bool,
}

impl JsonlStorage {
    pub(super) fn new(
        setting: Setting,
        path: PathBuf,
        metadata: Metadata,
        opened: Opened,
    ) -> Result<Self> {
        let Opened { handle, structure, len } = opened;
        let stat = handle.stat().map_err(|error| Error::io("look at", &path, error))?;
        let left = Stat { len, ..stat };
        let state = State { structure, file: Some(handle), left, is_poisoned: false };
        Ok(Self { setting, path, metadata, state: RwLock::new(state) })
    }

    /// Whether these writes can be one commit.
    pub(super) fn check(&self, writes: &[Write]) -> Result<()> {
        Ok(self.read().structure.check(writes)?)
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        // The state is consistent between any two statements, so a panic elsewhere is no harm.
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn file<'a>(&self, state: &'a State) -> Result<&'a Arc<dyn FileHandle>> {
        let closed = || forkline_model::Error::Closed { session: self.metadata.id.clone() };
        state.file.as_ref().ok_or_else(|| closed().into())
    }

    /// Refuses a file that somebody else has changed, replaced or removed (differences.md).
    fn require_as_left(&self, state: &State) -> Result<()> {
        let now = self.setting.fs.stat(&self.path);
        let now = now.map_err(|error| Error::io("look at", &self.path, error))?;
        if now == state.left {
            return Ok(());
        }
        Err(self.not_as_left(now, state.left))
    }

    fn not_as_left(&self, now: Stat, left: Stat) -> Error {
        let what = if now.identity == left.identity {
            format!("the file has {} bytes, but this session left it with {}", now.len, left.len)
        } else {
            "the file was replaced by another one".to_owned()
        };
        let reason = format!("{what}: close the session and open it again");
        Error::corrupt(Place { path: self.path.clone(), line: None }, reason)
    }

    /// Appends a line, or leaves the file as it was.
    fn append(&self, state: &mut State, line: &[u8]) -> Result<()> {
        let file = self.file(state)?.clone();
        let left = state.left;
        let written = append_all(&*file, line)
            .and_then(|()| match self.setting.sync {
                SyncCommits::Yes => file.sync(),
                SyncCommits::No => Ok(()),
            })
            .and_then(|()| file.stat())
            .map_err(|error| Error::io("append to", &self.path, error))
            .and_then(|now| {
                let expected = left.len + line.len() as u64;
                if now.len == expected { Ok(now) } else { Err(self.not_as_left(now, left)) }
            });
        match written {
            Ok(now) => {
                state.left = now;
                Ok(())
            }
            Err(error) => {
                state.is_poisoned = true;
                // Nobody else's bytes are cut off: only what can be ours, and only if it can.
                let ours = left.len..=left.len + line.len() as u64;
                if file.stat().is_ok_and(|now| ours.contains(&now.len)) {
                    let _ = file.set_len(left.len);
                }
                Err(error)
            }
        }
    }

    fn entry(&self, state: &State, node: &Node<Span>) -> Result<Entry> {
        let text = read_text(&**self.file(state)?, &self.path, node.payload)?;
        let EntryHead { id, parent, entry_type, custom_type, seq, timestamp } = node.head.clone();
        let payload =
            payload(&text, &entry_type).map_err(|reason| Error::corrupt(&*self.path, reason))?;
        Ok(Entry { id, parent, entry_type, custom_type, payload, seq, timestamp })
    }

    fn entries(&self, state: &State, nodes: Vec<&Node<Span>>) -> Result<Vec<Entry>> {
        nodes.into_iter().map(|node| self.entry(state, node)).collect()
    }

    fn usage(&self, state: &State, node: &LedgerNode<Span>) -> Result<UsageRow> {
        let text = read_text(&**self.file(state)?, &self.path, node.row)?;
        match Write::from_jsonl(&text)? {
            Write::Usage(usage) => Ok(UsageRow {
                id: usage.id,
                entry: usage.entry,
                adjustment: usage.adjustment,
                usage: usage.usage,
                details: usage.details,
                seq: node.seq,
            }),
            _ => Err(Error::corrupt(&*self.path, "a ledger row has become something else")),
        }
    }

    fn json(&self, state: &State, span: Span) -> Result<Json> {
        read_json(&**self.file(state)?, &self.path, span)
    }
}

impl JsonlStorage {
    /// The session at this instant, for a visitor that may commit.
    pub(super) fn snapshot(&self) -> Self {
        let state = self.read();
        let state = State {
            structure: state.structure.clone(),
            file: state.file.clone(),
            left: state.left,
            is_poisoned: state.is_poisoned,
        };
        let (setting, path) = (self.setting.clone(), self.path.clone());
        Self { setting, path, metadata: self.metadata.clone(), state: RwLock::new(state) }
    }

    /// Visits all rows, each kind in seq order. Holds the lock.
    pub(super) fn visit(&self, visit: &mut dyn FnMut(StateRow) -> Result<()>) -> Result<()> {
        let state = self.read();
        for node in state.structure.entries() {
            visit(StateRow::Entry(self.entry(&state, node)?))?;
        }
        for node in state.structure.ledger() {
            visit(StateRow::Usage(self.usage(&state, node)?))?;
        }
        let mut values: Vec<_> = state.structure.values().iter().collect();
        values.sort_unstable_by_key(|(_, (seq, _))| *seq);
        for (address, &(seq, span)) in values {
            let value = self.json(&state, span)?;
            visit(StateRow::Value { address: address.clone(), seq, value })?;
        }
        let lists = state.structure.lists().iter();
        let mut elements: Vec<_> =
            lists.flat_map(|(address, list)| list.iter().map(move |row| (address, row))).collect();
        elements.sort_unstable_by_key(|(_, (seq, _))| *seq);
        for (address, &(seq, span)) in elements {
            let value = self.json(&state, span)?;
            visit(StateRow::Element { address: address.clone(), seq, value })?;
        }
        Ok(())
    }
}

/// Puts a commit that is in the file into the structure.
fn apply(state: &mut State, writes: &[Write], line: &CommitLine, now: Millis) -> Result<()> {
    let start = state.left.len - line.bytes().len() as u64;
    let structure = &mut state.structure;
    let first = structure.next_seq();
    for ((write, span), seq) in writes.iter().zip(line.spans()).zip(first..) {
        let seq = Seq::new(seq)?;
        let span = Span { offset: start + span.offset, len: span.len };
        structure.advance(seq)?;
        match write {
            Write::Entry(entry) => {
                structure.insert_entry(entry.head(seq, now), span)?;
            }
            Write::Usage(usage) => {
                structure.insert_usage(&usage.id, seq, &Usage::parse(&usage.usage)?, span)?;
            }
            Write::SetValue { address, .. } => structure.set_value(address.clone(), seq, span),
            Write::DeleteValue { address } => structure.delete_value(address),
            Write::AppendElement { address, .. } => {
                structure.append_element(address.clone(), seq, span);
            }
            Write::DeleteList { address } => structure.delete_list(address),
        }
    }
    Ok(())
}

impl Storage for JsonlStorage {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn commit(&self, writes: &[Write], now: Millis) -> Result<Committed> {
        let mut guard = self.write();
        let state = &mut *guard;
        if state.is_poisoned {
            return Err(Error::Poisoned { session: self.metadata.id.clone() });
        }
        state.structure.check(writes)?;
        let first = state.structure.next_seq();
        if writes.is_empty() {
            return Ok(Committed { first_seq: None, writes: 0, timestamp: now });
        }
        self.require_as_left(state)?;
        let line = CommitLine::new(writes, first, now)?;
        self.append(state, line.bytes())?;
        apply(state, writes, &line, now)?;
        let first_seq = Some(Seq::new(first)?);
        Ok(Committed { first_seq, writes: writes.len() as u64, timestamp: now })
    }

    fn get_entries(&self, ids: &[EntryId]) -> Result<Vec<Option<Entry>>> {
        let state = self.read();
        let entry = |id| state.structure.entry(id).map(|node| self.entry(&state, node)).transpose();
        ids.iter().map(entry).collect()
    }

    fn get_value(&self, address: &Address) -> Result<Option<(Seq, Json)>> {
        let state = self.read();
        let Some((seq, span)) = state.structure.value(address) else { return Ok(None) };
        Ok(Some((seq, self.json(&state, span)?)))
    }

    fn scan_values(
        &self,
        namespace: &Namespace,
        key_prefix: &str,
    ) -> Result<Vec<(Key, Seq, Json)>> {
        let state = self.read();
        let found = state.structure.scan_values(namespace, key_prefix)?;
        found.into_iter().map(|(key, seq, span)| Ok((key, seq, self.json(&state, span)?))).collect()
    }

    fn read_list(&self, address: &Address, query: &ListQuery) -> Result<Vec<(Seq, Json)>> {
        let state = self.read();
        let found = state.structure.read_list(address, query);
        found.into_iter().map(|(seq, span)| Ok((seq, self.json(&state, span)?))).collect()
    }

    fn scan_branch(&self, scan: &BranchScan) -> Result<Vec<Entry>> {
        let state = self.read();
        self.entries(&state, state.structure.scan_branch(scan)?)
    }

    fn scan_branch_structure(&self, scan: &BranchScan) -> Result<Vec<EntryHead>> {
        let state = self.read();
        Ok(state.structure.scan_branch(scan)?.into_iter().map(|node| node.head.clone()).collect())
    }

    fn scan_entries(&self, query: &SeqQuery) -> Result<Vec<Entry>> {
        let state = self.read();
        self.entries(&state, state.structure.scan_entries(query))
    }

    fn scan_usage(&self, query: &SeqQuery) -> Result<Vec<UsageRow>> {
        let state = self.read();
        let found = state.structure.scan_usage(query);
        found.into_iter().map(|node| self.usage(&state, node)).collect()
    }

    fn find_entries(&self, query: &EntryQuery) -> Result<Vec<Entry>> {
        let state = self.read();
        self.entries(&state, state.structure.find_entries(query))
    }

    fn stats(&self) -> Result<Stats> {
        Ok(self.read().structure.stats())
    }

    fn next_seq(&self) -> Result<u64> {
        Ok(self.read().structure.next_seq())
    }

    fn dump(&self, visit: &mut dyn FnMut(StateRow) -> Result<()>) -> Result<()> {
        // The visitor may commit: it must not meet the lock.
        self.snapshot().visit(visit)
    }

    fn capture(&self, _cx: &Context) -> Result<Box<dyn Source>> {
        let state = self.read();
        self.file(&state)?;
        let fs = &*self.setting.fs;
        let file = SessionFile::open(fs, &self.path, &self.metadata, Access::Read)?;
        let now = file.handle.stat().map_err(|error| Error::io("look at", &self.path, error))?;
        if now.identity != state.left.identity || now.len < state.left.len {
            return Err(self.not_as_left(now, state.left));
        }
        let len = state.left.len;
        drop(state);
        Ok(Box::new(JsonlSource::new(file, self.path.clone(), len, self.setting.scratch.clone())))
    }

    fn close(&self) -> Result<()> {
        self.write().file = None;
        Ok(())
    }
}
