//! Which tools a request may offer and an agent may call: a row per form, over the engine.

use diglot::codec::sse::Limits;
use diglot::dialect::{self, AG_UI, Dialect, HAI, Side};
use diglot::translate::{Fault, Ids, Mode, Stream, Tools, request};
use std::sync::Arc;

const ALLOWED: &str = "search";

fn side(name: &str) -> Side {
    Side::new(dialect::by_name(name).expect("a dialect"))
}

fn tools() -> Arc<Tools> {
    Arc::new(Tools::new([ALLOWED]))
}

/// What a client hears of these events, and why the run may not go on.
fn hear(agent: Side, client: Side, mode: Mode, events: &[&str]) -> (String, Option<Fault>, Option<String>) {
    let mut out = Vec::new();
    let stream = Stream::new(agent, client, Some(Ids::new("t", "r")), Limits::default());
    let mut stream = stream.guarded(mode).allowing(Some(tools()));
    let wire: String = events.iter().map(|event| format!("data: {{{event}}}\n\n")).collect();
    let fault = stream.push(wire.as_bytes(), 0, &mut out).and_then(|()| stream.finish(0, &mut out)).err();
    if fault.is_some() {
        assert_eq!(stream.ending(), None, "a run that is stopped has not ended");
        stream.fail("tool_not_allowed", "no", 0, &mut out);
        assert!(stream.ending().is_some());
    }
    (String::from_utf8(out).expect("UTF-8"), fault, stream.stranger().map(str::to_owned))
}

const START: &str = r#""type":"RUN_STARTED","threadId":"t","runId":"r""#;
const FINISH: &str = r#""type":"RUN_FINISHED","threadId":"t","runId":"r""#;

