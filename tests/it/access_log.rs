//! The log lines of runs and refusals: each is complete, and there is exactly one.

use super::support::agent::{Agent, Step, write};
use super::support::client::{Client, INPUT, post, send_request};
use super::support::gateway::{Gateway, Setup};
use super::support::sha256;
use super::support::sse::{CLOSED, CONTENT, FINISHED, HEAD, OPENED, STARTED, assert_refused, complete_run};
use serde_json::Value;
use std::collections::BTreeSet;

const AGENT_ERROR: &str = "data: {\"type\":\"RUN_ERROR\",\"message\":\"the tool\\nbroke\",\"code\":\"E42\"}\n\n";

const KEY: &str = "a-key-that-nobody-guesses";

/// The fields that the page has for a line, by the heading above their table.
fn documented_fields(heading: &str) -> BTreeSet<String> {
    let page = include_str!("../../deploy/logs-and-traces.md");
    let section = page.split("\n### ").find(|section| section.starts_with(heading)).expect(heading);
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
    cells.flat_map(|cell| cell.split(['`', ',', ' '])).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The fields of lines, but for those that every line has.
fn logged_fields(lines: &[Value]) -> BTreeSet<String> {
    let all = lines.iter().flat_map(|line| line.as_object().expect("an object").keys().cloned());
    all.filter(|name| !["timestamp", "level", "message"].contains(&name.as_str())).collect()
}

/// Starts a gateway that requires a key, with an agent at `/run`, whose runs outlive their clients, and none at
/// `/gone`, and `broken` at `/broken`.
async fn start_guarded_gateway(agent: &Agent, broken: &Agent) -> Gateway {
    let top = format!(
        "auth: {{api_keys: [{{name: keys, keys: [{{id: k1, sha256: {}, subject: ada, tenant: acme}}]}}]}}\n\
         rate_limits: [{{name: once, requests: 1, per: 1h}}]\n",
        sha256(KEY)
    );
    let route = |name: &str, upstream: &str, more: &str| {
        format!(
            "  - {{name: {name}, path: /{name}, client: ag-ui, agent: ag-ui, upstream: '{upstream}', auth: [keys], on_disconnect: continue for 5m{more}}}\n"
        )
    };
    let routes = [
        "routes:\n".to_owned(),
        route("run", &agent.url(), ""),
        route("once", &agent.url(), ", rate_limits: [once]"),
        route("gone", "http://127.0.0.1:1/", ""),
        route("broken", &broken.url(), ""),
    ];
    Gateway::start(Setup { top: &top, routes: &routes.concat(), ..Setup::default() }).await
}

/// The page and the lines have the same fields, neither more nor less.
#[tokio::test]
async fn logs_exactly_the_documented_fields() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let broken = Agent::with_response([HEAD, STARTED, CLOSED, CONTENT, AGENT_ERROR].concat());
    let gateway = start_guarded_gateway(&agent, &broken).await;
    let key = format!("X-Api-Key: {KEY}\r\nConnection: close\r\n");
    assert_eq!(send_request(gateway.data, post("/run", &key, INPUT)).await.status, 200);
    let of = |run: &str| INPUT.replace("r1", run);
    assert_refused(&send_request(gateway.data, post("/gone", &key, &of("r2"))).await, 502, "upstream_unreachable");
    assert_eq!(send_request(gateway.data, post("/once", &key, &of("r3"))).await.status, 200);
    assert_refused(&send_request(gateway.data, post("/once", &key, &of("r4"))).await, 429, "rate_limited");
    assert_eq!(send_request(gateway.data, post("/broken", &key, &of("r5"))).await.status, 200);
    let log = gateway.terminate().await;
    assert!(!log.contains(KEY), "{log}");
    let lines = |message: &str| -> Vec<Value> {
        let all = log.lines().map(|line| serde_json::from_str(line).expect(line));
        all.filter(|line: &Value| line["message"] == message).collect()
    };

    let ended = lines("run ended");
    assert_eq!(ended.len(), 4, "one of each run: {log}");
    assert_eq!(logged_fields(&ended), documented_fields("`run ended`"));
    let (good, bad, broken) = (&ended[0], &ended[1], &ended[3]);
    for (line, name, value) in [
        (good, "route", Value::from("run")),
        (good, "thread_id", "t1".into()),
        (good, "run_id", "r1".into()),
        (good, "client", "127.0.0.1".into()),
        (good, "auth", "api_key".into()),
        (good, "source", "keys".into()),
        (good, "subject", "ada".into()),
        (good, "tenant", "acme".into()),
        (good, "key_id", "k1".into()),
        (good, "client_dialect", "ag-ui".into()),
        (good, "agent_dialect", "ag-ui".into()),
        (good, "upstream", format!("http://{}", agent.address()).into()),
        (good, "status", 200.into()),
        (good, "outcome", "finished".into()),
        (good, "events_in", 5.into()),
        (good, "events_out", 5.into()),
        (good, "bytes_in", complete_run().len().into()),
        (good, "resumed", 0.into()),
        (good, "readers", 1.into()),
        (bad, "level", "WARN".into()),
        (bad, "run_id", "r2".into()),
        (bad, "status", 502.into()),
        (bad, "outcome", "upstream_error".into()),
        (bad, "code", "upstream_unreachable".into()),
        (bad, "events_in", 0.into()),
        (broken, "level", "WARN".into()),
        (broken, "outcome", "agent_error".into()),
        (broken, "code", Value::Null),
        (broken, "agent_code", "E42".into()),
        (broken, "agent_message", "the tool\u{fffd}broke".into()),
        (broken, "repair_names", "ids_replaced, opener_supplied".into()),
        (broken, "loss_names", "stray_boundary".into()),
    ] {
        assert_eq!(line[name], value, "{name} in {line}");
    }

    let refused = [lines("request failed at the agent"), lines("request refused")].concat();
    assert_eq!(logged_fields(&refused), documented_fields("`request refused`, `request failed at the agent`"));
    let cause = refused[0]["cause"].as_str();
    assert_eq!((cause, bad["cause"].as_str()), (Some("127.0.0.1:1: connection refused"), cause), "{log}");
    let codes: Vec<_> = refused.iter().map(|line| (&line["code"], &line["method"], &line["policy"])).collect();
    let post = Value::from("POST");
    assert_eq!(
        codes,
        [(&"upstream_unreachable".into(), &post, &Value::Null), (&"rate_limited".into(), &post, &"once".into())]
    );
}

