//! A few bytes of a client or of an agent of which a translation makes many, in a process with the default limits.
//!
//! Some clients get the id of a run or of a message with every event, and a dialect file may repeat any value for each element
//! of a list. Before what is made was bounded, one run could take the memory of the process.

use super::super::support::agent::{Agent, Step, write};
use super::super::support::client::{Answer, Client, INPUT, post, send_request};
use super::super::support::gateway::{Gateway, Setup, TempFile};
use super::super::support::sse::{HEAD, assert_refused};
use std::time::Duration;
use tokio::time::timeout;

/// Memory of a process that has little else to do, in bytes.
const MEMORY: usize = 224 << 20;

const STARTED: &str = "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t1\",\"runId\":\"r1\"}\n\n";
const FINISHED: &str = "data: {\"type\":\"RUN_FINISHED\",\"threadId\":\"t1\",\"runId\":\"r1\"}\n\n";

const ACME: &str = r#"
name: acme
request:
  body: {list: {each: forwardedProps.list, as: {text: "{forwardedProps.text}", item: "{@item}"}}}
events:
  - has: list
    emit: {type: MESSAGES_SNAPSHOT, messages: "{list}"}
  - each: parts
    emit: {type: CUSTOM, name: part, value: "{text}"}
  - each: more
    emit: {type: CUSTOM, name: part, value: "{text}"}
  - has: over
    done: true
"#;

/// An agent whose message has a long id, which its later chunks do not have.
fn start_chunk_agent(id_length: usize, chunks: usize) -> Agent {
    let id = "x".repeat(id_length);
    let first = format!("data: {{\"type\":\"TEXT_MESSAGE_CHUNK\",\"messageId\":\"{id}\",\"delta\":\"a\"}}\n\n");
    let more = "data: {\"type\":\"TEXT_MESSAGE_CHUNK\",\"delta\":\"a\"}\n\n".repeat(chunks);
    Agent::with_script(vec![Step::Read, write([HEAD, STARTED, &first].concat()), Step::Pause, write(more + FINISHED)])
}

async fn start_gateway(agent: &Agent, client: &str, dialect: &str, file: &TempFile) -> Gateway {
    let top = format!(
        "dialect_files: [{}, {}/config/dialects/openai-chat.yaml]",
        file.path().display(),
        env!("CARGO_MANIFEST_DIR")
    );
    let routes = format!("routes: [{{path: /run, client: {client}, agent: {dialect}, upstream: \"{}\"}}]", agent.url());
    Gateway::start(Setup { top: &top, routes: &routes, ..Setup::default() }).await
}

fn assert_small(gateway: &Gateway) {
    let peak = gateway.process.peak_memory();
    assert!(peak < MEMORY, "{} MiB", peak >> 20);
}

/// Sends the run of an agent that pauses once, and reads the whole response.
async fn read_run(gateway: &Gateway, agent: &Agent) -> Answer {
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "Connection: close\r\n", INPUT)).await;
    agent.resume();
    timeout(Duration::from_secs(60), client.read_answer()).await.expect("the end of the run")
}

/// Several parts of the gateway keep these ids, and social-app clients get them with every event.
#[tokio::test]
async fn refuses_long_ids_of_runs() {
    let agent = Agent::with_response(HEAD.to_owned() + STARTED + FINISHED);
    let gateway = start_gateway(&agent, "ag-ui", "ag-ui", &TempFile::new(ACME)).await;
    for (name, own) in [("threadId", "\"t1\""), ("runId", "\"r1\"")] {
        for (length, status) in [(65_534, 200), (65_535, 400)] {
            let body = INPUT.replace(own, &format!("\"{}\"", "x".repeat(length)));
            let answer = send_request(gateway.data, post("/run", "Connection: close\r\n", &body)).await;
            assert_eq!(answer.status, status, "{}", answer.text());
            if status == 400 {
                let problem = assert_refused(&answer, 400, "invalid_request");
                assert_eq!(problem["detail"], format!("/{name}: is longer than 65536 bytes, as JSON"));
            }
        }
    }
}

#[tokio::test]
async fn writes_long_ids_that_repeat_in_little_memory() {
    const ID: usize = 1 << 20;
    const CHUNKS: usize = 120;
    let agent = start_chunk_agent(ID, CHUNKS);
    let gateway = start_gateway(&agent, "hai", "ag-ui", &TempFile::new(ACME)).await;
    let answer = read_run(&gateway, &agent).await;
    assert!(answer.text().contains("RUN_FINISHED") && answer.body.len() > CHUNKS * ID, "{}", answer.body.len());
    assert_small(&gateway);
}

