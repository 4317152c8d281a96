//! Runs that killed real clients before 1.0 (0.0.39 to 0.0.59), found by mutating the goldens: what the agent sends, and what
//! a client of the named dialect receives between the start and the end. `tests/interop/old-clients.test.mjs` has the same
//! streams heard by the clients.

use super::super::exact_json::canonical;
use super::super::golden::side;
use super::{FINISH, START, run_guard, sse_text};
use diglot::codec::sse::SseLimits;
use diglot::translate::{GuardMode, RunIds, Stream};

struct KilledRun {
    case: &'static str,
    agent: &'static str,
    client: &'static str,
    sent: &'static [&'static str],
    received: &'static [&'static str],
}

#[rustfmt::skip]
const KILLED_RUNS: &[KilledRun] = &[
    KilledRun {
        case: "thinking that starts again before it ends, and a title that is a number",
        agent: "ag-ui-0", client: "ag-ui-0",
        sent: &[r#""type":"THINKING_START","title":7"#, r#""type":"THINKING_TEXT_MESSAGE_START""#,
          r#""type":"THINKING_TEXT_MESSAGE_CONTENT","delta":"a""#, r#""type":"THINKING_TEXT_MESSAGE_START""#,
          r#""type":"THINKING_START""#, r#""type":"THINKING_END""#],
        received: &[r#""type":"THINKING_START","title":"7""#, r#""type":"THINKING_TEXT_MESSAGE_START""#,
          r#""type":"THINKING_TEXT_MESSAGE_CONTENT","delta":"a""#,
          r#""type":"THINKING_TEXT_MESSAGE_END","metadata":{"diglot.ag-ui":{"type":""}}"#, r#""type":"THINKING_TEXT_MESSAGE_START""#,
          r#""type":"THINKING_TEXT_MESSAGE_END","metadata":{"diglot.ag-ui":{"type":""}}"#,
          r#""type":"THINKING_END","metadata":{"diglot.ag-ui":{"type":""}}"#, r#""type":"THINKING_START""#, r#""type":"THINKING_END""#,
          r#""type":"CUSTOM","name":"ag-ui.REASONING_MESSAGE_END","value":{"type":"REASONING_MESSAGE_END","messageId":"r:reasoning:2"}"#,
          r#""type":"CUSTOM","name":"ag-ui.REASONING_MESSAGE_END","value":{"type":"REASONING_MESSAGE_END","messageId":"r:reasoning:1"}"#,
          r#""type":"CUSTOM","name":"ag-ui.REASONING_END","value":{"type":"REASONING_END","messageId":"r:reasoning:1"}"#],
    },
    KilledRun {
        case: "parallel reasoning for a client with one thinking message",
        agent: "ag-ui", client: "ag-ui-0.pin=0-0-39",
        sent: &[r#""type":"REASONING_MESSAGE_START","messageId":"a","role":"reasoning""#,
          r#""type":"REASONING_MESSAGE_START","messageId":"b","role":"reasoning""#,
          r#""type":"REASONING_MESSAGE_CONTENT","messageId":"a","delta":"x""#,
          r#""type":"REASONING_MESSAGE_END","messageId":"b""#, r#""type":"REASONING_MESSAGE_END","messageId":"a""#],
        received: &[r#""type":"THINKING_START","metadata":{"diglot.ag-ui":{"type":"","messageId":"a"}}"#,
          r#""type":"THINKING_TEXT_MESSAGE_START","metadata":{"diglot.ag-ui":{"messageId":"a"}}"#,
          r#""type":"THINKING_TEXT_MESSAGE_END","metadata":{"diglot.ag-ui":{"type":"","messageId":"b"}}"#,
          r#""type":"THINKING_TEXT_MESSAGE_START","metadata":{"diglot.ag-ui":{"messageId":"b"}}"#,
          r#""type":"THINKING_TEXT_MESSAGE_END","metadata":{"diglot.ag-ui":{"type":"","messageId":"a"}}"#,
          r#""type":"THINKING_TEXT_MESSAGE_START","metadata":{"diglot.ag-ui":{"type":"","messageId":"a"}}"#,
          r#""type":"THINKING_TEXT_MESSAGE_CONTENT","delta":"x","metadata":{"diglot.ag-ui":{"messageId":"a"}}"#,
          r#""type":"CUSTOM","name":"ag-ui.REASONING_MESSAGE_END","value":{"type":"REASONING_MESSAGE_END","messageId":"b"}"#,
          r#""type":"THINKING_TEXT_MESSAGE_END","metadata":{"diglot.ag-ui":{"messageId":"a"}}"#,
          r#""type":"THINKING_END","metadata":{"diglot.ag-ui":{"type":"","messageId":"a"}}"#],
    },
    KilledRun {
        case: "a step whose name is a number, which no version accepts",
        agent: "ag-ui-0", client: "ag-ui-0",
        sent: &[r#""type":"STEP_STARTED","stepName":1"#],
        received: &[r#""type":"STEP_STARTED","stepName":"1","metadata":{"ag-ui-0":{"$numbers":["stepName"]}}"#,
          r#""type":"STEP_FINISHED","stepName":"1","metadata":{"ag-ui-0":{"$numbers":["stepName"]}}"#],
    },
    KilledRun {
        case: "added ends and starts spell a number as the agent did",
        agent: "cloudbase", client: "cloudbase",
        sent: &[r#""type":"STEP_STARTED","stepName":1"#, r#""type":"TEXT_MESSAGE_START","messageId":2,"role":"assistant""#,
          r#""type":"TOOL_CALL_ARGS","toolCallId":3,"delta":"{}""#],
        received: &[r#""type":"STEP_STARTED","stepName":1"#, r#""type":"TEXT_MESSAGE_START","messageId":2,"role":"assistant""#,
          r#""type":"TOOL_CALL_START","toolCallId":3,"toolCallName":"unknown""#, r#""type":"TOOL_CALL_ARGS","toolCallId":3,"delta":"{}""#,
          r#""type":"STEP_FINISHED","stepName":1"#, r#""type":"TEXT_MESSAGE_END","messageId":2"#, r#""type":"TOOL_CALL_END","toolCallId":3"#],
    },
    KilledRun {
        case: "a snapshot whose messages have no role, or an unknown one",
        agent: "cloudbase", client: "ag-ui-0",
        sent: &[r#""type":"MESSAGES_SNAPSHOT","messages":[{"id":"1","content":"a"},{"id":"2","role":"king","content":"b"}]"#],
        received: &[r#""type":"MESSAGES_SNAPSHOT","messages":[{"id":"1","role":"assistant","content":"a"},{"id":"2","role":"assistant","content":"b","metadata":{"diglot":{"role":"king"}}}]"#],
    },
    KilledRun {
        case: "parts without a type",
        agent: "ag-ui", client: "ag-ui-0",
        sent: &[r#""type":"MESSAGES_SNAPSHOT","messages":[{"id":"1","role":"tool","toolCallId":"c","content":[{"text":"a"}]}]"#,
          r#""type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":[{"text":"a"},{"type":"text","text":"b"}]"#],
        received: &[r#""type":"MESSAGES_SNAPSHOT","messages":[{"id":"1","role":"tool","toolCallId":"c","content":"a","metadata":{"diglot.ag-ui":{"content":[{"text":"a"}]}}}]"#,
          r#""type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":"a\nb","metadata":{"diglot.ag-ui":{"content":[{"text":"a"},{"type":"text","text":"b"}]}}"#],
    },
    KilledRun {
        case: "a chunk without an id after an event that the client gets as CUSTOM",
        agent: "ag-ui", client: "ag-ui-0",
        sent: &[r#""type":"TEXT_MESSAGE_CHUNK","messageId":"a","role":"assistant","delta":"x""#,
          r#""type":"ACTIVITY_SNAPSHOT","messageId":"s","activityType":"p","content":{}"#,
          r#""type":"TEXT_MESSAGE_CHUNK","delta":"y""#, r#""type":"TEXT_MESSAGE_CHUNK","delta":"z""#],
        received: &[r#""type":"TEXT_MESSAGE_CHUNK","messageId":"a","role":"assistant","delta":"x""#,
          r#""type":"CUSTOM","name":"ag-ui.ACTIVITY_SNAPSHOT","value":{"type":"ACTIVITY_SNAPSHOT","messageId":"s","activityType":"p","content":{}}"#,
          r#""type":"TEXT_MESSAGE_CHUNK","delta":"y","messageId":"a:2","role":"assistant","metadata":{"diglot.ag-ui":{"type":"TEXT_MESSAGE_CHUNK","$absent":["messageId","role"],"messageId":"a"}}"#,
          r#""type":"TEXT_MESSAGE_CHUNK","delta":"z""#],
    },
    KilledRun {
        case: "a call's chunk without a name after one",
        agent: "ag-ui", client: "ag-ui-0",
        sent: &[r#""type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"f","delta":"{""#,
          r#""type":"REASONING_ENCRYPTED_VALUE","subtype":"message","entityId":"a","encryptedValue":"e""#,
          r#""type":"TOOL_CALL_CHUNK","toolCallId":"c","delta":"}""#],
        received: &[r#""type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"f","delta":"{""#,
          r#""type":"CUSTOM","name":"ag-ui.REASONING_ENCRYPTED_VALUE","value":{"type":"REASONING_ENCRYPTED_VALUE","subtype":"message","entityId":"a","encryptedValue":"e"}"#,
          r#""type":"TOOL_CALL_CHUNK","toolCallId":"c","delta":"}","toolCallName":"f","metadata":{"diglot.ag-ui":{"type":"TOOL_CALL_CHUNK","$absent":["toolCallName"]}}"#],
    },
    KilledRun {
        case: "chunks of two subagents, for a client with one lane",
        agent: "ag-ui", client: "ag-ui-0",
        sent: &[r#""type":"SUBAGENT_STARTED","subagentRunId":"s1","name":"n1""#, r#""type":"SUBAGENT_STARTED","subagentRunId":"s2","name":"n2""#,
          r#""type":"TEXT_MESSAGE_CHUNK","messageId":"a","delta":"x","subagentRunId":"s1""#,
          r#""type":"TEXT_MESSAGE_CHUNK","messageId":"b","delta":"y","subagentRunId":"s2""#,
          r#""type":"TEXT_MESSAGE_CHUNK","delta":"z","subagentRunId":"s1""#],
        received: &[r#""type":"CUSTOM","name":"ag-ui.SUBAGENT_STARTED","value":{"type":"SUBAGENT_STARTED","subagentRunId":"s1","name":"n1"}"#,
          r#""type":"CUSTOM","name":"ag-ui.SUBAGENT_STARTED","value":{"type":"SUBAGENT_STARTED","subagentRunId":"s2","name":"n2"}"#,
          r#""type":"TEXT_MESSAGE_CHUNK","messageId":"a","delta":"x","subagentRunId":"s1""#,
          r#""type":"TEXT_MESSAGE_CHUNK","messageId":"b","delta":"y","subagentRunId":"s2""#,
          r#""type":"TEXT_MESSAGE_CHUNK","delta":"z","subagentRunId":"s1","messageId":"a:2","metadata":{"diglot.ag-ui":{"type":"TEXT_MESSAGE_CHUNK","$absent":["messageId"],"messageId":"a"}}"#,
          r#""type":"CUSTOM","name":"ag-ui.SUBAGENT_FINISHED","value":{"type":"SUBAGENT_FINISHED","subagentRunId":"s2"}"#,
          r#""type":"CUSTOM","name":"ag-ui.SUBAGENT_FINISHED","value":{"type":"SUBAGENT_FINISHED","subagentRunId":"s1"}"#],
    },
    KilledRun {
        case: "chunks of two subagents, for a client without chunks",
        agent: "ag-ui", client: "ag-ui-snake",
        sent: &[r#""type":"SUBAGENT_STARTED","subagentRunId":"s1","name":"n1""#, r#""type":"SUBAGENT_STARTED","subagentRunId":"s2","name":"n2""#,
          r#""type":"TEXT_MESSAGE_CHUNK","messageId":"a","delta":"x","subagentRunId":"s1""#,
          r#""type":"TEXT_MESSAGE_CHUNK","messageId":"b","delta":"y","subagentRunId":"s2""#,
          r#""type":"TEXT_MESSAGE_CHUNK","delta":"z","subagentRunId":"s1""#],
        received: &[r#""type":"SUBAGENT_STARTED","subagentRunId":"s1","name":"n1""#,
          r#""type":"SUBAGENT_STARTED","subagentRunId":"s2","name":"n2""#,
          r#""type":"TEXT_MESSAGE_START","messageId":"a","role":"助手","metadata":{"diglot.ag-ui":{"type":""}}"#,
          r#""type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"x","subagentRunId":"s1","metadata":{"diglot.ag-ui":{"type":"TEXT_MESSAGE_CHUNK"}}"#,
          r#""type":"TEXT_MESSAGE_END","messageId":"a","metadata":{"diglot.ag-ui":{"type":""}}"#,
          r#""type":"TEXT_MESSAGE_START","messageId":"b","role":"助手","metadata":{"diglot.ag-ui":{"type":""}}"#,
          r#""type":"TEXT_MESSAGE_CONTENT","messageId":"b","delta":"y","subagentRunId":"s2","metadata":{"diglot.ag-ui":{"type":"TEXT_MESSAGE_CHUNK"}}"#,
          r#""type":"TEXT_MESSAGE_END","messageId":"b","metadata":{"diglot.ag-ui":{"type":""}}"#,
          r#""type":"TEXT_MESSAGE_START","messageId":"a","role":"助手","metadata":{"diglot.ag-ui":{"type":""}}"#,
          r#""type":"TEXT_MESSAGE_CONTENT","delta":"z","subagentRunId":"s1","messageId":"a","metadata":{"diglot.ag-ui":{"type":"TEXT_MESSAGE_CHUNK","$absent":["messageId"]}}"#,
          r#""type":"TEXT_MESSAGE_END","messageId":"a","metadata":{"diglot.ag-ui":{"type":""}}"#,
          r#""type":"SUBAGENT_FINISHED","subagentRunId":"s2""#,
          r#""type":"SUBAGENT_FINISHED","subagentRunId":"s1""#],
    },
    KilledRun {
        case: "a carried type that is not a string",
        agent: "hai", client: "ag-ui",
        sent: &[r#""type":"STEP_STARTED","stepName":"s","extra":{"ag-ui":{"type":[1]}}"#, r#""type":"STEP_FINISHED","stepName":"s""#],
        received: &[r#""type":"STEP_STARTED","stepName":"s""#, r#""type":"STEP_FINISHED","stepName":"s""#],
    },
];

#[test]
fn mends_runs_that_killed_old_clients() {
    for KilledRun { case, agent, client, sent, received } in KILLED_RUNS {
        let stream = Stream::new(side(agent), side(client), Some(RunIds::new("t", "r")), SseLimits::default());
        let output = run_guard(stream.with_guard_mode(GuardMode::Repair), &[&[START], *sent, &[FINISH]].concat());
        let expected: Vec<String> = received.iter().map(|event| canonical(&format!("{{{event}}}"))).collect();
        let [_, middle @ .., _] = output.events.as_slice() else { panic!("{case}: {:?}", output.events) };
        assert_eq!(middle, expected, "{case}");
        assert_eq!(output.fault, None, "{case}");
    }
}

/// Ends added for the peer are dropped when it is read back.
#[test]
fn added_ends_of_thinking_do_not_come_back() {
    let ids = || Some(RunIds::new("t", "r"));
    let translate = |from, to, wire: &str| {
        let mut stream = Stream::new(side(from), side(to), ids(), SseLimits::default());
        let mut out = Vec::new();
        stream.push(wire.as_bytes(), 0, &mut out).and_then(|()| stream.finish(0, &mut out)).expect("a whole run");
        String::from_utf8(out).expect("UTF-8")
    };
    let sent = sse_text(&[&[START], KILLED_RUNS[0].sent, &[FINISH]].concat());
    let through_an_old_hop = translate("ag-ui-0", "ag-ui", &translate("ag-ui-0", "ag-ui-0", &sent));
    let types = |wire: &str| -> Vec<String> {
        let found = wire.lines().filter_map(|line| line.strip_prefix("data: {\"type\":\"")?.split('"').next());
        found.map(str::to_owned).collect()
    };
    assert_eq!(types(&through_an_old_hop), types(&translate("ag-ui-0", "ag-ui", &sent)));
}
