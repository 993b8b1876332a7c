//! What a planted repository knows of its sessions besides what the engine keeps: a bug may need
//! what a fork has left out already, and what a session held once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forkline_model::{Metadata, Millis, Seq, SessionId, State, Write};

use super::draft::{Draft, Item};

/// One session: what it holds, and every write that led there.
#[derive(Debug, Clone)]
pub(super) struct Shadow {
    pub(super) state: State,
    pub(super) past: Vec<(Seq, Write)>,
}

impl Shadow {
    fn apply(&mut self, writes: &[Write], now: Millis) {
        let first = self.state.next_seq();
        // An engine that takes what the model refuses is found elsewhere.
        if self.state.apply(writes, now).is_ok() {
            let seqs = (first..).map_while(|seq| Seq::new(seq).ok());
            self.past.extend(seqs.zip(writes.iter().cloned()));
        }
    }
}

/// The sessions of one repository.
#[derive(Debug, Clone, Default)]
pub(super) struct Shadows(Arc<Mutex<BTreeMap<SessionId, Shadow>>>);

impl Shadows {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<SessionId, Shadow>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, id: &SessionId) -> Option<Shadow> {
        self.lock().get(id).cloned()
    }

    pub(super) fn created(&self, metadata: &Metadata) {
        let shadow = Shadow { state: State::new(metadata.clone()), past: Vec::new() };
        self.lock().insert(metadata.id.clone(), shadow);
    }

    /// A fork: its past begins with what it got. One whose rows make no session has none.
    pub(super) fn forked(&self, metadata: &Metadata, draft: &Draft) {
        let Some(state) = draft.state(metadata.clone()) else {
            self.removed(&metadata.id);
            return;
        };
        let writes = draft.rows.iter().filter_map(|row| match row.item.clone() {
            Item::Entry(..) => None,
            Item::Value(address, value) => Some((row.seq, Write::SetValue { address, value })),
            Item::Element(address, value) => {
                Some((row.seq, Write::AppendElement { address, value }))
            }
        });
        let shadow = Shadow { state, past: writes.collect() };
        self.lock().insert(metadata.id.clone(), shadow);
    }

    pub(super) fn removed(&self, id: &SessionId) {
        self.lock().remove(id);
    }

    pub(super) fn committed(&self, id: &SessionId, writes: &[Write], now: Millis) {
        if let Some(shadow) = self.lock().get_mut(id) {
            shadow.apply(writes, now);
        }
    }
}
