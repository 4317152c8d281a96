//! A run of another replica, read here: a log that is filled from Redis, for as long as somebody reads it.
//!
//! ```text
//!   found ─▶ Following ── the end of the run ─────────────▶ over: readers have everything
//!              │  │ its home is gone: RUN_ERROR, said to all replicas at once, then the same
//!              │  ╰─ stopped here: its home is told
//!              ╰─ nobody reads, a hole, no answer for long, the process's end ─▶ cut: readers come back
//! ```
//! The log is in the store like any other, so that all who come here read one. It is taken out when the run ends or nobody reads.

use super::super::log::{self, Lost, Writer};
use super::super::store::{Entered, Fresh};
use super::words::{self, Heard};
use super::{Away, BEAT, LOST_AFTER, RETRY, Shared, Unfound, Wanted, millis};
use crate::codec::sse;
use crate::codec::sse::Limits;
use crate::dialect::{self, Content, Side};
use crate::error::Kind;
use crate::event::Json;
use crate::replay::{Cursor, Kept, Key, Token};
use crate::telemetry::occurrence;
use crate::translate::recap::Recap;
use crate::translate::{Ids, Stream};
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, sleep_until};

/// How long a run is followed without a reader: one that lost its connection is back by then.
const ALONE: Duration = Duration::from_secs(2);

/// How long Redis may not answer, or not know of the run, before readers are sent away to come back.
const PATIENCE: Duration = Duration::from_secs(5);

/// How soon a run is looked at for the second time; then half as often each time, up to [`BEAT`].
const FIRST_BEAT: Duration = Duration::from_millis(25);

/// Most entries that are read at once; each is a chunk of the home's log, or one large frame.
const ENTRIES: usize = 16;

/// The fields of a run, in the order of [`Found`].
const FIELDS: &[&str] = &["t", "b", "th", "h", "s", "k", "base", "m", "d", "c", "i", "r", "u"];

/// A run as Redis has it.
struct Found {
    token: Token,
    body: Key,
    thread: Key,
    home: String,
    side: Side,
    ids: Ids,
    messages: Option<Box<str>>,
    /// up to which frame the sum tells
    through: u64,
    base: Vec<u8>,
    open: bool,
    too_large: bool,
}

impl Found {
    fn read(mut fields: Vec<Option<Vec<u8>>>, side: Side) -> Option<Found> {
        let mut texts = Vec::new();
        for (name, field) in FIELDS.iter().zip(&mut fields) {
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
        let told = dialect::by_name(&dialect).filter(|_| side.auto);
        let content = if content == "1" { Content::Blocks } else { side.content };
        let side = told.map_or(side, |dialect| Side { content, ..Side::new(dialect) });
        Some(Found {
            token: Cursor::parse(&format!("{token}-0"))?.token,
            body: words::key_of(&body)?,
            thread: words::key_of(&thread)?,
            home,
            side,
            ids: Ids { thread_id: Json::trusted(thread_id), run_id: Json::trusted(run_id) },
            messages: (!messages.is_empty()).then(|| messages.into()),
            through: through.parse().ok()?,
            base,
            open: state == "open",
            too_large,
        })
    }
}

impl Shared {
    /// Follows a run that another replica has, if one has it.
    pub(super) async fn follow(
        self: &Arc<Self>,
        wanted: Wanted,
        cut: BoxFuture<'static, ()>,
    ) -> Result<Option<Arc<Kept>>, Unfound> {
        let Some(found) = self.known(&wanted).await? else { return Ok(None) };
        if found.too_large {
            return Err(Unfound::TooLarge);
        }
        if found.open && found.home == self.id() {
            // It begins in this moment, or has come to nothing.
            sleep(RETRY).await;
            return self.store.find(&wanted.run).map(Some).ok_or(Unfound::Away);
        }
        let mut recap = Recap::new(found.side, &found.ids, found.messages.clone());
        recap.push(&found.base);
        let (token, body, thread, through) = (found.token, found.body, found.thread, found.through);
        let follows = Some(through);
        let fresh =
            Fresh { run: wanted.run, thread, body, ids: found.ids.clone(), token, recap, alone: ALONE, follows };
        let writer = match self.store.enter(fresh) {
            Entered::New(writer) => writer,
            Entered::Known(kept) => return Ok(Some(kept)),
            Entered::Taken | Entered::Full => return Err(self.away().into()),
        };
        let kept = self.store.find(&wanted.run);
        let news = Arc::new(Notify::new());
        self.followed().insert(wanted.run, Arc::clone(&news));
        let (ready, is_ready) = oneshot::channel();
        let follower = Follower {
            shared: Arc::clone(self),
            run: wanted.run,
            token,
            home: found.home,
            side: found.side,
            ids: found.ids,
            writer,
            last: through,
            pending: Vec::new(),
            pending_last: through,
            stop: Stop::No,
            news,
        };
        // In a task of its own: who asked may leave, and others may have found it.
        tokio::spawn(follower.go(ready, cut));
        is_ready.await.unwrap_or(Err(Away))?;
        Ok(kept)
    }

