//! The inspector: what is captured of runs, how much of it, and who may look.

mod timelines;
mod broken_agents;

use super::support::agent::{Agent, Step, write};
use super::support::client::{Answer, Client, INPUT, post, post_run, send_request};
use super::support::eventually;
use super::support::gateway::{Gateway, Setup};
use super::support::sse::{CHUNKED, CLOSED, HEAD, STARTED, chunk, complete_run, events, run_beginning};
use super::support::temp_folder::TempFolder;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;

/// The folder of the admin socket.
pub struct RunDir(pub TempFolder);

impl RunDir {
    pub fn new() -> RunDir {
        RunDir(TempFolder::new())
    }

    /// Returns status and body of a request on the admin socket.
    pub fn request(&self, what: &str, body: &str) -> (u16, String) {
        let mut stream = UnixStream::connect(self.0.join("admin.sock")).expect("a socket");
        let length = body.len();
        // HTTP/1.0 has no chunks.
        let head = format!("{what} HTTP/1.0\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {length}");
        stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).expect("room");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        (head.split(' ').nth(1).expect("a status").parse().expect("a number"), body.to_owned())
    }

    pub fn lines(&self, path: &str) -> Vec<Value> {
        let (status, body) = self.request(&format!("GET {path}"), "");
        assert_eq!(status, 200, "{body}");
        body.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// Waits for the end of the last run, and returns its summary.
    pub async fn last_run(&self) -> Value {
        eventually("the end of the run", async || {
            self.lines("/inspect/v1/runs").pop().filter(|run| run["state"] == "ended")
        })
        .await
    }
}

/// A gateway with one route to the agent.
async fn start(agent: &Agent, run_dir: &RunDir, top: &str, route: &str) -> Gateway {
    let top = format!("run_dir: {}\n{top}", run_dir.0.path().display());
    let routes = format!("routes:\n  - {{name: chat, path: /chat, upstream: \"{}\", {route}}}\n", agent.url());
    Gateway::start(Setup { top: &top, routes: &routes, ..Setup::default() }).await
}

const HAI_RUN: &str = concat!(
    "data: {\"type\":\"RUN_STARTED\",\"messageId\":\"m\"}\n\n",
    "data: {\"type\":\"BUSINESS_DATA_START\",\"messageId\":\"m\",\"role\":\"assistant\"}\n\n",
    "data: {\"type\":\"BUSINESS_DATA_CONTENT\",\"messageId\":\"m\",\"delta\":\"one\"}\n\n",
    "data: {\"type\":\"BUSINESS_DATA_END\",\"messageId\":\"m\"}\n\n",
    "data: {\"type\":\"RUN_FINISHED\",\"messageId\":\"m\"}\n\n",
);

#[tokio::test]
async fn aligns_both_sides_of_a_run() {
    let agent = Agent::with_response(HEAD.to_owned() + HAI_RUN);
    let run_dir = RunDir::new();
    let gateway = start(&agent, &run_dir, "", "client: ag-ui, agent: hai, inspect: full").await;
    let answer = post_run(gateway.data, "/chat").await;
    let run = run_dir.last_run().await;
    assert_eq!((&run["route"], &run["outcome"]), (&json!("chat"), &json!("finished")));
    assert_eq!((&run["thread_id"], &run["client"], &run["agent"]), (&json!("t1"), &json!("ag-ui"), &json!("hai")));
    let id = &run["id"];
    let rows = run_dir.lines(&format!("/inspect/v1/runs/{id}/rows"));
    let data = |event: &Value| serde_json::from_str::<Value>(event["data"].as_str().expect("text")).expect("JSON");
    let client: Vec<Value> = rows.iter().flat_map(|row| row["client"].as_array().expect("a list")).map(data).collect();
    assert_eq!(client, events(answer.text()), "the client's side is what the client received");
    let agent_side: Vec<Value> =
        rows.iter().filter(|row| !row["agent"].is_null()).map(|row| data(&row["agent"])).collect();
    assert_eq!(agent_side, events(HAI_RUN));
    // §3.3.1 of the seed: the message's text; START is held until there is something to show.
    assert_eq!(rows[1]["cause"], "held");
    assert_eq!(rows[2]["cause"], "split");
    assert_eq!(rows[2]["canonical"], json!(["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT"]));
    // START has its form in the row whose text it opens.
    assert_eq!((&rows[2]["releases"], &rows[3]["releases"]), (&json!([2]), &json!([])));
    let types = run["types"].as_array().expect("a list");
    for kind in ["BUSINESS_DATA_CONTENT", "TEXT_MESSAGE_START", "RUN_FINISHED"] {
        assert!(types.contains(&json!(kind)), "{kind}: {types:?}");
    }
    let (status, detail) = run_dir.request(&format!("GET /inspect/v1/runs/{id}"), "");
    let detail: Value = serde_json::from_str(&detail).expect("JSON");
    assert_eq!((status, &detail["requests"]["client"]), (200, &json!(INPUT)));
    assert!(detail["requests"]["agent"].as_str().is_some_and(|body| body.contains("\"hi\"")), "{detail}");
}

