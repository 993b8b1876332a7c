//! A closed legacy file as the source of a fork (formats §2; contract §3).

use std::path::PathBuf;
use std::sync::PoisonError;

use forkline_model::{
    Address, BranchName, EntryHead, EntryId, Error as ModelError, ForkOptions, LaneAudit, Metadata,
    Position, Scope, Seq, Usage, policy,
};

use super::super::salvage::ReportSlot;
use super::super::storage::Span;
use super::content::{self, Bytes, Piece, Pieces};
use super::file::LegacyFile;
use super::finding::{Mode, SalvageReport};
use super::reader::{self, Lines};
use super::record::{
    ACTIVE_TOOL_NAMES, LABEL, MODEL_ID, NAME, PROVIDER, SHAPE, THINKING_LEVEL, has_text,
};
use super::resolve::{self, Tree, read_label};
use super::row::Kind;
use super::usage;
use super::writer::{EntryBody, ValueBody, Writer};
use crate::context::{Context, Progress};
use crate::error::Result;
use crate::fork::{Plan, Row, Source};
use crate::repo::Environment;

/// The only branch of an imported session.
const MAIN: &str = "main";

/// How many rows are copied between two looks at the context.
const ROWS_PER_CHECK: u32 = 256;

/// The first `len` bytes of a legacy file, all whole lines.
pub(in super::super) struct LegacySource {
    file: LegacyFile,
    path: PathBuf,
    len: u64,
    scratch: PathBuf,
    environment: Environment,
    mode: Mode,
    report: ReportSlot,
    selection: Option<Selection>,
}

/// What a plan selected.
struct Selection {
    writer: Writer,
    scope: Scope,
    /// The seq of the tip, 0 for null.
    tip: u32,
    /// The lane's configuration, if there is one.
    config: Option<Pieces>,
    name: Option<Span>,
}

impl LegacySource {
    pub(in super::super) fn new(
        file: LegacyFile,
        path: PathBuf,
        len: u64,
        scratch: PathBuf,
        environment: Environment,
    ) -> Self {
        let report = ReportSlot::default();
        let (mode, selection) = (Mode::Refuse, None);
        Self { file, path, len, scratch, environment, mode, report, selection }
    }

    /// The same file with its damage repaired; the report goes to the slot.
    pub(in super::super) fn salvaging(self, report: ReportSlot) -> Self {
        Self { mode: Mode::Salvage, report, ..self }
    }

    /// Reads the file into an index.
    fn read(
        &self,
        options: &ForkOptions,
        cx: &Context,
    ) -> Result<(Tree, Option<u32>, SalvageReport)> {
        let wanted = match &options.scope {
            Scope::Branch { entry, .. } => entry.as_ref().map(EntryId::as_str),
            Scope::Tree => None,
        };
        let lines = Lines {
            file: &self.file.handle,
            path: &self.path,
            range: self.file.header.end..self.len,
            version: self.file.header.version,
            scratch: &self.scratch,
        };
        let read = reader::read(&lines, self.mode, wanted, cx)?;
        let wanted = read.wanted;
        let (mut tree, findings) = resolve::resolve(&lines, read, &*self.environment.ids, cx)?;
        findings.require_none(&self.path)?;
        let records = u64::from(tree.rows.len());
        let passed = match self.mode {
            Mode::Refuse => 0,
            Mode::Salvage => passed_over(&mut tree)?,
        };
        let report = findings.into_report(records - passed, passed);
        Ok((tree, wanted, report))
    }

    /// The usage that the records carry. Called after `plan`, before `stream`.
    ///
    /// # Errors
    /// *Corrupt source* for usage that cannot be summed, I/O.
    pub(super) fn imported_usage(&mut self) -> Result<Usage> {
        let selection = self.selection.as_mut().expect("a source is planned first");
        usage::imported(&selection.writer.bytes, &mut selection.writer.tree)
    }

    fn bytes(&self) -> Bytes {
        let version = self.file.header.version;
        Bytes { file: self.file.handle.clone(), path: self.path.clone(), version }
    }

