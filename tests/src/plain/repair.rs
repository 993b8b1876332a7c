//! What a salvage takes of a damaged file of format 4, read with whole values.
//!
//! A line is a commit, or several that a lost line break glued together: all or nothing of it is
//! taken. It is taken when the plain reader can read it by itself and its seqs rise. What repeats
//! an id is left out; a parent or a tip that is not there is the nearest entry before.

use std::collections::BTreeSet;

use forkline_model::json::quoted;
use forkline_model::policy::BRANCH_TIP;
use forkline_model::{State, StateBuilder};
use serde_json::value::RawValue;

use super::jsonl::{self, read_header};
use super::object::{Object, text as text_of};
use super::{Concerns, Damage};
use crate::plain_legacy::Repair;

/// What is left of a damaged file.
#[derive(Debug, Clone)]
pub struct Repaired {
    /// The session, without its ledger: no fork copies that.
    pub state: State,
    /// How many writes were taken.
    pub taken: u64,
    /// How many were left out; a line that is no JSON counts as one.
    pub skipped: u64,
    /// What was done, by line.
    pub repairs: BTreeSet<(u64, Repair)>,
}

/// Reads what is readable.
///
/// # Errors
/// An unreadable header.
pub fn repair(bytes: &[u8]) -> Result<Repaired, Damage> {
    let mut lines: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
    lines.pop();
    let (&first, lines) = lines.split_first().unwrap_or((&&b""[..], &[]));
    let header = read_header(first)?;
    let (mut repairs, mut writes, mut last_seq) = (BTreeSet::new(), Vec::new(), 0);
    let mut skipped = 0;
    for (line, number) in lines.iter().zip(2..) {
        let Some(commits) = commits(first, line, last_seq) else {
            repairs.insert((number, Repair::Skip));
            skipped += count(line).unwrap_or(0).max(1);
            continue;
        };
        if commits.len() > 1 {
            repairs.insert((number, Repair::Split));
        }
        for (write, seq) in commits.into_iter().flatten() {
            last_seq = seq;
            writes.push((write, number));
        }
    }
    let (mut known, mut taken, mut sound) = (Known::default(), 0, first.to_vec());
    for (write, number) in writes {
        let Some((text, is_changed)) = known.repaired(&write) else {
            repairs.insert((number, Repair::Skip));
            skipped += 1;
            continue;
        };
        taken += 1;
        if is_changed {
            repairs.insert((number, Repair::Reattach));
        }
        if kind(&write) != "usage" {
            sound.push(b'\n');
            sound.extend(text.as_bytes());
        }
    }
    sound.push(b'\n');
    let state = jsonl::read(&sound)?.state;
    // The seqs of what is left out stay unused.
    let next_seq = header.next_seq.unwrap_or(1).max(last_seq + 1);
    let state = rebuilt(&state, next_seq).finish().expect("it was read from sound rows");
    Ok(Repaired { state, taken, skipped, repairs })
}

/// The same session, to be changed.
pub fn rebuilt(state: &State, next_seq: u64) -> StateBuilder {
    let mut builder = StateBuilder::new(state.metadata().clone(), next_seq);
    for entry in state.entries().values() {
        builder.entry(entry.clone());
    }
    for (address, (seq, value)) in state.values() {
        builder.value(address.clone(), *seq, value.clone());
    }
    for (address, elements) in state.lists() {
        for (seq, value) in elements {
            builder.element(address.clone(), *seq, value.clone());
        }
    }
    for row in state.ledger().values() {
        builder.usage(row.clone());
    }
    builder
}

/// The commits of a line, each as its writes with their seqs; none if anything of it cannot be
/// taken.
fn commits(header: &[u8], line: &[u8], mut last_seq: u64) -> Option<Vec<Vec<(String, u64)>>> {
    let text = str::from_utf8(line).ok()?;
    let mut commits = Vec::new();
    for commit in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        let commit = commit.ok()?.get();
        let alone = [header, commit.as_bytes(), b""].join(&b'\n');
        match jsonl::read(&alone) {
            // What it names may be in another line.
            Ok(_)
            | Err(Damage { concerns: Concerns::OpenAndSomeForks { fork_line: None }, .. }) => {}
            Err(_) => return None,
        }
        let writes: Vec<&RawValue> = if commit.starts_with('[') {
            serde_json::from_str(commit).ok()?
        } else {
            vec![serde_json::from_str(commit).ok()?]
        };
        let mut taken = Vec::new();
        for write in writes {
            let object = Object::parse(write.get()).ok()?;
            let seq = object.integer("seq", 1).ok()?;
            let is_whole = kind(write.get()) != "usage" || has_usage(&object);
            if seq <= last_seq || !is_whole {
                return None;
            }
            last_seq = seq;
            taken.push((write.get().to_owned(), seq));
        }
        commits.push(taken);
    }
    (!commits.is_empty()).then_some(commits)
}

/// How many objects a line holds, alone or in arrays; none if it holds anything else.
fn count(line: &[u8]) -> Option<u64> {
    let text = str::from_utf8(line).ok()?;
    let mut count = 0;
    for part in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        let part = part.ok()?.get();
        let objects: Vec<&RawValue> = if part.starts_with('[') {
            serde_json::from_str(part).ok()?
        } else {
            vec![serde_json::from_str(part).ok()?]
        };
        if !objects.iter().all(|object| object.get().starts_with('{')) {
            return None;
        }
        count += objects.len() as u64;
    }
    Some(count)
}

fn kind(write: &str) -> String {
    Object::parse(write)
        .map(|write| write.text("kind"))
        .ok()
        .and_then(Result::ok)
        .unwrap_or_default()
}

/// Whether a usage row has what makes it one; what the usage says, concerns no fork.
fn has_usage(row: &Object<'_>) -> bool {
    let is_entry = row.raw("entryId").is_none() || row.text_or_null("entryId").is_ok();
    let is_told = matches!(row.raw("adjustment"), Some("true" | "false"));
    is_entry && is_told && row.raw("usage").is_some_and(|usage| usage.starts_with('{'))
}

/// What stands before a write.
#[derive(Default)]
struct Known {
    ids: BTreeSet<String>,
    last_entry: Option<String>,
}

impl Known {
    /// A write with what it names replaced by what is there, and whether it was; none if it
    /// repeats an id.
    fn repaired(&mut self, write: &str) -> Option<(String, bool)> {
        let object = Object::parse(write).expect("it was read before");
        let named = match kind(write).as_str() {
            "entry" => Some("parentId"),
            "value" if object.text("namespace").is_ok_and(|name| name == BRANCH_TIP) => {
                Some("value")
            }
            _ => None,
        };
        let raw = named.and_then(|name| object.raw(name));
        let is_unknown = |raw: &&str| text_of(raw).is_some_and(|id| !self.ids.contains(&id));
        let nearest = self.last_entry.as_deref().map_or("null".to_owned(), quoted);
        let unknown = raw.filter(is_unknown);
        let text = unknown.map_or(write.to_owned(), |raw| {
            let start = raw.as_ptr() as usize - write.as_ptr() as usize;
            format!("{}{nearest}{}", &write[..start], &write[start + raw.len()..])
        });
        if let ("entry" | "usage", Ok(id)) = (kind(write).as_str(), object.text("id")) {
            if !self.ids.insert(id.clone()) {
                return None;
            }
            if named.is_some() {
                self.last_entry = Some(id);
            }
        }
        Some((text, unknown.is_some()))
    }
}
