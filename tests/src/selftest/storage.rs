//! An open session of a planted repository: the engine's, with its commits written down.

use std::sync::{Arc, Mutex, PoisonError};

use forkline_engines::fork::Source;
use forkline_engines::{Committed, Context, Result, StateRow, Storage};
use forkline_model::{
    Address, BranchScan, Entry, EntryHead, EntryId, EntryQuery, Json, Key, ListQuery, Metadata,
    Millis, Namespace, Seq, SeqQuery, SessionId, Stats, UsageRow, Write,
};

use super::plant::{Plant, PlantedSource};
use super::shadow::Shadows;

pub(super) struct PlantedStorage {
    inner: Arc<dyn Storage>,
    id: SessionId,
    plant: Plant,
    shadows: Shadows,
    /// What a fork before the last commit would have captured.
    before: Mutex<Option<Box<dyn Source>>>,
}

impl PlantedStorage {
    pub(super) fn new(
        inner: Box<dyn Storage>,
        id: SessionId,
        plant: Plant,
        shadows: Shadows,
    ) -> Self {
        Self { inner: Arc::from(inner), id, plant, shadows, before: Mutex::new(None) }
    }
}

impl Storage for PlantedStorage {
    fn metadata(&self) -> &Metadata {
        self.inner.metadata()
    }

    fn commit(&self, writes: &[Write], now: Millis) -> Result<Committed> {
        let before = match self.plant {
            Plant::EarlyBoundary => Some(self.inner.capture(&Context::new())?),
            _ => None,
        };
        let committed = self.inner.commit(writes, now)?;
        self.shadows.committed(&self.id, writes, now);
        *self.before.lock().unwrap_or_else(PoisonError::into_inner) = before;
        Ok(committed)
    }

    fn capture(&self, cx: &Context) -> Result<Box<dyn Source>> {
        if let Some(before) = self.before.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Ok(before);
        }
        let inner = self.inner.clone();
        let capture = move |cx: &Context| inner.capture(cx);
        PlantedSource::capture(self.plant, self.shadows.get(&self.id), capture, cx)
    }

    fn get_entries(&self, ids: &[EntryId]) -> Result<Vec<Option<Entry>>> {
        self.inner.get_entries(ids)
    }

    fn get_value(&self, address: &Address) -> Result<Option<(Seq, Json)>> {
        self.inner.get_value(address)
    }

    fn scan_values(&self, namespace: &Namespace, prefix: &str) -> Result<Vec<(Key, Seq, Json)>> {
        self.inner.scan_values(namespace, prefix)
    }

    fn read_list(&self, address: &Address, query: &ListQuery) -> Result<Vec<(Seq, Json)>> {
        self.inner.read_list(address, query)
    }

    fn scan_branch(&self, scan: &BranchScan) -> Result<Vec<Entry>> {
        self.inner.scan_branch(scan)
    }

    fn scan_branch_structure(&self, scan: &BranchScan) -> Result<Vec<EntryHead>> {
        self.inner.scan_branch_structure(scan)
    }

    fn scan_entries(&self, query: &SeqQuery) -> Result<Vec<Entry>> {
        self.inner.scan_entries(query)
    }

    fn scan_usage(&self, query: &SeqQuery) -> Result<Vec<UsageRow>> {
        self.inner.scan_usage(query)
    }

    fn find_entries(&self, query: &EntryQuery) -> Result<Vec<Entry>> {
        self.inner.find_entries(query)
    }

    fn stats(&self) -> Result<Stats> {
        self.inner.stats()
    }

    fn next_seq(&self) -> Result<u64> {
        self.inner.next_seq()
    }

    fn dump(&self, visit: &mut dyn FnMut(StateRow) -> Result<()>) -> Result<()> {
        self.inner.dump(visit)
    }

    fn close(&self) -> Result<()> {
        self.inner.close()
    }
}
