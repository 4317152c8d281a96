//! Reload of the configuration while the gateway serves: all of it, or nothing.
//!
//! ```text
//!   SIGHUP, POST /reload ──────────┐
//!   the file, every two seconds ───┴▶ read ─▶ check ─▶ build alongside the old one ─▶ swap ─▶ drop unused parts
//!                                      └────────┴─────────┴─▶ refused: one line, and nothing changes
//! ```
//! Requests stay in the stack in which they started; open runs keep the configuration they started with.
//!
//! The file is read every two seconds and compared by content. Notifications (inotify) would be faster but not reliable: a
//! mounted ConfigMap changes by a link to another folder, not in the file itself; some mounts (NFS, FUSE, those of virtual
//! machines) send none; and queues overflow, so polling would be needed anyway. kubelet itself takes up to a minute to
//! deliver a change. Two reads of a small file in two seconds have no measurable cost.

use crate::admin::{ReloadRequest, ReloadResult};
use crate::config::effective::{self, EffectiveConfig};
use crate::config::reload::{ConfigChanges, keys_needing_restart};
use crate::config::{Config, ConfigProblem, RouteConfig, load};
use crate::guard::{self, RequestPolicy};
use crate::net::digest::{self, Sha256Digest};
use crate::net::{BackgroundTask, SwapCell};
use crate::proxy::{Cluster, Gateway, Lifecycle, LifecyclePhase};
use crate::telemetry::{Metrics, internal_event};
use async_trait::async_trait;
use futures_util::future::join_all;
use parking_lot::Mutex;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::{interval, sleep, timeout};

const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Time for which a changed file must stay unchanged, so that a half-written one is not used.
const SETTLE_TIME: Duration = Duration::from_millis(100);

/// Time to resolve new agents; after it the configuration is used without their addresses.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of the digest that are shown.
const HASH_BYTES: usize = 6;

/// A configuration file as it was read.
#[derive(Debug)]
pub(crate) struct ConfigSource {
    path: PathBuf,
    digest: Sha256Digest,
    /// without secrets
    effective_config: String,
    /// false for a pipe
    is_reloadable: bool,
    warnings: Vec<ConfigProblem>,
}

impl ConfigSource {
    /// Reads and checks the file at `path`.
    ///
    /// # Errors
    /// Lists every problem.
    pub(crate) fn read(path: &Path) -> Result<(Config, ConfigSource), crate::config::ConfigProblems> {
        let bytes = load::read_source(path)?;
        let EffectiveConfig { config, yaml: printed, warnings } =
            effective::load_effective(path, &bytes, guard::auth::check_key_file)?;
        let lasting = path.metadata().is_ok_and(|file| file.is_file());
        Ok((
            config,
            ConfigSource {
                path: path.to_owned(),
                digest: digest::sha256(&bytes),
                effective_config: printed,
                is_reloadable: lasting,
                warnings,
            },
        ))
    }

    pub(super) fn log_warnings(&self) {
        for ConfigProblem { line, path, message, hint, .. } in &self.warnings {
            internal_event::ConfigLintFound { line: *line, key: path, message, hint: hint.as_deref() }.emit();
        }
    }

    /// Returns the effective configuration without secrets.
    pub(super) fn effective_config(&self) -> String {
        self.effective_config.clone()
    }
}

/// Routes new requests through the given gateway.
pub(super) type SwapGatewayFn = Box<dyn Fn(Arc<Gateway>) + Send + Sync>;

/// The configuration in use, and all that is built from it.
pub(super) struct RunningState {
    pub(crate) config: SwapCell<Config>,
    pub(crate) guard: SwapCell<RequestPolicy>,
    /// as `diglot config` prints it
    pub(crate) effective_config: SwapCell<String>,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) swap_gateway: SwapGatewayFn,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) metrics: Arc<Metrics>,
}

/// Runs the background tasks, and reloads the configuration.
pub(super) struct ConfigReloader(Mutex<Option<ReloaderState>>);

struct ReloaderState {
    running: RunningState,
    origin: Option<ConfigSource>,
    start_config: Arc<Config>,
    requests: mpsc::Receiver<ReloadRequest>,
    /// of the file at the last poll; an error if it could not be read
    seen_digest: Result<Sha256Digest, ()>,
    last_reload_ok: bool,
    tasks: HashMap<usize, AbortHandle>,
}

