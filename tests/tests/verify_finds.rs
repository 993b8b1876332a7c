//! `verify` finds what engines do wrong: planted bugs, each caught, and none where there is none.
//!
//! A check that cannot fail proves nothing. Each bug sits in the way of a fork out of a JSONL
//! file: rows lost, seqs changed, payloads written anew, a source touched, a rejection passed
//! over. The headline that names it has to appear, with a command that shows it again.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use forkline_engines::fork::{Body, Destination, Plan, Row, Source};
use forkline_engines::{Context, ListFilter, Repo, RepoCore, Result, SessionRef, Storage};
use forkline_gate::fixtures::fixtures;
use forkline_gate::lineup::{Engine, EngineKind, Lineup, Ours};
use forkline_gate::verify::{self, Difference, Options, Outcome, SourceFile, Watch};
use forkline_model::{ForkOptions, Json, LaneAudit, Metadata, Millis, Scope};

/// What is planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    LosesTheLastRow,
    NextSeqTooHigh,
    WritesPayloadsAnew,
    TouchesItsSource,
    ForksUnknownBranches,
}

struct Planted(Bug);

impl Lineup for Planted {
    fn engine(
        &self,
        kind: EngineKind,
        folder: &Path,
        now: Millis,
        lane_audit: LaneAudit,
    ) -> Result<Engine> {
        let mut engine = Engine::new(kind, folder, now, lane_audit)?;
        if kind == EngineKind::Jsonl {
            engine.repo = Box::new(BadRepo { bug: self.0, inner: engine.repo });
        }
        Ok(engine)
    }
}

struct BadRepo {
    bug: Bug,
    inner: Box<dyn Repo>,
}

impl Repo for BadRepo {
    fn core(&self) -> &RepoCore {
        self.inner.core()
    }
    fn make(&self, metadata: &Metadata, cx: &Context) -> Result<SessionRef> {
        self.inner.make(metadata, cx)
    }
    fn load(&self, at: &SessionRef, cx: &Context) -> Result<Box<dyn Storage>> {
        self.inner.load(at, cx)
    }
    fn remove(&self, at: &SessionRef, cx: &Context) -> Result<()> {
        self.inner.remove(at, cx)
    }
    fn capture(&self, at: &SessionRef, cx: &Context) -> Result<Box<dyn Source>> {
        if self.bug == Bug::TouchesItsSource {
            let path = at.path().expect("a file");
            let file = fs::File::options().append(true).open(path);
            file.and_then(|mut file| file.write_all(b"\n")).expect("the source can be written");
        }
        Ok(Box::new(BadSource { bug: self.bug, inner: self.inner.capture(at, cx)? }))
    }
    fn stage(&self, metadata: &Metadata, cx: &Context) -> Result<Box<dyn Destination>> {
        self.inner.stage(metadata, cx)
    }
    fn require_free(&self, metadata: &Metadata) -> Result<()> {
        self.inner.require_free(metadata)
    }
    fn destination_cwd(&self, source: &Metadata) -> Result<Option<String>> {
        self.inner.destination_cwd(source)
    }
    fn list(&self, filter: &ListFilter, cx: &Context) -> Result<Vec<SessionRef>> {
        self.inner.list(filter, cx)
    }
}

struct BadSource {
    bug: Bug,
    inner: Box<dyn Source>,
}

impl Source for BadSource {
    fn metadata(&self) -> &Metadata {
        self.inner.metadata()
    }

    fn plan(&mut self, options: &ForkOptions, audit: LaneAudit, cx: &Context) -> Result<Plan> {
        let is_unknown = matches!(&options.scope, Scope::Branch { branch, .. }
            if branch.as_str().starts_with("no-branch"));
        let mut plan = if self.bug == Bug::ForksUnknownBranches && is_unknown {
            self.inner.plan(&ForkOptions::tree(), audit, cx)?
        } else {
            self.inner.plan(options, audit, cx)?
        };
        plan.next_seq += u64::from(self.bug == Bug::NextSeqTooHigh);
        Ok(plan)
    }

    fn stream(&mut self, sink: &mut dyn FnMut(Row<'_>) -> Result<()>, cx: &Context) -> Result<()> {
        let bug = self.bug;
        let mut values = 0;
        self.inner.stream(
            &mut |row| match row {
                Row::Value { .. } if bug == Bug::LosesTheLastRow && values == 2 => Ok(()),
                Row::Entry { head, body } if bug == Bug::WritesPayloadsAnew => {
                    sink(Row::Entry { head, body: &mut Anew(body) })
                }
                row => {
                    values += u64::from(matches!(row, Row::Value { .. }));
                    sink(row)
                }
            },
            cx,
        )
    }
}

/// Offers no bytes to copy, so that the destination writes the entry in its own way.
struct Anew<'a>(&'a mut dyn Body);

