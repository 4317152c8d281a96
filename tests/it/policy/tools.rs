//! Tools that a request may offer and an agent may call: one row per form, through the engine.

use diglot::codec::sse::SseLimits;
use diglot::dialect::{self, AG_UI, Dialect, HAI, PeerDialect};
use diglot::translate::{AllowedTools, GuardMode, RunIds, Stream, StreamError, request};
use std::sync::Arc;

const ALLOWED: &str = "search";

fn side(name: &str) -> PeerDialect {
    PeerDialect::new(dialect::find_by_name(name).expect("a dialect"))
}

fn allowed_tools() -> Arc<AllowedTools> {
    Arc::new(AllowedTools::new([ALLOWED]))
}

/// Returns the client's events, and the reason if the run ends.
fn run_stream(
    agent: PeerDialect,
    client: PeerDialect,
    mode: GuardMode,
    events: &[&str],
) -> (String, Option<StreamError>) {
    let mut out = Vec::new();
    let stream = Stream::new(agent, client, Some(RunIds::new("t", "r")), SseLimits::default());
    let mut stream = stream.with_guard_mode(mode).with_allowed_tools(Some(allowed_tools()));
    let wire: String = events.iter().map(|event| format!("data: {{{event}}}\n\n")).collect();
    let fault = stream.push(wire.as_bytes(), 0, &mut out).and_then(|()| stream.finish(0, &mut out)).err();
    if fault.is_some() {
        assert_eq!(stream.ending(), None, "a run that is stopped has not ended");
        stream.fail("tool_not_allowed", "no", 0, &mut out);
        assert!(stream.ending().is_some());
    }
    (String::from_utf8(out).expect("UTF-8"), fault)
}

fn forbidden(tool: &str) -> Option<StreamError> {
    Some(StreamError::ForbiddenTool(tool.to_owned()))
}

const START: &str = r#""type":"RUN_STARTED","threadId":"t","runId":"r""#;
const FINISH: &str = r#""type":"RUN_FINISHED","threadId":"t","runId":"r""#;

/// Forms of a tool call: a dialect, and its event with `TOOL` in the place of the name.
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
    // An event without a HAI counterpart, which a HAI client would get unchanged.
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
fn stops_the_run_before_a_forbidden_call_is_written() {
    for (agent, call) in CALLS {
        for client in dialect::ALL.iter().copied().map(PeerDialect::new) {
            for mode in [GuardMode::Repair, GuardMode::Report] {
                let strange = call.replace("TOOL\"", "delete_all\"");
                let (output, fault) = run_stream(side(agent), client, mode, &[START, &strange, FINISH]);
                let case = format!("{agent} to {}, {mode:?}: {call}\n{output}", client.dialect.name);
                assert_eq!(fault, forbidden("delete_all"), "{case}");
                assert!(!output.contains("delete_all") && !output.contains("RUN_FINISHED"), "{case}");
                assert_eq!(output.matches("tool_not_allowed").count(), 1, "{case}");

                let own = call.replace("TOOL\"", "search\"");
                let (output, fault) = run_stream(side(agent), client, mode, &[START, &own, FINISH]);
                assert_eq!(fault, None, "{case}\n{output}");
            }
        }
    }
}

/// "The echo of the input": a client adopts its messages, so a disallowed call in it ends the run.
#[test]
fn rejects_forbidden_calls_in_the_echoed_request() {
    let start = |tool: &str| {
        format!(
            r#"{START},"input":{{"threadId":"t","runId":"r","messages":[{{"id":"a","role":"assistant","toolCalls":[{{"id":"c","type":"function","function":{{"name":"{tool}","arguments":"{{}}"}}}}]}}],"tools":[],"context":[],"state":{{}},"forwardedProps":{{}}}}"#
        )
    };
    let (output, fault) = run_stream(side("ag-ui"), side("ag-ui"), GuardMode::Repair, &[&start("delete_all"), FINISH]);
    assert_eq!(fault, forbidden("delete_all"), "{output}");
    assert!(!output.contains("delete_all"), "{output}");
    let (output, fault) = run_stream(side("ag-ui"), side("ag-ui"), GuardMode::Repair, &[&start("search"), FINISH]);
    assert!(fault.is_none() && output.contains("search"), "{output}");
}

#[test]
fn rejects_tool_calls_without_a_name() {
    for event in [
        r#""type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{}""#,
        r#""type":"TOOL_CALL_CHUNK","toolCallId":"c","delta":"{}""#,
        r#""type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"assistant","toolCalls":[{"id":"c","type":"function","function":{"arguments":""}}]}]"#,
    ] {
        let (output, fault) = run_stream(side("ag-ui"), side("ag-ui"), GuardMode::Repair, &[START, event, FINISH]);
        assert!(matches!(fault, Some(StreamError::ForbiddenTool(_))), "{event}\n{output}");
    }
}

