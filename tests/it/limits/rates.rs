//! Quotas that one gateway counts.

use super::super::support::client::{INPUT, post, send_request};
use super::super::support::eventually;
use super::super::support::gateway::{Gateway, Setup};
use super::super::support::sse::{COMPLETE_RUN, assert_refused, assert_succeeded};
use super::{
    api_keys, count_admitted, is_admitted, post_run_with, send_concurrently, start_agent, start_gateway,
    violated_policies,
};
use std::time::{Duration, Instant};

const FEW: &str = "rate_limits: [{name: few, key: address, requests: 2, per: 1h}]";

#[tokio::test]
async fn refuses_after_the_burst_and_reports_the_remaining_quota() {
    let agent = start_agent();
    let mut gateway = start_gateway(&agent, FEW, "rate_limits: [few]").await;
    for expected in [r#""few";r=1;t=1800"#, r#""few";r=0;t=1800"#] {
        let answer = post_run_with(&gateway, "").await;
        assert_succeeded(&answer, COMPLETE_RUN);
        assert_eq!(answer.header("ratelimit-policy"), Some(r#""few";q=2;w=3600"#));
        assert_eq!(answer.header("ratelimit"), Some(expected));
        assert_eq!((answer.header("retry-after"), answer.header("x-ratelimit-limit")), (None, None));
    }
    let answer = post_run_with(&gateway, "X-Request-Id: over-it\r\n").await;
    let problem = assert_refused(&answer, 429, "rate_limited");
    assert_eq!(violated_policies(&problem), ["few"]);
    assert_eq!(problem["instance"], "over-it");
    assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains("few")), "{problem}");
    assert_eq!(answer.header("retry-after"), Some("1800"));
    assert_eq!(answer.header("ratelimit-policy"), Some(r#""few";q=2;w=3600"#));
    assert_eq!(answer.header("ratelimit"), Some(r#""few";r=0;t=1800"#));
    // The agent got no request.
    assert_eq!(agent.connection_count(), 2);
    let count = async |decision| {
        gateway.metric(&format!("diglot_ratelimit_total{{decision=\"{decision}\",policy=\"few\"}}")).await
    };
    assert_eq!((count("allowed").await, count("refused").await), (2.0, 1.0));
    let line = gateway.next_log("request refused").await;
    assert_eq!(
        (&line["code"], &line["status"], &line["request_id"]),
        (&"rate_limited".into(), &429.into(), &"over-it".into())
    );
}

#[tokio::test]
async fn sends_legacy_rate_limit_headers_where_configured() {
    let top = format!("{FEW}\nlimits: {{legacy_headers: true}}");
    let gateway = start_gateway(&start_agent(), &top, "rate_limits: [few]").await;
    for (status, remaining) in [(200, "1"), (200, "0"), (429, "0")] {
        let answer = post_run_with(&gateway, "").await;
        assert_eq!(answer.status, status, "{}", answer.text());
        let fields = ["limit", "remaining", "reset"].map(|name| answer.header(&format!("x-ratelimit-{name}")));
        assert_eq!(fields, [Some("2"), Some(remaining), Some("1800")]);
    }
}

#[tokio::test]
async fn admits_callers_after_retry_after() {
    let gateway = start_gateway(
        &start_agent(),
        "rate_limits: [{name: slow, key: address, requests: 1, per: 1s}]",
        "rate_limits: [slow]",
    )
    .await;
    let began = Instant::now();
    assert_succeeded(&post_run_with(&gateway, "").await, COMPLETE_RUN);
    let answer = post_run_with(&gateway, "").await;
    assert_refused(&answer, 429, "rate_limited");
    let (answered_at, seconds) = (Instant::now(), answer.header("retry-after").and_then(|text| text.parse().ok()));
    let wait = Duration::from_secs(seconds.expect("whole seconds"));
    assert_eq!(wait, Duration::from_secs(1));
    // Requests do not extend the wait. The last refused one was sent before the wait was over.
    let passed = eventually("a run that is let in", async || {
        let requested_at = Instant::now();
        let admitted = is_admitted(&post_run_with(&gateway, "").await) == 1;
        assert!(admitted || requested_at < answered_at + wait, "a retry after Retry-After is refused");
        admitted.then(Instant::now)
    })
    .await;
    assert!(passed >= began + Duration::from_millis(990), "{:?}", passed - began);
}

#[tokio::test]
async fn admits_exactly_the_quota_under_concurrent_load() {
    let agent = start_agent();
    let top = "rate_limits: [{name: some, key: address, requests: 10, per: 24h, burst: 100}]";
    let gateway = start_gateway(&agent, top, "rate_limits: [some]").await;
    assert_eq!(send_concurrently(&[&gateway], 256).await, 100);
    assert_eq!(agent.connection_count(), 100);
}

#[tokio::test]
async fn counts_quotas_per_tier_and_per_caller() {
    let agent = start_agent();
    let top = api_keys(&[("ada", Some("gold")), ("bob", Some("gold")), ("eve", None), ("mallory", Some("lead"))])
        + "rate_limits: [{name: standard, requests: 1, per: 24h, tiers: {gold: {requests: 2, burst: 4}}}]";
    let gateway = start_gateway(&agent, &top, "rate_limits: [standard]").await;
    let of = |owner: &str| format!("X-Api-Key: {owner}\r\n");
    // A flood of one.
    assert_eq!(count_admitted(&gateway, &of("ada"), 50).await, 4);
    assert_eq!(count_admitted(&gateway, &of("eve"), 3).await, 1);
    assert_eq!(count_admitted(&gateway, &of("bob"), 6).await, 4);
    // A tier without a quota of its own has the default one.
    assert_eq!(count_admitted(&gateway, &of("mallory"), 3).await, 1);
    let answer = post_run_with(&gateway, &of("bob")).await;
    assert_refused(&answer, 429, "rate_limited");
    assert_eq!(answer.header("ratelimit-policy"), Some(r#""standard";q=2;w=86400"#));
    // An unauthenticated caller is refused for that, and uses up no quota.
    assert_refused(&post_run_with(&gateway, &of("nobody")).await, 401, "invalid_token");
    assert_eq!(agent.connection_count(), 10);
}

#[tokio::test]
async fn counts_a_caller_once_whatever_headers_it_sends() {
    let gateway = start_gateway(&start_agent(), FEW, "rate_limits: [few]").await;
    assert_eq!(count_admitted(&gateway, "", 2).await, 2);
    for cheat in [
        "X-Forwarded-For: 10.0.0.1\r\n",
        "X-Forwarded-For: 10.0.0.2, 127.0.0.1\r\n",
        "Forwarded: for=10.0.0.3\r\n",
        "X-Real-IP: 10.0.0.4\r\n",
        "User-Agent: another\r\n",
        "Cookie: session=new\r\n",
        "X-Request-Id: fresh\r\n",
    ] {
        assert_eq!(is_admitted(&post_run_with(&gateway, cheat).await), 0, "{cheat}");
    }
    let other = post("/run?fresh=1", "", INPUT).replace("Host: gateway", "Host: elsewhere");
    assert_eq!(is_admitted(&send_request(gateway.data, other).await), 0);
}

#[tokio::test]
async fn counts_by_header_and_by_route_as_configured() {
    let agent = start_agent();
    let top = "rate_limits:\n  - {name: team, key: \"header:x-team\", requests: 1, per: 24h}\n  - {name: busy, key: route, requests: 2, per: 24h}";
    let route = |path: &str, limit: &str| {
        format!(
            "  - {{name: {path}, path: /{path}, client: ag-ui, agent: ag-ui, upstream: \"{}\", rate_limits: [{limit}]}}\n",
            agent.url()
        )
    };
    let routes = format!("routes:\n{}{}{}", route("run", "team"), route("left", "busy"), route("right", "busy"));
    let gateway = Gateway::start(Setup { top, routes: &routes, ..Setup::default() }).await;
    // None is one team, and lines of one name are one value (RFC 9110 §5.3).
    for (fields, passes) in [
        ("", 1),
        ("X-Team: a\r\n", 1),
        ("X-Team: a, b\r\n", 1),
        ("", 0),
        ("X-Team: a\r\nX-Team: b\r\n", 0),
        ("x-team: a\r\n", 0),
    ] {
        assert_eq!(is_admitted(&post_run_with(&gateway, fields).await), passes, "{fields}");
    }
    let try_run = async |path: &str| is_admitted(&send_request(gateway.data, post(path, "", INPUT)).await);
    let mut passed = Vec::new();
    for path in ["/left", "/left", "/left", "/right", "/right", "/right"] {
        passed.push(try_run(path).await);
    }
    assert_eq!(passed, [1, 1, 0, 1, 1, 0]);
}

#[tokio::test]
async fn counts_failed_credentials_by_address_only() {
    let top = api_keys(&[("ada", None)])
        + "rate_limits:\n  - {name: floods, key: address, requests: 5, per: 24h}\n  - {name: standard, requests: 9, per: 24h}";
    let agent = start_agent();
    let gateway = start_gateway(&agent, &top, "rate_limits: [standard, floods]").await;
    let answer = post_run_with(&gateway, "X-Api-Key: ada\r\n").await;
    assert_succeeded(&answer, COMPLETE_RUN);
    assert_eq!(answer.header("ratelimit-policy"), Some(r#""floods";q=5;w=86400, "standard";q=9;w=86400"#));
    for _ in 0..4 {
        assert_refused(&post_run_with(&gateway, "X-Api-Key: guessed\r\n").await, 401, "invalid_token");
    }
    for key in ["guessed", "ada"] {
        let answer = post_run_with(&gateway, &format!("X-Api-Key: {key}\r\n")).await;
        assert_eq!(violated_policies(&assert_refused(&answer, 429, "rate_limited")), ["floods"]);
    }
    assert_eq!(gateway.metric("diglot_ratelimit_total{decision=\"allowed\",policy=\"standard\"}").await, 1.0);
}

/// Guessing keys is counted wherever a key is asked for, also where reading a run is free for its caller.
#[tokio::test]
async fn counts_failed_credentials_of_reads_by_address() {
    let top = api_keys(&[("ada", None)])
        + "rate_limits:\n  - {name: floods, key: address, requests: 5, per: 24h}\n  - {name: standard, requests: 1, per: 24h}";
    let agent = start_agent();
    let routes = format!(
        "routes:\n  - {{name: two, path: /two, events_path: \"/two/{{thread_id}}/events\", client: social-app, agent: ag-ui, upstream: {}, auth: [keys], rate_limits: [standard, floods]}}\n",
        agent.url()
    );
    let gateway = Gateway::start(Setup { routes: &routes, top: &top, ..Setup::default() }).await;
    let read = async |key: &str| {
        let request = format!(
            "GET /two/t1/events HTTP/1.1\r\nHost: a\r\nX-Api-Key: {key}\r\nAccept: text/event-stream\r\nConnection: close\r\n\r\n"
        );
        send_request(gateway.data, request).await
    };
    let started = send_request(gateway.data, post("/two", "X-Api-Key: ada\r\nConnection: close\r\n", INPUT)).await;
    assert_eq!(started.status, 202, "{}", started.text());
    // The caller's own limit is used up, but reading what was started is free.
    assert_eq!(read("ada").await.status, 200);
    for _ in 0..3 {
        assert_refused(&read("guessed").await, 401, "invalid_token");
    }
    assert_eq!(violated_policies(&assert_refused(&read("guessed").await, 429, "rate_limited")), ["floods"]);
}
