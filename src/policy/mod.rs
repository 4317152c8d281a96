//! Request policies: who may call, how often and how much.
//!
//! ```text
//!   request ─▶ host ─▶ origin ─▶ address ─▶ limits ─▶ authenticate ─▶ authorize ─▶ limits ─▶ streams ─▶ leaf:
//!              valid   web       of the     without   identity of     route's      per       runs at    start
//!              HTTP    page      client     identity  the caller      rules        caller    once       the run
//! ```
//! Each gate passes a request on, possibly with an extension for later gates, or refuses it with a [`Rejection`].
//! [`gates`] lists them and explains their order; `proxy::stack` lists the layers before them (request id, routing,
//! [`cors`], error responses).
//!
//! Four checks need the body or the agent, so they come later: the tools that a request offers (`translate::request`),
//! the owner of its thread ([`thread_owner`]), the header fields for the agent ([`upstream_fields`]), and on routes
//! whose runs outlive their clients the permit of the run, since a request that joins an open run takes none.

mod policy_error;
pub(crate) mod dry_run;
mod gate;
mod host;
mod identity;
pub(crate) mod client_addr;
mod route_match;
pub(crate) mod auth;
mod authorize;
pub(crate) mod limit;
mod concurrency;
pub(crate) mod fair_eviction;
pub(crate) mod thread_owner;
pub(crate) mod upstream_fields;
pub(crate) mod cors;

pub(crate) use concurrency::{CountedUse, StreamPermit, UsageCounts};
pub use identity::{CallerContext, Identity};
pub(crate) use limit::RateLimitHeaders;
pub use policy_error::PolicyError;
pub use route_match::{RequestKind, RouteMatch};

use self::auth::{AuthenticationGate, Authenticator};
use self::authorize::AuthorizationGate;
use self::client_addr::{ClientAddrGate, ClientAddrResolver};
use self::concurrency::{ConcurrencyLimiter, StreamGate};
use self::cors::CorsPolicy;
use self::dry_run::DryRun;
use self::gate::GateBuilder;
use self::host::{HeadRules, HostGate};
use self::limit::{LimitGate, LimitStage, RequestLimiter};
use self::thread_owner::ThreadOwnership;
use self::upstream_fields::UpstreamFields;
use crate::config::Config;
use crate::config::access::RedisConfig;
use crate::error::Rejection;
use crate::net::BackgroundTask;
use crate::net::redis_client::{RedisClient, RedisSettings};
use crate::telemetry::Metrics;
use crate::telemetry::internal_event::report_redis_link;
use http::request::Parts;
use http::{HeaderMap, Request, Response};
use std::sync::Arc;
use tower::Service;

/// The policy of one configuration, shared by all requests.
pub struct RequestPolicy {
    pub(crate) auth: Arc<Authenticator>,
    host: Arc<HeadRules>,
    addresses: Arc<ClientAddrResolver>,
    upstream: Arc<UpstreamFields>,
    pub(crate) limits: Arc<RequestLimiter>,
    pub(crate) streams: Arc<ConcurrencyLimiter>,
    pub(crate) threads: ThreadOwnership,
    redis: Option<(RedisConfig, Arc<RedisClient>)>,
}

impl RequestPolicy {
    /// Builds the policy. Reads key and secret files, but leaves fetching to the background tasks.
    ///
    /// # Errors
    /// Returns an error that names the unusable file.
    pub fn new(config: &Config, metrics: &Arc<Metrics>) -> Result<RequestPolicy, PolicyError> {
        RequestPolicy::build(config, metrics, None)
    }

    /// Builds the policy for a new configuration. Unchanged settings keep their state: keys, counts, open runs, thread
    /// owners, and the Redis connection.
    pub(crate) fn reconfigure(&self, config: &Config, metrics: &Arc<Metrics>) -> Result<RequestPolicy, PolicyError> {
        RequestPolicy::build(config, metrics, Some(self))
    }