/// The gateway ends runs for different reasons; each line has the reason.
#[tokio::test]
async fn logs_the_cause_of_each_failed_run() {
    let ends_early = Agent::with_response([HEAD, STARTED, OPENED].concat());
    let silent = Agent::with_script(vec![Step::Read, write([HEAD, STARTED].concat()), Step::WaitForClose]);
    let unanswered = Agent::with_script(vec![Step::Read, Step::WaitForClose]);
    let strict = Agent::with_response([HEAD, CONTENT].concat());
    for (agent, more, code, cause) in [
        (
            &ends_early,
            "",
            "upstream_truncated",
            "the stream ended after TEXT_MESSAGE_START, without the end of the run",
        ),
        (
            &silent,
            ", timeouts: {idle: 1s}",
            "upstream_idle",
            "The agent sent nothing within 1s (`timeouts.idle` of the route).",
        ),
        (
            &unanswered,
            ", timeouts: {first_byte: 1s}",
            "upstream_timeout",
            "The agent did not answer within 1s (`timeouts.first_byte` of the route).",
        ),
        (
            &strict,
            ", guard: strict",
            "protocol_violation",
            "TEXT_MESSAGE_CONTENT breaks the rule that the first event is the start of the run, or an error (run_started_supplied).",
        ),
    ] {
        let url = agent.url();
        let routes =
            format!("routes: [{{name: run, path: /run, client: ag-ui, agent: ag-ui, upstream: '{url}'{more}}}]\n");
        let mut gateway = Gateway::start(Setup { routes: &routes, ..Setup::default() }).await;
        send_request(gateway.data, post("/run", "Connection: close\r\n", INPUT)).await;
        let line = gateway.next_log("run ended").await;
        assert_eq!((&line["level"], &line["code"], &line["cause"]), (&"WARN".into(), &code.into(), &cause.into()));
    }
}

#[tokio::test]
async fn warns_of_an_agent_that_uses_another_dialect_than_configured() {
    let events = ["START", "CONTENT", "END"].map(|part| {
        let delta = if part == "CONTENT" { r#","delta":"hi""# } else { "" };
        format!("data: {{\"type\":\"BUSINESS_DATA_{part}\",\"messageId\":\"m\"{delta}}}\n\n")
    });
    let agent = Agent::with_response([HEAD, STARTED, &events.concat(), FINISHED].concat());
    let routes =
        format!("routes: [{{name: run, path: /run, client: ag-ui, agent: ag-ui, upstream: '{}'}}]\n", agent.url());
    let mut gateway = Gateway::start(Setup { routes: &routes, ..Setup::default() }).await;
    assert_eq!(send_request(gateway.data, post("/run", "Connection: close\r\n", INPUT)).await.status, 200);
    let line = gateway.next_log("the agent's dialect is not the one in `agent` of the route").await;
    assert_eq!((&line["level"], &line["route"], &line["events"]), (&"WARN".into(), &"run".into(), &3.into()));
    assert_eq!((&line["configured"], &line["looks_like"]), (&"ag-ui".into(), &"hai".into()));
}

/// Only AG-UI 1.0 declares its version, and clients before it may share a route with those of 1.0.
#[tokio::test]
async fn warns_of_a_client_that_uses_another_dialect_than_configured() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let routes: String = ["hai", "cloudbase", "ag-ui-0", "ag-ui", "auto"]
        .map(|client| format!("  - {{path: /{client}, client: {client}, agent: ag-ui, upstream: '{}'}}\n", agent.url()))
        .concat();
    let mut gateway = Gateway::start(Setup { routes: &format!("routes:\n{routes}"), ..Setup::default() }).await;
    let declared = INPUT.replace("{\"threadId\"", "{\"protocolVersion\":\"1.0\",\"threadId\"");
    for (path, body) in [
        ("/ag-ui", &*declared),
        ("/ag-ui-0", &declared),
        ("/auto", &declared),
        ("/hai", INPUT),
        ("/hai", &declared),
        ("/cloudbase", &declared),
    ] {
        assert_eq!(send_request(gateway.data, post(path, "Connection: close\r\n", body)).await.status, 200);
    }
    for client in ["hai", "cloudbase"] {
        let line = gateway.next_log("the client's dialect is not the one in `client` of the route").await;
        assert_eq!((&line["level"], &line["route"]), (&"WARN".into(), &format!("/{client}").into()));
        assert_eq!((&line["configured"], &line["looks_like"]), (&client.into(), &"ag-ui".into()));
        assert_eq!((&line["because"], &line["run_id"]), (&"the request has a protocolVersion".into(), &"r1".into()));
    }
    let log = gateway.terminate().await;
    assert_eq!(log.matches("the client's dialect is not").count(), 0, "{log}");
}