    /// The configuration of `main`, if its path has a model and a thinking level. The nearest
    /// record of each kind counts, whatever it holds.
    fn config(&self, tree: &mut Tree, bytes: &Bytes) -> Result<Option<Pieces>> {
        let (mut model, mut thinking, mut tools) = (None, None, None);
        let mut next = tree.last;
        while let Some(index) = next {
            let row = tree.row(index)?;
            let slot = match row.kind {
                Kind::Model => Some(&mut model),
                Kind::Thinking => Some(&mut thinking),
                Kind::Tools => Some(&mut tools),
                _ => None,
            };
            if let Some(slot) = slot {
                slot.get_or_insert(row.span);
            }
            next = row.parent.index();
        }
        let copied = |span, members: &[(&str, usize)]| {
            bytes.object(span, &SHAPE, |object| {
                let mut pieces = Pieces::default();
                for (name, index) in members {
                    pieces.copied(name, object, *index);
                }
                pieces
            })
        };
        let initial = &self.file.header.initial;
        let model = match (model, &initial.model) {
            (Some(span), _) => copied(span, &[("provider", PROVIDER), ("modelId", MODEL_ID)])?,
            (None, Some((provider, model_id))) => {
                Pieces::of(format!("\"provider\":{provider},\"modelId\":{model_id}"))
            }
            (None, None) => return Ok(None),
        };
        let thinking = match (thinking, &initial.thinking_level) {
            (Some(span), _) => copied(span, &[("thinkingLevel", THINKING_LEVEL)])?,
            (None, Some(level)) => Pieces::of(format!("\"thinkingLevel\":{level}")),
            (None, None) => return Ok(None),
        };
        let tools = match tools {
            Some(span) => copied(span, &[("activeToolNames", ACTIVE_TOOL_NAMES)])?,
            None => Pieces::default(),
        };
        let mut config = Pieces::of("{");
        config.member("model", model.into_object());
        config.members(thinking);
        let no_tools = || Pieces::of("\"activeToolNames\":[]");
        config.members(if tools.0.is_empty() { no_tools() } else { tools });
        config.0.push(Piece::Text("}".to_owned()));
        Ok(Some(config))
    }
}

/// How many records are no more than the place of a damaged one.
fn passed_over(tree: &mut Tree) -> Result<u64> {
    let mut passed = 0;
    for index in 0..tree.rows.len() {
        passed += u64::from(matches!(tree.row(index)?.kind, Kind::Place | Kind::Repeated));
    }
    Ok(passed)
}

/// Contract §3.1: checks the lane and marks the path of a branch fork. Tells the seq of the
/// selected tip, 0 for null.
fn select(
    tree: &mut Tree,
    branch: &BranchName,
    named: (Option<&EntryId>, Option<u32>),
    position: Position,
    is_lane: bool,
) -> Result<u32> {
    if branch.as_str() != MAIN {
        return Err(ModelError::UnknownBranch { branch: branch.clone() }.into());
    }
    if !is_lane {
        return Err(ModelError::NotALane { branch: branch.clone() }.into());
    }
    let mut next = tree.last;
    let (mut tip, mut is_found) = (0, named.0.is_none());
    let mut is_before = position == Position::Before;
    while let Some(index) = next {
        let mut row = tree.row(index)?;
        next = row.parent.index();
        if !row.kind.is_entry() {
            continue;
        }
        is_found |= named.1 == Some(index);
        if !is_found {
            continue;
        }
        if std::mem::take(&mut is_before) {
            continue;
        }
        tip = tip.max(row.entry);
        row.is_selected = true;
        tree.set_row(index, row)?;
    }
    match (is_found, named.0) {
        (false, Some(entry)) => {
            let (branch, entry) = (branch.clone(), entry.clone());
            Err(ModelError::EntryNotOnBranch { branch, entry }.into())
        }
        _ => Ok(tip),
    }
}

impl Source for LegacySource {
    fn metadata(&self) -> &Metadata {
        &self.file.metadata
    }

    fn plan(&mut self, options: &ForkOptions, _audit: LaneAudit, cx: &Context) -> Result<Plan> {
        // An import has one branch, and it is sound: a strict audit finds nothing.
        let (mut tree, wanted, report) = self.read(options, cx)?;
        let bytes = self.bytes();
        let config = self.config(&mut tree, &bytes)?;
        let tip = match &options.scope {
            Scope::Tree => match tree.last {
                Some(last) => tree.row(last)?.entry,
                None => 0,
            },
            Scope::Branch { branch, entry, position } => {
                let named = (entry.as_ref(), wanted);
                select(&mut tree, branch, named, *position, config.is_some())?
            }
        };
        let name = match tree.info {
            None => None,
            Some(info) => bytes.object(tree.row(info)?.span, &SHAPE, |object| {
                object.member(NAME).filter(has_text).map(|name| Span::from(name.span))
            })?,
        };
        let values = u64::from(name.is_some()) + tree.labels.remaining() + 1;
        let lane = if config.is_some() { 2 } else { 0 };
        let next_seq = u64::from(tree.entries) + values + lane + 1;
        let scope = options.scope.clone();
        let writer = Writer::new(bytes, tree);
        self.selection = Some(Selection { writer, scope, tip, config, name });
        *self.report.lock().unwrap_or_else(PoisonError::into_inner) = report;
        Ok(Plan { next_seq })
    }

