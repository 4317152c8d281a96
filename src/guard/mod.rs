//! Policy: who may call, how often and how much, decided before a run exists.
//!
//! ```text
//!   request ─▶ host ─▶ origin ─▶ address ─▶ limits ─▶ authenticate ─▶ authorize ─▶ limits ─▶ streams ─▶ the leaf:
//!              proper  whose     by way     of        who calls       whether      of        how many   a run
//!              HTTP    page      of whom    anybody                   they may     callers   at once
//! ```
//! Each gate is one question; it passes a request on, perhaps with something learnt among its extensions, or refuses it
//! with a [`Rejection`]. [`gates`] is the list, with the reason of each place; what stands in front of it (the request's id,
//! its route, [`cors`], and what turns refusals into answers) is listed by `proxy::stack`.
//!
//! Three questions are asked behind the gates, because they need the body or the agent: which tools a request offers
//! (`translate::request`), whose its thread is ([`thread`]), and what its agent hears of the caller
//! ([`upstream`]).

pub(crate) mod auth;
mod authorize;
pub mod client_addr;
mod concurrency;
pub(crate) mod cors;
pub(crate) mod dry_run;
mod gate;
mod host;
mod identity;
pub(crate) mod limit;
pub(crate) mod thread_owner;
pub(crate) mod upstream_fields;

pub(crate) use concurrency::StreamPermit;
pub(crate) use dry_run::GateReport;
pub(crate) use gate::{Gate, GateService};
pub use identity::{CallerContext, Identity};
pub(crate) use limit::RateLimitHeaders;

use self::dry_run::DryRun;

use crate::config::Config;
use crate::config::access::{self, AccessConfig};
use crate::error::Rejection;
use crate::net::BackgroundTask;
use crate::net::redis_client::RedisClient;
use crate::telemetry::{Metrics, RouteMetrics};
use http::request::Parts;
use http::{Request, Response};
use std::sync::Arc;
use tower::{Service, ServiceBuilder};

/// The route that a request was matched with. It stands among the request's extensions before the first gate.
#[derive(Debug)]
pub struct RouteMatch {
    /// the route in metrics and logs
    pub name: Arc<str>,
    /// its path, as configured
    pub path: String,
    /// what it asks of callers
    pub access: Arc<AccessConfig>,
    /// its handles
    pub metrics: Arc<RouteMetrics>,
    /// what the request wants of it
    pub request_kind: RequestKind,
}

/// What a request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// a run
    Start,
    /// a run, or one that was started already; only its body tells, so whoever reads that asks for room
    StartOrJoin,
    /// the events of a run that another request started, and that was counted then
    Read,
    /// the events of a run again: each time is counted
    Join,
    /// the end of a run
    Stop,
}

impl RequestKind {
    /// How it is asked for.
    #[must_use]
    pub(crate) const fn method(self) -> &'static str {
        match self {
            RequestKind::Start | RequestKind::StartOrJoin | RequestKind::Stop => "POST",
            RequestKind::Read | RequestKind::Join => "GET",
        }
    }
}

/// Everything that the gates decide with: shared by all requests.
#[derive(Debug)]
pub struct RequestPolicy {
    auth: auth::Authenticator,
    host: host::HeadRules,
    addresses: client_addr::ClientAddrResolver,
    upstream: Arc<upstream_fields::UpstreamFields>,
    limits: Arc<limit::RequestLimiter>,
    streams: concurrency::ConcurrencyLimiter,
    /// whose a thread is
    pub(crate) threads: thread_owner::ThreadOwnership,
    redis: Option<(access::RedisConfig, Arc<RedisClient>)>,
}

impl RequestPolicy {
    /// A guard for `config`. Files of keys and secrets are read now, and again by its upkeep; nothing is fetched.
    ///
    /// # Errors
    /// What of a file that the configuration names cannot be read or used.
    pub fn new(config: &Config, metrics: &Arc<Metrics>) -> Result<RequestPolicy, String> {
        RequestPolicy::build(config, metrics, None)
    }

    /// A guard for another configuration in place of this one. What is configured as before is the same: keys of issuers,
    /// what was counted against limits, runs that are open, owners of threads, the connection to Redis.
    ///
    /// # Errors
    /// As [`Guard::new`].
    pub(crate) fn reconfigure(&self, config: &Config, metrics: &Arc<Metrics>) -> Result<RequestPolicy, String> {
        RequestPolicy::build(config, metrics, Some(self))
    }

