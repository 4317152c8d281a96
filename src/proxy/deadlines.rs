//! The clock of one run, and that on the wall.

use std::pin::Pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::{Instant, Sleep};

/// Why a run may not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// the agent was silent for longer than it may be
    Silent,
    /// no event came in time
    NoEvent,
    /// the caller's credential has expired
    Expired,
    /// the run took as long as it may
    Long,
}

/// When the client last heard something, and the agent said something; and when the run has to end whatever happens. One
/// timer serves all; it is looked at only when it fires, so a busy stream never touches it.
pub(super) struct Clock {
    keep_alive: Duration,
    written: Instant,
    read: Instant,
    silence: Duration,
    /// the deadlines that nothing puts off, each with what it is for
    bounds: Vec<(Instant, Over)>,
    timer: Pin<Box<Sleep>>,
}

impl Clock {
    pub(super) fn new(keep_alive: Duration, silence: Duration) -> Self {
        let now = Instant::now();
        let timer = Box::pin(tokio::time::sleep(keep_alive.min(silence)));
        Clock { keep_alive, written: now, read: now, silence, bounds: Vec::new(), timer }
    }

    /// The run ends `after` that time, counted from `since`, unless it has ended by then.
    pub(super) fn bound(&mut self, since: Instant, after: Duration, over: Over) {
        // What is too far away to be counted never comes.
        self.bounds.extend(since.checked_add(after).map(|at| (at, over)));
        self.set();
    }

    /// Lifts a bound.
    pub(super) fn lift(&mut self, over: Over) {
        self.bounds.retain(|(_, own)| *own != over);
    }

    /// The bound that comes first.
    fn first(&self) -> Option<(Instant, Over)> {
        self.bounds.iter().copied().min_by_key(|(at, _)| *at)
    }

    /// The bound that has come. An agent that floods never lets anybody wait for the timer, so this is asked beside it.
    pub(super) fn passed(&self) -> Option<Over> {
        self.first().filter(|(at, _)| Instant::now() >= *at).map(|(_, over)| over)
    }

    /// Waits until a bound has come, and for nothing else: for a time in which silence is nobody's fault.
    pub(super) async fn ended(&self) {
        match self.first() {
            Some((at, _)) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Begins to measure the agent's silence anew, against another limit. That may be nearer than what the timer waits for.
    pub(super) fn listen(&mut self, silence: Duration) {
        (self.silence, self.read) = (silence, Instant::now());
        self.set();
    }

    /// The agent said something.
    pub(super) fn heard(&mut self) {
        self.read = Instant::now();
    }

    /// The client took something, now. The agent was made to wait meanwhile, so its silence was not its own.
    pub(super) fn told(&mut self) -> Instant {
        let now = Instant::now();
        (self.written, self.read) = (now, now);
        now
    }

    fn set(&mut self) {
        let next = (self.written + self.keep_alive).min(self.read + self.silence);
        let next = self.first().map_or(next, |(at, _)| next.min(at));
        self.timer.as_mut().reset(next);
    }

    /// Waits for the timer; `true` when a keep-alive is due, an error when the run may not go on.
    pub(super) async fn tick(&mut self) -> Result<bool, Over> {
        self.timer.as_mut().await;
        let now = Instant::now();
        if let Some(over) = self.passed() {
            return Err(over);
        }
        if now >= self.read + self.silence {
            return Err(Over::Silent);
        }
        let due = now >= self.written + self.keep_alive;
        if due {
            self.written = now;
        }
        self.set();
        Ok(due)
    }
}

/// The time of day, in ms since the epoch.
pub(super) fn now() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_millis()).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP_ALIVE: Duration = Duration::from_secs(15);
    const SILENCE: Duration = Duration::from_secs(40);

    #[tokio::test(start_paused = true)]
    async fn keep_alives_come_while_the_agent_is_silent_and_then_the_end() {
        let began = Instant::now();
        let mut clock = Clock::new(KEEP_ALIVE, SILENCE);
        let mut at = Vec::new();
        while let Ok(due) = clock.tick().await {
            assert!(due);
            at.push(began.elapsed().as_secs());
        }
        assert_eq!((at, began.elapsed()), (vec![15, 30], SILENCE));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_said_in_between_puts_both_off() {
        let mut clock = Clock::new(KEEP_ALIVE, SILENCE);
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_secs(10)).await;
            clock.told();
            clock.heard();
        }
        // The timer fires for what was armed long ago, and finds nothing to do.
        assert_eq!(clock.tick().await, Ok(false));
        assert_eq!(clock.tick().await, Ok(true));
    }

    #[tokio::test(start_paused = true)]
    async fn the_nearest_bound_ends_the_run_whatever_is_said() {
        let began = Instant::now();
        let mut clock = Clock::new(KEEP_ALIVE, SILENCE);
        clock.bound(began, Duration::MAX, Over::Expired);
        clock.bound(began, Duration::from_secs(70), Over::Long);
        clock.bound(began, Duration::from_secs(10), Over::NoEvent);
        assert_eq!((clock.tick().await, began.elapsed().as_secs()), (Err(Over::NoEvent), 10));
        clock.lift(Over::NoEvent);
        assert_eq!(clock.passed(), None);
        loop {
            clock.told();
            match clock.tick().await {
                Ok(_) => assert_eq!(clock.passed(), None),
                Err(over) => break assert_eq!(over, Over::Long),
            }
        }
        assert_eq!((clock.passed(), began.elapsed().as_secs()), (Some(Over::Long), 70));
        // Whoever waits for nothing else is told as well.
        clock.ended().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_bound_that_was_passed_before_ends_the_run_at_once() {
        let began = Instant::now();
        let mut clock = Clock::new(KEEP_ALIVE, SILENCE);
        clock.bound(began, Duration::ZERO, Over::Expired);
        assert_eq!((clock.tick().await, began.elapsed()), (Err(Over::Expired), Duration::ZERO));
    }
}
