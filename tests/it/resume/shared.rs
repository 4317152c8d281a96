//! Coming back to another replica: two gateways over one real Redis, which is killed, stopped and brought back.

use super::super::support::eventually;
use super::super::support::redis::Redis;
use super::join::{script, uninterrupted};
use super::owner::{auth, by};
use super::stop::stop;
use super::*;

/// Keys of the top level with which gateways share runs. Tests that are about something else wait long for an answer: the
/// machine may be busy with other tests.
fn top(redis: &Redis) -> String {
    redis.yaml(", deadline: 1s") + "replay: {store: redis}\n"
}

/// Two replicas that know of each other.
async fn pair(agent: &Agent, redis: &Redis, more: &str) -> (Gateway, Gateway) {
    pair_with(agent, redis, &format!("replay: {{store: redis}}\n{more}")).await
}

/// The same, with all keys but `redis`.
async fn pair_with(agent: &Agent, redis: &Redis, more: &str) -> (Gateway, Gateway) {
    let top = redis.yaml(", deadline: 1s") + more;
    let both = (with(agent, &top, "").await, with(agent, &top, "").await);
    living(redis, 2).await;
    both
}

/// Waits until so many processes have said that they live.
async fn living(redis: &Redis, count: usize) {
    let homes = async || redis.ask(&["--scan", "--pattern", "diglot:home:*"]).lines().count();
    eventually("leases", async || (homes().await == count).then_some(())).await;
}

/// An agent that waits behind each event of the script.
fn step_by_step() -> Agent {
    let mut steps = vec![Step::Read, write(HEAD)];
    for event in script() {
        steps.extend([write(event), Step::Pause]);
    }
    Agent::playing(steps)
}

/// Events as the run of another id would have them, whose agent says the ids that its client asked for.
fn as_r1(frames: &[Frame], run: &str) -> Vec<Value> {
    let renamed = |frame: &Frame| {
        let text = frame.event.to_string().replace(&format!("\"{run}\""), "\"r1\"");
        let mut event: Value = serde_json::from_str(&text).expect("JSON");
        // It says what the agent called the run, where that is something else.
        event.as_object_mut().expect("an event").remove("metadata");
        event
    };
    frames.iter().map(renamed).collect()
}

async fn connected(to: SocketAddr, request: String) -> Client {
    let mut client = Client::connect(to).await;
    client.send(request).await;
    let head = client.head().await;
    assert_eq!(head.status, 200, "{}", head.text());
    client
}

/// Starts a run and hears so many frames of it, which are all that its agent has said.
async fn begun_with(gateway: &Gateway, run: &str, count: usize) -> (Client, Vec<Frame>) {
    let mut client = connected(gateway.data, post("/run", "", &input(run))).await;
    let first = hear(&mut client, count).await;
    (client, first)
}

/// The next frames of a stream, so many.
async fn hear(client: &mut Client, count: usize) -> Vec<Frame> {
    let mut body = String::new();
    while whole_frames(&body).len() < count {
        body += &client.until("\n\n").await;
    }
    frames(&body)
}

