//! One session file in use: torn tails, other writers, listing, refusals.
//!
//! What goes wrong otherwise: a crash in the middle of a commit loses what was committed before,
//! two writers glue their lines together, or a wrong path opens a wrong session.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forkline_engines::fs::{FailingFs, Fault};
use forkline_engines::{
    CancelToken, Clock, Context, CreateOptions, Environment, Error, JsonlRepo, ListFilter,
    Location, MemoryRepo, Milestone, Observer, Progress, Repo, RepoOptions, Session, SessionRef,
    UuidSource, transfer,
};
use forkline_model::{
    BranchName, EntryQuery, ErrorKind, ForkOptions, Json, Millis, SessionId, Write,
};

fn cx() -> Context {
    Context::new()
}

fn id(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}

fn main_branch() -> BranchName {
    BranchName::new("main").unwrap()
}

fn set(key: &str, value: &str) -> Write {
    Write::set("app", key, Json::parse(value).unwrap()).unwrap()
}

fn kind<T>(result: Result<T, Error>) -> ErrorKind {
    result.map(|_| ()).expect_err("it was accepted").kind()
}

struct At(u64);

impl Clock for At {
    fn now(&self) -> Millis {
        Millis::new(self.0).unwrap()
    }
}

fn repo_at(root: &Path, now: u64) -> JsonlRepo {
    let environment = Environment { clock: Arc::new(At(now)), ids: Arc::new(UuidSource::new()) };
    JsonlRepo::with(root, RepoOptions { environment, ..RepoOptions::default() }).unwrap()
}

fn create(repo: &JsonlRepo, name: &str) -> Session {
    repo.create(&CreateOptions::new("/demo").with_id(id(name)), &cx()).unwrap()
}

fn path(session: &Session) -> PathBuf {
    session.reference().path().unwrap().to_owned()
}

