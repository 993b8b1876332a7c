//! A folder of session files (formats §1, "Layout"; contract §3.7).

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forkline_model::{Error as ModelError, Metadata, SessionId};

use super::dest::{Durability, JsonlDestination};
use super::file::{Access, Stored};
use super::header::{self, FirstLine};
use super::layout;
use super::legacy::{LegacySource, LegacyStorage};
use super::open;
use super::source::JsonlSource;
use super::storage::{JsonlStorage, Setting};
use super::temp;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::fork::{Destination, Source};
use crate::fs::{FileHandle, FileSystem, RealFs};
use crate::repo::{
    ListFilter, Location, Repo, RepoCore, RepoOptions, SessionRef, SyncCommits, sort_listing,
};
use crate::storage::Storage;

/// A repository of JSONL session files under one root.
///
/// The root and the folders in it are made when the first session needs them. Opening a
/// repository removes temporary files that a killed process left behind.
///
/// # Example
///
/// ```
/// use forkline_engines::{Context, CreateOptions, JsonlRepo, ListFilter, Repo};
///
/// # let folder = tempfile::tempdir().expect("a temporary folder");
/// let cx = Context::new();
/// let repo = JsonlRepo::open(folder.path())?;
/// let session = repo.create(&CreateOptions::new("/home/me/project"), &cx)?;
/// session.close()?;
///
/// let stored = repo.list(&ListFilter::default(), &cx)?;
/// let again = repo.open(&stored[0], &cx)?;
/// assert_eq!(again.metadata(), session.metadata());
/// # Ok::<(), forkline_engines::Error>(())
/// ```
#[derive(Clone)]
pub struct JsonlRepo {
    core: RepoCore,
    root: PathBuf,
    fs: Arc<dyn FileSystem>,
}

impl JsonlRepo {
    /// The repository under a root.
    ///
    /// # Errors
    /// I/O, when the root is there and cannot be read.
    pub fn open(root: impl AsRef<Path>) -> Result<Self> {
        Self::with(root, RepoOptions::default())
    }

    /// The same with options.
    pub fn with(root: impl AsRef<Path>, options: RepoOptions) -> Result<Self> {
        Self::with_fs(root, options, Arc::new(RealFs))
    }

    /// The same on a file system of the caller's.
    pub fn with_fs(
        root: impl AsRef<Path>,
        options: RepoOptions,
        fs: Arc<dyn FileSystem>,
    ) -> Result<Self> {
        let root = std::path::absolute(root.as_ref())
            .map_err(|error| Error::io("find", root.as_ref(), error))?;
        let repo = Self { core: RepoCore::new(options), root, fs };
        for folder in repo.folders()? {
            temp::sweep(&*repo.fs, &folder);
        }
        Ok(repo)
    }

    /// The folders of working directories; none when there is no root yet.
    fn folders(&self) -> Result<Vec<PathBuf>> {
        let names = self.names(&self.root)?;
        let names = names.iter().filter(|name| layout::is_folder_name(name));
        Ok(names.map(|name| self.root.join(name)).collect())
    }

    /// The names in a folder; none when it is not there.
    fn names(&self, folder: &Path) -> Result<Vec<OsString>> {
        match self.fs.list_dir(folder) {
            Ok(names) => Ok(names),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(Error::io("list", folder, error)),
        }
    }

    /// The session in a file, if its first line says that there is one.
    fn stored(&self, path: PathBuf) -> Option<SessionRef> {
        let file = self.fs.open_read(&path).ok()?;
        match header::read(&*file, &path).ok()? {
            // Version 0 was never given out: existing readers do not list it either.
            FirstLine::Current(header) if header.storage_version == 0 => None,
            FirstLine::Current(header) => {
                Some(SessionRef { metadata: header.metadata, location: Location::File(path) })
            }
            FirstLine::Legacy(header) => {
                let metadata = header.metadata(&*self.fs, &path);
                Some(SessionRef { metadata, location: Location::File(path) })
            }
        }
    }

    fn cwd(&self, metadata: &Metadata) -> Result<String> {
        let cwd = metadata.cwd.clone().or_else(|| self.core.options().cwd.clone());
        cwd.ok_or_else(|| {
            let reason = "a session file needs one: name it in the options".to_owned();
            ModelError::InvalidPayload { what: "working directory", reason }.into()
        })
    }

    fn destination(&self, metadata: &Metadata, to: Durability) -> Result<JsonlDestination> {
        let cwd = self.cwd(metadata)?;
        let metadata = Metadata { cwd: Some(cwd.clone()), ..metadata.clone() };
        JsonlDestination::new(&self.fs, &self.root, &metadata, &cwd, to)
    }

    pub(super) fn file_system(&self) -> &dyn FileSystem {
        &*self.fs
    }

    fn setting(&self) -> Setting {
        let (fs, scratch) = (self.fs.clone(), self.core.scratch());
        Setting { fs, scratch, sync: self.core.options().sync_commits }
    }
}

