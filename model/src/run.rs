//! What the model answers to every operation of [`crate::op`].

use crate::address::{BranchName, EntryId, Millis, SessionId};
use crate::entry::NewEntry;
use crate::error::{Error, ErrorKind, Result};
use crate::json::Json;
use crate::metadata::Metadata;
use crate::op::{Answer, Op, ReadOp};
use crate::policy;
use crate::state::State;
use crate::world::{ForkRequest, ForkTicket, RepoIndex, Session, World};
use crate::write::Write;

impl World {
    /// Runs one operation. Whatever is refused changes nothing.
    pub fn run(&mut self, op: &Op) -> Answer {
        match self.answer(op) {
            Ok(answer) => answer,
            Err(error) => Answer::Error { kind: error.kind() },
        }
    }

    fn answer(&mut self, op: &Op) -> Result<Answer> {
        match op {
            Op::List { repo } => return Ok(Answer::Sessions(self.list(*repo))),
            Op::Read { repo, session, read } => {
                return answer(self.open_session(*repo, session)?, read);
            }
            Op::Plant { .. } => {
                let reason = "the model imports none: see World::plant".to_owned();
                return Err(Error::InvalidPayload { what: "legacy file", reason });
            }
            Op::Mutate { repo, session, reads, attempts, timestamp } => {
                return self.mutate(*repo, session, reads, attempts, *timestamp);
            }
            Op::Create { repo, id, cwd, parent, created_at } => {
                let metadata = Metadata {
                    id: id.clone(),
                    created_at: *created_at,
                    cwd: cwd.clone(),
                    parent_session_id: parent.clone(),
                    legacy_parent_session_path: None,
                };
                let ticket = self.create_begin(*repo, metadata)?;
                self.create_finish(ticket);
            }
            Op::Open { repo, session } => self.open(*repo, session)?,
            Op::Close { repo, session } => self.close(*repo, session)?,
            Op::Reopen { repo, session } => {
                self.close(*repo, session)?;
                self.open(*repo, session)?;
            }
            Op::Delete { repo, session } => {
                let ticket = self.delete_begin(*repo, session)?;
                self.delete_finish(&ticket);
            }
            Op::TearTail { repo, session, text } => self.tear_tail(*repo, session, text)?,
            Op::Fork { request, open } => {
                let ticket = self.fork_begin(request)?;
                self.finish(ticket, *open)?;
            }
            Op::ForkBegin { ticket, request } => self.begin(*ticket, request)?,
            Op::ForkFinish { ticket, open } => {
                let ticket = self.forks.remove(ticket).ok_or_else(|| no_fork(*ticket))?;
                self.finish(ticket, *open)?;
            }
            Op::Commit { repo, session, timestamp, .. }
            | Op::CreateBranch { repo, session, timestamp, .. }
            | Op::Append { repo, session, timestamp, .. }
            | Op::SetName { repo, session, timestamp, .. }
            | Op::SetLabel { repo, session, timestamp, .. } => {
                let writes = writes_of(op, self.open_state(*repo, session)?)?;
                let committed = self.commit(*repo, session, &writes, *timestamp)?;
                return Ok(Answer::Committed(committed));
            }
        }
        Ok(Answer::Done)
    }

    fn mutate(
        &mut self,
        repo: RepoIndex,
        session: &SessionId,
        reads: &[ReadOp],
        attempts: &[Vec<Write>],
        timestamp: Millis,
    ) -> Result<Answer> {
        let refused = |error: Error| Answer::Error { kind: error.kind() };
        let found = self.open_session(repo, session)?;
        let reads = reads.iter().map(|read| answer(found, read).unwrap_or_else(refused)).collect();
        let attempts = attempts.iter().enumerate().map(|(nth, writes)| match nth {
            0 => (self.commit(repo, session, writes, timestamp))
                .map_or_else(refused, Answer::Committed),
            _ => Answer::Error { kind: ErrorKind::CommitAttempted },
        });
        Ok(Answer::Scope { reads, attempts: attempts.collect() })
    }

    /// Refuses a ticket that is in use like an id that is.
    fn begin(&mut self, ticket: u64, request: &ForkRequest) -> Result<()> {
        if self.forks.contains_key(&ticket) {
            return Err(Error::SessionExists { session: request.id.clone() });
        }
        let fork = self.fork_begin(request)?;
        self.forks.insert(ticket, fork);
        Ok(())
    }

    fn finish(&mut self, ticket: ForkTicket, open: bool) -> Result<()> {
        let (repo, id) = self.fork_finish(ticket)?;
        if open { self.open(repo, &id) } else { Ok(()) }
    }

