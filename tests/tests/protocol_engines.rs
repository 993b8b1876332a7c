//! Engines that are not ours, before the gate: what one declares it cannot do is tolerated, and
//! nothing else is.
//!
//! - An engine that parses numbers and writes them again, as every one that keeps values in
//!   JavaScript does, is judged by doubles where it says so. Where it does not, it is found.
//! - An engine that loses something is found, and the sequence that shows it shows it again.
//!
//! The engines are this very program, started with the argument `engine` and what is wrong with
//! it: the memory engine behind a writer that changes its answers.

use std::io::{self, BufRead, Write};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use forkline_gate::driver::{Driver, Feature};
use forkline_gate::gate::{Options, Oracle, Violation, operations, play};
use forkline_gate::lineup::EngineKind;
use forkline_gate::protocol::{
    Connection, Endpoint, ProtocolCommand, ProtocolDriver, ProtocolRoster, open_all, serve,
};
use forkline_gate::selftest::Bug;
use forkline_model::diff::{Compare, JsonEquality, diff};
use forkline_model::{Answer, LaneAudit, Op, SessionId, World};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some("engine") {
        let fault = arguments.next().unwrap_or_default();
        if let Some(bug) = Bug::named(&fault) {
            let folder = arguments.next().expect("the command names a folder");
            return planted(bug, &folder).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
        }
        return engine(&fault).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    let tests: [(&str, fn()); 5] = [
        ("numbers_are_judged_as_doubles", numbers_are_judged_as_doubles),
        ("what_is_declared_is_tolerated", what_is_declared_is_tolerated),
        ("what_is_not_declared_is_found", what_is_not_declared_is_found),
        ("planted_bugs_are_found_through_serve", planted_bugs_are_found_through_serve),
        ("a_failure_is_kept_and_runs_again", a_failure_is_kept_and_runs_again),
    ];
    for (name, test) in tests {
        test();
        println!("{name} ... ok");
    }
    ExitCode::SUCCESS
}

// ---- the engines ----

/// Numbers as doubles, and less than all features.
const HONEST: &str = "honest";
/// Numbers as doubles, and no word of it.
const BOASTFUL: &str = "boastful";
/// An append that empties the list.
const LOSSY: &str = "lossy";

/// `serve` with a planted bug of the self-test in its first repository.
fn planted(bug: &'static Bug, folder: &str) -> io::Result<()> {
    let first = match bug.engine {
        EngineKind::Memory => "memory:".to_owned(),
        kind => format!("{kind}:{folder}/bug"),
    };
    let places = [first, format!("jsonl:{folder}/sound")];
    let places = places.map(|place| place.parse::<Endpoint>().expect("it names an engine"));
    let open = move |options| {
        let mut repos = open_all(&places, &options)?;
        if let Some(first) = repos.first_mut() {
            first.repo = bug.planted(Arc::clone(&first.repo));
        }
        Ok(repos)
    };
    serve(io::stdin().lock(), io::stdout().lock(), Box::new(open))
}

fn engine(fault: &str) -> io::Result<()> {
    let memory = "memory:".parse::<Endpoint>().expect("it names an engine");
    let mut connection = Connection::new(Box::new(move |options| open_all(&[memory], &options)));
    let mut stdout = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let mut output = Vec::new();
        let line = match line? {
            line if fault == HONEST && line.contains("\"hello\"") => {
                line.replace("strict", "selected")
            }
            line if fault == LOSSY => line.replace(
                "\"kind\":\"list\",\"op\":\"append\"",
                "\"kind\":\"list\",\"op\":\"delete\"",
            ),
            line => line,
        };
        connection.answer(line.as_bytes(), &mut output)?;
        let answers = String::from_utf8(output).expect("answers are text");
        for answer in answers.lines() {
            match fault {
                HONEST => writeln!(stdout, "{}", doubles(&modest(answer)))?,
                BOASTFUL => writeln!(stdout, "{}", doubles(answer))?,
                _ => writeln!(stdout, "{answer}")?,
            }
        }
        stdout.flush()?;
    }
    Ok(())
}

/// Declares neither exact JSON nor some other features, nor any optional operation.
fn modest(answer: &str) -> String {
    if !answer.contains("\"protocol\":1") {
        return answer.to_owned();
    }
    let (welcome, _) = answer.split_once(",\"optional\"").expect("serve has optional operations");
    let welcome = ["exact_json", "tickets", "closed_forks", "strict_audit"]
        .iter()
        .fold(welcome.to_owned(), |welcome, name| welcome.replace(&format!("\"{name}\""), ""));
    let welcome = welcome.replace(",,", ",").replace(",,", ",").replace(",]", "]");
    welcome.replace("[,", "[") + "}}"
}

