//! Start and end of the process: signals, draining, exit codes, and messages if it cannot start.

use super::support::agent::{Agent, Step, write};
use super::support::client::{Answer, Client, End, INPUT, post};
use super::support::eventually;
use super::support::gateway::{Gateway, Process, Setup, TempFile, diglot};
use super::support::sse::{
    CLOSED, COMPLETE_RUN, CONTENT, FINISHED, HEAD, RUN_BEGINNING, assert_failed, assert_refused, assert_succeeded,
    complete_run, run_beginning,
};
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Output, Stdio};
use std::time::Duration;

/// Starts an agent that pauses in the middle of a run until the test resumes it, and then stays.
fn start_paused_agent() -> Agent {
    let (first, rest) = (HEAD.to_owned() + &run_beginning(), CLOSED.to_owned() + FINISHED);
    Agent::with_script(vec![Step::Read, write(first), Step::Pause, write(rest)])
}

/// Starts a run; returns the client in the middle of it, and the events so far.
async fn start_run(gateway: &Gateway) -> (Client, Answer) {
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "", INPUT)).await;
    let mut answer = client.read_head().await;
    answer.body = client.read_until("你好\"}\n\n").await.into_bytes();
    (client, answer)
}

/// Reads the rest of the run.
async fn read_rest(mut client: Client, mut answer: Answer) -> Answer {
    let (body, end) = client.read_rest().await;
    answer.body.extend(body);
    Answer { end, ..answer }
}

#[tokio::test]
async fn finishes_open_runs_and_accepts_none_during_a_drain() {
    for signal in ["TERM", "INT"] {
        let agent = start_paused_agent();
        let mut gateway = Gateway::start_for(&agent).await;
        let (client, answer) = start_run(&gateway).await;
        gateway.process.signal(signal);
        gateway.next_log("draining").await;

        let ready = gateway.get_status("/readyz").await;
        assert_eq!((ready.status, ready.text()), (503, "draining\n"));
        assert_eq!(gateway.get_status("/livez").await.status, 200);
        assert_eq!(gateway.metric("diglot_draining").await, 1.0);
        let refused = eventually("a closed port", async || TcpStream::connect(gateway.data).err()).await;
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);

        agent.resume();
        assert_succeeded(&read_rest(client, answer).await, COMPLETE_RUN);
        assert_eq!(gateway.process.exit().await.code(), Some(0));
        assert_eq!(agent.connection_count(), 1);
    }
}

#[tokio::test]
async fn exits_at_once_when_idle() {
    let mut gateway = Gateway::start_for(&start_paused_agent()).await;
    // An open connection without a request does not delay the exit.
    let _idle = Client::connect(gateway.data).await;
    gateway.process.signal("TERM");
    assert_eq!(gateway.process.exit().await.code(), Some(0));
}

/// A signal right after "listening" drains the gateway and does not kill it.
#[tokio::test]
async fn handles_signals_from_the_first_log_line_on() {
    for signal in ["TERM", "INT"] {
        let file =
            TempFile::new(&format!("listeners: {{data: 127.0.0.1:0, status: 127.0.0.1:0}}\ndrain_grace: 0s\n{GOOD}"));
        let mut process = Process::start(diglot().args(SERVE).arg(file.path()), false);
        let line = process.line().await.expect("a line");
        assert!(line.contains("listening"), "{line}");
        process.signal(signal);
        assert_eq!(process.exit().await.code(), Some(0), "SIG{signal}");
    }
}

/// A terminal that closes must not end a gateway that runs in it.
#[tokio::test]
async fn ignores_sighup() {
    let agent = start_paused_agent();
    let gateway = Gateway::start_for(&agent).await;
    let (client, answer) = start_run(&gateway).await;
    gateway.process.signal("HUP");
    assert_eq!(gateway.get_status("/readyz").await.status, 200);
    agent.resume();
    assert_succeeded(&read_rest(client, answer).await, COMPLETE_RUN);
}

#[tokio::test]
async fn ends_runs_with_an_error_at_the_drain_timeout() {
    let agent = start_paused_agent();
    let mut gateway =
        Gateway::start(Setup { upstreams: &[agent.url()], top: "drain_timeout: 200ms", ..Setup::default() }).await;
    let (client, answer) = start_run(&gateway).await;
    gateway.process.signal("TERM");
    assert_failed(&read_rest(client, answer).await, "gateway_draining", RUN_BEGINNING);
    assert_eq!(gateway.next_log("run ended").await["outcome"], "drained");
    assert_eq!(gateway.next_log("stopped").await["cut_runs"], 1);
    assert_eq!(gateway.process.exit().await.code(), Some(0));
}

