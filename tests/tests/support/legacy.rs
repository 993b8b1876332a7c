//! What the tests of legacy files share: a repository with ids from a counter, an engine's state as the model's.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use forkline_engines::{
    Clock, Context, Environment, IdSource, JsonlRepo, ListFilter, Repo, RepoOptions, Session,
    SessionRef, StateRow,
};
use forkline_model::{Millis, State, StateBuilder};

/// When everything here happens.
pub(crate) fn time() -> Millis {
    Millis::new(1_700_001_000_000).expect("a time")
}

pub(crate) struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Millis {
        time()
    }
}

/// `n0`, `n1`, ...: what the plain import mints too.
#[derive(Default)]
pub(crate) struct Counter(AtomicUsize);

impl IdSource for Counter {
    fn next(&self, _timestamp: Option<Millis>) -> String {
        format!("n{}", self.0.fetch_add(1, Ordering::Relaxed))
    }
}

pub(crate) fn environment() -> Environment {
    Environment { clock: Arc::new(FixedClock), ids: Arc::new(Counter::default()) }
}

/// A repository with ids from 0 again, on a root that may have been used before.
pub(crate) fn repo(root: &Path) -> JsonlRepo {
    let options = RepoOptions { environment: environment(), ..RepoOptions::default() };
    JsonlRepo::with(root, options).expect("a folder")
}

/// A root with one file in it.
pub(crate) fn root_with(bytes: &[u8]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a temporary folder");
    let folder = root.path().join("--w--");
    fs::create_dir(&folder).expect("a new folder");
    fs::write(folder.join("x_legacy.jsonl"), bytes).expect("it is written");
    root
}

pub(crate) fn listed(root: &Path) -> Option<SessionRef> {
    let found = repo(root).list(&ListFilter::default(), &Context::new()).expect("it can be read");
    found.into_iter().next()
}

pub(crate) fn state_of(session: &Session) -> State {
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

/// Draws by `SplitMix64`.
pub(crate) fn picker(seed: u64) -> impl FnMut(u32) -> u32 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u32::try_from((mixed ^ (mixed >> 31)) % u64::from(below.max(1))).expect("below a u32")
    }
}
