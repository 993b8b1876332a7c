//! What SQLite does for the statements that grow with a session: rows are found by the index
//! that has their order, and nothing is sorted or scanned.

use forkline_model::Scope;
use rusqlite::Connection;

use super::destination::MOVES;
use super::open::{Reader, Use};
use super::plan::{
    ALL_ENTRIES, BRANCH_PREFILTER, KEEP_ELEMENTS, KEEP_VALUES, SPAN_ENTRIES, TREE_PREFILTER,
    UNKNOWN_RESERVED,
};
use super::reads::{ENTRIES, LEDGER, SPAN};
use super::select::Functions;
use super::{SqliteRepo, stage};
use crate::{Context, CreateOptions, Repo};

fn steps(conn: &Connection, sql: &str) -> Vec<String> {
    let mut explain = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("a statement");
    let count = explain.parameter_count();
    let rows = explain
        .query_map(rusqlite::params_from_iter(vec![0; count]), |row| row.get::<_, String>(3))
        .expect("a plan");
    rows.map(|row| row.expect("a step")).collect()
}

fn check(conn: &Connection, sql: &str, expected: &[&str]) {
    let steps = steps(conn, sql);
    for wanted in expected {
        assert!(steps.iter().any(|step| step.contains(wanted)), "{sql}\n{steps:#?}\n{wanted}");
    }
    for step in &steps {
        assert!(!step.contains("TEMP B-TREE"), "{sql}\n{steps:#?}");
        assert!(!step.contains("AUTOMATIC"), "{sql}\n{steps:#?}");
        assert!(!step.starts_with("SCAN b") && !step.starts_with("SCAN e"), "{sql}\n{steps:#?}");
    }
}

#[test]
fn no_statement_sorts_or_scans() {
    let folder = tempfile::tempdir().expect("a folder");
    let repo = SqliteRepo::per_file(folder.path()).expect("a repository");
    let session = repo.create(&CreateOptions::default(), &Context::new()).expect("a session");
    let path = session.reference().path().expect("a file").to_owned();
    session.close().expect("closed");

    let reader = Reader::open(&path, Use::Fork).expect("a reader");
    let conn = &reader.conn;
    Functions::register(conn, &path, "", &Scope::Tree).expect("functions");
    stage::create(conn).expect("a stage");
    stage::index_ids(conn).expect("an index");
    let span = ["SEARCH b USING COVERING INDEX ix_be_seq", "SEARCH e USING PRIMARY KEY"];
    let order = "SEARCH e USING INDEX ix_entry_seq (session_id=? AND seq>? AND seq<?)";
    for direction in ["ASC", "DESC"] {
        let put = |sql: &str| sql.replace("{schema}", "src").replace("{order}", direction);
        check(conn, &put(SPAN), &span);
        check(conn, &put(ENTRIES), &[order]);
        check(conn, &put(LEDGER), &["USING INDEX ix_usage_seq"]);
    }
    check(conn, SPAN_ENTRIES, &span);
    check(conn, ALL_ENTRIES, &["USING INDEX ix_entry_seq (session_id=?)"]);
    let in_session = "USING PRIMARY KEY (session_id=?)";
    let reserved = "USING PRIMARY KEY (session_id=? AND namespace>? AND namespace<?)";
    for keep in [KEEP_VALUES, KEEP_ELEMENTS] {
        check(conn, &keep.replace("{prefilter}", TREE_PREFILTER), &[in_session]);
        check(conn, &keep.replace("{prefilter}", BRANCH_PREFILTER), &[reserved]);
    }
    // Sorts by seq what no fork survives, of which it keeps one row.
    assert!(steps(conn, UNKNOWN_RESERVED).iter().any(|step| step.contains(reserved)));
    check(conn, stage::ORDER, &["MERGE (UNION ALL)"]);

    let destination = super::open::scratch().expect("a database");
    stage::create(&destination).expect("a stage");
    stage::index_ids(&destination).expect("an index");
    super::schema::create_branch_index(&destination).expect("a branch index");
    destination.execute_batch("ATTACH '' AS dst").expect("attached");
    super::schema::create_tables(&destination, "dst").expect("tables");
    super::schema::complete(&destination, "dst").expect("a container");
    for sql in MOVES {
        for step in steps(&destination, sql) {
            assert!(!step.contains("TEMP B-TREE"), "{sql}: {step}");
        }
    }
}
