//! The line scanner reads what `serde_json` reads: verdicts, spans and decoded texts agree.
//!
//! The comparison is the one of `engines/tests/scan_differential.rs`, which also replays the
//! corpus. Sizes of reads come from the input's length, so that the corpus stays readable.

#![no_main]

#[path = "../../engines/tests/support/scan_reference.rs"]
mod scan_reference;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let sizes: &[u8] = match bytes.len() % 4 {
        0 => &[],
        1 => &[1],
        2 => &[3, 0, 7],
        _ => &[64, 1, 200],
    };
    let start_offset = u64::from(bytes.len() % 8 == 7);
    scan_reference::compare(bytes, start_offset, sizes);
});
