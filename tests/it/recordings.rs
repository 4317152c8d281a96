//! Recorded runs: of a real gateway with the demo's agent, downloaded, translated, played again from either side, and
//! compared with a changed configuration.

use super::support::agent::{Agent, Step, write};
use super::support::client::{self, Client, post};
use super::support::gateway::{Gateway, Process, diglot};
use super::support::temp_folder::TempFolder;
use super::support::{eventually, sse};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Output;
use tokio::net::UnixStream;

/// A folder that is gone when the test is, with the files of one gateway.
struct Folder(TempFolder);

impl Folder {
    fn new() -> Folder {
        Folder(TempFolder::new())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a configuration with the routes `chat`, which has `client`, and `kept`, whose runs outlive their clients.
    fn write_config(&self, name: &str, agent: &str, client: &str) -> PathBuf {
        let side = "agent: {dialect: hai, content: string}";
        let routes = [("chat", ""), ("kept", ", on_disconnect: continue for 1m")];
        let routes = routes.map(|(name, more)| {
            format!("  - {{name: {name}, path: /{name}, client: {client}, {side}, upstream: \"{agent}\"{more}}}\n")
        });
        let run_dir = self.path("run");
        let text = format!(
            "listeners: {{data: 127.0.0.1:0, status: 127.0.0.1:0}}\nrun_dir: {}\ndrain_grace: 0s\nroutes:\n{}",
            run_dir.display(),
            routes.concat()
        );
        std::fs::write(self.path(name), text).expect("a file");
        self.path(name)
    }

    fn recordings(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path("runs")).expect("a folder");
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
        files.sort();
        files
    }
}

/// An agent as a process, and its URL.
async fn start_agent(arguments: &[&str]) -> (Process, String) {
    let mut agent = Process::start(diglot().args(arguments), true);
    let line = agent.line().await.expect("its address");
    let url = line.rsplit(' ').next().expect("a URL").to_owned();
    (agent, url)
}

fn run(arguments: &[&str]) -> Output {
    diglot().args(arguments).output().expect("the binary starts")
}

