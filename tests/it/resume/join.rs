//! Coming back to a run: missed events arrive once, and the agent is called once.

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

/// Starts an agent that follows the script and pauses after this many events.
fn start_agent_pausing_after(behind: usize) -> Agent {
    let script = script();
    Agent::with_script(vec![
        Step::Read,
        write(HEAD.to_owned() + &script[..behind].concat()),
        Step::Pause,
        write(script[behind..].concat()),
    ])
}

/// Returns the frames for a client that never leaves.
pub(super) async fn uninterrupted_frames() -> Vec<Frame> {
    let agent = Agent::with_response(HEAD.to_owned() + &script().concat());
    let gateway = start_gateway(&agent).await;
    finished_frames(&send_request(gateway.data, post("/run", "", &input("r1"))).await)
}

pub(super) fn events(frames: &[Frame]) -> Vec<&Value> {
    frames.iter().map(|frame| &frame.event).collect()
}

#[tokio::test]
async fn resumes_after_any_event_without_repeats() {
    let whole = uninterrupted_frames().await;
    assert_eq!(whole.len(), script().len());
    let each = (1..whole.len()).map(|behind| {
        let whole = &whole;
        async move {
            let agent = start_agent_pausing_after(behind);
            let gateway = start_gateway(&agent).await;
            let (client, first) = start_run_until(gateway.data, "r1", &format!("-{behind}\n")).await;
            // The event itself may be truncated; then it does not count.
            assert!(first.len() == behind || first.len() + 1 == behind, "{behind}: {}", first.len());
            drop(client);
            let last = first.last().map_or_else(|| format!("{}-0", "a".repeat(10)), |frame| frame.id().to_owned());
            if first.is_empty() {
                agent.resume();
                assert_refused(&read_run(gateway.data, "r1", &last_event_id(&last)).await, 410, "cursor_gone");
                return;
            }
            // Twice during the run, in both ways at once, and once after its end.
            let again = post("/run", &last_event_id(&last), &input("r1").replace("hi", "the body may differ"));
            let (mut one, mut two) = (Client::connect(gateway.data).await, Client::connect(gateway.data).await);
            one.send(again).await;
            two.send(get_request(&run_events_path("r1"), &last_event_id(&last))).await;
            let (one_head, two_head) = (one.read_head().await, two.read_head().await);
            assert_eq!((one_head.status, two_head.status), (200, 200));
            agent.resume();
            let (one, two) = (read_rest(one).await, read_rest(two).await);
            let late = finished_frames(&read_run(gateway.data, "r1", &last_event_id(&last)).await);
            for missed in [one, two, late] {
                let all = [first.clone(), missed].concat();
                assert_eq!(events(&all), events(whole), "behind {behind}");
                let numbers: Vec<_> = all.iter().map(|frame| frame.id().split_once('-').expect("an id").1).collect();
                let expected: Vec<_> = (1..=whole.len()).map(|number| number.to_string()).collect();
                assert_eq!(numbers, expected);
                assert!(all.iter().all(|frame| frame.id()[..10] == last[..10]));
            }
            assert_eq!(agent.connection_count(), 1);
        }
    });
    // A gateway for each, and all at once: they wait more than they do.
    join_all(each).await;
}

#[tokio::test]
async fn sends_a_recap_to_clients_without_a_cursor() {
    let whole = uninterrupted_frames().await;
    for behind in 1..whole.len() {
        let agent = start_agent_pausing_after(behind);
        let gateway = start_gateway(&agent).await;
        let (client, _) = start_run_until(gateway.data, "r1", &format!("-{behind}\n")).await;
        drop(client);
        // The same request again, and by the run's id.
        let (mut one, mut two) = (Client::connect(gateway.data).await, Client::connect(gateway.data).await);
        one.send(post("/run", "", &input("r1"))).await;
        two.send(get_request(&run_events_path("r1"), "")).await;
        assert_eq!((one.read_head().await.status, two.read_head().await.status), (200, 200));
        agent.resume();
        for client in [&mut one, &mut two] {
            let (body, end) = client.read_rest().await;
            assert_eq!(end, End::Clean);
            let body = String::from_utf8(body).expect("UTF-8");
            assert_legal(&body, "ag-ui");
            let received = frames(&body);
            assert_eq!(message_texts(&received), message_texts(&whole), "behind {behind}");
            assert_eq!(received.first().map(Frame::kind), Some("RUN_STARTED"));
            assert_eq!(received.last().map(Frame::kind), Some("RUN_FINISHED"));
            // A client that is cut off in the middle of a recap comes back without a cursor.
            let recap_frames = received.len() - (whole.len() - behind);
            assert!(received[..recap_frames - 1].iter().all(|frame| frame.id.is_none()), "{body}");
            assert!(received[recap_frames - 1].id().ends_with(&format!("-{behind}")), "{body}");
        }
        assert_eq!(agent.connection_count(), 1);
    }
}

