//! A scanner for files of JSON lines whose memory does not depend on the lines (formats §1;
//! architecture, "JSONL").
//!
//! A line is one object or an array of objects. The scanner checks every byte as strictly as
//! `serde_json` does, decodes the few top-level members that its caller routes on, and reports
//! everything else as byte spans. Who wants the bytes copies them from the file by span.
//!
//! *Design.* A pull parser over one buffer of 64 KiB: it stops at the end of each object and of
//! each line, and needs no state of its own inside of them, because it can block on its reader
//! anywhere. Strings are skipped a vector register at a time, UTF-8 is checked a buffer at a
//! time, nesting is a stack of bits.
//!
//! *Why this way.* `serde_json` and its faster rivals want the whole line in memory; a fork has
//! 8 MiB for lines of 1 GiB. `serde_json` stays the reference that the tests and the fuzz target
//! `line_scan` hold this scanner against.
//!
//! *Invariants.*
//! 1. Heap: one buffer, 1 bit a level up to [`DEPTH_LIMIT`], and up to [`TEXT_BYTES_LIMIT`] for
//!    each decoded member.
//! 2. A line is accepted exactly if it is UTF-8, ends with a newline, is one object or an array
//!    of objects for `serde_json` (which does not decode what it skips), and is not too deep.
//! 3. A failed scan stays failed: it answers the same error again.
//!
//! # Example
//! ```
//! use forkline_engines::scan::{Item, Member, Scan, Shape};
//!
//! static SHAPE: Shape = Shape::new(&[Member::decoded("id"), Member::placed("value")]);
//! let file = b"{\"id\":\"a\\u0062\",\"value\":[1]}\n{\"id\":01}\n";
//! let mut scan = Scan::new(&file[..], 0, &SHAPE);
//!
//! let Some(Item::Object(object)) = scan.next()? else { panic!("an object is first") };
//! assert_eq!(object.member(0).and_then(|id| id.text.decoded()), Some("ab"));
//! assert_eq!(object.member(1).map(|value| value.span), Some(24..27));
//! assert!(matches!(scan.next()?, Some(Item::Line { number: 1, .. })));
//!
//! let error = scan.next().unwrap_err();
//! assert_eq!(error.to_string(), "line 2, byte offset 36: invalid number");
//! # Ok::<(), forkline_engines::scan::ScanError>(())
//! ```

mod error;
mod levels;
mod members;
mod number;
mod shape;
mod source;
mod string;
mod tail;
mod value;

use std::io::Read;
use std::ops::Range;

pub use error::{Reason, ScanError};
pub use levels::DEPTH_LIMIT;
pub use members::{MemberSpan, members};
pub use number::as_integer;
pub use shape::{Class, Found, Member, NUMBER_BYTES_LIMIT, Object, Shape, Text};
pub use string::TEXT_BYTES_LIMIT;
pub use tail::last_newline;

use levels::Levels;
use source::{Source, Stop};
use string::{Collected, Collector, plain_len};

/// What a scan finds, in the order of the file.
#[derive(Debug)]
pub enum Item<'a> {
    /// An object of the current line. The line behind it is not checked yet: only
    /// [`Item::Line`] says that the whole line is good.
    Object(&'a Object),
    /// The end of a good line.
    Line {
        /// Number of the line, from 1.
        number: u64,
        /// Bytes of the line in the file, absolute, with its newline (and with a byte order
        /// mark in front of it): the spans of all lines make up the file.
        span: Range<u64>,
    },
}

/// Where the grammar stands between two calls.
#[derive(Debug, Clone, Copy)]
enum Place {
    LineStart,
    /// Behind an object of an array.
    InArray,
    /// Behind the line's only value.
    LineEnd,
}

enum Step {
    Object,
    Line(Range<u64>),
    End,
}

/// A scan over the lines of a reader. See the [module docs](self).
#[derive(Debug)]
pub struct Scan<R> {
    source: Source<R>,
    shape: &'static Shape,
    object: Object,
    name: Collector,
    levels: Levels,
    place: Place,
    line: u64,
    line_start: u64,
    is_file_start: bool,
}

impl<R: Read> Scan<R> {
    /// Scans a reader that stands at `start_offset` of a file, at the start of a line, and ends
    /// behind a newline ([`last_newline`]). A byte order mark is skipped at offset 0 only. Lines
    /// count from 1, wherever the scan starts; see [`Self::from_line`].
    pub fn new(reader: R, start_offset: u64, shape: &'static Shape) -> Self {
        Self {
            source: Source::new(reader, start_offset),
            shape,
            object: Object::new(shape),
            name: Collector::default(),
            levels: Levels::default(),
            place: Place::LineStart,
            line: 0,
            line_start: start_offset,
            is_file_start: start_offset == 0,
        }
    }

    /// Makes `number` the number of the first line, for a scan that starts further down.
    #[must_use]
    pub fn from_line(mut self, number: u64) -> Self {
        self.line = number.saturating_sub(1);
        self
    }

