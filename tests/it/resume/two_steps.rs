//! Clients of two steps, which come for the events of a thread with GET.

use super::*;

const PATH: &str = "/api/v1/agent/runs";

async fn gateway(agent: &Agent) -> Gateway {
    let routes = format!(
        "routes:\n  - {{name: social, path: {PATH}, events_path: \"{PATH}/{{thread_id}}/events\", client: social-app, agent: ag-ui, upstream: {}, on_disconnect: continue for 5m}}\n",
        agent.url()
    );
    Gateway::start(Setup { routes: &routes, ..Setup::default() }).await
}

fn events() -> String {
    format!("{PATH}/t1/events")
}

async fn start(gateway: &Gateway, run: &str) -> Answer {
    ask(gateway.data, post(PATH, "", &input(run)).replace("text/event-stream", "application/json")).await
}

#[tokio::test]
async fn the_events_of_a_thread_are_read_again_and_from_anywhere() {
    let agent = waiting();
    let gateway = gateway(&agent).await;
    let answer = start(&gateway, "r1").await;
    assert_eq!((answer.status, answer.header("location")), (202, Some(&*events())));
    // The same again is the same run.
    assert_eq!(start(&gateway, "r1").await.text(), answer.text());
    let (client, first) = opened(gateway.data, get(&events(), ""), "RUN_STARTED").await;
    drop(client);
    agent.go();
    let last = first[0].id().to_owned();
    let by_thread = heard(&ask(gateway.data, get(&events(), &cursor(&last))).await);
    assert_eq!(kinds(&by_thread), ["TEXT_MESSAGE_END", "RUN_FINISHED"]);
    assert_eq!(by_thread[0].event["answer"], "你好");
    let by_run = ask(gateway.data, get(&format!("{PATH}/runs/r1/events"), &cursor(&last))).await;
    assert_eq!(heard(&by_run), by_thread);
    let again = ask(gateway.data, get(&events(), "")).await;
    legal(again.text(), "social-app");
    assert_eq!(heard(&again).last().map(|frame| &frame.event), by_thread.last().map(|frame| &frame.event));
    assert_eq!(agent.connections(), 1);
    refused(&ask(gateway.data, get(&events(), &cursor("1-0"))).await, 400, "invalid_cursor");
    refused(&ask(gateway.data, get(&format!("{PATH}/t2/events"), &cursor(&last))).await, 404, "run_not_found");
    refused(&ask(gateway.data, get(&format!("{PATH}/t2/events"), "")).await, 404, "events_not_found");
}

#[tokio::test]
async fn a_thread_goes_on_with_its_last_run() {
    let agent = Agent::answering([HEAD, STARTED, OPENED, SAID, CLOSED, FINISHED].concat());
    let gateway = gateway(&agent).await;
    for run in ["r1", "r2"] {
        assert_eq!(start(&gateway, run).await.status, 202);
        let read = heard(&ask(gateway.data, get(&events(), "")).await);
        assert_eq!(read[0].event["runId"], run);
        assert_eq!(kinds(&read), ["RUN_STARTED", "TEXT_MESSAGE_END", "RUN_FINISHED"]);
    }
    assert_eq!(agent.connections(), 2);
}
