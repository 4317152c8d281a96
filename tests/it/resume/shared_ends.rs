//! Ends of runs that another replica reads, while Redis or the owner fails at the worst moment. `tests/it/models` found them.

use super::super::support::eventually;
use super::super::support::redis::Redis;
use super::join::script;
use super::shared::{open_stream, read_frames, start_pair, start_run_frames, start_stepping_agent};
use super::stop::stop_request;
use super::*;
use std::time::{Duration, Instant};

fn run_key(redis: &Redis) -> String {
    redis.run_command(&["--scan", "--pattern", "diglot:run:*}"]).trim().to_owned()
}

async fn wait_for_field(redis: &Redis, field: &str, value: &str) {
    let read = || redis.run_command(&["HGET", &run_key(redis), field]);
    eventually("the field of the run", async || (read().trim() == value).then_some(())).await;
}

#[tokio::test]
async fn stops_a_run_on_the_replica_that_its_reader_has_just_left() {
    let mut agent =
        Agent::with_script(vec![Step::Read, write([HEAD, STARTED, OPENED, CONTENT].concat()), Step::WaitForClose]);
    let redis = Redis::start().await;
    let (one, other) = start_pair(&agent, &redis, "").await;
    let (_client, first) = start_run_until(one.data, "r1", END_OF_CONTENT).await;
    agent.next_request().await;
    let there = open_stream(other.data, get_request(&run_events_path("r1"), &last_event_id(first[0].id()))).await;
    drop(there);
    // The replica has noticed it, and still follows the run.
    assert_eq!(other.metric("diglot_replay_followed").await, 1.0);
    assert_eq!(send_request(other.data, stop_request("r1")).await.status, 204);
    agent.wait_until_closed().await;
}

#[tokio::test]
async fn confirms_no_stop_that_the_owner_cannot_get() {
    let agent = start_stepping_agent();
    let redis = Redis::start().await;
    let (one, other) = start_pair(&agent, &redis, "").await;
    let (_client, first) = start_run_frames(&one, "r1", 1).await;
    let _there = open_stream(other.data, get_request(&run_events_path("r1"), &last_event_id(first[0].id()))).await;
    redis.suspend();
    assert_refused(&send_request(other.data, stop_request("r1")).await, 503, "replay_unavailable");
    redis.continue_running();
}

/// Whether another replica has given the run's key to another request cannot be known; the answer waits for it as long as
/// `redis.deadline` at most.
#[tokio::test]
async fn serves_its_own_ended_run_while_redis_hangs() {
    let agent = Agent::with_response(HEAD.to_owned() + &script().concat());
    let redis = Redis::start().await;
    let gateway = start_gateway_with(&agent, &(redis.yaml(", deadline: 50ms") + "replay: {store: redis}\n"), "").await;
    let first = finished_frames(&send_request(gateway.data, post("/run", "", &input("r1"))).await);
    // Its end is in Redis.
    wait_for_field(&redis, "s", "ended").await;
    redis.suspend();
    let suspended_at = Instant::now();
    let mut slowest = Duration::ZERO;
    while suspended_at.elapsed() < Duration::from_secs(3) {
        let began = Instant::now();
        let again = finished_frames(&send_request(gateway.data, get_request(&run_events_path("r1"), "")).await);
        assert_eq!(again.last(), first.last());
        slowest = slowest.max(began.elapsed());
    }
    redis.continue_running();
    assert!(slowest < Duration::from_millis(500), "{slowest:?}");
    assert_eq!(agent.connection_count(), 1);
}

#[tokio::test]
async fn copies_a_run_that_ended_while_redis_was_down() {
    let (agent, mut redis) = (start_stepping_agent(), Redis::start().await);
    let (one, other) = start_pair(&agent, &redis, "").await;
    let (client, first) = start_run_frames(&one, "r1", 1).await;
    redis.kill().await;
    (0..script().len()).for_each(|_| agent.resume());
    let rest = read_rest(client).await;
    // Longer than the end of the process waits for the copy.
    let before = one.metric("diglot_replay_backend_errors_total").await;
    let errors = async || (one.metric("diglot_replay_backend_errors_total").await >= before + 4.0).then_some(());
    eventually("failures over some seconds", errors).await;
    redis.restart().await;
    let behind = get_request(&run_events_path("r1"), &last_event_id(first[0].id()));
    let found = eventually("the run on the other replica", async || {
        let answer = send_request(other.data, behind.clone()).await;
        assert!(matches!(answer.status, 200 | 503), "{}", answer.text());
        (answer.status == 200).then_some(answer)
    })
    .await;
    assert_eq!(finished_frames(&found), rest);
}

