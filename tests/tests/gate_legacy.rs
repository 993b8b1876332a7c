//! The gate holds legacy files, from planting to the upgrade: drivers that are wrong about them in
//! one way each are caught, and one that has none is not asked.

use std::path::{Path, PathBuf};

use forkline_gate::driver::{
    Capabilities, Driver, Fault, Feature, FolderListing, LocalDriver, SourceEvidence, Stored,
};
use forkline_gate::gate::{
    Bucket, Options, Oracle, Place, Roster, SOURCES, Tally, Violation, load, replay_on, run,
};
use forkline_gate::lineup::EngineKind;
use forkline_model::{
    Answer, EntryId, ForkRequest, Op, ReadOp, RepoIndex, Scope, SessionId, State, Trace,
};

/// What a driver does wrong.
#[derive(Clone, Copy, PartialEq)]
enum Wrong {
    Nothing,
    /// The last record is not imported.
    LosesRecord,
    /// An id that an import minted is taken for the tip.
    AcceptsStaleIds,
    /// An open session is forked before its upgrade.
    ForksOpen,
    /// Imported usage does not show before the upgrade.
    HidesUsage,
    /// The row of the imported usage counts as one of the caller's.
    CountsItsOwnRow,
    /// Opening writes to the file.
    UpgradesOnOpen,
    /// There is no place for legacy files.
    HasNone,
}

struct Planted {
    inner: LocalDriver,
    wrong: Wrong,
    opened: u8,
    nothing: Capabilities,
}

fn is_minted(id: &EntryId) -> bool {
    id.as_str().starts_with("generated-")
}

impl Planted {
    fn changed(&self, op: &Op) -> Op {
        let mut op = op.clone();
        match (self.wrong, &mut op) {
            (Wrong::LosesRecord, Op::Plant { lines, .. }) if lines.len() > 1 => {
                lines.pop();
            }
            (Wrong::ForksOpen, Op::Fork { request, .. }) => request.closed = true,
            (Wrong::AcceptsStaleIds, Op::Fork { request, .. }) => {
                if let Scope::Branch { entry, .. } = &mut request.scope {
                    *entry = entry.take().filter(|id| !is_minted(id));
                }
            }
            _ => {}
        }
        op
    }
}

impl Driver for Planted {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn capabilities(&self, repo: RepoIndex) -> &Capabilities {
        match self.wrong {
            Wrong::HasNone if repo == SOURCES => &self.nothing,
            _ => self.inner.capabilities(repo),
        }
    }

    fn run(&mut self, op: &Op) -> Result<Answer, Fault> {
        assert!(self.wrong != Wrong::HasNone || !op.repos().contains(&SOURCES), "{op:?}");
        let answer = self.inner.run(&self.changed(op))?;
        self.opened += u8::from(matches!(op, Op::Open { .. }));
        Ok(match (self.wrong, op, answer) {
            (
                Wrong::HidesUsage,
                Op::Read { repo: SOURCES, read: ReadOp::Stats, .. },
                Answer::Stats(mut stats),
            ) => {
                stats.usage = forkline_model::Usage::default();
                Answer::Stats(stats)
            }
            (
                Wrong::CountsItsOwnRow,
                Op::Append { repo: SOURCES, .. },
                Answer::Committed(mut it),
            ) => {
                it.writes += 1;
                Answer::Committed(it)
            }
            (_, _, answer) => answer,
        })
    }

    fn last_error(&self) -> Option<&str> {
        self.inner.last_error()
    }

    fn dump(&mut self, repo: RepoIndex, session: &SessionId) -> Result<State, Fault> {
        self.inner.dump(repo, session)
    }

    fn evidence(&mut self, request: &ForkRequest) -> Result<SourceEvidence, Fault> {
        let mut evidence = self.inner.evidence(request)?;
        if self.wrong == Wrong::UpgradesOnOpen {
            evidence.0.insert(PathBuf::from("source"), vec![self.opened]);
        }
        Ok(evidence)
    }

    fn folder(&mut self, repo: RepoIndex) -> Result<FolderListing, Fault> {
        self.inner.folder(repo)
    }

    fn home(&self, repo: RepoIndex, session: &SessionId) -> Option<PathBuf> {
        self.inner.home(repo, session)
    }

    fn stored(&mut self, repo: RepoIndex, wanted: &[SessionId]) -> Result<Vec<Stored>, Fault> {
        self.inner.stored(repo, wanted)
    }
}

