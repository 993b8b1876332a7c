//! From records to a state: entries with their payloads, values in their order, usage.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use forkline_model::json::quoted;
use forkline_model::{
    Address, BranchName, Entry, EntryId, EntryType, Json, Seq, State, StateBuilder, TypeName,
    Usage, policy,
};

use super::json::Members;
use super::record::{Kind, Record, Records};
use super::report::{Damage, Repair, What};
use super::{Header, Outside, json};

/// The state, and the new id of each legacy id that became an entry.
pub(super) fn build(
    header: &Header,
    records: &mut Records,
    outside: &mut Outside<'_>,
) -> (State, BTreeMap<String, EntryId>) {
    let kept: Vec<usize> =
        (0..records.all.len()).filter(|&index| records.all[index].kind.is_entry()).collect();
    let mut minted = BTreeMap::new();
    for (order, &index) in kept.iter().enumerate() {
        let record = &records.all[index];
        let id = (outside.mint)(order, record.ms, record.id.as_deref());
        minted.insert(index, EntryId::new(id).expect("a minted id is valid"));
    }
    let mut builder = Builder { records, minted, found: Vec::new() };
    let mut rows = Rows { next: 1, entries: Vec::new(), values: Vec::new() };
    for index in kept {
        let entry = builder.entry(index, rows.seq());
        rows.entries.push(entry);
    }
    builder.values(header, &mut rows);
    let Builder { minted, found, .. } = builder;
    records.damage.extend(found);
    let mut state = StateBuilder::new(header.metadata.clone(), rows.next);
    for entry in rows.entries {
        state.entry(entry);
    }
    for (address, seq, value) in rows.values {
        state.value(address, seq, value);
    }
    let legacy = |(&index, id): (&usize, &EntryId)| {
        records.all[index].id.clone().map(|legacy| (legacy, id.clone()))
    };
    let ids = minted.iter().filter_map(legacy).collect();
    (state.finish().expect("an import keeps the rules of a session"), ids)
}

struct Rows {
    next: u64,
    entries: Vec<Entry>,
    values: Vec<(Address, Seq, Json)>,
}

impl Rows {
    fn seq(&mut self) -> Seq {
        self.next += 1;
        Seq::new(self.next - 1).expect("a file has fewer records")
    }

    fn set(&mut self, address: Address, value: Json) {
        let seq = self.seq();
        self.values.push((address, seq, value));
    }
}

struct Builder<'a> {
    records: &'a Records,
    minted: BTreeMap<usize, EntryId>,
    found: Vec<Damage>,
}

