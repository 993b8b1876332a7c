//! A fork of a JSONL session needs 8 MiB of heap, whatever the session (architecture.md, "What
//! may cost what").
//!
//! What goes wrong otherwise: something is kept for each entry, each address or each byte of a
//! line, and a large session takes the machine down. The counting allocator sees every Rust
//! allocation; nothing else is used here. One test, since the count is the process's.

#[path = "support/counting_alloc.rs"]
mod counting_alloc;

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;

use forkline_engines::{Context, Copied, JsonlRepo, ListFilter, Repo};
use forkline_model::{BranchName, ForkOptions, SessionId};

#[global_allocator]
static HEAP: counting_alloc::CountingAlloc = counting_alloc::CountingAlloc::new();

const BOUND: usize = 8 * 1024 * 1024;

/// What a source is made of.
struct Source {
    file: BufWriter<File>,
    seq: u64,
}

impl Source {
    fn new(root: &Path) -> Self {
        let folder = root.join("--demo--");
        fs::create_dir(&folder).unwrap();
        let mut file = BufWriter::new(File::create(folder.join("source.jsonl")).unwrap());
        let header =
            r#"{"v":4,"kind":"header","id":"s","storageVersion":1,"createdAt":1,"cwd":"/demo"}"#;
        writeln!(file, "{header}").unwrap();
        let mut source = Self { file, seq: 0 };
        source.set("pi.lane.config", "main", "{}", "\n");
        source.set("pi.lane.state", "main", "{}", "\n");
        source.set("pi.branch.tip", "main", "null", "\n");
        source
    }

    fn next(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    fn set(&mut self, namespace: &str, key: &str, value: &str, end: &str) {
        let seq = self.next();
        write!(
            self.file,
            r#"{{"kind":"value","op":"set","seq":{seq},"namespace":"{namespace}","key":"{key}","value":{value}}}{end}"#
        )
        .unwrap();
    }

    /// An entry and a tip that names it, in one line.
    fn message(&mut self, n: usize, content: &str) {
        let parent = n.checked_sub(1).map_or("null".to_owned(), |parent| format!("\"e{parent}\""));
        let seq = self.next();
        write!(
            self.file,
            r#"[{{"kind":"entry","id":"e{n}","parentId":{parent},"type":"message","message":{{"role":"user","content":"{content}"}},"seq":{seq},"timestamp":5}},"#
        )
        .unwrap();
        self.set("pi.branch.tip", "main", &format!("\"e{n}\""), "]\n");
    }
}

/// Makes a source, forks it, and tells what came over and how much heap that took.
fn fork(options: &ForkOptions, fill: impl FnOnce(&mut Source)) -> (Copied, usize) {
    let root = tempfile::tempdir().unwrap();
    let mut source = Source::new(root.path());
    fill(&mut source);
    source.file.flush().unwrap();
    drop(source);
    let repo = JsonlRepo::open(root.path()).unwrap();
    let cx = Context::new();
    let stored = repo.list(&ListFilter::default(), &cx).unwrap().remove(0);
    let options = options.clone().with_id(SessionId::new("fork").unwrap());
    let (forked, peak) =
        HEAP.peak_of(|| repo.fork_closed_unopened(&stored, &options, &cx).unwrap());
    (forked.copied, peak)
}

fn messages(count: usize) -> impl Fn(&mut Source) {
    move |source| (0..count).for_each(|n| source.message(n, "some hundred bytes, more or less"))
}

#[test]
fn heap_is_bounded_whatever_the_source() {
    let main = ForkOptions::branch(BranchName::new("main").unwrap());
    for (name, options) in [("tree", ForkOptions::tree()), ("branch", main)] {
        let mut peaks = Vec::new();
        for count in [1_000, 50_000, 100_000] {
            let (copied, peak) = fork(&options, messages(count));
            assert_eq!(copied.messages, count as u64);
            println!("{name} of {count} entries: {peak} bytes");
            assert!(peak <= BOUND, "{name} of {count} entries: {peak} bytes");
            peaks.push(peak);
        }
        // From the second on the budgets are full: what grows is a few bytes for each run.
        let [_, full, larger] = peaks.as_slice() else { panic!("three sizes") };
        assert!(*larger <= full + 512 * 1024, "{name}: {peaks:?}");
    }

    let (copied, peak) = fork(&ForkOptions::tree(), |source| {
        let content = "x".repeat(1 << 20);
        let seq = source.next();
        write!(
            source.file,
            r#"{{"kind":"entry","id":"e","parentId":null,"type":"message","message":""#
        )
        .unwrap();
        for _ in 0..64 {
            source.file.write_all(content.as_bytes()).unwrap();
        }
        writeln!(source.file, r#"","seq":{seq},"timestamp":5}}"#).unwrap();
    });
    println!("a line of 64 MiB: {peak} bytes");
    assert_eq!(copied.messages, 1);
    assert!(peak <= BOUND, "a line of 64 MiB: {peak} bytes");

    let (copied, peak) = fork(&ForkOptions::tree(), |source| {
        write!(source.file, "[").unwrap();
        for n in 0..100_000 {
            source.set("app", &format!("key {n}"), "[1,2,3]", ",");
        }
        source.set("app", "last", "0", "]\n");
    });
    println!("a commit of 100 001 addresses: {peak} bytes");
    assert_eq!(copied.values, 100_004);
    assert!(peak <= BOUND, "a commit of 100 001 addresses: {peak} bytes");
}
