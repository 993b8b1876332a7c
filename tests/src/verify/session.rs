//! One sound session: every case from its own engine into each, then again from each engine
//! into each, so that all pairs are forked between.

use std::fs;
use std::path::Path;

use forkline_engines::jsonl::SalvageReport;
use forkline_engines::{Error, Location, Result, SessionRef};
use forkline_model::diff::{Compare, diff};
use forkline_model::{Birth, ForkOptions, Metadata, State, Stats};

use super::cases::{Case, cases, few, legacy_cases};
use super::hold::{Held, Origin, Setting};
use super::legacy;
use super::report::{Difference, command, shell_word};
use crate::lineup::{Engine, EngineKind, state_of};
use crate::plain::{layout, sqlite};

/// What a session's checks found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) forks: u64,
    pub(super) refused: u64,
    /// What the first salvage told.
    pub(super) report: Option<SalvageReport>,
    pub(super) differences: Vec<Difference>,
}

/// The checks of one session.
pub(super) struct Checks<'a> {
    pub(super) setting: Setting<'a>,
    /// Into which forks go.
    pub(super) targets: &'a [&'a Engine],
    /// The only case to check, by its label.
    pub(super) only: Option<&'a str>,
    /// For the commands that reproduce.
    pub(super) path: &'a Path,
    pub(super) session: Option<&'a str>,
    /// Whether forks are salvages.
    pub(super) salvages: bool,
    pub(super) findings: Findings,
    serial: u64,
}

