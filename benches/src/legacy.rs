//! A generated legacy session whose compactions keep parts that overlap.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use super::{CWD, SESSION};

/// How many compactions there are.
pub const COMPACTIONS: u64 = 50;

/// How many of the parts between two compactions each one keeps.
const PARTS_KEPT: u64 = 3;

/// Bytes of text in each message.
const TEXT_BYTES: usize = 4_000;

const TIME: &str = "\"timestamp\":\"2024-03-01T09:00:00.000Z\"";

/// Writes a version 3 session of about `mib` MiB below `root`, where a repository finds it, and
/// returns its path. Every fiftieth part of it ends with a compaction that keeps this part and
/// the two before, so that most messages stand in three retained tails.
///
/// # Errors
/// What writing gives.
pub fn write_legacy(root: &Path, mib: u64) -> io::Result<PathBuf> {
    let folder = root.join("--generated--");
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(format!("2024-03-01T09-00-00-000Z_{SESSION}.jsonl"));
    let mut out = BufWriter::new(File::create(&path)?);
    writeln!(
        out,
        "{{\"type\":\"session\",\"version\":3,\"id\":\"{SESSION}\",{TIME},\"cwd\":\"{CWD}\"}}\n\
         {{\"type\":\"model_change\",\"id\":\"m\",\"parentId\":null,{TIME},\
         \"provider\":\"p\",\"modelId\":\"m\"}}\n\
         {{\"type\":\"thinking_level_change\",\"id\":\"t\",\"parentId\":\"m\",{TIME},\
         \"thinkingLevel\":\"off\"}}"
    )?;
    let text = "The quick brown fox jumps over the lazy dog. ".repeat(TEXT_BYTES / 45);
    let part = (mib * 1024 * 1024 / COMPACTIONS / (TEXT_BYTES as u64 + 150)).max(1);
    let mut parent = "t".to_owned();
    for n in 0..COMPACTIONS * part {
        writeln!(
            out,
            "{{\"type\":\"message\",\"id\":\"r{n}\",\"parentId\":\"{parent}\",{TIME},\
             \"message\":{{\"role\":\"user\",\"content\":[{{\"type\":\"text\",\
             \"text\":\"{text}\"}}]}}}}"
        )?;
        parent = format!("r{n}");
        if (n + 1) % part == 0 {
            let first = (n + 1).saturating_sub(PARTS_KEPT * part);
            writeln!(
                out,
                "{{\"type\":\"compaction\",\"id\":\"c{n}\",\"parentId\":\"{parent}\",{TIME},\
                 \"summary\":\"so far\",\"firstKeptEntryId\":\"r{first}\",\"tokensBefore\":1}}"
            )?;
            parent = format!("c{n}");
        }
    }
    out.flush()?;
    Ok(path)
}
