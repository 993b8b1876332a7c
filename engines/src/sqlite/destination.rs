//! The destination of a fork or of a creation: a new file, or rows of a container.

use std::path::{Path, PathBuf};

use forkline_model::{Error as ModelError, Metadata, Usage, metadata::STORAGE_VERSION};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::commit::{refused, signed};
use super::open::{attach, require_file};
use super::publish::{DESTINATION, Temp};
use super::rows::failed;
use super::schema;
use super::stage::{LARGE_BYTES, Stage};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::fork::{Copied, Destination, Plan, Source};
use crate::repo::{Location, SessionRef};

/// How many VM instructions run between two looks at the context.
const STEPS_PER_CHECK: i32 = 20_000;

/// Where a new session goes.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// The file of the session, or the container.
    pub(super) path: PathBuf,
    /// Whether other sessions may be there.
    pub(super) is_shared: bool,
}

impl Place {
    /// Stores a session: `metadata`, its next seq and number of messages, and what `fill` writes
    /// to the tables of `dst`. All or nothing.
    ///
    /// # Errors
    /// *Session exists*, *not committed*, *durability uncertain*, *busy*, *cancelled*.
    pub(super) fn store(
        &self,
        conn: &Connection,
        new: &NewSession<'_>,
        fill: &dyn Fn(&Connection) -> rusqlite::Result<()>,
    ) -> Result<()> {
        if !self.is_shared || !exists(&self.path) {
            let mut fill = |conn: &Connection| self.write(conn, new, fill);
            let built = Temp::build(conn, &self.path, new.rows, &mut fill);
            let built = built.map_err(|error| self.not_committed(error))?;
            match built.publish(&self.path, &new.metadata.id) {
                // Somebody made the container meanwhile: it gets the rows.
                Err(Error::Model(ModelError::SessionExists { .. })) if self.is_shared => {}
                published => return published,
            }
        }
        self.insert(conn, new, fill).map_err(|error| self.not_committed(error))
    }

    /// Refusals stay what they are; failures say that there is no destination.
    fn not_committed(&self, error: Error) -> Error {
        match error {
            Error::Io { .. } | Error::Sqlite { .. } => {
                Error::NotCommitted { path: self.path.clone(), source: Box::new(error) }
            }
            other => other,
        }
    }

    /// Adds the rows to an existing container in one transaction, synced.
    fn insert(
        &self,
        conn: &Connection,
        new: &NewSession<'_>,
        fill: &dyn Fn(&Connection) -> rusqlite::Result<()>,
    ) -> Result<()> {
        let at = |error| failed("write to", &self.path, error);
        require_file(&self.path)?;
        attach(conn, &self.path, "mode=rw", DESTINATION).map_err(at)?;
        let inserted = schema::check(conn, DESTINATION, &self.path).and_then(|()| {
            conn.execute_batch(
                "PRAGMA dst.journal_mode = WAL; PRAGMA dst.synchronous = FULL; \
                 PRAGMA dst.cache_size = -1024; BEGIN IMMEDIATE",
            )
            .map_err(at)?;
            self.require_absent(conn, new)?;
            self.write(conn, new, fill)?;
            conn.execute_batch("COMMIT").map_err(at)
        });
        if inserted.is_err() {
            // That failure is reported, not that the transaction had none to end.
            let _ = conn.execute_batch("ROLLBACK");
        }
        conn.flush_prepared_statement_cache();
        // Detached or not, the connection goes soon, and what was committed is committed.
        let _ = conn.execute_batch("DETACH dst");
        inserted
    }

    fn require_absent(&self, conn: &Connection, new: &NewSession<'_>) -> Result<()> {
        let id = &new.metadata.id;
        let found = conn
            .query_row("SELECT 1 FROM dst.sessions WHERE id = ?1", [id.as_str()], |_| Ok(()))
            .optional()
            .map_err(|error| failed("read", &self.path, error))?;
        match found {
            None => Ok(()),
            Some(()) => Err(ModelError::SessionExists { session: id.clone() }.into()),
        }
    }

    fn write(
        &self,
        conn: &Connection,
        new: &NewSession<'_>,
        fill: &dyn Fn(&Connection) -> rusqlite::Result<()>,
    ) -> Result<()> {
        let metadata = new.metadata;
        let parent = metadata.parent_session_id.as_ref().map(forkline_model::SessionId::as_str);
        let usage = Usage::default().to_json();
        let row = params![
            metadata.id.as_str(),
            signed(metadata.created_at.get()),
            parent,
            signed(STORAGE_VERSION),
            signed(new.messages),
            usage.as_str(),
            signed(new.next_seq),
        ];
        let inserted = conn.execute(
            "INSERT INTO dst.sessions (id, created_at, parent_session_id, storage_version, \
             metadata, message_count, usage_payload, next_seq) \
             VALUES (?1, ?2, ?3, ?4, NULL, ?5, ?6, ?7)",
            row,
        );
        inserted.and_then(|_| fill(conn)).map_err(|error| refused(&self.path, error, "a row"))
    }
}

/// What the row of a new session says.
pub(super) struct NewSession<'a> {
    pub(super) metadata: &'a Metadata,
    pub(super) next_seq: u64,
    pub(super) messages: u64,
    /// How many rows it comes with.
    pub(super) rows: u64,
}

/// Whether a name is taken, by whatever.
pub(super) fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// A fork on its way into a container.
pub(super) struct SqliteDestination {
    place: Place,
    metadata: Metadata,
    filled: Option<Filled>,
}

struct Filled {
    stage: Stage,
    next_seq: u64,
    copied: Copied,
}

