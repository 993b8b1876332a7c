//! The reads of contract §1 in SQL: by seq, or by key in the order of UTF-8 bytes, which is that
//! of code points.

use std::path::Path;

use forkline_model::{
    Address, BranchScan, Entry, EntryId, EntryQuery, Error as ModelError, Json, Key, Limit,
    ListQuery, Namespace, Order, Seq, SeqQuery, Stats, Usage, UsageRow,
};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Params, Row, params};

use super::commit::signed;
use super::index::{BranchIndex, Span};
use super::rows::At;
use crate::error::Result;
use crate::storage::StateRow;

/// The columns that [`At::entry`] reads, of a table called `e`.
macro_rules! entry_columns {
    () => {
        "e.id, e.parent_id, e.seq, e.type, e.custom_type, e.timestamp, e.payload"
    };
}

/// The rows of one path span. `{cmp}` and `{order}` are put in.
const SPAN: &str = concat!(
    "SELECT ",
    entry_columns!(),
    " FROM {schema}.branch_entries AS b INDEXED BY ix_be_seq \
     CROSS JOIN {schema}.entries AS e ON e.session_id = b.session_id AND e.id = b.entry_id \
     WHERE b.session_id = ?1 AND b.branch_id = ?2 AND b.entry_seq > ?3 AND b.entry_seq <= ?4 \
     AND (?5 IS NULL OR b.entry_type = ?5) AND (?6 IS NULL OR e.custom_type = ?6) \
     ORDER BY b.entry_seq {order} LIMIT ?7"
);

/// Entries of a session by seq.
const ENTRIES: &str = concat!(
    "SELECT ",
    entry_columns!(),
    " FROM {schema}.entries AS e INDEXED BY ix_entry_seq \
     WHERE e.session_id = ?1 AND e.seq >= ?2 AND e.seq <= ?3 \
     AND (?4 IS NULL OR e.type = ?4) AND (?5 IS NULL OR e.custom_type = ?5) \
     ORDER BY e.seq {order} LIMIT ?6"
);

/// One entry by id.
const ENTRY: &str = concat!(
    "SELECT ",
    entry_columns!(),
    " FROM {schema}.entries AS e WHERE e.session_id = ?1 AND e.id = ?2"
);

/// The ledger by seq.
const LEDGER: &str = "SELECT id, seq, entry_id, adjustment, usage, details \
     FROM {schema}.usage_ledger INDEXED BY ix_usage_seq \
     WHERE session_id = ?1 AND seq >= ?2 AND seq <= ?3 ORDER BY seq {order} LIMIT ?4";

/// The highest seq there can be, for ranges without an end.
const SEQ_END: i64 = i64::MAX;
/// No limit.
const ALL: i64 = -1;

/// The stored rows of one session.
pub(super) struct Reads<'a> {
    conn: &'a Connection,
    schema: &'static str,
    path: &'a Path,
    session: &'a str,
}

impl<'a> Reads<'a> {
    /// The rows of `session` in `schema` of the database at `path`.
    pub(super) fn new(
        conn: &'a Connection,
        schema: &'static str,
        path: &'a Path,
        session: &'a str,
    ) -> Self {
        Self { conn, schema, path, session }
    }

