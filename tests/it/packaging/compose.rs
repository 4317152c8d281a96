//! `deploy/compose`: valid by the Compose Specification's own schema; its files and programs exist.

use super::{repository_path, run_command, tool};
use crate::support::client::{End, INPUT, post, send_request};
use crate::support::gateway::{Gateway, Process, TempFile, diglot};
use crate::support::redis::Redis;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const FILE: &str = "deploy/compose/compose.yaml";

/// The file, with what YAML merges merged.
fn compose() -> Value {
    read_yaml(&repository_path(FILE))
}

/// A YAML file as Python reads it.
fn read_yaml(file: &Path) -> Value {
    let script = "import json, sys, yaml; json.dump(yaml.safe_load(open(sys.argv[1])), sys.stdout)";
    let mut python = tool("python3");
    let (code, stdout, stderr) = run_command(python.args(["-c", script]).arg(file));
    assert_eq!(code, Some(0), "{stderr}");
    serde_json::from_str(&stdout).expect("JSON")
}

fn list<'v>(value: &'v Value, what: &str) -> &'v [Value] {
    value[what].as_array().map_or(&[], Vec::as_slice)
}

fn words(value: &Value) -> Vec<String> {
    let words = value.as_array().expect("a list").iter();
    words.map(|word| word.as_str().map_or_else(|| word.to_string(), str::to_owned)).collect()
}

/// Returns the mounts of the service's files: source, target.
fn mounts(service: &Value) -> Vec<(PathBuf, String)> {
    let mounts = list(service, "volumes").iter().filter_map(Value::as_str).filter(|one| one.starts_with('.'));
    let pair = |one: &str| {
        let mut parts = one.split(':');
        let (source, target) = (parts.next().expect("a source"), parts.next().expect("a target"));
        assert_eq!(parts.next(), Some("ro"), "{one}");
        (repository_path("deploy/compose").join(source), target.to_owned())
    };
    mounts.map(pair).collect()
}

#[test]
fn validates_against_the_compose_specification() {
    let check =
        |file: &Path| run_command(tool("check-jsonschema").args(["--builtin-schema", "vendor.compose-spec"]).arg(file));
    let (code, stdout, stderr) = check(&repository_path(FILE));
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    let wrong = TempFile::new(
        &fs::read_to_string(repository_path(FILE)).expect("the file").replace("stop_grace_period:", "stop_grace:"),
    );
    assert_eq!(check(wrong.path()).0, Some(1));
}

/// Files, names of networks and services, and the image that is built here are there.
#[test]
fn names_existing_files_networks_and_services() {
    let compose = compose();
    for (name, service) in compose["services"].as_object().expect("services") {
        for (source, _) in mounts(service) {
            assert!(source.exists(), "{name}: {}", source.display());
        }
        for volume in list(service, "volumes").iter().filter_map(Value::as_str).filter(|one| !one.starts_with('.')) {
            let volume = volume.split(':').next().expect("a name");
            assert!(compose["volumes"].get(volume).is_some(), "{name}: {volume}");
        }
        for network in list(service, "networks") {
            assert!(compose["networks"].get(network.as_str().expect("a name")).is_some(), "{name}: {network}");
        }
        // No port of this machine is open to others.
        for port in list(service, "ports") {
            assert!(port.as_str().is_some_and(|port| port.starts_with("127.0.0.1:")), "{name}: {port}");
        }
        let image = service["image"].as_str().expect("an image");
        let tag = image.split_once(':').expect("a tag").1;
        assert!(tag != "latest" && (!image.starts_with("diglot:") || tag == env!("CARGO_PKG_VERSION")), "{image}");
        // Capabilities that no service needs are dropped.
        assert_eq!(words(&service["cap_drop"]), ["ALL"], "{name}");
        assert_eq!(words(&service["security_opt"]), ["no-new-privileges:true"], "{name}");
        assert_eq!(service["read_only"], true, "{name}");
        for (other, wanted) in service["depends_on"].as_object().into_iter().flatten() {
            let healthy = wanted["condition"] == "service_healthy";
            let other = compose["services"].get(other).unwrap_or_else(|| panic!("{name}: {other}"));
            assert!(!healthy || other["healthcheck"]["test"].is_array(), "{name}");
        }
    }
}

/// The ports that are published are those of the configuration, and the time to stop is enough for it.
#[test]
fn ports_and_times_match_the_configuration() {
    let compose = compose();
    let gateway = &compose["services"]["gateway"];
    let published: BTreeSet<String> = words(&gateway["ports"]).iter().map(|port| port_of(port).to_owned()).collect();
    for file in ["diglot.yaml", "redis.yaml"] {
        let (code, effective, stderr) =
            run_command(diglot().arg("config").arg(repository_path("deploy/compose/gateway").join(file)));
        assert_eq!(code, Some(0), "{stderr}");
        let value = |key: &str| {
            let line = effective.lines().map(str::trim).find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
            line.unwrap_or_else(|| panic!("no {key} in {effective}")).to_owned()
        };
        let listened: BTreeSet<String> = ["data", "status"].map(|key| port_of(&value(key)).to_owned()).into();
        assert_eq!(published, listened);
        let seconds = |text: &str| text.trim_end_matches('s').parse::<u64>().expect("seconds");
        let stop = seconds(gateway["stop_grace_period"].as_str().expect("a time"));
        assert!(stop >= seconds(&value("drain_grace")) + seconds(&value("drain_timeout")) + 5);
        let (run_dir, tmpfs) = (value("run_dir"), words(&gateway["tmpfs"]));
        assert!(tmpfs.iter().any(|one| one.split(':').next() == Some(&run_dir)), "{run_dir}");
    }
    let default = gateway["environment"]["DIGLOT_CONFIG"].as_str().expect("a file");
    assert_eq!(default, "/etc/diglot/${DIGLOT_FILE:-diglot.yaml}");
}

