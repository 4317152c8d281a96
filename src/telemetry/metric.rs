//! Every metric, in one table, and the handles that a run counts with.
//!
//! Labels come from closed lists: routes from the configuration, types from the dialect's table, the rest from enums. No
//! text of a client or an agent ever becomes a label. Handles are resolved when the configuration is loaded, so that
//! counting an event is one addition.

use super::label::{AuthMethod, AuthReason, Decision, Eviction, Refresh, UpstreamOutcome};
use super::upstream::{CONNECT_BUCKETS, NoneFitCounter, UpstreamMetrics};
use crate::dialect::{Dialect, Side, Sign};
use crate::translate::{Loss, Repair, Report};
use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
};
use std::sync::Arc;

mod listener;

pub use listener::ListenerMetrics;

/// One metric of the table.
struct Row {
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
}

const EVENTS: Row = Row {
    name: "diglot_events_total",
    help: "Events by route, direction (from_agent, to_client), dialect and type.",
    labels: &["route", "direction", "dialect", "type"],
};
const EVENT_BYTES: Row = Row {
    name: "diglot_event_bytes_total",
    help: "Bytes of event streams by route and direction (from_agent, to_client).",
    labels: &["route", "direction"],
};
const STREAMS_ACTIVE: Row = Row { name: "diglot_streams_active", help: "Runs that are open.", labels: &["route"] };
const STREAMS: Row =
    Row { name: "diglot_streams_total", help: "Runs that ended, by outcome.", labels: &["route", "outcome"] };
const REQUESTS: Row = Row {
    name: "diglot_requests_total",
    help: "Requests answered, by route and status; route is empty where none matched.",
    labels: &["route", "code"],
};
const REPAIRS: Row = Row {
    name: "diglot_repairs_total",
    help: "Events mended by the run guard, by repair.",
    labels: &["route", "repair"],
};
const LOSSES: Row =
    Row { name: "diglot_losses_total", help: "Events left out on purpose, by reason.", labels: &["route", "reason"] };
const AUTH: Row = Row {
    name: "diglot_auth_total",
    help: "Requests that were let in (result accepted) or not (refused), by how their caller showed who it is, and why.",
    labels: &["route", "method", "result", "reason"],
};
const RATE_LIMIT: Row = Row {
    name: "diglot_ratelimit_total",
    help: "Requests by limit and what became of them; the caps of streams are streams:all, streams:route and streams:caller.",
    labels: &["policy", "decision"],
};
const RATE_LIMIT_KEYS: Row =
    Row { name: "diglot_ratelimit_keys", help: "Callers that limits are counted for.", labels: &[] };
const RATE_LIMIT_ERRORS: Row = Row {
    name: "diglot_ratelimit_backend_errors_total",
    help: "Times that the shared quotas could not be asked.",
    labels: &[],
};
const JWKS_KEYS: Row =
    Row { name: "diglot_jwks_keys", help: "Keys of an issuer that are in use.", labels: &["issuer"] };
const JWKS_SUCCESS: Row = Row {
    name: "diglot_jwks_last_success_timestamp_seconds",
    help: "When keys of an issuer last came; 0 before the first time.",
    labels: &["issuer"],
};
const JWKS_REFRESHES: Row = Row {
    name: "diglot_jwks_refreshes_total",
    help: "Attempts to fetch the keys of an issuer, by result.",
    labels: &["issuer", "result"],
};
const REPLAY_RUNS: Row =
    Row { name: "diglot_replay_runs", help: "Runs that are kept for clients that come back.", labels: &[] };
const REPLAY_BYTES: Row = Row { name: "diglot_replay_bytes", help: "What they take in memory.", labels: &[] };
const REPLAY_EVICTIONS: Row = Row {
    name: "diglot_replay_evictions_total",
    help: "Runs that are kept no longer, or can be come back to no longer, by reason.",
    labels: &["reason"],
};
const UPSTREAM_UP: Row = Row {
    name: "diglot_upstream_up",
    help: "1 while an upstream of a route is asked for runs, 0 while all its addresses are unhealthy, left out or unknown.",
    labels: &["route", "upstream"],
};
const UPSTREAM_EJECTIONS: Row = Row {
    name: "diglot_upstream_ejections_total",
    help: "Times that an address of an upstream was left out because its runs failed.",
    labels: &["route", "upstream"],
};
const UPSTREAM_NONE_FIT: Row = Row {
    name: "diglot_upstream_none_fit_total",
    help: "Runs for which every upstream of the route was unhealthy or left out, so that all were tried.",
    labels: &["route"],
};
const UPSTREAM_REQUESTS: Row = Row {
    name: "diglot_upstream_requests_total",
    help: "Requests to upstreams by what became of them, up to the head of the answer; each attempt counts.",
    labels: &["upstream", "outcome"],
};
const UPSTREAM_CONNECT: Row = Row {
    name: "diglot_upstream_connect_seconds",
    help: "How long new connections to upstreams took, TLS included; kept connections are not among them.",
    labels: &["upstream"],
};
const REPLAY_FOLLOWED: Row =
    Row { name: "diglot_replay_followed", help: "Runs of other replicas that are read here.", labels: &[] };
