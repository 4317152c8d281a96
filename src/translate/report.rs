//! Counts a translation's repairs and losses, and records the first rule that the agent broke.

use super::explain_trace::{ExplainTrace, TraceEntry};
use crate::dialect::{CanonicalSink, DetectionRule};
use crate::event::{Event, EventLoss, EventRepair, LossCounts};
use std::ops::Deref;

/// The first rule that the agent broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenRule {
    /// label of the resulting repair or loss
    pub(crate) label: &'static str,
    /// the rule in one sentence
    pub rule: &'static str,
}

/// Counts of events, by label in their dialect. Only the labels that have counts are looked at, since a run reports
/// each batch of events, which mostly has one type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventCounts {
    counts: Box<[u32]>,
    /// all counts before this label and from `end` on are 0
    first: u16,
    end: u16,
}

impl EventCounts {
    pub(crate) fn new(labels: usize) -> Self {
        EventCounts { counts: vec![0; labels].into_boxed_slice(), first: 0, end: 0 }
    }

    pub(crate) fn add(&mut self, label: usize) {
        self.counts[label] += 1;
        let at = u16::try_from(label).unwrap_or(u16::MAX);
        self.first = if self.end == 0 { at } else { self.first.min(at) };
        self.end = self.end.max(at.saturating_add(1));
    }

    /// Returns the labels with counts, and their counts.
    pub(crate) fn nonzero(&self) -> impl Iterator<Item = (usize, u64)> {
        let labels = usize::from(self.first)..usize::from(self.end);
        labels.map(|label| (label, u64::from(self.counts[label]))).filter(|(_, count)| *count > 0)
    }

    pub(crate) fn clear(&mut self) {
        self.counts[usize::from(self.first)..usize::from(self.end)].fill(0);
        (self.first, self.end) = (0, 0);
    }
}

impl Deref for EventCounts {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.counts
    }
}

/// Names that an agent gives its events and that no table has, within bounds, since an agent can make up any number.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgentNames(Vec<Box<str>>);

impl AgentNames {
    pub(crate) const MAX_NAMES: usize = 32;

    /// Adds a name unless it is there. `OTHER` stands for all that are too long, and for all beyond the bound.
    pub(crate) fn add(&mut self, name: &str) {
        const MAX_BYTES: usize = 64;
        const OTHER: &str = "OTHER";
        if self.0.iter().any(|own| **own == *name) {
            return;
        }
        if name.len() <= MAX_BYTES && self.0.len() < Self::MAX_NAMES {
            self.0.push(name.into());
        } else if !self.0.iter().any(|own| **own == *OTHER) {
            self.0.push(OTHER.into());
        }
    }

    /// Returns the names in the order in which they came.
    pub(crate) fn names(&self) -> &[Box<str>] {
        &self.0
    }
}

/// Counts since the stream opened.
#[derive(Clone, Debug, Default)]
pub struct TranslationReport {
    /// repair counts in the order of [`EventRepair`]
    pub repairs: [u32; EventRepair::ALL.len()],
    /// loss counts in the order of [`EventLoss`]
    pub losses: [u32; EventLoss::ALL.len()],
    pub(crate) agent: &'static str,
    pub(crate) client: &'static str,
    /// events from the agent, by label in its dialect
    pub events_read: EventCounts,
    /// events to the client, by label in its dialect
    pub events_written: EventCounts,
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
    /// `entries` when the counts of repairs and losses were last taken
    pub(crate) counted_entries: u64,
    /// names of the agent's events that are no label of its dialect, if enabled
    pub(crate) agent_names: Option<Box<AgentNames>>,
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
    pub(crate) events_read: EventCounts,
}

impl TranslationReport {
    /// Attributes the agent's subsequent events to the detected dialect.
    pub(super) fn switch_dialect(&mut self, sign: &'static DetectionRule) {
        let labels = EventCounts::new(sign.dialect.other_label_index() + 1);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_between_the_labels_that_were_counted() {
        let mut counts = EventCounts::new(9);
        for label in [5, 2, 8, 2] {
            counts.add(label);
        }
        assert_eq!(counts.nonzero().collect::<Vec<_>>(), [(2, 2), (5, 1), (8, 1)]);
        counts.clear();
        assert_eq!((counts.nonzero().count(), &*counts), (0, &[0; 9][..]));
        counts.add(0);
        assert_eq!(counts.nonzero().collect::<Vec<_>>(), [(0, 1)]);
    }
}
