//! Helpers that read a body in pushes.
//!
//! | file | tests the codec against |
//! |---|---|
//! | `standard.rs` | the rules of the standard, at every split |
//! | `limits.rs` | its exact limits, and its memory use |
//! | `written.rs` | what its own encoder writes |
//! | `soup.rs` | a simple parse of random bytes |

mod limits;
mod soup;
mod standard;
mod written;

use std::borrow::Cow;
use std::time::Duration;

use super::encode::InvalidSseField;
use super::*;

/// A frame copied out of its input: data, event, id.
type Seen = (String, Option<String>, Option<String>);

/// The result of reading a body.
#[derive(Debug, PartialEq)]
struct Reading {
    frames: Vec<Seen>,
    fault: Option<SseError>,
    retry: Option<Duration>,
}

fn to_owned_frame(frame: SseFrame<'_>) -> Seen {
    (frame.data.into_owned(), frame.event.map(Cow::into_owned), frame.id.map(Cow::into_owned))
}

/// Reads `pushes` as one body that ends cleanly.
fn read_pushes<'a>(limits: SseLimits, pushes: impl IntoIterator<Item = &'a [u8]>) -> Reading {
    let mut decoder = SseDecoder::new(limits);
    let mut frames = Vec::new();
    let mut fault = None;
    'body: {
        for push in pushes {
            let mut input = push;
            loop {
                match decoder.next(&mut input) {
                    SseStep::More => break,
                    SseStep::Frame(frame) => frames.push(to_owned_frame(frame)),
                    SseStep::Failed(why) => {
                        fault = Some(why);
                        break 'body;
                    }
                }
            }
            assert!(input.is_empty(), "`More` means that all input was taken");
            let bound = 3 * limits.line + limits.line.max(limits.frame);
            assert!(decoder.heap_size() <= bound, "memory is bounded by the limits");
        }
        loop {
            match decoder.finish() {
                SseStep::More => break,
                SseStep::Frame(frame) => frames.push(to_owned_frame(frame)),
                SseStep::Failed(why) => {
                    fault = Some(why);
                    break 'body;
                }
            }
        }
        assert_eq!(decoder.heap_size(), 0, "nothing outlives the body");
    }
    Reading { frames, fault, retry: decoder.retry() }
}

fn read_whole(body: &[u8]) -> Reading {
    read_pushes(SseLimits::default(), [body])
}

fn read_data(body: impl AsRef<[u8]>) -> Vec<String> {
    let reading = read_whole(body.as_ref());
    assert_eq!(reading.fault, None);
    reading.frames.into_iter().map(|(data, _, _)| data).collect()
}

/// Asserts that the body, split in two at every position and byte by byte, yields the same as the whole.
fn assert_every_split_agrees(limits: SseLimits, body: &[u8]) -> Reading {
    let expected = read_pushes(limits, [body]);
    for at in 0..=body.len() {
        let (left, right) = body.split_at(at);
        assert_eq!(read_pushes(limits, [left, right]), expected, "cut at {at}");
        assert_eq!(read_pushes(limits, [left, &[], right]), expected, "cut at {at}");
    }
    assert_eq!(read_pushes(limits, body.chunks(1)), expected, "byte by byte");
    expected
}

fn assert_every_two_splits_agree(limits: SseLimits, body: &[u8]) -> Reading {
    let expected = assert_every_split_agrees(limits, body);
    for first in 0..=body.len() {
        for second in first..=body.len() {
            let pushes = [&body[..first], &body[first..second], &body[second..]];
            assert_eq!(read_pushes(limits, pushes), expected, "cut at {first} and {second}");
        }
    }
    expected
}

/// Replaces line ends in data with those that a reader sees.
fn with_lf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}
