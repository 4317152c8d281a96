//! A copy of a log elsewhere: reads as a reader does, but whole frames with their numbers, and never paces the run.

use super::{Base, End, Log};
use bytes::Bytes;
use std::sync::Arc;

/// Reads a log to copy it.
#[derive(Debug)]
pub struct Mirror {
    log: Arc<Log>,
    at: u64,
}

/// What a mirror sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mirrored {
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
pub enum Sum {
    /// nothing was said yet
    Nothing,
    /// it was too large to be kept
    GivenUp,
    /// Frames that tell a client, or a recap, everything up to an event. At least the first event is in it, so that it says
    /// what the conversation held before the run.
    Through(u64, Vec<u8>),
}

impl Mirror {
    /// A mirror that begins with what the log still has.
    #[must_use]
    pub fn new(log: &Arc<Log>) -> Mirror {
        Mirror { log: Arc::clone(log), at: 0 }
    }

    /// What the log cannot give any more as it was, in short. What the mirror sees next is behind that, or may overlap with it.
    #[must_use]
    pub fn sum(&self) -> Sum {
        let base = self.log.base();
        let Base::Sum(recap) = &*base else { return Sum::GivenUp };
        let state = self.log.state();
        if state.last == 0 {
            return Sum::Nothing;
        }
        let through = (state.first() - 1).max(1);
        let mut frames = Vec::new();
        if let Some(first) = state.chunks.front().filter(|chunk| chunk.first == 1) {
            frames.extend_from_slice(&first.bytes[..super::ends(&first.bytes).next().unwrap_or(first.bytes.len())]);
        }
        let mut recap = recap.clone();
        drop(state);
        drop(base);
        recap.push(&frames);
        let mut told = Vec::new();
        // Its frames are folded again where they are read, so nobody sees this time.
        recap.prelude(0, None, &mut told);
        // Of a run that failed before it began there is nothing to sum up.
        Sum::Through(through, if told.is_empty() { frames } else { told })
    }

    /// What comes next. May be dropped while waiting, and nothing is lost.
    pub async fn next(&mut self) -> Mirrored {
        loop {
            // Asked for before it is looked, so that what comes in between is not missed.
            let news = self.log.news.notified();
            let mut news = std::pin::pin!(news);
            news.as_mut().enable();
            if let Some(seen) = look(&self.log, &mut self.at) {
                return seen;
            }
            news.await;
        }
    }
}

fn look(log: &Log, at: &mut u64) -> Option<Mirrored> {
    let state = log.state();
    if state.end == End::Cut {
        return Some(Mirrored::Cut);
    }
    if *at < state.start() {
        *at = state.start();
        return Some(Mirrored::Trimmed { through: state.first() - 1 });
    }
    if *at == state.head {
        return (state.end == End::Finished).then_some(Mirrored::Finished);
    }
    // Everything in front of a mirror's place was seen, so it stands in front of a frame: of the first of a chunk, or of one
    // that was written into the last chunk since.
    let index = state.chunks.partition_point(|chunk| chunk.at <= *at).checked_sub(1)?;
    let chunk = state.chunks.get(index)?;
    let from = usize::try_from(*at - chunk.at).ok()?;
    let seen = super::ends(&chunk.bytes).take_while(|end| *end <= from).count() as u64;
    let last = state.chunks.get(index + 1).map_or(state.last, |next| next.first - 1);
    let bytes = Bytes::copy_from_slice(chunk.bytes.get(from..)?);
    *at += bytes.len() as u64;
    Some(Mirrored::Frames { first: chunk.first + seen, last, bytes })
}
