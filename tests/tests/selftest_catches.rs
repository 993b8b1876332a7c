//! Every planted bug of gate.md is caught by the gate.

use forkline_gate::gate::Options;
use forkline_gate::selftest::{BUGS, CASES_MAX, hunt};

#[test]
fn every_planted_bug_is_caught() {
    let options = Options { cases: CASES_MAX, ..Options::default() };
    let mut missed = Vec::new();
    for bug in &BUGS {
        let verdict = hunt(bug, &options).unwrap();
        let layer = verdict.layer().map_or("nothing", |layer| layer.name());
        println!("{:28} {:14} {layer:8} {:5} {:?}", bug.name, bug.engine.name(), verdict.cases, verdict.elapsed);
        if !verdict.is_caught(bug) {
            missed.push((bug.name, verdict.violation.map(|found| found.to_string())));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}
