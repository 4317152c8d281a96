//! The composition root: binds, builds, serves, drains. Reading it top to bottom is reading the architecture.

mod drain;
mod notify;
mod reload;
mod upgrade;

pub(crate) use reload::ConfigSource;

use crate::admin::{self, AdminSocket, AdminState, ProcessHandle};
use crate::config::Config;
use crate::config::listen::ListenerConfig;
use crate::guard::RequestPolicy;
use crate::net::SwapCell;
use crate::proxy::{
    BindError, ConnectionLimit, EdgeServer, Gateway, Lifecycle, Listener, PlaneConfig, ReloadableService, SocketFile,
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
use reload::{ConfigReloader, RunningState};
use std::fmt;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use upgrade::{HandoverSockets, Predecessor};

/// The planes, as metrics and logs call them.
const DATA: &str = label::PlaneKind::Data.label();
const STATUS: &str = label::PlaneKind::Status.label();

/// Threads of the planes that only answer short questions.
const STATUS_THREADS: usize = 1;

/// Time for the collector of traces to take what is left.
const SPAN_FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// A gateway whose sockets are bound, not yet serving.
#[derive(Debug)]
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

/// The process's place on this machine: where it is spoken to, and what the next one gets.
#[derive(Debug)]
struct LocalEndpoint {
    run_dir: PathBuf,
    socket: AdminSocket,
    handover_sockets: HandoverSockets,
}

/// How a gateway begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartMode {
    /// with sockets of its own
    NewSockets,
    /// with those of the process that listens in `run_dir`, if one does
    Upgrade,
}

