//! Routes that say `auto`: the dialect is told by what is said, on both sides.

use crate::golden::{hear, side};
use crate::support::agent::Agent;
use crate::support::client::{ask, post};
use crate::support::gateway::Gateway;
use crate::support::sse::{HEAD, events, types};
use diglot::dialect::Side;
use std::path::Path;

fn golden(case: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/stream").join(case).join("input.sse");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The agent of HAI's document (§4.2) is heard the same whether the route names its dialect or not.
#[test]
fn an_agent_is_heard_as_if_the_route_named_its_dialect() {
    let said = golden("hai-to-ag-ui/4-2-chat-agent");
    let named = hear(side("hai"), side("ag-ui"), [said.as_bytes()]).0;
    let (told, report) = hear(Side::auto(), side("ag-ui"), [said.as_bytes()]);
    assert_eq!(told, named);
    assert_eq!(report.turned.expect("a turn").sign.dialect.name, "hai");
    let bytes = hear(Side::auto(), side("ag-ui"), said.as_bytes().chunks(1)).0;
    assert_eq!(bytes, named);
}

/// What stood before the sign counts: the ids of the run stand on every event of that dialect, and are its own.
#[test]
fn the_start_of_the_run_is_remembered_when_a_later_event_tells_the_dialect() {
    let said = concat!(
        "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t9\",\"runId\":\"r9\"}\n\n",
        "data: {\"type\":\"STEP_STARTED\",\"threadId\":\"t9\",\"runId\":\"r9\",\"stepName\":\"router\"}\n\n",
        "data: {\"type\":\"STEP_FINISHED\",\"threadId\":\"t9\",\"runId\":\"r9\",\"stepName\":\"router\"}\n\n",
        "data: {\"type\":\"RUN_FINISHED\",\"threadId\":\"t9\",\"runId\":\"r9\"}\n\n",
    );
    let (told, _) = hear(Side::auto(), side("ag-ui"), [said.as_bytes()]);
    let named = hear(side("social-app"), side("ag-ui"), [said.as_bytes()]).0;
    assert_eq!(told, named);
}

/// A text that was streamed is not said again by its end, wherever in the run the dialect was told: by the end itself, or by
/// an event that says its thread.
#[test]
fn a_text_that_was_streamed_is_said_once() {
    let opened = "data: {\"type\":\"TEXT_MESSAGE_START\",\"messageId\":\"m\",\"role\":\"assistant\"}\n\n";
    for (opener, kind) in [
        (opened, r#""type":"TEXT_MESSAGE_CONTENT""#),
        ("", r#""type":"TEXT_MESSAGE_CHUNK""#),
        ("", r#""type":"TEXT_MESSAGE_CONTENT""#),
        ("", r#""type":"TEXT_MESSAGE_CONTENT","threadId":"t""#),
    ] {
        let said = [
            "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n",
            opener,
            &format!("data: {{{kind},\"messageId\":\"m\",\"delta\":\"Hello\"}}\n\n"),
            "data: {\"type\":\"TEXT_MESSAGE_END\",\"messageId\":\"m\",\"answer\":\"Hello\"}\n\n",
            "data: {\"type\":\"RUN_FINISHED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n",
        ]
        .concat();
        for agent in [Side::auto(), side("social-app")] {
            let told = hear(agent, side("ag-ui"), [said.as_bytes()]).0;
            assert_eq!(told.matches(r#""delta":"Hello""#).count(), 1, "{kind}: {told}");
        }
    }
}

/// A dialect that is told by the start of the run is translated: the version said is ours.
#[test]
fn the_version_is_that_of_what_is_written() {
    let said = "data: {\"type\":\"RUN_STARTED\",\"thread_id\":\"t\",\"run_id\":\"r\"}\n\n";
    let told = hear(Side::auto(), side("ag-ui"), [said.as_bytes()]).0;
    assert!(told.contains(r#""protocolVersion":"1.0""#));
}

#[tokio::test]
async fn a_route_may_leave_both_dialects_open() {
    let said = golden("hai-to-ag-ui/4-2-chat-agent");
    let agent = Agent::answering([HEAD, &said].concat());
    let mut gateway = Gateway::before(&agent).await;
    // A client of AG-UI 1.0 says so.
    let body =
        r#"{"threadId":"t","runId":"r","protocolVersion":"1.0","messages":[{"id":"1","role":"user","content":"hi"}]}"#;
    let answer = ask(gateway.data, post("/auto", "Connection: close\r\n", body)).await;
    let heard = events(answer.text());
    assert!(types(&heard).contains(&"TEXT_MESSAGE_CONTENT"), "{}", answer.text());
    let line = gateway.logged("dialect detected").await;
    assert_eq!((line["side"].as_str(), line["dialect"].as_str()), (Some("client"), Some("ag-ui")));
    let line = gateway.logged("dialect detected").await;
    assert_eq!((line["side"].as_str(), line["dialect"].as_str()), (Some("agent"), Some("hai")));
    gateway
        .reaches(
            r#"diglot_events_total{dialect="hai",direction="from_agent",route="auto",type="BUSINESS_DATA_END"}"#,
            1.0,
        )
        .await;
    // The request of HAI's document has no `state` (§3.3.1); its client hears HAI.
    let body = r#"{"threadId":"t","runId":"r","messages":[{"id":"1","role":"user","content":"hi"}],"context":[],"tools":[],"forwardedProps":{}}"#;
    let answer = ask(gateway.data, post("/auto", "Connection: close\r\n", body)).await;
    let heard = events(answer.text());
    assert!(types(&heard).contains(&"BUSINESS_DATA_CONTENT"), "{heard:?}");
}
