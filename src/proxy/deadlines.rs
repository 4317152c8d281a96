//! The deadlines of one run, and the wall clock.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::{Instant, Sleep};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeadlineKind {
    /// the agent sent nothing
    AgentIdle,
    /// the agent sent comments or parts of an event, but no event
    PingsOnly,
    FirstEvent,
    Credential,
    RunDuration,
}

#[derive(Clone, Copy)]
struct Deadline {
    at: Instant,
    kind: DeadlineKind,
}

/// A run's deadlines and keep-alives. They share one timer that is checked only when it fires, so traffic never resets
/// it. It is set only when the run waits, since the run of a fast agent hardly waits.
// In this order in memory: what every event touches comes first.
#[repr(C)]
pub(super) struct RunDeadlines {
    last_write: Instant,
    last_read: Instant,
    last_event: Instant,
    /// the deadlines have changed since the timer was set
    is_timer_stale: bool,
    keep_alive: Duration,
    idle_limit: Duration,
    /// maximum time between two events, whatever else the agent sends
    ping_limit: Duration,
    /// deadlines that traffic does not extend
    fixed: Vec<Deadline>,
    /// since when the agent is not read; its deadlines are paused
    paused_since: Option<Instant>,
    timer: Pin<Box<Sleep>>,
}

impl RunDeadlines {
    pub(super) fn new(keep_alive: Duration, idle_limit: Duration) -> Self {
        let now = Instant::now();
        let timer = Box::pin(tokio::time::sleep(keep_alive.min(idle_limit)));
        RunDeadlines {
            keep_alive,
            last_write: now,
            last_read: now,
            last_event: now,
            idle_limit,
            ping_limit: Duration::MAX,
            fixed: Vec::new(),
            paused_since: None,
            timer,
            is_timer_stale: false,
        }
    }

    pub(super) fn set_deadline(&mut self, since: Instant, after: Duration, kind: DeadlineKind) {
        // A deadline too far in the future to be represented never expires.
        self.fixed.extend(since.checked_add(after).map(|at| Deadline { at, kind }));
        self.is_timer_stale = true;
    }

    pub(super) fn clear_deadline(&mut self, kind: DeadlineKind) {
        self.fixed.retain(|deadline| deadline.kind != kind);
    }

    /// Stops the agent's deadlines while the gateway does not read from it.
    pub(super) fn pause_agent(&mut self) {
        self.paused_since = Some(Instant::now());
        self.is_timer_stale = true;
    }

    /// Resumes the agent's deadlines, later by the time of the pause.
    pub(super) fn resume_agent(&mut self) {
        let paused = self.paused_since.take().map_or(Duration::ZERO, |since| since.elapsed());
        self.last_read += paused;
        self.last_event += paused;
        self.fixed.iter_mut().filter(|deadline| deadline.kind == DeadlineKind::FirstEvent).for_each(|deadline| {
            deadline.at += paused;
        });
        self.is_timer_stale = true;
    }

    fn next_deadline(&self) -> Option<Deadline> {
        let is_running = |deadline: &Deadline| self.paused_since.is_none() || deadline.kind != DeadlineKind::FirstEvent;
        self.fixed.iter().copied().filter(is_running).min_by_key(|deadline| deadline.at)
    }

    /// Returns the agent's idle and ping deadlines; none while it is paused.
    fn agent_deadlines(&self) -> [Option<Deadline>; 2] {
        if self.paused_since.is_some() {
            return [None, None];
        }
        let idle = self.last_read.checked_add(self.idle_limit);
        let pings = self.last_event.checked_add(self.ping_limit);
        [
            idle.map(|at| Deadline { at, kind: DeadlineKind::AgentIdle }),
            pings.map(|at| Deadline { at, kind: DeadlineKind::PingsOnly }),
        ]
    }

    /// Returns an expired deadline without waiting for the timer, for runs whose agents always have data ready.
    pub(super) fn find_expired(&self, now: Instant) -> Option<DeadlineKind> {
        let expired = self.next_deadline().filter(|deadline| now >= deadline.at);
        let has_only_pings = self.last_read > self.last_event && self.last_read - self.last_event >= self.ping_limit;
        expired.map(|deadline| deadline.kind).or(has_only_pings.then_some(DeadlineKind::PingsOnly))
    }

