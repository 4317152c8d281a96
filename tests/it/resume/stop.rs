//! Ending a run on purpose.

use super::*;

pub(super) fn stop(run: &str) -> String {
    format!("POST /run/runs/{run}/stop HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
}

#[tokio::test]
async fn a_run_is_stopped_and_closes_what_is_open() {
    let mut agent = Agent::playing(vec![Step::Read, write([HEAD, STARTED, OPENED, SAID].concat()), Step::Stay]);
    let mut gateway = before(&agent).await;
    let (client, first) = begun(gateway.data, "r1", HEARD).await;
    let (second, _) = opened(gateway.data, get(&events_of("r1"), &cursor(first[0].id())), HEARD).await;
    agent.request().await;
    assert_eq!(ask(gateway.data, stop("r1")).await.status, 204);
    agent.left().await;
    for client in [client, second] {
        let end = rest(client).await;
        assert_eq!(kinds(&end), ["TEXT_MESSAGE_END", "RUN_FINISHED"]);
        assert_eq!(end[1].event["outcome"]["type"], "cancelled");
    }
    assert_eq!(gateway.logged("run ended").await["outcome"], "cancelled");
    assert_eq!(gateway.metric("diglot_streams_total{outcome=\"cancelled\",route=\"run\"}").await, 1.0);
    // It is kept, and stays as it is.
    assert_eq!(ask(gateway.data, stop("r1")).await.status, 204);
    let again = heard(&read(gateway.data, "r1", &cursor(first[2].id())).await);
    assert_eq!(kinds(&again), ["TEXT_MESSAGE_END", "RUN_FINISHED"]);
    refused(&ask(gateway.data, stop("r2")).await, 404, "run_not_found");
    let method = stop("r1").replace("POST", "GET");
    refused(&ask(gateway.data, method).await, 405, "method_not_allowed");
}

#[tokio::test]
async fn a_run_is_stopped_before_its_agent_answers() {
    let mut agent = Agent::playing(vec![Step::Read, Step::Stay]);
    let gateway = before(&agent).await;
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "", &input("r1"))).await;
    agent.request().await;
    assert_eq!(ask(gateway.data, stop("r1")).await.status, 204);
    agent.left().await;
    assert_eq!(kinds(&heard(&client.answer().await)), ["RUN_STARTED", "RUN_FINISHED"]);
}

#[tokio::test]
async fn a_run_that_nobody_listens_to_is_stopped_while_its_agent_floods() {
    let event = format!("data: {{\"type\":\"CUSTOM\",\"name\":\"n\",\"value\":\"{}\"}}\n\n", "x".repeat(1000));
    let agent =
        Agent::playing(vec![Step::Read, write([HEAD, STARTED].concat()), Step::Flood(event.into_bytes(), 1_000_000)]);
    let mut gateway = before(&agent).await;
    let (client, _) = begun(gateway.data, "r1", "RUN_STARTED").await;
    drop(client);
    assert_eq!(ask(gateway.data, stop("r1")).await.status, 204);
    assert_eq!(gateway.logged("run ended").await["outcome"], "cancelled");
}
