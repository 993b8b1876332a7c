//! Forks of damaged files, for who asks for them: every whole readable record is taken, and the
//! destination says what was not.
//!
//! The default is to refuse (contract §3.6). A salvage never writes to its source either. What
//! it did is in its answer and in a custom entry at the end of the destination, a root of its
//! own: on no branch, so that no conversation changes by it.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use forkline_model::address::SEQ_MAX;
use forkline_model::{
    EntryHead, EntryId, EntryType, ForkOptions, Json, LaneAudit, Metadata, Seq, TypeName,
};

use super::file::{Access, Stored};
use super::legacy::{LegacySource, SalvageReport};
use super::repair::repair;
use super::repo::{JsonlRepo, path_of};
use super::source::JsonlSource;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::fork::{self, Body, Forked, Plan, Row, Source};
use crate::fs::FileHandle;
use crate::repo::{Environment, Repo, SessionRef};

/// The custom type of the entry that tells of a salvage.
pub const SALVAGE_TYPE: &str = "forkline.salvage";

/// Where a source leaves its report.
pub(super) type ReportSlot = Arc<Mutex<SalvageReport>>;

/// A fork of a damaged file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Salvaged {
    /// The fork.
    pub forked: Forked,
    /// What was skipped, split, re-attached and unlinked. Empty for a sound file, whose fork is
    /// then the same as without a salvage.
    pub report: SalvageReport,
}

impl JsonlRepo {
    /// Forks a stored session of this repository with its damage repaired, into any repository.
    ///
    /// Whole objects that share a line are split. A line that is neither one nor several
    /// objects, a record that cannot be read and one that repeats an id are left out; of format
    /// 4 the seqs of a lost line stay unused. A record whose parent is not there hangs on the
    /// nearest earlier one, a reference to nothing is null.
    ///
    /// # Errors
    /// Those of [`Repo::fork_closed`], but *corrupt source* for an unreadable header only.
    pub fn salvage(
        &self,
        source: &SessionRef,
        into: &dyn Repo,
        options: &ForkOptions,
        cx: &Context,
    ) -> Result<Salvaged> {
        let report = ReportSlot::default();
        let capture = |cx: &Context| self.capture_damaged(source, &report, cx);
        let (forked, _) = fork::run(into, options, capture, cx)?;
        let report = report.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(Salvaged { forked, report })
    }

    fn capture_damaged(
        &self,
        at: &SessionRef,
        report: &ReportSlot,
        cx: &Context,
    ) -> Result<Box<dyn Source>> {
        let path = path_of(at)?;
        let scratch = self.core().scratch();
        let environment = self.core().environment().clone();
        let source: Box<dyn Source> =
            match Stored::open(self.file_system(), path, &at.metadata, Access::Read)? {
                Stored::Current(file) => {
                    let len = file.whole_lines(path, len_of(&*file.handle, path)?)?;
                    let (repaired, found) = repair(&file, path, len, &scratch, cx)?;
                    *report.lock().unwrap_or_else(PoisonError::into_inner) = found;
                    let len = len_of(&*repaired.handle, path)?;
                    Box::new(JsonlSource::new(repaired, path.to_owned(), len, scratch))
                }
                Stored::Legacy(file) => {
                    let len = file.whole_lines(path, len_of(&*file.handle, path)?)?;
                    let path = path.to_owned();
                    let environment = environment.clone();
                    let source = LegacySource::new(file, path, len, scratch, environment);
                    Box::new(source.salvaging(report.clone()))
                }
            };
        Ok(Box::new(Told { source, report: report.clone(), environment, seq: 0 }))
    }
}

fn len_of(file: &dyn FileHandle, path: &Path) -> Result<u64> {
    Ok(file.stat().map_err(|error| Error::io("look at", path, error))?.len)
}

/// A source with one more entry, which tells what was repaired.
struct Told {
    source: Box<dyn Source>,
    report: ReportSlot,
    environment: Environment,
    seq: u64,
}

impl Told {
    fn report(&self) -> SalvageReport {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Source for Told {
    fn metadata(&self) -> &Metadata {
        self.source.metadata()
    }

    fn plan(&mut self, options: &ForkOptions, audit: LaneAudit, cx: &Context) -> Result<Plan> {
        let plan = self.source.plan(options, audit, cx)?;
        if self.report().is_empty() {
            return Ok(plan);
        }
        self.seq = plan.next_seq;
        let next_seq = plan.next_seq + 1;
        if next_seq > SEQ_MAX {
            return Err(forkline_model::Error::SeqExhausted { next_seq }.into());
        }
        Ok(Plan { next_seq })
    }

    fn stream(&mut self, sink: &mut dyn FnMut(Row<'_>) -> Result<()>, cx: &Context) -> Result<()> {
        self.source.stream(sink, cx)?;
        let report = self.report();
        if report.is_empty() {
            return Ok(());
        }
        let timestamp = self.environment.clock.now();
        let head = EntryHead {
            id: EntryId::new(self.environment.ids.next(Some(timestamp)))?,
            parent: None,
            entry_type: EntryType::Custom,
            custom_type: Some(TypeName::new(SALVAGE_TYPE)?),
            seq: Seq::new(self.seq)?,
            timestamp,
        };
        let payload = Json::parse(&format!("{{\"data\":{}}}", report.to_json()));
        let mut body = Report(payload.expect("a report is written as JSON"));
        sink(Row::Entry { head: &head, body: &mut body })
    }
}

/// The payload of the entry.
struct Report(Json);

impl Body for Report {
    fn json(&mut self) -> Result<Json> {
        Ok(self.0.clone())
    }

    fn copy_jsonl(&mut self, _out: &mut dyn std::io::Write) -> Option<Result<u64>> {
        None
    }
}
