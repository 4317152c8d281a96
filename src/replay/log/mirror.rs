//! Reads whole frames from a log to copy them to other replicas, without delaying the run.

use super::{LogBase, LogPhase, LogState, RunLog};
use bytes::Bytes;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct LogMirror {
    log: Arc<RunLog>,
    offset: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MirrorEvent {
    /// the next frames, with their ids
    Frames {
        first: u64,
        last: u64,
        bytes: Bytes,
    },
    /// frames were trimmed before the mirror read them
    Trimmed {
        through: u64,
    },
    /// the run has ended, and every frame has been read
    Finished,
    Cut,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MirrorSummary {
    /// the run has no events yet
    Empty,
    /// too large to retain
    Discarded,
    /// number of the last frame covered (at least the first, which contains the earlier conversation), and the summary
    Through(u64, Vec<u8>),
}

impl LogMirror {
    pub(crate) fn new(log: &Arc<RunLog>) -> LogMirror {
        LogMirror { log: Arc::clone(log), offset: 0 }
    }

    pub(crate) fn summarize(&self) -> MirrorSummary {
        let base = self.log.base.lock();
        let LogBase::Recap(recap) = &*base else { return MirrorSummary::Discarded };
        let state = self.log.state.lock();
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
        let mut summary = Vec::new();
        // The replica that reads these frames folds them again, so clients never see the time 0.
        recap.write(0, None, &mut summary);
        // The recap of a run that failed before it began is empty.
        MirrorSummary::Through(through, if summary.is_empty() { frames } else { summary })
    }

    /// Waits for the next event. Cancel safe.
    pub(crate) async fn next(&mut self) -> MirrorEvent {
        let LogMirror { log, offset } = self;
        log.wait_until(|| next_event(log, offset)).await
    }
}

/// Without a mirror, a discarded log keeps nothing for it.
impl Drop for LogMirror {
    fn drop(&mut self) {
        self.log.state.lock().mirror_offset = None;
    }
}

fn next_event(log: &RunLog, at: &mut u64) -> Option<MirrorEvent> {
    let mut state = log.state.lock();
    let event = read_event(&state, at);
    state.mirror_offset = Some(*at);
    if state.is_discarded {
        drop(state.trim(log.limits.max_backlog));
    }
    event
}

fn read_event(state: &LogState, at: &mut u64) -> Option<MirrorEvent> {
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
    // A mirror reads whole chunks, so it is always at the start of a frame: a chunk's first, or one that was since
    // appended to the last chunk.
    let index = state.chunks.partition_point(|chunk| chunk.offset <= *at).checked_sub(1)?;
    let chunk = state.chunks.get(index)?;
    let from = usize::try_from(*at - chunk.offset).ok()?;
    let frames_read = super::frame_ends(&chunk.bytes).take_while(|end| *end <= from).count() as u64;
    let last = state.chunks.get(index + 1).map_or(state.last_number, |next| next.first_number - 1);
    let bytes = Bytes::copy_from_slice(chunk.bytes.get(from..)?);
    *at += bytes.len() as u64;
    Some(MirrorEvent::Frames { first: chunk.first_number + frames_read, last, bytes })
}
