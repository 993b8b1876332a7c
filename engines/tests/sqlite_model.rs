//! Random sessions in both layouts against the model's maps: every commit answers as the model
//! does, every read gives what the model gives, the derived rows stand a recount, and every fork
//! is the model's.

#[path = "support/state.rs"]
mod state;

use std::path::Path;

use forkline_engines::sqlite::recount;
use forkline_engines::{
    Context, CreateOptions, ListFilter, MemoryRepo, Repo, RepoOptions, Session, SqliteRepo,
    SyncCommits,
};
use forkline_model::fork::{Birth, fork};
use forkline_model::state::State;
use forkline_model::{
    Address, BranchName, BranchScan, EntryId, EntryQuery, EntryType, ForkOptions, Json, LaneAudit,
    Limit, ListQuery, Namespace, NewEntry, NewUsage, Order, Seq, SeqQuery, TypeName, Write, policy,
};
use proptest::prelude::*;
use state::state_of;

/// Ids, namespaces and keys with all that SQL and URIs give a meaning to.
const IDS: [&str; 12] = [
    "a",
    "b",
    "A",
    "",
    "'; DROP TABLE entries; --",
    "../x",
    "a%b",
    "a_b",
    "\u{10ffff}",
    "e",
    "f",
    "g",
];
const NAMESPACES: [&str; 9] =
    ["app", "a_b", "a%", "A_B", "pi2", "pip.x", "pi.entry.label", "pi.session.name", "pi.result"];
const KEYS: [&str; 8] = ["", "a", "ab", "a%", "a_", "\u{d7ff}x", "\u{e000}", "b\"'"];

fn json() -> impl Strategy<Value = Json> {
    let texts = ["null", "1.0", "12345678901234567890123", "{\"b\":1,\"a\":[1e400],\"b\":2}"];
    prop::sample::select(texts.to_vec()).prop_map(|text| Json::parse(text).unwrap())
}

fn id() -> impl Strategy<Value = EntryId> {
    prop::sample::select(&IDS[..]).prop_map(|id| EntryId::new(id).unwrap())
}

fn address() -> impl Strategy<Value = Address> {
    (prop::sample::select(&NAMESPACES[..]), prop::sample::select(&KEYS[..]))
        .prop_map(|(namespace, key)| Address::new(namespace, key).unwrap())
}

