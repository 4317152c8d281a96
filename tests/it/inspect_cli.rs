//! `diglot inspect`, `tap` and `top` with a running gateway: what they show, and what an agent cannot make them do.

mod missed_runs;

use super::support::agent::{Agent, Step, write};
use super::support::client::{Client, End, INPUT, post, post_run};
use super::support::eventually;
use super::support::gateway::{Gateway, Process, TempFile, diglot};
use super::support::sse::HEAD;
use super::support::temp_folder::TempFolder;
use serde_json::{Value, json};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use tokio::time::timeout;

/// A run of a HAI agent, which the client receives as AG-UI.
const HAI_RUN: &str = r#"data: {"type":"RUN_STARTED","messageId":"m","role":"assistant","timestamp":1}

data: {"type":"BUSINESS_DATA_START","messageId":"a1","role":"assistant","timestamp":2}

data: {"type":"BUSINESS_DATA_CONTENT","messageId":"a1","delta":"你好","timestamp":3}

data: {"type":"BUSINESS_DATA_END","messageId":"a1","timestamp":4}

data: {"type":"RUN_FINISHED","messageId":"m","role":"assistant","timestamp":5}

"#;

/// A configuration before a HAI agent, and a folder for its sockets that is gone when the test is.
struct InspectSetup {
    file: TempFile,
    run_dir: TempFolder,
}

impl InspectSetup {
    /// `more` has other keys of the route.
    fn new(agent: &Agent, more: &str) -> InspectSetup {
        let run_dir = TempFolder::new();
        let text = format!(
            "listeners: {{data: 127.0.0.1:0, status: 127.0.0.1:0}}\ndrain_grace: 0s\nrun_dir: {}\nroutes:\n  \
             - {{name: chat, path: /chat, client: ag-ui, agent: hai, upstream: \"{}\"{more}}}\n  \
             - {{name: other, path: /other, client: ag-ui, agent: hai, upstream: \"{}\"}}\n",
            run_dir.path().display(),
            agent.url(),
            agent.url()
        );
        InspectSetup { file: TempFile::new(&text), run_dir }
    }

    async fn start(&self, more: &[&str]) -> Gateway {
        Gateway::start_with_config(self.file.path(), more).await
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = diglot();
        command.args(arguments).arg("--run-dir").arg(self.run_dir.path());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the binary starts")
    }

    /// Returns stdout of a command that succeeds.
    fn text(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }
}

/// A tap, and the file of its stderr.
struct Tap {
    process: Process,
    errors: TempFile,
}

impl Tap {
    /// Starts a tap and waits until the gateway has accepted it.
    async fn start(setup: &InspectSetup, gateway: &mut Gateway, arguments: &[&str]) -> Tap {
        let errors = TempFile::new("");
        let file = std::fs::File::create(errors.path()).expect("a file");
        let mut command = setup.command(&[&["tap"], arguments].concat());
        let tap = Tap { process: Process::start(command.stderr(Stdio::from(file)), true), errors };
        let routes = arguments.iter().skip_while(|option| **option != "--route").nth(1).unwrap_or(&"*");
        while gateway.next_log("runs tapped").await["routes"] != **routes {}
        tap
    }

    async fn next(&mut self) -> Value {
        let line = self.process.line().await.expect("a line of the tap");
        serde_json::from_str(&line).expect("JSON")
    }

    /// Returns the rows of the next run, up to its end.
    async fn next_run(&mut self) -> (Vec<Value>, Value) {
        let begin = self.next().await;
        assert!(begin["run"]["id"].is_u64(), "{begin}");
        let mut rows = Vec::new();
        loop {
            let mut line = self.next().await;
            match line["run"].take() {
                Value::Null => rows.push(line["row"].take()),
                run => return (rows, run),
            }
        }
    }

    async fn interrupt(mut self) -> String {
        self.process.signal("INT");
        assert_eq!(self.process.exit().await.code(), Some(0));
        std::fs::read_to_string(self.errors.path()).expect("a file")
    }
}

fn start_agent() -> Agent {
    Agent::with_response(HEAD.to_owned() + HAI_RUN)
}