#[tokio::test]
async fn a_client_that_is_killed_behind_any_event_comes_back_to_another_replica() {
    let whole = as_r1(&uninterrupted().await, "r1");
    let (agent, redis) = (step_by_step(), Redis::start().await);
    let (one, other) = pair(&agent, &redis, "").await;
    for behind in 1..whole.len() {
        let run = format!("run{behind}");
        (1..behind).for_each(|_| agent.go());
        let (client, first) = begun_with(&one, &run, behind).await;
        drop(client);
        let last = first[behind - 1].id().to_owned();
        // By both ways, and without a cursor by both.
        let again = input(&run);
        let by_post = connected(other.data, post("/run", &cursor(&last), &again)).await;
        let by_get = connected(other.data, get(&events_of(&run), &cursor(&last))).await;
        let afresh = [
            connected(other.data, post("/run", "", &again)).await,
            connected(other.data, get(&events_of(&run), "")).await,
        ];
        (behind..=whole.len()).for_each(|_| agent.go());
        for client in [by_post, by_get] {
            let missed = rest(client).await;
            assert_eq!(as_r1(&[first.clone(), missed].concat(), &run), whole, "behind {behind}");
        }
        for mut client in afresh {
            let (body, end) = client.rest().await;
            assert_eq!(end, End::Clean);
            let body = String::from_utf8(body).expect("UTF-8");
            legal(&body, "ag-ui");
            assert_eq!(texts(&frames(&body)), [("a1".to_owned(), "one 二 three".to_owned())], "behind {behind}");
            assert_eq!(frames(&body).last().map(Frame::kind), Some("RUN_FINISHED"));
        }
        // Behind its end, on both.
        for gateway in [&one, &other] {
            let late = heard(&read(gateway.data, &run, &cursor(&last)).await);
            assert_eq!(as_r1(&[first.clone(), late].concat(), &run), whole);
        }
        assert_eq!(agent.connections(), behind);
    }
    other.reaches("diglot_replay_followed", 0.0).await;
    other.reaches("diglot_replay_runs", 0.0).await;
    other.reaches("diglot_replay_bytes", 0.0).await;
}

#[tokio::test]
async fn a_run_is_read_on_another_replica_while_it_goes_on_and_by_many() {
    let (agent, redis) = (step_by_step(), Redis::start().await);
    let (one, other) = pair(&agent, &redis, "").await;
    let (mut client, first) = begun_with(&one, "r1", 1).await;
    let mut there = connected(other.data, get(&events_of("r1"), &cursor(first[0].id()))).await;
    let mut late = connected(other.data, get(&events_of("r1"), "")).await;
    assert_eq!(hear(&mut late, 1).await[0].kind(), "RUN_STARTED");
    for number in 1..script().len() {
        agent.go();
        // Each event comes to all before the next one is said.
        let (here, there) = (hear(&mut client, 1).await, hear(&mut there, 1).await);
        assert_eq!(here, there, "{number}");
        hear(&mut late, 1).await;
    }
    agent.go();
    assert_eq!(rest(client).await, []);
    assert_eq!(rest(there).await, []);
    assert_eq!(other.metric("diglot_streams_active{route=\"run\"}").await, 0.0);
    assert_eq!(agent.connections(), 1);
}

#[tokio::test]
async fn a_run_is_stopped_from_another_replica() {
    let mut agent = Agent::playing(vec![Step::Read, write([HEAD, STARTED, OPENED, SAID].concat()), Step::Stay]);
    let redis = Redis::start().await;
    let (mut one, other) = pair(&agent, &redis, "").await;
    let (client, first) = begun(one.data, "r1", HEARD).await;
    agent.request().await;
    let there = connected(other.data, get(&events_of("r1"), &cursor(first[2].id()))).await;
    assert_eq!(ask(other.data, stop("r1")).await.status, 204);
    agent.left().await;
    for client in [client, there] {
        assert_eq!(kinds(&rest(client).await), ["TEXT_MESSAGE_END", "RUN_FINISHED"]);
    }
    assert_eq!(one.logged("run ended").await["outcome"], "cancelled");
    // It is kept, and stays as it is, for who did not read it before, too.
    assert_eq!(ask(other.data, stop("r1")).await.status, 204);
    refused(&ask(other.data, stop("r2")).await, 404, "run_not_found");
    // Without anybody who reads it there.
    let (client, _) = begun(one.data, "r2", HEARD).await;
    assert_eq!(ask(other.data, stop("r2")).await.status, 204);
    assert_eq!(kinds(&rest(client).await), ["TEXT_MESSAGE_END", "RUN_FINISHED"]);
}

