//! Work whose length a client or an agent chooses, on threads that serve others as well.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Size in bytes of input for which a thread is kept for a few milliseconds.
const SMALL: usize = 256 << 10;

/// Runs `work`. If its input is large, the other tasks of the thread move to another thread first: at most as many as
/// the runtime has for blocking work.
pub(crate) fn run_sized<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let has_threads = || Handle::try_current().is_ok_and(|it| it.runtime_flavor() == RuntimeFlavor::MultiThread);
    if bytes > SMALL && has_threads() { tokio::task::block_in_place(work) } else { work() }
}
