//! Remembers which task a waiting future will wake, so that a task that other things wake far more often need not look
//! at that future each time: it is in memory that no event of the run has touched.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use tokio::task::coop::unconstrained;

/// The waker of the last poll, if the future was pending and is unchanged.
#[derive(Debug, Default)]
pub(super) struct RegisteredWaker(Option<Waker>);

impl RegisteredWaker {
    /// Returns whether the future will wake the task of `cx` without another poll.
    pub(super) fn wakes(&self, cx: &Context<'_>) -> bool {
        self.0.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()))
    }

    /// Polls the future, even if the task has used up its share of the thread: otherwise, tokio would not keep the
    /// waker.
    pub(super) fn poll<F: Future + ?Sized>(&mut self, future: Pin<&mut F>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let polled = pin!(unconstrained(future)).poll(cx);
        self.0 = polled.is_pending().then(|| cx.waker().clone());
        polled
    }

    /// Requires another poll, since the future has changed.
    pub(super) fn clear(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::time::Duration;
    use tokio::task::coop::consume_budget;
    use tokio::time::{sleep, timeout};

    const SHORT: Duration = Duration::from_millis(5);
    const LONG: Duration = Duration::from_secs(60);

    /// The task first uses up its share, as a run does whose agent always has data ready.
    #[tokio::test(start_paused = true)]
    async fn a_future_that_was_polled_once_wakes_its_task() {
        let mut timer = Box::pin(sleep(SHORT));
        let mut waker = RegisteredWaker::default();
        let mut polls = 0;
        let fired = poll_fn(|cx| {
            while polls == 0 && pin!(consume_budget()).poll(cx).is_ready() {}
            if waker.wakes(cx) && !timer.is_elapsed() {
                return Poll::Pending;
            }
            polls += 1;
            waker.poll(timer.as_mut(), cx)
        });
        timeout(LONG, fired).await.expect("a wake-up");
        assert_eq!(polls, 2);
    }

    #[tokio::test]
    async fn requires_a_poll_in_another_task_and_after_a_change() {
        let (mut timer, mut waker) = (Box::pin(sleep(LONG)), RegisteredWaker::default());
        let pending = poll_fn(|cx| Poll::Ready((waker.poll(timer.as_mut(), cx).is_pending(), waker.wakes(cx)))).await;
        assert_eq!(pending, (true, true));
        assert!(!waker.wakes(&Context::from_waker(Waker::noop())));
        waker.clear();
        assert!(poll_fn(|cx| Poll::Ready(!waker.wakes(cx))).await);
        let ready = poll_fn(|cx| {
            let is_ready = waker.poll(pin!(async {}), cx).is_ready();
            Poll::Ready((is_ready, waker.wakes(cx)))
        });
        assert_eq!(ready.await, (true, false));
    }
}
