//! What every backend owes a frontend, the same code for each: lifecycle, ids, the mutation line,
//! fork boundaries (contract §3.6, §3.7, lanes.md "The mutation line").
//!
//! Concurrency is forced by observers that park a fork at a milestone, never by waiting.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use forkline_engines::{
    CancelToken, Context, CreateOptions, Error, JsonlRepo, ListFilter, MemoryRepo, Milestone,
    Observer, Repo, Session,
};
use forkline_model::{
    Address, BranchName, EntryId, EntryQuery, EntryType, ErrorKind, ForkOptions, Json, NewEntry,
    SessionId, Write,
};

type Make = fn(&std::path::Path) -> Box<dyn Repo>;

fn backends() -> Vec<(&'static str, Make)> {
    vec![
        ("memory", |_| Box::new(MemoryRepo::new())),
        ("jsonl", |root| Box::new(JsonlRepo::open(root).unwrap())),
    ]
}

/// Every backend, each in a folder of its own that lives as long as the callback.
fn each_backend(test: impl Fn(&dyn Repo)) {
    for (name, make) in backends() {
        let folder = tempfile::tempdir().unwrap();
        let repo = make(folder.path());
        eprintln!("backend: {name}");
        test(&*repo);
    }
}

fn cx() -> Context {
    Context::new()
}

fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

fn id(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}

fn main_branch() -> BranchName {
    BranchName::new("main").unwrap()
}

fn set(namespace: &str, key: &str, value: &str) -> Write {
    Write::set(namespace, key, json(value)).unwrap()
}

fn create(repo: &dyn Repo, name: &str) -> Session {
    repo.create(&CreateOptions::new("/demo").with_id(id(name)), &cx()).unwrap()
}

