//! Dialect files: the ones that ship, in front of agents that send what the documents of their APIs print, and mistakes.

use super::support::agent::{Agent, Step, write};
use super::support::client::{INPUT, post, send_request};
use super::support::gateway::{Gateway, Setup, TempFile, diglot};
use super::support::sha256;
use super::support::sse::{self, HEAD};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Output;

fn shipped(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("config/dialects").join(name)
}

fn run(arguments: &[&str]) -> Output {
    diglot().args(arguments).output().expect("the program runs")
}

/// A gateway with one route to an agent of a file that ships.
async fn start(agent: &Agent, file: &str, dialect: &str, more: &str, auth: &str) -> Gateway {
    let top = format!("dialect_files: [{}]\n{auth}", shipped(file).display());
    let routes = format!(
        "routes:\n  - {{name: run, path: /run, client: ag-ui, agent: {dialect}, upstream: \"{}\"{more}}}\n  - {{name: hai, path: /hai, client: hai, agent: {dialect}, upstream: \"{}\"{more}}}\n",
        agent.url(),
        agent.url()
    );
    Gateway::start(Setup { top: &top, routes: &routes, ..Setup::default() }).await
}

fn frames(data: &[Value]) -> String {
    data.iter().map(|data| format!("data: {data}\n\n")).collect()
}

/// A chunk of "The chat completion chunk object" of OpenAI's API reference.
fn chunk(delta: &Value, finish_reason: Value) -> Value {
    json!({"id": "chatcmpl-123", "object": "chat.completion.chunk", "created": 1694268190, "model": "gpt-4o-mini",
        "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason}]})
}

/// An event of Dify's "Send Chat Message".
fn message(answer: &str) -> Value {
    json!({"event": "message", "message_id": "m-5ad4cb98", "conversation_id": "45701982", "answer": answer, "created_at": 1679586595})
}

#[test]
fn examples_of_the_files_that_ship_pass() {
    let files = ["openai-chat.yaml", "dify-chat.yaml", "coze-chat.yaml"].map(shipped);
    let files = files.iter().map(|file| file.to_str().expect("UTF-8"));
    let output = run(&["check", "--test"].into_iter().chain(files).collect::<Vec<_>>());
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).matches("examples passed").count(), 3, "{output:?}");
}

#[tokio::test]
async fn an_openai_agent_answers_clients_of_both_protocols() {
    let hello = [
        chunk(&json!({"role": "assistant", "content": ""}), Value::Null),
        chunk(&json!({"content": "Hello"}), Value::Null),
        chunk(&json!({"content": "你好"}), Value::Null),
        chunk(&json!({}), json!("stop")),
    ];
    let response = format!("{HEAD}{}data: [DONE]\n\n", frames(&hello));
    let mut agent = Agent::with_response(response);
    let gateway = start(&agent, "openai-chat.yaml", "openai-chat", "", "").await;
    let answer = send_request(gateway.data, post("/run", "", INPUT)).await;
    sse::assert_succeeded(
        &answer,
        &[
            "RUN_STARTED",
            "TEXT_MESSAGE_START",
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_END",
            "RUN_FINISHED",
        ],
    );
    let body = agent.next_request().await.json();
    assert_eq!((&body["stream"], &body["messages"]), (&json!(true), &json!([{"role": "user", "content": "hi"}])));
    assert_eq!(body.get("tools"), None, "OpenAI refuses an empty list: {body}");
    let answer = send_request(gateway.data, post("/hai", "", INPUT)).await;
    let events = sse::events(answer.text());
    let texts = events.iter().filter_map(|event| event["delta"]["output"]["content"].as_str());
    assert_eq!(texts.collect::<String>(), "Hello你好", "{}", answer.text());
    assert_eq!(sse::types(&events).last(), Some(&"RUN_FINISHED"));
}

#[tokio::test]
async fn runs_that_did_not_succeed_end_in_an_error() {
    let text = chunk(&json!({"role": "assistant", "content": "Hel"}), Value::Null);
    let before = ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT"];
    let closed = [&before[..], &["TEXT_MESSAGE_END"]].concat();
    let rows = [
        // The agent's stream breaks off.
        (frames(std::slice::from_ref(&text)), "upstream_truncated", &before[..]),
        // The model reached its maximum of tokens.
        (
            format!("{}data: [DONE]\n\n", frames(&[text.clone(), chunk(&json!({}), json!("length"))])),
            "length",
            &closed[..],
        ),
        // An object in place of a chunk, as servers of this API send it once the stream has begun.
        (
            frames(&[text.clone(), json!({"error": {"message": "overloaded", "type": "server_error", "code": "503"}})]),
            "503",
            &closed[..],
        ),
    ];
    for (stream, code, before) in rows {
        let agent = Agent::with_response(format!("{HEAD}{stream}"));
        let gateway = start(&agent, "openai-chat.yaml", "openai-chat", "", "").await;
        let answer = send_request(gateway.data, post("/run", "", INPUT)).await;
        sse::assert_failed(&answer, code, before);
    }
}

