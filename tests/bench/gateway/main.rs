//! Compares the gateway with nginx under the same load: `make bench`, which builds what this program needs.
//!
//! ```text
//!   core 0: this program, the load client  -->  core 1: nginx or Diglot  -->  core 0: `diglot-bench agent`, a HAI agent
//! ```
//!
//! nginx passes HAI's events through unchanged; Diglot checks a token and a rate limit, and translates them to AG-UI. CPU time is
//! what the kernel accounts to the threads of the proxy. Both cores should be free: what delays agent and client changes all figures.
//!
//! Options are variables of the environment: `DIGLOT_BIN`, `ROUNDS` (3), `SECONDS` of one measurement (5), `SCENARIOS` (names
//! of [`scenario::SCENARIOS`], separated by commas), and `OUT`, the folder of the results (`target/bench`).
//!
//! `diglot-bench instructions` counts the instructions of a run instead: `tests/bench/check.py` compares them.

mod script;

mod agent;

mod reader;

mod load;

mod process;

mod token;

mod proxy;

mod scenario;

mod report;

mod instructions;

use process::{ChildProcess, LOAD_CORE};
use proxy::{PROXIES, ProxySetup};
use report::BenchContext;
use scenario::{Measurement, SCENARIOS, Scenario, measure};
use std::env;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

/// Load average of a machine that is not free for a benchmark.
const BUSY: f64 = 0.5;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let result = match env::args().nth(1).as_deref() {
        Some("agent") => runtime.block_on(agent::serve()).map_err(|error| error.to_string()),
        Some("instructions") => runtime.block_on(instructions::print_instructions()),
        None => runtime.block_on(compare()),
        Some(other) => Err(format!("unknown mode {other}; there are: agent, instructions, or none")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("bench: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Returns a variable of the environment; an empty one counts as not set.
fn variable(name: &str, default: &str) -> String {
    env::var(name).ok().filter(|value| !value.is_empty()).unwrap_or_else(|| default.to_owned())
}

fn number(name: &str, default: &str) -> Result<u64, String> {
    let value = variable(name, default);
    value.parse().ok().filter(|number| *number > 0).ok_or_else(|| format!("{name} is not a number above 0: {value}"))
}

/// Starts the agent, and returns it with the setup of the proxies.
fn start_agent(wrapper: Vec<String>) -> Result<(ChildProcess, ProxySetup), String> {
    let diglot = PathBuf::from(variable("DIGLOT_BIN", "target/release/diglot"));
    let diglot = diglot.canonicalize().map_err(|error| format!("DIGLOT_BIN, {}: {error}", diglot.display()))?;
    let folder = PathBuf::from(variable("OUT", "target/bench"));
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let folder = folder.canonicalize().map_err(|error| error.to_string())?.join("run");
    let own = env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new("taskset");
    command.args(["-c", LOAD_CORE]).arg(own).arg("agent").stdout(Stdio::piped());
    let mut agent = ChildProcess(command.spawn().map_err(|error| format!("agent: {error}"))?);
    let mut line = String::new();
    let stdout = agent.0.stdout.take().ok_or("the agent has no output")?;
    BufReader::new(stdout).read_line(&mut line).map_err(|error| error.to_string())?;
    let agent_port = line.trim().parse().map_err(|_| "the agent did not start".to_owned())?;
    Ok((agent, ProxySetup { diglot, folder, agent_port, wrapper }))
}

fn selected_scenarios() -> Result<Vec<&'static Scenario>, String> {
    let names = variable("SCENARIOS", &SCENARIOS.map(|scenario| scenario.name).join(","));
    let find = |name: &str| {
        let known = || SCENARIOS.map(|scenario| scenario.name).join(", ");
        let found = SCENARIOS.iter().find(|scenario| scenario.name == name);
        found.ok_or_else(|| format!("unknown scenario {name}; there are: {}", known()))
    };
    names.split(',').map(|name| find(name.trim())).collect()
}

/// Measures all scenarios in rounds, the proxies in turns, and writes the table.
async fn compare() -> Result<(), String> {
    let (rounds, seconds) = (number("ROUNDS", "3")?, number("SECONDS", "5")?);
    let scenarios = selected_scenarios()?;
    let load_average = report::load_average();
    if load_average.parse::<f64>().is_ok_and(|load| load > BUSY) {
        eprintln!("bench: warning: the machine is busy (load average {load_average}); do not publish these figures");
    }
    process::prepare_driver()?;
    let (_agent, setup) = start_agent(Vec::new())?;
    let mut all: Vec<Measurement> = Vec::new();
    for round in 0..usize::try_from(rounds).unwrap_or(usize::MAX) {
        for scenario in &scenarios {
            let mut proxies = PROXIES;
            // Neither is always the first.
            proxies.rotate_left(round % PROXIES.len());
            for proxy in proxies {
                let found = measure(&setup, proxy, scenario, Duration::from_secs(seconds), round).await;
                let found = found.map_err(|problem| format!("{} behind {}: {problem}", scenario.name, proxy.name()))?;
                eprintln!("round {}: {found:?}", round + 1);
                all.push(found);
            }
        }
    }
    let names: Vec<_> = scenarios.iter().map(|scenario| scenario.name).collect();
    let command = format!("make bench ROUNDS={rounds} SECONDS={seconds} SCENARIOS={}", names.join(","));
    let context = BenchContext::read(command, usize::try_from(rounds).unwrap_or(usize::MAX), load_average);
    let table = context.markdown(&all);
    println!("{table}");
    let folder = setup.folder.parent().unwrap_or(&setup.folder);
    for (name, text) in [("performance.md", table), ("performance.json", format!("{:#}\n", context.json(&all)))] {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        eprintln!("written: {}", path.display());
    }
    Ok(())
}
