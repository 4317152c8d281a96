//! Requests of dialect files: where they go, with which fields, what happens to values of clients on the way, and what a
//! client gets of an error.

use super::support::agent::{Agent, Request};
use super::support::client::{INPUT, post, send_request};
use super::support::gateway::{Gateway, Setup, TempFile, diglot};
use super::support::sha256;
use super::support::sse::{self, HEAD};
use serde_json::{Value, json};

const CALL: &str = "BUJJS0JKQ0dHR0VeFkNC";

/// An event of a chat, with the ids of Coze's 通过 API 使用端插件 (guides/use_local_plugin).
fn chat(status: &str, more: &Value) -> String {
    let mut data = json!({"id": "743436994609809", "conversation_id": "743436839342099", "bot_id": "737916542868753",
        "last_error": {"code": 0, "msg": ""}, "status": status});
    data.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    format!("event:conversation.chat.{status}\ndata:{data}\n\n")
}

fn answer(text: &str) -> String {
    let data = json!({"id": "m-1", "conversation_id": "743436839342099", "role": "assistant", "type": "answer",
        "content": text, "content_type": "text", "chat_id": "743436994609809"});
    format!("event:conversation.message.completed\ndata:{data}\n\n")
}

const DONE: &str = "event:done\ndata:\"[DONE]\"\n\n";

/// The three responses of a conversation: a call of the client's plugin, what follows its result, and a later answer.
fn coze_responses() -> Vec<String> {
    let call = json!({"id": CALL, "type": "function", "function": {"name": "get_rain_probability", "arguments": "{\"location\":\"河南\"}"}});
    let action =
        json!({"required_action": {"type": "submit_tool_outputs", "submit_tool_outputs": {"tool_calls": [call]}}});
    let created = chat("created", &json!({}));
    let completed = chat("completed", &json!({"usage": {"token_count": 3, "output_count": 1, "input_count": 2}}));
    vec![
        format!("{HEAD}{created}{}{DONE}", chat("requires_action", &action)),
        format!("{HEAD}{}{completed}{DONE}", answer("30 %")),
        format!("{HEAD}{created}{}{completed}{DONE}", answer("明天也是。")),
    ]
}

async fn start_coze(agent: &Agent) -> Gateway {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/config/dialects/coze-chat.yaml");
    let keys = ["ann", "bob"].map(|id| format!("{{id: {id}, sha256: {}}}", sha256(id)));
    let top = format!("dialect_files: [{file}]\nauth: {{api_keys: [{{name: keys, keys: [{}]}}]}}\n", keys.join(", "));
    let routes = format!(
        "routes:\n  - {{name: run, path: /run, client: ag-ui, agent: coze-chat, agent_errors: pass, upstream: \"{}\"}}\n",
        agent.url()
    );
    Gateway::start(Setup { top: &top, routes: &routes, ..Setup::default() }).await
}

/// A request of run `run` of thread t1 with these messages.
fn input(run: &str, messages: &Value) -> String {
    json!({"threadId": "t1", "runId": run, "state": {}, "messages": messages, "tools": [], "context": [], "forwardedProps": {}})
        .to_string()
}

fn question(id: &str, text: &str) -> Value {
    json!({"id": id, "role": "user", "content": text})
}

/// The call of the first run, and its result.
fn call_and_result() -> [Value; 2] {
    let call = json!({"id": CALL, "type": "function", "function": {"name": "get_rain_probability", "arguments": "{\"location\":\"河南\"}"}});
    let message = json!({"id": CALL, "role": "assistant", "toolCalls": [call]});
    [message, json!({"id": "t1", "role": "tool", "toolCallId": CALL, "content": "{\"rain\":0.3}"})]
}

fn request_line(request: &Request) -> &str {
    request.head.lines().next().expect("a line")
}

fn user_message(text: &str) -> Value {
    json!({"role": "user", "type": "question", "content_type": "text", "content": text})
}

