//! An open session: global durable data and the one mutation line (contract §1, lanes.md).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forkline_model::{
    Address, BranchName, BranchScan, Entry, EntryHead, EntryId, EntryQuery, Json, Key, ListQuery,
    Metadata, Millis, NewEntry, Seq, SeqQuery, Stats, UsageRow, Write, policy,
};

use crate::branch::Branch;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::fork::Source;
use crate::line::{MutationLine, Turn};
use crate::registry::OpenSlot;
use crate::repo::{Environment, SessionRef};
use crate::storage::{Committed, StateRow, Storage};

/// An open session. Clones are handles to the same one; the last handle that goes closes it.
///
/// # Example
///
/// ```
/// use forkline_engines::{Context, CreateOptions, MemoryRepo, Repo};
/// use forkline_model::{Json, Write};
///
/// let cx = Context::new();
/// let repo = MemoryRepo::new();
/// let session = repo.create(&CreateOptions::default(), &cx)?;
/// session.commit(&[Write::set("app.state", "theme", Json::string("dark"))?], &cx)?;
/// let (_, theme) = session.get_value("app.state", "theme")?.expect("it was just set");
/// assert_eq!(theme.as_str(), r#""dark""#);
/// # Ok::<(), forkline_engines::Error>(())
/// ```
#[derive(Clone)]
pub struct Session(Arc<SessionCore>);

pub(crate) struct SessionCore {
    storage: Box<dyn Storage>,
    reference: SessionRef,
    line: MutationLine,
    closed: AtomicBool,
    environment: Environment,
    // Declared last: the id is free again only when the storage is gone.
    slot: OpenSlot,
}

impl Session {
    pub(crate) fn new(
        storage: Box<dyn Storage>,
        reference: SessionRef,
        environment: Environment,
        slot: OpenSlot,
    ) -> Self {
        let session = Self(Arc::new(SessionCore {
            storage,
            reference,
            line: MutationLine::new(),
            closed: AtomicBool::new(false),
            environment,
            slot,
        }));
        session.0.slot.fill(&session.0);
        session
    }

    pub(crate) fn from_core(core: Arc<SessionCore>) -> Self {
        Self(core)
    }

    /// Id, creation time, parent, working directory.
    pub fn metadata(&self) -> &Metadata {
        &self.0.reference.metadata
    }

    /// What names this session to `open`, `delete` and the forks of closed sources.
    pub fn reference(&self) -> &SessionRef {
        &self.0.reference
    }

    /// A fresh id for an entry or usage row: UUIDv7 that carries `timestamp`, or now.
    pub fn next_id(&self, timestamp: Option<Millis>) -> Result<EntryId> {
        Ok(EntryId::new(self.0.environment.ids.next(timestamp))?)
    }

    fn storage(&self) -> Result<&dyn Storage> {
        if self.0.closed.load(Ordering::Acquire) {
            return Err(self.closed());
        }
        Ok(&*self.0.storage)
    }

    fn closed(&self) -> Error {
        forkline_model::Error::Closed { session: self.metadata().id.clone() }.into()
    }

    // ---- the mutation line ----

    /// Waits for its turn on the mutation line and gives an exclusive scope. The scope ends when
    /// it is dropped.
    ///
    /// # Errors
    /// *Closed*, *cancelled*.
    pub fn begin_mutation(&self, cx: &Context) -> Result<Mutation> {
        let turn = self.0.line.enter(cx).map_err(|error| error.unwrap_or_else(|| self.closed()))?;
        Ok(Mutation { _turn: turn, session: self.clone(), attempted: false })
    }

    /// Begin, callback, end; ends in every outcome, panics included.
    ///
    /// # Errors
    /// Those of [`Session::begin_mutation`] and of the callback.
    pub fn mutate<T>(
        &self,
        cx: &Context,
        body: impl FnOnce(&mut Mutation) -> Result<T>,
    ) -> Result<T> {
        let mut mutation = self.begin_mutation(cx)?;
        body(&mut mutation)
    }

    /// One mutation with one commit.
    pub fn commit(&self, writes: &[Write], cx: &Context) -> Result<Committed> {
        self.mutate(cx, |mutation| mutation.commit(writes))
    }

    /// Seals the line, lets the scope that is in finish, then closes the storage. May be called
    /// again.
    pub fn close(&self) -> Result<()> {
        self.0.close()
    }

    // ---- conveniences ----

