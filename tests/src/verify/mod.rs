//! `forkline verify`: forks real sessions in every legal way, through every engine, and holds
//! each result against the model (gate.md).
//!
//! *Design*: what a source says is read by the [plain readers](crate::plain); what a fork of it
//! has to be is said by the [model](forkline_model::fork()); engines only make forks. Each fork
//! is looked at on the disk by the plain reader and through its engine's own reads.
//!
//! *Invariants*
//! 1. A source is only ever read, and is proven to be what it was: bytes, length, time, mode,
//!    and the listing of its folder.
//! 2. All work goes to one temporary folder that is gone afterwards.

mod cases;
mod corrupt;
mod discover;
mod hold;
mod legacy;
mod report;
mod salvage;
mod session;
mod unchanged;
mod workers;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use forkline_engines::{Context, Error, Location, SessionRef};
use forkline_model::{ErrorKind, LaneAudit, Metadata, Millis, State};

pub use discover::{NoSource, SourceFile, SourceKind, discover, is_jsonl, sniff};
pub use legacy::legacy_metadata;
pub use report::{Difference, Found, Outcome, Row, Summary, shell_word};
pub use unchanged::Snapshot;

use crate::lineup::{Engine, EngineKind, Lineup};
use crate::plain::{Concerns, Damage, jsonl, repair, sqlite};
use crate::plain_legacy::{Imported, Mode};
use hold::{Origin, Setting, Writes};
use salvage::Salvage;
use session::Checks;

/// The creation time of all forks of a run, Unix ms.
const NOW: u64 = 1_800_000_000_000;

/// What to verify, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// Files and folders.
    pub paths: Vec<PathBuf>,
    /// The engines that are forked into.
    pub engines: Vec<EngineKind>,
    /// Which lanes a tree fork looks at.
    pub lane_audit: LaneAudit,
    /// The only fork to check, by its label.
    pub only: Option<String>,
    /// The only session to check, by its id.
    pub session: Option<String>,
    /// Whether forks of a damaged JSONL file take what is readable.
    pub salvage: bool,
}

/// Hears of a run while it goes on.
pub trait Watch {
    /// The files are known.
    fn begins(&mut self, files: &[SourceFile]);
    /// A session is done. They come in the order of the files.
    fn row(&mut self, row: &Row);
    /// A file is done, after its sessions.
    fn done(&mut self, path: &Path);
}

/// Why a run could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// A path that holds nothing to verify.
    #[error(transparent)]
    NoSource(#[from] NoSource),
    /// Nothing to verify at all.
    #[error("no session found: give session files, SQLite containers, or folders that hold some")]
    NothingFound,
    /// `--only` or `--session` names nothing that there is.
    #[error("no fork was checked: --only or --session names nothing in these files")]
    NothingChecked,
    /// The system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was attempted.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// An engine could not be set up.
    #[error("cannot set up an engine: {}", .0.chain())]
    Engine(#[from] Error),
}

/// Verifies all sessions, a row each, in the order of their paths.
///
/// # Errors
/// A path that holds nothing to verify, or a system that refuses. What is wrong with a session or
/// an engine is no error: it stands in the rows.
pub fn run(
    options: &Options,
    lineup: &dyn Lineup,
    watch: &mut dyn Watch,
) -> Result<Summary, Failed> {
    let files = discover(&options.paths)?;
    if files.is_empty() {
        return Err(Failed::NothingFound);
    }
    watch.begins(&files);
    let mut summary = Summary::default();
    let work = |file: &SourceFile| verify_file(file, options, lineup);
    workers::in_order(&files, work, |file, rows| {
        for row in rows? {
            summary.count(&row);
            watch.row(&row);
        }
        watch.done(&file.path);
        Ok::<_, Failed>(())
    })?;
    let was_narrowed = options.only.is_some() || options.session.is_some();
    if was_narrowed && summary.forks == 0 && summary.corrupt == 0 {
        return Err(Failed::NothingChecked);
    }
    Ok(summary)
}

/// A session that is to be verified.
struct Subject<'a> {
    own: EngineKind,
    format: &'static str,
    state: State,
    writes: Option<Writes>,
    /// The id, where the file holds others too.
    named: Option<&'a str>,
    imported: Option<Imported>,
    salvage: Option<Salvage>,
}

impl Subject<'_> {
    fn new(own: EngineKind, format: &'static str, state: State) -> Self {
        Self { own, format, state, writes: None, named: None, imported: None, salvage: None }
    }
}

/// One file under verification.
struct Run<'a> {
    file: &'a SourceFile,
    options: &'a Options,
    lineup: &'a dyn Lineup,
    bytes: u64,
    scratch: &'a Path,
}

