//! Random sessions for the property tests, biased towards shapes in which forks go wrong.
//!
//! A [`Step`] is a choice, not a write: it is turned into writes against the state that the steps
//! before it made. So every commit is legal whatever a failure is shrunk to.

#![expect(dead_code, reason = "every test file is a crate of its own and uses a part")]

use forkline_model::{
    Address, BranchName, EntryId, ForkOptions, Json, Metadata, Millis, SessionId, State, Write,
    fork::Birth, policy,
};
use proptest::prelude::*;
use proptest::sample::Index;

/// JSON that a careless copy changes.
pub(crate) const PAYLOADS: [&str; 10] = [
    "null",
    "12345678901234567890123",
    "1.10",
    "-0",
    "1e-400",
    r#""\ud800""#,
    r#"{"b":1,"a":[{}],"b":2}"#,
    r#""\u0041\/%_'\"""#,
    "[[[[[[[[]]]]]]]]",
    r#""\n""#,
];

/// Names with characters that formats and SQL treat specially.
pub(crate) const BRANCHES: [&str; 4] = ["main", "b%_'\"", "../x\n", "\u{1F600}"];

/// Where application state goes.
pub(crate) const APPLICATION: [&str; 5] = ["app.state", "pi2", "PI", "pip.x", "app%_"];

/// Reserved namespaces that no fork knows.
pub(crate) const UNKNOWN: [&str; 5] = ["pi", "pi.", "pi.op", "pi.opx", "pi.new"];

/// Namespaces that every fork leaves out.
pub(crate) const TRANSIENT: [&str; 5] =
    ["pi.result", "pi.op.meta", "pi.op.new", "pi.pending.entry", "pi.op."];

/// One choice.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Entry { parent: Parent, kind: usize, payload: usize, tip: Option<usize> },
    Chain { length: usize, branch: usize },
    Usage { input: u32, entry: Option<Index> },
    Set { namespace: usize, key: usize, payload: usize },
    Delete { namespace: usize, key: usize },
    Append { namespace: usize, key: usize, payload: usize },
    DeleteList { namespace: usize, key: usize },
    Tip { branch: usize, to: Tip },
    Lane { branch: usize, config: bool, state: bool },
    Label { entry: Option<Index> },
    Name { payload: usize },
    Transient { namespace: usize, list: bool },
    Unknown { namespace: usize, list: bool },
    ForgetUnknown,
}

#[derive(Debug, Clone)]
pub(crate) enum Parent {
    Root,
    Newest,
    Any(Index),
}

#[derive(Debug, Clone)]
pub(crate) enum Tip {
    Null,
    Entry(Index),
    Missing,
    Unreadable,
    Deleted,
}

fn parent() -> impl Strategy<Value = Parent> {
    prop_oneof![
        1 => Just(Parent::Root),
        6 => Just(Parent::Newest),
        3 => any::<Index>().prop_map(Parent::Any),
    ]
}

