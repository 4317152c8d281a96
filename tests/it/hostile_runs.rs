//! Runs that are expensive to translate: they end with a clear error, or go on, and do not delay other runs.

use super::support::agent::{Agent, Step, write};
use super::support::client::{Client, INPUT, post, post_run};
use super::support::eventually;
use super::support::gateway::{Gateway, Setup};
use super::support::sse::{
    CLOSED, COMPLETE_RUN, FINISHED, HEAD, OPENED, STARTED, assert_succeeded, complete_run, events,
};

/// Number of items, more than a run may have open.
const MANY: usize = 10_500;

/// Memory that a hostile run may add to the process, in bytes.
const MOST_MEMORY: usize = 64 << 20;

fn route(path: &str, client: &str, dialect: &str, agent: &Agent) -> String {
    format!("{{path: {path}, client: {client}, agent: {dialect}, upstream: \"{}\"}}", agent.url())
}

async fn start_gateway(routes: &[String]) -> Gateway {
    let routes = format!("routes: [{}]", routes.join(", "));
    Gateway::start(Setup { routes: &routes, ..Setup::default() }).await
}

fn numbered(event: &str, count: usize) -> String {
    (0..count).map(|at| format!("data: {}\n\n", event.replace('@', &at.to_string()))).collect()
}

#[tokio::test]
async fn ends_a_run_that_leaves_too_much_open_for_every_kind_of_item() {
    let rows = [
        ("ag-ui", r#"{"type":"TEXT_MESSAGE_START","messageId":"m@","role":"assistant"}"#),
        ("ag-ui", r#"{"type":"TOOL_CALL_START","toolCallId":"c@","toolCallName":"f"}"#),
        ("ag-ui", r#"{"type":"STEP_STARTED","stepName":"s@"}"#),
        ("ag-ui", r#"{"type":"SUBAGENT_STARTED","subagentRunId":"s@","name":"sub"}"#),
        ("hai", r#"{"type":"BUSINESS_DATA_START","messageId":"m@","role":"assistant"}"#),
    ];
    let agents: Vec<_> = rows
        .iter()
        .map(|(_, event)| Agent::with_response([HEAD, STARTED, &numbered(event, MANY), FINISHED].concat()))
        .collect();
    let routes: Vec<_> = rows
        .iter()
        .zip(&agents)
        .enumerate()
        .map(|(at, ((dialect, _), agent))| route(&format!("/r{at}"), "ag-ui", dialect, agent))
        .collect();
    let gateway = start_gateway(&routes).await;
    for (at, (_, event)) in rows.iter().enumerate() {
        let answer = post_run(gateway.data, &format!("/r{at}")).await;
        let events = events(answer.text());
        let last = events.last().expect("an event");
        assert_eq!((&last["type"], &last["code"]), (&"RUN_ERROR".into(), &"too_much_open".into()), "{event}: {last}");
        let message = last["message"].as_str().expect("a message");
        assert!(message.contains("10000") && !message.contains("bytes"), "{message}");
    }
}

#[tokio::test]
async fn sends_an_answer_of_a_hundred_thousand_small_deltas_to_a_client_that_gets_messages_whole() {
    const COUNT: usize = 100_000;
    let text = r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"a1","delta":"word@ "}"#;
    let stamped = r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"a1","delta":"word@ ","timestamp":1700000000000}"#;
    let agents = [text, stamped]
        .map(|event| Agent::with_response([HEAD, STARTED, OPENED, &numbered(event, COUNT), CLOSED, FINISHED].concat()));
    let routes =
        [route("/plain", "social-app", "ag-ui", &agents[0]), route("/stamped", "social-app", "ag-ui", &agents[1])];
    let gateway = start_gateway(&routes).await;
    for path in ["/plain", "/stamped"] {
        let answer = post_run(gateway.data, path).await;
        assert!(!answer.text().contains("RUN_ERROR"), "{path}: {}", &answer.text()[answer.text().len() - 300..]);
        assert!(answer.text().contains("word0 word1 word2 ") && answer.text().contains("word99999 "), "{path}");
    }
}

/// Other runs are served while two agents send as much as the gateway takes, in events that are expensive to translate.
#[tokio::test]
async fn serves_other_routes_while_hostile_runs_are_translated() {
    // Each event is a message of its own, so there is no end of them; nothing is sent until the run ends.
    let tiny = numbered(r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","role":"assistant","delta":"x"}"#, 2000);
    let flood = || {
        Agent::with_script(vec![
            Step::Read,
            write([HEAD, STARTED].concat()),
            Step::Flood(tiny.clone().into_bytes(), 20),
        ])
    };
    let (first, second) = (flood(), flood());
    let other = Agent::with_response([HEAD, &complete_run()].concat());
    let routes = [
        route("/first", "social-app", "hai", &first),
        route("/second", "hai", "ag-ui", &second),
        route("/other", "ag-ui", "ag-ui", &other),
    ];
    let gateway = start_gateway(&routes).await;
    let before = gateway.process.resident_memory();
    let mut hostile = Vec::new();
    for path in ["/first", "/second"] {
        let mut client = Client::connect(gateway.data).await;
        client.send(post(path, "", INPUT)).await;
        assert_eq!(client.read_head().await.status, 200);
        hostile.push(tokio::spawn(async move { client.read_until_closed().await }));
    }
    eventually("two floods", async || (first.bytes_sent() > 0 && second.bytes_sent() > 0).then_some(())).await;
    for _ in 0..10 {
        assert_succeeded(&post_run(gateway.data, "/other").await, COMPLETE_RUN);
    }
    let unfinished = hostile.iter().filter(|run| !run.is_finished()).count();
    assert!(unfinished > 0, "the other runs waited for the hostile ones");
    let growth = gateway.process.resident_memory().saturating_sub(before);
    assert!(growth < MOST_MEMORY, "{growth} bytes");
    hostile.iter().for_each(tokio::task::JoinHandle::abort);
}
