//! An open legacy session: read from a scratch file of format 4 until its first commit, which
//! puts that form in the place of the legacy file (formats §2).
//!
//! *Invariants.*
//! 1. Until then the legacy file is only read, and a crash at any step leaves it as it was: its
//!    name changes hands in one step, from the old file to the complete new one, which is synced
//!    before.
//! 2. Ids are those of the scratch file, so an upgrade keeps what callers have seen.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use forkline_model::{
    Address, BranchScan, Entry, EntryHead, EntryId, EntryQuery, ForkOptions, Json, Key, LaneAudit,
    ListQuery, Metadata, Millis, Namespace, NewUsage, Seq, SeqQuery, Stats, Usage, Write,
};

use super::super::commit::CommitLine;
use super::super::file::SessionFile;
use super::super::header::{self, FirstLine};
use super::super::open::{self, Opened};
use super::super::scratch::Scratch;
use super::super::storage::{JsonlStorage, Setting, Span};
use super::super::temp::Temp;
use super::super::window::Window;
use super::file::LegacyFile;
use super::source::LegacySource;
use crate::context::Context;
use crate::error::{Error, Place, Result};
use crate::fork::{Plan, Row, Source};
use crate::fs::{FileHandle, Stat, append_all};
use crate::repo::{Environment, SyncCommits};
use crate::storage::{Committed, StateRow, Storage};

/// What the details of the row with the imported usage say.
const IMPORT_DETAILS: &str = r#"{"source":"v3-import"}"#;

/// A legacy session in use.
pub(in super::super) struct LegacyStorage {
    setting: Setting,
    path: PathBuf,
    metadata: Metadata,
    environment: Environment,
    /// The lock is the commit queue until the upgrade.
    state: RwLock<State>,
}

struct State {
    /// Reads the scratch file, and from the upgrade on the session's own.
    inner: JsonlStorage,
    legacy: Option<Legacy>,
}

/// What there is to know as long as the file is a legacy one.
struct Legacy {
    /// What it was when it was read.
    left: Stat,
    mode: u32,
    imported: Usage,
    scratch: Arc<dyn FileHandle>,
    /// Where the header of the scratch file ends.
    start: u64,
    len: u64,
    is_closed: bool,
}

