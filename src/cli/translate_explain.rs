//! The output of `translate --explain`: a line for each event, and the totals.

use super::output::with_plural;
use super::recording_reader::EventPosition;
use super::terminal_text::is_unsafe;
use crate::dialect::{Dialect, FrameTrace};
use crate::inspect::find_first_type;
use crate::translate::explain_trace::TraceEntry;
use crate::translate::{EventLoss, EventRepair, LossCounts};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Maximum number of names listed; any others are only counted.
const MAX_NAMES: usize = 12;

/// Formats events and collects totals.
#[derive(Debug, Default)]
pub(super) struct TranslateExplainer {
    read: usize,
    written: usize,
    carried: BTreeMap<String, u64>,
    repairs: [u64; EventRepair::ALL.len()],
    losses: LossCounts,
}

/// Notes about one event, by kind.
#[derive(Default)]
struct EventNotes {
    read: Option<String>,
    canonical: Vec<&'static str>,
    written: Vec<String>,
    /// names of carried members, and the key that contains them
    carried: Vec<(Vec<String>, String)>,
    repairs: Vec<&'static str>,
    losses: Vec<&'static str>,
    /// values that later runs of the thread get
    kept: Vec<String>,
    /// whether the rules of a dialect file send nothing for it
    is_silent: bool,
}

impl TranslateExplainer {
    /// Formats the line for an event, or for the end of the input, without the file name.
    pub(crate) fn explain_event(
        &mut self,
        position: Option<EventPosition>,
        notes: &[TraceEntry],
        agent: &Dialect,
    ) -> Option<String> {
        if notes.is_empty() && position.is_none() {
            return None;
        }
        let sorted = self.sort_notes(notes, agent);
        let mut line = match position {
            Some(place) => place.to_string(),
            None => ": the end of the input".to_owned(),
        };
        match sorted.read {
            Some(read) => line.push_str(&read),
            None if position.is_some() => line.push_str(" without a type"),
            None => {}
        }
        line.push(':');
        // Writing to memory cannot fail.
        let _ = match (sorted.canonical.as_slice(), sorted.written.as_slice()) {
            ([], []) if sorted.losses.is_empty() && !sorted.is_silent => write!(line, " buffered until later events"),
            ([], []) => write!(line, " nothing written"),
            (canonical, []) => write!(line, " read as {}, nothing written", join_names(canonical)),
            (canonical, written) if canonical.iter().eq(written) => write!(line, " written as {}", join_names(written)),
            ([], written) => write!(line, " written as {}", join_names(written)),
            (canonical, written) => {
                write!(line, " read as {}, written as {}", join_names(canonical), join_names(written))
            }
        };
        for (names, location) in &sorted.carried {
            let _ = write!(line, "; carried {} in {location}", join_names(names));
        }
        if !sorted.kept.is_empty() {
            let kept: Vec<String> = sorted.kept.iter().map(|value| printable_value(value)).collect();
            let _ = write!(line, "; kept for the thread: {}", join_names(&kept));
        }
        for (label, names) in [("repaired", &sorted.repairs), ("lost", &sorted.losses)] {
            if !names.is_empty() {
                let _ = write!(line, "; {label}: {}", join_names(names));
            }
        }
        Some(line)
    }

    fn sort_notes(&mut self, notes: &[TraceEntry], agent: &Dialect) -> EventNotes {
        let mut sorted = EventNotes::default();
        for note in notes {
            match note {
                TraceEntry::Read(wire, row) => {
                    self.read += 1;
                    let row = row.map(|row| format!(", {}", row.seed)).unwrap_or_default();
                    sorted.read = Some(format!(" {} ({}{row})", printable(wire), agent.name));
                }
                TraceEntry::Mapped(trace) => {
                    self.read += 1;
                    let name = trace.name.as_deref().map(|name| format!(" {}", printable(name))).unwrap_or_default();
                    sorted.read = Some(format!("{name} ({}, {})", agent.name, describe_rules(trace)));
                    sorted.kept.extend_from_slice(&trace.kept);
                    sorted.is_silent = !trace.lines.is_empty();
                }
                TraceEntry::Canonical(kind, names, location) => {
                    sorted.canonical.push(kind.wire());
                    self.add_carried(names, location, &mut sorted);
                }
                TraceEntry::Item { .. }
                | TraceEntry::CallResult(_)
                | TraceEntry::Supplied(_)
                | TraceEntry::UnfitPatch(_) => {}
                TraceEntry::Guarded(names, location) => self.add_carried(names, location, &mut sorted),
                TraceEntry::Written(wire, names, location) => {
                    self.written += 1;
                    sorted.written.push(printable(wire));
                    self.add_carried(names, location, &mut sorted);
                }
                TraceEntry::Repair(repair) => {
                    self.repairs[*repair as usize] += 1;
                    sorted.repairs.push(repair.label());
                }
                TraceEntry::Loss(loss) => {
                    self.losses[*loss as usize] += 1;
                    sorted.losses.push(loss.label());
                }
            }
        }
        sorted
    }

    fn add_carried(&mut self, names: &[String], location: &str, sorted: &mut EventNotes) {
        if names.is_empty() {
            return;
        }
        for name in names {
            *self.carried.entry(printable(name)).or_default() += 1;
        }
        let group = (names.iter().map(|name| printable(name)).collect(), location.to_owned());
        if !sorted.carried.contains(&group) {
            sorted.carried.push(group);
        }
    }

    pub(crate) fn summary(&self) -> String {
        let repairs = EventRepair::ALL.iter().map(|one| (one.label(), self.repairs[*one as usize]));
        let losses = EventLoss::ALL.iter().map(|one| (one.label(), self.losses[*one as usize]));
        format!(
            "{} in, {} out; carried: {}; repaired: {}; lost: {}",
            with_plural(self.read, "event"),
            self.written,
            format_counts(self.carried.iter().map(|(name, count)| (name.as_str(), *count))),
            format_counts(repairs),
            format_counts(losses)
        )
    }
}

/// Describes the event within which a stream ends, with its type if that came first.
pub(super) fn describe_cut_event(data: &str) -> String {
    let kind = find_first_type(data).map(|kind| format!(", a {}", printable(&kind))).unwrap_or_default();
    format!("the stream is cut within this event{kind}")
}

/// Names the rules of a dialect file by their lines.
fn describe_rules(trace: &FrameTrace) -> String {
    let noun = if trace.lines.len() == 1 { "rule" } else { "rules" };
    let lines = trace.describe_lines().map(|lines| format!("{noun} of {lines}{}", trace.describe_missing_value()));
    lines.unwrap_or_else(|| "no rule".to_owned())
}

/// Formats names with their counts, or "nothing".
pub(super) fn format_counts<'n>(all: impl Iterator<Item = (&'n str, u64)>) -> String {
    let some: Vec<String> =
        all.filter(|(_, count)| *count > 0).map(|(name, count)| format!("{name} {count}")).collect();
    if some.is_empty() { "nothing".to_owned() } else { join_names(&some) }
}

/// Replaces what a terminal would obey in a value that was shortened.
fn printable_value(text: &str) -> String {
    text.chars().map(|c| if is_unsafe(c) { ' ' } else { c }).collect()
}

/// Truncates text from the input, and replaces what a terminal would obey.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if is_unsafe(c) { ' ' } else { c }).take(64).collect()
}

fn join_names<T: AsRef<str>>(names: &[T]) -> String {
    let (listed, rest) = names.split_at(names.len().min(MAX_NAMES));
    let listed = listed.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(", ");
    match rest.len() {
        0 => listed,
        more => format!("{listed} and {more} more"),
    }
}