#[tokio::test]
async fn coze_calls_a_tool_of_the_client_and_gets_its_result() {
    let mut agent = Agent::with_responses(&coze_responses());
    let gateway = start_coze(&agent).await;
    let post_as_ann = async |body: &str| send_request(gateway.data, post("/run", "x-api-key: ann\r\n", body)).await;

    let [call, result] = call_and_result();
    let first = post_as_ann(&input("r1", &json!([question("u1", "河南会下雨吗？")]))).await;
    sse::assert_succeeded(
        &first,
        &["RUN_STARTED", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "RUN_FINISHED"],
    );
    let events = sse::events(first.text());
    assert_eq!((&events[1]["toolCallId"], &events[1]["parentMessageId"]), (&json!(CALL), &json!(CALL)));
    let sent = agent.next_request().await;
    assert_eq!(request_line(&sent), "POST /agent?kept=1 HTTP/1.1");
    assert_eq!(sent.json()["additional_messages"], json!([user_message("河南会下雨吗？")]));
    assert_eq!(sent.json()["auto_save_history"], json!(true), "without it Coze refuses the result with 5000");

    let messages = json!([question("u1", "河南会下雨吗？"), call, result]);
    let second = post_as_ann(&input("r2", &messages)).await;
    sse::assert_succeeded(
        &second,
        &["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"],
    );
    let sent = agent.next_request().await;
    assert_eq!(
        request_line(&sent),
        "POST /agent/submit_tool_outputs?kept=1&conversation_id=743436839342099&chat_id=743436994609809 HTTP/1.1"
    );
    let outputs = json!([{"tool_call_id": CALL, "output": "{\"rain\":0.3}"}]);
    assert_eq!(sent.json(), json!({"stream": true, "tool_outputs": outputs}));

    let reply = json!({"id": "m-1", "role": "assistant", "content": "30 %"});
    let messages = json!([question("u1", "河南会下雨吗？"), call, result, reply, question("u2", "明天呢？")]);
    let third = post_as_ann(&input("r3", &messages)).await;
    assert!(third.text().contains("明天也是。"), "{}", third.text());
    let sent = agent.next_request().await;
    assert_eq!(request_line(&sent), "POST /agent?kept=1&conversation_id=743436839342099 HTTP/1.1");
    assert_eq!(sent.json()["additional_messages"], json!([user_message("明天呢？")]), "Coze has the others");
    for answer in [&first, &second, &third] {
        assert!(!answer.text().contains("conversation_lost"), "{}", answer.text());
    }
}

#[tokio::test]
async fn a_result_without_its_chat_is_refused_and_a_history_without_one_is_sent_whole() {
    let [first, _, third] = coze_responses().try_into().expect("three responses");
    let mut agent = Agent::with_responses(&[first, third]);
    let gateway = start_coze(&agent).await;
    let post_as = async |caller: &str, body: &str| {
        send_request(gateway.data, post("/run", &format!("x-api-key: {caller}\r\n"), body)).await
    };
    post_as("ann", &input("r1", &json!([question("u1", "河南会下雨吗？")]))).await;
    agent.next_request().await;
    let [call, result] = call_and_result();
    // The thread of the same id of another caller, to whom the chat does not belong.
    let refused = post_as("bob", &input("r2", &json!([question("u1", "河南会下雨吗？"), call, result]))).await;
    sse::assert_refused(&refused, 410, "conversation_lost");
    let reply = json!({"id": "a1", "role": "assistant", "content": "Hi"});
    let whole =
        post_as("bob", &input("r3", &json!([question("u1", "Hello"), reply, question("u2", "明天呢？")]))).await;
    assert!(!whole.text().contains("conversation_lost"), "Coze gets all of it: {}", whole.text());
    let sent = agent.next_request().await;
    assert_eq!(request_line(&sent), "POST /agent?kept=1 HTTP/1.1", "the refused request did not reach the agent");
    let reply = json!({"role": "assistant", "type": "answer", "content_type": "text", "content": "Hi"});
    assert_eq!(sent.json()["additional_messages"], json!([user_message("Hello"), reply, user_message("明天呢？")]));
}

