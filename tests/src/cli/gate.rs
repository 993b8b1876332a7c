//! `forkline gate`.

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::{HOLDS, VIOLATION, progress, trouble};
use crate::gate::{self, Engines, InTurn, Options, Outcome, Report, Roster};
use crate::lineup::EngineKind;
use crate::protocol::ProtocolRoster;

/// Sequences of a full run (gate.md, "Numbers of one run").
const FULL_CASES: u64 = 1_000_000;
/// Long sequences of a full run, and how long they are (reliability.md §2.1).
const LONG_CASES: u64 = 200;
const LONG_OPS: RangeInclusive<usize> = 500..=2000;
/// The largest trees that are enumerated.
const ENTRIES_MAX: usize = 5;

const EXAMPLES: &str = "\
Examples:
  forkline gate
      5000 random sequences of 20 to 40 operations, each by two of the engines in turn
  forkline gate --in-step --cases 500
      each sequence by all engines at once
  forkline gate --cases 200000 --seed 7 --shard 1/4 --junit gate.xml
      a quarter of a long run, with a report for a CI system
  forkline gate --engines memory,jsonl --time 60s --ops 500-2000
      two engines only, long sequences, for a minute at most
  forkline gate --engine 'my-engine --folder {dir}' --cases 1000
      an engine of your own: a program that speaks the protocol of tests/PROTOCOL.md
  forkline gate --exhaustive
      every tree of up to 5 entries, every fork point, scope, position and engine pair

After every operation: answers and error kinds, what sessions hold, the bytes of every fork's
source, what stands in the folders. At the end of a sequence: every session opened anew, forks of
forks, nothing left behind. A run that did not reach what the coverage table asks for fails too.

Engines work in /dev/shm where there is one (--dir chooses another place): what is found does not
depend on a disk. The same seed gives the same run, however it is sharded.

Exit status: 0 all holds, 1 a difference or a floor that was missed, 2 wrong call or I/O error.";

/// Random operation sequences over all engines, held against the model after every step
#[derive(Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "the flags of a command")]
pub(super) struct Arguments {
    /// How many sequences
    #[arg(long, value_name = "N", default_value_t = 5000)]
    cases: u64,
    /// What decides them; a new one each time unless given
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Which engines
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "LIST",
        default_value = "memory,jsonl,sqlite,sqlite-shared"
    )]
    engines: Vec<EngineKind>,
    /// A program that speaks the engine protocol, instead of our engines; {dir} is a fresh folder
    #[arg(long, value_name = "CMD", conflicts_with = "engines")]
    engine: Option<String>,
    /// What one call of that program may take
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    call_limit: Duration,
    /// The longest sequence, or the shortest and the longest: 60, 500-2000
    #[arg(long, value_name = "MAX", default_value = "20-40", value_parser = lengths)]
    ops: RangeInclusive<usize>,
    /// All engines at once in every sequence, instead of two in turn
    #[arg(long, conflicts_with_all = ["engine", "exhaustive", "full"])]
    in_step: bool,
    /// One part of the sequences, for several machines
    #[arg(long, value_name = "I/N", default_value = "1/1", value_parser = shard)]
    shard: (u64, u64),
    /// How many threads; one for each core unless given
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Stop after this time: 60s, 10m, 2h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,
    /// Where engines keep their files
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Where the trace of a failure goes
    #[arg(long, value_name = "DIR", default_value = ".")]
    trace_dir: PathBuf,
    /// Every small tree instead of random sequences
    #[arg(long)]
    exhaustive: bool,
    /// A million sequences, 200 of 500 to 2000 operations, and every small tree
    #[arg(long)]
    full: bool,
    /// A JSON object for each run on stdout
    #[arg(long)]
    json: bool,
    /// A report for CI systems
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> u8 {
    let mut options = Options {
        cases: arguments.cases,
        seed: arguments.seed.unwrap_or_else(new_seed),
        ops: arguments.ops.clone(),
        shard: arguments.shard,
        time: arguments.time,
        folder: arguments.dir.clone(),
        ..Options::default()
    };
    if let Some(jobs) = arguments.jobs {
        options.jobs = jobs;
    }
    let field = match Field::new(arguments) {
        Ok(field) => field,
        Err(problem) => return trouble(problem, "forkline gate --help shows examples"),
    };
    let mut reports = Vec::new();
    for round in rounds(arguments, options) {
        match play(arguments, &field, &round) {
            Ok(report) => reports.push(report),
            Err(problem) => return trouble(problem, "forkline gate --help shows examples"),
        }
    }
    if let Some(path) = &arguments.junit
        && let Err(error) = fs::write(path, Report::junit(&reports))
    {
        return trouble(format!("cannot write {}: {error}", path.display()), "");
    }
    if reports.iter().all(Report::holds) { HOLDS } else { VIOLATION }
}

/// One part of a run.
struct Round {
    name: &'static str,
    options: Options,
    /// Whether all small trees are gone through, not random sequences.
    is_exhaustive: bool,
}

fn rounds(arguments: &Arguments, options: Options) -> Vec<Round> {
    let random = |name, options| Round { name, options, is_exhaustive: false };
    let trees = |options| Round { name: "exhaustive", options, is_exhaustive: true };
    if arguments.full {
        let full = Options { cases: FULL_CASES, ..options.clone() };
        let long = Options { cases: LONG_CASES, ops: LONG_OPS, ..options.clone() };
        vec![random("gate", full), random("long", long), trees(options)]
    } else if arguments.exhaustive {
        vec![trees(options)]
    } else {
        vec![random("gate", options)]
    }
}

/// Who runs, and how a failure of theirs is run again.
struct Field {
    roster: Box<dyn Roster>,
    names: Vec<String>,
    /// What `forkline replay` needs besides the trace.
    replay: String,
}

