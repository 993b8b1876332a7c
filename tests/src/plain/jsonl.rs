//! A format-4 JSONL file as a state, with the verdicts of formats §1.

use std::collections::{BTreeMap, BTreeSet};

use forkline_model::{
    Address, Entry, EntryId, EntryType, ErrorKind, Json, Metadata, Millis, Seq, SessionId, State,
    StateBuilder, TypeName, Usage, UsageRow,
};
use serde_json::value::RawValue;

use super::object::Object;
use super::{Concerns, Damage};

/// The members of an entry that are not payload.
const ENVELOPE: [&str; 6] = ["kind", "id", "parentId", "type", "seq", "timestamp"];

/// What a sound file says.
#[derive(Debug, Clone)]
pub struct Session {
    /// The logical state.
    pub state: State,
    /// The object of every write in the file, deletes and superseded ones too, byte for byte.
    pub writes: BTreeMap<Seq, String>,
    /// Whether every line behind the header is one object, as in a fork's destination.
    pub one_write_a_line: bool,
    /// Whether the file ends in a part without a line end, which does not count.
    pub torn: bool,
}

/// What a header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Id, creation time, working directory, parent.
    pub metadata: Metadata,
    /// The next seq that it promises.
    pub next_seq: Option<u64>,
}

/// Reads a whole file.
///
/// # Errors
/// The first damage, with its line.
pub fn read(bytes: &[u8]) -> Result<Session, Damage> {
    let mut lines: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
    let torn = lines.pop().is_some_and(|tail| !tail.is_empty());
    let mut lines = lines.into_iter().zip(1_u64..);
    let Some((first, _)) = lines.next() else {
        return Err(fatal(ErrorKind::CorruptSource, 1, "there is no header"));
    };
    let header = read_header(first)?;
    let mut reader = Reader::new(header.metadata.clone());
    for (line, number) in lines {
        if let Err(reason) = reader.line(line, number) {
            return Err(reader.damage(number, &reason));
        }
    }
    reader.finish(&header, torn)
}

/// The longest header (formats §1, "What is chosen here").
const HEADER_BYTES_MAX: usize = 1024 * 1024;

/// Reads the line of a header, without its line end.
///
/// # Errors
/// *Corrupt source* or *unsupported version* at line 1.
pub fn read_header(line: &[u8]) -> Result<Header, Damage> {
    let corrupt = |reason: String| fatal(ErrorKind::CorruptSource, 1, &reason);
    if line.len() > HEADER_BYTES_MAX {
        return Err(corrupt(format!("no header: longer than {HEADER_BYTES_MAX} bytes")));
    }
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let text = str::from_utf8(line).map_err(|_| corrupt("invalid UTF-8".to_owned()))?;
    let object =
        Object::parse(text).map_err(|error| corrupt(format!("unreadable header: {error}")))?;
    let version = object.integer("v", 0).map_err(corrupt)?;
    if version != 4 {
        let reason = format!("format version {version} is not 4");
        return Err(fatal(ErrorKind::UnsupportedVersion, 1, &reason));
    }
    if object.text("kind").map_err(corrupt)? != "header" {
        return Err(corrupt("the first line is no header".to_owned()));
    }
    let storage = object.integer("storageVersion", 0).map_err(corrupt)?;
    if storage != 1 {
        let reason = format!("storage version {storage} is not 1");
        return Err(fatal(ErrorKind::UnsupportedVersion, 1, &reason));
    }
    let header = || -> Result<Header, String> {
        let next_seq = object.raw("nextSeq").map(|_| object.integer("nextSeq", 1)).transpose()?;
        let parent = object.optional_text("parentSessionId")?;
        let metadata = Metadata {
            id: SessionId::new(object.text("id")?).map_err(|error| error.to_string())?,
            created_at: millis(object.integer("createdAt", 0)?),
            cwd: Some(object.text("cwd")?),
            parent_session_id: parent.map(SessionId::new).transpose().map_err(|e| e.to_string())?,
            legacy_parent_session_path: object.optional_text("legacyParentSessionPath")?,
        };
        Ok(Header { metadata, next_seq })
    };
    header().map_err(corrupt)
}

