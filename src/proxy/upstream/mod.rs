//! The agent's side of the network: which agent is asked, and over which connection. pingora connects, pools and speaks TLS
//! and HTTP; the choice is ours.
//!
//! ```text
//!   a run ─▶ choose ─▶ connect ─▶ ask ─▶ the head of the answer ─▶ the stream
//!              ▲          │        │
//!              │  no connection    │ the agent has not begun it: the head did not go out, or it says so (HTTP/2)
//!              ╰── the next ◀──────╯
//! ```
//! A run is sent once. It goes to another address only when nothing of it can have begun at the first one: there was no
//! connection; the connection broke before the head of the request was out, so that the agent has no request; or an agent
//! of HTTP/2 says itself that it has not processed it (REFUSED_STREAM, or GOAWAY with a lower last stream). Whatever
//! happens later is told to the client, who knows whether it can run again.

mod balance;
mod failure;
mod health;
mod lease;
mod peer;
mod roster;
mod session;
mod target;
#[cfg(test)]
mod tests;
mod tls;

pub use peer::Connector;
pub(super) use session::{Errand, Outgoing, Place, Session, head};

use self::balance::Turns;
use self::health::Checks;
use self::lease::Lease;
use self::peer::Dial;
use self::roster::{Hosts, Roster};
use self::session::Unanswered;
use self::target::Target;
use self::tls::Tls;
use crate::config::{Ejection, Health, Route, Template, Timeouts, Upstream, UpstreamTls};
use crate::error::{Kind, Rejection};
use crate::telemetry::{Metrics, NoneFitCounter, occurrence};
use pingora_load_balancing::Backends;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Addresses of one route that a run tries before it gives up.
const ATTEMPTS: usize = 4;

/// Kept connections that turned out to be closed, at one address, before a run gives up.
const STALE: usize = 4;

/// How often the names of agents are resolved again.
const RESOLVE_EVERY: Duration = Duration::from_secs(30);

/// The same while one has never been resolved.
const RESOLVE_SOON: Duration = Duration::from_secs(2);

/// The agents of one route.
pub struct Cluster {
    settings: Settings,
    roster: Arc<Roster>,
    /// the addresses of the roster, and what the checks say of them
    backends: Backends,
    turns: Turns,
    dial: Dial,
    none_fit: NoneFitCounter,
    /// whether that has been said
    desperate: AtomicBool,
}

/// What a cluster is made of: another configuration of the same is the same cluster.
#[derive(Debug, PartialEq)]
struct Settings {
    route: String,
    upstreams: Vec<Upstream>,
    tls: Option<UpstreamTls>,
    health: Option<Health>,
    ejection: Ejection,
    events: Option<Template>,
    timeouts: Timeouts,
}

impl Settings {
    fn of(route: &Route) -> Settings {
        Settings {
            route: route.name.clone(),
            upstreams: route.upstreams.clone(),
            tls: route.upstream_tls.clone(),
            health: route.health.clone(),
            ejection: route.ejection,
            events: route.events.clone(),
            timeouts: route.timeouts,
        }
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("upstreams", &self.settings.upstreams).finish_non_exhaustive()
    }
}

impl Cluster {
    /// The agents of `route`, not yet resolved. `connector` is what health checks connect with.
    ///
    /// # Errors
    /// Which file of `upstream_tls` cannot be used, and why.
    pub fn new(route: &Route, connector: &Arc<Connector>, metrics: &Metrics) -> Result<Self, String> {
        let settings = Settings::of(route);
        let roster = Arc::new(Roster::new(&route.name, &settings.upstreams, metrics));
        let open = || settings.tls.as_ref().map(|files| Tls::open(&roster.route, files)).transpose();
        let tls = open()?.map(Arc::new);
        let dial = |checks| Dial { tls: tls.clone(), timeouts: settings.timeouts, checks };
        let mut backends = Backends::new(Box::new(Hosts(Arc::clone(&roster))));
        if let Some(health) = &settings.health {
            let (roster, connector) = (Arc::clone(&roster), Arc::clone(connector));
            let checks =
                Checks { roster, connector, dial: dial(true), health: health.clone(), cause: Mutex::default() };
            backends.set_health_check(Box::new(checks));
        }
        let (dial, none_fit) = (dial(false), metrics.none_fit(&route.name));
        let (turns, desperate) = (Turns::default(), AtomicBool::new(false));
        Ok(Cluster { settings, roster, backends, turns, dial, none_fit, desperate })
    }

    /// Whether a cluster of `route` would be this one, so that it can go on in place of a new one, with all it has learnt.
    #[must_use]
    pub fn is_of(&self, route: &Route) -> bool {
        self.settings == Settings::of(route)
    }

    /// Resolves the hosts, now.
    pub async fn resolve(&self) {
        // Discovery reports what it cannot resolve by itself and never fails for it.
        let _ = self.backends.update(|_| ()).await;
    }

    /// Resolves names, checks addresses and reads certificates again, from time to time: never returns. It is to run once,
    /// beside nobody else who calls [`Cluster::resolve`].
    pub async fn watch(&self) {
        let resolve = async {
            loop {
                let known = self.roster.is_known();
                if known && !self.settings.upstreams.iter().any(Upstream::has_name) {
                    return pending::<()>().await;
                }
                sleep(if known { RESOLVE_EVERY } else { RESOLVE_SOON }).await;
                self.resolve().await;
            }
        };
        let check = async {
            let Some(health) = &self.settings.health else { return pending().await };
            loop {
                self.backends.run_health_check(true).await;
                sleep(health.interval).await;
            }
        };
        let certificates = async {
            match &self.dial.tls {
                Some(tls) => tls.watch().await,
                None => pending().await,
            }
        };
        tokio::join!(resolve, check, certificates);
    }

