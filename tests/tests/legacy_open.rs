//! Legacy sessions in use: reads before the upgrade, the upgrade by the first commit, and what a
//! failure at any step of it leaves.
//!
//! What goes wrong otherwise: a file that is upgraded by looking at it, ids that change under a
//! caller, usage that is lost or counted twice, a crash between the old file and the new one.

#[path = "support/legacy.rs"]
mod support;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use forkline_engines::fs::{FailingFs, Fault};
use forkline_engines::{
    Context, Error, JsonlRepo, ListFilter, Repo, RepoOptions, Session, SessionRef, StateRow,
    SyncCommits,
};
use forkline_gate::plain_legacy::generate::{Wanted, generate};
use forkline_gate::plain_legacy::{Mode, import_counted};
use forkline_model::diff::{Compare, diff};
use forkline_model::{
    BranchName, EntryId, ErrorKind, ForkOptions, Json, NewUsage, Seq, SessionId, State, Usage,
    Write,
};
use proptest::prelude::*;
use support::{environment, listed, picker, repo, root_with, state_of};

fn first_write() -> Write {
    Write::set("app", "first", Json::string("write after import")).expect("valid")
}

/// The model's session after the upgrade with one commit.
fn upgraded(state: &State, usage: &Usage, entries: usize) -> State {
    let mut after = state.clone();
    let details = Json::parse(r#"{"source":"v3-import"}"#).expect("JSON");
    let id = EntryId::new(format!("n{entries}")).expect("an id");
    let row = NewUsage::new(id, None, true, usage.to_json(), Some(details)).expect("a row");
    let writes = [Write::Usage(row), first_write()];
    after.apply(&writes, support::time()).expect("it can be applied");
    after
}

fn same(left: &State, right: &State) {
    let diff = diff(left, right, &Compare::default());
    assert!(diff.is_empty(), "{diff}");
}

fn open(root: &Path, at: &SessionRef) -> Result<Session, Error> {
    repo(root).open(at, &Context::new())
}

/// Opens, looks, commits nothing, forks, commits, forks, and opens again.
fn live(bytes: &[u8]) {
    let cx = Context::new();
    let root = root_with(bytes);
    let Some(at) = listed(root.path()) else { return };
    let path = at.path().expect("a file").to_owned();
    let Ok(found) = import_counted(bytes, Mode::Refuse) else {
        let error = open(root.path(), &at).map(|_| ()).expect_err("it is damaged");
        assert_eq!(error.kind(), ErrorKind::CorruptSource);
        return;
    };
    let usage = found.usage.expect("generated usage can be summed");
    let repo = repo(root.path());
    let session = repo.open(&at, &cx).expect("it is sound");
    same(&state_of(&session), &found.state);
    let stats = session.stats().expect("it is open");
    assert_eq!(stats.usage, usage);
    assert_eq!(stats.message_count, found.state.stats().message_count);
    session.commit(&[], &cx).expect("an empty commit is legal");
    let tree = ForkOptions::tree().with_id(SessionId::new("fork").expect("an id"));
    let error = repo.fork(&session, &tree, &cx).map(|_| ()).expect_err("its ids are not stable");
    assert_eq!(error.kind(), ErrorKind::OpenLegacySource);
    assert_eq!(fs::read(&path).expect("still there"), bytes);

    let committed = session.commit(&[first_write()], &cx).expect("it can be upgraded");
    let expected = upgraded(&found.state, &usage, found.state.entries().len());
    same(&state_of(&session), &expected);
    assert_eq!(committed.writes, 1);
    assert_eq!(committed.first_seq.map(Seq::get), Some(expected.next_seq() - 1));
    assert_eq!(session.stats().expect("it is open"), expected.stats());
    let names: Vec<_> = fs::read_dir(path.parent().expect("a folder")).expect("it").collect();
    assert_eq!(names.len(), 1, "nothing but the session is left: {names:?}");

    let fork = repo.fork(&session, &tree, &cx).expect("its ids are stable now");
    let ids = |state: &State| state.entries().values().map(|e| e.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&state_of(&fork)), ids(&expected));
    let again = session.commit(&[first_write()], &cx).expect("an ordinary commit");
    assert_eq!(again.first_seq.map(Seq::get), Some(expected.next_seq()));
    let mut expected = expected;
    expected.apply(&[first_write()], support::time()).expect("it can be applied");
    session.close().expect("it can be closed");
    let session = open(root.path(), &listed_again(root.path())).expect("it is of format 4 now");
    same(&state_of(&session), &expected);
}

