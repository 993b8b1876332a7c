//! What a step does to the disk (GATE.md, oracles 3, 4 and 6): the bytes of sources, the names in
//! folders, and what files hold for who reads them with code that is not the engine's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use forkline_model::diff::diff;
use forkline_model::policy::{BRANCH_TIP, LANE_STATE};
use forkline_model::{Answer, ForkRequest, Op, RepoIndex, Seq, SessionId, World};

use super::{Judge, Oracle, Verdict, Violation, alive, compare, shown, touched};
use crate::driver::{Fault, Feature, FolderListing, Lines, SourceEvidence, Stored};
use crate::gate::generate::SOURCES;

/// What stood on the disk before a step.
pub(super) struct Before {
    pub(super) request: Option<ForkRequest>,
    evidence: SourceEvidence,
    /// The file of the session at hand, if it may be a legacy one.
    legacy: Option<(ForkRequest, SourceEvidence)>,
    folders: BTreeMap<RepoIndex, FolderListing>,
    /// The file of a session that is about to go.
    home: Option<std::path::PathBuf>,
}

impl Judge {
    pub(super) fn look(&mut self, op: &Op) -> Verdict<Before> {
        let request = match op {
            Op::Fork { request, .. } | Op::ForkBegin { request, .. } => Some(request.clone()),
            Op::ForkFinish { ticket, .. } => self.tickets.remove(ticket),
            _ => None,
        };
        let mut repos: BTreeSet<RepoIndex> = BTreeSet::new();
        let mut home = None;
        match (&request, op) {
            (Some(request), _) => repos.extend([request.from, request.into]),
            (None, Op::Create { repo, .. } | Op::Plant { repo, .. }) => {
                repos.insert(*repo);
            }
            (None, Op::Delete { repo, session }) => {
                repos.insert(*repo);
                home = self.driver.home(*repo, session);
            }
            _ => {}
        }
        let evidence = match &request {
            Some(request) => self.driver.evidence(request).map_err(alive)?,
            None => SourceEvidence::default(),
        };
        let legacy = match legacy_at(op) {
            Some(at) => Some((at.clone(), self.driver.evidence(&at).map_err(alive)?)),
            None => None,
        };
        let mut folders = BTreeMap::new();
        for repo in repos {
            folders.insert(repo, self.driver.folder(repo).map_err(alive)?);
        }
        Ok(Before { request, evidence, legacy, folders, home })
    }

    pub(super) fn check_evidence(&mut self, before: &Before) -> Verdict {
        let Some(request) = &before.request else { return Ok(()) };
        let after = self.driver.evidence(request).map_err(alive)?;
        match before.evidence.difference(&after) {
            None => Ok(()),
            Some(what) => Err((Oracle::Source, format!("the fork changed its source: {what}"))),
        }
    }

    /// A session that was not upgraded is the file that was planted, byte for byte.
    pub(super) fn check_legacy(&mut self, op: &Op, before: &Before, world: &World) -> Verdict {
        let Some((at, bytes)) = &before.legacy else { return Ok(()) };
        let session = world.session(at.from, &at.source);
        if session.is_none_or(|session| session.legacy().is_none()) {
            return Ok(());
        }
        let after = self.driver.evidence(at).map_err(alive)?;
        match bytes.difference(&after) {
            None => Ok(()),
            Some(what) => {
                let name = super::super::shapes::op_name(op);
                Err((Oracle::Source, format!("{name} changed a legacy file: {what}")))
            }
        }
    }

