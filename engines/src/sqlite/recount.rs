//! Recounts what is derived: the branch index and the statistics, from entries and ledger.

use std::collections::BTreeSet;
use std::path::Path;

use forkline_model::{SessionId, Usage};
use rusqlite::Connection;

use super::index::{BranchIndex, Span};
use super::open::{Reader, Use};
use super::reads::Reads;
use super::rows::{At, session_row};
use crate::error::{Error, Result};

/// One thing that a recount found different, as a sentence.
pub type Finding = String;

/// Recounts one session of a database, which is only read, and says what differs: statistics,
/// next seq, and for every entry whether the branch index gives its path.
///
/// For checking, not for use: it takes time and memory in proportion to all paths together.
///
/// # Errors
/// *Unknown session*, *corrupt source* for rows that cannot be read at all, I/O.
pub fn recount(path: &Path, session: &SessionId) -> Result<Vec<Finding>> {
    let path = &std::fs::canonicalize(path).map_err(|error| Error::io("open", path, error))?;
    let reader = Reader::open(path, Use::Look)?;
    reader.pin()?;
    let recount = Recount { conn: &reader.conn, path, session: session.as_str() };
    let mut findings = Vec::new();
    recount.statistics(session, &mut findings)?;
    recount.index(&mut findings)?;
    Ok(findings)
}

struct Recount<'a> {
    conn: &'a Connection,
    path: &'a Path,
    session: &'a str,
}

/// What the index needs to know of an entry.
struct Node {
    id: String,
    parent: Option<String>,
    seq: i64,
    entry_type: String,
}

