//! A two-step client: its responses, and runs that are never read.

use super::super::support::agent::Request;
use super::super::support::client::{End, INPUT, post, post_run};
use super::super::support::sse::{
    CLOSED, CONTENT, FINISHED, HEAD, OPENED, STARTED, assert_refused, complete_run, run_beginning, types,
};
use super::*;

/// The path of the second route of the example.
const PATH: &str = "/api/v1/agent/runs";

/// The events of [`whole`] for a `social-app` client: a text comes in one event (§3.4).
const EXPECTED_EVENTS: &[&str] = &["RUN_STARTED", "TEXT_MESSAGE_END", "RUN_FINISHED"];

/// Starts a run in a thread.
async fn start_run(to: SocketAddr, thread: &str) -> Answer {
    let request = post(PATH, "Connection: close\r\n", &input(thread));
    send_request(to, request.replace("Accept: text/event-stream", "Accept: application/json")).await
}

#[track_caller]
fn assert_accepted(answer: &Answer, thread: &str) {
    assert_eq!((answer.status, answer.end), (202, End::Clean), "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let expected = serde_json::json!({ "threadId": thread, "runId": format!("r-{thread}") });
    assert_eq!(serde_json::from_str::<Value>(answer.text()).expect("JSON"), expected);
}

/// Requires that a stream ends successfully and names this thread on every event (§4).
#[track_caller]
fn assert_events(answer: &Answer, thread: &str, expected: &[&str]) -> Vec<Value> {
    assert_eq!((answer.status, answer.end), (200, End::Clean), "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let events = events(answer.text());
    assert_eq!(types(&events), expected, "{}", answer.text());
    for event in &events {
        assert_eq!((&event["threadId"], &event["runId"]), (&thread.into(), &format!("r-{thread}").into()), "{event}");
    }
    events
}

#[tokio::test]
async fn serves_the_events_of_a_run_once_and_logs_it_once() {
    let mut agent = Agent::with_script(vec![
        Step::Read,
        write(HEAD.to_owned() + STARTED),
        Step::Pause,
        write([OPENED, CONTENT, CLOSED, FINISHED].concat()),
    ]);
    let mut gateway = start_for_two_step_clients(&agent).await;
    let answer = start_run(gateway.data, "线/1").await;
    assert_accepted(&answer, "线/1");
    let events = "/api/v1/agent/runs/%E7%BA%BF%2F1/events";
    assert_eq!(answer.header("location"), Some(events));
    assert_eq!(agent.next_request().await.header("accept"), Some("text/event-stream"));

    let (mut client, mut answer) = open_reader(gateway.data, "%E7%BA%BF%2F1", "RUN_STARTED").await;
    // A second reader gets the same response as for an unknown thread.
    let second = assert_refused(&read_events(gateway.data, "%E7%BA%BF%2F1").await, 404, "events_not_found");
    let stranger = assert_refused(&read_events(gateway.data, "t0").await, 404, "events_not_found");
    assert_eq!((&second["detail"], &second["hint"]), (&stranger["detail"], &stranger["hint"]));
    agent.resume();
    let (rest, end) = client.read_rest().await;
    answer.body.extend(rest);
    let received = assert_events(&Answer { end, ..answer }, "线/1", EXPECTED_EVENTS);
    assert_eq!(received[1]["answer"], "你好");
    assert_refused(&read_events(gateway.data, "%E7%BA%BF%2F1").await, 404, "events_not_found");

    let line = gateway.next_log("run ended").await;
    assert_eq!((&line["outcome"], &line["route"]), (&"finished".into(), &"social-client".into()));
    assert_eq!(gateway.metric("diglot_streams_total{outcome=\"finished\",route=\"social-client\"}").await, 1.0);
    gateway.wait_for_metric("diglot_streams_active{route=\"social-client\"}", 0.0).await;
    assert_eq!(
        gateway.metric("diglot_requests_total{code=\"202\",method=\"POST\",route=\"social-client\"}").await,
        1.0
    );
}

#[tokio::test]
async fn keeps_pending_runs_of_several_threads_apart() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let gateway = start_for_two_step_clients(&agent).await;
    let threads = ["t1", "t2", "t3", "t4"];
    for thread in threads {
        assert_accepted(&start_run(gateway.data, thread).await, thread);
    }
    for thread in threads.into_iter().rev() {
        assert_events(&read_events(gateway.data, thread).await, thread, EXPECTED_EVENTS);
    }
    // The thread continues with its next run.
    assert_accepted(&start_run(gateway.data, "t1").await, "t1");
    assert_events(&read_events(gateway.data, "t1").await, "t1", EXPECTED_EVENTS);
}

#[tokio::test]
async fn refuses_a_second_run_of_a_busy_thread() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let gateway = start_for_two_step_clients(&agent).await;
    assert_accepted(&start_run(gateway.data, "t1").await, "t1");
    assert_refused(&start_run(gateway.data, "t1").await, 409, "thread_busy");
    assert_eq!(agent.connection_count(), 1);
    assert_events(&read_events(gateway.data, "t1").await, "t1", EXPECTED_EVENTS);
}

