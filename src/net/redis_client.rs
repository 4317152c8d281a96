//! One connection to a Redis or Valkey, for all that replicas decide together: quotas, and whose a thread is.
//!
//! ```text
//!   Unknown ──connected──▶ Up ◀──────────────────────┐
//!      │                    │ an error, or no answer  │ connected again, and a probe was answered in time
//!      │                    ▼ to anybody for a while  │
//!      └────failed───────▶ Away ──────────────────────┘
//! ```
//! [`Redis::watch`] alone connects; requests never do. Before the first attempt has ended they wait for it, no longer than
//! their deadline. While it is away they do without at once, so that a Redis that hangs does not cost each of them the
//! deadline.

use crate::config::access;
use crate::telemetry::internal_event;
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, Client, RedisResult, Script};
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_rustls::rustls::crypto;

/// For connecting: TCP, TLS and the log-in.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// From the beginning of one attempt to connect to that of the next.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(500);

/// How often a connection is tried out by itself. It finds a Redis that went away before a request does, and keeps what
/// stands between here and there from closing a connection that nobody uses.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// How long nobody may get an answer in time before that is taken for more than a stray delay.
const SILENCE_LIMIT: Duration = Duration::from_millis(100);

/// What the users of the connection do, in one line: a script that writes. A PING would be answered by a Redis that is
/// full, is a replica, or gives this user no right to scripts.
const PROBE_SCRIPT: &str = "return redis.call('SET', KEYS[1], '1', 'PX', 1000)";

/// A Redis that answers most of the time.
pub(crate) struct RedisClient {
    client: Client,
    display_url: String,
    prefix: String,
    deadline: Duration,
    state: watch::Sender<LinkState>,
    created_at: Instant,
    /// since when nobody got an answer in time, in µs from `born`; 0 while everybody does
    silent_since: AtomicU64,
}

/// What is known of the connection.
#[derive(Clone)]
enum LinkState {
    Connecting,
    Connected(RedisConnection),
    Unavailable,
}

/// A connection, and which one it is: its failure says nothing about the one that came after it.
#[derive(Clone)]
struct RedisConnection {
    number: u64,
    inner: MultiplexedConnection,
}

/// There was no answer in time, or none that is of use. When it lasts, that has been logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RedisQueryFailed;

impl RedisClient {
    /// As configured. Nothing is connected to yet; see [`Redis::watch`].
    ///
    /// # Errors
    /// When the URL is none of a Redis.
    pub(crate) fn new(config: &access::RedisConfig) -> Result<RedisClient, String> {
        let shown = config.display_url.clone();
        let client = Client::open(config.url.expose());
        let client = client.map_err(|error| format!("redis.url: {shown} cannot be used: {error}"))?;
        // The crate takes what the process has, and panics where that is open. An error says that it has one already.
        let _ = crypto::ring::default_provider().install_default();
        let (prefix, deadline) = (config.prefix.clone(), config.deadline);
        let link = watch::Sender::new(LinkState::Connecting);
        Ok(RedisClient {
            client,
            display_url: shown,
            prefix,
            deadline,
            state: link,
            created_at: Instant::now(),
            silent_since: AtomicU64::new(0),
        })
    }

    /// The same Redis over a connection of its own, so that large answers are not in the way of short ones, with another
    /// deadline. It has to be watched as well.
    #[must_use]
    pub(crate) fn with_own_connection(&self, deadline: Duration) -> RedisClient {
        let (client, shown, prefix) = (self.client.clone(), self.display_url.clone(), self.prefix.clone());
        let link = watch::Sender::new(LinkState::Connecting);
        RedisClient {
            client,
            display_url: shown,
            prefix,
            deadline,
            state: link,
            created_at: Instant::now(),
            silent_since: AtomicU64::new(0),
        }
    }

    /// Waits until there is a connection.
    pub(crate) async fn wait_until_connected(&self) {
        // It fails where nobody is left who could connect, and `self` can.
        let _ = self.state.subscribe().wait_for(|link| matches!(link, LinkState::Connected(_))).await;
    }

    /// Whether it answers, and the same in words.
    #[must_use]
    pub(crate) fn status_report(&self) -> (bool, String) {
        let (good, state) = match *self.state.borrow() {
            LinkState::Connected(_) => (true, "ok"),
            LinkState::Connecting => (false, "not connected yet"),
            LinkState::Unavailable => (false, "does not answer; see `redis.on_error`"),
        };
        (good, format!("redis {} {state}", self.display_url))
    }

    /// How long an answer may take.
    #[must_use]
    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// A connection of its own that hears what is published in a channel.
    ///
    /// # Errors
    /// [`Away`] when there is none in time.
    pub(crate) async fn subscribe(&self, channel: &str) -> Result<PubSub, RedisQueryFailed> {
        let listen = async {
            let mut heard = self.client.get_async_pubsub().await?;
            heard.subscribe(channel).await?;
            RedisResult::Ok(heard)
        };
        timeout(CONNECT_TIMEOUT, listen).await.ok().and_then(Result::ok).ok_or(RedisQueryFailed)
    }