    pub(super) async fn wait_expired(&self) {
        match self.next_deadline() {
            Some(Deadline { at, .. }) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Restarts the idle timeout with a different duration, to wait for a response.
    pub(super) fn restart_idle(&mut self, silence: Duration) {
        self.restart_stream(silence, Duration::MAX);
    }

    /// Restarts the timeouts for the events of a stream.
    pub(super) fn restart_stream(&mut self, idle_limit: Duration, ping_limit: Duration) {
        self.idle_limit = idle_limit;
        self.ping_limit = ping_limit;
        self.last_read = Instant::now();
        self.last_event = self.last_read;
        self.is_timer_stale = true;
    }

    pub(super) fn on_read(&mut self, now: Instant, has_event: bool) {
        self.last_read = now;
        if has_event {
            self.last_event = now;
        }
    }

    /// Restarts the keep-alive. The agent had to wait for the write, so its deadlines are later by that time. What is
    /// written may come of no event.
    pub(super) fn on_write(&mut self, now: Instant) {
        if now > self.last_read {
            self.last_event += now - self.last_read;
            self.last_read = now;
        }
        self.last_write = now;
    }

    fn reset_timer(&mut self) {
        let deadlines = self.agent_deadlines().into_iter().chain([self.next_deadline()]).flatten();
        let next = deadlines.map(|deadline| deadline.at).fold(self.last_write + self.keep_alive, Instant::min);
        self.timer.as_mut().reset(next);
    }

    /// Returns whether the timer must be set and polled again.
    pub(super) const fn is_timer_stale(&self) -> bool {
        self.is_timer_stale
    }

    /// Waits for the timer. Returns `true` if a keep-alive is due.
    pub(super) fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, DeadlineKind>> {
        if std::mem::take(&mut self.is_timer_stale) {
            self.reset_timer();
        }
        ready!(self.timer.as_mut().poll(cx));
        let now = Instant::now();
        if let Some(kind) = self.find_expired(now) {
            return Poll::Ready(Err(kind));
        }
        if let Some(expired) = self.agent_deadlines().into_iter().flatten().find(|deadline| now >= deadline.at) {
            return Poll::Ready(Err(expired.kind));
        }
        let due = now >= self.last_write + self.keep_alive;
        if due {
            self.last_write = now;
        }
        self.reset_timer();
        Poll::Ready(Ok(due))
    }
}

pub(crate) fn now_millis() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    impl RunDeadlines {
        async fn tick(&mut self) -> Result<bool, DeadlineKind> {
            std::future::poll_fn(|cx| self.poll_tick(cx)).await
        }
    }

    const KEEP_ALIVE: Duration = Duration::from_secs(15);
    const SILENCE: Duration = Duration::from_secs(40);

    #[tokio::test(start_paused = true)]
    async fn sends_keep_alives_to_a_silent_run_then_times_out() {
        let began = Instant::now();
        let mut deadlines = RunDeadlines::new(KEEP_ALIVE, SILENCE);
        let mut at = Vec::new();
        while let Ok(due) = deadlines.tick().await {
            assert!(due);
            at.push(began.elapsed().as_secs());
        }
        assert_eq!((at, began.elapsed()), (vec![15, 30], SILENCE));
    }

    #[tokio::test(start_paused = true)]
    async fn traffic_postpones_keep_alive_and_timeout() {
        let mut deadlines = RunDeadlines::new(KEEP_ALIVE, SILENCE);
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_secs(10)).await;
            deadlines.on_write(Instant::now());
            deadlines.on_read(Instant::now(), true);
        }
        // The timer fires for an outdated deadline and finds nothing to do.
        assert_eq!(deadlines.tick().await, Ok(false));
        assert_eq!(deadlines.tick().await, Ok(true));
    }

    #[tokio::test(start_paused = true)]
    async fn ends_an_agent_that_only_pings_but_later_than_a_silent_one() {
        let mut deadlines = RunDeadlines::new(KEEP_ALIVE, SILENCE);
        deadlines.restart_stream(SILENCE, 3 * SILENCE);
        let began = Instant::now();
        let expired = loop {
            // The agent pings as often as keep-alives are due; until 60 s it also sends events.
            deadlines.on_read(Instant::now(), began.elapsed() <= Duration::from_secs(60));
            match deadlines.tick().await {
                Ok(_) => assert_eq!(deadlines.find_expired(Instant::now()), None),
                Err(kind) => break kind,
            }
        };
        assert_eq!((expired, began.elapsed().as_secs()), (DeadlineKind::PingsOnly, 60 + 120));
        // Also without the timer, if the agent floods the gateway with pings.
        deadlines.on_read(Instant::now(), false);
        assert_eq!(deadlines.find_expired(Instant::now()), Some(DeadlineKind::PingsOnly));
        // Nor does what is written of the pings count, only the time that the agent waited for it.
        deadlines.restart_stream(SILENCE, 3 * SILENCE);
        tokio::time::sleep(2 * SILENCE).await;
        deadlines.on_read(Instant::now(), false);
        tokio::time::sleep(5 * SILENCE).await;
        deadlines.on_write(Instant::now());
        tokio::time::sleep(SILENCE / 2).await;
        deadlines.on_read(Instant::now(), false);
        assert_eq!(deadlines.find_expired(Instant::now()), None);
        tokio::time::sleep(SILENCE / 2).await;
        deadlines.on_read(Instant::now(), false);
        assert_eq!(deadlines.find_expired(Instant::now()), Some(DeadlineKind::PingsOnly));
        // Not while the gateway waits for a response.
        deadlines.restart_idle(SILENCE);
        assert_eq!((deadlines.tick().await, deadlines.find_expired(Instant::now())), (Ok(true), None));
    }

    #[tokio::test(start_paused = true)]
    async fn nearest_deadline_ends_the_run_despite_traffic() {
        let began = Instant::now();
        let mut deadlines = RunDeadlines::new(KEEP_ALIVE, SILENCE);
        deadlines.set_deadline(began, Duration::MAX, DeadlineKind::Credential);
        deadlines.set_deadline(began, Duration::from_secs(70), DeadlineKind::RunDuration);
        deadlines.set_deadline(began, Duration::from_secs(10), DeadlineKind::FirstEvent);
        assert_eq!((deadlines.tick().await, began.elapsed().as_secs()), (Err(DeadlineKind::FirstEvent), 10));
        deadlines.clear_deadline(DeadlineKind::FirstEvent);
        assert_eq!(deadlines.find_expired(Instant::now()), None);
        loop {
            deadlines.on_write(Instant::now());
            match deadlines.tick().await {
                Ok(_) => assert_eq!(deadlines.find_expired(Instant::now()), None),
                Err(kind) => break assert_eq!(kind, DeadlineKind::RunDuration),
            }
        }
        assert_eq!(
            (deadlines.find_expired(Instant::now()), began.elapsed().as_secs()),
            (Some(DeadlineKind::RunDuration), 70)
        );
        // Also returns immediately.
        deadlines.wait_expired().await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_agents_deadlines_are_paused_while_it_is_not_read() {
        let began = Instant::now();
        let mut deadlines = RunDeadlines::new(KEEP_ALIVE, SILENCE);
        deadlines.restart_stream(SILENCE, SILENCE);
        deadlines.set_deadline(began, SILENCE, DeadlineKind::FirstEvent);
        deadlines.set_deadline(began, 5 * SILENCE, DeadlineKind::RunDuration);
        tokio::time::sleep(SILENCE / 2).await;
        deadlines.pause_agent();
        while began.elapsed() < 3 * SILENCE {
            assert!(deadlines.tick().await.is_ok(), "only keep-alives");
        }
        let paused = began.elapsed() - SILENCE / 2;
        deadlines.resume_agent();
        assert_eq!(deadlines.find_expired(Instant::now()), None);
        let expired = loop {
            if let Err(kind) = deadlines.tick().await {
                break kind;
            }
        };
        assert_eq!((expired, began.elapsed()), (DeadlineKind::FirstEvent, SILENCE + paused));
        deadlines.clear_deadline(DeadlineKind::FirstEvent);
        assert_eq!(deadlines.tick().await, Err(DeadlineKind::AgentIdle));
        // Other deadlines do not wait.
        deadlines.pause_agent();
        while began.elapsed() < 5 * SILENCE {
            let _ = deadlines.tick().await;
        }
        assert_eq!(deadlines.find_expired(Instant::now()), Some(DeadlineKind::RunDuration));
    }

    #[tokio::test(start_paused = true)]
    async fn deadline_in_the_past_ends_the_run_at_once() {
        let began = Instant::now();
        let mut deadlines = RunDeadlines::new(KEEP_ALIVE, SILENCE);
        deadlines.set_deadline(began, Duration::ZERO, DeadlineKind::Credential);
        assert_eq!((deadlines.tick().await, began.elapsed()), (Err(DeadlineKind::Credential), Duration::ZERO));
    }
}
