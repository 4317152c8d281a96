//! Every metric: its name, its labels, what it says. One row each; nothing else of it is written twice.

use super::catalogue::{MetricKind, MetricSpec};
use super::cell::{Counter, Gauge, Histogram};
use super::label_specs::*;
use super::metric_row::MetricRow;
use std::sync::LazyLock;

/// Bounds of `diglot_upstream_connect_seconds`, in seconds as all: from a socket of this machine to the default time-out of
/// connecting and beyond.
const CONNECT_BUCKETS: &[f64] = &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Of what a person waits for: from an answer at once to the default of `timeouts.idle`.
const WAIT_BUCKETS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Of whole runs: from a word to an hour.
const RUN_BUCKETS: &[f64] = &[0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0];

/// Of what the gateway itself adds: from an event to a read full of them.
const TRANSLATE_BUCKETS: &[f64] =
    &[1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2];

/// A row is `NAME: kind = "name" [labels], "help";`. A histogram says `within` which buckets it counts.
macro_rules! table {
    ($($row:ident: $kind:ty = $name:literal $labels:tt $(within $buckets:ident)?, $help:literal;)+) => {
        $(pub(super) const $row: MetricRow<$kind> = MetricRow::new($name, $help, &$labels)$(.with_buckets($buckets))?;)+

        /// Every metric of the gateway's own.
        const GATEWAY_METRICS: &[MetricSpec] = &[$($row.metric),+];
    };
}

#[rustfmt::skip]
table! {
    EVENTS: Counter = "diglot_events_total" [ROUTE, DIRECTION, DIALECT, TYPE],
        "Events by route, direction (from_agent, to_client), dialect and type.";
    EVENT_BYTES: Counter = "diglot_event_bytes_total" [ROUTE, DIRECTION],
        "Bytes of event streams by route and direction (from_agent, to_client).";
    STREAMS_ACTIVE: Gauge = "diglot_streams_active" [ROUTE],
        "Runs that are open.";
    STREAMS: Counter = "diglot_streams_total" [ROUTE, OUTCOME],
        "Runs that ended, by outcome.";
    STREAM_DURATION: Histogram = "diglot_stream_duration_seconds" [ROUTE, OUTCOME] within RUN_BUCKETS,
        "How long runs took from their request to their end, by outcome.";
    STREAM_FIRST_EVENT: Histogram = "diglot_stream_first_event_seconds" [ROUTE] within WAIT_BUCKETS,
        "How long it was from the request to the first event for the client; a run that had none is not among them.";
    STREAM_EVENT_GAP: Histogram = "diglot_stream_event_gap_seconds" [ROUTE] within WAIT_BUCKETS,
        "How long the next events of a run let wait once the client had taken those before; what comes in one read is one.";
    TRANSLATE: Histogram = "diglot_translate_seconds" [CLIENT, AGENT] within TRANSLATE_BUCKETS,
        "How long it took to translate what one read of an agent's stream brought, by the dialects of both sides.";
    REQUESTS: Counter = "diglot_requests_total" [MATCHED_ROUTE, METHOD, CODE],
        "Requests answered, by route, method and status.";
    REQUEST_HEADERS: Histogram = "diglot_request_headers_seconds" [MATCHED_ROUTE] within WAIT_BUCKETS,
        "How long it was from the head of a request to the head of its answer.";
    REFUSALS: Counter = "diglot_refusals_total" [MATCHED_ROUTE, REFUSAL],
        "Requests refused before a stream began, by route and by the code of the refusal.";
    REPAIRS: Counter = "diglot_repairs_total" [ROUTE, REPAIR],
        "Events mended by the run guard, by repair.";
    LOSSES: Counter = "diglot_losses_total" [ROUTE, LOSS],
        "Events left out on purpose, by reason.";
    AUTH: Counter = "diglot_auth_total" [ROUTE, AUTH_METHOD, AUTH_RESULT, AUTH_REASON],
        "Requests that were let in (result accepted) or not (refused), by how their caller showed who it is, and why.";
    RATE_LIMIT: Counter = "diglot_ratelimit_total" [POLICY, DECISION],
        "Requests by limit and what became of them; the caps of streams are streams:all, streams:route and streams:caller.";
    RATE_LIMIT_KEYS: Gauge = "diglot_ratelimit_keys" [],
        "Callers that limits are counted for.";
    RATE_LIMIT_ERRORS: Counter = "diglot_ratelimit_backend_errors_total" [],
        "Times that the shared quotas could not be asked.";
    JWKS_KEYS: Gauge = "diglot_jwks_keys" [ISSUER],
        "Keys of an issuer that are in use.";
    JWKS_SUCCESS: Gauge = "diglot_jwks_last_success_timestamp_seconds" [ISSUER],
        "When keys of an issuer last came; 0 before the first time.";
    JWKS_REFRESHES: Counter = "diglot_jwks_refreshes_total" [ISSUER, REFRESH],
        "Attempts to fetch the keys of an issuer, by result.";
    CONNECTIONS: Gauge = "diglot_connections_active" [PLANE, LISTENER],
        "Connections that are open, by plane and listener.";
    CONNECTIONS_REFUSED: Counter = "diglot_connections_refused_total" [PLANE, LISTENER, REJECT_REASON],
        "Connections that were closed instead of a request being read from them, by plane, listener and reason.";
    ACCEPT_FAILURES: Counter = "diglot_accept_failures_total" [PLANE, LISTENER],
        "Times that no connection could be accepted, as without file descriptors, by plane and listener.";
    TLS_NOT_AFTER: Gauge = "diglot_tls_cert_not_after_timestamp_seconds" [PLANE, LISTENER],
        "When the certificate in use ends, or the one of its chain that ends first, by plane and listener.";
    TLS_RELOADS: Counter = "diglot_tls_reloads_total" [PLANE, LISTENER, RELOAD],
        "Changes of certificate files, by plane, listener and result (taken, refused).";
    REPLAY_RUNS: Gauge = "diglot_replay_runs" [],
        "Runs that are kept for clients that come back.";
    REPLAY_BYTES: Gauge = "diglot_replay_bytes" [],
        "What the runs that are kept take in memory.";
    REPLAY_EVICTIONS: Counter = "diglot_replay_evictions_total" [EVICTION],
        "Runs that are kept no longer, or can be come back to no longer, by reason.";
    REPLAY_FOLLOWED: Gauge = "diglot_replay_followed" [],
        "Runs of other replicas that are read here.";
    REPLAY_ERRORS: Counter = "diglot_replay_backend_errors_total" [],
        "Questions about shared runs that Redis did not answer in time.";
    UPSTREAM_UP: Gauge = "diglot_upstream_up" [ROUTE, UPSTREAM],
        "1 while an upstream of a route is asked for runs, 0 while all its addresses are unhealthy, left out or unknown.";
    UPSTREAM_EJECTIONS: Counter = "diglot_upstream_ejections_total" [ROUTE, UPSTREAM],
        "Times that an address of an upstream was left out because its runs failed.";
    UPSTREAM_NO_HEALTHY: Counter = "diglot_upstream_none_fit_total" [ROUTE],
        "Runs for which every upstream of the route was unhealthy or left out, so that all were tried.";
    UPSTREAM_REQUESTS: Counter = "diglot_upstream_requests_total" [UPSTREAM, UPSTREAM_OUTCOME],
        "Requests to upstreams by what became of them, up to the head of the answer; each attempt counts.";
    UPSTREAM_CONNECT: Histogram = "diglot_upstream_connect_seconds" [UPSTREAM] within CONNECT_BUCKETS,
        "How long new connections to upstreams took, TLS included; kept connections are not among them.";
    SPANS_EXPORTED: Counter = "diglot_spans_exported_total" [],
        "Spans that the collector of traces took.";
    SPANS_DROPPED: Counter = "diglot_spans_dropped_total" [SPAN_LOSS],
        "Spans that the collector of traces never gets, by reason.";
    DRAINING: Gauge = "diglot_draining" [],
        "1 while the gateway is shutting down.";
    CONFIG_GOOD: Gauge = "diglot_config_last_reload_successful" [],
        "1 while the configuration that was read last is in use; 0 when it was refused.";
    CONFIG_TIME: Gauge = "diglot_config_last_reload_success_timestamp_seconds" [],
        "When the configuration that is in use was read.";
    CONFIG: Gauge = "diglot_config_info" [HASH],
        "Always 1; the beginning of the SHA-256 of the file in use is a label.";
    BUILD: Gauge = "diglot_build_info" [VERSION],
        "Always 1; the version is a label.";
}

