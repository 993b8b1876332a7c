//! Commits while a fork is parked in its middle: none waits, none is in this fork, all are in
//! the next one. In both layouts, with source and destination in one container, and with the
//! source's writer in another process.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use forkline_engines::sqlite::recount;
use forkline_engines::{
    Context, CreateOptions, Milestone, Observer, Progress, Repo, Session, SessionRef, SqliteRepo,
};
use forkline_model::{Address, BranchName, ForkOptions, Json, SessionId, Write};

/// Parks the fork at one point until it is told to go on.
struct Gate {
    at: Point,
    is_open: AtomicBool,
    arrived: Mutex<Sender<()>>,
    go: Mutex<Receiver<()>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Point {
    Captured,
    /// The first progress of the copy into the stage.
    Staging,
    Staged,
}

impl Gate {
    fn park(&self, at: Point) {
        if at == self.at && !self.is_open.swap(true, Ordering::SeqCst) {
            self.arrived.lock().unwrap().send(()).unwrap();
            self.go.lock().unwrap().recv().unwrap();
        }
    }
}

impl Observer for Gate {
    fn progress(&self, _progress: Progress) {
        self.park(Point::Staging);
    }

    fn reached(&self, milestone: Milestone) {
        match milestone {
            Milestone::Captured => self.park(Point::Captured),
            Milestone::Staged => self.park(Point::Staged),
            _ => {}
        }
    }
}

/// Runs `fork` until it is parked at `at`, then `meanwhile`, then the rest of the fork.
fn parked<T: Send>(
    at: Point,
    fork: impl FnOnce(&Context) -> T + Send,
    meanwhile: impl FnOnce(),
) -> T {
    let (arrived, has_arrived) = channel();
    let (go, may_go) = channel();
    let gate = Gate {
        at,
        is_open: AtomicBool::new(false),
        arrived: Mutex::new(arrived),
        go: Mutex::new(may_go),
    };
    let cx = Context::new().with_observer(Arc::new(gate));
    std::thread::scope(|scope| {
        let running = scope.spawn(move || fork(&cx));
        has_arrived.recv().unwrap();
        meanwhile();
        go.send(()).unwrap();
        running.join().unwrap()
    })
}

fn marker() -> Address {
    Address::new("app", "marker").unwrap()
}

fn filled(repo: &SqliteRepo) -> Session {
    let cx = Context::new();
    let session = repo.create(&CreateOptions::default(), &cx).unwrap();
    let main = session.create_branch(&BranchName::new("main").unwrap(), None, &cx).unwrap();
    for number in 0..50 {
        let text = format!(r#"{{"role":"user","content":"{number}"}}"#);
        main.append_message(&Json::parse(&text).unwrap(), &cx).unwrap();
    }
    session
}

fn layouts(folder: &std::path::Path) -> [SqliteRepo; 2] {
    [
        SqliteRepo::per_file(folder.join("files")).unwrap(),
        SqliteRepo::shared(folder.join("all.sqlite")).unwrap(),
    ]
}

#[test]
fn later_commits_of_an_open_source_finish_and_are_absent() {
    for at in [Point::Captured, Point::Staging, Point::Staged] {
        let folder = tempfile::tempdir().unwrap();
        for repo in layouts(folder.path()) {
            let session = filled(&repo);
            let forked = parked(
                at,
                |cx| repo.fork(&session, &ForkOptions::tree(), cx).unwrap(),
                || {
                    let value = Json::string("late");
                    session.set_value(&marker(), value, &Context::new()).unwrap();
                },
            );
            assert_eq!(forked.value(&marker()).unwrap(), None, "{at:?}");
            assert_eq!(forked.next_seq().unwrap() + 1, session.next_seq().unwrap());
            assert_eq!(forked.stats().unwrap().message_count, 50);
            let next = repo.fork(&session, &ForkOptions::tree(), &Context::new()).unwrap();
            assert_eq!(next.value(&marker()).unwrap(), session.value(&marker()).unwrap());
            for session in [&forked, &next] {
                let reference = session.reference();
                let found = recount(reference.path().unwrap(), &reference.metadata.id).unwrap();
                assert_eq!(found, [] as [String; 0]);
            }
        }
    }
}

#[test]
fn a_cancelled_fork_leaves_nothing_and_its_id_is_free() {
    for at in [Point::Captured, Point::Staging, Point::Staged] {
        let folder = tempfile::tempdir().unwrap();
        for repo in layouts(folder.path()) {
            let session = filled(&repo);
            let token = forkline_engines::CancelToken::new();
            let id = SessionId::new("destination").unwrap();
            let options = ForkOptions::tree().with_id(id);
            let files = || {
                let mut names: Vec<_> = walk(folder.path());
                names.retain(|name| !name.ends_with("-wal") && !name.ends_with("-shm"));
                names
            };
            let before = files();
            let result = parked(
                at,
                |cx| repo.fork(&session, &options, &cx.clone().with_cancel(token.clone())),
                || token.cancel(),
            );
            let Err(error) = result else { panic!("{at:?}: not cancelled") };
            assert!(matches!(error, forkline_engines::Error::Cancelled), "{at:?}: {error}");
            assert_eq!(files(), before, "{at:?}");
            assert_eq!(
                repo.list(&forkline_engines::ListFilter::default(), &Context::new()).unwrap().len(),
                1
            );
            repo.fork(&session, &options, &Context::new()).unwrap();
        }
    }
}

#[test]
fn a_name_that_is_taken_meanwhile_is_refused_and_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let repo = SqliteRepo::per_file(folder.path()).unwrap();
    let session = filled(&repo);
    let options = ForkOptions::tree().with_id(SessionId::new("late").unwrap());
    let taken = folder.path().join("late.sqlite");
    let before = walk(folder.path());
    let result = parked(
        Point::Staged,
        |cx| repo.fork(&session, &options, cx).map(drop),
        || std::fs::write(&taken, "somebody else's").unwrap(),
    );
    let error = result.unwrap_err();
    assert_eq!(error.kind(), forkline_model::ErrorKind::SessionExists, "{}", error.chain());
    assert_eq!(std::fs::read(&taken).unwrap(), b"somebody else's");
    std::fs::remove_file(&taken).unwrap();
    assert_eq!(walk(folder.path()), before, "no temporary file is left");
}

#[test]
fn an_id_that_is_taken_in_the_container_meanwhile_is_refused_and_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let [_, repo] = layouts(folder.path());
    let session = filled(&repo);
    let id = SessionId::new("late").unwrap();
    let options = ForkOptions::tree().with_id(id.clone());
    let result = parked(
        Point::Staged,
        |cx| repo.fork(&session, &options, cx).map(drop),
        || {
            // Another repository, as another process has: it knows of no reservation here.
            let other = SqliteRepo::shared(folder.path().join("all.sqlite")).unwrap();
            let options = CreateOptions::default().with_id(id.clone());
            other.create(&options, &Context::new()).unwrap().close().unwrap();
        },
    );
    let error = result.unwrap_err();
    assert_eq!(error.kind(), forkline_model::ErrorKind::SessionExists, "{}", error.chain());
    let there = repo.find(&id, &Context::new()).unwrap();
    assert_eq!(there.metadata.parent_session_id, None);
    assert_eq!(repo.open(&there, &Context::new()).unwrap().stats().unwrap().message_count, 0);
}

