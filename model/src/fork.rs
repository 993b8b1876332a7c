//! What a fork of a state is (contract §3), by set comprehension over the whole state.

use std::collections::{BTreeMap, BTreeSet};

use crate::address::{Address, BranchName, EntryId, Millis, SEQ_MAX, Seq, SessionId, StoreKind};
use crate::error::{Error, Result};
use crate::json::Json;
use crate::lanes::{self, Lane};
use crate::metadata::{ForkOptions, LaneAudit, Metadata, Position, Scope};
use crate::policy::{self, Disposition, classify};
use crate::state::State;

/// What a destination has of its own. It stands for the clock and the id generator, which the
/// model does not have, and is used instead of the id in the options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Birth {
    /// The id.
    pub id: SessionId,
    /// When it was created, Unix ms.
    pub created_at: Millis,
    /// The working directory, where the destination has one.
    pub cwd: Option<String>,
}

/// What a fork selects, once nothing speaks against it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The tip that the destination's branch gets; none in tree scope.
    pub tip: Option<EntryId>,
    /// The entries that are copied.
    pub entries: BTreeSet<EntryId>,
}

/// Validates a fork and selects its entries.
///
/// # Errors
/// The first of these that holds (contract §5.2):
/// 1. branch scope: *unknown branch*, *not a configured lane*, *corrupt lane*; tree scope with
///    the strict audit: *corrupt lane* or *corrupt source* of the lowest branch name;
/// 2. branch scope: *corrupt lane* for a tip that is neither an id nor null, then *corrupt
///    source* for one that names no entry, then *entry not on branch*;
/// 3. *unknown reserved namespace*, of several the row with the lowest seq;
/// 4. *limit exceeded* when the source has no seq left.
pub fn plan(source: &State, options: &ForkOptions, audit: LaneAudit) -> Result<Plan> {
    let plan = match &options.scope {
        Scope::Tree => {
            if audit == LaneAudit::Strict {
                require_sound_lanes(source)?;
            }
            let entries = source.entries.values().map(|entry| entry.id.clone()).collect();
            Plan { tip: None, entries }
        }
        Scope::Branch { branch, entry, position } => {
            Lane::of(source, branch).rows().require_complete(branch)?;
            let selected = select(source, branch, entry.as_ref(), *position)?;
            let path = selected.iter().flat_map(|id| source.ancestry(id));
            let entries = path.map(|entry| entry.id.clone()).collect();
            Plan { tip: selected, entries }
        }
    };
    require_known(source, &options.scope)?;
    if source.next_seq > SEQ_MAX {
        return Err(Error::SeqExhausted { next_seq: source.next_seq });
    }
    Ok(plan)
}

/// The fork of `source`: a new state, or why there is none.
///
/// # Errors
/// Those of [`plan`].
pub fn fork(
    source: &State,
    options: &ForkOptions,
    audit: LaneAudit,
    birth: Birth,
) -> Result<State> {
    let plan = plan(source, options, audit)?;
    let scope = &options.scope;
    let is_copied = |entry: &EntryId| plan.entries.contains(entry);

    let entries = source.entries.iter().filter(|(_, entry)| is_copied(&entry.id));
    let values = source.values.iter().filter_map(|(address, (seq, value))| {
        let value = project(StoreKind::Value, address, value, scope, &plan)?;
        Some((address.clone(), (*seq, value)))
    });
    let lists = source.lists.iter().filter_map(|(address, elements)| {
        let elements = elements.iter().filter_map(|(seq, element)| {
            Some((*seq, project(StoreKind::List, address, element, scope, &plan)?))
        });
        let elements: BTreeMap<Seq, Json> = elements.collect();
        (!elements.is_empty()).then(|| (address.clone(), elements))
    });
    Ok(State {
        metadata: Metadata {
            id: birth.id,
            created_at: birth.created_at,
            cwd: birth.cwd,
            parent_session_id: Some(source.metadata.id.clone()),
            legacy_parent_session_path: None,
        },
        next_seq: source.next_seq,
        entries: entries.map(|(seq, entry)| (*seq, entry.clone())).collect(),
        values: values.collect(),
        lists: lists.collect(),
        ledger: BTreeMap::new(),
    })
}

/// The entry that the options select on a complete lane (contract §3.1, rules 2 and 3).
fn select(
    source: &State,
    branch: &BranchName,
    entry: Option<&EntryId>,
    position: Position,
) -> Result<Option<EntryId>> {
    let tip = source.tip(branch)?;
    let path = tip.iter().flat_map(|tip| source.ancestry(tip)).collect::<Vec<_>>();
    if let (Some(tip), true) = (&tip, path.is_empty()) {
        return Err(Error::UnknownTip { branch: branch.clone(), tip: tip.clone() });
    }
    let Some(named) = entry.or(tip.as_ref()) else { return Ok(None) };
    let Some(found) = path.into_iter().find(|on_path| on_path.id == *named) else {
        return Err(Error::EntryNotOnBranch { branch: branch.clone(), entry: named.clone() });
    };
    Ok(match position {
        Position::At => Some(found.id.clone()),
        Position::Before => found.parent.clone(),
    })
}

fn require_sound_lanes(source: &State) -> Result<()> {
    match lanes::audit(source).first() {
        Some(finding) => Err(finding.to_error()),
        None => Ok(()),
    }
}

/// Fails for surviving state that the classifier does not know (contract §3.4).
fn require_known(source: &State, scope: &Scope) -> Result<()> {
    let values = source.values.iter().map(|(at, &(seq, _))| (seq, StoreKind::Value, at));
    let elements = source
        .lists
        .iter()
        .flat_map(|(at, elements)| elements.keys().map(move |&seq| (seq, StoreKind::List, at)));
    let unknown = values.chain(elements).filter(|(_, kind, at)| {
        classify(scope, *kind, at.namespace.as_str(), at.key.as_str()) == Disposition::Fail
    });
    match unknown.min_by_key(|&(seq, ..)| seq) {
        Some((_, kind, at)) => Err(Error::UnknownReserved {
            kind,
            namespace: at.namespace.clone(),
            key: at.key.clone(),
        }),
        None => Ok(()),
    }
}

/// What the destination holds for one current value or element of the source.
fn project(
    kind: StoreKind,
    address: &Address,
    value: &Json,
    scope: &Scope,
    plan: &Plan,
) -> Option<Json> {
    match classify(scope, kind, address.namespace.as_str(), address.key.as_str()) {
        Disposition::LeaveOut => None,
        Disposition::Copy => Some(value.clone()),
        Disposition::CopyIfEntryCopied => {
            plan.entries.contains(address.key.as_str()).then(|| value.clone())
        }
        Disposition::RewriteTip => {
            Some(plan.tip.as_ref().map_or_else(Json::null, |tip| Json::string(tip.as_str())))
        }
        Disposition::MakeIdle => Some(policy::idle_state()),
        Disposition::Fail => unreachable!("the plan refused it"),
    }
}