#[tokio::test]
async fn shows_the_timeline_of_a_run_and_the_heads_of_its_requests() {
    let agent = Agent::with_response(HEAD.to_owned() + HAI_RUN);
    let run_dir = RunDir::new();
    // The digest is of the key below.
    let digest = "217a5b814ca9e4171047224fc7860faa46c9c11423ebe5f098d255481f77aa1a";
    let top = format!(
        "auth: {{api_keys: [{{name: keys, header: x-api-key, keys: [{{id: k1, sha256: {digest}, subject: ada}}]}}]}}\n\
         rate_limits: [{{name: each, key: caller, requests: 1, per: 1h}}]"
    );
    let route = "client: ag-ui, agent: hai, inspect: full, auth: [keys], rate_limits: [each]";
    let gateway = start(&agent, &run_dir, &top, route).await;
    let with_key = |key: &str| post("/chat", &format!("X-Api-Key: {key}\r\nCookie: a=s3cret\r\n"), INPUT);
    for (key, outcome, decision) in [
        ("s3cret-of-ada-0123456789", "finished", ("authenticate", "passed", None, "an API key of keys, in x-api-key")),
        (
            "s3cret-of-bob-0123456789",
            "refused",
            ("authenticate", "refused", Some("invalid_token"), "an API key of keys, in x-api-key"),
        ),
        (
            "s3cret-of-ada-0123456789",
            "refused",
            ("limits after auth", "refused", Some("rate_limited"), "each: 1 request in 1h"),
        ),
    ] {
        send_request(gateway.data, with_key(key)).await;
        let run = run_dir.last_run().await;
        let (_, detail) = run_dir.request(&format!("GET /inspect/v1/runs/{}", run["id"]), "");
        assert!(!detail.contains("s3cret"), "{detail}");
        let detail: Value = serde_json::from_str(&detail).expect("JSON");
        assert_eq!(detail["outcome"], outcome, "{detail}");
        let head = detail["requests"]["client_head"].as_str().expect("a head");
        assert!(head.starts_with("POST /chat HTTP/1.1\n") && head.contains("x-api-key: ***\n"), "{head}");
        let moments = detail["timeline"].as_array().expect("a list");
        let (gate, verdict, code, expected) = decision;
        let decided = moments.iter().find(|moment| moment["name"] == gate).expect("the gate");
        assert_eq!((decided["verdict"].as_str(), decided["code"].as_str()), (Some(verdict), code), "{decided}");
        assert!(decided["detail"].as_str().is_some_and(|detail| detail.starts_with(expected)), "{decided}");
    }
    let first = run_dir.lines("/inspect/v1/runs").remove(0);
    let (_, detail) = run_dir.request(&format!("GET /inspect/v1/runs/{}", first["id"]), "");
    let detail: Value = serde_json::from_str(&detail).expect("JSON");
    let head = detail["requests"]["agent_head"].as_str().expect("a head");
    assert!(head.contains("accept: text/event-stream\n"), "{head}");
    let names = detail["timeline"].as_array().expect("a list").iter().map(|moment| moment["name"].clone());
    let names: Vec<_> = names
        .filter(|name| {
            ["body", "sent", "connected", "responded", "first_byte", "end"].contains(&name.as_str().unwrap_or_default())
        })
        .collect();
    assert_eq!(names, ["body", "sent", "connected", "responded", "first_byte", "end"]);
}

