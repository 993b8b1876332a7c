//! What a salvage has to tell of a damaged file, in its report and in the destination.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use forkline_engines::jsonl::{SALVAGE_TYPE, SalvageReport};
use forkline_engines::{Environment, Error, JsonlRepo, RepoOptions, Result};
use forkline_model::json::quoted;
use forkline_model::{Entry, EntryId, EntryType, Json, LaneAudit, Millis, Seq, State, TypeName};

use super::legacy::words;
use crate::lineup::{CountingIds, FixedClock};
use crate::plain::repair::{Repaired, rebuilt};
use crate::plain_legacy::{Imported, Repair, What};

/// How many findings a report lists.
const FINDINGS_MAX: usize = 2048;

/// What a plain reader found in a damaged file.
#[derive(Debug, Clone)]
pub(super) struct Salvage {
    taken: u64,
    skipped: u64,
    /// How what is wrong is spelled, where both sides spell it alike.
    found: BTreeMap<(u64, Repair), Vec<String>>,
    /// How many ids the fork mints before the one of the entry that tells.
    minted: usize,
}

impl Salvage {
    pub(super) fn of_legacy(imported: &Imported) -> Self {
        let mut found: BTreeMap<_, Vec<String>> = BTreeMap::new();
        let mut taken = imported.records as u64;
        let mut skipped = 0;
        for damage in &imported.damage {
            // These records keep their place in the tree, and nothing else.
            let is_place =
                !matches!(damage.what, What::NotAnObject | What::BadId | What::RepeatedId);
            taken -= u64::from(damage.repair == Repair::Skip && is_place);
            skipped += u64::from(damage.repair == Repair::Skip);
            found.entry((damage.line, damage.repair)).or_default().push(words(&damage.what));
        }
        Self { taken, skipped, found, minted: imported.state.entries().len() }
    }

    pub(super) fn of_current(repaired: &Repaired) -> Self {
        let found = repaired.repairs.iter().map(|&repair| (repair, vec![String::new()]));
        let Repaired { taken, skipped, .. } = *repaired;
        Self { taken, skipped, found: found.collect(), minted: 0 }
    }

    /// Where an engine's report says something else, a line each.
    pub(super) fn differences(&self, report: &SalvageReport) -> Vec<String> {
        let mut lines = Vec::new();
        for (what, plain, engine) in
            [("taken", self.taken, report.taken), ("skipped", self.skipped, report.skipped)]
        {
            if plain != engine {
                lines.push(format!("plain: {plain} {what}, engine: {engine}"));
            }
        }
        let listed = self.found.len().min(FINDINGS_MAX);
        let is_more = self.found.len() > FINDINGS_MAX;
        if listed != report.findings.len() || is_more != (report.more > 0) {
            let (plain, engine) = (self.found.len(), report.findings.len());
            lines.push(format!("plain: {plain} findings, engine: {engine} and {}", report.more));
        }
        for (((line, repair), what), found) in self.found.iter().zip(&report.findings) {
            let is_said = what.iter().any(|what| found.what.starts_with(what));
            let repair = as_str(*repair);
            if (*line, repair) != (found.line, found.repair.as_str()) || !is_said {
                lines.push(format!("plain: line {line} {repair}: {what:?}, engine: {found:?}"));
            }
        }
        lines
    }

    /// A fork with the entry that tells of its salvage.
    pub(super) fn told(&self, fork: &State, report: &SalvageReport, now: Millis) -> State {
        if self.found.is_empty() {
            return fork.clone();
        }
        let mut findings = Vec::new();
        for found in &report.findings {
            let (line, repair, what) = (found.line, found.repair.as_str(), quoted(&found.what));
            findings.push(format!("{{\"line\":{line},\"repair\":\"{repair}\",\"what\":{what}}}"));
        }
        let mut payload = String::new();
        write!(
            payload,
            "{{\"data\":{{\"taken\":{},\"skipped\":{},\"findings\":[{}],\"more\":{}}}}}",
            report.taken,
            report.skipped,
            findings.join(","),
            report.more
        )
        .expect("writing to a String does not fail");
        let mut builder = rebuilt(fork, fork.next_seq() + 1);
        builder.entry(Entry {
            id: EntryId::new(format!("id-{}", self.minted)).expect("a valid id"),
            parent: None,
            entry_type: EntryType::Custom,
            custom_type: Some(TypeName::new(SALVAGE_TYPE).expect("a valid name")),
            payload: Json::parse(&payload).expect("it is written as JSON"),
            seq: Seq::new(fork.next_seq()).expect("a file has fewer writes"),
            timestamp: now,
        });
        builder.finish().expect("a session with one more root")
    }
}

fn as_str(repair: Repair) -> &'static str {
    match repair {
        Repair::Skip => "skipped",
        Repair::Split => "split",
        Repair::Reattach => "reattached",
        Repair::Unlink => "unlinked",
    }
}

/// A repository in a new folder, to salvage with: ids from `id-0`.
pub(super) fn reader(folder: &Path, now: Millis, lane_audit: LaneAudit) -> Result<JsonlRepo> {
    std::fs::create_dir_all(folder).map_err(|error| Error::io("create", folder, error))?;
    let options = RepoOptions {
        environment: Environment {
            clock: Arc::new(FixedClock(now)),
            ids: Arc::new(CountingIds::default()),
        },
        lane_audit,
        ..RepoOptions::default()
    };
    JsonlRepo::with(folder, options)
}
