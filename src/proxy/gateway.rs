//! The routes, and the dispatch of requests by path.

use super::edge::SEND_TIMEOUT;
use super::lifecycle::Lifecycle;
use super::pipe::BodyAborted;
use super::responses;
use super::resume::{self, ResumeRoutes};
use super::two_step::{self, TwoStepEvents};
use super::upstream::{Cluster, Connector};
use crate::config::replay::{OnDisconnect, ReplayStoreKind};
use crate::config::{self, Config, LimitsConfig};
use crate::dialect::{Dialect, PeerDialect};
use crate::error::{Rejection, RejectionKind};
use crate::guard::{CallerContext, RateLimitHeaders, RequestKind, RequestPolicy, RouteMatch};
use crate::replay::{ReplicaSettings, ReplicatedRuns, RunStore};
use crate::telemetry::trace::TraceProvider;
use crate::telemetry::{Metrics, RouteMetrics};
use crate::translate::{AllowedTools, GuardMode};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub(crate) type ResponseBody = UnsyncBoxBody<Bytes, BodyAborted>;

#[derive(Debug)]
pub(crate) struct Gateway {
    routes: HashMap<String, Arc<RouteEntry>>,
    pub(super) limits: LimitsConfig,
    pub(super) keep_alive: Duration,
    pub(super) connector: Arc<Connector>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) lifecycle: Lifecycle,
    pub(super) guard: Arc<RequestPolicy>,
    pub(super) tracing: TraceProvider,
    pub(super) replay: Arc<RunStore>,
    /// present if replicas share their runs
    pub(super) replication: Option<Arc<ReplicatedRuns>>,
}

pub(super) enum PathMatch<'g> {
    /// a POST starts a run
    Run(&'g RouteEntry),
    /// a GET reads the run of this thread; `None` if the segment is no id
    Events(&'g RouteEntry, Option<String>),
    /// a GET resumes this run; `None` if the segment is no id
    Join(&'g RouteEntry, &'g ResumeRoutes, Option<String>),
    /// a POST stops it
    Stop(&'g RouteEntry, &'g ResumeRoutes, Option<String>),
}

#[derive(Debug)]
pub(super) struct RouteEntry {
    pub(crate) config: config::RouteConfig,
    pub(crate) name: Arc<str>,
    /// for requests that start a run
    pub(crate) start_match: Arc<RouteMatch>,
    /// for requests that read a run
    read_match: Arc<RouteMatch>,
    /// present if runs outlive their clients
    pub(crate) resumable: Option<ResumeRoutes>,
    /// present for two-step clients
    pub(crate) two_step: Option<TwoStepEvents>,
    pub(crate) client: PeerDialect,
    /// as configured
    pub(crate) agent: PeerDialect,
    /// for `auto` routes: later requests are written in this dialect
    pub(crate) detected_dialect: Arc<OnceLock<&'static Dialect>>,
    pub(crate) guard: GuardMode,
    pub(crate) tools: Option<Arc<AllowedTools>>,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) metrics: Arc<RouteMetrics>,
}

impl RouteEntry {
    /// Builds a route; unchanged parts of `before`, the route of that name so far, are reused.
    ///
    /// # Errors
    /// A file that the route names for its agents cannot be used.
    fn new(
        route: &config::RouteConfig,
        registry: &Metrics,
        connector: &Arc<Connector>,
        before: Option<&RouteEntry>,
    ) -> Result<Self, String> {
        let metrics = registry.route(&route.name, route.client, route.agent);
        let agent = before.filter(|before| is_same_agent(&before.config, route));
        let name: Arc<str> = route.name.as_str().into();
        let route_match = |request_kind| {
            Arc::new(RouteMatch {
                name: Arc::clone(&name),
                path: route.path.clone(),
                access: Arc::clone(&route.access),
                metrics: Arc::clone(&metrics),
                request_kind,
            })
        };
        Ok(RouteEntry {
            start_match: route_match(match route.on_disconnect {
                OnDisconnect::Abort => RequestKind::Start,
                OnDisconnect::Continue(_) => RequestKind::StartOrJoin,
            }),
            read_match: route_match(RequestKind::Read),
            resumable: match route.on_disconnect {
                OnDisconnect::Abort => None,
                OnDisconnect::Continue(abandon_after) => Some(ResumeRoutes::new(
                    &route.path,
                    abandon_after,
                    route_match(RequestKind::Join),
                    route_match(RequestKind::Stop),
                )),
            },
            two_step: TwoStepEvents::new(route, before.and_then(|before| before.two_step.as_ref())),
            client: route.client,
            agent: route.agent,
            detected_dialect: agent.map(|before| Arc::clone(&before.detected_dialect)).unwrap_or_default(),
            guard: route.guard,
            tools: route
                .access
                .tools
                .as_ref()
                .map(|names| Arc::new(AllowedTools::new(names.iter().map(String::as_str)))),
            cluster: match before.filter(|before| before.cluster.is_reusable_for(route)) {
                Some(before) => Arc::clone(&before.cluster),
                None => Arc::new(Cluster::new(route, connector, registry)?),
            },
            config: route.clone(),
            metrics,
            name,
        })
    }

