//! The composition root: binds, builds, serves, drains.

mod start_error;
mod notify;
mod reload;
mod upgrade;
mod drain;

pub(crate) use reload::ConfigSource;
pub(crate) use start_error::StartError;

use crate::admin::{self, AdminState, InspectState, InspectorToken, ProcessHandle};
use crate::config::Config;
use crate::config::listen::ListenerConfig;
use crate::net::SwapCell;
use crate::policy::RequestPolicy;
use crate::proxy::{
    BindError, Cluster, ConnectionLimit, EdgeBounds, EdgeServer, Gateway, Lifecycle, Listener, PlaneConfig,
    ReloadableService, UnsentBudget, plane_service, stack,
};
use crate::telemetry::trace::TraceProvider;
use crate::telemetry::{Metrics, internal_event, label, log};
use async_trait::async_trait;
use axum::Router;
use drain::{Drain, PlaneDrainSignals};
use parking_lot::Mutex;
use pingora_core::server::configuration::ServerConf;
use pingora_core::server::{RunArgs, Server, ShutdownWatch};
use pingora_core::services::background::{BackgroundService, GenBackgroundService, background_service};
use reload::{ActiveConfig, ConfigReloader, SwapGatewayFn};
use std::future::Future;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use upgrade::{LocalEndpoint, Predecessor};

const DATA: &str = label::PlaneKind::Data.label();
const STATUS: &str = label::PlaneKind::Status.label();
const INSPECTOR: &str = label::PlaneKind::Inspector.label();

const STATUS_THREADS: usize = 1;

/// Maximum number of threads for large events and requests, files and look-ups of names. Each has a stack and buffers.
const MAX_BLOCKING_THREADS: usize = 64;

