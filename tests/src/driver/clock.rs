//! Clock and ids that the operations decide.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forkline_engines::{Clock, Environment, IdSource};
use forkline_model::Millis;

/// A clock that stands until it is set.
#[derive(Debug, Clone, Default)]
pub(super) struct SetClock(Arc<AtomicU64>);

impl SetClock {
    pub(super) fn set(&self, time: Millis) {
        self.0.store(time.get(), Ordering::SeqCst);
    }

    /// An environment with this clock, whose ids are numbered.
    pub(super) fn environment(&self) -> Environment {
        Environment { clock: Arc::new(self.clone()), ids: Arc::new(Numbered::default()) }
    }
}

impl Clock for SetClock {
    fn now(&self) -> Millis {
        Millis::new(self.0.load(Ordering::SeqCst)).expect("only times are set")
    }
}

/// Operations bring their ids; an engine that asks for one nevertheless gets the same each run.
#[derive(Debug, Default)]
struct Numbered(AtomicU64);

impl IdSource for Numbered {
    fn next(&self, _timestamp: Option<Millis>) -> String {
        format!("generated-{}", self.0.fetch_add(1, Ordering::SeqCst))
    }
}
