//! The `forkline` command as a person or a CI job runs it: exit status, text, JSON, and a source
//! that is what it was.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use forkline_gate::fixtures::{bytes, damaged, files, fixture, fixtures};
use forkline_gate::plain::{jsonl, sqlite};
use forkline_gate::verify::Snapshot;
use forkline_model::{SessionId, TypeName};
use serde_json::Value;
use tempfile::TempDir;

fn forkline(arguments: &[&str]) -> Output {
    let run = Command::new(env!("CARGO_BIN_EXE_forkline")).args(arguments).output();
    run.expect("the command can be run")
}

fn stdout(output: &Output) -> &str {
    str::from_utf8(&output.stdout).expect("text")
}

fn stderr(output: &Output) -> &str {
    str::from_utf8(&output.stderr).expect("text")
}

fn check_status(output: &Output, status: i32) {
    assert_eq!(output.status.code(), Some(status), "{}{}", stdout(output), stderr(output));
}

/// A private copy of a fixture, alone in a folder.
fn copy(name: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(Path::new(name).file_name().expect("a name"));
    fs::write(&path, bytes(&fixtures().join("pi-0.87.1").join(name))).expect("written");
    (folder, path)
}

/// The same for any fixture that ships with the project.
fn copy_of(path: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = match path.strip_prefix("damaged/") {
        Some(_) => Path::new(env!("CARGO_MANIFEST_DIR")).join(path),
        None => fixture(path),
    };
    let copy = folder.path().join(file.file_name().expect("a name"));
    fs::write(&copy, bytes(&file)).expect("written");
    (folder, copy)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are text")
}

#[test]
fn verify_of_sound_sessions_holds_and_leaves_them_alone() {
    let (folder, session) = copy("lanes-and-data-branch.jsonl");
    fs::write(
        folder.path().join("shared-container.sqlite"),
        bytes(&fixtures().join("pi-0.87.1/shared-container.sqlite")),
    )
    .expect("written");
    fs::write(folder.path().join("notes.txt"), "no session").expect("written");
    let before = Snapshot::take(&session).expect("looked");
    let output = forkline(&["verify", text(folder.path())]);
    check_status(&output, 0);
    let out = stdout(&output);
    assert_eq!(out.lines().filter(|line| line.contains(" holds")).count(), 4, "{out}");
    assert!(out.contains("4 sessions, ") && out.contains(" 0 differences"), "{out}");
    assert_eq!(before.changes().expect("looked"), Vec::<String>::new());
}

#[test]
fn verify_in_json_gives_an_object_for_each_session_and_a_summary() {
    let (_folder, session) = copy("one-branch.jsonl");
    let output = forkline(&["verify", text(&session), "--json", "--engines", "memory,jsonl"]);
    check_status(&output, 0);
    let lines: Vec<Value> = stdout(&output)
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line is an object"))
        .collect();
    let [row, summary] = lines.as_slice() else { panic!("two lines: {lines:?}") };
    assert_eq!((&row["type"], &row["session"]), (&"session".into(), &"one-branch".into()));
    assert_eq!((&row["result"], &row["entries"]), (&"holds".into(), &6.into()));
    assert_eq!((&summary["type"], &summary["differences"]), (&"summary".into(), &0.into()));
    assert_eq!(row["forks"], summary["forks"]);
    // Tree, seven on the lane, an unknown branch: into two engines; then two forks between all
    // pairs.
    assert_eq!(summary["forks"], 8 * 2 + 2 * 4);
}

#[test]
fn verify_of_each_damaged_file_says_whether_and_where_it_is_corrupt() {
    let (mut sound, mut corrupt) = (0, 0);
    for file in files(&damaged(), ".jsonl") {
        if text(&file).contains(".fork-") || text(&file).contains(".after-open") {
            continue;
        }
        let output = forkline(&["verify", text(&file), "--quiet", "--engines", "jsonl"]);
        match jsonl::read(&bytes(&file)) {
            Ok(_) => {
                check_status(&output, 0);
                sound += 1;
            }
            Err(damage) => {
                check_status(&output, 1);
                let line = damage.line.expect("files have lines");
                let expected = format!("corrupt: {} line {line}: ", file.display());
                assert!(stdout(&output).starts_with(&expected), "{}", stdout(&output));
                corrupt += 1;
            }
        }
    }
    assert!(sound >= 25 && corrupt >= 54, "{sound} sound, {corrupt} corrupt");
}

#[test]
fn only_one_fork_is_checked_where_only_one_is_asked_for() {
    let (_folder, session) = copy("one-branch.jsonl");
    let session = text(&session);
    let only = ["verify", session, "--json", "--engines", "jsonl", "--only"];
    let output = forkline(&[&only[..], &["branch \"main\" before its tip"]].concat());
    check_status(&output, 0);
    assert!(stdout(&output).contains("\"forks\":1,"), "{}", stdout(&output));
    check_status(&forkline(&[&only[..], &["branch \"nobody\""]].concat()), 2);
}

