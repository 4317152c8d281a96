//! All metrics, one row each: handle, type, name, labels and help.

use super::catalogue::{MetricKind, MetricSpec};
use super::cell::{Counter, Gauge, Histogram, MetricCell};
use super::family::Family;
use super::label_specs::*;
use super::metric_group::{Registrar, metric_groups, metric_spec};
use super::series::{Each, Handle, Lazy, Scoped};
use crate::error::RejectionKind;
use crate::telemetry::label::{
    CertificateReload, ConnectionRejectReason, EventDirection, EvictionReason, JwksRefresh, LimitDecision, RunOutcome,
    SpanLoss, UpstreamOutcome,
};
use crate::translate::{EventLoss, EventRepair};
use std::sync::LazyLock;

const CONNECT_BUCKETS: &[f64] = &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Buckets for waiting times in seconds, up to the default of `timeouts.idle`.
const WAIT_BUCKETS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Buckets for run durations in seconds, up to an hour.
const RUN_BUCKETS: &[f64] = &[0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0];

/// Buckets for translation times in seconds, from one event to a full read buffer.
const TRANSLATE_BUCKETS: &[f64] =
    &[1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2];

const NO_BUCKETS: &[f64] = &[];

#[rustfmt::skip]
metric_groups! {
    RouteSeries of RouteFamilies [ROUTE] {
        events: Scoped<Counter> = "diglot_events_total" [DIRECTION, DIALECT, TYPE],
            "Events by route, direction (from_agent, to_client), dialect and type.";
        bytes: Each<EventDirection, Counter> = "diglot_event_bytes_total" [DIRECTION],
            "Bytes of event streams by route and direction (from_agent, to_client).";
        active: Gauge = "diglot_streams_active" [],
            "Open runs.";
        ended_runs: Each<RunOutcome, Counter> = "diglot_streams_total" [OUTCOME],
            "Ended runs, by outcome.";
        duration: Lazy<RunOutcome, Histogram> = "diglot_stream_duration_seconds" [OUTCOME] within RUN_BUCKETS,
            "Time from the request of a run to its end, by outcome.";
        first_event: Histogram = "diglot_stream_first_event_seconds" [] within WAIT_BUCKETS,
            "Time from the request to the first event for the client; runs without an event are not counted.";
        gap: Histogram = "diglot_stream_event_gap_seconds" [] within WAIT_BUCKETS,
            "Time from one write to the client until the next events are ready; all events of one read count once.";
        repairs: Each<EventRepair, Counter> = "diglot_repairs_total" [REPAIR],
            "Events repaired by the run guard, by repair.";
        losses: Each<EventLoss, Counter> = "diglot_losses_total" [LOSS],
            "Content that was left out on purpose or, if the reason ends with _not_shown, carried without being shown, by reason.";
        auth: Scoped<Counter> = "diglot_auth_total" [AUTH_METHOD, AUTH_RESULT, AUTH_REASON],
            "Requests by authentication method, result (accepted, refused) and reason.";
    }

    RequestSeries of RequestFamilies [MATCHED_ROUTE] {
        responses: Scoped<Counter> = "diglot_requests_total" [METHOD, CODE],
            "Answered requests, by route, method and status.";
        head_latency: Histogram = "diglot_request_headers_seconds" [] within WAIT_BUCKETS,
            "Time from the head of a request to the head of its response.";
        rejections: Lazy<RejectionKind, Counter> = "diglot_refusals_total" [REFUSAL],
            "Requests refused before a stream began, by route and by the code of the refusal.";
    }

    LimitSeries of LimitFamilies [POLICY] {
        decisions: Each<LimitDecision, Counter> = "diglot_ratelimit_total" [DECISION],
            "Requests by limit and decision; the caps of streams are streams:all, streams:route and streams:caller.";
    }

    IssuerSeries of IssuerFamilies [ISSUER] {
        keys: Gauge = "diglot_jwks_keys" [],
            "Keys of an issuer that are in use.";
        last_success: Gauge = "diglot_jwks_last_success_timestamp_seconds" [],
            "Time of the last successful fetch of an issuer's keys; 0 before the first.";
        refreshes: Each<JwksRefresh, Counter> = "diglot_jwks_refreshes_total" [REFRESH],
            "Attempts to fetch the keys of an issuer, by result.";
    }

    ListenerSeries of ListenerFamilies [PLANE, LISTENER] {
        active: Gauge = "diglot_connections_active" [],
            "Open connections, by plane and listener.";
        rejected: Each<ConnectionRejectReason, Counter> = "diglot_connections_refused_total" [REJECT_REASON],
            "Connections closed before a request was read from them, by plane, listener and reason.";
        accept_failures: Counter = "diglot_accept_failures_total" [],
            "Failures to accept connections, such as for lack of file descriptors, by plane and listener.";
    }

    ListenerTlsSeries of ListenerTlsFamilies [PLANE, LISTENER] {
        not_after: Gauge = "diglot_tls_cert_not_after_timestamp_seconds" [],
            "Expiry of the certificate in use, or of the one in its chain that expires first, by plane and listener.";
        reloads: Each<CertificateReload, Counter> = "diglot_tls_reloads_total" [RELOAD],
            "Changes of certificate files, by plane, listener and result (taken, refused).";
    }

    #[derive(Clone)]
    ReplayMetrics of ReplayFamilies [] {
        runs: Gauge = "diglot_replay_runs" [],
            "Runs kept for clients that reconnect.";
        bytes: Gauge = "diglot_replay_bytes" [],
            "Memory used by the kept runs.";
        evictions: Each<EvictionReason, Counter> = "diglot_replay_evictions_total" [EVICTION],
            "Runs evicted, or no longer resumable, by reason.";
        followed: Gauge = "diglot_replay_followed" [],
            "Runs of other replicas that are read here.";
        backend_errors: Counter = "diglot_replay_backend_errors_total" [],
            "Queries for shared runs that failed or timed out in Redis.";
    }

    RouteUpstreamSeries of RouteUpstreamFamilies [ROUTE, UPSTREAM] {
        up: Gauge = "diglot_upstream_up" [],
            "1 while runs are sent to an upstream of a route, 0 while all its addresses are unhealthy, ejected or unknown.";
        ejections: Counter = "diglot_upstream_ejections_total" [],
            "Ejections of an address of an upstream because its runs failed.";
    }

    UpstreamSetSeries of UpstreamSetFamilies [ROUTE] {
        no_healthy: Counter = "diglot_upstream_none_fit_total" [],
            "Runs for which every upstream of the route was unhealthy or ejected, so that all were tried.";
    }

    UpstreamSeries of UpstreamFamilies [UPSTREAM] {
        requests: Each<UpstreamOutcome, Counter> = "diglot_upstream_requests_total" [UPSTREAM_OUTCOME],
            "Requests to upstreams by outcome, up to the head of the response; each attempt counts.";
        connect: Histogram = "diglot_upstream_connect_seconds" [] within CONNECT_BUCKETS,
            "Time to open new connections to upstreams, TLS included; reused connections are not counted.";
    }

    #[derive(Clone)]
    SpanMetrics of SpanFamilies [] {
        exported: Counter = "diglot_spans_exported_total" [],
            "Spans accepted by the trace collector.";
        dropped: Each<SpanLoss, Counter> = "diglot_spans_dropped_total" [SPAN_LOSS],
            "Spans that never reach the trace collector, by reason.";
    }

    ProcessMetrics of ProcessFamilies [] {
        translate: Scoped<Histogram> = "diglot_translate_seconds" [CLIENT, AGENT] within TRANSLATE_BUCKETS,
            "Time to translate one read of an agent's stream, by the dialects of both sides.";
        limit_keys: Gauge = "diglot_ratelimit_keys" [],
            "Keys that rate limits currently count.";
        limit_backend_errors: Counter = "diglot_ratelimit_backend_errors_total" [],
            "Failed Redis queries for quotas, thread owners and the values that dialect files keep.";
        body_bytes: Gauge = "diglot_request_body_bytes" [],
            "Memory used by request bodies that their agents have not yet received.";
        log_lines_dropped: Counter = "diglot_log_lines_dropped_total" [],
            "Log lines dropped because stderr was read too slowly.";
        run_memory: Gauge = "diglot_run_memory_bytes" [],
            "Memory used by the unfinished events of agents and by what translations remember, for runs that use more than 8 KiB.";
        inspector_refused: Counter = "diglot_inspector_refused_total" [],
            "Requests to the inspector's listener refused because they lacked its token or came from another site.";
        inspect_bytes: Gauge = "diglot_inspect_bytes" [],
            "Memory used by what the inspector keeps of runs.";
        inspect_missed: Counter = "diglot_inspect_missed_runs_total" [],
            "Runs that a reader of the inspector missed in whole or in part, because they were evicted before it had read them.";
        slow_client_bytes: Gauge = "diglot_slow_client_bytes" [],
            "Memory used by runs that wait for slow clients.";
        slow_clients_cut_off: Counter = "diglot_slow_clients_cut_off_total" [],
            "Clients disconnected because they had waited longest when slow clients exceeded limits.client_buffers.";
        http2_unsent: Gauge = "diglot_http2_unsent_bytes" [],
            "Memory used by what HTTP/2 clients have been sent and have not taken, and by its places in queues, beside slow clients.";
        http2_cut_off: Counter = "diglot_http2_cut_off_total" [],
            "HTTP/2 connections closed because they held most when HTTP/2 clients took too little of what they were sent.";
        http2_refused: Counter = "diglot_http2_requests_refused_total" [],
            "HTTP/2 requests refused because as many were open as connections are allowed.";
        http2_heads_refused: Counter = "diglot_http2_heads_refused_total" [],
            "HTTP/2 requests answered with 431 because their heads were larger than limits.header_bytes.";
        draining: Gauge = "diglot_draining" [],
            "1 while the gateway is shutting down.";
        last_reload_ok: Gauge = "diglot_config_last_reload_successful" [],
            "1 while the configuration that was read last is in use, 0 after it was rejected.";
        last_reload_time: Gauge = "diglot_config_last_reload_success_timestamp_seconds" [],
            "Time at which the configuration in use was read.";
        config_info: Scoped<Gauge> = "diglot_config_info" [HASH],
            "Always 1; the beginning of the SHA-256 of the file in use is a label.";
        build_info: Scoped<Gauge> = "diglot_build_info" [VERSION],
            "Always 1; the version is a label.";
    }
}

