//! Runs the gate against planted bugs until it sees each of them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use forkline_model::Op;

use super::Bug;
use crate::gate::{
    Options, Oracle, Roster, Setup, Violation, operations, play, simplify, work_folder,
};

/// In how many cases a bug has to be caught (gate.md, "Numbers of one run").
pub const CASES_MAX: u64 = 2000;

/// How to look for bugs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The most cases for one bug.
    pub cases: u64,
    /// Decides the cases; they are those of a run of the gate with the same seed.
    pub seed: u64,
    /// How many bugs are looked for at once.
    pub jobs: usize,
    /// Whether what caught a bug is made small.
    pub shrink: bool,
    /// Where the engines keep their files; a folder in memory unless given.
    pub folder: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        let Options { seed, jobs, .. } = Options::default();
        Self { cases: CASES_MAX, seed, jobs, shrink: false, folder: None }
    }
}

/// What the gate made of an engine with a bug.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// It saw the bug, by an oracle that is meant to.
    Caught(Violation),
    /// An oracle spoke that is not meant to: the bug is not what it is said to be.
    Elsewhere(Violation),
    /// The gate objects to the same operations on the engine without the bug.
    FalseAlarm(Violation),
    /// It saw nothing.
    Missed,
}

/// One bug's result.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The bug.
    pub bug: &'static Bug,
    /// Whether it was caught.
    pub outcome: Outcome,
    /// How many cases were run.
    pub cases: u64,
    /// The operations that the gate was at when it spoke.
    pub ops: Vec<Op>,
    /// The smallest part of them that was found to do, if that was asked for.
    pub small: Option<Vec<Op>>,
    /// How long it took.
    pub elapsed: Duration,
}

impl Finding {
    /// Whether the gate did what it is there for.
    pub fn is_caught(&self) -> bool {
        matches!(self.outcome, Outcome::Caught(_))
    }

    /// What the gate said.
    pub fn violation(&self) -> Option<&Violation> {
        match &self.outcome {
            Outcome::Caught(found) | Outcome::Elsewhere(found) | Outcome::FalseAlarm(found) => {
                Some(found)
            }
            Outcome::Missed => None,
        }
    }

    /// Which group of oracles spoke.
    pub fn layer(&self) -> Option<Oracle> {
        self.violation().map(|violation| violation.oracle)
    }
}

/// Looks for every bug; the findings stand in the order of the bugs. `progress` hears of each as
/// it comes.
///
/// # Errors
/// The work folder cannot be made.
pub fn run(
    bugs: &[&'static Bug],
    settings: &Settings,
    progress: &(dyn Fn(&Finding) + Sync),
) -> io::Result<Vec<Finding>> {
    let folder = work_folder(settings.folder.as_deref())?;
    let next = AtomicUsize::new(0);
    let found: Mutex<Vec<(usize, Finding)>> = Mutex::default();
    let worker = || {
        loop {
            let index = next.fetch_add(1, Ordering::SeqCst);
            let Some(bug) = bugs.get(index) else { break };
            let finding = hunt(bug, settings, &folder.path().join(bug.name));
            progress(&finding);
            found.lock().unwrap_or_else(PoisonError::into_inner).push((index, finding));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..settings.jobs.max(1) {
            scope.spawn(worker);
        }
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(index, _)| *index);
    Ok(found.into_iter().map(|(_, finding)| finding).collect())
}

fn hunt(bug: &'static Bug, settings: &Settings, folder: &Path) -> Finding {
    let started = Instant::now();
    let options = Options { seed: settings.seed, ..Options::default() };
    let mut finding = Finding {
        bug,
        outcome: Outcome::Missed,
        cases: 0,
        ops: Vec::new(),
        small: None,
        elapsed: Duration::ZERO,
    };
    for case in 0..settings.cases {
        let (setup, ops) = operations(&options, case);
        finding.cases = case + 1;
        let Some(violation) = objection(&ops, bug, &setup, folder) else { continue };
        if settings.shrink {
            let oracle = violation.oracle;
            let again = |ops: &[Op]| {
                objection(ops, bug, &setup, folder).filter(|found| found.oracle == oracle)
            };
            finding.small = Some(simplify(ops.clone(), violation.clone(), &again).0);
        }
        finding.outcome = if let Some(alarm) = objection(&ops, &bug.sound(), &setup, folder) {
            Outcome::FalseAlarm(alarm)
        } else if bug.layers.contains(&violation.oracle) {
            Outcome::Caught(violation)
        } else {
            Outcome::Elsewhere(violation)
        };
        finding.ops = ops;
        break;
    }
    finding.elapsed = started.elapsed();
    finding
}

/// What the gate has to say of a sequence, as in any of its runs.
fn objection(ops: &[Op], roster: &dyn Roster, setup: &Setup, folder: &Path) -> Option<Violation> {
    let played = play(ops, roster, &setup.place(folder), &AtomicUsize::new(0));
    // What cannot be removed shows in the next sequence, which finds the folder not empty.
    let _ = fs::remove_dir_all(folder);
    played.err()
}
