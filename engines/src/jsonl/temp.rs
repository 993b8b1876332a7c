//! Temporary files beside session files, and the removal of those that a kill left behind.
//!
//! A temporary file is named `.forkline-{16 hex digits}.tmp`: it is no session file to any
//! reader, takes no id, and tells nothing of source or destination. Who makes one holds a lock
//! on it (`flock`) for as long as it needs the name. The system drops the lock with the process,
//! so a file that can be locked belongs to nobody (DESIGN.md, "Leftovers").

use std::ffi::OsStr;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::fs::{FileHandle, FileSystem};

const PREFIX: &str = ".forkline-";
const SUFFIX: &str = ".tmp";

/// How often another name is tried. A second try is needed only when a sweep met the new file
/// before it was locked, or when 64 random bits met twice.
const TRIES: usize = 16;

/// A temporary file, removed when dropped before it got its name.
#[derive(Debug)]
pub(super) struct Temp {
    fs: Arc<dyn FileSystem>,
    path: PathBuf,
    file: Arc<dyn FileHandle>,
    is_named: bool,
}

impl Temp {
    /// A new, empty file in a folder.
    pub(super) fn new(fs: &Arc<dyn FileSystem>, folder: &Path) -> io::Result<Self> {
        for _ in 0..TRIES {
            let path = folder.join(random_name());
            let file = match fs.create_new(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                other => other?,
            };
            let temp = Self { fs: fs.clone(), path, file, is_named: false };
            if temp.file.try_lock()? && temp.is_still_there()? {
                return Ok(temp);
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "no name is free for a temporary file"))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn file(&self) -> &Arc<dyn FileHandle> {
        &self.file
    }

    /// Gives the file its name unless anything has it.
    pub(super) fn publish_new(mut self, to: &Path) -> io::Result<()> {
        self.fs.rename_new(&self.path, to)?;
        self.is_named = true;
        Ok(())
    }

    /// Puts the file in the place of another one.
    pub(super) fn publish_over(mut self, to: &Path) -> io::Result<()> {
        self.fs.rename_over(&self.path, to)?;
        self.is_named = true;
        Ok(())
    }

    /// Whether no sweep removed the name before the lock was there.
    fn is_still_there(&self) -> io::Result<bool> {
        let ours = self.file.stat()?.identity;
        match self.fs.stat(&self.path) {
            Ok(stat) => Ok(stat.identity == ours),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if !self.is_named {
            // What cannot be removed now is removed when the repository is next opened.
            let _ = self.fs.remove(&self.path);
        }
    }
}

fn random_name() -> String {
    // Keyed anew for each instance: std has no other source of randomness.
    format!("{PREFIX}{:016x}{SUFFIX}", RandomState::new().hash_one(std::process::id()))
}

fn is_temp_name(name: &OsStr) -> bool {
    let digits = name
        .to_str()
        .and_then(|name| name.strip_prefix(PREFIX))
        .and_then(|name| name.strip_suffix(SUFFIX));
    digits.is_some_and(|digits| {
        digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// Removes the temporary files of a folder that nobody uses any more. What fails is left for
/// the next time: leftovers are in nobody's way.
pub(super) fn sweep(fs: &dyn FileSystem, folder: &Path) {
    let Ok(names) = fs.list_dir(folder) else { return };
    for name in names.iter().filter(|name| is_temp_name(name)) {
        let path = folder.join(name);
        let Ok(file) = fs.open_read(&path) else { continue };
        if file.try_lock().unwrap_or(false) {
            let _ = fs.remove(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::RealFs;

    #[test]
    fn a_sweep_takes_what_nobody_uses_and_only_that() {
        let folder = tempfile::tempdir().unwrap();
        let fs: Arc<dyn FileSystem> = Arc::new(RealFs);
        let in_use = Temp::new(&fs, folder.path()).unwrap();
        for name in
            [".forkline-0123456789abcdef.tmp", ".forkline-x.tmp", "x.jsonl", ".x.jsonl.tmp-1"]
        {
            std::fs::write(folder.path().join(name), "left").unwrap();
        }
        sweep(&*fs, folder.path());
        assert!(in_use.path().exists());
        drop(in_use);
        let mut left = fs.list_dir(folder.path()).unwrap();
        left.sort();
        assert_eq!(left, [".forkline-x.tmp", ".x.jsonl.tmp-1", "x.jsonl"]);
    }
}
