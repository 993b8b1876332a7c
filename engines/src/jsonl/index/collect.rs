//! Pass 1: a record for each write that can matter to the fork.

use std::path::Path;

use forkline_model::policy::{self, Disposition, LaneRows};
use forkline_model::{BranchName, EntryId, Error as ModelError, LaneAudit, Scope, StoreKind};

use super::keys::{Hash, Keys};
use super::record::{Mark, NODE_BYTES, Node, Place, RECORD_BYTES, Record};
use super::{RECORDS_BUDGET, TAPE_BUDGET, spill_error};
use crate::error::{Error, Result};
use crate::jsonl::lines::{Line, What};
use crate::scan::{Class, Found, Text};
use crate::spill::{Sorter, Tape};

/// What pass 1 gathers.
pub(in super::super) struct Collector<'a> {
    scope: &'a Scope,
    is_strict: bool,
    scratch: &'a Path,
    pub(super) keys: Keys,
    records: Sorter<RECORD_BYTES>,
    /// The entries in their order; branch scope only.
    tape: Tape<NODE_BYTES>,
    lane: Lane,
    /// The entry inserted last: most parents are this one, and need no record.
    last_entry: Option<Hash>,
}

/// What pass 1 has gathered.
pub(in super::super) struct Collected {
    pub(super) keys: Keys,
    pub(super) records: Sorter<RECORD_BYTES>,
    pub(super) tape: Tape<NODE_BYTES>,
    lane: Lane,
}

/// The current rows of the lane that a branch fork names.
#[derive(Debug, Default)]
struct Lane {
    tip: Option<Tip>,
    has_config: bool,
    has_state: bool,
}

/// The current value of a tip.
#[derive(Debug)]
enum Tip {
    Null,
    Entry(EntryId),
    Unreadable,
}

impl Tip {
    fn of(value: &Found<'_>) -> Self {
        match (value.class, value.text) {
            (Class::Null, _) => Self::Null,
            (Class::String, Text::Decoded(text)) => {
                EntryId::new(text).map_or(Self::Unreadable, Self::Entry)
            }
            _ => Self::Unreadable,
        }
    }
}

impl<'a> Collector<'a> {
    pub(in super::super) fn new(scope: &'a Scope, audit: LaneAudit, scratch: &'a Path) -> Self {
        Self {
            scope,
            is_strict: audit == LaneAudit::Strict && *scope == Scope::Tree,
            scratch,
            keys: Keys::new(),
            records: Sorter::new(scratch, RECORDS_BUDGET),
            tape: Tape::new(scratch, TAPE_BUDGET),
            lane: Lane::default(),
            last_entry: None,
        }
    }

    pub(in super::super) fn finish(self) -> Collected {
        let Self { keys, records, tape, lane, .. } = self;
        Collected { keys, records, tape, lane }
    }

    /// Takes one write.
    ///
    /// # Errors
    /// *Limit exceeded* for a file beyond 128 TiB, I/O.
    pub(in super::super) fn take(&mut self, line: &Line<'_>) -> Result<()> {
        let place = Place::new(&line.span).ok_or_else(|| Error::LimitExceeded {
            what: "a session file is longer than 2^47 bytes".to_owned(),
        })?;
        match &line.what {
            What::Entry { id, parent, entry_type, .. } => {
                self.take_entry(place, id, *parent, *entry_type == "message")
            }
            What::Usage { .. } => Ok(()),
            What::Store { kind, namespace, key, value } => {
                self.take_store(place, *kind, namespace, key, value.as_ref())
            }
        }
    }

    fn take_entry(
        &mut self,
        place: Place,
        id: &str,
        parent: Option<&str>,
        is_message: bool,
    ) -> Result<()> {
        let id = self.keys.entry(id);
        let parent = parent.map(|parent| self.keys.entry(parent));
        if *self.scope == Scope::Tree {
            self.push(id, place, if is_message { Mark::CopiedMessage } else { Mark::Copied })?;
            if let Some(parent) = parent
                && self.last_entry != Some(parent)
            {
                self.push(parent, place, Mark::Parent)?;
            }
        } else {
            let node = Node { id, parent, place, is_message };
            self.tape.push(node.to_bytes()).map_err(|error| spill_error(self.scratch, error))?;
        }
        self.last_entry = Some(id);
        Ok(())
    }

