//! Replicated runs: a run's owner copies its events to Redis, where other replicas read them for their clients.
//!
//! ```text
//!   owner   RunLog ──▶ RunPublisher ── frames, summaries, end ──▶ Redis ──▶ RunFollower ──▶ RunLog   a replica with readers
//!            ▲                                                      │           │
//!            ╰──────────────── stop, follow ◀───────────────────────┴───────────╯
//! ```
//! A run is claimed before it begins, so that it begins only once. It never waits for the copy. For each run, Redis
//! stores a hash of properties, a stream of frames (entry ids are frame numbers) and a summary of the trimmed frames;
//! for each process it stores a lease. Messages only save time: a replica that misses one finds the change when it
//! polls. Followers end a run whose owner lost its lease.

mod redis_protocol;
mod follower;
mod owned_run;
mod publisher;

use self::owned_run::OwnedRun;
use super::store::{EvictedRun, ReplayKey, RunDescriptor, RunKeys, RunStore, StoredRun};
use super::{Cursor, RunToken};
use crate::dialect::{PeerDialect, TextFormat};
use crate::net::redis_client::RedisClient;
use crate::telemetry::internal_event;
use crate::telemetry::metric::ReplayMetrics;
use crate::translate::recap::RecapInput;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use redis::{Cmd, FromRedisValue, Script, ScriptInvocation};
use redis_protocol::{LEASE_TTL, RedisKeys, ReplicaMessage};
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex as AsyncMutex, Notify, Semaphore, mpsc, watch};
use tokio::time::{Instant, sleep, timeout};

/// Timeout of Redis calls made outside of requests.
const ANSWER_DEADLINE: Duration = Duration::from_secs(1);

const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

/// Time that an owner may lack a lease before it counts as gone. After a restart, Redis may lack the lease at first.
const OWNER_LOST_AFTER: Duration = Duration::from_secs(3);

/// Time for all processes to write their runs again after Redis has lost its data. Until then a missing run may still
/// exist. Processes notice the loss at different times, also those of a machine that stalls for some seconds.
const SETTLE_TIME: Duration = Duration::from_secs(10);

const MIN_RUN_TTL: Duration = Duration::from_secs(60);

/// Maximum time that a resuming client waits for events that are not copied yet.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of runs that are copied to Redis at once; further ones wait.
const MAX_COPIES: usize = 64;

/// Maximum number of other replicas' runs that are read here.
const MAX_FOLLOWED: usize = 64;

/// Maximum number of runs, or parts of them, that are read from Redis at once; further reads wait. What they read is
/// not counted until it is in a log.
const MAX_READS: usize = 16;

/// Maximum number of evicted runs that wait to be deleted in Redis. Further ones stay there until their age.
const MAX_EVICTED_QUEUE: usize = 1024;

const RETRY_DELAY: Duration = Duration::from_millis(250);

pub(crate) struct ReplicatedRuns {
    store: Arc<RunStore>,
    redis: RedisClient,
    keys: RedisKeys,
    settings: ReplicaSettings,
    /// timeout of Redis calls that a request waits for
    deadline: Duration,
    owned_runs: Mutex<HashMap<ReplayKey, Arc<OwnedRun>>>,
    /// wakes the followers of other replicas' runs
    followed_runs: Mutex<HashMap<ReplayKey, Arc<Notify>>>,
    copy_permits: Semaphore,
    follow_permits: Arc<Semaphore>,
    read_permits: Semaphore,
    evicted: AsyncMutex<mpsc::Receiver<EvictedRun>>,
    /// the number of times that Redis has lost its data, and the latest time
    data_losses: watch::Sender<(u64, Option<Instant>)>,
    metrics: ReplayMetrics,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplicaSettings {
    pub(crate) process: RunToken,
    /// time without events after which readers get a comment
    pub(crate) keep_alive: Duration,
    pub(crate) age: Duration,
}

/// Redis did not respond, so the run may exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplicationUnavailable;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunLookupError {
    /// Redis did not respond, so the run may exist
    Unavailable,
    /// too large to retain
    TooLarge,
}

