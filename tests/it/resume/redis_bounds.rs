//! What kept runs take in Redis, and on the replicas that read them.

use super::super::support::eventually;
use super::super::support::redis::Redis;
use super::shared::{open_stream, start_pair_with, start_run_frames, start_stepping_agent};
use super::*;

#[tokio::test]
async fn limits_the_runs_of_other_replicas_that_are_read_here() {
    let (agent, redis) = (start_stepping_agent(), Redis::start().await);
    let (one, other) = start_pair_with(&agent, &redis, "replay: {store: redis}\n").await;
    let read = async |run: &str| open_stream(other.data, get_request(&run_events_path(run), "")).await;
    let mut readers = Vec::new();
    for number in 0..64 {
        let run = format!("r{number}");
        readers.push((start_run_frames(&one, &run, 1).await, read(&run).await));
    }
    let _last = start_run_frames(&one, "r64", 1).await;
    let refused = send_request(other.data, get_request(&run_events_path("r64"), "")).await;
    assert_refused(&refused, 503, "replay_unavailable");
    // A run that is read here already takes no further place.
    drop(read("r1").await);
    readers.pop();
    other.wait_for_metric("diglot_replay_followed", 63.0).await;
    read("r64").await;
}

#[tokio::test]
async fn deletes_runs_in_redis_that_their_replica_evicts() {
    let agent = Agent::with_response([HEAD, STARTED, OPENED, CONTENT, CLOSED, FINISHED].concat());
    let redis = Redis::start().await;
    let (one, _other) = start_pair_with(&agent, &redis, "replay: {store: redis, runs: 2}\n").await;
    for number in 0..6 {
        open_stream(one.data, post("/run", "", &input(&format!("r{number}")))).await.read_rest().await;
    }
    // A run can be replaced as soon as its end is in Redis.
    eventually("another run with the same id", async || {
        let replacing = post("/run", "Connection: close\r\n", &(input("r5") + " "));
        (send_request(one.data, replacing).await.status == 200).then_some(())
    })
    .await;
    // The properties and the frames of two runs.
    let keys = || redis.run_command(&["--scan", "--pattern", "diglot:run:*"]).lines().count();
    eventually("the deletion", async || (keys() == 4).then_some(())).await;
}
