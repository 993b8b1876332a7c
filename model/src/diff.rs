//! Two states in, a short readable list of their differences out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::address::{Address, Seq, StoreKind};
use crate::entry::Entry;
use crate::json::{Json, quoted};
use crate::metadata::Metadata;
use crate::state::State;
use crate::usage::UsageRow;

/// How many differences are listed unless told.
pub const LINES_MAX: usize = 12;

/// What counts as a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compare {
    /// When two JSON texts are the same.
    pub json: JsonEquality,
    /// Whether the creation time counts.
    pub created_at: bool,
    /// Whether the working directory counts: some engines keep none.
    pub cwd: bool,
    /// How many differences are listed; the others are counted.
    pub lines_max: usize,
}

/// When two JSON texts are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonEquality {
    /// When they differ in insignificant white space only.
    Exact,
    /// When a reader that keeps numbers as doubles sees no difference; for engines that parse
    /// payloads and write them again.
    AsDoubles,
}

impl Default for Compare {
    fn default() -> Self {
        Self { json: JsonEquality::Exact, created_at: true, cwd: true, lines_max: LINES_MAX }
    }
}

/// The differences of two states, in a fixed order: metadata, next seq, entries, values, lists,
/// ledger.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diff {
    /// The first ones, a line each.
    pub lines: Vec<String>,
    /// How many there are beyond these.
    pub more: usize,
}

impl Diff {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.more == 0
    }
}

impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = self.lines.iter();
        if let Some(line) = lines.next() {
            f.write_str(line)?;
        }
        lines.try_for_each(|line| write!(f, "\n{line}"))?;
        match self.more {
            0 => Ok(()),
            more => write!(f, "\n... and {more} more"),
        }
    }
}

/// Lists where `left` and `right` differ.
pub fn diff(left: &State, right: &State, compare: &Compare) -> Diff {
    let mut differ = Differ { compare, diff: Diff::default() };
    differ.metadata(left.metadata(), right.metadata());
    differ.field("next seq", &left.next_seq(), &right.next_seq());
    differ.entries(left, right);
    differ.values(left, right);
    differ.lists(left, right);
    differ.ledger(left, right);
    differ.diff
}

struct Differ<'a> {
    compare: &'a Compare,
    diff: Diff,
}

