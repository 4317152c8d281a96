//! Runs that a POST has started and that are waiting for a GET to read them.
//!
//! ```text
//!   reserve ──▶ Reserved ── offer ──▶ Offered ── take ──▶ the reader's
//!                  │ refused, client gone   │ timeout, shutdown
//!                  ╰────────▶ free ◀────────╯
//! ```
//! Whenever an entry is removed, its reader is dropped, which ends the run.

use super::lifecycle::LifecycleWatch;
use crate::error::RejectionKind;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::task::JoinHandle;

/// Maximum number of waiting runs per route. Each may hold `limits.client_buffer` (64 KiB) and an agent connection, so
/// 16 MiB by default.
const PENDING_LIMIT: usize = 256;

/// Waiting runs, keyed by thread id.
#[derive(Debug)]
pub(super) struct PendingRuns<T>(Arc<Mutex<HashMap<String, PendingEntry<T>>>>);

/// A thread's entry, reserved before the agent is called, so that no run starts without a way to read it.
#[derive(Debug)]
pub(super) struct RunReservation<T> {
    pending: PendingRuns<T>,
    thread_id: String,
    timeout: Duration,
    /// false after the offer
    owns_entry: bool,
}

#[derive(Debug)]
enum PendingEntry<T> {
    Reserved,
    Offered {
        reader: T,
        /// dropped with the entry, which wakes the task that is waiting for a reader
        _taken_tx: oneshot::Sender<()>,
    },
}

impl<T> PendingEntry<T> {
    fn into_reader(self) -> Option<T> {
        if let PendingEntry::Offered { reader, .. } = self { Some(reader) } else { None }
    }
}

impl<T> Default for PendingRuns<T> {
    fn default() -> Self {
        PendingRuns(Arc::default())
    }
}

impl<T> Clone for PendingRuns<T> {
    fn clone(&self) -> Self {
        PendingRuns(Arc::clone(&self.0))
    }
}

impl<T> PendingRuns<T> {
    /// Reserves a thread's entry for a run, which will be offered for `timeout`.
    pub(super) fn reserve(&self, thread_id: String, timeout: Duration) -> Result<RunReservation<T>, RejectionKind> {
        let mut runs = self.0.lock();
        if runs.contains_key(&thread_id) {
            return Err(RejectionKind::ThreadBusy);
        }
        if runs.len() >= PENDING_LIMIT {
            return Err(RejectionKind::TooManyWaiting);
        }
        runs.insert(thread_id.clone(), PendingEntry::Reserved);
        drop(runs);
        Ok(RunReservation { pending: self.clone(), thread_id, timeout, owns_entry: true })
    }

    /// Takes the offered run of a thread.
    pub(super) fn take(&self, thread_id: &str) -> Option<T> {
        let mut runs = self.0.lock();
        runs.get(thread_id).filter(|entry| matches!(entry, PendingEntry::Offered { .. }))?;
        runs.remove(thread_id)?.into_reader()
    }

    /// Withdraws an offer unless it has been taken, since the entry may belong to another run by then.
    fn withdraw(&self, thread_id: &str, taken: &mut oneshot::Receiver<()>) -> Option<T> {
        let mut runs = self.0.lock();
        // The sender is dropped together with the entry, while the map is locked.
        if taken.try_recv() == Err(TryRecvError::Closed) {
            return None;
        }
        runs.remove(thread_id)?.into_reader()
    }
}

impl<T: Send + 'static> RunReservation<T> {
    /// Offers the run's reader; if no client takes it, it is passed to `on_unread`.
    pub(super) fn offer(
        mut self,
        reader: T,
        run: JoinHandle<()>,
        mut lifecycle: LifecycleWatch,
        on_unread: impl FnOnce(T) + Send + 'static,
    ) {
        self.owns_entry = false;
        let (taken_tx, mut taken) = oneshot::channel();
        let pending = self.pending.clone();
        let timeout = self.timeout;
        let thread_id = std::mem::take(&mut self.thread_id);
        pending.0.lock().insert(thread_id.clone(), PendingEntry::Offered { reader, _taken_tx: taken_tx });
        tokio::spawn(async move {
            let ended = tokio::select! {
                _ = &mut taken => return,
                () = tokio::time::sleep(timeout) => false,
                // The run first writes its last events; without its reader, it would assume that the client has left.
                () = lifecycle.wait_cut() => run.await.is_ok(),
            };
            let reader = pending.withdraw(&thread_id, &mut taken);
            if let Some(reader) = reader.filter(|_| !ended) {
                on_unread(reader);
            }
        });
    }
}

impl<T> Drop for RunReservation<T> {
    fn drop(&mut self) {
        if self.owns_entry {
            self.pending.0.lock().remove(&self.thread_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::lifecycle::{Lifecycle, LifecyclePhase};

    const TIMEOUT: Duration = Duration::from_secs(60);

    /// Offers a run. The receiver is notified if no client takes it.
    fn offer_run(waiting: &PendingRuns<&'static str>, lifecycle: &Lifecycle) -> oneshot::Receiver<()> {
        let reservation = waiting.reserve("t".to_owned(), TIMEOUT).expect("a place");
        let (unread, unread_rx) = oneshot::channel();
        let run = tokio::spawn(async {});
        reservation.offer("reader", run, lifecycle.watch(), |_| unread.send(()).expect("a receiver"));
        unread_rx
    }

    #[tokio::test(start_paused = true)]
    async fn hands_out_a_run_once_and_frees_its_slot() {
        let waiting = PendingRuns::default();
        let lifecycle = Lifecycle::default();
        for _ in 0..2 {
            let unread_rx = offer_run(&waiting, &lifecycle);
            assert_eq!(waiting.reserve("t".to_owned(), TIMEOUT).expect_err("taken"), RejectionKind::ThreadBusy);
            assert_eq!(waiting.take("u"), None);
            assert_eq!(waiting.take("t"), Some("reader"));
            assert_eq!(waiting.take("t"), None);
            assert!(unread_rx.await.is_err(), "a reader came");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn frees_the_slot_of_a_run_that_stays_unread() {
        let waiting = PendingRuns::default();
        let lifecycle = Lifecycle::default();
        let began = tokio::time::Instant::now();
        offer_run(&waiting, &lifecycle).await.expect("unread");
        assert_eq!(began.elapsed(), TIMEOUT);
        tokio::task::yield_now().await;
        assert_eq!(waiting.take("t"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn frees_the_slot_when_the_gateway_shuts_down() {
        let waiting = PendingRuns::default();
        let lifecycle = Lifecycle::default();
        let unread_rx = offer_run(&waiting, &lifecycle);
        lifecycle.advance(LifecyclePhase::Cut);
        assert!(unread_rx.await.is_err(), "the time has passed");
        assert_eq!(waiting.take("t"), None);
    }

    #[tokio::test]
    async fn limits_reservations_and_frees_dropped_ones() {
        let waiting = PendingRuns::<()>::default();
        let slots: Vec<_> =
            (0..PENDING_LIMIT).map(|one| waiting.reserve(one.to_string(), TIMEOUT).expect("a place")).collect();
        assert_eq!(waiting.reserve("more".to_owned(), TIMEOUT).expect_err("full"), RejectionKind::TooManyWaiting);
        assert_eq!(waiting.take("1"), None);
        drop(slots);
        assert!(waiting.reserve("more".to_owned(), TIMEOUT).is_ok());
    }
}
