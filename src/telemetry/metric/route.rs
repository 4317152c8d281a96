//! Metrics of a route: what a run on it counts with.

use super::cell::{Counter, Gauge, Histogram};
use super::family::{Family, Forget};
use super::lazy::{Lazy, Names};
use super::lease::Lease;
use super::request::RequestMetrics;
use super::source::{LOSSES, List, REPAIRS};
use super::table;
use crate::dialect::{Dialect, Side, Sign};
use crate::telemetry::label::{AuthMethod, AuthReason, AuthResult, Direction, Outcome};
use crate::translate::{Loss, Repair, Report};
use prometheus::Registry;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Credentials that are not accepted, as far as an alert may ask for them: there from the start. Whether a caller may do what
/// it wants is between it and the operator, and is counted when it comes.
const REFUSED_FROM_THE_START: [(AuthMethod, &[AuthReason]); 3] = {
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
pub(super) struct Vectors {
    events: Family<Counter>,
    bytes: Family<Counter>,
    active: Family<Gauge>,
    ended: Family<Counter>,
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
    read: Events,
    written: Events,
    bytes_read: Counter,
    bytes_written: Counter,
    active: Gauge,
    ended: Vec<Counter>,
    duration: Lazy<List, Histogram>,
    first_event: Histogram,
    gap: Histogram,
    translate: Translate,
    repairs: Lazy<List, Counter>,
    losses: Lazy<List, Counter>,
    auth: Vec<Auth>,
    requests: RequestMetrics,
    _lease: Lease,
}

/// Counters of events by type, for each dialect that a side may speak.
#[derive(Debug)]
struct Events(Vec<(&'static str, Lazy<&'static Dialect, Counter>)>);

/// Times of translation, for each two dialects that the sides may speak.
#[derive(Debug)]
struct Translate {
    family: Family<Histogram>,
    pairs: Vec<(&'static str, &'static str, OnceLock<Histogram>)>,
}

/// Counters of callers who came with a credential of one kind.
#[derive(Debug)]
struct Auth {
    accepted: Counter,
    refused: Lazy<List, Counter>,
}

impl Vectors {
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Vectors {
            events: table::EVENTS.register(registry)?,
            bytes: table::EVENT_BYTES.register(registry)?,
            active: table::STREAMS_ACTIVE.register(registry)?,
            ended: table::STREAMS.register(registry)?,
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
    pub(super) fn families(&self) -> [Box<dyn Forget>; 10] {
        [
            Box::new(self.events.clone()),
            Box::new(self.bytes.clone()),
            Box::new(self.active.clone()),
            Box::new(self.ended.clone()),
            Box::new(self.duration.clone()),
            Box::new(self.first_event.clone()),
            Box::new(self.gap.clone()),
            Box::new(self.repairs.clone()),
            Box::new(self.losses.clone()),
            Box::new(self.auth.clone()),
        ]
    }

    /// Resolves the handles of a route. What an alert may ask for is there from then on, and the rest once it is counted.
    pub(super) fn route(
        &self,
        lease: Lease,
        requests: RequestMetrics,
        name: &str,
        (client, agent): (Side, Side),
    ) -> RouteMetrics {
        let bytes = |direction: Direction| self.bytes.with(&[name, direction.label()]);
        RouteMetrics {
            read: self.events(name, Direction::FromAgent, agent),
            written: self.events(name, Direction::ToClient, client),
            bytes_read: bytes(Direction::FromAgent),
            bytes_written: bytes(Direction::ToClient),
            active: self.active.with(&[name]),
            ended: Outcome::ALL.iter().map(|one| self.ended.with(&[name, one.label()])).collect(),
            duration: Lazy::new(&self.duration, &[name], Outcome::names),
            first_event: self.first_event.with(&[name]),
            gap: self.gap.with(&[name]),
            translate: Translate::new(&self.translate, client, agent),
            repairs: Lazy::new(&self.repairs, &[name], REPAIRS).made(),
            losses: Lazy::new(&self.losses, &[name], LOSSES).made(),
            auth: AuthMethod::ALL.iter().map(|method| self.auth(name, *method)).collect(),
            requests,
            _lease: lease,
        }
    }

    fn events(&self, route: &str, direction: Direction, side: Side) -> Events {
        let counters = |dialect: &'static Dialect| {
            (dialect.name, Lazy::new(&self.events, &[route, direction.label(), dialect.name], dialect))
        };
        Events(side.dialects().into_iter().map(counters).collect())
    }

    fn auth(&self, route: &str, method: AuthMethod) -> Auth {
        let (accepted, refused) = (AuthResult::Accepted.label(), AuthResult::Refused.label());
        let refused = Lazy::new(&self.auth, &[route, method.label(), refused], AuthReason::names as List);
        let early = REFUSED_FROM_THE_START.iter().filter(|(own, _)| *own == method);
        early.flat_map(|(_, reasons)| *reasons).for_each(|reason| {
            refused.at(*reason as usize);
        });
        let accepted = self.auth.with(&[route, method.label(), accepted, AuthReason::Accepted.label()]);
        Auth { accepted, refused }
    }
}

impl Events {
    /// The counters of one dialect.
    fn of(&self, dialect: &str) -> Option<&Lazy<&'static Dialect, Counter>> {
        self.0.iter().find(|(name, _)| *name == dialect).map(|(_, counters)| counters)
    }
}

