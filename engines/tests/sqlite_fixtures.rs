//! Files of pi 0.87.1: each opens with the logical state that its writer saw, and every fork of
//! it is the model's fork of that state, with a branch index that a recount confirms.

#[path = "support/state.rs"]
mod state;

use std::path::{Path, PathBuf};

use forkline_engines::sqlite::recount;
use forkline_engines::{
    Context, CreateOptions, ListFilter, Repo, RepoOptions, Session, SessionRef, SqliteRepo,
};
use forkline_model::fork::{Birth, fork};
use forkline_model::state::State;
use forkline_model::{BranchName, ForkOptions, Json, LaneAudit, Metadata, Millis, SessionId};
use serde_json::value::RawValue;
use state::state_of;

fn fixtures() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let given = std::env::var_os("FORKLINE_FIXTURES").map(PathBuf::from);
    let known = [workspace.join("../shared/fixtures"), workspace.join("tests/fixtures")];
    let root = given.into_iter().chain(known).find(|path| path.is_dir());
    root.expect("a fixtures folder").join("pi-0.87.1")
}

/// Whether all files are there, or those only that ship with the project.
fn are_all_there() -> bool {
    !fixtures().ends_with("tests/fixtures/pi-0.87.1")
}

/// A copy of a fixture in a repository of its own, and the sessions in it.
fn open_copy(path: &Path) -> (tempfile::TempDir, SqliteRepo, Vec<SessionRef>) {
    let folder = tempfile::tempdir().unwrap();
    let is_shared = path.file_stem().unwrap() == "shared-container";
    let copy = folder.path().join(path.file_name().unwrap());
    std::fs::copy(path, &copy).unwrap();
    let mut permissions = std::fs::metadata(&copy).unwrap().permissions();
    #[expect(clippy::permissions_set_readonly_false, reason = "a private copy")]
    permissions.set_readonly(false);
    std::fs::set_permissions(&copy, permissions).unwrap();
    let repo = if is_shared {
        SqliteRepo::shared(&copy).unwrap()
    } else {
        let sessions =
            SqliteRepo::shared(&copy).unwrap().list(&ListFilter::default(), &Context::new());
        let sessions = sessions.unwrap();
        assert_eq!(sessions.len(), 1, "{}", path.display());
        // Fixtures are named after their content, sessions after their ids.
        let named = SqliteRepo::per_file(folder.path().join("named")).unwrap();
        let made = named.create(
            &CreateOptions::default().with_id(sessions[0].metadata.id.clone()),
            &Context::new(),
        );
        let at = made.unwrap().reference().path().unwrap().to_owned();
        std::fs::rename(&copy, at).unwrap();
        named
    };
    let sessions = repo.list(&ListFilter::default(), &Context::new()).unwrap();
    (folder, repo, sessions)
}

fn counted_state_of(session: &Session) -> State {
    let state = state_of(session);
    assert_eq!(state.stats(), session.stats().unwrap());
    state
}

fn raw(object: &RawValue) -> std::collections::BTreeMap<String, Box<RawValue>> {
    serde_json::from_str(object.get()).unwrap()
}

fn same(left: &str, right: &RawValue, what: &str) {
    let (left, right) = (Json::parse(left).unwrap(), Json::parse(right.get()).unwrap());
    assert!(left.equals_as_doubles(&right), "{what}: {left} is not {right}");
}

