//! Keys of the file about runs that outlive their clients.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Scalar, kind, synthetic_text};

/// The replay log, from which clients resume runs on routes with `on_disconnect: continue for …`.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ReplaySpec {
    /// The most runs that are kept, including running ones. The run that ended first is evicted first.
    pub(crate) runs: Scalar<kind::Count>,
    /// The most memory of all runs together. A size.
    pub(crate) bytes: Scalar<kind::Size>,
    /// The most memory of one run. A larger run is condensed; if it is still too large then, it continues but cannot be
    /// resumed. A size.
    pub(crate) run_bytes: Scalar<kind::Size>,
    /// Time that a run is kept after its end. A duration.
    pub(crate) age: Scalar<kind::Duration>,
    /// `memory`: a client can resume only at the same replica. `redis`: at any replica; the content of runs is then
    /// stored in `redis` as well.
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
