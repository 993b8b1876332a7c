//! The structure of one open session in memory, with payloads behind locators.
//!
//! Shared by the backends that keep structure resident: the memory engine keeps the payloads
//! themselves (`P` is JSON), the JSONL engine spans of its file. `L` locates a ledger row.
//!
//! Invariants: entries and ledger rows stand in seq order; every parent stands before its
//! children; `stats` equals a recount.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;

use forkline_model::address::SEQ_MAX;
use forkline_model::{
    Address, BranchScan, EntryHead, EntryId, EntryQuery, EntryType, Error, Key, ListQuery,
    Namespace, Order, Seq, SeqQuery, Stats, Usage, Write,
};

/// What a model rule refuses; callers add file and line where there are any.
type Result<T> = std::result::Result<T, Error>;

#[derive(Clone)]
pub(crate) struct Resident<P, L> {
    next_seq: u64,
    entries: Vec<Node<P>>,
    ledger: Vec<LedgerNode<L>>,
    ids: HashMap<EntryId, Holder>,
    values: BTreeMap<Address, (Seq, P)>,
    lists: BTreeMap<Address, Vec<(Seq, P)>>,
    stats: Stats,
}

/// An entry and where its payload is.
#[derive(Clone)]
pub(crate) struct Node<P> {
    pub(crate) head: EntryHead,
    pub(crate) payload: P,
    /// Index of the parent in `entries`.
    parent: Option<usize>,
}

/// A ledger row and where it is.
#[derive(Clone)]
pub(crate) struct LedgerNode<L> {
    pub(crate) seq: Seq,
    pub(crate) row: L,
}

/// Who uses an id.
#[derive(Clone, Copy)]
enum Holder {
    Entry(usize),
    Usage,
}

impl<P: Clone, L: Clone> Resident<P, L> {
    /// An empty session whose first write gets `next_seq`.
    pub(crate) fn new(next_seq: u64) -> Self {
        Self {
            next_seq,
            entries: Vec::new(),
            ledger: Vec::new(),
            ids: HashMap::new(),
            values: BTreeMap::new(),
            lists: BTreeMap::new(),
            stats: Stats::default(),
        }
    }

    pub(crate) fn next_seq(&self) -> u64 {
        self.next_seq
    }

    pub(crate) fn stats(&self) -> Stats {
        self.stats
    }

    // ---- changes ----

    /// Whether these writes can be applied as one commit (contract §1).
    pub(crate) fn check(&self, writes: &[Write]) -> Result<()> {
        let last = self.next_seq.checked_add(writes.len() as u64);
        if last.is_none_or(|next| next > SEQ_MAX + 1) {
            return Err(Error::SeqExhausted { next_seq: self.next_seq });
        }
        let mut used: HashSet<&EntryId> = HashSet::new();
        let mut inserted: HashSet<&EntryId> = HashSet::new();
        for write in writes {
            let id = match write {
                Write::Entry(entry) => &entry.id,
                Write::Usage(usage) => &usage.id,
                _ => continue,
            };
            if self.ids.contains_key(id) || !used.insert(id) {
                return Err(Error::DuplicateId { id: id.clone() });
            }
            if let Write::Entry(entry) = write {
                if let Some(parent) = &entry.parent
                    && self.index_of(parent).is_none()
                    && !inserted.contains(parent)
                {
                    let parent = parent.clone();
                    return Err(Error::MissingParent { entry: entry.id.clone(), parent });
                }
                inserted.insert(id);
            }
        }
        Ok(())
    }

    /// Uses up a seq. Seqs rise strictly; gaps are legal.
    ///
    /// # Errors
    /// *Invalid payload* for a seq that does not rise.
    pub(crate) fn advance(&mut self, seq: Seq) -> Result<()> {
        if seq.get() < self.next_seq {
            let reason = format!("seq {seq} does not rise: {} was expected", self.next_seq);
            return Err(Error::InvalidPayload { what: "write", reason });
        }
        self.next_seq = seq.get() + 1;
        Ok(())
    }

    /// Raises the next seq, as a fork's header does.
    pub(crate) fn raise_next_seq(&mut self, next_seq: u64) {
        self.next_seq = self.next_seq.max(next_seq);
    }

    /// Inserts an entry. The caller has advanced to its seq.
    pub(crate) fn insert_entry(&mut self, head: EntryHead, payload: P) -> Result<()> {
        let parent = match &head.parent {
            None => None,
            Some(parent) => Some(self.index_of(parent).ok_or_else(|| Error::MissingParent {
                entry: head.id.clone(),
                parent: parent.clone(),
            })?),
        };
        self.claim(&head.id, Holder::Entry(self.entries.len()))?;
        self.stats.message_count += u64::from(head.entry_type == EntryType::Message);
        self.entries.push(Node { head, payload, parent });
        Ok(())
    }

    /// Inserts a ledger row. The caller has advanced to its seq.
    pub(crate) fn insert_usage(
        &mut self,
        id: &EntryId,
        seq: Seq,
        usage: &Usage,
        row: L,
    ) -> Result<()> {
        self.claim(id, Holder::Usage)?;
        self.stats.usage.add(usage);
        self.ledger.push(LedgerNode { seq, row });
        Ok(())
    }

    pub(crate) fn set_value(&mut self, address: Address, seq: Seq, value: P) {
        self.values.insert(address, (seq, value));
    }

    pub(crate) fn delete_value(&mut self, address: &Address) {
        self.values.remove(address);
    }

    pub(crate) fn append_element(&mut self, address: Address, seq: Seq, value: P) {
        self.lists.entry(address).or_default().push((seq, value));
    }

