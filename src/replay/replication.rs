//! Runs that clients find on any replica: their home copies what they say to Redis, and others follow it there.
//!
//! ```text
//!   home    Log ──▶ Broadcast ── frames, sums, the end ──▶ Redis ──▶ Follower ──▶ Log   another replica, while it has readers
//!            ▲                                               │           │
//!            ╰────────── stop, somebody listens ◀────────────┴───────────╯
//! ```
//! A run waits for nobody here: it is claimed before it begins, so that it begins once, and copied as fast as Redis takes it.
//! Redis holds, for each run, what it is (a hash), its frames (a stream, whose ids are the numbers of the frames) and a sum of
//! those that were trimmed; for each process a lease. What is published is only a nudge: who misses one looks a moment later.
//! A run whose home lost its lease is ended by whoever follows it.

mod follower;
mod publisher;
mod redis_protocol;

use self::publisher::OwnedRun;
use super::log::ReaderResource;
use super::store::{ReplayKey, RunStore, StoredRun};
use super::{Cursor, RunToken};
use crate::dialect::{PeerDialect, TextFormat};
use crate::net::redis_client::RedisClient;
use crate::telemetry::internal_event;
use crate::telemetry::metric::ReplayMetrics;
use crate::translate::RunIds;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use redis::{FromRedisValue, ScriptInvocation};
use redis_protocol::{RedisKeys, ReplicaMessage};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};

/// For what no request waits for: a copy may be late.
const ANSWER_DEADLINE: Duration = Duration::from_secs(1);

/// How often a process says that it lives, and how long that is believed.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
const LEASE_TTL: Duration = Duration::from_secs(5);

/// How long the home of a run may be without a lease before the run is taken for lost: its Redis may just have come back.
const OWNER_LOST_AFTER: Duration = Duration::from_secs(3);

/// How long a Redis that lost its data gets to hear of all runs again. Until then what it does not know may exist.
const SETTLE_TIME: Duration = Duration::from_secs(3);

/// Shortest time for which a run that goes on stays in Redis behind the last word of its home.
const MIN_RUN_TTL: Duration = Duration::from_secs(60);

/// How long who asks to read on waits for what the home has not copied yet.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(1);

/// How many runs copy at once, so that all together are not too much for the time of an answer.
const MAX_COPIES: usize = 64;

/// Before something is tried again.
const RETRY_DELAY: Duration = Duration::from_millis(250);

/// The runs of all replicas.
#[derive(Debug)]
pub(crate) struct ReplicatedRuns {
    store: Arc<RunStore>,
    redis: RedisClient,
    keys: RedisKeys,
    settings: ReplicaSettings,
    /// how long a request waits
    deadline: Duration,
    /// the runs of this process
    owned_runs: Mutex<HashMap<ReplayKey, Arc<OwnedRun>>>,
    /// who waits for news of runs of others
    followed_runs: Mutex<HashMap<ReplayKey, Arc<Notify>>>,
    /// lets so many runs copy at once: after it was away all want to
    copy_permits: Semaphore,
    /// how often Redis was found to have lost its data, and when it last was
    data_losses: watch::Sender<(u64, Option<Instant>)>,
    metrics: ReplayMetrics,
}

/// What is said about this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplicaSettings {
    /// what it is called among the replicas; another name each time that it is started
    pub(crate) process: RunToken,
    /// silence after which readers get a comment
    pub(crate) keep_alive: Duration,
    /// how long a run is kept behind its end
    pub(crate) age: Duration,
}

/// What others have to know of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunDescriptor {
    /// by which it is found
    pub(crate) run: ReplayKey,
    /// by which its thread is found
    pub(crate) thread: ReplayKey,
    /// by which the request is known again that asked for it
    pub(crate) body: ReplayKey,
    /// what its events' ids begin with
    pub(crate) token: RunToken,
    /// what its clients speak
    pub(crate) side: PeerDialect,
    /// its ids
    pub(crate) ids: RunIds,
}

/// There is no answer now: it may exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplicationUnavailable;

