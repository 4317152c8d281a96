//! A route's agents: chooses an endpoint for each run and sends the request.

use super::balancer::WeightedBalancer;
use super::dialer::{AgentDialer, Connector, DialedConnection};
use super::health_check::UpstreamHealthCheck;
use super::in_flight::InFlightGuard;
use super::session::{EndpointRef, ExchangeError, Session};
use super::upstream_endpoint::UpstreamEndpoint;
use super::upstream_request::{AgentOperation, UpstreamRequest};
use super::upstream_set::{UpstreamDiscovery, UpstreamSet};
use super::upstream_tls::ClusterTls;
use crate::config::{
    EjectionConfig, HealthCheckConfig, PathTemplate, RouteConfig, TimeoutsConfig, UpstreamConfig, UpstreamTlsConfig,
};
use crate::error::{Rejection, RejectionKind};
use crate::replay::ReplayKey;
use crate::telemetry::{Metrics, UpstreamSetMetrics, internal_event};
use parking_lot::Mutex;
use pingora_load_balancing::Backends;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Maximum number of endpoints tried per run.
const ATTEMPTS: usize = 4;

const MAX_STALE: usize = 4;

/// Interval between name resolutions.
const RESOLVE_EVERY: Duration = Duration::from_secs(30);

/// Interval between name resolutions until the first success.
const RESOLVE_SOON: Duration = Duration::from_secs(2);

pub(crate) struct Cluster {
    pub(in crate::proxy) settings: ClusterSettings,
    upstream_set: Arc<UpstreamSet>,
    backends: Backends,
    balancer: WeightedBalancer,
    dialer: AgentDialer,
    none_healthy: UpstreamSetMetrics,
    none_healthy_logged: AtomicBool,
}

/// Cluster settings. If they are unchanged, a reload keeps the cluster.
#[derive(Debug, PartialEq)]
pub(in crate::proxy) struct ClusterSettings {
    route: String,
    pub(in crate::proxy) upstreams: Vec<UpstreamConfig>,
    tls: Option<UpstreamTlsConfig>,
    health: Option<HealthCheckConfig>,
    ejection: EjectionConfig,
    pub(in crate::proxy) events: Option<PathTemplate>,
    pub(in crate::proxy) timeouts: TimeoutsConfig,
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

impl Cluster {
    /// Creates the cluster without resolving it. Health checks use `connector`.
    pub(crate) fn new(route: &RouteConfig, connector: &Arc<Connector>, metrics: &Metrics) -> Result<Self, String> {
        let settings = ClusterSettings::from_route(route);
        let upstream_set = Arc::new(UpstreamSet::new(&route.name, &settings.upstreams, metrics));
        let tls = match &settings.tls {
            Some(files) => Some(Arc::new(ClusterTls::open(&upstream_set.route, files)?)),
            None => None,
        };
        let mut backends = Backends::new(Box::new(UpstreamDiscovery(Arc::clone(&upstream_set))));
        if let Some(health) = &settings.health {
            backends.set_health_check(Box::new(UpstreamHealthCheck {
                upstream_set: Arc::clone(&upstream_set),
                connector: Arc::clone(connector),
                dialer: AgentDialer { tls: tls.clone(), timeouts: settings.timeouts, for_checks: true },
                config: health.clone(),
                cause: Mutex::default(),
            }));
        }
        Ok(Cluster {
            upstream_set,
            backends,
            balancer: WeightedBalancer::default(),
            dialer: AgentDialer { tls, timeouts: settings.timeouts, for_checks: false },
            none_healthy: metrics.upstream_set(&route.name),
            none_healthy_logged: AtomicBool::new(false),
            settings,
        })
    }

    /// Returns whether `route` can reuse this cluster with its health state and connections.
    pub(crate) fn is_reusable_for(&self, route: &RouteConfig) -> bool {
        self.settings == ClusterSettings::from_route(route)
    }

    pub(crate) async fn resolve(&self) {
        // Discovery reports resolution failures itself and never returns an error.
        let _ = self.backends.update(|_| ()).await;
    }

    /// Resolves names, checks health and reloads certificates; never returns. Run it once, and not concurrently with
    /// [`Cluster::resolve`].
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

    pub(crate) fn report(&self) -> Vec<(bool, String)> {
        self.upstream_set.report()
    }

