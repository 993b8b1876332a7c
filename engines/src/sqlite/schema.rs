//! The schema of a container, storage version 1 (formats §3).
//!
//! Names, columns, keys, indexes and triggers are those of existing files: a database made here
//! is opened by existing readers, and the other way round. What is compared is the token text of
//! each object's definition, so that layout does not matter.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{LazyLock, OnceLock};

use rusqlite::Connection;

use super::rows::At;
use crate::error::{Error, Result};

/// Every object: kind, name, and what stands behind `CREATE {kind} [{schema}.]{name}`.
const OBJECTS: [(&str, &str, &str); 16] = [
    (
        "TABLE",
        "sessions",
        "(id TEXT PRIMARY KEY, created_at INTEGER NOT NULL, parent_session_id TEXT, \
         storage_version INTEGER NOT NULL, metadata TEXT, message_count INTEGER NOT NULL, \
         usage_payload TEXT NOT NULL, next_seq INTEGER NOT NULL) WITHOUT ROWID",
    ),
    (
        "TABLE",
        "entries",
        "(session_id TEXT NOT NULL, id TEXT NOT NULL, parent_id TEXT, seq INTEGER NOT NULL, \
         type TEXT NOT NULL, custom_type TEXT, timestamp INTEGER NOT NULL, \
         payload TEXT NOT NULL, PRIMARY KEY (session_id, id)) WITHOUT ROWID",
    ),
    ("INDEX", "ix_entry_parent", "ON entries(session_id, parent_id)"),
    ("INDEX", "ix_entry_seq", "ON entries(session_id, seq, type)"),
    (
        "TABLE",
        "scalar_values",
        "(session_id TEXT NOT NULL, namespace TEXT NOT NULL, key TEXT NOT NULL, \
         seq INTEGER NOT NULL, value TEXT NOT NULL, \
         PRIMARY KEY (session_id, namespace, key)) WITHOUT ROWID",
    ),
    (
        "TABLE",
        "list_values",
        "(session_id TEXT NOT NULL, namespace TEXT NOT NULL, key TEXT NOT NULL, \
         seq INTEGER NOT NULL, value TEXT NOT NULL, \
         PRIMARY KEY (session_id, namespace, key, seq)) WITHOUT ROWID",
    ),
    (
        "TABLE",
        "usage_ledger",
        "(session_id TEXT NOT NULL, id TEXT NOT NULL, seq INTEGER NOT NULL, entry_id TEXT, \
         adjustment INTEGER NOT NULL, usage TEXT NOT NULL, details TEXT, \
         PRIMARY KEY (session_id, id)) WITHOUT ROWID",
    ),
    ("INDEX", "ix_usage_seq", "ON usage_ledger(session_id, seq)"),
    (
        "TRIGGER",
        "trg_entries_validate",
        "BEFORE INSERT ON entries BEGIN \
         SELECT RAISE(ABORT, 'missing parent entry') WHERE NEW.parent_id IS NOT NULL \
         AND NOT EXISTS (SELECT 1 FROM entries \
         WHERE session_id = NEW.session_id AND id = NEW.parent_id); \
         SELECT RAISE(ABORT, 'duplicate entry or usage id') WHERE EXISTS (SELECT 1 \
         FROM usage_ledger WHERE session_id = NEW.session_id AND id = NEW.id); END",
    ),
    (
        "TRIGGER",
        "trg_usage_ledger_validate",
        "BEFORE INSERT ON usage_ledger BEGIN \
         SELECT RAISE(ABORT, 'duplicate entry or usage id') WHERE EXISTS (SELECT 1 \
         FROM entries WHERE session_id = NEW.session_id AND id = NEW.id); END",
    ),
    (
        "TABLE",
        "branch_entries",
        "(session_id TEXT NOT NULL, branch_id TEXT NOT NULL, entry_id TEXT NOT NULL, \
         entry_seq INTEGER NOT NULL, entry_type TEXT NOT NULL, \
         PRIMARY KEY (session_id, branch_id, entry_id)) WITHOUT ROWID",
    ),
    (
        "INDEX",
        "ix_be_seq",
        "ON branch_entries(session_id, branch_id, entry_seq, entry_id, entry_type)",
    ),
    (
        "INDEX",
        "ix_be_type",
        "ON branch_entries(session_id, branch_id, entry_type, entry_seq, entry_id)",
    ),
    ("INDEX", "ix_be_entry", "ON branch_entries(session_id, entry_id)"),
    (
        "TABLE",
        "branch_meta",
        "(session_id TEXT NOT NULL, branch_id TEXT NOT NULL, tip_entry_id TEXT NOT NULL, \
         tip_seq INTEGER NOT NULL, base_branch_id TEXT, base_seq INTEGER, \
         PRIMARY KEY (session_id, branch_id)) WITHOUT ROWID",
    ),
    ("UNIQUE INDEX", "ix_bm_tip", "ON branch_meta(session_id, tip_entry_id)"),
];

/// The tables whose rows belong to sessions, `sessions` last.
pub(super) const SESSION_TABLES: [(&str, &str); 7] = [
    ("branch_entries", "session_id"),
    ("branch_meta", "session_id"),
    ("usage_ledger", "session_id"),
    ("list_values", "session_id"),
    ("scalar_values", "session_id"),
    ("entries", "session_id"),
    ("sessions", "id"),
];

/// Makes the tables in an empty database, which are to be filled before [`complete`]. `schema`
/// is a name of this crate's.
pub(super) fn create_tables(conn: &Connection, schema: &'static str) -> rusqlite::Result<()> {
    create(conn, schema, &|kind| kind == "TABLE")
}