    fn build(
        config: &Config,
        metrics: &Arc<Metrics>,
        before: Option<&RequestPolicy>,
    ) -> Result<RequestPolicy, PolicyError> {
        let previous_redis = before.and_then(|policy| policy.redis.clone());
        let redis = match (&config.rate_limits.redis, previous_redis) {
            (Some(settings), Some(previous)) if *settings == previous.0 => Some(previous),
            (Some(settings), _) => Some((settings.clone(), Arc::new(open_redis(settings)?))),
            (None, _) => None,
        };
        let connection = redis.as_ref().map(|(_, redis)| Arc::clone(redis));
        let limits = before.map(|policy| &*policy.limits);
        let streams = before.map(|policy| &*policy.streams);
        let threads = before.map(|policy| &policy.threads);
        Ok(RequestPolicy {
            auth: Arc::new(Authenticator::new(config, metrics, before.map(|policy| &*policy.auth))?),
            host: Arc::new(HeadRules::new(config)),
            addresses: Arc::new(ClientAddrResolver::new(config)),
            upstream: Arc::new(UpstreamFields::new(config)?),
            limits: Arc::new(RequestLimiter::new(&config.rate_limits, metrics, connection.clone(), limits)),
            streams: Arc::new(ConcurrencyLimiter::new(config, metrics, streams)),
            threads: ThreadOwnership::new(config, metrics, connection, threads),
            redis,
        })
    }

    /// Returns the tasks that update keys, files, quotas and connections.
    #[must_use]
    pub fn background_tasks(&self) -> Vec<BackgroundTask> {
        let mut all = self.auth.background_tasks();
        all.push(BackgroundTask::new(&self.upstream, |fields| async move { fields.watch_files().await }));
        all.push(BackgroundTask::new(&self.limits, |limits| async move { limits.evict_loop().await }));
        all.extend(self.redis.iter().map(|(_, redis)| {
            BackgroundTask::new(redis, |redis| async move {
                redis.keep_connected(|change| report_redis_link(&redis.settings.display_url, change)).await;
            })
        }));
        all
    }

    pub(crate) fn upstream_fields(&self, head: &Parts, matched: &RouteMatch) -> HeaderMap {
        self.upstream.for_request(head, matched, &self.addresses, &self.auth)
    }

    pub(crate) fn cors(&self) -> CorsPolicy {
        CorsPolicy {
            addresses: Arc::clone(&self.addresses),
            host: Arc::clone(&self.host),
            auth: Arc::clone(&self.auth),
        }
    }

    pub(crate) fn redis(&self) -> Option<Arc<RedisClient>> {
        self.redis.as_ref().map(|(_, redis)| Arc::clone(redis))
    }
}

fn open_redis(config: &RedisConfig) -> Result<RedisClient, PolicyError> {
    let RedisConfig { display_url, prefix, deadline, .. } = config.clone();
    let settings = RedisSettings { display_url, prefix, deadline };
    RedisClient::new(config.url.expose(), settings)
        .map_err(|error| format!("redis.url: {} cannot be used: {error}", config.display_url).into())
}

/// Puts the gates in front of `leaf`, outermost first.
pub fn gates<B, S, R>(
    policy: &Arc<RequestPolicy>,
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
    let RequestPolicy { auth, host, addresses, limits, streams, .. } = &**policy;
    let limit_gate = |stage| LimitGate { limiter: Arc::clone(limits), stage };
    GateBuilder::new()
        // Refuse invalid HTTP before anything else looks at the request.
        .gate(HostGate(Arc::clone(host)))
        // Refuse foreign web pages before doing any work for them.
        .gate(cors::OriginGate)
        // Find the client's address, since the limits below may count by it.
        .gate(ClientAddrGate(Arc::clone(addresses)))
        // Stop floods before expensive work such as verifying a signature.
        .gate(limit_gate(LimitStage::BeforeAuth))
        // Everything below needs to know the caller.
        .gate(AuthenticationGate(Arc::clone(auth)))
        // Before the caller's quota, so that forbidden requests do not use it up.
        .gate(AuthorizationGate)
        // Before a permit is taken, so that refused requests do not occupy one.
        .gate(limit_gate(LimitStage::AfterAuth))
        // Last, since its permit is held for the whole run.
        .gate(StreamGate(Arc::clone(streams)))
        .service(leaf)
}
