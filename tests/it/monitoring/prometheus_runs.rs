//! All expressions for a gateway that serves, and the alerts of one that fails, in a real Prometheus.

use super::super::support::agent::{Agent, Step, refusing_address, write};
use super::super::support::client::{Client, INPUT, post, post_run, send_request};
use super::super::support::gateway::{Gateway, Setup, TempFile};
use super::super::support::prometheus::Prometheus;
use super::super::support::sse::{CLOSED, CONTENT, FINISHED, HEAD, OPENED, STARTED, assert_refused};
use super::super::support::{DEADLINE, eventually, sha256};
use super::expression::{Expression, Selector};
use super::{RULES, RUNBOOK, alerts, dashboard, promql_lines, read, recorded_metrics, repository_path};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

/// Metrics whose series exist after their first count only, since there may be hundreds.
const LAZY_METRICS: &[&str] = &["diglot_events_total", "diglot_refusals_total"];

/// Panels that are empty while all is well.
const EMPTY: &[&str] = &["Alerts that fire", "Refusals by the gateway's own fault, by route"];

/// Returns the rules without their `for`.
fn rules_without_delay() -> TempFile {
    let text = read(RULES);
    let line = |line: &str| if line.trim().starts_with("for: ") { String::new() } else { line.to_owned() + "\n" };
    TempFile::new(&text.lines().map(line).collect::<String>())
}

fn selector(one: &Selector) -> String {
    let each = one.matchers.iter().map(|(label, sign, value)| format!("{label}{sign}{value:?}"));
    format!("{}{{{}}}", one.name, each.collect::<Vec<_>>().join(","))
}

/// The names of the alerts that fire now.
async fn firing(prometheus: &Prometheus) -> BTreeSet<String> {
    let all = prometheus.query("ALERTS{alertstate=\"firing\"}").await;
    all.into_iter().map(|(mut labels, _)| labels.remove("alertname").expect("a name")).collect()
}

/// Requires that these alerts fire and no others. Without `for`, a scrape that a busy machine delays also makes an
/// alert fire; it ends with the next scrape, while all others last for minutes.
async fn assert_firing(prometheus: &Prometheus, due: &[&str]) {
    let due: BTreeSet<_> = due.iter().map(|name| (*name).to_owned()).collect();
    let (mut now, late) = (firing(prometheus).await, Instant::now() + DEADLINE);
    while now != due && Instant::now() < late {
        prometheus.wait_for_scrape().await;
        now = firing(prometheus).await;
    }
    assert_eq!(now, due);
}

/// Requires that the series of every alert exist from the start, except those of [`LAZY_METRICS`].
async fn assert_series_exist(prometheus: &Prometheus) {
    let (recorded, mut missing) = (recorded_metrics(), Vec::new());
    for alert in alerts() {
        for one in Expression::read(&alert.expression).selectors {
            if recorded.contains(&one.name) || LAZY_METRICS.contains(&one.name.as_str()) {
                continue;
            }
            if prometheus.query(&format!("count({})", selector(&one))).await.is_empty() {
                missing.push(format!("{}: {}", alert.name, selector(&one)));
            }
        }
    }
    assert!(missing.is_empty(), "not there from the start:\n{}", missing.join("\n"));
}

/// Requires that every rule can be evaluated.
async fn wait_until_evaluated(prometheus: &Prometheus) {
    eventually("an evaluation of every rule", async || {
        let groups = prometheus.api("rules").await;
        let groups = groups["data"]["groups"].as_array().expect("groups").clone();
        let rules = groups.iter().flat_map(|group| group["rules"].as_array().expect("rules"));
        let health: BTreeSet<_> = rules
            .map(|rule| {
                assert!(rule["lastError"].as_str().unwrap_or_default().is_empty(), "{rule}");
                rule["health"].as_str().unwrap_or_default().to_owned()
            })
            .collect();
        (health == BTreeSet::from(["ok".to_owned()])).then_some(())
    })
    .await;
}

/// The key of RFC 7517, appendix A.1.
const KEYS: &str = r#"{"keys": [{"kty": "EC", "crv": "P-256", "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4", "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM", "kid": "1"}]}"#;

