//! The log, its readers and what they cost.

use super::*;
use crate::dialect::{AG_UI, Side};
use crate::event::Kind;
use crate::replay::Cursor;
use crate::translate::Ids;
use bytes::Bytes;
use futures_util::FutureExt;
use std::sync::Arc;
use std::task::Poll;
use tokio::time::{advance, timeout};

const PACE: Pace =
    Pace { backlog: 1 << 10, bytes: 16 << 10, patience: Duration::from_secs(60), alone: Duration::from_secs(300) };

/// A log of its own, in no store.
fn log(pace: Pace) -> Writer {
    let recap = Recap::new(Side::new(&AG_UI), &Ids::new("t", "r"), None);
    Writer::new(Arc::new(Log::new(Token::new(7), recap, 0, pace)), None)
}

/// A frame of so many bytes in all, as a client of AG-UI gets it.
fn frame(number: u64, size: usize) -> Vec<u8> {
    let head =
        format!("id: {}-{number}\ndata: {{\"type\":\"CUSTOM\",\"name\":\"n\",\"value\":\"", Token::new(7).as_str());
    let tail = "\"}\n\n";
    format!("{head}{}{tail}", "x".repeat(size.saturating_sub(head.len() + tail.len()))).into_bytes()
}

fn at(number: u64) -> From {
    From::Cursor(Cursor { token: Token::new(7), number })
}

async fn next(reader: &Reader) -> Option<Result<Bytes, CutOff>> {
    std::future::poll_fn(|cx| reader.poll_next(cx)).await
}

/// Everything that is there for a reader now.
fn now(reader: &Reader) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(Some(Ok(piece))) = next(reader).now_or_never() {
        all.extend_from_slice(&piece);
    }
    all
}

fn write(writer: &Writer, number: u64, size: usize) -> Option<Result<(), Lost>> {
    writer.write(&mut frame(number, size), number).now_or_never()
}

#[tokio::test]
async fn a_reader_begins_behind_any_event_and_gets_every_byte_once() {
    let writer = log(PACE);
    let frames: Vec<_> =
        (1..=40).map(|number| frame(number, 150 + 10 * (usize::try_from(number).expect("few") % 5))).collect();
    // Batches of one frame and of three, in one chunk and over several.
    for batch in [1, 3].into_iter().cycle().scan(0, |from, size| {
        let batch = *from..(*from + size).min(frames.len());
        *from = batch.end;
        (!batch.is_empty()).then_some(batch)
    }) {
        writer.push(&mut frames[batch.clone()].concat(), batch.end as u64);
    }
    for number in 0..=frames.len() {
        let reader = writer.log().join(at(number as u64), false, ()).expect("kept");
        assert!(now(&reader) == frames[number..].concat(), "behind {number}");
    }
    assert_eq!(writer.log().join(at(41), false, ()).expect_err("ahead"), Unjoined::Cursor);
    let other = Cursor { token: Token::new(8), number: 1 };
    assert_eq!(writer.log().join(From::Cursor(other), false, ()).expect_err("another's"), Unjoined::Cursor);
}

#[tokio::test]
async fn the_run_goes_at_the_pace_of_the_fastest_reader() {
    let writer = log(PACE);
    let (slow, fast) = (writer.log().join(at(0), false, ()), writer.log().join(at(0), false, ()));
    let (slow, fast) = (slow.expect("kept"), fast.expect("kept"));
    let mut number = 0;
    while write(&writer, number + 1, 512).is_some() {
        number += 1;
    }
    // The bound is looked at before a write.
    assert_eq!(number, 2);
    now(&fast);
    assert!(write(&writer, 3, 512).is_some());
    // The fast one leaves: the slow one has to take what waits.
    now(&fast);
    drop(fast);
    assert_eq!(write(&writer, 4, 512), None);
    assert_eq!(now(&slow).len(), 3 * 512);
    assert!(write(&writer, 4, 512).is_some());
    // Without a reader it goes free.
    drop(slow);
    for number in 5..100 {
        assert_eq!(write(&writer, number, 512), Some(Ok(())));
    }
    assert!(writer.log().held() <= PACE.bytes + CHUNK, "{}", writer.log().held());
}

