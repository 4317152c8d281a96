//! The composition root: binds, builds, serves, drains. Reading it top to bottom is reading the architecture.

mod notify;
mod reload;
mod upgrade;
mod drain;

pub(crate) use reload::ConfigSource;

use crate::admin::{self, AdminSocket, AdminState, ProcessHandle};
use crate::config::Config;
use crate::config::listen::ListenerConfig;
use crate::guard::RequestPolicy;
use crate::net::SwapCell;
use crate::proxy::{
    BindError, Cluster, ConnectionLimit, EdgeServer, Gateway, Lifecycle, Listener, PlaneConfig, ReloadableService,
    plane_service, stack,
};
use crate::replay::ReplicatedRuns;
use crate::telemetry::trace::TraceProvider;
use crate::telemetry::{Metrics, internal_event, label};
use async_trait::async_trait;
use axum::Router;
use drain::{Drain, PlaneDrainSignals};
use parking_lot::Mutex;
use pingora_core::server::configuration::ServerConf;
use pingora_core::server::{RunArgs, Server, ShutdownWatch};
use pingora_core::services::background::{BackgroundService, background_service};
use reload::{ConfigReloader, RunningState, SwapGatewayFn};
use std::fmt;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use upgrade::{HandoverSockets, Predecessor};

/// Names of the planes in metrics and logs.
const DATA: &str = label::PlaneKind::Data.label();
const STATUS: &str = label::PlaneKind::Status.label();

const STATUS_THREADS: usize = 1;

/// Time to send the last spans to the collector.
const SPAN_FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// A gateway whose sockets are bound, not yet serving.
pub(crate) struct App {
    config: Config,
    source: Option<ConfigSource>,
    metrics: Arc<Metrics>,
    guard: Arc<RequestPolicy>,
    tracing: TraceProvider,
    data_listeners: Vec<Listener>,
    status_listeners: Vec<Listener>,
    local: Option<LocalEndpoint>,
    predecessor: Option<Predecessor>,
}

