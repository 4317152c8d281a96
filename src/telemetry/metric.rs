//! The metrics of the process, and the handles that its parts count with. `table.rs` has every one of them.
//!
//! ```text
//!   table: a row per metric ─▶ family: its series, by labels ─▶ cell: a number ◀─ handles, resolved once: one addition
//!                 │                      ▲
//!                 ╰─▶ catalogue: tests,  ╰─ lease: a route that is gone takes its series along
//!                     deploy/metrics.md
//! ```
//! Labels come from closed lists: routes from the configuration, types from the dialect's table, the rest from enums. No
//! text of a client or an agent ever becomes a label; `source.rs` says of each where its values come from. What an alert may
//! ask for exists from the start, at 0; other series are made by the first that counts with them.

mod catalogue;
mod cell;
mod family;
mod issuer;
mod label_specs;
mod lazy_series;
mod limit;
mod listener;
mod metric_row;
mod replay;
mod request;
mod route;
mod series_lease;
mod spans;
mod table;
mod upstream;

pub use catalogue::{LabelSource, LabelSpec, MetricKind, MetricSpec};
pub(crate) use issuer::IssuerMetrics;
pub(crate) use limit::LimitMetrics;
pub(crate) use listener::ListenerMetrics;
pub(crate) use replay::ReplayMetrics;
pub(crate) use request::RequestMetrics;
pub(crate) use route::{OpenRunGuard, RouteMetrics, RunTotals};
pub(crate) use spans::SpanMetrics;
pub use table::CATALOGUE;
pub(crate) use upstream::{NoHealthyUpstreamCounter, UpstreamMetrics};

use crate::dialect::PeerDialect;
use cell::Gauge;
use family::Family;
use prometheus::{Registry, TextEncoder};
use series_lease::SeriesLeases;
use std::sync::Arc;

