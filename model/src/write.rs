//! Writes: what a commit is made of, and their JSONL form (contract §1, formats §1).

use std::fmt::Write as _;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::address::{Address, EntryId, Millis, Seq, StoreKind, TypeName};
use crate::entry::{ENVELOPE_MEMBERS, Entry, EntryType, NewEntry};
use crate::error::{Error, Result};
use crate::json::{Json, quoted};
use crate::members::{self, Member, is_named, last};
use crate::usage::NewUsage;

/// One write of a commit. Each gets a seq of its own, deletes included.
///
/// Serializes as the JSONL object of formats §1 without `seq` and `timestamp`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Insert an entry.
    Entry(NewEntry),
    /// Insert a row of the usage ledger.
    Usage(NewUsage),
    /// Set the value at an address.
    SetValue {
        /// Where.
        address: Address,
        /// What.
        value: Json,
    },
    /// Delete the value at an address; legal where there is none.
    DeleteValue {
        /// Where.
        address: Address,
    },
    /// Append an element to the list at an address.
    AppendElement {
        /// Where.
        address: Address,
        /// What.
        value: Json,
    },
    /// Delete the whole list at an address; legal where there is none.
    DeleteList {
        /// Where.
        address: Address,
    },
}

impl Write {
    /// Sets the value at `(namespace, key)`.
    pub fn set(namespace: impl AsRef<str>, key: impl AsRef<str>, value: Json) -> Result<Self> {
        Ok(Self::SetValue { address: Address::new(namespace, key)?, value })
    }

    /// Deletes the value at `(namespace, key)`.
    pub fn delete(namespace: impl AsRef<str>, key: impl AsRef<str>) -> Result<Self> {
        Ok(Self::DeleteValue { address: Address::new(namespace, key)? })
    }

    /// Appends to the list at `(namespace, key)`.
    pub fn append(namespace: impl AsRef<str>, key: impl AsRef<str>, value: Json) -> Result<Self> {
        Ok(Self::AppendElement { address: Address::new(namespace, key)?, value })
    }

    /// Deletes the list at `(namespace, key)`.
    pub fn delete_list(namespace: impl AsRef<str>, key: impl AsRef<str>) -> Result<Self> {
        Ok(Self::DeleteList { address: Address::new(namespace, key)? })
    }

    /// Reads the JSONL object of one write. `seq` and `timestamp` are passed over; of repeated
    /// members the last counts.
    ///
    /// # Errors
    /// The error of the type that could not be built, or *invalid payload* naming the member.
    pub fn from_jsonl(object: &str) -> Result<Self> {
        let found = members::members(object).map_err(|error| Error::InvalidPayload {
            what: "write",
            reason: format!("no JSON object: {error}"),
        })?;
        Reader { found }.write()
    }

    /// The JSONL object of this write (formats §1), members in the order existing writers use.
    pub fn to_jsonl(&self, seq: Seq, timestamp: Millis) -> String {
        let (head, tail) = self.jsonl_parts();
        let mut text = head;
        if let Self::Entry(_) | Self::Usage(_) = self {
            text.push_str(&tail);
            text.push_str(",\"seq\":");
            push_display(&mut text, seq);
        } else {
            text.push_str(",\"seq\":");
            push_display(&mut text, seq);
            text.push_str(&tail);
        }
        if let Self::Entry(_) = self {
            text.push_str(",\"timestamp\":");
            push_display(&mut text, timestamp);
        }
        text.push('}');
        text
    }

    /// What stands before and after the place of `seq` of a store write, without the last brace.
    fn jsonl_parts(&self) -> (String, String) {
        let store = |kind: StoreKind, op: &str, address: &Address, value: Option<&Json>| {
            let head = format!("{{\"kind\":\"{}\",\"op\":\"{op}\"", kind.as_str());
            let mut tail = format!(
                ",\"namespace\":{},\"key\":{}",
                quoted(address.namespace.as_str()),
                quoted(address.key.as_str())
            );
            if let Some(value) = value {
                tail.push_str(",\"value\":");
                tail.push_str(value.as_str());
            }
            (head, tail)
        };
        match self {
            Self::Entry(entry) => (entry_head(entry), String::new()),
            Self::Usage(usage) => (usage_head(usage), String::new()),
            Self::SetValue { address, value } => {
                store(StoreKind::Value, "set", address, Some(value))
            }
            Self::DeleteValue { address } => store(StoreKind::Value, "delete", address, None),
            Self::AppendElement { address, value } => {
                store(StoreKind::List, "append", address, Some(value))
            }
            Self::DeleteList { address } => store(StoreKind::List, "delete", address, None),
        }
    }

    /// The JSONL object without `seq` and `timestamp`.
    fn to_unstamped(&self) -> String {
        let (head, tail) = self.jsonl_parts();
        format!("{head}{tail}}}")
    }
}

impl Entry {
    /// The JSONL object of this entry (formats §1).
    pub fn to_jsonl(&self) -> String {
        let entry = NewEntry {
            id: self.id.clone(),
            parent: self.parent.clone(),
            entry_type: self.entry_type.clone(),
            custom_type: self.custom_type.clone(),
            payload: self.payload.clone(),
        };
        Write::Entry(entry).to_jsonl(self.seq, self.timestamp)
    }
}

fn push_display(text: &mut String, value: impl std::fmt::Display) {
    write!(text, "{value}").expect("writing to a String does not fail");
}

fn quoted_or_null(id: Option<&EntryId>) -> String {
    id.map_or_else(|| "null".to_owned(), |id| quoted(id.as_str()))
}