#[test]
fn a_wrong_call_is_told_from_a_violation() {
    let (folder, session) = copy("one-branch.jsonl");
    let notes = folder.path().join("notes.txt");
    fs::write(&notes, "no session").expect("written");
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).expect("made");
    for arguments in [
        &["verify"][..],
        &["verify", "no/such/file"],
        &["verify", text(&notes)],
        &["verify", text(&empty)],
        &["verify", text(&session), "--engines", "paper"],
        &["fork", text(&session), "--into", "jsonl:x"],
        &["fork", text(&session), "--scope", "branch", "--into", "jsonl:x"],
        &["fork", text(&session), "--scope", "tree"],
        &["fork", text(&session), "--scope", "tree", "--branch", "main", "--into", "jsonl:x"],
        &["fork", text(&session), "--scope", "tree", "--into", "paper:x"],
        &["unknown"],
    ] {
        let output = forkline(arguments);
        check_status(&output, 2);
        assert!(!stderr(&output).is_empty() && stdout(&output).is_empty(), "{arguments:?}");
    }
    let output = forkline(&["fork", text(&session), "--scope", "tree"]);
    assert!(stderr(&output).contains("--into is missing"), "{}", stderr(&output));
    assert!(stderr(&output).contains("Examples:"), "{}", stderr(&output));
}

#[test]
fn every_help_has_examples() {
    for command in ["verify", "fork"] {
        let output = forkline(&[command, "--help"]);
        check_status(&output, 0);
        assert!(stdout(&output).contains("Examples:"), "{}", stdout(&output));
    }
}

#[test]
fn fork_prints_the_new_id_and_the_path_of_what_it_made() {
    let (folder, session) = copy("lanes-and-data-branch.jsonl");
    let before = Snapshot::take(&session).expect("looked");
    let into = tempfile::tempdir().expect("a temporary folder");
    let place = format!("jsonl:{}", into.path().display());
    let arguments = ["fork", text(&session), "--scope", "tree", "--into", &place, "--id", "mine"];
    let output = forkline(&arguments);
    check_status(&output, 0);
    let out = stdout(&output);
    assert!(out.contains("session  mine\n"), "{out}");
    let path = out.lines().find_map(|line| line.strip_prefix("path     ")).expect("a path");
    let made = jsonl::read(&bytes(Path::new(path))).expect("a sound fork").state;
    assert_eq!(made.metadata().id.as_str(), "mine");
    assert!(out.contains(&format!("copied   {} entries", made.entries().len())), "{out}");
    assert_eq!(before.changes().expect("looked"), Vec::<String>::new());

    let again = forkline(&arguments);
    check_status(&again, 2);
    assert!(stderr(&again).contains("exists"), "{}", stderr(&again));
    drop(folder);
}

#[test]
fn fork_crosses_formats_there_and_back() {
    let (folder, session) = copy("lanes-and-data-branch.jsonl");
    let container = folder.path().join("all.sqlite");
    let shared = format!("sqlite-shared:{}", container.display());
    let lane = ["fork", text(&session), "--scope", "branch", "--branch", "review", "--json"];
    for id in ["one", "two"] {
        check_status(&forkline(&[&lane[..], &["--id", id, "--into", &shared]].concat()), 0);
    }
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let held = sqlite::read(&container, scratch.path()).expect("a container");
    assert_eq!(held.iter().map(|session| &*session.id).collect::<Vec<_>>(), ["one", "two"]);

    let back = format!("jsonl:{}", scratch.path().display());
    let tree = ["fork", text(&container), "--scope", "tree", "--json", "--into", &back];
    let several = forkline(&tree);
    check_status(&several, 2);
    assert!(stderr(&several).contains("name one with --session"), "{}", stderr(&several));
    let homeless = forkline(&[&tree[..], &["--session", "two"]].concat());
    check_status(&homeless, 2);
    assert!(stderr(&homeless).contains("--cwd"), "{}", stderr(&homeless));
    let output = forkline(&[&tree[..], &["--session", "two", "--cwd", "/work"]].concat());
    check_status(&output, 0);
    let report: Value = serde_json::from_str(stdout(&output)).expect("an object");
    let path = report["path"].as_str().expect("a path");
    let made = jsonl::read(&bytes(Path::new(path))).expect("a sound fork").state;
    let there = held.into_iter().nth(1).expect("two").content.expect("sound").state;
    assert_eq!(made.entries(), there.entries());
    assert_eq!(report["parentSessionId"], "two");
    assert_eq!(made.metadata().cwd.as_deref(), Some("/work"));
}

