//! The members of one object that is in memory, for rebuilding it with fewer of them.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;

/// One member of an object, in the order of the text. Spans are byte offsets into the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberSpan<'a> {
    /// The decoded name; `None` when it has an unpaired surrogate, and so is not text and equal
    /// to no name that is.
    pub name: Option<Cow<'a, str>>,
    /// From the name's opening quote to the end of the value.
    pub member: Range<usize>,
    /// The value.
    pub value: Range<usize>,
}

/// All members of an object's text, repeated ones included.
///
/// # Errors
/// When the text is no JSON object.
pub fn members(object_text: &str) -> Result<Vec<MemberSpan<'_>>, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(object_text);
    let members = deserializer.deserialize_map(Members(object_text))?;
    deserializer.end()?;
    Ok(members)
}

struct Members<'a>(&'a str);

impl Members<'_> {
    /// Where a part of the text stands in it.
    fn span(&self, part: &RawValue) -> Range<usize> {
        let start = part.get().as_ptr().addr() - self.0.as_ptr().addr();
        start..start + part.get().len()
    }
}

impl<'a> Visitor<'a> for Members<'a> {
    type Value = Vec<MemberSpan<'a>>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some((name, value)) = map.next_entry::<&RawValue, &RawValue>()? {
            let value = self.span(value);
            let member = self.span(name).start..value.end;
            // The text is JSON already: only an unpaired surrogate cannot be decoded.
            let name = serde_json::from_str::<Name<'a>>(name.get()).ok().map(|name| name.0);
            members.push(MemberSpan { name, member, value });
        }
        Ok(members)
    }
}

/// Borrows when it can; a plain `Cow` never does.
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_names_and_places() {
        let text = r#" { "a" : [1, {"b":2}] ,"\u0061":"x","\ud800":null,"":0 } "#;
        let found = members(text).expect("an object");
        let told: Vec<_> = found
            .iter()
            .map(|member| {
                let name = member.name.as_deref();
                (name, &text[member.member.clone()], &text[member.value.clone()])
            })
            .collect();
        assert_eq!(
            told,
            [
                (Some("a"), r#""a" : [1, {"b":2}]"#, r#"[1, {"b":2}]"#),
                (Some("a"), r#""\u0061":"x""#, r#""x""#),
                (None, r#""\ud800":null"#, "null"),
                (Some(""), r#""":0"#, "0"),
            ]
        );
        assert!(matches!(found.first().and_then(|a| a.name.as_ref()), Some(Cow::Borrowed("a"))));
    }

    #[test]
    fn takes_deep_and_empty_and_refuses_the_rest() {
        let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(members(&deep).map(|found| found.len()).ok(), Some(1));
        assert_eq!(members("{}").map(|found| found.len()).ok(), Some(0));
        for text in ["", "[]", "1", "{} {}", r#"{"a":1"#, r#"{"a":01}"#, r#"{"a":1,}"#] {
            assert!(members(text).is_err(), "{text}");
        }
    }
}