fn entry_head(entry: &NewEntry) -> String {
    let mut text = format!(
        "{{\"kind\":\"entry\",\"id\":{},\"parentId\":{},\"type\":{}",
        quoted(entry.id.as_str()),
        quoted_or_null(entry.parent.as_ref()),
        quoted(entry.entry_type.as_str()),
    );
    if let Some(custom_type) = &entry.custom_type {
        text.push_str(",\"customType\":");
        text.push_str(&quoted(custom_type.as_str()));
    }
    let payload = entry.payload.as_str();
    let inner = payload.get(1..payload.len().saturating_sub(1)).unwrap_or_default();
    if !inner.trim_matches([' ', '\t', '\n', '\r']).is_empty() {
        text.push(',');
        // A line holds one commit: white space between members may not break it.
        text.push_str(&inner.replace(['\n', '\r'], " "));
    }
    text
}

fn usage_head(usage: &NewUsage) -> String {
    let mut text = format!(
        "{{\"kind\":\"usage\",\"id\":{},\"usage\":{}",
        quoted(usage.id.as_str()),
        one_line(&usage.usage)
    );
    if let Some(entry) = &usage.entry {
        text.push_str(",\"entryId\":");
        text.push_str(&quoted(entry.as_str()));
    }
    text.push_str(if usage.adjustment { ",\"adjustment\":true" } else { ",\"adjustment\":false" });
    if let Some(details) = &usage.details {
        text.push_str(",\"details\":");
        text.push_str(&one_line(details));
    }
    text
}

/// JSON without line breaks: they can only be white space between tokens.
fn one_line(json: &Json) -> String {
    json.as_str().replace(['\n', '\r'], " ")
}

impl Serialize for Write {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(self.to_unstamped())
            .map_err(serde::ser::Error::custom)?
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Write {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::from_jsonl(raw.get()).map_err(D::Error::custom)
    }
}

/// Reads one write object, member by member.
struct Reader<'a> {
    found: Vec<Member<'a>>,
}

impl Reader<'_> {
    fn invalid(reason: impl Into<String>) -> Error {
        Error::InvalidPayload { what: "write", reason: reason.into() }
    }

    fn json(&self, name: &str) -> Result<Option<Json>> {
        let Some(text) = last(&self.found, name) else { return Ok(None) };
        Json::parse(text).map(Some).map_err(|error| Self::invalid(format!("{name}: {error}")))
    }

    fn required(&self, name: &str) -> Result<Json> {
        self.json(name)?.ok_or_else(|| Self::invalid(format!("{name} is missing")))
    }

    fn text(&self, name: &str) -> Result<String> {
        self.required(name)?
            .to_text()
            .ok_or_else(|| Self::invalid(format!("{name} is no text of Unicode characters")))
    }

    fn optional_id(&self, name: &str) -> Result<Option<EntryId>> {
        match self.json(name)? {
            Some(json) if !json.is_null() => self.text(name).and_then(EntryId::new).map(Some),
            _ => Ok(None),
        }
    }

    fn write(&self) -> Result<Write> {
        let kind = self.text("kind")?;
        match kind.as_str() {
            "entry" => self.entry().map(Write::Entry),
            "usage" => self.usage().map(Write::Usage),
            "value" | "list" => self.store(&kind),
            other => Err(Self::invalid(format!("unknown kind {other:?}"))),
        }
    }

    fn store(&self, kind: &str) -> Result<Write> {
        let address = Address::new(self.text("namespace")?, self.text("key")?)?;
        match (kind, self.text("op")?.as_str()) {
            ("value", "set") => Ok(Write::SetValue { address, value: self.required("value")? }),
            ("value", "delete") => Ok(Write::DeleteValue { address }),
            ("list", "append") => {
                Ok(Write::AppendElement { address, value: self.required("value")? })
            }
            ("list", "delete") => Ok(Write::DeleteList { address }),
            (_, other) => Err(Self::invalid(format!("unknown op {other:?} of a {kind}"))),
        }
    }

    fn entry(&self) -> Result<NewEntry> {
        if self.json("parentId")?.is_none() {
            return Err(Self::invalid("parentId is missing"));
        }
        let entry_type = EntryType::new(&self.text("type")?)?;
        let is_custom = entry_type == EntryType::Custom;
        let custom_type = if is_custom && self.json("customType")?.is_some() {
            Some(TypeName::new(self.text("customType")?)?)
        } else {
            None
        };
        let payload = self.payload(is_custom)?;
        NewEntry::new(
            EntryId::new(self.text("id")?)?,
            self.optional_id("parentId")?,
            entry_type,
            custom_type,
            payload,
        )
    }

    /// The object without its envelope: all other members, in their order and spelling.
    fn payload(&self, is_custom: bool) -> Result<Json> {
        let mut text = String::from("{");
        for (name, value) in &self.found {
            let in_envelope = ENVELOPE_MEMBERS.iter().any(|envelope| is_named(name, envelope))
                || (is_custom && is_named(name, "customType"));
            if !in_envelope {
                let comma = if text.len() > 1 { "," } else { "" };
                write!(text, "{comma}{name}:{value}").expect("writing to a String does not fail");
            }
        }
        text.push('}');
        Json::parse(&text).map_err(|error| Self::invalid(error.to_string()))
    }

    fn usage(&self) -> Result<NewUsage> {
        let adjustment = match self.required("adjustment")?.as_str() {
            "true" => true,
            "false" => false,
            _ => return Err(Self::invalid("adjustment is neither true nor false")),
        };
        NewUsage::new(
            EntryId::new(self.text("id")?)?,
            self.optional_id("entryId")?,
            adjustment,
            self.required("usage")?,
            self.json("details")?,
        )
    }
}
