//! What is kept, and what makes room.

use super::*;
use crate::config::replay::Keeper;
use crate::dialect::{AG_UI, Side};
use crate::replay::{Cursor, From};
use crate::telemetry::Metrics;
use std::num::NonZeroUsize;
use tokio::time::advance;

const AGE: Duration = Duration::from_secs(300);

fn store(runs: usize, bytes: usize, run_bytes: usize) -> (Arc<Store>, Metrics) {
    let metrics = Metrics::new().expect("unique names");
    let runs = NonZeroUsize::new(runs).expect("some");
    let bounds = Replay { runs, bytes, run_bytes, age: AGE, store: Keeper::Memory };
    (Store::new(bounds, 1 << 10, Duration::from_secs(60), metrics.replay()), metrics)
}

fn fresh(run: u8, body: u8) -> Fresh {
    let recap = Recap::new(Side::new(&AG_UI), &Ids::new("t", "r"), None);
    let alone = Duration::from_secs(60);
    Fresh {
        run: [run; 32],
        thread: [9; 32],
        body: [body; 32],
        ids: Ids::new("t", "r"),
        token: Token::new(run.into()),
        recap,
        alone,
        follows: None,
    }
}

fn enter(store: &Arc<Store>, run: u8) -> Writer {
    match store.enter(fresh(run, 0)) {
        Entered::New(writer) => writer,
        other => panic!("{other:?}"),
    }
}

/// What stays of it beside what is counted is small, however long the names are that its client gave it.
#[tokio::test]
async fn a_kept_run_is_called_as_the_log_calls_it() {
    let (store, _metrics) = store(1, 1 << 20, 1 << 20);
    let long = "\u{e9}".repeat(100_000);
    let named = Fresh { ids: Ids::new(&long, "r"), ..fresh(1, 0) };
    let Entered::New(_writer) = store.enter(named) else { panic!("it is the first") };
    let kept = store.find(&[1; 32]).expect("it was entered");
    assert_eq!(kept.ids, Ids::new(&"\u{e9}".repeat(SHOWN), "r"));
}

fn said(writer: &Writer, size: usize) {
    let frame = format!("data: {{\"type\":\"CUSTOM\",\"name\":\"n\",\"value\":\"{}\"}}\n\n", "x".repeat(size));
    writer.push(&mut frame.into_bytes(), 1);
}

fn evicted(metrics: &Metrics, reason: &str) -> bool {
    metrics.render().contains(&format!("diglot_replay_evictions_total{{reason=\"{reason}\"}} 1"))
}

#[tokio::test]
async fn one_key_is_one_run_until_that_has_ended() {
    let (store, metrics) = store(10, 1 << 20, 1 << 16);
    let writer = enter(&store, 1);
    assert!(matches!(store.enter(fresh(1, 0)), Entered::Known(known) if Arc::ptr_eq(&known.log, writer.log())));
    assert!(matches!(store.enter(fresh(1, 1)), Entered::Taken));
    assert!(store.last(&[9; 32]).is_some());
    writer.finish();
    assert!(matches!(store.enter(fresh(1, 0)), Entered::Known(_)));
    let Entered::New(other) = store.enter(fresh(1, 1)) else { panic!("replaced") };
    assert!(evicted(&metrics, "replaced"));
    assert!(store.find(&[1; 32]).is_some_and(|kept| Arc::ptr_eq(&kept.log, other.log())));
}

#[tokio::test]
async fn what_came_to_nothing_is_not_found() {
    let (store, metrics) = store(10, 1 << 20, 1 << 16);
    let mut writer = enter(&store, 1);
    writer.forget();
    assert!(store.find(&[1; 32]).is_none() && store.last(&[9; 32]).is_none());
    assert!(metrics.render().contains("diglot_replay_runs 0"));
}

#[tokio::test(start_paused = true)]
async fn a_run_goes_when_it_ended_long_ago() {
    let (store, metrics) = store(10, 1 << 20, 1 << 16);
    let live = enter(&store, 2);
    enter(&store, 1).finish();
    advance(AGE / 2).await;
    enter(&store, 3).finish();
    tokio::time::sleep(AGE / 2 + Duration::from_secs(1)).await;
    assert!(store.find(&[1; 32]).is_none() && store.find(&[3; 32]).is_some());
    assert!(evicted(&metrics, "age"));
    tokio::time::sleep(AGE * 2).await;
    assert!(store.find(&[3; 32]).is_none() && store.find(&[2; 32]).is_some());
    drop(live);
}

#[tokio::test]
async fn the_run_that_ended_first_makes_room() {
    let (store, metrics) = store(2, 1 << 20, 1 << 16);
    enter(&store, 1).finish();
    let live = enter(&store, 2);
    let third = enter(&store, 3);
    assert!(store.find(&[1; 32]).is_none());
    assert!(evicted(&metrics, "runs"));
    // Those that live make none.
    assert!(matches!(store.enter(fresh(4, 0)), Entered::Full));
    drop((live, third));
}

#[tokio::test]
async fn all_together_are_bounded_in_bytes() {
    let (store, metrics) = store(10, 40_000, 30_000);
    let writer = enter(&store, 1);
    said(&writer, 20_000);
    writer.finish();
    let live = enter(&store, 2);
    said(&live, 25_000);
    assert!(store.find(&[1; 32]).is_none());
    assert!(evicted(&metrics, "bytes"));
    // Of live ones the one that asks for more is given up: it goes on, and cannot be joined.
    let other = enter(&store, 3);
    said(&other, 25_000);
    assert!(store.used.load(Ordering::Relaxed) <= 40_000);
    assert!(other.log().join(From::Prelude(0), false, ()).is_err());
    let cursor = Cursor { token: Token::new(2), number: 0 };
    assert!(live.log().join(From::Cursor(cursor), false, ()).is_ok());
    live.finish();
    other.finish();
    assert!(metrics.render().contains("diglot_replay_runs 2"));
}
