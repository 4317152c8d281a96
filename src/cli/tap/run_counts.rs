//! Counts what is remarkable about a run, and describes it at the run's end.

use super::super::output::with_plural;
use super::super::run_cause::{
    IdChangeLine, LeftOpenLine, MAX_NAMED, describe_cut, describe_id_change, describe_left_open, is_end,
};
use super::super::run_line::{RunLine, WaitLine};
use super::tap_line::{CountLine, EventLine, RowLine};
use crate::error::RejectionKind;
use crate::event::{EventLoss, EventRepair, EventType};
use std::collections::BTreeMap;

/// Size from which an event is named at the end of its run.
pub(super) const LARGE_BYTES: usize = 250_000;

/// Length from which a wait is named at the end of its run.
pub(super) const LONG_WAIT_MS: u64 = 1_000;

/// Length from which a wait is what is worth to know first of a run.
const HEADLINE_WAIT_MS: u64 = 5_000;

/// The end of the labels of losses that are carried to the client.
const NOT_SHOWN: &str = "_not_shown";

/// Held events that are remembered.
const MAX_HELD: usize = 256;

/// Changes of ids that are remembered: those of the items that may be open.
const MAX_CHANGES: usize = 64;

/// Notes that are repeated at the end of their run.
const MAX_NOTES: usize = 2;

/// Repairs or losses of one kind.
#[derive(Clone, Debug, Default)]
pub(super) struct KindCount {
    count: u64,
    help: String,
}

/// Repairs and losses of a run.
#[derive(Debug, Default)]
pub(super) struct RunCounts {
    repairs: BTreeMap<String, KindCount>,
    losses: BTreeMap<String, KindCount>,
    /// the row in which the agent ended the run, if it is lost for a byte order mark
    lost_end: Option<u64>,
    /// the row in which the agent began another run
    next_run: Option<u64>,
    /// the row in which the agent went on after its end
    late: Option<u64>,
    /// bytes and type of the largest event of the agent
    largest: (usize, String),
    /// held events that the client has not got yet, by row
    held: BTreeMap<u64, String>,
    /// the longest wait for a row
    longest_wait: LongestWait,
    last_ms: u64,
    /// ids that the agent changed, the first of them; and how many
    id_changes: Vec<IdChangeLine>,
    id_change_count: u64,
    /// the event within which the agent's stream was cut
    cut: Option<String>,
    /// the place within the event that the agent had not finished when the run ended
    unfinished: Option<String>,
    /// the first notes of rows, but for those of the end
    notes: Vec<String>,
    /// items that the agent did not end, and the cause of the row where it should have
    left_open: Vec<LeftOpenLine>,
    end_cause: String,
}

/// A wait, and the row with which it ended.
#[derive(Clone, Debug, Default)]
struct LongestWait {
    time: WaitLine,
    /// how the row is named
    kind: String,
    cause: String,
    is_first: bool,
}

impl RunCounts {
    pub(super) fn add(&mut self, row: &RowLine) {
        let mut count = |counts: fn(&mut RunCounts) -> &mut BTreeMap<String, KindCount>, found: &[CountLine]| {
            for one in found {
                let kind = counts(self).entry(one.label.clone()).or_default();
                kind.count += 1;
                if kind.help.is_empty() {
                    kind.help.clone_from(&one.help);
                }
            }
        };
        count(|own| &mut own.repairs, &row.repairs);
        count(|own| &mut own.losses, &row.losses);
        if let Some(EventLine { kind, data: Some(data), .. }) = &row.agent
            && data.len() > self.largest.0.max(LARGE_BYTES)
        {
            self.largest = (data.len(), kind.clone().unwrap_or_default());
        }
        let has_loss = |loss: EventLoss| row.losses.iter().any(|own| own.label == loss.label());
        if has_loss(EventLoss::MarkedLine) && row.has_type(EventType::RunFinished) {
            self.lost_end.get_or_insert(row.n);
        }
        if has_loss(EventLoss::AfterTerminal) {
            self.late.get_or_insert(row.n);
            if row.has_type(EventType::RunStarted) {
                self.next_run.get_or_insert(row.n);
            }
        }
        let wait = WaitLine { from_ms: self.last_ms, until_ms: row.at_ms.max(self.last_ms) };
        self.last_ms = wait.until_ms;
        if wait.length_ms() > self.longest_wait.time.length_ms().max(LONG_WAIT_MS) {
            let kind = row.agent.as_ref().or(row.client.first()).and_then(|event| event.kind.as_deref());
            self.longest_wait = LongestWait {
                time: wait,
                kind: kind.unwrap_or(&row.cause).to_owned(),
                cause: row.cause.clone(),
                is_first: row.n == 1 && row.agent.is_some(),
            };
        }
        self.add_note(row);
        if let Some(change) = &row.id_change {
            self.id_change_count += 1;
            if self.id_changes.len() < MAX_CHANGES {
                self.id_changes.push(change.clone());
            }
        }
        if self.left_open.is_empty() {
            self.left_open.clone_from(&row.left_open);
            self.end_cause.clone_from(&row.cause);
        }
        if let (Some(agent), true) = (&row.agent, row.cause == "held" && self.held.len() < MAX_HELD) {
            let kind = agent.kind.as_deref().unwrap_or("an event");
            self.held.insert(row.n, format!("{kind} of {}", format_millis(row.at_ms)));
        }
        for n in &row.releases {
            self.held.remove(n);
        }
    }