/// Why a run cannot be read here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunLookupError {
    /// there is no answer now: it may exist
    Unavailable,
    /// it was too large to be kept
    TooLarge,
}

impl From<ReplicationUnavailable> for RunLookupError {
    fn from(ReplicationUnavailable: ReplicationUnavailable) -> RunLookupError {
        RunLookupError::Unavailable
    }
}

/// Whose a run is that is to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimResult {
    /// of this replica
    Acquired,
    /// the same run was asked for already, of some replica
    Duplicate,
    /// another run has its key, and goes on
    Conflict,
    /// of this replica, which knows of no other: there is no answer now
    Unconfirmed,
}

/// A run that a request is about, as far as it is known here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunQuery {
    /// by which it is found
    pub(crate) run: ReplayKey,
    /// what the route's clients speak
    pub(crate) side: PeerDialect,
    /// behind which event somebody wants to read on
    pub(crate) cursor: Option<Cursor>,
}

impl ReplicatedRuns {
    /// The runs of `store` and those of the replicas that share this Redis. Nothing is connected to yet; see [`Shared::watch`].
    #[must_use]
    pub(crate) fn new(
        store: Arc<RunStore>,
        redis: &RedisClient,
        settings: ReplicaSettings,
        metrics: ReplayMetrics,
    ) -> Arc<ReplicatedRuns> {
        Arc::new(ReplicatedRuns {
            store,
            keys: RedisKeys::new(redis.prefix()),
            deadline: redis.deadline(),
            redis: redis.with_own_connection(ANSWER_DEADLINE),
            settings,
            owned_runs: Mutex::default(),
            followed_runs: Mutex::default(),
            copy_permits: Semaphore::new(MAX_COPIES),
            data_losses: watch::Sender::new((0, None)),
            metrics,
        })
    }

    /// Keeps the connection, the lease and the ear open, until the process ends: never returns.
    pub(crate) async fn keep_running(&self) {
        tokio::join!(
            self.redis.keep_connected(|change| internal_event::report_redis_link(self.redis.display_url(), change)),
            self.heartbeat_loop(),
            self.receive_messages()
        );
    }

