//! Every metric: its name, its labels, what it says. One row each; nothing else of it is written twice.

use super::row::Row;
use prometheus::{HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

/// Bounds of the buckets of `diglot_upstream_connect_seconds`, in seconds: from a socket of this machine to the default
/// time-out of connecting and beyond.
const CONNECT_BUCKETS: &[f64] = &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// A row is `NAME: kind = "name" [labels], "help";`. A histogram says `within` which buckets it counts.
macro_rules! table {
    ($($row:ident: $kind:ty = $name:literal $labels:tt $(within $buckets:ident)?, $help:literal;)+) => {
        $(pub(super) const $row: Row<$kind> = Row::new($name, $help, &$labels)$(.within($buckets))?;)+

        /// The name, the labels and the help of every row.
        #[cfg(test)]
        const ROWS: &[(&str, &[&str], &str)] = &[$(($name, &$labels, $help)),+];
    };
}

#[rustfmt::skip]
table! {
    EVENTS: IntCounterVec = "diglot_events_total" ["route", "direction", "dialect", "type"],
        "Events by route, direction (from_agent, to_client), dialect and type.";
    EVENT_BYTES: IntCounterVec = "diglot_event_bytes_total" ["route", "direction"],
        "Bytes of event streams by route and direction (from_agent, to_client).";
    STREAMS_ACTIVE: IntGaugeVec = "diglot_streams_active" ["route"],
        "Runs that are open.";
    STREAMS: IntCounterVec = "diglot_streams_total" ["route", "outcome"],
        "Runs that ended, by outcome.";
    REQUESTS: IntCounterVec = "diglot_requests_total" ["route", "code"],
        "Requests answered, by route and status; route is empty where none matched.";
    REPAIRS: IntCounterVec = "diglot_repairs_total" ["route", "repair"],
        "Events mended by the run guard, by repair.";
    LOSSES: IntCounterVec = "diglot_losses_total" ["route", "reason"],
        "Events left out on purpose, by reason.";
    AUTH: IntCounterVec = "diglot_auth_total" ["route", "method", "result", "reason"],
        "Requests that were let in (result accepted) or not (refused), by how their caller showed who it is, and why.";
    RATE_LIMIT: IntCounterVec = "diglot_ratelimit_total" ["policy", "decision"],
        "Requests by limit and what became of them; the caps of streams are streams:all, streams:route and streams:caller.";
    RATE_LIMIT_KEYS: IntGauge = "diglot_ratelimit_keys" [],
        "Callers that limits are counted for.";
    RATE_LIMIT_ERRORS: IntCounter = "diglot_ratelimit_backend_errors_total" [],
        "Times that the shared quotas could not be asked.";
    JWKS_KEYS: IntGaugeVec = "diglot_jwks_keys" ["issuer"],
        "Keys of an issuer that are in use.";
    JWKS_SUCCESS: IntGaugeVec = "diglot_jwks_last_success_timestamp_seconds" ["issuer"],
        "When keys of an issuer last came; 0 before the first time.";
    JWKS_REFRESHES: IntCounterVec = "diglot_jwks_refreshes_total" ["issuer", "result"],
        "Attempts to fetch the keys of an issuer, by result.";
    CONNECTIONS: IntGaugeVec = "diglot_connections_active" ["plane", "listener"],
        "Connections that are open, by plane and listener.";
    CONNECTIONS_REFUSED: IntCounterVec = "diglot_connections_refused_total" ["plane", "listener", "reason"],
        "Connections that were closed before a request came on them, by plane, listener and reason.";
    ACCEPT_FAILURES: IntCounterVec = "diglot_accept_failures_total" ["plane", "listener"],
        "Times that no connection could be accepted, as without file descriptors, by plane and listener.";
    TLS_NOT_AFTER: IntGaugeVec = "diglot_tls_cert_not_after_timestamp_seconds" ["plane", "listener"],
        "When the certificate in use ends, or the one of its chain that ends first, by plane and listener.";
    TLS_RELOADS: IntCounterVec = "diglot_tls_reloads_total" ["plane", "listener", "result"],
        "Changes of certificate files, by plane, listener and result (taken, refused).";
    REPLAY_RUNS: IntGauge = "diglot_replay_runs" [],
        "Runs that are kept for clients that come back.";
    REPLAY_BYTES: IntGauge = "diglot_replay_bytes" [],
        "What the runs that are kept take in memory.";
    REPLAY_EVICTIONS: IntCounterVec = "diglot_replay_evictions_total" ["reason"],
        "Runs that are kept no longer, or can be come back to no longer, by reason.";
    REPLAY_FOLLOWED: IntGauge = "diglot_replay_followed" [],
        "Runs of other replicas that are read here.";
    REPLAY_ERRORS: IntCounter = "diglot_replay_backend_errors_total" [],
        "Questions about shared runs that Redis did not answer in time.";
    UPSTREAM_UP: IntGaugeVec = "diglot_upstream_up" ["route", "upstream"],
        "1 while an upstream of a route is asked for runs, 0 while all its addresses are unhealthy, left out or unknown.";
    UPSTREAM_EJECTIONS: IntCounterVec = "diglot_upstream_ejections_total" ["route", "upstream"],
        "Times that an address of an upstream was left out because its runs failed.";
    UPSTREAM_NONE_FIT: IntCounterVec = "diglot_upstream_none_fit_total" ["route"],
        "Runs for which every upstream of the route was unhealthy or left out, so that all were tried.";
    UPSTREAM_REQUESTS: IntCounterVec = "diglot_upstream_requests_total" ["upstream", "outcome"],
        "Requests to upstreams by what became of them, up to the head of the answer; each attempt counts.";
    UPSTREAM_CONNECT: HistogramVec = "diglot_upstream_connect_seconds" ["upstream"] within CONNECT_BUCKETS,
        "How long new connections to upstreams took, TLS included; kept connections are not among them.";
    SPANS_EXPORTED: IntCounter = "diglot_spans_exported_total" [],
        "Spans that the collector of traces took.";
    SPANS_DROPPED: IntCounterVec = "diglot_spans_dropped_total" ["reason"],
        "Spans that the collector of traces never gets, by reason: queue_full, not_taken.";
    DRAINING: IntGauge = "diglot_draining" [],
        "1 while the gateway is shutting down.";
    CONFIG_GOOD: IntGauge = "diglot_config_last_reload_successful" [],
        "1 while the configuration that was read last is in use; 0 when it was refused.";
    CONFIG_TIME: IntGauge = "diglot_config_last_reload_success_timestamp_seconds" [],
        "When the configuration that is in use was read.";
    CONFIG: IntGaugeVec = "diglot_config_info" ["hash"],
        "Always 1; the beginning of the SHA-256 of the file in use is a label.";
    BUILD: IntGaugeVec = "diglot_build_info" ["version"],
        "Always 1; the version is a label.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_row_has_a_name_of_its_own_and_says_what_it_is_in_a_sentence() {
        let names: BTreeSet<&str> = ROWS.iter().map(|(name, ..)| *name).collect();
        assert_eq!(names.len(), ROWS.len());
        for (name, labels, help) in ROWS {
            assert!(name.starts_with("diglot_"), "{name}");
            assert!(help.ends_with('.') && !help.contains('\n'), "{name}: {help}");
            assert_eq!(labels.iter().collect::<BTreeSet<_>>().len(), labels.len(), "{name}: {labels:?}");
        }
    }
}
