//! Each planted bug is there and is the one it is called: on one small session it makes the
//! difference that its name says, and without it the same operations hold.
//!
//! A random run only shows that an engine differs somehow. A bug that broke everything would be
//! caught as well, and would prove nothing.

use std::sync::atomic::AtomicUsize;

use forkline_gate::gate::{Place, Roster, Violation, play};
use forkline_gate::selftest::BUGS;
use forkline_model::{LaneAudit, Op, Trace};

/// Everything that a fork has to tell apart, in one session. Line n of the writes has seq n.
const SCENE: &str = r#"
{"create":{"repo":0,"id":"s","cwd":"/gate","created_at":1}},
{"commit":{"repo":0,"session":"s","timestamp":2,"writes":[
{"kind":"entry","id":"root","parentId":null,"type":"message","message":{"role":"user"}},
{"kind":"value","op":"set","namespace":"app.x","key":"old","value":1},
{"kind":"entry","id":"a","parentId":"root","type":"message","message":{"n":1.10},"odd":[1]},
{"kind":"entry","id":"b","parentId":"a","type":"message","message":{"role":"user"}},
{"kind":"entry","id":"side","parentId":"root","type":"custom","customType":"t","data":2},
{"kind":"entry","id":"alone","parentId":"root","type":"message","message":{"role":"user"}},
{"kind":"list","op":"append","namespace":"app.x","key":"l","value":"dead"},
{"kind":"list","op":"delete","namespace":"app.x","key":"l"},
{"kind":"list","op":"append","namespace":"app.x","key":"l","value":"alive"},
{"kind":"value","op":"set","namespace":"app.x","key":"gone","value":"dead"},
{"kind":"value","op":"delete","namespace":"app.x","key":"gone"},
{"kind":"value","op":"set","namespace":"app_x","key":"k","value":"odd"},
{"kind":"value","op":"set","namespace":"pi.branch.tip","key":"main","value":"b"},
{"kind":"value","op":"set","namespace":"pi.lane.config","key":"main","value":{}},
{"kind":"value","op":"set","namespace":"pi.lane.state","key":"main",
"value":{"currentOperationId":"op1","lastOperationId":"op0","inbox":[]}},
{"kind":"value","op":"set","namespace":"pi.branch.tip","key":"second","value":"side"},
{"kind":"value","op":"set","namespace":"pi.lane.config","key":"second","value":{}},
{"kind":"value","op":"set","namespace":"pi.lane.state","key":"second","value":{}},
{"kind":"value","op":"set","namespace":"pi.branch.tip","key":"data","value":"side"},
{"kind":"value","op":"set","namespace":"pi.entry.label","key":"side","value":"label"},
{"kind":"value","op":"set","namespace":"pi.result","key":"op0","value":{"outcome":"done"}},
{"kind":"usage","id":"cost","usage":{"input":1,"output":1,"cacheRead":0,"cacheWrite":0,
"totalTokens":2,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},
"adjustment":false}
]}}"#;

