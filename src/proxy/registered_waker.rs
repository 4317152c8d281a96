//! Polls a waiting future only if it has woken its task. A task that other things wake far more often need not look at
//! the future each time: it is in memory that no event of the run has touched.

use crate::prefetch::prefetch;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// The task that the future wakes, and whether it has.
#[derive(Debug, Default)]
pub(super) struct RegisteredWaker(Option<Arc<TaskWaker>>);

#[derive(Debug)]
struct TaskWaker {
    task: Waker,
    is_woken: AtomicBool,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}

impl RegisteredWaker {
    pub(super) fn prefetch(&self) {
        if let Some(waker) = &self.0 {
            prefetch(&**waker);
        }
    }

    /// Polls the future at first, in another task, and after it has woken the task.
    pub(super) fn poll<F: Future + ?Sized>(&mut self, future: Pin<&mut F>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let waker = match &self.0 {
            Some(known) if known.task.will_wake(cx.waker()) => {
                // A load first: a swap for each event is slow. It needs no order, since the wake-up that sets the flag
                // polls the task again. Cleared before the poll, which may itself wake the task.
                if !known.is_woken.load(Ordering::Relaxed) || !known.is_woken.swap(false, Ordering::AcqRel) {
                    return Poll::Pending;
                }
                Arc::clone(known)
            }
            _ => Arc::new(TaskWaker { task: cx.waker().clone(), is_woken: AtomicBool::new(false) }),
        };
        self.0 = Some(Arc::clone(&waker));
        let polled = future.poll(&mut Context::from_waker(&waker.into()));
        if polled.is_ready() {
            self.clear();
        }
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
    use futures_util::task::noop_waker;
    use std::future::poll_fn;
    use tokio::sync::Notify;

    /// Returns how often the future is polled by these tasks, in this order, of which some follow a wake-up.
    fn count_polls(tasks: &[(&Waker, bool)]) -> usize {
        let (notify, mut polls, mut waker) = (Notify::new(), 0, RegisteredWaker::default());
        let mut notified = Box::pin(async {
            loop {
                notify.notified().await;
            }
        });
        for (task, is_woken) in tasks {
            if *is_woken {
                notify.notify_waiters();
            }
            let future = poll_fn(|cx| {
                polls += 1;
                notified.as_mut().poll(cx)
            });
            let polled: Poll<()> = waker.poll(std::pin::pin!(future), &mut Context::from_waker(task));
            assert!(polled.is_pending());
        }
        polls
    }

    struct OtherTask;

    impl Wake for OtherTask {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn polls_only_a_future_that_has_woken_the_task() {
        let (one, other) = (noop_waker(), Waker::from(Arc::new(OtherTask)));
        assert_eq!(count_polls(&[(&one, false), (&one, false), (&one, false)]), 1);
        assert_eq!(count_polls(&[(&one, false), (&one, true), (&one, false), (&one, true)]), 3);
        assert_eq!(count_polls(&[(&one, false), (&other, false), (&other, false), (&one, false)]), 3);
    }

    #[test]
    fn polls_again_after_a_change_and_a_wake_up_during_a_poll() {
        let (mut waker, mut polls, task) = (RegisteredWaker::default(), 0, noop_waker());
        let mut future = poll_fn(|cx| {
            polls += 1;
            if polls == 1 {
                cx.waker().wake_by_ref();
            }
            Poll::<()>::Pending
        });
        let mut cx = Context::from_waker(&task);
        for _ in 0..4 {
            assert!(waker.poll(Pin::new(&mut future), &mut cx).is_pending());
        }
        waker.clear();
        assert!(waker.poll(Pin::new(&mut future), &mut cx).is_pending());
        assert_eq!(polls, 3);
    }
}
