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

use super::fetch::{Fetcher, Url};
use super::jwt::Token;
use super::key::KeySet;
use crate::config::access::{Algorithm, Issuer as Settings, Keys};
use crate::config::load::Unfit;
use crate::guard::file::Watched;
use crate::guard::identity::Identity;
use crate::telemetry::label::AuthReason;
use crate::telemetry::metric::IssuerMetrics;
use crate::telemetry::{Metrics, occurrence};
use arc_swap::ArcSwapOption;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};

/// How long keys are used before they are fetched again, whatever the issuer says. The shorter one is taken where it says
/// nothing: what an issuer revokes should not be good for long.
const FRESH: std::ops::RangeInclusive<Duration> = Duration::from_secs(5 * 60)..=Duration::from_secs(24 * 60 * 60);

/// How often an unknown key makes the keys be fetched before their time.
const COOL_DOWN: Duration = Duration::from_secs(30);

/// The first and the longest pause between attempts that fail.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How long a request waits for keys that are being fetched.
const PATIENCE: Duration = Duration::from_millis(1200);

/// One issuer, with its keys.
#[derive(Debug)]
pub(super) struct Issuer {
    /// its name in the configuration
    pub name: Arc<str>,
    /// what it is configured to be
    pub settings: Settings,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Fixed(Arc<KeySet>),
    File(Watched<Arc<KeySet>>),
    Remote(Box<Remote>),
}

/// Keys that are fetched.
#[derive(Debug)]
struct Remote {
    name: Arc<str>,
    settings: Settings,
    fetcher: Fetcher,
    keys: ArcSwapOption<KeySet>,
    state: watch::Sender<State>,
    /// ends the wait for the next fetch
    wake: Notify,
    metrics: IssuerMetrics,
}

/// How far the fetching is.
#[derive(Clone, Debug)]
struct State {
    fetching: bool,
    /// fetches that ended
    ended: u64,
    /// from when on an unknown key is a reason to fetch again
    refetch: Instant,
    /// when the next one begins by itself
    next: Instant,
    /// why the last one failed
    failure: Option<String>,
}

impl State {
    /// Asks for a fetch, since somebody named a key that is not known; whether one is to begin.
    fn ask(&mut self, now: Instant) -> bool {
        let due = !self.fetching && now >= self.refetch;
        if due {
            (self.fetching, self.refetch) = (true, now + COOL_DOWN);
        }
        due
    }
}

/// For how long keys are used that may be kept for `max_age`.
fn fresh(max_age: Option<Duration>) -> Duration {
    max_age.unwrap_or(*FRESH.start()).clamp(*FRESH.start(), *FRESH.end())
}

/// How long to wait after so many failures in a row: at least one.
fn pause(failures: u32) -> Duration {
    PAUSE.saturating_mul(1 << (failures - 1).min(6)).min(LONGEST_PAUSE)
}

/// What can be said about the keys of an issuer.
#[derive(Debug)]
pub(super) struct Health {
    pub keys: usize,
    pub failure: Option<String>,
}

impl Issuer {
    /// As configured. Files are read now; nothing is fetched.
    ///
    /// # Errors
    /// What of a file or a URL cannot be used.
    pub fn new(settings: &Settings, fetcher: &Fetcher, metrics: &Metrics) -> Result<Issuer, String> {
        let name: Arc<str> = settings.name.as_str().into();
        let metrics = metrics.issuer(&name);
        let source = match &settings.keys {
            Keys::JwksFile(path) => file(path, settings, metrics, KeySet::from_jwks)
                .map_err(|why| unusable(&name, "jwks_file", &why, JWKS_HINT))?,
            Keys::PemFile(path) => file(path, settings, metrics, KeySet::from_pem)
                .map_err(|why| unusable(&name, "public_key_file", &why, PEM_HINT))?,
            // White space at its end is not part of it: editors and `echo` write a line end.
            Keys::SecretFile(path) => {
                let read = |content: &[u8], all: &[_]| KeySet::from_secret(content.trim_ascii_end(), all);
                let hint = "put a longer secret there, such as one of `openssl rand -base64 48`";
                file(path, settings, metrics, read).map_err(|why| unusable(&name, "secret_file", &why, hint))?
            }
            Keys::Secret(secret) => {
                let keys = KeySet::from_secret(secret.expose().as_bytes(), &settings.algorithms);
                let keys = keys.map_err(|why| format!("the secret of the issuer `{name}` {why}"))?;
                count(&metrics, Some(&keys));
                Source::Fixed(Arc::new(keys))
            }
            Keys::Discovery | Keys::Url(_) => {
                Source::Remote(Box::new(Remote::new(&name, settings, fetcher.clone(), metrics)?))
            }
        };
        Ok(Issuer { name, settings: settings.clone(), source })
    }