    /// The next object or line end; `None` behind the last line.
    ///
    /// # Errors
    /// [`ScanError::Malformed`] for a line that is none, [`ScanError::Read`] when the reader
    /// fails; from then on the same error again.
    #[expect(clippy::should_implement_trait, reason = "the item borrows from the scan")]
    #[expect(clippy::missing_panics_doc, reason = "an invariant of our own")]
    pub fn next(&mut self) -> Result<Option<Item<'_>>, ScanError> {
        if let Some(error) = self.source.error(self.line) {
            return Err(error);
        }
        match self.step() {
            Ok(Step::Object) => Ok(Some(Item::Object(&self.object))),
            Ok(Step::Line(span)) => Ok(Some(Item::Line { number: self.line, span })),
            Ok(Step::End) => Ok(None),
            Err(Stop) => Err(self.source.error(self.line).expect("a stop leaves its reason")),
        }
    }

    fn step(&mut self) -> Result<Step, Stop> {
        match self.place {
            Place::LineStart => self.start_line(),
            Place::InArray => self.next_element(),
            Place::LineEnd => self.end_line(),
        }
    }

    fn start_line(&mut self) -> Result<Step, Stop> {
        // Before the line is counted nothing can fail but a read: it belongs to the next line.
        self.line += 1;
        self.line_start = self.source.offset();
        if self.source.is_at_end()? {
            self.line -= 1;
            return Ok(Step::End);
        }
        if std::mem::take(&mut self.is_file_start) {
            self.source.skip_byte_order_mark()?;
        }
        match self.source.peek_token()? {
            b'{' => {
                self.place = Place::LineEnd;
                self.object()
            }
            b'[' => {
                self.source.advance(1);
                if self.source.peek_token()? == b']' {
                    self.source.advance(1);
                    return self.end_line();
                }
                self.element()
            }
            b'\n' => Err(self.source.fail(Reason::BlankLine)),
            _ => Err(self.source.fail(Reason::NotAnObject)),
        }
    }

    /// Behind an object of an array: another one, or the end of the line.
    fn next_element(&mut self) -> Result<Step, Stop> {
        match self.source.peek_token()? {
            b',' => {
                self.source.advance(1);
                self.element()
            }
            b']' => {
                self.source.advance(1);
                self.end_line()
            }
            _ => Err(self.source.fail(Reason::ExpectedCommaOrEnd)),
        }
    }

    fn element(&mut self) -> Result<Step, Stop> {
        if self.source.peek_token()? != b'{' {
            return Err(self.source.fail(Reason::NotAnObject));
        }
        self.place = Place::InArray;
        self.object()
    }

    fn end_line(&mut self) -> Result<Step, Stop> {
        if self.source.peek_token()? != b'\n' {
            return Err(self.source.fail(Reason::TrailingText));
        }
        self.source.advance(1);
        self.place = Place::LineStart;
        Ok(Step::Line(self.line_start..self.source.offset()))
    }

    /// Reads an object; the next byte opens it.
    fn object(&mut self) -> Result<Step, Stop> {
        let start = self.source.offset();
        self.object.clear();
        self.source.advance(1);
        if self.source.peek_token()? == b'}' {
            self.source.advance(1);
        } else {
            loop {
                self.member()?;
                match self.source.peek_token()? {
                    b',' => self.source.advance(1),
                    b'}' => break self.source.advance(1),
                    _ => return Err(self.source.fail(Reason::ExpectedCommaOrEnd)),
                }
            }
        }
        self.object.span = start..self.source.offset();
        Ok(Step::Object)
    }

    fn member(&mut self) -> Result<(), Stop> {
        self.source.open_name()?;
        let index = self.name()?;
        self.source.colon()?;
        let Some(index) = index else {
            return self.source.skip_value(&mut self.levels).map(|_| ());
        };
        let first = self.source.peek_token()?;
        let start = self.source.offset();
        let slot = self.object.slot(index);
        let class = if slot.decode && !matches!(first, b'{' | b'[') {
            slot.start_text(first);
            let class = self.source.scalar(first, &mut slot.text)?;
            slot.text.finish();
            class
        } else {
            self.source.skip_value(&mut self.levels)?
        };
        slot.place = Some((class, start..self.source.offset()));
        Ok(())
    }

    /// Reads the rest of a member name; its index if the shape has it.
    #[inline]
    fn name(&mut self) -> Result<Option<usize>, Stop> {
        let window = self.source.window();
        let len = plain_len(window);
        let (name, rest) = window.split_at(len);
        if rest.first() == Some(&b'"') {
            let index = self.shape.index_of(name);
            self.source.advance(len + 1);
            return Ok(index);
        }
        self.spelled_name()
    }

    /// A name with escapes, or one that is split between two windows.
    #[cold]
    fn spelled_name(&mut self) -> Result<Option<usize>, Stop> {
        // A name longer than all routed ones is none of them; no more of it is kept.
        self.name.start(self.shape.longest_name_bytes());
        self.source.string(&mut self.name)?;
        self.name.finish();
        Ok(match self.name.collected() {
            Collected::Text(name) => self.shape.index_of(name),
            Collected::TooLong | Collected::Surrogate => None,
        })
    }
}
