//! Forks of small sessions, one rule of contract §3 each, with results written out.
//!
//! These are the cases that a formula gets wrong most easily: which side of an entry, what an
//! absent row means, which of two errors comes first, what survives a cutoff.

mod support;

use forkline_model::error::Result;
use forkline_model::{
    Address, ErrorKind, ForkOptions, Json, LaneAudit, Seq, State, StateBuilder, Write,
    fork::{fork, plan},
    policy, state,
};
use support::{birth, branch, entry, id, json, lane, metadata, millis, state_of, usage};

fn forked(source: &State, options: &ForkOptions) -> Result<State> {
    fork(source, options, LaneAudit::Selected, birth("fork"))
}

fn kind(source: &State, options: &ForkOptions, audit: LaneAudit) -> Option<ErrorKind> {
    fork(source, options, audit, birth("fork")).err().map(|error| error.kind())
}

fn main_branch() -> ForkOptions {
    ForkOptions::branch(branch("main"))
}

fn set(namespace: &str, key: &str, value: &str) -> Write {
    Write::set(namespace, key, json(value)).unwrap()
}

fn at(namespace: &str, key: &str) -> Address {
    Address::new(namespace, key).unwrap()
}

fn seq(n: u64) -> Seq {
    Seq::new(n).unwrap()
}

