//! The routes, and what a request for each path leads to.

use super::desk::{self, Desk};
use super::edge::SEND_TIMEOUT;
use super::lifecycle::Lifecycle;
use super::pipe::CutOff;
use super::rejoin::{self, Resumable};
use super::respond;
use super::upstream::{Cluster, Connector};
use crate::config::replay::{Keeper, OnDisconnect};
use crate::config::{self, Config, Limits};
use crate::dialect::{Dialect, Side};
use crate::error::{Kind, Rejection};
use crate::guard::{Errand, Guard, Matched, Standings, Who};
use crate::replay::{Settings, Shared, Store};
use crate::telemetry::trace::Tracing;
use crate::telemetry::{Metrics, RouteMetrics};
use crate::translate::{Mode, Tools};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The body of every answer.
pub type Body = UnsyncBoxBody<Bytes, CutOff>;

/// Everything that requests are answered with.
#[derive(Debug)]
pub struct Gateway {
    routes: HashMap<String, Arc<Route>>,
    pub(super) limits: Limits,
    pub(super) keep_alive: Duration,
    pub(super) connector: Arc<Connector>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) lifecycle: Lifecycle,
    pub(super) guard: Arc<Guard>,
    pub(super) tracing: Tracing,
    /// the runs that outlive their clients
    pub(super) replay: Arc<Store>,
    /// the same, of all replicas
    pub(super) shared: Option<Arc<Shared>>,
}

/// What a path leads to.
pub(super) enum Found<'g> {
    /// a POST starts a run
    Run(&'g Route),
    /// a GET reads the run of this thread; none where the segment is no id
    Events(&'g Route, Option<String>),
    /// a GET reads this run again; none where the segment is no id
    Join(&'g Route, &'g Resumable, Option<String>),
    /// a POST stops it
    Stop(&'g Route, &'g Resumable, Option<String>),
}

/// What requests for one path are answered with.
#[derive(Debug)]
pub(super) struct Route {
    /// as it is configured
    pub settings: config::Route,
    pub name: Arc<str>,
    /// what the guard knows of it, for a request that starts a run
    pub starting: Arc<Matched>,
    /// the same, for one that reads a run
    reading: Arc<Matched>,
    /// where its runs are found that outlive their clients, if they do
    pub resumable: Option<Resumable>,
    /// where clients of two steps find their events
    pub desk: Option<Desk>,
    pub client: Side,
    /// what the agent speaks, by the configuration
    pub agent: Side,
    /// what the agent turned out to speak, where the route leaves it open: later requests are written in that
    pub learned: Arc<OnceLock<&'static Dialect>>,
    pub guard: Mode,
    /// the only tools that may be used
    pub tools: Option<Arc<Tools>>,
    pub cluster: Arc<Cluster>,
    pub metrics: Arc<RouteMetrics>,
}

impl Route {
    /// The route, with what goes on at the one of that name before.
    ///
    /// # Errors
    /// Which file of its agents cannot be used, and why.
    fn new(
        route: &config::Route,
        registry: &Metrics,
        connector: &Arc<Connector>,
        before: Option<&Route>,
    ) -> Result<Self, String> {
        let metrics = registry.route(&route.name, route.client, route.agent);
        let agent = before.filter(|before| same_agent(&before.settings, route));
        let name: Arc<str> = route.name.as_str().into();
        let matched = |errand| {
            Arc::new(Matched {
                name: Arc::clone(&name),
                path: route.path.clone(),
                access: Arc::clone(&route.access),
                metrics: Arc::clone(&metrics),
                errand,
            })
        };
        Ok(Route {
            starting: matched(match route.on_disconnect {
                OnDisconnect::Abort => Errand::Start,
                OnDisconnect::Continue(_) => Errand::StartOrJoin,
            }),
            reading: matched(Errand::Read),
            resumable: match route.on_disconnect {
                OnDisconnect::Abort => None,
                OnDisconnect::Continue(alone) => {
                    Some(Resumable::new(&route.path, alone, matched(Errand::Join), matched(Errand::Stop)))
                }
            },
            desk: Desk::new(route, before.and_then(|before| before.desk.as_ref())),
            client: route.client,
            agent: route.agent,
            learned: agent.map(|before| Arc::clone(&before.learned)).unwrap_or_default(),
            guard: route.guard,
            tools: route.access.tools.as_ref().map(|names| Arc::new(Tools::new(names.iter().map(String::as_str)))),
            cluster: match before.filter(|before| before.cluster.is_of(route)) {
                Some(before) => Arc::clone(&before.cluster),
                None => Arc::new(Cluster::new(route, connector, registry)?),
            },
            settings: route.clone(),
            metrics,
            name,
        })
    }

    /// What the agent speaks, as far as that is known.
    pub(super) fn agent(&self) -> Side {
        match self.learned.get() {
            Some(dialect) => Side { auto: true, ..Side::new(dialect) },
            None => self.agent,
        }
    }
}

impl<'g> Found<'g> {
    pub(super) fn route(&self) -> &'g Route {
        match self {
            Found::Run(route) | Found::Events(route, _) | Found::Join(route, ..) | Found::Stop(route, ..) => route,
        }
    }

    pub(super) fn matched(&self) -> &Arc<Matched> {
        match self {
            Found::Run(route) => &route.starting,
            Found::Events(route, _) => &route.reading,
            Found::Join(_, resumable, _) => &resumable.joining,
            Found::Stop(_, resumable, _) => &resumable.stopping,
        }
    }
}

