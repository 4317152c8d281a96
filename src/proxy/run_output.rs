//! Whom a run speaks to: the one client that asked for it, or everybody who reads its log.

use super::pipe::{self, PipeClosed};
use super::two_step::ClientPermits;
use crate::codec::{Framing, sse};
use crate::replay::{self, LogStopReason};
use futures_util::FutureExt;

/// Whom a run speaks to.
pub(super) enum RunOutput {
    /// the client that asked; without it there is nobody
    Direct(pipe::PipeWriter<ClientPermits>, Framing),
    /// whoever comes: the run goes on without anybody, for some time
    Logged(Box<LoggedOutput>),
}

/// What a run with a log holds, until it ends.
pub(super) struct LoggedOutput {
    pub(crate) writer: replay::LogWriter,
    pub(crate) permits: ClientPermits,
}

impl From<PipeClosed> for LogStopReason {
    fn from(PipeClosed: PipeClosed) -> LogStopReason {
        LogStopReason::Abandoned
    }
}

// What waits for a log is boxed: most runs have none, and idle ones shall be small.
impl RunOutput {
    /// Whether others may come.
    pub(super) fn is_logged(&self) -> bool {
        matches!(self, RunOutput::Logged(_))
    }

    /// How many streams have read it, if others may come.
    pub(super) fn reader_count(&self) -> Option<u64> {
        match self {
            RunOutput::Direct(..) => None,
            RunOutput::Logged(any) => Some(any.writer.log().readers_total()),
        }
    }

    /// Whether nobody came in time for a run that is read with a request of its own.
    pub(super) fn is_unread(&self) -> bool {
        matches!(self, RunOutput::Direct(pipe, _) if pipe.is_unread())
    }

    /// Hands all of `frames` over, the last of which has this number, and leaves it empty; waits while nobody takes anything.
    pub(super) async fn write(&self, frames: &mut Vec<u8>, number: u64) -> Result<(), LogStopReason> {
        match self {
            RunOutput::Direct(pipe, _) => Ok(pipe.write(frames).await?),
            RunOutput::Logged(any) => any.writer.write(frames, number).boxed().await,
        }
    }

    /// The same for last words: there will be no time to wait.
    pub(super) fn push(&self, frames: &mut Vec<u8>, number: u64) -> Result<(), LogStopReason> {
        match self {
            RunOutput::Direct(pipe, _) => pipe.push(frames)?,
            RunOutput::Logged(any) => any.writer.push(frames, number),
        }
        Ok(())
    }

    /// Waits until there is nobody to speak to.
    pub(super) async fn wait_closed(&self) -> LogStopReason {
        match self {
            RunOutput::Direct(pipe, _) => {
                pipe.wait_closed().await;
                LogStopReason::Abandoned
            }
            RunOutput::Logged(any) => any.writer.wait_for_stop().boxed().await,
        }
    }

    /// Gives up whoever has taken nothing for long.
    pub(super) fn drop_stalled(&self) -> Result<(), LogStopReason> {
        match self {
            RunOutput::Direct(pipe, _) => pipe.drop_stalled()?,
            RunOutput::Logged(any) => any.writer.remove_stalled(),
        }
        Ok(())
    }

    /// Waits until everybody is given up, if that is the end of the run.
    pub(super) async fn wait_stalled(&self) -> LogStopReason {
        match self {
            RunOutput::Direct(pipe, _) => {
                pipe.wait_stalled().await;
                LogStopReason::Abandoned
            }
            RunOutput::Logged(any) => {
                any.writer.remove_stalled_loop().boxed().await;
                LogStopReason::Abandoned
            }
        }
    }

    /// Keeps connections alive on which there is nothing to say. A client that was not answered yet (`heard`) has none.
    pub(super) fn send_keep_alive(&self, response_started: bool) {
        match self {
            // Protobuf has no word for it.
            RunOutput::Direct(pipe, Framing::Sse) if response_started => {
                let mut comment = Vec::new();
                sse::write_comment(&mut comment, "keep-alive");
                // A client that does not read has bytes waiting; those keep it alive as well.
                let _ = pipe.write(&mut comment).now_or_never();
            }
            RunOutput::Direct(..) => {}
            RunOutput::Logged(any) => any.writer.send_comment(),
        }
    }

    /// Ends bodies with an error, at once.
    pub(super) fn abort(&mut self) {
        match self {
            RunOutput::Direct(pipe, _) => pipe.abort(),
            RunOutput::Logged(any) => any.writer.cut(),
        }
    }

    /// The run was refused: whoever comes from now on asks the agent again.
    pub(super) fn forget(&mut self) {
        if let RunOutput::Logged(any) = self {
            any.writer.forget();
        }
    }

    /// The last word was said. A client that the run is for alone is waited for until it has it.
    pub(super) async fn finish(self) {
        match self {
            RunOutput::Direct(pipe, _) => pipe.finish().await,
            RunOutput::Logged(any) => {
                let LoggedOutput { writer, permits: held } = *any;
                writer.finish();
                drop(held);
            }
        }
    }
}
