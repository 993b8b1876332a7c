//! Forks from and into memory: source maps are iterated once into destination maps.

use std::collections::HashSet;
use std::sync::Arc;

use forkline_model::address::SEQ_MAX;
use forkline_model::policy::{self, Keep, LaneRows, LaneShape, Projector};
use forkline_model::{
    Address, BranchName, EntryId, Error as ModelError, ForkOptions, Json, LaneAudit, Metadata,
    Position, Scope, Seq, StoreKind,
};

use super::State;
use super::repo::Sessions;
use super::storage::Shared;
use crate::context::{Context, Progress};
use crate::error::Result;
use crate::fork::{Copied, Destination, InMemory, Plan, Row, Source};
use crate::repo::SessionRef;

/// How many rows are copied between two looks at the context.
const ROWS_PER_CHECK: u64 = 256;

pub(super) struct MemorySource {
    metadata: Metadata,
    state: Arc<State>,
    selection: Option<Selection>,
}

/// What a plan selected.
struct Selection {
    projector: Projector,
    /// The copied entries, root first; none means all of them (tree scope).
    path: Option<Vec<EntryId>>,
}

impl MemorySource {
    pub(super) fn new(metadata: Metadata, state: Arc<State>) -> Self {
        Self { metadata, state, selection: None }
    }

    /// Contract §3.1: the path of a branch fork, root first, and the selected tip.
    fn select_path(
        &self,
        branch: &BranchName,
        entry: Option<&EntryId>,
        position: Position,
    ) -> Result<Vec<EntryId>> {
        let tip = self.lane_tip(branch)?;
        let off_branch = |entry: &EntryId| ModelError::EntryNotOnBranch {
            branch: branch.clone(),
            entry: entry.clone(),
        };
        let Some(tip) = tip else {
            return match entry {
                Some(entry) => Err(off_branch(entry).into()),
                None => Ok(Vec::new()),
            };
        };
        let mut path = self.path(branch, &tip)?;
        if let Some(entry) = entry {
            let at = path.iter().position(|id| id == entry).ok_or_else(|| off_branch(entry))?;
            path.truncate(at + 1);
        }
        if position == Position::Before {
            path.pop();
        }
        Ok(path)
    }

    fn lane_tip(&self, branch: &BranchName) -> Result<Option<EntryId>> {
        let tip = self.state.value(&policy::tip_address(branch));
        let rows = self.lane_rows(branch);
        rows.require_complete(branch)?;
        match tip {
            Some((_, tip)) => Ok(policy::read_tip(branch, &tip)?),
            None => Err(ModelError::UnknownBranch { branch: branch.clone() }.into()),
        }
    }

    fn lane_rows(&self, branch: &BranchName) -> LaneRows {
        let values = self.state.values();
        LaneRows {
            tip: values.contains_key(&policy::tip_address(branch)),
            config: values.contains_key(&policy::config_address(branch)),
            state: values.contains_key(&policy::state_address(branch)),
        }
    }

    /// The ids from the root to `tip`.
    fn path(&self, branch: &BranchName, tip: &EntryId) -> Result<Vec<EntryId>> {
        let mut path = Vec::new();
        let mut next = Some(tip.clone());
        while let Some(id) = next.take() {
            let node = self.state.entry(&id).ok_or_else(|| ModelError::UnknownTip {
                branch: branch.clone(),
                tip: id.clone(),
            })?;
            next.clone_from(&node.head.parent);
            path.push(id);
        }
        path.reverse();
        Ok(path)
    }

    /// Contract §3.5, `Strict`: no partial lane, no tip that names no entry.
    fn audit_lanes(&self) -> Result<()> {
        let mut names = std::collections::BTreeSet::new();
        for address in self.state.values().keys() {
            let lane_rows = [policy::BRANCH_TIP, policy::LANE_CONFIG, policy::LANE_STATE];
            if lane_rows.contains(&address.namespace.as_str()) {
                names.insert(address.key.clone());
            }
        }
        for key in names {
            // A row at the empty key names no branch.
            let Ok(branch) = BranchName::new(key.as_str()) else { continue };
            if let LaneShape::Partial(reason) = self.lane_rows(&branch).shape() {
                return Err(ModelError::CorruptLane { branch, reason }.into());
            }
            if let Some((_, tip)) = self.state.value(&policy::tip_address(&branch))
                && let Some(tip) = policy::read_tip(&branch, &tip)?
                && self.state.entry(&tip).is_none()
            {
                return Err(ModelError::UnknownTip { branch, tip }.into());
            }
        }
        Ok(())
    }

    /// Surviving state in unknown reserved namespaces; the lowest seq is reported.
    fn require_known(&self, scope: &Scope) -> Result<()> {
        let fails = |kind, address: &Address| {
            policy::classify(scope, kind, address.namespace.as_str(), address.key.as_str())
                == policy::Disposition::Fail
        };
        let values =
            self.state.values().iter().map(|(address, (seq, _))| (*seq, StoreKind::Value, address));
        let lists = self.state.lists().iter().filter_map(|(address, elements)| {
            elements.first().map(|(seq, _)| (*seq, StoreKind::List, address))
        });
        let first = values.chain(lists).filter(|(_, kind, address)| fails(*kind, address)).min();
        match first {
            None => Ok(()),
            Some((_, kind, Address { namespace, key })) => {
                let (namespace, key) = (namespace.clone(), key.clone());
                Err(ModelError::UnknownReserved { kind, namespace, key }.into())
            }
        }
    }

