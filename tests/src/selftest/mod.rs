//! `forkline self-test`: proves that the gate can fail.
//!
//! *Design.* [`BUGS`] is the closed list of gate.md's planted bugs. Each is planted in a real
//! engine from outside; then the gate runs as it always does, with its generator and its oracles,
//! until it sees a difference.
//!
//! *Why this way.* A gate that finds nothing says something only if it finds what is there. A
//! switch in an engine would make the engine under test another one than the engine in use.

mod bugs;
mod disk;
mod draft;
mod plant;
mod rows;
mod shadow;
mod shown;
mod storage;

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use forkline_engines::Repo;

use crate::driver::{Driver, EngineKind, Fault, LocalDriver};
use crate::gate::{Lineup, Options, Oracle, Place, Violation, operations, play, work_folder};

pub use bugs::{BUGS, Bug};

/// In how many cases a bug has to be caught.
pub const CASES_MAX: u64 = 2000;

impl Bug {
    /// The bug of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        BUGS.iter().find(|bug| bug.name == name)
    }

    fn wrap(&self, kind: EngineKind, repo: Arc<dyn Repo>) -> Arc<dyn Repo> {
        if kind == self.engine { Arc::new(plant::PlantedRepo::new(repo, self.plant)) } else { repo }
    }
}

/// The engine with the bug as the first repository, it or a sound one as the second.
impl Lineup for Bug {
    fn drivers(&self, place: &Place<'_>) -> Result<Vec<Box<dyn Driver>>, Fault> {
        let all = EngineKind::ALL;
        let first = all.iter().position(|kind| *kind == self.engine).unwrap_or_default();
        let other = all.into_iter().cycle().nth(first + place.shift).unwrap_or(self.engine);
        let wrap = |kind, repo| self.wrap(kind, repo);
        let (kinds, folder) = ([self.engine, other], place.folder);
        let driver = LocalDriver::wrapped(&kinds, folder, place.audit, place.cwd, &wrap)?;
        Ok(vec![Box::new(driver)])
    }
}

/// How a bug was caught, or that it was not.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// The difference, unless none was found.
    pub violation: Option<Violation>,
    /// How many cases were run.
    pub cases: u64,
    /// How many operations the sequence has that was caught.
    pub ops: usize,
    /// How long it took.
    pub elapsed: Duration,
}

impl Verdict {
    /// Whether the gate caught the bug, by a layer that is meant to.
    pub fn is_caught(&self, bug: &Bug) -> bool {
        self.layer().is_some_and(|layer| bug.layers.contains(&layer))
    }

    /// Which group of oracles saw it.
    pub fn layer(&self) -> Option<Oracle> {
        self.violation.as_ref().map(|violation| violation.oracle)
    }
}

/// Runs the gate against a bug until it is caught. The cases are those of the gate's run with
/// the same options.
///
/// # Errors
/// The work folder cannot be made.
pub fn hunt(bug: &Bug, options: &Options) -> io::Result<Verdict> {
    let started = Instant::now();
    let folder = work_folder(options.folder.as_deref())?;
    let mut verdict = Verdict { violation: None, cases: 0, ops: 0, elapsed: Duration::ZERO };
    for case in 0..options.cases {
        let (setup, ops) = operations(options, case);
        let folder = folder.path().join(case.to_string());
        let place =
            Place { folder: &folder, audit: setup.audit, cwd: &setup.cwd, shift: setup.shift };
        let played = play(&ops, bug, &place, &AtomicUsize::new(0));
        // What cannot be removed goes with the work folder.
        let _ = std::fs::remove_dir_all(&folder);
        verdict.cases = case + 1;
        if let Err(violation) = played {
            verdict.violation = Some(violation);
            verdict.ops = ops.len();
            break;
        }
    }
    verdict.elapsed = started.elapsed();
    Ok(verdict)
}