impl Roster for Wrong {
    fn drivers(&self, place: &Place<'_>) -> Result<Vec<Box<dyn Driver>>, Fault> {
        let kinds = [EngineKind::Memory, EngineKind::Jsonl];
        let inner = LocalDriver::new(&kinds, place.folder, place.audit, place.cwd)?;
        let nothing = Capabilities::none();
        Ok(vec![Box::new(Planted { inner, wrong: *self, opened: 0, nothing })])
    }
}

fn trace(name: &str) -> Trace {
    load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("traces").join(name)).unwrap()
}

fn replayed(name: &str, wrong: Wrong) -> Result<Tally, Violation> {
    let work = tempfile::tempdir().unwrap();
    replay_on(&trace(name), &wrong, 0, work.path())
}

fn caught(wrong: Wrong) -> (Oracle, usize) {
    let violation = replayed("legacy-life.json", wrong).expect_err("it is wrong");
    (violation.oracle, violation.step)
}

#[test]
fn the_traces_show_what_they_are_about() {
    let life = replayed("legacy-life.json", Wrong::Nothing).unwrap();
    let refused = |tally: &Tally| -> Vec<(String, u64)> {
        tally.refusals.iter().map(|(kind, count)| (kind.clone(), *count)).collect()
    };
    let kind = |name: &str, count: u64| (name.to_owned(), count);
    assert_eq!(refused(&life), [kind("entry_not_on_branch", 1), kind("open_legacy_source", 1)]);
    for bucket in [
        Bucket::LegacyV1,
        Bucket::LegacyTorn,
        Bucket::LegacyAtPlace,
        Bucket::LegacyUpgraded,
        Bucket::LegacyOpen,
        Bucket::LegacyStaleId,
    ] {
        assert_eq!(life.reached(bucket), 1, "{}", bucket.name());
    }
    let ids = replayed("legacy-ids-of-the-file.json", Wrong::Nothing).unwrap();
    assert_eq!(refused(&ids), [kind("corrupt_source", 3), kind("entry_not_on_branch", 2)]);
    for bucket in [Bucket::LegacyV3, Bucket::LegacyAtId, Bucket::LegacyDamaged] {
        assert_eq!(ids.reached(bucket), 1, "{}", bucket.name());
    }
    let taken = replayed("legacy-open-onto-a-taken-id.json", Wrong::Nothing).unwrap();
    assert_eq!(refused(&taken), [kind("open_legacy_source", 2), kind("session_exists", 2)]);
}

#[test]
fn a_record_that_is_lost() {
    assert_eq!(caught(Wrong::LosesRecord), (Oracle::State, 1));
}

#[test]
fn an_unstable_id_that_is_accepted() {
    assert_eq!(caught(Wrong::AcceptsStaleIds), (Oracle::Answer, 11));
}

#[test]
fn an_open_session_that_is_forked() {
    assert_eq!(caught(Wrong::ForksOpen), (Oracle::Answer, 6));
}

#[test]
fn usage_that_does_not_show() {
    assert_eq!(caught(Wrong::HidesUsage), (Oracle::Answer, 4));
}

#[test]
fn a_row_that_is_not_the_callers() {
    assert_eq!(caught(Wrong::CountsItsOwnRow), (Oracle::Answer, 13));
}

#[test]
fn a_file_that_is_written_by_opening_it() {
    assert_eq!(caught(Wrong::UpgradesOnOpen), (Oracle::Source, 3));
}

#[test]
fn random_sequences_find_a_lost_record_and_make_it_small() {
    let options = Options { seed: 9, cases: 300, ..Options::default() };
    let failure = run(&options, &Wrong::LosesRecord, &|| ()).unwrap().failure;
    let failure = failure.expect("it is wrong, and the gate has to see it");
    assert!(failure.trace.ops.len() <= 2, "{:?}", failure.trace.ops);
    let Some(Op::Plant { lines, torn, .. }) = failure.trace.ops.first() else {
        panic!("{:?}", failure.trace.ops)
    };
    // A header, and a record that may need a parent.
    assert!((2..=3).contains(&lines.len()) && torn.is_empty(), "{lines:?} {torn}");
}

#[test]
fn an_engine_without_a_place_for_them_is_not_asked() {
    let options = Options { seed: 3, cases: 20, ..Options::default() };
    let outcome = run(&options, &Wrong::HasNone, &|| ()).unwrap();
    assert_eq!(outcome.failure, None);
    let tally = outcome.tally;
    assert!(tally.left_out.get(&Feature::Legacy).is_some_and(|count| *count > 0), "{tally:?}");
    assert_eq!(tally.operations.get("plant"), None);
}