/// What a first line looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstLine {
    /// A header of format 4, or one that means to be.
    Header,
    /// A header of versions 1 to 3 (formats §2).
    LegacyHeader,
    /// Neither.
    Other,
}

/// Tells session files from others by their first line, without judging it.
pub fn first_line(line: &[u8]) -> FirstLine {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let Ok(text) = str::from_utf8(line) else { return FirstLine::Other };
    let Ok(object) = Object::parse(text) else { return FirstLine::Other };
    let says = |member, expected: &str| object.text(member).is_ok_and(|text| text == expected);
    if says("type", "session") {
        FirstLine::LegacyHeader
    } else if says("kind", "header") || (object.raw("v").is_some() && object.raw("id").is_some()) {
        FirstLine::Header
    } else {
        FirstLine::Other
    }
}

fn millis(ms: u64) -> Millis {
    Millis::new(ms).expect("the range was checked")
}

fn fatal(kind: ErrorKind, line: u64, reason: &str) -> Damage {
    Damage { kind, line: Some(line), reason: reason.to_owned(), concerns: Concerns::OpenAndFork }
}

/// The state so far.
struct Reader {
    metadata: Metadata,
    last_seq: u64,
    ids: BTreeSet<EntryId>,
    entry_ids: BTreeSet<EntryId>,
    entries: Vec<Entry>,
    values: BTreeMap<Address, (Seq, Json)>,
    lists: BTreeMap<Address, BTreeMap<Seq, Json>>,
    ledger: Vec<UsageRow>,
    writes: BTreeMap<Seq, String>,
    one_write_a_line: bool,
    /// The first damage that a fork may pass over.
    lesser: Option<(u64, String)>,
}

impl Reader {
    fn new(metadata: Metadata) -> Self {
        Self {
            metadata,
            last_seq: 0,
            ids: BTreeSet::new(),
            entry_ids: BTreeSet::new(),
            entries: Vec::new(),
            values: BTreeMap::new(),
            lists: BTreeMap::new(),
            ledger: Vec::new(),
            writes: BTreeMap::new(),
            one_write_a_line: true,
            lesser: None,
        }
    }

    fn line(&mut self, line: &[u8], number: u64) -> Result<(), String> {
        let text = str::from_utf8(line).map_err(|_| "invalid UTF-8".to_owned())?;
        let whole: &RawValue =
            serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
        let whole = whole.get();
        if whole.starts_with('{') {
            return self.write(whole, number);
        }
        if !whole.starts_with('[') {
            return Err("neither an object nor an array".to_owned());
        }
        self.one_write_a_line = false;
        let objects: Vec<&RawValue> =
            serde_json::from_str(whole).map_err(|error| format!("not JSON: {error}"))?;
        objects.into_iter().try_for_each(|object| self.write(object.get(), number))
    }

    fn write(&mut self, text: &str, line: u64) -> Result<(), String> {
        if !text.starts_with('{') {
            return Err("a write that is no object".to_owned());
        }
        let object = Object::parse(text).map_err(|error| format!("not JSON: {error}"))?;
        let kind = object.text("kind")?;
        let seq = object.integer("seq", 1)?;
        if seq <= self.last_seq {
            return Err(format!("seq {seq} does not rise above {}", self.last_seq));
        }
        self.last_seq = seq;
        let seq = Seq::new(seq).expect("the range was checked");
        self.writes.insert(seq, text.to_owned());
        match kind.as_str() {
            "entry" => self.entry(&object, seq, line),
            "usage" => self.usage(&object, seq, line),
            "value" | "list" => self.store(&object, &kind, seq),
            other => Err(format!("unknown kind {other:?}")),
        }
    }

    fn store(&mut self, object: &Object<'_>, kind: &str, seq: Seq) -> Result<(), String> {
        let address = Address::new(object.text("namespace")?, object.text("key")?)
            .map_err(|error| error.to_string())?;
        match (kind, object.text("op")?.as_str()) {
            ("value", "set") => {
                self.values.insert(address, (seq, object.json("value")?));
            }
            ("list", "append") => {
                self.lists.entry(address).or_default().insert(seq, object.json("value")?);
            }
            ("value", "delete") => {
                self.values.remove(&address);
            }
            ("list", "delete") => {
                self.lists.remove(&address);
            }
            (_, other) => return Err(format!("unknown op {other:?} of a {kind}")),
        }
        Ok(())
    }

