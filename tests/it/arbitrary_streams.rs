//! The run guard makes any agent stream acceptable: random streams, judged by the verifier.
//!
//! The verifier shares no state machine with the guard. A failure prints the seed of its stream, which reproduces it.

use super::laws::dice::Dice;
use diglot::codec::sse::SseLimits;
use diglot::dialect::{AG_UI, PeerDialect};
use diglot::event::{EventType, Field};
use diglot::translate::Stream;
use diglot::translate::verify::{RuleSeverity, Verifier};

const STREAMS: u64 = 300;

/// Few ids, so that they meet.
fn id(dice: &mut Dice) -> String {
    format!("\"{}\"", dice.pick(&["a", "b", "c"]))
}

fn part(dice: &mut Dice) -> String {
    match dice.below(6) {
        0 => dice.value(2),
        1 => format!(r#"{{"type":"text","text":{}}}"#, dice.value(1)),
        2 => format!(r#"{{"type":"image","source":{{"type":"url","value":{}}}}}"#, dice.value(1)),
        3 => format!(r#"{{"type":"binary","mimeType":"a/b","data":{}}}"#, dice.value(1)),
        4 => r#"{"type":"text"}"#.to_owned(),
        _ => format!(r#"{{"type":"text","text":{}}}"#, dice.string()),
    }
}

fn content(dice: &mut Dice) -> String {
    match dice.below(3) {
        0 => dice.value(2),
        1 => dice.string(),
        _ => {
            let parts: Vec<_> = (0..dice.below(4)).map(|_| part(dice)).collect();
            format!("[{}]", parts.join(","))
        }
    }
}

fn call(dice: &mut Dice) -> String {
    match dice.below(4) {
        0 => dice.value(2),
        1 => format!(r#"{{"id":{},"type":"function","function":{}}}"#, id(dice), dice.value(2)),
        2 => format!(r#"{{"id":{},"function":{{"name":{},"arguments":{}}}}}"#, id(dice), dice.value(1), dice.value(1)),
        _ => format!(r#"{{"id":{},"type":{},"function":{{"name":"f","arguments":"{{}}"}}}}"#, id(dice), dice.value(0)),
    }
}

fn message(dice: &mut Dice) -> String {
    if dice.one_in(12) {
        return dice.value(2);
    }
    let role = dice.pick(&["user", "assistant", "system", "tool", "activity", "reasoning", "king"]);
    let mut members = vec![format!(r#""role":"{role}""#)];
    for name in
        ["id", "content", "name", "toolCallId", "activityType", "error", "subagentRunId", "metadata", "toolCalls"]
    {
        let value = match (dice.below(4), name) {
            (0, _) => continue,
            (1, _) => dice.value(2),
            (_, "content") => content(dice),
            (_, "metadata") => dice.object(1),
            (_, "toolCalls") => {
                let calls: Vec<_> = (0..dice.below(3)).map(|_| call(dice)).collect();
                format!("[{}]", calls.join(","))
            }
            _ => id(dice),
        };
        members.push(format!("\"{name}\":{value}"));
    }
    format!("{{{}}}", members.join(","))
}

fn messages(dice: &mut Dice) -> String {
    let all: Vec<_> = (0..dice.below(4)).map(|_| message(dice)).collect();
    format!("[{}]", all.join(","))
}

fn member(kind: EventType, field: Field, dice: &mut Dice) -> String {
    match field {
        _ if dice.one_in(12) => dice.value(2),
        Field::Messages => messages(dice),
        Field::Input => format!(r#"{{"threadId":"t","runId":"r","messages":{}}}"#, messages(dice)),
        Field::Content if kind == EventType::ToolCallResult => content(dice),
        Field::Content | Field::Metadata => dice.object(1),
        Field::Patch => dice.patch(),
        Field::Delta if kind == EventType::StateDelta => dice.patch(),
        Field::Delta => dice.string(),
        Field::Role => format!("\"{}\"", dice.pick(&["assistant", "user", "reasoning", "tool", "king"])),
        Field::Subtype => format!("\"{}\"", dice.pick(&["message", "tool-call", "x"])),
        Field::Outcome => match dice.below(3) {
            0 => format!(r#"{{"type":"interrupt","interrupts":[{{"id":"i","reason":{}}}]}}"#, dice.value(1)),
            1 => format!(r#"{{"type":"suspended","interruptIds":{}}}"#, dice.value(2)),
            _ => r#"{"type":"success","pendingToolCallIds":["a"]}"#.to_owned(),
        },
        Field::Usage => format!(r#"[{{"model":{},"inputTokens":{}}}]"#, dice.value(1), dice.number()),
        Field::Timestamp => dice.time(),
        Field::Replace => dice.pick(&["true", "false"]).to_owned(),
        _ => id(dice),
    }
}

fn event(kind: EventType, dice: &mut Dice) -> String {
    let mut members = vec![format!(r#""type":"{}""#, kind.wire())];
    for slot in kind.all_slots() {
        // The common members are rare, and even what is required is missing at times.
        let absent = match (slot.required, slot.field) {
            (true, _) => dice.one_in(20),
            (false, Field::SubagentRunId | Field::MessageId | Field::ToolCallId) => dice.one_in(2),
            (false, _) => !dice.one_in(4),
        };
        if !absent {
            members.push(format!("\"{}\":{}", slot.field.camel(), member(kind, slot.field, dice)));
        }
    }
    format!("{{{}}}", members.join(","))
}

fn stream(seed: u64) -> Vec<String> {
    let mut dice = Dice::new(seed);
    let mut events = vec![event(EventType::RunStarted, &mut dice)];
    for _ in 0..3 + dice.below(25) {
        let kind = EventType::ALL[dice.below(EventType::ALL.len())];
        // The end comes last, mostly.
        if !kind.is_terminal() || dice.one_in(10) {
            events.push(event(kind, &mut dice));
        }
    }
    events.push(event(EventType::RunFinished, &mut dice));
    events
}

/// Returns the violations of the output, and the output.
fn verify_output(events: &[String]) -> (Vec<String>, String) {
    let mut stream = Stream::new(PeerDialect::new(&AG_UI), PeerDialect::new(&AG_UI), None, SseLimits::default());
    let wire: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let mut out = Vec::new();
    stream.push(wire.as_bytes(), 0, &mut out).expect("nothing is refused");
    stream.finish(0, &mut out).expect("a terminal event");
    let (mut verifier, mut findings) = (Verifier::new(PeerDialect::new(&AG_UI)), Vec::new());
    verifier.push(&out, &mut findings);
    verifier.finish(&mut findings);
    findings.retain(|finding| finding.rule.severity() == RuleSeverity::Violation);
    (findings.iter().map(|finding| format!("{finding:?}")).collect(), String::from_utf8(out).expect("UTF-8"))
}

#[test]
fn verifier_accepts_output_for_arbitrary_agent_streams() {
    let (mut wrong, mut first) = (Vec::new(), None);
    for seed in 0..STREAMS {
        let events = stream(seed);
        let (findings, left) = verify_output(&events);
        if let Some(finding) = findings.first() {
            wrong.push(format!("seed {seed}: {finding}"));
            first.get_or_insert_with(|| format!("said\n{}\nleft\n{}", events.join("\n"), left.replace("\n\n", "\n")));
        }
    }
    let (count, first) = (wrong.len(), first.unwrap_or_default());
    assert!(wrong.is_empty(), "{count} of {STREAMS} streams are refused\n{}\n{first}", wrong.join("\n"));
}
