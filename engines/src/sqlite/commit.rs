//! One commit: one transaction (contract §1).

use std::path::Path;

use forkline_model::address::SEQ_MAX;
use forkline_model::{
    Error as ModelError, Millis, NewEntry, NewUsage, Seq, SessionId, StoreKind, Usage, Write,
};
use rusqlite::{CachedStatement, Connection, ErrorCode, TransactionBehavior};

use super::index::BranchIndex;
use super::rows::{At, failed, session_row};
use crate::error::{Error, Result};
use crate::storage::Committed;

/// A commit that is being applied.
pub(super) struct Commit<'a> {
    conn: &'a Connection,
    path: &'a Path,
    session: &'a str,
    now: Millis,
    messages: i64,
    usage: Option<Usage>,
}

impl<'a> Commit<'a> {
    /// Applies the writes, all or none: entries, ledger, values, lists, branch index, statistics
    /// and next seq in one transaction.
    ///
    /// # Errors
    /// *Duplicate id*, *missing parent*, *limit exceeded*, *busy*, *corrupt source*, I/O.
    pub(super) fn apply(
        conn: &'a mut Connection,
        path: &'a Path,
        session: &'a SessionId,
        writes: &[Write],
        now: Millis,
    ) -> Result<Committed> {
        let count = writes.len() as u64;
        if writes.is_empty() {
            return Ok(Committed { first_seq: None, writes: 0, timestamp: now });
        }
        let transaction = conn
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|error| failed("write to", path, error))?;
        let next_seq = session_row(&transaction, "main", path, session)?.next_seq;
        if count > (SEQ_MAX + 1).saturating_sub(next_seq) {
            return Err(ModelError::SeqExhausted { next_seq }.into());
        }
        let session = session.as_str();
        let mut commit =
            Commit { conn: &transaction, path, session, now, messages: 0, usage: None };
        for (seq, write) in (next_seq..).zip(writes) {
            commit.write(write, seq)?;
        }
        commit.finish(next_seq + count)?;
        transaction.commit().map_err(|error| failed("commit to", path, error))?;
        Ok(Committed { first_seq: Some(Seq::new(next_seq)?), writes: count, timestamp: now })
    }

    fn prepare(&self, sql: &str) -> Result<CachedStatement<'a>> {
        self.conn.prepare_cached(sql).map_err(|error| failed("write to", self.path, error))
    }

    /// Runs one statement; `what` names the row in a refusal for its length.
    fn run(&self, sql: &str, values: &[&dyn rusqlite::ToSql], what: &str) -> Result<()> {
        match self.prepare(sql)?.execute(values) {
            Ok(_) => Ok(()),
            Err(error) => Err(refused(self.path, error, what)),
        }
    }

    fn write(&mut self, write: &Write, seq: u64) -> Result<()> {
        match write {
            Write::Entry(entry) => self.entry(entry, seq),
            Write::Usage(usage) => self.ledger(usage, seq),
            Write::SetValue { address, value } => {
                let (namespace, key) = (address.namespace.as_str(), address.key.as_str());
                self.run(
                    "INSERT INTO main.scalar_values (session_id, namespace, key, seq, value) \
                     VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (session_id, namespace, key) \
                     DO UPDATE SET seq = excluded.seq, value = excluded.value",
                    &[&self.session, &namespace, &key, &signed(seq), &value.as_str()],
                    &named(StoreKind::Value, namespace, key),
                )
            }
            Write::DeleteValue { address } => self.run(
                "DELETE FROM main.scalar_values \
                 WHERE session_id = ?1 AND namespace = ?2 AND key = ?3",
                &[&self.session, &address.namespace.as_str(), &address.key.as_str()],
                "",
            ),
            Write::AppendElement { address, value } => {
                let (namespace, key) = (address.namespace.as_str(), address.key.as_str());
                self.run(
                    "INSERT INTO main.list_values (session_id, namespace, key, seq, value) \
                     VALUES (?1, ?2, ?3, ?4, ?5)",
                    &[&self.session, &namespace, &key, &signed(seq), &value.as_str()],
                    &named(StoreKind::List, namespace, key),
                )
            }
            Write::DeleteList { address } => self.run(
                "DELETE FROM main.list_values \
                 WHERE session_id = ?1 AND namespace = ?2 AND key = ?3",
                &[&self.session, &address.namespace.as_str(), &address.key.as_str()],
                "",
            ),
        }
    }

    fn entry(&mut self, entry: &NewEntry, seq: u64) -> Result<()> {
        self.require_unused(entry.id.as_str(), || ModelError::DuplicateId {
            id: entry.id.clone(),
        })?;
        let (id, parent) = (entry.id.as_str(), entry.parent.as_ref());
        if let Some(parent) = parent
            && !self.exists(
                "SELECT 1 FROM main.entries WHERE session_id = ?1 AND id = ?2",
                parent.as_str(),
            )?
        {
            let (entry, parent) = (entry.id.clone(), parent.clone());
            return Err(ModelError::MissingParent { entry, parent }.into());
        }
        let parent = parent.map(forkline_model::EntryId::as_str);
        let entry_type = entry.entry_type.as_str();
        let custom_type = entry.custom_type.as_ref().map(forkline_model::TypeName::as_str);
        self.run(
            "INSERT INTO main.entries \
             (session_id, id, parent_id, seq, type, custom_type, timestamp, payload) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            &[
                &self.session,
                &id,
                &parent,
                &signed(seq),
                &entry_type,
                &custom_type,
                &signed(self.now.get()),
                &entry.payload.as_str(),
            ],
            &format!("entry {}", entry.id),
        )?;
        self.messages += i64::from(entry_type == "message");
        BranchIndex::new(self.conn, "main", self.path, self.session).append(
            id,
            parent,
            signed(seq),
            entry_type,
        )
    }

    fn ledger(&mut self, row: &NewUsage, seq: u64) -> Result<()> {
        self.require_unused(row.id.as_str(), || ModelError::DuplicateId { id: row.id.clone() })?;
        let sum = match self.usage.take() {
            Some(sum) => sum,
            None => self.stored_usage()?,
        };
        self.usage.insert(sum).add(&Usage::parse(&row.usage)?);
        self.run(
            "INSERT INTO main.usage_ledger \
             (session_id, id, seq, entry_id, adjustment, usage, details) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            &[
                &self.session,
                &row.id.as_str(),
                &signed(seq),
                &row.entry.as_ref().map(forkline_model::EntryId::as_str),
                &row.adjustment,
                &row.usage.as_str(),
                &row.details.as_ref().map(forkline_model::Json::as_str),
            ],
            &format!("usage {}", row.id),
        )
    }

    fn stored_usage(&self) -> Result<Usage> {
        let at = At::table(self.path, self.session, "sessions");
        let mut read = self.prepare("SELECT usage_payload FROM main.sessions WHERE id = ?1")?;
        let json = read
            .query_row([self.session], |row| Ok(at.json(row, 0, "usage_payload", self.session)));
        let json = json.map_err(|error| at.failed("read", error))??;
        Usage::parse(&json).map_err(|error| at.corrupt(self.session, error))
    }

    fn require_unused(&self, id: &str, error: impl FnOnce() -> ModelError) -> Result<()> {
        let is_used = self.exists(
            "SELECT 1 FROM main.entries WHERE session_id = ?1 AND id = ?2 UNION ALL \
             SELECT 1 FROM main.usage_ledger WHERE session_id = ?1 AND id = ?2",
            id,
        )?;
        if is_used { Err(error().into()) } else { Ok(()) }
    }

    fn exists(&self, sql: &str, id: &str) -> Result<bool> {
        let found = self.prepare(sql)?.exists([self.session, id]);
        found.map_err(|error| failed("read", self.path, error))
    }

    fn finish(self, next_seq: u64) -> Result<()> {
        let usage = self.usage.as_ref().map(Usage::to_json);
        let usage = usage.as_ref().map(forkline_model::Json::as_str);
        self.run(
            "UPDATE main.sessions SET next_seq = ?2, message_count = message_count + ?3, \
             usage_payload = ifnull(?4, usage_payload) WHERE id = ?1",
            &[&self.session, &signed(next_seq), &self.messages, &usage],
            "",
        )
    }
}

/// A seq or time as SQLite stores it.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).expect("at most 2^53")
}

/// A failure to store one row, `what`.
pub(super) fn refused(path: &Path, error: rusqlite::Error, what: &str) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::TooBig) => Error::LimitExceeded {
            what: format!("{what} is longer than the 1000000000 bytes that SQLite holds"),
        },
        _ => failed("write to", path, error),
    }
}

/// An address in messages.
pub(super) fn named(kind: StoreKind, namespace: &str, key: &str) -> String {
    format!("{} {namespace:?}/{key:?}", kind.as_str())
}
