//! Two-step clients, which read the events of a thread with GET.

use super::*;

const PATH: &str = "/api/v1/agent/runs";

async fn start_two_step_gateway(agent: &Agent) -> Gateway {
    let routes = format!(
        "routes:\n  - {{name: social, path: {PATH}, events_path: \"{PATH}/{{thread_id}}/events\", client: social-app, agent: ag-ui, upstream: {}, on_disconnect: continue for 5m}}\n",
        agent.url()
    );
    Gateway::start(Setup { routes: &routes, ..Setup::default() }).await
}

fn events_path() -> String {
    format!("{PATH}/t1/events")
}

async fn start_run(gateway: &Gateway, run: &str) -> Answer {
    send_request(gateway.data, post(PATH, "", &input(run)).replace("text/event-stream", "application/json")).await
}

#[tokio::test]
async fn replays_the_events_of_a_thread_from_any_cursor() {
    let agent = start_paused_agent();
    let gateway = start_two_step_gateway(&agent).await;
    let answer = start_run(&gateway, "r1").await;
    assert_eq!((answer.status, answer.header("location")), (202, Some(&*events_path())));
    // The same again is the same run.
    assert_eq!(start_run(&gateway, "r1").await.text(), answer.text());
    let (client, first) = open_stream_until(gateway.data, get_request(&events_path(), ""), "RUN_STARTED").await;
    drop(client);
    agent.resume();
    let last = first[0].id().to_owned();
    let by_thread =
        finished_frames(&send_request(gateway.data, get_request(&events_path(), &last_event_id(&last))).await);
    assert_eq!(frame_kinds(&by_thread), ["TEXT_MESSAGE_END", "RUN_FINISHED"]);
    assert_eq!(by_thread[0].event["answer"], "你好");
    let by_run =
        send_request(gateway.data, get_request(&format!("{PATH}/runs/r1/events"), &last_event_id(&last))).await;
    assert_eq!(finished_frames(&by_run), by_thread);
    let again = send_request(gateway.data, get_request(&events_path(), "")).await;
    assert_legal(again.text(), "social-app");
    assert_eq!(finished_frames(&again).last().map(|frame| &frame.event), by_thread.last().map(|frame| &frame.event));
    assert_eq!(agent.connection_count(), 1);
    assert_refused(
        &send_request(gateway.data, get_request(&events_path(), &last_event_id("1-0"))).await,
        400,
        "invalid_cursor",
    );
    assert_refused(
        &send_request(gateway.data, get_request(&format!("{PATH}/t2/events"), &last_event_id(&last))).await,
        404,
        "run_not_found",
    );
    assert_refused(
        &send_request(gateway.data, get_request(&format!("{PATH}/t2/events"), "")).await,
        404,
        "events_not_found",
    );
}

#[tokio::test]
async fn serves_the_last_run_of_a_thread() {
    let agent = Agent::with_response([HEAD, STARTED, OPENED, CONTENT, CLOSED, FINISHED].concat());
    let gateway = start_two_step_gateway(&agent).await;
    for run in ["r1", "r2"] {
        assert_eq!(start_run(&gateway, run).await.status, 202);
        let read = finished_frames(&send_request(gateway.data, get_request(&events_path(), "")).await);
        assert_eq!(read[0].event["runId"], run);
        assert_eq!(frame_kinds(&read), ["RUN_STARTED", "TEXT_MESSAGE_END", "RUN_FINISHED"]);
    }
    assert_eq!(agent.connection_count(), 2);
}
