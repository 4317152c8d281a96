//! Runs that a POST has started and that are waiting for a GET to read them.
//!
//! ```text
//!   reserve ──▶ Reserved ── offer ──▶ Offered ── take ──▶ the reader's
//!                  │ refused, client gone   │ timeout, shutdown
//!                  ╰────────▶ free ◀────────╯
//! ```
//! An entry belongs to the caller that started the run: its key includes the caller, so that another caller's request
//! for the same thread finds nothing. Whenever an entry is removed, its reader is dropped, which ends the run.

use super::lifecycle::LifecycleWatch;
use crate::error::{Rejection, RejectionKind};
use crate::replay::ReplayKey;
use crate::sync::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::task::JoinHandle;

/// Maximum number of waiting runs per route. Each may hold `limits.client_buffer` (16 KiB) and an agent connection.
const PENDING_LIMIT: usize = 256;

/// Maximum number of waiting runs per caller on a route, so that one caller cannot take all places.
const PENDING_LIMIT_PER_CALLER: usize = 64;

/// Waiting runs of a route.
#[derive(Debug)]
pub(super) struct PendingRuns<T>(Arc<Mutex<PendingMap<T>>>);

type PendingMap<T> = HashMap<ReplayKey, PendingEntry<T>>;

/// The thread that a run waits in, and the caller it counts against.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingKey {
    /// includes route and caller
    pub(super) thread: ReplayKey,
    pub(super) caller: ReplayKey,
}

/// A thread's entry, reserved before the agent is called, so that no run starts without a way to read it.
#[derive(Debug)]
pub(super) struct RunReservation<T> {
    pending: PendingRuns<T>,
    key: PendingKey,
    timeout: Duration,
    /// false after the offer
    owns_entry: bool,
}

#[derive(Debug)]
struct PendingEntry<T> {
    caller: ReplayKey,
    /// `None` until the run is offered
    offer: Option<PendingOffer<T>>,
}

#[derive(Debug)]
struct PendingOffer<T> {
    reader: T,
    /// dropped with the entry, which wakes the task that is waiting for a reader
    _taken_tx: oneshot::Sender<()>,
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
    pub(super) fn reserve(&self, key: PendingKey, timeout: Duration) -> Result<RunReservation<T>, Rejection> {
        let mut runs = self.0.lock();
        if runs.contains_key(&key.thread) {
            return Err(RejectionKind::ThreadBusy.into());
        }
        if runs.len() >= PENDING_LIMIT {
            return Err(RejectionKind::TooManyWaiting.into());
        }
        if runs.values().filter(|entry| entry.caller == key.caller).count() >= PENDING_LIMIT_PER_CALLER {
            return Err(Rejection::from(RejectionKind::TooManyWaiting)
                .with_detail(format!("{PENDING_LIMIT_PER_CALLER} runs of this caller are waiting.")));
        }
        runs.insert(key.thread, PendingEntry { caller: key.caller, offer: None });
        drop(runs);
        Ok(RunReservation { pending: self.clone(), key, timeout, owns_entry: true })
    }

    /// Takes the offered run of a caller's thread.
    pub(super) fn take(&self, thread: &ReplayKey) -> Option<T> {
        let mut runs = self.0.lock();
        runs.get(thread).filter(|entry| entry.offer.is_some())?;
        Some(runs.remove(thread)?.offer?.reader)
    }

    /// Withdraws an offer unless it has been taken, since the entry may belong to another run by then.
    fn withdraw(&self, thread: &ReplayKey, taken: &mut oneshot::Receiver<()>) -> Option<T> {
        let mut runs = self.0.lock();
        // The sender is dropped together with the entry, while the map is locked.
        if taken.try_recv() == Err(TryRecvError::Closed) {
            return None;
        }
        Some(runs.remove(thread)?.offer?.reader)
    }
}

