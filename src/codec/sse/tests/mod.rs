//! Reading a body in pushes, for the tests beside this file.
//!
//! | file | holds the codec against |
//! |---|---|
//! | `standard.rs` | the rules of the standard, at every cut |
//! | `limits.rs` | its limits to the byte, and its memory |
//! | `written.rs` | what its own encoder writes |
//! | `soup.rs` | a plain reading of random bytes |

mod limits;
mod soup;
mod standard;
mod written;

use std::borrow::Cow;
use std::time::Duration;

use super::*;

/// A frame that has left its input: data, event, id.
type Seen = (String, Option<String>, Option<String>);

/// All that a body gave.
#[derive(Debug, PartialEq)]
struct Reading {
    frames: Vec<Seen>,
    fault: Option<Fault>,
    retry: Option<Duration>,
}

fn seen(frame: Frame<'_>) -> Seen {
    (frame.data.into_owned(), frame.event.map(Cow::into_owned), frame.id.map(Cow::into_owned))
}

/// Reads `pushes` as one body that ends cleanly.
fn read<'a>(limits: Limits, pushes: impl IntoIterator<Item = &'a [u8]>) -> Reading {
    let mut decoder = Decoder::new(limits);
    let mut frames = Vec::new();
    let mut fault = None;
    'body: {
        for push in pushes {
            let mut input = push;
            loop {
                match decoder.next(&mut input) {
                    Step::More => break,
                    Step::Frame(frame) => frames.push(seen(frame)),
                    Step::Broken(why) => {
                        fault = Some(why);
                        break 'body;
                    }
                }
            }
            assert!(input.is_empty(), "`More` means that all input was taken");
            let bound = 3 * limits.line + limits.line.max(limits.frame);
            assert!(decoder.held() <= bound, "memory is bounded by the limits");
        }
        loop {
            match decoder.finish() {
                Step::More => break,
                Step::Frame(frame) => frames.push(seen(frame)),
                Step::Broken(why) => {
                    fault = Some(why);
                    break 'body;
                }
            }
        }
        assert_eq!(decoder.held(), 0, "nothing outlives the body");
    }
    Reading { frames, fault, retry: decoder.retry() }
}

fn whole(body: &[u8]) -> Reading {
    read(Limits::default(), [body])
}

fn data(body: impl AsRef<[u8]>) -> Vec<String> {
    let reading = whole(body.as_ref());
    assert_eq!(reading.fault, None);
    reading.frames.into_iter().map(|(data, _, _)| data).collect()
}

/// The body cut into two at every place, then byte by byte, always gives what the whole gives.
fn every_cut_agrees(limits: Limits, body: &[u8]) -> Reading {
    let expected = read(limits, [body]);
    for at in 0..=body.len() {
        let (left, right) = body.split_at(at);
        assert_eq!(read(limits, [left, right]), expected, "cut at {at}");
        assert_eq!(read(limits, [left, &[], right]), expected, "cut at {at}");
    }
    assert_eq!(read(limits, body.chunks(1)), expected, "byte by byte");
    expected
}

fn every_two_cuts_agree(limits: Limits, body: &[u8]) -> Reading {
    let expected = every_cut_agrees(limits, body);
    for first in 0..=body.len() {
        for second in first..=body.len() {
            let pushes = [&body[..first], &body[first..second], &body[second..]];
            assert_eq!(read(limits, pushes), expected, "cut at {first} and {second}");
        }
    }
    expected
}

/// What a reader sees of the line ends in data.
fn with_lf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}
