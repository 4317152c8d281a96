//! Secrets do not leak: one secret is planted in each place that may have one, every error that involves it is
//! provoked, and then logs (also at `debug`), metrics, readiness, responses and the output of commands are searched.

use super::support::agent::Agent;
use super::support::client::{INPUT, post, send_request};
use super::support::gateway::{Gateway, Setup, TempFile, diglot};
use super::support::sse::{HEAD, complete_run};
use aws_lc_rs::digest::{SHA256, digest};
use jsonwebtoken::{EncodingKey, Header, encode, get_current_timestamp};
use serde_json::json;

/// A part of every secret of this test, and of no other text.
const MARK: &str = "pl4nt3d";

fn planted_secret(what: &str) -> String {
    format!("{MARK}-{what}-0123456789abcdef0123456789abcdef")
}

fn sign_token(secret: &str, more: &[(&str, &str)]) -> String {
    let mut claims = json!({
        "iss": "https://own.example", "aud": "diglot", "sub": "ada", "exp": get_current_timestamp() + 60, "scope": "run",
        "note": planted_secret("claim"),
    });
    for (name, value) in more {
        claims[*name] = json!(value);
    }
    encode(&Header::default(), &claims, &EncodingKey::from_secret(secret.as_bytes())).expect("a token")
}

/// A configuration with a secret in each place, most of them out of the environment.
fn config_yaml(agent: &str) -> (String, Vec<(&'static str, String)>) {
    let sha256: String =
        digest(&SHA256, planted_secret("key").as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let top = format!(
        "auth:
  issuers: [{{name: own, issuer: 'https://own.example', audience: diglot, secret: '${{TOKEN_SECRET}}'}}]
  api_keys: [{{name: keys, keys: [{{id: k1, sha256: {sha256}, scopes: [run]}}]}}]
rate_limits:
  - {{name: once, requests: 1, per: 1h}}
  - {{name: together, requests: 1000, per: 1s, shared: true}}
redis: {{url: 'redis://:${{REDIS_PASSWORD}}@127.0.0.1:1/0'}}
"
    );
    let route = |name: &str, upstream: &str, more: &str| {
        format!(
            "  - {{name: {name}, path: /{name}, client: ag-ui, agent: ag-ui, upstream: '{upstream}?key=${{AGENT_QUERY}}', \
             upstream_headers: {{authorization: 'Bearer ${{AGENT_TOKEN}}', x-key: {}}}{more}}}\n",
            planted_secret("written")
        )
    };
    let nowhere = "http://127.0.0.1:1/";
    let routes = [
        route("run", agent, ", require: {scopes: [run]}, tools: [], rate_limits: [together], threads: owned"),
        route("once", agent, ", rate_limits: [once]"),
        route("events", agent, ", errors: run_error, require: {scopes: [more]}"),
        route("gone", nowhere, ""),
        route("own", agent, ", forward_credentials: true, upstream_headers: {}").replacen(
            &format!(
                "upstream_headers: {{authorization: 'Bearer ${{AGENT_TOKEN}}', x-key: {}}}, ",
                planted_secret("written")
            ),
            "",
            1,
        ),
    ];
    let variables = [
        ("TOKEN_SECRET", planted_secret("secret")),
        ("REDIS_PASSWORD", planted_secret("password")),
        ("AGENT_QUERY", planted_secret("query")),
        ("AGENT_TOKEN", planted_secret("agent")),
    ];
    (format!("{top}routes:\n{}", routes.concat()), variables.into())
}

#[tokio::test]
async fn leaks_no_secret() {
    let agent = Agent::with_response(format!("{HEAD}{}", complete_run()));
    let (yaml, variables) = config_yaml(agent.url().trim_end_matches("?kept=1"));
    let mut env: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    env.push(("DIGLOT_LOG", "debug"));
    let (top, routes) = yaml.split_once("routes:\n").expect("routes");
    let routes = format!("routes:\n{routes}");
    let mut gateway = Gateway::start(Setup { top, routes: &routes, env: &env, ..Setup::default() }).await;

    let secret = planted_secret("secret");
    let good = sign_token(&secret, &[]);
    let bearer = |token: &str| format!("Authorization: Bearer {token}\r\n");
    let offers = INPUT
        .replace("\"tools\":[]", &format!("\"tools\":[{{\"name\":\"t\",\"note\":\"{}\"}}]", planted_secret("tool")));
    let broken = format!("{{\"messages\":[{{\"content\":\"{}\"", planted_secret("body"));
    let mut collected = String::new();
    let mut statuses = Vec::new();
    let query = format!("/run?access_token={}", planted_secret("url"));
    for (path, fields, body) in [
        ("/run", bearer(&good), INPUT),
        ("/run", format!("X-Api-Key: {}\r\nCookie: a={}\r\n", planted_secret("key"), planted_secret("cookie")), INPUT),
        ("/own", bearer(&good), INPUT),
        ("/run", bearer(&good), &*offers),
        ("/run", bearer(&good), &*broken),
        ("/run", bearer(&sign_token(&secret, &[("aud", &planted_secret("audience"))])), INPUT),
        ("/run", bearer(&sign_token(&secret, &[("iss", &planted_secret("issuer"))])), INPUT),
        ("/run", bearer(&sign_token(&planted_secret("wrong"), &[])), INPUT),
        ("/run", bearer(&planted_secret("bearer")), INPUT),
        ("/run", format!("Authorization: Basic {}\r\n", planted_secret("basic")), INPUT),
        ("/run", format!("X-Api-Key: {}\r\n", planted_secret("unknown")), INPUT),
        ("/run", format!("{}X-Api-Key: {}\r\n", bearer(&good), planted_secret("key")), INPUT),
        (&*query, String::new(), INPUT),
        ("/once", bearer(&good), INPUT),
        ("/once", bearer(&good), INPUT),
        ("/events", bearer(&good), INPUT),
        ("/gone", bearer(&good), INPUT),
        (&*format!("/{}", planted_secret("path")), bearer(&good), INPUT),
    ] {
        let answer = send_request(gateway.data, post(path, &format!("Connection: close\r\n{fields}"), body)).await;
        statuses.push(answer.status);
        collected += &format!("{:?}\n{}\n", answer.headers, answer.text());
    }
    // The planned errors occurred; otherwise there would be nothing to leak. The second caller requests the first one's
    // thread.
    assert_eq!(statuses, [200, 403, 200, 403, 400, 401, 401, 401, 401, 401, 401, 401, 401, 200, 429, 200, 502, 404]);

    for page in ["/metrics", "/readyz?verbose"] {
        collected += gateway.get_status(page).await.text();
    }
    gateway.process.signal("TERM");
    let mut lines = 0;
    while let Some(line) = gateway.process.line().await {
        collected += &format!("{line}\n");
        lines += 1;
    }
    assert!(
        lines > 18 && collected.contains("\"request refused\"") && collected.contains("\"run ended\""),
        "the log was collected"
    );

    let file = TempFile::new(&yaml);
    for command in ["check", "config"] {
        let output = diglot().envs(variables.iter().cloned()).arg(command).arg(file.path()).output().expect("it runs");
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        collected += &String::from_utf8_lossy(&output.stdout);
        collected += &String::from_utf8_lossy(&output.stderr);
    }
    // Ids that a client chose may appear, and the text of the path only in its own request.
    let found: Vec<&str> = collected.lines().filter(|line| line.contains(MARK) || line.contains(&good)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
