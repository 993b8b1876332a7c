//! Copies byte spans of a file that come in ascending order, with one buffer and few reads.

use std::io;
use std::sync::Arc;

use super::storage::Span;
use crate::fs::{FileHandle, read_full};

/// What is read at once: rows that stand near each other cost one read together.
const WINDOW_BYTES: usize = 256 * 1024;

/// Some bytes of a file that were read last.
#[derive(Debug)]
pub(super) struct Window {
    file: Arc<dyn FileHandle>,
    buffer: Vec<u8>,
    start: u64,
}

impl Window {
    pub(super) fn new(file: Arc<dyn FileHandle>) -> Self {
        Self { file, buffer: Vec::new(), start: 0 }
    }

    pub(super) fn file(&self) -> &Arc<dyn FileHandle> {
        &self.file
    }

    /// Writes the bytes of a span, in pieces.
    ///
    /// # Errors
    /// Those of `out` and of the file, *unexpected end of file* when it is shorter.
    pub(super) fn copy(&mut self, span: Span, out: &mut dyn io::Write) -> io::Result<()> {
        let Span { mut offset, mut len } = span;
        while len > 0 {
            if self.piece(offset).is_empty() {
                self.read(offset)?;
            }
            let piece = self.piece(offset);
            let count = usize::try_from(len).map_or(piece.len(), |len| len.min(piece.len()));
            let piece = piece.get(..count).filter(|piece| !piece.is_empty());
            out.write_all(piece.ok_or(io::ErrorKind::UnexpectedEof)?)?;
            offset += count as u64;
            len -= count as u64;
        }
        Ok(())
    }

    /// The bytes at hand from an offset on.
    fn piece(&self, offset: u64) -> &[u8] {
        let index = offset.checked_sub(self.start).and_then(|index| usize::try_from(index).ok());
        index.and_then(|index| self.buffer.get(index..)).unwrap_or_default()
    }

    fn read(&mut self, offset: u64) -> io::Result<()> {
        self.buffer.resize(WINDOW_BYTES, 0);
        let count = read_full(&*self.file, &mut self.buffer, offset);
        // After a failure nothing is at hand.
        self.buffer.truncate(*count.as_ref().unwrap_or(&0));
        self.start = offset;
        count.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_any_spans_and_tells_the_end() {
        let bytes: Vec<u8> = (0..600_000_u32).map(|n| (n % 251) as u8).collect();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        let mut window = Window::new(Arc::new(file.reopen().unwrap()));
        for (offset, len) in
            [(0, 5), (4, 0), (5, 262_139), (262_143, 2), (300_000, 299_999), (0, 1)]
        {
            let mut out = Vec::new();
            window.copy(Span { offset, len }, &mut out).unwrap();
            let start = usize::try_from(offset).unwrap();
            assert_eq!(out, bytes[start..start + usize::try_from(len).unwrap()], "{offset} {len}");
        }
        let error = window.copy(Span { offset: 599_999, len: 2 }, &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
