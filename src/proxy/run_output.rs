//! Whom a run speaks to: the one client that asked for it, or everybody who reads its log.

use super::desk::Held;
use super::pipe::{self, Gone};
use crate::codec::{Framing, sse};
use crate::replay::{self, Lost};
use futures_util::FutureExt;

/// Whom a run speaks to.
pub(super) enum Audience {
    /// the client that asked; without it there is nobody
    One(pipe::Writer<Held>, Framing),
    /// whoever comes: the run goes on without anybody, for some time
    Any(Box<Any>),
}

/// What a run with a log holds, until it ends.
pub(super) struct Any {
    pub writer: replay::Writer,
    pub held: Held,
}

impl From<Gone> for Lost {
    fn from(Gone: Gone) -> Lost {
        Lost::Gone
    }
}

// What waits for a log is boxed: most runs have none, and idle ones shall be small.
impl Audience {
    /// Whether others may come.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Audience::Any(_))
    }

    /// How many streams have read it, if others may come.
    pub(super) fn readers(&self) -> Option<u64> {
        match self {
            Audience::One(..) => None,
            Audience::Any(any) => Some(any.writer.log().seated()),
        }
    }

    /// Whether nobody came in time for a run that is read with a request of its own.
    pub(super) fn is_unread(&self) -> bool {
        matches!(self, Audience::One(pipe, _) if pipe.is_unread())
    }

    /// Hands all of `frames` over, the last of which has this number, and leaves it empty; waits while nobody takes anything.
    pub(super) async fn write(&self, frames: &mut Vec<u8>, number: u64) -> Result<(), Lost> {
        match self {
            Audience::One(pipe, _) => Ok(pipe.write(frames).await?),
            Audience::Any(any) => any.writer.write(frames, number).boxed().await,
        }
    }

    /// The same for last words: there will be no time to wait.
    pub(super) fn push(&self, frames: &mut Vec<u8>, number: u64) -> Result<(), Lost> {
        match self {
            Audience::One(pipe, _) => pipe.push(frames)?,
            Audience::Any(any) => any.writer.push(frames, number),
        }
        Ok(())
    }

    /// Waits until there is nobody to speak to.
    pub(super) async fn gone(&self) -> Lost {
        match self {
            Audience::One(pipe, _) => {
                pipe.gone().await;
                Lost::Gone
            }
            Audience::Any(any) => any.writer.gone().boxed().await,
        }
    }

    /// Gives up whoever has taken nothing for long.
    pub(super) fn check(&self) -> Result<(), Lost> {
        match self {
            Audience::One(pipe, _) => pipe.check()?,
            Audience::Any(any) => any.writer.check(),
        }
        Ok(())
    }

    /// Waits until everybody is given up, if that is the end of the run.
    pub(super) async fn stalled(&self) -> Lost {
        match self {
            Audience::One(pipe, _) => {
                pipe.stalled().await;
                Lost::Gone
            }
            Audience::Any(any) => {
                any.writer.stalled().boxed().await;
                Lost::Gone
            }
        }
    }

    /// Keeps connections alive on which there is nothing to say. A client that was not answered yet (`heard`) has none.
    pub(super) fn keep_alive(&self, heard: bool) {
        match self {
            // Protobuf has no word for it.
            Audience::One(pipe, Framing::Sse) if heard => {
                let mut comment = Vec::new();
                sse::comment(&mut comment, "keep-alive");
                // A client that does not read has bytes waiting; those keep it alive as well.
                let _ = pipe.write(&mut comment).now_or_never();
            }
            Audience::One(..) => {}
            Audience::Any(any) => any.writer.comment(),
        }
    }

    /// Ends bodies with an error, at once.
    pub(super) fn cut(&mut self) {
        match self {
            Audience::One(pipe, _) => pipe.cut(),
            Audience::Any(any) => any.writer.cut(),
        }
    }

    /// The run was refused: whoever comes from now on asks the agent again.
    pub(super) fn forget(&mut self) {
        if let Audience::Any(any) = self {
            any.writer.forget();
        }
    }

    /// The last word was said. A client that the run is for alone is waited for until it has it.
    pub(super) async fn finish(self) {
        match self {
            Audience::One(pipe, _) => pipe.finish().await,
            Audience::Any(any) => {
                let Any { writer, held } = *any;
                writer.finish();
                drop(held);
            }
        }
    }
}
