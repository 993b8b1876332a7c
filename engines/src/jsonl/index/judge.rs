//! Decides the sorted records: what survives, and what speaks against the fork.

use std::path::Path;

use forkline_model::policy::{LaneRows, LaneShape};
use forkline_model::{LaneAudit, Scope};

use super::collect::Collected;
use super::keys::Hash;
use super::record::{Mark, Place, Record, SPOT_BYTES, SURVIVOR_BYTES, Survivor, SurvivorKind};
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
    /// The first damaged entry of the file.
    pub(in super::super) damage: Option<(Place, Damage)>,
    /// The first surviving write that no fork knows what to do with.
    pub(in super::super) unknown: Option<Place>,
    /// The partial lanes, for the strict audit.
    pub(in super::super) partial_lanes: Sorted<PARTIAL_BYTES>,
    /// The current tips that cannot be read or name no entry, for the strict audit.
    pub(in super::super) bad_tips: Sorted<SPOT_BYTES>,
}

pub(in super::super) const PARTIAL_BYTES: usize = SPOT_BYTES + 1;

/// A lane that is neither complete nor a tip alone.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct PartialLane {
    /// One of its rows.
    pub(in super::super) place: Place,
    /// Which rows there are.
    pub(in super::super) rows: LaneRows,
}

impl PartialLane {
    fn to_bytes(self) -> [u8; PARTIAL_BYTES] {
        let LaneRows { tip, config, state } = self.rows;
        let rows = u8::from(tip) | u8::from(config) << 1 | u8::from(state) << 2;
        let mut bytes = [rows; PARTIAL_BYTES];
        let (place, _) = bytes.split_at_mut(SPOT_BYTES);
        place.copy_from_slice(&self.place.to_bytes());
        bytes
    }

    pub(in super::super) fn from_bytes(bytes: &[u8; PARTIAL_BYTES]) -> Self {
        let (place, rows) = bytes.split_first_chunk().expect("long enough");
        let rows = rows.first().copied().expect("long enough");
        let rows = LaneRows { tip: rows & 1 != 0, config: rows & 2 != 0, state: rows & 4 != 0 };
        Self { place: Place::from_bytes(*place), rows }
    }
}

/// Sorts and decides the records.
///
/// # Errors
/// I/O of the temporary files.
pub(in super::super) fn judge(
    collected: Collected,
    scope: &Scope,
    audit: LaneAudit,
    scratch: &Path,
) -> Result<Verdict> {
    let failed = |error| spill_error(scratch, error);
    let Collected { records, tape, .. } = collected;
    // Its part of the temporary disk is freed before survivors take theirs.
    drop(tape);
    let mut judge = Judge {
        is_tree: *scope == Scope::Tree,
        is_strict: *scope == Scope::Tree && audit == LaneAudit::Strict,
        scratch,
        survivors: Sorter::new(scratch, SURVIVORS_BUDGET),
        damage: None,
        unknown: None,
        partial_lanes: Sorter::new(scratch, AUDIT_BUDGET),
        tips: Sorter::new(scratch, AUDIT_BUDGET),
        dangling: Sorter::new(scratch, AUDIT_BUDGET),
    };
    let mut group = Group::default();
    for record in records.finish().map_err(failed)? {
        let record = Record::from_bytes(&record.map_err(failed)?);
        if group.hash != Some(record.hash) {
            judge.finish_group(&group)?;
            group = Group { hash: Some(record.hash), ..Group::default() };
        }
        judge.take(&mut group, &record)?;
    }
    judge.finish_group(&group)?;
    judge.finish()
}

/// What is known of the records of one hash, of which the newest come first.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each answers a question of its own")]
struct Group {
    hash: Option<Hash>,
    // An entry's id.
    oldest_insert: Option<Place>,
    second_insert: Option<Place>,
    /// Whether one of the inserts is copied or walked over.
    is_on_path: bool,
    is_copied: bool,
    is_label_decided: bool,
    // A branch name.
    tip: Row,
    config: Row,
    state: Row,
    // An address.
    is_value_decided: bool,
    is_list_dead: bool,
}

/// One of a lane's three rows.
#[derive(Debug, Clone, Copy, Default)]
enum Row {
    #[default]
    Undecided,
    Absent,
    Present(Place),
}

impl Row {
    /// Takes a set or a delete; the first one decides. Whether it did, and was a set.
    fn decide(&mut self, place: Option<Place>) -> bool {
        if !matches!(self, Self::Undecided) {
            return false;
        }
        *self = place.map_or(Self::Absent, Self::Present);
        place.is_some()
    }

    fn place(self) -> Option<Place> {
        match self {
            Self::Present(place) => Some(place),
            Self::Undecided | Self::Absent => None,
        }
    }
}

struct Judge<'a> {
    is_tree: bool,
    is_strict: bool,
    scratch: &'a Path,
    survivors: Sorter<SURVIVOR_BYTES>,
    damage: Option<(Place, Damage)>,
    unknown: Option<Place>,
    partial_lanes: Sorter<PARTIAL_BYTES>,
    /// Current tips that can be read.
    tips: Sorter<SPOT_BYTES>,
    /// Tips, current or not, that name no entry or cannot be read.
    dangling: Sorter<SPOT_BYTES>,
}