/// The registry of the process, the metrics of its parts, and those of the process itself.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    routes: route::RouteFamilies,
    limits: limit::LimitFamilies,
    issuers: issuer::IssuerFamilies,
    listeners: listener::ListenerFamilies,
    replay: ReplayMetrics,
    upstreams: upstream::UpstreamFamilies,
    requests: request::RequestFamilies,
    spans: SpanMetrics,
    /// those without a route
    unrouted: RequestMetrics,
    /// how long series of routes last
    leases: Arc<SeriesLeases>,
    draining: Gauge,
    last_reload_ok: Gauge,
    last_reload_time: Gauge,
    config_info: Family<Gauge>,
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
        let routes = route::RouteFamilies::register(&registry)?;
        let requests = request::RequestFamilies::register(&registry)?;
        let upstreams = upstream::UpstreamFamilies::register(&registry)?;
        let config_good = table::CONFIG_GOOD.register_single(&registry)?;
        // Nothing was refused yet: a process does not start with a bad file, and the demo has none.
        config_good.set(1);
        let of_routes = routes
            .route_scoped_families()
            .into_iter()
            .chain(requests.route_scoped_families())
            .chain(upstreams.route_scoped_families());
        Ok(Metrics {
            leases: SeriesLeases::new("route", of_routes.collect()),
            unrouted: requests.for_route(""),
            routes,
            requests,
            upstreams,
            limits: limit::LimitFamilies::register(&registry)?,
            issuers: issuer::IssuerFamilies::register(&registry)?,
            listeners: listener::ListenerFamilies::register(&registry)?,
            replay: ReplayMetrics::register(&registry)?,
            spans: SpanMetrics::register(&registry)?,
            draining: table::DRAINING.register_single(&registry)?,
            last_reload_ok: config_good,
            last_reload_time: table::CONFIG_TIME.register_single(&registry)?,
            config_info: table::CONFIG.register(&registry)?,
            registry,
        })
    }

    /// Resolves the handles of a route. Its series last until the last of them is let go, which runs hold as well.
    #[must_use]
    pub fn route(&self, name: &str, client: PeerDialect, agent: PeerDialect) -> Arc<RouteMetrics> {
        let lease = self.leases.acquire(name);
        Arc::new(self.routes.for_route(lease, self.requests.for_route(name), name, (client, agent)))
    }

    /// The handles of requests for which there is no route.
    #[must_use]
    pub(crate) fn unrouted_requests(&self) -> &RequestMetrics {
        &self.unrouted
    }

    /// Resolves the handles of a limit; every series of it exists from then on.
    #[must_use]
    pub(crate) fn limit(&self, policy: &str) -> LimitMetrics {
        self.limits.limit(policy)
    }

    /// Says for how many callers limits are counted.
    pub(crate) fn set_limit_keys(&self, count: usize) {
        self.limits.set_keys(count);
    }

    /// Counts that the shared quotas could not be asked.
    pub(crate) fn inc_limit_backend_error(&self) {
        self.limits.inc_backend_error();
    }

    /// Resolves the handles of an issuer; every series of it exists from then on.
    #[must_use]
    pub(crate) fn issuer(&self, name: &str) -> IssuerMetrics {
        self.issuers.issuer(name)
    }

    /// Takes an issuer that is gone out of the series: its keys are in use no more.
    pub(crate) fn forget_issuer(&self, name: &str) {
        self.issuers.forget(name);
    }

    /// Takes an upstream that is gone from a route out of the series that say how it is.
    pub(crate) fn forget_upstream(&self, route: &str, upstream: &str) {
        self.upstreams.forget(route, upstream);
    }

    /// Resolves the handles of a listener; every series of it exists from then on.
    #[must_use]
    pub(crate) fn listener(&self, plane: &str, address: &str, tls: bool) -> Arc<ListenerMetrics> {
        Arc::new(self.listeners.listener(plane, address, tls))
    }

    /// The handles of runs that are kept.
    #[must_use]
    pub(crate) fn replay(&self) -> ReplayMetrics {
        self.replay.clone()
    }

    /// Resolves the handles of an upstream of a route; every series of it exists from then on.
    #[must_use]
    pub(crate) fn upstream(&self, route: &str, upstream: &str) -> UpstreamMetrics {
        self.upstreams.upstream(self.leases.acquire(route), route, upstream)
    }

    /// The counter of runs of a route that found every upstream unfit.
    #[must_use]
    pub(crate) fn no_healthy_upstream(&self, route: &str) -> NoHealthyUpstreamCounter {
        self.upstreams.no_healthy_upstream(self.leases.acquire(route), route)
    }

    /// The handles of spans on their way to a collector.
    #[must_use]
    pub(crate) fn spans(&self) -> SpanMetrics {
        self.spans.clone()
    }

    /// Says whether the gateway is shutting down.
    pub(crate) fn set_draining(&self, on: bool) {
        self.draining.set(i64::from(on));
    }

    /// Says which configuration is in use, by its hash, and since when, in seconds since the epoch.
    pub(crate) fn set_config_applied(&self, hash: &str, at: i64) {
        self.config_info.clear();
        self.config_info.with_label_values(&[hash]).set(1);
        self.last_reload_time.set(at);
        self.last_reload_ok.set(1);
    }

    /// Says that a configuration was refused.
    pub(crate) fn set_config_rejected(&self) {
        self.last_reload_ok.set(0);
    }

    /// The text exposition format.
    #[must_use]
    pub(crate) fn render(&self) -> String {
        TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{AG_UI, HAI};

    fn series(metrics: &Metrics) -> Vec<String> {
        let text = metrics.render();
        text.lines().filter(|line| line.starts_with("diglot_")).map(str::to_owned).collect()
    }

    #[test]
    fn exposes_the_series_of_a_route_from_the_start() {
        let metrics = Metrics::new().expect("unique names");
        let _route = metrics.route("r", PeerDialect::new(&AG_UI), PeerDialect::new(&HAI));
        let text = metrics.render();
        for series in [
            r#"diglot_streams_active{route="r"} 0"#,
            r#"diglot_streams_total{outcome="client_gone",route="r"} 0"#,
            r#"diglot_streams_total{outcome="gateway_error",route="r"} 0"#,
            r#"diglot_repairs_total{repair="opener_supplied",route="r"} 0"#,
            r#"diglot_losses_total{reason="stray_boundary",route="r"} 0"#,
            r#"diglot_requests_total{code="502",method="POST",route="r"} 0"#,
            r#"diglot_auth_total{method="jwt",reason="keys_unavailable",result="refused",route="r"} 0"#,
            r#"diglot_stream_first_event_seconds_bucket{route="r",le="2.5"} 0"#,
        ] {
            assert!(text.contains(series), "{series}\n{text}");
        }
        assert!(!text.contains("diglot_events_total{"), "{text}");
    }

    /// A route whose settings change is the same in the metrics; one that is gone takes its series along, once nobody counts
    /// with them.
    #[test]
    fn keeps_series_while_a_handle_exists() {
        let metrics = Metrics::new().expect("unique names");
        let empty = series(&metrics);
        let sides = (PeerDialect::new(&AG_UI), PeerDialect::new(&HAI));
        let (before, upstream) = (metrics.route("r", sides.0, sides.1), metrics.upstream("r", "http://agent:80"));
        before.requests().inc_rejection(crate::error::RejectionKind::OriginNotAllowed);
        let refused = r#"diglot_refusals_total{reason="origin_not_allowed",route="r"} 1"#.to_owned();
        let after = metrics.route("r", sides.0, sides.1);
        drop(before);
        assert!(series(&metrics).contains(&refused));
        drop((after, upstream));
        assert_eq!(series(&metrics), empty);
    }

    #[test]
    fn exposes_metrics_as_the_catalogue_describes() {
        let metrics = Metrics::new().expect("unique names");
        let text = metrics.render();
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        for said in types {
            let (name, kind) = said.split_once(' ').expect("a name and a kind");
            let row = CATALOGUE.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("{name} has no row"));
            assert_eq!(row.kind.as_str(), kind, "{name}");
            assert!(text.contains(&format!("# HELP {name} {}\n", row.help)), "{name}");
        }
    }
}
