//! Writes pieces: text as it is, spans and retained tails from the file, in bounded memory.

use std::io;
use std::path::PathBuf;

use forkline_model::json::quoted;
use forkline_model::{Address, EntryHead, EntryType, Json, Seq};

use super::super::index::spill_error;
use super::super::storage::Span;
use super::super::window::Window;
use super::content::{self, Bytes, Piece, Pieces};
use super::resolve::Tree;
use crate::error::{Error, Result};
use crate::fork::Body;
use crate::fs::{FileHandle, read_full};
use crate::spill::Tape;

/// RAM for the path of one retained tail, in bytes.
const TAIL_BUDGET: usize = 256 * 1024;

/// Bytes that are read at once where they stand alone.
const PIECE_BYTES: u64 = 64 * 1024;

/// How spans are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// With what stands behind them: rows go forward through the file.
    Ahead,
    /// Just them: labels stand in the order of first labelling, their last texts anywhere.
    Here,
}

/// What it takes to write pieces.
pub(super) struct Writer {
    pub(super) bytes: Bytes,
    pub(super) tree: Tree,
    /// What is read for rows, which go forward through the file.
    rows: Window,
    /// What is read for tails, which go back and forth.
    tails: Window,
    scratch: PathBuf,
}

impl Writer {
    pub(super) fn new(bytes: Bytes, tree: Tree) -> Self {
        let (rows, tails) = (Window::new(bytes.file.clone()), Window::new(bytes.file.clone()));
        let scratch = tree.scratch.clone();
        Self { bytes, tree, rows, tails, scratch }
    }

    /// Writes pieces one after the other.
    fn write(&mut self, pieces: &Pieces, out: &mut dyn io::Write, reads: Reads) -> Result<()> {
        for piece in &pieces.0 {
            match piece {
                Piece::Text(text) => {
                    out.write_all(text.as_bytes()).map_err(|error| self.failed(error))?;
                }
                Piece::Span(span) => match reads {
                    Reads::Ahead => self.rows.copy(*span, out),
                    Reads::Here => copy_here(&*self.bytes.file, *span, out),
                }
                .map_err(|error| self.failed(error))?,
                Piece::Tail(record) => self.tail(*record, out)?,
            }
        }
        Ok(())
    }

    /// Writes the messages of a retained tail. Only their places are held, and those on a tape.
    fn tail(&mut self, compaction: u32, out: &mut dyn io::Write) -> Result<()> {
        let row = self.tree.row(compaction)?;
        let Some(first) = row.reference.index().filter(|&first| first != compaction) else {
            return Ok(());
        };
        let scratch = self.scratch.clone();
        let failed = |error| spill_error(&scratch, error);
        let mut path = Tape::<4>::new(&scratch, TAIL_BUDGET);
        let mut next = row.parent.index();
        while let Some(index) = next {
            path.push(index.to_be_bytes()).map_err(failed)?;
            next = if index == first { None } else { self.tree.row(index)?.parent.index() };
        }
        let mut is_first = true;
        for index in path.backward() {
            let row = self.tree.row(u32::from_be_bytes(index.map_err(failed)?))?;
            let message = content::tail_message(&self.bytes, &mut self.tree, &row)?;
            let Some(message) = message else { continue };
            if !std::mem::take(&mut is_first) {
                out.write_all(b",").map_err(|error| self.failed(error))?;
            }
            for piece in &message.0 {
                let written = match piece {
                    Piece::Text(text) => out.write_all(text.as_bytes()),
                    Piece::Span(span) => self.tails.copy(*span, out),
                    Piece::Tail(_) => unreachable!("a message holds no tail"),
                };
                written.map_err(|error| self.failed(error))?;
            }
        }
        Ok(())
    }

    fn failed(&self, error: io::Error) -> Error {
        Error::io("copy", self.bytes.path(), error)
    }

