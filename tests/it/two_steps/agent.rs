//! A two-step agent behind the gateway: its requests, faults at each step, and resumption.

use super::super::support::client::{Answer, Client, INPUT, post, post_run, send_request};
use super::super::support::sse::{HEAD, assert_failed, assert_refused, assert_succeeded, events};
use super::*;

/// The path of the first route of the example.
const PATH: &str = "/agents/social";

/// Returns the client's response of a two-step run.
async fn run_two_steps(steps: Vec<Step>, gets: Vec<Vec<Step>>) -> Answer {
    let agent = Agent::with_two_steps(steps, gets);
    post_run(start_for_two_step_agent(&agent).await.data, PATH).await
}

fn stream_step(frames: &[String]) -> Step {
    write(HEAD.to_owned() + &frames.concat())
}

#[tokio::test]
async fn starts_a_run_and_then_reads_its_events() {
    let mut agent = Agent::with_two_steps(accepted_steps(), vec![vec![stream_step(&frames("R9"))]]);
    let mut gateway = start_for_two_step_agent(&agent).await;
    let answer = send_request(gateway.data, post(PATH, "X-Request-Id: q1\r\nConnection: close\r\n", INPUT)).await;
    assert_succeeded(&answer, EXPECTED_EVENTS);
    let events = events(answer.text());
    // "The request's ids are the run's ids" (translation.md §3).
    assert_eq!((&events[0]["threadId"], &events[0]["runId"]), (&"t1".into(), &"r1".into()));
    assert_eq!(events[3]["delta"], "你好");

    let start = agent.next_request().await;
    assert!(start.head.starts_with("POST /api/v1/agent/runs HTTP/1.1\r\n"), "{}", start.head);
    assert_eq!(start.header("accept"), Some("application/json"));
    assert_eq!((&start.json()["threadId"], &start.json()["runId"]), (&"t1".into(), &"r1".into()));
    let read = agent.next_request().await;
    assert!(read.head.starts_with("GET /api/v1/agent/runs/T9/events HTTP/1.1\r\n"), "{}", read.head);
    assert_eq!(read.header("accept"), Some("text/event-stream"));
    assert_eq!((read.header("last-event-id"), read.header("content-length")), (None, None));
    assert_eq!((start.header("x-request-id"), read.header("x-request-id")), (Some("q1"), Some("q1")));
    let line = gateway.next_log("run ended").await;
    assert_eq!((&line["outcome"], &line["thread_id"]), (&"finished".into(), &"t1".into()));
}

