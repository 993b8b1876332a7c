//! Sessions of versions 1 to 3 (formats §2): what the plain import says, and that the engine
//! opens a file as that says, or refuses it alike.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use forkline_engines::jsonl::session_at;
use forkline_engines::{Error, Location, Result, SessionRef, transfer};
use forkline_model::diff::{Compare, diff};
use forkline_model::{ForkOptions, Metadata, Millis, SessionId};

use super::corrupt::without_header;
use super::hold::Setting;
use super::session::open_copy;
use crate::lineup::EngineKind;
use crate::plain::jsonl;
use crate::plain_legacy::{self, Damage, Imported, Members, Mode, Outside, Refusal, What};

/// How many damaged lines a refusal names.
const REFUSAL_LINES_MAX: usize = 20;

/// What the plain import says, with the ids that a fresh engine mints.
pub(super) fn import(bytes: &[u8], path: &Path, mode: Mode) -> Result<Imported, Refusal> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut mint = |order: usize, _: Millis, _: Option<&str>| format!("id-{order}");
    let parent = |parent: &str| session_of(&folder.join(parent));
    plain_legacy::import(bytes, mode, &mut Outside { mint: &mut mint, parent: &parent })
}

/// The metadata that a legacy header gives.
///
/// # Errors
/// What is wrong with the header.
pub fn legacy_metadata(bytes: &[u8], path: &Path) -> Result<Metadata, Refusal> {
    let end = bytes.iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |end| end + 1);
    let header = bytes.get(..end).unwrap_or_default();
    import(header, path, Mode::Refuse).map(|imported| imported.state.metadata().clone())
}

/// The id in the header of a parent's file.
fn session_of(path: &Path) -> Option<SessionId> {
    let bytes = fs::read(path).ok()?;
    let end = bytes.iter().position(|&byte| byte == b'\n')?;
    let current = jsonl::read_header(bytes.get(..end)?).map(|header| header.metadata.id);
    let legacy = || {
        let mut mint = |_: usize, _: Millis, _: Option<&str>| String::new();
        let mut outside = Outside { mint: &mut mint, parent: &|_| None };
        let header = plain_legacy::import(bytes.get(..=end)?, Mode::Refuse, &mut outside).ok()?;
        Some(header.state.metadata().id.clone())
    };
    current.ok().or_else(legacy)
}

/// What the header says that the file is.
pub(super) fn format(bytes: &[u8]) -> &'static str {
    let line = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let members = str::from_utf8(line).ok().and_then(Members::parse).unwrap_or_default();
    match members.raw("version").map(str::parse::<f64>) {
        None | Some(Ok(1.0)) => "legacy v1",
        Some(Ok(2.0)) => "legacy v2",
        Some(Ok(3.0)) => "legacy v3",
        Some(_) => "legacy",
    }
}

/// The line and what is wrong, all of it, for people.
pub(super) fn reason(refusal: &Refusal) -> (u64, String) {
    match refusal {
        Refusal::Header(reason) => (1, reason.clone()),
        Refusal::Version(found) => (1, format!("version {found} is not 1, 2 or 3")),
        Refusal::Damaged(damage) => {
            let mut text = String::new();
            for (index, damage) in damage.iter().take(REFUSAL_LINES_MAX).enumerate() {
                let Damage { line, what, .. } = damage;
                match index {
                    0 => write!(text, "{what}"),
                    _ => write!(text, "; line {line}: {what}"),
                }
                .expect("writing to a String does not fail");
            }
            if damage.len() > REFUSAL_LINES_MAX {
                write!(text, "; and {} more", damage.len() - REFUSAL_LINES_MAX)
                    .expect("writing to a String does not fail");
            }
            (damage.first().map_or(1, |damage| damage.line), text)
        }
    }
}

/// How an engine begins to say what is wrong with a line.
pub(super) fn words(what: &What) -> String {
    match what {
        // Where exactly it is none, each reader says in its own words.
        What::NotAnObject => "no JSON object: ",
        What::UnsupportedType(_) => "unsupported legacy record type ",
        What::BadId => "id is missing or no text",
        What::BadTimestamp => "timestamp is missing or no time",
        What::BadCustomType => "customType is no text",
        What::RepeatedId => "repeated id",
        What::MissingParent => "parent is no earlier record",
        What::UnknownReference => "names a record that is not there",
        What::TailNotOnPath => "the first kept record is not on the compaction's path",
    }
    .to_owned()
}

