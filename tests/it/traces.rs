//! Traces: trace context for the agent and the log, and spans for a collector.

use super::support::agent::{Agent, Request, Step, refusing_address, write};
use super::support::client::{Client, INPUT, post, post_run, send_request};
use super::support::collector::{Collector, CollectorMode};
use super::support::gateway::{Gateway, Setup, TempFile, diglot};
use super::support::sse::{
    COMPLETE_RUN, HEAD, RUN_BEGINNING, assert_failed, assert_refused, assert_succeeded, complete_run, run_beginning,
};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

fn start_agent() -> Agent {
    Agent::with_response(HEAD.to_owned() + &complete_run())
}

/// Returns the four parts of the only `traceparent` of a request.
fn traceparent(request: &Request) -> [String; 4] {
    let lines: Vec<_> = request.headers().into_iter().filter(|(name, _)| *name == "traceparent").collect();
    let [(_, line)] = lines[..] else { panic!("one traceparent in {}", request.head) };
    let parts: Vec<String> = line.split('-').map(str::to_owned).collect();
    parts.try_into().unwrap_or_else(|_| panic!("{line}"))
}

/// W3C Trace Context, over the wire; the rows are those of the W3C's own tests, and ours for HTTP.
#[tokio::test]
async fn propagates_the_trace_with_its_own_span() {
    let mut agent = start_agent();
    let mut gateway = Gateway::start_for(&agent).await;
    let one = format!("{TRACE}-{SPAN}");
    let state = "tracestate: rojo=1,congo=2";
    // The received field, whether its trace continues, the flags for the agent, and its tracestate.
    let rows = [
        (String::new(), false, "01", None),
        (format!("traceparent: 00-{one}-01"), true, "01", None),
        (format!("TraceParent: 00-{one}-00\r\n{state}"), true, "00", Some("rojo=1,congo=2")),
        (format!("traceparent: 00-{one}-ff\r\n{state}\r\ntracestate: baz=3"), true, "03", Some("rojo=1,congo=2,baz=3")),
        (format!("traceparent: cc-{one}-01-what-the-future-will-be-like"), true, "01", None),
        (format!("traceparent: 00-{one}-01-what-the-future-will-be-like\r\n{state}"), false, "01", None),
        (format!("traceparent: cc-{one}-01.what-the-future-will-be-like"), false, "01", None),
        (format!("traceparent: ff-{one}-01"), false, "01", None),
        (format!("traceparent: 00-{}-01", one.to_uppercase()), false, "01", None),
        (format!("traceparent: 00-{}-{SPAN}-01\r\n{state}", "0".repeat(32)), false, "01", None),
        (format!("traceparent: 00-{TRACE}-{}-00\r\n{state}", "0".repeat(16)), false, "01", None),
        (format!("traceparent: 00-{one}-01\r\ntraceparent: 00-{one}-01\r\n{state}"), false, "01", None),
        (format!("traceparent: 00-{one}-01\r\nConnection: traceparent\r\n{state}"), false, "01", None),
        (format!("traceparent: 00-{one}-01\r\n{state}\r\nConnection: tracestate"), true, "01", None),
        (format!("traceparent: 00-{one}-01\r\ntracestate: foo=1,foo=2"), true, "01", None),
        (state.to_owned(), false, "01", None),
    ];
    let mut seen = vec![SPAN.to_owned()];
    for (fields, goes_on, flags, state) in rows {
        let more = if fields.is_empty() { String::new() } else { format!("{fields}\r\n") };
        assert_succeeded(&send_request(gateway.data, post("/run", &more, INPUT)).await, COMPLETE_RUN);
        let request = agent.next_request().await;
        let [version, trace_id, parent, own] = traceparent(&request);
        assert_eq!((&*version, trace_id == TRACE, &*own), ("00", goes_on, flags), "{fields}");
        assert!(trace_id.len() == 32 && parent.len() == 16 && parent != "0".repeat(16), "{trace_id} {parent}");
        assert!(!seen.contains(&parent), "a span of each request: {parent}");
        seen.push(parent);
        assert_eq!(request.header("tracestate"), state, "{fields}");
        assert_eq!(gateway.next_log("run ended").await["trace_id"], trace_id, "{fields}");
    }
}

