//! Where the folder of temporary files cannot be written, the error names that folder and not
//! the session that was read: who reads it has to make room there.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use forkline_engines::{
    Context, Error, JsonlRepo, ListFilter, MemoryRepo, Repo, RepoOptions, SessionRef, transfer,
};
use forkline_model::ForkOptions;
use tempfile::TempDir;

const HEADER: &str =
    r#"{"v":4,"kind":"header","id":"s","storageVersion":1,"createdAt":5,"cwd":"/w"}"#;

/// A repository that holds one file, and whose folder of temporary files is not there.
fn with_file(text: &str) -> (TempDir, JsonlRepo, SessionRef, PathBuf) {
    let root = tempfile::tempdir().expect("a temporary folder");
    let folder = root.path().join("--w--");
    fs::create_dir(&folder).expect("a new folder");
    fs::write(folder.join("x_s.jsonl"), text).expect("it is written");
    let scratch = root.path().join("not there");
    let options = RepoOptions { scratch: Some(scratch.clone()), ..RepoOptions::default() };
    let repo = JsonlRepo::with(root.path(), options).expect("a root");
    let found = repo.list(&ListFilter::default(), &Context::new()).expect("it can be read");
    let at = found.into_iter().next().expect("it is listed");
    (root, repo, at, scratch)
}

fn check<T>(result: Result<T, Error>, scratch: &Path, source: &SessionRef) {
    let error = result.map(|_| ()).expect_err("temporary files cannot be made");
    assert!(matches!(&error, Error::Io { path, .. } if path == scratch), "{error:?}");
    let source = source.path().expect("a file").display().to_string();
    assert!(!error.chain().contains(&source), "{}", error.chain());
}

#[test]
fn a_salvage_names_the_folder_of_temporary_files() {
    let (_root, repo, at, scratch) = with_file(&format!("{HEADER}\nnull\n"));
    let into = MemoryRepo::new();
    check(repo.salvage(&at, &into, &ForkOptions::tree(), &Context::new()), &scratch, &at);
    let nothing = into.list(&ListFilter::default(), &Context::new()).expect("it can be read");
    assert_eq!(nothing, []);
}

#[test]
fn an_opened_legacy_session_names_the_folder_of_temporary_files() {
    let text = "{\"type\":\"session\",\"version\":3,\"id\":\"s\",\
                \"timestamp\":\"2024-03-01\",\"cwd\":\"/w\"}\n";
    let (_root, repo, at, scratch) = with_file(text);
    check(repo.open(&at, &Context::new()), &scratch, &at);
    // A fork of the same file needs none: its index is in memory.
    let forked =
        transfer::fork(&repo, &at, &MemoryRepo::new(), &ForkOptions::tree(), &Context::new());
    assert!(forked.is_ok());
}

/// An index that leaves the memory, of both formats.
#[test]
fn a_fork_that_spills_names_the_folder_of_temporary_files() {
    let mut current = format!("{HEADER}\n");
    for seq in 1..=90_000 {
        writeln!(
            current,
            r#"{{"kind":"value","op":"delete","seq":{seq},"namespace":"a","key":""}}"#
        )
        .expect("a String");
    }
    let mut legacy = "{\"type\":\"session\",\"id\":\"s\",\"timestamp\":\"2024-03-01\",\
                      \"cwd\":\"/w\"}\n"
        .to_owned();
    for _ in 0..40_000 {
        legacy.push_str("{\"type\":\"usage\"}\n");
    }
    for text in [current, legacy] {
        let (_root, repo, at, scratch) = with_file(&text);
        let into = MemoryRepo::new();
        let tree = ForkOptions::tree();
        check(transfer::fork(&repo, &at, &into, &tree, &Context::new()), &scratch, &at);
    }
}
