//! Repositories of session containers: one file per session, or one container for all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use forkline_model::{Error as ModelError, Metadata, SessionId};
use rusqlite::TransactionBehavior;

use super::capture::SqliteSource;
use super::destination::{NewSession, Place, SqliteDestination, exists};
use super::names::{SIDE_SUFFIXES, file_name, side};
use super::open::{Reader, Use, scratch, writer};
use super::publish::{make_folder, sweep, sync_folder};
use super::rows::{At, failed, session_row};
use super::schema::SESSION_TABLES;
use super::storage::SqliteStorage;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::fork::{Destination, Source};
use crate::repo::{
    ListFilter, Location, Repo, RepoCore, RepoOptions, SessionRef, SyncCommits, sort_listing,
};
use crate::storage::Storage;

/// Session containers in one folder, or one shared container.
///
/// Sessions have no working directory here: the format has no place for one, so a given one is
/// dropped. A commit is synced with [`SyncCommits::Yes`] (`synchronous` FULL); otherwise
/// (NORMAL) a power loss may take the last commits, but never a part of one.
///
/// # Example
///
/// ```
/// use forkline_engines::{Context, CreateOptions, Repo, SqliteRepo};
/// use forkline_model::ForkOptions;
///
/// # let folder = tempfile::tempdir().expect("a temporary folder");
/// let cx = Context::new();
/// let repo = SqliteRepo::per_file(folder.path())?;
/// let session = repo.create(&CreateOptions::default(), &cx)?;
/// session.set_name("first try", &cx)?;
/// let fork = repo.fork(&session, &ForkOptions::tree(), &cx)?;
/// assert_eq!(fork.name()?.as_deref(), Some("first try"));
/// # Ok::<(), forkline_engines::Error>(())
/// ```
#[derive(Clone)]
pub struct SqliteRepo {
    core: RepoCore,
    layout: Layout,
}

/// Canonical paths.
#[derive(Debug, Clone)]
enum Layout {
    PerFile(PathBuf),
    Shared(PathBuf),
}

impl SqliteRepo {
    /// One file per session in a folder, which is made if it is missing.
    ///
    /// # Errors
    /// I/O.
    pub fn per_file(folder: impl AsRef<Path>) -> Result<Self> {
        Self::per_file_with(folder, RepoOptions::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// I/O.
    pub fn per_file_with(folder: impl AsRef<Path>, options: RepoOptions) -> Result<Self> {
        let folder = prepare(folder.as_ref())?;
        Ok(Self { core: RepoCore::new(options), layout: Layout::PerFile(folder) })
    }

    /// All sessions in one container. Its folder is made if it is missing, the container itself
    /// with the first session.
    ///
    /// # Errors
    /// I/O.
    pub fn shared(container: impl AsRef<Path>) -> Result<Self> {
        Self::shared_with(container, RepoOptions::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// I/O.
    pub fn shared_with(container: impl AsRef<Path>, options: RepoOptions) -> Result<Self> {
        let container = container.as_ref();
        let invalid = || {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "it names no file");
            Error::io("open the container", container, error)
        };
        let name = container.file_name().ok_or_else(invalid)?;
        let path = prepare(container.parent().ok_or_else(invalid)?)?.join(name);
        let path = fs::canonicalize(&path).unwrap_or(path);
        Ok(Self { core: RepoCore::new(options), layout: Layout::Shared(path) })
    }

    /// Where a session of that id is stored.
    fn place(&self, session: &SessionId) -> Result<Place> {
        Ok(match &self.layout {
            Layout::PerFile(folder) => {
                Place { path: folder.join(file_name(session)?), is_shared: false }
            }
            Layout::Shared(path) => Place { path: path.clone(), is_shared: true },
        })
    }

    /// The path of a session of this repository.
    ///
    /// # Errors
    /// *Unknown session* for a location that is not this repository's.
    fn own(&self, at: &SessionRef) -> Result<PathBuf> {
        let given = located(at)?;
        match self.place(&at.metadata.id) {
            Ok(place) if place.path == given => Ok(given),
            _ => Err(unknown(&at.metadata.id)),
        }
    }

    fn sync(&self) -> SyncCommits {
        self.core.options().sync_commits
    }

    fn remove_file(&self, path: &Path, session: &SessionId) -> Result<()> {
        Reader::open(path, Use::Look)?.session_row(session)?;
        // Opened to write and closed again, the file takes its WAL in: what a crash between the
        // removals leaves is no WAL that a later file of this name would replay.
        let conn = writer(path, self.sync())?;
        conn.close().map_err(|(_, error)| failed("close", path, error))?;
        fs::remove_file(path).map_err(|error| Error::io("delete", path, error))?;
        for suffix in SIDE_SUFFIXES {
            let path = side(path, suffix);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::io("delete", path, error));
                }
                _ => {}
            }
        }
        sync_folder(path.parent().unwrap_or(Path::new("/")))
    }

