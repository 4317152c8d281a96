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

pub mod auth;
mod authorize;
pub mod cors;
mod current;
pub mod digest;
pub mod file;
mod gate;
mod host;
mod identity;
pub mod limit;
pub mod peer;
pub mod redis;
mod streams;
pub mod thread;
pub mod told;
mod upkeep;
pub mod upstream;

pub use current::Current;
pub use gate::{Gate, Gated};
pub use identity::{Identity, Who};
pub use limit::Standings;
pub use streams::Permits;
pub use told::Told;
pub use upkeep::Upkeep;

use self::told::Telling;

use crate::config::Config;
use crate::config::access::{self, Access};
use crate::error::Rejection;
use crate::telemetry::{Metrics, RouteMetrics};
use http::request::Parts;
use http::{Request, Response};
use std::sync::Arc;
use tower::{Service, ServiceBuilder};

/// The route that a request was matched with. It stands among the request's extensions before the first gate.
#[derive(Debug)]
pub struct Matched {
    /// the route in metrics and logs
    pub name: Arc<str>,
    /// its path, as configured
    pub path: String,
    /// what it asks of callers
    pub access: Arc<Access>,
    /// its handles
    pub metrics: Arc<RouteMetrics>,
    /// what the request wants of it
    pub errand: Errand,
}

/// What a request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errand {
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

impl Errand {
    /// How it is asked for.
    #[must_use]
    pub const fn method(self) -> &'static str {
        match self {
            Errand::Start | Errand::StartOrJoin | Errand::Stop => "POST",
            Errand::Read | Errand::Join => "GET",
        }
    }
}

/// Everything that the gates decide with: shared by all requests.
#[derive(Debug)]
pub struct Guard {
    auth: auth::Authenticator,
    host: host::Rules,
    addresses: peer::Addresses,
    upstream: Arc<upstream::Fields>,
    limits: Arc<limit::Limits>,
    streams: streams::Streams,
    /// whose a thread is
    pub threads: thread::Threads,
    redis: Option<(access::Redis, Arc<redis::Redis>)>,
}

impl Guard {
    /// A guard for `config`. Files of keys and secrets are read now, and again by its upkeep; nothing is fetched.
    ///
    /// # Errors
    /// What of a file that the configuration names cannot be read or used.
    pub fn new(config: &Config, metrics: &Arc<Metrics>) -> Result<Guard, String> {
        Guard::following(config, metrics, None)
    }

    /// A guard for another configuration in place of this one. What is configured as before is the same: keys of issuers,
    /// what was counted against limits, runs that are open, owners of threads, the connection to Redis.
    ///
    /// # Errors
    /// As [`Guard::new`].
    pub fn renewed(&self, config: &Config, metrics: &Arc<Metrics>) -> Result<Guard, String> {
        Guard::following(config, metrics, Some(self))
    }

    fn following(config: &Config, metrics: &Arc<Metrics>, before: Option<&Guard>) -> Result<Guard, String> {
        let known = before.and_then(|guard| guard.redis.as_ref());
        let redis = match (&config.rate_limits.redis, known) {
            (Some(settings), Some((known, redis))) if settings == known => Some((settings.clone(), Arc::clone(redis))),
            (Some(settings), _) => Some((settings.clone(), Arc::new(redis::Redis::new(settings)?))),
            (None, _) => None,
        };
        let connection = redis.as_ref().map(|(_, redis)| Arc::clone(redis));
        let limits = before.map(|guard| &*guard.limits);
        Ok(Guard {
            auth: auth::Authenticator::new(config, metrics, before.map(|guard| &guard.auth))?,
            host: host::Rules::new(config),
            addresses: peer::Addresses::new(config),
            upstream: Arc::new(upstream::Fields::new(config)?),
            limits: Arc::new(limit::Limits::new(&config.rate_limits, metrics, connection.clone(), limits)),
            streams: streams::Streams::new(config, metrics, before.map(|guard| &guard.streams)),
            threads: thread::Threads::new(config, metrics, connection, before.map(|guard| &guard.threads)),
            redis,
        })
    }

    /// What keeps keys, files, quotas and connections fresh.
    #[must_use]
    pub fn upkeep(&self) -> Vec<Upkeep> {
        let mut all = self.auth.upkeep();
        all.push(Upkeep::new(&self.upstream, |fields| async move { fields.watch().await }));
        all.push(Upkeep::new(&self.limits, |limits| async move { limits.watch().await }));
        all.extend(self.redis.iter().map(|(_, redis)| Upkeep::new(redis, |redis| async move { redis.watch().await })));
        all
    }

    /// Room for a run of a route where only the body of a request tells whether it starts one. Its gate lets all pass.
    ///
    /// # Errors
    /// There is none.
    pub fn seat(&self, head: &Parts, matched: &Matched) -> Result<Permits, Rejection> {
        self.streams.seat(head, matched)
    }

    /// The Redis that replicas share, if they share one.
    #[must_use]
    pub fn redis(&self) -> Option<&redis::Redis> {
        self.redis.as_ref().map(|(_, redis)| &**redis)
    }

    /// Says in the metrics what has to be looked up to be known: before they are read.
    pub fn measure(&self) {
        self.limits.measure();
    }

    /// Who checks credentials, for the status plane.
    #[must_use]
    pub fn auth(&self) -> &auth::Authenticator {
        &self.auth
    }
}

/// The gates in front of `leaf`, outermost first.
pub fn gates<B, S, R>(
    guard: &Arc<Guard>,
    leaf: S,
) -> impl Service<Request<B>, Response = Response<R>, Error = Rejection, Future: Send>
+ Telling
+ Clone
+ Send
+ Sync
+ use<B, S, R>
where
    B: Send + 'static,
    R: 'static,
    S: Service<Request<B>, Response = Response<R>, Error = Rejection> + Telling + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let gate = || Arc::clone(guard);
    ServiceBuilder::new()
        // What is no proper HTTP is nobody's request.
        .layer_fn(move |inner| Gated::new(host::Host(gate()), inner))
        // Pages of strangers are told so before anything is done for them.
        .layer_fn(|inner| Gated::new(cors::Origins, inner))
        // Who calls, as far as the network says; limits below may count by it.
        .layer_fn(move |inner| Gated::new(peer::Address(gate()), inner))
        // Floods end before anything expensive is done for them, such as checking a signature.
        .layer_fn(move |inner| Gated::new(limit::Unknown(gate()), inner))
        // Who calls.
        .layer_fn(move |inner| Gated::new(auth::Authenticate(gate()), inner))
        // Whether they may. Before their quota: what is forbidden costs nothing.
        .layer_fn(|inner| Gated::new(authorize::Authorize, inner))
        // How often they may.
        .layer_fn(move |inner| Gated::new(limit::Known(gate()), inner))
        // How much at once. Last, since what it gives out is held for as long as the run.
        .layer_fn(move |inner| Gated::new(streams::Slots(gate()), inner))
        .service(leaf)
}