impl Differ<'_> {
    fn line(&mut self, line: impl FnOnce() -> String) {
        if self.diff.lines.len() < self.compare.lines_max {
            self.diff.lines.push(line());
        } else {
            self.diff.more += 1;
        }
    }

    fn field<T: PartialEq + fmt::Debug>(&mut self, what: &str, left: &T, right: &T) {
        if left != right {
            self.line(|| {
                let (left, right) = excerpts(&format!("{left:?}"), &format!("{right:?}"));
                format!("{what}: {left} != {right}")
            });
        }
    }

    fn json(&mut self, what: &str, left: &Json, right: &Json) {
        let same = match self.compare.json {
            JsonEquality::Exact => left == right,
            JsonEquality::AsDoubles => left.equals_as_doubles(right),
        };
        if !same {
            self.line(|| {
                let (left, right) = excerpts(left.as_str(), right.as_str());
                format!("{what}: {left} != {right}")
            });
        }
    }

    /// Walks the keys of both sides; one that only one side has is a difference of its own.
    fn both<K: Ord + Clone, V>(
        &mut self,
        left: &BTreeMap<K, V>,
        right: &BTreeMap<K, V>,
        name: impl Fn(&K) -> String,
        mut pair: impl FnMut(&mut Self, &str, &V, &V),
    ) {
        let keys: BTreeSet<&K> = left.keys().chain(right.keys()).collect();
        for key in keys {
            match (left.get(key), right.get(key)) {
                (Some(left), Some(right)) => pair(self, &name(key), left, right),
                (Some(_), None) => self.line(|| format!("{}: only left", name(key))),
                (None, _) => self.line(|| format!("{}: only right", name(key))),
            }
        }
    }

    fn metadata(&mut self, left: &Metadata, right: &Metadata) {
        self.field("id", &left.id, &right.id);
        if self.compare.created_at {
            self.field("createdAt", &left.created_at.get(), &right.created_at.get());
        }
        if self.compare.cwd {
            self.field("cwd", &left.cwd, &right.cwd);
        }
        self.field("parentSessionId", &left.parent_session_id, &right.parent_session_id);
        let path = |metadata: &Metadata| metadata.legacy_parent_session_path.clone();
        self.field("legacyParentSessionPath", &path(left), &path(right));
    }

    /// By id: an entry at another seq is one difference, not two missing entries.
    fn entries(&mut self, left: &State, right: &State) {
        let by_id = |state: &State| -> BTreeMap<_, Entry> {
            state.entries().values().map(|entry| (entry.id.clone(), entry.clone())).collect()
        };
        let name = |id: &_| format!("entry {id}");
        self.both(&by_id(left), &by_id(right), name, |differ, what, left, right| {
            differ.seq(what, left.seq, right.seq);
            differ.field(&format!("{what} parent"), &left.parent, &right.parent);
            differ.field(&format!("{what} type"), &left.entry_type, &right.entry_type);
            differ.field(&format!("{what} customType"), &left.custom_type, &right.custom_type);
            let times = (left.timestamp.get(), right.timestamp.get());
            differ.field(&format!("{what} timestamp"), &times.0, &times.1);
            differ.json(&format!("{what} payload"), &left.payload, &right.payload);
        });
    }

    fn values(&mut self, left: &State, right: &State) {
        let name = |address: &_| place(StoreKind::Value, address);
        self.both(left.values(), right.values(), name, |differ, what, left, right| {
            differ.seq(what, left.0, right.0);
            differ.json(what, &left.1, &right.1);
        });
    }

    fn lists(&mut self, left: &State, right: &State) {
        let name = |address: &_| place(StoreKind::List, address);
        self.both(left.lists(), right.lists(), name, |differ, what, left, right| {
            let name = |seq: &Seq| format!("{what} element {seq}");
            differ.both(left, right, name, Self::json);
        });
    }

    fn ledger(&mut self, left: &State, right: &State) {
        let by_id = |state: &State| -> BTreeMap<_, UsageRow> {
            state.ledger().values().map(|row| (row.id.clone(), row.clone())).collect()
        };
        let name = |id: &_| format!("usage {id}");
        self.both(&by_id(left), &by_id(right), name, |differ, what, left, right| {
            differ.seq(what, left.seq, right.seq);
            differ.field(&format!("{what} entry"), &left.entry, &right.entry);
            differ.field(&format!("{what} adjustment"), &left.adjustment, &right.adjustment);
            differ.json(what, &left.usage, &right.usage);
            match (&left.details, &right.details) {
                (Some(left), Some(right)) => differ.json(&format!("{what} details"), left, right),
                (left, right) => differ.field(&format!("{what} details"), left, right),
            }
        });
    }

    fn seq(&mut self, what: &str, left: Seq, right: Seq) {
        if left != right {
            self.line(|| format!("{what}: seq {left} != {right}"));
        }
    }
}

fn place(kind: StoreKind, address: &Address) -> String {
    format!("{} {}/{}", kind.as_str(), address.namespace.as_str(), quoted(address.key.as_str()))
}

/// Both texts from a little before their first difference, shortened.
fn excerpts(left: &str, right: &str) -> (String, String) {
    const BEFORE: usize = 20;
    let same = left.chars().zip(right.chars()).take_while(|(left, right)| left == right).count();
    let skipped = if same > 2 * BEFORE { same - BEFORE } else { 0 };
    let excerpt = |text: &str| {
        let rest: String = text.chars().skip(skipped).collect();
        let dots = if skipped > 0 { "..." } else { "" };
        format!("{dots}{}", crate::address::shortened(&rest))
    };
    (excerpt(left), excerpt(right))
}

#[cfg(test)]
mod tests {
    use super::{Compare, JsonEquality, diff, excerpts};
    use crate::{Json, Metadata, Millis, SessionId, State, Write};

    fn state(writes: &[Write]) -> State {
        let metadata = Metadata {
            id: SessionId::new("s").unwrap(),
            created_at: Millis::EPOCH,
            cwd: None,
            parent_session_id: None,
            legacy_parent_session_path: None,
        };
        let mut state = State::new(metadata);
        state.apply(writes, Millis::EPOCH).unwrap();
        state
    }

    fn json(text: &str) -> Json {
        Json::parse(text).unwrap()
    }

    fn set(key: &str, value: &str) -> Write {
        Write::set("app.x", key, json(value)).unwrap()
    }

    fn append(value: &str) -> Write {
        Write::append("app.log", "", json(value)).unwrap()
    }

