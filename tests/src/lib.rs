//! The gate of Forkline: holds engines against the reference model.
//!
//! - [`verify`]: forks real sessions in every legal way through every engine and holds each
//!   result against the model; the main job of the `forkline` command.
//! - [`protocol`]: engines in other processes and languages, and our own as such.
//! - [`plain`]: independent readers of what is on the disk.
//! - [`lineup`]: the engines under test.
//! - [`driver`]: one engine under test, driven by the model's vocabulary.
//!
//! `GATE.md` beside this crate says what is compared with what, and what is not claimed.

pub mod cli;
pub mod driver;
pub mod lineup;
pub mod plain;
pub mod protocol;
pub mod verify;
