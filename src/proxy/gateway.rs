//! The gateway: a configuration's routes and the parts they share.

use super::body_budget::{BodyBounds, BodyBudget};
use super::lifecycle::Lifecycle;
use super::pipe::SEND_TIMEOUT;
use super::routes::{PathMatch, PathTarget, RouteEntry, build_routes};
use super::run_keys::new_token;
use super::run_memory::RunMemory;
use super::slow_clients::SlowClients;
use super::thread_store::ThreadStore;
use super::upstream::{Cluster, Connector};
use crate::config::replay::ReplayStoreKind;
use crate::config::{Config, LimitsConfig};
use crate::inspect::CaptureStore;
use crate::policy::RequestPolicy;
use crate::replay::{ReplicaSettings, ReplicatedRuns, RunStore};
use crate::telemetry::Metrics;
use crate::telemetry::trace::TraceProvider;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone)]
pub(crate) struct Gateway {
    pub(super) routes: HashMap<String, Arc<RouteEntry>>,
    pub(super) limits: LimitsConfig,
    pub(super) bodies: Arc<BodyBudget>,
    pub(super) slow_clients: Arc<SlowClients>,
    pub(super) run_memory: Arc<RunMemory>,
    pub(super) keep_alive: Duration,
    pub(super) connector: Arc<Connector>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) lifecycle: Lifecycle,
    pub(super) policy: Arc<RequestPolicy>,
    pub(super) tracing: TraceProvider,
    pub(super) replay: Arc<RunStore>,
    pub(super) threads: Arc<ThreadStore>,
    pub(crate) captures: Arc<CaptureStore>,
    /// present if replicas share their runs
    pub(crate) replication: Option<Arc<ReplicatedRuns>>,
}

impl Gateway {
    pub(crate) fn new(
        config: &Config,
        metrics: Arc<Metrics>,
        lifecycle: Lifecycle,
        policy: Arc<RequestPolicy>,
        tracing: TraceProvider,
    ) -> Result<Self, String> {
        let connector = Arc::new(Connector::default());
        let replay = RunStore::new(config.replay, config.limits.client_buffer, SEND_TIMEOUT, metrics.replay.clone());
        let is_shared = config.replay.store == ReplayStoreKind::Redis;
        let replication = policy.redis().filter(|_| is_shared).map(|redis| {
            let settings =
                ReplicaSettings { process: new_token(), keep_alive: config.keep_alive, age: config.replay.age };
            ReplicatedRuns::new(Arc::clone(&replay), &redis, settings, metrics.replay.clone())
        });
        Ok(Gateway {
            routes: build_routes(config, &metrics, &connector, &HashMap::new())?,
            replay,
            threads: ThreadStore::new(Arc::clone(&metrics)),
            captures: CaptureStore::new(config.inspect, Arc::clone(&metrics)),
            replication,
            limits: config.limits,
            slow_clients: SlowClients::new(config.limits.client_buffers, Arc::clone(&metrics)),
            run_memory: RunMemory::new(config.limits.run_memory, Arc::clone(&metrics)),
            bodies: BodyBudget::new(body_bounds(config), Arc::clone(&metrics)),
            keep_alive: config.keep_alive,
            connector,
            metrics,
            lifecycle,
            policy,
            tracing,
        })
    }

    /// Builds a gateway for a new configuration, reusing unchanged routes and the connections of unchanged agents.
    pub(crate) fn with_config(&self, config: &Config, policy: Arc<RequestPolicy>) -> Result<Self, String> {
        let routes = build_routes(config, &self.metrics, &self.connector, &self.routes)?;
        self.replay.set_bounds(config.replay, config.limits.client_buffer);
        self.captures.set_bounds(config.inspect);
        self.bodies.set_bounds(body_bounds(config));
        self.slow_clients.set_limit(config.limits.client_buffers);
        self.run_memory.set_limit(config.limits.run_memory);
        Ok(Gateway { routes, limits: config.limits, keep_alive: config.keep_alive, policy, ..self.clone() })
    }

    pub(crate) fn clusters(&self) -> Vec<Arc<Cluster>> {
        self.routes.values().map(|route| Arc::clone(&route.cluster)).collect()
    }

    /// Finds the route for a path; exact paths take precedence.
    pub(super) fn find(&self, path: &str) -> Option<PathMatch<'_>> {
        if let Some(route) = self.routes.get(path) {
            return Some(PathMatch { route, route_match: &route.start_match, target: PathTarget::Run });
        }
        self.routes.values().find_map(|route| {
            if let Some(thread_id) = route.two_step.as_ref().and_then(|events| events.path.extract_id(path)) {
                return Some(PathMatch {
                    route,
                    route_match: &route.read_match,
                    target: PathTarget::Events(thread_id),
                });
            }
            let resumable = route.resumable.as_ref()?;
            if let Some(run_id) = resumable.events.extract_id(path) {
                return Some(PathMatch { route, route_match: &resumable.join_match, target: PathTarget::Join(run_id) });
            }
            let target = PathTarget::Stop(resumable.stop.extract_id(path)?);
            Some(PathMatch { route, route_match: &resumable.stop_match, target })
        })
    }
}

fn body_bounds(config: &Config) -> BodyBounds {
    let limits = &config.limits;
    BodyBounds { one: limits.request_body, all: limits.request_bodies.max(limits.request_body) }
}