impl Recount<'_> {
    fn at(&self, table: &'static str) -> At<'_> {
        At::table(self.path, self.session, table)
    }

    fn each(
        &self,
        table: &'static str,
        sql: &str,
        visit: &mut dyn FnMut(&At<'_>, &rusqlite::Row<'_>) -> Result<()>,
    ) -> Result<()> {
        let at = self.at(table);
        let mut scan = self.conn.prepare(sql).map_err(|error| at.failed("recount", error))?;
        let mut rows = scan.query([self.session]).map_err(|error| at.failed("recount", error))?;
        while let Some(row) = rows.next().map_err(|error| at.failed("recount", error))? {
            visit(&at, row)?;
        }
        Ok(())
    }

    fn statistics(&self, session: &SessionId, findings: &mut Vec<Finding>) -> Result<()> {
        let stored = Reads::new(self.conn, "main", self.path, self.session).stats()?;
        let next_seq = session_row(self.conn, "main", self.path, session)?.next_seq;
        let mut usage = Usage::default();
        let sql = "SELECT id, seq, entry_id, adjustment, usage, details FROM usage_ledger \
                   WHERE session_id = ?1 ORDER BY seq";
        self.each("usage_ledger", sql, &mut |at, row| {
            let row = at.usage(row)?;
            usage.add(&Usage::parse(&row.usage)?);
            Ok(())
        })?;
        if usage != stored.usage {
            let (stored, usage) = (stored.usage.to_json(), usage.to_json());
            findings.push(format!("usage is {stored}, the ledger sums up to {usage}"));
        }
        let mut messages = 0;
        let sql = "SELECT 1 FROM entries WHERE session_id = ?1 AND type = 'message'";
        self.each("entries", sql, &mut |_, _| {
            messages += 1;
            Ok(())
        })?;
        if messages != stored.message_count {
            let stored = stored.message_count;
            findings.push(format!("message count is {stored}, there are {messages} messages"));
        }
        let sql = "SELECT seq FROM entries WHERE session_id = ?1 UNION ALL \
                   SELECT seq FROM scalar_values WHERE session_id = ?1 UNION ALL \
                   SELECT seq FROM list_values WHERE session_id = ?1 UNION ALL \
                   SELECT seq FROM usage_ledger WHERE session_id = ?1";
        let mut seqs = BTreeSet::new();
        self.each("entries", sql, &mut |at, row| {
            let seq = at.number(row, 0, "seq")?;
            if !seqs.insert(seq) {
                findings.push(format!("seq {seq} is used twice"));
            }
            if seq >= next_seq {
                findings.push(format!("seq {seq} is not below the next seq {next_seq}"));
            }
            Ok(())
        })
    }

    fn index(&self, findings: &mut Vec<Finding>) -> Result<()> {
        let mut nodes = std::collections::BTreeMap::new();
        let sql = "SELECT id, parent_id, seq, type FROM entries WHERE session_id = ?1";
        self.each("entries", sql, &mut |at, row| {
            let node = Node {
                id: at.text(row, 0, "id")?.to_owned(),
                parent: at.optional_text(row, 1, "parent_id")?.map(str::to_owned),
                seq: super::commit::signed(at.number(row, 2, "seq")?),
                entry_type: at.text(row, 3, "type")?.to_owned(),
            };
            nodes.insert(node.id.clone(), node);
            Ok(())
        })?;
        for node in nodes.values() {
            let mut expected = Vec::new();
            let mut next = Some(node);
            while let Some(node) = next {
                expected.push((node.seq, node.id.clone(), node.entry_type.clone()));
                next = node.parent.as_ref().and_then(|parent| nodes.get(parent));
                if let Some(parent) = &node.parent
                    && next.is_none_or(|found| found.seq >= node.seq)
                {
                    findings
                        .push(format!("{:?} has a missing or later parent {parent:?}", node.id));
                    break;
                }
            }
            let found = match self.indexed_path(&node.id) {
                Err(Error::CorruptSource { reason, .. }) => {
                    findings.push(reason);
                    continue;
                }
                found => found?,
            };
            match found {
                None => findings.push(format!("{:?} is not in the branch index", node.id)),
                Some(found) if found != expected => {
                    findings.push(format!("the branch index has another path of {:?}", node.id));
                }
                Some(_) => {}
            }
        }
        self.segments(&nodes, findings)
    }

    /// The path of an entry as the index gives it: seq, id and type, newest first.
    fn indexed_path(&self, entry: &str) -> Result<Option<Vec<(i64, String, String)>>> {
        let index = BranchIndex::new(self.conn, "main", self.path, self.session);
        let Some(spot) = index.spot(entry)? else { return Ok(None) };
        let at = self.at("branch_entries");
        let mut path = Vec::new();
        index.walk(spot, &mut |Span { branch, low, high }| {
            let sql = "SELECT entry_seq, entry_id, entry_type FROM branch_entries \
                       WHERE session_id = ?1 AND branch_id = ?2 \
                       AND entry_seq > ?3 AND entry_seq <= ?4 ORDER BY entry_seq DESC";
            let rows = self.conn.prepare_cached(sql).and_then(|mut scan| {
                let values = rusqlite::params![self.session, branch, low, high];
                let rows =
                    scan.query_map(values, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
                rows.collect::<rusqlite::Result<Vec<_>>>()
            });
            path.extend(rows.map_err(|error| at.failed("recount", error))?);
            Ok(true)
        })?;
        Ok(Some(path))
    }

    /// Every segment ends at an entry with no child in it, and every leaf ends a segment.
    fn segments(
        &self,
        nodes: &std::collections::BTreeMap<String, Node>,
        findings: &mut Vec<Finding>,
    ) -> Result<()> {
        let mut tips = BTreeSet::new();
        let sql = "SELECT branch_id, tip_entry_id, tip_seq FROM branch_meta \
                   WHERE session_id = ?1";
        self.each("branch_meta", sql, &mut |at, row| {
            let (branch, tip) = (at.text(row, 0, "branch_id")?, at.text(row, 1, "tip_entry_id")?);
            let seq = super::commit::signed(at.number(row, 2, "tip_seq")?);
            if nodes.get(tip).is_none_or(|node| node.seq != seq) {
                findings.push(format!("segment {branch:?} ends at {tip:?}, seq {seq}: no entry"));
            }
            tips.insert(tip.to_owned());
            Ok(())
        })?;
        let parents: BTreeSet<&String> =
            nodes.values().filter_map(|node| node.parent.as_ref()).collect();
        for id in nodes.keys() {
            if tips.contains(id) == parents.contains(id) {
                let what = if tips.contains(id) { "has children but ends" } else { "ends no" };
                findings.push(format!("{id:?} {what} a segment"));
            }
        }
        Ok(())
    }
}
