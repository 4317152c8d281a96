//! The proxies that are compared: nginx, which passes the events through, and Diglot, which checks a token and translates.

use super::process::{ChildProcess, PROXY_CORE, free_port, wait_for_port};
use super::reader::{AG_UI, EventTypes, HAI};
use super::token::write_keys;
use std::fs::{File, create_dir_all, read_to_string, write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A proxy that can be started.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ProxyKind {
    Nginx,
    Diglot,
}

pub const PROXIES: [ProxyKind; 2] = [ProxyKind::Nginx, ProxyKind::Diglot];

impl ProxyKind {
    pub fn name(self) -> &'static str {
        match self {
            ProxyKind::Nginx => "nginx",
            ProxyKind::Diglot => "diglot",
        }
    }

    pub fn types(self) -> &'static EventTypes {
        match self {
            ProxyKind::Nginx => &HAI,
            ProxyKind::Diglot => &AG_UI,
        }
    }
}

/// Where the programs are, and where their files go.
pub struct ProxySetup {
    pub diglot: PathBuf,
    /// Absolute.
    pub folder: PathBuf,
    pub agent_port: u16,
    /// Words before the command of Diglot, such as those of valgrind; without them, it is pinned to its core.
    pub wrapper: Vec<String>,
}

/// A proxy that runs.
pub struct RunningProxy {
    pub process: ChildProcess,
    pub port: u16,
    pub authorization: Option<String>,
}

/// No access log, no buffering, and connections to the agent that stay open.
fn nginx_config(folder: &Path, port: u16, agent_port: u16) -> String {
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary: String =
        temporary.iter().map(|name| format!("  {name}_temp_path {}/{name};\n", folder.display())).collect();
    format!(
        "daemon off;
worker_processes 1;
worker_rlimit_nofile 16384;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log warn;
events {{ worker_connections 16384; multi_accept on; }}
http {{
  access_log off;
  tcp_nodelay on;
  keepalive_timeout 300s;
  keepalive_requests 100000000;
{temporary}  upstream agent {{ server 127.0.0.1:{agent_port}; keepalive 256; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://agent;
      proxy_http_version 1.1;
      proxy_set_header Connection \"\";
      proxy_buffering off;
      proxy_buffer_size 16k;
      proxy_buffers 8 16k;
      proxy_read_timeout 1h;
    }}
  }}
}}
",
        folder = folder.display()
    )
}

/// A token, one local limit, the status port and the log as shipped, and further keys of the route. The drain does not change
/// what is measured.
fn diglot_config(port: u16, status_port: u16, agent_port: u16, route_keys: &str) -> String {
    format!(
        "listeners:
  data: 127.0.0.1:{port}
  status: 127.0.0.1:{status_port}
drain_grace: 0s
drain_timeout: 1s
auth:
  issuers:
    - {{name: bench, issuer: 'https://issuer.example', audience: agents, jwks_file: keys.json, algorithms: [ES256]}}
rate_limits:
  - {{name: all, requests: 1000000, per: 1s, key: caller}}
routes:
  - name: chat
    path: /chat
    client: ag-ui
    agent: hai
    upstream: http://127.0.0.1:{agent_port}/chat
    rate_limits: [all]
{route_keys}"
    )
}

impl ProxySetup {
    /// Starts a proxy and waits until it accepts connections. The keys are Diglot's.
    pub fn start(&self, proxy: ProxyKind, route_keys: &str) -> Result<RunningProxy, String> {
        let describe = |error: std::io::Error| format!("{}: {error}", self.folder.display());
        create_dir_all(&self.folder).map_err(describe)?;
        let port = free_port()?;
        let config = self.folder.join(format!("{}.conf", proxy.name()));
        let (text, authorization) = match proxy {
            ProxyKind::Nginx => (nginx_config(&self.folder, port, self.agent_port), None),
            ProxyKind::Diglot => {
                let token = write_keys(&self.folder.join("keys.json")).map_err(describe)?;
                (diglot_config(port, free_port()?, self.agent_port, route_keys), Some(format!("Bearer {token}")))
            }
        };
        write(&config, text).map_err(describe)?;
        let log = self.folder.join(format!("{}.stderr", proxy.name()));
        let stderr = File::create(&log).map_err(describe)?;
        let mut command = self.command(proxy, &config);
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        let child = command.spawn().map_err(|error| format!("{}: {error}", proxy.name()))?;
        let mut process = ChildProcess(child);
        wait_for_port(&mut process, port).map_err(|problem| {
            let log = read_to_string(&log).unwrap_or_default();
            let log: String = log.chars().take(2_000).collect();
            format!("{problem}; its log:\n{log}")
        })?;
        Ok(RunningProxy { process, port, authorization })
    }

    fn command(&self, proxy: ProxyKind, config: &Path) -> Command {
        let mut words: Vec<String> = match proxy {
            ProxyKind::Diglot if !self.wrapper.is_empty() => self.wrapper.clone(),
            _ => ["taskset", "-c", PROXY_CORE].map(String::from).to_vec(),
        };
        let config = config.display().to_string();
        words.extend(match proxy {
            ProxyKind::Nginx => ["nginx".to_owned(), "-c".to_owned(), config].to_vec(),
            ProxyKind::Diglot => {
                [self.diglot.display().to_string(), "serve".to_owned(), "--config".to_owned(), config].to_vec()
            }
        });
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command
    }
}