impl From<ReplicationUnavailable> for RunLookupError {
    fn from(ReplicationUnavailable: ReplicationUnavailable) -> RunLookupError {
        RunLookupError::Unavailable
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimResult {
    Acquired,
    /// the same request already started the run, on any replica
    Duplicate,
    /// another request's run has the same key and has not ended
    Conflict,
    /// Redis did not respond, and this replica does not have the run
    Unconfirmed,
}

/// A request to read a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunQuery {
    pub(crate) caller: ReplayKey,
    pub(crate) run: ReplayKey,
    /// dialect of the route's clients
    pub(crate) side: PeerDialect,
    /// the position to resume from
    pub(crate) cursor: Option<Cursor>,
}

impl ReplicatedRuns {
    pub(crate) fn new(
        store: Arc<RunStore>,
        redis: &RedisClient,
        settings: ReplicaSettings,
        metrics: ReplayMetrics,
    ) -> Arc<ReplicatedRuns> {
        let (queue, evicted) = mpsc::channel(MAX_EVICTED_QUEUE);
        store.report_evicted(queue);
        Arc::new(ReplicatedRuns {
            store,
            keys: RedisKeys::new(&redis.settings.prefix),
            deadline: redis.settings.deadline,
            redis: redis.with_own_connection(ANSWER_DEADLINE),
            settings,
            owned_runs: Mutex::default(),
            followed_runs: Mutex::default(),
            copy_permits: Semaphore::new(MAX_COPIES),
            follow_permits: Arc::new(Semaphore::new(MAX_FOLLOWED)),
            read_permits: Semaphore::new(MAX_READS),
            evicted: AsyncMutex::new(evicted),
            data_losses: watch::Sender::new((0, None)),
            metrics,
        })
    }

    pub(crate) async fn keep_running(&self) {
        tokio::join!(
            self.redis
                .keep_connected(|change| internal_event::report_redis_link(&self.redis.settings.display_url, change)),
            self.heartbeat_loop(),
            self.receive_messages(),
            self.delete_evicted()
        );
    }

    /// Finds a run of this replica, or follows another replica's run until `cut` resolves.
    pub(crate) async fn find(
        self: &Arc<Self>,
        wanted: RunQuery,
        cut: BoxFuture<'static, ()>,
    ) -> Result<Option<Arc<StoredRun>>, RunLookupError> {
        let stored = match self.store.find(&wanted.run) {
            Some(stored) => stored,
            None => match self.follow(wanted, cut).await? {
                Some(stored) => stored,
                None => return Ok(None),
            },
        };
        if let Some(cursor) = wanted.cursor.filter(|cursor| stored.is_remote && cursor.token == stored.log.token) {
            // A client may reconnect to this replica before the events that it has received are copied.
            let _ = timeout(CATCH_UP_TIMEOUT, stored.log.wait_for_event(cursor.number)).await;
        }
        Ok(Some(stored))
    }

    /// Forgets an ended run whose key another replica has given to another request; returns true if it did. If Redis
    /// does not respond, the run stays.
    pub(crate) async fn forget_replaced(&self, ended: &Arc<StoredRun>) -> bool {
        let RunKeys { run, body, .. } = &ended.keys;
        // A run that is not copied yet is newer than the one in Redis.
        let is_copied = !ended.is_remote && !ended.log.is_open() && self.owned_run(run).is_none();
        if !is_copied {
            return false;
        }
        let mut command = redis::cmd("HMGET");
        command.arg(self.keys.run(run)).arg(&["t", "b"]);
        let reply = self.in_time(self.send_command::<(Option<String>, Option<String>)>(command)).await;
        let Ok((Some(token), Some(stored_body))) = reply else { return false };
        let is_replaced = token != ended.log.token.as_str() && stored_body != hex::encode(body);
        if is_replaced {
            self.store.evict_replaced(ended);
        }
        is_replaced
    }

    pub(crate) async fn last_of_thread(&self, thread: &ReplayKey) -> Result<Option<ReplayKey>, ReplicationUnavailable> {
        let reply = self.in_time(self.send_command::<Option<String>>(Cmd::get(self.keys.last(thread)))).await?;
        Ok(reply.as_deref().and_then(redis_protocol::parse_key))
    }

