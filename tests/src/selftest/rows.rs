//! Bugs in what a planned fork copies.

use std::collections::{BTreeMap, BTreeSet};

use forkline_model::policy::{self, LaneShape};
use forkline_model::{EntryId, Json, Lane, Scope, Seq, lanes};
use serde_json::value::RawValue;

use super::draft::{Draft, DraftRow, Item};
use super::plant::Case;

impl Case<'_> {
    fn is_tree(&self) -> bool {
        matches!(self.scope, Scope::Tree)
    }

    /// The values of the source that `wanted` takes, as rows.
    fn values(&self, wanted: impl Fn(&str, &str) -> bool) -> impl Iterator<Item = DraftRow> {
        let values = self.state.values().iter();
        values.filter(move |(at, _)| wanted(at.namespace.as_str(), at.key.as_str())).map(
            |(at, (seq, value))| DraftRow {
                seq: *seq,
                item: Item::Value(at.clone(), value.clone()),
            },
        )
    }
}

impl Draft {
    /// Adds rows that are not there yet, each at its place.
    fn add(&mut self, rows: impl Iterator<Item = DraftRow>) {
        let new: Vec<DraftRow> = rows.filter(|row| !self.has(row.seq)).collect();
        self.rows.extend(new);
        self.sort();
    }

    fn highest_entry(&self) -> Option<Seq> {
        self.rows.iter().filter_map(DraftRow::entry).map(|head| head.seq).max()
    }
}

fn seq(number: u64) -> Seq {
    Seq::new(number).expect("a draft has fewer rows than there are seqs")
}

pub(super) fn renumber(draft: &mut Draft, _case: &Case<'_>) {
    for (row, number) in draft.rows.iter_mut().zip(1..) {
        row.seq = seq(number);
        if let Item::Entry(head, _) = &mut row.item {
            head.seq = seq(number);
        }
    }
}

pub(super) fn next_seq_too_low(draft: &mut Draft, _case: &Case<'_>) {
    draft.next_seq = draft.next_seq.saturating_sub(1).max(1);
}

pub(super) fn next_seq_of_entries(draft: &mut Draft, _case: &Case<'_>) {
    draft.next_seq = draft.highest_entry().map_or(1, |seq| seq.get() + 1);
}

pub(super) fn lists_in_branch_scope(draft: &mut Draft, case: &Case<'_>) {
    if case.is_tree() {
        return;
    }
    let lists = case.state.lists().iter();
    let lists = lists.filter(|(at, _)| !policy::is_reserved(at.namespace.as_str()));
    draft.add(lists.flat_map(|(at, elements)| {
        elements.iter().map(|(seq, value)| DraftRow {
            seq: *seq,
            item: Item::Element(at.clone(), value.clone()),
        })
    }));
}

pub(super) fn no_lists_in_tree_scope(draft: &mut Draft, case: &Case<'_>) {
    if case.is_tree() {
        draft.rows.retain(|row| !matches!(row.item, Item::Element(..)));
    }
}

/// What an application had set before the selected entry came, and not set again since.
pub(super) fn cutoff(draft: &mut Draft, case: &Case<'_>) {
    if let (false, Some(tip)) = (case.is_tree(), draft.highest_entry()) {
        let values = case.values(|namespace, _| !policy::is_reserved(namespace));
        draft.add(values.filter(|row| row.seq <= tip));
    }
}

pub(super) fn busy_lane_state(draft: &mut Draft, case: &Case<'_>) {
    for row in &mut draft.rows {
        if let Some((address, value)) = row.value_in(policy::LANE_STATE)
            && let Some((_, original)) = case.state.get_value(address)
        {
            *value = original;
        }
    }
}

