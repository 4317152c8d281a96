//! Values that the runs of a thread keep for later ones: over several replicas, and while Redis fails.

use super::support::agent::{Agent, Step, write};
use super::support::client::{Client, INPUT, post, send_request};
use super::support::gateway::{Gateway, Setup, TempFile};
use super::support::redis::Redis;
use super::support::sse::HEAD;
use serde_json::{Value, json};

const ERRORS: &str = "diglot_ratelimit_backend_errors_total";

/// An agent with two values of a conversation, which it gets again with the next request.
const ACME: &str = r#"
name: acme
request:
  body: {query: "{@user_text}", a: "{@thread.a}", b: "{@thread.b}"}
events:
  - has: a
    keep: {a: "{a}"}
  - has: b
    keep: {b: "{b}"}
  - has: say
    emit: {type: TEXT_MESSAGE_CHUNK, messageId: m, delta: "{say}"}
  - has: over
    done: true
"#;

/// A gateway with an agent of its own.
struct Replica {
    gateway: Gateway,
    agent: Agent,
    _file: TempFile,
}

impl Replica {
    async fn start(agent: Agent, redis: &Redis) -> Replica {
        Replica::start_with(ACME, agent, redis).await
    }

    async fn start_with(dialect: &str, agent: Agent, redis: &Redis) -> Replica {
        let file = TempFile::new(dialect);
        let top = format!("dialect_files: [{}]\n{}", file.path().display(), redis.yaml(", deadline: 1s"));
        let routes =
            format!("routes: [{{name: run, path: /run, client: ag-ui, agent: acme, upstream: \"{}\"}}]\n", agent.url());
        let setup = Setup { top: &top, routes: &routes, ..Setup::default() };
        let mut replica = Replica { gateway: Gateway::start(setup).await, agent, _file: file };
        replica.gateway.next_log("redis answers").await;
        replica
    }