#[test]
fn a_folder_that_goes_meanwhile_means_not_committed() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let root = there.path().join("sessions");
    let (from, into) = (SqliteRepo::per_file(here.path()), SqliteRepo::per_file(&root));
    let (from, into) = (from.unwrap(), into.unwrap());
    let session = filled(&from);
    let result = parked(
        Point::Staged,
        |cx| into.fork(&session, &ForkOptions::tree(), cx).map(drop),
        || std::fs::remove_dir(&root).unwrap(),
    );
    let error = result.unwrap_err();
    assert_eq!(error.kind(), forkline_model::ErrorKind::NotCommitted, "{}", error.chain());
    std::fs::create_dir(&root).unwrap();
    into.fork(&session, &ForkOptions::tree(), &Context::new()).unwrap();
}

#[test]
fn a_container_that_is_made_meanwhile_gets_the_rows() {
    let folder = tempfile::tempdir().unwrap();
    let [from, into] = layouts(folder.path());
    let session = filled(&from);
    let made = parked(
        Point::Staged,
        |cx| into.fork(&session, &ForkOptions::tree(), cx).unwrap(),
        || {
            let other = SqliteRepo::shared(folder.path().join("all.sqlite")).unwrap();
            filled(&other).close().unwrap();
        },
    );
    assert_eq!(made.stats().unwrap().message_count, 50);
    let filter = forkline_engines::ListFilter::default();
    assert_eq!(into.list(&filter, &Context::new()).unwrap().len(), 2);
}

