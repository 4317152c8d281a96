//! Follows another replica's run: fills a local log from Redis while the log has readers.
//!
//! ```text
//!   found ─▶ following ── the end of the run ─────────────▶ Complete: readers have everything
//!              │  │ the owner has no lease: RUN_ERROR in Redis, for all replicas, then the same
//!              │  ╰─ stopped here: the owner gets a message
//!              ╰─ no readers, missing frames, no answer for long, the process exits ─▶ Cut: readers reconnect
//! ```
//! All readers on this replica share the log, which is removed when the run ends or has no readers.

use super::super::log::{self, LogStopReason, LogWriter};
use super::super::store::{InsertOutcome, NewRun, RunDescriptor, RunKeys};
use super::redis_protocol::{self, ReplicaMessage};
use super::{
    HEARTBEAT_INTERVAL, OWNER_LOST_AFTER, RETRY_DELAY, ReplicatedRuns, ReplicationUnavailable, RunLookupError,
    RunQuery, millis,
};
use crate::codec::sse;
use crate::codec::sse::SseLimits;
use crate::dialect::{self, PeerDialect, TextFormat};
use crate::error::RejectionKind;
use crate::event::Json;
use crate::replay::{Cursor, StoredRun};
use crate::telemetry::internal_event;
use crate::translate::recap::{Recap, RecapInput};
use crate::translate::{RunIds, Stream};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::{Notify, OwnedSemaphorePermit, oneshot};
use tokio::time::{Instant, sleep, sleep_until};

/// Time that following continues without readers, so that clients can reconnect.
const ABANDON_AFTER: Duration = Duration::from_secs(2);

/// Readers are disconnected if Redis does not respond for this long.
const SILENCE_LIMIT: Duration = Duration::from_secs(5);

const FIRST_POLL: Duration = Duration::from_millis(25);

/// Maximum number of entries per read; each is a chunk of the owner's log or one large frame.
const MAX_ENTRIES: usize = 16;

/// Maximum number of bytes per read, unless its first entry is larger.
const MAX_READ_BYTES: usize = 1 << 20;

/// The hash fields of a run, in the order in which `RemoteRun::from_fields` reads them.
const RUN_FIELDS: &[&str] = &["t", "b", "th", "h", "s", "k", "base", "m", "a", "d", "c", "i", "r", "u"];

/// A run as stored in Redis.
struct RemoteRun {
    descriptor: RunDescriptor,
    owner: String,
    input: RecapInput,
    /// number of the last frame included in `base`
    through: u64,
    base: Vec<u8>,
    open: bool,
    too_large: bool,
}

impl RemoteRun {
    fn from_fields(mut fields: Vec<Option<Vec<u8>>>, wanted: &RunQuery) -> Option<RemoteRun> {
        let side = wanted.side;
        let mut field = |name: &str| {
            let index = RUN_FIELDS.iter().position(|field| *field == name)?;
            fields.get_mut(index)?.take()
        };
        let base = field("base").unwrap_or_default();
        let mut text = |name| String::from_utf8(field(name).unwrap_or_default()).unwrap_or_default();
        let state = text("s");
        if !matches!(state.as_str(), "open" | "ended") {
            return None;
        }
        // On an `auto` route, the owner detected the client's dialect from its request.
        let detected = dialect::find_by_name(&text("d")).filter(|_| side.is_auto);
        let text_format = if text("c") == "1" { TextFormat::Blocks } else { side.text_format };
        let side = detected.map_or(side, |dialect| PeerDialect { text_format, ..PeerDialect::new(dialect) });
        let keys = RunKeys {
            caller: wanted.caller,
            run: wanted.run,
            thread: redis_protocol::parse_key(&text("th"))?,
            body: redis_protocol::parse_key(&text("b"))?,
        };
        let mut optional = |name| Some(text(name)).filter(|value| !value.is_empty()).map(Into::into);
        let input = RecapInput { messages: optional("m"), state: optional("a") };
        let token = Cursor::parse(&format!("{}-0", text("t")))?.token;
        let ids = RunIds { thread_id: Json::from_trusted(text("i")), run_id: Json::from_trusted(text("r")) };
        Some(RemoteRun {
            descriptor: RunDescriptor { keys, token, side, ids },
            owner: text("h"),
            input,
            through: text("k").parse().ok()?,
            base,
            open: state == "open",
            too_large: !text("u").is_empty(),
        })
    }
}

