//! The planted bugs: those that gate.md names, in its order, all of them and no others.

use super::plant::Plant;
use super::{disk, rows, shown};
use crate::gate::Oracle;
use crate::lineup::EngineKind::{self, Jsonl, Memory, Sqlite, SqliteShared};

/// One bug in one engine.
#[derive(Debug)]
pub struct Bug {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What gate.md says of it.
    pub sentence: &'static str,
    /// The engine it is planted in.
    pub engine: EngineKind,
    /// The groups of oracles of which one has to catch it; caught by another one it is not the
    /// bug that it is meant to be.
    pub layers: &'static [Oracle],
    pub(super) plant: Plant,
}

/// What a session holds, what is answered, and what files hold: a fork that is wrong shows in the
/// first when it is opened, and in the others when it is not, whichever comes first.
const LOGICAL: &[Oracle] = &[Oracle::State, Oracle::Answer, Oracle::File];

const fn bug(
    name: &'static str,
    sentence: &'static str,
    engine: EngineKind,
    layers: &'static [Oracle],
    plant: Plant,
) -> Bug {
    Bug { name, sentence, engine, layers, plant }
}

/// All of them.
pub const BUGS: [Bug; 35] = [
    bug("renumbers", "renumbers copied seqs", Memory, LOGICAL, Plant::Rows(rows::renumber)),
    bug(
        "next-seq-too-low",
        "next seq one too low",
        Sqlite,
        LOGICAL,
        Plant::Rows(rows::next_seq_too_low),
    ),
    bug(
        "next-seq-of-entries",
        "next seq from the highest copied entry",
        Jsonl,
        LOGICAL,
        Plant::Rows(rows::next_seq_of_entries),
    ),
    bug(
        "lists-in-branch-scope",
        "copies lists in branch scope",
        SqliteShared,
        LOGICAL,
        Plant::Rows(rows::lists_in_branch_scope),
    ),
    bug(
        "no-lists-in-tree-scope",
        "drops lists in tree scope",
        Jsonl,
        LOGICAL,
        Plant::Rows(rows::no_lists_in_tree_scope),
    ),
    bug(
        "revives-elements",
        "revives elements from before a list delete",
        Memory,
        LOGICAL,
        Plant::Shown(shown::dead_elements),
    ),
    bug(
        "superseded-sets",
        "emits superseded sets",
        Memory,
        LOGICAL,
        Plant::Shown(shown::superseded_sets),
    ),
    bug(
        "cutoff",
        "applies a `seq \u{2264} tip` cutoff to application state",
        Jsonl,
        LOGICAL,
        Plant::Rows(rows::cutoff),
    ),
    bug(
        "no-ancestry-check",
        "does not check ancestry",
        Memory,
        LOGICAL,
        Plant::Shown(shown::no_ancestry_check),
    ),
    bug(
        "any-branch",
        "checks ancestry against all branches",
        Memory,
        LOGICAL,
        Plant::Shown(shown::any_branch_will_do),
    ),
    bug("before-is-at", "`before` off by one", Sqlite, LOGICAL, Plant::Asked(shown::before_is_at)),
    bug(
        "busy-lane-state",
        "keeps lane state un-idled",
        SqliteShared,
        LOGICAL,
        Plant::Rows(rows::busy_lane_state),
    ),
    bug(
        "last-operation",
        "keeps `lastOperationId`",
        Memory,
        LOGICAL,
        Plant::Rows(rows::last_operation),
    ),
    bug("second-lane", "copies a second lane", Jsonl, LOGICAL, Plant::Rows(rows::second_lane)),
    bug(
        "no-data-only-branches",
        "drops data-only branches",
        Sqlite,
        LOGICAL,
        Plant::Rows(rows::no_data_only_branches),
    ),
    bug(
        "no-unreachable-entries",
        "drops unreachable entries",
        Memory,
        LOGICAL,
        Plant::Rows(rows::no_unreachable_entries),
    ),
    bug(
        "labels-of-others",
        "copies labels of uncopied entries",
        SqliteShared,
        LOGICAL,
        Plant::Rows(rows::labels_of_others),
    ),
    bug("results", "copies `pi.result`", Jsonl, LOGICAL, Plant::Rows(rows::results)),
    bug(
        "ledger",
        "copies the ledger",
        SqliteShared,
        LOGICAL,
        Plant::Published(disk::copy_the_ledger),
    ),
    bug(
        "all-are-messages",
        "counts all entries as messages",
        Sqlite,
        LOGICAL,
        Plant::Published(disk::count_all_entries),
    ),
    bug(
        "ignores-unknown-reserved",
        "ignores unknown reserved state",
        Memory,
        LOGICAL,
        Plant::Shown(shown::no_unknown_reserved),
    ),
    bug(
        "dead-reserved",
        "fails on dead reserved history",
        Memory,
        LOGICAL,
        Plant::Shown(shown::dead_reserved),
    ),
    bug(
        "pi2-is-reserved",
        "treats `pi2` as reserved",
        Memory,
        LOGICAL,
        Plant::Shown(shown::pi2_is_reserved),
    ),
    bug(
        "half-a-torn-commit",
        "includes half of a torn commit",
        Jsonl,
        LOGICAL,
        Plant::Tail(disk::half_a_tail),
    ),
    bug(
        "torn-commit-that-parses",
        "includes a torn commit that parses",
        Jsonl,
        LOGICAL,
        Plant::Tail(disk::tail_that_parses),
    ),
    bug(
        "repairs-its-source",
        "repairs its source",
        Jsonl,
        &[Oracle::Source],
        Plant::Tail(disk::cut_the_tail),
    ),
    bug("leaks-the-id", "leaks the destination id on rejection", Memory, LOGICAL, Plant::LeakedId),
    bug(
        "leaves-a-temp-file",
        "leaves a temp file",
        Jsonl,
        &[Oracle::Folder],
        Plant::Published(disk::leave_a_file),
    ),
    bug("late-commit", "lets a late commit in", Memory, LOGICAL, Plant::LateBoundary),
    bug("lost-commit", "loses a commit admitted before", Jsonl, LOGICAL, Plant::EarlyBoundary),
    bug(
        "numbers-as-doubles",
        "re-serializes numbers through a double",
        Sqlite,
        LOGICAL,
        Plant::Rows(rows::numbers_as_doubles),
    ),
    bug(
        "no-unknown-members",
        "drops unknown payload members",
        SqliteShared,
        LOGICAL,
        Plant::Rows(rows::no_unknown_members),
    ),
    bug("out-of-order", "reorders rows", Jsonl, LOGICAL, Plant::Rows(rows::out_of_order)),
    bug(
        "no-shared-path",
        "rebuilds the branch index wrongly after divergence",
        Sqlite,
        LOGICAL,
        Plant::Published(disk::no_shared_path),
    ),
    bug(
        "like-without-escape",
        "does not honour `%`/`_` in a namespace prefilter",
        SqliteShared,
        LOGICAL,
        Plant::Published(disk::like_without_escape),
    ),
];
