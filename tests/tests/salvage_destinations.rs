//! A salvage is the same into every kind of destination, of every version of files: its content,
//! the entry that tells of it, its report; and its source is what it was.
//!
//! What goes wrong otherwise: a destination that takes the rows of a sound source in a way of its
//! own (lines as bytes, a whole stage) and never sees the row that tells of the damage.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use forkline_engines::jsonl::{SALVAGE_TYPE, SalvageReport, Salvaged, session_at};
use forkline_engines::{Context, Environment, JsonlRepo, RepoOptions, SessionRef};
use forkline_gate::fixtures::{bytes, damaged, files, fixture_unless_large, name};
use forkline_gate::lineup::{CountingIds, Engine, EngineKind, FixedClock, state_of};
use forkline_gate::plain::{jsonl, sqlite};
use forkline_gate::verify::Snapshot;
use forkline_model::diff::{Compare, diff};
use forkline_model::{
    BranchName, Entry, ErrorKind, ForkOptions, LaneAudit, Metadata, Millis, SessionId, State,
    StateBuilder, TypeName,
};
use serde_json::Value;

fn now() -> Millis {
    Millis::new(1_700_001_000_000).expect("a time")
}

/// A reader whose ids begin anew, so that every destination gets the same ones.
fn reader(folder: &Path) -> JsonlRepo {
    let environment =
        Environment { clock: Arc::new(FixedClock(now())), ids: Arc::new(CountingIds::default()) };
    let options = RepoOptions { environment, ..RepoOptions::default() };
    JsonlRepo::with(folder, options).expect("a folder")
}

/// The state without its working directory, for which a container has no place.
fn without_cwd(state: &State) -> State {
    let metadata = Metadata { cwd: None, ..state.metadata().clone() };
    let mut builder = StateBuilder::new(metadata, state.next_seq());
    for entry in state.entries().values() {
        builder.entry(entry.clone());
    }
    for (address, (seq, value)) in state.values() {
        builder.value(address.clone(), *seq, value.clone());
    }
    for (address, elements) in state.lists() {
        for (seq, value) in elements {
            builder.element(address.clone(), *seq, value.clone());
        }
    }
    builder.finish().expect("it is a session")
}

fn is_telling(entry: &Entry) -> bool {
    entry.custom_type.as_ref().map(TypeName::as_str) == Some(SALVAGE_TYPE)
}

/// A salvage into one kind of destination, read back by its engine.
fn salvaged(
    at: &SessionRef,
    options: &ForkOptions,
    kind: EngineKind,
) -> Result<(State, SalvageReport), ErrorKind> {
    let cx = Context::new();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let into = Engine::new(kind, folder.path(), now(), LaneAudit::Selected).expect("an engine");
    let options = options.clone().with_id(SessionId::new("salvaged").expect("an id"));
    let salvaged = reader(folder.path()).salvage(at, &*into.repo, &options, &cx);
    let Salvaged { forked, report } = salvaged.map_err(|error| error.kind())?;
    let session = into.repo.open(&forked.reference, &cx).expect("a published fork opens");
    let state = state_of(&session).expect("it can be read");
    session.close().expect("it can be closed");
    assert_eq!(state.next_seq(), forked.next_seq);
    assert_eq!(state.entries().len() as u64, forked.copied.entries);
    Ok((state, report))
}

/// Salvages a file into all destinations; tells whether it could be, and what was repaired.
fn compare(path: &Path) -> Option<SalvageReport> {
    let at = session_at(path).ok()?;
    let before = Snapshot::take(path).expect("looked");
    let main = BranchName::new("main").expect("a name");
    let mut found = None;
    for options in [ForkOptions::tree(), ForkOptions::branch(main)] {
        let memory = salvaged(&at, &options, EngineKind::Memory);
        for kind in [EngineKind::Jsonl, EngineKind::Sqlite, EngineKind::SqliteShared] {
            match (&memory, salvaged(&at, &options, kind)) {
                (Ok((expected, told)), Ok((state, report))) => {
                    let diff =
                        diff(&without_cwd(&state), &without_cwd(expected), &Compare::default());
                    assert!(diff.is_empty(), "{} into {kind}:\n{diff}", path.display());
                    assert_eq!(&report, told);
                }
                (Err(expected), Err(error)) => assert_eq!(*expected, error),
                (left, right) => panic!("{} into {kind}: {left:?}, {right:?}", path.display()),
            }
        }
        let Ok((state, report)) = memory else { continue };
        let telling = state.entries().values().filter(|entry| is_telling(entry)).count();
        assert_eq!(telling, usize::from(!report.is_empty()), "{}", path.display());
        if let Some(last) = state.entries().values().next_back().filter(|_| telling == 1) {
            assert!(is_telling(last) && last.parent.is_none(), "{last:?}");
            let said: Value = serde_json::from_str(last.payload.as_str()).expect("JSON");
            assert_eq!(said["data"]["taken"], report.taken);
            assert_eq!(said["data"]["skipped"], report.skipped);
            let lines = said["data"]["findings"].as_array().expect("findings").iter();
            let lines: Vec<u64> = lines.filter_map(|found| found["line"].as_u64()).collect();
            assert!(lines.iter().eq(report.findings.iter().map(|found| &found.line)));
        }
        found.get_or_insert(report);
    }
    assert_eq!(before.changes().expect("looked"), Vec::<String>::new(), "{}", path.display());
    found
}

