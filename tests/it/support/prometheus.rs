//! A real Prometheus that scrapes targets of a test, and its tool `promtool`.

use super::client;
use super::eventually;
use super::gateway::Process;
use super::temp_folder::TempFolder;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

/// Interval of scrapes and rules: `rate` needs two samples, which are there within a second or two.
const SCRAPE_INTERVAL: &str = "500ms";

/// The labels of one series, and its value.
pub type Sample = (BTreeMap<String, String>, f64);

/// Runs `promtool` with `stdin`.
pub fn promtool(args: &[&str], stdin: &str) -> Output {
    let mut command = Command::new("promtool");
    let command = command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| tool_missing("promtool", &error));
    let mut input = child.stdin.take().expect("piped");
    let text = stdin.to_owned();
    // In parallel with reading its output, since either pipe may be full. A command without input closes this one.
    let writing = std::thread::spawn(move || input.write_all(text.as_bytes()).is_ok());
    let output = child.wait_with_output().expect("promtool ends");
    writing.join().expect("written");
    output
}

/// A server with a folder of its own, which is gone when the test is. Targets have the job `diglot`, and their address as
/// `instance`.
pub struct Prometheus {
    /// before its folder, so that it has ended when the folder is removed
    _process: Process,
    _folder: TempFolder,
    address: SocketAddr,
    targets: usize,
}

impl Prometheus {
    /// Starts one and waits until it serves. It scrapes `/metrics` of the targets, and keeps the rules of these files.
    pub async fn start_scraping(targets: &[SocketAddr], rules: &[&Path]) -> Prometheus {
        let folder = TempFolder::new();
        let rules = rules.iter().map(|path| std::path::absolute(path).expect("a path"));
        let listed = targets.iter().map(ToString::to_string).collect::<Vec<_>>();
        // JSON is YAML.
        let config = serde_json::json!({
            "global": {"scrape_interval": SCRAPE_INTERVAL, "scrape_timeout": SCRAPE_INTERVAL, "evaluation_interval": SCRAPE_INTERVAL},
            "rule_files": rules.collect::<Vec<_>>(),
            "scrape_configs": [{"job_name": "diglot", "static_configs": [{"targets": listed}]}],
        });
        let file = folder.join("prometheus.yaml");
        std::fs::write(&file, config.to_string()).expect("a file in the temporary folder");
        let mut command = Command::new("prometheus");
        command.arg("--config.file").arg(&file).arg("--storage.tsdb.path").arg(folder.join("data"));
        // The system chooses the port; the log has it.
        command.args(["--web.listen-address", "127.0.0.1:0", "--log.format", "json"]);
        if let Err(error) = Command::new("prometheus").arg("--version").output() {
            tool_missing("prometheus", &error);
        }
        let mut process = Process::start(&mut command, false);
        // On a busy machine, these two lines come in either order.
        let (mut address, mut is_ready): (Option<SocketAddr>, bool) = (None, false);
        let address = loop {
            if let Some(address) = address.filter(|_| is_ready) {
                break address;
            }
            let line = process.line().await.expect("prometheus goes on");
            let line: Value = serde_json::from_str(&line).unwrap_or(Value::String(line));
            match line["msg"].as_str() {
                Some("Listening on") => address = line["address"].as_str().and_then(|text| text.parse().ok()),
                Some("Server is ready to receive web requests.") => is_ready = true,
                _ => {}
            }
            assert_ne!(line["level"], "error", "{line}");
        };
        Prometheus { _process: process, _folder: folder, address, targets: targets.len() }
    }

    /// Waits until everything has been scraped that is so now: a scrape of each target began after this call.
    pub async fn wait_for_scrape(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
        eventually("a scrape of every target", async || {
            // The time of a sample is that of its scrape; of what was computed it would be that of the question.
            let scraped = self.query("timestamp(up) and on (instance) (up == 1)").await;
            (scraped.iter().filter(|(_, at)| *at > now).count() == self.targets).then_some(())
        })
        .await;
    }

    /// The value of an expression now: one sample for each series of a vector, one without labels for a scalar.
    ///
    /// # Panics
    /// When Prometheus refuses it.
    pub async fn query(&self, expression: &str) -> Vec<Sample> {
        let answer = self.api(&format!("query?query={}", percent_encode(expression))).await;
        let data = &answer["data"];
        let value = |pair: &Value| pair[1].as_str().and_then(|text| text.parse().ok()).expect("a value");
        let labels = |metric: &Value| {
            let pairs = metric.as_object().into_iter().flatten();
            pairs.map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
        };
        match data["resultType"].as_str() {
            Some("vector") => {
                let all = data["result"].as_array().into_iter().flatten();
                all.map(|one| (labels(&one["metric"]), value(&one["value"]))).collect()
            }
            Some("scalar") => vec![(BTreeMap::new(), value(&data["result"]))],
            _ => panic!("{expression}: no value at a time in {answer}"),
        }
    }

    /// Returns the API's response below `/api/v1/`.
    ///
    /// # Panics
    /// If the API reports an error.
    pub async fn api(&self, path: &str) -> Value {
        let request = format!("GET /api/v1/{path} HTTP/1.1\r\nHost: prometheus\r\nConnection: close\r\n\r\n");
        let answer = client::send_request(self.address, request).await;
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_else(|error| panic!("{error}: {answer:?}"));
        assert_eq!(body["status"], "success", "{path}: {body}");
        body
    }
}

/// A text as a part of a query [RFC 3986 §2.1].
fn percent_encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' | b'-' => out.push(char::from(byte)),
            _ => write!(out, "%{byte:02X}").expect("a string takes everything"),
        }
    }
    out
}

fn tool_missing(name: &str, error: &std::io::Error) -> ! {
    panic!("these tests need {name} ({error}): run `.githooks/setup tests`, or install the package prometheus")
}
