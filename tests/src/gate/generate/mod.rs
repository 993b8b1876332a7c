//! Random operations for a state of the world.
//!
//! An operation is valid, or wrong on purpose in one way: no draw is thrown away. What the
//! generator must reach (GATE.md) is what its weights are for, and a coverage table tells
//! whether it does.

mod commits;
mod forks;
mod legacy;
mod reads;
pub(crate) mod texts;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use forkline_model::{
    Answer, BranchName, EntryId, EntryType, ForkRequest, LaneAudit, Millis, Op, RepoIndex,
    SessionId, State, TypeName, World,
};

use super::contest::Place;
use super::dice::Dice;
use super::legacy as legacy_world;

/// How many repositories a sequence has.
pub const REPOS: usize = 2;

/// So many turns fall evenly on up to four engines.
const TURNS: usize = 12;

/// The repository behind those, of JSONL whatever they are: legacy files are planted there.
pub const SOURCES: RepoIndex = REPOS;

/// With so many sessions nothing new is created: operations would spread too thin.
const STORED_MAX: usize = 5;

/// What is chosen once for a sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// The lane audit of all repositories.
    pub audit: LaneAudit,
    /// The working directory of all sessions.
    pub cwd: String,
    /// Which engine has its turn, where they take turns.
    pub turn: usize,
    /// How far apart the engines of the two repositories are in the list of engines; zero runs
    /// each engine with itself.
    pub shift: usize,
    /// Whether the closing examination compares forks of forks.
    pub algebra: bool,
    /// What there is more of than in other sequences.
    pub theme: Theme,
}

/// What there is more of in a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    /// Of everything.
    Mixed,
    /// Entries.
    Trees,
    /// Values and lists.
    Stores,
    /// Lanes, their rows, and operations.
    Lanes,
    /// Forks, of forks too.
    Forks,
    /// Opening, closing, deleting, torn tails, ids in use.
    Lifecycle,
    /// Sessions whose files are of older versions.
    Legacy,
}

/// The state of the reference while a sequence is made: the model's world and what a generator
/// has to remember of the way there.
#[derive(Debug, Clone)]
pub struct Reference {
    /// What was chosen once.
    pub setup: Setup,
    /// The model.
    pub world: Arc<World>,
    /// How many operations there were; new ids and times come from it.
    step: u64,
    /// Every session that was there at some time.
    known: Vec<(RepoIndex, SessionId)>,
    /// The sessions whose file ends in half a line.
    torn: Vec<(RepoIndex, SessionId)>,
    /// The destinations of forks that were refused.
    refused: Vec<(RepoIndex, SessionId)>,
    /// The forks under way.
    tickets: BTreeMap<u64, ForkRequest>,
}

impl Setup {
    pub(super) fn draw(seed: u64) -> Self {
        const CWDS: [&str; 4] =
            ["/gate", "/home/me/my project", "/caf\u{e9}/\u{1f600}", "C:\\work\\x"];
        let mut dice = Dice::new(seed);
        let themes = [
            (4, Theme::Mixed),
            (3, Theme::Trees),
            (3, Theme::Stores),
            (3, Theme::Lanes),
            (4, Theme::Forks),
            (3, Theme::Lifecycle),
            (4, Theme::Legacy),
        ];
        Self {
            audit: if dice.chance(25) { LaneAudit::Strict } else { LaneAudit::Selected },
            cwd: dice.text(&CWDS).to_owned(),
            turn: dice.below(TURNS),
            shift: dice.below(TURNS),
            algebra: dice.chance(35),
            theme: dice.weighted(&themes),
        }
    }

    /// Where the engines of such a sequence are set up.
    pub fn place<'a>(&'a self, folder: &'a Path) -> Place<'a> {
        let Self { audit, cwd, turn, shift, algebra, theme: _ } = self;
        let (audit, turn, shift, algebra) = (*audit, *turn, *shift, *algebra);
        Place { folder, audit, cwd, turn, shift, algebra }
    }
}

impl Reference {
    /// Nothing yet.
    pub fn new(setup: Setup) -> Self {
        let world = Arc::new(World::new(setup.audit));
        Self {
            setup,
            world,
            step: 0,
            known: Vec::new(),
            torn: Vec::new(),
            refused: Vec::new(),
            tickets: BTreeMap::new(),
        }
    }