/// Damaged files of versions 1 and 3.
fn legacy() -> Vec<PathBuf> {
    let names = [
        "v1-bake",
        "v1-pi-mono-glued-line-6",
        "v1-pi-mono-glued-line-440",
        "v3-agent-ide-bad-escape-line-44",
        "v3-bake-pi-1.1.0-all-types",
        "v3-openclaw-4-missing-parents",
    ];
    let found = names.iter().filter_map(|name| fixture_unless_large(&format!("real/{name}.jsonl")));
    found.collect()
}

#[test]
fn a_salvage_is_the_same_into_every_destination() {
    let current = files(&damaged(), ".jsonl").into_iter().filter(|path| {
        let name = name(path);
        !name.contains(".fork-") && !name.contains(".after-open")
    });
    let (mut count, mut repairs) = (0, BTreeSet::new());
    for path in legacy().into_iter().chain(current) {
        let Some(report) = compare(&path) else { continue };
        count += usize::from(!report.is_empty());
        repairs.extend(report.findings.iter().map(|found| found.repair.as_str()));
    }
    println!("{count} damaged files");
    assert!(count >= 40, "{count} damaged files");
    assert!(repairs.iter().eq(["reattached", "skipped", "split"].iter()), "{repairs:?}");
}

/// The same by the command: what is in each destination, read without an engine.
#[test]
fn the_command_salvages_into_every_destination() {
    let mut sources = legacy();
    sources.truncate(2);
    sources.push(damaged().join("null-line.jsonl"));
    for source in sources {
        let before = Snapshot::take(&source).expect("looked");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = |name: &str| folder.path().join(name).display().to_string();
        let mut found: Vec<(Vec<String>, Value, String)> = Vec::new();
        for into in [
            format!("jsonl:{}", place("files")),
            format!("sqlite:{}", place("containers")),
            format!("sqlite-shared:{}", place("all.sqlite")),
        ] {
            let mut run = Command::new(env!("CARGO_BIN_EXE_forkline"));
            run.arg("fork").arg(&source).args(["--scope", "tree", "--salvage", "--json"]);
            let output = run.args(["--into", &into]).output().expect("the command can be run");
            let said = String::from_utf8(output.stderr).expect("text");
            assert_eq!(output.status.code(), Some(0), "{into}: {said}");
            let report: Value = serde_json::from_slice(&output.stdout).expect("an object");
            let path = Path::new(report["path"].as_str().expect("a path"));
            let state = if into.starts_with("jsonl") {
                jsonl::read(&bytes(path)).expect("a sound fork").state
            } else {
                let mut held = sqlite::read(path, folder.path()).expect("a container");
                assert_eq!(held.len(), 1);
                held.remove(0).content.expect("a sound fork").state
            };
            // Of a legacy file all ids are new each time: what has none of them has to be equal.
            let mut rows = Vec::new();
            for entry in state.entries().values() {
                let Entry { entry_type, custom_type, seq, timestamp, .. } = entry;
                let at = if is_telling(entry) { None } else { Some(timestamp) };
                rows.push(format!("{seq} {entry_type:?} {custom_type:?} {at:?}"));
            }
            rows.extend(state.values().values().map(|(seq, _)| seq.to_string()));
            let last = state.entries().values().next_back().expect("the entry that tells");
            assert!(is_telling(last), "{into}: {last:?}");
            found.push((rows, report["salvage"].clone(), last.payload.as_str().to_owned()));
        }
        let (first, rest) = found.split_first().expect("three");
        assert!(first.1["findings"].as_array().is_some_and(|found| !found.is_empty()));
        assert!(rest.iter().all(|other| other == first), "{}: {found:#?}", source.display());
        assert_eq!(before.changes().expect("looked"), Vec::<String>::new());
    }
}
