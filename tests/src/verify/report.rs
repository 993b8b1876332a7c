//! What a run finds: a row per session, a summary, and differences that name their command.

use std::path::{Path, PathBuf};

use forkline_engines::jsonl::{Finding, SalvageReport};
use serde::Serialize;

/// One session, or one file that holds none that can be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The file or container.
    pub path: PathBuf,
    /// The session's id, where it can be read.
    pub session: Option<String>,
    /// `jsonl`, `sqlite`, `legacy v1`, `legacy v2` or `legacy v3`.
    pub format: &'static str,
    /// The size of the file, in bytes.
    pub bytes: u64,
    /// Records that were imported, of a legacy file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<u64>,
    /// Entries in the session.
    pub entries: u64,
    /// Branches in the session, lanes included.
    pub branches: u64,
    /// Forks that were made or refused, and held against the model.
    pub forks: u64,
    /// Those among them that model and engine refused alike.
    pub refused: u64,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What came of one session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Outcome {
    /// All is as the model says, and the source is unchanged.
    Holds,
    /// The file is damaged, and engine and plain reader refuse it alike.
    Corrupt {
        /// The line, where there are lines.
        line: Option<u64>,
        /// What is wrong there.
        reason: String,
    },
    /// The file is damaged, and what is readable of it was forked; all is as the model says.
    Salvaged {
        /// Records (of format 4: writes) that were taken.
        taken: u64,
        /// Records (of format 4: writes) that are left out; a line that is no JSON counts as one.
        skipped: u64,
        /// What was found, and what was done about it.
        findings: Vec<Found>,
        /// Findings that are not listed.
        more: u64,
    },
    /// Something is not as the model says.
    Differs {
        /// What.
        differences: Vec<Difference>,
    },
    /// Nothing was checked.
    Skipped {
        /// Why.
        reason: String,
    },
}

impl Outcome {
    /// What an engine's report says, where it is as it has to be.
    pub(super) fn salvaged(report: &SalvageReport) -> Self {
        Self::Salvaged {
            taken: report.taken,
            skipped: report.skipped,
            findings: Found::all(report),
            more: report.more,
        }
    }
}

/// One finding of a salvage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Found {
    /// The line, from 1.
    pub line: u64,
    /// `skipped`, `split`, `reattached` or `unlinked`.
    pub repair: &'static str,
    /// What is wrong there.
    pub what: String,
}

impl Found {
    /// The findings of an engine's report.
    pub fn all(report: &SalvageReport) -> Vec<Self> {
        let found = |finding: &Finding| Self {
            line: finding.line,
            repair: finding.repair.as_str(),
            what: finding.what.clone(),
        };
        report.findings.iter().map(found).collect()
    }
}

/// One thing that is not as the model says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Which fork, from which engine into which, and what is wrong with it.
    pub what: String,
    /// The model's side and the other, a line each.
    pub lines: Vec<String>,
    /// The one command that shows it again.
    pub command: String,
}

/// Totals of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Summary {
    /// Sessions that were verified.
    pub sessions: u64,
    /// Forks that were made or refused, and held against the model.
    pub forks: u64,
    /// Those among them that model and engine refused alike.
    pub refused: u64,
    /// Things that are not as the model says.
    pub differences: u64,
    /// Damaged files or sessions.
    pub corrupt: u64,
    /// Files that were not checked.
    pub skipped: u64,
}

impl Summary {
    /// Counts one row.
    pub fn count(&mut self, row: &Row) {
        self.forks += row.forks;
        self.refused += row.refused;
        match &row.outcome {
            Outcome::Holds | Outcome::Salvaged { .. } => self.sessions += 1,
            Outcome::Corrupt { .. } => self.corrupt += 1,
            Outcome::Skipped { .. } => self.skipped += 1,
            Outcome::Differs { differences } => {
                self.sessions += 1;
                self.differences += differences.len() as u64;
            }
        }
    }

    /// Whether nothing is wrong.
    pub fn holds(&self) -> bool {
        self.differences == 0 && self.corrupt == 0
    }
}

/// A word for a POSIX shell.
pub fn shell_word(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=@,+".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The start of a command that verifies one session again.
pub(super) fn command(path: &Path, session: Option<&str>) -> String {
    let mut command = format!("forkline verify {}", shell_word(&path.display().to_string()));
    if let Some(session) = session {
        command.push_str(" --session ");
        command.push_str(&shell_word(session));
    }
    command
}
