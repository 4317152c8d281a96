//! Coming back to a run: what was missed comes once, and the agent is asked once.

use super::*;
use futures_util::future::join_all;

/// A run with a bit of everything, an event each.
pub(super) fn script() -> Vec<String> {
    let events = [
        r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r1"}"#,
        r#"{"type":"STEP_STARTED","stepName":"plan"}"#,
        r#"{"type":"TEXT_MESSAGE_START","messageId":"a1","role":"assistant"}"#,
        r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"a1","delta":"one "}"#,
        r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"a1","delta":"二 "}"#,
        r#"{"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"search","parentMessageId":"a1"}"#,
        r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c1","delta":"{\"q\":"}"#,
        r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c1","delta":"1}"}"#,
        r#"{"type":"TOOL_CALL_END","toolCallId":"c1"}"#,
        r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"a1","delta":"three"}"#,
        r#"{"type":"TEXT_MESSAGE_END","messageId":"a1"}"#,
        r#"{"type":"TOOL_CALL_RESULT","messageId":"m-c1","toolCallId":"c1","content":"found"}"#,
        r#"{"type":"STATE_SNAPSHOT","snapshot":{"n":1}}"#,
        r#"{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/n","value":2}]}"#,
        r#"{"type":"CUSTOM","name":"note","value":{"k":[1,2]}}"#,
        r#"{"type":"STEP_FINISHED","stepName":"plan"}"#,
        r#"{"type":"RUN_FINISHED","threadId":"t1","runId":"r1"}"#,
    ];
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

/// An agent that says the script, and waits behind its first so many events.
fn pausing(behind: usize) -> Agent {
    let script = script();
    Agent::playing(vec![
        Step::Read,
        write(HEAD.to_owned() + &script[..behind].concat()),
        Step::Pause,
        write(script[behind..].concat()),
    ])
}

/// What a client hears of it that never leaves.
pub(super) async fn uninterrupted() -> Vec<Frame> {
    let agent = Agent::answering(HEAD.to_owned() + &script().concat());
    let gateway = before(&agent).await;
    heard(&ask(gateway.data, post("/run", "", &input("r1"))).await)
}

pub(super) fn events(frames: &[Frame]) -> Vec<&Value> {
    frames.iter().map(|frame| &frame.event).collect()
}

#[tokio::test]
async fn a_client_that_is_killed_behind_any_event_gets_the_rest_once() {
    let whole = uninterrupted().await;
    assert_eq!(whole.len(), script().len());
    let each = (1..whole.len()).map(|behind| {
        let whole = &whole;
        async move {
            let agent = pausing(behind);
            let gateway = before(&agent).await;
            let (client, first) = begun(gateway.data, "r1", &format!("-{behind}\n")).await;
            // What came of the event itself may be cut off; then it was not heard.
            assert!(first.len() == behind || first.len() + 1 == behind, "{behind}: {}", first.len());
            drop(client);
            let last = first.last().map_or_else(|| format!("{}-0", "a".repeat(10)), |frame| frame.id().to_owned());
            if first.is_empty() {
                agent.go();
                refused(&read(gateway.data, "r1", &cursor(&last)).await, 410, "cursor_gone");
                return;
            }
            // Twice while it goes on, by both ways at once, and once behind its end.
            let again = post("/run", &cursor(&last), &input("r1").replace("hi", "the body may differ"));
            let (mut one, mut two) = (Client::connect(gateway.data).await, Client::connect(gateway.data).await);
            one.send(again).await;
            two.send(get(&events_of("r1"), &cursor(&last))).await;
            let (one_head, two_head) = (one.head().await, two.head().await);
            assert_eq!((one_head.status, two_head.status), (200, 200));
            agent.go();
            let (one, two) = (rest(one).await, rest(two).await);
            let late = heard(&read(gateway.data, "r1", &cursor(&last)).await);
            for missed in [one, two, late] {
                let all = [first.clone(), missed].concat();
                assert_eq!(events(&all), events(whole), "behind {behind}");
                let numbers: Vec<_> = all.iter().map(|frame| frame.id().split_once('-').expect("an id").1).collect();
                let expected: Vec<_> = (1..=whole.len()).map(|number| number.to_string()).collect();
                assert_eq!(numbers, expected);
                assert!(all.iter().all(|frame| frame.id()[..10] == last[..10]));
            }
            assert_eq!(agent.connections(), 1);
        }
    });
    // A gateway for each, and all at once: they wait more than they do.
    join_all(each).await;
}

