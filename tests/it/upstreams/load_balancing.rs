//! The choice of an endpoint and of a connection.

use super::super::support::temp_folder::TempFolder;
use super::test_agent::{AgentConfig, AnswerMode, TestAgent};
use super::{assert_run, open_held_run, requests_series, start_gateway, up_series, wait_until};
use crate::support::agent::refusing_address;
use crate::support::client::{Client, INPUT, post, post_run};
use crate::support::eventually;
use crate::support::gateway::Gateway;

#[tokio::test]
async fn spreads_long_runs_by_weight() {
    let agents = [TestAgent::start_plain().await, TestAgent::start_plain().await];
    agents.iter().for_each(|agent| agent.set_answer(AnswerMode::Hold));
    let upstream = format!("[{{url: {}, weight: 3}}, {}]", agents[0].url(), agents[1].url());
    let gateway = start_gateway(&upstream, "").await;
    let mut clients = Vec::new();
    for _ in 0..300 {
        clients.push(open_held_run(&gateway).await);
    }
    // Each run starts after the response to the previous one, so nothing depends on timing.
    assert_eq!((agents[0].open_run_count(), agents[1].open_run_count()), (225, 75));
    let report = gateway.get_status("/readyz?verbose").await;
    for (agent, runs) in agents.iter().zip([225, 75]) {
        let line = format!("[+] upstream {} of run ok, {runs} runs\n", agent.label());
        assert!(report.text().contains(&line), "{}", report.text());
    }
}

#[tokio::test]
async fn prefers_the_agent_with_fewer_runs() {
    let agents = [TestAgent::start_plain().await, TestAgent::start_plain().await];
    agents[0].set_answer(AnswerMode::Hold);
    let gateway = start_gateway(&format!("[{}, {}]", agents[0].url(), agents[1].url()), "").await;
    // The first agent keeps its runs open and the second does not, so eventually the first has one run and the second none.
    let mut clients = Vec::new();
    while agents[0].open_run_count() == 0 {
        let mut client = Client::connect(gateway.data).await;
        client.send(post("/run", "", INPUT)).await;
        client.read_head().await;
        clients.push(client);
    }
    // A run that goes there all the same comes to its end.
    agents[0].set_answer(AnswerMode::Whole);
    let before = agents[0].run_count();
    for _ in 1..=20 {
        assert_run(&gateway).await;
        gateway.wait_for_metric(&requests_series(&agents[1], "answered"), agents[1].run_count() as f64).await;
        // The run that has just ended may still count for a moment.
        wait_until("the end of it", || agents[1].open_run_count() == 0).await;
    }
    assert!(
        agents[0].run_count() - before <= 2,
        "{} of 20 went to the agent with a run",
        agents[0].run_count() - before
    );
}