    pub(crate) fn delete_list(&mut self, address: &Address) {
        self.lists.remove(address);
    }

    fn claim(&mut self, id: &EntryId, holder: Holder) -> Result<()> {
        match self.ids.entry(id.clone()) {
            std::collections::hash_map::Entry::Occupied(_) => {
                Err(Error::DuplicateId { id: id.clone() })
            }
            std::collections::hash_map::Entry::Vacant(vacant) => {
                vacant.insert(holder);
                Ok(())
            }
        }
    }

    fn index_of(&self, id: &EntryId) -> Option<usize> {
        match self.ids.get(id) {
            Some(Holder::Entry(index)) => Some(*index),
            _ => None,
        }
    }

    // ---- reads (contract §1) ----

    pub(crate) fn entry(&self, id: &EntryId) -> Option<&Node<P>> {
        self.index_of(id).and_then(|index| self.entries.get(index))
    }

    /// All entries in seq order.
    pub(crate) fn entries(&self) -> &[Node<P>] {
        &self.entries
    }

    /// All ledger rows in seq order.
    pub(crate) fn ledger(&self) -> &[LedgerNode<L>] {
        &self.ledger
    }

    /// All values by address.
    pub(crate) fn values(&self) -> &BTreeMap<Address, (Seq, P)> {
        &self.values
    }

    /// All lists by address, elements in seq order.
    pub(crate) fn lists(&self) -> &BTreeMap<Address, Vec<(Seq, P)>> {
        &self.lists
    }

    pub(crate) fn value(&self, address: &Address) -> Option<(Seq, P)> {
        self.values.get(address).cloned()
    }

    pub(crate) fn scan_values(
        &self,
        namespace: &Namespace,
        key_prefix: &str,
    ) -> Result<Vec<(Key, Seq, P)>> {
        let start = Address { namespace: namespace.clone(), key: Key::new(key_prefix)? };
        Ok(self
            .values
            .range((Bound::Included(start), Bound::Unbounded))
            .take_while(|(address, _)| {
                address.namespace == *namespace && address.key.as_str().starts_with(key_prefix)
            })
            .map(|(address, (seq, value))| (address.key.clone(), *seq, value.clone()))
            .collect())
    }

    pub(crate) fn read_list(&self, address: &Address, query: &ListQuery) -> Vec<(Seq, P)> {
        let elements = self.lists.get(address).map_or(&[][..], Vec::as_slice);
        let range = match query.order {
            Order::Asc => SeqRange { after: query.cursor, before: None },
            Order::Desc => SeqRange { after: None, before: query.cursor },
        };
        page(elements, |(seq, _)| *seq, range, query.order)
            .take(query.limit.get())
            .cloned()
            .collect()
    }

    pub(crate) fn scan_entries(&self, query: &SeqQuery) -> Vec<&Node<P>> {
        page(&self.entries, |node| node.head.seq, SeqRange::of(query), query.order)
            .take(query.limit.get())
            .collect()
    }

    pub(crate) fn scan_usage(&self, query: &SeqQuery) -> Vec<&LedgerNode<L>> {
        page(&self.ledger, |node| node.seq, SeqRange::of(query), query.order)
            .take(query.limit.get())
            .collect()
    }

    pub(crate) fn find_entries(&self, query: &EntryQuery) -> Vec<&Node<P>> {
        page(&self.entries, |node| node.head.seq, SeqRange::default(), query.order)
            .filter(|node| query.admits(&node.head))
            .take(query.limit.get())
            .collect()
    }

    /// The walk of `scan_branch`: see [`BranchScan`].
    pub(crate) fn scan_branch(&self, scan: &BranchScan) -> Result<Vec<&Node<P>>> {
        let start = self
            .index_of(&scan.start)
            .ok_or_else(|| Error::UnknownEntry { entry: scan.start.clone() })?;
        let mut path = Vec::new();
        let mut next = Some(start);
        while let Some(node) = next.and_then(|index| self.entries.get(index)) {
            if scan.query.admits(&node.head) {
                path.push(node);
            }
            if scan.stops_at(&node.head) {
                break;
            }
            next = node.parent;
        }
        if scan.query.order == Order::Asc {
            path.reverse();
        }
        path.truncate(scan.query.limit.get());
        Ok(path)
    }
}

/// Exclusive bounds of a read by seq.
#[derive(Clone, Copy, Default)]
struct SeqRange {
    after: Option<Seq>,
    before: Option<Seq>,
}

impl SeqRange {
    fn of(query: &SeqQuery) -> Self {
        // Inclusive bounds become exclusive ones; a bound that no seq lies beyond is none.
        let after = query.from.and_then(|from| Seq::new(from.get() - 1).ok());
        let before = query.to.and_then(|to| Seq::new(to.get() + 1).ok());
        Self { after, before }
    }
}

/// The rows within the bounds, in the order asked for. `rows` stand in seq order.
fn page<T>(
    rows: &[T],
    seq: impl Fn(&T) -> Seq,
    range: SeqRange,
    order: Order,
) -> Box<dyn Iterator<Item = &T> + '_> {
    let start = range.after.map_or(0, |after| rows.partition_point(|row| seq(row) <= after));
    let end =
        range.before.map_or(rows.len(), |before| rows.partition_point(|row| seq(row) < before));
    let within = rows.get(start..end).unwrap_or_default();
    match order {
        Order::Asc => Box::new(within.iter()),
        Order::Desc => Box::new(within.iter().rev()),
    }
}