#[tokio::test]
async fn a_client_without_a_cursor_gets_a_prelude_from_any_event_on() {
    let whole = uninterrupted().await;
    for behind in 1..whole.len() {
        let agent = pausing(behind);
        let gateway = before(&agent).await;
        let (client, _) = begun(gateway.data, "r1", &format!("-{behind}\n")).await;
        drop(client);
        // The same request again, and by the run's id.
        let (mut one, mut two) = (Client::connect(gateway.data).await, Client::connect(gateway.data).await);
        one.send(post("/run", "", &input("r1"))).await;
        two.send(get(&events_of("r1"), "")).await;
        assert_eq!((one.head().await.status, two.head().await.status), (200, 200));
        agent.go();
        for client in [&mut one, &mut two] {
            let (body, end) = client.rest().await;
            assert_eq!(end, End::Clean);
            let body = String::from_utf8(body).expect("UTF-8");
            legal(&body, "ag-ui");
            let heard = frames(&body);
            assert_eq!(texts(&heard), texts(&whole), "behind {behind}");
            assert_eq!(heard.first().map(Frame::kind), Some("RUN_STARTED"));
            assert_eq!(heard.last().map(Frame::kind), Some("RUN_FINISHED"));
            // A client that is cut off in the middle of a prelude comes back without a cursor.
            let prelude = heard.len() - (whole.len() - behind);
            assert!(heard[..prelude - 1].iter().all(|frame| frame.id.is_none()), "{body}");
            assert!(heard[prelude - 1].id().ends_with(&format!("-{behind}")), "{body}");
        }
        assert_eq!(agent.connections(), 1);
    }
}

#[tokio::test]
async fn a_run_that_has_ended_is_heard_again() {
    let agent = Agent::answering(HEAD.to_owned() + &script().concat());
    let gateway = before(&agent).await;
    let whole = heard(&ask(gateway.data, post("/run", "", &input("r1"))).await);
    let last = whole.last().expect("an end").id().to_owned();
    // Everything was heard: an empty rest, and a clean end.
    assert_eq!(heard(&read(gateway.data, "r1", &cursor(&last)).await), []);
    for answer in [read(gateway.data, "r1", "").await, ask(gateway.data, post("/run", "", &input("r1"))).await] {
        let again = heard(&answer);
        legal(answer.text(), "ag-ui");
        assert_eq!(texts(&again), texts(&whole));
        assert_eq!(again.last().map(|frame| &frame.event), whole.last().map(|frame| &frame.event));
        assert_eq!(again.last().expect("an end").id(), last);
    }
    assert_eq!(agent.connections(), 1);
}

#[tokio::test]
async fn the_same_request_twice_at_once_is_one_run() {
    let agent = waiting();
    let gateway = before(&agent).await;
    let (mut clients, request) = (Vec::new(), post("/run", "", &input("r1")));
    for _ in 0..4 {
        let mut client = Client::connect(gateway.data).await;
        client.send(&request).await;
        clients.push(client);
    }
    for client in &mut clients {
        assert_eq!(client.head().await.status, 200);
    }
    agent.go();
    for client in clients {
        assert_eq!(texts(&rest(client).await), [("a1".to_owned(), "你好".to_owned())]);
    }
    assert_eq!(agent.connections(), 1);
}

