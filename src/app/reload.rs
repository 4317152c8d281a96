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

use crate::admin::{Ask, Reloaded};
use crate::config::effective::{self, Understood};
use crate::config::reload::{Changes, needs_restart};
use crate::config::{Config, Problem, Route, load};
use crate::guard::digest::{self, Digest};
use crate::guard::{self, Current, Guard, Upkeep};
use crate::proxy::{Cluster, Gateway, Lifecycle, Phase};
use crate::telemetry::{Metrics, occurrence};
use async_trait::async_trait;
use futures_util::future::join_all;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::{interval, sleep, timeout};

/// How often the file is looked at.
const POLL: Duration = Duration::from_secs(2);

/// How long a changed file has to stay as it is: one that is being written is not taken in the middle.
const SETTLE: Duration = Duration::from_millis(100);

/// How long the names of new agents may take before the configuration is used without their addresses.
const RESOLVE: Duration = Duration::from_secs(5);

/// How much of a digest is shown, in bytes.
const SHOWN: usize = 6;

/// Where a configuration came from.
#[derive(Debug)]
pub struct Origin {
    path: PathBuf,
    digest: Digest,
    /// as it is in effect, without secrets
    printed: String,
    /// whether the file can be read again
    lasting: bool,
    /// what is doubtful about it
    warnings: Vec<Problem>,
}

impl Origin {
    /// The file at `path`, with what was read there.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn read(path: &Path) -> Result<(Config, Origin), crate::config::Problems> {
        let bytes = load::unread(path)?;
        let Understood { config, printed, warnings } = effective::understood(path, &bytes, guard::auth::usable)?;
        let lasting = path.metadata().is_ok_and(|file| file.is_file());
        Ok((config, Origin { path: path.to_owned(), digest: digest::of(&bytes), printed, lasting, warnings }))
    }

    /// Logs what is doubtful about the configuration.
    pub(super) fn warn(&self) {
        for Problem { line, path, message, hint, .. } in &self.warnings {
            occurrence::Doubtful { line: *line, key: path, what: message, hint: hint.as_deref() }.emit();
        }
    }

    /// The configuration as it is in effect, without secrets.
    pub(super) fn printed(&self) -> String {
        self.printed.clone()
    }
}

/// What the process runs on now.
pub(super) struct Live {
    pub config: Current<Config>,
    pub guard: Current<Guard>,
    /// as `diglot config` prints it
    pub printed: Current<String>,
    pub gateway: Arc<Gateway>,
    /// sends requests through another gateway from now on
    pub turn: Box<dyn Fn(Arc<Gateway>) + Send + Sync>,
    pub lifecycle: Lifecycle,
    pub metrics: Arc<Metrics>,
}

/// Keeps [`Live`] fresh: the work beside requests, and the configuration itself.
pub(super) struct Reloader(Mutex<Option<State>>);

struct State {
    live: Live,
    origin: Option<Origin>,
    /// as the process was started
    began: Arc<Config>,
    asked: mpsc::Receiver<Ask>,
    /// what the file held when it was looked at last; an error that it cannot be read
    seen: Result<Digest, ()>,
    good: bool,
    upkeep: HashMap<usize, AbortHandle>,
}

/// Another configuration, built and not in use yet.
struct Next {
    config: Config,
    printed: String,
    /// from what is in use
    changes: Changes,
    guard: Arc<Guard>,
    gateway: Arc<Gateway>,
}

impl Reloader {
    pub(super) fn new(live: Live, origin: Option<Origin>, asked: mpsc::Receiver<Ask>) -> Reloader {
        let seen = origin.as_ref().map(|origin| origin.digest).ok_or(());
        let began = live.config.get();
        Reloader(Mutex::new(Some(State { live, origin, began, asked, seen, good: true, upkeep: HashMap::new() })))
    }
}

#[async_trait]
impl BackgroundService for Reloader {
    async fn start(&self, _: ShutdownWatch) {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut state) = state {
            if let Some(origin) = &state.origin {
                occurrence::Configured { hash: &shown(&origin.digest), changes: None }.emit(&state.live.metrics);
            }
            state.keep();
            state.run().await;
        }
    }
}

