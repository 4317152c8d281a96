//! The JSON of the inspector's API.

use crate::config::Config;
use crate::config::enum_values::{self, name_of};
use crate::config::inspect::CaptureMode;
use crate::error::RejectionKind;
use crate::event::{EventLoss, EventRepair};
use crate::inspect::{CaptureStep, CaptureStore, CapturedRun, RunCause, RunEnd, RunSpan};
use crate::telemetry::label::RunOutcome;
use crate::telemetry::{CheckDecision, RunMoment, select_labels};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

#[derive(Debug, Serialize)]
pub(super) struct RunOverview {
    id: u64,
    route: String,
    caller: Option<String>,
    client: &'static str,
    agent: &'static str,
    thread_id: String,
    run_id: String,
    request_id: String,
    mode: &'static str,
    /// since the epoch
    started_ms: i64,
    state: &'static str,
    /// a label of `diglot_streams_total`
    outcome: Option<&'static str>,
    code: Option<String>,
    message: Option<String>,
    /// what the gateway's code means in general; the message may have the details instead
    explanation: Option<&'static str>,
    /// status, fields and words with which the agent refused the request
    refusal: Option<Box<str>>,
    events_in: u64,
    events_out: u64,
    bytes_in: u64,
    bytes_out: u64,
    first_event_ms: Option<u64>,
    duration_ms: u64,
    repairs: u64,
    losses: u64,
    /// labels of the kinds of them
    repair_names: Vec<&'static str>,
    loss_names: Vec<&'static str>,
    /// dialect of the agent's events that are of another than `agent`
    looks_like: Option<&'static str>,
    /// types of both sides' events
    types: BTreeSet<Cow<'static, str>>,
    /// what is unusual about the form of the agent's stream
    body_form: Option<&'static str>,
    kept_bytes: u64,
    /// bytes of the agent that were not kept
    missed_bytes: u64,
    /// they are protobuf, which cannot be redacted; otherwise a limit was reached
    withheld: bool,
    /// the setting for which they were not kept
    limit: Option<&'static str>,
    /// when the gateway waited for the client to read, since the run began
    client_waits: Vec<RunSpan>,
    /// the agent's longest silence, if it is long enough to show
    silence: Option<RunSpan>,
    /// why the run went wrong, if it has ended and the list of runs was read since
    cause: Option<RunCause>,
}

impl RunOverview {
    pub(super) fn new(run: &CapturedRun) -> RunOverview {
        let facts = run.facts();
        let (kept_bytes, missed_bytes) = run.kept_and_missed();
        let duration = facts.end.as_ref().map_or_else(|| run.head.started_at.elapsed(), |end| end.duration);
        let (first_read_ms, last_step_ms) = run.first_read_and_last_step_ms();
        RunOverview {
            id: run.id,
            route: run.head.route.to_string(),
            caller: run.head.caller.clone(),
            client: run.settings.client.dialect.name,
            agent: run.settings.agent.dialect.name,
            thread_id: run.settings.ids.thread_id.text().unwrap_or_default().into_owned(),
            run_id: run.settings.ids.run_id.text().unwrap_or_default().into_owned(),
            request_id: run.head.request_id.clone(),
            mode: name_of(enum_values::INSPECT, &run.head.mode),
            started_ms: run.head.started_ms,
            state: if facts.end.is_some() { "ended" } else { "running" },
            outcome: facts.end.as_ref().map(|end| end.outcome),
            code: facts.end.as_ref().and_then(|end| end.code.clone()),
            explanation: facts.end.as_ref().and_then(explain_code),
            message: facts.end.and_then(|end| end.message),
            refusal: facts.refusal,
            events_in: facts.events_in,
            events_out: facts.events_out,
            bytes_in: facts.bytes_in,
            bytes_out: facts.bytes_out,
            // The steps are of another clock, and shown beside these.
            first_event_ms: facts.first_event.map(|after| millis(after).max(first_read_ms.unwrap_or_default())),
            duration_ms: millis(duration).max(last_step_ms),
            repairs: facts.repairs,
            losses: facts.losses,
            repair_names: select_labels(facts.repair_kinds, EventRepair::ALL.iter().map(|repair| repair.label())),
            loss_names: select_labels(facts.loss_kinds, EventLoss::ALL.iter().map(|loss| loss.label())),
            looks_like: facts.looks_like,
            types: run.types(),
            body_form: run.body_form(),
            kept_bytes,
            missed_bytes,
            withheld: run.is_withheld(),
            limit: run.limit(),
            client_waits: run.client_waits(),
            silence: run.longest_silence(),
            cause: run.cause().cloned(),
        }
    }
}