#[tokio::test]
async fn replays_an_ended_run() {
    let agent = Agent::with_response(HEAD.to_owned() + &script().concat());
    let gateway = start_gateway(&agent).await;
    let whole = finished_frames(&send_request(gateway.data, post("/run", "", &input("r1"))).await);
    let last = whole.last().expect("an end").id().to_owned();
    // After the last event, the rest is empty and ends cleanly.
    assert_eq!(finished_frames(&read_run(gateway.data, "r1", &last_event_id(&last)).await), []);
    for answer in
        [read_run(gateway.data, "r1", "").await, send_request(gateway.data, post("/run", "", &input("r1"))).await]
    {
        let again = finished_frames(&answer);
        assert_legal(answer.text(), "ag-ui");
        assert_eq!(message_texts(&again), message_texts(&whole));
        assert_eq!(again.last().map(|frame| &frame.event), whole.last().map(|frame| &frame.event));
        assert_eq!(again.last().expect("an end").id(), last);
    }
    assert_eq!(agent.connection_count(), 1);
}

#[tokio::test]
async fn joins_identical_concurrent_requests_to_one_run() {
    let agent = start_paused_agent();
    let gateway = start_gateway(&agent).await;
    let (mut clients, request) = (Vec::new(), post("/run", "", &input("r1")));
    for _ in 0..4 {
        let mut client = Client::connect(gateway.data).await;
        client.send(&request).await;
        clients.push(client);
    }
    for client in &mut clients {
        assert_eq!(client.read_head().await.status, 200);
    }
    agent.resume();
    for client in clients {
        assert_eq!(message_texts(&read_rest(client).await), [("a1".to_owned(), "你好".to_owned())]);
    }
    assert_eq!(agent.connection_count(), 1);
}

#[tokio::test]
async fn rejects_invalid_cursors_and_unknown_runs() {
    let agent = start_paused_agent();
    let gateway = start_gateway(&agent).await;
    let (client, first) = start_run_until(gateway.data, "r1", END_OF_CONTENT).await;
    let (token, _) = first[0].id().split_once('-').expect("an id");
    for odd in ["1", "x-1", "-", &format!("{token}-"), &format!("{token}-01"), &format!("{token}-1x")] {
        assert_refused(&read_run(gateway.data, "r1", &last_event_id(odd)).await, 400, "invalid_cursor");
        assert_refused(
            &send_request(gateway.data, post("/run", &last_event_id(odd), &input("r1"))).await,
            400,
            "invalid_cursor",
        );
    }
    let twice = format!("{0}{0}", last_event_id(first[0].id()));
    assert_refused(&read_run(gateway.data, "r1", &twice).await, 400, "invalid_cursor");
    // Another run's, and one that is ahead.
    for gone in ["aaaaaaaaaa-1".to_owned(), format!("{token}-4"), format!("{token}-{}", u64::MAX)] {
        let problem = assert_refused(&read_run(gateway.data, "r1", &last_event_id(&gone)).await, 410, "cursor_gone");
        assert!(problem["hint"].as_str().is_some_and(|hint| hint.contains("without Last-Event-ID")), "{problem}");
        assert_refused(
            &send_request(gateway.data, post("/run", &last_event_id(&gone), &input("r1"))).await,
            410,
            "cursor_gone",
        );
    }
    let known = first[0].id();
    for run in ["r2", "R1", "%72%00", "%ff", ".."] {
        assert_refused(&read_run(gateway.data, run, "").await, 404, "run_not_found");
        assert_refused(&read_run(gateway.data, run, &last_event_id(known)).await, 404, "run_not_found");
    }
    // An id may be encoded as one likes.
    let (other, _) = open_stream_until(gateway.data, get_request(&run_events_path("%721"), ""), END_OF_CONTENT).await;
    drop(other);
    assert_refused(
        &send_request(gateway.data, post("/run", &last_event_id(known), &input("r2"))).await,
        404,
        "run_not_found",
    );
    let thread = input("r1").replace("\"t1\"", "\"t2\"");
    assert_refused(
        &send_request(gateway.data, post("/run", &last_event_id(known), &thread)).await,
        404,
        "run_not_found",
    );
    assert_refused(
        &send_request(gateway.data, post(&run_events_path("r1"), "", "{}")).await,
        405,
        "events_method_not_allowed",
    );
    for path in
        ["/run/runs/r1", "/run/runs//events", "/run/runs/r1/events/", "/run/runs/a/b/events", "/other/runs/r1/events"]
    {
        assert_refused(&send_request(gateway.data, get_request(path, "")).await, 404, "route_not_found");
    }
    let html = get_request(&run_events_path("r1"), "").replace("text/event-stream", "text/html");
    assert_refused(&send_request(gateway.data, html).await, 406, "not_acceptable");
    assert_eq!(agent.connection_count(), 1);
    agent.resume();
    assert_eq!(frame_kinds(&read_rest(client).await), ["TEXT_MESSAGE_END", "RUN_FINISHED"]);
}

