//! What the engine did besides translating: repairs and losses, each with a name from a closed list, and the rule that the
//! agent broke where it broke one.

use super::event_repair::{EventLoss, EventRepair};
use super::explain_trace::{ExplainTrace, TraceEntry};
use crate::dialect::DetectionRule;
use crate::event::Event;

/// The first rule that the agent broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenRule {
    /// label of the repair or the loss that it made necessary
    pub(crate) label: &'static str,
    /// the rule, as a sentence
    pub rule: &'static str,
}

/// Counts since the stream opened.
#[derive(Clone, Debug, Default)]
pub struct TranslationReport {
    /// by [`Repair`], in the order of its table
    pub repairs: [u64; EventRepair::ALL.len()],
    /// by [`Loss`], in the order of its table
    pub losses: [u64; EventLoss::ALL.len()],
    /// the dialect of the agent, as far as it is known
    pub(crate) agent: &'static str,
    /// the dialect of the client
    pub(crate) client: &'static str,
    /// events from the agent, by label of its dialect
    pub events_read: Box<[u64]>,
    /// events to the client, by label of its dialect
    pub events_written: Box<[u64]>,
    /// that the agent turned out to speak another dialect than was thought
    pub dialect_switch: Option<DialectSwitch>,
    /// the first rule that was broken
    pub broken_rule: Option<BrokenRule>,
    /// what happens to each event, where somebody asked for it
    pub(crate) trace: Option<Box<ExplainTrace>>,
}

/// A turn to another dialect, in a stream whose dialect is told by what it says.
#[derive(Clone, Debug)]
pub struct DialectSwitch {
    /// what showed it
    pub rule: &'static DetectionRule,
    /// the dialect that it was taken for
    pub(crate) from_dialect: &'static str,
    /// events that were read before, by label of the dialect that it was taken for
    pub(crate) events_read: Box<[u64]>,
}

impl TranslationReport {
    /// From here on the agent's events are those of the sign's dialect.
    pub(super) fn switch_dialect(&mut self, sign: &'static DetectionRule) {
        let labels = vec![0; sign.dialect.other_label_index() + 1].into_boxed_slice();
        let from = std::mem::replace(&mut self.agent, sign.dialect.name);
        self.dialect_switch = Some(DialectSwitch {
            rule: sign,
            from_dialect: from,
            events_read: std::mem::replace(&mut self.events_read, labels),
        });
    }

    /// Counts a repair.
    pub(crate) fn count_repair(&mut self, repair: EventRepair) {
        self.repairs[repair as usize] += 1;
        self.record(TraceEntry::Repair(repair), repair.label(), repair.rule());
    }

    /// Counts a repair of what the agent's dialect has in its own form: no rule is broken.
    pub(crate) fn count_allowed_repair(&mut self, repair: EventRepair) {
        self.repairs[repair as usize] += 1;
        self.record(TraceEntry::Repair(repair), repair.label(), None);
    }

    /// Counts a loss.
    pub(crate) fn count_loss(&mut self, loss: EventLoss) {
        self.losses[loss as usize] += 1;
        self.record(TraceEntry::Loss(loss), loss.label(), loss.rule());
    }

    fn record(&mut self, note: TraceEntry, label: &'static str, rule: Option<&'static str>) {
        if let (None, Some(rule)) = (self.broken_rule, rule) {
            self.broken_rule = Some(BrokenRule { label, rule });
        }
        if let Some(trace) = &mut self.trace {
            trace.entries.push(note);
        }
    }
}

/// Takes canonical events one after another.
pub(super) trait EventSink {
    /// The next event.
    fn emit(&mut self, event: Event<'_>);
    /// Where repairs and losses are counted.
    fn report(&mut self) -> &mut TranslationReport;
}
