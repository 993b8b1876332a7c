//! What a run says: to people, as JSON, as `JUnit` XML.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::coverage::{Bucket, Tally};
use super::run::Outcome;
use crate::driver::Feature;

/// A run as it is reported.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// What was run: `gate` or `exhaustive`.
    pub name: &'static str,
    /// The seed, if there was one.
    pub seed: Option<u64>,
    /// The engines.
    pub engines: Vec<String>,
    /// How long it took.
    pub seconds: f64,
    /// Counts.
    pub tally: Tally,
    /// Whether the floors of the coverage table hold for this run.
    pub has_floors: bool,
    /// Buckets below their floors.
    pub missed: Vec<&'static str>,
    /// The failure, and the command that replays it.
    pub failure: Option<Reported>,
}

/// A failure as it is reported.
#[derive(Debug, Clone, Serialize)]
pub struct Reported {
    /// Which case.
    pub case: u64,
    /// Which oracle.
    pub oracle: &'static str,
    /// Step, engine, operation and difference.
    pub what: String,
    /// How many operations the sequence has now, and had when it was found.
    pub operations: (usize, usize),
    /// The command that runs it again.
    pub command: String,
}

impl Report {
    /// Of an outcome; `command` replays its failure.
    pub fn new(
        name: &'static str,
        seed: Option<u64>,
        engines: Vec<String>,
        outcome: &Outcome,
        command: Option<String>,
    ) -> Self {
        let failure = outcome.failure.as_ref().map(|failure| Reported {
            case: failure.case,
            oracle: failure.violation.oracle.name(),
            what: failure.violation.to_string(),
            operations: (failure.trace.ops.len(), failure.found_ops),
            command: command.unwrap_or_default(),
        });
        // Every tree is a case of its own: there is nothing left to chance, and no floor. Nor is
        // there one where operations were left out that an engine does not have, but for those on
        // legacy files, which have floors of their own.
        let is_missing = outcome.tally.left_out.keys().any(|it| *it != Feature::Legacy);
        let has_floors = seed.is_some() && failure.is_none() && !is_missing;
        let missed = if has_floors { outcome.tally.missed() } else { Vec::new() };
        Self {
            name,
            seed,
            engines,
            seconds: outcome.elapsed.as_secs_f64(),
            tally: outcome.tally.clone(),
            has_floors,
            missed: missed.into_iter().map(Bucket::name).collect(),
            failure,
        }
    }

    /// Whether nothing differed and everything was reached.
    pub fn holds(&self) -> bool {
        self.failure.is_none() && self.missed.is_empty()
    }

