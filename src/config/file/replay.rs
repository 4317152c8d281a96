//! What the operator writes about runs that outlive their clients.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Scalar, kind, synthetic_text};

/// How much is kept of runs for clients that come back, on routes whose runs go on without them (`on_disconnect`).
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ReplaySpec {
    /// The most runs that are kept, those that still go on among them. The run that ended first makes room.
    pub(crate) runs: Scalar<kind::Count>,
    /// How much all of them may take together. A size.
    pub(crate) bytes: Scalar<kind::Size>,
    /// How much one of them may take. A run that grows beyond it is summed up; one whose sum is larger goes on, and nobody
    /// can come back to it. A size.
    pub(crate) run_bytes: Scalar<kind::Size>,
    /// How long a run is kept behind its end. A duration.
    pub(crate) age: Scalar<kind::Duration>,
    /// `memory`: a client comes back to the replica that it left. `redis`: to any; what runs say is then in `redis` as well.
    pub(crate) store: Scalar<kind::Store>,
}

impl Default for ReplaySpec {
    fn default() -> ReplaySpec {
        ReplaySpec {
            runs: synthetic_text("10000"),
            bytes: synthetic_text("256MiB"),
            run_bytes: synthetic_text("1MiB"),
            age: synthetic_text("5m"),
            store: synthetic_text("memory"),
        }
    }
}

pub(super) fn on_disconnect() -> Scalar<kind::OnDisconnect> {
    synthetic_text("abort")
}
