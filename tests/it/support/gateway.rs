//! The real binary: `diglot serve` with a configuration of the test, on ports that the system chose.

use super::client::{self, Answer};
use super::{eventually, within_deadline};
use diglot::telemetry::metric::CATALOGUE;
use serde_json::Value;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// The configuration of a test gateway. Every gateway has four routes to the same upstreams: `/run` with AG-UI on both
/// sides, `/from-hai` for a HAI agent, `/to-hai` for a HAI client, and `/auto`, which detects both.
#[derive(Default)]
pub struct Setup<'a> {
    /// URLs of the agents
    pub upstreams: &'a [String],
    /// `listeners`, as a YAML flow mapping; TCP on free ports where empty
    pub listeners: &'a str,
    /// keys of the top level, as YAML lines
    pub top: &'a str,
    /// `timeouts` of every route, as a YAML flow mapping; the defaults where empty
    pub timeouts: &'a str,
    /// `guard` of every route; the default where empty
    pub guard: &'a str,
    /// the routes as YAML, in place of these four; `top` is above them
    pub routes: &'a str,
    /// variables of its environment
    pub env: &'a [(&'a str, &'a str)],
    /// whether it is not waited for until it is ready
    pub unready: bool,
}

impl Setup<'_> {
    fn yaml(&self) -> String {
        // No load balancer has to be waited for at the end of a test.
        let grace = if self.top.contains("drain_grace") { "" } else { "drain_grace: 0s" };
        let listeners =
            if self.listeners.is_empty() { "{data: 127.0.0.1:0, status: 127.0.0.1:0}" } else { self.listeners };
        let top = format!("listeners: {listeners}\n{grace}\n{}", self.top);
        if !self.routes.is_empty() {
            return format!("{top}\n{}", self.routes);
        }
        let timeouts = if self.timeouts.is_empty() { "{}" } else { self.timeouts };
        let guard = if self.guard.is_empty() { "repair" } else { self.guard };
        let upstreams = self.upstreams.join(", ");
        let route = |name, client, agent| {
            format!(
                "  - {{name: {name}, path: /{name}, client: {client}, agent: {agent}, upstream: [{upstreams}], timeouts: {timeouts}, guard: {guard}}}\n"
            )
        };
        let routes = [
            ("run", "ag-ui", "ag-ui"),
            ("from-hai", "ag-ui", "hai"),
            ("to-hai", "hai", "ag-ui"),
            ("auto", "auto", "auto"),
        ];
        let routes: String = routes.into_iter().map(|(name, client, agent)| route(name, client, agent)).collect();
        format!("{top}\nroutes:\n{routes}")
    }
}

/// A file that is gone when the test is.
pub struct TempFile(PathBuf);

impl TempFile {
    pub fn new(text: &str) -> TempFile {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("diglot-it-{}-{}.yaml", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).expect("a file in the temporary folder");
        TempFile(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Returns the command `diglot` without the variables of the tests' environment.
pub fn diglot() -> Command {
    // `make soak` names the release build.
    let program = std::env::var_os("DIGLOT_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_diglot").into());
    let mut command = Command::new(program);
    command.env_remove("DIGLOT_CONFIG").env_remove("DIGLOT_LOG").stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("OTEL_") {
            command.env_remove(name);
        }
    }
    command
}

/// A process that ends with the test, and the lines of its output.
pub struct Process {
    child: Child,
    lines: UnboundedReceiver<String>,
}

impl Process {
    /// Starts `command` and listens to its stderr, or to its stdout.
    pub fn start(command: &mut Command, stdout: bool) -> Process {
        let command = if stdout { command.stdout(Stdio::piped()) } else { command.stderr(Stdio::piped()) };
        let mut child = command.spawn().expect("the binary starts");
        let stream: Box<dyn Read + Send> = if stdout {
            Box::new(child.stdout.take().expect("piped"))
        } else {
            Box::new(child.stderr.take().expect("piped"))
        };
        let (line, lines) = unbounded_channel();
        std::thread::spawn(move || {
            // After the end of the test there is no receiver; the process is killed then.
            BufReader::new(stream).lines().map_while(Result::ok).all(|text| line.send(text).is_ok())
        });
        Process { child, lines }
    }

    /// The next line, `None` once the process has closed its side.
    pub async fn line(&mut self) -> Option<String> {
        within_deadline("a line of the process", self.lines.recv()).await
    }

