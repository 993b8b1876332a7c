//! An engine that parses payloads and writes them again, as every one that keeps values in
//! JavaScript does, loses the spelling of numbers and repeated members. Where it says so it is
//! judged by what is left; where it does not, the difference is seen.
//!
//! The engine is this very program, started with the argument `engine`: the memory engine
//! behind a reader and writer of doubles.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::time::Duration;

use forkline_gate::driver::{Driver, Feature};
use forkline_gate::protocol::{Connection, Endpoint, ProtocolCommand, ProtocolDriver, open_all};
use forkline_model::diff::{Compare, JsonEquality, diff};
use forkline_model::{Answer, LaneAudit, Op, SessionId, World};
use serde_json::{Map, Number, Value};

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("engine") {
        return engine().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    numbers_are_judged_as_doubles();
    println!("numbers_are_judged_as_doubles ... ok");
    ExitCode::SUCCESS
}

// ---- the engine ----

fn engine() -> io::Result<()> {
    let memory = "memory:".parse::<Endpoint>().expect("it names an engine");
    let mut connection = Connection::new(Box::new(move |options| open_all(&[memory], &options)));
    let mut stdout = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let mut output = Vec::new();
        connection.answer(line?.as_bytes(), &mut output)?;
        for answer in output.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            let answer: Value = serde_json::from_slice(answer)?;
            writeln!(stdout, "{}", less(answer))?;
        }
        stdout.flush()?;
    }
    Ok(())
}

/// What is left after a reader of doubles, without the features that this takes away. The
/// optional operations go too, so that the client puts them together.
fn less(value: Value) -> Value {
    match value {
        Value::Number(number) => Value::Number(double(&number)),
        Value::Array(items) => {
            let items = items.into_iter().filter(|item| item != "exact_json");
            Value::Array(items.map(less).collect())
        }
        Value::Object(members) => {
            let members = members.into_iter().filter(|(name, _)| name != "optional");
            Value::Object(members.map(|(name, value)| (name, less(value))).collect::<Map<_, _>>())
        }
        other => other,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "checked to be whole and in range")]
fn double(number: &Number) -> Number {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let double = number.as_f64().expect("every number of the test is a double");
    if double.fract() == 0.0 && double.abs() <= EXACT {
        return Number::from(double as i64);
    }
    Number::from_f64(double).expect("it is finite")
}

// ---- the test ----

const OPS: &str = r#"[
    {"create":{"repo":0,"id":"s","cwd":"/w","created_at":1}},
    {"commit":{"repo":0,"session":"s","timestamp":2,"writes":[
        {"kind":"entry","id":"e","parentId":null,"type":"message",
            "message":{"n":12345678901234567890,"b":1.10,"a":1.0,"twice":1,"twice":2}},
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
    let program = std::env::current_exe().expect("this program has a path");
    let command = format!("'{}' engine", program.display());
    let command = ProtocolCommand::new(&command, Duration::from_mins(1)).expect("it has words");
    let mut driver =
        ProtocolDriver::start(&command, 1, LaneAudit::Selected, "/w").expect("the engine starts");
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