fn tip() -> impl Strategy<Value = Tip> {
    prop_oneof![
        2 => Just(Tip::Null),
        6 => any::<Index>().prop_map(Tip::Entry),
        2 => Just(Tip::Missing),
        1 => Just(Tip::Unreadable),
        1 => Just(Tip::Deleted),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let payload = 0..PAYLOADS.len();
    let branch = 0..BRANCHES.len();
    let app = 0..APPLICATION.len();
    prop_oneof![
        12 => (parent(), 0..5_usize, payload.clone(), prop::option::of(branch.clone()))
            .prop_map(|(parent, kind, payload, tip)| Step::Entry { parent, kind, payload, tip }),
        2 => (2..12_usize, branch.clone())
            .prop_map(|(length, branch)| Step::Chain { length, branch }),
        2 => (any::<u32>(), any::<Option<Index>>())
            .prop_map(|(input, entry)| Step::Usage { input, entry }),
        4 => (app.clone(), 0..3_usize, payload.clone())
            .prop_map(|(namespace, key, payload)| Step::Set { namespace, key, payload }),
        1 => (app.clone(), 0..3_usize)
            .prop_map(|(namespace, key)| Step::Delete { namespace, key }),
        4 => (app.clone(), 0..3_usize, payload.clone())
            .prop_map(|(namespace, key, payload)| Step::Append { namespace, key, payload }),
        1 => (app, 0..3_usize).prop_map(|(namespace, key)| Step::DeleteList { namespace, key }),
        3 => (branch.clone(), tip()).prop_map(|(branch, to)| Step::Tip { branch, to }),
        5 => (branch, prop::bool::weighted(0.9), prop::bool::weighted(0.9))
            .prop_map(|(branch, config, state)| Step::Lane { branch, config, state }),
        2 => any::<Option<Index>>().prop_map(|entry| Step::Label { entry }),
        1 => payload.prop_map(|payload| Step::Name { payload }),
        2 => (0..TRANSIENT.len(), any::<bool>())
            .prop_map(|(namespace, list)| Step::Transient { namespace, list }),
        1 => (0..UNKNOWN.len(), any::<bool>())
            .prop_map(|(namespace, list)| Step::Unknown { namespace, list }),
        2 => Just(Step::ForgetUnknown),
    ]
}

/// The choices of a session: commits of a few steps each.
pub(crate) fn commits() -> impl Strategy<Value = Vec<Vec<Step>>> {
    prop::collection::vec(prop::collection::vec(step(), 0..4), 0..30)
}

/// A session and the commits that made it.
#[derive(Debug, Clone)]
pub(crate) struct History {
    pub(crate) state: State,
    pub(crate) commits: Vec<Vec<Write>>,
}

impl History {
    /// Every write in order; the n-th has seq n + 1.
    pub(crate) fn writes(&self) -> Vec<Write> {
        self.commits.concat()
    }
}

/// A random session.
pub(crate) fn history() -> impl Strategy<Value = History> {
    commits().prop_map(|commits| history_of(&commits))
}

/// Turns choices into a session.
pub(crate) fn history_of(commits: &[Vec<Step>]) -> History {
    let mut state = State::new(metadata("source"));
    let mut made = Vec::new();
    for (nth, steps) in commits.iter().enumerate() {
        let mut next = state.clone();
        let mut writes = Vec::new();
        let time = millis(1000 + nth as u64);
        for step in steps {
            let step_writes = writes_of(step, &next);
            next.apply(&step_writes, time).expect("choices make legal writes");
            writes.extend(step_writes);
        }
        state.apply(&writes, time).expect("they are legal in one commit too");
        made.push(writes);
    }
    History { state, commits: made }
}

fn writes_of(step: &Step, state: &State) -> Vec<Write> {
    let set = |namespace: &str, key: &str, value: Json| Write::set(namespace, key, value).unwrap();
    match step {
        Step::Entry { parent, kind, payload, tip } => {
            let id = format!("e{}", state.next_seq());
            let parent = match parent {
                Parent::Root => None,
                Parent::Newest => state.entries().values().last().map(|entry| entry.id.clone()),
                Parent::Any(index) => pick_entry(state, *index),
            };
            let mut writes = vec![entry(&id, parent.as_ref(), *kind, PAYLOADS[*payload])];
            if let Some(branch) = tip {
                writes.push(set(policy::BRANCH_TIP, BRANCHES[*branch], Json::string(&id)));
            }
            writes
        }
        Step::Chain { length, branch } => {
            let mut parent = state.entries().values().last().map(|entry| entry.id.clone());
            let mut writes = Vec::new();
            for nth in 0..*length {
                let name = format!("e{}.{nth}", state.next_seq());
                writes.push(entry(&name, parent.as_ref(), nth % 5, "0"));
                parent = Some(id(&name));
            }
            let tip = parent.map_or_else(Json::null, |id| Json::string(id.as_str()));
            writes.push(set(policy::BRANCH_TIP, BRANCHES[*branch], tip));
            writes
        }
        Step::Usage { input, entry } => {
            let entry = entry.and_then(|index| pick_entry(state, index));
            vec![usage(&format!("u{}", state.next_seq()), *input, entry.as_ref())]
        }
        Step::Set { namespace, key, payload } => {
            vec![set(APPLICATION[*namespace], app_key(*key), json(PAYLOADS[*payload]))]
        }
        Step::Delete { namespace, key } => {
            vec![Write::delete(APPLICATION[*namespace], app_key(*key)).unwrap()]
        }
        Step::Append { namespace, key, payload } => {
            let value = json(PAYLOADS[*payload]);
            vec![Write::append(APPLICATION[*namespace], app_key(*key), value).unwrap()]
        }
        Step::DeleteList { namespace, key } => {
            vec![Write::delete_list(APPLICATION[*namespace], app_key(*key)).unwrap()]
        }
        Step::Tip { branch, to } => vec![tip_write(BRANCHES[*branch], to, state)],
        Step::Lane { branch, config, state: with_state } => {
            let branch = BRANCHES[*branch];
            let at = Address::new(policy::BRANCH_TIP, branch).unwrap();
            let tip = state.get_value(&at).map_or_else(Json::null, |(_, tip)| tip);
            let mut writes = vec![set(policy::BRANCH_TIP, branch, tip)];
            if *config {
                writes.push(set(policy::LANE_CONFIG, branch, json(r#"{"thinkingLevel":"off"}"#)));
            }
            if *with_state {
                let busy = r#"{"currentOperationId":"o","lastOperationId":"p","inbox":[1]}"#;
                writes.push(set(policy::LANE_STATE, branch, json(busy)));
            }
            writes
        }
        Step::Label { entry } => {
            let id = entry.and_then(|index| pick_entry(state, index));
            let id = id.map_or("missing".to_owned(), |id| id.as_str().to_owned());
            vec![set(policy::ENTRY_LABEL, &id, Json::string("label"))]
        }
        Step::Name { payload } => vec![set(policy::SESSION_NAME, "", json(PAYLOADS[*payload]))],
        Step::Transient { namespace, list } => vec![store(TRANSIENT[*namespace], *list)],
        Step::Unknown { namespace, list } => vec![store(UNKNOWN[*namespace], *list)],
        Step::ForgetUnknown => {
            let values = UNKNOWN.iter().map(|namespace| Write::delete(namespace, "k").unwrap());
            let lists = UNKNOWN.iter().map(|namespace| Write::delete_list(namespace, "k").unwrap());
            values.chain(lists).collect()
        }
    }
}

fn store(namespace: &str, list: bool) -> Write {
    if list {
        Write::append(namespace, "k", Json::null()).unwrap()
    } else {
        Write::set(namespace, "k", Json::null()).unwrap()
    }
}

fn tip_write(branch: &str, to: &Tip, state: &State) -> Write {
    let id = |id: Option<EntryId>| id.map_or_else(Json::null, |id| Json::string(id.as_str()));
    let value = match to {
        Tip::Null => Json::null(),
        Tip::Entry(index) => id(pick_entry(state, *index)),
        Tip::Missing => Json::string("missing"),
        Tip::Unreadable => json("7"),
        Tip::Deleted => return Write::delete(policy::BRANCH_TIP, branch).unwrap(),
    };
    Write::set(policy::BRANCH_TIP, branch, value).unwrap()
}

fn pick_entry(state: &State, index: Index) -> Option<EntryId> {
    let entries: Vec<_> = state.entries().values().collect();
    if entries.is_empty() { None } else { Some(index.get(&entries).id.clone()) }
}

fn app_key(key: usize) -> &'static str {
    ["", "k", "k%"][key]
}

/// JSON of a test's own text.
pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).expect("test text is JSON")
}

/// A time.
pub(crate) fn millis(ms: u64) -> Millis {
    Millis::new(ms).unwrap()
}

/// An entry id.
pub(crate) fn id(text: &str) -> EntryId {
    EntryId::new(text).unwrap()
}

/// A branch name.
pub(crate) fn branch(text: &str) -> BranchName {
    BranchName::new(text).unwrap()
}

/// Metadata without anything optional.
pub(crate) fn metadata(id: &str) -> Metadata {
    Metadata {
        id: SessionId::new(id).unwrap(),
        created_at: millis(1),
        cwd: None,
        parent_session_id: None,
        legacy_parent_session_path: None,
    }
}

/// The own part of a destination.
pub(crate) fn birth(id: &str) -> Birth {
    Birth { id: SessionId::new(id).unwrap(), created_at: millis(9), cwd: None }
}

/// A write that inserts an entry; `kind` 0 and 1 are messages.
pub(crate) fn entry(id: &str, parent: Option<&EntryId>, kind: usize, payload: &str) -> Write {
    let kind = [
        r#""message","message""#,
        r#""message","message""#,
        r#""compaction","summary""#,
        r#""custom","customType":"c","data""#,
        r#""unheard_of","x""#,
    ][kind];
    let parent = parent.map_or_else(Json::null, |parent| Json::string(parent.as_str()));
    let id = Json::string(id);
    let line =
        format!(r#"{{"kind":"entry","id":{id},"parentId":{parent},"type":{kind}:{payload}}}"#);
    Write::from_jsonl(&line).expect("the line is a write")
}

/// A write that inserts a ledger row.
pub(crate) fn usage(id: &str, input: u32, entry: Option<&EntryId>) -> Write {
    let entry = entry.map_or_else(Json::null, |entry| Json::string(entry.as_str()));
    let usage = format!(r#"{{"input":{input},"cost":{{"total":0.5}}}}"#);
    let line = format!(
        r#"{{"kind":"usage","id":"{id}","entryId":{entry},"adjustment":false,"usage":{usage}}}"#
    );
    Write::from_jsonl(&line).expect("the line is a write")
}

/// The writes that make a complete lane.
pub(crate) fn lane(name: &str, tip: Option<&str>) -> Vec<Write> {
    let tip = tip.map_or_else(Json::null, Json::string);
    let busy = r#"{"currentOperationId":"o","lastOperationId":"p","inbox":[1]}"#;
    vec![
        Write::set(policy::BRANCH_TIP, name, tip).unwrap(),
        Write::set(policy::LANE_CONFIG, name, json("{}")).unwrap(),
        Write::set(policy::LANE_STATE, name, json(busy)).unwrap(),
    ]
}

/// A session of one commit.
pub(crate) fn state_of(writes: &[Write]) -> State {
    let mut state = State::new(metadata("source"));
    state.apply(writes, millis(5)).expect("test writes are legal");
    state
}

/// Every way to fork every branch name of a state at its tip or any entry, legal or not.
pub(crate) fn branch_options(state: &State) -> Vec<ForkOptions> {
    let mut all = Vec::new();
    for lane in forkline_model::lanes::lanes(state) {
        let tip = ForkOptions::branch(lane.branch);
        all.push(tip.clone().before_tip());
        for entry in state.entries().values() {
            all.push(tip.clone().at(entry.id.clone()));
            all.push(tip.clone().before(entry.id.clone()));
        }
        all.push(tip);
    }
    all
}