/// Every number as a reader of doubles writes it; what is none of them is null.
fn doubles(json: &str) -> String {
    let mut out = String::new();
    let mut rest = json;
    while let Some(at) = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit()) {
        let (before, from_here) = rest.split_at(at);
        out.push_str(before);
        let (token, behind) = from_here.split_at(token_bytes(from_here));
        match token.parse::<f64>() {
            Ok(number) if number.is_finite() => out.push_str(&number.to_string()),
            Ok(_) => out.push_str("null"),
            Err(_) => out.push_str(token),
        }
        rest = behind;
    }
    out + rest
}

/// The length of the string or number at the start of a text.
fn token_bytes(text: &str) -> usize {
    if !text.starts_with('"') {
        let is_number = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E');
        return text.find(|c| !is_number(c)).unwrap_or(text.len());
    }
    let mut is_escaped = false;
    let inside = text.bytes().skip(1).take_while(|&byte| {
        let goes_on = is_escaped || byte != b'"';
        is_escaped = byte == b'\\' && !is_escaped;
        goes_on
    });
    inside.count() + 2
}

// ---- the tests ----

/// Nothing can be made here.
const NO_FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
const LIMIT: Duration = Duration::from_mins(1);
/// The seed of the sequences.
const SEED: u64 = 11;

fn command(fault: &str) -> String {
    let program = std::env::current_exe().expect("this program has a path");
    format!("'{}' engine {fault}", program.display())
}

/// Plays random sequences until one differs.
fn hunt(fault: &str, folder: &Path, cases: u64) -> Result<Vec<Feature>, (Vec<Op>, Violation)> {
    let roster = ProtocolRoster::new(&command(fault), LIMIT).expect("it has words");
    let options = Options { seed: SEED, ..Options::default() };
    let mut left_out = std::collections::BTreeSet::new();
    for case in 0..cases {
        let (setup, ops) = operations(&options, case);
        let folder = folder.join(case.to_string());
        let place = setup.place(&folder);
        match play(&ops, &roster, &place, &AtomicUsize::new(0)) {
            Ok(tally) => left_out.extend(tally.left_out.into_keys()),
            Err(violation) => return Err((ops, violation)),
        }
    }
    Ok(left_out.into_iter().collect())
}

fn what_is_declared_is_tolerated() {
    let left_out = hunt(HONEST, Path::new(NO_FOLDER), 25).unwrap_or_else(|(ops, violation)| {
        panic!("seed {SEED}: {violation}\n{}", serde_json::to_string(&ops).expect("it is JSON"))
    });
    for feature in
        [Feature::Tickets, Feature::ClosedForks, Feature::StrictAudit, Feature::Repositories]
    {
        assert!(left_out.contains(&feature), "{feature:?} is not among {left_out:?}");
    }
    assert!(!left_out.contains(&Feature::Scopes), "{left_out:?}");
}

fn what_is_not_declared_is_found() {
    for (fault, says) in [(BOASTFUL, "engine"), (LOSSY, "list ")] {
        let (_, violation) =
            hunt(fault, Path::new(NO_FOLDER), 200).expect_err("something is wrong with it");
        assert!(matches!(violation.oracle, Oracle::State | Oracle::Answer), "{violation}");
        assert!(violation.difference.contains(says), "{fault}: {violation}");
        let (_, again) =
            hunt(fault, Path::new(NO_FOLDER), 200).expect_err("the same sequences show the same");
        assert_eq!(violation, again);
    }
}

/// What the self-test finds in an engine of this process is found in one of another, forced
/// instants of a fork included; what only shows on the disk is not looked for there.
fn planted_bugs_are_found_through_serve() {
    for name in ["renumbers", "next-seq-too-low", "results", "late-commit", "out-of-order"] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let bug = Bug::named(name).expect("the self-test has it");
        let found = hunt(&format!("{name} {{dir}}"), folder.path(), 300);
        let (_, violation) = found.expect_err(name);
        assert!(bug.layers.contains(&violation.oracle), "{name}: {violation}");
    }
}

/// The command of the report is one that a shell takes as it stands.
fn a_failure_is_kept_and_runs_again() {
    let traces = tempfile::tempdir().expect("a temporary folder");
    let forkline = env!("CARGO_BIN_EXE_forkline");
    let gate = Command::new(forkline)
        .args(["gate", "--seed", "11", "--cases", "50", "--ops", "5", "--jobs", "1"])
        .arg("--trace-dir")
        .arg(traces.path())
        .args(["--engine", &command(LOSSY), "--call-limit", "60s"])
        .output()
        .expect("it starts");
    let report = String::from_utf8_lossy(&gate.stdout);
    assert_eq!(gate.status.code(), Some(1), "{report}");
    assert!(report.contains("does not declare TornTails, Repositories"), "{report}");
    let again = report.lines().find_map(|line| line.strip_prefix("again: forkline "));
    let again = again.expect("the report says how to run it again");
    let run = |command: &str| {
        let command = format!("'{forkline}' {command}");
        Command::new("sh").args(["-c", &command]).output().expect("it starts")
    };
    let replayed = run(again);
    let said = String::from_utf8_lossy(&replayed.stdout);
    assert_eq!(replayed.status.code(), Some(1), "{again}\n{said}");
    assert!(said.contains("list "), "{said}");
    // Our own engines have no such bug.
    let (ours, _) = again.split_once(" --engine ").expect("it names the engine");
    let replayed = run(ours);
    assert_eq!(replayed.status.code(), Some(0), "{}", String::from_utf8_lossy(&replayed.stdout));
}

