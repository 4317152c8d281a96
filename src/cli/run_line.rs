//! A captured run as the gateway describes it, for `tap`, `top` and `record`.

use serde::Deserialize;

/// A captured run, as far as it has come.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct RunLine {
    pub(super) id: u64,
    pub(super) route: String,
    pub(super) caller: Option<String>,
    /// dialect of the client
    pub(super) client: String,
    /// dialect of the agent
    pub(super) agent: String,
    pub(super) thread_id: String,
    pub(super) run_id: String,
    /// since the epoch
    pub(super) started_ms: u64,
    /// `running` or `ended`
    pub(super) state: String,
    pub(super) outcome: Option<String>,
    pub(super) code: Option<String>,
    pub(super) message: Option<String>,
    pub(super) events_in: u64,
    pub(super) events_out: u64,
    pub(super) first_event_ms: Option<u64>,
    pub(super) duration_ms: u64,
    /// what is unusual about the form of the agent's stream
    pub(super) body_form: Option<String>,
    /// bytes of the agent that the gateway did not keep
    pub(super) missed_bytes: u64,
    /// they are protobuf, which cannot be redacted
    #[serde(default)]
    pub(super) withheld: bool,
}
