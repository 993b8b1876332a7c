//! The destination of a fork: a temporary file beside its later name, published in one step
//! (DESIGN.md, "The publish protocol").

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forkline_model::{Entry, EntryHead, Metadata, Millis, Write};

use super::commit::one_line;
use super::folder::NewFolders;
use super::header;
use super::layout;
use super::repo::require_id_free;
use super::temp::Temp;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::fork::{Copied, Destination, Plan, Row, Source};
use crate::fs::{FileHandle, FileSystem, append_all};
use crate::repo::{Location, SessionRef};

/// What is written at once.
const BUFFER_BYTES: usize = 256 * 1024;

/// Whether a published file is synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    /// It survives the end of the process.
    Process,
    /// It survives a power loss.
    Power,
}

/// A session file that nobody sees yet.
pub(super) struct JsonlDestination {
    fs: Arc<dyn FileSystem>,
    metadata: Metadata,
    cwd: String,
    place: layout::Place,
    durability: Durability,
    // Dropped in this order: the folder is empty again when the temporary file is gone.
    temp: Temp,
    folders: NewFolders,
    len: u64,
}

impl JsonlDestination {
    /// Makes the folder, if it is not there, and the temporary file.
    ///
    /// # Errors
    /// *Not committed*.
    pub(super) fn new(
        fs: &Arc<dyn FileSystem>,
        root: &Path,
        metadata: &Metadata,
        cwd: &str,
        durability: Durability,
    ) -> Result<Self> {
        let place = layout::place(root, metadata, cwd)?;
        let failed =
            |action, path: &Path, error| not_committed(&place.file, Error::io(action, path, error));
        let folders = NewFolders::make(fs, &place.folder)
            .map_err(|error| failed("make the folder", &place.folder, error))?;
        let temp = Temp::new(fs, &place.folder)
            .map_err(|error| failed("make a temporary file in", &place.folder, error))?;
        let (fs, metadata, cwd) = (fs.clone(), metadata.clone(), cwd.to_owned());
        Ok(Self { fs, metadata, cwd, place, durability, temp, folders, len: 0 })
    }

    /// Writes the header and whatever `rows` writes behind it.
    pub(super) fn write<T>(
        &mut self,
        next_seq: Option<u64>,
        rows: impl FnOnce(&mut Output) -> Result<T>,
    ) -> Result<T> {
        let mut output = Output::new(&self.temp);
        let header = header::render(&self.metadata, &self.cwd, next_seq);
        let written = output.write_all(header.as_bytes());
        let result = written
            .map_err(|error| Error::io("write", self.temp.path(), error))
            .and_then(|()| rows(&mut output))
            .and_then(|result| match output.flush() {
                Ok(()) => Ok(result),
                Err(error) => Err(Error::io("write", self.temp.path(), error)),
            });
        self.len = output.written;
        match output.failure {
            Some(error) => {
                let error = Error::io("write", self.temp.path(), error);
                Err(not_committed(&self.place.file, error))
            }
            None => result,
        }
    }

    /// Makes the file visible.
    ///
    /// # Errors
    /// *Not committed*, *session exists*, *durability uncertain*.
    pub(super) fn finish(self) -> Result<SessionRef> {
        let Self { fs, metadata, place, durability, temp, mut folders, len, .. } = self;
        let failed =
            |action, error| not_committed(&place.file, Error::io(action, temp.path(), error));
        let file = temp.file();
        if durability == Durability::Power {
            file.sync().map_err(|error| failed("sync", error))?;
        }
        let found = file.stat().map_err(|error| failed("look at", error))?.len;
        if found != len {
            let reason = format!("it has {found} bytes, but {len} were written");
            return Err(failed("check", io::Error::other(reason)));
        }
        // Another process may have taken the id since it was found free.
        require_id_free(&*fs, &place.folder, &metadata.id)?;
        temp.publish_new(&place.file).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                forkline_model::Error::SessionExists { session: metadata.id.clone() }.into()
            }
            _ => not_committed(&place.file, Error::io("name", &place.file, error)),
        })?;
        folders.keep();
        if durability == Durability::Power {
            folders.sync(&*fs, &place.folder).map_err(|(folder, error)| {
                let source = Box::new(Error::io("sync the folder", folder, error));
                Error::DurabilityUncertain { path: place.file.clone(), source }
            })?;
        }
        Ok(SessionRef { metadata, location: Location::File(place.file) })
    }
}

