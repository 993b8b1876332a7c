//! Files that are not what their name says, and sources in every state of their side files: a
//! typed error or the right rows, and no byte of the source changed, no side file left.

use std::fs;
use std::path::{Path, PathBuf};

use forkline_engines::{
    Context, CreateOptions, Error, Location, Repo, Session, SessionRef, SqliteRepo,
};
use forkline_model::{Address, BranchName, ErrorKind, ForkOptions, Json, SessionId};
use rusqlite::Connection;

struct Place {
    _folder: tempfile::TempDir,
    root: PathBuf,
    repo: SqliteRepo,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(folder.path()).unwrap().join("sessions");
    let repo = SqliteRepo::per_file(&root).unwrap();
    Place { _folder: folder, root, repo }
}

fn marker() -> Address {
    Address::new("app", "marker").unwrap()
}

/// A session with a lane of three messages and a marker.
fn filled(repo: &SqliteRepo, id: &str) -> Session {
    let cx = Context::new();
    let options = CreateOptions::default().with_id(SessionId::new(id).unwrap());
    let session = repo.create(&options, &cx).unwrap();
    let main = session.create_branch(&BranchName::new("main").unwrap(), None, &cx).unwrap();
    for _ in 0..3 {
        main.append_message(&Json::parse(r#"{"role":"user"}"#).unwrap(), &cx).unwrap();
    }
    session.set_value(&marker(), Json::string("here"), &cx).unwrap();
    session
}

/// Every file of a folder with its bytes, but `-shm`, which is an index in shared memory.
fn bytes(root: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found: Vec<_> = fs::read_dir(root)
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let bytes = if name.ends_with("-shm") { Vec::new() } else { fs::read(&path).unwrap() };
            (name, bytes)
        })
        .collect();
    found.sort();
    found
}

fn source(path: &Path, id: &str) -> SessionRef {
    let metadata = forkline_model::Metadata {
        id: SessionId::new(id).unwrap(),
        created_at: forkline_model::Millis::EPOCH,
        cwd: None,
        parent_session_id: None,
        legacy_parent_session_path: None,
    };
    SessionRef { metadata, location: Location::File(path.to_owned()) }
}

/// Opening, deleting and forking all refuse with this kind and change nothing.
fn refused(place: &Place, id: &str, kind: ErrorKind) {
    let cx = Context::new();
    let at = source(&place.root.join(format!("{id}.sqlite")), id);
    let before = bytes(&place.root);
    let of = |result: Result<(), Error>, what: &str| {
        let error = result.expect_err(what);
        assert_eq!(error.kind(), kind, "{what}: {}", error.chain());
    };
    of(place.repo.open(&at, &cx).map(drop), "open");
    of(place.repo.delete(&at, &cx), "delete");
    of(place.repo.fork_closed(&at, &ForkOptions::tree(), &cx).map(drop), "fork");
    let listed = place.repo.list(&forkline_engines::ListFilter::default(), &cx).unwrap();
    assert!(listed.iter().all(|listed| listed.metadata.id.as_str() != id));
    assert_eq!(bytes(&place.root), before);
}

/// A closed session, damaged by SQL.
fn damaged(sql: &str) -> Place {
    let place = place();
    let session = filled(&place.repo, "x");
    session.close().unwrap();
    let conn = Connection::open(place.root.join("x.sqlite")).unwrap();
    conn.execute_batch(&format!("PRAGMA writable_schema = ON; {sql}")).unwrap();
    conn.close().unwrap();
    place
}

#[test]
fn what_is_no_container_is_refused() {
    for content in [&b""[..], b"not a database", b"SQLite format 3\0 but no more", &[0; 8192]] {
        let place = place();
        fs::write(place.root.join("x.sqlite"), content).unwrap();
        refused(&place, "x", ErrorKind::CorruptSource);
    }
    for sql in [
        "DROP TABLE list_values",
        "DROP INDEX ix_be_seq",
        "DROP TRIGGER trg_entries_validate",
        "ALTER TABLE sessions DROP COLUMN metadata",
        "ALTER TABLE entries ADD COLUMN more TEXT",
        "ALTER TABLE entries RENAME TO old; CREATE VIEW entries AS SELECT * FROM old",
        "CREATE TRIGGER spy AFTER INSERT ON entries BEGIN DELETE FROM entries; END",
        "CREATE VIEW looks AS SELECT 1",
    ] {
        refused(&damaged(sql), "x", ErrorKind::CorruptSource);
    }
}

