//! One sequence of operations, the model and all engines in step.

use std::borrow::Cow;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use forkline_model::policy::LaneShape;
use forkline_model::{
    Answer, BranchScan, ForkRequest, LaneAudit, Millis, Op, Position, ReadOp, RepoIndex, Scope,
    SeqQuery, SessionId, State, World, lanes,
};

use super::coverage::{Tally, Watcher};
use super::generate::{REPOS, SOURCES};
use super::judge::{Judge, Violation};
use super::legacy;
use crate::driver::{Driver, Fault, Feature, LocalDriver};
use crate::lineup::EngineKind;

/// Every so many steps all open sessions are examined, not only the touched ones.
const SURVEY_EVERY: usize = 8;
/// How many branch scans a survey makes of one session.
const SCANS_MAX: usize = 4;

/// Where and how the engines of one sequence are set up.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// An empty folder.
    pub folder: &'a Path,
    /// The lane audit of all repositories.
    pub audit: LaneAudit,
    /// What forks get whose source has no working directory.
    pub cwd: &'a str,
    /// Which engine of the list has its turn.
    pub turn: usize,
    /// How far apart in the list the engines of neighbouring repositories are.
    pub shift: usize,
    /// Whether the closing examination compares forks of forks, which costs four of them.
    pub algebra: bool,
}

/// Who takes part: makes the drivers of one sequence.
pub trait Roster: Send + Sync {
    /// The drivers, each with [`REPOS`] repositories.
    ///
    /// # Errors
    /// One cannot be made.
    fn drivers(&self, place: &Place<'_>) -> Result<Vec<Box<dyn Driver>>, Fault>;
}

/// Engines of this project in step: each is once the first repository; with a shift the second
/// is another engine, so that forks cross.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Engines(pub Vec<EngineKind>);

impl Roster for Engines {
    fn drivers(&self, place: &Place<'_>) -> Result<Vec<Box<dyn Driver>>, Fault> {
        (0..self.0.len()).map(|first| pair(&self.0, first, place)).collect()
    }
}

/// Engines of this project in turn: one of them, drawn with the sequence, is the first repository,
/// and one the second. All are held against the same model, so nothing is seen in step that would
/// not be seen so, and for the time of one sequence in step there is one for each engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InTurn(pub Vec<EngineKind>);

impl Roster for InTurn {
    fn drivers(&self, place: &Place<'_>) -> Result<Vec<Box<dyn Driver>>, Fault> {
        if self.0.is_empty() {
            return Ok(Vec::new());
        }
        Ok(vec![pair(&self.0, place.turn % self.0.len(), place)?])
    }
}

/// A driver of one engine of the list, and the one that is a shift away.
fn pair(kinds: &[EngineKind], first: usize, place: &Place<'_>) -> Result<Box<dyn Driver>, Fault> {
    let at = |index: usize| kinds.iter().cycle().nth(index).copied();
    let kinds: Vec<EngineKind> = at(first).into_iter().chain(at(first + place.shift)).collect();
    let folder = place.folder.join(first.to_string());
    Ok(Box::new(LocalDriver::new(&kinds, &folder, place.audit, place.cwd)?))
}

/// One named driver, as a trace asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named(pub Vec<EngineKind>);

impl Roster for Named {
    fn drivers(&self, place: &Place<'_>) -> Result<Vec<Box<dyn Driver>>, Fault> {
        let driver = LocalDriver::new(&self.0, place.folder, place.audit, place.cwd)?;
        Ok(vec![Box::new(driver)])
    }
}

/// The working directory of a sequence: that of the first session with one.
pub fn cwd_of(ops: &[Op]) -> String {
    let cwds = ops.iter().filter_map(|op| match op {
        Op::Create { cwd, .. } => cwd.clone(),
        Op::Fork { request, .. } | Op::ForkBegin { request, .. } => request.cwd.clone(),
        _ => None,
    });
    cwds.take(1).next().unwrap_or_else(|| "/gate".to_owned())
}

/// Runs a sequence, holds every driver against the model after each step, and examines all
/// sessions at the end. `seen` counts the operations that were run.
///
/// # Errors
/// The first difference. A roster that cannot be made is one, too.
pub fn play(
    ops: &[Op],
    roster: &dyn Roster,
    place: &Place<'_>,
    seen: &AtomicUsize,
) -> Result<Tally, Violation> {
    let drivers = roster.drivers(place).map_err(|fault| Violation {
        oracle: super::judge::Oracle::Alive,
        engine: "all".to_owned(),
        step: 0,
        op: "setting up".to_owned(),
        difference: fault.0,
    })?;
    let mut watcher = Watcher::default();
    let can_be_strict = drivers
        .iter()
        .all(|driver| (0..REPOS).all(|repo| driver.capabilities(repo).has(Feature::StrictAudit)));
    let audit = if place.audit == LaneAudit::Strict && !can_be_strict {
        watcher.left_out(Feature::StrictAudit);
        LaneAudit::Selected
    } else {
        place.audit
    };
    let uses_sources = ops.iter().any(|op| op.repos().contains(&SOURCES));
    let mut contest = Contest {
        world: World::new(audit),
        judges: drivers.into_iter().map(Judge::new).collect(),
        repos: if uses_sources { SOURCES + 1 } else { REPOS },
        watcher,
        step: 0,
        tickets: Vec::new(),
        cwd: place.cwd,
        algebra: place.algebra,
    };
    for op in ops {
        seen.fetch_add(1, Ordering::SeqCst);
        contest.op(op)?;
        if contest.step.is_multiple_of(SURVEY_EVERY) {
            contest.survey(Survey::Open)?;
        }
    }
    contest.watcher.end_of_sequence();
    contest.examine()?;
    Ok(contest.watcher.into_tally())
}

/// What a survey looks at.
#[derive(Clone, Copy)]
enum Survey {
    /// The open sessions.
    Open,
    /// The listings too, for which an engine reads every file that it has.
    All,
}

struct Contest<'a> {
    world: World,
    judges: Vec<Judge>,
    /// How many repositories the sequence has.
    repos: usize,
    watcher: Watcher,
    step: usize,
    tickets: Vec<u64>,
    cwd: &'a str,
    algebra: bool,
}

