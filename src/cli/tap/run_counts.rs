//! Counts what is remarkable about a run, and describes it at the run's end.

use super::super::output::with_plural;
use super::super::run_line::{RunLine, WaitLine};
use super::tap_line::{CountLine, EventLine, IdChangeLine, LeftOpenLine, RowLine};
use crate::event::{EventLoss, EventRepair};
use std::collections::BTreeMap;

/// Size from which an event is named at the end of its run.
pub(super) const LARGE_BYTES: usize = 250_000;

/// Length from which a wait is named at the end of its run.
pub(super) const LONG_WAIT_MS: u64 = 1_000;

/// Held events that are remembered.
const MAX_HELD: usize = 256;

/// Items without an end that are named at the end of their run.
const MAX_NAMED: usize = 3;

/// Repairs and losses of a run.
#[derive(Debug, Default)]
pub(super) struct RunCounts {
    repairs: BTreeMap<String, u64>,
    losses: BTreeMap<String, u64>,
    /// bytes and type of the largest event of the agent
    largest: (usize, String),
    /// held events that the client has not got yet, by row
    held: BTreeMap<u64, String>,
    /// the longest wait for a row, and how the row is named; empty where the gateway ended the run
    longest_wait: (WaitLine, String),
    last_ms: u64,
    /// the first id that the agent changed
    id_change: Option<IdChangeLine>,
    /// items that the agent did not end, and whether the run was cut before it could
    left_open: Vec<LeftOpenLine>,
    is_cut: bool,
}

impl RunCounts {
    pub(super) fn add(&mut self, row: &RowLine) {
        let mut count = |counts: fn(&mut RunCounts) -> &mut BTreeMap<String, u64>, found: &[CountLine]| {
            for one in found {
                *counts(self).entry(one.label.clone()).or_default() += 1;
            }
        };
        count(|own| &mut own.repairs, &row.repairs);
        count(|own| &mut own.losses, &row.losses);
        if let Some(EventLine { kind, data: Some(data), .. }) = &row.agent
            && data.len() > self.largest.0.max(LARGE_BYTES)
        {
            self.largest = (data.len(), kind.clone().unwrap_or_default());
        }
        let wait = WaitLine { from_ms: self.last_ms, until_ms: row.at_ms.max(self.last_ms) };
        self.last_ms = wait.until_ms;
        if wait.length_ms() > self.longest_wait.0.length_ms().max(LONG_WAIT_MS) {
            let kind = row.agent.as_ref().or(row.client.first()).and_then(|event| event.kind.as_deref());
            let kind = if row.is_cut() { "" } else { kind.unwrap_or(&row.cause) };
            self.longest_wait = (wait, kind.to_owned());
        }
        if self.id_change.is_none() {
            self.id_change.clone_from(&row.id_change);
        }
        if self.left_open.is_empty() {
            self.left_open.clone_from(&row.left_open);
            self.is_cut = row.is_cut();
        }
        if let (Some(agent), true) = (&row.agent, row.cause == "held" && self.held.len() < MAX_HELD) {
            let kind = agent.kind.as_deref().unwrap_or("an event");
            self.held.insert(row.n, format!("{kind} of {}", format_millis(row.at_ms)));
        }
        for n in &row.releases {
            self.held.remove(n);
        }
    }

    /// Returns whether so many events are of another dialect that they are no extension.
    fn is_foreign(&self, events_in: u64) -> bool {
        let count = self.repaired(EventRepair::ForeignType) + self.repaired(EventRepair::AgUiName);
        count > 0 && count * 3 >= events_in
    }

    fn repaired(&self, kind: EventRepair) -> u64 {
        self.repairs.get(kind.label()).copied().unwrap_or(0)
    }

    /// Returns whether items had no start while others, that were started, had no end: mostly the same ones, under
    /// other ids.
    fn has_changing_ids(&self) -> bool {
        let opened = self.repaired(EventRepair::OpenerSupplied);
        let is_left_open = self.repaired(EventRepair::CloserSupplied) > opened;
        opened > 0 && (is_left_open || self.losses.contains_key(EventLoss::StrayBoundary.label()))
    }

    pub(super) const fn repairs(&self) -> &BTreeMap<String, u64> {
        &self.repairs
    }

    pub(super) const fn losses(&self) -> &BTreeMap<String, u64> {
        &self.losses
    }

    /// Returns how a held event of this row is named, if the client has not got it yet.
    pub(super) fn find_held(&self, n: u64) -> Option<&String> {
        self.held.get(&n)
    }