#[test]
fn rows_that_cannot_be_are_refused_by_forks() {
    let cx = Context::new();
    for (sql, named) in [
        ("UPDATE entries SET payload = '{'", "payload"),
        ("UPDATE entries SET payload = '[]'", "payload"),
        ("UPDATE entries SET payload = x'7b7d'", "payload"),
        ("UPDATE entries SET payload = CAST(x'7b2261223a22ff227d' AS TEXT)", "UTF-8"),
        ("UPDATE entries SET payload = '\"' || hex(zeroblob(100000))", "JSON"),
        ("UPDATE entries SET timestamp = -1", "timestamp"),
        ("UPDATE entries SET type = CAST(x'ff' AS TEXT)", "UTF-8"),
        ("UPDATE entries SET seq = 3 WHERE seq > 3", "seq"),
        ("UPDATE entries SET seq = 9007199254740992 WHERE seq = 2", "9007199254740992"),
        ("UPDATE entries SET parent_id = 'nobody' WHERE parent_id IS NULL", "nobody"),
        ("UPDATE scalar_values SET value = 'nul' WHERE namespace = 'app'", "JSON"),
        ("UPDATE scalar_values SET seq = 2 WHERE namespace = 'app'", "seq"),
        ("UPDATE scalar_values SET key = CAST(x'ff' AS TEXT) WHERE namespace = 'app'", "UTF-8"),
        ("UPDATE sessions SET next_seq = 2", "next seq"),
    ] {
        let place = damaged(sql);
        let at = source(&place.root.join("x.sqlite"), "x");
        let before = bytes(&place.root);
        let error = place.repo.fork_closed(&at, &ForkOptions::tree(), &cx).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CorruptSource, "{sql}: {}", error.chain());
        assert!(error.chain().contains(named), "{sql}: {}", error.chain());
        assert_eq!(bytes(&place.root), before, "{sql}");
    }
    for sql in [
        "DELETE FROM branch_entries WHERE entry_seq = 4",
        "DELETE FROM branch_meta",
        "UPDATE branch_meta SET base_branch_id = branch_id, base_seq = tip_seq - 1",
        "UPDATE branch_entries SET entry_id = 'nobody' WHERE entry_seq = 4",
        "UPDATE entries SET parent_id = NULL",
    ] {
        let place = damaged(sql);
        let at = source(&place.root.join("x.sqlite"), "x");
        let conn = Connection::open(place.root.join("x.sqlite")).unwrap();
        let lane = "INSERT INTO scalar_values VALUES ('x', 'pi.lane.config', 'main', 7, '{}'), \
                    ('x', 'pi.lane.state', 'main', 9, '{}'); UPDATE sessions SET next_seq = 100; \
                    UPDATE scalar_values SET seq = 90 WHERE namespace = 'app'";
        conn.execute_batch(lane).unwrap();
        conn.close().unwrap();
        let options = ForkOptions::branch(BranchName::new("main").unwrap());
        let error = place.repo.fork_closed(&at, &options, &cx).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CorruptSource, "{sql}: {}", error.chain());
        let findings = forkline_engines::sqlite::recount(at.path().unwrap(), &at.metadata.id);
        assert!(!findings.unwrap().is_empty(), "{sql}");
    }
}

#[test]
fn versions_and_missing_rows_are_told_apart() {
    let sql = "UPDATE sessions SET storage_version = 2";
    refused(&damaged(sql), "x", ErrorKind::UnsupportedVersion);
    refused(&damaged("DELETE FROM sessions"), "x", ErrorKind::UnknownSession);
    refused(&place(), "x", ErrorKind::UnknownSession);
}

#[test]
fn what_is_no_file_is_refused_without_waiting() {
    let place = place();
    fs::create_dir(place.root.join("x.sqlite")).unwrap();
    refused(&place, "x", ErrorKind::Io);
    let fifo = place.root.join("y.sqlite");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    refused(&place, "y", ErrorKind::Io);
    std::os::unix::fs::symlink("z.sqlite", place.root.join("z.sqlite")).unwrap();
    refused(&place, "z", ErrorKind::Io);
}

#[test]
fn foreign_references_are_read_but_neither_opened_nor_deleted() {
    let cx = Context::new();
    let (here, there) = (place(), place());
    filled(&there.repo, "x").close().unwrap();
    let at = source(&there.root.join("x.sqlite"), "x");
    for error in [here.repo.open(&at, &cx).map(drop), here.repo.delete(&at, &cx)] {
        assert_eq!(error.unwrap_err().kind(), ErrorKind::UnknownSession);
    }
    // A session of that id that is open here is another one.
    let _open = here.repo.create(&CreateOptions::default().with_id(at.metadata.id.clone()), &cx);
    let made = here.repo.fork_closed(&at, &ForkOptions::tree(), &cx).unwrap();
    assert!(made.value(&marker()).unwrap().is_some());
}

#[test]
fn a_taken_name_is_refused_and_untouched() {
    let cx = Context::new();
    let place = place();
    let session = filled(&place.repo, "x");
    fs::create_dir(place.root.join("folder.sqlite")).unwrap();
    std::os::unix::fs::symlink("nowhere", place.root.join("link.sqlite")).unwrap();
    for id in ["x", "folder", "link"] {
        let options = ForkOptions::tree().with_id(SessionId::new(id).unwrap());
        let error = place.repo.fork(&session, &options, &cx).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SessionExists, "{id}");
    }
    assert!(fs::symlink_metadata(place.root.join("link.sqlite")).unwrap().is_symlink());
}

