//! What speaks against a fork, and which of several faults is told, in every backend and as the
//! model says (contract §3.4, §3.5, §5.2).
//!
//! Each backend finds faults in an order of its own: by address, by hash, by row. Random sessions
//! seldom hold two faults at once, and then either one would do; here they always do.

#[path = "support/state.rs"]
mod state;

use std::sync::{Arc, Mutex};

use forkline_engines::{
    Context, CreateOptions, JsonlRepo, MemoryRepo, Milestone, Observer, Progress, Repo,
    RepoOptions, Session, SessionRef, SqliteRepo, transfer,
};
use forkline_model::address::SEQ_MAX;
use forkline_model::fork::{Birth, fork};
use forkline_model::{
    BranchName, EntryId, ErrorKind, ForkOptions, Json, LaneAudit, SessionId, Write, policy,
};
use state::state_of;

fn set(namespace: &str, key: &str, value: &str) -> Write {
    Write::set(namespace, key, Json::parse(value).unwrap()).unwrap()
}

fn append(namespace: &str, key: &str) -> Write {
    Write::append(namespace, key, Json::null()).unwrap()
}

fn entry(id: &str, parent: Option<&str>) -> Write {
    let parent = parent.map_or_else(Json::null, Json::string);
    let line = format!(
        r#"{{"kind":"entry","id":"{id}","parentId":{parent},"type":"message","message":{{}}}}"#
    );
    Write::from_jsonl(&line).unwrap()
}

/// The rows of a lane that are named: `t`ip, `c`onfiguration, `s`tate.
fn lane(branch: &str, rows: &str, tip: &str) -> Vec<Write> {
    let row = |row| match row {
        't' => set(policy::BRANCH_TIP, branch, tip),
        'c' => set(policy::LANE_CONFIG, branch, "{}"),
        _ => set(policy::LANE_STATE, branch, "{}"),
    };
    rows.chars().map(row).collect()
}

