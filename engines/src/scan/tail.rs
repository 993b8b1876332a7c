//! The end of the whole lines: what stands behind the last newline is torn (formats §1).

use std::io::{self, Read, Seek, SeekFrom};

/// Bytes that are read at a time, from the end.
const PIECE_BYTES: u64 = 64 * 1024;

/// Offset right behind the last newline among the first `len` bytes; 0 when there is none.
///
/// # Errors
/// Those of the reader, and `UnexpectedEof` when it is shorter than `len` bytes.
#[expect(clippy::missing_panics_doc, reason = "an invariant of our own")]
pub fn last_newline<F: Read + Seek>(mut file: F, len: u64) -> io::Result<u64> {
    let mut piece = Vec::new();
    let mut end = len;
    while end > 0 {
        let start = (end - 1) / PIECE_BYTES * PIECE_BYTES;
        let size = usize::try_from(end - start).expect("at most a piece");
        piece.resize(size, 0);
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut piece)?;
        if let Some(index) = memchr::memrchr(b'\n', &piece) {
            return Ok(start + index as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn finds_the_last_newline_across_pieces() {
        let piece = usize::try_from(PIECE_BYTES).expect("small");
        for before in [0, 1, 5, piece - 1, piece, piece + 1, 3 * piece] {
            for behind in [0, 1, piece - 1, piece, piece + 1, 2 * piece + 7] {
                let mut bytes = vec![b'\n'; before];
                bytes.extend(vec![b'x'; behind]);
                let len = bytes.len() as u64;
                // What was appended after `len` was taken does not count.
                bytes.extend(b"\n\n");
                let found = last_newline(Cursor::new(bytes), len).expect("memory can be read");
                assert_eq!(found, before as u64, "{before} {behind}");
            }
        }
    }

    #[test]
    fn tells_when_the_file_is_shorter() {
        let error = last_newline(Cursor::new(b"abc"), 4).expect_err("3 bytes only");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
