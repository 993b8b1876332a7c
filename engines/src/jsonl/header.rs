//! The first line of a session file (formats §1).

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use forkline_model::json::quoted;
use forkline_model::metadata::STORAGE_VERSION;
use forkline_model::{Metadata, Millis, SessionId};
use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::legacy::LegacyHeader;
use crate::error::{Error, Place, Result};
use crate::fs::{FileHandle, read_full};
use crate::scan::as_integer;

/// The longest first line that is read: listing must be cheap whatever files lie around.
const LINE_BYTES_MAX: usize = 1024 * 1024;

/// What is read of a first line at once; real headers are a fifth of it.
const PIECE_BYTES: usize = 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What the first line of a file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FirstLine {
    /// A header of format 4.
    Current(Header),
    /// The header of a legacy file, versions 1 to 3 (formats §2).
    Legacy(LegacyHeader),
}

/// A header of format 4.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) metadata: Metadata,
    pub(super) storage_version: u64,
    pub(super) next_seq: Option<u64>,
    /// Where the second line starts, in bytes.
    pub(super) end: u64,
}

impl Header {
    /// Refuses storage versions that this version does not read.
    ///
    /// # Errors
    /// *Unsupported version*.
    pub(super) fn require_supported(&self, path: &Path) -> Result<()> {
        if self.storage_version == STORAGE_VERSION {
            return Ok(());
        }
        let found = format!("storage version {}", self.storage_version);
        Err(Error::UnsupportedVersion { place: Place::line(path, 1), found })
    }

    /// Refuses a file that holds another session than the caller named.
    ///
    /// # Errors
    /// *Identity mismatch*.
    pub(super) fn require_identity(&self, named: &Metadata, path: &Path) -> Result<()> {
        if self.metadata.id == named.id && self.metadata.cwd == named.cwd {
            return Ok(());
        }
        let cwd = self.metadata.cwd.as_deref().unwrap_or_default();
        Err(Error::IdentityMismatch {
            place: Place::line(path, 1),
            expected: named.id.clone(),
            found: format!("{} of {cwd}", self.metadata.id.as_str()),
        })
    }
}

/// Reads the first line of a file.
///
/// # Errors
/// *Corrupt source* when there is no whole first line, or it is no header; *unsupported version*
/// of a legacy header; I/O.
pub(super) fn read(file: &dyn FileHandle, path: &Path) -> Result<FirstLine> {
    let corrupt = |reason: String| Error::corrupt(Place::line(path, 1), reason);
    let too_long = || corrupt(format!("no header: longer than {LINE_BYTES_MAX} bytes"));
    let mut line = Vec::new();
    let end = loop {
        let start = line.len();
        if start > LINE_BYTES_MAX {
            return Err(too_long());
        }
        line.resize(start + PIECE_BYTES.max(start), 0);
        let piece = line.get_mut(start..).unwrap_or_default();
        let count = read_full(file, piece, start as u64)
            .map_err(|error| Error::io("read the header of", path, error))?;
        let piece = piece.get(..count).unwrap_or_default();
        if let Some(index) = memchr::memchr(b'\n', piece) {
            break start + index;
        }
        if count < line.len() - start {
            return Err(corrupt("missing header: there is no whole first line".to_owned()));
        }
    };
    if end > LINE_BYTES_MAX {
        return Err(too_long());
    }
    let text = line.get(..end).unwrap_or_default();
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let text = str::from_utf8(text).map_err(|_| corrupt("no header: invalid UTF-8".to_owned()))?;
    let found = parse(text).map_err(|reason| corrupt(format!("no header: {reason}")))?;
    Ok(match found {
        None => FirstLine::Legacy(LegacyHeader::parse(text, end as u64 + 1, path)?),
        Some(header) => FirstLine::Current(Header { end: end as u64 + 1, ..header }),
    })
}

/// The header line of a session, with its line break. Members in the order of existing writers.
pub(super) fn render(metadata: &Metadata, cwd: &str, next_seq: Option<u64>) -> String {
    let mut line = format!(
        "{{\"v\":4,\"kind\":\"header\",\"id\":{},\"storageVersion\":{STORAGE_VERSION},\
         \"createdAt\":{},\"cwd\":{}",
        quoted(metadata.id.as_str()),
        metadata.created_at,
        quoted(cwd)
    );
    let mut push = |name: &str, json: Option<String>| {
        if let Some(json) = json {
            line.extend([",\"", name, "\":", &json]);
        }
    };
    push("parentSessionId", metadata.parent_session_id.as_ref().map(|id| quoted(id.as_str())));
    let legacy_path = metadata.legacy_parent_session_path.as_deref();
    push("legacyParentSessionPath", legacy_path.map(quoted));
    push("nextSeq", next_seq.map(|seq| seq.to_string()));
    line.push_str("}\n");
    line
}

