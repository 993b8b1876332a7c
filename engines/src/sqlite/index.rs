//! The branch index: segments of paths, kept beside the entries (formats §3).
//!
//! A segment is a row of `branch_meta` with its rows in `branch_entries`. A root starts one, and
//! so does an entry whose parent is no segment's tip; any other entry extends its parent's. A
//! segment that starts in the middle of another stands on a base, the newest compaction of its
//! parent's path, and has copies of the rows between the base and the parent.
//!
//! # Invariants
//! 1. An entry is the tip of exactly one segment until its first child comes.
//! 2. Of a segment only rows with `base_seq < entry_seq <= tip_seq` count.
//! 3. Bases stand strictly lower than what stands on them, so every walk ends.

use std::path::Path;

use rusqlite::{CachedStatement, Connection, OptionalExtension as _, params};

use super::rows::At;
use crate::error::Result;

/// How many rows of a segment are copied by one statement: `INSERT .. SELECT` within one table
/// goes through a temporary table, which this keeps small.
const ROWS_PER_COPY: i64 = 2048;

/// Where the branch index of one session stands.
#[derive(Clone, Copy)]
pub(super) struct BranchIndex<'a> {
    conn: &'a Connection,
    schema: &'static str,
    path: &'a Path,
    session: &'a str,
}

/// Where an entry stands in a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) branch: String,
    pub(super) seq: i64,
    pub(super) base: Option<(String, i64)>,
}

impl Spot {
    fn low(&self) -> i64 {
        self.base.as_ref().map_or(0, |&(_, seq)| seq)
    }
}

/// A part of a path that lies in one segment: rows with `low < entry_seq <= high`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) branch: String,
    pub(super) low: i64,
    pub(super) high: i64,
}

impl<'a> BranchIndex<'a> {
    /// The index of `session` in `schema` of the database at `path`.
    pub(super) fn new(
        conn: &'a Connection,
        schema: &'static str,
        path: &'a Path,
        session: &'a str,
    ) -> Self {
        Self { conn, schema, path, session }
    }

    fn at(&self, table: &'static str) -> At<'a> {
        At::table(self.path, self.session, table)
    }

    fn failed(&self, error: rusqlite::Error) -> crate::Error {
        self.at("branch_entries").failed("use the branch index of", error)
    }

    fn prepare(&self, sql: &str) -> Result<CachedStatement<'a>> {
        let sql = sql.replace("{schema}", self.schema);
        self.conn.prepare_cached(&sql).map_err(|error| self.failed(error))
    }

    /// Where an entry stands; `None` when it is in no segment.
    pub(super) fn spot(&self, entry: &str) -> Result<Option<Spot>> {
        let mut find = self.prepare(
            "SELECT b.branch_id, b.entry_seq, m.base_branch_id, m.base_seq \
             FROM {schema}.branch_entries AS b INDEXED BY ix_be_entry \
             CROSS JOIN {schema}.branch_meta AS m \
             ON m.session_id = b.session_id AND m.branch_id = b.branch_id \
             WHERE b.session_id = ?1 AND b.entry_id = ?2 \
             AND b.entry_seq > ifnull(m.base_seq, 0) AND b.entry_seq <= m.tip_seq LIMIT 1",
        )?;
        let spot = find.query_row([self.session, entry], |row| {
            let base_branch: Option<String> = row.get(2)?;
            let base_seq: Option<i64> = row.get(3)?;
            let base = base_branch.zip(base_seq);
            Ok(Spot { branch: row.get(0)?, seq: row.get(1)?, base })
        });
        spot.optional().map_err(|error| self.misread(error))
    }

    /// What a failure to read the index means: columns of another type are damage.
    fn misread(&self, error: rusqlite::Error) -> crate::Error {
        use rusqlite::Error::{
            FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType,
        };
        match error {
            FromSqlConversionFailure(..) | InvalidColumnType(..) | IntegralValueOutOfRange(..) => {
                self.at("branch_entries").corrupt("", error)
            }
            other => self.failed(other),
        }
    }

