//! The metrics, as Prometheus reads them.

use super::support::agent::{Agent, Step, write};
use super::support::client::{Client, INPUT, post, post_run, send_request};
use super::support::eventually;
use super::support::gateway::{Gateway, Process, Setup, TempFile, diglot};
use super::support::prometheus::{Prometheus, promtool};
use super::support::sse::{
    CLOSED, CONTENT, FINISHED, HEAD, OPENED, STARTED, assert_succeeded, complete_run, events, types,
};
use diglot::telemetry::metric::{CATALOGUE, MetricKind};
use std::collections::{BTreeMap, BTreeSet};

/// A series of an exposition: its name, its labels, and its value.
type Series<'t> = (&'t str, Vec<(&'t str, &'t str)>, f64);

/// Every series of an exposition.
fn series(text: &str) -> Vec<Series<'_>> {
    let read = |line| {
        let (name, value): (&str, &str) = str::rsplit_once(line, ' ').expect("a value");
        let (name, labels) = name.trim_end_matches('}').split_once('{').unwrap_or((name, ""));
        // The last quote ends the last value; all others are followed by a comma.
        let labels = labels.strip_suffix('"').unwrap_or(labels);
        let labels = labels.split("\",").filter_map(|pair| pair.split_once("=\""));
        (name, labels.collect(), value.parse().expect("a number"))
    };
    text.lines().filter(|line| !line.starts_with('#')).map(read).collect()
}

/// Runs `promtool` on an exposition; returns its success and its messages.
fn check_exposition(exposition: &str) -> (bool, String) {
    let output = promtool(&["check", "metrics"], exposition);
    let printed = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(printed).expect("text"))
}