impl SqliteDestination {
    pub(super) fn new(place: Place, metadata: Metadata) -> Self {
        Self { place, metadata, filled: None }
    }
}

impl Destination for SqliteDestination {
    fn fill(&mut self, source: &mut dyn Source, plan: Plan, cx: &Context) -> Result<Copied> {
        let stage = if let Some(stage) = source.take_stage(cx)? {
            stage
        } else {
            let stage = Stage::empty(&self.place.path)?;
            source.stream(&mut |row| stage.insert(row), cx)?;
            stage
        };
        let copied = stage.seal(cx)?;
        self.filled = Some(Filled { stage, next_seq: plan.next_seq, copied });
        Ok(copied)
    }

    fn publish(self: Box<Self>, cx: &Context) -> Result<SessionRef> {
        let Self { place, metadata, filled } = *self;
        let Filled { mut stage, next_seq, copied } = filled.expect("filled before it is published");
        let cancel = cx.clone();
        // Only cancellation is looked at: an observer that blocks would keep the lock.
        stage
            .conn_mut()
            .progress_handler(STEPS_PER_CHECK, Some(move || cancel.check().is_err()))
            .map_err(|error| failed("prepare to write", &place.path, error))?;
        let Copied { entries, messages, values, elements } = copied;
        let rows = entries + values + elements;
        let new = NewSession { metadata: &metadata, next_seq, messages, rows };
        let id = metadata.id.as_str();
        place.store(stage.conn(), &new, &|conn| move_rows(conn, id))?;
        Ok(SessionRef { metadata, location: Location::File(place.path) })
    }
}

/// The stage's rows into the destination's tables, large content left empty.
pub(super) const MOVES: [&str; 5] = [
    "INSERT INTO dst.entries \
     (session_id, id, parent_id, seq, type, custom_type, timestamp, payload) \
     SELECT ?1, id, parent_id, seq, type, custom_type, timestamp, \
     CASE WHEN octet_length(payload) < ?2 THEN payload ELSE '' END FROM main.entries ORDER BY seq",
    "INSERT INTO dst.branch_entries (session_id, branch_id, entry_id, entry_seq, entry_type) \
     SELECT ?1, branch_id, entry_id, entry_seq, entry_type FROM main.branch_entries \
     WHERE ?2 ORDER BY session_id, branch_id, entry_id",
    "INSERT INTO dst.branch_meta \
     (session_id, branch_id, tip_entry_id, tip_seq, base_branch_id, base_seq) \
     SELECT ?1, branch_id, tip_entry_id, tip_seq, base_branch_id, base_seq \
     FROM main.branch_meta WHERE ?2 ORDER BY session_id, branch_id",
    "INSERT INTO dst.scalar_values (session_id, namespace, key, seq, value) \
     SELECT ?1, namespace, key, seq, CASE WHEN octet_length(value) < ?2 THEN value ELSE '' END \
     FROM main.vals ORDER BY seq",
    "INSERT INTO dst.list_values (session_id, namespace, key, seq, value) \
     SELECT ?1, namespace, key, seq, CASE WHEN octet_length(value) < ?2 THEN value ELSE '' END \
     FROM main.elements ORDER BY seq",
];

/// What is large is put in place row by row, after all else: each search for a key that meets a
/// row loads all of it, and the insert trigger of entries would hold copies. Which rows are
/// large, their content by seq, and its place.
const LARGE: [[&str; 3]; 3] = [
    [
        "SELECT seq, id, '' FROM main.entries WHERE octet_length(payload) >= ?1",
        "SELECT payload FROM main.entries WHERE seq = ?1",
        "UPDATE dst.entries SET payload = ?5 \
         WHERE session_id = ?1 AND id = ?2 AND ?3 = '' AND seq = ?4",
    ],
    [
        "SELECT seq, namespace, key FROM main.vals WHERE octet_length(value) >= ?1",
        "SELECT value FROM main.vals WHERE seq = ?1",
        "UPDATE dst.scalar_values SET value = ?5 \
         WHERE session_id = ?1 AND namespace = ?2 AND key = ?3 AND seq = ?4",
    ],
    [
        "SELECT seq, namespace, key FROM main.elements WHERE octet_length(value) >= ?1",
        "SELECT value FROM main.elements WHERE seq = ?1",
        "UPDATE dst.list_values SET value = ?5 \
         WHERE session_id = ?1 AND namespace = ?2 AND key = ?3 AND seq = ?4",
    ],
];

/// Moves all staged rows into the session `id` of the destination.
fn move_rows(conn: &Connection, id: &str) -> rusqlite::Result<()> {
    for sql in MOVES {
        conn.execute(sql, params![id, LARGE_BYTES])?;
    }
    for [find, read, write] in LARGE {
        let (mut find, mut read) = (conn.prepare(find)?, conn.prepare(read)?);
        let mut write = conn.prepare(write)?;
        let mut rows = find.query([LARGE_BYTES])?;
        while let Some(row) = rows.next()? {
            let seq: i64 = row.get(0)?;
            write.raw_bind_parameter(1, id)?;
            write.raw_bind_parameter(2, row.get_ref(1)?.as_str()?)?;
            write.raw_bind_parameter(3, row.get_ref(2)?.as_str()?)?;
            write.raw_bind_parameter(4, seq)?;
            {
                // Read, bound and written one after the other: twice in memory at any time.
                let content: String = read.query_row([seq], |row| row.get(0))?;
                write.raw_bind_parameter(5, content)?;
            }
            write.raw_execute()?;
            write.raw_bind_parameter(5, rusqlite::types::Null)?;
        }
    }
    Ok(())
}
