//! Values of the chart: refused ones, those that replace pods, and a chart that includes this one.

use super::bundle::{CHART, all_bundles, entries, render_chart, render_with_each, render_with_values, root, text_at};
use super::read;
use diglot::config::load;
use diglot::config::reload::keys_needing_restart;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

const ROUTE: &str = "{path: /a, client: ag-ui, agent: hai, upstream: 'http://my-agent:9001/a'}";

/// Values with a route, more keys of the configuration, and more values.
fn values(config: &str, more: &str) -> String {
    let comma = if config.is_empty() { "" } else { ", " };
    format!("config: {{routes: [{ROUTE}]{comma}{config}}}\n{more}\n")
}

/// Every row is a common mistake, and words of the response that help to fix it.
#[test]
fn rejects_invalid_values() {
    #[rustfmt::skip]
    let rows: &[(&str, &str, &[&str])] = &[
        // keys that are not there, and values of another kind
        ("", "replica: 3", &["'replica' not allowed"]),
        ("", "image: {repo: x}", &["/image", "'repo' not allowed"]),
        ("", "ingress: {hosts: [a]}", &["/ingress", "'hosts' not allowed"]),
        ("", "agent: {lifecycle: {}}", &["/agent", "'lifecycle' not allowed"]),
        ("", "replicas: three", &["/replicas", "want integer"]),
        ("", "secrets: [{name: x}]", &["/secrets/0", "want string"]),
        ("", "podLabels: {version: 1}", &["/podLabels/version", "want string"]),
        ("", "mode: proxy", &["/mode", "'gateway', 'sidecar', 'parts'"]),
        ("", "service: {port: 70000}", &["/service/port", "65,535"]),
        // values that need others
        ("", "mode: sidecar", &["/agent", "missing property 'image'"]),
        ("", "ingress: {enabled: true}", &["/ingress/host"]),
        ("", "httpRoute: {enabled: true}", &["/httpRoute/parentRefs"]),
        ("", "image: {tag: latest}", &["image.tag", "name a version"]),
        ("", "terminationGracePeriodSeconds: 60", &["too short for drain_grace and drain_timeout", "315"]),
        // values without effect in this mode
        ("", "agent: {image: 'a:1'}", &["agent: ", "mode: sidecar"]),
        ("", "mode: parts\nagent: {image: 'a:1'}", &["agent: ", "mode: sidecar"]),
        ("", "mode: sidecar\nagent: {image: 'a:1', ports: [{containerPort: 8787}]}", &["agent.ports: 8787", "data"]),
        ("", "mode: sidecar\nagent: {image: 'a:1', ports: [{containerPort: 9}, {containerPort: 8788}]}", &["agent.ports: 8788", "status"]),
        ("redis: {url: 'redis://r/', password_file: /run/secrets/redis/password}", "secrets: [other]", &["/run/secrets/redis/", "secrets: [redis]"]),
        // of the configuration, what the manifests are made from
        ("listeners: {data: 'unix:/run/x.sock'}", "", &["config.listeners.data", "write one as 0.0.0.0:8787"]),
        ("listeners: {status: []}", "", &["config.listeners.status", "at least one"]),
        ("listeners: {status: '127.0.0.1:8788'}", "", &["config.listeners.status", "write 0.0.0.0:8788"]),
        ("drain_timeout: '${DRAIN}'", "", &["config.drain_timeout", "set terminationGracePeriodSeconds"]),
        // values that the configuration's own schema refuses
        ("drain_grace: 10", "", &["/config/drain_grace", "want string"]),
        ("drain_grac: 10s", "", &["/config", "'drain_grac' not allowed"]),
        ("keep_alive: soon", "", &["/config/keep_alive", "does not match pattern"]),
        ("limits: {connection: 7}", "", &["/config/limits", "'connection' not allowed"]),
        ("run_dir: /var/run/diglot", "", &["/config/run_dir"]),
    ];
    let all: Vec<String> = rows.iter().map(|(config, more, _)| values(config, more)).collect();
    for (bundle, (config, more, words)) in render_with_each(all.iter().map(String::as_str)).into_iter().zip(rows) {
        let error = bundle.error.unwrap_or_else(|| panic!("{config} {more}: was taken"));
        for word in *words {
            assert!(error.contains(word), "{config} {more}: {word:?} is not in\n{error}");
        }
    }
    for (values, word) in
        [("{}", "/config/routes"), ("config: {routes: [{path: /a}]}", "missing properties 'client', 'agent'")]
    {
        let error = render_with_values(values).error.expect("an error");
        assert!(error.contains(word), "{values}: {error}");
    }
}

