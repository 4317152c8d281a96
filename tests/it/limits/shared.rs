//! Quotas of several gateways over one real Redis, which is killed, stopped and brought back.

use super::super::support::gateway::{Gateway, Setup};
use super::super::support::redis::Redis;
use super::super::support::sse::{WHOLE, refused, succeeded};
use super::{admitted, api_keys, counted, gateway, prompt, run, storm};
use std::time::{Duration, Instant};

/// A quota of two that comes back in days. Tests that are about something else wait long for an answer: the machine may be
/// busy with other tests.
fn two(redis: &Redis, more: &str) -> String {
    redis.yaml(&format!(", deadline: 1s{more}"))
        + "rate_limits: [{name: few, key: address, requests: 1, per: 24h, burst: 2, shared: true}]"
}

/// A gateway that has reached its Redis.
async fn reaching(top: &str) -> Gateway {
    // The agent goes on for as long as the runtime of the test.
    let mut gateway = gateway(&prompt(), top, "rate_limits: [few]").await;
    gateway.logged("redis answers").await;
    gateway
}

async fn decided(gateway: &Gateway, decision: &str) -> f64 {
    gateway.metric(&format!("diglot_ratelimit_total{{decision=\"{decision}\",policy=\"few\"}}")).await
}

const ERRORS: &str = "diglot_ratelimit_backend_errors_total";

#[tokio::test]
async fn two_gateways_hold_one_quota_within_two_percent_under_load() {
    let redis = Redis::start().await;
    let top = redis.yaml(", deadline: 1s")
        + "rate_limits: [{name: few, key: address, requests: 1, per: 24h, burst: 200, shared: true}]";
    let (one, two) = (reaching(&top).await, reaching(&top).await);
    let passed = storm(&[&one, &two], 512).await;
    assert!((196..=204).contains(&passed), "{passed} of 200");
    // With an answer to every question it is exact.
    assert_eq!((one.metric(ERRORS).await, two.metric(ERRORS).await, passed), (0.0, 0.0, 200));
}

