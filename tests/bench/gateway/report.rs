//! The results as a Markdown table and as JSON.

use super::proxy::{PROXIES, ProxyKind};
use super::scenario::{LoadKind, Measurement, SCENARIOS, Scenario};
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs::read_to_string;
use std::process::Command;

/// The machine, the versions and the command: figures of two machines cannot be compared.
pub struct BenchContext {
    machine: String,
    diglot: String,
    nginx: String,
    command: String,
    rounds: usize,
    load_average: String,
}

/// Returns how many threads wanted to run in the last minute. Other processes delay agent and client: latency grows, and events that
/// wait together in a socket cost less.
pub fn load_average() -> String {
    let text = read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// Returns the first line that a command prints, or `unknown`.
fn first_line(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().ok().filter(|output| output.status.success());
    let Some(output) = output else { return "unknown".to_owned() };
    // nginx prints its version to stderr.
    let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_owned()
}

impl BenchContext {
    pub fn read(command: String, rounds: usize, load_average: String) -> BenchContext {
        let processor = read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = processor.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let cores = processor.lines().filter(|line| line.starts_with("processor")).count().max(cores);
        let kernel = read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let nginx = first_line("nginx", &["-v"]);
        BenchContext {
            machine: format!("{}, {cores} cores, Linux {}", model.unwrap_or("unknown CPU"), kernel.trim()),
            diglot: first_line("git", &["describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"]),
            nginx: nginx.rsplit('/').next().unwrap_or_default().to_owned(),
            command,
            rounds,
            load_average,
        }
    }

    /// Returns the table of the medians, with the conditions above it.
    pub fn markdown(&self, all: &[Measurement]) -> String {
        let mut out = format!(
            "Machine: {}; load average before the benchmark: {}. Commit {}, nginx {}. Command: `{}`. Medians of {} \
             interleaved rounds.\n\n",
            self.machine, self.load_average, self.diglot, self.nginx, self.command, self.rounds
        );
        out += "| load | | nginx | Diglot | Diglot / nginx | nginx p50, p99 µs | Diglot p50, p99 µs |\n";
        out += "|---|---|---|---|---|---|---|\n";
        for scenario in SCENARIOS.iter().filter(|scenario| all.iter().any(|one| one.scenario == scenario.name)) {
            let cost = |proxy| median(all, scenario, proxy, |one| Some(one.cost)).unwrap_or(f64::NAN);
            let (nginx, diglot) = (cost(ProxyKind::Nginx), cost(ProxyKind::Diglot));
            let latency = |proxy| {
                let p50 = median(all, scenario, proxy, |one| one.p50);
                let p99 = median(all, scenario, proxy, |one| one.p99);
                p50.zip(p99).map_or(String::new(), |(p50, p99)| format!("{p50:.0}, {p99:.0}"))
            };
            let _ = writeln!(
                out,
                "| {} (`{}`) | {} | {} | {} | {:.2} | {} | {} |",
                scenario.title,
                scenario.name,
                unit(scenario),
                figure(nginx),
                figure(diglot),
                diglot / nginx,
                latency(ProxyKind::Nginx),
                latency(ProxyKind::Diglot)
            );
        }
        let base = |proxy| SCENARIOS.iter().find_map(|scenario| median(all, scenario, proxy, |one| one.base));
        if let Some((nginx, diglot)) = base(ProxyKind::Nginx).zip(base(ProxyKind::Diglot)) {
            let _ = writeln!(out, "\nMemory without the streams: nginx {nginx:.1} MiB, Diglot {diglot:.1} MiB.");
        }
        out
    }

    /// Returns everything that was measured.
    pub fn json(&self, all: &[Measurement]) -> Value {
        let one = |one: &Measurement| {
            json!({
                "round": one.round, "scenario": one.scenario, "proxy": one.proxy, "cost": one.cost,
                "p50_us": one.p50, "p99_us": one.p99, "base_mib": one.base, "runs": one.runs, "events": one.events,
            })
        };
        let medians = SCENARIOS.iter().flat_map(|scenario| PROXIES.map(|proxy| (scenario, proxy))).filter_map(
            |(scenario, proxy)| {
                let cost = median(all, scenario, proxy, |one| Some(one.cost))?;
                Some(json!({
                    "scenario": scenario.name, "proxy": proxy.name(), "unit": unit(scenario), "cost": cost,
                    "p50_us": median(all, scenario, proxy, |one| one.p50),
                    "p99_us": median(all, scenario, proxy, |one| one.p99),
                }))
            },
        );
        json!({
            "machine": self.machine, "load_average": self.load_average, "commit": self.diglot, "nginx": self.nginx, "command": self.command,
            "rounds": self.rounds, "medians": medians.collect::<Vec<_>>(),
            "measurements": all.iter().map(one).collect::<Vec<_>>(),
        })
    }
}

fn unit(scenario: &Scenario) -> &'static str {
    match scenario.kind {
        LoadKind::Deltas { .. } => "CPU µs per event",
        LoadKind::Runs => "CPU µs per run",
        LoadKind::Idle => "KiB per stream",
    }
}

/// Returns three significant digits.
fn figure(value: f64) -> String {
    let digits = if value < 1.0 {
        3
    } else if value < 10.0 {
        2
    } else {
        usize::from(value < 100.0)
    };
    format!("{value:.digits$}")
}

fn median(
    all: &[Measurement],
    scenario: &Scenario,
    proxy: ProxyKind,
    value: impl Fn(&Measurement) -> Option<f64>,
) -> Option<f64> {
    let own = all.iter().filter(|one| one.scenario == scenario.name && one.proxy == proxy.name());
    let mut values: Vec<f64> = own.filter_map(value).collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = values.get(middle)?;
    Some(if values.len() % 2 == 1 { *upper } else { (values[middle - 1] + upper) / 2.0 })
}