impl<T: Send + 'static> RunReservation<T> {
    /// Offers the run's reader; if no client takes it, it is passed to `on_unread`.
    pub(super) fn offer(
        mut self,
        reader: T,
        run: JoinHandle<()>,
        lifecycle: LifecycleWatch,
        on_unread: impl FnOnce(T) + Send + 'static,
    ) {
        self.owns_entry = false;
        let (taken_tx, mut taken) = oneshot::channel();
        let pending = self.pending.clone();
        let timeout = self.timeout;
        let PendingKey { thread, caller } = self.key;
        let offer = Some(PendingOffer { reader, _taken_tx: taken_tx });
        pending.0.lock().insert(thread, PendingEntry { caller, offer });
        tokio::spawn(async move {
            let ended = tokio::select! {
                _ = &mut taken => return,
                () = tokio::time::sleep(timeout) => false,
                // The run first writes its last events; without its reader, it would assume that the client has left.
                () = lifecycle.wait_cut() => run.await.is_ok(),
            };
            let reader = pending.withdraw(&thread, &mut taken);
            if let Some(reader) = reader.filter(|_| !ended) {
                on_unread(reader);
            }
        });
    }
}

impl<T> Drop for RunReservation<T> {
    fn drop(&mut self) {
        if self.owns_entry {
            self.pending.0.lock().remove(&self.key.thread);
        }
    }
}

#[cfg(test)]
mod schedules;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::digest::sha256;
    use crate::proxy::lifecycle::{Lifecycle, LifecyclePhase};

    const TIMEOUT: Duration = Duration::from_secs(60);
    const THREAD: ReplayKey = [1; 32];

    fn numbered_key(number: usize, caller: u8) -> PendingKey {
        PendingKey { thread: sha256(&number.to_be_bytes()), caller: [caller; 32] }
    }

    /// Offers a run. The receiver is notified if no client takes it.
    fn offer_run(waiting: &PendingRuns<&'static str>, lifecycle: &Lifecycle) -> oneshot::Receiver<()> {
        let reservation = waiting.reserve(PendingKey { thread: THREAD, caller: [0; 32] }, TIMEOUT).expect("a place");
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
            assert_eq!(
                waiting.reserve(PendingKey { thread: THREAD, caller: [0; 32] }, TIMEOUT).expect_err("taken").kind,
                RejectionKind::ThreadBusy
            );
            assert_eq!(waiting.take(&[2; 32]), None);
            assert_eq!(waiting.take(&THREAD), Some("reader"));
            assert_eq!(waiting.take(&THREAD), None);
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
        assert_eq!(waiting.take(&THREAD), None);
    }

    #[tokio::test(start_paused = true)]
    async fn frees_the_slot_when_the_gateway_shuts_down() {
        let waiting = PendingRuns::default();
        let lifecycle = Lifecycle::default();
        let unread_rx = offer_run(&waiting, &lifecycle);
        lifecycle.advance(LifecyclePhase::Cut);
        assert!(unread_rx.await.is_err(), "the time has passed");
        assert_eq!(waiting.take(&THREAD), None);
    }

    #[tokio::test]
    async fn limits_reservations_and_frees_dropped_ones() {
        let waiting = PendingRuns::<()>::default();
        let callers = (1..=8).cycle();
        let reserve = |number: usize, caller| waiting.reserve(numbered_key(number, caller), TIMEOUT);
        let reservations: Vec<_> =
            (0..PENDING_LIMIT).zip(callers).map(|(number, caller)| reserve(number, caller).expect("a place")).collect();
        assert_eq!(reserve(PENDING_LIMIT, 9).expect_err("full").kind, RejectionKind::TooManyWaiting);
        assert_eq!(waiting.take(&numbered_key(1, 1).thread), None);
        drop(reservations);
        assert!(reserve(PENDING_LIMIT, 9).is_ok());
    }

    #[tokio::test]
    async fn leaves_places_for_other_callers() {
        let waiting = PendingRuns::<()>::default();
        let reserve = |number: usize, caller| waiting.reserve(numbered_key(number, caller), TIMEOUT);
        let mut reservations: Vec<_> =
            (0..PENDING_LIMIT_PER_CALLER).map(|number| reserve(number, 1).expect("a place")).collect();
        assert_eq!(reserve(1000, 1).expect_err("full").kind, RejectionKind::TooManyWaiting);
        assert!(reserve(1000, 2).is_ok());
        reservations.pop();
        assert!(reserve(1000, 1).is_ok());
    }
}