fn entry() -> impl Strategy<Value = Write> {
    let kinds = ["message", "message", "compaction", "branch_summary", "custom", "strange"];
    (id(), prop::option::weighted(0.9, id()), prop::sample::select(kinds.to_vec()), any::<bool>())
        .prop_map(|(id, parent, kind, is_named)| {
            let entry_type = EntryType::new(kind).unwrap();
            let is_custom = is_named && entry_type == EntryType::Custom;
            let custom_type = is_custom.then(|| TypeName::new("mine").unwrap());
            let payload = Json::parse(r#"{"x":"\ud800", "x":1.10}"#).unwrap();
            Write::Entry(NewEntry::new(id, parent, entry_type, custom_type, payload).unwrap())
        })
}

fn usage() -> impl Strategy<Value = Write> {
    (id(), prop::option::of(id()), any::<bool>(), 0_u32..1000).prop_map(
        |(id, entry, adjustment, input)| {
            let usage = format!(r#"{{"input":{input}.1,"cost":{{"total":0.{input}}}}}"#);
            let usage = Json::parse(&usage).unwrap();
            Write::Usage(NewUsage::new(id, entry, adjustment, usage, None).unwrap())
        },
    )
}

/// A lane or a part of one.
fn lane() -> impl Strategy<Value = Write> {
    let rows = [policy::BRANCH_TIP, policy::LANE_CONFIG, policy::LANE_STATE];
    let names = ["main", "x'%"];
    (
        prop::sample::select(rows.to_vec()),
        prop::sample::select(names.to_vec()),
        prop::option::of(id()),
    )
        .prop_map(|(namespace, name, tip)| {
            let tip = tip.map_or_else(Json::null, |id| Json::string(id.as_str()));
            let empty = Json::parse("{}").unwrap();
            let value = if namespace == policy::BRANCH_TIP { tip } else { empty };
            Write::set(namespace, name, value).unwrap()
        })
}

fn write() -> impl Strategy<Value = Write> {
    prop_oneof![
        8 => entry(),
        2 => usage(),
        4 => lane(),
        3 => (address(), json()).prop_map(|(address, value)| Write::SetValue { address, value }),
        1 => address().prop_map(|address| Write::DeleteValue { address }),
        3 => (address(), json())
            .prop_map(|(address, value)| Write::AppendElement { address, value }),
        1 => address().prop_map(|address| Write::DeleteList { address }),
    ]
}

fn same_reads(session: &Session, model: &State) {
    assert_eq!(state_of(session), *model);
    assert_eq!(session.stats().unwrap(), model.stats());
    let ids: Vec<EntryId> = IDS.iter().map(|id| EntryId::new(id).unwrap()).collect();
    assert_eq!(session.get_entries(&ids).unwrap(), model.get_entries(&ids));
    for namespace in NAMESPACES {
        for prefix in KEYS {
            let name = Namespace::new(namespace).unwrap();
            assert_eq!(
                session.scan_values(namespace, prefix).unwrap(),
                model.scan_values(&name, prefix),
            );
        }
    }
    let cursors = [None, Seq::new(3).ok(), Seq::new(9).ok()];
    for order in [Order::Asc, Order::Desc] {
        for cursor in cursors {
            for limit in [Limit::default(), Limit::new(2).unwrap()] {
                let list = ListQuery { cursor, order, limit };
                for address in model.lists().keys() {
                    let found = session.read_list(address, &list).unwrap();
                    assert_eq!(found, model.read_list(address, &list));
                }
                let range = SeqQuery { from: cursor, to: Seq::new(12).ok(), order, limit };
                assert_eq!(session.scan_entries(&range).unwrap(), model.scan_entries(&range));
                assert_eq!(session.scan_usage(&range).unwrap(), model.scan_usage(&range));
                same_scans(session, model, order, cursor, limit);
            }
        }
    }
}

fn same_scans(session: &Session, model: &State, order: Order, cursor: Option<Seq>, limit: Limit) {
    for entry_type in [None, Some(EntryType::Message)] {
        for custom_type in [None, TypeName::new("mine").ok()] {
            let query =
                EntryQuery { entry_type: entry_type.clone(), custom_type, order, cursor, limit };
            assert_eq!(session.find_entries(&query).unwrap(), model.find_entries(&query));
            for start in IDS {
                for (stop_at_type, stop_at_id) in [
                    (None, None),
                    (Some(EntryType::Compaction), None),
                    (Some(EntryType::BranchSummary), EntryId::new("b").ok()),
                ] {
                    let start = EntryId::new(start).unwrap();
                    let query = query.clone();
                    let scan = BranchScan { start, stop_at_type, stop_at_id, query };
                    match (session.scan_branch(&scan), model.scan_branch(&scan)) {
                        (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{scan:?}"),
                        (Err(found), Err(expected)) => {
                            assert_eq!(found.to_string(), expected.to_string());
                        }
                        (found, expected) => panic!("{scan:?}: {found:?}, {expected:?}"),
                    }
                }
            }
        }
    }
}

fn forks(state: &State) -> Vec<ForkOptions> {
    let mut all = vec![ForkOptions::tree()];
    for name in ["main", "x'%"] {
        let branch = ForkOptions::branch(BranchName::new(name).unwrap());
        all.extend([branch.clone(), branch.clone().before_tip()]);
        for entry in state.entries().values() {
            all.push(branch.clone().at(entry.id.clone()));
            all.push(branch.clone().before(entry.id.clone()));
        }
    }
    all
}

/// A recount agrees, the session is listed, and once it is deleted nothing of it is left.
fn gone_when_deleted(repo: &SqliteRepo, session: &Session, root: &Path, is_shared: bool) {
    let cx = Context::new();
    let at = session.reference().clone();
    let found = recount(at.path().unwrap(), &at.metadata.id).unwrap();
    assert_eq!(found, [] as [String; 0]);
    session.close().unwrap();
    assert_eq!(repo.list(&ListFilter::default(), &cx).unwrap(), std::slice::from_ref(&at));
    repo.delete(&at, &cx).unwrap();
    assert_eq!(repo.list(&ListFilter::default(), &cx).unwrap(), []);
    if !is_shared {
        assert_eq!(std::fs::read_dir(root).unwrap().count(), 0, "nothing is left");
    }
}

fn check(commits: &[Vec<Write>], is_shared: bool) {
    let cx = Context::new();
    let folder = tempfile::tempdir().unwrap();
    // The name of the folder is no URI, whatever it looks like.
    let root = folder.path().join("a?mode=memory#%41");
    let options = || RepoOptions {
        sync_commits: if is_shared { SyncCommits::Yes } else { SyncCommits::No },
        lane_audit: if is_shared { LaneAudit::Strict } else { LaneAudit::Selected },
        ..RepoOptions::default()
    };
    let audit = options().lane_audit;
    let repo = if is_shared {
        SqliteRepo::shared_with(root.join("all?x#%.db"), options()).unwrap()
    } else {
        SqliteRepo::per_file_with(&root, options()).unwrap()
    };
    let mut session = repo.create(&CreateOptions::default(), &cx).unwrap();
    let mut model = State::new(session.metadata().clone());
    for (number, writes) in commits.iter().enumerate() {
        let now = forkline_model::Millis::new(0).unwrap();
        match session.commit(writes, &cx) {
            Ok(made) => {
                let expected = model.apply(writes, made.timestamp).unwrap();
                assert_eq!((made.first_seq, made.writes), (expected.first_seq, expected.writes));
            }
            Err(error) => {
                let expected = model.apply(writes, now).unwrap_err();
                assert_eq!(error.to_string(), expected.to_string());
            }
        }
        if number % 8 == 5 {
            session.close().unwrap();
            session = repo.open(session.reference(), &cx).unwrap();
        }
    }
    same_reads(&session, &model);
    for options in forks(&model) {
        let birth = |metadata: &forkline_model::Metadata| Birth {
            id: metadata.id.clone(),
            created_at: metadata.created_at,
            cwd: None,
        };
        match repo.fork(&session, &options, &cx) {
            Ok(made) => {
                let expected = fork(&model, &options, audit, birth(made.metadata()));
                assert_eq!(Ok(state_of(&made)), expected, "{options:?}");
                same_elsewhere(&repo, &made, &model, &options);
                let at = made.reference();
                let found = recount(at.path().unwrap(), &at.metadata.id).unwrap();
                assert_eq!(found, [] as [String; 0], "{options:?}");
                let at = at.clone();
                made.close().unwrap();
                repo.delete(&at, &cx).unwrap();
            }
            Err(error) => {
                let birth = birth(session.metadata());
                let expected = fork(&model, &options, audit, birth).unwrap_err();
                assert_eq!(error.to_string(), expected.to_string(), "{options:?}");
            }
        }
    }
    gone_when_deleted(&repo, &session, &root, is_shared);
}

/// The same fork by way of memory: rows leave a stage one by one, and come into one.
fn same_elsewhere(repo: &SqliteRepo, direct: &Session, model: &State, options: &ForkOptions) {
    let cx = Context::new();
    let memory = MemoryRepo::new();
    let whole =
        |session: &Session, into: &dyn Repo| into.fork(session, &ForkOptions::tree(), &cx).unwrap();
    let there = whole(direct, &memory);
    let back = whole(&there, repo);
    let birth = |session: &Session| Birth {
        id: session.metadata().id.clone(),
        created_at: session.metadata().created_at,
        cwd: None,
    };
    let first = fork(model, options, LaneAudit::Selected, birth(direct)).unwrap();
    let tree = ForkOptions::tree();
    let second = fork(&first, &tree, LaneAudit::Selected, birth(&there)).unwrap();
    assert_eq!(state_of(&there), second);
    let third = fork(&second, &tree, LaneAudit::Selected, birth(&back)).unwrap();
    assert_eq!(state_of(&back), third);
    let at = back.reference().clone();
    back.close().unwrap();
    assert_eq!(recount(at.path().unwrap(), &at.metadata.id).unwrap(), [] as [String; 0]);
    repo.delete(&at, &cx).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn sessions_are_the_models(
        commits in prop::collection::vec(prop::collection::vec(write(), 1..4), 1..40),
        is_shared in any::<bool>(),
    ) {
        check(&commits, is_shared);
    }
}

/// Branches over compactions, deep enough for segments that stand on segments; and a shared path
/// longer than one copying statement of the index takes.
#[test]
fn segments_stand_on_compactions() {
    let cx = Context::new();
    let folder = tempfile::tempdir().unwrap();
    let repo = SqliteRepo::per_file(folder.path()).unwrap();
    let session = repo.create(&CreateOptions::default(), &cx).unwrap();
    let entry = |id: String, parent: Option<String>, kind: &str| {
        let parent = parent.map(|parent| EntryId::new(parent).unwrap());
        let payload = Json::parse("{}").unwrap();
        let kind = EntryType::new(kind).unwrap();
        let new = NewEntry::new(EntryId::new(id).unwrap(), parent, kind, None, payload).unwrap();
        Write::Entry(new)
    };
    let mut writes = Vec::new();
    for number in 0..5000_u32 {
        let parent = number.checked_sub(1).map(|number| format!("m{number}"));
        let kind = if number == 4000 { "compaction" } else { "message" };
        writes.push(entry(format!("m{number}"), parent, kind));
    }
    for (name, parent) in
        [("x", "m3999"), ("y", "m4000"), ("z", "m4500"), ("zz", "m4499"), ("w", "z"), ("v", "z")]
    {
        writes.push(entry(name.into(), Some(parent.into()), "message"));
    }
    writes.push(entry("c".into(), Some("v".into()), "compaction"));
    writes.push(entry("d".into(), Some("c".into()), "message"));
    writes.push(entry("e".into(), Some("c".into()), "message"));
    session.commit(&writes, &cx).unwrap();
    let mut model = State::new(session.metadata().clone());
    model.apply(&writes, session.scan_entries(&SeqQuery::default()).unwrap()[0].timestamp).unwrap();
    for start in ["x", "y", "z", "zz", "w", "v", "c", "d", "e", "m4999"] {
        for order in [Order::Asc, Order::Desc] {
            let limit = Limit::new(10_000).unwrap();
            let query = EntryQuery { order, limit, ..EntryQuery::default() };
            let start = EntryId::new(start).unwrap();
            for stop_at_type in [None, Some(EntryType::Compaction)] {
                let query = query.clone();
                let scan =
                    BranchScan { start: start.clone(), stop_at_type, stop_at_id: None, query };
                assert_eq!(session.scan_branch(&scan).unwrap(), model.scan_branch(&scan).unwrap());
            }
        }
    }
    let bases: Vec<(String, Option<String>, Option<i64>)> = {
        let conn = rusqlite::Connection::open(session.reference().path().unwrap()).unwrap();
        let mut read = conn
            .prepare("SELECT branch_id, base_branch_id, base_seq FROM branch_meta ORDER BY 1")
            .unwrap();
        let rows = read.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
        rows.map(Result::unwrap).collect()
    };
    let base = |name: &str, base: Option<(&str, i64)>| {
        (name.to_owned(), base.map(|base| base.0.to_owned()), base.map(|base| base.1))
    };
    let expected = [
        base("e", Some(("v", 5007))),
        base("m0", None),
        base("v", Some(("m0", 4001))),
        base("x", None),
        base("y", Some(("m0", 4001))),
        base("z", Some(("m0", 4001))),
        base("zz", Some(("m0", 4001))),
    ];
    assert_eq!(bases, expected);
}
