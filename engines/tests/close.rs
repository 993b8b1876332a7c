//! Closing a repository closes every session, whatever fails: one failure is itself, several are
//! one aggregate (contract §3.7).

use forkline_engines::fork::{Destination, Source};
use forkline_engines::{
    Committed, Context, CreateOptions, Error, ListFilter, MemoryRepo, Repo, RepoCore, Result,
    SessionRef, StateRow, Storage,
};
use forkline_model::{
    Address, BranchScan, Entry, EntryHead, EntryId, EntryQuery, ErrorKind, Json, Key, ListQuery,
    Metadata, Millis, Namespace, Seq, SeqQuery, Stats, UsageRow, Write,
};

/// A memory repository whose sessions cannot be closed.
struct Stuck(MemoryRepo);

struct StuckStorage(Box<dyn Storage>);

impl Repo for Stuck {
    fn core(&self) -> &RepoCore {
        self.0.core()
    }
    fn make(&self, metadata: &Metadata, cx: &Context) -> Result<SessionRef> {
        self.0.make(metadata, cx)
    }
    fn load(&self, at: &SessionRef, cx: &Context) -> Result<Box<dyn Storage>> {
        Ok(Box::new(StuckStorage(self.0.load(at, cx)?)))
    }
    fn remove(&self, at: &SessionRef, cx: &Context) -> Result<()> {
        self.0.remove(at, cx)
    }
    fn capture(&self, at: &SessionRef, cx: &Context) -> Result<Box<dyn Source>> {
        self.0.capture(at, cx)
    }
    fn stage(&self, metadata: &Metadata, cx: &Context) -> Result<Box<dyn Destination>> {
        self.0.stage(metadata, cx)
    }
    fn require_free(&self, metadata: &Metadata) -> Result<()> {
        self.0.require_free(metadata)
    }
    fn destination_cwd(&self, source: &Metadata) -> Result<Option<String>> {
        self.0.destination_cwd(source)
    }
    fn list(&self, filter: &ListFilter, cx: &Context) -> Result<Vec<SessionRef>> {
        self.0.list(filter, cx)
    }
}

impl Storage for StuckStorage {
    fn metadata(&self) -> &Metadata {
        self.0.metadata()
    }
    fn commit(&self, writes: &[Write], now: Millis) -> Result<Committed> {
        self.0.commit(writes, now)
    }
    fn get_entries(&self, ids: &[EntryId]) -> Result<Vec<Option<Entry>>> {
        self.0.get_entries(ids)
    }
    fn get_value(&self, address: &Address) -> Result<Option<(Seq, Json)>> {
        self.0.get_value(address)
    }
    fn scan_values(&self, namespace: &Namespace, prefix: &str) -> Result<Vec<(Key, Seq, Json)>> {
        self.0.scan_values(namespace, prefix)
    }
    fn read_list(&self, address: &Address, query: &ListQuery) -> Result<Vec<(Seq, Json)>> {
        self.0.read_list(address, query)
    }
    fn scan_branch(&self, scan: &BranchScan) -> Result<Vec<Entry>> {
        self.0.scan_branch(scan)
    }
    fn scan_branch_structure(&self, scan: &BranchScan) -> Result<Vec<EntryHead>> {
        self.0.scan_branch_structure(scan)
    }
    fn scan_entries(&self, query: &SeqQuery) -> Result<Vec<Entry>> {
        self.0.scan_entries(query)
    }
    fn scan_usage(&self, query: &SeqQuery) -> Result<Vec<UsageRow>> {
        self.0.scan_usage(query)
    }
    fn find_entries(&self, query: &EntryQuery) -> Result<Vec<Entry>> {
        self.0.find_entries(query)
    }
    fn stats(&self) -> Result<Stats> {
        self.0.stats()
    }
    fn next_seq(&self) -> Result<u64> {
        self.0.next_seq()
    }
    fn dump(&self, visit: &mut dyn FnMut(StateRow) -> Result<()>) -> Result<()> {
        self.0.dump(visit)
    }
    fn capture(&self, cx: &Context) -> Result<Box<dyn Source>> {
        self.0.capture(cx)
    }
    fn close(&self) -> Result<()> {
        Err(Error::io("close", "stuck", std::io::Error::other("as planned")))
    }
}

fn failures_of_closing(sessions: usize) -> Option<Error> {
    let cx = Context::new();
    let repo = Stuck(MemoryRepo::new());
    let open: Vec<_> =
        (0..sessions).map(|_| repo.create(&CreateOptions::default(), &cx).unwrap()).collect();
    let failed = repo.close().err();
    for session in &open {
        assert_eq!(session.stats().unwrap_err().kind(), ErrorKind::Closed);
    }
    repo.close().unwrap();
    failed
}

#[test]
fn one_failure_is_itself_and_several_are_an_aggregate_of_all() {
    assert!(failures_of_closing(0).is_none());
    assert_eq!(failures_of_closing(1).map(|error| error.kind()), Some(ErrorKind::Io));
    let several = failures_of_closing(3).unwrap();
    assert_eq!(several.kind(), ErrorKind::Several);
    assert!(matches!(&several, Error::Several(all) if all.len() == 3));
    assert_eq!(several.chain().matches("as planned").count(), 3);
}