fn port_of(address: &str) -> &str {
    address.rsplit(':').next().unwrap_or_default().trim_matches('"')
}

/// The agents by their own commands, and the gateway with its own configuration, on other ports: it serves.
#[tokio::test]
async fn gateway_serves_with_the_mounted_files() {
    let (compose, redis) = (compose(), Redis::start().await);
    let mut agents = Vec::new();
    for name in ["hai-agent", "ag-ui-agent"] {
        let command = words(&compose["services"][name]["command"]);
        let listens = command.iter().find(|word| word.starts_with("0.0.0.0:")).expect("an address");
        let there = format!("{name}:{}", port_of(listens));
        let here = command.iter().map(|word| if word == listens { "127.0.0.1:0" } else { word });
        let mut process = Process::start(diglot().args(here.map(|word| if word == "40" { "0" } else { word })), true);
        let line = process.line().await.expect("an address");
        let here = line.split_once("http://").expect("a URL").1.trim_end_matches('/').to_owned();
        agents.push((process, there, here));
    }
    for file in ["diglot.yaml", "redis.yaml"] {
        let mut yaml = fs::read_to_string(repository_path("deploy/compose/gateway").join(file)).expect("the file");
        for (_, there, here) in &agents {
            assert!(yaml.contains(&format!("http://{there}/")), "{file}: {there}");
            yaml = yaml.replace(there, here);
        }
        let run_dir = std::env::temp_dir().join(format!("diglot-compose-{}", std::process::id()));
        let changes = [
            ("0.0.0.0:8787", "127.0.0.1:0".to_owned()),
            ("0.0.0.0:8788", "127.0.0.1:0".to_owned()),
            ("/run/diglot", run_dir.display().to_string()),
            ("redis://redis:6379", format!("redis://127.0.0.1:{}", redis.port())),
        ];
        for (there, here) in changes {
            yaml = yaml.replace(there, &here);
        }
        let config = TempFile::new(&format!("drain_grace: 0s\n{yaml}"));
        let gateway = Gateway::start_with_config(config.path(), &[]).await;
        for path in ["/agents/hai", "/agents/ag-ui"] {
            let answer = send_request(gateway.data, post(path, "", INPUT)).await;
            // Runs that can be come back to have ids on their events.
            assert_eq!((answer.status, answer.end), (200, End::Clean));
            assert!(answer.text().contains("\"type\":\"RUN_FINISHED\""), "{}", answer.text());
        }
        drop(gateway);
        let _ = fs::remove_dir_all(run_dir);
    }
    let example = fs::read_to_string(repository_path("deploy/compose/run.json")).expect("the file");
    assert!(serde_json::from_str::<Value>(&example).is_ok_and(|run| run["messages"].is_array()));
}

/// Prometheus reads its file and the rules where compose mounts them.
#[test]
fn prometheus_accepts_its_configuration_and_rules() {
    let compose = compose();
    let prometheus = &compose["services"]["prometheus"];
    let folder = std::env::temp_dir().join(format!("diglot-compose-prometheus-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    for (source, target) in mounts(prometheus) {
        let name = target.strip_prefix("/etc/prometheus/").expect("its folder");
        fs::copy(source, folder.join(name)).expect("a copy");
    }
    let config = words(&prometheus["command"])
        .into_iter()
        .find_map(|word| Some(word.strip_prefix("--config.file=/etc/prometheus/")?.to_owned()));
    let config = folder.join(config.expect("its file"));
    let (code, stdout, stderr) = run_command(Command::new("promtool").args(["check", "config"]).arg(&config));
    let _ = fs::remove_dir_all(&folder);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(stdout.contains("1 rule files found"), "{stdout}");
    let port = port_of(&words(&compose["services"]["gateway"]["ports"])[1]).to_owned();
    assert!(
        fs::read_to_string(repository_path("deploy/compose/prometheus.yaml"))
            .expect("it")
            .contains(&format!("port: {port}"))
    );
}

/// Grafana finds the dashboard in the folder of its provider, and Prometheus at its address.
#[test]
fn grafana_provisions_the_dashboard_and_data_source() {
    let compose = compose();
    let mounts = mounts(&compose["services"]["grafana"]);
    let provided = |kind: &str, file: &str| {
        let folder = mounts.iter().find(|(_, target)| target == &format!("/etc/grafana/provisioning/{kind}"));
        read_yaml(&folder.unwrap_or_else(|| panic!("no {kind}")).0.join(file))
    };
    let path =
        provided("dashboards", "diglot.yaml")["providers"][0]["options"]["path"].as_str().expect("a path").to_owned();
    let dashboard = mounts.iter().find(|(_, target)| target.starts_with(&path)).expect("a dashboard");
    let dashboard: Value =
        serde_json::from_str(&fs::read_to_string(&dashboard.0).expect("the dashboard")).expect("JSON");
    assert!(dashboard["panels"].is_array());
    let source = &provided("datasources", "prometheus.yaml")["datasources"][0];
    let url = source["url"].as_str().expect("a URL").strip_prefix("http://").expect("http");
    let (host, port) = url.split_once(':').expect("a port");
    assert!(compose["services"].get(host).is_some());
    assert_eq!(port_of(words(&compose["services"][host]["ports"])[0].as_str()), port);
}
