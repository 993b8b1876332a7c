//! The branch index of a container, walked as formats §3 says and held against the entries.

use std::collections::{BTreeMap, BTreeSet};

use forkline_model::{Entry, State};
use rusqlite::{Connection, Result};

/// One row of `branch_meta`.
struct Segment {
    tip: String,
    tip_seq: i64,
    base: Option<(String, i64)>,
}

struct Index {
    segments: BTreeMap<String, Segment>,
    /// By segment and seq: entry and type.
    rows: BTreeMap<String, BTreeMap<i64, (String, String)>>,
}

/// Where the index of a session does not give the paths that its entries have, a line each.
///
/// Every segment is walked from its tip: it has to meet the tip's ancestry, each entry with its
/// seq and type; and every entry has to be met by some walk.
///
/// # Errors
/// The tables cannot be read.
pub fn differences(db: &Connection, session: &str, state: &State) -> Result<Vec<String>> {
    let index = Index::read(db, session)?;
    let entries: BTreeMap<&str, &Entry> =
        state.entries().values().map(|entry| (entry.id.as_str(), entry)).collect();
    let mut found = Vec::new();
    let mut met = BTreeSet::new();
    for (id, segment) in &index.segments {
        let walked = match index.walk(id, segment) {
            Ok(walked) => walked,
            Err(reason) => {
                found.push(format!("segment {id:?}: {reason}"));
                continue;
            }
        };
        let expected = ancestry(&entries, &segment.tip);
        if walked != expected {
            found.push(format!("segment {id:?}: path {walked:?}, by parents {expected:?}"));
        }
        met.extend(walked.into_iter().map(|(entry, ..)| entry));
    }
    found.extend(
        entries
            .keys()
            .filter(|id| !met.contains(**id))
            .map(|id| format!("entry {id:?} is on no path")),
    );
    Ok(found)
}

/// Id, seq and type of each entry of a path, newest first.
type Path = Vec<(String, i64, String)>;

fn ancestry(entries: &BTreeMap<&str, &Entry>, tip: &str) -> Path {
    let mut path = Vec::new();
    let mut next = entries.get(tip);
    while let Some(entry) = next {
        let seq = i64::try_from(entry.seq.get()).expect("a seq is below 2^53");
        path.push((entry.id.as_str().to_owned(), seq, entry.entry_type.as_str().to_owned()));
        next = entry.parent.as_ref().and_then(|parent| entries.get(parent.as_str()));
    }
    path
}

impl Index {
    fn read(db: &Connection, session: &str) -> Result<Self> {
        let mut segments = BTreeMap::new();
        let mut statement = db.prepare(
            "SELECT branch_id, tip_entry_id, tip_seq, base_branch_id, base_seq \
             FROM branch_meta WHERE session_id = ?1",
        )?;
        let mut found = statement.query([session])?;
        while let Some(row) = found.next()? {
            let base: Option<String> = row.get(3)?;
            let base =
                base.map(|base| Ok::<_, rusqlite::Error>((base, row.get(4)?))).transpose()?;
            segments.insert(row.get(0)?, Segment { tip: row.get(1)?, tip_seq: row.get(2)?, base });
        }
        let mut rows: BTreeMap<String, BTreeMap<_, _>> = BTreeMap::new();
        let mut statement = db.prepare(
            "SELECT branch_id, entry_seq, entry_id, entry_type \
             FROM branch_entries WHERE session_id = ?1",
        )?;
        let mut found = statement.query([session])?;
        while let Some(row) = found.next()? {
            rows.entry(row.get(0)?).or_default().insert(row.get(1)?, (row.get(2)?, row.get(3)?));
        }
        Ok(Self { segments, rows })
    }

    fn walk(&self, id: &str, segment: &Segment) -> std::result::Result<Path, String> {
        let mut path = Vec::new();
        let (mut id, mut segment, mut upper) = (id, segment, segment.tip_seq);
        loop {
            let lower = segment.base.as_ref().map_or(i64::MIN, |(_, seq)| *seq);
            if lower >= upper {
                return Err(format!("its base at seq {lower} is not below {upper}"));
            }
            let rows = self.rows.get(id).ok_or_else(|| format!("segment {id:?} has no rows"))?;
            let counted = rows.range(..=upper).rev().take_while(|(seq, _)| **seq > lower);
            path.extend(counted.map(|(seq, (id, kind))| (id.clone(), *seq, kind.clone())));
            let Some((base, seq)) = &segment.base else { return Ok(path) };
            let next = self.segments.get_key_value(base);
            (id, segment) = next.ok_or_else(|| format!("there is no segment {base:?}"))?;
            upper = *seq;
        }
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::differences;
    use crate::fixtures::fixtures;
    use crate::plain::sqlite;

    /// What is found after a statement has damaged the index of the session with most branches.
    fn found_after(damage: &str) -> Vec<String> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let source = fixtures().join("pi-0.87.1/lanes-and-data-branch.sqlite");
        let copy = sqlite::copy_container(&source, folder.path(), "a.sqlite").expect("copied");
        let sessions = sqlite::read(&copy, folder.path()).expect("a container");
        let content = sessions.into_iter().next().map(|session| session.content);
        let state = content.expect("a session").expect("it is sound").state;
        let db = Connection::open(&copy).expect("a database");
        db.execute_batch(damage).expect("a statement");
        differences(&db, "lanes-and-data-branch", &state).expect("tables")
    }

    #[test]
    fn a_damaged_index_is_seen() {
        assert_eq!(found_after(""), Vec::<String>::new());
        for damage in [
            "DELETE FROM branch_entries WHERE entry_seq = (SELECT max(seq) FROM entries)",
            "UPDATE branch_entries SET entry_type = 'custom' WHERE entry_type = 'message'",
            "UPDATE branch_meta SET base_branch_id = 'nobody' WHERE base_seq IS NOT NULL",
            "UPDATE branch_meta SET base_seq = tip_seq WHERE base_seq IS NOT NULL",
            "UPDATE branch_meta SET tip_seq = tip_seq - 1",
            "DELETE FROM branch_meta",
        ] {
            assert!(!found_after(damage).is_empty(), "{damage}");
        }
    }
}
