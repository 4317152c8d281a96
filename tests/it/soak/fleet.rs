//! Two replicas of the gateway with one configuration and one Redis: reloads, upgrades, and what a process uses.

use super::super::auth::idp::{AUDIENCE, Signer, jwks};
use super::super::support::gateway::{Gateway, Process};
use super::super::support::sha256;
use super::plan::RouteKind;
use super::report::SoakReport;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;

/// Time for an old process until its last run has ended.
const UPGRADE_TIMEOUT: u64 = 60;

/// Time that a run is kept behind its end.
pub const REPLAY_AGE: Duration = Duration::from_secs(10);

/// Names of callers with an API key.
pub const CALLERS: [&str; 4] = ["ada", "bob", "eve", "zoe"];

/// Errors in the log that the soak causes itself.
const EXPECTED_ERRORS: [&str; 1] = ["configuration refused; the last good one stays in use"];

/// What the configuration names.
pub struct FleetConfig {
    folder: PathBuf,
    redis: String,
    agents: [SocketAddr; 2],
}

impl FleetConfig {
    pub fn new(redis: String, agents: [SocketAddr; 2], signer: &Signer) -> FleetConfig {
        let folder = std::env::temp_dir().join(format!("diglot-soak-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("keys.json"), jwks(&[signer])).expect("a file");
        FleetConfig { folder, redis, agents }
    }

    /// The file of a replica, in one of its versions.
    fn write(&self, name: &str, version: usize) -> PathBuf {
        let keys = CALLERS.map(|caller| format!("{{id: {caller}, sha256: {}}}", sha256(&format!("{caller}-key"))));
        let (folder, redis) = (self.folder.display(), &self.redis);
        let (keep_alive, idle) = (2 + version % 2, 15 + version % 3);
        let mut text = format!(
            "listeners: {{data: 127.0.0.1:0, status: 127.0.0.1:0}}\ndrain_grace: 0s\ndrain_timeout: 20s\nupgrade_timeout: {UPGRADE_TIMEOUT}s\nrun_dir: {folder}/{name}\nkeep_alive: {keep_alive}s\n{redis}replay: {{store: redis, age: {}s}}\nauth:\n  api_keys: [{{name: web, keys: [{}]}}]\n  issuers: [{{name: corp, issuer: soak, audience: {AUDIENCE}, jwks_file: {folder}/keys.json}}]\nroutes:\n",
            REPLAY_AGE.as_secs(),
            keys.join(", ")
        );
        let [one, other] = self.agents;
        let timeouts = format!("{{first_byte: 15s, first_event: 30s, idle: {idle}s}}");
        for kind in RouteKind::ALL {
            for (client, agent) in kind.pairs() {
                let place = kind.folder();
                let path = format!("/{place}/{client}/{agent}");
                let more = match kind {
                    RouteKind::Plain => "auth: none".to_owned(),
                    RouteKind::Kept => "auth: [web, corp], on_disconnect: continue for 20s".to_owned(),
                    RouteKind::AgentTwoSteps => "auth: none, events: \"/runs/{thread_id}/events\"".to_owned(),
                    RouteKind::ClientTwoSteps => {
                        format!("auth: [web, corp], events_path: \"{path}/{{thread_id}}/events\"")
                    }
                };
                text += &format!(
                    "  - {{name: {place}-{client}-{agent}, path: {path}, client: {client}, agent: {agent}, upstream: [\"http://{one}/runs\", \"http://{other}/runs\"], timeouts: {timeouts}, {more}}}\n"
                );
            }
        }
        if version % 2 == 1 {
            text += &format!(
                "  - {{name: extra, path: /extra, client: ag-ui, agent: hai, upstream: \"http://{one}/runs\", auth: none}}\n"
            );
        }
        self.replace(name, &text)
    }

    /// Replaces the file of a replica at once, as an editor does.
    fn replace(&self, name: &str, text: &str) -> PathBuf {
        let (path, new) = (self.folder.join(format!("{name}.yaml")), self.folder.join(format!("{name}.new")));
        std::fs::write(&new, text).expect("a file");
        std::fs::rename(&new, &path).expect("the same folder");
        path
    }
}

impl Drop for FleetConfig {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// What a process uses.
#[derive(Clone, Copy, Debug)]
pub struct ProcessUsage {
    pub memory: usize,
    pub descriptors: usize,
    pub threads: usize,
}

/// One replica: its address stays, its process may be another.
pub struct Replica {
    pub name: &'static str,
    pub gateway: Gateway,
    version: usize,
}

impl Replica {
    pub async fn start(name: &'static str, config: &FleetConfig, report: &Arc<SoakReport>) -> Replica {
        let mut gateway = Gateway::start_with_config(&config.write(name, 0), &[]).await;
        tokio::spawn(watch_log(gateway.process.take_lines(), Arc::clone(report)));
        Replica { name, gateway, version: 0 }
    }

    /// Loads another configuration.
    pub async fn reload(&mut self, config: &FleetConfig, report: &SoakReport) {
        self.version += 1;
        config.write(self.name, self.version);
        self.gateway.process.signal("HUP");
        report.count("reloads");
    }

    /// Loads a configuration with a mistake, which changes nothing.
    pub async fn reload_mistake(&mut self, config: &FleetConfig, report: &SoakReport) {
        config.replace(self.name, "routes: [{path: nowhere}]\n");
        self.gateway.process.signal("HUP");
        report.count("invalid reloads");
    }

    /// Replaces the process, and waits for the end of the old one in the background.
    pub async fn upgrade(&mut self, config: &FleetConfig, report: &Arc<SoakReport>) {
        self.version += 1;
        let path = config.write(self.name, self.version);
        let mut gateway = Gateway::start_with_config(&path, &["--upgrade"]).await;
        tokio::spawn(watch_log(gateway.process.take_lines(), Arc::clone(report)));
        let old = std::mem::replace(&mut self.gateway, gateway);
        if (old.data, old.status) != (self.gateway.data, self.gateway.status) {
            report.add_violation("an upgrade changed the address", "");
        }
        report.count("upgrades");
        tokio::spawn(watch_end(old.process, Arc::clone(report)));
    }

    pub fn usage(&self) -> ProcessUsage {
        let folder = format!("/proc/{}", self.gateway.process.id());
        let status = std::fs::read_to_string(Path::new(&folder).join("status")).expect("the process runs");
        let threads = status.lines().find_map(|line| line.strip_prefix("Threads:")).expect("Threads");
        ProcessUsage {
            memory: self.gateway.process.resident_memory(),
            descriptors: std::fs::read_dir(Path::new(&folder).join("fd")).expect("the process runs").count(),
            threads: threads.trim().parse().expect("a number"),
        }
    }

    /// Returns the gauges that are above 0 although nothing is in progress.
    pub async fn busy_gauges(&self) -> Vec<String> {
        const GAUGES: [&str; 6] = [
            "diglot_streams_active",
            "diglot_connections_active{listener",
            "diglot_replay_bytes",
            "diglot_replay_followed",
            "diglot_request_body_bytes",
            "diglot_slow_client_bytes",
        ];
        let answer = self.gateway.get_status("/metrics").await;
        let lines = answer.text().lines().filter(|line| GAUGES.iter().any(|gauge| line.starts_with(gauge)));
        let busy = lines.filter(|line| !line.ends_with(" 0") && !line.contains("plane=\"status\""));
        busy.map(str::to_owned).collect()
    }
}

/// Reads a log to its end: no panic, and no error without a cause.
async fn watch_log(mut lines: UnboundedReceiver<String>, report: Arc<SoakReport>) {
    while let Some(text) = lines.recv().await {
        let line: Value = serde_json::from_str(&text).unwrap_or_default();
        let message = line["message"].as_str().unwrap_or_default();
        if line.is_null() || text.contains("panicked") {
            report.add_violation("a line that is no log line", &text);
        } else if line["level"] == "ERROR" && !EXPECTED_ERRORS.contains(&message) {
            report.add_violation(&format!("an error in the log: {message}"), &text);
        } else if line["level"] == "ERROR" || line["level"] == "WARN" && message != "run ended" {
            report.count(&format!("log: {message}"));
        }
        report.add_log_line(text);
    }
}

/// Requires that an old process ends well, and in its time.
async fn watch_end(mut process: Process, report: Arc<SoakReport>) {
    let id = process.id();
    let ended = timeout(Duration::from_secs(UPGRADE_TIMEOUT + 30), async {
        loop {
            if let Some(status) = process.try_exit() {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    match ended.await {
        Ok(status) if status.code() == Some(0) => report.count("old processes ended"),
        other => report.add_violation("an old process did not end well", &format!("{id}: {other:?}")),
    }
}
