//! Makes one fork and holds what came of it against the model, in every way there is to look.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use forkline_engines::fork::Copied;
use forkline_engines::jsonl::{SalvageReport, Salvaged};
use forkline_engines::{Context, Forked, Result, SessionRef, transfer};
use forkline_model::diff::{Compare, diff};
use forkline_model::policy::{BRANCH_TIP, LANE_STATE};
use forkline_model::{Birth, ForkOptions, LaneAudit, Millis, Seq, SessionId, State};

use super::cases::Case;
use super::salvage::{self, Salvage};
use crate::lineup::{Engine, EngineKind, Lineup, state_of};
use crate::plain::{jsonl, layout, sqlite};
use crate::plain_legacy::Imported;

/// The writes of a JSONL file by seq, as they are spelled.
pub(super) type Writes = BTreeMap<Seq, String>;

/// A session that forks are made of.
pub(super) struct Origin<'a> {
    /// Who reads it.
    pub(super) engine: &'a Engine,
    /// Where it is.
    pub(super) reference: SessionRef,
    /// What it holds, by the plain reader or by the model.
    pub(super) state: State,
    /// How its lines are spelled, where it has lines that are copied.
    pub(super) writes: Option<Writes>,
    /// The import that the state is from, of a legacy file.
    pub(super) imported: Option<Imported>,
    /// What has to be told of it, if forks of it salvage it.
    pub(super) salvage: Option<Salvage>,
}

impl Origin<'_> {
    /// What the model is asked: the ids of a legacy file are not those of its entries.
    pub(super) fn in_state(&self, options: &ForkOptions) -> ForkOptions {
        match &self.imported {
            Some(imported) => imported.options(options),
            None => options.clone(),
        }
    }
}

/// What came of one fork.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// What is not as the model says: a headline each, and lines.
    pub(super) differences: Vec<(String, Vec<String>)>,
    /// Whether model and engine refused alike.
    pub(super) refused: bool,
    /// The fork, if there is one.
    pub(super) made: Option<SessionRef>,
    /// What the fork has to hold.
    pub(super) expected: Option<State>,
    /// How its lines are spelled, where it has lines.
    pub(super) writes: Option<Writes>,
    /// What it told, if it is a salvage.
    pub(super) report: Option<SalvageReport>,
}

impl Held {
    fn differs(&mut self, what: impl Into<String>, lines: Vec<String>) {
        self.differences.push((what.into(), lines));
    }

    fn compare(&mut self, what: &str, expected: &State, found: &State) {
        let found = diff(expected, found, &Compare::default());
        if !found.is_empty() {
            self.differs(what, found.to_string().lines().map(str::to_owned).collect());
        }
    }
}

/// What does not change during a run.
pub(super) struct Setting<'a> {
    pub(super) now: Millis,
    pub(super) audit: LaneAudit,
    pub(super) lineup: &'a dyn Lineup,
    pub(super) scratch: &'a Path,
    pub(super) cx: &'a Context,
}

