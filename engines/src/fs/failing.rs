//! A file system that fails on demand: for tests, in this crate and in the gate.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{FileHandle, FileSystem, RealFs, Stat};

/// The names of the operations, as [`FailingFs::log`] tells them.
pub const OPERATIONS: [&str; 19] = [
    "create_new",
    "open_read",
    "open_append",
    "stat",
    "rename_new",
    "rename_over",
    "remove",
    "create_dir",
    "remove_dir",
    "list_dir",
    "sync_dir",
    "read_at",
    "append",
    "set_len",
    "sync",
    "fstat",
    "try_lock",
    "mode",
    "set_mode",
];

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The number of the operation that fails, from 0, counted since [`FailingFs::arm`].
    pub at: u64,
    /// The system's error number, such as 5 for EIO and 28 for ENOSPC.
    pub errno: i32,
    /// Whether every later operation fails as well.
    pub sticky: bool,
    /// How many bytes a failing append writes before it fails; the others do nothing at all.
    pub torn_bytes: usize,
}

impl Fault {
    /// The operation `at` fails once and does nothing.
    pub fn once(at: u64, errno: i32) -> Self {
        Self { at, errno, sticky: false, torn_bytes: 0 }
    }

    /// The operation `at` and all later ones fail and do nothing.
    pub fn sticky(at: u64, errno: i32) -> Self {
        Self { sticky: true, ..Self::once(at, errno) }
    }
}

/// The real file system, counted, with one fault. Clones share count and fault.
///
/// # Example
/// ```
/// use forkline_engines::fs::{FailingFs, Fault, FileSystem};
///
/// let fs = FailingFs::new();
/// fs.arm(Some(Fault::once(1, 5)));
/// let folder = tempfile::tempdir()?;
/// assert!(fs.list_dir(folder.path()).is_ok());
/// assert_eq!(fs.list_dir(folder.path()).unwrap_err().raw_os_error(), Some(5));
/// assert!(fs.list_dir(folder.path()).is_ok());
/// assert_eq!(fs.count(), 3);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct FailingFs(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    count: AtomicU64,
    open_handles: AtomicUsize,
    fault: Mutex<Option<Fault>>,
    log: Mutex<Vec<&'static str>>,
}

impl FailingFs {
    /// One that does not fail yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts from 0 again, with this fault from now on, or with none.
    pub fn arm(&self, fault: Option<Fault>) {
        *self.0.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
        self.0.log.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.0.count.store(0, Ordering::SeqCst);
    }

    /// Number of operations since [`FailingFs::arm`].
    pub fn count(&self) -> u64 {
        self.0.count.load(Ordering::SeqCst)
    }

    /// The operations since [`FailingFs::arm`], by their names in [`OPERATIONS`].
    pub fn log(&self) -> Vec<&'static str> {
        self.0.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Number of files that are open through this file system.
    pub fn open_handles(&self) -> usize {
        self.0.open_handles.load(Ordering::SeqCst)
    }

    /// Counts an operation; the fault, if it is this one's turn.
    fn fault(&self, operation: &'static str) -> Option<Fault> {
        let number = self.0.count.fetch_add(1, Ordering::SeqCst);
        self.0.log.lock().unwrap_or_else(PoisonError::into_inner).push(operation);
        let fault = *self.0.fault.lock().unwrap_or_else(PoisonError::into_inner);
        fault.filter(|fault| number == fault.at || (fault.sticky && number > fault.at))
    }

    fn step(&self, operation: &'static str) -> io::Result<()> {
        match self.fault(operation) {
            Some(fault) => Err(io::Error::from_raw_os_error(fault.errno)),
            None => Ok(()),
        }
    }

    fn wrap(&self, inner: Arc<dyn FileHandle>) -> Arc<dyn FileHandle> {
        self.0.open_handles.fetch_add(1, Ordering::SeqCst);
        Arc::new(FailingFile { fs: self.clone(), inner })
    }
}

impl FileSystem for FailingFs {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn FileHandle>> {
        self.step("create_new")?;
        RealFs.create_new(path).map(|file| self.wrap(file))
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn FileHandle>> {
        self.step("open_read")?;
        RealFs.open_read(path).map(|file| self.wrap(file))
    }

    fn open_append(&self, path: &Path) -> io::Result<Arc<dyn FileHandle>> {
        self.step("open_append")?;
        RealFs.open_append(path).map(|file| self.wrap(file))
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        self.step("stat")?;
        RealFs.stat(path)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step("rename_new")?;
        RealFs.rename_new(from, to)
    }

    fn rename_over(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step("rename_over")?;
        RealFs.rename_over(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step("remove")?;
        RealFs.remove(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.step("create_dir")?;
        RealFs.create_dir(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.step("remove_dir")?;
        RealFs.remove_dir(path)
    }

    fn list_dir(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.step("list_dir")?;
        RealFs.list_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.step("sync_dir")?;
        RealFs.sync_dir(path)
    }
}

#[derive(Debug)]
struct FailingFile {
    fs: FailingFs,
    inner: Arc<dyn FileHandle>,
}

impl Drop for FailingFile {
    fn drop(&mut self) {
        self.fs.0.open_handles.fetch_sub(1, Ordering::SeqCst);
    }
}

impl FileHandle for FailingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.fs.step("read_at")?;
        self.inner.read_at(buffer, offset)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        let Some(fault) = self.fs.fault("append") else { return self.inner.append(bytes) };
        let torn = bytes.get(..fault.torn_bytes.min(bytes.len())).unwrap_or_default();
        super::append_all(&*self.inner, torn)?;
        Err(io::Error::from_raw_os_error(fault.errno))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.fs.step("set_len")?;
        self.inner.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.fs.step("sync")?;
        self.inner.sync()
    }

    fn stat(&self) -> io::Result<Stat> {
        self.fs.step("fstat")?;
        self.inner.stat()
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.fs.step("try_lock")?;
        self.inner.try_lock()
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.fs.step("set_mode")?;
        self.inner.set_mode(mode)
    }

    fn mode(&self) -> io::Result<u32> {
        self.fs.step("mode")?;
        self.inner.mode()
    }
}