    pub(crate) async fn stop(&self, run: &ReplayKey) -> Result<bool, ReplicationUnavailable> {
        let mut call = redis_protocol::STOP.prepare_invoke();
        call.key(self.keys.run(run));
        call.key(self.keys.process(self.process_id()));
        let (exists, owner, leased): (bool, String, bool) = self.in_time(self.invoke(&call)).await?;
        if exists && !owner.is_empty() {
            // The owner would also find the request at its next write; this is faster.
            let _ = self.publish(&owner, &ReplicaMessage::Stop(*run)).await;
        }
        // If Redis lacks this process's lease, it lost its data, and the run may exist.
        if exists || (leased && self.is_settled()) { Ok(exists) } else { Err(self.count_unavailable()) }
    }

    pub(crate) async fn claim(&self, descriptor: &RunDescriptor, input: &RecapInput) -> ClaimResult {
        self.claim_within(self.deadline, descriptor, input).await
    }

    /// Releases the claim on a run that does not start.
    pub(crate) async fn release(&self, descriptor: &RunDescriptor) {
        let _ = self.record_end(descriptor, "gone", 0, &[]).await;
    }

    /// Renews this process's lease; never returns.
    async fn heartbeat_loop(&self) {
        let mut had_lease = false;
        loop {
            let mut call = redis_protocol::HEARTBEAT.prepare_invoke();
            call.key(self.keys.process(self.process_id())).arg(millis(LEASE_TTL));
            let fresh = self.invoke::<bool>(&call).await;
            if fresh == Ok(true) && had_lease {
                // The lease expired or Redis lost its data, so every publisher verifies its run.
                self.data_losses.send_modify(|(count, when)| {
                    *count += 1;
                    *when = Some(Instant::now());
                });
            }
            had_lease |= fresh.is_ok();
            sleep(HEARTBEAT_INTERVAL).await;
        }
    }

    async fn receive_messages(&self) {
        let channel = self.keys.process(self.process_id());
        loop {
            if let Ok(mut subscription) = self.redis.subscribe(&channel).await {
                let mut messages = subscription.on_message();
                while let Some(message) = messages.next().await {
                    self.handle_message(message.get_payload_bytes());
                }
            }
            sleep(RETRY_DELAY).await;
        }
    }

    /// Deletes in Redis what the store has evicted, so that Redis holds about as much as the replicas together.
    async fn delete_evicted(&self) {
        let mut evicted = self.evicted.lock().await;
        while let Some(EvictedRun { keys: RunKeys { run, thread, .. }, token }) = evicted.recv().await {
            let mut call = redis_protocol::EVICT.prepare_invoke();
            call.key(self.keys.run(&run)).key(self.keys.frames(&run, token)).key(self.keys.last(&thread));
            call.arg(token.as_str()).arg(hex::encode(run));
            // If Redis does not respond, the run stays there until its age.
            let _ = self.invoke::<bool>(&call).await;
        }
    }

    fn handle_message(&self, message: &[u8]) {
        match ReplicaMessage::parse(message) {
            Some(ReplicaMessage::Updated(run)) => {
                if let Some(follower) = self.followed_runs.lock().get(&run) {
                    follower.notify_one();
                }
            }
            Some(ReplicaMessage::Stop(run)) => self.owned_run(&run).iter().for_each(|owned| owned.log.stop()),
            Some(ReplicaMessage::Following(run, process)) => {
                self.owned_run(&run).iter().for_each(|owned| owned.add_follower(process));
            }
            None => {}
        }
    }

    fn owned_run(&self, run: &ReplayKey) -> Option<Arc<OwnedRun>> {
        self.owned_runs.lock().get(run).cloned()
    }

    async fn publish(&self, process: &str, message: &ReplicaMessage<'_>) -> Result<(), ReplicationUnavailable> {
        self.send_command(Cmd::publish(self.keys.process(process), message.to_string())).await
    }

