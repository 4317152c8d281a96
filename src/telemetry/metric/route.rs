//! Metrics of a route: what a run on it counts with.

use super::cell::{Counter, Gauge, Histogram};
use super::family::{Family, ForgetSeries};
use super::label_specs::{LOSSES, LabelListFn, REPAIRS};
use super::lazy_series::{LabelList, LazySeries};
use super::request::RequestMetrics;
use super::series_lease::SeriesLease;
use super::table;
use crate::dialect::{DetectionRule, Dialect, PeerDialect};
use crate::telemetry::label::{AuthMethod, AuthReason, AuthResult, EventDirection, RunOutcome};
use crate::translate::{EventLoss, EventRepair, TranslationReport};
use prometheus::Registry;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Credentials that are not accepted, as far as an alert may ask for them: there from the start. Whether a caller may do what
/// it wants is between it and the operator, and is counted when it comes.
const PREREGISTERED_REFUSALS: [(AuthMethod, &[AuthReason]); 3] = {
    use AuthReason::{
        Algorithm, Ambiguous, Audience, Claims, Critical, Expired, Issuer, KeysUnavailable, Malformed, Missing,
        NotYetValid, Signature, TooLarge, Type, UnknownApiKey, UnknownKey,
    };
    let tokens = &[
        Malformed,
        TooLarge,
        Algorithm,
        Type,
        Critical,
        Issuer,
        UnknownKey,
        Signature,
        Expired,
        NotYetValid,
        Audience,
        Claims,
        KeysUnavailable,
    ];
    [
        (AuthMethod::None, &[Missing, Ambiguous, Malformed]),
        (AuthMethod::Jwt, tokens),
        (AuthMethod::ApiKey, &[UnknownApiKey, TooLarge, Expired]),
    ]
};

/// The metrics of all routes.
#[derive(Debug)]
pub(super) struct RouteFamilies {
    events: Family<Counter>,
    bytes: Family<Counter>,
    active: Family<Gauge>,
    ended_runs: Family<Counter>,
    duration: Family<Histogram>,
    first_event: Family<Histogram>,
    gap: Family<Histogram>,
    translate: Family<Histogram>,
    repairs: Family<Counter>,
    losses: Family<Counter>,
    auth: Family<Counter>,
}

/// The handles of one route. Its series last as long as somebody has these.
#[derive(Debug)]
pub struct RouteMetrics {
    read_events: EventCounters,
    written_events: EventCounters,
    bytes_read: Counter,
    bytes_written: Counter,
    active: Gauge,
    ended_runs: Vec<Counter>,
    duration: LazySeries<LabelListFn, Histogram>,
    first_event: Histogram,
    gap: Histogram,
    translate: TranslationTimes,
    repairs: LazySeries<LabelListFn, Counter>,
    losses: LazySeries<LabelListFn, Counter>,
    auth: Vec<AuthCounters>,
    requests: RequestMetrics,
    _lease: SeriesLease,
}

/// Counters of events by type, for each dialect that a side may speak.
#[derive(Debug)]
struct EventCounters(Vec<(&'static str, LazySeries<&'static Dialect, Counter>)>);

/// Times of translation, for each two dialects that the sides may speak.
#[derive(Debug)]
struct TranslationTimes {
    family: Family<Histogram>,
    pairs: Vec<(&'static str, &'static str, OnceLock<Histogram>)>,
}

/// Counters of callers who came with a credential of one kind.
#[derive(Debug)]
struct AuthCounters {
    accepted: Counter,
    refused: LazySeries<LabelListFn, Counter>,
}

