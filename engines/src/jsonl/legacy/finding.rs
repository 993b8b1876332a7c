//! What is wrong with a file, line by line: refused in one report, or repaired by a salvage.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::path::Path;

use forkline_model::address::shortened;
use forkline_model::json::quoted;

use crate::error::{Error, Place};

/// How many damaged lines a refusal names; the others are counted.
const REFUSAL_LINES_MAX: usize = 20;

/// How many findings a salvage lists; the others are counted. A thousandth of the heap that a
/// fork may have is far more than a person reads.
const SALVAGE_FINDINGS_MAX: usize = 2048;

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum What {
    /// It is not one JSON object; says why.
    NotAnObject(String),
    /// Its type is not one that the import knows.
    UnsupportedType(String),
    /// Its id is missing or no text.
    BadId,
    /// It becomes an entry and its timestamp is no time.
    BadTimestamp,
    /// It is a custom record and its `customType` is no text.
    BadCustomType,
    /// An earlier record has its id.
    RepeatedId,
    /// Its parent is no earlier record.
    MissingParent,
    /// It names a record that is not there.
    UnknownReference,
    /// What a compaction keeps does not begin on its own path.
    TailNotOnPath,
    /// Anything else; format 4 has its own words.
    Other(String),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnObject(why) => write!(f, "no JSON object: {why}"),
            Self::UnsupportedType(found) => {
                write!(f, "unsupported legacy record type {}", shortened(found))
            }
            Self::BadId => f.write_str("id is missing or no text"),
            Self::BadTimestamp => f.write_str("timestamp is missing or no time"),
            Self::BadCustomType => f.write_str("customType is no text"),
            Self::RepeatedId => f.write_str("repeated id"),
            Self::MissingParent => f.write_str("parent is no earlier record"),
            Self::UnknownReference => f.write_str("names a record that is not there"),
            Self::TailNotOnPath => {
                f.write_str("the first kept record is not on the compaction's path")
            }
            Self::Other(what) => f.write_str(what),
        }
    }
}

/// What a salvage does about damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Repair {
    /// The line or record is left out. What hangs on it keeps its place where that is readable.
    Skipped,
    /// The whole objects of one line are taken as so many records.
    Split,
    /// The record hangs on the nearest earlier one instead of a parent that is not there.
    Reattached,
    /// A reference to what is not there is null, or a retained tail empty.
    Unlinked,
}

impl Repair {
    /// The name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Skipped => "skipped",
            Self::Split => "split",
            Self::Reattached => "reattached",
            Self::Unlinked => "unlinked",
        }
    }
}

/// One finding of a salvage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The line, from 1.
    pub line: u64,
    /// What was wrong, as a refusal says it.
    pub what: String,
    /// What was done.
    pub repair: Repair,
}

/// What a salvage skipped, split and re-attached.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SalvageReport {
    /// How many whole records (of format 4: writes) are in the result.
    pub taken: u64,
    /// How many are left out. Of a line that is no JSON nobody can tell: it counts as one.
    pub skipped: u64,
    /// The findings of the lowest lines, in the order of the file.
    pub findings: Vec<Finding>,
    /// How many there are beyond these.
    pub more: u64,
}

impl SalvageReport {
    /// Whether the file was sound.
    pub fn is_empty(&self) -> bool {
        self.findings.is_empty()
    }

    /// The data of the `forkline.salvage` entry.
    pub(in super::super) fn to_json(&self) -> String {
        let (taken, skipped) = (self.taken, self.skipped);
        let mut text = format!("{{\"taken\":{taken},\"skipped\":{skipped},\"findings\":[");
        for (index, finding) in self.findings.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(
                text,
                "{comma}{{\"line\":{},\"repair\":\"{}\",\"what\":{}}}",
                finding.line,
                finding.repair.as_str(),
                quoted(&finding.what)
            )
            .expect("writing to a String does not fail");
        }
        write!(text, "],\"more\":{}}}", self.more).expect("writing to a String does not fail");
        text
    }
}