#[tokio::test]
async fn names_an_unusual_form_that_is_read_all_the_same() {
    let form = "begins with a byte order mark, and its lines end in CR LF";
    // "LF line endings MUST" (`specs/ag-ui-1.0.md` §4.2), which other event streams need not have.
    let forbidden = format!("{form}, where AG-UI has LF alone");
    for (dialect, events, expected) in [("hai", HAI_RUN, form), ("ag-ui", &complete_run(), &forbidden)] {
        let agent = Agent::with_response(HEAD.to_owned() + "\u{feff}" + &events.replace('\n', "\r\n"));
        let run_dir = RunDir::new();
        let route = format!("client: ag-ui, agent: {dialect}, inspect: events");
        let gateway = start(&agent, &run_dir, "", &route).await;
        post_run(gateway.data, "/chat").await;
        let run = run_dir.last_run().await;
        assert_eq!((run["outcome"].as_str(), run["body_form"].as_str()), (Some("finished"), Some(expected)));
    }
}

/// A broken chunk, a RST, a chunked body without its last chunk: each within an event, the second within a character.
#[tokio::test]
async fn names_the_event_within_which_the_connection_broke() {
    let event = "data: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"a1\",\"delta\":\"你";
    let cut = |bytes: usize| {
        let body = [run_beginning().as_bytes(), &event.as_bytes()[..event.len() - bytes]].concat();
        vec![Step::Read, write(CHUNKED), write(chunk(body))]
    };
    let scripts = [
        (cut(0).into_iter().chain([write("zz\r\n")]).collect::<Vec<_>>(), "upstream_protocol", "within this event"),
        (
            cut(1).into_iter().chain([Step::Pause, Step::Reset]).collect(),
            "upstream_reset",
            "within a character of this event",
        ),
        (cut(0), "upstream_truncated", "within this event"),
    ];
    for (script, code, place) in scripts {
        let agent = Agent::with_script(script);
        let run_dir = RunDir::new();
        let gateway = start(&agent, &run_dir, "", "client: ag-ui, agent: ag-ui, inspect: events").await;
        let mut client = Client::connect(gateway.data).await;
        client.send(post("/chat", "Connection: close\r\n", INPUT)).await;
        client.read_head().await;
        client.read_until("TEXT_MESSAGE_CONTENT").await;
        agent.resume();
        client.read_rest().await;
        let run = run_dir.last_run().await;
        assert_eq!(run["code"], code, "{run}");
        let rows = run_dir.lines(&format!("/inspect/v1/runs/{}/rows", run["id"]));
        let [.., row, end] = rows.as_slice() else { panic!("{rows:?}") };
        assert_eq!(
            (&row["cause"], &row["agent"]["type"]),
            (&json!("dropped"), &json!("TEXT_MESSAGE_CONTENT")),
            "{row}"
        );
        assert_eq!(row["note"], format!("the agent's stream was cut {place}"), "{code}");
        let within = if place.contains("character") { "character" } else { "event" };
        assert_eq!(row["cut_within"], within, "{code}");
        assert_eq!(end["cause"], "gateway", "{end}");
    }
}

