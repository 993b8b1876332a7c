//! The scanner and `serde_json` read the same lines the same way.
//!
//! What goes wrong otherwise: one reader of a file takes a member that another one overlooks
//! (repeated names, names with escapes), or a file that opens cannot be forked. `serde_json` is
//! right by definition (formats §1 is JSON); `support/scan_reference.rs` says how it is asked.

#[path = "support/scan_reference.rs"]
mod scan_reference;

use std::path::Path;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::FileFailurePersistence;
use scan_reference::compare;

/// Sizes of reads: single bytes, odd pieces, interruptions, everything at once.
fn read_sizes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(vec![1]),
        Just(vec![]),
        prop::collection::vec(prop_oneof![Just(0_u8), 1..5_u8, any::<u8>()], 1..6),
    ]
}

fn space() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => Just(String::new()),
        1 => "[ \t\r]{1,3}",
    ]
}

/// The inside of a JSON string: plain text of all lengths, escapes, halves of pairs.
fn string() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z ]{0,40}",
        1 => select(vec![r"\ud83dx\ude00", r"\ud83d\n\ude00", r"\ud83d\ud83d\ude00"])
            .prop_map(str::to_owned),
        1 => "[\u{80}-\u{10ffff}]{0,3}".prop_map(|text| text.replace(['"', '\\'], "")),
        1 => select(vec![
            r#"\""#, r"\\", r"\/", r"\b", r"\f", r"\n", r"\r", r"\t", r"\u0000", r"\u0041",
            r"\u00e9", r"\uFFFF", r"\ud83d", r"\ude00", r"\uD83D\uDE00", r"\u2028", "\u{7f}",
        ]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..5).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_filter("finite", |n| n.is_finite()).prop_map(|n| format!("{n:?}")),
        select(vec![
            "0",
            "-0",
            "5.0",
            "5e0",
            "50e-1",
            "1.10",
            "1E+400",
            "1e-400",
            "9007199254740993",
            "-1.5E-7",
            "12345678901234567890123",
        ])
        .prop_map(str::to_owned),
        (60..70_usize).prop_map(|len| "7".repeat(len)),
    ]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => select(vec![
            r#""a""#, r#""ab""#, r#""value""#, r#""""#, r#""parentId""#, r#""\u0061""#,
            r#""a\u0062""#, r#""v\u0061lue""#, "\"\u{e9}\u{1f600}\"", r#""\u00e9\ud83d\ude00""#,
            r#""\u00E9\uD83D""#, r#""abc""#, r#""A""#, r#""a\u0000""#,
            r#""a name that is longer than a word""#,
            r#""a name that is longer than a \u0077ord""#,
            r#""a name that is longer than a word!""#,
        ]).prop_map(str::to_owned),
        1 => string(),
    ]
}

fn joined(open: char, parts: &[String], close: char) -> String {
    format!("{open}{}{close}", parts.join(","))
}

fn spaced(part: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    (space(), part, space()).prop_map(|(before, part, behind)| before + &part + &behind)
}

fn object(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let member = (spaced(name()), spaced(value)).prop_map(|(name, value)| name + ":" + &value);
    prop_oneof![
        7 => prop::collection::vec(member, 0..6).prop_map(|parts| joined('{', &parts, '}')),
        1 => space().prop_map(|space| format!("{{{space}}}")),
    ]
}

fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        3 => string(),
        3 => number(),
        1 => select(vec!["true", "false", "null", "[]", "{}", "[ ]"]).prop_map(str::to_owned),
        1 => (1..200_usize).prop_map(|depth| "[".repeat(depth) + &"]".repeat(depth)),
        1 => (1..100_usize)
            .prop_map(|depth| r#"{"a":["#.repeat(depth) + "1" + &"]}".repeat(depth)),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        let array = prop::collection::vec(spaced(inner.clone()), 1..5)
            .prop_map(|parts| joined('[', &parts, ']'));
        prop_oneof![array, object(inner)]
    })
}

fn line() -> impl Strategy<Value = String> {
    let array = prop::collection::vec(spaced(object(value())), 0..5)
        .prop_map(|parts| joined('[', &parts, ']'));
    let good = prop_oneof![4 => object(value()), 2 => array];
    prop_oneof![
        12 => spaced(good),
        // Not all JSON is a line.
        1 => spaced(value()),
    ]
}

fn file() -> impl Strategy<Value = String> {
    let mark = prop_oneof![9 => Just(""), 1 => Just("\u{feff}")];
    (mark, prop::collection::vec(line(), 0..6))
        .prop_map(|(mark, lines)| lines.into_iter().fold(mark.to_owned(), |f, l| f + &l + "\n"))
}

const STRUCTURE: &[u8] = b"{}[]:,\"";

/// One change of a file's bytes; places are taken modulo its length.
#[derive(Debug, Clone)]
enum Change {
    Set(usize, u8),
    Insert(usize, Vec<u8>),
    Remove(usize, usize),
    Cut(usize),
    /// Puts another structural byte in the place of one.
    Confuse(usize, u8),
}

