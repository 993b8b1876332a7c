//! Reading rows: what came from a file is checked before it is believed.

use std::path::{Path, PathBuf};

use forkline_model::address::SEQ_MAX;
use forkline_model::entry::require_payload;
use forkline_model::{
    Entry, EntryHead, EntryId, EntryType, Json, Metadata, Millis, Seq, SessionId, TypeName,
    UsageRow, metadata::STORAGE_VERSION,
};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Row, ffi};

use crate::error::{Error, Result};

/// Where rows stand, for messages: file, session, table.
#[derive(Debug, Clone, Copy)]
pub(super) struct At<'a> {
    path: &'a Path,
    session: &'a str,
    table: &'static str,
}

impl<'a> At<'a> {
    pub(super) fn file(path: &'a Path) -> Self {
        Self { path, session: "", table: "" }
    }

    pub(super) fn table(path: &'a Path, session: &'a str, table: &'static str) -> Self {
        Self { path, session, table }
    }

    /// A failure of SQLite as an error of this crate.
    pub(super) fn failed(&self, action: &'static str, error: rusqlite::Error) -> Error {
        failed(action, self.path, error)
    }

    /// Damage in a row.
    pub(super) fn corrupt(&self, row: &str, reason: impl std::fmt::Display) -> Error {
        let row = forkline_model::address::shortened(row);
        let (session, table) = (self.session, self.table);
        Error::corrupt(self.path, format!("session {session:?}, {table} {row:?}: {reason}"))
    }

    /// The bytes of a text column.
    fn column<'r>(&self, row: &'r Row<'_>, index: usize) -> Result<ValueRef<'r>> {
        row.get_ref(index).map_err(|error| self.failed("read", error))
    }

    pub(super) fn text<'r>(
        &self,
        row: &'r Row<'_>,
        index: usize,
        what: &'static str,
    ) -> Result<&'r str> {
        match self.column(row, index)? {
            ValueRef::Text(bytes) => std::str::from_utf8(bytes)
                .map_err(|_| self.corrupt(&String::from_utf8_lossy(bytes), not_utf8(what))),
            other => Err(self.corrupt("", format!("{what} is {} and not text", other.data_type()))),
        }
    }

    pub(super) fn optional_text<'r>(
        &self,
        row: &'r Row<'_>,
        index: usize,
        what: &'static str,
    ) -> Result<Option<&'r str>> {
        match self.column(row, index)? {
            ValueRef::Null => Ok(None),
            _ => self.text(row, index, what).map(Some),
        }
    }

    /// A number from 0 to 2^53.
    pub(super) fn number(&self, row: &Row<'_>, index: usize, what: &'static str) -> Result<u64> {
        let number = match self.column(row, index)? {
            ValueRef::Integer(number) => u64::try_from(number).ok(),
            _ => None,
        };
        number
            .filter(|&number| number <= SEQ_MAX + 1)
            .ok_or_else(|| self.corrupt("", format!("{what} is no number from 0 to 2^53")))
    }

    pub(super) fn seq(&self, row: &Row<'_>, index: usize) -> Result<Seq> {
        let number = self.number(row, index, "seq")?;
        Seq::new(number).map_err(|error| self.corrupt("", error))
    }

    /// A JSON column of the row named `id`.
    pub(super) fn json(
        &self,
        row: &Row<'_>,
        index: usize,
        what: &'static str,
        id: &str,
    ) -> Result<Json> {
        let text = self.text(row, index, what)?;
        Json::parse(text).map_err(|error| self.corrupt(id, format!("{what} is {error}")))
    }

    pub(super) fn id(&self, row: &Row<'_>, index: usize, what: &'static str) -> Result<EntryId> {
        EntryId::new(self.text(row, index, what)?).map_err(|error| self.corrupt("", error))
    }

    pub(super) fn optional_id(
        &self,
        row: &Row<'_>,
        index: usize,
        what: &'static str,
    ) -> Result<Option<EntryId>> {
        let text = self.optional_text(row, index, what)?;
        text.map(EntryId::new).transpose().map_err(|error| self.corrupt("", error))
    }

    /// An entry without its payload: `id, parent_id, seq, type, custom_type, timestamp`.
    pub(super) fn head(&self, row: &Row<'_>) -> Result<EntryHead> {
        let id = self.id(row, 0, "id")?;
        let entry_type = EntryType::new(self.text(row, 3, "type")?)
            .map_err(|error| self.corrupt(id.as_str(), error))?;
        let custom_type = self
            .optional_text(row, 4, "custom_type")?
            .map(TypeName::new)
            .transpose()
            .map_err(|error| self.corrupt(id.as_str(), error))?;
        let timestamp = Millis::new(self.number(row, 5, "timestamp")?)
            .map_err(|error| self.corrupt(id.as_str(), error))?;
        Ok(EntryHead {
            parent: self.optional_id(row, 1, "parent_id")?,
            seq: self.seq(row, 2)?,
            id,
            entry_type,
            custom_type,
            timestamp,
        })
    }

    /// The columns of [`At::head`] and `payload`.
    pub(super) fn entry(&self, row: &Row<'_>) -> Result<Entry> {
        let head = self.head(row)?;
        let payload = self.json(row, 6, "payload", head.id.as_str())?;
        require_payload(&head.entry_type, &payload)
            .map_err(|error| self.corrupt(head.id.as_str(), error))?;
        let EntryHead { id, parent, entry_type, custom_type, seq, timestamp } = head;
        Ok(Entry { id, parent, entry_type, custom_type, payload, seq, timestamp })
    }

    /// A ledger row: `id, seq, entry_id, adjustment, usage, details`.
    pub(super) fn usage(&self, row: &Row<'_>) -> Result<UsageRow> {
        let id = self.id(row, 0, "id")?;
        let adjustment = match self.number(row, 3, "adjustment")? {
            0 => false,
            1 => true,
            _ => return Err(self.corrupt(id.as_str(), "adjustment is neither 0 nor 1")),
        };
        let details = match self.optional_text(row, 5, "details")? {
            Some(_) => Some(self.json(row, 5, "details", id.as_str())?),
            None => None,
        };
        Ok(UsageRow {
            seq: self.seq(row, 1)?,
            entry: self.optional_id(row, 2, "entry_id")?,
            usage: self.json(row, 4, "usage", id.as_str())?,
            adjustment,
            details,
            id,
        })
    }
}