const fn process_metric(name: &'static str, kind: MetricKind, help: &'static str) -> MetricSpec {
    MetricSpec { name, kind, labels: &[], help, buckets: &[] }
}

/// What the client library says about the process, on Linux. Times of the processor are whole seconds.
const PROCESS_METRICS: [MetricSpec; 7] = [
    process_metric(
        "process_cpu_seconds_total",
        MetricKind::Counter,
        "Total user and system CPU time spent in seconds.",
    ),
    process_metric("process_open_fds", MetricKind::Gauge, "Number of open file descriptors."),
    process_metric("process_max_fds", MetricKind::Gauge, "Maximum number of open file descriptors."),
    process_metric("process_virtual_memory_bytes", MetricKind::Gauge, "Virtual memory size in bytes."),
    process_metric("process_resident_memory_bytes", MetricKind::Gauge, "Resident memory size in bytes."),
    process_metric(
        "process_start_time_seconds",
        MetricKind::Gauge,
        "Start time of the process since unix epoch in seconds.",
    ),
    process_metric("process_threads", MetricKind::Gauge, "Number of OS threads in the process."),
];

/// Every metric that is exposed.
pub static CATALOGUE: LazyLock<Vec<MetricSpec>> = LazyLock::new(|| [GATEWAY_METRICS, &PROCESS_METRICS].concat());

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn rows_have_unique_names_and_one_sentence_of_help() {
        let names: BTreeSet<&str> = CATALOGUE.iter().map(|one| one.name).collect();
        assert_eq!(names.len(), CATALOGUE.len());
        for MetricSpec { name, labels, help, .. } in CATALOGUE.iter() {
            assert!(name.starts_with("diglot_") || name.starts_with("process_"), "{name}");
            assert!(help.ends_with('.') && !help.contains('\n'), "{name}: {help}");
            let own: BTreeSet<_> = labels.iter().map(|label| label.name).collect();
            assert_eq!(own.len(), labels.len(), "{name}: {labels:?}");
        }
    }

    /// What Prometheus asks of names, and what its histograms need.
    #[test]
    fn names_show_kind_and_unit_and_buckets_ascend() {
        for one in CATALOGUE.iter() {
            assert_eq!(one.kind == MetricKind::Counter, one.name.ends_with("_total"), "{}", one.name);
            assert_eq!(one.kind == MetricKind::Histogram, !one.buckets.is_empty(), "{}", one.name);
            assert!(one.kind != MetricKind::Histogram || one.unit() == "seconds", "{}", one.name);
            assert!(one.buckets.windows(2).all(|two| two[0] < two[1]), "{}", one.name);
        }
    }
}
