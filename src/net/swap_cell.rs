//! What is in use now, and may be replaced in a moment.

use arc_swap::ArcSwap;
use std::sync::Arc;

/// One value that many look at and one replaces. Whoever has got it keeps what it got.
#[derive(Debug)]
pub(crate) struct SwapCell<T>(Arc<ArcSwap<T>>);

impl<T> Clone for SwapCell<T> {
    fn clone(&self) -> Self {
        SwapCell(Arc::clone(&self.0))
    }
}

impl<T> SwapCell<T> {
    /// Begins with `value`.
    pub(crate) fn new(value: Arc<T>) -> Self {
        SwapCell(Arc::new(ArcSwap::new(value)))
    }

    /// What is in use now.
    pub(crate) fn load(&self) -> Arc<T> {
        self.0.load_full()
    }

    /// Uses `value` from now on.
    pub(crate) fn store(&self, value: Arc<T>) {
        self.0.store(value);
    }
}
