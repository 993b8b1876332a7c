//! A payload of a foreign container that repeats a member of the envelope cannot become a line:
//! a reader of the line would take the payload's `seq` for the entry's. It is refused by name
//! where it is read; within SQLite, where a payload has a column of its own, it does no harm.

use forkline_engines::{
    Context, CreateOptions, JsonlRepo, MemoryRepo, Repo, RepoOptions, SqliteRepo, transfer,
};
use forkline_model::{BranchName, ErrorKind, ForkOptions, Json};

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