const ACME: &str = r#"
name: acme
request:
  - when: {"messages[-1].content": tools}
    path: /threads/{threadId}/tools
    body: {tools: true}
  - query: {q: "{@user_text}", "run id": "{runId}", none: "{state.none}"}
    headers: {x-thread: "{threadId}", x-own: file, x-none: "{state.none}"}
events:
  - has: say
    emit: {type: TEXT_MESSAGE_CHUNK, delta: "{say}"}
    done: true
error: {message: [problem.why, problem.what], code: problem.no}
"#;

async fn start_acme(agent: &Agent, file: &TempFile, more: &str) -> Gateway {
    let top = format!("dialect_files: [{}]\n", file.path().display());
    let routes = format!(
        "routes:\n  - {{name: run, path: /run, client: ag-ui, agent: acme, upstream: \"{}\", upstream_headers: {{x-own: route}}{more}}}\n",
        agent.url()
    );
    Gateway::start(Setup { top: &top, routes: &routes, ..Setup::default() }).await
}

#[tokio::test]
async fn values_of_clients_stay_in_their_places() {
    let file = TempFile::new(ACME);
    let mut agent = Agent::with_response(format!("{HEAD}data: {{\"say\":\"Hi\"}}\n\n"));
    let gateway = start_acme(&agent, &file, "").await;
    let post_input = async |thread: &str, text: &str| {
        let body = json!({"threadId": thread, "runId": "r&1=2", "state": {}, "messages": [question("u1", text)], "tools": [], "context": [], "forwardedProps": {}});
        send_request(gateway.data, post("/run", "", &body.to_string())).await
    };
    // Thread, text, and the request line.
    let sent = [
        ("t1", "tools", "POST /agent/threads/t1/tools?kept=1 HTTP/1.1"),
        ("a?b#c", "tools", "POST /agent/threads/a%3Fb%23c/tools?kept=1 HTTP/1.1"),
        ("@evil.example", "tools", "POST /agent/threads/%40evil.example/tools?kept=1 HTTP/1.1"),
        ("x\r\nHost: evil", "tools", "POST /agent/threads/x%0D%0AHost%3A%20evil/tools?kept=1 HTTP/1.1"),
        ("t1", "a&b=../c#d", "POST /agent?kept=1&q=a%26b%3D..%2Fc%23d&run%20id=r%261%3D2 HTTP/1.1"),
        (
            "t1",
            "GET / HTTP/1.1\r\n\r\n\0",
            "POST /agent?kept=1&q=GET%20%2F%20HTTP%2F1.1%0D%0A%0D%0A%00&run%20id=r%261%3D2 HTTP/1.1",
        ),
    ];
    for (thread, text, line) in sent {
        let answer = post_input(thread, text).await;
        assert_eq!(answer.status, 200, "{thread} {text}: {}", answer.text());
        let request = agent.next_request().await;
        assert_eq!(request_line(&request), line);
        assert_eq!(request.header("host"), Some(agent.address().to_string().as_str()));
        let is_default = text != "tools";
        assert_eq!(request.header("x-thread"), is_default.then_some(thread));
        assert_eq!(request.header("x-own"), Some("route"), "the route's own header stays");
        assert_eq!(request.header("x-none"), None);
        assert_eq!(request.json().get("threadId").is_some(), is_default, "without `body`, the agent gets AG-UI's");
    }
    let refused = [
        ("..", "tools"),
        ("../../admin", "tools"),
        ("a/b", "tools"),
        ("a%2Fb", "tools"),
        ("a\\b", "tools"),
        (".%2e;x", "tools"),
        ("t\r\nx-evil: 1", "hi"),
        ("t\0", "hi"),
        ("t1", &*"x".repeat(9000)),
    ];
    for (thread, text) in refused {
        let answer = post_input(thread, text).await;
        sse::assert_refused(&answer, 400, "invalid_request");
    }
    // None of those reached the agent.
    post_input("t1", "last").await;
    assert_eq!(request_line(&agent.next_request().await), "POST /agent?kept=1&q=last&run%20id=r%261%3D2 HTTP/1.1");
}