fn listed_again(root: &Path) -> SessionRef {
    let found = repo(root).list(&ListFilter::default(), &Context::new()).expect("it can be read");
    found.into_iter().find(|stored| stored.metadata.id.as_str() != "fork").expect("it is listed")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_sessions_are_read_and_upgraded(
        version in 1_u32..=3,
        records_max in 1_u32..24,
        is_damaged in prop::bool::weighted(0.1),
        seed in any::<u64>(),
    ) {
        let bytes = generate(Wanted { version, records_max, is_damaged }, &mut picker(seed));
        println!("{}", String::from_utf8_lossy(&bytes));
        live(&bytes);
    }
}

const SMALL: &[u8] = b"{\"type\":\"session\",\"version\":3,\"id\":\"legacy\",\"timestamp\":\"2024-03-01T09:00:00.000Z\",\"cwd\":\"/w\"}
{\"type\":\"message\",\"id\":\"a\",\"parentId\":null,\"timestamp\":\"2024-03-01T09:00:00.000Z\",\"message\":{\"role\":\"assistant\",\"usage\":{\"input\":3}}}
{\"type\":\"message\",\"id\":\"b\",\"parentId\":\"a\",\"timestamp\":\"2024-03-01T09:00:00.000Z\",\"message\":{\"role\":\"user\"}}
{\"type\":\"mess";

/// Every operation of the upgrade fails once, and then sticks: the old file or the new one.
#[test]
fn a_failure_at_any_step_leaves_the_old_file_or_the_new_one() {
    let cx = Context::new();
    let found = import_counted(SMALL, Mode::Refuse).expect("it is sound");
    let usage = found.usage.expect("it can be summed");
    let after = upgraded(&found.state, &usage, 2);
    let mut steps = 0;
    for sync_commits in [SyncCommits::No, SyncCommits::Yes] {
        for sticky in [false, true] {
            for torn_bytes in [0, 7] {
                let mut at = 0;
                loop {
                    let root = root_with(SMALL);
                    let reference = listed(root.path()).expect("it is listed");
                    let fs = FailingFs::new();
                    let environment = environment();
                    let options =
                        RepoOptions { environment, sync_commits, ..RepoOptions::default() };
                    let repo = JsonlRepo::with_fs(root.path(), options, Arc::new(fs.clone()))
                        .expect("a root");
                    let session = repo.open(&reference, &cx).expect("nothing fails yet");
                    fs.arm(Some(Fault { at, errno: 5, sticky, torn_bytes }));
                    let committed = session.commit(&[first_write()], &cx);
                    let (count, log) = (fs.count(), fs.log());
                    fs.arm(None);
                    if committed.is_ok() {
                        // Nothing gets the session's name before it is synced.
                        let at = |operation| log.iter().position(|found| *found == operation);
                        assert!(at("sync").is_some() && at("sync") < at("rename_over"), "{log:?}");
                    }
                    let bytes = fs::read(reference.path().expect("a file")).expect("still there");
                    let is_old = bytes == SMALL;
                    match &committed {
                        Ok(_) => assert!(!is_old, "step {at}: a commit that returned is there"),
                        Err(Error::DurabilityUncertain { .. }) => assert!(!is_old, "step {at}"),
                        Err(_) => assert!(is_old, "step {at}: {committed:?}"),
                    }
                    // The handle goes on with what is there.
                    let seen = state_of(&session);
                    same(&seen, if is_old { &found.state } else { &after });
                    session.close().expect("it can be closed");
                    drop((session, repo));
                    let session = open(root.path(), &reference).expect("it is whole");
                    same(&state_of(&session), if is_old { &found.state } else { &after });
                    let folder = reference.path().and_then(Path::parent).expect("a folder");
                    assert_eq!(
                        fs::read_dir(folder).expect("it").count(),
                        1,
                        "step {at}: leftovers"
                    );
                    if at >= count {
                        break;
                    }
                    at += 1;
                    steps += 1;
                }
            }
        }
    }
    // Fewer steps than last time: a step is not seen by the file system's trait any more.
    assert!(steps >= 100, "{steps} steps");
}

/// Ids of an import by the real generator carry the times of their records, which step back here,
/// are all different, and ascend in file order where they carry the same time.
#[test]
fn minted_ids_carry_the_times_of_their_records() {
    let times = ["00.002", "00.001", "00.002", "00.001", "00.000", "00.002"];
    let mut bytes = SMALL.split(|&byte| byte == b'\n').next().expect("a header").to_vec();
    for (index, time) in times.iter().enumerate() {
        let record = format!(
            "\n{{\"type\":\"message\",\"id\":\"{index}\",\"timestamp\":\"2024-03-01T09:00:{time}Z\"}}"
        );
        bytes.extend_from_slice(record.as_bytes());
    }
    bytes.push(b'\n');
    let root = root_with(&bytes);
    let at = listed(root.path()).expect("it is listed");
    let repo = JsonlRepo::open(root.path()).expect("a root");
    let session = repo.open(&at, &Context::new()).expect("it is sound");
    let state = state_of(&session);
    let mut of_time = std::collections::BTreeMap::<u64, Vec<String>>::new();
    for entry in state.entries().values() {
        let id = uuid::Uuid::parse_str(entry.id.as_str()).expect("a UUID");
        assert_eq!(id.get_version_num(), 7);
        let ms = entry.timestamp.get();
        let carried = id.as_u128() >> 80;
        assert_eq!(carried, u128::from(ms));
        of_time.entry(ms).or_default().push(entry.id.as_str().to_owned());
    }
    assert_eq!(of_time.values().map(Vec::len).collect::<Vec<_>>(), [1, 2, 3]);
    for ids in of_time.values() {
        assert!(ids.is_sorted_by(|left, right| left < right), "{ids:?}");
    }
}

/// What a session is, its file says: who names it may know less, or what was so once.
#[test]
fn metadata_are_those_of_the_file_whatever_named_it() {
    let cx = Context::new();
    let header = "{\"type\":\"session\",\"version\":3,\"id\":\"legacy\",\"cwd\":\"/w\",\
                  \"timestamp\":\"2024-03-01T09:00:00.000Z\",\"parentSession\":\"older/p.jsonl\"}\n";
    let root = root_with(header.as_bytes());
    let older = root.path().join("--w--/older");
    fs::create_dir(&older).expect("a new folder");
    let parent = header.replace("\"legacy\"", "\"parent\"").replace(",\"parentSession\"", ",\"x\"");
    fs::write(older.join("p.jsonl"), parent).expect("it is written");
    let at = listed(root.path()).expect("it is listed");
    let resolved = at.metadata.clone();
    assert_eq!(resolved.parent_session_id.as_ref().map(SessionId::as_str), Some("parent"));
    assert_eq!(resolved.legacy_parent_session_path, None);

    let mut named = at.clone();
    named.metadata.parent_session_id = None;
    named.metadata.legacy_parent_session_path = Some("elsewhere".to_owned());
    named.metadata.created_at = support::time();
    let session = open(root.path(), &named).expect("it is sound");
    assert_eq!(session.metadata(), &resolved);
    assert_eq!(session.reference(), &at);
    // The upgrade writes them, and they are read again from what it wrote.
    session.commit(&[first_write()], &cx).expect("it can be upgraded");
    assert_eq!(session.metadata(), &resolved);
    session.close().expect("it can be closed");
    let again = open(root.path(), &named).expect("it is of format 4 now");
    assert_eq!(again.metadata(), &resolved);
}

#[test]
fn a_change_by_somebody_else_is_not_thrown_away() {
    let cx = Context::new();
    let root = root_with(SMALL);
    let at = listed(root.path()).expect("it is listed");
    let session = open(root.path(), &at).expect("it is sound");
    let mut bytes = SMALL.to_vec();
    bytes.extend_from_slice(b"age\"}\n");
    fs::write(at.path().expect("a file"), &bytes).expect("it is written");
    let error = session.commit(&[first_write()], &cx).expect_err("it has changed");
    assert_eq!(error.kind(), ErrorKind::CorruptSource);
    assert_eq!(fs::read(at.path().expect("a file")).expect("still there"), bytes);
}

#[test]
fn reads_see_the_session_before_the_upgrade() {
    let cx = Context::new();
    let root = root_with(SMALL);
    let at = listed(root.path()).expect("it is listed");
    let session = open(root.path(), &at).expect("it is sound");
    let main = session.branch(&BranchName::new("main").expect("a name")).expect("it is open");
    let tip = main.expect("an import has it").tip().expect("it is there");
    assert_eq!(tip.as_ref().map(EntryId::as_str), Some("n1"));
    // A visitor of the whole state may commit meanwhile.
    let mut rows = 0;
    let dumped = session.dump(&mut |row| {
        rows += 1;
        if matches!(row, StateRow::Entry(_)) && rows == 1 {
            session.commit(&[first_write()], &cx)?;
        }
        Ok(())
    });
    dumped.expect("it can be read");
    assert_eq!(rows, 3);
    session.close().expect("it can be closed");
    let error = session.commit(&[first_write()], &cx).expect_err("it is closed");
    assert_eq!(error.kind(), ErrorKind::Closed);
}
