//! Sessions in this process: the contract over maps.
//!
//! The state of a session is shared copy-on-write: a capture takes a reference and costs
//! nothing; the first commit after it, while the fork still runs, pays for a copy of the
//! structure (payload texts are shared). So the fork is built straight from the source's maps.

mod fork;
mod repo;
mod storage;

pub use repo::MemoryRepo;

use forkline_model::{Json, UsageRow};

/// Payloads and ledger rows stand in memory themselves.
type State = crate::resident::Resident<Json, UsageRow>;
