//! Values: checked and measured, not built.

use std::io::Read;

use super::error::Reason;
use super::levels::Levels;
use super::shape::Class;
use super::source::{Source, Stop};
use super::string::{Ignore, Sink};

impl<R: Read> Source<R> {
    /// Reads one value, of whatever size and depth, and tells its class.
    pub(super) fn skip_value(&mut self, levels: &mut Levels) -> Result<Class, Stop> {
        let first = self.peek_token()?;
        if matches!(first, b'{' | b'[') {
            self.skip_nested(levels)?;
            return Ok(if first == b'{' { Class::Object } else { Class::Array });
        }
        self.scalar(first, &mut Ignore)
    }

    /// Reads a string, number or literal that starts with the next byte, `first`.
    #[inline]
    pub(super) fn scalar(&mut self, first: u8, sink: &mut impl Sink) -> Result<Class, Stop> {
        match first {
            b'"' => {
                self.advance(1);
                self.string(sink)?;
                Ok(Class::String)
            }
            b'-' | b'0'..=b'9' => {
                self.number(sink)?;
                Ok(Class::Number)
            }
            b't' => self.literal(b"true", Class::True),
            b'f' => self.literal(b"false", Class::False),
            b'n' => self.literal(b"null", Class::Null),
            _ => Err(self.fail(Reason::ExpectedValue)),
        }
    }

    /// Reads an object or array; the next byte opens it.
    fn skip_nested(&mut self, levels: &mut Levels) -> Result<(), Stop> {
        levels.clear();
        loop {
            let first = self.peek_token()?;
            let is_complete = match first {
                b'{' => !self.open(levels, true)?,
                b'[' => !self.open(levels, false)?,
                _ => {
                    self.scalar(first, &mut Ignore)?;
                    true
                }
            };
            if is_complete && self.close(levels)? {
                return Ok(());
            }
        }
    }

    /// Opens a level. `true`: the level's first value comes next; `false`: it was empty.
    #[inline]
    fn open(&mut self, levels: &mut Levels, is_object: bool) -> Result<bool, Stop> {
        if !levels.push(is_object) {
            return Err(self.fail(Reason::TooDeep));
        }
        self.advance(1);
        let close = if is_object { b'}' } else { b']' };
        if self.peek_token()? == close {
            self.advance(1);
            levels.pop();
            return Ok(false);
        }
        if is_object {
            self.skip_name()?;
        }
        Ok(true)
    }

    /// Behind a value: closes levels until another value comes (`false`) or all are closed.
    #[inline]
    fn close(&mut self, levels: &mut Levels) -> Result<bool, Stop> {
        while let Some(is_object) = levels.innermost_is_object() {
            match self.peek_token()? {
                b',' => {
                    self.advance(1);
                    if is_object {
                        self.skip_name()?;
                    }
                    return Ok(false);
                }
                b'}' if is_object => {}
                b']' if !is_object => {}
                _ => return Err(self.fail(Reason::ExpectedCommaOrEnd)),
            }
            self.advance(1);
            levels.pop();
        }
        Ok(true)
    }

    #[inline]
    fn skip_name(&mut self) -> Result<(), Stop> {
        self.open_name()?;
        self.string(&mut Ignore)?;
        self.colon()
    }

    /// Moves behind the opening quote of a member name.
    #[inline]
    pub(super) fn open_name(&mut self) -> Result<(), Stop> {
        if self.peek_token()? != b'"' {
            return Err(self.fail(Reason::ExpectedName));
        }
        self.advance(1);
        Ok(())
    }

    /// Moves behind the colon.
    #[inline]
    pub(super) fn colon(&mut self) -> Result<(), Stop> {
        if self.peek_token()? != b':' {
            return Err(self.fail(Reason::ExpectedColon));
        }
        self.advance(1);
        Ok(())
    }

    fn literal(&mut self, word: &[u8], class: Class) -> Result<Class, Stop> {
        if self.window().starts_with(word) {
            self.advance(word.len());
            return Ok(class);
        }
        for &byte in word {
            if self.peek()? != byte {
                return Err(self.fail(Reason::InvalidLiteral));
            }
            self.advance(1);
        }
        Ok(class)
    }

    #[inline]
    fn number(&mut self, sink: &mut impl Sink) -> Result<(), Stop> {
        // Nearly all numbers are integers without a sign, whole in the window.
        let window = self.window();
        let len = window.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let is_integer = match window {
            [b'0', ..] => len == 1,
            _ => len > 0,
        };
        match window.get(len) {
            Some(byte) if is_integer && !matches!(byte, b'.' | b'e' | b'E') => {
                sink.plain(&window[..len]);
                self.advance(len);
                Ok(())
            }
            _ => self.spelled_number(sink),
        }
    }

    /// A number of any form.
    fn spelled_number(&mut self, sink: &mut impl Sink) -> Result<(), Stop> {
        if self.peek()? == b'-' {
            self.pass(sink)?;
        }
        if self.peek()? == b'0' {
            self.pass(sink)?;
            if self.peek()?.is_ascii_digit() {
                return Err(self.fail(Reason::InvalidNumber));
            }
        } else {
            self.digits(sink)?;
        }
        if self.peek()? == b'.' {
            self.pass(sink)?;
            self.digits(sink)?;
        }
        if matches!(self.peek()?, b'e' | b'E') {
            self.pass(sink)?;
            if matches!(self.peek()?, b'+' | b'-') {
                self.pass(sink)?;
            }
            self.digits(sink)?;
        }
        Ok(())
    }

    /// Hands one byte to the sink.
    fn pass(&mut self, sink: &mut impl Sink) -> Result<(), Stop> {
        let byte = self.take()?;
        sink.plain(&[byte]);
        Ok(())
    }

    /// One digit or more.
    fn digits(&mut self, sink: &mut impl Sink) -> Result<(), Stop> {
        if !self.peek()?.is_ascii_digit() {
            return Err(self.fail(Reason::InvalidNumber));
        }
        while self.peek()?.is_ascii_digit() {
            let window = self.window();
            let len = window.iter().take_while(|byte| byte.is_ascii_digit()).count();
            sink.plain(&window[..len]);
            self.advance(len);
        }
        Ok(())
    }
}
