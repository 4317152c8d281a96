//! Limits on the data that an agent can make the gateway buffer; a run that exceeds them ends, and buffered content is
//! sent.

use super::golden::side;
use super::support::agent::{Agent, Step, write};
use super::support::client::{Client, INPUT, post, post_run};
use super::support::eventually;
use super::support::gateway::{Gateway, Setup, TempFile};
use super::support::sse::{CLOSED, FINISHED, HEAD, OPENED, STARTED, assert_refused};
use diglot::codec::sse::SseLimits;
use diglot::config::load;
use diglot::dialect::{PeerDialect, PeerVersion};
use diglot::event::run::RunEnding;
use diglot::translate::{RunIds, Stream, StreamError};

/// Bytes of one event of a flood.
const PIECE: usize = 64 << 10;

/// More events than any limit admits: 256 MiB.
const FLOOD: usize = 4096;

const RUN: &str = r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#;

fn oldest_version() -> PeerDialect {
    PeerDialect { peer_version: PeerVersion::V0_0_35, ..side("ag-ui-0") }
}

/// Returns the number of events that pass before the run ends, and the output. `@` is the number of the event, `#`
/// filler.
fn flood_stream(from: PeerDialect, to: PeerDialect, opening: &[&str], event: &str) -> (usize, String) {
    let limits = SseLimits { frame: 1 << 20, ..SseLimits::default() };
    let mut stream = Stream::new(from, to, Some(RunIds::new("t", "r")), limits);
    let mut out = Vec::new();
    for opener in opening {
        stream.push(format!("data: {opener}\n\n").as_bytes(), 0, &mut out).expect("an opening");
    }
    let filler = "x".repeat(PIECE);
    for passed in 0..FLOOD {
        let event = event.replace('@', &passed.to_string()).replace('#', &filler);
        if let Err(fault) = stream.push(format!("data: {event}\n\n").as_bytes(), 0, &mut out) {
            assert!(matches!(fault, StreamError::TooMuchState(_)), "{fault}");
            stream.fail("frame_too_large", "too much waits", 0, &mut out);
            assert_eq!(stream.ending(), Some(RunEnding::Failed));
            return (passed, String::from_utf8(out).expect("text"));
        }
        assert_eq!(stream.ending(), None);
    }
    panic!("{event:.80} went on for ever");
}

#[test]
fn limits_buffered_text_to_one_frame() {
    let (ag_ui, social) = (side("ag-ui"), side("social-app"));
    let text = r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}"#;
    let call = r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}"#;
    let rows: &[(&str, PeerDialect, PeerDialect, &[&str], &str)] = &[
        (
            "text that is gathered",
            ag_ui,
            social,
            &[RUN, text],
            r##"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"@#"}"##,
        ),
        (
            "messages that are gathered",
            ag_ui,
            social,
            &[RUN],
            r##"{"type":"TEXT_MESSAGE_START","messageId":"@#","role":"assistant"}"##,
        ),
        (
            "arguments that are gathered",
            ag_ui,
            social,
            &[RUN, call],
            r##"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"@#"}"##,
        ),
        (
            "calls without an answer, on the way out",
            ag_ui,
            social,
            &[RUN],
            r##"{"type":"TOOL_CALL_START","toolCallId":"@","toolCallName":"#"}"##,
        ),
        (
            "calls without an answer, on the way in",
            social,
            ag_ui,
            &[RUN],
            r##"{"type":"TOOL_CALL_START","threadId":"t","runId":"r","toolCallId":"@","toolCallName":"#"}"##,
        ),
        (
            "a call that waits",
            ag_ui,
            oldest_version(),
            &[RUN, call],
            r##"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"@#"}"##,
        ),
        (
            "messages that pause",
            ag_ui,
            oldest_version(),
            &[RUN],
            r##"{"type":"TEXT_MESSAGE_START","messageId":"@#","role":"assistant"}"##,
        ),
    ];
    for (what, from, to, opening, event) in rows {
        let (passed, output) = flood_stream(*from, *to, opening, event);
        // Each frame has its text once, and some also its id.
        assert!(((1 << 20) / PIECE / 2 - 1..=(1 << 20) / PIECE).contains(&passed), "{what}: {passed}");
        let last = output.trim_end().rsplit("data: ").next().expect("a frame");
        assert!(last.contains("RUN_ERROR") && last.contains("frame_too_large"), "{what}: {last:.200}");
    }
}

