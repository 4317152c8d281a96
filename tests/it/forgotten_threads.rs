//! Agents that no longer know a conversation: their clients get an error that says so, and the next run begins another
//! one.

use super::support::agent::{Agent, Step, write};
use super::support::client::{Answer, Client, INPUT, post, send_request};
use super::support::gateway::{Gateway, Setup, TempFile};
use super::support::redis::Redis;
use super::support::sse::{self, HEAD};
use serde_json::{Value, json};

const GONE: &str = "The agent no longer knows this conversation: the next message begins a new one.";

const CODE: &str = "upstream_conversation_lost";

/// A dialect file with two forms of the error: a status, and a code within the stream.
const ACME: &str = r#"
name: acme
request:
  body: {query: "{@user_text}", session: "{@thread.session}"}
events:
  - has: session
    keep: {session: "{session}"}
  - has: say
    emit: {type: TEXT_MESSAGE_CHUNK, messageId: m, delta: "{say}"}
  - has: why
    fail: {message: "{why}", code: "{no}"}
  - has: over
    done: true
error: {message: why, code: no, forget: [{status: 419}, {code: [E9, 7]}]}
"#;

fn stream(frames: &[Value]) -> String {
    HEAD.to_owned() + &frames.iter().map(|data| format!("data: {data}\n\n")).collect::<String>()
}

