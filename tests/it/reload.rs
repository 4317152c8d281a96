//! A changed configuration while the gateway serves: it applies as a whole or not at all, and unaffected requests
//! continue.

mod mounted;

use super::support::agent::{Agent, Step, write};
use super::support::client::{Client, INPUT, post, post_run};
use super::support::eventually;
use super::support::gateway::{Gateway, diglot};
use super::support::sse::{CLOSED, COMPLETE_RUN, FINISHED, HEAD, assert_succeeded, complete_run, run_beginning};
use super::support::temp_folder::TempFolder;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const RELOAD_SUCCESSFUL: &str = "diglot_config_last_reload_successful";

/// A configuration with these routes to one agent, each a name and more of its keys.
fn config_yaml(top: &str, agent: &Agent, routes: &[(&str, &str)]) -> String {
    let url = agent.url();
    let route = |(name, more): &(&str, &str)| {
        format!("  - {{name: {name}, path: /{name}, client: ag-ui, agent: ag-ui, upstream: \"{url}\"{more}}}\n")
    };
    let routes: String = routes.iter().map(route).collect();
    format!("listeners: {{data: 127.0.0.1:0, status: 127.0.0.1:0}}\ndrain_grace: 0s\n{top}\nroutes:\n{routes}")
}

/// A file that is never seen half.
fn replace_file(path: &Path, text: &str) {
    let next = path.with_extension("next");
    std::fs::write(&next, text).expect("a file");
    std::fs::rename(next, path).expect("a file");
}