fn texts(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn utf8(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Returns the body of an answer of the admin socket.
async fn admin(folder: &Folder, path: &str) -> (u16, Vec<u8>) {
    let stream = UnixStream::connect(folder.path("run/admin.sock")).await.expect("a socket");
    let mut client = Client::over(stream);
    client.send(format!("GET {path} HTTP/1.1\r\nHost: diglot\r\nConnection: close\r\n\r\n")).await;
    let answer = client.read_answer().await;
    (answer.status, answer.body)
}

/// Starts `diglot record`, and waits until it records.
async fn start_recorder(folder: &Folder, arguments: &[&str]) -> Process {
    let mut command = diglot();
    command.args(["record", "--run-dir", utf8(&folder.path("run"))]).args(arguments);
    let mut recorder = Process::start(&mut command, false);
    let line = recorder.line().await.expect("it begins");
    assert!(line.contains("recording the runs of"), "{line}");
    recorder
}

/// The body of a run; that of a second turn repeats the agent's ids of the first.
fn request_body(run_id: &str, more: &Value) -> String {
    let mut messages = vec![json!({"id": "u1", "role": "user", "content": "帮我部署"})];
    messages.extend(more.as_array().into_iter().flatten().cloned());
    json!({
        "threadId": "t1", "runId": run_id, "protocolVersion": "1.0", "state": {}, "messages": messages,
        "tools": [], "context": [], "forwardedProps": {},
    })
    .to_string()
}

const PROTO: &str = "Accept: application/vnd.ag-ui.event+proto\r\n";

fn post_accepting(path: &str, accept: &str, body: &str) -> String {
    let request = post(path, "", body);
    if accept.is_empty() { request } else { request.replace("Accept: text/event-stream\r\n", accept) }
}

#[tokio::test]
async fn a_recording_gives_each_side_of_the_run_again() {
    let (folder, (_agent, url)) = (Folder::new(), start_agent(&["mock-agent", "--dialect", "hai"]).await);
    let config = folder.write_config("gateway.yaml", &url, "ag-ui");
    let gateway = Gateway::start_with_config(&config, &[]).await;
    let runs = folder.path("runs/");
    let mut recorder = start_recorder(&folder, &["--route", "*", "-o", utf8(&runs), "--limit", "4", "--full"]).await;
    let second_turn = json!([
        {"id": "msg-r2", "role": "assistant", "content": "好的", "toolCalls": [
            {"id": "call-r1", "type": "function", "function": {"name": "confirmAction", "arguments": "{}"}}]},
        {"id": "result", "role": "tool", "toolCallId": "call-r1", "content": "true"},
    ]);
    let requests = [
        ("/chat", "", request_body("r1", &Value::Null)),
        ("/chat", "", request_body("r2", &second_turn)),
        ("/chat", PROTO, request_body("r3", &Value::Null)),
        ("/kept", "", request_body("r4", &Value::Null)),
    ];
    let mut bodies = Vec::new();
    for (path, accept, body) in &requests {
        let answer = client::send_request(gateway.data, post_accepting(path, accept, body)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        bodies.push(answer.body);
    }
    assert!(recorder.exit().await.success());
    let files = folder.recordings();
    assert_eq!(files.len(), bodies.len(), "{files:?}");
    let (_, modes) = admin(&folder, "/inspect/v1/mode").await;
    let modes: Value = serde_json::from_slice(&modes).expect("JSON");
    assert_eq!(modes["routes"][0], json!({"route": "chat", "configured": "off", "mode": "off", "until_ms": null}));

    for (at, body) in bodies.iter().enumerate() {
        let id = format!("-{}.ndjson", at + 1);
        let file = files.iter().find(|file| utf8(file).ends_with(&id)).expect("a file for each run");
        let (status, download) = admin(&folder, &format!("/inspect/v1/runs/{}/recording", at + 1)).await;
        assert_eq!((status, download), (200, std::fs::read(file).expect("a file")));
        // Compares the client's bytes: times, ids of frames, protobuf.
        let translated = run(&["translate", utf8(file)]);
        assert_eq!(translated.stdout, *body, "run {}: {:?}", at + 1, texts(&translated));
        assert_eq!(translated.status.code(), Some(0));
    }
    assert_eq!(admin(&folder, "/inspect/v1/runs/99/recording").await.0, 404);
    read_by_other_commands(&files);
    replay_both_sides(&gateway, &folder, &files, &bodies).await;
}

#[tokio::test]
async fn a_run_of_a_dialect_file_is_recorded_with_what_its_thread_kept() {
    let (folder, (_agent, url)) = (Folder::new(), start_agent(&["mock-agent", "--dialect", "dify-chat"]).await);
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/config/dialects/dify-chat.yaml");
    let config = folder.path("gateway.yaml");
    let text = format!(
        "listeners: {{data: 127.0.0.1:0, status: 127.0.0.1:0}}\nrun_dir: {}\ndrain_grace: 0s\ndialect_files: [{file}]\nroutes:\n  - {{name: chat, path: /chat, client: ag-ui, agent: dify-chat, upstream: \"{url}\"}}\n",
        folder.path("run").display()
    );
    std::fs::write(&config, text).expect("a file");
    let gateway = Gateway::start_with_config(&config, &[]).await;
    let runs = folder.path("runs/");
    let mut recorder = start_recorder(&folder, &["--route", "*", "-o", utf8(&runs), "--limit", "2", "--full"]).await;
    let earlier =
        json!([{"id": "a1", "role": "assistant", "content": "hi"}, {"id": "u2", "role": "user", "content": "again"}]);
    let mut bodies = Vec::new();
    for run_id in ["r1", "r2"] {
        let answer = client::send_request(gateway.data, post("/chat", "", &request_body(run_id, &earlier))).await;
        bodies.push(answer.body);
    }
    assert!(recorder.exit().await.success());
    let files = folder.recordings();
    // The gateway has nothing of the thread before the first run, and the conversation before the second.
    let is_lost = |body: &[u8]| String::from_utf8_lossy(body).contains("diglot.conversation_lost");
    assert_eq!([is_lost(&bodies[0]), is_lost(&bodies[1])], [true, false]);
    for (at, body) in bodies.iter().enumerate() {
        let id = format!("-{}.ndjson", at + 1);
        let recording = utf8(files.iter().find(|file| utf8(file).ends_with(&id)).expect("a file for each run"));
        for from in ["dify-chat", file, &format!("{}#dify-chat", config.display())] {
            let translated = run(&["translate", "--from", from, recording]);
            assert_eq!(translated.stdout, *body, "{from}: {:?}", texts(&translated));
        }
        let (code, _, err) = texts(&run(&["translate", recording]));
        assert!(code == Some(2) && err.contains("--from diglot.yaml#dify-chat"), "{err}");
        let (_, out, err) = texts(&run(&["translate", "--request", "--to", "dify-chat", recording]));
        assert_eq!(out.contains("\"conversation_id\":\"45701982"), at == 1, "{out}{err}");
    }
    let (code, out, err) = texts(&run(&["check", "--against", utf8(&runs), utf8(&config)]));
    assert_eq!((code, out.matches(": the same").count()), (Some(0), 2), "{out}{err}");
}

/// Commands that read streams and requests read those of a recording.
fn read_by_other_commands(files: &[PathBuf]) {
    let file = utf8(&files[0]);
    let (code, out, _) = texts(&run(&["verify", "--dialect", "hai:string", file]));
    assert!(code == Some(0) && out.contains("accepted: 17 events"), "{out}");
    let (_, out, _) = texts(&run(&["detect", file]));
    assert!(out.starts_with("{dialect: hai, content: string}"), "{out}");
    let (_, out, _) = texts(&run(&["detect", "--request", file]));
    assert!(out.starts_with("ag-ui: "), "{out}");
    let (code, out, err) = texts(&run(&["translate", "--to", "hai:blocks", "--explain", "--format", "ndjson", file]));
    assert!(code == Some(0) && out.contains(r#""delta":{"output":"#), "{out}");
    assert!(err.contains(": event 1 RUN_STARTED (hai") && err.contains("17 events in"), "{err}");
    let (_, out, _) = texts(&run(&["translate", "--request", file]));
    assert!(out.contains(r#""threadId":"t1""#), "{out}");
    let (code, _, err) = texts(&run(&["translate", "--roundtrip", file]));
    assert!(code == Some(0) && err.contains("came back unchanged"), "{err}");
}

async fn replay_both_sides(gateway: &Gateway, folder: &Folder, files: &[PathBuf], bodies: &[Vec<u8>]) {
    let chat = format!("http://{}/chat", gateway.data);
    let (code, out, err) = texts(&run(&["replay", utf8(&files[0]), "--as", "client", "--to", &chat]));
    assert_eq!((code, out.contains("21 events came as recorded")), (Some(0), true), "{out}{err}");
    // Prints the refusal with its cause.
    let nowhere = format!("http://{}/nowhere", gateway.data);
    let (code, _, err) = texts(&run(&["replay", utf8(&files[0]), "--as", "client", "--to", &nowhere]));
    let parts = ["404 Not Found: route_not_found: ", "; name the path of a route with --to"];
    assert!(code == Some(1) && parts.iter().all(|part| err.contains(part)), "{err}");

    for arguments in [
        ["replay", utf8(&files[0]), "--as", "agent"],
        ["mock-agent", "--recording", utf8(&files[0]), "--listen=127.0.0.1:0"],
    ] {
        let (_agent, url) = start_agent(&arguments).await;
        let other = Folder::new();
        let config = other.write_config("gateway.yaml", &url, "ag-ui");
        let second = Gateway::start_with_config(&config, &[]).await;
        let again = client::send_request(second.data, post("/chat", "", &request_body("r1", &Value::Null))).await;
        // The recorded agent's events have their times, so even these are the same.
        assert_eq!(again.text().as_bytes(), bodies[0]);

        let older_folder = Folder::new();
        let older = older_folder.write_config("older.yaml", &url, "{dialect: ag-ui-0, pin: 0.0.45}");
        let third = Gateway::start_with_config(&older, &[]).await;
        let to = format!("http://{}/chat", third.data);
        let (code, out, _) = texts(&run(&["replay", utf8(&files[0]), "--as", "client", "--to", &to]));
        assert!(code == Some(1) && out.contains("/protocolVersion: \"1.0\" -> gone"), "{out}");
    }
    let runs = folder.path("runs");
    let config = folder.path("gateway.yaml");
    let (code, out, err) = texts(&run(&["check", "--against", utf8(&runs), utf8(&config)]));
    assert_eq!((code, out.matches(": the same").count()), (Some(0), 4), "{out}{err}");
    let older = folder.write_config("older.yaml", "http://127.0.0.1:9", "{dialect: ag-ui-0, pin: 0.0.45}");
    let (code, out, err) = texts(&run(&["check", "--against", utf8(&runs), utf8(&older)]));
    assert!(code == Some(1) && out.contains("/protocolVersion: \"1.0\" -> gone"), "{out}");
    assert!(err.contains("4 recordings, of which 4 would be different"), "{err}");
}

#[tokio::test]
async fn a_run_that_failed_is_recorded_and_fails_again() {
    let (folder, (_agent, url)) = (Folder::new(), start_agent(&["mock-agent", "--dialect", "hai"]).await);
    let config = folder.write_config("gateway.yaml", &url, "ag-ui");
    let gateway = Gateway::start_with_config(&config, &[]).await;
    let file = folder.path("run.ndjson");
    let mut recorder = start_recorder(&folder, &["--route", "ch*", "-o", utf8(&file)]).await;
    let mut body: Value = serde_json::from_str(&request_body("r1", &Value::Null)).expect("JSON");
    body["forwardedProps"] = json!({"diglot": {"fail": "truncate"}});
    let answer = client::send_request(gateway.data, post("/chat", "", &body.to_string())).await;
    assert!(recorder.exit().await.success());
    let translated = run(&["translate", utf8(&file)]);
    let (code, out, err) = texts(&translated);
    assert_eq!((code, out.as_str()), (Some(1), answer.text()));
    assert!(err.contains("the gateway ended the run: upstream_truncated"), "{err}");
    let types: Vec<String> = sse::types(&sse::events(&out)).into_iter().map(str::to_owned).collect();
    assert_eq!(types.last().map(String::as_str), Some("RUN_ERROR"));
    // Without --full there is no request.
    let (code, _, err) = texts(&run(&["replay", utf8(&file), "--as", "client", "--to", "http://127.0.0.1:9/"]));
    assert!(code == Some(1) && err.contains("no request; record with --full"), "{err}");
    let (_agent, url) = start_agent(&["replay", utf8(&file), "--as", "agent", "--speed", "max"]).await;
    let second_folder = Folder::new();
    let config = second_folder.write_config("gateway.yaml", &url, "ag-ui");
    let second = Gateway::start_with_config(&config, &[]).await;
    let again = client::send_request(second.data, post("/chat", "", &request_body("r1", &Value::Null))).await;
    assert_eq!(again.text(), answer.text());
}

/// The second request goes to a path with an id that the first run kept, which no recording has.
#[tokio::test]
async fn runs_of_a_dialect_file_are_compared_without_what_their_thread_kept() {
    let folder = Folder::new();
    std::fs::write(
        folder.path("acme.yaml"),
        r#"
name: acme
request:
  - {when: {"messages[-1].role": user}, body: {}}
  - path: /runs/{@thread.run}
events:
  - has: run
    keep: {run: "{run}"}
    emit: {type: TEXT_MESSAGE_CHUNK, delta: Hi}
    done: true
"#,
    )
    .expect("a file");
    let agent = Agent::with_response(format!("{}data: {{\"run\":\"r-7\"}}\n\n", sse::HEAD));
    let config = folder.write_config("gateway.yaml", &agent.url(), "ag-ui");
    let text = std::fs::read_to_string(&config).expect("the file");
    let text = text.replace("{dialect: hai, content: string}", "acme");
    std::fs::write(&config, format!("dialect_files: [acme.yaml]\n{text}")).expect("a file");
    let gateway = Gateway::start_with_config(&config, &[]).await;
    let runs = format!("{}/", utf8(&folder.path("runs")));
    let mut recorder = start_recorder(&folder, &["--route", "chat", "--full", "-o", &runs, "--limit", "2"]).await;
    let result = json!([{"id": "a1", "role": "assistant", "toolCalls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"id": "t1", "role": "tool", "toolCallId": "c1", "content": "4"}]);
    for body in [request_body("r1", &Value::Null), request_body("r2", &result)] {
        let answer = client::send_request(gateway.data, post("/chat", "", &body)).await;
        assert!(answer.text().contains("RUN_FINISHED"), "{}", answer.text());
    }
    assert!(recorder.exit().await.success());
    let (code, out, err) = texts(&run(&["check", "--against", &runs, utf8(&config)]));
    assert_eq!((code, out.matches("route chat: the same").count()), (Some(0), 2), "{out}{err}");
    // The request for the agent is compared, too.
    let dialect = std::fs::read_to_string(folder.path("acme.yaml")).expect("the file");
    let other = dialect.replace("body: {}}", "body: {question: \"{@user_text}\"}}");
    std::fs::write(folder.path("acme.yaml"), other).expect("a file");
    let (code, out, _) = texts(&run(&["check", "--against", &runs, utf8(&config)]));
    assert_eq!((code, out.matches("route chat: the same").count()), (Some(1), 1), "{out}");
    let expected = "route chat: 1 difference\n  ~ request to the agent\n      /question: new: \"帮我部署\"\n";
    assert!(out.contains(expected), "{out}");
}

#[tokio::test]
async fn a_recorder_that_is_stopped_leaves_the_routes_as_they_were() {
    let (folder, (_agent, url)) = (Folder::new(), start_agent(&["mock-agent", "--dialect", "hai"]).await);
    let config = folder.write_config("gateway.yaml", &url, "ag-ui");
    let _gateway = Gateway::start_with_config(&config, &[]).await;
    let mode = async || {
        let modes: Value = serde_json::from_slice(&admin(&folder, "/inspect/v1/mode").await.1).expect("JSON");
        modes["routes"][0]["mode"].as_str().expect("a mode").to_owned()
    };
    let mut recorder = start_recorder(&folder, &["--route", "chat", "-o", utf8(&folder.path("runs/"))]).await;
    assert_eq!(mode().await, "events");
    recorder.signal("TERM");
    assert_eq!(recorder.exit().await.code(), Some(1));
    eventually("the mode before", async || (mode().await == "off").then_some(())).await;

    let record = |arguments: &[&str]| {
        let output = diglot().args(["record", "--run-dir", utf8(&folder.path("run"))]).args(arguments).output();
        texts(&output.expect("the binary starts"))
    };
    let (code, _, err) = record(&["--route", "nothing", "-o", utf8(&folder.path("x"))]);
    assert!(code == Some(1) && err.contains("no route matches \"nothing\"; the routes are chat, kept"), "{err}");
    let (code, _, err) = record(&["-o", utf8(&folder.path("x")), "--limit", "2"]);
    assert!(code == Some(2) && err.contains("a file holds one run"), "{err}");
}

/// The connection breaks within an event; so does the event stream of a file.
#[tokio::test]
async fn the_event_within_which_a_stream_is_cut_is_explained() {
    let cut = "data: {\"type\":\"TEXT_MESSAGE_CHUNK\",\"messageId\":\"m\",\"delta\":\"a";
    let begun = sse::run_beginning();
    let script = vec![Step::Read, write(sse::CHUNKED), write(sse::chunk(begun.clone() + cut)), write("zz\r\n")];
    let (folder, agent) = (Folder::new(), Agent::with_script(script));
    let config = folder.write_config("gateway.yaml", &agent.url(), "ag-ui");
    let text = std::fs::read_to_string(&config).expect("the file").replace("{dialect: hai, content: string}", "ag-ui");
    std::fs::write(&config, text).expect("a file");
    let gateway = Gateway::start_with_config(&config, &[]).await;
    let file = folder.path("run.ndjson");
    let mut recorder = start_recorder(&folder, &["--route", "chat", "-o", utf8(&file)]).await;
    client::send_request(gateway.data, post("/chat", "", &request_body("r1", &Value::Null))).await;
    assert!(recorder.exit().await.success());
    let number = begun.matches("data: ").count() + 1;
    let sides = ["--from", "ag-ui", "--to", "ag-ui"];
    std::fs::write(folder.path("cut.sse"), begun + cut).expect("a file");
    for (name, sides) in [("run.ndjson", &[][..]), ("cut.sse", &sides)] {
        let (_, _, err) = texts(&run(&[&["translate", "--explain", utf8(&folder.path(name))], sides].concat()));
        let expected = format!("event {number}: the stream is cut within this event, a TEXT_MESSAGE_CHUNK");
        assert!(err.contains(&expected), "{name}: {err}");
    }
}

#[test]
fn commands_name_the_line_of_a_bad_recording_and_the_way_out() {
    let folder = Folder::new();
    let file = folder.path("bad.ndjson");
    std::fs::write(&file, "{\"diglot_recording\":7}\n").expect("a file");
    for command in [["translate"].as_slice(), &["verify", "--dialect", "hai"], &["detect"], &["replay", "--as=agent"]] {
        let (code, _, err) = texts(&run(&[command, &[utf8(&file)]].concat()));
        let expected = format!("{}:1: the recording has version 7", file.display());
        assert!(code == Some(1) && err.contains(&expected) && err.contains("use the diglot that"), "{command:?} {err}");
    }
    std::fs::write(&file, "data: {}\n\n").expect("a file");
    let (code, _, err) = texts(&run(&["translate", utf8(&file)]));
    assert!(code == Some(2) && err.contains("name the dialects with --from and --to"), "{err}");
    std::fs::write(folder.path("g.yaml"), "routes: [{path: /a, client: ag-ui, agent: hai, upstream: \"http://h/\"}]\n")
        .expect("a file");
    let (code, _, err) = texts(&run(&["check", "--against", utf8(folder.0.path()), utf8(&folder.path("g.yaml"))]));
    assert!(code == Some(69) && err.contains("no recordings in this folder"), "{err}");

    // Neither is a difference: a file that is cut, and a route that is gone.
    let head = |route: &str| {
        let ids = r#""thread_id":"t","run_id":"r","request_id":"q","guard":"repair","max_frame":1024"#;
        let rest = r#""framing":"sse","frame_token":null,"started_ms":0,"duration_ms":1,"outcome":"finished","code":null,"message":null"#;
        format!(
            "{{\"diglot_recording\":1,\"route\":\"{route}\",\"client\":\"social-app\",\"agent\":\"ag-ui\",{ids},\"max_events\":null,\"max_bytes\":null,\"tools\":null,{rest}}}\n"
        )
    };
    std::fs::write(folder.path("a.ndjson"), head("a")).expect("a file");
    std::fs::write(folder.path("bad.ndjson"), head("gone") + "{\"end\":\"ended\"}\n").expect("a file");
    let (code, out, err) = texts(&run(&["check", "--against", utf8(folder.0.path()), utf8(&folder.path("g.yaml"))]));
    assert_eq!(code, Some(1), "{out}{err}");
    let cut = "a.ndjson:2: the file ends before the recording does; record it again, or get the recording's original; not compared";
    let gone = "bad.ndjson: no route: none is called `gone`";
    assert!(out.contains(cut) && out.contains(gone) && out.matches("; not compared").count() == 2, "{out}");
    assert!(err.contains("2 recordings, of which 0 would be different, and 2 could not be compared"), "{err}");
}