    fn take_store(
        &mut self,
        place: Place,
        kind: StoreKind,
        namespace: &str,
        key: &str,
        value: Option<&Found<'_>>,
    ) -> Result<()> {
        let either = |set, delete| if value.is_some() { set } else { delete };
        match policy::classify(self.scope, kind, namespace, key) {
            Disposition::LeaveOut => Ok(()),
            Disposition::CopyIfEntryCopied => {
                let hash = self.keys.entry(key);
                self.push(hash, place, either(Mark::LabelSet, Mark::LabelDelete))
            }
            Disposition::Fail => {
                let hash = self.keys.address(kind, namespace, key);
                let mark = match kind {
                    StoreKind::Value => either(Mark::UnknownSet, Mark::ValueDelete),
                    StoreKind::List => either(Mark::UnknownAppend, Mark::ListDelete),
                };
                self.push(hash, place, mark)
            }
            Disposition::Copy | Disposition::RewriteTip | Disposition::MakeIdle => {
                match (kind, namespace) {
                    (StoreKind::Value, policy::BRANCH_TIP) => self.take_tip(place, key, value),
                    (StoreKind::Value, policy::LANE_CONFIG) => {
                        self.lane.has_config = value.is_some();
                        let hash = self.keys.branch(key);
                        self.push(hash, place, either(Mark::ConfigSet, Mark::ConfigDelete))
                    }
                    (StoreKind::Value, policy::LANE_STATE) => {
                        self.lane.has_state = value.is_some();
                        let hash = self.keys.branch(key);
                        self.push(hash, place, either(Mark::StateSet, Mark::StateDelete))
                    }
                    (StoreKind::Value, _) => {
                        let hash = self.keys.address(kind, namespace, key);
                        self.push(hash, place, either(Mark::ValueSet, Mark::ValueDelete))
                    }
                    (StoreKind::List, _) => {
                        let hash = self.keys.address(kind, namespace, key);
                        self.push(hash, place, either(Mark::Append, Mark::ListDelete))
                    }
                }
            }
        }
    }

    fn take_tip(&mut self, place: Place, branch: &str, value: Option<&Found<'_>>) -> Result<()> {
        let hash = self.keys.branch(branch);
        let tip = value.map(Tip::of);
        let mark = match &tip {
            None => Mark::TipDelete,
            Some(Tip::Unreadable) => Mark::TipUnreadable,
            Some(_) => Mark::TipSet,
        };
        if self.is_strict
            && let Some(Tip::Entry(id)) = &tip
        {
            let target = self.keys.entry(id.as_str());
            if self.last_entry != Some(target) {
                self.push(target, place, Mark::Target)?;
            }
        }
        // In branch scope only rows of the selected lane come here; in tree scope nobody asks.
        if *self.scope != Scope::Tree {
            self.lane.tip = tip;
        }
        self.push(hash, place, mark)
    }

    fn push(&mut self, hash: Hash, place: Place, mark: Mark) -> Result<()> {
        let record = Record { hash, place, mark };
        self.records.push(record.to_bytes()).map_err(|error| spill_error(self.scratch, error))
    }
}

impl Collected {
    /// The tip of the lane that a branch fork names (contract §3.1, rule 1).
    ///
    /// # Errors
    /// *Unknown branch*, *not a configured lane*, *corrupt lane*.
    pub(in super::super) fn lane_tip(&self, branch: &BranchName) -> Result<Option<EntryId>> {
        let Lane { tip, has_config, has_state } = &self.lane;
        let rows = LaneRows { tip: tip.is_some(), config: *has_config, state: *has_state };
        rows.require_complete(branch)?;
        match tip {
            Some(Tip::Entry(id)) => Ok(Some(id.clone())),
            Some(Tip::Unreadable) => Err(unreadable_tip(branch).into()),
            Some(Tip::Null) | None => Ok(None),
        }
    }
}

/// The error of a tip that is neither an entry id nor null.
pub(super) fn unreadable_tip(branch: &BranchName) -> ModelError {
    let reason = "its tip is neither an entry id nor null";
    ModelError::CorruptLane { branch: branch.clone(), reason }
}