    async fn claim_within(&self, limit: Duration, descriptor: &RunDescriptor, input: &RecapInput) -> ClaimResult {
        let mut replaceable = String::new();
        loop {
            let mut call = redis_protocol::CLAIM.prepare_invoke();
            let RunKeys { run, thread, body, .. } = &descriptor.keys;
            call.key(self.keys.run(run))
                .key(self.keys.last(thread))
                .arg(descriptor.token.as_str())
                .arg(hex::encode(body));
            call.arg(&replaceable).arg(millis(self.run_ttl())).arg(hex::encode(run));
            for (field, value) in [
                ("th", hex::encode(thread)),
                ("h", self.process_id().to_owned()),
                ("d", descriptor.side.dialect.name.to_owned()),
                ("c", u8::from(descriptor.side.text_format == TextFormat::Blocks).to_string()),
                ("i", descriptor.ids.thread_id.as_str().to_owned()),
                ("r", descriptor.ids.run_id.as_str().to_owned()),
            ] {
                call.arg(field).arg(value);
            }
            call.arg("m").arg(input.messages.as_deref().unwrap_or_default());
            call.arg("a").arg(input.state.as_deref().unwrap_or_default());
            let reply = timeout(limit, self.invoke::<(String, String, String)>(&call)).await;
            let Ok(Ok((verdict, token, owner))) = reply else { return ClaimResult::Unconfirmed };
            match verdict.as_str() {
                "mine" => break,
                "known" => return ClaimResult::Duplicate,
                // If its process is gone, the other run is over.
                _ if replaceable.is_empty() && self.is_alive(&owner).await == Ok(false) => replaceable = token,
                _ => return ClaimResult::Conflict,
            }
        }
        ClaimResult::Acquired
    }

    async fn is_alive(&self, process: &str) -> Result<bool, ReplicationUnavailable> {
        self.send_command(Cmd::exists(self.keys.process(process))).await
    }

    fn is_settled(&self) -> bool {
        self.data_losses.borrow().1.is_none_or(|when| when.elapsed() >= SETTLE_TIME)
    }

    /// Records the end of a run whose last frame has number `last` for its followers.
    async fn record_end(
        &self,
        descriptor: &RunDescriptor,
        how: &str,
        last: u64,
        followers: &[String],
    ) -> Result<i64, ReplicationUnavailable> {
        let age = if how == "ended" { self.settings.age } else { LEASE_TTL };
        let mut call = self.prepare_run_call(&redis_protocol::END, descriptor);
        call.arg(how).arg(millis(age)).arg(last).arg(ReplicaMessage::Updated(descriptor.keys.run).to_string());
        for process in followers {
            call.arg(self.keys.process(process));
        }
        self.invoke(&call).await
    }

    fn prepare_run_call(&self, script: &'static Script, descriptor: &RunDescriptor) -> ScriptInvocation<'static> {
        let RunDescriptor { keys: RunKeys { run, .. }, token, .. } = descriptor;
        let mut call = script.prepare_invoke();
        call.key(self.keys.run(run)).key(self.keys.frames(run, *token)).arg(token.as_str());
        call
    }

    async fn send_command<T: FromRedisValue>(&self, command: Cmd) -> Result<T, ReplicationUnavailable> {
        let query = self.redis.query(async |mut connection| command.query_async::<T>(&mut connection).await);
        query.await.map_err(|_| self.count_unavailable())
    }

    async fn invoke<T: FromRedisValue>(&self, script: &ScriptInvocation<'_>) -> Result<T, ReplicationUnavailable> {
        let query = self.redis.query(async |mut connection| script.invoke_async::<T>(&mut connection).await);
        query.await.map_err(|_| self.count_unavailable())
    }

    async fn in_time<T>(
        &self,
        call: impl Future<Output = Result<T, ReplicationUnavailable>>,
    ) -> Result<T, ReplicationUnavailable> {
        timeout(self.deadline, call).await.unwrap_or_else(|_| Err(self.count_unavailable()))
    }

    fn count_unavailable(&self) -> ReplicationUnavailable {
        self.metrics.backend_errors.inc();
        ReplicationUnavailable
    }

    fn process_id(&self) -> &str {
        self.settings.process.as_str()
    }

    fn run_ttl(&self) -> Duration {
        self.settings.age.max(MIN_RUN_TTL)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
