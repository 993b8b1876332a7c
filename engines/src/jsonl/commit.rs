//! The line of one commit, and the payload in an entry's object (formats §1).

use forkline_model::entry::ENVELOPE_MEMBERS;
use forkline_model::{EntryType, Json, Millis, Seq, Write};

use super::storage::Span;
use crate::error::Result;
use crate::scan::members;

/// A commit as it is appended to the file.
pub(super) struct CommitLine {
    bytes: Vec<u8>,
    /// Of each write, where its object (entry, usage) or its value stands in the line.
    spans: Vec<Span>,
}

impl CommitLine {
    /// The line of some writes, the first of which gets the seq `first`.
    pub(super) fn new(writes: &[Write], first: u64, now: Millis) -> Result<Self> {
        let mut bytes = Vec::new();
        let mut spans = Vec::with_capacity(writes.len());
        let is_array = writes.len() > 1;
        if is_array {
            bytes.push(b'[');
        }
        for ((index, write), seq) in writes.iter().enumerate().zip(first..) {
            if index > 0 {
                bytes.push(b',');
            }
            let start = bytes.len() as u64;
            bytes.extend(one_line(write.to_jsonl(Seq::new(seq)?, now)).into_bytes());
            spans.push(located(write, start, bytes.len() as u64));
        }
        if is_array {
            bytes.push(b']');
        }
        bytes.push(b'\n');
        Ok(Self { bytes, spans })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn spans(&self) -> &[Span] {
        &self.spans
    }
}

/// An object without line breaks. In JSON they can only be white space between tokens, so a
/// space says the same.
pub(super) fn one_line(object: String) -> String {
    if memchr::memchr2(b'\n', b'\r', object.as_bytes()).is_none() {
        return object;
    }
    object.replace(['\n', '\r'], " ")
}

/// What of an object is read again later: a value is its last member, before the last brace.
fn located(write: &Write, start: u64, end: u64) -> Span {
    match write {
        Write::SetValue { value, .. } | Write::AppendElement { value, .. } => {
            let len = value.as_str().len() as u64;
            Span { offset: end - 1 - len, len }
        }
        _ => Span { offset: start, len: end - start },
    }
}

/// The payload of an entry: its object without the envelope, all other members in their order
/// and spelling.
pub(super) fn payload(object: &str, entry_type: &EntryType) -> Result<Json, String> {
    let is_custom = *entry_type == EntryType::Custom;
    let mut text = String::with_capacity(object.len());
    text.push('{');
    for member in members(object).map_err(|error| error.to_string())? {
        let is_envelope = member.name.as_deref().is_some_and(|name| {
            ENVELOPE_MEMBERS.contains(&name) || (is_custom && name == "customType")
        });
        if is_envelope {
            continue;
        }
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(object.get(member.member).unwrap_or_default());
    }
    text.push('}');
    Json::parse(&text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_at(line: &CommitLine, index: usize) -> &str {
        let span = line.spans()[index];
        let start = usize::try_from(span.offset).unwrap();
        let end = start + usize::try_from(span.len).unwrap();
        str::from_utf8(&line.bytes()[start..end]).unwrap()
    }

    #[test]
    fn spans_find_the_values_and_a_line_stays_one() {
        let json = |text: &str| Json::parse(text).unwrap();
        let writes = [
            Write::set("n", "k\"", json("{\"a\":\n[1]}")).unwrap(),
            Write::append("n", "l", json("\"\u{e9}\"")).unwrap(),
            Write::delete("n", "k").unwrap(),
        ];
        let line = CommitLine::new(&writes, 7, Millis::EPOCH).unwrap();
        assert_eq!(memchr::memchr_iter(b'\n', line.bytes()).count(), 1);
        assert_eq!(text_at(&line, 0), "{\"a\": [1]}");
        assert_eq!(text_at(&line, 1), "\"\u{e9}\"");
        assert_eq!(
            text_at(&line, 2),
            r#"{"kind":"value","op":"delete","seq":9,"namespace":"n","key":"k"}"#
        );
    }

    #[test]
    fn a_payload_is_all_but_the_envelope_in_its_own_spelling() {
        let object = r#"{"kind":"entry","id":"a","x" : 1.0,"parentId":null,"type":"custom",
            "customType":"t","d\u0061ta":[ 1 ],"seq":1,"timestamp":2,"\ud800":0}"#;
        let custom = payload(object, &EntryType::Custom).unwrap();
        assert_eq!(custom.as_str(), r#"{"x" : 1.0,"d\u0061ta":[ 1 ],"\ud800":0}"#);
        let other = payload(object, &EntryType::new("odd").unwrap()).unwrap();
        assert!(other.as_str().contains("customType"));
    }
}
