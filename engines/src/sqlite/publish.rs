//! How a new database file appears: built under another name, complete, synced, then renamed to
//! its own without replacing anything (reliability.md §1).
//!
//! The temporary file is locked (`flock`) for as long as it is built. That is how a sweep tells
//! a file in use from what a killed process left: the system releases the locks of the dead.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use forkline_model::SessionId;
use rusqlite::Connection;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::names::{SIDE_SUFFIXES, TEMP_PREFIX, TEMP_SUFFIX, side};
use super::open::attach;
use super::rows::failed;
use super::schema;
use crate::error::{Error, Result};

/// The name under which a destination is attached.
pub(super) const DESTINATION: &str = "dst";

/// From this many rows on, tables are filled before they are indexed.
const MANY_ROWS: u64 = 512;

/// How often a temporary file is made anew because a sweep took it before it was locked.
const ATTEMPTS: usize = 16;

/// Makes a folder and what is missing above it, durably.
///
/// # Errors
/// I/O.
pub(super) fn make_folder(folder: &Path) -> Result<()> {
    let mut missing = Vec::new();
    let mut next = Some(folder);
    while let Some(path) = next.filter(|path| !path.as_os_str().is_empty() && !path.exists()) {
        missing.push(path);
        next = path.parent();
    }
    fs::create_dir_all(folder).map_err(|error| Error::io("make the folder", folder, error))?;
    for path in missing {
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        sync_folder(above.unwrap_or(Path::new(".")))?;
    }
    Ok(())
}

pub(super) fn sync_folder(folder: &Path) -> Result<()> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| Error::io("sync the folder", folder, error))
}

/// A database file that is being built out of sight; gone when dropped.
pub(super) struct Temp {
    file: Option<tempfile::NamedTempFile>,
    path: PathBuf,
}

impl Temp {
    /// An empty file beside the destination, with the mode that new files get.
    fn create(folder: &Path) -> Result<Self> {
        for _ in 0..ATTEMPTS {
            let file = tempfile::Builder::new()
                .prefix(TEMP_PREFIX)
                .suffix(TEMP_SUFFIX)
                .permissions(fs::Permissions::from_mode(0o666))
                .tempfile_in(folder)
                .map_err(|error| Error::io("make a temporary file in", folder, error))?;
            let path = file.path().to_owned();
            let failed = |error| Error::io("lock", &path, error);
            file.as_file().lock().map_err(failed)?;
            let is_linked = file.as_file().metadata().map_err(failed)?.nlink() > 0;
            let temp = Self { file: Some(file), path };
            if is_linked {
                return Ok(temp);
            }
        }
        let taken = io::Error::other("other processes remove it at once");
        Err(Error::io("make a temporary file in", folder, taken))
    }

    /// Builds a container beside `destination`: tables, what `fill` writes to them in `dst`, and
    /// indexes and triggers, in one transaction. Those come last where there are many rows.
    ///
    /// # Errors
    /// I/O, and those of `fill`.
    pub(super) fn build(
        conn: &Connection,
        destination: &Path,
        rows: u64,
        fill: &mut dyn FnMut(&Connection) -> Result<()>,
    ) -> Result<Self> {
        let folder = destination.parent().unwrap_or(Path::new("/"));
        let temp = Self::create(folder)?;
        let at = |error| failed("write", &temp.path, error);
        let is_small = rows < MANY_ROWS;
        if is_small {
            let empty = schema::empty_file().map_err(at)?;
            fs::write(&temp.path, empty).map_err(|error| Error::io("write", &temp.path, error))?;
        }
        attach(conn, &temp.path, "mode=rw", DESTINATION).map_err(at)?;
        let built = temp.write(conn, !is_small, fill);
        let detached = conn.execute_batch("DETACH dst").map_err(at);
        built.and(detached)?;
        temp.require_no_side_file()?;
        Ok(temp)
    }

    fn write(
        &self,
        conn: &Connection,
        is_empty: bool,
        fill: &mut dyn FnMut(&Connection) -> Result<()>,
    ) -> Result<()> {
        let at = |error| failed("write", &self.path, error);
        // A failure throws the file away, so nothing is synced or kept before the end.
        conn.execute_batch(
            "PRAGMA dst.journal_mode = OFF; PRAGMA dst.synchronous = OFF; \
             PRAGMA dst.cache_size = -1024; BEGIN IMMEDIATE",
        )
        .map_err(at)?;
        let made = |make: fn(&Connection, &'static str) -> rusqlite::Result<()>| {
            if is_empty { make(conn, DESTINATION).map_err(at) } else { Ok(()) }
        };
        let filled = made(schema::create_tables)
            .and_then(|()| fill(conn))
            .and_then(|()| made(schema::complete));
        if let Err(error) = filled {
            // What cannot be rolled back is thrown away with the file.
            let _ = conn.execute_batch("ROLLBACK");
            return Err(error);
        }
        // Existing writers leave their files in WAL mode; the mode stands in the file. With the
        // exclusive mode no shared memory file is made for the moment of the change.
        conn.execute_batch(
            "COMMIT; PRAGMA dst.locking_mode = EXCLUSIVE; PRAGMA dst.journal_mode = WAL",
        )
        .map_err(at)
    }