/// Values of a run, members of its end, and arguments of a call without a name.
#[test]
fn limits_what_rules_of_a_dialect_file_keep() {
    let many = "\"{pad}\",".repeat(40);
    for (rule, event, expected) in [
        (r#"append: {log: "{pad}"}"#.to_owned(), r##"{"pad":"#"}"##, 7..17),
        (format!("finish: {{result: [{many}]}}"), r##"{"pad":"#"}"##, 0..1),
        (
            r#"emit: {type: TOOL_CALL_CHUNK, key: "{n}", toolCallName: "{name}", delta: "{pad}"}"#.to_owned(),
            r##"{"n":1,"pad":"#"}"##,
            7..17,
        ),
    ] {
        let file =
            TempFile::new(&format!("name: own\nevents:\n  - has: pad\n    {rule}\n  - has: end\n    done: true\n"));
        let config = format!(
            "dialect_files: [{}]\nroutes: [{{path: /a, client: ag-ui, agent: own, upstream: \"http://h/\"}}]\n",
            file.path().display()
        );
        let agent = load::from_str("test.yaml", &config).expect("a valid file").routes[0].agent;
        let (passed, output) = flood_stream(agent, side("ag-ui"), &[], event);
        assert!(expected.contains(&passed), "{rule:.60}: {passed}");
        assert!(output.contains("RUN_ERROR"), "{rule:.60}");
    }
}

#[test]
fn writes_buffered_text_before_the_run_ends() {
    let text = r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}"#;
    let piece = r##"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"[@]#"}"##;
    let (passed, output) = flood_stream(side("ag-ui"), side("social-app"), &[RUN, text], piece);
    for number in 0..=passed {
        assert!(output.contains(&format!("[{number}]")), "{number}");
    }
}

#[test]
fn limits_the_ids_it_remembers() {
    let rows = [
        r##"{"type":"STEP_STARTED","stepName":"@#"}"##,
        r##"{"type":"SUBAGENT_STARTED","subagentRunId":"@#","name":"s"}"##,
        r##"{"type":"TEXT_MESSAGE_CONTENT","messageId":"@#","delta":"never opened"}"##,
        r##"{"type":"TEXT_MESSAGE_CHUNK","messageId":"@#","delta":"x"}"##,
        r##"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":"@#"}"##,
        r##"{"type":"ACTIVITY_SNAPSHOT","messageId":"@#","activityType":"a","content":{}}"##,
    ];
    for event in rows {
        let (passed, _) = flood_stream(side("ag-ui"), side("ag-ui"), &[RUN], event);
        assert!(passed <= (32 << 20) / PIECE, "{event}: {passed}");
    }
}

#[tokio::test]
async fn ends_the_run_when_buffered_text_exceeds_the_limit() {
    let piece = format!(
        "data: {{\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"a1\",\"delta\":\"{}\"}}\n\n",
        "x".repeat(PIECE)
    );
    // The last piece is over the limit, so that the gateway leaves when everything is written.
    let steps = vec![Step::Read, write([HEAD, STARTED, OPENED, &piece.repeat(16)].concat()), Step::WaitForClose];
    let mut agent = Agent::with_script(steps);
    let routes = format!("routes: [{{path: /run, client: social-app, agent: ag-ui, upstream: \"{}\"}}]", agent.url());
    let setup = Setup { top: "limits: {frame: 128KiB}", routes: &routes, ..Setup::default() };
    let gateway = Gateway::start(setup).await;
    let answer = post_run(gateway.data, "/run").await;
    assert_eq!(answer.text().matches(r#""type":"RUN_ERROR""#).count(), 1);
    let last = answer.text().trim_end().rsplit("data: ").next().expect("a frame");
    assert!(last.contains("RUN_ERROR") && last.contains("frame_too_large"), "{last:.200}");
    agent.next_request().await;
    agent.wait_until_closed().await;
}

/// Unfinished events of all agents together use no more than their limit: a run that needs more ends, and small ones continue.
#[tokio::test]
async fn ends_runs_that_hold_too_much_together() {
    let half = Agent::with_script(vec![
        Step::Read,
        write([HEAD, STARTED].concat()),
        write(format!("data: {{\"type\":\"CUSTOM\",\"name\":\"{}", "x".repeat(1 << 20))),
        Step::Pause,
    ]);
    let small = Agent::with_response([HEAD, STARTED, FINISHED].concat());
    let route = |path: &str, agent: &Agent, more: &str| {
        format!("{{name: {path}, path: /{path}, client: ag-ui, agent: ag-ui, upstream: \"{}\"{more}}}", agent.url())
    };
    let late = route("late", &half, ", timeouts: {idle: 3s}");
    let routes = format!("routes: [{}, {late}, {}]", route("half", &half, ""), route("small", &small, ""));
    let setup = Setup { top: "limits: {run_memory: 5MiB}", routes: &routes, ..Setup::default() };
    let gateway = Gateway::start(setup).await;
    let mut clients = Vec::new();
    for _ in 0..2 {
        let mut client = Client::connect(gateway.data).await;
        client.send(post("/half", "", INPUT)).await;
        clients.push(client);
    }
    eventually("two unfinished events", async || {
        (gateway.metric("diglot_run_memory_bytes").await >= f64::from(2 << 20)).then_some(())
    })
    .await;
    let mut refused = 0;
    while refused == 0 {
        let mut client = Client::connect(gateway.data).await;
        client.send(post("/half", "Connection: close\r\n", INPUT)).await;
        let before = gateway.metric("diglot_run_memory_bytes").await;
        eventually("one more unfinished event, or its refusal", async || {
            let ended = gateway.metric(r#"diglot_streams_total{outcome="limited",route="half"}"#).await;
            (ended > 0.0 || gateway.metric("diglot_run_memory_bytes").await > before + f64::from(1 << 20)).then_some(())
        })
        .await;
        if gateway.metric(r#"diglot_streams_total{outcome="limited",route="half"}"#).await > 0.0 {
            let answer = client.read_answer().await;
            assert_eq!(answer.text().matches("run_memory_full").count(), 1, "{}", answer.text());
            refused += 1;
        }
        // The limit, and what one more read adds to each run.
        assert!(gateway.metric("diglot_run_memory_bytes").await <= f64::from(8 << 20));
        clients.push(client);
    }
    assert_eq!(post_run(gateway.data, "/small").await.status, 200);
    // Its agent is not read while the run waits, and so is not idle.
    let late = post_run(gateway.data, "/late").await;
    assert!(late.text().contains("run_memory_full"), "{}", late.text());
    drop(clients);
    gateway.wait_for_metric("diglot_run_memory_bytes", 0.0).await;
}

/// Runs keep the ids of their requests till they end. All of them together use no more than half of the limit and those of one
/// caller a quarter, and runs without room are refused before the agent hears of them.
#[tokio::test]
async fn refuses_runs_that_keep_too_much_of_their_requests() {
    const LIMIT: f64 = 8.0 * 1024.0 * 1024.0;
    let agent = Agent::with_script(vec![Step::Read, write([HEAD, STARTED].concat()), Step::Pause]);
    let route = format!("{{name: run, path: /run, client: ag-ui, agent: ag-ui, upstream: \"{}\"}}", agent.url());
    let top = "limits: {run_memory: 8MiB}\ntrusted_proxies: [127.0.0.1/32]";
    let gateway = Gateway::start(Setup { top, routes: &format!("routes: [{route}]"), ..Setup::default() }).await;
    let filler = "x".repeat(600);
    let messages: Vec<_> =
        (0..1000).map(|at| format!(r#"{{"id":"{at}{filler}","role":"user","content":"x"}}"#)).collect();
    let long = INPUT.replace(r#""messages":["#, &format!(r#""messages":[{},"#, messages.join(",")));
    assert!(long.len() > 600_000, "{INPUT}");
    let start = async |caller: u8, body: &str| {
        let mut client = Client::connect(gateway.data).await;
        client.send(post("/run", &format!("X-Forwarded-For: 192.0.2.{caller}\r\n"), body)).await;
        client
    };
    let mut open = Vec::new();
    // A quarter for each of two callers, and what is left of the half for the third.
    for (caller, fitting) in [(0, 2), (1, 2), (2, 1)] {
        for _ in 0..fitting {
            let mut client = start(caller, &long).await;
            assert_eq!(client.read_head().await.status, 200);
            open.push(client);
        }
        let refused = start(caller, &long).await.read_answer().await;
        assert_refused(&refused, 503, "run_memory_full");
        assert_eq!(refused.header("retry-after"), Some("1"));
    }
    assert_eq!(agent.connection_count(), open.len());
    let used = gateway.metric("diglot_run_memory_bytes").await;
    assert!((5.0 * 600_000.0..LIMIT / 2.0).contains(&used), "{used}");
    // A short conversation starts.
    let mut short = start(9, INPUT).await;
    assert_eq!(short.read_head().await.status, 200);
    drop(open);
    gateway.wait_for_metric("diglot_run_memory_bytes", 0.0).await;
    let mut again = start(0, &long).await;
    assert_eq!(again.read_head().await.status, 200);
}

/// Slow clients together use no more than their limit: those that have waited longest are disconnected, and others served.
#[tokio::test]
async fn disconnects_clients_that_wait_longest_over_the_limit() {
    const LIMIT: f64 = 512.0 * 1024.0;
    let piece = format!(
        "data: {{\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"a1\",\"delta\":\"{}\"}}\n\n",
        "x".repeat(PIECE)
    );
    let flood = Agent::with_script(vec![
        Step::Read,
        write([HEAD, STARTED, OPENED].concat()),
        Step::Flood(piece.into_bytes(), 256),
        write([CLOSED, FINISHED].concat()),
    ]);
    let other = Agent::with_response([HEAD, STARTED, FINISHED].concat());
    let route = |path: &str, agent: &Agent, more: &str| {
        format!("{{path: {path}, client: ag-ui, agent: ag-ui, upstream: \"{}\"{more}}}", agent.url())
    };
    let kept = ", on_disconnect: continue for 5m";
    let routes = [route("/run", &flood, ""), route("/kept", &flood, kept), route("/other", &other, "")].join(", ");
    let routes = format!("routes: [{routes}]");
    let top = "limits: {client_buffers: 512KiB}\nreplay: {run_bytes: 256KiB}";
    let gateway = Gateway::start(Setup { top, routes: &routes, ..Setup::default() }).await;
    let mut clients = Vec::new();
    for (path, count) in [("/run", 12), ("/kept", 12)] {
        let before = gateway.metric("diglot_slow_clients_cut_off_total").await;
        for run in 0..count {
            let mut client = Client::connect_with_small_buffer(gateway.data).await;
            client.send(post(path, "", &INPUT.replace("\"r1\"", &format!("\"r{run}\"")))).await;
            assert_eq!(client.read_head().await.status, 200);
            clients.push(client);
        }
        eventually("clients that are cut off", async || {
            let cut_off = gateway.metric("diglot_slow_clients_cut_off_total").await - before;
            (cut_off >= 6.0).then_some(())
        })
        .await;
        let bytes = gateway.metric("diglot_slow_client_bytes").await;
        assert!(bytes <= LIMIT, "{path}: {bytes}");
        assert_eq!(post_run(gateway.data, "/other").await.status, 200);
    }
    drop(clients);
    gateway.wait_for_metric("diglot_slow_client_bytes", 0.0).await;
}