/// Returns the text of the code with which the gateway ended the run. Agents choose codes of their own.
fn explain_code(end: &RunEnd) -> Option<&'static str> {
    let code = end.code.as_deref().filter(|_| end.outcome != RunOutcome::AgentError.label())?;
    RejectionKind::from_code(code).map(RejectionKind::text)
}

#[derive(Debug, Serialize)]
pub(super) struct RunDetail {
    #[serde(flatten)]
    summary: RunOverview,
    settings: RunSettings,
    requests: Requests,
    timeline: Vec<TimelineMark>,
}

#[derive(Debug, Serialize)]
struct RunSettings {
    guard: &'static str,
    client_framing: &'static str,
    upstream: Option<String>,
    max_events: Option<u64>,
    max_bytes: Option<u64>,
}

/// The bodies of both requests, and their heads without secrets; absent unless the mode is `full`.
#[derive(Debug, Serialize)]
struct Requests {
    client_head: Option<String>,
    client: Option<String>,
    agent_head: Option<String>,
    agent: Option<String>,
}

#[derive(Debug, Serialize)]
struct TimelineMark {
    at_ms: f64,
    name: &'static str,
    /// of a check: `passed` or `refused`
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<&'static str>,
    /// of a check that refused
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    /// of a check, what it requires
    detail: Option<String>,
    /// how often it happened in a row
    times: u64,
    /// when it happened for the last time
    until_ms: f64,
}

impl From<RunMoment> for TimelineMark {
    fn from(moment: RunMoment) -> TimelineMark {
        let fine_ms = |time: Duration| time.as_micros() as f64 / 1e3;
        let (verdict, code) = match moment.verdict {
            None => (None, None),
            Some(CheckDecision::Passed) => (Some("passed"), None),
            Some(CheckDecision::Refused(code)) => (Some("refused"), Some(code)),
        };
        TimelineMark {
            at_ms: fine_ms(moment.at),
            name: moment.name,
            verdict,
            code,
            detail: moment.detail,
            times: moment.times,
            until_ms: fine_ms(moment.until),
        }
    }
}

impl TimelineMark {
    /// Returns the mark at this moment or later.
    fn not_before(self, moment: f64) -> TimelineMark {
        TimelineMark { at_ms: self.at_ms.max(moment), until_ms: self.until_ms.max(moment), ..self }
    }
}

impl RunDetail {
    pub(super) fn new(run: &CapturedRun) -> RunDetail {
        let facts = run.facts();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let [client_head, agent_head] = run.timeline.heads();
        let summary = RunOverview::new(run);
        RunDetail {
            timeline: timeline(run, &summary),
            settings: RunSettings {
                guard: name_of(enum_values::GUARD, &run.settings.guard),
                client_framing: run.settings.framing.media_type(),
                upstream: facts.upstream.map(|upstream| upstream.to_string()),
                max_events: run.settings.max_events,
                max_bytes: run.settings.max_bytes,
            },
            requests: Requests {
                client_head,
                agent_head,
                client: run.requests.as_ref().map(|both| text(&both.client)),
                agent: run.requests.as_ref().map(|both| text(&both.agent)),
            },
            summary,
        }
    }
}

