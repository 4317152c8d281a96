//! One connection to Redis or Valkey for all data shared by replicas: quotas, thread owners, run logs.
//!
//! ```text
//!   Connecting ──connected──▶ Connected ◀────────────────────────┐
//!      │                          │ an error, or no response     │ reconnected, and a probe was
//!      │                          ▼ in time for a while          │ answered in time
//!      └────────failed───────▶ Unavailable ──────────────────────┘
//! ```
//! Only [`RedisClient::keep_connected`] connects. Queries wait for the first attempt until their deadline; while Redis
//! is unavailable they fail immediately, so that an outage does not delay each of them.

use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, Client, RedisResult, Script};
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_rustls::rustls::crypto;

/// Timeout for TCP, TLS and login together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Minimum time between the starts of two connection attempts.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(500);

/// Interval of probes, which detect an outage before a query does and keep idle connections open.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// A connection on which every query times out for this long counts as lost.
const SILENCE_LIMIT: Duration = Duration::from_millis(100);

/// Writes, as queries do, since a Redis that is full, is read-only or denies scripts would still answer a PING.
const PROBE_SCRIPT: &str = "return redis.call('SET', KEYS[1], '1', 'PX', 1000)";

#[derive(Clone)]
pub(crate) struct RedisSettings {
    /// the URL without the password
    pub(crate) display_url: String,
    /// prefix of all keys
    pub(crate) prefix: String,
    /// timeout of each query
    pub(crate) deadline: Duration,
}

pub(crate) struct RedisClient {
    client: Client,
    pub(crate) settings: RedisSettings,
    state: watch::Sender<LinkState>,
    created_at: Instant,
    /// start of the period in which every query has timed out, in µs after `created_at`; 0 after a timely response
    silent_since: AtomicU64,
}

#[derive(Clone)]
enum LinkState {
    Connecting,
    Connected(RedisConnection),
    Unavailable { cause: String },
}

/// A state change to report to operators. A lasting failure is reported once.
pub(crate) enum RedisLinkChange {
    Connected,
    Lost { cause: String },
}

/// A numbered connection, so that late failures are not attributed to its successor.
#[derive(Clone)]
struct RedisConnection {
    number: u64,
    inner: MultiplexedConnection,
}

/// No usable response arrived in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RedisQueryFailed;

impl RedisClient {
    /// Creates an unconnected client; [`RedisClient::keep_connected`] connects it.
    pub(crate) fn new(url: &str, settings: RedisSettings) -> RedisResult<RedisClient> {
        let client = Client::open(url)?;
        // The crate uses the process's default provider, and panics without one. An error means that one is already
        // installed.
        let _ = crypto::ring::default_provider().install_default();
        Ok(RedisClient::with_client(client, settings))
    }

    /// Creates a client with its own connection to the same Redis, so that large responses do not delay small ones. It
    /// needs its own call to [`RedisClient::keep_connected`].
    pub(crate) fn with_own_connection(&self, deadline: Duration) -> RedisClient {
        RedisClient::with_client(self.client.clone(), RedisSettings { deadline, ..self.settings.clone() })
    }

    fn with_client(client: Client, settings: RedisSettings) -> RedisClient {
        RedisClient {
            client,
            settings,
            state: watch::Sender::new(LinkState::Connecting),
            created_at: Instant::now(),
            silent_since: AtomicU64::new(0),
        }
    }

    pub(crate) async fn wait_until_connected(&self) {
        // Fails only if the sender has been dropped, but `self` holds it.
        let _ = self.state.subscribe().wait_for(|link| matches!(link, LinkState::Connected(_))).await;
    }

    /// Returns whether Redis is connected, and a line for the status page.
    pub(crate) fn status_report(&self) -> (bool, String) {
        let (good, state) = match *self.state.borrow() {
            LinkState::Connected(_) => (true, "ok"),
            LinkState::Connecting => (false, "not connected yet"),
            LinkState::Unavailable { .. } => (false, "does not answer; see `redis.on_error`"),
        };
        (good, format!("redis {} {state}", self.settings.display_url))
    }

    pub(crate) async fn subscribe(&self, channel: &str) -> Result<PubSub, RedisQueryFailed> {
        let subscribe = async {
            let mut connection = self.client.get_async_pubsub().await?;
            connection.subscribe(channel).await?;
            RedisResult::Ok(connection)
        };
        timeout(CONNECT_TIMEOUT, subscribe).await.ok().and_then(Result::ok).ok_or(RedisQueryFailed)
    }

