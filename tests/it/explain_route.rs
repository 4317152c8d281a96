//! `diglot explain-route` reports what the gateway does with the same request.

use super::support::agent::Agent;
use super::support::client::{INPUT, send_request};
use super::support::gateway::{Gateway, TempFile, diglot};
use super::support::sha256;
use super::support::sse::{HEAD, complete_run};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// A configuration with something of everything, before an agent at this URL; its secrets are `hunter2…`.
fn config_yaml(url: &str) -> String {
    let keys = format!("[{{id: one, sha256: {}}}]", sha256("open sesame"));
    format!(
        "listeners: {{data: 127.0.0.1:0, status: 127.0.0.1:0}}
drain_grace: 0s
auth:
  resource: https://agents.example.com
  issuers: [{{name: staff, issuer: \"https://login.example.com\", audience: a, secret: hunter2-0123456789abcdef0123456789abcdef}}]
  api_keys: [{{name: partners, keys: {keys}}}]
rate_limits:
  - {{name: visitors, key: address, requests: 1000, per: 1m}}
  - {{name: plan, requests: 500, per: 1m, burst: 400, tiers: {{gold: {{requests: 900}}}}}}
limits: {{request_body: 4KiB, max_streams: 90}}
routes:
  - name: chat
    path: /agents/chat
    client: auto
    agent: hai
    upstream: \"{url}&key=hunter2-query\"
    require: {{scopes: []}}
    tools: [search]
    rate_limits: [visitors, plan]
    max_streams_per_caller: 7
    cors: {{origins: [https://app.example.com]}}
    forward_headers: [x-tenant]
    forward_credentials: true
    upstream_headers: {{x-agent-key: hunter2-header}}
  - {{name: open, path: /open, client: ag-ui, agent: hai, upstream: \"{url}\", auth: none, on_disconnect: continue for 1m}}
  - name: social
    path: /social
    events_path: /social/{{thread_id}}/events
    client: social-app
    agent: social-app
    events: /runs/{{thread_id}}/events?token=hunter2-events
    upstream: [\"http://10.0.0.1:9001/runs\", \"unix:/run/agent.sock:/runs\"]
    auth: none
"
    )
}

/// A request: method, path, fields, body.
type RequestSpec<'a> = (&'a str, &'a str, &'a [&'a str], Option<&'a str>);

/// Runs the command for a request and returns exit code and stdout.
fn run_explain_route(
    config: &Path,
    (method, path, fields, body): RequestSpec<'_>,
    format: &str,
) -> (Option<i32>, String) {
    let mut command = diglot();
    command.arg("explain-route").arg(config).args([path, "--method", method, "--format", format]);
    fields.iter().for_each(|field| {
        command.args(["--header", field]);
    });
    let body = body.map(TempFile::new);
    if let Some(body) = &body {
        command.arg("--body").arg(body.path());
    }
    let output = command.output().expect("the binary starts");
    let printed = String::from_utf8(output.stdout).expect("UTF-8");
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !printed.contains("hunter2") && !printed.contains("sesame") && complaint.is_empty(),
        "{printed}{complaint}"
    );
    (output.status.code(), printed)
}

fn explain_as_json(config: &Path, spec: RequestSpec<'_>) -> Value {
    let (_, printed) = run_explain_route(config, spec, "json");
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
}

/// The request on the wire.
fn request_text((method, path, fields, body): RequestSpec<'_>) -> String {
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    let body = body.unwrap_or_default();
    let length = if method == "POST" { format!("content-length: {}\r\n", body.len()) } else { String::new() };
    format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{fields}{length}\r\n{body}")
}

const KEY: &str = "x-api-key: open sesame";
const JSON: &str = "content-type: application/json";

/// Each with the status that the gateway answers with.
const REQUESTS: &[(RequestSpec<'static>, u16)] = &[
    (("POST", "/agents/chat", &[KEY, JSON], Some(INPUT)), 200),
    (("POST", "/open", &[JSON], Some(INPUT)), 200),
    // No route, and no path of one.
    (("POST", "/agents/chat/", &[KEY], Some(INPUT)), 404),
    (("POST", "/agents", &[], Some(INPUT)), 404),
    (("GET", "/agents/chat", &[KEY], None), 405),
    // Gates.
    (("POST", "/agents/chat", &[JSON], Some(INPUT)), 401),
    (("POST", "/agents/chat", &[KEY, "authorization: Bearer x"], Some(INPUT)), 401),
    (("POST", "/agents/chat", &[KEY, "origin: https://evil.example"], Some(INPUT)), 403),
    (("POST", "/open", &["origin: https://evil.example"], Some(INPUT)), 403),
    (("POST", "/agents/chat", &[KEY, "origin: https://app.example.com"], Some(INPUT)), 200),
    (
        ("OPTIONS", "/agents/chat", &["origin: https://app.example.com", "access-control-request-method: POST"], None),
        204,
    ),
    (("OPTIONS", "/agents/chat", &["origin: https://evil.example", "access-control-request-method: POST"], None), 403),
    (("POST", "/agents/chat", &["x-api-key: wrong", JSON], Some(INPUT)), 401),
    // Behind them.
    (("POST", "/open", &["content-type: text/plain"], Some(INPUT)), 415),
    (("POST", "/open", &["accept: application/json"], Some(INPUT)), 406),
    (("POST", "/open", &[JSON], Some("[]")), 400),
    (("POST", "/open", &[JSON, "accept: application/vnd.ag-ui.event+proto"], Some(INPUT)), 200),
    (("POST", "/open", &[JSON, "last-event-id: none of ours"], Some("{")), 400),
    // Runs that go on.
    (("GET", "/open/runs/r1/stop", &[], None), 405),
    (("POST", "/open/runs/r1/events", &[], Some("")), 405),
    (("GET", "/open/runs/r1/events", &["last-event-id: none of ours"], None), 400),
    // Two steps.
    (("POST", "/social/t1/events", &[], Some("")), 405),
    (("GET", "/social/t1/events", &["last-event-id: 7"], None), 400),
    // Metadata for callers that have no credential yet.
    (("GET", "/.well-known/oauth-protected-resource/agents/chat", &[], None), 200),
];

#[tokio::test]
async fn explains_the_outcome_that_the_gateway_answers_with() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let file = TempFile::new(&config_yaml(&agent.url()));
    let gateway = Gateway::start_with_config(file.path(), &[]).await;
    for (spec, status) in REQUESTS {
        let answer = send_request(gateway.data, request_text(*spec)).await;
        assert_eq!(answer.status, *status, "{spec:?}: {}", String::from_utf8_lossy(&answer.body));
        let explanation = explain_as_json(file.path(), *spec);
        let outcome = &explanation["outcome"];
        let refused = if outcome["refused"].is_null() { &outcome["no_route"][0] } else { &outcome["refused"] };
        let expected = match status {
            200 | 204 => Value::Null,
            status => Value::from(*status),
        };
        assert_eq!(refused["status"], expected, "{spec:?}: {outcome}");
        if *status >= 400 {
            let problem: Value = serde_json::from_slice(&answer.body).expect("a problem document");
            assert_eq!((&refused["code"], &refused["message"]), (&problem["code"], &problem["detail"]), "{spec:?}");
        }
        let (code, text) = run_explain_route(file.path(), *spec, "text");
        let none = matches!(status, 404 | 405);
        assert_eq!(code, Some(i32::from(none)), "{spec:?}: {text}");
    }
    let large = format!("{{\"threadId\":\"{}\"}}", "x".repeat(5000));
    let spec: RequestSpec<'_> = ("POST", "/open", &[JSON], Some(&large));
    assert_eq!(send_request(gateway.data, request_text(spec)).await.status, 413);
    assert_eq!(explain_as_json(file.path(), spec)["outcome"]["refused"]["status"], 413);
    let tool = INPUT.replace("\"tools\":[]", r#""tools":[{"name":"rm","description":"","parameters":{}}]"#);
    let spec: RequestSpec<'_> = ("POST", "/agents/chat", &[KEY, JSON], Some(&tool));
    assert_eq!(send_request(gateway.data, request_text(spec)).await.status, 403);
    assert_eq!(explain_as_json(file.path(), spec)["outcome"]["refused"]["code"], "tool_not_allowed");
}

/// The agent receives the reported fields and no others.
#[tokio::test]
async fn lists_exactly_the_fields_that_the_agent_gets() {
    let mut agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let file = TempFile::new(&config_yaml(&agent.url()));
    let gateway = Gateway::start_with_config(file.path(), &[]).await;
    let spec: RequestSpec<'_> = ("POST", "/agents/chat", &[KEY, JSON, "x-tenant: acme", "cookie: a=b"], Some(INPUT));
    assert_eq!(send_request(gateway.data, request_text(spec)).await.status, 200);
    let request = agent.next_request().await;
    let explanation = explain_as_json(file.path(), spec);
    let step = &explanation["route"]["agent_requests"][0];
    let fields = step["fields"].as_array().expect("fields");
    let own = |from: &str| -> BTreeSet<&str> {
        let of = fields.iter().filter(|field| field[2].as_str().is_some_and(|own| own.starts_with(from)));
        of.map(|field| field[0].as_str().expect("a name")).collect()
    };
    let sent: BTreeSet<String> = request.headers().iter().map(|(name, _)| name.to_lowercase()).collect();
    // The caller and the address are unknown in advance.
    let mut known = own("the ");
    known.extend(["x-diglot-subject", "x-diglot-method"]);
    let surely: BTreeSet<&str> = sent.iter().map(String::as_str).filter(|name| *name != "x-forwarded-for").collect();
    assert_eq!(surely, known, "{}", request.head);
    assert_eq!(own("the configuration"), BTreeSet::from(["x-agent-key"]));
    assert_eq!(own("the client"), BTreeSet::from(["x-api-key", "x-tenant"]));
    assert_eq!(request.head.lines().next(), Some("POST /agent?kept=1&key=hunter2-query HTTP/1.1"));
    assert_eq!(step["urls"][0], agent.url().replace("kept=1", "***"));
    assert_eq!(step["body_bytes"], request.body.len());
}

#[test]
fn reports_gates_after_a_refusal_as_not_reached() {
    let file = TempFile::new(&config_yaml("http://127.0.0.1:9/"));
    let (_, text) = run_explain_route(file.path(), ("POST", "/agents/chat", &[JSON], None), "text");
    assert!(text.contains("not reached; by itself it passes") && !text.contains("request to the agent"), "{text}");
    let output = diglot().arg("explain-route").arg(file.path()).arg("agents/chat").output().expect("the binary starts");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*complaint), (Some(2), "diglot: the path must begin with `/`: /agents/chat\n"));
}

/// The output has the gates in order, their requirements, and the checks that depend on the body.
#[test]
fn lists_the_gates_in_their_order() {
    let file = TempFile::new(&config_yaml("http://127.0.0.1:9/chat?a=b"));
    let explanation = explain_as_json(file.path(), ("POST", "/agents/chat", &[KEY], Some(INPUT)));
    let route = &explanation["route"];
    let gates: Vec<_> = route["gates"].as_array().expect("gates").iter().map(|gate| gate["gate"].clone()).collect();
    // The order of the diagram in `src/policy/mod.rs`.
    let order = [
        "host",
        "origin",
        "address",
        "limits before auth",
        "authenticate",
        "authorize",
        "limits after auth",
        "streams",
    ];
    assert_eq!(gates, order);
    let wants = |gate: usize| route["gates"][gate]["requirements"].to_string();
    assert_eq!(wants(1), r#"["pages of https://app.example.com, or the gateway's own"]"#);
    assert_eq!(wants(3), r#"["visitors: 1000 requests in 1m, 1000 at once of one address"]"#);
    assert_eq!(
        wants(4),
        r#"["a token of staff, as `Authorization: Bearer …`","an API key of partners, in x-api-key"]"#
    );
    assert_eq!(wants(5), "[]");
    assert_eq!(
        wants(6),
        r#"["plan: 500 requests in 1m, 400 at once of one caller; tier gold: 900 requests in 1m, 400 at once"]"#
    );
    assert_eq!(wants(7), r#"["streams:caller: at most 7 runs at once","streams:all: at most 90 runs at once"]"#);
    assert_eq!((&route["client"]["configured"], &route["client"]["detected"]), (&"auto".into(), &"ag-ui-0".into()));
    assert!(route["client"]["detected_by"].is_string(), "{}", route["client"]);
    assert_eq!(route["settings"]["on_disconnect"], "abort");
    assert_eq!(route["settings"]["tools"], "[search]");
}

/// The output says in sentences what is translated and what a user would not see, also for a dialect that is not known yet.
#[test]
fn explains_the_translation_and_what_is_not_shown() {
    let routes = [
        ("/a", "{dialect: hai, content: string}", "ag-ui"),
        ("/b", "auto", "hai"),
        ("/c", "hai", "auto"),
        ("/d", "ag-ui", "ag-ui"),
    ];
    let routes = routes.map(|(path, client, agent)| {
        format!("  - {{path: {path}, client: {client}, agent: {agent}, upstream: \"http://127.0.0.1:9/\"}}\n")
    });
    let file = TempFile::new(&format!("routes:\n{}", routes.concat()));
    let explain = |path, body| run_explain_route(file.path(), ("POST", path, &[JSON], body), "text").1;
    let expect = |printed: &str, lines: &[&str]| {
        for line in lines {
            assert!(printed.lines().any(|own| own == *line), "{line} is not in\n{printed}");
        }
    };
    expect(
        &explain("/a", None),
        &[
            "  translation        requests from hai to ag-ui, events from ag-ui to hai",
            "not shown to the client's user, if the agent sends it",
            "  activity_not_shown     the receiver's dialect has no form for an activity: it is carried, and not shown",
        ],
    );
    expect(
        &explain("/b", None),
        &[
            "  client             auto: detected from each request; --body FILE shows the result",
            "  translation        requests from the client's dialect to hai, events from hai to the client's dialect",
            "  subagent_not_shown     the receiver's dialect has no form for a subagent, or for one of its steps: it is \
             carried, and not shown (clients of ag-ui-0, ag-ui-snake, cloudbase, social-app)",
        ],
    );
    let declared = INPUT.replace("{\"threadId\"", "{\"protocolVersion\":\"1.0\",\"threadId\"");
    let printed = explain("/b", Some(&*declared));
    expect(&printed, &["  translation        requests from ag-ui to hai, events from hai to ag-ui"]);
    assert!(!printed.contains("not shown to"), "{printed}");
    expect(&explain("/c", None), &["  agent              auto: detected from the events of each run"]);
    expect(&explain("/d", None), &["  translation        both sides use ag-ui; the guard enforces the rules of a run"]);
    // A HAI agent that gets text as strings has no form for reasoning.
    let thought = r#"{"messages":[{"id":"x","role":"reasoning","content":"x"}]}"#;
    let printed = explain("/b", Some(thought));
    let explanation = explain_as_json(file.path(), ("POST", "/b", &[JSON], Some(thought)));
    let lost = &explanation["route"]["agent_requests"][0]["losses"][0];
    assert_eq!((&lost["loss"], &lost["count"]), (&"reasoning_not_shown".into(), &1.into()), "{explanation}");
    expect(&printed, &["lost in the request"]);
}

#[test]
fn lists_both_steps_of_a_two_step_agent() {
    let file = TempFile::new(&config_yaml("http://127.0.0.1:9/chat?a=b"));
    let explanation = explain_as_json(file.path(), ("POST", "/social", &[], None));
    let steps = explanation["route"]["agent_requests"].as_array().expect("steps");
    let requests: Vec<_> = steps.iter().map(|step| (step["method"].clone(), step["urls"].clone())).collect();
    assert_eq!(
        requests,
        [
            ("POST".into(), serde_json::json!(["http://10.0.0.1:9001/runs", "unix:/run/agent.sock:/runs"])),
            (
                "GET".into(),
                serde_json::json!([
                    "http://10.0.0.1:9001/runs/THREAD/events?***",
                    "unix:/run/agent.sock:/runs/THREAD/events?***"
                ])
            ),
        ]
    );
    assert_eq!(explanation["route"]["answer"], "application/json");
    assert_eq!(explanation["route"]["settings"]["timeouts.reader"], "1m");
}

#[test]
fn suggests_the_route_that_was_meant() {
    let file = TempFile::new(&config_yaml("http://127.0.0.1:9/chat?a=b"));
    for (path, hint) in [
        ("/agents/chat/", "without the trailing slash it matches the route chat"),
        ("/Agents/Chat", "paths are case-sensitive: `/agents/chat`"),
        ("/agents/chat/more", "`/agents/chat` is a route, but paths below it are not"),
        ("/agents/chatt", "did you mean `/agents/chat`?"),
        ("/nowhere/at/all", "use one of: `/agents/chat`, `/open`, `/social`"),
    ] {
        let (code, printed) = run_explain_route(file.path(), ("POST", path, &[], None), "text");
        assert!(code == Some(1) && printed.contains(hint), "{path}: {printed}");
    }
    let (code, printed) = run_explain_route(file.path(), ("GET", "/open/runs/r1/events?after=1", &[], None), "text");
    assert!(code == Some(0) && printed.contains("to resume a run"), "{printed}");
}

#[test]
fn rejects_malformed_requests_as_usage_errors() {
    let file = TempFile::new(&config_yaml("http://127.0.0.1:9/chat?a=b"));
    let run =
        |arguments: &[&str]| diglot().arg("explain-route").args(arguments).output().expect("it starts").status.code();
    let config = file.path().to_str().expect("UTF-8");
    assert_eq!(run(&[config, "/open", "--header", "origin"]), Some(2));
    assert_eq!(run(&[config, "no path"]), Some(2));
    assert_eq!(run(&[config, "/open", "--body", "/nowhere"]), Some(69));
    assert_eq!(run(&["/nowhere", "/open"]), Some(78));
}
