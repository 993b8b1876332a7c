//! What a session holds, as the model's state.

use forkline_engines::{Session, StateRow};
use forkline_model::StateBuilder;
use forkline_model::state::State;

/// The state that the session's dump tells.
pub(crate) fn state_of(session: &Session) -> State {
    let mut builder = StateBuilder::new(session.metadata().clone(), session.next_seq().unwrap());
    let mut collect = |row| {
        match row {
            StateRow::Entry(entry) => builder.entry(entry),
            StateRow::Usage(row) => builder.usage(row),
            StateRow::Value { address, seq, value } => builder.value(address, seq, value),
            StateRow::Element { address, seq, value } => builder.element(address, seq, value),
        };
        Ok(())
    };
    session.dump(&mut collect).unwrap();
    builder.finish().unwrap()
}
