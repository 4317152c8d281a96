//! Dialect files: the ones that ship, in front of agents that send what the documents of their APIs print, and mistakes.

use super::dialect_file_pieces::PIECES;
use super::support::agent::{Agent, Step, write};
use super::support::client::{INPUT, post, send_request};
use super::support::gateway::{Gateway, Setup, TempFile, diglot};
use super::support::sha256;
use super::support::sse::{self, HEAD};
use diglot::codec::sse::SseLimits;
use diglot::dialect::PeerDialect;
use diglot::translate::{RunIds, Stream};
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

/// The cause is the route's `agent`, not an agent that broke off.
#[tokio::test]
async fn a_wrong_dialect_of_the_route_is_named() {
    let chunks = frames(&[chunk(&json!({"content": "Hello"}), Value::Null), chunk(&json!({}), json!("stop"))]);
    let ag_ui = frames(&[
        json!({"type": "RUN_STARTED", "threadId": "t1", "runId": "r1"}),
        json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "Hello"}),
        json!({"type": "RUN_FINISHED", "threadId": "t1", "runId": "r1"}),
    ]);
    let rows = [
        ("hai", format!("{chunks}data: [DONE]\n\n"), 2, "openai-chat", ", and name its file in `dialect_files`"),
        ("openai-chat", ag_ui, 3, "ag-ui", ""),
        (
            "auto",
            frames(&[message("Hello"), message(" there")]),
            2,
            "dify-chat",
            ", and name its file in `dialect_files`",
        ),
    ];
    for (expected, stream, events, actual, more) in rows {
        let agent = Agent::with_response(format!("{HEAD}{stream}"));
        let mut gateway = start(&agent, "openai-chat.yaml", expected, "", "").await;
        let answer = send_request(gateway.data, post("/run", "", INPUT)).await;
        let events_of_client = sse::events(answer.text());
        let error = events_of_client.last().expect("an event");
        assert_eq!((&error["type"], &error["code"]), (&json!("RUN_ERROR"), &json!("upstream_dialect")), "{error}");
        assert_eq!(error["message"], "The agent's events are not known to the gateway.");
        let line = gateway.next_log("the agent's dialect is not the one in `agent` of the route").await;
        assert_eq!((&line["looks_like"], &line["events"]), (&json!(actual), &json!(events)));
        let line = gateway.next_log("run ended").await;
        let cause = format!(
            "none of {events} events is known to the dialect `{expected}`; they look like `{actual}`: set `agent: {actual}`{more}"
        );
        assert_eq!((&line["code"], &line["cause"]), (&json!("upstream_dialect"), &json!(cause)));
    }
}

