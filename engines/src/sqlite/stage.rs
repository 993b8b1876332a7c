//! The selected rows of a fork in an anonymous temporary database.
//!
//! Its tables are rowid tables keyed by seq: they hold payloads twice as fast as the containers'
//! own, and their key comparisons load no payload. Beside them stands the branch index that the
//! destination gets, so that a destination only takes finished rows while it is locked.

use std::io;
use std::path::{Path, PathBuf};

use forkline_model::entry::require_payload;
use forkline_model::{Address, EntryHead, EntryType, Json, Scope, StoreKind};
use rusqlite::{Connection, Row as SqlRow, params};

use super::commit::{named, refused, signed};
use super::index::{BranchIndex, Indexed};
use super::open;
use super::rows::{At, staging_failed};
use super::schema;
use crate::context::{Context, Progress};
use crate::error::{Error, Result};
use crate::fork::{Body, Copied, Row};

/// How many rows go by between two looks at the context.
const ROWS_PER_CHECK: u64 = 256;

/// From this many bytes on, content is handled row by row, so that memory holds it twice at most.
/// The SQL that selects rows names the same number.
pub(super) const LARGE_BYTES: i64 = 65_536;

/// The session id in the stage's branch index; the destination's own takes its place.
const NO_SESSION: &str = "";

/// All rows by seq, without their content.
pub(super) const ORDER: &str = "SELECT seq, 0 AS kind FROM main.entries UNION ALL \
    SELECT seq, 1 FROM main.vals UNION ALL SELECT seq, 2 FROM main.elements ORDER BY seq";

/// The selected rows of a fork, out of sight. Gone when dropped.
pub struct Stage {
    conn: Connection,
    /// What messages name: the source's database, or the destination's of other sources.
    path: PathBuf,
}

/// Makes the tables of a stage in `main`.
pub(super) fn create(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch(
        "CREATE TABLE main.entries (seq INTEGER PRIMARY KEY, id TEXT NOT NULL, parent_id TEXT, \
         type TEXT NOT NULL, custom_type TEXT, timestamp INTEGER NOT NULL, payload TEXT NOT NULL); \
         CREATE TABLE main.vals (seq INTEGER PRIMARY KEY, namespace TEXT NOT NULL, \
         key TEXT NOT NULL, value TEXT NOT NULL); \
         CREATE TABLE main.elements (seq INTEGER PRIMARY KEY, namespace TEXT NOT NULL, \
         key TEXT NOT NULL, value TEXT NOT NULL)",
    )
}

/// Makes staged entries findable by id; to be called when all are there.
pub(super) fn index_ids(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch("CREATE UNIQUE INDEX main.ix_staged_id ON entries(id)")
}

impl Stage {
    /// A stage that a source filled.
    pub(super) fn of_source(conn: Connection, path: &Path) -> Self {
        Self { conn, path: path.to_owned() }
    }

    /// An empty stage, for rows from other engines.
    ///
    /// # Errors
    /// I/O.
    pub(super) fn empty(path: &Path) -> Result<Self> {
        let conn = open::scratch().and_then(|conn| create(&conn).map(|()| conn));
        let conn = conn.map_err(|error| staging_failed("make a stage for", path, error))?;
        Ok(Self { conn, path: path.to_owned() })
    }

    pub(super) fn conn(&self) -> &Connection {
        &self.conn
    }

    pub(super) fn conn_mut(&mut self) -> &mut Connection {
        &mut self.conn
    }

    fn failed(&self, error: rusqlite::Error) -> Error {
        staging_failed("use the stage of", &self.path, error)
    }

