//! What a run has reached: a run that exercised nothing shows (gate.md, "The generator must
//! reach"; reliability.md §2.1).
//!
//! A shape counts when a session that has it was *forked*, once for each sequence.

use std::collections::{BTreeMap, BTreeSet};

use forkline_model::error::ErrorKind;
use forkline_model::{Answer, ForkRequest, Op, Position, RepoIndex, Scope, SessionId, World};
use serde::Serialize;

use super::shapes::{self, shapes_of};
use crate::driver::Feature;

macro_rules! buckets {
    ($($bucket:ident $floor:literal $name:literal,)*) => {
        /// Something that a run has to reach.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Bucket {
            $(#[doc = $name] $bucket,)*
        }

        impl Bucket {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$bucket,)*];

            /// What it is, for the report.
            pub fn name(self) -> &'static str {
                match self { $(Self::$bucket => $name,)* }
            }

            /// In how many of 1 000 sequences it has to be reached.
            pub fn floor(self) -> u64 {
                match self { $(Self::$bucket => $floor,)* }
            }
        }
    };
}

buckets! {
    // shapes of a fork's source
    EmptySource 20 "empty source",
    Unreachable 100 "entries that no tip reaches",
    SeveralRoots 100 "several roots",
    Deep 50 "a path of 50 entries or more",
    WideFan 50 "8 children or more of one parent",
    SharedPrefix 200 "siblings with a common path",
    SeveralLanes 50 "several complete lanes",
    DataOnly 50 "data-only branch",
    PartialLane 30 "partial lane",
    NullTip 50 "null tip",
    DanglingTip 10 "tip that names no entry",
    UnreadableTip 5 "tip that is no id",
    Overwritten 50 "overwritten value",
    DeletedValue 20 "deleted value",
    RecreatedList 40 "list deleted and made again",
    RecreatedAtOnce 40 "list deleted and made again in one commit",
    LabelOfNothing 20 "label of a missing entry",
    OpenOperation 40 "open operation",
    PendingEntry 40 "pending entry",
    Frames 20 "frames of an open operation",
    Results 5 "results of operations",
    Ledger 50 "ledger rows",
    ReservedDead 15 "unknown reserved state, deleted again",
    HostileAddress 100 "hostile namespace or key",
    HostileBranch 50 "hostile branch name",
    HostileEntry 100 "hostile entry id",
    HostileSession 100 "hostile session id",
    Surrogate 60 "lone surrogate in a payload",
    HugeNumber 60 "number beyond a double",
    DeepJson 40 "JSON nested deeper than 128",
    DuplicateMembers 40 "member twice in an object",
    Spaced 40 "white space in a payload",
    TornTail 10 "torn tail",
    TornParses 3 "torn tail that parses",
    Reopened 100 "source that was reopened",
    LegacyV1 30 "legacy source of version 1",
    LegacyV2 30 "legacy source of version 2",
    LegacyV3 30 "legacy source of version 3",
    LegacyTorn 15 "legacy source with a torn tail",
    LegacyAtPlace 12 "open legacy source read at its place",
    LegacyAtId 12 "legacy source forked at an id of its file",
    LegacyUpgraded 15 "legacy source that a commit upgraded",
    // what is forked and how
    ForkTree 300 "tree fork",
    ForkAtTip 50 "branch fork at the tip",
    ForkBeforeTip 40 "branch fork before the tip",
    ForkAtEntry 30 "branch fork at a middle entry",
    ForkBeforeEntry 20 "branch fork before a middle entry",
    ForkAtRoot 50 "branch fork at a root",
    ForkBeforeRoot 15 "branch fork before a root",
    ForkNullTip 20 "branch fork of a null tip",
    ForkOfFork 200 "fork of a fork",
    ForkThrice 50 "fork of a fork of a fork",
    ForkClosed 100 "fork of a closed source",
    ForkAtPlace 50 "fork of an open source read at its place",
    ForkAcross 200 "fork into the other repository",
    CommitToFork 100 "commit to a fork",
    // instants
    CommitAfterBoundary 30 "commit to the source while the fork is under way",
    ClosedMeanwhile 5 "source closed while the fork is under way",
    DeletedMeanwhile 1 "source deleted while the fork is under way",
    IdRace 15 "id of a fork under way taken by somebody else",
    // refusals
    ReservedAlive 20 "fork refused: unknown reserved state",
    RefusedFork 100 "fork refused for its source or options",
    TakenId 40 "fork refused: the id is taken",
    OffBranch 20 "fork refused: entry not on branch",
    NotALane 10 "fork refused: not a configured lane",
    CorruptLane 5 "fork refused: corrupt lane",
    UnknownBranch 10 "fork refused: unknown branch",
    UnknownSource 10 "fork refused: unknown session",
    LegacyOpen 30 "fork refused: open legacy source",
    LegacyStaleId 5 "fork of a legacy source refused: id of an earlier opening",
    LegacyDamaged 10 "fork of a legacy source refused: damaged",
    StrictRefusal 5 "tree fork refused by the strict audit",
    DuplicateId 60 "commit refused: duplicate id",
    MissingParent 60 "commit refused: missing parent",
    SecondAttempt 60 "second commit of one scope refused",
    Pending 10 "pending assistant message refused",
    InvalidPayload 10 "payload refused",
    OnClosed 20 "operation on a closed session refused",
}