    fn remove_rows(&self, path: &Path, session: &SessionId) -> Result<()> {
        Reader::open(path, Use::Look)?.session_row(session)?;
        let at = |error| failed("delete from", path, error);
        let mut conn = writer(path, self.sync())?;
        let transaction =
            conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(at)?;
        session_row(&transaction, "main", path, session)?;
        for (table, column) in SESSION_TABLES {
            let sql = format!("DELETE FROM main.{table} WHERE {column} = ?1");
            transaction.execute(&sql, [session.as_str()]).map_err(at)?;
        }
        transaction.commit().map_err(at)?;
        conn.close().map_err(|(_, error)| at(error))
    }

    /// What a database says of its sessions; nothing for one that cannot be read.
    fn listed(path: &Path) -> Vec<Metadata> {
        let read = || -> Result<Vec<Metadata>> {
            let reader = Reader::to_list(path)?;
            reader.pin()?;
            let found = sessions(&reader)?;
            Ok(if reader.is_intact() { found } else { Vec::new() })
        };
        // Read again where a writer came between.
        let found = read().unwrap_or_default();
        if found.is_empty() { read().unwrap_or_default() } else { found }
    }
}

impl Repo for SqliteRepo {
    fn core(&self) -> &RepoCore {
        &self.core
    }

    fn make(&self, metadata: &Metadata, _cx: &Context) -> Result<SessionRef> {
        let place = self.place(&metadata.id)?;
        let metadata = Metadata { cwd: None, ..metadata.clone() };
        let conn = scratch().map_err(|error| failed("prepare", &place.path, error))?;
        let new = NewSession { metadata: &metadata, next_seq: 1, messages: 0, rows: 0 };
        place.store(&conn, &new, &|_| Ok(()))?;
        Ok(SessionRef { metadata, location: Location::File(place.path) })
    }

    fn load(&self, at: &SessionRef, _cx: &Context) -> Result<Box<dyn Storage>> {
        let path = self.own(at)?;
        Ok(Box::new(SqliteStorage::open(&path, &at.metadata.id, self.sync())?))
    }

    fn remove(&self, at: &SessionRef, _cx: &Context) -> Result<()> {
        let path = self.own(at)?;
        match &self.layout {
            Layout::PerFile(_) => self.remove_file(&path, &at.metadata.id),
            Layout::Shared(_) => self.remove_rows(&path, &at.metadata.id),
        }
    }

    fn capture(&self, at: &SessionRef, _cx: &Context) -> Result<Box<dyn Source>> {
        Ok(Box::new(SqliteSource::open(&located(at)?, &at.metadata.id)?))
    }

    fn stage(&self, metadata: &Metadata, _cx: &Context) -> Result<Box<dyn Destination>> {
        let place = self.place(&metadata.id)?;
        Ok(Box::new(SqliteDestination::new(place, metadata.clone())))
    }

    fn require_free(&self, metadata: &Metadata) -> Result<()> {
        let place = self.place(&metadata.id)?;
        if !exists(&place.path) {
            return Ok(());
        }
        let taken = ModelError::SessionExists { session: metadata.id.clone() };
        if !place.is_shared {
            return Err(taken.into());
        }
        let reader = Reader::open(&place.path, Use::Look)?;
        let found = reader
            .conn
            .prepare("SELECT 1 FROM sessions WHERE id = ?1")
            .and_then(|mut find| find.exists([metadata.id.as_str()]));
        if found.map_err(|error| failed("read", &place.path, error))? {
            return Err(taken.into());
        }
        Ok(())
    }

