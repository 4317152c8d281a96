//! Tests of the run store.

use super::*;
use crate::config::replay::ReplayStoreKind;
use crate::dialect::AG_UI;
use crate::replay::log::ReaderCutOff;
use crate::replay::{Cursor, JoinError, LogReader, ReadFrom};
use crate::telemetry::Metrics;
use crate::translate::recap::RecapInput;
use bytes::Bytes;
use futures_util::FutureExt;
use std::num::NonZeroUsize;
use tokio::time::advance;

const AGE: Duration = Duration::from_secs(300);

fn store(runs: usize, bytes: usize, run_bytes: usize) -> (Arc<RunStore>, Metrics) {
    let metrics = Metrics::new().expect("unique names");
    let runs = NonZeroUsize::new(runs).expect("some");
    let bounds = ReplayConfig { runs, bytes, run_bytes, age: AGE, store: ReplayStoreKind::Memory };
    (RunStore::new(bounds, 1 << 10, Duration::from_secs(60), metrics.replay.clone()), metrics)
}

fn fresh_run(run: u8, body: u8) -> NewRun {
    let side = PeerDialect::new(&AG_UI);
    let ids = RunIds::new("t", "r");
    let recap = Recap::new(side, &ids, RecapInput::default());
    let keys = RunKeys { caller: [0; 32], run: [run; 32], thread: [9; 32], body: [body; 32] };
    let descriptor = RunDescriptor { keys, token: RunToken::new(run.into()), side, ids };
    NewRun { descriptor, recap, abandon_after: Duration::from_secs(60), remote_through: None }
}

fn enter(store: &Arc<RunStore>, run: u8) -> LogWriter {
    match store.insert(fresh_run(run, 0)) {
        InsertOutcome::New(writer) => writer,
        _ => panic!("the run is not new"),
    }
}

/// A run's uncounted memory stays small, however long the ids from the client are.
#[tokio::test]
async fn stores_ids_shortened_as_in_the_log() {
    let (store, _metrics) = store(1, 1 << 20, 1 << 20);
    let long = "\u{e9}".repeat(100_000);
    let mut named = fresh_run(1, 0);
    named.descriptor.ids = RunIds::new(&long, "r");
    let InsertOutcome::New(_writer) = store.insert(named) else { panic!("it is the first") };
    let kept = store.find(&[1; 32]).expect("it was entered");
    assert_eq!(kept.ids, RunIds::new(&"\u{e9}".repeat(MAX_TEXT_CHARS), "r"));
}

fn push_event(writer: &LogWriter, size: usize) {
    let frame = format!("data: {{\"type\":\"CUSTOM\",\"name\":\"n\",\"value\":\"{}\"}}\n\n", "x".repeat(size));
    writer.push(&mut frame.into_bytes(), 1);
}

fn was_evicted(metrics: &Metrics, reason: &str) -> bool {
    metrics.render().contains(&format!("diglot_replay_evictions_total{{reason=\"{reason}\"}} 1"))
}

#[tokio::test]
async fn admits_one_run_per_key_until_it_has_ended() {
    let (store, metrics) = store(10, 1 << 20, 1 << 16);
    let writer = enter(&store, 1);
    assert!(
        matches!(store.insert(fresh_run(1, 0)), InsertOutcome::Existing(known) if Arc::ptr_eq(&known.log, &writer.log))
    );
    assert!(matches!(store.insert(fresh_run(1, 1)), InsertOutcome::Conflict));
    assert!(store.last_of_thread(&[9; 32]).is_some());
    writer.finish();
    assert!(matches!(store.insert(fresh_run(1, 0)), InsertOutcome::Existing(_)));
    let InsertOutcome::New(other) = store.insert(fresh_run(1, 1)) else { panic!("replaced") };
    assert!(was_evicted(&metrics, "replaced"));
    assert!(store.find(&[1; 32]).is_some_and(|kept| Arc::ptr_eq(&kept.log, &other.log)));
}

#[tokio::test]
async fn does_not_find_a_forgotten_run() {
    let (store, metrics) = store(10, 1 << 20, 1 << 16);
    let mut writer = enter(&store, 1);
    writer.forget();
    assert!(store.find(&[1; 32]).is_none() && store.last_of_thread(&[9; 32]).is_none());
    assert!(metrics.render().contains("diglot_replay_runs 0"));
}

#[tokio::test(start_paused = true)]
async fn evicts_runs_past_their_replay_age() {
    let (store, metrics) = store(10, 1 << 20, 1 << 16);
    let live = enter(&store, 2);
    enter(&store, 1).finish();
    advance(AGE / 2).await;
    enter(&store, 3).finish();
    tokio::time::sleep(AGE / 2 + Duration::from_secs(1)).await;
    assert!(store.find(&[1; 32]).is_none() && store.find(&[3; 32]).is_some());
    assert!(was_evicted(&metrics, "age"));
    tokio::time::sleep(AGE * 2).await;
    assert!(store.find(&[3; 32]).is_none() && store.find(&[2; 32]).is_some());
    drop(live);
}