/// Listeners, what is above the routes, and routes: everything that has metrics of its own, with nothing wrong.
fn full_config(agent: &str, keys: &Path) -> (String, String, String) {
    let tls = repository_path("config/examples/tls");
    let file = |name: &str| tls.join(name).display().to_string();
    let listeners = format!(
        "{{data: [127.0.0.1:0, {{address: 127.0.0.2:0, tls: {{cert: {:?}, key: {:?}}}}}], status: 127.0.0.1:0}}",
        file("tls.crt"),
        file("tls.key")
    );
    let top = format!(
        "auth:
  issuers: [{{name: corp, issuer: https://idp.example, audience: diglot, jwks_file: {:?}}}]
rate_limits: [{{name: few, key: address, requests: 1000, per: 1h}}]
limits: {{max_streams: 100}}
",
        keys.display().to_string()
    );
    let route = |name, more| {
        format!(
            "  - {{name: {name}, path: /{name}, client: ag-ui, agent: ag-ui, upstream: \"{agent}\", rate_limits: [few], {more}}}\n"
        )
    };
    let routes = format!("routes:\n{}{}", route("run", "auth: none, max_streams: 50"), route("staff", "auth: corp"));
    (listeners, top, routes)
}

#[tokio::test]
async fn evaluates_every_expression_and_fires_no_alert_when_healthy() {
    let rest = [OPENED, CONTENT, CLOSED, FINISHED].concat();
    let agent =
        Agent::with_script(vec![Step::Read, write(HEAD.to_owned() + STARTED), Step::Dribble(rest.into_bytes())]);
    let keys = TempFile::new(KEYS);
    let (listeners, top, routes) = full_config(&agent.url(), keys.path());
    let setup = Setup { listeners: &listeners, top: &top, routes: &routes, ..Setup::default() };
    let gateway = Gateway::start(setup).await;
    let rules = rules_without_delay();
    let prometheus = Prometheus::start_scraping(&[gateway.status], &[rules.path()]).await;
    prometheus.wait_for_scrape().await;
    assert_series_exist(&prometheus).await;
    // A series that is created by its first count has a rate from the second on.
    for runs in 1..=2 {
        for _ in 0..3 {
            post_run(gateway.data, "/run").await;
        }
        send_request(gateway.data, post("/staff", "Authorization: Bearer a.b.c\r\n", INPUT)).await;
        gateway.wait_for_metric(r#"diglot_streams_total{outcome="finished",route="run"}"#, f64::from(3 * runs)).await;
        prometheus.wait_for_scrape().await;
    }
    wait_until_evaluated(&prometheus).await;
    for panel in dashboard::panels() {
        for expression in &panel.expressions {
            let title = &panel.title;
            let answers = async || {
                let found = prometheus.query(expression).await;
                (EMPTY.contains(&title.as_str()) || found.iter().any(|(_, value)| value.is_finite())).then_some(())
            };
            eventually(&format!("a value of {title}: {expression}"), answers).await;
        }
    }
    for expression in dashboard::other_expressions().into_iter().chain(promql_lines(RUNBOOK)) {
        prometheus.query(&expression).await;
    }
    assert_firing(&prometheus, &[]).await;
}

/// A gateway with an unreachable agent, an agent that hangs, and an unreachable issuer.
fn failing_config(away: &str, hangs: &str) -> String {
    let digest = sha256("the-key");
    format!(
        "listeners: {{data: 127.0.0.1:0, status: 127.0.0.1:0}}
drain_grace: 0s
auth:
  issuers: [{{name: corp, issuer: https://idp.example, audience: diglot, jwks_url: \"http://127.0.0.1:9/keys\"}}]
  api_keys: [{{name: web, keys: [{{id: k1, sha256: \"{digest}\"}}]}}]
rate_limits: [{{name: few, key: route, requests: 1, per: 1h}}]
routes:
  - {{name: away, path: /away, client: ag-ui, agent: ag-ui, upstream: \"{away}\", auth: none}}
  - {{name: full, path: /full, client: ag-ui, agent: ag-ui, upstream: \"{hangs}\", auth: none, max_streams: 1}}
  - {{name: few, path: /few, client: ag-ui, agent: ag-ui, upstream: \"{away}\", auth: none, rate_limits: [few]}}
  - {{name: keys, path: /keys, client: ag-ui, agent: ag-ui, upstream: \"{away}\", auth: web}}
"
    )
}

#[tokio::test]
async fn fires_exactly_the_alerts_of_a_failing_gateway() {
    let (_held, away) = refusing_address();
    let agent = Agent::with_script(vec![Step::Read, write(HEAD.to_owned() + STARTED), Step::WaitForClose]);
    let file = TempFile::new(&failing_config(&away, &agent.url()));
    let gateway = Gateway::start_with_config(file.path(), &[]).await;
    let rules = rules_without_delay();
    let prometheus = Prometheus::start_scraping(&[gateway.status], &[rules.path()]).await;
    prometheus.wait_for_scrape().await;
    let mut open = Client::connect(gateway.data).await;
    open.send(post("/full", "", INPUT)).await;
    open.read_head().await;
    // A second time, since a series that is made when it is first counted with has not grown then.
    for _ in 0..2 {
        for _ in 0..40 {
            assert_refused(&post_run(gateway.data, "/away").await, 502, "upstream_unreachable");
            assert_refused(&post_run(gateway.data, "/full").await, 503, "overloaded");
            post_run(gateway.data, "/few").await;
            let guessed = send_request(gateway.data, post("/keys", "X-Api-Key: another\r\n", INPUT)).await;
            assert_refused(&guessed, 401, "invalid_token");
        }
        prometheus.wait_for_scrape().await;
    }
    std::fs::write(file.path(), "routes: [").expect("the file of the test");
    gateway.wait_for_metric("diglot_config_last_reload_successful", 0.0).await;
    let due = [
        "DiglotConfigurationRefused",
        "DiglotIssuerKeysStale",
        "DiglotIssuerWithoutKeys",
        "DiglotLimitRefuses",
        "DiglotNoUpstreamFits",
        "DiglotOverloaded",
        "DiglotRequestsRefused",
        "DiglotRunsFail",
        "DiglotRunsFailSlowly",
        "DiglotUpstreamDown",
        "DiglotUpstreamFails",
    ];
    for name in due {
        let fires = async || firing(&prometheus).await.contains(name).then_some(());
        eventually(name, fires).await;
    }
    assert_firing(&prometheus, &due).await;
}
