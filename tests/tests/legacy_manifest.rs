//! The JSONL engine gives for every legacy file of another implementation what that one recorded:
//! the listing, the opened state with its statistics, the upgrade with its answer and its file,
//! and every fork with its file, or a refusal.
//!
//! Ids are told to the engine, so that nothing has to be set aside but how numbers are spelled;
//! that real ones carry the time of their record is looked at beside. Where the contract takes
//! what the other implementation refuses, the list that says so is in `support/recorded.rs`.

#[path = "support/recorded.rs"]
mod recorded;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use forkline_engines::{
    Context, Environment, Error, IdSource, JsonlRepo, ListFilter, Location, Repo, RepoOptions,
    SessionRef, transfer,
};
use forkline_gate::fixtures::{fixture, fixtures};
use forkline_gate::lineup::{FixedClock, state_of};
use forkline_gate::plain_legacy::Members;
use forkline_model::{ErrorKind, Json, Metadata, Millis, SessionId, State, Write};
use recorded::{TAKEN, elements, members, number, options, recorded_fork, recorded_state, same};
use tempfile::TempDir;

/// The ids that the recorded results have, in the order of minting.
struct Told(Vec<String>, AtomicUsize);

impl IdSource for Told {
    fn next(&self, _timestamp: Option<Millis>) -> String {
        let id = self.0.get(self.1.fetch_add(1, Ordering::Relaxed));
        id.cloned().unwrap_or_else(|| "@v3-import-usage".to_owned())
    }
}

fn now(manifest: &Members) -> Millis {
    Millis::new(number(manifest, "forkCreatedAt")).expect("a time")
}

/// One file of the manifest.
struct Case<'a> {
    name: String,
    all: Members,
    folder: &'a Path,
    now: Millis,
    ids: Vec<String>,
}

