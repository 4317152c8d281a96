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

mod follow;
mod home;
mod words;

use self::home::Home;
use super::log::Held;
use super::store::{Kept, Key, Store};
use super::{Cursor, Token};
use crate::dialect::{Content, Side};
use crate::guard::redis::Redis;
use crate::telemetry::metric::ReplayMetrics;
use crate::translate::Ids;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use redis::{FromRedisValue, ScriptInvocation};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};
use words::{Heard, Names};

/// For what no request waits for: a copy may be late.
const ANSWER: Duration = Duration::from_secs(1);

/// How often a process says that it lives, and how long that is believed.
const BEAT: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(5);

/// How long the home of a run may be without a lease before the run is taken for lost: its Redis may just have come back.
const LOST_AFTER: Duration = Duration::from_secs(3);

/// How long a Redis that lost its data gets to hear of all runs again. Until then what it does not know may exist.
const SETTLE: Duration = Duration::from_secs(3);

/// Shortest time for which a run that goes on stays in Redis behind the last word of its home.
const LIVING: Duration = Duration::from_secs(60);

/// How long who asks to read on waits for what the home has not copied yet.
const CATCH_UP: Duration = Duration::from_secs(1);

/// How many runs copy at once, so that all together are not too much for the time of an answer.
const COPIES: usize = 64;

/// Before something is tried again.
const RETRY: Duration = Duration::from_millis(250);

/// The runs of all replicas.
#[derive(Debug)]
pub struct Shared {
    store: Arc<Store>,
    redis: Redis,
    names: Names,
    settings: Settings,
    /// how long a request waits
    deadline: Duration,
    /// the runs of this process
    homes: Mutex<HashMap<Key, Arc<Home>>>,
    /// who waits for news of runs of others
    followed: Mutex<HashMap<Key, Arc<Notify>>>,
    /// lets so many runs copy at once: after it was away all want to
    copies: Semaphore,
    /// how often Redis was found to have lost its data, and when it last was
    losses: watch::Sender<(u64, Option<Instant>)>,
    metrics: ReplayMetrics,
}

/// What is said about this process.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// what it is called among the replicas; another name each time that it is started
    pub process: Token,
    /// silence after which readers get a comment
    pub keep_alive: Duration,
    /// how long a run is kept behind its end
    pub age: Duration,
}

/// What others have to know of a run.
#[derive(Clone, Debug)]
pub struct About {
    /// by which it is found
    pub run: Key,
    /// by which its thread is found
    pub thread: Key,
    /// by which the request is known again that asked for it
    pub body: Key,
    /// what its events' ids begin with
    pub token: Token,
    /// what its clients speak
    pub side: Side,
    /// its ids
    pub ids: Ids,
}

/// There is no answer now: it may exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Away;

/// Why a run cannot be read here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfound {
    /// there is no answer now: it may exist
    Away,
    /// it was too large to be kept
    TooLarge,
}

impl From<Away> for Unfound {
    fn from(Away: Away) -> Unfound {
        Unfound::Away
    }
}

/// Whose a run is that is to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// of this replica
    Mine,
    /// the same run was asked for already, of some replica
    Known,
    /// another run has its key, and goes on
    Taken,
    /// of this replica, which knows of no other: there is no answer now
    Alone,
}

/// A run that a request is about, as far as it is known here.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// by which it is found
    pub run: Key,
    /// what the route's clients speak
    pub side: Side,
    /// behind which event somebody wants to read on
    pub cursor: Option<Cursor>,
}

impl Shared {
    /// The runs of `store` and those of the replicas that share this Redis. Nothing is connected to yet; see [`Shared::watch`].
    #[must_use]
    pub fn new(store: Arc<Store>, redis: &Redis, settings: Settings, metrics: ReplayMetrics) -> Arc<Shared> {
        Arc::new(Shared {
            store,
            names: Names::new(redis.prefix()),
            deadline: redis.deadline(),
            redis: redis.beside(ANSWER),
            settings,
            homes: Mutex::default(),
            followed: Mutex::default(),
            copies: Semaphore::new(COPIES),
            losses: watch::Sender::new((0, None)),
            metrics,
        })
    }

    /// Keeps the connection, the lease and the ear open, until the process ends: never returns.
    pub async fn watch(&self) {
        tokio::join!(self.redis.watch(), self.beat(), self.hear());
    }

