//! The metrics of the process, and the handles that its parts count with. `table.rs` has every one of them.
//!
//! Labels come from closed lists: routes from the configuration, types from the dialect's table, the rest from enums. No
//! text of a client or an agent ever becomes a label. Handles are resolved when the configuration is loaded, so that
//! counting an event is one addition.

mod issuer;
mod limit;
mod listener;
mod replay;
mod route;
mod row;
mod spans;
mod table;
mod upstream;

pub use issuer::IssuerMetrics;
pub use limit::LimitMetrics;
pub use listener::ListenerMetrics;
pub use replay::ReplayMetrics;
pub use route::{Active, RouteMetrics, Totals};
pub use spans::SpanMetrics;
pub use upstream::{NoneFitCounter, UpstreamMetrics};

use crate::dialect::Side;
use prometheus::{IntCounterVec, IntGauge, IntGaugeVec, Registry, TextEncoder};
use std::sync::Arc;

/// The registry of the process, the metrics of its parts, and those of the process itself.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    routes: route::Vectors,
    limits: limit::Vectors,
    issuers: issuer::Vectors,
    listeners: listener::Vectors,
    replay: ReplayMetrics,
    upstreams: upstream::Vectors,
    requests: IntCounterVec,
    spans: SpanMetrics,
    draining: IntGauge,
    config_good: IntGauge,
    config_time: IntGauge,
    config: IntGaugeVec,
}

impl Metrics {
    /// Registers the table.
    ///
    /// # Errors
    /// When two rows have one name; a test sees to it that they do not.
    pub fn new() -> prometheus::Result<Self> {
        let registry = Registry::new();
        table::BUILD.register(&registry)?.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        #[cfg(target_os = "linux")]
        registry.register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))?;
        Ok(Metrics {
            routes: route::Vectors::register(&registry)?,
            limits: limit::Vectors::register(&registry)?,
            issuers: issuer::Vectors::register(&registry)?,
            listeners: listener::Vectors::register(&registry)?,
            replay: ReplayMetrics::register(&registry)?,
            upstreams: upstream::Vectors::register(&registry)?,
            requests: table::REQUESTS.register(&registry)?,
            spans: SpanMetrics::register(&registry)?,
            draining: table::DRAINING.register(&registry)?,
            config_good: table::CONFIG_GOOD.register(&registry)?,
            config_time: table::CONFIG_TIME.register(&registry)?,
            config: table::CONFIG.register(&registry)?,
            registry,
        })
    }

    /// Resolves the handles of a route; every series of it exists from then on.
    #[must_use]
    pub fn route(&self, name: &str, client: Side, agent: Side) -> Arc<RouteMetrics> {
        Arc::new(self.routes.route(name, client, agent))
    }

    /// Resolves the handles of a limit; every series of it exists from then on.
    #[must_use]
    pub fn limit(&self, policy: &str) -> LimitMetrics {
        self.limits.limit(policy)
    }

    /// Says for how many callers limits are counted.
    pub fn limit_keys(&self, count: usize) {
        self.limits.counted(count);
    }

    /// Counts that the shared quotas could not be asked.
    pub fn limit_backend_error(&self) {
        self.limits.backend_error();
    }

    /// Resolves the handles of an issuer; every series of it exists from then on.
    #[must_use]
    pub fn issuer(&self, name: &str) -> IssuerMetrics {
        self.issuers.issuer(name)
    }

    /// Takes an issuer that is gone out of the series: its keys are in use no more.
    pub fn forget_issuer(&self, name: &str) {
        self.issuers.forget(name);
    }

    /// Takes an upstream that is gone from a route out of the series that say how it is.
    pub fn forget_upstream(&self, route: &str, upstream: &str) {
        self.upstreams.forget(route, upstream);
    }

    /// Resolves the handles of a listener; every series of it exists from then on.
    #[must_use]
    pub fn listener(&self, plane: &str, address: &str, tls: bool) -> Arc<ListenerMetrics> {
        Arc::new(self.listeners.listener(plane, address, tls))
    }

    /// The handles of runs that are kept.
    #[must_use]
    pub fn replay(&self) -> ReplayMetrics {
        self.replay.clone()
    }

    /// Resolves the handles of an upstream of a route; every series of it exists from then on.
    #[must_use]
    pub fn upstream(&self, route: &str, upstream: &str) -> UpstreamMetrics {
        self.upstreams.upstream(route, upstream)
    }

    /// The counter of runs of a route that found every upstream unfit.
    #[must_use]
    pub fn none_fit(&self, route: &str) -> NoneFitCounter {
        self.upstreams.none_fit(route)
    }

    /// The handles of spans on their way to a collector.
    #[must_use]
    pub fn spans(&self) -> SpanMetrics {
        self.spans.clone()
    }

    /// Counts an answered request. `route` is a route's name, or empty.
    pub fn request(&self, route: &str, status: u16) {
        self.requests.with_label_values(&[route, &status.to_string()]).inc();
    }

    /// Says whether the gateway is shutting down.
    pub fn draining(&self, on: bool) {
        self.draining.set(i64::from(on));
    }

    /// Says which configuration is in use, by its hash, and since when, in seconds since the epoch.
    pub fn configured(&self, hash: &str, at: i64) {
        self.config.reset();
        self.config.with_label_values(&[hash]).set(1);
        self.config_time.set(at);
        self.config_good.set(1);
    }

    /// Says that a configuration was refused.
    pub fn misconfigured(&self) {
        self.config_good.set(0);
    }

    /// The text exposition format.
    #[must_use]
    pub fn render(&self) -> String {
        TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{AG_UI, HAI};

    #[test]
    fn the_table_registers_and_every_series_of_a_route_exists_from_the_start() {
        let metrics = Metrics::new().expect("unique names");
        let _route = metrics.route("r", Side::new(&AG_UI), Side::new(&HAI));
        let text = metrics.render();
        for series in [
            r#"diglot_events_total{dialect="hai",direction="from_agent",route="r",type="OTHER"} 0"#,
            r#"diglot_streams_active{route="r"} 0"#,
            r#"diglot_streams_total{outcome="client_gone",route="r"} 0"#,
            r#"diglot_repairs_total{repair="opener_supplied",route="r"} 0"#,
        ] {
            assert!(text.contains(series), "{series}\n{text}");
        }
    }
}
