//! Background tasks of an object: fetching keys, polling files, resolving names.

use futures_util::future::BoxFuture;
use std::sync::Arc;

/// A task and its owner, which identifies it: a reload keeps the running task of an unchanged owner.
pub struct BackgroundTask {
    /// address of the owner, unique while the task keeps it alive
    pub(crate) owner_id: usize,
    /// never ends by itself
    pub future: BoxFuture<'static, ()>,
}

impl BackgroundTask {
    pub(crate) fn new<T, F>(owner: &Arc<T>, work: impl FnOnce(Arc<T>) -> F) -> BackgroundTask
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // The future holds the owner, so no other owner has its address while the task runs.
        BackgroundTask { owner_id: Arc::as_ptr(owner).addr(), future: Box::pin(work(Arc::clone(owner))) }
    }
}
