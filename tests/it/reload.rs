//! Another configuration while the gateway serves: taken whole or not at all, and nobody notices but who should.

mod mounted;

use super::support::agent::{Agent, Step, write};
use super::support::client::{Client, INPUT, post, run};
use super::support::eventually;
use super::support::gateway::{Gateway, diglot};
use super::support::sse::{CLOSED, FINISHED, HEAD, WHOLE, begun, succeeded, whole};
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const GOOD: &str = "diglot_config_last_reload_successful";

/// A folder that is gone when the test is.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("diglot-reload-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A configuration with these routes to one agent, each a name and more of its keys.
fn yaml(top: &str, agent: &Agent, routes: &[(&str, &str)]) -> String {
    let url = agent.url();
    let route = |(name, more): &(&str, &str)| {
        format!("  - {{name: {name}, path: /{name}, client: ag-ui, agent: ag-ui, upstream: \"{url}\"{more}}}\n")
    };
    let routes: String = routes.iter().map(route).collect();
    format!("listeners: {{data: 127.0.0.1:0, status: 127.0.0.1:0}}\ndrain_grace: 0s\n{top}\nroutes:\n{routes}")
}

/// A file that is never seen half.
fn put(path: &Path, text: &str) {
    let next = path.with_extension("next");
    std::fs::write(&next, text).expect("a file");
    std::fs::rename(next, path).expect("a file");
}