impl Contest<'_> {
    /// One operation on the model and on every driver; none where one of them has no such thing.
    fn op(&mut self, op: &Op) -> Result<Option<Answer>, Violation> {
        let asked = from_where_it_is(op, &self.world);
        if let Some(feature) = self.judges.iter().find_map(|judge| judge.can_run(&asked).err()) {
            self.watcher.left_out(feature);
            return Ok(None);
        }
        self.watcher.before(&self.world, op);
        let expected = legacy::run(&mut self.world, op);
        self.watcher.after(&self.world, op, &expected);
        if let (Op::Fork { request, .. }, Answer::Done) = (op, &expected) {
            for judge in &self.judges {
                self.watcher.crossed(&judge.engine(request.from), &judge.engine(request.into));
            }
        }
        match op {
            Op::ForkBegin { ticket, .. } if expected == Answer::Done => self.tickets.push(*ticket),
            Op::ForkFinish { ticket, .. } => self.tickets.retain(|other| other != ticket),
            _ => {}
        }
        for judge in &mut self.judges {
            judge.step(self.step, op, &expected, &self.world)?;
        }
        self.step += 1;
        Ok(Some(expected))
    }

    fn sessions(&self, wanted: impl Fn(bool) -> bool) -> Vec<(RepoIndex, SessionId)> {
        let all = (0..self.repos).flat_map(|repo| {
            self.world.list(repo).into_iter().map(move |metadata| (repo, metadata.id))
        });
        all.filter(|(repo, id)| {
            let session = self.world.session(*repo, id);
            wanted(session.is_some_and(forkline_model::world::Session::is_open))
        })
        .collect()
    }

    fn state(&self, repo: RepoIndex, id: &SessionId) -> Option<&State> {
        self.world.session(repo, id).map(forkline_model::world::Session::state)
    }

    /// All open sessions whole, and their paths.
    fn survey(&mut self, what: Survey) -> Result<(), Violation> {
        let open = self.sessions(|is_open| is_open);
        let mut ops: Vec<Op> = match what {
            Survey::Open => Vec::new(),
            Survey::All => (0..self.repos).map(|repo| Op::List { repo }).collect(),
        };
        for (repo, id) in &open {
            let Some(state) = self.state(*repo, id) else { continue };
            ops.extend(reads_of(state).map(|read| Op::Read {
                repo: *repo,
                session: id.clone(),
                read,
            }));
        }
        let reads: Vec<(Op, Answer)> = ops
            .into_iter()
            .map(|op| {
                let answer = self.world.run(&op);
                (op, answer)
            })
            .collect();
        for judge in &mut self.judges {
            judge.survey(self.step, &open, &reads, &self.world)?;
        }
        Ok(())
    }

    /// The closing examination: every fork ends, every session is opened anew, forks of forks
    /// are compared, everything is closed, and nothing else is left.
    fn examine(&mut self) -> Result<(), Violation> {
        for ticket in std::mem::take(&mut self.tickets) {
            self.op(&Op::ForkFinish { ticket, open: false })?;
        }
        for (repo, session) in self.sessions(|_| true) {
            self.op(&Op::Reopen { repo, session })?;
        }
        self.survey(Survey::All)?;
        if self.algebra
            && let Some((repo, session)) = self.richest()
        {
            self.algebra(repo, &session)?;
        }
        let mut last = Op::List { repo: 0 };
        for (repo, session) in self.sessions(|is_open| is_open) {
            last = Op::Close { repo, session };
            self.op(&last.clone())?;
        }
        let (step, sessions) = (self.step, self.sessions(|_| true));
        for judge in &mut self.judges {
            judge.check_rest(step, &last, &sessions, self.repos, &self.world)?;
        }
        Ok(())
    }

    /// The session with the most behind it.
    fn richest(&self) -> Option<(RepoIndex, SessionId)> {
        let weight = |(repo, id): &(RepoIndex, SessionId)| {
            self.state(*repo, id).map_or(0, |state| {
                state.entries().len() + state.values().len() + state.lists().len()
            })
        };
        self.sessions(|_| true).into_iter().max_by_key(weight)
    }

    /// A tree fork of a tree fork equals it; a branch fork of a tree fork equals that of its
    /// source.
    fn algebra(&mut self, repo: RepoIndex, source: &SessionId) -> Result<(), Violation> {
        let id = |name: &str| SessionId::new(name).expect("it is a short text");
        let (tree, again) = (id("algebra tree"), id("algebra tree again"));
        let other = (repo + 1) % REPOS;
        if !self.fork((repo, source), (other, &tree), Scope::Tree)? {
            return Ok(());
        }
        if self.fork((other, &tree), (repo, &again), Scope::Tree)? {
            self.same((other, &tree), (repo, &again))?;
        }
        let Some(scope) = self.state(repo, source).and_then(lane_scope) else { return Ok(()) };
        let (one, two) = (id("algebra branch"), id("algebra branch of tree"));
        if self.fork((repo, source), (other, &one), scope.clone())?
            && self.fork((other, &tree), (repo, &two), scope)?
        {
            self.same((other, &one), (repo, &two))?;
        }
        Ok(())
    }

    /// Forks and opens; whether the model did.
    fn fork(
        &mut self,
        (from, source): (RepoIndex, &SessionId),
        (into, id): (RepoIndex, &SessionId),
        scope: Scope,
    ) -> Result<bool, Violation> {
        // An open legacy session is forked where it stands.
        let session = self.world.session(from, source);
        let is_legacy = session.is_some_and(|session| session.legacy().is_some());
        let request = ForkRequest {
            from,
            source: source.clone(),
            into,
            id: id.clone(),
            scope,
            created_at: Millis::EPOCH,
            cwd: Some(self.cwd.to_owned()),
            closed: is_legacy,
        };
        Ok(self.op(&Op::Fork { request, open: true })? == Some(Answer::Done))
    }

    fn same(
        &mut self,
        one: (RepoIndex, &SessionId),
        other: (RepoIndex, &SessionId),
    ) -> Result<(), Violation> {
        let what = Op::Read { repo: other.0, session: other.1.clone(), read: ReadOp::Metadata };
        for judge in &mut self.judges {
            judge.same_content(self.step, &what, one, other)?;
        }
        Ok(())
    }
}

