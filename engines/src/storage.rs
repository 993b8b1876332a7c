//! What a backend does for one open session.

use forkline_model::{
    Address, BranchScan, Entry, EntryHead, EntryId, EntryQuery, Json, Key, ListQuery, Metadata,
    Millis, Namespace, Seq, SeqQuery, Stats, UsageRow, Write,
};

use crate::context::Context;
use crate::error::Result;
use crate::fork::Source;

/// What a commit got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// The seq of the first write; the others follow one by one. None for an empty commit.
    pub first_seq: Option<Seq>,
    /// How many writes there were.
    pub writes: u64,
    /// The timestamp of its entries, Unix ms.
    pub timestamp: Millis,
}

/// One row of a session's logical state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateRow {
    /// An entry.
    Entry(Entry),
    /// A row of the ledger.
    Usage(UsageRow),
    /// The value at an address.
    Value {
        /// Where.
        address: Address,
        /// The seq of the set.
        seq: Seq,
        /// What.
        value: Json,
    },
    /// An element of a list.
    Element {
        /// Where.
        address: Address,
        /// The seq of the append.
        seq: Seq,
        /// What.
        value: Json,
    },
}

/// A backend's open session: the reads of contract §1, and the commit queue, in which commits
/// are applied all or none and fork boundaries are taken.
///
/// The mutation line stands above it, in [`crate::Session`]; the storage does not know of it.
pub trait Storage: Send + Sync {
    /// What the store says of the session, whatever its caller believed.
    fn metadata(&self) -> &Metadata;

    /// Applies the writes, all or none, with the next seqs (contract §1).
    ///
    /// # Errors
    /// *Duplicate id*, *missing parent*, *limit exceeded*, I/O. After a failed write to disk the
    /// storage takes no more commits.
    fn commit(&self, writes: &[Write], now: Millis) -> Result<Committed>;

    /// The entries of these ids, one answer for each.
    fn get_entries(&self, ids: &[EntryId]) -> Result<Vec<Option<Entry>>>;

    /// The value at an address.
    fn get_value(&self, address: &Address) -> Result<Option<(Seq, Json)>>;

    /// The values of a namespace whose keys start with a prefix, ascending by code point.
    fn scan_values(&self, namespace: &Namespace, key_prefix: &str)
    -> Result<Vec<(Key, Seq, Json)>>;

    /// A page of a list.
    fn read_list(&self, address: &Address, query: &ListQuery) -> Result<Vec<(Seq, Json)>>;

    /// The path from an entry to its root.
    fn scan_branch(&self, scan: &BranchScan) -> Result<Vec<Entry>>;

    /// The same without payloads.
    fn scan_branch_structure(&self, scan: &BranchScan) -> Result<Vec<EntryHead>>;

    /// Entries of a seq range.
    fn scan_entries(&self, query: &SeqQuery) -> Result<Vec<Entry>>;

    /// Ledger rows of a seq range.
    fn scan_usage(&self, query: &SeqQuery) -> Result<Vec<UsageRow>>;

    /// Entries of the session by type and custom type.
    fn find_entries(&self, query: &EntryQuery) -> Result<Vec<Entry>>;

    /// Number of messages and the sum of the ledger.
    fn stats(&self) -> Result<Stats>;

    /// The seq of the next write; 2^53 when none is left.
    fn next_seq(&self) -> Result<u64>;

    /// Visits the whole logical state: each kind of row in seq order.
    fn dump(&self, visit: &mut dyn FnMut(StateRow) -> Result<()>) -> Result<()>;

    /// Takes a place in the commit queue, captures the boundary and lets the queue go.
    fn capture(&self, cx: &Context) -> Result<Box<dyn Source>>;

    /// Releases what the storage holds. Called once.
    fn close(&self) -> Result<()>;
}
