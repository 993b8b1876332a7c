//! Every file operation of every call fails once, and from there on, and nothing is half done.
//!
//! What goes wrong otherwise: a full disk leaves half a session under a good name, a temporary
//! file, or an id that cannot be used again. A dry run counts the operations; then each of them
//! fails in a world of its own (reliability.md §2.2). Afterwards the fault is lifted, and the
//! same call has to work.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forkline_engines::fs::{FailingFs, Fault};
use forkline_engines::{
    Clock, Context, CreateOptions, Environment, IdSource, JsonlRepo, ListFilter, MemoryRepo, Repo,
    RepoOptions, Result, Session, SessionRef, SyncCommits, transfer,
};
use forkline_model::{
    BranchName, EntryQuery, ErrorKind, ForkOptions, Json, Millis, SessionId, Write,
};

const EIO: i32 = 5;
const EINTR: i32 = 4;
const ENOSPC: i32 = 28;

struct At;

impl Clock for At {
    fn now(&self) -> Millis {
        Millis::new(1_700_000_000_000).unwrap()
    }
}

/// Ids that are the same in every world.
#[derive(Default)]
struct Ids(AtomicU64);

impl IdSource for Ids {
    fn next(&self, _timestamp: Option<Millis>) -> String {
        format!("id-{}", self.0.fetch_add(1, Ordering::SeqCst))
    }
}

fn cx() -> Context {
    Context::new()
}

fn id(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}

fn main_branch() -> BranchName {
    BranchName::new("main").unwrap()
}

fn set(namespace: &str, key: &str, value: &str) -> Write {
    Write::set(namespace, key, Json::parse(value).unwrap()).unwrap()
}

/// A repository on a file system that fails, with one closed session in it.
struct World {
    root: tempfile::TempDir,
    fs: FailingFs,
    ids: Arc<Ids>,
    repo: JsonlRepo,
    source: SessionRef,
}

fn open_repo(root: &Path, fs: &FailingFs, ids: &Arc<Ids>) -> JsonlRepo {
    let options = RepoOptions {
        environment: Environment { clock: Arc::new(At), ids: ids.clone() },
        sync_commits: SyncCommits::Yes,
        ..RepoOptions::default()
    };
    JsonlRepo::with_fs(root, options, Arc::new(fs.clone())).unwrap()
}

impl World {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let fs = FailingFs::new();
        let ids = Arc::new(Ids::default());
        let repo = open_repo(root.path(), &fs, &ids);
        let options = CreateOptions::new("/demo").with_id(id("source"));
        let session = repo.create(&options, &cx()).unwrap();
        session.create_branch(&main_branch(), None, &cx()).unwrap();
        let lane = [
            set("pi.lane.config", "main", "{}"),
            set("pi.lane.state", "main", "{\"currentOperationId\":\"open\"}"),
            set("app", "k", "[1]"),
        ];
        session.commit(&lane, &cx()).unwrap();
        for _ in 0..3 {
            append(&session).unwrap();
        }
        session.close().unwrap();
        let source = session.reference().clone();
        Self { root, fs, ids, repo, source }
    }

    /// All files under the root with their bytes.
    fn files(&self) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        for folder in fs::read_dir(self.root.path()).unwrap() {
            for file in fs::read_dir(folder.unwrap().path()).unwrap() {
                let path = file.unwrap().path();
                let name = path.strip_prefix(self.root.path()).unwrap().display().to_string();
                files.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
        files
    }

    fn source_bytes(&self) -> String {
        fs::read_to_string(self.source.path().unwrap()).unwrap()
    }

    /// Lets go of the fault, and of what a failed clean-up has left: the next opening of the
    /// repository removes it.
    fn recover(&mut self) {
        self.fs.arm(None);
        self.repo = open_repo(self.root.path(), &self.fs, &self.ids);
        let names: Vec<String> = self.files().into_keys().collect();
        assert!(names.iter().all(|name| !name.contains(".tmp")), "{names:?}");
    }
}

