//! The binary: sets the allocator and runs the command line (`cli`).

use std::process::ExitCode;

/// Replaces the system's allocator, which places mostly empty buffers between small allocations in use. An idle stream
/// takes 11 KiB (HTTP/1.1, without TLS; `make bench`).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// jemalloc's settings. Freed memory is returned after a second, by a thread of jemalloc's, so that a burst of runs
/// does not stay in memory; returning it at once took a fifth of the CPU of a short run (`make bench`, `runs`).
#[expect(unsafe_code, reason = "jemalloc reads its settings from a symbol of this name")]
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static ALLOCATOR_SETTINGS: &[u8; 60] = b"dirty_decay_ms:1000,muzzy_decay_ms:0,background_thread:true\0";

fn main() -> ExitCode {
    diglot::cli::main()
}