    fn destination_cwd(&self, _source: &Metadata) -> Result<Option<String>> {
        Ok(None)
    }

    fn list(&self, filter: &ListFilter, cx: &Context) -> Result<Vec<SessionRef>> {
        let mut found = Vec::new();
        if filter.cwd.is_some() {
            return Ok(found);
        }
        let reference = |metadata, path: &Path| SessionRef {
            metadata,
            location: Location::File(path.to_owned()),
        };
        match &self.layout {
            Layout::Shared(path) => {
                found.extend(Self::listed(path).into_iter().map(|one| reference(one, path)));
            }
            Layout::PerFile(folder) => {
                let files = fs::read_dir(folder)
                    .map_err(|error| Error::io("list", folder.as_path(), error))?;
                for file in files.flatten() {
                    cx.check()?;
                    let path = file.path();
                    if path.extension().is_none_or(|extension| extension != "sqlite") {
                        continue;
                    }
                    let is_own = |one: &Metadata| {
                        file_name(&one.id).is_ok_and(|own| file.file_name().to_str() == Some(&*own))
                    };
                    let own = Self::listed(&path).into_iter().filter(is_own);
                    found.extend(own.map(|one| reference(one, &path)));
                }
            }
        }
        sort_listing(&mut found);
        Ok(found)
    }
}

/// The sessions of a container anywhere, or the one of that id, for a fork that reads it in its
/// place: nothing is made, swept or left beside it.
///
/// # Errors
/// I/O, *corrupt source* for what is no container, and what is wrong with the first session that
/// cannot be read: *unsupported version*, *corrupt source*.
pub fn sessions_in(
    container: impl AsRef<Path>,
    wanted: Option<&SessionId>,
) -> Result<Vec<SessionRef>> {
    let path = container.as_ref();
    let path = fs::canonicalize(path).map_err(|error| Error::io("open", path, error))?;
    let reader = Reader::open(&path, Use::Look)?;
    reader.pin()?;
    let ids = session_ids(&reader)?;
    let ids = ids.into_iter().filter(|id| wanted.is_none_or(|wanted| wanted == id));
    ids.map(|id| {
        let metadata = reader.session_row(&id)?.metadata;
        Ok(SessionRef { metadata, location: Location::File(path.clone()) })
    })
    .collect()
}

/// Makes a folder, removes what killed processes left in it, and gives its canonical path.
fn prepare(folder: &Path) -> Result<PathBuf> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    make_folder(folder)?;
    let folder = fs::canonicalize(folder).map_err(|error| Error::io("open", folder, error))?;
    sweep(&folder);
    Ok(folder)
}

fn unknown(session: &SessionId) -> Error {
    ModelError::UnknownSession { session: session.clone() }.into()
}

/// The canonical path of a reference.
fn located(at: &SessionRef) -> Result<PathBuf> {
    let path = at.path().ok_or_else(|| unknown(&at.metadata.id))?;
    fs::canonicalize(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => unknown(&at.metadata.id),
        _ => Error::io("open", path, error),
    })
}

/// The sessions of a container that can be read.
fn sessions(reader: &Reader) -> Result<Vec<Metadata>> {
    let ids = session_ids(reader)?.into_iter();
    let read = ids.filter_map(|id| reader.session_row(&id).ok());
    Ok(read.map(|row| row.metadata).collect())
}

/// The ids of a container's sessions; what is no id names no session.
fn session_ids(reader: &Reader) -> Result<Vec<SessionId>> {
    let at = At::table(reader.path(), "", "sessions");
    let mut ids =
        reader.conn.prepare("SELECT id FROM sessions").map_err(|error| at.failed("list", error))?;
    let mut rows = ids.query([]).map_err(|error| at.failed("list", error))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(|error| at.failed("list", error))? {
        let id = at.text(row, 0, "id").ok().and_then(|id| SessionId::new(id).ok());
        found.extend(id);
    }
    Ok(found)
}
