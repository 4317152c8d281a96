//! Judges what a client received: by the rules of its dialect, by what its agent sent, and by what was broken meanwhile.

use super::super::exact_json::members;
use super::super::golden::side;
use super::super::laws::recap::client_rejection;
use super::super::laws::reducer::ReducerClient;
use super::super::support::client::End;
use super::connection::{EventFrame, Transcript, frames};
use super::plan::{AgentFault, NOW, RouteKind, RunPlan, SentPart};
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
    let failure = failure_of(plan, received);
    let outputs = [false, true].map(|closed| output_frames(plan, SentPart { bytes: sent_bytes(plan), closed }, None));
    if outputs.iter().any(|(expected, ended)| *ended && first_difference(expected, received).is_none()) {
        return Ok(if failure.is_some() { "agent error" } else { "finished" }.to_owned());
    }
    let [(expected, ended), _] = &outputs;
    let difference = || first_difference(expected, received).unwrap_or_default();
    let broken = situation.disturbs_agents(start);
    if *ended && !broken && !matches!(plan.fault, AgentFault::Reset(_)) {
        return Err(format!("not what its agent sent: {}", difference()));
    }
    let Some(failure) = failure else {
        return Err(format!("a success, and its agent did not say so: {}", difference()));
    };
    check_reason(plan, situation, start, &failure.code)?;
    let exact = !broken && matches!(plan.fault, AgentFault::Cut(_) | AgentFault::Stall(_));
    let places = if exact { vec![sent_bytes(plan)] } else { frame_ends(plan) };
    check_break(plan, received, &failure, &places)?;
    Ok(format!("failed: {}", failure.code))
}

/// Requires that a client that left has the beginning of the run.
pub fn check_beginning(plan: &RunPlan, received: &[EventFrame]) -> Result<(), String> {
    let (all, _) = output_frames(plan, SentPart { bytes: plan.wire.len(), closed: true }, None);
    let whole = received.iter().zip(&all).all(|(own, all)| is_same(&all.text, &own.text));
    match failure_of(plan, received) {
        _ if whole && received.len() <= all.len() => Ok(()),
        Some(failure) => check_break(plan, received, &failure, &[&[sent_bytes(plan)], &*frame_ends(plan)].concat()),
        None => Err(format!("not in what its agent sent: {}", first_difference(&all, received).unwrap_or_default())),
    }
}

/// Requires that a run that broke off at one of these places has everything before it, and its failure.
fn check_break(plan: &RunPlan, received: &[EventFrame], failure: &RunFailure, places: &[usize]) -> Result<(), String> {
    // What a translation holds back leaves at the break, so the output of each place is made anew.
    let fits = |bytes: usize, closed| {
        first_difference(&output_frames(plan, SentPart { bytes, closed }, Some(failure)).0, received).is_none()
    };
    if places.iter().any(|at| fits(*at, false) || fits(*at, true)) {
        return Ok(());
    }
    let (all, _) = output_frames(plan, SentPart { bytes: sent_bytes(plan), closed: true }, Some(failure));
    Err(format!("not what its agent sent before it broke: {}", first_difference(&all, received).unwrap_or_default()))
}

/// Returns where the frames of the agent's body end, and its beginning.
fn frame_ends(plan: &RunPlan) -> Vec<usize> {
    let mut ends = vec![0];
    match plan.agent_framing {
        Framing::Sse => {
            let bytes = &plan.wire;
            let is_end = |at: &usize| bytes[..*at].ends_with(b"\n\n") || bytes[..*at].ends_with(b"\r\n\r\n");
            ends.extend((1..=bytes.len()).filter(is_end));
        }
        Framing::Proto => {
            // Four bytes with the length precede each.
            while let Some(head) = ends.last().and_then(|at| plan.wire.get(*at..at + 4)) {
                let length = head.iter().fold(0, |length, byte| 256 * length + usize::from(*byte));
                ends.push(ends[ends.len() - 1] + 4 + length);
            }
        }
    }
    ends
}

/// Requires that a client that came without a cursor holds what one holds that received everything.
pub fn check_recap(plan: &RunPlan, whole: &[EventFrame], recap: &[EventFrame]) -> Result<(), String> {
    let texts = |frames: &[EventFrame]| -> Vec<String> { frames.iter().map(|frame| frame.text.clone()).collect() };
    // A snapshot of the agent's own may remove a message that a later event brings back at another place.
    let is_snapshot =
        |frame: &EventFrame| ["MESSAGES_SNAPSHOT", "MESSAGE_SNAPSHOT"].iter().any(|kind| frame.text.contains(kind));
    let is_ordered = !whole.iter().any(is_snapshot);
    let request: Value = serde_json::from_str(&plan.body).expect("JSON");
    let messages = request["messages"].as_array().expect("messages");
    let whole = ReducerClient::with_input(messages, Some(&request["state"].to_string())).reduce(&texts(whole));
    let mut late = ReducerClient::default().reduce(&texts(recap));
    if whole.started.is_null() {
        late.started = Value::Null;
    }
    let [late, whole] = [late.comparable_state(), whole.comparable_state()];
    let keys = whole.as_object().expect("an object").keys();
    let differs = keys
        .clone()
        .find(|key| comparable_parts(&whole[*key], is_ordered) != comparable_parts(&late[*key], is_ordered));
    match differs {
        Some(key) => Err(format!("the recap loses {key}: {} in place of {}", late[key], whole[key])),
        None => Ok(()),
    }
}

