//! Stopping a run.

use super::*;

pub(super) fn stop_request(run: &str) -> String {
    format!("POST /run/runs/{run}/stop HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
}

#[tokio::test]
async fn stops_a_run_and_closes_open_items() {
    let mut agent =
        Agent::with_script(vec![Step::Read, write([HEAD, STARTED, OPENED, CONTENT].concat()), Step::WaitForClose]);
    let mut gateway = start_gateway(&agent).await;
    let (client, first) = start_run_until(gateway.data, "r1", END_OF_CONTENT).await;
    let (second, _) = open_stream_until(
        gateway.data,
        get_request(&run_events_path("r1"), &last_event_id(first[0].id())),
        END_OF_CONTENT,
    )
    .await;
    agent.next_request().await;
    assert_eq!(send_request(gateway.data, stop_request("r1")).await.status, 204);
    agent.wait_until_closed().await;
    for client in [client, second] {
        let end = read_rest(client).await;
        assert_eq!(frame_kinds(&end), ["TEXT_MESSAGE_END", "RUN_FINISHED"]);
        assert_eq!(end[1].event["outcome"]["type"], "cancelled");
    }
    assert_eq!(gateway.next_log("run ended").await["outcome"], "cancelled");
    assert_eq!(gateway.metric("diglot_streams_total{outcome=\"cancelled\",route=\"run\"}").await, 1.0);
    // It is kept, and stays as it is.
    assert_eq!(send_request(gateway.data, stop_request("r1")).await.status, 204);
    let again = finished_frames(&read_run(gateway.data, "r1", &last_event_id(first[2].id())).await);
    assert_eq!(frame_kinds(&again), ["TEXT_MESSAGE_END", "RUN_FINISHED"]);
    assert_refused(&send_request(gateway.data, stop_request("r2")).await, 404, "run_not_found");
    let method = stop_request("r1").replace("POST", "GET");
    assert_refused(&send_request(gateway.data, method).await, 405, "method_not_allowed");
}

#[tokio::test]
async fn stops_a_run_before_its_agent_answers() {
    let mut agent = Agent::with_script(vec![Step::Read, Step::WaitForClose]);
    let gateway = start_gateway(&agent).await;
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "", &input("r1"))).await;
    agent.next_request().await;
    assert_eq!(send_request(gateway.data, stop_request("r1")).await.status, 204);
    agent.wait_until_closed().await;
    assert_eq!(frame_kinds(&finished_frames(&client.read_answer().await)), ["RUN_STARTED", "RUN_FINISHED"]);
}

#[tokio::test]
async fn stops_a_flooding_run_without_readers() {
    let event = format!("data: {{\"type\":\"CUSTOM\",\"name\":\"n\",\"value\":\"{}\"}}\n\n", "x".repeat(1000));
    let agent = Agent::with_script(vec![
        Step::Read,
        write([HEAD, STARTED].concat()),
        Step::Flood(event.into_bytes(), 1_000_000),
    ]);
    let mut gateway = start_gateway(&agent).await;
    let (client, _) = start_run_until(gateway.data, "r1", "RUN_STARTED").await;
    drop(client);
    assert_eq!(send_request(gateway.data, stop_request("r1")).await.status, 204);
    assert_eq!(gateway.next_log("run ended").await["outcome"], "cancelled");
}
