//! A program that speaks the protocol, as the gate's only competitor.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use forkline_model::LaneAudit;

use super::command::{BadCommand, ProtocolCommand};
use super::driver::ProtocolDriver;
use crate::driver::{Driver, Fault, Feature};
use crate::gate::{Place, REPOS, Roster};

/// Starts the program anew for every sequence.
#[derive(Debug, Clone)]
pub struct ProtocolRoster(ProtocolCommand);

/// What a program said of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probed {
    /// What it is called.
    pub engine: String,
    /// What some repository of it cannot do.
    pub missing: Vec<Feature>,
}

impl fmt::Display for Probed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.engine)?;
        if self.missing.is_empty() {
            return Ok(());
        }
        let names = self.missing.iter().map(|feature| format!("{feature:?}"));
        write!(f, " (does not declare {})", names.collect::<Vec<_>>().join(", "))
    }
}

impl ProtocolRoster {
    /// Of a command, each call of which may take `call_limit`.
    ///
    /// # Errors
    /// The command has no program, or a quote that does not end.
    pub fn new(command: &str, call_limit: Duration) -> Result<Self, BadCommand> {
        ProtocolCommand::new(command, call_limit).map(Self)
    }

    /// Starts the program once and asks what it is.
    ///
    /// # Errors
    /// Those of [`ProtocolDriver::start`].
    pub fn probe(&self, folder: &Path) -> Result<Probed, Fault> {
        let driver = ProtocolDriver::start(&self.0, folder, REPOS, LaneAudit::Selected, "/")?;
        let lacks =
            |feature: &Feature| (0..REPOS).any(|repo| !driver.capabilities(repo).has(*feature));
        // Legacy files are no part of the protocol.
        let asked = Feature::ALL.into_iter().filter(|feature| *feature != Feature::Legacy);
        let missing = asked.filter(lacks).collect();
        Ok(Probed { engine: driver.name(), missing })
    }
}

impl Roster for ProtocolRoster {
    fn drivers(&self, place: &Place<'_>) -> Result<Vec<Box<dyn Driver>>, Fault> {
        let Place { folder, audit, cwd, .. } = *place;
        Ok(vec![Box::new(ProtocolDriver::start(&self.0, folder, REPOS, audit, cwd)?)])
    }
}
