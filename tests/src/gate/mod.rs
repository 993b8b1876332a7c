//! Random operation sequences over several sessions and repositories, every engine at once,
//! against the model after every step (gate.md).
//!
//! *Design.* [`generate`] makes operations for a state of the world, [`machine`] lets proptest
//! string them together, [`contest`] plays a sequence on the model and all drivers in step,
//! [`judge`] holds one driver against the model, [`coverage`] counts what was reached, [`run`]
//! does all this on every core, [`exhaustive`] goes through all small trees, [`simplify`] makes a
//! failure small, [`trace`] keeps it, and [`legacy`] adds what files of older versions hold.
//!
//! *Why this way.* All engines run the same sequence in step, so that the model is asked once,
//! and each engine is the first repository of one driver and the second of another: forks cross
//! between all of them without a sequence being run for every pair.

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

pub use contest::{Engines, Named, Place, Roster, cwd_of, play};
pub use coverage::{Bucket, Tally};
pub use exhaustive::exhaustive;
pub use generate::{REPOS, Reference, SOURCES, Setup, Theme};
pub use judge::{Oracle, Violation};
pub use machine::Machine;
pub use report::Report;
pub use run::{Failure, OPS_MAX, OPS_MIN, Options, Outcome, operations, run, work_folder};
pub use simplify::simplify;
pub use trace::{TraceError, load, replay, replay_on, save, to_text};
