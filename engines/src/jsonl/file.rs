//! A session file that was opened and looked at: where its header ends, what it says, and how
//! far its whole lines go.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use forkline_model::Metadata;

use super::header::{self, FirstLine, Header};
use super::legacy::LegacyFile;
use super::lines::Part;
use crate::error::{Error, Result};
use crate::fs::{FileHandle, FileSystem};
use crate::scan::last_newline;

/// A file whose header names the session that the caller asked for.
#[derive(Debug)]
pub(super) struct SessionFile {
    pub(super) handle: Arc<dyn FileHandle>,
    pub(super) header: Header,
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Append,
}

/// What a file is.
#[derive(Debug)]
pub(super) enum Stored {
    Current(SessionFile),
    Legacy(LegacyFile),
}

impl Stored {
    /// Opens the file of a session.
    ///
    /// # Errors
    /// *Unknown session*, *corrupt source*, *unsupported version*, *identity mismatch*, I/O.
    pub(super) fn open(
        fs: &dyn FileSystem,
        path: &Path,
        named: &Metadata,
        access: Access,
    ) -> Result<Self> {
        let opened = match access {
            Access::Read => fs.open_read(path),
            Access::Append => fs.open_append(path),
        };
        let handle = opened.map_err(|error| match error.kind() {
            ErrorKind::NotFound => unknown(named),
            _ => Error::io("open", path, error),
        })?;
        match header::read(&*handle, path)? {
            FirstLine::Current(header) => {
                header.require_supported(path)?;
                header.require_identity(named, path)?;
                Ok(Self::Current(SessionFile { handle, header }))
            }
            FirstLine::Legacy(header) => {
                let metadata = header.metadata(fs, path);
                LegacyFile::new(handle, header, metadata, named, path).map(Self::Legacy)
            }
        }
    }
}

impl SessionFile {
    /// Opens the file of a session that was of format 4 before.
    ///
    /// # Errors
    /// Those of [`Stored::open`]; *corrupt source* for a legacy file.
    pub(super) fn open(
        fs: &dyn FileSystem,
        path: &Path,
        named: &Metadata,
        access: Access,
    ) -> Result<Self> {
        match Stored::open(fs, path, named, access)? {
            Stored::Current(file) => Ok(file),
            Stored::Legacy(_) => Err(Error::corrupt(path, "a legacy file stands in its place")),
        }
    }

    /// The end of the whole lines among the first `len` bytes.
    pub(super) fn whole_lines(&self, path: &Path, len: u64) -> Result<u64> {
        // The header is a whole line: nothing before its end is looked at.
        let start = self.header.end.min(len);
        let part = Part::new(&self.handle, start..len);
        let end =
            last_newline(part, len - start).map_err(|error| Error::io("read", path, error))?;
        Ok(start + end)
    }
}

fn unknown(named: &Metadata) -> Error {
    forkline_model::Error::UnknownSession { session: named.id.clone() }.into()
}
