//! Judges what a client received: by the rules of its dialect, by what its agent sent, and by what was broken meanwhile.

use super::super::exact_json::members;
use super::super::golden::side;
use super::super::laws::recap::client_rejection;
use super::super::laws::reducer::ReducerClient;
use super::super::support::client::End;
use super::connection::{EventFrame, Transcript, frames};
use super::plan::{AgentFault, NOW, RouteKind, RunPlan};
use super::situation::Situation;
use diglot::codec::sse::SseLimits;
use diglot::codec::{Framing, proto};
use diglot::translate::Stream;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Instant;

/// The outcome of a run, or what is wrong with it.
pub type Verdict = Result<String, String>;

/// Judges a run that its client read to the end, in one piece.
pub fn judge_run(plan: &RunPlan, situation: &Situation, start: Instant, answer: &Transcript) -> Verdict {
    if answer.status != 200 {
        return judge_refusal(plan, situation, start, answer);
    }
    if answer.end != Some(End::Clean) {
        return Err("the stream was cut off".to_owned());
    }
    let received = match plan.client_framing {
        Framing::Sse => frames(&answer.body),
        Framing::Proto => proto_frames(&answer.body)?,
    };
    judge_frames(plan, situation, start, &received)
}

/// Judges a refusal in place of a run.
pub fn judge_refusal(plan: &RunPlan, situation: &Situation, start: Instant, answer: &Transcript) -> Verdict {
    let code = answer.code();
    if answer.end != Some(End::Clean) || answer.header("content-type") != Some("application/problem+json") {
        return Err("neither a stream nor a problem document".to_owned());
    }
    check_reason(plan, situation, start, &code)?;
    Ok(format!("refused: {code}"))
}

/// Judges all frames of a run.
pub fn judge_frames(plan: &RunPlan, situation: &Situation, start: Instant, received: &[EventFrame]) -> Verdict {
    check_once(plan)?;
    check_legal(plan, received)?;
    let (expected, ended) = expected_frames(plan, None);
    let failure = failure_of(plan, received);
    if ended && first_difference(&expected, received).is_none() {
        return Ok(if failure.is_some() { "agent error" } else { "finished" }.to_owned());
    }
    let broken = situation.agents.overlap(start);
    if ended && !broken && !matches!(plan.fault, AgentFault::Reset(_)) {
        return Err(format!("not what its agent sent: {}", first_difference(&expected, received).unwrap_or_default()));
    }
    let Some(failure) = failure else {
        let difference = first_difference(&expected, received).unwrap_or_default();
        return Err(format!("a success, and its agent did not say so: {difference}"));
    };
    check_reason(plan, situation, start, &failure.code)?;
    let exact = !broken && matches!(plan.fault, AgentFault::Cut(_) | AgentFault::Stall(_));
    if exact {
        let (expected, _) = expected_frames(plan, Some(&failure));
        if let Some(difference) = first_difference(&expected, received) {
            return Err(format!("not what its agent sent before it broke: {difference}"));
        }
    } else {
        check_beginning(plan, received)?;
    }
    Ok(format!("failed: {}", failure.code))
}

/// Requires that a client that left has the beginning of the run.
pub fn check_beginning(plan: &RunPlan, received: &[EventFrame]) -> Result<(), String> {
    let (all, _) = output_frames(plan, plan.wire.len(), None);
    let common = received.iter().zip(&all).take_while(|(own, all)| is_same(&all.text, &own.text)).count();
    // What was open is closed, and the run has failed.
    let rest = canonical_events(plan, &received[common..]);
    let odd = rest.iter().find(|event| {
        let kind = kind_of(event);
        !(kind.ends_with("_END") || ["STEP_FINISHED", "RUN_ERROR", "RUN_STARTED"].contains(&kind))
    });
    let whole_messages = plan.client_side().dialect.has_whole_messages();
    match odd.filter(|_| !whole_messages) {
        Some(event) => Err(format!("not in what its agent sent: frame {common} and behind, {event:?}")),
        None => Ok(()),
    }
}

