//! Sessions in SQLite containers (formats §3).
//!
//! *Design.* [`SqliteRepo`] keeps one session per file or many in one shared container; the rows
//! are the same. An open session has one writing connection behind a mutex, which is its commit
//! queue. A fork reads its source through a connection of its own: `main` is an anonymous
//! temporary database, the [`Stage`], and the source is attached to it read-only. When all
//! selected rows are in the stage the source is detached; only then is the destination attached
//! and filled in one transaction.
//!
//! *Why this way.* `INSERT .. SELECT` from source to destination would hold the destination's
//! write lock for the whole copy; in a shared container that is the lock of the source's writer.
//! The stage costs one more copy of the selected rows, on disk in the system's folder for
//! temporary files (SQLite takes `SQLITE_TMPDIR`, `TMPDIR`, `/var/tmp`, `/tmp`, in this order;
//! `RepoOptions::scratch` does not reach it). Its file is unlinked from the start, so that not
//! even a killed process leaves it.
//!
//! *What a reader of a source touches* is in the `open` module: no byte of the database or its
//! `-wal`, and no new side file but the `-shm` that a `-wal` without one needs.
//!
//! # Invariants
//! 1. A path reaches SQLite absolute, and percent-encoded where it is part of a URI.
//! 2. No file of a database that may be open is opened but by SQLite: closing any descriptor of
//!    it would drop the locks that SQLite holds in this process.
//! 3. SQL is static text; all that comes from files or callers is bound.
//! 4. The observer of a fork is never called while a write lock is held.

mod capture;
mod commit;
mod destination;
mod index;
mod names;
mod open;
mod plan;
mod publish;
mod reads;
mod recount;
mod repo;
mod rows;
mod schema;
mod select;
mod stage;
mod storage;

pub use recount::{Finding, recount};
pub use repo::SqliteRepo;
pub use stage::Stage;
