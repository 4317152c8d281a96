//! Runs as text: both sides of each row beside each other, and how a run ended in one sentence.

use super::super::output::with_plural;
use super::super::run_line::{RunLine, WaitLine};
use super::super::terminal_text::{cut_text, escape_text, fit_text, text_width};
use super::tap_line::{CountLine, EventLine, IdChangeLine, RowLine, TapSide};
use crate::codec::json;
use crate::error::RejectionKind;
use crate::event::{EventLoss, EventRepair};
use std::collections::BTreeMap;

/// Columns of the run, the time and the cause.
const RUN_COLUMNS: usize = 5;
const TIME_COLUMNS: usize = 9;
const CAUSE_COLUMNS: usize = 7;

/// Fewest columns of a side.
const LEAST_COLUMNS: usize = 16;

/// Columns of a side that show an event on one line; narrower ones show its members on a second.
const ONE_LINE_COLUMNS: usize = 64;

/// Bytes of a member that can be shown at most.
const SHOWN_BYTES: usize = 2048;

/// Size from which an event is named at the end of its run.
const LARGE_BYTES: usize = 1_000_000;

/// Length from which a wait is named at the end of its run.
const LONG_WAIT_MS: u64 = 1_000;

/// Cause and way out of what a tap misses.
const EVICTED: &str =
    "the gateway evicted what tap had not read yet; read faster, or raise `inspect.bytes` or `inspect.runs`";

/// Held events that are remembered.
const MAX_HELD: usize = 256;

/// Emphasis of a text on a terminal with colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextStyle {
    Plain,
    Bold,
    Dim,
    Warning,
    Failure,
}

#[derive(Debug)]
pub(super) struct PairText {
    /// of the terminal
    pub(super) columns: usize,
    pub(super) colored: bool,
    pub(super) side: TapSide,
}

/// Repairs and losses of a run.
#[derive(Debug, Default)]
pub(super) struct RunCounts {
    repairs: BTreeMap<String, u64>,
    losses: BTreeMap<String, u64>,
    /// bytes and type of the largest event of the agent
    largest: (usize, String),
    /// held events that the client has not got yet, by row
    held: BTreeMap<u64, String>,
    /// the longest wait for a row, and how the row is named
    longest_wait: (WaitLine, String),
    last_ms: u64,
    /// the first id that the agent changed
    id_change: Option<IdChangeLine>,
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
            let kind = kind.unwrap_or(&row.cause);
            self.longest_wait = (wait, kind.to_owned());
        }
        if self.id_change.is_none() {
            self.id_change.clone_from(&row.id_change);
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
}

impl PairText {
    /// Formats the line that begins a run.
    pub(super) fn format_begin(&self, run: &RunLine) -> String {
        let mut text = format!("{} {}", format_run(run.id), run.route);
        if let Some(caller) = &run.caller {
            text += &format!("  caller {caller}");
        }
        text += &format!("  agent {} → client {}", run.agent, run.client);
        for (name, id) in [("thread", &run.thread_id), ("run", &run.run_id)] {
            if !id.is_empty() {
                text += &format!("  {name} {id}");
            }
        }
        text += &format!("  at {}", format_time_of_day(run.started_ms));
        self.paint(TextStyle::Bold, &cut_text(&text, self.columns))
    }