impl Translate {
    fn new(family: &Family<Histogram>, client: Side, agent: Side) -> Self {
        let clients = client.dialects().into_iter();
        let with = |client: &Dialect| {
            let name = client.name;
            agent.dialects().into_iter().map(move |agent| (name, agent.name, OnceLock::new()))
        };
        Translate { family: family.clone(), pairs: clients.flat_map(with).collect() }
    }

    fn observe(&self, client: &str, agent: &str, took: Duration) {
        if let Some((.., times)) = self.pairs.iter().find(|(one, other, _)| (*one, *other) == (client, agent)) {
            times.get_or_init(|| self.family.with(&[client, agent])).observe(took);
        }
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
    /// The handles of its requests.
    #[must_use]
    pub fn requests(&self) -> &RequestMetrics {
        &self.requests
    }

    /// Counts a run as open until the returned value is dropped.
    #[must_use]
    pub fn open(self: &Arc<Self>) -> Active {
        self.active.inc();
        Active(Arc::clone(self))
    }

    /// Counts what of a request the agent's dialect cannot take.
    pub fn downgraded(&self, count: u64) {
        self.losses.at(Loss::Downgraded as usize).inc_by(count);
    }

    /// Counts a caller that was let in, or not.
    pub fn authenticated(&self, method: AuthMethod, reason: AuthReason) {
        let auth = &self.auth[method as usize];
        let count = if reason == AuthReason::Accepted { &auth.accepted } else { auth.refused.at(reason as usize) };
        count.inc();
    }

    /// Counts how a run ended, and how long it took.
    pub fn ended(&self, outcome: Outcome, took: Duration) {
        self.ended[outcome as usize].inc();
        self.duration.at(outcome as usize).observe(took);
    }

    /// Notes how long the client waited for its first event.
    pub fn first_event(&self, after: Duration) {
        self.first_event.observe(after);
    }

    /// Notes how long the agent took for what it said next.
    pub fn gap(&self, waited: Duration) {
        self.gap.observe(waited);
    }

    /// Notes how long it took to translate what was read, as `report` says from what and into what.
    pub fn translated(&self, report: &Report, took: Duration) {
        self.translate.observe(report.client, report.agent, took);
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
            totals.events_in += events(&mut turned.read, self.read.of(turned.from));
            turned.sign
        });
        totals.events_in += events(&mut report.read, self.read.of(report.agent));
        totals.events_out += events(&mut report.written, self.written.of(report.client));
        totals.foreign += report.repairs[Repair::ForeignType as usize];
        totals.repairs += drain(&mut report.repairs, &self.repairs);
        totals.losses += drain(&mut report.losses, &self.losses);
        turned
    }
}

/// Counts events by their types. A dialect that the route cannot have is nobody's.
fn events(counts: &mut [u64], counters: Option<&Lazy<&'static Dialect, Counter>>) -> u64 {
    counters.map_or(0, |counters| drain(counts, counters))
}

fn drain<N: Names>(counts: &mut [u64], counters: &Lazy<N, Counter>) -> u64 {
    let mut sum = 0;
    for (place, count) in counts.iter_mut().enumerate().filter(|(_, count)| **count != 0) {
        counters.at(place).inc_by(*count);
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
        let read = route.read.of(HAI.name).expect("the agent's").at(0).get();
        assert_eq!((read, route.repairs.at(0).get(), totals.repairs), (3, 3, 3));
    }
}
