//! A real `redis-server`, which a test can kill, stop and restart.

use super::gateway::Process;
use socket2::{Domain, Socket, Type};
use std::net::SocketAddr;
use std::process::Command;

/// A Redis on a port of its own that keeps nothing on disk.
pub struct Redis {
    process: Process,
    port: u16,
    /// Keeps the port while no server listens there: the system gives it to no other socket, not even an outgoing
    /// connection.
    _held: Socket,
}

impl Redis {
    pub async fn start() -> Redis {
        Redis::start_with(&[]).await
    }

    /// Starts a Redis that accepts only TLS, with a certificate of the test's own authority, and requires a password.
    pub async fn start_with_tls(password: &str) -> Redis {
        let pem = |name: &str| format!("{}/tests/it/auth/{name}", env!("CARGO_MANIFEST_DIR"));
        let (ca, chain, key) = (pem("ca.pem"), pem("leaf.pem"), pem("leaf.key.pem"));
        let tls = ["--tls-ca-cert-file", &ca, "--tls-cert-file", &chain, "--tls-key-file", &key];
        Redis::start_with(&[&tls[..], &["--tls-auth-clients", "no", "--requirepass", password]].concat()).await
    }

    async fn start_with(more: &[&str]) -> Redis {
        let held = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        // A server that sets the same option may listen on a bound port, as long as no other server listens.
        held.set_reuse_address(true).expect("a socket");
        let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        held.bind(&any.into()).expect("a free port");
        let port = held.local_addr().expect("bound").as_socket().expect("IPv4").port();
        Redis { process: Redis::spawn(port, more).await, port, _held: held }
    }

    /// Starts a server and waits until it takes connections.
    async fn spawn(port: u16, more: &[&str]) -> Process {
        let installed = Command::new("redis-server").arg("--version").output();
        assert!(
            installed.is_ok_and(|output| output.status.success()),
            "these tests need redis-server: run `.githooks/setup tests`, or install the package redis-server"
        );
        let (tcp, tls) = if more.is_empty() { (port, 0) } else { (0, port) };
        let mut command = Command::new("redis-server");
        command.args(["--port", &tcp.to_string(), "--tls-port", &tls.to_string(), "--bind", "127.0.0.1"]);
        command.args(["--save", "", "--appendonly", "no"]).args(more);
        let mut process = Process::start(&mut command, true);
        loop {
            let line = process.line().await.expect("redis-server goes on");
            if line.contains("eady to accept connections") {
                return process;
            }
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// `redis` of a configuration.
    pub fn yaml(&self, more: &str) -> String {
        format!("redis: {{url: \"redis://127.0.0.1:{}\"{more}}}\n", self.port)
    }

    /// Ends it as `kill -9` does. What it knew is gone.
    pub async fn kill(&mut self) {
        self.process.signal("KILL");
        self.process.exit().await;
    }

    /// Starts it again where it was.
    pub async fn restart(&mut self) {
        self.process = Redis::spawn(self.port, &[]).await;
    }

    /// Lets it hang: connections stay open, and nothing answers.
    pub fn suspend(&self) {
        self.process.signal("STOP");
    }

    /// Lets it go on.
    pub fn continue_running(&self) {
        self.process.signal("CONT");
    }

    /// Runs a command of `redis-cli`.
    pub fn run_command(&self, words: &[&str]) -> String {
        let output = Command::new("redis-cli").args(["-p", &self.port.to_string()]).args(words).output();
        String::from_utf8(output.expect("redis-cli comes with redis-server").stdout).expect("text")
    }
}