/// Returns the elements of a value of the reducer as text, without what the reducer alone distinguishes: an empty list as
/// text or as parts, numbers as arguments, and empty content.
fn comparable_parts(value: &Value, is_ordered: bool) -> Vec<String> {
    let text = |value: &Value| unmark_numbers(&without_empty_text(value).to_string()).replace(r#""content":"","#, "");
    let mut parts: Vec<_> = match value {
        Value::Array(all) => all.iter().map(text).collect(),
        other => vec![text(other)],
    };
    if !is_ordered {
        parts.sort();
    }
    parts
}

/// Returns a text without the marks of the reducer's numbers. Within arguments, they are texts of their own: `\"#1.10\"`.
fn unmark_numbers(text: &str) -> String {
    let mut parts = text.split(r##"\"#"##);
    let mut unmarked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (number, rest) = part.split_once(r#"\""#).unwrap_or((part, ""));
        unmarked += number;
        unmarked += rest;
    }
    unmarked.replace('#', "")
}

#[test]
fn numbers_in_arguments_are_compared_without_marks() {
    let marked = r##"{"arguments":"[false,[\"#1.10\"]]","n":"#2"}"##;
    assert_eq!(unmark_numbers(marked), r#"{"arguments":"[false,[1.10]]","n":"2"}"#);
}

/// Replaces an empty text in front of a list by the list alone.
fn without_empty_text(value: &Value) -> Value {
    match value {
        Value::Array(all) => match all.as_slice() {
            [Value::String(text), list @ Value::Array(_)] if text.is_empty() => list.clone(),
            all => all.iter().map(without_empty_text).collect(),
        },
        Value::Object(all) => {
            Value::Object(all.iter().map(|(name, value)| (name.clone(), without_empty_text(value))).collect())
        }
        other => other.clone(),
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
    let (whole, _) = output_frames(plan, SentPart { bytes: plan.wire.len(), closed: true }, None);
    let whole: Vec<_> = whole.into_iter().map(|frame| frame.text).collect();
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
    let agent_slow = ["upstream_idle", "upstream_timeout"].contains(&code);
    let redis_down = ["replay_unavailable", "run_lost"].contains(&code) && plan.kind == RouteKind::Kept;
    let drained = code == "gateway_draining" && situation.upgrades.overlap(start);
    // A client that is refused for so long has not read its run.
    let abandoned = code == "run_abandoned" && plan.kind == RouteKind::Kept && situation.disturbs_redis(start);
    let known = by_plan.contains(&code)
        || drained
        || abandoned
        || agent_down && situation.agents.overlap(start)
        || agent_slow && situation.stalls.overlap(start)
        || redis_down && situation.disturbs_redis(start);
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

/// Returns how much of the body the agent sends, unless it is killed.
fn sent_bytes(plan: &RunPlan) -> usize {
    match plan.fault {
        AgentFault::None => plan.wire.len(),
        AgentFault::Cut(at) | AgentFault::Reset(at) | AgentFault::Stall(at) => at,
        _ => 0,
    }
}

/// Returns what the client must get of a part of the body, and whether the run has ended with it.
fn output_frames(plan: &RunPlan, sent: SentPart, failure: Option<&RunFailure>) -> (Vec<EventFrame>, bool) {
    let failure = failure.map(|failure| (&*failure.code, &*failure.message));
    let (out, ended) = plan.expected_output(sent, failure);
    let out = match plan.client_framing {
        Framing::Sse => frames(&out),
        Framing::Proto => proto_frames(&out).expect("its own output"),
    };
    (out, ended)
}

/// The number of frames that a client gets of the whole run.
pub fn frame_count(plan: &RunPlan) -> usize {
    output_frames(plan, SentPart { bytes: sent_bytes(plan), closed: false }, None).0.len()
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

/// Compares two texts, the first of which has [`NOW`] in place of the time; `elapsed` is made from it.
fn is_same(expected: &str, received: &str) -> bool {
    let now = NOW.to_string();
    let [expected, received] = [expected, received].map(without_elapsed);
    let [expected, received] = [&*expected, &*received];
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

/// Removes the digits of each `elapsed`.
fn without_elapsed(text: &str) -> String {
    let mut parts = text.split(r#""elapsed":"#);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// Requires that the ids of frames count up by one, from 1, with one token.
pub fn check_ids(received: &[EventFrame]) -> Result<(), String> {
    let ids: Vec<_> = received.iter().map(|frame| frame.id.as_deref().unwrap_or_default()).collect();
    let token = ids.first().and_then(|id| id.split_once('-')).map_or("", |(token, _)| token);
    let wrong = ids.iter().enumerate().find(|(at, id)| **id != format!("{token}-{}", at + 1));
    wrong.map_or(Ok(()), |(at, id)| Err(format!("frame {} has the id {id:?}, of {ids:?}", at + 1)))
}
