//! The rules of repositories (contract §3.6, §3.7), each as a short run of operations.
//!
//! What goes wrong here is an id that stays taken after a refusal, a fork that shows a commit
//! from after its instant, or a session that comes into being because somebody looked for it.

mod support;

use forkline_model::{
    Address, Answer, BranchName, ErrorKind, ForkRequest, LaneAudit, Op, ReadOp, RepoIndex, Scope,
    SessionId, World, Write,
};
use support::{branch, entry, id, json, lane, millis};

fn session(id: &str) -> SessionId {
    SessionId::new(id).unwrap()
}

fn create(id: &str) -> Op {
    created(0, id, 1)
}

fn created(repo: RepoIndex, id: &str, at: u64) -> Op {
    Op::Create { repo, id: session(id), cwd: None, parent: None, created_at: millis(at) }
}

fn open(id: &str) -> Op {
    Op::Open { repo: 0, session: session(id) }
}

fn close(id: &str) -> Op {
    Op::Close { repo: 0, session: session(id) }
}

fn delete(id: &str) -> Op {
    Op::Delete { repo: 0, session: session(id) }
}

fn commit(id: &str, writes: Vec<Write>) -> Op {
    Op::Commit { repo: 0, session: session(id), writes, timestamp: millis(2) }
}

fn set(id: &str, value: &str) -> Op {
    commit(id, vec![Write::set("app", "k", json(value)).unwrap()])
}

fn get(id: &str) -> Op {
    let read = ReadOp::GetValue(Address::new("app", "k").unwrap());
    Op::Read { repo: 0, session: session(id), read }
}

fn request(source: &str, into: RepoIndex, id: &str) -> ForkRequest {
    ForkRequest {
        from: 0,
        source: session(source),
        into,
        id: session(id),
        scope: Scope::Tree,
        created_at: millis(3),
        cwd: None,
        closed: false,
    }
}

fn refused(kind: ErrorKind) -> Answer {
    Answer::Error { kind }
}

fn seq(n: u64) -> forkline_model::Seq {
    forkline_model::Seq::new(n).unwrap()
}

fn value(seq_of: u64, value: &str) -> Answer {
    Answer::Value(Some((seq(seq_of), json(value))))
}

/// Runs the operations; whatever is refused must change nothing.
fn check(world: &mut World, steps: &[(Op, Answer)]) {
    for (op, expected) in steps {
        let before = world.clone();
        let answer = world.run(op);
        assert_eq!(answer, *expected, "{op:?}");
        let consumed = matches!(op, Op::ForkFinish { .. });
        if matches!(answer, Answer::Error { .. }) && !consumed {
            let sessions = |world: &World| (world.list(0), world.list(1));
            assert_eq!(sessions(world), sessions(&before), "{op:?}");
        }
    }
}

#[test]
fn a_session_lives_from_create_to_delete() {
    use ErrorKind::{AlreadyOpen, Closed, SessionExists, UnknownSession};
    check(
        &mut World::default(),
        &[
            (open("a"), refused(UnknownSession)),
            (close("a"), refused(UnknownSession)),
            (delete("a"), refused(UnknownSession)),
            (get("a"), refused(UnknownSession)),
            (set("a", "1"), refused(UnknownSession)),
            (create("a"), Answer::Done),
            (create("a"), refused(SessionExists)),
            (open("a"), refused(AlreadyOpen)),
            (delete("a"), refused(AlreadyOpen)),
            (close("a"), Answer::Done),
            (close("a"), Answer::Done),
            (get("a"), refused(Closed)),
            (set("a", "1"), refused(Closed)),
            (create("a"), refused(SessionExists)),
            (open("a"), Answer::Done),
            (get("a"), Answer::Value(None)),
            (Op::Reopen { repo: 0, session: session("a") }, Answer::Done),
            (open("a"), refused(AlreadyOpen)),
            (close("a"), Answer::Done),
            (delete("a"), Answer::Done),
            (delete("a"), refused(UnknownSession)),
            (create("a"), Answer::Done),
        ],
    );
}