/// "Escaped and cut in logs" (failures.md): an id with any content stays on one line, without control characters.
#[tokio::test]
async fn escapes_and_truncates_ids_in_log_lines() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let mut gateway = Gateway::start_for(&agent).await;
    let hostile = r#"\r\n{\"message\":\"run ended\"}\u001b[2J\u0085\u2028\u202e\u0007"#;
    let id = |before: char| format!("{before}{hostile}{}", "x".repeat(5000));
    let body = INPUT.replace("\"t1\"", &format!("\"{}\"", id('t'))).replace("\"r1\"", &format!("\"{}\"", id('r')));
    assert_eq!(send_request(gateway.data, post("/auto", "Connection: close\r\n", &body)).await.status, 200);
    for message in ["dialect detected", "run ended"] {
        let line = gateway.next_log(message).await;
        for (name, first) in [("thread_id", 't'), ("run_id", 'r')] {
            let shown = line[name].as_str().unwrap_or_else(|| panic!("{name} in {line}"));
            assert!(shown.starts_with(first) && shown.chars().count() == 200, "{shown}");
            assert!(!shown.contains(|c: char| c.is_control() || "\u{2028}\u{202e}".contains(c)), "{shown:?}");
        }
    }
    // Every line is a JSON object of its own: one that was not would have failed the test above.
    let log = gateway.terminate().await;
    assert_eq!(log.matches("\"message\":\"run ended\"").count(), 0, "{log}");
}

#[tokio::test]
async fn names_the_run_and_its_request_in_log_lines() {
    let mut agent =
        Agent::with_script(vec![Step::Read, write([HEAD, STARTED, OPENED, CONTENT].concat()), Step::WaitForClose]);
    let routes = format!(
        "routes: [{{name: run, path: /run, client: auto, agent: ag-ui, upstream: '{}', on_disconnect: continue for 300ms}}]\n",
        agent.url()
    );
    let mut gateway = Gateway::start(Setup { routes: &routes, ..Setup::default() }).await;
    let mut client = Client::connect(gateway.data).await;
    let body = INPUT.replace("{\"threadId\"", "{\"protocolVersion\":\"1.0\",\"threadId\"");
    client.send(post("/run", "X-Request-Id: q1\r\n", &body)).await;
    client.read_head().await;
    client.read_until("delta").await;
    agent.next_request().await;
    let mut second = Client::connect(gateway.data).await;
    let path = "/run/runs/r1/events";
    second
        .send(format!("GET {path} HTTP/1.1\r\nHost: g\r\nAccept: text/event-stream\r\nX-Request-Id: q2\r\n\r\n"))
        .await;
    assert_eq!(second.read_head().await.status, 200);
    let line = gateway.next_log("dialect detected").await;
    assert_eq!((&line["side"], &line["request_id"]), (&"client".into(), &"q1".into()));
    let joined = gateway.next_log("run joined").await;
    assert_eq!((&joined["request_id"], &joined["token"].is_string()), (&"q2".into(), &true));
    for line in [line, joined] {
        assert_eq!((&line["route"], &line["thread_id"], &line["run_id"]), (&"run".into(), &"t1".into(), &"r1".into()));
    }
    drop((client, second));
    agent.wait_until_closed().await;
    let ended = gateway.next_log("run ended").await;
    assert_eq!((&ended["outcome"], &ended["code"]), (&"client_gone".into(), &"run_abandoned".into()));
    assert_eq!((&ended["request_id"], &ended["readers"]), (&"q1".into(), &2.into()));
    assert_eq!((&ended["client_dialect"], &ended["agent_dialect"]), (&"ag-ui".into(), &"ag-ui".into()));
}
