//! The composition root: binds, builds, serves, drains. Reading it top to bottom is reading the architecture.

use crate::admin;
use crate::config::Config;
use crate::guard::Guard;
use crate::proxy::{Cluster, Edge, Gateway, Lifecycle, Listener, Phase, bound, stack};
use crate::replay::Shared;
use crate::telemetry::{Metrics, occurrence};
use async_trait::async_trait;
use pingora_core::server::configuration::ServerConf;
use pingora_core::server::{RunArgs, Server, ShutdownSignal, ShutdownSignalWatch, ShutdownWatch};
use pingora_core::services::background::{BackgroundService, background_service};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// How often the names of agents are resolved again.
const RESOLVE_EVERY: Duration = Duration::from_secs(30);

/// Time for hyper to write out the last words of a stream whose body has ended.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// Time for runs to say RUN_ERROR once they are cut.
const CUT_TIMEOUT: Duration = Duration::from_secs(2);

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

    /// Serves until a signal ends it: SIGTERM or SIGINT drains, a second one ends at once. Blocks.
    ///
    /// # Errors
    /// When the process cannot be set up.
    pub fn serve(self) -> Result<(), StartError> {
        let App { config, metrics, guard, data, status } = self;
        let lifecycle = Lifecycle::default();
        let gateway = Arc::new(Gateway::new(&config, Arc::clone(&metrics), lifecycle.clone(), Arc::clone(&guard)));
        let (clusters, shared) = (gateway.clusters(), gateway.shared());
        resolve_now(&clusters)?;

        let mut server = Server::new_with_opt_and_conf(None, server_conf());
        server.bootstrap();
        let listening = [("data", &data), ("status", &status)].into_iter().flat_map(|(plane, listeners)| {
            listeners.iter().map(move |listener| occurrence::Listening { plane, address: listener.address })
        });
        let listening = listening.collect();
        // Data plane: as many threads as the machine has.
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        server.add_service(bound("data", Edge::new(stack(gateway), &config.limits), data, threads));
        // Status plane: a runtime of its own, so that it answers while the data plane is busy.
        let routes = admin::router(Arc::clone(&metrics), lifecycle.clone(), Arc::clone(&guard));
        server.add_service(bound("status", Edge::new(routes, &config.limits), status, STATUS_THREADS));
        // Names of agents may move.
        server.add_service(background_service("resolver", Resolver { clusters }));
        // Keys of issuers rotate, files change, quotas are forgotten.
        server.add_service(background_service("guard", Watcher { guard }));

        // What replicas tell each other of their runs.
        if let Some(shared) = shared {
            server.add_service(background_service("replay", Sharer { shared }));
        }

        let drain = Drain { lifecycle, metrics, timeout: config.drain_timeout, listening };
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

/// Keeps replicas in touch about runs that outlive their clients.
struct Sharer {
    shared: Arc<Shared>,
}

#[async_trait]
impl BackgroundService for Sharer {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        tokio::select! {
            _ = shutdown.changed() => {}
            () = self.shared.watch() => {}
        }
    }
}

/// The way out: the first signal drains, the second cuts.
struct Drain {
    lifecycle: Lifecycle,
    metrics: Arc<Metrics>,
    timeout: Duration,
    listening: Vec<occurrence::Listening>,
}

#[async_trait]
impl ShutdownSignalWatch for Drain {
    async fn recv(&self) -> ShutdownSignal {
        let watch = |kind| signal(kind).inspect_err(|error| tracing::error!(%error, "signals cannot be watched"));
        let (Ok(mut terminate), Ok(mut interrupt), Ok(mut hangup)) =
            (watch(SignalKind::terminate()), watch(SignalKind::interrupt()), watch(SignalKind::hangup()))
        else {
            return ShutdownSignal::FastShutdown;
        };
        // Said only now: whoever reads it may send a signal at once, and that drains.
        self.listening.iter().for_each(occurrence::Listening::emit);
        loop {
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                // A closed terminal must not end a gateway.
                _ = hangup.recv() => tracing::warn!("SIGHUP ignored: the configuration is read at the start only"),
            }
        }
        self.lifecycle.advance(Phase::Draining);
        occurrence::Draining { timeout: self.timeout }.emit(&self.metrics);
        tokio::select! {
            () = self.lifecycle.idle() => {}
            () = tokio::time::sleep(self.timeout) => {}
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        // Whatever still runs ends well-formed: RUN_ERROR, then a clean end of the body.
        self.lifecycle.advance(Phase::Cut);
        let _ = tokio::time::timeout(CUT_TIMEOUT, self.lifecycle.idle()).await;
        tokio::time::sleep(LAST_WORDS).await;
        ShutdownSignal::FastShutdown
    }
}