    /// Hands over the lines to a reader of their own; [`Process::exit`] then waits for the end alone.
    pub fn take_lines(&mut self) -> UnboundedReceiver<String> {
        std::mem::replace(&mut self.lines, unbounded_channel().1)
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends the signal of that name.
    pub fn signal(&self, name: &str) {
        // The shell has `kill` built in; a minimal system has no program of that name.
        let script = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &script]).status().expect("a shell").success());
    }

    /// Waits for the end of the process.
    pub async fn exit(&mut self) -> ExitStatus {
        while self.line().await.is_some() {}
        eventually("the end of the process", async || self.child.try_wait().expect("a child")).await
    }

    /// Returns the status of a process that has ended.
    pub fn try_exit(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child")
    }

    /// Resident memory in bytes.
    pub fn resident_memory(&self) -> usize {
        self.memory("VmRSS:")
    }

    /// The most resident memory since the start, in bytes.
    pub fn peak_memory(&self) -> usize {
        self.memory("VmHWM:")
    }

    /// Resident memory without the program and other files, in bytes: what counts in a container.
    pub fn anonymous_memory(&self) -> usize {
        self.memory("RssAnon:")
    }

    fn memory(&self, what: &str) -> usize {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("the process runs");
        let line = status.lines().find_map(|line| line.strip_prefix(what)).expect("a line of the kernel's");
        1024 * line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A gateway that serves.
pub struct Gateway {
    pub process: Process,
    pub data: SocketAddr,
    pub status: SocketAddr,
    /// where the data plane is on the network, the first of them above
    pub listening: Vec<SocketAddr>,
    /// lines of the log that came before it listened
    early: VecDeque<Value>,
    _file: Option<TempFile>,
}

impl Gateway {
    /// Starts a gateway and waits until it is ready.
    pub async fn start(setup: Setup<'_>) -> Gateway {
        Gateway::start_by(diglot(), setup).await
    }

    /// Like [`Gateway::start`], with a command that gets the arguments of `diglot`.
    pub async fn start_by(mut command: Command, setup: Setup<'_>) -> Gateway {
        let file = TempFile::new(&setup.yaml());
        command.envs(setup.env.iter().copied()).arg("serve").arg("--config").arg(file.path());
        let gateway = Gateway { _file: Some(file), ..Gateway::start_listening(command).await };
        if !setup.unready {
            gateway.wait_until_ready().await;
        }
        gateway
    }

    /// Starts a gateway with a configuration of the test's own, and more arguments, and waits until it is ready.
    pub async fn start_with_config(config: &Path, more: &[&str]) -> Gateway {
        let mut command = diglot();
        command.arg("serve").arg("--config").arg(config).args(more);
        Gateway::start_ready(command).await
    }

    /// Like [`Gateway::start`], with a complete command.
    pub async fn start_ready(command: Command) -> Gateway {
        let gateway = Gateway::start_listening(command).await;
        gateway.wait_until_ready().await;
        gateway
    }

    async fn wait_until_ready(&self) {
        eventually("readiness", async || (self.get_status("/readyz").await.status == 200).then_some(())).await;
    }

    /// Starts it by a command and waits until it listens.
    pub async fn start_listening(mut command: Command) -> Gateway {
        let mut process = Process::start(&mut command, false);
        let (mut listening, mut status) = (Vec::new(), None);
        let mut early = VecDeque::new();
        // The status plane is logged last.
        while status.is_none() {
            let line = process.line().await.expect("the gateway goes on");
            let line: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            if line["message"] == "listening" {
                let address = line["address"].as_str().and_then(|text| text.parse().ok());
                if line["plane"] == "data" { listening.extend(address) } else { status = address }
            }
            early.push_back(line);
        }
        let (data, status) = (listening[0], status.expect("bound"));
        Gateway { process, data, status, listening, early, _file: None }
    }

    /// A gateway with the defaults in front of one agent.
    pub async fn start_for(agent: &super::agent::Agent) -> Gateway {
        Gateway::start(Setup { upstreams: &[agent.url()], ..Setup::default() }).await
    }

    /// Asks the status plane.
    pub async fn get_status(&self, path: &str) -> Answer {
        client::send_request(self.status, format!("GET {path} HTTP/1.1\r\nHost: status\r\nConnection: close\r\n\r\n"))
            .await
    }

    /// Returns the value of one series; 0 if it has not been counted yet, provided that its metric exists.
    pub async fn metric(&self, series: &str) -> f64 {
        let answer = self.get_status("/metrics").await;
        let text = answer.text();
        let found = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        let Some(value) = found else {
            assert!(can_exist(series), "no series {series} in\n{text}");
            return 0.0;
        };
        value.parse().expect("a number")
    }

    /// Waits until a series has a value.
    pub async fn wait_for_metric(&self, series: &str, value: f64) {
        eventually(&format!("{series} = {value}"), async || (self.metric(series).await == value).then_some(())).await;
    }

    /// The next line of the log with this message.
    pub async fn next_log(&mut self, message: &str) -> Value {
        loop {
            let line = match self.early.pop_front() {
                Some(line) => line,
                None => {
                    let line = self.process.line().await;
                    let line = line.unwrap_or_else(|| panic!("the log ended before {message:?}"));
                    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
                }
            };
            if line["message"] == message {
                return line;
            }
        }
    }

    /// Ends it and returns all log lines that were not read.
    pub async fn terminate(mut self) -> String {
        self.process.signal("TERM");
        let mut lines: Vec<_> = self.early.iter().map(Value::to_string).collect();
        while let Some(line) = self.process.line().await {
            lines.push(line);
        }
        lines.join("\n")
    }
}

/// Returns whether a metric can have this series: its name, its labels, and permitted values of each.
fn can_exist(series: &str) -> bool {
    let (name, labels) = series.trim_end_matches('}').split_once('{').unwrap_or((series, ""));
    let Some(metric) = CATALOGUE.iter().find(|metric| metric.name == name) else { return false };
    let labels: Vec<_> = labels.split(',').filter_map(|pair| pair.split_once('=')).collect();
    labels.len() == metric.labels.len()
        && labels.iter().all(|(name, value)| {
            let value = value.trim_matches('"');
            metric.label(name).is_some_and(|label| label.closed_values().is_none_or(|all| all.contains(&value)))
        })
}
