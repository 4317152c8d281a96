//! Counts work instead of time: the edges that an input executes in `diglot`, and the bytes that it allocates.
//!
//! The compiler inserts a call at each edge (tests/fuzz/coverage-rustc). The same calls fill the counters by which libFuzzer finds
//! new behaviour.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// More than the edges of `diglot`.
const EDGES: usize = 1 << 20;

/// One counter for each edge, for libFuzzer.
static COUNTERS: [AtomicU8; EDGES] = [const { AtomicU8::new(0) }; EDGES];
static EDGES_USED: AtomicU64 = AtomicU64::new(0);
static EDGES_EXECUTED: AtomicU64 = AtomicU64::new(0);
static BYTES_ALLOCATED: AtomicU64 = AtomicU64::new(0);

/// Bytes that cost as much as an edge: copying is cheap, but not free.
const BYTES_PER_EDGE: u64 = 32;

unsafe extern "C" {
    fn __sanitizer_cov_8bit_counters_init(start: *const AtomicU8, stop: *const AtomicU8);
}

/// Returns the work since the process began.
pub fn done() -> u64 {
    EDGES_EXECUTED.load(Ordering::Relaxed) + BYTES_ALLOCATED.load(Ordering::Relaxed) / BYTES_PER_EDGE
}

/// Returns what `action` returns, and its work.
pub fn measure<T>(action: impl FnOnce() -> T) -> (T, u64) {
    let before = done();
    let result = action();
    (result, done() - before)
}

// One thread runs the targets, so loads and stores suffice.
fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

/// Called at each edge.
///
/// # Safety
/// `guard` points to a number from [`__wrap___sanitizer_cov_trace_pc_guard_init`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap___sanitizer_cov_trace_pc_guard(guard: *mut u32) {
    // SAFETY: the compiler's guards live as long as the process.
    let edge = unsafe { *guard } as usize;
    if let Some(counter) = COUNTERS.get(edge) {
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }
    add(&EDGES_EXECUTED, 1);
}

/// Called once for each unit of compilation: numbers its edges.
///
/// # Safety
/// `start` and `stop` enclose the guards of the unit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap___sanitizer_cov_trace_pc_guard_init(start: *mut u32, stop: *mut u32) {
    // SAFETY: the compiler passes the bounds of an array.
    unsafe {
        if start == stop || *start != 0 {
            return;
        }
        let mut guard = start;
        while guard < stop {
            add(&EDGES_USED, 1);
            *guard = u32::try_from(EDGES_USED.load(Ordering::Relaxed)).unwrap_or(u32::MAX);
            guard = guard.add(1);
        }
    }
}

/// Shows the counters to libFuzzer; called before the first input.
pub fn register_counters() {
    let used = usize::try_from(EDGES_USED.load(Ordering::Relaxed)).unwrap_or(EDGES);
    assert!(used > 0, "the library was built without coverage; use tests/fuzz/run");
    assert!(used < EDGES, "the library has {used} edges; raise EDGES");
    let counters = &COUNTERS[..=used];
    // SAFETY: the counters are static.
    unsafe { __sanitizer_cov_8bit_counters_init(counters.as_ptr(), counters.as_ptr_range().end) };
}

/// Counts allocated bytes: copies, which have no edges.
struct CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

// SAFETY: every call goes to the system's allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(&BYTES_ALLOCATED, layout.size() as u64);
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(&BYTES_ALLOCATED, layout.size() as u64);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(&BYTES_ALLOCATED, size as u64);
        unsafe { System.realloc(place, layout, size) }
    }
}
