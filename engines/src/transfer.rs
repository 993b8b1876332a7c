//! Forks from any backend into any other: the same rules, the same bounds (contract §3).
//!
//! An open source needs nothing special: [`Repo::fork`] takes a session of any repository.

use forkline_model::ForkOptions;

use crate::context::Context;
use crate::error::Result;
use crate::fork::{self, Forked};
use crate::repo::{Repo, SessionRef, open_reserved};
use crate::session::Session;

/// Forks a stored session of `from` into `into` and opens the fork.
///
/// # Errors
/// Those of [`Repo::capture`] at the source and of [`Repo::fork`] at the destination; a value
/// that the destination's format cannot hold is *limit exceeded* and named.
pub fn fork(
    from: &dyn Repo,
    source: &SessionRef,
    into: &dyn Repo,
    options: &ForkOptions,
    cx: &Context,
) -> Result<Session> {
    let (forked, reservation) = fork::run(into, options, |cx| from.capture(source, cx), cx)?;
    open_reserved(into, forked.reference, reservation, cx)
}

/// The same without opening the fork.
pub fn fork_unopened(
    from: &dyn Repo,
    source: &SessionRef,
    into: &dyn Repo,
    options: &ForkOptions,
    cx: &Context,
) -> Result<Forked> {
    fork::run(into, options, |cx| from.capture(source, cx), cx).map(|(forked, _)| forked)
}