/// The routes of a configuration, by their paths.
///
/// # Errors
/// Which file that the configuration names for agents cannot be used, and why.
fn routes(
    config: &Config,
    metrics: &Metrics,
    connector: &Arc<Connector>,
    before: Option<&Gateway>,
) -> Result<HashMap<String, Arc<Route>>, String> {
    let known: HashMap<&str, &Arc<Route>> =
        before.iter().flat_map(|before| before.routes.values()).map(|route| (&*route.name, route)).collect();
    let route = |settings: &config::Route| match known.get(settings.name.as_str()) {
        Some(route) if route.settings == *settings => Ok(Arc::clone(route)),
        known => Route::new(settings, metrics, connector, known.map(|route| &***route)).map(Arc::new),
    };
    config.routes.iter().map(|settings| Ok((settings.path.clone(), route(settings)?))).collect()
}

/// Whether two routes have the same agent and treat it alike. Every key is taken to matter but those that are about clients.
fn same_agent(one: &config::Route, other: &config::Route) -> bool {
    let config::Route { path, events_path, client, guard, access, on_disconnect, .. } = one.clone();
    *one == config::Route { path, events_path, client, guard, access, on_disconnect, ..other.clone() }
}

/// A body that is known whole.
pub(super) fn whole(body: Full<Bytes>) -> Body {
    body.map_err(|never| match never {}).boxed_unsync()
}

impl Gateway {
    /// A gateway for the routes of `config`. Their hosts are not resolved yet; see [`Gateway::clusters`].
    ///
    /// # Errors
    /// Which file that the configuration names for agents cannot be used, and why.
    pub fn new(
        config: &Config,
        metrics: Arc<Metrics>,
        lifecycle: Lifecycle,
        guard: Arc<Guard>,
        tracing: Tracing,
    ) -> Result<Self, String> {
        let connector = Arc::new(Connector::default());
        let replay = Store::new(config.replay, config.limits.client_buffer, SEND_TIMEOUT, metrics.replay());
        let shares = config.replay.store == Keeper::Redis;
        let shared = guard.redis().filter(|_| shares).map(|redis| {
            let (process, keep_alive, age) = (rejoin::token(), config.keep_alive, config.replay.age);
            let settings = Settings { process, keep_alive, age };
            Shared::new(Arc::clone(&replay), redis, settings, metrics.replay())
        });
        Ok(Gateway {
            routes: routes(config, &metrics, &connector, None)?,
            replay,
            shared,
            limits: config.limits,
            keep_alive: config.keep_alive,
            connector,
            metrics,
            lifecycle,
            guard,
            tracing,
        })
    }

