//! Strings: finding their end fast, and decoding the few that are routed on.

use super::error::Reason;
use super::source::{Source, Stop};
use std::io::Read;

/// Bytes of a decoded string that are kept; no id, name, namespace or key needs more.
pub const TEXT_BYTES_LIMIT: usize = 64 * 1024;

const WORD: usize = 8;
const BLOCK: usize = 32;
/// Words that are tried one by one before the block loop pays off: names and ids.
const SHORT_WORDS: usize = 8;

/// Count of leading bytes that are neither quote, backslash nor control character.
#[inline]
pub(super) fn plain_len(bytes: &[u8]) -> usize {
    let (words, _) = bytes.as_chunks::<WORD>();
    for (index, word) in words.iter().take(SHORT_WORDS).enumerate() {
        let special = special_bytes(u64::from_le_bytes(*word));
        if special != 0 {
            return index * WORD + special.trailing_zeros() as usize / WORD;
        }
    }
    let at = words.len().min(SHORT_WORDS) * WORD;
    at + long_plain_len(&bytes[at..])
}

/// High bit of each byte that ends a plain run. Above the lowest one there may be false ones,
/// because the subtractions borrow; only the lowest is used.
#[inline]
fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES * 0x80;
    let quote = word ^ (ONES * 0x22);
    let backslash = word ^ (ONES * 0x5c);
    let below_space = word.wrapping_sub(ONES * 0x20) & !word;
    let is_quote = quote.wrapping_sub(ONES) & !quote;
    let is_backslash = backslash.wrapping_sub(ONES) & !backslash;
    (below_space | is_quote | is_backslash) & HIGHS
}

/// The same behind the short words, and at the end of a window. The block test is written so
/// that the compiler uses vector registers for it.
fn long_plain_len(bytes: &[u8]) -> usize {
    let (blocks, _) = bytes.as_chunks::<BLOCK>();
    let is_plain = |block: &&[u8; BLOCK]| {
        let special = block.iter().fold(0_u8, |any, &byte| any | u8::from(is_special(byte)));
        special == 0
    };
    let at = blocks.iter().take_while(is_plain).count() * BLOCK;
    let (words, _) = bytes[at..].as_chunks::<WORD>();
    let specials = words.iter().map(|word| special_bytes(u64::from_le_bytes(*word)));
    for (index, special) in specials.enumerate() {
        if special != 0 {
            return at + index * WORD + special.trailing_zeros() as usize / WORD;
        }
    }
    let at = at + words.len() * WORD;
    let rest = &bytes[at..];
    at + rest.iter().position(|&byte| is_special(byte)).unwrap_or(rest.len())
}

#[inline]
fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Takes what a string holds, piece by piece.
pub(super) trait Sink {
    /// Bytes as they stand in the file: whole characters of valid UTF-8.
    fn plain(&mut self, bytes: &[u8]);
    /// One UTF-16 unit that was written as an escape.
    fn escaped(&mut self, unit: u16);
}

/// Only checks the string.
pub(super) struct Ignore;

impl Sink for Ignore {
    #[inline]
    fn plain(&mut self, _bytes: &[u8]) {}
    #[inline]
    fn escaped(&mut self, _unit: u16) {}
}

/// A decoded string or a number's text, up to a limit.
#[derive(Debug, Default)]
pub(super) struct Collector {
    bytes: Vec<u8>,
    limit: usize,
    is_too_long: bool,
    has_lone_surrogate: bool,
    /// A high surrogate that waits for its low one.
    high: Option<u16>,
}

/// How collecting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Collected<'a> {
    Text(&'a [u8]),
    TooLong,
    Surrogate,
}

impl Collector {
    pub(super) fn start(&mut self, limit: usize) {
        self.bytes.clear();
        self.limit = limit;
        self.is_too_long = false;
        self.has_lone_surrogate = false;
        self.high = None;
    }

    #[inline]
    pub(super) fn finish(&mut self) {
        self.settle_high();
    }

