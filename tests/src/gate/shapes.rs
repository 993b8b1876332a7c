//! What of the coverage table a state, a commit or an operation shows.

use std::collections::{BTreeMap, BTreeSet};

use forkline_model::error::ErrorKind;
use forkline_model::policy::{self, Disposition, LaneShape, classify};
use forkline_model::world::Session;
use forkline_model::{
    Address, EntryId, ForkRequest, Op, Position, RepoIndex, Scope, SessionId, State, StoreKind,
    World, Write, lanes,
};

use super::coverage::Bucket;
use crate::plain_legacy::Members;

/// A path this long is deep.
const DEEP: usize = 50;
/// This many children are a wide fan.
const WIDE: usize = 8;

/// The shapes of a fork's source.
pub(super) fn shapes_of(state: &State) -> BTreeSet<Bucket> {
    let mut found = BTreeSet::new();
    tree(state, &mut found);
    branches(state, &mut found);
    stores(state, &mut found);
    payloads(state, &mut found);
    found
}

fn tree(state: &State, found: &mut BTreeSet<Bucket>) {
    let mut depths: BTreeMap<&EntryId, usize> = BTreeMap::new();
    let mut children: BTreeMap<Option<&EntryId>, usize> = BTreeMap::new();
    for entry in state.entries().values() {
        let parent = entry.parent.as_ref();
        let depth = parent.and_then(|parent| depths.get(parent)).map_or(1, |depth| depth + 1);
        depths.insert(&entry.id, depth);
        *children.entry(parent).or_default() += 1;
        found.extend(is_hostile(entry.id.as_str()).then_some(Bucket::HostileEntry));
    }
    let mut reached: BTreeSet<&EntryId> = BTreeSet::new();
    for branch in state.branches() {
        if let Ok(Some(tip)) = state.tip(&branch) {
            reached.extend(state.ancestry(&tip).into_iter().map(|entry| &entry.id));
        }
    }
    let roots = children.get(&None).copied().unwrap_or(0);
    let inner = children.iter().filter(|(parent, _)| parent.is_some());
    let widest = inner.map(|(_, count)| *count).max().unwrap_or(0);
    let deepest = depths.values().copied().max().unwrap_or(0);
    found.extend(state.entries().is_empty().then_some(Bucket::EmptySource));
    found.extend((reached.len() < state.entries().len()).then_some(Bucket::Unreachable));
    found.extend((roots > 1).then_some(Bucket::SeveralRoots));
    found.extend((deepest >= DEEP).then_some(Bucket::Deep));
    found.extend((widest >= WIDE).then_some(Bucket::WideFan));
    found.extend((widest >= 2).then_some(Bucket::SharedPrefix));
}

fn branches(state: &State, found: &mut BTreeSet<Bucket>) {
    let mut complete = 0;
    for lane in lanes::lanes(state) {
        found.extend(is_hostile(lane.branch.as_str()).then_some(Bucket::HostileBranch));
        match lane.shape() {
            LaneShape::Complete => complete += 1,
            LaneShape::DataOnly => drop(found.insert(Bucket::DataOnly)),
            LaneShape::Partial(_) => drop(found.insert(Bucket::PartialLane)),
            LaneShape::Absent => {}
        }
        if lane.tip.is_none() {
            continue;
        }
        found.extend(match state.tip(&lane.branch) {
            Ok(None) => Some(Bucket::NullTip),
            Ok(Some(tip)) if state.entry(&tip).is_none() => Some(Bucket::DanglingTip),
            Ok(Some(_)) => None,
            Err(_) => Some(Bucket::UnreadableTip),
        });
    }
    found.extend((complete > 1).then_some(Bucket::SeveralLanes));
}

