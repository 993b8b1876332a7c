//! A program that does not keep to the protocol ends the run with a message that names the
//! call; it never holds the gate up, and is never taken for an engine that answers.

use std::time::Duration;

use forkline_gate::driver::{Driver, Fault};
use forkline_gate::protocol::{ProtocolCommand, ProtocolDriver, protocol_lineup};
use forkline_model::{LaneAudit, Op, SessionId};

/// Of a program that answers.
const LONG: Duration = Duration::from_mins(1);
/// Of one that does not.
const SHORT: Duration = Duration::from_millis(200);

const WELCOME: &str = r#"{"id":1,"ok":{"protocol":1,"engine":"odd","repositories":[[]]}}"#;

fn start(command: &str, limit: Duration, cwd: &str) -> Result<ProtocolDriver, Fault> {
    let command = ProtocolCommand::new(command, limit).expect("it has words");
    ProtocolDriver::start(&command, 1, LaneAudit::Selected, cwd)
}

fn refused(command: &str, limit: Duration) -> String {
    start(command, limit, "/").err().expect("it is no engine").to_string()
}

/// A program that greets as it should and then does something else.
fn greeted(then: &str, limit: Duration) -> ProtocolDriver {
    let command = format!("sh -c 'read l; echo \"$0\"; {then}' '{WELCOME}'");
    start(&command, limit, "/").expect("it greets")
}

fn open() -> Op {
    Op::Open { repo: 0, session: SessionId::new("s").expect("a valid id") }
}

/// The failure of the next operation, which stays.
fn fails(driver: &mut ProtocolDriver) -> String {
    let fault = driver.run(&open()).expect_err("it does not answer").to_string();
    assert_eq!(driver.run(&Op::List { repo: 0 }).expect_err("it is ended").to_string(), fault);
    assert!(fault.contains("open"), "{fault}");
    fault
}

#[test]
fn silence_ends_with_the_limit() {
    let fault = refused("tail -f /dev/null", SHORT);
    assert!(fault.contains("hello") && fault.contains("200ms"), "{fault}");
}

/// The request is larger than a pipe holds, and nobody reads it.
#[test]
fn a_program_that_reads_nothing_does_not_hold_the_writer() {
    let cwd = "x".repeat(1 << 20);
    let fault = start("tail -f /dev/null", SHORT, &cwd).err().expect("it is no engine");
    assert!(fault.to_string().contains("200ms"), "{fault}");
}

/// A limit that each line renewed would never come.
#[test]
fn rows_without_end_end_with_the_limit() {
    let row = r#"{"id":2,"row":{"session":{"metadata":{"id":"s","createdAt":1},"nextSeq":1,"stats":{"messageCount":0,"usage":{}}}}}"#;
    let command =
        format!("sh -c 'read l; echo \"$0\"; read l; exec yes \"$1\"' '{WELCOME}' '{row}'");
    let mut driver = start(&command, LONG, "/").expect("it greets");
    let fault = driver.dump(0, &SessionId::new("s").expect("a valid id"));
    let fault = fault.expect_err("it dumps a session twice").to_string();
    assert!(fault.contains("dump") && fault.contains("second session"), "{fault}");
    let row = r#"{"id":2,"row":1}"#;
    let command =
        format!("sh -c 'read l; echo \"$0\"; read l; exec yes \"$1\"' '{WELCOME}' '{row}'");
    let mut driver = start(&command, LONG, "/").expect("it greets");
    assert!(fails(&mut driver).contains("a row, and none was asked for"));
}

#[test]
fn garbage_is_no_answer() {
    let fault = refused("echo 'good morning'", LONG);
    assert!(fault.contains("no answer") && fault.contains("good morning"), "{fault}");
    // What comes back is a request.
    let fault = refused("cat", LONG);
    assert!(fault.contains("exactly one of ok, row and error"), "{fault}");
    for (then, says) in [
        (r#"echo "{\"id\":3,\"ok\":\"done\"}""#, "another request"),
        (r#"echo "{\"id\":2,\"ok\":{\"frob\":1}}""#, "cannot be read"),
        (r#"echo "{\"id\":2,\"error\":{\"kind\":\"frob\",\"message\":\"\"}}""#, "no answer"),
        (r#"echo "{\"id\":2,\"ok\":\"done\"} {\"id\":2}""#, "no answer"),
        (
            r#"echo "{\"id\":2,\"error\":{\"kind\":\"unknown_op\",\"message\":\"\"}}""#,
            "did not take",
        ),
    ] {
        let mut driver = greeted(&format!("read l; {then}"), LONG);
        let fault = driver.run(&open()).expect_err("it is no answer").to_string();
        assert!(fault.contains(says) && fault.contains("open"), "{then}: {fault}");
    }
}

#[test]
fn a_program_that_ends_says_how() {
    let fault = refused("false", LONG);
    assert!(fault.contains("exit status: 1"), "{fault}");
    assert!(fails(&mut greeted("exit 3", LONG)).contains("exit status: 3"));
    assert!(fails(&mut greeted("read l; kill -9 $$", LONG)).contains("signal: 9"));
    // Half an answer is none.
    let fault = fails(&mut greeted(r#"read l; printf "{\"id\":2,\"ok\":\"do""#, LONG));
    assert!(fault.contains("closed its output"), "{fault}");
}

#[test]
fn other_versions_and_no_programs_are_refused() {
    let other = WELCOME.replace("\"protocol\":1", "\"protocol\":2");
    let fault = refused(&format!("sh -c 'read l; echo \"$0\"; cat' '{other}'"), LONG);
    assert!(fault.contains("version 2"), "{fault}");
    let none = WELCOME.replace("[[]]", "[]");
    let fault = refused(&format!("sh -c 'read l; echo \"$0\"; cat' '{none}'"), LONG);
    assert!(fault.contains("no repository"), "{fault}");
    let fault = refused("/nowhere/no-such-program", LONG);
    assert!(fault.contains("cannot start"), "{fault}");
    assert!(protocol_lineup("", 2, LONG).is_err());
    assert!(protocol_lineup("a 'b", 2, LONG).is_err());
}
