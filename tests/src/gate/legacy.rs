//! Legacy files in the model's world: what they hold says the plain import, which shares no code
//! with the engines.

use forkline_model::{Answer, EntryId, ErrorKind, Legacy, Millis, Op, SessionId, State, World};

use crate::driver::{imported_id, legacy_text, upgrade_id};
use crate::plain_legacy::{self, Imported, Mode, Outside, Refusal};

/// Runs one operation on the world, those on legacy files included.
pub(super) fn run(world: &mut World, op: &Op) -> Answer {
    let Op::Plant { repo, session, lines, torn } = op else { return world.run(op) };
    let Some((state, legacy)) = read(session, &legacy_text(lines, torn)) else {
        return Answer::Error { kind: ErrorKind::InvalidPayload };
    };
    match world.plant(*repo, state, legacy) {
        Ok(()) => Answer::Done,
        Err(error) => Answer::Error { kind: error.kind() },
    }
}

/// What the file of a session holds; none if its first line is no header of that session.
fn read(session: &SessionId, text: &str) -> Option<(State, Legacy)> {
    let (imported, is_damaged) = match import(text) {
        Ok(imported) => (imported, false),
        Err(Refusal::Damaged(_)) => {
            let header = text.split_inclusive('\n').next()?;
            (import(header).ok()?, true)
        }
        Err(Refusal::Header(_) | Refusal::Version(_)) => return None,
    };
    if imported.state.metadata().id != *session {
        return None;
    }
    // What is no valid id cannot be asked for.
    let of_file = |(legacy, id): (String, EntryId)| Some((EntryId::new(legacy).ok()?, id));
    let ids = imported.ids.into_iter().filter_map(of_file).collect();
    let legacy = Legacy { ids, usage: imported.usage.ok(), usage_id: upgrade_id(), is_damaged };
    Some((imported.state, legacy))
}

fn import(text: &str) -> Result<Imported, Refusal> {
    let mut mint =
        |order: usize, _: Millis, _: Option<&str>| imported_id(order).as_str().to_owned();
    // Sequences name no parent that is there.
    let mut outside = Outside { mint: &mut mint, parent: &|_| None };
    plain_legacy::import(text.as_bytes(), Mode::Refuse, &mut outside)
}