    /// A run as Redis knows it.
    async fn known(&self, wanted: &Wanted) -> Result<Option<Found>, Away> {
        let (name, lease) = (self.names.run(&wanted.run), self.names.home(self.id()));
        let asked = self.redis.ask(async |mut connection| {
            let mut both = redis::pipe();
            both.cmd("HMGET").arg(name).arg(FIELDS).cmd("EXISTS").arg(lease);
            both.query_async::<(Vec<Option<Vec<u8>>>, bool)>(&mut connection).await
        });
        let said = tokio::time::timeout(self.deadline, asked).await.ok().and_then(Result::ok);
        let (fields, leased) = said.ok_or_else(|| self.away())?;
        let found = Found::read(fields, wanted.side);
        // What it does not know may exist, if it does not know of this process either.
        if found.is_some() || (leased && self.is_settled()) { Ok(found) } else { Err(self.away()) }
    }
}

/// Fills a log from Redis.
struct Follower {
    shared: Arc<Shared>,
    run: Key,
    token: Token,
    home: String,
    side: Side,
    ids: Ids,
    writer: Writer,
    /// the last frame that was read
    last: u64,
    /// frames that readers have no room for yet, and the number of the last of them
    pending: Vec<u8>,
    pending_last: u64,
    stop: Stop,
    news: Arc<Notify>,
}

/// Whether somebody here wants the run to end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    No,
    /// its home is to be told
    Wanted,
    Told,
}

/// What there was to read.
enum Read {
    /// more may come
    Open,
    /// readers have no room for more
    Full,
    Ended,
    /// Redis does not know the run
    Unknown,
    /// what comes next is not there any more
    Hole,
}

/// Why it is followed no longer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// readers get everything
    Over,
    /// readers come back
    Cut,
}

/// An entry of a stream: its id, and the name of its field with the frames.
type Entry = (String, (String, Vec<u8>));

impl Follower {
    async fn go(mut self, ready: oneshot::Sender<Result<(), Away>>, cut: BoxFuture<'static, ()>) {
        self.shared.metrics.follows();
        let (token, home) = (self.token.as_str(), self.home.as_str());
        occurrence::Followed { ids: &self.ids, token, home, behind: self.last }.emit();
        let end = tokio::select! {
            end = self.follow(ready) => end,
            () = cut => End::Cut,
        };
        let Follower { shared, run, mut writer, news, .. } = self;
        match end {
            End::Over => {
                writer.forget();
                writer.finish();
            }
            End::Cut => writer.cut(),
        }
        let mut followed = shared.followed();
        if followed.get(&run).is_some_and(|other| Arc::ptr_eq(other, &news)) {
            followed.remove(&run);
        }
        drop(followed);
        shared.metrics.left();
    }

    async fn follow(&mut self, ready: oneshot::Sender<Result<(), Away>>) -> End {
        let mut ready = Some(ready);
        let (mut answered, mut alive) = (Instant::now(), Instant::now());
        // Often at first: what the home says before it knows of us is no news here.
        let (mut beat, mut every) = (Instant::now(), FIRST_BEAT);
        let mut comment = Instant::now() + self.shared.settings.keep_alive;
        loop {
            let read = self.read().await;
            match read {
                Ok(Read::Open | Read::Full) => {
                    answered = Instant::now();
                    ready.take().map(|ready| ready.send(Ok(())));
                }
                Ok(Read::Ended) => {
                    ready.take().map(|ready| ready.send(Ok(())));
                    return End::Over;
                }
                Ok(Read::Hole) => return End::Cut,
                Ok(Read::Unknown) | Err(Away) if ready.is_some() || answered.elapsed() > PATIENCE => return End::Cut,
                Ok(Read::Unknown) | Err(Away) => {}
            }
            if beat <= Instant::now() {
                beat = Instant::now() + every;
                every = BEAT.min(2 * every);
                if self.stop != Stop::No && !self.writer.log().is_read() {
                    return End::Cut;
                }
                match self.look_after().await {
                    Ok(true) => alive = Instant::now(),
                    Ok(false) if alive.elapsed() > LOST_AFTER && matches!(read, Ok(Read::Open)) => self.lose().await,
                    Ok(false) => {}
                    // Nobody can say whether it lives.
                    Err(Away) => alive = Instant::now(),
                }
            }
            let waits = !self.pending.is_empty();
            tokio::select! {
                lost = self.writer.gone(), if self.stop == Stop::No => match lost {
                    Lost::Gone => return End::Cut,
                    Lost::Stopped => (self.stop, beat) = (Stop::Wanted, Instant::now()),
                },
                written = self.writer.write(&mut self.pending, self.pending_last), if waits && self.stop == Stop::No => {
                    // Who left or stopped it is seen above.
                    let _ = written;
                }
                () = self.news.notified() => {}
                () = sleep_until(beat) => {}
                () = sleep_until(comment) => {
                    comment += self.shared.settings.keep_alive;
                    self.writer.comment();
                }
                () = self.writer.stalled() => {}
            }
        }
    }

