//! The keys of issuers: where they are, and how they stay fresh.
//!
//! ```text
//!              ┌────────── wait: max-age, 5 min … 24 h; after a failure 1, 2, 4 … 60 s ◀───────┐
//!              ▼                                                                              │
//!   asleep ────┴── a request names an unknown key (once per 30 s) ──▶ fetching ──▶ keys, or those from before
//! ```
//! A key without a name is as good as unknown when no key fits the signature: it may have been replaced.
//!
//! One task fetches, so there is never more than one fetch of an issuer at once, however many requests wait for it.

use super::document::{DocumentFetcher, DocumentUrl};
use super::jwt::UnverifiedToken;
use super::key_set::KeySet;
use crate::config::access::{Algorithm, IssuerConfig as Settings, IssuerKeysConfig};
use crate::config::load::KeyMismatch;
use crate::guard::identity::Identity;
use crate::net::file_watcher::Watched;
use crate::telemetry::label::AuthReason;
use crate::telemetry::label::JwksRefresh;
use crate::telemetry::metric::IssuerMetrics;
use crate::telemetry::{Metrics, internal_event};
use arc_swap::ArcSwapOption;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};

/// How long keys are used before they are fetched again, whatever the issuer says. The shorter one is taken where it says
/// nothing: what an issuer revokes should not be good for long.
const FRESHNESS: std::ops::RangeInclusive<Duration> = Duration::from_secs(5 * 60)..=Duration::from_secs(24 * 60 * 60);

/// How often an unknown key makes the keys be fetched before their time.
const REFETCH_INTERVAL: Duration = Duration::from_secs(30);

/// The first and the longest pause between attempts that fail.
const FIRST_RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);

/// How long a request waits for keys that are being fetched.
const FETCH_WAIT: Duration = Duration::from_millis(1200);

/// One issuer, with its keys.
#[derive(Debug)]
pub(super) struct TokenIssuer {
    /// its name in the configuration
    pub(crate) name: Arc<str>,
    /// what it is configured to be
    pub(crate) settings: Settings,
    source: IssuerKeySource,
}

#[derive(Debug)]
enum IssuerKeySource {
    Fixed(Arc<KeySet>),
    File(Watched<Arc<KeySet>>),
    Remote(Box<RemoteJwks>),
}

/// Keys that are fetched.
#[derive(Debug)]
struct RemoteJwks {
    name: Arc<str>,
    settings: Settings,
    fetcher: DocumentFetcher,
    keys: ArcSwapOption<KeySet>,
    state: watch::Sender<FetchState>,
    /// ends the wait for the next fetch
    wake: Notify,
    metrics: IssuerMetrics,
}

/// How far the fetching is.
#[derive(Clone, Debug)]
struct FetchState {
    fetching: bool,
    /// fetches that ended
    completed: u64,
    /// from when on an unknown key is a reason to fetch again
    refetch_after: Instant,
    /// when the next one begins by itself
    next_fetch: Instant,
    /// why the last one failed
    failure: Option<String>,
}

impl FetchState {
    /// Asks for a fetch, since somebody named a key that is not known; whether one is to begin.
    fn request_fetch(&mut self, now: Instant) -> bool {
        let due = !self.fetching && now >= self.refetch_after;
        if due {
            (self.fetching, self.refetch_after) = (true, now + REFETCH_INTERVAL);
        }
        due
    }
}

/// For how long keys are used that may be kept for `max_age`.
fn fresh_for(max_age: Option<Duration>) -> Duration {
    max_age.unwrap_or(*FRESHNESS.start()).clamp(*FRESHNESS.start(), *FRESHNESS.end())
}

/// How long to wait after so many failures in a row: at least one.
fn retry_delay(failures: u32) -> Duration {
    FIRST_RETRY_DELAY.saturating_mul(1 << (failures - 1).min(6)).min(MAX_RETRY_DELAY)
}

/// What can be said about the keys of an issuer.
#[derive(Debug)]
pub(super) struct IssuerHealth {
    pub(crate) keys: usize,
    pub(crate) failure: Option<String>,
}

