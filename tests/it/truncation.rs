//! Agents that stop: after every byte of the golden corpus, in every way in which a stream can stop.
//!
//! - `core`: every stream is cut behind every byte, once as a body that ended and once as one that broke, in SSE and where
//!   there is one in protobuf. In process, because that is 150,000 bytes twice: what a cut makes of a stream is decided in
//!   [`Stream`] alone, which is told "the body ended" or "the body broke" and nothing else.
//! - `wire`: how the gateway comes to say the one or the other is decided by HTTP, so real agents stop over real sockets,
//!   in seven ways: each event of each stream is cut before its last byte, behind it, and behind the first of the next, and
//!   the ways take turns. What the client hears is held against what `core` has shown to be right. With
//!   `DIGLOT_CUTS=all` every byte of every stream is cut so (some minutes).
//! - `twice`: agents of two steps, which are asked to go on.
//! - `agent`: the agent of the last two.
//!
//! [`Stream`]: diglot::translate::Stream

mod agent;
mod core;
mod twice;
mod wire;

use super::golden::NOW;
use diglot::codec::sse::Limits;
use diglot::codec::{Framing, json};
use diglot::dialect::Side;
use diglot::event::run::Ending;
use diglot::translate::{Ids, Stream};

/// How a body came to its end, for who reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// as HTTP says
    Ended,
    /// somewhere else
    Broke,
}

/// Code and text of the gateway's error.
type Reason = (&'static str, &'static str);

const TRUNCATED: Reason = ("upstream_truncated", "The agent's stream ended before its run did.");
const RESET: Reason = ("upstream_reset", "The connection to the agent broke.");

/// What is left of a stream that was cut.
struct Left {
    /// what the client hears in all
    heard: Vec<u8>,
    /// how much of that was said before the cut was noticed
    before: usize,
    /// how the agent ended its run, if it did
    said: Option<Ending>,
}

/// What a client hears of an agent that said `bytes` and stopped: the calls that the data plane makes, in their order.
fn cut(from: Side, to: Side, run: &str, framing: Framing, bytes: &[u8], stop: Stop, (code, message): Reason) -> Left {
    let mut stream = Stream::new(from, to, Some(Ids::new("t1", run)), Limits::default());
    stream.read_as(framing);
    let mut heard = Vec::new();
    stream.push(bytes, NOW, &mut heard).expect("no limit is passed");
    let before = heard.len();
    if stop == Stop::Ended {
        let finished = stream.finish(NOW, &mut heard);
        assert_eq!(finished.is_ok(), stream.ending().is_some());
    }
    let said = stream.ending();
    stream.fail(code, message, NOW, &mut heard);
    assert!(stream.ending().is_some());
    Left { heard, before, said }
}

/// The events of a body, in JSON: the data of each frame.
fn data(body: &str) -> Vec<String> {
    let frames = body.split_terminator("\n\n").filter(|frame| !frame.starts_with(':'));
    let lines = |frame: &str| frame.lines().filter_map(|line| line.strip_prefix("data: ").map(str::to_owned)).collect();
    frames.map(lines).collect()
}

/// Whether an event ends a run. All dialects have these two words for it.
fn is_terminal(event: &str) -> bool {
    let kind = json::open_object(event).ok().and_then(|object| object.kind?.text().map(|kind| kind.into_owned()));
    kind.is_some_and(|kind| kind == "RUN_FINISHED" || kind == "RUN_ERROR")
}