    fn stream(&mut self, sink: &mut dyn FnMut(Row<'_>) -> Result<()>, cx: &Context) -> Result<()> {
        let mut selection =
            self.selection.take().expect("a source is planned once before it streams");
        selection.entries(sink, self.len, cx)?;
        selection.values(sink)
    }
}

impl Selection {
    fn is_tree(&self) -> bool {
        matches!(self.scope, Scope::Tree)
    }

    fn entries(
        &mut self,
        sink: &mut dyn FnMut(Row<'_>) -> Result<()>,
        len: u64,
        cx: &Context,
    ) -> Result<()> {
        for index in 0..self.writer.tree.rows.len() {
            let row = self.writer.tree.row(index)?;
            if index.is_multiple_of(ROWS_PER_CHECK) {
                let bytes_done = len + row.span.offset;
                let rows_done = u64::from(row.entry);
                cx.progress(Progress { bytes_done, bytes_total: 2 * len, rows_done })?;
            }
            if !row.kind.is_entry() || !(self.is_tree() || row.is_selected) {
                continue;
            }
            let tree = &mut self.writer.tree;
            let parent = match row.parent.index() {
                Some(parent) => tree.row(parent)?.entry,
                None => 0,
            };
            let id = tree.id(row.entry)?.expect("an entry has a seq");
            let parent = tree.id(parent)?;
            let (entry_type, custom_type, payload) =
                content::entry(&self.writer.bytes, tree, index, &row)?;
            let head = EntryHead {
                id,
                parent,
                entry_type,
                custom_type,
                seq: Seq::new(u64::from(row.entry))?,
                timestamp: row.ms,
            };
            let mut body = EntryBody { writer: &mut self.writer, head: &head, payload };
            sink(Row::Entry { head: &head, body: &mut body })?;
        }
        Ok(())
    }

    /// Name, labels, tip, configuration and state.
    fn values(&mut self, sink: &mut dyn FnMut(Row<'_>) -> Result<()>) -> Result<()> {
        let mut seq = u64::from(self.writer.tree.entries);
        if let Some(name) = self.name {
            seq += 1;
            self.value(&policy::name_address(), seq, content::span(name), sink)?;
        }
        loop {
            let label = self.writer.tree.labels.next().transpose();
            let scratch = &self.writer.tree.scratch;
            let label = label.map_err(|error| super::super::index::spill_error(scratch, error))?;
            let Some((target, record)) = label.map(read_label) else { break };
            seq += 1;
            if self.is_copied(target)? {
                let id = self.writer.tree.id(target)?.expect("a label's target has a seq");
                let span = self.writer.tree.row(record)?.span;
                let text = self.writer.bytes.object(span, &SHAPE, |object| {
                    object.member(LABEL).map(|label| Span::from(label.span))
                })?;
                let text = text.map_or_else(|| Pieces::of("null"), content::span);
                self.value(&policy::label_address(&id), seq, text, sink)?;
            }
        }
        let main = BranchName::new(MAIN)?;
        let tip = content::or_null(self.writer.tree.id(self.tip)?.as_ref());
        self.value(&policy::tip_address(&main), seq + 1, Pieces::of(tip), sink)?;
        if let Some(config) = self.config.take() {
            self.value(&policy::config_address(&main), seq + 2, config, sink)?;
            let state = Pieces::of(policy::IDLE_STATE);
            self.value(&policy::state_address(&main), seq + 3, state, sink)?;
        }
        Ok(())
    }

    fn value(
        &mut self,
        address: &Address,
        seq: u64,
        value: Pieces,
        sink: &mut dyn FnMut(Row<'_>) -> Result<()>,
    ) -> Result<()> {
        let seq = Seq::new(seq)?;
        let mut body = ValueBody { writer: &mut self.writer, address, seq, value };
        sink(Row::Value { address, seq, body: &mut body })
    }

    /// Whether the entry with a seq is in the destination.
    fn is_copied(&mut self, seq: u32) -> Result<bool> {
        if self.is_tree() {
            return Ok(true);
        }
        let record = self.writer.tree.record_of_entry(seq)?;
        Ok(self.writer.tree.row(record)?.is_selected)
    }
}
