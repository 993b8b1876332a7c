//! An open session: one connection behind a mutex, which is the commit queue.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use forkline_model::{
    Address, BranchScan, Entry, EntryHead, EntryId, EntryQuery, Json, Key, ListQuery, Metadata,
    Millis, Namespace, Seq, SeqQuery, SessionId, Stats, UsageRow, Write,
};
use rusqlite::Connection;

use super::capture::SqliteSource;
use super::commit::Commit;
use super::open::{self, Reader, Use};
use super::reads::Reads;
use super::rows::{failed, session_row};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::fork::Source;
use crate::repo::SyncCommits;
use crate::storage::{Committed, StateRow, Storage};

pub(super) struct SqliteStorage {
    path: PathBuf,
    session: SessionId,
    metadata: Metadata,
    state: Mutex<State>,
}

struct State {
    /// The reader of a dump that is over, which holds no snapshot; the next dump takes it.
    /// It goes before `conn`, whose closing takes the WAL in only as the last of the file.
    idle: Option<Reader>,
    /// None once closed.
    conn: Option<Connection>,
    /// Whether a write failed; then no more are tried.
    poisoned: bool,
}

impl SqliteStorage {
    /// Opens the session of that id in the database at exactly that path.
    ///
    /// # Errors
    /// *Unknown session*, *unsupported version*, *corrupt source*, *busy*, I/O.
    pub(super) fn open(path: &Path, session: &SessionId, sync: SyncCommits) -> Result<Self> {
        // A look without a trace first: what is refused is not even opened to write.
        Reader::open(path, Use::Look)?.session_row(session)?;
        let conn = open::writer(path, sync)?;
        let metadata = session_row(&conn, "main", path, session)?.metadata;
        let state = State { idle: None, conn: Some(conn), poisoned: false };
        let (path, session, state) = (path.to_owned(), session.clone(), Mutex::new(state));
        Ok(Self { path, session, metadata, state })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic leaves a transaction that its guard rolled back.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn closed(&self) -> Error {
        forkline_model::Error::Closed { session: self.session.clone() }.into()
    }

    fn read<T>(&self, read: impl FnOnce(&Reads<'_>) -> Result<T>) -> Result<T> {
        let state = self.lock();
        let conn = state.conn.as_ref().ok_or_else(|| self.closed())?;
        read(&Reads::new(conn, "main", &self.path, self.session.as_str()))
    }
}

impl Storage for SqliteStorage {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn commit(&self, writes: &[Write], now: Millis) -> Result<Committed> {
        let mut state = self.lock();
        if state.poisoned {
            return Err(Error::Poisoned { session: self.session.clone() });
        }
        let conn = state.conn.as_mut().ok_or_else(|| self.closed())?;
        let committed = Commit::apply(conn, &self.path, &self.session, writes, now);
        if let Err(Error::Sqlite { .. } | Error::Io { .. }) = &committed {
            state.poisoned = true;
        }
        committed
    }

    fn get_entries(&self, ids: &[EntryId]) -> Result<Vec<Option<Entry>>> {
        self.read(|reads| reads.get_entries(ids))
    }

    fn get_value(&self, address: &Address) -> Result<Option<(Seq, Json)>> {
        self.read(|reads| reads.get_value(address))
    }

    fn scan_values(
        &self,
        namespace: &Namespace,
        key_prefix: &str,
    ) -> Result<Vec<(Key, Seq, Json)>> {
        self.read(|reads| reads.scan_values(namespace, key_prefix))
    }

    fn read_list(&self, address: &Address, query: &ListQuery) -> Result<Vec<(Seq, Json)>> {
        self.read(|reads| reads.read_list(address, query))
    }

    fn scan_branch(&self, scan: &BranchScan) -> Result<Vec<Entry>> {
        self.read(|reads| reads.scan_branch(scan, &|at, row| at.entry(row)))
    }

    fn scan_branch_structure(&self, scan: &BranchScan) -> Result<Vec<EntryHead>> {
        self.read(|reads| reads.scan_branch(scan, &|at, row| at.head(row)))
    }

    fn scan_entries(&self, query: &SeqQuery) -> Result<Vec<Entry>> {
        self.read(|reads| reads.scan_entries(query))
    }

    fn scan_usage(&self, query: &SeqQuery) -> Result<Vec<UsageRow>> {
        self.read(|reads| reads.scan_usage(query))
    }

    fn find_entries(&self, query: &EntryQuery) -> Result<Vec<Entry>> {
        self.read(|reads| reads.find_entries(query))
    }

    fn stats(&self) -> Result<Stats> {
        self.read(|reads: &Reads<'_>| Reads::stats(reads))
    }

    fn next_seq(&self) -> Result<u64> {
        self.read(|reads| {
            let row = session_row(reads.conn(), "main", &self.path, &self.session)?;
            Ok(row.next_seq)
        })
    }

    fn dump(&self, visit: &mut dyn FnMut(StateRow) -> Result<()>) -> Result<()> {
        // A connection of its own: the visitor may use the session.
        let reader = {
            let mut state = self.lock();
            state.conn.as_ref().ok_or_else(|| self.closed())?;
            let idle = state.idle.take();
            let reader = idle.map_or_else(|| Reader::beside_writer(&self.path, Use::Look), Ok)?;
            reader.pin()?;
            reader
        };
        Reads::new(&reader.conn, reader.schema(), &self.path, self.session.as_str()).dump(visit)?;
        reader.unpin()?;
        let mut state = self.lock();
        if state.conn.is_some() {
            state.idle = Some(reader);
        }
        Ok(())
    }

    fn capture(&self, _cx: &Context) -> Result<Box<dyn Source>> {
        // The slow part first: within the queue there is only the pinning read.
        self.lock().conn.as_ref().ok_or_else(|| self.closed())?;
        let reader = Reader::beside_writer(&self.path, Use::Fork)?;
        let state = self.lock();
        state.conn.as_ref().ok_or_else(|| self.closed())?;
        let source = SqliteSource::pinned(reader, &self.session)?;
        drop(state);
        Ok(Box::new(source))
    }

    fn close(&self) -> Result<()> {
        let mut state = self.lock();
        drop(state.idle.take());
        let conn = state.conn.take();
        drop(state);
        match conn.map(Connection::close) {
            Some(Err((_, error))) => Err(failed("close", &self.path, error)),
            Some(Ok(())) | None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use forkline_model::{Json, Millis, SessionId, Write};

    use super::SqliteStorage;
    use crate::repo::SyncCommits;
    use crate::sqlite::SqliteRepo;
    use crate::sqlite::names::{SIDE_SUFFIXES, side};
    use crate::storage::{StateRow, Storage};
    use crate::{Context, CreateOptions, Repo};

    fn keys(storage: &SqliteStorage) -> Vec<String> {
        let mut keys = Vec::new();
        let dumped = storage.dump(&mut |row| {
            if let StateRow::Value { address, .. } = row {
                keys.push(address.key.as_str().to_owned());
            }
            Ok(())
        });
        dumped.expect("dumped");
        keys
    }

    /// The reader that dumps leave for each other holds no snapshot, and does not outlive what
    /// closes the file.
    #[test]
    fn a_reader_that_is_kept_sees_each_commit_and_leaves_no_side_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let repo = SqliteRepo::per_file(folder.path()).expect("a repository");
        let session = repo.create(&CreateOptions::default(), &Context::new()).expect("a session");
        let path = session.reference().path().expect("a file").to_owned();
        let id: SessionId = session.metadata().id.clone();
        session.close().expect("closed");

        let set = |key: &str| [Write::set("app", key, Json::null()).expect("a write")];
        let open = || SqliteStorage::open(&path, &id, SyncCommits::No).expect("opened");
        let storage = open();
        assert!(keys(&storage).is_empty());
        storage.commit(&set("a"), Millis::EPOCH).expect("committed");
        assert_eq!(keys(&storage), ["a"]);
        storage.commit(&set("b"), Millis::EPOCH).expect("committed");
        // A dump within a dump has a reader of its own; one of the two is kept.
        let mut inner = Vec::new();
        let outer = storage.dump(&mut |_| {
            inner.push(keys(&storage));
            storage.commit(&set("c"), Millis::EPOCH).map(drop)
        });
        outer.expect("dumped");
        assert_eq!(inner, [vec!["a", "b"], vec!["a", "b", "c"]]);
        assert!(storage.lock().idle.is_some());
        storage.capture(&Context::new()).expect("captured");
        assert_eq!(keys(&storage), ["a", "b", "c"]);
        let no_side_file = || SIDE_SUFFIXES.iter().all(|suffix| !side(&path, suffix).exists());
        storage.close().expect("closed");
        assert!(no_side_file());
        let storage = open();
        assert_eq!(keys(&storage), ["a", "b", "c"]);
        drop(storage);
        assert!(no_side_file());
    }
}