#[tokio::test]
async fn a_run_goes_on_while_somebody_listens_elsewhere_and_no_longer() {
    let mut agent = Agent::playing(vec![Step::Read, write([HEAD, STARTED, OPENED, SAID].concat()), Step::Stay]);
    let redis = Redis::start().await;
    let routes = routes(&agent, "").replace("continue for 5m", "continue for 4s");
    let top = top(&redis) + "keep_alive: 1s\n";
    let mut one = Gateway::start(Setup { routes: &routes, top: &top, ..Setup::default() }).await;
    let other = Gateway::start(Setup { routes: &routes, top: &top, ..Setup::default() }).await;
    living(&redis, 2).await;
    let (client, first) = begun(one.data, "r1", HEARD).await;
    agent.request().await;
    let mut there = connected(other.data, get(&events_of("r1"), &cursor(first[2].id()))).await;
    drop(client);
    for _ in 0..7 {
        there.until(":").await;
        there.until("\n\n").await;
    }
    // The run goes on: it ends only when nobody listens there either.
    assert_eq!(one.metric("diglot_streams_active{route=\"run\"}").await, 1.0);
    drop(there);
    agent.left().await;
    assert_eq!(one.logged("run ended").await["outcome"], "client_gone");
    let missed = heard(&read(other.data, "r1", &cursor(first[2].id())).await);
    assert_eq!(missed[0].event["code"], "run_abandoned");
}

#[tokio::test]
async fn a_run_whose_replica_is_killed_is_lost_and_everybody_is_told() {
    let (agent, redis) = (step_by_step(), Redis::start().await);
    let (mut one, other) = pair(&agent, &redis, "").await;
    (1..5).for_each(|_| agent.go());
    let (_client, first) = begun_with(&one, "r1", 5).await;
    // What was heard there is known here.
    let there = connected(other.data, get(&events_of("r1"), &cursor(first[4].id()))).await;
    one.process.signal("KILL");
    one.process.exit().await;
    let third = with(&agent, &top(&redis), "").await;
    let afresh = connected(third.data, get(&events_of("r1"), "")).await;
    let missed = rest(there).await;
    assert_eq!(kinds(&missed), ["RUN_ERROR"]);
    assert_eq!(missed[0].event["code"], "run_lost");
    assert!(missed[0].id().ends_with("-6"), "{missed:?}");
    let told = rest(afresh).await;
    assert_eq!(told.last(), missed.last());
    // It is kept like any run that has ended, and is not begun again behind anybody's back.
    for request in [get(&events_of("r1"), ""), post("/run", "", &input("r1"))] {
        let again = ask(other.data, request).await;
        legal(again.text(), "ag-ui");
        assert_eq!(heard(&again).last(), missed.last());
    }
    assert_eq!(agent.connections(), 1);
}

#[tokio::test]
async fn one_run_begins_of_the_same_request_to_two_replicas() {
    let (agent, redis) = (waiting(), Redis::start().await);
    let (one, other) = pair(&agent, &redis, "").await;
    for number in 1..=10 {
        let run = format!("run{number}");
        let request = |gateway: &Gateway| connected(gateway.data, post("/run", "", &input(&run)));
        let (here, there) = tokio::join!(request(&one), request(&other));
        refused(&ask(other.data, post("/run", "", &input(&run).replace("hi", "ho"))).await, 409, "run_id_taken");
        agent.go();
        for client in [here, there] {
            assert_eq!(texts(&rest(client).await), [("a1".to_owned(), "你好".to_owned())]);
        }
        assert_eq!(agent.connections(), number);
    }
}

