//! A run of another replica, read here: a log that is filled from Redis, for as long as somebody reads it.
//!
//! ```text
//!   found ─▶ Following ── the end of the run ─────────────▶ over: readers have everything
//!              │  │ its home is gone: RUN_ERROR, said to all replicas at once, then the same
//!              │  ╰─ stopped here: its home is told
//!              ╰─ nobody reads, a hole, no answer for long, the process's end ─▶ cut: readers come back
//! ```
//! The log is in the store like any other, so that all who come here read one. It is taken out when the run ends or nobody reads.

use super::super::log::{self, LogStopReason, LogWriter};
use super::super::store::{InsertOutcome, NewRun};
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
use crate::replay::{Cursor, ReplayKey, RunToken, StoredRun};
use crate::telemetry::internal_event;
use crate::translate::recap::Recap;
use crate::translate::{RunIds, Stream};
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, sleep_until};

/// How long a run is followed without a reader: one that lost its connection is back by then.
const ABANDON_AFTER: Duration = Duration::from_secs(2);

/// How long Redis may not answer, or not know of the run, before readers are sent away to come back.
const SILENCE_LIMIT: Duration = Duration::from_secs(5);

/// How soon a run is looked at for the second time; then half as often each time, up to [`BEAT`].
const FIRST_POLL: Duration = Duration::from_millis(25);

/// Most entries that are read at once; each is a chunk of the home's log, or one large frame.
const MAX_ENTRIES: usize = 16;

/// The fields of a run, in the order of [`Found`].
const RUN_FIELDS: &[&str] = &["t", "b", "th", "h", "s", "k", "base", "m", "d", "c", "i", "r", "u"];

/// A run as Redis has it.
struct RemoteRun {
    token: RunToken,
    body: ReplayKey,
    thread: ReplayKey,
    owner: String,
    side: PeerDialect,
    ids: RunIds,
    messages: Option<Box<str>>,
    /// up to which frame the sum tells
    through: u64,
    base: Vec<u8>,
    open: bool,
    too_large: bool,
}

impl RemoteRun {
    fn from_fields(mut fields: Vec<Option<Vec<u8>>>, side: PeerDialect) -> Option<RemoteRun> {
        let mut texts = Vec::new();
        for (name, field) in RUN_FIELDS.iter().zip(&mut fields) {
            texts.push(if *name == "base" { None } else { String::from_utf8(field.take().unwrap_or_default()).ok() });
        }
        let base = fields.into_iter().nth(6).flatten().unwrap_or_default();
        let mut texts = texts.into_iter().map(Option::unwrap_or_default);
        let mut next = || texts.next().unwrap_or_default();
        let (token, body, thread, home, state, through, _) = (next(), next(), next(), next(), next(), next(), next());
        let (messages, dialect, content, thread_id, run_id) = (next(), next(), next(), next(), next());
        let too_large = !next().is_empty();
        if !matches!(state.as_str(), "open" | "ended") {
            return None;
        }
        // Where the client's first words told what it speaks, they were heard elsewhere.
        let told = dialect::find_by_name(&dialect).filter(|_| side.is_auto);
        let content = if content == "1" { TextFormat::Blocks } else { side.text_format };
        let side = told.map_or(side, |dialect| PeerDialect { text_format: content, ..PeerDialect::new(dialect) });
        Some(RemoteRun {
            token: Cursor::parse(&format!("{token}-0"))?.token,
            body: redis_protocol::parse_key(&body)?,
            thread: redis_protocol::parse_key(&thread)?,
            owner: home,
            side,
            ids: RunIds { thread_id: Json::from_trusted(thread_id), run_id: Json::from_trusted(run_id) },
            messages: (!messages.is_empty()).then(|| messages.into()),
            through: through.parse().ok()?,
            base,
            open: state == "open",
            too_large,
        })
    }
}

