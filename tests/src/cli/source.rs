//! Finds the one session that a command is to read, without reading more than its head.

use std::path::{Path, PathBuf};

use forkline_engines::{
    Error, JsonlRepo, Repo, RepoOptions, SessionRef, SqliteRepo, jsonl, sqlite,
};
use forkline_model::SessionId;
use tempfile::TempDir;

use crate::verify::{NoSource, SourceKind, is_jsonl, sniff};

/// A session, and a repository that reads it.
pub(super) struct Source {
    pub(super) repo: Reader,
    pub(super) reference: SessionRef,
    pub(super) bytes: u64,
    /// Where the repository may leave what it needs: never beside the source.
    _folder: TempDir,
}

/// The repository.
pub(super) enum Reader {
    Jsonl(JsonlRepo),
    Sqlite(SqliteRepo),
}

impl Reader {
    pub(super) fn repo(&self) -> &dyn Repo {
        match self {
            Self::Jsonl(repo) => repo,
            Self::Sqlite(repo) => repo,
        }
    }
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoSession {
    #[error(transparent)]
    NoSource(#[from] NoSource),
    #[error("cannot read {}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("cannot make a temporary folder in {} (TMPDIR): {}", std::env::temp_dir().display(),
            without_path(.0))]
    Scratch(std::io::Error),
    #[error("{}", .0.chain())]
    Engine(#[from] Error),
    #[error("{} holds no session {}", path.display(), wanted.as_deref().unwrap_or("at all"))]
    Absent { path: PathBuf, wanted: Option<String> },
    #[error("{} holds {} sessions: name one with --session\n{}", path.display(), ids.len(),
            ids.iter().map(|id| format!("  {id}")).collect::<Vec<_>>().join("\n"))]
    Several { path: PathBuf, ids: Vec<String> },
}

/// What the system said: the path that `tempfile` adds is a name that never was.
fn without_path(error: &std::io::Error) -> String {
    let inner = error.get_ref().and_then(std::error::Error::source);
    inner.map_or_else(|| error.to_string(), ToString::to_string)
}

/// The session of a file, or the one of that id in a container.
pub(super) fn find(path: &Path, session: Option<&str>) -> Result<Source, NoSession> {
    let io = |source| NoSession::Io { path: path.to_owned(), source };
    let bytes = std::fs::metadata(path).map_err(io)?.len();
    let folder = tempfile::tempdir().map_err(NoSession::Scratch)?;
    let absent = || NoSession::Absent { path: path.to_owned(), wanted: session.map(str::to_owned) };
    let (repo, reference) = match sniff(path)? {
        None if !is_jsonl(path) => return Err(NoSource::NoSession(path.to_owned()).into()),
        None | Some(SourceKind::Jsonl | SourceKind::Legacy) => {
            let reference = jsonl::session_at(path)?;
            let is_wanted = |wanted| wanted == reference.metadata.id.as_str();
            if !session.is_none_or(is_wanted) {
                return Err(absent());
            }
            let repo = JsonlRepo::with(folder.path(), RepoOptions::default())?;
            (Reader::Jsonl(repo), reference)
        }
        Some(SourceKind::Sqlite) => {
            let wanted = session.map(SessionId::new).transpose().map_err(Error::from)?;
            let mut found = sqlite::sessions_in(path, wanted.as_ref())?;
            if found.len() > 1 {
                let ids = found.iter().map(|found| found.metadata.id.as_str().to_owned());
                return Err(NoSession::Several { path: path.to_owned(), ids: ids.collect() });
            }
            let repo = SqliteRepo::per_file_with(folder.path(), RepoOptions::default())?;
            (Reader::Sqlite(repo), found.pop().ok_or_else(absent)?)
        }
    };
    Ok(Source { repo, reference, bytes, _folder: folder })
}
