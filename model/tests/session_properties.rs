//! What holds for commits and reads of any session (contract §1).
//!
//! Everything else is held against the model, so the model's own reads are held here against
//! something still simpler: the list of writes, and parents followed one by one.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use forkline_model::{
    Address, BranchScan, Entry, EntryId, EntryQuery, EntryType, ErrorKind, Limit, ListQuery, Order,
    Seq, SeqQuery, State, StateBuilder, Write,
};
use proptest::prelude::*;
use proptest::sample::Index;
use support::{entry, history, id, metadata, millis, usage};

/// What the writes leave, kept the plainest way: the last write to an address wins.
fn current(writes: &[Write]) -> (BTreeMap<Address, u64>, BTreeMap<Address, Vec<u64>>) {
    let (mut values, mut lists) = (BTreeMap::new(), BTreeMap::<Address, Vec<u64>>::new());
    for (seq, write) in (1..).zip(writes) {
        match write {
            Write::SetValue { address, .. } => drop(values.insert(address.clone(), seq)),
            Write::DeleteValue { address } => drop(values.remove(address)),
            Write::AppendElement { address, .. } => {
                lists.entry(address.clone()).or_default().push(seq);
            }
            Write::DeleteList { address } => drop(lists.remove(address)),
            Write::Entry(_) | Write::Usage(_) => {}
        }
    }
    (values, lists)
}

fn entry_query() -> impl Strategy<Value = EntryQuery> {
    let entry_type = prop_oneof![
        3 => Just(None),
        2 => Just(Some(EntryType::Message)),
        1 => Just(Some(EntryType::Custom)),
        1 => Just(Some(EntryType::Compaction)),
    ];
    let custom_type = prop_oneof![4 => Just(None), 1 => Just(Some("c")), 1 => Just(Some("d"))];
    let cursor = prop::option::of((1..60_u64).prop_map(|n| Seq::new(n).unwrap()));
    (entry_type, custom_type, any::<bool>(), cursor, limit()).prop_map(
        |(entry_type, custom_type, asc, cursor, limit)| EntryQuery {
            entry_type,
            custom_type: custom_type.map(|name| name.try_into().unwrap()),
            order: if asc { Order::Asc } else { Order::Desc },
            cursor,
            limit,
        },
    )
}

fn limit() -> impl Strategy<Value = Limit> {
    prop_oneof![Just(Limit::default()), (1..4_i64).prop_map(|n| Limit::new(n).unwrap())]
}

/// The page of `rows`, which come newest first, by the words of contract §1.
fn expected(rows: Vec<&Entry>, query: &EntryQuery) -> Vec<Entry> {
    let mut rows: Vec<&Entry> = rows
        .into_iter()
        .filter(|entry| {
            query.entry_type.is_none() || query.entry_type == Some(entry.entry_type.clone())
        })
        .filter(|entry| query.custom_type.is_none() || query.custom_type == entry.custom_type)
        .collect();
    if query.order == Order::Asc {
        rows.reverse();
    }
    // The cursor is the last row of the page before: what comes behind it in this order.
    let rows = rows.into_iter().filter(|entry| match (query.cursor, query.order) {
        (None, _) => true,
        (Some(cursor), Order::Asc) => entry.seq.get() > cursor.get(),
        (Some(cursor), Order::Desc) => entry.seq.get() < cursor.get(),
    });
    rows.take(query.limit.get()).cloned().collect()
}

/// The path from an entry to its root, parents followed one by one, newest first.
fn path<'a>(state: &'a State, start: &EntryId) -> Vec<&'a Entry> {
    let by_id: BTreeMap<&EntryId, &Entry> =
        state.entries().values().map(|entry| (&entry.id, entry)).collect();
    let mut path = Vec::new();
    let mut next = by_id.get(start);
    while let Some(entry) = next {
        path.push(*entry);
        next = entry.parent.as_ref().and_then(|parent| by_id.get(parent));
    }
    path
}