    pub(super) fn check_folders(&mut self, op: &Op, expected: &Answer, before: &Before) -> Verdict {
        let is_done = !matches!(expected, Answer::Error { .. });
        let made = match (op, &before.request) {
            (Op::Create { repo, id, .. } | Op::Plant { repo, session: id, .. }, _) if is_done => {
                Some((*repo, id))
            }
            (Op::Fork { .. } | Op::ForkFinish { .. }, Some(request)) if is_done => {
                Some((request.into, &request.id))
            }
            _ => None,
        };
        for (repo, listed) in &before.folders {
            let after = self.driver.folder(*repo).map_err(alive)?;
            let new = made.filter(|(at, _)| at == repo);
            let home = new.and_then(|(repo, id)| self.driver.home(repo, id));
            // A session that opens or closes brings its database's side files or takes them.
            let is_expected = |name: &str| match &home {
                Some(home) => is_home(name, home),
                None => false,
            };
            let is_under_way =
                |name: &str| matches!(op, Op::ForkBegin { .. }) && is_done && is_side_file(name);
            if let Some(name) =
                after.added_since(listed).find(|name| !is_expected(name) && !is_under_way(name))
            {
                let what = if is_done { "something else appeared" } else { "a refusal left" };
                return Err((Oracle::Folder, format!("{what}: {name:?}")));
            }
            if let Some(home) = home.filter(|home| !after.0.contains(&*home.to_string_lossy())) {
                return Err((Oracle::Folder, format!("{} is not there", home.display())));
            }
            check_gone(op, is_done, before, listed, &after)?;
        }
        Ok(())
    }

    /// Holds the files of sessions against the model's sessions.
    fn check_files(&mut self, repo: RepoIndex, ids: &[SessionId], world: &World) -> Verdict {
        for stored in self.driver.stored(repo, ids).map_err(unreadable)? {
            self.check_file(repo, &stored, world)?;
        }
        Ok(())
    }

    fn check_file(&self, repo: RepoIndex, stored: &Stored, world: &World) -> Verdict {
        let id = &stored.state.metadata().id;
        let Some(session) = world.session(repo, id) else { return Ok(()) };
        let expected = session.state();
        let mut wrong = stored.wrong.clone();
        if stored.state != *expected {
            let compare = compare(self.driver.capabilities(repo));
            let found = diff(expected, &stored.state, &compare);
            wrong.extend((!found.is_empty()).then(|| found.to_string().replace('\n', "\n    ")));
        }
        of_file(repo, id, &wrong)
    }

    /// The file of a fork that was made, where it has lines: one current row a line, and those
    /// that are copied as they are the bytes of the source's.
    pub(super) fn check_made(&mut self, op: &Op, before: &Before, world: &World) -> Verdict {
        let (Op::Fork { .. } | Op::ForkFinish { .. }, Some(request)) = (op, &before.request) else {
            return Ok(());
        };
        let Some((made, lines)) = self.lines(request.into, &request.id)? else { return Ok(()) };
        self.check_file(request.into, &made, world)?;
        let state = &made.state;
        let elements: usize = state.lists().values().map(BTreeMap::len).sum();
        let rows = state.entries().len() + state.values().len() + elements;
        if !lines.are_current || lines.writes.len() != rows {
            let wrong = "it is not one current row a line".to_owned();
            return of_file(request.into, &request.id, &[wrong]);
        }
        // The source of a fork that ends later may be another session by now.
        if !matches!(op, Op::Fork { .. }) {
            return Ok(());
        }
        let Some((_, source)) = self.lines(request.from, &request.source)? else { return Ok(()) };
        let rewritten: BTreeSet<Seq> = (state.values().iter())
            .filter(|(address, _)| [BRANCH_TIP, LANE_STATE].contains(&address.namespace.as_str()))
            .map(|(_, (seq, _))| *seq)
            .collect();
        let is_changed = |(seq, text): &(&Seq, &String)| {
            !rewritten.contains(seq) && source.writes.get(seq) != Some(text)
        };
        let changed = lines.writes.iter().find(is_changed);
        let wrong = changed.map(|(seq, text)| {
            let source = source.writes.get(seq).map_or("nothing", String::as_str);
            format!("seq {seq}: the source has {}, the fork {}", shown(source), shown(text))
        });
        of_file(request.into, &request.id, wrong.as_slice())
    }

    fn lines(&mut self, repo: RepoIndex, id: &SessionId) -> Verdict<Option<(Stored, Lines)>> {
        if !self.driver.capabilities(repo).has(Feature::TornTails) {
            return Ok(None);
        }
        let mut stored = self.driver.stored(repo, std::slice::from_ref(id)).map_err(unreadable)?;
        Ok(stored.pop().and_then(|mut stored| stored.lines.take().map(|lines| (stored, lines))))
    }

