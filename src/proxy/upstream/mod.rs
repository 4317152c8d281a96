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

mod balancer;
mod dialer;
mod health_check;
mod in_flight;
mod pingora_errors;
mod session;
#[cfg(test)]
mod tests;
mod upstream_endpoint;
mod upstream_set;
mod upstream_tls;

pub(crate) use dialer::Connector;
pub(super) use session::{AgentOperation, EndpointRef, Session, UpstreamRequest, request_head};

use self::balancer::WeightedBalancer;
use self::dialer::AgentDialer;
use self::health_check::UpstreamHealthCheck;
use self::in_flight::InFlightGuard;
use self::session::ExchangeError;
use self::upstream_endpoint::UpstreamEndpoint;
use self::upstream_set::{UpstreamDiscovery, UpstreamSet};
use self::upstream_tls::ClusterTls;
use crate::config::{
    EjectionConfig, HealthCheckConfig, PathTemplate, RouteConfig, TimeoutsConfig, UpstreamConfig, UpstreamTlsConfig,
};
use crate::error::{Rejection, RejectionKind};
use crate::telemetry::{Metrics, UpstreamSetMetrics, internal_event};
use pingora_load_balancing::Backends;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Addresses of one route that a run tries before it gives up.
const ATTEMPTS: usize = 4;

/// Kept connections that turned out to be closed, at one address, before a run gives up.
const MAX_STALE: usize = 4;

/// How often the names of agents are resolved again.
const RESOLVE_EVERY: Duration = Duration::from_secs(30);

/// The same while one has never been resolved.
const RESOLVE_SOON: Duration = Duration::from_secs(2);

/// The agents of one route.
pub(crate) struct Cluster {
    settings: ClusterSettings,
    upstream_set: Arc<UpstreamSet>,
    /// the addresses of the roster, and what the checks say of them
    backends: Backends,
    balancer: WeightedBalancer,
    dialer: AgentDialer,
    none_fit: UpstreamSetMetrics,
    /// whether that has been said
    none_fit_logged: AtomicBool,
}

/// What a cluster is made of: another configuration of the same is the same cluster.
#[derive(Debug, PartialEq)]
struct ClusterSettings {
    route: String,
    upstreams: Vec<UpstreamConfig>,
    tls: Option<UpstreamTlsConfig>,
    health: Option<HealthCheckConfig>,
    ejection: EjectionConfig,
    events: Option<PathTemplate>,
    timeouts: TimeoutsConfig,
}