#[tokio::test]
async fn refuses_a_taken_run_id_until_the_first_run_ends() {
    let agent = start_paused_agent();
    let gateway = start_gateway(&agent).await;
    let (client, _) = start_run_until(gateway.data, "r1", END_OF_CONTENT).await;
    let other = input("r1").replace("hi", "something else");
    assert_refused(&send_request(gateway.data, post("/run", "", &other)).await, 409, "run_id_taken");
    assert_eq!(agent.connection_count(), 1);
    agent.resume();
    read_rest(client).await;
    let (client, first) = open_stream_until(gateway.data, post("/run", "", &other), END_OF_CONTENT).await;
    assert_eq!(agent.connection_count(), 2);
    agent.resume();
    read_rest(client).await;
    // It took the place of the first.
    let again = finished_frames(&read_run(gateway.data, "r1", &last_event_id(first[0].id())).await);
    assert_eq!(again.len(), 4);
    assert_eq!(gateway.metric("diglot_replay_evictions_total{reason=\"replaced\"}").await, 1.0);
}

#[tokio::test]
async fn starts_again_after_a_refused_run() {
    let agent = Agent::with_response("HTTP/1.1 422 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let gateway = start_gateway(&agent).await;
    for connections in 1..3 {
        assert_refused(&send_request(gateway.data, post("/run", "", &input("r1"))).await, 422, "upstream_status");
        assert_eq!(agent.connection_count(), connections);
        assert_refused(&read_run(gateway.data, "r1", "").await, 404, "run_not_found");
    }
    assert_eq!(gateway.metric("diglot_replay_runs").await, 0.0);
}

#[tokio::test]
async fn reports_a_later_failure_to_returning_clients() {
    let agent = Agent::with_script(vec![
        Step::Read,
        write([HEAD, STARTED, OPENED, CONTENT].concat()),
        Step::Pause,
        Step::Reset,
    ]);
    let mut gateway = start_gateway(&agent).await;
    let (client, first) = start_run_until(gateway.data, "r1", END_OF_CONTENT).await;
    drop(client);
    agent.resume();
    gateway.next_log("run ended").await;
    let missed = finished_frames(&read_run(gateway.data, "r1", &last_event_id(first[2].id())).await);
    assert_eq!(frame_kinds(&missed), ["RUN_ERROR"]);
    assert_eq!(missed[0].event["code"], "upstream_reset");
}

/// A client of HAI gets the conversation as its own snapshot (seed 000, §3.3.3).
#[tokio::test]
async fn resumes_hai_clients_with_a_snapshot() {
    let agent = start_paused_agent();
    let gateway = start_gateway(&agent).await;
    let (client, first) = open_stream_until(gateway.data, post("/hai", "", &input("r1")), "你好").await;
    let last = first.last().expect("events").id().to_owned();
    drop(client);
    let (mut snapshot, mut cursored) = (Client::connect(gateway.data).await, Client::connect(gateway.data).await);
    snapshot.send(get_request("/hai/runs/r1/events", "")).await;
    cursored.send(get_request("/hai/runs/r1/events", &last_event_id(&last))).await;
    assert_eq!((snapshot.read_head().await.status, cursored.read_head().await.status), (200, 200));
    agent.resume();
    let all = [first, read_rest(cursored).await].concat();
    let (body, _) = snapshot.read_rest().await;
    let body = String::from_utf8(body).expect("UTF-8");
    assert_legal(&body, "hai");
    let again = frames(&body);
    assert_eq!(again.last().map(|frame| &frame.event), all.last().map(|frame| &frame.event));
    let messages = again.iter().find(|frame| frame.kind() == "MESSAGE_SNAPSHOT").expect("a snapshot");
    let message = &messages.event["messages"][0];
    assert_eq!((&message["id"], &message["role"], &message["content"]), (&"m1".into(), &"user".into(), &"hi".into()));
}

#[tokio::test]
async fn does_not_keep_protobuf_runs() {
    let agent = start_paused_agent();
    let gateway = start_gateway(&agent).await;
    let request = post("/run", "", &input("r1")).replace("text/event-stream", "application/vnd.ag-ui.event+proto");
    let mut client = Client::connect(gateway.data).await;
    client.send(request).await;
    assert_eq!(client.read_head().await.header("content-type"), Some("application/vnd.ag-ui.event+proto"));
    assert_refused(&read_run(gateway.data, "r1", "").await, 404, "run_not_found");
    let wants =
        get_request(&run_events_path("r1"), "").replace("text/event-stream", "application/vnd.ag-ui.event+proto");
    assert_refused(&send_request(gateway.data, wants).await, 406, "not_acceptable");
    drop(client);
    gateway.wait_for_metric("diglot_streams_total{outcome=\"client_gone\",route=\"run\"}", 1.0).await;
}

/// By default events have no ids, and a run ends with its client.
#[tokio::test]
async fn keeps_nothing_on_routes_that_abort() {
    let mut agent =
        Agent::with_script(vec![Step::Read, write([HEAD, STARTED, OPENED, CONTENT].concat()), Step::WaitForClose]);
    let gateway = Gateway::start_for(&agent).await;
    let (client, first) = start_run_until(gateway.data, "r1", END_OF_CONTENT).await;
    assert!(first.iter().all(|frame| frame.id.is_none()));
    assert_refused(&read_run(gateway.data, "r1", "").await, 404, "route_not_found");
    drop(client);
    agent.next_request().await;
    agent.wait_until_closed().await;
    assert_eq!(gateway.metric("diglot_replay_runs").await, 0.0);
}

/// The client that stayed and the one that came back hold the same state: that of the request, with the changes.
#[tokio::test]
async fn gives_returning_clients_the_state_of_the_request() {
    let change = "data: {\"type\":\"STATE_DELTA\",\"delta\":[{\"op\":\"add\",\"path\":\"/cart/-\",\"value\":3}]}\n\n";
    let steps = vec![Step::Read, Step::Pause, write([HEAD, STARTED, change].concat()), Step::Pause, write(FINISHED)];
    let agent = Agent::with_script(steps);
    let gateway = start_gateway(&agent).await;
    let body = input("r1").replace("\"state\":{}", "\"state\":{\"cart\":[1,2]}");
    for (path, runs) in [("/run", 1.0), ("/hai", 2.0)] {
        let events = format!("{path}/runs/r1/events");
        let mut first = Client::connect(gateway.data).await;
        first.send(post(path, "", &body)).await;
        // One comes back before the first event, one after the change, one after the end.
        gateway.wait_for_metric("diglot_replay_runs", runs).await;
        let mut early = Client::connect(gateway.data).await;
        early.send(get_request(&events, "")).await;
        assert_eq!(early.read_head().await.status, 200);
        agent.resume();
        assert_eq!(first.read_head().await.status, 200);
        first.read_until("STATE_DELTA").await;
        let mut late = Client::connect(gateway.data).await;
        late.send(get_request(&events, "")).await;
        assert_eq!(late.read_head().await.status, 200);
        agent.resume();
        let (early, late) = (read_rest(early).await, read_rest(late).await);
        let ended = finished_frames(&send_request(gateway.data, get_request(&events, "")).await);
        for received in [early, late, ended] {
            let state = received.iter().find(|frame| frame.kind() == "STATE_SNAPSHOT").expect("a snapshot");
            assert_eq!(state.event["snapshot"], serde_json::json!({"cart": [1, 2, 3]}), "{path}");
            let events = received.iter().find(|frame| frame.kind().ends_with("_SNAPSHOT")).expect("a snapshot");
            assert_eq!(events.event["messages"][0]["id"], "m1", "{path}");
            assert!(received.iter().all(|frame| frame.kind() != "STATE_DELTA"), "{path}: {received:?}");
        }
        drop(first);
    }
}

#[tokio::test]
async fn gives_returning_clients_the_messages_of_a_run_that_never_began() {
    let agent = Agent::with_script(vec![Step::Read, Step::Pause, Step::Reset]);
    let mut gateway = start_gateway_with(&agent, "keep_alive: 100ms", "").await;
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "", &input("r1"))).await;
    assert_eq!(client.read_head().await.status, 200);
    agent.resume();
    gateway.next_log("run ended").await;
    assert_eq!(frame_kinds(&read_rest(client).await), ["RUN_ERROR"]);
    let answer = read_run(gateway.data, "r1", "").await;
    assert_legal(answer.text(), "ag-ui");
    let again = finished_frames(&answer);
    assert_eq!(frame_kinds(&again), ["RUN_STARTED", "MESSAGES_SNAPSHOT", "STATE_SNAPSHOT", "RUN_ERROR"]);
    assert_eq!(again[1].event["messages"][0]["content"], "hi");
}