impl<'a> Checks<'a> {
    pub(super) fn new(setting: Setting<'a>, targets: &'a [&'a Engine], path: &'a Path) -> Self {
        let findings = Findings::default();
        Self {
            setting,
            targets,
            only: None,
            path,
            session: None,
            salvages: false,
            findings,
            serial: 0,
        }
    }

    /// All checks of one session.
    pub(super) fn run(&mut self, origin: &Origin<'_>) {
        let all = match &origin.imported {
            Some(imported) => legacy_cases(imported),
            None => cases(&origin.state),
        };
        let is_wanted = |case: &&Case| self.only.is_none_or(|only| case.label == only);
        let wanted: Vec<Case> = all.iter().filter(is_wanted).cloned().collect();
        for case in &wanted {
            for into in self.targets {
                let held = self.hold(origin, case, into);
                self.discard(held, into);
            }
            self.hold_algebra(origin, case);
        }
        let few = few(&all);
        let few = few.into_iter().filter(|case| wanted.contains(case));
        // A fork has no ids of a legacy file any more.
        let translated = |case: Case| Case { options: origin.in_state(&case.options), ..case };
        let wanted: Vec<Case> = few.map(translated).collect();
        if wanted.is_empty() {
            return;
        }
        for from in self.targets {
            self.hold_from_fork(origin, from, &wanted);
        }
    }

    /// The same forks from a tree fork that stands in `from`.
    fn hold_from_fork(&mut self, origin: &Origin<'_>, from: &Engine, cases: &[Case]) {
        let Some(tree) = cases_tree(cases) else { return };
        let id = self.next_id();
        let held = self.setting.hold(origin, &tree, from, &id);
        let (Some(made), Some(expected)) = (held.made.clone(), held.expected.clone()) else {
            return;
        };
        let moved = Origin {
            engine: from,
            reference: made,
            state: expected,
            writes: held.writes.clone(),
            imported: None,
            salvage: None,
        };
        for case in cases {
            for into in self.targets {
                let again = self.hold(&moved, case, into);
                self.discard(again, into);
            }
        }
        self.discard(held, from);
    }

    fn next_id(&mut self) -> String {
        self.serial += 1;
        format!("fork-{}", self.serial)
    }

    fn hold(&mut self, origin: &Origin<'_>, case: &Case, into: &Engine) -> Held {
        let id = self.next_id();
        let mut held = self.setting.hold(origin, case, into, &id);
        self.findings.forks += 1;
        self.findings.refused += u64::from(held.refused);
        if self.findings.report.is_none() {
            self.findings.report = held.report.take();
        }
        for (what, lines) in held.differences.drain(..) {
            let from = origin.engine.kind;
            let what = format!("{}, {from} into {}: {what}", case.label, into.kind);
            let engines =
                if from == into.kind { from.to_string() } else { format!("{from},{}", into.kind) };
            self.differs(what, lines, Some((&case.label, &engines)));
        }
        held
    }

    /// Deletes a fork again: no trace of it may stay.
    fn discard(&mut self, held: Held, into: &Engine) {
        let Some(made) = held.made else { return };
        if let Err(error) = into.repo.delete(&made, self.setting.cx) {
            let what = format!("a fork in {} cannot be deleted", into.kind);
            self.differs(what, vec![error.chain()], None);
        }
        if made.path().is_some_and(|path| into.kind != EngineKind::SqliteShared && path.exists()) {
            let what = format!("a deleted fork in {} is still there", into.kind);
            self.differs(what, vec![made.to_string()], None);
        }
    }

    fn differs(&mut self, what: String, lines: Vec<String>, which: Option<(&str, &str)>) {
        let mut command = command(self.path, self.session);
        if self.salvages {
            command.push_str(" --salvage");
        }
        if let Some((label, engines)) = which {
            command.push_str(" --only ");
            command.push_str(&shell_word(label));
            command.push_str(" --engines ");
            command.push_str(engines);
        }
        self.findings.differences.push(Difference { what, lines, command });
    }

    /// A fork of the tree fork equals the fork of the source (gate.md, algebra): what the model
    /// says of the one has to be what it says of the other.
    fn hold_algebra(&mut self, origin: &Origin<'_>, case: &Case) {
        let fork = |state: &State, options: &ForkOptions| {
            let birth = Birth {
                id: origin.reference.metadata.id.clone(),
                created_at: self.setting.now,
                cwd: None,
            };
            forkline_model::fork(state, options, self.setting.audit, birth)
        };
        let options = origin.in_state(&case.options);
        let Ok(tree) = fork(&origin.state, &ForkOptions::tree()) else { return };
        let lines = match (fork(&origin.state, &options), fork(&tree, &options)) {
            (Ok(direct), Ok(twice)) => diff(&direct, &twice, &Compare::default()).lines,
            (Err(direct), Err(twice)) if direct == twice => Vec::new(),
            (direct, twice) => vec![
                format!("directly: {:?}", direct.err()),
                format!("by way of the tree fork: {:?}", twice.err()),
            ],
        };
        if !lines.is_empty() {
            let what = format!("{}: a fork by way of the tree fork is another one", case.label);
            self.differs(what, lines, None);
        }
    }

    /// Opens a private copy with the engine: it has to see what the plain reader sees.
    pub(super) fn hold_open(&mut self, origin: &Origin<'_>) {
        if origin.salvage.is_some() {
            // It was refused already.
            return;
        }
        if origin.imported.is_some() {
            match legacy::hold_open(&self.setting, self.path, &origin.reference.metadata) {
                Ok(lines) if lines.is_empty() => {}
                Ok(lines) => {
                    let what = "an opened copy is not what the plain import sees".to_owned();
                    self.differs(what, lines, None);
                }
                Err(error) => {
                    self.differs("a copy does not open".to_owned(), vec![error.chain()], None);
                }
            }
            return;
        }
        let opened =
            open_copy(&self.setting, self.path, &origin.reference.metadata, origin.engine.kind);
        match opened {
            Ok(None) => {}
            Ok(Some(found)) => {
                let found = diff(&origin.state, &found.state, &Compare::default());
                if !found.is_empty() {
                    let lines = found.to_string().lines().map(str::to_owned).collect();
                    let what = "an opened copy is not what the plain reader sees".to_owned();
                    self.differs(what, lines, None);
                }
            }
            Err(error) => {
                self.differs("a copy does not open".to_owned(), vec![error.chain()], None);
            }
        }
    }

    /// Adds what is wrong with the source itself.
    pub(super) fn source_differs(&mut self, what: &str, lines: Vec<String>) {
        self.differs(what.to_owned(), lines, None);
    }
}

fn cases_tree(cases: &[Case]) -> Option<Case> {
    let tree = Case { label: "tree".to_owned(), options: ForkOptions::tree() };
    (!cases.is_empty()).then_some(tree)
}

/// What an engine says of a copy.
pub(super) struct Opened {
    pub(super) state: State,
    pub(super) stats: Stats,
}

/// Copies a session to where a repository of its kind would have it, and opens it there. None
/// where the name of that place is longer than file systems allow.
pub(super) fn open_copy(
    setting: &Setting<'_>,
    path: &Path,
    metadata: &Metadata,
    kind: EngineKind,
) -> Result<Option<Opened>> {
    const NAME_BYTES_MAX: usize = 255;
    let root = setting.scratch.join("copy");
    let folder = root.join(kind.as_str());
    let place = match kind {
        EngineKind::Memory => return Ok(None),
        EngineKind::Jsonl => layout::jsonl_path(&folder, metadata),
        EngineKind::Sqlite => folder.join(layout::sqlite_name(metadata.id.as_str())),
        EngineKind::SqliteShared => folder.join("shared.sqlite"),
    };
    if place.iter().any(|part| part.len() > NAME_BYTES_MAX) {
        return Ok(None);
    }
    let parent = place.parent().unwrap_or(&folder);
    fs::create_dir_all(parent).map_err(|error| Error::io("create", parent, error))?;
    let copy_failed = |error| Error::io("copy", path, error);
    if kind == EngineKind::Jsonl {
        let bytes = fs::read(path).map_err(copy_failed)?;
        fs::write(&place, bytes).map_err(copy_failed)?;
    } else {
        let name = place.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        sqlite::copy_container(path, parent, name)
            .map_err(|error| copy_failed(std::io::Error::other(error)))?;
    }
    let engine = setting.engine(kind, &root)?;
    let reference = SessionRef { metadata: metadata.clone(), location: Location::File(place) };
    let session = engine.repo.open(&reference, setting.cx)?;
    let (state, stats) = (state_of(&session)?, session.stats()?);
    session.close()?;
    drop(engine);
    fs::remove_dir_all(&root).map_err(|error| Error::io("remove", &root, error))?;
    Ok(Some(Opened { state, stats }))
}
