//! Counts what tests measure instead of time: JSON values that are read, copied or compared, and bytes of new ones.

use std::cell::Cell;

/// Bytes of a new value that count as much as a comparison.
const BYTES_PER_STEP: usize = 64;

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

pub(crate) fn count_step() {
    STEPS.set(STEPS.get() + 1);
}

pub(crate) fn count_new_value(bytes: usize) {
    STEPS.set(STEPS.get() + (bytes / BYTES_PER_STEP) as u64);
}

/// Returns the steps of this thread while `run` runs.
pub(crate) fn steps_of(run: impl FnOnce()) -> u64 {
    let before = STEPS.get();
    run();
    STEPS.get() - before
}
