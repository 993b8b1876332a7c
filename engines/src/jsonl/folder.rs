//! The folders that a new session file needs, and their removal if it does not come to be.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::fs::FileSystem;

/// Folders that were made for a file, outermost first. Removed when dropped, if they are empty.
#[derive(Debug)]
pub(super) struct NewFolders {
    fs: Arc<dyn FileSystem>,
    made: Vec<PathBuf>,
    is_kept: bool,
}

impl NewFolders {
    /// Makes a folder, and the folders above it that are not there.
    pub(super) fn make(fs: &Arc<dyn FileSystem>, folder: &Path) -> io::Result<Self> {
        let mut folders = Self { fs: fs.clone(), made: Vec::new(), is_kept: false };
        let mut missing = vec![folder];
        while let Some(path) = missing.last() {
            match fs.create_dir(path) {
                Ok(()) => {
                    folders.made.push((*path).to_owned());
                    missing.pop();
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    missing.pop();
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => match path.parent() {
                    Some(parent) => missing.push(parent),
                    None => return Err(error),
                },
                Err(error) => return Err(error),
            }
        }
        Ok(folders)
    }

    /// They stay: a file in them is visible.
    pub(super) fn keep(&mut self) {
        self.is_kept = true;
    }

    /// Syncs the folder of a new file, and the folders in which a new folder stands.
    ///
    /// # Errors
    /// The folder that could not be synced, and why.
    pub(super) fn sync(
        &self,
        fs: &dyn FileSystem,
        folder: &Path,
    ) -> Result<(), (PathBuf, io::Error)> {
        let parents = self.made.iter().rev().filter_map(|made| made.parent());
        for path in std::iter::once(folder).chain(parents) {
            fs.sync_dir(path).map_err(|error| (path.to_owned(), error))?;
        }
        Ok(())
    }
}

impl Drop for NewFolders {
    fn drop(&mut self) {
        if !self.is_kept {
            for path in self.made.iter().rev() {
                // Somebody else may use it by now: then it is not empty, and stays.
                let _ = self.fs.remove_dir(path);
            }
        }
    }
}
