//! One session as plain maps (contract §1): what a commit does to it, and every read.
//!
//! Naive on purpose: a commit works on a copy of the whole state, and a read scans all of it.
//!
//! # Invariants
//! 1. Every seq of an entry, value, element or ledger row is used once and is below `next_seq`.
//! 2. Entry ids and usage ids are unique together.
//! 3. An entry's parent is there and has a lower seq.
//! 4. A list is in the map only while it has an element.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::address::{Address, BranchName, EntryId, Key, Millis, Namespace, SEQ_MAX, Seq};
use crate::entry::{Entry, EntryHead, NewEntry};
use crate::error::{Error, Result};
use crate::json::Json;
use crate::metadata::Metadata;
use crate::policy;
use crate::query::{BranchScan, EntryQuery, ListQuery, Order, SeqQuery};
use crate::usage::{NewUsage, Stats, Usage, UsageRow};
use crate::write::Write;

/// The next seq of a session that has none left.
pub const NEXT_SEQ_EXHAUSTED: u64 = SEQ_MAX + 1;

/// The elements of one list by the seqs of their appends.
pub type Elements = BTreeMap<Seq, Json>;

/// The whole logical state of one session.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    pub(crate) metadata: Metadata,
    pub(crate) next_seq: u64,
    pub(crate) entries: BTreeMap<Seq, Entry>,
    pub(crate) values: BTreeMap<Address, (Seq, Json)>,
    pub(crate) lists: BTreeMap<Address, Elements>,
    pub(crate) ledger: BTreeMap<Seq, UsageRow>,
}

/// What a commit got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Committed {
    /// The seq of the first write; the others follow one by one. None for an empty commit.
    pub first_seq: Option<Seq>,
    /// How many writes there were.
    pub writes: u64,
    /// The session's next seq after it.
    pub next_seq: u64,
    /// The timestamp of its entries, Unix ms.
    pub timestamp: Millis,
}

impl State {
    /// A session that holds nothing yet.
    pub fn new(metadata: Metadata) -> Self {
        Self {
            metadata,
            next_seq: 1,
            entries: BTreeMap::new(),
            values: BTreeMap::new(),
            lists: BTreeMap::new(),
            ledger: BTreeMap::new(),
        }
    }

    // ---- commits ----

    /// Applies one commit, all or none. An empty commit is legal and changes nothing.
    ///
    /// # Errors
    /// *Limit exceeded* when there are not enough seqs left for all writes; else that of the
    /// first write that is refused: *duplicate id*, *missing parent*, in this order.
    pub fn apply(&mut self, writes: &[Write], timestamp: Millis) -> Result<Committed> {
        let count = writes.len() as u64;
        if self.next_seq.saturating_add(count) > NEXT_SEQ_EXHAUSTED {
            return Err(Error::SeqExhausted { next_seq: self.next_seq });
        }
        let mut after = self.clone();
        for write in writes {
            let seq = Seq::new(after.next_seq)?;
            after.write(write, seq, timestamp)?;
            after.next_seq += 1;
        }
        let first_seq = if writes.is_empty() { None } else { Some(Seq::new(self.next_seq)?) };
        *self = after;
        Ok(Committed { first_seq, writes: count, next_seq: self.next_seq, timestamp })
    }

    fn write(&mut self, write: &Write, seq: Seq, timestamp: Millis) -> Result<()> {
        match write {
            Write::Entry(entry) => self.insert_entry(entry, seq, timestamp)?,
            Write::Usage(usage) => self.insert_usage(usage, seq)?,
            Write::SetValue { address, value } => {
                self.values.insert(address.clone(), (seq, value.clone()));
            }
            Write::DeleteValue { address } => {
                self.values.remove(address);
            }
            Write::AppendElement { address, value } => {
                self.lists.entry(address.clone()).or_default().insert(seq, value.clone());
            }
            Write::DeleteList { address } => {
                self.lists.remove(address);
            }
        }
        Ok(())
    }

    fn insert_entry(&mut self, new: &NewEntry, seq: Seq, timestamp: Millis) -> Result<()> {
        self.require_unused(&new.id)?;
        if let Some(parent) = new.parent.as_ref().filter(|&parent| self.entry(parent).is_none()) {
            return Err(Error::MissingParent { entry: new.id.clone(), parent: parent.clone() });
        }
        let entry = Entry {
            id: new.id.clone(),
            parent: new.parent.clone(),
            entry_type: new.entry_type.clone(),
            custom_type: new.custom_type.clone(),
            payload: new.payload.clone(),
            seq,
            timestamp,
        };
        self.entries.insert(seq, entry);
        Ok(())
    }

