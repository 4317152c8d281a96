//! The locks whose orders are explored.
//!
//! In a test, [`Mutex::lock`] is a point at which `shuttle` may switch to another task, and everything between two
//! locks is one step, so `explore` visits the orders of these steps. A test that waits for ever, such as for a lost
//! wake-up, fails. Not explored: atomics, and what tokio's channels do inside.

#[cfg(not(test))]
pub(crate) use parking_lot::{Mutex, MutexGuard};

#[cfg(test)]
pub(crate) use schedules::{Mutex, explore};

#[cfg(test)]
pub(crate) use parking_lot::MutexGuard;

#[cfg(test)]
mod schedules {
    use parking_lot::MutexGuard;
    use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
    use shuttle::sync::atomic::{AtomicBool, Ordering};
    use shuttle::{Config, Runner};
    use std::cell::Cell;

    /// Orders per test, half of them with few switches at random points, which finds other mistakes.
    const ORDERS: usize = 600;

    /// Maximum number of switches in an order with few.
    const SWITCHES: usize = 3;

    const STACK_SIZE: usize = 1 << 20;

    thread_local! {
        static IS_EXPLORING: Cell<bool> = const { Cell::new(false) };
    }

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) const fn new(value: T) -> Self {
            Mutex(parking_lot::Mutex::new(value))
        }

        pub(crate) fn get_mut(&mut self) -> &mut T {
            self.0.get_mut()
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            if !IS_EXPLORING.get() {
                return self.0.lock();
            }
            // Any operation of shuttle is a point to switch at.
            AtomicBool::new(false).load(Ordering::SeqCst);
            loop {
                match self.0.try_lock() {
                    Some(guard) => return guard,
                    None => shuttle::thread::yield_now(),
                }
            }
        }
    }

    /// Runs a test of several tasks in many orders. The same orders every time.
    pub(crate) fn explore(test: impl Fn() + Send + Sync + Clone + 'static) {
        IS_EXPLORING.set(true);
        run(RandomScheduler::new_from_seed(1, ORDERS / 2), test.clone());
        run(PctScheduler::new_from_seed(1, SWITCHES, ORDERS / 2), test);
        IS_EXPLORING.set(false);
    }

    fn run(scheduler: impl Scheduler + 'static, test: impl Fn() + Send + Sync + 'static) {
        let mut config = Config::new();
        config.stack_size = STACK_SIZE;
        Runner::new(scheduler, config).run(test);
    }
}
