//! An agent of two steps behind the gateway: what it is asked, what can go wrong at each step, and how it goes on.

use super::super::support::client::{Answer, Client, INPUT, ask, post, run};
use super::super::support::sse::{HEAD, events, failed, refused, succeeded};
use super::*;

/// The path of the first route of the example.
const PATH: &str = "/agents/social";

/// What a client hears of a run in two steps.
async fn heard(steps: Vec<Step>, gets: Vec<Vec<Step>>) -> Answer {
    let agent = Agent::in_two_steps(steps, gets);
    run(before(&agent).await.data, PATH).await
}

fn stream(frames: &[String]) -> Step {
    write(HEAD.to_owned() + &frames.concat())
}

#[tokio::test]
async fn a_run_is_started_and_then_its_events_are_read() {
    let mut agent = Agent::in_two_steps(named(), vec![vec![stream(&frames("R9"))]]);
    let mut gateway = before(&agent).await;
    let answer = ask(gateway.data, post(PATH, "X-Request-Id: q1\r\nConnection: close\r\n", INPUT)).await;
    succeeded(&answer, HEARD);
    let events = events(answer.text());
    // "The request's ids are the run's ids" (translation.md §3).
    assert_eq!((&events[0]["threadId"], &events[0]["runId"]), (&"t1".into(), &"r1".into()));
    assert_eq!(events[3]["delta"], "你好");

    let start = agent.request().await;
    assert!(start.head.starts_with("POST /api/v1/agent/runs HTTP/1.1\r\n"), "{}", start.head);
    assert_eq!(start.header("accept"), Some("application/json"));
    assert_eq!((&start.json()["threadId"], &start.json()["runId"]), (&"t1".into(), &"r1".into()));
    let read = agent.request().await;
    assert!(read.head.starts_with("GET /api/v1/agent/runs/T9/events HTTP/1.1\r\n"), "{}", read.head);
    assert_eq!(read.header("accept"), Some("text/event-stream"));
    assert_eq!((read.header("last-event-id"), read.header("content-length")), (None, None));
    assert_eq!((start.header("x-request-id"), read.header("x-request-id")), (Some("q1"), Some("q1")));
    let line = gateway.logged("run ended").await;
    assert_eq!((&line["outcome"], &line["thread_id"]), (&"finished".into(), &"t1".into()));
}