/// Compares with the `state.json` that the fixture's writer gave.
fn compare(state: &State, expected: &RawValue) {
    let expected = raw(expected);
    assert_eq!(state.next_seq().to_string(), expected["nextSeq"].get());
    let entries: Vec<Box<RawValue>> = serde_json::from_str(expected["entries"].get()).unwrap();
    assert_eq!(state.entries().len(), entries.len());
    for (entry, expected) in state.entries().values().zip(&entries) {
        let line = entry.to_jsonl().replacen("\"kind\":\"entry\",", "", 1);
        same(&line, expected, "entry");
    }
    let values: Vec<Box<RawValue>> = serde_json::from_str(expected["values"].get()).unwrap();
    assert_eq!(state.values().len(), values.len());
    for expected in &values {
        let expected = raw(expected);
        let text = |name: &str| serde_json::from_str::<String>(expected[name].get()).unwrap();
        let address = forkline_model::Address::new(text("namespace"), text("key")).unwrap();
        let (seq, value) = state.get_value(&address).unwrap();
        assert_eq!(seq.to_string(), expected["seq"].get());
        same(value.as_str(), &expected["value"], "value");
    }
    let lists: Vec<Box<RawValue>> = serde_json::from_str(expected["lists"].get()).unwrap();
    assert_eq!(state.lists().len(), lists.len());
    for expected in &lists {
        let expected = raw(expected);
        let text = |name: &str| serde_json::from_str::<String>(expected[name].get()).unwrap();
        let address = forkline_model::Address::new(text("namespace"), text("key")).unwrap();
        let elements: Vec<(u64, Box<RawValue>)> =
            serde_json::from_str(expected["elements"].get()).unwrap();
        let found = &state.lists()[&address];
        assert_eq!(found.len(), elements.len());
        for ((seq, value), (expected_seq, expected)) in found.iter().zip(&elements) {
            assert_eq!(seq.get(), *expected_seq);
            same(value.as_str(), expected, "element");
        }
    }
    let usage: Vec<Box<RawValue>> = serde_json::from_str(expected["usage"].get()).unwrap();
    assert_eq!(state.ledger().len(), usage.len());
    let sums = serde_json::to_string(&state.stats()).unwrap();
    same(&sums, &expected["stats"], "stats");
}

fn each_fixture(check: impl Fn(&Path, &SqliteRepo, &SessionRef)) -> usize {
    let mut count = 0;
    for file in std::fs::read_dir(fixtures()).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "sqlite") {
            let (_folder, repo, sessions) = open_copy(&path);
            assert!(!sessions.is_empty(), "{} lists nothing", path.display());
            for session in &sessions {
                check(&path, &repo, session);
                count += 1;
            }
        }
    }
    count
}

#[test]
fn every_file_opens_with_its_writers_state() {
    let count = each_fixture(|path, repo, at| {
        let session = repo.open(at, &Context::new()).unwrap();
        let state = counted_state_of(&session);
        let expected = std::fs::read_to_string(path.with_extension("state.json")).unwrap();
        let expected: Box<RawValue> = serde_json::from_str(&expected).unwrap();
        if path.file_stem().unwrap() == "shared-container" {
            compare(&state, &raw(&expected)[at.metadata.id.as_str()]);
        } else {
            compare(&state, &expected);
        }
        session.close().unwrap();
        let found = recount(at.path().unwrap(), &at.metadata.id).unwrap();
        assert_eq!(found, [] as [String; 0], "{}", path.display());
    });
    let least = if are_all_there() { 26 } else { 8 };
    assert!(count >= least, "only {count} sessions");
}

/// All scopes: the tree, and every name with a lane row, at its tip and before it, and at and
/// before every entry.
fn all_options(state: &State) -> Vec<ForkOptions> {
    let mut all = vec![ForkOptions::tree()];
    let mut names: Vec<BranchName> =
        forkline_model::lanes::lanes(state).into_iter().map(|lane| lane.branch).collect();
    names.push(BranchName::new("no such branch").unwrap());
    for name in names {
        let branch = ForkOptions::branch(name);
        all.push(branch.clone());
        all.push(branch.clone().before_tip());
        for entry in state.entries().values() {
            all.push(branch.clone().at(entry.id.clone()));
            all.push(branch.clone().before(entry.id.clone()));
        }
    }
    all
}