fn walk(folder: &std::path::Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if path.is_dir() {
                folders.push(path.clone());
            }
            names.push(path.display().to_string());
        }
    }
    names.sort();
    names
}

/// Runs this test binary again as a process that commits to a session and may keep it open.
fn in_another_process(at: &SessionRef, layout: &str, action: &str) {
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_other_process", "--nocapture"])
        .env("FORKLINE_TEST_PATH", at.path().unwrap())
        .env("FORKLINE_TEST_SESSION", at.metadata.id.as_str())
        .env("FORKLINE_TEST_LAYOUT", layout)
        .env("FORKLINE_TEST_ACTION", action)
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success() || action == "crash", "{status}");
}

/// Not a test by itself: what [`in_another_process`] runs.
#[test]
fn the_other_process() {
    let Some(path) = std::env::var_os("FORKLINE_TEST_PATH").map(std::path::PathBuf::from) else {
        return;
    };
    let id = SessionId::new(std::env::var("FORKLINE_TEST_SESSION").unwrap()).unwrap();
    let repo = match std::env::var("FORKLINE_TEST_LAYOUT").unwrap().as_str() {
        "shared" => SqliteRepo::shared(&path).unwrap(),
        _ => SqliteRepo::per_file(path.parent().unwrap()).unwrap(),
    };
    let cx = Context::new();
    let session = repo.open(&repo.find(&id, &cx).unwrap(), &cx).unwrap();
    let write = Write::SetValue { address: marker(), value: Json::string("late") };
    session.commit(&[write], &cx).unwrap();
    if std::env::var("FORKLINE_TEST_ACTION").unwrap() == "crash" {
        std::process::abort();
    }
    session.close().unwrap();
}

#[test]
fn commits_of_another_process_do_not_disturb_a_fork() {
    for (layout, repo_of) in [("files", 0), ("shared", 1)] {
        for at in [Point::Captured, Point::Staging, Point::Staged] {
            for action in ["close", "crash"] {
                let folder = tempfile::tempdir().unwrap();
                let repo = layouts(folder.path())[repo_of].clone();
                // Held open, or closed before the fork.
                for is_open in [false, true] {
                    let session = filled(&repo);
                    let source = session.reference().clone();
                    let session = is_open.then_some(session);
                    let made = parked(
                        at,
                        |cx| repo.fork_closed(&source, &ForkOptions::tree(), cx).unwrap(),
                        || in_another_process(&source, layout, action),
                    );
                    // A closed source has no lock to pin it. If its file was rewritten before
                    // the copy was done, the fork shows the later instant, whole.
                    let marker = made.value(&marker()).unwrap();
                    if at == Point::Staged || is_open {
                        assert_eq!(marker, None, "{layout} {at:?} {action} {is_open}");
                    }
                    let late = u64::from(marker.is_some());
                    assert_eq!(made.next_seq().unwrap(), 102 + late);
                    assert_eq!(made.stats().unwrap().message_count, 50);
                    drop(session);
                    let cx = Context::new();
                    let next = repo.fork_closed(&source, &ForkOptions::tree(), &cx).unwrap();
                    assert!(next.value(&self::marker()).unwrap().is_some());
                }
            }
        }
    }
}
