//! Routes with `auto`: the dialects of both sides are detected.

use crate::golden::{side, translate_stream};
use crate::support::agent::Agent;
use crate::support::client::{post, send_request};
use crate::support::gateway::Gateway;
use crate::support::sse::{HEAD, events, types};
use diglot::dialect::PeerDialect;
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
    assert_eq!(report.dialect_switch.expect("a turn").rule.dialect.name, "hai");
    let bytes = translate_stream(PeerDialect::new_auto(), side("ag-ui"), input.as_bytes().chunks(1)).0;
    assert_eq!(bytes, named);
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
