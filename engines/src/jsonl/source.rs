//! A captured prefix of a session file as the source of a fork: two passes over it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forkline_model::address::SEQ_MAX;
use forkline_model::policy::{self, LaneShape, Projector};
use forkline_model::{
    Address, BranchName, EntryHead, EntryId, EntryType, Error as ModelError, ForkOptions, Json,
    LaneAudit, Metadata, Millis, Position, Scope, Seq, StoreKind, TypeName, Write,
};

use super::commit::payload;
use super::file::SessionFile;
use super::index::{
    self, Collector, Damage, PartialLane, SURVIVOR_BYTES, Selected, Survivor, SurvivorKind,
};
use super::lines::{self, Line, What};
use super::open::{read_json, read_text};
use super::storage::Span;
use super::window::Window;
use crate::context::{Context, Progress};
use crate::error::{Error, Place, Result};
use crate::fork::{Body, Copied, InMemory, Plan, Row, Source};
use crate::fs::FileHandle;
use crate::spill::Sorted;

/// How many writes are read between two looks at the context.
const WRITES_PER_CHECK: u64 = 1024;

/// The first `len` bytes of a session file, all whole lines.
pub(super) struct JsonlSource {
    file: SessionFile,
    path: PathBuf,
    len: u64,
    scratch: PathBuf,
    selection: Option<Selection>,
}

/// What a plan selected.
struct Selection {
    projector: Projector,
    survivors: Sorted<SURVIVOR_BYTES>,
}

impl JsonlSource {
    pub(super) fn new(file: SessionFile, path: PathBuf, len: u64, scratch: PathBuf) -> Self {
        Self { file, path, len, scratch, selection: None }
    }

    fn handle(&self) -> &Arc<dyn FileHandle> {
        &self.file.handle
    }

    /// Visits the writes of the prefix; `pass` is 0 or 1, and a visit says whether it handed over
    /// a row. Gives back the highest seq.
    fn for_each(
        &self,
        pass: u64,
        cx: &Context,
        visit: &mut dyn FnMut(Line<'_>) -> Result<bool>,
    ) -> Result<u64> {
        let (mut count, mut rows_done): (u64, u64) = (0, 0);
        let lines = self.file.header.end..self.len;
        lines::for_each(self.handle(), &self.path, lines, &mut |line| {
            if count.is_multiple_of(WRITES_PER_CHECK) {
                let bytes_done = pass * self.len + line.span.start;
                let bytes_total = 2 * self.len;
                cx.progress(Progress { bytes_done, bytes_total, rows_done })?;
            }
            count += 1;
            rows_done += u64::from(visit(line)?);
            Ok(())
        })
    }

    /// The tip that a branch fork's branch gets (contract §3.1); leaves records of all entries.
    fn select(
        &self,
        collected: &mut index::Collected,
        branch: &BranchName,
        entry: Option<&EntryId>,
        position: Position,
    ) -> Result<Option<EntryId>> {
        let Some(tip) = collected.lane_tip(branch)? else {
            return match entry {
                None => Ok(None),
                Some(entry) => {
                    let (branch, entry) = (branch.clone(), entry.clone());
                    Err(ModelError::EntryNotOnBranch { branch, entry }.into())
                }
            };
        };
        let path = index::Path { branch, tip: &tip, entry, position };
        match index::walk(collected, &path, &self.scratch)? {
            Selected::MissingParent(place) => Err(self.damage(place, Damage::MissingParent)?),
            Selected::Named(place) => match position {
                Position::At => Ok(Some(entry.unwrap_or(&tip).clone())),
                Position::Before => self.parent_of(place),
            },
        }
    }

    fn parent_of(&self, place: index::Place) -> Result<Option<EntryId>> {
        lines::object_at(self.handle(), &self.path, place.span(), |line| match &line.what {
            What::Entry { parent, .. } => Ok(parent.map(EntryId::new).transpose()?),
            _ => Err(lines::changed(&self.path, place.offset, "it is no entry any more")),
        })
    }

    /// The error of a damaged entry.
    fn damage(&self, place: index::Place, damage: Damage) -> Result<Error> {
        let number = lines::line_number(&**self.handle(), &self.path, place.offset)?;
        lines::object_at(self.handle(), &self.path, place.span(), |line| match &line.what {
            What::Entry { id, parent, .. } => {
                let id = EntryId::new(id)?;
                let error = match (damage, parent) {
                    (Damage::MissingParent, Some(parent)) => {
                        ModelError::MissingParent { entry: id, parent: EntryId::new(parent)? }
                    }
                    _ => ModelError::DuplicateId { id },
                };
                Ok(Error::corrupt(Place::line(&self.path, number), error.to_string()))
            }
            _ => Err(lines::changed(&self.path, place.offset, "it is no entry any more")),
        })
    }

    /// The error of a surviving row that no fork knows what to do with.
    fn unknown(&self, place: index::Place) -> Result<Error> {
        lines::object_at(self.handle(), &self.path, place.span(), |line| match &line.what {
            What::Store { kind, namespace, key, .. } => {
                Ok(policy::unknown_reserved(*kind, namespace, key)?.into())
            }
            _ => Err(lines::changed(&self.path, place.offset, "it is no value any more")),
        })
    }

    /// Contract §3.5, `Strict`: the finding of the lowest branch name, if there is one.
    fn audit(&self, verdict: &mut index::Verdict) -> Result<Option<ModelError>> {
        let failed = |error| index::spill_error(&self.scratch, error);
        let mut lowest: Option<(BranchName, ModelError)> = None;
        let mut found = |branch: BranchName, error| {
            if lowest.as_ref().is_none_or(|(known, _)| branch < *known) {
                lowest = Some((branch, error));
            }
        };
        for lane in verdict.partial_lanes.by_ref() {
            let PartialLane { place, rows } = PartialLane::from_bytes(&lane.map_err(failed)?);
            let LaneShape::Partial(reason) = rows.shape() else { continue };
            // A row at the empty key names no branch.
            if let Some((branch, _)) = self.lane_row(place)? {
                found(branch.clone(), ModelError::CorruptLane { branch, reason });
            }
        }
        for place in verdict.bad_tips.by_ref() {
            let place = index::Place::from_bytes(place.map_err(failed)?);
            let Some((branch, value)) = self.lane_row(place)? else { continue };
            let value = read_json(&**self.handle(), &self.path, value)?;
            match policy::read_tip(&branch, &value) {
                Ok(Some(tip)) => found(branch.clone(), ModelError::UnknownTip { branch, tip }),
                Ok(None) => {}
                Err(error) => found(branch, error),
            }
        }
        Ok(lowest.map(|(_, error)| error))
    }

    /// The branch of a lane's row, and where its value is.
    fn lane_row(&self, place: index::Place) -> Result<Option<(BranchName, Span)>> {
        lines::object_at(self.handle(), &self.path, place.span(), |line| match &line.what {
            What::Store { key, value: Some(value), .. } => {
                let branch = BranchName::new(key).ok();
                Ok(branch.map(|branch| (branch, Span::from(value.span.clone()))))
            }
            _ => Err(lines::changed(&self.path, place.offset, "it is no value any more")),
        })
    }
}

impl Source for JsonlSource {
    fn metadata(&self) -> &Metadata {
        &self.file.header.metadata
    }