    fn insert_usage(&mut self, new: &NewUsage, seq: Seq) -> Result<()> {
        self.require_unused(&new.id)?;
        let row = UsageRow {
            id: new.id.clone(),
            entry: new.entry.clone(),
            adjustment: new.adjustment,
            usage: new.usage.clone(),
            details: new.details.clone(),
            seq,
        };
        self.ledger.insert(seq, row);
        Ok(())
    }

    fn require_unused(&self, id: &EntryId) -> Result<()> {
        let used = self.entry(id).is_some() || self.ledger.values().any(|row| row.id == *id);
        if used { Err(Error::DuplicateId { id: id.clone() }) } else { Ok(()) }
    }

    // ---- the whole state ----

    /// Id, creation time, parent, working directory.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The same content under another identity, to compare two forks by what they hold.
    #[must_use]
    pub fn with_metadata(self, metadata: Metadata) -> Self {
        Self { metadata, ..self }
    }

    /// The seq of the next write; [`NEXT_SEQ_EXHAUSTED`] when none is left.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// All entries by seq.
    pub fn entries(&self) -> &BTreeMap<Seq, Entry> {
        &self.entries
    }

    /// All values with the seqs of their sets.
    pub fn values(&self) -> &BTreeMap<Address, (Seq, Json)> {
        &self.values
    }

    /// All lists that have elements.
    pub fn lists(&self) -> &BTreeMap<Address, Elements> {
        &self.lists
    }

    /// All ledger rows by seq.
    pub fn ledger(&self) -> &BTreeMap<Seq, UsageRow> {
        &self.ledger
    }

    /// The statistics by recount: the number of messages and the sum of the ledger in seq order.
    pub fn stats(&self) -> Stats {
        let mut usage = Usage::default();
        for row in self.ledger.values() {
            usage.add(&Usage::parse(&row.usage).expect("rows are checked before they get here"));
        }
        let messages = self.entries.values().filter(|entry| entry.is_message()).count();
        Stats { message_count: messages as u64, usage }
    }

    // ---- reads (contract §1) ----

    /// The entry of an id.
    pub fn entry(&self, id: &EntryId) -> Option<&Entry> {
        self.entries.values().find(|entry| entry.id == *id)
    }

    /// The entries of these ids, one answer for each.
    pub fn get_entries(&self, ids: &[EntryId]) -> Vec<Option<Entry>> {
        ids.iter().map(|id| self.entry(id).cloned()).collect()
    }

    /// The value at an address with its seq.
    pub fn get_value(&self, address: &Address) -> Option<(Seq, Json)> {
        self.values.get(address).cloned()
    }

    /// The values of one namespace whose keys start with `key_prefix`, keys ascending by code
    /// point (which is the order of their UTF-8 bytes).
    pub fn scan_values(&self, namespace: &Namespace, key_prefix: &str) -> Vec<(Key, Seq, Json)> {
        self.values
            .iter()
            .filter(|(address, _)| address.namespace == *namespace)
            .filter(|(address, _)| address.key.as_str().starts_with(key_prefix))
            .map(|(address, (seq, value))| (address.key.clone(), *seq, value.clone()))
            .collect()
    }

    /// A page of a list's elements with their seqs; nothing where there is no list.
    pub fn read_list(&self, address: &Address, query: &ListQuery) -> Vec<(Seq, Json)> {
        let elements = self.lists.get(address).into_iter().flatten();
        let elements = elements.filter(|&(&seq, _)| {
            query.cursor.is_none_or(|cursor| match query.order {
                Order::Asc => seq > cursor,
                Order::Desc => seq < cursor,
            })
        });
        let elements = elements.map(|(seq, value)| (*seq, value.clone())).collect();
        page(elements, query.order, query.limit.get())
    }

    /// The entries from `start` to its root, newest first; empty if there is no such entry.
    ///
    /// Parents stand before their children (invariant 3), so one look back over all entries
    /// meets the whole path.
    pub fn ancestry(&self, start: &EntryId) -> Vec<&Entry> {
        let mut wanted = Some(start);
        let mut path = Vec::new();
        for entry in self.entries.values().rev() {
            if wanted == Some(&entry.id) {
                wanted = entry.parent.as_ref();
                path.push(entry);
            }
        }
        path
    }

    /// The path from an entry to its root, as [`BranchScan`] says.
    ///
    /// # Errors
    /// *Unknown entry* for a start that is not there.
    pub fn scan_branch(&self, scan: &BranchScan) -> Result<Vec<Entry>> {
        let ancestry = self.ancestry(&scan.start);
        if ancestry.is_empty() {
            return Err(Error::UnknownEntry { entry: scan.start.clone() });
        }
        let mut path = Vec::new();
        for entry in ancestry {
            path.push(entry);
            if scan.stops_at(&entry.head()) {
                break;
            }
        }
        path.reverse();
        Ok(select(path, &scan.query))
    }