fn timeline(run: &CapturedRun, summary: &RunOverview) -> Vec<TimelineMark> {
    let mark = |at_ms: u64, name, detail| {
        let at_ms = at_ms as f64;
        TimelineMark { at_ms, name, verdict: None, code: None, detail, times: 1, until_ms: at_ms }
    };
    let mut marks = vec![mark(0, "request", None)];
    marks.extend(run.timeline.moments().into_iter().map(TimelineMark::from));
    // The steps are of another clock, in whole milliseconds: what the agent answers follows its connection.
    let connected = marks.iter().find(|mark| mark.name == "connected").map_or(0.0, |mark| mark.at_ms);
    let mut first_byte_ms = 0;
    let mut last_read = None;
    for (at_ms, step) in run.step_times() {
        match step {
            CaptureStep::Responded(framing) => {
                let answered = mark(at_ms, "responded", Some(framing.media_type().to_owned()));
                marks.push(answered.not_before(connected));
            }
            CaptureStep::Followed(_) => marks.push(mark(at_ms, "accepted", None).not_before(connected)),
            CaptureStep::Read(_) => {
                match last_read {
                    None => {
                        first_byte_ms = at_ms;
                        let first = mark(at_ms, "first_byte", summary.body_form.map(str::to_owned));
                        marks.push(first.not_before(connected));
                    }
                    Some(before) if run.is_silence(RunSpan { from_ms: before, until_ms: at_ms }) => {
                        marks.push(TimelineMark { until_ms: at_ms as f64, ..mark(before, "silence", None) });
                    }
                    Some(_) => {}
                }
                last_read = Some(at_ms);
            }
            CaptureStep::Reconnected => marks.push(mark(at_ms, "reconnected", None)),
            CaptureStep::BodyEnded => marks.push(mark(at_ms, "body_ended", None)),
            CaptureStep::Failed(failure) => marks.push(mark(at_ms, "failed", Some(failure.0.clone()))),
            CaptureStep::Cancelled => marks.push(mark(at_ms, "cancelled", None)),
        }
    }
    // The last silence ends with the run.
    let last_silence = run.last_silence().filter(|silence| Some(silence.from_ms) == last_read);
    marks.extend(last_silence.map(|RunSpan { from_ms, until_ms }| TimelineMark {
        until_ms: until_ms as f64,
        ..mark(from_ms, "silence", None)
    }));
    // The gateway reads nothing behind the agent's last event.
    let has_own_end = summary.outcome.is_some_and(RunOutcome::is_end_by_agent);
    let is_open = summary.missed_bytes == 0 && !marks.iter().any(|mark| mark.name == "body_ended");
    marks.extend(last_read.filter(|_| has_own_end && is_open).map(|at_ms| mark(at_ms, "stopped_reading", None)));
    // It is of another clock than the steps, whose first byte is its cause.
    marks.extend(summary.first_event_ms.map(|at_ms| mark(at_ms.max(first_byte_ms), "first_event", None)));
    // The steps have whole milliseconds, rounded down; the moments within one were before them.
    marks.sort_by(|one, other| one.at_ms.floor().total_cmp(&other.at_ms.floor()));
    // Last, since its clock is that of the moments, and the steps may be some milliseconds late.
    marks.extend(summary.outcome.map(|outcome| mark(summary.duration_ms, "end", Some(outcome.to_owned()))));
    let mut last_ms: f64 = 0.0;
    for mark in &mut marks {
        last_ms = last_ms.max(mark.at_ms);
        (mark.at_ms, mark.until_ms) = (last_ms, mark.until_ms.max(last_ms));
    }
    marks
}

/// The capture modes of all routes.
#[derive(Debug, Serialize)]
pub(super) struct RouteModes {
    routes: Vec<RouteMode>,
    /// memory of all captured runs
    used_bytes: usize,
}

#[derive(Debug, Serialize)]
struct RouteMode {
    route: String,
    configured: &'static str,
    mode: &'static str,
    /// the end of what an operator has set, since the epoch
    until_ms: Option<u64>,
}

impl RouteModes {
    pub(super) fn new(config: &Config, captures: &CaptureStore) -> RouteModes {
        let now = Instant::now();
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // The most that is captured of a route without a mode of its own.
        let listener = config.data.iter().map(|listener| listener.inspect).max().unwrap_or_default();
        let routes = config.routes.iter().map(|route| {
            let set = captures.find_override(&route.name);
            let configured = route.inspect.unwrap_or(listener);
            RouteMode {
                route: route.name.clone(),
                configured: name_of(enum_values::INSPECT, &configured),
                mode: name_of(enum_values::INSPECT, &captures.mode(&route.name, configured)),
                until_ms: set.map(|set| millis(epoch + set.until.saturating_duration_since(now))),
            }
        });
        RouteModes { routes: routes.collect(), used_bytes: captures.used_bytes() }
    }
}

/// Sets a mode for some time; without one, the routes are captured as configured.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModeChange {
    /// the route's name, in which `*` stands for any characters
    pub(super) route: String,
    pub(super) mode: Option<CaptureMode>,
    #[serde(default = "default_seconds")]
    pub(super) seconds: u64,
}

const fn default_seconds() -> u64 {
    600
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
