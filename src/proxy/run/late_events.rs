//! Reads the rest of an agent's body after the end of its run, so that the connection can be used again.
//!
//! A captured run keeps what comes: whoever looks for the cause of a difference sees that the agent went on. Until then
//! the capture counts as running. Metrics and logs are without it, since nothing else waits for it.

use super::super::deadlines::now_millis;
use super::super::run_memory::RunMemoryShare;
use super::super::upstream::{Cluster, Connector, Session};
use super::OptionalCapture;
use crate::error::Rejection;
use crate::inspect::{RunCapture, RunFacts};
use crate::telemetry::nonzero_bits;
use crate::translate::Stream;
use std::time::Duration;

/// Time and bytes that are read after the agent's terminal event.
const REST_TIMEOUT: Duration = Duration::from_secs(1);
const REST_LIMIT: usize = 64 << 10;

pub(super) struct LateEvents {
    capture: Box<RunCapture>,
    stream: Stream,
    /// of the stream
    _memory: RunMemoryShare,
    /// as of the end
    facts: RunFacts,
    bytes: u64,
    out: Vec<u8>,
}

impl LateEvents {
    /// Continues the capture of a run that has ended, if it has one. A body of several runs may go on with the next.
    pub(super) fn new(capture: OptionalCapture, stream: Stream, memory: RunMemoryShare) -> Option<LateEvents> {
        let capture = capture.0.filter(|_| !stream.follows_run())?;
        let facts = capture.run_facts();
        Some(LateEvents { capture, stream, _memory: memory, facts, bytes: 0, out: Vec::new() })
    }

    fn read(&mut self, bytes: &[u8]) {
        let now = now_millis();
        self.capture.record_read(now, bytes);
        self.bytes += bytes.len() as u64;
        // Nothing follows the end for the client, and no error ends the run a second time.
        let _ = self.stream.push(bytes, now, &mut self.out);
        self.out.clear();
        let report = self.stream.report();
        self.capture.record_types(report);
        self.capture.update_facts(RunFacts {
            events_in: self.facts.events_in + report.events_read.to_vec().iter().sum::<u64>(),
            bytes_in: self.facts.bytes_in + self.bytes,
            losses: self.facts.losses + report.losses.iter().map(|count| u64::from(*count)).sum::<u64>(),
            loss_kinds: self.facts.loss_kinds | nonzero_bits(&report.losses),
            ..self.facts.clone()
        });
    }
}

pub(super) async fn release_session(
    mut session: Box<Session>,
    mut late: Option<LateEvents>,
    cluster: &Cluster,
    connector: &Connector,
) {
    let rest = async {
        let mut left = REST_LIMIT;
        while session
            .read_body(|bytes| {
                left = left.saturating_sub(bytes.len());
                late.iter_mut().for_each(|late| late.read(bytes));
            })
            .await?
        {
            if left == 0 {
                return Ok(false);
            }
        }
        Ok::<bool, Box<Rejection>>(true)
    };
    let is_read = matches!(tokio::time::timeout(REST_TIMEOUT, rest).await, Ok(Ok(true)));
    drop(late);
    if is_read {
        // Closing over TLS waits for an agent that may not read.
        let _ = tokio::time::timeout(REST_TIMEOUT, cluster.release(connector, session)).await;
    }
}