/// Why a text that is no UTF-8 is refused.
pub(super) fn not_utf8(what: &str) -> String {
    format!("{what} is no UTF-8")
}

/// A failure of SQLite as an error of this crate.
pub(super) fn failed(action: &'static str, path: &Path, error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Error::Busy { place: path.into() }
        }
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            Error::corrupt(path, error.to_string())
        }
        Some(ErrorCode::OperationInterrupted) => Error::Cancelled,
        Some(ErrorCode::TooBig) => Error::LimitExceeded {
            what: format!("a row of {} is longer than SQLite holds", path.display()),
        },
        _ => Error::Sqlite { action, path: PathBuf::from(path), source: error },
    }
}

/// The same while a source, which is only read, goes into an anonymous database: what cannot be
/// written, is a temporary file of SQLite's.
pub(super) fn staging_failed(action: &'static str, path: &Path, error: rusqlite::Error) -> Error {
    let found = error.sqlite_error().map(|error| (error.code, error.extended_code));
    match found {
        Some(
            (ErrorCode::DiskFull, _) | (_, ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_GETTEMPPATH),
        ) => Error::Sqlite {
            action: "write a temporary database in",
            path: temporary_folder(),
            source: error,
        },
        _ => failed(action, path, error),
    }
}

/// Where SQLite has its temporary files.
fn temporary_folder() -> PathBuf {
    let named = ["SQLITE_TMPDIR", "TMPDIR"].into_iter().filter_map(std::env::var_os);
    let usual = ["/var/tmp", "/usr/tmp", "/tmp"].into_iter().map(PathBuf::from);
    let mut all = named.map(PathBuf::from).chain(usual);
    all.find(|folder| folder.is_dir()).unwrap_or_else(|| PathBuf::from("."))
}

/// The row of a session in `sessions`.
#[derive(Debug, Clone)]
pub(super) struct SessionRow {
    pub(super) metadata: Metadata,
    pub(super) next_seq: u64,
}

/// Reads the row of a session.
///
/// # Errors
/// *Unknown session*, *unsupported version*, *corrupt source*.
pub(super) fn session_row(
    conn: &Connection,
    schema: &'static str,
    path: &Path,
    session: &SessionId,
) -> Result<SessionRow> {
    let at = At::table(path, session.as_str(), "sessions");
    let sql = format!(
        "SELECT storage_version, created_at, parent_session_id, next_seq \
         FROM {schema}.sessions WHERE id = ?1"
    );
    let mut statement = conn.prepare_cached(&sql).map_err(|error| at.failed("read", error))?;
    let row = statement
        .query_row([session.as_str()], |row| Ok(read_session_row(row, &at, session)))
        .optional()
        .map_err(|error| at.failed("read", error))?;
    match row {
        Some(row) => row,
        None => Err(forkline_model::Error::UnknownSession { session: session.clone() }.into()),
    }
}

fn read_session_row(row: &Row<'_>, at: &At<'_>, session: &SessionId) -> Result<SessionRow> {
    let version = at.number(row, 0, "storage_version")?;
    if version != STORAGE_VERSION {
        return Err(Error::UnsupportedVersion {
            place: at.path.into(),
            found: format!("session {session} has storage version {version}"),
        });
    }
    let corrupt = |error: forkline_model::Error| at.corrupt(session.as_str(), error);
    let parent = at.optional_text(row, 2, "parent_session_id")?;
    let next_seq = at.number(row, 3, "next_seq")?;
    if next_seq == 0 {
        return Err(at.corrupt(session.as_str(), "next_seq is 0"));
    }
    Ok(SessionRow {
        metadata: Metadata {
            id: session.clone(),
            created_at: Millis::new(at.number(row, 1, "created_at")?).map_err(corrupt)?,
            cwd: None,
            parent_session_id: parent.map(SessionId::new).transpose().map_err(corrupt)?,
            legacy_parent_session_path: None,
        },
        next_seq,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::open::scratch;

    #[test]
    fn a_full_disk_for_temporary_files_is_not_blamed_on_the_source() {
        let conn = scratch().expect("a database");
        let full = conn.execute_batch(
            "PRAGMA main.max_page_count = 2; CREATE TABLE t (a); \
             INSERT INTO t VALUES (zeroblob(100000))",
        );
        let error = full.expect_err("two pages do not hold it");
        let error = staging_failed("copy from", Path::new("source.sqlite"), error);
        let Error::Sqlite { path, .. } = &error else { panic!("{error:?}") };
        assert!(path.is_dir(), "{path:?}");
        assert!(!error.chain().contains("source.sqlite"), "{}", error.chain());
        assert!(error.chain().contains("is full"), "{}", error.chain());

        let other = conn.execute_batch("SELECT nothing").expect_err("there is no such column");
        let other = staging_failed("copy from", Path::new("source.sqlite"), other);
        assert!(other.to_string().contains("cannot copy from source.sqlite"), "{other}");
    }
}