    /// The kept values and elements in seq order: references into the source's maps.
    fn kept<'a>(
        &'a self,
        selection: &'a Selection,
        copied: Option<&HashSet<&EntryId>>,
    ) -> Result<Vec<Kept<'a>>> {
        let is_copied = |id: &str| -> Result<bool> {
            Ok(EntryId::new(id).is_ok_and(|id| match copied {
                Some(copied) => copied.contains(&id),
                None => self.state.entry(&id).is_some(),
            }))
        };
        let projector = &selection.projector;
        let project = |kind, address: &Address| {
            let (namespace, key) = (address.namespace.as_str(), address.key.as_str());
            projector.project(kind, namespace, key, is_copied)
        };
        let mut kept = Vec::new();
        for (address, (seq, value)) in self.state.values() {
            if let Some(keep) = project(StoreKind::Value, address)? {
                kept.push(Kept { seq: *seq, kind: StoreKind::Value, address, value, keep });
            }
        }
        for (address, elements) in self.state.lists() {
            if let Some(keep) = project(StoreKind::List, address)? {
                kept.extend(elements.iter().map(|(seq, value)| Kept {
                    seq: *seq,
                    kind: StoreKind::List,
                    address,
                    value,
                    keep,
                }));
            }
        }
        kept.sort_by_key(|kept| kept.seq);
        Ok(kept)
    }
}

/// A value or element that goes into the destination.
struct Kept<'a> {
    seq: Seq,
    kind: StoreKind,
    address: &'a Address,
    value: &'a Json,
    keep: Keep<'a>,
}

impl Source for MemorySource {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn plan(&mut self, options: &ForkOptions, audit: LaneAudit, _cx: &Context) -> Result<Plan> {
        let path = match &options.scope {
            Scope::Tree => {
                if audit == LaneAudit::Strict {
                    self.audit_lanes()?;
                }
                None
            }
            Scope::Branch { branch, entry, position } => {
                Some(self.select_path(branch, entry.as_ref(), *position)?)
            }
        };
        self.require_known(&options.scope)?;
        let next_seq = self.state.next_seq();
        if next_seq > SEQ_MAX {
            return Err(ModelError::SeqExhausted { next_seq }.into());
        }
        let tip = path.as_ref().and_then(|path| path.last().cloned());
        let projector = Projector::new(options.scope.clone(), tip);
        self.selection = Some(Selection { projector, path });
        Ok(Plan { next_seq })
    }

    fn stream(&mut self, sink: &mut dyn FnMut(Row<'_>) -> Result<()>, cx: &Context) -> Result<()> {
        let selection = self.selection.as_ref().expect("a source is planned before it streams");
        let copied = selection.path.as_ref().map(|path| path.iter().collect::<HashSet<_>>());
        let mut kept = self.kept(selection, copied.as_ref())?.into_iter().peekable();
        let mut rows = 0;
        let mut emit = |row: Row<'_>| {
            rows += 1;
            if rows % ROWS_PER_CHECK == 1 {
                cx.progress(Progress { rows_done: rows - 1, ..Progress::default() })?;
            }
            sink(row)
        };
        for node in self.state.entries() {
            if copied.as_ref().is_some_and(|copied| !copied.contains(&node.head.id)) {
                continue;
            }
            while let Some(row) = kept.next_if(|kept| kept.seq < node.head.seq) {
                emit_kept(&row, &mut emit)?;
            }
            let mut body = InMemory(node.payload.clone());
            emit(Row::Entry { head: &node.head, body: &mut body })?;
        }
        for row in kept {
            emit_kept(&row, &mut emit)?;
        }
        Ok(())
    }
}

fn emit_kept(kept: &Kept<'_>, emit: &mut dyn FnMut(Row<'_>) -> Result<()>) -> Result<()> {
    let mut body = InMemory(kept.keep.replacement().unwrap_or_else(|| kept.value.clone()));
    let (address, seq) = (kept.address, kept.seq);
    match kept.kind {
        StoreKind::Value => emit(Row::Value { address, seq, body: &mut body }),
        StoreKind::List => emit(Row::Element { address, seq, body: &mut body }),
    }
}

pub(super) struct MemoryDestination {
    sessions: Sessions,
    metadata: Metadata,
    state: State,
}

impl MemoryDestination {
    pub(super) fn new(sessions: Sessions, metadata: Metadata) -> Self {
        Self { sessions, metadata, state: State::new(1) }
    }

    fn take(&mut self, row: Row<'_>) -> Result<()> {
        match row {
            Row::Entry { head, body } => {
                self.state.advance(head.seq)?;
                self.state.insert_entry(head.clone(), body.json()?)?;
            }
            Row::Value { address, seq, body } => {
                self.state.advance(seq)?;
                self.state.set_value(address.clone(), seq, body.json()?);
            }
            Row::Element { address, seq, body } => {
                self.state.advance(seq)?;
                self.state.append_element(address.clone(), seq, body.json()?);
            }
        }
        Ok(())
    }
}

impl Destination for MemoryDestination {
    fn fill(&mut self, source: &mut dyn Source, plan: Plan, cx: &Context) -> Result<Copied> {
        let mut copied = Copied::default();
        source.stream(
            &mut |row| {
                copied.count(&row);
                self.take(row)
            },
            cx,
        )?;
        self.state.raise_next_seq(plan.next_seq);
        Ok(copied)
    }

    fn publish(self: Box<Self>, _cx: &Context) -> Result<SessionRef> {
        self.sessions.publish(Shared::new(self.metadata, self.state))
    }
}
