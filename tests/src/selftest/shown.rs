//! Bugs in what an engine takes its source to be, or its caller to ask for.

use forkline_model::policy::{self, Disposition};
use forkline_model::{BranchName, EntryId, Position, Scope, State, StoreKind, Write};

use super::draft::{Draft, Item};
use super::plant::Case;

pub(super) fn before_is_at(scope: &mut Scope) {
    if let Scope::Branch { position, .. } = scope {
        *position = Position::At;
    }
}

/// The branch and the entry that a branch fork names, if it names one.
fn named<'a>(case: &Case<'a>) -> Option<(&'a BranchName, &'a EntryId)> {
    match case.scope {
        Scope::Branch { branch, entry: Some(entry), .. } => Some((branch, entry)),
        _ => None,
    }
}

fn is_on(state: &State, branch: &BranchName, entry: &EntryId) -> bool {
    let tip = state.tip(branch).ok().flatten();
    tip.is_some_and(|tip| state.ancestry(&tip).iter().any(|on_path| on_path.id == *entry))
}

/// Whatever entry is named, the branch is taken to end there.
pub(super) fn no_ancestry_check(draft: &mut Draft, case: &Case<'_>) {
    if let Some((branch, entry)) = named(case)
        && draft.has_entry(entry.as_str())
        && !is_on(case.state, branch, entry)
    {
        draft.move_tip(branch.as_str(), entry);
    }
}

/// The same for an entry that lies on any branch at all.
pub(super) fn any_branch_will_do(draft: &mut Draft, case: &Case<'_>) {
    if let Some((branch, entry)) = named(case)
        && !is_on(case.state, branch, entry)
        && case.state.branches().iter().any(|other| is_on(case.state, other, entry))
    {
        draft.move_tip(branch.as_str(), entry);
    }
}

fn is_unknown(kind: StoreKind, namespace: &str) -> bool {
    policy::classify(&Scope::Tree, kind, namespace, "") == Disposition::Fail
}

pub(super) fn no_unknown_reserved(draft: &mut Draft, _case: &Case<'_>) {
    draft.rows.retain(|row| match &row.item {
        Item::Entry(..) => true,
        Item::Value(at, _) => !is_unknown(StoreKind::Value, at.namespace.as_str()),
        Item::Element(at, _) => !is_unknown(StoreKind::List, at.namespace.as_str()),
    });
}

/// Writes of the past that no longer stand.
fn dead<'a>(draft: &Draft, case: &Case<'a>) -> Vec<(forkline_model::Seq, &'a Write)> {
    let past = case.past.iter().filter(|(seq, _)| !draft.has(*seq));
    past.map(|(seq, write)| (*seq, write)).collect()
}

pub(super) fn dead_reserved(draft: &mut Draft, case: &Case<'_>) {
    for (seq, write) in dead(draft, case) {
        match write.clone() {
            Write::SetValue { address, value }
                if is_unknown(StoreKind::Value, address.namespace.as_str()) =>
            {
                draft.push(seq, Item::Value(address, value));
            }
            Write::AppendElement { address, value }
                if is_unknown(StoreKind::List, address.namespace.as_str()) =>
            {
                draft.push(seq, Item::Element(address, value));
            }
            _ => {}
        }
    }
}

pub(super) fn dead_elements(draft: &mut Draft, case: &Case<'_>) {
    for (seq, write) in dead(draft, case) {
        if let Write::AppendElement { address, value } = write.clone()
            && !policy::is_reserved(address.namespace.as_str())
        {
            draft.push(seq, Item::Element(address, value));
        }
    }
}

/// Sets of the past, whatever came later. Deletes are not copied, so that one which was deleted
/// stands again.
pub(super) fn superseded_sets(draft: &mut Draft, case: &Case<'_>) {
    for (seq, write) in dead(draft, case) {
        if let Write::SetValue { address, value } = write.clone()
            && !policy::is_reserved(address.namespace.as_str())
        {
            draft.push(seq, Item::Value(address, value));
        }
    }
}

/// Everything that starts with `pi2` is seen as something in `pi`.
pub(super) fn pi2_is_reserved(draft: &mut Draft, _case: &Case<'_>) {
    for row in &mut draft.rows {
        let (Item::Value(address, _) | Item::Element(address, _)) = &mut row.item else { continue };
        if address.namespace.as_str().starts_with("pi2") {
            let reserved = format!("pi.{}", address.namespace.as_str());
            *address = forkline_model::Address::new(reserved, address.key.as_str())
                .expect("a namespace is longer by three bytes");
        }
    }
}