/// What becomes of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Mode {
    /// It refuses the file.
    Refuse,
    /// It is repaired and reported.
    Salvage,
}

/// Collects damage of one file; holds the lowest lines only.
#[derive(Debug)]
pub(in super::super) struct Findings {
    mode: Mode,
    kept: BTreeMap<(u64, Repair), What>,
    more: u64,
    /// Records that are not even rows.
    lost: u64,
}

impl Findings {
    pub(in super::super) fn new(mode: Mode) -> Self {
        Self { mode, kept: BTreeMap::new(), more: 0, lost: 0 }
    }

    fn kept_max(&self) -> usize {
        match self.mode {
            Mode::Refuse => REFUSAL_LINES_MAX,
            Mode::Salvage => SALVAGE_FINDINGS_MAX,
        }
    }

    pub(in super::super) fn add(&mut self, line: u64, what: What, repair: Repair) {
        if let Some(kept) = self.kept.get_mut(&(line, repair)) {
            // It is found last, and is why the record is not looked at.
            if what == What::RepeatedId {
                *kept = what;
            }
            return;
        }
        self.kept.insert((line, repair), what);
        if self.kept.len() > self.kept_max() {
            self.kept.pop_last();
            self.more += 1;
        }
    }

    /// The same where records are left out of which nothing stays.
    pub(in super::super) fn lose(&mut self, line: u64, what: What, records: u64) {
        self.add(line, what, Repair::Skipped);
        self.lost += records;
    }

    /// Refuses a damaged file, naming all its damaged lines.
    ///
    /// # Errors
    /// *Corrupt source*.
    pub(in super::super) fn require_none(&self, path: &Path) -> Result<(), Error> {
        let Some(((first, _), what)) = self.kept.first_key_value() else { return Ok(()) };
        if self.mode == Mode::Salvage {
            return Ok(());
        }
        let mut reason = what.to_string();
        for ((line, _), what) in self.kept.iter().skip(1) {
            write!(reason, "; line {line}: {what}").expect("writing to a String does not fail");
        }
        if self.more > 0 {
            write!(reason, "; and {} more", self.more).expect("writing to a String does not fail");
        }
        Err(Error::corrupt(Place::line(path, *first), reason))
    }

    /// The report of a salvage that took some records, and passed over some beside those that
    /// were [lost](Self::lose).
    pub(in super::super) fn into_report(self, taken: u64, passed: u64) -> SalvageReport {
        let skipped = self.lost + passed;
        let findings = self.kept.into_iter().map(|((line, repair), what)| Finding {
            line,
            what: what.to_string(),
            repair,
        });
        SalvageReport { taken, skipped, findings: findings.collect(), more: self.more }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_id_says_more_than_what_else_is_wrong_with_its_record() {
        let mut findings = Findings::new(Mode::Salvage);
        findings.add(2, What::BadTimestamp, Repair::Skipped);
        findings.add(2, What::RepeatedId, Repair::Skipped);
        findings.lose(3, What::BadId, 1);
        let report = findings.into_report(5, 1);
        assert_eq!((report.taken, report.skipped), (5, 2));
        let said: Vec<&str> = report.findings.iter().map(|found| &*found.what).collect();
        assert_eq!(said, ["repeated id", "id is missing or no text"]);
    }

    #[test]
    fn a_refusal_names_the_first_twenty_lines_and_counts_the_rest() {
        let mut findings = Findings::new(Mode::Refuse);
        assert!(findings.require_none(Path::new("f")).is_ok());
        for line in (2..=30).rev() {
            findings.add(line, What::BadId, Repair::Skipped);
        }
        let text = findings.require_none(Path::new("f")).unwrap_err().to_string();
        assert!(text.starts_with("corrupt source f, line 2: id is missing"), "{text}");
        assert!(text.contains("; line 21: ") && !text.contains("line 22"), "{text}");
        assert!(text.ends_with("; and 9 more"), "{text}");
    }
}