proptest! {
    #[test]
    fn the_last_write_to_an_address_is_what_is_there(history in history()) {
        let (values, lists) = current(&history.writes());
        let state = &history.state;
        let found: BTreeMap<_, _> =
            state.values().iter().map(|(at, (seq, _))| (at.clone(), seq.get())).collect();
        prop_assert_eq!(found, values);
        let seqs = |(at, list): (&Address, &BTreeMap<Seq, _>)| {
            (at.clone(), list.keys().map(|seq| seq.get()).collect::<Vec<_>>())
        };
        prop_assert_eq!(state.lists().iter().map(seqs).collect::<BTreeMap<_, _>>(), lists);
        prop_assert_eq!(state.next_seq(), history.writes().len() as u64 + 1);
    }

    #[test]
    fn statistics_equal_a_recount_of_the_writes(history in history()) {
        let (mut messages, mut input, mut rows) = (0_u64, 0_u64, 0_u32);
        for write in history.writes() {
            match write {
                Write::Entry(entry) if entry.entry_type.as_str() == "message" => messages += 1,
                Write::Usage(row) => {
                    let usage: serde_json::Value = serde_json::from_str(row.usage.as_str())?;
                    input += usage["input"].as_u64().expect("the generator writes whole numbers");
                    rows += 1;
                }
                _ => {}
            }
        }
        let stats = history.state.stats();
        prop_assert_eq!(stats.message_count, messages);
        let sums: serde_json::Value = serde_json::from_str(stats.usage.to_json().as_str())?;
        prop_assert_eq!(sums["input"].as_u64(), Some(input));
        prop_assert_eq!(sums["cost"]["total"].as_f64(), Some(f64::from(rows) * 0.5));
    }

    /// Commit boundaries leave no trace but the timestamps of entries.
    #[test]
    fn a_commit_numbers_its_writes_one_by_one(history in history()) {
        let mut state = State::new(metadata("source"));
        let mut next = 1;
        for (nth, writes) in history.commits.iter().enumerate() {
            let time = millis(1000 + nth as u64);
            let committed = state.apply(writes, time).unwrap();
            let first = (!writes.is_empty()).then_some(next);
            prop_assert_eq!(committed.first_seq.map(Seq::get), first);
            next += writes.len() as u64;
            prop_assert_eq!((committed.next_seq, committed.timestamp), (next, time));
            let new = state.entries().range(committed.first_seq.unwrap_or(Seq::new(next)?)..);
            for (seq, entry) in new {
                prop_assert_eq!((entry.seq, entry.timestamp), (*seq, time));
            }
        }
        prop_assert_eq!(state, history.state);
    }

    /// A refused write anywhere in a commit undoes all of it.
    #[test]
    fn a_refused_commit_changes_nothing(history in history(), index in any::<Index>()) {
        let used: Vec<EntryId> = history
            .writes()
            .iter()
            .filter_map(|write| match write {
                Write::Entry(entry) => Some(entry.id.clone()),
                Write::Usage(row) => Some(row.id.clone()),
                _ => None,
            })
            .collect();
        let nowhere = id("nowhere");
        let mut refused = vec![
            (entry("new", Some(&nowhere), 0, "1"), ErrorKind::MissingParent),
            (entry("new", Some(&id("new")), 0, "1"), ErrorKind::MissingParent),
        ];
        if !used.is_empty() {
            let again = index.get(&used).as_str();
            refused.push((entry(again, None, 0, "1"), ErrorKind::DuplicateId));
            refused.push((usage(again, 1, None), ErrorKind::DuplicateId));
            refused.push((entry(again, Some(&nowhere), 0, "1"), ErrorKind::DuplicateId));
        }
        let good = [entry("good", None, 0, "1"), Write::delete("app", "k").unwrap()];
        for (bad, kind) in refused {
            let mut state = history.state.clone();
            let writes = [good[0].clone(), bad, good[1].clone()];
            prop_assert_eq!(state.apply(&writes, millis(1)).map_err(|e| e.kind()), Err(kind));
            prop_assert_eq!(&state, &history.state);
        }
    }

    #[test]
    fn a_branch_scan_is_a_cut_of_the_path(
        history in history(),
        start in any::<Index>(),
        stop in prop::option::of(any::<Index>()),
        stop_at_type in prop::option::weighted(0.3, Just(EntryType::Compaction)),
        query in entry_query(),
    ) {
        let state = &history.state;
        let entries: Vec<&Entry> = state.entries().values().collect();
        prop_assume!(!entries.is_empty());
        let start = start.get(&entries).id.clone();
        let stop_at_id = stop.map(|stop| stop.get(&entries).id.clone());
        let mut walked = Vec::new();
        for entry in path(state, &start) {
            walked.push(entry);
            let by_type = stop_at_type.as_ref() == Some(&entry.entry_type);
            if by_type || stop_at_id.as_ref() == Some(&entry.id) {
                break;
            }
        }
        let scan = BranchScan { start, stop_at_type, stop_at_id, query: query.clone() };
        let found = state.scan_branch(&scan).unwrap();
        prop_assert_eq!(&found, &expected(walked, &query));
        let heads: Vec<_> = found.iter().map(Entry::head).collect();
        prop_assert_eq!(state.scan_branch_structure(&scan).unwrap(), heads);
    }

    #[test]
    fn entries_are_found_by_type_and_cursor(history in history(), query in entry_query()) {
        let newest_first: Vec<&Entry> = history.state.entries().values().rev().collect();
        let all = expected(newest_first, &query);
        prop_assert_eq!(history.state.find_entry(&query), all.first().cloned());
        prop_assert_eq!(history.state.find_entries(&query), all);
    }

    #[test]
    fn the_tip_starts_a_branchs_queries(history in history(), query in entry_query()) {
        let state = &history.state;
        for branch in state.branches() {
            let found = state.find_branch_entries(&branch, &query).map_err(|error| error.kind());
            match state.tip(&branch) {
                Ok(None) => prop_assert_eq!(found, Ok(vec![])),
                Ok(Some(tip)) if state.entry(&tip).is_some() => {
                    prop_assert_eq!(&found, &Ok(expected(path(state, &tip), &query)));
                    let first = state.find_branch_entry(&branch, &query).unwrap();
                    prop_assert_eq!(first, found.unwrap().first().cloned());
                }
                Ok(Some(_)) => prop_assert_eq!(found, Err(ErrorKind::UnknownEntry)),
                Err(error) => prop_assert_eq!(found, Err(error.kind())),
            }
        }
    }

    /// Pages of a list, of entries and of the ledger, put together, are the whole, either way.
    #[test]
    fn pages_make_the_whole(history in history(), limit in 1..5_i64, asc in any::<bool>()) {
        let state = &history.state;
        let limit = Limit::new(limit).unwrap();
        let order = if asc { Order::Asc } else { Order::Desc };
        for (address, list) in state.lists() {
            let (mut seqs, mut cursor) = (Vec::new(), None);
            loop {
                let page = state.read_list(address, &ListQuery { cursor, order, limit });
                prop_assert!(page.len() <= limit.get());
                let Some((last, _)) = page.last() else { break };
                cursor = Some(*last);
                seqs.extend(page.iter().map(|(seq, _)| *seq));
            }
            let mut whole: Vec<Seq> = list.keys().copied().collect();
            if !asc {
                whole.reverse();
            }
            prop_assert_eq!(seqs, whole);
        }
        let (mut from, mut to, mut seen) = (None, None, BTreeSet::new());
        loop {
            let page = state.scan_entries(&SeqQuery { from, to, order, limit });
            let Some(last) = page.last() else { break };
            prop_assert!(page.iter().all(|entry| seen.insert(entry.seq)), "a row came twice");
            match order {
                Order::Asc => from = Some(Seq::new(last.seq.get() + 1).unwrap()),
                Order::Desc if last.seq.get() == 1 => break,
                Order::Desc => to = Some(Seq::new(last.seq.get() - 1).unwrap()),
            }
        }
        prop_assert_eq!(seen, state.entries().keys().copied().collect::<BTreeSet<_>>());
        let all = state.scan_usage(&SeqQuery { order, ..SeqQuery::default() });
        let mut rows: Vec<_> = state.ledger().values().cloned().collect();
        if !asc {
            rows.reverse();
        }
        prop_assert_eq!(all, rows);
    }

    #[test]
    fn values_of_a_prefix_come_in_code_point_order(history in history()) {
        let state = &history.state;
        for namespace in support::APPLICATION.iter().chain(&["pi.branch.tip"]) {
            for prefix in ["", "k", "k%", "m", "%"] {
                let found = state.scan_values(&(*namespace).try_into().unwrap(), prefix);
                let mut expected: Vec<_> = state
                    .values()
                    .iter()
                    .filter(|(at, _)| at.namespace.as_str() == *namespace)
                    .filter(|(at, _)| at.key.as_str().starts_with(prefix))
                    .map(|(at, (seq, value))| (at.key.clone(), *seq, value.clone()))
                    .collect();
                expected.sort_by_key(|(key, ..)| key.as_str().chars().collect::<Vec<_>>());
                prop_assert_eq!(found, expected);
            }
        }
    }

    /// A state is all in its rows, whatever order they come in.
    #[test]
    fn the_builder_gives_the_same_state_again(history in history()) {
        let state = &history.state;
        let mut rows = StateBuilder::new(state.metadata().clone(), state.next_seq());
        for (address, list) in state.lists() {
            for (seq, value) in list.iter().rev() {
                rows.element(address.clone(), *seq, value.clone());
            }
        }
        for (address, (seq, value)) in state.values() {
            rows.value(address.clone(), *seq, value.clone());
        }
        for row in state.ledger().values().rev() {
            rows.usage(row.clone());
        }
        for entry in state.entries().values().rev() {
            rows.entry(entry.clone());
        }
        prop_assert_eq!(&rows.finish().unwrap(), state);
    }
}
