//! A SQLite container as states, by queries of its own (formats §3).
//!
//! The source is never opened: the database and its `-wal` are copied to a scratch folder, and
//! SQLite recovers and reads the copy.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use forkline_model::{
    Address, Entry, EntryId, EntryType, Error as ModelError, ErrorKind, Json, Metadata, Millis,
    Seq, SessionId, State, StateBuilder, Stats, TypeName, Usage, UsageRow,
};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use super::{Concerns, Damage, branch_index};

/// One session of a container.
#[derive(Debug)]
pub struct Session {
    /// The id, also of a session that cannot be read.
    pub id: String,
    /// What its rows say.
    pub content: Result<Content, Damage>,
}

/// The rows of one session.
#[derive(Debug)]
pub struct Content {
    /// The logical state.
    pub state: State,
    /// The statistics that the session row claims.
    pub claimed: Stats,
    /// Where the branch index does not fit the entries.
    pub index_differences: Vec<String>,
}

/// Why a container cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// Copying it failed.
    #[error("cannot copy {}: {source}", path.display())]
    Copy {
        /// What was copied.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is no database, or not one of sessions.
    #[error("no session container: {0}")]
    Foreign(#[from] rusqlite::Error),
}

/// Copies a container with its write-ahead log into a folder and returns the copy's path.
///
/// # Errors
/// *Copy*. A log that vanishes meanwhile was merged into the database: the copy is made again.
pub fn copy_container(path: &Path, folder: &Path, name: &str) -> Result<PathBuf, Unreadable> {
    let copy = folder.join(name);
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| Unreadable::Copy { path, source }
    };
    fs::copy(path, &copy).map_err(failed(path))?;
    let log = side_file(path, "-wal");
    if log.exists() {
        fs::copy(&log, side_file(&copy, "-wal")).map_err(failed(&log))?;
    }
    for made in [copy.clone(), side_file(&copy, "-wal")] {
        if made.exists() {
            make_writable(&made).map_err(failed(&made))?;
        }
    }
    Ok(copy)
}

/// The path of a database's side file.
pub fn side_file(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(unix)]
fn make_writable(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
}

#[cfg(not(unix))]
fn make_writable(path: &Path) -> io::Result<()> {
    let mut permissions = fs::metadata(path)?.permissions();
    permissions.set_readonly(false);
    fs::set_permissions(path, permissions)
}

/// Reads all sessions of a container, by id; scratch files go into `folder`.
///
/// # Errors
/// The container as a whole; what is wrong in one session stands with that session.
pub fn read(path: &Path, folder: &Path) -> Result<Vec<Session>, Unreadable> {
    let copy = copy_container(path, folder, "read.sqlite")?;
    let sessions = read_copy(&copy);
    for suffix in ["", "-wal", "-shm", "-journal"] {
        // What is left behind is removed with the folder.
        let _ = fs::remove_file(side_file(&copy, suffix));
    }
    sessions
}

fn read_copy(copy: &Path) -> Result<Vec<Session>, Unreadable> {
    let db = Connection::open(copy)?;
    let mut ids = db.prepare("SELECT id FROM sessions ORDER BY id")?;
    let ids = ids.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    let sessions =
        ids.into_iter().map(|id| Session { content: Container { db: &db, id: &id }.read(), id });
    Ok(sessions.collect())
}

struct Container<'a> {
    db: &'a Connection,
    id: &'a str,
}

/// A row that cannot be used.
enum Fault {
    Sqlite(rusqlite::Error),
    Model(ModelError),
    Other(String),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<ModelError> for Fault {
    fn from(error: ModelError) -> Self {
        Self::Model(error)
    }
}

impl Fault {
    fn damage(self) -> Damage {
        let reason = match self {
            Self::Sqlite(error) => error.to_string(),
            Self::Model(error) => error.to_string(),
            Self::Other(reason) => reason,
        };
        damage(ErrorKind::CorruptSource, reason)
    }
}

fn damage(kind: ErrorKind, reason: String) -> Damage {
    Damage { kind, line: None, reason, concerns: Concerns::OpenAndSomeForks { fork_line: None } }
}

impl Container<'_> {
    fn read(&self) -> Result<Content, Damage> {
        let version = self.db.query_row(
            "SELECT storage_version FROM sessions WHERE id = ?1",
            [self.id],
            |row| row.get::<_, i64>(0),
        );
        let version = version.map_err(|error| Fault::Sqlite(error).damage())?;
        if version != 1 {
            let reason = format!("storage version {version} is not 1");
            return Err(damage(ErrorKind::UnsupportedVersion, reason));
        }
        self.rows().map_err(Fault::damage)
    }

