//! Coming back to another replica: two gateways and a real Redis, which is killed, stopped and restarted.

use super::super::support::eventually;
use super::super::support::redis::Redis;
use super::join::{script, uninterrupted_frames};
use super::ownership::{auth_section, with_key_of};
use super::stop::stop_request;
use super::*;

/// Keys of the top level with which gateways share runs. Tests that are about something else wait long for an answer: the
/// machine may be busy with other tests.
fn redis_config(redis: &Redis) -> String {
    redis.yaml(", deadline: 1s") + "replay: {store: redis}\n"
}

/// Two replicas that share a Redis.
async fn start_pair(agent: &Agent, redis: &Redis, more: &str) -> (Gateway, Gateway) {
    start_pair_with(agent, redis, &format!("replay: {{store: redis}}\n{more}")).await
}

/// The same, with all keys but `redis`.
pub(super) async fn start_pair_with(agent: &Agent, redis: &Redis, more: &str) -> (Gateway, Gateway) {
    let top = redis.yaml(", deadline: 1s") + more;
    let both = (start_gateway_with(agent, &top, "").await, start_gateway_with(agent, &top, "").await);
    wait_for_leases(redis, 2).await;
    both
}

/// Waits until so many processes have a lease.
async fn wait_for_leases(redis: &Redis, count: usize) {
    let count_leases = async || redis.run_command(&["--scan", "--pattern", "diglot:home:*"]).lines().count();
    eventually("leases", async || (count_leases().await == count).then_some(())).await;
}

/// An agent that waits behind each event of the script.
pub(super) fn start_stepping_agent() -> Agent {
    let mut steps = vec![Step::Read, write(HEAD)];
    for event in script() {
        steps.extend([write(event), Step::Pause]);
    }
    Agent::with_script(steps)
}

/// Returns the events with another run id; the agent of these tests uses the id of the request.
fn normalize_run_id(frames: &[Frame], run: &str) -> Vec<Value> {
    let renamed = |frame: &Frame| {
        let text = frame.event.to_string().replace(&format!("\"{run}\""), "\"r1\"");
        let mut event: Value = serde_json::from_str(&text).expect("JSON");
        // It contains the agent's own run id, if that differs.
        event.as_object_mut().expect("an event").remove("metadata");
        event
    };
    frames.iter().map(renamed).collect()
}

pub(super) async fn open_stream(to: SocketAddr, request: String) -> Client {
    let mut client = Client::connect(to).await;
    client.send(request).await;
    let head = client.read_head().await;
    assert_eq!(head.status, 200, "{}", head.text());
    client
}

/// Starts a run and reads so many frames, which are all that its agent has sent.
pub(super) async fn start_run_frames(gateway: &Gateway, run: &str, count: usize) -> (Client, Vec<Frame>) {
    let mut client = open_stream(gateway.data, post("/run", "", &input(run))).await;
    let first = read_frames(&mut client, count).await;
    (client, first)
}

/// The next frames of a stream, so many.
async fn read_frames(client: &mut Client, count: usize) -> Vec<Frame> {
    let mut body = String::new();
    while complete_frames(&body).len() < count {
        body += &client.read_until("\n\n").await;
    }
    frames(&body)
}