/// Returns the response to a request on the admin socket.
fn admin_request(run_dir: &Path, what: &str, body: &str) -> String {
    let mut stream = UnixStream::connect(run_dir.join("admin.sock")).expect("a socket");
    let length = body.len();
    let head = format!("{what} HTTP/1.1\r\nHost: diglot\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all((head + body).as_bytes()).expect("room");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

fn start_agent() -> Agent {
    Agent::with_response(HEAD.to_owned() + &complete_run())
}

#[tokio::test]
async fn reloads_a_changed_file_and_ignores_a_bad_one() {
    let (agent, folder) = (start_agent(), TempFolder::new());
    let file = folder.join("diglot.yaml");
    replace_file(&file, &config_yaml("", &agent, &[("a", ""), ("b", "")]));
    let mut gateway = Gateway::start_with_config(&file, &[]).await;
    assert_eq!(gateway.metric(RELOAD_SUCCESSFUL).await, 1.0);
    assert_succeeded(&post_run(gateway.data, "/a").await, COMPLETE_RUN);

    // By the file alone.
    replace_file(&file, &config_yaml("keep_alive: 7s", &agent, &[("b", ", guard: strict"), ("c", "")]));
    let changes = gateway.next_log("configuration reloaded").await["changes"].clone();
    assert_eq!(changes, "keep_alive: 15s → 7s; routes[b].guard: repair → strict; routes added: c; routes removed: a");
    assert_eq!(post_run(gateway.data, "/a").await.status, 404);
    for path in ["/b", "/c"] {
        assert_succeeded(&post_run(gateway.data, path).await, COMPLETE_RUN);
    }

    // Half of it, and more than one mistake.
    replace_file(&file, "keep_alive: soon\nroutes: [{path: x}]\n");
    gateway.process.signal("HUP");
    let refused = gateway.next_log("configuration refused; the last good one stays in use").await;
    let problems = refused["problems"].as_str().expect("problems");
    assert!(problems.contains("diglot.yaml:1:13: keep_alive") && problems.contains("routes[0].path"), "{problems}");
    assert_eq!((&refused["level"], gateway.metric(RELOAD_SUCCESSFUL).await), (&"ERROR".into(), 0.0));
    assert_succeeded(&post_run(gateway.data, "/c").await, COMPLETE_RUN);

    // The rest of a file that was written in two.
    replace_file(&file, &config_yaml("keep_alive: 7s", &agent, &[("a", "")]));
    gateway.next_log("configuration reloaded").await;
    assert_eq!(gateway.metric(RELOAD_SUCCESSFUL).await, 1.0);
    assert_succeeded(&post_run(gateway.data, "/a").await, COMPLETE_RUN);
    // The metrics of a removed route are gone.
    let metrics = gateway.get_status("/metrics").await.text().to_owned();
    for series in ["diglot_config_info{", "diglot_upstream_up{"] {
        assert_eq!(metrics.matches(series).count(), 1, "{series}\n{metrics}");
    }
}

/// Changes that need a new process are reported, and all others are applied.
#[tokio::test]
async fn names_changes_that_need_a_restart() {
    let (agent, folder) = (start_agent(), TempFolder::new());
    let (file, run_dir) = (folder.join("diglot.yaml"), folder.join("run"));
    let kept = format!("run_dir: {}", run_dir.display());
    replace_file(&file, &config_yaml(&kept, &agent, &[("a", "")]));
    let mut gateway = Gateway::start_with_config(&file, &[]).await;
    let next = config_yaml(&format!("{kept}\nlimits: {{headers: 50, frame: 1MiB}}"), &agent, &[("b", "")]);
    replace_file(&file, &next.replace("status: 127.0.0.1:0", "status: []"));
    gateway.process.signal("HUP");
    let line = gateway.next_log("changed, but not in use before a restart or `diglot serve --upgrade`").await;
    assert_eq!(line["keys"], "listeners.status, limits.headers");
    assert_succeeded(&post_run(gateway.data, "/b").await, COMPLETE_RUN);
    // Each later reload reports it again, as long as it is true.
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
async fn reloads_when_a_symlink_is_switched() {
    let (agent, folder) = (start_agent(), TempFolder::new());
    for (name, route) in [("one", "a"), ("two", "b")] {
        std::fs::create_dir(folder.join(name)).expect("a folder");
        replace_file(&folder.join(name).join("diglot.yaml"), &config_yaml("", &agent, &[(route, "")]));
    }
    symlink("one", folder.join("..data")).expect("a link");
    symlink("..data/diglot.yaml", folder.join("diglot.yaml")).expect("a link");
    let mut gateway = Gateway::start_with_config(&folder.join("diglot.yaml"), &[]).await;
    symlink("two", folder.join("..next")).expect("a link");
    std::fs::rename(folder.join("..next"), folder.join("..data")).expect("a link");
    let changes = gateway.next_log("configuration reloaded").await["changes"].clone();
    assert_eq!(changes, "routes added: b; routes removed: a");
}

/// A run keeps what it began with, and what is counted of it is right to its end.
#[tokio::test]
async fn keeps_runs_of_a_removed_route_open() {
    let (first, rest) = (HEAD.to_owned() + &run_beginning(), CLOSED.to_owned() + FINISHED);
    let agent = Agent::with_script(vec![Step::Read, write(first), Step::Pause, write(rest)]);
    let folder = TempFolder::new();
    let file = folder.join("diglot.yaml");
    replace_file(&file, &config_yaml("", &agent, &[("a", ", max_streams: 1"), ("b", ", max_streams: 1")]));
    let mut gateway = Gateway::start_with_config(&file, &[]).await;
    let mut clients = Vec::new();
    for path in ["/a", "/b"] {
        let mut client = Client::connect(gateway.data).await;
        client.send(post(path, "", INPUT)).await;
        client.read_head().await;
        client.read_until("你好\"}\n\n").await;
        clients.push(client);
    }
    replace_file(&file, &config_yaml("", &agent, &[("b", ", max_streams: 2")]));
    gateway.process.signal("HUP");
    gateway.next_log("configuration reloaded").await;
    assert_eq!(post_run(gateway.data, "/a").await.status, 404);
    // The run that is open counts: one more has room, and no third.
    let mut another = Client::connect(gateway.data).await;
    another.send(post("/b", "", INPUT)).await;
    assert_eq!(another.read_head().await.status, 200);
    assert_eq!(post_run(gateway.data, "/b").await.status, 503);
    for route in ["a", "b"] {
        let active = gateway.metric(&format!(r#"diglot_streams_active{{route="{route}"}}"#)).await;
        assert_eq!(active, if route == "a" { 1.0 } else { 2.0 }, "{route}");
    }
    for _ in 0..3 {
        agent.resume();
    }
    for mut client in clients {
        assert!(String::from_utf8_lossy(&client.read_rest().await.0).contains("RUN_FINISHED"));
    }
    another.read_rest().await;
    for route in ["a", "b"] {
        gateway.wait_for_metric(&format!(r#"diglot_streams_active{{route="{route}"}}"#), 0.0).await;
    }
}

/// Limits that did not change go on counting.
#[tokio::test]
async fn keeps_quotas_across_reloads() {
    let (agent, folder) = (start_agent(), TempFolder::new());
    let file = folder.join("diglot.yaml");
    let limits =
        "rate_limits: [{name: few, key: address, requests: 2, per: 24h}, {name: other, key: address, requests: N}]";
    let text = |n| {
        config_yaml(&limits.replace('N', n), &agent, &[("a", ", rate_limits: [few]"), ("b", ", rate_limits: [other]")])
    };
    replace_file(&file, &text("1"));
    let mut gateway = Gateway::start_with_config(&file, &[]).await;
    for (path, status) in [("/a", 200), ("/a", 200), ("/a", 429), ("/b", 200), ("/b", 429)] {
        assert_eq!(post_run(gateway.data, path).await.status, status, "{path}");
    }
    replace_file(&file, &text("2"));
    gateway.process.signal("HUP");
    gateway.next_log("configuration reloaded").await;
    for (path, status) in [("/a", 429), ("/b", 200), ("/b", 200), ("/b", 429)] {
        assert_eq!(post_run(gateway.data, path).await.status, status, "{path}");
    }
}

/// Requests that come while the configuration changes all the time are answered by one of the two, and never by neither.
#[tokio::test]
async fn serves_every_request_during_repeated_reloads() {
    let (agent, folder) = (start_agent(), TempFolder::new());
    let file = folder.join("diglot.yaml");
    let texts = [
        config_yaml("", &agent, &[("a", "")]),
        config_yaml("keep_alive: 3s", &agent, &[("b", ""), ("a", ", guard: strict, timeouts: {idle: 9s}")]),
    ];
    replace_file(&file, &texts[0]);
    let gateway = Gateway::start_with_config(&file, &[]).await;
    let (over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (over, done, data) = (Arc::clone(&over), Arc::clone(&done), gateway.data);
            tokio::spawn(async move {
                let mut client = Client::connect(data).await;
                while !over.load(Ordering::Relaxed) {
                    client.send(post("/a", "", INPUT)).await;
                    assert_succeeded(&client.read_answer().await, COMPLETE_RUN);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for round in 1..=40 {
        replace_file(&file, &texts[round % 2]);
        // Several signals at once cause one or more reloads.
        for _ in 0..5 {
            gateway.process.signal("HUP");
        }
        let hoped = if round % 2 == 1 { 200 } else { 404 };
        eventually("the other configuration", async || {
            (post_run(gateway.data, "/b").await.status == hoped).then_some(())
        })
        .await;
    }
    over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("every answer was a whole run");
    }
    assert!(done.load(Ordering::Relaxed) > 40);
    assert_eq!(gateway.metric(RELOAD_SUCCESSFUL).await, 1.0);
}

/// The socket in `run_dir`: its commands, and its permissions.
#[tokio::test]
async fn accepts_admin_commands_on_its_socket() {
    use std::os::unix::fs::PermissionsExt;
    let (agent, folder) = (start_agent(), TempFolder::new());
    let (file, run_dir) = (folder.join("diglot.yaml"), folder.join("run"));
    let top = format!("run_dir: {}\nauth: {{api_keys: []}}", run_dir.display());
    replace_file(&file, &config_yaml(&top, &agent, &[("a", ", upstream_headers: {authorization: hunter2}")]));
    let run = |arguments: &[&str]| {
        let output = diglot().args(arguments).output().expect("the binary starts");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (config, folder_name) = (file.to_str().expect("UTF-8"), run_dir.to_str().expect("UTF-8"));
    let (code, _, stderr) = run(&["reload", "--config", config]);
    assert!(code == Some(69) && stderr.contains("cannot connect to a gateway"), "{stderr}");

    let mut gateway = Gateway::start_with_config(&file, &[]).await;
    let mode = |path: &Path| std::fs::metadata(path).expect("a file").permissions().mode() & 0o777;
    assert_eq!((mode(&run_dir), mode(&run_dir.join("admin.sock"))), (0o700, 0o600));
    assert_eq!(run(&["reload", "--config", config]), (Some(0), "nothing changed\n".to_owned(), String::new()));
    let config_now = admin_request(&run_dir, "GET /config", "");
    assert!(config_now.starts_with("HTTP/1.1 200") && config_now.contains("name: a"), "{config_now}");
    assert!(!config_now.contains("hunter2"), "{config_now}");

    assert!(admin_request(&run_dir, "PUT /log-level", "nonsense").starts_with("HTTP/1.1 422"));
    assert!(admin_request(&run_dir, "PUT /log-level", "off").ends_with("\r\n\r\noff\n"));
    assert_eq!(post_run(gateway.data, "/nowhere").await.status, 404);
    assert!(
        admin_request(&run_dir, "PUT /log-level", "").ends_with("\n")
            && admin_request(&run_dir, "GET /log-level", "").contains("info")
    );
    assert_eq!(post_run(gateway.data, "/elsewhere").await.status, 404);
    // The first signal is ignored.
    let refused = gateway.next_log("request refused").await;
    assert_eq!(gateway.metric(r#"diglot_requests_total{code="404",method="POST",route=""}"#).await, 2.0, "{refused}");

    replace_file(&file, &config_yaml(&top, &agent, &[("b", "")]));
    let (code, stdout, _) = run(&["reload", "--run-dir", folder_name]);
    assert_eq!((code, stdout.as_str()), (Some(0), "routes added: b; routes removed: a\n"));
    replace_file(&file, "routes: []\n");
    let (code, stdout, stderr) = run(&["reload", "--run-dir", folder_name]);
    assert!(code == Some(78) && stdout.is_empty() && stderr.contains("there is no route"), "{stderr}");
    // A second one has no business there.
    replace_file(&file, &config_yaml(&top, &agent, &[("b", "")]));
    let (code, _, stderr) = run(&["serve", "--config", config]);
    assert!(code == Some(69) && stderr.contains("another gateway"), "{stderr}");

    let (code, stdout, stderr) = run(&["drain", "--config", config, "--wait"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    assert_eq!(gateway.process.exit().await.code(), Some(0));
    assert!(!run_dir.join("admin.sock").exists());
    assert_eq!(run(&["drain", "--config", config]).0, Some(69));
    replace_file(&file, &config_yaml("", &agent, &[("b", "")]));
    let (code, _, stderr) = run(&["drain", "--config", config]);
    assert!(code == Some(78) && stderr.contains("`run_dir` is not set"), "{stderr}");
}

/// kubelet sends SIGTERM behind a preStop hook that began a drain: it must not cut what the hook waits for.
#[tokio::test]
async fn ignores_the_first_sigterm_after_a_drain_command() {
    let (first, rest) = (HEAD.to_owned() + &run_beginning(), CLOSED.to_owned() + FINISHED);
    let agent = Agent::with_script(vec![Step::Read, write(first), Step::Pause, write(rest)]);
    let folder = TempFolder::new();
    let (file, run_dir) = (folder.join("diglot.yaml"), folder.join("run"));
    replace_file(&file, &config_yaml(&format!("run_dir: {}", run_dir.display()), &agent, &[("a", "")]));
    for cut in [false, true] {
        let mut gateway = Gateway::start_with_config(&file, &[]).await;
        let mut client = Client::connect(gateway.data).await;
        client.send(post("/a", "", INPUT)).await;
        client.read_head().await;
        client.read_until("你好\"}\n\n").await;
        let order = diglot().args(["drain", "--wait", "--timeout", "200ms", "--run-dir"]).arg(&run_dir).output();
        let order = order.expect("the binary starts");
        assert_eq!(order.status.code(), Some(1), "{order:?}");
        gateway.process.signal("TERM");
        gateway.process.signal(if cut { "INT" } else { "CONT" });
        if !cut {
            agent.resume();
        }
        let (received, _) = client.read_rest().await;
        let received = String::from_utf8_lossy(&received);
        assert!(received.contains(if cut { "gateway_draining" } else { "RUN_FINISHED" }), "{received}");
        assert_eq!(gateway.process.exit().await.code(), Some(0));
    }
}

/// A process that was killed leaves its sockets behind; the next one starts over them.
#[tokio::test]
async fn restarts_over_the_sockets_of_a_killed_process() {
    let (agent, folder) = (start_agent(), TempFolder::new());
    let (file, run_dir) = (folder.join("diglot.yaml"), folder.join("run"));
    let text = config_yaml(&format!("run_dir: {}", run_dir.display()), &agent, &[("a", "")]);
    replace_file(&file, &text);
    let mut gateway = Gateway::start_with_config(&file, &[]).await;
    let data = gateway.data;
    replace_file(&file, &text.replace("data: 127.0.0.1:0", &format!("data: {data}")));
    let _open = Client::connect(data).await;
    gateway.process.signal("KILL");
    gateway.process.exit().await;
    let gateway = Gateway::start_with_config(&file, &[]).await;
    assert_eq!(gateway.data, data);
    assert_succeeded(&post_run(gateway.data, "/a").await, COMPLETE_RUN);
}