#[test]
fn a_listing_is_newest_first_then_by_id() {
    let mut world = World::default();
    for (id, at) in [("b", 1), ("c", 2), ("a", 1)] {
        assert_eq!(world.run(&created(0, id, at)), Answer::Done);
    }
    assert_eq!(world.run(&created(1, "d", 9)), Answer::Done);
    world.run(&close("c"));
    let Answer::Sessions(found) = world.run(&Op::List { repo: 0 }) else { panic!("no listing") };
    let ids: Vec<&str> = found.iter().map(|metadata| metadata.id.as_str()).collect();
    assert_eq!(ids, ["c", "a", "b"]);
    assert_eq!(world.run(&Op::List { repo: 7 }), Answer::Sessions(vec![]));
}

/// A commit before the boundary is wholly in the fork, one after it wholly absent; the source
/// may even be gone before the fork is done.
#[test]
fn a_fork_shows_the_instant_it_began() {
    let begin = Op::ForkBegin { ticket: 1, request: request("a", 0, "f") };
    let finish = Op::ForkFinish { ticket: 1, open: true };
    let mut world = World::default();
    for op in [create("a"), set("a", "1"), begin, set("a", "2"), close("a"), delete("a"), finish] {
        assert!(!matches!(world.run(&op), Answer::Error { .. }), "{op:?}");
    }
    check(
        &mut world,
        &[
            (get("f"), value(1, "1")),
            (get("a"), refused(ErrorKind::UnknownSession)),
            (Op::ForkFinish { ticket: 1, open: true }, refused(ErrorKind::UnknownSession)),
        ],
    );
    let made = world.session(0, &session("f")).unwrap();
    assert!(made.is_open());
    assert_eq!(made.state().next_seq(), 2);
}

#[test]
fn an_id_is_reserved_while_its_fork_is_under_way() {
    use ErrorKind::{AlreadyOpen, SessionExists};
    let begin =
        |ticket, source, into| Op::ForkBegin { ticket, request: request(source, into, "f") };
    check(
        &mut World::default(),
        &[
            (create("a"), Answer::Done),
            (begin(1, "missing", 0), refused(ErrorKind::UnknownSession)),
            (begin(1, "a", 0), Answer::Done),
            (begin(1, "a", 1), refused(SessionExists)),
            (begin(2, "a", 0), refused(SessionExists)),
            (begin(3, "a", 1), Answer::Done),
            (create("f"), refused(SessionExists)),
            (open("f"), refused(AlreadyOpen)),
            (delete("f"), refused(AlreadyOpen)),
            (Op::Fork { request: request("a", 0, "f"), open: false }, refused(SessionExists)),
            (Op::Fork { request: request("a", 0, "a"), open: false }, refused(SessionExists)),
            (Op::ForkFinish { ticket: 1, open: false }, Answer::Done),
            (create("f"), refused(SessionExists)),
            (open("f"), Answer::Done),
            (Op::ForkFinish { ticket: 3, open: true }, Answer::Done),
            (Op::Open { repo: 1, session: session("f") }, refused(AlreadyOpen)),
        ],
    );
}

#[test]
fn a_rejected_fork_frees_its_id() {
    let unknown = ErrorKind::UnknownBranch;
    let scope = Scope::Branch {
        branch: branch("main"),
        entry: None,
        position: forkline_model::Position::At,
    };
    let request = ForkRequest { scope, ..request("a", 0, "f") };
    check(
        &mut World::default(),
        &[
            (create("a"), Answer::Done),
            (Op::Fork { request: request.clone(), open: true }, refused(unknown)),
            (Op::ForkBegin { ticket: 1, request: request.clone() }, Answer::Done),
            (Op::ForkFinish { ticket: 1, open: true }, refused(unknown)),
            (commit("a", lane("main", None)), committed(1, 3)),
            (Op::Fork { request, open: true }, Answer::Done),
            (delete("f"), refused(ErrorKind::AlreadyOpen)),
        ],
    );
}

