//! A legacy file that was opened: its handle and what its header says.

use std::path::Path;
use std::sync::Arc;

use forkline_model::Metadata;

use super::super::lines::Part;
use super::header::LegacyHeader;
use crate::error::{Error, Place, Result};
use crate::fs::FileHandle;
use crate::scan::last_newline;

/// A legacy file whose header names the session that the caller asked for.
#[derive(Debug, Clone)]
pub(in super::super) struct LegacyFile {
    pub(in super::super) handle: Arc<dyn FileHandle>,
    pub(super) header: LegacyHeader,
    pub(in super::super) metadata: Metadata,
}

impl LegacyFile {
    /// Checks that the file holds the session that the caller named.
    ///
    /// # Errors
    /// *Identity mismatch*.
    pub(in super::super) fn new(
        handle: Arc<dyn FileHandle>,
        header: LegacyHeader,
        metadata: Metadata,
        named: &Metadata,
        path: &Path,
    ) -> Result<Self> {
        if metadata.id == named.id && metadata.cwd == named.cwd {
            return Ok(Self { handle, header, metadata });
        }
        let cwd = metadata.cwd.as_deref().unwrap_or_default();
        Err(Error::IdentityMismatch {
            place: Place::line(path, 1),
            expected: named.id.clone(),
            found: format!("{} of {cwd}", metadata.id.as_str()),
        })
    }

    /// The end of the whole lines among the first `len` bytes.
    pub(in super::super) fn whole_lines(&self, path: &Path, len: u64) -> Result<u64> {
        let start = self.header.end.min(len);
        let part = Part::new(&self.handle, start..len);
        let end =
            last_newline(part, len - start).map_err(|error| Error::io("read", path, error))?;
        Ok(start + end)
    }
}