/// A new configuration that is built but not in use yet.
struct PreparedReload {
    config: Config,
    effective_config: String,
    /// from the configuration in use
    changes: ConfigChanges,
    guard: Arc<RequestPolicy>,
    gateway: Arc<Gateway>,
}

impl ConfigReloader {
    pub(super) fn new(
        running: RunningState,
        origin: Option<ConfigSource>,
        requests: mpsc::Receiver<ReloadRequest>,
    ) -> ConfigReloader {
        let seen = origin.as_ref().map(|origin| origin.digest).ok_or(());
        let began = running.config.load();
        ConfigReloader(Mutex::new(Some(ReloaderState {
            running,
            origin,
            start_config: began,
            requests,
            seen_digest: seen,
            last_reload_ok: true,
            tasks: HashMap::new(),
        })))
    }
}

#[async_trait]
impl BackgroundService for ConfigReloader {
    async fn start(&self, _: ShutdownWatch) {
        let state = self.0.lock().take();
        if let Some(mut state) = state {
            if let Some(origin) = &state.origin {
                internal_event::ConfigApplied { hash: &short_hash(&origin.digest), changes: None }
                    .emit(&state.running.metrics);
            }
            state.sync_tasks();
            state.run().await;
        }
    }
}

impl ReloaderState {
    async fn run(&mut self) {
        let mut poll = interval(POLL_INTERVAL);
        loop {
            let mut requests = Vec::new();
            tokio::select! {
                request = self.requests.recv() => match request {
                    Some(request) => requests.push(request),
                    // No more requests can arrive, but the file may change.
                    None => sleep(POLL_INTERVAL).await,
                },
                _ = poll.tick() => if !self.has_changed().await { continue },
            }
            // All requests that wait get the same result: the file is read after all of them.
            while let Ok(request) = self.requests.try_recv() {
                requests.push(request);
            }
            let result = self.reload().await;
            for request in requests {
                // A request by signal has no receiver.
                let _ = request.send(result.clone());
            }
        }
    }

    /// Returns true if the file has changed since the last poll, and has settled.
    async fn has_changed(&self) -> bool {
        let Some(origin) = self.origin.as_ref().filter(|origin| origin.is_reloadable) else { return false };
        // During a shutdown the next process reads the file.
        if self.running.lifecycle.phase() != LifecyclePhase::Serving {
            return false;
        }
        let look = || async {
            let path = origin.path.clone();
            let bytes = spawn_blocking(move || load::read_source(&path)).await.map_err(|_| ())?;
            bytes.map(|bytes| digest::sha256(&bytes)).map_err(|_| ())
        };
        let first = look().await;
        if first == self.seen_digest {
            return false;
        }
        sleep(SETTLE_TIME).await;
        look().await == first
    }

