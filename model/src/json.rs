//! Opaque JSON text: checked once, stored and returned byte for byte (contract §1).
//!
//! A payload is never parsed into a value tree: a tree loses numbers beyond 2^53, the order and
//! repetition of members, and the spelling of escapes. What is checked is only that the text is
//! JSON; the check is iterative, so nesting costs no stack.

use std::fmt;
use std::sync::Arc;

use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// One JSON value as the text it came in, without white space around it.
///
/// `==` ignores insignificant white space and nothing else: `{"a":1}` equals `{ "a" : 1 }`, but
/// `1.0` differs from `1` and `"\u0061"` from `"a"`.
#[derive(Clone)]
pub struct Json(Arc<str>);

/// The text is not one JSON value.
#[derive(Debug, Clone, thiserror::Error)]
#[error("not JSON: {0}")]
pub struct NotJson(String);

impl Json {
    /// Takes one JSON value; white space around it is dropped, all else kept.
    pub fn parse(text: &str) -> Result<Self, NotJson> {
        serde_json::from_str::<IgnoredAny>(text).map_err(|error| NotJson(error.to_string()))?;
        Ok(Self(Arc::from(text.trim_matches([' ', '\t', '\n', '\r']))))
    }

    /// The JSON string that holds `text`.
    pub fn string(text: &str) -> Self {
        Self(Arc::from(quoted(text)))
    }

    /// The JSON value `null`.
    pub fn null() -> Self {
        Self(Arc::from("null"))
    }

    /// The text, byte for byte.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The decoded text, when this is a JSON string of Unicode text (no lone surrogate).
    pub fn to_text(&self) -> Option<String> {
        if self.0.starts_with('"') { serde_json::from_str(&self.0).ok() } else { None }
    }

    /// Whether this is `null`.
    pub fn is_null(&self) -> bool {
        &*self.0 == "null"
    }

    /// For a member that may be left out: one that is there is some, `null` too.
    pub(crate) fn deserialize_present<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Self>, D::Error> {
        Self::deserialize(deserializer).map(Some)
    }

    /// The looser comparison for engines that parse and write again: numbers as doubles, strings
    /// decoded, members of one name merged into the last, member order ignored.
    ///
    /// Never used between Forkline's own engines.
    pub fn equals_as_doubles(&self, other: &Self) -> bool {
        crate::loose::equal(self.as_str(), other.as_str())
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || significant(&self.0).eq(significant(&other.0))
    }
}

impl Eq for Json {}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::parse(raw.get()).map_err(D::Error::custom)
    }
}

/// `text` as a JSON string: only what must be escaped is.
pub fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("text always has a JSON form")
}

/// The bytes that carry meaning: all but white space outside strings.
fn significant(text: &str) -> impl Iterator<Item = u8> + '_ {
    let (mut inside, mut escaped) = (false, false);
    text.bytes().filter(move |&byte| {
        if !inside {
            inside = byte == b'"';
            return !matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        }
        if escaped {
            escaped = false;
        } else if byte == b'\\' {
            escaped = true;
        } else if byte == b'"' {
            inside = false;
        }
        true
    })
}

#[cfg(test)]
mod tests {
    use super::Json;

    fn json(text: &str) -> Json {
        Json::parse(text).expect("test text is JSON")
    }

    #[test]
    fn equality_ignores_white_space_and_nothing_else() {
        assert_eq!(json(r#"{"a" : [1, 2]}"#), json(r#"{"a":[1,2]}"#));
        for (left, right) in [
            ("1.0", "1"),
            (r#""\u0061""#, r#""a""#),
            (r#""a b""#, r#""ab""#),
            (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#),
            (r#"{"a":1,"a":1}"#, r#"{"a":1}"#),
        ] {
            assert_ne!(json(left), json(right), "{left} {right}");
        }
    }

    #[test]
    fn text_survives_byte_for_byte() {
        for text in ["12345678901234567890123", "-0", "1.10", r#""\ud800""#, r#"{"b":1,"b":2}"#] {
            assert_eq!(json(text).as_str(), text);
            let back: Json =
                serde_json::from_str(&serde_json::to_string(&json(text)).unwrap()).unwrap();
            assert_eq!(back.as_str(), text);
        }
    }

    #[test]
    fn nesting_costs_no_stack() {
        let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        assert_eq!(json(&deep), json(&deep));
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in ["", " ", "{", "01", "nul", "\"\u{1}\"", "1 2", "\"\\x\"", "[1,]"] {
            assert!(Json::parse(text).is_err(), "{text}");
        }
    }
}