/// The operation with what it asks of an engine in it: a fork whose source is closed reads it at
/// its place, whether it says so or not.
fn from_where_it_is<'a>(op: &'a Op, world: &World) -> Cow<'a, Op> {
    let mut asked = Cow::Borrowed(op);
    if let Op::Fork { request, .. } | Op::ForkBegin { request, .. } = op
        && world.session(request.from, &request.source).is_some_and(|source| !source.is_open())
        && let Op::Fork { request, .. } | Op::ForkBegin { request, .. } = asked.to_mut()
    {
        request.closed = true;
    }
    asked
}

/// A complete lane of the state, before its tip.
fn lane_scope(state: &State) -> Option<Scope> {
    let lanes = lanes::lanes(state);
    let lane = lanes.into_iter().find(|lane| lane.shape() == LaneShape::Complete)?;
    Some(Scope::Branch { branch: lane.branch, entry: None, position: Position::Before })
}

/// Reads of a whole state by other ways than its dump.
fn reads_of(state: &State) -> impl Iterator<Item = ReadOp> {
    let parents: std::collections::BTreeSet<_> =
        state.entries().values().filter_map(|entry| entry.parent.as_ref()).collect();
    let leaves = state.entries().values().rev().filter(move |it| !parents.contains(&it.id));
    let scans =
        leaves.take(SCANS_MAX).map(|leaf| ReadOp::ScanBranch(BranchScan::from(leaf.id.clone())));
    [
        ReadOp::Metadata,
        ReadOp::Stats,
        ReadOp::Name,
        ReadOp::Branches,
        ReadOp::ScanEntries(SeqQuery::default()),
        ReadOp::ScanUsage(SeqQuery::default()),
    ]
    .into_iter()
    .chain(scans)
}