impl Body for Anew<'_> {
    fn json(&mut self) -> Result<Json> {
        self.0.json()
    }
    fn copy_jsonl(&mut self, _out: &mut dyn io::Write) -> Option<Result<u64>> {
        None
    }
}

#[derive(Default)]
struct Collected(Vec<Difference>);

impl Watch for Collected {
    fn begins(&mut self, _files: &[SourceFile]) {}
    fn done(&mut self, _path: &Path) {}
    fn row(&mut self, row: &verify::Row) {
        if let Outcome::Differs { differences } = &row.outcome {
            self.0.extend(differences.iter().cloned());
        }
    }
}

/// Verifies a copy of the session with the lanes and a line whose `seq` does not stand last.
fn differences(lineup: &dyn Lineup) -> Vec<Difference> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path: PathBuf = folder.path().join("a.jsonl");
    let source = fixtures().join("pi-0.87.1/lanes-and-data-branch.jsonl");
    let text = fs::read_to_string(source).expect("a fixture");
    // An odd place for `kind`, so that a line that is written anew cannot look like the old one.
    let odd = text.replacen("{\"kind\":\"entry\",", "{ \"kind\":\"entry\",", 1);
    assert_ne!(odd, text);
    fs::write(&path, odd).expect("written");
    differences_in(path, lineup)
}

/// Verifies a copy of a legacy session with a lane.
fn differences_in_legacy(lineup: &dyn Lineup) -> Vec<Difference> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path: PathBuf = folder.path().join("a.jsonl");
    let source = fixtures().join("pi-v3/every-record-type.jsonl");
    fs::write(&path, fs::read(source).expect("a fixture")).expect("written");
    differences_in(path, lineup)
}

fn differences_in(path: PathBuf, lineup: &dyn Lineup) -> Vec<Difference> {
    let options = Options {
        paths: vec![path],
        engines: EngineKind::ALL.to_vec(),
        lane_audit: LaneAudit::Selected,
        only: None,
        session: None,
        salvage: false,
    };
    let mut found = Collected::default();
    let summary = verify::run(&options, lineup, &mut found).expect("it runs");
    assert_eq!(summary.holds(), found.0.is_empty());
    assert_eq!(summary.differences, found.0.len() as u64);
    found.0
}

fn check_finds(bug: Bug, expected: &str) {
    check_named(bug, &differences(&Planted(bug)), expected);
}

fn check_named(bug: Bug, found: &[Difference], expected: &str) {
    let named = found.iter().find(|difference| difference.what.contains(expected));
    let named = named.unwrap_or_else(|| panic!("{bug:?}: no {expected:?} in {found:#?}"));
    assert!(named.command.starts_with("forkline verify "), "{}", named.command);
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    assert_eq!(differences(&Ours), Vec::new());
    assert_eq!(differences_in_legacy(&Ours), Vec::new());
}

#[test]
fn lost_rows_are_found() {
    check_finds(Bug::LosesTheLastRow, "tree, jsonl into sqlite: the fork's rows");
    check_finds(Bug::LosesTheLastRow, "tree, jsonl into jsonl: the fork's file");
    check_finds(Bug::LosesTheLastRow, "tree, jsonl into memory: the fork as its engine reads it");
}

#[test]
fn a_wrong_next_seq_is_found() {
    check_finds(Bug::NextSeqTooHigh, "into jsonl: the fork's file");
}

#[test]
fn payloads_that_are_written_anew_are_found() {
    check_finds(Bug::WritesPayloadsAnew, "copied lines are not the source's bytes");
}

#[test]
fn a_touched_source_is_found() {
    check_finds(Bug::TouchesItsSource, "the source changed");
}

#[test]
fn a_fork_that_should_be_refused_is_found() {
    check_finds(Bug::ForksUnknownBranches, "the engine makes a fork that the model refuses");
}

#[test]
fn bugs_in_the_import_of_a_legacy_file_are_found() {
    for (bug, expected) in [
        (Bug::LosesTheLastRow, "tree, jsonl into sqlite: the fork's rows"),
        (Bug::NextSeqTooHigh, "tree, jsonl into jsonl: the fork's file"),
        (Bug::TouchesItsSource, "the source changed"),
        (Bug::ForksUnknownBranches, "the engine makes a fork that the model refuses"),
    ] {
        check_named(bug, &differences_in_legacy(&Planted(bug)), expected);
    }
}