/// Routes of all sorts before one agent, with everything that has metrics of its own.
fn full_config(agent: &str, redis: u16) -> String {
    let digest = super::support::sha256("a-key-of-the-test");
    format!(
        "listeners: {{data: 127.0.0.1:0, status: 127.0.0.1:0}}
drain_grace: 0s
redis: {{url: \"redis://127.0.0.1:{redis}\", on_error: local}}
rate_limits: [{{name: few, key: address, requests: 1000, per: 1h, shared: true}}]
auth:
  api_keys: [{{name: web, keys: [{{id: k1, subject: ada, tenant: evil-tenant, sha256: \"{digest}\"}}]}}]
routes:
  - {{name: run, path: /run, client: ag-ui, agent: ag-ui, upstream: \"{agent}\", auth: none, rate_limits: [few]}}
  - {{name: 'quoted \"\\ name', path: /quoted, client: auto, agent: auto, upstream: \"{agent}\", auth: none, on_disconnect: continue for 5m}}
  - {{name: closed, path: /closed, client: ag-ui, agent: ag-ui, upstream: \"{agent}\", auth: web}}
"
    )
}

#[test]
fn promtool_detects_invalid_expositions() {
    let (good, printed) = check_exposition("# HELP things Things.\n# TYPE things counter\nthings 1\n");
    assert!(!good && printed.contains("_total"), "{printed}");
    let (good, printed) = check_exposition("what is this\n");
    assert!(!good, "{printed}");
}

/// The lints pass, with a counted series of every kind, and the exposition matches the catalogue.
#[tokio::test]
async fn exposes_valid_metrics_that_match_the_catalogue() {
    let agent = Agent::with_script(vec![Step::Read, write(HEAD.to_owned() + &complete_run())]);
    let redis = super::support::redis::Redis::start().await;
    let file = TempFile::new(&full_config(&agent.url(), redis.port()));
    let gateway = Gateway::start_with_config(file.path(), &[]).await;
    for path in ["/run", "/quoted", "/closed", "/nowhere"] {
        post_run(gateway.data, path).await;
    }
    let allowed = r#"diglot_ratelimit_total{decision="allowed",policy="few"}"#;
    gateway.wait_for_metric(allowed, 1.0).await;
    gateway.wait_for_metric(r#"diglot_streams_total{outcome="finished",route="run"}"#, 1.0).await;
    let answer = gateway.get_status("/metrics").await;
    let (good, printed) = check_exposition(answer.text());
    assert!(good && printed.is_empty(), "{printed}");

    let mut seen = BTreeSet::new();
    for (name, labels, _) in series(answer.text()) {
        let own = |metric: &&diglot::telemetry::metric::MetricSpec| match metric.kind {
            MetricKind::Histogram => {
                ["_bucket", "_sum", "_count"].iter().any(|part| name.strip_suffix(part) == Some(metric.name))
            }
            MetricKind::Counter | MetricKind::Gauge => metric.name == name,
        };
        let metric = CATALOGUE.iter().find(own).unwrap_or_else(|| panic!("{name} is in no row"));
        seen.insert(metric.name);
        let kind = format!("# HELP {0} {1}\n# TYPE {0} {2}\n", metric.name, metric.help, metric.kind.as_str());
        assert!(answer.text().contains(&kind), "{kind}");
        let labels: Vec<_> = labels.into_iter().filter(|(label, _)| *label != "le").collect();
        assert_eq!(labels.len(), metric.labels.len(), "{name} {labels:?}");
        for (label, value) in labels {
            let row = metric.label(label).unwrap_or_else(|| panic!("{name}: {label}"));
            assert!(row.closed_values().is_none_or(|all| all.contains(&value)), "{name}: {label}={value}");
        }
    }
    let missing: Vec<_> = CATALOGUE.iter().map(|metric| metric.name).filter(|name| !seen.contains(name)).collect();
    // There are no issuers and certificates here.
    assert!(missing.iter().all(|name| name.contains("_jwks_") || name.contains("_tls_")), "{missing:?}");
    assert!(answer.text().contains(r#"diglot_streams_active{route="quoted \"\\ name"} 0"#), "{}", answer.text());
}

/// The counters match the bytes on the wire, by dialect and direction.
#[tokio::test]
async fn counts_events_as_prometheus_sums_them() {
    let mut process = Process::start(diglot().args(["mock-agent", "--dialect", "hai"]), true);
    let line = process.line().await.expect("the agent prints its address");
    let url = line.rsplit(' ').next().expect("a word").to_owned();
    let gateway = Gateway::start(Setup { upstreams: &[url], ..Setup::default() }).await;
    let prometheus = Prometheus::start_scraping(&[gateway.status], &[]).await;
    let body = INPUT.replace(r#""forwardedProps":{}"#, r#""forwardedProps":{"diglot":{"events":40}}"#);
    let mut received = BTreeMap::<String, f64>::new();
    for runs in 1..=2 {
        let answer = send_request(gateway.data, post("/from-hai", "", &body)).await;
        let answered = events(answer.text());
        types(&answered).into_iter().for_each(|kind| *received.entry(kind.to_owned()).or_default() += 1.0);
        gateway.wait_for_metric(r#"diglot_streams_total{outcome="finished",route="from-hai"}"#, f64::from(runs)).await;
        prometheus.wait_for_scrape().await;
    }
    let counted = prometheus.query(r#"diglot_events_total{dialect="ag-ui",direction="to_client"}"#).await;
    let counted: BTreeMap<_, _> = counted.into_iter().map(|(labels, count)| (labels["type"].clone(), count)).collect();
    assert_eq!(counted, received);
    // Each event of this agent is one of its client, and no other: forty pieces and what is around them, twice.
    let sums = "sum by (dialect, direction) (diglot_events_total)";
    let all: f64 = received.values().sum();
    assert!(all >= 80.0, "{received:?}");
    let of = |samples: Vec<(BTreeMap<String, String>, f64)>| -> BTreeMap<_, _> {
        samples.into_iter().map(|(labels, v)| ((labels["direction"].clone(), labels["dialect"].clone()), v)).collect()
    };
    let summed = of(prometheus.query(sums).await);
    let key = |direction: &str, dialect: &str| (direction.to_owned(), dialect.to_owned());
    assert_eq!(summed.keys().collect::<Vec<_>>(), [&key("from_agent", "hai"), &key("to_client", "ag-ui")]);
    assert_eq!(summed[&key("to_client", "ag-ui")], all);
    let rates = "sum by (dialect, direction) (rate(diglot_events_total[1m])) > 0";
    eventually("rates", async || (of(prometheus.query(rates).await).len() == 2).then_some(())).await;
    assert_eq!(prometheus.query(r#"sum(diglot_streams_total{job="diglot"})"#).await[0].1, 2.0);
}

/// Each duration is observed once, and is not longer than the test.
#[tokio::test]
async fn records_each_duration_once() {
    let head = HEAD.to_owned();
    let agent = Agent::with_script(vec![
        Step::Read,
        write(head + STARTED + OPENED),
        Step::Pause,
        write(CONTENT),
        Step::Pause,
        write([CLOSED, FINISHED].concat()),
    ]);
    let gateway = Gateway::start_for(&agent).await;
    let began = std::time::Instant::now();
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "", INPUT)).await;
    client.read_head().await;
    client.read_until("TEXT_MESSAGE_START").await;
    agent.resume();
    client.read_until("TEXT_MESSAGE_CONTENT").await;
    agent.resume();
    client.read_until("RUN_FINISHED").await;
    gateway.wait_for_metric(r#"diglot_streams_total{outcome="finished",route="run"}"#, 1.0).await;
    let text = gateway.get_status("/metrics").await.text().to_owned();
    let took = began.elapsed().as_secs_f64();
    let all = series(&text);
    let value = |name: &str, labels: &[(&str, &str)]| {
        let found = all.iter().find(|(own, with, _)| *own == name && with == labels);
        found.unwrap_or_else(|| panic!("no {name} {labels:?} in\n{text}")).2
    };
    let route = [("route", "run")];
    for (name, labels, at_least, at_most) in [
        ("diglot_request_headers_seconds", &route[..], 1.0, 1.0),
        ("diglot_stream_first_event_seconds", &route[..], 1.0, 1.0),
        // One write may arrive in pieces.
        ("diglot_stream_event_gap_seconds", &route[..], 2.0, 4.0),
        ("diglot_stream_duration_seconds", &[("outcome", "finished"), ("route", "run")][..], 1.0, 1.0),
        ("diglot_translate_seconds", &[("agent", "ag-ui"), ("client", "ag-ui")][..], 3.0, 6.0),
    ] {
        let (count, sum) = (value(&format!("{name}_count"), labels), value(&format!("{name}_sum"), labels));
        assert!((at_least..=at_most).contains(&count), "{name}: {count}");
        assert!(sum > 0.0 && sum <= took, "{name}: {sum} of {took}");
        let last = [labels, &[("le", "+Inf")]].concat();
        assert_eq!(value(&format!("{name}_bucket"), &last), count, "{name}");
    }
    // A client that was kept waiting by a test is no client that waited for a translation.
    assert!(value("diglot_translate_seconds_sum", &[("agent", "ag-ui"), ("client", "ag-ui")]) < took / 2.0);
}

/// Text of clients and agents makes no label, wherever it is, and no new series after the first.
#[tokio::test]
async fn bounds_series_whatever_clients_and_agents_send() {
    let hostile = |number: usize| {
        let evil = format!("evil{number}");
        let odd = format!("data: {{\"type\":\"{evil}\",\"x\":1}}\n\ndata: {{\"type\":\"EVIL_{number}\\n\\\"\"}}\n\n");
        let tool = format!(
            "data: {{\"type\":\"TOOL_CALL_START\",\"toolCallId\":\"{evil}\",\"toolCallName\":\"{evil}\"}}\n\ndata: {{\"type\":\"TOOL_CALL_END\",\"toolCallId\":\"{evil}\"}}\n\n"
        );
        let step = format!("data: {{\"type\":\"STEP_STARTED\",\"stepName\":\"{evil}\"}}\n\n");
        HEAD.to_owned() + STARTED + &odd + &tool + &step + "data: evil\n\n" + FINISHED
    };
    let mut agent = Agent::with_script(vec![Step::Read, write(hostile(0))]);
    let redis = super::support::redis::Redis::start().await;
    let file = TempFile::new(&full_config(&agent.url(), redis.port()));
    let gateway = Gateway::start_with_config(file.path(), &[]).await;
    let assault = async |number: usize| {
        let evil = format!("evil{number}");
        let body = INPUT.replace("t1", &evil).replace("r1", &evil);
        let more =
            format!("X-Tenant: {evil}\r\nUser-Agent: {evil}\r\nX-Request-Id: {evil}\r\nOrigin: http://{evil}\r\n");
        let key = "X-Api-Key: a-key-of-the-test\r\n";
        for request in [
            post("/run", "", &body),
            post("/quoted", "", &body),
            post("/closed", key, &body),
            post("/run", &more, &body),
            post("/closed", &format!("X-Api-Key: {evil}\r\n"), &body),
            post(&format!("/{evil}"), "", &body),
            post(&format!("/run?{evil}={evil}"), "", &body.replace("messages", &evil)),
            post("/run", "", INPUT).replace("POST", &format!("EVIL{number}")),
            post("/run", "", INPUT).replace("POST", "post"),
            post("/run", "", INPUT).replace("Host: gateway", &format!("Host: {evil} {evil}")),
            post("/run", "", INPUT).replace("Host: gateway\r\n", ""),
            format!("{evil} is no HTTP\r\n\r\n"),
            post("/run", &format!("X-Large: {}\r\n", evil.repeat(20_000)), INPUT),
            format!("OPTIONS /run HTTP/1.1\r\nHost: {evil}\r\nConnection: close\r\n\r\n"),
            format!("GET /quoted/runs/{evil}/events HTTP/1.1\r\nHost: {evil}\r\nConnection: close\r\n\r\n"),
        ] {
            send_request(gateway.data, request).await;
        }
    };
    let names = async || {
        let text = gateway.get_status("/metrics").await.text().to_owned();
        assert!(!text.to_lowercase().contains("evil"), "{text}");
        assert_eq!(check_exposition(&text), (true, String::new()));
        let all = series(&text);
        all.iter().map(|(name, labels, _)| format!("{name} {labels:?}")).collect::<BTreeSet<_>>()
    };
    assault(0).await;
    let active = async || {
        ["run", "quoted \\\"\\\\ name", "closed"].map(|route| format!("diglot_streams_active{{route=\"{route}\"}}"))
    };
    for route in active().await {
        gateway.wait_for_metric(&route, 0.0).await;
    }
    let before = names().await;
    for number in 1..4 {
        assault(number).await;
    }
    for route in active().await {
        gateway.wait_for_metric(&route, 0.0).await;
    }
    assert_eq!(names().await.difference(&before).collect::<Vec<_>>(), Vec::<&String>::new());
    let request = agent.next_request().await;
    assert!(request.json()["threadId"].as_str().is_some_and(|id| id.starts_with("evil")), "{}", request.head);
    let refusals = |reason| format!(r#"diglot_refusals_total{{reason="{reason}",route="run"}}"#);
    assert_eq!(gateway.metric(&refusals("origin_not_allowed")).await, 4.0);
    // Two invalid Host fields, and a body without messages.
    assert_eq!(gateway.metric(&refusals("invalid_request")).await, 12.0);
    let refused = |reason| {
        format!(r#"diglot_connections_refused_total{{listener="127.0.0.1:0",plane="data",reason="{reason}"}}"#)
    };
    // Counted when the connection has ended, which may be after its client has.
    gateway.wait_for_metric(&refused("not_http"), 4.0).await;
    gateway.wait_for_metric(&refused("head_too_large"), 4.0).await;
    let odd = r#"diglot_requests_total{code="405",method="OTHER",route="run"}"#;
    assert_eq!(gateway.metric(odd).await, 8.0);
}

/// The series of a route that is configured no more last until its last run has ended; those of a route that is configured
/// otherwise go on.
#[tokio::test]
async fn removes_the_series_of_a_removed_route() {
    let agent = Agent::with_script(vec![Step::Read, write(HEAD.to_owned() + STARTED), Step::Pause, write(FINISHED)]);
    let yaml = |routes: &[(&str, &str)]| {
        let route = |(name, more): &(&str, &str)| {
            format!(
                "  - {{name: {name}, path: /{name}, client: ag-ui, agent: ag-ui, upstream: \"{}\"{more}}}\n",
                agent.url()
            )
        };
        let routes: String = routes.iter().map(route).collect();
        format!("listeners: {{data: 127.0.0.1:0, status: 127.0.0.1:0}}\ndrain_grace: 0s\nroutes:\n{routes}")
    };
    let file = TempFile::new(&yaml(&[("stays", ""), ("goes", "")]));
    let mut gateway = Gateway::start_with_config(file.path(), &[]).await;
    agent.resume();
    assert_succeeded(&post_run(gateway.data, "/stays").await, &["RUN_STARTED", "RUN_FINISHED"]);
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/goes", "", INPUT)).await;
    client.read_head().await;
    client.read_until("RUN_STARTED").await;
    std::fs::write(file.path(), yaml(&[("stays", ", timeouts: {idle: 50s}")])).expect("the file");
    gateway.process.signal("HUP");
    gateway.next_log("configuration reloaded").await;
    let started = r#"diglot_events_total{dialect="ag-ui",direction="to_client",route="stays",type="RUN_STARTED"}"#;
    assert_eq!(gateway.metric(started).await, 1.0);
    // It is open yet.
    assert_eq!(gateway.metric(r#"diglot_streams_active{route="goes"}"#).await, 1.0);
    agent.resume();
    client.read_until("RUN_FINISHED").await;
    drop(client);
    eventually("that nothing is left of it", async || {
        let text = gateway.get_status("/metrics").await.text().to_owned();
        (!text.contains("goes") && text.contains(started)).then_some(())
    })
    .await;
}

/// A run with content of each kind that some client's dialect has no form for.
const HIDDEN_CONTENT: &[&str] = &[
    r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r1"}"#,
    r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m1","role":"user","content":[{"type":"text","text":"hi"},{"type":"image","source":{"type":"url","value":"u"}}]},{"id":"k0","role":"reasoning","content":"x"}]}"#,
    r#"{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"PLAN","content":{}}"#,
    r#"{"type":"REASONING_START","messageId":"k"}"#,
    r#"{"type":"REASONING_MESSAGE_START","messageId":"k","role":"reasoning"}"#,
    r#"{"type":"REASONING_MESSAGE_CONTENT","messageId":"k","delta":"x"}"#,
    r#"{"type":"REASONING_MESSAGE_END","messageId":"k"}"#,
    r#"{"type":"REASONING_END","messageId":"k"}"#,
    r#"{"type":"SUBAGENT_STARTED","subagentRunId":"s","name":"x"}"#,
    r#"{"type":"SUBAGENT_FINISHED","subagentRunId":"s"}"#,
    r#"{"type":"NOTICE","text":"x"}"#,
    r#"{"type":"TEXT_MESSAGE_START","messageId":"m2","role":"assistant"}"#,
    r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m2","delta":"x"}"#,
    r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m1","role":"user","content":"hi"}]}"#,
    r#"{"type":"TEXT_MESSAGE_END","messageId":"m2"}"#,
    r#"{"type":"RUN_FINISHED","threadId":"t1","runId":"r1"}"#,
];

/// Returns the last line of `diglot translate --explain`: its counts of losses, such as `stray_boundary 1`.
fn explained_losses(client: &str, stream: &str) -> BTreeMap<String, f64> {
    let file = TempFile::new(stream);
    let arguments = ["translate", "--from", "ag-ui", "--to", client, "--explain"];
    let output = diglot().args(arguments).arg(file.path()).output().expect("the binary runs");
    let printed = String::from_utf8(output.stderr).expect("text");
    let (_, losses) = printed.trim_end().rsplit_once("; lost: ").unwrap_or_else(|| panic!("{printed}"));
    let counts = losses.split(", ").filter_map(|loss| loss.split_once(' '));
    counts.map(|(label, count)| (label.to_owned(), count.parse().expect("a number"))).collect()
}

/// Losses are counted during the run as `--explain` counts them, for every client dialect.
#[tokio::test]
async fn counts_losses_of_every_client_dialect_as_translate_does() {
    let stream: String = HIDDEN_CONTENT.iter().map(|event| format!("data: {event}\n\n")).collect();
    let agent = Agent::with_response([HEAD, &stream].concat());
    let clients = ["ag-ui", "ag-ui-0", "hai", "ag-ui-snake", "cloudbase", "social-app"];
    let route = |client: &str| {
        format!(
            "  - {{name: {client}, path: /{client}, client: {client}, agent: ag-ui, upstream: \"{}\"}}\n",
            agent.url()
        )
    };
    let routes = format!("routes:\n{}", clients.map(route).concat());
    let mut gateway = Gateway::start(Setup { routes: &routes, ..Setup::default() }).await;
    for client in clients {
        let answer = post_run(gateway.data, &format!("/{client}")).await;
        assert!(answer.text().contains("RUN_FINISHED"), "{client}: {}", answer.text());
        let explained = explained_losses(client, &stream);
        assert!(explained.len() > 1, "{client}: {explained:?}");
        let line = gateway.next_log("run ended").await;
        let names = line["loss_names"].as_str().expect("names").split(", ").map(str::to_owned).collect();
        assert_eq!(explained.keys().cloned().collect::<BTreeSet<_>>(), names, "{client}");
        assert_eq!(line["losses"].as_f64(), Some(explained.values().sum()), "{client}");
        for (label, count) in explained {
            let series = format!("diglot_losses_total{{reason=\"{label}\",route=\"{client}\"}}");
            gateway.wait_for_metric(&series, count).await;
        }
    }
}
