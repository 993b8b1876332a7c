//! Forks: scopes, positions, sources and ids, right ones and wrong ones.

use forkline_model::{
    BranchName, EntryId, ForkRequest, Op, Position, RepoIndex, Scope, SessionId, State, lanes,
    policy::LaneShape,
};

use super::{Maker, REPOS, SOURCES, texts};

impl Maker<'_> {
    pub(super) fn fork(&mut self) -> Op {
        let request = self.request();
        Op::Fork { request, open: self.dice.chance(60) }
    }

    pub(super) fn fork_begin(&mut self) -> Op {
        let used = self.reference.tickets.keys().next().copied();
        let ticket = match used {
            Some(used) if self.dice.chance(5) => used,
            _ => self.reference.step,
        };
        Op::ForkBegin { ticket, request: self.request() }
    }

    pub(super) fn fork_finish(&mut self) -> Op {
        let tickets: Vec<u64> = self.reference.tickets.keys().copied().collect();
        let ticket = self.dice.pick_any(&tickets).copied().unwrap_or(self.reference.step);
        Op::ForkFinish { ticket, open: self.dice.chance(60) }
    }

    fn request(&mut self) -> ForkRequest {
        let torn = self.dice.pick_any(&self.reference.torn).cloned();
        let (from, source) = match torn.filter(|_| self.focus.is_none()) {
            Some(torn) if self.dice.chance(30) => torn,
            _ => {
                let is_open = self.dice.chance(70);
                self.pick_rich(is_open)
            }
        };
        let into = match from {
            SOURCES => self.dice.below(SOURCES + 1),
            _ if self.dice.chance(60) => from,
            _ => self.dice.below(REPOS),
        };
        let taken = self.dice.chance(7).then(|| self.taken_id(into)).flatten();
        let id = match taken.or_else(|| self.refused_id(into)) {
            Some(id) => id,
            None => texts::session_id(&mut self.dice, self.reference.step),
        };
        let scope = self.scope(from, &source);
        let legacy = self.reference.world.session(from, &source);
        let legacy = legacy.and_then(forkline_model::world::Session::legacy);
        ForkRequest {
            scope: match legacy {
                Some(legacy) => self.as_in_file(scope, legacy),
                None => scope,
            },
            from,
            source,
            into,
            id,
            created_at: self.time(),
            cwd: Some(self.reference.setup.cwd.clone()),
            closed: self.dice.chance(if legacy.is_some() { 40 } else { 25 }),
        }
    }

    /// Often the id of a fork that was refused: it is free again.
    fn refused_id(&mut self, into: RepoIndex) -> Option<SessionId> {
        let refused: Vec<SessionId> = (self.reference.refused.iter())
            .filter(|(at, _)| *at == into)
            .map(|(_, id)| id.clone())
            .collect();
        if self.dice.chance(25) { self.dice.pick_any(&refused).cloned() } else { None }
    }

    fn scope(&mut self, from: RepoIndex, source: &SessionId) -> Scope {
        let Some(state) = self.state(from, source).cloned() else { return Scope::Tree };
        let names: Vec<BranchName> = lanes::lanes(&state).into_iter().map(|it| it.branch).collect();
        let is_lane = |name: &&BranchName| {
            forkline_model::Lane::of(&state, name).shape() == LaneShape::Complete
        };
        let complete: Vec<BranchName> = names.iter().filter(is_lane).cloned().collect();
        if self.dice.chance(if complete.is_empty() { 75 } else { 25 }) {
            return Scope::Tree;
        }
        let pool = if self.dice.chance(85) && !complete.is_empty() { &complete } else { &names };
        let branch = match self.dice.pick_any(pool) {
            Some(name) if self.dice.chance(96) => name.clone(),
            _ => texts::branch(&mut self.dice),
        };
        let position = if self.dice.chance(60) { Position::At } else { Position::Before };
        Scope::Branch { entry: self.fork_point(&state, &branch), branch, position }
    }

    /// None for the tip; an entry on the path, the root more often than by chance; or one off it.
    fn fork_point(&mut self, state: &State, branch: &BranchName) -> Option<EntryId> {
        let tip = state.tip(branch).ok().flatten();
        let path = tip.iter().flat_map(|tip| state.ancestry(tip));
        let path: Vec<&EntryId> = path.map(|entry| &entry.id).collect();
        match self.dice.below(14) {
            0..=3 => None,
            4 | 5 => path.last().copied().cloned(),
            6 => {
                let all: Vec<EntryId> =
                    state.entries().values().map(|entry| entry.id.clone()).collect();
                self.dice.pick_any(&all).cloned()
            }
            // On another branch and not on this one.
            11 | 12 => {
                let others = state.branches().into_iter().filter(|other| other != branch);
                let ends = others.filter_map(|other| state.tip(&other).ok().flatten());
                let off: Vec<EntryId> = ends.filter(|end| !path.contains(&end)).collect();
                self.dice.pick_any(&off).or(path.last().copied()).cloned()
            }
            7 if self.dice.chance(30) => EntryId::new("nothing").ok(),
            _ => self.dice.pick_any(&path).copied().cloned(),
        }
    }
}
