//! The `forkline` command.

fn main() {}
