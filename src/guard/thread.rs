//! Whose a thread is.

use crate::config::Config;

/// Who opened which thread, of the routes where that matters.
#[derive(Debug)]
pub struct Threads {}

impl Threads {
    /// As configured.
    #[must_use]
    pub fn new(_config: &Config) -> Self {
        Threads {}
    }
}