impl Setting<'_> {
    /// A fresh engine in `folder/{kind}`.
    pub(super) fn engine(&self, kind: EngineKind, folder: &Path) -> Result<Engine> {
        self.lineup.engine(kind, folder, self.now, self.audit)
    }

    /// Forks `origin` as `case` says into `into`, under the id `id`, and holds the result.
    pub(super) fn hold(&self, origin: &Origin<'_>, case: &Case, into: &Engine, id: &str) -> Held {
        let mut held = Held::default();
        let id = SessionId::new(id).expect("ids of a run are plain");
        let options = case.options.clone().with_id(id.clone());
        let cwd = into.kind.cwd_of_fork(origin.state.metadata());
        let birth = Birth { id: id.clone(), created_at: self.now, cwd };
        let in_state = origin.in_state(&options);
        let expected = forkline_model::fork(&origin.state, &in_state, self.audit, birth);
        let before = into.files();
        let made = self.make(origin, &options, into, id.as_str());
        match (expected, made) {
            (Err(expected), Err(found)) if expected.kind() == found.kind() => {
                held.refused = true;
                if into.files().ok() != before.ok() {
                    held.differs("a refused fork left a file behind", Vec::new());
                }
            }
            (Err(expected), Err(found)) => held.differs(
                "the model and the engine refuse for different reasons",
                vec![format!("model: {expected}"), format!("engine: {}", found.chain())],
            ),
            (Err(expected), Ok(_)) => held.differs(
                "the engine makes a fork that the model refuses",
                vec![format!("model: {expected}")],
            ),
            (Ok(_), Err(found)) => held.differs(
                "the engine refuses a fork that the model makes",
                vec![format!("engine: {}", found.chain())],
            ),
            (Ok(expected), Ok((forked, report))) => {
                let expected = match (&origin.salvage, report) {
                    (Some(salvage), Some(report)) => {
                        let wrong = salvage.differences(&report);
                        if !wrong.is_empty() {
                            held.differs("the salvage tells of other damage", wrong);
                        }
                        let told = salvage.told(&expected, &report, self.now);
                        held.report = Some(report);
                        told
                    }
                    _ => expected,
                };
                self.hold_made(&mut held, origin, &expected, &forked, into);
                held.made = Some(forked.reference);
                held.expected = Some(expected);
            }
        }
        held
    }

    /// One fork, and what it tells if it is a salvage.
    fn make(
        &self,
        origin: &Origin<'_>,
        options: &ForkOptions,
        into: &Engine,
        id: &str,
    ) -> Result<(Forked, Option<SalvageReport>)> {
        let (source, to) = (&origin.reference, &*into.repo);
        // A fresh repository mints the ids that the plain import mints.
        let fresh = self.scratch.join(format!("reader-of-{id}"));
        if origin.salvage.is_some() {
            let reader = salvage::reader(&fresh, self.now, self.audit)?;
            let Salvaged { forked, report } = reader.salvage(source, to, options, self.cx)?;
            return Ok((forked, Some(report)));
        }
        let forked = if origin.imported.is_some() {
            let reader = self.engine(EngineKind::Jsonl, &fresh)?;
            transfer::fork_unopened(&*reader.repo, source, to, options, self.cx)
        } else if origin.engine.kind == into.kind {
            to.fork_closed_unopened(source, options, self.cx)
        } else {
            transfer::fork_unopened(&*origin.engine.repo, source, to, options, self.cx)
        };
        Ok((forked?, None))
    }

    fn hold_made(
        &self,
        held: &mut Held,
        origin: &Origin<'_>,
        expected: &State,
        forked: &Forked,
        into: &Engine,
    ) {
        let counts = Copied {
            entries: expected.entries().len() as u64,
            messages: expected.stats().message_count,
            values: expected.values().len() as u64,
            elements: expected.lists().values().map(|list| list.len() as u64).sum(),
        };
        if (forked.copied, forked.next_seq) != (counts, expected.next_seq()) {
            held.differs(
                "the counts that the fork reports",
                vec![format!("model: {counts:?}"), format!("engine: {:?}", forked.copied)],
            );
        }
        match into.kind {
            EngineKind::Memory => {}
            EngineKind::Jsonl => hold_jsonl(held, origin, expected, forked, into),
            EngineKind::Sqlite | EngineKind::SqliteShared => {
                self.hold_sqlite(held, expected, forked, into);
            }
        }
        match self.reopened(into, &forked.reference) {
            Ok(found) => held.compare("the fork as its engine reads it", expected, &found),
            Err(error) => held.differs("the fork does not open", vec![error.chain()]),
        }
    }

    fn reopened(&self, engine: &Engine, reference: &SessionRef) -> Result<State> {
        let session = engine.repo.open(reference, self.cx)?;
        let state = state_of(&session)?;
        session.close()?;
        Ok(state)
    }

    fn hold_sqlite(&self, held: &mut Held, expected: &State, forked: &Forked, into: &Engine) {
        let name = match into.kind {
            EngineKind::SqliteShared => "shared.sqlite".to_owned(),
            _ => layout::sqlite_name(expected.metadata().id.as_str()),
        };
        let right = into.folder.join(name);
        if forked.reference.path() != Some(&right) {
            held.differs(
                "the fork is not where formats \u{a7}3 puts it",
                vec![format!("{right:?}")],
            );
        }
        let path = forked.reference.path().unwrap_or(&right);
        let sessions = match sqlite::read(path, self.scratch) {
            Ok(sessions) => sessions,
            Err(error) => {
                return held
                    .differs("the fork's container cannot be read", vec![error.to_string()]);
            }
        };
        let wanted = expected.metadata().id.as_str();
        match sessions.into_iter().find(|session| session.id == wanted).map(|found| found.content) {
            Some(Ok(found)) => {
                held.compare("the fork's rows", expected, &found.state);
                if found.claimed != expected.stats() {
                    let lines = vec![
                        format!("model: {:?}", expected.stats()),
                        format!("row: {:?}", found.claimed),
                    ];
                    held.differs("the statistics of the fork's session row", lines);
                }
                if !found.index_differences.is_empty() {
                    held.differs("the fork's branch index", found.index_differences);
                }
            }
            Some(Err(damage)) => held.differs("the fork's rows", vec![damage.to_string()]),
            None => held.differs("the fork's container does not hold it", Vec::new()),
        }
    }
}

/// The file of a fork: its place, its state, its shape, and the bytes of what was copied.
fn hold_jsonl(
    held: &mut Held,
    origin: &Origin<'_>,
    expected: &State,
    forked: &Forked,
    into: &Engine,
) {
    let right = layout::jsonl_path(&into.folder, expected.metadata());
    if forked.reference.path() != Some(&right) {
        held.differs("the fork is not where formats \u{a7}1 puts it", vec![format!("{right:?}")]);
    }
    let path = forked.reference.path().unwrap_or(&right);
    let read = fs::read(path).map_err(|error| error.to_string());
    let found = match read.and_then(|bytes| jsonl::read(&bytes).map_err(|e| e.to_string())) {
        Ok(found) => found,
        Err(reason) => {
            return held.differs("the fork's file cannot be read", vec![reason]);
        }
    };
    held.compare("the fork's file", expected, &found.state);
    let rows = forked.copied.rows();
    if found.torn || !found.one_write_a_line || found.writes.len() as u64 != rows {
        held.differs("the fork's file is not one current row a line", Vec::new());
    }
    if let Some(source) = &origin.writes {
        let wrong = changed_lines(source, &found.writes, expected);
        if !wrong.is_empty() {
            held.differs("copied lines are not the source's bytes", wrong);
        }
    }
    held.writes = Some(found.writes);
}

/// Lines of a fork that are neither the source's bytes nor one of the two rows that a fork
/// rewrites.
fn changed_lines(source: &Writes, fork: &Writes, expected: &State) -> Vec<String> {
    let rewritten = expected
        .values()
        .iter()
        .filter(|(address, _)| [BRANCH_TIP, LANE_STATE].contains(&address.namespace.as_str()));
    let rewritten: BTreeSet<Seq> = rewritten.map(|(_, (seq, _))| *seq).collect();
    let changed =
        fork.iter().filter(|(seq, text)| source.get(seq) != Some(text) && !rewritten.contains(seq));
    let show = |(seq, text): (&Seq, &String)| {
        let source = source.get(seq).map_or("nothing", String::as_str);
        format!("seq {seq}: source {source}, fork {text}")
    };
    changed.take(4).map(show).collect()
}
