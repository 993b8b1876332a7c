//! Reads: every one of them, with queries that cut somewhere.

use forkline_model::{
    BranchScan, EntryId, EntryQuery, EntryType, Limit, ListQuery, Op, Order, ReadOp, RepoIndex,
    Seq, SeqQuery, SessionId, State, TypeName, policy,
};

use super::{Maker, texts};

impl Maker<'_> {
    pub(super) fn read(&mut self) -> Op {
        let (repo, session) = self.pick_open();
        let read = self.read_op(repo, &session);
        Op::Read { repo, session, read }
    }

    pub(super) fn read_op(&mut self, repo: RepoIndex, session: &SessionId) -> ReadOp {
        let entry = self.some_entry(repo, session).filter(|_| self.dice.chance(95));
        let entry = entry.unwrap_or_else(|| EntryId::new("nothing").expect("it is a valid id"));
        let branch = self.some_branch(repo, session);
        match self.dice.below(19) {
            0 => ReadOp::Metadata,
            1 => ReadOp::NextSeq,
            2 => {
                let other = self.some_entry(repo, session).unwrap_or_else(|| entry.clone());
                ReadOp::GetEntries(vec![entry.clone(), other, entry])
            }
            3 => ReadOp::GetValue(texts::address(&mut self.dice)),
            4 | 5 => self.scan_values(),
            6 => self.read_list(repo, session),
            7 => ReadOp::ScanBranch(self.branch_scan(entry, repo, session)),
            8 => ReadOp::ScanBranchStructure(self.branch_scan(entry, repo, session)),
            9 => ReadOp::ScanEntries(self.seq_query(repo, session)),
            10 => ReadOp::ScanUsage(self.seq_query(repo, session)),
            11 => ReadOp::FindEntries(self.entry_query(repo, session)),
            12 => ReadOp::FindEntry(self.entry_query(repo, session)),
            13 => ReadOp::Stats,
            14 => ReadOp::Name,
            15 => ReadOp::Label(entry),
            16 => {
                if self.dice.chance(50) {
                    ReadOp::Branches
                } else {
                    ReadOp::Tip(branch)
                }
            }
            17 => ReadOp::FindBranchEntries { branch, query: self.entry_query(repo, session) },
            _ => ReadOp::FindBranchEntry { branch, query: self.entry_query(repo, session) },
        }
    }

    fn scan_values(&mut self) -> ReadOp {
        const PREFIXES: [&str; 9] = ["", "", "a", "a_", "a%", "k", "%", "_", "\u{1f600}"];
        const RESERVED: [&str; 3] = [policy::BRANCH_TIP, policy::ENTRY_LABEL, policy::LANE_STATE];
        let namespace = if self.dice.chance(70) {
            texts::address(&mut self.dice).namespace
        } else {
            texts::address_of(self.dice.text(&RESERVED), "").namespace
        };
        ReadOp::ScanValues { namespace, key_prefix: self.dice.text(&PREFIXES).to_owned() }
    }

    fn read_list(&mut self, repo: RepoIndex, session: &SessionId) -> ReadOp {
        let known = self.state(repo, session).map(|state| state.lists().keys().cloned().collect());
        let known: Vec<_> = known.unwrap_or_default();
        let address = match self.dice.pick_any(&known) {
            Some(address) => address.clone(),
            None => texts::address(&mut self.dice),
        };
        let query = ListQuery {
            cursor: self.cursor(repo, session),
            order: self.order(),
            limit: self.limit(),
        };
        ReadOp::ReadList { address, query }
    }

    fn branch_scan(&mut self, start: EntryId, repo: RepoIndex, session: &SessionId) -> BranchScan {
        BranchScan {
            start,
            stop_at_type: self.dice.chance(25).then_some(EntryType::Compaction),
            stop_at_id: self.some_entry(repo, session).filter(|_| self.dice.chance(25)),
            query: self.entry_query(repo, session),
        }
    }

    fn entry_query(&mut self, repo: RepoIndex, session: &SessionId) -> EntryQuery {
        let entry_type = match self.dice.below(8) {
            0 => Some(EntryType::Message),
            1 => Some(EntryType::Custom),
            2 => EntryType::new("of tomorrow").ok(),
            _ => None,
        };
        let custom_type = if self.dice.chance(10) { TypeName::new("note").ok() } else { None };
        let (order, cursor) = (self.order(), self.cursor(repo, session));
        EntryQuery { entry_type, custom_type, order, cursor, limit: self.limit() }
    }

    fn seq_query(&mut self, repo: RepoIndex, session: &SessionId) -> SeqQuery {
        SeqQuery {
            from: self.cursor(repo, session),
            to: self.cursor(repo, session),
            order: self.order(),
            limit: self.limit(),
        }
    }

    fn order(&mut self) -> Order {
        if self.dice.chance(50) { Order::Asc } else { Order::Desc }
    }

    fn limit(&mut self) -> Limit {
        let limit = if self.dice.chance(30) { self.dice.between(1, 4) } else { 1000 };
        i64::try_from(limit).ok().and_then(|limit| Limit::new(limit).ok()).unwrap_or_default()
    }

    fn cursor(&mut self, repo: RepoIndex, session: &SessionId) -> Option<Seq> {
        let next = self.state(repo, session).map_or(1, State::next_seq);
        let wanted = self.dice.chance(40);
        let seq = 1 + self.dice.next() % next;
        Seq::new(seq).ok().filter(|_| wanted)
    }
}