impl Builder<'_> {
    fn damage(&mut self, index: usize, what: What, repair: Repair) {
        let line = self.records.all[index].line;
        self.found.push(Damage { line, what, repair });
    }

    /// The new id of the nearest entry of a record.
    fn id(&self, record: Option<usize>) -> Option<EntryId> {
        self.records.entry_of(record).map(|entry| self.minted[&entry].clone())
    }

    fn entry(&mut self, index: usize, seq: Seq) -> Entry {
        let record = &self.records.all[index];
        let (entry_type, payload) = match record.kind {
            Kind::Message | Kind::CustomMessage => {
                (EntryType::Message, object(&[("message", self.message(index))]))
            }
            Kind::Custom => (EntryType::Custom, object(&[("data", raw(&record.members, "data"))])),
            Kind::BranchSummary => (EntryType::BranchSummary, self.branch_summary(index)),
            Kind::Compaction => (EntryType::Compaction, self.compaction(index)),
            Kind::ContextEdit => (EntryType::Custom, self.context_edit(index)),
            _ => unreachable!("only kept records become entries"),
        };
        let custom_type = match record.kind {
            Kind::Custom => record.members.text("customType"),
            Kind::ContextEdit => Some("context_edit".to_owned()),
            _ => None,
        };
        Entry {
            id: self.minted[&index].clone(),
            parent: self.id(record.parent),
            entry_type,
            custom_type: custom_type.map(|name| TypeName::new(name).expect("it was checked")),
            payload: json(&payload),
            seq,
            timestamp: record.ms,
        }
    }

    /// The message of a record, if it has one.
    fn message(&self, index: usize) -> Option<String> {
        let Record { kind, members, ms, .. } = &self.records.all[index];
        if *kind == Kind::Message {
            let message = members.raw("message")?;
            return Some(match self.records.version {
                3 => message.to_owned(),
                _ => with_custom_role(message),
            });
        }
        Some(object(&[
            ("role", Some("\"custom\"".to_owned())),
            ("customType", raw(members, "customType")),
            ("content", raw(members, "content")),
            ("details", raw(members, "details")),
            ("display", raw(members, "display")),
            ("timestamp", Some(ms.to_string())),
        ]))
    }

    /// `fromId` or `targetId` as a new id or null; `Err` if it names no record.
    fn reference(&self, raw: Option<&str>) -> Result<Option<EntryId>, ()> {
        match raw {
            None | Some("null" | "\"root\"") => Ok(None),
            Some(raw) => {
                let id = super::json::text_of(raw).ok_or(())?;
                if id == "root" {
                    return Ok(None);
                }
                let target = self.records.by_id.get(&id).ok_or(())?;
                Ok(self.id(Some(*target)))
            }
        }
    }

    fn origin(&self, index: usize) -> Result<String, ()> {
        let members = &self.records.all[index].members;
        self.reference(members.raw("fromId")).map(or_null)
    }

    fn branch_summary(&mut self, index: usize) -> String {
        let from = self.origin(index).unwrap_or_else(|()| {
            self.damage(index, What::UnknownReference, Repair::Unlink);
            "null".to_owned()
        });
        let members = &self.records.all[index].members;
        object(&[
            ("fromId", Some(from)),
            ("summary", raw(members, "summary")),
            ("details", raw(members, "details")),
            ("usage", raw(members, "usage")),
            ("fromHook", Some(from_hook(members))),
        ])
    }

    fn context_edit(&mut self, index: usize) -> String {
        let members = &self.records.all[index].members;
        let target = members.text("targetId").and_then(|id| self.records.by_id.get(&id).copied());
        let replacement = raw(members, "replacement");
        if target.is_none() {
            self.damage(index, What::UnknownReference, Repair::Unlink);
        }
        let target = or_null(self.id(target));
        let data = object(&[("targetId", Some(target)), ("replacement", replacement)]);
        object(&[("data", Some(data))])
    }

    fn compaction(&mut self, index: usize) -> String {
        let tail = self.tail(index).unwrap_or_else(|what| {
            self.damage(index, what, Repair::Unlink);
            Vec::new()
        });
        let members = &self.records.all[index].members;
        object(&[
            ("summary", raw(members, "summary")),
            ("retainedTail", Some(format!("[{}]", tail.join(",")))),
            ("tokensBefore", raw(members, "tokensBefore")),
            ("details", raw(members, "details")),
            ("usage", raw(members, "usage")),
            ("fromHook", Some(from_hook(members))),
            ("systemMessage", raw(members, "systemMessage")),
        ])
    }

    /// The messages from the first kept record to the compaction's parent, oldest first.
    fn tail(&self, index: usize) -> Result<Vec<String>, What> {
        let record = &self.records.all[index];
        let first = if self.records.version == 1 {
            let number = record.members.raw("firstKeptEntryIndex").and_then(whole_number);
            let line = number.ok_or(What::TailNotOnPath)? + 1;
            self.records.all.iter().position(|record| record.line == line)
        } else {
            let id = record.members.text("firstKeptEntryId").ok_or(What::UnknownReference)?;
            Some(*self.records.by_id.get(&id).ok_or(What::UnknownReference)?)
        };
        if first == Some(index) {
            return Ok(Vec::new());
        }
        let path = self.records.path(record.parent);
        let first = path.iter().position(|&on_path| Some(on_path) == first);
        let path = &path[..=first.ok_or(What::TailNotOnPath)?];
        Ok(path.iter().rev().filter_map(|&index| self.tail_message(index)).collect())
    }

    fn tail_message(&self, index: usize) -> Option<String> {
        let Record { kind, members, ms, .. } = &self.records.all[index];
        let ms = Some(ms.to_string());
        match kind {
            Kind::Message | Kind::CustomMessage => self.message(index),
            Kind::BranchSummary => {
                let summary = members.raw("summary").filter(|raw| has_text(raw))?;
                let from = self.origin(index).unwrap_or_else(|()| "null".to_owned());
                Some(object(&[
                    ("role", Some("\"branchSummary\"".to_owned())),
                    ("summary", Some(summary.to_owned())),
                    ("fromId", Some(from)),
                    ("timestamp", ms),
                ]))
            }
            Kind::Compaction => Some(object(&[
                ("role", Some("\"compactionSummary\"".to_owned())),
                ("summary", raw(members, "summary")),
                ("tokensBefore", raw(members, "tokensBefore")),
                ("timestamp", ms),
            ])),
            _ => None,
        }
    }

    /// Name, labels, tip, configuration and state, in this order.
    fn values(&mut self, header: &Header, rows: &mut Rows) {
        let infos = self.records.all.iter().rev().find(|record| record.kind == Kind::Info);
        let name = infos.and_then(|info| info.members.raw("name")).filter(|raw| has_text(raw));
        if let Some(name) = name {
            rows.set(policy::name_address(), json(name));
        }
        for (target, label) in self.labels() {
            rows.set(policy::label_address(&target), json(&label));
        }
        let main = BranchName::new("main").expect("a valid name");
        let last = self.records.all.len().checked_sub(1);
        rows.set(policy::tip_address(&main), json(&or_null(self.id(last))));
        if let Some(config) = self.config(header, last) {
            rows.set(policy::config_address(&main), json(&config));
            rows.set(policy::state_address(&main), policy::idle_state());
        }
    }

    /// The labels that are left, in the order of first labelling since the last removal.
    fn labels(&mut self) -> Vec<(EntryId, String)> {
        let mut labels: Vec<(EntryId, String)> = Vec::new();
        for (index, record) in self.records.all.iter().enumerate() {
            if record.kind != Kind::Label {
                continue;
            }
            let target = record.members.text("targetId");
            let Some(target) = target.and_then(|id| self.records.by_id.get(&id).copied()) else {
                self.damage(index, What::UnknownReference, Repair::Skip);
                continue;
            };
            let Some(target) = self.id(Some(target)) else { continue };
            let at = labels.iter().position(|(labelled, _)| *labelled == target);
            let label = record.members.raw("label").filter(|raw| has_text(raw));
            match (at, label) {
                (Some(at), Some(label)) => label.clone_into(&mut labels[at].1),
                (None, Some(label)) => labels.push((target, label.to_owned())),
                (Some(at), None) => drop(labels.remove(at)),
                (None, None) => {}
            }
        }
        labels
    }

    /// The configuration of the lane, if the path has what it takes.
    fn config(&self, header: &Header, last: Option<usize>) -> Option<String> {
        let path = self.records.path(last);
        let nearest = |kind| {
            let mut records = path.iter().map(|&index| &self.records.all[index]);
            records.find(|record| record.kind == kind).map(|record| &record.members)
        };
        // Version 1 may say in its header what it starts with.
        let initial = |names: &[&str]| {
            let all = names.iter().all(|name| header.members.text(name).is_some());
            (header.version == 1 && all).then_some(&header.members)
        };
        let model = nearest(Kind::Model).or_else(|| initial(&["provider", "modelId"]))?;
        let thinking = nearest(Kind::Thinking).or_else(|| initial(&["thinkingLevel"]))?;
        let tools = nearest(Kind::Tools).and_then(|tools| raw(tools, "activeToolNames"));
        let model =
            object(&[("provider", raw(model, "provider")), ("modelId", raw(model, "modelId"))]);
        Some(object(&[
            ("model", Some(model)),
            ("thinkingLevel", raw(thinking, "thinkingLevel")),
            ("activeToolNames", Some(tools.unwrap_or_else(|| "[]".to_owned()))),
        ]))
    }
}