#[test]
fn every_fork_is_the_models() {
    let cx = Context::new();
    let (mut forks, mut refusals) = (0, 0);
    let mut run = |path: &Path, repo: &SqliteRepo, at: &SessionRef| {
        let state = {
            let session = repo.open(at, &cx).unwrap();
            counted_state_of(&session)
        };
        let before = std::fs::read(at.path().unwrap()).unwrap();
        for audit in [LaneAudit::Selected, LaneAudit::Strict] {
            let folder = tempfile::tempdir().unwrap();
            let options = || RepoOptions { lane_audit: audit, ..RepoOptions::default() };
            let per_file = SqliteRepo::per_file_with(folder.path().join("a"), options()).unwrap();
            let shared = SqliteRepo::shared_with(folder.path().join("b/all"), options()).unwrap();
            let mut all = all_options(&state);
            if audit == LaneAudit::Strict {
                // The audit is about trees (contract §3.5).
                all.truncate(2);
            }
            for (number, options) in all.into_iter().enumerate() {
                let birth = |metadata: &Metadata| Birth {
                    id: metadata.id.clone(),
                    created_at: metadata.created_at,
                    cwd: None,
                };
                let repos = [&per_file, &shared];
                for into in repos.into_iter().skip(number % 2).take(if number == 0 { 2 } else { 1 })
                {
                    let made = forkline_engines::transfer::fork(repo, at, into, &options, &cx);
                    let context = format!("{} {options:?} {audit:?}", path.display());
                    match made {
                        Ok(session) => {
                            let birth = birth(session.metadata());
                            let expected = fork(&state, &options, audit, birth);
                            assert_eq!(Ok(counted_state_of(&session)), expected, "{context}");
                            let reference = session.reference().clone();
                            session.close().unwrap();
                            let id = &reference.metadata.id;
                            let found = recount(reference.path().unwrap(), id).unwrap();
                            assert_eq!(found, [] as [String; 0], "{context}");
                            forks += 1;
                        }
                        Err(error) => {
                            let birth = Birth {
                                id: SessionId::new("x").unwrap(),
                                created_at: Millis::EPOCH,
                                cwd: None,
                            };
                            let expected = fork(&state, &options, audit, birth).unwrap_err();
                            assert_eq!(error.to_string(), expected.to_string(), "{context}");
                            refusals += 1;
                        }
                    }
                }
            }
        }
        assert_eq!(std::fs::read(at.path().unwrap()).unwrap(), before, "{}", path.display());
    };
    let run = std::cell::RefCell::new(&mut run);
    each_fixture(|path, repo, at| (*run.borrow_mut())(path, repo, at));
    let least = if are_all_there() { 200 } else { 120 };
    assert!(forks > least && refusals > least, "{forks} forks, {refusals} refusals");
}

/// What the peer's own SQLite forks hold, it holds here too (differences.md: but for lists, and
/// seqs of values).
#[test]
fn files_of_the_peer_have_the_schema_that_is_made_here() {
    let folder = tempfile::tempdir().unwrap();
    let repo = SqliteRepo::per_file(folder.path()).unwrap();
    let made = repo.create(&CreateOptions::default(), &Context::new()).unwrap();
    let ours = made.reference().path().unwrap().to_owned();
    made.close().unwrap();
    drop(made);
    let objects = |path: &Path| -> Vec<(String, String, String)> {
        let uri = format!("file:{}?immutable=1", path.display());
        let conn = rusqlite::Connection::open(uri).unwrap();
        let mut read =
            conn.prepare("SELECT type, name, sql FROM sqlite_schema ORDER BY name").unwrap();
        let rows = read.query_map([], |row| {
            let sql: String = row.get(2)?;
            let sql = sql.split_whitespace().collect::<String>();
            Ok((row.get(0)?, row.get(1)?, sql))
        });
        rows.unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(objects(&ours), objects(&fixtures().join("one-branch.sqlite")));
    let bytes = std::fs::read(&ours).unwrap();
    assert_eq!(bytes.len(), 61_440, "as in peer files");
    assert_eq!(&bytes[18..20], [2, 2], "WAL mode");
}
