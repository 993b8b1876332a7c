//! Operations that an engine does not offer, out of those it does; and operations for one
//! process of several.

use forkline_model::{
    Address, Answer, BranchName, EntryId, ErrorKind, Json, Millis, NewEntry, Op, ReadOp, RepoIndex,
    SessionId, Write, policy,
};

use super::driver::ProtocolDriver;
use crate::driver::Fault;

/// A commit.
pub(super) fn commit(
    repo: RepoIndex,
    session: &SessionId,
    writes: Vec<Write>,
    timestamp: Millis,
) -> Op {
    Op::Commit { repo, session: session.clone(), writes, timestamp }
}

/// The repository that decides which process an operation goes to.
pub(super) fn repo_of(op: &Op) -> Option<RepoIndex> {
    op.repos().first().copied()
}

/// The operation as a process with `each` repositories has to be told.
pub(super) fn within(op: &Op, each: usize) -> Op {
    let mut op = op.clone();
    for repo in op.repos_mut() {
        *repo %= each;
    }
    op
}

/// What to commit, where, and when.
pub(super) type Commit<'a> = (RepoIndex, &'a SessionId, Vec<Write>, Millis);

/// The commit that a convenience comes to (contract §2, lanes.md "Branch creation"), or the
/// refusal that one of its reads is.
pub(super) fn writes<'a>(
    driver: &mut ProtocolDriver,
    op: &'a Op,
) -> Result<Result<Commit<'a>, Answer>, Fault> {
    Ok(Ok(match op {
        Op::SetName { repo, session, name, timestamp } => {
            (*repo, session, vec![set(policy::name_address(), name)], *timestamp)
        }
        Op::SetLabel { repo, session, entry, label, timestamp } => {
            if let Some(refusal) = missing(driver, *repo, session, entry)? {
                return Ok(Err(refusal));
            }
            let address = policy::label_address(entry);
            let write = match label {
                Some(label) => set(address, label),
                None => Write::DeleteValue { address },
            };
            (*repo, session, vec![write], *timestamp)
        }
        Op::CreateBranch { repo, session, branch, at, timestamp } => {
            let tip = ReadOp::GetValue(policy::tip_address(branch));
            match driver.read(*repo, session, tip)? {
                Answer::Value(None) => {}
                Answer::Value(Some(_)) => {
                    let what = format!("branch {branch} exists");
                    return Ok(Err(driver.refuse(ErrorKind::BranchExists, what)));
                }
                other => return Ok(Err(other)),
            }
            if let Some(entry) = at
                && let Some(refusal) = missing(driver, *repo, session, entry)?
            {
                return Ok(Err(refusal));
            }
            (*repo, session, vec![set_tip(branch, at.as_ref())], *timestamp)
        }
        Op::Append { repo, session, branch, id, entry_type, custom_type, payload, timestamp } => {
            let parent = match driver.read(*repo, session, ReadOp::Tip(branch.clone()))? {
                Answer::Tip(tip) => tip,
                other => return Ok(Err(other)),
            };
            let (entry_type, custom_type) = (entry_type.clone(), custom_type.clone());
            match NewEntry::new(id.clone(), parent, entry_type, custom_type, payload.clone()) {
                Ok(entry) => {
                    let writes = vec![Write::Entry(entry), set_tip(branch, Some(id))];
                    (*repo, session, writes, *timestamp)
                }
                Err(error) => return Ok(Err(driver.refuse(error.kind(), error.to_string()))),
            }
        }
        _ => unreachable!("only conveniences come here"),
    }))
}

/// The refusal of an entry that is not there.
fn missing(
    driver: &mut ProtocolDriver,
    repo: RepoIndex,
    session: &SessionId,
    entry: &EntryId,
) -> Result<Option<Answer>, Fault> {
    let found = driver.read(repo, session, ReadOp::GetEntries(vec![entry.clone()]))?;
    Ok(match found {
        Answer::Found(found) if matches!(*found, [Some(_)]) => None,
        Answer::Found(_) => {
            Some(driver.refuse(ErrorKind::UnknownEntry, format!("unknown entry {entry}")))
        }
        other => Some(other),
    })
}

fn set(address: Address, text: &str) -> Write {
    Write::SetValue { address, value: Json::string(text) }
}

fn set_tip(branch: &BranchName, tip: Option<&EntryId>) -> Write {
    let value = tip.map_or_else(Json::null, |id| Json::string(id.as_str()));
    Write::SetValue { address: policy::tip_address(branch), value }
}
