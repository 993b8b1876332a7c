//! The heap bound of a JSONL fork, seen by a second instrument than the counting allocator of the
//! engines' own tests: dhat counts every block, and in a failing run says which ones they are.
//! One test in this file, since there is one profiler in a process.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use forkline_engines::{Context, JsonlRepo, ListFilter, Repo};
use forkline_model::{BranchName, ForkOptions};

#[global_allocator]
static HEAP: dhat::Alloc = dhat::Alloc;

/// Bytes of heap that a JSONL fork may take, whatever the source (architecture, "What may cost
/// what").
const BOUND: usize = 8 * 1024 * 1024;

const ENTRIES: u64 = 30_000;

/// A complete lane with a chain of entries.
fn write_session(root: &Path) {
    let folder = root.join("--demo--");
    std::fs::create_dir_all(&folder).unwrap();
    let file = File::create(folder.join("2023-11-14T22-13-20-000Z_s.jsonl")).unwrap();
    let mut out = BufWriter::new(file);
    let header =
        r#"{"v":4,"kind":"header","id":"s","storageVersion":1,"createdAt":1,"cwd":"/demo"}"#;
    writeln!(out, "{header}").unwrap();
    let mut seq = 0;
    let mut set = |out: &mut BufWriter<File>, namespace: &str, value: &str| {
        seq += 1;
        let head = format!(r#"{{"kind":"value","op":"set","seq":{seq},"namespace":"{namespace}""#);
        writeln!(out, r#"{head},"key":"main","value":{value}}}"#).unwrap();
        seq
    };
    set(&mut out, "pi.lane.config", "{}");
    set(&mut out, "pi.lane.state", "{}");
    let last = set(&mut out, "pi.branch.tip", &format!("\"e{}\"", ENTRIES - 1));
    for n in 0..ENTRIES {
        let parent = n.checked_sub(1).map_or("null".to_owned(), |parent| format!("\"e{parent}\""));
        let head = format!(r#"{{"kind":"entry","id":"e{n}","parentId":{parent},"type":"message""#);
        let message = r#""message":{"role":"user","content":"a few words"}"#;
        let seq = last + 1 + n;
        writeln!(out, r#"{head},{message},"seq":{seq},"timestamp":1}}"#).unwrap();
    }
    out.flush().unwrap();
}

#[test]
fn forks_of_a_long_session_stay_within_their_bound() {
    let folder = tempfile::tempdir().unwrap();
    write_session(folder.path());
    let _profiler = dhat::Profiler::builder().testing().build();
    let cx = Context::new();
    let repo = JsonlRepo::open(folder.path()).unwrap();
    let source = repo.list(&ListFilter::default(), &cx).unwrap().remove(0);
    let main = BranchName::new("main").unwrap();
    for options in [ForkOptions::tree(), ForkOptions::branch(main)] {
        let forked = repo.fork_closed_unopened(&source, &options, &cx).unwrap();
        assert_eq!(forked.copied.entries, ENTRIES);
    }
    let peak = dhat::HeapStats::get().max_bytes;
    dhat::assert!(peak <= BOUND, "{peak} bytes");
    // The instrument counts at all: one buffer is larger than this.
    dhat::assert!(peak > 64 * 1024, "{peak} bytes");
}
