//! Every small tree, every way to fork it, every pair of engines: a small space is enumerated,
//! not sampled.

use std::io;
use std::path::Path;
use std::sync::atomic::AtomicUsize;

use forkline_model::{
    BranchName, EntryId, EntryType, ForkRequest, LaneAudit, Millis, NewEntry, Op, Position, Scope,
    SessionId, Write, policy,
};

use super::contest::Roster;
use super::coverage::Tally;
use super::generate::texts::{branch_name, json};
use super::generate::{Setup, Theme};
use super::run::{Failure, Found, Options, Outcome, play_in, spread};

/// Forks every tree of up to `entries_max` entries at every point, in every scope and position,
/// from an open or a closed source, through all pairs of `engines` engines that take turns.
///
/// A tree is a choice of a parent, or none, for each entry among those before it; each entry, and
/// no entry at all, is the tip of one lane. Of `options` the folder, the shard and the number of
/// threads count.
///
/// # Errors
/// The work folder cannot be made.
pub fn exhaustive(
    entries_max: usize,
    engines: usize,
    options: &Options,
    roster: &dyn Roster,
    progress: &(dyn Fn() + Sync),
) -> io::Result<Outcome> {
    let trees: Vec<Vec<Option<usize>>> = (0..=entries_max).flat_map(trees).collect();
    let engines = engines.max(1);
    let pairs = engines * engines;
    let one = |case: u64, folder: &Path| -> Result<Tally, Box<Failure>> {
        let case_index = usize::try_from(case).expect("there are few trees");
        let parents = trees.get(case_index / pairs).expect("cases are counted below");
        let setup = Setup {
            audit: LaneAudit::Selected,
            cwd: CWD.to_owned(),
            turn: case_index / engines % engines,
            shift: case_index % engines,
            algebra: true,
            theme: Theme::Forks,
        };
        let ops = forks_of(parents);
        play_in(folder, &setup, &ops, roster, &AtomicUsize::new(0)).map_err(|violation| {
            let length = ops.len();
            let found = Found { seed: None, case, setup: setup.clone(), ops, violation, length };
            Box::new(found.make_small(roster, folder))
        })
    };
    let cases = u64::try_from(trees.len() * pairs).expect("there are few trees");
    spread(options, cases, &one, progress)
}

/// The working directory of all sessions.
const CWD: &str = "/gate";

/// All choices of parents for `count` entries: `count` factorial of them.
fn trees(count: usize) -> Vec<Vec<Option<usize>>> {
    let mut all = vec![Vec::new()];
    for entry in 0..count {
        let choices = || std::iter::once(None).chain((0..entry).map(Some));
        all = all
            .into_iter()
            .flat_map(|parents: Vec<Option<usize>>| {
                choices().map(move |parent| {
                    let mut parents = parents.clone();
                    parents.push(parent);
                    parents
                })
            })
            .collect();
    }
    all
}

fn forks_of(parents: &[Option<usize>]) -> Vec<Op> {
    let source = session("source");
    let mut ops = vec![
        Op::Create {
            repo: 0,
            id: source.clone(),
            cwd: Some(CWD.to_owned()),
            parent: None,
            created_at: Millis::EPOCH,
        },
        Op::Commit {
            repo: 0,
            session: source.clone(),
            writes: writes(parents),
            timestamp: Millis::EPOCH,
        },
    ];
    for (nth, scope) in scopes(parents.len()).into_iter().enumerate() {
        let id = session(&format!("fork {nth}"));
        let request = ForkRequest {
            from: 0,
            source: source.clone(),
            into: 1,
            id: id.clone(),
            scope,
            created_at: Millis::EPOCH,
            cwd: Some(CWD.to_owned()),
            closed: nth % 2 == 1,
        };
        ops.push(Op::Fork { request, open: true });
        ops.push(Op::Close { repo: 1, session: id.clone() });
        ops.push(Op::Delete { repo: 1, session: id });
    }
    ops
}

fn writes(parents: &[Option<usize>]) -> Vec<Write> {
    let mut writes: Vec<Write> = parents
        .iter()
        .enumerate()
        .map(|(nth, parent)| {
            // Every other entry is a compaction: branch indexes have their segments from those.
            let entry_type = if nth % 2 == 1 { EntryType::Compaction } else { EntryType::Message };
            let entry = NewEntry::new(entry(nth), parent.map(entry), entry_type, None, json("{}"));
            Write::Entry(entry.expect("an empty payload fits every type"))
        })
        .collect();
    for (branch, tip) in lanes(parents.len()) {
        let tip = tip.map_or_else(|| json("null"), |tip| json(&format!("\"{}\"", tip.as_str())));
        let rows = [
            (policy::tip_address(&branch), tip),
            (policy::config_address(&branch), json(r#"{"thinkingLevel":"off"}"#)),
            (policy::state_address(&branch), json(r#"{"lastOperationId":"o"}"#)),
        ];
        writes.extend(rows.into_iter().map(|(address, value)| Write::SetValue { address, value }));
    }
    writes
}

/// A lane for each entry, and one for none.
fn lanes(count: usize) -> Vec<(BranchName, Option<EntryId>)> {
    let none = std::iter::once((branch_name("none"), None));
    let each = (0..count).map(|nth| (branch_name(&format!("lane{nth}")), Some(entry(nth))));
    none.chain(each).collect()
}

fn scopes(count: usize) -> Vec<Scope> {
    let mut scopes = vec![Scope::Tree];
    for (branch, _) in lanes(count) {
        let points = std::iter::once(None).chain((0..count).map(|nth| Some(entry(nth))));
        for point in points {
            for position in [Position::At, Position::Before] {
                let (branch, entry) = (branch.clone(), point.clone());
                scopes.push(Scope::Branch { branch, entry, position });
            }
        }
    }
    scopes
}

fn entry(nth: usize) -> EntryId {
    EntryId::new(format!("e{nth}")).expect("it is a valid id")
}

fn session(id: &str) -> SessionId {
    SessionId::new(id).expect("it is a valid id")
}
