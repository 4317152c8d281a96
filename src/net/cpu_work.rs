//! Work whose length a client or an agent chooses, on threads that serve others as well.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Size in bytes of input for which a thread is kept for a few milliseconds.
const SMALL: usize = 256 << 10;

/// Parts of large inputs that are worked on at once. An ordinary one takes ten times its size meanwhile, and its thread
/// would hold that until it is done, however many others there are.
static LARGE_INPUTS: Semaphore = Semaphore::const_new(MAX_LARGE_PARTS as usize);

/// Number of parts that all large inputs have together, or the largest alone.
const MAX_LARGE_PARTS: u32 = 4;

/// Size of a part in bytes. A smaller input counts as one.
const PART: usize = 2 << 20;

/// A permit for the work on one large input, returned when dropped.
#[derive(Debug)]
pub(crate) struct LargeWorkPermit {
    _parts: Option<SemaphorePermit<'static>>,
}

/// Returns whether the work on an input of this size neither waits nor moves other tasks.
pub(crate) const fn is_small(bytes: usize) -> bool {
    bytes <= SMALL
}

/// Waits until little enough is worked on for a large input.
pub(crate) async fn wait_for_large_work(bytes: usize) -> LargeWorkPermit {
    let parts = if !is_small(bytes) { LARGE_INPUTS.acquire_many(count_parts(bytes)).await.ok() } else { None };
    LargeWorkPermit { _parts: parts }
}

/// Returns a permit for work that need not wait.
pub(crate) fn try_large_work(bytes: usize) -> Option<LargeWorkPermit> {
    let parts = if !is_small(bytes) { Some(LARGE_INPUTS.try_acquire_many(count_parts(bytes)).ok()?) } else { None };
    Some(LargeWorkPermit { _parts: parts })
}

fn count_parts(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PART)).unwrap_or(MAX_LARGE_PARTS).min(MAX_LARGE_PARTS)
}

/// Runs `work`. If its input is large, the other tasks of the thread move to another thread first: at most as many as
/// the runtime has for blocking work.
pub(crate) fn run_sized<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let has_threads = || Handle::try_current().is_ok_and(|it| it.runtime_flavor() == RuntimeFlavor::MultiThread);
    if !is_small(bytes) && has_threads() { tokio::task::block_in_place(work) } else { work() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn large_inputs_wait_for_one_another() {
        let largest = wait_for_large_work(10 << 20).await;
        assert!(try_large_work(SMALL + 1).is_none());
        assert!(try_large_work(SMALL).is_some(), "small ones never wait");
        drop(largest);
        let halves = [try_large_work(PART + 1), try_large_work(2 * PART)];
        assert!(halves.iter().all(Option::is_some) && try_large_work(PART).is_none());
    }
}