fn verify_file(
    file: &SourceFile,
    options: &Options,
    lineup: &dyn Lineup,
) -> Result<Vec<Row>, Failed> {
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source| Failed::Io { action, path, source }
    };
    let before = Snapshot::take(&file.path).map_err(failed("read", &file.path))?;
    let scratch = tempfile::Builder::new().prefix("forkline-verify-").tempdir();
    let scratch = scratch.map_err(failed("create a folder in", &std::env::temp_dir()))?;
    let bytes = fs::metadata(&file.path).map_err(failed("read", &file.path))?.len();
    let run = Run { file, options, lineup, bytes, scratch: scratch.path() };
    let mut rows = match file.kind {
        SourceKind::Legacy => {
            let content = fs::read(&file.path).map_err(failed("read", &file.path))?;
            vec![run.legacy(&content)?]
        }
        SourceKind::Jsonl => {
            let content = fs::read(&file.path).map_err(failed("read", &file.path))?;
            vec![run.jsonl(&content)?]
        }
        SourceKind::Sqlite => run.sqlite()?,
    };
    let changes = before.changes().map_err(failed("read", &file.path))?;
    if let (false, Some(row)) = (changes.is_empty(), rows.last_mut()) {
        let difference = Difference {
            what: "the source changed while it was verified, by an engine or another program"
                .to_owned(),
            lines: changes,
            command: report::command(&file.path, None),
        };
        match &mut row.outcome {
            Outcome::Differs { differences } => differences.push(difference),
            outcome => *outcome = Outcome::Differs { differences: vec![difference] },
        }
    }
    Ok(rows)
}

