//! Sessions in SQLite containers (formats §3).

/// Session containers in one folder, or one shared container.
pub struct SqliteRepo;

/// The selected rows of a fork in an anonymous temporary database.
pub struct Stage;