/// At most 128 bytes for each of the agent's, beyond three times an event of 10 MiB.
#[tokio::test]
async fn ends_a_run_that_repeats_a_long_id_too_often() {
    const ID: usize = 256 << 10;
    let agent = start_chunk_agent(ID, 1000);
    let gateway = start_gateway(&agent, "hai", "ag-ui", &TempFile::new(ACME)).await;
    let answer = read_run(&gateway, &agent).await;
    assert_eq!(answer.text().matches("frame_too_large").count(), 1);
    let most = (30 << 20) + 128 * (ID + (64 << 10));
    assert!(answer.body.len() > 30 << 20 && answer.body.len() < most, "{}", answer.body.len());
    assert_small(&gateway);
}

#[tokio::test]
async fn ends_runs_at_lists_that_dialect_files_take_apart() {
    const LENGTH: usize = 9 << 20;
    let list = |element: &str| format!("[{}]", vec![element; LENGTH / (element.len() + 1)].join(","));
    let calls = |element| format!(r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":{}}}}}]}}"#, list(element));
    let repeated = format!(r#"{{"parts":[{}0],"text":"{}"}}"#, "0,".repeat(15_000), "x".repeat(1 << 20));
    let rows = [
        ("openai-chat", calls("0")),
        ("openai-chat", calls(r#"{"function":{"name":"a"}}"#)),
        ("acme", format!(r#"{{"list":{}}}"#, list("{}"))),
        ("acme", repeated),
    ];
    for (dialect, frame) in rows {
        let agent = Agent::with_script(vec![Step::Read, write(format!("{HEAD}data: {frame}\n\n")), Step::Pause]);
        let gateway = start_gateway(&agent, "ag-ui", dialect, &TempFile::new(ACME)).await;
        let answer = send_request(gateway.data, post("/run", "Connection: close\r\n", INPUT)).await;
        assert_eq!(
            answer.text().matches("too_much_open").count(),
            1,
            "{dialect} {:.60}: {:.1000}",
            frame,
            answer.text()
        );
        assert_small(&gateway);
    }
}

/// One list, or several together; each element counts once.
#[tokio::test]
async fn takes_lists_of_frames_apart_up_to_the_limit() {
    let list_of = |elements: usize| vec!["0"; elements].join(",");
    for (list, more, limited) in [(20_000, 0, false), (20_001, 0, true), (15_000, 5_000, false), (15_000, 5_001, true)]
    {
        let frame = format!(r#"{{"parts":[{}],"more":[{}],"text":"x"}}"#, list_of(list), list_of(more));
        let body = format!("{HEAD}data: {frame}\n\ndata: {{\"over\":true}}\n\n");
        let agent = Agent::with_response(body);
        let gateway = start_gateway(&agent, "ag-ui", "acme", &TempFile::new(ACME)).await;
        let answer = send_request(gateway.data, post("/run", "Connection: close\r\n", INPUT)).await;
        let text = answer.text();
        assert_eq!(text.contains("too_much_open"), limited, "{list} {more}: {text:.1000}");
        assert_eq!(text.matches("\"CUSTOM\"").count() == list + more, !limited, "{list} {more}: {text:.1000}");
    }
}

#[tokio::test]
async fn refuses_requests_that_grow_in_the_lists_of_a_dialect_file() {
    let agent = Agent::with_response(HEAD.to_owned() + "data: {\"over\":true}\n\n");
    let gateway = start_gateway(&agent, "ag-ui", "acme", &TempFile::new(ACME)).await;
    let request = |elements: usize, text: usize| {
        let props = format!(r#"{{"list":[{}0],"text":"{}"}}"#, "0,".repeat(elements - 1), "x".repeat(text));
        post(
            "/run",
            "Connection: close\r\n",
            &INPUT.replace("\"forwardedProps\":{}", &format!("\"forwardedProps\":{props}")),
        )
    };
    for (elements, text, status) in
        [(20_000, 1, 200), (20_001, 1, 400), (4_000_000, 1, 400), (10, 1 << 20, 200), (15_000, 1 << 20, 400)]
    {
        let answer = send_request(gateway.data, request(elements, text)).await;
        assert_eq!(answer.status, status, "{elements} {text}: {}", answer.text());
    }
    assert_small(&gateway);
}