const TREE: &str = r#"
{"fork":{"request":{"from":0,"source":"s","into":0,"id":"f","scope":"tree",
"created_at":3,"cwd":"/gate"},"open":true}}"#;
const MAIN: &str = r#"
{"fork":{"request":{"from":0,"source":"s","into":0,"id":"f",
"scope":{"branch":{"branch":"main","position":"at"}},"created_at":3,"cwd":"/gate"},
"open":true}}"#;
const BEFORE: &str = r#"
{"fork":{"request":{"from":0,"source":"s","into":0,"id":"f",
"scope":{"branch":{"branch":"main","position":"before"}},"created_at":3,"cwd":"/gate"},
"open":true}}"#;
/// An entry of another branch.
const ASIDE: &str = r#"
{"fork":{"request":{"from":0,"source":"s","into":0,"id":"f",
"scope":{"branch":{"branch":"main","entry":"side","position":"at"}},"created_at":3,
"cwd":"/gate"},"open":true}}"#;
/// An entry of no branch.
const NOWHERE: &str = r#"
{"fork":{"request":{"from":0,"source":"s","into":0,"id":"f",
"scope":{"branch":{"branch":"main","entry":"alone","position":"at"}},"created_at":3,
"cwd":"/gate"},"open":true}}"#;
const CLOSE: &str = r#"
{"close":{"repo":0,"session":"s"}}"#;
const BEGIN: &str = r#"
{"fork_begin":{"ticket":1,"request":{"from":0,"source":"s","into":0,"id":"f",
"scope":"tree","created_at":3,"cwd":"/gate"}}}"#;
const FINISH: &str = r#"
{"fork_finish":{"ticket":1,"open":true}}"#;
const LATE: &str = r#"
{"set_name":{"repo":0,"session":"s","name":"late","timestamp":4}}"#;
const UNKNOWN: &str = r#"
{"commit":{"repo":0,"session":"s","timestamp":5,"writes":[{"kind":"value","op":"set",
"namespace":"pi.future","key":"k","value":1}]}}"#;
const UNKNOWN_GONE: &str = r#"
{"commit":{"repo":0,"session":"s","timestamp":6,"writes":[{"kind":"value","op":"delete",
"namespace":"pi.future","key":"k"}]}}"#;
const PI2: &str = r#"
{"commit":{"repo":0,"session":"s","timestamp":5,"writes":[{"kind":"value","op":"set",
"namespace":"pi2","key":"k","value":1}]}}"#;
const TORN: &str = r#"
{"tear_tail":{"repo":0,"session":"s","text":
"{\"kind\":\"value\",\"op\":\"set\",\"seq\":23,\"namespace\":\"a\",\"key\":\"t\",\"value\":1}"}}"#;
const HALF: &str = r#"
{"tear_tail":{"repo":0,"session":"s","text":
"[{\"kind\":\"value\",\"op\":\"set\",\"seq\":23,\"namespace\":\"a\",\"key\":\"\",\"value\":1},"}}"#;

