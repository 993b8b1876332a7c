//! An engine behind the protocol is the same engine: what one sequence of operations answers
//! and leaves behind does not depend on whether it runs in this process or in another one.
//!
//! The other process is `forkline serve`; the answers are held against the model too, so that
//! two wrong ones do not agree.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use forkline_engines::RepoOptions;
use forkline_gate::driver::{Driver, Feature, LocalDriver};
use forkline_gate::protocol::{Endpoint, ProtocolCommand, ProtocolDriver, open_all};
use forkline_model::{Answer, LaneAudit, Metadata, Op, SessionId, World};

const CWD: &str = "/demo/\u{e9}";
const LIMIT: Duration = Duration::from_mins(1);

/// Nothing can be made here.
const NO_FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");

/// Every operation, accepted and refused.
const SEQUENCE: &str = include_str!("protocol/sequence.json");

fn sequence() -> Vec<Op> {
    serde_json::from_str(SEQUENCE).expect("the sequence is in the vocabulary")
}

fn local(endpoints: &[Endpoint], audit: LaneAudit) -> LocalDriver {
    let options = |environment| RepoOptions {
        environment,
        lane_audit: audit,
        cwd: Some(CWD.to_owned()),
        ..RepoOptions::default()
    };
    LocalDriver::over(|environment| open_all(endpoints, &options(environment)))
        .expect("the repositories open")
}

fn served(places: &str, folder: &Path, audit: LaneAudit) -> ProtocolDriver {
    let command = format!("'{}' serve --stdio {places}", env!("CARGO_BIN_EXE_forkline"));
    let command = ProtocolCommand::new(&command, LIMIT).expect("it has words");
    ProtocolDriver::start(&command, &folder.join("served"), 2, audit, CWD).expect("serve starts")
}

/// Without what an engine does not keep.
fn bare(answer: Answer, driver: &dyn Driver, repo: usize) -> Answer {
    if driver.capabilities(repo).has(Feature::Cwd) {
        return answer;
    }
    let bare = |metadata: Metadata| Metadata { cwd: None, ..metadata };
    match answer {
        Answer::Metadata(metadata) => Answer::Metadata(bare(metadata)),
        Answer::Sessions(sessions) => Answer::Sessions(sessions.into_iter().map(bare).collect()),
        other => other,
    }
}

fn repo_of(op: &Op) -> usize {
    match op {
        Op::List { repo } | Op::Read { repo, .. } => *repo,
        _ => 0,
    }
}

/// Runs the sequence on both and on the model.
fn check(places: [&str; 2], command: &str, audit: LaneAudit) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = |text: &str| text.replace("{dir}", &folder.path().to_string_lossy());
    let endpoints = places.map(|text| place(text).parse::<Endpoint>().expect("an endpoint"));
    let mut here = local(&endpoints, audit);
    let mut there = served(command, folder.path(), audit);
    let mut model = World::new(audit);
    for (step, op) in sequence().into_iter().enumerate() {
        if there.capabilities(0).missing_for(&op).is_some() {
            continue;
        }
        let expected = model.run(&op);
        let answer = there.run(&op).expect("serve goes on");
        let shown = serde_json::to_string(&op).expect("operations have a JSON form");
        assert_eq!(answer, here.run(&op).expect("the engine goes on"), "step {step}: {shown}");
        let repo = repo_of(&op);
        assert_eq!(
            bare(answer.clone(), &there, repo),
            bare(expected, &there, repo),
            "step {step}: {shown}"
        );
        let is_refused = matches!(answer, Answer::Error { .. });
        assert_eq!(there.last_error().is_some(), is_refused, "step {step}: {shown}");
        assert_eq!(there.last_error().is_some(), here.last_error().is_some());
    }
    let mut dumped = 0;
    for repo in 0..2 {
        for metadata in model.list(repo) {
            let id: &SessionId = &metadata.id;
            if model.open_state(repo, id).is_ok() {
                let state = there.dump(repo, id).expect("serve dumps it");
                assert_eq!(state, here.dump(repo, id).expect("the engine dumps it"), "{id}");
                dumped += 1;
            } else {
                assert!(there.dump(repo, id).is_err(), "{id} is closed");
            }
        }
    }
    assert!(dumped >= 2, "{dumped} sessions are open in the end");
}

#[test]
fn memory_and_jsonl() {
    let places = ["memory:", "jsonl:{dir}/one"];
    check(places, &places.join(" "), LaneAudit::Selected);
}

