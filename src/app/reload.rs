//! Reloads the configuration while the gateway runs, completely or not at all.
//!
//! ```text
//!   SIGHUP, POST /reload ──────────┐
//!   the file, every two seconds ───┴▶ read ─▶ check ─▶ build alongside the old one ─▶ swap ─▶ drop unused parts
//!                                      └────────┴─────────┴─▶ refused: one line, and nothing changes
//! ```
//! Requests and runs keep the configuration they started with.
//!
//! The file is read every two seconds and compared by content. inotify would be faster but not reliable: a mounted
//! ConfigMap changes when a symbolic link is replaced; some mounts (NFS, FUSE, virtual machines) send no notifications;
//! and event queues overflow. kubelet itself takes up to a minute to deliver a change, and the cost of reading a small
//! file is not measurable.

use crate::admin::{ReloadRequest, ReloadResult};
use crate::config::effective::{self, EffectiveConfig};
use crate::config::reload::{ConfigChanges, keys_needing_restart};
use crate::config::{Config, ConfigProblem, ConfigProblems, load};
use crate::net::digest::{self, Sha256Digest};
use crate::net::{BackgroundTask, SwapCell};
use crate::policy::{self, RequestPolicy};
use crate::proxy::{Cluster, Gateway, Lifecycle, LifecyclePhase};
use crate::telemetry::{Metrics, internal_event};
use futures_util::future::join_all;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::{interval, sleep, timeout};

const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// A file that does not change for this long counts as completely written.
const SETTLE_TIME: Duration = Duration::from_millis(100);

/// Maximum time to resolve the names of new agents.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

const HASH_BYTES: usize = 6;

#[derive(Debug)]
pub(crate) struct ConfigSource {
    path: PathBuf,
    /// read with the file, whose meaning they change
    dialect_files: Vec<PathBuf>,
    /// of the file and the dialect files
    digest: Sha256Digest,
    /// with secrets removed
    pub(super) effective_config: String,
    /// false if the configuration was read from a pipe
    is_reloadable: bool,
    warnings: Vec<ConfigProblem>,
}

impl ConfigSource {
    pub(crate) fn read(path: &Path) -> Result<(Config, ConfigSource), ConfigProblems> {
        let bytes = load::read_source(path)?;
        let EffectiveConfig { config, yaml, warnings } =
            effective::load_effective(path, &bytes, policy::auth::check_key_file)?;
        let source = ConfigSource {
            path: path.to_owned(),
            digest: digest_of(&bytes, &config.dialect_files),
            dialect_files: config.dialect_files.clone(),
            effective_config: yaml,
            is_reloadable: path.metadata().is_ok_and(|file| file.is_file()),
            warnings,
        };
        Ok((config, source))
    }

    /// Returns the file, unless it was a pipe, which can be read only once.
    pub(super) fn file(&self) -> Option<Arc<Path>> {
        self.is_reloadable.then(|| self.path.as_path().into())
    }

    pub(super) fn log_warnings(&self) {
        for ConfigProblem { file, line, path, message, hint, .. } in &self.warnings {
            internal_event::ConfigLintFound { file, line: *line, key: path, message, hint: hint.as_deref() }.emit();
        }
    }
}

/// Directs new requests to the given gateway.
pub(super) type SwapGatewayFn = Box<dyn Fn(Arc<Gateway>) + Send + Sync>;

pub(super) struct ActiveConfig {
    pub(crate) config: SwapCell<Config>,
    pub(crate) policy: SwapCell<RequestPolicy>,
    /// as printed by `diglot config`
    pub(crate) effective_config: SwapCell<String>,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) swap_gateway: SwapGatewayFn,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) metrics: Arc<Metrics>,
}

pub(super) struct ConfigReloader {
    active: ActiveConfig,
    source: Option<ConfigSource>,
    start_config: Arc<Config>,
    requests: mpsc::Receiver<ReloadRequest>,
    seen_digest: Result<Sha256Digest, ()>,
    last_reload_ok: bool,
    tasks: HashMap<usize, AbortHandle>,
}

struct PreparedReload {
    config: Config,
    effective_config: String,
    /// differences from the active configuration
    changes: ConfigChanges,
    policy: Arc<RequestPolicy>,
    gateway: Arc<Gateway>,
}

impl ConfigReloader {
    pub(super) fn new(
        active: ActiveConfig,
        source: Option<ConfigSource>,
        requests: mpsc::Receiver<ReloadRequest>,
    ) -> ConfigReloader {
        ConfigReloader {
            start_config: active.config.load(),
            seen_digest: source.as_ref().map(|source| source.digest).ok_or(()),
            active,
            source,
            requests,
            last_reload_ok: true,
            tasks: HashMap::new(),
        }
    }

