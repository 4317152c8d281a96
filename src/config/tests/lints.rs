//! Tests warnings about probably unintended settings, and the same settings marked as intended.

use super::environment;
use crate::config::load::load_with;
use crate::config::source::LoadContext;
use crate::config::{ConfigProblem, ProblemSeverity};
use std::path::Path;

/// `(cause, file, expected warnings)`; see [`super::broken::BROKEN`].
const DOUBTFUL: &[(&str, &str, &str)] = &[
    (
        "a route that the network may call",
        r#"
listeners: {data: [127.0.0.1:1, 0.0.0.0:2, "unix:/tmp/s"]}
routes:
  - {path: /a, client: ag-ui, agent: hai, upstream: "http://h/"}
  - {path: /b, client: ag-ui, agent: hai, upstream: "http://h/", auth: none}
"#,
        r"
f:3:5: warning: routes[0]: every client that can reach 0.0.0.0:2 may call this route
  hint: list issuers or API keys in its `auth`; write `auth: none` to allow calls without a credential
",
    ),
    (
        "what nothing refers to",
        r#"
auth:
  issuers: [{name: a, issuer: a, audience: x, jwks_url: "https://h/a"}, {name: b, issuer: b, audience: x, jwks_url: "https://h/b"}]
  api_keys: [{name: c, keys: [{id: a, sha256: c018c41c1afaf2c0b66c64f97d0ee135657b699ad260f299234cd40a5d625e0e}]}]
rate_limits: [{name: d, requests: 1, shared: true}, {name: e, requests: 1}]
redis: {url: "redis://h/"}
dialects: [{name: f, extends: hai}, {name: g, extends: f}, {name: h, extends: hai}]
routes:
  - {path: /a, client: ag-ui, agent: g, upstream: "http://h/", auth: a, rate_limits: [e]}
"#,
        r"
f:2:73: warning: auth.issuers[1]: no route accepts tokens of the issuer `b`
  hint: name it in a route, or remove it
f:3:14: warning: auth.api_keys[0]: no route accepts the API keys of `c`
  hint: name it in a route, or remove it
f:4:15: warning: rate_limits[0]: no route uses the rate limit `d`
  hint: name it in a route, or remove it
f:5:8: warning: redis: nothing in this file uses Redis
  hint: use it in a rate limit with `shared: true`, with `threads: owned`, or with `replay: {store: redis}` on a route that needs it, or remove `redis`
f:6:60: warning: dialects[2]: no route uses the dialect `h`
  hint: name it in a route, or remove it
",
    ),
    (
        "secrets in the file",
        r#"
auth: {issuers: [{name: a, issuer: a, audience: x, secret: hunter2hunter2hunter2hunter2hunter2}]}
redis: {url: "redis://:hunter2@h/"}
routes:
  - path: /a
    client: ag-ui
    agent: hai
    upstream: http://h/
    threads: owned
    upstream_headers: {x-api-key: hunter2, x-team: green, authorization: "Bearer ${SECRET}"}
"#,
        r"
f:1:60: warning: auth.issuers[0].secret: this secret is in plain text in the file
  hint: pass it in a variable, `${NAME}`, or write `secret_file`
f:2:14: warning: redis.url: this secret is in plain text in the file
  hint: pass it in a variable, `${NAME}`, or write `password_file`
f:9:35: warning: routes[0].upstream_headers.x-api-key: this secret is in plain text in the file
  hint: pass it in a variable, `${NAME}`, or write `{file: PATH}`
",
    ),
    (
        "credentials in clear on a network of others",
        r#"
routes:
  - {path: /a, client: ag-ui, agent: hai, upstream: http://agents.example.com/, forward_credentials: true}
  - {path: /b, client: ag-ui, agent: hai, upstream: http://203.0.113.7/, upstream_headers: {authorization: "${SECRET}"}}
  - {path: /c, client: ag-ui, agent: hai, upstream: [http://10.0.0.7/, http://agent/, http://a.b.svc.cluster.local/, https://agents.example.com/], forward_credentials: true}
  - {path: /d, client: ag-ui, agent: hai, upstream: http://agents.example.com/, upstream_headers: {x-team: green}}
"#,
        r"
f:2:53: warning: routes[0].upstream: credentials are sent to this agent unencrypted
  hint: write `https://`, or make sure that the connection stays inside your own network
f:3:53: warning: routes[1].upstream: credentials are sent to this agent unencrypted
  hint: write `https://`, or make sure that the connection stays inside your own network
",
    ),
    (
        "tools for interrupts that are never called",
        r#"
routes:
  - {path: /a, client: {dialect: hai, interrupt_tool: x}, agent: {dialect: hai, interrupt_tool: x}, upstream: "http://h/"}
  - {path: /b, client: {dialect: ag-ui-0, pin: 0.0.57, interrupt_tool: x}, agent: hai, upstream: "http://h/"}
  - {path: /c, client: {dialect: ag-ui-0, pin: 0.0.53, interrupt_tool: x}, agent: hai, upstream: "http://h/"}
"#,
        r"
f:2:97: warning: routes[0].agent.interrupt_tool: only clients are asked by a tool, so this has no effect
  hint: write it in `client`, or remove it
f:3:72: warning: routes[1].client.interrupt_tool: clients of this version get interrupts as such, so this has no effect
  hint: remove it, or write a `pin` below `0.0.57`
",
    ),
    (
        "tiers, times, keys and pages",
        r#"
auth:
  api_keys:
    - name: a
      keys:
        - {id: a, sha256: c018c41c1afaf2c0b66c64f97d0ee135657b699ad260f299234cd40a5d625e0e, expires: 2020-01-31}
rate_limits: [{name: d, requests: 1, tiers: {gold: {requests: 2}}}]
drain_timeout: 0s
routes:
  - path: /a
    client: ag-ui
    agent: hai
    upstream: http://h/
    rate_limits: [d]
    on_disconnect: continue for 500ms
    cors: {origins: "*"}
"#,
        r"
f:5:102: warning: auth.api_keys[0].keys[0].expires: this key has expired, so calls with it are rejected
  hint: remove it, or write a later date
f:6:52: warning: rate_limits[0].tiers: no caller has a tier, so these quotas never apply
  hint: add `tier_claim` to an issuer, or `tier` to API keys; or remove `tiers`
f:7:16: warning: drain_timeout: running streams are aborted as soon as shutdown begins
  hint: give them time to finish, such as `drain_timeout: 30s`
f:14:20: warning: routes[0].on_disconnect: clients rarely reconnect within this time
  hint: write at least one minute: `continue for 2m`
f:15:11: warning: routes[0].cors: pages of any origin may call a route that requires credentials
  hint: list the origins of the pages that have credentials for the route
",
    ),
];

#[test]
fn warns_about_each_questionable_setting() {
    for (what, text, expected) in DOUBTFUL {
        let loaded = load_with(
            Path::new("f"),
            text.trim_start().as_bytes(),
            LoadContext::for_path(Path::new("f"), &environment),
        );
        let loaded = loaded.unwrap_or_else(|problems| panic!("{what}: {problems}"));
        let mut reported = String::from("\n");
        for warning in &loaded.warnings {
            assert_eq!(warning.severity, ProblemSeverity::Warning);
            assert!(!format!("{warning} {warning:?}").contains("hunter2"), "{warning}");
            reported += &format!("{}\n", ConfigProblem { excerpt: None, ..warning.clone() });
        }
        assert_eq!(reported, *expected, "{what}");
    }
}
