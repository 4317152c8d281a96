//! What the operator writes about runs that outlive their clients.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Text, kind, text};

/// How much is kept of runs for clients that come back, on routes whose runs go on without them (`on_disconnect`).
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Replay {
    /// The most runs that are kept, those that still go on among them. The run that ended first makes room.
    #[schemars(with = "kind::Count")]
    pub runs: Text,
    /// How much all of them may take together. A size.
    #[schemars(with = "kind::Size")]
    pub bytes: Text,
    /// How much one of them may take. A run that grows beyond it is summed up; one whose sum is larger goes on, and nobody
    /// can come back to it. A size.
    #[schemars(with = "kind::Size")]
    pub run_bytes: Text,
    /// How long a run is kept behind its end. A duration.
    #[schemars(with = "kind::Duration")]
    pub age: Text,
    /// `memory`: a client comes back to the replica that it left. `redis`: to any; what runs say is then in `redis` as well.
    #[schemars(with = "kind::Store")]
    pub store: Text,
}

impl Default for Replay {
    fn default() -> Replay {
        Replay {
            runs: text("10000"),
            bytes: text("256MiB"),
            run_bytes: text("1MiB"),
            age: text("5m"),
            store: text("memory"),
        }
    }
}

pub(super) fn on_disconnect() -> Text {
    text("abort")
}