/// The owner died between its last event and the record that it was the last.
#[tokio::test]
async fn ends_a_run_once_if_its_owner_died_behind_the_last_event() {
    let (agent, redis) = (start_stepping_agent(), Redis::start().await);
    let (mut one, other) = start_pair(&agent, &redis, "").await;
    let (client, first) = start_run_frames(&one, "r1", 1).await;
    (0..script().len()).for_each(|_| agent.resume());
    let rest = read_rest(client).await;
    wait_for_field(&redis, "s", "ended").await;
    one.process.signal("KILL");
    one.process.exit().await;
    redis.run_command(&["HSET", &run_key(&redis), "s", "open"]);
    let there = open_stream(other.data, get_request(&run_events_path("r1"), &last_event_id(first[0].id()))).await;
    assert_eq!(read_rest(there).await, rest);
}

/// The replica of a run has claimed it again in a Redis that lost its data, and not copied the events yet.
#[tokio::test]
async fn a_run_that_is_copied_again_is_not_lost() {
    let (agent, redis) = (start_stepping_agent(), Redis::start().await);
    let (one, other) = start_pair(&agent, &redis, "").await;
    let (_client, first) = start_run_frames(&one, "r1", 1).await;
    wait_for_field(&redis, "n", "1").await;
    one.process.signal("STOP");
    let key = run_key(&redis);
    let token = redis.run_command(&["HGET", &key, "t"]);
    redis.run_command(&["DEL", &format!("{key}:{}", token.trim())]);
    redis.run_command(&["HSET", &key, "n", "0", "k", "0"]);
    let request = get_request(&run_events_path("r1"), &last_event_id(first[0].id()));
    assert_refused(&send_request(other.data, request).await, 503, "replay_unavailable");
}

/// A client must not take the number of the error for that of an event which it has.
#[tokio::test]
async fn sends_the_loss_of_a_run_to_a_client_that_is_ahead_of_the_copy() {
    let (agent, redis) = (start_stepping_agent(), Redis::start().await);
    let (mut one, other) = start_pair(&agent, &redis, "").await;
    let (mut client, _) = start_run_frames(&one, "r1", 1).await;
    wait_for_field(&redis, "n", "1").await;
    redis.run_command(&["CLIENT", "PAUSE", "60000", "WRITE"]);
    agent.resume();
    let second = read_frames(&mut client, 1).await;
    one.process.signal("KILL");
    one.process.exit().await;
    redis.run_command(&["CLIENT", "UNPAUSE"]);
    let afresh = open_stream(other.data, get_request(&run_events_path("r1"), "")).await;
    let end = read_rest(afresh).await.pop().expect("an end");
    assert_eq!(end.event["code"], "run_lost");
    let missed = send_request(other.data, get_request(&run_events_path("r1"), &last_event_id(second[0].id()))).await;
    assert_eq!(finished_frames(&missed), [end]);
}

/// The replica of the first run still has it when another one starts a run with the same id and another body.
#[tokio::test]
async fn serves_the_latest_run_with_an_id() {
    let (agent, redis) = (start_paused_agent(), Redis::start().await);
    let (one, other) = start_pair(&agent, &redis, "").await;
    let (client, first) = start_run_until(one.data, "r1", END_OF_CONTENT).await;
    agent.resume();
    read_rest(client).await;
    wait_for_field(&redis, "s", "ended").await;
    let changed = input("r1").replace("hi", "something else");
    let (client, second) = open_stream_until(other.data, post("/run", "", &changed), END_OF_CONTENT).await;
    let joined = open_stream(one.data, get_request(&run_events_path("r1"), &last_event_id(second[0].id()))).await;
    agent.resume();
    assert_eq!(frame_kinds(&read_rest(joined).await).last(), Some(&"RUN_FINISHED"));
    read_rest(client).await;
    let old = read_run(one.data, "r1", &last_event_id(first[0].id())).await;
    assert_refused(&old, 410, "cursor_gone");
    assert_eq!(one.metric("diglot_replay_evictions_total{reason=\"replaced\"}").await, 1.0);
}