#[tokio::test]
async fn resumes_on_another_replica_after_any_event() {
    let whole = normalize_run_id(&uninterrupted_frames().await, "r1");
    let (agent, redis) = (start_stepping_agent(), Redis::start().await);
    let (one, other) = start_pair(&agent, &redis, "").await;
    for behind in 1..whole.len() {
        let run = format!("run{behind}");
        (1..behind).for_each(|_| agent.resume());
        let (client, first) = start_run_frames(&one, &run, behind).await;
        drop(client);
        let last = first[behind - 1].id().to_owned();
        // By both ways, and without a cursor by both.
        let again = input(&run);
        let by_post = open_stream(other.data, post("/run", &last_event_id(&last), &again)).await;
        let by_get = open_stream(other.data, get_request(&run_events_path(&run), &last_event_id(&last))).await;
        let afresh = [
            open_stream(other.data, post("/run", "", &again)).await,
            open_stream(other.data, get_request(&run_events_path(&run), "")).await,
        ];
        (behind..=whole.len()).for_each(|_| agent.resume());
        for client in [by_post, by_get] {
            let missed = read_rest(client).await;
            assert_eq!(normalize_run_id(&[first.clone(), missed].concat(), &run), whole, "behind {behind}");
        }
        for mut client in afresh {
            let (body, end) = client.read_rest().await;
            assert_eq!(end, End::Clean);
            let body = String::from_utf8(body).expect("UTF-8");
            assert_legal(&body, "ag-ui");
            // The first snapshots have the messages and the state of the request.
            let recap = ["RUN_STARTED", "MESSAGES_SNAPSHOT", "STATE_SNAPSHOT"];
            assert_eq!(frame_kinds(&frames(&body))[..3], recap, "behind {behind}");
            assert_eq!(
                message_texts(&frames(&body)),
                [("a1".to_owned(), "one 二 three".to_owned())],
                "behind {behind}"
            );
            assert_eq!(frames(&body).last().map(Frame::kind), Some("RUN_FINISHED"));
        }
        // Behind its end, on both.
        for gateway in [&one, &other] {
            let late = finished_frames(&read_run(gateway.data, &run, &last_event_id(&last)).await);
            assert_eq!(normalize_run_id(&[first.clone(), late].concat(), &run), whole);
        }
        assert_eq!(agent.connection_count(), behind);
    }
    other.wait_for_metric("diglot_replay_followed", 0.0).await;
    other.wait_for_metric("diglot_replay_runs", 0.0).await;
    other.wait_for_metric("diglot_replay_bytes", 0.0).await;
}

#[tokio::test]
async fn serves_many_readers_on_another_replica() {
    let (agent, redis) = (start_stepping_agent(), Redis::start().await);
    let (one, other) = start_pair(&agent, &redis, "").await;
    let (mut client, first) = start_run_frames(&one, "r1", 1).await;
    let mut there = open_stream(other.data, get_request(&run_events_path("r1"), &last_event_id(first[0].id()))).await;
    let mut late = open_stream(other.data, get_request(&run_events_path("r1"), "")).await;
    assert_eq!(read_frames(&mut late, 1).await[0].kind(), "RUN_STARTED");
    for number in 1..script().len() {
        agent.resume();
        // Each event reaches all readers before the next one is sent.
        let (here, there) = (read_frames(&mut client, 1).await, read_frames(&mut there, 1).await);
        assert_eq!(here, there, "{number}");
        read_frames(&mut late, 1).await;
    }
    agent.resume();
    assert_eq!(read_rest(client).await, []);
    assert_eq!(read_rest(there).await, []);
    assert_eq!(other.metric("diglot_streams_active{route=\"run\"}").await, 0.0);
    assert_eq!(agent.connection_count(), 1);
}

#[tokio::test]
async fn stops_a_run_from_another_replica() {
    let mut agent =
        Agent::with_script(vec![Step::Read, write([HEAD, STARTED, OPENED, CONTENT].concat()), Step::WaitForClose]);
    let redis = Redis::start().await;
    let (mut one, other) = start_pair(&agent, &redis, "").await;
    let (client, first) = start_run_until(one.data, "r1", END_OF_CONTENT).await;
    agent.next_request().await;
    let there = open_stream(other.data, get_request(&run_events_path("r1"), &last_event_id(first[2].id()))).await;
    assert_eq!(send_request(other.data, stop_request("r1")).await.status, 204);
    agent.wait_until_closed().await;
    for client in [client, there] {
        assert_eq!(frame_kinds(&read_rest(client).await), ["TEXT_MESSAGE_END", "RUN_FINISHED"]);
    }
    assert_eq!(one.next_log("run ended").await["outcome"], "cancelled");
    // It is kept, and stays as it is, for who did not read it before, too.
    assert_eq!(send_request(other.data, stop_request("r1")).await.status, 204);
    assert_refused(&send_request(other.data, stop_request("r2")).await, 404, "run_not_found");
    // The run has no reader there.
    let (client, _) = start_run_until(one.data, "r2", END_OF_CONTENT).await;
    assert_eq!(send_request(other.data, stop_request("r2")).await.status, 204);
    assert_eq!(frame_kinds(&read_rest(client).await), ["TEXT_MESSAGE_END", "RUN_FINISHED"]);
}

