//! Quotas of several gateways in a real Redis, which is killed, stopped and restarted.

use super::super::support::gateway::{Gateway, Setup};
use super::super::support::redis::Redis;
use super::super::support::sse::{COMPLETE_RUN, assert_refused, assert_succeeded};
use super::{api_keys, count_admitted, is_admitted, post_run_with, send_concurrently, start_agent, start_gateway};
use std::time::{Duration, Instant};

/// A quota of two that comes back in days. Tests that are about something else wait long for an answer: the machine may be
/// busy with other tests.
fn redis_config(redis: &Redis, more: &str) -> String {
    redis.yaml(&format!(", deadline: 1s{more}"))
        + "rate_limits: [{name: few, key: address, requests: 1, per: 24h, burst: 2, shared: true}]"
}

/// A gateway that has reached its Redis.
async fn start_connected(top: &str) -> Gateway {
    // The agent runs as long as the runtime of the test.
    let mut gateway = start_gateway(&start_agent(), top, "rate_limits: [few]").await;
    gateway.next_log("redis answers").await;
    gateway
}

async fn decision_count(gateway: &Gateway, decision: &str) -> f64 {
    gateway.metric(&format!("diglot_ratelimit_total{{decision=\"{decision}\",policy=\"few\"}}")).await
}

const ERRORS: &str = "diglot_ratelimit_backend_errors_total";

#[tokio::test]
async fn shares_one_quota_between_gateways_under_load() {
    let redis = Redis::start().await;
    let top = redis.yaml(", deadline: 1s")
        + "rate_limits: [{name: few, key: address, requests: 1, per: 24h, burst: 200, shared: true}]";
    let (one, two) = (start_connected(&top).await, start_connected(&top).await);
    let passed = send_concurrently(&[&one, &two], 512).await;
    assert!((196..=204).contains(&passed), "{passed} of 200");
    // With an answer to every question it is exact.
    assert_eq!((one.metric(ERRORS).await, two.metric(ERRORS).await, passed), (0.0, 0.0, 200));
}