#[tokio::test]
async fn evicts_the_oldest_ended_run_to_make_room() {
    let (store, metrics) = store(2, 1 << 20, 1 << 16);
    enter(&store, 1).finish();
    let live = enter(&store, 2);
    let third = enter(&store, 3);
    assert!(store.find(&[1; 32]).is_none());
    assert!(was_evicted(&metrics, "runs"));
    // Live runs are not evicted.
    assert!(matches!(store.insert(fresh_run(4, 0)), InsertOutcome::Full));
    drop((live, third));
}

#[tokio::test]
async fn bounds_the_bytes_of_all_runs_together() {
    let (store, metrics) = store(10, 40_000, 30_000);
    let writer = enter(&store, 1);
    push_event(&writer, 20_000);
    writer.finish();
    let live = enter(&store, 2);
    push_event(&live, 25_000);
    assert!(store.find(&[1; 32]).is_none());
    assert!(was_evicted(&metrics, "bytes"));
    // The live run that needs more room is discarded: it continues, but cannot be joined.
    let other = enter(&store, 3);
    push_event(&other, 25_000);
    assert_eq!(store.total.missing(0), 0);
    assert!(other.log.join(ReadFrom::Recap(0), false, ()).is_err());
    let cursor = Cursor { token: RunToken::new(2), number: 0 };
    assert!(live.log.join(ReadFrom::Cursor(cursor), false, ()).is_ok());
    live.finish();
    other.finish();
    assert!(metrics.render().contains("diglot_replay_runs 2"));
}

fn counted_bytes(metrics: &Metrics) -> usize {
    let rendered = metrics.render();
    let line = rendered.lines().find_map(|line| line.strip_prefix("diglot_replay_bytes ")).expect("a line");
    line.parse().expect("a number")
}

fn push_run_started(writer: &LogWriter) {
    writer.push(&mut b"data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n".to_vec(), 1);
}

/// A caller that joins a run again and again must not take the memory of all others.
#[tokio::test]
async fn counts_nothing_for_refused_joins() {
    let (store, metrics) = store(1, 1 << 20, 16 << 10);
    let writer = enter(&store, 1);
    push_run_started(&writer);
    push_event(&writer, 10_000);
    let log = Arc::clone(&writer.log);
    writer.finish();
    let readers: Vec<_> = std::iter::from_fn(|| log.join(ReadFrom::Recap(0), false, ()).ok()).collect();
    let counted = counted_bytes(&metrics);
    for _ in 0..50 {
        assert!(log.join(ReadFrom::Recap(0), false, ()).is_err());
    }
    assert_eq!(counted_bytes(&metrics), counted);
    drop((readers, log));
    // The next run evicts it.
    enter(&store, 2).forget();
    assert!(store.find(&[1; 32]).is_none());
    assert_eq!(counted_bytes(&metrics), 0);
}

fn next_piece(reader: &LogReader) -> Option<Option<Result<Bytes, ReaderCutOff>>> {
    std::future::poll_fn(|cx| reader.poll_next(cx)).now_or_never()
}

/// Recaps that are built later, at the first event, take memory like those that are built at once.
#[tokio::test]
async fn counts_the_recaps_of_readers_that_join_before_the_first_event() {
    let (store, metrics) = store(1, 1 << 20, 64 << 10);
    let mut with_input = fresh_run(1, 0);
    let messages = format!("[{{\"id\":\"m\",\"role\":\"user\",\"content\":\"{}\"}}]", "x".repeat(34_000));
    let RunDescriptor { side, ids, .. } = &with_input.descriptor;
    with_input.recap = Recap::new(*side, ids, RecapInput { messages: Some(messages.into()), state: None });
    let InsertOutcome::New(writer) = store.insert(with_input) else { panic!("it is the first") };
    let readers: Vec<_> = std::iter::from_fn(|| writer.log.join(ReadFrom::Recap(0), true, ()).ok()).collect();
    assert_eq!(readers.len(), 4);
    push_run_started(&writer);
    for reader in &readers {
        assert!(matches!(next_piece(reader), Some(Some(Ok(piece))) if piece.len() < 34_000));
    }
    assert!(counted_bytes(&metrics) > 5 * 34_000, "{}", counted_bytes(&metrics));
    drop(readers);
    assert!(counted_bytes(&metrics) < 2 * 34_000);
}

/// Its client connects again, and is refused as at any full store.
#[tokio::test]
async fn disconnects_a_reader_for_whose_recap_there_is_no_room() {
    let (store, metrics) = store(1, 50_000, 50_000);
    let writer = enter(&store, 1);
    let reader = writer.log.join(ReadFrom::Recap(0), false, ()).expect("room");
    push_run_started(&writer);
    push_event(&writer, 30_000);
    assert_eq!(next_piece(&reader), Some(Some(Err(ReaderCutOff))));
    assert!(!writer.log.has_readers());
    assert!(counted_bytes(&metrics) < 50_000);
    assert_eq!(writer.log.join(ReadFrom::Recap(0), false, ()).map(drop), Err(JoinError::NoMemory));
}

