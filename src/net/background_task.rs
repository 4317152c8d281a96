//! Work that goes on beside requests for as long as something is in use: fetching keys, looking at files, resolving names.

use futures_util::future::BoxFuture;
use std::sync::Arc;

/// Such work, and what it is for. Two of the same thing are the same work.
pub struct BackgroundTask {
    /// tells things apart while they live
    pub(crate) owner_id: usize,
    /// never ends by itself
    pub future: BoxFuture<'static, ()>,
}

impl BackgroundTask {
    /// What `work` makes of `of`.
    pub(crate) fn new<T, F>(owner: &Arc<T>, work: impl FnOnce(Arc<T>) -> F) -> BackgroundTask
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // The future holds the thing, so its address is not another one's while the work goes on.
        BackgroundTask { owner_id: Arc::as_ptr(owner).addr(), future: Box::pin(work(Arc::clone(owner))) }
    }
}
