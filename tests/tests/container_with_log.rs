//! A container that a killed writer left with a write-ahead log is verified with what the log
//! holds, and stays as it is.
//!
//! The danger: a reader that ignores the log sees old rows, and one that opens the container for
//! writing moves the log into the database. The log here holds the only committed name.

use std::fs;
use std::path::Path;

use forkline_gate::fixtures::{bytes, fixtures};
use forkline_gate::lineup::{EngineKind, Ours};
use forkline_gate::plain::sqlite;
use forkline_gate::verify::{self, Options, Row, Snapshot, SourceFile, Watch};
use forkline_model::LaneAudit;
use rusqlite::Connection;

struct Quiet;

impl Watch for Quiet {
    fn begins(&mut self, _files: &[SourceFile]) {}
    fn done(&mut self, _path: &Path) {}
    fn row(&mut self, row: &Row) {
        assert_eq!(row.outcome, verify::Outcome::Holds, "{row:?}");
    }
}

/// Leaves in `folder` what a writer that dies after a commit leaves: the files are copied while
/// its connection still holds them.
fn killed_writer(folder: &Path, side_files: &[&str]) {
    let living = tempfile::tempdir().expect("a temporary folder");
    let path = living.path().join("a.sqlite");
    fs::write(&path, bytes(&fixtures().join("pi-0.87.1/one-branch.sqlite"))).expect("written");
    let db = Connection::open(&path).expect("a database");
    db.pragma_update(None, "journal_mode", "wal").expect("set");
    db.pragma_update(None, "wal_autocheckpoint", 0).expect("set");
    db.execute_batch(
        "BEGIN; \
         UPDATE scalar_values SET value = '\"named in the log\"', seq = 20 \
         WHERE namespace = 'pi.session.name'; \
         UPDATE sessions SET next_seq = 21; \
         COMMIT;",
    )
    .expect("committed");
    for suffix in ["", "-wal"].iter().chain(side_files) {
        let name = format!("a.sqlite{suffix}");
        fs::copy(living.path().join(&name), folder.join(&name)).expect("copied");
    }
}

fn check(side_files: &[&str]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    killed_writer(folder.path(), side_files);
    let path = folder.path().join("a.sqlite");
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let sessions = sqlite::read(&path, scratch.path()).expect("a container");
    let content = sessions.into_iter().next().map(|session| session.content);
    let state = content.expect("a session").expect("it is sound").state;
    assert_eq!(state.name().as_deref(), Some("named in the log"));

    let before = Snapshot::take(&path).expect("looked");
    let options = Options {
        paths: vec![path.clone()],
        engines: EngineKind::ALL.to_vec(),
        lane_audit: LaneAudit::Selected,
        only: None,
        session: None,
        salvage: false,
    };
    let summary = verify::run(&options, &Ours, &mut Quiet).expect("it runs");
    assert!(summary.holds() && summary.sessions == 1, "{summary:?}");
    assert_eq!(before.changes().expect("looked"), Vec::<String>::new());
}

#[test]
fn a_log_without_shared_memory_is_read_and_kept() {
    check(&[]);
}

#[test]
fn a_log_with_shared_memory_is_read_and_kept() {
    check(&["-shm"]);
}