fn types(rows: &[Value], side: &str) -> Vec<String> {
    let events = rows.iter().flat_map(|row| match &row[side] {
        Value::Array(events) => events.clone(),
        Value::Null => Vec::new(),
        event => vec![event.clone()],
    });
    events.map(|event| event["type"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn tap_shows_both_sides_of_a_run() {
    let agent = start_agent();
    let setup = InspectSetup::new(&agent, ", inspect: events");
    let mut gateway = setup.start(&[]).await;
    let mut tap = Tap::start(&setup, &mut gateway, &["--route", "ch*"]).await;
    post_run(gateway.data, "/other").await;
    post_run(gateway.data, "/chat").await;
    let (rows, end) = tap.next_run().await;
    assert_eq!(
        types(&rows, "agent"),
        ["RUN_STARTED", "BUSINESS_DATA_START", "BUSINESS_DATA_CONTENT", "BUSINESS_DATA_END", "RUN_FINISHED"]
    );
    let client = ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"];
    assert_eq!(types(&rows, "client"), client);
    assert_eq!((&end["route"], &end["outcome"], &end["state"]), (&json!("chat"), &json!("finished"), &json!("ended")));
    assert_eq!(tap.interrupt().await, "");

    let text = setup.text(&["tap", "--kept", "--format", "text"]);
    assert!(text.starts_with("#1 chat  agent hai → client ag-ui  thread t1  run r1  at "), "{text}");
    let pair = text.lines().find(|line| line.contains("BUSINESS_DATA_END")).expect("a row");
    assert!(pair.contains("messageId=\"a1\" timestamp=4") && pair.contains(" changed  TEXT_MESSAGE_END"), "{text}");
    assert!(text.contains(" split    TEXT_MESSAGE_START") && text.contains("delta=\"你好\""), "{text}");
    assert!(text.contains("#1 finished after ") && text.contains("5 events of the agent, 5 for the client"), "{text}");
    // Without colours, since it is no terminal.
    assert!(!text.contains('\x1b'), "{text}");

    let ends =
        setup.text(&["tap", "--kept", "--format", "text", "--type", "*_END", "--side", "client", "--limit", "1"]);
    assert_eq!(ends.lines().count(), 2, "{ends}");
    assert!(!ends.contains("BUSINESS_DATA") && ends.contains("TEXT_MESSAGE_END"), "{ends}");
    let unselected = setup.run(&["tap", "--kept", "--caller", "nobody"]);
    assert_eq!((unselected.status.code(), &*unselected.stdout), (Some(1), &b""[..]));
    assert!(String::from_utf8_lossy(&unselected.stderr).contains("none of the kept runs"), "{unselected:?}");
}

/// The frames of a side are a stream for the other commands.
#[tokio::test]
async fn tap_prints_event_streams() {
    let agent = start_agent();
    let setup = InspectSetup::new(&agent, ", inspect: events");
    let gateway = setup.start(&[]).await;
    let answer = post_run(gateway.data, "/chat").await;
    gateway.wait_for_metric(r#"diglot_streams_total{outcome="finished",route="chat"}"#, 1.0).await;
    assert_eq!(setup.text(&["tap", "--kept", "--format", "sse"]), answer.text());
    let agent_side = TempFile::new(&setup.text(&["tap", "--kept", "--format", "sse", "--side", "agent"]));
    let verified = diglot().args(["verify", "--dialect", "hai"]).arg(agent_side.path()).output().expect("the binary");
    assert!(verified.status.success(), "{verified:?}");
    assert_eq!(setup.run(&["tap", "--kept", "--format", "sse", "--side", "both"]).status.code(), Some(2));
}

#[tokio::test]
async fn inspect_switches_the_capture() {
    let agent = start_agent();
    let setup = InspectSetup::new(&agent, "");
    let mut gateway = setup.start(&[]).await;
    let kept = || setup.run(&["tap", "--kept"]);
    assert_eq!(
        setup.text(&["inspect", "status", "--route", "chat"]).lines().nth(1),
        Some("chat   off         off     -")
    );
    let tap = Tap::start(&setup, &mut gateway, &[]).await;
    let errors = tap.interrupt().await;
    assert!(errors.contains("chat, other is not captured; run `diglot inspect on`, or tap with --on"), "{errors}");
    post_run(gateway.data, "/chat").await;
    assert_eq!(kept().status.code(), Some(1));

    let table = setup.text(&["inspect", "on", "--route", "chat", "--for", "2m"]);
    assert!(table.contains("chat   off         events  1m59s") || table.contains("events  2m00s"), "{table}");
    post_run(gateway.data, "/chat").await;
    post_run(gateway.data, "/other").await;
    eventually("a captured run", async || String::from_utf8_lossy(&kept().stdout).contains("\"ended\"").then_some(()))
        .await;
    setup.text(&["inspect", "off"]);
    post_run(gateway.data, "/chat").await;
    assert!(setup.text(&["tap", "--kept"]).lines().all(|line| !line.contains("\"id\":2")));

    // Only while tapping.
    let mut tap = Tap::start(&setup, &mut gateway, &["--on", "--route", "other"]).await;
    post_run(gateway.data, "/other").await;
    assert_eq!(tap.next_run().await.1["route"], "other");
    assert_eq!(tap.interrupt().await, "");
    assert!(setup.text(&["inspect", "status"]).contains("other  off         off"));

    for (arguments, code) in [
        (&["inspect", "on", "--route", "none"][..], 1),
        (&["tap", "--route", "none"], 1),
        (&["inspect", "url"], 1),
        (&["inspect", "status", "--full"], 2),
        (&["tap", "--for", "1m"], 2),
    ] {
        assert_eq!(setup.run(arguments).status.code(), Some(code), "{arguments:?}");
    }
    gateway.terminate().await;
    for command in ["tap", "top"] {
        assert_eq!(setup.run(&[command]).status.code(), Some(69), "{command}");
    }
}

/// Nothing of what an agent sends reaches a terminal as a control character or a direction override.
#[tokio::test]
async fn hostile_agents_draw_nothing() {
    let hostile = "\x1b[2J\x1b]0;owned\x07\u{9b}5A\u{202e}gnp.\u{2066}\u{200b}";
    let mut run = HEAD.to_owned();
    let huge = "x".repeat(200_000);
    for event in [
        json!({"type": "RUN_STARTED", "messageId": hostile, "role": "assistant", "timestamp": 1}),
        json!({"type": hostile, hostile: hostile}),
        json!({"type": "BUSINESS_DATA_START", "messageId": hostile, "role": "assistant", "timestamp": 1}),
        json!({"type": "BUSINESS_DATA_CONTENT", "messageId": hostile, "delta": hostile, "timestamp": 1}),
        json!({"type": "BUSINESS_DATA_CONTENT", "messageId": hostile, "delta": huge, "timestamp": 1}),
        json!({"type": "RUN_ERROR", "message": hostile, "code": hostile, "timestamp": 1}),
    ] {
        run += &format!("data: {event}\n\n");
    }
    run += &format!("data: {}\n\n", hostile.replace('\u{9b}', "\u{85}"));
    let agent = Agent::with_response(run);
    let setup = InspectSetup::new(&agent, ", inspect: full");
    let gateway = setup.start(&[]).await;
    let body = INPUT.replace("\"t1\"", &json!(hostile).to_string());
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/chat", "", &body)).await;
    client.read_answer().await;
    for arguments in [&["tap", "--kept", "--format", "text"][..], &["tap", "--kept", "--format", "json"], &["top"]] {
        let text = setup.text(arguments);
        let is_drawn =
            |c: char| (c.is_control() && c != '\n') || ('\u{2060}'..='\u{2069}').contains(&c) || c == '\u{202e}';
        assert!(text.lines().count() > 3 && !text.contains(is_drawn), "{arguments:?}: {text:?}");
        if arguments[0] == "tap" && arguments[3] == "text" {
            assert!(text.contains("␛[2J") && text.contains("<U+202E>"), "{text}");
            assert!(text.contains("agent_error after ") && text.len() < 20_000, "{text}");
        }
    }
}

/// The runs of an old process are shown to their ends, and those of the new one from its beginning.
#[tokio::test]
async fn tap_survives_an_upgrade_and_a_restart() {
    let (first, rest) = HAI_RUN.split_at(HAI_RUN.find("data: {\"type\":\"BUSINESS_DATA_END").expect("an event"));
    let script = vec![Step::Read, write(HEAD.to_owned() + first), Step::Pause, write(rest)];
    let mut agent = Agent::with_script(script);
    let setup = InspectSetup::new(&agent, ", inspect: events");
    let mut old = setup.start(&[]).await;
    let mut tap = Tap::start(&setup, &mut old, &[]).await;
    let mut client = Client::connect(old.data).await;
    client.send(post("/chat", "", INPUT)).await;
    agent.next_request().await;
    client.read_head().await;
    client.read_until("你好").await;

    let mut new = setup.start(&["--upgrade"]).await;
    new.next_log("runs tapped").await;
    agent.resume();
    let (_, end) = client.read_rest().await;
    assert_eq!(end, End::Clean);
    let (rows, end) = tap.next_run().await;
    assert_eq!(
        (types(&rows, "client").last().map(String::as_str), &end["outcome"]),
        (Some("RUN_FINISHED"), &json!("finished"))
    );
    agent.resume();
    post_run(new.data, "/chat").await;
    assert_eq!(tap.next_run().await.1["outcome"], "finished");
    old.process.exit().await;

    new.terminate().await;
    let restarted = setup.start(&[]).await;
    // The tap may be late for it.
    agent.resume();
    post_run(restarted.data, "/chat").await;
    assert_eq!(tap.next_run().await.1["outcome"], "finished");
    let errors = tap.interrupt().await;
    assert_eq!(errors.matches("waiting for it to come back").count(), 1, "{errors}");
}

#[tokio::test]
async fn tap_reports_what_failed_and_what_was_refused() {
    let chunk = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"},\"finish_reason\":null}]}\n\n";
    let agent = Agent::with_responses(&[HEAD.to_owned() + HAI_RUN.split_at(200).0, HEAD.to_owned() + chunk]);
    let setup = InspectSetup::new(&agent, ", inspect: events, tools: [search]");
    let mut gateway = setup.start(&[]).await;
    let mut tap = Tap::start(&setup, &mut gateway, &["--format", "text"]).await;
    post_run(gateway.data, "/chat").await;
    let text = async |tap: &mut Tap, part: &str| loop {
        let line = tap.process.line().await.expect("a line of the tap");
        if line.contains(part) {
            return line;
        }
    };
    let end = text(&mut tap, "upstream_error").await;
    assert!(end.contains("upstream_truncated: the agent's stream was cut within an event (row 3)"), "{end}");
    // The second response is in another dialect than the route's.
    post_run(gateway.data, "/chat").await;
    let end = text(&mut tap, "upstream_error").await;
    let cause = "upstream_dialect: the only event is not known to the dialect `hai`; it looks like `openai-chat`: set `agent: openai-chat`";
    assert!(end.contains(cause), "{end}");
    let body = INPUT.replace("\"tools\":[]", r#""tools":[{"name":"delete","description":"","parameters":{}}]"#);
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/chat", "", &body)).await;
    assert_eq!(client.read_answer().await.status, 403);
    let refused = text(&mut tap, " refused after").await;
    assert!(
        refused.contains("tool_not_allowed: /tools/0/name: the tool `delete` is not allowed on this route"),
        "{refused}"
    );
    // The counts are compared with those of the start, so the first request may be part of those.
    let mut unmatched = None;
    while unmatched.is_none() {
        assert_eq!(post_run(gateway.data, "/none").await.status, 404);
        unmatched = timeout(Duration::from_millis(1500), text(&mut tap, "route_not_found")).await.ok();
    }
    assert!(unmatched.is_some_and(|line| line.contains("No route has this path.")));
}

/// A reader that has enough ends the tap.
#[tokio::test]
async fn tap_ends_quietly_with_its_reader() {
    let agent = start_agent();
    let setup = InspectSetup::new(&agent, ", inspect: events");
    let mut gateway = setup.start(&[]).await;
    let mut child = setup.command(&["tap"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary");
    gateway.next_log("runs tapped").await;
    drop(child.stdout.take());
    post_run(gateway.data, "/chat").await;
    eventually("the end of the tap", async || child.try_wait().expect("a child")).await;
    let output = child.wait_with_output().expect("a child");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[tokio::test]
async fn top_prints_routes_and_runs_once() {
    let agent = start_agent();
    let setup = InspectSetup::new(&agent, ", inspect: events");
    let gateway = setup.start(&[]).await;
    post_run(gateway.data, "/chat").await;
    post_run(gateway.data, "/none").await;
    gateway.wait_for_metric(r#"diglot_streams_total{outcome="finished",route="chat"}"#, 1.0).await;
    let text = setup.text(&["top", "--once"]);
    let row = |start: &str| -> Vec<&str> {
        let line = text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start} in\n{text}"));
        line.split_whitespace().collect()
    };
    let chat = row("chat ");
    assert_eq!((chat[1], chat[6], chat[7], chat[8]), ("0", "1", "0", "0"), "{text}");
    assert!(chat[4].ends_with('s'), "{text}");
    assert_eq!(row("(no route)")[9..], ["1", "route_not_found", "1"], "{text}");
    assert_eq!(row("#1")[1..7], ["chat", "-", "hai", "→", "ag-ui", "5"], "{text}");
    assert!(text.contains("finished"), "{text}");
}

#[tokio::test]
async fn top_restores_the_terminal_when_it_is_terminated() {
    let agent = start_agent();
    let setup = InspectSetup::new(&agent, "");
    let _gateway = setup.start(&[]).await;
    let top = setup.command(&["top"]);
    let words = std::iter::once(top.get_program()).chain(top.get_args()).map(|word| word.to_string_lossy());
    let in_terminal = format!("stty rows 30 cols 120; exec {}", words.collect::<Vec<_>>().join(" "));
    let drawn = TempFile::new("");
    let mut command = Command::new("script");
    command.args(["--quiet", "--flush", "--return", "--command", &in_terminal]).arg(drawn.path());
    let mut script = Process::start(command.stdin(Stdio::piped()), true);
    let has_drawn =
        |text: &str| std::fs::read(drawn.path()).is_ok_and(|it| String::from_utf8_lossy(&it).contains(text));
    eventually("a table", async || has_drawn("chat").then_some(())).await;
    let (leaves_screen, shows_cursor) = ("\x1b[?1049l", "\x1b[?25h");
    assert!(!has_drawn(leaves_screen));
    let parent = script.id().to_string();
    let killed =
        Command::new("pkill").args(["--signal", "TERM", "--parent", &parent]).status().expect("pkill, of procps");
    assert!(killed.success());
    while script.line().await.is_some() {}
    assert!(has_drawn(leaves_screen) && has_drawn(shows_cursor) && !has_drawn("panicked"));
}
