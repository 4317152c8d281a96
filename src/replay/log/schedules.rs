//! The log in many orders of its writer, readers and mirror: no wake-up is lost, and each gets every frame and the end
//! once.

use super::tests::{PACE, cursor_at, frame, new_log, next_chunk};
use super::*;
use crate::sync::explore;
use shuttle::future::block_on;
use shuttle::thread;

const EVENTS: u64 = 5;
const SIZE: usize = 120;

/// The writer waits as soon as all readers are behind.
const NARROW: LogLimits = LogLimits { max_backlog: 100, ..PACE };

/// With events of this size, each a chunk of its own, the oldest are folded at the third.
const SMALL: LogLimits = LogLimits { max_bytes: 15 << 10, ..NARROW };
const LARGE_EVENTS: u64 = 3;
const LARGE_SIZE: usize = 5_000;

fn all_frames() -> Vec<u8> {
    (1..=EVENTS).flat_map(|number| frame(number, SIZE)).collect()
}

/// Writes all events, as a run does, and finishes the log.
fn write_all(writer: LogWriter, events: u64, size: usize) {
    for number in 1..=events {
        let mut frames = frame(number, size);
        let _ = block_on(writer.write(&mut frames, number));
        writer.push(&mut frames, number);
    }
    writer.finish();
}

/// Reads until the end, which comes once.
fn read_all(reader: &LogReader) -> Result<Vec<u8>, ReaderCutOff> {
    let mut bytes = Vec::new();
    while let Some(piece) = block_on(next_chunk(reader)) {
        bytes.extend_from_slice(&piece?);
    }
    // A log that is evicted later says so, but sends nothing more.
    assert!(!matches!(block_on(next_chunk(reader)), Some(Ok(_))), "the end is not followed by data");
    Ok(bytes)
}

#[test]
fn every_reader_gets_every_frame_and_one_end() {
    explore(|| {
        let writer = new_log(NARROW);
        let log = Arc::clone(&writer.log);
        let readers = [(); 2].map(|()| log.join(cursor_at(0), false, ()).expect("open"));
        let late = thread::spawn(move || {
            // A late reader starts behind the events that its cursor names.
            let from = log.state.lock().last_number;
            let reader = log.join(cursor_at(from), false, ()).expect("kept");
            (from, read_all(&reader))
        });
        let readers = readers.map(|reader| thread::spawn(move || read_all(&reader)));
        write_all(writer, EVENTS, SIZE);
        for reader in readers {
            assert!(reader.join().expect("no panic") == Ok(all_frames()));
        }
        let (from, rest) = late.join().expect("no panic");
        let read = usize::try_from(from).expect("few") * SIZE;
        assert!(rest == Ok(all_frames()[read..].to_vec()));
    });
}

#[test]
fn a_writer_that_waits_goes_on_when_the_fastest_reader_leaves() {
    explore(|| {
        let writer = new_log(NARROW);
        let leaving = writer.log.join(cursor_at(0), false, ()).expect("open");
        let staying = writer.log.join(cursor_at(0), false, ()).expect("open");
        let leaving = thread::spawn(move || {
            let _ = block_on(next_chunk(&leaving));
        });
        let staying = thread::spawn(move || read_all(&staying));
        write_all(writer, EVENTS, SIZE);
        leaving.join().expect("no panic");
        assert!(staying.join().expect("no panic") == Ok(all_frames()));
    });
}

#[test]
fn a_stop_reaches_a_writer_that_waits() {
    explore(|| {
        let writer = new_log(NARROW);
        let log = Arc::clone(&writer.log);
        let reader = log.join(cursor_at(0), false, ()).expect("open");
        let stop = thread::spawn(move || log.stop());
        // No reader reads, so only the stop ends the wait.
        let mut number = 0;
        let stopped = loop {
            number += 1;
            if let Err(reason) = block_on(writer.write(&mut frame(number, SIZE), number)) {
                break reason;
            }
        };
        assert_eq!(stopped, LogStopReason::Stopped);
        assert_eq!(block_on(writer.wait_for_stop()), LogStopReason::Stopped);
        stop.join().expect("no panic");
        drop(reader);
    });
}