impl ReplicatedRuns {
    pub(super) async fn follow(
        self: &Arc<Self>,
        wanted: RunQuery,
        cut: BoxFuture<'static, ()>,
    ) -> Result<Option<Arc<StoredRun>>, RunLookupError> {
        let Some(found) = self.fetch_remote(&wanted).await? else { return Ok(None) };
        if found.too_large {
            return Err(RunLookupError::TooLarge);
        }
        if found.open && found.owner == self.process_id() {
            // The run is just starting, or failed to start.
            sleep(RETRY_DELAY).await;
            return self.store.find(&wanted.run).map(Some).ok_or(RunLookupError::Unavailable);
        }
        let Ok(permit) = Arc::clone(&self.follow_permits).try_acquire_owned() else {
            return Err(RunLookupError::Unavailable);
        };
        let descriptor = found.descriptor;
        let mut recap = Recap::new(descriptor.side, &descriptor.ids, found.input);
        recap.push(&found.base);
        let fresh = NewRun {
            descriptor: descriptor.clone(),
            recap,
            abandon_after: ABANDON_AFTER,
            remote_through: Some(found.through),
        };
        let writer = match self.store.insert(fresh) {
            InsertOutcome::New(writer) => writer,
            InsertOutcome::Existing(stored) => return Ok(Some(stored)),
            InsertOutcome::Conflict | InsertOutcome::Full => return Err(self.count_unavailable().into()),
        };
        let stored = self.store.find(&wanted.run);
        let wake = Arc::new(Notify::new());
        self.followed_runs.lock().insert(wanted.run, Arc::clone(&wake));
        let (ready, is_ready) = oneshot::channel();
        let follower = RunFollower {
            shared: Arc::clone(self),
            descriptor,
            owner: found.owner,
            writer,
            last_read: found.through,
            pending: Vec::new(),
            stop: StopState::NotRequested,
            wake,
            _permit: permit,
        };
        // In a separate task, because this request may be cancelled while others use the log.
        tokio::spawn(follower.follow_to_end(ready, cut));
        is_ready.await.unwrap_or(Err(ReplicationUnavailable))?;
        Ok(stored)
    }

    async fn fetch_remote(&self, wanted: &RunQuery) -> Result<Option<RemoteRun>, ReplicationUnavailable> {
        let mut both = redis::pipe();
        both.cmd("HMGET").arg(self.keys.run(&wanted.run)).arg(RUN_FIELDS);
        both.cmd("EXISTS").arg(self.keys.process(self.process_id()));
        let query = self.redis.query(async |mut connection| both.query_async(&mut connection).await);
        let query = async {
            let _permit = self.read_permits.acquire().await;
            query.await.map_err(|_| self.count_unavailable())
        };
        let (fields, leased): (Vec<Option<Vec<u8>>>, bool) = self.in_time(query).await?;
        let found = RemoteRun::from_fields(fields, wanted);
        // If Redis lacks this process's lease, it lost its data, and the run may exist.
        if found.is_some() || (leased && self.is_settled()) { Ok(found) } else { Err(self.count_unavailable()) }
    }
}

struct RunFollower {
    shared: Arc<ReplicatedRuns>,
    descriptor: RunDescriptor,
    owner: String,
    writer: LogWriter,
    /// number of the last frame in `pending` or the log
    last_read: u64,
    /// frames waiting for slow readers
    pending: Vec<u8>,
    stop: StopState,
    wake: Arc<Notify>,
    _permit: OwnedSemaphorePermit,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StopState {
    NotRequested,
    Requested,
    /// the owner has received it
    Sent,
}

enum ReadStatus {
    /// more frames may come
    Open,
    /// readers are too slow for more frames
    Full,
    Ended,
    /// Redis does not have the run
    Unknown,
    Gap,
}

/// The ways in which the local log ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FollowEnd {
    Complete,
    /// readers must reconnect
    Cut,
}

