//! Per-route metrics.

use super::cell::{Counter, Histogram};
use super::request::RequestMetrics;
use super::series::{Lazy, LazySeries, Leased, Scoped};
use super::table::RouteSeries;
use crate::dialect::{DetectionRule, Dialect, PeerDialect};
use crate::telemetry::label::{AuthMethod, AuthReason, AuthResult, EventDirection, Label, RunOutcome};
use crate::translate::{EventCounts, EventLoss, EventRepair, TranslationReport};
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Returns whether alerts query this reason, so that its series must exist from the start.
fn is_preregistered(method: AuthMethod, reason: AuthReason) -> bool {
    use AuthReason::{
        Algorithm, Ambiguous, Audience, Claims, Critical, Expired, Issuer, KeysUnavailable, Malformed, Missing,
        NotYetValid, Signature, TooLarge, Type, UnknownApiKey, UnknownKey,
    };
    match method {
        AuthMethod::None => matches!(reason, Missing | Ambiguous | Malformed),
        AuthMethod::ApiKey => matches!(reason, UnknownApiKey | TooLarge | Expired),
        AuthMethod::Jwt => {
            let about_key = matches!(reason, Algorithm | Issuer | UnknownKey | Signature | KeysUnavailable);
            let about_content = matches!(reason, Expired | NotYetValid | Audience | Claims | Type | Critical);
            about_key || about_content || matches!(reason, Malformed | TooLarge)
        }
    }
}

/// Metrics of one route.
pub struct RouteMetrics {
    pub(crate) series: Leased<RouteSeries>,
    read_events: EventCounters,
    written_events: EventCounters,
    translate: TranslationTimes,
    auth: Vec<AuthCounters>,
    requests: RequestMetrics,
}

/// Event counters by type, for each of the route's dialects.
struct EventCounters(Vec<(&'static str, LazySeries<&'static Dialect, Counter>)>);

/// Translation time histograms, for each pair of client and agent dialects.
struct TranslationTimes {
    metric: Scoped<Histogram>,
    pairs: Vec<(&'static str, &'static str, OnceLock<Histogram>)>,
}

struct AuthCounters {
    accepted: Counter,
    refused: Lazy<AuthReason, Counter>,
}

impl EventCounters {
    fn new(events: &Scoped<Counter>, direction: EventDirection, peer: PeerDialect) -> EventCounters {
        let counters =
            |dialect: &'static Dialect| (dialect.name, events.lazy(&[direction.text(), dialect.name], dialect));
        EventCounters(peer.possible_dialects().into_iter().map(counters).collect())
    }

    fn for_dialect(&self, dialect: &str) -> Option<&LazySeries<&'static Dialect, Counter>> {
        self.0.iter().find(|(name, _)| is_same_name(name, dialect)).map(|(_, counters)| counters)
    }

    /// Moves the counts to the dialect's counters and returns their sum, or 0 if the route does not use the dialect.
    fn count(&self, counts: &mut EventCounts, dialect: &str) -> u64 {
        let Some(counters) = self.for_dialect(dialect) else { return 0 };
        let mut sum = 0;
        for (label, count) in counts.nonzero() {
            counters.at(label).inc_by(count);
            sum += count;
        }
        counts.clear();
        sum
    }
}

/// Compares the places of the names first: nearly all are those in the dialects' tables.
fn is_same_name(one: &str, other: &str) -> bool {
    std::ptr::eq(one, other) || one == other
}

impl TranslationTimes {
    fn new(metric: &Scoped<Histogram>, client: PeerDialect, agent: PeerDialect) -> Self {
        let agents: Vec<_> = agent.possible_dialects().into_iter().map(|agent| agent.name).collect();
        let with_agents =
            |client: &'static Dialect| agents.iter().map(move |agent| (client.name, *agent, OnceLock::new()));
        let pairs = client.possible_dialects().into_iter().flat_map(with_agents).collect();
        TranslationTimes { metric: metric.clone(), pairs }
    }

    fn observe(&self, client: &str, agent: &str, took: Duration) {
        let is_pair = |(own, other): (&str, &str)| is_same_name(own, client) && is_same_name(other, agent);
        if let Some((.., times)) = self.pairs.iter().find(|(own, other, _)| is_pair((own, other))) {
            times.get_or_init(|| self.metric.series(&[client, agent])).observe(took);
        }
    }
}