/// The admin socket in `run_dir`, and the sockets for the next process.
#[derive(Debug)]
struct LocalEndpoint {
    run_dir: PathBuf,
    socket: AdminSocket,
    handover_sockets: HandoverSockets,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartMode {
    NewSockets,
    /// with the sockets of the process that listens in `run_dir`, if there is one
    Upgrade,
}

#[derive(Debug)]
pub(crate) enum StartError {
    Bind {
        plane: &'static str,
        address: String,
        error: std::io::Error,
    },
    /// `run_dir` cannot be used
    RunDir(PathBuf, std::io::Error),
    /// another gateway listens in this `run_dir`
    Running(PathBuf),
    /// the process in `run_dir` refused the handover
    Upgrade(PathBuf, String),
    /// a configured file is unusable, or a required setting is missing
    Unusable(String),
    Internal(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Bind { plane, address, error } => {
                let hint = match error.kind() {
                    std::io::ErrorKind::NotFound => "create the folder, or configure another address",
                    std::io::ErrorKind::PermissionDenied => "grant this user access, or configure another address",
                    _ => "free it or name another address",
                };
                write!(f, "cannot listen on {address} (listeners.{plane}): {error}; {hint}")
            }
            StartError::RunDir(folder, error) => write!(f, "{} (run_dir) cannot be used: {error}", folder.display()),
            StartError::Running(folder) => write!(
                f,
                "another gateway has {} (run_dir) in use; `diglot serve --upgrade` takes over from it",
                folder.display()
            ),
            StartError::Upgrade(folder, why) => {
                write!(f, "the gateway in {} (run_dir) did not hand over and keeps serving: {why}", folder.display())
            }
            StartError::Unusable(what) | StartError::Internal(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for StartError {}

impl App {
    /// Binds every listener of `config`, which was read at `origin`.
    ///
    /// # Errors
    /// Names the setting that is unusable on this machine, or the first address that cannot be bound.
    pub(crate) fn bind(config: Config, origin: Option<ConfigSource>, start: StartMode) -> Result<Self, StartError> {
        if let Some(origin) = &origin {
            origin.log_warnings();
        }
        let metrics = Metrics::new().map_err(|error| StartError::Internal(error.to_string()))?;
        let metrics = Arc::new(metrics);
        let guard = RequestPolicy::new(&config, &metrics);
        let guard = Arc::new(guard.map_err(|error| StartError::Unusable(error.to_string()))?);
        let tracing =
            TraceProvider::from_environment(&metrics).map_err(|error| StartError::Unusable(error.to_string()))?;
        // Last, because it is the first step with an effect on the running process.
        let mut predecessor = find_predecessor(config.process.run_dir.as_deref(), start)?;
        let mut bind = |plane: &'static str, all: &[ListenerConfig]| -> Result<Vec<_>, StartError> {
            let bind = |(name, listen): (String, &ListenerConfig)| {
                let inherited = predecessor.as_mut().and_then(|before| before.take_socket(&name));
                let listener =
                    inherited.map_or_else(|| Listener::bind(listen), |socket| Listener::inherit(listen, socket));
                let bound = listener.map_err(|why| match why {
                    BindError::Socket(error) => StartError::Bind { plane, address: listen.address.to_string(), error },
                    BindError::Tls(cause) => StartError::Unusable(cause),
                });
                bound.map(|listener| (name, listener))
            };
            upgrade::socket_names(plane, all).into_iter().zip(all).map(bind).collect()
        };
        let (data, status) = (bind(DATA, &config.data)?, bind(STATUS, &config.status)?);
        let local = config.process.run_dir.as_deref().map(|run_dir| {
            let named: Vec<_> = data.iter().chain(&status).map(|(name, listener)| (name.clone(), listener)).collect();
            let (socket, legacy) = (AdminSocket::bind(run_dir)?, HandoverSockets::from_listeners(&named)?);
            Ok(LocalEndpoint { run_dir: run_dir.to_owned(), socket, handover_sockets: legacy })
        });
        let unusable = |error| StartError::RunDir(config.process.run_dir.clone().unwrap_or_default(), error);
        let local = local.transpose().map_err(unusable)?;
        let [data, status] = [data, status].map(|plane| plane.into_iter().map(|(_, listener)| listener).collect());
        Ok(App {
            config,
            source: origin,
            metrics,
            guard,
            tracing,
            data_listeners: data,
            status_listeners: status,
            local,
            predecessor,
        })
    }

    /// Returns the data plane's first network address.
    #[must_use]
    pub(crate) fn data_address(&self) -> Option<SocketAddr> {
        self.data_listeners.iter().find_map(Listener::bound_address)
    }

    /// Returns the status plane's first network address.
    #[must_use]
    pub(crate) fn status_address(&self) -> Option<SocketAddr> {
        self.status_listeners.iter().find_map(Listener::bound_address)
    }

    /// Serves until it has drained; see `drain.rs`. Blocks.
    ///
    /// # Errors
    /// Returns the cause if the process cannot be set up.
    pub(crate) fn serve(self) -> Result<(), StartError> {
        let lifecycle = Lifecycle::default();
        let gateway = self.build_gateway(&lifecycle)?;
        let listening = self.listening_events();
        let App { config, source, metrics, guard, tracing, data_listeners, status_listeners, local, predecessor } =
            self;
        let drain_signals = Arc::new(PlaneDrainSignals::default());
        let (process, reload_requests) = ProcessHandle::new();

        let socket_files: Vec<_> = data_listeners.iter().chain(&status_listeners).filter_map(Listener::file).collect();
        let guards = SwapCell::new(guard);
        let clusters = SwapCell::new(Arc::new(gateway.clusters()));
        let status_routes = admin::router(Arc::clone(&metrics), lifecycle.clone(), guards.clone(), clusters.clone());

        let mut server = Server::new_with_opt_and_conf(None, server_conf());
        server.bootstrap();
        let planes = PlaneBuilder { config: &config, metrics: &metrics, drain_signals: &drain_signals };
        let swap_gateway = planes.add_data(&mut server, data_listeners, Arc::clone(&gateway), clusters);
        planes.add_status(&mut server, status_listeners, status_routes.clone());
        let effective_config = source.as_ref().map(ConfigSource::effective_config).unwrap_or_default();
        let effective_config = SwapCell::new(Arc::new(effective_config));
        if let Some(local) = &local {
            let admin = AdminService::new(local, &process, &effective_config, status_routes, &drain_signals)?;
            server.add_service(background_service("admin", admin));
        }
        if let Some(replication) = gateway.replication() {
            server.add_service(background_service("replay", ReplicationService(replication)));
        }
        let config = SwapCell::new(Arc::new(config));
        let running = RunningState {
            config: config.clone(),
            guard: guards.clone(),
            effective_config,
            gateway,
            swap_gateway,
            lifecycle: lifecycle.clone(),
            metrics: Arc::clone(&metrics),
        };
        server.add_service(background_service("upkeep", ConfigReloader::new(running, source, reload_requests)));

        let predecessor = Mutex::new(predecessor);
        let drain = Drain {
            lifecycle,
            metrics,
            config,
            guards,
            process,
            drain_signals,
            local,
            predecessor,
            listening,
            socket_files: socket_files.clone(),
        };
        server.run(RunArgs { shutdown_signal: Box::new(drain) });
        // `Server::run` returns without waiting for its services.
        socket_files.iter().for_each(|file| file.remove());
        // After the last runs, so that their spans are sent too.
        tracing.flush(SPAN_FLUSH_TIMEOUT);
        Ok(())
    }

    /// Builds the gateway and resolves its upstreams.
    fn build_gateway(&self, lifecycle: &Lifecycle) -> Result<Arc<Gateway>, StartError> {
        let metrics = Arc::clone(&self.metrics);
        let guard = Arc::clone(&self.guard);
        let gateway = Gateway::new(&self.config, metrics, lifecycle.clone(), guard, self.tracing.clone());
        let gateway = Arc::new(gateway.map_err(StartError::Unusable)?);
        resolve_now(&gateway)?;
        Ok(gateway)
    }

    fn listening_events(&self) -> Vec<internal_event::ListenerStarted> {
        let planes = [(DATA, &self.data_listeners), (STATUS, &self.status_listeners)];
        let events = planes.into_iter().flat_map(|(plane, listeners)| {
            listeners.iter().map(move |listener| {
                let tls = listener.listen_config().tls.is_some();
                internal_event::ListenerStarted { plane, address: listener.display_address(), tls }
            })
        });
        events.collect()
    }
}

/// Adds the planes on the network to pingora's server.
struct PlaneBuilder<'a> {
    config: &'a Config,
    metrics: &'a Metrics,
    drain_signals: &'a PlaneDrainSignals,
}

impl PlaneBuilder<'_> {
    /// Adds the data plane, with one thread per CPU. Returns the function that replaces its gateway on a reload.
    fn add_data(
        &self,
        server: &mut Server,
        listeners: Vec<Listener>,
        gateway: Arc<Gateway>,
        clusters: SwapCell<Vec<Arc<Cluster>>>,
    ) -> SwapGatewayFn {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let stacks = SwapCell::new(Arc::new(stack(gateway)));
        let edge = EdgeServer::new(ReloadableService(stacks.clone()), &self.config.limits);
        let plane = self.plane_config(DATA, threads, listeners, ConnectionLimit::for_clients(self.config));
        server.add_service(plane_service(plane, edge, self.metrics, &self.drain_signals.data));
        Box::new(move |gateway| {
            clusters.store(Arc::new(gateway.clusters()));
            stacks.store(Arc::new(stack(gateway)));
        })
    }

