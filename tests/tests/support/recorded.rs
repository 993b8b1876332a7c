//! The results that another implementation gave for its own legacy files: a manifest, states and
//! files, minted ids spelled `@` and the id of the record.

use std::fs;
use std::path::Path;

use forkline_gate::plain_legacy::Members;
use forkline_model::diff::{Compare, JsonEquality, diff};
use forkline_model::{
    BranchName, Entry, EntryId, ForkOptions, Metadata, Millis, Seq, SessionId, State, StateBuilder,
    Write,
};

pub(crate) fn members(text: &str) -> Members {
    Members::parse(text).expect("an object")
}

pub(crate) fn elements(array: &str) -> Vec<Box<serde_json::value::RawValue>> {
    serde_json::from_str(array).expect("an array")
}

pub(crate) fn number(members: &Members, name: &str) -> u64 {
    members.raw(name).and_then(|raw| raw.parse().ok()).expect("a number")
}

pub(crate) fn metadata(members: &Members) -> Metadata {
    Metadata {
        id: SessionId::new(members.text("id").unwrap()).unwrap(),
        created_at: Millis::new(number(members, "createdAt")).unwrap(),
        cwd: members.text("cwd"),
        parent_session_id: members.text("parentSessionId").map(|id| SessionId::new(id).unwrap()),
        legacy_parent_session_path: members.text("legacyParentSessionPath"),
    }
}

/// Adds one write as it stands in a file or a recorded state.
fn add(builder: &mut StateBuilder, text: &str) {
    let found = members(text);
    let seq = Seq::new(number(&found, "seq")).unwrap();
    match Write::from_jsonl(text).expect("a write") {
        Write::Entry(entry) => builder.entry(Entry {
            id: entry.id,
            parent: entry.parent,
            entry_type: entry.entry_type,
            custom_type: entry.custom_type,
            payload: entry.payload,
            seq,
            timestamp: Millis::new(number(&found, "timestamp")).unwrap(),
        }),
        Write::SetValue { address, value } => builder.value(address, seq, value),
        other => panic!("unexpected in these fixtures: {other:?}"),
    };
}

/// A recorded state: `*.open-state.json`.
pub(crate) fn recorded_state(path: &Path) -> (State, Members) {
    let all = members(&fs::read_to_string(path).unwrap());
    let metadata = metadata(&members(all.raw("metadata").unwrap()));
    let mut builder = StateBuilder::new(metadata, number(&all, "nextSeq"));
    for entry in elements(all.raw("entries").unwrap()) {
        let inner = entry.get().strip_prefix('{').unwrap();
        add(&mut builder, &format!("{{\"kind\":\"entry\",{inner}"));
    }
    for value in elements(all.raw("values").unwrap()) {
        let inner = value.get().strip_prefix('{').unwrap();
        add(&mut builder, &format!("{{\"kind\":\"value\",\"op\":\"set\",{inner}"));
    }
    (builder.finish().unwrap(), members(all.raw("stats").unwrap()))
}

/// A recorded fork: `*.fork-*.jsonl`.
pub(crate) fn recorded_fork(path: &Path) -> State {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let header = members(lines.next().unwrap());
    let mut builder = StateBuilder::new(metadata(&header), number(&header, "nextSeq"));
    lines.for_each(|line| add(&mut builder, line));
    builder.finish().unwrap()
}

pub(crate) fn same(what: &str, left: &State, right: &State) {
    let compare = Compare { json: JsonEquality::AsDoubles, ..Compare::default() };
    let diff = diff(left, right, &compare);
    assert!(diff.is_empty(), "{what}:\n{diff}");
}

pub(crate) fn options(recorded: &Members) -> ForkOptions {
    if recorded.text("scope").as_deref() == Some("tree") {
        return ForkOptions::tree();
    }
    let options = ForkOptions::branch(BranchName::new(recorded.text("branch").unwrap()).unwrap());
    let entry = recorded.text("entryId").map(|id| EntryId::new(id).unwrap());
    match (entry, recorded.text("position").as_deref()) {
        (Some(entry), Some("before")) => options.before(entry),
        (Some(entry), _) => options.at(entry),
        (None, _) => options,
    }
}

/// Why the contract takes what the other implementation refuses.
pub(crate) const TAKEN: [&str; 2] = [
    // A tail that begins at its own compaction is empty.
    "compaction-root",
    // Versions 1 and 2 are read.
    "version-2",
];