impl AuthCounters {
    fn new(auth: &Scoped<Counter>, method: AuthMethod) -> AuthCounters {
        let refused = auth.lazy(&[method.text(), AuthResult::Refused.text()], PhantomData::<AuthReason>);
        for reason in AuthReason::ALL.iter().filter(|reason| is_preregistered(method, **reason)) {
            refused.get(*reason);
        }
        let accepted = [method.text(), AuthResult::Accepted.text(), AuthReason::Accepted.text()];
        AuthCounters { accepted: auth.series(&accepted), refused }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunTotals {
    pub(crate) events_in: u64,
    pub(crate) events_out: u64,
    pub(crate) repairs: u64,
    /// content that was left out on purpose, or that the receiver does not show
    pub(crate) losses: u64,
    /// events in a dialect other than the agent's
    pub(crate) foreign: u64,
    /// dialect of the first of them
    pub(crate) foreign_dialect: Option<&'static str>,
    /// where the agent's dialect file has the content of frames, if no frame had any there
    pub(crate) missing_payload: Option<&'static str>,
    /// the kinds of repairs, as bits in the order of [`EventRepair`]
    pub(crate) repair_kinds: u32,
    /// the kinds of losses, as bits in the order of [`EventLoss`]
    pub(crate) loss_kinds: u32,
}

impl RunTotals {
    /// Lists the labels of the repairs made; `None` if there were none.
    pub(crate) fn repair_labels(&self) -> Option<String> {
        join_labels(self.repair_kinds, EventRepair::ALL.iter().map(|repair| repair.label()))
    }

    /// Lists the labels of the losses; `None` if there were none.
    pub(crate) fn loss_labels(&self) -> Option<String> {
        join_labels(self.loss_kinds, EventLoss::ALL.iter().map(|loss| loss.label()))
    }
}

/// Returns a bit for each count that is not 0.
pub(crate) fn nonzero_bits(counts: &[u32]) -> u32 {
    counts.iter().rev().fold(0, |bits, count| bits << 1 | u32::from(*count != 0))
}

fn join_labels(bits: u32, labels: impl Iterator<Item = &'static str>) -> Option<String> {
    (bits != 0).then(|| select_labels(bits, labels).join(", "))
}

/// Returns the labels whose bits are set.
pub(crate) fn select_labels(bits: u32, labels: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    labels.enumerate().filter(|(index, _)| bits >> index & 1 == 1).map(|(_, label)| label).collect()
}

impl RouteMetrics {
    pub(super) fn new(
        series: Leased<RouteSeries>,
        requests: RequestMetrics,
        translate: &Scoped<Histogram>,
        client: PeerDialect,
        agent: PeerDialect,
    ) -> RouteMetrics {
        RouteMetrics {
            read_events: EventCounters::new(&series.events, EventDirection::FromAgent, agent),
            written_events: EventCounters::new(&series.events, EventDirection::ToClient, client),
            translate: TranslationTimes::new(translate, client, agent),
            auth: AuthMethod::ALL.iter().map(|method| AuthCounters::new(&series.auth, *method)).collect(),
            requests,
            series,
        }
    }

    pub(crate) fn requests(&self) -> &RequestMetrics {
        &self.requests
    }

    /// Counts a run as open until the returned guard is dropped.
    pub(crate) fn open_run(self: &Arc<Self>) -> OpenRunGuard {
        self.series.active.inc();
        OpenRunGuard(Arc::clone(self))
    }

    pub(crate) fn inc_auth(&self, method: AuthMethod, reason: AuthReason) {
        let auth = &self.auth[method as usize];
        let count = if reason == AuthReason::Accepted { &auth.accepted } else { auth.refused.get(reason) };
        count.inc();
    }

    pub(crate) fn record_end(&self, outcome: RunOutcome, took: Duration) {
        self.series.ended_runs.get(outcome).inc();
        self.series.duration.get(outcome).observe(took);
    }

    pub(crate) fn observe_translation(&self, report: &TranslationReport, took: Duration) {
        self.translate.observe(report.client, report.agent, took);
    }

    /// Moves the counts in `report` to the metrics and to `totals`. Returns the rules by which the agent's dialect
    /// changed since the last call.
    pub(crate) fn count_report(
        &self,
        report: &mut TranslationReport,
        totals: &mut RunTotals,
    ) -> Vec<&'static DetectionRule> {
        let mut detected = Vec::new();
        for mut switch in std::mem::take(&mut report.dialect_switches) {
            totals.events_in += self.read_events.count(&mut switch.events_read, switch.from_dialect);
            detected.push(switch.rule);
        }
        totals.events_in += self.read_events.count(&mut report.events_read, report.agent);
        totals.events_out += self.written_events.count(&mut report.events_written, report.client);
        totals.foreign_dialect = totals.foreign_dialect.or(report.foreign_dialect);
        // Most events need no repair.
        if std::mem::replace(&mut report.counted_entries, report.entries) != report.entries {
            totals.foreign += u64::from(report.repairs[EventRepair::ForeignType as usize]);
            totals.repair_kinds |= nonzero_bits(&report.repairs);
            totals.loss_kinds |= nonzero_bits(&report.losses);
            totals.repairs += drain_counts(&mut report.repairs, |index| self.series.repairs.at(index));
            totals.losses += drain_counts(&mut report.losses, |index| self.series.losses.at(index));
        }
        detected
    }
}

/// Moves the counts to their counters and returns their sum.
fn drain_counts<'c>(counts: &mut [u32], counter: impl Fn(usize) -> &'c Counter) -> u64 {
    let mut sum = 0;
    for (index, count) in counts.iter_mut().enumerate().filter(|(_, count)| **count != 0) {
        let count = u64::from(std::mem::take(count));
        counter(index).inc_by(count);
        sum += count;
    }
    sum
}

pub(crate) struct OpenRunGuard(Arc<RouteMetrics>);

impl Drop for OpenRunGuard {
    fn drop(&mut self) {
        self.0.series.active.dec();
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
            events_read: EventCounts::new(HAI.labels().len()),
            ..TranslationReport::default()
        };
        let mut totals = RunTotals::default();
        for count in [2, 1, 0] {
            for _ in 0..count {
                report.events_read.add(0);
                report.events_read.add(1);
                report.count_repair(EventRepair::ALL[0]);
            }
            route.count_report(&mut report, &mut totals);
        }
        let counters = route.read_events.for_dialect(HAI.name).expect("the agent's");
        let read = [0, 1].map(|label| counters.at(label).get());
        assert_eq!((read, totals.events_in), ([3, 3], 6));
        assert_eq!((route.series.repairs.at(0).get(), totals.repairs), (3, 3));
    }
}
