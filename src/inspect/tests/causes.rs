//! Searches for the causes of runs.

use super::super::captured_run::CapturedRun;
use super::super::cause_search::CauseFinder;
use super::super::store::CaptureStore;
use super::{AGENT, STARTED_MS, begin, store};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Captures a run whose client leaves before the end of an item, which is the cause.
fn leave(store: &CaptureStore, snapshots: usize) -> Arc<CapturedRun> {
    let capture = begin(store, "chat");
    capture.record_read(STARTED_MS, AGENT.as_bytes());
    let text = "x".repeat(16 << 10);
    let large = format!("data: {{\"type\":\"STATE_SNAPSHOT\",\"messageId\":\"m1\",\"snapshot\":\"{text}\"}}\n\n");
    (0..snapshots).for_each(|_| capture.record_read(STARTED_MS, large.as_bytes()));
    capture.record_end("client_gone", None, None);
    store.runs().pop().expect("kept")
}

/// Returns a clock that has time so often.
fn times(mut left: usize) -> impl FnMut() -> bool {
    move || {
        left = left.saturating_sub(1);
        left > 0
    }
}

#[tokio::test]
async fn the_last_run_is_searched_first() {
    let store = store();
    let runs = [leave(&store, 0), leave(&store, 0)];
    CauseFinder::default().find(store.runs(), times(4));
    assert_eq!(runs.each_ref().map(|run| run.cause().is_some()), [false, true]);
}

#[tokio::test]
async fn a_long_search_pauses_and_goes_on() {
    let store = store();
    let runs = [leave(&store, 0), leave(&store, 20)];
    let mut finder = CauseFinder::default();
    let mut calls = 0;
    while runs[1].cause().is_none() {
        assert!(calls < 20, "it begins again");
        finder.find(store.runs(), times(2));
        calls += 1;
    }
    assert!(calls > 2, "{calls}");
    finder.find(store.runs(), || true);
    assert!(runs[0].cause().is_some());
}

#[tokio::test]
async fn a_search_keeps_no_run_from_being_freed() {
    let store = store();
    let run = leave(&store, 20);
    let others = Arc::strong_count(&run);
    let mut checks = 0;
    CauseFinder::default().find(store.runs(), || {
        checks += 1;
        assert_eq!(Arc::strong_count(&run), others);
        true
    });
    assert!(checks > 2 && run.cause().is_some(), "{checks}");
}

#[tokio::test]
async fn a_panic_leaves_out_its_run_alone() {
    let store = store();
    let runs = [leave(&store, 0), leave(&store, 0)];
    let mut finder = CauseFinder::default();
    let mut checks = 0;
    let search = || {
        finder.find(store.runs(), || {
            checks += 1;
            assert!(checks < 2, "within the rows of the last run");
            true
        });
    };
    assert!(catch_unwind(AssertUnwindSafe(search)).is_err());
    finder.find(store.runs(), || true);
    assert_eq!(runs.each_ref().map(|run| run.cause().is_some()), [true, false]);
}