/// What an agent may say to call a tool: its dialect, and the event with `TOOL` where the name stands.
const CALLS: &[(&str, &str)] = &[
    ("ag-ui", r#""type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"TOOL""#),
    ("ag-ui", r#""type":"TOOL_CALL_START","tool_call_id":"c","tool_call_name":"TOOL""#),
    ("ag-ui", r#""type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"search","toolCallName":"TOOL""#),
    ("ag-ui", r#""type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"TOOL","delta":"{}""#),
    (
        "ag-ui",
        r#""type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"assistant","toolCalls":[{"id":"d","type":"function","function":{"name":"search","arguments":""}},{"id":"c","type":"function","function":{"name":"TOOL","arguments":"{}"}}]}]"#,
    ),
    (
        "ag-ui",
        r#""type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"assistant","toolCalls":[{"id":"c","type":"function","function":{"name":"search","arguments":"{}","name":"TOOL"}}]}]"#,
    ),
    ("ag-ui-0", r#""type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"TOOL""#),
    ("ag-ui-snake", r#""type":"TOOL_CALL_START","tool_call_id":"c","tool_call_name":"TOOL""#),
    ("hai", r#""type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"TOOL","parentMessageId":"m""#),
    (
        "hai",
        r#""type":"CUSTOM","name":"ag-ui.TOOL_CALL_CHUNK","value":{"type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"TOOL","delta":"{}"}"#,
    ),
    (
        "hai",
        r#""type":"MESSAGE_SNAPSHOT","messages":[{"id":"a","role":"assistant","content":"","toolCalls":[{"id":"c","type":"function","function":{"name":"TOOL","arguments":"{}"}}]}]"#,
    ),
    // What HAI has no word for, and a client of HAI would get as it came.
    ("hai", r#""type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"TOOL","delta":"{}""#),
    (
        "ag-ui",
        r#""type":"CUSTOM","name":"hai.TOOL_CALL_CHUNK","value":{"type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"TOOL"}"#,
    ),
    ("cloudbase", r#""type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"TOOL""#),
    (
        "social-app",
        r#""type":"TOOL_CALL_START","messageId":"m","toolCallId":"c","toolCallName":"TOOL","stage":"worker""#,
    ),
];

#[test]
fn a_tool_that_is_not_allowed_stops_the_run_before_anything_of_its_call_leaves() {
    for (agent, call) in CALLS {
        for client in ["ag-ui", "ag-ui-0", "ag-ui-snake", "hai", "cloudbase", "social-app"] {
            for mode in [Mode::Repair, Mode::Report] {
                let strange = call.replace("TOOL\"", "delete_all\"");
                let (heard, fault, name) = hear(side(agent), side(client), mode, &[START, &strange, FINISH]);
                let case = format!("{agent} to {client}, {mode:?}: {call}\n{heard}");
                assert_eq!((fault, name.as_deref()), (Some(Fault::Tool), Some("delete_all")), "{case}");
                assert!(!heard.contains("delete_all") && !heard.contains("RUN_FINISHED"), "{case}");
                assert_eq!(heard.matches("tool_not_allowed").count(), 1, "{case}");

                let own = call.replace("TOOL\"", "search\"");
                let (heard, fault, _) = hear(side(agent), side(client), mode, &[START, &own, FINISH]);
                assert_eq!(fault, None, "{case}\n{heard}");
            }
        }
    }
}

/// "The echo of the input": a client takes over what stands there, so nothing is put into its mouth.
#[test]
fn the_echo_of_a_request_holds_no_call_that_nobody_made() {
    let start = |tool: &str| {
        format!(
            r#"{START},"input":{{"threadId":"t","runId":"r","messages":[{{"id":"a","role":"assistant","toolCalls":[{{"id":"c","type":"function","function":{{"name":"{tool}","arguments":"{{}}"}}}}]}}],"tools":[],"context":[],"state":{{}},"forwardedProps":{{}}}}"#
        )
    };
    let (heard, fault, name) = hear(side("ag-ui"), side("ag-ui"), Mode::Repair, &[&start("delete_all"), FINISH]);
    assert_eq!((fault, name.as_deref()), (Some(Fault::Tool), Some("delete_all")), "{heard}");
    assert!(!heard.contains("delete_all"), "{heard}");
    let (heard, fault, _) = hear(side("ag-ui"), side("ag-ui"), Mode::Repair, &[&start("search"), FINISH]);
    assert!(fault.is_none() && heard.contains("search"), "{heard}");
}

#[test]
fn a_call_without_a_name_is_of_no_allowed_tool() {
    for event in [
        r#""type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{}""#,
        r#""type":"TOOL_CALL_CHUNK","toolCallId":"c","delta":"{}""#,
        r#""type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"assistant","toolCalls":[{"id":"c","type":"function","function":{"arguments":""}}]}]"#,
    ] {
        let (heard, fault, _) = hear(side("ag-ui"), side("ag-ui"), Mode::Repair, &[START, event, FINISH]);
        assert_eq!(fault, Some(Fault::Tool), "{event}\n{heard}");
    }
}

/// An interrupt becomes calls of the client's own confirmation tool, which the gateway makes; an agent that calls it by
/// itself calls a tool like others.
#[test]
fn what_the_gateway_asks_is_no_call_of_the_agent() {
    let interrupt = r#""type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"delete?"}]}"#;
    let (heard, fault, _) = hear(side("ag-ui"), side("hai"), Mode::Repair, &[START, interrupt]);
    assert!(fault.is_none() && heard.contains("confirmAction"), "{heard}");
    let call = r#""type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"confirmAction""#;
    for (agent, client) in [("hai", "ag-ui"), ("hai", "hai"), ("ag-ui", "hai"), ("ag-ui", "ag-ui")] {
        let (_, fault, name) = hear(side(agent), side(client), Mode::Repair, &[START, call, FINISH]);
        assert_eq!((fault, name.as_deref()), (Some(Fault::Tool), Some("confirmAction")), "{agent} to {client}");
    }
}

fn request(client: &'static Dialect, messages: &str, tools: &str) -> String {
    let (own, calls) = ("messages", messages);
    assert!(client.name == "ag-ui" || client.name == "hai");
    format!(
        r#"{{"threadId":"t","runId":"r","{own}":[{calls}],"tools":{tools},"context":[],"state":{{}},"forwardedProps":{{}}}}"#
    )
}

const USER: &str = r#"{"id":"u","role":"user","content":"hi"}"#;

#[test]
fn a_tool_that_is_not_allowed_is_not_offered() {
    let refused: &[(&str, &str)] = &[
        (
            r#"[{"name":"search"},{"name":"delete_all","description":"","parameters":{}}]"#,
            "/tools/1/name: the tool `delete_all`",
        ),
        (r#"[{"type":"function","function":{"name":"delete_all"}}]"#, "/tools/0/function/name: the tool `delete_all`"),
        (r#"[{"name":"search","function":{"name":"delete_all"}}]"#, "/tools/0/function/name: the tool `delete_all`"),
        (r#"[{"name":"search","name":"delete_all"}]"#, "/tools/0/name: the tool `delete_all`"),
        (r#"[{"name":"\u0064elete\nall"}]"#, "/tools/0/name: the tool `delete\u{fffd}all`"),
        (r#"[{"description":"x"}]"#, "/tools/0: has no name"),
        (r#"[{"name":7}]"#, "/tools/0: has no name"),
        (r#"["search"]"#, "/tools/0: has no name"),
        (r#"[{"name":"Search"}]"#, "/tools/0/name: the tool `Search`"),
    ];
    let allowed = tools();
    for client in [&AG_UI, &HAI] {
        let translate = |tools: &str, allowed| {
            let body = request(client, USER, tools);
            let ids = Ids::new("t", "r");
            request::translate_allowing(body.as_bytes(), Side::new(client), Side::new(&AG_UI), &ids, allowed)
        };
        for (offered, reason) in refused {
            let refused = translate(offered, Some(&*allowed)).expect_err(offered);
            assert!(refused.tool && refused.to_string().starts_with(reason), "{}: {refused}", client.name);
            assert!(translate(offered, None).is_ok(), "any tool where the route has no list");
        }
        for offered in ["[]", r#"[{"name":"search"}]"#, r#"[{"type":"function","function":{"name":"search"}}]"#] {
            assert!(translate(offered, Some(&*allowed)).is_ok(), "{}: {offered}", client.name);
        }
    }
}

#[test]
fn calls_that_the_conversation_holds_already_are_not_judged() {
    let history = r#"{"id":"a","role":"assistant","content":"","toolCalls":[{"id":"old","type":"function","function":{"name":"delete_all","arguments":"{}"}}]},{"id":"x","role":"tool","toolCallId":"old","content":"done"}"#;
    let body = request(&AG_UI, &format!("{USER},{history}"), "[]");
    let allowed = tools();
    let run = |event: &str| {
        let ids = Ids::new("t", "r");
        let side = Side::new(&AG_UI);
        let known =
            request::translate_allowing(body.as_bytes(), side, side, &ids, Some(&*allowed)).expect("a request").known;
        let stream = Stream::new(side, side, Some(ids), Limits::default()).knowing(known);
        let mut stream = stream.allowing(Some(Arc::clone(&allowed)));
        let wire = format!("data: {{{START}}}\n\ndata: {{{event}}}\n\ndata: {{{FINISH}}}\n\n");
        stream.push(wire.as_bytes(), 0, &mut Vec::new())
    };
    let snapshot = |id: &str, name: &str| {
        format!(
            r#""type":"MESSAGES_SNAPSHOT","messages":[{USER},{{"id":"a","role":"assistant","toolCalls":[{{"id":"{id}","type":"function","function":{{"name":"{name}","arguments":"{{}}"}}}}]}}]"#
        )
    };
    assert_eq!(run(&snapshot("old", "delete_all")), Ok(()));
    assert_eq!(run(r#""type":"TOOL_CALL_RESULT","messageId":"x2","toolCallId":"old","content":"done""#), Ok(()));
    // A call under the id of an old one is another call, and one that begins is made now.
    assert_eq!(run(&snapshot("old", "drop_tables")), Err(Fault::Tool));
    assert_eq!(run(&snapshot("new", "delete_all")), Err(Fault::Tool));
    assert_eq!(run(r#""type":"TOOL_CALL_START","toolCallId":"old","toolCallName":"delete_all""#), Err(Fault::Tool));
}

/// What an agent puts beside the name, for the client's dialect to take in its place.
#[test]
fn no_name_is_smuggled_past_in_metadata() {
    let names = ["toolCallName", "tool_call_name", "toolcallname", "tool_name", "name"];
    for client in ["ag-ui-0", "ag-ui-snake", "hai", "cloudbase", "social-app"] {
        let own: Vec<_> = names.iter().map(|name| format!(r#""{name}":"delete_all""#)).collect();
        let start = format!(
            r#""type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"search","metadata":{{"{client}":{{{}}}}}"#,
            own.join(",")
        );
        let calls = r#"[{"id":"c","type":"function","function":{"name":"delete_all","arguments":""}}]"#;
        let snapshot = format!(
            r#""type":"MESSAGES_SNAPSHOT","messages":[{{"id":"a","role":"assistant","content":"x","metadata":{{"{client}":{{"toolCalls":{calls},"tool_calls":{calls}}}}}}}]"#
        );
        for event in [&start, &snapshot] {
            let (heard, _, _) = hear(side("ag-ui"), side(client), Mode::Repair, &[START, event, FINISH]);
            let data = heard.lines().filter_map(|line| line.strip_prefix("data: "));
            for event in data.map(|data| serde_json::from_str::<serde_json::Value>(data).expect("JSON")) {
                for name in &names[..2] {
                    assert_ne!(event[name], "delete_all", "{client}: {event}");
                }
                for calls in ["toolCalls", "tool_calls"] {
                    assert_eq!(event["messages"][0][calls], serde_json::Value::Null, "{client}: {event}");
                }
            }
        }
    }
}
