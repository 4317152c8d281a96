//! Tests of the replay log.

use super::*;
use crate::dialect::{AG_UI, PeerDialect};
use crate::event::EventType;
use crate::replay::Cursor;
use crate::translate::RunIds;
use crate::translate::recap::RecapInput;
use bytes::Bytes;
use futures_util::FutureExt;
use std::sync::Arc;
use std::task::Poll;
use tokio::time::{advance, timeout};

pub(super) const PACE: LogLimits = LogLimits {
    max_backlog: 1 << 10,
    max_bytes: 16 << 10,
    stall_timeout: Duration::from_secs(60),
    abandon_after: Duration::from_secs(300),
};

/// Creates a log that belongs to no store.
pub(super) fn new_log(pace: LogLimits) -> LogWriter {
    let recap = Recap::new(PeerDialect::new(&AG_UI), &RunIds::new("t", "r"), RecapInput::default());
    LogWriter::new(Arc::new(RunLog::new(RunToken::new(7), recap, 0, pace, None)), None)
}

/// Returns an AG-UI frame with this total size in bytes.
pub(super) fn frame(number: u64, size: usize) -> Vec<u8> {
    let head =
        format!("id: {}-{number}\ndata: {{\"type\":\"CUSTOM\",\"name\":\"n\",\"value\":\"", RunToken::new(7).as_str());
    let tail = "\"}\n\n";
    format!("{head}{}{tail}", "x".repeat(size.saturating_sub(head.len() + tail.len()))).into_bytes()
}

pub(super) fn cursor_at(number: u64) -> ReadFrom {
    ReadFrom::Cursor(Cursor { token: RunToken::new(7), number })
}

pub(super) async fn next_chunk(reader: &LogReader) -> Option<Result<Bytes, ReaderCutOff>> {
    std::future::poll_fn(|cx| reader.poll_next(cx)).await
}

/// Reads everything currently available.
fn read_available(reader: &LogReader) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(Some(Ok(piece))) = next_chunk(reader).now_or_never() {
        all.extend_from_slice(&piece);
    }
    all
}

fn try_write(writer: &LogWriter, number: u64, size: usize) -> Option<Result<(), LogStopReason>> {
    writer.write(&mut frame(number, size), number).now_or_never()
}

#[tokio::test]
async fn resumes_after_any_event_and_delivers_each_byte_once() {
    let writer = new_log(PACE);
    let frames: Vec<_> =
        (1..=40).map(|number| frame(number, 150 + 10 * (usize::try_from(number).expect("few") % 5))).collect();
    // Batches of one and of three frames, within one chunk and across several.
    for batch in [1, 3].into_iter().cycle().scan(0, |from, size| {
        let batch = *from..(*from + size).min(frames.len());
        *from = batch.end;
        (!batch.is_empty()).then_some(batch)
    }) {
        writer.push(&mut frames[batch.clone()].concat(), batch.end as u64);
    }
    for number in 0..=frames.len() {
        let reader = writer.log.join(cursor_at(number as u64), false, ()).expect("kept");
        assert!(read_available(&reader) == frames[number..].concat(), "behind {number}");
    }
    assert_eq!(writer.log.join(cursor_at(41), false, ()).expect_err("ahead"), JoinError::Cursor);
    let other = Cursor { token: RunToken::new(8), number: 1 };
    assert_eq!(writer.log.join(ReadFrom::Cursor(other), false, ()).expect_err("another's"), JoinError::Cursor);
}

#[tokio::test]
async fn paces_the_run_by_the_fastest_reader() {
    let writer = new_log(PACE);
    let (slow, fast) = (writer.log.join(cursor_at(0), false, ()), writer.log.join(cursor_at(0), false, ()));
    let (slow, fast) = (slow.expect("kept"), fast.expect("kept"));
    let mut number = 0;
    while try_write(&writer, number + 1, 512).is_some() {
        number += 1;
    }
    // The limit is checked before a write.
    assert_eq!(number, 2);
    read_available(&fast);
    assert!(try_write(&writer, 3, 512).is_some());
    // The fast reader leaves, so the run waits for the slow one.
    read_available(&fast);
    drop(fast);
    assert_eq!(try_write(&writer, 4, 512), None);
    assert_eq!(read_available(&slow).len(), 3 * 512);
    assert!(try_write(&writer, 4, 512).is_some());
    // Without a reader the run does not wait.
    drop(slow);
    for number in 5..100 {
        assert_eq!(try_write(&writer, number, 512), Some(Ok(())));
    }
    assert!(writer.log.retained_bytes() <= PACE.max_bytes + CHUNK_SIZE, "{}", writer.log.retained_bytes());
}

