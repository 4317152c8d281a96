//! Waits for a client that reads slowly, during the run and after it.

use super::RunTask;
use crate::proxy::lifecycle::LifecycleWatch;
use crate::proxy::run_output::RunOutput;
use crate::proxy::slow_clients::{AGENT_READ_BUFFER, SlowClients};
use crate::replay::LogStopReason;
use crate::telemetry::internal_event;
use std::sync::Arc;

/// All that remains of a run that has ended: its client's backlog and permits.
pub(super) struct ClosedRun {
    pub(super) output: RunOutput,
    pub(super) lifecycle: LifecycleWatch,
    pub(super) slow_clients: Arc<SlowClients>,
}

impl RunTask {
    /// Writes as soon as the client has read enough, or without it.
    pub(super) async fn wait_for_client(&mut self, number: u64) -> Result<(), LogStopReason> {
        let slow_clients = Arc::clone(&self.context.slow_clients);
        let waiting = slow_clients.wait(self.output.unread_bytes() + self.out.capacity() + AGENT_READ_BUFFER);
        tokio::select! {
            biased;
            written = self.output.write(&mut self.out, number) => return written,
            // A client that does not read cannot delay the process beyond its drain, but may still read later.
            () = self.context.lifecycle.wait_cut() => {}
            // Nor can it keep its run open beyond a deadline,
            () = self.deadlines.wait_expired() => {}
            // nor keep it open at all if it reads nothing,
            reason = self.output.wait_stalled() => return Err(reason),
            // or if many others wait, too.
            () = waiting.wait_cut_off() => {
                internal_event::SlowClientCutOff { run: self.context.record.log_fields() }
                    .emit(&self.context.slow_clients.metrics);
                self.output.cut_off_clients()?;
            }
        }
        self.output.push(&mut self.out, number)
    }
}

impl ClosedRun {
    /// Waits until the client has read everything, has left, or is disconnected.
    pub(super) async fn finish(self) {
        let ClosedRun { output, mut lifecycle, slow_clients } = self;
        tokio::select! {
            // First, because the body ends only after `finish` has begun.
            biased;
            () = output.finish(&slow_clients) => {}
            () = lifecycle.wait_cut() => {}
        }
    }
}