    /// Keeps the keys fresh: never returns.
    pub async fn watch(&self) {
        match &self.source {
            Source::Fixed(_) => std::future::pending().await,
            Source::File(file) => file.watch().await,
            Source::Remote(remote) => remote.watch().await,
        }
    }

    /// Whom a token of this issuer is of.
    ///
    /// # Errors
    /// Why it is not believed.
    pub async fn verify(&self, token: Token<'_>, now: SystemTime) -> Result<Identity, AuthReason> {
        token.fits(&self.settings)?;
        match (&self.source, self.signed(&token)) {
            (Source::Remote(remote), Err(_)) if !self.keys().is_some_and(|keys| keys.names(&token)) => {
                remote.newer().await;
                self.signed(&token)?;
            }
            (_, checked) => checked?,
        }
        token.check(&self.settings, &self.name, now)
    }

    fn signed(&self, token: &Token<'_>) -> Result<(), AuthReason> {
        self.keys().ok_or(AuthReason::KeysUnavailable)?.verify(token)
    }

    fn keys(&self) -> Option<Arc<KeySet>> {
        match &self.source {
            Source::Fixed(keys) => Some(Arc::clone(keys)),
            Source::File(file) => Some(Arc::clone(&file.get())),
            Source::Remote(remote) => remote.keys.load_full(),
        }
    }

    /// How many keys there are, and what is wrong with more.
    pub fn health(&self) -> Health {
        let failure = match &self.source {
            Source::Remote(remote) => remote.state.borrow().failure.clone(),
            Source::Fixed(_) | Source::File(_) => None,
        };
        Health { keys: self.keys().map_or(0, |keys| keys.len()), failure }
    }

    /// When keys may be there, where there are none, in whole seconds.
    pub fn retry_after(&self) -> u64 {
        let Source::Remote(remote) = &self.source else { return 1 };
        let wait = remote.state.borrow().next.saturating_duration_since(Instant::now());
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
pub fn usable(keys: &Keys, content: &[u8], allowed: &[Algorithm]) -> Result<(), Unfit> {
    let (read, hint) = match keys {
        Keys::JwksFile(_) => (KeySet::from_jwks(content, allowed), JWKS_HINT),
        Keys::PemFile(_) => (KeySet::from_pem(content, allowed), PEM_HINT),
        Keys::Discovery | Keys::Url(_) | Keys::SecretFile(_) | Keys::Secret(_) => return Ok(()),
    };
    read.map(drop).map_err(|why| Unfit { why, hint })
}

/// What keeps the gateway from starting, as the other problems of a configuration are said: where, why, the way out.
fn unusable(issuer: &str, key: &str, why: &str, hint: &str) -> String {
    format!("auth.issuers {issuer}: {key} {why}\n  hint: {hint}")
}

/// Keys in a file, as `read` has them.
fn file(
    path: &Path,
    settings: &Settings,
    metrics: IssuerMetrics,
    read: fn(&[u8], &[Algorithm]) -> Result<KeySet, String>,
) -> Result<Source, String> {
    let (name, algorithms) = (settings.name.clone(), settings.algorithms.clone());
    let parse = move |content: &[u8]| {
        let brought = read(content, &algorithms);
        count(&metrics, brought.as_ref().ok());
        if let Some(ignored) = brought.as_ref().ok().and_then(|keys| keys.ignored.as_deref()) {
            occurrence::KeysIgnored { issuer: &name, ignored }.emit();
        }
        brought.map(Arc::new)
    };
    Watched::open(path, parse).map(Source::File)
}

/// Counts what an attempt to have keys brought.
fn count(metrics: &IssuerMetrics, brought: Option<&KeySet>) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    metrics.refreshed(brought.map(|keys| (keys.len(), i64::try_from(now).unwrap_or(i64::MAX))));
}

impl Remote {
    fn new(name: &Arc<str>, settings: &Settings, fetcher: Fetcher, metrics: IssuerMetrics) -> Result<Remote, String> {
        let url = match &settings.keys {
            Keys::Url(url) => url,
            _ => &settings.issuer,
        };
        Url::parse(url).map_err(|why| format!("the URL of the issuer `{name}` {why}"))?;
        let now = Instant::now();
        // The first fetch is as good as begun: whoever comes before it waits for it.
        let state = State { fetching: true, ended: 0, refetch: now, next: now, failure: None };
        Ok(Remote {
            name: Arc::clone(name),
            settings: settings.clone(),
            fetcher,
            keys: ArcSwapOption::empty(),
            state: watch::Sender::new(state),
            wake: Notify::new(),
            metrics,
        })
    }

