//! What is accepted up to where, and what it is called: names, entry types, payloads, ledger rows.
//!
//! The properties run on sessions whose names are short and whose rows have one member; here are
//! the edges that such sessions do not reach. A limit off by one or a member that is summed
//! wrongly would be the same wrong answer in the model and in every engine that asks it.

mod support;

use forkline_model::address::{SEQ_MAX, TEXT_BYTES_MAX};
use forkline_model::entry::require_payload;
use forkline_model::{
    BranchName, Entry, EntryId, EntryQuery, EntryType, ErrorKind, Json, Key, Millis, Namespace,
    Order, Result, Seq, SessionId, TypeName, Usage, Write,
};
use proptest::prelude::*;
use support::{id, json, state_of};

fn kind<T>(result: Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

#[test]
fn a_name_has_65536_bytes_at_most() {
    assert_eq!(TEXT_BYTES_MAX, 65_536);
    // The last character has two bytes: bytes are counted, not characters.
    let longest = format!("{}\u{e9}", "x".repeat(65_534));
    let longer = format!("{}\u{e9}", "x".repeat(65_535));
    let checks: [fn(&str) -> Option<ErrorKind>; 6] = [
        |text| kind(SessionId::new(text)),
        |text| kind(EntryId::new(text)),
        |text| kind(BranchName::new(text)),
        |text| kind(Namespace::new(text)),
        |text| kind(Key::new(text)),
        |text| kind(TypeName::new(text)),
    ];
    for check in checks {
        assert_eq!(check(&longest), None);
        assert_eq!(check(&longer), Some(ErrorKind::InvalidName));
        assert_eq!(check(&longer.repeat(2)), Some(ErrorKind::InvalidName));
    }
}

#[test]
fn a_seq_and_a_time_are_integers_that_every_reader_keeps() {
    assert_eq!(SEQ_MAX, 9_007_199_254_740_991);
    let (seq, time) = (|n| kind(Seq::new(n)), |n| kind(Millis::new(n)));
    let invalid = Some(ErrorKind::InvalidPayload);
    assert_eq!([seq(0), seq(1), seq(SEQ_MAX), seq(SEQ_MAX + 1)], [invalid, None, None, invalid]);
    assert_eq!([time(0), time(SEQ_MAX), time(SEQ_MAX + 1)], [None, None, invalid]);
}

#[test]
fn an_entry_type_is_its_name() {
    for (name, expected) in [
        ("message", EntryType::Message),
        ("compaction", EntryType::Compaction),
        ("branch_summary", EntryType::BranchSummary),
        ("custom", EntryType::Custom),
        ("Message", EntryType::Other(TypeName::new("Message").unwrap())),
        ("", EntryType::Other(TypeName::new("").unwrap())),
    ] {
        let found = EntryType::new(name).unwrap();
        assert_eq!(found, expected);
        assert_eq!(found.as_str(), name);
        assert_eq!(TypeName::from(found).as_str(), name);
    }
}

#[test]
fn a_payload_repeats_no_member_of_the_envelope() {
    let (message, custom) = (EntryType::Message, EntryType::Custom);
    let invalid = Some(ErrorKind::InvalidPayload);
    for (entry_type, payload, expected) in [
        (&message, "{}", None),
        (&message, r#"{"ids":1,"message":{"id":1,"type":2}}"#, None),
        (&message, "[]", invalid),
        (&message, "null", invalid),
        (&message, r#"{"a":1,"parentId":null}"#, invalid),
        // An escape makes it no other member.
        (&message, r#"{"\u0069d":1}"#, invalid),
        (&message, r#"{"\u0069ds":1}"#, None),
        (&message, r#"{"\\u0069d":1}"#, None),
        (&message, r#"{"customType":1}"#, None),
        (&custom, r#"{"customType":1}"#, invalid),
        (&custom, r#"{"custom\u0054ype":1}"#, invalid),
        (&custom, r#"{"customTypes":1}"#, None),
    ] {
        let found = kind(require_payload(entry_type, &json(payload)));
        assert_eq!(found, expected, "{} {payload}", entry_type.as_str());
    }
    let refusal = require_payload(&message, &json("[]")).unwrap_err().to_string();
    assert!(refusal.contains("expected a JSON object"), "{refusal}");
}

/// Only a message, of an assistant, that says so.
#[test]
fn a_pending_message_is_no_entry() {
    let pending = Some(ErrorKind::PendingAssistant);
    for (entry_type, message, expected) in [
        ("message", r#"{"role":"assistant","stopReason":"pending"}"#, pending),
        (
            "message",
            r#"{"stopReason":"x","stopReason":"\u0070ending","role":"assistant"}"#,
            pending,
        ),
        ("message", r#"{"role":"assistant","stopReason":"pending","stopReason":"stop"}"#, None),
        ("message", r#"{"role":"assistant","stopReason":"stop"}"#, None),
        ("message", r#"{"role":"user","stopReason":"pending"}"#, None),
        ("message", r#"{"role":"assistant"}"#, None),
        ("message", r#"{"stopReason":"pending"}"#, None),
        ("message", r#""pending""#, None),
        ("custom", r#"{"role":"assistant","stopReason":"pending"}"#, None),
    ] {
        let line = format!(
            r#"{{"kind":"entry","id":"e","parentId":null,"type":"{entry_type}","message":{message}}}"#
        );
        assert_eq!(kind(Write::from_jsonl(&line)), expected, "{line}");
    }
}

/// However the names of members are spelled; of repeated ones the last counts.
#[test]
fn the_payload_of_a_line_is_what_is_no_envelope() {
    let line = concat!(
        r#"{"b":1, "kind":"usage","ki\u006ed":"entry","id":"e","parentId":"p","#,
        r#""parentI\u0064":null,"type":"custom","custom\u0054ype":"c","a":[2 ],"seq":9,"b":3}"#,
    );
    let Write::Entry(entry) = Write::from_jsonl(line).unwrap() else { panic!("it is an entry") };
    assert_eq!((entry.id.as_str(), entry.parent), ("e", None));
    assert_eq!(entry.custom_type.unwrap().as_str(), "c");
    assert_eq!(entry.payload.as_str(), r#"{"b":1,"a":[2 ],"b":3}"#);
}

#[test]
fn an_entry_stands_in_its_file_as_it_was_written() {
    let write = support::entry("e", None, 3, "[1]");
    let state = state_of(std::slice::from_ref(&write));
    let entry: &Entry = state.entries().values().next().unwrap();
    assert_eq!(entry.to_jsonl(), write.to_jsonl(entry.seq, entry.timestamp));
    assert_eq!(
        entry.to_jsonl(),
        concat!(
            r#"{"kind":"entry","id":"e","parentId":null,"type":"custom","customType":"c","#,
            r#""data":[1],"seq":1,"timestamp":5}"#
        )
    );
}

/// A page begins behind its cursor, whether or not the cursor's own row would be on it.
#[test]
fn a_cursor_is_exclusive() {
    let writes = ["a", "b", "c"].map(|name| support::entry(name, None, 0, "1"));
    let state = state_of(&writes);
    let ids = |order, cursor| {
        let cursor = Some(Seq::new(cursor).unwrap());
        let found = state.find_entries(&EntryQuery { order, cursor, ..EntryQuery::default() });
        found.iter().map(|entry| entry.id.as_str().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(Order::Asc, 1), ["b", "c"]);
    assert_eq!(ids(Order::Desc, 3), ["b", "a"]);
    assert!(ids(Order::Asc, 3).is_empty());
    assert!(ids(Order::Desc, 1).is_empty());
}

#[test]
fn another_identity_leaves_the_content_as_it_is() {
    let state = state_of(&[support::entry("a", None, 0, "1"), support::usage("u", 1, None)]);
    let metadata = support::metadata("other");
    let other = state.clone().with_metadata(metadata.clone());
    assert_ne!(state.metadata(), &metadata);
    assert_eq!(other.metadata(), &metadata);
    assert_eq!(other.with_metadata(state.metadata().clone()), state);
}

#[test]
fn every_id_asked_for_has_one_answer() {
    let state = state_of(&[support::entry("a", None, 0, "1"), support::usage("u", 1, None)]);
    let found = state.get_entries(&[id("u"), id("a"), id(""), id("a")]);
    let found: Vec<_> = found.iter().map(|entry| entry.as_ref().map(|e| e.id.as_str())).collect();
    assert_eq!(found, [None, Some("a"), None, Some("a")]);
}

/// For engines that parse payloads and write them again; between the own ones nothing is loose.
#[test]
fn doubles_are_equal_only_where_they_are() {
    for (left, right, loose, exact) in [
        ("1.0", "1", true, false),
        ("[1, 2]", "[1,2]", true, true),
        (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#, true, false),
        ("1", "2", false, false),
    ] {
        let (left, right) = (json(left), json(right));
        assert_eq!(left.equals_as_doubles(&right), loose, "{left} {right}");
        assert_eq!(left == right, exact, "{left} {right}");
        assert_eq!(format!("{left:?}"), left.as_str());
    }
}

const COUNTED: [&str; 7] =
    ["input", "output", "cacheRead", "cacheWrite", "totalTokens", "cacheWrite1h", "reasoning"];
const COSTS: [&str; 5] = ["input", "output", "cacheRead", "cacheWrite", "total"];

/// The members of one row: a small whole number or none, which sum without rounding.
fn row() -> impl Strategy<Value = [Vec<Option<u8>>; 2]> {
    let some = |count| prop::collection::vec(any::<Option<u8>>(), count);
    [some(COUNTED.len()), some(COSTS.len())]
}

fn object(names: &[&str], numbers: &[Option<u8>]) -> serde_json::Map<String, serde_json::Value> {
    let members = names.iter().zip(numbers);
    members.filter_map(|(name, n)| Some(((*name).to_owned(), (*n)?.into()))).collect()
}

/// Of each field the sum over all rows; the two that are optional only where a row has them.
fn sums(names: &[&str], rows: &[&Vec<Option<u8>>]) -> serde_json::Map<String, serde_json::Value> {
    let mut sums = serde_json::Map::new();
    for (nth, name) in names.iter().enumerate() {
        let numbers: Vec<u64> = rows.iter().filter_map(|row| row[nth]).map(u64::from).collect();
        if !numbers.is_empty() || !["cacheWrite1h", "reasoning"].contains(name) {
            sums.insert((*name).to_owned(), numbers.iter().sum::<u64>().into());
        }
    }
    sums
}

proptest! {
    #[test]
    fn every_field_of_the_ledger_is_summed_by_itself(rows in prop::collection::vec(row(), 0..5)) {
        let mut writes = Vec::new();
        for (nth, [counted, costs]) in rows.iter().enumerate() {
            let mut usage = object(&COUNTED, counted);
            usage.insert("cost".to_owned(), object(&COSTS, costs).into());
            let line = serde_json::json!({
                "kind": "usage", "id": format!("u{nth}"), "adjustment": false, "usage": usage,
            });
            writes.push(Write::from_jsonl(&line.to_string())?);
        }
        let (counted, costs): (Vec<_>, Vec<_>) =
            rows.iter().map(|[counted, costs]| (counted, costs)).unzip();
        let mut expected = sums(&COUNTED, &counted);
        expected.insert("cost".to_owned(), sums(&COSTS, &costs).into());
        let usage: Usage = state_of(&writes).stats().usage;
        let found: serde_json::Value = serde_json::from_str(usage.to_json().as_str())?;
        prop_assert_eq!(found, serde_json::Value::from(expected));
    }
}

#[test]
fn usage_that_cannot_be_summed_is_refused() {
    for (usage, is_refused) in [
        ("{}", false),
        (r#"{"input":1.5,"unheard":"x"}"#, false),
        (r#"{"input":"1","input":1}"#, false),
        (r#"{"input":"1"}"#, true),
        (r#"{"input":null}"#, true),
        (r#"{"output":1e999}"#, true),
        (r#"{"cost":{"total":true}}"#, true),
        (r#"{"cost":1}"#, true),
        ("[]", true),
    ] {
        assert_eq!(Usage::parse(&Json::parse(usage).unwrap()).is_err(), is_refused, "{usage}");
    }
}