    fn add_note(&mut self, row: &RowLine) {
        let kind = row.agent.as_ref().and_then(|event| event.kind.as_deref());
        if let Some(within) = &row.cut_within {
            if within == "unfinished" {
                self.unfinished = Some(format!(", in the middle of {} (row {})", kind.unwrap_or("an event"), row.n));
            } else {
                self.cut = Some(format!("{} (row {})", describe_cut(within, kind), row.n));
                return;
            }
        }
        // The end of the run has that of the end, and what was not kept is counted.
        let is_named = is_end(&row.cause) || row.cause == "unrecorded";
        if let (Some(note), false, true) = (&row.note, is_named, self.notes.len() < MAX_NOTES) {
            self.notes.push(format!("{} at {}: {note}", kind.unwrap_or("a row"), format_millis(row.at_ms)));
        }
    }

    /// Returns whether so many events are of another dialect that they are no extension.
    fn is_foreign(&self, events_in: u64) -> bool {
        let count = self.repaired(EventRepair::ForeignType) + self.repaired(EventRepair::AgUiName);
        count > 0 && count * 3 >= events_in
    }

    fn repaired(&self, kind: EventRepair) -> u64 {
        self.repairs.get(kind.label()).map_or(0, |kind| kind.count)
    }

    /// Returns whether items had no start while others, that were started, had no end: mostly the same ones, under
    /// other ids.
    fn has_changing_ids(&self) -> bool {
        let opened = self.repaired(EventRepair::OpenerSupplied);
        let is_left_open = self.repaired(EventRepair::CloserSupplied) > opened;
        opened > 0 && (is_left_open || self.losses.contains_key(EventLoss::StrayBoundary.label()))
    }

    pub(super) const fn repairs(&self) -> &BTreeMap<String, KindCount> {
        &self.repairs
    }

    pub(super) const fn losses(&self) -> &BTreeMap<String, KindCount> {
        &self.losses
    }

    /// Returns how a held event of this row is named, if the client has not got it yet.
    pub(super) fn find_held(&self, n: u64) -> Option<&String> {
        self.held.get(&n)
    }

    /// Describes what the agent did wrong, if it is known, each cause in one sentence.
    pub(super) fn describe_causes(&self, run: &RunLine) -> Vec<String> {
        // The first line has the answer, this the way out.
        let mut causes: Vec<_> = run.refusal.as_ref().and(run.message.clone()).into_iter().collect();
        if let Some(KindCount { count, .. }) = self.losses.get(EventLoss::MarkedLine.label()) {
            causes.push(format!(
                "{} of the agent with a byte order mark (U+FEFF), which only the first may have: the client got nothing of \
                 it; remove the mark from what writes the agent's lines",
                with_plural(*count, "line")
            ));
        }
        causes.extend(self.describe_late_events());
        if self.is_foreign(run.events_in) {
            let looks_like = run.looks_like.as_ref().map(|name| format!(", they look like {name}"));
            causes.push(format!(
                "many events of another dialect than {}{}: `agent` of the route is probably wrong",
                run.agent,
                looks_like.unwrap_or_default()
            ));
        }
        match self.id_changes.as_slice() {
            [] if self.has_changing_ids() => causes
                .push("some items had no start and others no end: the agent probably gives one several ids".to_owned()),
            [] => {}
            [change] => causes.push(describe_id_change(change)),
            changes => causes.push(describe_id_changes(changes, self.id_change_count)),
        }
        // An item that went on under another id was named with it.
        let is_other = |open: &&LeftOpenLine| {
            !self.id_changes.iter().any(|change| [&change.before, &change.after].contains(&&open.id))
        };
        causes.extend(describe_left_open(self.left_open.iter().filter(is_other), &self.end_cause));
        causes.extend(self.notes.iter().cloned());
        // That an event is too large is how the run ended.
        let is_too_large = run.code.as_deref() == Some(RejectionKind::FrameTooLarge.code());
        if let (bytes @ 1.., kind) = &self.largest
            && !is_too_large
        {
            // Of an event that was not kept, the row has the beginning.
            let least = if run.missed_bytes > 0 { "at least " } else { "" };
            let kind = if kind.is_empty() { "without a type" } else { kind };
            causes.push(format!("the largest event {kind} with {least}{}", format_size(*bytes)));
        }
        causes
    }