#[tokio::test]
async fn logs_the_trace_of_a_refusal() {
    let mut gateway = Gateway::start_for(&start_agent()).await;
    let more = format!("traceparent: 00-{TRACE}-{SPAN}-01\r\nX-Request-Id: q1\r\n");
    let answer = send_request(gateway.data, post("/run", &more, "{")).await;
    assert_refused(&answer, 400, "invalid_request");
    // There is no standard for trace fields of responses.
    assert_eq!((answer.header("traceparent"), answer.header("traceresponse")), (None, None));
    let line = gateway.next_log("request refused").await;
    assert_eq!((&line["trace_id"], &line["request_id"]), (&TRACE.into(), &"q1".into()));
    assert_refused(&send_request(gateway.data, post("/none", &more, INPUT)).await, 404, "route_not_found");
    assert_eq!(gateway.next_log("request refused").await["trace_id"], TRACE);
}

/// A gateway that sends its spans to a collector at once.
async fn start_traced_gateway(agents: &[String], collector: &Collector, env: &[(&str, &str)]) -> Gateway {
    let url = collector.url();
    let own = [("OTEL_EXPORTER_OTLP_ENDPOINT", &*url), ("OTEL_BSP_SCHEDULE_DELAY", "0")];
    Gateway::start(Setup { upstreams: agents, env: &[&own, env].concat(), ..Setup::default() }).await
}

#[tokio::test]
async fn exports_a_span_for_a_run_and_one_for_its_agent() {
    let (mut agent, mut collector) = (start_agent(), Collector::start(CollectorMode::Accept));
    let env = [
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=acme"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test"),
    ];
    let gateway = start_traced_gateway(&[agent.url()], &collector, &env).await;
    let more = format!("traceparent: 00-{TRACE}-{SPAN}-01\r\ntracestate: rojo=1\r\nX-Request-Id: q1\r\n");
    assert_succeeded(&send_request(gateway.data, post("/run", &more, INPUT)).await, COMPLETE_RUN);
    let request = agent.next_request().await;
    let [_, trace_id, parent, flags] = traceparent(&request);
    assert_eq!((&*trace_id, &*flags, request.header("tracestate")), (TRACE, "01", Some("rojo=1")));

    let spans = collector.spans(2).await;
    let (server, client) = match spans[0].is_server() {
        true => (&spans[0], &spans[1]),
        false => (&spans[1], &spans[0]),
    };
    assert_eq!((server.trace_id(), server.parent(), &*server.message.name), (TRACE.into(), SPAN.into(), "POST /run"));
    // "agent's traceparent = client span id"
    assert_eq!((client.trace_id(), client.id(), client.parent()), (TRACE.into(), parent, server.id()));
    assert_eq!((&*client.message.name, client.is_server(), &*server.message.trace_state), ("POST", false, "rojo=1"));
    let address = agent.address().to_string();
    let port = agent.address().port().to_string();
    for (span, name, value) in [
        (server, "http.request.method", "POST"),
        (server, "http.route", "/run"),
        (server, "url.path", "/run"),
        (server, "url.scheme", "http"),
        (server, "http.response.status_code", "200"),
        (server, "client.address", "127.0.0.1"),
        (server, "gen_ai.operation.name", "invoke_agent"),
        (server, "gen_ai.conversation.id", "t1"),
        (server, "diglot.run_id", "r1"),
        (server, "diglot.request_id", "q1"),
        (server, "diglot.route", "run"),
        (server, "diglot.outcome", "finished"),
        (server, "diglot.upstream", &format!("http://{address}")),
        (server, "diglot.events_out", "5"),
        (server, "error.type", ""),
        (client, "http.request.method", "POST"),
        (client, "http.response.status_code", "200"),
        (client, "server.address", "127.0.0.1"),
        (client, "server.port", &*port),
        // Without its query, which may hold a secret of the operator's.
        (client, "url.full", &format!("http://{address}/agent")),
        (client, "error.type", ""),
    ] {
        assert_eq!(span.attribute(name), value, "{name} in {span:?}");
    }
    assert_eq!((server.status(), client.status()), (0, 0));
    let events = server.events();
    let [("first event", first), ("closed", closed)] = events[..] else { panic!("{events:?}") };
    let times = [server.message.start_time_unix_nano, first, closed, server.message.end_time_unix_nano];
    assert!(times.is_sorted(), "{times:?}");
    let times =
        [server.message.start_time_unix_nano, client.message.start_time_unix_nano, client.message.end_time_unix_nano];
    assert!(times.is_sorted(), "{times:?}");
    for (name, value) in [
        ("service.name", "diglot"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("deployment.environment.name", "test"),
    ] {
        assert_eq!(server.sender.get(name).map(String::as_str), Some(value), "{:?}", server.sender);
    }
    let head = collector.next_head().await;
    assert!(head.starts_with("post /v1/traces http/1.1"), "{head}");
    assert!(head.contains("\r\nx-tenant: acme") && head.contains("\r\ncontent-type: application/x-protobuf"), "{head}");
    gateway.wait_for_metric("diglot_spans_exported_total", 2.0).await;
}