    /// For people. The last line counts.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let tally = &self.tally;
        let seed = self.seed.map_or_else(String::new, |seed| format!(", seed {seed}"));
        let rate = rate(tally.cases, self.seconds);
        let mut line = |line: String| {
            text.push_str(&line);
            text.push('\n');
        };
        line(format!(
            "{}: {} sequences, {} operations and {} to examine{seed}, {:.1} s ({rate:.0} a second)",
            self.name,
            tally.cases,
            tally.operation_count(),
            tally.examinations,
            self.seconds,
        ));
        line(format!("engines: {}", self.engines.join(", ")));
        line(String::new());
        line(counts("operations", tally.operations.iter().map(|(name, count)| (*name, *count))));
        line(counts("forks made", tally.forks.iter().map(|(name, count)| (*name, *count))));
        line(counts("from > into", tally.pairs.iter().map(|(name, n)| (name.as_str(), *n))));
        line(counts("refused", tally.refusals.iter().map(|(name, n)| (name.as_str(), *n))));
        for (feature, count) in &tally.left_out {
            line(format!("left out: {count} operations that need {feature:?}"));
        }
        if self.has_floors {
            line(self.coverage());
        }
        if let Some(failure) = &self.failure {
            let (now, then) = failure.operations;
            line(format!("\ncase {}: {}", failure.case, failure.what));
            line(format!("made small: {now} operations of {then}"));
            line(format!("again: {}", failure.command));
        }
        let failed = self.missed.len() + usize::from(self.failure.is_some());
        line(format!("{} passed, {failed} failed", tally.cases));
        text
    }

    fn coverage(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["reached in", "of at least", "what"]);
        for &bucket in Bucket::ALL {
            let floor = self.tally.floor(bucket);
            let shown = floor.map_or_else(|| "-".to_owned(), |floor| floor.to_string());
            let missed = if self.missed.contains(&bucket.name()) { "   MISSED" } else { "" };
            table.add_row([
                self.tally.reached(bucket).to_string(),
                shown,
                format!("{}{missed}", bucket.name()),
            ]);
        }
        for column in 0..=1 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let mut text = table.to_string();
        if Bucket::ALL.iter().any(|bucket| self.tally.floor(*bucket).is_none()) {
            text.push_str("\n-: too few sequences to expect it");
        }
        text
    }

    /// Runs as one document for a CI system.
    pub fn junit(reports: &[Self]) -> String {
        let suites: String = reports.iter().map(Self::suite).collect();
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n{suites}</testsuites>\n")
    }

    fn suite(&self) -> String {
        let mut cases = String::new();
        let failure = self
            .failure
            .as_ref()
            .map(|failure| format!("{}\nagain: {}", failure.what, failure.command));
        let name = self.seed.map_or_else(
            || self.name.to_owned(),
            |seed| format!("{} sequences, seed {seed}", self.tally.cases),
        );
        test_case(&mut cases, self.name, &name, self.seconds, failure.as_deref());
        if self.has_floors {
            for bucket in Bucket::ALL.iter().filter(|bucket| self.tally.floor(**bucket).is_some()) {
                let reached = self.tally.reached(*bucket);
                let is_missed = self.missed.contains(&bucket.name());
                let why = is_missed.then(|| format!("reached in {reached} sequences only"));
                test_case(&mut cases, "coverage", bucket.name(), 0.0, why.as_deref());
            }
        }
        let tests = cases.matches("<testcase ").count();
        let failures = cases.matches("<failure ").count();
        format!(
            "<testsuite name=\"forkline {}\" tests=\"{tests}\" failures=\"{failures}\" \
             time=\"{:.3}\">\n{cases}</testsuite>\n",
            self.name, self.seconds
        )
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn rate(cases: u64, seconds: f64) -> f64 {
    cases as f64 / seconds.max(0.001)
}

/// Names with their counts, the highest first.
fn counts<'a>(title: &str, counts: impl Iterator<Item = (&'a str, u64)>) -> String {
    let mut counts: Vec<(&str, u64)> = counts.collect();
    counts.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    let texts: Vec<String> =
        counts.into_iter().map(|(name, count)| format!("{name} {count}")).collect();
    format!("{title}: {}", texts.join(", "))
}

fn test_case(out: &mut String, class: &str, name: &str, seconds: f64, failure: Option<&str>) {
    let (class, name) = (escaped(class), escaped(name));
    write!(out, "<testcase classname=\"{class}\" name=\"{name}\" time=\"{seconds:.3}\"")
        .expect("writing to a String does not fail");
    match failure {
        None => out.push_str("/>\n"),
        Some(text) => {
            let text = escaped(text);
            let message = text.lines().next().unwrap_or_default();
            writeln!(out, "><failure message=\"{message}\">{text}</failure></testcase>")
                .expect("writing to a String does not fail");
        }
    }
}

/// Text inside XML; control characters that XML does not have are shown by their escapes.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(char),
            char if char.is_control() || matches!(char, '\u{fffe}' | '\u{ffff}') => {
                out.extend(char.escape_unicode());
            }
            char => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn xml_has_no_raw_markup_and_no_control_characters() {
        assert_eq!(escaped("<a b=\"&\">\u{1}\n"), "&lt;a b=&quot;&amp;&quot;&gt;\\u{1}\n");
    }
}
