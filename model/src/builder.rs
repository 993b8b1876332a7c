//! Builds a state row by row, for what was read elsewhere: an engine's dump, a file.

use std::collections::BTreeSet;

use crate::address::{Address, EntryId, Seq};
use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::json::Json;
use crate::metadata::Metadata;
use crate::state::{NEXT_SEQ_EXHAUSTED, State};
use crate::usage::{Usage, UsageRow};

/// Collects rows in any order; [`StateBuilder::finish`] checks that they make a session.
#[derive(Debug, Clone)]
pub struct StateBuilder {
    metadata: Metadata,
    next_seq: u64,
    entries: Vec<Entry>,
    values: Vec<(Address, Seq, Json)>,
    elements: Vec<(Address, Seq, Json)>,
    ledger: Vec<UsageRow>,
}

impl StateBuilder {
    /// A session of this metadata whose next write gets `next_seq`.
    pub fn new(metadata: Metadata, next_seq: u64) -> Self {
        Self {
            metadata,
            next_seq,
            entries: Vec::new(),
            values: Vec::new(),
            elements: Vec::new(),
            ledger: Vec::new(),
        }
    }

    /// Adds an entry.
    pub fn entry(&mut self, entry: Entry) -> &mut Self {
        self.entries.push(entry);
        self
    }

    /// Adds the current value at an address.
    pub fn value(&mut self, address: Address, seq: Seq, value: Json) -> &mut Self {
        self.values.push((address, seq, value));
        self
    }

    /// Adds an element of the list at an address.
    pub fn element(&mut self, address: Address, seq: Seq, value: Json) -> &mut Self {
        self.elements.push((address, seq, value));
        self
    }

    /// Adds a row of the ledger.
    pub fn usage(&mut self, row: UsageRow) -> &mut Self {
        self.ledger.push(row);
        self
    }

    /// The state, if the rows make one.
    ///
    /// # Errors
    /// *Duplicate id*; *missing parent*, also for one that stands later; *invalid payload* for a
    /// seq that is used twice or not below the next seq, a next seq out of range, a second value
    /// at an address, and usage that cannot be summed.
    pub fn finish(mut self) -> Result<State> {
        self.check_seqs()?;
        self.entries.sort_by_key(|entry| entry.seq);
        self.check_ids()?;
        let mut state = State::new(self.metadata);
        state.next_seq = self.next_seq;
        for (address, seq, value) in self.values {
            if let Some((other, _)) = state.values.insert(address.clone(), (seq, value)) {
                let Address { namespace, key } = address;
                return Err(invalid(format!(
                    "value {namespace}/{key} stands twice, at seqs {other} and {seq}"
                )));
            }
        }
        for (address, seq, value) in self.elements {
            state.lists.entry(address).or_default().insert(seq, value);
        }
        state.entries = self.entries.into_iter().map(|entry| (entry.seq, entry)).collect();
        state.ledger = self.ledger.into_iter().map(|row| (row.seq, row)).collect();
        Ok(state)
    }

    fn check_seqs(&self) -> Result<()> {
        if !(1..=NEXT_SEQ_EXHAUSTED).contains(&self.next_seq) {
            return Err(invalid(format!("the next seq {} is out of range", self.next_seq)));
        }
        let seqs = (self.entries.iter().map(|entry| entry.seq))
            .chain(self.values.iter().map(|&(_, seq, _)| seq))
            .chain(self.elements.iter().map(|&(_, seq, _)| seq))
            .chain(self.ledger.iter().map(|row| row.seq));
        let mut used = BTreeSet::new();
        for seq in seqs {
            if !used.insert(seq) {
                return Err(invalid(format!("seq {seq} is used twice")));
            }
            if seq.get() >= self.next_seq {
                return Err(invalid(format!("seq {seq} is not below {}, the next", self.next_seq)));
            }
        }
        Ok(())
    }

    /// Ids of entries, which stand in seq order, and of ledger rows.
    fn check_ids(&self) -> Result<()> {
        let mut earlier: BTreeSet<&EntryId> = BTreeSet::new();
        for entry in &self.entries {
            if let Some(parent) = entry.parent.as_ref().filter(|parent| !earlier.contains(parent)) {
                return Err(Error::MissingParent {
                    entry: entry.id.clone(),
                    parent: parent.clone(),
                });
            }
            if !earlier.insert(&entry.id) {
                return Err(Error::DuplicateId { id: entry.id.clone() });
            }
        }
        for row in &self.ledger {
            Usage::parse(&row.usage)?;
            if !earlier.insert(&row.id) {
                return Err(Error::DuplicateId { id: row.id.clone() });
            }
        }
        Ok(())
    }
}

fn invalid(reason: String) -> Error {
    Error::InvalidPayload { what: "state", reason }
}
