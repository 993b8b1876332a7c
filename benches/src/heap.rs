//! Two heaps, one number each: Rust's by a counting allocator, SQLite's by its own counter.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator that counts the bytes in use and their peak.
pub struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn grow(bytes: usize) {
    let now = IN_USE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(now, Ordering::Relaxed);
}

fn shrink(bytes: usize) {
    IN_USE.fetch_sub(bytes, Ordering::Relaxed);
}

#[expect(unsafe_code, reason = "an allocator is an unsafe trait")]
// SAFETY: every call goes to the system's allocator with the same arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        shrink(layout.size());
        // SAFETY: `at` came from `System` with this layout.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        shrink(layout.size());
        grow(size);
        // SAFETY: `at` came from `System` with this layout, `size` is the caller's promise.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// Forgets the peak so far and returns the bytes in use.
pub fn reset() -> usize {
    let now = IN_USE.load(Ordering::Relaxed);
    PEAK.store(now, Ordering::Relaxed);
    sqlite_peak(true);
    now
}

/// The highest number of bytes in use since [`reset`].
pub fn peak() -> usize {
    PEAK.load(Ordering::Relaxed)
}

/// SQLite's own peak since the last reset, in bytes.
pub fn sqlite_peak(reset: bool) -> u64 {
    #[expect(unsafe_code, reason = "SQLite's counter is a C function")]
    // SAFETY: the function takes a flag, may be called at any time, and is thread-safe.
    let peak = unsafe { rusqlite::ffi::sqlite3_memory_highwater(i32::from(reset)) };
    u64::try_from(peak).unwrap_or(0)
}
