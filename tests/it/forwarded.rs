//! The client's address and the caller's identity as the agent receives them; clients cannot forge either.

use super::support::agent::{Agent, Request, Step, write};
use super::support::client::{Answer, INPUT, post, send_request};
use super::support::gateway::{Gateway, Setup, TempFile};
use super::support::sha256;
use super::support::sse::{COMPLETE_RUN, HEAD, assert_refused, assert_succeeded, complete_run};

/// The key of the only caller, and who it is.
const KEY: &str = "dg_0123456789abcdef0123456789abcdef";

fn start_agent() -> Agent {
    Agent::with_response(HEAD.to_owned() + &complete_run())
}

/// Starts a gateway whose route requires an API key, of two lists in the same field, with further keys of the route and
/// of the top level.
async fn start_guarded_gateway(agent: &Agent, top: &str, more: &str) -> Gateway {
    let digest = sha256(KEY);
    let top = format!(
        "{top}\nauth:\n  api_keys:\n    - name: keys\n      keys:\n        - {{id: one, sha256: {digest}, subject: \"Zoë Q\", tenant: acme, tier: gold, scopes: [read, \"write:all\"]}}\n    - name: others\n      keys: [{{id: two, sha256: {}}}]",
        sha256("other")
    );
    let routes = format!(
        "routes:\n  - {{name: run, path: /run, client: ag-ui, agent: ag-ui, upstream: \"{}\", auth: [keys, others], {more}}}\n",
        agent.url()
    );
    Gateway::start(Setup { top: &top, routes: &routes, ..Setup::default() }).await
}

/// Starts a gateway whose route needs no authentication.
async fn start_open_gateway(agent: &Agent, top: &str, more: &str) -> Gateway {
    let routes = format!(
        "routes:\n  - {{name: run, path: /run, client: ag-ui, agent: ag-ui, upstream: \"{}\", {more}}}\n",
        agent.url()
    );
    Gateway::start(Setup { top, routes: &routes, ..Setup::default() }).await
}

async fn call_agent(gateway: &Gateway, agent: &mut Agent, fields: &str) -> Request {
    let answer = send_request(gateway.data, post("/run", fields, INPUT)).await;
    assert_succeeded(&answer, COMPLETE_RUN);
    agent.next_request().await
}

/// The lines of a field, names in any case.
fn header_lines<'r>(request: &'r Request, name: &str) -> Vec<&'r str> {
    request.headers().into_iter().filter(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
}

