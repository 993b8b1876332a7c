//! Where the fixtures of tests are, and how they are read. All of it panics with what is missing:
//! a test must not pass because it found nothing.

use std::fs;
use std::path::{Path, PathBuf};

/// The fixtures: `FORKLINE_FIXTURES`, else a full set beside the project, else those that ship
/// with it.
pub fn fixtures() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    if let Some(named) = std::env::var_os("FORKLINE_FIXTURES") {
        let named = PathBuf::from(named);
        assert!(named.is_dir(), "FORKLINE_FIXTURES names no folder: {}", named.display());
        return named;
    }
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/fixtures");
    if beside.is_dir() { beside } else { own }
}

/// The variants of one sound file with one thing wrong in each.
pub fn damaged() -> PathBuf {
    let beside = fixtures().join("pi-0.87.1/damaged");
    if beside.is_dir() { beside } else { Path::new(env!("CARGO_MANIFEST_DIR")).join("damaged") }
}

/// One file of the fixtures. What is damaged among those that ship, stands in a folder of its own.
pub fn fixture(path: &str) -> PathBuf {
    let sound = fixtures().join(path);
    if sound.exists() {
        sound
    } else {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("damaged").join(path)
    }
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