impl Judge<'_> {
    fn take(&mut self, group: &mut Group, record: &Record) -> Result<()> {
        let Record { place, mark, .. } = *record;
        match mark {
            Mark::Entry | Mark::Copied | Mark::CopiedMessage | Mark::Walked => {
                self.take_insert(group, place, mark)
            }
            Mark::Parent => {
                if group.oldest_insert.is_none_or(|insert| insert.offset >= place.offset) {
                    self.damaged(place, Damage::MissingParent);
                }
                Ok(())
            }
            Mark::Target => {
                if group.oldest_insert.is_none() {
                    self.push_dangling(place)?;
                }
                Ok(())
            }
            Mark::LabelSet | Mark::LabelDelete => {
                let is_first = !std::mem::replace(&mut group.is_label_decided, true);
                if is_first && mark == Mark::LabelSet && group.is_copied {
                    self.survives(place, SurvivorKind::Value)?;
                }
                Ok(())
            }
            Mark::TipSet | Mark::TipUnreadable | Mark::TipDelete => {
                self.take_tip(group, place, mark)
            }
            Mark::ConfigSet | Mark::ConfigDelete => {
                if group.config.decide((mark == Mark::ConfigSet).then_some(place)) {
                    self.survives(place, SurvivorKind::Value)?;
                }
                Ok(())
            }
            Mark::StateSet | Mark::StateDelete => {
                if group.state.decide((mark == Mark::StateSet).then_some(place)) {
                    self.survives(place, SurvivorKind::Rewritten)?;
                }
                Ok(())
            }
            Mark::ValueSet | Mark::UnknownSet | Mark::ValueDelete => {
                let is_first = !std::mem::replace(&mut group.is_value_decided, true);
                match mark {
                    Mark::ValueSet if is_first => self.survives(place, SurvivorKind::Value)?,
                    Mark::UnknownSet if is_first => self.unknown(place),
                    _ => {}
                }
                Ok(())
            }
            Mark::Append => {
                if !group.is_list_dead {
                    self.survives(place, SurvivorKind::Element)?;
                }
                Ok(())
            }
            Mark::UnknownAppend => {
                if !group.is_list_dead {
                    self.unknown(place);
                }
                Ok(())
            }
            Mark::ListDelete => {
                group.is_list_dead = true;
                Ok(())
            }
        }
    }

    fn take_insert(&mut self, group: &mut Group, place: Place, mark: Mark) -> Result<()> {
        group.second_insert = group.oldest_insert.replace(place);
        group.is_on_path |= mark != Mark::Entry;
        match mark {
            Mark::Copied => {
                group.is_copied = true;
                self.survives(place, SurvivorKind::Entry)
            }
            Mark::CopiedMessage => {
                group.is_copied = true;
                self.survives(place, SurvivorKind::Message)
            }
            _ => Ok(()),
        }
    }

    fn take_tip(&mut self, group: &mut Group, place: Place, mark: Mark) -> Result<()> {
        if !group.tip.decide((mark != Mark::TipDelete).then_some(place)) {
            return Ok(());
        }
        if self.is_strict {
            self.tips.push(place.to_bytes()).map_err(|error| spill_error(self.scratch, error))?;
            if mark == Mark::TipUnreadable {
                self.push_dangling(place)?;
            }
        }
        let kind = if self.is_tree { SurvivorKind::Value } else { SurvivorKind::Rewritten };
        self.survives(place, kind)
    }

    fn finish_group(&mut self, group: &Group) -> Result<()> {
        if let (Some(place), true) = (group.second_insert, group.is_on_path) {
            self.damaged(place, Damage::DuplicateId);
        }
        let (tip, config, state) = (group.tip.place(), group.config.place(), group.state.place());
        let rows =
            LaneRows { tip: tip.is_some(), config: config.is_some(), state: state.is_some() };
        if self.is_strict
            && let LaneShape::Partial(_) = rows.shape()
            && let Some(place) = tip.or(config).or(state)
        {
            let failed = |error| spill_error(self.scratch, error);
            let lane = PartialLane { place, rows };
            self.partial_lanes.push(lane.to_bytes()).map_err(failed)?;
        }
        Ok(())
    }

    fn survives(&mut self, place: Place, kind: SurvivorKind) -> Result<()> {
        let survivor = Survivor { place, kind };
        self.survivors.push(survivor.to_bytes()).map_err(|error| spill_error(self.scratch, error))
    }

    fn push_dangling(&mut self, place: Place) -> Result<()> {
        self.dangling.push(place.to_bytes()).map_err(|error| spill_error(self.scratch, error))
    }

    fn damaged(&mut self, place: Place, damage: Damage) {
        let found = (place, damage);
        self.damage = Some(self.damage.map_or(found, |known| known.min(found)));
    }

    fn unknown(&mut self, place: Place) {
        self.unknown = Some(self.unknown.map_or(place, |known| known.min(place)));
    }

    fn finish(self) -> Result<Verdict> {
        let failed = |error| spill_error(self.scratch, error);
        let mut bad_tips = Sorter::new(self.scratch, AUDIT_BUDGET);
        let mut dangling = self.dangling.finish().map_err(failed)?;
        let mut next_dangling = || dangling.next().transpose().map_err(failed);
        let mut place = next_dangling()?;
        for tip in self.tips.finish().map_err(failed)? {
            let tip = tip.map_err(failed)?;
            while place.is_some_and(|place| place < tip) {
                place = next_dangling()?;
            }
            if place == Some(tip) {
                bad_tips.push(tip).map_err(failed)?;
            }
        }
        Ok(Verdict {
            survivors: self.survivors.finish().map_err(failed)?,
            damage: self.damage,
            unknown: self.unknown,
            partial_lanes: self.partial_lanes.finish().map_err(failed)?,
            bad_tips: bad_tips.finish().map_err(failed)?,
        })
    }
}
