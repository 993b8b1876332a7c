//! House rules that a reviewer would have to remember: sizes, headers of test files, which file
//! may touch the file system, and that every kind of error is produced by some test.

use std::fs;
use std::path::{Path, PathBuf};

const FILE_LINES_MAX: usize = 600;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The Rust files below a folder of the workspace, with their text.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let (mut found, mut folders) = (Vec::new(), vec![root().join(folder)]);
    while let Some(folder) = folders.pop() {
        for file in fs::read_dir(&folder).unwrap() {
            let path = file.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    assert!(!found.is_empty(), "{folder} holds no source files");
    found
}

#[test]
fn files_have_one_subject_and_say_which() {
    let folders = ["model/src", "model/tests", "engines/src", "engines/tests", "tests/src"];
    for folder in folders.into_iter().chain(["tests/tests", "benches/src", "benches/benches"]) {
        for (path, text) in sources(folder) {
            let lines = text.lines().count();
            assert!(lines <= FILE_LINES_MAX, "{} has {lines} lines", path.display());
            assert!(text.starts_with("//!"), "{} does not say what it is", path.display());
        }
    }
}

#[test]
fn only_named_files_of_the_engines_touch_the_file_system_directly() {
    // The trait's own files; SQLite, whose files only SQLite may open; temporary files that are
    // unlinked at once.
    let allowed = ["/fs/", "/sqlite/", "/spill/", "/jsonl/scratch.rs"];
    for (path, text) in sources("engines/src") {
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        let path = path.to_string_lossy();
        if allowed.iter().any(|part| path.contains(part)) {
            continue;
        }
        for banned in ["std::fs", "OpenOptions", "read_to_end", "read_to_string"] {
            assert!(!text.contains(banned), "{path} uses {banned}");
        }
    }
}

#[test]
fn libraries_neither_print_nor_panic_for_want_of_an_implementation() {
    for folder in ["model/src", "engines/src"] {
        for (path, text) in sources(folder) {
            for banned in ["println!", "eprintln!", "todo!", "unimplemented!", "#[allow("] {
                let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
                let found = code.filter(|line| line.contains(banned)).count();
                assert_eq!(found, 0, "{} uses {banned}", path.display());
            }
        }
    }
}

#[test]
fn every_error_kind_is_produced_by_some_test() {
    let text = fs::read_to_string(root().join("model/src/error.rs")).unwrap();
    let body = text.split("pub enum ErrorKind {").nth(1).unwrap().split("\n}").next().unwrap();
    let kinds: Vec<&str> = body
        .lines()
        .filter_map(|line| line.trim().strip_suffix(','))
        .filter(|name| name.chars().all(char::is_alphanumeric))
        .collect();
    assert!(kinds.len() > 20, "{kinds:?}");
    let mut tests = String::new();
    for folder in ["model/tests", "engines/tests", "tests/tests"] {
        for (_, text) in sources(folder) {
            tests.push_str(&text);
        }
    }
    for kind in kinds {
        let named = format!("ErrorKind::{kind}");
        let is_whole = |tail: &str| !tail.starts_with(|next: char| next.is_alphanumeric());
        let found = tests.match_indices(&named).any(|(at, _)| is_whole(&tests[at + named.len()..]));
        assert!(found, "no test names {named}");
    }
}