    /// Formats a row, and below it why it is as it is. What the run already had in earlier rows is not explained again.
    pub(super) fn format_row(&self, run: u64, row: &RowLine, earlier: &RunCounts) -> Vec<String> {
        let fixed = RUN_COLUMNS + TIME_COLUMNS + CAUSE_COLUMNS + 4;
        let both = self.columns.saturating_sub(fixed);
        let width = (if self.side == TapSide::Both { both / 2 } else { both }).max(LEAST_COLUMNS);
        let agent = self.format_events(row.agent.as_slice(), width, TapSide::Agent);
        let client = self.format_events(&row.client, width, TapSide::Client);
        let mut lines = Vec::new();
        for at in 0..agent.len().max(client.len()).max(1) {
            let text = |side: &[String]| side.get(at).cloned().unwrap_or_else(|| " ".repeat(width));
            let (start, cause) = match at {
                0 => (format!("{:<RUN_COLUMNS$}{:>8} ", format_run(run), format_millis(row.at_ms)), row.cause.as_str()),
                _ => (" ".repeat(RUN_COLUMNS + TIME_COLUMNS), ""),
            };
            let cause = self.paint(cause_style(cause), &fit_text(cause, CAUSE_COLUMNS));
            let start = self.paint(TextStyle::Dim, &start);
            let line = match self.side {
                TapSide::Both => format!("{start}{}  {cause}  {}", text(&agent), text(&client)),
                TapSide::Agent => format!("{start}{cause}  {}", text(&agent)),
                TapSide::Client => format!("{start}{cause}  {}", text(&client)),
            };
            lines.push(line.trim_end().to_owned());
        }
        lines.extend(self.format_reasons(row, earlier));
        lines
    }

    /// Formats the sentence that tells how a run ended.
    pub(super) fn format_end(&self, run: &RunLine, counts: &RunCounts) -> Vec<String> {
        let outcome = run.outcome.as_deref().unwrap_or("ended");
        let failure = describe_end(outcome, run.code.as_deref(), run.message.as_deref());
        let mut text = format!("{} {outcome} after {}", format_run(run.id), format_millis(run.duration_ms));
        if let Some(failure) = &failure {
            text += &format!(": {failure}");
        }
        let style = if failure.is_some() { TextStyle::Failure } else { TextStyle::Bold };
        let mut lines = vec![self.paint(style, &escape_text(&text))];
        if outcome == "refused" {
            return lines;
        }
        let mut facts = vec![
            format!("{} of the agent", with_plural(run.events_in, "event")),
            format!("{} for the client", run.events_out),
        ];
        facts.push(match run.first_event_ms {
            Some(first) => format!("the first after {}", format_millis(first)),
            None => "none reached the client".to_owned(),
        });
        facts.extend(list_counts("repaired", &counts.repairs));
        facts.extend(list_counts("lost", &counts.losses));
        let (wait, kind) = &counts.longest_wait;
        facts.extend(describe_wait(*wait, kind, &run.client_waits));
        if let (bytes @ 1.., kind) = &counts.largest {
            // Of an event that was not kept, the row has the beginning.
            let least = if run.missed_bytes > 0 { "at least " } else { "" };
            let kind = if kind.is_empty() { "without a type" } else { kind };
            facts.push(format!("the largest event {kind} with {least}{} MB", bytes / 1_000_000));
        }
        if counts.is_foreign(run.events_in) {
            facts.push(format!(
                "many events of another dialect than {}: `agent` of the route is probably wrong",
                run.agent
            ));
        }
        if let Some(change) = &counts.id_change {
            facts.push(describe_id_change(change));
        } else if counts.has_changing_ids() {
            facts
                .push("some items had no start and others no end: the agent probably gives one several ids".to_owned());
        }
        if let Some(form) = &run.body_form {
            facts.push(format!("the agent's stream {form}"));
        }
        if run.missed_bytes > 0 {
            let cause = if run.withheld {
                "protobuf on a route with `redact`"
            } else {
                "`inspect.run_bytes` or `inspect.bytes` was reached"
            };
            facts
                .push(format!("{} were not kept, so rows are missing: {cause}", with_plural(run.missed_bytes, "byte")));
        }
        lines.push(format!("{}{}", " ".repeat(RUN_COLUMNS), escape_text(&facts.join(", "))));
        lines
    }

    pub(super) fn format_gone(&self, run: u64, last_row: u64) -> String {
        self.paint(TextStyle::Warning, &describe_gone(run, last_row))
    }

    pub(super) fn format_missed(&self, runs: u64) -> String {
        self.paint(TextStyle::Warning, &format!("-    {}", describe_missed(runs)))
    }