impl ReplicatedRuns {
    /// Follows a run that another replica has, if one has it.
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
            // It begins in this moment, or has come to nothing.
            sleep(RETRY_DELAY).await;
            return self.store.find(&wanted.run).map(Some).ok_or(RunLookupError::Unavailable);
        }
        let mut recap = Recap::new(found.side, &found.ids, found.messages.clone());
        recap.push(&found.base);
        let (token, body, thread, through) = (found.token, found.body, found.thread, found.through);
        let follows = Some(through);
        let fresh = NewRun {
            run: wanted.run,
            thread,
            body,
            ids: found.ids.clone(),
            token,
            recap,
            abandon_after: ABANDON_AFTER,
            remote_through: follows,
        };
        let writer = match self.store.insert(fresh) {
            InsertOutcome::New(writer) => writer,
            InsertOutcome::Existing(kept) => return Ok(Some(kept)),
            InsertOutcome::Conflict | InsertOutcome::Full => return Err(self.count_unavailable().into()),
        };
        let kept = self.store.find(&wanted.run);
        let news = Arc::new(Notify::new());
        self.followed_runs().insert(wanted.run, Arc::clone(&news));
        let (ready, is_ready) = oneshot::channel();
        let follower = RunFollower {
            shared: Arc::clone(self),
            run: wanted.run,
            token,
            owner: found.owner,
            side: found.side,
            ids: found.ids,
            writer,
            last_read: through,
            pending: Vec::new(),
            pending_last: through,
            stop: StopState::NotRequested,
            wake: news,
        };
        // In a task of its own: who asked may leave, and others may have found it.
        tokio::spawn(follower.follow_to_end(ready, cut));
        is_ready.await.unwrap_or(Err(ReplicationUnavailable))?;
        Ok(kept)
    }

    /// A run as Redis knows it.
    async fn fetch_remote(&self, wanted: &RunQuery) -> Result<Option<RemoteRun>, ReplicationUnavailable> {
        let (name, lease) = (self.keys.run(&wanted.run), self.keys.process(self.process_id()));
        let asked = self.redis.query(async |mut connection| {
            let mut both = redis::pipe();
            both.cmd("HMGET").arg(name).arg(RUN_FIELDS).cmd("EXISTS").arg(lease);
            both.query_async::<(Vec<Option<Vec<u8>>>, bool)>(&mut connection).await
        });
        let said = tokio::time::timeout(self.deadline, asked).await.ok().and_then(Result::ok);
        let (fields, leased) = said.ok_or_else(|| self.count_unavailable())?;
        let found = RemoteRun::from_fields(fields, wanted.side);
        // What it does not know may exist, if it does not know of this process either.
        if found.is_some() || (leased && self.is_settled()) { Ok(found) } else { Err(self.count_unavailable()) }
    }
}

/// Fills a log from Redis.
struct RunFollower {
    shared: Arc<ReplicatedRuns>,
    run: ReplayKey,
    token: RunToken,
    owner: String,
    side: PeerDialect,
    ids: RunIds,
    writer: LogWriter,
    /// the last frame that was read
    last_read: u64,
    /// frames that readers have no room for yet, and the number of the last of them
    pending: Vec<u8>,
    pending_last: u64,
    stop: StopState,
    wake: Arc<Notify>,
}

/// Whether somebody here wants the run to end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StopState {
    NotRequested,
    /// its home is to be told
    Requested,
    Sent,
}

/// What there was to read.
enum ReadStatus {
    /// more may come
    Open,
    /// readers have no room for more
    Full,
    Ended,
    /// Redis does not know the run
    Unknown,
    /// what comes next is not there any more
    Gap,
}

/// Why it is followed no longer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FollowEnd {
    /// readers get everything
    Complete,
    /// readers come back
    Cut,
}

/// An entry of a stream: its id, and the name of its field with the frames.
type StreamEntry = (String, (String, Vec<u8>));

impl RunFollower {
    async fn follow_to_end(
        mut self,
        ready: oneshot::Sender<Result<(), ReplicationUnavailable>>,
        cut: BoxFuture<'static, ()>,
    ) {
        self.shared.metrics.followed.inc();
        let (token, home) = (self.token.as_str(), self.owner.as_str());
        internal_event::RemoteRunFollowed { ids: &self.ids, token, owner: home, recap_until: self.last_read }.emit();
        let end = tokio::select! {
            end = self.follow_loop(ready) => end,
            () = cut => FollowEnd::Cut,
        };
        let RunFollower { shared, run, mut writer, wake: news, .. } = self;
        match end {
            FollowEnd::Complete => {
                writer.forget();
                writer.finish();
            }
            FollowEnd::Cut => writer.cut(),
        }
        let mut followed = shared.followed_runs();
        if followed.get(&run).is_some_and(|other| Arc::ptr_eq(other, &news)) {
            followed.remove(&run);
        }
        drop(followed);
        shared.metrics.followed.dec();
    }