/// Creation and deletion hold their ids from their first half to their second.
#[test]
fn halves_of_create_and_delete_hold_the_id() {
    let mut world = World::default();
    let ticket = world.create_begin(0, support::metadata("a")).unwrap();
    check(
        &mut world,
        &[
            (create("a"), refused(ErrorKind::SessionExists)),
            (open("a"), refused(ErrorKind::AlreadyOpen)),
            (Op::List { repo: 0 }, Answer::Sessions(vec![])),
        ],
    );
    world.create_finish(ticket);
    check(&mut world, &[(get("a"), Answer::Value(None)), (close("a"), Answer::Done)]);
    let ticket = world.delete_begin(0, &session("a")).unwrap();
    check(
        &mut world,
        &[
            (open("a"), refused(ErrorKind::AlreadyOpen)),
            (delete("a"), refused(ErrorKind::AlreadyOpen)),
            (create("a"), refused(ErrorKind::SessionExists)),
        ],
    );
    world.delete_finish(&ticket);
    check(&mut world, &[(create("a"), Answer::Done)]);
}

#[test]
fn the_strict_audit_is_the_worlds() {
    let partial = vec![Write::set("pi.lane.config", "x", json("1")).unwrap()];
    for (audit, expected) in
        [(LaneAudit::Selected, Answer::Done), (LaneAudit::Strict, refused(ErrorKind::CorruptLane))]
    {
        let mut world = World::new(audit);
        world.run(&create("a"));
        world.run(&commit("a", partial.clone()));
        let fork = Op::Fork { request: request("a", 1, "f"), open: false };
        check(&mut world, &[(fork, expected)]);
    }
}

fn committed(first: u64, writes: u64) -> Answer {
    Answer::Committed(forkline_model::Committed {
        first_seq: Some(seq(first)),
        writes,
        next_seq: first + writes,
        timestamp: millis(2),
    })
}

/// Reads before the commit see what was there; a second attempt is refused, the first one's
/// failure included.
#[test]
fn a_scope_commits_once() {
    let attempted = refused(ErrorKind::CommitAttempted);
    let write = |text| vec![Write::set("app", "k", json(text)).unwrap()];
    let twice = |attempts| Op::Mutate {
        repo: 0,
        session: session("a"),
        reads: vec![ReadOp::GetValue(Address::new("app", "k").unwrap()), ReadOp::Tip(branch("b"))],
        attempts,
        timestamp: millis(2),
    };
    let answers = |read, attempts| {
        let no_branch = refused(ErrorKind::UnknownBranch);
        Answer::Scope { reads: vec![read, no_branch], attempts }
    };
    let orphan = vec![entry("e", Some(&id("nowhere")), 0, "1")];
    check(
        &mut World::default(),
        &[
            (create("a"), Answer::Done),
            (twice(vec![]), answers(Answer::Value(None), vec![])),
            (
                twice(vec![write("1"), write("2")]),
                answers(Answer::Value(None), vec![committed(1, 1), attempted.clone()]),
            ),
            (
                twice(vec![orphan, write("3")]),
                answers(value(1, "1"), vec![refused(ErrorKind::MissingParent), attempted]),
            ),
            (get("a"), value(1, "1")),
            (close("a"), Answer::Done),
            (twice(vec![write("4")]), refused(ErrorKind::Closed)),
        ],
    );
}

