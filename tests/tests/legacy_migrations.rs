//! A session of version 1 or 2 is the session of the version 3 file that the migration rules make
//! of it (formats §2): listed, forked, opened and upgraded alike, byte for byte.
//!
//! What goes wrong otherwise: a first kept record that is off by the header, a role that is
//! renamed where it does not count, an initial configuration that is lost or wins over a later
//! one. The rules stand here once more, in both directions, as edits of the text of a file;
//! nothing of it is shared with the engines. Ids of entries come from a counter, so that results
//! can be equal and not only alike.

#[path = "support/legacy.rs"]
mod support;

use std::fs;

use forkline_engines::{Context, MemoryRepo, Repo, RepoOptions, SessionRef, transfer};
use forkline_gate::plain_legacy::generate::{Wanted, generate};
use forkline_gate::plain_legacy::{Imported, Members, Mode, import_counted};
use forkline_model::diff::{Compare, diff};
use forkline_model::policy::LaneShape;
use forkline_model::{
    BranchName, EntryId, ForkOptions, Json, Lane, SessionId, State, Stats, Write,
};
use proptest::prelude::*;
use support::{environment, listed, picker, repo, root_with, state_of};

/// The members of a header or record, in their order.
#[derive(Clone)]
struct Object(Vec<(String, String)>);

impl Object {
    fn parse(line: &str) -> Self {
        let members = Members::parse(line.trim_start_matches('\u{feff}')).expect("an object");
        let named = |(name, value): (Option<String>, String)| (name.expect("a text"), value);
        Self(members.0.into_iter().map(named).collect())
    }