/// What the process says to a request on its socket.
fn asked(run_dir: &Path, what: &str, body: &str) -> String {
    let mut stream = UnixStream::connect(run_dir.join("admin.sock")).expect("a socket");
    let length = body.len();
    let head = format!("{what} HTTP/1.1\r\nHost: diglot\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all((head + body).as_bytes()).expect("room");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

fn many() -> Agent {
    Agent::answering(HEAD.to_owned() + &whole())
}

#[tokio::test]
async fn a_changed_file_is_taken_and_a_bad_one_changes_nothing() {
    let (agent, folder) = (many(), Folder::new());
    let file = folder.0.join("diglot.yaml");
    put(&file, &yaml("", &agent, &[("a", ""), ("b", "")]));
    let mut gateway = Gateway::at(&file, &[]).await;
    assert_eq!(gateway.metric(GOOD).await, 1.0);
    succeeded(&run(gateway.data, "/a").await, WHOLE);

    // By the file alone.
    put(&file, &yaml("keep_alive: 7s", &agent, &[("b", ", guard: strict"), ("c", "")]));
    let changes = gateway.logged("configuration reloaded").await["changes"].clone();
    assert_eq!(changes, "keep_alive: 15s → 7s; routes[b].guard: repair → strict; routes added: c; routes removed: a");
    assert_eq!(run(gateway.data, "/a").await.status, 404);
    for path in ["/b", "/c"] {
        succeeded(&run(gateway.data, path).await, WHOLE);
    }

    // Half of it, and more than one mistake.
    put(&file, "keep_alive: soon\nroutes: [{path: x}]\n");
    gateway.process.signal("HUP");
    let refused = gateway.logged("configuration refused; the last good one stays in use").await;
    let problems = refused["problems"].as_str().expect("problems");
    assert!(problems.contains("diglot.yaml:1:13: keep_alive") && problems.contains("routes[0].path"), "{problems}");
    assert_eq!((&refused["level"], gateway.metric(GOOD).await), (&"ERROR".into(), 0.0));
    succeeded(&run(gateway.data, "/c").await, WHOLE);

    // The rest of a file that was written in two.
    put(&file, &yaml("keep_alive: 7s", &agent, &[("a", "")]));
    gateway.logged("configuration reloaded").await;
    assert_eq!(gateway.metric(GOOD).await, 1.0);
    succeeded(&run(gateway.data, "/a").await, WHOLE);
    // What is gone says no longer how it is.
    let metrics = gateway.ask("/metrics").await.text().to_owned();
    for series in ["diglot_config_info{", "diglot_upstream_up{"] {
        assert_eq!(metrics.matches(series).count(), 1, "{series}\n{metrics}");
    }
}

/// What a new process alone can change is said, and the rest is done.
#[tokio::test]
async fn what_needs_a_restart_is_said() {
    let (agent, folder) = (many(), Folder::new());
    let (file, run_dir) = (folder.0.join("diglot.yaml"), folder.0.join("run"));
    let kept = format!("run_dir: {}", run_dir.display());
    put(&file, &yaml(&kept, &agent, &[("a", "")]));
    let mut gateway = Gateway::at(&file, &[]).await;
    let next = yaml(&format!("{kept}\nlimits: {{headers: 50, frame: 1MiB}}"), &agent, &[("b", "")]);
    put(&file, &next.replace("status: 127.0.0.1:0", "status: []"));
    gateway.process.signal("HUP");
    let said = gateway.logged("changed, but not in use before a restart or `diglot serve --upgrade`").await;
    assert_eq!(said["keys"], "listeners.status, limits.headers");
    succeeded(&run(gateway.data, "/b").await, WHOLE);
    // Whoever asks later is told of it as well, as often as it is so.
    let waits = "not in use before a restart or `diglot serve --upgrade`: listeners.status, limits.headers";
    for _ in 0..2 {
        let output = diglot().args(["reload", "--run-dir", run_dir.to_str().expect("UTF-8")]).output();
        let output = output.expect("the binary starts");
        let stdout = String::from_utf8(output.stdout).expect("UTF-8");
        assert_eq!((output.status.code(), stdout), (Some(0), format!("nothing changed; {waits}\n")));
    }
}

/// A mounted ConfigMap: the file is a link into `..data`, which is a link that is replaced.
#[tokio::test]
async fn a_link_that_leads_elsewhere_is_a_change() {
    let (agent, folder) = (many(), Folder::new());
    for (name, route) in [("one", "a"), ("two", "b")] {
        std::fs::create_dir(folder.0.join(name)).expect("a folder");
        put(&folder.0.join(name).join("diglot.yaml"), &yaml("", &agent, &[(route, "")]));
    }
    symlink("one", folder.0.join("..data")).expect("a link");
    symlink("..data/diglot.yaml", folder.0.join("diglot.yaml")).expect("a link");
    let mut gateway = Gateway::at(&folder.0.join("diglot.yaml"), &[]).await;
    symlink("two", folder.0.join("..next")).expect("a link");
    std::fs::rename(folder.0.join("..next"), folder.0.join("..data")).expect("a link");
    let changes = gateway.logged("configuration reloaded").await["changes"].clone();
    assert_eq!(changes, "routes added: b; routes removed: a");
}

/// A run keeps what it began with, and what is counted of it is right to its end.
#[tokio::test]
async fn a_run_of_a_route_that_is_gone_goes_on() {
    let (first, rest) = (HEAD.to_owned() + &begun(), CLOSED.to_owned() + FINISHED);
    let agent = Agent::playing(vec![Step::Read, write(first), Step::Pause, write(rest)]);
    let folder = Folder::new();
    let file = folder.0.join("diglot.yaml");
    put(&file, &yaml("", &agent, &[("a", ", max_streams: 1"), ("b", ", max_streams: 1")]));
    let mut gateway = Gateway::at(&file, &[]).await;
    let mut clients = Vec::new();
    for path in ["/a", "/b"] {
        let mut client = Client::connect(gateway.data).await;
        client.send(post(path, "", INPUT)).await;
        client.head().await;
        client.until("你好\"}\n\n").await;
        clients.push(client);
    }
    put(&file, &yaml("", &agent, &[("b", ", max_streams: 2")]));
    gateway.process.signal("HUP");
    gateway.logged("configuration reloaded").await;
    assert_eq!(run(gateway.data, "/a").await.status, 404);
    // The run that is open counts: one more has room, and no third.
    let mut another = Client::connect(gateway.data).await;
    another.send(post("/b", "", INPUT)).await;
    assert_eq!(another.head().await.status, 200);
    assert_eq!(run(gateway.data, "/b").await.status, 503);
    for route in ["a", "b"] {
        let active = gateway.metric(&format!(r#"diglot_streams_active{{route="{route}"}}"#)).await;
        assert_eq!(active, if route == "a" { 1.0 } else { 2.0 }, "{route}");
    }
    for _ in 0..3 {
        agent.go();
    }
    for mut client in clients {
        assert!(String::from_utf8_lossy(&client.rest().await.0).contains("RUN_FINISHED"));
    }
    another.rest().await;
    for route in ["a", "b"] {
        gateway.reaches(&format!(r#"diglot_streams_active{{route="{route}"}}"#), 0.0).await;
    }
}

/// Limits that did not change go on counting.
#[tokio::test]
async fn a_reload_brings_nobody_a_fresh_quota() {
    let (agent, folder) = (many(), Folder::new());
    let file = folder.0.join("diglot.yaml");
    let limits =
        "rate_limits: [{name: few, key: address, requests: 2, per: 24h}, {name: other, key: address, requests: N}]";
    let text =
        |n| yaml(&limits.replace('N', n), &agent, &[("a", ", rate_limits: [few]"), ("b", ", rate_limits: [other]")]);
    put(&file, &text("1"));
    let mut gateway = Gateway::at(&file, &[]).await;
    for (path, status) in [("/a", 200), ("/a", 200), ("/a", 429), ("/b", 200), ("/b", 429)] {
        assert_eq!(run(gateway.data, path).await.status, status, "{path}");
    }
    put(&file, &text("2"));
    gateway.process.signal("HUP");
    gateway.logged("configuration reloaded").await;
    for (path, status) in [("/a", 429), ("/b", 200), ("/b", 200), ("/b", 429)] {
        assert_eq!(run(gateway.data, path).await.status, status, "{path}");
    }
}

/// Requests that come while the configuration changes all the time are answered by one of the two, and never by neither.
#[tokio::test]
async fn a_loop_of_reloads_fails_no_request() {
    let (agent, folder) = (many(), Folder::new());
    let file = folder.0.join("diglot.yaml");
    let texts = [
        yaml("", &agent, &[("a", "")]),
        yaml("keep_alive: 3s", &agent, &[("b", ""), ("a", ", guard: strict, timeouts: {idle: 9s}")]),
    ];
    put(&file, &texts[0]);
    let gateway = Gateway::at(&file, &[]).await;
    let (over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (over, done, data) = (Arc::clone(&over), Arc::clone(&done), gateway.data);
            tokio::spawn(async move {
                let mut client = Client::connect(data).await;
                while !over.load(Ordering::Relaxed) {
                    client.send(post("/a", "", INPUT)).await;
                    succeeded(&client.answer().await, WHOLE);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for round in 1..=40 {
        put(&file, &texts[round % 2]);
        // Several at once are one reload, or as many as there are.
        for _ in 0..5 {
            gateway.process.signal("HUP");
        }
        let hoped = if round % 2 == 1 { 200 } else { 404 };
        eventually("the other configuration", async || (run(gateway.data, "/b").await.status == hoped).then_some(()))
            .await;
    }
    over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("every answer was a whole run");
    }
    assert!(done.load(Ordering::Relaxed) > 40);
    assert_eq!(gateway.metric(GOOD).await, 1.0);
}

/// The socket of `run_dir`: what may be asked there, and that nobody else may.
#[tokio::test]
async fn a_gateway_is_spoken_to_by_its_socket() {
    use std::os::unix::fs::PermissionsExt;
    let (agent, folder) = (many(), Folder::new());
    let (file, run_dir) = (folder.0.join("diglot.yaml"), folder.0.join("run"));
    let top = format!("run_dir: {}\nauth: {{api_keys: []}}", run_dir.display());
    put(&file, &yaml(&top, &agent, &[("a", ", upstream_headers: {authorization: hunter2}")]));
    let said = |arguments: &[&str]| {
        let output = diglot().args(arguments).output().expect("the binary starts");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (config, folder_name) = (file.to_str().expect("UTF-8"), run_dir.to_str().expect("UTF-8"));
    let (code, _, stderr) = said(&["reload", "--config", config]);
    assert!(code == Some(69) && stderr.contains("no gateway"), "{stderr}");

    let mut gateway = Gateway::at(&file, &[]).await;
    let mode = |path: &Path| std::fs::metadata(path).expect("a file").permissions().mode() & 0o777;
    assert_eq!((mode(&run_dir), mode(&run_dir.join("admin.sock"))), (0o700, 0o600));
    assert_eq!(said(&["reload", "--config", config]), (Some(0), "nothing changed\n".to_owned(), String::new()));
    let config_now = asked(&run_dir, "GET /config", "");
    assert!(config_now.starts_with("HTTP/1.1 200") && config_now.contains("name: a"), "{config_now}");
    assert!(!config_now.contains("hunter2"), "{config_now}");

    assert!(asked(&run_dir, "PUT /log-level", "nonsense").starts_with("HTTP/1.1 422"));
    assert!(asked(&run_dir, "PUT /log-level", "off").ends_with("\r\n\r\noff\n"));
    assert_eq!(run(gateway.data, "/nowhere").await.status, 404);
    assert!(
        asked(&run_dir, "PUT /log-level", "").ends_with("\n") && asked(&run_dir, "GET /log-level", "").contains("info")
    );
    assert_eq!(run(gateway.data, "/elsewhere").await.status, 404);
    // Nothing is heard of the first.
    let refused = gateway.logged("request refused").await;
    assert_eq!(gateway.metric(r#"diglot_requests_total{code="404",method="POST",route=""}"#).await, 2.0, "{refused}");

    put(&file, &yaml(&top, &agent, &[("b", "")]));
    let (code, stdout, _) = said(&["reload", "--run-dir", folder_name]);
    assert_eq!((code, stdout.as_str()), (Some(0), "routes added: b; routes removed: a\n"));
    put(&file, "routes: []\n");
    let (code, stdout, stderr) = said(&["reload", "--run-dir", folder_name]);
    assert!(code == Some(78) && stdout.is_empty() && stderr.contains("there is no route"), "{stderr}");
    // A second one has no business there.
    put(&file, &yaml(&top, &agent, &[("b", "")]));
    let (code, _, stderr) = said(&["serve", "--config", config]);
    assert!(code == Some(69) && stderr.contains("another gateway"), "{stderr}");

    let (code, stdout, stderr) = said(&["drain", "--config", config, "--wait"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    assert_eq!(gateway.process.exit().await.code(), Some(0));
    assert!(!run_dir.join("admin.sock").exists());
    assert_eq!(said(&["drain", "--config", config]).0, Some(69));
    put(&file, &yaml("", &agent, &[("b", "")]));
    let (code, _, stderr) = said(&["drain", "--config", config]);
    assert!(code == Some(78) && stderr.contains("`run_dir` is not set"), "{stderr}");
}

/// kubelet sends SIGTERM behind a preStop hook that began a drain: it must not cut what the hook waits for.
#[tokio::test]
async fn a_signal_behind_an_order_is_expected() {
    let (first, rest) = (HEAD.to_owned() + &begun(), CLOSED.to_owned() + FINISHED);
    let agent = Agent::playing(vec![Step::Read, write(first), Step::Pause, write(rest)]);
    let folder = Folder::new();
    let (file, run_dir) = (folder.0.join("diglot.yaml"), folder.0.join("run"));
    put(&file, &yaml(&format!("run_dir: {}", run_dir.display()), &agent, &[("a", "")]));
    for cut in [false, true] {
        let mut gateway = Gateway::at(&file, &[]).await;
        let mut client = Client::connect(gateway.data).await;
        client.send(post("/a", "", INPUT)).await;
        client.head().await;
        client.until("你好\"}\n\n").await;
        let order = diglot().args(["drain", "--wait", "--timeout", "200ms", "--run-dir"]).arg(&run_dir).output();
        let order = order.expect("the binary starts");
        assert_eq!(order.status.code(), Some(1), "{order:?}");
        gateway.process.signal("TERM");
        gateway.process.signal(if cut { "INT" } else { "CONT" });
        if !cut {
            agent.go();
        }
        let (heard, _) = client.rest().await;
        let heard = String::from_utf8_lossy(&heard);
        assert!(heard.contains(if cut { "gateway_draining" } else { "RUN_FINISHED" }), "{heard}");
        assert_eq!(gateway.process.exit().await.code(), Some(0));
    }
}

/// A process that was killed leaves its sockets behind; the next one starts over them.
#[tokio::test]
async fn a_process_that_was_killed_is_in_nobodys_way() {
    let (agent, folder) = (many(), Folder::new());
    let (file, run_dir) = (folder.0.join("diglot.yaml"), folder.0.join("run"));
    let text = yaml(&format!("run_dir: {}", run_dir.display()), &agent, &[("a", "")]);
    put(&file, &text);
    let mut gateway = Gateway::at(&file, &[]).await;
    let data = gateway.data;
    put(&file, &text.replace("data: 127.0.0.1:0", &format!("data: {data}")));
    let _open = Client::connect(data).await;
    gateway.process.signal("KILL");
    gateway.process.exit().await;
    let gateway = Gateway::at(&file, &[]).await;
    assert_eq!(gateway.data, data);
    succeeded(&run(gateway.data, "/a").await, WHOLE);
}