    /// Only a closed session's file can be torn: an open one would notice.
    fn tear_tail(&self, repo: RepoIndex, id: &SessionId, text: &str) -> Result<()> {
        if text.contains('\n') {
            let reason = "it has a line break".to_owned();
            return Err(Error::InvalidPayload { what: "torn tail", reason });
        }
        match self.session(repo, id) {
            None => Err(Error::UnknownSession { session: id.clone() }),
            Some(session) if session.is_open() => Err(Error::AlreadyOpen { session: id.clone() }),
            Some(_) => Ok(()),
        }
    }
}

/// A ticket under which no fork is under way: the session that it would make is not known.
fn no_fork(ticket: u64) -> Error {
    let id = SessionId::new(format!("fork ticket {ticket}")).expect("it is a short text");
    Error::UnknownSession { session: id }
}

/// The commit that an operation comes to.
fn writes_of(op: &Op, state: &State) -> Result<Vec<Write>> {
    match op {
        Op::Commit { writes, .. } => Ok(writes.clone()),
        Op::CreateBranch { branch, at, .. } => {
            if state.get_value(&policy::tip_address(branch)).is_some() {
                return Err(Error::BranchExists { branch: branch.clone() });
            }
            at.iter().try_for_each(|entry| require_entry(state, entry))?;
            Ok(vec![set_tip(branch, at.as_ref())])
        }
        Op::Append { branch, id, entry_type, custom_type, payload, .. } => {
            let entry = NewEntry::new(
                id.clone(),
                state.tip(branch)?,
                entry_type.clone(),
                custom_type.clone(),
                payload.clone(),
            )?;
            Ok(vec![Write::Entry(entry), set_tip(branch, Some(id))])
        }
        Op::SetName { name, .. } => {
            let address = policy::name_address();
            Ok(vec![Write::SetValue { address, value: Json::string(name) }])
        }
        Op::SetLabel { entry, label, .. } => {
            require_entry(state, entry)?;
            let address = policy::label_address(entry);
            Ok(vec![match label {
                Some(label) => Write::SetValue { address, value: Json::string(label) },
                None => Write::DeleteValue { address },
            }])
        }
        _ => unreachable!("only operations that commit come here"),
    }
}

fn set_tip(branch: &BranchName, tip: Option<&EntryId>) -> Write {
    let value = tip.map_or_else(Json::null, |id| Json::string(id.as_str()));
    Write::SetValue { address: policy::tip_address(branch), value }
}

fn require_entry(state: &State, entry: &EntryId) -> Result<()> {
    match state.entry(entry) {
        Some(_) => Ok(()),
        None => Err(Error::UnknownEntry { entry: entry.clone() }),
    }
}

/// What a session answers to one read.
fn answer(session: &Session, read: &ReadOp) -> Result<Answer> {
    let state = session.state();
    Ok(match read {
        ReadOp::Metadata => Answer::Metadata(state.metadata().clone()),
        ReadOp::NextSeq => Answer::NextSeq(state.next_seq()),
        ReadOp::GetEntries(ids) => Answer::Found(state.get_entries(ids)),
        ReadOp::GetValue(address) => Answer::Value(state.get_value(address)),
        ReadOp::ScanValues { namespace, key_prefix } => {
            Answer::Values(state.scan_values(namespace, key_prefix))
        }
        ReadOp::ReadList { address, query } => Answer::Elements(state.read_list(address, query)),
        ReadOp::ScanBranch(scan) => Answer::Entries(state.scan_branch(scan)?),
        ReadOp::ScanBranchStructure(scan) => Answer::Heads(state.scan_branch_structure(scan)?),
        ReadOp::ScanEntries(query) => Answer::Entries(state.scan_entries(query)),
        ReadOp::ScanUsage(query) => Answer::Usage(state.scan_usage(query)),
        ReadOp::FindEntries(query) => Answer::Entries(state.find_entries(query)),
        ReadOp::FindEntry(query) => Answer::Found(vec![state.find_entry(query)]),
        ReadOp::Stats => Answer::Stats(session.stats()),
        ReadOp::Name => Answer::Text(state.name()),
        ReadOp::Label(entry) => Answer::Text(state.label(entry)),
        ReadOp::Branches => Answer::Branches(state.branches()),
        ReadOp::Tip(branch) => Answer::Tip(state.tip(branch)?),
        ReadOp::FindBranchEntries { branch, query } => {
            Answer::Entries(state.find_branch_entries(branch, query)?)
        }
        ReadOp::FindBranchEntry { branch, query } => {
            Answer::Found(vec![state.find_branch_entry(branch, query)?])
        }
    })
}