/// Makes the indexes and triggers. An index that is built of sorted rows is written once from
/// front to back; one that grows row by row is written wherever a row falls.
pub(super) fn complete(conn: &Connection, schema: &'static str) -> rusqlite::Result<()> {
    create(conn, schema, &|kind| kind != "TABLE")
}

/// The file of a container without sessions, made once: for what holds few rows, taking it is
/// faster than the statements that make it, and the rows fall into its indexes as they come.
///
/// # Errors
/// Out of memory.
pub(super) fn empty_file() -> rusqlite::Result<&'static [u8]> {
    static FILE: OnceLock<Vec<u8>> = OnceLock::new();
    if let Some(file) = FILE.get() {
        return Ok(file);
    }
    let mut conn = Connection::open_in_memory()?;
    create(&conn, "main", &|_| true)?;
    let file = conn.serialize("main")?.to_vec();
    Ok(FILE.get_or_init(|| file))
}

fn create(
    conn: &Connection,
    schema: &'static str,
    is_wanted: &dyn Fn(&str) -> bool,
) -> rusqlite::Result<()> {
    let prefix = format!("{schema}.");
    OBJECTS
        .iter()
        .filter(|object| is_wanted(object.0))
        .try_for_each(|object| conn.execute_batch(&definition(&prefix, object)))
}

/// Makes the branch index alone.
pub(super) fn create_branch_index(conn: &Connection) -> rusqlite::Result<()> {
    let of_index = |name: &str| {
        name.starts_with("branch_") || name.starts_with("ix_be_") || name.starts_with("ix_bm_")
    };
    OBJECTS
        .iter()
        .filter(|(_, name, _)| of_index(name))
        .try_for_each(|object| conn.execute_batch(&definition("main.", object)))
}

fn definition(prefix: &str, (kind, name, rest): &(&str, &str, &str)) -> String {
    format!("CREATE {kind} {prefix}{name} {rest}")
}

/// An object as a container has it.
struct Wanted {
    name: &'static str,
    /// As SQLite keeps what was made here.
    exact: String,
    canonical: String,
}

impl Wanted {
    /// Whether that text defines the object. Most files were made here: of them nothing is taken
    /// apart.
    fn is(&self, sql: &str) -> bool {
        sql == self.exact || canonical(sql) == self.canonical
    }
}

/// All objects, taken apart once.
static WANTED: LazyLock<Vec<Wanted>> = LazyLock::new(|| {
    let wanted = |object: &(&str, &'static str, &str)| {
        let exact = definition("", object);
        Wanted { name: object.1, canonical: canonical(&exact), exact }
    };
    OBJECTS.iter().map(wanted).collect()
});

/// Checks that a database is a container of storage version 1, and nothing that acts on rows by
/// itself stands beside it. Further tables and indexes are no harm.
///
/// # Errors
/// *Corrupt source* naming the object.
pub(super) fn check(conn: &Connection, schema: &'static str, path: &Path) -> Result<()> {
    let at = At::file(path);
    let corrupt = |reason: String| Error::corrupt(path, reason);
    let mut wanted: BTreeMap<&str, &Wanted> =
        WANTED.iter().map(|wanted| (wanted.name, wanted)).collect();
    let sql = format!("SELECT type, name, sql FROM {schema}.sqlite_schema");
    let mut statement = conn.prepare(&sql).map_err(|error| at.failed("read", error))?;
    let mut rows = statement.query([]).map_err(|error| at.failed("read", error))?;
    while let Some(row) = rows.next().map_err(|error| at.failed("read", error))? {
        let (kind, name) = (at.text(row, 0, "type")?, at.text(row, 1, "name")?);
        match wanted.remove(name) {
            Some(wanted) if wanted.is(at.text(row, 2, "sql")?) => {}
            Some(_) => {
                return Err(corrupt(format!("its {kind} {name:?} is not the one of sessions")));
            }
            None if kind == "trigger" || kind == "view" => {
                return Err(corrupt(format!("it has an unknown {kind} {name:?}")));
            }
            None => {}
        }
    }
    match wanted.keys().next() {
        Some(missing) => Err(corrupt(format!("it is no session container: no {missing}"))),
        None => Ok(()),
    }
}

/// The tokens of a definition without layout, in lower case.
fn canonical(sql: &str) -> String {
    let mut text = String::with_capacity(sql.len());
    let mut space = false;
    for c in sql.chars().filter(|&c| c != '"').map(|c| c.to_ascii_lowercase()) {
        if c.is_ascii_whitespace() {
            space = true;
            continue;
        }
        let word = |c: char| c.is_alphanumeric() || c == '_' || c == '\'';
        if space && word(c) && text.chars().next_back().is_some_and(word) {
            text.push(' ');
        }
        space = false;
        text.push(c);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rusqlite::Connection;

    use super::{WANTED, check, complete, create_tables};

    #[test]
    fn what_is_made_here_is_known_to_the_letter_and_other_layout_is_taken() {
        let conn = Connection::open_in_memory().expect("a database");
        create_tables(&conn, "main").expect("tables");
        assert!(check(&conn, "main", Path::new("x")).is_err());
        complete(&conn, "main").expect("a container");
        check(&conn, "main", Path::new("x")).expect("a container");
        for wanted in WANTED.iter() {
            let kept: String = conn
                .query_row("SELECT sql FROM sqlite_schema WHERE name = ?1", [wanted.name], |row| {
                    row.get(0)
                })
                .expect("an object");
            assert_eq!(kept, wanted.exact);
            assert!(wanted.is(&kept.to_lowercase().replace(',', " ,\n")));
            assert!(!wanted.is(&format!("{kept}x")));
        }
    }
}