impl Case<'_> {
    /// A new root with a copy of the file, and with the parents that it may name.
    fn root(&self) -> (TempDir, PathBuf) {
        let root = tempfile::tempdir().expect("a temporary folder");
        let folder = root.path().join("--workspace-demo--");
        let parents = folder.join("parents");
        fs::create_dir_all(&parents).expect("new folders");
        for parent in fs::read_dir(self.folder.join("parents")).expect("a folder") {
            let parent = parent.expect("a file").path();
            fs::copy(&parent, parents.join(parent.file_name().expect("a name"))).expect("copied");
        }
        let path = folder.join(format!("2024-03-01T09-00-00-000Z_{}.jsonl", self.name));
        fs::copy(fixture(&format!("pi-v3/{}.jsonl", self.name)), &path).expect("copied");
        (root, path)
    }

    fn repo(&self, root: &Path) -> JsonlRepo {
        let ids = Arc::new(Told(self.ids.clone(), AtomicUsize::new(0)));
        let environment = Environment { clock: Arc::new(FixedClock(self.now)), ids };
        let options = RepoOptions { environment, ..RepoOptions::default() };
        JsonlRepo::with(root, options).expect("a root")
    }

    fn is_taken(&self) -> bool {
        TAKEN.contains(&self.name.as_str())
    }

    /// What lists it, compared; what names it.
    fn listed(&self, root: &Path, path: &Path) -> SessionRef {
        let found = self.repo(root).list(&ListFilter::default(), &Context::new());
        let found = found.expect("it can be read");
        let listed = members(self.all.raw("listed").expect("it says"));
        let recorded: Vec<Metadata> = elements(listed.raw("sessions").expect("an array"))
            .iter()
            .map(|session| recorded::metadata(&members(session.get())))
            .collect();
        if !self.is_taken() {
            let ours = found.iter().map(|at| &at.metadata);
            assert!(ours.eq(&recorded), "{}: {found:?}, recorded {recorded:?}", self.name);
        }
        found.into_iter().next().unwrap_or_else(|| SessionRef {
            metadata: Metadata {
                id: SessionId::new(&self.name).expect("an id"),
                created_at: Millis::EPOCH,
                cwd: Some("/workspace/demo".to_owned()),
                parent_session_id: None,
                legacy_parent_session_path: None,
            },
            location: Location::File(path.to_owned()),
        })
    }

    /// Opened, looked at, upgraded: each answer is the recorded one.
    fn opened(&self, state: &State, stats: &Members) {
        let cx = Context::new();
        let (root, path) = self.root();
        let at = self.listed(root.path(), &path);
        let before = fs::read(&path).expect("there");
        let repo = self.repo(root.path());
        let session = repo.open(&at, &cx).expect("it is sound");
        same(&self.name, &state_of(&session).expect("it can be read"), state);
        assert_eq!(session.metadata(), state.metadata());
        let opened = members(self.all.raw("opened").expect("it says"));
        assert_eq!(session.next_seq().expect("it is open"), number(&opened, "nextSeq"));
        self.same_stats(&session, stats);
        session.commit(&[], &cx).expect("an empty commit is legal");
        let fork = repo.fork(&session, &forkline_model::ForkOptions::tree(), &cx);
        let while_open = members(self.all.raw("forkWhileOpen").expect("it says"));
        assert_eq!(while_open.raw("ok"), Some("false"));
        let error = fork.map(|_| ()).expect_err("its ids are not stable");
        assert_eq!(error.kind(), ErrorKind::OpenLegacySource);
        assert_eq!(fs::read(&path).expect("there"), before);

        let write = Write::set("app", "first", Json::string("write after import")).expect("valid");
        let committed = session.commit(&[write], &cx).expect("it can be upgraded");
        let upgraded = members(self.all.raw("upgraded").expect("it says"));
        let recorded = members(upgraded.raw("committed").expect("it says"));
        let first = committed.first_seq.expect("it has a write").get();
        assert_eq!(first, number(&recorded, "firstSeq"));
        assert_eq!(recorded.raw("seqs").map(spaceless), Some(format!("[{first}]")));
        assert_eq!(committed.writes, 1);
        assert_eq!(committed.timestamp.get(), number(&recorded, "timestamp"));
        self.same_stats(&session, &members(recorded.raw("stats").expect("it says")));
        session.close().expect("it can be closed");
        self.same_file(&path, &upgraded.text("file").expect("a name"));
    }

    fn same_stats(&self, session: &forkline_engines::Session, recorded: &Members) {
        let stats = session.stats().expect("it is open");
        assert_eq!(stats.message_count, number(recorded, "messageCount"), "{}", self.name);
        let usage = Json::parse(recorded.raw("usage").expect("it says")).expect("JSON");
        assert!(stats.usage.to_json().equals_as_doubles(&usage), "{}: {stats:?}", self.name);
    }

    /// Line by line: the same members with the same values, whatever their order.
    fn same_file(&self, ours: &Path, recorded: &str) {
        let theirs = fs::read_to_string(self.folder.join(recorded)).expect("a fixture");
        let ours = fs::read_to_string(ours).expect("text");
        assert_eq!(ours.lines().count(), theirs.lines().count(), "{recorded}");
        for (left, right) in ours.lines().zip(theirs.lines()) {
            let [left, right] = [left, right].map(|line| Json::parse(line).expect("JSON"));
            assert!(left.equals_as_doubles(&right), "{recorded}:\n{left}\n{right}");
        }
    }

    /// Ids of the real source carry the times of their entries, and rise where those are equal.
    fn mints_ids_of_their_times(&self) {
        let (root, path) = self.root();
        let at = self.listed(root.path(), &path);
        let repo = JsonlRepo::open(root.path()).expect("a root");
        let session = repo.open(&at, &Context::new()).expect("it is sound");
        let state = state_of(&session).expect("it can be read");
        let mut ids = Vec::new();
        for entry in state.entries().values() {
            let id = uuid::Uuid::parse_str(entry.id.as_str()).expect("a UUID");
            assert_eq!(id.get_version_num(), 7);
            assert_eq!(id.as_u128() >> 80, u128::from(entry.timestamp.get()));
            ids.push((entry.timestamp, entry.seq, id));
        }
        ids.sort_unstable();
        assert!(ids.is_sorted_by_key(|(_, _, id)| id), "{}: {ids:?}", self.name);
    }

    /// One fork, or its refusal.
    fn fork(&self, recorded: &Members, is_sound: bool) {
        let what = format!("{} {:?}", self.name, recorded.text("label"));
        let (root, path) = self.root();
        let at = self.listed(root.path(), &path);
        let before = fs::read(&path).expect("there");
        let into = tempfile::tempdir().expect("a temporary folder");
        let id = SessionId::new(recorded.text("id").expect("an id")).expect("an id");
        let options = options(&members(recorded.raw("options").expect("they are there")));
        let (from, to) = (self.repo(root.path()), self.repo(into.path()));
        let fork = transfer::fork(&from, &at, &to, &options.with_id(id), &Context::new());
        match (fork, recorded.text("file")) {
            (Ok(fork), Some(file)) => {
                let state = state_of(&fork).expect("it can be read");
                same(&what, &state, &recorded_fork(&self.folder.join(&file)));
                let next_seq = fork.next_seq().expect("it is open");
                assert_eq!(next_seq, number(recorded, "nextSeq"), "{what}");
                self.same_file(fork.reference().path().expect("a file"), &file);
            }
            (Ok(_), None) => assert!(self.is_taken(), "{what}: refused by the other"),
            (Err(error), None) => {
                let expected = match (is_sound, self.name.as_str()) {
                    // These have no lane.
                    (false, _) if self.is_taken() => ErrorKind::NotALane,
                    (false, _) => ErrorKind::CorruptSource,
                    // Neither a lane nor an entry on it: contract 3.1 asks for the lane first.
                    (true, "discarded-parents") => ErrorKind::NotALane,
                    (true, _) => kind(recorded),
                };
                assert_eq!(error.kind(), expected, "{what}: {error}");
                assert_eq!(fs::read_dir(into.path()).expect("a folder").count(), 0, "{what}");
            }
            (Err(error), Some(_)) => panic!("{what}: {error}"),
        }
        assert_eq!(fs::read(&path).expect("there"), before, "{what}");
    }

    fn refused(&self) {
        let (root, path) = self.root();
        let at = self.listed(root.path(), &path);
        let opened: Result<_, Error> = self.repo(root.path()).open(&at, &Context::new());
        let kind = opened.map(|_| ()).map_err(|error| error.kind());
        let expected = if self.is_taken() { Ok(()) } else { Err(ErrorKind::CorruptSource) };
        assert_eq!(kind, expected, "{}", self.name);
    }
}