impl Bucket {
    fn is_of_legacy(self) -> bool {
        matches!(
            self,
            Self::LegacyV1
                | Self::LegacyV2
                | Self::LegacyV3
                | Self::LegacyTorn
                | Self::LegacyAtPlace
                | Self::LegacyAtId
                | Self::LegacyUpgraded
                | Self::LegacyOpen
                | Self::LegacyStaleId
                | Self::LegacyDamaged
        )
    }
}

/// Counts of one or many sequences.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Tally {
    /// Sequences.
    pub cases: u64,
    /// Operations by kind.
    pub operations: BTreeMap<&'static str, u64>,
    /// Operations of the closing examinations.
    pub examinations: u64,
    /// Forks that were made, by scope and position.
    pub forks: BTreeMap<&'static str, u64>,
    /// Refusals by error kind.
    pub refusals: BTreeMap<String, u64>,
    /// In how many sequences a bucket was reached.
    pub reached: BTreeMap<Bucket, u64>,
    /// Operations that some engine does not support, by what is missing.
    pub left_out: BTreeMap<Feature, u64>,
    /// Forks by engine pair: of the source, of the destination.
    pub pairs: BTreeMap<String, u64>,
}

impl Tally {
    /// Adds another run.
    pub fn add(&mut self, other: &Self) {
        fn sum<K: Ord + Clone>(left: &mut BTreeMap<K, u64>, right: &BTreeMap<K, u64>) {
            for (key, count) in right {
                *left.entry(key.clone()).or_default() += count;
            }
        }
        self.cases += other.cases;
        self.examinations += other.examinations;
        sum(&mut self.operations, &other.operations);
        sum(&mut self.forks, &other.forks);
        sum(&mut self.refusals, &other.refusals);
        sum(&mut self.reached, &other.reached);
        sum(&mut self.left_out, &other.left_out);
        sum(&mut self.pairs, &other.pairs);
    }

    /// In how many sequences a bucket was reached.
    pub fn reached(&self, bucket: Bucket) -> u64 {
        self.reached.get(&bucket).copied().unwrap_or(0)
    }

    /// All operations.
    pub fn operation_count(&self) -> u64 {
        self.operations.values().sum()
    }

    /// The floor of a bucket for as many sequences as there were; none while there were too few
    /// to expect it (a small number is no measure of a rare thing).
    pub fn floor(&self, bucket: Bucket) -> Option<u64> {
        const SURE: u64 = 10;
        let scaled = bucket.floor() * self.cases / 1000;
        if self.cases >= 1000 || scaled >= SURE { Some(scaled.max(1)) } else { None }
    }

    /// Buckets below their floors. Of legacy files nothing is expected where they were left out.
    pub fn missed(&self) -> Vec<Bucket> {
        let has_legacy = !self.left_out.contains_key(&Feature::Legacy);
        let is_missed = |bucket: &&Bucket| {
            (has_legacy || !bucket.is_of_legacy())
                && self.floor(**bucket).is_some_and(|floor| self.reached(**bucket) < floor)
        };
        Bucket::ALL.iter().filter(is_missed).copied().collect()
    }
}

