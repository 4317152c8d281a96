//! What is broken while runs go on: a run may fail for a reason only if the reason was there during the run.

use std::sync::Mutex;
use std::time::{Duration, Instant};

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
}

impl Default for Situation {
    fn default() -> Self {
        let seconds = |seconds| Outages::with_grace(Duration::from_secs(seconds));
        // Replicas wait 3 s behind the return of Redis, and a lease lasts 10 s.
        Situation { agents: seconds(1), redis: seconds(20), upgrades: seconds(15) }
    }
}
