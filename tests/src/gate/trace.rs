//! Trace files: sequences to run again.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;

use forkline_model::Trace;

use super::contest::{Engines, Named, Place, Roster, cwd_of, play};
use super::coverage::Tally;
use super::generate::REPOS;
use super::judge::Violation;
use crate::lineup::EngineKind;

/// Why a trace cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// It cannot be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was attempted.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is no trace.
    #[error("{} is no trace: {source}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// It asks for an engine that is not known here.
    #[error("{}: {reason}", path.display())]
    Engine {
        /// The file.
        path: PathBuf,
        /// Which.
        reason: String,
    },
}

/// Reads a trace.
///
/// # Errors
/// It cannot be read, or is none.
pub fn load(path: &Path) -> Result<Trace, TraceError> {
    let io = |source| TraceError::Io { action: "read", path: path.to_owned(), source };
    let text = fs::read_to_string(path).map_err(io)?;
    let format = |source| TraceError::Format { path: path.to_owned(), source };
    serde_json::from_str(&text).map_err(format)
}

/// Writes a trace so that a person can read it: an operation a line.
///
/// # Errors
/// It cannot be written.
pub fn save(trace: &Trace, path: &Path) -> Result<(), TraceError> {
    let io = |source| TraceError::Io { action: "write", path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(io)?;
    }
    fs::write(path, to_text(trace)).map_err(io)
}

/// The text of a trace file.
pub fn to_text(trace: &Trace) -> String {
    let json = |value: serde_json::Result<String>| value.expect("traces always have a JSON form");
    let mut text = format!("{{\n  \"about\": {},\n", json(serde_json::to_string(&trace.about)));
    if let Some(seed) = trace.seed {
        writeln!(text, "  \"seed\": {seed},").expect("writing to a String does not fail");
    }
    let engines = json(serde_json::to_string(&trace.engines));
    let audit = json(serde_json::to_string(&trace.lane_audit));
    let ops: Vec<String> =
        trace.ops.iter().map(|op| format!("    {}", json(serde_json::to_string(op)))).collect();
    let ops = ops.join(",\n");
    writeln!(
        text,
        "  \"engines\": {engines},\n  \"lane_audit\": {audit},\n  \"ops\": [\n{ops}\n  ]\n}}"
    )
    .expect("writing to a String does not fail");
    text
}

/// Runs a trace on the engines that it names, else on all, alone and crosswise.
///
/// # Errors
/// It names an engine that is not known.
pub fn replay(
    trace: &Trace,
    path: &Path,
    folder: &Path,
) -> Result<Result<Tally, Violation>, TraceError> {
    let run = |roster: &dyn Roster, shift| replay_on(trace, roster, shift, folder);
    if trace.engines.is_empty() {
        let engines = Engines(EngineKind::ALL.to_vec());
        let shifts: Result<Vec<Tally>, Violation> =
            (0..engines.0.len()).map(|shift| run(&engines, shift)).collect();
        return Ok(shifts.map(|tallies| {
            let mut sum = Tally::default();
            for tally in &tallies {
                sum.add(tally);
            }
            sum
        }));
    }
    let kinds: Result<Vec<EngineKind>, _> = trace.engines.iter().map(|name| name.parse()).collect();
    let mut kinds = kinds.map_err(|reason| TraceError::Engine { path: path.to_owned(), reason })?;
    while let (Some(last), true) = (kinds.last().copied(), kinds.len() < REPOS) {
        kinds.push(last);
    }
    Ok(run(&Named(kinds), 0))
}

/// Runs a trace on engines of the caller's, whatever it names.
///
/// # Errors
/// The first difference.
pub fn replay_on(
    trace: &Trace,
    roster: &dyn Roster,
    shift: usize,
    folder: &Path,
) -> Result<Tally, Violation> {
    let (cwd, folder) = (cwd_of(&trace.ops), folder.join(shift.to_string()));
    let place = Place {
        folder: &folder,
        audit: trace.lane_audit,
        cwd: &cwd,
        turn: 0,
        shift,
        algebra: true,
    };
    play(&trace.ops, roster, &place, &AtomicUsize::new(0))
}
