//! The fork of a legacy session keeps to its bound of heap (architecture, "What may cost what").
//!
//! What goes wrong otherwise: a retained tail that is put together in memory. Here every
//! compaction keeps a fifth of the session, and the tails overlap, so that the destination is
//! several times as large as the source; the heap may not notice. A second session has many
//! small records whose parents stand anywhere, so that the index leaves the RAM.

#[path = "support/counting_alloc.rs"]
mod counting_alloc;

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;

use forkline_engines::{Context, JsonlRepo, ListFilter, Repo, RepoOptions, SessionRef};
use forkline_model::{BranchName, ForkOptions};

#[global_allocator]
static HEAP: counting_alloc::CountingAlloc = counting_alloc::CountingAlloc::new();

const MIB: usize = 1024 * 1024;

/// The bound of a JSONL fork.
const HEAP_BYTES_LIMIT: usize = 8 * MIB;

const HEADER: &str = "{\"type\":\"session\",\"version\":3,\"id\":\"legacy\",\
    \"timestamp\":\"2024-03-01T09:00:00.000Z\",\"cwd\":\"/w\"}\n\
    {\"type\":\"model_change\",\"id\":\"m\",\"parentId\":null,\"provider\":\"p\",\"modelId\":\"m\"}\n\
    {\"type\":\"thinking_level_change\",\"id\":\"t\",\"parentId\":\"m\",\"thinkingLevel\":\"off\"}\n";

const TIME: &str = "\"timestamp\":\"2024-03-01T09:00:00.000Z\"";

fn file_in(root: &Path) -> BufWriter<File> {
    let folder = root.join("--w--");
    fs::create_dir(&folder).expect("a new folder");
    let mut out = BufWriter::new(File::create(folder.join("x_legacy.jsonl")).expect("a new file"));
    out.write_all(HEADER.as_bytes()).expect("it is written");
    out
}

/// Messages of 4 KiB; after every twentieth part a compaction that keeps the last fifth.
fn overlapping_tails(root: &Path, messages: usize) {
    let mut out = file_in(root);
    let text = "x".repeat(4000);
    let mut parent = "t".to_owned();
    for index in 1..=messages {
        writeln!(
            out,
            "{{\"type\":\"message\",\"id\":\"r{index}\",\"parentId\":\"{parent}\",{TIME},\
             \"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}"
        )
        .expect("it is written");
        parent = format!("r{index}");
        if index % (messages / 20) == 0 {
            let first = index.saturating_sub(messages / 5).max(1);
            writeln!(
                out,
                "{{\"type\":\"compaction\",\"id\":\"c{index}\",\"parentId\":\"{parent}\",{TIME},\
                 \"summary\":\"s\",\"firstKeptEntryId\":\"r{first}\",\"tokensBefore\":1}}"
            )
            .expect("it is written");
            parent = format!("c{index}");
        }
    }
    out.flush().expect("it is written");
}

/// Records without payload, each under one that stands anywhere before it, half of them labels.
fn many_records(root: &Path, records: usize) {
    let mut out = file_in(root);
    let mut drawn = 1_usize;
    writeln!(out, "{{\"type\":\"message\",\"id\":\"r0\",\"parentId\":\"t\",{TIME}}}")
        .expect("written");
    for index in 1..records {
        drawn =
            drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let parent = (drawn >> 33) % index;
        let content = if index % 2 == 0 {
            "\"type\":\"message\"".to_owned()
        } else {
            format!("\"type\":\"label\",\"targetId\":\"r{parent}\",\"label\":\"l\"")
        };
        writeln!(out, "{{{content},\"id\":\"r{index}\",\"parentId\":\"r{parent}\",{TIME}}}")
            .expect("it is written");
    }
    out.flush().expect("it is written");
}

/// Makes a session under a root.
type Make = fn(&Path);

/// Tree and branch fork; the highest peak, and the bytes of the tree fork.
fn peaks(make: impl FnOnce(&Path)) -> (usize, u64, u64) {
    let root = tempfile::tempdir().expect("a temporary folder");
    make(root.path());
    let cx = Context::new();
    // Temporary files on the disk of the root: the system's folder may be in memory.
    let options = RepoOptions { scratch: Some(root.path().to_owned()), ..RepoOptions::default() };
    let repo = JsonlRepo::with(root.path(), options).expect("a root");
    let stored: Vec<SessionRef> = repo.list(&ListFilter::default(), &cx).expect("it can be read");
    let source = stored.first().expect("it is listed");
    let size = |at: &SessionRef| fs::metadata(at.path().expect("a file")).expect("there").len();
    let main = BranchName::new("main").expect("a name");
    let mut peak = 0;
    let mut written = 0;
    for options in [ForkOptions::branch(main), ForkOptions::tree()] {
        let (forked, bytes) = HEAP.peak_of(|| repo.fork_closed_unopened(source, &options, &cx));
        written = size(&forked.expect("it is sound").reference);
        peak = peak.max(bytes);
    }
    (peak, size(source), written)
}

#[test]
fn overlapping_tails_and_many_records_stay_within_the_bound() {
    let cases: [(&str, Make); 4] = [
        ("tails, 0.4 MB", |root| overlapping_tails(root, 100)),
        ("tails, 20 MB", |root| overlapping_tails(root, 5000)),
        ("records, 1,000", |root| many_records(root, 1000)),
        ("records, 60,000", |root| many_records(root, 60_000)),
    ];
    for (name, make) in cases {
        let (peak, source, written) = peaks(make);
        println!("{name}: {source} bytes into {written}, {peak} bytes of heap");
        assert!(peak < HEAP_BYTES_LIMIT, "{name}: {peak} bytes of heap");
        if name.starts_with("tails") {
            assert!(written > 4 * source, "{name}: the tails are not in the fork");
        }
    }
}