    pub(super) fn format_refusals(&self, code: &str, count: u64) -> String {
        let mut text = format!("-    no route: {code}, {}", with_plural(count, "request"));
        if let Some(kind) = RejectionKind::from_code(code) {
            text += &format!(": {} {}", kind.text(), kind.hint());
        }
        self.paint(TextStyle::Failure, &escape_text(&text))
    }

    fn format_events(&self, events: &[EventLine], width: usize, side: TapSide) -> Vec<String> {
        if self.side != TapSide::Both && self.side != side {
            return Vec::new();
        }
        let mut lines = Vec::new();
        for event in events {
            let (kind, members) = split_event(event);
            if width >= ONE_LINE_COLUMNS || kind.is_empty() {
                lines.push(fit_text(format!("{kind} {members}").trim_start(), width));
                continue;
            }
            lines.push(fit_text(&kind, width));
            if !members.is_empty() {
                lines.push(fit_text(&format!("  {members}"), width));
            }
        }
        lines
    }

    fn format_reasons(&self, row: &RowLine, earlier: &RunCounts) -> Vec<String> {
        let mut lines = Vec::new();
        let mut add = |style: TextStyle, sign: &str, text: &str| {
            let indent = RUN_COLUMNS + TIME_COLUMNS;
            for (at, part) in wrap_text(text, self.columns.saturating_sub(indent + 2)).iter().enumerate() {
                let sign = if at == 0 { sign } else { " " };
                lines.push(self.paint(style, &format!("{}{sign} {part}", " ".repeat(indent))));
            }
        };
        for (sign, verb, found, known) in
            [("+", "repaired", &row.repairs, &earlier.repairs), ("-", "lost", &row.losses, &earlier.losses)]
        {
            for (at, CountLine { label, help, rule }) in found.iter().enumerate() {
                if found[..at].iter().any(|one| one.label == *label) {
                    continue;
                }
                let times = found.iter().filter(|one| one.label == *label).count();
                let times = if times > 1 { format!(" ×{times}") } else { String::new() };
                let rule = rule.as_ref().map(|rule| format!(" (broken rule: {rule})")).unwrap_or_default();
                let help = if known.contains_key(label) { String::new() } else { format!(": {help}{rule}") };
                add(TextStyle::Warning, sign, &format!("{verb} {label}{times}{help}"));
            }
        }
        for held in row.releases.iter().filter_map(|n| earlier.held.get(n)) {
            add(TextStyle::Dim, "^", &format!("with {held}, which was held until here"));
        }
        for carried in &row.carried {
            add(TextStyle::Dim, "=", &format!("{} carried in {}", carried.names.join(", "), carried.location));
        }
        if !row.kept.is_empty() {
            add(TextStyle::Dim, "=", &format!("kept for the thread: {}", row.kept.join(", ")));
        }
        if let Some(change) = &row.id_change {
            add(TextStyle::Warning, ".", &describe_id_change(change));
        }
        if let Some(note) = &row.note {
            add(TextStyle::Dim, ".", note);
        }
        lines
    }

