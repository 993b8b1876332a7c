//! What a person may point the command at by mistake: pipes, damaged first lines in a folder,
//! newer versions. Each is named, nothing hangs, and a refused fork leaves no folder behind.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use forkline_gate::fixtures::{bytes, fixtures};

fn forkline(arguments: &[&str]) -> Output {
    let run = Command::new(env!("CARGO_BIN_EXE_forkline")).args(arguments).output();
    run.expect("the command can be run")
}

/// The exit status, and all that was printed.
fn said(output: &Output) -> (Option<i32>, String) {
    let text = [&output.stdout, &output.stderr].map(|part| String::from_utf8_lossy(part));
    (output.status.code(), text.concat())
}

fn session() -> Vec<u8> {
    bytes(&fixtures().join("pi-0.87.1/one-branch.jsonl"))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are text")
}

#[test]
fn a_damaged_first_line_in_a_folder_is_named_and_not_passed_over() {
    let good = session();
    let quote_missing = String::from_utf8(good.clone()).unwrap().replacen("\"v\"", "\"v", 1);
    let long = String::from_utf8(good.clone()).unwrap();
    let long = long.replacen("{\"v\"", &format!("{{\"x\":\"{}\",\"v\"", "q".repeat(3 << 20)), 1);
    let damaged: [(&str, Vec<u8>); 6] = [
        ("empty.jsonl", Vec::new()),
        ("newlines.jsonl", b"\n\n".to_vec()),
        ("blank-first.jsonl", [b"\n", &good[..]].concat()),
        ("nul.jsonl", [b"\0", &good[..]].concat()),
        ("quote.jsonl", quote_missing.into_bytes()),
        ("long.jsonl", long.into_bytes()),
    ];
    for (name, content) in damaged {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("good.jsonl"), &good).unwrap();
        let file = folder.path().join(name);
        fs::write(&file, content).unwrap();
        fs::write(folder.path().join("notes.txt"), "no session").unwrap();
        let verify = ["verify", "--engines", "memory,jsonl", text(folder.path())];
        let (status, verified) = said(&forkline(&verify));
        assert_eq!(status, Some(1), "{name}: {verified}");
        assert!(verified.contains("1 corrupt"), "{name}: {verified}");
        assert!(verified.contains("0 differences"), "{name}: {verified}");

        let into = format!("jsonl:{}", text(&folder.path().join("into/deep")));
        let fork = ["fork", text(&file), "--scope", "tree", "--into", &into];
        let (status, forked) = said(&forkline(&fork));
        assert_eq!(status, Some(2), "{name}: {forked}");
        assert!(forked.contains("line 1: "), "{name}: {forked}");
        assert!(!folder.path().join("into").exists(), "{name} left a folder");
    }
}

#[test]
fn a_pipe_is_refused_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.jsonl");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for arguments in [
        vec!["verify", text(&pipe)],
        vec!["fork", text(&pipe), "--scope", "tree", "--into", "jsonl:unused"],
    ] {
        let (status, said) = said(&forkline(&arguments));
        assert_eq!(status, Some(2), "{said}");
        assert!(said.contains("neither a file nor a folder"), "{said}");
    }
}

#[test]
fn a_newer_storage_version_is_called_that_and_not_damage() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("newer.jsonl");
    let newer = String::from_utf8(session()).unwrap();
    fs::write(&file, newer.replacen("\"storageVersion\":1", "\"storageVersion\":2", 1)).unwrap();
    let into = format!("jsonl:{}", text(&folder.path().join("into")));
    let (status, forked) =
        said(&forkline(&["fork", text(&file), "--scope", "tree", "--into", &into]));
    assert_eq!(status, Some(2), "{forked}");
    assert!(forked.contains("unsupported version"), "{forked}");

    let container = folder.path().join("newer.sqlite");
    fs::write(&container, bytes(&fixtures().join("pi-0.87.1/one-branch.sqlite"))).unwrap();
    let sql = "UPDATE sessions SET storage_version = 3";
    rusqlite::Connection::open(&container).unwrap().execute(sql, []).unwrap();
    let (status, forked) =
        said(&forkline(&["fork", text(&container), "--scope", "tree", "--into", &into]));
    assert_eq!(status, Some(2), "{forked}");
    assert!(forked.contains("unsupported version"), "{forked}");
}
