//! A run of this replica as the others see it.
//!
//! ```text
//!   Anew ── claimed, summed up ──▶ Copying ── frames, sums ──┐
//!    ▲                              │ │ ▲────────────────────┘
//!    ╰── Redis lost it ─────────────╯ ╰── the end, or it is another one's ──▶ over
//! ```
//! While Redis does not answer nothing is lost: the log keeps what comes, and what it trims meanwhile comes as a sum.

use super::super::log::{Log, Mirror, Mirrored, Sum};
use super::words::{self, Heard};
use super::{About, Away, Claimed, LEASE, RETRY, Shared, millis};
use crate::telemetry::occurrence;
use bytes::Bytes;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long the end of a run is kept for a Redis that does not answer. The process may wait for it.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A run that is at home here.
#[derive(Debug)]
pub(super) struct Home {
    pub log: Arc<Log>,
    /// the processes that follow it, and when each was heard of last
    followers: Mutex<Vec<(String, Instant)>>,
}

impl Home {
    pub fn new(log: Arc<Log>) -> Home {
        Home { log, followers: Mutex::default() }
    }

    /// Somebody listens at another process.
    pub fn is_heard_by(&self, process: &str) {
        self.log.listened();
        let now = Instant::now();
        // Nothing panics while the lock is held.
        let mut followers = self.followers.lock().unwrap_or_else(PoisonError::into_inner);
        followers.retain(|(known, heard)| known != process && now < *heard + LEASE);
        followers.push((process.to_owned(), now));
    }

    fn followers(&self) -> Vec<String> {
        let followers = self.followers.lock().unwrap_or_else(PoisonError::into_inner);
        followers.iter().map(|(process, _)| process.clone()).collect()
    }
}

/// Copies one run.
pub(super) struct Broadcast {
    shared: Arc<Shared>,
    about: About,
    home: Arc<Home>,
    mirror: Mirror,
    /// up to which frame it was copied
    sent: u64,
    /// whether Redis knows what the conversation held before the run
    founded: bool,
    /// up to which frame Redis has a sum
    summed: u64,
}

/// What is to be done.
enum Todo {
    /// everything is to be said from the beginning
    Anew,
    Say(Mirrored),
    /// whether everything still stands
    Look,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    Yes,
    /// Redis does not have what this stands on
    Lost,
    /// another run has the key
    Anothers,
}

impl Broadcast {
    pub fn new(shared: Arc<Shared>, about: About, home: Arc<Home>) -> Broadcast {
        let mirror = Mirror::new(&home.log);
        Broadcast { shared, about, home, mirror, sent: 0, founded: false, summed: 0 }
    }

    /// Copies until the run ends, or is another one's.
    pub async fn go(mut self, claimed: bool) {
        self.founded = claimed;
        self.copy(claimed).await;
        let mut homes = self.shared.homes();
        if homes.get(&self.about.run).is_some_and(|home| Arc::ptr_eq(home, &self.home)) {
            homes.remove(&self.about.run);
        }
    }

    async fn copy(&mut self, claimed: bool) {
        let mut losses = self.shared.losses.subscribe();
        let mut todo = (!claimed).then_some(Todo::Anew);
        let mut ended: Option<Instant> = None;
        loop {
            let Some(doing) = &todo else {
                todo = Some(tokio::select! {
                    seen = self.mirror.next() => Todo::Say(seen),
                    _ = losses.changed() => Todo::Look,
                    () = sleep(self.shared.living() / 3) => Todo::Look,
                });
                continue;
            };
            let shared = Arc::clone(&self.shared);
            let copies = shared.copies.acquire().await;
            let is_end = matches!(doing, Todo::Say(Mirrored::Finished | Mirrored::Cut));
            let done = match doing {
                Todo::Anew => self.anew().await,
                Todo::Say(seen) => self.say(&seen.clone()).await,
                Todo::Look => self.look().await,
            };
            drop(copies);
            todo = match done {
                Ok(Done::Yes) if is_end => return,
                Ok(Done::Yes) => None,
                Ok(Done::Lost) => Some(Todo::Anew),
                Ok(Done::Anothers) => {
                    occurrence::Unshared { ids: &self.about.ids, token: self.about.token.as_str() }.emit();
                    return;
                }
                Err(Away) => {
                    let log = &self.home.log;
                    if log.is_open() {
                        tokio::select! {
                            () = self.shared.redis.back() => {}
                            () = log.reaches(u64::MAX) => {}
                        }
                    } else if ended.get_or_insert_with(Instant::now).elapsed() > LAST_WORDS {
                        return;
                    }
                    sleep(RETRY).await;
                    todo
                }
            };
        }
    }