/// An interrupt becomes calls of the client's own confirmation tool, which the gateway makes; an agent that calls it by
/// itself calls a tool like others.
#[test]
fn allows_the_gateways_own_confirmation_calls() {
    let interrupt = r#""type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"delete?"}]}"#;
    let (output, fault) = run_stream(side("ag-ui"), side("hai"), GuardMode::Repair, &[START, interrupt]);
    assert!(fault.is_none() && output.contains("confirmAction"), "{output}");
    let call = r#""type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"confirmAction""#;
    for (agent, client) in [("hai", "ag-ui"), ("hai", "hai"), ("ag-ui", "hai"), ("ag-ui", "ag-ui")] {
        let (_, fault) = run_stream(side(agent), side(client), GuardMode::Repair, &[START, call, FINISH]);
        assert_eq!(fault, forbidden("confirmAction"), "{agent} to {client}");
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

/// Tools that the gateway and an agent may read differently: keys that occur twice, or differ only in case.
const AMBIGUOUS: &[(&str, &str)] = &[
    (r#"[{"name":"EVIL","name":"search"}]"#, "/tools/0/name: occurs twice"),
    (r#"[{"name":"search"},{"n\u0061me":"EVIL","name":"search"}]"#, "/tools/1/name: occurs twice"),
    (r#"[{"function":{"name":"EVIL"},"function":{"name":"search"}}]"#, "/tools/0/function: occurs twice"),
    (r#"[{"function":{"name":"EVIL","name":"search"}}]"#, "/tools/0/function/name: occurs twice"),
    (r#"[{"name":"search","parameters":{"a":{"x":1,"x":2}}}]"#, "/tools/0/parameters/a/x: occurs twice"),
    (r#"[{"name":"search","Name":"EVIL"}]"#, "/tools/0/Name: differs only in case"),
    (r#"[{"function":{"name":"search","NAME":"EVIL"}}]"#, "/tools/0/function/NAME: differs only in case"),
];

#[test]
fn refuses_requests_with_tools_outside_the_list() {
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
    let allowed = allowed_tools();
    for client in [&AG_UI, &HAI] {
        let translate = |tools: &str, allowed| {
            let body = request(client, USER, tools);
            let ids = RunIds::new("t", "r");
            request::translate_with_tools(
                body.as_bytes(),
                PeerDialect::new(client),
                PeerDialect::new(&AG_UI),
                &ids,
                allowed,
            )
        };
        for (offered, reason) in refused {
            let refused = translate(offered, Some(&*allowed)).expect_err(offered);
            assert!(
                refused.is_forbidden_tool() && refused.to_string().starts_with(reason),
                "{}: {refused}",
                client.name
            );
            let is_nameless = reason.ends_with("has no name");
            assert!(is_nameless || translate(offered, None).is_ok(), "any tool where the route has no list");
        }
        for (offered, pointer) in AMBIGUOUS {
            let refused = translate(offered, Some(&*allowed)).expect_err(offered);
            assert!(
                !refused.is_forbidden_tool() && refused.to_string().starts_with(pointer),
                "{}: {refused}",
                client.name
            );
            assert!(translate(offered, None).is_ok(), "any tool where the route has no list");
        }
        for offered in ["[]", r#"[{"name":"search"}]"#, r#"[{"type":"function","function":{"name":"search"}}]"#] {
            assert!(translate(offered, Some(&*allowed)).is_ok(), "{}: {offered}", client.name);
        }
    }
}

#[test]
fn ignores_forbidden_calls_already_in_the_conversation() {
    let history = r#"{"id":"a","role":"assistant","content":"","toolCalls":[{"id":"old","type":"function","function":{"name":"delete_all","arguments":"{}"}}]},{"id":"x","role":"tool","toolCallId":"old","content":"done"}"#;
    let body = request(&AG_UI, &format!("{USER},{history}"), "[]");
    let allowed = allowed_tools();
    let run = |event: &str| {
        let ids = RunIds::new("t", "r");
        let side = PeerDialect::new(&AG_UI);
        let known = request::translate_with_tools(body.as_bytes(), side, side, &ids, Some(&*allowed))
            .expect("a request")
            .conversation;
        let stream = Stream::new(side, side, Some(ids), SseLimits::default()).with_conversation(known);
        let mut stream = stream.with_allowed_tools(Some(Arc::clone(&allowed)));
        let wire = format!("data: {{{START}}}\n\ndata: {{{event}}}\n\ndata: {{{FINISH}}}\n\n");
        stream.push(wire.as_bytes(), 0, &mut Vec::new()).err()
    };
    let snapshot = |id: &str, name: &str| {
        format!(
            r#""type":"MESSAGES_SNAPSHOT","messages":[{USER},{{"id":"a","role":"assistant","toolCalls":[{{"id":"{id}","type":"function","function":{{"name":"{name}","arguments":"{{}}"}}}}]}}]"#
        )
    };
    assert_eq!(run(&snapshot("old", "delete_all")), None);
    assert_eq!(run(r#""type":"TOOL_CALL_RESULT","messageId":"x2","toolCallId":"old","content":"done""#), None);
    // A call under the id of an old one is another call, and one that begins is made now.
    assert_eq!(run(&snapshot("old", "drop_tables")), forbidden("drop_tables"));
    assert_eq!(run(&snapshot("new", "delete_all")), forbidden("delete_all"));
    assert_eq!(
        run(r#""type":"TOOL_CALL_START","toolCallId":"old","toolCallName":"delete_all""#),
        forbidden("delete_all")
    );
}

/// A second name in an agent's event, which the client's dialect would use instead.
#[test]
fn ignores_tool_names_in_metadata() {
    let names = ["toolCallName", "tool_call_name", "toolcallname", "tool_name", "name"];
    for client in dialect::ALL.iter().map(|dialect| dialect.name).filter(|name| *name != AG_UI.name) {
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
            let (output, _) = run_stream(side("ag-ui"), side(client), GuardMode::Repair, &[START, event, FINISH]);
            let data = output.lines().filter_map(|line| line.strip_prefix("data: "));
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