#[tokio::test]
async fn ends_runs_at_once_on_a_second_signal() {
    let agent = start_paused_agent();
    let mut gateway = Gateway::start_for(&agent).await;
    let (client, answer) = start_run(&gateway).await;
    gateway.process.signal("TERM");
    gateway.next_log("draining").await;
    gateway.process.signal("TERM");
    assert_failed(&read_rest(client, answer).await, "gateway_draining", RUN_BEGINNING);
    assert_eq!(gateway.process.exit().await.code(), Some(0));
}

/// Before the agent has answered, the end of the drain is a refusal.
#[tokio::test]
async fn answers_503_to_unanswered_runs_at_the_drain_timeout() {
    let mut agent = Agent::with_script(vec![Step::Read, Step::WaitForClose]);
    let mut gateway =
        Gateway::start(Setup { upstreams: &[agent.url()], top: "drain_timeout: 200ms", ..Setup::default() }).await;
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "", INPUT)).await;
    agent.next_request().await;
    gateway.process.signal("TERM");
    assert_refused(&client.read_answer().await, 503, "gateway_draining");
    assert_eq!(gateway.process.exit().await.code(), Some(0));
}

/// A request that was accepted before the drain is served, although its body comes later.
#[tokio::test]
async fn serves_a_request_with_a_body_that_arrives_during_the_drain() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let mut gateway = Gateway::start_for(&agent).await;
    let mut client = Client::connect(gateway.data).await;
    let request = post("/run", "Expect: 100-continue\r\n", INPUT);
    let (head, body) = request.split_at(request.len() - INPUT.len());
    client.send(head).await;
    // The gateway requests the body: it has accepted this request.
    assert_eq!(client.read_head().await.status, 100);
    gateway.process.signal("TERM");
    gateway.next_log("draining").await;
    client.send(body).await;
    assert_succeeded(&client.read_answer().await, COMPLETE_RUN);
    assert_eq!(gateway.process.exit().await.code(), Some(0));
}

/// An agent that never pauses is cut like any other, and a client with a backlog receives the end, if it reads at all.
#[tokio::test]
async fn ends_a_flooding_run_with_a_terminal_event() {
    for backlog in [false, true] {
        let event = CONTENT.replace("你好", &"x".repeat(8 << 10)).into_bytes();
        let steps = vec![Step::Read, write(HEAD.to_owned() + &run_beginning()), Step::Flood(event, usize::MAX)];
        let agent = Agent::with_script(steps);
        let mut gateway = Gateway::start_for(&agent).await;
        let mut client = Client::connect_with_small_buffer(gateway.data).await;
        client.send(post("/run", "", INPUT)).await;
        client.read_head().await;
        client.read_until("\n\n").await;
        gateway.process.signal("TERM");
        gateway.next_log("draining").await;
        gateway.process.signal("TERM");
        if backlog {
            assert_eq!(gateway.next_log("run ended").await["outcome"], "drained");
        }
        let (body, end) = client.read_rest().await;
        assert_eq!(end, End::Clean);
        let body = String::from_utf8_lossy(&body);
        let last = body.trim_end().rsplit("\n\n").next().expect("an event");
        assert!(last.contains("RUN_ERROR") && last.contains("gateway_draining"), "{last}");
        assert_eq!(gateway.process.exit().await.code(), Some(0));
    }
}

/// Runs a command of `diglot` on a file; returns exit code, stdout and stderr.
fn run_command(command: &[&str], file: &TempFile) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } =
        diglot().args(command).arg(file.path()).output().expect("the binary starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.code(), text(stdout), text(stderr))
}

const SERVE: &[&str] = &["serve", "--config"];
const GOOD: &str =
    "routes: [{name: chat, path: /chat, client: ag-ui, agent: hai, upstream: \"http://127.0.0.1:9001/\"}]\n";
const BAD: &str = "keep_alive: soon\nroutes:\n  - path: chat\n    client: ag-iu\n    agent: hai\n";