#[tokio::test]
async fn keeps_a_run_while_another_replica_reads_it() {
    let mut agent =
        Agent::with_script(vec![Step::Read, write([HEAD, STARTED, OPENED, CONTENT].concat()), Step::WaitForClose]);
    let redis = Redis::start().await;
    let routes = routes(&agent, "").replace("continue for 5m", "continue for 4s");
    let top = redis_config(&redis) + "keep_alive: 1s\n";
    let mut one = Gateway::start(Setup { routes: &routes, top: &top, ..Setup::default() }).await;
    let other = Gateway::start(Setup { routes: &routes, top: &top, ..Setup::default() }).await;
    wait_for_leases(&redis, 2).await;
    let (client, first) = start_run_until(one.data, "r1", END_OF_CONTENT).await;
    agent.next_request().await;
    let mut there = open_stream(other.data, get_request(&run_events_path("r1"), &last_event_id(first[2].id()))).await;
    drop(client);
    for _ in 0..7 {
        there.read_until(":").await;
        there.read_until("\n\n").await;
    }
    // The run continues until the reader there has left too.
    assert_eq!(one.metric("diglot_streams_active{route=\"run\"}").await, 1.0);
    drop(there);
    agent.wait_until_closed().await;
    assert_eq!(one.next_log("run ended").await["outcome"], "client_gone");
    let missed = finished_frames(&read_run(other.data, "r1", &last_event_id(first[2].id())).await);
    assert_eq!(missed[0].event["code"], "run_abandoned");
}

#[tokio::test]
async fn reports_the_loss_of_a_run_of_a_killed_replica() {
    let (agent, redis) = (start_stepping_agent(), Redis::start().await);
    let (mut one, other) = start_pair(&agent, &redis, "").await;
    (1..5).for_each(|_| agent.resume());
    let (_client, first) = start_run_frames(&one, "r1", 5).await;
    // Events that were read there are available here.
    let there = open_stream(other.data, get_request(&run_events_path("r1"), &last_event_id(first[4].id()))).await;
    one.process.signal("KILL");
    one.process.exit().await;
    let third = start_gateway_with(&agent, &redis_config(&redis), "").await;
    let afresh = open_stream(third.data, get_request(&run_events_path("r1"), "")).await;
    let missed = read_rest(there).await;
    assert_eq!(frame_kinds(&missed), ["RUN_ERROR"]);
    assert_eq!(missed[0].event["code"], "run_lost");
    assert!(missed[0].id().ends_with("-6"), "{missed:?}");
    let received = read_rest(afresh).await;
    assert_eq!(received.last(), missed.last());
    // The run is kept like any ended run, and does not start again.
    for request in [get_request(&run_events_path("r1"), ""), post("/run", "", &input("r1"))] {
        let again = send_request(other.data, request).await;
        assert_legal(again.text(), "ag-ui");
        assert_eq!(finished_frames(&again).last(), missed.last());
    }
    assert_eq!(agent.connection_count(), 1);
}

#[tokio::test]
async fn starts_one_run_for_a_request_to_two_replicas() {
    let (agent, redis) = (start_paused_agent(), Redis::start().await);
    let (one, other) = start_pair(&agent, &redis, "").await;
    for number in 1..=10 {
        let run = format!("run{number}");
        let request = |gateway: &Gateway| open_stream(gateway.data, post("/run", "", &input(&run)));
        let (here, there) = tokio::join!(request(&one), request(&other));
        assert_refused(
            &send_request(other.data, post("/run", "", &input(&run).replace("hi", "ho"))).await,
            409,
            "run_id_taken",
        );
        agent.resume();
        for client in [here, there] {
            assert_eq!(message_texts(&read_rest(client).await), [("a1".to_owned(), "你好".to_owned())]);
        }
        assert_eq!(agent.connection_count(), number);
    }
}