#[tokio::test]
async fn a_waiting_write_is_woken_by_room() {
    let writer = log(PACE);
    let reader = writer.log().join(at(0), false, ()).expect("kept");
    write(&writer, 1, 2000);
    let mut more = frame(2, 100);
    let mut waits = std::pin::pin!(writer.write(&mut more, 2));
    assert!(futures_util::poll!(waits.as_mut()).is_pending());
    now(&reader);
    timeout(Duration::from_secs(1), waits).await.expect("woken").expect("written");
}

#[tokio::test]
async fn one_who_falls_behind_what_is_kept_is_cut_off() {
    let pace = Pace { bytes: 64 << 10, ..PACE };
    let writer = log(pace);
    let (slow, fast) = (writer.log().join(at(0), false, ()), writer.log().join(at(0), false, ()));
    let (slow, fast) = (slow.expect("kept"), fast.expect("kept"));
    for number in 1..=66 {
        assert!(write(&writer, number, 1000).is_some(), "{number}");
        now(&fast);
    }
    assert_eq!(next(&slow).await, Some(Err(CutOff)));
    // It may come back, without a cursor.
    assert_eq!(writer.log().join(at(1), false, ()).map(drop), Err(Unjoined::Cursor));
}

#[tokio::test]
async fn what_is_too_large_to_be_summed_up_goes_on_and_cannot_be_joined() {
    let writer = log(PACE);
    let reader = writer.log().join(at(0), false, ()).expect("kept");
    let mut heard = 0;
    for number in 1..=60 {
        assert!(write(&writer, number, 1000).is_some(), "{number}");
        heard += now(&reader).len();
    }
    assert_eq!(heard, 60 * 1000);
    assert_eq!(writer.log().join(From::Prelude(0), false, ()).map(drop), Err(Unjoined::GivenUp));
    assert_eq!(writer.log().join(at(60), false, ()).map(drop), Err(Unjoined::GivenUp));
    // Nothing is left that nobody can get.
    assert!(writer.log().held() < 2 * CHUNK, "{}", writer.log().held());
}

#[tokio::test]
async fn readers_are_few() {
    let writer = log(PACE);
    let readers: Vec<_> = (0..READERS).map(|_| writer.log().join(at(0), false, ()).expect("room")).collect();
    assert_eq!(writer.log().join(at(0), false, ()).map(drop), Err(Unjoined::Full));
    drop(readers);
    assert!(writer.log().join(at(0), false, ()).is_ok());
}