/// Files below /run/secrets may also come from another volume, and names of variables are not checked.
#[test]
fn accepts_secrets_mounted_by_other_means() {
    let rows = [
        ("/run/secrets/redis/password", "secrets: [redis]"),
        ("/run/secrets/redis/password", "volumeMounts: [{name: v, mountPath: /run/secrets/redis}]"),
        ("/run/secrets/redis/password", "volumeMounts: [{name: v, mountPath: /run/secrets/}]"),
        ("/run/secrets/redis/one/password", "volumeMounts: [{name: v, mountPath: /run/secrets/redis/one}]"),
        ("/run/secrets/${NAME}/password", ""),
        ("/etc/redis/password", ""),
    ];
    let texts: Vec<String> = rows
        .iter()
        .map(|(file, more)| values(&format!("redis: {{url: 'redis://r/', password_file: '{file}'}}"), more))
        .collect();
    for bundle in render_with_each(texts.iter().map(String::as_str)) {
        assert_eq!(bundle.error, None, "{}", bundle.name);
    }
}

/// A Service has the default port of its scheme, unless another is set, and routes and ingresses use it.
#[test]
fn service_port_follows_the_scheme() {
    let tls = "listeners: {data: [{address: '0.0.0.0:8443', tls: {cert: a, key: b}}]}";
    let ways = "ingress: {enabled: true, host: a}\nhttpRoute: {enabled: true, parentRefs: [{name: a}]}";
    let rows = [("", "", 80), (tls, "", 443), ("", "service: {port: 8080}", 8080), (tls, "service: {port: 80}", 80)];
    let texts: Vec<String> = rows.iter().map(|(config, more, _)| values(config, &format!("{more}\n{ways}"))).collect();
    for (bundle, (_, _, port)) in render_with_each(texts.iter().map(String::as_str)).iter().zip(rows) {
        assert_eq!(bundle.error, None, "{}", bundle.name);
        for (kind, pointer) in [("Service", "/spec/ports/0/port"), ("HTTPRoute", "/spec/rules/0/backendRefs/0/port")] {
            let object = &bundle.documents_of_kind(kind).next().expect(kind).object;
            assert_eq!(object.pointer(pointer), Some(&Value::from(port)), "{kind}: {}", bundle.name);
        }
        assert!(bundle.notes.contains(&format!(".agents:{port}/a\n")), "{}", bundle.notes);
    }
}

/// The same in a chart that includes this one: its pod is the one in our page.
#[test]
fn replaces_pods_of_a_parent_chart() {
    let own = ParentChart::new();
    let with = |config: &str| format!("diglot: {{config: {{{config}}}}}");
    let texts = [with(""), with("keep_alive: 1s"), with("trusted_proxies: [10.0.0.0/8]")];
    let bundles = render_chart(own.path(), texts.iter().map(String::as_str));
    let templates: Vec<&Value> = bundles
        .iter()
        .map(|bundle| {
            assert_eq!(bundle.error, None, "{}", bundle.name);
            &bundle.documents_of_kind("Deployment").next().expect("a Deployment").object["spec"]["template"]
        })
        .collect();
    assert_eq!(templates[0], templates[1], "a process takes it");
    assert_ne!(templates[0], templates[2], "no process takes it");
}

