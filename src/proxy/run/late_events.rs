//! Reads what an agent sends behind the end of its run, for the run's capture: whoever looks for the cause of a
//! difference sees that the agent went on. Metrics and logs are without it, since nothing else waits for it.

use super::super::deadlines::now_millis;
use super::super::upstream::{Cluster, Connector, Session};
use super::OptionalCapture;
use crate::error::Rejection;
use crate::inspect::{RunCapture, RunFacts};
use crate::telemetry::nonzero_bits;
use crate::translate::Stream;
use std::time::Duration;

/// Time and bytes that are read after the agent's terminal event.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);
const DISCARD_LIMIT: usize = 64 << 10;

pub(super) struct LateEvents {
    capture: Box<RunCapture>,
    stream: Stream,
    /// as of the end
    facts: RunFacts,
    bytes: u64,
    out: Vec<u8>,
}

impl LateEvents {
    /// Continues the capture of a run that has ended, if it has one.
    pub(super) fn new(capture: OptionalCapture, stream: Stream) -> Option<LateEvents> {
        let mut capture = capture.0?;
        let facts = capture.start_late_reads();
        Some(LateEvents { capture, stream, facts, bytes: 0, out: Vec::new() })
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

/// Reads the rest of the body, so that the connection can be used again. Only the capture of a run keeps something of
/// it.
pub(super) async fn release_session(
    mut session: Box<Session>,
    mut late: Option<LateEvents>,
    cluster: &Cluster,
    connector: &Connector,
) {
    let rest = async {
        let mut left = DISCARD_LIMIT;
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
    let is_read = matches!(tokio::time::timeout(DISCARD_TIMEOUT, rest).await, Ok(Ok(true)));
    drop(late);
    if is_read {
        // Closing over TLS waits for an agent that may not read.
        let _ = tokio::time::timeout(DISCARD_TIMEOUT, cluster.release(connector, session)).await;
    }
}
