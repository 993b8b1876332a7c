//! The engine protocol: a session engine in another process or language, one JSON object a line
//! (gate.md, "Engine protocol"; `PROTOCOL.md` beside this crate is its description).
//!
//! *Design.* The operations are those of [`forkline_model::op`] in their serde form, and the
//! answers are its [`Answer`](forkline_model::Answer)s, so that traces, drivers and the protocol
//! have one vocabulary. The protocol adds what is only needed between two processes: a greeting
//! that says what an engine can do, mutation scopes that last over several requests, and a dump
//! that streams.
//!
//! - [`serve`] answers requests for this project's engines, which [`Endpoint`]s name.
//! - [`ProtocolDriver`] is the other side: a [`Driver`](crate::driver::Driver) over a program.
//!
//! *Why this way.* What can be put together from other operations is (reopening, a whole
//! mutation): an engine has fewer than twenty operations to offer. What an engine may well do
//! in its own way, such as appending at a tip, is optional, and put together for one without it.

mod command;
mod compose;
mod connection;
mod driver;
mod endpoint;
mod lines;
mod message;
mod process;
mod request;

use std::time::Duration;

use forkline_model::{LaneAudit, RepoIndex};

use crate::driver::{Driver, Fault};

pub use command::{BadCommand, ProtocolCommand};
pub use connection::{Connection, OpenRepos, serve};
pub use driver::ProtocolDriver;
pub use endpoint::{BadEndpoint, Endpoint, open_all};
pub use message::{Hello, Optional, ProtocolError, Refusal, RefusalKind, Row, Welcome};

/// The version of the protocol that this is.
pub const PROTOCOL_VERSION: u64 = 1;

/// The longest line, in bytes, its line break left out.
///
/// A line is held in memory by both sides. 64 MiB is far above any real payload, and an engine
/// that was fed garbage stops there.
pub const LINE_BYTES_MAX: usize = 64 << 20;

/// Starts a driver with a lane audit and the working directory of forks whose source has none.
pub type StartDriver = Box<dyn Fn(LaneAudit, &str) -> Result<Box<dyn Driver>, Fault> + Send + Sync>;

/// Drivers over a program that speaks the protocol: a fresh process for each driver, in a fresh
/// folder where the command says `{dir}`.
///
/// A driver has repositories of the indices below `repos`; `call_limit` is what one call may
/// take.
///
/// # Errors
/// The command has no program, or a quote that does not end.
pub fn protocol_lineup(
    command: &str,
    repos: RepoIndex,
    call_limit: Duration,
) -> Result<StartDriver, BadCommand> {
    let command = ProtocolCommand::new(command, call_limit)?;
    Ok(Box::new(move |audit, cwd| {
        Ok(Box::new(ProtocolDriver::start(&command, repos, audit, cwd)?))
    }))
}
