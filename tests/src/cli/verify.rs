//! `forkline verify`.

use std::path::{Path, PathBuf};

use clap::Args;
use forkline_model::LaneAudit;
use indicatif::ProgressBar;
use serde::Serialize;

use super::{HOLDS, VIOLATION, progress, table, trouble};
use crate::lineup::{EngineKind, Ours};
use crate::verify::{Options, Row, SourceFile, Summary, Watch};

const EXAMPLES: &str = "\
Examples:
  forkline verify ~/.pi/agent/sessions
      every session below a folder, whatever its format
  forkline verify a.jsonl container.sqlite
      these files
  forkline verify --engines jsonl,sqlite --json sessions
      forks into two engines only, a JSON object per session on stdout
  forkline verify --salvage broken.jsonl
      what is readable of a damaged file: how much, what was done about the rest, and that it holds

What it does: forks every session in every legal way (the tree; each complete lane at its tip,
before its tip, at and before a mid entry and its root), from its own engine into every engine
and between all pairs of them, and holds each result against the reference model, on the disk
and through the engine. What the contract refuses has to be refused alike.

Sources are only read, and proven unchanged: bytes, length, time, mode, folder listing. All work
goes to one temporary folder (TMPDIR). The model keeps a whole session in memory, some copies of
it at a time: expect several times the size of the largest file, and of some small ones that
are verified side by side.

Exit status: 0 all holds, 1 a difference or a corrupt file, 2 wrong call or I/O error.";

/// Fork real sessions in every way, through every engine, and hold each fork against the model
#[derive(Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct Arguments {
    /// Session files, SQLite containers, or folders that hold some
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Engines to fork into
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "LIST",
        default_value = "memory,jsonl,sqlite,sqlite-shared"
    )]
    engines: Vec<EngineKind>,
    /// Only the fork of this label, as a difference names it
    #[arg(long, value_name = "LABEL")]
    only: Option<String>,
    /// Only the session of this id
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Let a partial lane or a tip without entry reject a tree fork (contract 3.5)
    #[arg(long)]
    strict: bool,
    /// Fork what is readable of damaged JSONL files, and hold that
    #[arg(long)]
    salvage: bool,
    /// One JSON object per line: sessions, then a summary
    #[arg(long)]
    json: bool,
    /// Nothing but what is wrong, and the summary
    #[arg(long, conflicts_with = "json")]
    quiet: bool,
}

pub(super) fn run(arguments: &Arguments) -> u8 {
    let options = Options {
        paths: arguments.paths.clone(),
        engines: arguments.engines.clone(),
        lane_audit: if arguments.strict { LaneAudit::Strict } else { LaneAudit::Selected },
        only: arguments.only.clone(),
        session: arguments.session.clone(),
        salvage: arguments.salvage,
    };
    let bar = progress::bar(0, "{bar:30} {bytes}/{total_bytes} {wide_msg}");
    let mut watch = Screen { bar, json: arguments.json, rows: Vec::new(), sizes: Vec::new() };
    let summary = crate::verify::run(&options, &Ours, &mut watch);
    watch.bar.finish_and_clear();
    match summary {
        Ok(summary) => {
            watch.print(&summary, arguments.quiet);
            match summary {
                summary if !summary.holds() => VIOLATION,
                Summary { sessions: 0, .. } => trouble("no session was verified", ""),
                _ => HOLDS,
            }
        }
        Err(problem) => trouble(problem, "forkline verify --help shows examples"),
    }
}

/// Shows a run: a bar while it goes on; with `--json` each row at once, else a table at the end.
struct Screen {
    bar: ProgressBar,
    json: bool,
    rows: Vec<Row>,
    /// Sizes of the files that are still to come, the next one last.
    sizes: Vec<u64>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line<'a> {
    Session(&'a Row),
    Summary(&'a Summary),
}

impl Line<'_> {
    fn print(&self) {
        let text = serde_json::to_string(self).expect("reports are plain data");
        println!("{text}");
    }
}

impl Watch for Screen {
    fn begins(&mut self, files: &[SourceFile]) {
        let size = |file: &SourceFile| std::fs::metadata(&file.path).map_or(0, |file| file.len());
        self.sizes = files.iter().rev().map(size).collect();
        self.bar.set_length(self.sizes.iter().sum());
    }

    fn row(&mut self, row: &Row) {
        if self.json {
            Line::Session(row).print();
        } else {
            self.rows.push(row.clone());
        }
    }

    fn done(&mut self, path: &Path) {
        self.bar.inc(self.sizes.pop().unwrap_or_default());
        self.bar.set_message(path.display().to_string());
    }
}

impl Screen {
    fn print(&self, summary: &Summary, quiet: bool) {
        if self.json {
            return Line::Summary(summary).print();
        }
        if !quiet {
            println!("{}\n", table::table(&self.rows));
        }
        for row in &self.rows {
            for line in table::remarks(row) {
                println!("{line}");
            }
        }
        println!("{}", table::summary(summary));
    }
}