impl LegacyStorage {
    /// Reads a legacy file into a scratch file of format 4.
    ///
    /// # Errors
    /// *Corrupt source*, *cancelled*, I/O.
    pub(in super::super) fn open(
        setting: Setting,
        environment: Environment,
        file: LegacyFile,
        path: PathBuf,
        cx: &Context,
    ) -> Result<Self> {
        let look = |error| Error::io("look at", &path, error);
        let left = file.handle.stat().map_err(look)?;
        let mode = file.handle.mode().map_err(look)?;
        let len = file.whole_lines(&path, left.len)?;
        let metadata = file.metadata.clone();
        let scratch_folder = setting.scratch.clone();
        let mut source =
            LegacySource::new(file, path.clone(), len, scratch_folder, environment.clone());
        let plan = source.plan(&ForkOptions::tree(), LaneAudit::Selected, cx)?;
        let imported = source.imported_usage()?;
        let scratch = convert(&mut source, &metadata, plan.next_seq, &setting.scratch, cx)?;
        drop(source);
        let (opened, start) = structure(scratch.clone(), &path, cx)?;
        let len = opened.len;
        let inner = JsonlStorage::new(setting.clone(), path.clone(), metadata.clone(), opened)?;
        let is_closed = false;
        let legacy = Legacy { left, mode, imported, scratch, start, len, is_closed };
        let state = RwLock::new(State { inner, legacy: Some(legacy) });
        Ok(Self { setting, path, metadata, environment, state })
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        // The state changes by one assignment, so a panic elsewhere is no harm.
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the form of format 4 with one commit in the place of the legacy file.
    fn upgrade(
        &self,
        inner: &JsonlStorage,
        legacy: &Legacy,
        writes: &[Write],
        now: Millis,
    ) -> Result<(JsonlStorage, Seq)> {
        let id = EntryId::new(self.environment.ids.next(Some(now)))?;
        let details = Json::parse(IMPORT_DETAILS).expect("the constant is JSON");
        let usage = NewUsage::new(id, None, true, legacy.imported.to_json(), Some(details))?;
        let mut all = vec![Write::Usage(usage)];
        all.extend_from_slice(writes);
        inner.check(&all)?;
        let first = inner.next_seq()?;
        let line = CommitLine::new(&all, first, now)?;
        self.require_as_left(legacy)?;

        let failed = |action| move |error| Error::io(action, &self.path, error);
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let temp = Temp::new(&self.setting.fs, folder).map_err(failed("upgrade"))?;
        temp.file().set_mode(legacy.mode).map_err(failed("upgrade"))?;
        let cwd = self.metadata.cwd.as_deref().unwrap_or_default();
        let header = header::render(&self.metadata, cwd, Some(first + all.len() as u64));
        let mut out = Appender(&**temp.file());
        out.write_all(header.as_bytes())
            .and_then(|()| {
                let rows = Span::from(legacy.start..legacy.len);
                Window::new(legacy.scratch.clone()).copy(rows, &mut out)
            })
            .and_then(|()| out.write_all(line.bytes()))
            .and_then(|()| temp.file().sync())
            .map_err(failed("upgrade"))?;
        let (opened, _) = structure(temp.file().clone(), &self.path, &Context::new())?;
        let setting = self.setting.clone();
        let upgraded =
            JsonlStorage::new(setting, self.path.clone(), self.metadata.clone(), opened)?;
        // Somebody may have written to the file since: what they wrote is not thrown away.
        self.require_as_left(legacy)?;
        temp.publish_over(&self.path).map_err(failed("upgrade"))?;
        // The first seq is that of the row with the imported usage.
        Ok((upgraded, Seq::new(first + 1)?))
    }

    fn require_as_left(&self, legacy: &Legacy) -> Result<()> {
        let now = self.setting.fs.stat(&self.path);
        if now.map_err(|error| Error::io("look at", &self.path, error))? == legacy.left {
            return Ok(());
        }
        let reason = "the legacy file has changed since it was opened: close the session and open \
                      it again";
        Err(Error::corrupt(Place { path: self.path.clone(), line: None }, reason))
    }

    /// Makes the new name survive a power loss, if commits are to.
    fn sync_name(&self) -> Result<()> {
        let Some(folder) = self.path.parent().filter(|_| self.setting.sync == SyncCommits::Yes)
        else {
            return Ok(());
        };
        self.setting.fs.sync_dir(folder).map_err(|error| Error::DurabilityUncertain {
            path: self.path.clone(),
            source: Box::new(Error::io("sync the folder", folder, error)),
        })
    }
}

/// Writes the whole session as a file of format 4 without a name.
fn convert(
    source: &mut LegacySource,
    metadata: &Metadata,
    next_seq: u64,
    scratch: &Path,
    cx: &Context,
) -> Result<Arc<dyn FileHandle>> {
    let cwd = metadata.cwd.as_deref().unwrap_or_default();
    let header = header::render(metadata, cwd, Some(next_seq));
    let ((), file) = Scratch::new(scratch)?.fill(&header, |out| {
        source.stream(
            &mut |row| {
                let body = match row {
                    Row::Entry { body, .. }
                    | Row::Value { body, .. }
                    | Row::Element { body, .. } => body,
                };
                body.copy_jsonl(out).expect("a legacy source writes its rows itself")?;
                out.end_line()
            },
            cx,
        )
    })?;
    Ok(file)
}

/// Reads the structure of a file that was just written, and where its header ends.
fn structure(handle: Arc<dyn FileHandle>, path: &Path, cx: &Context) -> Result<(Opened, u64)> {
    let stat = handle.stat().map_err(|error| Error::io("look at", path, error))?;
    let FirstLine::Current(header) = header::read(&*handle, path)? else {
        unreachable!("a header of format 4 was written");
    };
    let behind_header = header.end;
    let file = SessionFile { handle, header };
    let structure = open::read_structure(&file, path, stat.len, cx)?;
    Ok((Opened { handle: file.handle, structure, len: stat.len }, behind_header))
}

/// An instant before the upgrade: nothing can be forked from it. That is said where a fork looks
/// at its source, which is behind its look for the destination's id (contract §5.2).
struct NotUpgraded(Metadata);

impl NotUpgraded {
    fn refusal(&self) -> Error {
        Error::OpenLegacySource { session: self.0.id.clone() }
    }
}

impl Source for NotUpgraded {
    fn metadata(&self) -> &Metadata {
        &self.0
    }

