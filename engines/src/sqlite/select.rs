//! The functions that a fork's SQL calls: the classifier, and the checks of what is copied.
//!
//! SQL moves the rows; what becomes of a row is said by [`classify`] alone, row by row. Rows that
//! are copied are checked on their way, since a foreign file may hold anything.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use forkline_model::policy::{Disposition, classify};
use forkline_model::{EntryId, EntryType, Key, Millis, Namespace, Scope, Seq, StoreKind, TypeName};
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode};
use serde::de::IgnoredAny;

use super::rows::{not_utf8, staging_failed};
use crate::error::{Error, Result};

/// How [`Disposition`] is written in SQL.
fn code(disposition: Disposition) -> i64 {
    match disposition {
        Disposition::LeaveOut => 0,
        Disposition::Copy => 1,
        Disposition::CopyIfEntryCopied => 2,
        Disposition::RewriteTip => 3,
        Disposition::MakeIdle => 4,
        Disposition::Fail => 5,
    }
}

/// How a [`StoreKind`] is written in SQL.
fn kind(code: i64) -> StoreKind {
    if code == 0 { StoreKind::Value } else { StoreKind::List }
}

/// What the registered functions share with who runs the statements.
#[derive(Clone)]
pub(super) struct Functions {
    path: PathBuf,
    session: Arc<str>,
    failure: Arc<Mutex<Option<Error>>>,
    rows: Arc<AtomicU64>,
}

impl Functions {
    /// Registers on a connection:
    ///
    /// - `forkline_fate(kind, namespace, key)`: what a fork of `scope` does with a row;
    /// - `forkline_entry(id, parent_id, seq, type, custom_type, timestamp, payload)` and
    ///   `forkline_row(kind, namespace, key, seq, value)`: true, or an error for a damaged row.
    pub(super) fn register(
        conn: &Connection,
        path: &Path,
        session: &str,
        scope: &Scope,
    ) -> rusqlite::Result<Self> {
        let shared = Self {
            path: path.to_owned(),
            session: Arc::from(session),
            failure: Arc::default(),
            rows: Arc::default(),
        };
        let flags = FunctionFlags::SQLITE_UTF8
            | FunctionFlags::SQLITE_DETERMINISTIC
            | FunctionFlags::SQLITE_DIRECTONLY;
        let (this, scope) = (shared.clone(), scope.clone());
        conn.create_scalar_function("forkline_fate", 3, flags, move |row| {
            this.answer(this.fate(row, &scope))
        })?;
        let this = shared.clone();
        conn.create_scalar_function("forkline_entry", 7, flags, move |row| {
            this.answer(this.entry(row))
        })?;
        let this = shared.clone();
        conn.create_scalar_function("forkline_row", 5, flags, move |row| {
            this.answer(this.row(row))
        })?;
        Ok(shared)
    }

    /// How many rows were let through so far.
    pub(super) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Why a statement that calls the functions failed.
    pub(super) fn explain(&self, error: rusqlite::Error) -> Error {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.unwrap_or_else(|| match error.sqlite_error_code() {
            Some(ErrorCode::ConstraintViolation) => Error::corrupt(
                &*self.path,
                format!("session {:?}: an id or a seq is used twice", self.session),
            ),
            _ => staging_failed("copy from", &self.path, error),
        })
    }

    /// Keeps a typed error for [`Functions::explain`]; SQLite carries only text.
    fn answer(&self, answer: Result<i64>) -> rusqlite::Result<i64> {
        answer.map_err(|error| {
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            rusqlite::Error::UserFunctionError("damaged row".into())
        })
    }

    fn corrupt(&self, table: &str, row: &str, reason: impl std::fmt::Display) -> Error {
        let row = forkline_model::address::shortened(row);
        Error::corrupt(
            &*self.path,
            format!("session {:?}, {table} {row:?}: {reason}", self.session),
        )
    }

    fn fate(&self, row: &Context<'_>, scope: &Scope) -> Result<i64> {
        let kind = kind(integer(row, 0).unwrap_or_default());
        let table = table(kind);
        let namespace = self.text(row, 1, table, "namespace")?;
        let key = self.text(row, 2, table, "key")?;
        Ok(code(classify(scope, kind, namespace, key)))
    }