impl Field {
    fn new(arguments: &Arguments) -> Result<Self, String> {
        let Some(command) = &arguments.engine else {
            let names = arguments.engines.iter().map(ToString::to_string).collect();
            let engines = arguments.engines.clone();
            let roster: Box<dyn Roster> = if arguments.in_step {
                Box::new(Engines(engines))
            } else {
                Box::new(InTurn(engines))
            };
            return Ok(Self { roster, names, replay: String::new() });
        };
        let roster = ProtocolRoster::new(command, arguments.call_limit);
        let roster = roster.map_err(|error| error.to_string())?;
        let folder = gate::work_folder(arguments.dir.as_deref());
        let folder = folder.map_err(|error| format!("cannot make a work folder: {error}"))?;
        let probed = roster.probe(folder.path()).map_err(|fault| fault.0)?;
        // The seconds of a limit are those that it was given in.
        let limit = arguments.call_limit.as_secs();
        let quoted = command.replace('\'', r"'\''");
        let replay = format!(" --engine '{quoted}' --call-limit {limit}s");
        Ok(Self { roster: Box::new(roster), names: vec![probed.to_string()], replay })
    }
}

/// One round, reported.
fn play(arguments: &Arguments, field: &Field, round: &Round) -> Result<Report, String> {
    let Round { name, options, is_exhaustive } = round;
    let roster = &*field.roster;
    let template = "{bar:30} {pos}/{len} {elapsed} {wide_msg}";
    let bar = progress::bar(0, template);
    let tick = || bar.inc(1);
    let (seed, outcome) = if *is_exhaustive {
        let count = field.names.len();
        let outcome = gate::exhaustive(ENTRIES_MAX, count, options, roster, &tick);
        (None, outcome)
    } else {
        bar.set_length(options.cases.div_ceil(options.shard.1));
        (Some(options.seed), gate::run(options, roster, &tick))
    };
    bar.finish_and_clear();
    let outcome = outcome.map_err(|error| format!("cannot make a work folder: {error}"))?;
    let command = keep(&outcome, seed, field, &arguments.trace_dir)?;
    let report = Report::new(name, seed, field.names.clone(), &outcome, command);
    if arguments.json {
        let text = serde_json::to_string(&report).map_err(|error| error.to_string())?;
        println!("{text}");
    } else {
        print!("{}", report.text());
    }
    Ok(report)
}

/// Writes the trace of a failure, and gives the command that replays it.
fn keep(
    outcome: &Outcome,
    seed: Option<u64>,
    field: &Field,
    folder: &Path,
) -> Result<Option<String>, String> {
    let Some(failure) = &outcome.failure else { return Ok(None) };
    let from = seed.map_or_else(|| "tree".to_owned(), |seed| format!("seed-{seed}"));
    let path = folder.join(format!("{from}-case-{}.json", failure.case));
    let mut trace = failure.trace.clone();
    if !field.replay.is_empty() {
        // The names are another program's: without it, a trace is for all of ours.
        trace.engines.clear();
    }
    gate::save(&trace, &path).map_err(|error| error.to_string())?;
    Ok(Some(format!("forkline replay {}{}", path.display(), field.replay)))
}

/// A seed from the clock and the system's randomness, short enough to type.
fn new_seed() -> u64 {
    let [.., a, b, c, d] = uuid::Uuid::now_v7().into_bytes();
    u64::from(u32::from_be_bytes([a, b, c, d]))
}

/// One number is the longest; shorter than the shortest unless told, it is the length of all.
fn lengths(text: &str) -> Result<RangeInclusive<usize>, String> {
    let (min, max) = match text.split_once('-') {
        Some((min, max)) => (min.parse(), max.parse()),
        None => (Ok(*gate::OPS.start()), text.parse()),
    };
    match (min, max) {
        (Ok(min), Ok(max)) if max > 0 && !text.contains('-') => Ok(min.min(max)..=max),
        (Ok(min), Ok(max)) if (1..=max).contains(&min) => Ok(min..=max),
        _ => Err("lengths are MAX or MIN-MAX, from 1 on".to_owned()),
    }
}

fn shard(text: &str) -> Result<(u64, u64), String> {
    let numbers = text
        .split_once('/')
        .and_then(|(nth, count)| Some((nth.parse::<u64>().ok()?, count.parse::<u64>().ok()?)));
    let fits = numbers.filter(|(nth, count)| (1..=*count).contains(nth));
    fits.ok_or_else(|| "a shard is I/N with I from 1 to N".to_owned())
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let units = [("s", 1), ("m", 60), ("h", 3600)];
    let found = units.iter().find_map(|(unit, seconds)| {
        Some(text.strip_suffix(unit)?.parse::<u64>().ok()?.saturating_mul(*seconds))
    });
    found.map(Duration::from_secs).ok_or_else(|| "a time is 60s, 10m or 2h".to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{duration, lengths, shard};

    #[test]
    fn shards_lengths_and_times_are_read_or_refused() {
        assert_eq!(shard("2/3"), Ok((2, 3)));
        for wrong in ["0/3", "4/3", "1", "a/b", "1/0"] {
            assert!(shard(wrong).is_err(), "{wrong}");
        }
        assert_eq!(lengths("60"), Ok(20..=60));
        assert_eq!(lengths("5"), Ok(5..=5));
        assert_eq!(lengths("500-2000"), Ok(500..=2000));
        for wrong in ["0", "0-3", "4-3", "-3", "3-", "a"] {
            assert!(lengths(wrong).is_err(), "{wrong}");
        }
        assert_eq!(duration("60s"), Ok(Duration::from_mins(1)));
        assert_eq!(duration("2h"), Ok(Duration::from_hours(2)));
        for wrong in ["60", "s", "-1s", "1d"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
