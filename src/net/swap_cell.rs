//! A shared value that can be replaced at any time.

use arc_swap::ArcSwap;
use std::sync::Arc;

/// A value with many readers and one writer. Readers keep the version that they loaded.
pub(crate) struct SwapCell<T>(Arc<ArcSwap<T>>);

impl<T> Clone for SwapCell<T> {
    fn clone(&self) -> Self {
        SwapCell(Arc::clone(&self.0))
    }
}

impl<T> SwapCell<T> {
    pub(crate) fn new(value: Arc<T>) -> Self {
        SwapCell(Arc::new(ArcSwap::new(value)))
    }

    pub(crate) fn load(&self) -> Arc<T> {
        self.0.load_full()
    }

    pub(crate) fn store(&self, value: Arc<T>) {
        self.0.store(value);
    }
}
