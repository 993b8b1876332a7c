//! One JSON object as names and raw texts.

use std::fmt;

use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of an object in their order, repeated ones included; values as raw text. A name
/// that is no text (it has a lone surrogate) is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Members(pub Vec<(Option<String>, String)>);

impl Members {
    /// Reads exactly one object, white space around it allowed.
    pub fn parse(text: &str) -> Option<Self> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let found = deserializer.deserialize_map(Collect).ok()?;
        deserializer.end().ok()?;
        Some(found)
    }

    /// The value that counts: the last one of that name.
    pub fn raw(&self, name: &str) -> Option<&str> {
        let mut of_name = self.0.iter().rev().filter(|(other, _)| other.as_deref() == Some(name));
        of_name.next().map(|(_, value)| value.as_str())
    }

    /// The value as decoded text, if it is a string that is text.
    pub fn text(&self, name: &str) -> Option<String> {
        text_of(self.raw(name)?)
    }

    /// Whether the member is absent or null.
    pub fn is_null(&self, name: &str) -> bool {
        self.raw(name).is_none_or(|raw| raw == "null")
    }
}

/// The decoded text of a JSON string without lone surrogates.
pub(super) fn text_of(raw: &str) -> Option<String> {
    if raw.starts_with('"') { serde_json::from_str(raw).ok() } else { None }
}

/// Two or more whole objects without a line break between them; `None` if it is anything else.
pub(super) fn split_glued(line: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut stream = serde_json::Deserializer::from_str(line).into_iter::<Box<RawValue>>();
    for part in &mut stream {
        let part = part.ok()?.get().to_owned();
        if !part.starts_with('{') {
            return None;
        }
        parts.push(part);
    }
    (parts.len() > 1).then_some(parts)
}

struct Collect;

impl<'de> Visitor<'de> for Collect {
    type Value = Members;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
        let mut members = Members::default();
        while let Some((name, value)) = map.next_entry::<&RawValue, &RawValue>()? {
            members.0.push((text_of(name.get()), value.get().to_owned()));
        }
        Ok(members)
    }
}