fn change() -> impl Strategy<Value = Change> {
    let byte = prop_oneof![
        3 => select(b"\"\\{}[]:,\n\r\t 0-+.eEtfnu".to_vec()),
        1 => any::<u8>(),
    ];
    let piece = prop_oneof![
        prop::collection::vec(byte.clone(), 1..4),
        select(vec![
            &b"\xef\xbb\xbf"[..],
            b"\xff",
            b"\xc3",
            b"\xed\xa0\x80",
            b"\xf0\x9f\x98",
            b"\xc0\x80",
            b"\0",
            b"\n\n",
            b"\n \n",
            b"{}",
            b"[]",
            b"null",
            b"01",
            b"\\u12",
            b"\\ud800",
            b"\x1f",
            b"\xe2\x80\xa8",
            b",",
            b"\"a\":1,",
            b"tru",
            b"-",
            b"1.",
            b"1e",
        ])
        .prop_map(<[u8]>::to_vec),
    ];
    prop_oneof![
        3 => (any::<usize>(), byte).prop_map(|(at, byte)| Change::Set(at, byte)),
        3 => (any::<usize>(), piece).prop_map(|(at, piece)| Change::Insert(at, piece)),
        2 => (any::<usize>(), 1..4_usize).prop_map(|(at, len)| Change::Remove(at, len)),
        1 => any::<usize>().prop_map(Change::Cut),
        3 => (any::<usize>(), select(STRUCTURE.to_vec()))
            .prop_map(|(at, byte)| Change::Confuse(at, byte)),
    ]
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    let len = bytes.len();
    let place = |at: usize| at % (len + 1);
    match change {
        Change::Set(at, byte) => {
            if let Some(place) = bytes.get_mut(place(*at)) {
                *place = *byte;
            }
        }
        Change::Insert(at, piece) => {
            bytes.splice(place(*at)..place(*at), piece.iter().copied());
        }
        Change::Remove(at, count) => {
            bytes.drain(place(*at)..(place(*at) + count).min(len));
        }
        Change::Cut(at) => bytes.truncate(place(*at)),
        Change::Confuse(at, byte) => {
            let count = bytes.iter().filter(|byte| STRUCTURE.contains(byte)).count();
            let mut structure = bytes.iter_mut().filter(|byte| STRUCTURE.contains(byte));
            if let Some(place) = structure.nth(at % count.max(1)) {
                *place = *byte;
            }
        }
    }
}

/// Random inputs, and a place beside this file for those that failed.
fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(1000))]
    #[test]
    fn agree_on_json(file in file(), sizes in read_sizes(), offset in 0..3_u64) {
        compare(file.as_bytes(), offset, &sizes);
    }

    #[test]
    fn agree_on_damaged_json(
        file in file(),
        changes in prop::collection::vec(change(), 1..4),
        sizes in read_sizes(),
        offset in 0..3_u64,
    ) {
        let mut bytes = file.into_bytes();
        for change in &changes {
            apply(&mut bytes, change);
        }
        compare(&bytes, offset, &sizes);
    }
}

proptest! {
    #![proptest_config(config(200))]

    /// Lines longer than the buffer, with something of interest where the buffer ends.
    #[test]
    fn agree_across_the_buffer(
        padding in 65_536 - 60..65_536_usize,
        line in line(),
        changes in prop::collection::vec(change(), 0..2),
        sizes in read_sizes(),
    ) {
        let mut bytes = line.into_bytes();
        for change in &changes {
            apply(&mut bytes, change);
        }
        let mut file = format!("{{\"a\":\"{}\"}}\n", "x".repeat(padding - 9)).into_bytes();
        file.extend(bytes);
        file.push(b'\n');
        compare(&file, 0, &sizes);
    }

    /// Decoded texts around their limit, in pieces of plain text and escapes.
    #[test]
    fn agree_on_long_texts(
        plain in 65_530..65_540_usize,
        escapes in prop::collection::vec(
            select(vec![r"\n", r"\u00e9", r"\ud83d\ude00", r"\ud800", r"\udc00", "\u{1f600}"]),
            0..4,
        ),
        is_first in any::<bool>(),
    ) {
        let plain = "x".repeat(plain.saturating_sub(escapes.len() * 3));
        let escapes = escapes.concat();
        let text = if is_first { escapes + &plain } else { plain + &escapes };
        compare(format!("{{\"a\":\"{text}\",\"ab\":1}}\n").as_bytes(), 0, &[]);
    }
}

/// The generator is worth its name: most files are good, and not empty.
#[test]
fn generated_files_are_mostly_good() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut good_files = 0;
    let mut lines = 0;
    for _ in 0..500 {
        let file = file().new_tree(&mut runner).expect("no filter runs dry").current();
        let reading = compare(file.as_bytes(), 0, &[]);
        good_files += usize::from(reading.bad_line.is_none());
        lines += reading.lines.len();
    }
    assert!(good_files > 250, "{good_files} good files");
    assert!(lines > 500, "{lines} good lines");
}

/// The saved corpus of the fuzz target, in the reads it asks for and in single bytes.
#[test]
fn agree_on_the_fuzz_corpus() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/line_scan");
    let mut count = 0;
    let mut good = 0;
    for file in std::fs::read_dir(folder).expect("the corpus is there") {
        let bytes = std::fs::read(file.expect("listed").path()).expect("readable");
        for sizes in [&[][..], &[1], &[3, 0, 7]] {
            let reading = compare(&bytes, 0, sizes);
            good += usize::from(reading.bad_line.is_none());
        }
        count += 1;
    }
    assert!(count >= 30, "{count} files");
    assert!(good > 0 && good < 3 * count, "good and bad files: {good} of {}", 3 * count);
}