#[tokio::test]
async fn a_run_is_its_callers_alone_on_every_replica() {
    let (agent, redis) = (waiting(), Redis::start().await);
    let (one, other) = pair(&agent, &redis, &auth()).await;
    let (client, first) = opened(one.data, by("ada", &post("/run", "", &input("r1"))), HEARD).await;
    drop(client);
    let behind = get(&events_of("r1"), &cursor(first[2].id()));
    for stranger in ["bob", "ada-elsewhere"] {
        refused(&ask(other.data, by(stranger, &behind)).await, 404, "run_not_found");
        refused(&ask(other.data, by(stranger, &stop("r1"))).await, 404, "run_not_found");
    }
    let own = connected(other.data, by("ada-2", &behind)).await;
    agent.go();
    assert_eq!(kinds(&rest(own).await), ["TEXT_MESSAGE_END", "RUN_FINISHED"]);
    // Nothing there says whose it is.
    let keys = redis.ask(&["--scan", "--pattern", "diglot:run:*"]);
    for key in keys.lines().filter(|key| !key.rsplit_once('}').expect("a tag").1.starts_with(':')) {
        assert!(!redis.ask(&["hgetall", key]).contains("ada"), "{key}");
        let left: i64 = redis.ask(&["pttl", key]).trim().parse().expect("milliseconds");
        assert!((1..=300_000).contains(&left), "{left}");
    }
}

