//! Configurations and secrets as Kubernetes mounts them (certificates: `listeners/tls.rs`), and files that are written,
//! broken or removed while the gateway runs.

use super::super::support::client::{Client, INPUT, post, post_run, send_request};
use super::super::support::sse::{COMPLETE_RUN, assert_succeeded};
use super::super::support::{eventually, sha256};
use super::{RELOAD_SUCCESSFUL, TempFolder, config_yaml, replace_file, start_agent};
use crate::support::gateway::Gateway;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Puts files where kubelet puts those of a ConfigMap or a Secret: in a folder of their own, which `..data` leads to and is turned
/// to by one rename; the names lead through that. The folder before it is taken away.
fn mount(at: &Path, stamp: &str, files: &[(&str, &str)]) {
    let folder = at.join(format!("..{stamp}"));
    std::fs::create_dir_all(&folder).expect("a folder");
    for (name, text) in files {
        std::fs::write(folder.join(name), text).expect("a file");
    }
    let before = std::fs::read_link(at.join("..data")).ok();
    symlink(format!("..{stamp}"), at.join("..data_tmp")).expect("a link");
    std::fs::rename(at.join("..data_tmp"), at.join("..data")).expect("a link");
    for (name, _) in files {
        if !at.join(name).is_symlink() {
            symlink(format!("..data/{name}"), at.join(name)).expect("a link");
        }
    }
    if let Some(before) = before {
        std::fs::remove_dir_all(at.join(before)).expect("the folder before");
    }
}

/// A list of one API key.
fn key_file(key: &str) -> String {
    format!("keys: [{{id: one, sha256: {}}}]\n", sha256(key))
}

fn request_with_key(path: &str, key: &str) -> String {
    post(path, &format!("x-api-key: {key}\r\n"), INPUT)
}

#[tokio::test]
async fn reloads_mounted_files_without_losing_requests() {
    let (agent, folder) = (start_agent(), TempFolder::new());
    let (config, secret) = (folder.join("config"), folder.join("secret"));
    // Read by a name that starts at the directory of the configuration.
    let auth = "auth: {api_keys: [{name: partners, file: ../secret/keys.yaml}]}";
    let before = config_yaml(auth, &agent, &[("a", "")]);
    let after = config_yaml(&format!("keep_alive: 7s\n{auth}"), &agent, &[("b", ""), ("a", ", guard: strict")]);
    mount(&config, "2026_11_22_08_00_00.1", &[("diglot.yaml", &before)]);
    mount(&secret, "2026_11_22_08_00_00.2", &[("keys.yaml", &key_file("first"))]);
    let mut gateway = Gateway::start_with_config(&config.join("diglot.yaml"), &[]).await;
    let (over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let client = tokio::spawn({
        let (over, done, data) = (Arc::clone(&over), Arc::clone(&done), gateway.data);
        async move {
            let mut client = Client::connect(data).await;
            while !over.load(Ordering::Relaxed) {
                client.send(request_with_key("/a", "first")).await;
                assert_succeeded(&client.read_answer().await, COMPLETE_RUN);
                done.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    mount(&config, "2026_11_22_08_01_00.3", &[("diglot.yaml", &after)]);
    let changes = gateway.next_log("configuration reloaded").await["changes"].clone();
    assert_eq!(changes, "keep_alive: 15s → 7s; routes[a].guard: repair → strict; routes added: b");
    assert_succeeded(&send_request(gateway.data, request_with_key("/b", "first")).await, COMPLETE_RUN);
    over.store(true, Ordering::Relaxed);
    client.await.expect("every answer was a whole run");
    assert!(done.load(Ordering::Relaxed) > 0);

    // A Secret alone: nothing of the configuration differs.
    mount(&secret, "2026_11_22_08_02_00.4", &[("keys.yaml", &key_file("second"))]);
    eventually("the other key", async || {
        (send_request(gateway.data, request_with_key("/a", "second")).await.status == 200).then_some(())
    })
    .await;
    assert_eq!(send_request(gateway.data, request_with_key("/a", "first")).await.status, 401);
    // A broken one changes nothing.
    mount(&secret, "2026_11_22_08_03_00.5", &[("keys.yaml", "keys: [{id: one, sha256: hunter2}]\n")]);
    gateway.next_log("file cannot be used; the last good content stays").await;
    assert_succeeded(&send_request(gateway.data, request_with_key("/b", "second")).await, COMPLETE_RUN);
    assert_eq!(gateway.metric(RELOAD_SUCCESSFUL).await, 1.0);
}

/// In place, without a rename, as editors and `cp` do it.
#[tokio::test]
async fn ignores_a_half_written_or_missing_file() {
    let (agent, folder) = (start_agent(), TempFolder::new());
    let file = folder.join("diglot.yaml");
    let whole = config_yaml("", &agent, &[("a", "")]);
    replace_file(&file, &whole);
    let mut gateway = Gateway::start_with_config(&file, &[]).await;
    let refused = "configuration refused; the last good one stays in use";

    let next = config_yaml("keep_alive: 7s", &agent, &[("a", ", guard: strict")]);
    std::fs::write(&file, &next[..next.len() - 20]).expect("a file");
    gateway.next_log(refused).await;
    assert_eq!(gateway.metric(RELOAD_SUCCESSFUL).await, 0.0);
    assert_succeeded(&post_run(gateway.data, "/a").await, COMPLETE_RUN);
    std::fs::write(&file, &next).expect("a file");
    let changes = gateway.next_log("configuration reloaded").await["changes"].clone();
    assert_eq!(changes, "keep_alive: 15s → 7s; routes[a].guard: repair → strict");
    assert_eq!(gateway.metric(RELOAD_SUCCESSFUL).await, 1.0);

    std::fs::remove_file(&file).expect("the file");
    let problems = gateway.next_log(refused).await["problems"].clone();
    assert!(problems.as_str().is_some_and(|changes| changes.contains("cannot be read")), "{problems}");
    assert_succeeded(&post_run(gateway.data, "/a").await, COMPLETE_RUN);
    // The file is valid again, and nothing differs.
    replace_file(&file, &next);
    assert_eq!(gateway.next_log("configuration reloaded").await["changes"], "nothing changed");
    assert_eq!(gateway.metric(RELOAD_SUCCESSFUL).await, 1.0);
}

/// A secret that changes is no line of the log.
#[tokio::test]
async fn does_not_log_a_changed_secret() {
    let (agent, folder) = (start_agent(), TempFolder::new());
    let file = folder.join("diglot.yaml");
    let text =
        |secret: &str| config_yaml("", &agent, &[("a", &format!(", upstream_headers: {{authorization: {secret}}}"))]);
    replace_file(&file, &text("hunter2"));
    let mut gateway = Gateway::start_with_config(&file, &[]).await;
    replace_file(&file, &text("hunter3"));
    gateway.process.signal("HUP");
    assert_eq!(gateway.next_log("configuration reloaded").await["changes"], "routes changed: a");
    assert!(!gateway.terminate().await.contains("hunter"));
}