const SPAN_FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) struct App {
    config: Config,
    source: Option<ConfigSource>,
    metrics: Arc<Metrics>,
    policy: Arc<RequestPolicy>,
    tracing: TraceProvider,
    data_listeners: Vec<Listener>,
    status_listeners: Vec<Listener>,
    inspector_listeners: Vec<Listener>,
    inspector_token: InspectorToken,
    local: Option<LocalEndpoint>,
    predecessor: Option<Predecessor>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartMode {
    NewSockets,
    /// takes over the sockets of the process in `run_dir`, if any
    Upgrade,
}

impl App {
    pub(crate) fn bind(config: Config, source: Option<ConfigSource>, start: StartMode) -> Result<Self, StartError> {
        if let Some(source) = &source {
            source.log_warnings();
        }
        let metrics = Arc::new(Metrics::new().map_err(|error| StartError::Internal(error.to_string()))?);
        let policy = RequestPolicy::new(&config, &metrics);
        let policy = Arc::new(policy.map_err(|error| StartError::Unusable(error.to_string()))?);
        let tracing =
            TraceProvider::from_environment(&metrics).map_err(|error| StartError::Unusable(error.to_string()))?;
        if let Some(run_dir) = &config.process.run_dir {
            admin::prepare_run_dir(run_dir).map_err(|error| StartError::RunDir(run_dir.to_owned(), error))?;
        }
        // Last, because it is the first step that affects the running process.
        let mut predecessor = find_predecessor(config.process.run_dir.as_deref(), start)?;
        let data_listeners = bind_plane(DATA, &config.data, predecessor.as_mut())?;
        let status_listeners = bind_plane(STATUS, &config.status, predecessor.as_mut())?;
        let inspector_listeners = bind_plane(INSPECTOR, &config.inspector, predecessor.as_mut())?;
        let inspector_token = InspectorToken::new().map_err(StartError::Internal)?;
        let local = match &config.process.run_dir {
            Some(run_dir) => {
                let planes = [(DATA, &data_listeners), (STATUS, &status_listeners), (INSPECTOR, &inspector_listeners)];
                Some(LocalEndpoint::bind(run_dir, planes)?)
            }
            None => None,
        };
        Ok(App {
            config,
            source,
            metrics,
            policy,
            tracing,
            data_listeners,
            status_listeners,
            inspector_listeners,
            inspector_token,
            local,
            predecessor,
        })
    }

    /// Returns the data plane's first network address.
    pub(crate) fn data_address(&self) -> Option<SocketAddr> {
        self.data_listeners.iter().find_map(Listener::bound_address)
    }

    /// Returns the status plane's first network address.
    pub(crate) fn status_address(&self) -> Option<SocketAddr> {
        self.status_listeners.iter().find_map(Listener::bound_address)
    }

    /// Returns the address of the inspector's page with its token, if it has a listener.
    pub(crate) fn inspector_url(&self) -> Option<String> {
        let address = self.inspector_listeners.iter().find_map(Listener::bound_address)?;
        Some(self.inspector_token.url(address))
    }

    pub(crate) fn serve(self) -> Result<(), StartError> {
        let lifecycle = Lifecycle::default();
        let gateway = self.build_gateway(&lifecycle)?;
        let listening = self.listening_events();
        let inspector_url = self.inspector_url();
        let App {
            config,
            source,
            metrics,
            policy,
            tracing,
            data_listeners,
            status_listeners,
            inspector_listeners,
            inspector_token,
            local,
            predecessor,
        } = self;
        let drain_signals = Arc::new(PlaneDrainSignals::default());
        let (process, reload_requests) = ProcessHandle::new();

        let socket_files: Vec<_> =
            data_listeners.iter().chain(&status_listeners).filter_map(|listener| listener.file.clone()).collect();
        let policies = SwapCell::new(policy);
        let clusters = SwapCell::new(Arc::new(gateway.clusters()));
        let status_routes = admin::router(Arc::clone(&metrics), lifecycle.clone(), policies.clone(), clusters.clone());

        let mut server = new_server();
        let planes = PlaneBuilder {
            config: &config,
            metrics: &metrics,
            unsent: UnsentBudget::new(Arc::clone(&metrics)),
            drain_signals: &drain_signals,
        };
        let swap_gateway = planes.add_data(&mut server, data_listeners, Arc::clone(&gateway), clusters);
        planes.add_status(&mut server, STATUS, status_listeners, status_routes.clone());
        let effective_config = source.as_ref().map(|source| source.effective_config.clone()).unwrap_or_default();
        let effective_config = SwapCell::new(Arc::new(effective_config));
        let checked = SwapCell::new(Arc::new(config.clone()));
        let inspect = InspectState {
            captures: Arc::clone(&gateway.captures),
            config: checked.clone(),
            effective_config: effective_config.clone(),
            url: inspector_url.map(Into::into),
        };
        if !inspector_listeners.is_empty() {
            let routes = admin::inspector(inspect.clone(), status_routes.clone(), inspector_token);
            planes.add_status(&mut server, INSPECTOR, inspector_listeners, routes);
        }
        let config = checked;
        if let Some(local) = &local {
            let router = admin::control(admin_state(local, &process, inspect), status_routes);
            let admin = serve_admin(local.listener()?, router, Arc::clone(&drain_signals));
            server.add_service(run_once("admin", admin));
        }
        if let Some(replication) = gateway.replication.clone() {
            server.add_service(run_once("replay", async move { replication.keep_running().await }));
        }
        let active = ActiveConfig {
            config: config.clone(),
            policy: policies.clone(),
            effective_config,
            gateway,
            swap_gateway,
            lifecycle: lifecycle.clone(),
            metrics: Arc::clone(&metrics),
        };
        let reloader = ConfigReloader::new(active, source, reload_requests).run();
        let log_metrics = Arc::clone(&metrics);
        server.add_service(run_once("upkeep", async move {
            tokio::join!(reloader, log::report_dropped_lines(&log_metrics));
        }));

        let drain = Drain {
            lifecycle: lifecycle.clone(),
            metrics,
            config,
            policies,
            process,
            drain_signals,
            local,
            predecessor: Mutex::new(predecessor),
            listening,
            socket_files: socket_files.clone(),
        };
        server.run(RunArgs { shutdown_signal: Box::new(drain) });
        // `Server::run` returns without waiting for its services.
        socket_files.iter().for_each(|file| file.remove());
        // After the last runs, so that their spans are also sent.
        tracing.flush(SPAN_FLUSH_TIMEOUT);
        internal_event::ProcessStopped { cut_runs: lifecycle.cut_runs() }.emit();
        Ok(())
    }

    fn build_gateway(&self, lifecycle: &Lifecycle) -> Result<Arc<Gateway>, StartError> {
        let metrics = Arc::clone(&self.metrics);
        let policy = Arc::clone(&self.policy);
        let gateway = Gateway::new(&self.config, metrics, lifecycle.clone(), policy, self.tracing.clone());
        let gateway = Arc::new(gateway.map_err(StartError::Unusable)?);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| StartError::Internal(error.to_string()))?;
        runtime.block_on(reload::resolve(&gateway.clusters()));
        // DNS look-ups that hang are abandoned.
        runtime.shutdown_background();
        Ok(gateway)
    }

    fn listening_events(&self) -> Vec<internal_event::ListenerStarted> {
        let planes =
            [(DATA, &self.data_listeners), (STATUS, &self.status_listeners), (INSPECTOR, &self.inspector_listeners)];
        let events = planes.into_iter().flat_map(|(plane, listeners)| {
            listeners.iter().map(move |listener| {
                let tls = listener.config.tls.is_some();
                internal_event::ListenerStarted { plane, address: listener.display_address(), tls }
            })
        });
        events.collect()
    }
}