/// A bug, the operations behind the scene, and every difference that they make.
type Shown = (&'static str, &'static [&'static str], &'static [&'static str]);

const REFUSED: &str = r#"the engine   {"error":{"kind":"unknown_reserved"}}"#;
const DONE: &str = r#"the engine   "done""#;

const SHOWN: [Shown; 35] = [
    (
        "renumbers",
        &[MAIN],
        &[
            r#"entry "a": seq 3 != 2"#,
            r#"entry "b": seq 4 != 3"#,
            r#"value pi.branch.tip/"main": seq 13 != 4"#,
            r#"value pi.lane.config/"main": seq 14 != 5"#,
            r#"value pi.lane.state/"main": seq 15 != 6"#,
        ],
    ),
    ("next-seq-too-low", &[TREE], &["next seq: 23 != 22"]),
    ("next-seq-of-entries", &[MAIN], &["next seq: 23 != 16"]),
    ("lists-in-branch-scope", &[MAIN], &[r#"list app.x/"l": only right"#]),
    ("no-lists-in-tree-scope", &[TREE], &[r#"list app.x/"l": only left"#]),
    ("revives-elements", &[TREE], &[r#"list app.x/"l" element 7: only right"#]),
    ("superseded-sets", &[TREE], &[r#"value app.x/"gone": only right"#]),
    ("cutoff", &[MAIN], &[r#"value app.x/"old": only right"#]),
    ("no-ancestry-check", &[NOWHERE], &["entry_not_on_branch", DONE]),
    ("any-branch", &[ASIDE], &["entry_not_on_branch", DONE]),
    (
        "before-is-at",
        &[BEFORE],
        &[r#"entry "b": only right"#, r#"value pi.branch.tip/"main": "a" != "b""#],
    ),
    (
        "busy-lane-state",
        &[MAIN],
        &[r#"!= {"currentOperationId":"op1","lastOperationId":"op0","inbox":[]}"#],
    ),
    ("last-operation", &[MAIN], &[r#"!= ...l,"lastOperationId":"op0","inbox":[]}"#]),
    (
        "second-lane",
        &[MAIN],
        &[
            r#"value pi.branch.tip/"second": only right"#,
            r#"value pi.lane.config/"second": only right"#,
            r#"value pi.lane.state/"second": only right"#,
        ],
    ),
    ("no-data-only-branches", &[TREE], &[r#"value pi.branch.tip/"data": only left"#]),
    ("no-unreachable-entries", &[TREE], &[r#"entry "alone": only left"#]),
    ("labels-of-others", &[MAIN], &[r#"value pi.entry.label/"side": only right"#]),
    ("results", &[MAIN], &[r#"value pi.result/"op0": only right"#]),
    ("ledger", &[MAIN], &[r#"usage "cost": only right"#]),
    ("all-are-messages", &[TREE], &["message_count: 5", "message_count: 4"]),
    ("ignores-unknown-reserved", &[UNKNOWN, TREE], &["unknown_reserved", DONE]),
    ("dead-reserved", &[UNKNOWN, UNKNOWN_GONE, TREE], &[REFUSED, r#""pi.future"/"k""#]),
    ("pi2-is-reserved", &[PI2, TREE], &[REFUSED]),
    (
        "half-a-torn-commit",
        &[CLOSE, HALF, TREE],
        &["next seq: 23 != 24", r#"value a/"": only right"#],
    ),
    (
        "torn-commit-that-parses",
        &[CLOSE, TORN, TREE],
        &["next seq: 23 != 24", r#"value a/"t": only right"#],
    ),
    ("repairs-its-source", &[CLOSE, TORN, TREE], &["the fork changed its source"]),
    ("leaks-the-id", &[NOWHERE, TREE], &[r#"the engine   {"error":{"kind":"session_exists"}}"#]),
    ("leaves-a-temp-file", &[TREE], &["something else appeared", "left-behind"]),
    (
        "late-commit",
        &[BEGIN, LATE, FINISH],
        &["next seq: 23 != 24", r#"value pi.session.name/"": only right"#],
    ),
    (
        "lost-commit",
        &[LATE, TREE],
        &["next seq: 24 != 23", r#"value pi.session.name/"": only left"#],
    ),
    ("numbers-as-doubles", &[MAIN], &[r#"!= {"message":{"n":1.1},"odd":[1]}"#]),
    ("no-unknown-members", &[MAIN], &[r#"!= {"message":{"n":1.10}}"#]),
    ("out-of-order", &[MAIN], &["corrupt_source", "seq 14 does not rise above 15"]),
    ("no-shared-path", &[TREE], &[r#"the model answers {"entries":[{"id":"alone""#]),
    ("like-without-escape", &[TREE], &[r#"value app_x/"k": only left"#]),
];

fn ops(behind: &[&str]) -> Vec<Op> {
    let ops: Vec<&str> = std::iter::once(SCENE).chain(behind.iter().copied()).collect();
    let trace = format!(r#"{{"about":"","ops":[{}]}}"#, ops.join(","));
    serde_json::from_str::<Trace>(&trace).expect("the operations are a trace").ops
}

fn played(ops: &[Op], roster: &dyn Roster) -> Result<(), Violation> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = Place {
        folder: folder.path(),
        audit: LaneAudit::Selected,
        cwd: "/gate",
        turn: 0,
        shift: 0,
        algebra: true,
    };
    play(ops, roster, &place, &AtomicUsize::new(0)).map(drop)
}

#[test]
fn each_bug_makes_its_own_difference_and_no_other() {
    assert_eq!(SHOWN.map(|(name, ..)| name), BUGS.each_ref().map(|bug| bug.name));
    for ((name, behind, differences), bug) in SHOWN.iter().zip(&BUGS) {
        let ops = ops(behind);
        assert_eq!(played(&ops, &bug.sound()), Ok(()), "{name}: without the bug");
        let found = played(&ops, bug).expect_err(name);
        assert!(bug.layers.contains(&found.oracle), "{name}: {found}");
        // Not before the last operation: what comes earlier is only the way there.
        assert!(found.step + 1 >= ops.len(), "{name}: {found}");
        for difference in *differences {
            assert!(found.difference.contains(difference), "{name}: {found}");
        }
        // The model's diff has a line for every difference.
        let mut lines = found.difference.lines();
        if lines.next().is_some_and(|head| head.ends_with("model != engine:")) {
            assert_eq!(lines.count(), differences.len(), "{name}: {found}");
        }
    }
}
