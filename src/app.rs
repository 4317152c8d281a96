//! The composition root: binds, builds, serves, drains.

mod start_error;
mod notify;
mod reload;
mod upgrade;
mod drain;
mod planes;

pub(crate) use reload::ConfigSource;
pub(crate) use start_error::StartError;

use crate::admin::{self, AdminState, InspectState, ProcessHandle};
use crate::config::Config;
use crate::net::SwapCell;
use crate::policy::RequestPolicy;
use crate::proxy::{Gateway, Lifecycle, Listener};
use crate::telemetry::trace::TraceProvider;
use crate::telemetry::{Metrics, internal_event, log};
use async_trait::async_trait;
use axum::Router;
use drain::{Drain, PlaneDrainSignals};
use parking_lot::Mutex;
use pingora_core::server::configuration::ServerConf;
use pingora_core::server::{RunArgs, Server, ShutdownWatch};
use pingora_core::services::background::{BackgroundService, GenBackgroundService, background_service};
use planes::{BoundPlanes, PlaneBuilder};
use reload::{ActiveConfig, ConfigReloader};
use std::future::Future;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use upgrade::{LocalEndpoint, Predecessor};

/// Maximum number of threads for large events and requests, files and look-ups of names. Each has a stack and buffers.
const MAX_BLOCKING_THREADS: usize = 64;

const SPAN_FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) struct App {
    config: Config,
    source: Option<ConfigSource>,
    metrics: Arc<Metrics>,
    policy: Arc<RequestPolicy>,
    tracing: TraceProvider,
    planes: BoundPlanes,
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
        let planes = BoundPlanes::bind(&config, predecessor.as_mut())?;
        let local = match &config.process.run_dir {
            Some(run_dir) => Some(LocalEndpoint::bind(run_dir, planes.by_name())?),
            None => None,
        };
        Ok(App { config, source, metrics, policy, tracing, planes, local, predecessor })
    }

    /// Returns the data plane's first network address.
    pub(crate) fn data_address(&self) -> Option<SocketAddr> {
        self.planes.data.iter().find_map(Listener::bound_address)
    }

    /// Returns the status plane's first network address.
    pub(crate) fn status_address(&self) -> Option<SocketAddr> {
        self.planes.status.iter().find_map(Listener::bound_address)
    }

    /// Returns the address of the inspector's page with its token, if it has a listener.
    pub(crate) fn inspector_url(&self) -> Option<String> {
        self.planes.inspector_url()
    }

    pub(crate) fn serve(self) -> Result<(), StartError> {
        let lifecycle = Lifecycle::default();
        let gateway = self.build_gateway(&lifecycle)?;
        let App { config, source, metrics, policy, tracing, planes, local, predecessor } = self;
        let (listening, socket_files) = (planes.listening_events(), planes.socket_files());
        let drain_signals = Arc::new(PlaneDrainSignals::default());
        let (process, reload_requests) = ProcessHandle::new();

        let policies = SwapCell::new(policy);
        let clusters = SwapCell::new(Arc::new(gateway.clusters()));
        let status_routes = admin::router(Arc::clone(&metrics), lifecycle.clone(), policies.clone(), clusters.clone());

        let mut server = new_server();
        let builder = PlaneBuilder::new(&config, &metrics, &drain_signals);
        let effective_config = source.as_ref().map(|source| source.effective_config.clone()).unwrap_or_default();
        let effective_config = SwapCell::new(Arc::new(effective_config));
        let checked_config = SwapCell::new(Arc::new(config.clone()));
        let inspect = InspectState {
            captures: Arc::clone(&gateway.captures),
            config: checked_config.clone(),
            effective_config: effective_config.clone(),
            config_file: source.as_ref().and_then(ConfigSource::file),
            url: planes.inspector_url().map(Into::into),
        };
        let swap_gateway = builder.add_planes(&mut server, planes, &gateway, clusters, &status_routes, &inspect);
        if let Some(local) = &local {
            let router = admin::control(admin_state(local, &process, inspect), status_routes);
            let admin = serve_admin(local.listener()?, router, Arc::clone(&drain_signals));
            server.add_service(run_once("admin", admin));
        }
        if let Some(replication) = gateway.replication.clone() {
            server.add_service(run_once("replay", async move { replication.keep_running().await }));
        }
        let active = ActiveConfig {
            config: checked_config.clone(),
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
            config: checked_config,
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
}

fn find_predecessor(run_dir: Option<&Path>, start: StartMode) -> Result<Option<Predecessor>, StartError> {
    let alive = run_dir.filter(|run_dir| admin::is_alive(run_dir));
    match (start, run_dir, alive) {
        (StartMode::Upgrade, None, _) => Err(StartError::Unusable(
            "`run_dir` is not set; `--upgrade` finds the running gateway through it, so set it in the configuration of both"
                .to_owned(),
        )),
        (StartMode::Upgrade, _, Some(run_dir)) => Predecessor::connect(run_dir).map(Some),
        (StartMode::NewSockets, _, Some(run_dir)) if admin::is_draining(run_dir) => {
            Err(StartError::ShuttingDown(run_dir.to_owned()))
        }
        (StartMode::NewSockets, _, Some(run_dir)) => Err(StartError::Running(run_dir.to_owned())),
        (StartMode::Upgrade, Some(run_dir), None) => {
            internal_event::NoPreviousProcess { run_dir }.emit();
            Ok(None)
        }
        (StartMode::NewSockets, _, None) => Ok(None),
    }
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
        // Tokio's timers for all time-outs of a second and more: pingora's own need a thread that wakes every 10 ms.
        fast_timeout_to_tokio_threshold_seconds: Some(0),
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
