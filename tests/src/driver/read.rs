//! Every read of the vocabulary on an open session.

use forkline_engines::{Branch, Error, Result, Session};
use forkline_model::{Answer, BranchName, ReadOp};

pub(super) fn answer(session: &Session, read: &ReadOp) -> Result<Answer> {
    Ok(match read {
        ReadOp::Metadata => {
            // A handle says which session it is also when that is closed; as a read it is refused
            // like all others.
            session.next_seq()?;
            Answer::Metadata(session.metadata().clone())
        }
        ReadOp::NextSeq => Answer::NextSeq(session.next_seq()?),
        ReadOp::GetEntries(ids) => Answer::Found(session.get_entries(ids)?),
        ReadOp::GetValue(address) => Answer::Value(session.value(address)?),
        ReadOp::ScanValues { namespace, key_prefix } => {
            Answer::Values(session.scan_values(namespace, key_prefix)?)
        }
        ReadOp::ReadList { address, query } => Answer::Elements(session.read_list(address, query)?),
        ReadOp::ScanBranch(scan) => Answer::Entries(session.scan_branch(scan)?),
        ReadOp::ScanBranchStructure(scan) => Answer::Heads(session.scan_branch_structure(scan)?),
        ReadOp::ScanEntries(query) => Answer::Entries(session.scan_entries(query)?),
        ReadOp::ScanUsage(query) => Answer::Usage(session.scan_usage(query)?),
        ReadOp::FindEntries(query) => Answer::Entries(session.find_entries(query)?),
        ReadOp::FindEntry(query) => Answer::Found(vec![session.find_entry(query)?]),
        ReadOp::Stats => Answer::Stats(session.stats()?),
        ReadOp::Name => Answer::Text(session.name()?),
        ReadOp::Label(entry) => Answer::Text(session.label(entry)?),
        ReadOp::Branches => Answer::Branches(session.branches()?),
        ReadOp::Tip(name) => Answer::Tip(branch(session, name)?.tip()?),
        ReadOp::FindBranchEntries { branch: name, query } => {
            Answer::Entries(branch(session, name)?.find_entries(query)?)
        }
        ReadOp::FindBranchEntry { branch: name, query } => {
            Answer::Found(vec![branch(session, name)?.find_entry(query)?])
        }
    })
}

/// The branch of that name.
///
/// # Errors
/// *Unknown branch*, as the model says it.
pub(super) fn branch(session: &Session, name: &BranchName) -> Result<Branch> {
    let unknown = || Error::Model(forkline_model::Error::UnknownBranch { branch: name.clone() });
    session.branch(name)?.ok_or_else(unknown)
}