/// The types of a run are the names that its rows have, so that one filter finds both.
#[tokio::test]
async fn lists_the_types_that_rows_show() {
    let own = "data: {\"type\":\"MY_OWN\",\"messageId\":\"m\"}\n\n";
    let coze = concat!(
        "event:conversation.chat.created\ndata:{\"id\":\"c\"}\n\n",
        "event:conversation.message.delta\ndata:{\"id\":\"m\",\"type\":\"answer\",\"content\":\"a\",\"content_type\":\"text\"}\n\n",
        "event:conversation.new\ndata:{\"type\":\"answer\"}\n\n",
        "event:conversation.chat.completed\ndata:{\"id\":\"c\"}\n\n",
        "event:done\ndata:\"[DONE]\"\n\n",
    );
    for (dialect, body, redact) in [
        ("hai", HAI_RUN.replacen("\n\n", &format!("\n\n{own}"), 1), ""),
        ("coze-chat", coze.to_owned(), ""),
        // A name can be what the route redacts, so only those of tables are kept.
        ("hai", HAI_RUN.replacen("\n\n", &format!("\n\n{own}"), 1), ", redact: [\"/MY_OWN/\"]"),
    ] {
        let agent = Agent::with_response(HEAD.to_owned() + &body);
        let run_dir = RunDir::new();
        let route = format!("client: ag-ui, agent: {dialect}, inspect: events{redact}");
        let file = concat!("dialect_files: [", env!("CARGO_MANIFEST_DIR"), "/config/dialects/coze-chat.yaml]\n");
        let gateway = start(&agent, &run_dir, file, &route).await;
        post_run(gateway.data, "/chat").await;
        let run = run_dir.last_run().await;
        let listed: BTreeSet<_> = run["types"].as_array().expect("a list").iter().map(Value::to_string).collect();
        let rows = run_dir.lines(&format!("/inspect/v1/runs/{}/rows", run["id"]));
        let events = rows.iter().flat_map(|row| {
            let client = row["client"].as_array().expect("a list");
            client.iter().chain([&row["agent"]]).filter(|event| event["type"].is_string())
        });
        let mut shown: BTreeSet<_> = events.map(|event| event["type"].to_string()).collect();
        if !redact.is_empty() {
            shown.retain(|name| !name.contains('*'));
            shown.insert("\"OTHER\"".to_owned());
        }
        assert_eq!(listed, shown, "{dialect}{redact}");
    }
}

#[tokio::test]
async fn reads_each_side_by_itself() {
    // The agent never ends its message: the gateway does, for the client.
    let frames = HAI_RUN.replacen("data: {\"type\":\"BUSINESS_DATA_END\",\"messageId\":\"m\"}\n\n", "", 1);
    let agent = Agent::with_response(HEAD.to_owned() + &frames);
    let run_dir = RunDir::new();
    let gateway = start(&agent, &run_dir, "", "client: ag-ui, agent: hai, inspect: full").await;
    post_run(gateway.data, "/chat").await;
    let run = run_dir.last_run().await;
    let reading = run_dir.lines(&format!("/inspect/v1/runs/{}/reading", run["id"]));
    let types = |side: &str| -> Vec<String> {
        let events = reading.iter().skip(1).flat_map(|row| row[side].as_array().expect("a list"));
        let parse = |event: &Value| serde_json::from_str::<Value>(event.as_str().expect("text")).expect("JSON");
        events.map(|event| parse(event)["type"].as_str().expect("a type").to_owned()).collect()
    };
    assert_eq!(types("client").iter().filter(|kind| *kind == "TEXT_MESSAGE_END").count(), 1);
    assert_eq!(types("agent").iter().filter(|kind| *kind == "TEXT_MESSAGE_END").count(), 0);
    assert!(types("agent").contains(&"TEXT_MESSAGE_CONTENT".to_owned()), "{:?}", types("agent"));
    // Both requests, read as AG-UI, are what both sides begin with.
    assert_eq!(reading[0]["n"], 0);
    for side in ["agent", "client"] {
        assert!(reading[0][side][0].as_str().is_some_and(|input| input.contains("\"hi\"")), "{}", reading[0]);
    }
    let rows = run_dir.lines(&format!("/inspect/v1/runs/{}/rows", run["id"]));
    let repair = rows
        .iter()
        .flat_map(|row| row["repairs"].as_array().expect("a list"))
        .find(|one| one["label"] == "closer_supplied");
    let rule = repair.expect("a repair")["rule"].as_str().expect("a rule");
    assert!(rule.contains("is ended before"), "{rule}");
}