    /// Returns the agent's dialect as detected, or else as configured.
    pub(super) fn current_agent(&self) -> PeerDialect {
        match self.detected_dialect.get() {
            Some(dialect) => PeerDialect { is_auto: true, ..PeerDialect::new(dialect) },
            None => self.agent,
        }
    }
}

impl<'g> PathMatch<'g> {
    pub(super) fn route(&self) -> &'g RouteEntry {
        match self {
            PathMatch::Run(route)
            | PathMatch::Events(route, _)
            | PathMatch::Join(route, ..)
            | PathMatch::Stop(route, ..) => route,
        }
    }

    pub(super) fn route_match(&self) -> &Arc<RouteMatch> {
        match self {
            PathMatch::Run(route) => &route.start_match,
            PathMatch::Events(route, _) => &route.read_match,
            PathMatch::Join(_, resumable, _) => &resumable.join_match,
            PathMatch::Stop(_, resumable, _) => &resumable.stop_match,
        }
    }
}

/// Builds the routes of a configuration by path; unchanged ones are reused.
///
/// # Errors
/// A file that the configuration names for agents cannot be used.
fn build_routes(
    config: &Config,
    metrics: &Metrics,
    connector: &Arc<Connector>,
    before: Option<&Gateway>,
) -> Result<HashMap<String, Arc<RouteEntry>>, String> {
    let known: HashMap<&str, &Arc<RouteEntry>> =
        before.iter().flat_map(|before| before.routes.values()).map(|route| (&*route.name, route)).collect();
    let mut routes = HashMap::new();
    for settings in &config.routes {
        let route = match known.get(settings.name.as_str()) {
            Some(route) if route.config == *settings => Arc::clone(route),
            known => Arc::new(RouteEntry::new(settings, metrics, connector, known.map(|route| &***route))?),
        };
        routes.insert(settings.path.clone(), route);
    }
    Ok(routes)
}

/// Returns whether both routes have the same agent, treated alike. Every key counts except those that concern clients.
fn is_same_agent(one: &config::RouteConfig, other: &config::RouteConfig) -> bool {
    let config::RouteConfig { path, events_path, client, guard, access, on_disconnect, .. } = one.clone();
    *one == config::RouteConfig { path, events_path, client, guard, access, on_disconnect, ..other.clone() }
}

pub(super) fn full_body(body: Full<Bytes>) -> ResponseBody {
    body.map_err(|never| match never {}).boxed_unsync()
}

impl Gateway {
    /// Builds the gateway; hosts are not resolved yet, see [`Gateway::clusters`].
    ///
    /// # Errors
    /// A file that the configuration names for agents cannot be used.
    pub(crate) fn new(
        config: &Config,
        metrics: Arc<Metrics>,
        lifecycle: Lifecycle,
        guard: Arc<RequestPolicy>,
        tracing: TraceProvider,
    ) -> Result<Self, String> {
        let connector = Arc::new(Connector::default());
        let replay = RunStore::new(config.replay, config.limits.client_buffer, SEND_TIMEOUT, metrics.replay());
        let is_shared = config.replay.store == ReplayStoreKind::Redis;
        let replication = guard.redis().filter(|_| is_shared).map(|redis| {
            let settings =
                ReplicaSettings { process: resume::new_token(), keep_alive: config.keep_alive, age: config.replay.age };
            ReplicatedRuns::new(Arc::clone(&replay), redis, settings, metrics.replay())
        });
        Ok(Gateway {
            routes: build_routes(config, &metrics, &connector, None)?,
            replay,
            replication,
            limits: config.limits,
            keep_alive: config.keep_alive,
            connector,
            metrics,
            lifecycle,
            guard,
            tracing,
        })
    }