    /// What the names of our keys begin with.
    #[must_use]
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Asks something, and waits for the answer no longer than the deadline.
    ///
    /// # Errors
    /// [`Away`] when there is no answer.
    pub(crate) async fn query<T, F>(
        &self,
        command: impl FnOnce(MultiplexedConnection) -> F,
    ) -> Result<T, RedisQueryFailed>
    where
        F: Future<Output = RedisResult<T>>,
    {
        let end = Instant::now() + self.deadline;
        let connection = self.connection(end).await.ok_or(RedisQueryFailed)?;
        match timeout_at(end, command(connection.inner)).await {
            Ok(Ok(answer)) => {
                self.silent_since.store(0, Ordering::Relaxed);
                Ok(answer)
            }
            Ok(Err(error)) => Err(self.mark_unavailable(connection.number, error)),
            Err(_) => Err(self.record_timeout(connection.number)),
        }
    }

    /// An answer did not come in time. One that is late says little; when all are, the connection is lost.
    fn record_timeout(&self, number: u64) -> RedisQueryFailed {
        let now = u64::try_from(self.created_at.elapsed().as_micros()).unwrap_or(u64::MAX).max(1);
        match self.silent_since.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed) {
            Err(since) if Duration::from_micros(now.saturating_sub(since)) >= SILENCE_LIMIT => {
                self.mark_unavailable(number, format!("no answer within {:?}", self.deadline))
            }
            _ => RedisQueryFailed,
        }
    }

    /// The connection, if there is one now; before the first attempt has ended, the one that comes of it.
    async fn connection(&self, end: Instant) -> Option<RedisConnection> {
        let now = |link: &LinkState| match link {
            LinkState::Connected(connection) => Some(connection.clone()),
            LinkState::Connecting | LinkState::Unavailable => None,
        };
        let unknown = matches!(*self.state.borrow(), LinkState::Connecting);
        if !unknown {
            return now(&self.state.borrow());
        }
        let mut link = self.state.subscribe();
        let known = timeout_at(end, link.wait_for(|link| !matches!(link, LinkState::Connecting))).await;
        known.ok()?.ok().and_then(|link| now(&link))
    }

    /// Does without the connection of that number from now on. Says so once.
    fn mark_unavailable(&self, number: u64, cause: impl fmt::Display) -> RedisQueryFailed {
        let away = self.state.send_if_modified(|link| {
            let mine = matches!(link, LinkState::Connected(connection) if connection.number == number);
            if mine {
                *link = LinkState::Unavailable;
            }
            mine
        });
        if away {
            internal_event::RedisConnectionLost { redis: &self.display_url, cause: cause.to_string() }.emit();
        }
        RedisQueryFailed
    }

    /// Connects, and again whenever the connection is lost: never returns.
    pub(crate) async fn keep_connected(&self) {
        let mut links = self.state.subscribe();
        for number in 0.. {
            let began = Instant::now();
            match self.connect().await {
                Ok(inner) => {
                    self.silent_since.store(0, Ordering::Relaxed);
                    self.state.send_replace(LinkState::Connected(RedisConnection { number, inner }));
                    internal_event::RedisConnected { redis: &self.display_url }.emit();
                    tokio::select! {
                        _ = links.wait_for(|link| matches!(link, LinkState::Unavailable)) => {}
                        () = self.keep_probing() => {}
                    }
                }
                Err(cause) => {
                    if !matches!(self.state.send_replace(LinkState::Unavailable), LinkState::Unavailable) {
                        internal_event::RedisConnectionLost { redis: &self.display_url, cause }.emit();
                    }
                }
            }
            // A connection that lasted for a while is made again at once.
            sleep_until(began + RECONNECT_INTERVAL).await;
        }
    }

    async fn connect(&self) -> Result<MultiplexedConnection, String> {
        // How long an answer may take is decided where it is waited for.
        let config = AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT_TIMEOUT));
        let config = config.set_response_timeout(None);
        let connection = self.client.get_multiplexed_async_connection_with_config(&config).await;
        let connection = connection.map_err(|error| error.to_string())?;
        match timeout(self.deadline, self.probe(connection.clone())).await {
            Ok(Ok(())) => Ok(connection),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no answer within {:?}", self.deadline)),
        }
    }

    async fn keep_probing(&self) {
        loop {
            sleep(PROBE_INTERVAL).await;
            // Who waits beside this sees what came of it.
            let _ = self.query(|connection| self.probe(connection)).await;
        }
    }

    async fn probe(&self, mut connection: MultiplexedConnection) -> RedisResult<()> {
        let key = format!("{}probe", self.prefix);
        Script::new(PROBE_SCRIPT).key(key).invoke_async(&mut connection).await
    }
}

impl fmt::Debug for RedisClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("url", &self.display_url).finish_non_exhaustive()
    }
}