    /// What a segment stands on.
    ///
    /// # Errors
    /// *Corrupt source* when there is no such segment.
    pub(super) fn base(&self, branch: &str) -> Result<Option<(String, i64)>> {
        let mut base_of = self.prepare(
            "SELECT base_branch_id, base_seq FROM {schema}.branch_meta \
             WHERE session_id = ?1 AND branch_id = ?2",
        )?;
        let (base_branch, base_seq): (Option<String>, Option<i64>) = base_of
            .query_row([self.session, branch], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
            .map_err(|error| self.misread(error))?
            .ok_or_else(|| self.at("branch_meta").corrupt(branch, "there is no such row"))?;
        Ok(base_branch.zip(base_seq))
    }

    /// Visits the path from `spot` to its root, newest part first, while `visit` says so.
    pub(super) fn walk(
        &self,
        spot: Spot,
        visit: &mut dyn FnMut(Span) -> Result<bool>,
    ) -> Result<()> {
        let mut next = Some(spot);
        while let Some(spot) = next.take() {
            let (low, high) = (spot.low(), spot.seq);
            if low >= high {
                let reason = "its base does not stand below it";
                return Err(self.at("branch_meta").corrupt(&spot.branch, reason));
            }
            let base = spot.base;
            if !visit(Span { branch: spot.branch, low, high })? {
                return Ok(());
            }
            if let Some((branch, seq)) = base {
                next = Some(Spot { base: self.base(&branch)?, branch, seq });
            }
        }
        Ok(())
    }

    /// The seq of the newest row of a span that has this type.
    pub(super) fn newest_of_type(&self, span: &Span, entry_type: &str) -> Result<Option<i64>> {
        let mut newest = self.prepare(
            "SELECT max(entry_seq) FROM {schema}.branch_entries INDEXED BY ix_be_type \
             WHERE session_id = ?1 AND branch_id = ?2 AND entry_type = ?3 \
             AND entry_seq > ?4 AND entry_seq <= ?5",
        )?;
        let values = params![self.session, span.branch, entry_type, span.low, span.high];
        newest.query_row(values, |row| row.get(0)).map_err(|error| self.misread(error))
    }

    /// The seq of an entry, if a span has it.
    pub(super) fn find(&self, span: &Span, entry: &str) -> Result<Option<i64>> {
        let mut find = self.prepare(
            "SELECT entry_seq FROM {schema}.branch_entries \
             WHERE session_id = ?1 AND branch_id = ?2 AND entry_id = ?3 \
             AND entry_seq > ?4 AND entry_seq <= ?5",
        )?;
        let values = params![self.session, span.branch, entry, span.low, span.high];
        let found = find.query_row(values, |row| row.get(0)).optional();
        found.map_err(|error| self.misread(error))
    }

    /// Adds an entry whose parent is in the index already.
    ///
    /// # Errors
    /// *Corrupt source* when the index lacks the parent.
    pub(super) fn append(
        &self,
        id: &str,
        parent: Option<&str>,
        seq: i64,
        entry_type: &str,
    ) -> Result<()> {
        let branch = match parent {
            None => self.start(id, seq, None).map(|()| id.to_owned())?,
            Some(parent) => match self.extend(parent, id, seq)? {
                Some(branch) => branch,
                None => self.leave(parent, id, seq).map(|()| id.to_owned())?,
            },
        };
        let mut insert = self.prepare(
            "INSERT INTO {schema}.branch_entries \
             (session_id, branch_id, entry_id, entry_seq, entry_type) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?;
        insert
            .execute(params![self.session, branch, id, seq, entry_type])
            .map_err(|error| self.failed(error))?;
        Ok(())
    }

    /// Moves the tip of the segment that ends at `parent`, if there is one.
    fn extend(&self, parent: &str, id: &str, seq: i64) -> Result<Option<String>> {
        let mut extend = self.prepare(
            "UPDATE {schema}.branch_meta SET tip_entry_id = ?3, tip_seq = ?4 \
             WHERE session_id = ?1 AND tip_entry_id = ?2 RETURNING branch_id",
        )?;
        let moved = extend.query_row(params![self.session, parent, id, seq], |row| row.get(0));
        moved.optional().map_err(|error| self.misread(error))
    }

    /// Starts a segment that leaves another at `parent`.
    fn leave(&self, parent: &str, id: &str, seq: i64) -> Result<()> {
        let spot = self.spot(parent)?.ok_or_else(|| {
            self.at("branch_entries")
                .corrupt(parent, "an entry's parent is not in the branch index")
        })?;
        let own = Span { branch: spot.branch.clone(), low: spot.low(), high: spot.seq };
        let compaction = self.newest_of_type(&own, "compaction")?;
        let base = match compaction {
            Some(seq) => Some((spot.branch, seq)),
            None => spot.base,
        };
        let low = base.as_ref().map_or(0, |&(_, seq)| seq);
        self.start(id, seq, base.as_ref())?;
        self.copy(&Span { low, ..own }, id)
    }

    fn start(&self, id: &str, seq: i64, base: Option<&(String, i64)>) -> Result<()> {
        let mut insert = self.prepare(
            "INSERT INTO {schema}.branch_meta \
             (session_id, branch_id, tip_entry_id, tip_seq, base_branch_id, base_seq) \
             VALUES (?1, ?2, ?2, ?3, ?4, ?5)",
        )?;
        let (branch, base_seq) = (base.map(|base| &base.0), base.map(|base| base.1));
        insert
            .execute(params![self.session, id, seq, branch, base_seq])
            .map_err(|error| self.failed(error))?;
        Ok(())
    }

    fn copy(&self, from: &Span, to: &str) -> Result<()> {
        let mut copy = self.prepare(
            "INSERT INTO {schema}.branch_entries \
             (session_id, branch_id, entry_id, entry_seq, entry_type) \
             SELECT session_id, ?3, entry_id, entry_seq, entry_type \
             FROM {schema}.branch_entries INDEXED BY ix_be_seq \
             WHERE session_id = ?1 AND branch_id = ?2 AND entry_seq > ?4 AND entry_seq <= ?5 \
             ORDER BY entry_seq LIMIT ?6",
        )?;
        let mut last = self.prepare(
            "SELECT max(entry_seq) FROM {schema}.branch_entries INDEXED BY ix_be_seq \
             WHERE session_id = ?1 AND branch_id = ?2",
        )?;
        let mut low = from.low;
        loop {
            let values = params![self.session, from.branch, to, low, from.high, ROWS_PER_COPY];
            let copied = copy.execute(values).map_err(|error| self.failed(error))?;
            if i64::try_from(copied).unwrap_or(i64::MAX) < ROWS_PER_COPY {
                return Ok(());
            }
            low = last
                .query_row([self.session, to], |row| row.get(0))
                .map_err(|error| self.failed(error))?;
        }
    }
}