    fn paint(&self, style: TextStyle, text: &str) -> String {
        let code = match style {
            TextStyle::Plain => "",
            TextStyle::Bold => "1",
            TextStyle::Dim => "2",
            TextStyle::Warning => "33",
            TextStyle::Failure => "1;31",
        };
        if !self.colored || code.is_empty() || text.trim().is_empty() {
            return text.to_owned();
        }
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// Describes a run that was evicted while it was read.
pub(super) fn describe_gone(run: u64, last_row: u64) -> String {
    format!("{} is cut after {}: {EVICTED}", format_run(run), with_plural(last_row, "row"))
}

/// Describes runs that were evicted before they were read.
pub(super) fn describe_missed(runs: u64) -> String {
    format!("missed {}: {EVICTED}", with_plural(runs, "run"))
}

/// Names the party for which the gateway waited longest.
fn describe_wait(wait: WaitLine, kind: &str, client_waits: &[WaitLine]) -> Option<String> {
    let length = wait.length_ms();
    let for_client: u64 = client_waits.iter().map(|own| wait.common_ms(*own)).sum();
    (length > 0).then(|| match 2 * for_client >= length {
        true => format!("the client did not read for {} before {kind}", format_millis(length)),
        false => format!("the agent sent nothing for {} before {kind}", format_millis(length)),
    })
}

fn describe_id_change(change: &IdChangeLine) -> String {
    let IdChangeLine { before, after } = change;
    format!(
        "the agent probably changed the id from `{before}` to `{after}`: `{after}` has no start, and `{before}` was open"
    )
}

fn cause_style(cause: &str) -> TextStyle {
    match cause {
        "dropped" | "gateway" => TextStyle::Warning,
        "same" | "held" | "nothing" | "end" | "mark" => TextStyle::Dim,
        _ => TextStyle::Plain,
    }
}

/// Returns the type of an event, and its other members as JSON or what came instead of an event.
fn split_event(event: &EventLine) -> (String, String) {
    let kind = event.kind.clone().unwrap_or_default();
    let Some(data) = &event.data else { return (kind, String::new()) };
    let Ok(object) = json::parse_open_object(data) else { return (kind, shorten(data).to_owned()) };
    let mut members = String::new();
    for (key, value) in &object.members {
        if members.len() > SHOWN_BYTES {
            break;
        }
        if !members.is_empty() {
            members.push(' ');
        }
        members.push_str(&format!("{}={}", shorten(key.name()), shorten(value.as_str())));
    }
    (kind, members)
}

fn shorten(text: &str) -> &str {
    let longest = text.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= SHOWN_BYTES);
    &text[..longest.last().unwrap_or_default()]
}

/// Divides an escaped text at blanks into lines of at most so many columns, and cuts what is longer than four lines.
fn wrap_text(text: &str, columns: usize) -> Vec<String> {
    const MOST_LINES: usize = 4;
    let mut lines: Vec<String> = Vec::new();
    for word in escape_text(shorten(text)).split(' ') {
        let is_full = lines.len() == MOST_LINES;
        match lines.last_mut() {
            Some(line) if text_width(line) + 1 + text_width(word) <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ if is_full => break,
            _ => lines.push(cut_text(word, columns)),
        }
    }
    lines
}

/// Returns what a failure means and what to do; `None` if the run ended as it should.
fn describe_end(outcome: &str, code: Option<&str>, message: Option<&str>) -> Option<String> {
    let text = match outcome {
        "finished" => return None,
        "agent_error" => "the agent reported an error",
        "client_gone" => "the client closed the connection before the run ended",
        "unread" => "no client requested the events of the run in time",
        "drained" => "the gateway shut down, or the run ended without a last event",
        "expired" => "the caller's credential expired during the run",
        "limited" => "a limit was reached",
        "cancelled" => "the run was stopped on request",
        "refused" => "the request was refused",
        "gateway_error" => "the gateway had an internal error",
        _ => "",
    };
    let text = message.unwrap_or(text);
    Some(match code {
        Some(code) if !text.is_empty() => format!("{code}: {text}"),
        code => code.unwrap_or(text).to_owned(),
    })
}

fn list_counts(verb: &str, counts: &BTreeMap<String, u64>) -> Option<String> {
    let listed: Vec<_> = counts.iter().map(|(label, count)| format!("{label} ×{count}")).collect();
    (!listed.is_empty()).then(|| format!("{verb}: {}", listed.join(" ")))
}

fn format_run(id: u64) -> String {
    format!("#{id}")
}

/// Formats a time since the beginning of a run.
fn format_millis(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis}ms"),
        1_000..100_000 => format!("{}.{:02}s", millis / 1_000, millis % 1_000 / 10),
        _ => format!("{}m{:02}s", millis / 60_000, millis / 1_000 % 60),
    }
}

fn format_time_of_day(epoch_ms: u64) -> String {
    let seconds = epoch_ms / 1000 % 86_400;
    format!("{:02}:{:02}:{:02}Z", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests;
