//! The reference model of Forkline: what a session tree is and what a fork of it is.
//!
//! Everything here is pure: no I/O, no clock, no randomness, no threads. Slow is fine and clever
//! is not: the model is what engines are held against, so it has to be obviously right. Its
//! normative text stands beside it in `CONTRACT.md`.
//!
//! Engines share the vocabulary (modules [`address`], [`entry`], [`write`](mod@write), [`usage`],
//! [`query`], [`metadata`], [`json`]) and the classifier ([`policy`]). They never call the model's
//! way of computing a fork, and the model never calls an engine.
//!
//! # Glossary
//!
//! - **session**: one durable conversation: an entry tree, values and lists, a usage ledger.
//! - **entry**: a node of the tree, written once; it names its parent or is a root.
//! - **branch**: a named path; its **tip** is the entry it ends at, or null.
//! - **lane**: a branch with a configuration and a state.
//! - **commit**: writes that are applied all or none; each gets the session's next **seq**.
//! - **fork**: a new session from one path (*branch scope*) or all (*tree scope*) of a source.
//! - **scope**: which of the two; **ancestry**: an entry and its parents up to a root.
//! - **classifier**: the closed function that says what a fork does with a namespace.
//! - **stage**, **publish**: build a destination out of sight, then make it visible in one step.

pub mod address;
pub mod builder;
pub mod diff;
pub mod entry;
pub mod error;
pub mod fork;
pub mod json;
pub mod lanes;
pub mod legacy;
mod loose;
mod members;
pub mod metadata;
pub mod op;
pub mod policy;
pub mod query;
mod run;
pub mod state;
pub mod usage;
pub mod world;
pub mod write;

pub use address::{
    Address, BranchName, EntryId, Key, Millis, Namespace, Seq, SessionId, StoreKind, TypeName,
};
pub use builder::StateBuilder;
pub use entry::{Entry, EntryHead, EntryType, NewEntry};
pub use error::{Error, ErrorKind, Result};
pub use fork::{Birth, Plan, fork};
pub use json::Json;
pub use lanes::{Finding, Lane};
pub use legacy::Legacy;
pub use metadata::{ForkOptions, LaneAudit, Metadata, Position, Scope};
pub use op::{Answer, Op, ReadOp, Trace};
pub use query::{BranchScan, EntryQuery, Limit, ListQuery, Order, SeqQuery};
pub use state::{Committed, State};
pub use usage::{NewUsage, Stats, Usage, UsageRow};
pub use world::{ForkRequest, RepoIndex, World};
pub use write::Write;
