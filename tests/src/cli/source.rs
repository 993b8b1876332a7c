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
use crate::verify::{NoSource, SourceKind, sniff};

/// The longest header that is read.
const HEADER_BYTES_MAX: u64 = 1024 * 1024;

/// A session, and a repository that reads it.
pub(super) struct Source {
    pub(super) repo: Box<dyn Repo>,
    pub(super) reference: SessionRef,
    pub(super) bytes: u64,
    /// Where the repository may leave what it needs: never beside the source.
    _folder: TempDir,
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
    #[error("{} is a legacy session (version 1 to 3), which is not read yet", .0.display())]
    Legacy(PathBuf),
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
    let (repo, reference): (Box<dyn Repo>, _) = match sniff(path)? {
        None => return Err(NoSource::NoSession(path.to_owned()).into()),
        Some(SourceKind::Legacy) => return Err(NoSession::Legacy(path.to_owned())),
        Some(SourceKind::Jsonl) => {
            let reference = jsonl_reference(path)?;
            let is_wanted = |wanted| wanted == reference.metadata.id.as_str();
            if !session.is_none_or(is_wanted) {
                return Err(absent());
            }
            (Box::new(JsonlRepo::with(folder.path(), RepoOptions::default())?), reference)
        }
        Some(SourceKind::Sqlite) => {
            let wanted = session.map(SessionId::new).transpose().map_err(Error::from)?;
            let mut found = sqlite::sessions_in(path, wanted.as_ref())?;
            if found.len() > 1 {
                let ids = found.iter().map(|found| found.metadata.id.as_str().to_owned());
                return Err(NoSession::Several { path: path.to_owned(), ids: ids.collect() });
            }
            let repo = SqliteRepo::per_file_with(folder.path(), RepoOptions::default())?;
            (Box::new(repo), found.pop().ok_or_else(absent)?)
        }
    };
    Ok(Source { repo, reference, bytes, _folder: folder })
}

fn jsonl_reference(path: &Path) -> Result<SessionRef, NoSession> {
    let io = |source| NoSession::Io { path: path.to_owned(), source };
    let mut line = Vec::new();
    let file = File::open(path).map_err(io)?;
    BufReader::new(file.take(HEADER_BYTES_MAX)).read_until(b'\n', &mut line).map_err(io)?;
    let line = line.strip_suffix(b"\n").unwrap_or(&line);
    let header = jsonl::read_header(line)
        .map_err(|damage| NoSession::Corrupt { path: path.to_owned(), damage })?;
    let location = Location::File(path.to_owned());
    Ok(SessionRef { metadata: header.metadata, location })
}
