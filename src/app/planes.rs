//! The planes that are on the network: their listeners, and the services that serve them.

use super::drain::PlaneDrainSignals;
use super::reload::SwapGatewayFn;
use super::start_error::StartError;
use super::upgrade::{self, Predecessor};
use crate::admin::{self, ConfigCheckState, InspectState, InspectorToken, PlaygroundState};
use crate::config::Config;
use crate::config::listen::ListenerConfig;
use crate::net::SwapCell;
use crate::proxy::{
    BindError, Cluster, ConnectionLimit, EdgeBounds, EdgeServer, Gateway, Listener, LocalConnector, LocalListener,
    PlaneConfig, ReloadableService, SocketFile, UnsentBudget, plane_service, stack,
};
use crate::telemetry::{Metrics, internal_event, label};
use axum::Router;
use pingora_core::server::Server;
use std::sync::Arc;

const DATA: &str = label::PlaneKind::Data.label();
const STATUS: &str = label::PlaneKind::Status.label();
const INSPECTOR: &str = label::PlaneKind::Inspector.label();

const STATUS_THREADS: usize = 1;

/// The listeners of all planes.
pub(super) struct BoundPlanes {
    pub(super) data: Vec<Listener>,
    pub(super) status: Vec<Listener>,
    pub(super) inspector: Vec<Listener>,
    pub(super) inspector_token: InspectorToken,
}

impl BoundPlanes {
    /// Binds the listeners, or takes them over from the previous process.
    pub(super) fn bind(config: &Config, mut predecessor: Option<&mut Predecessor>) -> Result<BoundPlanes, StartError> {
        Ok(BoundPlanes {
            data: bind_plane(DATA, &config.data, predecessor.as_deref_mut())?,
            status: bind_plane(STATUS, &config.status, predecessor.as_deref_mut())?,
            inspector: bind_plane(INSPECTOR, &config.inspector, predecessor)?,
            inspector_token: InspectorToken::new().map_err(StartError::Internal)?,
        })
    }

    pub(super) fn by_name(&self) -> [(&'static str, &Vec<Listener>); 3] {
        [(DATA, &self.data), (STATUS, &self.status), (INSPECTOR, &self.inspector)]
    }

    /// Returns the files of Unix sockets, which are removed when the process ends.
    pub(super) fn socket_files(&self) -> Vec<Arc<SocketFile>> {
        self.data.iter().chain(&self.status).filter_map(|listener| listener.file.clone()).collect()
    }

    pub(super) fn inspector_url(&self) -> Option<String> {
        let address = self.inspector.iter().find_map(Listener::bound_address)?;
        Some(self.inspector_token.url(address))
    }

    pub(super) fn listening_events(&self) -> Vec<internal_event::ListenerStarted> {
        let events = self.by_name().into_iter().flat_map(|(plane, listeners)| {
            listeners.iter().map(move |listener| {
                let tls = listener.config.tls.is_some();
                internal_event::ListenerStarted { plane, address: listener.display_address(), tls }
            })
        });
        events.collect()
    }
}

/// Adds the network planes to pingora's server.
pub(super) struct PlaneBuilder<'a> {
    config: &'a Config,
    metrics: &'a Arc<Metrics>,
    unsent: Arc<UnsentBudget>,
    drain_signals: &'a PlaneDrainSignals,
}

impl<'a> PlaneBuilder<'a> {
    pub(super) fn new(config: &'a Config, metrics: &'a Arc<Metrics>, drain_signals: &'a PlaneDrainSignals) -> Self {
        PlaneBuilder { config, metrics, unsent: UnsentBudget::new(Arc::clone(metrics)), drain_signals }
    }

    /// Adds all planes. Returns a function that replaces the gateway of the data plane on reload.
    pub(super) fn add_planes(
        &self,
        server: &mut Server,
        planes: BoundPlanes,
        gateway: &Arc<Gateway>,
        clusters: SwapCell<Vec<Arc<Cluster>>>,
        status_routes: &Router,
        inspect: &InspectState,
    ) -> SwapGatewayFn {
        let (connector, local) = LocalConnector::new();
        let gateways = SwapCell::new(Arc::clone(gateway));
        let swap_stack = self.add_data(server, planes.data, Arc::clone(gateway), clusters, local);
        self.add_status(server, STATUS, planes.status, status_routes.clone());
        if !planes.inspector.is_empty() {
            let routes = admin::inspector(
                inspect.clone(),
                PlaygroundState::new(connector, inspect.config.clone()),
                ConfigCheckState { gateway: gateways.clone(), file: inspect.config_file.clone() },
                status_routes.clone(),
                planes.inspector_token,
                Arc::clone(self.metrics),
            );
            self.add_status(server, INSPECTOR, planes.inspector, routes);
        }
        Box::new(move |gateway| {
            gateways.store(Arc::clone(&gateway));
            swap_stack(gateway);
        })
    }

    /// Adds the data plane, with one thread per CPU. Returns a function that replaces its gateway on reload.
    fn add_data(
        &self,
        server: &mut Server,
        listeners: Vec<Listener>,
        gateway: Arc<Gateway>,
        clusters: SwapCell<Vec<Arc<Cluster>>>,
        local: LocalListener,
    ) -> SwapGatewayFn {
        let stacks = SwapCell::new(Arc::new(stack(gateway)));
        let connection_limit = ConnectionLimit::for_clients(self.config);
        let bounds = self.bounds(&connection_limit);
        let edge = EdgeServer::for_clients(ReloadableService(stacks.clone()), &self.config.limits, bounds);
        let plane = PlaneConfig {
            name: DATA,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            listeners,
            connection_limit,
            trusted_proxies: self.config.trusted_proxies.clone(),
            local: Some(local),
        };
        server.add_service(plane_service(plane, edge, self.metrics, &self.drain_signals.data));
        Box::new(move |gateway| {
            clusters.store(Arc::new(gateway.clusters()));
            stacks.store(Arc::new(stack(gateway)));
        })
    }

    fn bounds(&self, connection_limit: &ConnectionLimit) -> EdgeBounds {
        EdgeBounds {
            connection_limit: connection_limit.clone(),
            unsent: Arc::clone(&self.unsent),
            metrics: Arc::clone(self.metrics),
        }
    }

    /// Adds the status plane or the inspector, on a separate runtime so that it responds while the data plane is busy.
    fn add_status(&self, server: &mut Server, name: &'static str, listeners: Vec<Listener>, routes: Router) {
        let connection_limit = ConnectionLimit::for_status();
        let edge = EdgeServer::for_status(routes, &self.config.limits, self.bounds(&connection_limit));
        let plane = PlaneConfig {
            name,
            threads: STATUS_THREADS,
            listeners,
            connection_limit,
            trusted_proxies: self.config.trusted_proxies.clone(),
            local: None,
        };
        server.add_service(plane_service(plane, edge, self.metrics, &self.drain_signals.status));
    }
}

/// Binds a plane's listeners, or takes them over from the previous process.
fn bind_plane(
    plane: &'static str,
    listeners: &[ListenerConfig],
    mut predecessor: Option<&mut Predecessor>,
) -> Result<Vec<Listener>, StartError> {
    let names = upgrade::socket_names(plane, listeners);
    let bound = names.iter().zip(listeners).map(|(name, listen)| {
        let inherited = predecessor.as_mut().and_then(|predecessor| predecessor.sockets.remove(name));
        Listener::bind(listen, inherited).map_err(|error| match error {
            BindError::Socket(error) => StartError::Bind { plane, address: listen.address.to_string(), error },
            BindError::Tls(cause) => StartError::Unusable(cause),
        })
    });
    bound.collect()
}
