//! What a fork between containers needs of both heaps: at most 8 MiB and twice the largest
//! payload of the source, however many rows there are (architecture.md, "What may cost what").
//!
//! One test, since the counters are the process's. A hard limit of SQLite's heap at twice the
//! bound stays on, so that a regression is an error and not a slow machine.

#[path = "sqlite_support/heap.rs"]
mod heap;

use std::path::Path;

use forkline_engines::{Context, CreateOptions, Repo, SessionRef, SqliteRepo};
use forkline_model::{BranchName, ForkOptions, SessionId};
use rusqlite::{Connection, params};

#[global_allocator]
static ALLOCATOR: heap::Counting = heap::Counting;

const MIB: u64 = 1 << 20;

/// What a source is built of.
#[derive(Debug, Clone, Copy, Default)]
struct Shape {
    /// Entries on the path of `main`.
    entries: u64,
    /// A payload of that many bytes in the middle of the keys; selected if on the path.
    large: u64,
    /// Whether the large payload is on the path.
    is_on_path: bool,
    /// Application values.
    addresses: u64,
    /// Branches that leave the first third of the path.
    branches: u64,
}

/// Ids that ascend, as generated ones do, with one in the middle.
fn id(number: u64) -> String {
    format!("entry-{number:08}")
}

fn build(folder: &Path, shape: Shape) -> SessionRef {
    let cx = Context::new();
    let repo = SqliteRepo::per_file(folder).unwrap();
    let options = CreateOptions::default().with_id(SessionId::new("source").unwrap());
    let session = repo.create(&options, &cx).unwrap();
    let at = session.reference().clone();
    session.close().unwrap();
    let mut conn = Connection::open(at.path().unwrap()).unwrap();
    let rows = conn.transaction().unwrap();
    let mut seq = 0_i64;
    let mut next = || {
        seq += 1;
        seq
    };
    {
        let mut entry = rows
            .prepare("INSERT INTO entries VALUES ('source', ?1, ?2, ?3, 'message', NULL, 1, ?4)")
            .unwrap();
        let mut row = rows
            .prepare("INSERT INTO branch_entries VALUES ('source', ?1, ?2, ?3, 'message')")
            .unwrap();
        let mut meta = rows
            .prepare("INSERT INTO branch_meta VALUES ('source', ?1, ?2, ?3, NULL, NULL)")
            .unwrap();
        let large =
            format!("{{\"message\":\"{}\"}}", "x".repeat(usize::try_from(shape.large).unwrap()));
        let mut parent: Option<String> = None;
        let mut last = 0;
        for number in 0..shape.entries {
            let (id, seq) = (id(number), next());
            let is_large = shape.is_on_path && number == shape.entries / 2;
            let payload = if is_large { &*large } else { r#"{"message":{"role":"user"}}"# };
            entry.execute(params![id, parent, seq, payload]).unwrap();
            row.execute(params![id_of_root(), id, seq]).unwrap();
            parent = Some(id);
            last = seq;
        }
        meta.execute(params![id_of_root(), parent, last]).unwrap();
        if shape.large > 0 && !shape.is_on_path {
            let (id, seq) = (format!("{}-large", id(shape.entries / 2)), next());
            entry.execute(params![id, None::<String>, seq, large]).unwrap();
            row.execute(params![id, id, seq]).unwrap();
            meta.execute(params![id, id, seq]).unwrap();
        }
        for branch in 0..shape.branches {
            // Each leaves the path at its 64th entry, so its segment has copies of these.
            let (id, seq) = (format!("branch-{branch:08}"), next());
            entry.execute(params![id, self::id(63), seq, r#"{"message":1}"#]).unwrap();
            for number in 0..64 {
                row.execute(params![id, self::id(number), signed(number) + 1]).unwrap();
            }
            row.execute(params![id, id, seq]).unwrap();
            meta.execute(params![id, id, seq]).unwrap();
        }
        build_values(&rows, shape, parent.as_deref(), &mut next);
    }
    let messages = shape.entries + shape.branches;
    rows.execute(
        "UPDATE sessions SET next_seq = ?1, message_count = ?2",
        params![next(), signed(messages)],
    )
    .unwrap();
    rows.commit().unwrap();
    conn.close().unwrap();
    at
}

/// The lane `main`, and application values with keys in another order than seqs.
fn build_values(rows: &Connection, shape: Shape, tip: Option<&str>, next: &mut dyn FnMut() -> i64) {
    let mut value =
        rows.prepare("INSERT INTO scalar_values VALUES ('source', ?1, ?2, ?3, ?4)").unwrap();
    let tip = format!("{:?}", tip.unwrap());
    value.execute(params!["pi.branch.tip", "main", next(), tip]).unwrap();
    value.execute(params!["pi.lane.config", "main", next(), "{}"]).unwrap();
    value.execute(params!["pi.lane.state", "main", next(), "{}"]).unwrap();
    for number in 0..shape.addresses {
        let key = format!("{:08x}", number.wrapping_mul(2_654_435_761) & 0xffff_ffff);
        value.execute(params!["app", format!("{key}-{number}"), next(), "[1,2,3]"]).unwrap();
    }
}

fn signed(number: u64) -> i64 {
    number.try_into().unwrap()
}

fn id_of_root() -> String {
    id(0)
}

#[test]
fn heaps_stay_within_the_bound() {
    heap::count_sqlite();
    let cx = Context::new();
    let main = BranchName::new("main").unwrap();
    let small = Shape { entries: 1_000, ..Shape::default() };
    let large = Shape { large: 64 * MIB, ..small };
    let shapes = [
        ("1 000 entries", small),
        ("100 000 entries", Shape { entries: 100_000, ..small }),
        ("100 000 addresses", Shape { addresses: 100_000, ..small }),
        ("1 000 branches", Shape { branches: 1_000, ..small }),
        ("64 MiB beside the path", large),
        ("64 MiB on the path", Shape { is_on_path: true, ..large }),
    ];
    for (number, (name, shape)) in shapes.into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        heap::limit_sqlite(0);
        let source = build(folder.path(), shape);
        let bound = 8 * MIB + 2 * shape.large;
        heap::limit_sqlite(2 * bound);
        let per_file = SqliteRepo::per_file(folder.path()).unwrap();
        let shared = SqliteRepo::shared(folder.path().join("all")).unwrap();
        // The first fork into the container makes it, the second adds to it.
        let (tree, branch) = (ForkOptions::tree(), ForkOptions::branch(main.clone()));
        let forks = [(&per_file, &tree), (&shared, &branch), (&shared, &tree)];
        for (repo, options) in forks.into_iter().skip(number % 2) {
            let fork = || repo.fork_closed_unopened(&source, options, &cx).unwrap();
            let (forked, peak) = heap::measure(fork);
            println!("{name}, {:?}: {peak} bytes", options.scope);
            assert!(forked.copied.entries >= shape.entries);
            assert!(peak <= bound, "{name}, {:?}: {peak} bytes", options.scope);
        }
    }
}