/// A closed session of three messages and a value, in several lines.
fn sample(repo: &JsonlRepo, name: &str) -> SessionRef {
    let session = create(repo, name);
    let branch = session.create_branch(&main_branch(), None, &cx()).unwrap();
    for text in ["one", "t\u{e9}wo", "three"] {
        let message = format!(r#"{{"role":"user","content":"{text}"}}"#);
        branch.append_message(&Json::parse(&message).unwrap(), &cx()).unwrap();
    }
    session.commit(&[set("a", "1"), set("b", "\"\u{1f600}\"")], &cx()).unwrap();
    session.close().unwrap();
    session.reference().clone()
}

fn count(session: &Session) -> usize {
    session.find_entries(&EntryQuery::default()).unwrap().len()
}

#[test]
fn a_file_cut_at_any_byte_opens_and_forks_with_its_whole_lines() {
    let root = tempfile::tempdir().unwrap();
    let repo = repo_at(root.path(), 1_700_000_000_000);
    let source = sample(&repo, "source");
    let file = source.path().unwrap();
    let bytes = fs::read(file).unwrap();
    let header = bytes.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    for len in 0..bytes.len() {
        fs::write(file, &bytes[..len]).unwrap();
        let whole = bytes[..len].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        // Into memory, where a fork costs no sync.
        let memory = MemoryRepo::new();
        let forked = transfer::fork(&repo, &source, &memory, &ForkOptions::tree(), &cx());
        assert_eq!(fs::read(file).unwrap(), &bytes[..len], "cut at {len}");
        let opened = repo.open(&source, &cx());
        if len < header {
            assert_eq!(kind(forked), ErrorKind::CorruptSource, "cut at {len}");
            assert_eq!(kind(opened), ErrorKind::CorruptSource, "cut at {len}");
            assert_eq!(fs::read(file).unwrap(), &bytes[..len], "cut at {len}");
            continue;
        }
        let (forked, opened) = (forked.unwrap(), opened.unwrap());
        let lines = bytes[header..whole].split(|&byte| byte == b'\n').count() - 1;
        // The first line makes the branch, each of the next three an entry.
        assert_eq!(count(&opened), lines.saturating_sub(1).min(3), "cut at {len}");
        assert_eq!(count(&forked), count(&opened), "cut at {len}");
        assert_eq!(forked.next_seq().unwrap(), opened.next_seq().unwrap(), "cut at {len}");
        assert_eq!(fs::read(file).unwrap(), &bytes[..whole], "cut at {len}");
        opened.commit(&[set("after", "1")], &cx()).unwrap();
    }
}

#[test]
fn a_session_comes_back_as_it_was_left() {
    let root = tempfile::tempdir().unwrap();
    let repo = repo_at(root.path(), 5);
    let source = sample(&repo, "source");
    let session = repo.open(&source, &cx()).unwrap();
    assert_eq!(session.get_value("app", "b").unwrap().unwrap().1.as_str(), "\"\u{1f600}\"");
    let tip = session.branch(&main_branch()).unwrap().unwrap().tip().unwrap().unwrap();
    let entry = session.get_entries(&[tip]).unwrap().remove(0).unwrap();
    assert_eq!(entry.payload.as_str(), r#"{"message":{"role":"user","content":"three"}}"#);
    assert_eq!(entry.timestamp.get(), 5);
    assert_eq!(session.next_seq().unwrap(), 10);
    let text = fs::read_to_string(path(&session)).unwrap();
    assert!(text.ends_with("\"value\":\"\u{1f600}\"}]\n"), "{text}");
}

#[test]
fn another_writer_is_noticed_and_nothing_is_glued() {
    let interferences: [fn(&Path); 4] = [
        |file| {
            fs::OpenOptions::new().append(true).open(file).unwrap().write_all(b"{\"ki").unwrap();
        },
        |file| {
            let bytes = fs::read(file).unwrap();
            fs::write(file, &bytes[..bytes.len() - 1]).unwrap();
        },
        |file| {
            let copy = file.with_extension("copy");
            fs::copy(file, &copy).unwrap();
            fs::rename(copy, file).unwrap();
        },
        |file| fs::remove_file(file).unwrap(),
    ];
    for (n, interfere) in interferences.into_iter().enumerate() {
        let root = tempfile::tempdir().unwrap();
        let repo = repo_at(root.path(), 5);
        let session = repo.open(&sample(&repo, "source"), &cx()).unwrap();
        let file = path(&session);
        interfere(&file);
        let changed = fs::read(&file).ok();
        let refused = session.commit(&[set("k", "1")], &cx());
        let refused = refused.expect_err("the file is not as it was left");
        assert!(matches!(refused.kind(), ErrorKind::CorruptSource | ErrorKind::Io), "change {n}");
        assert_eq!(fs::read(&file).ok(), changed, "change {n}");
        assert_eq!(session.get_value("app", "k").unwrap(), None);
    }
}

#[test]
fn a_failed_append_poisons_the_session_and_is_taken_back() {
    for torn_bytes in [0, 7] {
        let root = tempfile::tempdir().unwrap();
        let fs_ = FailingFs::new();
        let repo =
            JsonlRepo::with_fs(root.path(), RepoOptions::default(), Arc::new(fs_.clone())).unwrap();
        let source = sample(&repo, "source");
        let session = repo.open(&source, &cx()).unwrap();
        let before = fs::read(path(&session)).unwrap();
        // A look at the file, then the append.
        fs_.arm(Some(Fault { torn_bytes, ..Fault::once(1, 28) }));
        assert_eq!(kind(session.commit(&[set("k", "1")], &cx())), ErrorKind::Io);
        fs_.arm(None);
        assert_eq!(fs::read(path(&session)).unwrap(), before);
        let again = session.commit(&[set("k", "1")], &cx()).expect_err("poisoned");
        assert!(matches!(again, Error::Poisoned { .. }), "{again}");
        assert_eq!(count(&session), 3, "reads go on");
        session.close().unwrap();
        let session = repo.open(&source, &cx()).unwrap();
        session.commit(&[set("k", "1")], &cx()).unwrap();
    }
}

#[test]
fn listing_reads_headers_in_the_order_of_the_rule() {
    let root = tempfile::tempdir().unwrap();
    for (now, name) in [(5, "b"), (9, "c"), (5, "a")] {
        create(&repo_at(root.path(), now), name).close().unwrap();
    }
    // Two working directories whose folders have one name.
    let repo = repo_at(root.path(), 7);
    for (cwd, name) in [("/x/y", "slash"), ("/x-y", "dash")] {
        repo.create(&CreateOptions::new(cwd).with_id(id(name)), &cx()).unwrap();
    }
    let folder = root.path().join("--demo--");
    fs::write(folder.join("no-header.jsonl"), "{}\n").unwrap();
    fs::write(folder.join("notes.txt"), "x").unwrap();
    fs::create_dir(folder.join("folder.jsonl")).unwrap();
    std::os::unix::fs::symlink("nowhere", folder.join("link.jsonl")).unwrap();
    fs::write(root.path().join("loose.jsonl"), "{}\n").unwrap();
    let names = |filter: &ListFilter| -> Vec<String> {
        let found = repo.list(filter, &cx()).unwrap();
        found.into_iter().map(|stored| stored.metadata.id.as_str().to_owned()).collect()
    };
    assert_eq!(names(&ListFilter::default()), ["c", "dash", "slash", "a", "b"]);
    assert_eq!(names(&ListFilter { cwd: Some("/x/y".to_owned()) }), ["slash"]);
    assert_eq!(names(&ListFilter { cwd: Some("/nowhere".to_owned()) }), Vec::<String>::new());
    let cancelled = Context::new();
    let token = CancelToken::new();
    token.cancel();
    let cancelled = cancelled.with_cancel(token);
    assert_eq!(kind(repo.list(&ListFilter::default(), &cancelled)), ErrorKind::Cancelled);
}

#[test]
fn wrong_places_are_refused_and_never_hang() {
    let root = tempfile::tempdir().unwrap();
    let repo = repo_at(root.path(), 5);
    let source = sample(&repo, "source");
    let folder = source.path().unwrap().parent().unwrap();
    let at = |path: PathBuf| SessionRef { location: Location::File(path), ..source.clone() };
    let fifo = folder.join("fifo");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    std::os::unix::fs::symlink("loop", folder.join("loop")).unwrap();
    let cases = [
        (at(folder.join("missing")), ErrorKind::UnknownSession),
        (SessionRef { location: Location::Memory, ..source.clone() }, ErrorKind::UnknownSession),
        (at(fifo), ErrorKind::Io),
        (at(folder.to_owned()), ErrorKind::Io),
        (at(PathBuf::from("/dev/null")), ErrorKind::Io),
        (at(folder.join("loop")), ErrorKind::Io),
    ];
    for (place, expected) in cases {
        let options = ForkOptions::tree();
        assert_eq!(kind(repo.fork_closed(&place, &options, &cx())), expected, "{place}");
        assert_eq!(kind(repo.open(&place, &cx())), expected, "{place}");
        assert_eq!(kind(repo.delete(&place, &cx())), expected, "{place}");
    }
    let mut other = source.clone();
    other.metadata.cwd = Some("/other".to_owned());
    assert_eq!(kind(repo.open(&other, &cx())), ErrorKind::IdentityMismatch);
    assert_eq!(kind(repo.delete(&other, &cx())), ErrorKind::IdentityMismatch);
    assert!(source.path().unwrap().exists());
}

#[test]
fn an_id_is_taken_by_any_file_that_ends_in_it() {
    let root = tempfile::tempdir().unwrap();
    let repo = repo_at(root.path(), 5);
    let source = sample(&repo, "source");
    let folder = source.path().unwrap().parent().unwrap();
    fs::write(folder.join("whatever_a%2Fb.jsonl"), "x").unwrap();
    std::os::unix::fs::symlink("nowhere", folder.join("x_link.jsonl")).unwrap();
    for name in ["source", "a/b", "link"] {
        let options = ForkOptions::tree().with_id(id(name));
        let refused = repo.fork_closed(&source, &options, &cx());
        assert_eq!(kind(refused), ErrorKind::SessionExists, "{name}");
        let options = CreateOptions::new("/demo").with_id(id(name));
        assert_eq!(kind(repo.create(&options, &cx())), ErrorKind::SessionExists, "{name}");
    }
    let long = id(&"x".repeat(300));
    let refused = repo.fork_closed(&source, &ForkOptions::tree().with_id(long), &cx());
    assert_eq!(kind(refused), ErrorKind::InvalidName);
    for name in ["../x", "/etc/x", ".", "..", "", "CON", "a\nb", "c:d", "trailing. "] {
        let session = create(&repo, name);
        assert_eq!(path(&session).parent().unwrap(), folder, "{name:?}");
    }
}

#[test]
fn a_cancelled_fork_leaves_nothing_at_any_moment() {
    struct Stop {
        token: CancelToken,
        at: usize,
        seen: std::sync::atomic::AtomicUsize,
    }
    impl Stop {
        fn step(&self) {
            if self.seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == self.at {
                self.token.cancel();
            }
        }
    }
    impl Observer for Stop {
        fn progress(&self, progress: Progress) {
            assert!(progress.bytes_done <= progress.bytes_total);
            self.step();
        }
        fn reached(&self, _milestone: Milestone) {
            self.step();
        }
    }
    let root = tempfile::tempdir().unwrap();
    let repo = repo_at(root.path(), 5);
    let source = sample(&repo, "source");
    let folder = source.path().unwrap().parent().unwrap();
    let mut cancelled = 0;
    for at in 0.. {
        let token = CancelToken::new();
        let stop = Stop { token: token.clone(), at, seen: std::sync::atomic::AtomicUsize::new(0) };
        let cx = Context::new().with_cancel(token).with_observer(Arc::new(stop));
        let options = ForkOptions::tree().with_id(id("fork"));
        match repo.fork_closed_unopened(&source, &options, &cx) {
            Ok(_) => break,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled),
        }
        assert_eq!(fs::read_dir(folder).unwrap().count(), 1, "cancelled at {at}");
        cancelled += 1;
    }
    assert!(cancelled >= 6, "only {cancelled} moments");
}

#[test]
fn modes_follow_the_umask_and_survive_the_cut() {
    use std::os::unix::fs::PermissionsExt as _;
    let root = tempfile::tempdir().unwrap();
    let repo = repo_at(root.path(), 5);
    let source = sample(&repo, "source");
    let file = source.path().unwrap();
    let plain = root.path().join("plain");
    fs::write(&plain, "").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(file), mode(&plain));
    fs::set_permissions(file, fs::Permissions::from_mode(0o640)).unwrap();
    fs::OpenOptions::new().append(true).open(file).unwrap().write_all(b"torn").unwrap();
    drop(repo.open(&source, &cx()).unwrap());
    assert_eq!(mode(file) & 0o777, 0o640);
    let fork = repo.fork_closed(&source, &ForkOptions::tree(), &cx()).unwrap();
    assert_eq!(mode(&path(&fork)), mode(&plain));
}
