//! Counts a translation's repairs and losses, and records the first rule that the agent broke.

use super::explain_trace::{ExplainTrace, TraceEntry};
use crate::dialect::{CanonicalSink, DetectionRule};
use crate::event::{Event, EventLoss, EventRepair, LossCounts};

/// The first rule that the agent broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenRule {
    /// label of the resulting repair or loss
    pub(crate) label: &'static str,
    /// the rule in one sentence
    pub rule: &'static str,
}

/// Counts since the stream opened.
#[derive(Clone, Debug, Default)]
pub struct TranslationReport {
    /// repair counts in the order of [`EventRepair`]
    pub repairs: [u64; EventRepair::ALL.len()],
    /// loss counts in the order of [`EventLoss`]
    pub losses: LossCounts,
    pub(crate) agent: &'static str,
    pub(crate) client: &'static str,
    /// events from the agent, by label in its dialect
    pub events_read: Box<[u64]>,
    /// events to the client, by label in its dialect
    pub events_written: Box<[u64]>,
    /// the changes of the agent's dialect upon detection, in order
    pub dialect_switches: Vec<DialectSwitch>,
    /// the first broken rule
    pub broken_rule: Option<BrokenRule>,
    /// whether the lists of an event have more elements than are taken apart
    pub(crate) has_excess: bool,
    /// the dialect of the first event that belongs to another dialect than the agent's
    pub(crate) foreign_dialect: Option<&'static str>,
    /// repairs and losses of all kinds
    pub(crate) entries: u64,
    /// processing steps of each event, if enabled
    pub(crate) trace: Option<Box<ExplainTrace>>,
}

/// A switch to the dialect detected in a stream.
#[derive(Clone, Debug)]
pub struct DialectSwitch {
    /// the rule that detected the dialect
    pub rule: &'static DetectionRule,
    pub(crate) from_dialect: &'static str,
    /// events read before the switch, by label in the previous dialect
    pub(crate) events_read: Box<[u64]>,
}

impl TranslationReport {
    /// Attributes the agent's subsequent events to the detected dialect.
    pub(super) fn switch_dialect(&mut self, sign: &'static DetectionRule) {
        let labels = vec![0; sign.dialect.other_label_index() + 1].into_boxed_slice();
        let from = std::mem::replace(&mut self.agent, sign.dialect.name);
        self.dialect_switches.push(DialectSwitch {
            rule: sign,
            from_dialect: from,
            events_read: std::mem::replace(&mut self.events_read, labels),
        });
    }

    pub(crate) fn count_repair(&mut self, repair: EventRepair) {
        self.repairs[repair as usize] += 1;
        self.record(TraceEntry::Repair(repair), repair.label(), repair.rule());
    }

    /// Counts a repair of something that the dialect permits.
    pub(crate) fn count_allowed_repair(&mut self, repair: EventRepair) {
        self.repairs[repair as usize] += 1;
        self.record(TraceEntry::Repair(repair), repair.label(), None);
    }

    pub(crate) fn count_loss(&mut self, loss: EventLoss) {
        self.losses[loss as usize] += 1;
        self.record(TraceEntry::Loss(loss), loss.label(), loss.rule());
    }

    pub(crate) fn count_loss_times(&mut self, loss: EventLoss, times: u64) {
        (0..times).for_each(|_| self.count_loss(loss));
    }

    pub(crate) fn add_losses(&mut self, counts: &LossCounts) {
        for (loss, count) in EventLoss::ALL.iter().zip(counts) {
            self.count_loss_times(*loss, *count);
        }
    }

    fn record(&mut self, note: TraceEntry, label: &'static str, rule: Option<&'static str>) {
        self.entries += 1;
        if let (None, Some(rule)) = (self.broken_rule, rule) {
            self.broken_rule = Some(BrokenRule { label, rule });
        }
        if let Some(trace) = &mut self.trace {
            trace.entries.push(note);
        }
    }
}

pub(super) trait EventSink {
    fn emit(&mut self, event: Event<'_>);
    fn report(&mut self) -> &mut TranslationReport;
}

impl<S: EventSink> CanonicalSink for S {
    fn emit(&mut self, event: Event<'_>) {
        EventSink::emit(self, event);
    }

    fn count_repair(&mut self, repair: EventRepair) {
        self.report().count_repair(repair);
    }

    fn count_allowed_repair(&mut self, repair: EventRepair) {
        self.report().count_allowed_repair(repair);
    }

    fn count_loss(&mut self, loss: EventLoss) {
        self.report().count_loss(loss);
    }
}