#[tokio::test]
async fn answers_say_how_the_caller_stands_with_all_replicas() {
    let redis = Redis::start().await;
    let top = two(&redis, "");
    let (one, other) = (reaching(&top).await, reaching(&top).await);
    for (gateway, standing) in [(&one, r#""few";r=1;t=86400"#), (&other, r#""few";r=0;t=86400"#)] {
        let answer = run(gateway, "").await;
        succeeded(&answer, WHOLE);
        assert_eq!(answer.header("ratelimit"), Some(standing));
        assert_eq!(answer.header("ratelimit-policy"), Some(r#""few";q=1;w=86400"#));
    }
    for gateway in [&one, &other] {
        let answer = run(gateway, "").await;
        refused(&answer, 429, "rate_limited");
        assert_eq!(answer.header("retry-after"), Some("86400"));
    }
}

#[tokio::test]
async fn retry_after_of_a_shared_quota_is_true() {
    let redis = Redis::start().await;
    let top =
        redis.yaml(", deadline: 1s") + "rate_limits: [{name: few, key: address, requests: 1, per: 1s, shared: true}]";
    let gateway = reaching(&top).await;
    assert_eq!(counted(&run(&gateway, "").await), 1);
    let answer = run(&gateway, "").await;
    refused(&answer, 429, "rate_limited");
    assert_eq!(answer.header("retry-after"), Some("1"));
    let heard = Instant::now();
    super::super::support::eventually("a run that is let in", async || {
        let asked = Instant::now();
        let admitted = counted(&run(&gateway, "").await) == 1;
        assert!(admitted || asked < heard + Duration::from_secs(1), "a retry after Retry-After is refused");
        admitted.then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_redis_that_dies_is_done_without_as_configured_and_asked_again_when_it_is_back() {
    let mut redis = Redis::start().await;
    let (mut local, mut allow, mut deny) = (
        reaching(&two(&redis, ", prefix: \"a:\"")).await,
        reaching(&two(&redis, ", prefix: \"b:\", on_error: allow")).await,
        reaching(&two(&redis, ", prefix: \"c:\", on_error: deny")).await,
    );
    for gateway in [&local, &allow, &deny] {
        assert_eq!(admitted(gateway, "", 1).await, 1);
    }
    redis.kill().await;
    for gateway in [&mut local, &mut allow, &mut deny] {
        let line = gateway.logged("redis does not answer").await;
        assert!(line["redis"].as_str().is_some_and(|shown| shown.starts_with("redis://127.0.0.1:")), "{line}");
    }
    // What replicas used up together is used up: one of two is left.
    assert_eq!(admitted(&local, "", 3).await, 1);
    assert_eq!(decided(&local, "local").await, 1.0);
    assert_eq!(admitted(&allow, "", 5).await, 5);
    assert_eq!(decided(&allow, "unchecked").await, 5.0);
    let answer = run(&allow, "").await;
    assert_eq!((answer.header("ratelimit-policy"), answer.header("ratelimit")), (Some(r#""few";q=1;w=86400"#), None));
    let answer = run(&deny, "").await;
    let problem = refused(&answer, 503, "rate_limit_unavailable");
    assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains("few")), "{problem}");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(decided(&deny, "unavailable").await, 1.0);
    for gateway in [&local, &allow, &deny] {
        assert!(gateway.metric(ERRORS).await >= 1.0);
    }

    redis.come_back().await;
    for gateway in [&mut local, &mut allow, &mut deny] {
        gateway.logged("redis answers").await;
        // It has forgotten everything.
        assert_eq!(admitted(gateway, "", 4).await, 2);
    }
}

#[tokio::test]
async fn a_gateway_starts_without_its_redis() {
    let mut redis = Redis::start().await;
    let top = two(&redis, "");
    redis.kill().await;
    let mut gateway = gateway(&prompt(), &top, "rate_limits: [few]").await;
    gateway.logged("redis does not answer").await;
    assert_eq!(admitted(&gateway, "", 4).await, 2);
    redis.come_back().await;
    gateway.logged("redis answers").await;
    assert_eq!(admitted(&gateway, "", 4).await, 2);
}

#[tokio::test]
async fn a_redis_that_hangs_costs_one_deadline_and_not_one_per_request() {
    let redis = Redis::start().await;
    let mut gateway = reaching(&two(&redis, ", on_error: allow")).await;
    assert_eq!(counted(&run(&gateway, "").await), 1);
    redis.hang();
    let began = Instant::now();
    for _ in 0..20 {
        let asked = Instant::now();
        assert_eq!(counted(&run(&gateway, "").await), 1);
        assert!(asked.elapsed() < Duration::from_millis(1900), "{:?}", asked.elapsed());
    }
    // 20 deadlines were 20 s.
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    gateway.logged("redis does not answer").await;
    redis.go_on();
    gateway.logged("redis answers").await;
    let answer = run(&gateway, "").await;
    assert!(answer.header("ratelimit").is_some(), "{:?}", answer.headers);
}

#[tokio::test]
async fn a_redis_that_is_full_counts_as_away() {
    let redis = Redis::start().await;
    let mut gateway = reaching(&two(&redis, "")).await;
    redis.ask(&["config", "set", "maxmemory", "1"]);
    let line = gateway.logged("redis does not answer").await;
    assert!(line["cause"].as_str().is_some_and(|cause| cause.contains("OOM")), "{line}");
    assert_eq!(admitted(&gateway, "", 4).await, 2);
    redis.ask(&["config", "set", "maxmemory", "0"]);
    gateway.logged("redis answers").await;
    assert_eq!(admitted(&gateway, "", 4).await, 2);
}

#[tokio::test]
async fn redis_learns_no_subjects_and_forgets_quotas_that_are_whole() {
    let redis = Redis::start().await;
    let top = api_keys(&[("ada-lovelace", None)])
        + &redis.yaml(", deadline: 1s")
        + "rate_limits: [{name: few, requests: 10, per: 100s, shared: true}]";
    let gateway = reaching(&top).await;
    assert_eq!(counted(&run(&gateway, "X-Api-Key: ada-lovelace\r\n").await), 1);
    let keys = redis.ask(&["--scan", "--pattern", "diglot:limit:*"]);
    let digest = keys.trim().strip_prefix("diglot:limit:few::").expect("a key of the limit");
    assert!(digest.len() == 32 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{keys}");
    // One of ten comes back in 10 s.
    let left: u64 = redis.ask(&["pttl", keys.trim()]).trim().parse().expect("milliseconds");
    assert!((1..=10_000).contains(&left), "{left}");
    assert!(!redis.ask(&["get", keys.trim()]).contains("ada"));
}

#[tokio::test]
async fn redis_is_asked_over_tls_and_with_a_password() {
    let redis = Redis::closed("planted").await;
    let agent = prompt();
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
    let line = gateway.logged("redis answers").await;
    assert!(!line.to_string().contains("planted"), "{line}");
    assert_eq!(admitted(&gateway, "", 3).await, 1);
    assert_eq!(decided(&gateway, "allowed").await, 1.0);
}

#[tokio::test]
async fn a_password_is_not_said_and_tls_to_a_server_without_is_no_answer() {
    let redis = Redis::start().await;
    for scheme in ["redis", "rediss"] {
        let top = format!(
            "redis: {{url: \"{scheme}://:planted@127.0.0.1:{}\"}}\nrate_limits: [{{name: few, key: address, requests: 1, per: 24h, shared: true}}]",
            redis.port()
        );
        let mut gateway = gateway(&prompt(), &top, "rate_limits: [few]").await;
        let line = gateway.logged("redis does not answer").await;
        assert!(!line.to_string().contains("planted"), "{line}");
        assert_eq!(admitted(&gateway, "", 3).await, 1);
    }
}
