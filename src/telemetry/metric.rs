//! The process's metrics and the handles that update them. `table.rs` has one row per metric.
//!
//! ```text
//!   table: a row per metric ─▶ family: its series, by labels ─▶ cell: a number ◀─ handles, resolved once: one addition
//!                 │                      ▲
//!                 ╰─▶ catalogue: tests,  ╰─ lease: the series of a removed route are removed
//!                     deploy/metrics.md
//! ```
//! Label values come from closed lists: routes from the configuration, event types from the dialect tables, the rest
//! from enums. Client or agent text never becomes a label; `label_specs.rs` lists the sources. Series that alerts may
//! query exist from the start, at 0; others are created when first counted.

mod catalogue;
mod cell;
mod family;
mod label_specs;
mod metric_group;
mod series_lease;
mod series;
mod table;
mod request;
mod route;

pub use catalogue::{LabelSource, LabelSpec, MetricKind, MetricSpec};
pub(crate) use cell::Counter;
pub(crate) use request::RequestMetrics;
pub(crate) use route::{OpenRunGuard, RouteMetrics, RunTotals, nonzero_bits, select_labels};
pub use table::CATALOGUE;
pub(crate) use table::{ProcessMetrics, ReplayMetrics, SpanMetrics};

use crate::dialect::PeerDialect;
use metric_group::Registrar;
use prometheus::{Registry, TextEncoder};
use series::Leased;
use series_lease::SeriesLeases;
use std::sync::Arc;
use table::{ListenerSeries, ListenerTlsSeries, RouteUpstreamSeries, UpstreamSeries};

pub(crate) type LimitMetrics = Leased<table::LimitSeries>;

pub(crate) type IssuerMetrics = Leased<table::IssuerSeries>;

pub(crate) type UpstreamSetMetrics = Leased<table::UpstreamSetSeries>;

pub(crate) struct UpstreamMetrics {
    pub(crate) on_route: Leased<RouteUpstreamSeries>,
    /// shared by all routes that use this upstream
    pub(crate) overall: Leased<UpstreamSeries>,
}

pub(crate) struct ListenerMetrics {
    pub(crate) connections: ListenerSeries,
    /// `None` without TLS
    pub(crate) tls: Option<ListenerTlsSeries>,
}

/// The registry, and all metrics of the process.
pub struct Metrics {
    registry: Registry,
    routes: table::RouteFamilies,
    requests: table::RequestFamilies,
    limits: table::LimitFamilies,
    issuers: table::IssuerFamilies,
    listeners: table::ListenerFamilies,
    tls_listeners: table::ListenerTlsFamilies,
    route_upstreams: table::RouteUpstreamFamilies,
    upstream_sets: table::UpstreamSetFamilies,
    upstreams: table::UpstreamFamilies,
    pub(crate) replay: ReplayMetrics,
    pub(crate) spans: SpanMetrics,
    pub(crate) process: ProcessMetrics,
    /// for requests that match no route
    pub(crate) unrouted: RequestMetrics,
    route_leases: Arc<SeriesLeases>,
    upstream_leases: Arc<SeriesLeases>,
    limit_leases: Arc<SeriesLeases>,
    issuer_leases: Arc<SeriesLeases>,
}