    /// Adds the status plane. It has its own runtime, so that it answers while the data plane is busy.
    fn add_status(&self, server: &mut Server, listeners: Vec<Listener>, routes: Router) {
        let edge = EdgeServer::new(routes, &self.config.limits);
        let plane = self.plane_config(STATUS, STATUS_THREADS, listeners, ConnectionLimit::unlimited());
        server.add_service(plane_service(plane, edge, self.metrics, &self.drain_signals.status));
    }

    fn plane_config(
        &self,
        name: &'static str,
        threads: usize,
        listeners: Vec<Listener>,
        connection_limit: ConnectionLimit,
    ) -> PlaneConfig {
        let trusted_proxies = self.config.trusted_proxies.clone();
        PlaneConfig { name, threads, listeners, connection_limit, trusted_proxies }
    }
}

/// Returns pingora's settings. [`Drain`] does the draining, so pingora's grace period is zero.
fn server_conf() -> ServerConf {
    ServerConf { grace_period_seconds: Some(0), graceful_shutdown_timeout_seconds: Some(1), ..ServerConf::default() }
}

/// Connects to the process to take over from, on an upgrade.
fn find_predecessor(run_dir: Option<&Path>, start: StartMode) -> Result<Option<Predecessor>, StartError> {
    let alive = run_dir.filter(|run_dir| admin::is_alive(run_dir));
    match (start, run_dir, alive) {
        (StartMode::Upgrade, None, _) => Err(StartError::Unusable(
            "`run_dir` is not set, and that is where `--upgrade` finds the gateway before".to_owned(),
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

/// Resolves every agent before the first request.
fn resolve_now(gateway: &Gateway) -> Result<(), StartError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| StartError::Internal(error.to_string()))?;
    runtime.block_on(reload::resolve(&gateway.clusters()));
    // A look-up that hangs is abandoned.
    runtime.shutdown_background();
    Ok(())
}

impl LocalEndpoint {
    fn hand_over(&self) -> admin::HandOverFn {
        let (legacy, run_dir) = (self.handover_sockets.clone(), self.run_dir.clone());
        Arc::new(move || legacy.hand_over(&run_dir))
    }
}

struct AdminService(Mutex<Option<(UnixListener, Router)>>, Arc<PlaneDrainSignals>);

impl AdminService {
    fn new(
        local: &LocalEndpoint,
        process: &ProcessHandle,
        effective_config: &SwapCell<String>,
        status_routes: Router,
        drain_signals: &Arc<PlaneDrainSignals>,
    ) -> Result<AdminService, StartError> {
        let listener = local.socket.listener().map_err(|error| StartError::RunDir(local.run_dir.clone(), error))?;
        let state = AdminState {
            process: process.clone(),
            effective_config: effective_config.clone(),
            hand_over: local.hand_over(),
        };
        let router = admin::control(state, status_routes);
        Ok(AdminService(Mutex::new(Some((listener, router))), Arc::clone(drain_signals)))
    }
}

/// Shares runs that outlive their clients with the other replicas.
struct ReplicationService(Arc<ReplicatedRuns>);

#[async_trait]
impl BackgroundService for ReplicationService {
    async fn start(&self, _: ShutdownWatch) {
        self.0.keep_running().await;
    }
}

#[async_trait]
impl BackgroundService for AdminService {
    async fn start(&self, _: ShutdownWatch) {
        let parts = self.0.lock().take();
        if let Some((listener, router)) = parts
            && let Err(error) = admin::serve(listener, router, &self.1.admin).await
        {
            tracing::error!(%error, "the admin plane cannot be served");
        }
    }
}
