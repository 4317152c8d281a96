//! Runs as text: both sides of each row beside each other, and how a run ended in one sentence.

use super::super::output::with_plural;
use super::super::run_cause::{describe_id_change, describe_left_open};
use super::super::run_line::RunLine;
use super::super::terminal_text::{cut_text, escape_text, fit_text, text_width};
use super::run_counts::{RunCounts, format_millis};
use super::tap_line::{CountLine, EventLine, RowLine, TapSide};
use crate::codec::json;
use crate::error::RejectionKind;

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

/// Cause and way out of what a tap misses.
const EVICTED: &str =
    "the gateway evicted what tap had not read yet; read faster, or raise `inspect.bytes` or `inspect.runs`";

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
            // Nothing stands beside the longest one, `disconnect`.
            let cause = self.paint(cause_style(cause), &fit_text(cause, CAUSE_COLUMNS.max(cause.len())));
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
        let failure = describe_end(outcome, run, counts);
        let mut causes = counts.describe_causes(run);
        let (style, headline) = match failure {
            Some(failure) => (TextStyle::Failure, Some(failure)),
            // That a run finished is no news if its agent is broken.
            None if !causes.is_empty() => (TextStyle::Warning, Some(causes.remove(0))),
            None => (TextStyle::Bold, counts.describe_difference(run)),
        };
        let mut text = format!("{} {outcome} after {}", format_run(run.id), format_millis(run.duration_ms));
        if let Some(headline) = &headline {
            text += &format!(": {headline}");
        }
        let mut lines = vec![self.paint(style, &escape_text(&text))];
        if outcome != "refused" {
            let indent = " ".repeat(RUN_COLUMNS);
            let causes = causes.into_iter().map(|cause| (TextStyle::Warning, cause));
            let facts = counts.describe_facts(run).into_iter().filter(|fact| Some(fact) != headline.as_ref());
            let facts = facts.map(|fact| (TextStyle::Plain, fact));
            for (style, text) in causes.chain(facts) {
                let parts = wrap_text(&text, self.columns.saturating_sub(RUN_COLUMNS));
                lines.extend(parts.iter().map(|part| self.paint(style, &format!("{indent}{part}"))));
            }
        }
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
            [("+", "repaired", &row.repairs, earlier.repairs()), ("-", "lost", &row.losses, earlier.losses())]
        {
            for (at, CountLine { label, help, rule, .. }) in found.iter().enumerate() {
                if found[..at].iter().any(|one| one.label == *label) {
                    continue;
                }
                let all = || found.iter().filter(|one| one.label == *label);
                let times = all().count();
                let times = if times > 1 { format!(" ×{times}") } else { String::new() };
                let members: Vec<_> = all().filter_map(|one| one.member.as_deref()).collect();
                let members = if members.is_empty() { String::new() } else { format!(" ({})", members.join(", ")) };
                let rule = rule.as_ref().map(|rule| format!(" (broken rule: {rule})")).unwrap_or_default();
                let help = if known.contains_key(label) { String::new() } else { format!(": {help}{rule}") };
                add(TextStyle::Warning, sign, &format!("{verb} {label}{times}{members}{help}"));
            }
        }
        for held in row.releases.iter().filter_map(|n| earlier.find_held(*n)) {
            add(TextStyle::Dim, "^", &format!("with {held}, which was held until here"));
        }
        for carried in row.carried.iter().filter(|_| !row.is_lost()) {
            add(TextStyle::Dim, "=", &format!("{} carried in {}", carried.names.join(", "), carried.location));
        }
        if !row.kept.is_empty() {
            add(TextStyle::Dim, "=", &format!("kept for the thread: {}", row.kept.join(", ")));
        }
        if let Some(change) = &row.id_change {
            add(TextStyle::Warning, ".", &describe_id_change(change));
        }
        if let Some(open) = describe_left_open(row.left_open.iter(), &row.cause) {
            add(TextStyle::Warning, ".", &open);
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

fn cause_style(cause: &str) -> TextStyle {
    match cause {
        "dropped" | "gateway" => TextStyle::Warning,
        "same" | "held" | "nothing" | "end" | "disconnect" | "mark" | "unrecorded" => TextStyle::Dim,
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
fn describe_end(outcome: &str, run: &RunLine, counts: &RunCounts) -> Option<String> {
    let code = run.code.as_deref();
    // That the agent shall run again helps nobody if its lines are lost.
    let cut = (outcome == "upstream_error").then(|| counts.describe_cut(run)).flatten();
    let left = (outcome == "client_gone").then(|| counts.describe_leave(run));
    let text = match outcome {
        "finished" | "interrupted" => return None,
        "agent_error" => "the agent reported an error",
        "unread" => "no client requested the events of the run in time",
        "drained" => "the gateway shut down, or the run ended without a last event",
        "expired" => "the caller's credential expired during the run",
        "limited" => "a limit was reached",
        "cancelled" => "the run was stopped on request",
        "refused" => "the request was refused",
        "gateway_error" => "the gateway had an internal error",
        _ => "",
    };
    let answer = run.refusal.as_ref().map(|answer| format!("the agent's answer: {answer}"));
    let text = cut.or(left).or(answer).or_else(|| run.message.clone()).unwrap_or_else(|| text.to_owned());
    Some(match code {
        Some(code) if !text.is_empty() => format!("{code}: {text}"),
        code => code.unwrap_or(&text).to_owned(),
    })
}

fn format_run(id: u64) -> String {
    format!("#{id}")
}

fn format_time_of_day(epoch_ms: u64) -> String {
    let seconds = epoch_ms / 1000 % 86_400;
    format!("{:02}:{:02}:{:02}Z", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests;