/// The path needs what an earlier run of the thread kept, and this process has no earlier run.
#[tokio::test]
async fn a_path_that_needs_a_kept_value_is_not_made_without_it() {
    let file = TempFile::new(
        "name: acme\nrequest: {path: '/runs/{@thread.run}'}\nevents: [{has: run, keep: {run: '{run}'}, done: true}]\n",
    );
    let agent = Agent::with_response("");
    let gateway = start_acme(&agent, &file, "").await;
    let reply = json!({"id": "a1", "role": "assistant", "content": "Hi"});
    let later = input("r2", &json!([question("u1", "Hello"), reply, question("u2", "And?")]));
    sse::assert_refused(&send_request(gateway.data, post("/run", "", &later)).await, 410, "conversation_lost");
    // Without an earlier answer, nothing was lost: the file has no request for the first run.
    sse::assert_refused(&send_request(gateway.data, post("/run", "", INPUT)).await, 400, "invalid_request");
}

/// The value is the client's, whatever else of the request is lost.
#[tokio::test]
async fn a_value_that_cannot_be_sent_is_not_a_lost_conversation() {
    let file = TempFile::new(
        "name: acme\nrequest: {headers: {x-text: '{@user_text}'}, body: {run: '{@thread.run}'}}\nevents: [{has: run, keep: {run: '{run}'}, done: true}]\n",
    );
    let gateway = start_acme(&Agent::with_response(""), &file, "").await;
    let reply = json!({"id": "a1", "role": "assistant", "content": "Hi"});
    let later = input("r2", &json!([question("u1", "Hello"), reply, question("u2", "你好")]));
    sse::assert_refused(&send_request(gateway.data, post("/run", "", &later)).await, 400, "invalid_request");
}