/// What a session's past leaves on it.
#[derive(Debug, Clone, Default)]
struct Past {
    buckets: BTreeSet<Bucket>,
    deleted_lists: BTreeSet<forkline_model::Address>,
    /// How many forks stand between it and a session that was created.
    forks: usize,
    torn: Option<Bucket>,
    /// Of a session that came as a legacy file.
    legacy: BTreeSet<Bucket>,
}

/// A fork under way.
#[derive(Debug, Clone)]
struct Underway {
    request: ForkRequest,
    shapes: BTreeSet<Bucket>,
}

/// Watches one sequence.
#[derive(Debug, Default)]
pub(super) struct Watcher {
    tally: Tally,
    seen: BTreeSet<Bucket>,
    pasts: BTreeMap<(RepoIndex, SessionId), Past>,
    forks: BTreeMap<u64, Underway>,
    /// What the operation at hand would show if it is done.
    shown: BTreeSet<Bucket>,
    has_ended: bool,
}

impl Watcher {
    /// From here on the closing examination runs, which is not the generator's merit.
    pub(super) fn end_of_sequence(&mut self) {
        self.has_ended = true;
    }

    pub(super) fn into_tally(mut self) -> Tally {
        self.tally.cases = 1;
        self.tally.reached = self.seen.into_iter().map(|bucket| (bucket, 1)).collect();
        self.tally
    }

    pub(super) fn left_out(&mut self, feature: Feature) {
        *self.tally.left_out.entry(feature).or_default() += 1;
    }

    pub(super) fn before(&mut self, world: &World, op: &Op) {
        self.shown.clear();
        if self.has_ended {
            return;
        }
        match op {
            Op::Fork { request, .. } | Op::ForkBegin { request, .. } => {
                self.shown = self.shapes(world, request);
            }
            Op::Commit { repo, session, writes, .. } => {
                self.shown = shapes::changes(world, *repo, session, writes);
            }
            Op::Mutate { repo, session, attempts, .. } => {
                if let Some(writes) = attempts.first() {
                    self.shown = shapes::changes(world, *repo, session, writes);
                }
            }
            _ => {}
        }
        self.shown.extend(shapes::upgrades(world, op));
    }

    pub(super) fn after(&mut self, world: &World, op: &Op, answer: &Answer) {
        if self.has_ended {
            self.tally.examinations += 1;
            return;
        }
        *self.tally.operations.entry(shapes::op_name(op)).or_default() += 1;
        if let Answer::Error { kind } = answer {
            *self.tally.refusals.entry(shapes::kind_name(*kind)).or_default() += 1;
            self.refused(op, *kind);
            if let Op::ForkFinish { ticket, .. } = op {
                self.forks.remove(ticket);
            }
            return;
        }
        match op {
            Op::Create { repo, id, .. } => {
                self.pasts.insert((*repo, id.clone()), Past::default());
            }
            Op::Plant { repo, session, lines, torn } => {
                let legacy = shapes::legacy_file(lines, torn);
                let past = Past { legacy, ..Past::default() };
                self.pasts.insert((*repo, session.clone()), past);
            }
            Op::Fork { request, .. } => {
                let shown = std::mem::take(&mut self.shown);
                self.forked(request, shown);
            }
            Op::ForkBegin { ticket, request } => {
                let shapes = std::mem::take(&mut self.shown);
                self.forks.insert(*ticket, Underway { request: request.clone(), shapes });
            }
            Op::ForkFinish { ticket, .. } => {
                if let Some(fork) = self.forks.remove(ticket) {
                    self.forked(&fork.request, fork.shapes);
                }
            }
            Op::Open { repo, session } | Op::Reopen { repo, session } => {
                let past = self.past(*repo, session);
                past.buckets.insert(Bucket::Reopened);
                past.torn = None;
            }
            Op::TearTail { repo, session, text } if !text.is_empty() => {
                let parses = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
                let torn = if parses { Bucket::TornParses } else { Bucket::TornTail };
                self.past(*repo, session).torn = Some(torn);
            }
            Op::Close { repo, session } => {
                self.meanwhile(*repo, session, Bucket::ClosedMeanwhile);
            }
            Op::Delete { repo, session } => {
                self.meanwhile(*repo, session, Bucket::DeletedMeanwhile);
            }
            _ => self.committed(world, op, answer),
        }
    }

