//! What stands on the disk: bytes of a source, names in a folder.
//!
//! A SQLite database that is open here is read as a file too. Closing that file drops the locks
//! that keep *other processes* out of it; there are none, and within a process SQLite keeps its
//! own books.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{Fault, FolderListing, SourceEvidence};

/// What a database has beside it; `-shm` is no content and may come and go.
const SIDE_FILES: [&str; 2] = ["-wal", "-journal"];

/// The bytes of a file and of what belongs to it.
pub(super) fn evidence(path: &Path) -> Result<SourceEvidence, Fault> {
    let beside = SIDE_FILES.iter().map(|suffix| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    });
    let mut files = BTreeMap::new();
    for path in std::iter::once(path.to_owned()).chain(beside) {
        match fs::read(&path) {
            Ok(bytes) => drop(files.insert(path, bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(unreadable(&path, &error)),
        }
    }
    Ok(SourceEvidence(files))
}

/// All names below `root`, relative to it.
pub(super) fn listing(root: &Path) -> Result<FolderListing, Fault> {
    let mut names = BTreeSet::new();
    let mut to_visit = vec![root.to_owned()];
    while let Some(folder) = to_visit.pop() {
        let inside = fs::read_dir(&folder).map_err(|error| unreadable(&folder, &error))?;
        for entry in inside {
            let entry = entry.map_err(|error| unreadable(&folder, &error))?;
            let path = entry.path();
            let is_folder = entry.file_type().map_err(|error| unreadable(&path, &error))?.is_dir();
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            names.insert(if is_folder { format!("{name}/") } else { name });
            if is_folder {
                to_visit.push(path);
            }
        }
    }
    Ok(FolderListing(names))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Fault {
    Fault::new(format!("cannot read {}: {error}", path.display()))
}
