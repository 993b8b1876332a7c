//! Rows that are no session are refused by the builder, each for its own reason.
//!
//! The gate builds states of what engines dump. If the builder let broken rows pass, an engine
//! that uses a seq twice would be compared with itself.

mod support;

use forkline_model::{Address, Entry, ErrorKind, Seq, StateBuilder};
use support::{entry, id, metadata, usage};

#[test]
fn the_builder_refuses_what_is_no_session() {
    let state = support::state_of(&[
        entry("a", None, 0, "1"),
        entry("b", Some(&id("a")), 0, "1"),
        usage("u", 1, None),
    ]);
    let row = |n: u64| state.entries()[&Seq::new(n).unwrap()].clone();
    let at = Address::new("app", "k").unwrap();
    let seq = |n| Seq::new(n).unwrap();
    let null = forkline_model::Json::null;
    let finish = |next_seq, fill: &dyn Fn(&mut StateBuilder)| {
        let mut rows = StateBuilder::new(metadata("s"), next_seq);
        fill(&mut rows);
        rows.finish().map(|_| ()).map_err(|error| error.kind())
    };
    let unsummed = {
        let text = r#"{"id":"u","entry":null,"adjustment":false,"usage":7,"seq":1}"#;
        serde_json::from_str::<forkline_model::UsageRow>(text).unwrap()
    };
    let invalid = Err(ErrorKind::InvalidPayload);
    let cases: [(&str, _, _); 12] = [
        (
            "good",
            finish(3, &|rows| {
                rows.entry(row(2)).entry(row(1));
            }),
            Ok(()),
        ),
        ("next seq 0", finish(0, &|_| ()), invalid),
        ("next seq too high", finish((1 << 53) + 1, &|_| ()), invalid),
        (
            "next seq taken",
            finish(2, &|rows| {
                rows.entry(row(1)).entry(row(2));
            }),
            invalid,
        ),
        (
            "seq of entry and value",
            finish(9, &|rows| {
                rows.entry(row(1)).value(at.clone(), seq(1), null());
            }),
            invalid,
        ),
        (
            "seq of two elements",
            finish(9, &|rows| {
                rows.element(at.clone(), seq(1), null()).element(at.clone(), seq(1), null());
            }),
            invalid,
        ),
        (
            "two values at an address",
            finish(9, &|rows| {
                rows.value(at.clone(), seq(1), null()).value(at.clone(), seq(2), null());
            }),
            invalid,
        ),
        (
            "usage",
            finish(9, &|rows| {
                rows.usage(unsummed.clone());
            }),
            invalid,
        ),
        (
            "no parent",
            finish(9, &|rows| {
                rows.entry(row(2));
            }),
            Err(ErrorKind::MissingParent),
        ),
        (
            "later parent",
            finish(9, &|rows| {
                rows.entry(Entry { seq: seq(3), ..row(1) }).entry(row(2));
            }),
            Err(ErrorKind::MissingParent),
        ),
        (
            "id of two entries",
            finish(9, &|rows| {
                rows.entry(row(1)).entry(Entry { seq: seq(2), ..row(1) });
            }),
            Err(ErrorKind::DuplicateId),
        ),
        (
            "id of entry and usage",
            finish(9, &|rows| {
                let usage = state.ledger()[&seq(3)].clone();
                rows.usage(usage).entry(Entry { id: id("u"), ..row(1) });
            }),
            Err(ErrorKind::DuplicateId),
        ),
    ];
    for (what, found, expected) in cases {
        assert_eq!(found, expected, "{what}");
    }
}