    /// With every session closed: what is left is what holds them.
    pub(in crate::gate) fn check_rest(
        &mut self,
        step: usize,
        op: &Op,
        sessions: &[(RepoIndex, SessionId)],
        repos: usize,
        world: &World,
    ) -> Result<(), Violation> {
        for repo in 0..repos {
            let ids: Vec<SessionId> =
                sessions.iter().filter(|(at, _)| *at == repo).map(|(_, id)| id.clone()).collect();
            self.check_files(repo, &ids, world).map_err(|found| self.violation(step, op, found))?;
            let homes: BTreeSet<_> =
                ids.iter().filter_map(|id| self.driver.home(repo, id)).collect();
            let folder = self.driver.folder(repo).map_err(alive);
            let folder = folder.map_err(|found| self.violation(step, op, found))?;
            // Who opens a container to write takes its side files away when he leaves. Where no
            // session is left to open, the last one may have been a fork, which only reads.
            let may_keep_sides = homes.is_empty();
            let is_known = |name: &str| {
                name.ends_with('/')
                    || homes.contains(Path::new(name))
                    || is_container(name)
                    || (may_keep_sides && is_side_of_container(name))
            };
            if let Some(name) = folder.0.iter().find(|name| !is_known(name)) {
                let found = (Oracle::Folder, format!("left with all sessions closed: {name:?}"));
                return Err(self.violation(step, op, found));
            }
        }
        Ok(())
    }
}

fn unreadable(fault: Fault) -> (Oracle, String) {
    (Oracle::File, fault.0)
}

fn of_file(repo: RepoIndex, id: &SessionId, wrong: &[String]) -> Verdict {
    if wrong.is_empty() {
        return Ok(());
    }
    let wrong = wrong.join("\n    ");
    Err((Oracle::File, format!("the file of session {id} of repository {repo}:\n    {wrong}")))
}

fn check_gone(
    op: &Op,
    is_done: bool,
    before: &Before,
    listed: &FolderListing,
    after: &FolderListing,
) -> Verdict {
    let is_delete = matches!(op, Op::Delete { .. }) && is_done;
    let may_go = |name: &str| {
        is_side_file(name)
            || (is_delete && before.home.as_ref().is_some_and(|home| is_home(name, home)))
    };
    if let Some(name) = listed.added_since(after).find(|name| !may_go(name)) {
        return Err((Oracle::Folder, format!("{name:?} is gone")));
    }
    Ok(())
}

/// Where the file of a legacy session is to be looked at before and after an operation that may
/// upgrade it, as the source of a fork.
fn legacy_at(op: &Op) -> Option<ForkRequest> {
    let (repo, session) = match touched(op, None).pop() {
        Some(touched) => touched,
        None => match op {
            Op::Close { repo, session } | Op::Read { repo, session, .. } => {
                (*repo, session.clone())
            }
            _ => return None,
        },
    };
    (repo == SOURCES).then(|| ForkRequest {
        from: repo,
        source: session.clone(),
        into: repo,
        id: session,
        scope: forkline_model::Scope::Tree,
        created_at: forkline_model::Millis::EPOCH,
        cwd: None,
        closed: true,
    })
}

/// Whether a name is the file of a session, beside it, or a folder above it.
fn is_home(name: &str, home: &Path) -> bool {
    let file = home.to_string_lossy();
    name == file
        || (is_side_file(name) && name.starts_with(&*file))
        || name.strip_suffix('/').is_some_and(|folder| home.starts_with(folder))
}

/// What stands beside a database while it is open.
fn is_side_file(name: &str) -> bool {
    name.ends_with("-wal") || name.ends_with("-shm")
}

fn is_side_of_container(name: &str) -> bool {
    let sides = ["-wal", "-shm"];
    sides.iter().any(|side| name.strip_suffix(side).is_some_and(is_container))
}

fn is_container(name: &str) -> bool {
    Path::new(name).file_name().is_some_and(|name| name == crate::driver::SHARED_CONTAINER)
}