#[tokio::test]
async fn captures_nothing_unless_it_is_switched_on() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let run_dir = RunDir::new();
    let gateway = start(&agent, &run_dir, "", "client: ag-ui, agent: ag-ui").await;
    post_run(gateway.data, "/chat").await;
    assert!(run_dir.lines("/inspect/v1/runs").is_empty());
    let change = |change: Value| run_dir.request("PUT /inspect/v1/mode", &change.to_string());
    assert_eq!(change(json!({"route": "ch*", "mode": "events"})).0, 200);
    post_run(gateway.data, "/chat").await;
    let run = run_dir.last_run().await;
    let (_, detail) = run_dir.request(&format!("GET /inspect/v1/runs/{}", run["id"]), "");
    let kept: Value = serde_json::from_str(&detail).expect("JSON");
    let requests = kept["requests"].as_object().expect("an object");
    assert!(requests.values().all(Value::is_null), "no requests in the mode `events`: {detail}");
    assert_eq!(change(json!({"route": "*", "mode": null})).0, 200);
    post_run(gateway.data, "/chat").await;
    assert_eq!(run_dir.lines("/inspect/v1/runs").len(), 1);
    let (status, text) = change(json!({"route": "chut", "mode": "full"}));
    assert!(status == 404 && text.contains("the routes are chat"), "{text}");
    let log = gateway.terminate().await;
    assert!(log.contains("capture mode set") && log.contains("run inspected"), "{log}");
}

#[tokio::test]
async fn a_listener_captures_the_runs_of_routes_without_a_mode() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let run_dir = RunDir::new();
    let top = format!("run_dir: {}", run_dir.0.path().display());
    let route = |name: &str, more: &str| {
        format!(
            "  - {{name: {name}, path: /{name}, client: ag-ui, agent: ag-ui, upstream: \"{}\"{more}}}\n",
            agent.url()
        )
    };
    let routes = format!("routes:\n{}{}", route("open", ""), route("closed", ", inspect: off"));
    let listeners = "{data: [{address: 127.0.0.1:0, inspect: full}], status: 127.0.0.1:0}";
    let gateway = Gateway::start(Setup { listeners, top: &top, routes: &routes, ..Setup::default() }).await;
    let modes = || serde_json::from_str::<Value>(&run_dir.request("GET /inspect/v1/mode", "").1).expect("JSON");
    let mode_of = |at: usize| modes()["routes"][at]["mode"].clone();
    assert_eq!((mode_of(0), mode_of(1)), (json!("full"), json!("off")));
    for path in ["/closed", "/open"] {
        post_run(gateway.data, path).await;
    }
    // Refusals are captured likewise.
    for path in ["/closed", "/open"] {
        send_request(gateway.data, post(path, "", "{\"threadId\": 1}")).await;
    }
    let run = run_dir.last_run().await;
    assert_eq!(run["outcome"], "refused");
    let runs = run_dir.lines("/inspect/v1/runs");
    assert!(runs.len() == 2 && runs.iter().all(|run| run["route"] == "open" && run["mode"] == "full"), "{runs:?}");
    let change = json!({"route": "*", "mode": "off"});
    assert_eq!(run_dir.request("PUT /inspect/v1/mode", &change.to_string()).0, 200);
    post_run(gateway.data, "/open").await;
    assert_eq!(run_dir.lines("/inspect/v1/runs").len(), 2, "what an operator sets has the last word");
}

#[tokio::test]
async fn shows_why_a_request_was_refused_or_a_run_failed() {
    let agent = Agent::with_response(HEAD.to_owned() + &run_beginning() + CLOSED);
    let run_dir = RunDir::new();
    let gateway = start(&agent, &run_dir, "", "client: ag-ui, agent: ag-ui, inspect: events").await;
    let answer = send_request(gateway.data, post("/chat", "", "{\"threadId\": 1}")).await;
    assert_eq!(answer.status, 400);
    let run = run_dir.last_run().await;
    assert_eq!((&run["outcome"], &run["code"]), (&json!("refused"), &json!("invalid_request")));
    post_run(gateway.data, "/chat").await;
    let run = run_dir.last_run().await;
    assert_eq!(run["code"], "upstream_truncated");
    let rows = run_dir.lines(&format!("/inspect/v1/runs/{}/rows", run["id"]));
    let last = rows.last().expect("rows");
    assert_eq!((&last["cause"], &last["agent"]), (&json!("gateway"), &Value::Null));
    assert!(last["client"][0]["data"].as_str().is_some_and(|data| data.contains("upstream_truncated")), "{last}");
}