type StreamEntry = (String, (String, Vec<u8>));

impl RunFollower {
    async fn follow_to_end(
        mut self,
        ready: oneshot::Sender<Result<(), ReplicationUnavailable>>,
        cut: BoxFuture<'static, ()>,
    ) {
        self.shared.metrics.followed.inc();
        let RunDescriptor { ids, token, .. } = &self.descriptor;
        let token = token.as_str();
        internal_event::RemoteRunFollowed { ids, token, owner: &self.owner, recap_until: self.last_read }.emit();
        let end = tokio::select! {
            end = self.follow_loop(ready) => end,
            () = cut => FollowEnd::Cut,
        };
        let RunFollower { shared, descriptor, mut writer, wake, _permit, .. } = self;
        match end {
            FollowEnd::Complete => {
                writer.forget();
                writer.finish();
            }
            FollowEnd::Cut => writer.cut(),
        }
        let mut followed = shared.followed_runs.lock();
        if followed.get(&descriptor.keys.run).is_some_and(|other| Arc::ptr_eq(other, &wake)) {
            followed.remove(&descriptor.keys.run);
        }
        drop(followed);
        shared.metrics.followed.dec();
    }

    async fn follow_loop(&mut self, ready: oneshot::Sender<Result<(), ReplicationUnavailable>>) -> FollowEnd {
        let mut ready = Some(ready);
        let mut last_answer = Instant::now();
        let mut owner_seen = Instant::now();
        // Frequently at first: the owner publishes no updates here until it gets this follower's message.
        let mut next_check = Instant::now();
        let mut check_interval = FIRST_POLL;
        let mut next_comment = Instant::now() + self.shared.settings.keep_alive;
        loop {
            let read = self.read().await;
            match read {
                Ok(ReadStatus::Open | ReadStatus::Full) => {
                    last_answer = Instant::now();
                    ready.take().map(|ready| ready.send(Ok(())));
                }
                Ok(ReadStatus::Ended) => {
                    ready.take().map(|ready| ready.send(Ok(())));
                    return FollowEnd::Complete;
                }
                Ok(ReadStatus::Gap) => return FollowEnd::Cut,
                Ok(ReadStatus::Unknown) | Err(ReplicationUnavailable)
                    if ready.is_some() || last_answer.elapsed() > SILENCE_LIMIT =>
                {
                    return FollowEnd::Cut;
                }
                Ok(ReadStatus::Unknown) | Err(ReplicationUnavailable) => {}
            }
            if next_check <= Instant::now() {
                next_check = Instant::now() + check_interval;
                check_interval = HEARTBEAT_INTERVAL.min(2 * check_interval);
                if self.stop != StopState::NotRequested && !self.writer.log.has_readers() {
                    return FollowEnd::Cut;
                }
                match self.check_owner().await {
                    Ok(true) => owner_seen = Instant::now(),
                    Ok(false) if owner_seen.elapsed() > OWNER_LOST_AFTER && matches!(read, Ok(ReadStatus::Open)) => {
                        self.end_orphaned().await;
                    }
                    Ok(false) => {}
                    // Without Redis, the owner may still be alive.
                    Err(ReplicationUnavailable) => owner_seen = Instant::now(),
                }
            }
            let has_pending = !self.pending.is_empty();
            tokio::select! {
                reason = self.writer.wait_for_stop(), if self.stop == StopState::NotRequested => match reason {
                    LogStopReason::Abandoned => return FollowEnd::Cut,
                    LogStopReason::Stopped => {
                        self.stop = StopState::Requested;
                        next_check = Instant::now();
                    }
                },
                // `wait_for_stop` above handles an abandoned or stopped log.
                _ = self.writer.write(&mut self.pending, self.last_read), if has_pending && self.stop == StopState::NotRequested => {}
                () = self.wake.notified() => {}
                () = sleep_until(next_check) => {}
                () = sleep_until(next_comment) => {
                    next_comment += self.shared.settings.keep_alive;
                    self.writer.send_comment();
                }
                () = self.writer.remove_stalled_loop() => {}
            }
        }
    }

