//! One open session in memory.

use std::sync::{Arc, PoisonError, RwLock};

use forkline_model::{
    Address, BranchScan, Entry, EntryHead, EntryId, EntryQuery, Json, Key, ListQuery, Metadata,
    Millis, Namespace, Seq, SeqQuery, Stats, Usage, UsageRow, Write,
};

use super::State;
use super::fork::MemorySource;
use crate::context::Context;
use crate::error::Result;
use crate::fork::Source;
use crate::resident::Node;
use crate::storage::{Committed, StateRow, Storage};

/// What the repository keeps of a session, open or closed.
pub(super) struct Shared {
    pub(super) metadata: Metadata,
    /// The lock is the commit queue; holders clone the `Arc` or replace it and let go.
    state: RwLock<Arc<State>>,
}

impl Shared {
    pub(super) fn new(metadata: Metadata, state: State) -> Self {
        Self { metadata, state: RwLock::new(Arc::new(state)) }
    }

    /// The state at this instant.
    pub(super) fn snapshot(&self) -> Arc<State> {
        // A commit replaces the state by its last statement, so a panic leaves the old one.
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

pub(super) struct MemoryStorage(pub(super) Arc<Shared>);

/// The entry with its payload.
pub(super) fn entry_of(node: &Node<Json>) -> Entry {
    let EntryHead { id, parent, entry_type, custom_type, seq, timestamp } = node.head.clone();
    Entry { id, parent, entry_type, custom_type, payload: node.payload.clone(), seq, timestamp }
}

fn entries_of(nodes: Vec<&Node<Json>>) -> Vec<Entry> {
    nodes.into_iter().map(entry_of).collect()
}

/// Applies one write that was checked before.
fn apply(state: &mut State, write: &Write, seq: Seq, now: Millis) -> Result<()> {
    state.advance(seq)?;
    match write {
        Write::Entry(entry) => {
            state.insert_entry(entry.head(seq, now), entry.payload.clone())?;
        }
        Write::Usage(usage) => {
            let row = UsageRow {
                id: usage.id.clone(),
                entry: usage.entry.clone(),
                adjustment: usage.adjustment,
                usage: usage.usage.clone(),
                details: usage.details.clone(),
                seq,
            };
            state.insert_usage(&usage.id, seq, &Usage::parse(&usage.usage)?, row)?;
        }
        Write::SetValue { address, value } => state.set_value(address.clone(), seq, value.clone()),
        Write::DeleteValue { address } => state.delete_value(address),
        Write::AppendElement { address, value } => {
            state.append_element(address.clone(), seq, value.clone());
        }
        Write::DeleteList { address } => state.delete_list(address),
    }
    Ok(())
}

impl Storage for MemoryStorage {
    fn metadata(&self) -> &Metadata {
        &self.0.metadata
    }

    fn commit(&self, writes: &[Write], now: Millis) -> Result<Committed> {
        let mut guard = self.0.state.write().unwrap_or_else(PoisonError::into_inner);
        guard.check(writes)?;
        let first = guard.next_seq();
        // Checked writes cannot fail half-way, so they may go into the state in place.
        let state = Arc::make_mut(&mut guard);
        for (write, seq) in writes.iter().zip(first..) {
            apply(state, write, Seq::new(seq)?, now)?;
        }
        Ok(Committed {
            first_seq: if writes.is_empty() { None } else { Some(Seq::new(first)?) },
            writes: writes.len() as u64,
            timestamp: now,
        })
    }

    fn get_entries(&self, ids: &[EntryId]) -> Result<Vec<Option<Entry>>> {
        let state = self.0.snapshot();
        Ok(ids.iter().map(|id| state.entry(id).map(entry_of)).collect())
    }

    fn get_value(&self, address: &Address) -> Result<Option<(Seq, Json)>> {
        Ok(self.0.snapshot().value(address))
    }

    fn scan_values(
        &self,
        namespace: &Namespace,
        key_prefix: &str,
    ) -> Result<Vec<(Key, Seq, Json)>> {
        Ok(self.0.snapshot().scan_values(namespace, key_prefix)?)
    }

    fn read_list(&self, address: &Address, query: &ListQuery) -> Result<Vec<(Seq, Json)>> {
        Ok(self.0.snapshot().read_list(address, query))
    }

    fn scan_branch(&self, scan: &BranchScan) -> Result<Vec<Entry>> {
        Ok(entries_of(self.0.snapshot().scan_branch(scan)?))
    }

    fn scan_branch_structure(&self, scan: &BranchScan) -> Result<Vec<EntryHead>> {
        let state = self.0.snapshot();
        Ok(state.scan_branch(scan)?.into_iter().map(|node| node.head.clone()).collect())
    }

    fn scan_entries(&self, query: &SeqQuery) -> Result<Vec<Entry>> {
        Ok(entries_of(self.0.snapshot().scan_entries(query)))
    }

    fn scan_usage(&self, query: &SeqQuery) -> Result<Vec<UsageRow>> {
        let state = self.0.snapshot();
        Ok(state.scan_usage(query).into_iter().map(|node| node.row.clone()).collect())
    }

    fn find_entries(&self, query: &EntryQuery) -> Result<Vec<Entry>> {
        Ok(entries_of(self.0.snapshot().find_entries(query)))
    }

    fn stats(&self) -> Result<Stats> {
        Ok(self.0.snapshot().stats())
    }

    fn next_seq(&self) -> Result<u64> {
        Ok(self.0.snapshot().next_seq())
    }

    fn dump(&self, visit: &mut dyn FnMut(StateRow) -> Result<()>) -> Result<()> {
        let state = self.0.snapshot();
        for node in state.entries() {
            visit(StateRow::Entry(entry_of(node)))?;
        }
        for node in state.ledger() {
            visit(StateRow::Usage(node.row.clone()))?;
        }
        for (address, (seq, value)) in state.values() {
            let (address, value) = (address.clone(), value.clone());
            visit(StateRow::Value { address, seq: *seq, value })?;
        }
        for (address, elements) in state.lists() {
            for (seq, value) in elements {
                let (address, value) = (address.clone(), value.clone());
                visit(StateRow::Element { address, seq: *seq, value })?;
            }
        }
        Ok(())
    }

    fn capture(&self, _cx: &Context) -> Result<Box<dyn Source>> {
        Ok(Box::new(MemorySource::new(self.0.metadata.clone(), self.0.snapshot())))
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}