#[tokio::test]
async fn the_error_of_an_agent_that_never_answers_has_its_time_and_the_way_out() {
    let agent = Agent::with_script(vec![Step::Read, Step::WaitForClose]);
    let run_dir = RunDir::new();
    let route = "client: ag-ui, agent: ag-ui, inspect: events, timeouts: {first_byte: 300ms}";
    let gateway = start(&agent, &run_dir, "keep_alive: 50ms\n", route).await;
    post_run(gateway.data, "/chat").await;
    let run = run_dir.last_run().await;
    assert_eq!(run["code"], "upstream_timeout");
    assert!(run["first_event_ms"].as_u64().is_some_and(|after| after >= 300), "{run}");
    let cause = "The agent did not answer within 300ms (`timeouts.first_byte` of the route).";
    let way_out = "Try again later, or raise `timeouts` of the route.";
    assert_eq!(run["message"].as_str(), Some(&*format!("{cause} {way_out}")), "{run}");
}

#[tokio::test]
async fn keeps_no_more_than_the_bounds() {
    let text = "x".repeat(1 << 10);
    let frame = format!("data: {{\"type\":\"TEXT_MESSAGE_CHUNK\",\"messageId\":\"m\",\"delta\":\"{text}\"}}\n\n");
    let agent = Agent::with_response(HEAD.to_owned() + &run_beginning() + &frame.repeat(200));
    let run_dir = RunDir::new();
    let top = "inspect: {runs: 5, bytes: 256KiB, run_bytes: 64KiB}";
    let gateway = start(&agent, &run_dir, top, "client: ag-ui, agent: ag-ui, inspect: full").await;
    for _ in 0..8 {
        post_run(gateway.data, "/chat").await;
    }
    run_dir.last_run().await;
    let runs = run_dir.lines("/inspect/v1/runs");
    assert!(runs.len() <= 5, "{}", runs.len());
    assert!(runs.iter().all(|run| run["kept_bytes"].as_u64().is_some_and(|kept| kept <= 64 << 10)), "{runs:?}");
    assert!(runs.iter().all(|run| run["missed_bytes"].as_u64().is_some_and(|missed| missed > 0)), "{runs:?}");
    let (_, modes) = run_dir.request("GET /inspect/v1/mode", "");
    let modes: Value = serde_json::from_str(&modes).expect("JSON");
    assert!(modes["used_bytes"].as_u64().is_some_and(|used| used <= 256 << 10), "{modes}");
}

#[tokio::test]
async fn a_flood_of_refusals_leaves_other_runs() {
    let agent = Agent::with_response(HEAD.to_owned() + &run_beginning() + CLOSED);
    let run_dir = RunDir::new();
    let route = "client: ag-ui, agent: ag-ui, inspect: events";
    let gateway = start(&agent, &run_dir, "inspect: {runs: 10}", route).await;
    let outcomes = || -> Vec<String> {
        let runs = run_dir.lines("/inspect/v1/runs");
        runs.iter().map(|run| run["outcome"].as_str().unwrap_or_default().to_owned()).collect()
    };
    for _ in 0..4 {
        post_run(gateway.data, "/chat").await;
        run_dir.last_run().await;
    }
    for _ in 0..40 {
        assert_eq!(send_request(gateway.data, post("/chat", "", "{\"threadId\": 1}")).await.status, 400);
    }
    run_dir.last_run().await;
    let kept = outcomes();
    assert!(kept.len() <= 10, "{kept:?}");
    assert_eq!(kept.iter().filter(|outcome| *outcome == "upstream_error").count(), 4, "{kept:?}");
    assert!(kept.iter().any(|outcome| outcome == "refused"), "{kept:?}");
    // They are no less bounded by it than refusals are.
    for _ in 0..12 {
        post_run(gateway.data, "/chat").await;
        run_dir.last_run().await;
    }
    let kept = outcomes();
    assert!(kept.len() <= 10 && kept.iter().any(|outcome| outcome == "refused"), "{kept:?}");
}