    /// Reads as much as there is, and readers have room for.
    async fn read(&mut self) -> Result<Read, Away> {
        loop {
            if !self.pending.is_empty() {
                if self.stop == Stop::No {
                    return Ok(Read::Full);
                }
                self.writer.push(&mut self.pending, self.pending_last);
            }
            let mut question = words::READ.prepare_invoke();
            let shared = &self.shared;
            question.key(shared.names.run(&self.run)).key(shared.names.frames(&self.run, self.token));
            question.arg(self.token.as_str()).arg(self.last).arg(ENTRIES);
            let (state, last, entries): (String, u64, Vec<Entry>) = shared.ask(&question).await?;
            if entries.is_empty() {
                return Ok(match state.as_str() {
                    "" | "cut" => Read::Unknown,
                    _ if last > self.last => Read::Hole,
                    "open" => Read::Open,
                    _ => Read::Ended,
                });
            }
            for (id, (_, frames)) in entries {
                let numbers =
                    id.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
                let Some((first, last)): Option<(u64, u64)> = numbers else { return Ok(Read::Hole) };
                if first > self.last + 1 {
                    return Ok(Read::Hole);
                }
                self.pending.extend_from_slice(words::behind(&frames, first, self.last));
                (self.last, self.pending_last) = (last, last);
                self.hand_over();
            }
        }
    }

    /// Hands over what readers have room for now.
    fn hand_over(&mut self) {
        use futures_util::FutureExt;
        let _ = self.writer.write(&mut self.pending, self.pending_last).now_or_never();
    }

    /// Says that somebody listens, and what they want. Gives whether the home lives.
    async fn look_after(&mut self) -> Result<bool, Away> {
        let (shared, me) = (&self.shared, self.shared.id());
        if self.stop == Stop::Wanted && shared.stop(&self.run).await.is_ok() {
            self.stop = Stop::Told;
        }
        let log = self.writer.log();
        // Who had it followed is about to read.
        if log.is_read() || !log.was_read() {
            shared.tell(&self.home, &Heard::Listening(self.run, me)).await?;
        }
        shared.lives(&self.home).await
    }

    /// Ends a run whose home is gone, for all who follow it: the one who comes first says the error.
    async fn lose(&mut self) {
        let (last, frames) = self.last_word();
        let shared = &self.shared;
        let mut question = words::LOSE.prepare_invoke();
        question.key(shared.names.run(&self.run)).key(shared.names.frames(&self.run, self.token));
        question.arg(self.token.as_str()).arg(&self.home).arg(self.last).arg(last).arg(frames);
        question.arg(millis(shared.settings.age));
        if shared.ask::<bool>(&question).await == Ok(true) {
            occurrence::RunLost { ids: &self.ids, token: self.token.as_str(), home: &self.home }.emit();
        }
        // Read as everything else, at once.
        self.news.notify_one();
    }

    /// RUN_ERROR, as the run's clients take it, and its number. A run that had said nothing begins with it.
    fn last_word(&self) -> (u64, Vec<u8>) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        let mut said = Vec::new();
        let mut stream = Stream::new(self.side, self.side, Some(self.ids.clone()), Limits::default());
        stream.fail(Kind::RunLost.code(), Kind::RunLost.text(), now, &mut said);
        let ends: Vec<usize> = log::ends(&said).collect();
        let begun = if self.last == 0 { 0 } else { ends.len().saturating_sub(1) };
        let (mut number, mut frames) = (self.last, Vec::new());
        for (index, end) in ends.iter().enumerate().skip(begun) {
            number += 1;
            let from = index.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or_default();
            let id = Cursor { token: self.token, number }.to_string();
            // An id of ours fits a line.
            let _ = sse::head(&mut frames, Some(&id), None);
            frames.extend_from_slice(said.get(from..*end).unwrap_or_default());
        }
        (number, frames)
    }
}
