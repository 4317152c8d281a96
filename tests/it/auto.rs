//! Routes with `auto`: the dialects of both sides are detected.

use crate::golden::{side, translate_stream};
use crate::support::agent::Agent;
use crate::support::client::{post, send_request};
use crate::support::gateway::Gateway;
use crate::support::sse::{COMPLETE_RUN, HEAD, complete_run, events, types};
use diglot::dialect::PeerDialect;
use diglot::translate::RunIds;
use diglot::translate::request::translate_request;
use std::path::Path;

fn read_golden_input(case: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/stream").join(case).join("input.sse");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The output for the agent of HAI's document (§4.2) is the same whether the route names its dialect or not.
#[test]
fn translates_a_detected_dialect_like_a_configured_one() {
    let input = read_golden_input("hai-to-ag-ui/4-2-chat-agent");
    let named = translate_stream(side("hai"), side("ag-ui"), [input.as_bytes()]).0;
    let (output, report) = translate_stream(PeerDialect::new_auto(), side("ag-ui"), [input.as_bytes()]);
    assert_eq!(output, named);
    assert_eq!(report.dialect_switches.last().expect("a switch").rule.dialect.name, "hai");
    let bytes = translate_stream(PeerDialect::new_auto(), side("ag-ui"), input.as_bytes().chunks(1)).0;
    assert_eq!(bytes, named);
}

/// An agent of AG-UI may show its dialect only behind arguments, which wait for more while it may have another one.
#[test]
fn keeps_arguments_and_parts_that_come_before_the_dialect_is_known() {
    let parts = r#"[{"type":"text","text":"见图"},{"type":"image","source":{"type":"url","value":"https://x/p.png"}}]"#;
    let call = r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}"#;
    let args = r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{\"a\":1}"}"#;
    let chunk = r#"{"type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"f","delta":"{\"a\""}"#;
    let rest = r#"{"type":"TOOL_CALL_CHUNK","delta":":1}"}"#;
    let sign = r#"{"type":"ACTIVITY_SNAPSHOT","messageId":"v","activityType":"plan","content":{}}"#;
    // REASONING_* shows the dialect; an activity is of any AG-UI agent.
    let thought = r#"{"type":"REASONING_START","messageId":"q"}"#;
    let thought_end = r#"{"type":"REASONING_END","messageId":"q"}"#;
    let end = r#"{"type":"TOOL_CALL_END","toolCallId":"c"}"#;
    let result = format!(r#"{{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":{parts}}}"#);
    for events in [
        &[call, args, sign, end][..],
        &[call, args, thought, thought_end, end],
        &[chunk, rest, sign],
        &[chunk, rest, thought, thought_end],
        &[call, end, &result],
        &[call, end, &result, sign],
        &[call, end, &result, thought, thought_end],
    ] {
        let run =
            ["RUN_STARTED", "RUN_FINISHED"].map(|kind| format!(r#"{{"type":"{kind}","threadId":"t","runId":"r"}}"#));
        let all = [&[run[0].as_str()][..], events, &[&run[1]]].concat();
        let input: String = all.iter().map(|event| format!("data: {event}\n\n")).collect();
        let (output, report) = translate_stream(PeerDialect::new_auto(), side("ag-ui"), [input.as_bytes()]);
        let named = translate_stream(side("ag-ui"), side("ag-ui"), [input.as_bytes()]).0;
        let bodies = |output: &str| output.replace(r#","protocolVersion":"1.0""#, "");
        assert_eq!(bodies(&output), bodies(&named));
        assert!(report.losses.iter().all(|count| *count == 0), "{all:?}");
    }
}

/// Events before the detection count too: the ids of the run are on every event of that dialect.
#[test]
fn keeps_the_run_start_when_a_later_event_shows_the_dialect() {
    let input = concat!(
        "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t9\",\"runId\":\"r9\"}\n\n",
        "data: {\"type\":\"STEP_STARTED\",\"threadId\":\"t9\",\"runId\":\"r9\",\"stepName\":\"router\"}\n\n",
        "data: {\"type\":\"STEP_FINISHED\",\"threadId\":\"t9\",\"runId\":\"r9\",\"stepName\":\"router\"}\n\n",
        "data: {\"type\":\"RUN_FINISHED\",\"threadId\":\"t9\",\"runId\":\"r9\"}\n\n",
    );
    let (output, _) = translate_stream(PeerDialect::new_auto(), side("ag-ui"), [input.as_bytes()]);
    let named = translate_stream(side("social-app"), side("ag-ui"), [input.as_bytes()]).0;
    assert_eq!(output, named);
}

/// Streamed text is not repeated by its end event, wherever in the run the dialect is detected: by the end event, or by
/// an event with a thread id.
#[test]
fn does_not_repeat_streamed_text_after_detection() {
    let opened = "data: {\"type\":\"TEXT_MESSAGE_START\",\"messageId\":\"m\",\"role\":\"assistant\"}\n\n";
    for (opener, kind) in [
        (opened, r#""type":"TEXT_MESSAGE_CONTENT""#),
        ("", r#""type":"TEXT_MESSAGE_CHUNK""#),
        ("", r#""type":"TEXT_MESSAGE_CONTENT""#),
        ("", r#""type":"TEXT_MESSAGE_CONTENT","threadId":"t""#),
    ] {
        let input = [
            "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n",
            opener,
            &format!("data: {{{kind},\"messageId\":\"m\",\"delta\":\"Hello\"}}\n\n"),
            "data: {\"type\":\"TEXT_MESSAGE_END\",\"messageId\":\"m\",\"answer\":\"Hello\"}\n\n",
            "data: {\"type\":\"RUN_FINISHED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n",
        ]
        .concat();
        for agent in [PeerDialect::new_auto(), side("social-app")] {
            let output = translate_stream(agent, side("ag-ui"), [input.as_bytes()]).0;
            assert_eq!(output.matches(r#""delta":"Hello""#).count(), 1, "{kind}: {output}");
        }
    }
}

fn frames(events: &[&str]) -> String {
    events.iter().map(|data| format!("data: {data}\n\n")).collect()
}

/// Returns the types of the events that a client of AG-UI 1.0 receives, and the dialects that the agent's was taken for.
fn detect_and_translate(input: &str) -> (Vec<String>, Vec<&'static str>) {
    let (output, report) = translate_stream(PeerDialect::new_auto(), side("ag-ui"), [input.as_bytes()]);
    let bytes = translate_stream(PeerDialect::new_auto(), side("ag-ui"), input.as_bytes().chunks(1)).0;
    assert_eq!(output, bytes);
    let switches = report.dialect_switches.iter().map(|switch| switch.rule.dialect.name).collect();
    (owned(&types(&events(&output))), switches)
}

fn owned(types: &[&str]) -> Vec<String> {
    types.iter().map(|&kind| kind.to_owned()).collect()
}

const SNAKE_STARTED: &str = r#"{"type":"RUN_STARTED","thread_id":"t1","run_id":"r1"}"#;
const HAI_MESSAGE: [&str; 3] = [
    r#"{"type":"BUSINESS_DATA_START","messageId":"m","role":"assistant"}"#,
    r#"{"type":"BUSINESS_DATA_CONTENT","messageId":"m","delta":"你好"}"#,
    r#"{"type":"BUSINESS_DATA_END","messageId":"m"}"#,
];

/// The stronger sign overrules a weaker one that came first, whether the weaker one is a spelling or something missing.
#[test]
fn overrules_a_weaker_sign() {
    let answer = r#"{"type":"TEXT_MESSAGE_END","messageId":"m","answer":"你好"}"#;
    let snake_finished = r#"{"type":"RUN_FINISHED","thread_id":"t1","run_id":"r1"}"#;
    for (started, weaker, text, stronger) in [
        (SNAKE_STARTED, "ag-ui-snake", &HAI_MESSAGE[..], "hai"),
        (r#"{"type":"RUN_STARTED","timestamp":1}"#, "cloudbase", &HAI_MESSAGE[..], "hai"),
        (
            r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r1","protocolVersion":"1.0"}"#,
            "ag-ui",
            &HAI_MESSAGE[..],
            "hai",
        ),
        (SNAKE_STARTED, "ag-ui-snake", &[answer][..], "social-app"),
    ] {
        let input = frames(&[&[started], text, &[snake_finished]].concat());
        assert_eq!(detect_and_translate(&input), (owned(COMPLETE_RUN), vec![weaker, stronger]), "{started}");
    }
    // The client sees what it would see if the route named the dialect.
    let input = frames(&[&[SNAKE_STARTED], &HAI_MESSAGE[..], &[snake_finished]].concat());
    let output = translate_stream(PeerDialect::new_auto(), side("ag-ui"), [input.as_bytes()]).0;
    let named = translate_stream(side("hai"), side("ag-ui"), [input.as_bytes()]).0;
    let shown = |output: &str| events(output)[1..4].to_vec();
    assert_eq!(shown(&output), shown(&named));
}

/// Objects of arguments become one, also if the dialect shows between them.
#[test]
fn merges_arguments_around_a_detection() {
    let args = |delta: &str| format!(r#"{{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":{delta}}}"#);
    let call = r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}"#;
    let end = r#"{"type":"TOOL_CALL_END","toolCallId":"c"}"#;
    for started in [r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#, r#"{"type":"RUN_STARTED"}"#, SNAKE_STARTED]
    {
        for (before, after) in [(1, 1), (2, 0), (2, 1), (1, 2)] {
            let piece = |number: usize| args(&format!(r#"{{"k{number}":{number}}}"#));
            let before: Vec<_> = (0..before).map(piece).collect();
            let after: Vec<_> = (before.len()..before.len() + after).map(piece).collect();
            let borrow = |list: &[String]| list.iter().map(String::as_str).collect::<Vec<_>>().join("\n");
            let lines = [started, call, &borrow(&before), &HAI_MESSAGE.join("\n"), &borrow(&after), end].join("\n");
            let input = frames(&lines.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>());
            let (output, _) = translate_stream(PeerDialect::new_auto(), side("ag-ui"), [input.as_bytes()]);
            let pieces = events(&output).into_iter().filter(|event| event["type"] == "TOOL_CALL_ARGS");
            let text: String = pieces.map(|event| event["delta"].as_str().expect("text").to_owned()).collect();
            let members: serde_json::Value = serde_json::from_str(&text).expect(&text);
            assert_eq!(members.as_object().expect("an object").len(), before.len() + after.len(), "{output}");
        }
    }
}

/// A run is judged by all of its events, however late a sign comes, and what was open stays open.
#[test]
fn detects_a_dialect_late_in_a_run() {
    let started = r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r1"}"#;
    let piece = |id: usize, delta: usize| {
        format!(r#"{{"type":"TEXT_MESSAGE_CONTENT","messageId":"m{id}","delta":"{delta} "}}"#)
    };
    let mut input = frames(&[started]);
    for id in 0..20 {
        input += &frames(&[&format!(r#"{{"type":"TEXT_MESSAGE_START","messageId":"m{id}","role":"assistant"}}"#)]);
        (0..30).for_each(|delta| input += &frames(&[&piece(id, delta)]));
    }
    // Only the last message shows the dialect; its text was streamed, so that its answer is no second one.
    let text: String = (0..30).map(|delta| format!("{delta} ")).collect();
    let answer = format!(r#"{{"type":"TEXT_MESSAGE_END","messageId":"m19","answer":"{text}"}}"#);
    input += &frames(&[&answer, r#"{"type":"RUN_FINISHED","threadId":"t1","runId":"r1"}"#]);
    let (seen, switches) = detect_and_translate(&input);
    assert_eq!(switches, ["social-app"]);
    assert_eq!(seen.iter().filter(|kind| *kind == "TEXT_MESSAGE_CONTENT").count(), 20 * 30);
    assert_eq!(seen.iter().filter(|kind| *kind == "TEXT_MESSAGE_START").count(), 20);

    let mut input = frames(&[started, r#"{"type":"STEP_STARTED","stepName":"s"}"#]);
    (0..100).for_each(|delta| input += &frames(&[&piece(1, delta)]));
    input += &frames(&HAI_MESSAGE);
    let (seen, switches) = detect_and_translate(&input);
    assert_eq!(switches, ["hai"]);
    assert_eq!(seen.iter().filter(|kind| *kind == "TEXT_MESSAGE_CONTENT").count(), 101);
    assert!(seen.iter().all(|kind| kind != "CUSTOM"), "{seen:?}");
}

/// Thinking that is open while another dialect is detected goes on.
#[test]
fn continues_thinking_as_another_dialect() {
    let thinking = [
        r#"{"type":"THINKING_START"}"#,
        r#"{"type":"THINKING_TEXT_MESSAGE_START"}"#,
        r#"{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":"想"}"#,
    ];
    let started = r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r1"}"#;
    let sign = r#"{"type":"STEP_STARTED","threadId":"t1","runId":"r1","stepName":"router"}"#;
    let rest = [
        r#"{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":"想"}"#,
        r#"{"type":"THINKING_TEXT_MESSAGE_END"}"#,
        r#"{"type":"THINKING_END"}"#,
        r#"{"type":"STEP_FINISHED","threadId":"t1","runId":"r1","stepName":"router"}"#,
        r#"{"type":"RUN_FINISHED","threadId":"t1","runId":"r1"}"#,
    ];
    let input = frames(&[&[started], &thinking[..], &[sign], &rest[..]].concat());
    let (seen, switches) = detect_and_translate(&input);
    assert_eq!(switches, ["ag-ui-0", "social-app"]);
    let expected = [
        "RUN_STARTED",
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "STEP_STARTED",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "REASONING_END",
        "STEP_FINISHED",
        "RUN_FINISHED",
    ];
    assert_eq!(seen, expected);
}

/// The answers to the interrupts of an agent reach it: only an agent of a version that has them interrupts.
#[test]
fn sends_the_answers_to_interrupts() {
    let body = r#"{"threadId":"t","runId":"r","protocolVersion":"1.0","messages":[],"resume":[{"interruptId":"i","status":"resolved"}]}"#;
    let ids = RunIds::new("t", "r");
    let sent = translate_request(body.as_bytes(), side("ag-ui"), PeerDialect::new_auto(), &ids).expect("a request");
    let members: serde_json::Value = serde_json::from_str(&sent.body).expect("JSON");
    assert_eq!(members["resume"][0]["interruptId"], "i");
    assert!(members.get("protocolVersion").is_none());
}

/// A dialect that is detected by the first event is translated: the version in the output is the gateway's.
#[test]
fn writes_our_protocol_version_after_detection() {
    let input = "data: {\"type\":\"RUN_STARTED\",\"thread_id\":\"t\",\"run_id\":\"r\"}\n\n";
    let output = translate_stream(PeerDialect::new_auto(), side("ag-ui"), [input.as_bytes()]).0;
    assert!(output.contains(r#""protocolVersion":"1.0""#));
}

#[tokio::test]
async fn detects_the_dialects_of_both_sides() {
    let input = read_golden_input("hai-to-ag-ui/4-2-chat-agent");
    let agent = Agent::with_response([HEAD, &input].concat());
    let mut gateway = Gateway::start_for(&agent).await;
    // A client of AG-UI 1.0 sends its version.
    let body =
        r#"{"threadId":"t","runId":"r","protocolVersion":"1.0","messages":[{"id":"1","role":"user","content":"hi"}]}"#;
    let answer = send_request(gateway.data, post("/auto", "Connection: close\r\n", body)).await;
    let received = events(answer.text());
    assert!(types(&received).contains(&"TEXT_MESSAGE_CONTENT"), "{}", answer.text());
    let line = gateway.next_log("dialect detected").await;
    assert_eq!((line["side"].as_str(), line["dialect"].as_str()), (Some("client"), Some("ag-ui")));
    let line = gateway.next_log("dialect detected").await;
    assert_eq!((line["side"].as_str(), line["dialect"].as_str()), (Some("agent"), Some("hai")));
    gateway
        .wait_for_metric(
            r#"diglot_events_total{dialect="hai",direction="from_agent",route="auto",type="BUSINESS_DATA_END"}"#,
            1.0,
        )
        .await;
    // The request of HAI's document has no `state` (§3.3.1); its client receives HAI.
    let body = r#"{"threadId":"t","runId":"r","messages":[{"id":"1","role":"user","content":"hi"}],"context":[],"tools":[],"forwardedProps":{}}"#;
    let answer = send_request(gateway.data, post("/auto", "Connection: close\r\n", body)).await;
    let received = events(answer.text());
    assert!(types(&received).contains(&"BUSINESS_DATA_CONTENT"), "{received:?}");
}

/// Runs of one route do not depend on each other: neither how an agent's events are read, nor what it is sent.
#[tokio::test]
async fn judges_each_run_by_its_own_events() {
    let snake_finished = r#"{"type":"RUN_FINISHED","thread_id":"t1","run_id":"r1"}"#;
    let hai = frames(&[&[r#"{"type":"RUN_STARTED","messageId":"m","role":"assistant"}"#], &HAI_MESSAGE[..]].concat());
    let overruled = frames(&[&[SNAKE_STARTED], &HAI_MESSAGE[..], &[snake_finished]].concat());
    let hai = hai + &frames(&[r#"{"type":"RUN_FINISHED","messageId":"m"}"#]);
    let snake = frames(&[
        SNAKE_STARTED,
        r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"助手"}"#,
        r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"你好"}"#,
        r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#,
        snake_finished,
    ]);
    // AG-UI without a sign of its own comes after each of the others.
    let runs = [hai.clone(), complete_run(), overruled, complete_run(), snake, complete_run(), hai];
    let responses: Vec<String> = runs.iter().map(|run| [HEAD, run].concat()).collect();
    let mut agent = Agent::with_responses(&responses);
    let gateway = Gateway::start_for(&agent).await;
    let body =
        r#"{"threadId":"t","runId":"r","protocolVersion":"1.0","messages":[{"id":"1","role":"user","content":"hi"}]}"#;
    let mut requests = Vec::new();
    for run in runs {
        let answer = send_request(gateway.data, post("/auto", "Connection: close\r\n", body)).await;
        assert_eq!(types(&events(answer.text())), COMPLETE_RUN, "{run}");
        requests.push(agent.next_request().await.body);
    }
    assert!(requests.iter().all(|request| *request == requests[0]));
}
