//! What holds for the fork of any session (contract §3).
//!
//! A fork that passes its examples can still depend on the order of rows, on what was deleted, or
//! on a lane next to the one that is forked. Each property here is a sentence of the contract
//! over random sessions, restated without the code that computes a fork.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use forkline_model::{
    Entry, EntryId, ErrorKind, ForkOptions, LaneAudit, Metadata, Seq, State, StoreKind, Write,
    fork::fork,
    lanes::{self, lanes},
    policy::{self, LaneShape},
};
use proptest::prelude::*;
use proptest::sample::Index;
use support::{birth, branch_options, history, millis};

fn forked(source: &State, options: &ForkOptions) -> Result<State, ErrorKind> {
    fork(source, options, LaneAudit::Selected, birth("fork")).map_err(|error| error.kind())
}

/// A random session and one way to fork it, legal or not.
fn source_and_options() -> impl Strategy<Value = (State, ForkOptions)> {
    (history(), any::<Index>(), prop::bool::weighted(0.3)).prop_map(|(history, index, tree)| {
        let all = branch_options(&history.state);
        let options =
            if tree || all.is_empty() { ForkOptions::tree() } else { index.get(&all).clone() };
        (history.state, options)
    })
}

/// Everything but the metadata.
fn content(state: &State) -> impl PartialEq + std::fmt::Debug + use<> {
    (
        state.next_seq(),
        state.entries().clone(),
        state.values().clone(),
        state.lists().clone(),
        state.ledger().clone(),
    )
}

fn seqs(state: &State) -> BTreeSet<Seq> {
    let values = state.values().values().map(|(seq, _)| *seq);
    let elements = state.lists().values().flat_map(|list| list.keys().copied());
    state.entries().keys().copied().chain(values).chain(elements).collect()
}

/// The path to the root by following parents one by one.
fn path(state: &State, tip: Option<&str>) -> Vec<Entry> {
    let by_id: BTreeMap<&str, &Entry> =
        state.entries().values().map(|entry| (entry.id.as_str(), entry)).collect();
    let mut path = Vec::new();
    let mut next = tip;
    while let Some(entry) = next.and_then(|id| by_id.get(id)) {
        path.push((*entry).clone());
        next = entry.parent.as_ref().map(EntryId::as_str);
    }
    path
}