    fn describe_late_events(&self) -> Option<String> {
        let KindCount { count, .. } = self.losses.get(EventLoss::AfterTerminal.label())?;
        let end = EventType::RunFinished.wire();
        Some(match (self.next_run, self.late) {
            (Some(n), _) => {
                format!(
                    "the agent began another run after {end} (row {n}): the client got nothing of it; let the agent send one \
                     run in each answer"
                )
            }
            (None, n) => format!(
                "the agent went on after its end of the run, with {} from row {} on: the client got nothing of it; let the \
                 agent send its last event at the end",
                with_plural(*count, "event"),
                n.unwrap_or_default()
            ),
        })
    }

    /// Describes what is worth to know first of a run that ended well, if no cause is known: how long its client
    /// waited, or what it lacks.
    pub(super) fn describe_difference(&self, run: &RunLine) -> Option<String> {
        let is_long = self.longest_wait.time.length_ms() >= HEADLINE_WAIT_MS;
        let lost = || self.losses.iter().find(|(label, _)| !label.ends_with(NOT_SHOWN));
        let wait = is_long.then(|| self.describe_wait(run)).flatten();
        wait.or_else(|| lost().map(|(label, kind)| format!("lost {label} ×{}: {}", kind.count, kind.help)))
    }

    /// Describes how the run went.
    pub(super) fn describe_facts(&self, run: &RunLine) -> Vec<String> {
        let mut facts: Vec<_> = self.describe_wait(run).into_iter().collect();
        if run.events_in + run.events_out > 0 {
            let first = match run.first_event_ms {
                Some(first) => format!("the first after {}", format_millis(first)),
                None => "none reached the client".to_owned(),
            };
            let events = with_plural(run.events_in, "event");
            facts.push(format!("{events} of the agent, {} for the client, {first}", run.events_out));
        }
        // The causes have that of marked lines.
        facts.extend(list_counts("lost", &self.losses, EventLoss::MarkedLine.label()));
        facts.extend(list_counts("repaired", &self.repairs, ""));
        // Nothing about the form is fine if lines are lost by it.
        let form = run.body_form.as_ref().filter(|_| !self.losses.contains_key(EventLoss::MarkedLine.label()));
        facts.extend(form.map(|form| format!("the agent's stream {form}")));
        if run.missed_bytes > 0 {
            let cause = match &run.limit {
                _ if run.withheld => "protobuf on a route with `redact`".to_owned(),
                Some(limit) => format!("`{limit}` was reached"),
                None => "a limit of `inspect` was reached".to_owned(),
            };
            facts
                .push(format!("{} were not kept, so rows are missing: {cause}", with_plural(run.missed_bytes, "byte")));
        }
        facts
    }

    /// Names the party for which the gateway waited longest.
    fn describe_wait(&self, run: &RunLine) -> Option<String> {
        let LongestWait { time, kind, cause, is_first } = &self.longest_wait;
        let length = time.length_ms();
        let shown = format_millis(length);
        let is_end = is_end(cause);
        match self.is_wait_for_client(run) {
            _ if length == 0 => None,
            true if is_end => Some(format!("the client did not read for {shown} before the end")),
            true => Some(format!("the client did not read for {shown} before {kind}")),
            // The first line of the end has it.
            false if cause == "disconnect" => None,
            false if is_end => Some(format!("the agent sent nothing for {shown}, then the gateway ended the run")),
            false if *is_first => Some(format!("the agent took {shown} to its first event")),
            false if self.is_silence(run) => Some(format!("the agent sent nothing for {shown} before {kind}")),
            false => Some(format!(
                "no event came for {shown} before {kind}: the agent sent comments, or parts of a large event"
            )),
        }
    }

