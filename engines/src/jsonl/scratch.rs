//! A file of format 4 without a name, that is written from its start and then read as a source.
//!
//! It is filled by copying from another file, and a copy can fail at either end. The first
//! failure of this end is kept: it explains all that follow, and names the folder of temporary
//! files, not the source, so that who reads it makes room where there is none.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::fs::FileHandle;

/// The file while it is written.
pub(super) struct Scratch {
    folder: PathBuf,
    out: BufWriter<File>,
    failure: Option<io::Error>,
}

impl Scratch {
    /// An empty file on the file system of a folder.
    ///
    /// # Errors
    /// I/O.
    pub(super) fn new(folder: &Path) -> Result<Self> {
        let file = tempfile::tempfile_in(folder).map_err(|error| failed(folder, error))?;
        Ok(Self::of(file, folder))
    }

    fn of(file: File, folder: &Path) -> Self {
        Self { folder: folder.to_owned(), out: BufWriter::new(file), failure: None }
    }

    /// Writes the header and whatever `lines` writes behind it.
    ///
    /// # Errors
    /// Those of `lines`; I/O in the folder of this file, if that is where it failed first.
    pub(super) fn fill<T>(
        mut self,
        header: &str,
        lines: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<(T, Arc<dyn FileHandle>)> {
        let written = self.write_all(header.as_bytes());
        let written = written.map_err(|error| failed(&self.folder, error));
        let filled = written.and_then(|()| lines(&mut self)).and_then(|filled| {
            self.flush().map_err(|error| failed(&self.folder, error))?;
            Ok(filled)
        });
        // What is in the buffer after a failure is not wanted any more.
        let (file, _) = self.out.into_parts();
        match self.failure {
            Some(error) => Err(failed(&self.folder, error)),
            None => Ok((filled?, Arc::new(file))),
        }
    }

    /// Ends a line.
    ///
    /// # Errors
    /// I/O.
    pub(super) fn end_line(&mut self) -> Result<()> {
        self.write_all(b"\n").map_err(|error| failed(&self.folder, error))
    }

    fn keep(&mut self, error: io::Error) -> io::Error {
        let told = io::Error::from(error.kind());
        self.failure.get_or_insert(error);
        told
    }
}

fn failed(folder: &Path, error: io::Error) -> Error {
    Error::io("write a temporary file in", folder, error)
}

impl io::Write for Scratch {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes).map_err(|error| self.keep(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush().map_err(|error| self.keep(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_of_by_its_folder_whoever_was_copying() {
        let full = || {
            // Writes to it fail, as on a full disk.
            let file = File::options().write(true).open("/dev/full").expect("Linux has it");
            Scratch::of(file, Path::new("nowhere"))
        };
        let long = "x".repeat(1 << 20);
        let copied = full().fill("header\n", |out| {
            out.write_all(long.as_bytes()).map_err(|error| Error::io("copy", "source", error))
        });
        let flushed = full().fill("header\n", |_| Ok(()));
        for error in [copied.expect_err("it is full"), flushed.expect_err("it is full")] {
            let text = error.chain();
            assert!(text.starts_with("cannot write a temporary file in nowhere: "), "{text}");
            assert!(text.contains("os error 28"), "{text}");
        }
    }

    #[test]
    fn a_failure_of_the_source_is_its_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let scratch = Scratch::new(folder.path()).expect("a file");
        let error = scratch.fill("header\n", |_| {
            Err::<(), _>(Error::io("copy", "source", io::ErrorKind::UnexpectedEof.into()))
        });
        let text = error.expect_err("it failed").to_string();
        assert_eq!(text, "cannot copy source");
    }
}