#[tokio::test]
async fn answers_the_start_with_an_immediate_refusal() {
    let agent =
        Agent::with_response(response("422 Unprocessable Content", "application/json", r#"{"message":"no tools"}"#));
    let gateway = start_for_two_step_clients(&agent).await;
    // The place is free again each time.
    for _ in 0..2 {
        let problem = assert_refused(&start_run(gateway.data, "t1").await, 422, "upstream_status");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains("status 422")), "{problem}");
        assert_refused(&read_events(gateway.data, "t1").await, 404, "events_not_found");
    }
}

#[tokio::test]
async fn writes_a_late_refusal_into_the_events() {
    let agent = Agent::with_script(vec![
        Step::Read,
        Step::Pause,
        write(response("422 No", "application/json", r#"{"message":"no tools"}"#)),
    ]);
    let gateway = start_for_two_step_clients(&agent).await;
    assert_accepted(&start_run(gateway.data, "t1").await, "t1");
    agent.resume();
    let error = assert_events(&read_events(gateway.data, "t1").await, "t1", &["RUN_ERROR"]).pop().expect("an error");
    assert_eq!(error["code"], "upstream_status");
    // The client needs no status line to find the reason in the log.
    let message = error["message"].as_str().expect("a message");
    assert!(message.starts_with("The agent answered with status 422. Reference: "), "{message}");
}

#[tokio::test]
async fn ends_a_run_that_is_not_read_in_time() {
    let mut agent = Agent::with_script(vec![Step::Read, write(HEAD.to_owned() + &run_beginning()), Step::WaitForClose]);
    let routes = example(&[("127.0.0.1:9002", &agent)]).replace("reader: 30s", "reader: 200ms");
    let mut gateway = Gateway::start(Setup { routes: &routes, ..Setup::default() }).await;
    assert_accepted(&start_run(gateway.data, "t1").await, "t1");
    agent.next_request().await;
    agent.wait_until_closed().await;
    assert_eq!(gateway.next_log("run not read in time").await["thread_id"], "t1");
    assert_eq!(gateway.next_log("run ended").await["outcome"], "unread");
    assert_refused(&read_events(gateway.data, "t1").await, 404, "events_not_found");
    gateway.wait_for_metric("diglot_streams_active{route=\"social-client\"}", 0.0).await;
    assert_eq!(gateway.metric("diglot_streams_total{outcome=\"unread\",route=\"social-client\"}").await, 1.0);
    assert_eq!(gateway.metric("diglot_streams_total{outcome=\"client_gone\",route=\"social-client\"}").await, 0.0);
}

/// A pending run is buffered like one of a slow client, and complete when the reader comes.
#[tokio::test]
async fn applies_backpressure_until_the_reader_comes() {
    const TIMES: usize = 20_000;
    let step = format!("data: {{\"type\":\"CUSTOM\",\"name\":\"n\",\"value\":\"{}\"}}\n\n", "x".repeat(1000));
    let script = vec![
        Step::Read,
        write(HEAD.to_owned() + STARTED),
        Step::Flood(step.clone().into_bytes(), TIMES),
        write(FINISHED),
    ];
    let agent = Agent::with_script(script);
    let gateway = start_for_two_step_clients(&agent).await;
    assert_accepted(&start_run(gateway.data, "t1").await, "t1");
    let answer = read_events(gateway.data, "t1").await;
    assert_eq!((answer.status, answer.end), (200, End::Clean));
    assert_eq!(answer.text().matches("{\"type\":\"CUSTOM\"").count(), TIMES);
    assert_eq!(agent.bytes_sent(), TIMES * step.len());
}

#[tokio::test]
async fn ends_the_run_when_its_reader_leaves() {
    let mut agent = Agent::with_script(vec![Step::Read, write(HEAD.to_owned() + STARTED), Step::WaitForClose]);
    let mut gateway = start_for_two_step_clients(&agent).await;
    assert_accepted(&start_run(gateway.data, "t1").await, "t1");
    let (client, _) = open_reader(gateway.data, "t1", "RUN_STARTED").await;
    agent.next_request().await;
    drop(client);
    agent.wait_until_closed().await;
    assert_eq!(gateway.next_log("run ended").await["outcome"], "client_gone");
}

#[tokio::test]
async fn frees_the_thread_when_a_client_leaves_before_the_answer() {
    let mut agent = Agent::with_script(vec![Step::Read, Step::WaitForClose]);
    let mut gateway = start_for_two_step_clients(&agent).await;
    // The place of the thread is free for the second.
    for _ in 0..2 {
        let mut client = Client::connect(gateway.data).await;
        client.send(post(PATH, "", &input("t1"))).await;
        agent.next_request().await;
        drop(client);
        agent.wait_until_closed().await;
        assert_eq!(gateway.next_log("run ended").await["outcome"], "client_gone");
    }
}

#[tokio::test]
async fn rejects_invalid_start_and_events_requests() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let gateway = start_for_two_step_clients(&agent).await;
    assert_accepted(&start_run(gateway.data, "t1").await, "t1");
    let events = "/api/v1/agent/runs/t1/events";
    let close = "Connection: close\r\n";
    let rows = [
        (get_request(PATH, close), 405, "method_not_allowed"),
        (post(events, close, INPUT), 405, "events_method_not_allowed"),
        (get_request(events, &format!("{close}Last-Event-ID: 1-0\r\n")), 400, "resumption_unsupported"),
        (get_request(events, close).replace("text/event-stream", "application/json"), 406, "not_acceptable"),
        (post(PATH, close, INPUT).replace("text/event-stream", "image/png"), 406, "not_acceptable"),
        (post(PATH, close, &input("..")), 400, "invalid_request"),
        (get_request("/api/v1/agent/runs/%zz/events", close), 404, "events_not_found"),
        (get_request("/api/v1/agent/runs/%ff/events", close), 404, "events_not_found"),
        (get_request("/api/v1/agent/runs/t1%00/events", close), 404, "events_not_found"),
        (get_request("/api/v1/agent/runs/%2574%31/events", close), 404, "events_not_found"),
        (get_request("/api/v1/agent/runs//events", close), 404, "route_not_found"),
        (get_request("/api/v1/agent/runs/t1/x/events", close), 404, "route_not_found"),
        (get_request("/api/v1/agent/runs/t1/events/", close), 404, "route_not_found"),
        (get_request("/api/v1/agent/runs/t1", close), 404, "route_not_found"),
    ];
    for (request, status, code) in rows {
        let answer = send_request(gateway.data, &request).await;
        assert_refused(&answer, status, code);
        let allow = [("method_not_allowed", "POST"), ("events_method_not_allowed", "GET")];
        let allowed = allow.into_iter().find(|(own, _)| *own == code).map(|(_, method)| method);
        assert_eq!(answer.header("allow"), allowed, "{request}");
    }
    // None of these requests took the run from its reader, whose segment may be percent-encoded.
    assert_events(&read_events(gateway.data, "%741").await, "t1", EXPECTED_EVENTS);
}

#[tokio::test]
async fn serves_readers_during_the_drain_grace() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let routes = example(&[("127.0.0.1:9002", &agent)]);
    let mut gateway = Gateway::start(Setup { routes: &routes, top: "drain_grace: 1h", ..Setup::default() }).await;
    assert_accepted(&start_run(gateway.data, "t1").await, "t1");
    gateway.process.signal("TERM");
    gateway.next_log("shutdown started").await;
    assert_accepted(&start_run(gateway.data, "t2").await, "t2");
    for thread in ["t1", "t2"] {
        assert_events(&read_events(gateway.data, thread).await, thread, EXPECTED_EVENTS);
    }
    gateway.process.signal("TERM");
    assert_eq!(gateway.process.exit().await.code(), Some(0));
}

