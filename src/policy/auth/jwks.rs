//! Loads issuers' keys and keeps them up to date.
//!
//! ```text
//!              ┌────────── wait: max-age, 5 min … 24 h; after a failure 1, 2, 4 … 60 s ◀───────┐
//!              ▼                                                                              │
//!   asleep ────┴── a request names an unknown key (once per 30 s) ──▶ fetching ──▶ keys, or those from before
//! ```
//! A token without a key id whose signature matches no key counts as an unknown key, since keys may have been replaced.
//!
//! Each issuer has one fetching task, which all waiting requests share.

use super::document::{DocumentFetcher, DocumentUrl, DocumentUrlError, FetchError};
use super::jwt::{UnverifiedToken, VerifiedCaller};
use super::key_set::{KeySet, KeySetError};
use crate::config::access::{Algorithm, IssuerConfig as Settings, IssuerKeysConfig};
use crate::config::source::KeyMismatch;
use crate::net::digest::Sha256Digest;
use crate::net::file_watcher::{WatchError, Watched};
use crate::policy::identity::Identity;
use crate::policy::policy_error::PolicyError;
use crate::telemetry::label::{AuthReason, JwksRefresh};
use crate::telemetry::metric::IssuerMetrics;
use crate::telemetry::{Metrics, internal_event};
use arc_swap::ArcSwapOption;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};

/// Bounds on the time between fetches. Without `max-age`, the lower bound applies, so that revoked keys are dropped
/// soon.
const FRESHNESS: std::ops::RangeInclusive<Duration> = Duration::from_secs(5 * 60)..=Duration::from_secs(24 * 60 * 60);

/// Shortest time between fetches caused by unknown keys.
const REFETCH_INTERVAL: Duration = Duration::from_secs(30);

const FIRST_RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);

/// Longest time that a request waits for a fetch.
const FETCH_WAIT: Duration = Duration::from_millis(1200);

/// Maximum number of requests that wait for a fetch. Each may hold 64 KiB of a body (HTTP/2), and a sidecar has 256
/// MiB.
const MAX_WAITING: usize = 256;

pub(super) struct TokenIssuer {
    pub(crate) name: Arc<str>,
    pub(crate) settings: Settings,
    source: IssuerKeySource,
}

enum IssuerKeySource {
    Fixed(Arc<KeySet>),
    File(Watched<Arc<KeySet>>),
    Remote(Box<RemoteJwks>),
}

struct RemoteJwks {
    settings: Settings,
    fetcher: DocumentFetcher,
    keys: ArcSwapOption<KeySet>,
    state: watch::Sender<FetchState>,
    /// wakes the fetching task early
    wake: Notify,
    metrics: IssuerMetrics,
}