    async fn follow_loop(&mut self, ready: oneshot::Sender<Result<(), ReplicationUnavailable>>) -> FollowEnd {
        let mut ready = Some(ready);
        let (mut answered, mut alive) = (Instant::now(), Instant::now());
        // Often at first: what the home says before it knows of us is no news here.
        let (mut beat, mut every) = (Instant::now(), FIRST_POLL);
        let mut comment = Instant::now() + self.shared.settings.keep_alive;
        loop {
            let read = self.read().await;
            match read {
                Ok(ReadStatus::Open | ReadStatus::Full) => {
                    answered = Instant::now();
                    ready.take().map(|ready| ready.send(Ok(())));
                }
                Ok(ReadStatus::Ended) => {
                    ready.take().map(|ready| ready.send(Ok(())));
                    return FollowEnd::Complete;
                }
                Ok(ReadStatus::Gap) => return FollowEnd::Cut,
                Ok(ReadStatus::Unknown) | Err(ReplicationUnavailable)
                    if ready.is_some() || answered.elapsed() > SILENCE_LIMIT =>
                {
                    return FollowEnd::Cut;
                }
                Ok(ReadStatus::Unknown) | Err(ReplicationUnavailable) => {}
            }
            if beat <= Instant::now() {
                beat = Instant::now() + every;
                every = HEARTBEAT_INTERVAL.min(2 * every);
                if self.stop != StopState::NotRequested && !self.writer.log().has_readers() {
                    return FollowEnd::Cut;
                }
                match self.check_owner().await {
                    Ok(true) => alive = Instant::now(),
                    Ok(false) if alive.elapsed() > OWNER_LOST_AFTER && matches!(read, Ok(ReadStatus::Open)) => {
                        self.end_orphaned().await
                    }
                    Ok(false) => {}
                    // Nobody can say whether it lives.
                    Err(ReplicationUnavailable) => alive = Instant::now(),
                }
            }
            let waits = !self.pending.is_empty();
            tokio::select! {
                lost = self.writer.wait_for_stop(), if self.stop == StopState::NotRequested => match lost {
                    LogStopReason::Abandoned => return FollowEnd::Cut,
                    LogStopReason::Stopped => (self.stop, beat) = (StopState::Requested, Instant::now()),
                },
                written = self.writer.write(&mut self.pending, self.pending_last), if waits && self.stop == StopState::NotRequested => {
                    // Who left or stopped it is seen above.
                    let _ = written;
                }
                () = self.wake.notified() => {}
                () = sleep_until(beat) => {}
                () = sleep_until(comment) => {
                    comment += self.shared.settings.keep_alive;
                    self.writer.send_comment();
                }
                () = self.writer.remove_stalled_loop() => {}
            }
        }
    }

    /// Reads as much as there is, and readers have room for.
    async fn read(&mut self) -> Result<ReadStatus, ReplicationUnavailable> {
        loop {
            if !self.pending.is_empty() {
                if self.stop == StopState::NotRequested {
                    return Ok(ReadStatus::Full);
                }
                self.writer.push(&mut self.pending, self.pending_last);
            }
            let mut question = redis_protocol::READ.prepare_invoke();
            let shared = &self.shared;
            question.key(shared.keys.run(&self.run)).key(shared.keys.frames(&self.run, self.token));
            question.arg(self.token.as_str()).arg(self.last_read).arg(MAX_ENTRIES);
            let (state, last, entries): (String, u64, Vec<StreamEntry>) = shared.invoke(&question).await?;
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
                (self.last_read, self.pending_last) = (last, last);
                self.flush_pending();
            }
        }
    }

    /// Hands over what readers have room for now.
    fn flush_pending(&mut self) {
        use futures_util::FutureExt;
        let _ = self.writer.write(&mut self.pending, self.pending_last).now_or_never();
    }

    /// Says that somebody listens, and what they want. Gives whether the home lives.
    async fn check_owner(&mut self) -> Result<bool, ReplicationUnavailable> {
        let (shared, me) = (&self.shared, self.shared.process_id());
        if self.stop == StopState::Requested && shared.stop(&self.run).await.is_ok() {
            self.stop = StopState::Sent;
        }
        let log = self.writer.log();
        // Who had it followed is about to read.
        if log.has_readers() || !log.had_readers() {
            shared.publish(&self.owner, &ReplicaMessage::Following(self.run, me)).await?;
        }
        shared.is_alive(&self.owner).await
    }

    /// Ends a run whose home is gone, for all who follow it: the one who comes first says the error.
    async fn end_orphaned(&mut self) {
        let (last, frames) = self.run_lost_frames();
        let shared = &self.shared;
        let mut question = redis_protocol::END_ORPHANED.prepare_invoke();
        question.key(shared.keys.run(&self.run)).key(shared.keys.frames(&self.run, self.token));
        question.arg(self.token.as_str()).arg(&self.owner).arg(self.last_read).arg(last).arg(frames);
        question.arg(millis(shared.settings.age));
        if shared.invoke::<bool>(&question).await == Ok(true) {
            internal_event::RemoteRunLost { ids: &self.ids, token: self.token.as_str(), owner: &self.owner }.emit();
        }
        // Read as everything else, at once.
        self.wake.notify_one();
    }

    /// RUN_ERROR, as the run's clients take it, and its number. A run that had said nothing begins with it.
    fn run_lost_frames(&self) -> (u64, Vec<u8>) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        let mut said = Vec::new();
        let mut stream = Stream::new(self.side, self.side, Some(self.ids.clone()), SseLimits::default());
        stream.fail(RejectionKind::RunLost.code(), RejectionKind::RunLost.text(), now, &mut said);
        let ends: Vec<usize> = log::frame_ends(&said).collect();
        let begun = if self.last_read == 0 { 0 } else { ends.len().saturating_sub(1) };
        let (mut number, mut frames) = (self.last_read, Vec::new());
        for (index, end) in ends.iter().enumerate().skip(begun) {
            number += 1;
            let from = index.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or_default();
            let id = Cursor { token: self.token, number }.to_string();
            // An id of ours fits a line.
            let _ = sse::write_fields(&mut frames, Some(&id), None);
            frames.extend_from_slice(said.get(from..*end).unwrap_or_default());
        }
        (number, frames)
    }
}