/// The answer is empty although the run finishes, if a rule asks for no value.
#[tokio::test]
async fn a_payload_that_no_event_has_is_named() {
    let lines = "event: token\ndata: {\"body\":{\"txt\":\"Hi\"}}\n\nevent: bye\ndata: {\"body\":{}}\n\n";
    let wrong = "no event of the agent has a value at the `payload` of its dialect file";
    for (payload, rule, warning, code) in [
        ("bdy", "when: {\"@event\": bye}", Some(wrong), Value::Null),
        ("body", "when: {\"@event\": bye}", None, Value::Null),
        ("bdy", "has: bye", None, json!("upstream_dialect")),
    ] {
        let agent = Agent::with_response(format!("{HEAD}{lines}"));
        let file = TempFile::new(&format!(
            "name: acme\npayload: {payload}\nevents:\n  - {{has: txt, emit: {{type: TEXT_MESSAGE_CHUNK, delta: \"{{txt}}\"}}}}\n  - {{{rule}, done: true}}\n"
        ));
        let mut gateway = start(&agent, file.path().to_str().expect("UTF-8"), "acme", "", "").await;
        send_request(gateway.data, post("/run", "", INPUT)).await;
        if let Some(warning) = warning {
            let line = gateway.next_log(warning).await;
            assert_eq!((&line["level"], &line["payload"]), (&json!("WARN"), &json!(payload)));
        }
        let line = gateway.next_log("run ended").await;
        let level = if payload == "bdy" { "WARN" } else { "INFO" };
        assert_eq!((&line["level"], &line["code"]), (&json!(level), &code), "{line}");
        let cause = "none of 2 events is known to the dialect `acme`; no event has a value at its `payload: bdy`";
        assert_eq!(line["cause"] == cause, code != Value::Null, "{line}");
    }
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
    assert_eq!(problem["detail"], "Rate limit reached for gpt-4o-mini (rate_limit_exceeded)");
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

/// Rules that look into the text of frames that are otherwise alike: as a word, a table, a flag, an id, the name of what
/// follows, and whole texts among pieces.
const LOOKS_INTO_TEXT: &str = r#"
name: looks
events:
  - when: {"@event": other}
    ignore: true
  - when: {text: stop}
    finish: {}
    done: true
  - has: word
    emit: {type: TEXT_MESSAGE_CHUNK, messageId: w, delta: {from: "{word}", table: {yes: "да"}, otherwise: "{word}"}}
  - has: flag
    set: {last: "{flag}"}
  - when: {"@run.last": red}
    has: flag
    emit: {type: TEXT_MESSAGE_CHUNK, messageId: f, delta: "red again"}
  - has: flag
    emit: {type: TEXT_MESSAGE_CHUNK, messageId: f, delta: "{flag}"}
  - has: own
    emit: {type: TEXT_MESSAGE_CHUNK, messageId: "{own}", delta: "{own}"}
  - has: also
    emit: {type: TEXT_MESSAGE_CHUNK, messageId: v, delta: "{also}"}
  - has: also
    emit: {type: REASONING_MESSAGE_CHUNK, delta: {from: "{also}", table: {end: "aha"}}}
  - has: "$[1]"
    emit: {type: TEXT_MESSAGE_CHUNK, messageId: l, delta: "{$[1]}"}
  - when: {"$[1]": end}
    emit: {type: TEXT_MESSAGE_CHUNK, messageId: l, delta: "the end"}
  - has: "in[1]"
    emit: {type: TEXT_MESSAGE_CHUNK, messageId: i, delta: "{in[1]}"}
  - when: {"in[1]": end}
    emit: {type: TEXT_MESSAGE_CHUNK, messageId: i, delta: "the end"}
  - has: 内容
    emit: {type: TEXT_MESSAGE_CHUNK, messageId: z, delta: "{内容}"}
  - when: {内容: end}
    emit: {type: TEXT_MESSAGE_CHUNK, messageId: z, delta: "the end"}
  - has: part
    lacks: "part.of"
    emit: {type: TEXT_MESSAGE_CHUNK, messageId: p, delta: "{part}"}
  - has: "part.of"
    emit: {type: TEXT_MESSAGE_CHUNK, messageId: p, delta: "one of an object"}
  - when: {timestamp: 1002}
    emit: {type: TEXT_MESSAGE_CHUNK, messageId: t, delta: "it is time"}
  - has: at
    emit: {type: TEXT_MESSAGE_CHUNK, messageId: t, delta: "{at}", timestamp: "{timestamp}"}
  - has: text
    lacks: "@event"
    emit: {type: TEXT_MESSAGE_CHUNK, messageId: s, delta: "{text}"}
  - has: all
    emit: {type: TEXT_MESSAGE_CHUNK, messageId: s, content: "{all}"}
"#;

/// Returns the dialect of a file.
fn agent_of(text: &str, name: &str) -> PeerDialect {
    let file = TempFile::new(text);
    let config = format!(
        "dialect_files: [{}]\nroutes: [{{path: /a, client: ag-ui, agent: {name}, upstream: \"http://h/\"}}]\n",
        file.path().display()
    );
    diglot::config::load::from_str("test.yaml", &config).expect("a valid file").routes[0].agent
}

/// As its whole data, and in a table whose word becomes text.
#[test]
fn texts_that_rules_look_at_are_not_copied() {
    let whole = r#"  - when: {"@data": '{"text":"d","n":1}'}
    done: true
  - has: text
    emit: {type: TEXT_MESSAGE_CHUNK, messageId: m, delta: "{text}"}"#;
    let table = r#"  - has: text
    emit: {type: TEXT_MESSAGE_CHUNK, messageId: m, delta: {as_text: {from: "{text}", table: {d: "да"}, otherwise: "{text}"}}}"#;
    let body = ["a", "b", "c", "d"].map(|text| format!("data: {{\"text\":\"{text}\",\"n\":1}}\n\n")).concat();
    for (rules, expected) in [(whole, "\"RUN_FINISHED\""), (table, "\"delta\":\"да\"")] {
        let agent = agent_of(&format!("name: looks\nevents:\n{rules}\n  - has: end\n    done: true\n"), "looks");
        let client = PeerDialect::new(&diglot::dialect::AG_UI);
        let mut stream = Stream::new(agent, client, Some(RunIds::new("t1", "r1")), SseLimits::default());
        let mut out = Vec::new();
        stream.push(body.as_bytes(), 0, &mut out).expect("a stream");
        let out = String::from_utf8(out).expect("UTF-8");
        assert!(out.contains(expected), "{rules}: {out}");
    }
}

#[test]
fn a_frame_that_repeats_another_is_read_by_its_rules() {
    let agent = agent_of(LOOKS_INTO_TEXT, "looks");
    let client = PeerDialect::new(&diglot::dialect::AG_UI);
    let words = |member: &str, texts: &[&str]| -> Vec<String> {
        texts
            .iter()
            .enumerate()
            .map(|(at, text)| format!("data: {{\"{member}\":\"{text}\",\"n\":{}}}\n\n", 10 + at))
            .collect()
    };
    let of = |frame: &str| -> String {
        ["a", "b", "c", "end"].map(|text| format!("data: {}\n\n", frame.replace("TEXT", text))).concat()
    };
    let texts = words("text", &["a", "b", "c", "d"]);
    let cases = [
        (words("text", &["a", "b", "c", "stop", "never"]).concat(), vec!["a", "b", "c"]),
        (words("word", &["no", "so", "yes", "oh"]).concat(), vec!["no", "so", "да", "oh"]),
        (words("flag", &["a", "b", "red", "c"]).concat(), vec!["a", "b", "red again", "red", "c"]),
        (words("own", &["a", "b", "a"]).concat(), vec!["a", "b", "a"]),
        (words("also", &["a", "b", "c", "end"]).concat(), vec!["a", "b", "c", "end", "aha"]),
        (of(r#"["x","TEXT"]"#), vec!["a", "b", "c", "end", "the end"]),
        (of(r#"{"in":[{"n":1},"TEXT"]}"#), vec!["a", "b", "c", "end", "the end"]),
        (of(r#"{"\u5185\u5bb9":"TEXT"}"#), vec!["a", "b", "c", "end", "the end"]),
        // The space is one of those that end no word of JSON.
        (
            words("part", &["a", "b", "[1]", "\u{3000}{\\\"of\\\":1}"]).concat(),
            vec!["a", "b", "[1]", "one of an object"],
        ),
        // Of times, one is compared.
        (
            (1000..1003).map(|time| format!("data: {{\"at\":\"a\",\"timestamp\":{time}}}\n\n")).collect(),
            vec!["a", "a", "it is time", "a"],
        ),
        // The whole text is compared with what the shortcut wrote, too.
        (texts.concat() + "data: {\"all\":\"abcde\"}\n\n", vec!["a", "b", "c", "d", "e"]),
        // The same data under another name is another event.
        (texts[..3].concat() + "event: other\n" + &texts[3], vec!["a", "b", "c"]),
    ];
    for (body, expected) in cases {
        let mut stream = Stream::new(agent, client, Some(RunIds::new("t1", "r1")), SseLimits::default());
        let mut out = Vec::new();
        let done = stream.push(body.as_bytes(), 0, &mut out).and_then(|()| stream.finish(0, &mut out));
        assert_eq!(done.is_ok(), body.contains("stop"), "{body}");
        let out = String::from_utf8(out).expect("UTF-8");
        let deltas: Vec<Value> = sse::events(&out).iter().filter_map(|event| event.get("delta").cloned()).collect();
        assert_eq!(deltas, expected, "{body}\n{out}");
    }
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

/// A configuration that names a dialect file has the warnings of the file, once, also where its examples are run.
#[test]
fn warnings_of_a_file_are_those_of_its_configuration_too() {
    let file = TempFile::new(
        "name: acme\nevents:\n  - when: {type: \"text.*\"}\n    emit: {type: TEXT_MESSAGE_CHUNK, delta: \"{text}\"}\n  - has: over\n    done: true\n",
    );
    let path = file.path().to_str().expect("UTF-8");
    let route = "{path: /a, client: ag-ui, agent: acme, upstream: \"http://127.0.0.1:1\"}";
    let config = TempFile::new(&format!("drain_timeout: 0s\ndialect_files: [{path}]\nroutes: [{route}]\n"));
    let config_path = config.path().to_str().expect("UTF-8");
    for arguments in [["check", "--strict"].as_slice(), &["check", "--strict", "--test"]] {
        let output = run(&[arguments, &[config_path]].concat());
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let (first, second) = (text.find(":1:16: "), text.find(&format!("{path}:3:18: ")));
        assert!(first.is_some() && first < second, "the configuration's own come first: {text}");
        assert_eq!(text.matches("is compared as it is written: there are no patterns").count(), 1, "{text}");
    }
}

/// An incomplete frame at the end is dropped, as for other agents and as official clients do: the run is cut off,
/// unless the agent has said that the answer is complete.
#[tokio::test]
async fn a_cut_frame_does_not_reach_the_client() {
    let text = |end: Value| chunk(&json!({"role": "assistant", "content": "Hel"}), end);
    let cases = [
        (Value::Null, "data: {\"choices\":[{\"secr", "RUN_ERROR"),
        (Value::Null, "data: ", "RUN_ERROR"),
        (Value::Null, "data: [DO", "RUN_ERROR"),
        (Value::Null, "data: [DONE]", "RUN_FINISHED"),
        // The official client compares the begin of the data [node], fromSSEResponse.
        (Value::Null, "data: [DONE] ", "RUN_FINISHED"),
        (json!("stop"), "data: [DO", "RUN_FINISHED"),
    ];
    for (end, cut, last) in cases {
        let agent = Agent::with_response(format!("{HEAD}{}{cut}", frames(&[text(end)])));
        let gateway = start(&agent, "openai-chat.yaml", "openai-chat", "", "").await;
        let answer = send_request(gateway.data, post("/run", "", INPUT)).await;
        let begun = ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT"];
        if last == "RUN_ERROR" {
            sse::assert_failed(&answer, "upstream_truncated", &begun);
        } else {
            sse::assert_succeeded(&answer, &[&begun[..], &["TEXT_MESSAGE_END", last]].concat());
        }
    }
}

/// The last frame lacks its blank line, but an event without data is no cut one.
#[tokio::test]
async fn a_last_frame_without_a_blank_line_may_have_no_data() {
    let file = TempFile::new(
        "name: acme\nevents:\n  - when: {\"@event\": word}\n    emit: {type: TEXT_MESSAGE_CHUNK, delta: \"{@data}\"}\n  \
         - when: {\"@event\": over}\n    done: true\n",
    );
    let top = format!("dialect_files: [{}]", file.path().display());
    let agent = Agent::with_response(format!("{HEAD}event: word\ndata: hello\n\nevent: over\ndata:\n"));
    let routes =
        format!("routes:\n  - {{name: run, path: /run, client: ag-ui, agent: acme, upstream: \"{}\"}}\n", agent.url());
    let gateway = Gateway::start(Setup { top: &top, routes: &routes, ..Setup::default() }).await;
    let answer = send_request(gateway.data, post("/run", "", INPUT)).await;
    let events = ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"];
    sse::assert_succeeded(&answer, &events);
}

/// The cut word is one with which a rule of the file compares the data.
#[tokio::test]
async fn a_cut_word_that_ends_streams_does_not_reach_the_client() {
    let file = TempFile::new(
        "name: acme\nevents:\n  - has: say\n    emit: {type: TEXT_MESSAGE_CHUNK, delta: \"{say}\"}\n  \
         - when: {\"@data\": OVER}\n    done: true\n",
    );
    let top = format!("dialect_files: [{}]", file.path().display());
    for (cut, last) in [("OVE", "RUN_ERROR"), ("OVER", "RUN_FINISHED"), ("[DO", "RAW")] {
        let agent = Agent::with_response(format!("{HEAD}{}data: {cut}", frames(&[json!({"say": "Hi"})])));
        let routes = format!(
            "routes:\n  - {{name: run, path: /run, client: ag-ui, agent: acme, upstream: \"{}\"}}\n",
            agent.url()
        );
        let gateway = Gateway::start(Setup { top: &top, routes: &routes, ..Setup::default() }).await;
        let answer = send_request(gateway.data, post("/run", "", INPUT)).await;
        let events = sse::events(answer.text());
        let types = sse::types(&events);
        assert_eq!(types.contains(&"RAW"), last == "RAW", "{cut}: {types:?}");
        assert!(types.contains(&last), "{cut}: {types:?}");
    }
}

#[tokio::test]
async fn a_changed_file_is_loaded() {
    let agent =
        Agent::with_response(format!("{HEAD}{}", frames(&[json!({"say": "Hi", "id": "m"}), json!({"over": true})])));
    let file = TempFile::new(&format!("{}  []\n", PIECES.trim_end()));
    let routes =
        format!("routes:\n  - {{name: run, path: /run, client: ag-ui, agent: acme, upstream: \"{}\"}}\n", agent.url());
    let top = format!("dialect_files: [{}]", file.path().display());
    let mut gateway = Gateway::start(Setup { top: &top, routes: &routes, ..Setup::default() }).await;
    let text = std::fs::read_to_string(file.path()).expect("the file");
    std::fs::write(file.path(), "garbage: [").expect("the file");
    gateway.next_log("configuration refused; the last good one stays in use").await;
    std::fs::write(file.path(), text.replace("delta: \"{say}\"", "delta: \"<{say}>\"")).expect("the file");
    gateway.next_log("configuration reloaded").await;
    let answer = send_request(gateway.data, post("/run", "", INPUT)).await;
    assert!(answer.text().contains("<Hi>"), "{}", answer.text());
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