    /// The same without payloads.
    ///
    /// # Errors
    /// *Unknown entry*.
    pub fn scan_branch_structure(&self, scan: &BranchScan) -> Result<Vec<EntryHead>> {
        Ok(self.scan_branch(scan)?.iter().map(Entry::head).collect())
    }

    /// The entries of a seq range.
    pub fn scan_entries(&self, query: &SeqQuery) -> Vec<Entry> {
        let entries = self.entries.values().filter(|entry| in_range(entry.seq, query));
        page(entries.cloned().collect(), query.order, query.limit.get())
    }

    /// The ledger rows of a seq range.
    pub fn scan_usage(&self, query: &SeqQuery) -> Vec<UsageRow> {
        let rows = self.ledger.values().filter(|row| in_range(row.seq, query));
        page(rows.cloned().collect(), query.order, query.limit.get())
    }

    /// The entries of the whole session that the query admits.
    pub fn find_entries(&self, query: &EntryQuery) -> Vec<Entry> {
        select(self.entries.values().collect(), query)
    }

    /// The first that [`State::find_entries`] gives.
    pub fn find_entry(&self, query: &EntryQuery) -> Option<Entry> {
        self.find_entries(query).into_iter().next()
    }

    /// The session's name, if it has one that is text.
    pub fn name(&self) -> Option<String> {
        self.get_value(&policy::name_address()).and_then(|(_, name)| name.to_text())
    }

    /// The label of an entry, if it has one that is text.
    pub fn label(&self, entry: &EntryId) -> Option<String> {
        self.get_value(&policy::label_address(entry)).and_then(|(_, label)| label.to_text())
    }

    // ---- branches (contract §2) ----

    /// The names of all branches, ascending. A tip at the empty key is no branch: names are not
    /// empty.
    pub fn branches(&self) -> Vec<BranchName> {
        let tips = self.values.keys().filter(|address| {
            address.namespace.as_str() == policy::BRANCH_TIP && !address.key.as_str().is_empty()
        });
        tips.map(|address| BranchName::new(&address.key).expect("a key is a valid name")).collect()
    }

    /// The tip of a branch.
    ///
    /// # Errors
    /// *Unknown branch*; *corrupt lane* when the tip is neither an id nor null.
    pub fn tip(&self, branch: &BranchName) -> Result<Option<EntryId>> {
        match self.values.get(&policy::tip_address(branch)) {
            Some((_, tip)) => policy::read_tip(branch, tip),
            None => Err(Error::UnknownBranch { branch: branch.clone() }),
        }
    }

    /// Entries along the path from the tip to the root; none for a null tip. For a path that
    /// starts elsewhere there is [`State::scan_branch`].
    ///
    /// # Errors
    /// Those of [`State::tip`]; *unknown entry* for a tip that names none.
    pub fn find_branch_entries(
        &self,
        branch: &BranchName,
        query: &EntryQuery,
    ) -> Result<Vec<Entry>> {
        match self.tip(branch)? {
            Some(tip) => {
                self.scan_branch(&BranchScan { query: query.clone(), ..BranchScan::from(tip) })
            }
            None => Ok(Vec::new()),
        }
    }

    /// The first that [`State::find_branch_entries`] gives.
    ///
    /// # Errors
    /// The same.
    pub fn find_branch_entry(
        &self,
        branch: &BranchName,
        query: &EntryQuery,
    ) -> Result<Option<Entry>> {
        Ok(self.find_branch_entries(branch, query)?.into_iter().next())
    }
}

/// Filters and orders entries that come oldest first, and cuts at the limit.
fn select(oldest_first: Vec<&Entry>, query: &EntryQuery) -> Vec<Entry> {
    let admitted = oldest_first.into_iter().filter(|entry| query.admits(&entry.head()));
    page(admitted.cloned().collect(), query.order, query.limit.get())
}

/// The first `limit` rows in the order asked for; `rows` come oldest first.
fn page<T>(mut rows: Vec<T>, order: Order, limit: usize) -> Vec<T> {
    if order == Order::Desc {
        rows.reverse();
    }
    rows.truncate(limit);
    rows
}

fn in_range(seq: Seq, query: &SeqQuery) -> bool {
    query.from.is_none_or(|from| seq >= from) && query.to.is_none_or(|to| seq <= to)
}