const OPS: &str = r#"[
    {"create":{"repo":0,"id":"s","cwd":"/w","created_at":1}},
    {"commit":{"repo":0,"session":"s","timestamp":2,"writes":[
        {"kind":"entry","id":"e","parentId":null,"type":"message",
            "message":{"n":12345678901234567890,"b":1.10,"a":1.0,"far":1e400}},
        {"kind":"value","op":"set","namespace":"a","key":"k","value":["\u0041\/",-0.0,1e2]},
        {"kind":"list","op":"append","namespace":"a","key":"k","value":1e-7},
        {"kind":"usage","id":"u","usage":{"input":0.1,"cost":{"total":1.30}},"adjustment":false},
        {"kind":"usage","id":"v","usage":{"input":0.2,"output":1.0},"adjustment":true}]}},
    {"create_branch":{"repo":0,"session":"s","branch":"main","at":"e","timestamp":3}},
    {"create_branch":{"repo":0,"session":"s","branch":"main","at":"e","timestamp":3}},
    {"create_branch":{"repo":0,"session":"s","branch":"side","at":"nobody","timestamp":3}},
    {"create_branch":{"repo":0,"session":"t","branch":"side","at":null,"timestamp":3}},
    {"append":{"repo":0,"session":"s","branch":"main","id":"f","entry_type":"custom",
        "custom_type":"app","payload":{"n":1.50},"timestamp":4}},
    {"append":{"repo":0,"session":"s","branch":"main","id":"f","entry_type":"message",
        "payload":{},"timestamp":4}},
    {"append":{"repo":0,"session":"s","branch":"side","id":"g","entry_type":"message",
        "payload":{},"timestamp":4}},
    {"set_name":{"repo":0,"session":"s","name":"a name","timestamp":5}},
    {"set_label":{"repo":0,"session":"s","entry":"e","label":"here","timestamp":6}},
    {"set_label":{"repo":0,"session":"s","entry":"e","label":null,"timestamp":6}},
    {"set_label":{"repo":0,"session":"s","entry":"nobody","label":"here","timestamp":6}},
    {"read":{"repo":0,"session":"s","read":"stats"}},
    {"read":{"repo":0,"session":"s","read":{"scan_usage":{}}}},
    {"read":{"repo":0,"session":"s","read":{"scan_branch":{"start":"f"}}}}
]"#;

fn numbers_are_judged_as_doubles() {
    let command = ProtocolCommand::new(&command(HONEST), LIMIT).expect("it has words");
    let mut driver =
        ProtocolDriver::start(&command, Path::new(NO_FOLDER), 1, LaneAudit::Selected, "/w")
            .expect("the engine starts");
    let capabilities = driver.capabilities(0);
    assert!(!capabilities.has(Feature::ExactJson) && capabilities.has(Feature::Scopes));
    let ops: Vec<Op> = serde_json::from_str(OPS).expect("they are in the vocabulary");
    let mut model = World::new(LaneAudit::Selected);
    let mut differ = 0;
    for (step, op) in ops.iter().enumerate() {
        let (expected, got) = (model.run(op), driver.run(op).expect("the engine goes on"));
        let json = |answer: &Answer| {
            let text = serde_json::to_string(answer).expect("answers have a JSON form");
            forkline_model::Json::parse(&text).expect("it is JSON")
        };
        let (left, right) = (json(&expected), json(&got));
        assert!(left.equals_as_doubles(&right), "step {step}: {left} != {right}");
        let is_refused = matches!(got, Answer::Error { .. });
        assert_eq!(driver.last_error().is_some(), is_refused, "step {step}");
        differ += usize::from(expected != got);
    }
    assert_eq!(differ, 2, "the two last reads show what was lost");

    let id = SessionId::new("s").expect("a valid id");
    let expected = model.open_state(0, &id).expect("it is open");
    let got = driver.dump(0, &id).expect("it dumps");
    let found = |json| diff(expected, &got, &Compare { json, ..Compare::default() });
    assert!(found(JsonEquality::AsDoubles).is_empty(), "{}", found(JsonEquality::AsDoubles));
    let lost = found(JsonEquality::Exact);
    assert!(lost.lines.len() >= 5, "{lost}");
}