/// A session with a complete lane `main` and `count` messages on it.
fn with_lane(repo: &dyn Repo, name: &str, count: usize) -> Session {
    let session = create(repo, name);
    let branch = session.create_branch(&main_branch(), None, &cx()).unwrap();
    let lane = [
        set("pi.lane.config", "main", r#"{"thinkingLevel":"off"}"#),
        set("pi.lane.state", "main", r#"{"currentOperationId":"o"}"#),
    ];
    session.commit(&lane, &cx()).unwrap();
    for n in 0..count {
        let message = json(&format!(r#"{{"role":"user","content":"{n}"}}"#));
        branch.append_message(&message, &cx()).unwrap();
    }
    session
}

fn kind<T>(result: Result<T, Error>) -> ErrorKind {
    match result {
        Ok(_) => panic!("it was accepted"),
        Err(error) => error.kind(),
    }
}

fn cancelled() -> Context {
    let token = CancelToken::new();
    token.cancel();
    Context::new().with_cancel(token)
}

#[test]
fn a_session_is_created_once_opened_once_and_deleted_when_closed() {
    each_backend(|repo| {
        let session = create(repo, "one");
        let reference = session.reference().clone();
        let again = CreateOptions::new("/demo").with_id(id("one"));
        assert_eq!(kind(repo.create(&again, &cx())), ErrorKind::SessionExists);
        assert_eq!(kind(repo.open(&reference, &cx())), ErrorKind::AlreadyOpen);
        assert_eq!(kind(repo.delete(&reference, &cx())), ErrorKind::AlreadyOpen);

        session.close().unwrap();
        session.close().unwrap();
        assert_eq!(kind(session.stats()), ErrorKind::Closed);
        assert_eq!(kind(session.commit(&[], &cx())), ErrorKind::Closed);
        assert_eq!(kind(repo.create(&again, &cx())), ErrorKind::SessionExists);

        let opened = repo.open(&reference, &cx()).unwrap();
        // The old handle is gone for good and does not free what it no longer holds.
        drop(session);
        assert_eq!(kind(repo.open(&reference, &cx())), ErrorKind::AlreadyOpen);
        drop(opened);

        repo.delete(&reference, &cx()).unwrap();
        assert_eq!(kind(repo.delete(&reference, &cx())), ErrorKind::UnknownSession);
        assert_eq!(kind(repo.open(&reference, &cx())), ErrorKind::UnknownSession);
        assert!(repo.list(&ListFilter::default(), &cx()).unwrap().is_empty());
        create(repo, "one");
    });
}

fn message_entry(id: &str, parent: Option<&str>) -> Write {
    let parent = parent.map(|parent| EntryId::new(parent).unwrap());
    let payload = json(r#"{"message":{"role":"user"}}"#);
    let id = EntryId::new(id).unwrap();
    Write::Entry(NewEntry::new(id, parent, EntryType::Message, None, payload).unwrap())
}

#[test]
fn a_commit_is_applied_all_or_none_and_uses_one_seq_a_write() {
    each_backend(|repo| {
        let session = with_lane(repo, "s", 1);
        let before = session.next_seq().unwrap();
        let value = set("app", "k", "1");
        let entry = message_entry;
        for (writes, expected) in [
            (vec![value.clone(), entry("a", Some("nobody"))], ErrorKind::MissingParent),
            (vec![value.clone(), entry("a", None), entry("a", None)], ErrorKind::DuplicateId),
            (vec![entry("b", Some("a")), entry("a", None)], ErrorKind::MissingParent),
        ] {
            assert_eq!(kind(session.commit(&writes, &cx())), expected);
            assert_eq!(session.next_seq().unwrap(), before);
            assert_eq!(session.get_value("app", "k").unwrap(), None);
        }
        let delete = Write::delete("app", "k").unwrap();
        let writes = [entry("a", None), entry("b", Some("a")), value, delete];
        let committed = session.commit(&writes, &cx()).unwrap();
        assert_eq!(committed.first_seq.map(u64::from), Some(before));
        assert_eq!(session.next_seq().unwrap(), before + 4);
        assert_eq!(session.stats().unwrap().message_count, 3);
        assert_eq!(session.commit(&[], &cx()).unwrap().first_seq, None);
    });
}

#[test]
fn branches_find_append_and_null_tips() {
    each_backend(|repo| {
        let session = create(repo, "s");
        let branch = session.create_branch(&main_branch(), None, &cx()).unwrap();
        assert_eq!(branch.tip().unwrap(), None);
        assert!(branch.find_entries(&EntryQuery::default()).unwrap().is_empty());
        let again = session.create_branch(&main_branch(), None, &cx());
        assert_eq!(kind(again), ErrorKind::BranchExists);
        let side = BranchName::new("side").unwrap();
        let nobody = session.create_branch(&side, Some(&EntryId::new("nobody").unwrap()), &cx());
        assert_eq!(kind(nobody), ErrorKind::UnknownEntry);
        assert!(session.branch(&side).unwrap().is_none());

        let first = branch.append_message(&json(r#"{"role":"user"}"#), &cx()).unwrap();
        let second = branch.append_message(&json(r#"{"role":"user"}"#), &cx()).unwrap();
        assert_eq!(branch.tip().unwrap(), Some(second.clone()));
        let found = branch.find_entries(&EntryQuery::default()).unwrap();
        let ids: Vec<_> = found.iter().map(|entry| entry.id.clone()).collect();
        assert_eq!(ids, [second, first.clone()]);
        session.create_branch(&side, Some(&first), &cx()).unwrap();
        assert_eq!(session.branches().unwrap(), [main_branch(), side]);
        session.set_label(&first, Some("start"), &cx()).unwrap();
        assert_eq!(session.label(&first).unwrap().as_deref(), Some("start"));
        session.set_label(&first, None, &cx()).unwrap();
        assert_eq!(session.label(&first).unwrap(), None);
        let pending = json(r#"{"role":"assistant","stopReason":"pending"}"#);
        assert_eq!(kind(branch.append_message(&pending, &cx())), ErrorKind::PendingAssistant);
    });
}

#[test]
fn a_mutation_commits_at_most_once_and_holds_the_line() {
    each_backend(|repo| {
        let session = create(repo, "s");
        let mut scope = session.begin_mutation(&cx()).unwrap();
        let write = [set("app", "k", "1")];
        scope.commit(&write).unwrap();
        assert!(scope.session().get_value("app", "k").unwrap().is_some());
        assert_eq!(kind(scope.commit(&write)), ErrorKind::CommitAttempted);

        // A caller that cancels while it waits leaves the line; who is in stays in.
        assert_eq!(kind(session.commit(&write, &cancelled())), ErrorKind::Cancelled);

        thread::scope(|threads| {
            let queued = threads.spawn(|| kind(session.commit(&[], &cx())));
            // Closing sends the queued one away and waits for the scope.
            let closing = threads.spawn(|| session.close());
            assert_eq!(queued.join().unwrap(), ErrorKind::Closed);
            drop(scope);
            closing.join().unwrap().unwrap();
        });
    });
}

#[test]
fn a_scope_may_hold_the_last_handle_of_its_session() {
    each_backend(|repo| {
        let session = create(repo, "s");
        let reference = session.reference().clone();
        let scope = session.begin_mutation(&cx()).unwrap();
        drop(session);
        drop(scope);
        repo.open(&reference, &cx()).unwrap();
    });
}

#[test]
fn a_panic_in_a_mutation_gives_the_line_back() {
    each_backend(|repo| {
        let session = create(repo, "s");
        let inside = session.clone();
        let panicked = thread::spawn(move || {
            let _ = inside.mutate(&cx(), |_| -> Result<(), Error> { panic!("as planned") });
        });
        assert!(panicked.join().is_err());
        session.commit(&[set("app", "k", "1")], &cx()).unwrap();
    });
}

/// Tells when a fork reaches a milestone, and holds it there until told to go on.
struct Gate {
    at: Milestone,
    reached: Mutex<Sender<()>>,
    go_on: Mutex<Receiver<()>>,
}

fn gate(at: Milestone) -> (Context, Receiver<()>, Sender<()>) {
    let (reached, on_reached) = channel();
    let (release, go_on) = channel();
    let gate = Gate { at, reached: Mutex::new(reached), go_on: Mutex::new(go_on) };
    (Context::new().with_observer(Arc::new(gate)), on_reached, release)
}

impl Observer for Gate {
    fn reached(&self, milestone: Milestone) {
        if milestone == self.at {
            self.reached.lock().unwrap().send(()).unwrap();
            self.go_on.lock().unwrap().recv().unwrap();
        }
    }
}

#[test]
fn commits_after_the_boundary_finish_while_the_fork_is_parked_and_stay_out() {
    each_backend(|repo| {
        for at in [Milestone::Captured, Milestone::Planned] {
            let name = format!("source-{at:?}");
            let session = with_lane(repo, &name, 3);
            let address = Address::new("app", "late").unwrap();
            let (gated, reached, release) = gate(at);
            let options = ForkOptions::tree().with_id(id(&format!("{name}-fork")));
            let fork = thread::scope(|scope| {
                let forking = scope.spawn(|| repo.fork(&session, &options, &gated).unwrap());
                reached.recv().unwrap();
                session.set_value(&address, json("1"), &cx()).unwrap();
                session.append_element(&address, json("2"), &cx()).unwrap();
                release.send(()).unwrap();
                forking.join().unwrap()
            });
            assert_eq!(fork.value(&address).unwrap(), None, "{at:?}");
            assert_eq!(fork.next_seq().unwrap() + 2, session.next_seq().unwrap());
            assert_eq!(fork.stats().unwrap().message_count, 3);
            let next = ForkOptions::tree().with_id(id(&format!("{name}-next")));
            let next = repo.fork(&session, &next, &cx()).unwrap();
            assert!(next.value(&address).unwrap().is_some());
        }
    });
}

#[test]
fn the_id_of_a_fork_is_reserved_while_it_runs_and_free_after_it_was_refused() {
    each_backend(|repo| {
        let session = with_lane(repo, "source", 2);
        let (gated, reached, release) = gate(Milestone::Reserved);
        let wanted = ForkOptions::tree().with_id(id("wanted"));
        thread::scope(|scope| {
            let forking = scope.spawn(|| repo.fork(&session, &wanted, &gated));
            reached.recv().unwrap();
            let create = CreateOptions::new("/demo").with_id(id("wanted"));
            assert_eq!(kind(repo.create(&create, &cx())), ErrorKind::SessionExists);
            assert_eq!(kind(repo.fork(&session, &wanted, &cx())), ErrorKind::SessionExists);
            release.send(()).unwrap();
            forking.join().unwrap().unwrap().close().unwrap();
        });
        assert_eq!(kind(repo.fork(&session, &wanted, &cx())), ErrorKind::SessionExists);

        let count = repo.list(&ListFilter::default(), &cx()).unwrap().len();
        let absent = ForkOptions::branch(BranchName::new("absent").unwrap()).with_id(id("f"));
        assert_eq!(kind(repo.fork(&session, &absent, &cx())), ErrorKind::UnknownBranch);
        let options = ForkOptions::branch(main_branch()).with_id(id("f"));
        assert_eq!(kind(repo.fork(&session, &options, &cancelled())), ErrorKind::Cancelled);
        assert_eq!(repo.list(&ListFilter::default(), &cx()).unwrap().len(), count);
        repo.fork(&session, &options, &cx()).unwrap();
    });
}

#[test]
fn a_branch_fork_has_one_idle_lane_and_nothing_else() {
    each_backend(|repo| {
        let session = with_lane(repo, "source", 4);
        let writes = [
            set("app", "k", "1"),
            Write::append("app", "l", json("1")).unwrap(),
            set("pi.branch.tip", "other", "null"),
            set("pi.result", "o", "{}"),
        ];
        session.commit(&writes, &cx()).unwrap();
        session.set_name("named", &cx()).unwrap();
        let main = session.branch(&main_branch()).unwrap().unwrap();
        let path = main.find_entries(&EntryQuery::default()).unwrap();
        let options =
            ForkOptions::branch(main_branch()).before(path[1].id.clone()).with_id(id("f"));
        let fork = repo.fork(&session, &options, &cx()).unwrap();

        assert_eq!(fork.branches().unwrap(), [main_branch()]);
        let tip = fork.branch(&main_branch()).unwrap().unwrap().tip().unwrap();
        assert_eq!(tip, Some(path[2].id.clone()));
        assert_eq!(fork.stats().unwrap().message_count, 2);
        assert_eq!(fork.name().unwrap().as_deref(), Some("named"));
        assert_eq!(fork.get_value("app", "k").unwrap(), None);
        assert_eq!(fork.get_value("pi.result", "o").unwrap(), None);
        let (_, state) = fork.get_value("pi.lane.state", "main").unwrap().unwrap();
        assert_eq!(state, forkline_model::policy::idle_state());
        assert_eq!(fork.next_seq().unwrap(), session.next_seq().unwrap());
        let seq =
            |session: &Session| session.get_value("pi.branch.tip", "main").unwrap().unwrap().0;
        assert_eq!(seq(&fork), seq(&session));

        let nobody = EntryId::new("nobody").unwrap();
        let off = ForkOptions::branch(main_branch()).at(nobody);
        assert_eq!(kind(repo.fork(&session, &off, &cx())), ErrorKind::EntryNotOnBranch);
    });
}

#[test]
fn closing_a_repository_closes_its_sessions_and_refuses_what_comes() {
    each_backend(|repo| {
        let (one, two) = (create(repo, "one"), create(repo, "two"));
        repo.close().unwrap();
        assert_eq!(kind(one.stats()), ErrorKind::Closed);
        assert_eq!(kind(two.commit(&[], &cx())), ErrorKind::Closed);
        assert_eq!(kind(repo.create(&CreateOptions::new("/demo"), &cx())), ErrorKind::Closed);
        repo.close().unwrap();
    });
}
