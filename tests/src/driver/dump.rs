//! The whole state of an open session, as the model's.

use forkline_engines::{Session, StateRow};
use forkline_model::{State, StateBuilder};

use super::Fault;

/// Of a session that is still a legacy file the statistics are not compared: they count imported
/// usage that no row has yet.
pub(super) fn dump(session: &Session, is_legacy: bool) -> Result<State, Fault> {
    let unreadable = |error: forkline_engines::Error| Fault::new(error.chain());
    let next_seq = session.next_seq().map_err(unreadable)?;
    let mut builder = StateBuilder::new(session.metadata().clone(), next_seq);
    let mut visit = |row| {
        match row {
            StateRow::Entry(entry) => builder.entry(entry),
            StateRow::Usage(row) => builder.usage(row),
            StateRow::Value { address, seq, value } => builder.value(address, seq, value),
            StateRow::Element { address, seq, value } => builder.element(address, seq, value),
        };
        Ok(())
    };
    session.dump(&mut visit).map_err(unreadable)?;
    let state = builder.finish().map_err(|error| {
        Fault::new(format!("the rows of session {} make none: {error}", session.metadata().id))
    })?;
    let (said, counted) = (session.stats().map_err(unreadable)?, state.stats());
    if said != counted && !is_legacy {
        return Err(Fault::new(format!("stats say {said:?}, a recount {counted:?}")));
    }
    Ok(state)
}
