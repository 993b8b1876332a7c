//! A slow reading of the same lines by `serde_json`, and the comparison of the scanner with it.
//!
//! The reference takes whole lines, asks `serde_json` whether they are JSON, and walks them with
//! a visitor; nothing in it is shared with the scanner.

use std::fmt;
use std::io::{self, Read};
use std::ops::Range;

use forkline_engines::scan::{Class, Item, Member, Scan, Shape, Text};
use serde::Deserializer as _;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Members that the comparison routes on: short and long names, one prefix of another, one
/// empty, one not ASCII.
pub(crate) static SHAPE: Shape = Shape::new(&[
    Member::decoded("a"),
    Member::decoded("ab"),
    Member::placed("value"),
    Member::decoded(""),
    Member::decoded("parentId"),
    Member::decoded("\u{e9}\u{1f600}"),
    Member::decoded("a name that is longer than a word"),
]);

/// What is known of a routed member, in owned form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Value {
    class: Class,
    span: Range<u64>,
    text: OwnedText,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum OwnedText {
    Absent,
    Decoded(String),
    TooLong,
    Surrogate,
}

/// One line as both readers report it.
#[derive(Debug, PartialEq, Eq, Default)]
pub(crate) struct Line {
    span: Range<u64>,
    objects: Vec<(Range<u64>, Vec<Option<Value>>)>,
}

/// The good lines, and the number of the line that ended the reading.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) lines: Vec<Line>,
    pub(crate) bad_line: Option<u64>,
}

/// Reads with both and compares; returns what they agree on.
///
/// # Panics
/// When they differ, or when the scanner contradicts itself.
pub(crate) fn compare(bytes: &[u8], start_offset: u64, read_sizes: &[u8]) -> Reading {
    let expected = reference(bytes, start_offset);
    let found = scanner(bytes, start_offset, read_sizes);
    assert_eq!(found, expected, "reads of {read_sizes:?}, input {:?}", Shown(bytes));
    expected
}

/// Enough of an input to see what it is.
struct Shown<'a>(&'a [u8]);

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.get(..2000).unwrap_or(self.0);
        write!(formatter, "\"{}\" of {} bytes", shown.escape_ascii(), self.0.len())
    }
}

/// Hands out its bytes in pieces of given sizes, over and over; a size of 0 is an interruption.
pub(crate) struct Pieces<'a> {
    bytes: &'a [u8],
    sizes: &'a [u8],
    turn: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // No sizes, or nothing but interruptions: all at once.
        if self.sizes.iter().all(|&size| size == 0) {
            return self.bytes.read(buffer);
        }
        let size = usize::from(self.sizes[self.turn % self.sizes.len()]);
        self.turn += 1;
        if size == 0 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let size = size.min(buffer.len());
        self.bytes.read(&mut buffer[..size])
    }
}

fn scanner(bytes: &[u8], start_offset: u64, read_sizes: &[u8]) -> Reading {
    let reader = Pieces { bytes, sizes: read_sizes, turn: 0 };
    let mut scan = Scan::new(reader, start_offset, &SHAPE);
    let mut lines = Vec::new();
    let mut line = Line::default();
    let bad_line = loop {
        match scan.next() {
            Ok(Some(Item::Object(object))) => {
                let values = (0..SHAPE.members().len()).map(|index| {
                    object.member(index).map(|found| Value {
                        class: found.class,
                        span: found.span,
                        text: match found.text {
                            Text::Absent => OwnedText::Absent,
                            Text::Decoded(text) => OwnedText::Decoded(text.to_owned()),
                            Text::TooLong => OwnedText::TooLong,
                            Text::Surrogate => OwnedText::Surrogate,
                        },
                    })
                });
                line.objects.push((object.span(), values.collect()));
            }
            Ok(Some(Item::Line { number, span })) => {
                line.span = span;
                lines.push(std::mem::take(&mut line));
                assert_eq!(number, lines.len() as u64);
            }
            Ok(None) => {
                assert!(line.objects.is_empty(), "objects outside of a line");
                break None;
            }
            Err(error) => {
                let end = start_offset + bytes.len() as u64;
                let line_start = lines.last().map_or(start_offset, |line: &Line| line.span.end);
                assert!((line_start..=end).contains(&error.offset()), "{error}");
                let again = scan.next().expect_err("a failed scan stays failed");
                assert_eq!(again.to_string(), error.to_string());
                break Some(error.line());
            }
        }
    };
    Reading { lines, bad_line }
}