fn append(session: &Session) -> Result<()> {
    let branch = session.branch(&main_branch())?.expect("it is there");
    let message = Json::parse(r#"{"role":"user","content":"hello"}"#).unwrap();
    branch.append_message(&message, &cx()).map(|_| ())
}

fn entry_count(session: &Session) -> usize {
    session.find_entries(&EntryQuery::default()).unwrap().len()
}

/// Runs a call with every operation failing in turn; `check` judges each outcome.
fn sweep<T>(call: impl Fn(&World) -> Result<T>, check: impl Fn(&mut World, Result<T>, &str)) {
    let count = |call: &dyn Fn(&World) -> Result<T>| {
        let world = World::new();
        world.fs.arm(None);
        let handles = world.fs.open_handles();
        call(&world).map(drop).unwrap();
        assert_eq!(world.fs.open_handles(), handles, "handles left open");
        (world.fs.count(), world.fs.log())
    };
    let (steps, log) = count(&call);
    assert_eq!(count(&call).0, steps, "the number of operations is not stable");
    assert!(steps > 3, "only {steps} operations");
    for at in 0..steps {
        for errno in [EIO, ENOSPC] {
            for mut fault in [Fault::once(at, errno), Fault::sticky(at, errno)] {
                for torn_bytes in [0, 1, 20] {
                    fault.torn_bytes = torn_bytes;
                    let mut world = World::new();
                    world.fs.arm(Some(fault));
                    let result = call(&world);
                    let step = log[usize::try_from(at).unwrap()];
                    let context = format!("{step}, {fault:?}");
                    check(&mut world, result, &context);
                    if step != "append" {
                        break;
                    }
                }
            }
        }
        // What was only interrupted is tried again.
        let step = log[usize::try_from(at).unwrap()];
        if step == "append" || step == "read_at" {
            let world = World::new();
            world.fs.arm(Some(Fault::once(at, EINTR)));
            assert!(call(&world).is_ok(), "{step} {at} was interrupted");
        }
    }
}

/// A fork either is there, whole, or has left nothing; the source is as it was.
fn check_fork(fork: impl Fn(&World) -> Result<String>) {
    let clean = World::new();
    let source = clean.source_bytes();
    let expected = fork(&clean).unwrap();
    sweep(&fork, |world, result, context| {
        assert_eq!(world.source_bytes(), source, "{context}");
        let found = world.files();
        let published: Vec<_> = found.iter().filter(|(name, _)| name.contains("_fork.")).collect();
        let kind = result.as_ref().err().map(forkline_engines::Error::kind);
        match kind {
            None | Some(ErrorKind::DurabilityUncertain) => {
                assert_eq!(published.len(), 1, "{context}");
                assert_eq!(*published[0].1, expected, "{context}");
                world.recover();
            }
            Some(kind) => {
                assert!(published.is_empty(), "{context}: {kind:?}");
                let may_remain = context.contains("sticky: true") || context.starts_with("remove");
                let is_clean = found.keys().all(|name| !name.contains(".tmp"));
                assert!(is_clean || may_remain, "{context}: {:?}", found.keys());
                world.recover();
                assert_eq!(fork(world).unwrap(), expected, "{context}: the second try");
            }
        }
        assert_eq!(world.source_bytes(), source, "{context}");
    });
}

fn forked(forked: &forkline_engines::Forked) -> String {
    fs::read_to_string(forked.reference.path().unwrap()).unwrap()
}

#[test]
fn a_tree_fork_is_all_or_nothing() {
    check_fork(|world| {
        let options = ForkOptions::tree().with_id(id("fork"));
        world.repo.fork_closed_unopened(&world.source, &options, &cx()).map(|fork| forked(&fork))
    });
}

#[test]
fn a_branch_fork_is_all_or_nothing() {
    check_fork(|world| {
        let options = ForkOptions::branch(main_branch()).before_tip().with_id(id("fork"));
        world.repo.fork_closed_unopened(&world.source, &options, &cx()).map(|fork| forked(&fork))
    });
}

#[test]
fn a_fork_from_memory_is_all_or_nothing() {
    check_fork(|world| {
        let memory = MemoryRepo::new();
        let session = memory.create(&CreateOptions::new("/new").with_id(id("m")), &cx())?;
        session.create_branch(&main_branch(), None, &cx())?;
        session.set_value(
            &forkline_model::Address::new("app", "k")?,
            Json::parse("{\"a\":\n1}").unwrap(),
            &cx(),
        )?;
        session.close()?;
        let options = ForkOptions::tree().with_id(id("fork"));
        let made =
            transfer::fork_unopened(&memory, session.reference(), &world.repo, &options, &cx())?;
        Ok(forked(&made))
    });
}

#[test]
fn a_refused_fork_leaves_nothing_even_of_its_folder() {
    let world = World::new();
    let before = world.files();
    let unknown = ForkOptions::branch(BranchName::new("nowhere").unwrap());
    let refused = world.repo.fork_closed(&world.source, &unknown, &cx());
    assert_eq!(refused.map(drop).unwrap_err().kind(), ErrorKind::UnknownBranch);
    assert_eq!(world.files(), before);

    let memory = MemoryRepo::new();
    let elsewhere = CreateOptions::new("/elsewhere");
    let session = memory.create(&elsewhere, &cx()).unwrap();
    world.fs.arm(Some(Fault::sticky(4, ENOSPC)));
    let refused = world.repo.fork_unopened(&session, &ForkOptions::tree(), &cx());
    assert!(refused.is_err());
    world.fs.arm(None);
    assert!(world.repo.fork_unopened(&session, &ForkOptions::tree(), &cx()).is_ok());
}

#[test]
fn a_creation_is_all_or_nothing() {
    let create = |world: &World| {
        let options = CreateOptions::new("/new/folder").with_id(id("new"));
        world.repo.create(&options, &cx()).map(drop)
    };
    sweep(create, |world, result, context| {
        let is_there = world.files().keys().any(|name| name.ends_with("_new.jsonl"));
        world.recover();
        let list = world.repo.list(&ListFilter::default(), &cx()).unwrap();
        let found = list.iter().find(|stored| stored.metadata.id == id("new"));
        assert_eq!(found.is_some(), is_there, "{context}");
        match (result, found) {
            (Ok(()), Some(found)) => drop(world.repo.open(found, &cx()).unwrap()),
            (Ok(()), None) => panic!("{context}: it is not there"),
            // Created, and then not opened: it is a whole session.
            (Err(_), Some(found)) => {
                assert_eq!(entry_count(&world.repo.open(found, &cx()).unwrap()), 0);
            }
            (Err(_), None) => create(world).unwrap(),
        }
    });
}

#[test]
fn a_commit_is_there_or_not_and_the_session_goes_on() {
    let commit = |world: &World| {
        let session = world.repo.open(&world.source, &cx())?;
        let appended = append(&session);
        if appended.is_err() {
            // What the session shows is what its file holds.
            let state = session.next_seq()?;
            assert!(session.set_name("x", &cx()).is_err() || session.next_seq()? == state + 1);
        }
        appended
    };
    sweep(commit, |world, result, context| {
        world.recover();
        let session = world.repo.open(&world.source, &cx()).unwrap();
        let count = entry_count(&session);
        match result {
            Ok(()) => assert_eq!(count, 4, "{context}"),
            Err(_) => assert!(count == 3 || count == 4, "{context}: {count}"),
        }
        append(&session).unwrap();
        assert_eq!(entry_count(&session), count + 1, "{context}");
    });
}

#[test]
fn a_deletion_happens_or_not() {
    let delete = |world: &World| world.repo.delete(&world.source, &cx());
    sweep(delete, |world, result, context| {
        world.recover();
        let is_there = world.source.path().unwrap().exists();
        assert!(result.is_err() || !is_there, "{context}");
        if is_there {
            delete(world).unwrap();
        }
        let options = CreateOptions::new("/demo").with_id(id("source"));
        assert!(world.repo.create(&options, &cx()).is_ok(), "{context}");
    });
}

#[test]
fn a_torn_tail_is_cut_or_left() {
    let open = |world: &World| {
        let path = world.source.path().unwrap();
        let mut bytes = fs::read(path).unwrap();
        bytes.extend(b"{\"kind\":\"entry\",\"id\"");
        fs::write(path, bytes).unwrap();
        world.repo.open(&world.source, &cx()).map(drop)
    };
    let whole = World::new().source_bytes().len();
    sweep(open, |world, _, context| {
        let bytes = world.source_bytes();
        assert!(bytes.len() == whole || bytes.len() == whole + 20, "{context}");
        world.recover();
        let session = world.repo.open(&world.source, &cx()).unwrap();
        assert_eq!(entry_count(&session), 3, "{context}");
        assert_eq!(world.source_bytes().len(), whole, "{context}");
    });
}

#[test]
fn leftovers_of_a_killed_process_are_swept_and_in_nobodys_way() {
    let world = World::new();
    let folder = world.source.path().unwrap().parent().unwrap().to_owned();
    let left = folder.join(".forkline-00000000000000ff.tmp");
    fs::write(&left, "{\"v\":4").unwrap();
    assert_eq!(world.repo.list(&ListFilter::default(), &cx()).unwrap().len(), 1);
    let options = ForkOptions::tree().with_id(id("fork"));
    assert!(world.repo.fork_closed_unopened(&world.source, &options, &cx()).is_ok());
    assert!(left.exists());
    let _again = open_repo(world.root.path(), &world.fs, &world.ids);
    assert!(!left.exists());
    assert_eq!(world.repo.list(&ListFilter::default(), &cx()).unwrap().len(), 2);
}
