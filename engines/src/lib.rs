//! Streaming engines for agent session trees: memory, JSONL and SQLite, with forks that read
//! their source with bounded memory and never write to it.
//!
//! - [`Repo`]: create, open, list, delete, fork, close. [`MemoryRepo`], [`JsonlRepo`] and
//!   [`SqliteRepo`] are the backends; [`transfer`] forks between them.
//! - [`Session`]: an open session with its mutation line, values, lists, name, labels and reads.
//! - [`Branch`]: one named path: tip, queries along it, append.
//! - [`Context`]: cancellation and progress of a long call.
//!
//! The API is synchronous and thread-safe. What a fork is, the model says
//! ([`forkline_model`], `CONTRACT.md` beside it); how it is made durable, `DESIGN.md` here.
//!
//! # Example
//!
//! ```
//! use forkline_engines::{Context, CreateOptions, JsonlRepo, Repo};
//! use forkline_model::{BranchName, ForkOptions, Json};
//!
//! # let folder = tempfile::tempdir().expect("a temporary folder");
//! # let root = folder.path();
//! let cx = Context::new();
//! let repo = JsonlRepo::open(root)?;
//! let session = repo.create(&CreateOptions::new("/home/me/project"), &cx)?;
//! let main = session.create_branch(&BranchName::new("main")?, None, &cx)?;
//! let question = Json::parse(r#"{"role":"user","content":"Why?"}"#).expect("it is JSON");
//! let entry = main.append_message(&question, &cx)?;
//!
//! let fork = repo.fork(&session, &ForkOptions::tree(), &cx)?;
//! assert_eq!(fork.branch(main.name())?.expect("copied").tip()?, Some(entry));
//! # Ok::<(), forkline_engines::Error>(())
//! ```

mod branch;
mod context;
mod error;
pub mod fork;
pub mod fs;
mod ids;
pub mod jsonl;
mod line;
pub mod memory;
mod registry;
mod repo;
mod resident;
pub mod scan;
mod session;
#[doc(hidden)]
pub mod spill;
pub mod sqlite;
mod storage;
pub mod transfer;

pub use branch::Branch;
pub use context::{CancelToken, Context, Milestone, Observer, Progress};
pub use error::{Error, Place, Result};
pub use fork::{Copied, Forked};
pub use ids::{Clock, IdSource, SystemClock, UuidSource};
pub use jsonl::JsonlRepo;
pub use memory::MemoryRepo;
pub use repo::{
    CreateOptions, Environment, ListFilter, Location, Repo, RepoCore, RepoOptions, SessionRef,
    SyncCommits,
};
pub use session::{Mutation, Session};
pub use sqlite::SqliteRepo;
pub use storage::{Committed, StateRow, Storage};