#[test]
fn a_working_directory_that_would_be_passed_over_is_refused() {
    let (_folder, session) = copy("one-branch.jsonl");
    let into = tempfile::tempdir().expect("a temporary folder");
    let place = |kind: &str| format!("{kind}:{}", into.path().join("new").display());
    let tree = ["fork", text(&session), "--scope", "tree", "--into"];
    for (kind, expected) in [
        ("jsonl", "the fork keeps that of its source, /workspace/demo"),
        ("sqlite", "a container has no place for one"),
        ("sqlite-shared", "a container has no place for one"),
    ] {
        let output = forkline(&[&tree[..], &[&place(kind), "--cwd", "/other"]].concat());
        check_status(&output, 2);
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
        assert!(stderr(&output).contains("leave --cwd out"), "{}", stderr(&output));
    }
    assert_eq!(fs::read_dir(into.path()).expect("a folder").count(), 0);
    // What is so anyway may be said.
    let place = place("jsonl");
    let same = forkline(&[&tree[..], &[&place, "--cwd", "/workspace/demo"]].concat());
    check_status(&same, 0);
}

#[test]
fn a_folder_of_temporary_files_that_is_not_there_is_named() {
    let (folder, session) = copy("one-branch.jsonl");
    let missing = folder.path().join("missing");
    let into = format!("jsonl:{}", folder.path().join("new").display());
    for arguments in [
        &["fork", text(&session), "--scope", "tree", "--into", &into][..],
        &["verify", text(&session)],
    ] {
        let mut run = Command::new(env!("CARGO_BIN_EXE_forkline"));
        let output = run.args(arguments).env("TMPDIR", &missing).output();
        let output = output.expect("the command can be run");
        check_status(&output, 2);
        assert!(stderr(&output).contains(text(&missing)), "{}", stderr(&output));
        assert!(!stderr(&output).contains(text(&session)), "{}", stderr(&output));
    }
    assert!(!folder.path().join("new").exists());
}

#[test]
fn a_refused_fork_says_what_to_do_and_leaves_nothing() {
    let (_folder, session) = copy("lanes-and-data-branch.jsonl");
    let into = tempfile::tempdir().expect("a temporary folder");
    let place = format!("sqlite:{}", into.path().display());
    for (branch, expected) in [("notes", "not a configured lane"), ("nobody", "unknown branch")] {
        let lane = ["--scope", "branch", "--branch", branch, "--into", &place];
        let output = forkline(&[&["fork", text(&session)][..], &lane].concat());
        check_status(&output, 2);
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
        assert!(stderr(&output).contains("--scope tree"), "{}", stderr(&output));
    }
    assert_eq!(fs::read_dir(into.path()).expect("a folder").count(), 0);
}

#[test]
fn verify_takes_legacy_files_and_says_what_was_imported() {
    let (folder, session) = copy_of("pi-v3/every-record-type.jsonl");
    let before = Snapshot::take(&session).expect("looked");
    let output = forkline(&["verify", text(&session), "--json", "--engines", "jsonl,sqlite"]);
    check_status(&output, 0);
    let row: Value = stdout(&output)
        .lines()
        .next()
        .map(serde_json::from_str)
        .expect("a row")
        .expect("an object");
    assert_eq!((&row["format"], &row["result"]), (&"legacy v3".into(), &"holds".into()), "{row}");
    let records = bytes(&session).split(|&byte| byte == b'\n').count() - 2;
    assert_eq!(row["records"], records, "{row}");
    assert!(row["forks"].as_u64().is_some_and(|forks| forks > 20), "{row}");
    assert_eq!(before.changes().expect("looked"), Vec::<String>::new());
    drop(folder);
}

/// The path of a parent is relative to the folder of the session, not to that of a copy.
#[test]
fn verify_finds_the_parents_of_legacy_files() {
    for (name, parent) in [("parent-v3", "the-v3-parent"), ("parent-v4", "the-v4-parent")] {
        let path = fixture(&format!("pi-v3/{name}.jsonl"));
        let at = forkline_engines::jsonl::session_at(&path).expect("it has a header");
        let found = at.metadata.parent_session_id.as_ref().map(SessionId::as_str);
        assert_eq!(found, Some(parent));
        check_status(&forkline(&["verify", text(&path), "--engines", "memory"]), 0);
    }
}