    /// Sends the next run of the thread. Returns the request that its agent gets, and whether the client gets a notice
    /// of a lost conversation.
    async fn go_on(&mut self, run: &str) -> (Value, bool) {
        let answer = send_request(self.gateway.data, later_request(run)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let is_lost = answer.text().contains("diglot.conversation_lost");
        (self.agent.next_request().await.json(), is_lost)
    }
}

/// A request of a thread with an earlier answer.
fn later_request(run: &str) -> String {
    let earlier =
        r#""messages":[{"id":"m0","role":"user","content":"first"},{"id":"a0","role":"assistant","content":"Hi"},"#;
    post("/run", "", &INPUT.replace("\"messages\":[", earlier).replace("\"r1\"", &format!("\"{run}\"")))
}

fn frames(data: &[Value]) -> String {
    data.iter().map(|data| format!("data: {data}\n\n")).collect()
}

/// An agent whose runs keep a value for `a`.
fn agent_with(a: &str) -> Agent {
    Agent::with_response(format!("{HEAD}{}", frames(&[json!({"a": a, "say": "Hi"}), json!({"over": true})])))
}

/// Any replica goes on with a conversation; what a replica knows serves it while Redis does not answer.
#[tokio::test]
async fn replicas_share_conversations_through_redis() {
    let mut redis = Redis::start().await;
    let one = Replica::start(agent_with("1"), &redis).await;
    let mut other = Replica::start(agent_with("1"), &redis).await;
    assert_eq!(send_request(one.gateway.data, post("/run", "", INPUT)).await.status, 200);
    let keys = redis.run_command(&["KEYS", "*:kept:*"]);
    let remaining = || redis.run_command(&["TTL", keys.trim()]).trim().parse().unwrap_or(0);
    let week = 1..=7 * 24 * 60 * 60;
    assert!(week.contains(&remaining()), "saved for {} s: {keys}", remaining());
    // A run that keeps nothing new uses the thread, too.
    redis.run_command(&["PERSIST", keys.trim()]);
    assert_eq!(other.go_on("r2").await, (json!({"query": "hi", "a": "1"}), false));
    assert!(week.contains(&remaining()), "used for {} s: {keys}", remaining());
    let unknown = later_request("r1").replace("\"t1\"", "\"t2\"");
    let answer = send_request(other.gateway.data, unknown).await;
    assert!(answer.text().contains("diglot.conversation_lost"), "{}", answer.text());
    assert_eq!(other.agent.next_request().await.json(), json!({"query": "hi"}));
    let keys = redis.run_command(&["KEYS", "*"]);
    assert!(keys.contains(":kept:") && !keys.contains("t1"), "{keys}");
    redis.kill().await;
    assert_eq!(other.go_on("r3").await, (json!({"query": "hi", "a": "1"}), false));
    assert!(other.gateway.metric(ERRORS).await >= 1.0);
}

#[tokio::test]
async fn a_value_of_another_replica_wins_over_an_older_one_in_memory() {
    let mut redis = Redis::start().await;
    let mut one = Replica::start(agent_with("1"), &redis).await;
    let mut other = Replica::start(agent_with("2"), &redis).await;
    assert_eq!(one.go_on("r1").await, (json!({"query": "hi"}), true));
    assert_eq!(other.go_on("r2").await, (json!({"query": "hi", "a": "1"}), false));
    // This run keeps 1 again.
    assert_eq!(one.go_on("r3").await, (json!({"query": "hi", "a": "2"}), false));
    assert_eq!(other.go_on("r4").await, (json!({"query": "hi", "a": "1"}), false));
    redis.kill().await;
    assert_eq!(other.go_on("r5").await, (json!({"query": "hi", "a": "2"}), false));
}

/// Replicas that have older values in memory must not go on with them.
#[tokio::test]
async fn a_thread_that_one_replica_forgets_is_lost_for_all() {
    let redis = Redis::start().await;
    let mut one = Replica::start(agent_with("1"), &redis).await;
    let mut other = Replica::start(agent_with(&"x".repeat(600)), &redis).await;
    one.go_on("r1").await;
    assert_eq!(other.go_on("r2").await, (json!({"query": "hi", "a": "1"}), false));
    let forgotten = "the values that the dialect file keeps for this thread exceed the limit, so its next run begins without them; keep only ids";
    assert_eq!(other.gateway.next_log(forgotten).await["limit"], 512);
    let key = redis.run_command(&["KEYS", "*:kept:*"]);
    assert_eq!(redis.run_command(&["HVALS", key.trim()]).trim(), "", "Redis is bounded, too");
    assert_eq!(one.go_on("r3").await, (json!({"query": "hi"}), true));
    // The first run was of an unknown thread, too.
    assert_eq!(one.gateway.metric(r#"diglot_losses_total{reason="conversation_lost",route="run"}"#).await, 2.0);
}

/// A file that was changed since may have other names; values of the earlier ones are nothing that the later file keeps.
#[tokio::test]
async fn values_under_names_of_an_earlier_file_do_not_count() {
    let redis = Redis::start().await;
    let renamed = ACME.replace("@thread.a", "@thread.c").replace("keep: {a: ", "keep: {c: ");
    let mut earlier = Replica::start(agent_with(&"x".repeat(400)), &redis).await;
    let mut later = Replica::start_with(&renamed, agent_with(&"y".repeat(200)), &redis).await;
    earlier.go_on("r1").await;
    assert_eq!(later.go_on("r2").await, (json!({"query": "hi"}), true));
    assert_eq!(later.go_on("r3").await, (json!({"query": "hi", "a": "y".repeat(200)}), false));
}

/// A value that Redis did not get is not forgotten because it gets another one.
#[tokio::test]
async fn values_of_an_outage_reach_redis_with_the_next_ones() {
    let mut redis = Redis::start().await;
    let script = vec![
        Step::Read,
        write(format!("{HEAD}{}", frames(&[json!({"a": "1", "say": "Hi"})]))),
        Step::Pause,
        write(frames(&[json!({"b": "2", "say": "!"}), json!({"over": true})])),
    ];
    let mut one = Replica::start(Agent::with_script(script), &redis).await;
    let mut other = Replica::start(agent_with("1"), &redis).await;
    redis.kill().await;
    for replica in [&mut one, &mut other] {
        replica.gateway.next_log("redis does not answer").await;
    }
    let mut client = Client::connect(one.gateway.data).await;
    client.send(later_request("r1")).await;
    // Reading the thread's values, and saving one.
    one.gateway.wait_for_metric(ERRORS, 2.0).await;
    redis.restart().await;
    for replica in [&mut one, &mut other] {
        replica.gateway.next_log("redis answers").await;
    }
    one.agent.resume();
    assert_eq!(client.read_answer().await.status, 200);
    assert_eq!(other.go_on("r2").await, (json!({"query": "hi", "a": "1", "b": "2"}), false));
}

/// Another replica may have the next run.
#[tokio::test]
async fn values_of_an_outage_reach_redis_with_a_run_that_keeps_nothing() {
    let mut redis = Redis::start().await;
    let response = |data: Value| format!("{HEAD}{}", frames(&[data, json!({"over": true})]));
    let responses = [response(json!({"a": "1", "say": "Hi"})), response(json!({"say": "Hi"}))];
    let mut one = Replica::start(Agent::with_responses(&responses), &redis).await;
    let mut other = Replica::start(agent_with("1"), &redis).await;
    redis.kill().await;
    for replica in [&mut one, &mut other] {
        replica.gateway.next_log("redis does not answer").await;
    }
    assert_eq!(one.go_on("r1").await, (json!({"query": "hi"}), true));
    redis.restart().await;
    for replica in [&mut one, &mut other] {
        replica.gateway.next_log("redis answers").await;
    }
    assert_eq!(one.go_on("r2").await, (json!({"query": "hi", "a": "1"}), false));
    assert_eq!(other.go_on("r3").await, (json!({"query": "hi", "a": "1"}), false));
}

/// The agent knows nothing of such a run, and the client says that there were others.
#[tokio::test]
async fn a_run_that_never_reached_its_agent_makes_no_thread_known() {
    let redis = Redis::start().await;
    let refused = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned();
    let answered = format!("{HEAD}{}", frames(&[json!({"say": "Hi"}), json!({"over": true})]));
    let mut one = Replica::start(Agent::with_responses(&[refused, answered]), &redis).await;
    let answer = send_request(one.gateway.data, later_request("r1")).await;
    assert_ne!(answer.status, 200, "{}", answer.text());
    one.agent.next_request().await;
    assert_eq!(one.go_on("r2").await, (json!({"query": "hi"}), true));
    assert_eq!(
        one.go_on("r3").await,
        (json!({"query": "hi"}), false),
        "the thread of a run that was answered is known"
    );
}