    fn raw(&self, name: &str) -> Option<&str> {
        self.0.iter().rfind(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    fn is(&self, kind: &str) -> bool {
        self.raw("type") == Some(&quoted(kind))
    }

    fn without(mut self, names: &[&str]) -> Self {
        self.0.retain(|(name, _)| !names.contains(&name.as_str()));
        self
    }

    fn with(self, name: &str, value: impl Into<String>) -> Self {
        let mut object = self.without(&[name]);
        object.0.push((name.to_owned(), value.into()));
        object
    }

    fn to_line(&self) -> String {
        let members: Vec<String> =
            self.0.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}\n", members.join(","))
    }
}

/// A file as its header, its records, and what is torn.
#[derive(Clone)]
struct File {
    header: Object,
    records: Vec<Object>,
    torn: String,
}

impl File {
    fn parse(bytes: &[u8]) -> Self {
        let text = str::from_utf8(bytes).expect("sound files are text");
        let (whole, torn) = text.split_at(text.rfind('\n').expect("a header") + 1);
        let mut lines = whole.lines().map(Object::parse);
        Self {
            header: lines.next().expect("a header"),
            records: lines.collect(),
            torn: torn.to_owned(),
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let records: String = self.records.iter().map(Object::to_line).collect();
        format!("{}{records}{}", self.header.to_line(), self.torn).into_bytes()
    }

    /// All messages with one role in the place of another, where a draw says so.
    fn rename_roles(&mut self, from: &str, to: &str, mut draw: impl FnMut() -> bool) {
        for record in self.records.iter_mut().filter(|record| record.is("message")) {
            for (name, value) in &mut record.0 {
                let role = Members::parse(value).and_then(|message| message.text("role"));
                if name == "message" && role.as_deref() == Some(from) && draw() {
                    *value = with_last_role(value, to);
                }
            }
        }
    }
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

/// The message with another role: the last one counts. All else stays as it is spelled.
fn with_last_role(message: &str, role: &str) -> String {
    let start = message.rfind("\"role\":").expect("it has a role") + "\"role\":".len();
    let end = start + 1 + message[start + 1..].find('"').expect("the role ends") + 1;
    format!("{}{}{}", &message[..start], quoted(role), &message[end..])
}

/// The version 3 file that the rules make of a version 2 file.
fn of_version_2(mut file: File) -> File {
    file.header = file.header.with("version", "3");
    file.rename_roles("hookMessage", "custom", || true);
    file
}

/// The version 3 file that the rules make of a version 1 file: records get ids in order, each is
/// the parent of the next, and the initial configuration stands before them.
fn of_version_1(mut file: File) -> File {
    let mut records = Vec::new();
    let header = &file.header;
    if let (Some(provider), Some(model)) = (header.raw("provider"), header.raw("modelId")) {
        let change = Object::parse("{\"type\":\"model_change\",\"id\":\"initial-model\"}");
        records.push(change.with("provider", provider).with("modelId", model));
    }
    if let Some(level) = header.raw("thinkingLevel") {
        let change = Object::parse("{\"type\":\"thinking_level_change\",\"id\":\"initial-level\"}");
        records.push(change.with("thinkingLevel", level));
    }
    for (index, record) in file.records.into_iter().enumerate() {
        let mut record = record.with("id", quoted(&format!("line-{}", index + 1)));
        if let Some(line) = record.raw("firstKeptEntryIndex").map(str::to_owned) {
            record = record.without(&["firstKeptEntryIndex"]);
            record = record.with("firstKeptEntryId", quoted(&format!("line-{line}")));
        }
        records.push(record);
    }
    file.records = linear(records);
    of_version_2(file)
}

fn linear(records: Vec<Object>) -> Vec<Object> {
    let mut parent = "null".to_owned();
    let mut linked = Vec::new();
    for record in records {
        let id = record.raw("id").expect("it has an id").to_owned();
        linked.push(record.with("parentId", std::mem::replace(&mut parent, id)));
    }
    linked
}

/// A version 2 file that the rules make this version 3 file of, which has no role `hookMessage`.
fn to_version_2(mut file: File, pick: &mut impl FnMut(u32) -> u32) -> File {
    file.header = file.header.with("version", "2");
    file.rename_roles("custom", "hookMessage", || pick(2) == 0);
    file
}

/// A version 1 file that the rules make this version 3 file of, whose records are one line of
/// descent and name no others but by what a compaction keeps.
fn to_version_1(file: File, pick: &mut impl FnMut(u32) -> u32) -> File {
    let mut file = to_version_2(file, pick);
    let initial = ["provider", "modelId", "thinkingLevel"];
    file.header = file.header.without(&initial).without(&["version"]);
    // What is said before all else goes into the header.
    let is_initial =
        |record: &Object| record.raw("id").is_some_and(|id| id.starts_with("\"initial"));
    for record in file.records.iter().filter(|record| is_initial(record)) {
        for name in initial {
            if let Some(value) = record.raw(name) {
                file.header = file.header.clone().with(name, value);
            }
        }
    }
    file.records.retain(|record| !is_initial(record));
    let ids: Vec<String> =
        file.records.iter().map(|record| record.raw("id").expect("an id").to_owned()).collect();
    let unlinked = |record: Object| {
        let first = record.raw("firstKeptEntryId").map(|first| {
            // The header is line 0.
            let index = ids.iter().position(|id| id == first).expect("it is a record");
            (index + 1).to_string()
        });
        let record = record.without(&["id", "parentId", "firstKeptEntryId"]);
        match first {
            Some(line) => record.with("firstKeptEntryIndex", line),
            None => record,
        }
    };
    file.records = file.records.into_iter().map(unlinked).collect();
    file
}

/// The records of a version 3 file as one line of descent that version 1 can tell.
fn as_one_line(mut file: File, pick: &mut impl FnMut(u32) -> u32) -> File {
    let mut records = Vec::new();
    for (text, count) in [
        (
            "{\"type\":\"model_change\",\"id\":\"initial-1\",\"provider\":\"P\",\"modelId\":\"M\"}",
            2,
        ),
        ("{\"type\":\"thinking_level_change\",\"id\":\"initial-2\",\"thinkingLevel\":\"off\"}", 2),
    ] {
        if pick(count) == 0 {
            records.push(Object::parse(text));
        }
    }
    for record in file.records {
        records.push(if record.is("label") || record.is("context_edit") {
            // Nothing of version 1 can name a record: a record without effect has its place.
            let record = record.without(&["targetId", "label", "replacement"]);
            record.with("type", quoted("usage"))
        } else if record.is("branch_summary") {
            record.with("fromId", quoted("root"))
        } else {
            record
        });
    }
    file.records = linear(records);
    file
}

fn imported(bytes: &[u8]) -> Imported {
    import_counted(bytes, Mode::Refuse).unwrap_or_else(|refusal| panic!("{refusal:?}"))
}

fn same(what: &str, left: &State, right: &State) {
    let diff = diff(left, right, &Compare::default());
    assert!(diff.is_empty(), "{what}:\n{diff}");
}

/// A fork into a repository, or the refusal.
fn forked(bytes: &[u8], options: &ForkOptions, into: &dyn Repo) -> Result<State, String> {
    let root = root_with(bytes);
    let at = listed(root.path()).expect("it is listed");
    let options = options.clone().with_id(SessionId::new("fork").expect("an id"));
    let session = transfer::fork(&repo(root.path()), &at, into, &options, &Context::new());
    Ok(state_of(&session.map_err(|error| error.to_string())?))
}

fn into_memory(bytes: &[u8], options: &ForkOptions) -> Result<State, String> {
    forked(
        bytes,
        options,
        &MemoryRepo::with(RepoOptions {
            environment: environment(),
            cwd: Some("/w".to_owned()),
            ..RepoOptions::default()
        }),
    )
}

fn into_file(bytes: &[u8], options: &ForkOptions) -> Result<State, String> {
    let root = tempfile::tempdir().expect("a temporary folder");
    forked(bytes, options, &repo(root.path()))
}

fn compare_forks(what: &str, old: Result<State, String>, new: Result<State, String>) {
    match (old, new) {
        (Ok(old), Ok(new)) => same(what, &old, &new),
        (old, new) => assert_eq!(old.err(), new.err(), "{what}"),
    }
}

/// What an open session says, before and after its upgrade, and the upgraded file.
fn used(bytes: &[u8]) -> (State, Stats, State, Stats, String) {
    let cx = Context::new();
    let root = root_with(bytes);
    let at = listed(root.path()).expect("it is listed");
    let session = repo(root.path()).open(&at, &cx).expect("it is sound");
    let (before, stats) = (state_of(&session), session.stats().expect("it is open"));
    let write = Write::set("app", "key", Json::string("value")).expect("valid");
    session.commit(&[write], &cx).expect("it can be upgraded");
    let (after, stats_after) = (state_of(&session), session.stats().expect("it is open"));
    session.close().expect("it can be closed");
    let file = fs::read_to_string(at.path().expect("a file")).expect("it is text");
    (before, stats, after, stats_after, file)
}

/// Holds an older file against the version 3 file of the same session.
fn compare(old: &File, new: &File) {
    let (old, new) = (old.to_bytes(), new.to_bytes());
    println!("{}\n{}", String::from_utf8_lossy(&old), String::from_utf8_lossy(&new));
    let (left, right) = (imported(&old), imported(&new));
    same("plain import", &left.state, &right.state);
    assert_eq!(left.usage.as_ref().ok(), right.usage.as_ref().ok());

    let reference =
        |bytes: &[u8]| listed(root_with(bytes).path()).map(|at: SessionRef| at.metadata);
    assert_eq!(reference(&old), reference(&new));
    assert_eq!(reference(&old).as_ref(), Some(left.state.metadata()));

    let main = || ForkOptions::branch(BranchName::new("main").expect("a name"));
    for options in [ForkOptions::tree(), main(), main().before_tip()] {
        let memory = into_memory(&old, &options);
        compare_forks("into memory and into a file", memory.clone(), into_file(&old, &options));
        compare_forks("into a file", memory.clone(), into_file(&new, &options));
        compare_forks("into memory", memory, into_memory(&new, &options));
    }
    // Version 1 has no ids that a caller could name.
    for id in left.ids.keys().filter_map(|id| EntryId::new(id.as_str()).ok()).step_by(3) {
        for options in [main().at(id.clone()), main().before(id)] {
            compare_forks("at an entry", into_memory(&old, &options), into_memory(&new, &options));
        }
    }

    let (old, new) = (used(&old), used(&new));
    same("open", &old.0, &new.0);
    same("open and plain import", &old.0, &left.state);
    same("upgraded", &old.2, &new.2);
    assert_eq!((old.1, old.3), (new.1, new.3));
    assert_eq!(old.4, new.4, "the upgraded files");
}

/// Every way between versions, from one seed.
fn compare_versions(records_max: u32, seed: u64) {
    let wanted = |version| Wanted { version, records_max, is_damaged: false };
    let mut pick = picker(seed);
    let first = File::parse(&generate(wanted(1), &mut pick));
    compare(&first, &of_version_1(first.clone()));
    let second = File::parse(&generate(wanted(2), &mut pick));
    compare(&second, &of_version_2(second.clone()));
    let mut third = File::parse(&generate(wanted(3), &mut pick));
    // No older file becomes one with this role.
    third.rename_roles("hookMessage", "custom", || true);
    compare(&to_version_2(third.clone(), &mut pick), &third);
    let third = as_one_line(third, &mut pick);
    compare(&to_version_1(third.clone(), &mut pick), &third);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn older_files_are_the_version_3_files_that_they_migrate_to(
        records_max in 1_u32..20,
        seed in any::<u64>(),
    ) {
        compare_versions(records_max, seed);
    }
}

/// The random files have what the rules are about.
#[test]
fn the_random_files_have_what_the_rules_are_about() {
    let (mut hooks, mut tails, mut complete, mut initial) = (0, 0, 0, 0);
    for seed in 0..100 {
        let mut pick = picker(seed);
        let third = generate(Wanted { version: 3, records_max: 20, is_damaged: false }, &mut pick);
        let mut third = File::parse(&third);
        third.rename_roles("hookMessage", "custom", || true);
        let third = as_one_line(third, &mut pick);
        let first = to_version_1(third, &mut pick);
        let found = imported(&first.to_bytes());
        let text = String::from_utf8(first.to_bytes()).expect("text");
        hooks += usize::from(text.contains("\"role\":\"hookMessage\",\"content\""));
        let has_tail = |payload: &Json| payload.as_str().contains("\"retainedTail\":[{");
        tails += usize::from(found.state.entries().values().any(|entry| has_tail(&entry.payload)));
        let main = BranchName::new("main").expect("a name");
        let is_complete = Lane::of(&found.state, &main).shape() == LaneShape::Complete;
        complete += usize::from(is_complete);
        initial += usize::from(is_complete && first.header.raw("modelId").is_some());
    }
    println!("{hooks} {tails} {complete} {initial}");
    assert!(hooks > 20 && tails > 20 && complete > 30 && initial > 20);
}
