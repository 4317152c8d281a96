//! The binary: sets the allocator and runs the command line (`cli`).

use std::process::ExitCode;

/// Replaces the system's allocator, which places mostly empty buffers between small allocations in use. An idle stream
/// takes 10 KiB (HTTP/1.1, without TLS; `make bench`).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// jemalloc's settings. Freed memory is returned after a tenth of a second, by a thread of jemalloc's: four requests of
/// 8 MiB took 255 MiB where it was a second, and take 170. To return it at once takes a fifth of the CPU of a short run
/// (`make bench`, `runs`).
#[expect(unsafe_code, reason = "jemalloc reads its settings from a symbol of this name")]
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static ALLOCATOR_SETTINGS: &[u8; 59] = b"dirty_decay_ms:100,muzzy_decay_ms:0,background_thread:true\0";

fn main() -> ExitCode {
    diglot::cli::main()
}
