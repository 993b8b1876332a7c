//! The engines of this project before the gate, and their files as plain readers see them.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use forkline_model::{Answer, ForkRequest, Op, RepoIndex, SessionId, State};

use super::super::dump::dump;
use super::super::files;
use super::super::{Capabilities, Driver, Fault, FolderListing, Lines, SourceEvidence, Stored};
use super::{LocalDriver, LocalRepo};
use crate::lineup::EngineKind;
use crate::plain::{jsonl, sqlite};

impl Driver for LocalDriver {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn capabilities(&self, repo: RepoIndex) -> &Capabilities {
        static NOTHING: Capabilities = Capabilities::none();
        self.repos.get(repo).map_or(&NOTHING, |repo| &repo.capabilities)
    }

    fn run(&mut self, op: &Op) -> Result<Answer, Fault> {
        self.require_repos(op)?;
        self.last_error = None;
        Ok(self.answer(op).unwrap_or_else(|error| {
            self.last_error = Some(error.chain());
            Answer::Error { kind: error.kind() }
        }))
    }

    fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    fn dump(&mut self, repo: RepoIndex, session: &SessionId) -> Result<State, Fault> {
        let is_legacy = self.at_ref(repo).is_legacy(session)?;
        let session = self.session(repo, session).map_err(|error| Fault::new(error.chain()))?;
        dump(&session, is_legacy)
    }

    fn evidence(&mut self, request: &ForkRequest) -> Result<SourceEvidence, Fault> {
        let repo = self.at_ref(request.from);
        // A fork into the container that its source stands in changes the container.
        let same_file = repo.kind == EngineKind::SqliteShared && request.from == request.into;
        let slot = repo.slots.get(&request.source).filter(|slot| slot.is_stored && !same_file);
        match slot.and_then(|slot| slot.reference.path()) {
            Some(path) => files::evidence(path),
            None => Ok(SourceEvidence::default()),
        }
    }

    fn folder(&mut self, repo: RepoIndex) -> Result<FolderListing, Fault> {
        files::listing(&self.at_ref(repo).root)
    }

    fn home(&self, repo: RepoIndex, session: &SessionId) -> Option<PathBuf> {
        let repo = self.at_ref(repo);
        let slot = repo.slots.get(session).filter(|slot| slot.is_stored)?;
        Some(slot.reference.path()?.strip_prefix(&repo.root).ok()?.to_owned())
    }

    fn stored(&mut self, repo: RepoIndex, wanted: &[SessionId]) -> Result<Vec<Stored>, Fault> {
        let repo = self.at_ref(repo);
        match repo.kind {
            EngineKind::Memory => Ok(Vec::new()),
            EngineKind::Jsonl => {
                let found = wanted.iter().filter_map(|id| repo.stored_lines(id).transpose());
                found.collect()
            }
            EngineKind::Sqlite | EngineKind::SqliteShared => repo.stored_rows(wanted),
        }
    }
}

impl LocalRepo {
    /// The file of a stored session.
    fn file(&self, id: &SessionId) -> Option<&Path> {
        self.slots.get(id).filter(|slot| slot.is_stored)?.reference.path()
    }

    /// What a JSONL file holds; none for a legacy one, which the gate has the lines of.
    fn stored_lines(&self, id: &SessionId) -> Result<Option<Stored>, Fault> {
        let Some(path) = self.file(id) else { return Ok(None) };
        if self.is_legacy(id)? {
            return Ok(None);
        }
        let unreadable =
            |what: &dyn fmt::Display| Fault::new(format!("{}: {what}", path.display()));
        let bytes = fs::read(path).map_err(|error| unreadable(&error))?;
        let found = jsonl::read(&bytes).map_err(|damage| unreadable(&damage))?;
        let lines = Some(Lines {
            are_current: found.one_write_a_line && !found.torn,
            writes: found.writes,
        });
        Ok(Some(Stored { state: found.state, lines, wrong: Vec::new() }))
    }

    /// What containers hold: of each file all sessions are read at once, from a copy.
    fn stored_rows(&self, wanted: &[SessionId]) -> Result<Vec<Stored>, Fault> {
        let files: BTreeSet<&Path> = wanted.iter().filter_map(|id| self.file(id)).collect();
        let mut stored = Vec::new();
        for path in files {
            let unreadable =
                |what: &dyn fmt::Display| Fault::new(format!("{}: {what}", path.display()));
            let found = sqlite::read(path, &self.root).map_err(|error| unreadable(&error))?;
            for session in found {
                if !wanted.iter().any(|id| id.as_str() == session.id) {
                    continue;
                }
                let content = session.content.map_err(|damage| unreadable(&damage))?;
                let mut wrong = content.index_differences;
                let counted = content.state.stats();
                if content.claimed != counted {
                    let claimed = content.claimed;
                    wrong.push(format!("its row says {claimed:?}, a recount {counted:?}"));
                }
                stored.push(Stored { state: content.state, lines: None, wrong });
            }
        }
        Ok(stored)
    }
}
