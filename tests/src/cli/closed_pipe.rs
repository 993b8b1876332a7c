//! Output that nobody reads any more, as in `forkline verify DIR | head`: the command ends without
//! a word, instead of the panic that `println!` makes of it.
//!
//! *Why a panic that is caught*: it unwinds, so temporary folders go as they always do; dying by
//! the signal, as C programs do, would leave them. The status is the one for a system that
//! refused: nobody has heard that all holds.

use std::any::Any;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::OnceLock;

/// Runs a command; none if its output was closed meanwhile.
pub(super) fn quietly(command: impl FnOnce() -> u8) -> Option<u8> {
    let others = panic::take_hook();
    panic::set_hook(Box::new(move |panicked| {
        if !is_closed_pipe(panicked.payload()) {
            others(panicked);
        }
    }));
    match panic::catch_unwind(AssertUnwindSafe(command)) {
        Ok(status) => Some(status),
        Err(payload) if is_closed_pipe(&*payload) => None,
        Err(payload) => panic::resume_unwind(payload),
    }
}

/// Whether a panic is the one of `println!` on a closed pipe.
fn is_closed_pipe(payload: &(dyn Any + Send)) -> bool {
    static EXPECTED: OnceLock<String> = OnceLock::new();
    let expected = EXPECTED.get_or_init(|| {
        const BROKEN_PIPE: i32 = 32;
        let error = io::Error::from_raw_os_error(BROKEN_PIPE);
        format!("failed printing to stdout: {error}")
    });
    payload.downcast_ref::<String>().is_some_and(|message| message == expected)
}
