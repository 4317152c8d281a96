//! The clock of one run.

use std::pin::Pin;
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// The agent was silent for longer than it may be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Silent;

/// When the client last heard something, and the agent said something. One timer serves both; it is looked at only when
/// it fires, so a busy stream never touches it.
pub(super) struct Clock {
    keep_alive: Duration,
    written: Instant,
    read: Instant,
    silence: Duration,
    timer: Pin<Box<Sleep>>,
}

impl Clock {
    pub(super) fn new(keep_alive: Duration, silence: Duration) -> Self {
        let now = Instant::now();
        let timer = Box::pin(tokio::time::sleep(keep_alive.min(silence)));
        Clock { keep_alive, written: now, read: now, silence, timer }
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

    /// The client took something. The agent was made to wait meanwhile, so its silence was not its own.
    pub(super) fn told(&mut self) {
        let now = Instant::now();
        (self.written, self.read) = (now, now);
    }

    fn set(&mut self) {
        self.timer.as_mut().reset((self.written + self.keep_alive).min(self.read + self.silence));
    }

    /// Waits for the timer; `true` when a keep-alive is due, an error when the agent was silent for too long.
    pub(super) async fn tick(&mut self) -> Result<bool, Silent> {
        self.timer.as_mut().await;
        let now = Instant::now();
        if now >= self.read + self.silence {
            return Err(Silent);
        }
        let due = now >= self.written + self.keep_alive;
        if due {
            self.written = now;
        }
        self.set();
        Ok(due)
    }
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
}
