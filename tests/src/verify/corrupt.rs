//! A file that the plain reader refuses: the engine has to refuse it too, at the same line.

use std::path::Path;

use forkline_engines::{Error, Location, Result, SessionRef, transfer};
use forkline_model::{ForkOptions, Metadata, Millis, SessionId};

use super::hold::Setting;
use super::session::open_copy;
use crate::lineup::EngineKind;
use crate::plain::{Concerns, Damage};

/// Where engine and plain reader disagree, a line each.
///
/// # Errors
/// An engine that cannot be set up.
pub(super) fn disagreements(
    setting: &Setting<'_>,
    path: &Path,
    metadata: Option<Metadata>,
    damage: &Damage,
) -> Result<Vec<String>> {
    let metadata = metadata.unwrap_or_else(without_header);
    let mut found = Vec::new();
    let opened = open_copy(setting, path, &metadata, EngineKind::Jsonl).map(|_| ());
    check(&mut found, "open", opened, &[damage.line], Need::Refusal);

    let jsonl = setting.engine(EngineKind::Jsonl, setting.scratch)?;
    let memory = setting.engine(EngineKind::Memory, setting.scratch)?;
    let reference = SessionRef { metadata, location: Location::File(path.to_owned()) };
    let forked = transfer::fork_unopened(
        &*jsonl.repo,
        &reference,
        &*memory.repo,
        &ForkOptions::tree(),
        setting.cx,
    );
    let (lines, need) = match damage.concerns {
        Concerns::OpenAndFork => (vec![damage.line], Need::Refusal),
        Concerns::OpenAndSomeForks { fork_line: None } => (vec![damage.line], Need::Nothing),
        Concerns::OpenAndSomeForks { fork_line } => (vec![damage.line, fork_line], Need::Refusal),
    };
    check(&mut found, "a tree fork", forked.map(|_| ()), &lines, need);
    Ok(found)
}

/// What an engine would have to make up that accepts a file without a header.
pub(super) fn without_header() -> Metadata {
    Metadata {
        id: SessionId::new("without-header").expect("a valid id"),
        created_at: Millis::EPOCH,
        cwd: Some("/".to_owned()),
        parent_session_id: None,
        legacy_parent_session_path: None,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Refusal,
    Nothing,
}

fn check(
    found: &mut Vec<String>,
    what: &str,
    outcome: Result<()>,
    lines: &[Option<u64>],
    need: Need,
) {
    match outcome {
        Ok(()) if need == Need::Refusal => found.push(format!("engine: {what} accepts the file")),
        Ok(()) => {}
        Err(error) if is_refusal_at(&error, lines) => {}
        Err(error) => found.push(format!("engine: {what}: {}", error.chain())),
    }
}

/// Whether an error refuses damaged input at one of these lines.
fn is_refusal_at(error: &Error, lines: &[Option<u64>]) -> bool {
    match error {
        Error::CorruptSource { place, .. } | Error::UnsupportedVersion { place, .. } => {
            lines.contains(&place.line)
        }
        _ => false,
    }
}
