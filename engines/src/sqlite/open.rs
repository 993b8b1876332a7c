//! How databases are opened: to write, to read, as a source.
//!
//! A source is opened by the rule below, so that no byte of it changes and no side file is left
//! beside it (contract §3.3):
//!
//! | beside the database | opened with |
//! |---|---|
//! | no `-wal`, or an empty one without `-shm` | `immutable=1`: no lock, no side file |
//! | `-wal` and `-shm` | `mode=ro`, else `mode=ro&readonly_shm=1` |
//! | a filled `-wal` alone, or a hot journal | `mode=ro`; the new `-shm` stays |
//!
//! An immutable reader does not see what a writer does meanwhile, and a checkpoint under it would
//! show it pages of two instants. Therefore [`Reader::is_intact`] must be asked after the last
//! read: nothing that was read counts unless the file is what it was before the first.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forkline_model::SessionId;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::names::{side, uri};
use super::rows::{SessionRow, failed, session_row, staging_failed};
use super::schema;
use crate::error::{Error, Result};
use crate::repo::SyncCommits;

/// How long a lock of another process is waited for (formats §3).
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The name under which a source is attached.
pub(super) const SOURCE: &str = "src";

/// Opens an existing database to write; never creates one.
///
/// # Errors
/// *Corrupt source* for what is no session container, I/O, *busy*. Nothing is written before the
/// schema is checked.
pub(super) fn writer(path: &Path, sync: SyncCommits) -> Result<Connection> {
    let at = |error| failed("open", path, error);
    require_file(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(at)?;
    // More than all statements of commits and reads.
    conn.set_prepared_statement_cache_capacity(64);
    distrust(&conn).map_err(at)?;
    schema::check(&conn, "main", path)?;
    conn.execute_batch("PRAGMA main.journal_mode = WAL; PRAGMA main.cache_size = -1024")
        .map_err(at)?;
    conn.execute_batch(match sync {
        SyncCommits::Yes => "PRAGMA main.synchronous = FULL",
        SyncCommits::No => "PRAGMA main.synchronous = NORMAL",
    })
    .map_err(at)?;
    Ok(conn)
}

/// An anonymous database on temporary disk, to which others can be attached.
pub(super) fn scratch() -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags("", flags)?;
    distrust(&conn)?;
    // Nobody needs this database after a failure, so it keeps no journal.
    conn.execute_batch(
        "PRAGMA main.journal_mode = OFF; PRAGMA main.synchronous = OFF; \
         PRAGMA main.cache_size = -1024",
    )?;
    Ok(conn)
}

/// What the first way that succeeds gives, else what the last one said.
fn first_of<T>(ways: &[&str], open: &dyn Fn(&str) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    let mut opened = Err(rusqlite::Error::InvalidQuery);
    for way in ways {
        opened = open(way);
        if opened.is_ok() {
            break;
        }
    }
    opened
}

/// A connection that reads one database; `query` says how its URI opens it.
fn look(path: &Path, query: &str) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(uri(path, query), flags)?;
    distrust(&conn)?;
    touch(&conn, "main")?;
    Ok(conn)
}

/// Opens the file and what stands beside it, so that a failure shows here.
fn touch(conn: &Connection, schema: &str) -> rusqlite::Result<()> {
    let sql = format!("SELECT 1 FROM {schema}.sqlite_schema LIMIT 1");
    conn.prepare(&sql).and_then(|mut read| read.exists([])).map(drop)
}

/// What every connection is told: wait for locks, spill to disk, run nothing that a file brings.
fn distrust(conn: &Connection) -> rusqlite::Result<()> {
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // Plans do not depend on what is bound: else SQLite prepares each statement with a range
    // anew at its first run, and again for other values.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.execute_batch("PRAGMA temp_store = FILE; PRAGMA mmap_size = 0")
}

/// Attaches a database; `query` says how its URI opens it.
pub(super) fn attach(
    conn: &Connection,
    path: &Path,
    query: &str,
    schema: &'static str,
) -> rusqlite::Result<()> {
    conn.execute(&format!("ATTACH ?1 AS {schema}"), [uri(path, query)])?;
    touch(conn, schema).inspect_err(|_| {
        // The attempt failed already; that failure is reported.
        let _ = conn.execute_batch(&format!("DETACH {schema}"));
    })
}

/// Refuses what is no regular file before SQLite opens it: a FIFO would block.
pub(super) fn require_file(path: &Path) -> Result<()> {
    let found = fs::metadata(path).map_err(|error| Error::io("open", path, error))?;
    if found.is_file() {
        return Ok(());
    }
    let kind = if found.is_dir() { "a folder" } else { "no regular file" };
    Err(Error::io("open", path, io::Error::new(io::ErrorKind::InvalidInput, kind)))
}

/// A file as the system describes it: changes with every write to it.
#[derive(Debug, PartialEq, Eq)]
struct Fingerprint([i64; 5], u64);

impl Fingerprint {
    fn of(path: &Path) -> Result<Self> {
        let found = fs::metadata(path).map_err(|error| Error::io("look at", path, error))?;
        let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
        let [mtime, mtime_nsec, ctime, ctime_nsec] = times;
        let bytes = i64::try_from(found.size()).unwrap_or(i64::MAX);
        Ok(Self([mtime, mtime_nsec, ctime, ctime_nsec, bytes], found.ino()))
    }
}

/// The side files of a database; `None` where there is none, else its length.
#[derive(Debug, Clone, Copy)]
struct Sides {
    wal: Option<u64>,
    shm: Option<u64>,
    journal: Option<u64>,
}

impl Sides {
    fn of(path: &Path) -> Self {
        let bytes = |suffix| fs::metadata(side(path, suffix)).ok().map(|found| found.len());
        Self { wal: bytes("-wal"), shm: bytes("-shm"), journal: bytes("-journal") }
    }

