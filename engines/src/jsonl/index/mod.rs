//! The fork index: which writes of a captured prefix are current, in bounded memory
//! (architecture.md, "JSONL").
//!
//! *Design.* Pass 1 leaves a record of 25 bytes for each write that can matter: a keyed hash of
//! what it is about (an address, or an entry's id), its place in the file, and a mark. Sorted
//! by hash, newest first, the records of one address or one id stand together, and a few
//! variables decide them: the newest set or delete of a value counts, appends older than the
//! newest delete of a list are dead, a label counts if its entry is copied, an id must be
//! inserted once, and before it is named as a parent. What survives is sorted by its place,
//! which is the order of seqs, and drives pass 2.
//!
//! A branch fork also keeps a tape of the entries' hashes. Parents stand before children, so
//! one pass over it from its end, with one wanted id, finds the path.
//!
//! *Why this way.* A map of addresses in memory is bounded by nothing; a database costs 28
//! bytes a key and four times as long (facts §4).
//!
//! *Invariants.*
//! 1. Hashes are 96 bits, keyed anew for each fork, so nobody can prepare two texts of one
//!    hash. Two of ten million keys meet by chance once in 10^15 forks, which is rarer than a
//!    disk that lies; no further care is taken.
//! 2. Temporary disk: at most 25 bytes for a write that is no entry, 50 for an entry (tree) or
//!    62 (branch, of which 37 are freed before anything is added), and 13 for what survives:
//!    below 64 for a write. Beyond some 900 MB of records a sort holds them twice for a while.
//! 3. RAM: the budgets below and what the scanner holds.

mod collect;
mod judge;
mod keys;
mod path;
mod record;

use std::path::PathBuf;

pub(super) use collect::{Collected, Collector};
pub(super) use judge::{Damage, PartialLane, Verdict, judge};
pub(super) use keys::{HASH_BYTES, Keys};
pub(super) use path::{Path, Selected, walk};
pub(super) use record::{Place, SURVIVOR_BYTES, Survivor, SurvivorKind};

use crate::error::Error;
use crate::spill::SpillError;

/// RAM for records of writes, in bytes.
const RECORDS_BUDGET: usize = 2 * 1024 * 1024;
/// RAM for the tape of entries, in bytes.
const TAPE_BUDGET: usize = 768 * 1024;
/// RAM for the places that survive, in bytes.
const SURVIVORS_BUDGET: usize = 768 * 1024;
/// RAM for each list of the strict lane audit, in bytes.
const AUDIT_BUDGET: usize = 128 * 1024;

/// A failure of temporary files in a folder.
pub(super) fn spill_error(folder: &std::path::Path, error: SpillError) -> Error {
    let kind = error.io_kind();
    Error::io("use temporary files in", PathBuf::from(folder), std::io::Error::new(kind, error))
}