#[tokio::test]
async fn hides_a_run_from_other_callers_on_every_replica() {
    let (agent, redis) = (start_paused_agent(), Redis::start().await);
    let (one, other) = start_pair(&agent, &redis, &auth_section()).await;
    let (client, first) =
        open_stream_until(one.data, with_key_of("ada", &post("/run", "", &input("r1"))), END_OF_CONTENT).await;
    drop(client);
    let behind = get_request(&run_events_path("r1"), &last_event_id(first[2].id()));
    for stranger in ["bob", "ada-elsewhere"] {
        assert_refused(&send_request(other.data, with_key_of(stranger, &behind)).await, 404, "run_not_found");
        assert_refused(
            &send_request(other.data, with_key_of(stranger, &stop_request("r1"))).await,
            404,
            "run_not_found",
        );
    }
    let own = open_stream(other.data, with_key_of("ada-2", &behind)).await;
    agent.resume();
    assert_eq!(frame_kinds(&read_rest(own).await), ["TEXT_MESSAGE_END", "RUN_FINISHED"]);
    // No key names its owner.
    let keys = redis.run_command(&["--scan", "--pattern", "diglot:run:*"]);
    for key in keys.lines().filter(|key| !key.rsplit_once('}').expect("a tag").1.starts_with(':')) {
        assert!(!redis.run_command(&["hgetall", key]).contains("ada"), "{key}");
        let left: i64 = redis.run_command(&["pttl", key]).trim().parse().expect("milliseconds");
        assert!((1..=300_000).contains(&left), "{left}");
    }
}