    fn past(&mut self, repo: RepoIndex, session: &SessionId) -> &mut Past {
        self.pasts.entry((repo, session.clone())).or_default()
    }

    /// Something happened to a source while its fork is under way.
    fn meanwhile(&mut self, repo: RepoIndex, session: &SessionId, bucket: Bucket) {
        for fork in self.forks.values_mut() {
            if fork.request.from == repo && fork.request.source == *session {
                fork.shapes.insert(bucket);
            }
        }
    }

    fn committed(&mut self, world: &World, op: &Op, answer: &Answer) {
        let attempts = match answer {
            Answer::Scope { attempts, .. } => attempts.as_slice(),
            other => std::slice::from_ref(other),
        };
        for attempt in attempts {
            if let Answer::Error { kind } = attempt {
                self.refused(op, *kind);
            }
        }
        let Some(Answer::Committed(committed)) = attempts.first() else { return };
        let (repo, session, writes) = match op {
            Op::Commit { repo, session, writes, .. } => (*repo, session, writes.as_slice()),
            Op::Mutate { repo, session, attempts, .. } => {
                (*repo, session, attempts.first().map_or(&[][..], Vec::as_slice))
            }
            Op::CreateBranch { repo, session, .. }
            | Op::Append { repo, session, .. }
            | Op::SetName { repo, session, .. }
            | Op::SetLabel { repo, session, .. } => (*repo, session, &[][..]),
            _ => return,
        };
        if committed.writes == 0 {
            self.shown.remove(&Bucket::LegacyUpgraded);
        } else {
            self.meanwhile(repo, session, Bucket::CommitAfterBoundary);
        }
        let shown = std::mem::take(&mut self.shown);
        let past = self.past(repo, session);
        past.buckets.extend(shown);
        let recreated = shapes::recreated(&mut past.deleted_lists, writes);
        past.buckets.extend(recreated);
        if past.forks > 0 {
            self.seen.insert(Bucket::CommitToFork);
        }
        let _ = world;
    }

    /// The shapes that a fork made of this request would show.
    fn shapes(&self, world: &World, request: &ForkRequest) -> BTreeSet<Bucket> {
        let Some(source) = world.session(request.from, &request.source) else {
            return BTreeSet::new();
        };
        let mut shapes = shapes_of(source.state());
        shapes.extend(shapes::fork_point(source.state(), &request.scope));
        if let (Some(_), Some(past)) =
            (source.legacy(), self.pasts.get(&(request.from, request.source.clone())))
        {
            shapes.extend(past.legacy.iter().copied());
            shapes.extend(shapes::of_legacy(source, request));
            if !past.buckets.contains(&Bucket::Reopened) {
                shapes.remove(&Bucket::LegacyStaleId);
            }
        }
        if let Some(past) = self.pasts.get(&(request.from, request.source.clone())) {
            let is_dead = |bucket: &Bucket| {
                *bucket != Bucket::ReservedDead || !shapes::has_unknown_reserved(source.state())
            };
            shapes.extend(past.buckets.iter().copied().filter(is_dead));
            shapes.extend(past.torn);
            shapes.extend((past.forks >= 1).then_some(Bucket::ForkOfFork));
            shapes.extend((past.forks >= 2).then_some(Bucket::ForkThrice));
        }
        shapes.extend((request.from != request.into).then_some(Bucket::ForkAcross));
        shapes.extend(match (source.is_open(), request.closed) {
            (false, _) => Some(Bucket::ForkClosed),
            (true, true) => Some(Bucket::ForkAtPlace),
            (true, false) => None,
        });
        let is_hostile =
            shapes::is_hostile(request.id.as_str()) || shapes::is_hostile(request.source.as_str());
        shapes.extend(is_hostile.then_some(Bucket::HostileSession));
        shapes
    }

