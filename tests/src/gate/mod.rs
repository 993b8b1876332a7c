//! Random operation sequences over several sessions and repositories, engines against the model
//! after every step (gate.md).
//!
//! *Design.* [`generate`] makes operations for a state of the world, [`machine`] lets proptest
//! string them together, [`contest`] plays a sequence on the model and its drivers in step,
//! [`judge`] holds one driver against the model, [`coverage`] counts what was reached, [`run`]
//! does all this on every core, [`exhaustive`] goes through all small trees, [`simplify`] makes
//! a failure small, [`trace`] keeps it, and [`legacy`] adds what files of older versions hold.
//!
//! *Why this way.* The model is the measure, not the other engines: a sequence on one engine shows
//! what it would show on all of them in step. So engines take turns ([`InTurn`]): each sequence
//! is played by one ordered pair of them, all pairs come up, and forks cross between the two. A
//! run on all engines in step ([`Engines`]) is there for who wants every sequence on every engine.

mod contest;
mod coverage;
mod dice;
mod exhaustive;
mod generate;
mod judge;
mod legacy;
mod machine;
mod report;
mod run;
mod shapes;
mod simplify;
mod trace;

pub use contest::{Engines, InTurn, Named, Place, Roster, cwd_of, play};
pub use coverage::{Bucket, Tally};
pub use exhaustive::exhaustive;
pub use generate::{REPOS, Reference, SOURCES, Setup, Theme};
pub use judge::{Oracle, Violation};
pub use machine::Machine;
pub use report::Report;
pub use run::{Failure, OPS, Options, Outcome, operations, run, work_folder};
pub use simplify::simplify;
pub use trace::{TraceError, load, replay, replay_on, save, to_text};