impl RouteFamilies {
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(RouteFamilies {
            events: table::EVENTS.register(registry)?,
            bytes: table::EVENT_BYTES.register(registry)?,
            active: table::STREAMS_ACTIVE.register(registry)?,
            ended_runs: table::STREAMS.register(registry)?,
            duration: table::STREAM_DURATION.register(registry)?,
            first_event: table::STREAM_FIRST_EVENT.register(registry)?,
            gap: table::STREAM_EVENT_GAP.register(registry)?,
            translate: table::TRANSLATE.register(registry)?,
            repairs: table::REPAIRS.register(registry)?,
            losses: table::LOSSES.register(registry)?,
            auth: table::AUTH.register(registry)?,
        })
    }

    /// What of it lasts as long as its route. There is one time of translation for each two dialects, so it stays.
    pub(super) fn route_scoped_families(&self) -> [Box<dyn ForgetSeries>; 10] {
        [
            Box::new(self.events.clone()),
            Box::new(self.bytes.clone()),
            Box::new(self.active.clone()),
            Box::new(self.ended_runs.clone()),
            Box::new(self.duration.clone()),
            Box::new(self.first_event.clone()),
            Box::new(self.gap.clone()),
            Box::new(self.repairs.clone()),
            Box::new(self.losses.clone()),
            Box::new(self.auth.clone()),
        ]
    }

    /// Resolves the handles of a route. What an alert may ask for is there from then on, and the rest once it is counted.
    pub(super) fn for_route(
        &self,
        lease: SeriesLease,
        requests: RequestMetrics,
        name: &str,
        (client, agent): (PeerDialect, PeerDialect),
    ) -> RouteMetrics {
        let bytes = |direction: EventDirection| self.bytes.with_label_values(&[name, direction.label()]);
        RouteMetrics {
            read_events: self.event_counters(name, EventDirection::FromAgent, agent),
            written_events: self.event_counters(name, EventDirection::ToClient, client),
            bytes_read: bytes(EventDirection::FromAgent),
            bytes_written: bytes(EventDirection::ToClient),
            active: self.active.with_label_values(&[name]),
            ended_runs: RunOutcome::ALL
                .iter()
                .map(|one| self.ended_runs.with_label_values(&[name, one.label()]))
                .collect(),
            duration: LazySeries::new(&self.duration, &[name], RunOutcome::names),
            first_event: self.first_event.with_label_values(&[name]),
            gap: self.gap.with_label_values(&[name]),
            translate: TranslationTimes::new(&self.translate, client, agent),
            repairs: LazySeries::new(&self.repairs, &[name], REPAIRS).create_all(),
            losses: LazySeries::new(&self.losses, &[name], LOSSES).create_all(),
            auth: AuthMethod::ALL.iter().map(|method| self.auth_counters(name, *method)).collect(),
            requests,
            _lease: lease,
        }
    }

    fn event_counters(&self, route: &str, direction: EventDirection, side: PeerDialect) -> EventCounters {
        let counters = |dialect: &'static Dialect| {
            (dialect.name, LazySeries::new(&self.events, &[route, direction.label(), dialect.name], dialect))
        };
        EventCounters(side.possible_dialects().into_iter().map(counters).collect())
    }

    fn auth_counters(&self, route: &str, method: AuthMethod) -> AuthCounters {
        let (accepted, refused) = (AuthResult::Accepted.label(), AuthResult::Refused.label());
        let refused = LazySeries::new(&self.auth, &[route, method.label(), refused], AuthReason::names as LabelListFn);
        let early = PREREGISTERED_REFUSALS.iter().filter(|(own, _)| *own == method);
        early.flat_map(|(_, reasons)| *reasons).for_each(|reason| {
            refused.series_at(*reason as usize);
        });
        let accepted = self.auth.with_label_values(&[route, method.label(), accepted, AuthReason::Accepted.label()]);
        AuthCounters { accepted, refused }
    }
}

impl EventCounters {
    /// The counters of one dialect.
    fn for_dialect(&self, dialect: &str) -> Option<&LazySeries<&'static Dialect, Counter>> {
        self.0.iter().find(|(name, _)| *name == dialect).map(|(_, counters)| counters)
    }
}

impl TranslationTimes {
    fn new(family: &Family<Histogram>, client: PeerDialect, agent: PeerDialect) -> Self {
        let clients = client.possible_dialects().into_iter();
        let with = |client: &Dialect| {
            let name = client.name;
            agent.possible_dialects().into_iter().map(move |agent| (name, agent.name, OnceLock::new()))
        };
        TranslationTimes { family: family.clone(), pairs: clients.flat_map(with).collect() }
    }

    fn observe(&self, client: &str, agent: &str, took: Duration) {
        if let Some((.., times)) = self.pairs.iter().find(|(one, other, _)| (*one, *other) == (client, agent)) {
            times.get_or_init(|| self.family.with_label_values(&[client, agent])).observe(took);
        }
    }
}

/// What a run said in all, for its line in the log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunTotals {
    /// events of the agent
    pub(crate) events_in: u64,
    /// events for the client
    pub(crate) events_out: u64,
    /// repairs of the run guard
    pub(crate) repairs: u64,
    /// events left out on purpose
    pub(crate) losses: u64,
    /// events of another dialect than the agent's
    pub(crate) foreign: u64,
}

impl RouteMetrics {
    /// The handles of its requests.
    #[must_use]
    pub(crate) fn requests(&self) -> &RequestMetrics {
        &self.requests
    }