#[tokio::test]
async fn wakes_a_blocked_write_when_room_appears() {
    let writer = new_log(PACE);
    let reader = writer.log.join(cursor_at(0), false, ()).expect("kept");
    try_write(&writer, 1, 2000);
    let mut more = frame(2, 100);
    let mut waits = std::pin::pin!(writer.write(&mut more, 2));
    assert!(futures_util::poll!(waits.as_mut()).is_pending());
    read_available(&reader);
    timeout(Duration::from_secs(1), waits).await.expect("woken").expect("written");
}

#[tokio::test]
async fn cuts_off_a_reader_that_falls_behind_the_kept_events() {
    let pace = LogLimits { max_bytes: 64 << 10, ..PACE };
    let writer = new_log(pace);
    let (slow, fast) = (writer.log.join(cursor_at(0), false, ()), writer.log.join(cursor_at(0), false, ()));
    let (slow, fast) = (slow.expect("kept"), fast.expect("kept"));
    for number in 1..=66 {
        assert!(try_write(&writer, number, 1000).is_some(), "{number}");
        read_available(&fast);
    }
    assert_eq!(next_chunk(&slow).await, Some(Err(ReaderCutOff)));
    // It may rejoin without a cursor.
    assert_eq!(writer.log.join(cursor_at(1), false, ()).map(drop), Err(JoinError::Cursor));
}

#[tokio::test]
async fn continues_an_oversized_run_but_refuses_joins() {
    let writer = new_log(PACE);
    let reader = writer.log.join(cursor_at(0), false, ()).expect("kept");
    let mut received = 0;
    for number in 1..=60 {
        assert!(try_write(&writer, number, 1000).is_some(), "{number}");
        received += read_available(&reader).len();
    }
    assert_eq!(received, 60 * 1000);
    assert_eq!(writer.log.join(ReadFrom::Recap(0), false, ()).map(drop), Err(JoinError::Discarded));
    assert_eq!(writer.log.join(cursor_at(60), false, ()).map(drop), Err(JoinError::Discarded));
    // Unreachable frames are not retained.
    assert!(writer.log.retained_bytes() < 2 * CHUNK_SIZE, "{}", writer.log.retained_bytes());
}

/// It would otherwise miss events without a sign, or receive empty pieces for ever.
#[tokio::test]
async fn cuts_off_a_slow_reader_of_an_oversized_run() {
    let writer = new_log(PACE);
    let (slow, fast) = (writer.log.join(cursor_at(0), false, ()), writer.log.join(cursor_at(0), false, ()));
    let (slow, fast) = (slow.expect("kept"), fast.expect("kept"));
    for number in 1..=200 {
        assert!(try_write(&writer, number, 300).is_some(), "{number}");
        read_available(&slow);
        read_available(&fast);
    }
    assert_eq!(writer.log.join(cursor_at(200), false, ()).map(drop), Err(JoinError::Discarded));
    for number in 201..=220 {
        assert!(try_write(&writer, number, 300).is_some(), "{number}");
        read_available(&fast);
    }
    assert_eq!(next_chunk(&slow).await, Some(Err(ReaderCutOff)));
}

#[tokio::test]
async fn limits_the_number_of_readers() {
    let writer = new_log(PACE);
    let readers: Vec<_> = (0..MAX_READERS).map(|_| writer.log.join(cursor_at(0), false, ()).expect("room")).collect();
    assert_eq!(writer.log.join(cursor_at(0), false, ()).map(drop), Err(JoinError::Full));
    drop(readers);
    assert!(writer.log.join(cursor_at(0), false, ()).is_ok());
}

