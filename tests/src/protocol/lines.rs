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
    let with_break = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    io::Read::take(&mut *input, with_break).read_until(b'\n', &mut line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
        return Ok(Line::Bytes(line));
    }
    if line.len() <= bytes_max {
        return Ok(Line::End);
    }
    input.skip_until(b'\n')?;
    Ok(Line::TooLong)
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