    async fn read(&mut self) -> Result<ReadStatus, ReplicationUnavailable> {
        loop {
            if !self.pending.is_empty() {
                if self.stop == StopState::NotRequested {
                    return Ok(ReadStatus::Full);
                }
                self.writer.push(&mut self.pending, self.last_read);
            }
            let shared = Arc::clone(&self.shared);
            let mut call = shared.prepare_run_call(&redis_protocol::READ, &self.descriptor);
            call.arg(self.last_read).arg(MAX_ENTRIES).arg(MAX_READ_BYTES);
            // Until the entries are in the log.
            let _permit = shared.read_permits.acquire().await;
            let (state, last, entries): (String, u64, Vec<StreamEntry>) = shared.invoke(&call).await?;
            if entries.is_empty() {
                return Ok(match state.as_str() {
                    "" | "cut" => ReadStatus::Unknown,
                    _ if last > self.last_read => ReadStatus::Gap,
                    "open" => ReadStatus::Open,
                    _ => ReadStatus::Ended,
                });
            }
            for (id, (_, frames)) in entries {
                let numbers =
                    id.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
                let Some((first, last)): Option<(u64, u64)> = numbers else { return Ok(ReadStatus::Gap) };
                if first > self.last_read + 1 {
                    return Ok(ReadStatus::Gap);
                }
                self.pending.extend_from_slice(redis_protocol::frames_after(&frames, first, self.last_read));
                self.last_read = last;
                let _ = self.writer.write(&mut self.pending, self.last_read).now_or_never();
            }
        }
    }

    /// Tells the owner that there are readers, and whether a stop was requested. Returns whether the owner has a lease.
    async fn check_owner(&mut self) -> Result<bool, ReplicationUnavailable> {
        let shared = &self.shared;
        if self.stop == StopState::Requested && shared.stop(&self.descriptor.keys.run).await.is_ok() {
            self.stop = StopState::Sent;
        }
        let log = &self.writer.log;
        // Before the first reader joins, the request that started following is about to join.
        if log.has_readers() || !log.had_readers() {
            shared
                .publish(&self.owner, &ReplicaMessage::Following(self.descriptor.keys.run, shared.process_id()))
                .await?;
        }
        shared.is_alive(&self.owner).await
    }

    /// Ends a run whose owner is gone; the first follower writes the error for all.
    async fn end_orphaned(&mut self) {
        let (last, frames) = self.run_lost_frames();
        let shared = &self.shared;
        let RunDescriptor { ids, token, .. } = &self.descriptor;
        let mut call = shared.prepare_run_call(&redis_protocol::END_ORPHANED, &self.descriptor);
        call.arg(&self.owner).arg(self.last_read).arg(last).arg(frames).arg(millis(shared.settings.age));
        if shared.invoke::<bool>(&call).await == Ok(true) {
            internal_event::RemoteRunLost { ids, token: token.as_str(), owner: &self.owner }.emit();
        }
        // The error is read from Redis like any other frame; read it immediately.
        self.wake.notify_one();
    }

    /// Returns the RUN_ERROR frames and the number of the last one. A run without events is started first.
    fn run_lost_frames(&self) -> (u64, Vec<u8>) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        let mut written = Vec::new();
        let RunDescriptor { token, side, ids, .. } = &self.descriptor;
        let mut stream = Stream::new(*side, *side, Some(ids.clone()), SseLimits::default());
        stream.fail(RejectionKind::RunLost.code(), RejectionKind::RunLost.text(), now, &mut written);
        let ends: Vec<usize> = log::frame_ends(&written).collect();
        let skipped = if self.last_read == 0 { 0 } else { ends.len().saturating_sub(1) };
        let mut number = self.last_read;
        let mut frames = Vec::new();
        for (index, end) in ends.iter().enumerate().skip(skipped) {
            number += 1;
            let from = index.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or_default();
            let id = Cursor { token: *token, number }.to_string();
            // A cursor contains no line break.
            let _ = sse::write_fields(&mut frames, Some(&id), None);
            frames.extend_from_slice(written.get(from..*end).unwrap_or_default());
        }
        (number, frames)
    }
}