    /// A gateway for another configuration in place of this one. Routes that are configured as before are the same, and
    /// agents that are keep their addresses and connections.
    ///
    /// # Errors
    /// As [`Gateway::new`].
    pub fn renewed(&self, config: &Config, guard: Arc<Guard>) -> Result<Self, String> {
        let routes = routes(config, &self.metrics, &self.connector, Some(self))?;
        self.replay.adjust(config.replay, config.limits.client_buffer);
        Ok(Gateway {
            routes,
            replay: Arc::clone(&self.replay),
            shared: self.shared.clone(),
            limits: config.limits,
            keep_alive: config.keep_alive,
            connector: Arc::clone(&self.connector),
            metrics: Arc::clone(&self.metrics),
            lifecycle: self.lifecycle.clone(),
            guard,
            tracing: self.tracing.clone(),
        })
    }

    /// The agents of every route.
    #[must_use]
    pub fn clusters(&self) -> Vec<Arc<Cluster>> {
        self.routes.values().map(|route| Arc::clone(&route.cluster)).collect()
    }

    /// The runs of all replicas, if replicas share theirs. They have to be watched.
    #[must_use]
    pub fn shared(&self) -> Option<Arc<Shared>> {
        self.shared.clone()
    }

    /// The paths of all routes.
    pub(super) fn paths(&self) -> Vec<&str> {
        self.routes.keys().map(String::as_str).collect()
    }

    /// What a path leads to. Exact paths come first; no template reads one of them.
    pub(super) fn find(&self, path: &str) -> Option<Found<'_>> {
        if let Some(route) = self.routes.get(path) {
            return Some(Found::Run(route));
        }
        self.routes.values().find_map(|route| {
            if let Some(thread_id) = route.desk.as_ref().and_then(|desk| desk.path.thread_id(path)) {
                return Some(Found::Events(route, thread_id));
            }
            let resumable = route.resumable.as_ref()?;
            let joined = resumable.events.run_id(path).map(|run_id| Found::Join(route, resumable, run_id));
            joined.or_else(|| resumable.stop.run_id(path).map(|run_id| Found::Stop(route, resumable, run_id)))
        })
    }

    /// The leaf of the stack: whoever comes here has passed the gates.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Result<Response<Body>, Rejection> {
        let path = request.uri().path();
        let Some(found) = self.find(path) else {
            // Whoever is to learn how to show who it is cannot show it yet.
            let reads = matches!(*request.method(), Method::GET | Method::HEAD);
            let document = self.guard.auth().metadata(path).filter(|_| reads);
            return Ok(respond::metadata(document.ok_or(Kind::RouteNotFound)?).map(whole));
        };
        match found {
            Found::Run(route) => {
                let standings = Standings::fields(request.extensions());
                announced(self.start(route, request).await, standings)
            }
            Found::Events(route, thread_id) => {
                let who = request.extensions().get::<Who>().and_then(Who::known);
                self.guard.threads.read(&route.reading, who, thread_id.as_deref())?;
                if let Some(again) = self.events_again(route, thread_id.as_deref(), &request).await? {
                    return Ok(again);
                }
                desk::events(route, thread_id.as_deref(), &request)
            }
            Found::Join(route, _, run_id) => {
                let standings = Standings::fields(request.extensions());
                announced(self.join_again(route, run_id.as_deref(), &request).await, standings)
            }
            Found::Stop(route, _, run_id) => {
                let standings = Standings::fields(request.extensions());
                announced(self.stop(route, run_id.as_deref(), &request).await, standings)
            }
        }
    }
}

/// An answer or a refusal, with fields that the gates have to say in both.
fn announced<B>(
    answer: Result<Response<B>, Rejection>,
    fields: Vec<(HeaderName, HeaderValue)>,
) -> Result<Response<B>, Rejection> {
    match answer {
        Ok(mut response) => {
            response.headers_mut().extend(fields);
            Ok(response)
        }
        Err(mut rejection) => {
            rejection.headers.extend(fields);
            Err(rejection)
        }
    }
}
