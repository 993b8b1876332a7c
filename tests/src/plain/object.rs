//! One JSON object as its members in order, names and values as raw text.

use std::fmt;

use forkline_model::Json;
use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The highest integer that formats §1 allows.
const INTEGER_MAX: f64 = 9_007_199_254_740_991.0;

/// The members of an object.
pub(super) struct Object<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Object<'a> {
    pub(super) fn parse(text: &'a str) -> serde_json::Result<Self> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Vec<(&'de str, &'de str)>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut found = Vec::new();
                while let Some((name, value)) = map.next_entry::<&RawValue, &RawValue>()? {
                    found.push((name.get(), value.get()));
                }
                Ok(found)
            }
        }
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let found = deserializer.deserialize_map(Members)?;
        deserializer.end()?;
        Ok(Self(found))
    }

    /// The value of the last member of that name, as it is spelled.
    pub(super) fn raw(&self, name: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|(raw, _)| is_named(raw, name)).map(|&(_, value)| value)
    }

    /// A member that has to be text of Unicode characters.
    pub(super) fn text(&self, name: &str) -> Result<String, String> {
        let raw = self.required(name)?;
        text(raw).ok_or_else(|| format!("{name} is no text of Unicode characters"))
    }

    /// The same, where it may be absent.
    pub(super) fn optional_text(&self, name: &str) -> Result<Option<String>, String> {
        self.raw(name).map(|_| self.text(name)).transpose()
    }

    /// A member that has to be text or null.
    pub(super) fn text_or_null(&self, name: &str) -> Result<Option<String>, String> {
        match self.required(name)? {
            "null" => Ok(None),
            _ => self.text(name).map(Some),
        }
    }

    /// A member that has to be an integer from `least` to 2^53 - 1, however spelled.
    pub(super) fn integer(&self, name: &str, least: u64) -> Result<u64, String> {
        let raw = self.required(name)?;
        integer(raw)
            .filter(|&number| number >= least)
            .ok_or_else(|| format!("{name} is no integer from {least} to 2^53 - 1"))
    }

    /// A member that may be any JSON.
    pub(super) fn json(&self, name: &str) -> Result<Json, String> {
        Json::parse(self.required(name)?).map_err(|error| format!("{name}: {error}"))
    }

    fn required(&self, name: &str) -> Result<&'a str, String> {
        self.raw(name).ok_or_else(|| format!("{name} is missing"))
    }

    /// The object without some of its members, the others in their order and spelling.
    pub(super) fn without(&self, names: &[&str]) -> String {
        let kept = self.0.iter().filter(|(raw, _)| !names.iter().any(|name| is_named(raw, name)));
        let kept: Vec<String> = kept.map(|(raw, value)| format!("{raw}:{value}")).collect();
        format!("{{{}}}", kept.join(","))
    }
}

/// A JSON string as text.
pub(super) fn text(raw: &str) -> Option<String> {
    serde_json::from_str(raw).ok()
}

/// A JSON number that is an integer from 0 to 2^53 - 1, as a reader that keeps doubles sees it.
fn integer(raw: &str) -> Option<u64> {
    if !raw.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    if let Ok(number) = raw.parse::<u64>() {
        return (number < 1 << 53).then_some(number);
    }
    let number: f64 = raw.parse().ok()?;
    let whole = number.fract() == 0.0 && (0.0..=INTEGER_MAX).contains(&number);
    // The decimal form of a whole double in this range has no exponent and no fraction.
    whole.then(|| format!("{number:.0}").parse().ok()).flatten()
}

fn is_named(raw: &str, name: &str) -> bool {
    text(raw).is_some_and(|decoded| decoded == name)
}

#[cfg(test)]
mod tests {
    use super::{Object, integer};

    #[test]
    fn integers_are_what_doubles_make_of_them() {
        for (raw, expected) in [
            ("5", Some(5)),
            ("5.0", Some(5)),
            ("5e0", Some(5)),
            ("50e-1", Some(5)),
            ("9007199254740991", Some(9_007_199_254_740_991)),
            ("9007199254740992", None),
            ("9.007199254740992e15", None),
            ("1e400", None),
            ("5.5", None),
            ("-0", None),
            ("\"5\"", None),
        ] {
            assert_eq!(integer(raw), expected, "{raw}");
        }
    }

    #[test]
    fn the_last_of_repeated_members_counts_however_its_name_is_spelled() {
        let object = Object::parse(r#"{"id":"x", "\u0069d": "y" ,"b": 1}"#).expect("an object");
        assert_eq!(object.text("id").as_deref(), Ok("y"));
        assert_eq!(object.without(&["id"]), r#"{"b":1}"#);
    }
}