/// Requires that a client that came without a cursor holds what one holds that received everything.
pub fn check_recap(plan: &RunPlan, whole: &[EventFrame], recap: &[EventFrame]) -> Result<(), String> {
    let texts = |frames: &[EventFrame]| -> Vec<String> { frames.iter().map(|frame| frame.text.clone()).collect() };
    let request: Value = serde_json::from_str(&plan.body).expect("JSON");
    let messages = request["messages"].as_array().expect("messages");
    let whole = ReducerClient::with_input(messages, Some(&request["state"].to_string())).reduce(&texts(whole));
    let mut late = ReducerClient::default().reduce(&texts(recap));
    if whole.started.is_null() {
        late.started = Value::Null;
    }
    let [late, whole] = [late.comparable_state(), whole.comparable_state()];
    let differs = whole.as_object().expect("an object").keys().find(|key| whole[*key] != late[*key]);
    match differs {
        Some(key) => Err(format!("the recap loses {key}: {} in place of {}", late[key], whole[key])),
        None => Ok(()),
    }
}

/// Requires that a client of the dialect accepts the frames, and that the run has one end.
pub fn check_legal(plan: &RunPlan, received: &[EventFrame]) -> Result<(), String> {
    let texts: Vec<_> = received.iter().map(|frame| frame.text.clone()).collect();
    let ends = |frame: &&EventFrame| {
        ["\"type\":\"RUN_FINISHED\"", "\"type\":\"RUN_ERROR\""].iter().any(|end| frame.text.contains(end))
    };
    let count = canonical_events(plan, received).iter().filter(|event| is_terminal(event)).count();
    if count != 1 || received.last().filter(ends).is_none() {
        return Err(format!("{count} terminal events in {} frames", received.len()));
    }
    let Some(why) = client_rejection(plan.client_side(), &texts) else { return Ok(()) };
    // Some agents send what no client of this version knows, and `guard: repair` passes it.
    let whole: Vec<_> = expected_frames(plan, None).0.into_iter().map(|frame| frame.text).collect();
    let always = client_rejection(plan.client_side(), &whole).is_some();
    if always { Ok(()) } else { Err(format!("its client rejects it: {why}")) }
}

/// The members of an event as JSON text, which keeps numbers that nothing else can hold.
type EventMembers = BTreeMap<String, String>;

fn kind_of(event: &EventMembers) -> &str {
    event.get("type").map_or("", |kind| kind.trim_matches('"'))
}

fn is_terminal(event: &EventMembers) -> bool {
    ["RUN_FINISHED", "RUN_ERROR"].contains(&kind_of(event))
}

/// Requires that the agent received the run once, and unchanged.
fn check_once(plan: &RunPlan) -> Result<(), String> {
    if let Some(problem) = plan.problem.lock().expect("whole").take() {
        return Err(problem);
    }
    if plan.started() > 1 {
        return Err(format!("the agent received the run {} times", plan.started()));
    }
    Ok(())
}

/// Requires that a failure with this code has a cause in the plan or in the situation.
fn check_reason(plan: &RunPlan, situation: &Situation, start: Instant, code: &str) -> Result<(), String> {
    let by_plan: &[&str] = match plan.fault {
        AgentFault::None => &[],
        AgentFault::Cut(_) | AgentFault::Reset(_) | AgentFault::HangUp => {
            &["upstream_truncated", "upstream_reset", "upstream_unreachable"]
        }
        AgentFault::Stall(_) => &["upstream_idle", "upstream_timeout"],
        AgentFault::Silent => &["upstream_timeout"],
        AgentFault::Status(_) => &["upstream_status"],
        AgentFault::Page => &["upstream_content_type"],
    };
    let agent_down = ["upstream_truncated", "upstream_reset", "upstream_unreachable"].contains(&code);
    let redis_down = ["replay_unavailable", "run_lost"].contains(&code) && plan.kind == RouteKind::Kept;
    let known = by_plan.contains(&code)
        || agent_down && situation.agents.overlap(start)
        || redis_down && situation.redis.overlap(start);
    if known { Ok(()) } else { Err(format!("a failure without a cause: {code:?}")) }
}

/// A failure as AG-UI words it.
struct RunFailure {
    code: String,
    message: String,
}

/// Returns the failure with which a run ended.
fn failure_of(plan: &RunPlan, received: &[EventFrame]) -> Option<RunFailure> {
    let events = canonical_events(plan, received);
    let last = events.last().filter(|event| kind_of(event) == "RUN_ERROR")?;
    let text =
        |name: &str| -> String { last.get(name).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default() };
    Some(RunFailure { code: text("code"), message: text("message") })
}

