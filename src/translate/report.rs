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

/// Counts of events, by label in their dialect. Most batches of events have one type, which is counted here; the counts
/// of the others are elsewhere in memory, and are looked at only if there are any.
#[derive(Clone, Debug, Default)]
pub struct EventCounts {
    last_label: u16,
    last_count: u32,
    /// without the last label's newest
    counts: Box<[u32]>,
    /// all `counts` before this label and from `end` on are 0
    first: u16,
    end: u16,
}

impl EventCounts {
    pub(crate) fn new(labels: usize) -> Self {
        EventCounts { counts: vec![0; labels].into_boxed_slice(), ..EventCounts::default() }
    }

    pub(crate) fn add(&mut self, label: usize) {
        let label = u16::try_from(label).unwrap_or(u16::MAX);
        if label != self.last_label {
            self.store_last();
            self.last_label = label;
        }
        self.last_count += 1;
    }

    fn store_last(&mut self) {
        if self.last_count > 0 {
            let at = self.last_label;
            self.counts[usize::from(at)] += std::mem::take(&mut self.last_count);
            self.first = if self.end == 0 { at } else { self.first.min(at) };
            self.end = self.end.max(at.saturating_add(1));
        }
    }

    /// Returns the counts of all labels.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u64> {
        let mut counts: Vec<_> = self.counts.iter().map(|count| u64::from(*count)).collect();
        if self.last_count > 0 {
            counts[usize::from(self.last_label)] += u64::from(self.last_count);
        }
        counts
    }

    /// Returns true if nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nonzero().next().is_none()
    }

    /// Returns the labels with counts, one of them perhaps twice, and their counts.
    pub(crate) fn nonzero(&self) -> impl Iterator<Item = (usize, u64)> {
        let stored = usize::from(self.first)..usize::from(self.end);
        let last = (usize::from(self.last_label), u64::from(self.last_count));
        stored.map(|label| (label, u64::from(self.counts[label]))).chain([last]).filter(|(_, count)| *count > 0)
    }

    pub(crate) fn clear(&mut self) {
        self.last_count = 0;
        if self.end > 0 {
            self.counts[usize::from(self.first)..usize::from(self.end)].fill(0);
            (self.first, self.end) = (0, 0);
        }
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
// In this order in memory: what every event touches comes first.
#[repr(C)]
pub struct TranslationReport {
    /// events from the agent, by label in its dialect
    pub events_read: EventCounts,
    /// events to the client, by label in its dialect
    pub events_written: EventCounts,
    pub(crate) agent: &'static str,
    pub(crate) client: &'static str,
    /// repairs and losses of all kinds
    pub(crate) entries: u64,
    /// `entries` when the counts of repairs and losses were last taken
    pub(crate) counted_entries: u64,
    /// names of the agent's events that are no label of its dialect, if enabled
    pub(crate) agent_names: Option<Box<AgentNames>>,
    /// the changes of the agent's dialect upon detection, in order
    pub dialect_switches: Vec<DialectSwitch>,
    /// the dialect of the first event that belongs to another dialect than the agent's
    pub(crate) foreign_dialect: Option<&'static str>,
    /// repair counts in the order of [`EventRepair`]
    pub repairs: [u32; EventRepair::ALL.len()],
    /// loss counts in the order of [`EventLoss`]
    pub losses: [u32; EventLoss::ALL.len()],
    /// the first broken rule
    pub broken_rule: Option<BrokenRule>,
    /// whether the lists of an event have more elements than are taken apart
    pub(crate) has_excess: bool,
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

    /// Counts a member that was missing and is added.
    pub(crate) fn count_supplied_member(&mut self, name: &'static str) {
        self.count_repair(EventRepair::MemberSupplied);
        if let Some(trace) = &mut self.trace {
            trace.entries.push(TraceEntry::Supplied(name));
        }
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
    fn counts_each_label_until_it_is_cleared() {
        let mut counts = EventCounts::new(9);
        for labels in [&[5, 2, 8, 8, 2][..], &[0, 0], &[8], &[]] {
            for label in labels {
                counts.add(*label);
            }
            let count = |label| labels.iter().filter(|counted| **counted == label).count() as u64;
            assert_eq!(counts.to_vec(), (0..9).map(count).collect::<Vec<_>>(), "{labels:?}");
            assert_eq!(counts.nonzero().map(|(_, count)| count).sum::<u64>(), labels.len() as u64);
            assert_eq!(counts.is_empty(), labels.is_empty());
            counts.clear();
        }
    }
}
