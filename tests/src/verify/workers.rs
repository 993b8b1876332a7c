//! Works on several files at once and hands out the results in the files' order.
//!
//! *Why*: nearly all of a small session's time goes by while the disk syncs its forks, so files
//! side by side take a fraction of the time. Large ones are not taken together: the model holds
//! a session several times over.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError, mpsc};
use std::thread;

use super::discover::SourceFile;

/// Threads; they wait more than they work.
const WORKERS: usize = 6;

/// Files that are worked on at once have at most this many bytes together, unless it is one.
const BYTES_AT_ONCE: u64 = 32 * 1024 * 1024;

/// Calls `work` for every file on some thread, and `take` with each result on this one, in the
/// order of the files, until it fails.
///
/// # Errors
/// The first of `take`.
pub(super) fn in_order<R: Send, E>(
    files: &[SourceFile],
    work: impl Fn(&SourceFile) -> R + Sync,
    mut take: impl FnMut(&SourceFile, R) -> Result<(), E>,
) -> Result<(), E> {
    let (next, stop, budget) = (AtomicUsize::new(0), AtomicBool::new(false), Budget::default());
    let (results, arriving) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..WORKERS.min(files.len()) {
            let results = results.clone();
            scope.spawn(|| {
                let results = results;
                while !stop.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(file) = files.get(index) else { break };
                    let bytes = budget.take(fs::metadata(&file.path).map_or(0, |file| file.len()));
                    let result = work(file);
                    budget.give_back(bytes);
                    if results.send((index, result)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(results);
        // Also when `take` panics, because nobody reads what it prints.
        let _stop = StopAtEnd(&stop);
        let mut early = BTreeMap::new();
        for (file, index) in files.iter().zip(0..) {
            let result = loop {
                if let Some(result) = early.remove(&index) {
                    break result;
                }
                let (index, result) = arriving.recv().expect("a worker sends every result");
                early.insert(index, result);
            };
            take(file, result)?;
        }
        Ok(())
    })
}

/// Lets workers end with what they have begun.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Bytes of the files that are worked on.
#[derive(Default)]
struct Budget {
    taken: Mutex<u64>,
    returned: Condvar,
}

impl Budget {
    /// Waits until `bytes` fit, or nothing else is taken.
    fn take(&self, bytes: u64) -> u64 {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |taken: &mut u64| *taken > 0 && *taken + bytes > BYTES_AT_ONCE;
        let mut taken =
            self.returned.wait_while(taken, is_full).unwrap_or_else(PoisonError::into_inner);
        *taken += bytes;
        bytes
    }

    fn give_back(&self, bytes: u64) {
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner) -= bytes;
        self.returned.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::in_order;
    use crate::verify::discover::{SourceFile, SourceKind};

    fn files(count: usize) -> Vec<SourceFile> {
        let file = |n: usize| SourceFile {
            path: PathBuf::from(format!("no-such-folder/{n}")),
            kind: SourceKind::Jsonl,
            named: true,
        };
        (0..count).map(file).collect()
    }

    #[test]
    fn results_come_in_order_and_stop_at_the_first_failure() {
        for count in [0, 1, 5, 200] {
            let files = files(count);
            let mut seen = Vec::new();
            let work = |file: &SourceFile| file.path.clone();
            let all: Result<(), ()> = in_order(&files, work, |file, path| {
                assert_eq!(file.path, path);
                seen.push(path);
                Ok(())
            });
            assert_eq!((all, seen.len()), (Ok(()), count));
        }
        let mut taken = 0;
        let stopped = in_order(
            &files(200),
            |_| (),
            |_, ()| {
                taken += 1;
                if taken == 3 { Err("third") } else { Ok(()) }
            },
        );
        assert_eq!((stopped, taken), (Err("third"), 3));
    }
}