struct Backends {
    _folder: tempfile::TempDir,
    repos: Vec<(&'static str, Box<dyn Repo>)>,
}

fn backends(lane_audit: LaneAudit) -> Backends {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let cwd = Some("/demo".to_owned());
    let options = || RepoOptions { lane_audit, cwd: cwd.clone(), ..RepoOptions::default() };
    let repos: Vec<(_, Box<dyn Repo>)> = vec![
        ("memory", Box::new(MemoryRepo::with(options()))),
        ("jsonl", Box::new(JsonlRepo::with(at("jsonl"), options()).unwrap())),
        ("sqlite", Box::new(SqliteRepo::per_file_with(at("files"), options()).unwrap())),
        ("shared", Box::new(SqliteRepo::shared_with(at("all.db"), options()).unwrap())),
    ];
    Backends { _folder: folder, repos }
}

/// Forks `session` as the model forks `state`; gives back what was made.
fn same_as_model(
    into: &dyn Repo,
    session: &Session,
    options: &ForkOptions,
    audit: LaneAudit,
    what: &str,
) -> Option<Session> {
    let state = state_of(session);
    let made = into.fork(session, options, &Context::new());
    let metadata = made.as_ref().map_or_else(|_| session.metadata(), |made| made.metadata());
    let (id, created_at, cwd) = (metadata.id.clone(), metadata.created_at, metadata.cwd.clone());
    match (made, fork(&state, options, audit, Birth { id, created_at, cwd })) {
        (Ok(made), Ok(expected)) => {
            assert_eq!(state_of(&made), expected, "{what}");
            Some(made)
        }
        (Err(found), Err(expected)) => {
            assert_eq!(found.kind(), expected.kind(), "{what}: {found}");
            assert_eq!(found.to_string(), expected.to_string(), "{what}");
            None
        }
        (found, expected) => {
            panic!("{what}: {:?}, not {expected:?}", found.map(|made| state_of(&made)))
        }
    }
}

fn all_options() -> Vec<ForkOptions> {
    let branch = |name| ForkOptions::branch(BranchName::new(name).unwrap());
    let id = |name| EntryId::new(name).unwrap();
    vec![
        ForkOptions::tree(),
        branch("a"),
        branch("b"),
        branch("b").before_tip(),
        branch("b").at(id("e1")),
        branch("b").before(id("e1")),
        branch("b").at(id("e3")),
        branch("b").before(id("e3")),
    ]
}

#[test]
fn of_several_faults_all_backends_tell_the_models() {
    let entries = [entry("e1", None), entry("e2", Some("e1")), entry("e3", Some("e1"))];
    let unknown = "\"nobody\"";
    let cases: Vec<Vec<Write>> = vec![
        lane("b", "tcs", "\"e2\""),
        // Unknown reserved state: the lowest seq counts, not the first address.
        [lane("b", "tcs", "\"e2\""), vec![set("pi.z", "k", "1"), set("pi.a", "k", "1")]].concat(),
        [lane("b", "tcs", "null"), vec![append("pi.z", "k"), set("pi.a", "k", "1")]].concat(),
        [lane("b", "tcs", "\"e2\""), vec![set("pi", "z", "1"), append("pi", "a")]].concat(),
        // Of a list its first surviving element counts.
        vec![append("pi.z", "k"), set("pi.m", "k", "1"), Write::delete_list("pi.z", "k").unwrap()],
        vec![append("pi.z", "k"), set("pi.m", "k", "1"), append("pi.z", "k")],
        // The lane comes before reserved state, its shape before its tip.
        [vec![set("pi.z", "k", "1")], lane("b", "tc", unknown)].concat(),
        [vec![set("pi.z", "k", "1")], lane("b", "tcs", unknown)].concat(),
        lane("b", "tc", unknown),
        lane("b", "ts", "7"),
        lane("b", "tcs", "7"),
        lane("b", "cs", "null"),
        lane("b", "t", unknown),
        // The lowest name counts, not the first row.
        [lane("b", "tc", "\"e1\""), lane("a", "tcs", unknown)].concat(),
        [lane("b", "tcs", unknown), lane("a", "ts", "\"e1\"")].concat(),
        [lane("b", "tcs", "7"), lane("a", "tcs", unknown)].concat(),
        [lane("b", "tcs", "null"), lane("a", "c", "null")].concat(),
        // Only current rows count.
        [lane("b", "tc", "7"), lane("b", "tcs", "\"e3\"")].concat(),
        [lane("b", "tcs", unknown), lane("b", "t", "\"e3\"")].concat(),
        // A row at the empty key is no lane.
        [lane("b", "tcs", "\"e3\""), vec![set(policy::LANE_CONFIG, "", "{}")]].concat(),
    ];
    for audit in [LaneAudit::Selected, LaneAudit::Strict] {
        let Backends { repos, _folder } = backends(audit);
        for (nth, case) in cases.iter().enumerate() {
            let writes = [&entries[..], case].concat();
            for (name, repo) in &repos {
                let cx = Context::new();
                let session = repo.create(&CreateOptions::new("/demo"), &cx).unwrap();
                session.commit(&writes, &cx).unwrap();
                for options in all_options() {
                    let what = format!("{name}, case {nth}, {audit:?}, {:?}", options.scope);
                    same_as_model(&**repo, &session, &options, audit, &what);
                }
            }
        }
    }
}

/// A session of the last seq that there is can be forked; one that has none left cannot.
#[test]
fn the_last_seq_can_be_forked_and_none_cannot() {
    let Backends { repos, _folder } = backends(LaneAudit::Selected);
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("--demo--")).unwrap();
    let header = format!(
        r#"{{"v":4,"kind":"header","id":"full","storageVersion":1,"createdAt":1,"cwd":"/demo","nextSeq":{SEQ_MAX}}}"#
    );
    let file = folder.path().join("--demo--").join("1970-01-01T00-00-00-001Z_full.jsonl");
    std::fs::write(file, format!("{header}\n")).unwrap();
    let full = JsonlRepo::open(folder.path()).unwrap();
    let cx = Context::new();
    let at: SessionRef = full.find(&SessionId::new("full").unwrap(), &cx).unwrap();
    for (name, repo) in &repos {
        let there = transfer::fork(&full, &at, &**repo, &ForkOptions::tree(), &cx).unwrap();
        assert_eq!(there.next_seq().unwrap(), SEQ_MAX, "{name}");
        let audit = LaneAudit::Selected;
        for (_, into) in &repos {
            let made = same_as_model(&**into, &there, &ForkOptions::tree(), audit, name);
            assert_eq!(made.unwrap().next_seq().unwrap(), SEQ_MAX, "{name}");
        }
        there.commit(&[set("app", "k", "1")], &cx).unwrap();
        for (_, into) in &repos {
            let made = same_as_model(&**into, &there, &ForkOptions::tree(), audit, name);
            assert!(made.is_none(), "{name}");
        }
    }
}

