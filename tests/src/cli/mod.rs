//! The `forkline` command: arguments in, text or JSON out, an exit status that means something.
//!
//! Exit status: 0, all holds; 1, a violation or a corrupt file was found; 2, the call was wrong
//! or the system refused.

mod closed_pipe;
mod fork;
mod gate;
mod progress;
mod replay;
mod self_test;
mod serve;
mod source;
mod table;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use rusqlite::ffi;

/// All holds.
const HOLDS: u8 = 0;
/// A violation or a corrupt file was found.
const VIOLATION: u8 = 1;
/// The call was wrong, or the system refused.
const TROUBLE: u8 = 2;

#[derive(Parser)]
#[command(
    name = "forkline",
    version,
    about = "Forks agent sessions, and proves the forks right",
    after_help = "Exit status: 0 all holds, 1 a violation or a corrupt file was found, 2 the call \
                  was wrong or the system refused."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Verify(verify::Arguments),
    Fork(fork::Arguments),
    Gate(gate::Arguments),
    Replay(replay::Arguments),
    Serve(serve::Arguments),
    SelfTest(self_test::Arguments),
}

/// Runs the command of this process's arguments.
pub fn main() -> ExitCode {
    // Wrong arguments end here, with status 2.
    let command = Arguments::parse().command;
    let_sqlite_run_wide();
    ExitCode::from(closed_pipe::quietly(|| run(&command)).unwrap_or(TROUBLE))
}

/// Turns off SQLite's count of its own heap, which nobody reads here: the count is one lock of the
/// whole process, for which the gate's threads wait.
fn let_sqlite_run_wide() {
    #[expect(unsafe_code, reason = "SQLite's settings are a C function")]
    // SAFETY: nothing has used SQLite yet and no thread was started; the option takes one int.
    let answer = unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MEMSTATUS, 0) };
    debug_assert_eq!(answer, ffi::SQLITE_OK, "it counts on, and works as well");
}

fn run(command: &Command) -> u8 {
    match command {
        Command::Verify(arguments) => verify::run(arguments),
        Command::Fork(arguments) => fork::run(arguments),
        Command::Gate(arguments) => gate::run(arguments),
        Command::Replay(arguments) => replay::run(arguments),
        Command::Serve(arguments) => serve::run(arguments),
        Command::SelfTest(arguments) => self_test::run(arguments),
    }
}

/// Says what went wrong, and gives the status for it.
fn trouble(problem: impl std::fmt::Display, advice: &str) -> u8 {
    eprintln!("forkline: {problem}");
    if !advice.is_empty() {
        eprintln!("{advice}");
    }
    TROUBLE
}

/// A number of bytes for people.
fn bytes_for_people(bytes: u64) -> String {
    indicatif::HumanBytes(bytes).to_string()
}
