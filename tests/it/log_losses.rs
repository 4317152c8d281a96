//! Log lines that are dropped while nobody reads stderr: counted, and reported when it is read again.

use super::support::client::send_request;
use super::support::gateway::{TempFile, diglot};
use super::support::{eventually, within_deadline};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStderr, Stdio};
use tokio::net::TcpStream;

const CONFIG: &str = "listeners: {data: 127.0.0.1:0, status: 127.0.0.1:0}\nlimits: {connections: 1}\n\
    routes: [{path: /run, client: ag-ui, agent: ag-ui, upstream: \"http://127.0.0.1:9\"}]\n";

/// Ends the process with the test.
struct KilledChild(Child);

impl Drop for KilledChild {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn next_line(lines: &mut BufReader<ChildStderr>) -> Value {
    let mut line = String::new();
    assert_ne!(lines.read_line(&mut line).expect("stderr"), 0, "the log ended");
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

fn listening_address(lines: &mut BufReader<ChildStderr>, plane: &str) -> SocketAddr {
    loop {
        let line = next_line(lines);
        if line["message"] == "listening" && line["plane"] == plane {
            return line["address"].as_str().expect("text").parse().expect("an address");
        }
    }
}

async fn dropped_lines(status: SocketAddr) -> u64 {
    let request = "GET /metrics HTTP/1.1\r\nHost: status\r\nConnection: close\r\n\r\n";
    let answer = send_request(status, request).await;
    let series = answer.text().lines().find_map(|line| line.strip_prefix("diglot_log_lines_dropped_total "));
    series.expect("the series").parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_dropped_lines_and_reports_them_when_stderr_is_read() {
    let config = TempFile::new(CONFIG);
    let mut command = diglot();
    // Each refused connection is a line.
    command.args(["serve", "--config"]).arg(config.path()).env("DIGLOT_LOG", "debug").stderr(Stdio::piped());
    let mut child = KilledChild(command.spawn().expect("the binary starts"));
    let mut lines = BufReader::new(child.0.stderr.take().expect("piped"));
    let data = listening_address(&mut lines, "data");
    let status = listening_address(&mut lines, "status");
    let _held = TcpStream::connect(data).await.expect("the gateway listens");
    eventually("dropped lines", async || {
        for _ in 0..500 {
            TcpStream::connect(data).await.expect("the gateway listens");
        }
        (dropped_lines(status).await > 0).then_some(())
    })
    .await;
    let report = tokio::task::spawn_blocking(move || {
        loop {
            let line = next_line(&mut lines);
            if line["message"] == "log lines were dropped because stderr was read too slowly" {
                // stderr must be open until the gateway ends.
                return (line["lines"].as_u64().expect("a number"), lines);
            }
        }
    });
    let (reported, _lines) = within_deadline("the report", report).await.expect("no panic");
    assert!(reported > 0);
    assert!(dropped_lines(status).await >= reported);
}