fn spaceless(text: &str) -> String {
    text.split_ascii_whitespace().collect()
}

/// The kind of a refusal that was recorded in words.
fn kind(fork: &Members) -> ErrorKind {
    let text = fork.text("error").expect("it was refused");
    if text.contains("is not a configured AgentLane") {
        ErrorKind::NotALane
    } else {
        let known = ["is not on source branch", "is not a retained entry", "does not exist"];
        assert!(known.iter().any(|words| text.contains(words)), "{text}");
        ErrorKind::EntryNotOnBranch
    }
}

#[test]
fn every_recorded_result_is_that_of_the_engine() {
    let folder = fixtures().join("pi-v3");
    let manifest = fs::read_to_string(folder.join("manifest.json")).expect("a manifest");
    let manifest = members(&manifest);
    let (mut opened, mut refused, mut forks) = (0, 0, 0);
    for file in elements(manifest.raw("files").expect("an array")) {
        let all = members(file.get());
        let name = all.text("name").expect("a name");
        let state = members(all.raw("opened").expect("it says")).text("state");
        let recorded = state.map(|state| recorded_state(&folder.join(state)));
        let ids = recorded.iter().flat_map(|(state, _)| state.entries().values());
        let ids = ids.map(|entry| entry.id.as_str().to_owned()).collect();
        let case = Case { name, all, folder: &folder, now: now(&manifest), ids };
        if let Some((state, stats)) = &recorded {
            case.opened(state, stats);
            case.mints_ids_of_their_times();
            opened += 1;
        } else {
            case.refused();
            refused += 1;
        }
        for fork in elements(case.all.raw("forks").expect("an array")) {
            case.fork(&members(fork.get()), recorded.is_some());
            forks += 1;
        }
    }
    println!("{opened} opened, {refused} refused, {forks} forks");
    assert!(opened >= 28 && refused >= 18 && forks >= 138, "{opened} {refused} {forks}");
}