#[tokio::test]
async fn records_errors_in_the_span_where_they_happen() {
    let (_socket, nowhere) = refusing_address();
    let broken = Agent::with_response(HEAD.to_owned() + &run_beginning());
    let mut collector = Collector::start(CollectorMode::Accept);
    // The first of two is not there; the other one breaks off.
    let gateway = start_traced_gateway(&[nowhere, broken.url()], &collector, &[]).await;
    assert_failed(&post_run(gateway.data, "/run").await, "upstream_truncated", RUN_BEGINNING);
    let mut spans = collector.spans(2).await;
    // The order of the batches is not fixed.
    if !spans.iter().any(|span| span.is_server()) {
        spans.push(collector.next_span().await);
    }
    let server = spans.iter().find(|span| span.is_server()).expect("a request");
    assert_eq!((server.status(), server.attribute("error.type")), (2, "upstream_truncated"));
    assert_eq!(
        (server.attribute("diglot.outcome"), server.attribute("http.response.status_code")),
        ("upstream_error", "200")
    );
    let of_agents: Vec<_> = spans.iter().filter(|span| !span.is_server()).collect();
    assert!(of_agents.iter().all(|span| span.status() == 2 && span.parent() == server.id()), "{of_agents:?}");
    let last = of_agents.last().expect("a call");
    assert_eq!(last.attribute("error.type"), "upstream_truncated");

    // A refusal of ours is no fault of the gateway; a request that is not for a run is a span as well.
    assert_refused(&send_request(gateway.data, post("/run", "", "{")).await, 400, "invalid_request");
    let span = collector.next_span().await;
    assert_eq!((span.is_server(), span.status(), span.attribute("error.type")), (true, 0, "invalid_request"));
    assert_eq!((span.attribute("http.response.status_code"), &*span.message.name), ("400", "POST /run"));
    assert_refused(&send_request(gateway.data, post("/secret-path", "", INPUT)).await, 404, "route_not_found");
    let span = collector.next_span().await;
    assert_eq!(
        (&*span.message.name, span.attribute("error.type"), span.attribute("url.path")),
        ("POST", "route_not_found", "")
    );
    assert_eq!(span.parent(), "");
}

/// A client that leaves ends the call as well, and no part of that is a fault.
#[tokio::test]
async fn marks_the_agent_span_of_a_departed_client_as_cancelled() {
    let mut agent = Agent::with_script(vec![Step::Read, write(HEAD.to_owned() + &run_beginning()), Step::WaitForClose]);
    let mut collector = Collector::start(CollectorMode::Accept);
    let gateway = start_traced_gateway(&[agent.url()], &collector, &[]).await;
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "", INPUT)).await;
    client.read_until("RUN_STARTED").await;
    drop(client);
    agent.next_request().await;
    agent.wait_until_closed().await;
    let spans = collector.spans(2).await;
    let [call, server] =
        [false, true].map(|own| spans.iter().find(|span| span.is_server() == own).expect("one of each"));
    assert_eq!((call.status(), call.attribute("error.type")), (0, "cancelled"));
    assert_eq!((server.status(), server.attribute("diglot.outcome")), (0, "client_gone"));
}

/// A preflight is answered before anything that refuses, and its span has the answer all the same.
#[tokio::test]
async fn exports_a_span_for_a_preflight() {
    let (agent, mut collector) = (start_agent(), Collector::start(CollectorMode::Accept));
    let url = collector.url();
    let routes = format!(
        "routes: [{{name: run, path: /run, client: ag-ui, agent: ag-ui, upstream: \"{}\", cors: {{origins: \"*\"}}}}]\n",
        agent.url()
    );
    let env = [("OTEL_EXPORTER_OTLP_ENDPOINT", &*url), ("OTEL_BSP_SCHEDULE_DELAY", "0")];
    let gateway = Gateway::start(Setup { routes: &routes, env: &env, ..Setup::default() }).await;
    let request = "OPTIONS /run HTTP/1.1\r\nHost: gateway\r\nOrigin: https://app.example\r\nAccess-Control-Request-Method: POST\r\nConnection: close\r\n\r\n";
    assert_eq!(send_request(gateway.data, request.to_owned()).await.status, 204);
    let span = collector.next_span().await;
    let shown = (span.is_server(), &*span.message.name, span.attribute("http.response.status_code"));
    assert_eq!(shown, (true, "OPTIONS /run", "204"));
}

