//! A frontend that embeds `forkline serve` finds the sessions that were there before it, and
//! leaves them as they are when it goes, whatever it had begun.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Answers to requests, each of which is an operation.
fn ask(place: &str, folder: &Path, ops: &[&str]) -> Vec<String> {
    let place = place.replace("{dir}", &folder.to_string_lossy());
    let mut serve = Command::new(env!("CARGO_BIN_EXE_forkline"))
        .args(["serve", "--stdio", &place])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let hello = r#"{"hello":{"protocol":1}}"#;
    let requests = std::iter::once(&hello).chain(ops).enumerate();
    let requests: Vec<String> =
        requests.map(|(id, op)| format!("{{\"id\":{id},\"op\":{op}}}\n")).collect();
    let mut stdin = serve.stdin.take().expect("it is piped");
    stdin.write_all(requests.concat().as_bytes()).expect("it reads");
    drop(stdin);
    let output = serve.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", output.status);
    let answers = String::from_utf8(output.stdout).expect("answers are text");
    let answers: Vec<String> = answers.lines().skip(1).map(str::to_owned).collect();
    assert_eq!(answers.len(), ops.len(), "{answers:?}");
    answers
}

const CREATE: &str = r#"{"create":{"repo":0,"id":"s","cwd":"/w","created_at":1}}"#;
const OPEN: &str = r#"{"open":{"repo":0,"session":"s"}}"#;
const BEGIN: &str = r#"{"begin":{"repo":0,"session":"s"}}"#;
const NAME: &str = r#"{"read":{"repo":0,"session":"s","read":"name"}}"#;

fn check(place: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ask = |ops: &[&str]| ask(place, folder.path(), ops);

    // The connection ends with a session open, a commit in a scope, and a fork under way.
    let named = r#"{"commit":{"repo":0,"session":"s","timestamp":2,"writes":[{"kind":"value","op":"set","namespace":"pi.session.name","key":"","value":"kept"}]}}"#;
    let begun = r#"{"fork_begin":{"ticket":1,"request":{"from":0,"source":"s","into":0,"id":"begun","scope":"tree","created_at":3}}}"#;
    let first = ask(&[CREATE, BEGIN, named, begun]);
    assert!(first.iter().all(|answer| answer.contains("\"ok\"")), "{first:?}");

    // Before it is opened it is closed; what is not there is unknown.
    let closed = ask(&[NAME, r#"{"close":{"repo":0,"session":"s"}}"#]);
    assert!(closed[0].contains("\"error\":{\"kind\":\"closed\""), "{closed:?}");
    assert!(closed[1].contains("\"ok\":\"done\""), "{closed:?}");
    let unknown = r#"{"open":{"repo":0,"session":"nobody"}}"#;
    let opened = ask(&[OPEN, NAME, BEGIN, unknown, CREATE]);
    assert!(opened[0].contains("\"ok\":\"done\""), "{opened:?}");
    assert!(opened[1].contains("\"text\":\"kept\""), "{opened:?}");
    assert!(opened[2].contains("\"ok\":\"done\""), "{opened:?}");
    assert!(opened[3].contains("unknown_session"), "{opened:?}");
    assert!(opened[4].contains("session_exists"), "{opened:?}");

    // The fork that had begun is whole: serve finishes what it has captured.
    let of_the_fork = [OPEN, NAME].map(|op| op.replace("\"s\"", "\"begun\""));
    let begun = ask(&of_the_fork.each_ref().map(String::as_str));
    assert!(begun[1].contains("\"text\":\"kept\""), "{begun:?}");

    // A fork of the closed source, then the source goes.
    let fork = r#"{"fork":{"request":{"from":0,"source":"s","into":0,"id":"f","scope":"tree","created_at":4},"open":false}}"#;
    let delete = r#"{"delete":{"repo":0,"session":"s"}}"#;
    let forked = ask(&[fork, fork, delete, delete]);
    assert!(forked[0].contains("\"ok\":\"done\""), "{forked:?}");
    assert!(forked[1].contains("session_exists"), "{forked:?}");
    assert!(forked[2].contains("\"ok\":\"done\""), "{forked:?}");
    assert!(forked[3].contains("unknown_session"), "{forked:?}");
    let left = ask(&[r#"{"list":{"repo":0}}"#]);
    assert!(left[0].contains("\"id\":\"f\"") && !left[0].contains("\"id\":\"s\""), "{left:?}");
}

#[test]
fn in_jsonl_files() {
    check("jsonl:{dir}");
}

#[test]
fn in_containers() {
    check("sqlite:{dir}");
}

#[test]
fn in_a_shared_container() {
    check("sqlite-shared:{dir}/all.sqlite");
}

#[test]
fn a_wrong_call_is_refused_with_an_example() {
    let call = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_forkline"))
            .arg("serve")
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .expect("it starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for arguments in
        [&[][..], &["--stdio"], &["memory:"], &["--stdio", "git:x"], &["--stdio", "jsonl:"]]
    {
        let (status, said) = call(arguments);
        assert_eq!(status, Some(2), "{arguments:?}: {said}");
    }
    assert!(call(&["--stdio", "git:x"]).1.contains("jsonl:DIR"));
    assert_eq!(call(&["--stdio", "memory:"]), (Some(0), String::new()));
}
