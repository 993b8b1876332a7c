//! The `forkline` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    forkline_gate::cli::main()
}