    fn entry(&self, row: &Context<'_>) -> Result<i64> {
        const TABLE: &str = "entries";
        let id = self.text(row, 0, TABLE, "id")?;
        let wrong = |error: forkline_model::Error| self.corrupt(TABLE, id, error);
        EntryId::new(id).map_err(wrong)?;
        if row.get_raw(1) != ValueRef::Null {
            EntryId::new(self.text(row, 1, TABLE, "parent_id")?).map_err(wrong)?;
        }
        self.seq(row, 2, TABLE, id)?;
        EntryType::new(self.text(row, 3, TABLE, "type")?).map_err(wrong)?;
        if row.get_raw(4) != ValueRef::Null {
            TypeName::new(self.text(row, 4, TABLE, "custom_type")?).map_err(wrong)?;
        }
        let timestamp = integer(row, 5).and_then(|ms| u64::try_from(ms).ok());
        if timestamp.is_none_or(|ms| Millis::new(ms).is_err()) {
            return Err(self.corrupt(TABLE, id, "timestamp is no time"));
        }
        if row.get_raw(6) != ValueRef::Null {
            let payload = self.json(row, 6, TABLE, id, "payload")?;
            if !payload.starts_with('{') {
                return Err(self.corrupt(TABLE, id, "payload is no JSON object"));
            }
        }
        self.rows.fetch_add(1, Ordering::Relaxed);
        Ok(1)
    }

    fn row(&self, row: &Context<'_>) -> Result<i64> {
        let table = table(kind(integer(row, 0).unwrap_or_default()));
        let key = self.text(row, 2, table, "key")?;
        let wrong = |error: forkline_model::Error| self.corrupt(table, key, error);
        Namespace::new(self.text(row, 1, table, "namespace")?).map_err(wrong)?;
        Key::new(key).map_err(wrong)?;
        self.seq(row, 3, table, key)?;
        if row.get_raw(4) != ValueRef::Null {
            self.json(row, 4, table, key, "value")?;
        }
        self.rows.fetch_add(1, Ordering::Relaxed);
        Ok(1)
    }

    fn text<'r>(
        &self,
        row: &'r Context<'_>,
        index: usize,
        table: &str,
        what: &str,
    ) -> Result<&'r str> {
        match row.get_raw(index) {
            ValueRef::Text(bytes) => std::str::from_utf8(bytes)
                .map_err(|_| self.corrupt(table, &String::from_utf8_lossy(bytes), not_utf8(what))),
            _ => Err(self.corrupt(table, "", format!("{what} is no text"))),
        }
    }

    fn seq(&self, row: &Context<'_>, index: usize, table: &str, id: &str) -> Result<()> {
        let seq = integer(row, index).and_then(|seq| u64::try_from(seq).ok()).unwrap_or_default();
        Seq::new(seq).map(drop).map_err(|error| self.corrupt(table, id, error))
    }

    /// JSON text without white space before it.
    fn json<'r>(
        &self,
        row: &'r Context<'_>,
        index: usize,
        table: &str,
        id: &str,
        what: &str,
    ) -> Result<&'r str> {
        let ValueRef::Text(bytes) = row.get_raw(index) else {
            return Err(self.corrupt(table, id, format!("{what} is no text")));
        };
        let text =
            std::str::from_utf8(bytes).map_err(|_| self.corrupt(table, id, not_utf8(what)))?;
        serde_json::from_str::<IgnoredAny>(text)
            .map_err(|error| self.corrupt(table, id, format!("{what} is not JSON: {error}")))?;
        Ok(text.trim_start())
    }
}

fn integer(row: &Context<'_>, index: usize) -> Option<i64> {
    match row.get_raw(index) {
        ValueRef::Integer(number) => Some(number),
        _ => None,
    }
}

fn table(kind: StoreKind) -> &'static str {
    match kind {
        StoreKind::Value => "scalar_values",
        StoreKind::List => "list_values",
    }
}