#[tokio::test]
async fn accepts_any_spelling_of_ids_in_the_start_answer() {
    let rows = [
        (
            response("200 OK", "application/json; charset=utf-8", r#"{"thread_id":"a:b 线","run_id":7}"#),
            "a%3Ab%20%E7%BA%BF",
            "7",
        ),
        (response("201 Created", "application/json", r#"{"status":"queued","threadId":null}"#), "t1", "r1"),
        ("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n".to_owned(), "t1", "r1"),
        ("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned(), "t1", "r1"),
    ];
    for (answer, thread, run_id) in rows {
        let mut agent = Agent::with_two_steps(answer_steps(&answer), vec![vec![stream_step(&frames(run_id))]]);
        let gateway = start_for_two_step_agent(&agent).await;
        assert_succeeded(&post_run(gateway.data, PATH).await, EXPECTED_EVENTS);
        agent.next_request().await;
        let read = agent.next_request().await.head;
        assert!(read.starts_with(&format!("GET /api/v1/agent/runs/{thread}/events ")), "{answer}: {read}");
    }
}

/// The stream belongs to the thread: events before our run, and of other runs, are left out.
#[tokio::test]
async fn drops_events_of_other_runs_of_the_thread() {
    let mut all = frames("R8");
    all.push(frame("6-0", "R8", "RUN_ERROR", r#","message":"earlier","code":null"#));
    let ours = frames("R9");
    all.extend_from_slice(&ours[..2]);
    all.push(frame("7-0", "R7", "RUN_FINISHED", ""));
    all.extend_from_slice(&ours[2..]);
    assert_succeeded(&run_two_steps(accepted_steps(), vec![vec![stream_step(&all)]]).await, EXPECTED_EVENTS);
}

#[tokio::test]
async fn passes_on_a_refused_start_and_reads_no_events() {
    let long = format!(r#"{{"threadId":"T9","more":"{}"}}"#, "x".repeat(64 << 10));
    let rows = [
        (
            response("401 Unauthorized", "application/json", r#"{"detail":"no key"}"#),
            502,
            "upstream_status",
            "status 401. Reference: ",
        ),
        (
            response("422 Unprocessable Content", "application/json", r#"{"message":"no tools"}"#),
            422,
            "upstream_status",
            "status 422. Reference: ",
        ),
        (response("500 Oops", "text/html", "<h1>secret</h1>"), 502, "upstream_status", "500"),
        (response("302 Found", "text/html", ""), 502, "upstream_status", "302"),
        (response("200 OK", "text/html", "<h1>secret</h1>"), 502, "upstream_content_type", "other than JSON"),
        (response("200 OK", "application/json", "[1]"), 502, "upstream_content_type", "other than a JSON object"),
        (
            response("200 OK", "application/json", r#"{"threadId":"T9""#),
            502,
            "upstream_content_type",
            "other than a JSON object",
        ),
        (response("200 OK", "application/json", &long), 502, "upstream_content_type", "64 KiB"),
        (response("200 OK", "application/json", r#"{"threadId":".."}"#), 502, "upstream_content_type", "path"),
        (response("200 OK", "application/json", r#"{"threadId":"..%2Fx"}"#), 502, "upstream_content_type", "path"),
        (HEAD.to_owned() + &frames("R9").concat(), 502, "upstream_content_type", "second step"),
        (
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{".to_owned(),
            502,
            "upstream_truncated",
            "ended",
        ),
        (String::new(), 502, "upstream_reset", "broke"),
    ];
    for (answer, status, code, expected) in rows {
        let agent = Agent::with_two_steps(answer_steps(&answer), vec![vec![Step::WaitForClose]]);
        let gateway = start_for_two_step_agent(&agent).await;
        let problem = assert_refused(&post_run(gateway.data, PATH).await, status, code);
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.contains(expected) && !detail.contains("secret"), "{answer}: {detail}");
        assert_eq!(agent.connection_count(), 1, "{answer}");
    }
}

#[tokio::test]
async fn passes_on_the_status_when_events_are_refused() {
    let rows = [
        (
            response("404 Not Found", "application/json", r#"{"detail":"no such thread"}"#),
            "upstream_status",
            "status 404. Reference: ",
        ),
        (response("401 Unauthorized", "text/html", "<h1>secret</h1>"), "upstream_status", "401"),
        ("HTTP/1.1 204 No Content\r\n\r\n".to_owned(), "upstream_content_type", "not an event stream"),
        (
            response("200 OK", "application/json", r#"{"error":{"message":"gone"}}"#),
            "upstream_content_type",
            "not an event stream",
        ),
        (response("200 OK", "text/html", "<h1>secret</h1>"), "upstream_content_type", "not an event stream"),
        (String::new(), "upstream_reset", "broke"),
    ];
    for (answer, code, expected) in rows {
        let problem = assert_refused(&run_two_steps(accepted_steps(), vec![vec![write(&answer)]]).await, 502, code);
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.contains(expected) && !detail.contains("secret"), "{answer}: {detail}");
    }
}

#[tokio::test]
async fn refuses_ids_that_fit_no_path() {
    let agent = Agent::with_two_steps(accepted_steps(), vec![vec![Step::WaitForClose]]);
    let gateway = start_for_two_step_agent(&agent).await;
    for id in ["..", "../../admin", "..%2F..%2Fadmin", "..%252Fadmin", r"..\\admin", "..%5cadmin", "a/b"] {
        let request = post(PATH, "Connection: close\r\n", &input(id));
        let problem = assert_refused(&send_request(gateway.data, request).await, 400, "invalid_request");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains("percent-encoded")), "{id}: {problem}");
    }
    assert_eq!(agent.connection_count(), 0);
}

#[tokio::test]
async fn times_out_each_step() {
    let quiet = |steps, gets| async move {
        let agent = Agent::with_two_steps(steps, gets);
        let url = format!("http://{}/start", agent.address());
        let routes = format!(
            "routes: [{{path: /r, client: ag-ui, agent: social-app, upstream: \"{url}\", events: \"/e?t={{thread_id}}&r={{run_id}}\", timeouts: {{first_byte: 200ms, idle: 200ms}}}}]"
        );
        let gateway = Gateway::start(Setup { routes: &routes, ..Setup::default() }).await;
        post_run(gateway.data, "/r").await
    };
    assert_refused(
        &quiet(vec![Step::Read, Step::WaitForClose], vec![vec![Step::WaitForClose]]).await,
        504,
        "upstream_timeout",
    );
    let trickle = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{";
    assert_refused(
        &quiet(vec![Step::Read, write(trickle), Step::WaitForClose], vec![vec![Step::WaitForClose]]).await,
        504,
        "upstream_timeout",
    );
    assert_refused(&quiet(accepted_steps(), vec![vec![Step::WaitForClose]]).await, 504, "upstream_timeout");
    // A silent agent has not broken off, so its stream is not resumed.
    let silent = quiet(accepted_steps(), vec![vec![stream_step(&frames("R9")[..2]), Step::WaitForClose]]).await;
    assert_failed(&silent, "upstream_idle", &EXPECTED_EVENTS[..2]);
}

/// Ways in which a stream can break after its second event.
fn stream_breaks() -> Vec<(&'static str, Vec<Step>)> {
    let begun = || stream_step(&frames("R9")[..2]);
    let half = frames("R9")[2].split_at(40).0.to_owned();
    vec![
        ("a clean end", vec![begun()]),
        ("an end in the middle of a frame", vec![begun(), write(&half)]),
        ("a reset", vec![begun(), Step::Pause, Step::Reset]),
        ("a reset in the middle of a frame", vec![begun(), write(half), Step::Pause, Step::Reset]),
    ]
}

/// Plays a run whose stream breaks and continues; returns the client's response and the agent.
async fn resume_broken_stream(script: Vec<Step>, next: Vec<Vec<Step>>) -> (Answer, Agent) {
    // A reset takes what is still on its way with it, so it waits until the client has read.
    let pauses = script.iter().any(|step| matches!(step, Step::Pause));
    let agent = Agent::with_two_steps(accepted_steps(), [vec![script], next].concat());
    let gateway = start_for_two_step_agent(&agent).await;
    let mut client = Client::connect(gateway.data).await;
    client.send(post(PATH, "", INPUT)).await;
    let mut answer = client.read_head().await;
    answer.body = client.read_until("STEP_STARTED").await.into_bytes();
    if pauses {
        agent.resume();
    }
    let (rest, end) = client.read_rest().await;
    answer.body.extend(rest);
    answer.end = end;
    (answer, agent)
}

#[tokio::test]
async fn resumes_a_broken_stream_after_its_last_event() {
    let whole = frames("R9");
    let ways = [("behind the last", 2), ("with the last", 1), ("from the beginning", 0)];
    for (how, script) in stream_breaks() {
        for (from, at) in ways {
            let (answer, mut agent) = resume_broken_stream(script.clone(), vec![vec![stream_step(&whole[at..])]]).await;
            assert_eq!(answer.end, super::super::support::client::End::Clean);
            assert_succeeded(&answer, EXPECTED_EVENTS);
            assert_eq!(agent.connection_count(), 3, "{how}, {from}");
            agent.next_request().await;
            assert_eq!(agent.next_request().await.header("last-event-id"), None);
            let again = agent.next_request().await;
            assert!(again.head.starts_with("GET /api/v1/agent/runs/T9/events "), "{}", again.head);
            assert_eq!(again.header("last-event-id"), Some("2-0"), "{how}, {from}");
        }
    }
}

#[tokio::test]
async fn resets_the_retry_budget_with_each_new_event() {
    let whole = frames("R9");
    let gets = (1..whole.len()).map(|at| vec![stream_step(&whole[at..=at])]).collect();
    let agent = Agent::with_two_steps(accepted_steps(), [vec![vec![stream_step(&whole[..1])]], gets].concat());
    let gateway = start_for_two_step_agent(&agent).await;
    assert_succeeded(&post_run(gateway.data, PATH).await, EXPECTED_EVENTS);
    assert_eq!(agent.connection_count(), 1 + whole.len());
}

#[tokio::test]
async fn reports_truncation_when_the_agent_cannot_resume() {
    let begun = || vec![stream_step(&frames("R9")[..2])];
    let rows = [
        // The WHATWG's signal for the end of reconnecting.
        ("204", vec![write("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")], 3),
        ("404", vec![write(response("404 Not Found", "text/plain", ""))], 3),
        // An empty stream, each time.
        ("empty", vec![write(HEAD)], 5),
        ("closed", vec![], 5),
    ];
    for (how, next, connections) in rows {
        let (answer, agent) = resume_broken_stream(begun(), vec![next]).await;
        assert_failed(&answer, "upstream_truncated", &EXPECTED_EVENTS[..2]);
        assert_eq!(agent.connection_count(), connections, "{how}");
    }
}

#[tokio::test]
async fn does_not_resume_a_stream_without_event_ids() {
    let whole = frames("R9");
    let without: String = whole[1].split_inclusive('\n').filter(|line| !line.starts_with("id:")).collect();
    let agent = Agent::with_two_steps(accepted_steps(), vec![vec![stream_step(&[whole[0].clone(), without])]]);
    let gateway = start_for_two_step_agent(&agent).await;
    assert_failed(&post_run(gateway.data, PATH).await, "upstream_truncated", &EXPECTED_EVENTS[..2]);
    assert_eq!(agent.connection_count(), 2);
}

#[tokio::test]
async fn accepts_a_last_event_without_its_blank_line() {
    let cut = frames("R9").concat().trim_end().to_owned();
    let gone = response("404 Not Found", "text/plain", "");
    let answer = run_two_steps(accepted_steps(), vec![vec![write(HEAD.to_owned() + &cut)], vec![write(gone)]]).await;
    assert_succeeded(&answer, EXPECTED_EVENTS);
}

#[tokio::test]
async fn releases_both_steps_when_the_client_leaves() {
    for (gets, text) in [
        (vec![stream_step(&frames("R9")[..2]), Step::WaitForClose], Some("STEP_STARTED")),
        (vec![Step::WaitForClose], None),
    ] {
        let mut agent = Agent::with_two_steps(accepted_steps(), vec![gets]);
        let mut gateway = start_for_two_step_agent(&agent).await;
        let mut client = Client::connect(gateway.data).await;
        client.send(post(PATH, "", INPUT)).await;
        agent.next_request().await;
        agent.next_request().await;
        if let Some(text) = text {
            client.read_head().await;
            client.read_until(text).await;
        }
        drop(client);
        agent.wait_until_closed().await;
        assert_eq!(gateway.next_log("run ended").await["outcome"], "client_gone");
    }
}

#[tokio::test]
async fn ends_the_second_step_with_an_error_at_the_drain_timeout() {
    let agent =
        Agent::with_two_steps(accepted_steps(), vec![vec![stream_step(&frames("R9")[..2]), Step::WaitForClose]]);
    let mut gateway = start_for_two_step_agent_with(&agent, "drain_timeout: 0s").await;
    let mut client = Client::connect(gateway.data).await;
    client.send(post(PATH, "", INPUT)).await;
    let mut answer = client.read_head().await;
    answer.body = client.read_until("\"STEP_STARTED\",\"stepName\":\"worker\"").await.into_bytes();
    gateway.process.signal("TERM");
    let (rest, end) = client.read_rest().await;
    answer.body.extend(rest);
    answer.end = end;
    assert_failed(&answer, "gateway_draining", &EXPECTED_EVENTS[..2]);
    assert_eq!(gateway.process.exit().await.code(), Some(0));
}