/// Copies a live session's files, as a killed writer leaves them.
fn crashed(with_shm: bool) -> Place {
    let (live, copy) = (place(), place());
    let session = filled(&live.repo, "x");
    for suffix in ["", "-wal", "-shm"] {
        let name = format!("x.sqlite{suffix}");
        if suffix != "-shm" || with_shm {
            fs::copy(live.root.join(&name), copy.root.join(&name)).unwrap();
        }
    }
    drop(session);
    copy
}

#[test]
fn a_source_is_read_in_every_state_and_stays_as_it_is() {
    let cx = Context::new();
    let closed = {
        let place = place();
        filled(&place.repo, "x").close().unwrap();
        place
    };
    let empty_wal = {
        let place = place();
        filled(&place.repo, "x").close().unwrap();
        fs::write(place.root.join("x.sqlite-wal"), "").unwrap();
        place
    };
    // What a read-only reader of a closed file leaves.
    let left = {
        let place = place();
        filled(&place.repo, "x").close().unwrap();
        let uri = format!("file:{}?mode=ro", place.root.join("x.sqlite").display());
        let conn = Connection::open(uri).unwrap();
        conn.query_row("SELECT count(*) FROM entries", [], |row| row.get::<_, i64>(0)).unwrap();
        drop(conn);
        assert!(place.root.join("x.sqlite-shm").exists());
        place
    };
    for (name, place, new_file) in [
        ("closed", closed, None),
        ("empty wal", empty_wal, None),
        ("left by a reader", left, None),
        ("crashed", crashed(true), None),
        ("crashed, no shm", crashed(false), Some("x.sqlite-shm")),
    ] {
        let into = tempfile::tempdir().unwrap();
        let into = SqliteRepo::shared(into.path().join("all")).map(|repo| (repo, into)).unwrap();
        let at = source(&place.root.join("x.sqlite"), "x");
        let before = bytes(&place.root);
        let listed = place.repo.list(&forkline_engines::ListFilter::default(), &cx).unwrap();
        assert_eq!(listed.len(), 1, "{name}");
        assert_eq!(bytes(&place.root), before, "{name}: listing leaves no file");
        for _ in 0..2 {
            let made = into.0.fork_closed(&at, &ForkOptions::tree(), &cx).unwrap();
            assert!(made.value(&marker()).unwrap().is_some(), "{name}");
            assert_eq!(made.stats().unwrap().message_count, 3, "{name}");
            let mut after = bytes(&place.root);
            after.retain(|(file, _)| Some(&**file) != new_file);
            assert_eq!(after, before, "{name}");
        }
    }
}

#[test]
fn a_locked_database_is_busy() {
    let cx = Context::new();
    let place = place();
    let session = filled(&place.repo, "x");
    let conn = Connection::open(place.root.join("x.sqlite")).unwrap();
    conn.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = session.set_value(&marker(), Json::null(), &cx).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    // Reading goes on, and a fork is a read.
    place.repo.fork(&session, &ForkOptions::tree(), &cx).unwrap();
    conn.execute_batch("ROLLBACK").unwrap();
    session.set_value(&marker(), Json::null(), &cx).unwrap();
}

#[test]
fn a_fork_into_a_locked_container_is_busy_and_leaves_nothing() {
    let cx = Context::new();
    let place = place();
    let container = place.root.join("all");
    let shared = SqliteRepo::shared(&container).unwrap();
    let session = filled(&shared, "x");
    let conn = Connection::open(&container).unwrap();
    conn.execute_batch("BEGIN IMMEDIATE").unwrap();
    let options = ForkOptions::tree().with_id(SessionId::new("y").unwrap());
    let error = shared.fork(&session, &options, &cx).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{}", error.chain());
    conn.execute_batch("ROLLBACK").unwrap();
    for table in ["sessions", "entries", "scalar_values", "branch_entries", "branch_meta"] {
        let column = if table == "sessions" { "id" } else { "session_id" };
        let sql = format!("SELECT count(*) FROM {table} WHERE {column} = 'y'");
        assert_eq!(conn.query_row(&sql, [], |row| row.get::<_, i64>(0)), Ok(0), "{table}");
    }
    shared.fork(&session, &options, &cx).unwrap();
}

#[test]
fn leftovers_of_the_dead_are_swept_and_those_of_the_living_kept() {
    let place = place();
    let dead = place.root.join(".forkline-abc.sqlite-tmp");
    let living = place.root.join(".forkline-def.sqlite-tmp");
    let other = place.root.join(".forkline-note.txt");
    for path in [&dead, &living, &other] {
        fs::write(path, "x").unwrap();
    }
    fs::write(place.root.join(".forkline-abc.sqlite-tmp-wal"), "x").unwrap();
    let lock = fs::File::open(&living).unwrap();
    lock.lock().unwrap();
    let repo = SqliteRepo::per_file(&place.root).unwrap();
    assert!(!dead.exists() && living.exists() && other.exists());
    assert!(!place.root.join(".forkline-abc.sqlite-tmp-wal").exists());
    let listed = repo.list(&forkline_engines::ListFilter::default(), &Context::new()).unwrap();
    assert_eq!(listed, []);
}
