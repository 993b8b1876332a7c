//! Many sequences on all cores.
//!
//! A case is a function of the run's seed and its number: sharding and the number of threads
//! change nothing but the time. Of several failures the one with the lowest number is reported.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use forkline_model::{Op, Trace};
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use proptest_state_machine::ReferenceStateMachine;

use super::contest::{Roster, play};
use super::coverage::Tally;
use super::generate::{Reference, Setup};
use super::judge::Violation;
use super::machine::Machine;
use super::simplify::{Only, simplify};

/// How long sequences are unless told.
pub const OPS: RangeInclusive<usize> = 20..=40;
/// How often proptest may run a failing sequence to make it shorter.
const SHRINKS_MAX: u32 = 1000;

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many sequences.
    pub cases: u64,
    /// Decides all of them.
    pub seed: u64,
    /// How long sequences are.
    pub ops: RangeInclusive<usize>,
    /// Which part of the cases: `(i, n)` runs every n-th one, from the i-th on, counted from 1.
    pub shard: (u64, u64),
    /// How many threads.
    pub jobs: usize,
    /// When to stop, whether all cases were run or not.
    pub time: Option<Duration>,
    /// Where the engines keep their files; a folder in memory unless given.
    pub folder: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cases: 5000,
            seed: 0,
            ops: OPS,
            shard: (1, 1),
            jobs: std::thread::available_parallelism().map_or(1, usize::from),
            time: None,
            folder: None,
        }
    }
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What was run and reached.
    pub tally: Tally,
    /// The first failure.
    pub failure: Option<Failure>,
    /// How long it took.
    pub elapsed: Duration,
}

/// A difference, made small.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// Which case.
    pub case: u64,
    /// What differs, in the small sequence.
    pub violation: Violation,
    /// The small sequence.
    pub trace: Trace,
    /// How long the sequence was that was found.
    pub found_ops: usize,
}

/// A temporary folder for engines: in memory where the system has such a place, because what a
/// run finds does not depend on a disk, and its speed does.
///
/// # Errors
/// The folder cannot be made.
pub fn work_folder(given: Option<&Path>) -> io::Result<tempfile::TempDir> {
    let in_memory = Path::new("/dev/shm");
    let builder = || {
        let mut builder = tempfile::Builder::new();
        builder.prefix("forkline-gate-");
        builder
    };
    match given {
        Some(folder) => builder().tempdir_in(folder),
        None if in_memory.is_dir() => {
            builder().tempdir_in(in_memory).or_else(|_| builder().tempdir())
        }
        None => builder().tempdir(),
    }
}

/// Runs the cases of a shard. `progress` hears of every case that is done.
///
/// # Errors
/// The work folder cannot be made.
pub fn run(
    options: &Options,
    roster: &dyn Roster,
    progress: &(dyn Fn() + Sync),
) -> io::Result<Outcome> {
    let one = |case, folder: &Path| run_case(options, case, roster, folder);
    spread(options, options.cases, &one, progress)
}

/// Runs one case, by its number, in an empty folder.
pub(super) type OneCase<'a> = dyn Fn(u64, &Path) -> Result<Tally, Box<Failure>> + Sync + 'a;

/// Runs the cases of a shard on all threads.
///
/// # Errors
/// The work folder cannot be made.
pub(super) fn spread(
    options: &Options,
    cases: u64,
    one: &OneCase<'_>,
    progress: &(dyn Fn() + Sync),
) -> io::Result<Outcome> {
    let started = Instant::now();
    let folder = work_folder(options.folder.as_deref())?;
    let (shard, shards) = options.shard;
    let next = AtomicU64::new(0);
    let lowest_failure = AtomicU64::new(u64::MAX);
    let done: Mutex<(Tally, Option<Failure>)> = Mutex::default();
    let worker = |job: usize| {
        let folder = folder.path().join(job.to_string());
        let mut tally = Tally::default();
        loop {
            let case = next.fetch_add(1, Ordering::SeqCst) * shards + shard - 1;
            let is_late = options.time.is_some_and(|limit| started.elapsed() > limit);
            if case >= cases || case > lowest_failure.load(Ordering::SeqCst) || is_late {
                break;
            }
            match one(case, &folder) {
                Ok(one) => tally.add(&one),
                Err(failure) => {
                    lowest_failure.fetch_min(case, Ordering::SeqCst);
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    if done.1.as_ref().is_none_or(|other| other.case > case) {
                        done.1 = Some(*failure);
                    }
                }
            }
            progress();
        }
        done.lock().unwrap_or_else(PoisonError::into_inner).0.add(&tally);
    };
    std::thread::scope(|scope| {
        for job in 0..options.jobs.max(1) {
            scope.spawn(move || worker(job));
        }
    });
    let (tally, failure) = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Outcome { tally, failure, elapsed: started.elapsed() })
}

