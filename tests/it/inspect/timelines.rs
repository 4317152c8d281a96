//! The timeline of a run names the check that refused it, and the side that was slow.

use super::super::support::agent::{Agent, Step, write};
use super::super::support::client::{Client, INPUT, post, send_request};
use super::super::support::sse::{FINISHED, HEAD, STARTED};
use super::{RunDir, start};
use serde_json::Value;

pub async fn last_timeline(run_dir: &RunDir) -> Vec<Value> {
    let run = run_dir.last_run().await;
    let (_, detail) = run_dir.request(&format!("GET /inspect/v1/runs/{}", run["id"]), "");
    serde_json::from_str::<Value>(&detail).expect("JSON")["timeline"].as_array().expect("a list").clone()
}

#[tokio::test]
async fn names_the_check_that_refused_a_request_that_passed_the_gates() {
    let agent = Agent::with_response(HEAD);
    let run_dir = RunDir::new();
    let gateway = start(&agent, &run_dir, "", "client: ag-ui, agent: ag-ui, inspect: events").await;
    assert_eq!(send_request(gateway.data, post("/chat", "", "{bad")).await.status, 400);
    let refused = |moment: &&Value| moment["verdict"] == "refused";
    let timeline = last_timeline(&run_dir).await;
    let [check] = *timeline.iter().filter(refused).collect::<Vec<_>>() else { panic!("{timeline:?}") };
    assert_eq!((&check["name"], &check["code"]), (&"request check".into(), &"invalid_request".into()));
}

/// The gateway reads nothing while it waits for a client, so the agent is not silent then.
#[tokio::test]
async fn names_the_client_as_slow_if_the_gateway_waits_for_it() {
    let text = format!(
        "data: {{\"type\":\"TEXT_MESSAGE_CHUNK\",\"messageId\":\"m\",\"delta\":\"{}\"}}\n\n",
        "x".repeat(256 << 10)
    );
    let script = vec![Step::Read, write(HEAD.to_owned() + STARTED + &text.repeat(64) + FINISHED)];
    let agent = Agent::with_script(script);
    let run_dir = RunDir::new();
    let gateway = start(&agent, &run_dir, "", "client: ag-ui, agent: ag-ui, inspect: events").await;
    let mut client = Client::connect_with_small_buffer(gateway.data).await;
    client.send(post("/chat", "Connection: close\r\n", INPUT)).await;
    // Waits of a second and more are shown: until nothing has moved for longer, whatever the sockets hold.
    let mut before = Value::Null;
    for polls in 0.. {
        assert!(polls < 30, "the gateway does not wait");
        let run = run_dir.lines("/inspect/v1/runs").pop().unwrap_or_default();
        let is_waiting = gateway.metric("diglot_slow_client_bytes").await > 0.0;
        if is_waiting && run["events_in"] == before {
            break;
        }
        before = if is_waiting { run["events_in"].clone() } else { Value::Null };
        tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
    }
    client.read_rest().await;
    let run = run_dir.last_run().await;
    let wait = &run["client_waits"][0];
    let length = wait["until_ms"].as_u64().zip(wait["from_ms"].as_u64()).map(|(until, from)| until - from);
    assert!(length.is_some_and(|length| length >= 1_000), "{run}");
    let timeline = last_timeline(&run_dir).await;
    let has = |name: &str| timeline.iter().any(|moment| moment["name"] == name);
    assert!(has("client_wait") && !has("silence"), "{timeline:?}");
}