const REPLAY_ERRORS: Row = Row {
    name: "diglot_replay_backend_errors_total",
    help: "Questions about shared runs that Redis did not answer in time.",
    labels: &[],
};
const DRAINING: Row = Row { name: "diglot_draining", help: "1 while the gateway is shutting down.", labels: &[] };
const CONFIG_GOOD: Row = Row {
    name: "diglot_config_last_reload_successful",
    help: "1 while the configuration that was read last is in use; 0 when it was refused.",
    labels: &[],
};
const CONFIG_TIME: Row = Row {
    name: "diglot_config_last_reload_success_timestamp_seconds",
    help: "When the configuration that is in use was read.",
    labels: &[],
};
const CONFIG: Row = Row {
    name: "diglot_config_info",
    help: "Always 1; the beginning of the SHA-256 of the file in use is a label.",
    labels: &["hash"],
};
const BUILD: Row = Row { name: "diglot_build_info", help: "Always 1; the version is a label.", labels: &["version"] };

/// How a run ended, as its client saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// the agent said RUN_FINISHED
    Finished,
    /// the agent said RUN_ERROR
    AgentError,
    /// the agent failed, and the gateway said RUN_ERROR or refused
    UpstreamError,
    /// the client left before the end
    ClientGone,
    /// nobody came for the events of a run in two steps
    Unread,
    /// the gateway was shutting down
    Drained,
    /// the caller's credential expired, and the route lets no run outlive it
    Expired,
    /// the run got as large or as long as the route lets it
    Limited,
    /// the caller stopped it
    Cancelled,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: &'static [Outcome] = &[
        Outcome::Finished,
        Outcome::AgentError,
        Outcome::UpstreamError,
        Outcome::ClientGone,
        Outcome::Unread,
        Outcome::Drained,
        Outcome::Expired,
        Outcome::Limited,
        Outcome::Cancelled,
    ];

    /// The label in metrics and logs.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Outcome::Finished => "finished",
            Outcome::AgentError => "agent_error",
            Outcome::UpstreamError => "upstream_error",
            Outcome::ClientGone => "client_gone",
            Outcome::Unread => "unread",
            Outcome::Drained => "drained",
            Outcome::Expired => "expired",
            Outcome::Limited => "limited",
            Outcome::Cancelled => "cancelled",
        }
    }
}

const FROM_AGENT: &str = "from_agent";
const TO_CLIENT: &str = "to_client";

/// The registry of the process and the metrics that have no route.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    events: IntCounterVec,
    event_bytes: IntCounterVec,
    streams_active: IntGaugeVec,
    streams: IntCounterVec,
    requests: IntCounterVec,
    repairs: IntCounterVec,
    losses: IntCounterVec,
    draining: IntGauge,
    config_good: IntGauge,
    config_time: IntGauge,
    config: IntGaugeVec,
    auth: IntCounterVec,
    rate_limit: IntCounterVec,
    rate_limit_keys: IntGauge,
    rate_limit_errors: IntCounter,
    jwks_keys: IntGaugeVec,
    jwks_success: IntGaugeVec,
    jwks_refreshes: IntCounterVec,
    listeners: listener::Vectors,
    replay: ReplayMetrics,
    upstream_up: IntGaugeVec,
    upstream_ejections: IntCounterVec,
    upstream_none_fit: IntCounterVec,
    upstream_requests: IntCounterVec,
    upstream_connect: HistogramVec,
}

/// The handles of one route.
#[derive(Debug)]
pub struct RouteMetrics {
    read: Handles,
    written: Handles,
    bytes_read: IntCounter,
    bytes_written: IntCounter,
    active: IntGauge,
    ended: Vec<IntCounter>,
    repairs: Vec<IntCounter>,
    losses: Vec<IntCounter>,
    /// by method, then by reason
    auth: Vec<Vec<IntCounter>>,
}