    async fn say(&mut self, seen: &Mirrored) -> Result<Done, Away> {
        match seen {
            Mirrored::Frames { first, last, bytes } => self.append(*first, *last, bytes).await,
            Mirrored::Trimmed { through } if *through <= self.sent => Ok(Done::Yes),
            Mirrored::Trimmed { .. } => self.sum(true).await,
            Mirrored::Finished => {
                let kept = self.shared.store.find(&self.about.run);
                let kept = kept.is_some_and(|kept| Arc::ptr_eq(&kept.log, &self.home.log));
                self.end(if kept { "ended" } else { "gone" }).await
            }
            Mirrored::Cut => self.end("cut").await,
        }
    }

    async fn append(&mut self, first: u64, last: u64, frames: &Bytes) -> Result<Done, Away> {
        if !self.founded {
            let done = self.sum(true).await?;
            if done != Done::Yes {
                return Ok(done);
            }
        }
        let frames = words::behind(frames, first, self.sent);
        if frames.is_empty() {
            return Ok(Done::Yes);
        }
        let (shared, about) = (&self.shared, &self.about);
        let mut question = words::APPEND.prepare_invoke();
        question.key(shared.names.run(&about.run)).key(shared.names.frames(&about.run, about.token));
        question.arg(about.token.as_str()).arg(first.max(self.sent + 1)).arg(last).arg(frames);
        question.arg(millis(shared.living())).arg(Heard::News(about.run).to_string());
        for process in self.home.followers() {
            question.arg(shared.names.home(&process));
        }
        let done = self.done(shared.ask(&question).await?);
        if done == Done::Yes {
            self.sent = last;
            if self.home.log.summed() > self.summed {
                return self.sum(false).await;
            }
        }
        Ok(done)
    }

    /// Says what the log only has a sum of. `anew` where nothing of what Redis has counts.
    async fn sum(&mut self, anew: bool) -> Result<Done, Away> {
        let (through, frames) = match self.mirror.sum() {
            Sum::Nothing => return Ok(Done::Yes),
            Sum::GivenUp => (self.home.log.summed(), Vec::new()),
            Sum::Through(through, frames) => (through, frames),
        };
        let (shared, about) = (&self.shared, &self.about);
        let mut question = words::SUM.prepare_invoke();
        question.key(shared.names.run(&about.run)).key(shared.names.frames(&about.run, about.token));
        question.arg(about.token.as_str()).arg(through).arg(frames).arg(u8::from(anew)).arg(millis(shared.living()));
        let done = self.done(shared.ask(&question).await?);
        if done == Done::Yes {
            self.founded = true;
            self.summed = through;
            self.sent = if anew { through } else { self.sent.max(through) };
        }
        Ok(done)
    }

    /// Says everything from the beginning.
    async fn anew(&mut self) -> Result<Done, Away> {
        match self.shared.claim_within(super::ANSWER, &self.about, None).await {
            Claimed::Mine => {}
            Claimed::Known | Claimed::Taken => return Ok(Done::Anothers),
            Claimed::Alone => return Err(Away),
        }
        self.mirror = Mirror::new(&self.home.log);
        (self.sent, self.summed, self.founded) = (0, 0, false);
        self.sum(true).await
    }

    async fn look(&mut self) -> Result<Done, Away> {
        let (shared, about) = (&self.shared, &self.about);
        let mut question = words::TOUCH.prepare_invoke();
        question.key(shared.names.run(&about.run)).key(shared.names.frames(&about.run, about.token));
        question.arg(about.token.as_str()).arg(millis(shared.living())).arg(self.sent);
        Ok(self.done(shared.ask(&question).await?))
    }

    async fn end(&self, how: &str) -> Result<Done, Away> {
        Ok(self.done(self.shared.end(&self.about, how, &self.home.followers()).await?))
    }

    fn done(&self, answer: i64) -> Done {
        match answer {
            1 => Done::Yes,
            2 => {
                self.home.log.stop();
                Done::Yes
            }
            -1 => Done::Lost,
            _ => Done::Anothers,
        }
    }
}