proptest! {
    #[test]
    fn a_tree_fork_of_a_tree_fork_equals_it(history in history()) {
        if let Ok(first) = forked(&history.state, &ForkOptions::tree()) {
            let second = forked(&first, &ForkOptions::tree()).expect("nothing failed the first");
            prop_assert_eq!(content(&first), content(&second));
        }
    }

    #[test]
    fn a_branch_fork_of_a_tree_fork_equals_that_of_its_source(history in history()) {
        let Ok(tree) = forked(&history.state, &ForkOptions::tree()) else { return Ok(()) };
        for options in branch_options(&history.state) {
            let direct = forked(&history.state, &options).map(|state| content(&state));
            let through = forked(&tree, &options).map(|state| content(&state));
            prop_assert_eq!(direct, through, "{:?}", options);
        }
    }

    #[test]
    fn no_seq_is_used_twice((source, options) in source_and_options()) {
        let ever_used = source.next_seq();
        if let Ok(mut fork) = forked(&source, &options) {
            prop_assert_eq!(fork.next_seq(), ever_used);
            prop_assert!(seqs(&fork).is_subset(&seqs(&source)));
            let write = Write::delete("app", "k").unwrap();
            let committed = fork.apply(&[write.clone(), write], millis(9)).unwrap();
            prop_assert_eq!(committed.first_seq.map(Seq::get), Some(ever_used));
            prop_assert_eq!(fork.next_seq(), ever_used + 2);
        }
    }

    #[test]
    fn copied_rows_are_the_sources_own((source, options) in source_and_options()) {
        if let Ok(fork) = forked(&source, &options) {
            for (seq, entry) in fork.entries() {
                prop_assert_eq!(source.entries().get(seq), Some(entry));
            }
            for (address, elements) in fork.lists() {
                prop_assert_eq!(source.lists().get(address), Some(elements));
            }
            for (address, (seq, _)) in fork.values() {
                prop_assert_eq!(Some(seq), source.values().get(address).map(|(seq, _)| seq));
            }
        }
    }

    #[test]
    fn a_fork_carries_no_costs_and_no_operation((source, options) in source_and_options()) {
        if let Ok(fork) = forked(&source, &options) {
            prop_assert!(fork.ledger().is_empty());
            let messages = fork.entries().values().filter(|entry| entry.is_message()).count();
            prop_assert_eq!(fork.stats().message_count, messages as u64);
            prop_assert_eq!(fork.stats().usage, forkline_model::Usage::default());
            for at in fork.values().keys().chain(fork.lists().keys()) {
                for transient in ["pi.op.", "pi.pending.", "pi.result"] {
                    prop_assert!(!at.namespace.as_str().starts_with(transient), "{:?}", at);
                }
            }
            for lane in lanes(&fork) {
                if let Some((_, state)) = lane.state {
                    prop_assert_eq!(state, policy::idle_state());
                }
            }
            let labels = fork.values().keys().filter(|at| {
                at.namespace.as_str() == policy::ENTRY_LABEL
            });
            for label in labels {
                let labelled = fork.entries().values().any(|e| e.id.as_str() == label.key.as_str());
                prop_assert!(labelled);
            }
        }
    }

    #[test]
    fn a_branch_fork_is_one_lane_on_its_path(history in history()) {
        for options in branch_options(&history.state) {
            let Ok(fork) = forked(&history.state, &options) else { continue };
            let found = lanes(&fork);
            prop_assert_eq!(found.len(), 1);
            prop_assert_eq!(found[0].shape(), LaneShape::Complete);
            let tip = fork.tip(&found[0].branch).expect("it was written by the fork");
            let tip = tip.as_ref().map(EntryId::as_str);
            let mut expected = path(&history.state, tip);
            expected.reverse();
            let entries: Vec<Entry> = fork.entries().values().cloned().collect();
            prop_assert_eq!(entries, expected);
            prop_assert!(fork.lists().is_empty(), "application state does not come along");
            prop_assert!(fork.values().keys().all(|at| policy::is_reserved(at.namespace.as_str())));
        }
    }

    #[test]
    fn a_tree_fork_loses_nothing_of_the_application(history in history()) {
        let source = &history.state;
        if let Ok(fork) = forked(source, &ForkOptions::tree()) {
            prop_assert_eq!(fork.entries(), source.entries());
            let application = |state: &State| -> Vec<_> {
                let values = state.values().iter().map(|(at, row)| (at, format!("{row:?}")));
                let lists = state.lists().iter().map(|(at, list)| (at, format!("{list:?}")));
                let all = values.chain(lists).map(|(at, row)| (at.clone(), row));
                all.filter(|(at, _)| !policy::is_reserved(at.namespace.as_str())).collect()
            };
            prop_assert_eq!(application(&fork), application(source));
            let shapes = |state: &State| -> Vec<_> {
                let all = lanes(state).into_iter();
                all.map(|lane| (lane.shape(), lane.branch, lane.tip, lane.config)).collect()
            };
            prop_assert_eq!(shapes(&fork), shapes(source));
        }
    }

    /// Any current row that is reserved and unknown makes both scopes fail, and nothing else
    /// does make a tree fork fail.
    #[test]
    fn a_tree_fork_fails_for_unknown_state_only(history in history()) {
        let source = &history.state;
        let values = source.values().keys().map(|at| (StoreKind::Value, at));
        let lists = source.lists().keys().map(|at| (StoreKind::List, at));
        let unknown = values.chain(lists).any(|(_, at)| {
            support::UNKNOWN.contains(&at.namespace.as_str())
        });
        let tree = forked(source, &ForkOptions::tree());
        prop_assert_eq!(tree.err(), unknown.then_some(ErrorKind::UnknownReserved));
        for options in branch_options(source) {
            prop_assert!(!unknown || forked(source, &options).is_err());
        }
    }

    #[test]
    fn the_strict_audit_refuses_exactly_what_it_finds(history in history()) {
        let source = &history.state;
        let audit = LaneAudit::Strict;
        let strict = |options: &ForkOptions| fork(source, options, audit, birth("fork"));
        let found = lanes::audit(source);
        let tree = strict(&ForkOptions::tree());
        if let Some(finding) = found.first() {
            prop_assert_eq!(tree, Err(finding.to_error()));
        } else {
            let selected = forked(source, &ForkOptions::tree());
            prop_assert_eq!(tree.map_err(|error| error.kind()), selected);
        }
        for options in branch_options(source) {
            let strict = strict(&options).map_err(|error| error.kind());
            prop_assert_eq!(strict, forked(source, &options));
        }
    }

    #[test]
    fn a_fork_is_new_metadata_over_its_source((source, options) in source_and_options()) {
        if let Ok(fork) = forked(&source, &options) {
            let expected = Metadata {
                parent_session_id: Some(source.metadata().id.clone()),
                ..support::metadata("fork")
            };
            prop_assert_eq!(fork.metadata(), &Metadata { created_at: millis(9), ..expected });
        }
    }
}