#[tokio::test]
async fn republishes_runs_when_redis_returns() {
    let (agent, mut redis) = (start_stepping_agent(), Redis::start().await);
    let (one, other) = start_pair(&agent, &redis, "").await;
    let (mut client, first) = start_run_frames(&one, "r1", 1).await;
    agent.resume();
    let mut whole = [first, read_frames(&mut client, 1).await].concat();
    redis.kill().await;
    // A client here receives everything; a client that comes back elsewhere is asked to retry.
    agent.resume();
    whole.extend(read_frames(&mut client, 1).await);
    let behind = last_event_id(whole[1].id());
    for request in
        [get_request(&run_events_path("r1"), &behind), get_request(&run_events_path("r1"), ""), stop_request("r1")]
    {
        let answer = send_request(other.data, request).await;
        assert_refused(&answer, 503, "replay_unavailable");
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    assert!(other.metric("diglot_replay_backend_errors_total").await >= 3.0);
    // A run begins without it.
    let (alone, _) = start_run_frames(&other, "r2", 1).await;
    drop(alone);

    redis.restart().await;
    let there = eventually("the run on the other replica", async || {
        let mut there = Client::connect(other.data).await;
        there.send(get_request(&run_events_path("r1"), &behind)).await;
        let head = there.read_head().await;
        // It does not count as a missing run.
        assert!(matches!(head.status, 200 | 503), "{}", head.text());
        (head.status == 200).then_some(there)
    })
    .await;
    // The other one's, too.
    eventually("the run that began without Redis", async || {
        let mut here = Client::connect(one.data).await;
        here.send(get_request(&run_events_path("r2"), "")).await;
        (here.read_head().await.status == 200).then_some(())
    })
    .await;
    (0..2 * script().len()).for_each(|_| agent.resume());
    let missed = read_rest(there).await;
    assert_eq!(missed[..1], whole[2..]);
    whole.extend(read_rest(client).await);
    assert_eq!(missed, whole[2..]);
    assert_eq!(agent.connection_count(), 2);
}

#[tokio::test]
async fn keeps_streaming_while_redis_hangs() {
    let (agent, redis) = (start_stepping_agent(), Redis::start().await);
    let (one, other) = start_pair(&agent, &redis, "").await;
    let (mut client, first) = start_run_frames(&one, "r1", 1).await;
    let mut there = open_stream(other.data, get_request(&run_events_path("r1"), &last_event_id(first[0].id()))).await;
    redis.suspend();
    for _ in 0..3 {
        agent.resume();
        read_frames(&mut client, 1).await;
    }
    redis.continue_running();
    // Missed events arrive, and then new ones.
    assert_eq!(read_frames(&mut there, 3).await.len(), 3);
    (0..script().len()).for_each(|_| agent.resume());
    assert_eq!(read_rest(there).await, read_rest(client).await);
}

/// The run has no replica any more, so the next request starts it again.
#[tokio::test]
async fn releases_the_claim_of_a_client_that_leaves() {
    let (agent, redis) =
        (Agent::with_response([HEAD, STARTED, OPENED, CONTENT, CLOSED, FINISHED].concat()), Redis::start().await);
    let (one, other) = start_pair(&agent, &redis, "").await;
    // From here on Redis has the scripts: each call is one command.
    read_rest(open_stream(one.data, post("/run", "", &input("r0"))).await).await;
    let active = r#"diglot_streams_active{route="run"}"#;
    let ended =
        || redis.run_command(&["HGET", redis.run_command(&["--scan", "--pattern", "diglot:run:*}"]).trim(), "s"]);
    eventually("the end of the first", async || (ended().trim() == "ended").then_some(())).await;
    // It answers those who read, and scripts wait.
    redis.run_command(&["CLIENT", "PAUSE", "60000", "WRITE"]);
    let mut client = Client::connect(one.data).await;
    client.send(post("/run", "", &input("r1"))).await;
    eventually("the claim", async || (one.metric(active).await == 1.0 || agent.connection_count() > 1).then_some(()))
        .await;
    drop(client);
    one.wait_for_metric(active, 0.0).await;
    redis.run_command(&["CLIENT", "UNPAUSE"]);
    for gateway in [&one, &other] {
        let again = async || {
            let answer = send_request(gateway.data, post("/run", "", &input("r1"))).await;
            (answer.status == 200).then(|| answer.text().to_owned())
        };
        let received = eventually("the run, which was not begun", again).await;
        assert!(received.contains("RUN_FINISHED"), "{received}");
    }
    assert_eq!(agent.connection_count(), 2);
}

#[tokio::test]
async fn sends_a_recap_of_a_large_run_and_frees_its_copy() {
    let piece = "data: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"a1\",\"delta\":\"x\"}\n\n";
    let mut steps = vec![Step::Read, write([HEAD, STARTED, OPENED].concat())];
    for _ in 0..10 {
        steps.extend([Step::Pause, write(piece.repeat(300))]);
    }
    steps.extend([Step::Pause, write([CLOSED, FINISHED].concat())]);
    let agent = Agent::with_script(steps);
    let redis = Redis::start().await;
    // Some 100 bytes for each event, and one in a sum.
    let (one, other) = start_pair_with(&agent, &redis, "replay: {store: redis, run_bytes: 64KiB}\n").await;
    let (_client, first) = start_run_until(one.data, "r1", "-2\n").await;
    let mut there = open_stream(other.data, get_request(&run_events_path("r1"), &last_event_id(first[0].id()))).await;
    // All of it is copied before it is trimmed.
    for block in 1..=10 {
        agent.resume();
        there.read_until(&format!("-{}\n", 2 + 300 * block)).await;
    }
    drop(there);
    other.wait_for_metric("diglot_replay_followed", 0.0).await;
    let mut there = open_stream(other.data, get_request(&run_events_path("r1"), "")).await;
    let recap_frames = there.read_until("-3002\n").await;
    assert_refused(&read_run(other.data, "r1", &last_event_id(first[0].id())).await, 410, "cursor_gone");
    let ahead = format!("{}-3003", &first[0].id()[..10]);
    assert_refused(&read_run(other.data, "r1", &last_event_id(&ahead)).await, 410, "cursor_gone");
    let key = redis.run_command(&["--scan", "--pattern", "diglot:run:*}"]);
    assert_eq!(redis.run_command(&["hget", key.trim(), "n"]).trim(), "3002");
    let frames_key = redis.run_command(&["--scan", "--pattern", "diglot:run:*}:*"]);
    let held: usize =
        redis.run_command(&["memory", "usage", frames_key.trim(), "samples", "0"]).trim().parse().expect("bytes");
    assert!(held < 2 * (64 << 10), "{held}");
    agent.resume();
    let (end, _) = there.read_rest().await;
    let body = recap_frames + std::str::from_utf8(&end).expect("UTF-8");
    assert_legal(&body, "ag-ui");
    assert_eq!(message_texts(&frames(&body)), [("a1".to_owned(), "x".repeat(3000))]);
    other.wait_for_metric("diglot_replay_bytes", 0.0).await;
    other.wait_for_metric("diglot_replay_followed", 0.0).await;
}

#[tokio::test]
async fn answers_410_for_runs_too_large_for_a_recap() {
    let text = "x".repeat(20_000);
    let piece = format!("data: {{\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"a1\",\"delta\":\"{text}\"}}\n\n");
    let agent =
        Agent::with_script(vec![Step::Read, write([HEAD, STARTED, OPENED, &piece.repeat(10)].concat()), Step::Pause]);
    let redis = Redis::start().await;
    let (one, other) = start_pair_with(&agent, &redis, "replay: {store: redis, run_bytes: 64KiB}\n").await;
    let (client, _) = start_run_until(one.data, "r1", "-12\n").await;
    assert_refused(&read_run(one.data, "r1", "").await, 410, "run_not_kept");
    // As soon as it is copied.
    eventually("the word for it", async || {
        let answer = read_run(other.data, "r1", "").await;
        (answer.status == 410).then(|| assert_refused(&answer, 410, "run_not_kept"))
    })
    .await;
    drop(client);
}

#[tokio::test]
async fn resumes_on_other_replicas_when_a_process_ends() {
    let (agent, redis) = (start_stepping_agent(), Redis::start().await);
    let drains = "drain_timeout: 0s\n";
    let (one, mut other) = start_pair(&agent, &redis, drains).await;
    let third = start_gateway_with(&agent, &(redis_config(&redis) + drains), "").await;
    wait_for_leases(&redis, 3).await;
    let (_client, first) = start_run_frames(&one, "r1", 1).await;
    let behind = get_request(&run_events_path("r1"), &last_event_id(first[0].id()));
    let (mut there, elsewhere) =
        (open_stream(other.data, behind.clone()).await, open_stream(third.data, behind.clone()).await);
    agent.resume();
    let second = read_frames(&mut there, 1).await;
    // The process that only reads ends: its readers are cut off, and the run is not.
    other.process.signal("TERM");
    let (cut, end) = there.read_rest().await;
    assert_eq!((cut.len(), end == End::Clean), (0, false));
    other.process.exit().await;
    let there = open_stream(third.data, get_request(&run_events_path("r1"), &last_event_id(second[0].id()))).await;
    // Then the owner of the run.
    one.process.signal("TERM");
    for (client, missed) in [(there, 1), (elsewhere, 2)] {
        let end = read_rest(client).await;
        assert_eq!((end.len(), end.last().map(Frame::kind)), (missed, Some("RUN_ERROR")));
        assert_eq!(end[missed - 1].event["code"], "gateway_draining");
    }
    // It is kept, although its process is not.
    assert_eq!(finished_frames(&send_request(third.data, behind).await).len(), 2);
}

#[tokio::test]
async fn finds_the_events_of_a_thread_on_every_replica() {
    let (agent, redis) = (start_paused_agent(), Redis::start().await);
    let path = "/api/v1/agent/runs";
    let routes = format!(
        "routes:\n  - {{name: social, path: {path}, events_path: \"{path}/{{thread_id}}/events\", client: social-app, agent: ag-ui, upstream: {}, on_disconnect: continue for 5m}}\n",
        agent.url()
    );
    let top = redis_config(&redis);
    let one = Gateway::start(Setup { routes: &routes, top: &top, ..Setup::default() }).await;
    let other = Gateway::start(Setup { routes: &routes, top: &top, ..Setup::default() }).await;
    wait_for_leases(&redis, 2).await;
    let start = post(path, "", &input("r1")).replace("text/event-stream", "application/json");
    let accepted = send_request(one.data, &start).await;
    assert_eq!(accepted.status, 202);
    assert_eq!(send_request(other.data, &start).await.text(), accepted.text());
    let events = get_request(&format!("{path}/t1/events"), "");
    let (client, first) = open_stream_until(other.data, events.clone(), "RUN_STARTED").await;
    drop(client);
    agent.resume();
    let behind = get_request(&format!("{path}/t1/events"), &last_event_id(first[0].id()));
    let missed = finished_frames(&send_request(other.data, behind.clone()).await);
    assert_eq!(frame_kinds(&missed).last(), Some(&"RUN_FINISHED"));
    assert_eq!(finished_frames(&send_request(one.data, behind).await), missed);
    assert_eq!(agent.connection_count(), 1);
}
