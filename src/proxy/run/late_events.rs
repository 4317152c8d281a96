//! What an agent sends behind the end of its run, for the run's capture: whoever looks for the cause of a difference sees
//! that the agent went on. Metrics and logs are without it, since nothing else waits for it.

use super::super::deadlines::now_millis;
use super::OptionalCapture;
use crate::inspect::{RunCapture, RunFacts};
use crate::telemetry::nonzero_bits;
use crate::translate::Stream;

pub(in super::super) struct LateEvents {
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
        let facts = capture.read_on();
        Some(LateEvents { capture, stream, facts, bytes: 0, out: Vec::new() })
    }

    pub(in super::super) fn read(&mut self, bytes: &[u8]) {
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
