//! What the benchmarks share: sessions of a stated shape, and a count of heap bytes.
//!
//! Sessions are written as text, not through an engine: making a large one must not cost more
//! than forking it, and must not depend on what is measured.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

pub mod heap;
pub mod legacy;

/// The shape of a generated session.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Number of entries. Every 500th is a dead end beside the main path, every 2000th a
    /// compaction: SQLite's branch index copies the path back to the newest compaction at each
    /// divergence, so a session without any would measure that and nothing else.
    pub entries: u64,
    /// Bytes of text in each message.
    pub text_bytes: usize,
    /// Number of application values, each set twice.
    pub addresses: u64,
}

impl Shape {
    /// 100 000 entries, about 50 MB: the session that figures are quoted for.
    pub const LARGE: Self = Self { entries: 100_000, text_bytes: 270, addresses: 1_000 };
    /// The same kind of session, a hundredth of the size.
    pub const SMALL: Self = Self { entries: 1_000, text_bytes: 270, addresses: 10 };
}

/// The id of a generated session.
pub const SESSION: &str = "generated";
/// Its working directory.
pub const CWD: &str = "/generated";

/// Writes a format-4 session file below `root`, where a repository finds it, and returns its
/// path.
///
/// # Errors
/// What writing gives.
pub fn write_jsonl(root: &Path, shape: Shape) -> io::Result<PathBuf> {
    let folder = root.join("--generated--");
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(format!("2023-11-14T22-13-20-000Z_{SESSION}.jsonl"));
    let mut lines = Lines { out: BufWriter::new(File::create(&path)?), seq: 0 };
    writeln!(
        lines.out,
        "{{\"v\":4,\"kind\":\"header\",\"id\":\"{SESSION}\",\"storageVersion\":1,\
         \"createdAt\":1700000000000,\"cwd\":\"{CWD}\"}}"
    )?;
    lines.value("pi.branch.tip", "main", "null")?;
    lines.value("pi.lane.config", "main", r#"{"thinkingLevel":"off","activeToolNames":[]}"#)?;
    lines.value(
        "pi.lane.state",
        "main",
        r#"{"currentOperationId":null,"lastOperationId":null,"inbox":[]}"#,
    )?;
    for round in 0..2 {
        for key in 0..shape.addresses {
            lines.value("app.state", &format!("key-{key}"), &format!("{{\"round\":{round}}}"))?;
        }
    }
    let text = "The quick brown fox jumps over the lazy dog. ".repeat(shape.text_bytes / 45 + 1);
    let text = text.get(..shape.text_bytes).unwrap_or(&text);
    let mut tip = "null".to_owned();
    for n in 0..shape.entries {
        let id = format!("018bcfe5-6800-7000-8000-{n:012x}");
        if n % 2000 == 1999 {
            lines.entry(&id, &tip, "compaction", r#""summary":"so far","tokensBefore":1"#)?;
        } else {
            let message = format!(
                "\"message\":{{\"role\":\"user\",\"content\":[{{\"type\":\"text\",\
                 \"text\":\"{text}\"}}]}}"
            );
            lines.entry(&id, &tip, "message", &message)?;
        }
        if n % 500 != 250 {
            tip = format!("\"{id}\"");
            lines.value("pi.branch.tip", "main", &tip)?;
        }
    }
    lines.out.flush()?;
    Ok(path)
}

/// Writes one-write lines with rising seqs.
struct Lines {
    out: BufWriter<File>,
    seq: u64,
}

impl Lines {
    fn value(&mut self, namespace: &str, key: &str, value: &str) -> io::Result<()> {
        self.seq += 1;
        let seq = self.seq;
        writeln!(
            self.out,
            "{{\"kind\":\"value\",\"op\":\"set\",\"seq\":{seq},\"namespace\":\"{namespace}\",\
             \"key\":\"{key}\",\"value\":{value}}}"
        )
    }

    fn entry(&mut self, id: &str, parent: &str, kind: &str, payload: &str) -> io::Result<()> {
        self.seq += 1;
        let seq = self.seq;
        writeln!(
            self.out,
            "{{\"kind\":\"entry\",\"id\":\"{id}\",\"parentId\":{parent},\"type\":\"{kind}\",\
             {payload},\"seq\":{seq},\"timestamp\":1700000000000}}"
        )
    }
}

/// Bytes as MiB with one digit.
pub fn mib(bytes: u64) -> String {
    let mut text = String::new();
    let tenths = bytes * 10 / (1024 * 1024);
    let _ = write!(text, "{}.{} MiB", tenths / 10, tenths % 10);
    text
}