    fn plan(&mut self, options: &ForkOptions, audit: LaneAudit, cx: &Context) -> Result<Plan> {
        let scope = &options.scope;
        let mut collector = Collector::new(scope, audit, &self.scratch);
        let last_seq = self.for_each(0, cx, &mut |line| collector.take(&line).map(|()| false))?;
        let mut collected = collector.finish();
        let tip = match scope {
            Scope::Tree => None,
            Scope::Branch { branch, entry, position } => {
                self.select(&mut collected, branch, entry.as_ref(), *position)?
            }
        };
        let mut verdict = index::judge(collected, scope, audit, &self.scratch)?;
        if let Some((place, damage)) = verdict.damage {
            return Err(self.damage(place, damage)?);
        }
        if let Some(error) = self.audit(&mut verdict)? {
            return Err(error.into());
        }
        if let Some(place) = verdict.unknown {
            return Err(self.unknown(place)?);
        }
        let next_seq = self.file.header.next_seq.unwrap_or(1).max(last_seq + 1);
        if next_seq > SEQ_MAX {
            return Err(ModelError::SeqExhausted { next_seq }.into());
        }
        let projector = Projector::new(scope.clone(), tip);
        self.selection = Some(Selection { projector, survivors: verdict.survivors });
        Ok(Plan { next_seq })
    }

    fn copy_lines(&mut self, out: &mut dyn io::Write, cx: &Context) -> Option<Result<Copied>> {
        Some(self.copy_survivors(out, cx))
    }

    fn stream(&mut self, sink: &mut dyn FnMut(Row<'_>) -> Result<()>, cx: &Context) -> Result<()> {
        let Selection { projector, mut survivors } =
            self.selection.take().expect("a source is planned once before it streams");
        let failed = |error| index::spill_error(&self.scratch, error);
        let mut next_survivor = || {
            let next = survivors.next().transpose().map_err(failed)?;
            Ok::<_, Error>(next.map(|bytes| Survivor::from_bytes(&bytes)))
        };
        let mut wanted = next_survivor()?;
        let mut window = Window::new(self.handle().clone());
        self.for_each(1, cx, &mut |line| {
            let Some(survivor) = wanted else { return Ok(false) };
            if survivor.place.span() != line.span {
                return Ok(false);
            }
            emit(&line, &projector, &mut window, &self.path, sink)?;
            wanted = next_survivor()?;
            Ok(true)
        })?;
        match wanted {
            None => Ok(()),
            Some(left) => {
                Err(lines::changed(&self.path, left.place.offset, "a write is not there any more"))
            }
        }
    }
}

impl JsonlSource {
    /// Pass 2 between two files: spans are copied, without a second look at what is in them.
    fn copy_survivors(&mut self, out: &mut dyn io::Write, cx: &Context) -> Result<Copied> {
        let Selection { projector, survivors } =
            self.selection.take().expect("a source is planned once before it is copied");
        let failed = |error| index::spill_error(&self.scratch, error);
        let copy_failed = |error| Error::io("copy", &self.path, error);
        let mut window = Window::new(self.handle().clone());
        let mut copied = Copied::default();
        for survivor in survivors {
            let Survivor { place, kind } = Survivor::from_bytes(&survivor.map_err(failed)?);
            let rows_done = copied.rows();
            if rows_done.is_multiple_of(WRITES_PER_CHECK) {
                let bytes_done = self.len + place.offset;
                cx.progress(Progress { bytes_done, bytes_total: 2 * self.len, rows_done })?;
            }
            match kind {
                SurvivorKind::Rewritten => {
                    let line = self.rewritten(place, &projector)?;
                    out.write_all(line.as_bytes()).map_err(copy_failed)?;
                }
                _ => window.copy(Span::from(place.span()), out).map_err(copy_failed)?,
            }
            out.write_all(b"\n").map_err(copy_failed)?;
            match kind {
                SurvivorKind::Entry => copied.entries += 1,
                SurvivorKind::Message => {
                    copied.entries += 1;
                    copied.messages += 1;
                }
                SurvivorKind::Value | SurvivorKind::Rewritten => copied.values += 1,
                SurvivorKind::Element => copied.elements += 1,
            }
        }
        Ok(copied)
    }