    /// Runs an operation on the model and remembers what the generator needs.
    pub fn apply(&mut self, op: &Op) -> Answer {
        let answer = legacy_world::run(Arc::make_mut(&mut self.world), op);
        self.step += 1;
        let is_done = !matches!(answer, Answer::Error { .. });
        let mut remember = |repo: RepoIndex, id: &SessionId| {
            let known = (repo, id.clone());
            if is_done && !self.known.contains(&known) {
                self.known.push(known);
            }
        };
        match op {
            Op::Fork { request, .. } | Op::ForkBegin { request, .. } if !is_done => {
                self.refused.push((request.into, request.id.clone()));
            }
            Op::TearTail { repo, session, text } if is_done && !text.is_empty() => {
                self.torn.push((*repo, session.clone()));
            }
            Op::Open { repo, session } | Op::Delete { repo, session } if is_done => {
                self.torn.retain(|(at, id)| at != repo || id != session);
            }
            Op::Create { repo, id, .. } | Op::Plant { repo, session: id, .. } => {
                remember(*repo, id);
            }
            Op::Fork { request, .. } => remember(request.into, &request.id),
            Op::ForkBegin { ticket, request } if is_done => {
                self.tickets.insert(*ticket, request.clone());
            }
            Op::ForkFinish { ticket, .. } => {
                if let Some(request) = self.tickets.remove(ticket) {
                    remember(request.into, &request.id);
                }
            }
            _ => {}
        }
        answer
    }

    /// The next operation, made of one seed.
    pub fn next_op(&self, seed: u64) -> Op {
        Maker { reference: self, dice: Dice::new(seed), focus: None }.op()
    }
}

/// Makes one operation.
struct Maker<'a> {
    reference: &'a Reference,
    dice: Dice,
    /// The session that it is about, if that is settled.
    focus: Option<(RepoIndex, SessionId)>,
}

#[derive(Clone, Copy)]
enum Kind {
    Create,
    Open,
    Close,
    Reopen,
    Delete,
    List,
    Commit,
    Mutate,
    CreateBranch,
    Append,
    SetName,
    SetLabel,
    Fork,
    ForkBegin,
    ForkFinish,
    TearTail,
    Read,
}

