//! Makes a failing sequence of operations small: one shrinker for all traces, wherever they come
//! from.

use forkline_model::{Json, Op, Write};

use super::contest::{Place, Roster};
use super::judge::Violation;
use crate::driver::{Driver, Fault};

/// How often a failing sequence is run again to make it smaller.
const RUNS_MAX: usize = 1500;

/// A roster without the drivers that did not fail.
pub(super) struct Only<'a> {
    pub(super) roster: &'a dyn Roster,
    pub(super) engine: &'a str,
}

impl Roster for Only<'_> {
    fn drivers(&self, place: &Place<'_>) -> Result<Vec<Box<dyn Driver>>, Fault> {
        let all = self.roster.drivers(place)?;
        let (only, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|driver| driver.name() == self.engine);
        Ok(if only.is_empty() { others } else { only })
    }
}

/// The smallest sequence found that still fails, and how. `fails` runs one.
///
/// Goes over operations, then over what they are made of, and tries to do without; as long as
/// something was left out, again.
pub fn simplify(
    ops: Vec<Op>,
    violation: Violation,
    fails: &dyn Fn(&[Op]) -> Option<Violation>,
) -> (Vec<Op>, Violation) {
    let mut best = (ops, violation);
    let mut runs = 0;
    loop {
        let before = best.0.clone();
        let mut at = best.0.len();
        while at > 0 {
            at -= 1;
            for smaller in smaller_sequences(&best.0, at) {
                runs += 1;
                if runs > RUNS_MAX {
                    return best;
                }
                if let Some(violation) = fails(&smaller) {
                    best = (smaller, violation);
                    break;
                }
            }
            at = at.min(best.0.len());
        }
        if best.0 == before {
            return best;
        }
    }
}

/// Sequences with less at one place, the boldest first.
fn smaller_sequences(ops: &[Op], at: usize) -> Vec<Vec<Op>> {
    let Some(op) = ops.get(at) else { return Vec::new() };
    let with = |new: Option<Op>| {
        let (before, after) = (ops.iter().take(at), ops.iter().skip(at + 1));
        before.cloned().chain(new).chain(after.cloned()).collect::<Vec<Op>>()
    };
    let mut smaller = vec![with(None)];
    smaller.extend(smaller_ops(op).into_iter().map(|op| with(Some(op))));
    smaller
}

fn smaller_ops(op: &Op) -> Vec<Op> {
    match op {
        Op::Commit { repo, session, writes, timestamp } => smaller_writes(writes)
            .into_iter()
            .map(|writes| Op::Commit {
                repo: *repo,
                session: session.clone(),
                writes,
                timestamp: *timestamp,
            })
            .collect(),
        Op::Mutate { repo, session, reads, attempts, timestamp } => {
            let of = |reads: Vec<_>, attempts: Vec<Vec<Write>>| Op::Mutate {
                repo: *repo,
                session: session.clone(),
                reads,
                attempts,
                timestamp: *timestamp,
            };
            let mut smaller: Vec<Op> =
                without_one(reads).into_iter().map(|reads| of(reads, attempts.clone())).collect();
            smaller.extend(without_one(attempts).into_iter().map(|less| of(reads.clone(), less)));
            for (nth, writes) in attempts.iter().enumerate() {
                smaller.extend(smaller_writes(writes).into_iter().map(|less| {
                    let mut attempts = attempts.clone();
                    if let Some(attempt) = attempts.get_mut(nth) {
                        *attempt = less;
                    }
                    of(reads.clone(), attempts)
                }));
            }
            smaller
        }
        Op::Fork { request, open } => {
            let mut smaller = Vec::new();
            if *open {
                smaller.push(Op::Fork { request: request.clone(), open: false });
            }
            if request.closed {
                let mut request = request.clone();
                request.closed = false;
                smaller.push(Op::Fork { request, open: *open });
            }
            smaller
        }
        Op::Plant { repo, session, lines, torn } => {
            let of = |lines: Vec<String>, torn: &str| Op::Plant {
                repo: *repo,
                session: session.clone(),
                lines,
                torn: torn.to_owned(),
            };
            let mut smaller = Vec::new();
            if !torn.is_empty() {
                smaller.push(of(lines.clone(), ""));
            }
            smaller.extend(without_one(lines).into_iter().map(|lines| of(lines, torn)));
            smaller
        }
        _ => Vec::new(),
    }
}

fn smaller_writes(writes: &[Write]) -> Vec<Vec<Write>> {
    let half = writes.len() / 2;
    let mut smaller = Vec::new();
    if half > 1 {
        smaller.push(writes.iter().take(half).cloned().collect());
        smaller.push(writes.iter().skip(half).cloned().collect());
    }
    smaller.extend(without_one(writes));
    for (nth, write) in writes.iter().enumerate() {
        if let Some(plain) = plain(write) {
            let mut writes = writes.to_vec();
            if let Some(place) = writes.get_mut(nth) {
                *place = plain;
            }
            smaller.push(writes);
        }
    }
    smaller
}

/// The same write with the plainest content, if it has any other.
fn plain(write: &Write) -> Option<Write> {
    let json = |text: &str| Json::parse(text).expect("it is JSON");
    let plain = match write.clone() {
        Write::Entry(mut entry) => {
            entry.payload = json("{}");
            Write::Entry(entry)
        }
        Write::Usage(mut row) => {
            row.usage = json("{}");
            row.details = None;
            Write::Usage(row)
        }
        Write::SetValue { address, .. } => Write::SetValue { address, value: json("1") },
        Write::AppendElement { address, .. } => Write::AppendElement { address, value: json("1") },
        delete => delete,
    };
    (plain != *write).then_some(plain)
}

fn without_one<T: Clone>(all: &[T]) -> Vec<Vec<T>> {
    let without = |nth: usize| {
        let kept = all.iter().enumerate().filter(|(index, _)| *index != nth);
        kept.map(|(_, item)| item.clone()).collect()
    };
    (0..all.len()).map(without).collect()
}
