//! Spilled records come back complete and in order, within the budget.
//!
//! What goes wrong otherwise: an index that lost or swapped a record makes a fork that lost or
//! swapped an entry, and only for inputs that are too large to look at. Budgets of a few
//! records force here what takes millions of them in practice.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use forkline_engines::spill::{Sorter, Tape, Usage};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

const W: usize = 6;

/// Smallest budget that is kept to, for records of `W` bytes.
const BUDGET_BYTES_MIN: usize = 16 * (W + 64);

fn records(count: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = Vec<[u8; W]>> {
    let record = prop_oneof![
        // Few different ones, so that they repeat.
        prop::array::uniform6(0..2_u8),
        any::<[u8; W]>(),
    ];
    prop::collection::vec(record, count)
}

fn budget() -> impl Strategy<Value = usize> {
    prop_oneof![Just(0), BUDGET_BYTES_MIN..4 * BUDGET_BYTES_MIN, Just(64 * 1024)]
}

fn sorted(dir: &Path, budget: usize, records: &[[u8; W]]) -> (Vec<[u8; W]>, Usage) {
    let mut pile = Sorter::<W>::new(dir, budget);
    for record in records {
        pile.push(*record).expect("room on disk");
    }
    assert_eq!(pile.len(), records.len() as u64);
    let sorted = pile.finish().expect("room on disk");
    assert_eq!(sorted.remaining(), records.len() as u64);
    let usage = sorted.usage();
    (sorted.map(|record| record.expect("readable")).collect(), usage)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn sorter_sorts_within_its_budget(records in records(0..6000), budget in budget()) {
        let dir = tempfile::tempdir()?;
        let (found, usage) = sorted(dir.path(), budget, &records);
        let mut expected = records.clone();
        expected.sort_unstable();
        prop_assert_eq!(found, expected);
        let bytes = (records.len() * W) as u64;
        prop_assert!(usage.ram_bytes_peak <= budget.max(BUDGET_BYTES_MIN), "{:?}", usage);
        prop_assert!(usage.disk_bytes_peak <= 2 * bytes, "{:?}", usage);
        if records.len() * W <= budget / 8 * 6 {
            prop_assert_eq!(usage.disk_bytes_written, 0);
        }
        // Nothing has a name, even while it is in use.
        prop_assert_eq!(fs::read_dir(dir.path())?.count(), 0);
    }

    #[test]
    fn tape_gives_back_both_ways(
        parts in prop::collection::vec((records(0..1000), any::<bool>()), 0..5),
        budget in budget(),
    ) {
        let dir = tempfile::tempdir()?;
        let mut tape = Tape::<W>::new(dir.path(), budget);
        let mut expected = Vec::new();
        for (part, is_backward) in parts {
            for record in part {
                tape.push(record)?;
                expected.push(record);
            }
            prop_assert_eq!(tape.len(), expected.len() as u64);
            // Reading changes nothing, so pushing goes on behind it.
            if is_backward {
                let found: Vec<_> = tape.backward().collect::<Result<_, _>>()?;
                prop_assert!(found.iter().eq(expected.iter().rev()));
            } else {
                let found: Vec<_> = tape.forward().collect::<Result<_, _>>()?;
                prop_assert_eq!(&found, &expected);
            }
            let usage = tape.usage();
            prop_assert!(usage.ram_bytes_peak <= budget.max(BUDGET_BYTES_MIN), "{:?}", usage);
            prop_assert!(usage.disk_bytes_written <= (expected.len() * W) as u64);
            if expected.len() * W <= budget / 2 {
                prop_assert_eq!(usage.disk_bytes_written, 0);
            }
        }
        prop_assert_eq!(fs::read_dir(dir.path())?.count(), 0);
    }
}

/// The small budgets do force what they are there for.
#[test]
fn small_budgets_force_several_passes() {
    let dir = tempfile::tempdir().expect("a folder");
    let records: Vec<[u8; W]> = (0..20_000_u16)
        .map(|n| {
            let [high, low] = n.wrapping_mul(40_503).to_be_bytes();
            [0, high, low, 0, 0, 0]
        })
        .collect();
    let (_, usage) = sorted(dir.path(), 0, &records);
    let bytes = (records.len() * W) as u64;
    assert!(usage.disk_bytes_written >= 3 * bytes, "{usage:?}");
    assert_eq!(usage.disk_bytes_peak, 2 * bytes);

    let (_, usage) = sorted(dir.path(), 16 * 1024, &records);
    assert_eq!(usage.disk_bytes_written, bytes, "one pass: {usage:?}");
}

/// A folder that is not there is no matter until it is needed, and then an error.
#[test]
fn missing_folder_fails_only_when_needed() {
    let dir = tempfile::tempdir().expect("a folder");
    let missing = dir.path().join("missing");
    let mut sorter = Sorter::<W>::new(&missing, 0);
    let mut tape = Tape::<W>::new(&missing, 0);
    sorter.push([1; W]).expect("in RAM");
    tape.push([1; W]).expect("in RAM");
    let push_until_error = |push: &mut dyn FnMut() -> Option<ErrorKind>| {
        (0..10_000).find_map(|_| push()).expect("the budget is small")
    };
    let kind = push_until_error(&mut || sorter.push([2; W]).err().map(|error| error.io_kind()));
    assert_eq!(kind, ErrorKind::NotFound);
    let kind = push_until_error(&mut || tape.push([2; W]).err().map(|error| error.io_kind()));
    assert_eq!(kind, ErrorKind::NotFound);
    let len = tape.len();
    assert_eq!(tape.forward().count() as u64, len, "what was pushed is still there");
}
