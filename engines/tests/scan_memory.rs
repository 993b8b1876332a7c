//! The scanner's heap does not depend on its lines (architecture, "What may cost what").
//!
//! What goes wrong otherwise: a line of 1 GiB or a deep payload takes the process down. The
//! inputs are made on the fly, so what is counted is the scanner's own.

#[path = "support/counting_alloc.rs"]
mod counting_alloc;

use std::io::{self, Read};

use forkline_engines::scan::{Item, Member, Reason, Scan, ScanError, Shape};

#[global_allocator]
static HEAP: counting_alloc::CountingAlloc = counting_alloc::CountingAlloc::new();

static SHAPE: Shape = Shape::new(&[
    Member::decoded("id"),
    Member::decoded("namespace"),
    Member::decoded("key"),
    Member::decoded("seq"),
    Member::placed("value"),
]);

const MIB: usize = 1024 * 1024;

/// 2.5 MiB, of which 1.5 are the bit stack while it grows; a fork has 8.
const HEAP_BYTES_LIMIT: usize = 5 * MIB / 2;

/// A file made of parts that repeat.
struct Parts {
    parts: Vec<(&'static [u8], usize)>,
    at: usize,
}

impl Parts {
    /// Parts with their number of repetitions, in order.
    fn new(parts: &[(&'static str, usize)]) -> Self {
        let mut parts: Vec<_> = parts.iter().map(|&(part, n)| (part.as_bytes(), n)).collect();
        parts.reverse();
        Self { parts, at: 0 }
    }
}

impl Read for Parts {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut count = 0;
        while let Some((part, left)) = self.parts.last_mut() {
            if *left == 0 {
                self.parts.pop();
                continue;
            }
            let rest = &part[self.at..];
            let taken = rest.len().min(buffer.len() - count);
            buffer[count..count + taken].copy_from_slice(&rest[..taken]);
            count += taken;
            if taken < rest.len() {
                self.at += taken;
                break;
            }
            self.at = 0;
            *left -= 1;
        }
        Ok(count)
    }
}

/// Scans; gives the counts of objects and of lines.
fn scan(parts: Parts) -> Result<(usize, usize), ScanError> {
    let mut scan = Scan::new(parts, 0, &SHAPE);
    let (mut objects, mut lines) = (0, 0);
    while let Some(item) = scan.next()? {
        match item {
            Item::Object(_) => objects += 1,
            Item::Line { .. } => lines += 1,
        }
    }
    Ok((objects, lines))
}

fn check(name: &str, parts: &[(&'static str, usize)], expected: (usize, usize)) -> usize {
    let parts = Parts::new(parts);
    let (found, peak_bytes) = HEAP.peak_of(|| scan(parts));
    assert_eq!(found.expect("a good file"), expected, "{name}");
    assert!(peak_bytes <= HEAP_BYTES_LIMIT, "{name}: {peak_bytes} bytes");
    peak_bytes
}

#[test]
fn heap_does_not_depend_on_the_lines() {
    let short = check("a short line", &[("{\"id\":\"a\",\"value\":\"x\"}\n", 1)], (1, 1));
    for (name, parts, expected) in [
        (
            "skipped text",
            &[("{\"value\":\"", 1), ("0123456789abcdef", 4 * MIB), ("\"}\n", 1)],
            (1, 1),
        ),
        ("skipped number", &[("{\"value\":", 1), ("1234567890", MIB), ("}\n", 1)], (1, 1)),
        ("spaces", &[("{", 1), ("        ", MIB), ("}\n", 1)], (1, 1)),
        ("long name", &[("{\"id", 1), ("\\u0061bcdefghij", MIB), ("\":1}\n", 1)], (1, 1)),
        ("many names", &[("{", 1), ("\"id\":1,\"x\":[{},{}],", MIB), ("\"a\":0}\n", 1)], (1, 1)),
        (
            "a commit of a million writes",
            &[("[", 1), ("{\"id\":\"a\",\"value\":[]},", 1_000_000), ("{}]\n", 1)],
            (1_000_001, 1),
        ),
    ] {
        let peak_bytes = check(name, parts, expected);
        assert!(peak_bytes <= short + 1024, "{name}: {peak_bytes} bytes, a short line {short}");
    }
    // What is decoded is kept up to its limit.
    for id in ["\"id\":\"", "\"seq\":1,\"id\":\"\\n"] {
        let parts = &[("{", 1), (id, 1), ("0123456789abcdef", MIB), ("\"}\n", 1)];
        let peak_bytes = check("decoded text", parts, (1, 1));
        assert!(peak_bytes <= short + 128 * 1024, "decoded text: {peak_bytes} bytes");
    }
    let deep = 5_000_000;
    check("deep arrays", &[("{\"value\":", 1), ("[", deep), ("]", deep), ("}\n", 1)], (1, 1));
    let objects = &[("{\"x\":", deep), ("{}", 1), ("}", deep), ("\n", 1)];
    check("deep objects", objects, (1, 1));

    let too_deep = Parts::new(&[("{\"value\":", 1), ("[", 9_000_000)]);
    let (found, peak_bytes) = HEAP.peak_of(|| scan(too_deep));
    let error = found.expect_err("one level too many");
    assert_eq!(error.reason(), Some(Reason::TooDeep));
    assert_eq!(error.offset(), 9 + 8 * 1024 * 1024);
    assert!(peak_bytes <= HEAP_BYTES_LIMIT, "too deep: {peak_bytes} bytes");
}
