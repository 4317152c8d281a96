//! Ids of earlier runs, for clients that do not go on with a message that starts again: the component of seed 000 §4.1 and
//! clients of AG-UI before 0.0.45. What begins with such an id is another message there; the request names the ids.

use super::exact_json::members;
use super::golden::{NOW, side};
use diglot::codec::sse::SseLimits;
use diglot::translate::{EventLoss, RunIds, Stream, request};

/// Translates a run of an AG-UI agent after the messages of a request.
fn translate(client: &str, messages: &str, events: &[&str]) -> (Vec<String>, Stream) {
    let body = format!(r#"{{"threadId":"t1","runId":"r1","messages":[{messages}]}}"#);
    let [client, agent] = [side(client), side("ag-ui")];
    let ids = RunIds::new("t1", "r1");
    let translated = request::translate_request(body.as_bytes(), client, agent, &ids).expect("a request");
    let stream = Stream::new(agent, client, Some(ids), SseLimits::default());
    let mut stream = stream.with_conversation(translated.conversation);
    let mut out = Vec::new();
    let run =
        [&[r#""type":"RUN_STARTED","threadId":"t1","runId":"r1""#], events, &[r#""type":"RUN_FINISHED""#]].concat();
    for event in run {
        stream.push(format!("data: {{{event}}}\n\n").as_bytes(), NOW, &mut out).expect("no limit is passed");
    }
    stream.finish(NOW, &mut out).expect("the run has ended");
    let text = String::from_utf8(out).expect("UTF-8");
    (text.split("\n\n").filter_map(|frame| frame.strip_prefix("data: ")).map(str::to_owned).collect(), stream)
}

/// The type and the message id of each event that names a message.
fn message_ids(events: &[String]) -> Vec<String> {
    let named = events.iter().filter_map(|event| {
        let members = members(event);
        let text = |name: &str| members.get(name).map(|value| value.trim_matches('"').to_owned());
        Some(format!("{} {}", text("type")?, text("messageId")?))
    });
    named.filter(|event| !event.starts_with("RUN_")).collect()
}

const TEXT: [&str; 3] = [
    r#""type":"TEXT_MESSAGE_START","messageId":"m1","role":"assistant""#,
    r#""type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"二""#,
    r#""type":"TEXT_MESSAGE_END","messageId":"m1""#,
];

const THOUGHT: [&str; 3] = [
    r#""type":"REASONING_MESSAGE_START","messageId":"r","role":"reasoning""#,
    r#""type":"REASONING_MESSAGE_CONTENT","messageId":"r","delta":"想二""#,
    r#""type":"REASONING_MESSAGE_END","messageId":"r""#,
];

const PLAN: &str = r#""type":"ACTIVITY_SNAPSHOT","messageId":"plan","activityType":"PLAN","content":{"done":1}"#;

/// A HAI client's messages after a run with thinking `r`, text `m1` and activity `plan`.
const HAI_HISTORY: &str = concat!(
    r#"{"id":"u1","role":"user","content":"问1"},"#,
    r#"{"id":"r","role":"assistant","content":"{\"output\":{\"type\":\"thinking\",\"data\":{\"content\":\"想一\",\"elapsed\":0,\"thinking\":false,\"collapse\":true}}}"},"#,
    r#"{"id":"m1","role":"assistant","content":"{\"output\":{\"type\":\"text\",\"content\":\"一\"}}"},"#,
    r#"{"id":"plan","role":"assistant","content":"{\"output\":{\"type\":\"PLAN\",\"data\":{\"done\":0}}}"},"#,
    r#"{"id":"u2","role":"user","content":"问2"}"#,
);

#[test]
fn gives_hai_clients_another_message_for_an_id_of_an_earlier_run() {
    let events = [&THOUGHT[..], &TEXT, &[PLAN]].concat();
    let (sent, _) = translate("hai", HAI_HISTORY, &events);
    let three = |id: &str| ["START", "CONTENT", "END"].map(|part| format!("BUSINESS_DATA_{part} {id}"));
    let thought = ["START", "CONTENT", "CONTENT", "END"].map(|part| format!("BUSINESS_DATA_{part} r:2"));
    assert_eq!(message_ids(&sent), [&thought[..], &three("m1:2"), &three("plan:2")].concat());
    // Read back, the agent's events have its own ids.
    let mut back = Stream::new(side("hai"), side("ag-ui"), Some(RunIds::new("t1", "r1")), SseLimits::default());
    let mut out = Vec::new();
    sent.iter().for_each(|event| back.push(format!("data: {event}\n\n").as_bytes(), NOW, &mut out).expect("a run"));
    let out = String::from_utf8(out).expect("UTF-8");
    assert!(["m1", "r", "plan"].iter().all(|id| out.contains(&format!(r#""messageId":"{id}""#))), "{out}");
    assert!(!out.contains(":2"), "{out}");
}

#[test]
fn names_the_clients_message_for_a_call_of_a_text_that_ended() {
    let call = r#""type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":"m1""#;
    let (sent, _) = translate("hai", HAI_HISTORY, &[&TEXT[..], &[call]].concat());
    let call = sent.iter().find(|event| event.contains("TOOL_CALL_START")).expect("a call");
    assert_eq!(members(call)["parentMessageId"], r#""m1:2""#);
}

#[test]
fn applies_changes_to_an_activity_of_an_earlier_run() {
    let change = r#""type":"ACTIVITY_DELTA","messageId":"plan","activityType":"PLAN","patch":[{"op":"add","path":"/n","value":2}]"#;
    let (sent, stream) = translate("hai", HAI_HISTORY, &[change]);
    let block = sent.iter().find(|event| event.contains("BUSINESS_DATA_CONTENT")).expect("a block");
    assert_eq!(members(block)["messageId"], r#""plan:2""#);
    assert_eq!(members(block)["delta"], r#"{"output":{"data":{"done":0,"n":2},"type":"PLAN"}}"#);
    assert_eq!(stream.report().losses.iter().sum::<u32>(), 0);
}

#[test]
fn gives_older_clients_another_message_for_an_id_of_an_earlier_run() {
    let history = r#"{"id":"u1","role":"user","content":"问1"},{"id":"m1","role":"assistant","content":"一"},{"id":"u2","role":"user","content":"问2"}"#;
    for (client, id) in [("ag-ui-0", "m1:2"), ("ag-ui-0.pin=0-0-35", "m1:2"), ("ag-ui-0.pin=0-0-42", "m1:2")]
        .into_iter()
        .chain([("ag-ui-0.pin=0-0-45", "m1"), ("ag-ui", "m1")])
    {
        let (sent, _) = translate(client, history, &TEXT);
        let wanted = ["START", "CONTENT", "END"].map(|part| format!("TEXT_MESSAGE_{part} {id}"));
        assert_eq!(message_ids(&sent), wanted, "{client}");
    }
}

/// "absent ids dropped, except local `activity` (unless the snapshot carries any activity) and `reasoning` (unless it
/// carries any reasoning)" (specs §3.4). A HAI client keeps nothing that a list does not have.
#[test]
fn keeps_thinking_and_blocks_of_earlier_runs_in_a_snapshot() {
    let list = |more: &str| {
        format!(
            r#""type":"MESSAGES_SNAPSHOT","messages":[{{"id":"u1","role":"user","content":"问1"}},{{"id":"m1","role":"assistant","content":"一"}},{{"id":"u2","role":"user","content":"问2"}}{more}]"#
        )
    };
    let ids = |events: &[&str]| {
        let (sent, stream) = translate("hai", HAI_HISTORY, events);
        let snapshot = sent.iter().rfind(|event| event.contains("MESSAGE_SNAPSHOT")).expect("a list");
        let messages = members(snapshot)["messages"].clone();
        let ids = messages.split(r#""id":""#).skip(1).map(|rest| rest.split('"').next().unwrap_or_default().to_owned());
        (ids.collect::<Vec<_>>().join(" "), stream)
    };
    let plain = list("");
    assert_eq!(ids(&[&plain]).0, "u1 r m1 plan u2");
    // A thought of this run has the id that the client knows.
    let (kept, _) = ids(&[&THOUGHT[..], &[&plain]].concat());
    assert_eq!(kept, "u1 r m1 plan u2 r:2");
    let with_reasoning = list(r#",{"id":"r9","role":"reasoning","content":"新"}"#);
    assert_eq!(ids(&[&with_reasoning]).0, "u1 m1 plan u2 r9");
    assert_eq!(ids(&[r#""type":"MESSAGES_SNAPSHOT","messages":[]"#]).0, "");
    let (_, stream) = ids(&[plain.as_str(); 20]);
    let losses = [EventLoss::ReasoningNotShown, EventLoss::ActivityNotShown];
    assert!(losses.iter().all(|loss| stream.report().losses[*loss as usize] == 1));
}

/// Translates a run of a HAI agent after a client's messages; returns the events for the client.
fn translate_hai(client: &str, messages: &str, events: &[&str]) -> Vec<String> {
    let body = format!(r#"{{"threadId":"t1","runId":"r2","messages":[{messages}]}}"#);
    let (client, agent, ids) = (side(client), side("hai"), RunIds::new("t1", "r2"));
    let translated = request::translate_request(body.as_bytes(), client, agent, &ids).expect("a request");
    let stream = Stream::new(agent, client, Some(ids), SseLimits::default());
    let mut stream = stream.with_conversation(translated.conversation);
    let mut out = Vec::new();
    for event in [&[r#""type":"RUN_STARTED","messageId":"m2""#], events, &[r#""type":"RUN_FINISHED""#]].concat() {
        stream.push(format!("data: {{{event}}}\n\n").as_bytes(), NOW, &mut out).expect("no limit is passed");
    }
    let text = String::from_utf8(out).expect("UTF-8");
    text.split("\n\n").filter_map(|frame| frame.strip_prefix("data: ")).map(str::to_owned).collect()
}

/// A history with the call that seed 000 §3.3.2 prints.
const CALL_HISTORY: &str = concat!(
    r#"{"id":"u1","role":"user","content":"问1"},"#,
    r#"{"id":"msg-456","role":"assistant","toolCalls":[{"id":"tool-123","type":"function","function":{"name":"confirmAction","arguments":"{}"}}]},"#,
    r#"{"id":"t1","role":"tool","toolCallId":"tool-123","content":"true"}"#,
);

const CALL: [&str; 4] = [
    r#""type":"TOOL_CALL_START","toolCallId":"tool-123","toolCallName":"confirmAction","parentMessageId":"msg-456""#,
    r#""type":"TOOL_CALL_ARGS","toolCallId":"tool-123","delta":"{\"action\":\"D\"}""#,
    r#""type":"TOOL_CALL_END","toolCallId":"tool-123""#,
    r#""type":"TOOL_CALL_RESULT","messageId":"x","toolCallId":"tool-123","content":"ok""#,
];

/// The type and the call of each event that names one.
fn calls(events: &[String]) -> Vec<String> {
    let named = events.iter().filter(|event| event.contains("toolCallId")).map(|event| members(event));
    named.map(|event| [&event["type"], &event["toolCallId"]].map(|text| text.replace('"', "")).join(" ")).collect()
}

/// "TOOL_CALL_ARGS 拼接规则: 同一 toolCallId" (seed 001): whatever the two dialects, a client adds to the call of the earlier run.
#[test]
fn gives_clients_another_call_for_an_id_of_an_earlier_run() {
    // The client replaces a call's `metadata.diglot` with that of each event.
    let sent = translate_hai("ag-ui", CALL_HISTORY, &CALL);
    let parents = sent.iter().filter(|event| event.contains("TOOL_CALL_") && event.contains("parentMessageId"));
    assert_eq!(parents.count(), 1);
    assert!(!sent.iter().any(|event| event.contains("TOOL_CALL_ARGS") && event.contains("metadata")), "{sent:?}");
    type Translate = fn(&str, &str, &[&str]) -> Vec<String>;
    let agents: [Translate; 2] = [translate_hai, |client, messages, events| translate(client, messages, events).0];
    for run in agents {
        for client in ["ag-ui", "ag-ui-0", "ag-ui-0.pin=0-0-45", "ag-ui-snake", "hai", "hai.string"] {
            let parts = ["START", "ARGS", "END", "RESULT"].map(|part| format!("TOOL_CALL_{part} tool-123:call"));
            assert_eq!(calls(&run(client, CALL_HISTORY, &CALL)), parts, "{client}");
        }
        // The result of a run that goes on belongs to the call of the run before.
        assert_eq!(calls(&run("ag-ui", CALL_HISTORY, &CALL[3..])), ["TOOL_CALL_RESULT tool-123"]);
        // In the first run with the id, it stays.
        let first = run("ag-ui", r#"{"id":"u1","role":"user","content":"问1"}"#, &CALL[..1]);
        assert_eq!(calls(&first)[0], "TOOL_CALL_START tool-123");
    }
}

/// In the message of the earlier run, the call would stand before the answer to that one.
#[test]
fn puts_a_call_behind_later_messages_than_its_parent() {
    let (sent, _) = translate("hai", CALL_HISTORY, &[&CALL[..3], &CALL[..1], &TEXT].concat());
    let parents = sent
        .iter()
        .filter(|event| event.contains("TOOL_CALL_START"))
        .map(|call| members(call)["parentMessageId"].clone());
    assert_eq!(parents.collect::<Vec<_>>(), [r#""msg-456:2""#; 2]);
    let mut back = Stream::new(side("hai"), side("ag-ui"), Some(RunIds::new("t1", "r1")), SseLimits::default());
    let mut out = Vec::new();
    sent.iter().for_each(|event| back.push(format!("data: {event}\n\n").as_bytes(), NOW, &mut out).expect("a run"));
    let out = String::from_utf8(out).expect("UTF-8");
    assert!(out.contains(r#""parentMessageId":"msg-456""#) && !out.contains("msg-456:"), "{out}");
    // A message that the client makes for a call is named after it.
    let without_parent = CALL[0].replace(r#","parentMessageId":"msg-456""#, "");
    let (sent, _) = translate("hai", CALL_HISTORY, &[&without_parent]);
    let call = sent.iter().find(|event| event.contains("TOOL_CALL_START")).expect("a call");
    assert!(!members(call).contains_key("parentMessageId"), "{call}");
}

/// Interrupt ids are "unique per run" (specs §2), and the client has the question of the earlier one.
#[test]
fn gives_clients_another_question_for_an_interrupt_id_of_an_earlier_run() {
    let finish = r#""type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"confirm"}]}"#;
    let history = |call: &str, answer: &str| {
        format!(
            r#"{{"id":"{call}","role":"assistant","toolCalls":[{{"id":"{call}","type":"function","function":{{"name":"confirmAction","arguments":"{{}}"}}}}]}},{{"id":"{answer}","role":"tool","toolCallId":"{call}","content":"\"{answer}\""}}"#
        )
    };
    let once = history("interrupt:i", "是");
    let twice = format!("{once},{}", history("interrupt:i:call", "否"));
    for client in ["hai", "ag-ui-0", "ag-ui-0.pin=0-0-35", "cloudbase", "ag-ui-snake"] {
        for (history, id) in [("", "interrupt:i"), (&once, "interrupt:i:call"), (&twice, "interrupt:i:call:2")] {
            let calls = calls(&translate(client, history, &[finish]).0);
            assert_eq!(calls[0], format!("TOOL_CALL_START {id}"), "{client}");
        }
        let body = format!(r#"{{"threadId":"t1","runId":"r1","messages":[{twice}]}}"#);
        let ids = RunIds::new("t1", "r1");
        let sent = request::translate_request(body.as_bytes(), side(client), side("ag-ui"), &ids).expect("a request");
        let sent = members(&sent.body);
        assert_eq!(sent["resume"], r#"[{"interruptId":"i","payload":"否","status":"resolved"}]"#, "{client}");
        assert_eq!(sent["messages"], "[]", "{client}");
    }
}