/// Adds the network planes to pingora's server.
struct PlaneBuilder<'a> {
    config: &'a Config,
    metrics: &'a Arc<Metrics>,
    unsent: Arc<UnsentBudget>,
    drain_signals: &'a PlaneDrainSignals,
}

impl PlaneBuilder<'_> {
    /// Adds the data plane, with one thread per CPU. Returns a function that replaces its gateway on reload.
    fn add_data(
        &self,
        server: &mut Server,
        listeners: Vec<Listener>,
        gateway: Arc<Gateway>,
        clusters: SwapCell<Vec<Arc<Cluster>>>,
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
        };
        server.add_service(plane_service(plane, edge, self.metrics, &self.drain_signals.status));
    }
}

fn find_predecessor(run_dir: Option<&Path>, start: StartMode) -> Result<Option<Predecessor>, StartError> {
    let alive = run_dir.filter(|run_dir| admin::is_alive(run_dir));
    match (start, run_dir, alive) {
        (StartMode::Upgrade, None, _) => Err(StartError::Unusable(
            "`run_dir` is not set; `--upgrade` finds the running gateway through it, so set it in the configuration of both"
                .to_owned(),
        )),
        (StartMode::Upgrade, _, Some(run_dir)) => Predecessor::connect(run_dir).map(Some),
        (StartMode::NewSockets, _, Some(run_dir)) => Err(StartError::Running(run_dir.to_owned())),
        (StartMode::Upgrade, Some(run_dir), None) => {
            internal_event::NoPreviousProcess { run_dir }.emit();
            Ok(None)
        }
        (StartMode::NewSockets, _, None) => Ok(None),
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

fn admin_state(local: &LocalEndpoint, process: &ProcessHandle, inspect: InspectState) -> AdminState {
    let sockets = local.handover_sockets.clone();
    let run_dir = local.run_dir.clone();
    AdminState { process: process.clone(), hand_over: Arc::new(move || sockets.hand_over(&run_dir)), inspect }
}

async fn serve_admin(listener: UnixListener, router: Router, drain_signals: Arc<PlaneDrainSignals>) {
    if let Err(error) = admin::serve(listener, router, &drain_signals.admin).await {
        internal_event::AdminPlaneFailed { error }.emit();
    }
}

fn new_server() -> Server {
    // `Drain` does the draining, so pingora's grace period is zero.
    let conf = ServerConf {
        grace_period_seconds: Some(0),
        graceful_shutdown_timeout_seconds: Some(1),
        max_blocking_threads: Some(MAX_BLOCKING_THREADS),
        ..Default::default()
    };
    let mut server = Server::new_with_opt_and_conf(None, conf);
    server.bootstrap();
    server
}

/// Adapts a future to a pingora service that is started once.
struct TaskService<F>(Mutex<Option<F>>);

fn run_once<F: Future<Output = ()> + Send + 'static>(name: &str, task: F) -> GenBackgroundService<TaskService<F>> {
    background_service(name, TaskService(Mutex::new(Some(task))))
}

#[async_trait]
impl<F: Future<Output = ()> + Send + 'static> BackgroundService for TaskService<F> {
    async fn start(&self, _: ShutdownWatch) {
        let task = self.0.lock().take();
        if let Some(task) = task {
            task.await;
        }
    }
}