impl TokenIssuer {
    /// As configured. Files are read now; nothing is fetched.
    ///
    /// # Errors
    /// What of a file or a URL cannot be used.
    pub(crate) fn new(
        settings: &Settings,
        fetcher: &DocumentFetcher,
        metrics: &Metrics,
    ) -> Result<TokenIssuer, String> {
        let name: Arc<str> = settings.name.as_str().into();
        let metrics = metrics.issuer(&name);
        let source = match &settings.keys {
            IssuerKeysConfig::JwksFile(path) => watch_key_file(path, settings, metrics, KeySet::from_jwks)
                .map_err(|why| startup_error(&name, "jwks_file", &why, JWKS_HINT))?,
            IssuerKeysConfig::PemFile(path) => watch_key_file(path, settings, metrics, KeySet::from_pem)
                .map_err(|why| startup_error(&name, "public_key_file", &why, PEM_HINT))?,
            // White space at its end is not part of it: editors and `echo` write a line end.
            IssuerKeysConfig::SecretFile(path) => {
                let read = |content: &[u8], all: &[_]| KeySet::from_secret(content.trim_ascii_end(), all);
                let hint = "put a longer secret there, such as one of `openssl rand -base64 48`";
                watch_key_file(path, settings, metrics, read)
                    .map_err(|why| startup_error(&name, "secret_file", &why, hint))?
            }
            IssuerKeysConfig::Secret(secret) => {
                let keys = KeySet::from_secret(secret.expose().as_bytes(), &settings.algorithms);
                let keys = keys.map_err(|why| format!("the secret of the issuer `{name}` {why}"))?;
                record_refresh(&metrics, Some(&keys));
                IssuerKeySource::Fixed(Arc::new(keys))
            }
            IssuerKeysConfig::Discovery | IssuerKeysConfig::Url(_) => {
                IssuerKeySource::Remote(Box::new(RemoteJwks::new(&name, settings, fetcher.clone(), metrics)?))
            }
        };
        Ok(TokenIssuer { name, settings: settings.clone(), source })
    }

    /// Keeps the keys fresh: never returns.
    pub(crate) async fn keep_fresh(&self) {
        match &self.source {
            IssuerKeySource::Fixed(_) => std::future::pending().await,
            IssuerKeySource::File(file) => file.watch(internal_event::report_watched_files).await,
            IssuerKeySource::Remote(remote) => remote.refresh_loop().await,
        }
    }

    /// Whom a token of this issuer is of.
    ///
    /// # Errors
    /// Why it is not believed.
    pub(crate) async fn verify(&self, token: UnverifiedToken<'_>, now: SystemTime) -> Result<Identity, AuthReason> {
        token.check_header(&self.settings)?;
        match (&self.source, self.check_signature(&token)) {
            (IssuerKeySource::Remote(remote), Err(_))
                if !self.keys().is_some_and(|keys| keys.has_named_key(&token)) =>
            {
                remote.await_refresh().await;
                self.check_signature(&token)?;
            }
            (_, checked) => checked?,
        }
        token.into_identity(&self.settings, &self.name, now)
    }

    fn check_signature(&self, token: &UnverifiedToken<'_>) -> Result<(), AuthReason> {
        self.keys().ok_or(AuthReason::KeysUnavailable)?.verify(token)
    }

    fn keys(&self) -> Option<Arc<KeySet>> {
        match &self.source {
            IssuerKeySource::Fixed(keys) => Some(Arc::clone(keys)),
            IssuerKeySource::File(file) => Some(Arc::clone(&file.get())),
            IssuerKeySource::Remote(remote) => remote.keys.load_full(),
        }
    }

    /// How many keys there are, and what is wrong with more.
    pub(crate) fn health(&self) -> IssuerHealth {
        let failure = match &self.source {
            IssuerKeySource::Remote(remote) => remote.state.borrow().failure.clone(),
            IssuerKeySource::Fixed(_) | IssuerKeySource::File(_) => None,
        };
        IssuerHealth { keys: self.keys().map_or(0, |keys| keys.len()), failure }
    }

    /// When keys may be there, where there are none, in whole seconds.
    pub(crate) fn retry_after(&self) -> u64 {
        let IssuerKeySource::Remote(remote) = &self.source else { return 1 };
        let wait = remote.state.borrow().next_fetch.saturating_duration_since(Instant::now());
        wait.as_secs() + 1
    }
}

/// What to do about a file that is to be a JWKS.
const JWKS_HINT: &str = "put a JWKS there, `{\"keys\": [...]}`, with a public key for one of the issuer's `algorithms`; PEM \
                         goes into `public_key_file`";

/// What to do about a file that is to be PEM.
const PEM_HINT: &str = "put public keys or certificates in PEM there, each for one of the issuer's `algorithms`; a JWKS goes \
                        into `jwks_file`";