fn not_committed(path: &Path, source: Error) -> Error {
    Error::NotCommitted { path: PathBuf::from(path), source: Box::new(source) }
}

impl Destination for JsonlDestination {
    fn fill(&mut self, source: &mut dyn Source, plan: Plan, cx: &Context) -> Result<Copied> {
        self.write(Some(plan.next_seq), |output| {
            if let Some(copied) = source.copy_lines(output, cx) {
                return copied;
            }
            let mut copied = Copied::default();
            source.stream(
                &mut |row| {
                    copied.count(&row);
                    write_row(row, output)
                },
                cx,
            )?;
            Ok(copied)
        })
    }

    fn publish(self: Box<Self>, _cx: &Context) -> Result<SessionRef> {
        self.finish()
    }
}

/// Writes one row as a line: the source's own bytes where it has them.
fn write_row(mut row: Row<'_>, output: &mut Output) -> Result<()> {
    let copied = match &mut row {
        Row::Entry { body, .. } | Row::Value { body, .. } | Row::Element { body, .. } => {
            body.copy_jsonl(output)
        }
    };
    if let Some(copied) = copied {
        return output.end_line(copied.map(|_| ()));
    }
    let object = match row {
        Row::Entry { head, body } => {
            let EntryHead { id, parent, entry_type, custom_type, seq, timestamp } = head.clone();
            let payload = body.json()?;
            Entry { id, parent, entry_type, custom_type, payload, seq, timestamp }.to_jsonl()
        }
        Row::Value { address, seq, body } => {
            let write = Write::SetValue { address: address.clone(), value: body.json()? };
            write.to_jsonl(seq, Millis::EPOCH)
        }
        Row::Element { address, seq, body } => {
            let write = Write::AppendElement { address: address.clone(), value: body.json()? };
            write.to_jsonl(seq, Millis::EPOCH)
        }
    };
    output.line(object)
}

/// A file that is written from its start, through one buffer.
pub(super) struct Output {
    file: Arc<dyn FileHandle>,
    path: PathBuf,
    buffer: Vec<u8>,
    written: u64,
    /// The first failure: it explains all that follow.
    failure: Option<io::Error>,
}

impl Output {
    fn new(temp: &Temp) -> Self {
        let (file, path) = (temp.file().clone(), temp.path().to_owned());
        let buffer = Vec::with_capacity(BUFFER_BYTES);
        Self { file, path, buffer, written: 0, failure: None }
    }

    fn line(&mut self, object: String) -> Result<()> {
        let written = self.write_all(one_line(object).as_bytes());
        self.end_line(written.map_err(|error| Error::io("write", &self.path, error)))
    }

    fn end_line(&mut self, line: Result<()>) -> Result<()> {
        line?;
        self.write_all(b"\n").map_err(|error| Error::io("write", &self.path, error))
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.failure.is_some() {
            return Err(io::Error::other("an earlier write failed"));
        }
        match append_all(&*self.file, bytes) {
            Ok(()) => {
                self.written += bytes.len() as u64;
                Ok(())
            }
            Err(error) => {
                let told = io::Error::from(error.kind());
                self.failure = Some(error);
                Err(told)
            }
        }
    }
}

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.flush()?;
        }
        if bytes.len() >= BUFFER_BYTES {
            self.append(bytes)?;
        } else {
            self.buffer.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let buffer = std::mem::take(&mut self.buffer);
        let flushed = self.append(&buffer);
        self.buffer = buffer;
        self.buffer.clear();
        flushed
    }
}