#[tokio::test]
async fn reuses_connections_for_later_runs() {
    let agent = TestAgent::start_plain().await;
    let gateway = start_gateway(&agent.url(), "").await;
    for run in 1..=20 {
        assert_run(&gateway).await;
        // The connection is returned to the pool after the client has received the end.
        gateway.wait_for_metric(&requests_series(&agent, "answered"), f64::from(run)).await;
        wait_until_idle(&gateway).await;
    }
    // On a machine that is busy the next run may come before the connection of the last one was given back.
    assert!(
        agent.run_count() == 20 && agent.connection_count() < 20,
        "{} runs, {} connections",
        agent.run_count(),
        agent.connection_count()
    );
    let connects = format!(r#"diglot_upstream_connect_seconds_count{{upstream="{}"}}"#, agent.label());
    assert_eq!(gateway.metric(&connects).await, agent.connection_count() as f64);
    assert_eq!(gateway.metric(&up_series(&agent)).await, 1.0);
}

/// Waits until the upstream has no run: then its connection is in the pool, or closed.
pub(super) async fn wait_until_idle(gateway: &Gateway) {
    eventually("no run", async || {
        gateway.get_status("/readyz?verbose").await.text().contains(", 0 runs\n").then_some(())
    })
    .await;
}

#[tokio::test]
async fn connects_to_agents_over_unix_sockets() {
    for h2 in [false, true] {
        let folder = TempFolder::new();
        let kind = AgentConfig { socket: Some(folder.join("agent.sock")), h2, ..AgentConfig::default() };
        let mut agent = TestAgent::start(kind).await;
        let http = if h2 { "2" } else { "auto" };
        let upstream = format!("{{url: \"{}?key=1\", http: {http}}}", agent.url());
        let gateway = start_gateway(&upstream, ", ejection: {failures: 1, for: 1ms}").await;
        for _ in 0..3 {
            assert_run(&gateway).await;
            wait_until_idle(&gateway).await;
        }
        assert_eq!(agent.h2_run_count(), if h2 { 3 } else { 0 });
        // Over HTTP/1 the pool may lose one; see above.
        assert!(
            if h2 { agent.connection_count() == 1 } else { agent.connection_count() <= 3 },
            "{} connections",
            agent.connection_count()
        );
        let last = agent.last_request();
        assert_eq!(last.uri().path_and_query().map(|path| path.as_str()), Some("/agent?key=1"));
        let host = last.headers().get("host").map(|host| host.to_str().expect("ASCII").to_owned());
        let authority = last.uri().authority().map(|authority| authority.as_str().to_owned());
        assert_eq!(host.or(authority).as_deref(), Some("localhost"));
        // The socket file appears and disappears with the agent.
        agent.kill().await;
        let refused = post_run(gateway.data, "/run").await;
        assert_eq!(refused.status, 502, "{}", refused.text());
        agent.restart().await;
        assert_run(&gateway).await;
    }
}

#[tokio::test]
async fn treats_two_names_of_one_address_as_two_upstreams() {
    let agent = TestAgent::start_plain().await;
    let port = agent.url().rsplit_once(':').map(|(_, rest)| rest.to_owned()).expect("a port");
    let gateway = start_gateway(&format!("[\"http://127.0.0.1:{port}\", \"http://localhost:{port}\"]"), "").await;
    for _ in 0..10 {
        assert_run(&gateway).await;
    }
    let text = gateway.get_status("/metrics").await;
    let port = port.trim_end_matches("/agent");
    for host in ["127.0.0.1", "localhost"] {
        let series =
            format!(r#"diglot_upstream_requests_total{{outcome="answered",upstream="http://{host}:{port}"}} "#);
        let count = text.text().lines().find_map(|line| line.strip_prefix(&series)).expect("a series");
        assert!(count.parse::<f64>().expect("a number") >= 1.0, "{host}: {count}");
    }
}

#[tokio::test]
async fn fails_over_from_a_refusing_address() {
    let (_refusing, unused_url) = refusing_address();
    let agent = TestAgent::start_plain().await;
    let gateway = start_gateway(&format!("[{{url: \"{unused_url}\", weight: 1000}}, {}]", agent.url()), "").await;
    for _ in 0..20 {
        assert_run(&gateway).await;
    }
    assert_eq!(agent.run_count(), 20);
}

#[tokio::test]
async fn fails_over_from_an_unresolvable_name() {
    let agent = TestAgent::start_plain().await;
    let mut gateway = start_gateway(&format!("[\"http://agent.invalid:9001/\", {}]", agent.url()), "").await;
    for _ in 0..5 {
        assert_run(&gateway).await;
    }
    let line = gateway.next_log("upstream not resolved").await;
    assert!(line["cause"].as_str().is_some_and(|cause| cause.starts_with("http://agent.invalid:9001: ")), "{line}");
    let report = gateway.get_status("/readyz?verbose").await;
    let expected = "[-] upstream http://agent.invalid:9001 of run not resolved, 0 runs\n";
    assert!(report.text().contains(expected), "{}", report.text());
    assert_eq!(gateway.metric(r#"diglot_upstream_up{route="run",upstream="http://agent.invalid:9001"}"#).await, 0.0);
}
