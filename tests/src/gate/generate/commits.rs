//! Commits: every kind of write, in the shapes that forks have to tell apart.

use forkline_model::{
    Address, EntryId, Json, NewEntry, NewUsage, Op, RepoIndex, SessionId, State, StoreKind, Write,
    lanes, policy,
};

use super::{Maker, Theme, texts};

/// Deeper than reliability.md §2.1 asks for.
const DEEP: usize = 54;

#[derive(Clone, Copy)]
enum Shape {
    Chain,
    DeepChain,
    Fan,
    Root,
    Lane,
    PartialLane,
    Tip,
    BeginOperation,
    SettleOperation,
    Values,
    DeleteValue,
    Elements,
    DeleteList,
    RecreateList,
    Usage,
    Reserved,
    ClearReserved,
    LabelOfNothing,
    Nothing,
}

impl Maker<'_> {
    pub(super) fn commit(&mut self) -> Op {
        let (repo, session) = self.pick_open();
        let writes = self.writes(repo, &session);
        Op::Commit { repo, session, writes, timestamp: self.time() }
    }

    pub(super) fn mutate(&mut self) -> Op {
        let (repo, session) = self.pick_open();
        let reads = (0..self.dice.below(3)).map(|_| self.read_op(repo, &session)).collect();
        let count = self.dice.weighted(&[(1, 0), (5, 1), (3, 2)]);
        let attempts = (0..count).map(|_| self.writes(repo, &session)).collect();
        Op::Mutate { repo, session, reads, attempts, timestamp: self.time() }
    }

    /// The writes of one commit; every tenth has one that is refused.
    fn writes(&mut self, repo: RepoIndex, session: &SessionId) -> Vec<Write> {
        let nothing_there = State::new(forkline_model::Metadata {
            id: session.clone(),
            created_at: forkline_model::Millis::EPOCH,
            cwd: None,
            parent_session_id: None,
            legacy_parent_session_path: None,
        });
        let state = self.state(repo, session).cloned().unwrap_or(nothing_there);
        let shapes = self.dice.weighted(&[(6, 1), (3, 2), (1, 3)]);
        let mut writes: Vec<Write> = Vec::new();
        for _ in 0..shapes {
            let shape = self.shape(&state);
            let more = self.of_shape(shape, &state, writes.len());
            writes.extend(more);
        }
        if self.dice.chance(8) {
            let refused = self.refused(&state, writes.len());
            let at = self.dice.below(writes.len() + 1);
            writes.insert(at, refused);
        }
        writes
    }

    fn shape(&mut self, state: &State) -> Shape {
        let theme = self.reference.setup.theme;
        let more = |of: Theme, weight: usize| if theme == of { 3 * weight } else { weight };
        let has = |wanted: fn(&Address) -> bool| state.values().keys().any(wanted);
        let is_open = has(|at| at.namespace.as_str() == policy::OP_META);
        // What makes every fork fail goes soon again.
        let is_unknown = unknown_reserved(state).next().is_some();
        let is_lane = |lane: forkline_model::Lane| lane.shape() == policy::LaneShape::Complete;
        // A session has a lane soon, and something on it.
        let lane = if lanes::lanes(state).into_iter().any(is_lane) { 6 } else { 25 };
        let chain = if state.entries().len() < 4 { 25 } else { 10 };
        self.dice.weighted(&[
            (more(Theme::Trees, chain), Shape::Chain),
            (more(Theme::Trees, 2), Shape::DeepChain),
            (more(Theme::Trees, 6), Shape::Fan),
            (more(Theme::Trees, 3), Shape::Root),
            (more(Theme::Lanes, lane), Shape::Lane),
            (more(Theme::Lanes, 2), Shape::PartialLane),
            (more(Theme::Lanes, 5), Shape::Tip),
            (more(Theme::Lanes, 4), Shape::BeginOperation),
            (if is_open { more(Theme::Lanes, 8) } else { 0 }, Shape::SettleOperation),
            (more(Theme::Stores, 8), Shape::Values),
            (more(Theme::Stores, 5), Shape::DeleteValue),
            (more(Theme::Stores, 6), Shape::Elements),
            (more(Theme::Stores, 2), Shape::DeleteList),
            (more(Theme::Stores, 3), Shape::RecreateList),
            (4, Shape::Usage),
            (4, Shape::Reserved),
            (if is_unknown { 45 } else { 0 }, Shape::ClearReserved),
            (2, Shape::LabelOfNothing),
            (1, Shape::Nothing),
        ])
    }

    fn of_shape(&mut self, shape: Shape, state: &State, nth: usize) -> Vec<Write> {
        match shape {
            Shape::Chain => {
                let (parent, length) = (self.parent(state), self.dice.between(1, 6));
                self.chain(parent, length, nth)
            }
            Shape::DeepChain => {
                let (parent, length) = (self.parent(state), self.dice.between(DEEP, DEEP + 10));
                self.chain(parent, length, nth)
            }
            Shape::Fan => self.fan(state, nth),
            Shape::Root => {
                let length = self.dice.between(1, 3);
                self.chain(None, length, nth)
            }
            Shape::Lane => self.lane(state, nth),
            Shape::PartialLane => self.partial_lane(),
            Shape::Tip => self.tip(state),
            Shape::BeginOperation => self.begin_operation(state),
            Shape::SettleOperation => settle_operation(state),
            Shape::Values => {
                (0..self.dice.between(1, 4)).map(|_| self.set_somewhere(state)).collect()
            }
            Shape::DeleteValue => {
                let address = self.value_address(state);
                vec![Write::DeleteValue { address }]
            }
            Shape::Elements => self.elements(state),
            Shape::DeleteList => {
                let address = self.list_address(state);
                vec![Write::DeleteList { address }]
            }
            Shape::RecreateList => self.recreate_list(state),
            Shape::Usage => vec![self.usage(state, nth)],
            Shape::Reserved => self.reserved(),
            Shape::ClearReserved => unknown_reserved(state).collect(),
            Shape::LabelOfNothing => {
                let id = format!("later{}", self.reference.step);
                vec![set(texts::address_of(policy::ENTRY_LABEL, &id), texts::value(&mut self.dice))]
            }
            Shape::Nothing => Vec::new(),
        }
    }

    // ---- entries ----

    fn parent(&mut self, state: &State) -> Option<EntryId> {
        let ids: Vec<&EntryId> = state.entries().values().map(|entry| &entry.id).collect();
        match ids.last() {
            Some(last) if self.dice.chance(50) => Some((*last).clone()),
            _ => self.dice.pick_any(&ids).copied().cloned(),
        }
    }

    fn entry(&mut self, id: EntryId, parent: Option<EntryId>) -> Write {
        let (entry_type, custom_type) = self.entry_type();
        let payload = texts::message(&mut self.dice);
        let entry = NewEntry::new(id, parent, entry_type, custom_type, payload);
        Write::Entry(entry.expect("generated payloads fit every type"))
    }

    fn chain(&mut self, parent: Option<EntryId>, length: usize, nth: usize) -> Vec<Write> {
        let mut parent = parent;
        let chain = (0..length).map(|offset| {
            let id = texts::entry_id(&mut self.dice, self.reference.step, nth + offset);
            self.entry(id.clone(), parent.replace(id))
        });
        chain.collect()
    }

    fn fan(&mut self, state: &State, nth: usize) -> Vec<Write> {
        let parent = self.parent(state);
        let width = self.dice.between(2, 12);
        let fan = (0..width).map(|offset| {
            let id = texts::entry_id(&mut self.dice, self.reference.step, nth + offset);
            self.entry(id, parent.clone())
        });
        fan.collect()
    }

    fn usage(&mut self, state: &State, nth: usize) -> Write {
        const NUMBERS: [&str; 5] = [
            r#"{"input":1,"output":2,"cacheRead":3,"cacheWrite":4,"totalTokens":10,"cost":{"input":0.1,"output":0.2,"cacheRead":0.3,"cacheWrite":0.7,"total":1.3}}"#,
            r#"{"input":0.1,"cost":{"total":1e-7}}"#,
            r#"{"input":9007199254740991,"reasoning":5,"cacheWrite1h":7}"#,
            r#"{ "output" : 12 , "unknown":{"kept":1.10} }"#,
            "{}",
        ];
        let id = texts::entry_id(&mut self.dice, self.reference.step, nth + 1000);
        let entry = if self.dice.chance(50) { self.parent(state) } else { None };
        let usage = texts::json(self.dice.text(&NUMBERS));
        let details = self.dice.chance(30).then(|| texts::value(&mut self.dice));
        let row = NewUsage::new(id, entry, self.dice.chance(20), usage, details);
        Write::Usage(row.expect("generated usage can be summed"))
    }

    /// A write that no state takes.
    fn refused(&mut self, state: &State, nth: usize) -> Write {
        let used = state.entries().values().map(|entry| &entry.id);
        let used: Vec<&EntryId> = used.chain(state.ledger().values().map(|row| &row.id)).collect();
        match self.dice.pick_any(&used).copied().cloned() {
            Some(used) if self.dice.chance(50) => self.entry(used, None),
            _ => {
                let id = texts::entry_id(&mut self.dice, self.reference.step, nth + 2000);
                self.entry(id.clone(), Some(id))
            }
        }
    }

    // ---- branches and lanes ----

    /// Tip, configuration and state in one commit, sometimes over an entry of the same commit.
    fn lane(&mut self, state: &State, nth: usize) -> Vec<Write> {
        let branch = texts::branch(&mut self.dice);
        let mut writes = Vec::new();
        let tip = match self.dice.below(5) {
            0 => None,
            1 => {
                let parent = self.parent(state);
                let id = texts::entry_id(&mut self.dice, self.reference.step, nth + 3000);
                writes.push(self.entry(id.clone(), parent));
                Some(id)
            }
            _ => self.parent(state),
        };
        writes.push(set(policy::tip_address(&branch), tip_value(tip.as_ref())));
        writes.push(set(policy::config_address(&branch), self.lane_config()));
        writes.push(set(policy::state_address(&branch), self.lane_state()));
        writes
    }

    fn lane_config(&mut self) -> Json {
        const CONFIGS: [&str; 3] = [
            r#"{"model":{"provider":"p","modelId":"m"},"thinkingLevel":"off","activeToolNames":[]}"#,
            r#"{"model":{"provider":"p","modelId":"m"},"thinkingLevel":"high","activeToolNames":["a","b"],"unknown":1.10}"#,
            r#"{"model":{"provider":"\ud800","modelId":"m"},"model":{"provider":"q"}}"#,
        ];
        texts::json(self.dice.text(&CONFIGS))
    }

    fn lane_state(&mut self) -> Json {
        const STATES: [&str; 4] = [
            policy::IDLE_STATE,
            r#"{"currentOperationId":"op1","lastOperationId":"op0","inbox":[{"kind":"write","id":"x"}]}"#,
            r#"{"currentOperationId":null,"lastOperationId":"op0","inbox":[]}"#,
            r#"{"inbox":[],"unknown":true}"#,
        ];
        texts::json(self.dice.text(&STATES))
    }

    fn partial_lane(&mut self) -> Vec<Write> {
        let branch = texts::branch(&mut self.dice);
        let address = match self.dice.below(3) {
            0 => policy::tip_address(&branch),
            1 => policy::config_address(&branch),
            _ => policy::state_address(&branch),
        };
        match self.dice.below(3) {
            0 => vec![Write::DeleteValue { address }],
            _ if address.namespace.as_str() == policy::BRANCH_TIP => {
                vec![set(address, tip_value(None))]
            }
            _ => vec![set(address, self.lane_state())],
        }
    }

    /// A tip somewhere else: on an entry, null, on nothing, or no id at all.
    fn tip(&mut self, state: &State) -> Vec<Write> {
        let branch = match self.dice.pick_any(&state.branches()) {
            Some(branch) if self.dice.chance(80) => branch.clone(),
            _ => texts::branch(&mut self.dice),
        };
        let value = match self.dice.below(12) {
            0 | 1 => Json::string("no such entry"),
            2 => texts::json("7"),
            3 => tip_value(None),
            _ => tip_value(self.parent(state).as_ref()),
        };
        let address = if self.dice.chance(3) {
            texts::address_of(policy::BRANCH_TIP, "")
        } else {
            policy::tip_address(&branch)
        };
        vec![set(address, value)]
    }

    /// What an agent leaves while an operation is open.
    fn begin_operation(&mut self, state: &State) -> Vec<Write> {
        let operation = format!("op{}", self.reference.step);
        let lane = self.dice.pick_any(&state.branches()).cloned();
        let lane = lane.unwrap_or_else(|| texts::branch_name("main"));
        let busy = format!(
            r#"{{"currentOperationId":"{operation}","lastOperationId":null,"inbox":["x"]}}"#
        );
        let at = texts::address_of;
        let mut writes = vec![
            set(policy::state_address(&lane), texts::json(&busy)),
            set(at(policy::OP_META, &operation), texts::json(r#"{"kind":"run"}"#)),
            set(at(policy::OP_STATE, &operation), texts::json(r#"{"step":1}"#)),
            set(at("pi.op.tool_args", &format!("{operation}:1")), texts::value(&mut self.dice)),
            set(at(policy::PENDING_ENTRY, &operation), texts::message(&mut self.dice)),
        ];
        if self.dice.chance(30) {
            writes.push(set(at("pi.op.", ""), texts::value(&mut self.dice)));
        }
        let frames = at("pi.pending.assistant_frame", &format!("{operation}:r"));
        for _ in 0..self.dice.below(3) {
            let value = texts::value(&mut self.dice);
            writes.push(Write::AppendElement { address: frames.clone(), value });
        }
        writes
    }

    // ---- values and lists ----

    fn value_address(&mut self, state: &State) -> Address {
        self.known_or_new(state.values().keys())
    }

    fn list_address(&mut self, state: &State) -> Address {
        self.known_or_new(state.lists().keys())
    }

    fn known_or_new<'a>(&mut self, known: impl Iterator<Item = &'a Address>) -> Address {
        let known: Vec<&Address> =
            known.filter(|at| !policy::is_reserved(at.namespace.as_str())).collect();
        match self.dice.pick_any(&known).copied().cloned() {
            Some(address) if self.dice.chance(70) => address,
            _ => texts::address(&mut self.dice),
        }
    }

    fn set_somewhere(&mut self, state: &State) -> Write {
        set(self.value_address(state), texts::value(&mut self.dice))
    }

    fn elements(&mut self, state: &State) -> Vec<Write> {
        let address = self.list_address(state);
        let elements = (0..self.dice.between(1, 5)).map(|_| Write::AppendElement {
            address: address.clone(),
            value: texts::value(&mut self.dice),
        });
        elements.collect()
    }

    /// A list that is deleted and filled again in one commit, also what was filled in it.
    fn recreate_list(&mut self, state: &State) -> Vec<Write> {
        let address = self.list_address(state);
        let mut writes = Vec::new();
        if self.dice.chance(30) {
            let value = texts::value(&mut self.dice);
            writes.push(Write::AppendElement { address: address.clone(), value });
        }
        writes.push(Write::DeleteList { address: address.clone() });
        for _ in 0..self.dice.between(1, 2) {
            let value = texts::value(&mut self.dice);
            writes.push(Write::AppendElement { address: address.clone(), value });
        }
        writes
    }

    /// State that no fork knows what to do with, dead at once more often than not.
    fn reserved(&mut self) -> Vec<Write> {
        let key = if self.dice.chance(50) { "k" } else { "" };
        let (kind, namespace) = match self.dice.below(5) {
            0 => (StoreKind::List, policy::BRANCH_TIP),
            1 => (StoreKind::List, policy::SESSION_NAME),
            2 => (StoreKind::List, self.dice.text(&texts::UNKNOWN_RESERVED)),
            _ => (StoreKind::Value, self.dice.text(&texts::UNKNOWN_RESERVED)),
        };
        let address = texts::address_of(namespace, key);
        let value = texts::value(&mut self.dice);
        let made = match kind {
            StoreKind::Value => set(address.clone(), value),
            StoreKind::List => Write::AppendElement { address: address.clone(), value },
        };
        let mut writes = vec![made];
        if self.dice.chance(60) {
            writes.push(delete(kind, address));
        }
        writes
    }
}

/// The end of every open operation: its rows go, results come.
fn settle_operation(state: &State) -> Vec<Write> {
    let is_of_operation = |address: &Address| {
        let namespace = address.namespace.as_str();
        namespace.starts_with(policy::OP_PREFIX) || namespace.starts_with(policy::PENDING_PREFIX)
    };
    let values = state.values().keys().filter(|at| is_of_operation(at));
    let lists = state.lists().keys().filter(|at| is_of_operation(at));
    let mut writes: Vec<Write> =
        values.map(|address| delete(StoreKind::Value, address.clone())).collect();
    writes.extend(lists.map(|address| delete(StoreKind::List, address.clone())));
    for address in state.values().keys().filter(|at| at.namespace.as_str() == policy::OP_META) {
        let at = texts::address_of(policy::RESULT, address.key.as_str());
        writes.push(set(at, texts::json(r#"{"outcome":"done"}"#)));
    }
    writes
}

/// Deletes of all surviving state that makes a fork fail.
fn unknown_reserved(state: &State) -> impl Iterator<Item = Write> {
    let tree = forkline_model::Scope::Tree;
    let fails = move |kind: StoreKind, at: &Address| {
        policy::classify(&tree, kind, at.namespace.as_str(), at.key.as_str())
            == policy::Disposition::Fail
    };
    let values = state.values().keys().map(|at| (StoreKind::Value, at));
    let both = values.chain(state.lists().keys().map(|at| (StoreKind::List, at)));
    both.filter(move |(kind, at)| fails(*kind, at)).map(|(kind, at)| delete(kind, at.clone()))
}

fn set(address: Address, value: Json) -> Write {
    Write::SetValue { address, value }
}

fn delete(kind: StoreKind, address: Address) -> Write {
    match kind {
        StoreKind::Value => Write::DeleteValue { address },
        StoreKind::List => Write::DeleteList { address },
    }
}

fn tip_value(tip: Option<&EntryId>) -> Json {
    tip.map_or_else(Json::null, |id| Json::string(id.as_str()))
}
