//! Every pod for real: its command with its environment and files, its probes, a run through it to the agent in the
//! pod, and its end through the hooks of the manifest.

use super::bundle::{all_bundles, list_at, text_at};
use super::documentation::Credentials;
use super::pod::{Pod, PodFiles, each_text};
use crate::support::client::{Answer, Client, INPUT, post};
use crate::support::gateway::{Gateway, Process, diglot};
use crate::support::sse::{assert_refused, events, types};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;

#[tokio::test]
async fn every_pod_serves_as_its_manifest_declares() {
    let mut count = 0;
    for bundle in all_bundles() {
        for pod in bundle.pods() {
            println!("{}: {}", bundle.name, pod.name);
            assert_serves(&pod).await;
            count += 1;
        }
    }
    assert!(count >= 6, "{count}");
}

async fn assert_serves(pod: &Pod<'_>) {
    let stage = PodFiles::for_pod(pod);
    let agents = Agents::start_for(pod, &stage).await;
    let words = [json!("diglot"), json!("check"), json!("--strict"), json!(stage.file)];
    let checked = container_command(pod, &stage, &agents, &words).output().expect("the binary starts");
    assert_eq!(checked.status.code(), Some(0), "{}: {checked:?}", pod.bundle.name);

    stage.write(&local_config(&stage, &agents));
    let mut gateway =
        Gateway::start_ready(container_command(pod, &stage, &agents, list_at(pod.gateway(), "/command"))).await;
    for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
        let path = text_at(&pod.gateway()[probe], "/httpGet/path");
        assert_eq!(gateway.get_status(path).await.status, 200, "{}: {probe}", pod.bundle.name);
    }
    assert_runs(pod, &stage, &gateway).await;
    assert_metrics_exist(pod, &gateway).await;
    assert_shutdown(pod, &stage, &agents, &mut gateway).await;
}

/// Mock agents in place of the pod's agents.
struct Agents {
    /// where the configuration has one, and where it is now
    relocated: BTreeMap<String, String>,
    _processes: Vec<Process>,
}

impl Agents {
    async fn start_for(pod: &Pod<'_>, stage: &PodFiles) -> Agents {
        let mut agents = Agents { relocated: BTreeMap::new(), _processes: Vec::new() };
        // An agent of the manifest's own is started by its own command, on another port.
        let own = pod.agent_command();
        for route in stage.config().routes {
            for upstream in route.upstreams {
                let general = [json!("diglot"), json!("mock-agent"), json!("--dialect"), json!(route.agent.name())];
                let mut command = diglot();
                let words = if own.is_empty() { general.iter().collect() } else { own.clone() };
                for word in &words[1..] {
                    let word = word.as_str().expect("text");
                    command.arg(if word == upstream.authority() { "127.0.0.1:0" } else { word });
                }
                let mut process = Process::start(&mut command, true);
                let line = process.line().await.expect("the agent prints its address");
                let authority = line.split('/').nth(2).unwrap_or_else(|| panic!("no URL in {line:?}")).to_owned();
                agents.relocated.insert(upstream.authority(), authority);
                agents._processes.push(process);
            }
        }
        agents
    }

    /// A URL with the place where the agent is now.
    fn relocate(&self, text: &str) -> Option<String> {
        let (own, other) = self.relocated.iter().find(|(own, _)| text.starts_with(&format!("http://{own}")))?;
        Some(text.replacen(own, other, 1))
    }
}

/// The configuration on ports that are free, with the agents that there are, and without the wait for load balancers.
fn local_config(stage: &PodFiles, agents: &Agents) -> Value {
    let mut config = stage.written.clone();
    let free = |text: &str| {
        let port = text.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        port.map(|_| "127.0.0.1:0".to_owned())
    };
    each_text(&mut config["listeners"], &free);
    each_text(&mut config["routes"], &|text| agents.relocate(text));
    config["drain_grace"] = json!("0s");
    if config.get("redis").is_some() {
        // No Redis: limits are counted here.
        config["redis"]["url"] = json!("redis://127.0.0.1:1/0");
    }
    config
}