/// Where engine and plain import disagree on a file that the import refuses, a line each.
///
/// # Errors
/// An engine that cannot be set up.
pub(super) fn disagreements(
    setting: &Setting<'_>,
    path: &Path,
    metadata: Option<Metadata>,
    refusal: &Refusal,
) -> Result<Vec<String>> {
    let metadata = metadata.unwrap_or_else(without_header);
    let reference = SessionRef { metadata, location: Location::File(path.to_owned()) };
    let mut found = Vec::new();
    let jsonl = setting.engine(EngineKind::Jsonl, setting.scratch)?;
    let memory = setting.engine(EngineKind::Memory, setting.scratch)?;
    let forked = transfer::fork_unopened(
        &*jsonl.repo,
        &reference,
        &*memory.repo,
        &ForkOptions::tree(),
        setting.cx,
    );
    let opened = open_copy(setting, path, &reference.metadata, EngineKind::Jsonl);
    for (what, outcome) in [("open", opened.map(|_| ())), ("a tree fork", forked.map(|_| ()))] {
        match outcome {
            Ok(()) => found.push(format!("engine: {what} accepts the file")),
            Err(error) if is_alike(&error, refusal) => {}
            Err(error) => found.push(format!("engine: {what}: {}", error.chain())),
        }
    }
    Ok(found)
}

/// Whether an engine refuses what the import refuses: all its lines, and why.
fn is_alike(error: &Error, refusal: &Refusal) -> bool {
    match (refusal, error) {
        (Refusal::Header(_), Error::CorruptSource { place, .. })
        | (Refusal::Version(_), Error::UnsupportedVersion { place, .. }) => place.line == Some(1),
        (Refusal::Damaged(damage), Error::CorruptSource { place, reason }) => {
            let mut by_line: BTreeMap<_, Vec<String>> = BTreeMap::new();
            for damage in damage {
                by_line.entry((damage.line, damage.repair)).or_default().push(words(&damage.what));
            }
            let mut rest = Some(reason.as_str());
            for (index, ((line, _), words)) in by_line.iter().take(REFUSAL_LINES_MAX).enumerate() {
                let Some(mut said) = rest else { return false };
                if index > 0 {
                    let next = said.split_once(&format!("; line {line}: "));
                    let Some((_, next)) = next else { return false };
                    said = next;
                }
                rest = words.iter().find_map(|words| said.strip_prefix(words.as_str()));
            }
            let first = by_line.keys().next().map(|(line, _)| *line);
            let is_more = by_line.len() > REFUSAL_LINES_MAX;
            place.line == first
                && rest.is_some_and(|rest| {
                    !rest.contains("; line ") && rest.contains("; and ") == is_more
                })
        }
        _ => false,
    }
}

/// Opens a private copy: state and statistics have to be what the import says, usage that cannot
/// be summed refuses it. The header is read in its place, where a relative path of a parent
/// leads. A line for each thing that is not so.
///
/// # Errors
/// I/O, and a sound file that the engine refuses.
pub(super) fn hold_open(
    setting: &Setting<'_>,
    path: &Path,
    metadata: &Metadata,
) -> Result<Vec<String>> {
    let bytes = fs::read(path).map_err(|error| Error::io("read", path, error))?;
    let expected = import(&bytes, path, Mode::Refuse).expect("it was imported before");
    let opened = match (open_copy(setting, path, metadata, EngineKind::Jsonl), &expected.usage) {
        (Err(Error::CorruptSource { place, .. }), Err(line)) if place.line == Some(*line) => {
            return Ok(Vec::new());
        }
        (Ok(_), Err(line)) => {
            return Ok(vec![format!("engine: accepts usage in line {line} that has no sum")]);
        }
        (opened, _) => opened?,
    };
    let Some(opened) = opened else { return Ok(Vec::new()) };
    let mut lines = Vec::new();
    let in_place = session_at(path)?.metadata;
    if in_place != *expected.state.metadata() {
        lines.push(format!("plain: {:?}, engine: {in_place:?}", expected.state.metadata()));
    }
    let mut metadata = opened.state.metadata().clone();
    metadata.parent_session_id = in_place.parent_session_id;
    metadata.legacy_parent_session_path = in_place.legacy_parent_session_path;
    let state = opened.state.with_metadata(metadata);
    lines.extend(diff(&expected.state, &state, &Compare::default()).lines);
    let messages = expected.state.stats().message_count;
    let stats = (expected.usage.as_ref().ok(), messages);
    if stats != (Some(&opened.stats.usage), opened.stats.message_count) {
        lines.push(format!("plain: {stats:?}, engine: {:?}", opened.stats));
    }
    Ok(lines)
}
