//! Processes of the benchmark: where they run, and what the kernel accounts to them.

use std::fs::{read_dir, read_to_string};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// The core of agent and client, and the core of the proxy.
pub const LOAD_CORE: &str = "0";
pub const PROXY_CORE: &str = "1";

/// Sockets of the largest scenario, and some more.
const OPEN_FILES: &str = "16384";

/// A child that is killed, with its own children, when it is dropped.
pub struct ChildProcess(pub Child);

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let pids = process_tree(self.0.id());
        run_quietly("kill", &["-TERM", &self.0.id().to_string()]);
        let end = Instant::now() + Duration::from_secs(30);
        while Instant::now() < end && matches!(self.0.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        if matches!(self.0.try_wait(), Ok(None)) {
            pids.iter().for_each(|pid| run_quietly("kill", &["-KILL", &pid.to_string()]));
            let _ = self.0.wait();
        }
    }
}

fn run_quietly(program: &str, arguments: &[&str]) {
    let _ = Command::new(program).args(arguments).output();
}

/// Pins this process, and those that it starts, to the core of the load, and raises the limit on open files.
pub fn prepare_driver() -> Result<(), String> {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return Err("two cores are needed: one for agent and client, one for the proxy".to_owned());
    }
    let own = std::process::id().to_string();
    let files = format!("--nofile={OPEN_FILES}:");
    for command in [["taskset", "-pc", LOAD_CORE, &own], ["prlimit", "--pid", &own, &files]] {
        let output = Command::new(command[0]).args(&command[1..]).output();
        let output = output.map_err(|error| format!("{} (of util-linux) is needed: {error}", command[0]))?;
        if !output.status.success() {
            return Err(format!("{}: {}", command.join(" "), String::from_utf8_lossy(&output.stderr).trim()));
        }
    }
    Ok(())
}

/// Returns a port that is free now.
pub fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    listener.map(|address| address.port()).map_err(|error| error.to_string())
}

/// Waits until the process accepts connections.
pub fn wait_for_port(child: &mut ChildProcess, port: u16) -> Result<(), String> {
    let end = Instant::now() + Duration::from_secs(60);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if !matches!(child.0.try_wait(), Ok(None)) || Instant::now() > end {
            return Err(format!("the proxy did not start on port {port}"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Returns the ids of a process and all its descendants.
fn process_tree(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut at = 0;
    while let Some(pid) = found.get(at) {
        for folder in threads(*pid) {
            let children = read_to_string(format!("{folder}/children")).unwrap_or_default();
            found.extend(children.split(' ').filter_map(|pid| pid.parse::<u32>().ok()));
        }
        at += 1;
    }
    found
}

/// Returns the folders of the threads of a process.
fn threads(pid: u32) -> Vec<String> {
    let folder = read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    folder.map(|entry| entry.path().display().to_string()).collect()
}

/// Returns the nanoseconds that a process and its descendants ran on a core, kernel included.
pub fn cpu_nanos(pid: u32) -> u64 {
    let threads = process_tree(pid).into_iter().flat_map(threads);
    let time = |folder: String| {
        let text = read_to_string(format!("{folder}/schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    threads.filter_map(time).sum()
}

/// Returns the resident memory of a process and its descendants, in KiB.
pub fn resident_kib(pid: u32) -> u64 {
    let resident = |pid: u32| {
        let text = read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        text.lines().find_map(|line| line.strip_prefix("Rss:")?.split_whitespace().next()?.parse::<u64>().ok())
    };
    process_tree(pid).into_iter().filter_map(resident).sum()
}
