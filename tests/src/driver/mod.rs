//! One engine under test, driven by the model's vocabulary.
//!
//! *Design.* A [`Driver`] takes the operations of [`forkline_model::op`] one by one and gives the
//! model's kind of answer. What an answer does not show is asked for apart: the whole state of
//! an open session ([`Driver::dump`]), what a fork must leave alone ([`Driver::evidence`]), and
//! what stands in a repository's folder ([`Driver::folder`], [`Driver::home`]). The gate knows
//! nothing else of an engine, so an engine in another process or language is one more driver.
//!
//! *Why this way.* Time and ids are in the operations, so a driver is a function of what it was
//! told: two drivers that were told the same can be held against each other, byte for byte.
//!
//! # Invariants
//! 1. A refusal is an [`Answer::Error`]. A [`Fault`] means that the engine cannot be driven any
//!    further; it is a failure of its own, whatever the model says.
//! 2. A driver judges nothing: it never looks at the model.

mod clock;
mod dump;
mod engine;
mod files;
mod local;
mod park;
mod read;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use forkline_model::{Answer, ForkRequest, Op, RepoIndex, Seq, SessionId, State};
use serde::{Deserialize, Serialize};

pub(crate) use clock::{imported_id, upgrade_id};
pub(crate) use engine::SHARED_CONTAINER;
pub(crate) use local::legacy_text;
pub use local::{LocalDriver, OpenRepo};

/// An engine under test: repositories by index, each of one kind.
pub trait Driver: Send {
    /// What reports call it, for example `jsonl+sqlite`.
    fn name(&self) -> String;

    /// What the repository at that index can do: nothing where there is none.
    fn capabilities(&self, repo: RepoIndex) -> &Capabilities;

    /// Runs one operation.
    ///
    /// # Errors
    /// The engine cannot be driven any further.
    fn run(&mut self, op: &Op) -> Result<Answer, Fault>;

    /// The message behind the last [`Answer::Error`], for the report of a failure.
    fn last_error(&self) -> Option<&str>;

    /// The whole logical state of an open session.
    ///
    /// # Errors
    /// It is not open, it cannot be read, or its rows make no session.
    fn dump(&mut self, repo: RepoIndex, session: &SessionId) -> Result<State, Fault>;

    /// The bytes that this fork must leave as they are. Empty where there are none to look at.
    ///
    /// # Errors
    /// They cannot be read.
    fn evidence(&mut self, request: &ForkRequest) -> Result<SourceEvidence, Fault>;

    /// What stands in the folder of a repository, scratch included. Empty where there is none.
    ///
    /// # Errors
    /// It cannot be read.
    fn folder(&mut self, repo: RepoIndex) -> Result<FolderListing, Fault>;

    /// The file that holds a stored session, relative to the folder, where there is one.
    fn home(&self, repo: RepoIndex, session: &SessionId) -> Option<PathBuf>;

    /// What the files of these sessions hold, read by code that is not the engine's. Of a session
    /// without a file, or of one whose files are nobody else's to read, there is nothing.
    ///
    /// # Errors
    /// A file cannot be read.
    fn stored(&mut self, repo: RepoIndex, wanted: &[SessionId]) -> Result<Vec<Stored>, Fault>;
}

/// What a file holds for who reads it without the engine.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// The session.
    pub state: State,
    /// Its lines, in files that have them.
    pub lines: Option<Lines>,
    /// What does not fit the entries: statistics, the branch index.
    pub wrong: Vec<String>,
}

/// The lines of a session file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lines {
    /// Whether every line behind the header is one write, and the last one ends.
    pub are_current: bool,
    /// The object of every write, byte for byte.
    pub writes: BTreeMap<Seq, String>,
}

/// The engine cannot be driven any further, or showed something that is no session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Fault(pub String);