    /// Handles reload requests and file changes; never returns.
    pub(super) async fn run(mut self) {
        if let Some(source) = &self.source {
            internal_event::ConfigApplied { hash: &short_hash(&source.digest), changes: None }
                .emit(&self.active.metrics);
        }
        self.sync_tasks();
        let mut poll = interval(POLL_INTERVAL);
        loop {
            let mut requests = Vec::new();
            tokio::select! {
                request = self.requests.recv() => match request {
                    Some(request) => requests.push(request),
                    // No more requests can arrive, but the file may still change.
                    None => sleep(POLL_INTERVAL).await,
                },
                _ = poll.tick() => if !self.has_changed().await { continue },
            }
            // All waiting requests get the same result, since the file is read after all of them.
            while let Ok(request) = self.requests.try_recv() {
                requests.push(request);
            }
            let result = self.reload().await;
            for request in requests {
                // A reload requested by signal has no receiver.
                let _ = request.send(result.clone());
            }
        }
    }

    async fn has_changed(&self) -> bool {
        let Some(source) = self.source.as_ref().filter(|source| source.is_reloadable) else { return false };
        // During shutdown, the next process will read the file.
        if self.active.lifecycle.phase() != LifecyclePhase::Serving {
            return false;
        }
        let first = read_digest(source).await;
        if first == self.seen_digest {
            return false;
        }
        sleep(SETTLE_TIME).await;
        read_digest(source).await == first
    }

    async fn reload(&mut self) -> ReloadResult {
        let Some(source) = self.source.as_ref().filter(|source| source.is_reloadable) else {
            internal_event::ReloadUnsupported {}.emit();
            return Err("there is no file to read again".to_owned());
        };
        let bytes = match read_source(&source.path).await {
            Ok(bytes) => bytes,
            Err(problems) => return self.reject(Err(()), problems.to_string()),
        };
        let digest = digest_with_files(bytes.clone(), source.dialect_files.clone()).await;
        if self.last_reload_ok && digest == source.digest {
            self.seen_digest = Ok(digest);
            return Ok(describe_changes(
                &ConfigChanges::default(),
                &keys_needing_restart(&self.start_config, &self.active.config.load()),
            ));
        }
        match self.build(bytes.clone()).await {
            Ok(next) => {
                let digest = digest_with_files(bytes, next.config.dialect_files.clone()).await;
                Ok(self.apply(next, digest).await)
            }
            Err(problems) => self.reject(Ok(digest), problems),
        }
    }

    fn reject(&mut self, seen: Result<Sha256Digest, ()>, problems: String) -> ReloadResult {
        self.seen_digest = seen;
        self.last_reload_ok = false;
        internal_event::ConfigRejected { problems: &problems }.emit(&self.active.metrics);
        Err(problems)
    }

