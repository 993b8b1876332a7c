//! The import of legacy files, versions 1 to 3 (formats §2), written to be obviously right.
//!
//! Nothing here is shared with the engines: the whole file is in memory as raw JSON texts, every
//! path is walked anew, ids are looked up in maps. The engines, which stream, are held against
//! it. What a damaged file gives under a salvage is here too: the same walk, with the damage
//! listed instead of refused.

mod build;
pub mod generate;
mod json;
mod record;
mod report;
mod time;

use std::collections::BTreeMap;

use forkline_model::json::Json;
use forkline_model::{
    EntryId, ForkOptions, Metadata, Millis, Position, Scope, SessionId, State, Usage,
};

pub use json::Members;
use record::Records;
pub use report::{Damage, Refusal, Repair, What};

/// What becomes of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Any damage refuses the file.
    Refuse,
    /// Every whole readable record is taken.
    Salvage,
}

/// What an import needs from outside.
pub struct Outside<'a> {
    /// The id of the n-th entry (from 0), whose record has this time and legacy id.
    pub mint: &'a mut dyn FnMut(usize, Millis, Option<&str>) -> String,
    /// The session id in the header of the file at a `parentSession` path, if it can be read.
    pub parent: &'a dyn Fn(&str) -> Option<SessionId>,
}

/// What a legacy file holds.
#[derive(Debug, Clone)]
pub struct Imported {
    /// The session as it is when it was opened and not yet upgraded; its ledger is empty.
    pub state: State,
    /// The usage that its records carry, or the line of one that cannot be summed.
    pub usage: Result<Usage, u64>,
    /// The new ids of the legacy ids that became entries.
    pub ids: BTreeMap<String, EntryId>,
    /// What was damaged; empty unless salvaged.
    pub damage: Vec<Damage>,
    /// How many records were read.
    pub records: usize,
}

impl Imported {
    /// Options for a fork of [`Imported::state`]: a legacy id becomes the entry's id.
    ///
    /// An id that is no legacy id of an entry is on no branch: it is replaced by one that no
    /// entry has, since an id that this import minted is not stable and not to be accepted.
    pub fn options(&self, options: &ForkOptions) -> ForkOptions {
        let Scope::Branch { branch, entry: Some(entry), position } = &options.scope else {
            return options.clone();
        };
        let nobody = || EntryId::new("(no entry)").expect("a valid id");
        let mapped = self.ids.get(entry.as_str()).cloned().unwrap_or_else(nobody);
        let moved = ForkOptions::branch(branch.clone());
        let moved = match position {
            Position::At => moved.at(mapped),
            Position::Before => moved.before(mapped),
        };
        ForkOptions { id: options.id.clone(), ..moved }
    }
}

/// The same with ids `n0`, `n1`, ... and without a look at the file of a parent session.
///
/// # Errors
/// Those of [`import`].
pub fn import_counted(bytes: &[u8], mode: Mode) -> Result<Imported, Refusal> {
    let mut mint = |order: usize, _: Millis, _: Option<&str>| format!("n{order}");
    import(bytes, mode, &mut Outside { mint: &mut mint, parent: &|_| None })
}

/// What the first line says.
#[derive(Debug, Clone)]
struct Header {
    version: u64,
    metadata: Metadata,
    /// The initial configuration of version 1.
    members: Members,
}

/// Imports the bytes of a legacy file.
///
/// # Errors
/// What is wrong with it; in [`Mode::Salvage`] only what is wrong with the header.
pub fn import(bytes: &[u8], mode: Mode, outside: &mut Outside<'_>) -> Result<Imported, Refusal> {
    let mut lines: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
    // What stands behind the last line break is torn, or nothing.
    lines.pop();
    let Some((first, lines)) = lines.split_first() else {
        return Err(Refusal::Header("there is no whole first line".to_owned()));
    };
    let header = header(first, outside)?;
    let mut records = Records::read(header.version, lines);
    let built = build::build(&header, &mut records, outside);
    let mut damage = std::mem::take(&mut records.damage);
    damage.sort_by_key(|damage| damage.line);
    if mode == Mode::Refuse && !damage.is_empty() {
        return Err(Refusal::Damaged(damage));
    }
    let (state, ids) = built;
    let usage = build::usage(&records);
    Ok(Imported { state, usage, ids, damage, records: records.all.len() })
}

fn header(line: &[u8], outside: &Outside<'_>) -> Result<Header, Refusal> {
    let refuse = |reason: &str| Refusal::Header(reason.to_owned());
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let text = str::from_utf8(line).map_err(|_| refuse("it is no UTF-8"))?;
    let members = Members::parse(text).ok_or_else(|| refuse("it is no JSON object"))?;
    if members.text("type").as_deref() != Some("session") {
        return Err(refuse("its type is not session"));
    }
    let version = match members.raw("version") {
        None => 1,
        Some(raw) => {
            let known = [(1.0, 1), (2.0, 2), (3.0, 3)];
            let number = raw.parse::<f64>().ok();
            let found = known.into_iter().find(|(version, _)| number == Some(*version));
            found.ok_or_else(|| Refusal::Version(raw.to_owned()))?.1
        }
    };
    let id = members.text("id").and_then(|id| SessionId::new(id).ok());
    let created_at = members.text("timestamp").and_then(|text| time::parse(&text));
    let parent = match members.raw("parentSession") {
        None => None,
        Some(_) => Some(members.text("parentSession").ok_or_else(|| refuse("parentSession"))?),
    };
    let parent_session_id = parent.as_deref().and_then(outside.parent);
    let metadata = Metadata {
        id: id.ok_or_else(|| refuse("id is no id"))?,
        created_at: created_at.ok_or_else(|| refuse("timestamp is no time"))?,
        cwd: Some(members.text("cwd").ok_or_else(|| refuse("cwd is no text"))?),
        legacy_parent_session_path: parent.filter(|_| parent_session_id.is_none()),
        parent_session_id,
    };
    Ok(Header { version, metadata, members })
}

/// A JSON text that was read from the file or put together from such.
fn json(text: &str) -> Json {
    Json::parse(text).expect("it is made of JSON")
}
