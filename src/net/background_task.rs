//! Background tasks that belong to an object: fetching keys, polling files, resolving names.

use futures_util::future::BoxFuture;
use std::sync::Arc;

/// A task, identified by its owner: a reload keeps the task if the owner is unchanged.
pub struct BackgroundTask {
    /// the owner's memory address, unique while the task keeps the owner alive
    pub(crate) owner_id: usize,
    /// never completes
    pub future: BoxFuture<'static, ()>,
}

impl BackgroundTask {
    pub(crate) fn new<T, F>(owner: &Arc<T>, work: impl FnOnce(Arc<T>) -> F) -> BackgroundTask
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // The future holds the owner, so no other owner can have its address while the task runs.
        BackgroundTask { owner_id: Arc::as_ptr(owner).addr(), future: Box::pin(work(Arc::clone(owner))) }
    }
}