    /// Counts a run as open until the returned value is dropped.
    #[must_use]
    pub(crate) fn open_run(self: &Arc<Self>) -> OpenRunGuard {
        self.active.inc();
        OpenRunGuard(Arc::clone(self))
    }

    /// Counts what of a request the agent's dialect cannot take.
    pub(crate) fn inc_downgraded(&self, count: u64) {
        self.losses.series_at(EventLoss::Downgraded as usize).inc_by(count);
    }

    /// Counts a caller that was let in, or not.
    pub(crate) fn inc_auth(&self, method: AuthMethod, reason: AuthReason) {
        let auth = &self.auth[method as usize];
        let count =
            if reason == AuthReason::Accepted { &auth.accepted } else { auth.refused.series_at(reason as usize) };
        count.inc();
    }

    /// Counts how a run ended, and how long it took.
    pub(crate) fn record_end(&self, outcome: RunOutcome, took: Duration) {
        self.ended_runs[outcome as usize].inc();
        self.duration.series_at(outcome as usize).observe(took);
    }

    /// Notes how long the client waited for its first event.
    pub(crate) fn observe_first_event(&self, after: Duration) {
        self.first_event.observe(after);
    }

    /// Notes how long the agent took for what it said next.
    pub(crate) fn observe_gap(&self, waited: Duration) {
        self.gap.observe(waited);
    }

    /// Notes how long it took to translate what was read, as `report` says from what and into what.
    pub(crate) fn observe_translation(&self, report: &TranslationReport, took: Duration) {
        self.translate.observe(report.client, report.agent, took);
    }

    /// Counts bytes that came from the agent.
    pub(crate) fn inc_bytes_read(&self, bytes: usize) {
        self.bytes_read.inc_by(bytes as u64);
    }

    /// Counts bytes that are for the client.
    pub(crate) fn inc_bytes_written(&self, bytes: usize) {
        self.bytes_written.inc_by(bytes as u64);
    }

    /// Counts what `report` says, takes it out of there, and adds it to `totals`. Gives the sign by which the agent turned out
    /// to speak another dialect, if it did since.
    pub(crate) fn count_report(
        &self,
        report: &mut TranslationReport,
        totals: &mut RunTotals,
    ) -> Option<&'static DetectionRule> {
        let turned = report.dialect_switch.take().map(|mut turned| {
            totals.events_in +=
                count_events(&mut turned.events_read, self.read_events.for_dialect(turned.from_dialect));
            turned.rule
        });
        totals.events_in += count_events(&mut report.events_read, self.read_events.for_dialect(report.agent));
        totals.events_out += count_events(&mut report.events_written, self.written_events.for_dialect(report.client));
        totals.foreign += report.repairs[EventRepair::ForeignType as usize];
        totals.repairs += drain_counts(&mut report.repairs, &self.repairs);
        totals.losses += drain_counts(&mut report.losses, &self.losses);
        turned
    }
}

/// Counts events by their types. A dialect that the route cannot have is nobody's.
fn count_events(counts: &mut [u64], counters: Option<&LazySeries<&'static Dialect, Counter>>) -> u64 {
    counters.map_or(0, |counters| drain_counts(counts, counters))
}

fn drain_counts<N: LabelList>(counts: &mut [u64], counters: &LazySeries<N, Counter>) -> u64 {
    let mut sum = 0;
    for (place, count) in counts.iter_mut().enumerate().filter(|(_, count)| **count != 0) {
        counters.series_at(place).inc_by(*count);
        sum += std::mem::take(count);
    }
    sum
}

/// A run that is counted as open.
#[derive(Debug)]
pub(crate) struct OpenRunGuard(Arc<RouteMetrics>);

impl Drop for OpenRunGuard {
    fn drop(&mut self) {
        self.0.active.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::super::Metrics;
    use super::*;
    use crate::dialect::{AG_UI, HAI};

    #[test]
    fn counts_a_report_once() {
        let metrics = Metrics::new().expect("unique names");
        let route = metrics.route("r", PeerDialect::new(&AG_UI), PeerDialect::new(&HAI));
        let mut report = TranslationReport {
            agent: HAI.name,
            events_read: vec![0; HAI.labels().len()].into(),
            ..TranslationReport::default()
        };
        let mut totals = RunTotals::default();
        for said in [2, 1, 0] {
            report.events_read[0] += said;
            report.repairs[0] += said;
            route.count_report(&mut report, &mut totals);
        }
        let read = route.read_events.for_dialect(HAI.name).expect("the agent's").series_at(0).get();
        assert_eq!((read, route.repairs.series_at(0).get(), totals.repairs), (3, 3, 3));
    }
}
