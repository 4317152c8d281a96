//! Active health checks of endpoints. pingora schedules them and applies the thresholds; requests are made here,
//! because pingora supports only one host and certificate for all endpoints.

use super::dialer::{AgentDialer, Connector};
use super::pingora_errors;
use super::request_head::{AgentRequestHead, field_value};
use super::upstream_endpoint::UpstreamEndpoint;
use super::upstream_set::{UpstreamEntry, UpstreamSet};
use crate::config::HealthCheckConfig;
use crate::error::Rejection;
use crate::telemetry::internal_event;
use async_trait::async_trait;
use http::header::{self, HeaderMap, HeaderValue};
use parking_lot::Mutex;
use pingora_core::{BError, Error, ErrorType};
use pingora_load_balancing::Backend;
use pingora_load_balancing::health_check::HealthCheck;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

const RESPONSE_LIMIT: usize = 64 << 10;

const USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("diglot/", env!("CARGO_PKG_VERSION"), " (health check)"));

pub(super) struct UpstreamHealthCheck {
    pub(crate) upstream_set: Arc<UpstreamSet>,
    pub(crate) connector: Arc<Connector>,
    pub(crate) dialer: AgentDialer,
    pub(crate) config: HealthCheckConfig,
    /// cause of the most recent failure
    pub(crate) cause: Mutex<String>,
}

#[derive(Debug, thiserror::Error)]
enum ProbeError {
    #[error("{}", pingora_errors::cause_text(.0))]
    Connect(Rejection),
    #[error("{}", .0.to_string().trim())]
    Exchange(#[from] BError),
    #[error("it answered {status} to GET {path}")]
    Status { status: u16, path: String },
    #[error("no answer within {0:?}")]
    Timeout(Duration),
}

impl UpstreamHealthCheck {
    async fn probe(&self, member: &UpstreamEntry, target: &UpstreamEndpoint) -> Result<(), ProbeError> {
        let opened = self.dialer.connect(&self.connector, member, target).await;
        let mut connection = opened.map_err(ProbeError::Connect)?.connection;
        let Some(path) = &self.config.path else { return Ok(()) };
        let exchange = &mut connection.exchange;
        exchange.send(&probe_head(member, path)?, None).await.map_err(|error| error.cause)?;
        let status = exchange.read_head().await?.status.as_u16();
        if !(200..300).contains(&status) {
            return Err(ProbeError::Status { status, path: path.clone() });
        }
        // Responses are read to the end, which agents handle better than a reset.
        let mut left = RESPONSE_LIMIT;
        while left > 0 && exchange.read_body(|piece| left = left.saturating_sub(piece.len())).await? {}
        Ok(())
    }
}

#[async_trait]
impl HealthCheck for UpstreamHealthCheck {
    async fn check(&self, backend: &Backend) -> pingora_core::Result<()> {
        let Some(target) = backend.ext.get::<Arc<UpstreamEndpoint>>() else { return Ok(()) };
        let probed = timeout(self.config.timeout, self.probe(self.upstream_set.entry(target), target)).await;
        probed.unwrap_or(Err(ProbeError::Timeout(self.config.timeout))).map_err(|error| {
            let cause = error.to_string();
            self.cause.lock().clone_from(&cause);
            Error::explain(ErrorType::Custom("UpstreamUnhealthy"), cause)
        })
    }

    async fn health_status_change(&self, backend: &Backend, healthy: bool) {
        let Some(target) = backend.ext.get::<Arc<UpstreamEndpoint>>() else { return };
        target.set_healthy(healthy);
        let cause = self.cause.lock().clone();
        internal_event::AddressHealthChanged {
            route: &self.upstream_set.route,
            upstream: &self.upstream_set.entry(target).label,
            address: &target.address,
            healthy,
            cause: &cause,
        }
        .emit();
        self.upstream_set.update_metrics();
    }

    fn health_threshold(&self, success: bool) -> usize {
        if success { self.config.healthy.get() } else { self.config.unhealthy.get() }
    }
}

fn probe_head(member: &UpstreamEntry, path: &str) -> Result<AgentRequestHead, BError> {
    let mut fields = HeaderMap::new();
    fields.insert(header::HOST, field_value(member.upstream.authority().as_bytes())?);
    fields.insert(header::USER_AGENT, USER_AGENT);
    fields.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
    AgentRequestHead::new(http::Method::GET, path, fields)
}
