//! The path of a branch fork: one pass over the tape of entries, from its end.

use forkline_model::{BranchName, EntryId, Error as ModelError, Position};

use super::collect::Collected;
use super::record::{Mark, Node, Place, Record};
use super::spill_error;
use crate::error::Result;

/// What a branch fork asks for, checked as far as its lane goes.
pub(in super::super) struct Path<'a> {
    pub(in super::super) branch: &'a BranchName,
    pub(in super::super) tip: &'a EntryId,
    pub(in super::super) entry: Option<&'a EntryId>,
    pub(in super::super) position: Position,
}

/// What the walk found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Selected {
    /// The entry that the caller named, or the tip.
    Named(Place),
    /// This entry has a parent that does not stand before it.
    MissingParent(Place),
}

/// Walks from the tip to the root and leaves a record of every entry: copied, walked over, or
/// neither. All are needed, since an id that is copied or walked must not stand elsewhere.
///
/// # Errors
/// *Corrupt source* for a tip that names no entry, *entry not on branch*, I/O.
pub(in super::super) fn walk(
    collected: &mut Collected,
    path: &Path<'_>,
    scratch: &std::path::Path,
) -> Result<Selected> {
    let failed = |error| spill_error(scratch, error);
    let named_hash = collected.keys.entry(path.entry.unwrap_or(path.tip).as_str());
    let mut wanted = Some(collected.keys.entry(path.tip.as_str()));
    let mut last_met = None;
    let mut named = None;
    for node in collected.tape.backward() {
        let Node { id, parent, place, is_message } = Node::from_bytes(&node.map_err(failed)?);
        let mut mark = Mark::Entry;
        if wanted == Some(id) {
            let is_named = named.is_none() && id == named_hash;
            if is_named {
                named = Some(place);
            }
            let is_left_out = named.is_none() || (is_named && path.position == Position::Before);
            mark = match (is_left_out, is_message) {
                (true, _) => Mark::Walked,
                (false, true) => Mark::CopiedMessage,
                (false, false) => Mark::Copied,
            };
            last_met = Some(place);
            wanted = parent;
        }
        let record = Record { hash: id, place, mark };
        collected.records.push(record.to_bytes()).map_err(failed)?;
    }
    match (last_met, wanted, named) {
        (None, ..) => {
            let (branch, tip) = (path.branch.clone(), path.tip.clone());
            Err(ModelError::UnknownTip { branch, tip }.into())
        }
        (Some(place), Some(_), _) => Ok(Selected::MissingParent(place)),
        (_, None, Some(place)) => Ok(Selected::Named(place)),
        (_, None, None) => Err(ModelError::EntryNotOnBranch {
            branch: path.branch.clone(),
            entry: path.entry.unwrap_or(path.tip).clone(),
        }
        .into()),
    }
}