/// The frames of a client in the words of AG-UI.
fn canonical_events(plan: &RunPlan, received: &[EventFrame]) -> Vec<EventMembers> {
    let text: String = received.iter().map(|frame| format!("{}\n\n", frame.text)).collect();
    let mut stream = Stream::new(plan.client_side(), side("ag-ui"), None, SseLimits::default());
    let mut out = Vec::new();
    stream.push(text.as_bytes(), NOW, &mut out).expect("no limit is near");
    let data = frames(&out);
    let data = data.iter().filter_map(|frame| frame.text.split_once("data: "));
    data.map(|(_, data)| members(data)).collect()
}

/// What the client must get of the part of the body that the agent sent, and whether the run has ended with it.
fn expected_frames(plan: &RunPlan, failure: Option<&RunFailure>) -> (Vec<EventFrame>, bool) {
    let sent = match plan.fault {
        AgentFault::None => plan.wire.len(),
        AgentFault::Cut(at) | AgentFault::Reset(at) | AgentFault::Stall(at) => at,
        _ => 0,
    };
    output_frames(plan, sent, failure)
}

fn output_frames(plan: &RunPlan, sent: usize, failure: Option<&RunFailure>) -> (Vec<EventFrame>, bool) {
    let failure = failure.map(|failure| (&*failure.code, &*failure.message));
    let (out, ended) = plan.expected_output(sent, plan.client_framing, failure);
    let out = match plan.client_framing {
        Framing::Sse => frames(&out),
        Framing::Proto => proto_frames(&out).expect("its own output"),
    };
    (out, ended)
}

/// The number of frames that a client gets of the whole run.
pub fn frame_count(plan: &RunPlan) -> usize {
    expected_frames(plan, None).0.len()
}

/// The events of a body in protobuf, as frames.
fn proto_frames(body: &[u8]) -> Result<Vec<EventFrame>, String> {
    let (mut decoder, mut rest, mut all) = (proto::ProtoDecoder::default(), body, Vec::new());
    loop {
        match decoder.next(&mut rest) {
            proto::ProtoStep::More => break,
            proto::ProtoStep::Event { text, .. } => all.push(EventFrame { id: None, text: format!("data: {text}") }),
            other => return Err(format!("not protobuf: {other:?}")),
        }
    }
    if decoder.has_partial_frame() { Err("half a frame at the end".to_owned()) } else { Ok(all) }
}

/// The first place where frames differ from the expected ones.
fn first_difference(expected: &[EventFrame], received: &[EventFrame]) -> Option<String> {
    let text =
        |all: &[EventFrame], at: usize| all.get(at).map_or_else(|| "nothing".to_owned(), |frame| frame.text.clone());
    let most = expected.len().max(received.len());
    let at = (0..most).find(|&at| match (expected.get(at), received.get(at)) {
        (Some(expected), Some(received)) => !is_same(&expected.text, &received.text),
        _ => true,
    })?;
    Some(format!(
        "frame {at} of {}/{}\nexpected {}\nreceived {}",
        received.len(),
        expected.len(),
        text(expected, at),
        text(received, at)
    ))
}

/// Compares two texts, the first of which has [`NOW`] in place of the time.
fn is_same(expected: &str, received: &str) -> bool {
    let now = NOW.to_string();
    if !expected.contains(&now) {
        return expected == received;
    }
    let mut parts = expected.split(&now);
    let Some(mut rest) = parts.next().and_then(|first| received.strip_prefix(first)) else { return false };
    for part in parts {
        let behind = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        match behind.strip_prefix(part) {
            Some(next) => rest = next,
            None => return false,
        }
    }
    rest.is_empty()
}

/// Requires that the ids of frames count up by one, from 1, with one token.
pub fn check_ids(received: &[EventFrame]) -> Result<(), String> {
    let ids: Vec<_> = received.iter().map(|frame| frame.id.as_deref().unwrap_or_default()).collect();
    let token = ids.first().and_then(|id| id.split_once('-')).map_or("", |(token, _)| token);
    let wrong = ids.iter().enumerate().find(|(at, id)| **id != format!("{token}-{}", at + 1));
    wrong.map_or(Ok(()), |(at, id)| Err(format!("frame {} has the id {id:?}, of {ids:?}", at + 1)))
}