#[derive(Debug, thiserror::Error)]
enum JwksFetchError {
    #[error(transparent)]
    Url(#[from] DocumentUrlError),
    #[error("JWKS: {0}")]
    Jwks(FetchError),
    #[error("JWKS: the document {0}")]
    KeySet(#[from] KeySetError),
    #[error("discovery: {0}")]
    Discovery(FetchError),
    #[error("discovery: not JSON")]
    NotJson,
    #[error("discovery: the document is about another issuer")]
    OtherIssuer,
    #[error("discovery: no `jwks_uri`")]
    NoJwksUri,
    #[error("discovery: `jwks_uri` {0}")]
    JwksUri(DocumentUrlError),
    #[error("discovery: `jwks_uri` leads to this machine")]
    LocalJwksUri,
}

/// The states in the diagram above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FetchPhase {
    Asleep { until: Instant },
    Fetching,
}

#[derive(Clone, Debug)]
struct FetchState {
    phase: FetchPhase,
    completed: u64,
    /// earliest time at which an unknown key causes a fetch
    refetch_after: Instant,
    failure: Option<String>,
}

impl FetchState {
    /// Requests a fetch for an unknown key; returns whether the caller must start one.
    fn request_fetch(&mut self, now: Instant) -> bool {
        let due = self.phase != FetchPhase::Fetching && now >= self.refetch_after;
        if due {
            self.phase = FetchPhase::Fetching;
            self.refetch_after = now + REFETCH_INTERVAL;
        }
        due
    }
}

fn fresh_for(max_age: Option<Duration>) -> Duration {
    max_age.unwrap_or(*FRESHNESS.start()).clamp(*FRESHNESS.start(), *FRESHNESS.end())
}

/// Returns the delay before the next attempt. `failures` counts consecutive failures and is not zero.
fn retry_delay(failures: u32) -> Duration {
    FIRST_RETRY_DELAY.saturating_mul(1 << (failures - 1).min(6)).min(MAX_RETRY_DELAY)
}

/// Returns the keys if one of them verifies the token.
fn check_signature(keys: Option<&Arc<KeySet>>, token: &UnverifiedToken<'_>) -> Result<Arc<KeySet>, AuthReason> {
    let keys = keys.ok_or(AuthReason::KeysUnavailable)?;
    keys.verify(token).map(|()| Arc::clone(keys))
}

pub(super) struct IssuerHealth {
    pub(crate) keys: usize,
    pub(crate) failure: Option<String>,
}

impl TokenIssuer {
    /// Reads key files but fetches nothing.
    pub(crate) fn new(
        settings: &Settings,
        fetcher: &DocumentFetcher,
        metrics: &Metrics,
    ) -> Result<TokenIssuer, PolicyError> {
        let name: Arc<str> = settings.name.as_str().into();
        let metrics = metrics.issuer(&name);
        if let Some(file) = KeyFile::from_settings(&settings.keys) {
            let source = watch_key_file(file, settings, metrics)
                .map_err(|why| format!("auth.issuers {name}: {} {why}\n  hint: {}", file.setting, file.hint))?;
            return Ok(TokenIssuer { name, settings: settings.clone(), source });
        }
        let source = match &settings.keys {
            IssuerKeysConfig::Secret(secret) => {
                let keys = KeySet::from_secret(secret.expose().as_bytes(), &settings.algorithms);
                let keys = keys.map_err(|why| format!("the secret of the issuer `{name}` {why}"))?;
                record_refresh(&metrics, Some(&keys));
                IssuerKeySource::Fixed(Arc::new(keys))
            }
            _ => IssuerKeySource::Remote(Box::new(RemoteJwks::new(settings, fetcher.clone(), metrics)?)),
        };
        Ok(TokenIssuer { name, settings: settings.clone(), source })
    }

    /// Refetches keys before they expire; never returns.
    pub(crate) async fn keep_fresh(&self) {
        match &self.source {
            IssuerKeySource::Fixed(_) => std::future::pending().await,
            IssuerKeySource::File(file) => file.watch(internal_event::report_watched_files).await,
            IssuerKeySource::Remote(remote) => remote.refresh_loop().await,
        }
    }

    /// Returns the verdict on a token that the present keys have verified before: its caller, or that it is not valid
    /// now. `None` if it is unknown.
    pub(crate) fn recall(&self, digest: &Sha256Digest, now: SystemTime) -> Option<Result<Arc<Identity>, AuthReason>> {
        let VerifiedCaller { identity, times, .. } = self.keys()?.callers.find(digest)?;
        Some(times.check(self.settings.leeway, now).map(|()| identity))
    }

    /// Verifies a token, whose text has this digest.
    pub(crate) async fn verify(
        &self,
        token: UnverifiedToken<'_>,
        digest: Sha256Digest,
        now: SystemTime,
    ) -> Result<Arc<Identity>, AuthReason> {
        token.check_header(&self.settings)?;
        let keys = self.keys();
        let mut checked = check_signature(keys.as_ref(), &token);
        if let IssuerKeySource::Remote(remote) = &self.source
            && checked.is_err()
            && !keys.as_ref().is_some_and(|keys| keys.has_named_key(&token))
        {
            remote.await_refresh().await;
            let refreshed = self.keys();
            // With the same keys, a forged token would cost twice as much.
            if keys.as_ref().map(Arc::as_ptr) != refreshed.as_ref().map(Arc::as_ptr) {
                checked = check_signature(refreshed.as_ref(), &token);
            }
        }
        let keys = checked?;
        let caller = token.into_caller(&self.settings, &self.name, now)?;
        let identity = Arc::clone(&caller.identity);
        keys.callers.insert(digest, caller);
        Ok(identity)
    }