#[tokio::test]
async fn ends_read_and_pending_runs_at_the_drain_timeout() {
    let agent = Agent::with_script(vec![Step::Read, write(HEAD.to_owned() + &run_beginning()), Step::WaitForClose]);
    let routes = example(&[("127.0.0.1:9002", &agent)]);
    let mut gateway = Gateway::start(Setup { routes: &routes, top: "drain_timeout: 200ms", ..Setup::default() }).await;
    assert_accepted(&start_run(gateway.data, "t1").await, "t1");
    assert_accepted(&start_run(gateway.data, "t2").await, "t2");
    let (mut client, mut answer) = open_reader(gateway.data, "t1", "RUN_STARTED").await;
    gateway.process.signal("TERM");
    let (rest, end) = client.read_rest().await;
    answer.body.extend(rest);
    let received = events(answer.text());
    assert_eq!((received.last().expect("an end")["code"].as_str(), end), (Some("gateway_draining"), End::Clean));
    for _ in 0..2 {
        assert_eq!(gateway.next_log("run ended").await["outcome"], "drained");
    }
    assert_eq!(gateway.process.exit().await.code(), Some(0));
}

/// Without `events_path` a client of the same dialect gets its events from the POST, as every other does.
#[tokio::test]
async fn streams_from_post_without_an_events_path() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let url = agent.url();
    let routes = format!("routes: [{{path: /one, client: social-app, agent: ag-ui, upstream: \"{url}\"}}]");
    let gateway = Gateway::start(Setup { routes: &routes, ..Setup::default() }).await;
    let answer = post_run(gateway.data, "/one").await;
    assert_eq!((answer.status, types(&events(answer.text())).as_slice()), (200, EXPECTED_EVENTS));
}

#[tokio::test]
async fn supports_two_steps_on_both_sides() {
    let mut agent =
        Agent::with_two_steps(accepted_steps(), vec![vec![write(HEAD.to_owned() + &frames("R9").concat())]]);
    let url = format!("http://{}/start", agent.address());
    let routes = format!(
        "routes:\n  - path: {PATH}\n    events_path: {PATH}/{{thread_id}}/events\n    client: social-app\n    agent: social-app\n    upstream: {url}\n    events: /e/{{thread_id}}/{{run_id}}\n"
    );
    let gateway = Gateway::start(Setup { routes: &routes, ..Setup::default() }).await;
    assert_accepted(&start_run(gateway.data, "t1").await, "t1");
    let expected = ["RUN_STARTED", "STEP_STARTED", "TEXT_MESSAGE_END", "STEP_FINISHED", "RUN_FINISHED"];
    assert_events(&read_events(gateway.data, "t1").await, "t1", &expected);
    agent.next_request().await;
    let Request { head, .. } = agent.next_request().await;
    assert!(head.starts_with("GET /e/T9/R9 "), "{head}");
}