impl Fault {
    /// With a message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// Something that an engine may or may not do. What it does not do is left out of its sequences
/// and said in the report; what it does is held against the model without mercy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Feature {
    /// Keeps a session's working directory.
    Cwd,
    /// Keeps sessions in files of lines, whose last line can be torn.
    TornTails,
    /// Forks a source that is closed, or read at its place while it is open.
    ClosedForks,
    /// A fork can be begun, and finished after other operations.
    Tickets,
    /// Lists its sessions.
    Listing,
    /// Deletes sessions.
    Delete,
    /// Has several repositories and forks from one into the other.
    Repositories,
    /// Keeps JSON byte for byte; without it numbers are compared as doubles.
    ExactJson,
    /// Mutation scopes.
    Scopes,
    /// Audits all lanes before a tree fork when told.
    StrictAudit,
    /// Takes session files of older versions ([`Op::Plant`]).
    Legacy,
}

impl Feature {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Cwd,
        Self::TornTails,
        Self::ClosedForks,
        Self::Tickets,
        Self::Listing,
        Self::Delete,
        Self::Repositories,
        Self::ExactJson,
        Self::Scopes,
        Self::StrictAudit,
        Self::Legacy,
    ];
}

/// What a repository can do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Capabilities(BTreeSet<Feature>);

impl Capabilities {
    /// Everything.
    pub fn all() -> Self {
        Self(Feature::ALL.into())
    }

    /// Nothing.
    pub const fn none() -> Self {
        Self(BTreeSet::new())
    }

    /// The same without one feature.
    #[must_use]
    pub fn but(mut self, feature: Feature) -> Self {
        self.0.remove(&feature);
        self
    }

    /// Whether it can do that.
    pub fn has(&self, feature: Feature) -> bool {
        self.0.contains(&feature)
    }

    /// What an operation would need that is not there. A torn tail is no such thing: it does
    /// nothing where there are no lines.
    pub fn missing_for(&self, op: &Op) -> Option<Feature> {
        let needed = match op {
            Op::List { .. } => vec![Feature::Listing],
            Op::Delete { .. } => vec![Feature::Delete],
            Op::Mutate { .. } => vec![Feature::Scopes],
            Op::ForkFinish { .. } => vec![Feature::Tickets],
            Op::Plant { .. } => vec![Feature::Legacy],
            Op::Fork { request, .. } => needed_for(request),
            Op::ForkBegin { request, .. } => {
                needed_for(request).into_iter().chain([Feature::Tickets]).collect()
            }
            _ => Vec::new(),
        };
        needed.into_iter().find(|feature| !self.has(*feature))
    }
}

fn needed_for(request: &ForkRequest) -> Vec<Feature> {
    let crosses = (request.from != request.into).then_some(Feature::Repositories);
    let is_closed = request.closed.then_some(Feature::ClosedForks);
    crosses.into_iter().chain(is_closed).collect()
}

/// Files with their bytes at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceEvidence(pub BTreeMap<PathBuf, Vec<u8>>);

impl SourceEvidence {
    /// The first file that is not what it was, and how.
    pub fn difference(&self, later: &Self) -> Option<String> {
        let names: BTreeSet<&PathBuf> = self.0.keys().chain(later.0.keys()).collect();
        names.into_iter().find_map(|name| {
            let (before, after) = (self.0.get(name), later.0.get(name));
            let what = match (before, after) {
                (Some(before), Some(after)) if before == after => return None,
                (Some(before), Some(after)) => {
                    let at = before.iter().zip(after).take_while(|(left, right)| left == right);
                    let (at, before, after) = (at.count(), before.len(), after.len());
                    format!("differs from byte {at} on ({before} bytes before, {after} after)")
                }
                (Some(_), None) => "is gone".to_owned(),
                (None, _) => "is new".to_owned(),
            };
            Some(format!("{} {what}", name.display()))
        })
    }
}

/// Paths in a repository's folder, relative to it; directories end in `/`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FolderListing(pub BTreeSet<String>);

impl FolderListing {
    /// What was not there before.
    pub fn added_since<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = &'a str> {
        self.0.difference(&before.0).map(String::as_str)
    }
}