fn enter_for(store: &Arc<RunStore>, caller: u8, run: u8) -> LogWriter {
    let mut fresh = fresh_run(run, 0);
    fresh.descriptor.keys.caller = [caller; 32];
    match store.insert(fresh) {
        InsertOutcome::New(writer) => writer,
        _ => panic!("the run is not new"),
    }
}

/// One caller's many runs must not evict the run that another may come back to.
#[tokio::test]
async fn evicts_first_from_the_caller_that_holds_most() {
    for (runs, bytes) in [(4, 1 << 20), (100, 50_000)] {
        let (store, _metrics) = store(runs, bytes, 30_000);
        let (ada, bob) = (1, 2);
        let write = |caller, run, size| {
            let writer = enter_for(&store, caller, run);
            push_event(&writer, size);
            writer.finish();
        };
        // Larger and older than each of the others, but the only one of its caller.
        write(bob, 1, 12_000);
        for run in 2..20 {
            write(ada, run, 10_000);
        }
        assert!(store.find(&[1; 32]).is_some(), "{runs} runs, {bytes} bytes");
        assert!(store.find(&[2; 32]).is_none() && store.find(&[19; 32]).is_some());
    }
}

#[tokio::test]
async fn evicts_the_oldest_run_of_callers_with_one_each() {
    let (store, _metrics) = store(100, 54_000, 30_000);
    for (run, size) in [(1, 10_000), (2, 20_000), (3, 10_000), (4, 15_000)] {
        let writer = enter_for(&store, run, run);
        push_event(&writer, size);
        writer.finish();
    }
    let kept: Vec<_> = (1..=4).filter(|run| store.find(&[*run; 32]).is_some()).collect();
    assert_eq!(kept, [2, 3, 4]);
}

/// A client that repeats one run id must not make the store grow.
#[tokio::test]
async fn keeps_nothing_of_replaced_runs() {
    let (store, _metrics) = store(10, 1 << 20, 1 << 16);
    for body in 0..100 {
        let InsertOutcome::New(writer) = store.insert(fresh_run(1, body)) else { panic!("it replaces the last") };
        writer.finish();
    }
    let runs = store.runs.lock();
    assert_eq!((runs.by_key.len(), runs.ended.len(), runs.last_of_thread.len(), runs.callers.len()), (1, 1, 1, 1));
    assert_eq!(runs.callers.values().map(|held| (held.runs, held.ended.len())).collect::<Vec<_>>(), [(1, 1)]);
}

#[tokio::test]
async fn reports_only_own_runs_that_are_evicted_early() {
    let (store, _metrics) = store(1, 1 << 20, 1 << 16);
    let (queue, mut evicted) = mpsc::channel(8);
    store.report_evicted(queue);
    enter(&store, 1).finish();
    enter(&store, 2).finish();
    assert_eq!(evicted.try_recv().map(|evicted| evicted.keys.run), Ok([1; 32]));
    let mut remote = fresh_run(3, 0);
    remote.remote_through = Some(1);
    let InsertOutcome::New(writer) = store.insert(remote) else { panic!("it is new") };
    assert_eq!(evicted.try_recv().map(|evicted| evicted.keys.run), Ok([2; 32]));
    writer.finish();
    enter(&store, 4).forget();
    assert!(evicted.try_recv().is_err());
}

/// A reader's recap must not cost other callers the runs that they may come back to.
#[tokio::test]
async fn readers_evict_only_if_that_suffices_and_first_their_own_callers_runs() {
    const LIMIT: usize = 72_000;
    let (store, metrics) = store(100, LIMIT, 30_000);
    let (ada, bob) = (1, 2);
    for (caller, run, size) in [(ada, 1, 10_000), (ada, 2, 10_000), (bob, 3, 20_000), (bob, 4, 20_000)] {
        let writer = enter_for(&store, caller, run);
        push_event(&writer, size);
        writer.finish();
    }
    let stored = |run: u8| store.find(&[run; 32]);
    let kept = || (1..=4).filter(|run| stored(*run).is_some()).collect::<Vec<_>>();
    let joined = stored(1).expect("kept");
    let make_room = |missing: usize| {
        let room = LIMIT - counted_bytes(&metrics);
        store.make_room_for_reader(&joined, room + missing)
    };
    assert!(!make_room(LIMIT));
    assert_eq!(kept(), [1, 2, 3, 4]);
    assert!(make_room(5_000));
    assert_eq!(kept(), [1, 3, 4]);
    // Bob holds more than Ada would. The run that he reads stays.
    let reader = stored(3).expect("kept").log.join(ReadFrom::Start(0), false, ()).expect("room");
    assert!(make_room(5_000));
    assert_eq!(kept(), [1, 3]);
    drop(reader);
    assert!(!make_room(5_000));
    assert_eq!(kept(), [1, 3]);
}
