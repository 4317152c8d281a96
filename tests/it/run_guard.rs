//! The run guard, one row per rule: events between RUN_STARTED and RUN_FINISHED, the output, and the counters.
//!
//! The rules are those of `specs/ag-ui-1.0.md` §3.2 (which the real client enforces; see
//! `tests/interop/guard.test.mjs`) and §3.3 (which it does not enforce yet). An event is written here as its members
//! without the braces.

mod before_1_0;

use super::exact_json::{canonical, members};
use diglot::codec::sse::SseLimits;
use diglot::dialect::{AG_UI, Dialect, HAI, PeerDialect};
use diglot::translate::{EventLoss, EventRepair, GuardMode, RunIds, Stream, request};

const START: &str = r#""type":"RUN_STARTED","threadId":"t","runId":"r""#;
const FINISH: &str = r#""type":"RUN_FINISHED","threadId":"t","runId":"r""#;

/// The output without frames, the counters, and the reason if the run ends.
struct GuardOutput {
    events: Vec<String>,
    counts: Vec<String>,
    fault: Option<String>,
}

fn sse_text(events: &[&str]) -> String {
    events.iter().map(|event| format!("data: {{{event}}}\n\n")).collect()
}

fn run_guard(mut stream: Stream, events: &[&str]) -> GuardOutput {
    let mut out = Vec::new();
    let fault = stream.push(sse_text(events).as_bytes(), 0, &mut out).and_then(|()| stream.finish(0, &mut out)).err();
    let fault = fault.map(|fault| fault.to_string());
    if let Some(fault) = &fault {
        stream.fail("gateway", fault, 0, &mut out);
    }
    let report = stream.report();
    let repairs = EventRepair::ALL.iter().map(|one| (one.label(), report.repairs[*one as usize]));
    let counts = repairs.chain(EventLoss::ALL.iter().map(|one| (one.label(), report.losses[*one as usize])));
    let text = String::from_utf8(out).expect("UTF-8");
    let frames = text.split("\n\n").filter(|frame| !frame.is_empty());
    GuardOutput {
        events: frames.map(|frame| canonical(frame.trim_start_matches("data: "))).collect(),
        counts: counts.filter(|(_, count)| *count > 0).map(|(label, count)| format!("{label} {count}")).collect(),
        fault,
    }
}

fn guarded_stream(client: &'static Dialect, mode: GuardMode) -> Stream {
    let ids = Some(RunIds::new("t", "r"));
    Stream::new(PeerDialect::new(&AG_UI), PeerDialect::new(client), ids, SseLimits::default()).with_guard_mode(mode)
}

fn expected(events: &[&str]) -> Vec<String> {
    events.iter().map(|event| canonical(&format!("{{{event}}}"))).collect()
}

/// A run between its start and its end, and what the run guard makes of it.
struct RuleCase {
    case: &'static str,
    /// the events that the agent sends
    agent: &'static [&'static str],
    /// the events that the client receives with `guard: repair`
    client: &'static [&'static str],
    /// the counted repairs and losses
    counts: &'static str,
    /// the message with `guard: strict`; `None` if no rule is broken
    violation: Option<&'static str>,
}