#[test]
fn branches_names_and_labels_are_plain_commits() {
    let (repo, session, timestamp) = (0, session("a"), millis(2));
    let make = |name: &str, at: Option<&str>| Op::CreateBranch {
        repo,
        session: session.clone(),
        branch: branch(name),
        at: at.map(id),
        timestamp,
    };
    let append = |name: &str, entry: &str, payload: &str| Op::Append {
        repo,
        session: session.clone(),
        branch: branch(name),
        id: id(entry),
        entry_type: forkline_model::EntryType::Message,
        custom_type: None,
        payload: json(payload),
        timestamp,
    };
    let label = |entry: &str, label: Option<&str>| Op::SetLabel {
        repo,
        session: session.clone(),
        entry: id(entry),
        label: label.map(str::to_owned),
        timestamp,
    };
    let read = |read| Op::Read { repo, session: session.clone(), read };
    let name = Op::SetName { repo, session: session.clone(), name: "n\0\"".to_owned(), timestamp };
    let text = |text: &str| Answer::Text(Some(text.to_owned()));
    let pending = r#"{"message":{"role":"assistant","stopReason":"pending"}}"#;
    check(
        &mut World::default(),
        &[
            (create("a"), Answer::Done),
            (append("b", "e1", "{}"), refused(ErrorKind::UnknownBranch)),
            (make("b", Some("e1")), refused(ErrorKind::UnknownEntry)),
            (make("b", None), committed(1, 1)),
            (make("b", None), refused(ErrorKind::BranchExists)),
            (append("b", "e1", "{}"), committed(2, 2)),
            (append("b", "e1", "{}"), refused(ErrorKind::DuplicateId)),
            (append("b", "e2", pending), refused(ErrorKind::PendingAssistant)),
            (append("b", "e2", r#"{"seq":1}"#), refused(ErrorKind::InvalidPayload)),
            (append("b", "e2", "{}"), committed(4, 2)),
            (read(ReadOp::Tip(branch("b"))), Answer::Tip(Some(id("e2")))),
            (make("c", Some("e1")), committed(6, 1)),
            (read(ReadOp::Branches), Answer::Branches(vec![branch("b"), branch("c")])),
            (label("e3", Some("l")), refused(ErrorKind::UnknownEntry)),
            (label("e1", Some("l")), committed(7, 1)),
            (read(ReadOp::Label(id("e1"))), text("l")),
            (label("e1", None), committed(8, 1)),
            (read(ReadOp::Label(id("e1"))), Answer::Text(None)),
            (name, committed(9, 1)),
            (read(ReadOp::Name), text("n\0\"")),
            (read(ReadOp::NextSeq), Answer::NextSeq(10)),
        ],
    );
}

/// A tip at the empty key is under no branch's name, in every listing.
#[test]
fn rows_at_the_empty_key_make_no_branch() {
    let rows = [("pi.branch.tip", "\"missing\""), ("pi.lane.state", "1")];
    let rows = rows.map(|(namespace, value)| Write::set(namespace, "", json(value)).unwrap());
    let mut world = World::new(LaneAudit::Strict);
    let branches = Op::Read { repo: 0, session: session("a"), read: ReadOp::Branches };
    check(
        &mut world,
        &[
            (create("a"), Answer::Done),
            (commit("a", rows.to_vec()), committed(1, 2)),
            (branches, Answer::Branches(vec![])),
            (Op::Fork { request: request("a", 0, "f"), open: true }, Answer::Done),
        ],
    );
    assert!(BranchName::new("").is_err());
    assert_eq!(world.session(0, &session("f")).unwrap().state().values().len(), 2);
}

#[test]
fn a_torn_tail_is_left_at_closed_sessions_only() {
    let tear = |text: &str| Op::TearTail { repo: 0, session: session("a"), text: text.to_owned() };
    check(
        &mut World::default(),
        &[
            (tear("{"), refused(ErrorKind::UnknownSession)),
            (create("a"), Answer::Done),
            (set("a", "1"), committed(1, 1)),
            (tear("{"), refused(ErrorKind::AlreadyOpen)),
            (close("a"), Answer::Done),
            (tear("{\n"), refused(ErrorKind::InvalidPayload)),
            (tear("{"), Answer::Done),
            (open("a"), Answer::Done),
            (get("a"), value(1, "1")),
        ],
    );
}