/// Names, kinds and help of the `prometheus` crate's process metrics, available only on Linux.
const PROCESS_METRICS: [(&str, MetricKind, &str); 7] = [
    ("process_cpu_seconds_total", MetricKind::Counter, "Total user and system CPU time spent in seconds."),
    ("process_open_fds", MetricKind::Gauge, "Number of open file descriptors."),
    ("process_max_fds", MetricKind::Gauge, "Maximum number of open file descriptors."),
    ("process_virtual_memory_bytes", MetricKind::Gauge, "Virtual memory size in bytes."),
    ("process_resident_memory_bytes", MetricKind::Gauge, "Resident memory size in bytes."),
    ("process_start_time_seconds", MetricKind::Gauge, "Start time of the process since unix epoch in seconds."),
    ("process_threads", MetricKind::Gauge, "Number of OS threads in the process."),
];

/// All exposed metrics.
pub static CATALOGUE: LazyLock<Vec<MetricSpec>> = LazyLock::new(|| {
    let of_process =
        PROCESS_METRICS.map(|(name, kind, help)| MetricSpec { name, kind, labels: &[], help, buckets: &[] });
    GATEWAY_METRICS.iter().copied().chain(of_process).collect()
});

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn rows_have_unique_names_and_one_sentence_of_help() {
        let names: BTreeSet<&str> = CATALOGUE.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), CATALOGUE.len());
        for MetricSpec { name, labels, help, .. } in CATALOGUE.iter() {
            assert!(name.starts_with("diglot_") || name.starts_with("process_"), "{name}");
            assert!(help.ends_with('.') && !help.contains('\n'), "{name}: {help}");
            let own: BTreeSet<_> = labels.iter().map(|label| label.name).collect();
            assert_eq!(own.len(), labels.len(), "{name}: {labels:?}");
        }
    }

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