    fn rows(&self) -> Result<Content, Fault> {
        let (metadata, next_seq, claimed) = self.session()?;
        let mut builder = StateBuilder::new(metadata, next_seq);
        self.each(
            "SELECT id, parent_id, seq, type, custom_type, timestamp, payload \
             FROM entries WHERE session_id = ?1",
            |row| {
                builder.entry(entry(row)?);
                Ok(())
            },
        )?;
        self.each(
            "SELECT namespace, key, seq, value FROM scalar_values WHERE session_id = ?1",
            |row| {
                let (address, seq, value) = stored(row)?;
                builder.value(address, seq, value);
                Ok(())
            },
        )?;
        self.each(
            "SELECT namespace, key, seq, value FROM list_values WHERE session_id = ?1",
            |row| {
                let (address, seq, value) = stored(row)?;
                builder.element(address, seq, value);
                Ok(())
            },
        )?;
        self.each(
            "SELECT id, seq, entry_id, adjustment, usage, details \
             FROM usage_ledger WHERE session_id = ?1",
            |row| {
                builder.usage(usage(row)?);
                Ok(())
            },
        )?;
        let state = builder.finish()?;
        let index_differences = branch_index::differences(self.db, self.id, &state)?;
        Ok(Content { state, claimed, index_differences })
    }

    fn session(&self) -> Result<(Metadata, u64, Stats), Fault> {
        let mut statement = self.db.prepare(
            "SELECT created_at, parent_session_id, next_seq, message_count, usage_payload \
             FROM sessions WHERE id = ?1",
        )?;
        let mut rows = statement.query([self.id])?;
        let row = rows.next()?.ok_or_else(|| Fault::Other("its row is gone".to_owned()))?;
        let metadata = Metadata {
            id: SessionId::new(self.id)?,
            created_at: Millis::new(number(row, 0)?)?,
            cwd: None,
            parent_session_id: optional(row, 1)?.map(SessionId::new).transpose()?,
            legacy_parent_session_path: None,
        };
        let usage = Usage::parse(&json(row, 4)?)?;
        Ok((metadata, number(row, 2)?, Stats { message_count: number(row, 3)?, usage }))
    }

    fn each(
        &self,
        sql: &str,
        mut take: impl FnMut(&Row<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut statement = self.db.prepare(sql)?;
        let mut rows = statement.query([self.id])?;
        while let Some(row) = rows.next()? {
            take(row)?;
        }
        Ok(())
    }
}

fn entry(row: &Row<'_>) -> Result<Entry, Fault> {
    Ok(Entry {
        id: EntryId::new(text(row, 0)?)?,
        parent: optional(row, 1)?.map(EntryId::new).transpose()?,
        seq: Seq::new(number(row, 2)?)?,
        entry_type: EntryType::new(&text(row, 3)?)?,
        custom_type: optional(row, 4)?.map(TypeName::new).transpose()?,
        timestamp: Millis::new(number(row, 5)?)?,
        payload: json(row, 6)?,
    })
}

fn stored(row: &Row<'_>) -> Result<(Address, Seq, Json), Fault> {
    let address = Address::new(text(row, 0)?, text(row, 1)?)?;
    Ok((address, Seq::new(number(row, 2)?)?, json(row, 3)?))
}

fn usage(row: &Row<'_>) -> Result<UsageRow, Fault> {
    let details = match row.get_ref(5)? {
        ValueRef::Null => None,
        _ => Some(json(row, 5)?),
    };
    Ok(UsageRow {
        id: EntryId::new(text(row, 0)?)?,
        seq: Seq::new(number(row, 1)?)?,
        entry: optional(row, 2)?.map(EntryId::new).transpose()?,
        adjustment: number(row, 3)? != 0,
        usage: json(row, 4)?,
        details,
    })
}

fn text(row: &Row<'_>, column: usize) -> Result<String, Fault> {
    match row.get_ref(column)? {
        ValueRef::Text(bytes) => match str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(Fault::Other(format!("{} is no UTF-8", name(row, column)))),
        },
        _ => Err(Fault::Other(format!("{} is no text", name(row, column)))),
    }
}

fn optional(row: &Row<'_>, column: usize) -> Result<Option<String>, Fault> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        _ => text(row, column).map(Some),
    }
}

fn number(row: &Row<'_>, column: usize) -> Result<u64, Fault> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| Fault::Other(format!("{} is negative", name(row, column))))
}

fn json(row: &Row<'_>, column: usize) -> Result<Json, Fault> {
    Json::parse(&text(row, column)?)
        .map_err(|error| Fault::Other(format!("{}: {error}", name(row, column))))
}

fn name(row: &Row<'_>, column: usize) -> String {
    row.as_ref().column_name(column).unwrap_or("a column").to_owned()
}