    /// The run of a key: one of this replica, or one of another that is followed from now on. Who follows it hears of the
    /// process's end by `cut`.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub async fn find(
        self: &Arc<Self>,
        wanted: Wanted,
        cut: BoxFuture<'static, ()>,
    ) -> Result<Option<Arc<Kept>>, Unfound> {
        let kept = match self.store.find(&wanted.run) {
            Some(kept) => kept,
            None => match self.follow(wanted, cut).await? {
                Some(kept) => kept,
                None => return Ok(None),
            },
        };
        if let Some(cursor) = wanted.cursor.filter(|cursor| kept.elsewhere && cursor.token == kept.log.token()) {
            // A client may be faster than the copy of what it has heard.
            let _ = timeout(CATCH_UP, kept.log.reaches(cursor.number)).await;
        }
        Ok(Some(kept))
    }

    /// The last run of a thread, as [`Shared::find`].
    ///
    /// # Errors
    /// There may be one.
    pub async fn last(&self, thread: &Key) -> Result<Option<Key>, Away> {
        let name = self.names.last(thread);
        let asked = self.redis.ask(async |mut connection| {
            redis::cmd("GET").arg(name).query_async::<Option<String>>(&mut connection).await
        });
        let said = timeout(self.deadline, asked).await.ok().and_then(Result::ok);
        Ok(said.ok_or_else(|| self.away())?.as_deref().and_then(words::key_of))
    }

    /// Has a run of another replica end. `false` where there is none.
    ///
    /// # Errors
    /// There may be one.
    pub async fn stop(&self, run: &Key) -> Result<bool, Away> {
        let mut question = words::STOP.prepare_invoke();
        question.key(self.names.run(run));
        question.key(self.names.home(self.id()));
        let (known, home, leased): (bool, String, bool) = self.ask_soon(&question).await?;
        if known && !home.is_empty() {
            // It finds the same when it looks by itself; this is faster.
            let _ = self.tell(&home, &Heard::Stop(*run)).await;
        }
        // What it does not know may exist, if it does not know of this process either.
        if known || (leased && self.is_settled()) { Ok(known) } else { Err(self.away()) }
    }

    /// Takes a run that is to begin for this replica. `messages` are those of its conversation.
    pub async fn claim(&self, about: &About, messages: Option<&str>) -> Claimed {
        self.claim_within(self.deadline, about, messages).await
    }

    /// Copies a run of this replica, until its end. `claimed` says what came of its claim; `held` is let go at the end.
    pub fn broadcast(
        self: &Arc<Self>,
        about: About,
        log: &Arc<super::Log>,
        claimed: Claimed,
        held: impl Held + 'static,
    ) {
        let home = Arc::new(Home::new(Arc::clone(log)));
        self.homes().insert(about.run, Arc::clone(&home));
        let task = home::Broadcast::new(Arc::clone(self), about, home);
        tokio::spawn(async move {
            task.go(claimed == Claimed::Mine).await;
            drop(held);
        });
    }

    /// The run that was claimed does not begin.
    pub async fn release(&self, about: &About) {
        let _ = self.end(about, "gone", &[]).await;
    }

    /// Says again and again that this process lives.
    async fn beat(&self) {
        let mut said = false;
        loop {
            let mut question = words::BEAT.prepare_invoke();
            question.key(self.names.home(self.id())).arg(millis(LEASE));
            let fresh = self.ask::<bool>(&question).await;
            if fresh == Ok(true) && said {
                // It was gone, with everything else or because nothing was said for long: all look whether they still stand.
                self.losses.send_modify(|(count, when)| (*count, *when) = (*count + 1, Some(Instant::now())));
            }
            said |= fresh.is_ok();
            sleep(BEAT).await;
        }
    }

    /// Hears what others have to say to this process.
    async fn hear(&self) {
        let channel = self.names.home(self.id());
        loop {
            if let Ok(mut heard) = self.redis.listen(&channel).await {
                let mut messages = heard.on_message();
                while let Some(message) = messages.next().await {
                    self.heard(message.get_payload_bytes());
                }
            }
            sleep(RETRY).await;
        }
    }

    fn heard(&self, message: &[u8]) {
        match Heard::read(message) {
            Some(Heard::News(run)) => {
                if let Some(follower) = self.followed().get(&run) {
                    follower.notify_one();
                }
            }
            Some(Heard::Stop(run)) => {
                let home = self.homes().get(&run).cloned();
                if let Some(home) = home {
                    home.log.stop();
                }
            }
            Some(Heard::Listening(run, who)) => {
                let home = self.homes().get(&run).cloned();
                if let Some(home) = home {
                    home.is_heard_by(who);
                }
            }
            None => {}
        }
    }

    /// Says something to a process, if it hears.
    async fn tell(&self, process: &str, message: &Heard<'_>) -> Result<(), Away> {
        let (channel, message) = (self.names.home(process), message.to_string());
        let asked = self.redis.ask(async |mut connection| {
            redis::cmd("PUBLISH").arg(channel).arg(message).query_async::<()>(&mut connection).await
        });
        asked.await.map_err(|_| self.away())
    }

    async fn claim_within(&self, limit: Duration, about: &About, messages: Option<&str>) -> Claimed {
        let mut over = String::new();
        loop {
            let mut question = words::CLAIM.prepare_invoke();
            question.key(self.names.run(&about.run)).key(self.names.last(&about.thread));
            question.arg(about.token.as_str()).arg(words::hex(&about.body)).arg(&over).arg(millis(self.living()));
            question.arg(words::hex(&about.run));
            for (field, value) in [
                ("th", words::hex(&about.thread)),
                ("h", self.id().to_owned()),
                ("d", about.side.dialect.name.to_owned()),
                ("c", u8::from(about.side.content == Content::Blocks).to_string()),
                ("i", about.ids.thread_id.as_str().to_owned()),
                ("r", about.ids.run_id.as_str().to_owned()),
            ] {
                question.arg(field).arg(value);
            }
            question.arg("m").arg(messages.unwrap_or_default());
            let asked = timeout(limit, self.ask::<(String, String, String)>(&question)).await;
            let Ok(Ok((verdict, token, home))) = asked else { return Claimed::Alone };
            match verdict.as_str() {
                "mine" => break,
                "known" => return Claimed::Known,
                // Of a process that is gone it goes on no longer.
                _ if over.is_empty() && self.lives(&home).await == Ok(false) => over = token,
                _ => return Claimed::Taken,
            }
        }
        Claimed::Mine
    }

    /// Whether a process has its lease.
    async fn lives(&self, process: &str) -> Result<bool, Away> {
        let name = self.names.home(process);
        let asked = self
            .redis
            .ask(async |mut connection| redis::cmd("EXISTS").arg(name).query_async::<bool>(&mut connection).await);
        asked.await.map_err(|_| self.away())
    }

    /// Whether all who live had time to say again what Redis lost, if it lost anything.
    fn is_settled(&self) -> bool {
        self.losses.borrow().1.is_none_or(|when| when.elapsed() >= SETTLE)
    }

    /// Says how a run ended. Who follows it sees that behind its last event.
    async fn end(&self, about: &About, how: &str, followers: &[String]) -> Result<i64, Away> {
        let age = if how == "ended" { self.settings.age } else { LEASE };
        let mut question = words::END.prepare_invoke();
        question.key(self.names.run(&about.run)).key(self.names.frames(&about.run, about.token));
        question.arg(about.token.as_str()).arg(how).arg(millis(age)).arg(Heard::News(about.run).to_string());
        for process in followers {
            question.arg(self.names.home(process));
        }
        self.ask(&question).await
    }

    async fn ask<T: FromRedisValue>(&self, question: &ScriptInvocation<'_>) -> Result<T, Away> {
        let asked = self.redis.ask(async |mut connection| question.invoke_async::<T>(&mut connection).await);
        asked.await.map_err(|_| self.away())
    }

    /// The same, for what a request waits for.
    async fn ask_soon<T: FromRedisValue>(&self, question: &ScriptInvocation<'_>) -> Result<T, Away> {
        timeout(self.deadline, self.ask(question)).await.unwrap_or_else(|_| Err(self.away()))
    }

    fn away(&self) -> Away {
        self.metrics.unanswered();
        Away
    }

    fn id(&self) -> &str {
        self.settings.process.as_str()
    }

    /// For how long a run stays in Redis without a word of its home.
    fn living(&self) -> Duration {
        self.settings.age.max(LIVING)
    }

    fn homes(&self) -> MutexGuard<'_, HashMap<Key, Arc<Home>>> {
        // Nothing panics while the lock is held.
        self.homes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn followed(&self) -> MutexGuard<'_, HashMap<Key, Arc<Notify>>> {
        // The same.
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