    fn build(config: &Config, metrics: &Arc<Metrics>, before: Option<&RequestPolicy>) -> Result<RequestPolicy, String> {
        let known = before.and_then(|guard| guard.redis.as_ref());
        let redis = match (&config.rate_limits.redis, known) {
            (Some(settings), Some((known, redis))) if settings == known => Some((settings.clone(), Arc::clone(redis))),
            (Some(settings), _) => Some((settings.clone(), Arc::new(RedisClient::new(settings)?))),
            (None, _) => None,
        };
        let connection = redis.as_ref().map(|(_, redis)| Arc::clone(redis));
        let limits = before.map(|guard| &*guard.limits);
        Ok(RequestPolicy {
            auth: auth::Authenticator::new(config, metrics, before.map(|guard| &guard.auth))?,
            host: host::HeadRules::new(config),
            addresses: client_addr::ClientAddrResolver::new(config),
            upstream: Arc::new(upstream_fields::UpstreamFields::new(config)?),
            limits: Arc::new(limit::RequestLimiter::new(&config.rate_limits, metrics, connection.clone(), limits)),
            streams: concurrency::ConcurrencyLimiter::new(config, metrics, before.map(|guard| &guard.streams)),
            threads: thread_owner::ThreadOwnership::new(
                config,
                metrics,
                connection,
                before.map(|guard| &guard.threads),
            ),
            redis,
        })
    }

    /// What keeps keys, files, quotas and connections fresh.
    #[must_use]
    pub fn background_tasks(&self) -> Vec<BackgroundTask> {
        let mut all = self.auth.background_tasks();
        all.push(BackgroundTask::new(&self.upstream, |fields| async move { fields.watch_files().await }));
        all.push(BackgroundTask::new(&self.limits, |limits| async move { limits.evict_loop().await }));
        all.extend(
            self.redis
                .iter()
                .map(|(_, redis)| BackgroundTask::new(redis, |redis| async move { redis.keep_connected().await })),
        );
        all
    }

    /// Room for a run of a route where only the body of a request tells whether it starts one. Its gate lets all pass.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn acquire_stream(&self, head: &Parts, matched: &RouteMatch) -> Result<StreamPermit, Rejection> {
        self.streams.acquire(head, matched)
    }

    /// The Redis that replicas share, if they share one.
    #[must_use]
    pub(crate) fn redis(&self) -> Option<&RedisClient> {
        self.redis.as_ref().map(|(_, redis)| &**redis)
    }

    /// Says in the metrics what has to be looked up to be known: before they are read.
    pub(crate) fn update_gauges(&self) {
        self.limits.update_gauges();
    }

    /// Who checks credentials, for the status plane.
    #[must_use]
    pub(crate) fn authenticator(&self) -> &auth::Authenticator {
        &self.auth
    }
}

/// The gates in front of `leaf`, outermost first.
pub fn gates<B, S, R>(
    guard: &Arc<RequestPolicy>,
    leaf: S,
) -> impl Service<Request<B>, Response = Response<R>, Error = Rejection, Future: Send>
+ DryRun
+ Clone
+ Send
+ Sync
+ use<B, S, R>
where
    B: Send + 'static,
    R: 'static,
    S: Service<Request<B>, Response = Response<R>, Error = Rejection> + DryRun + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let gate = || Arc::clone(guard);
    ServiceBuilder::new()
        // What is no proper HTTP is nobody's request.
        .layer_fn(move |inner| GateService::new(host::HostGate(gate()), inner))
        // Pages of strangers are told so before anything is done for them.
        .layer_fn(|inner| GateService::new(cors::OriginGate, inner))
        // Who calls, as far as the network says; limits below may count by it.
        .layer_fn(move |inner| GateService::new(client_addr::ClientAddrGate(gate()), inner))
        // Floods end before anything expensive is done for them, such as checking a signature.
        .layer_fn(move |inner| GateService::new(limit::PreAuthLimitGate(gate()), inner))
        // Who calls.
        .layer_fn(move |inner| GateService::new(auth::AuthenticationGate(gate()), inner))
        // Whether they may. Before their quota: what is forbidden costs nothing.
        .layer_fn(|inner| GateService::new(authorize::AuthorizationGate, inner))
        // How often they may.
        .layer_fn(move |inner| GateService::new(limit::PostAuthLimitGate(gate()), inner))
        // How much at once. Last, since what it gives out is held for as long as the run.
        .layer_fn(move |inner| GateService::new(concurrency::StreamGate(gate()), inner))
        .service(leaf)
}
