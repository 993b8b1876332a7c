//! The streaming import of the JSONL engine against the plain one.
//!
//! What goes wrong otherwise: a parent, a reference, a label's order or a retained tail that the
//! index resolves differently from a walk over whole values; damage that only one of them sees.
//! Random files of every version, sound and damaged, and the files of other writers are forked
//! into memory and into a file, in tree and branch scope, with ids from a counter; each result
//! must equal the model's fork of the plain import, byte for byte.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use forkline_engines::{
    Clock, Context, Environment, Error, IdSource, JsonlRepo, ListFilter, MemoryRepo, Repo,
    RepoOptions, Session, SessionRef, StateRow, transfer,
};
use forkline_gate::plain_legacy::generate::{Wanted, generate};
use forkline_gate::plain_legacy::{Imported, Mode, Outside, Refusal, import};
use forkline_model::diff::{Compare, diff};
use forkline_model::{
    Birth, BranchName, EntryId, ErrorKind, ForkOptions, LaneAudit, Millis, SessionId, State,
    StateBuilder, fork,
};
use proptest::prelude::*;

struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Millis {
        Millis::new(1_700_001_000_000).expect("a time")
    }
}

/// `n0`, `n1`, ...: what the plain import mints too.
#[derive(Default)]
struct Counter(AtomicUsize);

impl IdSource for Counter {
    fn next(&self, _timestamp: Option<Millis>) -> String {
        format!("n{}", self.0.fetch_add(1, Ordering::Relaxed))
    }
}

fn environment() -> Environment {
    Environment { clock: Arc::new(FixedClock), ids: Arc::new(Counter::default()) }
}

/// A repository with ids from 0 again, on a root that may have been used before.
fn repo(root: &Path) -> JsonlRepo {
    let options = RepoOptions { environment: environment(), ..RepoOptions::default() };
    JsonlRepo::with(root, options).expect("a folder")
}

/// A root with one file in it.
fn root_with(bytes: &[u8]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a temporary folder");
    let folder = root.path().join("--w--");
    fs::create_dir(&folder).expect("a new folder");
    fs::write(folder.join("x_legacy.jsonl"), bytes).expect("it is written");
    root
}

fn listed(root: &Path) -> Option<SessionRef> {
    let found = repo(root).list(&ListFilter::default(), &Context::new()).expect("it can be read");
    found.into_iter().next()
}

fn state_of(session: &Session) -> State {
    let metadata = session.metadata().clone();
    let mut builder = StateBuilder::new(metadata, session.next_seq().expect("it is open"));
    let dumped = session.dump(&mut |row| {
        match row {
            StateRow::Entry(entry) => builder.entry(entry),
            StateRow::Usage(row) => builder.usage(row),
            StateRow::Value { address, seq, value } => builder.value(address, seq, value),
            StateRow::Element { address, seq, value } => builder.element(address, seq, value),
        };
        Ok(())
    });
    dumped.expect("it can be read");
    builder.finish().expect("it is a session")
}

fn plain(bytes: &[u8], mode: Mode) -> Result<Imported, Refusal> {
    let mut mint = |order: usize, _: Millis, _: Option<&str>| format!("n{order}");
    import(bytes, mode, &mut Outside { mint: &mut mint, parent: &|_| None })
}

/// Forks a file through the engine, into memory and into a file.
fn engine_fork(root: &Path, at: &SessionRef, options: &ForkOptions) -> Result<State, Error> {
    let cx = Context::new();
    let memory = MemoryRepo::with(RepoOptions {
        environment: environment(),
        cwd: Some("/w".to_owned()),
        ..RepoOptions::default()
    });
    let session = transfer::fork(&repo(root), at, &memory, options, &cx)?;
    let state = state_of(&session);
    let to = tempfile::tempdir().expect("a temporary folder");
    let file = transfer::fork(&repo(root), at, &repo(to.path()), options, &cx)?;
    let same = diff(&state_of(&file), &state, &Compare::default());
    assert!(same.is_empty(), "the same fork into a file:\n{same}");
    Ok(state)
}

fn all_options(found: &Imported) -> Vec<ForkOptions> {
    let main = BranchName::new("main").expect("a name");
    let branch = || ForkOptions::branch(main.clone());
    let mut options = vec![ForkOptions::tree(), branch(), branch().before_tip()];
    options.push(ForkOptions::branch(BranchName::new("other").expect("a name")));
    let named = found.ids.keys().map(String::as_str).chain(["n0", "nobody"]);
    for id in named.filter_map(|id| EntryId::new(id).ok()) {
        options.push(branch().at(id.clone()));
        options.push(branch().before(id));
    }
    let id = SessionId::new("fork").expect("an id");
    options.into_iter().map(|options| options.with_id(id.clone())).collect()
}