/// The session of a file anywhere, for a fork that reads it in its place.
///
/// # Errors
/// *Corrupt source* for a first line that is no header, *unsupported version*, I/O.
pub fn session_at(path: impl AsRef<Path>) -> Result<SessionRef> {
    let path = path.as_ref();
    let file = RealFs.open_read(path).map_err(|error| Error::io("open", path, error))?;
    let metadata = match header::read(&*file, path)? {
        FirstLine::Current(header) => {
            header.require_supported(path)?;
            header.metadata
        }
        FirstLine::Legacy(header) => header.metadata(&RealFs, path),
    };
    Ok(SessionRef { metadata, location: Location::File(path.to_owned()) })
}

/// The file that a reference names.
pub(super) fn path_of(at: &SessionRef) -> Result<&Path> {
    let unknown = || ModelError::UnknownSession { session: at.metadata.id.clone() };
    at.path().ok_or_else(|| unknown().into())
}

/// Looks whether a file in the folder takes the id (formats §1).
///
/// # Errors
/// *Session exists*, I/O.
pub(super) fn require_id_free(fs: &dyn FileSystem, folder: &Path, id: &SessionId) -> Result<()> {
    let suffix = layout::id_suffix(id);
    let names = match fs.list_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        other => other.map_err(|error| Error::io("list", folder, error))?,
    };
    if names.iter().any(|name| name.as_encoded_bytes().ends_with(suffix.as_bytes())) {
        return Err(ModelError::SessionExists { session: id.clone() }.into());
    }
    Ok(())
}

impl Repo for JsonlRepo {
    fn core(&self) -> &RepoCore {
        &self.core
    }

    fn make(&self, metadata: &Metadata, _cx: &Context) -> Result<SessionRef> {
        let durability = match self.core.options().sync_commits {
            SyncCommits::No => Durability::Process,
            SyncCommits::Yes => Durability::Power,
        };
        let mut destination = self.destination(metadata, durability)?;
        destination.write(None, |_| Ok(()))?;
        destination.finish()
    }

    fn load(&self, at: &SessionRef, cx: &Context) -> Result<Box<dyn Storage>> {
        let path = path_of(at)?;
        match Stored::open(&*self.fs, path, &at.metadata, Access::Append)? {
            Stored::Current(file) => {
                let (to, metadata) = (path.to_owned(), file.header.metadata.clone());
                let opened = open::open(&self.fs, file, path, cx)?;
                Ok(Box::new(JsonlStorage::new(self.setting(), to, metadata, opened)?))
            }
            Stored::Legacy(file) => {
                let environment = self.core.environment().clone();
                let path = path.to_owned();
                Ok(Box::new(LegacyStorage::open(self.setting(), environment, file, path, cx)?))
            }
        }
    }

    fn remove(&self, at: &SessionRef, _cx: &Context) -> Result<()> {
        let path = path_of(at)?;
        Stored::open(&*self.fs, path, &at.metadata, Access::Read)?;
        self.fs.remove(path).map_err(|error| Error::io("delete", path, error))?;
        if let (SyncCommits::Yes, Some(folder)) = (self.core.options().sync_commits, path.parent())
        {
            self.fs.sync_dir(folder).map_err(|error| Error::io("sync", folder, error))?;
        }
        Ok(())
    }

    fn capture(&self, at: &SessionRef, _cx: &Context) -> Result<Box<dyn Source>> {
        let path = path_of(at)?;
        let look =
            |file: &dyn FileHandle| file.stat().map_err(|error| Error::io("look at", path, error));
        match Stored::open(&*self.fs, path, &at.metadata, Access::Read)? {
            Stored::Current(file) => {
                let len = file.whole_lines(path, look(&*file.handle)?.len)?;
                Ok(Box::new(JsonlSource::new(file, path.to_owned(), len, self.core.scratch())))
            }
            Stored::Legacy(file) => {
                let len = file.whole_lines(path, look(&*file.handle)?.len)?;
                let environment = self.core.environment().clone();
                let (path, scratch) = (path.to_owned(), self.core.scratch());
                Ok(Box::new(LegacySource::new(file, path, len, scratch, environment)))
            }
        }
    }

    fn stage(&self, metadata: &Metadata, _cx: &Context) -> Result<Box<dyn Destination>> {
        Ok(Box::new(self.destination(metadata, Durability::Power)?))
    }

    fn require_free(&self, metadata: &Metadata) -> Result<()> {
        let place = layout::place(&self.root, metadata, &self.cwd(metadata)?)?;
        require_id_free(&*self.fs, &place.folder, &metadata.id)
    }

    fn destination_cwd(&self, source: &Metadata) -> Result<Option<String>> {
        self.cwd(source).map(Some)
    }

    fn list(&self, filter: &ListFilter, cx: &Context) -> Result<Vec<SessionRef>> {
        let folders = match &filter.cwd {
            Some(cwd) => vec![self.root.join(layout::folder_name(cwd)?)],
            None => self.folders()?,
        };
        let mut found = Vec::new();
        for folder in folders {
            // A folder that cannot be read is left out like a file that cannot.
            for name in self.names(&folder).unwrap_or_default() {
                cx.check()?;
                if layout::is_file_name(&name) {
                    found.extend(self.stored(folder.join(name)));
                }
            }
        }
        if filter.cwd.is_some() {
            found.retain(|stored| stored.metadata.cwd == filter.cwd);
        }
        sort_listing(&mut found);
        Ok(found)
    }
}
