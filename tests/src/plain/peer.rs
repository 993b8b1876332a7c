//! States as another implementation wrote them down: `*.state.json` of the fixtures.
//!
//! It parses payloads and writes them again, so JSON is compared with numbers as doubles.

use std::collections::BTreeMap;

use forkline_model::{Entry, Json, Metadata, State, Usage, UsageRow};
use serde::Deserialize;
use serde_json::value::RawValue;

/// One `*.state.json`, or one session of a container's.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PeerState {
    metadata: Metadata,
    next_seq: u64,
    entries: Vec<Stamped>,
    values: Vec<Stamped>,
    lists: Vec<PeerList>,
    usage: Vec<Stamped>,
    stats: PeerStats,
}

/// An item with its seq and its whole text.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Box<RawValue>")]
struct Stamped {
    seq: u64,
    item: Json,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PeerStats {
    message_count: u64,
    /// Kept as text: `serde_json` reads a double less exactly than `str::parse`.
    usage: Json,
}

#[derive(Debug, Deserialize)]
struct PeerList {
    namespace: String,
    key: String,
    elements: Vec<(u64, Json)>,
}

impl TryFrom<Box<RawValue>> for Stamped {
    type Error = String;
    fn try_from(raw: Box<RawValue>) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Seq {
            seq: u64,
        }
        let Seq { seq } = serde_json::from_str(raw.get()).map_err(|error| error.to_string())?;
        Ok(Self { seq, item: Json::parse(raw.get()).map_err(|error| error.to_string())? })
    }
}

/// Whether a working directory counts; SQLite has no place for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cwd {
    /// It does.
    Compared,
    /// It does not.
    Ignored,
}

/// Where a state differs from what the other implementation wrote down, a line each.
pub fn differences(state: &State, peer: &PeerState, cwd: Cwd) -> Vec<String> {
    let mut found = Found(Vec::new());
    let mut metadata = state.metadata().clone();
    if cwd == Cwd::Ignored {
        metadata.cwd.clone_from(&peer.metadata.cwd);
    }
    found.equal("metadata", &metadata, &peer.metadata);
    found.equal("next seq", &state.next_seq(), &peer.next_seq);
    let entries = state.entries().values().map(|entry| (entry.seq.get(), entry_json(entry)));
    found.items("entry", &entries.collect(), &peer.entries);
    let values = state.values().iter().map(|(address, (seq, value))| {
        let (namespace, key) = (address.namespace.as_str(), address.key.as_str());
        let text = format!(
            "{{\"namespace\":{},\"key\":{},\"seq\":{seq},\"value\":{value}}}",
            Json::string(namespace),
            Json::string(key)
        );
        (seq.get(), json(&text))
    });
    found.items("value", &values.collect(), &peer.values);
    found.lists(state, &peer.lists);
    let ledger = state.ledger().values().map(|row| (row.seq.get(), usage_json(row)));
    found.items("usage row", &ledger.collect(), &peer.usage);
    found.equal("messages", &state.stats().message_count, &peer.stats.message_count);
    found.equal("usage", &Ok(state.stats().usage), &Usage::parse(&peer.stats.usage));
    found.0
}

struct Found(Vec<String>);

impl Found {
    fn equal<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, ours: &T, theirs: &T) {
        if ours != theirs {
            self.0.push(format!("{what}: {ours:?}, peer {theirs:?}"));
        }
    }

    fn compare(&mut self, what: &str, ours: &Json, theirs: &Json) {
        if !ours.equals_as_doubles(theirs) {
            self.0.push(format!("{what}: {ours}, peer {theirs}"));
        }
    }

    fn items(&mut self, what: &str, ours: &BTreeMap<u64, Json>, theirs: &[Stamped]) {
        self.equal(&format!("number of items of kind {what}"), &ours.len(), &theirs.len());
        for peer in theirs {
            match ours.get(&peer.seq) {
                Some(ours) => self.compare(&format!("{what} {}", peer.seq), ours, &peer.item),
                None => self.0.push(format!("{what} {}: only the peer has it", peer.seq)),
            }
        }
    }

    fn lists(&mut self, state: &State, theirs: &[PeerList]) {
        self.equal("number of lists", &state.lists().len(), &theirs.len());
        for peer in theirs {
            let what = format!("list {:?}/{:?}", peer.namespace, peer.key);
            let ours = state.lists().iter().find(|(address, _)| {
                address.namespace.as_str() == peer.namespace && address.key.as_str() == peer.key
            });
            let ours: Vec<_> = ours.into_iter().flat_map(|(_, elements)| elements).collect();
            self.equal(&format!("{what}: number of elements"), &ours.len(), &peer.elements.len());
            for ((seq, ours), (peer_seq, theirs)) in ours.into_iter().zip(&peer.elements) {
                self.equal(&format!("{what}: seq"), &seq.get(), peer_seq);
                self.compare(&what, ours, theirs);
            }
        }
    }
}

fn json(text: &str) -> Json {
    Json::parse(text).expect("it was put together from JSON")
}

/// The entry as the peer writes it: a line of its file without `kind`.
fn entry_json(entry: &Entry) -> Json {
    json(&entry.to_jsonl().replacen("\"kind\":\"entry\",", "", 1))
}

fn usage_json(row: &UsageRow) -> Json {
    let mut text = format!(
        "{{\"id\":{},\"adjustment\":{},\"usage\":{},\"seq\":{}",
        Json::string(row.id.as_str()),
        row.adjustment,
        row.usage,
        row.seq
    );
    if let Some(entry) = &row.entry {
        text.extend([",\"entryId\":", Json::string(entry.as_str()).as_str()]);
    }
    if let Some(details) = &row.details {
        text.extend([",\"details\":", details.as_str()]);
    }
    text.push('}');
    json(&text)
}
