//! The status plane: its endpoints, and that no other listener serves them.

use super::support::agent::{Agent, refusing_address};
use super::support::client::{INPUT, post, post_run, send_request};
use super::support::eventually;
use super::support::gateway::{Gateway, Setup};
use super::support::redis::Redis;
use super::support::sse::{CONTENT, HEAD, assert_refused, complete_run, run_beginning};

const GET: &str = " HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn reports_alive_and_ready_without_reachable_agents() {
    let (_held, url) = refusing_address();
    let gateway = Gateway::start(Setup { upstreams: &[url], ..Setup::default() }).await;
    for path in ["/livez", "/readyz"] {
        let answer = gateway.get_status(path).await;
        assert_eq!((answer.status, answer.text()), (200, "ok\n"), "{path}");
    }
}

#[tokio::test]
async fn separates_the_data_and_status_planes() {
    let agent = Agent::with_response("");
    let gateway = Gateway::start_for(&agent).await;
    for path in ["/", "/run", "/metrics/", "/config", "/debug/pprof", "/drain"] {
        assert_eq!(gateway.get_status(path).await.status, 404, "{path}");
    }
    assert_eq!(send_request(gateway.status, post("/run", "Connection: close\r\n", INPUT)).await.status, 404);
    assert_eq!(send_request(gateway.status, post("/metrics", "Connection: close\r\n", "")).await.status, 405);
    for path in ["/livez", "/readyz", "/metrics", "/config", "/inspect"] {
        assert_refused(&send_request(gateway.data, format!("GET {path}{GET}")).await, 404, "route_not_found");
        assert_refused(&post_run(gateway.data, path).await, 404, "route_not_found");
    }
    assert_eq!(agent.connection_count(), 0);
}

#[tokio::test]
async fn exposes_alert_series_before_the_first_run() {
    let agent = Agent::with_response("");
    let gateway = Gateway::start_for(&agent).await;
    let answer = gateway.get_status("/metrics").await;
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    for (name, kind) in [
        ("diglot_requests_total", "counter"),
        ("diglot_stream_first_event_seconds", "histogram"),
        ("diglot_streams_active", "gauge"),
        ("diglot_streams_total", "counter"),
        ("diglot_draining", "gauge"),
        ("process_resident_memory_bytes", "gauge"),
    ] {
        assert!(answer.text().contains(&format!("# TYPE {name} {kind}\n")), "{name}\n{}", answer.text());
    }
    for series in [
        r#"diglot_requests_total{code="502",method="POST",route="from-hai"} 0"#,
        r#"diglot_streams_total{outcome="drained",route="run"} 0"#,
        r#"diglot_repairs_total{repair="foreign_type",route="run"} 0"#,
    ] {
        assert!(answer.text().contains(&format!("{series}\n")), "{series}\n{}", answer.text());
    }
}

#[tokio::test]
async fn counts_a_run_by_event_type_and_outcome() {
    let stream = complete_run().replace(CONTENT, &CONTENT.repeat(3)).replace("data: ", ": a comment\ndata: ");
    let agent = Agent::with_response(HEAD.to_owned() + &stream);
    let gateway = Gateway::start_for(&agent).await;
    let answer = post_run(gateway.data, "/run").await;
    gateway.wait_for_metric(r#"diglot_streams_total{outcome="finished",route="run"}"#, 1.0).await;
    let rows = [
        ("RUN_STARTED", 1.0),
        ("TEXT_MESSAGE_CONTENT", 3.0),
        ("RUN_FINISHED", 1.0),
        ("RUN_ERROR", 0.0),
        ("OTHER", 0.0),
    ];
    for direction in ["from_agent", "to_client"] {
        for (kind, count) in rows {
            let series =
                format!(r#"diglot_events_total{{dialect="ag-ui",direction="{direction}",route="run",type="{kind}"}}"#);
            assert_eq!(gateway.metric(&series).await, count, "{series}");
        }
    }
    let bytes = |direction| format!(r#"diglot_event_bytes_total{{direction="{direction}",route="run"}}"#);
    assert_eq!(gateway.metric(&bytes("from_agent")).await, stream.len() as f64);
    assert_eq!(gateway.metric(&bytes("to_client")).await, answer.body.len() as f64);
    assert_eq!(gateway.metric(r#"diglot_requests_total{code="200",method="POST",route="run"}"#).await, 1.0);
    assert_eq!(gateway.metric(r#"diglot_streams_active{route="run"}"#).await, 0.0);
}

/// The gateway's own RUN_ERROR counts as an event to the client.
#[tokio::test]
async fn counts_a_failed_run() {
    let agent = Agent::with_response(HEAD.to_owned() + &run_beginning());
    let gateway = Gateway::start_for(&agent).await;
    post_run(gateway.data, "/run").await;
    gateway.wait_for_metric(r#"diglot_streams_total{outcome="upstream_error",route="run"}"#, 1.0).await;
    let errors = |direction| {
        format!(r#"diglot_events_total{{dialect="ag-ui",direction="{direction}",route="run",type="RUN_ERROR"}}"#)
    };
    assert_eq!(gateway.metric(&errors("from_agent")).await, 0.0);
    assert_eq!(gateway.metric(&errors("to_client")).await, 1.0);
}

/// For any text of clients and agents, labels come from closed lists.
#[tokio::test]
async fn takes_labels_only_from_closed_lists() {
    let odd = "data: {\"type\":\"EVIL_LABEL\",\"x\":1}\n\n";
    let agent = Agent::with_response(HEAD.to_owned() + &run_beginning() + odd);
    let gateway = Gateway::start_for(&agent).await;
    post_run(gateway.data, "/run").await;
    post_run(gateway.data, "/evil-path").await;
    send_request(gateway.data, format!("GET /run?evil{GET}")).await;
    gateway.wait_for_metric(r#"diglot_requests_total{code="404",method="POST",route=""}"#, 1.0).await;
    let other = r#"diglot_events_total{dialect="ag-ui",direction="from_agent",route="run",type="OTHER"}"#;
    assert_eq!(gateway.metric(other).await, 1.0);
    let metrics = gateway.get_status("/metrics").await;
    assert!(!metrics.text().to_lowercase().contains("evil"), "{}", metrics.text());
}

#[tokio::test]
async fn readiness_report_shows_redis() {
    let agent = Agent::with_response("");
    let mut redis = Redis::start().await;
    let setup = Setup { upstreams: &[agent.url()], top: &redis.yaml(", on_error: local"), ..Setup::default() };
    let gateway = Gateway::start(setup).await;
    let assert_line = async |line: &str| {
        let report = async || gateway.get_status("/readyz?verbose").await;
        eventually(line, async || report().await.text().contains(line).then_some(())).await;
        assert_eq!(report().await.status, 200);
    };
    let place = format!("redis redis://127.0.0.1:{}", redis.port());
    assert_line(&format!("[+] {place} ok\n")).await;
    redis.kill().await;
    // Requests go on without it, so the gateway is ready.
    assert_line(&format!("[-] {place} does not answer; see `redis.on_error`\n")).await;
}