#[tokio::test]
async fn never_keeps_what_a_route_redacts() {
    let body = INPUT.replace("\"hi\"", "\"card 4111111111111111\"");
    let frame = "data: {\"type\":\"TEXT_MESSAGE_CHUNK\",\"messageId\":\"m\",\"delta\":\"ok 4111111111111111\",\"metadata\":{\"pin\":\"s3cret\"}}\n\n";
    // Of a message, the log has 200 characters: it is redacted before it is cut.
    let long = "no ".repeat(62);
    let failed = format!("data: {{\"type\":\"RUN_ERROR\",\"message\":\"{long}card 4111111111111111 refused\"}}\n\n");
    let agent = Agent::with_response(HEAD.to_owned() + STARTED + frame + &failed);
    let run_dir = RunDir::new();
    let route = "client: hai, agent: ag-ui, inspect: full, redact: [\"**.pin\", \"/[0-9]{16}/\"]";
    let mut gateway = start(&agent, &run_dir, "", route).await;
    let answer = send_request(gateway.data, post("/chat", "", &body)).await;
    assert!(answer.text().contains("ok 4111111111111111"), "the client gets everything: {}", answer.text());
    let line = gateway.next_log("run ended").await;
    let message = line["agent_message"].as_str().expect("a message");
    assert!(message.contains("no card *** ref") && !message.contains("411"), "{message}");
    let run = run_dir.last_run().await;
    let id = &run["id"];
    let mut kept = run.to_string();
    for path in ["", "/rows"] {
        kept += &run_dir.request(&format!("GET /inspect/v1/runs/{id}{path}"), "").1;
    }
    assert!(kept.contains("ok ***") && kept.contains("card ***"), "{kept}");
    assert!(!kept.contains("4111") && !kept.contains("s3cret"), "{kept}");
}

pub async fn request_page(to: SocketAddr, request: &str, more: &str) -> Answer {
    send_request(to, format!("{request} HTTP/1.1\r\nConnection: close\r\n{more}\r\n")).await
}

#[tokio::test]
async fn only_the_page_with_its_token_may_look() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let run_dir = RunDir::new();
    let top = format!("run_dir: {}", run_dir.0.path().display());
    let routes = format!(
        "routes:\n  - {{name: chat, path: /chat, client: ag-ui, agent: ag-ui, inspect: full, upstream: \"{}\"}}\n",
        agent.url()
    );
    let listeners = "{data: 127.0.0.1:0, status: 127.0.0.1:0, inspector: 127.0.0.1:0}";
    let gateway = Gateway::start(Setup { listeners, top: &top, routes: &routes, ..Setup::default() }).await;
    post_run(gateway.data, "/chat").await;
    let (_, url) = run_dir.request("GET /inspect/v1/url", "");
    let (address, token) =
        url.trim().strip_prefix("http://").and_then(|url| url.split_once("/#token=")).expect("a URL");
    let inspector: SocketAddr = address.parse().expect("an address");
    let host = format!("Host: {address}\r\n");
    let bearer = format!("{host}Authorization: Bearer {token}\r\n");
    let runs = "GET /inspect/v1/runs";
    assert_eq!(request_page(inspector, runs, &bearer).await.status, 200);
    let page = request_page(inspector, "GET /", &host).await;
    assert_eq!((page.status, page.text().contains(token)), (200, false));
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    for (more, status) in [
        (host.clone(), 401),
        (format!("{host}Authorization: Bearer {}\r\n", &token[1..]), 401),
        (bearer.replace(address, "rebound.example:8789"), 403),
        (format!("{bearer}Origin: http://evil.example\r\n"), 403),
        (format!("{bearer}Origin: null\r\n"), 403),
    ] {
        assert_eq!(request_page(inspector, runs, &more).await.status, status, "{more}");
    }
    assert_eq!(gateway.metric("diglot_inspector_refused_total").await, 5.0);
    // Only the Unix socket serves the commands that change the process, and the address with the token.
    for other in ["POST /drain", "POST /reload", "GET /inspect/v1/url", "POST /upgrade/sockets", "GET /log-level"] {
        let answer = request_page(inspector, other, &format!("{bearer}Content-Length: 0\r\n")).await;
        assert_eq!(answer.status, 404, "{other}");
    }
    assert_eq!(request_page(inspector, "GET /inspect/v1/mode?route=chat&mode=off", &bearer).await.status, 200);
    assert_eq!(run_dir.lines("/inspect/v1/runs").len(), 1, "a GET changes nothing");
    // The data plane knows nothing of it.
    assert_eq!(request_page(gateway.data, runs, &bearer).await.status, 404);
}
