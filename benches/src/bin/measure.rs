//! Prints what forks of one generated session cost: time against a plain copy of the same bytes,
//! and the peak of both heaps.
//!
//! `cargo run --release -p forkline-benches --bin measure [ENTRIES [TEXT_BYTES [REPEATS]]]`
//!
//! The same of a legacy session with 50 compactions whose retained tails overlap:
//!
//! `cargo run --release -p forkline-benches --bin measure legacy [MIB [REPEATS]]`

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use forkline_benches::legacy::{COMPACTIONS, write_legacy};
use forkline_benches::{Shape, heap, mib, write_jsonl};
use forkline_engines::{
    Context, Error, JsonlRepo, ListFilter, Repo, RepoOptions, SessionRef, SqliteRepo, transfer,
};
use forkline_model::{BranchName, ForkOptions};

#[global_allocator]
static HEAP: heap::Counting = heap::Counting;

/// What stands above the figures.
const HEADINGS: &str = "                             median   ratio    Rust heap  SQLite heap";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).peekable();
    let is_legacy = arguments.next_if(|first| first == "legacy").is_some();
    let numbers: Vec<u64> = arguments.map(|text| text.parse()).collect::<Result<_, _>>()?;
    let number = |at: usize, default: u64| numbers.get(at).copied().unwrap_or(default);
    if is_legacy {
        return legacy(number(0, 200), number(1, 1));
    }
    let shape = Shape {
        entries: number(0, Shape::LARGE.entries),
        text_bytes: usize::try_from(number(1, Shape::LARGE.text_bytes as u64))?,
        addresses: Shape::LARGE.addresses,
    };
    let repeats = number(2, 5);
    let folder = tempfile::tempdir()?;
    let source_root = folder.path().join("source");
    let file = write_jsonl(&source_root, shape)?;
    println!("{} entries, {}", shape.entries, mib(file.metadata()?.len()));
    println!("{HEADINGS}");

    let copied = report("copy + fsync", None, repeats, |n| {
        copy(&file, &folder.path().join(format!("copy-{n}")))
    })?;
    let jsonl = JsonlRepo::open(&source_root)?;
    let source = only(&jsonl)?;
    for (name, options) in scopes()? {
        report(&format!("JSONL {name}"), Some(copied), repeats, |n| {
            let into = JsonlRepo::open(folder.path().join(format!("jsonl-{name}-{n}")))?;
            transfer::fork_unopened(&jsonl, &source, &into, &options, &Context::new())?;
            Ok(())
        })?;
    }
    let container = folder.path().join("container.sqlite");
    let shared = SqliteRepo::shared(&container)?;
    transfer::fork_unopened(&jsonl, &source, &shared, &ForkOptions::tree(), &Context::new())?;
    println!("container of {}", mib(container.metadata()?.len()));
    let vacuumed = report("VACUUM INTO", None, repeats, |n| {
        let copy = folder.path().join(format!("vacuum-{n}.sqlite"));
        let copy = copy.to_str().ok_or_else(|| io::Error::other("a path that is no text"))?;
        rusqlite::Connection::open(&container)?.execute("VACUUM INTO ?1", [copy])?;
        Ok(())
    })?;
    let source = only(&shared)?;
    for (name, options) in scopes()? {
        report(&format!("SQLite {name}"), Some(vacuumed), repeats, |n| {
            let into = SqliteRepo::shared(folder.path().join(format!("sqlite-{name}-{n}.sqlite")))?;
            transfer::fork_unopened(&shared, &source, &into, &options, &Context::new())?;
            Ok(())
        })?;
    }
    Ok(())
}

/// Forks of a legacy session, whose destinations are larger than it is.
fn legacy(source_mib: u64, repeats: u64) -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let root = folder.path().join("source");
    let file = write_legacy(&root, source_mib)?;
    println!("legacy, {COMPACTIONS} compactions, {}", mib(file.metadata()?.len()));
    println!("{HEADINGS}");
    let copied = report("copy + fsync", None, repeats, |n| {
        copy(&file, &folder.path().join(format!("copy-{n}")))
    })?;
    // Not in the system's folder, which may be memory.
    let scratch = Some(folder.path().to_owned());
    let repo = JsonlRepo::with(&root, RepoOptions { scratch, ..RepoOptions::default() })?;
    let source = only(&repo)?;
    for (name, options) in scopes()? {
        let mut written = 0;
        report(&format!("legacy {name}"), Some(copied), repeats, |n| {
            let into = JsonlRepo::open(folder.path().join(format!("{name}-{n}")))?;
            let fork = transfer::fork_unopened(&repo, &source, &into, &options, &Context::new())?;
            let path = fork.reference.path().ok_or_else(|| io::Error::other("it has no file"))?;
            written = path.metadata()?.len();
            std::fs::remove_file(path)?;
            Ok(())
        })?;
        println!("{:24} {:>10}", "  destination", mib(written));
    }
    Ok(())
}

fn scopes() -> Result<[(&'static str, ForkOptions); 2], Error> {
    Ok([("tree", ForkOptions::tree()), ("branch", ForkOptions::branch(BranchName::new("main")?))])
}

fn only(repo: &dyn Repo) -> Result<SessionRef, Error> {
    let found = repo.list(&ListFilter::default(), &Context::new())?;
    Ok(found.into_iter().next().expect("the session was just written"))
}

/// The plain copy that forks are compared with: the same bytes, synced.
fn copy(from: &Path, to: &Path) -> Result<(), Box<dyn std::error::Error>> {
    io::copy(&mut File::open(from)?, &mut File::create(to)?)?;
    File::open(to)?.sync_all()?;
    Ok(())
}

/// Runs `work` several times and prints the median time and the highest peaks.
fn report(
    name: &str,
    against: Option<Duration>,
    repeats: u64,
    mut work: impl FnMut(u64) -> Result<(), Box<dyn std::error::Error>>,
) -> Result<Duration, Box<dyn std::error::Error>> {
    let (mut times, mut rust, mut sqlite) = (Vec::new(), 0, 0);
    for n in 0..repeats.max(1) {
        let before = heap::reset();
        let start = Instant::now();
        work(n)?;
        times.push(start.elapsed());
        rust = rust.max(heap::peak().saturating_sub(before));
        sqlite = sqlite.max(heap::sqlite_peak(false));
    }
    times.sort();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    let ratio = against
        .map(|base| format!("{:.1}", median.as_secs_f64() / base.as_secs_f64()))
        .unwrap_or_default();
    let median_ms = format!("{:.0} ms", median.as_secs_f64() * 1000.0);
    println!("{name:24} {median_ms:>10} {ratio:>7} {:>12} {:>12}", mib(rust as u64), mib(sqlite));
    Ok(median)
}
