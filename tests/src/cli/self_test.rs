//! `forkline self-test`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use comfy_table::{Attribute, Cell, CellAlignment, Color, Table, presets};
use serde_json::{Value, json};

use super::{HOLDS, VIOLATION, progress, trouble};
use crate::gate::{Oracle, Violation};
use crate::selftest::{self, BUGS, Bug, CASES_MAX, Finding, Outcome, Settings};

const EXAMPLES: &str = "\
Examples:
  forkline self-test
      plants every bug in turn and requires that the gate catches it
  forkline self-test --bug cutoff --shrink
      one bug: what the gate says of it, and the shortest sequence that shows it
  forkline self-test --list
      the bugs, where each is planted, and which layer has to catch it
  forkline self-test --seed 7 --json
      other sequences, one JSON object for each bug and one for the run on stdout

What it does: wraps a real engine so that it is wrong in exactly one way, runs the gate on it
until the gate objects, and runs the same operations on the engine without the bug, to which
the gate must not object.

Exit status: 0 every bug was caught, 1 one was not, 2 wrong call or I/O error.";

/// Prove that the gate can fail: every planted bug has to be caught
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Only this bug; may be repeated
    #[arg(
        long = "bug",
        value_name = "NAME",
        value_parser = PossibleValuesParser::new(BUGS.iter().map(|bug| bug.name)),
        hide_possible_values = true
    )]
    bugs: Vec<String>,
    /// In how many sequences a bug has to be caught
    #[arg(long, value_name = "N", default_value_t = CASES_MAX)]
    cases: u64,
    /// Decides the sequences: those of `forkline gate` with this seed
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Make the sequences that caught a bug short, which takes a while
    #[arg(long)]
    shrink: bool,
    /// How many bugs at once; the number of cores unless given
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Where the engines keep their files; in memory unless given
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Show the bugs and stop
    #[arg(long)]
    list: bool,
    /// JSON on stdout, one object a line
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> u8 {
    let is_wanted =
        |bug: &&Bug| arguments.bugs.is_empty() || arguments.bugs.iter().any(|it| it == bug.name);
    let bugs: Vec<&'static Bug> = BUGS.iter().filter(is_wanted).collect();
    if arguments.list {
        list(&bugs, arguments.json);
        return HOLDS;
    }
    let default = Settings::default();
    let settings = Settings {
        cases: arguments.cases,
        seed: arguments.seed,
        jobs: arguments.jobs.unwrap_or(default.jobs),
        shrink: arguments.shrink,
        folder: arguments.folder.clone(),
    };
    let bar = progress::bar(bugs.len() as u64, "{bar:30} {pos}/{len} bugs {wide_msg}");
    let found = selftest::run(&bugs, &settings, &|finding| {
        bar.set_message(format!("{}: {}", finding.bug.name, result(finding)));
        bar.inc(1);
    });
    bar.finish_and_clear();
    match found {
        Ok(found) => {
            if arguments.json {
                print_json(&found, &settings);
            } else {
                print_text(&found, &settings);
            }
            if found.iter().all(Finding::is_caught) { HOLDS } else { VIOLATION }
        }
        Err(problem) => trouble(problem, "forkline self-test --help shows examples"),
    }
}

fn result(finding: &Finding) -> &'static str {
    match finding.outcome {
        Outcome::Caught(_) => "caught",
        Outcome::Elsewhere(_) => "caught by another layer",
        Outcome::FalseAlarm(_) => "objects without the bug too",
        Outcome::Missed => "not caught",
    }
}

fn layers(bug: &Bug) -> String {
    bug.layers.iter().map(|layer| layer.name()).collect::<Vec<_>>().join(", ")
}

fn list(bugs: &[&Bug], as_json: bool) {
    if as_json {
        for bug in bugs {
            println!("{}", json_of_bug(bug));
        }
        return;
    }
    let mut table = new_table(&["bug", "what it does", "engine", "layer"]);
    for bug in bugs {
        let layers = layers(bug);
        table.add_row([bug.name, bug.sentence, bug.engine.as_str(), &layers]);
    }
    println!("{table}");
}

fn new_table(names: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(names.iter().map(|name| Cell::new(name).add_attribute(Attribute::Bold)));
    table
}

fn print_text(found: &[Finding], settings: &Settings) {
    let mut names = vec!["bug", "engine", "result", "layer", "cases", "ops"];
    if settings.shrink {
        names.push("shortest");
    }
    let mut table = new_table(&names);
    for finding in found {
        let color = if finding.is_caught() { Color::Green } else { Color::Red };
        let mut row = vec![
            Cell::new(finding.bug.name),
            Cell::new(finding.bug.engine.as_str()),
            Cell::new(result(finding)).fg(color),
            Cell::new(finding.layer().map_or("", Oracle::name)),
            Cell::new(finding.cases),
            Cell::new(finding.ops.len()),
        ];
        row.extend(finding.small.as_ref().map(|ops| Cell::new(ops.len())));
        table.add_row(row);
    }
    for column in 4..names.len() {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    println!("{table}");
    let is_alone = found.len() == 1;
    for finding in found.iter().filter(|finding| is_alone || !finding.is_caught()) {
        println!("\n{}: {}", finding.bug.name, result(finding));
        if let Some(violation) = finding.violation() {
            println!("{violation}");
        }
        for op in finding.small.iter().flatten() {
            println!("  {}", serde_json::to_string(op).expect("operations have a JSON form"));
        }
        println!("again: {}", command(finding, settings));
    }
    let caught = found.iter().filter(|finding| finding.is_caught()).count();
    println!("\n{caught} of {} planted bugs caught, seed {}", found.len(), settings.seed);
}

fn command(finding: &Finding, settings: &Settings) -> String {
    let Settings { cases, seed, .. } = settings;
    format!("forkline self-test --bug {} --cases {cases} --seed {seed}", finding.bug.name)
}

fn json_of_bug(bug: &Bug) -> Value {
    let layers: Vec<&str> = bug.layers.iter().map(|layer| layer.name()).collect();
    json!({
        "type": "bug",
        "bug": bug.name,
        "what": bug.sentence,
        "engine": bug.engine.as_str(),
        "layers": layers,
    })
}

fn print_json(found: &[Finding], settings: &Settings) {
    for finding in found {
        let mut line = json_of_bug(finding.bug);
        let more = json!({
            "caught": finding.is_caught(),
            "result": result(finding),
            "layer": finding.layer().map(Oracle::name),
            "cases": finding.cases,
            "ops": finding.ops.len(),
            "shortest": finding.small.as_ref().map(Vec::len),
            "difference": finding.violation().map(Violation::to_string),
            "seconds": finding.elapsed.as_secs_f64(),
            "again": command(finding, settings),
        });
        if let (Value::Object(line), Value::Object(more)) = (&mut line, more) {
            line.extend(more);
        }
        println!("{line}");
    }
    let caught = found.iter().filter(|finding| finding.is_caught()).count();
    let (bugs, seed) = (found.len(), settings.seed);
    println!("{}", json!({"type": "summary", "bugs": bugs, "caught": caught, "seed": seed}));
}
