//! A client of two steps before the gateway: what it is answered, and what becomes of a run that nobody reads.

use super::super::support::agent::Request;
use super::super::support::client::{End, INPUT, post, run};
use super::super::support::sse::{CLOSED, FINISHED, HEAD, OPENED, SAID, STARTED, begun, refused, types, whole};
use super::*;

/// The path of the second route of the example.
const PATH: &str = "/api/v1/agent/runs";

/// What a client of `social-app` hears of [`whole`]: a text comes whole (§3.4).
const HEARD: &[&str] = &["RUN_STARTED", "TEXT_MESSAGE_END", "RUN_FINISHED"];

/// Starts a run in a thread.
async fn start(to: SocketAddr, thread: &str) -> Answer {
    let request = post(PATH, "Connection: close\r\n", &input(thread));
    ask(to, request.replace("Accept: text/event-stream", "Accept: application/json")).await
}

#[track_caller]
fn accepted(answer: &Answer, thread: &str) {
    assert_eq!((answer.status, answer.end), (202, End::Clean), "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let expected = serde_json::json!({ "threadId": thread, "runId": format!("r-{thread}") });
    assert_eq!(serde_json::from_str::<Value>(answer.text()).expect("JSON"), expected);
}

/// Holds that a stream was heard to its good end, and said this thread on every event (§4).
#[track_caller]
fn heard(answer: &Answer, thread: &str, expected: &[&str]) -> Vec<Value> {
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
async fn a_run_is_started_read_once_and_logged_once() {
    let mut agent = Agent::playing(vec![
        Step::Read,
        write(HEAD.to_owned() + STARTED),
        Step::Pause,
        write([OPENED, SAID, CLOSED, FINISHED].concat()),
    ]);
    let mut gateway = behind(&agent).await;
    let answer = start(gateway.data, "线/1").await;
    accepted(&answer, "线/1");
    let events = "/api/v1/agent/runs/%E7%BA%BF%2F1/events";
    assert_eq!(answer.header("location"), Some(events));
    assert_eq!(agent.request().await.header("accept"), Some("text/event-stream"));

    let (mut client, mut answer) = reading(gateway.data, "%E7%BA%BF%2F1", "RUN_STARTED").await;
    // Whoever comes second learns no more than a stranger.
    let second = refused(&read(gateway.data, "%E7%BA%BF%2F1").await, 404, "events_not_found");
    let stranger = refused(&read(gateway.data, "t0").await, 404, "events_not_found");
    assert_eq!((&second["detail"], &second["hint"]), (&stranger["detail"], &stranger["hint"]));
    agent.go();
    let (rest, end) = client.rest().await;
    answer.body.extend(rest);
    let said = heard(&Answer { end, ..answer }, "线/1", HEARD);
    assert_eq!(said[1]["answer"], "你好");
    refused(&read(gateway.data, "%E7%BA%BF%2F1").await, 404, "events_not_found");

    let line = gateway.logged("run ended").await;
    assert_eq!((&line["outcome"], &line["route"]), (&"finished".into(), &"social-client".into()));
    assert_eq!(gateway.metric("diglot_streams_total{outcome=\"finished\",route=\"social-client\"}").await, 1.0);
    gateway.reaches("diglot_streams_active{route=\"social-client\"}", 0.0).await;
    assert_eq!(
        gateway.metric("diglot_requests_total{code=\"202\",method=\"POST\",route=\"social-client\"}").await,
        1.0
    );
}

#[tokio::test]
async fn threads_wait_beside_each_other_and_each_reader_gets_its_own() {
    let agent = Agent::answering(HEAD.to_owned() + &whole());
    let gateway = behind(&agent).await;
    let threads = ["t1", "t2", "t3", "t4"];
    for thread in threads {
        accepted(&start(gateway.data, thread).await, thread);
    }
    for thread in threads.into_iter().rev() {
        heard(&read(gateway.data, thread).await, thread, HEARD);
    }
    // The thread goes on with its next run.
    accepted(&start(gateway.data, "t1").await, "t1");
    heard(&read(gateway.data, "t1").await, "t1", HEARD);
}

#[tokio::test]
async fn a_thread_whose_run_waits_takes_no_other() {
    let agent = Agent::answering(HEAD.to_owned() + &whole());
    let gateway = behind(&agent).await;
    accepted(&start(gateway.data, "t1").await, "t1");
    refused(&start(gateway.data, "t1").await, 409, "thread_busy");
    assert_eq!(agent.connections(), 1);
    heard(&read(gateway.data, "t1").await, "t1", HEARD);
}

#[tokio::test]
async fn a_refusal_that_comes_at_once_is_the_answer_to_the_start() {
    let agent =
        Agent::answering(response("422 Unprocessable Content", "application/json", r#"{"message":"no tools"}"#));
    let gateway = behind(&agent).await;
    // The place is free again each time.
    for _ in 0..2 {
        let problem = refused(&start(gateway.data, "t1").await, 422, "upstream_status");
        assert_eq!(problem["detail"], "no tools");
        refused(&read(gateway.data, "t1").await, 404, "events_not_found");
    }
}

#[tokio::test]
async fn a_refusal_that_comes_later_is_in_the_events() {
    let agent = Agent::playing(vec![
        Step::Read,
        Step::Pause,
        write(response("422 No", "application/json", r#"{"message":"no tools"}"#)),
    ]);
    let gateway = behind(&agent).await;
    accepted(&start(gateway.data, "t1").await, "t1");
    agent.go();
    let error = heard(&read(gateway.data, "t1").await, "t1", &["RUN_ERROR"]).pop().expect("an error");
    assert_eq!((&error["code"], &error["message"]), (&"upstream_status".into(), &"no tools".into()));
}

#[tokio::test]
async fn a_run_that_nobody_reads_is_ended() {
    let mut agent = Agent::playing(vec![Step::Read, write(HEAD.to_owned() + &begun()), Step::Stay]);
    let routes = example(&[("127.0.0.1:9002", &agent)]).replace("reader: 30s", "reader: 200ms");
    let mut gateway = Gateway::start(Setup { routes: &routes, ..Setup::default() }).await;
    accepted(&start(gateway.data, "t1").await, "t1");
    agent.request().await;
    agent.left().await;
    assert_eq!(gateway.logged("nobody came for the events").await["thread_id"], "t1");
    assert_eq!(gateway.logged("run ended").await["outcome"], "unread");
    refused(&read(gateway.data, "t1").await, 404, "events_not_found");
    gateway.reaches("diglot_streams_active{route=\"social-client\"}", 0.0).await;
    assert_eq!(gateway.metric("diglot_streams_total{outcome=\"unread\",route=\"social-client\"}").await, 1.0);
    assert_eq!(gateway.metric("diglot_streams_total{outcome=\"client_gone\",route=\"social-client\"}").await, 0.0);
}

/// What waits for a reader is bounded as it is for a slow client, and whole when the reader comes.
#[tokio::test]
async fn an_agent_waits_for_the_reader() {
    const TIMES: usize = 20_000;
    let step = format!("data: {{\"type\":\"CUSTOM\",\"name\":\"n\",\"value\":\"{}\"}}\n\n", "x".repeat(1000));
    let script = vec![
        Step::Read,
        write(HEAD.to_owned() + STARTED),
        Step::Flood(step.clone().into_bytes(), TIMES),
        write(FINISHED),
    ];
    let agent = Agent::playing(script);
    let gateway = behind(&agent).await;
    accepted(&start(gateway.data, "t1").await, "t1");
    let answer = read(gateway.data, "t1").await;
    assert_eq!((answer.status, answer.end), (200, End::Clean));
    assert_eq!(answer.text().matches("{\"type\":\"CUSTOM\"").count(), TIMES);
    assert_eq!(agent.sent(), TIMES * step.len());
}

#[tokio::test]
async fn a_reader_that_leaves_ends_its_run() {
    let mut agent = Agent::playing(vec![Step::Read, write(HEAD.to_owned() + STARTED), Step::Stay]);
    let mut gateway = behind(&agent).await;
    accepted(&start(gateway.data, "t1").await, "t1");
    let (client, _) = reading(gateway.data, "t1", "RUN_STARTED").await;
    agent.request().await;
    drop(client);
    agent.left().await;
    assert_eq!(gateway.logged("run ended").await["outcome"], "client_gone");
}

#[tokio::test]
async fn a_client_that_leaves_before_it_is_answered_leaves_nothing_behind() {
    let mut agent = Agent::playing(vec![Step::Read, Step::Stay]);
    let mut gateway = behind(&agent).await;
    // The place of the thread is free for the second.
    for _ in 0..2 {
        let mut client = Client::connect(gateway.data).await;
        client.send(post(PATH, "", &input("t1"))).await;
        agent.request().await;
        drop(client);
        agent.left().await;
        assert_eq!(gateway.logged("run ended").await["outcome"], "client_gone");
    }
}

#[tokio::test]
async fn what_is_no_start_and_no_reading_is_refused() {
    let agent = Agent::answering(HEAD.to_owned() + &whole());
    let gateway = behind(&agent).await;
    accepted(&start(gateway.data, "t1").await, "t1");
    let events = "/api/v1/agent/runs/t1/events";
    let close = "Connection: close\r\n";
    let rows = [
        (get(PATH, close), 405, "method_not_allowed"),
        (post(events, close, INPUT), 405, "events_method_not_allowed"),
        (get(events, &format!("{close}Last-Event-ID: 1-0\r\n")), 400, "resumption_unsupported"),
        (get(events, close).replace("text/event-stream", "application/json"), 406, "not_acceptable"),
        (post(PATH, close, INPUT).replace("text/event-stream", "image/png"), 406, "not_acceptable"),
        (post(PATH, close, &input("..")), 400, "invalid_request"),
        (get("/api/v1/agent/runs/%zz/events", close), 404, "events_not_found"),
        (get("/api/v1/agent/runs/%ff/events", close), 404, "events_not_found"),
        (get("/api/v1/agent/runs/t1%00/events", close), 404, "events_not_found"),
        (get("/api/v1/agent/runs/%2574%31/events", close), 404, "events_not_found"),
        (get("/api/v1/agent/runs//events", close), 404, "route_not_found"),
        (get("/api/v1/agent/runs/t1/x/events", close), 404, "route_not_found"),
        (get("/api/v1/agent/runs/t1/events/", close), 404, "route_not_found"),
        (get("/api/v1/agent/runs/t1", close), 404, "route_not_found"),
    ];
    for (request, status, code) in rows {
        let answer = ask(gateway.data, &request).await;
        refused(&answer, status, code);
        let allow = [("method_not_allowed", "POST"), ("events_method_not_allowed", "GET")];
        let allowed = allow.into_iter().find(|(own, _)| *own == code).map(|(_, method)| method);
        assert_eq!(answer.header("allow"), allowed, "{request}");
    }
    // None of it has taken the run from its reader, whose segment may be encoded as it likes.
    heard(&read(gateway.data, "%741").await, "t1", HEARD);
}

#[tokio::test]
async fn a_gateway_that_leaves_has_time_for_the_reader() {
    let agent = Agent::answering(HEAD.to_owned() + &whole());
    let routes = example(&[("127.0.0.1:9002", &agent)]);
    let mut gateway = Gateway::start(Setup { routes: &routes, top: "drain_grace: 1h", ..Setup::default() }).await;
    accepted(&start(gateway.data, "t1").await, "t1");
    gateway.process.signal("TERM");
    gateway.logged("leaving").await;
    accepted(&start(gateway.data, "t2").await, "t2");
    for thread in ["t1", "t2"] {
        heard(&read(gateway.data, thread).await, thread, HEARD);
    }
    gateway.process.signal("TERM");
    assert_eq!(gateway.process.exit().await.code(), Some(0));
}

#[tokio::test]
async fn a_drain_ends_runs_that_are_read_and_runs_that_wait() {
    let agent = Agent::playing(vec![Step::Read, write(HEAD.to_owned() + &begun()), Step::Stay]);
    let routes = example(&[("127.0.0.1:9002", &agent)]);
    let mut gateway = Gateway::start(Setup { routes: &routes, top: "drain_timeout: 200ms", ..Setup::default() }).await;
    accepted(&start(gateway.data, "t1").await, "t1");
    accepted(&start(gateway.data, "t2").await, "t2");
    let (mut client, mut answer) = reading(gateway.data, "t1", "RUN_STARTED").await;
    gateway.process.signal("TERM");
    let (rest, end) = client.rest().await;
    answer.body.extend(rest);
    let said = events(answer.text());
    assert_eq!((said.last().expect("an end")["code"].as_str(), end), (Some("gateway_draining"), End::Clean));
    for _ in 0..2 {
        assert_eq!(gateway.logged("run ended").await["outcome"], "drained");
    }
    assert_eq!(gateway.process.exit().await.code(), Some(0));
}

/// Without `events_path` a client of the same dialect gets its events from the POST, as every other does.
#[tokio::test]
async fn a_client_of_one_step_stays_one() {
    let agent = Agent::answering(HEAD.to_owned() + &whole());
    let url = agent.url();
    let routes = format!("routes: [{{path: /one, client: social-app, agent: ag-ui, upstream: \"{url}\"}}]");
    let gateway = Gateway::start(Setup { routes: &routes, ..Setup::default() }).await;
    let answer = run(gateway.data, "/one").await;
    assert_eq!((answer.status, types(&events(answer.text())).as_slice()), (200, HEARD));
}

#[tokio::test]
async fn both_sides_may_do_two_steps() {
    let mut agent = Agent::in_two_steps(named(), vec![vec![write(HEAD.to_owned() + &frames("R9").concat())]]);
    let url = format!("http://{}/start", agent.address());
    let routes = format!(
        "routes:\n  - path: {PATH}\n    events_path: {PATH}/{{thread_id}}/events\n    client: social-app\n    agent: social-app\n    upstream: {url}\n    events: /e/{{thread_id}}/{{run_id}}\n"
    );
    let gateway = Gateway::start(Setup { routes: &routes, ..Setup::default() }).await;
    accepted(&start(gateway.data, "t1").await, "t1");
    let expected = ["RUN_STARTED", "STEP_STARTED", "TEXT_MESSAGE_END", "STEP_FINISHED", "RUN_FINISHED"];
    heard(&read(gateway.data, "t1").await, "t1", &expected);
    agent.request().await;
    let Request { head, .. } = agent.request().await;
    assert!(head.starts_with("GET /e/T9/R9 "), "{head}");
}