    pub(super) fn conn(&self) -> &'a Connection {
        self.conn
    }

    fn at(&self, table: &'static str) -> At<'a> {
        At::table(self.path, self.session, table)
    }

    fn prepare(&self, sql: &str, order: Order) -> Result<CachedStatement<'a>> {
        let order = match order {
            Order::Asc => "ASC",
            Order::Desc => "DESC",
        };
        let sql = sql.replace("{schema}", self.schema).replace("{order}", order);
        let statement = self.conn.prepare_cached(&sql);
        statement.map_err(|error| self.at("").failed("read", error))
    }

    /// Visits rows one by one.
    fn each(
        at: &At<'_>,
        mut statement: CachedStatement<'_>,
        values: impl Params,
        visit: &mut dyn FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut rows = statement.query(values).map_err(|error| at.failed("read", error))?;
        while let Some(row) = rows.next().map_err(|error| at.failed("read", error))? {
            visit(row)?;
        }
        Ok(())
    }

    fn collect<T>(
        at: &At<'_>,
        statement: CachedStatement<'_>,
        values: impl Params,
        read: impl Fn(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut found = Vec::new();
        Self::each(at, statement, values, &mut |row| {
            found.push(read(row)?);
            Ok(())
        })?;
        Ok(found)
    }

    fn one<T>(
        at: &At<'_>,
        mut statement: CachedStatement<'_>,
        values: impl Params,
        read: impl Fn(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let found = statement.query_row(values, |row| Ok(read(row))).optional();
        found.map_err(|error| at.failed("read", error))?.transpose()
    }

    /// One entry.
    pub(super) fn entry(&self, id: &str) -> Result<Option<Entry>> {
        let at = self.at("entries");
        let find = self.prepare(ENTRY, Order::Asc)?;
        Self::one(&at, find, [self.session, id], |row| at.entry(row))
    }

    pub(super) fn get_entries(&self, ids: &[EntryId]) -> Result<Vec<Option<Entry>>> {
        ids.iter().map(|id| self.entry(id.as_str())).collect()
    }

    pub(super) fn get_value(&self, address: &Address) -> Result<Option<(Seq, Json)>> {
        let at = self.at("scalar_values");
        let find = self.prepare(
            "SELECT seq, value FROM {schema}.scalar_values \
             WHERE session_id = ?1 AND namespace = ?2 AND key = ?3",
            Order::Asc,
        )?;
        let (namespace, key) = (address.namespace.as_str(), address.key.as_str());
        Self::one(&at, find, [self.session, namespace, key], |row| {
            Ok((at.seq(row, 0)?, at.json(row, 1, "value", key)?))
        })
    }

    pub(super) fn scan_values(
        &self,
        namespace: &Namespace,
        key_prefix: &str,
    ) -> Result<Vec<(Key, Seq, Json)>> {
        let at = self.at("scalar_values");
        let scan = self.prepare(
            "SELECT key, seq, value FROM {schema}.scalar_values \
             WHERE session_id = ?1 AND namespace = ?2 AND key >= ?3 \
             AND (?4 IS NULL OR key < ?4) ORDER BY key",
            Order::Asc,
        )?;
        let end = after_prefix(key_prefix);
        let values = params![self.session, namespace.as_str(), key_prefix, end];
        Self::collect(&at, scan, values, |row| {
            let key = Key::new(at.text(row, 0, "key")?).map_err(|error| at.corrupt("", error))?;
            let value = at.json(row, 2, "value", key.as_str())?;
            Ok((key, at.seq(row, 1)?, value))
        })
    }

    pub(super) fn read_list(
        &self,
        address: &Address,
        query: &ListQuery,
    ) -> Result<Vec<(Seq, Json)>> {
        let at = self.at("list_values");
        let scan = self.prepare(
            "SELECT seq, value FROM {schema}.list_values \
             WHERE session_id = ?1 AND namespace = ?2 AND key = ?3 \
             AND seq >= ?4 AND seq <= ?5 ORDER BY seq {order} LIMIT ?6",
            query.order,
        )?;
        let (from, to) = beyond(query.cursor, query.order);
        let (namespace, key) = (address.namespace.as_str(), address.key.as_str());
        let values = params![self.session, namespace, key, from, to, limit(query.limit)];
        Self::collect(&at, scan, values, |row| {
            Ok((at.seq(row, 0)?, at.json(row, 1, "value", key)?))
        })
    }

    pub(super) fn scan_entries(&self, query: &SeqQuery) -> Result<Vec<Entry>> {
        let at = self.at("entries");
        let scan = self.prepare(ENTRIES, query.order)?;
        let (from, to) = range(query);
        let none: Option<&str> = None;
        let values = params![self.session, from, to, none, none, limit(query.limit)];
        Self::collect(&at, scan, values, |row| at.entry(row))
    }

    pub(super) fn find_entries(&self, query: &EntryQuery) -> Result<Vec<Entry>> {
        let at = self.at("entries");
        let find = self.prepare(ENTRIES, query.order)?;
        let (from, to) = beyond(query.cursor, query.order);
        let (entry_type, custom_type) = types(query);
        let limit = limit(query.limit);
        let values = params![self.session, from, to, entry_type, custom_type, limit];
        Self::collect(&at, find, values, |row| at.entry(row))
    }

    pub(super) fn scan_usage(&self, query: &SeqQuery) -> Result<Vec<UsageRow>> {
        let at = self.at("usage_ledger");
        let scan = self.prepare(LEDGER, query.order)?;
        let (from, to) = range(query);
        let values = params![self.session, from, to, limit(query.limit)];
        Self::collect(&at, scan, values, |row| at.usage(row))
    }

    /// The path of `scan.start`, cut where the scan stops, filtered, ordered and limited.
    pub(super) fn scan_branch<T>(
        &self,
        scan: &BranchScan,
        read: &dyn Fn(&At<'_>, &Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let at = self.at("entries");
        let mut spans = self.walked(scan)?;
        let query = &scan.query;
        if query.order == Order::Asc {
            spans.reverse();
        }
        let (from, to) = beyond(query.cursor, query.order);
        let (entry_type, custom_type) = types(query);
        let mut found = Vec::new();
        for span in spans {
            let left = limit(query.limit) - i64::try_from(found.len()).expect("at most the limit");
            if left == 0 {
                break;
            }
            let (low, high) = (span.low.max(from - 1), span.high.min(to));
            let rows = self.prepare(SPAN, query.order)?;
            let values =
                params![self.session, span.branch, low, high, entry_type, custom_type, left];
            found.extend(Self::collect(&at, rows, values, |row| read(&at, row))?);
        }
        Ok(found)
    }

    /// The parts of the path that a scan walks, newest first.
    fn walked(&self, scan: &BranchScan) -> Result<Vec<Span>> {
        let index = BranchIndex::new(self.conn, self.schema, self.path, self.session);
        let start = scan.start.as_str();
        let Some(spot) = index.spot(start)? else {
            return Err(match self.entry(start)? {
                Some(_) => self.at("entries").corrupt(start, "it is not in the branch index"),
                None => ModelError::UnknownEntry { entry: scan.start.clone() }.into(),
            });
        };
        let mut spans = Vec::new();
        index.walk(spot, &mut |mut span| {
            let of_type = match &scan.stop_at_type {
                Some(stop) => index.newest_of_type(&span, stop.as_str())?,
                None => None,
            };
            let of_id = match &scan.stop_at_id {
                Some(stop) => index.find(&span, stop.as_str())?,
                None => None,
            };
            let stop = of_type.max(of_id);
            if let Some(stop) = stop {
                span.low = stop - 1;
            }
            spans.push(span);
            Ok(stop.is_none())
        })?;
        Ok(spans)
    }

    pub(super) fn stats(&self) -> Result<Stats> {
        let at = self.at("sessions");
        let read = self.prepare(
            "SELECT message_count, usage_payload FROM {schema}.sessions WHERE id = ?1",
            Order::Asc,
        )?;
        let stats = Self::one(&at, read, [self.session], |row| {
            let usage = at.json(row, 1, "usage_payload", self.session)?;
            Ok(Stats {
                message_count: at.number(row, 0, "message_count")?,
                usage: Usage::parse(&usage).map_err(|error| at.corrupt(self.session, error))?,
            })
        })?;
        stats.ok_or_else(|| at.corrupt(self.session, "its row is gone"))
    }

    /// Visits everything: entries, ledger, values, elements, each in seq order.
    pub(super) fn dump(&self, visit: &mut dyn FnMut(StateRow) -> Result<()>) -> Result<()> {
        let entries = self.at("entries");
        let none: Option<&str> = None;
        let all = params![self.session, 0, SEQ_END, none, none, ALL];
        Self::each(&entries, self.prepare(ENTRIES, Order::Asc)?, all, &mut |row| {
            visit(StateRow::Entry(entries.entry(row)?))
        })?;
        let ledger = self.at("usage_ledger");
        let all = params![self.session, 0, SEQ_END, ALL];
        Self::each(&ledger, self.prepare(LEDGER, Order::Asc)?, all, &mut |row| {
            visit(StateRow::Usage(ledger.usage(row)?))
        })?;
        // The addresses are sorted alone, so that the sorter never holds a value.
        let values = self.at("scalar_values");
        let order = "SELECT seq, namespace, key FROM {schema}.scalar_values \
                     WHERE session_id = ?1 ORDER BY seq";
        Self::each(&values, self.prepare(order, Order::Asc)?, [self.session], &mut |row| {
            let address = Self::address(&values, row)?;
            match self.get_value(&address)? {
                Some((seq, value)) => visit(StateRow::Value { address, seq, value }),
                None => Err(values.corrupt(address.key.as_str(), "the row is gone")),
            }
        })?;
        let lists = self.at("list_values");
        let order = "SELECT seq, namespace, key FROM {schema}.list_values \
                     WHERE session_id = ?1 ORDER BY seq";
        Self::each(&lists, self.prepare(order, Order::Asc)?, [self.session], &mut |row| {
            let address = Self::address(&lists, row)?;
            let seq = lists.seq(row, 0)?;
            let value = self.element(&address, seq)?;
            visit(StateRow::Element { address, seq, value })
        })
    }

    fn address(at: &At<'_>, row: &Row<'_>) -> Result<Address> {
        let (namespace, key) = (at.text(row, 1, "namespace")?, at.text(row, 2, "key")?);
        Address::new(namespace, key).map_err(|error| at.corrupt(key, error))
    }

    fn element(&self, address: &Address, seq: Seq) -> Result<Json> {
        let at = self.at("list_values");
        let find = self.prepare(
            "SELECT value FROM {schema}.list_values \
             WHERE session_id = ?1 AND namespace = ?2 AND key = ?3 AND seq = ?4",
            Order::Asc,
        )?;
        let (namespace, key) = (address.namespace.as_str(), address.key.as_str());
        let values = params![self.session, namespace, key, signed(seq.get())];
        let value = Self::one(&at, find, values, |row| at.json(row, 0, "value", key))?;
        value.ok_or_else(|| at.corrupt(key, "the row is gone"))
    }
}

/// The seqs beyond an exclusive cursor, as an inclusive range.
fn beyond(cursor: Option<Seq>, order: Order) -> (i64, i64) {
    match (cursor.map(|cursor| signed(cursor.get())), order) {
        (None, _) => (0, SEQ_END),
        (Some(cursor), Order::Asc) => (cursor + 1, SEQ_END),
        (Some(cursor), Order::Desc) => (0, cursor - 1),
    }
}

fn limit(limit: Limit) -> i64 {
    i64::from(limit)
}

fn range(query: &SeqQuery) -> (i64, i64) {
    let number = |seq: Seq| signed(seq.get());
    (query.from.map_or(0, number), query.to.map_or(SEQ_END, number))
}

fn types(query: &EntryQuery) -> (Option<&str>, Option<&str>) {
    (
        query.entry_type.as_ref().map(forkline_model::EntryType::as_str),
        query.custom_type.as_ref().map(forkline_model::TypeName::as_str),
    )
}

/// The lowest text above all that start with `prefix`; `None` when there is none.
fn after_prefix(prefix: &str) -> Option<String> {
    let mut rest = prefix.to_owned();
    while let Some(last) = rest.pop() {
        let next = match u32::from(last) {
            0xd7ff => Some('\u{e000}'),
            code => char::from_u32(code + 1),
        };
        if let Some(next) = next {
            rest.push(next);
            return Some(rest);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::after_prefix;

    #[test]
    fn prefixes_end_below_the_next_text() {
        for (prefix, end) in [
            ("", None),
            ("a", Some("b")),
            ("a%", Some("a&")),
            ("\u{d7ff}", Some("\u{e000}")),
            ("a\u{10ffff}", Some("b")),
            ("\u{10ffff}", None),
        ] {
            assert_eq!(after_prefix(prefix).as_deref(), end, "{prefix:?}");
        }
    }
}
