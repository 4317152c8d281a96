//! A run's output: a pipe to one client, or a log with any number of readers.

use super::pipe::{self, PipeClosed};
use super::slow_clients::SlowClients;
use super::two_step::ClientPermits;
use crate::codec::{Framing, sse};
use crate::replay::{self, LogStopReason, ReplayKey};
use futures_util::FutureExt;

pub(super) enum RunOutput {
    /// for the client that started the run; the run ends with this client
    Direct(pipe::PipeWriter<ClientPermits>, Framing),
    /// for any number of readers; without readers, the run continues for a limited time
    Logged(Box<LoggedOutput>),
}

pub(super) struct LoggedOutput {
    pub(crate) writer: replay::LogWriter,
    pub(crate) permits: ClientPermits,
}

impl From<PipeClosed> for LogStopReason {
    fn from(PipeClosed: PipeClosed) -> LogStopReason {
        LogStopReason::Abandoned
    }
}

// Waits on a log are boxed: most runs have no log, and waiting runs must be small.
impl RunOutput {
    pub(super) fn is_logged(&self) -> bool {
        matches!(self, RunOutput::Logged(_))
    }

    pub(super) fn reader_count(&self) -> Option<u64> {
        match self {
            RunOutput::Direct(..) => None,
            RunOutput::Logged(output) => Some(output.writer.log.readers_total()),
        }
    }

    pub(super) fn is_unread(&self) -> bool {
        matches!(self, RunOutput::Direct(pipe, _) if pipe.is_unread())
    }

    /// Writes and clears `frames`, the last of which has `number`. Waits while at capacity.
    pub(super) async fn write(&self, frames: &mut Vec<u8>, number: u64) -> Result<(), LogStopReason> {
        match self {
            RunOutput::Direct(pipe, _) => Ok(pipe.write(frames).await?),
            RunOutput::Logged(output) => output.writer.write(frames, number).boxed().await,
        }
    }

    pub(super) fn push(&self, frames: &mut Vec<u8>, number: u64) -> Result<(), LogStopReason> {
        match self {
            RunOutput::Direct(pipe, _) => pipe.push(frames)?,
            RunOutput::Logged(output) => output.writer.push(frames, number),
        }
        Ok(())
    }

    pub(super) async fn wait_closed(&self) -> LogStopReason {
        match self {
            RunOutput::Direct(pipe, _) => {
                pipe.wait_closed().await;
                LogStopReason::Abandoned
            }
            RunOutput::Logged(output) => output.writer.wait_for_stop().boxed().await,
        }
    }

    /// Returns the memory of what the clients have not read and the replay log does not count.
    pub(super) fn unread_bytes(&self) -> usize {
        match self {
            RunOutput::Direct(pipe, _) => pipe.unread_bytes(),
            RunOutput::Logged(output) => output.writer.log.uncounted_bytes(),
        }
    }

    /// Disconnects all readers. An error ends the run.
    pub(super) fn cut_off_clients(&self) -> Result<(), LogStopReason> {
        match self {
            RunOutput::Direct(pipe, _) => {
                pipe.disconnect();
                Err(LogStopReason::Abandoned)
            }
            RunOutput::Logged(output) => {
                output.writer.log.cut_off_readers();
                Ok(())
            }
        }
    }

    /// Disconnects stalled readers. An error ends the run.
    pub(super) fn drop_stalled(&self) -> Result<(), LogStopReason> {
        match self {
            RunOutput::Direct(pipe, _) => pipe.drop_stalled()?,
            RunOutput::Logged(output) => output.writer.log.remove_stalled(),
        }
        Ok(())
    }

    /// Disconnects stalled readers until the run must end.
    pub(super) async fn wait_stalled(&self) -> LogStopReason {
        match self {
            RunOutput::Direct(pipe, _) => pipe.wait_stalled().await,
            RunOutput::Logged(output) => output.writer.remove_stalled_loop().boxed().await,
        }
        LogStopReason::Abandoned
    }

    pub(super) fn send_keep_alive(&self, response_started: bool) {
        match self {
            // Protobuf has no comment frame.
            RunOutput::Direct(pipe, Framing::Sse) if response_started => {
                let mut comment = Vec::new();
                sse::write_comment(&mut comment, "keep-alive");
                // A client that does not read has unread bytes, which keep its connection alive, too.
                let _ = pipe.write(&mut comment).now_or_never();
            }
            RunOutput::Direct(..) => {}
            RunOutput::Logged(output) => output.writer.send_comment(),
        }
    }

    /// Ends the bodies with an error immediately.
    pub(super) fn abort(&mut self) {
        match self {
            RunOutput::Direct(pipe, _) => pipe.abort(),
            RunOutput::Logged(output) => output.writer.cut(),
        }
    }

    /// Discards the log of a rejected run, so that the next request calls the agent again.
    pub(super) fn forget(&mut self) {
        if let RunOutput::Logged(output) = self {
            output.writer.forget();
        }
    }

    /// Ends the output, waiting until a direct client has read it.
    pub(super) async fn finish(self, slow_clients: &SlowClients, caller: ReplayKey) {
        match self {
            RunOutput::Direct(pipe, _) => pipe.finish(slow_clients, caller).await,
            RunOutput::Logged(output) => {
                let LoggedOutput { writer, permits } = *output;
                writer.finish();
                drop(permits);
            }
        }
    }
}
