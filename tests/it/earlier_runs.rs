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
    assert_eq!(stream.report().losses.iter().sum::<u64>(), 0);
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

/// Seed 000 §3.3.2 prints one id for a call, `tool-123`.
#[test]
fn gives_clients_another_call_for_an_id_of_an_earlier_run() {
    let history = concat!(
        r#"{"id":"u1","role":"user","content":"问1"},"#,
        r#"{"id":"msg-456","role":"assistant","toolCalls":[{"id":"tool-123","type":"function","function":{"name":"confirmAction","arguments":"{}"}}]},"#,
        r#"{"id":"t1","role":"tool","toolCallId":"tool-123","content":"true"}"#,
    );
    let call = [
        r#""type":"TOOL_CALL_START","toolCallId":"tool-123","toolCallName":"confirmAction","parentMessageId":"msg-456""#,
        r#""type":"TOOL_CALL_ARGS","toolCallId":"tool-123","delta":"{\"action\":\"D\"}""#,
        r#""type":"TOOL_CALL_END","toolCallId":"tool-123""#,
        r#""type":"TOOL_CALL_RESULT","toolCallId":"tool-123","content":"ok""#,
    ];
    let calls = |events: &[String]| {
        let named = events.iter().filter(|event| event.contains("toolCallId")).map(|event| members(event));
        named.map(|event| [&event["type"], &event["toolCallId"]].map(|text| text.replace('"', "")).join(" ")).collect()
    };
    // The client replaces a call's `metadata.diglot` with that of each event.
    let sent = translate_hai("ag-ui", history, &call);
    let parents = sent.iter().filter(|event| event.contains("TOOL_CALL_") && event.contains("parentMessageId"));
    assert_eq!(parents.count(), 1);
    assert!(!sent.iter().any(|event| event.contains("TOOL_CALL_ARGS") && event.contains("metadata")), "{sent:?}");
    for client in ["ag-ui", "ag-ui-0", "ag-ui-0.pin=0-0-45", "ag-ui-snake"] {
        let sent: Vec<String> = calls(&translate_hai(client, history, &call));
        let parts = ["START", "ARGS", "END", "RESULT"].map(|part| format!("TOOL_CALL_{part} tool-123:call"));
        assert_eq!(sent, parts, "{client}");
    }
    // The result of a run that goes on belongs to the call of the run before.
    let sent: Vec<String> = calls(&translate_hai("ag-ui", history, &call[3..]));
    assert_eq!(sent, ["TOOL_CALL_RESULT tool-123"]);
    // In the first run with the id, it stays.
    let sent: Vec<String> = calls(&translate_hai("ag-ui", r#"{"id":"u1","role":"user","content":"问1"}"#, &call[..1]));
    assert_eq!(sent[0], "TOOL_CALL_START tool-123");
}
