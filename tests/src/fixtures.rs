//! Where the fixtures of tests are, and how they are read. All of it panics with what is missing:
//! a test must not pass because it found nothing.

use std::fs;
use std::path::{Path, PathBuf};

/// What the fixtures that ship leave out for its size.
const LARGE: [&str; 3] = [
    "real/v1-pi-mono-glued-line-440.jsonl",
    "real/v3-agent-ide-bad-escape-line-44.jsonl",
    "real/v3-trl-163-lines.jsonl",
];

fn own() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// Damaged files that ship, by the folder of the fixtures that they are of.
fn own_damaged() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("damaged")
}

/// The fixtures: `FORKLINE_FIXTURES`, else a full set beside the project, else those that ship
/// with it.
pub fn fixtures() -> PathBuf {
    if let Some(named) = std::env::var_os("FORKLINE_FIXTURES") {
        let named = PathBuf::from(named);
        assert!(named.is_dir(), "FORKLINE_FIXTURES names no folder: {}", named.display());
        return named;
    }
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/fixtures");
    if beside.is_dir() { beside } else { own() }
}

/// The variants of one sound file with one thing wrong in each.
pub fn damaged() -> PathBuf {
    let beside = fixtures().join("pi-0.87.1/damaged");
    if beside.is_dir() { beside } else { own_damaged() }
}

/// One file of the fixtures. What is damaged among those that ship, stands in a folder of its own.
pub fn fixture(path: &str) -> PathBuf {
    let sound = fixtures().join(path);
    if sound.exists() { sound } else { own_damaged().join(path) }
}

/// The same, and `None` for one that is too large to ship where there are only those that do.
pub fn fixture_unless_large(path: &str) -> Option<PathBuf> {
    let is_left_out = LARGE.contains(&path) && fixtures() == own();
    (!is_left_out).then(|| fixture(path))
}

/// The folders of one part of the fixtures: of all files, and of the damaged ones that ship.
pub fn folders(part: &str) -> [PathBuf; 2] {
    [fixtures().join(part), own_damaged().join(part)]
}

/// The files of a folder whose names end so, sorted; at least one, or the test fails.
pub fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let listing = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("cannot list {}: {error}", folder.display()));
    let mut found: Vec<PathBuf> = listing
        .map(|item| item.expect("a folder can be listed to its end").path())
        .filter(|path| name(path).ends_with(ending))
        .collect();
    found.sort();
    assert!(!found.is_empty(), "no *{ending} in {}", folder.display());
    found
}

/// The name of a file.
pub fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).expect("fixtures have names in ASCII")
}

/// The bytes of a file.
pub fn bytes(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}