/// Whether the content of a file of public keys can be used, for the check of a configuration.
///
/// # Errors
/// Why not.
pub(crate) fn check_key_file(
    keys: &IssuerKeysConfig,
    content: &[u8],
    allowed: &[Algorithm],
) -> Result<(), KeyMismatch> {
    let (read, hint) = match keys {
        IssuerKeysConfig::JwksFile(_) => (KeySet::from_jwks(content, allowed), JWKS_HINT),
        IssuerKeysConfig::PemFile(_) => (KeySet::from_pem(content, allowed), PEM_HINT),
        IssuerKeysConfig::Discovery
        | IssuerKeysConfig::Url(_)
        | IssuerKeysConfig::SecretFile(_)
        | IssuerKeysConfig::Secret(_) => return Ok(()),
    };
    read.map(drop).map_err(|why| KeyMismatch { reason: why, hint })
}

/// What keeps the gateway from starting, as the other problems of a configuration are said: where, why, the way out.
fn startup_error(issuer: &str, key: &str, why: &str, hint: &str) -> String {
    format!("auth.issuers {issuer}: {key} {why}\n  hint: {hint}")
}

/// Keys in a file, as `read` has them.
fn watch_key_file(
    path: &Path,
    settings: &Settings,
    metrics: IssuerMetrics,
    read: fn(&[u8], &[Algorithm]) -> Result<KeySet, String>,
) -> Result<IssuerKeySource, String> {
    let (name, algorithms) = (settings.name.clone(), settings.algorithms.clone());
    let parse = move |content: &[u8]| {
        let brought = read(content, &algorithms);
        record_refresh(&metrics, brought.as_ref().ok());
        if let Some(ignored) = brought.as_ref().ok().and_then(|keys| keys.ignored.as_deref()) {
            internal_event::IssuerKeysIgnored { issuer: &name, ignored }.emit();
        }
        brought.map(Arc::new)
    };
    Watched::open(path, parse).map(IssuerKeySource::File)
}

/// Counts an attempt to fetch keys; `None` is a failure.
fn record_refresh(metrics: &IssuerMetrics, keys: Option<&KeySet>) {
    let Some(keys) = keys else { return metrics.refreshes.get(JwksRefresh::Failed).inc() };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    metrics.keys.set_count(keys.len());
    metrics.last_success.set(i64::try_from(now).unwrap_or(i64::MAX));
    metrics.refreshes.get(JwksRefresh::Fetched).inc();
}

impl RemoteJwks {
    fn new(
        name: &Arc<str>,
        settings: &Settings,
        fetcher: DocumentFetcher,
        metrics: IssuerMetrics,
    ) -> Result<RemoteJwks, String> {
        let url = match &settings.keys {
            IssuerKeysConfig::Url(url) => url,
            _ => &settings.issuer,
        };
        DocumentUrl::parse(url).map_err(|why| format!("the URL of the issuer `{name}` {why}"))?;
        let now = Instant::now();
        // The first fetch is as good as begun: whoever comes before it waits for it.
        let state = FetchState { fetching: true, completed: 0, refetch_after: now, next_fetch: now, failure: None };
        Ok(RemoteJwks {
            name: Arc::clone(name),
            settings: settings.clone(),
            fetcher,
            keys: ArcSwapOption::empty(),
            state: watch::Sender::new(state),
            wake: Notify::new(),
            metrics,
        })
    }

    async fn refresh_loop(&self) {
        let (mut failures, mut ignored) = (0, None);
        loop {
            self.state.send_modify(|state| state.fetching = true);
            let brought = self.fetch().await;
            let (wait, failure) = match brought {
                Ok((keys, fresh)) => {
                    self.store_keys(keys, failures, &mut ignored);
                    failures = 0;
                    (fresh, None)
                }
                Err(cause) => {
                    record_refresh(&self.metrics, None);
                    let stale = self.keys.load().is_some();
                    if failures == 0 {
                        internal_event::IssuerKeysFetchFailed { issuer: &self.name, cause: &cause, stale }.emit();
                    }
                    failures += 1;
                    (retry_delay(failures), Some(cause))
                }
            };
            let next = Instant::now() + wait;
            self.state.send_modify(|state| {
                *state = FetchState {
                    fetching: false,
                    completed: state.completed + 1,
                    refetch_after: state.refetch_after,
                    next_fetch: next,
                    failure,
                };
            });
            tokio::select! {
                () = sleep_until(next) => {}
                () = self.wake.notified() => {}
            }
        }
    }

