//! The way of a fork, the same for every pair of backends (architecture.md, contract §3).
//!
//! A [`Source`] is what was captured; a [`Destination`] is a stage that becomes visible in one
//! step. Each backend brings one of each, so that a fork within a backend and a transfer
//! between two are one code path: reserve, capture, plan, stage, publish.

use std::io;

use forkline_model::{Address, EntryHead, ForkOptions, Json, LaneAudit, Metadata, Seq, SessionId};

use crate::context::{Context, Milestone};
use crate::error::Result;
use crate::registry::Reservation;
use crate::repo::{Repo, SessionRef};

/// A captured instant of a session (contract §3.6), read once.
pub trait Source: Send {
    /// The source's metadata.
    fn metadata(&self) -> &Metadata;

    /// Whether the captured instant holds whatever happens to the source from now on. One that
    /// does not is planned before [`Milestone::Captured`] is told, and is not read after it.
    fn is_held(&self) -> bool {
        true
    }

    /// Validates the options against the captured instant and selects the rows.
    ///
    /// # Errors
    /// Those of contract §3.1 to §3.5, in the order that the contract gives, and *corrupt source*.
    fn plan(&mut self, options: &ForkOptions, audit: LaneAudit, cx: &Context) -> Result<Plan>;

    /// Hands over every selected row in seq order. Called once, after `plan`.
    fn stream(&mut self, sink: &mut dyn FnMut(Row<'_>) -> Result<()>, cx: &Context) -> Result<()>;

    /// Writes every selected row as a line of formats §1, where the source is JSONL: a JSONL
    /// destination then copies bytes instead of taking rows. Instead of [`Source::stream`].
    fn copy_lines(&mut self, out: &mut dyn io::Write, cx: &Context) -> Option<Result<Copied>> {
        let _ = (out, cx);
        None
    }

    /// The planned rows as a staging database, where the source is SQLite: a SQLite destination
    /// then moves them by set-based statements instead of row by row.
    fn take_stage(&mut self, cx: &Context) -> Result<Option<crate::sqlite::Stage>> {
        let _ = cx;
        Ok(None)
    }
}

/// What a plan found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// The next seq of the destination: the source's high-water mark (contract §3.3).
    pub next_seq: u64,
}

/// One row of a destination.
pub enum Row<'a> {
    /// An entry.
    Entry {
        /// All but its payload.
        head: &'a EntryHead,
        /// Its payload object.
        body: &'a mut dyn Body,
    },
    /// A value.
    Value {
        /// Where.
        address: &'a Address,
        /// Its seq.
        seq: Seq,
        /// What.
        body: &'a mut dyn Body,
    },
    /// An element of a list.
    Element {
        /// Where.
        address: &'a Address,
        /// Its seq.
        seq: Seq,
        /// What.
        body: &'a mut dyn Body,
    },
}

/// The content of a row, taken in the form that the destination needs.
pub trait Body {
    /// The payload of an entry (the object without its envelope) or the value, whole in memory.
    fn json(&mut self) -> Result<Json>;

    /// The write object of formats §1, exactly the source's bytes where the source is JSONL, in
    /// pieces; no line break behind it. `None` where the source has no such bytes: the
    /// destination then builds the object from the head and [`Body::json`].
    fn copy_jsonl(&mut self, out: &mut dyn io::Write) -> Option<Result<u64>>;
}

/// Content that is in memory.
pub(crate) struct InMemory(pub(crate) Json);

impl Body for InMemory {
    fn json(&mut self) -> Result<Json> {
        Ok(self.0.clone())
    }

    fn copy_jsonl(&mut self, _out: &mut dyn io::Write) -> Option<Result<u64>> {
        None
    }
}

/// A stage: out of sight until published, gone without a trace when dropped before.
pub trait Destination: Send {
    /// Takes the rows of a planned source.
    fn fill(&mut self, source: &mut dyn Source, plan: Plan, cx: &Context) -> Result<Copied>;

    /// Makes the destination visible in one step, durably.
    ///
    /// # Errors
    /// *Not committed*, *durability uncertain*, *session exists*.
    fn publish(self: Box<Self>, cx: &Context) -> Result<SessionRef>;
}

/// How much was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Copied {
    /// Entries.
    pub entries: u64,
    /// Entries of type `message`.
    pub messages: u64,
    /// Values.
    pub values: u64,
    /// List elements.
    pub elements: u64,
}

impl Copied {
    /// Counts one row.
    pub fn count(&mut self, row: &Row<'_>) {
        match row {
            Row::Entry { head, .. } => {
                self.entries += 1;
                self.messages += u64::from(head.entry_type.as_str() == "message");
            }
            Row::Value { .. } => self.values += 1,
            Row::Element { .. } => self.elements += 1,
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.entries + self.values + self.elements
    }
}

/// A fork that was made and not opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forked {
    /// The new session.
    pub reference: SessionRef,
    /// What it holds.
    pub copied: Copied,
    /// Its next seq.
    pub next_seq: u64,
}

/// Forks what `capture` gives into `into`: the one way that all forks go.
///
/// The destination's id is reserved before the source is captured, and released on every exit.
pub(crate) fn run(
    into: &(impl Repo + ?Sized),
    options: &ForkOptions,
    capture: impl FnOnce(&Context) -> Result<Box<dyn Source>>,
    cx: &Context,
) -> Result<(Forked, Reservation)> {
    let core = into.core();
    let id = match &options.id {
        Some(id) => id.clone(),
        None => crate::ids::next_session(&*core.environment().ids)?,
    };
    let reservation = core.registry().reserve(&id)?;
    cx.reached(Milestone::Reserved)?;
    let mut source = capture(cx)?;
    let early = if source.is_held() { None } else { Some(source.plan(options, core.audit(), cx)) };
    cx.reached(Milestone::Captured)?;
    let metadata = destination_metadata(into, id, source.metadata())?;
    into.require_free(&metadata)?;
    let plan = early.unwrap_or_else(|| source.plan(options, core.audit(), cx))?;
    cx.reached(Milestone::Planned)?;
    let mut destination = into.stage(&metadata, cx)?;
    let copied = destination.fill(&mut *source, plan, cx)?;
    drop(source);
    cx.reached(Milestone::Staged)?;
    let reference = destination.publish(cx)?;
    // The destination is there whatever the observer wants now.
    let _ = cx.reached(Milestone::Published);
    Ok((Forked { reference, copied, next_seq: plan.next_seq }, reservation))
}

/// The destination's metadata (contract §3.3).
fn destination_metadata(
    into: &(impl Repo + ?Sized),
    id: SessionId,
    source: &Metadata,
) -> Result<Metadata> {
    Ok(Metadata {
        id,
        created_at: into.core().environment().clock.now(),
        cwd: into.destination_cwd(source)?,
        parent_session_id: Some(source.id.clone()),
        legacy_parent_session_path: None,
    })
}