/// Keeps what one fork tells: its milestones, and none for some rows more.
#[derive(Default)]
struct Heard(Mutex<Vec<Option<Milestone>>>);

impl Observer for Heard {
    fn progress(&self, _progress: Progress) {
        self.0.lock().unwrap().push(None);
    }

    fn reached(&self, milestone: Milestone) {
        self.0.lock().unwrap().push(Some(milestone));
    }
}

impl Heard {
    fn milestones(&self) -> Vec<Milestone> {
        self.0.lock().unwrap().iter().flatten().copied().collect()
    }

    /// Whether rows were looked at before the source was said to be captured.
    fn is_planned_early(&self) -> bool {
        let heard = self.0.lock().unwrap();
        let captured = heard.iter().position(|told| *told == Some(Milestone::Captured));
        heard.iter().position(Option::is_none) < captured
    }
}

/// Who is told that an open source is captured need not wait for the plan. A closed database is
/// the one source that others may write while it is read: it is planned first.
#[test]
fn a_source_that_is_held_is_captured_before_it_is_planned() {
    use Milestone::{Captured, Planned, Published, Reserved, Staged};
    let Backends { repos, _folder } = backends(LaneAudit::Selected);
    let cx = Context::new();
    for (name, from) in &repos {
        let session = from.create(&CreateOptions::new("/demo"), &cx).unwrap();
        session.commit(&[entry("e", None), set("app", "k", "1")], &cx).unwrap();
        let stored = session.reference().clone();
        let forks = |fork: &dyn Fn(&dyn Repo, &ForkOptions, &Context) -> Option<ErrorKind>| {
            let mut early = Vec::new();
            for (_, into) in &repos {
                let heard = Arc::new(Heard::default());
                let told = Context::new().with_observer(heard.clone());
                let nowhere = ForkOptions::branch(BranchName::new("nowhere").unwrap());
                assert_eq!(fork(&**into, &nowhere, &told), Some(ErrorKind::UnknownBranch));
                assert_eq!(heard.milestones(), [Reserved, Captured], "{name}");
                let heard = Arc::new(Heard::default());
                let told = Context::new().with_observer(heard.clone());
                assert_eq!(fork(&**into, &ForkOptions::tree(), &told), None);
                let all = [Reserved, Captured, Planned, Staged, Published];
                assert_eq!(heard.milestones(), all, "{name}");
                early.push(heard.is_planned_early());
            }
            early
        };
        let open = forks(&|into, options, cx| {
            into.fork_unopened(&session, options, cx).err().map(|error| error.kind())
        });
        assert_eq!(open, [false; 4], "{name}");
        session.close().unwrap();
        let closed = forks(&|into, options, cx| {
            let made = transfer::fork_unopened(&**from, &stored, into, options, cx);
            made.err().map(|error| error.kind())
        });
        assert_eq!(closed, [*name == "sqlite" || *name == "shared"; 4], "{name}");
    }
}
