//! Every planted bug of the gate's list is caught by the gate itself, by the layer that is named
//! beside it, and the same operations without the bug hold.

use std::fmt::Write as _;

use forkline_gate::selftest::{BUGS, Bug, Settings, run};

/// The list of gate.md, "Planted bugs the gate must catch", word by word.
const LIST: &str = "Renumbers copied seqs \u{b7} next seq one too low \u{b7} next seq from the \
    highest copied entry \u{b7} copies lists in branch scope \u{b7} drops lists in tree scope \
    \u{b7} revives elements from before a list delete \u{b7} emits superseded sets \u{b7} \
    applies a `seq \u{2264} tip` cutoff to application state \u{b7} does not check ancestry \
    \u{b7} checks ancestry against all branches \u{b7} `before` off by one \u{b7} keeps lane \
    state un-idled \u{b7} keeps `lastOperationId` \u{b7} copies a second lane \u{b7} drops \
    data-only branches \u{b7} drops unreachable entries \u{b7} copies labels of uncopied \
    entries \u{b7} copies `pi.result` \u{b7} copies the ledger \u{b7} counts all entries as \
    messages \u{b7} ignores unknown reserved state \u{b7} fails on dead reserved history \u{b7} \
    treats `pi2` as reserved \u{b7} includes half of a torn commit \u{b7} includes a torn commit \
    that parses \u{b7} repairs its source \u{b7} leaks the destination id on rejection \u{b7} \
    leaves a temp file \u{b7} lets a late commit in \u{b7} loses a commit admitted before \u{b7} \
    re-serializes numbers through a double \u{b7} drops unknown payload members \u{b7} reorders \
    rows \u{b7} rebuilds the branch index wrongly after divergence \u{b7} does not honour \
    `%`/`_` in a namespace prefilter.";

#[test]
fn every_bug_of_the_list_is_planted_and_no_other() {
    let listed: Vec<String> = LIST
        .trim_end_matches('.')
        .split(" \u{b7} ")
        .map(|bug| bug.replacen("Renumbers", "renumbers", 1))
        .collect();
    let planted: Vec<&str> = BUGS.iter().map(|bug| bug.sentence).collect();
    assert_eq!(listed, planted);
    let mut names: Vec<&str> = BUGS.iter().map(|bug| bug.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), BUGS.len(), "a name stands for one bug");
}

#[test]
fn every_planted_bug_is_caught() {
    let bugs: Vec<&'static Bug> = BUGS.iter().collect();
    let findings = run(&bugs, &Settings::default(), &|_| {}).unwrap();
    assert_eq!(findings.len(), BUGS.len());
    let mut missed = String::new();
    for finding in findings.iter().filter(|finding| !finding.is_caught()) {
        writeln!(missed, "{}: {:#?}", finding.bug.name, finding.outcome).unwrap();
    }
    assert!(missed.is_empty(), "{missed}");
}
