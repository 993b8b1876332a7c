//! The generator of random sessions keeps reaching the shapes that the properties are about.
//!
//! A property over sessions that are all alike holds and says nothing. The runner is seeded, so
//! the counts change only when the generator does.

mod support;

use std::collections::BTreeMap;

use forkline_model::{ForkOptions, LaneAudit, fork::plan, lanes, policy::LaneShape};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use support::{History, history, id};

/// The generator is what all properties stand on: none of these shapes may stop to come up.
#[test]
fn the_generator_reaches_the_shapes_that_matter() {
    let mut runner = TestRunner::deterministic();
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for _ in 0..500 {
        let History { state, .. } = history().new_tree(&mut runner).unwrap().current();
        let lanes = lanes::lanes(&state);
        let shape = |wanted: fn(&LaneShape) -> bool| lanes.iter().any(|l| wanted(&l.shape()));
        let roots = state.entries().values().filter(|entry| entry.parent.is_none()).count();
        let tips: Vec<_> = lanes.iter().filter_map(|lane| state.tip(&lane.branch).ok()).collect();
        let forks = support::branch_options(&state);
        let legal = |options: &&ForkOptions| plan(&state, options, LaneAudit::Selected).is_ok();
        let depths = state.entries().values().map(|entry| state.ancestry(&entry.id).len());
        let depth = depths.max().unwrap_or_default();
        for (what, holds) in [
            ("several roots", roots > 1),
            ("deep", depth >= 20),
            (
                "complete lanes",
                lanes.iter().filter(|l| l.shape() == LaneShape::Complete).count() > 1,
            ),
            ("data-only", shape(|shape| *shape == LaneShape::DataOnly)),
            ("partial", shape(|shape| matches!(shape, LaneShape::Partial(_)))),
            ("null tip", tips.contains(&None)),
            ("missing tip", tips.contains(&Some(id("missing")))),
            ("lists", !state.lists().is_empty()),
            ("ledger", !state.ledger().is_empty()),
            ("tree fork", plan(&state, &ForkOptions::tree(), LaneAudit::Selected).is_ok()),
            ("strict tree fork", plan(&state, &ForkOptions::tree(), LaneAudit::Strict).is_ok()),
            ("branch fork", forks.iter().any(|options| legal(&options))),
            ("refused fork", !forks.iter().all(|options| legal(&options))),
            ("empty", state.next_seq() == 1),
        ] {
            *counts.entry(what).or_default() += u32::from(holds);
        }
    }
    let floor = |what: &str| if what == "empty" { 5 } else { 25 };
    let scarce: Vec<_> = counts.iter().filter(|(what, count)| **count < floor(what)).collect();
    assert!(scarce.is_empty(), "too rare: {scarce:?} in {counts:?}");
}
