//! A captured run as the gateway describes it, for `tap`, `top` and `record`.

use super::run_cause::CauseLine;
use crate::admin;
use serde::Deserialize;
use std::io;
use std::path::Path;

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
    /// status, fields and words with which the agent refused the request
    pub(super) refusal: Option<String>,
    /// dialect of the agent's events that are of another than `agent`
    pub(super) looks_like: Option<String>,
    pub(super) events_in: u64,
    #[serde(default)]
    pub(super) bytes_in: u64,
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
    /// the setting for which they were not kept
    pub(super) limit: Option<String>,
    /// when the gateway waited for the client to read
    #[serde(default)]
    pub(super) client_waits: Vec<WaitLine>,
    /// the longest time in which the agent sent nothing at all, if it is long enough to show
    pub(super) silence: Option<WaitLine>,
    /// labels of repairs and losses
    #[serde(default)]
    pub(super) repair_names: Vec<String>,
    #[serde(default)]
    pub(super) loss_names: Vec<String>,
    /// what its rows have of why it went wrong
    pub(super) cause: Option<CauseLine>,
}

/// A span of a run, in milliseconds since it began.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct WaitLine {
    pub(super) from_ms: u64,
    pub(super) until_ms: u64,
}

impl WaitLine {
    pub(super) const fn length_ms(self) -> u64 {
        self.until_ms - self.from_ms
    }

    /// Returns how much of the span is in both.
    pub(super) fn common_ms(self, other: WaitLine) -> u64 {
        self.until_ms.min(other.until_ms).saturating_sub(self.from_ms.max(other.from_ms))
    }
}

impl RunLine {
    /// Returns whether this is the run's number or its id.
    pub(super) fn is_named(&self, id: &str) -> bool {
        self.run_id == id || self.id.to_string() == id.strip_prefix('#').unwrap_or(id)
    }
}

/// Reads the runs that the gateway in `run_dir` keeps.
pub(super) async fn fetch_runs(run_dir: &Path) -> io::Result<Vec<RunLine>> {
    let mut lines = admin::open_stream(run_dir, "/inspect/v1/runs").await?;
    let mut runs = Vec::new();
    while let Some(line) = lines.next_line().await? {
        runs.extend(serde_json::from_slice::<RunLine>(&line).ok());
    }
    Ok(runs)
}
