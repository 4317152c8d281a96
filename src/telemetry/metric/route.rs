//! Metrics of a route: what a run on it counts with.

use super::table;
use crate::dialect::{Dialect, Side, Sign};
use crate::telemetry::label::{AuthMethod, AuthReason, Outcome};
use crate::translate::{Loss, Repair, Report};
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry};
use std::sync::Arc;

const FROM_AGENT: &str = "from_agent";
const TO_CLIENT: &str = "to_client";

/// The metrics of all routes.
#[derive(Debug)]
pub(super) struct Vectors {
    events: IntCounterVec,
    bytes: IntCounterVec,
    active: IntGaugeVec,
    ended: IntCounterVec,
    repairs: IntCounterVec,
    losses: IntCounterVec,
    auth: IntCounterVec,
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

/// Counters of events by type, for each dialect that a side may speak.
type Handles = Vec<(&'static str, Vec<IntCounter>)>;

impl Vectors {
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Vectors {
            events: table::EVENTS.register(registry)?,
            bytes: table::EVENT_BYTES.register(registry)?,
            active: table::STREAMS_ACTIVE.register(registry)?,
            ended: table::STREAMS.register(registry)?,
            repairs: table::REPAIRS.register(registry)?,
            losses: table::LOSSES.register(registry)?,
            auth: table::AUTH.register(registry)?,
        })
    }

    /// Resolves the handles of a route; every series of it exists from then on.
    pub(super) fn route(&self, name: &str, client: Side, agent: Side) -> RouteMetrics {
        let events = |direction: &str, side: Side| -> Handles {
            let counters = |dialect: &Dialect| {
                let labels = dialect.labels();
                let labels = labels.iter();
                labels.map(|kind| self.events.with_label_values(&[name, direction, dialect.name, kind])).collect()
            };
            side.dialects().into_iter().map(|dialect| (dialect.name, counters(dialect))).collect()
        };
        RouteMetrics {
            read: events(FROM_AGENT, agent),
            written: events(TO_CLIENT, client),
            bytes_read: self.bytes.with_label_values(&[name, FROM_AGENT]),
            bytes_written: self.bytes.with_label_values(&[name, TO_CLIENT]),
            active: self.active.with_label_values(&[name]),
            ended: Outcome::ALL.iter().map(|one| self.ended.with_label_values(&[name, one.label()])).collect(),
            repairs: Repair::ALL.iter().map(|one| self.repairs.with_label_values(&[name, one.label()])).collect(),
            losses: Loss::ALL.iter().map(|one| self.losses.with_label_values(&[name, one.label()])).collect(),
            auth: AuthMethod::ALL.iter().map(|method| self.auth(name, *method)).collect(),
        }
    }

    fn auth(&self, route: &str, method: AuthMethod) -> Vec<IntCounter> {
        let counter = |reason: &AuthReason| {
            let result = if *reason == AuthReason::Accepted { "accepted" } else { "refused" };
            self.auth.with_label_values(&[route, method.label(), result, reason.label()])
        };
        AuthReason::ALL.iter().map(counter).collect()
    }
}

/// What a run said in all, for its line in the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// events of the agent
    pub events_in: u64,
    /// events for the client
    pub events_out: u64,
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
            totals.events_in += drain(&mut turned.read, of(&self.read, turned.from));
            turned.sign
        });
        totals.events_in += drain(&mut report.read, of(&self.read, report.agent));
        totals.events_out += drain(&mut report.written, of(&self.written, report.client));
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
    use super::super::Metrics;
    use super::*;
    use crate::dialect::{AG_UI, HAI};

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