/// Why a gateway cannot start.
#[derive(Debug)]
pub(crate) enum StartError {
    /// an address cannot be bound
    Bind {
        /// data or status
        plane: &'static str,
        /// the address as configured
        address: String,
        /// what the operating system said
        error: std::io::Error,
    },
    /// the folder of the process's own sockets cannot be used
    RunDir(PathBuf, std::io::Error),
    /// another gateway listens in that folder
    Running(PathBuf),
    /// the process there does not give its sockets away
    Upgrade(PathBuf, String),
    /// a file that the configuration names cannot be used, or it lacks what is needed
    Unusable(String),
    /// something inside cannot be built
    Internal(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Bind { plane, address, error } => {
                let hint = match error.kind() {
                    std::io::ErrorKind::NotFound => "make the folder, or name another one",
                    std::io::ErrorKind::PermissionDenied => "let this user have it, or name another address",
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
                write!(f, "the gateway in {} (run_dir) does not hand over, and goes on: {why}", folder.display())
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
    /// What of the configuration cannot be used here; the first address that cannot be bound.
    pub(crate) fn bind(config: Config, origin: Option<ConfigSource>, start: StartMode) -> Result<Self, StartError> {
        if let Some(origin) = &origin {
            origin.log_warnings();
        }
        let metrics = Metrics::new().map_err(|error| StartError::Internal(error.to_string()))?;
        let metrics = Arc::new(metrics);
        let guard = Arc::new(RequestPolicy::new(&config, &metrics).map_err(StartError::Unusable)?);
        let tracing = TraceProvider::from_environment(&metrics).map_err(StartError::Unusable)?;
        // Last, since nothing is different for the other one before.
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

    /// Where the data plane is bound, if it is on the network.
    #[must_use]
    pub(crate) fn data_address(&self) -> Option<SocketAddr> {
        self.data_listeners.iter().find_map(Listener::bound_address)
    }

    /// Where the status plane is bound, if it is on the network.
    #[must_use]
    pub(crate) fn status_address(&self) -> Option<SocketAddr> {
        self.status_listeners.iter().find_map(Listener::bound_address)
    }

    /// Serves until it has drained; see `drain.rs`. Blocks.
    ///
    /// # Errors
    /// When the process cannot be set up.
    pub(crate) fn serve(self) -> Result<(), StartError> {
        let App {
            config,
            source: origin,
            metrics,
            guard,
            tracing,
            data_listeners: data,
            status_listeners: status,
            local,
            predecessor,
        } = self;
        let (lifecycle, doors) = (Lifecycle::default(), Arc::new(PlaneDrainSignals::default()));
        let (orders, asked) = ProcessHandle::new();
        let gateway =
            Gateway::new(&config, Arc::clone(&metrics), lifecycle.clone(), Arc::clone(&guard), tracing.clone());
        let gateway = Arc::new(gateway.map_err(StartError::Unusable)?);
        let shared = gateway.replication();
        resolve_now(&gateway)?;

        let mut server = Server::new_with_opt_and_conf(None, server_conf());
        server.bootstrap();
        let listening = [(DATA, &data), (STATUS, &status)].into_iter().flat_map(|(plane, listeners)| {
            listeners.iter().map(move |listener| {
                let tls = listener.listen_config().tls.is_some();
                internal_event::ListenerStarted { plane, address: listener.display_address(), tls }
            })
        });
        let listening = listening.collect();
        let files: Vec<Arc<SocketFile>> = data.iter().chain(&status).filter_map(Listener::file).collect();
        let trusted = &config.trusted_proxies;
        // Data plane: as many threads as the machine has. The stack is another one after each reload.
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let stacks = SwapCell::new(Arc::new(stack(Arc::clone(&gateway))));
        let edge = EdgeServer::new(ReloadableService(stacks.clone()), &config.limits);
        let connections = ConnectionLimit::for_clients(&config);
        let plane = PlaneConfig {
            name: DATA,
            threads,
            listeners: data,
            connection_limit: connections,
            trusted_proxies: trusted.clone(),
        };
        server.add_service(plane_service(plane, edge, &metrics, &doors.data));
        // Status plane: a runtime of its own, so that it answers while the data plane is busy.
        let (guards, clusters) = (SwapCell::new(guard), SwapCell::new(Arc::new(gateway.clusters())));
        let routes = admin::router(Arc::clone(&metrics), lifecycle.clone(), guards.clone(), clusters.clone());
        let (threads, connections) = (STATUS_THREADS, ConnectionLimit::unlimited());
        let plane = PlaneConfig {
            name: STATUS,
            threads,
            listeners: status,
            connection_limit: connections,
            trusted_proxies: trusted.clone(),
        };
        server.add_service(plane_service(
            plane,
            EdgeServer::new(routes.clone(), &config.limits),
            &metrics,
            &doors.status,
        ));
        // Admin plane: for this user of this machine.
        let printed = SwapCell::new(Arc::new(origin.as_ref().map(ConfigSource::effective_config).unwrap_or_default()));
        if let Some(local) = &local {
            let control =
                AdminState { process: orders.clone(), effective_config: printed.clone(), hand_over: local.hand_over() };
            server.add_service(background_service(
                "admin",
                AdminService::new(local, admin::control(control, routes), &doors)?,
            ));
        }
        // Beside the requests: the configuration may change, keys of issuers rotate, names of agents move.
        let config = SwapCell::new(Arc::new(config));
        let turn = Box::new(move |gateway: Arc<Gateway>| {
            clusters.store(Arc::new(gateway.clusters()));
            stacks.store(Arc::new(stack(gateway)));
        });
        let live = RunningState {
            config: config.clone(),
            guard: guards.clone(),
            effective_config: printed,
            gateway,
            swap_gateway: turn,
            lifecycle: lifecycle.clone(),
            metrics: Arc::clone(&metrics),
        };
        server.add_service(background_service("upkeep", ConfigReloader::new(live, origin, asked)));

        // What replicas tell each other of their runs.
        if let Some(shared) = shared {
            server.add_service(background_service("replay", ReplicationService(shared)));
        }

        let takeover = Mutex::new(predecessor);
        let left = files.clone();
        let drain = Drain {
            lifecycle,
            metrics,
            config,
            guards,
            process: orders,
            drain_signals: doors,
            local,
            predecessor: takeover,
            listening,
            socket_files: left,
        };
        server.run(RunArgs { shutdown_signal: Box::new(drain) });
        // pingora does not wait for its services when it ends.
        files.iter().for_each(|file| file.remove());
        // The last spans are those of the runs that ended last.
        tracing.flush(SPAN_FLUSH_TIMEOUT);
        Ok(())
    }
}

/// pingora's part of the configuration. Draining is ours (see [`Drain`]), so its own waits are zero.
fn server_conf() -> ServerConf {
    ServerConf { grace_period_seconds: Some(0), graceful_shutdown_timeout_seconds: Some(1), ..ServerConf::default() }
}

/// The process that is taken over from, if there is one and that is wanted.
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

/// Resolves every agent before the first request comes.
fn resolve_now(gateway: &Gateway) -> Result<(), StartError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| StartError::Internal(error.to_string()))?;
    runtime.block_on(reload::resolve(&gateway.clusters()));
    // A look-up that hangs is left behind.
    runtime.shutdown_background();
    Ok(())
}

impl LocalEndpoint {
    fn hand_over(&self) -> admin::HandOverFn {
        let (legacy, run_dir) = (self.handover_sockets.clone(), self.run_dir.clone());
        Arc::new(move || legacy.hand_over(&run_dir))
    }
}

/// Serves the admin plane.
struct AdminService(Mutex<Option<(UnixListener, Router)>>, Arc<PlaneDrainSignals>);

impl AdminService {
    fn new(
        local: &LocalEndpoint,
        router: Router,
        drain_signals: &Arc<PlaneDrainSignals>,
    ) -> Result<AdminService, StartError> {
        let listener = local.socket.listener().map_err(|error| StartError::RunDir(local.run_dir.clone(), error))?;
        Ok(AdminService(Mutex::new(Some((listener, router))), Arc::clone(drain_signals)))
    }
}

/// Keeps replicas in touch about runs that outlive their clients.
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
