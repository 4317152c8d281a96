//! The composition root: binds, builds, serves, drains. Reading it top to bottom is reading the architecture.

mod drain;

use crate::admin;
use crate::config::Config;
use crate::guard::Guard;
use crate::proxy::{Cluster, Door, Edge, Gateway, Lifecycle, Listener, bound, stack};
use crate::telemetry::{Metrics, occurrence};
use async_trait::async_trait;
use drain::Drain;
use pingora_core::server::configuration::ServerConf;
use pingora_core::server::{RunArgs, Server, ShutdownWatch};
use pingora_core::services::background::{BackgroundService, background_service};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How often the names of agents are resolved again.
const RESOLVE_EVERY: Duration = Duration::from_secs(30);

/// Threads of the planes that only answer short questions.
const STATUS_THREADS: usize = 1;

/// A gateway whose sockets are bound, not yet serving.
#[derive(Debug)]
pub struct App {
    config: Config,
    metrics: Arc<Metrics>,
    guard: Arc<Guard>,
    data: Vec<Listener>,
    status: Vec<Listener>,
}

/// Why a gateway cannot start.
#[derive(Debug)]
pub enum StartError {
    /// an address cannot be bound
    Bind {
        /// data or status
        plane: &'static str,
        /// the address as configured
        address: SocketAddr,
        /// what the operating system said
        error: std::io::Error,
    },
    /// a file that the configuration names cannot be used
    Unusable(String),
    /// something inside cannot be built
    Internal(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Bind { plane, address, error } => {
                write!(f, "cannot listen on {address} (listeners.{plane}): {error}; free it or name another address")
            }
            StartError::Unusable(what) | StartError::Internal(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for StartError {}

impl App {
    /// Binds every listener of `config`.
    ///
    /// # Errors
    /// The first address that cannot be bound.
    pub fn bind(config: Config) -> Result<Self, StartError> {
        let bind = |plane: &'static str, addresses: &[SocketAddr]| -> Result<Vec<Listener>, StartError> {
            let listen = |address: &SocketAddr| {
                let listener = Listener::bind(*address);
                listener.map_err(|error| StartError::Bind { plane, address: *address, error })
            };
            addresses.iter().map(listen).collect()
        };
        let (data, status) = (bind("data", &config.data)?, bind("status", &config.status)?);
        let metrics = Metrics::new().map_err(|error| StartError::Internal(error.to_string()))?;
        let metrics = Arc::new(metrics);
        let guard = Guard::new(&config, &metrics).map_err(StartError::Unusable)?;
        Ok(App { config, metrics, guard: Arc::new(guard), data, status })
    }

    /// Where the data plane is bound.
    #[must_use]
    pub fn data(&self) -> Option<SocketAddr> {
        self.data.first().map(|listener| listener.address)
    }

    /// Where the status plane is bound.
    #[must_use]
    pub fn status(&self) -> Option<SocketAddr> {
        self.status.first().map(|listener| listener.address)
    }

    /// Serves until it has drained; see [`drain`]. Blocks.
    ///
    /// # Errors
    /// When the process cannot be set up.
    pub fn serve(self) -> Result<(), StartError> {
        let App { config, metrics, guard, data, status } = self;
        let (lifecycle, doors) = (Lifecycle::default(), [Arc::new(Door::default()), Arc::new(Door::default())]);
        let [data_door, status_door] = &doors;
        let gateway = Arc::new(Gateway::new(&config, Arc::clone(&metrics), lifecycle.clone(), Arc::clone(&guard)));
        let clusters = gateway.clusters();
        resolve_now(&clusters)?;

        let mut server = Server::new_with_opt_and_conf(None, server_conf());
        server.bootstrap();
        let listening = [("data", &data), ("status", &status)].into_iter().flat_map(|(plane, listeners)| {
            listeners.iter().map(move |listener| occurrence::Listening { plane, address: listener.address })
        });
        let listening = listening.collect();
        // Data plane: as many threads as the machine has.
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        server.add_service(bound("data", Edge::new(stack(gateway), &config.limits), data, threads, data_door));
        // Status plane: a runtime of its own, so that it answers while the data plane is busy.
        let routes = admin::router(Arc::clone(&metrics), lifecycle.clone(), Arc::clone(&guard));
        server.add_service(bound("status", Edge::new(routes, &config.limits), status, STATUS_THREADS, status_door));
        // Names of agents may move.
        server.add_service(background_service("resolver", Resolver { clusters }));
        // Keys of issuers rotate, files change, quotas are forgotten.
        server.add_service(background_service("guard", Watcher { guard }));

        let drain = Drain { lifecycle, metrics, process: config.process, doors, listening };
        server.run(RunArgs { shutdown_signal: Box::new(drain) });
        Ok(())
    }
}

/// pingora's part of the configuration. Draining is ours (see [`Drain`]), so its own waits are zero.
fn server_conf() -> ServerConf {
    ServerConf { grace_period_seconds: Some(0), graceful_shutdown_timeout_seconds: Some(1), ..ServerConf::default() }
}

type Clusters = Vec<Arc<Cluster>>;

async fn resolve(clusters: &Clusters, only_names: bool) {
    for cluster in clusters.iter().filter(|cluster| !only_names || cluster.has_names()) {
        cluster.resolve().await;
    }
}

/// Resolves every agent before the first request comes. An agent that cannot be resolved yet is no reason not to start.
fn resolve_now(clusters: &Clusters) -> Result<(), StartError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| StartError::Internal(error.to_string()))?;
    runtime.block_on(resolve(clusters, false));
    Ok(())
}

/// Resolves the names of agents from time to time.
struct Resolver {
    clusters: Clusters,
}

#[async_trait]
impl BackgroundService for Resolver {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        loop {
            tokio::select! {
                _ = shutdown.changed() => return,
                () = tokio::time::sleep(RESOLVE_EVERY) => resolve(&self.clusters, true).await,
            }
        }
    }
}

/// Keeps what the guard decides with fresh.
struct Watcher {
    guard: Arc<Guard>,
}

#[async_trait]
impl BackgroundService for Watcher {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        tokio::select! {
            _ = shutdown.changed() => {}
            () = self.guard.watch() => {}
        }
    }
}
