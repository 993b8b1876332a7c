//! The gate of Forkline: holds engines against the reference model.
//!
//! - [`verify`]: forks real sessions in every legal way through every engine and holds each
//!   result against the model; the main job of the `forkline` command.
//! - [`plain`]: independent readers of what is on the disk.
//! - [`plain_legacy`]: a plain import of legacy files, versions 1 to 3.
//! - [`lineup`]: the engines under test.
//!
//! `GATE.md` beside this crate says what is compared with what, and what is not claimed.

pub mod cli;
pub mod fixtures;
pub mod lineup;
pub mod plain;
pub mod plain_legacy;
pub mod verify;