#[test]
fn names_the_listener_with_a_taken_port() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound");
    for plane in ["data", "status"] {
        let other = if plane == "data" { "status" } else { "data" };
        let file = TempFile::new(&format!("listeners: {{{plane}: {address}, {other}: 127.0.0.1:0}}\n{GOOD}"));
        let (code, stdout, stderr) = run_command(SERVE, &file);
        assert_eq!((code, stdout.as_str()), (Some(69), ""), "{stderr}");
        assert!(stderr.contains(&format!("cannot listen on {address} (listeners.{plane})")), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[test]
fn refuses_to_start_and_lists_all_configuration_problems() {
    let (code, stdout, stderr) = run_command(SERVE, &TempFile::new(BAD));
    assert_eq!((code, stdout.as_str()), (Some(78), ""), "{stderr}");
    for word in ["keep_alive", "routes[0].path", "ag-iu", "upstream"] {
        assert!(stderr.contains(word), "{word}\n{stderr}");
    }
    let gone = TempFile::new("");
    fs::remove_file(gone.path()).expect("a file");
    let (code, _, stderr) = run_command(SERVE, &gone);
    assert_eq!(code, Some(78), "{stderr}");
    assert!(stderr.contains(&gone.path().display().to_string()), "{stderr}");
}

#[test]
fn check_reports_without_serving() {
    let (code, stdout, stderr) = run_command(&["check"], &TempFile::new(GOOD));
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(stdout.contains("ok, 1 route") && stdout.contains("ag-ui clients at /chat -> hai agent"), "{stdout}");

    let file = TempFile::new(BAD);
    let (code, stdout, stderr) = run_command(&["check"], &file);
    assert_eq!(code, Some(78), "{stdout}{stderr}");
    // A problem names the file, the line and the column.
    assert!(stdout.contains(&format!("{}:1:13", file.path().display())), "{stdout}");
    assert!(stderr.contains("4 problems"), "{stderr}");
}

/// If the reader of the log stops, lines are lost, and the gateway continues.
#[test]
fn keeps_serving_when_the_log_is_not_read() {
    let file = TempFile::new(&format!("listeners: {{data: 127.0.0.1:0, status: 127.0.0.1:0}}\n{GOOD}"));
    let mut child = diglot().args(SERVE).arg(file.path()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    let mut log = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    while !line.contains(r#""plane":"data""#) {
        line.clear();
        assert!(log.read_line(&mut line).expect("a line") > 0, "the gateway has ended");
    }
    let entry: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    let data: SocketAddr = entry["address"].as_str().expect("an address").parse().expect("an address");
    // A pipe holds 64 KiB; a line of a refusal has some 250 bytes.
    for request in 0..1000 {
        let mut stream = TcpStream::connect(data).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
        stream.write_all(b"GET /nowhere HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("room");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap_or_else(|error| panic!("request {request}: {error}"));
        assert!(answer.starts_with("HTTP/1.1 404"), "{answer:.60}");
    }
    child.kill().expect("it runs");
    child.wait().expect("a child");
}

/// Another user who can replace the sockets in `run_dir` would receive the commands of operators.
#[test]
fn refuses_a_run_dir_that_others_may_write_to() {
    let folder = std::env::temp_dir().join(format!("diglot-run-dir-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let port = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = port.local_addr().expect("an address");
    for (mode, refused) in [(0o777, true), (0o775, true), (0o2777, true), (0o755, false), (0o1777, false)] {
        fs::set_permissions(&folder, Permissions::from_mode(mode)).expect("a mode");
        // With a good folder, the next step fails.
        let config = TempFile::new(&format!(
            "listeners: {{data: \"{taken}\"}}\nrun_dir: {}\nroutes: [{{path: /run, client: ag-ui, agent: ag-ui, upstream: \"http://127.0.0.1:9\"}}]\n",
            folder.display()
        ));
        let output = diglot().args(["serve", "--config"]).arg(config.path()).output().expect("the binary");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(69), "{mode:o}: {stderr}");
        assert_eq!(stderr.contains("other users could replace the sockets in it"), refused, "{mode:o}: {stderr}");
        assert_eq!(stderr.contains("cannot listen on"), !refused, "{mode:o}: {stderr}");
    }
    fs::remove_dir_all(&folder).expect("the folder");
}
