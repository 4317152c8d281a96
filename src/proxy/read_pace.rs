//! Limits how often a run reads from an agent that sends faster than people read.
//!
//! An agent that sends an event every few hundred microseconds costs a wake-up, a read and a write for each. So the run
//! waits for a moment after it has read everything, and the events of that moment leave in one write. Agents that send
//! more slowly, and those that always have more data ready, are never waited for.

use std::time::Duration;
use tokio::task::yield_now;
use tokio::time::sleep;

/// Time between two reads from a fast agent, and the time between its events that makes an agent fast.
const READ_INTERVAL: Duration = Duration::from_millis(1);

#[derive(Debug, Default)]
pub(super) struct ReadPace {
    pace: AgentPace,
    /// events of the last read; `None`: there is more to read
    drained_events: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
enum AgentPace {
    #[default]
    Slow,
    /// the next read waits
    Fast,
    /// the last read has waited
    Waited,
}

impl ReadPace {
    /// Waits for a moment if the agent is fast, and everything it had sent was read. Until then `raise_mark` keeps what
    /// the agent sends from waking the run.
    pub(super) async fn wait_for_events<M>(&mut self, raise_mark: impl FnOnce() -> Option<M>) {
        match self.pace {
            AgentPace::Slow => {}
            AgentPace::Fast => {
                self.pace = AgentPace::Waited;
                // Boxed, since few streams are so fast.
                Box::pin(async {
                    let mark = raise_mark();
                    sleep(READ_INTERVAL).await;
                    if mark.is_some() {
                        drop(mark);
                        // The runtime looks at its sockets before it continues here; one look serves all runs.
                        yield_now().await;
                    }
                })
                .await;
            }
            AgentPace::Waited => self.pace = AgentPace::Slow,
        }
    }

    pub(super) fn on_read(&mut self, events: u64, is_drained: bool) {
        self.drained_events = is_drained.then_some(events);
    }

    /// Decides if the agent is fast, `gap` after the write before this one.
    pub(super) fn on_write(&mut self, gap: Duration) {
        let is_fast = self.drained_events.is_some_and(|events| match self.pace {
            // The wait proves right if more than one event came in the meantime.
            AgentPace::Waited => events > 1,
            AgentPace::Slow | AgentPace::Fast => gap < READ_INTERVAL,
        });
        self.pace = if is_fast { AgentPace::Fast } else { AgentPace::Slow };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    /// Reads and writes these events, and returns the waits before the reads, and before a further one.
    async fn waits(reads: &[(u64, bool, Duration)]) -> Vec<bool> {
        let mut pace = ReadPace::default();
        let mut waits = Vec::new();
        for (events, is_drained, gap) in reads {
            let started_at = Instant::now();
            pace.wait_for_events(|| None::<()>).await;
            waits.push(started_at.elapsed() >= READ_INTERVAL);
            pace.on_read(*events, *is_drained);
            pace.on_write(*gap);
        }
        let started_at = Instant::now();
        pace.wait_for_events(|| None::<()>).await;
        waits.push(started_at.elapsed() >= READ_INTERVAL);
        waits
    }

    const SHORT: Duration = Duration::from_micros(300);
    const LONG: Duration = Duration::from_millis(20);

    #[tokio::test(start_paused = true)]
    async fn waits_for_fast_agents_alone() {
        assert_eq!(waits(&[(1, true, LONG), (1, true, LONG), (5, true, LONG)]).await, [false; 4]);
        assert_eq!(waits(&[(1, true, SHORT), (3, true, LONG), (2, true, LONG)]).await, [false, true, true, true]);
        // The agent became slow.
        assert_eq!(waits(&[(1, true, SHORT), (1, true, LONG), (1, true, LONG)]).await, [false, true, false, false]);
        // There is more to read.
        assert_eq!(waits(&[(9, false, SHORT), (9, false, SHORT)]).await, [false; 3]);
    }
}
