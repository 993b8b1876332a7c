//! Names, ids and payloads that have hurt somebody: small ones mostly, odd ones often enough.

use forkline_model::{Address, BranchName, EntryId, Json, Key, Namespace, SessionId};

use crate::gate::dice::Dice;

/// Pieces of names that some layer takes for more than text: SQL, `LIKE`, URIs, paths, JSON.
pub(crate) const HOSTILE: [&str; 18] = [
    "'",
    "\"",
    "%",
    "_",
    "\n",
    "\u{1f600}",
    "../",
    "/etc/x",
    "a/b",
    "\\",
    "%41",
    "?mode=memory",
    "#",
    "'; DROP TABLE entries; --",
    "\u{2028}",
    "e\u{301}",
    " ",
    "\u{7f}",
];

const NAMESPACES: [&str; 14] = [
    "app.x",
    "app_x",
    "app%x",
    "appxx",
    "APP.X",
    "app",
    "pi2",
    "PI",
    "pip.x",
    "pi2.branch.tip",
    "app.'\"\n",
    "\u{1f33f}\u{10ffff}",
    "_",
    "%",
];

/// Reserved, and unknown to the classifier.
pub(crate) const UNKNOWN_RESERVED: [&str; 12] = [
    "pi",
    "pi.",
    "pi.op",
    "pi.opx",
    "pi.pending",
    "pi.pendingx.y",
    "pi.future",
    "pi.result.x",
    "pi.branch",
    "pi.branch.tipx",
    "pi.lane.state.x",
    "pi.%",
];

const KEYS: [&str; 12] =
    ["k", "k", "a", "a_b", "a%b", "axb", "", "K", "quote'\"", "new\nline", "\u{1f600}", "a/../b"];

const BRANCHES: [&str; 12] = [
    "main",
    "main",
    "main",
    "main",
    "side",
    "side",
    "Main",
    "ma_n",
    "m%n",
    "feature/x",
    "'\"\n",
    "\u{1f33f}",
];

const VALUES: [&str; 16] = [
    "1",
    "null",
    "true",
    "\"text\"",
    "{}",
    "[]",
    r#"{"a":1,"b":[1,2,{"c":null}]}"#,
    "9007199254740993",
    "12345678901234567890123",
    "1e400",
    "-0",
    "1.10",
    "1e-400",
    r#""\ud800 lone""#,
    r#"{"a":1,"a":2,"\u0061":3}"#,
    "{ \"spaced\" :\t[ 1 , 2 ]\n}",
];

const MESSAGES: [&str; 13] = [
    r#"{"message":{"role":"user","content":"hi"}}"#,
    r#"{"message":{"role":"user","content":"hi"}}"#,
    r#"{"message":{"role":"assistant","content":[],"stopReason":"stop"}}"#,
    r#"{"message":{"role":"assistant","content":[]},"terminate":true}"#,
    r#"{"message":{"role":"user","content":"\ud800 and \udc00"}}"#,
    r#"{"message":{"n":12345678901234567890123,"m":-0,"l":1.10,"k":1e400}}"#,
    r#"{"message":{"a":1,"a":2},"message":{"a":3}}"#,
    r#"{"message":{"role":"user"},"unknown":{"kept":[9007199254740993]},"also":null}"#,
    "{ \"message\" : { \"role\" : \"user\" ,\n\t\"content\" : \"spaced\" } }",
    r#"{"message":{"role":"user","content":"\u0000\u2028\/\\\" \u0061"}}"#,
    r#"{"message":{"Id":1,"parentid":"x","nested":{"id":"y","seq":3,"type":"z"}}}"#,
    "{\"message\":\"\u{10ffff}\u{7f}\u{2028}\"}",
    "{}",
];

/// A value: any JSON.
pub(super) fn value(dice: &mut Dice) -> Json {
    if dice.chance(6) {
        return json(&nested(dice.between(130, 400)));
    }
    if dice.chance(2) {
        return Json::string(&"long ".repeat(dice.between(100, 3000)));
    }
    json(dice.text(&VALUES))
}

/// The payload of a message.
pub(super) fn message(dice: &mut Dice) -> Json {
    if dice.chance(4) {
        return json(&format!("{{\"message\":{}}}", nested(dice.between(130, 400))));
    }
    if dice.chance(2) {
        let text = "long ".repeat(dice.between(100, 6000));
        return json(&format!("{{\"message\":{{\"content\":\"{text}\"}}}}"));
    }
    json(dice.text(&MESSAGES))
}

/// Arrays in arrays, deeper than a recursive reader goes.
fn nested(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).expect("generated texts are JSON")
}

pub(super) fn branch(dice: &mut Dice) -> BranchName {
    branch_name(dice.text(&BRANCHES))
}

pub(crate) fn branch_name(name: &str) -> BranchName {
    BranchName::new(name).expect("generated names are valid")
}

/// An address of the application.
pub(super) fn address(dice: &mut Dice) -> Address {
    let plain = dice.chance(60);
    let namespace = if plain { "app.x" } else { dice.text(&NAMESPACES) };
    address_of(namespace, dice.text(&KEYS))
}

pub(super) fn address_of(namespace: &str, key: &str) -> Address {
    let namespace = Namespace::new(namespace).expect("generated namespaces are valid");
    Address { namespace, key: Key::new(key).expect("generated keys are valid") }
}

/// An id that no earlier step has made.
pub(super) fn entry_id(dice: &mut Dice, step: u64, nth: usize) -> EntryId {
    let text = if dice.chance(15) {
        format!("{}{step}.{nth}", dice.text(&HOSTILE))
    } else {
        format!("e{step}.{nth}")
    };
    EntryId::new(text).expect("generated ids are valid")
}

/// An id that no earlier step has made; no id is the end of another one.
pub(super) fn session_id(dice: &mut Dice, step: u64) -> SessionId {
    const EXACT: [&str; 4] = [".", "..", "CON", "~"];
    const WHOLE: [&str; 7] = ["", ".", "..", "CON", "~", "file:x?mode=memory", "-"];
    let text = match dice.below(10) {
        0 | 1 => format!("{step}s{}", dice.text(&HOSTILE)),
        2 => format!("{}{step}s", dice.text(&HOSTILE)),
        3 if dice.chance(30) => dice.text(&EXACT).to_owned(),
        3 => format!("{}{step}", dice.text(&WHOLE)),
        _ => format!("s{step}"),
    };
    SessionId::new(text).expect("generated ids are valid")
}
