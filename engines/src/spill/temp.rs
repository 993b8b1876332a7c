//! An anonymous file of bytes: appended to, read and written at offsets.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::SpillError;

#[derive(Debug)]
pub(super) struct TempFile {
    dir: PathBuf,
    file: File,
    len: u64,
    has_failed: bool,
}

impl TempFile {
    /// A new file without a name on the file system of `dir`.
    pub(super) fn new(dir: &Path) -> Result<Self, SpillError> {
        let file = tempfile::tempfile_in(dir).map_err(|error| failed("create", dir, error))?;
        Ok(Self { dir: dir.to_owned(), file, len: 0, has_failed: false })
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), SpillError> {
        self.write_at(bytes, self.len)
    }

    pub(super) fn write_at(&mut self, bytes: &[u8], offset: u64) -> Result<(), SpillError> {
        if self.has_failed {
            let error = io::Error::other("an earlier write failed");
            return Err(failed("write", &self.dir, error));
        }
        self.file.write_all_at(bytes, offset).map_err(|error| {
            self.has_failed = true;
            failed("write", &self.dir, error)
        })?;
        self.len = self.len.max(offset + bytes.len() as u64);
        Ok(())
    }

    pub(super) fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<(), SpillError> {
        self.file.read_exact_at(bytes, offset).map_err(|error| failed("read", &self.dir, error))
    }
}

fn failed(action: &'static str, dir: &Path, source: io::Error) -> SpillError {
    SpillError { action, dir: dir.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_is_not_forgotten() {
        let mut temp = TempFile {
            dir: PathBuf::from("nowhere"),
            // Writes to it fail, as on a full disk.
            file: File::open("/dev/full").expect("Linux has it"),
            len: 0,
            has_failed: false,
        };
        let first = temp.append(b"x").expect_err("opened for reading");
        assert_eq!(first.to_string(), "write a temporary file in nowhere");
        temp.file = tempfile::tempfile().expect("a temporary folder");
        let second = temp.append(b"x").expect_err("failed before");
        assert_eq!(second.io_kind(), io::ErrorKind::Other);
        assert_eq!(temp.len(), 0);
    }
}
