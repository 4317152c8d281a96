//! The memory of a run.

use super::*;

fn future_size<A, B, C, F: Future>(_: fn(A, B, C) -> F) -> usize {
    size_of::<F>()
}

/// Most runs wait for their agents most of the time.
#[test]
fn keeps_a_waiting_run_small() {
    let size = future_size(RunTask::run) + size_of::<RunTask>();
    assert!(size <= 3976, "{size}");
}