fn json_response(status: &str, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// A run that keeps this session.
fn answered(session: &str) -> String {
    stream(&[json!({"session": session, "say": "Hi"}), json!({"over": true})])
}

fn in_stream(code: &Value) -> String {
    stream(&[json!({"why": "no such session", "no": code})])
}

/// The `run`th request of a thread; all but the first have an earlier answer.
fn request(run: usize) -> String {
    let earlier =
        r#""messages":[{"id":"m0","role":"user","content":"first"},{"id":"a0","role":"assistant","content":"Hi"},"#;
    let input = INPUT.replace("\"r1\"", &format!("\"r{run}\""));
    post("/run", "", &if run == 1 { input } else { input.replace("\"messages\":[", earlier) })
}

async fn start(agent: &Agent, file: &str, dialect: &str, more: &str, redis: Option<&Redis>) -> Gateway {
    let redis = redis.map(|redis| redis.yaml(", deadline: 1s")).unwrap_or_default();
    let top = format!("dialect_files: [{file}]\n{redis}");
    let routes = format!(
        "routes: [{{name: run, path: /run, client: ag-ui, agent: {dialect}, upstream: \"{}\"{more}}}]\n",
        agent.url()
    );
    Gateway::start(Setup { top: &top, routes: &routes, ..Setup::default() }).await
}

/// The RUN_ERROR of a stream, or the problem document before one, as code and message.
fn error_of(answer: &Answer) -> (String, String) {
    let text = answer.text();
    let error = match text.starts_with('{') {
        true => serde_json::from_str(text).expect("a problem document"),
        false => sse::events(text).pop().expect("an event"),
    };
    let message = error.get("message").or(error.get("detail"));
    (
        error["code"].as_str().unwrap_or_default().to_owned(),
        message.and_then(Value::as_str).unwrap_or_default().to_owned(),
    )
}

/// Dify's and Coze's errors are those of their documents: "Send Chat Message", 404 `conversation_not_exists`; 错误码, 4002.
#[tokio::test]
async fn a_forgotten_conversation_is_begun_anew() {
    let acme = TempFile::new(ACME);
    let shipped = |name: &str| format!("{}/config/dialects/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    let message = |id: &str| json!({"event": "message", "message_id": "m", "conversation_id": id, "answer": "Hi"});
    let end = |id: &str| json!({"event": "message_end", "message_id": "m", "conversation_id": id, "metadata": {}});
    let dify = |id: &str| stream(&[message(id), end(id)]);
    let gone = json!({"status": 404, "code": "not_found", "message": "Conversation Not Exists."});
    let chat = |id: &str| {
        let data = json!({"id": "chat", "conversation_id": id});
        format!(
            "{HEAD}event: conversation.chat.created\ndata: {data}\n\nevent: conversation.chat.completed\ndata: {data}\n\n"
        )
    };
    let acme = acme.path().display().to_string();
    let dify_gone = json_response("404 NOT FOUND", &gone);
    let coze_gone = json_response("200 OK", &json!({"code": 4002, "msg": "invalid conversation"}));
    // The dialect and its file, the first and last answer, the error, how the route has it, and the agent's own words.
    let rows = [
        (
            "dify-chat",
            shipped("dify-chat"),
            dify("1"),
            dify_gone.clone(),
            ", agent_errors: pass",
            " Conversation Not Exists. (not_found)",
        ),
        ("dify-chat", shipped("dify-chat"), dify("1"), dify_gone, ", errors: run_error", " Send the message again."),
        (
            "coze-chat",
            shipped("coze-chat"),
            chat("1"),
            coze_gone,
            ", agent_errors: pass",
            " invalid conversation (4002)",
        ),
        ("acme", acme.clone(), answered("1"), in_stream(&json!("E9")), "", " no such session"),
        ("acme", acme.clone(), answered("1"), in_stream(&json!(7)), "", " no such session"),
        (
            "acme",
            acme,
            answered("1"),
            "HTTP/1.1 419 Gone\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned(),
            "",
            "",
        ),
    ];
    for (dialect, file, first, error, more, words) in rows {
        let mut agent = Agent::with_responses(&[first.clone(), error, first]);
        let gateway = start(&agent, &file, dialect, more, None).await;
        let mut send = async |run: usize| {
            let answer = send_request(gateway.data, request(run)).await;
            let sent = agent.next_request().await;
            let line = sent.head.lines().next().unwrap_or_default().to_owned();
            (answer, line + &sent.json().to_string())
        };
        let names_one = |sent: &str| ["conversation_id", "\"session\""].iter().any(|name| sent.contains(name));
        let (answer, sent) = send(1).await;
        assert_eq!((answer.status, names_one(&sent)), (200, false), "{sent} {}", answer.text());
        let (answer, sent) = send(2).await;
        assert!(names_one(&sent), "{sent}");
        let (code, message) = error_of(&answer);
        assert_eq!(code, CODE, "{}", answer.text());
        assert!(message.starts_with(&format!("{GONE}{words}")), "{message}");
        let (answer, sent) = send(3).await;
        assert_eq!((answer.status, names_one(&sent)), (200, false), "{sent} {}", answer.text());
        // Coze gets the earlier messages.
        assert_eq!(answer.text().contains("diglot.conversation_lost"), dialect != "coze-chat", "{}", answer.text());
    }
}

#[tokio::test]
async fn other_errors_forget_nothing() {
    let acme = TempFile::new(ACME);
    let file = acme.path().display().to_string();
    let refused = json_response("404 Not Found", &json!({"why": "busy", "no": "E8"}));
    let mut agent = Agent::with_responses(&[answered("1"), refused, in_stream(&json!("E8")), answered("1")]);
    let gateway = start(&agent, &file, "acme", "", None).await;
    let mut codes = Vec::new();
    for run in 1..5 {
        let answer = send_request(gateway.data, request(run)).await;
        codes.push(error_of(&answer).0);
        let sent = agent.next_request().await.json();
        assert_eq!(sent.get("session").is_some(), run > 1, "{run}: {sent}");
    }
    assert_eq!(codes, ["", "upstream_status", "E8", ""]);
    // Without a session, the agent means something else.
    let mut agent = Agent::with_responses(&[json_response("400 Bad Request", &json!({"why": "what?", "no": "E9"}))]);
    let gateway = start(&agent, &file, "acme", "", None).await;
    sse::assert_refused(&send_request(gateway.data, request(1)).await, 400, "upstream_status");
    agent.next_request().await;
}

/// An agent that refuses the conversation of its second run when the test says so, after this frame.
fn slow_agent(frame: &Value, later: &[String]) -> Agent {
    let respond = |response: &String| vec![Step::Read, write(response)];
    let gone = format!("data: {}\n\n", json!({"why": "no such session", "no": "E9"}));
    let slow = vec![Step::Read, write(stream(std::slice::from_ref(frame))), Step::Pause, write(gone)];
    let scripts = [respond(&answered("1")), slow].into_iter().chain(later.iter().map(respond));
    Agent::with_scripts(scripts.collect())
}

/// The agent knows a conversation that another run has begun meanwhile, but not the one that the same run named.
#[tokio::test]
async fn a_slow_run_forgets_only_what_it_knows() {
    let redis = Redis::start().await;
    let acme = TempFile::new(ACME);
    let file = acme.path().display().to_string();
    let newer = [in_stream(&json!("E9")), answered("2"), answered("3")];
    // The slow run's frame, the other runs until its end, and what the next one gets.
    let rows = [
        (json!({"say": "Hm"}), 2, &newer[..], json!("2")),
        (json!({"session": "1b", "say": "Hm"}), 0, &newer[2..], Value::Null),
    ];
    for (frame, others, later, expected) in rows {
        for shared in [None, Some(&redis)] {
            let request = |run: usize| request(run).replace("\"t1\"", &format!("\"t{others}\""));
            let mut agent = slow_agent(&frame, later);
            let mut gateway = start(&agent, &file, "acme", "", shared).await;
            if shared.is_some() {
                gateway.next_log("redis answers").await;
            }
            send_request(gateway.data, request(1)).await;
            let mut slow = Client::connect(gateway.data).await;
            slow.send(request(2)).await;
            slow.read_head().await;
            slow.read_until("Hm").await;
            for run in 3..3 + others {
                send_request(gateway.data, request(run)).await;
            }
            agent.resume();
            slow.read_until(CODE).await;
            send_request(gateway.data, request(9)).await;
            for _ in 0..2 + others {
                agent.next_request().await;
            }
            assert_eq!(agent.next_request().await.json()["session"], expected, "{frame} {}", shared.is_some());
        }
    }
}

#[tokio::test]
async fn a_conversation_that_one_replica_forgets_is_forgotten_by_all() {
    let redis = Redis::start().await;
    let acme = TempFile::new(ACME);
    let file = acme.path().display().to_string();
    let mut agents = [
        Agent::with_responses(&[answered("1"), in_stream(&json!("E9")), answered("2")]),
        Agent::with_responses(&[answered("1"), answered("2")]),
    ];
    let mut one = start(&agents[0], &file, "acme", "", Some(&redis)).await;
    let mut other = start(&agents[1], &file, "acme", "", Some(&redis)).await;
    one.next_log("redis answers").await;
    other.next_log("redis answers").await;
    let mut send = async |replica: usize, run: usize| {
        let gateway = [&one, &other][replica];
        let answer = send_request(gateway.data, request(run)).await;
        let sent = agents[replica].next_request().await.json();
        (error_of(&answer).0, sent["session"].clone())
    };
    assert_eq!(send(0, 1).await, (String::new(), Value::Null));
    assert_eq!(send(1, 2).await, (String::new(), json!("1")));
    assert_eq!(send(0, 3).await, (CODE.to_owned(), json!("1")));
    // The other one has the value in its memory.
    assert_eq!(send(1, 4).await, (String::new(), Value::Null));
    assert_eq!(send(0, 5).await, (String::new(), json!("2")));
}
