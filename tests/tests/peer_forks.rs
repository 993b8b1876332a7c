//! Forks of the fixtures equal those that another implementation made of the same files with the
//! same options, ids and creation time, numbers compared as doubles.
//!
//! Where the two differ on purpose, the table below names the fork and the reason; a fork in the
//! table that does not differ fails as well, and so does a refusal on one side only.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forkline_engines::{
    Context, Environment, Error, JsonlRepo, Location, Repo, RepoOptions, SessionRef,
};
use forkline_gate::fixtures::{bytes, damaged, fixtures};
use forkline_gate::lineup::{CountingIds, FixedClock};
use forkline_gate::plain::jsonl;
use forkline_model::diff::{Compare, JsonEquality, diff};
use forkline_model::{BranchName, EntryId, ForkOptions, Metadata, Millis, SessionId};
use serde_json::{Value, json};

/// Forks that are different here: fixture, label, what a difference has to say, and why.
const DIFFERENT: [(&str, &str, &str, &str); 5] = [
    (
        "labels",
        "tree",
        "value pi.entry.label/\"missing-entry\"",
        "the peer's JSONL copies the label of an entry that does not exist",
    ),
    (
        "reserved-lists",
        "tree",
        "unknown reserved list",
        "the peer's JSONL projects a list in a namespace of values like a value",
    ),
    ("reserved-lists", "branch-main", "unknown reserved list", "the same"),
    ("raw-spelling", "tree", "line 10: value is missing", "the peer reads undefined"),
    ("raw-spelling", "branch-main", "line 10: value is missing", "the same"),
];

/// Variants with one damage that the peer forks, in one scope at least, and that are refused
/// here in both: damage counts also in a part that a fork leaves out.
const STRICTER: [(&str, &str); 11] = [
    ("invalid-utf-8-inside-a-string", "the peer replaces it by U+FFFD"),
    ("repeated-seq", "the peer does not look at seqs that it leaves out"),
    ("falling-seq-among-single-write-lines", "the peer ends the copy early"),
    ("falling-seq-inside-a-transaction", "the peer ends the copy early"),
    ("entry-without-parentid", "the peer passes over an entry that it leaves out"),
    ("entry-without-id", "the peer accepts it"),
    ("usage-row-without-usage", "the peer passes over the ledger"),
    ("set-without-a-value", "the peer reads undefined"),
    ("value-with-an-empty-namespace", "the peer passes over application state"),
    ("value-with-nul-in-its-key", "the peer passes over application state"),
    ("value-without-key", "the peer reads undefined"),
];

#[test]
fn forks_equal_those_of_the_peer() {
    let folder = fixtures().join("pi-0.87.1");
    let manifest: Value =
        serde_json::from_slice(&bytes(&folder.join("manifest.json"))).expect("a manifest");
    let (mut equal, mut refused, mut different) = (0, 0, Vec::new());
    for fixture in list(&manifest["fixtures"]) {
        let name = text(&fixture["name"]);
        let source = folder.join(format!("{name}.jsonl"));
        if !source.exists() || fixture["forks"].is_null() {
            continue;
        }
        for fork in list(&fixture["forks"]) {
            let label = text(&fork["label"]);
            let found = compare(&folder, &header(&source), fork);
            let excuse = DIFFERENT.iter().find(|row| (row.0, row.1) == (name, label));
            match (found, excuse) {
                (Found::Equal, None) => equal += 1,
                (Found::BothRefuse, None) => refused += 1,
                (Found::Different(lines), Some((.., expected, _))) => {
                    assert!(lines.contains(expected), "{name} {label}: {lines}");
                    different.push((name, label));
                }
                (Found::Different(lines), None) => panic!("{name} {label}: {lines}"),
                (_, Some(_)) => panic!("{name} {label}: not different, as the table says"),
            }
        }
    }
    println!("{equal} equal, {refused} refused on both sides, different: {different:?}");
    assert!(equal >= 60, "only {equal} forks were compared");
    assert!(refused >= 10, "only {refused} refusals were compared");
}

