//! The forks of one session that are checked: every legal way, and some that must be refused.

use std::collections::BTreeMap;

use forkline_model::lanes::lanes;
use forkline_model::policy::LaneShape;
use forkline_model::{BranchName, EntryId, ForkOptions, Position, Scope, State};

use crate::plain_legacy::Imported;

/// One fork to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Case {
    /// What `--only` names it by.
    pub(super) label: String,
    /// What is asked of the fork.
    pub(super) options: ForkOptions,
}

impl Case {
    fn tree() -> Self {
        Self { label: "tree".to_owned(), options: ForkOptions::tree() }
    }

    fn tip(branch: &BranchName) -> Self {
        Self { label: format!("branch {branch}"), options: ForkOptions::branch(branch.clone()) }
    }

    fn before_tip(branch: &BranchName) -> Self {
        let options = ForkOptions::branch(branch.clone()).before_tip();
        Self { label: format!("branch {branch} before its tip"), options }
    }

    fn at(branch: &BranchName, entry: &EntryId) -> Self {
        let options = ForkOptions::branch(branch.clone()).at(entry.clone());
        Self { label: format!("branch {branch} at {entry}"), options }
    }

    fn before(branch: &BranchName, entry: &EntryId) -> Self {
        let options = ForkOptions::branch(branch.clone()).before(entry.clone());
        Self { label: format!("branch {branch} before {entry}"), options }
    }
}

/// The forks that gate.md names: the tree; each complete lane at its tip, before its tip, at and
/// before a mid entry and its root. Then what the contract refuses: every other branch, an entry
/// that is not on a lane's path, a branch that is not there.
pub(super) fn cases(state: &State) -> Vec<Case> {
    let mut cases = vec![Case::tree()];
    for lane in lanes(state) {
        cases.push(Case::tip(&lane.branch));
        if lane.shape() == LaneShape::Complete {
            cases.extend(along(state, &lane.branch));
        }
    }
    cases.push(Case::tip(&unused_name(state)));
    cases
}

/// The forks that are enough once all others were held: the tree, and the first lane in the
/// middle of its path.
pub(super) fn few(cases: &[Case]) -> Vec<Case> {
    let before = |case: &&Case| case.label.contains(" before \"");
    let mut few: Vec<Case> = cases.iter().take(1).cloned().collect();
    few.extend(cases.iter().find(before).or_else(|| cases.get(1)).cloned());
    few
}

/// The same for a legacy session: entries are named by the ids in the file where they have one.
/// Then a lane at an id that only this import minted, which must be refused (formats §2).
pub(super) fn legacy_cases(imported: &Imported) -> Vec<Case> {
    let legacy: BTreeMap<&EntryId, &String> =
        imported.ids.iter().map(|(legacy, id)| (id, legacy)).collect();
    let main = BranchName::new("main").expect("a valid name");
    let mut cases = cases(&imported.state);
    let has_lane = cases.iter().any(|case| *case == Case::before_tip(&main));
    for case in &mut cases {
        let Scope::Branch { branch, entry: Some(entry), position } = &case.options.scope else {
            continue;
        };
        let known = legacy.get(entry).and_then(|legacy| EntryId::new(legacy.as_str()).ok());
        let Some(known) = known else { continue };
        *case = match position {
            Position::At => Case::at(branch, &known),
            Position::Before => Case::before(branch, &known),
        };
    }
    let minted = imported.state.entries().values().next().map(|entry| &entry.id);
    let minted = minted.filter(|id| has_lane && !imported.ids.contains_key(id.as_str()));
    let unstable = minted.map(|id| Case::at(&main, id));
    cases.extend(unstable.filter(|unstable| !cases.contains(unstable)));
    cases
}

fn along(state: &State, branch: &BranchName) -> Vec<Case> {
    let mut cases = vec![Case::before_tip(branch)];
    let Ok(Some(tip)) = state.tip(branch) else { return cases };
    let path = state.ancestry(&tip);
    let middle = path.get(path.len() / 2).map(|entry| &entry.id);
    let root = path.last().map(|entry| &entry.id);
    for entry in middle.into_iter().chain(root.filter(|&root| middle != Some(root))) {
        cases.push(Case::before(branch, entry));
        cases.push(Case::at(branch, entry));
    }
    // Both run from high seqs to low ones, so one pass finds an entry that is off the path.
    let mut on_path = path.iter().peekable();
    for (_, entry) in state.entries().iter().rev() {
        if on_path.next_if(|on_path| on_path.id == entry.id).is_none() {
            cases.push(Case::at(branch, &entry.id));
            break;
        }
    }
    cases
}

fn unused_name(state: &State) -> BranchName {
    let taken = state.branches();
    (0..=taken.len())
        .map(|n| BranchName::new(format!("no-branch-{n}")).expect("a valid name"))
        .find(|name| !taken.contains(name))
        .expect("one name more than there are branches")
}