#[test]
fn jsonl_and_sqlite() {
    let places = ["jsonl:{dir}/one", "sqlite:{dir}/two"];
    check(places, &places.join(" "), LaneAudit::Strict);
}

#[test]
fn sqlite_and_a_shared_container() {
    let places = ["sqlite:{dir}/one", "sqlite-shared:{dir}/two.sqlite"];
    check(places, &places.join(" "), LaneAudit::Selected);
}

/// A program with one repository is started twice, and what crosses them is left out.
#[test]
fn one_process_for_each_repository() {
    let places = ["jsonl:{dir}/one", "jsonl:{dir}/two"];
    let folder = tempfile::tempdir().expect("a temporary folder");
    let driver = served("jsonl:{dir}/only", folder.path(), LaneAudit::Selected);
    for repo in 0..2 {
        assert!(!driver.capabilities(repo).has(Feature::Repositories));
        assert!(driver.capabilities(repo).has(Feature::Tickets));
    }
    check(places, "jsonl:{dir}/only", LaneAudit::Selected);
}

#[test]
fn strict_audits_reach_the_engine() {
    let ops: Vec<Op> = serde_json::from_str(
        r#"[
        {"create":{"repo":0,"id":"s","cwd":"/w","created_at":1}},
        {"commit":{"repo":0,"session":"s","timestamp":2,"writes":[
            {"kind":"value","op":"set","namespace":"pi.branch.tip","key":"b","value":"nobody"}]}},
        {"fork":{"request":{"from":0,"source":"s","into":0,"id":"f","scope":"tree",
            "created_at":3},"open":true}}]"#,
    )
    .expect("they are in the vocabulary");
    for (audit, is_refused) in [(LaneAudit::Selected, false), (LaneAudit::Strict, true)] {
        let mut driver = served("memory:", Path::new(NO_FOLDER), audit);
        let answers: Vec<Answer> =
            ops.iter().map(|op| driver.run(op).expect("serve goes on")).collect();
        assert_eq!(matches!(answers.last(), Some(Answer::Error { .. })), is_refused, "{audit:?}");
    }
}

/// Sequences would not be repeatable, and somebody's sessions are not for playing with.
#[test]
fn an_engine_that_holds_sessions_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let endpoint = Endpoint {
        kind: forkline_gate::lineup::EngineKind::Jsonl,
        place: folder.path().to_owned(),
    };
    let mut driver = local(&[endpoint], LaneAudit::Selected);
    let create = sequence().into_iter().next().expect("it creates a session");
    assert_eq!(driver.run(&create), Ok(Answer::Done));
    let exe = env!("CARGO_BIN_EXE_forkline");
    let command = format!("'{exe}' serve --stdio 'jsonl:{}'", folder.path().display());
    let command = ProtocolCommand::new(&command, LIMIT).expect("it has words");
    let refused = ProtocolDriver::start(&command, folder.path(), 1, LaneAudit::Selected, CWD);
    let fault = refused.err().expect("it is not empty").to_string();
    assert!(fault.contains("{dir}"), "{fault}");
}

/// The gate against our own engines behind the protocol finds nothing.
#[test]
fn the_gate_holds_serve_against_the_model() {
    let exe = env!("CARGO_BIN_EXE_forkline");
    for (places, says) in [
        ("jsonl:{dir}/one sqlite:{dir}/two", "engines: jsonl+sqlite (does not declare Cwd"),
        ("memory:", "left out"),
    ] {
        let gate = Command::new(exe)
            .args(["gate", "--seed", "5", "--cases", "6", "--call-limit", "60s"])
            .args(["--engine", &format!("'{exe}' serve --stdio {places}")])
            .output()
            .expect("it starts");
        let report = String::from_utf8_lossy(&gate.stdout);
        assert_eq!(gate.status.code(), Some(0), "{report}");
        assert!(report.contains(says), "{report}");
    }
}

/// Nobody has to read a trace to learn that he mistyped the command.
#[test]
fn a_command_that_is_no_engine_is_a_wrong_call() {
    for (command, says) in
        [("/nowhere/engine", "cannot start"), ("false", "exit status: 1"), ("a 'b", "quote")]
    {
        let gate = Command::new(env!("CARGO_BIN_EXE_forkline"))
            .args(["gate", "--cases", "1", "--engine", command])
            .output()
            .expect("it starts");
        let said = String::from_utf8_lossy(&gate.stderr);
        assert_eq!(gate.status.code(), Some(2), "{said}");
        assert!(said.contains(says), "{said}");
    }
}