    fn plan(&mut self, _: &ForkOptions, _: LaneAudit, _: &Context) -> Result<Plan> {
        Err(self.refusal())
    }

    fn stream(&mut self, _: &mut dyn FnMut(Row<'_>) -> Result<()>, _: &Context) -> Result<()> {
        Err(self.refusal())
    }
}

/// Appends to a file.
struct Appender<'a>(&'a dyn FileHandle);

impl io::Write for Appender<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        append_all(self.0, buffer)?;
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Storage for LegacyStorage {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn commit(&self, writes: &[Write], now: Millis) -> Result<Committed> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let State { inner, legacy } = &mut *state;
        let Some(found) = legacy.as_ref().filter(|legacy| !legacy.is_closed) else {
            return inner.commit(writes, now);
        };
        if writes.is_empty() {
            return Ok(Committed { first_seq: None, writes: 0, timestamp: now });
        }
        let (upgraded, first) = self.upgrade(inner, found, writes, now)?;
        *inner = upgraded;
        *legacy = None;
        drop(state);
        self.sync_name()?;
        Ok(Committed { first_seq: Some(first), writes: writes.len() as u64, timestamp: now })
    }

    fn get_entries(&self, ids: &[EntryId]) -> Result<Vec<Option<Entry>>> {
        self.state().inner.get_entries(ids)
    }

    fn get_value(&self, address: &Address) -> Result<Option<(Seq, Json)>> {
        self.state().inner.get_value(address)
    }

    fn scan_values(
        &self,
        namespace: &Namespace,
        key_prefix: &str,
    ) -> Result<Vec<(Key, Seq, Json)>> {
        self.state().inner.scan_values(namespace, key_prefix)
    }

    fn read_list(&self, address: &Address, query: &ListQuery) -> Result<Vec<(Seq, Json)>> {
        self.state().inner.read_list(address, query)
    }

    fn scan_branch(&self, scan: &BranchScan) -> Result<Vec<Entry>> {
        self.state().inner.scan_branch(scan)
    }

    fn scan_branch_structure(&self, scan: &BranchScan) -> Result<Vec<EntryHead>> {
        self.state().inner.scan_branch_structure(scan)
    }

    fn scan_entries(&self, query: &SeqQuery) -> Result<Vec<Entry>> {
        self.state().inner.scan_entries(query)
    }

    fn scan_usage(&self, query: &SeqQuery) -> Result<Vec<forkline_model::UsageRow>> {
        self.state().inner.scan_usage(query)
    }

    fn find_entries(&self, query: &EntryQuery) -> Result<Vec<Entry>> {
        self.state().inner.find_entries(query)
    }

    fn stats(&self) -> Result<Stats> {
        let guard = self.state();
        let mut stats = guard.inner.stats()?;
        if let Some(legacy) = &guard.legacy {
            stats.usage.add(&legacy.imported);
        }
        Ok(stats)
    }

    fn next_seq(&self) -> Result<u64> {
        self.state().inner.next_seq()
    }

    fn dump(&self, visit: &mut dyn FnMut(StateRow) -> Result<()>) -> Result<()> {
        // The visitor may commit: it must not meet the lock.
        let snapshot = self.state().inner.snapshot();
        snapshot.visit(visit)
    }

    fn capture(&self, cx: &Context) -> Result<Box<dyn Source>> {
        let state = self.state();
        match &state.legacy {
            Some(_) => Ok(Box::new(NotUpgraded(self.metadata.clone()))),
            None => state.inner.capture(cx),
        }
    }

    fn close(&self) -> Result<()> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(legacy) = &mut state.legacy {
            legacy.is_closed = true;
        }
        state.inner.close()
    }
}