fn reference(bytes: &[u8], start_offset: u64) -> Reading {
    let mut lines = Vec::new();
    let mut start = 0;
    for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
        let end = start + piece.len();
        let mark = if start == 0 && start_offset == 0 { "\u{feff}".as_bytes() } else { b"" };
        let text = piece.strip_prefix(mark).unwrap_or(piece);
        let text_offset = start_offset + (end - text.len()) as u64;
        let Some(objects) = line_objects(text, text_offset) else {
            return Reading { bad_line: Some(lines.len() as u64 + 1), lines };
        };
        let span = start_offset + start as u64..start_offset + end as u64;
        lines.push(Line { span, objects });
        start = end;
    }
    Reading { lines, bad_line: None }
}

type Objects = Vec<(Range<u64>, Vec<Option<Value>>)>;

/// The objects of a line that starts at a file offset; `None` when it is no line.
fn line_objects(line: &[u8], offset: u64) -> Option<Objects> {
    let text = str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let value: &RawValue = serde_json::from_str(text).ok()?;
    let elements = match value.get().as_bytes().first() {
        Some(b'{') => vec![value],
        Some(b'[') => {
            serde_json::Deserializer::from_str(value.get()).deserialize_seq(Elements).ok()?
        }
        _ => return None,
    };
    let place = |part: &str| {
        let start = offset + (part.as_ptr().addr() - text.as_ptr().addr()) as u64;
        start..start + part.len() as u64
    };
    let object = |element: &RawValue| {
        let mut deserializer = serde_json::Deserializer::from_str(element.get());
        let members = deserializer.deserialize_map(Members).ok()?;
        let mut values = vec![None; SHAPE.members().len()];
        for (name, value) in members {
            let name = utf16(name.get());
            let index = SHAPE
                .members()
                .iter()
                .position(|member| member.name.encode_utf16().eq(name.iter().copied()));
            if let Some(index) = index {
                values[index] = Some(Value {
                    class: class(value.get()),
                    span: place(value.get()),
                    text: decoded(value.get(), SHAPE.members()[index].decode),
                });
            }
        }
        Some((place(element.get()), values))
    };
    elements.into_iter().map(object).collect()
}

/// The elements of an array.
struct Elements;

impl<'de> Visitor<'de> for Elements {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = seq.next_element()? {
            elements.push(element);
        }
        Ok(elements)
    }
}

/// The members of an object, repeated ones included.
struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(&'de RawValue, &'de RawValue)>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(members)
    }
}

fn class(value: &str) -> Class {
    match value.as_bytes()[0] {
        b'{' => Class::Object,
        b'[' => Class::Array,
        b'"' => Class::String,
        b't' => Class::True,
        b'f' => Class::False,
        b'n' => Class::Null,
        _ => Class::Number,
    }
}

fn decoded(value: &str, is_wanted: bool) -> OwnedText {
    match class(value) {
        Class::String if is_wanted => {
            let units = utf16(value);
            let chars = || char::decode_utf16(units.iter().copied());
            let bytes: usize = chars().map(|char| char.map_or(3, char::len_utf8)).sum();
            let text: Result<String, _> = chars().collect();
            assert_eq!(serde_json::from_str::<String>(value).ok(), text.as_ref().ok().cloned());
            match text {
                _ if bytes > 64 * 1024 => OwnedText::TooLong,
                Ok(text) => OwnedText::Decoded(text),
                Err(_) => OwnedText::Surrogate,
            }
        }
        Class::Number if is_wanted && value.len() > 64 => OwnedText::TooLong,
        Class::Number if is_wanted => OwnedText::Decoded(value.to_owned()),
        _ => OwnedText::Absent,
    }
}

/// The UTF-16 units of a JSON string, which is known to be one.
fn utf16(json: &str) -> Vec<u16> {
    let mut units = Vec::new();
    let mut chars = json[1..json.len() - 1].chars();
    while let Some(char) = chars.next() {
        if char != '\\' {
            units.extend_from_slice(char.encode_utf16(&mut [0; 2]));
            continue;
        }
        units.push(match chars.next() {
            Some('b') => 0x08,
            Some('f') => 0x0c,
            Some('n') => 0x0a,
            Some('r') => 0x0d,
            Some('t') => 0x09,
            Some('u') => {
                let digits: String = chars.by_ref().take(4).collect();
                u16::from_str_radix(&digits, 16).expect("four hexadecimal digits")
            }
            Some(other) => u16::try_from(u32::from(other)).expect("an ASCII character"),
            None => unreachable!("a string does not end in a backslash"),
        });
    }
    units
}