    /// Sends a run to an endpoint and reads the response head. Tries other endpoints while the run cannot have begun.
    pub(in crate::proxy) async fn send(
        &self,
        connector: &Connector,
        request: &UpstreamRequest<'_>,
    ) -> Result<Box<Session>, Rejection> {
        let since = Instant::now();
        let mut tried = Vec::new();
        let mut last = None;
        while tried.len() < ATTEMPTS
            && let Some(target) = self.choose(&request.caller, &tried)
        {
            match self.exchange(connector, &target, request, since).await {
                Ok(session) => return Ok(session),
                Err(error) if error.is_unprocessed => last = Some(error.rejection),
                Err(error) => return Err(error.rejection),
            }
            tried.push(target);
        }
        Err(last
            .unwrap_or_else(|| Rejection::from(RejectionKind::UpstreamUnreachable).with_cause("no address is known")))
    }

    /// Sends a repeatable request to one endpoint and reads the response head.
    pub(in crate::proxy) async fn send_to(
        &self,
        connector: &Connector,
        endpoint: &EndpointRef,
        request: &UpstreamRequest<'_>,
    ) -> Result<Box<Session>, Rejection> {
        self.exchange(connector, &endpoint.0, request, Instant::now()).await.map_err(|error| error.rejection)
    }

    /// Sends a request to one endpoint. Retries if a pooled connection is stale and a retry is safe.
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
            let mut in_flight = InFlightGuard::new(
                &self.upstream_set,
                target,
                request.caller,
                self.settings.ejection,
                since,
                self.settings.timeouts.first_byte,
            );
            let mut span = request.start_span(&member.upstream, &member.label);
            let DialedConnection { connection, is_reused } = match self.dialer.connect(connector, member, target).await
            {
                Ok(dialed) => dialed,
                Err(rejection) => {
                    if let Some(timeline) = request.timeline {
                        timeline.record("not_connected", Some(member.label.to_string()));
                    }
                    span.record_failure(&rejection);
                    in_flight.on_connect_failure(&rejection);
                    return Err(ExchangeError { rejection, is_unprocessed: true });
                }
            };
            if let Some(timeline) = request.timeline {
                let kind = if is_reused { "a kept connection" } else { "a new connection" };
                timeline.record("connected", Some(format!("{}, {kind}", member.label)));
            }
            // Boxed: it moves through every stage of the run, each of which would reserve memory for it.
            let mut session = Box::new(Session::new(connection, in_flight, span));
            let Err(error) = session.send(&member.upstream, request).await else {
                let status = session.status();
                if let Some(status) = status {
                    session.span.record_status(status.as_u16());
                }
                session.in_flight.on_response(status);
                return Ok(session);
            };
            session.span.record_failure(&error.rejection);
            let is_stale = is_reused && error.rejection.kind == RejectionKind::UpstreamReset;
            // Reading may be repeated; starting a run may not.
            let is_read = matches!(request.operation, AgentOperation::Events { .. });
            let retry = if error.is_unprocessed { is_reused } else { is_stale && is_read };
            session.in_flight.on_failure(&error.rejection, is_reused && (is_stale || retry));
            if !retry || left == 0 {
                return Err(error);
            }
        }
    }

    /// Returns the connection to the pool once the response is complete.
    pub(in crate::proxy) async fn release(&self, connector: &Connector, session: Box<Session>) {
        let Session { connection, mut span, .. } = *session;
        span.finish();
        self.dialer.release(connector, connection).await;
    }

    fn choose(&self, caller: &ReplayKey, tried: &[Arc<UpstreamEndpoint>]) -> Option<Arc<UpstreamEndpoint>> {
        let now = Instant::now();
        let backends = self.backends.get_backend();
        let mut endpoints: Vec<_> =
            backends.iter().filter_map(|backend| backend.ext.get::<Arc<UpstreamEndpoint>>()).collect();
        endpoints.retain(|endpoint| !tried.iter().any(|other| Arc::ptr_eq(other, endpoint)));
        let healthy: Vec<_> = endpoints.iter().copied().filter(|endpoint| endpoint.can_take_run(caller, now)).collect();
        if !healthy.is_empty() {
            self.none_healthy_logged.store(false, Ordering::Relaxed);
            return self.balancer.choose(&healthy).cloned();
        }
        if tried.is_empty() && !endpoints.is_empty() {
            self.none_healthy.no_healthy.inc();
            if !self.none_healthy_logged.swap(true, Ordering::Relaxed) {
                internal_event::NoHealthyUpstream { route: &self.upstream_set.route }.emit();
            }
        }
        self.balancer.choose(&endpoints).cloned()
    }
}

#[cfg(test)]
mod tests;