    fn keys(&self) -> Option<Arc<KeySet>> {
        match &self.source {
            IssuerKeySource::Fixed(keys) => Some(Arc::clone(keys)),
            IssuerKeySource::File(file) => Some(Arc::clone(&file.get())),
            IssuerKeySource::Remote(remote) => remote.keys.load_full(),
        }
    }

    pub(crate) fn health(&self) -> IssuerHealth {
        let failure = match &self.source {
            IssuerKeySource::Remote(remote) => remote.state.borrow().failure.clone(),
            IssuerKeySource::Fixed(_) | IssuerKeySource::File(_) => None,
        };
        IssuerHealth { keys: self.keys().map_or(0, |keys| keys.len()), failure }
    }

    /// Returns the `Retry-After` value in seconds while keys are missing.
    pub(crate) fn retry_after(&self) -> u64 {
        let IssuerKeySource::Remote(remote) = &self.source else { return 1 };
        let FetchPhase::Asleep { until } = remote.state.borrow().phase else { return 1 };
        until.saturating_duration_since(Instant::now()).as_secs() + 1
    }
}

const JWKS_HINT: &str = "put a JWKS there, `{\"keys\": [...]}`, with a public key for one of the issuer's `algorithms`; PEM \
                         goes into `public_key_file`";

const PEM_HINT: &str = "put public keys or certificates in PEM there, each for one of the issuer's `algorithms`; a JWKS goes \
                        into `jwks_file`";

const SECRET_HINT: &str = "put a longer secret there, such as one of `openssl rand -base64 48`";

#[derive(Clone, Copy)]
struct KeyFile<'c> {
    setting: &'static str,
    path: &'c Path,
    read: fn(&[u8], &[Algorithm]) -> Result<KeySet, KeySetError>,
    hint: &'static str,
}

impl<'c> KeyFile<'c> {
    fn from_settings(keys: &'c IssuerKeysConfig) -> Option<KeyFile<'c>> {
        Some(match keys {
            IssuerKeysConfig::JwksFile(path) => {
                KeyFile { setting: "jwks_file", path, read: KeySet::from_jwks, hint: JWKS_HINT }
            }
            IssuerKeysConfig::PemFile(path) => {
                KeyFile { setting: "public_key_file", path, read: KeySet::from_pem, hint: PEM_HINT }
            }
            // Trailing white space is ignored, because editors and `echo` write a line ending.
            IssuerKeysConfig::SecretFile(path) => KeyFile {
                setting: "secret_file",
                path,
                read: |content, allowed| KeySet::from_secret(content.trim_ascii_end(), allowed),
                hint: SECRET_HINT,
            },
            IssuerKeysConfig::Discovery | IssuerKeysConfig::Url(_) | IssuerKeysConfig::Secret(_) => return None,
        })
    }
}

/// Checks a public key file for `diglot check`.
pub(crate) fn check_key_file(
    keys: &IssuerKeysConfig,
    content: &[u8],
    allowed: &[Algorithm],
) -> Result<(), KeyMismatch> {
    match KeyFile::from_settings(keys) {
        Some(KeyFile { read, hint, .. }) if !matches!(keys, IssuerKeysConfig::SecretFile(_)) => {
            read(content, allowed).map(drop).map_err(|error| KeyMismatch { reason: error.to_string(), hint })
        }
        _ => Ok(()),
    }
}

fn watch_key_file(
    file: KeyFile<'_>,
    settings: &Settings,
    metrics: IssuerMetrics,
) -> Result<IssuerKeySource, WatchError> {
    let name = settings.name.clone();
    let algorithms = settings.algorithms.clone();
    let read = file.read;
    let parse = move |content: &[u8]| {
        let parsed = read(content, &algorithms);
        record_refresh(&metrics, parsed.as_ref().ok());
        if let Some(ignored) = parsed.as_ref().ok().and_then(|keys| keys.ignored.as_deref()) {
            internal_event::IssuerKeysIgnored { issuer: &name, ignored }.emit();
        }
        parsed.map(Arc::new)
    };
    Watched::open(file.path, parse).map(IssuerKeySource::File)
}

/// Counts a fetch; `None` means that it failed.
fn record_refresh(metrics: &IssuerMetrics, keys: Option<&KeySet>) {
    let Some(keys) = keys else { return metrics.refreshes.get(JwksRefresh::Failed).inc() };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    metrics.keys.set_count(keys.len());
    metrics.last_success.set(i64::try_from(now).unwrap_or(i64::MAX));
    metrics.refreshes.get(JwksRefresh::Fetched).inc();
}

impl RemoteJwks {
    fn new(settings: &Settings, fetcher: DocumentFetcher, metrics: IssuerMetrics) -> Result<RemoteJwks, PolicyError> {
        let url = match &settings.keys {
            IssuerKeysConfig::Url(url) => url,
            _ => &settings.issuer,
        };
        DocumentUrl::parse(url).map_err(|why| format!("the URL of the issuer `{}` {why}", settings.name))?;
        let now = Instant::now();
        // The first fetch counts as started, so that requests wait for it.
        let state = FetchState { phase: FetchPhase::Fetching, completed: 0, refetch_after: now, failure: None };
        Ok(RemoteJwks {
            settings: settings.clone(),
            fetcher,
            keys: ArcSwapOption::empty(),
            state: watch::Sender::new(state),
            wake: Notify::new(),
            metrics,
        })
    }

