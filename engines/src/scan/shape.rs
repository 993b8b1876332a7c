//! Which members a caller routes on, and what was found of them.

use std::ops::Range;

use super::string::{Collected, Collector, TEXT_BYTES_LIMIT};

/// Bytes of a number's text that are kept; an integer up to 2^53 - 1 needs 16.
pub const NUMBER_BYTES_LIMIT: usize = 64;

/// One member name that a caller routes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// The name, decoded.
    pub name: &'static str,
    /// Whether the text of a string or number is wanted, not only its class and place.
    pub decode: bool,
}

impl Member {
    /// A member of which class, place and text are wanted.
    pub const fn decoded(name: &'static str) -> Self {
        Self { name, decode: true }
    }

    /// A member of which class and place are wanted.
    pub const fn placed(name: &'static str) -> Self {
        Self { name, decode: false }
    }
}

/// The members to route on. Results are asked for by index into this table.
#[derive(Debug)]
pub struct Shape {
    members: &'static [Member],
    longest_name_bytes: usize,
}

impl Shape {
    /// A table of members with different names.
    ///
    /// # Panics
    /// If a name stands twice: the second one would never be found. A shape is made to be a
    /// `static`, so this is an error of compilation.
    pub const fn new(members: &'static [Member]) -> Self {
        let mut longest_name_bytes = 0;
        let mut index = 0;
        while index < members.len() {
            let name = members[index].name.as_bytes();
            if name.len() > longest_name_bytes {
                longest_name_bytes = name.len();
            }
            let mut other = 0;
            while other < index {
                assert!(!is_same(name, members[other].name.as_bytes()), "name stands twice");
                other += 1;
            }
            index += 1;
        }
        Self { members, longest_name_bytes }
    }

    /// The table.
    pub const fn members(&self) -> &'static [Member] {
        self.members
    }

    pub(super) fn longest_name_bytes(&self) -> usize {
        self.longest_name_bytes
    }

    /// Index of a decoded name.
    #[inline]
    pub(super) fn index_of(&self, name: &[u8]) -> Option<usize> {
        // The first byte tells most names apart, without a call to compare them.
        self.members.iter().position(|member| {
            let other = member.name.as_bytes();
            other.len() == name.len() && other.first() == name.first() && other == name
        })
    }
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut index = 0;
    while index < a.len() {
        if a[index] != b[index] {
            return false;
        }
        index += 1;
    }
    true
}

/// What kind of JSON a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// `{...}`
    Object,
    /// `[...]`
    Array,
    /// `"..."`
    String,
    /// `-1.5e3`
    Number,
    /// `true`
    True,
    /// `false`
    False,
    /// `null`
    Null,
}

/// The text of a routed value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text<'a> {
    /// Not wanted by the shape, or the value is neither string nor number.
    Absent,
    /// The decoded string, or the number as it is spelled.
    Decoded(&'a str),
    /// Longer than [`TEXT_BYTES_LIMIT`] (decoded) or [`NUMBER_BYTES_LIMIT`].
    TooLong,
    /// A string with an unpaired surrogate: JSON, but not text. A caller that needs the text
    /// refuses it.
    Surrogate,
}

impl<'a> Text<'a> {
    /// The text, if it is there whole.
    pub fn decoded(self) -> Option<&'a str> {
        match self {
            Self::Decoded(text) => Some(text),
            Self::Absent | Self::TooLong | Self::Surrogate => None,
        }
    }
}

/// A routed member as it stands in an object. Of repeated members this is the last one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found<'a> {
    /// Class of the value.
    pub class: Class,
    /// Bytes of the value in the file, absolute.
    pub span: Range<u64>,
    /// Text of the value.
    pub text: Text<'a>,
}

/// One object of a line.
#[derive(Debug)]
pub struct Object {
    pub(super) span: Range<u64>,
    slots: Box<[Slot]>,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) decode: bool,
    /// Class and span; `None` when the object does not have the member.
    pub(super) place: Option<(Class, Range<u64>)>,
    pub(super) text: Collector,
}

impl Object {
    pub(super) fn new(shape: &Shape) -> Self {
        let slot = |member: &Member| Slot {
            decode: member.decode,
            place: None,
            text: Collector::default(),
        };
        Self { span: 0..0, slots: shape.members.iter().map(slot).collect() }
    }

    /// Bytes of the object in the file, absolute, with its brackets.
    pub fn span(&self) -> Range<u64> {
        self.span.clone()
    }

    /// What was found of the shape's member `index`; `None` when the object does not have it.
    ///
    /// # Panics
    /// If the shape has no member `index`.
    #[inline]
    pub fn member(&self, index: usize) -> Option<Found<'_>> {
        let slot = &self.slots[index];
        let (class, span) = slot.place.clone()?;
        let is_text = slot.decode && matches!(class, Class::String | Class::Number);
        let text = match slot.text.collected() {
            _ if !is_text => Text::Absent,
            Collected::TooLong => Text::TooLong,
            Collected::Surrogate => Text::Surrogate,
            Collected::Text(bytes) => {
                Text::Decoded(str::from_utf8(bytes).expect("collected whole characters only"))
            }
        };
        Some(Found { class, span, text })
    }

    pub(super) fn clear(&mut self) {
        for slot in &mut self.slots {
            slot.place = None;
        }
    }

    #[inline]
    pub(super) fn slot(&mut self, index: usize) -> &mut Slot {
        &mut self.slots[index]
    }
}

impl Slot {
    /// Gets ready for the text of a value that starts with `first`.
    #[inline]
    pub(super) fn start_text(&mut self, first: u8) {
        self.text.start(if first == b'"' { TEXT_BYTES_LIMIT } else { NUMBER_BYTES_LIMIT });
    }
}
