//! Where the real files stand that existing writers made.
//!
//! `FORKLINE_FIXTURES` names the folder of all of them. Without it, the small ones in the
//! repository are used. A test that finds none fails.

use std::path::{Path, PathBuf};

/// The folder of the fixtures, or of a part of them.
pub(crate) fn fixtures(part: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let places = [
        std::env::var_os("FORKLINE_FIXTURES").map(PathBuf::from),
        Some(root.join("../../shared/fixtures")),
        Some(root.join("../tests/fixtures")),
    ];
    let mut found = places.into_iter().flatten().map(|place| place.join(part));
    let found = found.find(|at| at.is_dir()).or_else(|| {
        // The variants with damage ship beside the sound files: those are all to be verified.
        let is_damaged = part == "pi-0.87.1/damaged";
        is_damaged.then(|| root.join("../tests/damaged")).filter(|at| at.is_dir())
    });
    found.unwrap_or_else(|| panic!("no fixtures {part}: set FORKLINE_FIXTURES to their folder"))
}

/// A manifest, as JSON.
pub(crate) fn manifest(folder: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(folder.join("manifest.json")).expect("a manifest");
    serde_json::from_str(&text).expect("a manifest is JSON")
}
