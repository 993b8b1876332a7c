//! Random commits to a file and to memory show the same state, and so do all their forks.
//!
//! What goes wrong otherwise: the index of a fork takes a value that was deleted, an element of
//! a dead list, a label of an entry that stays behind, or loses one that is current. Memory
//! decides by maps; the index by sorted hashes: they have nothing in common but the rules.
//! Small alphabets make collisions of names, deletes and sets of one address frequent.

use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;

use forkline_engines::{
    Clock, Context, CreateOptions, Environment, Error, JsonlRepo, ListFilter, MemoryRepo, Repo,
    RepoOptions, Session, StateRow, UuidSource, transfer,
};
use forkline_model::{
    BranchName, EntryId, EntryType, ForkOptions, Json, LaneAudit, Millis, NewEntry, NewUsage,
    SessionId, Write,
};
use proptest::prelude::*;

struct At;

impl Clock for At {
    fn now(&self) -> Millis {
        Millis::new(1_700_000_000_000).unwrap()
    }
}

#[derive(Debug, Clone)]
enum Step {
    Entry { parent: Option<prop::sample::Index>, is_message: bool },
    Tip { branch: usize, entry: Option<prop::sample::Index> },
    UnknownTip { branch: usize },
    DeleteTip { branch: usize },
    Lane { branch: usize, has_config: bool, has_state: bool },
    Label { entry: prop::sample::Index, is_set: bool },
    UnknownLabel,
    Value { namespace: usize, key: usize, is_set: bool },
    List { namespace: usize, key: usize, is_append: bool },
    Usage,
}

const BRANCHES: [&str; 3] = ["main", "side", "other"];
const NAMESPACES: [&str; 7] =
    ["app", "app.x", "pi2", "pi.session.name", "pi.op.state", "pi.pending.x", "pi.future"];
const KEYS: [&str; 3] = ["", "k", "main"];

fn step() -> impl Strategy<Value = Step> {
    let index = any::<prop::sample::Index>;
    // Most sessions can be forked: unknown reserved state is rare. For lists that includes the
    // namespaces that are declared for values.
    let values = prop_oneof![40 => 0..6_usize, 1 => Just(6_usize)];
    let lists =
        prop_oneof![30 => 0..2_usize, 8 => 4..6_usize, 1 => Just(3_usize), 1 => Just(6_usize)];
    prop_oneof![
        6 => (prop::option::weighted(0.9, index()), any::<bool>())
            .prop_map(|(parent, is_message)| Step::Entry { parent, is_message }),
        4 => (0..3_usize, prop::option::weighted(0.9, index()))
            .prop_map(|(branch, entry)| Step::Tip { branch, entry }),
        1 => (0..3_usize).prop_map(|branch| Step::UnknownTip { branch }),
        1 => (0..3_usize).prop_map(|branch| Step::DeleteTip { branch }),
        3 => (0..3_usize, prop::bool::weighted(0.9), prop::bool::weighted(0.9))
            .prop_map(|(branch, has_config, has_state)| {
                Step::Lane { branch, has_config, has_state }
            }),
        2 => (index(), prop::bool::weighted(0.7))
            .prop_map(|(entry, is_set)| Step::Label { entry, is_set }),
        1 => Just(Step::UnknownLabel),
        4 => (values, 0..3_usize, prop::bool::weighted(0.7))
            .prop_map(|(namespace, key, is_set)| Step::Value { namespace, key, is_set }),
        5 => (lists, 0..2_usize, prop::bool::weighted(0.7))
            .prop_map(|(namespace, key, is_append)| Step::List { namespace, key, is_append }),
        1 => Just(Step::Usage),
    ]
}

/// The writes of a step; `entries` are those inserted so far.
fn writes(step: &Step, entries: &mut Vec<EntryId>, number: usize) -> Vec<Write> {
    let value = || Json::parse(&format!("{{\"n\" : {number}.0,\"\\u0061\":[]}}")).unwrap();
    let set = |namespace: &str, key: &str| Write::set(namespace, key, value()).unwrap();
    let delete = |namespace: &str, key: &str| Write::delete(namespace, key).unwrap();
    match step {
        Step::Entry { parent, is_message } => {
            let parent = parent
                .filter(|_| !entries.is_empty())
                .map(|index| index.get(entries.as_slice()).clone());
            let id = EntryId::new(format!("e{number}")).unwrap();
            let entry_type =
                if *is_message { EntryType::Message } else { EntryType::new("odd").unwrap() };
            entries.push(id.clone());
            vec![Write::Entry(NewEntry::new(id, parent, entry_type, None, value()).unwrap())]
        }
        Step::Tip { branch, entry } => {
            let tip = entry.filter(|_| !entries.is_empty()).map_or_else(Json::null, |index| {
                Json::string(index.get(entries.as_slice()).as_str())
            });
            vec![Write::set("pi.branch.tip", BRANCHES[*branch], tip).unwrap()]
        }
        Step::UnknownTip { branch } => {
            let odd = if number.is_multiple_of(2) { Json::string("nobody") } else { value() };
            vec![Write::set("pi.branch.tip", BRANCHES[*branch], odd).unwrap()]
        }
        Step::DeleteTip { branch } => vec![delete("pi.branch.tip", BRANCHES[*branch])],
        Step::Lane { branch, has_config, has_state } => {
            let one = |namespace, is_set| {
                let branch = BRANCHES[*branch];
                if is_set { set(namespace, branch) } else { delete(namespace, branch) }
            };
            vec![one("pi.lane.config", *has_config), one("pi.lane.state", *has_state)]
        }
        Step::Label { entry, is_set } => {
            if entries.is_empty() {
                return Vec::new();
            }
            let id = entry.get(entries.as_slice()).as_str();
            vec![if *is_set { set("pi.entry.label", id) } else { delete("pi.entry.label", id) }]
        }
        Step::UnknownLabel => vec![set("pi.entry.label", "nobody")],
        Step::Value { namespace, key, is_set } => {
            let (namespace, key) = (NAMESPACES[*namespace], KEYS[*key]);
            vec![if *is_set { set(namespace, key) } else { delete(namespace, key) }]
        }
        Step::List { namespace, key, is_append } => {
            // A list in a namespace declared for values is unknown reserved state as well.
            let (namespace, key) = (NAMESPACES[*namespace], KEYS[*key]);
            vec![if *is_append {
                Write::append(namespace, key, value()).unwrap()
            } else {
                Write::delete_list(namespace, key).unwrap()
            }]
        }
        Step::Usage => {
            let id = EntryId::new(format!("u{number}")).unwrap();
            let usage = Json::parse("{\"input\":3,\"cost\":{\"total\":0.5}}").unwrap();
            vec![Write::Usage(NewUsage::new(id, None, false, usage, None).unwrap())]
        }
    }
}