    /// Builds the gateway for another configuration. Unchanged routes are reused, and unchanged agents keep their
    /// addresses and connections.
    ///
    /// # Errors
    /// As [`Gateway::new`].
    pub(crate) fn with_config(&self, config: &Config, guard: Arc<RequestPolicy>) -> Result<Self, String> {
        let routes = build_routes(config, &self.metrics, &self.connector, Some(self))?;
        self.replay.set_bounds(config.replay, config.limits.client_buffer);
        Ok(Gateway {
            routes,
            replay: Arc::clone(&self.replay),
            replication: self.replication.clone(),
            limits: config.limits,
            keep_alive: config.keep_alive,
            connector: Arc::clone(&self.connector),
            metrics: Arc::clone(&self.metrics),
            lifecycle: self.lifecycle.clone(),
            guard,
            tracing: self.tracing.clone(),
        })
    }

    #[must_use]
    pub(crate) fn clusters(&self) -> Vec<Arc<Cluster>> {
        self.routes.values().map(|route| Arc::clone(&route.cluster)).collect()
    }

    /// Returns the shared runs, which must be watched.
    #[must_use]
    pub(crate) fn replication(&self) -> Option<Arc<ReplicatedRuns>> {
        self.replication.clone()
    }

    pub(super) fn paths(&self) -> Vec<&str> {
        self.routes.keys().map(String::as_str).collect()
    }

    /// Matches a path. Exact paths take precedence; no template matches one of them.
    pub(super) fn find(&self, path: &str) -> Option<PathMatch<'_>> {
        if let Some(route) = self.routes.get(path) {
            return Some(PathMatch::Run(route));
        }
        self.routes.values().find_map(|route| {
            if let Some(thread_id) = route.two_step.as_ref().and_then(|events| events.path.thread_id(path)) {
                return Some(PathMatch::Events(route, thread_id));
            }
            let resumable = route.resumable.as_ref()?;
            let joined = resumable.events.run_id(path).map(|run_id| PathMatch::Join(route, resumable, run_id));
            joined.or_else(|| resumable.stop.run_id(path).map(|run_id| PathMatch::Stop(route, resumable, run_id)))
        })
    }

    /// Handles a request that has passed the gates: the leaf of the stack.
    pub(super) async fn handle_request(&self, request: Request<Incoming>) -> Result<Response<ResponseBody>, Rejection> {
        let path = request.uri().path();
        let Some(found) = self.find(path) else {
            // A client that has yet to learn how to authenticate cannot do so now.
            let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
            let document = self.guard.authenticator().resource_metadata(path).filter(|_| is_read);
            return Ok(responses::resource_metadata(document.ok_or(RejectionKind::RouteNotFound)?).map(full_body));
        };
        match found {
            PathMatch::Run(route) => {
                let headers = RateLimitHeaders::fields_from(request.extensions());
                with_headers(self.start_run(route, request).await, headers)
            }
            PathMatch::Events(route, thread_id) => {
                let identity = request.extensions().get::<CallerContext>().and_then(CallerContext::identity);
                self.guard.threads.check_read(&route.read_match, identity, thread_id.as_deref())?;
                if let Some(response) = self.join_last_run(route, thread_id.as_deref(), &request).await? {
                    return Ok(response);
                }
                two_step::serve_events(route, thread_id.as_deref(), &request)
            }
            PathMatch::Join(route, _, run_id) => {
                let headers = RateLimitHeaders::fields_from(request.extensions());
                with_headers(self.join_run(route, run_id.as_deref(), &request).await, headers)
            }
            PathMatch::Stop(route, _, run_id) => {
                let headers = RateLimitHeaders::fields_from(request.extensions());
                with_headers(self.stop_run(route, run_id.as_deref(), &request).await, headers)
            }
        }
    }
}

/// Adds the headers of the gates to a response or a rejection.
fn with_headers<B>(
    response: Result<Response<B>, Rejection>,
    headers: Vec<(HeaderName, HeaderValue)>,
) -> Result<Response<B>, Rejection> {
    match response {
        Ok(mut response) => {
            response.headers_mut().extend(headers);
            Ok(response)
        }
        Err(mut rejection) => {
            rejection.headers.extend(headers);
            Err(rejection)
        }
    }
}
