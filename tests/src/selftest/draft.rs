//! Rows of a session as a list that can be spoiled before an engine gets it.

use std::io;

use forkline_engines::fork::{Body, Plan, Row, Source};
use forkline_engines::{Context, MemoryRepo, Repo, Result};
use forkline_model::{
    Address, Entry, EntryHead, EntryId, ForkOptions, Json, LaneAudit, Metadata, Seq, State,
    StateBuilder, policy,
};

/// One row and what it is.
#[derive(Debug, Clone)]
pub(super) struct DraftRow {
    pub(super) seq: Seq,
    pub(super) item: Item,
}

#[derive(Debug, Clone)]
pub(super) enum Item {
    Entry(EntryHead, Json),
    Value(Address, Json),
    Element(Address, Json),
}

/// What a destination is about to get, or what a source holds.
#[derive(Debug, Clone, Default)]
pub(super) struct Draft {
    pub(super) rows: Vec<DraftRow>,
    pub(super) next_seq: u64,
}

impl DraftRow {
    pub(super) fn entry(&self) -> Option<&EntryHead> {
        match &self.item {
            Item::Entry(head, _) => Some(head),
            Item::Value(..) | Item::Element(..) => None,
        }
    }

    /// The value of that namespace, with its key.
    pub(super) fn value_in(&mut self, wanted: &str) -> Option<(&Address, &mut Json)> {
        match &mut self.item {
            Item::Value(address, value) if address.namespace.as_str() == wanted => {
                Some((address, value))
            }
            _ => None,
        }
    }

    pub(super) fn json_mut(&mut self) -> &mut Json {
        match &mut self.item {
            Item::Entry(_, json) | Item::Value(_, json) | Item::Element(_, json) => json,
        }
    }
}

impl Draft {
    /// Whatever a planned source hands over.
    pub(super) fn take(source: &mut dyn Source, plan: Plan, cx: &Context) -> Result<Self> {
        let mut rows = Vec::new();
        source.stream(
            &mut |mut row| {
                rows.push(owned(&mut row)?);
                Ok(())
            },
            cx,
        )?;
        Ok(Self { rows, next_seq: plan.next_seq })
    }

    /// All that a state holds, but for the ledger.
    pub(super) fn of(state: &State) -> Self {
        let mut draft = Self { rows: Vec::new(), next_seq: state.next_seq() };
        for entry in state.entries().values() {
            draft.push(entry.seq, Item::Entry(entry.head(), entry.payload.clone()));
        }
        for (address, (seq, value)) in state.values() {
            draft.push(*seq, Item::Value(address.clone(), value.clone()));
        }
        for (address, elements) in state.lists() {
            for (seq, value) in elements {
                draft.push(*seq, Item::Element(address.clone(), value.clone()));
            }
        }
        draft.sort();
        draft
    }

    pub(super) fn push(&mut self, seq: Seq, item: Item) {
        self.rows.push(DraftRow { seq, item });
    }

    pub(super) fn sort(&mut self) {
        self.rows.sort_by_key(|row| row.seq);
    }

    pub(super) fn has(&self, seq: Seq) -> bool {
        self.rows.iter().any(|row| row.seq == seq)
    }

    pub(super) fn has_entry(&self, id: &str) -> bool {
        self.rows.iter().filter_map(DraftRow::entry).any(|head| head.id.as_str() == id)
    }

    /// The value at a tip's address becomes that entry.
    pub(super) fn move_tip(&mut self, branch: &str, to: &EntryId) {
        for row in &mut self.rows {
            if let Some((address, value)) = row.value_in(policy::BRANCH_TIP)
                && address.key.as_str() == branch
            {
                *value = Json::string(to.as_str());
            }
        }
    }

    /// The state of these rows, if they make one.
    pub(super) fn state(&self, metadata: Metadata) -> Option<State> {
        let mut builder = StateBuilder::new(metadata, self.next_seq);
        for DraftRow { seq, item } in self.rows.clone() {
            match item {
                Item::Entry(head, payload) => {
                    let EntryHead { id, parent, entry_type, custom_type, seq, timestamp } = head;
                    builder.entry(Entry {
                        id,
                        parent,
                        entry_type,
                        custom_type,
                        payload,
                        seq,
                        timestamp,
                    })
                }
                Item::Value(address, value) => builder.value(address, seq, value),
                Item::Element(address, value) => builder.element(address, seq, value),
            };
        }
        builder.finish().ok()
    }

    /// A captured session of the memory engine that holds these rows.
    pub(super) fn captured(self, metadata: &Metadata) -> Result<Box<dyn Source>> {
        let (repo, cx) = (MemoryRepo::new(), Context::new());
        let plan = Plan { next_seq: self.next_seq };
        let mut stage = repo.stage(metadata, &cx)?;
        stage.fill(&mut Ready { metadata, draft: &self }, plan, &cx)?;
        let at = stage.publish(&cx)?;
        repo.capture(&at, &cx)
    }

    pub(super) fn stream(&self, sink: &mut dyn FnMut(Row<'_>) -> Result<()>) -> Result<()> {
        for DraftRow { seq, item } in &self.rows {
            let seq = *seq;
            match item {
                Item::Entry(head, payload) => {
                    let head = EntryHead { seq, ..head.clone() };
                    sink(Row::Entry { head: &head, body: &mut Whole(payload) })?;
                }
                Item::Value(address, value) => {
                    sink(Row::Value { address, seq, body: &mut Whole(value) })?;
                }
                Item::Element(address, value) => {
                    sink(Row::Element { address, seq, body: &mut Whole(value) })?;
                }
            }
        }
        Ok(())
    }
}

/// A row as it goes by. The body is asked for its JSON, which it gives as often as asked.
pub(super) fn owned(row: &mut Row<'_>) -> Result<DraftRow> {
    Ok(match row {
        Row::Entry { head, body } => {
            DraftRow { seq: head.seq, item: Item::Entry((*head).clone(), body.json()?) }
        }
        Row::Value { address, seq, body } => {
            DraftRow { seq: *seq, item: Item::Value((*address).clone(), body.json()?) }
        }
        Row::Element { address, seq, body } => {
            DraftRow { seq: *seq, item: Item::Element((*address).clone(), body.json()?) }
        }
    })
}

/// Rows that need no plan.
struct Ready<'a> {
    metadata: &'a Metadata,
    draft: &'a Draft,
}

impl Source for Ready<'_> {
    fn metadata(&self) -> &Metadata {
        self.metadata
    }

    fn plan(&mut self, _options: &ForkOptions, _audit: LaneAudit, _cx: &Context) -> Result<Plan> {
        Ok(Plan { next_seq: self.draft.next_seq })
    }

    fn stream(&mut self, sink: &mut dyn FnMut(Row<'_>) -> Result<()>, _cx: &Context) -> Result<()> {
        self.draft.stream(sink)
    }
}

struct Whole<'a>(&'a Json);

impl Body for Whole<'_> {
    fn json(&mut self) -> Result<Json> {
        Ok(self.0.clone())
    }

    fn copy_jsonl(&mut self, _out: &mut dyn io::Write) -> Option<Result<u64>> {
        None
    }
}
