//! Bounds the memory of all runs that wait for slow clients.
//!
//! ```text
//!   a write has no room ──▶ waiting ── the client reads, the run ends ──▶ not waiting
//!                              │ all together exceed `limits.client_buffers`, no other caller holds more, and no other
//!                              │ client of this caller waits for longer
//!                              ╰──▶ cut off: the client is disconnected
//! ```
//! Runs whose clients read in time never get here. A client that reads a little waits anew, so that it outlives those
//! that read nothing.

use crate::replay::{ReplayKey, excess_over_one_entry};
use crate::sync::Mutex;
use crate::telemetry::Metrics;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Memory of a waiting run besides its output: what it has read from its agent, or an HTTP/2 agent has sent before
/// that.
pub(super) const AGENT_READ_BUFFER: usize = 64 << 10;

/// Time that a client has to read a large event, once in each wait. Smaller writes are followed by others, so that a
/// client that reads little by little would never be cut off.
const LARGE_EVENT_TIME: Duration = Duration::from_secs(5);

/// Minimum memory of a wait for a large event.
const LARGE_EVENT_WAIT: usize = 4 * AGENT_READ_BUFFER;

pub(super) struct SlowClients {
    waiting: Mutex<WaitingClients>,
    pub(super) metrics: Arc<Metrics>,
}

#[derive(Default)]
struct WaitingClients {
    limit: usize,
    bytes: usize,
    last_number: u64,
    /// by number, so that the first one has waited longest
    clients: BTreeMap<u64, WaitingClient>,
}

struct WaitingClient {
    caller: ReplayKey,
    bytes: usize,
    cut_off: Arc<Notify>,
}

/// The waiting clients of one caller.
struct CallerWaits {
    bytes: usize,
    clients: usize,
    /// the number of the one that has waited longest
    oldest: u64,
}

/// A run that waits for its client; dropped when it no longer waits.
pub(super) struct SlowClientGuard<'s> {
    clients: &'s SlowClients,
    number: u64,
    earliest: Instant,
    cut_off: Arc<Notify>,
}

impl SlowClients {
    pub(super) fn new(limit: usize, metrics: Arc<Metrics>) -> Arc<SlowClients> {
        Arc::new(SlowClients { waiting: Mutex::new(WaitingClients { limit, ..WaitingClients::default() }), metrics })
    }

    pub(super) fn set_limit(&self, limit: usize) {
        self.waiting.lock().limit = limit;
    }

    /// Counts a caller's run that waits and takes `bytes`. Clients are cut off while all exceed the limit; one always
    /// fits.
    pub(super) fn wait(&self, caller: ReplayKey, bytes: usize) -> SlowClientGuard<'_> {
        let cut_off = Arc::new(Notify::new());
        let mut waiting = self.waiting.lock();
        waiting.last_number += 1;
        let number = waiting.last_number;
        waiting.clients.insert(number, WaitingClient { caller, bytes, cut_off: Arc::clone(&cut_off) });
        waiting.bytes += bytes;
        while waiting.bytes > waiting.limit && waiting.clients.len() > 1 {
            let Some(next) = waiting.next_cut_off().and_then(|next| waiting.clients.remove(&next)) else { break };
            waiting.bytes -= next.bytes;
            next.cut_off.notify_one();
        }
        self.metrics.process.slow_client_bytes.set_count(waiting.bytes);
        let time = if bytes < LARGE_EVENT_WAIT { Duration::ZERO } else { LARGE_EVENT_TIME };
        SlowClientGuard { clients: self, number, earliest: Instant::now() + time, cut_off }
    }
}

impl WaitingClients {
    /// Returns the client that has waited longest, of the caller that holds most. Each client is cut off only once, so
    /// the sums are not kept.
    fn next_cut_off(&self) -> Option<u64> {
        let mut callers: HashMap<&ReplayKey, CallerWaits> = HashMap::new();
        for (number, client) in &self.clients {
            let waits = callers.entry(&client.caller).or_insert(CallerWaits { bytes: 0, clients: 0, oldest: *number });
            waits.bytes += client.bytes;
            waits.clients += 1;
        }
        let excess = |waits: &CallerWaits| (excess_over_one_entry(waits.bytes, waits.clients), Reverse(waits.oldest));
        callers.into_values().max_by_key(excess).map(|waits| waits.oldest)
    }
}

impl SlowClientGuard<'_> {
    /// Waits until the client must be disconnected. One that still reads gets its large event meanwhile.
    pub(super) async fn wait_cut_off(&self) {
        self.wait_chosen().await;
        sleep_until(self.earliest).await;
    }

    /// Waits until the client is the next to be cut off.
    async fn wait_chosen(&self) {
        self.cut_off.notified().await;
    }
}

impl Drop for SlowClientGuard<'_> {
    fn drop(&mut self) {
        let mut waiting = self.clients.waiting.lock();
        if let Some(own) = waiting.clients.remove(&self.number) {
            waiting.bytes -= own.bytes;
            self.clients.metrics.process.slow_client_bytes.set_count(waiting.bytes);
        }
    }
}

#[cfg(test)]
mod schedules;

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    const ADA: ReplayKey = [1; 32];
    const BOB: ReplayKey = [2; 32];
    const CID: ReplayKey = [3; 32];

    #[test]
    fn cuts_off_the_client_that_waits_longest() {
        let metrics = Arc::new(Metrics::new().expect("unique names"));
        let clients = SlowClients::new(300, metrics);
        let waits = [clients.wait(ADA, 100), clients.wait(ADA, 100), clients.wait(ADA, 100)];
        let is_cut = |at: usize| waits[at].wait_chosen().now_or_never().is_some();
        assert!(!is_cut(0) && !is_cut(1) && !is_cut(2));
        let large = clients.wait(ADA, 200);
        assert!(is_cut(0) && is_cut(1) && !is_cut(2));
        drop(waits);
        // One fits, whatever its size.
        let huge = clients.wait(ADA, 10_000);
        assert!(large.wait_chosen().now_or_never().is_some() && huge.wait_chosen().now_or_never().is_none());
        drop((large, huge));
        assert_eq!(clients.waiting.lock().bytes, 0);
    }

    /// One caller's many stalled clients must not disconnect those of others.
    #[test]
    fn cuts_off_a_client_of_the_caller_that_holds_most() {
        let metrics = Arc::new(Metrics::new().expect("unique names"));
        let clients = SlowClients::new(600, metrics);
        // The oldest, and larger than each of the others.
        let bob = clients.wait(BOB, 200);
        let cid = clients.wait(CID, 100);
        let waits: Vec<_> = (0..10).map(|_| clients.wait(ADA, 100)).collect();
        let is_cut = |waits: &SlowClientGuard<'_>| waits.wait_chosen().now_or_never().is_some();
        assert!(!is_cut(&bob) && !is_cut(&cid));
        assert_eq!(waits.iter().map(is_cut).collect::<Vec<_>>(), [[true; 7].as_slice(), &[false; 3]].concat());
        drop(waits);
        // With one client each, the longest waiting goes first.
        let _large = clients.wait(ADA, 500);
        assert!(is_cut(&bob) && !is_cut(&cid));
    }
}