    /// Whether the database file alone holds all that was committed.
    fn are_quiet(self) -> bool {
        let wal_is_quiet = match (self.wal, self.shm) {
            (None, _) | (Some(0), None) => true,
            (Some(_), _) => false,
        };
        wal_is_quiet && matches!(self.journal, None | Some(0))
    }
}

/// How a database with both side files is attached. The first way may move read marks in the
/// `-shm`, which is no content. The second leaves even those alone, but SQLite keeps one mapping
/// of a `-shm` for the whole process: as long as it is open, no connection of this process could
/// write to the container. It is for folders that nobody here can write to anyway.
const WITH_SIDES: [&str; 2] = ["mode=ro", "mode=ro&readonly_shm=1"];

/// What a reader is for, which decides where its connection has the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// To be looked at: alone, as `main`.
    Look,
    /// The source of a fork: as `src`, attached to an anonymous database that is to be a stage.
    Fork,
}

/// A database opened to read.
pub(super) struct Reader {
    pub(super) conn: Connection,
    schema: &'static str,
    path: PathBuf,
    /// Of an immutable reader: what the file was before it was read.
    before: Option<Fingerprint>,
}

impl Reader {
    /// Opens a database by the rule of this module.
    ///
    /// # Errors
    /// I/O, *busy*, *corrupt source* for what is no session container.
    pub(super) fn open(path: &Path, use_: Use) -> Result<Self> {
        require_file(path)?;
        // Taken first: a writer that comes between the two shows in one of them.
        let before = Fingerprint::of(path)?;
        let sides = Sides::of(path);
        if sides.are_quiet() {
            return Self::by(path, use_, &["immutable=1"], Some(before));
        }
        if sides.wal.is_some() && sides.shm.is_some() {
            return Self::by(path, use_, &WITH_SIDES, None);
        }
        Self::by(path, use_, &["mode=ro"], None)
    }

    /// Opens a database that this process has open to write: its side files are there.
    ///
    /// # Errors
    /// Those of [`Reader::open`].
    pub(super) fn beside_writer(path: &Path, use_: Use) -> Result<Self> {
        Self::by(path, use_, &["mode=ro"], None)
    }

    /// Opens a database without leaving any side file, for a listing: what stands in a `-wal`
    /// without `-shm` is not seen.
    ///
    /// # Errors
    /// Those of [`Reader::open`].
    pub(super) fn to_list(path: &Path) -> Result<Self> {
        require_file(path)?;
        let before = Fingerprint::of(path)?;
        let sides = Sides::of(path);
        if sides.wal.is_some() && sides.shm.is_some() {
            return Self::by(path, Use::Look, &WITH_SIDES, None);
        }
        Self::by(path, Use::Look, &["immutable=1"], sides.are_quiet().then_some(before))
    }

    /// Opens a database in the first of these ways that succeeds.
    fn by(path: &Path, use_: Use, ways: &[&str], before: Option<Fingerprint>) -> Result<Self> {
        let (schema, opened) = match use_ {
            Use::Look => ("main", first_of(ways, &|way| look(path, way))),
            Use::Fork => {
                let conn = scratch();
                let conn = conn.map_err(|error| staging_failed("make a stage for", path, error))?;
                let attached = first_of(ways, &|way| attach(&conn, path, way, SOURCE));
                (SOURCE, attached.map(|()| conn))
            }
        };
        let conn = opened.map_err(|error| failed("open", path, error))?;
        conn.execute_batch(&format!("PRAGMA {schema}.cache_size = -1024"))
            .map_err(|error| failed("open", path, error))?;
        schema::check(&conn, schema, path)?;
        Ok(Self { conn, schema, path: path.to_owned(), before })
    }

    /// The name under which the connection has the database.
    pub(super) fn schema(&self) -> &'static str {
        self.schema
    }

    /// The database.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The row of a session.
    ///
    /// # Errors
    /// *Unknown session*, *unsupported version*, *corrupt source*, *busy*, I/O.
    pub(super) fn session_row(&self, session: &SessionId) -> Result<SessionRow> {
        session_row(&self.conn, self.schema, &self.path, session)
    }

    /// Whether it reads one snapshot of a WAL, which no writer takes away.
    pub(super) fn is_snapshot(&self) -> bool {
        self.before.is_none()
    }

    /// Whether all that was read is one instant of the source.
    pub(super) fn is_intact(&self) -> bool {
        let Some(before) = &self.before else { return true };
        let quiet = Sides::of(&self.path).are_quiet();
        quiet && Fingerprint::of(&self.path).is_ok_and(|now| now == *before)
    }

    /// Pins what was committed until now: a read on the source's schema inside a transaction.
    ///
    /// # Errors
    /// *Busy*, I/O.
    pub(super) fn pin(&self) -> Result<()> {
        let sql = format!("BEGIN; SELECT 1 FROM {}.sqlite_schema LIMIT 1", self.schema);
        self.conn.execute_batch(&sql).map_err(|error| failed("read", &self.path, error))
    }

    /// Ends the transaction.
    ///
    /// # Errors
    /// I/O.
    pub(super) fn unpin(&self) -> Result<()> {
        self.conn.execute_batch("COMMIT").map_err(|error| failed("read", &self.path, error))
    }

    /// Of a fork: ends the transaction and lets the source go; what is left is the anonymous
    /// database.
    ///
    /// # Errors
    /// I/O.
    pub(super) fn into_scratch(self) -> Result<Connection> {
        self.unpin()?;
        self.conn.flush_prepared_statement_cache();
        self.conn
            .execute_batch("DETACH src")
            .map_err(|error| failed("close", &self.path, error))?;
        Ok(self.conn)
    }
}
