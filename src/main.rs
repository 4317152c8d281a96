//! The binary: sets the allocator and runs the command line (`cli`).

use std::process::ExitCode;

/// Measured against the system's allocator: an idle stream needs 28 instead of 33 KiB, because mostly empty buffers are not
/// placed between small allocations in use.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// jemalloc's settings. Freed memory is returned after a second, by a thread of jemalloc's, so that a burst of runs does not
/// stay in memory; returning it at once took a fifth of the CPU of a short run (`make bench`, `runs`). Large buffers begin at a
/// page boundary: an idle stream uses only the start of its 64 KiB read buffer, which then occupies one page instead of two
/// (measured: 0.9 KiB less per stream).
#[expect(unsafe_code, reason = "jemalloc reads its settings from a symbol of this name")]
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static ALLOCATOR_SETTINGS: &[u8; 82] =
    b"dirty_decay_ms:1000,muzzy_decay_ms:0,background_thread:true,cache_oblivious:false\0";

fn main() -> ExitCode {
    diglot::cli::main()
}