impl Run<'_> {
    fn row(&self, format: &'static str, session: Option<&str>, outcome: Outcome) -> Row {
        Row {
            path: self.file.path.clone(),
            session: session.map(str::to_owned),
            format,
            bytes: self.bytes,
            records: None,
            entries: 0,
            branches: 0,
            forks: 0,
            refused: 0,
            outcome,
        }
    }

    fn setting<'a>(&'a self, cx: &'a Context) -> Setting<'a> {
        let now = Millis::new(NOW).expect("a constant in range");
        Setting {
            now,
            audit: self.options.lane_audit,
            lineup: self.lineup,
            scratch: self.scratch,
            cx,
        }
    }

    fn is_wanted(&self, session: &str) -> bool {
        self.options.session.as_ref().is_none_or(|wanted| wanted == session)
    }

    fn jsonl(&self, content: &[u8]) -> Result<Row, Failed> {
        let damage = match jsonl::read(content) {
            Ok(session) => {
                let writes = Some(session.writes);
                let own = EngineKind::Jsonl;
                return self.sound(Subject { writes, ..Subject::new(own, "jsonl", session.state) });
            }
            Err(damage) => damage,
        };
        let first = content.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let header = jsonl::read_header(first).ok();
        let cx = Context::new();
        let setting = self.setting(&cx);
        let metadata = header.map(|header| header.metadata);
        let id = metadata.as_ref().map(|metadata| metadata.id.as_str().to_owned());
        let disagreements = corrupt::disagreements(&setting, &self.file.path, metadata, &damage)?;
        match repair::repair(content) {
            Ok(repaired) if self.options.salvage && disagreements.is_empty() => {
                let salvage = Some(Salvage::of_current(&repaired));
                let own = EngineKind::Jsonl;
                self.sound(Subject { salvage, ..Subject::new(own, "jsonl", repaired.state) })
            }
            _ => Ok(self.row("jsonl", id.as_deref(), self.damaged(&damage, disagreements))),
        }
    }

    fn legacy(&self, content: &[u8]) -> Result<Row, Failed> {
        let (path, format) = (&self.file.path, legacy::format(content));
        let import = |mode| legacy::import(content, path, mode);
        let (own, state_of) = (EngineKind::Jsonl, |found: &Imported| found.state.clone());
        let refusal = match import(Mode::Refuse) {
            Ok(imported) => {
                let state = state_of(&imported);
                let imported = Some(imported);
                return self.sound(Subject { imported, ..Subject::new(own, format, state) });
            }
            Err(refusal) => refusal,
        };
        let metadata = legacy_metadata(content, path).ok();
        let id = metadata.as_ref().map(|metadata| metadata.id.as_str().to_owned());
        let cx = Context::new();
        let disagreements = legacy::disagreements(&self.setting(&cx), path, metadata, &refusal)?;
        match import(Mode::Salvage) {
            Ok(imported) if self.options.salvage && disagreements.is_empty() => {
                let (state, salvage) = (state_of(&imported), Some(Salvage::of_legacy(&imported)));
                let imported = Some(imported);
                self.sound(Subject { imported, salvage, ..Subject::new(own, format, state) })
            }
            _ => {
                let (line, reason) = legacy::reason(&refusal);
                let damage = Damage {
                    kind: ErrorKind::CorruptSource,
                    line: Some(line),
                    reason,
                    concerns: Concerns::OpenAndFork,
                };
                Ok(self.row(format, id.as_deref(), self.damaged(&damage, disagreements)))
            }
        }
    }

    fn damaged(&self, damage: &Damage, disagreements: Vec<String>) -> Outcome {
        if disagreements.is_empty() {
            return Outcome::Corrupt { line: damage.line, reason: damage.reason.clone() };
        }
        Outcome::Differs {
            differences: vec![Difference {
                what: format!("the plain reader and the engine disagree on a damage: {damage}"),
                lines: disagreements,
                command: report::command(&self.file.path, None),
            }],
        }
    }

    fn sqlite(&self) -> Result<Vec<Row>, Failed> {
        let sessions = match sqlite::read(&self.file.path, self.scratch) {
            Ok(sessions) => sessions,
            Err(error) => {
                let reason = error.to_string();
                let outcome = if self.file.named {
                    Outcome::Corrupt { line: None, reason }
                } else {
                    Outcome::Skipped { reason }
                };
                return Ok(vec![self.row("sqlite", None, outcome)]);
            }
        };
        let kind = if sessions.len() == 1 { EngineKind::Sqlite } else { EngineKind::SqliteShared };
        let wanted = sessions.into_iter().filter(|session| self.is_wanted(&session.id));
        let rows = wanted.map(|session| match session.content {
            Ok(content) => {
                let named = Some(&*session.id);
                self.sound(Subject { named, ..Subject::new(kind, "sqlite", content.state) })
            }
            Err(damage) => {
                let outcome = Outcome::Corrupt { line: None, reason: damage.reason };
                Ok(self.row("sqlite", Some(&session.id), outcome))
            }
        });
        rows.collect()
    }

    /// A session that a plain reader could read.
    fn sound(&self, subject: Subject<'_>) -> Result<Row, Failed> {
        let Subject { own, format, state, writes, named, imported, salvage } = subject;
        let metadata = state.metadata().clone();
        let mut row = self.row(format, Some(metadata.id.as_str()), Outcome::Holds);
        row.records = imported.as_ref().map(|imported| imported.records as u64);
        row.entries = state.entries().len() as u64;
        row.branches = state.branches().len() as u64;
        if !self.is_wanted(metadata.id.as_str()) {
            row.outcome = Outcome::Skipped { reason: "not the session asked for".to_owned() };
            return Ok(row);
        }
        let cx = Context::new();
        let work = tempfile::tempdir_in(self.scratch).map_err(|source| Failed::Io {
            action: "create a folder in",
            path: self.scratch.to_owned(),
            source,
        })?;
        let setting = Setting { scratch: work.path(), ..self.setting(&cx) };
        let mut kinds = self.options.engines.clone();
        kinds.push(own);
        kinds.sort_unstable();
        kinds.dedup();
        let engine = |&kind: &EngineKind| setting.engine(kind, work.path());
        let engines: Vec<Engine> = kinds.iter().map(engine).collect::<Result<_, Error>>()?;
        let targets: Vec<&Engine> =
            engines.iter().filter(|engine| self.options.engines.contains(&engine.kind)).collect();
        let Some(reader) = engines.iter().find(|engine| engine.kind == own) else {
            unreachable!("the own engine was put among them");
        };
        let reference = self.reference(metadata);
        let origin = Origin { engine: reader, reference, state, writes, imported, salvage };
        let mut checks = Checks::new(setting, &targets, &self.file.path);
        checks.only = self.options.only.as_deref();
        checks.session = named;
        checks.salvages = origin.salvage.is_some();
        checks.hold_open(&origin);
        checks.run(&origin);
        for engine in &engines {
            if let Err(error) = engine.repo.close() {
                checks.source_differs("an engine does not close", vec![error.chain()]);
            }
        }
        let findings = checks.findings;
        (row.forks, row.refused) = (findings.forks, findings.refused);
        if let Some(report) = findings.report {
            row.outcome = Outcome::salvaged(&report);
        }
        if !findings.differences.is_empty() {
            row.outcome = Outcome::Differs { differences: findings.differences };
        }
        Ok(row)
    }

    fn reference(&self, metadata: Metadata) -> SessionRef {
        SessionRef { metadata, location: Location::File(self.file.path.clone()) }
    }
}