/// Roots `r` and `s`, a chain `r - a - b` with a side leaf `x`, lane `main` at `b`, lane `side`
/// at `x`, branch `data` at `s`.
fn tree() -> State {
    let (r, a) = (id("r"), id("a"));
    let mut writes = vec![
        entry("r", None, 0, "1"),
        entry("a", Some(&r), 2, "2"),
        entry("b", Some(&a), 0, "3"),
        entry("x", Some(&a), 0, "4"),
        entry("s", None, 0, "5"),
        usage("u", 7, Some(&a)),
    ];
    writes.extend(lane("main", Some("b")));
    writes.extend(lane("side", Some("x")));
    writes.push(set(policy::BRANCH_TIP, "data", r#""s""#));
    writes.extend([
        set(policy::SESSION_NAME, "", r#""name""#),
        set(policy::ENTRY_LABEL, "a", r#""on a""#),
        set(policy::ENTRY_LABEL, "x", r#""on x""#),
        set(policy::ENTRY_LABEL, "gone", r#""on nothing""#),
        set("app", "k", "1"),
        set("pi.op.meta", "o", "1"),
        set("pi.result", "p", "1"),
    ]);
    state_of(&writes)
}

fn ids(state: &State) -> Vec<&str> {
    state.entries().values().map(|entry| entry.id.as_str()).collect()
}

#[test]
fn a_branch_fork_holds_one_path_and_its_lane() {
    let source = tree();
    let made = forked(&source, &main_branch()).unwrap();
    assert_eq!(ids(&made), ["r", "a", "b"]);
    let idle = json(r#"{"currentOperationId":null,"lastOperationId":null,"inbox":[]}"#);
    let values: Vec<_> = made.values().clone().into_iter().collect();
    let expected = [
        (at("pi.branch.tip", "main"), (seq(7), json(r#""b""#))),
        (at("pi.entry.label", "a"), (seq(15), json(r#""on a""#))),
        (at("pi.lane.config", "main"), (seq(8), json("{}"))),
        (at("pi.lane.state", "main"), (seq(9), idle)),
        (at("pi.session.name", ""), (seq(14), json(r#""name""#))),
    ];
    assert_eq!(values, expected);
    assert_eq!(made.next_seq(), source.next_seq());
    assert!(made.lists().is_empty() && made.ledger().is_empty());
    assert_eq!(made.stats().message_count, 2);
    assert_eq!(made.metadata().parent_session_id.as_ref(), Some(&source.metadata().id));
}

#[test]
fn a_tree_fork_holds_all_but_what_is_transient() {
    let source = tree();
    let made = forked(&source, &ForkOptions::tree()).unwrap();
    assert_eq!(made.entries(), source.entries());
    let left_out: Vec<_> =
        source.values().keys().filter(|at| made.get_value(at).is_none()).cloned().collect();
    let expected = [at("pi.entry.label", "gone"), at("pi.op.meta", "o"), at("pi.result", "p")];
    assert_eq!(left_out, expected);
    for (address, row) in made.values() {
        let idle = address.namespace.as_str() == policy::LANE_STATE;
        let value = if idle { policy::idle_state() } else { source.values()[address].1.clone() };
        assert_eq!(*row, (source.values()[address].0, value), "{address:?}");
    }
    assert_eq!(made.ledger().len(), 0);
    assert_eq!(made.stats().message_count, 4);
}

/// The legacy path of a parent is about the source's own parent, not about the fork's.
#[test]
fn the_legacy_parent_path_is_not_carried() {
    let mut own = metadata("source");
    own.legacy_parent_session_path = Some("/old.jsonl".to_owned());
    own.parent_session_id = Some("grandparent".to_owned().try_into().unwrap());
    own.cwd = Some("/source".to_owned());
    let made = forked(&State::new(own), &ForkOptions::tree()).unwrap();
    let mut expected = metadata("fork");
    expected.created_at = millis(9);
    expected.parent_session_id = Some("source".to_owned().try_into().unwrap());
    assert_eq!(*made.metadata(), expected);
}

#[test]
fn an_entry_or_its_parent_is_selected() {
    let source = tree();
    let null: [&str; 0] = [];
    let cases: [(ForkOptions, &[&str], &str); 7] = [
        (main_branch(), &["r", "a", "b"], r#""b""#),
        (main_branch().before_tip(), &["r", "a"], r#""a""#),
        (main_branch().at(id("b")), &["r", "a", "b"], r#""b""#),
        (main_branch().at(id("a")), &["r", "a"], r#""a""#),
        (main_branch().before(id("a")), &["r"], r#""r""#),
        (main_branch().at(id("r")), &["r"], r#""r""#),
        (main_branch().before(id("r")), &null, "null"),
    ];
    for (options, entries, tip) in cases {
        let made = forked(&source, &options).unwrap();
        assert_eq!(ids(&made), entries, "{options:?}");
        let row = made.get_value(&policy::tip_address(&branch("main")));
        assert_eq!(row, Some((seq(7), json(tip))), "{options:?}");
    }
}

#[test]
fn a_null_tip_selects_null() {
    let mut writes = lane("main", None);
    writes.push(entry("e", None, 0, "1"));
    let source = state_of(&writes);
    for options in [main_branch(), main_branch().before_tip()] {
        let made = forked(&source, &options).unwrap();
        assert!(made.entries().is_empty());
        assert_eq!(made.tip(&branch("main")), Ok(None));
    }
    let not_on_branch = Some(ErrorKind::EntryNotOnBranch);
    assert_eq!(kind(&source, &main_branch().at(id("e")), LaneAudit::Selected), not_on_branch);
}

/// Contract §3.3, first pinned trace: a cutoff by seq would give `s` = v1.
#[test]
fn application_values_do_not_come_along_a_branch() {
    let mut rows = StateBuilder::new(metadata("source"), 51);
    let e1 = state_of(&[entry("e1", None, 0, "1")]).entries()[&seq(1)].clone();
    rows.entry(forkline_model::Entry { seq: seq(12), ..e1 });
    rows.value(at("app", "s"), seq(50), json("2"));
    for (nth, write) in lane("main", Some("e1")).into_iter().enumerate() {
        let Write::SetValue { address, value } = write else { panic!("lanes are values") };
        rows.value(address, seq(20 + nth as u64), value);
    }
    let source = rows.finish().unwrap();
    let made = forked(&source, &main_branch().at(id("e1"))).unwrap();
    assert_eq!(made.get_value(&at("app", "s")), None);
    let tree = forked(&source, &ForkOptions::tree()).unwrap();
    assert_eq!(tree.get_value(&at("app", "s")), Some((seq(50), json("2"))));
}

/// Contract §3.3, second pinned trace, with its seqs: 5, 20, delete at 40, 60.
#[test]
fn only_elements_after_a_list_delete_survive_and_only_in_a_tree() {
    let mut source = state_of(&lane("main", None));
    let fill = |source: &mut State, to: u64| {
        while source.next_seq() < to {
            source.apply(&[Write::delete("app", "nothing").unwrap()], millis(1)).unwrap();
        }
    };
    let append = |value: &str| Write::append("app", "l", json(value)).unwrap();
    for (at, write) in [
        (5, append("5")),
        (20, append("20")),
        (40, Write::delete_list("app", "l").unwrap()),
        (60, append("60")),
    ] {
        fill(&mut source, at);
        source.apply(&[write], millis(1)).unwrap();
    }
    assert!(forked(&source, &main_branch()).unwrap().lists().is_empty());
    let tree = forked(&source, &ForkOptions::tree()).unwrap();
    let all = tree.read_list(&at("app", "l"), &forkline_model::ListQuery::default());
    assert_eq!(all, [(seq(60), json("60"))]);
}

#[test]
fn reserved_state_fails_a_fork_only_while_it_lives() {
    for namespace in ["pi", "pi.", "pi.op", "pi.new"] {
        for alive in [set(namespace, "k", "1"), Write::append(namespace, "k", json("1")).unwrap()] {
            let mut source = state_of(&lane("main", None));
            source.apply(&[alive], millis(1)).unwrap();
            for options in [ForkOptions::tree(), main_branch()] {
                let found = kind(&source, &options, LaneAudit::Selected);
                assert_eq!(found, Some(ErrorKind::UnknownReserved), "{namespace}");
            }
            let delete = [
                Write::delete(namespace, "k").unwrap(),
                Write::delete_list(namespace, "k").unwrap(),
            ];
            source.apply(&delete, millis(1)).unwrap();
            for options in [ForkOptions::tree(), main_branch()] {
                assert_eq!(kind(&source, &options, LaneAudit::Selected), None, "{namespace}");
            }
        }
    }
}

#[test]
fn of_several_unknown_rows_the_lowest_seq_is_named() {
    let element = |key: &str| Write::append("pi.z", key, json("1")).unwrap();
    let writes = [
        set("pi.a", "k", "1"),
        element("first"),
        set("pi.a", "k", "2"),
        element("second"),
        Write::delete_list("pi.z", "first").unwrap(),
    ];
    let error = forked(&state_of(&writes), &ForkOptions::tree()).unwrap_err().to_string();
    assert!(error.contains(r#""pi.a""#), "the set at 3 is the lowest that lives: {error}");
    let error = forked(&state_of(&writes[..4]), &ForkOptions::tree()).unwrap_err().to_string();
    assert!(error.contains(r#""first""#), "the element at 2 still lives: {error}");
}

/// Sets of lane rows, and the errors of a branch fork of it, a tree fork, a strict tree fork.
#[test]
fn each_lane_error_has_its_cause() {
    use ErrorKind::{CorruptLane, CorruptSource, NotALane, UnknownBranch};
    let good = lane("main", Some("e"));
    let (tip, config, state) = (good[0].clone(), good[1].clone(), good[2].clone());
    let missing = set(policy::BRANCH_TIP, "main", r#""missing""#);
    let number = set(policy::BRANCH_TIP, "main", "7");
    let surrogate = set(policy::BRANCH_TIP, "main", r#""\ud800""#);
    let empty_key = set(policy::LANE_CONFIG, "", "1");
    let corrupt = Some(CorruptLane);
    let cases: [(&[&Write], Option<ErrorKind>, Option<ErrorKind>); 13] = [
        (&[&tip, &config, &state], None, None),
        (&[], Some(UnknownBranch), None),
        (&[&empty_key], Some(UnknownBranch), None),
        (&[&tip], Some(NotALane), None),
        (&[&missing], Some(NotALane), Some(CorruptSource)),
        (&[&tip, &config], corrupt, corrupt),
        (&[&tip, &state], corrupt, corrupt),
        (&[&config], corrupt, corrupt),
        (&[&state], corrupt, corrupt),
        (&[&config, &state], corrupt, corrupt),
        (&[&number, &config, &state], corrupt, corrupt),
        (&[&surrogate, &config, &state], corrupt, corrupt),
        (&[&missing, &config, &state], Some(CorruptSource), Some(CorruptSource)),
    ];
    for (rows, in_branch, strict_tree) in cases {
        let mut writes = vec![entry("e", None, 0, "1")];
        writes.extend(rows.iter().map(|&row| row.clone()));
        let source = state_of(&writes);
        for audit in [LaneAudit::Selected, LaneAudit::Strict] {
            assert_eq!(kind(&source, &main_branch(), audit), in_branch, "{rows:?}");
        }
        let tree = ForkOptions::tree();
        assert_eq!(kind(&source, &tree, LaneAudit::Selected), None, "{rows:?}");
        assert_eq!(kind(&source, &tree, LaneAudit::Strict), strict_tree, "{rows:?}");
    }
}

#[test]
fn a_strict_audit_looks_at_other_lanes_in_tree_scope_only() {
    let mut writes = lane("main", None);
    writes.push(set(policy::LANE_CONFIG, "z", "1"));
    writes.push(set(policy::BRANCH_TIP, "b", r#""missing""#));
    let source = state_of(&writes);
    assert_eq!(kind(&source, &main_branch(), LaneAudit::Strict), None);
    let strict = kind(&source, &ForkOptions::tree(), LaneAudit::Strict);
    assert_eq!(strict, Some(ErrorKind::CorruptSource), "b comes before z");
}

#[test]
fn an_entry_has_to_be_on_the_current_path() {
    let source = tree();
    for elsewhere in ["x", "s", "unknown", "u"] {
        for options in [main_branch().at(id(elsewhere)), main_branch().before(id(elsewhere))] {
            let found = kind(&source, &options, LaneAudit::Selected);
            assert_eq!(found, Some(ErrorKind::EntryNotOnBranch), "{options:?}");
        }
    }
}

/// The order of contract §5: every source has all the later faults too.
#[test]
fn the_first_fault_in_order_is_reported() {
    let exhausted = state::NEXT_SEQ_EXHAUSTED;
    let source = |writes: &[Write]| {
        let from = state_of(writes);
        let mut rows = StateBuilder::new(metadata("source"), exhausted);
        for entry in from.entries().values() {
            rows.entry(entry.clone());
        }
        for (address, (seq, value)) in from.values() {
            rows.value(address.clone(), *seq, value.clone());
        }
        rows.finish().unwrap()
    };
    let unknown = set("pi.new", "k", "1");
    let good = lane("main", Some("e"));
    let with = |tip: &str| {
        vec![
            set(policy::BRANCH_TIP, "main", tip),
            good[1].clone(),
            good[2].clone(),
            unknown.clone(),
        ]
    };
    let elsewhere = main_branch().at(id("elsewhere"));
    let mut sound = with(r#""e""#);
    sound.push(entry("e", None, 0, "1"));
    let mut known = sound.clone();
    known.retain(|write| *write != unknown);
    let cases = [
        (vec![unknown.clone()], elsewhere.clone(), ErrorKind::UnknownBranch),
        (with("7"), elsewhere.clone(), ErrorKind::CorruptLane),
        (with(r#""missing""#), elsewhere.clone(), ErrorKind::CorruptSource),
        (sound.clone(), elsewhere, ErrorKind::EntryNotOnBranch),
        (sound.clone(), main_branch(), ErrorKind::UnknownReserved),
        (sound, ForkOptions::tree(), ErrorKind::UnknownReserved),
        (known.clone(), main_branch(), ErrorKind::LimitExceeded),
        (known, ForkOptions::tree(), ErrorKind::LimitExceeded),
    ];
    for (writes, options, expected) in cases {
        let source = source(&writes);
        assert_eq!(kind(&source, &options, LaneAudit::Selected), Some(expected), "{writes:?}");
        let planned = plan(&source, &options, LaneAudit::Selected).err().map(|e| e.kind());
        assert_eq!(planned, Some(expected));
    }
}

/// One seq short of exhausted is still enough for a fork.
#[test]
fn the_last_seq_can_be_forked() {
    let mut rows = StateBuilder::new(metadata("source"), state::NEXT_SEQ_EXHAUSTED - 1);
    rows.value(at("app", "k"), seq(1), Json::null());
    let mut source = rows.finish().unwrap();
    assert_eq!(kind(&source, &ForkOptions::tree(), LaneAudit::Selected), None);
    source.apply(&[set("app", "k", "1")], millis(1)).unwrap();
    assert_eq!(source.next_seq(), state::NEXT_SEQ_EXHAUSTED);
    let full = source.apply(&[set("app", "k", "2")], millis(1)).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::LimitExceeded);
    assert!(source.apply(&[], millis(1)).is_ok(), "an empty commit needs no seq");
}