#[tokio::test]
async fn what_is_no_way_back_says_so() {
    let agent = waiting();
    let gateway = before(&agent).await;
    let (client, first) = begun(gateway.data, "r1", HEARD).await;
    let (token, _) = first[0].id().split_once('-').expect("an id");
    for odd in ["1", "x-1", "-", &format!("{token}-"), &format!("{token}-01"), &format!("{token}-1x")] {
        refused(&read(gateway.data, "r1", &cursor(odd)).await, 400, "invalid_cursor");
        refused(&ask(gateway.data, post("/run", &cursor(odd), &input("r1"))).await, 400, "invalid_cursor");
    }
    let twice = format!("{0}{0}", cursor(first[0].id()));
    refused(&read(gateway.data, "r1", &twice).await, 400, "invalid_cursor");
    // Another run's, and one that is ahead.
    for gone in ["aaaaaaaaaa-1".to_owned(), format!("{token}-4"), format!("{token}-{}", u64::MAX)] {
        let problem = refused(&read(gateway.data, "r1", &cursor(&gone)).await, 410, "cursor_gone");
        assert!(problem["hint"].as_str().is_some_and(|hint| hint.contains("without Last-Event-ID")), "{problem}");
        refused(&ask(gateway.data, post("/run", &cursor(&gone), &input("r1"))).await, 410, "cursor_gone");
    }
    let known = first[0].id();
    for run in ["r2", "R1", "%72%00", "%ff", ".."] {
        refused(&read(gateway.data, run, "").await, 404, "run_not_found");
        refused(&read(gateway.data, run, &cursor(known)).await, 404, "run_not_found");
    }
    // An id may be encoded as one likes.
    let (other, _) = opened(gateway.data, get(&events_of("%721"), ""), HEARD).await;
    drop(other);
    refused(&ask(gateway.data, post("/run", &cursor(known), &input("r2"))).await, 404, "run_not_found");
    let thread = input("r1").replace("\"t1\"", "\"t2\"");
    refused(&ask(gateway.data, post("/run", &cursor(known), &thread)).await, 404, "run_not_found");
    refused(&ask(gateway.data, post(&events_of("r1"), "", "{}")).await, 405, "events_method_not_allowed");
    for path in
        ["/run/runs/r1", "/run/runs//events", "/run/runs/r1/events/", "/run/runs/a/b/events", "/other/runs/r1/events"]
    {
        refused(&ask(gateway.data, get(path, "")).await, 404, "route_not_found");
    }
    let html = get(&events_of("r1"), "").replace("text/event-stream", "text/html");
    refused(&ask(gateway.data, html).await, 406, "not_acceptable");
    assert_eq!(agent.connections(), 1);
    agent.go();
    assert_eq!(kinds(&rest(client).await), ["TEXT_MESSAGE_END", "RUN_FINISHED"]);
}

#[tokio::test]
async fn another_run_of_the_same_id_waits_for_the_end_of_the_first() {
    let agent = waiting();
    let gateway = before(&agent).await;
    let (client, _) = begun(gateway.data, "r1", HEARD).await;
    let other = input("r1").replace("hi", "something else");
    refused(&ask(gateway.data, post("/run", "", &other)).await, 409, "run_id_taken");
    assert_eq!(agent.connections(), 1);
    agent.go();
    rest(client).await;
    let (client, first) = opened(gateway.data, post("/run", "", &other), HEARD).await;
    assert_eq!(agent.connections(), 2);
    agent.go();
    rest(client).await;
    // It took the place of the first.
    let again = heard(&read(gateway.data, "r1", &cursor(first[0].id())).await);
    assert_eq!(again.len(), 4);
    assert_eq!(gateway.metric("diglot_replay_evictions_total{reason=\"replaced\"}").await, 1.0);
}