#[tokio::test]
async fn limits_the_number_of_unread_recaps() {
    let writer = new_log(PACE);
    writer.push(&mut event_frame(1, r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#), 1);
    writer.push(&mut frame(2, 10_000), 2);
    let mut readers = Vec::new();
    let refused = loop {
        match writer.log.join(ReadFrom::Recap(0), false, ()) {
            Ok(reader) => readers.push(reader),
            Err(why) => break why,
        }
    };
    assert_eq!((refused, readers.len()), (JoinError::Full, 4));
    read_available(&readers[0]);
    assert!(writer.log.join(ReadFrom::Recap(0), false, ()).is_ok());
    // A join with a cursor needs no recap.
    assert!(writer.log.join(cursor_at(2), false, ()).is_ok());
}

#[tokio::test(start_paused = true)]
async fn ends_a_run_that_has_no_reader_for_too_long() {
    let writer = new_log(PACE);
    let reader = writer.log.join(cursor_at(0), false, ()).expect("kept");
    let gone = writer.wait_for_stop();
    let mut gone = std::pin::pin!(gone);
    advance(PACE.abandon_after * 2).await;
    assert!(futures_util::poll!(gone.as_mut()).is_pending());
    drop(reader);
    assert!(futures_util::poll!(gone.as_mut()).is_pending());
    advance(PACE.abandon_after - Duration::from_secs(1)).await;
    assert!(futures_util::poll!(gone.as_mut()).is_pending());
    // A reader rejoins in time, and leaves again.
    drop(writer.log.join(cursor_at(0), false, ()).expect("kept"));
    advance(PACE.abandon_after - Duration::from_secs(1)).await;
    assert!(futures_util::poll!(gone.as_mut()).is_pending());
    advance(Duration::from_secs(2)).await;
    assert_eq!(futures_util::poll!(gone.as_mut()), Poll::Ready(LogStopReason::Abandoned));
    assert_eq!(try_write(&writer, 1, 100), Some(Err(LogStopReason::Abandoned)));
}

#[tokio::test]
async fn stops_a_waiting_run_and_delivers_its_last_event() {
    let writer = new_log(PACE);
    let reader = writer.log.join(cursor_at(0), false, ()).expect("kept");
    {
        let mut gone = std::pin::pin!(writer.wait_for_stop());
        assert!(futures_util::poll!(gone.as_mut()).is_pending());
        writer.log.stop();
        assert_eq!(futures_util::poll!(gone.as_mut()), Poll::Ready(LogStopReason::Stopped));
    }
    assert_eq!(try_write(&writer, 1, 100), Some(Err(LogStopReason::Stopped)));
    writer.push(&mut frame(1, 100), 1);
    let log = Arc::clone(&writer.log);
    writer.finish();
    assert_eq!(read_available(&reader), frame(1, 100));
    assert_eq!(next_chunk(&reader).await, None);
    // A finished log stays finished.
    log.stop();
    assert!(!log.is_open());
    let late = log.join(ReadFrom::Recap(0), false, ()).expect("kept");
    assert_eq!(read_available(&late), frame(1, 100));
    assert_eq!(next_chunk(&late).await, None);
}

#[tokio::test]
async fn cuts_off_the_readers_of_an_aborted_run() {
    let cut: [fn(LogWriter); 2] = [|mut writer| writer.cut(), drop];
    // A dropped writer cuts the log too.
    for cut in cut {
        let writer = new_log(PACE);
        let reader = writer.log.join(cursor_at(0), false, ()).expect("kept");
        try_write(&writer, 1, 100);
        cut(writer);
        assert_eq!(next_chunk(&reader).await, Some(Err(ReaderCutOff)));
    }
}

#[tokio::test]
async fn sends_comments_only_to_idle_readers_and_keeps_none() {
    let writer = new_log(PACE);
    let (idle, busy) = (writer.log.join(cursor_at(0), false, ()), writer.log.join(cursor_at(0), false, ()));
    let (idle, busy) = (idle.expect("kept"), busy.expect("kept"));
    try_write(&writer, 1, 100);
    assert_eq!(read_available(&idle), frame(1, 100));
    writer.send_comment();
    assert_eq!(read_available(&idle), b": keep-alive\n\n");
    assert_eq!(read_available(&busy), frame(1, 100));
    assert_eq!(read_available(&writer.log.join(cursor_at(0), false, ()).expect("kept")), frame(1, 100));
}

#[tokio::test(start_paused = true)]
async fn drops_a_stalled_watched_reader_but_not_an_idle_one() {
    let writer = new_log(PACE);
    let (resource, others) = (Arc::new(()), Arc::new(()));
    let stalled = writer.log.join(cursor_at(0), true, Arc::clone(&resource)).expect("kept");
    let waits = writer.log.join(cursor_at(0), true, Arc::clone(&others)).expect("kept");
    // Time without data to read does not count.
    writer.log.remove_stalled();
    advance(PACE.stall_timeout * 2).await;
    writer.log.remove_stalled();
    try_write(&writer, 1, 100);
    read_available(&waits);
    writer.log.remove_stalled();
    advance(PACE.stall_timeout - Duration::from_secs(1)).await;
    writer.log.remove_stalled();
    assert_eq!(Arc::strong_count(&resource), 2);
    advance(Duration::from_secs(1)).await;
    writer.log.remove_stalled();
    assert_eq!((Arc::strong_count(&resource), Arc::strong_count(&others)), (1, 2));
    assert_eq!(next_chunk(&stalled).await, Some(Err(ReaderCutOff)));
    // The same after the end of the run, when only the log watches its readers.
    try_write(&writer, 2, 100);
    writer.finish();
    tokio::time::sleep(PACE.stall_timeout * 2).await;
    assert_eq!(Arc::strong_count(&others), 1);
    assert_eq!(next_chunk(&waits).await, Some(Err(ReaderCutOff)));
}

#[tokio::test(start_paused = true)]
async fn frees_an_ended_log_with_its_last_watched_reader() {
    let writer = new_log(PACE);
    let (log, reader) = (Arc::downgrade(&writer.log), writer.log.join(cursor_at(0), true, ()).expect("kept"));
    try_write(&writer, 1, 100);
    writer.finish();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(read_available(&reader), frame(1, 100));
    drop(reader);
    assert!(log.upgrade().is_none());
}

#[tokio::test]
async fn splits_a_large_event_for_a_reader() {
    let writer = new_log(LogLimits { max_bytes: 1 << 20, ..PACE });
    let reader = writer.log.join(cursor_at(0), false, ()).expect("kept");
    try_write(&writer, 1, 100_000);
    let mut all = Vec::new();
    while let Some(Some(Ok(piece))) = next_chunk(&reader).now_or_never() {
        assert!(piece.len() <= MAX_READ);
        all.extend_from_slice(&piece);
    }
    assert!(all == frame(1, 100_000));
}

#[tokio::test]
async fn mirrors_every_frame_with_its_number_and_the_end() {
    let writer = new_log(PACE);
    let mut mirror = LogMirror::new(&writer.log);
    let mut received = Vec::new();
    let mut numbers = Vec::new();
    for number in 1..=30 {
        writer.push(&mut frame(number, 100), number);
        if number % 7 != 0 {
            continue;
        }
        while let Some(MirrorEvent::Frames { first, last, bytes }) = mirror.next().now_or_never() {
            numbers.push((first, last));
            received.extend_from_slice(&bytes);
        }
    }
    writer.finish();
    loop {
        match mirror.next().await {
            MirrorEvent::Frames { first, last, bytes } => {
                numbers.push((first, last));
                received.extend_from_slice(&bytes);
            }
            other => {
                assert_eq!(other, MirrorEvent::Finished);
                break;
            }
        }
    }
    assert_eq!(numbers, [(1, 7), (8, 14), (15, 21), (22, 28), (29, 30)]);
    assert!(received == (1..=30).flat_map(|number| frame(number, 100)).collect::<Vec<_>>());
}

#[tokio::test]
async fn reports_to_a_slow_mirror_how_much_was_trimmed() {
    let writer = new_log(PACE);
    let mut mirror = LogMirror::new(&writer.log);
    for number in 1..=100 {
        writer.push(&mut frame(number, 1000), number);
    }
    let MirrorEvent::Trimmed { through } = mirror.next().await else { panic!("trimmed") };
    assert!(through > 0 && through <= 100);
    if through < 100 {
        assert!(matches!(mirror.next().await, MirrorEvent::Frames { first, .. } if first == through + 1));
    }
}

/// Returns a frame that contains an event.
fn event_frame(number: u64, event: &str) -> Vec<u8> {
    format!("id: {}-{number}\ndata: {event}\n\n", RunToken::new(7).as_str()).into_bytes()
}

/// Returns the text of a stream's only message, and how often its run began and ended.
fn summarise(stream: &[u8]) -> (String, usize, usize) {
    let (mut text, mut began, mut ended) = (String::new(), 0, 0);
    for line in std::str::from_utf8(stream).expect("UTF-8").lines() {
        let Some(data) = line.strip_prefix("data: ") else { continue };
        let event: serde_json::Value = serde_json::from_str(data).expect(data);
        text += event["delta"].as_str().unwrap_or_default();
        began += usize::from(event["type"] == EventType::RunStarted.wire());
        ended += usize::from(event["type"] == EventType::RunFinished.wire());
    }
    (text, began, ended)
}

/// Joins as soon as the recaps of others leave room for one.
async fn join_among_others(log: &Arc<RunLog>) -> LogReader {
    loop {
        match log.join(ReadFrom::Recap(0), false, ()) {
            Err(JoinError::Full) => tokio::task::yield_now().await,
            joined => return joined.expect("kept"),
        }
    }
}

/// Readers that join while the run writes and its oldest frames are folded get every event exactly once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn joins_at_any_moment_deliver_everything_once() {
    const EVENTS: u64 = 4000;
    let pace = LogLimits { max_bytes: 24 << 10, max_backlog: 1 << 20, ..PACE };
    let writer = new_log(pace);
    let log = Arc::clone(&writer.log);
    let begins = [
        event_frame(1, r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#),
        event_frame(2, r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}"#),
    ];
    writer.push(&mut begins.concat(), 2);
    let readers = (0..4).map(|_| {
        let log = Arc::clone(&log);
        tokio::spawn(async move {
            let mut received = Vec::new();
            let mut first = true;
            // Some stay, some reconnect.
            while log.is_open() || first {
                let reader = join_among_others(&log).await;
                let mut all = Vec::new();
                while let Some(Ok(piece)) = next_chunk(&reader).await {
                    all.extend_from_slice(&piece);
                    if all.len() % 3 == 0 && log.is_open() {
                        all.clear();
                        break;
                    }
                }
                if !all.is_empty() {
                    received.push(all);
                }
                first = false;
                tokio::task::yield_now().await;
            }
            received
        })
    });
    let readers: Vec<_> = readers.collect();
    let mut expected = String::new();
    for number in 3..EVENTS {
        let delta = format!("{},", number % 100);
        expected += &delta;
        let event = format!("{{\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"m\",\"delta\":\"{delta}\"}}");
        writer.write(&mut event_frame(number, &event), number).await.expect("the log is open");
        tokio::task::yield_now().await;
    }
    let ends = [
        event_frame(EVENTS, r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#),
        event_frame(EVENTS + 1, r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r"}"#),
    ];
    writer.push(&mut ends.concat(), EVENTS + 1);
    writer.finish();
    let late = join_among_others(&log).await;
    let mut streams = vec![read_available(&late)];
    for reader in readers {
        // A reader that was cut off got less; it would reconnect.
        streams.extend(timeout(Duration::from_secs(30), reader).await.expect("an end").expect("no panic"));
    }
    assert!(streams.len() > 1);
    for stream in &streams {
        let (text, began, ended) = summarise(stream);
        if ended == 0 {
            continue;
        }
        assert_eq!((began, ended), (1, 1));
        // The snapshot has the text of a closed message.
        let whole =
            if text.is_empty() { String::from_utf8_lossy(stream).contains(&expected) } else { text == expected };
        assert!(whole, "{}", &text[..text.len().min(200)]);
    }
}

/// Such a recap would take as much before it could be measured.
#[tokio::test]
async fn discards_an_event_that_no_recap_can_contain_without_folding_it() {
    let pace = LogLimits { max_bytes: 128 << 10, ..PACE };
    for (size, is_kept) in [(100 << 10, true), (200 << 10, false)] {
        let writer = new_log(pace);
        writer.push(&mut frame(1, size), 1);
        writer.push(&mut frame(2, 20 << 10), 2);
        assert_eq!(writer.log.join(ReadFrom::Recap(0), false, ()).is_ok(), is_kept, "{size}");
        assert!(writer.log.retained_bytes() <= pace.max_bytes, "{}", writer.log.retained_bytes());
    }
}
