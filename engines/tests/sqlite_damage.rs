//! What a fork says of a damaged row of a foreign container: the table, the row and the reason,
//! in both scopes, for small content and for large.
//!
//! SQL moves the rows, and checks them on their way; content of 64 KiB and more goes a way of its
//! own. A check that is left out on one of the ways lets a row through that no reader opens.

use std::path::PathBuf;

use forkline_engines::{
    Context, CreateOptions, Error, Forked, Repo, Session, SessionRef, SqliteRepo,
};
use forkline_model::{BranchName, ErrorKind, ForkOptions, Json, Write};
use rusqlite::Connection;

struct Stored {
    _folder: tempfile::TempDir,
    repo: SqliteRepo,
    at: SessionRef,
}

fn stored() -> Stored {
    let folder = tempfile::tempdir().unwrap();
    let repo = SqliteRepo::per_file(folder.path()).unwrap();
    let session = repo.create(&CreateOptions::default(), &Context::new()).unwrap();
    fill(&session);
    session.close().unwrap();
    let at = session.reference().clone();
    Stored { _folder: folder, repo, at }
}

/// A lane of three entries, one of them off it; a value, and a list of two elements.
fn fill(session: &Session) {
    let json = |text: &str| Json::parse(text).unwrap();
    let set =
        |namespace: &str, key: &str, value: &str| Write::set(namespace, key, json(value)).unwrap();
    let entry = |id: &str, parent: &str, rest: &str| {
        let line = format!(r#"{{"kind":"entry","id":"{id}","parentId":{parent},{rest}}}"#);
        Write::from_jsonl(&line).unwrap()
    };
    let writes = [
        entry("e1", "null", r#""type":"message","message":{}"#),
        entry("e2", r#""e1""#, r#""type":"custom","customType":"mine","data":1"#),
        entry("off", r#""e1""#, r#""type":"message","message":{}"#),
        entry("e3", r#""e2""#, r#""type":"message","message":{}"#),
        set("pi.lane.config", "main", "{}"),
        set("pi.lane.state", "main", "{}"),
        set("pi.branch.tip", "main", r#""e3""#),
        set("app", "k", "1"),
        Write::append("app", "l", json("1")).unwrap(),
        Write::append("app", "l", json("2")).unwrap(),
    ];
    session.commit(&writes, &Context::new()).unwrap();
}

fn path(stored: &Stored) -> PathBuf {
    stored.at.path().unwrap().to_owned()
}

fn fork(stored: &Stored, options: &ForkOptions) -> Result<Forked, Error> {
    stored.repo.fork_closed_unopened(&stored.at, options, &Context::new())
}

fn branch() -> ForkOptions {
    ForkOptions::branch(BranchName::new("main").unwrap())
}

/// 70 000 spaces in SQL.
const SPACES: &str = "printf('%.*c', 70000, ' ')";

#[test]
fn a_damaged_row_is_named_with_its_table_and_the_reason() {
    let entry = "entries \"e2\"";
    let value = "scalar_values \"k\"";
    let element = "list_values \"l\"";
    let sql = |table: &str, set: &str| {
        let only = if table == "entries" { "id = 'e2'" } else { "namespace = 'app'" };
        format!("UPDATE {table} SET {set} WHERE {only}")
    };
    let large = |text: &str| text.replace('_', SPACES);
    // What is done to which row, what names it, and the reason.
    let cases = [
        (sql("entries", "payload = '[]'"), entry, "payload is no JSON object"),
        (sql("entries", "payload = 'nul'"), entry, "payload is not JSON"),
        (sql("entries", "payload = x'7b7d'"), entry, "payload is no text"),
        (sql("entries", &large("payload = '[' || _ || ']'")), entry, "payload is no JSON object"),
        (sql("entries", &large("payload = _ || '7'")), entry, "payload is no JSON object"),
        (sql("entries", &large("payload = '{' || _")), entry, "not JSON"),
        (sql("entries", "timestamp = -1"), entry, "timestamp is no time"),
        (sql("entries", "timestamp = 9007199254740992"), entry, "timestamp is no time"),
        (sql("entries", "seq = 0"), entry, "invalid sequence"),
        (sql("entries", "seq = -3"), entry, "invalid sequence"),
        (sql("entries", "custom_type = x'00'"), "entries", "custom_type is no text"),
        (sql("entries", "custom_type = 'a' || char(0)"), entry, "U+0000"),
        (sql("entries", "type = 'a' || char(0)"), entry, "U+0000"),
        (sql("entries", "type = x'00'"), "entries", "type is no text"),
        (sql("entries", "parent_id = 'a' || char(0)"), entry, "U+0000"),
        (sql("entries", "parent_id = x'00'"), "entries", "parent_id is no text"),
        (sql("scalar_values", "value = 'nul'"), value, "value is not JSON"),
        (sql("scalar_values", "value = x'31'"), value, "value is no text"),
        (sql("scalar_values", &large("value = '[' || _")), value, "not JSON"),
        (sql("scalar_values", "seq = 0"), value, "invalid sequence"),
        (sql("scalar_values", "key = x'00'"), "scalar_values", "key is no text"),
        (sql("scalar_values", "key = 'k' || char(0)"), "scalar_values", "U+0000"),
        (sql("scalar_values", "namespace = 'a' || char(0)"), value, "U+0000"),
        (sql("list_values", "value = 'nul'"), element, "value is not JSON"),
        (sql("list_values", &large("value = '[' || _")), element, "not JSON"),
        (sql("list_values", "seq = -1 * seq"), element, "invalid sequence"),
        (sql("list_values", "namespace = x'00'"), "list_values", "namespace is no text"),
        (sql("list_values", "key = 'l' || char(0)"), "list_values", "U+0000"),
    ];
    for (sql, row, reason) in cases {
        let stored = stored();
        let conn = Connection::open(path(&stored)).unwrap();
        let changed = conn.execute(&sql, []).unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert!(changed > 0, "{sql}");
        conn.close().unwrap();
        let scopes = if row.starts_with("entries") {
            vec![ForkOptions::tree(), branch()]
        } else {
            // A branch fork leaves application state out, and does not judge it.
            fork(&stored, &branch()).unwrap();
            vec![ForkOptions::tree()]
        };
        for options in scopes {
            let error = fork(&stored, &options).unwrap_err();
            let text = error.chain();
            assert_eq!(error.kind(), ErrorKind::CorruptSource, "{sql}: {text}");
            assert!(text.contains(row) && text.contains(reason), "{sql}: {text}");
        }
    }
}

/// White space in front makes a payload no worse, however long it is.
#[test]
fn white_space_before_a_payload_does_no_harm() {
    for spaces in ["' '".to_owned(), SPACES.to_owned()] {
        let stored = stored();
        let conn = Connection::open(path(&stored)).unwrap();
        conn.execute(&format!("UPDATE entries SET payload = {spaces} || payload"), []).unwrap();
        conn.close().unwrap();
        for (options, entries) in [(ForkOptions::tree(), 4), (branch(), 3)] {
            let made = fork(&stored, &options).unwrap();
            assert_eq!(made.copied.entries, entries);
            let opened = stored.repo.open(&made.reference, &Context::new()).unwrap();
            let found = opened.find_entries(&forkline_model::EntryQuery::default()).unwrap();
            let custom = found.iter().find(|entry| entry.id.as_str() == "e2").unwrap();
            assert_eq!(custom.payload.as_str().trim_start(), r#"{"data":1}"#);
        }
    }
}

/// Rows that each are good and together make no session.
#[test]
fn rows_that_do_not_fit_together_are_refused() {
    let cases = [
        ("UPDATE entries SET parent_id = 'e3' WHERE id = 'e1'", "\"e1\""),
        ("UPDATE entries SET parent_id = 'e9' WHERE id = 'e2'", "\"e2\""),
        ("UPDATE scalar_values SET seq = 2 WHERE key = 'main'", "seq"),
        ("UPDATE sessions SET next_seq = 4", "next seq"),
    ];
    for (sql, reason) in cases {
        let stored = stored();
        let conn = Connection::open(path(&stored)).unwrap();
        conn.execute(sql, []).unwrap_or_else(|error| panic!("{sql}: {error}"));
        conn.close().unwrap();
        for options in [ForkOptions::tree(), branch()] {
            let error = fork(&stored, &options).unwrap_err();
            let text = error.chain();
            assert_eq!(error.kind(), ErrorKind::CorruptSource, "{sql}: {text}");
            assert!(text.contains(reason), "{sql}: {text}");
        }
    }
    // The next seq may be any that no row has.
    for (next_seq, is_good) in [(10, false), (11, true), (99, true)] {
        let stored = stored();
        let conn = Connection::open(path(&stored)).unwrap();
        conn.execute("UPDATE sessions SET next_seq = ?1", [next_seq]).unwrap();
        conn.close().unwrap();
        assert_eq!(fork(&stored, &ForkOptions::tree()).is_ok(), is_good, "{next_seq}");
    }
}
