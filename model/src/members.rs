//! The members of one JSON object, in order and with repetitions, as raw text.

use std::fmt;

use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A name as its JSON text (with quotes) and the value's text.
pub(crate) type Member<'a> = (String, &'a str);

/// Reads the members of an object. Values are not looked into.
///
/// # Errors
/// The text is no JSON object.
pub(crate) fn members(text: &str) -> serde_json::Result<Vec<Member<'_>>> {
    struct Members;
    impl<'de> Visitor<'de> for Members {
        type Value = Vec<Member<'de>>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a JSON object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found = Vec::new();
            while let Some((name, value)) = map.next_entry::<&RawValue, &RawValue>()? {
                found.push((name.get().to_owned(), value.get()));
            }
            Ok(found)
        }
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let found = deserializer.deserialize_map(Members)?;
    deserializer.end()?;
    Ok(found)
}

/// The last member called `name`, which is the one that counts (formats §1).
pub(crate) fn last<'a>(members: &[Member<'a>], name: &str) -> Option<&'a str> {
    members.iter().rev().find(|(raw, _)| is_named(raw, name)).map(|&(_, value)| value)
}

/// Whether a member name, given as JSON text, decodes to `name`.
pub(crate) fn is_named(raw: &str, name: &str) -> bool {
    match raw.get(1..raw.len().saturating_sub(1)) {
        Some(plain) if !plain.contains('\\') => plain == name,
        _ => serde_json::from_str::<String>(raw).is_ok_and(|decoded| decoded == name),
    }
}