    fn entry(&mut self, object: &Object<'_>, seq: Seq, line: u64) -> Result<(), String> {
        let named = |error: forkline_model::Error| error.to_string();
        let id = EntryId::new(object.text("id")?).map_err(named)?;
        let parent = object.text_or_null("parentId")?.map(EntryId::new).transpose();
        let parent = parent.map_err(named)?;
        let entry_type = EntryType::new(&object.text("type")?).map_err(named)?;
        let timestamp = millis(object.integer("timestamp", 0)?);
        let mut outside = ENVELOPE.to_vec();
        let mut custom_type = None;
        if entry_type == EntryType::Custom {
            outside.push("customType");
            let name = object.optional_text("customType")?;
            custom_type = name.map(TypeName::new).transpose().map_err(named)?;
        }
        let payload = Json::parse(&object.without(&outside)).map_err(|error| error.to_string())?;
        if let Some(missing) = parent.as_ref().filter(|&parent| !self.entry_ids.contains(parent)) {
            self.lesser(line, format!("entry {id} has a missing parent {missing}"));
        }
        self.take_id(&id, line);
        self.entry_ids.insert(id.clone());
        self.entries.push(Entry { id, parent, entry_type, custom_type, payload, seq, timestamp });
        Ok(())
    }

    fn usage(&mut self, object: &Object<'_>, seq: Seq, line: u64) -> Result<(), String> {
        let id = EntryId::new(object.text("id")?).map_err(|error| error.to_string())?;
        self.take_id(&id, line);
        let row = || -> Result<UsageRow, String> {
            let entry = match object.raw("entryId") {
                None | Some("null") => None,
                Some(_) => Some(EntryId::new(object.text("entryId")?).map_err(|e| e.to_string())?),
            };
            let usage = object.json("usage")?;
            Usage::parse(&usage).map_err(|error| error.to_string())?;
            let adjustment = match object.raw("adjustment") {
                Some("true") => true,
                Some("false") => false,
                _ => return Err("adjustment is neither true nor false".to_owned()),
            };
            let details = object.raw("details").map(|_| object.json("details")).transpose()?;
            Ok(UsageRow { id: id.clone(), entry, adjustment, usage, details, seq })
        };
        // No fork copies the ledger, so what stands in a row concerns only who opens the file.
        match row() {
            Ok(row) => self.ledger.push(row),
            Err(reason) => self.lesser(line, reason),
        }
        Ok(())
    }

    fn take_id(&mut self, id: &EntryId, line: u64) {
        if !self.ids.insert(id.clone()) {
            self.lesser(line, format!("id {id} is used twice"));
        }
    }

    fn lesser(&mut self, line: u64, reason: String) {
        self.lesser.get_or_insert((line, reason));
    }

    /// The damage to report for one that concerns every fork.
    fn damage(self, line: u64, reason: &str) -> Damage {
        match self.lesser {
            Some((first, reason)) => Damage {
                concerns: Concerns::OpenAndSomeForks { fork_line: Some(line) },
                ..fatal(ErrorKind::CorruptSource, first, &reason)
            },
            None => fatal(ErrorKind::CorruptSource, line, reason),
        }
    }

    fn finish(self, header: &Header, torn: bool) -> Result<Session, Damage> {
        if let Some((line, reason)) = self.lesser {
            return Err(Damage {
                concerns: Concerns::OpenAndSomeForks { fork_line: None },
                ..fatal(ErrorKind::CorruptSource, line, &reason)
            });
        }
        let next_seq = header.next_seq.unwrap_or(1).max(self.last_seq + 1);
        let mut builder = StateBuilder::new(self.metadata, next_seq);
        for entry in self.entries {
            builder.entry(entry);
        }
        for (address, (seq, value)) in self.values {
            builder.value(address, seq, value);
        }
        for (address, elements) in self.lists {
            for (seq, value) in elements {
                builder.element(address.clone(), seq, value);
            }
        }
        for row in self.ledger {
            builder.usage(row);
        }
        let state = builder.finish().expect("every row was checked when it was read");
        Ok(Session { state, writes: self.writes, one_write_a_line: self.one_write_a_line, torn })
    }
}
