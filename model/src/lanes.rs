//! What stands under each branch name (contract §2), and the lane audit (contract §3.5).

use std::collections::BTreeSet;

use crate::address::{BranchName, EntryId, Seq};
use crate::error::Error;
use crate::json::Json;
use crate::policy::{self, LaneRows, LaneShape};
use crate::state::State;

/// The rows of one branch name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lane {
    /// The name.
    pub branch: BranchName,
    /// The tip's row.
    pub tip: Option<(Seq, Json)>,
    /// The configuration's row.
    pub config: Option<(Seq, Json)>,
    /// The state's row.
    pub state: Option<(Seq, Json)>,
}

impl Lane {
    /// What stands under `branch`, which may be nothing.
    pub fn of(state: &State, branch: &BranchName) -> Self {
        Self {
            branch: branch.clone(),
            tip: state.get_value(&policy::tip_address(branch)),
            config: state.get_value(&policy::config_address(branch)),
            state: state.get_value(&policy::state_address(branch)),
        }
    }

    /// Which of the three rows are there.
    pub fn rows(&self) -> LaneRows {
        LaneRows {
            tip: self.tip.is_some(),
            config: self.config.is_some(),
            state: self.state.is_some(),
        }
    }

    /// What they make.
    pub fn shape(&self) -> LaneShape {
        self.rows().shape()
    }
}

/// Every name with a tip, a configuration or a state, ascending.
///
/// Rows at the empty key are under no name: they belong to no branch and no lane.
pub fn lanes(state: &State) -> Vec<Lane> {
    let namespaces = [policy::BRANCH_TIP, policy::LANE_CONFIG, policy::LANE_STATE];
    let names: BTreeSet<BranchName> = state
        .values()
        .keys()
        .filter(|address| namespaces.contains(&address.namespace.as_str()))
        .filter_map(|address| BranchName::new(&address.key).ok())
        .collect();
    names.iter().map(|branch| Lane::of(state, branch)).collect()
}

/// Something that makes a strict tree fork fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// The rows do not belong together.
    PartialLane {
        /// The branch.
        branch: BranchName,
        /// What is missing.
        reason: &'static str,
    },
    /// The tip is neither an entry id nor null.
    UnreadableTip {
        /// The branch.
        branch: BranchName,
    },
    /// The tip names no entry.
    UnknownTip {
        /// The branch.
        branch: BranchName,
        /// What it names.
        tip: EntryId,
    },
}

impl Finding {
    /// The error that a fork is rejected with.
    pub fn to_error(&self) -> Error {
        match self {
            Self::PartialLane { branch, reason } => {
                Error::CorruptLane { branch: branch.clone(), reason }
            }
            Self::UnreadableTip { branch } => policy::unreadable_tip(branch),
            Self::UnknownTip { branch, tip } => {
                Error::UnknownTip { branch: branch.clone(), tip: tip.clone() }
            }
        }
    }
}

/// Partial lanes and bad tips, lowest branch name first; of one branch the shape first.
pub fn audit(state: &State) -> Vec<Finding> {
    let mut findings = Vec::new();
    for lane in lanes(state) {
        if let LaneShape::Partial(reason) = lane.shape() {
            findings.push(Finding::PartialLane { branch: lane.branch.clone(), reason });
        }
        let Some((_, tip)) = &lane.tip else { continue };
        match policy::read_tip(&lane.branch, tip) {
            Ok(None) => {}
            Ok(Some(tip)) if state.entry(&tip).is_some() => {}
            Ok(Some(tip)) => findings.push(Finding::UnknownTip { branch: lane.branch, tip }),
            Err(_) => findings.push(Finding::UnreadableTip { branch: lane.branch }),
        }
    }
    findings
}
