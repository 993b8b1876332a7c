//! What is written down reads back the same: writes, operations, answers, traces.
//!
//! Payloads travel as raw text inside tagged enums; a derive that buffers them would round
//! numbers and merge members, and nobody would see it but the sessions.

mod support;

use forkline_model::{
    Address, Answer, BranchScan, EntryQuery, ErrorKind, ForkRequest, LaneAudit, Limit, ListQuery,
    Op, Position, ReadOp, Scope, Seq, SeqQuery, SessionId, Trace, World, Write,
};
use proptest::prelude::*;
use support::{branch, history, id, json, millis};

fn again<T: serde::Serialize + serde::de::DeserializeOwned>(value: &T) -> T {
    let text = serde_json::to_string(value).expect("it has a JSON form");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

fn session() -> SessionId {
    SessionId::new("s/../%\u{1F600}").unwrap()
}

fn reads() -> Vec<ReadOp> {
    let address = Address::new("app", "").unwrap();
    let query = EntryQuery { custom_type: Some("c".try_into().unwrap()), ..EntryQuery::default() };
    let scan = BranchScan { stop_at_id: Some(id("")), ..BranchScan::from(id("e1")) };
    let branch = branch("main");
    vec![
        ReadOp::Metadata,
        ReadOp::NextSeq,
        ReadOp::GetEntries(vec![id("e1"), id("missing")]),
        ReadOp::GetValue(address.clone()),
        ReadOp::ScanValues { namespace: "pi2".try_into().unwrap(), key_prefix: "k%".to_owned() },
        ReadOp::ReadList { address, query: ListQuery::default() },
        ReadOp::ScanBranch(scan.clone()),
        ReadOp::ScanBranchStructure(scan),
        ReadOp::ScanEntries(SeqQuery { from: Some(Seq::new(2).unwrap()), ..SeqQuery::default() }),
        ReadOp::ScanUsage(SeqQuery::default()),
        ReadOp::FindEntries(query.clone()),
        ReadOp::FindEntry(EntryQuery::default()),
        ReadOp::Stats,
        ReadOp::Name,
        ReadOp::Label(id("e1")),
        ReadOp::Branches,
        ReadOp::Tip(branch.clone()),
        ReadOp::FindBranchEntries { branch: branch.clone(), query: query.clone() },
        ReadOp::FindBranchEntry { branch, query },
    ]
}

/// One operation of every kind around the writes of a session.
fn ops(commits: &[Vec<Write>]) -> Vec<Op> {
    let (repo, session, timestamp) = (0, session(), millis(7));
    let request = |id: &str, scope| ForkRequest {
        from: 0,
        source: session.clone(),
        into: 1,
        id: SessionId::new(id).unwrap(),
        scope,
        created_at: millis(8),
        cwd: Some("/w".to_owned()),
        closed: true,
    };
    let scope =
        Scope::Branch { branch: branch("main"), entry: Some(id("e1")), position: Position::Before };
    let mut ops = vec![Op::Create {
        repo,
        id: session.clone(),
        cwd: None,
        parent: Some(session.clone()),
        created_at: timestamp,
    }];
    ops.extend(commits.iter().map(|writes| Op::Commit {
        repo,
        session: session.clone(),
        writes: writes.clone(),
        timestamp,
    }));
    ops.extend(reads().into_iter().map(|read| Op::Read { repo, session: session.clone(), read }));
    let attempts = vec![commits.concat(), vec![]];
    ops.extend([
        Op::Mutate { repo, session: session.clone(), reads: reads(), attempts, timestamp },
        Op::ForkBegin { ticket: u64::MAX, request: request("f", Scope::Tree) },
        Op::CreateBranch {
            repo,
            session: session.clone(),
            branch: branch("new"),
            at: None,
            timestamp,
        },
        Op::Append {
            repo,
            session: session.clone(),
            branch: branch("new"),
            id: id("appended"),
            entry_type: forkline_model::EntryType::Custom,
            custom_type: Some("c".try_into().unwrap()),
            payload: json(r#"{"data":12345678901234567890123,"data":"\ud800"}"#),
            timestamp,
        },
        Op::SetName { repo, session: session.clone(), name: String::new(), timestamp },
        Op::SetLabel {
            repo,
            session: session.clone(),
            entry: id("appended"),
            label: None,
            timestamp,
        },
        Op::ForkFinish { ticket: u64::MAX, open: false },
        Op::Fork { request: request("g", scope), open: true },
        Op::Reopen { repo, session: session.clone() },
        Op::Close { repo, session: session.clone() },
        Op::TearTail { repo, session: session.clone(), text: r#"[{"kind""#.to_owned() },
        Op::Plant {
            repo,
            session: session.clone(),
            lines: vec![r#"{"type":"session","version":3}"#.to_owned(), "\u{feff}\r\0".to_owned()],
            torn: "{\"".to_owned(),
        },
        Op::Open { repo, session: session.clone() },
        Op::List { repo },
        Op::Delete { repo, session },
    ]);
    ops
}

proptest! {
    #[test]
    fn a_write_reads_back_from_its_line(history in history()) {
        for (seq, write) in (1..).zip(history.writes()) {
            let line = write.to_jsonl(Seq::new(seq)?, millis(seq));
            prop_assert!(!line.contains('\n'));
            prop_assert_eq!(&Write::from_jsonl(&line)?, &write, "{}", line);
            prop_assert_eq!(&again(&write), &write);
            let stamp = format!(r#""seq":{seq}"#);
            prop_assert!(line.contains(&stamp), "{}", line);
        }
    }

    #[test]
    fn traces_and_answers_read_back_the_same(history in history(), seed: Option<u64>) {
        let mut world = World::new(LaneAudit::Strict);
        let ops = ops(&history.commits);
        for op in &ops {
            let answer = world.run(op);
            prop_assert_eq!(&again(&answer), &answer);
        }
        let engines = vec!["memory".to_owned(), "jsonl".to_owned()];
        let lane_audit = LaneAudit::Strict;
        let trace = Trace { about: "all".to_owned(), seed, engines, lane_audit, ops };
        prop_assert_eq!(&again(&trace), &trace);
    }

    /// What was read back does the same: equality of JSON overlooks nothing that matters.
    #[test]
    fn a_trace_that_was_read_back_runs_the_same(history in history()) {
        let ops = ops(&history.commits);
        let (mut first, mut second) = (World::default(), World::default());
        for op in &ops {
            prop_assert_eq!(first.run(op), second.run(&again(op)));
        }
        prop_assert_eq!(first, second);
    }
}

/// The form in trace files is fixed: traces are kept for years.
#[test]
fn the_written_form_is_stable() {
    let writes = vec![Write::set("app", "k", json("1.10")).unwrap()];
    let op = Op::Commit { repo: 0, session: "s".try_into().unwrap(), writes, timestamp: millis(7) };
    assert_eq!(
        serde_json::to_string(&op).unwrap(),
        concat!(
            r#"{"commit":{"repo":0,"session":"s","writes":[{"kind":"value","op":"set","#,
            r#""namespace":"app","key":"k","value":1.10}],"timestamp":7}}"#
        )
    );
    let answer = Answer::Error { kind: ErrorKind::EntryNotOnBranch };
    let text = serde_json::to_string(&answer).unwrap();
    assert_eq!(text, r#"{"error":{"kind":"entry_not_on_branch"}}"#);
    let trace: Trace = serde_json::from_str(r#"{"about":"","ops":[{"list":{"repo":3}}]}"#).unwrap();
    let expected = Trace {
        about: String::new(),
        seed: None,
        engines: vec![],
        lane_audit: LaneAudit::Selected,
        ops: vec![Op::List { repo: 3 }],
    };
    assert_eq!(trace, expected);
}

/// Only operations that leave a time behind have one.
#[test]
fn operations_say_their_time() {
    for op in ops(&[vec![]]) {
        let text = serde_json::to_string(&op).unwrap();
        let stamped = text.contains("timestamp") || text.contains("created_at");
        assert_eq!(op.timestamp().is_some(), stamped, "{text}");
    }
}

/// Absent details and details that are null are two things; so they are after a round trip.
#[test]
fn a_cost_row_keeps_null_details() {
    for details in ["", r#","details":null"#, r#","details":{"d":1}"#] {
        let text = format!(
            r#"{{"id":"u","entry":null,"adjustment":false,"usage":{{}}{details},"seq":1}}"#
        );
        let row: forkline_model::UsageRow = serde_json::from_str(&text).unwrap();
        assert_eq!(row.details.is_some(), !details.is_empty(), "{text}");
        assert_eq!(serde_json::to_string(&row).unwrap(), text);
    }
}

#[test]
fn a_limit_is_at_least_one_and_clamped() {
    for limit in [0, -1, i64::MIN] {
        assert_eq!(Limit::new(limit).unwrap_err().kind(), ErrorKind::InvalidLimit);
    }
    assert_eq!(Limit::default().get(), 1_000);
    for (given, expected) in [(1, 1), (10_000, 10_000), (10_001, 10_000), (i64::MAX, 10_000)] {
        assert_eq!(Limit::new(given).unwrap().get(), expected);
    }
    assert!(serde_json::from_str::<Limit>("0").is_err());
}

/// Renaming reaches every repository that an operation names, and the source of a fork is first.
#[test]
fn operations_name_their_repositories() {
    for mut op in ops(&[vec![]]) {
        let text = serde_json::to_string(&op).unwrap();
        let is_fork = text.contains(r#""from":0,"#) && text.contains(r#""into":1,"#);
        let named = match (is_fork, text.contains(r#""repo":0"#)) {
            (true, false) => vec![0, 1],
            (false, true) => vec![0],
            (false, false) => vec![],
            (true, true) => panic!("a fork names its repositories by their roles: {text}"),
        };
        assert_eq!(op.repos(), named, "{text}");
        for repo in op.repos_mut() {
            *repo += 7;
        }
        assert_eq!(op.repos(), named.iter().map(|repo| repo + 7).collect::<Vec<_>>(), "{text}");
    }
}