#[tokio::test]
async fn a_redis_that_dies_is_done_without_and_hears_of_all_runs_when_it_is_back() {
    let (agent, mut redis) = (step_by_step(), Redis::start().await);
    let (one, other) = pair(&agent, &redis, "").await;
    let (mut client, first) = begun_with(&one, "r1", 1).await;
    agent.go();
    let mut whole = [first, hear(&mut client, 1).await].concat();
    redis.kill().await;
    // Who is here hears everything; who comes back elsewhere is asked to try again.
    agent.go();
    whole.extend(hear(&mut client, 1).await);
    let behind = cursor(whole[1].id());
    for request in [get(&events_of("r1"), &behind), get(&events_of("r1"), ""), stop("r1")] {
        let answer = ask(other.data, request).await;
        refused(&answer, 503, "replay_unavailable");
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    assert!(other.metric("diglot_replay_backend_errors_total").await >= 3.0);
    // A run begins without it.
    let (alone, _) = begun_with(&other, "r2", 1).await;
    drop(alone);

    redis.come_back().await;
    let there = eventually("the run on the other replica", async || {
        let mut there = Client::connect(other.data).await;
        there.send(get(&events_of("r1"), &behind)).await;
        let head = there.head().await;
        // It is not taken for a run that there is not.
        assert!(matches!(head.status, 200 | 503), "{}", head.text());
        (head.status == 200).then_some(there)
    })
    .await;
    // The other one's, too.
    eventually("the run that began without Redis", async || {
        let mut here = Client::connect(one.data).await;
        here.send(get(&events_of("r2"), "")).await;
        (here.head().await.status == 200).then_some(())
    })
    .await;
    (0..2 * script().len()).for_each(|_| agent.go());
    let missed = rest(there).await;
    assert_eq!(missed[..1], whole[2..]);
    whole.extend(rest(client).await);
    assert_eq!(missed, whole[2..]);
    assert_eq!(agent.connections(), 2);
}

#[tokio::test]
async fn a_redis_that_hangs_is_in_nobodys_way() {
    let (agent, redis) = (step_by_step(), Redis::start().await);
    let (one, other) = pair(&agent, &redis, "").await;
    let (mut client, first) = begun_with(&one, "r1", 1).await;
    let mut there = connected(other.data, get(&events_of("r1"), &cursor(first[0].id()))).await;
    redis.hang();
    for _ in 0..3 {
        agent.go();
        hear(&mut client, 1).await;
    }
    redis.go_on();
    // What was said meanwhile comes, and what is said from now on.
    assert_eq!(hear(&mut there, 3).await.len(), 3);
    (0..script().len()).for_each(|_| agent.go());
    assert_eq!(rest(there).await, rest(client).await);
}

/// Nobody runs it then, so whoever asks for it again begins it.
#[tokio::test]
async fn a_client_that_leaves_while_its_run_is_claimed_may_ask_again() {
    let (agent, redis) =
        (Agent::answering([HEAD, STARTED, OPENED, SAID, CLOSED, FINISHED].concat()), Redis::start().await);
    let (one, other) = pair(&agent, &redis, "").await;
    // Redis knows the scripts from here on: each question is one command.
    rest(connected(one.data, post("/run", "", &input("r0"))).await).await;
    let active = r#"diglot_streams_active{route="run"}"#;
    let ended = || redis.ask(&["HGET", redis.ask(&["--scan", "--pattern", "diglot:run:*}"]).trim(), "s"]);
    eventually("the end of the first", async || (ended().trim() == "ended").then_some(())).await;
    // It answers those who read, and scripts wait.
    redis.ask(&["CLIENT", "PAUSE", "60000", "WRITE"]);
    let mut client = Client::connect(one.data).await;
    client.send(post("/run", "", &input("r1"))).await;
    eventually("the claim", async || (one.metric(active).await == 1.0 || agent.connections() > 1).then_some(())).await;
    drop(client);
    one.reaches(active, 0.0).await;
    redis.ask(&["CLIENT", "UNPAUSE"]);
    for gateway in [&one, &other] {
        let again = async || {
            let answer = ask(gateway.data, post("/run", "", &input("r1"))).await;
            (answer.status == 200).then(|| answer.text().to_owned())
        };
        let heard = eventually("the run, which was not begun", again).await;
        assert!(heard.contains("RUN_FINISHED"), "{heard}");
    }
    assert_eq!(agent.connections(), 2);
}

#[tokio::test]
async fn a_large_run_is_summed_up_and_leaves_nothing_behind_where_it_was_read() {
    let piece = "data: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"a1\",\"delta\":\"x\"}\n\n";
    let mut steps = vec![Step::Read, write([HEAD, STARTED, OPENED].concat())];
    for _ in 0..10 {
        steps.extend([Step::Pause, write(piece.repeat(300))]);
    }
    steps.extend([Step::Pause, write([CLOSED, FINISHED].concat())]);
    let agent = Agent::playing(steps);
    let redis = Redis::start().await;
    // Some 100 bytes for each event, and one in a sum.
    let (one, other) = pair_with(&agent, &redis, "replay: {store: redis, run_bytes: 64KiB}\n").await;
    let (_client, first) = begun(one.data, "r1", "-2\n").await;
    let mut there = connected(other.data, get(&events_of("r1"), &cursor(first[0].id()))).await;
    // All of it is copied before it is trimmed.
    for block in 1..=10 {
        agent.go();
        there.until(&format!("-{}\n", 2 + 300 * block)).await;
    }
    drop(there);
    other.reaches("diglot_replay_followed", 0.0).await;
    let mut there = connected(other.data, get(&events_of("r1"), "")).await;
    let prelude = there.until("-3002\n").await;
    refused(&read(other.data, "r1", &cursor(first[0].id())).await, 410, "cursor_gone");
    let ahead = format!("{}-3003", &first[0].id()[..10]);
    refused(&read(other.data, "r1", &cursor(&ahead)).await, 410, "cursor_gone");
    let key = redis.ask(&["--scan", "--pattern", "diglot:run:*}"]);
    assert_eq!(redis.ask(&["hget", key.trim(), "n"]).trim(), "3002");
    let frames_key = redis.ask(&["--scan", "--pattern", "diglot:run:*}:*"]);
    let held: usize = redis.ask(&["memory", "usage", frames_key.trim(), "samples", "0"]).trim().parse().expect("bytes");
    assert!(held < 2 * (64 << 10), "{held}");
    agent.go();
    let (end, _) = there.rest().await;
    let body = prelude + std::str::from_utf8(&end).expect("UTF-8");
    legal(&body, "ag-ui");
    assert_eq!(texts(&frames(&body)), [("a1".to_owned(), "x".repeat(3000))]);
    other.reaches("diglot_replay_bytes", 0.0).await;
    other.reaches("diglot_replay_followed", 0.0).await;
}

#[tokio::test]
async fn a_run_that_is_too_large_even_in_short_is_not_kept_anywhere() {
    let text = "x".repeat(20_000);
    let piece = format!("data: {{\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"a1\",\"delta\":\"{text}\"}}\n\n");
    let agent =
        Agent::playing(vec![Step::Read, write([HEAD, STARTED, OPENED, &piece.repeat(10)].concat()), Step::Pause]);
    let redis = Redis::start().await;
    let (one, other) = pair_with(&agent, &redis, "replay: {store: redis, run_bytes: 64KiB}\n").await;
    let (client, _) = begun(one.data, "r1", "-12\n").await;
    refused(&read(one.data, "r1", "").await, 410, "run_not_kept");
    // As soon as the copy is there.
    eventually("the word for it", async || {
        let answer = read(other.data, "r1", "").await;
        (answer.status == 410).then(|| refused(&answer, 410, "run_not_kept"))
    })
    .await;
    drop(client);
}

#[tokio::test]
async fn the_end_of_a_process_is_heard_on_the_others_and_its_readers_come_back_there() {
    let (agent, redis) = (step_by_step(), Redis::start().await);
    let drains = "drain_timeout: 0s\n";
    let (one, mut other) = pair(&agent, &redis, drains).await;
    let third = with(&agent, &(top(&redis) + drains), "").await;
    living(&redis, 3).await;
    let (_client, first) = begun_with(&one, "r1", 1).await;
    let behind = get(&events_of("r1"), &cursor(first[0].id()));
    let (mut there, elsewhere) =
        (connected(other.data, behind.clone()).await, connected(third.data, behind.clone()).await);
    agent.go();
    let second = hear(&mut there, 1).await;
    // The process that only reads ends: its readers are cut off, and the run is not.
    other.process.signal("TERM");
    let (cut, end) = there.rest().await;
    assert_eq!((cut.len(), end == End::Clean), (0, false));
    other.process.exit().await;
    let there = connected(third.data, get(&events_of("r1"), &cursor(second[0].id()))).await;
    // Then the one that runs it.
    one.process.signal("TERM");
    for (client, missed) in [(there, 1), (elsewhere, 2)] {
        let end = rest(client).await;
        assert_eq!((end.len(), end.last().map(Frame::kind)), (missed, Some("RUN_ERROR")));
        assert_eq!(end[missed - 1].event["code"], "gateway_draining");
    }
    // It is kept, although its process is not.
    assert_eq!(heard(&ask(third.data, behind).await).len(), 2);
}

#[tokio::test]
async fn the_events_of_a_thread_are_found_on_every_replica() {
    let (agent, redis) = (waiting(), Redis::start().await);
    let path = "/api/v1/agent/runs";
    let routes = format!(
        "routes:\n  - {{name: social, path: {path}, events_path: \"{path}/{{thread_id}}/events\", client: social-app, agent: ag-ui, upstream: {}, on_disconnect: continue for 5m}}\n",
        agent.url()
    );
    let top = top(&redis);
    let one = Gateway::start(Setup { routes: &routes, top: &top, ..Setup::default() }).await;
    let other = Gateway::start(Setup { routes: &routes, top: &top, ..Setup::default() }).await;
    living(&redis, 2).await;
    let start = post(path, "", &input("r1")).replace("text/event-stream", "application/json");
    let accepted = ask(one.data, &start).await;
    assert_eq!(accepted.status, 202);
    assert_eq!(ask(other.data, &start).await.text(), accepted.text());
    let events = get(&format!("{path}/t1/events"), "");
    let (client, first) = opened(other.data, events.clone(), "RUN_STARTED").await;
    drop(client);
    agent.go();
    let behind = get(&format!("{path}/t1/events"), &cursor(first[0].id()));
    let missed = heard(&ask(other.data, behind.clone()).await);
    assert_eq!(kinds(&missed).last(), Some(&"RUN_FINISHED"));
    assert_eq!(heard(&ask(one.data, behind).await), missed);
    assert_eq!(agent.connections(), 1);
}