    /// Builds the new configuration on a blocking thread, since the only runtime thread also handles health checks and
    /// Redis.
    async fn build(&self, bytes: Vec<u8>) -> Result<PreparedReload, String> {
        let path = self.source.as_ref().map(|source| source.path.clone()).unwrap_or_default();
        let policy = self.active.policy.load();
        let gateway = Arc::clone(&self.active.gateway);
        let metrics = Arc::clone(&self.active.metrics);
        let old_config = self.active.config.load();
        let old_yaml = self.active.effective_config.load();
        let built = spawn_blocking(move || {
            let parsed = effective::load_effective(&path, &bytes, policy::auth::check_key_file);
            let EffectiveConfig { config, yaml, .. } = parsed.map_err(|problems| problems.to_string())?;
            let in_file = |cause: String| format!("{}: {cause}", path.display());
            let policy = Arc::new(policy.reconfigure(&config, &metrics).map_err(|error| in_file(error.to_string()))?);
            let gateway = Arc::new(gateway.with_config(&config, Arc::clone(&policy)).map_err(in_file)?);
            let changes = ConfigChanges::compare(&old_config, &config, [old_yaml.as_str(), yaml.as_str()]);
            Ok(PreparedReload { config, effective_config: yaml, changes, policy, gateway })
        });
        built.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    async fn apply(&mut self, next: PreparedReload, digest: Sha256Digest) -> String {
        let PreparedReload { config, effective_config, changes, policy, gateway } = next;
        let known = self.active.gateway.clusters();
        let mut new_clusters = gateway.clusters();
        new_clusters.retain(|cluster| !known.iter().any(|known| Arc::ptr_eq(known, cluster)));
        resolve(&new_clusters).await;
        let old_config = self.active.config.load();
        let config = Arc::new(config);
        (self.active.swap_gateway)(Arc::clone(&gateway));
        self.active.gateway = gateway;
        self.active.policy.store(policy);
        self.active.effective_config.store(Arc::new(effective_config));
        self.active.config.store(Arc::clone(&config));
        self.sync_tasks();
        forget_removed(&old_config, &config, &self.active.metrics);
        self.seen_digest = Ok(digest);
        self.last_reload_ok = true;
        if let Some(source) = &mut self.source {
            source.digest = digest;
            source.dialect_files.clone_from(&config.dialect_files);
        }
        internal_event::ConfigApplied { hash: &short_hash(&digest), changes: Some(&changes) }
            .emit(&self.active.metrics);
        let kept = keys_needing_restart(&self.start_config, &config);
        if !kept.is_empty() {
            internal_event::RestartRequired { keys: &kept }.emit();
        }
        describe_changes(&changes, &kept)
    }

    fn sync_tasks(&mut self) {
        let clusters = self.active.gateway.clusters();
        let clusters =
            clusters.iter().map(|cluster| BackgroundTask::new(cluster, |cluster| async move { cluster.watch().await }));
        let wanted = self.active.policy.load().background_tasks().into_iter().chain(clusters);
        let mut removed = std::mem::take(&mut self.tasks);
        for BackgroundTask { owner_id, future } in wanted {
            let task = removed.remove(&owner_id).unwrap_or_else(|| tokio::spawn(future).abort_handle());
            self.tasks.insert(owner_id, task);
        }
        removed.into_values().for_each(|task| task.abort());
    }
}

async fn read_source(path: &Path) -> Result<Vec<u8>, ConfigProblems> {
    let owned = path.to_owned();
    let read = spawn_blocking(move || load::read_source(&owned)).await;
    read.unwrap_or_else(|error| Err(ConfigProblem::for_path(path, error.to_string()).into()))
}

async fn read_digest(source: &ConfigSource) -> Result<Sha256Digest, ()> {
    let bytes = read_source(&source.path).await.map_err(drop)?;
    Ok(digest_with_files(bytes, source.dialect_files.clone()).await)
}

async fn digest_with_files(bytes: Vec<u8>, files: Vec<PathBuf>) -> Sha256Digest {
    spawn_blocking(move || digest_of(&bytes, &files)).await.unwrap_or_default()
}

/// Returns the digest of the file alone, as `sha256sum` prints it, unless it names dialect files.
fn digest_of(bytes: &[u8], files: &[PathBuf]) -> Sha256Digest {
    if files.is_empty() {
        return digest::sha256(bytes);
    }
    // A file that cannot be read has no content.
    let read = |file: &PathBuf| hex::encode(digest::sha256(&load::read_source(file).unwrap_or_default()));
    let digests: Vec<String> =
        std::iter::once(hex::encode(digest::sha256(bytes))).chain(files.iter().map(read)).collect();
    digest::sha256(digests.concat().as_bytes())
}

fn describe_changes(changes: &ConfigChanges, kept: &[&str]) -> String {
    if kept.is_empty() {
        return changes.to_string();
    }
    format!("{changes}; not in use before a restart or `diglot serve --upgrade`: {}", kept.join(", "))
}

/// Resolves the agents' host names before the first request, waiting at most [`RESOLVE_TIMEOUT`].
pub(super) async fn resolve(clusters: &[Arc<Cluster>]) {
    let _ = timeout(RESOLVE_TIMEOUT, join_all(clusters.iter().map(|cluster| cluster.resolve()))).await;
}

fn forget_removed(before: &Config, now: &Config, metrics: &Metrics) {
    for issuer in &issuer_names(before) - &issuer_names(now) {
        metrics.forget_issuer(&issuer);
    }
    for (route, upstream) in &upstream_labels(before) - &upstream_labels(now) {
        metrics.forget_upstream(&route, &upstream);
    }
}

fn issuer_names(config: &Config) -> HashSet<String> {
    config.auth.issuers.iter().map(|issuer| issuer.name.clone()).collect()
}

fn upstream_labels(config: &Config) -> HashSet<(String, String)> {
    let labels = config
        .routes
        .iter()
        .flat_map(|route| route.upstreams.iter().map(|upstream| (route.name.clone(), upstream.label())));
    labels.collect()
}

fn short_hash(digest: &Sha256Digest) -> String {
    hex::encode(&digest[..HASH_BYTES])
}