    /// Describes what the agent did wrong, if it is known, each cause in one sentence.
    pub(super) fn describe_causes(&self, run: &RunLine) -> Vec<String> {
        let mut causes: Vec<_> = run.refusal.iter().map(|answer| format!("the agent's answer: {answer}")).collect();
        if let Some(lines) = self.losses.get(EventLoss::MarkedLine.label()) {
            let lines = with_plural(*lines, "line");
            causes.push(format!(
                "{lines} of the agent with a byte order mark (U+FEFF), which only the first may have: lost"
            ));
        }
        if self.is_foreign(run.events_in) {
            let looks_like = run.looks_like.as_ref().map(|name| format!(", they look like {name}"));
            causes.push(format!(
                "many events of another dialect than {}{}: `agent` of the route is probably wrong",
                run.agent,
                looks_like.unwrap_or_default()
            ));
        }
        if let Some(change) = &self.id_change {
            causes.push(describe_id_change(change));
        } else if self.has_changing_ids() {
            causes
                .push("some items had no start and others no end: the agent probably gives one several ids".to_owned());
        }
        // An item that went on under another id was named with it.
        let is_other = |open: &&LeftOpenLine| {
            self.id_change.as_ref().is_none_or(|change| ![&change.before, &change.after].contains(&&open.id))
        };
        causes.extend(describe_left_open(self.left_open.iter().filter(is_other), self.is_cut));
        causes
    }

    /// Describes how the run went.
    pub(super) fn describe_facts(&self, run: &RunLine) -> Vec<String> {
        let first = match run.first_event_ms {
            Some(first) => format!("the first after {}", format_millis(first)),
            None => "none reached the client".to_owned(),
        };
        let events = with_plural(run.events_in, "event");
        let mut facts = vec![format!("{events} of the agent, {} for the client, {first}", run.events_out)];
        facts.extend(list_counts("repaired", &self.repairs));
        facts.extend(list_counts("lost", &self.losses));
        let (wait, kind) = &self.longest_wait;
        facts.extend(describe_wait(*wait, kind, &run.client_waits));
        if let (bytes @ 1.., kind) = &self.largest {
            // Of an event that was not kept, the row has the beginning.
            let least = if run.missed_bytes > 0 { "at least " } else { "" };
            let kind = if kind.is_empty() { "without a type" } else { kind };
            facts.push(format!("the largest event {kind} with {least}{}", format_size(*bytes)));
        }
        facts.extend(run.body_form.as_ref().map(|form| format!("the agent's stream {form}")));
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
}

/// Names the party for which the gateway waited longest.
fn describe_wait(wait: WaitLine, kind: &str, client_waits: &[WaitLine]) -> Option<String> {
    let length = wait.length_ms();
    let for_client: u64 = client_waits.iter().map(|own| wait.common_ms(*own)).sum();
    (length > 0).then(|| match 2 * for_client >= length {
        true if kind.is_empty() => format!("the client did not read for {} before the end", format_millis(length)),
        true => format!("the client did not read for {} before {kind}", format_millis(length)),
        false if kind.is_empty() => {
            format!("the agent sent nothing for {}, then the gateway ended the run", format_millis(length))
        }
        false => format!("the agent sent nothing for {} before {kind}", format_millis(length)),
    })
}

pub(super) fn describe_id_change(change: &IdChangeLine) -> String {
    let IdChangeLine { before, after } = change;
    format!(
        "the agent probably changed the id from `{before}` to `{after}`: `{after}` has no start, and `{before}` was open"
    )
}

/// Describes what the agent did not end; `None` without any.
pub(super) fn describe_left_open<'a>(open: impl Iterator<Item = &'a LeftOpenLine>, is_cut: bool) -> Option<String> {
    let mut named: Vec<_> = open
        .map(|LeftOpenLine { item, id, name }| {
            let name = name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
            format!("the {item} `{id}`{name}")
        })
        .collect();
    if let more @ 1.. = named.len().saturating_sub(MAX_NAMED) {
        named.truncate(MAX_NAMED);
        named.push(format!("and {more} more"));
    }
    let named = if named.is_empty() { return None } else { named.join(", ") };
    Some(match is_cut {
        true => format!("still open when the run was cut: {named}"),
        false => format!("the agent never ended {named}"),
    })
}

fn list_counts(verb: &str, counts: &BTreeMap<String, u64>) -> Option<String> {
    let listed: Vec<_> = counts.iter().map(|(label, count)| format!("{label} ×{count}")).collect();
    (!listed.is_empty()).then(|| format!("{verb}: {}", listed.join(" ")))
}

fn format_size(bytes: usize) -> String {
    if bytes < 1_000_000 { format!("{} kB", bytes / 1_000) } else { format!("{} MB", bytes / 1_000_000) }
}

/// Formats a time since the beginning of a run.
pub(super) fn format_millis(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis}ms"),
        1_000..100_000 => format!("{}.{:02}s", millis / 1_000, millis % 1_000 / 10),
        _ => format!("{}m{:02}s", millis / 60_000, millis / 1_000 % 60),
    }
}