#[tokio::test]
async fn an_answer_may_name_the_run_in_any_spelling_or_not_at_all() {
    let rows = [
        (
            response("200 OK", "application/json; charset=utf-8", r#"{"thread_id":"a/b 线","run_id":7}"#),
            "a%2Fb%20%E7%BA%BF",
            "7",
        ),
        (response("201 Created", "application/json", r#"{"status":"queued","threadId":null}"#), "t1", "r1"),
        ("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n".to_owned(), "t1", "r1"),
        ("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned(), "t1", "r1"),
    ];
    for (answer, thread, run_id) in rows {
        let mut agent = Agent::in_two_steps(answered(&answer), vec![vec![stream(&frames(run_id))]]);
        let gateway = before(&agent).await;
        succeeded(&run(gateway.data, PATH).await, HEARD);
        agent.request().await;
        let read = agent.request().await.head;
        assert!(read.starts_with(&format!("GET /api/v1/agent/runs/{thread}/events ")), "{answer}: {read}");
    }
}

/// The stream is the thread's: what stands in it before our run, and of another one beside it, is not ours.
#[tokio::test]
async fn events_of_other_runs_of_the_thread_are_left_out() {
    let mut all = frames("R8");
    all.push(frame("6-0", "R8", "RUN_ERROR", r#","message":"earlier","code":null"#));
    let ours = frames("R9");
    all.extend_from_slice(&ours[..2]);
    all.push(frame("7-0", "R7", "RUN_FINISHED", ""));
    all.extend_from_slice(&ours[2..]);
    succeeded(&heard(named(), vec![vec![stream(&all)]]).await, HEARD);
}

#[tokio::test]
async fn a_refused_start_is_told_in_the_agents_words_and_nothing_is_read() {
    let long = format!(r#"{{"threadId":"T9","more":"{}"}}"#, "x".repeat(64 << 10));
    let rows = [
        (response("401 Unauthorized", "application/json", r#"{"detail":"no key"}"#), 502, "upstream_status", "no key"),
        (
            response("422 Unprocessable Content", "application/json", r#"{"message":"no tools"}"#),
            422,
            "upstream_status",
            "no tools",
        ),
        (response("500 Oops", "text/html", "<h1>secret</h1>"), 502, "upstream_status", "500"),
        (response("302 Found", "text/html", ""), 502, "upstream_status", "302"),
        (response("200 OK", "text/html", "<h1>secret</h1>"), 502, "upstream_content_type", "no JSON"),
        (response("200 OK", "application/json", "[1]"), 502, "upstream_content_type", "no JSON object"),
        (response("200 OK", "application/json", r#"{"threadId":"T9""#), 502, "upstream_content_type", "no JSON object"),
        (response("200 OK", "application/json", &long), 502, "upstream_content_type", "64 KiB"),
        (response("200 OK", "application/json", r#"{"threadId":".."}"#), 502, "upstream_content_type", "path"),
        (HEAD.to_owned() + &frames("R9").concat(), 502, "upstream_content_type", "second step"),
        (
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{".to_owned(),
            502,
            "upstream_truncated",
            "ended",
        ),
        (String::new(), 502, "upstream_reset", "broke"),
    ];
    for (answer, status, code, said) in rows {
        let agent = Agent::in_two_steps(answered(&answer), vec![vec![Step::Stay]]);
        let gateway = before(&agent).await;
        let problem = refused(&run(gateway.data, PATH).await, status, code);
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.contains(said) && !detail.contains("secret"), "{answer}: {detail}");
        assert_eq!(agent.connections(), 1, "{answer}");
    }
}

#[tokio::test]
async fn refused_events_are_told_in_the_agents_words() {
    let rows = [
        (
            response("404 Not Found", "application/json", r#"{"detail":"no such thread"}"#),
            "upstream_status",
            "no such thread",
        ),
        (response("401 Unauthorized", "text/html", "<h1>secret</h1>"), "upstream_status", "401"),
        ("HTTP/1.1 204 No Content\r\n\r\n".to_owned(), "upstream_content_type", "no event stream"),
        (response("200 OK", "application/json", r#"{"error":{"message":"gone"}}"#), "upstream_content_type", "gone"),
        (response("200 OK", "text/html", "<h1>secret</h1>"), "upstream_content_type", "no event stream"),
        (String::new(), "upstream_reset", "broke"),
    ];
    for (answer, code, said) in rows {
        let problem = refused(&heard(named(), vec![vec![write(&answer)]]).await, 502, code);
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.contains(said) && !detail.contains("secret"), "{answer}: {detail}");
    }
}

#[tokio::test]
async fn an_id_that_no_path_can_hold_is_refused_before_anything_is_started() {
    let agent = Agent::in_two_steps(named(), vec![vec![Step::Stay]]);
    let gateway = before(&agent).await;
    let request = post(PATH, "Connection: close\r\n", &input(".."));
    refused(&ask(gateway.data, request).await, 400, "invalid_request");
    assert_eq!(agent.connections(), 0);
}

#[tokio::test]
async fn each_step_has_to_be_answered_in_time() {
    let quiet = |steps, gets| async move {
        let agent = Agent::in_two_steps(steps, gets);
        let url = format!("http://{}/start", agent.address());
        let routes = format!(
            "routes: [{{path: /r, client: ag-ui, agent: social-app, upstream: \"{url}\", events: \"/e?t={{thread_id}}&r={{run_id}}\", timeouts: {{first_byte: 200ms, idle: 200ms}}}}]"
        );
        let gateway = Gateway::start(Setup { routes: &routes, ..Setup::default() }).await;
        run(gateway.data, "/r").await
    };
    refused(&quiet(vec![Step::Read, Step::Stay], vec![vec![Step::Stay]]).await, 504, "upstream_timeout");
    let trickle = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{";
    refused(
        &quiet(vec![Step::Read, write(trickle), Step::Stay], vec![vec![Step::Stay]]).await,
        504,
        "upstream_timeout",
    );
    refused(&quiet(named(), vec![vec![Step::Stay]]).await, 504, "upstream_timeout");
    // An agent that is there and silent has not broken off: it is not asked again.
    let silent = quiet(named(), vec![vec![stream(&frames("R9")[..2]), Step::Stay]]).await;
    failed(&silent, "upstream_idle", &HEARD[..2]);
}

/// How a stream may break off behind its second event.
fn breaks() -> Vec<(&'static str, Vec<Step>)> {
    let begun = || stream(&frames("R9")[..2]);
    let half = frames("R9")[2].split_at(40).0.to_owned();
    vec![
        ("a clean end", vec![begun()]),
        ("an end in the middle of a frame", vec![begun(), write(&half)]),
        ("a reset", vec![begun(), Step::Pause, Step::Reset]),
        ("a reset in the middle of a frame", vec![begun(), write(half), Step::Pause, Step::Reset]),
    ]
}

/// Plays a run whose stream breaks and goes on, and gives what the client heard and the agent.
async fn broken(script: Vec<Step>, next: Vec<Vec<Step>>) -> (Answer, Agent) {
    // A reset takes what is still on its way with it, so it waits until the client has read.
    let pauses = script.iter().any(|step| matches!(step, Step::Pause));
    let agent = Agent::in_two_steps(named(), [vec![script], next].concat());
    let gateway = before(&agent).await;
    let mut client = Client::connect(gateway.data).await;
    client.send(post(PATH, "", INPUT)).await;
    let mut answer = client.head().await;
    answer.body = client.until("STEP_STARTED").await.into_bytes();
    if pauses {
        agent.go();
    }
    let (rest, end) = client.rest().await;
    answer.body.extend(rest);
    answer.end = end;
    (answer, agent)
}

#[tokio::test]
async fn a_stream_that_breaks_goes_on_behind_its_last_event_and_nothing_is_lost_or_comes_twice() {
    let whole = frames("R9");
    let ways = [("behind the last", 2), ("with the last", 1), ("from the beginning", 0)];
    for (how, script) in breaks() {
        for (from, at) in ways {
            let (answer, mut agent) = broken(script.clone(), vec![vec![stream(&whole[at..])]]).await;
            assert_eq!(answer.end, super::super::support::client::End::Clean);
            succeeded(&answer, HEARD);
            assert_eq!(agent.connections(), 3, "{how}, {from}");
            agent.request().await;
            assert_eq!(agent.request().await.header("last-event-id"), None);
            let again = agent.request().await;
            assert!(again.head.starts_with("GET /api/v1/agent/runs/T9/events "), "{}", again.head);
            assert_eq!(again.header("last-event-id"), Some("2-0"), "{how}, {from}");
        }
    }
}

#[tokio::test]
async fn each_new_event_makes_another_break_worth_a_try() {
    let whole = frames("R9");
    let gets = (1..whole.len()).map(|at| vec![stream(&whole[at..=at])]).collect();
    let agent = Agent::in_two_steps(named(), [vec![vec![stream(&whole[..1])]], gets].concat());
    let gateway = before(&agent).await;
    succeeded(&run(gateway.data, PATH).await, HEARD);
    assert_eq!(agent.connections(), 1 + whole.len());
}

#[tokio::test]
async fn an_agent_that_does_not_go_on_has_broken_off() {
    let begun = || vec![stream(&frames("R9")[..2])];
    let rows = [
        // The WHATWG's way to say that there is no more.
        ("204", vec![write("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")], 3),
        ("404", vec![write(response("404 Not Found", "text/plain", ""))], 3),
        // An empty stream, each time.
        ("empty", vec![write(HEAD)], 5),
        ("closed", vec![], 5),
    ];
    for (how, next, connections) in rows {
        let (answer, agent) = broken(begun(), vec![next]).await;
        failed(&answer, "upstream_truncated", &HEARD[..2]);
        assert_eq!(agent.connections(), connections, "{how}");
    }
}

#[tokio::test]
async fn what_has_no_id_cannot_go_on() {
    let whole = frames("R9");
    let without: String = whole[1].split_inclusive('\n').filter(|line| !line.starts_with("id:")).collect();
    let agent = Agent::in_two_steps(named(), vec![vec![stream(&[whole[0].clone(), without])]]);
    let gateway = before(&agent).await;
    failed(&run(gateway.data, PATH).await, "upstream_truncated", &HEARD[..2]);
    assert_eq!(agent.connections(), 2);
}

#[tokio::test]
async fn a_last_event_without_its_blank_line_is_heard_when_nothing_follows_it() {
    let cut = frames("R9").concat().trim_end().to_owned();
    let gone = response("404 Not Found", "text/plain", "");
    let answer = heard(named(), vec![vec![write(HEAD.to_owned() + &cut)], vec![write(gone)]]).await;
    succeeded(&answer, HEARD);
}

#[tokio::test]
async fn a_client_that_leaves_lets_go_of_both_steps() {
    for (gets, text) in [(vec![stream(&frames("R9")[..2]), Step::Stay], Some("STEP_STARTED")), (vec![Step::Stay], None)]
    {
        let mut agent = Agent::in_two_steps(named(), vec![gets]);
        let mut gateway = before(&agent).await;
        let mut client = Client::connect(gateway.data).await;
        client.send(post(PATH, "", INPUT)).await;
        agent.request().await;
        agent.request().await;
        if let Some(text) = text {
            client.head().await;
            client.until(text).await;
        }
        drop(client);
        agent.left().await;
        assert_eq!(gateway.logged("run ended").await["outcome"], "client_gone");
    }
}

#[tokio::test]
async fn a_drain_ends_the_second_step_well_formed() {
    let agent = Agent::in_two_steps(named(), vec![vec![stream(&frames("R9")[..2]), Step::Stay]]);
    let mut gateway = with(&agent, "drain_timeout: 0s").await;
    let mut client = Client::connect(gateway.data).await;
    client.send(post(PATH, "", INPUT)).await;
    let mut answer = client.head().await;
    answer.body = client.until("\"STEP_STARTED\",\"stepName\":\"worker\"").await.into_bytes();
    gateway.process.signal("TERM");
    let (rest, end) = client.rest().await;
    answer.body.extend(rest);
    answer.end = end;
    failed(&answer, "gateway_draining", &HEARD[..2]);
    assert_eq!(gateway.process.exit().await.code(), Some(0));
}