/// The whole state as text, in seq order.
fn state(session: &Session) -> String {
    let mut rows = Vec::new();
    session
        .dump(&mut |row| {
            let (seq, mut text) = match &row {
                StateRow::Entry(entry) => (entry.seq, format!("{:?}", entry.head())),
                StateRow::Usage(usage) => (usage.seq, format!("{usage:?}")),
                StateRow::Value { address, seq, .. } => (*seq, format!("value {address:?}")),
                StateRow::Element { address, seq, .. } => (*seq, format!("element {address:?}")),
            };
            let payload = match &row {
                StateRow::Entry(entry) => &entry.payload,
                StateRow::Usage(usage) => &usage.usage,
                StateRow::Value { value, .. } | StateRow::Element { value, .. } => value,
            };
            write!(text, " {payload}").unwrap();
            rows.push((seq, text));
            Ok(())
        })
        .unwrap();
    rows.sort();
    let rows: Vec<String> = rows.into_iter().map(|(seq, text)| format!("{seq} {text}")).collect();
    format!(
        "next {} {:?}\n{}",
        session.next_seq().unwrap(),
        session.stats().unwrap(),
        rows.join("\n")
    )
}

fn outcome(result: Result<Session, Error>) -> Result<String, String> {
    // Messages of the same refusal name the same branch, entry, namespace and key.
    result.map(|session| state(&session)).map_err(|error| error.to_string())
}

/// All scopes and a few positions.
fn all_options(entries: &[EntryId]) -> Vec<ForkOptions> {
    let mut all = vec![ForkOptions::tree()];
    for branch in BRANCHES.iter().chain(&["nowhere"]) {
        let options = || ForkOptions::branch(BranchName::new(branch).unwrap());
        all.extend([options(), options().before_tip()]);
        all.push(options().at(EntryId::new("nobody").unwrap()));
        for entry in entries.iter().take(6) {
            all.extend([options().at(entry.clone()), options().before(entry.clone())]);
        }
    }
    all
}

fn check(steps: &[Vec<Step>], audit: LaneAudit) -> Result<(), TestCaseError> {
    let cx = Context::new();
    let root = tempfile::tempdir().unwrap();
    let environment = Environment { clock: Arc::new(At), ids: Arc::new(UuidSource::new()) };
    let options = RepoOptions { environment, lane_audit: audit, ..RepoOptions::default() };
    let jsonl = JsonlRepo::with(root.path(), options.clone()).unwrap();
    let memory = MemoryRepo::with(options);
    let create = CreateOptions::new("/demo").with_id(SessionId::new("source").unwrap());
    let stored = jsonl.create(&create, &cx).unwrap();
    let kept = memory.create(&create, &cx).unwrap();
    let (mut entries, mut number) = (Vec::new(), 0);
    for commit in steps {
        let mut all = Vec::new();
        for step in commit {
            number += 1;
            all.extend(writes(step, &mut entries, number));
        }
        stored.commit(&all, &cx).unwrap();
        kept.commit(&all, &cx).unwrap();
    }
    let expected = state(&kept);
    prop_assert_eq!(state(&stored), expected.clone());

    let path = stored.reference().path().unwrap().to_owned();
    let bytes = fs::read(&path).unwrap();
    for (n, options) in all_options(&entries).into_iter().enumerate() {
        let id = |from: &str| SessionId::new(format!("{from}-{n}")).unwrap();
        let wanted = outcome(memory.fork(&kept, &options.clone().with_id(id("m")), &cx));
        let options_j = options.clone().with_id(id("j"));
        let found = outcome(jsonl.fork(&stored, &options_j, &cx));
        prop_assert_eq!(found, wanted.clone(), "{:?}", options);
        let across = options.clone().with_id(id("x"));
        let across = outcome(memory.fork(&stored, &across, &cx));
        prop_assert_eq!(across, wanted.clone(), "across, {:?}", options);
        let back = options.with_id(id("b"));
        let back = outcome(transfer::fork(&memory, kept.reference(), &jsonl, &back, &cx));
        prop_assert_eq!(back, wanted, "back");
    }
    prop_assert_eq!(fs::read(&path).unwrap(), bytes);

    let reference = stored.reference().clone();
    stored.close().unwrap();
    let again = jsonl.open(&reference, &cx).unwrap();
    prop_assert_eq!(state(&again), expected);
    prop_assert!(jsonl.list(&ListFilter::default(), &cx).unwrap().contains(&reference));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn files_and_maps_agree(
        steps in prop::collection::vec(prop::collection::vec(step(), 0..6), 0..14),
        is_strict in any::<bool>(),
    ) {
        check(&steps, if is_strict { LaneAudit::Strict } else { LaneAudit::Selected })?;
    }
}