    /// How each upstream is: whether it is asked for runs, and in words.
    #[must_use]
    pub fn report(&self) -> Vec<(bool, String)> {
        self.roster.report()
    }

    /// The upstreams that runs are spread over.
    pub(super) fn upstreams(&self) -> &[Upstream] {
        &self.settings.upstreams
    }

    /// Where the agent has its events, if it answers a POST with something else.
    pub(super) fn events(&self) -> Option<&Template> {
        self.settings.events.as_ref()
    }

    /// How long the agent may be silent once it answered.
    pub(super) fn idle(&self) -> Duration {
        self.settings.timeouts.idle
    }

    /// How long the agent may take to answer, connecting included.
    pub(super) fn first_byte(&self) -> Duration {
        self.settings.timeouts.first_byte
    }

    /// How long it may be until its first event, counted from the request.
    pub(super) fn first_event(&self) -> Option<Duration> {
        self.settings.timeouts.first_event
    }

    /// Sends the request to an agent, and to the next for as long as none can have begun the run, and reads the head of the
    /// answer.
    pub(super) async fn send(&self, connector: &Connector, request: &Outgoing<'_>) -> Result<Box<Session>, Rejection> {
        let (since, mut tried, mut last) = (Instant::now(), Vec::new(), None);
        while tried.len() < ATTEMPTS
            && let Some(target) = self.choose(&tried)
        {
            match self.ask(connector, &target, request, since).await {
                Ok(session) => return Ok(session),
                Err(Unanswered::Open(rejection)) => return Err(rejection),
                Err(Unanswered::Unprocessed(rejection)) => last = Some(rejection),
            }
            tried.push(target);
        }
        Err(last.unwrap_or_else(|| Rejection::from(Kind::UpstreamUnreachable).cause("no address is known")))
    }

    /// Asks one agent for something that may be asked for twice, and reads the head of its answer. A kept connection that
    /// the agent closed meanwhile is no failure of it.
    pub(super) async fn fetch(
        &self,
        connector: &Connector,
        at: &Place,
        request: &Outgoing<'_>,
    ) -> Result<Box<Session>, Rejection> {
        self.ask(connector, &at.0, request, Instant::now()).await.map_err(Unanswered::into_rejection)
    }

    /// Asks one agent, over another connection as long as the agent closed those that were kept and that is harmless.
    async fn ask(
        &self,
        connector: &Connector,
        target: &Arc<Target>,
        request: &Outgoing<'_>,
        since: Instant,
    ) -> Result<Box<Session>, Unanswered> {
        let member = self.roster.member(target);
        let mut left = STALE;
        loop {
            left -= 1;
            let mut lease =
                Lease::new(&self.roster, target, self.settings.ejection, since, self.settings.timeouts.first_byte);
            let mut call = request.call(&member.upstream, &member.label);
            let (line, kept) = match self.dial.connect(connector, member, target).await {
                Ok(opened) => opened,
                Err(rejection) => {
                    call.failed(&rejection);
                    lease.failed(&rejection, false);
                    return Err(Unanswered::Unprocessed(rejection));
                }
            };
            // Boxed: it moves through every stage of the run, and each would keep a place for it.
            let mut session = Box::new(Session { line, lease, call });
            let Err(why) = session.ask(&member.upstream, request).await else {
                let status = session.response().map(|head| head.status);
                if let Some(status) = status {
                    session.call.answered(status.as_u16());
                }
                session.lease.answered(status);
                return Ok(session);
            };
            let rejection = why.rejection();
            session.call.failed(rejection);
            let closed = kept && rejection.kind == Kind::UpstreamReset;
            let again = match why {
                Unanswered::Unprocessed(_) => kept,
                Unanswered::Open(_) => closed && request.errand.may_be_repeated(),
            };
            session.lease.failed(rejection, kept && (closed || again));
            if !again || left == 0 {
                return Err(why);
            }
        }
    }

    /// Gives a connection back after a clean end. Dropping the session instead closes it.
    pub(super) async fn release(&self, connector: &Connector, session: Box<Session>) {
        let Session { line, lease, mut call } = *session;
        call.end();
        let target = lease.target();
        self.dial.release(connector, self.roster.member(target), target, line).await;
    }

    /// Whom to ask: somebody fit who was not tried; for want of such, anybody who was not.
    fn choose(&self, tried: &[Arc<Target>]) -> Option<Arc<Target>> {
        let (now, backends) = (Instant::now(), self.backends.get_backend());
        let all = || backends.iter().filter_map(|backend| backend.ext.get::<Arc<Target>>());
        let fresh = |target: &&Arc<Target>| !tried.iter().any(|other| Arc::ptr_eq(other, target));
        let fit: Vec<_> = all().filter(fresh).filter(|target| target.is_fit(now)).collect();
        if !fit.is_empty() {
            self.desperate.store(false, Ordering::Relaxed);
            return self.turns.choose(&fit).cloned();
        }
        let rest: Vec<_> = all().filter(fresh).collect();
        if tried.is_empty() && !rest.is_empty() {
            self.none_fit.inc();
            if !self.desperate.swap(true, Ordering::Relaxed) {
                occurrence::NoneFit { route: &self.roster.route }.emit();
            }
        }
        self.turns.choose(&rest).cloned()
    }
}
