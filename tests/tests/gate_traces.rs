//! Everything that was ever found, and what the contract pins, holds on every engine.

use std::path::Path;

use forkline_gate::gate::{load, replay, to_text};

#[test]
fn every_trace_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 9, "traces are never removed");
    let mut failures = Vec::new();
    for path in &paths {
        let trace = load(path).unwrap();
        assert!(!trace.about.is_empty(), "{}: says nothing about itself", path.display());
        let work = tempfile::tempdir().unwrap();
        if let Err(violation) = replay(&trace, path, work.path()).unwrap() {
            failures.push(format!("{}\n  {violation}", path.display()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_trace_is_written_as_it_is_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    for entry in std::fs::read_dir(folder).unwrap() {
        let trace = load(&entry.unwrap().path()).unwrap();
        let again: forkline_model::Trace = serde_json::from_str(&to_text(&trace)).unwrap();
        assert_eq!(trace, again);
    }
}
