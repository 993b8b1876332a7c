//! A real engine that is wrong in one way: wrappers around its repository, sources, destinations
//! and open sessions.
//!
//! *Why this way.* Nothing in the engines knows of it: no switch, no hook, no feature. What a
//! wrapper does not change is the engine's own work, so that a bug is caught for what it is.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use forkline_engines::fork::{Copied, Destination, Plan, Row, Source};
use forkline_engines::{
    Context, Error, ListFilter, Location, Repo, RepoCore, Result, SessionRef, Storage,
};
use forkline_model::{ForkOptions, LaneAudit, Metadata, Scope, SessionId, State, Write};

use super::draft::{Draft, owned};
use super::shadow::{Shadow, Shadows};
use super::storage::PlantedStorage;

/// Where in the way of a fork something is wrong, and what.
#[derive(Debug, Clone, Copy)]
pub(super) enum Plant {
    /// In what the engine understands that it was asked for.
    Asked(fn(&mut Scope)),
    /// In what the engine sees of its source before it plans. The engine is the memory engine:
    /// the rows are given to it as a session of its own.
    Shown(fn(&mut Draft, &Case<'_>)),
    /// In the rows of a planned fork.
    Rows(fn(&mut Draft, &Case<'_>)),
    /// In what a source file is read as: its text, or none for the file as it is.
    Tail(fn(&Path) -> io::Result<Option<Vec<u8>>>),
    /// In what becomes of the published file.
    Published(fn(&Path, &Metadata) -> io::Result<()>),
    /// The boundary is taken when the fork is planned, not when it begins.
    LateBoundary,
    /// The boundary of an open source is where it was before its last commit.
    EarlyBoundary,
    /// The destination's id stays reserved when the fork is refused.
    LeakedId,
}

/// The fork that a bug spoils.
pub(super) struct Case<'a> {
    pub(super) scope: &'a Scope,
    /// What the source holds.
    pub(super) state: &'a State,
    /// All that was ever written to it.
    pub(super) past: &'a [(forkline_model::Seq, Write)],
}

/// A repository with a bug.
pub(super) struct PlantedRepo {
    inner: Arc<dyn Repo>,
    plant: Plant,
    shadows: Shadows,
    /// Where altered copies of source files go.
    scratch: PathBuf,
    unreleased: Arc<Mutex<BTreeSet<SessionId>>>,
}

impl PlantedRepo {
    pub(super) fn new(inner: Arc<dyn Repo>, plant: Plant) -> Self {
        let scratch = inner.core().options().scratch.clone();
        let scratch = scratch.unwrap_or_else(std::env::temp_dir);
        Self { inner, plant, shadows: Shadows::default(), scratch, unreleased: Arc::default() }
    }

    /// What the engine captures when it is told to read a text in place of the source's file.
    fn capture_text(&self, text: &[u8], at: &SessionRef, cx: &Context) -> Result<Box<dyn Source>> {
        let path = self.scratch.join("altered.jsonl");
        let io = |error| Error::io("alter", &path, error);
        fs::write(&path, text).map_err(io)?;
        let altered =
            SessionRef { metadata: at.metadata.clone(), location: Location::File(path.clone()) };
        let source = self.inner.capture(&altered, cx);
        // The source has it open.
        fs::remove_file(&path).map_err(io)?;
        source
    }
}

impl Repo for PlantedRepo {
    fn core(&self) -> &RepoCore {
        self.inner.core()
    }

    fn make(&self, metadata: &Metadata, cx: &Context) -> Result<SessionRef> {
        let made = self.inner.make(metadata, cx)?;
        self.shadows.created(metadata);
        Ok(made)
    }

    fn load(&self, at: &SessionRef, cx: &Context) -> Result<Box<dyn Storage>> {
        let (inner, id) = (self.inner.load(at, cx)?, at.metadata.id.clone());
        Ok(Box::new(PlantedStorage::new(inner, id, self.plant, self.shadows.clone())))
    }

    fn remove(&self, at: &SessionRef, cx: &Context) -> Result<()> {
        self.inner.remove(at, cx)?;
        self.shadows.removed(&at.metadata.id);
        Ok(())
    }

    fn capture(&self, at: &SessionRef, cx: &Context) -> Result<Box<dyn Source>> {
        if let (Plant::Tail(read), Location::File(path)) = (self.plant, &at.location)
            && let Ok(Some(text)) = read(path)
        {
            return self.capture_text(&text, at, cx);
        }
        let (inner, wanted) = (self.inner.clone(), at.clone());
        let capture = move |cx: &Context| inner.capture(&wanted, cx);
        PlantedSource::capture(self.plant, self.shadows.get(&at.metadata.id), capture, cx)
    }

    fn stage(&self, metadata: &Metadata, cx: &Context) -> Result<Box<dyn Destination>> {
        Ok(Box::new(PlantedDestination {
            inner: self.inner.stage(metadata, cx)?,
            plant: self.plant,
            shadows: self.shadows.clone(),
            draft: Draft::default(),
            unreleased: self.unreleased.clone(),
        }))
    }

    fn require_free(&self, metadata: &Metadata) -> Result<()> {
        self.inner.require_free(metadata)?;
        if let Plant::LeakedId = self.plant {
            let mut unreleased = self.unreleased.lock().unwrap_or_else(PoisonError::into_inner);
            if !unreleased.insert(metadata.id.clone()) {
                let session = metadata.id.clone();
                return Err(forkline_model::Error::SessionExists { session }.into());
            }
        }
        Ok(())
    }

    fn destination_cwd(&self, source: &Metadata) -> Result<Option<String>> {
        self.inner.destination_cwd(source)
    }

    fn list(&self, filter: &ListFilter, cx: &Context) -> Result<Vec<SessionRef>> {
        self.inner.list(filter, cx)
    }
}

type Capture = Box<dyn Fn(&Context) -> Result<Box<dyn Source>> + Send>;

/// A captured source whose plan or rows are wrong.
pub(super) struct PlantedSource {
    inner: Box<dyn Source>,
    capture: Capture,
    plant: Plant,
    shadow: Option<Shadow>,
    spoiled: Option<Draft>,
}

impl PlantedSource {
    /// Captures by `capture`, which may be called again.
    pub(super) fn capture(
        plant: Plant,
        shadow: Option<Shadow>,
        capture: impl Fn(&Context) -> Result<Box<dyn Source>> + Send + 'static,
        cx: &Context,
    ) -> Result<Box<dyn Source>> {
        let inner = capture(cx)?;
        Ok(Box::new(Self { inner, capture: Box::new(capture), plant, shadow, spoiled: None }))
    }
}

impl Source for PlantedSource {
    fn metadata(&self) -> &Metadata {
        self.inner.metadata()
    }

    fn plan(&mut self, options: &ForkOptions, audit: LaneAudit, cx: &Context) -> Result<Plan> {
        let mut options = options.clone();
        let mut asked = options.scope.clone();
        let case = self.shadow.as_ref().map(|shadow| Case {
            scope: &options.scope,
            state: &shadow.state,
            past: &shadow.past,
        });
        match (self.plant, &case) {
            (Plant::Asked(spoil), _) => {
                spoil(&mut asked);
                options.scope = asked;
            }
            (Plant::LateBoundary, _) => self.inner = (self.capture)(cx)?,
            (Plant::Shown(spoil), Some(case)) => {
                let mut draft = Draft::of(case.state);
                spoil(&mut draft, case);
                draft.sort();
                self.inner = draft.captured(&self.inner.metadata().clone())?;
            }
            (Plant::Rows(spoil), Some(case)) => {
                let plan = self.inner.plan(&options, audit, cx)?;
                let mut draft = Draft::take(&mut *self.inner, plan, cx)?;
                spoil(&mut draft, case);
                let plan = Plan { next_seq: draft.next_seq };
                self.spoiled = Some(draft);
                return Ok(plan);
            }
            _ => {}
        }
        self.inner.plan(&options, audit, cx)
    }

    fn stream(&mut self, sink: &mut dyn FnMut(Row<'_>) -> Result<()>, cx: &Context) -> Result<()> {
        match &self.spoiled {
            Some(draft) => draft.stream(sink),
            None => self.inner.stream(sink, cx),
        }
    }

    fn take_stage(&mut self, cx: &Context) -> Result<Option<forkline_engines::sqlite::Stage>> {
        if self.spoiled.is_some() { Ok(None) } else { self.inner.take_stage(cx) }
    }
}

/// A destination that is watched, and spoiled once it is there.
struct PlantedDestination {
    inner: Box<dyn Destination>,
    plant: Plant,
    shadows: Shadows,
    /// What it got, where a bug may ask for it.
    draft: Draft,
    unreleased: Arc<Mutex<BTreeSet<SessionId>>>,
}

impl PlantedDestination {
    fn is_watched(&self) -> bool {
        matches!(self.plant, Plant::Shown(_) | Plant::Rows(_))
    }
}

impl Destination for PlantedDestination {
    fn fill(&mut self, source: &mut dyn Source, plan: Plan, cx: &Context) -> Result<Copied> {
        if !self.is_watched() {
            return self.inner.fill(source, plan, cx);
        }
        self.draft.next_seq = plan.next_seq;
        let mut watched = Watched { source, draft: &mut self.draft };
        self.inner.fill(&mut watched, plan, cx)
    }

    fn publish(self: Box<Self>, cx: &Context) -> Result<SessionRef> {
        let is_watched = self.is_watched();
        let Self { inner, plant, shadows, draft, unreleased } = *self;
        let at = inner.publish(cx)?;
        if is_watched {
            shadows.forked(&at.metadata, &draft);
        }
        unreleased.lock().unwrap_or_else(PoisonError::into_inner).remove(&at.metadata.id);
        if let (Plant::Published(spoil), Some(path)) = (plant, at.path()) {
            spoil(path, &at.metadata).map_err(|error| Error::io("spoil", path, error))?;
        }
        Ok(at)
    }
}

/// Notes the rows that go by.
struct Watched<'a> {
    source: &'a mut dyn Source,
    draft: &'a mut Draft,
}

impl Source for Watched<'_> {
    fn metadata(&self) -> &Metadata {
        self.source.metadata()
    }

    fn plan(&mut self, options: &ForkOptions, audit: LaneAudit, cx: &Context) -> Result<Plan> {
        self.source.plan(options, audit, cx)
    }

    fn stream(&mut self, sink: &mut dyn FnMut(Row<'_>) -> Result<()>, cx: &Context) -> Result<()> {
        let draft = &mut *self.draft;
        self.source.stream(
            &mut |mut row| {
                let mut one = Draft::default();
                one.rows.push(owned(&mut row)?);
                one.stream(sink)?;
                draft.rows.append(&mut one.rows);
                Ok(())
            },
            cx,
        )
    }
}
