//! Every tree of up to two entries, forked at every point, in every scope and position, by every
//! pair of engines. `forkline gate --exhaustive` goes up to five entries.

use forkline_gate::gate::{InTurn, Options, exhaustive};
use forkline_gate::lineup::EngineKind;

#[test]
fn every_fork_of_every_small_tree_is_the_models() {
    let engines = EngineKind::ALL;
    let options = Options::default();
    let roster = InTurn(engines.to_vec());
    let outcome = exhaustive(2, engines.len(), &options, &roster, &|| ()).unwrap();
    if let Some(failure) = outcome.failure {
        panic!("tree {}: {}", failure.case, failure.violation);
    }
    // One tree without entries, one with one, two with two; each by all pairs of engines.
    assert_eq!(outcome.tally.cases, 4 * 16);
    assert_eq!(outcome.tally.pairs.len(), 16);
    // One tree fork, and for each of n + 1 lanes n + 1 points in two positions.
    let asked = outcome.tally.operations.get("fork").copied();
    assert_eq!(asked, Some(16 * ((1 + 2) + (1 + 2 * 4) + 2 * (1 + 2 * 9))));
}
