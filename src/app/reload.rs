//! Another configuration while the gateway serves: all of it, or nothing.
//!
//! ```text
//!   SIGHUP, POST /reload ──────────┐
//!   the file, every two seconds ───┴▶ read ─▶ check ─▶ build beside the old one ─▶ turn ─▶ let go of what is gone
//!                                      └────────┴─────────┴─▶ refused: one line, and everything stays as it is
//! ```
//! Requests go through the stack that they came to; runs that are open keep what they began with.
//!
//! The file is read every two seconds and compared by its content. Being told of changes (inotify) would be sooner, but not
//! surer: a mounted ConfigMap changes by a link to another folder, beside the file that was named; some mounts (NFS, FUSE, those
//! of virtual machines) say nothing; and queues overflow. Whoever is told still has to look from time to time, and who looks need
//! not be told: kubelet itself takes up to a minute to bring a change. Two reads of a small file in two seconds cost nothing
//! that can be measured.

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

/// How often the file is looked at.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// How long a changed file has to stay as it is: one that is being written is not taken in the middle.
const SETTLE_TIME: Duration = Duration::from_millis(100);

/// How long the names of new agents may take before the configuration is used without their addresses.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// How much of a digest is shown, in bytes.
const HASH_BYTES: usize = 6;

/// Where a configuration came from.
#[derive(Debug)]
pub(crate) struct ConfigSource {
    path: PathBuf,
    digest: Sha256Digest,
    /// as it is in effect, without secrets
    effective_config: String,
    /// whether the file can be read again
    is_reloadable: bool,
    /// what is doubtful about it
    warnings: Vec<ConfigProblem>,
}

impl ConfigSource {
    /// The file at `path`, with what was read there.
    ///
    /// # Errors
    /// All that is wrong with it.
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

    /// Logs what is doubtful about the configuration.
    pub(super) fn log_warnings(&self) {
        for ConfigProblem { line, path, message, hint, .. } in &self.warnings {
            internal_event::ConfigLintFound { line: *line, key: path, message, hint: hint.as_deref() }.emit();
        }
    }

    /// The configuration as it is in effect, without secrets.
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

/// Keeps [`Live`] fresh: the work beside requests, and the configuration itself.
pub(super) struct ConfigReloader(Mutex<Option<ReloaderState>>);

struct ReloaderState {
    running: RunningState,
    origin: Option<ConfigSource>,
    /// as the process was started
    start_config: Arc<Config>,
    requests: mpsc::Receiver<ReloadRequest>,
    /// what the file held when it was looked at last; an error that it cannot be read
    seen_digest: Result<Sha256Digest, ()>,
    last_reload_ok: bool,
    tasks: HashMap<usize, AbortHandle>,
}

/// Another configuration, built and not in use yet.
struct PreparedReload {
    config: Config,
    effective_config: String,
    /// from what is in use
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
            let mut asks = Vec::new();
            tokio::select! {
                ask = self.requests.recv() => match ask {
                    Some(ask) => asks.push(ask),
                    // Nobody can ask any more, but the file may change.
                    None => sleep(POLL_INTERVAL).await,
                },
                _ = poll.tick() => if !self.has_changed().await { continue },
            }
            // Whoever asks while others wait gets the same answer: the file is read after all of them.
            while let Ok(ask) = self.requests.try_recv() {
                asks.push(ask);
            }
            let answer = self.reload().await;
            for ask in asks {
                // Whoever asked by a signal does not wait.
                let _ = ask.send(answer.clone());
            }
        }
    }

    /// Whether the file says something else than when it was looked at last, and has settled.
    async fn has_changed(&self) -> bool {
        let Some(origin) = self.origin.as_ref().filter(|origin| origin.is_reloadable) else { return false };
        // It is the next process's business by then.
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
            internal_event::ReloadUnsupported.emit();
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

    /// Reads files, makes keys and compares with what is in use, beside the runtime: health checks and the connection to Redis
    /// are served by its one thread.
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

    /// Begins the work for what is in use, and ends that for what is not any more.
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

/// What is answered to who asked: the changes, and every time what still waits for another process.
fn describe_changes(changes: &ConfigChanges, kept: &[&str]) -> String {
    if kept.is_empty() {
        return changes.to_string();
    }
    format!("{changes}; not in use before a restart or `diglot serve --upgrade`: {}", kept.join(", "))
}

/// Resolves agents before the first request comes. An agent that cannot be resolved yet is no reason to wait for it.
pub(super) async fn resolve(clusters: &[Arc<Cluster>]) {
    let _ = timeout(RESOLVE_TIMEOUT, join_all(clusters.iter().map(|cluster| cluster.resolve()))).await;
}

/// Takes what is configured no more out of the metrics that say how something is.
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