    async fn refresh_loop(&self) {
        let mut failures = 0;
        let mut ignored = None;
        loop {
            self.state.send_modify(|state| state.phase = FetchPhase::Fetching);
            let (wait, failure) = match self.fetch().await {
                Ok((keys, fresh)) => {
                    self.store_keys(keys, failures, &mut ignored);
                    failures = 0;
                    (fresh, None)
                }
                Err(error) => {
                    let cause = error.to_string();
                    record_refresh(&self.metrics, None);
                    let stale = self.keys.load().is_some();
                    if failures == 0 {
                        internal_event::IssuerKeysFetchFailed { issuer: &self.settings.name, cause: &cause, stale }
                            .emit();
                    }
                    failures += 1;
                    (retry_delay(failures), Some(cause))
                }
            };
            let next = Instant::now() + wait;
            self.state.send_modify(|state| {
                *state = FetchState {
                    phase: FetchPhase::Asleep { until: next },
                    completed: state.completed + 1,
                    refetch_after: state.refetch_after,
                    failure,
                };
            });
            tokio::select! {
                () = sleep_until(next) => {}
                () = self.wake.notified() => {}
            }
        }
    }

    /// Replaces all keys; tokens signed with a removed key are refused from now on.
    fn store_keys(&self, keys: KeySet, failures: u32, ignored: &mut Option<String>) {
        if failures > 0 || self.keys.load().is_none() {
            internal_event::IssuerKeysFetched { issuer: &self.settings.name, keys: keys.len() }.emit();
        }
        // Logged only once, not every five minutes.
        if let Some(now) = keys.ignored.as_deref().filter(|_| *ignored != keys.ignored) {
            internal_event::IssuerKeysIgnored { issuer: &self.settings.name, ignored: now }.emit();
        }
        ignored.clone_from(&keys.ignored);
        record_refresh(&self.metrics, Some(&keys));
        self.keys.store(Some(Arc::new(keys)));
    }

    /// Fetches the keys; also returns the time until the next fetch.
    async fn fetch(&self) -> Result<(KeySet, Duration), JwksFetchError> {
        let url = match &self.settings.keys {
            IssuerKeysConfig::Url(url) => DocumentUrl::parse(url)?,
            _ => self.discover_jwks_url().await?,
        };
        let document = self.fetcher.get(&url).await.map_err(JwksFetchError::Jwks)?;
        Ok((KeySet::from_jwks(&document.body, &self.settings.algorithms)?, fresh_for(document.max_age)))
    }