fn stores(state: &State, found: &mut BTreeSet<Bucket>) {
    for address in state.values().keys().chain(state.lists().keys()) {
        let (namespace, key) = (address.namespace.as_str(), address.key.as_str());
        found.extend(match namespace {
            policy::OP_META => Some(Bucket::OpenOperation),
            policy::PENDING_ENTRY => Some(Bucket::PendingEntry),
            policy::RESULT => Some(Bucket::Results),
            "pi.pending.assistant_frame" => Some(Bucket::Frames),
            policy::ENTRY_LABEL => {
                let is_there = EntryId::new(key).is_ok_and(|id| state.entry(&id).is_some());
                (!is_there).then_some(Bucket::LabelOfNothing)
            }
            _ => None,
        });
        let is_own = !policy::is_reserved(namespace);
        let is_odd = is_hostile(namespace) || is_hostile(key);
        found.extend((is_own && is_odd).then_some(Bucket::HostileAddress));
    }
    found.extend((!state.ledger().is_empty()).then_some(Bucket::Ledger));
}

fn payloads(state: &State, found: &mut BTreeSet<Bucket>) {
    let entries = state.entries().values().map(|entry| &entry.payload);
    let values = state.values().values().map(|(_, value)| value);
    let elements = state.lists().values().flat_map(|elements| elements.values());
    for json in entries.chain(values).chain(elements) {
        let text = json.as_str();
        let has = |part: &str| text.contains(part);
        let huge = ["e400", "12345678901234567890123", "9007199254740993"];
        let twice = ["\"a\":1,\"a\":2", "},\"message\":"];
        found.extend(has("\\ud800").then_some(Bucket::Surrogate));
        found.extend(huge.iter().any(|part| has(part)).then_some(Bucket::HugeNumber));
        found.extend(has("[[[[[[[[[[[[[[[[[[[[").then_some(Bucket::DeepJson));
        found.extend(twice.iter().any(|part| has(part)).then_some(Bucket::DuplicateMembers));
        found.extend(has("{ \"").then_some(Bucket::Spaced));
    }
}

/// Whether a text has something that a layer below may take for more than text.
pub(super) fn is_hostile(text: &str) -> bool {
    !text.chars().all(|char| char.is_ascii_alphanumeric() || matches!(char, '.' | '-' | ':'))
        || text.starts_with('.')
}

/// How the fork point of a request is called.
pub(super) fn fork_point(state: &State, scope: &Scope) -> Option<Bucket> {
    let Scope::Branch { branch, entry, position } = scope else { return Some(Bucket::ForkTree) };
    let tip = state.tip(branch).ok()?;
    let Some(entry) = entry else {
        return Some(match (tip, position) {
            (None, _) => Bucket::ForkNullTip,
            (Some(_), Position::At) => Bucket::ForkAtTip,
            (Some(_), Position::Before) => Bucket::ForkBeforeTip,
        });
    };
    let is_root = state.entry(entry)?.parent.is_none();
    Some(match (is_root, position) {
        (true, Position::At) => Bucket::ForkAtRoot,
        (true, Position::Before) => Bucket::ForkBeforeRoot,
        (false, Position::At) => Bucket::ForkAtEntry,
        (false, Position::Before) => Bucket::ForkBeforeEntry,
    })
}

/// What a commit would do to what is there.
pub(super) fn changes(
    world: &World,
    repo: RepoIndex,
    session: &SessionId,
    writes: &[Write],
) -> BTreeSet<Bucket> {
    let Ok(state) = world.open_state(repo, session) else { return BTreeSet::new() };
    let found = writes.iter().filter_map(|write| match write {
        Write::SetValue { address, .. } if fails(StoreKind::Value, address) => {
            Some(Bucket::ReservedDead)
        }
        Write::AppendElement { address, .. } if fails(StoreKind::List, address) => {
            Some(Bucket::ReservedDead)
        }
        Write::SetValue { address, .. } => {
            state.values().contains_key(address).then_some(Bucket::Overwritten)
        }
        Write::DeleteValue { address } => {
            state.values().contains_key(address).then_some(Bucket::DeletedValue)
        }
        _ => None,
    });
    found.collect()
}

/// What kind of legacy file this is, if a fork of it is made.
pub(super) fn legacy_file(lines: &[String], torn: &str) -> BTreeSet<Bucket> {
    let header = lines.first().map(String::as_str).unwrap_or_default();
    let version = match Members::parse(header.trim_start_matches('\u{feff}')) {
        Some(members) if members.raw("version") == Some("3") => Bucket::LegacyV3,
        Some(members) if members.raw("version") == Some("2") => Bucket::LegacyV2,
        _ => Bucket::LegacyV1,
    };
    let torn = if torn.is_empty() { None } else { Some(Bucket::LegacyTorn) };
    std::iter::once(version).chain(torn).collect()
}

