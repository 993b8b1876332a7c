//! One count of two heaps: an allocator that counts, and SQLite made to allocate through it.
#![expect(clippy::cast_ptr_alignment, reason = "blocks are aligned to the header's length")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use rusqlite::ffi;

/// An allocator that knows how much is allocated, and the most there was.
pub(crate) struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// Where SQLite's allocations keep their length: in front, without breaking alignment.
const HEADER: usize = 16;

fn add(bytes: usize) {
    let now = NOW.fetch_add(bytes, Ordering::Relaxed) + bytes;
    MOST.fetch_max(now, Ordering::Relaxed);
}

#[expect(unsafe_code, reason = "an allocator cannot be written without")]
// SAFETY: every call is passed to the system's allocator unchanged; only numbers are kept.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller's layout, as the caller promised it.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the block came from `alloc` above with this layout.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(size);
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the block came from `alloc` above with this layout.
        unsafe { System.realloc(block, layout, size) }
    }
}

/// Runs `body` and gives the most that both heaps had beyond what was there before, in bytes.
pub(crate) fn measure<T>(body: impl FnOnce() -> T) -> (T, u64) {
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let result = body();
    (result, MOST.load(Ordering::Relaxed).saturating_sub(before) as u64)
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes + HEADER, HEADER).unwrap()
}

#[expect(unsafe_code, reason = "SQLite calls it")]
unsafe extern "C" fn allocate(bytes: c_int) -> *mut c_void {
    let bytes = usize::try_from(bytes).unwrap();
    // SAFETY: the layout is not empty; the block has room for the header and `bytes` behind it.
    unsafe {
        let block = Counting.alloc(layout(bytes));
        if block.is_null() {
            return std::ptr::null_mut();
        }
        block.cast::<usize>().write(bytes);
        block.add(HEADER).cast()
    }
}

#[expect(unsafe_code, reason = "SQLite calls it")]
unsafe extern "C" fn release(block: *mut c_void) {
    // SAFETY: SQLite gives back what `allocate` gave it, once; the header says how long it is.
    unsafe {
        let block = block.cast::<u8>().sub(HEADER);
        Counting.dealloc(block, layout(block.cast::<usize>().read()));
    }
}

#[expect(unsafe_code, reason = "SQLite calls it")]
unsafe extern "C" fn resize(block: *mut c_void, bytes: c_int) -> *mut c_void {
    let bytes = usize::try_from(bytes).unwrap();
    // SAFETY: as in `release`; the header moves with the block and is written anew.
    unsafe {
        let block = block.cast::<u8>().sub(HEADER);
        let old = layout(block.cast::<usize>().read());
        let block = Counting.realloc(block, old, layout(bytes).size());
        if block.is_null() {
            return std::ptr::null_mut();
        }
        block.cast::<usize>().write(bytes);
        block.add(HEADER).cast()
    }
}

#[expect(unsafe_code, reason = "SQLite calls it")]
unsafe extern "C" fn length(block: *mut c_void) -> c_int {
    // SAFETY: a block of `allocate` or `resize`, whose header stands in front.
    let bytes = unsafe { block.cast::<u8>().sub(HEADER).cast::<usize>().read() };
    bytes.try_into().unwrap()
}

#[expect(unsafe_code, reason = "SQLite calls it")]
unsafe extern "C" fn rounded(bytes: c_int) -> c_int {
    (bytes + 7) & !7
}

#[expect(unsafe_code, reason = "SQLite calls it")]
unsafe extern "C" fn begin(_: *mut c_void) -> c_int {
    ffi::SQLITE_OK
}

#[expect(unsafe_code, reason = "SQLite calls it")]
unsafe extern "C" fn end(_: *mut c_void) {}

/// Makes SQLite allocate from the counted heap. Before the first connection.
#[expect(unsafe_code, reason = "SQLite's configuration has no safe wrapper")]
pub(crate) fn count_sqlite() {
    let methods = ffi::sqlite3_mem_methods {
        xMalloc: Some(allocate),
        xFree: Some(release),
        xRealloc: Some(resize),
        xSize: Some(length),
        xRoundup: Some(rounded),
        xInit: Some(begin),
        xShutdown: Some(end),
        pAppData: std::ptr::null_mut(),
    };
    // SAFETY: SQLite copies the table; the functions live as long as the process; no other
    // thread uses SQLite yet.
    let answer = unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MALLOC, &raw const methods) };
    assert_eq!(answer, ffi::SQLITE_OK, "a connection was opened before");
}

/// From now on SQLite refuses what would take its heap beyond this; 0 is no limit.
#[expect(unsafe_code, reason = "the pragma can only lower the limit")]
pub(crate) fn limit_sqlite(bytes: u64) {
    // SAFETY: takes no pointer, and no other thread uses SQLite now.
    let _ = unsafe { ffi::sqlite3_hard_heap_limit64(bytes.try_into().unwrap()) };
}