/// No client sets its own identity: not in any spelling of our fields, and not with `Connection` (failures.md, rows 31,
/// 52, 53).
#[tokio::test]
async fn replaces_spoofed_identity_and_forwarding_headers() {
    let mut agent = start_agent();
    let gateway = start_guarded_gateway(&agent, "", "forward_headers: [x-kept]").await;
    let spoofed = format!(
        "X-Api-Key: {KEY}\r\nX-Diglot-Subject: root\r\nx_diglot_subject: root\r\nX-Diglot_Subject: root\r\n\
         X-Diglot-Tier: root\r\nX-Diglot-Else: root\r\nX-Forwarded-For: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\n\
         X-Real-IP: 6.6.6.6\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil\r\nX-Forwarded-Port: 1\r\nVia: 1.1 evil\r\n\
         Cookie: root\r\nProxy-Authorization: Basic root\r\nX-Kept: root\r\nX_Kept: root\r\nX-User: root\r\n\
         Connection: x-diglot-subject, x-forwarded-for, x-api-key, x-kept, via, traceparent\r\n\
         Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"
    );
    let request = call_agent(&gateway, &mut agent, &spoofed).await;
    assert!(
        !request.head.contains("root") && !request.head.contains("evil") && !request.head.contains("6.6.6.6"),
        "{}",
        request.head
    );
    assert!(!request.head.contains(KEY), "{}", request.head);
    assert!(request.headers().iter().all(|(name, _)| !name.contains('_')), "{}", request.head);
    // A hop-by-hop field is ignored: a new trace begins.
    let traceparent = header_lines(&request, "traceparent");
    assert!(traceparent.len() == 1 && !traceparent[0].contains("0af7651916cd43dd8448eb211c80319c"), "{traceparent:?}");
    // Bytes that are no visible ASCII, and `%`, are percent-encoded UTF-8.
    let expected = [
        ("x-diglot-subject", "Zo%C3%AB%20Q"),
        ("x-diglot-tenant", "acme"),
        ("x-diglot-tier", "gold"),
        ("x-diglot-scopes", "read write:all"),
        ("x-diglot-method", "api_key"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-host", "gateway"),
        ("via", "1.1 diglot"),
    ];
    for (name, value) in expected {
        assert_eq!(header_lines(&request, name), [value], "{name} in {}", request.head);
    }
}

#[tokio::test]
async fn sends_no_identity_headers_for_anonymous_callers() {
    let mut agent = start_agent();
    let gateway = start_open_gateway(&agent, "", "").await;
    let request = call_agent(&gateway, &mut agent, "Authorization: Bearer root\r\nX-Diglot-Subject: root\r\n").await;
    assert!(
        !request.head.to_ascii_lowercase().contains("x-diglot") && !request.head.contains("root"),
        "{}",
        request.head
    );
}

#[tokio::test]
async fn trusts_forwarded_addresses_up_to_the_first_untrusted_one() {
    let mut agent = start_agent();
    let gateway = start_open_gateway(&agent, "trusted_proxies: [127.0.0.0/8, 10.0.0.0/8]", "").await;
    let rows = [
        ("X-Forwarded-For: 6.6.6.6, 198.51.100.7, 10.0.0.2\r\n", "198.51.100.7, 10.0.0.2, 127.0.0.1"),
        ("Forwarded: for=6.6.6.6, for=\"[2001:db8::7]:1\"\r\n", "2001:db8::7, 127.0.0.1"),
        ("Forwarded: for=6.6.6.6\r\nX-Forwarded-For: 198.51.100.7\r\n", "127.0.0.1"),
        ("X-Forwarded-For: 6.6.6.6, unknown\r\n", "127.0.0.1"),
        ("X-Forwarded-For: 198.51.100.7\r\nConnection: x-forwarded-for\r\n", "198.51.100.7, 127.0.0.1"),
    ];
    for (fields, expected) in rows {
        let request = call_agent(&gateway, &mut agent, fields).await;
        assert_eq!(header_lines(&request, "x-forwarded-for"), [expected], "{fields}");
    }
    let origin_fields = "X-Forwarded-Proto: https\r\nX-Forwarded-Host: app.example:8443\r\n";
    let request = call_agent(&gateway, &mut agent, origin_fields).await;
    assert_eq!(header_lines(&request, "x-forwarded-proto"), ["https"]);
    assert_eq!(header_lines(&request, "x-forwarded-host"), ["app.example:8443"]);
    // A proxy appends its own lines to those that the client sent.
    let client_fields = "X-Forwarded-Proto: http\r\nX-Forwarded-Host: evil.example\r\n";
    let request = call_agent(&gateway, &mut agent, &[client_fields, origin_fields].concat()).await;
    assert_eq!(header_lines(&request, "x-forwarded-proto"), ["https"]);
    assert_eq!(header_lines(&request, "x-forwarded-host"), ["app.example:8443"]);
    let request = call_agent(&gateway, &mut agent, "X-Forwarded-Proto: javascript\r\nX-Forwarded-Host: a/b\r\n").await;
    assert_eq!(header_lines(&request, "x-forwarded-proto"), ["http"]);
    assert_eq!(header_lines(&request, "x-forwarded-host"), ["gateway"]);
}

#[tokio::test]
async fn forwards_headers_and_credentials_only_where_configured() {
    let mut agent = start_agent();
    let gateway =
        start_guarded_gateway(&agent, "", "forward_headers: [x-kept, accept-language], forward_credentials: true")
            .await;
    let fields = format!(
        "X-Api-Key: {KEY}\r\nX-Kept: 1\r\nX-Kept: 2\r\nAccept-Language: de\r\nX-Other: root\r\nCookie: root\r\n"
    );
    let request = call_agent(&gateway, &mut agent, &fields).await;
    assert_eq!(header_lines(&request, "x-kept"), ["1", "2"]);
    assert_eq!(header_lines(&request, "accept-language"), ["de"]);
    assert_eq!(header_lines(&request, "x-api-key"), [KEY]);
    assert!(!request.head.contains("root"), "{}", request.head);
    // A hop-by-hop field is not forwarded, whatever the route configures.
    let request =
        call_agent(&gateway, &mut agent, &(fields + "Connection: close, X-Kept\r\nConnection: X-API-KEY\r\n")).await;
    assert_eq!((header_lines(&request, "x-kept").len(), header_lines(&request, "x-api-key").len()), (0, 0));
}

#[tokio::test]
async fn reads_upstream_credentials_from_values_and_files() {
    let mut agent = start_agent();
    let file = TempFile::new("secret-of-the-file\n");
    let headers = format!(
        "upstream_headers: {{authorization: {{file: \"{}\", prefix: \"Bearer \"}}, x-team: search}}",
        file.path().display()
    );
    let gateway = start_open_gateway(&agent, "", &headers).await;
    let request = call_agent(&gateway, &mut agent, "Authorization: Bearer root\r\nX-Team: root\r\n").await;
    assert_eq!(header_lines(&request, "authorization"), ["Bearer secret-of-the-file"]);
    assert_eq!(header_lines(&request, "x-team"), ["search"]);
    // The file is read again when it changes.
    std::fs::write(file.path(), "rotated").expect("a file");
    super::support::eventually("the new secret", async || {
        send_request(gateway.data, post("/run", "", INPUT)).await;
        let request = agent.next_request().await;
        (header_lines(&request, "authorization") == ["Bearer rotated"]).then_some(())
    })
    .await;
}

/// Both requests to a two-step agent identify the caller.
#[tokio::test]
async fn sends_the_same_headers_in_both_steps() {
    let started =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
    let mut agent =
        Agent::with_two_steps(vec![Step::Read, write(started)], vec![vec![write(HEAD.to_owned() + &complete_run())]]);
    let more = "events: \"/events/{thread_id}\", forward_headers: [x-kept], upstream_headers: {x-team: search}";
    let gateway = start_guarded_gateway(&agent, "", more).await;
    send_request(gateway.data, post("/run", &format!("X-Api-Key: {KEY}\r\nX-Kept: 1\r\nCookie: root\r\n"), INPUT))
        .await;
    for method in ["POST", "GET"] {
        let request = agent.next_request().await;
        assert!(request.head.starts_with(method), "{}", request.head);
        for (name, value) in
            [("x-diglot-tenant", "acme"), ("x-kept", "1"), ("x-team", "search"), ("x-forwarded-for", "127.0.0.1")]
        {
            assert_eq!(header_lines(&request, name), [value], "{name} in {}", request.head);
        }
        assert!(!request.head.contains("root") && !request.head.contains(KEY), "{}", request.head);
    }
}

/// A client has one address, whatever its fields contain (failures.md, row 45).
#[tokio::test]
async fn no_header_opens_another_rate_limit_bucket() {
    let agent = start_agent();
    let top = "rate_limits:\n  - {name: each, key: address, requests: 2, per: 1h}";
    let gateway = start_open_gateway(&agent, top, "rate_limits: [each]").await;
    let tricks = [
        "",
        "X-Forwarded-For: 6.6.6.1\r\n",
        "Forwarded: for=6.6.6.2\r\n",
        "X-Real-IP: 6.6.6.3\r\n",
        "User-Agent: other\r\n",
        "Cookie: a=b\r\n",
        "Authorization: bearer a\r\n",
        "True-Client-IP: 6.6.6.4\r\n",
        "CF-Connecting-IP: 6.6.6.5\r\n",
    ];
    let mut passed = 0;
    for fields in tricks {
        let answer: Answer = send_request(gateway.data, post("/run?x=1", fields, INPUT)).await;
        if answer.status == 200 {
            passed += 1;
        } else {
            let problem = assert_refused(&answer, 429, "rate_limited");
            assert_eq!(problem["policy"], "each", "{problem}");
        }
    }
    assert_eq!(passed, 2);
    assert_eq!(agent.connection_count(), 2);
}

/// Row 50 of failures.md: nothing of the status plane is on the data plane.
#[tokio::test]
async fn does_not_serve_the_status_plane_on_the_data_plane() {
    let agent = start_agent();
    let gateway = start_open_gateway(&agent, "", "").await;
    for path in ["/metrics", "/livez", "/readyz", "/readyz?verbose", "/drain/wait", "/debug/pprof", "/admin", "/config"]
    {
        let answer = send_request(gateway.data, format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:8788\r\n\r\n")).await;
        assert_refused(&answer, 404, "route_not_found");
        assert_eq!(answer.header("server"), None);
    }
}

/// Row 53: fields of an agent about its connection, itself or pages are not forwarded to the client.
#[tokio::test]
async fn drops_headers_of_the_agents_answer() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close, x-secret\r\nX-Secret: 1\r\n\
        Server: agent\r\nX-Powered-By: agent\r\nSet-Cookie: a=b\r\nAccess-Control-Allow-Origin: *\r\nVary: X\r\n\
        Keep-Alive: timeout=1\r\nWWW-Authenticate: Basic\r\nX-Request-Id: agent\r\nRateLimit: \"agent\";r=0\r\n\r\n";
    let agent = Agent::with_response(head.to_owned() + &complete_run());
    let gateway = start_open_gateway(&agent, "", "").await;
    let answer = send_request(gateway.data, post("/run", "", INPUT)).await;
    assert_succeeded(&answer, COMPLETE_RUN);
    let mut names: Vec<_> = answer.headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
    names.sort_unstable();
    let own = ["cache-control", "content-type", "date", "transfer-encoding", "x-accel-buffering", "x-request-id"];
    assert_eq!(names, own);
    assert_ne!(answer.header("x-request-id"), Some("agent"));
}
