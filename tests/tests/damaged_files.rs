//! Each variant of one sound file with one thing wrong gets the verdict of formats §1.
//!
//! The verdicts stand here by name and were read off the specification, not off any program:
//! a reader that becomes more lenient, or blames another line, fails. Sound variants are those
//! that no list names.

use std::collections::BTreeMap;

use forkline_gate::fixtures::{bytes, damaged, files, name};
use forkline_gate::plain::{Concerns, Damage, jsonl};

/// Refused by open and by every fork, with the line.
const REFUSED: [(&str, u64); 49] = [
    ("blank-first-line", 1),
    ("blank-line-at-the-end", 5),
    ("blank-line-in-the-middle", 3),
    ("empty-file", 1),
    ("entry-with-a-negative-timestamp", 5),
    ("entry-without-id", 5),
    ("entry-without-parentid", 5),
    ("entry-without-timestamp", 5),
    ("falling-seq", 5),
    ("falling-seq-among-single-write-lines", 5),
    ("falling-seq-inside-a-transaction", 5),
    ("header-createdat-fraction", 1),
    ("header-createdat-negative", 1),
    ("header-is-an-array", 1),
    ("header-nextseq-0", 1),
    ("header-nextseq-null", 1),
    ("header-parentsessionid-null", 1),
    ("header-storageversion-0", 1),
    ("header-storageversion-2", 1),
    ("header-v-3", 1),
    ("header-v-5", 1),
    ("header-v-as-text", 1),
    ("header-without-cwd", 1),
    ("header-without-kind", 1),
    ("header-without-newline", 1),
    ("invalid-utf-8-inside-a-string", 2),
    ("line-of-spaces-in-the-middle", 3),
    ("missing-seq", 5),
    ("nested-array-line", 3),
    ("nul-byte-inside-a-string", 3),
    ("nul-bytes-as-a-line", 3),
    ("null-line", 3),
    ("number-line", 3),
    ("repeated-seq", 4),
    ("second-header-line", 2),
    ("seq-above-2-53-1", 5),
    ("seq-as-text", 5),
    ("seq-fraction", 5),
    ("seq-zero", 2),
    ("set-without-a-value", 5),
    ("two-objects-on-one-line", 3),
    ("unknown-kind", 5),
    ("unknown-list-op", 5),
    ("unknown-value-op", 5),
    ("value-with-an-empty-namespace", 5),
    ("value-with-nul-in-its-key", 5),
    ("value-without-key", 5),
    ("value-without-namespace", 5),
    ("raw-spelling", 10),
];

/// Refused by open, and by a fork that would copy or walk the place.
const REFUSED_WHERE_COPIED: [(&str, u64); 6] = [
    ("entry-that-is-its-own-parent", 5),
    ("missing-parent", 5),
    ("parent-later-in-the-same-transaction", 5),
    ("repeated-entry-id", 5),
    ("usage-id-equal-to-an-entry-id", 5),
    ("usage-row-without-usage", 5),
];

#[test]
fn the_plain_reader_gives_the_verdicts_of_the_specification() {
    let fatal: BTreeMap<_, _> = REFUSED.into();
    let lesser: BTreeMap<_, _> = REFUSED_WHERE_COPIED.into();
    let (mut sound, mut refused) = (0, 0);
    for file in files(&damaged(), ".jsonl") {
        let variant = name(&file).trim_end_matches(".jsonl");
        if variant.contains(".fork-") || variant.contains(".after-open") {
            continue;
        }
        let read = jsonl::read(&bytes(&file));
        let expected = match (fatal.get(variant), lesser.get(variant)) {
            (None, None) => None,
            (Some(line), _) => Some((Some(*line), Concerns::OpenAndFork)),
            (_, Some(line)) => Some((Some(*line), Concerns::OpenAndSomeForks { fork_line: None })),
        };
        let verdict = |damage: &Damage| (damage.line, damage.concerns);
        assert_eq!(read.as_ref().err().map(verdict), expected, "{variant}: {:?}", read.err());
        *(if expected.is_some() { &mut refused } else { &mut sound }) += 1;
    }
    assert!(sound >= 25 && refused >= 54, "{sound} sound, {refused} refused");
}
