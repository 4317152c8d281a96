//! Tests of a run's memory use.

use super::*;

fn future_size<A, B, C, F: Future>(_: fn(A, B, C) -> F) -> usize {
    size_of::<F>()
}

/// Most runs spend most of their time waiting for their agents.
#[test]
fn keeps_a_waiting_run_small() {
    let size = future_size(RunTask::run) + size_of::<RunTask>();
    assert!(size <= 4112, "{size}");
}