impl Maker<'_> {
    fn op(mut self) -> Op {
        if let Some(op) = self.about_legacy() {
            return op;
        }
        let open = self.sessions(|session| session == Some(true)).len();
        if open == 0 && self.dice.chance(85) {
            let closed = self.sessions(|session| session == Some(false)).len();
            return if closed > 2 && self.dice.chance(70) { self.open() } else { self.create() };
        }
        let theme = self.reference.setup.theme;
        let more = |of: Theme, weight: usize, otherwise: usize| {
            if theme == of { weight } else { otherwise }
        };
        let stored = self.sessions(|session| session.is_some()).len();
        let finish = if self.reference.tickets.is_empty() { 1 } else { 22 };
        let life = |weight: usize| more(Theme::Lifecycle, 2 * weight, weight);
        let kind = self.dice.weighted(&[
            (if stored < STORED_MAX { life(2) } else { 0 }, Kind::Create),
            (life(3), Kind::Open),
            (life(4), Kind::Close),
            (life(4), Kind::Reopen),
            (life(2), Kind::Delete),
            (1, Kind::List),
            (more(Theme::Stores, 40, 28), Kind::Commit),
            (5, Kind::Mutate),
            (more(Theme::Lanes, 9, 4), Kind::CreateBranch),
            (more(Theme::Trees, 20, 10), Kind::Append),
            (1, Kind::SetName),
            (3, Kind::SetLabel),
            (more(Theme::Forks, 30, 14), Kind::Fork),
            (more(Theme::Forks, 12, 6), Kind::ForkBegin),
            (finish, Kind::ForkFinish),
            (life(3), Kind::TearTail),
            (9, Kind::Read),
        ]);
        self.of_kind(kind)
    }

    fn of_kind(&mut self, kind: Kind) -> Op {
        match kind {
            Kind::Create => self.create(),
            Kind::Open => self.open(),
            Kind::Close => self.on_open(|repo, session| Op::Close { repo, session }),
            Kind::Reopen => self.on_any(|repo, session| Op::Reopen { repo, session }),
            Kind::Delete => self.on_closed(|repo, session| Op::Delete { repo, session }),
            Kind::List => Op::List { repo: self.dice.below(REPOS) },
            Kind::Commit => self.commit(),
            Kind::Mutate => self.mutate(),
            Kind::CreateBranch => self.create_branch(),
            Kind::Append => self.append(),
            Kind::SetName => self.set_name(),
            Kind::SetLabel => self.set_label(),
            Kind::Fork => self.fork(),
            Kind::ForkBegin => self.fork_begin(),
            Kind::ForkFinish => self.fork_finish(),
            Kind::TearTail => self.tear_tail(),
            Kind::Read => self.read(),
        }
    }

    // ---- which session ----

    /// Known sessions of which `wanted` holds: whether they are open, or none if not stored.
    fn sessions(&self, wanted: impl Fn(Option<bool>) -> bool) -> Vec<(RepoIndex, SessionId)> {
        let world = &self.reference.world;
        let is = |(repo, id): &&(RepoIndex, SessionId)| {
            wanted(world.session(*repo, id).map(forkline_model::world::Session::is_open))
        };
        self.reference.known.iter().filter(is).cloned().collect()
    }

    /// Mostly an open one; else any that is or was there, or one that never was.
    fn pick_session(&mut self, wanted: impl Fn(Option<bool>) -> bool) -> (RepoIndex, SessionId) {
        if let Some(focus) = &self.focus {
            return focus.clone();
        }
        let mut fitting = self.sessions(wanted);
        if fitting.is_empty() {
            fitting = self.sessions(|session| session.is_some());
        }
        // Late ones more often: they have more behind them.
        if let Some(last) = fitting.last().filter(|_| self.dice.chance(25)) {
            return last.clone();
        }
        let fitting = if self.dice.chance(94) { fitting } else { self.reference.known.clone() };
        let unknown = || (0, SessionId::new("nobody").expect("it is a valid id"));
        self.dice.pick_any(&fitting).cloned().unwrap_or_else(unknown)
    }

    fn pick_open(&mut self) -> (RepoIndex, SessionId) {
        self.pick_session(|session| session == Some(true))
    }

    /// Of two sessions the one with more entries, mostly.
    fn pick_rich(&mut self, is_open: bool) -> (RepoIndex, SessionId) {
        let wanted = move |session: Option<bool>| session == Some(is_open);
        let (one, other) = (self.pick_session(wanted), self.pick_session(wanted));
        let entries = |(repo, id): &(RepoIndex, SessionId)| {
            self.state(*repo, id).map_or(0, |state| state.entries().len())
        };
        let is_richer = entries(&other) > entries(&one);
        if is_richer && self.dice.chance(80) { other } else { one }
    }

    fn on_open(&mut self, op: impl Fn(RepoIndex, SessionId) -> Op) -> Op {
        let (repo, session) = self.pick_open();
        op(repo, session)
    }

    fn on_any(&mut self, op: impl Fn(RepoIndex, SessionId) -> Op) -> Op {
        let (repo, session) = self.pick_session(|session| session.is_some());
        op(repo, session)
    }

    fn on_closed(&mut self, op: impl Fn(RepoIndex, SessionId) -> Op) -> Op {
        let (repo, session) = self.pick_session(|session| session == Some(false));
        op(repo, session)
    }

    fn state(&self, repo: RepoIndex, session: &SessionId) -> Option<&State> {
        self.reference.world.session(repo, session).map(forkline_model::world::Session::state)
    }

    /// Mostly later than all before, sometimes the same moment or earlier.
    fn time(&mut self) -> Millis {
        const START: u64 = 1_700_000_000_000;
        let steps = match self.dice.below(10) {
            0 => 0,
            1 => self.reference.step / 2,
            _ => self.reference.step,
        };
        Millis::new(START + 7 * steps).expect("it is long before the end of time")
    }

    // ---- lifecycle ----

    fn create(&mut self) -> Op {
        let repo = self.dice.below(REPOS);
        let taken = self.dice.chance(8).then(|| self.taken_id(repo)).flatten();
        let id = match taken {
            Some(id) => id,
            None => texts::session_id(&mut self.dice, self.reference.step),
        };
        let parent = self.dice.chance(10).then(|| self.pick_open().1);
        let cwd = Some(self.reference.setup.cwd.clone());
        Op::Create { repo, id, cwd, parent, created_at: self.time() }
    }

    /// An id that is stored, reserved, or was deleted, in that repository.
    fn taken_id(&mut self, repo: RepoIndex) -> Option<SessionId> {
        let known = self.reference.known.iter().filter(|(at, _)| *at == repo);
        let reserved = self.reference.tickets.values().filter(|request| request.into == repo);
        let reserved: Vec<SessionId> = reserved.map(|request| request.id.clone()).collect();
        if !reserved.is_empty() && self.dice.chance(60) {
            return self.dice.pick_any(&reserved).cloned();
        }
        let known: Vec<SessionId> = known.map(|(_, id)| id.clone()).collect();
        self.dice.pick_any(&known).cloned()
    }

    /// Mostly a closed session, sometimes one whose id is reserved.
    fn open(&mut self) -> Op {
        let (repo, mut session) = self.pick_session(|session| session == Some(false));
        if self.dice.chance(15)
            && let Some(taken) = self.taken_id(repo)
        {
            session = taken;
        }
        if self.dice.chance(8) { Op::Delete { repo, session } } else { Op::Open { repo, session } }
    }

    /// Half a commit, or one that is whole but for its line break.
    fn tear_tail(&mut self) -> Op {
        let (repo, session) = self.pick_session(|session| session == Some(false));
        let next = self.state(repo, &session).map_or(1, State::next_seq);
        let whole = format!(
            r#"{{"kind":"value","op":"set","seq":{next},"namespace":"app.x","key":"torn","value":1}}"#
        );
        let text = match self.dice.below(5) {
            0 => whole,
            1 => format!("[{whole},"),
            2 => String::new(),
            3 => "{\"kind\":\"entry\",\"id\":\"torn".to_owned(),
            _ => whole.chars().take(self.dice.between(1, 40)).collect(),
        };
        Op::TearTail { repo, session, text }
    }

    // ---- branches, entries, name, labels ----

    fn create_branch(&mut self) -> Op {
        let (repo, session) = self.pick_open();
        let at = if self.dice.chance(65) { self.some_entry(repo, &session) } else { None };
        let branch = texts::branch(&mut self.dice);
        Op::CreateBranch { repo, session, branch, at, timestamp: self.time() }
    }

    fn append(&mut self) -> Op {
        let (repo, session) = self.pick_open();
        let branch = self.some_branch(repo, &session);
        let id = match self.some_entry(repo, &session).filter(|_| self.dice.chance(4)) {
            Some(used) => used,
            None => texts::entry_id(&mut self.dice, self.reference.step, 0),
        };
        let (entry_type, custom_type) = self.entry_type();
        let payload = match self.dice.below(25) {
            0 => texts::json(r#"{"message":{"role":"assistant","stopReason":"pending"}}"#),
            1 => texts::json(r#"{"seq":1}"#),
            _ => texts::message(&mut self.dice),
        };
        let timestamp = self.time();
        Op::Append { repo, session, branch, id, entry_type, custom_type, payload, timestamp }
    }

    fn entry_type(&mut self) -> (EntryType, Option<TypeName>) {
        let named = |name: &str| TypeName::new(name).expect("it is a valid name");
        match self.dice.below(12) {
            0 => (EntryType::Custom, None),
            1 => (EntryType::Custom, Some(named("note"))),
            2 => (EntryType::Custom, Some(named("a%_'\n\u{1f600}"))),
            3 | 4 => (EntryType::Compaction, None),
            5 => (EntryType::BranchSummary, None),
            6 => (EntryType::Other(named("of tomorrow")), None),
            _ => (EntryType::Message, None),
        }
    }

    fn set_name(&mut self) -> Op {
        let (repo, session) = self.pick_open();
        let name = self.dice.text(&texts::HOSTILE).to_owned();
        Op::SetName { repo, session, name, timestamp: self.time() }
    }

    fn set_label(&mut self) -> Op {
        let (repo, session) = self.pick_open();
        let entry = self.some_entry(repo, &session).filter(|_| self.dice.chance(93));
        let entry = entry.unwrap_or_else(|| EntryId::new("nothing").expect("it is a valid id"));
        let label = self.dice.chance(80).then(|| self.dice.text(&texts::HOSTILE).to_owned());
        Op::SetLabel { repo, session, entry, label, timestamp: self.time() }
    }

    /// An entry of that session, late ones more often.
    fn some_entry(&mut self, repo: RepoIndex, session: &SessionId) -> Option<EntryId> {
        let state = self.state(repo, session)?;
        let ids: Vec<EntryId> = state.entries().values().map(|entry| entry.id.clone()).collect();
        match ids.last() {
            Some(last) if self.dice.chance(35) => Some(last.clone()),
            _ => self.dice.pick_any(&ids).cloned(),
        }
    }

    /// A branch of that session, or some name.
    fn some_branch(&mut self, repo: RepoIndex, session: &SessionId) -> BranchName {
        let branches = self.state(repo, session).map(State::branches).unwrap_or_default();
        match self.dice.pick_any(&branches).cloned() {
            Some(branch) if self.dice.chance(93) => branch,
            _ => texts::branch(&mut self.dice),
        }
    }
}