/// A command of the manifest, with the container's environment.
fn container_command(pod: &Pod<'_>, stage: &PodFiles, agents: &Agents, words: &[Value]) -> Command {
    assert_eq!(words[0], "diglot", "{}", pod.bundle.name);
    let mut command = diglot();
    command.args(words[1..].iter().map(|word| word.as_str().expect("text"))).env("DIGLOT_CONFIG", &stage.file);
    for (name, value) in &stage.env {
        command.env(name, agents.relocate(value).unwrap_or_else(|| value.clone()));
    }
    command
}

/// Sends one request to the data plane, over TLS if the pod uses it.
async fn send_request(stage: &PodFiles, gateway: &Gateway, request: String) -> Answer {
    if stage.config().data[0].tls.is_none() {
        let mut client = Client::connect(gateway.data).await;
        client.send(request).await;
        return client.read_answer().await;
    }
    let stream = stage.authority.dialer().dial(gateway.data).await.expect("a handshake");
    let mut client = Client::over(stream);
    client.send(request).await;
    client.read_answer().await
}

/// A run on each route comes to its end, and only with a key where there are keys.
async fn assert_runs(pod: &Pod<'_>, stage: &PodFiles, gateway: &Gateway) {
    let config = stage.config();
    let keys = config.routes.iter().any(|route| !route.access.methods.is_empty());
    for route in &config.routes {
        if keys {
            assert_refused(
                &send_request(stage, gateway, post(&route.path, "", INPUT)).await,
                401,
                "authentication_required",
            );
        }
        let answer = send_request(
            stage,
            gateway,
            post(&route.path, &format!("x-api-key: {}\r\n", Credentials::generate().key), INPUT),
        )
        .await;
        assert_eq!(answer.status, 200, "{}: {}", pod.bundle.name, answer.text());
        assert_eq!(types(&events(answer.text())).last(), Some(&"RUN_FINISHED"), "{}", pod.bundle.name);
    }
}

/// The metrics that autoscaling and scraping use exist.
async fn assert_metrics_exist(pod: &Pod<'_>, gateway: &Gateway) {
    let metrics = gateway.get_status("/metrics").await;
    for scaler in pod.bundle.documents_of_kind("HorizontalPodAutoscaler") {
        let metric = scaler.text("/spec/metrics/0/pods/metric/name");
        assert!(metrics.text().contains(&format!("\n# TYPE {metric} gauge\n")), "{metric}");
    }
    for monitor in pod.bundle.documents_of_kind("PodMonitor") {
        let path = monitor.text("/spec/podMetricsEndpoints/0/path");
        assert_eq!(gateway.get_status(path).await.status, 200, "{path}");
    }
}

/// Ends a pod like kubelet: all preStop hooks at once, then SIGTERM. An open run finishes.
async fn assert_shutdown(pod: &Pod<'_>, stage: &PodFiles, agents: &Agents, gateway: &mut Gateway) {
    let Some(agent) = pod.agent() else {
        gateway.process.signal("TERM");
        assert_eq!(gateway.process.exit().await.code(), Some(0), "{}", pod.bundle.name);
        return;
    };
    let mut client = Client::connect(gateway.data).await;
    client.send(post(&stage.config().routes[0].path, "", INPUT)).await;
    assert_eq!(client.read_head().await.status, 200);
    let begun = client.read_until("RUN_STARTED").await;

    let mut waiting = Client::connect(gateway.status).await;
    let path = text_at(agent, "/lifecycle/preStop/httpGet/path");
    waiting.send(format!("GET {path} HTTP/1.1\r\nHost: status\r\nConnection: close\r\n\r\n")).await;
    // There is no `drain_grace` here in which the hook would come: it has to be there before. Connections are served in their
    // order.
    assert_eq!(gateway.get_status("/livez").await.status, 200);
    let hook = list_at(pod.gateway(), "/lifecycle/preStop/exec/command");
    let drained = container_command(pod, stage, agents, hook).output().expect("the binary starts");
    assert_eq!(drained.status.code(), Some(0), "{}: {drained:?}", pod.bundle.name);
    assert_eq!(waiting.read_answer().await.status, 200, "{}", pod.bundle.name);
    let (rest, _) = client.read_rest().await;
    let received = begun + &String::from_utf8_lossy(&rest);
    assert!(received.contains("RUN_FINISHED"), "{}: {received}", pod.bundle.name);
    assert_eq!(gateway.process.exit().await.code(), Some(0), "{}", pod.bundle.name);
}
