//! Forks of real sessions are, byte for byte, the forks that the existing writer made of them.
//!
//! What goes wrong otherwise: a session that is forked here cannot be used there. Where the
//! contract departs from the existing writer on purpose, the departure is listed below and
//! nothing else may differ. Every fork also goes through memory and back, so that the rows say
//! the same whichever way they go.

#[path = "support/fixtures.rs"]
mod fixtures;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fixtures::{fixtures, manifest};
use forkline_engines::{
    Clock, Context, Environment, JsonlRepo, ListFilter, MemoryRepo, Repo, RepoOptions, SessionRef,
    UuidSource, transfer,
};
use forkline_model::{BranchName, EntryId, ErrorKind, ForkOptions, Json, Millis, SessionId};
use serde_json::Value;

struct At(u64);

impl Clock for At {
    fn now(&self) -> Millis {
        Millis::new(self.0).unwrap()
    }
}

fn options_at(created_at: u64) -> RepoOptions {
    let environment =
        Environment { clock: Arc::new(At(created_at)), ids: Arc::new(UuidSource::new()) };
    RepoOptions { environment, ..RepoOptions::default() }
}

/// Marks the line of a set without a value.
const NO_VALUE: &str = "\"no-value\"";

/// What a fork is expected to give.
enum Expected {
    Bytes(PathBuf),
    /// The same lines, but other spellings: the existing writer parses and writes anew.
    Lines(PathBuf),
    /// The same but for lines that the contract leaves out.
    Without(PathBuf, &'static str),
    Refused(ErrorKind),
}

fn expected(folder: &Path, fixture: &str, fork: &Value) -> Expected {
    let label = fork["label"].as_str().unwrap();
    match (fixture, label) {
        // A list in a namespace that is declared for values is unknown reserved state.
        ("reserved-lists", _) => return Expected::Refused(ErrorKind::UnknownReserved),
        // A tip alone is no lane, whatever it names.
        ("dangling-tip", "branch-lost-data") => return Expected::Refused(ErrorKind::NotALane),
        (
            "partial-lanes",
            "branch-config-without-state" | "branch-state-without-config" | "branch-lost-its-state",
        ) => {
            return Expected::Refused(ErrorKind::CorruptLane);
        }
        _ => {}
    }
    let Some(file) = fork["jsonl"].as_str() else {
        let error = fork["jsonl"]["error"].as_str().unwrap();
        let kinds = [
            ("not a configured", ErrorKind::NotALane),
            ("not on source branch", ErrorKind::EntryNotOnBranch),
            ("Unknown reserved", ErrorKind::UnknownReserved),
            ("Corrupt source", ErrorKind::CorruptSource),
            ("Unknown source branch", ErrorKind::UnknownBranch),
        ];
        let kind = kinds.iter().find(|(text, _)| error.contains(text));
        return Expected::Refused(kind.unwrap_or_else(|| panic!("{error}")).1);
    };
    let file = folder.join(file);
    match (fixture, label) {
        ("raw-spelling", _) => Expected::Lines(file),
        // Labels of entries that do not exist are left out.
        ("labels", "tree") => Expected::Without(file, "missing-entry"),
        _ => Expected::Bytes(file),
    }
}

fn options(fork: &Value) -> ForkOptions {
    let options = &fork["options"];
    let base = match options["scope"].as_str().unwrap() {
        "tree" => ForkOptions::tree(),
        _ => ForkOptions::branch(BranchName::new(options["branch"].as_str().unwrap()).unwrap()),
    };
    let entry = options["entryId"].as_str().map(|id| EntryId::new(id).unwrap());
    let base = match (entry, options["position"].as_str()) {
        (Some(entry), Some("before")) => base.before(entry),
        (Some(entry), _) => base.at(entry),
        (None, Some("before")) => base.before_tip(),
        (None, _) => base,
    };
    base.with_id(SessionId::new(fork["id"].as_str().unwrap()).unwrap())
}

fn check_bytes(context: &str, found: &str, expected: &Expected) {
    let (path, leave_out) = match expected {
        Expected::Bytes(path) | Expected::Lines(path) => (path, None),
        Expected::Without(path, text) => (path, Some(*text)),
        Expected::Refused(kind) => panic!("{context}: expected {kind:?}"),
    };
    let wanted = fs::read_to_string(path).unwrap();
    let wanted: Vec<&str> = wanted
        .split_inclusive('\n')
        .filter(|line| !line.contains(NO_VALUE))
        .filter(|line| leave_out.is_none_or(|text| !line.contains(text)))
        .collect();
    let found: Vec<&str> = found.split_inclusive('\n').collect();
    assert_eq!(found.len(), wanted.len(), "{context}: number of lines");
    for (found, wanted) in found.iter().zip(&wanted) {
        if matches!(expected, Expected::Lines(_)) {
            let json = |text: &str| Json::parse(text).unwrap();
            assert!(json(found).equals_as_doubles(&json(wanted)), "{context}: {found}");
        } else {
            assert_eq!(found, wanted, "{context}");
        }
    }
}

#[test]
fn forks_are_those_of_the_existing_writer() {
    let folder = fixtures("pi-0.87.1");
    let manifest = manifest(&folder);
    let (source_at, fork_at) = (
        manifest["sourceCreatedAt"].as_u64().unwrap(),
        manifest["forkCreatedAt"].as_u64().unwrap(),
    );
    let cx = Context::new();
    let mut count = 0;
    for fixture in manifest["fixtures"].as_array().unwrap() {
        let name = fixture["name"].as_str().unwrap();
        let source_file = folder.join(format!("{name}.jsonl"));
        if !source_file.exists() {
            continue;
        }
        for fork in fixture["forks"].as_array().unwrap() {
            let context = format!("{name}, {}", fork["label"]);
            let root = tempfile::tempdir().unwrap();
            let cwd_folder = root.path().join("--workspace-demo--");
            fs::create_dir(&cwd_folder).unwrap();
            let file = cwd_folder.join("source.jsonl");
            let source_text = fs::read_to_string(&source_file).unwrap();
            // A set without a value is refused here; all else in that file is spelled oddly.
            let source_text: String =
                source_text.split_inclusive('\n').filter(|line| !line.contains(NO_VALUE)).collect();
            fs::write(&file, source_text).unwrap();
            let repo = JsonlRepo::with(root.path(), options_at(fork_at)).unwrap();
            let source = only(&repo, &cx);
            assert!(source.metadata.created_at.get() >= source_at.min(fork_at));

            let before = fs::read(&file).unwrap();
            let options = options(fork);
            let forked = repo.fork_closed_unopened(&source, &options, &cx);
            assert_eq!(fs::read(&file).unwrap(), before, "{context}: the source");
            let expected = expected(&folder, name, fork);
            match (forked, &expected) {
                (Err(error), Expected::Refused(kind)) => {
                    assert_eq!(error.kind(), *kind, "{context}: {}", error.chain());
                    assert_eq!(fs::read_dir(&cwd_folder).unwrap().count(), 1, "{context}");
                }
                (Err(error), _) => panic!("{context}: {}", error.chain()),
                (Ok(forked), _) => {
                    let path = forked.reference.path().unwrap();
                    let text = fs::read_to_string(path).unwrap();
                    check_bytes(&context, &text, &expected);
                    if let Some(next_seq) = fork["nextSeq"].as_u64() {
                        assert_eq!(forked.next_seq, next_seq, "{context}");
                    }
                    check_through_memory(&context, &repo, &source, &options, &expected, fork_at);
                }
            }
            count += 1;
        }
    }
    assert!(count >= 60, "only {count} forks were compared");
}

/// The same fork into memory and from there into a file has the same lines.
fn check_through_memory(
    context: &str,
    repo: &JsonlRepo,
    source: &SessionRef,
    options: &ForkOptions,
    expected: &Expected,
    fork_at: u64,
) {
    let cx = Context::new();
    let root = tempfile::tempdir().unwrap();
    let memory = MemoryRepo::with(options_at(fork_at));
    let middle = ForkOptions { id: Some(source.metadata.id.clone()), ..options.clone() };
    let middle = transfer::fork(repo, source, &memory, &middle, &cx).unwrap();
    let out = JsonlRepo::with(root.path(), options_at(fork_at)).unwrap();
    let again = ForkOptions { id: options.id.clone(), ..ForkOptions::tree() };
    let forked = out.fork_unopened(&middle, &again, &cx).unwrap();
    let text = fs::read_to_string(forked.reference.path().unwrap()).unwrap();
    // Other spellings are compared once, above.
    let Expected::Bytes(path) = expected else { return };
    let wanted = fs::read_to_string(path).unwrap();
    let json = |text: &str| Json::parse(text).unwrap();
    for (found, wanted) in text.lines().zip(wanted.lines()) {
        assert!(json(found).equals_as_doubles(&json(wanted)), "{context}: {found}\n{wanted}");
    }
    assert_eq!(text.lines().count(), wanted.lines().count(), "{context}");
}

fn only(repo: &JsonlRepo, cx: &Context) -> SessionRef {
    let mut found = repo.list(&ListFilter::default(), cx).unwrap();
    assert_eq!(found.len(), 1);
    found.remove(0)
}
