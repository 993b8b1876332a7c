//! The engines under test, in a folder of their own, with a clock and ids that are told.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forkline_engines::{
    Clock, Environment, Error, IdSource, JsonlRepo, MemoryRepo, Repo, RepoOptions, Result, Session,
    SqliteRepo, StateRow,
};
use forkline_model::{LaneAudit, Metadata, Millis, State, StateBuilder};

/// The working directory that a fork gets where neither source nor engine has one.
pub const CWD: &str = "/forkline";

/// Which engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EngineKind {
    /// Sessions in this process.
    Memory,
    /// A folder of JSONL files.
    Jsonl,
    /// A folder of SQLite containers with one session each.
    Sqlite,
    /// One SQLite container for all.
    SqliteShared,
}

impl EngineKind {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Memory, Self::Jsonl, Self::Sqlite, Self::SqliteShared];

    /// The name on the command line and in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Jsonl => "jsonl",
            Self::Sqlite => "sqlite",
            Self::SqliteShared => "sqlite-shared",
        }
    }

    /// The working directory that a fork of `source` has in this engine (contract §1, formats §3:
    /// a container has no place for one).
    pub fn cwd_of_fork(self, source: &Metadata) -> Option<String> {
        match self {
            Self::Memory | Self::Jsonl => Some(source.cwd.clone().unwrap_or(CWD.to_owned())),
            Self::Sqlite | Self::SqliteShared => None,
        }
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for EngineKind {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        known
            .ok_or_else(|| format!("unknown engine {text:?}: memory, jsonl, sqlite, sqlite-shared"))
    }
}

/// A clock that stands still.
#[derive(Debug, Clone, Copy)]
pub struct FixedClock(pub Millis);

impl Clock for FixedClock {
    fn now(&self) -> Millis {
        self.0
    }
}

/// Ids that count up.
#[derive(Debug, Default)]
pub struct CountingIds(AtomicU64);

impl IdSource for CountingIds {
    fn next(&self, _timestamp: Option<Millis>) -> String {
        format!("id-{}", self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// One engine under test.
pub struct Engine {
    /// Which.
    pub kind: EngineKind,
    /// Its repository.
    pub repo: Box<dyn Repo>,
    /// The folder that it has for itself.
    pub folder: PathBuf,
}

/// Brings engines: ours, or in a test some with a bug.
pub trait Lineup {
    /// A fresh repository in `folder/{kind}`.
    ///
    /// # Errors
    /// I/O.
    fn engine(
        &self,
        kind: EngineKind,
        folder: &Path,
        now: Millis,
        lane_audit: LaneAudit,
    ) -> Result<Engine> {
        Engine::new(kind, folder, now, lane_audit)
    }
}

/// The engines as they are.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ours;

impl Lineup for Ours {}

impl Engine {
    /// A fresh repository in `folder/{kind}`.
    ///
    /// # Errors
    /// I/O.
    pub fn new(
        kind: EngineKind,
        folder: &Path,
        now: Millis,
        lane_audit: LaneAudit,
    ) -> Result<Self> {
        let folder = folder.join(kind.as_str());
        fs::create_dir_all(&folder).map_err(|error| Error::io("create", &folder, error))?;
        let folder =
            fs::canonicalize(&folder).map_err(|error| Error::io("resolve", &folder, error))?;
        let options = RepoOptions {
            environment: Environment {
                clock: Arc::new(FixedClock(now)),
                ids: Arc::new(CountingIds::default()),
            },
            lane_audit,
            cwd: Some(CWD.to_owned()),
            ..RepoOptions::default()
        };
        let repo: Box<dyn Repo> = match kind {
            EngineKind::Memory => Box::new(MemoryRepo::with(options)),
            EngineKind::Jsonl => Box::new(JsonlRepo::with(&folder, options)?),
            EngineKind::Sqlite => Box::new(SqliteRepo::per_file_with(&folder, options)?),
            EngineKind::SqliteShared => {
                Box::new(SqliteRepo::shared_with(folder.join("shared.sqlite"), options)?)
            }
        };
        Ok(Self { kind, repo, folder })
    }

    /// The files that it has on the disk, but for the side files of an open shared container.
    ///
    /// # Errors
    /// I/O.
    pub fn files(&self) -> io::Result<BTreeSet<PathBuf>> {
        let mut found = BTreeSet::new();
        let mut folders = vec![self.folder.clone()];
        while let Some(folder) = folders.pop() {
            for item in fs::read_dir(&folder)? {
                let path = item?.path();
                if path.is_dir() {
                    folders.push(path);
                } else if !is_side_file_of_shared(&path) {
                    found.insert(path);
                }
            }
        }
        Ok(found)
    }
}

fn is_side_file_of_shared(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    matches!(name, Some("shared.sqlite" | "shared.sqlite-wal" | "shared.sqlite-shm"))
}

/// The logical state of an open session as its engine tells it.
///
/// # Errors
/// Those of the engine; *invalid payload* and others of the model for rows that make no session.
pub fn state_of(session: &Session) -> Result<State> {
    let mut builder = StateBuilder::new(session.metadata().clone(), session.next_seq()?);
    session.dump(&mut |row| {
        match row {
            StateRow::Entry(entry) => builder.entry(entry),
            StateRow::Usage(row) => builder.usage(row),
            StateRow::Value { address, seq, value } => builder.value(address, seq, value),
            StateRow::Element { address, seq, value } => builder.element(address, seq, value),
        };
        Ok(())
    })?;
    Ok(builder.finish()?)
}