#[tokio::test]
async fn a_run_that_was_refused_is_asked_for_again() {
    let agent = Agent::answering("HTTP/1.1 422 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let gateway = before(&agent).await;
    for asked in 1..3 {
        refused(&ask(gateway.data, post("/run", "", &input("r1"))).await, 422, "upstream_status");
        assert_eq!(agent.connections(), asked);
        refused(&read(gateway.data, "r1", "").await, 404, "run_not_found");
    }
    assert_eq!(gateway.metric("diglot_replay_runs").await, 0.0);
}

#[tokio::test]
async fn a_run_that_fails_after_its_client_left_tells_who_comes_back() {
    let agent =
        Agent::playing(vec![Step::Read, write([HEAD, STARTED, OPENED, SAID].concat()), Step::Pause, Step::Reset]);
    let mut gateway = before(&agent).await;
    let (client, first) = begun(gateway.data, "r1", HEARD).await;
    drop(client);
    agent.go();
    gateway.logged("run ended").await;
    let missed = heard(&read(gateway.data, "r1", &cursor(first[2].id())).await);
    assert_eq!(kinds(&missed), ["RUN_ERROR"]);
    assert_eq!(missed[0].event["code"], "upstream_reset");
}

/// A client of HAI gets the conversation as its own snapshot (seed 000, §3.3.3).
#[tokio::test]
async fn a_client_of_hai_comes_back_too() {
    let agent = waiting();
    let gateway = before(&agent).await;
    let (client, first) = opened(gateway.data, post("/hai", "", &input("r1")), "你好").await;
    let last = first.last().expect("events").id().to_owned();
    drop(client);
    let (mut snapshot, mut cursored) = (Client::connect(gateway.data).await, Client::connect(gateway.data).await);
    snapshot.send(get("/hai/runs/r1/events", "")).await;
    cursored.send(get("/hai/runs/r1/events", &cursor(&last))).await;
    assert_eq!((snapshot.head().await.status, cursored.head().await.status), (200, 200));
    agent.go();
    let all = [first, rest(cursored).await].concat();
    let (body, _) = snapshot.rest().await;
    let body = String::from_utf8(body).expect("UTF-8");
    legal(&body, "hai");
    let again = frames(&body);
    assert_eq!(again.last().map(|frame| &frame.event), all.last().map(|frame| &frame.event));
    let said = again.iter().find(|frame| frame.kind() == "MESSAGE_SNAPSHOT").expect("a snapshot");
    let message = &said.event["messages"][0];
    assert_eq!((&message["id"], &message["role"], &message["content"]), (&"m1".into(), &"user".into(), &"hi".into()));
}

#[tokio::test]
async fn protobuf_has_no_way_back() {
    let agent = waiting();
    let gateway = before(&agent).await;
    let request = post("/run", "", &input("r1")).replace("text/event-stream", "application/vnd.ag-ui.event+proto");
    let mut client = Client::connect(gateway.data).await;
    client.send(request).await;
    assert_eq!(client.head().await.header("content-type"), Some("application/vnd.ag-ui.event+proto"));
    refused(&read(gateway.data, "r1", "").await, 404, "run_not_found");
    let wants = get(&events_of("r1"), "").replace("text/event-stream", "application/vnd.ag-ui.event+proto");
    refused(&ask(gateway.data, wants).await, 406, "not_acceptable");
    drop(client);
    gateway.reaches("diglot_streams_total{outcome=\"client_gone\",route=\"run\"}", 1.0).await;
}

/// Where nothing is said about it events have no ids, and a run ends with its client.
#[tokio::test]
async fn a_route_that_aborts_keeps_nothing() {
    let mut agent = Agent::playing(vec![Step::Read, write([HEAD, STARTED, OPENED, SAID].concat()), Step::Stay]);
    let gateway = Gateway::before(&agent).await;
    let (client, first) = begun(gateway.data, "r1", HEARD).await;
    assert!(first.iter().all(|frame| frame.id.is_none()));
    refused(&read(gateway.data, "r1", "").await, 404, "route_not_found");
    drop(client);
    agent.request().await;
    agent.left().await;
    assert_eq!(gateway.metric("diglot_replay_runs").await, 0.0);
}
