//! A claim on a run, until it is used.

use crate::replay::{ReplicatedRuns, RunDescriptor};
use std::sync::Arc;

/// Releases a claim if the client disconnects before it is used, so that later requests for the run need not wait.
pub(super) struct ClaimGuard<'a>(pub(super) Option<(&'a Arc<ReplicatedRuns>, &'a RunDescriptor)>);

impl Drop for ClaimGuard<'_> {
    fn drop(&mut self) {
        let Some((replication, descriptor)) = self.0.take() else { return };
        let replication = Arc::clone(replication);
        let descriptor = descriptor.clone();
        tokio::spawn(async move { replication.release(&descriptor).await });
    }
}