    async fn watch(&self) {
        let (mut failures, mut ignored) = (0, None);
        loop {
            self.state.send_modify(|state| state.fetching = true);
            let brought = self.fetch().await;
            let (wait, failure) = match brought {
                Ok((keys, fresh)) => {
                    self.brought(keys, failures, &mut ignored);
                    failures = 0;
                    (fresh, None)
                }
                Err(cause) => {
                    count(&self.metrics, None);
                    let stale = self.keys.load().is_some();
                    if failures == 0 {
                        occurrence::KeysUnavailable { issuer: &self.name, cause: &cause, stale }.emit();
                    }
                    failures += 1;
                    (pause(failures), Some(cause))
                }
            };
            let next = Instant::now() + wait;
            self.state.send_modify(|state| {
                *state = State { fetching: false, ended: state.ended + 1, refetch: state.refetch, next, failure };
            });
            tokio::select! {
                () = sleep_until(next) => {}
                () = self.wake.notified() => {}
            }
        }
    }

    /// Takes keys that came, in place of all from before: one that is no longer among them is refused from now on.
    fn brought(&self, keys: KeySet, failures: u32, ignored: &mut Option<String>) {
        if failures > 0 || self.keys.load().is_none() {
            occurrence::KeysFetched { issuer: &self.name, keys: keys.len() }.emit();
        }
        // Said once, not every five minutes.
        if let Some(now) = keys.ignored.as_deref().filter(|_| *ignored != keys.ignored) {
            occurrence::KeysIgnored { issuer: &self.name, ignored: now }.emit();
        }
        ignored.clone_from(&keys.ignored);
        count(&self.metrics, Some(&keys));
        self.keys.store(Some(Arc::new(keys)));
    }

    /// The keys that the issuer has now, and for how long to use them.
    async fn fetch(&self) -> Result<(KeySet, Duration), String> {
        let url = match &self.settings.keys {
            Keys::Url(url) => Url::parse(url)?,
            _ => self.discover().await?,
        };
        let document = self.fetcher.get(&url).await.map_err(|why| format!("JWKS: {why}"))?;
        let keys = KeySet::from_jwks(&document.body, &self.settings.algorithms);
        Ok((keys.map_err(|why| format!("JWKS: the document {why}"))?, fresh(document.max_age)))
    }

    /// Where the issuer says that its keys are.
    async fn discover(&self) -> Result<Url, String> {
        let issuer = &self.settings.issuer;
        // OpenID Connect Discovery 1.0, section 4.1: "any terminating / MUST be removed before appending".
        let url = Url::parse(&format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/')))?;
        let document = self.fetcher.get(&url).await.map_err(|why| format!("discovery: {why}"))?;
        let document: Value = serde_json::from_slice(&document.body).map_err(|_| "discovery: no JSON")?;
        // Section 4.3: "The issuer value returned MUST be identical to the Issuer URL that was used as the prefix".
        if document.get("issuer").and_then(Value::as_str) != Some(issuer) {
            return Err("discovery: the document is about another issuer".to_owned());
        }
        let keys = document.get("jwks_uri").and_then(Value::as_str).ok_or("discovery: no `jwks_uri`")?;
        let keys = Url::parse(keys).map_err(|why| format!("discovery: `jwks_uri` {why}"))?;
        // An issuer elsewhere has no business with what listens on this machine only.
        if keys.is_loopback() && !url.is_loopback() {
            return Err("discovery: `jwks_uri` leads to this machine".to_owned());
        }
        Ok(keys)
    }

    /// Waits for keys that are being fetched, or has them fetched if that was not done lately.
    async fn newer(&self) {
        let mut state = self.state.subscribe();
        let ended = state.borrow().ended;
        let some = self.keys.load().is_some();
        if some && self.state.send_if_modified(|state| state.ask(Instant::now())) {
            self.wake.notify_one();
        }
        if state.borrow_and_update().fetching {
            // Whether it came in time is seen by looking for the key again.
            let _ = timeout(PATIENCE, state.wait_for(|state| state.ended > ended)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_keys_are_asked_for_once_in_a_cool_down() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let mut state = State { fetching: true, ended: 0, refetch: began, next: began, failure: None };
        assert!(!state.ask(at(0)), "one fetch at once");
        state.fetching = false;
        // The fetch at the start is nobody's fault: the first unknown key may be a new one.
        assert!(state.ask(at(1)) && state.fetching);
        state.fetching = false;
        assert!(!state.ask(at(2)) && !state.ask(at(30)) && !state.fetching);
        assert!(state.ask(at(31)));
    }

    #[test]
    fn keys_are_used_for_five_minutes_to_a_day() {
        for (said, used) in
            [(None, 300), (Some(0), 300), (Some(600), 600), (Some(86_400), 86_400), (Some(u64::MAX), 86_400)]
        {
            assert_eq!(fresh(said.map(Duration::from_secs)).as_secs(), used, "{said:?}");
        }
    }

    #[test]
    fn pauses_after_failures_get_longer_up_to_a_minute() {
        let pauses: Vec<u64> = (1..=9).map(|failures| pause(failures).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(pause(u32::MAX), LONGEST_PAUSE);
    }
}