    fn is_wait_for_client(&self, run: &RunLine) -> bool {
        let time = self.longest_wait.time;
        let for_client: u64 = run.client_waits.iter().map(|own| time.common_ms(*own)).sum();
        2 * for_client >= time.length_ms()
    }

    /// Returns whether the agent sent nothing at all in most of the longest wait, rather than no whole event.
    fn is_silence(&self, run: &RunLine) -> bool {
        run.silence.is_some_and(|silence| 2 * silence.length_ms() >= self.longest_wait.time.length_ms())
    }

    /// Describes how the client left.
    pub(super) fn describe_leave(&self, run: &RunLine) -> String {
        let wait = &self.longest_wait;
        let place = self.unfinished.as_deref().unwrap_or_default();
        match wait.cause == "disconnect" && !self.is_wait_for_client(run) {
            true => format!(
                "the client closed the connection after the agent had sent nothing for {}{place}",
                format_millis(wait.time.length_ms())
            ),
            false => format!("the client closed the connection before the run ended{place}"),
        }
    }

    /// Describes why the agent's body ended without the end of the run, if that is known.
    pub(super) fn describe_cut(&self, run: &RunLine) -> Option<String> {
        let is_truncated = run.code.as_deref() == Some(RejectionKind::UpstreamTruncated.code());
        if !is_truncated || !self.losses.contains_key(EventLoss::MarkedLine.label()) {
            let is_empty = is_truncated && run.events_in + run.bytes_in == 0;
            let empty = "the agent accepted the request, and ended its answer without a single event";
            return self.cut.clone().or(is_empty.then(|| empty.to_owned()));
        }
        Some(match self.lost_end {
            Some(n) => format!(
                "the agent sent {} in a line with a byte order mark, which is lost (row {n})",
                EventType::RunFinished.wire()
            ),
            None => RejectionKind::UpstreamTruncated.text().to_owned(),
        })
    }
}

/// Describes several changes, the first of them by their ids.
fn describe_id_changes(changes: &[IdChangeLine], count: u64) -> String {
    let (mut chain, mut last) = (String::new(), None);
    for IdChangeLine { before, after } in changes.iter().take(MAX_NAMED) {
        if last != Some(before) {
            let comma = if chain.is_empty() { "" } else { ", " };
            chain.push_str(&format!("{comma}`{before}`"));
        }
        chain.push_str(&format!(" → `{after}`"));
        last = Some(after);
    }
    let more = if changes.len() > MAX_NAMED { " …" } else { "" };
    format!("the agent probably changed the id {count} times: {chain}{more}; no new id has a start")
}

/// Describes the kinds but one.
fn list_counts(verb: &str, counts: &BTreeMap<String, KindCount>, without: &str) -> Vec<String> {
    let kinds = counts.iter().filter(|(label, _)| *label != without);
    let mut lines: Vec<_> =
        kinds.map(|(label, KindCount { count, help })| format!("{verb} {label} ×{count}: {help}")).collect();
    if let more @ 1.. = lines.len().saturating_sub(MAX_NAMED) {
        lines.truncate(MAX_NAMED);
        lines.push(format!("{verb}: {more} more kinds, see the rows"));
    }
    lines
}

/// Formats a size of kilobytes or more as the page does.
fn format_size(bytes: usize) -> String {
    let (size, unit) = if bytes < 999_500 { (bytes as f64 / 1e3, "kB") } else { (bytes as f64 / 1e6, "MB") };
    if size < 99.95 { format!("{size:.1} {unit}") } else { format!("{size:.0} {unit}") }
}

/// Formats a time since the beginning of a run.
pub(super) fn format_millis(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis}ms"),
        // Rounded, as on the page.
        1_000..99_950 => format!("{}.{:02}s", (millis + 5) / 1_000, (millis + 5) % 1_000 / 10),
        _ => format!("{}m{:02}s", (millis + 500) / 60_000, (millis + 500) / 1_000 % 60),
    }
}
