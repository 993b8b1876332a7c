//! How a fork writes its file: its bytes whichever way they came, in few writes, synced before it
//! has a name; and which entry of a damaged file is named.
//!
//! States do not tell these apart: a file that is synced too late, written a row at a time, or
//! re-spelled reads back the same.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use forkline_engines::fork::{Plan, Row, Source};
use forkline_engines::fs::{FailingFs, Fault};
use forkline_engines::{
    Context, CreateOptions, Error, JsonlRepo, MemoryRepo, Repo, RepoOptions, Result, SessionRef,
    SyncCommits, transfer,
};
use forkline_model::{
    BranchName, ErrorKind, ForkOptions, Json, LaneAudit, Metadata, SessionId, Write,
};

/// Two spellings of everything: white space, escapes, the order of members, members that repeat.
const LINES: &str = concat!(
    r#"{ "kind" : "value", "op":"set","seq":1,"namespace":"pi.lane.config","key":"ma\u0069n","value":{ } }"#,
    "\n",
    r#"[{"seq":2,"op":"set","kind":"value","key":"main","namespace":"pi.lane.state","value":{"a":1}},"#,
    r#" {"kind":"entry","timestamp":5,"seq":3,"type":"message","message":{"x": "\u0041"},"id":"e1","parentId":null},"#,
    r#" {"kind":"list","op":"append","seq":4,"namespace":"app","key":"l","value":1.10}]"#,
    "\n",
    r#"{"kind":"entry","parentId":"e\u0031","id":"e0","id":"e2","type":"odd","x":[1 ,2],"seq":5,"timestamp":6}"#,
    "\n",
    r#"{"kind":"value","op":"set","seq":6,"namespace":"pi.branch.tip","key":"main","value":"e2"}"#,
    "\n",
    r#"{"kind":"value","op":"set","seq":7,"namespace":"app","key":"k","value":"\u0041"}"#,
    "\n",
);

fn id(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}

fn cx() -> Context {
    Context::new()
}

/// A session file of these lines.
fn write_file(root: &Path, lines: &str) {
    let folder = root.join("--demo--");
    fs::create_dir_all(&folder).unwrap();
    let header =
        r#"{"v":4,"kind":"header","id":"source","storageVersion":1,"createdAt":1,"cwd":"/demo"}"#;
    fs::write(folder.join("source.jsonl"), format!("{header}\n{lines}")).unwrap();
}

fn lines_of(at: &SessionRef) -> String {
    let text = fs::read_to_string(at.path().unwrap()).unwrap();
    text.split_once('\n').unwrap().1.to_owned()
}

/// A source that does not say that it is a file of lines.
struct RowByRow(Box<dyn Source>);

impl Source for RowByRow {
    fn metadata(&self) -> &Metadata {
        self.0.metadata()
    }

    fn plan(&mut self, options: &ForkOptions, audit: LaneAudit, cx: &Context) -> Result<Plan> {
        self.0.plan(options, audit, cx)
    }