#[rustfmt::skip]
const RULE_CASES: &[RuleCase] = &[
    RuleCase {
        case: "content of a message without a start",
        agent: &[r#""type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x""#, r#""type":"TEXT_MESSAGE_END","messageId":"m""#],
        client: &[r#""type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant""#,
          r#""type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x""#, r#""type":"TEXT_MESSAGE_END","messageId":"m""#],
        counts: "opener_supplied 1",
        violation: Some("TEXT_MESSAGE_CONTENT breaks the rule that a message, tool call or step is started before it is continued or ended (opener_supplied)."),
    },
    RuleCase {
        case: "the end of a call that is not open",
        agent: &[r#""type":"TOOL_CALL_END","toolCallId":"c""#],
        client: &[],
        counts: "stray_boundary 1",
        violation: Some("TOOL_CALL_END breaks the rule that an item is started only while closed, and ended only while open (stray_boundary)."),
    },
    RuleCase {
        case: "a span of reasoning that starts twice",
        agent: &[r#""type":"REASONING_START","messageId":"m""#, r#""type":"REASONING_START","messageId":"m""#, r#""type":"REASONING_END","messageId":"m""#],
        client: &[r#""type":"REASONING_START","messageId":"m""#, r#""type":"REASONING_END","messageId":"m""#],
        counts: "stray_boundary 1",
        violation: Some("REASONING_START breaks the rule that an item is started only while closed, and ended only while open (stray_boundary)."),
    },
    RuleCase {
        case: "a step that is open at the end",
        agent: &[r#""type":"STEP_STARTED","stepName":"s""#],
        client: &[r#""type":"STEP_STARTED","stepName":"s""#, r#""type":"STEP_FINISHED","stepName":"s""#],
        counts: "closer_supplied 1",
        violation: Some("RUN_FINISHED breaks the rule that every item is ended before the run finishes (closer_supplied)."),
    },
    RuleCase {
        case: "a second start",
        agent: &[START],
        client: &[],
        counts: "second_start 1",
        violation: Some("RUN_STARTED breaks the rule that a run is started only once (second_start)."),
    },
    RuleCase {
        case: "a null for an optional member",
        agent: &[r#""type":"CUSTOM","name":"x","value":1,"timestamp":null"#],
        client: &[r#""type":"CUSTOM","name":"x","value":1"#],
        counts: "null_dropped 1",
        violation: Some("CUSTOM breaks the rule that an optional member is absent rather than null (null_dropped)."),
    },
    RuleCase {
        case: "`from` of an operation that ignores it (RFC 6902 §4), and integers in other notations",
        agent: &[r#""type":"STATE_DELTA","delta":[{"op":"replace","path":"","value":1,"from":"x"}],"timestamp":1700000000000.0"#,
          r#""type":"STATE_DELTA","delta":[{"op":"remove","path":"","from":7}],"timestamp":1.7e12"#],
        client: &[r#""type":"STATE_DELTA","delta":[{"op":"replace","path":"","value":1,"from":"x"}],"timestamp":1700000000000.0"#,
          r#""type":"STATE_DELTA","delta":[{"op":"remove","path":"","from":7}],"timestamp":1.7e12"#],
        counts: "",
        violation: None,
    },
    RuleCase {
        case: "a missing required member",
        agent: &[r#""type":"STATE_SNAPSHOT""#],
        client: &[r#""type":"STATE_SNAPSHOT","snapshot":null"#],
        counts: "member_supplied 1",
        violation: Some("STATE_SNAPSHOT breaks the rule that a required member is present (member_supplied)."),
    },
    RuleCase {
        case: "a value of another type",
        agent: &[r#""type":"STEP_STARTED","stepName":1.0"#, r#""type":"STEP_FINISHED","stepName":"1.0""#],
        client: &[r#""type":"STEP_STARTED","stepName":"1.0""#, r#""type":"STEP_FINISHED","stepName":"1.0""#],
        counts: "type_converted 1",
        violation: Some("STEP_STARTED breaks the rule that a member has the type that the specification gives it (type_converted)."),
    },
    RuleCase {
        case: "a value outside the specified list",
        agent: &[r#""type":"TEXT_MESSAGE_CHUNK","messageId":"m","role":"king","delta":"x""#],
        client: &[r#""type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"x","metadata":{"diglot":{"role":"king"}}"#],
        counts: "value_carried 1",
        violation: Some("TEXT_MESSAGE_CHUNK breaks the rule that a member has one of its specified values (value_carried)."),
    },
    RuleCase {
        case: "a pointer without a slash",
        agent: &[r#""type":"STATE_DELTA","delta":[{"op":"remove","path":"a"}]"#],
        client: &[r#""type":"STATE_DELTA","delta":[{"op":"remove","path":"/a"}]"#],
        counts: "patch_mended 1",
        violation: Some("STATE_DELTA breaks the rule that a JSON Patch is valid under RFC 6902 (patch_mended)."),
    },
    RuleCase {
        case: "an event without a member that has no obvious value",
        agent: &[r#""type":"CUSTOM","value":1"#],
        client: &[r#""type":"RAW","event":{"type":"CUSTOM","value":1},"source":"diglot.invalid""#],
        counts: "malformed_frame 1, event_not_shown 1",
        violation: Some("CUSTOM breaks the rule that each frame is a JSON object with a type and its required members (malformed_frame)."),
    },
    RuleCase {
        case: "an event without a type",
        agent: &[r#""name":"x""#],
        client: &[r#""type":"RAW","event":{"name":"x"},"source":"diglot.malformed""#],
        counts: "malformed_frame 1, event_not_shown 1",
        violation: Some("A frame without a type breaks the rule that each frame is a JSON object with a type and its required members (malformed_frame)."),
    },
    RuleCase {
        case: "snake_case, which breaks no rule",
        agent: &[r#""type":"STEP_STARTED","step_name":"s""#, r#""type":"STEP_FINISHED","stepName":"s""#],
        client: &[r#""type":"STEP_STARTED","stepName":"s""#, r#""type":"STEP_FINISHED","stepName":"s""#],
        counts: "respelt 1",
        violation: None,
    },
    RuleCase {
        case: "an unknown type, which a client drops",
        agent: &[r#""type":"NEW_THING","a":1"#],
        client: &[r#""type":"CUSTOM","name":"ag-ui.NEW_THING","value":{"type":"NEW_THING","a":1}"#],
        counts: "unknown_type 1, event_not_shown 1",
        violation: None,
    },
    RuleCase {
        case: "content of a message that a chunk of a subagent has opened",
        agent: &[r#""type":"TEXT_MESSAGE_CHUNK","messageId":"c","subagentRunId":"s2","delta":"a""#, r#""type":"TEXT_MESSAGE_CONTENT","messageId":"c","delta":"b""#],
        client: &[r#""type":"TEXT_MESSAGE_CHUNK","messageId":"c","subagentRunId":"s2","delta":"a""#, r#""type":"TEXT_MESSAGE_CHUNK","messageId":"c","delta":"b""#],
        counts: "type_converted 1",
        violation: Some("TEXT_MESSAGE_CONTENT breaks the rule that a member has the type that the specification gives it (type_converted)."),
    },
    RuleCase {
        case: "a chunk without an id, of a call that was chunked and started",
        agent: &[r#""type":"TOOL_CALL_CHUNK","toolCallId":"a","toolCallName":"f""#, r#""type":"TOOL_CALL_START","toolCallId":"a","toolCallName":"f""#,
          r#""type":"TOOL_CALL_CHUNK","delta":"{}""#, r#""type":"TOOL_CALL_END","toolCallId":"a""#],
        client: &[r#""type":"TOOL_CALL_CHUNK","toolCallId":"a","toolCallName":"f""#, r#""type":"TOOL_CALL_START","toolCallId":"a","toolCallName":"f""#,
          r#""type":"TOOL_CALL_ARGS","toolCallId":"a","delta":"{}""#, r#""type":"TOOL_CALL_END","toolCallId":"a""#],
        counts: "member_supplied 1, type_converted 1",
        violation: Some("TOOL_CALL_CHUNK breaks the rule that a required member is present (member_supplied)."),
    },
    RuleCase {
        case: "parts where a string is required",
        agent: &[r#""type":"MESSAGES_SNAPSHOT","messages":[{"id":"1","role":"assistant","content":[{"type":"text","text":"hi"}]}]"#],
        client: &[r#""type":"MESSAGES_SNAPSHOT","messages":[{"id":"1","role":"assistant","content":"hi","metadata":{"diglot":{"content":[{"type":"text","text":"hi"}]}}}]"#],
        counts: "type_converted 1, value_carried 1",
        violation: Some("MESSAGES_SNAPSHOT breaks the rule that a member has the type that the specification gives it (type_converted)."),
    },
    RuleCase {
        case: "a list of values that are not parts",
        agent: &[r#""type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"f""#,
          r#""type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":["x",{"type":"text","text":"y"}]"#],
        client: &[r#""type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"f""#,
          r#""type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":[{"type":"text","text":"x"},{"type":"text","text":"y"}],"metadata":{"diglot":{"content":["x",{"type":"text","text":"y"}]}}"#],
        counts: "type_converted 1, value_carried 1",
        violation: Some("TOOL_CALL_RESULT breaks the rule that a member has the type that the specification gives it (type_converted)."),
    },
    RuleCase {
        case: "a result of an unknown call, which may be from an earlier run",
        agent: &[r#""type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":"x""#],
        client: &[r#""type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":"x""#],
        counts: "result_unknown 1",
        violation: None,
    },
];

#[test]
fn repairs_refuses_or_counts_each_broken_rule() {
    for RuleCase { case, agent, client, counts, violation } in RULE_CASES {
        let [all, repaired] = [agent, client].map(|events| [&[START], *events, &[FINISH]].concat());
        let checked = run_guard(guarded_stream(&AG_UI, GuardMode::Repair), &all);
        assert_eq!((checked.events, checked.counts.join(", ")), (expected(&repaired), (*counts).to_owned()), "{case}");
        assert_eq!(checked.fault, None, "{case}");

        let checked = run_guard(guarded_stream(&AG_UI, GuardMode::Strict), &all);
        assert_eq!(checked.fault.as_deref(), *violation, "{case}");
        let last = checked.events.last().expect("an event");
        let text = violation.map_or(canonical(&format!("{{{FINISH}}}")), |violation| {
            canonical(&format!(r#"{{"type":"RUN_ERROR","message":"{violation}","code":"gateway"}}"#))
        });
        assert_eq!(*last, text, "{case}");
        let terminals =
            checked.events.iter().filter(|event| event.contains("RUN_FINISHED") || event.contains("RUN_ERROR"));
        assert_eq!(terminals.count(), 1, "{case}");

        let checked = run_guard(guarded_stream(&AG_UI, GuardMode::Report), &all);
        assert_eq!(checked.counts.join(", "), *counts, "{case}");
        // Malformed frames, unknown types and other spellings are already converted by the reader.
        if !counts.ends_with("event_not_shown 1") && *counts != "respelt 1" {
            assert_eq!(checked.events, expected(&all), "{case}");
        }
        assert_eq!(checked.fault, None, "{case}");
    }
}

#[test]
fn covers_every_repair_and_loss_that_breaks_a_rule() {
    let elsewhere = ["run_started_supplied", "ids_disagree", "interrupt_repeated", "pending_unknown", "after_terminal"];
    let rules = EventRepair::ALL.iter().map(|one| (one.label(), one.rule()));
    for (label, rule) in rules.chain(EventLoss::ALL.iter().map(|one| (one.label(), one.rule()))) {
        let row = RULE_CASES.iter().find(|row| row.counts.starts_with(label) && row.violation.is_some());
        assert!(rule.is_none() || row.is_some() || elsewhere.contains(&label), "{label}");
        assert!(rule.is_none_or(|rule| !rule.ends_with('.')), "{label}: the sentence goes on");
    }
}

#[test]
fn requires_a_start_first_and_a_terminal_event_last() {
    let checked = run_guard(guarded_stream(&AG_UI, GuardMode::Strict), &[FINISH]);
    let rule = "RUN_FINISHED breaks the rule that the first event is the start of the run, or an error (run_started_supplied).";
    assert_eq!(checked.fault.as_deref(), Some(rule));
    assert_eq!(checked.events.len(), 1);
    // Events after the end do not change the end.
    let mut strict = guarded_stream(&AG_UI, GuardMode::Strict);
    let mut out = Vec::new();
    assert_eq!(strict.push(sse_text(&[START, FINISH, FINISH]).as_bytes(), 0, &mut out), Ok(()));
    let broken = strict.report().broken_rule.expect("something followed");
    assert_eq!(broken.rule, "nothing follows the end of a run");
    let checked = run_guard(guarded_stream(&AG_UI, GuardMode::Report), &[START]);
    assert_eq!(checked.fault.as_deref(), Some("the stream ended without a terminal event"));
    assert!(checked.events[1].contains("RUN_ERROR"), "{:?}", checked.events);
}

#[test]
fn requires_the_same_ids_at_start_and_end() {
    let named = |kind: &str, run: &str| format!(r#""type":"{kind}","threadId":"t","runId":"{run}""#);
    for (start, end, count, refused) in [
        ("r", "r", "", false),
        ("x", "x", "ids_replaced 2", false),
        ("x", "r", "ids_replaced 1, ids_disagree 1", true),
        ("r", "x", "ids_disagree 1", true),
    ] {
        let events = [named("RUN_STARTED", start), named("RUN_FINISHED", end)];
        let events = [events[0].as_str(), events[1].as_str()];
        let checked = run_guard(guarded_stream(&AG_UI, GuardMode::Repair), &events);
        assert_eq!(checked.counts.join(", "), count, "{start} {end}");
        assert!(checked.events[1].contains(r#""runId":"r""#), "{:?}", checked.events);
        assert_eq!(
            run_guard(guarded_stream(&AG_UI, GuardMode::Strict), &events).fault.is_some(),
            refused,
            "{start} {end}"
        );
    }
}

#[test]
fn removes_repeated_interrupts_and_calls_that_are_not_pending() {
    let call = |id: &str| format!(r#""type":"TOOL_CALL_CHUNK","toolCallId":"{id}","toolCallName":"f""#);
    let answer = r#""type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"done","content":"x""#;
    let finish = |rest: &str| format!("{FINISH},{rest}");
    let rows = [
        (
            r#""outcome":{"type":"success","pendingToolCallIds":["open","done","none"]}"#,
            r#""outcome":{"type":"success","pendingToolCallIds":["open"]},"metadata":{"diglot":{"pendingToolCallIds":["done","none"]}}"#,
            "pending_unknown 1",
        ),
        (
            r#""outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"a"},{"id":"j","reason":"b"},{"id":"\u0069","reason":"c"}]}"#,
            r#""outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"a"},{"id":"j","reason":"b"}]},"metadata":{"diglot":{"interrupts":[{"id":"i","reason":"c"}]}}"#,
            "interrupt_repeated 1, interrupt_not_shown 1",
        ),
        (
            r#""outcome":{"type":"success","pendingToolCallIds":["open"]}"#,
            r#""outcome":{"type":"success","pendingToolCallIds":["open"]}"#,
            "",
        ),
    ];
    for (sent, repaired, count) in rows {
        let (open, done, sent, repaired) = (call("open"), call("done"), finish(sent), finish(repaired));
        let events = [START, &open, &done, answer, &sent];
        let checked = run_guard(guarded_stream(&AG_UI, GuardMode::Repair), &events);
        assert_eq!(checked.events.last(), expected(&[&repaired]).last(), "{sent}");
        assert_eq!(checked.counts.join(", "), count);
        assert_eq!(
            run_guard(guarded_stream(&AG_UI, GuardMode::Strict), &events).fault.is_some(),
            !count.is_empty(),
            "{sent}"
        );
    }
}

/// Messages of several kinds under one id.
#[rustfmt::skip]
const COLLISIONS: &[(&str, &[&str], &[&str])] = &[
    ("a span and its message share an id",
        &[r#""type":"REASONING_START","messageId":"m""#, r#""type":"REASONING_MESSAGE_START","messageId":"m","role":"reasoning""#,
          r#""type":"REASONING_MESSAGE_END","messageId":"m""#, r#""type":"REASONING_END","messageId":"m""#],
        &[r#""type":"REASONING_START","messageId":"m""#, r#""type":"REASONING_MESSAGE_START","messageId":"m","role":"reasoning""#,
          r#""type":"REASONING_MESSAGE_END","messageId":"m""#, r#""type":"REASONING_END","messageId":"m""#]),
    ("reasoning, then text",
        &[r#""type":"REASONING_MESSAGE_CHUNK","messageId":"m","delta":"a""#, r#""type":"TEXT_MESSAGE_START","messageId":"m""#,
          r#""type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"b""#, r#""type":"TEXT_MESSAGE_END","messageId":"m""#],
        &[r#""type":"REASONING_MESSAGE_CHUNK","messageId":"m","delta":"a""#, r#""type":"TEXT_MESSAGE_START","messageId":"m:text","metadata":{"diglot":{"id":"m"}}"#,
          r#""type":"TEXT_MESSAGE_CONTENT","messageId":"m:text","delta":"b","metadata":{"diglot":{"id":"m"}}"#,
          r#""type":"TEXT_MESSAGE_END","messageId":"m:text","metadata":{"diglot":{"id":"m"}}"#]),
    ("text, activity, result, and an encrypted value of reasoning",
        &[r#""type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"a""#,
          r#""type":"ACTIVITY_SNAPSHOT","messageId":"m","activityType":"x","content":{}"#,
          r#""type":"ACTIVITY_DELTA","messageId":"m","activityType":"x","patch":[]"#,
          r#""type":"REASONING_MESSAGE_CHUNK","messageId":"m","delta":"c""#,
          r#""type":"REASONING_ENCRYPTED_VALUE","subtype":"message","entityId":"m","encryptedValue":"v""#,
          r#""type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"d""#],
        &[r#""type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"a""#,
          r#""type":"ACTIVITY_SNAPSHOT","messageId":"m:activity","activityType":"x","content":{},"metadata":{"diglot":{"id":"m"}}"#,
          r#""type":"ACTIVITY_DELTA","messageId":"m:activity","activityType":"x","patch":[],"metadata":{"diglot":{"id":"m"}}"#,
          r#""type":"REASONING_MESSAGE_CHUNK","messageId":"m:reasoning","delta":"c","metadata":{"diglot":{"id":"m"}}"#,
          r#""type":"REASONING_ENCRYPTED_VALUE","subtype":"message","entityId":"m:reasoning","encryptedValue":"v","metadata":{"diglot":{"entityId":"m"}}"#,
          r#""type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"d""#]),
    ("a call in a message with the id of a reasoning message",
        &[r#""type":"REASONING_MESSAGE_CHUNK","messageId":"m","delta":"a""#,
          r#""type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":"m""#, r#""type":"TOOL_CALL_END","toolCallId":"c""#,
          r#""type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"b""#],
        &[r#""type":"REASONING_MESSAGE_CHUNK","messageId":"m","delta":"a""#,
          r#""type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":"m:text","metadata":{"diglot":{"parentMessageId":"m"}}"#,
          r#""type":"TOOL_CALL_END","toolCallId":"c""#,
          r#""type":"TEXT_MESSAGE_CHUNK","messageId":"m:text","delta":"b","metadata":{"diglot":{"id":"m"}}"#]),
    ("a result with the id of its call, which has no parent: the client's message of the call has that id",
        &[r#""type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f""#, r#""type":"TOOL_CALL_END","toolCallId":"c""#,
          r#""type":"TOOL_CALL_RESULT","messageId":"c","toolCallId":"c","content":"x""#],
        &[r#""type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f""#, r#""type":"TOOL_CALL_END","toolCallId":"c""#,
          r#""type":"TOOL_CALL_RESULT","messageId":"c:tool","toolCallId":"c","content":"x","metadata":{"diglot":{"id":"c"}}"#]),
    ("a call without a parent and with the id of an activity",
        &[r#""type":"ACTIVITY_SNAPSHOT","messageId":"c","activityType":"x","content":{}"#,
          r#""type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f""#, r#""type":"TOOL_CALL_END","toolCallId":"c""#],
        &[r#""type":"ACTIVITY_SNAPSHOT","messageId":"c","activityType":"x","content":{}"#,
          r#""type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":"c:text","metadata":{"diglot":{"parentMessageId":"c"}}"#,
          r#""type":"TOOL_CALL_END","toolCallId":"c""#]),
    ("content without a start under a used id, and a derived id that is also used",
        &[r#""type":"ACTIVITY_SNAPSHOT","messageId":"m","activityType":"x","content":{}"#,
          r#""type":"TEXT_MESSAGE_CHUNK","messageId":"m:text","delta":"a""#,
          r#""type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"b""#, r#""type":"TEXT_MESSAGE_END","messageId":"m""#],
        &[r#""type":"ACTIVITY_SNAPSHOT","messageId":"m","activityType":"x","content":{}"#,
          r#""type":"TEXT_MESSAGE_CHUNK","messageId":"m:text","delta":"a""#,
          r#""type":"TEXT_MESSAGE_START","messageId":"m:text:2","role":"assistant""#,
          r#""type":"TEXT_MESSAGE_CONTENT","messageId":"m:text:2","delta":"b","metadata":{"diglot":{"id":"m"}}"#,
          r#""type":"TEXT_MESSAGE_END","messageId":"m:text:2","metadata":{"diglot":{"id":"m"}}"#]),
    ("a snapshot with the ids of the stream, and with one of its own twice",
        &[r#""type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"a""#, r#""type":"REASONING_MESSAGE_CHUNK","messageId":"m","delta":"b""#,
          r#""type":"MESSAGES_SNAPSHOT","messages":[{"id":"m","role":"reasoning","content":"b"},{"id":"m","role":"assistant","content":"a"},{"id":"n","role":"user","content":"c"},{"id":"n","role":"tool","toolCallId":"t","content":"d","metadata":{"x":1}}]"#],
        &[r#""type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"a""#,
          r#""type":"REASONING_MESSAGE_CHUNK","messageId":"m:reasoning","delta":"b","metadata":{"diglot":{"id":"m"}}"#,
          r#""type":"MESSAGES_SNAPSHOT","messages":[{"id":"m:reasoning","role":"reasoning","content":"b","metadata":{"diglot":{"id":"m"}}},{"id":"m","role":"assistant","content":"a"},{"id":"n","role":"user","content":"c"},{"id":"n:tool","role":"tool","toolCallId":"t","content":"d","metadata":{"x":1,"diglot":{"id":"n"}}}]"#]),
];

/// The client appends messages of the echoed request that it does not have.
#[test]
fn renames_ids_in_the_echoed_request() {
    let message = |id: &str, role: &str, more: &str| format!(r#"{{"id":"{id}","role":"{role}","content":"x"{more}}}"#);
    let input = |messages: [String; 2]| {
        format!(r#"{START},"input":{{"threadId":"t","runId":"r","messages":[{}]}}"#, messages.join(","))
    };
    let note = r#","metadata":{"diglot":{"id":"m"}}"#;
    let sent = input([message("m", "user", ""), message("m", "reasoning", "")]);
    let named = input([message("m", "user", ""), message("m:reasoning", "reasoning", note)]);
    let checked = run_guard(guarded_stream(&AG_UI, GuardMode::Repair), &[&sent, FINISH]);
    assert_eq!(checked.events, expected(&[&named, FINISH]));
}

/// Client 0.0.59 and later read the owner of every event, and end the run for one that is no text.
#[test]
fn drops_a_null_owner_of_an_event_that_has_none() {
    let finish = FINISH.to_owned() + r#","subagentRunId":null"#;
    let checked = run_guard(guarded_stream(&AG_UI, GuardMode::Repair), &[START, &finish]);
    assert_eq!((checked.events, checked.counts.join(", ")), (expected(&[START, FINISH]), "null_dropped 1".to_owned()));
}

#[test]
fn separates_messages_of_several_kinds_under_one_id() {
    for (case, sent, named) in COLLISIONS {
        let [all, named] = [sent, named].map(|events| [&[START], *events, &[FINISH]].concat());
        let checked = run_guard(guarded_stream(&AG_UI, GuardMode::Repair), &all);
        assert_eq!(checked.events, expected(&named), "{case}");
        assert_eq!(checked.fault, None, "{case}");
        let strict = run_guard(guarded_stream(&AG_UI, GuardMode::Strict), &all);
        let rule = checked.counts.iter().any(|count| count.starts_with("opener"));
        assert_eq!(strict.fault.is_some(), rule, "{case}: an id is no violation");
        assert_eq!(run_guard(guarded_stream(&AG_UI, GuardMode::Report), &all).events, expected(&all), "{case}");
    }
}

/// The client sends back its messages, and the agent receives its own originals.
#[test]
fn restores_the_agents_ids_in_the_next_request() {
    let sent = concat!(
        r#"{"id":"m","role":"user","content":"a"},"#,
        r#"{"id":"m:reasoning","role":"reasoning","content":"b","metadata":{"diglot":{"id":"m"}}},"#,
        r#"{"id":"m:text","role":"assistant","content":"c","metadata":{"diglot":{"id":"m","a":1},"x":2}},"#,
        r#"{"id":"c:text","role":"assistant","toolCalls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"},"metadata":{"diglot":{"parentMessageId":"c"}}}]},"#,
        r#"{"id":"c:tool:tool","role":"tool","toolCallId":"c","content":"d","metadata":{"diglot":{"id":"c"}}},"#,
        r#"{"id":"n:tool","role":"user","content":"e","metadata":{"diglot":{"id":"n"}}},"#,
        r#"{"id":"n","role":"user","content":"f","metadata":{"diglot":{"id":5}}},"#,
        r#"{"id":"n:text","role":"user","content":"g","metadata":{"diglot":"n"}}"#,
    );
    let expected = concat!(
        r#"{"id":"m","role":"user","content":"a"},"#,
        r#"{"id":"m","role":"reasoning","content":"b"},"#,
        r#"{"id":"m","role":"assistant","content":"c","metadata":{"diglot":{"a":1},"x":2}},"#,
        r#"{"id":"c","role":"assistant","toolCalls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},"#,
        r#"{"id":"c","role":"tool","toolCallId":"c","content":"d"},"#,
        r#"{"id":"n:tool","role":"user","content":"e","metadata":{"diglot":{"id":"n"}}},"#,
        r#"{"id":"n","role":"user","content":"f","metadata":{"diglot":{"id":5}}},"#,
        r#"{"id":"n:text","role":"user","content":"g","metadata":{"diglot":"n"}}"#,
    );
    let body = |messages| format!(r#"{{"threadId":"t","runId":"r","messages":[{messages}]}}"#);
    let side = PeerDialect::new(&AG_UI);
    let translated =
        request::translate_request(body(sent).as_bytes(), side, side, &RunIds::new("t", "r")).expect("a request");
    let messages = members(&translated.body).remove("messages").expect("messages");
    assert_eq!(messages, canonical(&format!("[{expected}]")));

    // The contents of the conversation are known in its next run.
    let events = [
        START,
        r#""type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"x""#,
        r#""type":"REASONING_MESSAGE_CHUNK","messageId":"m","delta":"y""#,
        r#""type":"TOOL_CALL_RESULT","messageId":"z","toolCallId":"c","content":"again""#,
        FINISH,
    ];
    let checked =
        run_guard(guarded_stream(&AG_UI, GuardMode::Repair).with_conversation(translated.conversation), &events);
    assert!(checked.events[1].contains(r#""messageId":"m""#), "{:?}", checked.events);
    assert!(checked.events[2].contains(r#""messageId":"m:reasoning""#), "{:?}", checked.events);
    assert_eq!(checked.counts, ["id_namespaced 1"]);
}

/// The code in seed 000 §4.2 sends `msgId-001` in each run. A client keeps one message per id, so the second answer would be
/// added to the first one.
#[test]
fn starts_new_messages_for_the_ids_of_earlier_runs() {
    let mut history = r#"{"id":"q1","role":"user","content":"a"}"#.to_owned();
    for (run, id, text) in [(1, "m", "一"), (2, "m:text", "二"), (3, "m:text:2", "三")] {
        let body = format!(r#"{{"threadId":"t","runId":"r{run}","messages":[{history}]}}"#);
        let (client, agent) = (PeerDialect::new(&AG_UI), PeerDialect::new(&HAI));
        let translated =
            request::translate_request(body.as_bytes(), client, agent, &RunIds::new("t", "r")).expect("a request");
        let sent = members(&translated.body).remove("messages").expect("messages");
        assert!(!sent.contains("m:text"), "the agent gets its own ids: {sent}");
        let stream = Stream::new(agent, client, None, SseLimits::default()).with_conversation(translated.conversation);
        let content = format!(r#""type":"BUSINESS_DATA_CONTENT","messageId":"m","delta":"{text}""#);
        let events = [
            r#""type":"RUN_STARTED","threadId":"t","runId":"r","messageId":"r","role":"assistant""#,
            r#""type":"BUSINESS_DATA_START","messageId":"m","role":"assistant""#,
            &content,
            r#""type":"BUSINESS_DATA_END","messageId":"m","role":"assistant""#,
            r#""type":"RUN_FINISHED","threadId":"t","runId":"r","messageId":"r","role":"assistant""#,
        ];
        let checked = run_guard(stream, &events);
        let wanted = format!(r#""messageId":"{id}""#);
        assert!(checked.events[1..4].iter().all(|event| event.contains(&wanted)), "{run}: {:?}", checked.events);
        let note = if id == "m" { String::new() } else { r#","metadata":{"diglot":{"id":"m"}}"#.to_owned() };
        history += &format!(
            r#",{{"id":"{id}","role":"assistant","content":"{text}"{note}}},{{"id":"q{}","role":"user","content":"b"}}"#,
            run + 1
        );
    }
}

/// A dialect whose kinds have separate ids gets the agent's original ids back, also through two gateways.
#[test]
fn keeps_the_agents_ids_for_hai_clients() {
    let (_, sent, named) = COLLISIONS[1];
    let [sent, named] = [sent, named]
        .map(|events| run_guard(guarded_stream(&HAI, GuardMode::Repair), &[&[START], events, &[FINISH]].concat()));
    assert_eq!(sent.events, named.events);
    assert!(sent.events.iter().all(|event| !event.contains("m:text")), "{:?}", sent.events);
}
