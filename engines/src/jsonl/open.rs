//! Opening a session file for use: its structure comes into memory, payloads stay in the file.

use std::path::Path;
use std::sync::Arc;

use forkline_model::{Address, EntryHead, EntryId, EntryType, Json, StoreKind, TypeName, Usage};

use super::file::SessionFile;
use super::lines::{self, Line, What};
use super::storage::Span;
use super::temp::Temp;
use crate::context::{Context, Progress};
use crate::error::{Error, Place, Result};
use crate::fs::{FileHandle, FileSystem, append_all, read_full};
use crate::resident::Resident;

/// The structure of a session whose payloads are in a file.
pub(super) type Structure = Resident<Span, Span>;

/// How many writes are read between two looks at the context.
const WRITES_PER_CHECK: u64 = 1024;

/// What is copied at once when a torn tail is cut off.
const COPY_BYTES: usize = 256 * 1024;

/// A session file that is ready for commits.
pub(super) struct Opened {
    pub(super) handle: Arc<dyn FileHandle>,
    pub(super) structure: Structure,
    /// Length of the file, all of it whole lines.
    pub(super) len: u64,
}

/// Reads the structure of a session file and cuts off a torn tail.
///
/// # Errors
/// *Corrupt source*, *cancelled*, I/O.
pub(super) fn open(
    fs: &Arc<dyn FileSystem>,
    file: SessionFile,
    path: &Path,
    cx: &Context,
) -> Result<Opened> {
    let found = file.handle.stat().map_err(|error| Error::io("read the length of", path, error))?;
    let len = file.whole_lines(path, found.len)?;
    let structure = read_structure(&file, path, len, cx)?;
    let mut handle = file.handle;
    if len < found.len {
        handle = cut(fs, &handle, path, len)?;
    }
    Ok(Opened { handle, structure, len })
}

/// Reads the structure of the first `len` bytes, all whole lines.
pub(super) fn read_structure(
    file: &SessionFile,
    path: &Path,
    len: u64,
    cx: &Context,
) -> Result<Structure> {
    let mut structure = Structure::new(1);
    let mut count = 0;
    lines::for_each(&file.handle, path, file.header.end..len, &mut |line| {
        if count % WRITES_PER_CHECK == 0 {
            let bytes_done = line.span.start;
            cx.progress(Progress { bytes_done, bytes_total: len, rows_done: count })?;
        }
        count += 1;
        let number = line.number;
        take(&mut structure, &*file.handle, path, line).map_err(|error| match error {
            Error::Model(error) => Error::corrupt(Place::line(path, number), error.to_string()),
            other => other,
        })
    })?;
    if let Some(next_seq) = file.header.next_seq {
        structure.raise_next_seq(next_seq);
    }
    Ok(structure)
}

/// Puts one write into the structure. A model error is damage in its line.
fn take(
    structure: &mut Structure,
    file: &dyn FileHandle,
    path: &Path,
    line: Line<'_>,
) -> Result<()> {
    let Line { span, seq, what, .. } = line;
    structure.advance(seq)?;
    match what {
        What::Entry { id, parent, entry_type, custom_type, timestamp } => {
            let head = EntryHead {
                id: EntryId::new(id)?,
                parent: parent.map(EntryId::new).transpose()?,
                entry_type: EntryType::new(entry_type)?,
                custom_type: custom_type.map(TypeName::new).transpose()?,
                seq,
                timestamp,
            };
            structure.insert_entry(head, Span::from(span))?;
        }
        What::Usage { id, usage } => {
            let usage = Usage::parse(&read_json(file, path, Span::from(usage))?)?;
            structure.insert_usage(&EntryId::new(id)?, seq, &usage, Span::from(span))?;
        }
        What::Store { kind, namespace, key, value } => {
            let address = Address::new(namespace, key)?;
            let value = value.map(|value| Span::from(value.span));
            match (kind, value) {
                (StoreKind::Value, Some(value)) => structure.set_value(address, seq, value),
                (StoreKind::Value, None) => structure.delete_value(&address),
                (StoreKind::List, Some(value)) => structure.append_element(address, seq, value),
                (StoreKind::List, None) => structure.delete_list(&address),
            }
        }
    }
    Ok(())
}

/// The text of some bytes of a file that were found to be JSON.
pub(super) fn read_text(file: &dyn FileHandle, path: &Path, span: Span) -> Result<String> {
    let changed = || Error::corrupt(path, format!("the bytes at {} have changed", span.offset));
    let mut bytes = vec![0; usize::try_from(span.len).map_err(|_| changed())?];
    let count =
        read_full(file, &mut bytes, span.offset).map_err(|error| Error::io("read", path, error))?;
    if count < bytes.len() {
        return Err(changed());
    }
    String::from_utf8(bytes).map_err(|_| changed())
}

/// The JSON value at some bytes of a file.
pub(super) fn read_json(file: &dyn FileHandle, path: &Path, span: Span) -> Result<Json> {
    let text = read_text(file, path, span)?;
    Json::parse(&text).map_err(|error| {
        Error::corrupt(path, format!("the bytes at {} have changed: {error}", span.offset))
    })
}

/// Replaces a file by its first `len` bytes, in one step: a reader of the old file keeps it.
fn cut(
    fs: &Arc<dyn FileSystem>,
    old: &Arc<dyn FileHandle>,
    path: &Path,
    len: u64,
) -> Result<Arc<dyn FileHandle>> {
    let failed = |error| Error::io("cut the torn tail off", path, error);
    let folder = path.parent().unwrap_or(Path::new("."));
    let before = old.stat().map_err(failed)?;
    let temp = Temp::new(fs, folder).map_err(failed)?;
    temp.file().set_mode(old.mode().map_err(failed)?).map_err(failed)?;
    let mut buffer = vec![0; COPY_BYTES];
    let mut offset = 0;
    while offset < len {
        let wanted = usize::try_from(len - offset).map_or(COPY_BYTES, |left| left.min(COPY_BYTES));
        let piece = buffer.get_mut(..wanted).unwrap_or_default();
        let count = read_full(&**old, piece, offset).map_err(failed)?;
        if count < wanted {
            return Err(failed(std::io::ErrorKind::UnexpectedEof.into()));
        }
        append_all(&**temp.file(), piece).map_err(failed)?;
        offset += wanted as u64;
    }
    temp.file().sync().map_err(failed)?;
    // Somebody may write to the file at this very moment: what they wrote is not thrown away.
    if fs.stat(path).map_err(failed)? != before {
        return Err(failed(std::io::Error::other("it is being written to by another process")));
    }
    temp.publish_over(path).map_err(failed)?;
    // Until the folder is synced a power loss may bring the torn tail back: it is cut again then.
    fs.open_append(path).map_err(|error| Error::io("open", path, error))
}