impl ClusterSettings {
    fn from_route(route: &RouteConfig) -> ClusterSettings {
        ClusterSettings {
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
    pub(crate) fn new(route: &RouteConfig, connector: &Arc<Connector>, metrics: &Metrics) -> Result<Self, String> {
        let settings = ClusterSettings::from_route(route);
        let roster = Arc::new(UpstreamSet::new(&route.name, &settings.upstreams, metrics));
        let open = || settings.tls.as_ref().map(|files| ClusterTls::open(&roster.route, files)).transpose();
        let tls = open()?.map(Arc::new);
        let dial = |checks| AgentDialer { tls: tls.clone(), timeouts: settings.timeouts, for_checks: checks };
        let mut backends = Backends::new(Box::new(UpstreamDiscovery(Arc::clone(&roster))));
        if let Some(health) = &settings.health {
            let (roster, connector) = (Arc::clone(&roster), Arc::clone(connector));
            let checks = UpstreamHealthCheck {
                upstream_set: roster,
                connector,
                dialer: dial(true),
                config: health.clone(),
                cause: Mutex::default(),
            };
            backends.set_health_check(Box::new(checks));
        }
        let (dial, none_fit) = (dial(false), metrics.upstream_set(&route.name));
        let (turns, desperate) = (WeightedBalancer::default(), AtomicBool::new(false));
        Ok(Cluster {
            settings,
            upstream_set: roster,
            backends,
            balancer: turns,
            dialer: dial,
            none_fit,
            none_fit_logged: desperate,
        })
    }

    /// Whether a cluster of `route` would be this one, so that it can go on in place of a new one, with all it has learnt.
    #[must_use]
    pub(crate) fn is_reusable_for(&self, route: &RouteConfig) -> bool {
        self.settings == ClusterSettings::from_route(route)
    }

    /// Resolves the hosts, now.
    pub(crate) async fn resolve(&self) {
        // Discovery reports what it cannot resolve by itself and never fails for it.
        let _ = self.backends.update(|_| ()).await;
    }

    /// Resolves names, checks addresses and reads certificates again, from time to time: never returns. It is to run once,
    /// beside nobody else who calls [`Cluster::resolve`].
    pub(crate) async fn watch(&self) {
        let resolve = async {
            loop {
                let known = self.upstream_set.is_resolved();
                if known && !self.settings.upstreams.iter().any(UpstreamConfig::has_name) {
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
            match &self.dialer.tls {
                Some(tls) => tls.watch().await,
                None => pending().await,
            }
        };
        tokio::join!(resolve, check, certificates);
    }

    /// How each upstream is: whether it is asked for runs, and in words.
    #[must_use]
    pub(crate) fn report(&self) -> Vec<(bool, String)> {
        self.upstream_set.report()
    }

    /// The upstreams that runs are spread over.
    pub(super) fn upstreams(&self) -> &[UpstreamConfig] {
        &self.settings.upstreams
    }

    /// Where the agent has its events, if it answers a POST with something else.
    pub(super) fn events_template(&self) -> Option<&PathTemplate> {
        self.settings.events.as_ref()
    }

    /// How long the agent may be silent once it answered.
    pub(super) fn idle_timeout(&self) -> Duration {
        self.settings.timeouts.idle
    }

    /// How long the agent may take to answer, connecting included.
    pub(super) fn first_byte_timeout(&self) -> Duration {
        self.settings.timeouts.first_byte
    }

    /// How long it may be until its first event, counted from the request.
    pub(super) fn first_event_timeout(&self) -> Option<Duration> {
        self.settings.timeouts.first_event
    }

    /// Sends the request to an agent, and to the next for as long as none can have begun the run, and reads the head of the
    /// answer.
    pub(super) async fn send(
        &self,
        connector: &Connector,
        request: &UpstreamRequest<'_>,
    ) -> Result<Box<Session>, Rejection> {
        let (since, mut tried, mut last) = (Instant::now(), Vec::new(), None);
        while tried.len() < ATTEMPTS
            && let Some(target) = self.choose(&tried)
        {
            match self.exchange(connector, &target, request, since).await {
                Ok(session) => return Ok(session),
                Err(ExchangeError::MaybeProcessed(rejection)) => return Err(rejection),
                Err(ExchangeError::Unprocessed(rejection)) => last = Some(rejection),
            }
            tried.push(target);
        }
        Err(last
            .unwrap_or_else(|| Rejection::from(RejectionKind::UpstreamUnreachable).with_cause("no address is known")))
    }

    /// Asks one agent for something that may be asked for twice, and reads the head of its answer. A kept connection that
    /// the agent closed meanwhile is no failure of it.
    pub(super) async fn send_to(
        &self,
        connector: &Connector,
        at: &EndpointRef,
        request: &UpstreamRequest<'_>,
    ) -> Result<Box<Session>, Rejection> {
        self.exchange(connector, &at.0, request, Instant::now()).await.map_err(ExchangeError::into_rejection)
    }

    /// Asks one agent, over another connection as long as the agent closed those that were kept and that is harmless.
    async fn exchange(
        &self,
        connector: &Connector,
        target: &Arc<UpstreamEndpoint>,
        request: &UpstreamRequest<'_>,
        since: Instant,
    ) -> Result<Box<Session>, ExchangeError> {
        let member = self.upstream_set.entry(target);
        let mut left = MAX_STALE;
        loop {
            left -= 1;
            let mut lease = InFlightGuard::new(
                &self.upstream_set,
                target,
                self.settings.ejection,
                since,
                self.settings.timeouts.first_byte,
            );
            let mut call = request.start_span(&member.upstream, &member.label);
            let (line, kept) = match self.dialer.connect(connector, member, target).await {
                Ok(opened) => opened,
                Err(rejection) => {
                    call.record_failure(&rejection);
                    lease.on_failure(&rejection, false);
                    return Err(ExchangeError::Unprocessed(rejection));
                }
            };
            // Boxed: it moves through every stage of the run, and each would keep a place for it.
            let mut session = Box::new(Session { connection: line, in_flight: lease, span: call });
            let Err(why) = session.send(&member.upstream, request).await else {
                let status = session.response_head().map(|head| head.status);
                if let Some(status) = status {
                    session.span.record_status(status.as_u16());
                }
                session.in_flight.on_response(status);
                return Ok(session);
            };
            let rejection = why.rejection();
            session.span.record_failure(rejection);
            let closed = kept && rejection.kind == RejectionKind::UpstreamReset;
            let again = match why {
                ExchangeError::Unprocessed(_) => kept,
                ExchangeError::MaybeProcessed(_) => closed && request.operation.is_repeatable(),
            };
            session.in_flight.on_failure(rejection, kept && (closed || again));
            if !again || left == 0 {
                return Err(why);
            }
        }
    }

    /// Gives a connection back after a clean end. Dropping the session instead closes it.
    pub(super) async fn release(&self, connector: &Connector, session: Box<Session>) {
        let Session { connection: line, in_flight: lease, span: mut call } = *session;
        call.finish();
        let target = lease.endpoint();
        self.dialer.release(connector, self.upstream_set.entry(target), target, line).await;
    }

    /// Whom to ask: somebody fit who was not tried; for want of such, anybody who was not.
    fn choose(&self, tried: &[Arc<UpstreamEndpoint>]) -> Option<Arc<UpstreamEndpoint>> {
        let (now, backends) = (Instant::now(), self.backends.get_backend());
        let all = || backends.iter().filter_map(|backend| backend.ext.get::<Arc<UpstreamEndpoint>>());
        let fresh = |target: &&Arc<UpstreamEndpoint>| !tried.iter().any(|other| Arc::ptr_eq(other, target));
        let fit: Vec<_> = all().filter(fresh).filter(|target| target.can_take_run(now)).collect();
        if !fit.is_empty() {
            self.none_fit_logged.store(false, Ordering::Relaxed);
            return self.balancer.choose(&fit).cloned();
        }
        let rest: Vec<_> = all().filter(fresh).collect();
        if tried.is_empty() && !rest.is_empty() {
            self.none_fit.no_healthy.inc();
            if !self.none_fit_logged.swap(true, Ordering::Relaxed) {
                internal_event::NoHealthyUpstream { route: &self.upstream_set.route }.emit();
            }
        }
        self.balancer.choose(&rest).cloned()
    }
}