#[test]
fn fork_of_a_legacy_file_takes_the_ids_in_it() {
    let (_folder, session) = copy_of("real/v3-zig-small.jsonl");
    let records = String::from_utf8(bytes(&session)).expect("text");
    let records: Vec<Value> =
        records.lines().map(|line| serde_json::from_str(line).expect("a record")).collect();
    let message = records.iter().find(|record| record["type"] == "message").expect("one");
    let id = message["id"].as_str().expect("an id");
    let into = tempfile::tempdir().expect("a temporary folder");
    let place = format!("sqlite:{}", into.path().display());
    let lane = ["--scope", "branch", "--branch", "main", "--into", &place, "--json"];
    let fork = [&["fork", text(&session)][..], &lane].concat();
    let output = forkline(&[&fork[..], &["--entry", id]].concat());
    check_status(&output, 0);
    let report: Value = serde_json::from_str(stdout(&output)).expect("an object");
    assert_eq!(report["entries"], 1, "{report}");
    let container = Path::new(report["path"].as_str().expect("a path"));
    let held = sqlite::read(container, into.path()).expect("a container");
    let state = &held[0].content.as_ref().expect("sound").state;
    let made = &state.entries().values().next().expect("one").id;
    assert_ne!(made.as_str(), id, "the fork has ids of its own");

    let unstable = forkline(&[&fork[..], &["--entry", made.as_str()]].concat());
    check_status(&unstable, 2);
    assert!(stderr(&unstable).contains("not on"), "{}", stderr(&unstable));
}

#[test]
fn damaged_files_are_refused_whole_or_salvaged_when_asked() {
    let (_folder, legacy) = copy_of("damaged/real/v1-pi-mono-glued-line-6.jsonl");
    let (_other, current) = copy_of("damaged/null-line.jsonl");
    for (path, refusal, salvaged, finding) in [
        (&legacy, "line 6: is not one JSON object", "salvaged 10 of 10 records", "line 6 split: "),
        (&current, "line 3: ", "salvaged 7 of 8 records", "line 3 skipped: "),
    ] {
        let before = Snapshot::take(path).expect("looked");
        let refused = forkline(&["verify", text(path), "--quiet"]);
        check_status(&refused, 1);
        let expected = format!("corrupt: {} {refusal}", path.display());
        assert!(stdout(&refused).starts_with(&expected), "{}", stdout(&refused));
        let held = forkline(&["verify", text(path), "--salvage", "--engines", "memory,jsonl"]);
        check_status(&held, 0);
        for part in [salvaged, finding, "1 sessions, ", " 0 differences, 0 corrupt"] {
            assert!(stdout(&held).contains(part), "{part}: {}", stdout(&held));
        }

        let into = tempfile::tempdir().expect("a temporary folder");
        let place = format!("jsonl:{}", into.path().display());
        let tree = ["fork", text(path), "--scope", "tree", "--into", &place];
        check_status(&forkline(&tree), 2);
        let forked = forkline(&[&tree[..], &["--salvage"]].concat());
        check_status(&forked, 0);
        let out = stdout(&forked);
        assert!(out.contains(salvaged) && out.contains(finding), "{out}");
        let made = out.lines().find_map(|line| line.strip_prefix("path     ")).expect("a path");
        let made = jsonl::read(&bytes(Path::new(made))).expect("a sound fork").state;
        let told = made.entries().values().next_back().and_then(|entry| entry.custom_type.clone());
        assert_eq!(told.as_ref().map(TypeName::as_str), Some("forkline.salvage"));
        let json = forkline(&[&tree[..], &["--salvage", "--json"]].concat());
        let report: Value = serde_json::from_str(stdout(&json)).expect("an object");
        assert!(report["salvage"]["skipped"].as_u64().is_some_and(|lost| lost < 2), "{report}");
        assert_eq!(report["salvage"]["findings"].as_array().map(Vec::len), Some(1), "{report}");
        assert_eq!(before.changes().expect("looked"), Vec::<String>::new());
    }
}

#[test]
fn all_damaged_files_that_have_a_header_are_salvaged_as_the_plain_readers_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("damaged");
    let json = ["--salvage", "--json", "--engines", "memory"];
    let output = forkline(&[&["verify", text(&folder)][..], &json].concat());
    // What is wrong with a header cannot be salvaged.
    check_status(&output, 1);
    let rows = stdout(&output).lines().map(|line| serde_json::from_str(line).expect("an object"));
    let (mut salvaged, mut corrupt) = (0, 0);
    for row in rows.filter(|row: &Value| row["type"] == "session") {
        assert_ne!(row["result"], "differs", "{row}");
        salvaged += u32::from(row["result"] == "salvaged");
        if row["result"] == "corrupt" {
            assert_eq!(row["line"], 1, "{row}");
            corrupt += 1;
        }
    }
    assert!(salvaged >= 40 && corrupt >= 10, "{salvaged} salvaged, {corrupt} corrupt");
}

#[test]
fn a_closed_pipe_ends_a_command_without_a_word() {
    let (_folder, session) = copy("one-branch.jsonl");
    for arguments in [&["self-test", "--list"][..], &["verify", text(&session)]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut run = Command::new(env!("CARGO_BIN_EXE_forkline"));
        let output = run.args(arguments).stdout(writer).output().expect("the command can be run");
        check_status(&output, 2);
        assert_eq!(stderr(&output), "");
    }
}