    fn forked(&mut self, request: &ForkRequest, shapes: BTreeSet<Bucket>) {
        self.seen.extend(shapes);
        let scope = match &request.scope {
            Scope::Tree => "tree",
            Scope::Branch { entry: None, position: Position::At, .. } => "branch at its tip",
            Scope::Branch { entry: None, .. } => "branch before its tip",
            Scope::Branch { position: Position::At, .. } => "branch at an entry",
            Scope::Branch { .. } => "branch before an entry",
        };
        *self.tally.forks.entry(scope).or_default() += 1;
        let forks = self.past(request.from, &request.source).forks + 1;
        self.pasts.insert((request.into, request.id.clone()), Past { forks, ..Past::default() });
    }

    /// A fork of an engine's session into an engine was made.
    pub(super) fn crossed(&mut self, from: &str, into: &str) {
        *self.tally.pairs.entry(format!("{from} > {into}")).or_default() += 1;
    }

    fn refused(&mut self, op: &Op, kind: ErrorKind) {
        let (request, shown) = match op {
            Op::Fork { request, .. } | Op::ForkBegin { request, .. } => {
                (Some(request), Some(&self.shown))
            }
            Op::ForkFinish { ticket, .. } => {
                let fork = self.forks.get(ticket);
                (fork.map(|fork| &fork.request), fork.map(|fork| &fork.shapes))
            }
            _ => (None, None),
        };
        let would_show = |bucket: &Bucket| shown.is_some_and(|shown| shown.contains(bucket));
        let of_legacy = match kind {
            ErrorKind::OpenLegacySource => Some(Bucket::LegacyOpen),
            ErrorKind::EntryNotOnBranch => Some(Bucket::LegacyStaleId).filter(would_show),
            ErrorKind::CorruptSource => Some(Bucket::LegacyDamaged).filter(would_show),
            _ => None,
        };
        let is_tree = request.is_some_and(|request| request.scope == Scope::Tree);
        let is_fork = request.is_some();
        let in_use = |repo: RepoIndex, id: &SessionId| {
            let mut under_way = self.forks.values().map(|fork| &fork.request);
            under_way.any(|request| request.into == repo && request.id == *id)
        };
        let is_race = match op {
            Op::Create { repo, id: session, .. }
            | Op::Open { repo, session }
            | Op::Delete { repo, session } => in_use(*repo, session),
            Op::Fork { request, .. } | Op::ForkBegin { request, .. } => {
                kind == ErrorKind::SessionExists && in_use(request.into, &request.id)
            }
            _ => false,
        };
        let bucket = match kind {
            ErrorKind::SessionExists if is_fork => Some(Bucket::TakenId),
            ErrorKind::UnknownReserved => Some(Bucket::ReservedAlive),
            ErrorKind::EntryNotOnBranch => Some(Bucket::OffBranch),
            ErrorKind::NotALane => Some(Bucket::NotALane),
            ErrorKind::CorruptLane if is_fork && !is_tree => Some(Bucket::CorruptLane),
            ErrorKind::UnknownBranch if is_fork => Some(Bucket::UnknownBranch),
            ErrorKind::UnknownSession if is_fork => Some(Bucket::UnknownSource),
            ErrorKind::CorruptLane | ErrorKind::CorruptSource if is_tree => {
                Some(Bucket::StrictRefusal)
            }
            ErrorKind::DuplicateId => Some(Bucket::DuplicateId),
            ErrorKind::MissingParent => Some(Bucket::MissingParent),
            ErrorKind::CommitAttempted => Some(Bucket::SecondAttempt),
            ErrorKind::PendingAssistant => Some(Bucket::Pending),
            ErrorKind::InvalidPayload => Some(Bucket::InvalidPayload),
            ErrorKind::Closed => Some(Bucket::OnClosed),
            _ => None,
        };
        self.seen.extend(bucket);
        self.seen.extend(of_legacy);
        self.seen.extend(is_race.then_some(Bucket::IdRace));
        let is_about_source =
            is_fork && !matches!(kind, ErrorKind::SessionExists | ErrorKind::UnknownSession);
        self.seen.extend(is_about_source.then_some(Bucket::RefusedFork));
    }
}