    fn stream(&mut self, sink: &mut dyn FnMut(Row<'_>) -> Result<()>, cx: &Context) -> Result<()> {
        self.0.stream(sink, cx)
    }
}

#[test]
fn a_fork_is_the_sources_bytes_line_by_line_and_row_by_row() {
    let root = tempfile::tempdir().unwrap();
    write_file(root.path(), LINES);
    let repo = JsonlRepo::open(root.path()).unwrap();
    let source = repo.find(&id("source"), &cx()).unwrap();
    let branch = ForkOptions::branch(BranchName::new("main").unwrap());
    for options in [ForkOptions::tree(), branch.clone(), branch.before_tip()] {
        let direct = repo.fork_closed_unopened(&source, &options, &cx()).unwrap();
        let mut rows = RowByRow(repo.capture(&source, &cx()).unwrap());
        let plan = rows.plan(&options, LaneAudit::Selected, &cx()).unwrap();
        let metadata = Metadata { id: id("rows"), ..direct.reference.metadata.clone() };
        let mut destination = repo.stage(&metadata, &cx()).unwrap();
        let copied = destination.fill(&mut rows, plan, &cx()).unwrap();
        let there = destination.publish(&cx()).unwrap();
        assert_eq!(copied, direct.copied);
        let lines = lines_of(&direct.reference);
        assert_eq!(lines_of(&there), lines);
        // What is not rewritten is there in its own spelling.
        assert!(lines.contains(r#"{ "kind" : "value", "op":"set","seq":1,"#), "{lines}");
        assert!(lines.contains(r#""id":"e1","parentId":null}"#), "{lines}");
        repo.delete(&there, &cx()).unwrap();
    }
}

/// The file names an entry that cannot be; the refusal names it, and what is wrong with it.
#[test]
fn the_first_damaged_entry_is_named() {
    let entry = |id: &str, parent: &str, seq: u64| {
        format!(
            r#"{{"kind":"entry","id":"{id}","parentId":{parent},"type":"message","message":{{}},"seq":{seq},"timestamp":5}}"#
        )
    };
    let lane = |seq: u64, tip: &str| {
        [("pi.lane.config", "{}"), ("pi.lane.state", "{}"), ("pi.branch.tip", tip)]
            .iter()
            .zip(seq..)
            .map(|((namespace, value), seq)| {
                format!(
                    r#"{{"kind":"value","op":"set","seq":{seq},"namespace":"{namespace}","key":"main","value":{value}}}"#
                )
            })
            .collect::<Vec<_>>()
            .join("\n")
    };
    let missing = r#"entry "b" has a missing parent "x""#;
    let twice = r#"duplicate entry or usage id "b""#;
    for (entries, line, of_tree, of_branch) in [
        (vec![entry("b", r#""x""#, 1)], 2, missing, missing),
        (
            vec![entry("a", "null", 1), entry("b", r#""x""#, 2), entry("x", "null", 3)],
            3,
            missing,
            missing,
        ),
        (vec![entry("b", "null", 1), entry("b", "null", 2)], 3, twice, twice),
        // Both at once: a branch fork meets the parent first.
        (
            vec![entry("b", "null", 1), entry("b", r#""x""#, 2), entry("c", r#""y""#, 3)],
            3,
            twice,
            missing,
        ),
        (
            vec![entry("a", "null", 1), entry("b", r#""x""#, 2), entry("a", "null", 3)],
            3,
            missing,
            missing,
        ),
    ] {
        let root = tempfile::tempdir().unwrap();
        let next = entries.len() as u64 + 1;
        write_file(root.path(), &format!("{}\n{}\n", entries.join("\n"), lane(next, r#""b""#)));
        let repo = JsonlRepo::open(root.path()).unwrap();
        let source = repo.find(&id("source"), &cx()).unwrap();
        let branch = ForkOptions::branch(BranchName::new("main").unwrap());
        for (options, reason) in [(ForkOptions::tree(), of_tree), (branch, of_branch)] {
            let refused = repo.fork_closed_unopened(&source, &options, &cx()).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::CorruptSource, "{refused}");
            let text = refused.chain();
            assert!(text.contains(reason), "{text}");
            assert!(text.contains(&format!("line {line}")), "{text}");
        }
    }
}

fn repo_on(root: &Path, fs: &FailingFs, sync_commits: SyncCommits) -> JsonlRepo {
    let options = RepoOptions { sync_commits, ..RepoOptions::default() };
    JsonlRepo::with_fs(root, options, Arc::new(fs.clone())).unwrap()
}

/// A fork survives a power loss once it has a name; a creation does if commits do.
#[test]
fn a_file_is_synced_before_it_has_a_name_and_its_folder_after() {
    for sync_commits in [SyncCommits::Yes, SyncCommits::No] {
        let root = tempfile::tempdir().unwrap();
        let fs = FailingFs::new();
        let repo = repo_on(root.path(), &fs, sync_commits);
        let synced = |log: &[&'static str]| {
            let named = log.iter().position(|step| *step == "rename_new").unwrap();
            (log[..named].contains(&"sync"), log[named..].contains(&"sync_dir"))
        };
        fs.arm(None);
        let session = repo.create(&CreateOptions::new("/demo"), &cx()).unwrap();
        let is_synced = sync_commits == SyncCommits::Yes;
        assert_eq!(synced(&fs.log()), (is_synced, is_synced), "{sync_commits:?}");
        fs.arm(None);
        repo.fork_unopened(&session, &ForkOptions::tree(), &cx()).unwrap();
        assert_eq!(synced(&fs.log()), (true, true), "{sync_commits:?}");
    }
}

/// Somebody else takes the name between the last look and the step that gives it.
#[test]
fn a_name_that_is_taken_at_the_last_moment_is_a_session_that_exists() {
    const EEXIST: i32 = 17;
    let root = tempfile::tempdir().unwrap();
    let fs = FailingFs::new();
    let repo = repo_on(root.path(), &fs, SyncCommits::No);
    let session = repo.create(&CreateOptions::new("/demo"), &cx()).unwrap();
    let fork = || repo.fork_unopened(&session, &ForkOptions::tree(), &cx());
    fs.arm(None);
    fork().unwrap();
    let log = fs.log();
    for (at, step) in (0..).zip(&log) {
        if *step != "rename_new" && *step != "append" {
            continue;
        }
        fs.arm(Some(Fault::once(at, EEXIST)));
        let kind = fork().map_err(|error| error.kind()).map(drop);
        let expected = match *step {
            "rename_new" => ErrorKind::SessionExists,
            _ => ErrorKind::NotCommitted,
        };
        assert_eq!(kind, Err(expected), "{step}");
    }
    assert!(log.contains(&"rename_new") && log.contains(&"append"), "{log:?}");
}

/// Rows are gathered: neither a write for each nor all of them at once.
#[test]
fn many_rows_take_few_writes_and_none_is_lost() -> Result<(), Error> {
    const BUFFER_BYTES: u64 = 256 * 1024;
    let root = tempfile::tempdir().unwrap();
    let fs = FailingFs::new();
    let repo = repo_on(root.path(), &fs, SyncCommits::No);
    let memory = MemoryRepo::new();
    let session = memory.create(&CreateOptions::new("/demo"), &cx())?;
    // Sizes around the buffer's, among many small ones.
    let sizes = [0, 1, 262_000, 262_100, 262_143, 262_144, 262_145, 300_000, 1_000_000];
    let mut writes = Vec::new();
    for size in sizes {
        for n in 0..1500 {
            let value = Json::parse(&format!("[{n}]")).unwrap();
            writes.push(Write::append("app", "small", value).unwrap());
        }
        let value = Json::string(&"x".repeat(size));
        writes.push(Write::append("app", "large", value).unwrap());
    }
    session.commit(&writes, &cx())?;
    session.close()?;
    let mut last = None;
    for n in 0..2 {
        fs.arm(None);
        let options = ForkOptions::tree().with_id(id(&format!("f{n}")));
        let from: &dyn Repo = if n == 0 { &memory } else { &repo };
        let at = last.as_ref().unwrap_or(session.reference());
        let made = transfer::fork_unopened(from, at, &repo, &options, &cx())?;
        let appends = fs.log().iter().filter(|step| **step == "append").count() as u64;
        let bytes = fs::metadata(made.reference.path().unwrap()).unwrap().len();
        let least = bytes / 1_100_000;
        // Around each large row a buffer may go half empty.
        let most = bytes / BUFFER_BYTES + 3 * sizes.len() as u64;
        assert!((least..=most).contains(&appends), "{appends} writes for {bytes} bytes");
        let lines = lines_of(&made.reference);
        let expected = (1..).zip(&writes).map(|(seq, write)| {
            let seq = forkline_model::Seq::new(seq).unwrap();
            write.to_jsonl(seq, forkline_model::Millis::EPOCH)
        });
        assert!(lines.lines().eq(expected), "the lines of fork {n}");
        last = Some(made.reference);
    }
    Ok(())
}
