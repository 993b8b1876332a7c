//! Decides the sorted records: what survives, and what speaks against the fork.

use std::path::Path;

use forkline_model::policy::{LaneRows, LaneShape};

use super::collect::Collected;
use super::keys::Hash;
use super::record::{Mark, Place, RECORD_BYTES, Record, SPOT_BYTES, SURVIVOR_BYTES, Survivor};
use super::record::SurvivorKind;
use super::{AUDIT_BUDGET, SURVIVORS_BUDGET, spill_error};
use crate::error::Result;
use crate::spill::{Sorted, Sorter};

/// What is wrong with an entry that is copied or walked over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Damage {
    /// Its id stands before it already.
    DuplicateId,
    /// Its parent does not stand before it.
    MissingParent,
}

/// What the records say.
pub(in super::super) struct Verdict {
    /// What the destination holds, in the order of seqs.
    pub(in super::super) survivors: Sorted<SURVIVOR_BYTES>,
    pub(in super::super) survivor_count: u64,
    /// The first damaged entry of the file.
    pub(in super::super) damage: Option<(Place, Damage)>,
    /// The first surviving write that no fork knows what to do with.
    pub(in super::super) unknown: Option<Place>,
    pub(in super::super) audit: Audit,
}

/// What the strict audit has to look at; empty otherwise.
pub(in super::super) struct Audit {
    /// A row of each partial lane, or the tip that cannot be read, with what is wrong.
    pub(in super::super) lanes: Sorted<SPOT_AND_REASON>,
    /// Tips that name no entry.
    pub(in super::super) tips: Tips,
}

const SPOT_AND_REASON: usize = SPOT_BYTES + 1;
