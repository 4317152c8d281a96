//! How often: rate limits, counted here or together with other replicas.

mod local;

use super::redis::Redis;
use super::{Gate, Guard};
use crate::config::Config;
use crate::error::Rejection;
use crate::telemetry::Metrics;
use http::request::Parts;
use std::sync::Arc;

/// The rate limits of the gateway.
#[derive(Debug)]
pub struct Limits {}

impl Limits {
    /// As configured. Nothing is connected to yet.
    #[must_use]
    pub fn new(_config: &Config, _metrics: &Arc<Metrics>, _redis: Option<Arc<Redis>>) -> Self {
        Limits {}
    }

    /// Forgets callers that were quiet for long: never returns.
    pub async fn watch(&self) {
        std::future::pending::<()>().await;
    }
}

/// The gate of the limits that need not know who calls: by address, header and route, without tiers.
#[derive(Clone, Debug)]
pub struct Unknown(pub Arc<Guard>);

impl Gate for Unknown {
    async fn pass(&self, _head: &mut Parts) -> Result<(), Rejection> {
        let _ = &self.0.limits;
        Ok(())
    }
}

/// The gate of all other limits.
#[derive(Clone, Debug)]
pub struct Known(pub Arc<Guard>);

impl Gate for Known {
    async fn pass(&self, _head: &mut Parts) -> Result<(), Rejection> {
        let _ = &self.0.limits;
        Ok(())
    }
}