    /// Pieces as one JSON value in memory.
    fn json(&mut self, pieces: &Pieces, reads: Reads) -> Result<Json> {
        let mut text = Vec::new();
        self.write(pieces, &mut text, reads)?;
        let text = String::from_utf8(text)
            .map_err(|_| Error::corrupt(self.bytes.path(), "it changed while it was read"))?;
        Json::parse(&text).map_err(|error| {
            Error::corrupt(self.bytes.path(), format!("it changed while it was read: {error}"))
        })
    }

    /// Writes an object and tells its length.
    fn object(&mut self, parts: &[&Pieces], out: &mut dyn io::Write, reads: Reads) -> Result<u64> {
        let mut counted = Counted { out, bytes: 0 };
        for part in parts {
            self.write(part, &mut counted, reads)?;
        }
        Ok(counted.bytes)
    }
}

/// Copies a span without a look at what stands around it.
fn copy_here(file: &dyn FileHandle, span: Span, out: &mut dyn io::Write) -> io::Result<()> {
    let Span { mut offset, mut len } = span;
    let mut buffer = Vec::new();
    while len > 0 {
        buffer.resize(usize::try_from(len.min(PIECE_BYTES)).unwrap_or_default(), 0);
        let count = read_full(file, &mut buffer, offset)?;
        if count < buffer.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        out.write_all(&buffer)?;
        offset += count as u64;
        len -= count as u64;
    }
    Ok(())
}

/// An entry that is written when it is asked for.
pub(super) struct EntryBody<'a> {
    pub(super) writer: &'a mut Writer,
    pub(super) head: &'a EntryHead,
    /// The members of its payload.
    pub(super) payload: Pieces,
}

impl Body for EntryBody<'_> {
    fn json(&mut self) -> Result<Json> {
        let mut pieces = Pieces::of("{");
        pieces.0.extend(self.payload.0.iter().cloned());
        pieces.0.push(Piece::Text("}".to_owned()));
        self.writer.json(&pieces, Reads::Ahead)
    }

    fn copy_jsonl(&mut self, out: &mut dyn io::Write) -> Option<Result<u64>> {
        let EntryHead { id, parent, entry_type, custom_type, seq, timestamp } = self.head;
        let mut head = format!(
            "{{\"kind\":\"entry\",\"id\":{},\"parentId\":{},\"type\":{}",
            quoted(id.as_str()),
            content::or_null(parent.as_ref()),
            quoted(entry_type.as_str())
        );
        if let (EntryType::Custom, Some(custom_type)) = (entry_type, custom_type) {
            head.push_str(",\"customType\":");
            head.push_str(&quoted(custom_type.as_str()));
        }
        if !self.payload.0.is_empty() {
            head.push(',');
        }
        let tail = Pieces::of(format!(",\"seq\":{seq},\"timestamp\":{timestamp}}}"));
        Some(self.writer.object(&[&Pieces::of(head), &self.payload, &tail], out, Reads::Ahead))
    }
}

/// A value that is written when it is asked for.
pub(super) struct ValueBody<'a> {
    pub(super) writer: &'a mut Writer,
    pub(super) address: &'a Address,
    pub(super) seq: Seq,
    pub(super) value: Pieces,
}

impl Body for ValueBody<'_> {
    fn json(&mut self) -> Result<Json> {
        self.writer.json(&self.value, Reads::Here)
    }

    fn copy_jsonl(&mut self, out: &mut dyn io::Write) -> Option<Result<u64>> {
        let head = Pieces::of(format!(
            "{{\"kind\":\"value\",\"op\":\"set\",\"seq\":{},\"namespace\":{},\"key\":{},\"value\":",
            self.seq,
            quoted(self.address.namespace.as_str()),
            quoted(self.address.key.as_str())
        ));
        Some(self.writer.object(&[&head, &self.value, &Pieces::of("}")], out, Reads::Here))
    }
}

/// Counts what goes through.
struct Counted<'a> {
    out: &'a mut dyn io::Write,
    bytes: u64,
}

impl io::Write for Counted<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let count = self.out.write(buffer)?;
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