/// The query may have a key.
#[tokio::test]
async fn the_log_has_the_path_that_an_agent_does_not_serve() {
    let file = TempFile::new(ACME);
    for (status, served) in [
        ("404 Not Found", " to POST /agent"),
        ("405 Method Not Allowed", " to POST /agent"),
        ("500 Internal Server Error", ""),
    ] {
        let agent = Agent::with_response(json_response(status, r#"{"problem":{"why":"no"}}"#));
        let mut gateway = start_acme(&agent, &file, "").await;
        send_request(gateway.data, post("/run", "", INPUT)).await;
        let line = gateway.next_log("request failed at the agent").await;
        assert_eq!(line["cause"], format!("the agent answered {status}{served}: no"));
    }
}

fn json_response(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn the_file_names_the_members_of_an_error() {
    let file = TempFile::new(ACME);
    let secret = "sk-live-0123456789abcdef0123456789abcdef";
    let rows = [
        (r#"{"problem":{"why":"turns are required","no":"E7"}}"#.to_owned(), "turns are required (E7)"),
        (r#"{"problem":{"what":"no turns","why":null}}"#.to_owned(), "no turns"),
        (r#"{"problem":{"no":7},"message":"busy"}"#.to_owned(), "busy (7)"),
    ];
    for (body, expected) in &rows {
        let agent = Agent::with_response(json_response("422 Unprocessable Content", body));
        let gateway = start_acme(&agent, &file, ", agent_errors: pass").await;
        let problem =
            sse::assert_refused(&send_request(gateway.data, post("/run", "", INPUT)).await, 422, "upstream_status");
        assert_eq!(problem["detail"], *expected);
    }
    // Hidden, and masked in the log.
    let body = format!(r#"{{"problem":{{"why":"the key {secret} is wrong","no":"E8"}}}}"#);
    let agent = Agent::with_response(json_response("422 Unprocessable Content", &body));
    let mut gateway = start_acme(&agent, &file, "").await;
    let answer = send_request(gateway.data, post("/run", "", INPUT)).await;
    let problem = sse::assert_refused(&answer, 422, "upstream_status");
    assert!(!problem.to_string().contains("is wrong"), "{problem}");
    let logged = gateway.next_log("run ended").await.to_string();
    assert!(logged.contains("is wrong (E8)") && !logged.contains(secret), "{logged}");
}

/// Coze refuses with status 200: 错误码, "返回信息中 code 字段".
#[tokio::test]
async fn coze_refuses_with_status_200() {
    let body = r#"{"code":4000,"msg":"The parameter bot_id is required","detail":{"logid":"2024"}}"#;
    let agent = Agent::with_response(json_response("200 OK", body));
    let gateway = start_coze(&agent).await;
    let answer = send_request(gateway.data, post("/run", "x-api-key: ann\r\n", INPUT)).await;
    let problem = sse::assert_refused(&answer, 502, "upstream_content_type");
    assert_eq!(problem["detail"], "The parameter bot_id is required (4000)");
}

#[test]
fn commands_show_where_a_request_goes() {
    let file = TempFile::new(ACME);
    let dialect = file.path().to_str().expect("UTF-8");
    let config = TempFile::new(&format!(
        "dialect_files: [{dialect}]\nroutes: [{{name: run, path: /run, client: ag-ui, agent: acme, upstream: \"http://127.0.0.1:1/agent?kept=1\"}}]\n"
    ));
    let body = TempFile::new(INPUT);
    let paths = [config.path(), body.path()].map(|path| path.to_str().expect("UTF-8"));
    let run = |arguments: &[&str]| {
        let output = diglot().args(arguments).output().expect("the program runs");
        (String::from_utf8(output.stdout).expect("UTF-8"), String::from_utf8(output.stderr).expect("UTF-8"))
    };
    let (explained, _) = run(&["explain-route", paths[0], "/run", "--body", paths[1]]);
    assert!(explained.contains("http://127.0.0.1:1/agent?***"), "{explained}");
    assert!(explained.contains("x-own: ***   (from the dialect file)"), "{explained}");
    let (_, notes) = run(&["translate", "--request", "--from", "ag-ui", "--to", dialect, paths[1]]);
    assert!(notes.contains("with `?q=hi&run%20id=r1` behind it, `x-thread: t1`, `x-own: file`"), "{notes}");
    let example = "tests:\n  - {name: own, request: {threadId: t1, runId: r1, messages: [{id: u1, role: user, content: tools}]}, body: {tools: true}, path: /threads/t1/tool}\n";
    let wrong = TempFile::new(&format!("{ACME}{example}"));
    let (found, _) = run(&["check", "--test", wrong.path().to_str().expect("UTF-8")]);
    assert!(found.contains(r#"path: expected "/threads/t1/tool""#), "{found}");
    assert!(found.contains(r#"got "/threads/t1/tools""#), "{found}");
}

/// DeepSeek, "Thinking Mode": the `reasoning_content` of a message with calls must come back with it, and of others may.
/// OpenAI's ChatCompletionRequestAssistantMessage has no such member.
#[test]
fn reasoning_goes_back_with_its_message_if_it_is_wanted() {
    let call = json!({"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}});
    let reasoning = |id: &str, text: &str| json!({"id": id, "role": "reasoning", "content": text});
    let messages = json!([
        question("u1", "Cold?"),
        reasoning("t1", "I need"),
        reasoning("t2", "the weather."),
        {"id": "p1", "role": "activity", "activityType": "plan", "content": {"steps": 1}},
        {"id": "a1", "role": "assistant", "content": "Let me look.", "toolCalls": [call]},
        reasoning("t3", "Now wait."),
        {"id": "r1", "role": "tool", "toolCallId": "c1", "content": "4"},
        {"id": "t4", "role": "reasoning", "content": "It is 4.", "encryptedValue": "sig"},
        {"id": "a2", "role": "assistant", "content": "4 °C"},
        question("u2", "And?"),
        reasoning("t5", "Cut off"),
        question("u3", "Hello?"),
        {"id": "a3", "role": "assistant", "content": "Yes"},
        question("u4", "Bye")
    ]);
    let file = TempFile::new(&input("r1", &messages));
    let sent = |setting: &str, left_out: &str| -> Vec<Value> {
        let mut command = diglot();
        command.args(["translate", "--request", "--from", "ag-ui", "--to", "openai-chat"]).arg(file.path());
        let done = command.env("OPENAI_SEND_REASONING", setting).output().expect("the binary starts");
        let notes = String::from_utf8(done.stderr).expect("UTF-8");
        assert!(
            notes.contains(&format!("left out content for which openai-chat has no form, in {left_out}")),
            "{notes}"
        );
        let body: Value = serde_json::from_slice(&done.stdout).expect("JSON");
        let messages = body["messages"].as_array().expect("messages").iter();
        messages.map(|message| message["reasoning_content"].clone()).filter(|own| !own.is_null()).collect()
    };
    // That of an answer that was cut off has no message; a signature and the plan have no member.
    assert_eq!(sent("1", "3 places;"), [json!("I need\nthe weather.\nNow wait."), json!("It is 4.")]);
    assert!(sent("", "6 places;").is_empty());
}

/// Versions and `pin` are of the built-in dialects.
#[test]
fn content_without_a_form_is_named_with_the_file() {
    let message = json!({"id": "s1", "role": "system", "content": "Be brief."});
    let file = TempFile::new(&input("r1", &json!([message, question("u1", "Hi")])));
    let done =
        diglot().args(["translate", "--request", "--from", "ag-ui", "--to", "coze-chat"]).arg(file.path()).output();
    let notes = String::from_utf8(done.expect("the binary starts").stderr).expect("UTF-8");
    assert!(notes.contains("left out content for which coze-chat has no form, in 1 place;"), "{notes}");
    assert!(!notes.contains("pin"), "{notes}");
}

/// A message whose text is elsewhere in the request is not left out of it.
#[test]
fn a_question_that_is_sent_as_text_is_not_left_out() {
    let each = r#"{each: "@new_messages", rules: [{when: {"@item.role": tool}, as: "{@item.content}"}]}"#;
    let dialect = |prompt: &str| {
        let text = format!("name: own\nevents: [{{done: true}}]\nrequest: {{body: {{{prompt}answers: {each}}}}}\n");
        TempFile::new(&text)
    };
    let (sent, absent) = (dialect(r#"prompt: "{@user_text}", "#), dialect(r#"prompt: "{threadId}", "#));
    let parts = json!({"id": "u2", "role": "user", "content": [{"type": "text", "text": "Hi"}]});
    for (file, messages, count) in [
        (&sent, json!([question("u1", "Hi")]), None),
        (&sent, json!([question("u1", "Hi"), question("u2", "You?")]), Some("in 1 place")),
        (&sent, json!([question("u1", "Hi"), parts]), Some("in 2 places")),
        (&absent, json!([question("u1", "Hi")]), Some("in 1 place")),
    ] {
        let request = TempFile::new(&input("r1", &messages));
        let mut command = diglot();
        command.args(["translate", "--request", "--from", "ag-ui", "--to"]).args([file.path(), request.path()]);
        let notes = String::from_utf8(command.output().expect("the binary starts").stderr).expect("UTF-8");
        assert_eq!(notes.contains("left out content"), count.is_some(), "{messages}: {notes}");
        assert!(notes.contains(count.unwrap_or_default()), "{messages}: {notes}");
    }
}

/// Content is a text or a list of parts (AG-UI's `UserMessage`); a text may look like a list.
#[test]
fn texts_that_hold_lists_stay_texts() {
    let list = r#"[{"type": "text", "text": "x"}]"#;
    let [call, result] = call_and_result();
    let result = json!({"id": result["id"], "role": "tool", "toolCallId": CALL, "content": list});
    for (dialect, messages, path) in [
        ("openai-chat", json!([question("u1", list)]), "/messages/0/content"),
        ("openai-chat", json!([question("u1", "Q"), call, result]), "/messages/2/content"),
        ("coze-chat", json!([question("u1", list)]), "/additional_messages/0/content"),
        ("dify-chat", json!([question("u1", list)]), "/query"),
    ] {
        let file = TempFile::new(&input("r1", &messages));
        let done =
            diglot().args(["translate", "--request", "--from", "ag-ui", "--to", dialect]).arg(file.path()).output();
        let done = done.expect("the binary starts");
        let body: Value = serde_json::from_slice(&done.stdout).expect("JSON");
        assert_eq!(body.pointer(path), Some(&json!(list)), "{dialect}: {body}");
    }
}