    /// Takes keys that came, in place of all from before: one that is no longer among them is refused from now on.
    fn store_keys(&self, keys: KeySet, failures: u32, ignored: &mut Option<String>) {
        if failures > 0 || self.keys.load().is_none() {
            internal_event::IssuerKeysFetched { issuer: &self.name, keys: keys.len() }.emit();
        }
        // Said once, not every five minutes.
        if let Some(now) = keys.ignored.as_deref().filter(|_| *ignored != keys.ignored) {
            internal_event::IssuerKeysIgnored { issuer: &self.name, ignored: now }.emit();
        }
        ignored.clone_from(&keys.ignored);
        record_refresh(&self.metrics, Some(&keys));
        self.keys.store(Some(Arc::new(keys)));
    }

    /// The keys that the issuer has now, and for how long to use them.
    async fn fetch(&self) -> Result<(KeySet, Duration), String> {
        let url = match &self.settings.keys {
            IssuerKeysConfig::Url(url) => DocumentUrl::parse(url).map_err(|error| error.to_string())?,
            _ => self.discover_jwks_url().await?,
        };
        let document = self.fetcher.get(&url).await.map_err(|why| format!("JWKS: {why}"))?;
        let keys = KeySet::from_jwks(&document.body, &self.settings.algorithms);
        Ok((keys.map_err(|why| format!("JWKS: the document {why}"))?, fresh_for(document.max_age)))
    }

    /// Where the issuer says that its keys are.
    async fn discover_jwks_url(&self) -> Result<DocumentUrl, String> {
        let issuer = &self.settings.issuer;
        // OpenID Connect Discovery 1.0, section 4.1: "any terminating / MUST be removed before appending".
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let url = DocumentUrl::parse(&url).map_err(|error| error.to_string())?;
        let document = self.fetcher.get(&url).await.map_err(|why| format!("discovery: {why}"))?;
        let document: Value = serde_json::from_slice(&document.body).map_err(|_| "discovery: no JSON")?;
        // Section 4.3: "The issuer value returned MUST be identical to the Issuer URL that was used as the prefix".
        if document.get("issuer").and_then(Value::as_str) != Some(issuer) {
            return Err("discovery: the document is about another issuer".to_owned());
        }
        let keys = document.get("jwks_uri").and_then(Value::as_str).ok_or("discovery: no `jwks_uri`")?;
        let keys = DocumentUrl::parse(keys).map_err(|why| format!("discovery: `jwks_uri` {why}"))?;
        // An issuer elsewhere has no business with what listens on this machine only.
        if keys.is_loopback() && !url.is_loopback() {
            return Err("discovery: `jwks_uri` leads to this machine".to_owned());
        }
        Ok(keys)
    }

    /// Waits for keys that are being fetched, or has them fetched if that was not done lately.
    async fn await_refresh(&self) {
        let mut state = self.state.subscribe();
        let ended = state.borrow().completed;
        let some = self.keys.load().is_some();
        if some && self.state.send_if_modified(|state| state.request_fetch(Instant::now())) {
            self.wake.notify_one();
        }
        if state.borrow_and_update().fetching {
            // Whether it came in time is seen by looking for the key again.
            let _ = timeout(FETCH_WAIT, state.wait_for(|state| state.completed > ended)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refetches_for_unknown_keys_once_per_cool_down() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let mut state =
            FetchState { fetching: true, completed: 0, refetch_after: began, next_fetch: began, failure: None };
        assert!(!state.request_fetch(at(0)), "one fetch at once");
        state.fetching = false;
        // The fetch at the start is nobody's fault: the first unknown key may be a new one.
        assert!(state.request_fetch(at(1)) && state.fetching);
        state.fetching = false;
        assert!(!state.request_fetch(at(2)) && !state.request_fetch(at(30)) && !state.fetching);
        assert!(state.request_fetch(at(31)));
    }

    #[test]
    fn clamps_key_lifetime_between_five_minutes_and_a_day() {
        for (said, used) in
            [(None, 300), (Some(0), 300), (Some(600), 600), (Some(86_400), 86_400), (Some(u64::MAX), 86_400)]
        {
            assert_eq!(fresh_for(said.map(Duration::from_secs)).as_secs(), used, "{said:?}");
        }
    }

    #[test]
    fn backs_off_after_failures_up_to_a_minute() {
        let pauses: Vec<u64> = (1..=9).map(|failures| retry_delay(failures).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(retry_delay(u32::MAX), MAX_RETRY_DELAY);
    }
}
