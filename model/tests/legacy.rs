//! Sessions whose files are of older versions (formats §2), from planting to the upgrade.
//!
//! What goes wrong here is an id of an import that somebody can hold on to, usage that is lost or
//! counted twice by the upgrade, or an upgrade by something that is no commit.

mod support;

use std::collections::BTreeMap;

use forkline_model::{
    Answer, EntryId, ErrorKind, ForkRequest, Legacy, Op, Position, ReadOp, Scope, Seq, SessionId,
    Usage, World, Write,
};
use support::{branch, entry, id, json, lane, millis, state_of};

fn session(id: &str) -> SessionId {
    SessionId::new(id).unwrap()
}

fn usage() -> Usage {
    Usage::parse(&json(r#"{"input":3,"cost":{"total":0.5}}"#)).unwrap()
}

/// Two entries on a complete lane, whose ids in the file are `a` and `b`; the id in the state.
fn legacy() -> Legacy {
    let ids = [("a", "new-a"), ("b", "new-b")].map(|(file, state)| (id(file), id(state)));
    let ids: BTreeMap<EntryId, EntryId> = ids.into();
    Legacy { ids, usage: Some(usage()), usage_id: id("imported"), is_damaged: false }
}

fn planted(legacy: Legacy) -> World {
    let mut writes = vec![entry("new-a", None, 0, "1"), entry("new-b", Some(&id("new-a")), 0, "2")];
    writes.extend(lane("main", Some("new-b")));
    let state = state_of(&writes);
    let mut world = World::default();
    world.plant(0, state, legacy).unwrap();
    world
}

fn fork_at(world: &mut World, entry: &str, closed: bool) -> Answer {
    let scope =
        Scope::Branch { branch: branch("main"), entry: Some(id(entry)), position: Position::At };
    fork(world, scope, closed)
}

fn fork(world: &mut World, scope: Scope, closed: bool) -> Answer {
    let free = (0..).map(|n| session(&format!("f{n}")));
    let id = free.into_iter().find(|id| world.session(0, id).is_none()).unwrap();
    world.run(&Op::Fork { request: request(id, scope, closed), open: false })
}

fn request(id: SessionId, scope: Scope, closed: bool) -> ForkRequest {
    let (source, created_at) = (session("source"), millis(9));
    ForkRequest { from: 0, source, into: 0, id, scope, created_at, cwd: None, closed }
}

fn run(world: &mut World, op: impl Fn(usize, SessionId) -> Op) -> Answer {
    world.run(&op(0, session("source")))
}

fn open(world: &mut World) -> Answer {
    run(world, |repo, session| Op::Open { repo, session })
}

fn commit(world: &mut World, writes: &[Write]) -> Answer {
    run(world, |repo, session| Op::Commit {
        repo,
        session,
        writes: writes.to_vec(),
        timestamp: millis(5),
    })
}

fn stats(world: &mut World) -> Answer {
    run(world, |repo, session| Op::Read { repo, session, read: ReadOp::Stats })
}

fn refused(kind: ErrorKind) -> Answer {
    Answer::Error { kind }
}

fn is_legacy(world: &World) -> bool {
    world.session(0, &session("source")).unwrap().legacy().is_some()
}

#[test]
fn a_closed_one_is_forked_at_the_ids_of_its_file_and_at_no_others() {
    let mut world = planted(legacy());
    assert_eq!(fork_at(&mut world, "a", false), Answer::Done);
    let forked = world.session(0, &session("f0")).unwrap();
    assert_eq!(forked.state().entries().len(), 1);
    assert!(forked.state().entry(&id("new-a")).is_some());
    assert!(forked.legacy().is_none());
    for not_there in ["new-a", "c", "no entry 0"] {
        let answer = fork_at(&mut world, not_there, false);
        assert_eq!(answer, refused(ErrorKind::EntryNotOnBranch), "{not_there}");
    }
    assert_eq!(fork(&mut world, Scope::Tree, false), Answer::Done);
    assert!(is_legacy(&world));
}

#[test]
fn an_open_one_is_forked_where_it_stands_or_not_at_all() {
    let mut world = planted(legacy());
    assert_eq!(open(&mut world), Answer::Done);
    for (entry, closed, expected) in [
        ("a", false, refused(ErrorKind::OpenLegacySource)),
        ("new-a", false, refused(ErrorKind::OpenLegacySource)),
        ("a", true, Answer::Done),
        ("new-a", true, refused(ErrorKind::EntryNotOnBranch)),
    ] {
        assert_eq!(fork_at(&mut world, entry, closed), expected, "{entry} {closed}");
    }
    assert_eq!(fork(&mut world, Scope::Tree, false), refused(ErrorKind::OpenLegacySource));
    assert!(is_legacy(&world));
}

#[test]
fn the_first_commit_with_writes_that_is_taken_upgrades() {
    let mut world = planted(legacy());
    assert_eq!(commit(&mut world, &[]), refused(ErrorKind::Closed));
    assert_eq!(open(&mut world), Answer::Done);
    let Answer::Stats(before) = stats(&mut world) else { panic!("it is open") };
    assert_eq!((before.usage, before.message_count), (usage(), 2));

    let next = world.session(0, &session("source")).unwrap().state().next_seq();
    let Answer::Committed(nothing) = commit(&mut world, &[]) else { panic!("it is legal") };
    assert_eq!((nothing.first_seq, nothing.next_seq), (None, next));
    let taken = commit(&mut world, &[entry("new-a", None, 0, "1")]);
    assert_eq!(taken, refused(ErrorKind::DuplicateId));
    let used = commit(&mut world, &[entry("imported", None, 0, "1")]);
    assert_eq!(used, refused(ErrorKind::DuplicateId));
    assert!(is_legacy(&world));

    let writes = [entry("c", Some(&id("new-b")), 0, "3"), entry("d", None, 0, "4")];
    let Answer::Committed(committed) = commit(&mut world, &writes) else { panic!("it is legal") };
    // The row of the imported usage has the seq before.
    assert_eq!(committed.first_seq, Some(Seq::new(next + 1).unwrap()));
    assert_eq!((committed.writes, committed.next_seq), (2, next + 3));
    assert!(!is_legacy(&world));
    let Answer::Stats(after) = stats(&mut world) else { panic!("it is open") };
    assert_eq!((after.usage, after.message_count), (usage(), 4));
    let state = world.open_state(0, &session("source")).unwrap();
    let row = state.ledger().get(&Seq::new(next).unwrap()).unwrap();
    assert_eq!((&row.id, row.adjustment, &row.entry), (&id("imported"), true, &None));
    assert_eq!(row.details, Some(json(r#"{"source":"v3-import"}"#)));

    // From here on it is a session like any other.
    assert_eq!(fork_at(&mut world, "new-a", false), Answer::Done);
    assert_eq!(fork_at(&mut world, "a", false), refused(ErrorKind::EntryNotOnBranch));
}

#[test]
fn closing_and_opening_is_no_upgrade() {
    let mut world = planted(legacy());
    let state = world.session(0, &session("source")).unwrap().state().clone();
    open(&mut world);
    run(&mut world, |repo, session| Op::Reopen { repo, session });
    run(&mut world, |repo, session| Op::Close { repo, session });
    assert!(is_legacy(&world));
    assert_eq!(*world.session(0, &session("source")).unwrap().state(), state);
    assert_eq!(fork_at(&mut world, "b", false), Answer::Done);
}

#[test]
fn a_fork_under_way_is_of_the_instant_at_which_it_began() {
    let mut world = planted(legacy());
    open(&mut world);
    let begin = |ticket, closed| Op::ForkBegin {
        ticket,
        request: request(session(&format!("t{ticket}")), Scope::Tree, closed),
    };
    assert_eq!(world.run(&begin(1, false)), Answer::Done);
    assert_eq!(world.run(&begin(2, true)), Answer::Done);
    assert!(matches!(commit(&mut world, &[entry("c", None, 0, "3")]), Answer::Committed(_)));
    let finish = |ticket| Op::ForkFinish { ticket, open: false };
    assert_eq!(world.run(&finish(1)), refused(ErrorKind::OpenLegacySource));
    assert!(world.session(0, &session("t1")).is_none());
    assert_eq!(world.run(&finish(2)), Answer::Done);
    assert_eq!(world.session(0, &session("t2")).unwrap().state().entries().len(), 2);
}

#[test]
fn damage_refuses_all_but_a_look_at_the_list_and_deletion() {
    let mut world = planted(Legacy { is_damaged: true, ..legacy() });
    assert_eq!(world.list(0).len(), 1);
    assert_eq!(open(&mut world), refused(ErrorKind::CorruptSource));
    assert_eq!(fork_at(&mut world, "a", false), refused(ErrorKind::CorruptSource));
    assert_eq!(fork(&mut world, Scope::Tree, true), refused(ErrorKind::CorruptSource));
    let deleted = run(&mut world, |repo, session| Op::Delete { repo, session });
    assert_eq!(deleted, Answer::Done);
    assert!(world.plant(0, state_of(&[]), legacy()).is_ok());
}

#[test]
fn usage_that_has_no_sum_refuses_opening_alone() {
    let mut world = planted(Legacy { usage: None, ..legacy() });
    assert_eq!(open(&mut world), refused(ErrorKind::CorruptSource));
    assert_eq!(fork_at(&mut world, "b", false), Answer::Done);
}

#[test]
fn an_id_is_taken_like_any_other() {
    // That the destination's id is taken is said before what is wrong with the source is.
    for legacy in [legacy(), Legacy { is_damaged: true, ..legacy() }] {
        let mut world = planted(legacy);
        open(&mut world);
        let request = request(session("source"), Scope::Tree, false);
        let onto_itself = world.run(&Op::Fork { request, open: false });
        assert_eq!(onto_itself, refused(ErrorKind::SessionExists));
    }
    let mut world = planted(legacy());
    let again = world.plant(0, state_of(&[]), legacy()).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::SessionExists);
    assert!(is_legacy(&world));
    assert!(world.plant(1, state_of(&[]), legacy()).is_ok());
}
