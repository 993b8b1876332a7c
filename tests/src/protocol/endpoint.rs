//! `ENGINE:WHERE`: a repository of this project's engines by name.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use forkline_engines::{Error, JsonlRepo, MemoryRepo, Repo, RepoOptions, SqliteRepo};

use crate::driver::OpenRepo;
use crate::lineup::EngineKind;

/// A repository that can be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Which engine.
    pub kind: EngineKind,
    /// Its folder or container; nothing for sessions in memory.
    pub place: PathBuf,
}

/// A text that names no repository.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected memory:, jsonl:DIR, sqlite:DIR or sqlite-shared:FILE, not {0:?}")]
pub struct BadEndpoint(String);

impl FromStr for Endpoint {
    type Err = BadEndpoint;
    fn from_str(text: &str) -> Result<Self, BadEndpoint> {
        let bad = || BadEndpoint(text.to_owned());
        let (name, place) = text.split_once(':').ok_or_else(bad)?;
        let kind: EngineKind = name.parse().map_err(|_| bad())?;
        if (kind == EngineKind::Memory) != place.is_empty() {
            return Err(bad());
        }
        Ok(Self { kind, place: place.into() })
    }
}

impl Endpoint {
    /// Opens the repository; a folder that is missing is made.
    ///
    /// # Errors
    /// I/O.
    pub fn open(&self, options: RepoOptions) -> Result<OpenRepo, Error> {
        let place = &self.place;
        let repo: Arc<dyn Repo> = match self.kind {
            EngineKind::Memory => Arc::new(MemoryRepo::with(options)),
            EngineKind::Jsonl => Arc::new(JsonlRepo::with(place, options)?),
            EngineKind::Sqlite => Arc::new(SqliteRepo::per_file_with(place, options)?),
            EngineKind::SqliteShared => Arc::new(SqliteRepo::shared_with(place, options)?),
        };
        let folder = match self.kind {
            EngineKind::SqliteShared => place.parent().unwrap_or(place).to_owned(),
            _ => place.clone(),
        };
        Ok(OpenRepo { kind: self.kind, folder, repo })
    }
}

/// Opens all of them with the same options.
///
/// # Errors
/// I/O.
pub fn open_all(endpoints: &[Endpoint], options: &RepoOptions) -> Result<Vec<OpenRepo>, Error> {
    endpoints.iter().map(|endpoint| endpoint.open(options.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::{Endpoint, EngineKind};

    #[test]
    fn engines_and_places_are_told_apart() {
        let read = |text: &str| text.parse::<Endpoint>().ok().map(|it| (it.kind, it.place));
        assert_eq!(read("memory:"), Some((EngineKind::Memory, "".into())));
        assert_eq!(read("jsonl:a:b/c"), Some((EngineKind::Jsonl, "a:b/c".into())));
        assert_eq!(read("sqlite:d"), Some((EngineKind::Sqlite, "d".into())));
        assert_eq!(read("sqlite-shared:f"), Some((EngineKind::SqliteShared, "f".into())));
        for text in ["memory", "memory:x", "jsonl:", "jsonl", "git:x", ":x", ""] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