/// None for the header of a legacy file.
fn parse(text: &str) -> Result<Option<Header>, String> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let found = deserializer
        .deserialize_map(Members)
        .and_then(|found| deserializer.end().map(|()| found))
        .map_err(|error| error.to_string())?;
    if found.text("type")?.as_deref() == Some("session") && found.get("kind").is_none() {
        return Ok(None);
    }
    let version = found.required_integer("v")?;
    if version != 4 {
        return Err(format!("format version {version} is not 4"));
    }
    if found.text("kind")?.as_deref() != Some("header") {
        return Err("kind is not \"header\"".to_owned());
    }
    let invalid = |error: forkline_model::Error| error.to_string();
    let session = |name| found.text(name)?.map(SessionId::new).transpose().map_err(invalid);
    let missing = |name: &str| format!("{name} is missing");
    let next_seq = found.integer("nextSeq")?;
    if next_seq == Some(0) {
        return Err("nextSeq is 0".to_owned());
    }
    Ok(Some(Header {
        metadata: Metadata {
            id: session("id")?.ok_or_else(|| missing("id"))?,
            created_at: Millis::new(found.required_integer("createdAt")?).map_err(invalid)?,
            cwd: Some(found.text("cwd")?.ok_or_else(|| missing("cwd"))?),
            parent_session_id: session("parentSessionId")?,
            legacy_parent_session_path: found.text("legacyParentSessionPath")?,
        },
        storage_version: found.required_integer("storageVersion")?,
        next_seq,
        end: 0,
    }))
}

const NAMES: [&str; 10] = [
    "v",
    "kind",
    "type",
    "id",
    "storageVersion",
    "createdAt",
    "cwd",
    "parentSessionId",
    "legacyParentSessionPath",
    "nextSeq",
];

/// The last value of each of [`NAMES`]. Others are passed over and not kept, so that a header
/// of a million members costs no memory.
struct Found<'a>([Option<&'a str>; NAMES.len()]);

impl Found<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        NAMES.iter().zip(self.0).find(|(known, _)| **known == name).and_then(|(_, value)| value)
    }

    /// The text of a member; none if it is absent, an error if it is anything else.
    fn text(&self, name: &str) -> Result<Option<String>, String> {
        let Some(json) = self.get(name) else { return Ok(None) };
        let text = serde_json::from_str(json);
        text.map(Some).map_err(|_| format!("{name} is no text of Unicode characters"))
    }

    fn integer(&self, name: &str) -> Result<Option<u64>, String> {
        let Some(json) = self.get(name) else { return Ok(None) };
        let integer = as_integer(json).map(Some);
        integer.ok_or_else(|| format!("{name} is no integer from 0 to 2^53 - 1"))
    }

    fn required_integer(&self, name: &str) -> Result<u64, String> {
        self.integer(name)?.ok_or_else(|| format!("{name} is missing"))
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Found<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Found<'de>, A::Error> {
        let mut found = Found([None; NAMES.len()]);
        while let Some((name, value)) = map.next_entry::<&RawValue, &RawValue>()? {
            // A name that does not decode has a lone surrogate and is none of ours.
            let Ok(name) = serde_json::from_str::<Cow<'_, str>>(name.get()) else { continue };
            let slot = NAMES.iter().position(|known| *known == name);
            if let Some(slot) = slot.and_then(|index| found.0.get_mut(index)) {
                *slot = Some(value.get());
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_what_it_writes() {
        let metadata = Metadata {
            id: SessionId::new("a\"b").unwrap(),
            created_at: Millis::new(17).unwrap(),
            cwd: Some("/w\\x".to_owned()),
            parent_session_id: Some(SessionId::new("p").unwrap()),
            legacy_parent_session_path: Some("/old".to_owned()),
        };
        let line = render(&metadata, "/w\\x", Some(9));
        assert_eq!(
            line,
            "{\"v\":4,\"kind\":\"header\",\"id\":\"a\\\"b\",\"storageVersion\":1,\"createdAt\":17,\
             \"cwd\":\"/w\\\\x\",\"parentSessionId\":\"p\",\"legacyParentSessionPath\":\"/old\",\
             \"nextSeq\":9}\n"
        );
        let header = parse(&line).unwrap().unwrap();
        assert_eq!((header.metadata, header.next_seq), (metadata, Some(9)));
    }

    #[test]
    fn the_last_of_repeated_members_counts_and_names_are_decoded() {
        let text = r#"{"v":3,"v":4.0,"k\u0069nd":"header","id":1,"id":"x","storageVersion":1,
            "createdAt":1e3,"cwd":"/","\ud800":0}"#;
        let header = parse(text).unwrap().unwrap();
        assert_eq!(header.metadata.id.as_str(), "x");
        assert_eq!(header.metadata.created_at.get(), 1000);
    }

    #[test]
    fn legacy_headers_are_told_apart() {
        assert_eq!(parse(r#"{"type":"session","version":3,"id":"x"}"#), Ok(None));
        assert!(parse(r#"{"type":"message"}"#).is_err());
    }
}