/// The handles of one limit.
#[derive(Debug)]
pub struct LimitMetrics(Vec<IntCounter>);

/// The handles of one issuer.
#[derive(Debug)]
pub struct IssuerMetrics {
    keys: IntGauge,
    success: IntGauge,
    refreshes: Vec<IntCounter>,
}

/// The handles of runs that are kept.
#[derive(Clone, Debug)]
pub struct ReplayMetrics {
    runs: IntGauge,
    bytes: IntGauge,
    evictions: Arc<[IntCounter]>,
    followed: IntGauge,
    errors: IntCounter,
}

/// Counters of events by type, for each dialect that a side may speak.
type Handles = Vec<(&'static str, Vec<IntCounter>)>;

impl Metrics {
    /// Registers the table.
    ///
    /// # Errors
    /// When two rows have one name; a test sees to it that they do not.
    pub fn new() -> prometheus::Result<Self> {
        let registry = Registry::new();
        let counters = |row: &Row| -> prometheus::Result<IntCounterVec> {
            let vec = IntCounterVec::new(Opts::new(row.name, row.help), row.labels)?;
            registry.register(Box::new(vec.clone()))?;
            Ok(vec)
        };
        let gauges = |row: &Row| -> prometheus::Result<IntGaugeVec> {
            let vec = IntGaugeVec::new(Opts::new(row.name, row.help), row.labels)?;
            registry.register(Box::new(vec.clone()))?;
            Ok(vec)
        };
        let gauge = |row: &Row| -> prometheus::Result<IntGauge> {
            let gauge = IntGauge::new(row.name, row.help)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok(gauge)
        };
        let histogram = |row: &Row, buckets: &[f64]| -> prometheus::Result<HistogramVec> {
            let options = HistogramOpts::new(row.name, row.help).buckets(buckets.to_vec());
            let vec = HistogramVec::new(options, row.labels)?;
            registry.register(Box::new(vec.clone()))?;
            Ok(vec)
        };
        let rate_limit_errors = IntCounter::new(RATE_LIMIT_ERRORS.name, RATE_LIMIT_ERRORS.help)?;
        registry.register(Box::new(rate_limit_errors.clone()))?;
        let replay_errors = IntCounter::new(REPLAY_ERRORS.name, REPLAY_ERRORS.help)?;
        registry.register(Box::new(replay_errors.clone()))?;
        gauges(&BUILD)?.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        #[cfg(target_os = "linux")]
        registry.register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))?;
        Ok(Metrics {
            events: counters(&EVENTS)?,
            event_bytes: counters(&EVENT_BYTES)?,
            streams_active: gauges(&STREAMS_ACTIVE)?,
            streams: counters(&STREAMS)?,
            requests: counters(&REQUESTS)?,
            repairs: counters(&REPAIRS)?,
            losses: counters(&LOSSES)?,
            draining: gauge(&DRAINING)?,
            config_good: gauge(&CONFIG_GOOD)?,
            config_time: gauge(&CONFIG_TIME)?,
            config: gauges(&CONFIG)?,
            auth: counters(&AUTH)?,
            rate_limit: counters(&RATE_LIMIT)?,
            rate_limit_keys: gauge(&RATE_LIMIT_KEYS)?,
            rate_limit_errors,
            jwks_keys: gauges(&JWKS_KEYS)?,
            jwks_success: gauges(&JWKS_SUCCESS)?,
            jwks_refreshes: counters(&JWKS_REFRESHES)?,
            listeners: listener::Vectors::register(&registry)?,
            replay: ReplayMetrics {
                runs: gauge(&REPLAY_RUNS)?,
                bytes: gauge(&REPLAY_BYTES)?,
                evictions: {
                    let counters = counters(&REPLAY_EVICTIONS)?;
                    Eviction::ALL.iter().map(|one| counters.with_label_values(&[one.label()])).collect()
                },
                followed: gauge(&REPLAY_FOLLOWED)?,
                errors: replay_errors,
            },
            upstream_up: gauges(&UPSTREAM_UP)?,
            upstream_ejections: counters(&UPSTREAM_EJECTIONS)?,
            upstream_none_fit: counters(&UPSTREAM_NONE_FIT)?,
            upstream_requests: counters(&UPSTREAM_REQUESTS)?,
            upstream_connect: histogram(&UPSTREAM_CONNECT, CONNECT_BUCKETS)?,
            registry,
        })
    }

    /// Resolves the handles of a route; every series of it exists from then on.
    #[must_use]
    pub fn route(&self, name: &str, client: Side, agent: Side) -> Arc<RouteMetrics> {
        let events = |direction: &str, side: Side| -> Handles {
            let counters = |dialect: &Dialect| {
                let labels = dialect.labels();
                let labels = labels.iter();
                labels.map(|kind| self.events.with_label_values(&[name, direction, dialect.name, kind])).collect()
            };
            side.dialects().into_iter().map(|dialect| (dialect.name, counters(dialect))).collect()
        };
        Arc::new(RouteMetrics {
            read: events(FROM_AGENT, agent),
            written: events(TO_CLIENT, client),
            bytes_read: self.event_bytes.with_label_values(&[name, FROM_AGENT]),
            bytes_written: self.event_bytes.with_label_values(&[name, TO_CLIENT]),
            active: self.streams_active.with_label_values(&[name]),
            ended: Outcome::ALL.iter().map(|one| self.streams.with_label_values(&[name, one.label()])).collect(),
            repairs: Repair::ALL.iter().map(|one| self.repairs.with_label_values(&[name, one.label()])).collect(),
            losses: Loss::ALL.iter().map(|one| self.losses.with_label_values(&[name, one.label()])).collect(),
            auth: AuthMethod::ALL.iter().map(|method| self.auth(name, *method)).collect(),
        })
    }

    fn auth(&self, route: &str, method: AuthMethod) -> Vec<IntCounter> {
        let counter = |reason: &AuthReason| {
            let result = if *reason == AuthReason::Accepted { "accepted" } else { "refused" };
            self.auth.with_label_values(&[route, method.label(), result, reason.label()])
        };
        AuthReason::ALL.iter().map(counter).collect()
    }

    /// Resolves the handles of a limit; every series of it exists from then on.
    #[must_use]
    pub fn limit(&self, policy: &str) -> LimitMetrics {
        let counter = |one: &Decision| self.rate_limit.with_label_values(&[policy, one.label()]);
        LimitMetrics(Decision::ALL.iter().map(counter).collect())
    }

    /// Says for how many callers limits are counted.
    pub fn limit_keys(&self, count: usize) {
        self.rate_limit_keys.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Counts that the shared quotas could not be asked.
    pub fn limit_backend_error(&self) {
        self.rate_limit_errors.inc();
    }

    /// Resolves the handles of an issuer; every series of it exists from then on.
    #[must_use]
    pub fn issuer(&self, name: &str) -> IssuerMetrics {
        let refreshes = |one: &Refresh| self.jwks_refreshes.with_label_values(&[name, one.label()]);
        IssuerMetrics {
            keys: self.jwks_keys.with_label_values(&[name]),
            success: self.jwks_success.with_label_values(&[name]),
            refreshes: Refresh::ALL.iter().map(refreshes).collect(),
        }
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
        let requests = |one: &UpstreamOutcome| self.upstream_requests.with_label_values(&[upstream, one.label()]);
        UpstreamMetrics {
            up: self.upstream_up.with_label_values(&[route, upstream]),
            ejections: self.upstream_ejections.with_label_values(&[route, upstream]),
            connect: self.upstream_connect.with_label_values(&[upstream]),
            requests: UpstreamOutcome::ALL.iter().map(requests).collect(),
        }
    }

    /// The counter of runs of a route that found every upstream unfit.
    #[must_use]
    pub fn none_fit(&self, route: &str) -> NoneFitCounter {
        NoneFitCounter(self.upstream_none_fit.with_label_values(&[route]))
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

    /// Takes an issuer that is gone out of the series: its keys are in use no more.
    pub fn forget_issuer(&self, name: &str) {
        // A series that is not there need not be taken out.
        let _ = self.jwks_keys.remove_label_values(&[name]);
        let _ = self.jwks_success.remove_label_values(&[name]);
    }

    /// The text exposition format.
    #[must_use]
    pub fn render(&self) -> String {
        TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap_or_default()
    }
}

impl ReplayMetrics {
    /// Says how many runs are kept.
    pub fn runs(&self, count: usize) {
        self.runs.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Says how much they take, in bytes.
    pub fn bytes(&self, bytes: usize) {
        self.bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Counts a run that is kept no longer.
    pub fn evicted(&self, reason: Eviction) {
        self.evictions[reason as usize].inc();
    }

    /// A run of another replica is read here.
    pub fn follows(&self) {
        self.followed.inc();
    }

    /// It is not any more.
    pub fn left(&self) {
        self.followed.dec();
    }

    /// Counts a question that had no answer.
    pub fn unanswered(&self) {
        self.errors.inc();
    }
}

impl LimitMetrics {
    /// Counts what became of a request.
    pub fn decided(&self, decision: Decision) {
        self.0[decision as usize].inc();
    }
}

impl IssuerMetrics {
    /// Counts an attempt to fetch keys. Of one that brought some: how many are in use, and when that was, in seconds since
    /// the epoch.
    pub fn refreshed(&self, brought: Option<(usize, i64)>) {
        let result = if let Some((keys, at)) = brought {
            self.keys.set(i64::try_from(keys).unwrap_or(i64::MAX));
            self.success.set(at);
            Refresh::Fetched
        } else {
            Refresh::Failed
        };
        self.refreshes[result as usize].inc();
    }
}

/// What a run said in all, for its line in the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// events for the client
    pub events: u64,
    /// repairs of the run guard
    pub repairs: u64,
    /// events left out on purpose
    pub losses: u64,
    /// events of another dialect than the agent's
    pub foreign: u64,
}

impl RouteMetrics {
    /// Counts a run as open until the returned value is dropped.
    #[must_use]
    pub fn open(self: &Arc<Self>) -> Active {
        self.active.inc();
        Active(Arc::clone(self))
    }

    /// Counts what of a request the agent's dialect cannot take.
    pub fn downgraded(&self, count: u64) {
        self.losses[Loss::Downgraded as usize].inc_by(count);
    }

    /// Counts a caller that was let in, or not.
    pub fn authenticated(&self, method: AuthMethod, reason: AuthReason) {
        self.auth[method as usize][reason as usize].inc();
    }

    /// Counts how a run ended.
    pub fn ended(&self, outcome: Outcome) {
        self.ended[outcome as usize].inc();
    }

    /// Counts bytes that came from the agent.
    pub fn bytes_read(&self, bytes: usize) {
        self.bytes_read.inc_by(bytes as u64);
    }

    /// Counts bytes that are for the client.
    pub fn bytes_written(&self, bytes: usize) {
        self.bytes_written.inc_by(bytes as u64);
    }

    /// Counts what `report` says, takes it out of there, and adds it to `totals`. Gives the sign by which the agent turned out
    /// to speak another dialect, if it did since.
    pub fn count(&self, report: &mut Report, totals: &mut Totals) -> Option<&'static Sign> {
        let turned = report.turned.take().map(|mut turned| {
            drain(&mut turned.read, of(&self.read, turned.from));
            turned.sign
        });
        drain(&mut report.read, of(&self.read, report.agent));
        totals.events += drain(&mut report.written, of(&self.written, report.client));
        totals.foreign += report.repairs[Repair::ForeignType as usize];
        totals.repairs += drain(&mut report.repairs, &self.repairs);
        totals.losses += drain(&mut report.losses, &self.losses);
        turned
    }
}

/// The counters of one dialect.
fn of<'h>(handles: &'h Handles, dialect: &str) -> &'h [IntCounter] {
    handles.iter().find(|(name, _)| *name == dialect).map_or(&[], |(_, counters)| counters)
}

fn drain(counts: &mut [u64], counters: &[IntCounter]) -> u64 {
    let mut sum = 0;
    for (count, counter) in counts.iter_mut().zip(counters).filter(|(count, _)| **count != 0) {
        counter.inc_by(*count);
        sum += std::mem::take(count);
    }
    sum
}

/// A run that is counted as open.
#[derive(Debug)]
pub struct Active(Arc<RouteMetrics>);

impl Drop for Active {
    fn drop(&mut self) {
        self.0.active.dec();
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

    #[test]
    fn a_report_is_counted_once() {
        let metrics = Metrics::new().expect("unique names");
        let route = metrics.route("r", Side::new(&AG_UI), Side::new(&HAI));
        let mut report = Report { agent: HAI.name, read: vec![0; HAI.labels().len()].into(), ..Report::default() };
        let mut totals = Totals::default();
        for said in [2, 1, 0] {
            report.read[0] += said;
            report.repairs[0] += said;
            route.count(&mut report, &mut totals);
        }
        assert_eq!((of(&route.read, HAI.name)[0].get(), route.repairs[0].get(), totals.repairs), (3, 3, 3));
    }
}
