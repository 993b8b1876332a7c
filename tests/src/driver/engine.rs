//! The engines of this project by name.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use forkline_engines::{Error, JsonlRepo, Location, MemoryRepo, Repo, RepoOptions, SessionRef, SqliteRepo};
use forkline_model::{Metadata, Millis, SessionId};

use super::{Capabilities, Feature};

/// The shared container in a repository's folder.
pub(crate) const SHARED_CONTAINER: &str = "sessions.sqlite";

/// An engine of this project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EngineKind {
    /// Maps in this process.
    Memory,
    /// A file of lines for each session.
    Jsonl,
    /// A SQLite container for each session.
    Sqlite,
    /// One SQLite container for all sessions.
    SqliteShared,
}

/// No engine of that name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown engine {0:?}: there are memory, jsonl, sqlite and sqlite-shared")]
pub struct UnknownEngine(String);

impl EngineKind {
    /// All engines.
    pub const ALL: [Self; 4] = [Self::Memory, Self::Jsonl, Self::Sqlite, Self::SqliteShared];

    /// The name on the command line and in traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Jsonl => "jsonl",
            Self::Sqlite => "sqlite",
            Self::SqliteShared => "sqlite-shared",
        }
    }

    pub(super) fn capabilities(self) -> Capabilities {
        match self {
            Self::Jsonl => Capabilities::all(),
            Self::Memory => Capabilities::without(&[Feature::TornTails]),
            Self::Sqlite | Self::SqliteShared => {
                Capabilities::without(&[Feature::TornTails, Feature::Cwd])
            }
        }
    }

    /// A repository in `root`, which is there and empty.
    pub(super) fn repository(
        self,
        root: &Path,
        options: RepoOptions,
    ) -> Result<Arc<dyn Repo>, Error> {
        Ok(match self {
            Self::Memory => Arc::new(MemoryRepo::with(options)),
            Self::Jsonl => Arc::new(JsonlRepo::with(root, options)?),
            Self::Sqlite => Arc::new(SqliteRepo::per_file_with(root, options)?),
            Self::SqliteShared => {
                Arc::new(SqliteRepo::shared_with(root.join(SHARED_CONTAINER), options)?)
            }
        })
    }

    /// A reference to a session that was never there.
    pub(super) fn nowhere(self, root: &Path, id: &SessionId) -> SessionRef {
        let metadata = Metadata {
            id: id.clone(),
            created_at: Millis::EPOCH,
            cwd: None,
            parent_session_id: None,
            legacy_parent_session_path: None,
        };
        let location = match self {
            Self::Memory => Location::Memory,
            Self::Jsonl => Location::File(root.join("nowhere.jsonl")),
            Self::Sqlite => Location::File(root.join("nowhere.sqlite")),
            Self::SqliteShared => Location::File(root.join(SHARED_CONTAINER)),
        };
        SessionRef { metadata, location }
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for EngineKind {
    type Err = UnknownEngine;
    fn from_str(name: &str) -> Result<Self, UnknownEngine> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| UnknownEngine(name.to_owned()))
    }
}
