//! A run that has ended, while its client still reads.

use super::lifecycle::LifecycleWatch;
use super::run_output::RunOutput;
use super::slow_clients::SlowClients;
use crate::replay::ReplayKey;
use std::sync::Arc;

/// All that remains of a run that has ended: its client's backlog and permits.
pub(super) struct ClosedRun {
    pub(super) output: RunOutput,
    pub(super) lifecycle: LifecycleWatch,
    pub(super) slow_clients: Arc<SlowClients>,
    pub(super) caller: ReplayKey,
}

impl ClosedRun {
    /// Waits until the client has read everything, has left, or is disconnected.
    pub(super) async fn finish(self) {
        let ClosedRun { output, lifecycle, slow_clients, caller } = self;
        tokio::select! {
            // First, because the body ends only after `finish` has begun.
            biased;
            () = output.finish(&slow_clients, caller) => {}
            () = lifecycle.wait_cut() => {}
        }
    }
}
