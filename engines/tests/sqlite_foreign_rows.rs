//! Rows of a foreign container that are no good: which of them a fork refuses.
//!
//! A payload that repeats a member of the envelope cannot become a line:
//! a reader of the line would take the payload's `seq` for the entry's. It is refused by name
//! where it is read; within SQLite, where a payload has a column of its own, it does no harm.

use forkline_engines::{
    Context, CreateOptions, JsonlRepo, MemoryRepo, Repo, RepoOptions, SqliteRepo, transfer,
};
use forkline_model::{BranchName, ErrorKind, ForkOptions, Json, Write};

#[test]
fn a_payload_with_an_envelope_member_does_not_become_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let cx = Context::new();
    let repo = SqliteRepo::per_file(folder.path().join("source")).unwrap();
    let session = repo.create(&CreateOptions::default(), &cx).unwrap();
    let main = session.create_branch(&BranchName::new("main").unwrap(), None, &cx).unwrap();
    main.append_message(&Json::parse(r#"{"role":"user"}"#).unwrap(), &cx).unwrap();
    let reference = session.reference().clone();
    session.close().unwrap();
    rusqlite::Connection::open(reference.path().unwrap())
        .unwrap()
        .execute("UPDATE entries SET payload = ?1", [r#"{"message":{},"s\u0065q":7}"#])
        .unwrap();

    let with_cwd = RepoOptions { cwd: Some("/demo".to_owned()), ..RepoOptions::default() };
    let jsonl = JsonlRepo::with(folder.path().join("jsonl"), with_cwd).unwrap();
    let memory = MemoryRepo::new();
    let options = ForkOptions::tree();
    for into in [&jsonl as &dyn Repo, &memory] {
        let error = transfer::fork_unopened(&repo, &reference, into, &options, &cx).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CorruptSource);
        assert!(error.chain().contains("seq belongs to the envelope"), "{}", error.chain());
    }
    repo.fork_closed_unopened(&reference, &options, &cx).unwrap();
}

#[test]
fn rows_that_a_fork_leaves_out_are_not_judged() {
    let folder = tempfile::tempdir().unwrap();
    let cx = Context::new();
    let repo = SqliteRepo::per_file(folder.path()).unwrap();
    let session = repo.create(&CreateOptions::default(), &cx).unwrap();
    let json = |text| Json::parse(text).unwrap();
    let writes = [
        Write::set("pi.branch.tip", "main", json("null")).unwrap(),
        Write::set("pi.lane.config", "main", json("{}")).unwrap(),
        Write::set("pi.lane.state", "main", json("{}")).unwrap(),
        Write::set("pi.lane.config", "other", json("1")).unwrap(),
        Write::set("pi.result", "o", json("1")).unwrap(),
        Write::set("pi.op.x", "o", json("1")).unwrap(),
        Write::set("app", "k", json("1")).unwrap(),
    ];
    session.commit(&writes, &cx).unwrap();
    let reference = session.reference().clone();
    session.close().unwrap();
    let damage = |namespace: &str| {
        let sql = "UPDATE scalar_values SET value = 'nope' WHERE namespace = ?1 AND key <> 'main'";
        let conn = rusqlite::Connection::open(reference.path().unwrap()).unwrap();
        assert_eq!(conn.execute(sql, [namespace]).unwrap(), 1);
    };
    let branch = ForkOptions::branch(BranchName::new("main").unwrap());
    let tree = ForkOptions::tree();
    let forks = |options: &ForkOptions| repo.fork_closed_unopened(&reference, options, &cx);
    damage("pi.result");
    damage("pi.op.x");
    forks(&branch).unwrap();
    forks(&tree).unwrap();
    damage("pi.lane.config");
    damage("app");
    forks(&branch).unwrap();
    assert_eq!(forks(&tree).unwrap_err().kind(), ErrorKind::CorruptSource);
}
