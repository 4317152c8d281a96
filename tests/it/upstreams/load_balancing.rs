//! Which agent is asked, and over which connection.

use super::certificates::Folder;
use super::served::{Kind, Served, Way};
use super::{before, held, requests, runs, until, up};
use crate::support::agent::refusing;
use crate::support::client::{Client, INPUT, post, run};
use crate::support::eventually;
use crate::support::gateway::Gateway;

#[tokio::test]
async fn runs_that_last_are_spread_by_weight() {
    let agents = [Served::plain().await, Served::plain().await];
    agents.iter().for_each(|agent| agent.says(Way::Hold));
    let upstream = format!("[{{url: {}, weight: 3}}, {}]", agents[0].url(), agents[1].url());
    let gateway = before(&upstream, "").await;
    let mut clients = Vec::new();
    for _ in 0..300 {
        clients.push(held(&gateway).await);
    }
    // The next is chosen when the one before has been answered, so nothing is left to chance.
    assert_eq!((agents[0].open(), agents[1].open()), (225, 75));
    let report = gateway.ask("/readyz?verbose").await;
    for (agent, runs) in agents.iter().zip([225, 75]) {
        let line = format!("[+] upstream {} of run ok, {runs} run(s)\n", agent.label());
        assert!(report.text().contains(&line), "{}", report.text());
    }
}

#[tokio::test]
async fn whoever_has_fewer_runs_is_asked() {
    let agents = [Served::plain().await, Served::plain().await];
    agents[0].says(Way::Hold);
    let gateway = before(&format!("[{}, {}]", agents[0].url(), agents[1].url()), "").await;
    // The first holds what it gets and the second does not, so that sooner or later the first has one and the second none.
    let mut clients = Vec::new();
    while agents[0].open() == 0 {
        let mut client = Client::connect(gateway.data).await;
        client.send(post("/run", "", INPUT)).await;
        client.head().await;
        clients.push(client);
    }
    let (before, now) = (agents[0].runs(), agents[1].runs());
    for run in 1..=20 {
        runs(&gateway).await;
        gateway.reaches(&requests(&agents[1], "answered"), (now + run) as f64).await;
        // The run that has just ended may still count for a moment.
        until("the end of it", || agents[1].open() == 0).await;
    }
    assert!(agents[0].runs() - before <= 2, "{} of 20 went to the agent with a run", agents[0].runs() - before);
}

#[tokio::test]
async fn a_connection_serves_one_run_after_the_other() {
    let agent = Served::plain().await;
    let gateway = before(&agent.url(), "").await;
    for run in 1..=20 {
        runs(&gateway).await;
        // The connection is given back after the client has heard the end.
        gateway.reaches(&requests(&agent, "answered"), f64::from(run)).await;
        idle(&gateway).await;
    }
    // On a machine that is busy the next run may come before the connection of the last one was given back.
    assert!(
        agent.runs() == 20 && agent.connections() < 20,
        "{} runs, {} connections",
        agent.runs(),
        agent.connections()
    );
    let connects = format!(r#"diglot_upstream_connect_seconds_count{{upstream="{}"}}"#, agent.label());
    assert_eq!(gateway.metric(&connects).await, agent.connections() as f64);
    assert_eq!(gateway.metric(&up(&agent)).await, 1.0);
}

/// Waits until the one upstream has no run: then its connection is given back, or closed.
pub(super) async fn idle(gateway: &Gateway) {
    eventually("no run", async || gateway.ask("/readyz?verbose").await.text().contains(", 0 run(s)\n").then_some(()))
        .await;
}

#[tokio::test]
async fn an_agent_on_a_unix_socket_is_an_agent() {
    for h2 in [false, true] {
        let folder = Folder::new();
        let kind = Kind { socket: Some(folder.path("agent.sock")), h2, ..Kind::default() };
        let mut agent = Served::start(kind).await;
        let http = if h2 { "2" } else { "auto" };
        let upstream = format!("{{url: \"{}?key=1\", http: {http}}}", agent.url());
        let gateway = before(&upstream, ", ejection: {failures: 1, for: 1ms}").await;
        for _ in 0..3 {
            runs(&gateway).await;
            idle(&gateway).await;
        }
        assert_eq!(agent.over_h2(), if h2 { 3 } else { 0 });
        // Over HTTP/1 the pool may lose one; see above.
        assert!(
            if h2 { agent.connections() == 1 } else { agent.connections() <= 3 },
            "{} connections",
            agent.connections()
        );
        let last = agent.last();
        assert_eq!(last.uri().path_and_query().map(|path| path.as_str()), Some("/agent?key=1"));
        let host = last.headers().get("host").map(|host| host.to_str().expect("ASCII").to_owned());
        let authority = last.uri().authority().map(|authority| authority.as_str().to_owned());
        assert_eq!(host.or(authority).as_deref(), Some("localhost"));
        // A file of that name comes and goes with the agent.
        agent.kill().await;
        let refused = run(gateway.data, "/run").await;
        assert_eq!(refused.status, 502, "{}", refused.text());
        agent.restart().await;
        runs(&gateway).await;
    }
}

#[tokio::test]
async fn two_names_of_one_address_are_two_upstreams() {
    let agent = Served::plain().await;
    let port = agent.url().rsplit_once(':').map(|(_, rest)| rest.to_owned()).expect("a port");
    let gateway = before(&format!("[\"http://127.0.0.1:{port}\", \"http://localhost:{port}\"]"), "").await;
    for _ in 0..10 {
        runs(&gateway).await;
    }
    let text = gateway.ask("/metrics").await;
    let port = port.trim_end_matches("/agent");
    for host in ["127.0.0.1", "localhost"] {
        let series =
            format!(r#"diglot_upstream_requests_total{{outcome="answered",upstream="http://{host}:{port}"}} "#);
        let count = text.text().lines().find_map(|line| line.strip_prefix(&series)).expect("a series");
        assert!(count.parse::<f64>().expect("a number") >= 1.0, "{host}: {count}");
    }
}

#[tokio::test]
async fn an_address_that_refuses_costs_nobody_a_run() {
    let (_refusing, nobody) = refusing();
    let agent = Served::plain().await;
    let gateway = before(&format!("[{{url: \"{nobody}\", weight: 1000}}, {}]", agent.url()), "").await;
    for _ in 0..20 {
        runs(&gateway).await;
    }
    assert_eq!(agent.runs(), 20);
}

#[tokio::test]
async fn a_name_that_means_nothing_costs_nobody_a_run() {
    let agent = Served::plain().await;
    let mut gateway = before(&format!("[\"http://agent.invalid:9001/\", {}]", agent.url()), "").await;
    for _ in 0..5 {
        runs(&gateway).await;
    }
    let line = gateway.logged("upstream not resolved").await;
    assert!(line["cause"].as_str().is_some_and(|cause| cause.starts_with("http://agent.invalid:9001: ")), "{line}");
    let report = gateway.ask("/readyz?verbose").await;
    let said = "[-] upstream http://agent.invalid:9001 of run not resolved, 0 run(s)\n";
    assert!(report.text().contains(said), "{}", report.text());
    assert_eq!(gateway.metric(r#"diglot_upstream_up{route="run",upstream="http://agent.invalid:9001"}"#).await, 0.0);
}