impl State {
    async fn run(&mut self) {
        let mut poll = interval(POLL);
        loop {
            let mut asks = Vec::new();
            tokio::select! {
                ask = self.asked.recv() => match ask {
                    Some(ask) => asks.push(ask),
                    // Nobody can ask any more, but the file may change.
                    None => sleep(POLL).await,
                },
                _ = poll.tick() => if !self.differs().await { continue },
            }
            // Whoever asks while others wait gets the same answer: the file is read after all of them.
            while let Ok(ask) = self.asked.try_recv() {
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
    async fn differs(&self) -> bool {
        let Some(origin) = self.origin.as_ref().filter(|origin| origin.lasting) else { return false };
        // It is the next process's business by then.
        if self.live.lifecycle.phase() != Phase::Serving {
            return false;
        }
        let look = || async {
            let path = origin.path.clone();
            let bytes = spawn_blocking(move || load::unread(&path)).await.map_err(|_| ())?;
            bytes.map(|bytes| digest::of(&bytes)).map_err(|_| ())
        };
        let first = look().await;
        if first == self.seen {
            return false;
        }
        sleep(SETTLE).await;
        look().await == first
    }

    async fn reload(&mut self) -> Reloaded {
        let Some(origin) = self.origin.as_ref().filter(|origin| origin.lasting) else {
            occurrence::NoFile.emit();
            return Err("there is no file to read again".to_owned());
        };
        let path = origin.path.clone();
        let bytes = match spawn_blocking(move || load::unread(&path)).await.map_err(|error| error.to_string()) {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(problems)) => return self.refuse(Err(()), problems.to_string()),
            Err(error) => return self.refuse(Err(()), error),
        };
        let digest = digest::of(&bytes);
        if self.good && digest == origin.digest {
            self.seen = Ok(digest);
            return Ok(told(&Changes::default(), &needs_restart(&self.began, &self.live.config.get())));
        }
        match self.build(bytes).await {
            Ok(next) => Ok(self.take(next, digest).await),
            Err(problems) => self.refuse(Ok(digest), problems),
        }
    }

    fn refuse(&mut self, seen: Result<Digest, ()>, problems: String) -> Reloaded {
        (self.seen, self.good) = (seen, false);
        occurrence::Misconfigured { problems: &problems }.emit(&self.live.metrics);
        Err(problems)
    }

    /// Reads files, makes keys and compares with what is in use, beside the runtime: health checks and the connection to Redis
    /// are served by its one thread.
    async fn build(&self, bytes: Vec<u8>) -> Result<Next, String> {
        let path = self.origin.as_ref().map(|origin| origin.path.clone()).unwrap_or_default();
        let (guard, gateway) = (self.live.guard.get(), Arc::clone(&self.live.gateway));
        let metrics = Arc::clone(&self.live.metrics);
        let (before, was) = (self.live.config.get(), self.live.printed.get());
        let built = spawn_blocking(move || {
            let understood = effective::understood(&path, &bytes, guard::auth::usable);
            let Understood { config, printed, .. } = understood.map_err(|problems| problems.to_string())?;
            let guard = guard.renewed(&config, &metrics).map_err(|why| format!("{}: {why}", path.display()))?;
            let guard = Arc::new(guard);
            let gateway = gateway.renewed(&config, Arc::clone(&guard));
            let gateway = Arc::new(gateway.map_err(|why| format!("{}: {why}", path.display()))?);
            let changes = Changes::between(&before, &config, [was.as_str(), printed.as_str()]);
            Ok(Next { config, printed, changes, guard, gateway })
        });
        built.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    async fn take(&mut self, next: Next, digest: Digest) -> String {
        let Next { config, printed, changes, guard, gateway } = next;
        let known = self.live.gateway.clusters();
        let fresh = gateway.clusters().into_iter().filter(|one| !known.iter().any(|known| Arc::ptr_eq(known, one)));
        resolve(&fresh.collect::<Vec<_>>()).await;
        let (before, config) = (self.live.config.get(), Arc::new(config));
        (self.live.turn)(Arc::clone(&gateway));
        self.live.gateway = gateway;
        self.live.guard.turn(guard);
        self.live.printed.turn(Arc::new(printed));
        self.live.config.turn(Arc::clone(&config));
        self.keep();
        forget(&before, &config, &self.live.metrics);
        (self.seen, self.good) = (Ok(digest), true);
        if let Some(origin) = &mut self.origin {
            origin.digest = digest;
        }
        occurrence::Configured { hash: &shown(&digest), changes: Some(&changes) }.emit(&self.live.metrics);
        let kept = needs_restart(&self.began, &config);
        if !kept.is_empty() {
            occurrence::NeedsRestart { keys: &kept }.emit();
        }
        told(&changes, &kept)
    }

    /// Begins the work for what is in use, and ends that for what is not any more.
    fn keep(&mut self) {
        let clusters = self.live.gateway.clusters();
        let clusters =
            clusters.iter().map(|cluster| Upkeep::new(cluster, |cluster| async move { cluster.watch().await }));
        let wanted = self.live.guard.get().upkeep().into_iter().chain(clusters);
        let mut before = std::mem::take(&mut self.upkeep);
        for Upkeep { of, work } in wanted {
            let goes_on = before.remove(&of).unwrap_or_else(|| tokio::spawn(work).abort_handle());
            self.upkeep.insert(of, goes_on);
        }
        before.into_values().for_each(|gone| gone.abort());
    }
}

/// What is answered to who asked: the changes, and every time what still waits for another process.
fn told(changes: &Changes, kept: &[&str]) -> String {
    if kept.is_empty() {
        return changes.to_string();
    }
    format!("{changes}; not in use before a restart or `diglot serve --upgrade`: {}", kept.join(", "))
}

/// Resolves agents before the first request comes. An agent that cannot be resolved yet is no reason to wait for it.
pub(super) async fn resolve(clusters: &[Arc<Cluster>]) {
    let _ = timeout(RESOLVE, join_all(clusters.iter().map(|cluster| cluster.resolve()))).await;
}

/// Takes what is configured no more out of the metrics that say how something is.
fn forget(before: &Config, now: &Config, metrics: &Metrics) {
    let issuers =
        |config: &Config| config.auth.issuers.iter().map(|issuer| issuer.name.clone()).collect::<HashSet<_>>();
    for issuer in &issuers(before) - &issuers(now) {
        metrics.forget_issuer(&issuer);
    }
    let upstreams = |config: &Config| {
        let of =
            |route: &Route| route.upstreams.iter().map(|one| (route.name.clone(), one.label())).collect::<Vec<_>>();
        config.routes.iter().flat_map(of).collect::<HashSet<_>>()
    };
    for (route, upstream) in &upstreams(before) - &upstreams(now) {
        metrics.forget_upstream(&route, &upstream);
    }
}

fn shown(digest: &Digest) -> String {
    digest.iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect()
}