/// A pod is replaced where its process could not take the new configuration, and else is left alone.
#[test]
fn replaces_pods_when_a_reload_cannot_apply_the_change() {
    // With the chart's own defaults, so that a row changes one thing.
    #[rustfmt::skip]
    let rows: &[&str] = &[
        "listeners: {data: '0.0.0.0:9999'}", "listeners: {status: '0.0.0.0:9999'}", "listeners: {inspector: '127.0.0.1:8789'}", "run_dir: /run/diglot/other",
        "trusted_proxies: [10.0.0.0/8]", "replay: {store: redis}, redis: {url: 'redis://r/'}",
        "limits: {header_bytes: 8KiB}", "limits: {headers: 7}", "limits: {head_timeout: 1s}", "limits: {idle_timeout: 1s}",
        "limits: {connections: 7}", "limits: {connections_per_address: 7}",
        "limits: {frame: 1MiB}", "limits: {max_streams: 7}", "replay: {runs: 7}", "keep_alive: 1s",
        "redis: {url: 'redis://r/'}", "rate_limits: [{name: l, key: route, requests: 1, per: 1s}]", "upgrade_timeout: 1s",
        "dialects: [{name: acme, extends: ag-ui}]",
    ];
    let mut texts =
        vec![values("", ""), values("", "restartOnChange: true"), values("keep_alive: 1s", "restartOnChange: true")];
    texts.extend(rows.iter().map(|row| values(row, "")));
    let bundles = render_with_each(texts.iter().map(String::as_str));
    let seen: Vec<(Value, String)> = bundles
        .iter()
        .map(|bundle| {
            assert_eq!(bundle.error, None, "{}", bundle.name);
            let deployment = bundle.documents_of_kind("Deployment").next().expect("a Deployment");
            let map = bundle.documents_of_kind("ConfigMap").next().expect("a ConfigMap");
            (deployment.object["spec"]["template"].clone(), map.text("/data/diglot.yaml").to_owned())
        })
        .collect();
    assert_ne!(seen[1].0, seen[2].0, "restartOnChange");
    let understood =
        |text: &str| load::from_str("diglot.yaml", text).unwrap_or_else(|problems| panic!("{problems}\n{text}"));
    let (template, before) = (&seen[0].0, understood(&seen[0].1));
    let mut keys = BTreeSet::new();
    for ((other, text), row) in seen[3..].iter().zip(rows) {
        let needed = keys_needing_restart(&before, &understood(text));
        assert_eq!(template != other, !needed.is_empty(), "{row}: {needed:?}");
        keys.extend(needed);
    }
    // The list has all keys: the text of the code has as many.
    let source = read("src/config/reload.rs");
    let list =
        source.split("fn keys_needing_restart").nth(1).and_then(|rest| rest.split("];").next()).expect("the list");
    assert_eq!(keys.len(), list.matches(" != ").count(), "{keys:?}");
}

/// Numbers arrive as they were written, however large: Helm reads them all as floating point.
#[test]
fn keeps_the_digits_of_configured_numbers() {
    let bundle = all_bundles().iter().find(|bundle| bundle.name.ends_with("gateway-whole.yaml")).expect("the values");
    let text = bundle.documents_of_kind("ConfigMap").next().expect("a ConfigMap").text("/data/diglot.yaml");
    for line in ["events: 100000000", "max_streams: 1000000", "request_body: 8388608"] {
        assert!(text.lines().any(|own| own.trim() == line), "{line}\n{text}");
    }
}

/// The addresses in Helm's notes exist.
#[test]
fn notes_name_the_url_of_each_route() {
    for bundle in all_bundles().iter().filter(|bundle| bundle.name.starts_with(CHART)) {
        if bundle.pods().next().is_none() {
            assert!(bundle.notes.contains("ConfigMap"), "{}", bundle.notes);
            continue;
        }
        let service = bundle.documents_of_kind("Service").next().expect("a Service");
        let (port, name) = (&service.object["spec"]["ports"][0]["port"], service.name());
        let scheme = text_at(&service.object, "/spec/ports/0/appProtocol");
        let url = format!("{scheme}://{name}.agents:{port}/agents/chat");
        assert!(bundle.notes.contains(&url), "{url} is not in\n{}", bundle.notes);
        assert!(bundle.notes.contains(&format!("deployment/{name}")), "{}", bundle.notes);
    }
}

/// The chart that README.md of ours shows, with ours inside. Gone when dropped.
pub struct ParentChart(PathBuf);

impl ParentChart {
    pub fn new() -> ParentChart {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let (process, nth) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let own = ParentChart(std::env::temp_dir().join(format!("diglot-chart-{process}-{nth}")));
        let page = read(&format!("{CHART}/README.md"));
        let block = |beginning: &str| {
            let found = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
            let mut found = found.filter(|block| block.starts_with(beginning));
            found.next().unwrap_or_else(|| panic!("README.md has no block {beginning}"))
        };
        std::fs::create_dir_all(own.0.join("templates")).expect("a folder");
        let chart = "apiVersion: v2\nname: my-agent\nversion: 1.0.0\ndependencies: [{name: diglot, version: '*', repository: ''}]\n";
        for (file, text) in [
            ("Chart.yaml", chart),
            ("values.yaml", block("# values.yaml\ndiglot:")),
            ("templates/deployment.yaml", block("# templates/deployment.yaml\n")),
        ] {
            std::fs::write(own.0.join(file), text).expect("a file");
        }
        copy(&root().join(CHART), &own.0.join("charts/diglot"));
        own
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ParentChart {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for path in entries(from) {
        let there = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &there);
        } else {
            std::fs::copy(&path, there).expect("a file");
        }
    }
}
