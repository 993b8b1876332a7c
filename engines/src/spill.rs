//! Fixed-width records beyond a RAM budget: a sorter and a tape that spill to a temporary file.
//!
//! A fork of ten million writes has 8 MiB of heap (architecture, "What may cost what"). What it
//! must remember of each write goes through here: [`Sorter`] hands records back in order,
//! [`Tape`] in the order of pushing or the reverse of it, [`Table`] in any order by index. Small inputs never touch the disk.
//!
//! *Design.* Records are byte arrays that sort as bytes: integers are stored big-endian. The
//! file is anonymous (unlinked while open), so that even a killed process leaves nothing.
//!
//! *Why this way.* facts §4 measured SQLite's sorter as the alternative: 4.3 s and 28 bytes a
//! key for 4 million keys, and payload-free records need nothing else of a database.
//!
//! *Invariants.*
//! 1. RAM held, buffers in growth included, stays within the budget, but no budget is taken to
//!    be smaller than 16 records with 64 bytes of bookkeeping each.
//! 2. Disk: a tape holds each record at most once; a sorter once while the runs can be merged
//!    in one pass (at 2 MiB: some 900 MB of records), and at most twice otherwise.
//! 3. After a failed write every later one fails.

mod buffer;
mod sorter;
mod table;
mod tape;
mod temp;

use std::io;
use std::path::PathBuf;

pub use sorter::{Sorted, Sorter};
pub use table::Table;
pub use tape::{Tape, TapeReader};

/// The temporary file failed.
#[derive(Debug, thiserror::Error)]
#[error("{action} a temporary file in {}", dir.display())]
pub struct SpillError {
    action: &'static str,
    dir: PathBuf,
    #[source]
    source: io::Error,
}

impl SpillError {
    /// Kind of the file system's error.
    pub fn io_kind(&self) -> io::ErrorKind {
        self.source.kind()
    }
}

/// What a sorter or tape has used so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Most RAM held at a time, in bytes.
    pub ram_bytes_peak: usize,
    /// Most bytes in temporary files at a time.
    pub disk_bytes_peak: u64,
    /// Bytes written to temporary files in all.
    pub disk_bytes_written: u64,
}

impl Usage {
    fn saw_ram(&mut self, bytes: usize) {
        self.ram_bytes_peak = self.ram_bytes_peak.max(bytes);
    }

    fn saw_disk(&mut self, bytes: u64) {
        self.disk_bytes_peak = self.disk_bytes_peak.max(bytes);
    }
}

/// Fewest records that a budget must have room for, and the bookkeeping that each may need.
const RECORDS_MIN: usize = 16;
const BOOKKEEPING_BYTES: usize = 64;

/// The budget that is kept to when `bytes` was asked for.
fn effective_budget<const W: usize>(bytes: usize) -> usize {
    const { assert!(W > 0, "a record has bytes") };
    bytes.max(RECORDS_MIN * (W + BOOKKEEPING_BYTES))
}
