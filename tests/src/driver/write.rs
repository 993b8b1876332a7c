//! Everything that commits, through the calls a frontend would make.

use forkline_engines::{Context, Result, Session};
use forkline_model::{Answer, Committed, Millis, Op, ReadOp, Seq, Write};

use super::read;

/// One mutation scope: reads, then attempts to commit.
pub(super) fn mutate(
    session: &Session,
    reads: &[ReadOp],
    attempts: &[Vec<Write>],
) -> Result<Answer> {
    let refused = |error: forkline_engines::Error| Answer::Error { kind: error.kind() };
    let mut mutation = session.begin_mutation(&Context::new())?;
    let reads = reads
        .iter()
        .map(|read| read::answer(mutation.session(), read).unwrap_or_else(refused))
        .collect();
    let attempts = attempts
        .iter()
        .map(|writes| match mutation.commit(writes) {
            Ok(committed) => complete(session, committed).map_or_else(refused, Answer::Committed),
            Err(error) => refused(error),
        })
        .collect();
    Ok(Answer::Scope { reads, attempts })
}

/// One operation that commits.
pub(super) fn commit(session: &Session, op: &Op) -> Result<Committed> {
    let cx = Context::new();
    match op {
        Op::Commit { writes, .. } => complete(session, session.commit(writes, &cx)?),
        Op::SetName { name, .. } => complete(session, session.set_name(name, &cx)?),
        Op::SetLabel { entry, label, .. } => {
            complete(session, session.set_label(entry, label.as_deref(), &cx)?)
        }
        Op::CreateBranch { branch, at, timestamp, .. } => {
            session.create_branch(branch, at.as_ref(), &cx)?;
            last(session, 1, *timestamp)
        }
        Op::Append { branch, id, entry_type, custom_type, payload, timestamp, .. } => {
            let branch = read::branch(session, branch)?;
            let (entry_type, custom_type) = (entry_type.clone(), custom_type.clone());
            branch.append_as(id.clone(), entry_type, custom_type, payload.clone(), &cx)?;
            last(session, 2, *timestamp)
        }
        _ => unreachable!("only operations that commit come here"),
    }
}

pub(super) fn complete(
    session: &Session,
    committed: forkline_engines::Committed,
) -> Result<Committed> {
    let forkline_engines::Committed { first_seq, writes, timestamp } = committed;
    Ok(Committed { first_seq, writes, next_seq: session.next_seq()?, timestamp })
}

/// The commit of `writes` writes that was the last one, where the call does not say.
fn last(session: &Session, writes: u64, timestamp: Millis) -> Result<Committed> {
    let next_seq = session.next_seq()?;
    let first_seq = Some(Seq::new(next_seq.saturating_sub(writes))?);
    Ok(Committed { first_seq, writes, next_seq, timestamp })
}