/// What a fork of a session that is still a legacy file shows, or is refused for.
pub(super) fn of_legacy(source: &Session, request: &ForkRequest) -> BTreeSet<Bucket> {
    let Some(legacy) = source.legacy() else { return BTreeSet::new() };
    let mut found = BTreeSet::new();
    found.extend(source.is_open().then_some(Bucket::LegacyAtPlace));
    found.extend(legacy.is_damaged.then_some(Bucket::LegacyDamaged));
    if let Scope::Branch { entry: Some(entry), .. } = &request.scope {
        let is_of_file = legacy.ids.contains_key(entry);
        let is_stale = !is_of_file && source.state().entry(entry).is_some();
        found.extend(is_stale.then_some(Bucket::LegacyStaleId));
        found.extend(is_of_file.then_some(Bucket::LegacyAtId));
    }
    found
}

/// Whether an operation, if it commits something, upgrades a legacy session.
pub(super) fn upgrades(world: &World, op: &Op) -> Option<Bucket> {
    let (repo, session) = match op {
        Op::Commit { repo, session, .. }
        | Op::Mutate { repo, session, .. }
        | Op::CreateBranch { repo, session, .. }
        | Op::Append { repo, session, .. }
        | Op::SetName { repo, session, .. }
        | Op::SetLabel { repo, session, .. } => (*repo, session),
        _ => return None,
    };
    world.session(repo, session)?.legacy().map(|_| Bucket::LegacyUpgraded)
}

/// What a commit does to lists that were deleted, which it adds to.
pub(super) fn recreated(deleted: &mut BTreeSet<Address>, writes: &[Write]) -> BTreeSet<Bucket> {
    let mut found = BTreeSet::new();
    let mut at_once = BTreeSet::new();
    for write in writes {
        match write {
            Write::DeleteList { address } => {
                deleted.insert(address.clone());
                at_once.insert(address);
            }
            Write::AppendElement { address, .. } if deleted.contains(address) => {
                found.insert(Bucket::RecreatedList);
                found.extend(at_once.contains(address).then_some(Bucket::RecreatedAtOnce));
            }
            _ => {}
        }
    }
    found
}

fn fails(kind: StoreKind, address: &Address) -> bool {
    let (namespace, key) = (address.namespace.as_str(), address.key.as_str());
    classify(&Scope::Tree, kind, namespace, key) == Disposition::Fail
}

/// Whether surviving state makes every fork fail.
pub(super) fn has_unknown_reserved(state: &State) -> bool {
    state.values().keys().any(|address| fails(StoreKind::Value, address))
        || state.lists().keys().any(|address| fails(StoreKind::List, address))
}

/// What an operation is called in reports.
pub(super) fn op_name(op: &Op) -> &'static str {
    match op {
        Op::Create { .. } => "create",
        Op::Open { .. } => "open",
        Op::Close { .. } => "close",
        Op::Reopen { .. } => "reopen",
        Op::Delete { .. } => "delete",
        Op::List { .. } => "list",
        Op::Commit { .. } => "commit",
        Op::Mutate { .. } => "mutate",
        Op::CreateBranch { .. } => "create_branch",
        Op::Append { .. } => "append",
        Op::SetName { .. } => "set_name",
        Op::SetLabel { .. } => "set_label",
        Op::Fork { .. } => "fork",
        Op::ForkBegin { .. } => "fork_begin",
        Op::ForkFinish { .. } => "fork_finish",
        Op::TearTail { .. } => "tear_tail",
        Op::Plant { .. } => "plant",
        Op::Read { .. } => "read",
    }
}

/// What an error kind is called in reports: as in traces.
pub(super) fn kind_name(kind: ErrorKind) -> String {
    serde_json::to_value(kind)
        .ok()
        .and_then(|name| name.as_str().map(str::to_owned))
        .unwrap_or_else(|| format!("{kind:?}"))
}