    /// Runs a command and waits for its response until the deadline.
    pub(crate) async fn query<T, F>(
        &self,
        command: impl FnOnce(MultiplexedConnection) -> F,
    ) -> Result<T, RedisQueryFailed>
    where
        F: Future<Output = RedisResult<T>>,
    {
        let end = Instant::now() + self.settings.deadline;
        let connection = self.connection(end).await.ok_or(RedisQueryFailed)?;
        match timeout_at(end, command(connection.inner)).await {
            Ok(Ok(response)) => {
                self.silent_since.store(0, Ordering::Relaxed);
                Ok(response)
            }
            Ok(Err(error)) => Err(self.mark_unavailable(connection.number, error)),
            Err(_) => Err(self.record_timeout(connection.number)),
        }
    }

    /// Records a timeout. The connection counts as lost only if all queries time out, not just one.
    fn record_timeout(&self, number: u64) -> RedisQueryFailed {
        let now = u64::try_from(self.created_at.elapsed().as_micros()).unwrap_or(u64::MAX).max(1);
        match self.silent_since.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed) {
            Err(since) if Duration::from_micros(now.saturating_sub(since)) >= SILENCE_LIMIT => {
                self.mark_unavailable(number, format!("no response within {:?}", self.settings.deadline))
            }
            _ => RedisQueryFailed,
        }
    }

    /// Returns the current connection, waiting for the first attempt if necessary.
    async fn connection(&self, end: Instant) -> Option<RedisConnection> {
        let mut state = self.state.subscribe();
        let attempted = timeout_at(end, state.wait_for(|state| !matches!(state, LinkState::Connecting))).await;
        match &*attempted.ok()?.ok()? {
            LinkState::Connected(connection) => Some(connection.clone()),
            LinkState::Connecting | LinkState::Unavailable { .. } => None,
        }
    }

    /// Marks connection `number` as lost, unless a newer one has replaced it.
    fn mark_unavailable(&self, number: u64, cause: impl fmt::Display) -> RedisQueryFailed {
        self.state.send_if_modified(|state| {
            let is_current = matches!(state, LinkState::Connected(connection) if connection.number == number);
            if is_current {
                *state = LinkState::Unavailable { cause: cause.to_string() };
            }
            is_current
        });
        RedisQueryFailed
    }

    /// Connects, and reconnects after each loss; never returns.
    pub(crate) async fn keep_connected(&self, report: impl Fn(RedisLinkChange)) {
        let mut states = self.state.subscribe();
        for number in 0.. {
            let began = Instant::now();
            match self.connect().await {
                Ok(inner) => {
                    self.silent_since.store(0, Ordering::Relaxed);
                    self.state.send_replace(LinkState::Connected(RedisConnection { number, inner }));
                    report(RedisLinkChange::Connected);
                    tokio::select! {
                        cause = wait_for_loss(&mut states) => report(RedisLinkChange::Lost { cause }),
                        () = self.keep_probing() => {}
                    }
                }
                Err(cause) => {
                    let state = LinkState::Unavailable { cause: cause.clone() };
                    if !matches!(self.state.send_replace(state), LinkState::Unavailable { .. }) {
                        report(RedisLinkChange::Lost { cause });
                    }
                }
            }
            // If the connection lasted longer than the interval, this reconnects immediately.
            sleep_until(began + RECONNECT_INTERVAL).await;
        }
    }

    async fn connect(&self) -> Result<MultiplexedConnection, String> {
        // Queries have their own timeout, in `query`.
        let config = AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT_TIMEOUT));
        let config = config.set_response_timeout(None);
        let connection = self.client.get_multiplexed_async_connection_with_config(&config).await;
        let connection = connection.map_err(|error| error.to_string())?;
        match timeout(self.settings.deadline, self.probe(connection.clone())).await {
            Ok(Ok(())) => Ok(connection),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no response within {:?}", self.settings.deadline)),
        }
    }

    async fn keep_probing(&self) {
        loop {
            sleep(PROBE_INTERVAL).await;
            // `keep_connected` learns of a failure from the state.
            let _ = self.query(|connection| self.probe(connection)).await;
        }
    }

    async fn probe(&self, mut connection: MultiplexedConnection) -> RedisResult<()> {
        let key = format!("{}probe", self.settings.prefix);
        Script::new(PROBE_SCRIPT).key(key).invoke_async(&mut connection).await
    }
}

/// Waits until the connection is lost and returns the cause.
async fn wait_for_loss(states: &mut watch::Receiver<LinkState>) -> String {
    loop {
        if let LinkState::Unavailable { cause } = &*states.borrow_and_update() {
            return cause.clone();
        }
        if states.changed().await.is_err() {
            return "the client is gone".to_owned();
        }
    }
}
