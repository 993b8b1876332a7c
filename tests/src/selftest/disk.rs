//! Bugs that show in files: how a source's is read, what becomes of a destination's.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use forkline_model::{Metadata, SessionId};
use rusqlite::{Connection, Params};
use serde_json::value::RawValue;

/// The text of a file whose last line is torn, and where that line starts.
fn torn(path: &Path) -> io::Result<Option<(Vec<u8>, usize)>> {
    let text = fs::read(path)?;
    let end = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    Ok((end < text.len()).then_some((text, end)))
}

/// A torn line that is JSON nevertheless gets its line break.
pub(super) fn tail_that_parses(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let Some((mut text, start)) = torn(path)? else { return Ok(None) };
    let tail = text.get(start..).unwrap_or_default();
    let parses = serde_json::from_slice::<&RawValue>(tail).is_ok();
    text.push(b'\n');
    Ok(parses.then_some(text))
}

/// The writes of a torn commit that are whole.
pub(super) fn half_a_tail(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let Some((mut text, start)) = torn(path)? else { return Ok(None) };
    let tail = text.get(start..).unwrap_or_default();
    let Some(inside) = tail.strip_prefix(b"[") else { return Ok(None) };
    let mut writes = serde_json::Deserializer::from_slice(inside).into_iter::<&RawValue>();
    let Some(Ok(first)) = writes.next() else { return Ok(None) };
    let line = format!("{}\n", first.get());
    text.truncate(start);
    text.extend(line.into_bytes());
    Ok(Some(text))
}

/// Cuts the torn line off where it stands.
pub(super) fn cut_the_tail(path: &Path) -> io::Result<Option<Vec<u8>>> {
    if let Some((_, start)) = torn(path)? {
        let len = u64::try_from(start).map_err(io::Error::other)?;
        fs::OpenOptions::new().write(true).open(path)?.set_len(len)?;
    }
    Ok(None)
}

pub(super) fn leave_a_file(path: &Path, _metadata: &Metadata) -> io::Result<()> {
    fs::write(path.with_extension("left-behind"), "{}")
}

/// Runs one statement on a published container.
fn execute(path: &Path, sql: &str, params: impl Params) -> io::Result<()> {
    let conn = Connection::open(path).map_err(io::Error::other)?;
    conn.busy_timeout(Duration::from_secs(5)).map_err(io::Error::other)?;
    conn.execute(sql, params).map_err(io::Error::other)?;
    Ok(())
}

/// Ledger and its sum come along, where the source stands in the same container.
pub(super) fn copy_the_ledger(path: &Path, metadata: &Metadata) -> io::Result<()> {
    let source = metadata.parent_session_id.as_ref().map_or("", SessionId::as_str);
    let both = (metadata.id.as_str(), source);
    execute(
        path,
        "INSERT INTO usage_ledger (session_id, id, seq, entry_id, adjustment, usage, details) \
         SELECT ?1, id, seq, entry_id, adjustment, usage, details FROM usage_ledger \
         WHERE session_id = ?2",
        both,
    )?;
    execute(
        path,
        "UPDATE sessions SET usage_payload = \
         coalesce((SELECT usage_payload FROM sessions WHERE id = ?2), usage_payload) \
         WHERE id = ?1",
        both,
    )
}

pub(super) fn count_all_entries(path: &Path, metadata: &Metadata) -> io::Result<()> {
    execute(
        path,
        "UPDATE sessions SET message_count = \
         (SELECT count(*) FROM entries WHERE session_id = ?1) WHERE id = ?1",
        [metadata.id.as_str()],
    )
}

/// A segment that starts beside another one has no copies of the path that it shares with it.
pub(super) fn no_shared_path(path: &Path, metadata: &Metadata) -> io::Result<()> {
    execute(
        path,
        "DELETE FROM branch_entries WHERE session_id = ?1 AND entry_seq < \
         (SELECT seq FROM entries WHERE session_id = ?1 AND id = branch_id)",
        [metadata.id.as_str()],
    )
}

/// `%` and `_` are escaped, but `LIKE` is not told by what.
pub(super) fn like_without_escape(path: &Path, metadata: &Metadata) -> io::Result<()> {
    for table in ["scalar_values", "list_values"] {
        let sql = format!(
            "DELETE FROM {table} WHERE session_id = ?1 AND namespace NOT LIKE \
             replace(replace(namespace, '%', '\\%'), '_', '\\_')"
        );
        execute(path, &sql, [metadata.id.as_str()])?;
    }
    Ok(())
}