    async fn discover_jwks_url(&self) -> Result<DocumentUrl, JwksFetchError> {
        let issuer = &self.settings.issuer;
        // OpenID Connect Discovery 1.0, section 4.1: "any terminating / MUST be removed before appending".
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let url = DocumentUrl::parse(&url)?;
        let document = self.fetcher.get(&url).await.map_err(JwksFetchError::Discovery)?;
        let document: Value = serde_json::from_slice(&document.body).map_err(|_| JwksFetchError::NotJson)?;
        // Section 4.3: "The issuer value returned MUST be identical to the Issuer URL that was used as the prefix".
        if document.get("issuer").and_then(Value::as_str) != Some(issuer) {
            return Err(JwksFetchError::OtherIssuer);
        }
        let keys = document.get("jwks_uri").and_then(Value::as_str).ok_or(JwksFetchError::NoJwksUri)?;
        let keys = DocumentUrl::parse(keys).map_err(JwksFetchError::JwksUri)?;
        // A remote issuer must not make the gateway send requests to services on this machine.
        if keys.is_loopback && !url.is_loopback {
            return Err(JwksFetchError::LocalJwksUri);
        }
        Ok(keys)
    }

    /// Waits for the current fetch, or starts one unless the last was too recent.
    async fn await_refresh(&self) {
        let ended = self.state.borrow().completed;
        let some = self.keys.load().is_some();
        if some && self.state.send_if_modified(|state| state.request_fetch(Instant::now())) {
            self.wake.notify_one();
        }
        await_fetch(&self.state, ended).await;
    }
}

/// Waits for a fetch in progress to be completed after `ended` others. After a timeout, or if too many wait, the caller
/// simply does not find the key.
async fn await_fetch(state: &watch::Sender<FetchState>, ended: u64) {
    if state.receiver_count() >= MAX_WAITING {
        return;
    }
    let mut state = state.subscribe();
    if state.borrow_and_update().phase == FetchPhase::Fetching {
        let _ = timeout(FETCH_WAIT, state.wait_for(|state| state.completed > ended)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn refetches_for_unknown_keys_once_per_cool_down() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let asleep = FetchPhase::Asleep { until: began };
        let mut state = FetchState { phase: FetchPhase::Fetching, completed: 0, refetch_after: began, failure: None };
        assert!(!state.request_fetch(at(0)), "one fetch at once");
        state.phase = asleep;
        // No unknown key caused the first fetch, so the first unknown key may be a new one.
        assert!(state.request_fetch(at(1)) && state.phase == FetchPhase::Fetching);
        state.phase = asleep;
        assert!(!state.request_fetch(at(2)) && !state.request_fetch(at(30)) && state.phase == asleep);
        assert!(state.request_fetch(at(31)));
    }

    #[tokio::test]
    async fn limits_the_requests_that_wait() {
        let phase = FetchPhase::Fetching;
        let state = FetchState { phase, completed: 0, refetch_after: Instant::now(), failure: None };
        let state = watch::Sender::new(state);
        let mut waiting: Vec<_> = (0..MAX_WAITING).map(|_| Box::pin(await_fetch(&state, 0))).collect();
        for request in &mut waiting {
            assert!(request.now_or_never().is_none(), "it waits");
        }
        assert!(await_fetch(&state, 0).now_or_never().is_some(), "one more does not");
        drop(waiting);
        assert!(await_fetch(&state, 0).now_or_never().is_none());
    }

    #[test]
    fn clamps_key_lifetime_between_five_minutes_and_a_day() {
        for (sent, used) in
            [(None, 300), (Some(0), 300), (Some(600), 600), (Some(86_400), 86_400), (Some(u64::MAX), 86_400)]
        {
            assert_eq!(fresh_for(sent.map(Duration::from_secs)).as_secs(), used, "{sent:?}");
        }
    }

    #[test]
    fn backs_off_after_failures_up_to_a_minute() {
        let pauses: Vec<u64> = (1..=9).map(|failures| retry_delay(failures).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(retry_delay(u32::MAX), MAX_RETRY_DELAY);
    }
}