#[tokio::test]
async fn does_not_export_unsampled_traces() {
    let (mut agent, mut collector) = (start_agent(), Collector::start(CollectorMode::Accept));
    let env = [("OTEL_TRACES_SAMPLER", "parentbased_always_off"), ("OTEL_SERVICE_NAME", "edge")];
    let gateway = start_traced_gateway(&[agent.url()], &collector, &env).await;
    // By its parent, or by the sampler if it has no parent.
    for (fields, flags) in [(format!("traceparent: 00-{TRACE}-{SPAN}-00\r\n"), "00"), (String::new(), "00")] {
        assert_succeeded(&send_request(gateway.data, post("/run", &fields, INPUT)).await, COMPLETE_RUN);
        assert_eq!(traceparent(&agent.next_request().await)[3], flags, "{fields}");
    }
    let more = format!("traceparent: 00-{TRACE}-{SPAN}-01\r\n");
    assert_succeeded(&send_request(gateway.data, post("/run", &more, INPUT)).await, COMPLETE_RUN);
    assert_eq!(traceparent(&agent.next_request().await)[3], "01");
    let spans = collector.spans(2).await;
    assert!(spans.iter().all(|span| span.trace_id() == TRACE && span.sender["service.name"] == "edge"), "{spans:?}");
    assert_eq!(collector.unread_spans(), 0);
    gateway.wait_for_metric("diglot_spans_exported_total", 2.0).await;
}

#[tokio::test]
async fn serves_runs_without_a_collector_and_counts_dropped_spans() {
    let (_socket, nowhere) = refusing_address();
    for (mood, timeout) in
        [(None, "10000"), (Some(CollectorMode::Reject(400)), "10000"), (Some(CollectorMode::Silent), "50")]
    {
        let collector = mood.map(Collector::start);
        let url = collector.as_ref().map_or(nowhere.clone(), Collector::url);
        let env = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &*url),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", if mood.is_none() { "50" } else { timeout }),
            ("OTEL_BSP_SCHEDULE_DELAY", "0"),
        ];
        let agent = start_agent();
        let mut gateway = Gateway::start(Setup { upstreams: &[agent.url()], env: &env, ..Setup::default() }).await;
        for _ in 0..3 {
            assert_succeeded(&post_run(gateway.data, "/run").await, COMPLETE_RUN);
        }
        let line = gateway.next_log("the trace collector does not accept spans; they are dropped").await;
        assert!(line["cause"].as_str().is_some_and(|cause| !cause.is_empty()), "{mood:?} {line}");
        gateway.wait_for_metric("diglot_spans_dropped_total{reason=\"not_taken\"}", 6.0).await;
        gateway.process.signal("TERM");
        assert!(gateway.process.exit().await.success(), "{mood:?}");
    }
}

/// One that takes its time has its queue filled, and what finds no room is counted; the end does not wait for it.
#[tokio::test]
async fn drops_spans_when_the_queue_is_full() {
    let collector = Collector::start(CollectorMode::Silent);
    let (agent, env) = (start_agent(), [("OTEL_BSP_MAX_QUEUE_SIZE", "2"), ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2")]);
    let mut gateway = start_traced_gateway(&[agent.url()], &collector, &env).await;
    for _ in 0..4 {
        assert_succeeded(&post_run(gateway.data, "/run").await, COMPLETE_RUN);
    }
    // One batch is on its way at the most, and two wait.
    super::support::eventually("dropped spans", async || {
        (gateway.metric("diglot_spans_dropped_total{reason=\"queue_full\"}").await >= 4.0).then_some(())
    })
    .await;
    gateway.process.signal("TERM");
    assert!(gateway.process.exit().await.success());
}

#[tokio::test]
async fn flushes_spans_at_exit() {
    let (agent, mut collector) = (start_agent(), Collector::start(CollectorMode::Accept));
    let mut gateway = start_traced_gateway(&[agent.url()], &collector, &[("OTEL_BSP_SCHEDULE_DELAY", "3600000")]).await;
    assert_succeeded(&post_run(gateway.data, "/run").await, COMPLETE_RUN);
    gateway.process.signal("TERM");
    assert!(gateway.process.exit().await.success());
    assert_eq!(collector.spans(2).await.len(), 2);
}

#[test]
fn refuses_to_start_with_an_invalid_otel_variable() {
    let file = TempFile::new("routes: [{path: /a, client: ag-ui, agent: hai, upstream: 'http://127.0.0.1:1/'}]\n");
    let env = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")];
    let output = diglot().envs(env).arg("serve").arg("--config").arg(file.path()).output().expect("it runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(78), "{stderr}");
    assert!(
        stderr.contains("OTEL_EXPORTER_OTLP_PROTOCOL is `grpc`") && stderr.contains("write http/protobuf"),
        "{stderr}"
    );
}
