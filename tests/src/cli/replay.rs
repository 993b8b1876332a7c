//! `forkline replay`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{HOLDS, VIOLATION, trouble};
use crate::gate;
use crate::protocol::ProtocolRoster;

const EXAMPLES: &str = "\
Examples:
  forkline replay seed-7-case-12.json
      a failure that the gate has found
  forkline replay tests/traces/*.json
      everything that was ever found

  forkline replay seed-7-case-12.json --engine 'my-engine --folder {dir}'
      on a program that speaks the engine protocol

A trace names its engines, one for each repository; without names it runs on all of them, each
alone and in every pair.

Exit status: 0 all holds, 1 a difference, 2 wrong call or I/O error.";

/// Run traces of operations again
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Trace files
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Where engines keep their files
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// A program that speaks the engine protocol, instead of our engines; {dir} is a fresh folder
    #[arg(long, value_name = "CMD")]
    engine: Option<String>,
    /// What one call of that program may take
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = super::gate::duration)]
    call_limit: Duration,
}

pub(super) fn run(arguments: &Arguments) -> u8 {
    let engine = arguments.engine.as_ref();
    let engine = engine.map(|command| ProtocolRoster::new(command, arguments.call_limit));
    let engine = match engine.transpose() {
        Ok(engine) => engine,
        Err(problem) => return trouble(problem, "forkline replay --help shows examples"),
    };
    let (mut passed, mut failed) = (0, 0);
    for path in &arguments.traces {
        let folder = match gate::work_folder(arguments.dir.as_deref()) {
            Ok(folder) => folder,
            Err(error) => return trouble(format!("cannot make a work folder: {error}"), ""),
        };
        let replayed = gate::load(path).and_then(|trace| match &engine {
            Some(engine) => Ok(gate::replay_on(&trace, engine, 0, folder.path())),
            None => gate::replay(&trace, path, folder.path()),
        });
        match replayed {
            Ok(Ok(_)) => {
                passed += 1;
                println!("holds: {}", path.display());
            }
            Ok(Err(violation)) => {
                failed += 1;
                println!("differs: {}\n  {violation}", path.display());
            }
            Err(problem) => return trouble(problem, "forkline replay --help shows examples"),
        }
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 { HOLDS } else { VIOLATION }
}