    /// The run of a key: one of this replica, or one of another that is followed from now on. Who follows it hears of the
    /// process's end by `cut`.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(crate) async fn find(
        self: &Arc<Self>,
        wanted: RunQuery,
        cut: BoxFuture<'static, ()>,
    ) -> Result<Option<Arc<StoredRun>>, RunLookupError> {
        let kept = match self.store.find(&wanted.run) {
            Some(kept) => kept,
            None => match self.follow(wanted, cut).await? {
                Some(kept) => kept,
                None => return Ok(None),
            },
        };
        if let Some(cursor) = wanted.cursor.filter(|cursor| kept.is_remote && cursor.token == kept.log.token()) {
            // A client may be faster than the copy of what it has heard.
            let _ = timeout(CATCH_UP_TIMEOUT, kept.log.wait_for_event(cursor.number)).await;
        }
        Ok(Some(kept))
    }

    /// The last run of a thread, as [`Shared::find`].
    ///
    /// # Errors
    /// There may be one.
    pub(crate) async fn last_of_thread(&self, thread: &ReplayKey) -> Result<Option<ReplayKey>, ReplicationUnavailable> {
        let name = self.keys.last(thread);
        let asked = self.redis.query(async |mut connection| {
            redis::cmd("GET").arg(name).query_async::<Option<String>>(&mut connection).await
        });
        let said = timeout(self.deadline, asked).await.ok().and_then(Result::ok);
        Ok(said.ok_or_else(|| self.count_unavailable())?.as_deref().and_then(redis_protocol::parse_key))
    }

    /// Has a run of another replica end. `false` where there is none.
    ///
    /// # Errors
    /// There may be one.
    pub(crate) async fn stop(&self, run: &ReplayKey) -> Result<bool, ReplicationUnavailable> {
        let mut question = redis_protocol::STOP.prepare_invoke();
        question.key(self.keys.run(run));
        question.key(self.keys.process(self.process_id()));
        let (known, home, leased): (bool, String, bool) = self.invoke_in_time(&question).await?;
        if known && !home.is_empty() {
            // It finds the same when it looks by itself; this is faster.
            let _ = self.publish(&home, &ReplicaMessage::Stop(*run)).await;
        }
        // What it does not know may exist, if it does not know of this process either.
        if known || (leased && self.is_settled()) { Ok(known) } else { Err(self.count_unavailable()) }
    }

    /// Takes a run that is to begin for this replica. `messages` are those of its conversation.
    pub(crate) async fn claim(&self, descriptor: &RunDescriptor, messages: Option<&str>) -> ClaimResult {
        self.claim_within(self.deadline, descriptor, messages).await
    }

    /// Copies a run of this replica, until its end. `claimed` says what came of its claim; `held` is let go at the end.
    pub(crate) fn replicate(
        self: &Arc<Self>,
        descriptor: RunDescriptor,
        log: &Arc<super::RunLog>,
        claimed: ClaimResult,
        resource: impl ReaderResource + 'static,
    ) {
        let home = Arc::new(OwnedRun::new(Arc::clone(log)));
        self.owned_runs().insert(descriptor.run, Arc::clone(&home));
        let task = publisher::RunPublisher::new(Arc::clone(self), descriptor, home);
        tokio::spawn(async move {
            task.publish_to_end(claimed == ClaimResult::Acquired).await;
            drop(resource);
        });
    }

    /// The run that was claimed does not begin.
    pub(crate) async fn release(&self, descriptor: &RunDescriptor) {
        let _ = self.record_end(descriptor, "gone", &[]).await;
    }

    /// Says again and again that this process lives.
    async fn heartbeat_loop(&self) {
        let mut said = false;
        loop {
            let mut question = redis_protocol::HEARTBEAT.prepare_invoke();
            question.key(self.keys.process(self.process_id())).arg(millis(LEASE_TTL));
            let fresh = self.invoke::<bool>(&question).await;
            if fresh == Ok(true) && said {
                // It was gone, with everything else or because nothing was said for long: all look whether they still stand.
                self.data_losses.send_modify(|(count, when)| (*count, *when) = (*count + 1, Some(Instant::now())));
            }
            said |= fresh.is_ok();
            sleep(HEARTBEAT_INTERVAL).await;
        }
    }

    /// Hears what others have to say to this process.
    async fn receive_messages(&self) {
        let channel = self.keys.process(self.process_id());
        loop {
            if let Ok(mut heard) = self.redis.subscribe(&channel).await {
                let mut messages = heard.on_message();
                while let Some(message) = messages.next().await {
                    self.handle_message(message.get_payload_bytes());
                }
            }
            sleep(RETRY_DELAY).await;
        }
    }

    fn handle_message(&self, message: &[u8]) {
        match ReplicaMessage::parse(message) {
            Some(ReplicaMessage::Updated(run)) => {
                if let Some(follower) = self.followed_runs().get(&run) {
                    follower.notify_one();
                }
            }
            Some(ReplicaMessage::Stop(run)) => {
                let home = self.owned_runs().get(&run).cloned();
                if let Some(home) = home {
                    home.log.stop();
                }
            }
            Some(ReplicaMessage::Following(run, who)) => {
                let home = self.owned_runs().get(&run).cloned();
                if let Some(home) = home {
                    home.add_follower(who);
                }
            }
            None => {}
        }
    }

    /// Says something to a process, if it hears.
    async fn publish(&self, process: &str, message: &ReplicaMessage<'_>) -> Result<(), ReplicationUnavailable> {
        let (channel, message) = (self.keys.process(process), message.to_string());
        let asked = self.redis.query(async |mut connection| {
            redis::cmd("PUBLISH").arg(channel).arg(message).query_async::<()>(&mut connection).await
        });
        asked.await.map_err(|_| self.count_unavailable())
    }

    async fn claim_within(&self, limit: Duration, descriptor: &RunDescriptor, messages: Option<&str>) -> ClaimResult {
        let mut over = String::new();
        loop {
            let mut question = redis_protocol::CLAIM.prepare_invoke();
            question.key(self.keys.run(&descriptor.run)).key(self.keys.last(&descriptor.thread));
            question
                .arg(descriptor.token.as_str())
                .arg(hex::encode(descriptor.body))
                .arg(&over)
                .arg(millis(self.run_ttl()));
            question.arg(hex::encode(descriptor.run));
            for (field, value) in [
                ("th", hex::encode(descriptor.thread)),
                ("h", self.process_id().to_owned()),
                ("d", descriptor.side.dialect.name.to_owned()),
                ("c", u8::from(descriptor.side.text_format == TextFormat::Blocks).to_string()),
                ("i", descriptor.ids.thread_id.as_str().to_owned()),
                ("r", descriptor.ids.run_id.as_str().to_owned()),
            ] {
                question.arg(field).arg(value);
            }
            question.arg("m").arg(messages.unwrap_or_default());
            let asked = timeout(limit, self.invoke::<(String, String, String)>(&question)).await;
            let Ok(Ok((verdict, token, home))) = asked else { return ClaimResult::Unconfirmed };
            match verdict.as_str() {
                "mine" => break,
                "known" => return ClaimResult::Duplicate,
                // Of a process that is gone it goes on no longer.
                _ if over.is_empty() && self.is_alive(&home).await == Ok(false) => over = token,
                _ => return ClaimResult::Conflict,
            }
        }
        ClaimResult::Acquired
    }

    /// Whether a process has its lease.
    async fn is_alive(&self, process: &str) -> Result<bool, ReplicationUnavailable> {
        let name = self.keys.process(process);
        let asked = self
            .redis
            .query(async |mut connection| redis::cmd("EXISTS").arg(name).query_async::<bool>(&mut connection).await);
        asked.await.map_err(|_| self.count_unavailable())
    }

    /// Whether all who live had time to say again what Redis lost, if it lost anything.
    fn is_settled(&self) -> bool {
        self.data_losses.borrow().1.is_none_or(|when| when.elapsed() >= SETTLE_TIME)
    }

    /// Says how a run ended. Who follows it sees that behind its last event.
    async fn record_end(
        &self,
        descriptor: &RunDescriptor,
        how: &str,
        followers: &[String],
    ) -> Result<i64, ReplicationUnavailable> {
        let age = if how == "ended" { self.settings.age } else { LEASE_TTL };
        let mut question = redis_protocol::END.prepare_invoke();
        question.key(self.keys.run(&descriptor.run)).key(self.keys.frames(&descriptor.run, descriptor.token));
        question
            .arg(descriptor.token.as_str())
            .arg(how)
            .arg(millis(age))
            .arg(ReplicaMessage::Updated(descriptor.run).to_string());
        for process in followers {
            question.arg(self.keys.process(process));
        }
        self.invoke(&question).await
    }

    async fn invoke<T: FromRedisValue>(&self, script: &ScriptInvocation<'_>) -> Result<T, ReplicationUnavailable> {
        let asked = self.redis.query(async |mut connection| script.invoke_async::<T>(&mut connection).await);
        asked.await.map_err(|_| self.count_unavailable())
    }

    /// The same, for what a request waits for.
    async fn invoke_in_time<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, ReplicationUnavailable> {
        timeout(self.deadline, self.invoke(script)).await.unwrap_or_else(|_| Err(self.count_unavailable()))
    }

    fn count_unavailable(&self) -> ReplicationUnavailable {
        self.metrics.inc_backend_error();
        ReplicationUnavailable
    }

    fn process_id(&self) -> &str {
        self.settings.process.as_str()
    }

    /// For how long a run stays in Redis without a word of its home.
    fn run_ttl(&self) -> Duration {
        self.settings.age.max(MIN_RUN_TTL)
    }

    fn owned_runs(&self) -> MutexGuard<'_, HashMap<ReplayKey, Arc<OwnedRun>>> {
        self.owned_runs.lock()
    }

    fn followed_runs(&self) -> MutexGuard<'_, HashMap<ReplayKey, Arc<Notify>>> {
        // The same.
        self.followed_runs.lock()
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