    fn entry(text: &str) -> Write {
        Write::from_jsonl(text).unwrap()
    }

    #[test]
    fn every_kind_of_difference_has_a_line() {
        let left = state(&[
            set("k", "1"),
            append("1"),
            append("2"),
            entry(r#"{"kind":"entry","id":"e","parentId":null,"type":"message","message":1}"#),
            entry(r#"{"kind":"usage","id":"u","usage":{"input":1},"adjustment":false}"#),
            set("only", "1"),
        ]);
        let right = state(&[
            append("1"),
            append("2"),
            set("k", "2"),
            entry(r#"{"kind":"usage","id":"u","usage":{"input":2},"adjustment":true}"#),
            entry(r#"{"kind":"entry","id":"e","parentId":null,"type":"custom","message":2}"#),
        ]);
        let expected = [
            "next seq: 7 != 6",
            r#"entry "e": seq 4 != 5"#,
            r#"entry "e" type: Message != Custom"#,
            r#"entry "e" payload: {"message":1} != {"message":2}"#,
            r#"value app.x/"k": seq 1 != 3"#,
            r#"value app.x/"k": 1 != 2"#,
            r#"value app.x/"only": only left"#,
            r#"list app.log/"" element 1: only right"#,
            r#"list app.log/"" element 2: 1 != 2"#,
            r#"list app.log/"" element 3: only left"#,
            r#"usage "u": seq 5 != 4"#,
            r#"usage "u" adjustment: false != true"#,
            r#"usage "u": {"input":1} != {"input":2}"#,
        ];
        let compare = Compare { lines_max: 100, ..Compare::default() };
        assert_eq!(diff(&left, &right, &compare).lines, expected);
        let short = diff(&left, &right, &Compare { lines_max: 1, ..compare });
        assert_eq!(short.to_string(), "next seq: 7 != 6\n... and 12 more");
        assert!(diff(&left, &left, &compare).is_empty());
    }

    #[test]
    fn details_and_their_absence_are_told_apart() {
        let row = |details: &str| {
            state(&[entry(&format!(
                r#"{{"kind":"usage","id":"u","usage":{{}},"adjustment":false{details}}}"#
            ))])
        };
        let (none, null) = (row(""), row(r#","details":null"#));
        let found = diff(&none, &null, &Compare::default());
        assert_eq!(found.lines, [r#"usage "u" details: None != Some(null)"#]);
        let found = diff(&null, &row(r#","details":7"#), &Compare::default());
        assert_eq!(found.lines, [r#"usage "u" details: null != 7"#]);
    }

    #[test]
    fn metadata_counts_unless_told() {
        let left = state(&[]);
        let mut right = left.clone();
        right.metadata.created_at = Millis::new(7).unwrap();
        right.metadata.cwd = Some("/x".to_owned());
        let found = diff(&left, &right, &Compare::default());
        assert_eq!(found.lines, ["createdAt: 0 != 7", r#"cwd: None != Some("/x")"#]);
        let compare = Compare { created_at: false, cwd: false, ..Compare::default() };
        assert!(diff(&left, &right, &compare).is_empty());
        right.metadata.parent_session_id = Some(SessionId::new("p").unwrap());
        assert!(!diff(&left, &right, &compare).is_empty());
    }

    #[test]
    fn doubles_are_compared_only_when_told() {
        let (left, right) = (state(&[set("k", "1.0")]), state(&[set("k", "1")]));
        assert!(!diff(&left, &right, &Compare::default()).is_empty());
        let compare = Compare { json: JsonEquality::AsDoubles, ..Compare::default() };
        assert!(diff(&left, &right, &compare).is_empty());
    }

    #[test]
    fn long_texts_are_cut_to_where_they_differ() {
        let text = |last: &str| format!("{}{last}", "a".repeat(1000));
        let (left, right) = excerpts(&text("x"), &text("y"));
        assert_eq!(left, format!("...{}x", "a".repeat(20)));
        assert_eq!(right, format!("...{}y", "a".repeat(20)));
        // What is no longer than twice the part that is kept stays whole.
        let same_as = |same: usize| {
            let text = |last: &str| format!("{}{last}", "a".repeat(same));
            excerpts(&text("x"), &text("y")).0
        };
        assert_eq!(same_as(40), format!("{}x", "a".repeat(40)));
        assert_eq!(same_as(41), format!("...{}x", "a".repeat(20)));
    }
}
