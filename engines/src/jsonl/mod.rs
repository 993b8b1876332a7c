//! Sessions as JSONL files, format 4 (formats §1).

/// A folder of JSONL session files.
pub struct JsonlRepo;