impl Metrics {
    /// Registers all metrics of the table.
    ///
    /// # Errors
    /// Returns an error if two rows have the same name, which a test rules out.
    pub fn new() -> prometheus::Result<Self> {
        let mut registrar = Registrar::default();
        #[cfg(target_os = "linux")]
        registrar.registry.register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))?;
        let process = table::ProcessFamilies::register(&mut registrar)?.resolve(&[]);
        process.build_info.series(&[env!("CARGO_PKG_VERSION")]).set(1);
        // No reload has failed yet: a process does not start with an invalid file, and the demo has none.
        process.last_reload_ok.set(1);
        let requests = table::RequestFamilies::register(&mut registrar)?;
        Ok(Metrics {
            unrouted: RequestMetrics::new(&requests, ""),
            requests,
            process,
            routes: table::RouteFamilies::register(&mut registrar)?,
            limits: table::LimitFamilies::register(&mut registrar)?,
            issuers: table::IssuerFamilies::register(&mut registrar)?,
            listeners: table::ListenerFamilies::register(&mut registrar)?,
            tls_listeners: table::ListenerTlsFamilies::register(&mut registrar)?,
            route_upstreams: table::RouteUpstreamFamilies::register(&mut registrar)?,
            upstream_sets: table::UpstreamSetFamilies::register(&mut registrar)?,
            upstreams: table::UpstreamFamilies::register(&mut registrar)?,
            replay: table::ReplayFamilies::register(&mut registrar)?.resolve(&[]),
            spans: table::SpanFamilies::register(&mut registrar)?.resolve(&[]),
            route_leases: SeriesLeases::new(registrar.families_by("route")),
            upstream_leases: SeriesLeases::new(registrar.families_by("upstream")),
            limit_leases: SeriesLeases::new(registrar.families_by("policy")),
            issuer_leases: SeriesLeases::new(registrar.families_by("issuer")),
            registry: registrar.registry,
        })
    }

    /// Returns a route's metrics. Its series are removed when the last handle is dropped, at the end of its last run.
    #[must_use]
    pub fn route(&self, name: &str, client: PeerDialect, agent: PeerDialect) -> Arc<RouteMetrics> {
        let series = Leased::new(&self.route_leases, name, || self.routes.resolve(&[name]));
        let requests = RequestMetrics::new(&self.requests, name);
        Arc::new(RouteMetrics::new(series, requests, &self.process.translate, client, agent))
    }

    pub(crate) fn limit(&self, policy: &str) -> LimitMetrics {
        Leased::new(&self.limit_leases, policy, || self.limits.resolve(&[policy]))
    }

    pub(crate) fn issuer(&self, name: &str) -> IssuerMetrics {
        Leased::new(&self.issuer_leases, name, || self.issuers.resolve(&[name]))
    }

    /// Removes the gauges of an issuer that is no longer configured.
    pub(crate) fn forget_issuer(&self, name: &str) {
        self.issuers.keys.remove(&[name]);
        self.issuers.last_success.remove(&[name]);
    }

    /// Removes the gauge of an upstream that a route no longer uses. Its counters stay until its last run ends.
    pub(crate) fn forget_upstream(&self, route: &str, upstream: &str) {
        self.route_upstreams.up.remove(&[route, upstream]);
    }

    pub(crate) fn listener(&self, plane: &str, address: &str, tls: bool) -> Arc<ListenerMetrics> {
        let labels = [plane, address];
        let tls = tls.then(|| self.tls_listeners.resolve(&labels));
        Arc::new(ListenerMetrics { connections: self.listeners.resolve(&labels), tls })
    }

    pub(crate) fn upstream(&self, route: &str, upstream: &str) -> UpstreamMetrics {
        UpstreamMetrics {
            on_route: Leased::new(&self.route_leases, route, || self.route_upstreams.resolve(&[route, upstream])),
            overall: Leased::new(&self.upstream_leases, upstream, || self.upstreams.resolve(&[upstream])),
        }
    }

    pub(crate) fn upstream_set(&self, route: &str) -> UpstreamSetMetrics {
        Leased::new(&self.route_leases, route, || self.upstream_sets.resolve(&[route]))
    }

    /// Records the hash of the active configuration and when it took effect, in seconds since the epoch.
    pub(crate) fn set_config_applied(&self, hash: &str, at: i64) {
        self.process.config_info.clear();
        self.process.config_info.series(&[hash]).set(1);
        self.process.last_reload_time.set(at);
        self.process.last_reload_ok.set(1);
    }

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

    #[test]
    fn keeps_series_while_a_handle_exists() {
        let metrics = Metrics::new().expect("unique names");
        let empty = series(&metrics);
        let sides = (PeerDialect::new(&AG_UI), PeerDialect::new(&HAI));
        let (before, upstream) = (metrics.route("r", sides.0, sides.1), metrics.upstream("r", "http://agent:80"));
        before.requests().rejections.get(crate::error::RejectionKind::OriginNotAllowed).inc();
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
        for line in types {
            let (name, kind) = line.split_once(' ').expect("a name and a kind");
            let row = CATALOGUE.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("{name} has no row"));
            assert_eq!(row.kind.as_str(), kind, "{name}");
            assert!(text.contains(&format!("# HELP {name} {}\n", row.help)), "{name}");
        }
    }
}
