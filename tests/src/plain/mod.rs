//! Independent readers of session files: slow, value-based, and no code of the engines.
//!
//! They are what the gate looks through when it asks what a file says. [`jsonl`] reads a whole
//! file with `serde_json`, line by line; [`sqlite`] reads a private copy of a container with
//! queries of its own; [`layout`] says where a repository puts a session. All three build the
//! model's [`State`](forkline_model::State), so that an engine's result and the model's can be
//! held against what is really on the disk.
//!
//! *Why this way*: an engine that reads back what it wrote proves only that it agrees with
//! itself. Memory is in proportion to the file on purpose; the bounded readers are the engines.

pub mod branch_index;
pub mod jsonl;
pub mod layout;
mod object;
pub mod peer;
pub mod repair;
pub mod sqlite;

use forkline_model::ErrorKind;

/// What is wrong with a source, where, and whom it concerns.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{reason}", at_line(*.line))]
pub struct Damage {
    /// *Corrupt source* or *unsupported version*.
    pub kind: ErrorKind,
    /// The line, counted from 1, in files that have lines.
    pub line: Option<u64>,
    /// What is wrong there.
    pub reason: String,
    /// Who has to refuse the file.
    pub concerns: Concerns,
}

/// Who has to refuse a damaged file (formats §1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Concerns {
    /// Open and every fork.
    OpenAndFork,
    /// Open, and a fork that would copy or walk it; where there is a later damage that concerns
    /// every fork, its line.
    OpenAndSomeForks {
        /// The line of the damage that every fork has to refuse, if there is one.
        fork_line: Option<u64>,
    },
}

fn at_line(line: Option<u64>) -> String {
    line.map_or_else(String::new, |line| format!("line {line}: "))
}
