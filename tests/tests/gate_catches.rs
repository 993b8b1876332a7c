//! The gate can fail: engines that are wrong in one way each are caught, by the oracle that is
//! there for it, and the sequence that shows it is made small.

use std::fs;
use std::path::PathBuf;

use forkline_gate::driver::{
    Capabilities, Driver, Fault, FolderListing, LocalDriver, SourceEvidence, Stored,
};
use forkline_gate::gate::{Engines, Failure, Options, Oracle, Place, Roster, run};
use forkline_gate::lineup::EngineKind;
use forkline_model::{Answer, ForkRequest, Op, Position, RepoIndex, Scope, SessionId, State};

/// What an engine does wrong.
#[derive(Clone, Copy, PartialEq)]
enum Wrong {
    /// `before` an entry is taken as `at` it.
    BeforeIsAt,
    /// A fork is captured only when it ends: late commits are let in.
    LateCapture,
    /// A refused fork leaves a file.
    LeavesFile,
    /// A fork touches its source.
    TouchesSource,
    /// An empty commit is the end.
    PanicsOnEmptyCommit,
    /// The rows of a fork are written anew: the same values, other bytes.
    RewritesLines,
}

struct Planted {
    inner: LocalDriver,
    folder: PathBuf,
    wrong: Wrong,
    begun: Vec<(u64, ForkRequest)>,
    forks: u8,
    is_littered: bool,
}

impl Planted {
    fn changed(&mut self, op: &Op) -> Op {
        let mut op = op.clone();
        match (self.wrong, &mut op) {
            (Wrong::BeforeIsAt, Op::Fork { request, .. } | Op::ForkBegin { request, .. }) => {
                if let Scope::Branch { position, .. } = &mut request.scope {
                    *position = Position::At;
                }
            }
            (Wrong::LateCapture, Op::ForkFinish { ticket, open }) => {
                let found = self.begun.iter().position(|(begun, _)| begun == ticket);
                if let Some(at) = found {
                    let (_, request) = self.begun.remove(at);
                    return Op::Fork { request, open: *open };
                }
            }
            _ => {}
        }
        op
    }

    /// Puts a blank into the first row of a fork.
    fn rewrite(&self, request: &ForkRequest) {
        let Some(home) = self.inner.home(request.into, &request.id) else { return };
        let path = self.folder.join(request.into.to_string()).join(home);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replacen("\n{", "\n{ ", 1)).unwrap();
    }
}

impl Driver for Planted {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn capabilities(&self, repo: RepoIndex) -> &Capabilities {
        self.inner.capabilities(repo)
    }

    fn run(&mut self, op: &Op) -> Result<Answer, Fault> {
        match (self.wrong, op) {
            (Wrong::LateCapture, Op::ForkBegin { ticket, request }) => {
                self.begun.push((*ticket, request.clone()));
                return Ok(Answer::Done);
            }
            (Wrong::PanicsOnEmptyCommit, Op::Commit { writes, .. }) if writes.is_empty() => {
                panic!("planted");
            }
            _ => {}
        }
        let op = self.changed(op);
        let answer = self.inner.run(&op)?;
        if matches!(op, Op::Fork { .. }) {
            self.forks = self.forks.wrapping_add(1);
            self.is_littered |= matches!(answer, Answer::Error { .. });
        }
        if let (Wrong::RewritesLines, Op::Fork { request, open: false }, Answer::Done) =
            (self.wrong, &op, &answer)
        {
            self.rewrite(request);
        }
        Ok(answer)
    }

    fn last_error(&self) -> Option<&str> {
        self.inner.last_error()
    }

    fn dump(&mut self, repo: RepoIndex, session: &SessionId) -> Result<State, Fault> {
        self.inner.dump(repo, session)
    }

    fn evidence(&mut self, request: &ForkRequest) -> Result<SourceEvidence, Fault> {
        let mut evidence = self.inner.evidence(request)?;
        if self.wrong == Wrong::TouchesSource {
            evidence.0.insert(PathBuf::from("source"), vec![self.forks]);
        }
        Ok(evidence)
    }

    fn folder(&mut self, repo: RepoIndex) -> Result<FolderListing, Fault> {
        let mut folder = self.inner.folder(repo)?;
        if self.wrong == Wrong::LeavesFile && self.is_littered {
            folder.0.insert("sessions/.tmp".to_owned());
        }
        Ok(folder)
    }

    fn home(&self, repo: RepoIndex, session: &SessionId) -> Option<PathBuf> {
        self.inner.home(repo, session)
    }

    fn stored(&mut self, repo: RepoIndex, wanted: &[SessionId]) -> Result<Vec<Stored>, Fault> {
        self.inner.stored(repo, wanted)
    }
}

/// The right memory engine and the wrong one, in step.
struct WithPlanted(Wrong);

impl Roster for WithPlanted {
    fn drivers(&self, place: &Place<'_>) -> Result<Vec<Box<dyn Driver>>, Fault> {
        let mut drivers = Engines(vec![EngineKind::Memory]).drivers(place)?;
        let kinds = [EngineKind::Memory, EngineKind::Jsonl];
        let folder = place.folder.join("planted");
        let inner = LocalDriver::new(&kinds, &folder, place.audit, place.cwd)?;
        let wrong = self.0;
        let begun = Vec::new();
        let planted = Planted { inner, folder, wrong, begun, forks: 0, is_littered: false };
        drivers.push(Box::new(planted));
        Ok(drivers)
    }
}

fn caught(wrong: Wrong) -> Failure {
    let options = Options { seed: 9, cases: 300, ..Options::default() };
    let outcome = run(&options, &WithPlanted(wrong), &|| ()).unwrap();
    outcome.failure.expect("it is wrong, and the gate has to see it")
}

fn check(wrong: Wrong, oracles: &[Oracle], ops_max: usize) {
    let failure = caught(wrong);
    let Failure { violation, trace, found_ops, .. } = &failure;
    assert_eq!(violation.engine, "memory+jsonl");
    assert!(oracles.contains(&violation.oracle), "{violation}");
    assert!(trace.ops.len() <= ops_max, "{} operations: {:?}", trace.ops.len(), trace.ops);
    assert!(*found_ops >= 20);
    assert_eq!(trace.engines, ["memory", "jsonl"]);
    // Another run finds the same.
    assert_eq!(caught(wrong), failure);
}

#[test]
fn an_off_by_one_fork_point() {
    check(Wrong::BeforeIsAt, &[Oracle::State, Oracle::Answer, Oracle::File], 4);
}

#[test]
fn a_late_commit_in_a_fork() {
    check(Wrong::LateCapture, &[Oracle::State, Oracle::Answer, Oracle::File], 4);
}

#[test]
fn a_file_left_by_a_refusal() {
    check(Wrong::LeavesFile, &[Oracle::Folder], 3);
}

#[test]
fn a_source_that_changes() {
    check(Wrong::TouchesSource, &[Oracle::Source], 3);
}

#[test]
fn a_panic() {
    check(Wrong::PanicsOnEmptyCommit, &[Oracle::Alive], 3);
}

#[test]
fn lines_that_are_written_anew() {
    check(Wrong::RewritesLines, &[Oracle::File], 6);
}