#[tokio::test]
async fn an_error_status_reaches_the_client_with_its_message() {
    let body =
        r#"{"error":{"message":"Rate limit reached for gpt-4o-mini","type":"tokens","code":"rate_limit_exceeded"}}"#;
    let length = body.len();
    let agent = Agent::with_response(format!(
        "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    ));
    let gateway = start(&agent, "openai-chat.yaml", "openai-chat", ", agent_errors: pass", "").await;
    let answer = send_request(gateway.data, post("/run", "", INPUT)).await;
    let problem = sse::assert_refused(&answer, 429, "upstream_status");
    assert!(problem.to_string().contains("Rate limit reached"), "{problem}");
}

#[tokio::test]
async fn a_conversation_is_kept_for_its_caller_alone() {
    let end = json!({"event": "message_end", "message_id": "m-5ad4cb98", "conversation_id": "45701982",
        "metadata": {"usage": {"prompt_tokens": 1033, "completion_tokens": 128, "total_tokens": 1161}}});
    let response = format!("{HEAD}{}", frames(&[message("Hi"), end]));
    let mut agent = Agent::with_script(vec![Step::Read, write(response)]);
    let keys = ["ann", "bob"].map(|id| format!("{{id: {id}, sha256: {}}}", sha256(id)));
    let auth = format!("auth: {{api_keys: [{{name: keys, keys: [{}]}}]}}\n", keys.join(", "));
    let gateway = start(&agent, "dify-chat.yaml", "dify-chat", "", &auth).await;
    let later = INPUT.replace("\"r1\"", "\"r2\"").replace(
        "\"messages\":[",
        "\"messages\":[{\"id\":\"m0\",\"role\":\"user\",\"content\":\"first\"},{\"id\":\"a0\",\"role\":\"assistant\",\"content\":\"Hi\"},",
    );
    let mut post_as = async |caller: &str, body: &str| {
        let answer = send_request(gateway.data, post("/run", &format!("x-api-key: {caller}\r\n"), body)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let sent = agent.next_request().await.json();
        let events = sse::events(answer.text());
        let is_lost = events.iter().any(|event| event["name"] == "diglot.conversation_lost");
        (sent["conversation_id"].clone(), is_lost)
    };
    assert_eq!(post_as("ann", INPUT).await, (Value::Null, false));
    assert_eq!(post_as("ann", &later).await, (json!("45701982"), false));
    // The thread of another caller with the same id, whose earlier messages the agent does not have.
    assert_eq!(post_as("bob", &later).await, (Value::Null, true));
    assert_eq!(gateway.metric(r#"diglot_losses_total{reason="conversation_lost",route="run"}"#).await, 1.0);
}

#[test]
fn mistakes_name_their_file_and_line() {
    let wrong = TempFile::new(
        "name: acme\nevents:\n  - has: text\n    emit: {type: TEXT_MESSAGE_CHUNK, text: \"{text}\"}\n    done: true\n",
    );
    let path = wrong.path().to_str().expect("UTF-8");
    let route = "{path: /a, client: ag-ui, agent: acme, upstream: \"http://127.0.0.1:1\"}";
    let config = TempFile::new(&format!("dialect_files: [{path}]\nroutes: [{route}]\n"));
    let output = run(&["check", config.path().to_str().expect("UTF-8")]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(78), "{output:?}");
    assert!(text.contains(&format!("{path}:4:")) && text.contains("TEXT_MESSAGE_CHUNK has no member `text`"), "{text}");
    assert_eq!(text.matches("hint: ").count(), 1, "the route is not reported as well: {text}");
}

#[test]
fn file_dialects_are_for_agents() {
    let file = shipped("openai-chat.yaml");
    let route = "{path: /a, client: openai-chat, agent: ag-ui, upstream: \"http://127.0.0.1:1\"}";
    let config = TempFile::new(&format!("dialect_files: [{}]\nroutes: [{route}]\n", file.display()));
    let output = run(&["check", config.path().to_str().expect("UTF-8")]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("`openai-chat` is described by a file, which is for agents only"), "{text}");
    let output = run(&["translate", "--from", "ag-ui", "--to", file.to_str().expect("UTF-8"), "/dev/null"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