    /// Takes a row of another engine.
    ///
    /// # Errors
    /// *Limit exceeded* naming the row; I/O.
    pub(super) fn insert(&self, row: Row<'_>) -> Result<()> {
        match row {
            Row::Entry { head, body } => self.insert_entry(head, body),
            Row::Value { address, seq, body } => {
                let sql = "INSERT INTO main.vals (seq, namespace, key, value) \
                           VALUES (?1, ?2, ?3, ?4)";
                self.insert_row(sql, StoreKind::Value, address, signed(seq.get()), body)
            }
            Row::Element { address, seq, body } => {
                let sql = "INSERT INTO main.elements (seq, namespace, key, value) \
                           VALUES (?1, ?2, ?3, ?4)";
                self.insert_row(sql, StoreKind::List, address, signed(seq.get()), body)
            }
        }
    }

    fn insert_entry(&self, head: &EntryHead, body: &mut dyn Body) -> Result<()> {
        let what = format!("entry {}", head.id);
        let failed = |error| refused(&self.path, error, &what);
        let mut insert = self
            .conn
            .prepare_cached(
                "INSERT INTO main.entries \
                 (seq, id, parent_id, type, custom_type, timestamp, payload) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )
            .map_err(failed)?;
        let parent = head.parent.as_ref().map(forkline_model::EntryId::as_str);
        let custom_type = head.custom_type.as_ref().map(forkline_model::TypeName::as_str);
        let values: [&dyn rusqlite::ToSql; 6] = [
            &signed(head.seq.get()),
            &head.id.as_str(),
            &parent,
            &head.entry_type.as_str(),
            &custom_type,
            &signed(head.timestamp.get()),
        ];
        for (place, value) in (1_usize..).zip(values) {
            insert.raw_bind_parameter(place, value).map_err(failed)?;
        }
        // SQLite has a copy of its own once bound: the text goes before the row is built.
        {
            let payload = body.json()?;
            insert.raw_bind_parameter(7, payload.as_str()).map_err(failed)?;
        }
        insert.raw_execute().map(drop).map_err(failed)
    }

    fn insert_row(
        &self,
        sql: &str,
        kind: StoreKind,
        address: &Address,
        seq: i64,
        body: &mut dyn Body,
    ) -> Result<()> {
        let (namespace, key) = (address.namespace.as_str(), address.key.as_str());
        let what = named(kind, namespace, key);
        let failed = |error| refused(&self.path, error, &what);
        let mut insert = self.conn.prepare_cached(sql).map_err(failed)?;
        let values: [&dyn rusqlite::ToSql; 3] = [&seq, &namespace, &key];
        for (place, value) in (1_usize..).zip(values) {
            insert.raw_bind_parameter(place, value).map_err(failed)?;
        }
        {
            let value = body.json()?;
            insert.raw_bind_parameter(4, value.as_str()).map_err(failed)?;
        }
        insert.raw_execute().map(drop).map_err(failed)
    }

    /// Checks what could make a destination that does not open: every seq is used once and below
    /// the next, and every parent is staged before its children; in branch scope each entry is
    /// the parent of the next.
    ///
    /// # Errors
    /// *Corrupt source*.
    pub(super) fn check(&self, scope: &Scope, next_seq: u64, cx: &Context) -> Result<()> {
        let corrupt = |reason: String| Error::corrupt(&*self.path, reason);
        let mut last = 0;
        self.each_seq(cx, &mut |seq, _| {
            if seq <= last {
                return Err(corrupt(format!("seq {seq} is used twice")));
            }
            last = seq;
            Ok(())
        })?;
        if last >= signed(next_seq) {
            return Err(corrupt(format!("seq {last} is not below the next seq {next_seq}")));
        }
        match scope {
            Scope::Tree => self.check_parents(),
            Scope::Branch { .. } => self.check_chain(),
        }
    }

    fn check_parents(&self) -> Result<()> {
        let at = At::table(&self.path, NO_SESSION, "entries");
        let sql = "SELECT e.id, e.parent_id FROM main.entries AS e WHERE e.parent_id IS NOT NULL \
                   AND NOT EXISTS (SELECT 1 FROM main.entries AS p INDEXED BY ix_staged_id \
                   WHERE p.id = e.parent_id AND p.seq < e.seq) ORDER BY e.seq LIMIT 1";
        let mut find = self.conn.prepare(sql).map_err(|error| self.failed(error))?;
        let mut rows = find.query([]).map_err(|error| self.failed(error))?;
        let Some(row) = rows.next().map_err(|error| self.failed(error))? else { return Ok(()) };
        let (id, parent) = (at.text(row, 0, "id")?, at.text(row, 1, "parent_id")?);
        Err(Error::corrupt(
            &*self.path,
            format!("entry {id:?} has a missing or later parent {parent:?}"),
        ))
    }

    fn check_chain(&self) -> Result<()> {
        let at = At::table(&self.path, NO_SESSION, "entries");
        let sql = "SELECT id, parent_id FROM main.entries ORDER BY seq";
        let mut scan = self.conn.prepare(sql).map_err(|error| self.failed(error))?;
        let mut rows = scan.query([]).map_err(|error| self.failed(error))?;
        let mut before: Option<String> = None;
        while let Some(row) = rows.next().map_err(|error| self.failed(error))? {
            let id = at.text(row, 0, "id")?;
            if at.optional_text(row, 1, "parent_id")? != before.as_deref() {
                let reason =
                    format!("the branch index does not lead from entry {id:?} to its root");
                return Err(Error::corrupt(&*self.path, reason));
            }
            let before = before.get_or_insert_default();
            before.clear();
            before.push_str(id);
        }
        Ok(())
    }

    /// Builds the destination's branch index and counts.
    ///
    /// # Errors
    /// I/O, *cancelled*.
    pub(super) fn seal(&self, cx: &Context) -> Result<Copied> {
        let cached = |size| self.conn.execute_batch(size).map_err(|error| self.failed(error));
        // No other database is attached now. The index grows in the order of no tree of its own,
        // so what is not cached is written and read again and again.
        cached("PRAGMA main.cache_size = -3072")?;
        schema::create_branch_index(&self.conn).map_err(|error| self.failed(error))?;
        let at = At::table(&self.path, NO_SESSION, "entries");
        let index = BranchIndex::new(&self.conn, "main", &self.path, NO_SESSION);
        let sql = "SELECT id, parent_id, seq, type FROM main.entries ORDER BY seq";
        let mut scan = self.conn.prepare(sql).map_err(|error| self.failed(error))?;
        let mut rows = scan.query([]).map_err(|error| self.failed(error))?;
        let mut entries = 0;
        index.append_all(|append| {
            while let Some(row) = rows.next().map_err(|error| self.failed(error))? {
                append(&Indexed {
                    id: at.text(row, 0, "id")?,
                    parent: at.optional_text(row, 1, "parent_id")?,
                    seq: signed(at.number(row, 2, "seq")?),
                    entry_type: at.text(row, 3, "type")?,
                })?;
                entries += 1;
                if entries % ROWS_PER_CHECK == 0 {
                    cx.check()?;
                }
            }
            Ok(())
        })?;
        cached("PRAGMA main.cache_size = -1024")?;
        let count = |sql| {
            let counted = self.conn.query_row(sql, [], |row| Ok(at.number(row, 0, "count")));
            counted.map_err(|error| self.failed(error))?
        };
        Ok(Copied {
            entries,
            messages: count("SELECT count(*) FROM main.entries WHERE type = 'message'")?,
            values: count("SELECT count(*) FROM main.vals")?,
            elements: count("SELECT count(*) FROM main.elements")?,
        })
    }

    /// Visits seq and kind of all rows in seq order.
    fn each_seq(&self, cx: &Context, visit: &mut dyn FnMut(i64, i64) -> Result<()>) -> Result<()> {
        let mut order = self.conn.prepare(ORDER).map_err(|error| self.failed(error))?;
        let mut rows = order.query([]).map_err(|error| self.failed(error))?;
        let mut rows_done = 0;
        while let Some(row) = rows.next().map_err(|error| self.failed(error))? {
            if rows_done % ROWS_PER_CHECK == 0 {
                cx.check()?;
            }
            rows_done += 1;
            let read = |place| row.get(place).map_err(|error| self.failed(error));
            visit(read(0)?, read(1)?)?;
        }
        Ok(())
    }

    /// Hands over all rows in seq order.
    ///
    /// # Errors
    /// Those of the sink; I/O, *cancelled*.
    pub(super) fn stream(
        &self,
        sink: &mut dyn FnMut(Row<'_>) -> Result<()>,
        cx: &Context,
    ) -> Result<()> {
        let mut rows_done = 0;
        self.each_seq(cx, &mut |seq, kind| {
            if rows_done % ROWS_PER_CHECK == 0 {
                cx.progress(Progress { rows_done, ..Progress::default() })?;
            }
            rows_done += 1;
            match kind {
                0 => self.emit_entry(seq, sink),
                1 => {
                    let sql = "SELECT seq, namespace, key, value FROM main.vals WHERE seq = ?1";
                    self.emit_row(sql, StoreKind::Value, seq, sink)
                }
                _ => {
                    let sql = "SELECT seq, namespace, key, value FROM main.elements WHERE seq = ?1";
                    self.emit_row(sql, StoreKind::List, seq, sink)
                }
            }
        })
    }

    fn emit_entry(&self, seq: i64, sink: &mut dyn FnMut(Row<'_>) -> Result<()>) -> Result<()> {
        let at = At::table(&self.path, NO_SESSION, "entries");
        let sql = "SELECT id, parent_id, seq, type, custom_type, timestamp, payload \
                   FROM main.entries WHERE seq = ?1";
        self.with_row(sql, seq, &mut |row| {
            let head = at.head(row)?;
            let entry_type = Some(&head.entry_type);
            let mut body = Staged { at, row, column: 6, id: head.id.as_str(), entry_type };
            sink(Row::Entry { head: &head, body: &mut body })
        })
    }

    fn emit_row(
        &self,
        sql: &str,
        kind: StoreKind,
        seq: i64,
        sink: &mut dyn FnMut(Row<'_>) -> Result<()>,
    ) -> Result<()> {
        let at = At::table(&self.path, NO_SESSION, kind.as_str());
        self.with_row(sql, seq, &mut |row| {
            let (namespace, key) = (at.text(row, 1, "namespace")?, at.text(row, 2, "key")?);
            let address = Address::new(namespace, key).map_err(|error| at.corrupt(key, error))?;
            let seq = at.seq(row, 0)?;
            let mut body = Staged { at, row, column: 3, id: key, entry_type: None };
            match kind {
                StoreKind::Value => sink(Row::Value { address: &address, seq, body: &mut body }),
                StoreKind::List => sink(Row::Element { address: &address, seq, body: &mut body }),
            }
        })
    }

    fn with_row(
        &self,
        sql: &str,
        seq: i64,
        visit: &mut dyn FnMut(&SqlRow<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut find = self.conn.prepare_cached(sql).map_err(|error| self.failed(error))?;
        let visited = find.query_row(params![seq], |row| Ok(visit(row)));
        visited.map_err(|error| self.failed(error))?
    }
}

/// The content of a staged row; read when it is asked for.
struct Staged<'a> {
    at: At<'a>,
    row: &'a SqlRow<'a>,
    column: usize,
    id: &'a str,
    /// Set for an entry, whose payload has to fit into a line.
    entry_type: Option<&'a EntryType>,
}

impl Body for Staged<'_> {
    fn json(&mut self) -> Result<Json> {
        let json = self.at.json(self.row, self.column, "value", self.id)?;
        if let Some(entry_type) = self.entry_type {
            require_payload(entry_type, &json).map_err(|error| self.at.corrupt(self.id, error))?;
        }
        Ok(json)
    }

    fn copy_jsonl(&mut self, _out: &mut dyn io::Write) -> Option<Result<u64>> {
        None
    }
}
