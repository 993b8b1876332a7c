//! Lines of bounded length.

use std::io::{self, BufRead};

/// What a stream gave next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A line without its line break.
    Bytes(Vec<u8>),
    /// A longer line than allowed; it is passed over.
    TooLong,
    /// The end. Bytes behind the last line break are part of it: who sent them is gone.
    End,
}

/// Reads the next line of at most `bytes_max` bytes.
pub(super) fn next_line(input: &mut impl BufRead, bytes_max: usize) -> io::Result<Line> {
    let mut line = Vec::new();
    let mut is_too_long = false;
    loop {
        let buffered = match input.fill_buf() {
            Ok(buffered) => buffered,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if buffered.is_empty() {
            return Ok(Line::End);
        }
        let end = buffered.iter().position(|&byte| byte == b'\n');
        let piece = buffered.get(..end.unwrap_or(buffered.len())).unwrap_or_default();
        is_too_long |= line.len() + piece.len() > bytes_max;
        if is_too_long {
            line = Vec::new();
        } else {
            line.extend_from_slice(piece);
        }
        let used = piece.len() + usize::from(end.is_some());
        input.consume(used);
        if end.is_some() {
            return Ok(if is_too_long { Line::TooLong } else { Line::Bytes(line) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Line, next_line};

    #[test]
    fn lines_are_cut_whatever_the_buffer() {
        for capacity in 1..12 {
            let mut input = std::io::BufReader::with_capacity(
                capacity,
                &b"abc\n\n123456\n12345\n1234567890\nx\nrest"[..],
            );
            let mut next = || next_line(&mut input, 5).expect("memory can be read");
            assert_eq!(next(), Line::Bytes(b"abc".to_vec()));
            assert_eq!(next(), Line::Bytes(Vec::new()));
            assert_eq!(next(), Line::TooLong);
            assert_eq!(next(), Line::Bytes(b"12345".to_vec()));
            assert_eq!(next(), Line::TooLong);
            assert_eq!(next(), Line::Bytes(b"x".to_vec()));
            assert_eq!(next(), Line::End);
            assert_eq!(next(), Line::End);
        }
    }
}
