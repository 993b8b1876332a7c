//! `forkline serve`.

use std::io;

use clap::Args;

use super::{HOLDS, trouble};
use crate::protocol::{self, Endpoint, open_all};

const EXAMPLES: &str = "\
Examples:
  forkline serve --stdio jsonl:sessions
      the JSONL repository in the folder `sessions`, as repository 0
  forkline serve --stdio jsonl:sessions sqlite-shared:all.sqlite
      two repositories, with forks from one into the other

A conversation, > for what is sent and < for what comes back:
  > {\"id\":1,\"op\":{\"hello\":{\"protocol\":1}}}
  < {\"id\":1,\"ok\":{\"protocol\":1,\"engine\":\"jsonl\",...}}
  > {\"id\":2,\"op\":{\"list\":{\"repo\":0}}}
  < {\"id\":2,\"ok\":{\"sessions\":[...]}}

tests/PROTOCOL.md describes the protocol. Messages for people go to stderr.

Exit status: 0 the client closed the connection, 2 wrong call or I/O error.";

/// Answer the engine protocol for Forkline's engines, on stdin and stdout
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Speak on stdin and stdout, which is the only way there is
    #[arg(long, required = true)]
    stdio: bool,
    /// Repositories, by index: memory:, jsonl:DIR, sqlite:DIR or sqlite-shared:FILE
    #[arg(value_name = "ENGINE:WHERE", required = true)]
    repositories: Vec<Endpoint>,
}

pub(super) fn run(arguments: &Arguments) -> u8 {
    debug_assert!(arguments.stdio, "clap requires it");
    let endpoints = arguments.repositories.clone();
    let served = protocol::serve(
        io::stdin().lock(),
        io::BufWriter::new(io::stdout().lock()),
        Box::new(move |options| open_all(&endpoints, &options)),
    );
    match served {
        Ok(()) => HOLDS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => HOLDS,
        Err(error) => trouble(format!("the connection failed: {error}"), ""),
    }
}
