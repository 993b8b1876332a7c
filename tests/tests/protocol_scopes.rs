//! Mutation scopes over the protocol (lanes.md, "The mutation line"): one attempt to commit,
//! reads throughout, and an end that comes with the connection's at the latest.

use std::io::{BufReader, Read};
use std::sync::Arc;

use forkline_engines::{MemoryRepo, Repo};
use forkline_gate::driver::OpenRepo;
use forkline_gate::lineup::EngineKind;
use forkline_gate::protocol::{Connection, LINE_BYTES_MAX, serve};

/// Requests in, answers out.
struct Client {
    connection: Connection,
    next_id: u64,
}

impl Client {
    fn new(repo: &MemoryRepo) -> Self {
        let repo: Arc<dyn Repo> = Arc::new(repo.clone());
        let open = OpenRepo { kind: EngineKind::Memory, folder: ".".into(), repo };
        let mut client =
            Self { connection: Connection::new(Box::new(|_| Ok(vec![open]))), next_id: 1 };
        let welcome = client.ask(r#"{"hello":{"protocol":1}}"#);
        assert!(welcome.contains("\"engine\":\"memory\""), "{welcome}");
        client
    }

    /// What stands behind the id.
    fn ask(&mut self, op: &str) -> String {
        let id = self.next_id;
        self.next_id += 1;
        let mut output = Vec::new();
        let request = format!(r#"{{"id":{id},"op":{op}}}"#);
        self.connection.answer(request.as_bytes(), &mut output).expect("memory can be written");
        let text = String::from_utf8(output).expect("answers are text");
        let answer =
            text.strip_prefix(&format!("{{\"id\":{id},")).expect("it answers this request");
        answer.trim_end().trim_end_matches('}').to_owned()
    }

    fn check(&mut self, op: &str, starts_with: &str) {
        let answer = self.ask(op);
        assert!(answer.starts_with(starts_with), "{op}\n  {answer}");
    }
}

const CREATE: &str = r#"{"create":{"repo":0,"id":"s","created_at":1}}"#;
const BEGIN: &str = r#"{"begin":{"repo":0,"session":"s"}}"#;
const END: &str = r#"{"end":{"repo":0,"session":"s"}}"#;
const READ: &str =
    r#"{"read":{"repo":0,"session":"s","read":{"get_value":{"namespace":"a","key":"k"}}}}"#;
const OUT_OF_ORDER: &str = r#""error":{"kind":"out_of_order""#;

fn set(value: u32) -> String {
    let write = r#"{"kind":"value","op":"set","namespace":"a","key":"k","value":"#;
    format!(r#"{{"commit":{{"repo":0,"session":"s","timestamp":2,"writes":[{write}{value}}}]}}}}"#)
}

#[test]
fn one_attempt_and_reads_throughout() {
    let mut client = Client::new(&MemoryRepo::new());
    client.check(CREATE, r#""ok":"done""#);
    client.check(BEGIN, r#""ok":"done""#);
    client.check(READ, r#""ok":{"value":null"#);
    client.check(&set(1), r#""ok":{"committed":{"firstSeq":1,"#);
    client.check(READ, r#""ok":{"value":[1,1]"#);
    client.check(&set(2), r#""error":{"kind":"commit_attempted""#);
    client.check(READ, r#""ok":{"value":[1,1]"#);
    client.check(END, r#""ok":"done""#);
    client.check(END, r#""ok":"done""#);
    client.check(&set(3), r#""ok":{"committed":{"firstSeq":2,"#);
    client.check(BEGIN, r#""ok":"done""#);
    client.check(END, r#""ok":"done""#);
    client.check(BEGIN, r#""ok":"done""#);
    client.check(&set(4), r#""ok":{"committed":{"firstSeq":3,"#);
}

#[test]
fn a_failed_attempt_counts() {
    let mut client = Client::new(&MemoryRepo::new());
    client.check(CREATE, r#""ok":"done""#);
    client.check(BEGIN, r#""ok":"done""#);
    let orphan = r#"{"commit":{"repo":0,"session":"s","timestamp":2,"writes":[{"kind":"entry","id":"e","parentId":"nobody","type":"message"}]}}"#;
    client.check(orphan, r#""error":{"kind":"missing_parent""#);
    client.check(&set(1), r#""error":{"kind":"commit_attempted""#);
}

/// All of these wait for the line, which nobody else could free: they must not hang.
#[test]
fn what_waits_for_its_own_scope_is_refused() {
    let mut client = Client::new(&MemoryRepo::new());
    client.check(CREATE, r#""ok":"done""#);
    client.check(BEGIN, r#""ok":"done""#);
    client.check(BEGIN, OUT_OF_ORDER);
    client.check(r#"{"close":{"repo":0,"session":"s"}}"#, OUT_OF_ORDER);
    for op in [
        r#"{"set_name":{"repo":0,"session":"s","name":"n","timestamp":2}}"#,
        r#"{"set_label":{"repo":0,"session":"s","entry":"e","label":null,"timestamp":2}}"#,
        r#"{"create_branch":{"repo":0,"session":"s","branch":"b","at":null,"timestamp":2}}"#,
        r#"{"append":{"repo":0,"session":"s","branch":"b","id":"e","entry_type":"message","payload":{},"timestamp":2}}"#,
    ] {
        client.check(op, OUT_OF_ORDER);
    }
    // Other sessions, forks and the repository are free.
    client.check(r#"{"create":{"repo":0,"id":"t","created_at":1}}"#, r#""ok":"done""#);
    client.check(r#"{"begin":{"repo":0,"session":"t"}}"#, r#""ok":"done""#);
    let fork = r#"{"fork":{"request":{"from":0,"source":"s","into":0,"id":"f","scope":"tree","created_at":3},"open":true}}"#;
    client.check(fork, r#""ok":"done""#);
    client.check(r#"{"delete":{"repo":0,"session":"s"}}"#, r#""error":{"kind":"already_open""#);
    client.check(r#"{"list":{"repo":0}}"#, r#""ok":{"sessions":["#);
    client.check(END, r#""ok":"done""#);
    client.check(r#"{"close":{"repo":0,"session":"s"}}"#, r#""ok":"done""#);
    client.check(BEGIN, r#""error":{"kind":"closed""#);
    client.check(r#"{"begin":{"repo":0,"session":"u"}}"#, r#""error":{"kind":"unknown_session""#);
}

/// What was in a scope is applied or not; the session is there for the next who comes.
#[test]
fn a_lost_connection_ends_its_scopes_and_sessions() {
    let repo = MemoryRepo::new();
    let mut lost = Client::new(&repo);
    lost.check(CREATE, r#""ok":"done""#);
    lost.check(BEGIN, r#""ok":"done""#);
    lost.check(&set(1), r#""ok":{"committed""#);
    let mut next = Client::new(&repo);
    next.check(r#"{"open":{"repo":0,"session":"s"}}"#, r#""error":{"kind":"already_open""#);
    drop(lost);
    next.check(r#"{"open":{"repo":0,"session":"s"}}"#, r#""ok":"done""#);
    next.check(READ, r#""ok":{"value":[1,1]"#);
    next.check(&set(2), r#""ok":{"committed":{"firstSeq":2,"#);
}

#[test]
fn hello_comes_first_and_once() {
    let mut connection = Connection::new(Box::new(|_| Ok(Vec::new())));
    let mut ask = |line: &str| {
        let mut output = Vec::new();
        connection.answer(line.as_bytes(), &mut output).expect("memory can be written");
        String::from_utf8(output).expect("answers are text")
    };
    assert!(ask(r#"{"id":1,"op":{"list":{"repo":0}}}"#).contains("out_of_order"));
    assert!(ask(r#"{"id":2,"op":{"hello":{"protocol":2}}}"#).contains("unsupported_version"));
    assert!(ask(r#"{"id":3,"op":{"hello":{"protocol":1}}}"#).contains("\"ok\""));
    assert!(ask(r#"{"id":4,"op":{"hello":{"protocol":1}}}"#).contains("out_of_order"));
    for op in ["list", "begin", "dump"] {
        let target = r#"{"repo":0,"session":"s"}"#;
        let answer = ask(&format!(r#"{{"id":5,"op":{{"{op}":{target}}}}}"#));
        assert!(answer.starts_with(r#"{"id":5,"error":{"kind":"malformed_request""#), "{answer}");
    }
}

/// Neither a line that is no request nor one that has no end takes the connection with it.
#[test]
fn a_bad_line_is_answered_and_the_connection_goes_on() {
    let bad: [(&[u8], &str); 9] = [
        (b"", "malformed_request"),
        (b"nonsense", "malformed_request"),
        (b"[1]", "malformed_request"),
        (b"\xff", "malformed_request"),
        (br#"{"op":{"list":{"repo":0}}}"#, "malformed_request"),
        (br#"{"id":7}"#, "malformed_request"),
        (br#"{"id":7,"op":"list"}"#, "malformed_request"),
        (br#"{"id":7,"op":{"list":{"repo":0},"hello":{}}}"#, "malformed_request"),
        (br#"{"id":7,"op":{"mutate":{}}}"#, "unknown_op"),
    ];
    let list = b"{\"id\":99,\"op\":{\"list\":{\"repo\":0}}}\n";
    for (line, kind) in bad {
        let input =
            [b"{\"id\":1,\"op\":{\"hello\":{\"protocol\":1}}}\n", line, b"\n", list].concat();
        check_goes_on(&input[..], kind);
    }
    let too_long = u64::try_from(LINE_BYTES_MAX).expect("it is small") + 1;
    let hello = &b"{\"id\":1,\"op\":{\"hello\":{\"protocol\":1}}}\n"[..];
    let input =
        hello.chain(std::io::repeat(b' ').take(too_long)).chain(&b"\n"[..]).chain(&list[..]);
    check_goes_on(input, "line_too_long");
}

fn check_goes_on(input: impl Read, kind: &str) {
    let mut output = Vec::new();
    let repo: Arc<dyn Repo> = Arc::new(MemoryRepo::new());
    let open = OpenRepo { kind: EngineKind::Memory, folder: ".".into(), repo };
    serve(BufReader::new(input), &mut output, Box::new(|_| Ok(vec![open]))).expect("it reads all");
    let text = String::from_utf8(output).expect("answers are text");
    let lines: Vec<&str> = text.lines().collect();
    let [_, refused, listed] = lines[..] else { panic!("three answers, not {lines:?}") };
    assert!(refused.contains(&format!("\"error\":{{\"kind\":\"{kind}\"")), "{refused}");
    assert_eq!(listed, r#"{"id":99,"ok":{"sessions":[]}}"#);
}
