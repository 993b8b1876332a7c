//! The scanner's only buffer: bytes are shown to the grammar after their UTF-8 was checked.
//!
//! A whole buffer is checked at once, which costs a twentieth of the scan; a sequence that is
//! split between two reads waits at the front of the buffer for its rest. The grammar sees
//! `pos..end` and asks for more when that is used up, so a line is never in memory as a whole.
//!
//! A failure is kept here and travels as [`Stop`], a marker without size: the hot functions
//! then return in registers.

use std::io::{self, Read};

use super::error::{Reason, ScanError};

/// Bytes that are read at a time.
pub(super) const BUFFER_BYTES: usize = 64 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The scan cannot go on; the source knows why.
#[derive(Debug)]
pub(super) struct Stop;

#[derive(Debug)]
enum Cause {
    Reason(Reason),
    Read(io::Error),
}

#[derive(Debug)]
pub(super) struct Source<R> {
    reader: R,
    buffer: Box<[u8]>,
    /// Next byte for the grammar.
    pos: usize,
    /// End of the bytes that are known to be whole UTF-8 characters.
    end: usize,
    /// End of the bytes that were read.
    filled: usize,
    /// File offset of the buffer's first byte.
    base: u64,
    /// The bytes at `end` are no UTF-8, whatever may follow.
    invalid_at_end: bool,
    input_ended: bool,
    fault: Option<(u64, Cause)>,
}

impl<R: Read> Source<R> {
    pub(super) fn new(reader: R, start_offset: u64) -> Self {
        Self {
            reader,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            pos: 0,
            end: 0,
            filled: 0,
            base: start_offset,
            invalid_at_end: false,
            input_ended: false,
            fault: None,
        }
    }

    /// File offset of the next byte.
    #[inline]
    pub(super) fn offset(&self) -> u64 {
        self.base + self.pos as u64
    }

    /// The checked bytes at hand; may be empty.
    #[inline]
    pub(super) fn window(&self) -> &[u8] {
        &self.buffer[self.pos..self.end]
    }

    /// Moves over bytes of the window.
    #[inline]
    pub(super) fn advance(&mut self, count: usize) {
        self.pos += count;
        debug_assert!(self.pos <= self.end);
    }

    /// The next byte, which stays the next one.
    #[inline]
    pub(super) fn peek(&mut self) -> Result<u8, Stop> {
        if self.pos == self.end && !self.fill()? {
            return Err(self.fail(Reason::InputEnd));
        }
        Ok(self.buffer[self.pos])
    }

    /// The next byte behind spaces, tabs and carriage returns.
    #[inline]
    pub(super) fn peek_token(&mut self) -> Result<u8, Stop> {
        loop {
            let byte = self.peek()?;
            if byte > b' ' || !matches!(byte, b' ' | b'\t' | b'\r') {
                return Ok(byte);
            }
            self.pos += 1;
        }
    }

    /// Takes the next byte.
    #[inline]
    pub(super) fn take(&mut self) -> Result<u8, Stop> {
        let byte = self.peek()?;
        self.pos += 1;
        Ok(byte)
    }

    /// Whether the input ends here.
    pub(super) fn is_at_end(&mut self) -> Result<bool, Stop> {
        Ok(self.pos == self.end && !self.fill()?)
    }

    /// Moves over a byte order mark, if there is one.
    pub(super) fn skip_byte_order_mark(&mut self) -> Result<(), Stop> {
        // A character is never split between windows, so the mark is in one.
        if !self.is_at_end()? && self.window().starts_with(BYTE_ORDER_MARK) {
            self.advance(BYTE_ORDER_MARK.len());
        }
        Ok(())
    }

    /// Ends the scan at the next byte.
    #[cold]
    pub(super) fn fail(&mut self, reason: Reason) -> Stop {
        let reason = match (reason, self.window().first()) {
            (Reason::BlankLine, _) => reason,
            (_, Some(b'\n')) => Reason::LineEnd,
            _ => reason,
        };
        self.fault = Some((self.offset(), Cause::Reason(reason)));
        Stop
    }

    /// The error that ended the scan, if it has ended so. Can be asked again: a failed scan
    /// stays failed.
    pub(super) fn error(&mut self, line: u64) -> Option<ScanError> {
        let (offset, cause) = self.fault.as_mut()?;
        let offset = *offset;
        Some(match cause {
            Cause::Reason(reason) => ScanError::Malformed { line, offset, reason: *reason },
            Cause::Read(error) => {
                let kind = error.kind();
                let source = std::mem::replace(error, kind.into());
                ScanError::Read { line, offset, source }
            }
        })
    }

    /// Reads on when the window is used up. `false`: the input has ended.
    #[cold]
    fn fill(&mut self) -> Result<bool, Stop> {
        loop {
            if self.invalid_at_end {
                return Err(self.fail(Reason::InvalidUtf8));
            }
            self.buffer.copy_within(self.end..self.filled, 0);
            self.base += self.end as u64;
            self.filled -= self.end;
            self.pos = 0;
            self.end = 0;
            if self.input_ended {
                self.invalid_at_end = self.filled > 0;
                if self.invalid_at_end {
                    continue;
                }
                return Ok(false);
            }
            self.read()?;
            match std::str::from_utf8(&self.buffer[..self.filled]) {
                Ok(_) => self.end = self.filled,
                Err(error) => {
                    self.end = error.valid_up_to();
                    self.invalid_at_end = error.error_len().is_some();
                }
            }
            if self.end > 0 {
                return Ok(true);
            }
        }
    }

    fn read(&mut self) -> Result<(), Stop> {
        loop {
            match self.reader.read(&mut self.buffer[self.filled..]) {
                Ok(0) => self.input_ended = true,
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    let offset = self.base + self.filled as u64;
                    self.fault = Some((offset, Cause::Read(error)));
                    return Err(Stop);
                }
            }
            return Ok(());
        }
    }
}
