//! Configurations and secrets as Kubernetes mounts them (certificates: `edges/tls.rs`), and files that are written, broken or taken away under the gateway.

use super::super::support::client::{Client, INPUT, ask, post, run};
use super::super::support::sse::{WHOLE, succeeded};
use super::super::support::{eventually, sha256};
use super::{Folder, GOOD, many, put, yaml};
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
fn keys(key: &str) -> String {
    format!("keys: [{{id: one, sha256: {}}}]\n", sha256(key))
}

fn with_key(path: &str, key: &str) -> String {
    post(path, &format!("x-api-key: {key}\r\n"), INPUT)
}

#[tokio::test]
async fn kubelet_changes_what_is_mounted_and_no_request_is_lost() {
    let (agent, folder) = (many(), Folder::new());
    let (config, secret) = (folder.0.join("config"), folder.0.join("secret"));
    // Read by a name that starts at the folder of the configuration.
    let auth = "auth: {api_keys: [{name: partners, file: ../secret/keys.yaml}]}";
    let before = yaml(auth, &agent, &[("a", "")]);
    let after = yaml(&format!("keep_alive: 7s\n{auth}"), &agent, &[("b", ""), ("a", ", guard: strict")]);
    mount(&config, "2026_11_22_08_00_00.1", &[("diglot.yaml", &before)]);
    mount(&secret, "2026_11_22_08_00_00.2", &[("keys.yaml", &keys("first"))]);
    let mut gateway = Gateway::at(&config.join("diglot.yaml"), &[]).await;
    let (over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let client = tokio::spawn({
        let (over, done, data) = (Arc::clone(&over), Arc::clone(&done), gateway.data);
        async move {
            let mut client = Client::connect(data).await;
            while !over.load(Ordering::Relaxed) {
                client.send(with_key("/a", "first")).await;
                succeeded(&client.answer().await, WHOLE);
                done.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    mount(&config, "2026_11_22_08_01_00.3", &[("diglot.yaml", &after)]);
    let said = gateway.logged("configuration reloaded").await["changes"].clone();
    assert_eq!(said, "keep_alive: 15s → 7s; routes[a].guard: repair → strict; routes added: b");
    succeeded(&ask(gateway.data, with_key("/b", "first")).await, WHOLE);
    over.store(true, Ordering::Relaxed);
    client.await.expect("every answer was a whole run");
    assert!(done.load(Ordering::Relaxed) > 0);

    // A Secret alone: nothing of the configuration differs.
    mount(&secret, "2026_11_22_08_02_00.4", &[("keys.yaml", &keys("second"))]);
    eventually("the other key", async || {
        (ask(gateway.data, with_key("/a", "second")).await.status == 200).then_some(())
    })
    .await;
    assert_eq!(ask(gateway.data, with_key("/a", "first")).await.status, 401);
    // A broken one changes nothing.
    mount(&secret, "2026_11_22_08_03_00.5", &[("keys.yaml", "keys: [{id: one, sha256: hunter2}]\n")]);
    gateway.logged("file cannot be used; the last good content stays").await;
    succeeded(&ask(gateway.data, with_key("/b", "second")).await, WHOLE);
    assert_eq!(gateway.metric(GOOD).await, 1.0);
}

/// In place, without a rename, as editors and `cp` do it.
#[tokio::test]
async fn a_file_that_is_half_written_or_gone_changes_nothing() {
    let (agent, folder) = (many(), Folder::new());
    let file = folder.0.join("diglot.yaml");
    let whole = yaml("", &agent, &[("a", "")]);
    put(&file, &whole);
    let mut gateway = Gateway::at(&file, &[]).await;
    let refused = "configuration refused; the last good one stays in use";

    let next = yaml("keep_alive: 7s", &agent, &[("a", ", guard: strict")]);
    std::fs::write(&file, &next[..next.len() - 20]).expect("a file");
    gateway.logged(refused).await;
    assert_eq!(gateway.metric(GOOD).await, 0.0);
    succeeded(&run(gateway.data, "/a").await, WHOLE);
    std::fs::write(&file, &next).expect("a file");
    let said = gateway.logged("configuration reloaded").await["changes"].clone();
    assert_eq!(said, "keep_alive: 15s → 7s; routes[a].guard: repair → strict");
    assert_eq!(gateway.metric(GOOD).await, 1.0);

    std::fs::remove_file(&file).expect("the file");
    let problems = gateway.logged(refused).await["problems"].clone();
    assert!(problems.as_str().is_some_and(|said| said.contains("cannot be read")), "{problems}");
    succeeded(&run(gateway.data, "/a").await, WHOLE);
    // As it was before: it is good again, and nothing differs.
    put(&file, &next);
    assert_eq!(gateway.logged("configuration reloaded").await["changes"], "nothing changed");
    assert_eq!(gateway.metric(GOOD).await, 1.0);
}

/// A secret that changes is no line of the log.
#[tokio::test]
async fn a_changed_secret_is_named_and_not_said() {
    let (agent, folder) = (many(), Folder::new());
    let file = folder.0.join("diglot.yaml");
    let text = |secret: &str| yaml("", &agent, &[("a", &format!(", upstream_headers: {{authorization: {secret}}}"))]);
    put(&file, &text("hunter2"));
    let mut gateway = Gateway::at(&file, &[]).await;
    put(&file, &text("hunter3"));
    gateway.process.signal("HUP");
    assert_eq!(gateway.logged("configuration reloaded").await["changes"], "routes changed: a");
    assert!(!gateway.last_words().await.contains("hunter"));
}
