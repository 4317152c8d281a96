//! Agents whose stream stops after every byte of the golden corpus, in every way in which a stream can stop.
//!
//! - `core`: every stream is cut after every byte, once as a body that ended and once as one that broke, in SSE and, if
//!   there is one, in protobuf. It runs in process, because that is 150,000 bytes twice: the result depends only on
//!   [`Stream`] and on which of the two it gets.
//! - `wire`: HTTP decides between the two, so real agents stop over real sockets, in seven ways: each event of each
//!   stream is cut before its last byte, after it, and after the first byte of the next, with the ways in turn. The
//!   output is compared with the results of `core`. With `DIGLOT_CUTS=all` every byte of every stream is cut this way
//!   (some minutes).
//! - `two_steps`: two-step agents, whose stream the gateway resumes.
//! - `agent`: the agent of the last two.
//!
//! [`Stream`]: diglot::translate::Stream

mod agent;
mod core;
mod two_steps;
mod wire;

use super::golden::NOW;
use diglot::codec::sse::SseLimits;
use diglot::codec::{Framing, json};
use diglot::dialect::PeerDialect;
use diglot::event::run::RunEnding;
use diglot::translate::{RunIds, Stream, StreamError};

/// The end of a body for its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyEnd {
    /// complete by HTTP
    Ended,
    /// somewhere else
    Broke,
}

/// Code and text of the gateway's error.
type Reason = (&'static str, &'static str);

const TRUNCATED: Reason = ("upstream_truncated", "The agent's stream ended before its run did.");
const RESET: Reason = ("upstream_reset", "The connection to the agent broke.");

/// Before the first event that the agent's dialect knows.
const UNKNOWN: Reason = ("upstream_dialect", "The agent's events are not known to the gateway.");

/// The result of a truncated stream.
struct TruncatedRun {
    /// the whole output for the client
    output: Vec<u8>,
    /// size of the output before the cut was noticed
    before: usize,
    /// how the agent ended its run, if it did
    agent_ending: Option<RunEnding>,
}

/// Translates `bytes` of an agent that then stops, with the calls of the data plane in their order.
fn run_truncated(
    from: PeerDialect,
    to: PeerDialect,
    run: &str,
    framing: Framing,
    bytes: &[u8],
    stop: BodyEnd,
    mut reason: Reason,
) -> TruncatedRun {
    let mut stream = Stream::new(from, to, Some(RunIds::new("t1", run)), SseLimits::default());
    stream.read_as(framing);
    let mut received = Vec::new();
    stream.push(bytes, NOW, &mut received).expect("no limit is passed");
    let before = received.len();
    if stop == BodyEnd::Ended {
        let finished = stream.finish(NOW, &mut received);
        assert_eq!(finished.is_ok(), stream.ending().is_some());
        if finished == Err(StreamError::UnknownDialect) {
            reason = UNKNOWN;
        }
    }
    let agent_ending = stream.ending();
    stream.fail(reason.0, reason.1, NOW, &mut received);
    assert!(stream.ending().is_some());
    TruncatedRun { output: received, before, agent_ending }
}

/// The events of a body, in JSON: the data of each frame.
fn frame_data(body: &str) -> Vec<String> {
    let frames = body.split_terminator("\n\n").filter(|frame| !frame.starts_with(':'));
    let lines = |frame: &str| frame.lines().filter_map(|line| line.strip_prefix("data: ").map(str::to_owned)).collect();
    frames.map(lines).collect()
}

/// Returns whether an event ends a run. All dialects use these two types.
fn is_terminal(event: &str) -> bool {
    let kind = json::parse_open_object(event).ok().and_then(|object| object.kind?.text().map(|kind| kind.into_owned()));
    kind.is_some_and(|kind| kind == "RUN_FINISHED" || kind == "RUN_ERROR")
}
