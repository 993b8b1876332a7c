//! Clock and ids that the operations decide.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forkline_engines::{Clock, Environment, IdSource};
use forkline_model::{EntryId, Millis, Op};

/// Where the ids begin that are asked for while something is committed. No file has as many
/// records, so none of them meets an id of an import.
const FIRST_OF_A_COMMIT: u64 = 1 << 32;

/// A clock that stands until it is set, and ids that begin anew with every operation: what an
/// operation makes does not depend on what else was done, so every import of a legacy file gives
/// the same ids.
#[derive(Debug, Clone, Default)]
pub(super) struct SetClock {
    time: Arc<AtomicU64>,
    ids: Arc<Numbered>,
}

impl SetClock {
    pub(super) fn set(&self, time: Millis) {
        self.time.store(time.get(), Ordering::SeqCst);
    }

    /// An operation begins.
    pub(super) fn begin(&self, op: &Op) {
        if let Some(time) = op.timestamp() {
            self.set(time);
        }
        let imports = matches!(
            op,
            Op::Open { .. }
                | Op::Reopen { .. }
                | Op::Fork { .. }
                | Op::ForkBegin { .. }
                | Op::ForkFinish { .. }
        );
        self.ids.0.store(if imports { 0 } else { FIRST_OF_A_COMMIT }, Ordering::SeqCst);
    }

    /// A commit begins that is no operation of its own.
    pub(super) fn begin_commit(&self, time: Millis) {
        self.set(time);
        self.ids.0.store(FIRST_OF_A_COMMIT, Ordering::SeqCst);
    }

    /// An environment with this clock, whose ids are numbered.
    pub(super) fn environment(&self) -> Environment {
        Environment { clock: Arc::new(self.clone()), ids: self.ids.clone() }
    }
}

impl Clock for SetClock {
    fn now(&self) -> Millis {
        Millis::new(self.time.load(Ordering::SeqCst)).expect("only times are set")
    }
}

/// The id of the n-th entry of an import, from 0.
pub(crate) fn imported_id(order: usize) -> EntryId {
    id(order as u64)
}

/// The id of the row that an upgrade writes the imported usage to.
pub(crate) fn upgrade_id() -> EntryId {
    id(FIRST_OF_A_COMMIT)
}

fn id(number: u64) -> EntryId {
    EntryId::new(text(number)).expect("it is a short text")
}

fn text(number: u64) -> String {
    format!("generated-{number}")
}

/// Operations bring their ids; an engine that asks for one nevertheless gets the same each run.
#[derive(Debug, Default)]
struct Numbered(AtomicU64);

impl IdSource for Numbered {
    fn next(&self, _timestamp: Option<Millis>) -> String {
        text(self.0.fetch_add(1, Ordering::SeqCst))
    }
}