#[tokio::test]
async fn preludes_that_nobody_takes_are_few() {
    let writer = log(PACE);
    writer.push(&mut says(1, r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#), 1);
    writer.push(&mut frame(2, 10_000), 2);
    let mut readers = Vec::new();
    let refused = loop {
        match writer.log().join(From::Prelude(0), false, ()) {
            Ok(reader) => readers.push(reader),
            Err(why) => break why,
        }
    };
    assert_eq!((refused, readers.len()), (Unjoined::Full, 4));
    now(&readers[0]);
    assert!(writer.log().join(From::Prelude(0), false, ()).is_ok());
    // A cursor costs nothing.
    assert!(writer.log().join(at(2), false, ()).is_ok());
}

#[tokio::test(start_paused = true)]
async fn nobody_listens_for_so_long_and_no_longer() {
    let writer = log(PACE);
    let reader = writer.log().join(at(0), false, ()).expect("kept");
    let gone = writer.gone();
    let mut gone = std::pin::pin!(gone);
    advance(PACE.alone * 2).await;
    assert!(futures_util::poll!(gone.as_mut()).is_pending());
    drop(reader);
    assert!(futures_util::poll!(gone.as_mut()).is_pending());
    advance(PACE.alone - Duration::from_secs(1)).await;
    assert!(futures_util::poll!(gone.as_mut()).is_pending());
    // Somebody comes back in time, and goes again.
    drop(writer.log().join(at(0), false, ()).expect("kept"));
    advance(PACE.alone - Duration::from_secs(1)).await;
    assert!(futures_util::poll!(gone.as_mut()).is_pending());
    advance(Duration::from_secs(2)).await;
    assert_eq!(futures_util::poll!(gone.as_mut()), Poll::Ready(Lost::Gone));
    assert_eq!(write(&writer, 1, 100), Some(Err(Lost::Gone)));
}

#[tokio::test]
async fn a_stop_reaches_a_run_that_waits_and_the_last_word_is_heard() {
    let writer = log(PACE);
    let reader = writer.log().join(at(0), false, ()).expect("kept");
    {
        let mut gone = std::pin::pin!(writer.gone());
        assert!(futures_util::poll!(gone.as_mut()).is_pending());
        writer.log().stop();
        assert_eq!(futures_util::poll!(gone.as_mut()), Poll::Ready(Lost::Stopped));
    }
    assert_eq!(write(&writer, 1, 100), Some(Err(Lost::Stopped)));
    writer.push(&mut frame(1, 100), 1);
    let log = Arc::clone(writer.log());
    writer.finish();
    assert_eq!(now(&reader), frame(1, 100));
    assert_eq!(next(&reader).await, None);
    // An ended one stays as it is.
    log.stop();
    assert!(!log.is_open());
    let late = log.join(From::Prelude(0), false, ()).expect("kept");
    assert_eq!(now(&late), frame(1, 100));
    assert_eq!(next(&late).await, None);
}

#[tokio::test]
async fn a_run_that_is_cut_has_no_proper_end() {
    let cut: [fn(Writer); 2] = [|mut writer| writer.cut(), drop];
    // One that is torn down is no better than one that is cut.
    for cut in cut {
        let writer = log(PACE);
        let reader = writer.log().join(at(0), false, ()).expect("kept");
        write(&writer, 1, 100);
        cut(writer);
        assert_eq!(next(&reader).await, Some(Err(CutOff)));
    }
}

#[tokio::test]
async fn comments_go_to_those_who_have_nothing_to_read_and_are_not_kept() {
    let writer = log(PACE);
    let (idle, busy) = (writer.log().join(at(0), false, ()), writer.log().join(at(0), false, ()));
    let (idle, busy) = (idle.expect("kept"), busy.expect("kept"));
    write(&writer, 1, 100);
    assert_eq!(now(&idle), frame(1, 100));
    writer.comment();
    assert_eq!(now(&idle), b": keep-alive\n\n");
    assert_eq!(now(&busy), frame(1, 100));
    assert_eq!(now(&writer.log().join(at(0), false, ()).expect("kept")), frame(1, 100));
}

#[tokio::test(start_paused = true)]
async fn a_watched_reader_that_takes_nothing_is_given_up_and_one_that_waits_is_not() {
    let writer = log(PACE);
    let (held, others) = (Arc::new(()), Arc::new(()));
    let stalled = writer.log().join(at(0), true, Arc::clone(&held)).expect("kept");
    let waits = writer.log().join(at(0), true, Arc::clone(&others)).expect("kept");
    // Time in which there is nothing to take does not count.
    writer.check();
    advance(PACE.patience * 2).await;
    writer.check();
    write(&writer, 1, 100);
    now(&waits);
    writer.check();
    advance(PACE.patience - Duration::from_secs(1)).await;
    writer.check();
    assert_eq!(Arc::strong_count(&held), 2);
    advance(Duration::from_secs(1)).await;
    writer.check();
    assert_eq!((Arc::strong_count(&held), Arc::strong_count(&others)), (1, 2));
    assert_eq!(next(&stalled).await, Some(Err(CutOff)));
    // The same behind the end of the run, of which nobody looks after its readers but the log.
    write(&writer, 2, 100);
    writer.finish();
    tokio::time::sleep(PACE.patience * 2).await;
    assert_eq!(Arc::strong_count(&others), 1);
    assert_eq!(next(&waits).await, Some(Err(CutOff)));
}

#[tokio::test]
async fn a_large_event_leaves_a_watched_reader_in_pieces() {
    let writer = log(Pace { bytes: 1 << 20, ..PACE });
    let reader = writer.log().join(at(0), true, ()).expect("kept");
    write(&writer, 1, 100_000);
    let mut all = Vec::new();
    while let Some(Some(Ok(piece))) = next(&reader).now_or_never() {
        assert!(piece.len() <= WATCHED_PIECE);
        all.extend_from_slice(&piece);
    }
    assert!(all == frame(1, 100_000));
}

#[tokio::test]
async fn a_mirror_sees_every_frame_with_its_number_and_the_end() {
    let writer = log(PACE);
    let mut mirror = Mirror::new(writer.log());
    let mut heard = Vec::new();
    let mut numbers = Vec::new();
    for number in 1..=30 {
        writer.push(&mut frame(number, 100), number);
        if number % 7 != 0 {
            continue;
        }
        while let Some(Mirrored::Frames { first, last, bytes }) = mirror.next().now_or_never() {
            numbers.push((first, last));
            heard.extend_from_slice(&bytes);
        }
    }
    writer.finish();
    loop {
        match mirror.next().await {
            Mirrored::Frames { first, last, bytes } => {
                numbers.push((first, last));
                heard.extend_from_slice(&bytes);
            }
            other => {
                assert_eq!(other, Mirrored::Finished);
                break;
            }
        }
    }
    assert_eq!(numbers, [(1, 7), (8, 14), (15, 21), (22, 28), (29, 30)]);
    assert!(heard == (1..=30).flat_map(|number| frame(number, 100)).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_mirror_that_is_too_slow_hears_how_much_is_gone() {
    let writer = log(PACE);
    let mut mirror = Mirror::new(writer.log());
    for number in 1..=100 {
        writer.push(&mut frame(number, 1000), number);
    }
    let Mirrored::Trimmed { through } = mirror.next().await else { panic!("trimmed") };
    assert!(through > 0 && through <= 100);
    if through < 100 {
        assert!(matches!(mirror.next().await, Mirrored::Frames { first, .. } if first == through + 1));
    }
}

/// A frame that says an event.
fn says(number: u64, event: &str) -> Vec<u8> {
    format!("id: {}-{number}\ndata: {event}\n\n", Token::new(7).as_str()).into_bytes()
}

/// The text of a stream's one message, and how often its run began and ended.
fn heard(stream: &[u8]) -> (String, usize, usize) {
    let (mut text, mut began, mut ended) = (String::new(), 0, 0);
    for line in std::str::from_utf8(stream).expect("UTF-8").lines() {
        let Some(data) = line.strip_prefix("data: ") else { continue };
        let event: serde_json::Value = serde_json::from_str(data).expect(data);
        text += event["delta"].as_str().unwrap_or_default();
        began += usize::from(event["type"] == Kind::RunStarted.wire());
        ended += usize::from(event["type"] == Kind::RunFinished.wire());
    }
    (text, began, ended)
}

/// Whoever joins at whatever moment, while the run speaks and its oldest frames are folded, hears everything once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn joins_at_any_moment_hear_everything_once() {
    const EVENTS: u64 = 4000;
    let pace = Pace { bytes: 24 << 10, backlog: 1 << 20, ..PACE };
    let writer = log(pace);
    let log = Arc::clone(writer.log());
    let begins = [
        says(1, r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#),
        says(2, r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}"#),
    ];
    writer.push(&mut begins.concat(), 2);
    let readers = (0..4).map(|_| {
        let log = Arc::clone(&log);
        tokio::spawn(async move {
            let mut heard = Vec::new();
            let mut first = true;
            // Some hang on, some come and go.
            while log.is_open() || first {
                let reader = log.join(From::Prelude(0), false, ()).expect("kept");
                let mut all = Vec::new();
                while let Some(Ok(piece)) = next(&reader).await {
                    all.extend_from_slice(&piece);
                    if all.len() % 3 == 0 && log.is_open() {
                        all.clear();
                        break;
                    }
                }
                if !all.is_empty() {
                    heard.push(all);
                }
                first = false;
                tokio::task::yield_now().await;
            }
            heard
        })
    });
    let readers: Vec<_> = readers.collect();
    let mut expected = String::new();
    for number in 3..EVENTS {
        let delta = format!("{},", number % 100);
        expected += &delta;
        let event = format!("{{\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"m\",\"delta\":\"{delta}\"}}");
        writer.write(&mut says(number, &event), number).await.expect("somebody may listen");
        tokio::task::yield_now().await;
    }
    let ends = [
        says(EVENTS, r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#),
        says(EVENTS + 1, r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r"}"#),
    ];
    writer.push(&mut ends.concat(), EVENTS + 1);
    writer.finish();
    let late = log.join(From::Prelude(0), false, ()).expect("kept");
    let mut streams = vec![now(&late)];
    for reader in readers {
        // One that was cut off heard less; it would come back.
        streams.extend(timeout(Duration::from_secs(30), reader).await.expect("an end").expect("no panic"));
    }
    assert!(streams.len() > 1);
    for stream in &streams {
        let (text, began, ended) = heard(stream);
        if ended == 0 {
            continue;
        }
        assert_eq!((began, ended), (1, 1));
        // Of a text that is closed the snapshot has it.
        let whole =
            if text.is_empty() { String::from_utf8_lossy(stream).contains(&expected) } else { text == expected };
        assert!(whole, "{}", &text[..text.len().min(200)]);
    }
}
