//! Finds the one session that a command is to read, without reading more than its head.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use forkline_engines::{
    Error, JsonlRepo, Location, Repo, RepoOptions, SessionRef, SqliteRepo, sqlite,
};
use forkline_model::SessionId;
use tempfile::TempDir;

use crate::plain::{Damage, jsonl};
use crate::plain_legacy::Refusal;
use crate::verify::{NoSource, SourceKind, legacy_metadata, sniff};

/// The longest header that is read.
const HEADER_BYTES_MAX: u64 = 1024 * 1024;

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
    #[error("corrupt source {}, {damage}", path.display())]
    Corrupt { path: PathBuf, damage: Damage },
    #[error("corrupt source {}, line 1: {reason}", path.display())]
    Header { path: PathBuf, reason: String },
    #[error("{}", .0.chain())]
    Engine(#[from] Error),
    #[error("{} holds no session {}", path.display(), wanted.as_deref().unwrap_or("at all"))]
    Absent { path: PathBuf, wanted: Option<String> },
    #[error("{} holds {} sessions: name one with --session\n{}", path.display(), ids.len(),
            ids.iter().map(|id| format!("  {id}")).collect::<Vec<_>>().join("\n"))]
    Several { path: PathBuf, ids: Vec<String> },
}

/// The session of a file, or the one of that id in a container.
pub(super) fn find(path: &Path, session: Option<&str>) -> Result<Source, NoSession> {
    let io = |source| NoSession::Io { path: path.to_owned(), source };
    let bytes = std::fs::metadata(path).map_err(io)?.len();
    let folder = tempfile::tempdir().map_err(io)?;
    let absent = || NoSession::Absent { path: path.to_owned(), wanted: session.map(str::to_owned) };
    let (repo, reference) = match sniff(path)? {
        None => return Err(NoSource::NoSession(path.to_owned()).into()),
        Some(kind @ (SourceKind::Jsonl | SourceKind::Legacy)) => {
            let reference = jsonl_reference(path, kind)?;
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

fn jsonl_reference(path: &Path, kind: SourceKind) -> Result<SessionRef, NoSession> {
    let io = |source| NoSession::Io { path: path.to_owned(), source };
    let mut line = Vec::new();
    let file = File::open(path).map_err(io)?;
    BufReader::new(file.take(HEADER_BYTES_MAX)).read_until(b'\n', &mut line).map_err(io)?;
    let location = Location::File(path.to_owned());
    if kind == SourceKind::Legacy {
        let metadata = legacy_metadata(&line, path).map_err(|refusal| {
            let reason = match refusal {
                Refusal::Version(found) => format!("version {found} is not 1, 2 or 3"),
                Refusal::Header(reason) => format!("no header: {reason}"),
                Refusal::Damaged(_) => "no header".to_owned(),
            };
            NoSession::Header { path: path.to_owned(), reason }
        })?;
        return Ok(SessionRef { metadata, location });
    }
    let line = line.strip_suffix(b"\n").unwrap_or(&line);
    let header = jsonl::read_header(line)
        .map_err(|damage| NoSession::Corrupt { path: path.to_owned(), damage })?;
    Ok(SessionRef { metadata: header.metadata, location })
}
