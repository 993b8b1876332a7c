//! The file operations that the JSONL engine uses, as a small trait.
//!
//! Nothing else of that engine touches the disk, so that every operation can fail in a test
//! ([`FailingFs`]) and the assumptions on the file system are a list that can be read
//! (`DESIGN.md`, "What we assume of the file system"). Scratch data of a fork, which nobody
//! ever sees, goes through the spill module instead.

mod failing;
mod real;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

pub use failing::{FailingFs, Fault, OPERATIONS};
pub use real::RealFs;

/// What tells one file from another, and how long it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Device and inode: two handles with the same one are the same file.
    pub identity: (u64, u64),
    /// Length in bytes.
    pub len: u64,
}

/// A file system. Paths are taken as they are; links are followed except where said.
pub trait FileSystem: fmt::Debug + Send + Sync {
    /// Makes a file that was not there, mode 0666 less the umask, to write and read.
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn FileHandle>>;

    /// Opens a regular file to read. Anything else is refused with *invalid input*; none hangs.
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn FileHandle>>;

    /// Opens a regular file to read and to append. Never creates.
    fn open_append(&self, path: &Path) -> io::Result<Arc<dyn FileHandle>>;

    /// What stands under a name now.
    fn stat(&self, path: &Path) -> io::Result<Stat>;

    /// Gives a file another name, in one step, unless anything at all has that name: then
    /// *already exists* and nothing changed.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file another name, in one step; a file of that name is replaced.
    fn rename_over(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file's name.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes one folder; *already exists* when something has that name.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty folder.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// The names in a folder, in any order.
    fn list_dir(&self, path: &Path) -> io::Result<Vec<OsString>>;

    /// Makes names that were made or removed in a folder survive a power loss.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
}

/// An open file.
pub trait FileHandle: fmt::Debug + Send + Sync {
    /// Reads at an offset; fewer bytes than asked for, or none at the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes at the end, maybe fewer bytes than asked for.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Cuts or extends the file.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Makes the file's bytes and length survive a power loss. Never repeated after a failure.
    fn sync(&self) -> io::Result<()>;

    /// Identity and length of the open file, whatever its name says now.
    fn stat(&self) -> io::Result<Stat>;

    /// Locks the file against other handles until this one is closed; `false`: another has it.
    fn try_lock(&self) -> io::Result<bool>;

    /// The mode bits.
    fn mode(&self) -> io::Result<u32>;

    /// Sets the mode bits.
    fn set_mode(&self, mode: u32) -> io::Result<()>;
}

/// Reads until the buffer is full or the file ends; tells how much was read.
pub(crate) fn read_full(
    file: &dyn FileHandle,
    buffer: &mut [u8],
    mut offset: u64,
) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset) {
            Ok(0) => break,
            Ok(count) => {
                filled += count;
                offset += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Appends all of it, in as few writes as the system allows: one, if nothing is in the way.
pub(crate) fn append_all(file: &dyn FileHandle, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.append(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