#[test]
fn forks_of_damaged_variants_equal_those_of_the_peer() {
    let folder = damaged();
    let manifest: Value =
        serde_json::from_slice(&bytes(&folder.join("manifest.json"))).expect("a manifest");
    let (mut equal, mut refused, mut stricter) = (0, 0, BTreeSet::new());
    for variant in list(&manifest["variants"]) {
        let name = text(&variant["name"]);
        for label in ["tree", "branch-main"] {
            let options = match label {
                "tree" => json!({"scope": "tree"}),
                _ => json!({"scope": "branch", "branch": "main"}),
            };
            let fork = json!({
                "id": format!("fork-{label}"),
                "createdAt": manifest["forkCreatedAt"],
                "options": options,
                "jsonl": variant["forks"][label]["file"],
            });
            let source = variant_of_source(folder.join(format!("{name}.jsonl")));
            let is_stricter = STRICTER.iter().any(|(stricter, _)| *stricter == name);
            match compare(&folder, &source, &fork) {
                Found::Equal => equal += 1,
                Found::BothRefuse => refused += 1,
                Found::Different(lines) if is_stricter => {
                    assert!(lines.starts_with("only we refuse: corrupt source"), "{name}: {lines}");
                    stricter.insert(name);
                }
                Found::Different(lines) => panic!("{name} {label}: {lines}"),
            }
        }
    }
    println!("{equal} equal, {refused} refused on both sides, stricter: {stricter:?}");
    assert_eq!(stricter.len(), STRICTER.len(), "what the table names is different");
    assert!(equal >= 58, "only {equal} forks were compared");
    assert!(refused >= 80, "only {refused} refusals were compared");
}

enum Found {
    Equal,
    BothRefuse,
    Different(String),
}

fn compare(folder: &Path, source: &SessionRef, fork: &Value) -> Found {
    let root = tempfile::tempdir().expect("a temporary folder");
    let made = make(root.path(), source, fork);
    match (made, fork["jsonl"].as_str()) {
        (Err(_), None) => Found::BothRefuse,
        (Err(error), Some(_)) => Found::Different(format!("only we refuse: {}", error.chain())),
        (Ok(_), None) => Found::Different(format!("only the peer refuses: {}", fork["jsonl"])),
        (Ok(made), Some(theirs)) => {
            let ours = jsonl::read(&bytes(made.path().expect("a file"))).expect("a sound fork");
            let theirs = match jsonl::read(&bytes(&folder.join(theirs))) {
                Ok(theirs) => theirs,
                Err(damage) => return Found::Different(format!("the peer's file: {damage}")),
            };
            let compare = Compare { json: JsonEquality::AsDoubles, ..Compare::default() };
            let found = diff(&ours.state, &theirs.state, &compare);
            if found.is_empty() { Found::Equal } else { Found::Different(found.to_string()) }
        }
    }
}

fn make(root: &Path, source: &SessionRef, fork: &Value) -> Result<SessionRef, Error> {
    let created_at = fork["createdAt"].as_u64().expect("a time");
    let environment = Environment {
        clock: Arc::new(FixedClock(Millis::new(created_at).expect("in range"))),
        ids: Arc::new(CountingIds::default()),
    };
    let repo = JsonlRepo::with(root, RepoOptions { environment, ..RepoOptions::default() })?;
    let forked = repo.fork_closed_unopened(source, &options(fork), &Context::new())?;
    Ok(forked.reference)
}

/// What a file says of itself.
fn header(path: &Path) -> SessionRef {
    let content = bytes(path);
    let line = content.split(|&byte| byte == b'\n').next().expect("a first line");
    let metadata = jsonl::read_header(line).expect("a header").metadata;
    SessionRef { metadata, location: Location::File(path.to_owned()) }
}

/// What the sound file says, at the place of a variant: two variants say something else.
fn variant_of_source(path: PathBuf) -> SessionRef {
    let metadata = Metadata {
        id: SessionId::new("source").expect("an id"),
        created_at: Millis::new(1_700_000_000_000).expect("in range"),
        cwd: Some("/workspace/demo".to_owned()),
        parent_session_id: None,
        legacy_parent_session_path: None,
    };
    SessionRef { metadata, location: Location::File(path) }
}

fn options(fork: &Value) -> ForkOptions {
    let options = &fork["options"];
    let id = SessionId::new(text(&fork["id"])).expect("an id");
    if options["scope"] == "tree" {
        return ForkOptions::tree().with_id(id);
    }
    let branch = BranchName::new(text(&options["branch"])).expect("a branch");
    let entry = options["entryId"].as_str().map(|id| EntryId::new(id).expect("an id"));
    let lane = ForkOptions::branch(branch).with_id(id);
    match (entry, options["position"] == "before") {
        (Some(entry), true) => lane.before(entry),
        (Some(entry), false) => lane.at(entry),
        (None, true) => lane.before_tip(),
        (None, false) => lane,
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().expect("text in the manifest")
}
