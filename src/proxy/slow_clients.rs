//! Bounds the memory of all runs that wait for slow clients.
//!
//! ```text
//!   a write has no room ──▶ waiting ── the client reads, the run ends ──▶ not waiting
//!                              │ all together exceed `limits.client_buffers`, and no other waits for longer
//!                              ╰──▶ cut off: the client is disconnected
//! ```
//! Runs whose clients read in time never get here. A client that reads a little waits anew, so that it outlives those that
//! read nothing.

use crate::sync::Mutex;
use crate::telemetry::Metrics;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Notify;

/// Memory of a waiting run besides its output: the read buffer of its connection to the agent.
const AGENT_READ_BUFFER: usize = 64 << 10;

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
    bytes: usize,
    cut_off: Arc<Notify>,
}

/// A run that waits for its client; dropped when it no longer waits.
pub(super) struct SlowClientGuard<'s> {
    clients: &'s SlowClients,
    number: u64,
    cut_off: Arc<Notify>,
}

impl SlowClients {
    pub(super) fn new(limit: usize, metrics: Arc<Metrics>) -> Arc<SlowClients> {
        Arc::new(SlowClients { waiting: Mutex::new(WaitingClients { limit, ..WaitingClients::default() }), metrics })
    }

    pub(super) fn set_limit(&self, limit: usize) {
        self.waiting.lock().limit = limit;
    }

    /// Counts a run that waits with `unread` bytes. The clients that have waited longest are cut off while all exceed
    /// the limit; one always fits.
    pub(super) fn wait(&self, unread: usize) -> SlowClientGuard<'_> {
        let cut_off = Arc::new(Notify::new());
        let bytes = unread.saturating_add(AGENT_READ_BUFFER);
        let mut waiting = self.waiting.lock();
        waiting.last_number += 1;
        let number = waiting.last_number;
        waiting.clients.insert(number, WaitingClient { bytes, cut_off: Arc::clone(&cut_off) });
        waiting.bytes += bytes;
        while waiting.bytes > waiting.limit && waiting.clients.len() > 1 {
            let Some((_, oldest)) = waiting.clients.pop_first() else { break };
            waiting.bytes -= oldest.bytes;
            oldest.cut_off.notify_one();
        }
        self.metrics.process.slow_client_bytes.set_count(waiting.bytes);
        SlowClientGuard { clients: self, number, cut_off }
    }
}

impl SlowClientGuard<'_> {
    /// Waits until the client must be disconnected.
    pub(super) async fn wait_cut_off(&self) {
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

    #[test]
    fn cuts_off_the_client_that_waits_longest() {
        let metrics = Arc::new(Metrics::new().expect("unique names"));
        let clients = SlowClients::new(3 * AGENT_READ_BUFFER, metrics);
        let waits = [clients.wait(0), clients.wait(0), clients.wait(0)];
        let is_cut = |at: usize| waits[at].wait_cut_off().now_or_never().is_some();
        assert!(!is_cut(0) && !is_cut(1) && !is_cut(2));
        let large = clients.wait(AGENT_READ_BUFFER);
        assert!(is_cut(0) && is_cut(1) && !is_cut(2));
        drop(waits);
        // One fits, whatever its size.
        let huge = clients.wait(100 * AGENT_READ_BUFFER);
        assert!(large.wait_cut_off().now_or_never().is_some() && huge.wait_cut_off().now_or_never().is_none());
        drop((large, huge));
        assert_eq!(clients.waiting.lock().bytes, 0);
    }
}