pub(super) fn last_operation(draft: &mut Draft, case: &Case<'_>) {
    for row in &mut draft.rows {
        let Some((address, value)) = row.value_in(policy::LANE_STATE) else { continue };
        let original = case.state.get_value(address).map(|(_, state)| state);
        let members = original.as_ref().and_then(members);
        if let Some(last) = members.as_ref().and_then(|members| members.get("lastOperationId")) {
            let state =
                format!(r#"{{"currentOperationId":null,"lastOperationId":{last},"inbox":[]}}"#);
            *value = Json::parse(&state).expect("it is made of JSON");
        }
    }
}

pub(super) fn second_lane(draft: &mut Draft, case: &Case<'_>) {
    let Scope::Branch { branch, .. } = case.scope else { return };
    let mut others = lanes::lanes(case.state).into_iter();
    let other = others.find(|it| it.branch != *branch && it.shape() == LaneShape::Complete);
    let Some(Lane { branch: other, .. }) = other else { return };
    let lane = [policy::BRANCH_TIP, policy::LANE_CONFIG, policy::LANE_STATE];
    draft.add(case.values(|namespace, key| lane.contains(&namespace) && key == other.as_str()));
    for row in &mut draft.rows {
        if let Some((_, value)) = row.value_in(policy::LANE_STATE) {
            *value = policy::idle_state();
        }
    }
}

pub(super) fn no_data_only_branches(draft: &mut Draft, case: &Case<'_>) {
    let lanes = lanes::lanes(case.state).into_iter();
    let data_only = lanes.filter(|lane| lane.shape() == LaneShape::DataOnly);
    let data_only: BTreeSet<String> =
        data_only.map(|lane| lane.branch.as_str().to_owned()).collect();
    draft.rows.retain_mut(|row| match row.value_in(policy::BRANCH_TIP) {
        Some((address, _)) => !data_only.contains(address.key.as_str()),
        None => true,
    });
}

pub(super) fn no_unreachable_entries(draft: &mut Draft, case: &Case<'_>) {
    let tips = case.state.branches().into_iter().filter_map(|name| case.state.tip(&name).ok()?);
    let reached: BTreeSet<EntryId> =
        tips.flat_map(|tip| case.state.ancestry(&tip)).map(|entry| entry.id.clone()).collect();
    draft.rows.retain(|row| row.entry().is_none_or(|head| reached.contains(&head.id)));
}

pub(super) fn labels_of_others(draft: &mut Draft, case: &Case<'_>) {
    draft.add(case.values(|namespace, _| namespace == policy::ENTRY_LABEL));
}

pub(super) fn results(draft: &mut Draft, case: &Case<'_>) {
    draft.add(case.values(|namespace, _| namespace == policy::RESULT));
}

pub(super) fn out_of_order(draft: &mut Draft, _case: &Case<'_>) {
    if let Some(last) = draft.rows.len().checked_sub(1).filter(|&last| last > 0) {
        draft.rows.swap(last - 1, last);
    }
}

pub(super) fn numbers_as_doubles(draft: &mut Draft, _case: &Case<'_>) {
    for row in &mut draft.rows {
        let json = row.json_mut();
        let text = through_doubles(json.as_str());
        *json = Json::parse(&text).expect("a number was put in the place of a number");
    }
}

/// The text with every number printed anew from the double nearest to it.
fn through_doubles(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let is_number = |c: char| matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E');
    while let Some(c) = rest.chars().next() {
        let len = match c {
            '"' => end_of_string(rest),
            '-' | '0'..='9' => rest.find(|c| !is_number(c)).unwrap_or(rest.len()),
            _ => c.len_utf8(),
        };
        let (token, behind) = rest.split_at(len);
        match (c, token.parse::<f64>()) {
            ('-' | '0'..='9', Ok(number)) if number.is_finite() => {
                out.push_str(&number.to_string());
            }
            ('-' | '0'..='9', _) => out.push_str("null"),
            _ => out.push_str(token),
        }
        rest = behind;
    }
    out
}

/// How long the string is that the text starts with, quotes included.
fn end_of_string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Members that an entry may have by formats §1.
const KNOWN_MEMBERS: [&str; 12] = [
    "message",
    "terminate",
    "summary",
    "retainedTail",
    "tokensBefore",
    "details",
    "usage",
    "fromHook",
    "fromId",
    "customType",
    "data",
    "firstKeptEntryId",
];

pub(super) fn no_unknown_members(draft: &mut Draft, _case: &Case<'_>) {
    for row in &mut draft.rows {
        let Item::Entry(_, payload) = &mut row.item else { continue };
        let Some(members) = members(payload) else { continue };
        let is_known = |name: &str| KNOWN_MEMBERS.contains(&name);
        if members.keys().all(|name| is_known(name)) {
            continue;
        }
        let known = members.iter().filter(|(name, _)| is_known(name));
        let known: Vec<String> = known.map(|(name, value)| format!("\"{name}\":{value}")).collect();
        *payload = Json::parse(&format!("{{{}}}", known.join(","))).expect("it is made of JSON");
    }
}

/// The members of an object, of which names are known to occur once.
fn members(object: &Json) -> Option<BTreeMap<String, &RawValue>> {
    serde_json::from_str(object.as_str()).ok()
}