/// The operations of one case, for who wants to see what a seed makes.
pub fn operations(options: &Options, case: u64) -> (Setup, Vec<Op>) {
    let mut runner = runner(options.seed, case);
    let tree = strategy(options).new_tree(&mut runner).expect("nothing is rejected");
    let (reference, ops, _): (Reference, Vec<Op>, _) =
        proptest::strategy::ValueTree::current(&tree);
    (reference.setup, ops)
}

fn strategy(
    options: &Options,
) -> impl Strategy<Value = (Reference, Vec<Op>, Option<std::sync::Arc<AtomicUsize>>)> {
    Machine::sequential_strategy(options.ops.clone())
}

fn runner(seed: u64, case: u64) -> TestRunner {
    let mut bytes = [0; 32];
    let both = seed.to_le_bytes().into_iter().chain(case.to_le_bytes());
    for (to, from) in bytes.iter_mut().zip(both) {
        *to = from;
    }
    let config = Config {
        failure_persistence: None,
        source_file: None,
        max_shrink_iters: SHRINKS_MAX,
        ..Config::default()
    };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

fn run_case(
    options: &Options,
    case: u64,
    roster: &dyn Roster,
    folder: &Path,
) -> Result<Tally, Box<Failure>> {
    let mut runner = runner(options.seed, case);
    let tree = strategy(options).new_tree(&mut runner).expect("nothing is rejected");
    let tally = RefCell::new(Tally::default());
    // The first failure decides which engine the shorter sequences are run on, and how long the
    // sequence was.
    let first: RefCell<Option<(Violation, usize)>> = RefCell::new(None);
    let outcome = runner.run_one(tree, |(reference, ops, seen)| {
        let seen = seen.unwrap_or_default();
        let engine = first.borrow().as_ref().map(|(violation, _)| violation.engine.clone());
        let played = match engine {
            None => play_in(folder, &reference.setup, &ops, roster, &seen),
            Some(engine) => {
                play_in(folder, &reference.setup, &ops, &Only { roster, engine: &engine }, &seen)
            }
        };
        match played {
            Ok(one) => {
                *tally.borrow_mut() = one;
                Ok(())
            }
            Err(violation) => {
                let message = violation.to_string();
                first.borrow_mut().get_or_insert((violation, ops.len()));
                Err(TestCaseError::fail(message))
            }
        }
    });
    let (setup, ops) = match outcome {
        Ok(_) => return Ok(tally.into_inner()),
        Err(TestError::Fail(_, (reference, ops, _))) => (reference.setup, ops),
        Err(TestError::Abort(reason)) => unreachable!("nothing is rejected: {reason}"),
    };
    let (violation, length) = first.into_inner().unwrap_or_else(|| {
        // Whatever panicked outside of an engine is a bug of the gate or the model.
        (super::judge::of_the_gate(), ops.len())
    });
    let found = Found { seed: Some(options.seed), case, setup, ops, violation, length };
    Err(Box::new(found.make_small(roster, folder)))
}

/// A failing sequence as it was found.
pub(super) struct Found {
    pub(super) seed: Option<u64>,
    pub(super) case: u64,
    pub(super) setup: Setup,
    pub(super) ops: Vec<Op>,
    pub(super) violation: Violation,
    pub(super) length: usize,
}

impl Found {
    /// The same failure by as few operations as can be had.
    pub(super) fn make_small(self, roster: &dyn Roster, folder: &Path) -> Failure {
        let Self { seed, case, setup, ops, violation, length } = self;
        let only = Only { roster, engine: &violation.engine };
        let again = |ops: &[Op]| {
            play_in(folder, &setup, ops, &only, &AtomicUsize::new(0))
                .err()
                .filter(|found| found.oracle == violation.oracle)
        };
        let (ops, violation) = match again(&ops) {
            Some(found) => simplify(ops, found, &again),
            None => (ops, violation.clone()),
        };
        let trace = Trace {
            about: format!("found by the gate: {} ({})", violation.engine, violation.oracle.name()),
            seed,
            engines: violation.engine.split('+').map(str::to_owned).collect(),
            lane_audit: setup.audit,
            ops,
        };
        Failure { case, violation, trace, found_ops: length }
    }
}

/// Plays in an empty folder and leaves it gone.
pub(super) fn play_in(
    folder: &Path,
    setup: &Setup,
    ops: &[Op],
    roster: &dyn Roster,
    seen: &AtomicUsize,
) -> Result<Tally, Violation> {
    let played = play(ops, roster, &setup.place(folder), seen);
    // What cannot be removed shows in the next sequence, which finds the folder not empty.
    let _ = fs::remove_dir_all(folder);
    played
}
