//! Proof that a source is what it was: bytes, length, time, mode, and its folder's listing.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::plain::sqlite::side_file;

/// What a source was like at one instant.
#[derive(Debug)]
pub struct Snapshot {
    files: Vec<(PathBuf, Option<Seen>)>,
    folder: PathBuf,
    names: BTreeSet<OsString>,
}

#[derive(Debug, PartialEq, Eq)]
struct Seen {
    length: u64,
    modified: Option<SystemTime>,
    mode: u32,
    hash: u64,
}

impl Snapshot {
    /// Looks at a file, at the `-wal` that belongs to its content, and at its folder.
    ///
    /// # Errors
    /// I/O.
    pub fn take(path: &Path) -> io::Result<Self> {
        let log = side_file(path, "-wal");
        let files = [path.to_owned(), log].map(|file| Ok((file.clone(), Seen::look(&file)?)));
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        Ok(Self {
            files: files.into_iter().collect::<io::Result<_>>()?,
            names: names(&folder)?,
            folder,
        })
    }

    /// Looks again and says what is different, a line each.
    ///
    /// # Errors
    /// I/O.
    pub fn changes(&self) -> io::Result<Vec<String>> {
        let mut changes = Vec::new();
        for (path, before) in &self.files {
            let now = Seen::look(path)?;
            if now != *before {
                changes.push(format!("{} was {before:?}, is {now:?}", path.display()));
            }
        }
        let now = names(&self.folder)?;
        let allowed = self.allowed_side_file();
        for name in now.difference(&self.names).filter(|name| allowed.as_ref() != Some(*name)) {
            changes.push(format!("{} appeared beside it", name.display()));
        }
        for name in self.names.difference(&now) {
            changes.push(format!("{} vanished beside it", name.display()));
        }
        Ok(changes)
    }

    /// The one file that a fork may leave: the `-shm` of a source that came with a `-wal` and
    /// without `-shm` (contract §3.3).
    fn allowed_side_file(&self) -> Option<OsString> {
        let (path, _) = self.files.first()?;
        let has_log = self.files.get(1).is_some_and(|(_, log)| log.is_some());
        has_log.then(|| side_file(path, "-shm").file_name().map(ToOwned::to_owned)).flatten()
    }
}

impl Seen {
    fn look(path: &Path) -> io::Result<Option<Self>> {
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let metadata = file.metadata()?;
        let mut hasher = DefaultHasher::new();
        let mut piece = vec![0; 256 * 1024];
        loop {
            let count = file.read(&mut piece)?;
            if count == 0 {
                break;
            }
            hasher.write(piece.get(..count).unwrap_or_default());
        }
        Ok(Some(Self {
            length: metadata.len(),
            modified: metadata.modified().ok(),
            mode: mode(&metadata),
            hash: hasher.finish(),
        }))
    }
}

#[cfg(unix)]
fn mode(metadata: &fs::Metadata) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode()
}

#[cfg(not(unix))]
fn mode(metadata: &fs::Metadata) -> u32 {
    u32::from(metadata.permissions().readonly())
}

fn names(folder: &Path) -> io::Result<BTreeSet<OsString>> {
    fs::read_dir(folder)?.map(|item| Ok(item?.file_name())).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::Snapshot;

    #[test]
    fn every_kind_of_change_is_seen() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a.sqlite");
        let log = folder.path().join("a.sqlite-wal");
        fs::write(&path, "one").expect("written");
        fs::write(&log, "log").expect("written");
        let snapshot = Snapshot::take(&path).expect("taken");
        assert_eq!(snapshot.changes().expect("looked"), Vec::<String>::new());

        let modified = fs::metadata(&path).expect("there").modified().expect("known");
        fs::write(&path, "two").expect("written");
        fs::File::options()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_modified(modified))
            .expect("set");
        assert_eq!(
            snapshot.changes().expect("looked").len(),
            1,
            "bytes, with time and length kept"
        );

        fs::write(&path, "one").expect("written");
        fs::remove_file(&log).expect("removed");
        fs::write(folder.path().join("a.sqlite-shm"), "").expect("written");
        fs::write(folder.path().join("x.tmp"), "").expect("written");
        let changes = snapshot.changes().expect("looked");
        for expected in
            ["a.sqlite was", "a.sqlite-wal was", "x.tmp appeared", "a.sqlite-wal vanished"]
        {
            assert!(changes.iter().any(|line| line.contains(expected)), "{expected}: {changes:?}");
        }
        assert_eq!(changes.len(), 4, "the -shm of a source with a log is no change: {changes:?}");
    }
}