    async fn reload(&mut self) -> ReloadResult {
        let Some(origin) = self.origin.as_ref().filter(|origin| origin.is_reloadable) else {
            internal_event::ReloadUnsupported {}.emit();
            return Err("there is no file to read again".to_owned());
        };
        let path = origin.path.clone();
        let bytes = match spawn_blocking(move || load::read_source(&path)).await.map_err(|error| error.to_string()) {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(problems)) => return self.reject(Err(()), problems.to_string()),
            Err(error) => return self.reject(Err(()), error),
        };
        let digest = digest::sha256(&bytes);
        if self.last_reload_ok && digest == origin.digest {
            self.seen_digest = Ok(digest);
            return Ok(describe_changes(
                &ConfigChanges::default(),
                &keys_needing_restart(&self.start_config, &self.running.config.load()),
            ));
        }
        match self.build(bytes).await {
            Ok(next) => Ok(self.apply(next, digest).await),
            Err(problems) => self.reject(Ok(digest), problems),
        }
    }

    fn reject(&mut self, seen: Result<Sha256Digest, ()>, problems: String) -> ReloadResult {
        (self.seen_digest, self.last_reload_ok) = (seen, false);
        internal_event::ConfigRejected { problems: &problems }.emit(&self.running.metrics);
        Err(problems)
    }

    /// Reads files, creates keys and compares with the configuration in use. On a blocking thread, since the runtime's one
    /// thread serves health checks and the connection to Redis.
    async fn build(&self, bytes: Vec<u8>) -> Result<PreparedReload, String> {
        let path = self.origin.as_ref().map(|origin| origin.path.clone()).unwrap_or_default();
        let (guard, gateway) = (self.running.guard.load(), Arc::clone(&self.running.gateway));
        let metrics = Arc::clone(&self.running.metrics);
        let (before, was) = (self.running.config.load(), self.running.effective_config.load());
        let built = spawn_blocking(move || {
            let understood = effective::load_effective(&path, &bytes, guard::auth::check_key_file);
            let EffectiveConfig { config, yaml: printed, .. } = understood.map_err(|problems| problems.to_string())?;
            let guard = guard.reconfigure(&config, &metrics).map_err(|why| format!("{}: {why}", path.display()))?;
            let guard = Arc::new(guard);
            let gateway = gateway.with_config(&config, Arc::clone(&guard));
            let gateway = Arc::new(gateway.map_err(|why| format!("{}: {why}", path.display()))?);
            let changes = ConfigChanges::compare(&before, &config, [was.as_str(), printed.as_str()]);
            Ok(PreparedReload { config, effective_config: printed, changes, guard, gateway })
        });
        built.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    async fn apply(&mut self, next: PreparedReload, digest: Sha256Digest) -> String {
        let PreparedReload { config, effective_config: printed, changes, guard, gateway } = next;
        let known = self.running.gateway.clusters();
        let fresh = gateway.clusters().into_iter().filter(|one| !known.iter().any(|known| Arc::ptr_eq(known, one)));
        resolve(&fresh.collect::<Vec<_>>()).await;
        let (before, config) = (self.running.config.load(), Arc::new(config));
        (self.running.swap_gateway)(Arc::clone(&gateway));
        self.running.gateway = gateway;
        self.running.guard.store(guard);
        self.running.effective_config.store(Arc::new(printed));
        self.running.config.store(Arc::clone(&config));
        self.sync_tasks();
        forget_removed(&before, &config, &self.running.metrics);
        (self.seen_digest, self.last_reload_ok) = (Ok(digest), true);
        if let Some(origin) = &mut self.origin {
            origin.digest = digest;
        }
        internal_event::ConfigApplied { hash: &short_hash(&digest), changes: Some(&changes) }
            .emit(&self.running.metrics);
        let kept = keys_needing_restart(&self.start_config, &config);
        if !kept.is_empty() {
            internal_event::RestartRequired { keys: &kept }.emit();
        }
        describe_changes(&changes, &kept)
    }

    /// Starts the background tasks of new parts, and ends those of removed parts.
    fn sync_tasks(&mut self) {
        let clusters = self.running.gateway.clusters();
        let clusters =
            clusters.iter().map(|cluster| BackgroundTask::new(cluster, |cluster| async move { cluster.watch().await }));
        let wanted = self.running.guard.load().background_tasks().into_iter().chain(clusters);
        let mut before = std::mem::take(&mut self.tasks);
        for BackgroundTask { owner_id: of, future: work } in wanted {
            let goes_on = before.remove(&of).unwrap_or_else(|| tokio::spawn(work).abort_handle());
            self.tasks.insert(of, goes_on);
        }
        before.into_values().for_each(|gone| gone.abort());
    }
}

/// Lists the changes, and every time the keys that still need a restart.
fn describe_changes(changes: &ConfigChanges, kept: &[&str]) -> String {
    if kept.is_empty() {
        return changes.to_string();
    }
    format!("{changes}; not in use before a restart or `diglot serve --upgrade`: {}", kept.join(", "))
}

/// Resolves agents before their first request, and continues without those that are not resolved in time.
pub(super) async fn resolve(clusters: &[Arc<Cluster>]) {
    let _ = timeout(RESOLVE_TIMEOUT, join_all(clusters.iter().map(|cluster| cluster.resolve()))).await;
}

/// Removes the gauges of issuers and upstreams that are no longer configured.
fn forget_removed(before: &Config, now: &Config, metrics: &Metrics) {
    let issuers =
        |config: &Config| config.auth.issuers.iter().map(|issuer| issuer.name.clone()).collect::<HashSet<_>>();
    for issuer in &issuers(before) - &issuers(now) {
        metrics.forget_issuer(&issuer);
    }
    let upstreams = |config: &Config| {
        let of = |route: &RouteConfig| {
            route.upstreams.iter().map(|one| (route.name.clone(), one.label())).collect::<Vec<_>>()
        };
        config.routes.iter().flat_map(of).collect::<HashSet<_>>()
    };
    for (route, upstream) in &upstreams(before) - &upstreams(now) {
        metrics.forget_upstream(&route, &upstream);
    }
}

fn short_hash(digest: &Sha256Digest) -> String {
    hex::encode(&digest[..HASH_BYTES])
}