    /// The line of a value that gets new content.
    fn rewritten(&self, place: index::Place, projector: &Projector) -> Result<String> {
        let changed =
            || lines::changed(&self.path, place.offset, "a value has another address now");
        lines::object_at(self.handle(), &self.path, place.span(), |line| {
            let What::Store { kind, namespace, key, value: Some(_) } = &line.what else {
                return Err(changed());
            };
            let keep = projector.project(*kind, namespace, key, |_| Ok::<_, Error>(true))?;
            let value = keep.and_then(|keep| keep.replacement()).ok_or_else(changed)?;
            let write = Write::SetValue { address: Address::new(namespace, key)?, value };
            Ok(write.to_jsonl(line.seq, Millis::EPOCH))
        })
    }
}

/// Hands over one write that survives.
fn emit(
    line: &Line<'_>,
    projector: &Projector,
    window: &mut Window,
    path: &Path,
    sink: &mut dyn FnMut(Row<'_>) -> Result<()>,
) -> Result<()> {
    let object = Span::from(line.span.clone());
    match &line.what {
        What::Entry { id, parent, entry_type, custom_type, timestamp } => {
            let head = EntryHead {
                id: EntryId::new(id)?,
                parent: parent.map(EntryId::new).transpose()?,
                entry_type: EntryType::new(entry_type)?,
                custom_type: custom_type.map(TypeName::new).transpose()?,
                seq: line.seq,
                timestamp: *timestamp,
            };
            let content = Content::Payload(&head.entry_type);
            let mut body = InFile { window, path, object, content };
            sink(Row::Entry { head: &head, body: &mut body })
        }
        What::Store { kind, namespace, key, value: Some(value) } => {
            let is_copied = |_: &str| Ok::<_, Error>(true);
            let keep = projector.project(*kind, namespace, key, is_copied)?;
            let keep = keep.ok_or_else(|| {
                lines::changed(path, object.offset, "a value has another address now")
            })?;
            let address = Address::new(namespace, key)?;
            if let Some(json) = keep.replacement() {
                return hand_over(*kind, &address, line.seq, &mut InMemory(json), sink);
            }
            let content = Content::Value(Span::from(value.span.clone()));
            let mut body = InFile { window, path, object, content };
            hand_over(*kind, &address, line.seq, &mut body, sink)
        }
        _ => Err(lines::changed(path, object.offset, "a write has become another one")),
    }
}

fn hand_over(
    kind: StoreKind,
    address: &Address,
    seq: Seq,
    body: &mut dyn Body,
    sink: &mut dyn FnMut(Row<'_>) -> Result<()>,
) -> Result<()> {
    match kind {
        StoreKind::Value => sink(Row::Value { address, seq, body }),
        StoreKind::List => sink(Row::Element { address, seq, body }),
    }
}

/// Content that is read when it is asked for.
struct InFile<'a> {
    window: &'a mut Window,
    path: &'a Path,
    object: Span,
    content: Content<'a>,
}

enum Content<'a> {
    /// The object without its envelope.
    Payload(&'a EntryType),
    /// A member of the object.
    Value(Span),
}

impl Body for InFile<'_> {
    fn json(&mut self) -> Result<Json> {
        let file = &**self.window.file();
        match &self.content {
            Content::Value(span) => read_json(file, self.path, *span),
            Content::Payload(entry_type) => {
                let text = read_text(file, self.path, self.object)?;
                payload(&text, entry_type)
                    .map_err(|reason| lines::changed(self.path, self.object.offset, &reason))
            }
        }
    }

    fn copy_jsonl(&mut self, out: &mut dyn io::Write) -> Option<Result<u64>> {
        let copied = self.window.copy(self.object, out);
        Some(copied.map(|()| self.object.len).map_err(|error| Error::io("copy", self.path, error)))
    }
}