#[test]
fn a_mirror_gets_every_frame_or_the_number_up_to_which_they_were_folded() {
    explore(|| {
        let writer = new_log(SMALL);
        let mut mirror = LogMirror::new(&writer.log);
        let copy = thread::spawn(move || {
            let mut copied = 0;
            loop {
                match block_on(mirror.next()) {
                    MirrorEvent::Frames { first, last, bytes } => {
                        assert_eq!(first, copied + 1);
                        assert_eq!(bytes.len() as u64, (last - copied) * LARGE_SIZE as u64);
                        copied = last;
                    }
                    MirrorEvent::Trimmed { through } => {
                        assert!(through > copied);
                        copied = through;
                    }
                    MirrorEvent::Finished => return copied,
                    MirrorEvent::Cut => panic!("it is finished"),
                }
            }
        });
        let log = Arc::clone(&writer.log);
        let waits = thread::spawn(move || block_on(log.wait_for_event(LARGE_EVENTS)));
        write_all(writer, LARGE_EVENTS, LARGE_SIZE);
        assert_eq!(copy.join().expect("no panic"), LARGE_EVENTS);
        waits.join().expect("no panic");
    });
}

/// Frames that are folded and frames that are kept are one order for a reader that joins meanwhile.
#[test]
fn a_reader_that_joins_while_frames_are_folded_misses_none() {
    explore(|| {
        let writer = new_log(SMALL);
        let log = Arc::clone(&writer.log);
        let join = thread::spawn(move || {
            let from = log.state.lock().last_number;
            match log.join(cursor_at(from), false, ()) {
                Ok(reader) => read_all(&reader).map_or(0, |rest| from + (rest.len() / LARGE_SIZE) as u64),
                // Folded in between.
                Err(error) => {
                    assert_eq!(error, JoinError::Cursor);
                    0
                }
            }
        });
        write_all(writer, LARGE_EVENTS, LARGE_SIZE);
        let reached = join.join().expect("no panic");
        assert!(reached == 0 || reached == LARGE_EVENTS, "{reached}");
    });
}

#[test]
fn an_evicted_log_ends_every_reader() {
    explore(|| {
        let writer = new_log(PACE);
        let log = Arc::clone(&writer.log);
        write_all(writer, EVENTS, SIZE);
        let evict = thread::spawn({
            let log = Arc::clone(&log);
            move || log.evict()
        });
        match log.join(cursor_at(0), false, ()) {
            // Whole or cut off, and never a part that ends well.
            Ok(reader) => {
                let read = read_all(&reader);
                assert!(read == Err(ReaderCutOff) || read == Ok(all_frames()));
            }
            Err(error) => assert_eq!(error, JoinError::Discarded),
        }
        evict.join().expect("no panic");
        assert_eq!(log.state.lock().readers.len(), 0);
    });
}

/// Readers that join at once build their recaps at the same time, without a lock.
#[test]
fn joins_at_once_do_not_exceed_the_limit_of_unread_recaps() {
    explore(|| {
        let writer = new_log(PACE);
        writer.push(&mut frame(1, 10_000), 1);
        let joins = [(); 6].map(|()| {
            let log = Arc::clone(&writer.log);
            thread::spawn(move || log.join(ReadFrom::Recap(0), false, ()).ok())
        });
        let readers: Vec<_> = joins.into_iter().filter_map(|join| join.join().expect("no panic")).collect();
        let unread: usize = writer.log.state.lock().readers.iter().map(|slot| slot.recap_size).sum();
        assert!(!readers.is_empty() && unread <= 3 * PACE.max_bytes, "{unread}");
    });
}
