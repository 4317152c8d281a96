//! A run's output: a pipe to one client, or a log with any number of readers.

use super::pipe::{self, LARGE_REMAINDER, PipeClosed};
use super::slow_clients::SlowClients;
use super::two_step::ClientPermits;
use crate::codec::{Framing, sse};
use crate::replay::{self, LogStopReason, ReplayKey, RunLog};
use futures_util::FutureExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::Sleep;

pub(super) enum RunOutput {
    /// for the client that started the run; the run ends with this client
    Direct(pipe::PipeWriter, Framing),
    /// for any number of readers; without readers, the run continues for a limited time
    Logged(Box<LoggedOutput>),
}

pub(super) struct LoggedOutput {
    pub(super) writer: replay::LogWriter,
    permits: ClientPermits,
    /// runs while the log has no reader
    abandon_timer: Option<Pin<Box<Sleep>>>,
}

impl LoggedOutput {
    pub(super) const fn new(writer: replay::LogWriter, permits: ClientPermits) -> Self {
        LoggedOutput { writer, permits, abandon_timer: None }
    }
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

    /// Returns the reason for which nobody wants the run any more.
    pub(super) fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<LogStopReason> {
        match self {
            RunOutput::Direct(pipe, _) => pipe.poll_closed(cx).map(|()| LogStopReason::Abandoned),
            RunOutput::Logged(output) => output.writer.poll_stop(&mut output.abandon_timer, cx),
        }
    }

    /// Returns the reason to stop the run, if there is one now.
    pub(super) fn find_stop(&self) -> Option<LogStopReason> {
        match self {
            RunOutput::Direct(pipe, _) => pipe.is_closed().then_some(LogStopReason::Abandoned),
            RunOutput::Logged(output) => output.writer.find_stop(),
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

    /// Ends the output, waiting until a direct client has read it, and readers of a discarded log what is not counted
    /// there.
    pub(super) async fn finish(self, slow_clients: &SlowClients, caller: ReplayKey) {
        match self {
            RunOutput::Direct(pipe, _) => pipe.finish(slow_clients, caller).await,
            RunOutput::Logged(output) => {
                let LoggedOutput { writer, permits, .. } = *output;
                let log = Arc::clone(&writer.log);
                writer.finish();
                drop(permits);
                wait_unread(&log, slow_clients, caller).await;
            }
        }
    }
}

/// Waits until the readers of an ended run have read what its log does not count, or are cut off as slow.
async fn wait_unread(log: &RunLog, slow_clients: &SlowClients, caller: ReplayKey) {
    let unread = log.uncounted_bytes();
    if unread <= LARGE_REMAINDER {
        return;
    }
    let waiting = slow_clients.wait(caller, unread);
    tokio::select! {
        () = log.wait_freed() => {}
        () = waiting.wait_cut_off() => log.cut_off_readers(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::replay::{ReplayConfig, ReplayStoreKind};
    use crate::dialect::{AG_UI, PeerDialect};
    use crate::replay::{InsertOutcome, LogReader, NewRun, ReadFrom, RunDescriptor, RunKeys, RunStore, RunToken};
    use crate::telemetry::Metrics;
    use crate::translate::RunIds;
    use crate::translate::recap::{Recap, RecapInput};
    use futures_util::poll;
    use std::num::NonZeroUsize;
    use std::time::Duration;

    const EVENT_SIZE: usize = 1 << 20;

    /// Returns the log of a run that has ended after an event for which there was no memory, and its reader.
    fn ended_without_memory(metrics: &Metrics) -> (Arc<RunLog>, LogReader) {
        let age = Duration::from_secs(60);
        let runs = NonZeroUsize::new(9).expect("some");
        let replay = ReplayConfig { runs, bytes: 64 << 10, run_bytes: 64 << 10, age, store: ReplayStoreKind::Memory };
        let store = RunStore::new(replay, 1 << 10, age, metrics.replay.clone());
        let (side, ids) = (PeerDialect::new(&AG_UI), RunIds::new("t", "r"));
        let recap = Recap::new(side, &ids, RecapInput::default());
        let keys = RunKeys { caller: [1; 32], run: [2; 32], thread: [3; 32], body: [4; 32] };
        let descriptor = RunDescriptor { keys, token: RunToken::new(7), side, ids };
        let fresh = NewRun { descriptor, recap, abandon_after: age, remote_through: None };
        let InsertOutcome::New(writer) = store.insert(fresh) else { panic!("it is the first") };
        let log = Arc::clone(&writer.log);
        let reader = log.join(ReadFrom::Start(0), false, ()).expect("room");
        writer.push(&mut format!("data: {}\n\n", "x".repeat(EVENT_SIZE)).into_bytes(), 1);
        writer.finish();
        (log, reader)
    }

    async fn read_all(reader: &LogReader) -> Option<usize> {
        let mut bytes = 0;
        while let Some(piece) = std::future::poll_fn(|cx| reader.poll_next(cx)).await {
            bytes += piece.ok()?.len();
        }
        Some(bytes)
    }

    #[tokio::test(start_paused = true)]
    async fn readers_of_an_ended_run_count_as_slow_clients() {
        let metrics = Arc::new(Metrics::new().expect("unique names"));
        let slow_clients = SlowClients::new(EVENT_SIZE, Arc::clone(&metrics));
        for is_slow in [false, true] {
            let (log, reader) = ended_without_memory(&metrics);
            let mut end = Box::pin(wait_unread(&log, &slow_clients, [1; 32]));
            assert!(poll!(&mut end).is_pending());
            let other = is_slow.then(|| slow_clients.wait([2; 32], EVENT_SIZE));
            let rest = if is_slow { None } else { read_all(&reader).await };
            end.await;
            assert_eq!(rest.is_some_and(|bytes| bytes > EVENT_SIZE), !is_slow);
            assert_eq!(read_all(&reader).await.is_none(), is_slow);
            assert!(log.uncounted_bytes() < 16 << 10, "{}", log.uncounted_bytes());
            drop(other);
        }
    }
}
