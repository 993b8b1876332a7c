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
mod hunt;
mod plant;
mod rows;
mod shadow;
mod shown;
mod storage;

use std::sync::Arc;

use forkline_engines::Repo;

use crate::driver::{Driver, Fault, LocalDriver};
use crate::gate::{Place, Roster};
use crate::lineup::EngineKind;

pub use bugs::{BUGS, Bug};
pub use hunt::{CASES_MAX, Finding, Outcome, Settings, run};

impl Bug {
    /// The bug of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        BUGS.iter().find(|bug| bug.name == name)
    }

    /// A repository of the bug's engine with the bug in it.
    pub fn planted(&self, repo: Arc<dyn Repo>) -> Arc<dyn Repo> {
        Arc::new(plant::PlantedRepo::new(repo, self.plant))
    }

    /// The engines that this bug is among, without it.
    pub fn sound(&self) -> impl Roster + '_ {
        Sound(self)
    }

    fn driver(
        &self,
        place: &Place<'_>,
        wrap: &dyn Fn(EngineKind, Arc<dyn Repo>) -> Arc<dyn Repo>,
    ) -> Result<Vec<Box<dyn Driver>>, Fault> {
        let all = EngineKind::ALL;
        let first = all.iter().position(|kind| *kind == self.engine).unwrap_or_default();
        let other = all.into_iter().cycle().nth(first + place.shift).unwrap_or(self.engine);
        let kinds = [self.engine, other];
        let driver = LocalDriver::wrapped(&kinds, place.folder, place.audit, place.cwd, wrap)?;
        Ok(vec![Box::new(driver)])
    }
}

/// The engine with the bug as the first repository, it or a sound one as the second.
impl Roster for Bug {
    fn drivers(&self, place: &Place<'_>) -> Result<Vec<Box<dyn Driver>>, Fault> {
        self.driver(place, &|kind, repo| {
            if kind == self.engine { self.planted(repo) } else { repo }
        })
    }
}

struct Sound<'a>(&'a Bug);

impl Roster for Sound<'_> {
    fn drivers(&self, place: &Place<'_>) -> Result<Vec<Box<dyn Driver>>, Fault> {
        self.0.driver(place, &|_, repo| repo)
    }
}
