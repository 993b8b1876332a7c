//! `PROTOCOL.md` is what other people write their engines by: its transcript is what
//! `forkline serve` answers, and it leaves no operation, feature or error kind out.

use std::io::Write;
use std::process::{Command, Stdio};

use forkline_engines::MemoryRepo;
use forkline_gate::driver::{Feature, OpenRepo};
use forkline_gate::lineup::EngineKind;
use forkline_gate::protocol::{Connection, LINE_BYTES_MAX, PROTOCOL_VERSION};

const DOCUMENT: &str = include_str!("../PROTOCOL.md");

/// The lines of the transcript.
fn transcript() -> Vec<&'static str> {
    let (_, from_here) = DOCUMENT.split_once("```transcript\n").expect("it has a transcript");
    from_here.split_once("```").expect("the transcript ends").0.lines().collect()
}

#[test]
fn the_transcript_is_what_serve_answers() {
    let lines = transcript();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let command = lines.first().and_then(|line| line.strip_prefix("$ forkline ")).expect("it runs");
    let words =
        command.split(' ').map(|word| word.replace("{dir}", &folder.path().to_string_lossy()));
    let mut serve = Command::new(env!("CARGO_BIN_EXE_forkline"))
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let requests: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("> ")).collect();
    assert!(requests.len() > 10, "{requests:?}");
    let mut stdin = serve.stdin.take().expect("it is piped");
    stdin.write_all((requests.join("\n") + "\n").as_bytes()).expect("it reads");
    drop(stdin);
    let output = serve.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", output.status);
    let answered = String::from_utf8(output.stdout).expect("answers are text");
    let mut answers = answered.lines();
    let mut real = vec![lines.first().map(|line| (*line).to_owned()).expect("it runs")];
    for request in requests {
        real.push(format!("> {request}"));
        // Rows come before the answer that ends them.
        for answer in answers.by_ref() {
            real.push(format!("< {answer}"));
            if !answer.contains("\"row\":") {
                break;
            }
        }
    }
    real.extend(answers.map(|answer| format!("< {answer}")));
    assert_eq!(lines.join("\n"), real.join("\n"), "\nthe real one:\n{}\n", real.join("\n"));
}

/// The names in the first column of the table of operations.
fn operations() -> Vec<&'static str> {
    let (_, table) = DOCUMENT.split_once("## Operations").expect("it has operations");
    let (table, _) = table.split_once("`hello` comes first").expect("the table ends");
    let cells = table.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    cells.flat_map(|cell| cell.split(", ")).map(|name| name.trim_matches('`')).collect()
}

#[test]
fn every_operation_of_the_document_is_one() {
    let names = operations();
    assert_eq!(names.len(), 19, "{names:?}");
    let repo = std::sync::Arc::new(MemoryRepo::new());
    let open = OpenRepo { kind: EngineKind::Memory, folder: ".".into(), repo };
    let mut connection = Connection::new(Box::new(|_| Ok(vec![open])));
    let mut ask = |op: &str| {
        let mut output = Vec::new();
        let line = format!("{{\"id\":1,\"op\":{op}}}");
        connection.answer(line.as_bytes(), &mut output).expect("memory can be written");
        String::from_utf8(output).expect("answers are text")
    };
    assert!(ask(r#"{"hello":{"protocol":1}}"#).contains("\"ok\""));
    for name in names {
        let answer = ask(&format!("{{\"{name}\":{{}}}}"));
        assert!(answer.contains("malformed_request"), "{name}: {answer}");
    }
    assert!(ask(r#"{"frob":{}}"#).contains("unknown_op"));
}

#[test]
fn every_feature_kind_and_limit_is_in_the_document() {
    let named = |name: &str| DOCUMENT.contains(&format!("`{}`", name.trim_matches('"')));
    for feature in Feature::ALL {
        let name = serde_json::to_string(&feature).expect("features have names");
        assert!(named(&name), "{name}");
    }
    // An unknown kind is refused with the list of those there are.
    let error = serde_json::from_str::<forkline_model::ErrorKind>("\"frob\"");
    let error = error.expect_err("it is no kind").to_string();
    let kinds: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
    assert_eq!(kinds.len(), 29, "{kinds:?}");
    for kind in kinds {
        assert!(named(kind), "{kind}");
    }
    assert!(DOCUMENT.contains(&format!("at most {} MiB", LINE_BYTES_MAX >> 20)));
    assert!(DOCUMENT.contains(&format!("`protocol` is {PROTOCOL_VERSION}")));
}
