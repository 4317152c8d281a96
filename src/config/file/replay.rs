//! What the operator writes about runs that outlive their clients.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{SpannedText, kind, synthetic_text};

/// How much is kept of runs for clients that come back, on routes whose runs go on without them (`on_disconnect`).
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReplaySpec {
    /// The most runs that are kept, those that still go on among them. The run that ended first makes room.
    #[schemars(with = "kind::Count")]
    pub(crate) runs: SpannedText,
    /// How much all of them may take together. A size.
    #[schemars(with = "kind::Size")]
    pub(crate) bytes: SpannedText,
    /// How much one of them may take. A run that grows beyond it is summed up; one whose sum is larger goes on, and nobody
    /// can come back to it. A size.
    #[schemars(with = "kind::Size")]
    pub(crate) run_bytes: SpannedText,
    /// How long a run is kept behind its end. A duration.
    #[schemars(with = "kind::Duration")]
    pub(crate) age: SpannedText,
    /// `memory`: a client comes back to the replica that it left. `redis`: to any; what runs say is then in `redis` as well.
    #[schemars(with = "kind::Store")]
    pub(crate) store: SpannedText,
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

pub(super) fn on_disconnect() -> SpannedText {
    synthetic_text("abort")
}