    /// Inserts an entry without touching any branch.
    pub fn insert_entry(&self, entry: NewEntry, cx: &Context) -> Result<Committed> {
        self.commit(&[Write::Entry(entry)], cx)
    }

    /// Sets a value.
    pub fn set_value(&self, address: &Address, value: Json, cx: &Context) -> Result<Committed> {
        self.commit(&[Write::SetValue { address: address.clone(), value }], cx)
    }

    /// Deletes a value; legal where there is none.
    pub fn delete_value(&self, address: &Address, cx: &Context) -> Result<Committed> {
        self.commit(&[Write::DeleteValue { address: address.clone() }], cx)
    }

    /// Appends to a list.
    pub fn append_element(
        &self,
        address: &Address,
        value: Json,
        cx: &Context,
    ) -> Result<Committed> {
        self.commit(&[Write::AppendElement { address: address.clone(), value }], cx)
    }

    /// Deletes a list; legal where there is none.
    pub fn delete_list(&self, address: &Address, cx: &Context) -> Result<Committed> {
        self.commit(&[Write::DeleteList { address: address.clone() }], cx)
    }

    /// The session's name, if it has one that is text.
    pub fn name(&self) -> Result<Option<String>> {
        Ok(self.value(&policy::name_address())?.and_then(|(_, name)| name.to_text()))
    }

    /// Names the session.
    pub fn set_name(&self, name: &str, cx: &Context) -> Result<Committed> {
        self.set_value(&policy::name_address(), Json::string(name), cx)
    }

    /// The label of an entry, if it has one that is text.
    pub fn label(&self, entry: &EntryId) -> Result<Option<String>> {
        Ok(self.value(&policy::label_address(entry))?.and_then(|(_, label)| label.to_text()))
    }

    /// Labels an entry, or removes its label.
    ///
    /// # Errors
    /// *Unknown entry*.
    pub fn set_label(
        &self,
        entry: &EntryId,
        label: Option<&str>,
        cx: &Context,
    ) -> Result<Committed> {
        self.mutate(cx, |mutation| {
            mutation.require_entry(entry)?;
            let address = policy::label_address(entry);
            mutation.commit(&[match label {
                Some(label) => Write::SetValue { address, value: Json::string(label) },
                None => Write::DeleteValue { address },
            }])
        })
    }

    // ---- branches ----

    /// Makes a branch whose tip is `at`: only the tip is written (lanes.md, "Branch creation").
    ///
    /// # Errors
    /// *Branch exists*, *unknown entry*.
    pub fn create_branch(
        &self,
        name: &BranchName,
        at: Option<&EntryId>,
        cx: &Context,
    ) -> Result<Branch> {
        self.mutate(cx, |mutation| {
            let address = policy::tip_address(name);
            if mutation.session().value(&address)?.is_some() {
                return Err(forkline_model::Error::BranchExists { branch: name.clone() }.into());
            }
            if let Some(entry) = at {
                mutation.require_entry(entry)?;
            }
            let value = at.map_or_else(Json::null, |entry| Json::string(entry.as_str()));
            mutation.commit(&[Write::SetValue { address, value }])
        })?;
        Ok(Branch::new(self.clone(), name.clone()))
    }

    /// The branch of that name, if there is one; reads nothing else.
    pub fn branch(&self, name: &BranchName) -> Result<Option<Branch>> {
        let tip = self.value(&policy::tip_address(name))?;
        Ok(tip.map(|_| Branch::new(self.clone(), name.clone())))
    }

    /// The names of all branches, ascending. A tip at the empty key is no branch.
    pub fn branches(&self) -> Result<Vec<BranchName>> {
        let tips = self.scan_values(policy::BRANCH_TIP, "")?;
        Ok(tips.iter().filter_map(|(key, ..)| BranchName::new(key.as_str()).ok()).collect())
    }

    // ---- reads (contract §1) ----

    /// The entries of these ids, one answer for each.
    pub fn get_entries(&self, ids: &[EntryId]) -> Result<Vec<Option<Entry>>> {
        self.storage()?.get_entries(ids)
    }

    /// The value at `(namespace, key)` with its seq.
    pub fn get_value(
        &self,
        namespace: impl AsRef<str>,
        key: impl AsRef<str>,
    ) -> Result<Option<(Seq, Json)>> {
        self.value(&Address::new(namespace, key)?)
    }

    /// The value at an address with its seq.
    pub fn value(&self, address: &Address) -> Result<Option<(Seq, Json)>> {
        self.storage()?.get_value(address)
    }

