//! A copy of a log elsewhere: reads as a reader does, but whole frames with their numbers, and never paces the run.

use super::{LogBase, LogPhase, RunLog};
use bytes::Bytes;
use std::sync::Arc;

/// Reads a log to copy it.
#[derive(Debug)]
pub(crate) struct LogMirror {
    log: Arc<RunLog>,
    offset: u64,
}

/// What a mirror sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MirrorEvent {
    /// frames that come next
    Frames {
        /// the number of the first
        first: u64,
        /// the number of the last
        last: u64,
        /// the frames, with their ids
        bytes: Bytes,
    },
    /// frames up to this number were trimmed before the mirror had them
    Trimmed {
        /// the number of the last that is gone
        through: u64,
    },
    /// the run has ended, and everything was seen
    Finished,
    /// the run was cut off, without a last word
    Cut,
}

/// What the front of a log comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MirrorSummary {
    /// nothing was said yet
    Empty,
    /// it was too large to be kept
    Discarded,
    /// Frames that tell a client, or a recap, everything up to an event. At least the first event is in it, so that it says
    /// what the conversation held before the run.
    Through(u64, Vec<u8>),
}

impl LogMirror {
    /// A mirror that begins with what the log still has.
    #[must_use]
    pub(crate) fn new(log: &Arc<RunLog>) -> LogMirror {
        LogMirror { log: Arc::clone(log), offset: 0 }
    }

    /// What the log cannot give any more as it was, in short. What the mirror sees next is behind that, or may overlap with it.
    #[must_use]
    pub(crate) fn summarize(&self) -> MirrorSummary {
        let base = self.log.base();
        let LogBase::Recap(recap) = &*base else { return MirrorSummary::Discarded };
        let state = self.log.state();
        if state.last_number == 0 {
            return MirrorSummary::Empty;
        }
        let through = (state.first_number() - 1).max(1);
        let mut frames = Vec::new();
        if let Some(first) = state.chunks.front().filter(|chunk| chunk.first_number == 1) {
            frames
                .extend_from_slice(&first.bytes[..super::frame_ends(&first.bytes).next().unwrap_or(first.bytes.len())]);
        }
        let mut recap = recap.clone();
        drop(state);
        drop(base);
        recap.push(&frames);
        let mut told = Vec::new();
        // Its frames are folded again where they are read, so nobody sees this time.
        recap.prelude(0, None, &mut told);
        // Of a run that failed before it began there is nothing to sum up.
        MirrorSummary::Through(through, if told.is_empty() { frames } else { told })
    }

    /// What comes next. May be dropped while waiting, and nothing is lost.
    pub(crate) async fn next(&mut self) -> MirrorEvent {
        loop {
            // Asked for before it is looked, so that what comes in between is not missed.
            let news = self.log.changed.notified();
            let mut news = std::pin::pin!(news);
            news.as_mut().enable();
            if let Some(seen) = next_event(&self.log, &mut self.offset) {
                return seen;
            }
            news.await;
        }
    }
}

fn next_event(log: &RunLog, at: &mut u64) -> Option<MirrorEvent> {
    let state = log.state();
    if state.phase == LogPhase::Cut {
        return Some(MirrorEvent::Cut);
    }
    if *at < state.start_offset() {
        *at = state.start_offset();
        return Some(MirrorEvent::Trimmed { through: state.first_number() - 1 });
    }
    if *at == state.end_offset {
        return (state.phase == LogPhase::Finished).then_some(MirrorEvent::Finished);
    }
    // Everything in front of a mirror's place was seen, so it stands in front of a frame: of the first of a chunk, or of one
    // that was written into the last chunk since.
    let index = state.chunks.partition_point(|chunk| chunk.offset <= *at).checked_sub(1)?;
    let chunk = state.chunks.get(index)?;
    let from = usize::try_from(*at - chunk.offset).ok()?;
    let seen = super::frame_ends(&chunk.bytes).take_while(|end| *end <= from).count() as u64;
    let last = state.chunks.get(index + 1).map_or(state.last_number, |next| next.first_number - 1);
    let bytes = Bytes::copy_from_slice(chunk.bytes.get(from..)?);
    *at += bytes.len() as u64;
    Some(MirrorEvent::Frames { first: chunk.first_number + seen, last, bytes })
}