#[tokio::test]
async fn reports_the_remaining_quota_across_replicas() {
    let redis = Redis::start().await;
    let top = redis_config(&redis, "");
    let (one, other) = (start_connected(&top).await, start_connected(&top).await);
    for (gateway, expected) in [(&one, r#""few";r=1;t=86400"#), (&other, r#""few";r=0;t=86400"#)] {
        let answer = post_run_with(gateway, "").await;
        assert_succeeded(&answer, COMPLETE_RUN);
        assert_eq!(answer.header("ratelimit"), Some(expected));
        assert_eq!(answer.header("ratelimit-policy"), Some(r#""few";q=1;w=86400"#));
    }
    for gateway in [&one, &other] {
        let answer = post_run_with(gateway, "").await;
        assert_refused(&answer, 429, "rate_limited");
        assert_eq!(answer.header("retry-after"), Some("86400"));
    }
}

#[tokio::test]
async fn sends_a_correct_retry_after_for_a_shared_quota() {
    let redis = Redis::start().await;
    let top =
        redis.yaml(", deadline: 1s") + "rate_limits: [{name: few, key: address, requests: 1, per: 1s, shared: true}]";
    let gateway = start_connected(&top).await;
    assert_eq!(is_admitted(&post_run_with(&gateway, "").await), 1);
    let answer = post_run_with(&gateway, "").await;
    assert_refused(&answer, 429, "rate_limited");
    assert_eq!(answer.header("retry-after"), Some("1"));
    let answered_at = Instant::now();
    super::super::support::eventually("a run that is let in", async || {
        let requested_at = Instant::now();
        let admitted = is_admitted(&post_run_with(&gateway, "").await) == 1;
        assert!(
            admitted || requested_at < answered_at + Duration::from_secs(1),
            "a retry after Retry-After is refused"
        );
        admitted.then_some(())
    })
    .await;
}

#[tokio::test]
async fn applies_on_error_while_redis_is_down_and_reconnects() {
    let mut redis = Redis::start().await;
    let (mut local, mut allow, mut deny) = (
        start_connected(&redis_config(&redis, ", prefix: \"a:\"")).await,
        start_connected(&redis_config(&redis, ", prefix: \"b:\", on_error: allow")).await,
        start_connected(&redis_config(&redis, ", prefix: \"c:\", on_error: deny")).await,
    );
    for gateway in [&local, &allow, &deny] {
        assert_eq!(count_admitted(gateway, "", 1).await, 1);
    }
    redis.kill().await;
    for gateway in [&mut local, &mut allow, &mut deny] {
        let line = gateway.next_log("redis does not answer").await;
        assert!(line["redis"].as_str().is_some_and(|shown| shown.starts_with("redis://127.0.0.1:")), "{line}");
    }
    // Requests that replicas counted together stay counted: one of two is left.
    assert_eq!(count_admitted(&local, "", 3).await, 1);
    assert_eq!(decision_count(&local, "local").await, 1.0);
    assert_eq!(count_admitted(&allow, "", 5).await, 5);
    assert_eq!(decision_count(&allow, "unchecked").await, 5.0);
    let answer = post_run_with(&allow, "").await;
    assert_eq!((answer.header("ratelimit-policy"), answer.header("ratelimit")), (Some(r#""few";q=1;w=86400"#), None));
    let answer = post_run_with(&deny, "").await;
    let problem = assert_refused(&answer, 503, "rate_limit_unavailable");
    assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains("few")), "{problem}");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(decision_count(&deny, "unavailable").await, 1.0);
    for gateway in [&local, &allow, &deny] {
        assert!(gateway.metric(ERRORS).await >= 1.0);
    }

    redis.restart().await;
    for gateway in [&mut local, &mut allow, &mut deny] {
        gateway.next_log("redis answers").await;
        // It has forgotten everything.
        assert_eq!(count_admitted(gateway, "", 4).await, 2);
    }
}

#[tokio::test]
async fn starts_without_redis_and_counts_locally() {
    let mut redis = Redis::start().await;
    let top = redis_config(&redis, "");
    redis.kill().await;
    let mut gateway = start_gateway(&start_agent(), &top, "rate_limits: [few]").await;
    gateway.next_log("redis does not answer").await;
    assert_eq!(count_admitted(&gateway, "", 4).await, 2);
    redis.restart().await;
    gateway.next_log("redis answers").await;
    assert_eq!(count_admitted(&gateway, "", 4).await, 2);
}

#[tokio::test]
async fn waits_only_one_deadline_for_a_hanging_redis() {
    let redis = Redis::start().await;
    let mut gateway = start_connected(&redis_config(&redis, ", on_error: allow")).await;
    assert_eq!(is_admitted(&post_run_with(&gateway, "").await), 1);
    redis.suspend();
    let began = Instant::now();
    for _ in 0..20 {
        let requested_at = Instant::now();
        assert_eq!(is_admitted(&post_run_with(&gateway, "").await), 1);
        assert!(requested_at.elapsed() < Duration::from_millis(1900), "{:?}", requested_at.elapsed());
    }
    // 20 deadlines were 20 s.
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    gateway.next_log("redis does not answer").await;
    redis.continue_running();
    gateway.next_log("redis answers").await;
    let answer = post_run_with(&gateway, "").await;
    assert!(answer.header("ratelimit").is_some(), "{:?}", answer.headers);
}

#[tokio::test]
async fn treats_a_full_redis_as_unavailable() {
    let redis = Redis::start().await;
    let mut gateway = start_connected(&redis_config(&redis, "")).await;
    redis.run_command(&["config", "set", "maxmemory", "1"]);
    let line = gateway.next_log("redis does not answer").await;
    assert!(line["cause"].as_str().is_some_and(|cause| cause.contains("OOM")), "{line}");
    assert_eq!(count_admitted(&gateway, "", 4).await, 2);
    redis.run_command(&["config", "set", "maxmemory", "0"]);
    gateway.next_log("redis answers").await;
    assert_eq!(count_admitted(&gateway, "", 4).await, 2);
}

#[tokio::test]
async fn stores_hashed_callers_and_expires_full_quotas() {
    let redis = Redis::start().await;
    let top = api_keys(&[("ada-lovelace", None)])
        + &redis.yaml(", deadline: 1s")
        + "rate_limits: [{name: few, requests: 10, per: 100s, shared: true}]";
    let gateway = start_connected(&top).await;
    assert_eq!(is_admitted(&post_run_with(&gateway, "X-Api-Key: ada-lovelace\r\n").await), 1);
    let keys = redis.run_command(&["--scan", "--pattern", "diglot:limit:*"]);
    let digest = keys.trim().strip_prefix("diglot:limit:few::").expect("a key of the limit");
    assert!(digest.len() == 32 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{keys}");
    // One of ten comes back in 10 s.
    let left: u64 = redis.run_command(&["pttl", keys.trim()]).trim().parse().expect("milliseconds");
    assert!((1..=10_000).contains(&left), "{left}");
    assert!(!redis.run_command(&["get", keys.trim()]).contains("ada"));
}

#[tokio::test]
async fn connects_to_redis_over_tls_with_a_password() {
    let redis = Redis::start_with_tls("planted").await;
    let agent = start_agent();
    let routes = format!(
        "routes:\n  - {{name: run, path: /run, client: ag-ui, agent: ag-ui, upstream: \"{}\", rate_limits: [few]}}\n",
        agent.url()
    );
    let top = format!(
        "redis: {{url: \"rediss://:planted@127.0.0.1:{}\", deadline: 1s}}\nrate_limits: [{{name: few, key: address, requests: 1, per: 24h, shared: true}}]",
        redis.port()
    );
    let ca = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/auth/ca.pem");
    let env: &[_] = &[("SSL_CERT_FILE", ca), ("SSL_CERT_DIR", "")];
    let mut gateway = Gateway::start(Setup { top: &top, routes: &routes, env, ..Setup::default() }).await;
    let line = gateway.next_log("redis answers").await;
    assert!(!line.to_string().contains("planted"), "{line}");
    assert_eq!(count_admitted(&gateway, "", 3).await, 1);
    assert_eq!(decision_count(&gateway, "allowed").await, 1.0);
}

#[tokio::test]
async fn hides_the_redis_password_and_reports_failed_tls() {
    let redis = Redis::start().await;
    for scheme in ["redis", "rediss"] {
        let top = format!(
            "redis: {{url: \"{scheme}://:planted@127.0.0.1:{}\"}}\nrate_limits: [{{name: few, key: address, requests: 1, per: 24h, shared: true}}]",
            redis.port()
        );
        let mut gateway = start_gateway(&start_agent(), &top, "rate_limits: [few]").await;
        let line = gateway.next_log("redis does not answer").await;
        assert!(!line.to_string().contains("planted"), "{line}");
        assert_eq!(count_admitted(&gateway, "", 3).await, 1);
    }
}