    /// The values of one namespace whose keys start with `key_prefix`, keys ascending by code
    /// point.
    pub fn scan_values(
        &self,
        namespace: impl AsRef<str>,
        key_prefix: &str,
    ) -> Result<Vec<(Key, Seq, Json)>> {
        let namespace = forkline_model::Namespace::new(namespace)?;
        self.storage()?.scan_values(&namespace, key_prefix)
    }

    /// A page of a list's elements with their seqs.
    pub fn read_list(&self, address: &Address, query: &ListQuery) -> Result<Vec<(Seq, Json)>> {
        self.storage()?.read_list(address, query)
    }

    /// The path from an entry to its root.
    ///
    /// # Errors
    /// *Unknown entry*.
    pub fn scan_branch(&self, scan: &BranchScan) -> Result<Vec<Entry>> {
        self.storage()?.scan_branch(scan)
    }

    /// The same without payloads.
    ///
    /// # Errors
    /// *Unknown entry*.
    pub fn scan_branch_structure(&self, scan: &BranchScan) -> Result<Vec<EntryHead>> {
        self.storage()?.scan_branch_structure(scan)
    }

    /// The entries of a seq range.
    pub fn scan_entries(&self, query: &SeqQuery) -> Result<Vec<Entry>> {
        self.storage()?.scan_entries(query)
    }

    /// The ledger rows of a seq range.
    pub fn scan_usage(&self, query: &SeqQuery) -> Result<Vec<UsageRow>> {
        self.storage()?.scan_usage(query)
    }

    /// Entries of the whole session by type and custom type.
    pub fn find_entries(&self, query: &EntryQuery) -> Result<Vec<Entry>> {
        self.storage()?.find_entries(query)
    }

    /// The first that [`Session::find_entries`] gives.
    pub fn find_entry(&self, query: &EntryQuery) -> Result<Option<Entry>> {
        let one = forkline_model::Limit::new(1)?;
        Ok(self.find_entries(&EntryQuery { limit: one, ..query.clone() })?.into_iter().next())
    }

    /// Number of messages and the sum of the ledger.
    pub fn stats(&self) -> Result<Stats> {
        self.storage()?.stats()
    }

    /// The seq that the next write will get.
    pub fn next_seq(&self) -> Result<u64> {
        self.storage()?.next_seq()
    }

    /// Visits the whole logical state, row by row: entries, ledger rows, values and elements,
    /// each kind in seq order.
    pub fn dump(&self, visit: &mut dyn FnMut(StateRow) -> Result<()>) -> Result<()> {
        self.storage()?.dump(visit)
    }

    /// Takes a place in the commit queue, captures the boundary there and lets the queue go
    /// (contract §3.6). What comes back is read at leisure; later commits are not in it.
    pub fn capture(&self, cx: &Context) -> Result<Box<dyn Source>> {
        self.storage()?.capture(cx)
    }
}

impl SessionCore {
    fn close(&self) -> Result<()> {
        self.line.seal();
        self.line.drain();
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let closed = self.storage.close();
        self.slot.release();
        closed
    }
}

impl Drop for SessionCore {
    fn drop(&mut self) {
        // Nobody is left to hear of a failure; `close` is there for who wants to.
        let _ = self.close();
    }
}

/// An exclusive scope on a session's mutation line. Ends when dropped.
pub struct Mutation {
    // Declared first: the line is free before the session, whose last handle this may be, closes
    // and waits for it.
    _turn: Turn,
    session: Session,
    attempted: bool,
}

impl Mutation {
    /// The session, for all reads.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Commits; may be attempted once, also when the attempt failed. The scope goes on for reads.
    ///
    /// # Errors
    /// *Commit already attempted*, and what the storage refuses: *duplicate id*, *missing
    /// parent*, *limit exceeded*, I/O.
    pub fn commit(&mut self, writes: &[Write]) -> Result<Committed> {
        if std::mem::replace(&mut self.attempted, true) {
            return Err(Error::CommitAttempted);
        }
        let now = self.session.0.environment.clock.now();
        self.session.storage()?.commit(writes, now)
    }

    pub(crate) fn require_entry(&self, entry: &EntryId) -> Result<()> {
        match self.session.get_entries(std::slice::from_ref(entry))?.first() {
            Some(Some(_)) => Ok(()),
            _ => Err(forkline_model::Error::UnknownEntry { entry: entry.clone() }.into()),
        }
    }
}
