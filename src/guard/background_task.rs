//! Work that goes on beside requests for as long as something is in use: fetching keys, looking at files, resolving names.

use futures_util::future::BoxFuture;
use std::sync::Arc;

/// Such work, and what it is for. Two of the same thing are the same work.
pub struct Upkeep {
    /// tells things apart while they live
    pub of: usize,
    /// never ends by itself
    pub work: BoxFuture<'static, ()>,
}

impl Upkeep {
    /// What `work` makes of `of`.
    pub fn new<T, F>(of: &Arc<T>, work: impl FnOnce(Arc<T>) -> F) -> Upkeep
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // The future holds the thing, so its address is not another one's while the work goes on.
        Upkeep { of: Arc::as_ptr(of).addr(), work: Box::pin(work(Arc::clone(of))) }
    }
}
