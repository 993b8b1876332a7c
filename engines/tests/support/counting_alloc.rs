//! A global allocator that counts: what the Rust heap holds, and the most it held.
//!
//! For test files of their own, with one `#[test]` each, because the count is the process's:
//!
//! ```ignore
//! #[path = "support/counting_alloc.rs"]
//! mod counting_alloc;
//!
//! #[global_allocator]
//! static HEAP: counting_alloc::CountingAlloc = counting_alloc::CountingAlloc::new();
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator with counters, in bytes as asked for.
pub(crate) struct CountingAlloc {
    held_bytes: AtomicUsize,
    peak_bytes: AtomicUsize,
}

impl CountingAlloc {
    pub(crate) const fn new() -> Self {
        Self { held_bytes: AtomicUsize::new(0), peak_bytes: AtomicUsize::new(0) }
    }

    /// Runs `work` and tells how many bytes more than before were held at its highest point.
    pub(crate) fn peak_of<T>(&self, work: impl FnOnce() -> T) -> (T, usize) {
        let before = self.held_bytes.load(Relaxed);
        self.peak_bytes.store(before, Relaxed);
        let result = work();
        (result, self.peak_bytes.load(Relaxed) - before)
    }

    fn add(&self, bytes: usize) {
        let held = self.held_bytes.fetch_add(bytes, Relaxed) + bytes;
        self.peak_bytes.fetch_max(held, Relaxed);
    }

    fn remove(&self, bytes: usize) {
        self.held_bytes.fetch_sub(bytes, Relaxed);
    }
}

#[expect(unsafe_code, reason = "GlobalAlloc is an unsafe trait")]
// SAFETY: All blocks come from `System`, with the caller's own layouts and pointers.
// The counters are atomics, do not allocate and do not panic.
unsafe impl GlobalAlloc for CountingAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: The caller keeps the contract of `alloc`, which is the same for `System`.
        let block = unsafe { System.alloc(layout) };
        if !block.is_null() {
            self.add(layout.size());
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: The caller got `block` from us with this layout, so `System` gave it out so.
        unsafe { System.dealloc(block, layout) };
        self.remove(layout.size());
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: The caller keeps the contract of `alloc_zeroed`.
        let block = unsafe { System.alloc_zeroed(layout) };
        if !block.is_null() {
            self.add(layout.size());
        }
        block
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: The caller got `block` from us with this layout, so `System` gave it out so;
        // `new_size` is the caller's, as the contract of `realloc` wants it.
        let new_block = unsafe { System.realloc(block, layout, new_size) };
        if !new_block.is_null() {
            // Both blocks exist while one is copied to the other.
            self.add(new_size);
            self.remove(layout.size());
        }
        new_block
    }
}
