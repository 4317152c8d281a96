//! What is broken while runs go on: a run may fail for a reason only if the reason was there during the run.

use super::report::SoakReport;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Interval of the check for stalls, and the delay that is one: the deadline of Redis is a second.
const STALL_CHECK: Duration = Duration::from_millis(200);
const LEAST_STALL: Duration = Duration::from_millis(700);

/// The outages of one part, such as Redis.
pub struct Outages {
    /// how long an outage has an effect behind its end
    grace: Duration,
    times: Mutex<OutageTimes>,
}

#[derive(Default)]
struct OutageTimes {
    open: usize,
    ended: Option<Instant>,
}

impl Outages {
    pub fn with_grace(grace: Duration) -> Outages {
        Outages { grace, times: Mutex::default() }
    }

    pub fn begin(&self) {
        self.times.lock().expect("whole").open += 1;
    }

    pub fn end(&self) {
        let mut times = self.times.lock().expect("whole");
        times.open -= 1;
        times.ended = Some(Instant::now());
    }

    /// Returns whether an outage was there at some time from `start` until now.
    pub fn overlap(&self, start: Instant) -> bool {
        let times = self.times.lock().expect("whole");
        times.open > 0 || times.ended.is_some_and(|ended| ended + self.grace > start)
    }
}

/// Everything that is broken at times.
pub struct Situation {
    pub agents: Outages,
    pub redis: Outages,
    pub upgrades: Outages,
    /// times at which the machine was too busy to run the soak, and so perhaps the gateways and Redis
    pub stalls: Outages,
}

impl Default for Situation {
    fn default() -> Self {
        let seconds = |seconds| Outages::with_grace(Duration::from_secs(seconds));
        // Replicas wait 3 s behind the return of Redis, and a lease lasts 10 s.
        Situation { agents: seconds(1), redis: seconds(20), upgrades: seconds(15), stalls: seconds(5) }
    }
}

impl Situation {
    /// Records the times at which a task is woken late; never returns.
    pub async fn watch_stalls(&self, report: &SoakReport) {
        loop {
            let before = Instant::now();
            tokio::time::sleep(STALL_CHECK).await;
            if before.elapsed() > STALL_CHECK + LEAST_STALL {
                self.stalls.begin();
                self.stalls.end();
                report.count("stalls of the machine");
            }
        }
    }

    /// Returns whether Redis was down since `start`, or could have been too slow.
    pub fn disturbs_redis(&self, start: Instant) -> bool {
        self.redis.overlap(start) || self.stalls.overlap(start)
    }

    /// Returns whether an agent was down since `start`, or could have been too slow.
    pub fn disturbs_agents(&self, start: Instant) -> bool {
        self.agents.overlap(start) || self.stalls.overlap(start)
    }
}