/// The usage of all records in the order of the file; the line of one that cannot be summed.
pub(super) fn usage(records: &Records) -> Result<Usage, u64> {
    let mut sum = Usage::default();
    for record in &records.all {
        let usage = match record.kind {
            Kind::Message => {
                let message = record.members.raw("message").and_then(Members::parse);
                let message = message.unwrap_or_default();
                let role = message.text("role").unwrap_or_default();
                let counts = role == "assistant" || role == "toolResult";
                raw(&message, "usage").filter(|_| counts)
            }
            Kind::Compaction | Kind::BranchSummary | Kind::Usage => raw(&record.members, "usage"),
            _ => None,
        };
        if let Some(usage) = usage.filter(|usage| usage != "null") {
            sum.add(&Usage::parse(&json(&usage)).map_err(|_| record.line)?);
        }
    }
    Ok(sum)
}

fn raw(members: &Members, name: &str) -> Option<String> {
    members.raw(name).map(str::to_owned)
}

/// An object of the members that are there.
fn object(members: &[(&str, Option<String>)]) -> String {
    let mut text = String::from("{");
    for (name, value) in members {
        if let Some(value) = value {
            let comma = if text.len() > 1 { "," } else { "" };
            write!(text, "{comma}\"{name}\":{value}").expect("writing to a String does not fail");
        }
    }
    text + "}"
}

fn or_null(id: Option<EntryId>) -> String {
    id.map_or_else(|| "null".to_owned(), |id| quoted(id.as_str()))
}

fn from_hook(members: &Members) -> String {
    raw(members, "fromHook").filter(|raw| raw != "null").unwrap_or_else(|| "false".to_owned())
}

/// Whether a value is a string with something in it.
fn has_text(raw: &str) -> bool {
    raw.starts_with('"') && raw != "\"\""
}

fn whole_number(raw: &str) -> Option<u64> {
    let number = raw.parse::<f64>().ok()?;
    let is_index = number.fract() == 0.0 && (0.0..1e15).contains(&number);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    is_index.then_some(number as u64)
}

/// A message of version 1 or 2: role `hookMessage` is spelled `custom`, all else stays.
fn with_custom_role(message: &str) -> String {
    let members = Members::parse(message).unwrap_or_default();
    if members.text("role").as_deref() != Some("hookMessage") {
        return message.to_owned();
    }
    let role = members.raw("role").expect("it has one");
    // The role that counts is the last of that name: cut there, and keep what stands around it.
    let mut end = message.len();
    loop {
        let at = message[..end].rfind(role).expect("its text is in the message");
        let renamed = format!("{}\"custom\"{}", &message[..at], &message[at + role.len()..]);
        let is_role = Members::parse(&renamed)
            .is_some_and(|renamed| renamed.text("role").as_deref() == Some("custom"));
        if is_role {
            return renamed;
        }
        end = at + role.len() - 1;
    }
}
