//! A configuration's routes, and the purposes of their paths.

use super::two_step::TwoStepEvents;
use super::upstream::{Cluster, Connector};
use crate::config::replay::OnDisconnect;
use crate::config::{self, Config, PathId, PathTemplate};
use crate::dialect::PeerDialect;
use crate::policy::{RequestKind, RouteMatch};
use crate::telemetry::{Metrics, RouteMetrics};
use crate::translate::AllowedTools;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The paths of runs that continue after their clients disconnect.
pub(super) struct ResumeRoutes {
    pub(crate) events: PathTemplate,
    pub(crate) stop: PathTemplate,
    /// how long a run continues without a client
    pub(crate) abandon_after: Duration,
    pub(crate) join_match: Arc<RouteMatch>,
    pub(crate) stop_match: Arc<RouteMatch>,
}

pub(super) struct PathMatch<'g> {
    pub(super) route: &'g RouteEntry,
    pub(super) route_match: &'g Arc<RouteMatch>,
    pub(super) target: PathTarget,
}

/// The purpose of a path.
pub(super) enum PathTarget {
    /// a POST starts a run
    Run,
    /// a GET reads the run of this thread
    Events(PathId),
    /// a GET resumes the run with this id
    Join(PathId),
    /// a POST stops the run with this id
    Stop(PathId),
}

pub(super) struct RouteEntry {
    pub(crate) config: config::RouteConfig,
    pub(crate) name: Arc<str>,
    /// for requests that start a run
    pub(crate) start_match: Arc<RouteMatch>,
    /// for requests that read a run
    pub(super) read_match: Arc<RouteMatch>,
    /// present if runs continue after their clients disconnect
    pub(crate) resumable: Option<ResumeRoutes>,
    /// present for two-step clients
    pub(crate) two_step: Option<TwoStepEvents>,
    pub(crate) client: PeerDialect,
    pub(crate) agent: PeerDialect,
    pub(crate) tools: Option<Arc<AllowedTools>>,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) metrics: Arc<RouteMetrics>,
}

impl RouteEntry {
    fn new(
        route: &config::RouteConfig,
        registry: &Metrics,
        connector: &Arc<Connector>,
        before: Option<&RouteEntry>,
    ) -> Result<Self, String> {
        let metrics = registry.route(&route.name, route.client, route.agent);
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
        let (start_kind, resumable) = match route.on_disconnect {
            OnDisconnect::Abort => (RequestKind::Start, None),
            OnDisconnect::Continue(abandon_after) => {
                let [events, stop] = PathTemplate::for_runs(&route.path);
                let join_match = route_match(RequestKind::Join);
                let stop_match = route_match(RequestKind::Stop);
                let resumable = ResumeRoutes { events, stop, abandon_after, join_match, stop_match };
                (RequestKind::StartOrJoin, Some(resumable))
            }
        };
        let allowed = route.access.tools.as_ref();
        Ok(RouteEntry {
            start_match: route_match(start_kind),
            read_match: route_match(RequestKind::Read),
            resumable,
            two_step: TwoStepEvents::new(route, before.and_then(|before| before.two_step.as_ref())),
            client: route.client,
            agent: route.agent,
            tools: allowed.map(|names| Arc::new(AllowedTools::new(names.iter().map(String::as_str)))),
            cluster: match before.filter(|before| before.cluster.is_reusable_for(route)) {
                Some(before) => Arc::clone(&before.cluster),
                None => Arc::new(Cluster::new(route, connector, registry)?),
            },
            config: route.clone(),
            metrics,
            name,
        })
    }
}

pub(super) fn build_routes(
    config: &Config,
    metrics: &Metrics,
    connector: &Arc<Connector>,
    before: &HashMap<String, Arc<RouteEntry>>,
) -> Result<HashMap<String, Arc<RouteEntry>>, String> {
    let known: HashMap<&str, &Arc<RouteEntry>> = before.values().map(|route| (&*route.name, route)).collect();
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