    /// What was collected; call [`Self::finish`] first.
    pub(super) fn collected(&self) -> Collected<'_> {
        if self.is_too_long {
            Collected::TooLong
        } else if self.has_lone_surrogate {
            Collected::Surrogate
        } else {
            Collected::Text(&self.bytes)
        }
    }

    /// A high surrogate without a low one behind it. It counts three bytes, as in WTF-8, so
    /// that "too long" does not depend on what is wrong with the string otherwise.
    #[inline]
    fn settle_high(&mut self) {
        if self.high.is_some() {
            self.high = None;
            self.lone_surrogate();
        }
    }

    #[cold]
    fn lone_surrogate(&mut self) {
        self.has_lone_surrogate = true;
        self.append(&[b'?'; 3]);
    }

    #[inline]
    fn append(&mut self, bytes: &[u8]) {
        let needed = self.bytes.len() + bytes.len();
        if self.is_too_long || needed > self.limit {
            self.is_too_long = true;
            return;
        }
        if needed > self.bytes.capacity() {
            // Doubling, but never past the limit.
            let capacity = (self.bytes.capacity() * 2).clamp(needed, self.limit.max(needed));
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(bytes);
    }
}

impl Sink for Collector {
    #[inline]
    fn plain(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.settle_high();
            self.append(bytes);
        }
    }

    fn escaped(&mut self, unit: u16) {
        let high = self.high.take();
        match (high, unit) {
            (Some(high), 0xdc00..=0xdfff) => {
                let pair = char::decode_utf16([high, unit]).next();
                let pair = pair.and_then(Result::ok).expect("a high and a low surrogate");
                self.append(pair.encode_utf8(&mut [0; 4]).as_bytes());
            }
            (high, _) => {
                if high.is_some() {
                    self.lone_surrogate();
                }
                match (unit, char::from_u32(u32::from(unit))) {
                    (_, Some(char)) => self.append(char.encode_utf8(&mut [0; 4]).as_bytes()),
                    (0xd800..=0xdbff, None) => self.high = Some(unit),
                    (_, None) => self.lone_surrogate(),
                }
            }
        }
    }
}

impl<R: Read> Source<R> {
    /// Reads a string to its closing quote; its opening quote is behind us.
    #[inline]
    pub(super) fn string(&mut self, sink: &mut impl Sink) -> Result<(), Stop> {
        loop {
            let window = self.window();
            let len = plain_len(window);
            sink.plain(&window[..len]);
            self.advance(len);
            match self.peek()? {
                b'"' => {
                    self.advance(1);
                    return Ok(());
                }
                b'\\' => self.escape(sink)?,
                byte if byte < 0x20 => return Err(self.fail(Reason::ControlCharacter)),
                // The window was used up and is a new one now.
                _ => {}
            }
        }
    }

    fn escape(&mut self, sink: &mut impl Sink) -> Result<(), Stop> {
        self.advance(1);
        let unit = match self.peek()? {
            byte @ (b'"' | b'\\' | b'/') => u16::from(byte),
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => 0x0a,
            b'r' => 0x0d,
            b't' => 0x09,
            b'u' => {
                self.advance(1);
                return self.hex_escape(sink);
            }
            _ => return Err(self.fail(Reason::InvalidEscape)),
        };
        self.advance(1);
        sink.escaped(unit);
        Ok(())
    }

    fn hex_escape(&mut self, sink: &mut impl Sink) -> Result<(), Stop> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = match self.peek()? {
                byte @ b'0'..=b'9' => byte - b'0',
                byte @ b'a'..=b'f' => byte - b'a' + 10,
                byte @ b'A'..=b'F' => byte - b'A' + 10,
                _ => return Err(self.fail(Reason::InvalidEscape)),
            };
            self.advance(1);
            unit = unit << 4 | u16::from(digit);
        }
        sink.escaped(unit);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_len_finds_each_byte_at_each_place() {
        for len in 0..120 {
            for at in 0..=len {
                for byte in 0..=u8::MAX {
                    let mut bytes = vec![b'\x7f'; len];
                    if let Some(place) = bytes.get_mut(at) {
                        *place = byte;
                    }
                    let expected = bytes.iter().position(|&b| is_special(b)).unwrap_or(len);
                    assert_eq!(plain_len(&bytes), expected, "byte {byte} at {at} of {len}");
                }
            }
        }
    }
}