/// Every fork of a file is the model's fork of the plain import, or the same refusal.
fn compare_forks(bytes: &[u8]) {
    let root = root_with(bytes);
    let Some(at) = listed(root.path()) else {
        assert!(matches!(
            plain(bytes, Mode::Refuse),
            Err(Refusal::Header(_) | Refusal::Version(_))
        ));
        return;
    };
    let found = match plain(bytes, Mode::Refuse) {
        Ok(found) => found,
        Err(Refusal::Damaged(damage)) => {
            let options = ForkOptions::tree().with_id(SessionId::new("fork").expect("an id"));
            let error = engine_fork(root.path(), &at, &options).expect_err("it is damaged");
            let mut lines: Vec<u64> = damage.iter().map(|damage| damage.line).collect();
            lines.dedup();
            compare_lines(&error, &lines);
            return;
        }
        Err(other) => panic!("{other:?}"),
    };
    assert_eq!(at.metadata, *found.state.metadata());
    for options in all_options(&found) {
        let birth = Birth {
            id: SessionId::new("fork").expect("an id"),
            created_at: FixedClock.now(),
            cwd: at.metadata.cwd.clone(),
        };
        let mapped = found.options(&options);
        let expected = fork(&found.state, &mapped, LaneAudit::Selected, birth);
        match (engine_fork(root.path(), &at, &options), expected) {
            (Ok(forked), Ok(expected)) => {
                let diff = diff(&forked, &expected, &Compare::default());
                assert!(diff.is_empty(), "{options:?}:\n{diff}");
            }
            (Err(error), Err(expected)) => assert_eq!(error.kind(), expected.kind(), "{options:?}"),
            (left, right) => panic!("{options:?}: {left:?}, expected {right:?}"),
        }
    }
    assert_eq!(fs::read(at.path().expect("a file")).expect("still there"), bytes);
}

/// A refusal names exactly these lines, the first one as its place, at most 20 in all.
fn compare_lines(error: &Error, lines: &[u64]) {
    assert_eq!(error.kind(), ErrorKind::CorruptSource, "{error}");
    let text = error.to_string();
    let named: Vec<&str> = lines.iter().take(20).map(|_| "").collect();
    let mut found = Vec::new();
    for part in text.split("line ").skip(1) {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        found.extend(digits.parse::<u64>().ok());
    }
    found.dedup();
    assert_eq!(found.len(), named.len(), "{text}\n{lines:?}");
    assert!(found.iter().eq(lines.iter().take(20)), "{text}\n{lines:?}");
}

/// Draws by SplitMix64.
fn picker(seed: u64) -> impl FnMut(u32) -> u32 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u32::try_from((mixed ^ (mixed >> 31)) % u64::from(below.max(1))).expect("below a u32")
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_files_fork_as_the_plain_import_says(
        version in 1_u32..=3,
        is_damaged in prop::bool::weighted(0.3),
        records_max in 1_u32..24,
        seed in any::<u64>(),
    ) {
        let wanted = Wanted { version, records_max, is_damaged };
        let bytes = generate(wanted, &mut picker(seed));
        println!("{}", String::from_utf8_lossy(&bytes));
        compare_forks(&bytes);
    }
}

/// The folder of the fixtures; a missing one is an error.
fn fixtures(name: &str) -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace");
    let given = std::env::var_os("FORKLINE_FIXTURES").map(PathBuf::from);
    let places =
        [given, Some(workspace.join("../shared/fixtures")), Some(workspace.join("tests/fixtures"))];
    let found = places.into_iter().flatten().map(|place| place.join(name)).find(|at| at.is_dir());
    found.expect("no fixtures: set FORKLINE_FIXTURES")
}

#[test]
fn files_of_other_writers_fork_as_the_plain_import_says() {
    let mut count = 0;
    for folder in ["pi-v3", "real"] {
        for file in fs::read_dir(fixtures(folder)).expect("a folder") {
            let path = file.expect("a file").path();
            let bytes = fs::read(&path).unwrap_or_default();
            if !bytes.starts_with(b"{\"type\":\"session\"") {
                continue;
            }
            // Large files have many ids: the small ones say enough about them.
            if bytes.len() < 20_000 {
                println!("{}", path.display());
                compare_forks(&bytes);
                count += 1;
            }
        }
    }
    assert!(count >= 50, "{count} files");
}