    fn require_no_side_file(&self) -> Result<()> {
        for suffix in SIDE_SUFFIXES {
            let path = side(&self.path, suffix);
            if path.exists() {
                let left = io::Error::other("SQLite left this side file");
                return Err(Error::io("close", path, left));
            }
        }
        Ok(())
    }

    /// Syncs the file and gives it its name.
    ///
    /// # Errors
    /// *Session exists* when the name is taken, else *not committed*; *durability uncertain*
    /// when the file is there but its folder could not be synced.
    pub(super) fn publish(mut self, destination: &Path, session: &SessionId) -> Result<()> {
        let not_committed = |error: Error| Error::NotCommitted {
            path: destination.to_owned(),
            source: Box::new(error),
        };
        for suffix in SIDE_SUFFIXES {
            let path = side(destination, suffix);
            if path.symlink_metadata().is_ok() && destination.symlink_metadata().is_err() {
                let in_the_way = io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "a side file of a database that is gone is in the way",
                );
                return Err(not_committed(Error::io("publish beside", path, in_the_way)));
            }
        }
        let file = self.file.take().expect("taken only here");
        let synced = file.as_file().sync_all();
        // The lock goes before the name comes: closing this descriptor later could drop locks
        // that this process takes under the new name.
        let path = file.into_temp_path();
        synced.map_err(|error| not_committed(Error::io("sync", &self.path, error)))?;
        match rename_new(&path, destination) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let session = session.clone();
                return Err(forkline_model::Error::SessionExists { session }.into());
            }
            Err(error) => {
                return Err(not_committed(Error::io("publish", destination, error)));
            }
        }
        // The name is gone already, so there is nothing to remove any more.
        let _ = path.keep();
        let folder = destination.parent().unwrap_or(Path::new("/"));
        sync_folder(folder).map_err(|error| Error::DurabilityUncertain {
            path: destination.to_owned(),
            source: Box::new(error),
        })
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        // The file itself goes with `self.file`; what SQLite made beside it goes here. Nobody
        // hears of a failure: the next opening of the repository sweeps.
        for suffix in SIDE_SUFFIXES {
            let _ = fs::remove_file(side(&self.path, suffix));
        }
    }
}

/// Renames without replacing; where the file system cannot, by a second name.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            fs::hard_link(from, to)?;
            // The destination is complete; a sweep removes the other name if this fails.
            let _ = fs::remove_file(from);
            Ok(())
        }
        other => Ok(other?),
    }
}

/// Removes what killed processes left in a folder. Best effort: who cannot, leaves it.
pub(super) fn sweep(folder: &Path) {
    let Ok(names) = fs::read_dir(folder) else { return };
    for name in names.flatten() {
        let is_temp = name.file_name().to_str().is_some_and(|name| {
            let end = SIDE_SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix));
            name.starts_with(TEMP_PREFIX) && end.unwrap_or(name).ends_with(TEMP_SUFFIX)
        });
        if is_temp && name.file_type().is_ok_and(|kind| kind.is_file()) {
            sweep_one(&name.path());
        }
    }
}

fn sweep_one(path: &Path) {
    let is_side = !path.to_string_lossy().ends_with(TEMP_SUFFIX);
    if is_side {
        // A side file goes with its database, or after it.
        let text = path.to_string_lossy();
        let database = SIDE_SUFFIXES.iter().find_map(|suffix| text.strip_suffix(suffix));
        if database.is_some_and(|database| !Path::new(database).exists()) {
            let _ = fs::remove_file(path);
        }
        return;
    }
    let Ok(found) = fs::symlink_metadata(path) else { return };
    // With a second name it is a published database, which must not be opened here.
    if found.nlink() == 1 {
        let Ok(file) = File::options().read(true).write(true).open(path) else { return };
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return;
        }
        let _ = fs::remove_file(path);
    } else {
        let _ = fs::remove_file(path);
    }
    for suffix in SIDE_SUFFIXES {
        let _ = fs::remove_file(side(path, suffix));
    }
}
