//! Legacy session files, versions 1 to 3 (formats §2): read, never written.
//!
//! *Design.* Pass 1 ([`reader`]) reads every line into a row of 35 bytes: what it is, where its
//! bytes are, and links to other records. Ids are sorted until each meets the record that has
//! it ([`resolve`]); one pass over the rows then checks parents and references, finds the
//! nearest entry of each record, and mints ids in the order of the file. What a record becomes
//! ([`content`]) is a list of pieces, text or spans of the file, that are copied when the
//! destination asks for them ([`writer`]); a retained tail is a walk over the rows that copies
//! the spans it meets, so tails that overlap are written often and held never.
//!
//! An open session ([`storage`]) is the same stream, taken into a scratch file of format 4 that
//! nobody else sees. The first commit puts that file in the place of the legacy one.
//!
//! *Why this way.* Values in memory would be simpler, and are what the tests do
//! (`plain_legacy`); a session of 200 MB with fifty overlapping tails then needs gigabytes.
//!
//! *Invariants.*
//! 1. RAM: the budgets of the index (3.5 MiB in all) and two windows of 256 KiB.
//! 2. Temporary disk of an index that leaves the RAM: 35 bytes a record, 28 an entry, and 17 for
//!    each id and each parent that is not the record before, which are gone before the entries
//!    get their ids.
//! 3. All damage of a file is found before any of it is refused.

mod content;
mod file;
mod finding;
mod header;
mod reader;
mod record;
mod resolve;
mod row;
mod source;
mod storage;
mod time;
mod usage;
mod writer;

pub(super) use file::LegacyFile;
pub use finding::{Finding, Repair, SalvageReport};
pub(super) use finding::{Findings, Mode, What};
pub(super) use header::LegacyHeader;
pub(super) use source::LegacySource;
pub(super) use storage::LegacyStorage;
