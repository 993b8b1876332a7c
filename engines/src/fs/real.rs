//! The file system of the machine.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::{FileHandle, FileSystem, Stat};

/// `std::fs`, and `renameat2` where std has no call.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealFs;

/// Opening a FIFO or a device must not wait for whoever is at its other end.
const NON_BLOCKING: u32 = OFlags::NONBLOCK.bits();

impl FileSystem for RealFs {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn FileHandle>> {
        let file = OpenOptions::new().read(true).append(true).create_new(true).open(path)?;
        Ok(Arc::new(file))
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn FileHandle>> {
        let file = OpenOptions::new().read(true).custom_flags(flags()).open(path)?;
        regular(file)
    }

    fn open_append(&self, path: &Path) -> io::Result<Arc<dyn FileHandle>> {
        let file = OpenOptions::new().read(true).append(true).custom_flags(flags()).open(path)?;
        regular(file)
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        fs::metadata(path).map(|metadata| stat_of(&metadata))
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            Err(Errno::NOSYS | Errno::INVAL) => link_new(from, to),
            other => Ok(other?),
        }
    }

    fn rename_over(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn list_dir(&self, path: &Path) -> io::Result<Vec<OsString>> {
        fs::read_dir(path)?.map(|item| item.map(|item| item.file_name())).collect()
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

impl FileHandle for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(self, buffer, offset)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = self;
        file.write(bytes)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        File::set_len(self, len)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_all()
    }

    fn stat(&self) -> io::Result<Stat> {
        self.metadata().map(|metadata| stat_of(&metadata))
    }

    fn try_lock(&self) -> io::Result<bool> {
        match File::try_lock(self) {
            Ok(()) => Ok(true),
            Err(fs::TryLockError::WouldBlock) => Ok(false),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.set_permissions(fs::Permissions::from_mode(mode))
    }

    fn mode(&self) -> io::Result<u32> {
        Ok(self.metadata()?.permissions().mode() & 0o7777)
    }
}

fn flags() -> i32 {
    NON_BLOCKING.cast_signed()
}

fn stat_of(metadata: &fs::Metadata) -> Stat {
    Stat { identity: (metadata.dev(), metadata.ino()), len: metadata.len() }
}

/// A handle to a regular file; anything else is refused.
fn regular(file: File) -> io::Result<Arc<dyn FileHandle>> {
    if file.metadata()?.is_file() {
        return Ok(Arc::new(file));
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"))
}

/// `rename_new` for file systems without the flag: the new name appears in one step, too.
fn link_new(from: &Path, to: &Path) -> io::Result<()> {
    fs::hard_link(from, to)?;
    // The file has both names now. The old one is only a temporary one, which the next opening
    // of the repository removes: failing here would report a destination that is complete.
    let _ = fs::remove_file(from);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary folder")
    }

    #[test]
    fn neither_way_of_renaming_replaces_anything() {
        let folder = folder();
        let ways: [fn(&Path, &Path) -> io::Result<()>; 2] =
            [|from, to| RealFs.rename_new(from, to), link_new];
        for rename in ways {
            let from = folder.path().join("from");
            fs::write(&from, "new").unwrap();
            let file = folder.path().join("file");
            fs::write(&file, "old").unwrap();
            let dangling = folder.path().join("dangling");
            let _ = std::os::unix::fs::symlink("nowhere", &dangling);
            let taken = folder.path().join("folder");
            let _ = fs::create_dir(&taken);
            for to in [&file, &dangling, &taken] {
                let error = rename(&from, to).expect_err("the name is taken");
                assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{}", to.display());
            }
            assert_eq!(fs::read(&file).unwrap(), b"old");
            let free = folder.path().join("free");
            rename(&from, &free).unwrap();
            assert_eq!(fs::read(&free).unwrap(), b"new");
            assert!(!from.exists());
            fs::remove_file(free).unwrap();
        }
    }

    #[test]
    fn only_regular_files_are_opened_and_nothing_hangs() {
        let folder = folder();
        let fifo = folder.path().join("fifo");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        for path in [fifo.as_path(), folder.path(), Path::new("/dev/null")] {
            let error = RealFs.open_read(path).expect_err("no regular file");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{}", path.display());
            assert!(RealFs.open_append(path).is_err(), "{}", path.display());
        }
        let missing = RealFs.open_append(&folder.path().join("missing"));
        assert_eq!(missing.expect_err("never creates").kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_lock_excludes_other_handles_until_it_is_closed() {
        let folder = folder();
        let path = folder.path().join("file");
        let first = RealFs.create_new(&path).unwrap();
        assert!(first.try_lock().unwrap());
        let second = RealFs.open_read(&path).unwrap();
        assert!(!second.try_lock().unwrap());
        drop(first);
        assert!(second.try_lock().unwrap());
    }
}
