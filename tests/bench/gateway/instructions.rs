//! Counts the instructions of one run of 42 events through the gateway, under callgrind. Start and stop of the gateway cancel out:
//! the count is the difference between two processes, one of which serves more runs.

use super::load::{LoadSpec, RunCount, run_load};
use super::proxy::ProxyKind;
use super::scenario::short_run;
use super::script::StreamPlan;
use super::{number, process, start_agent};
use std::fs::read_to_string;

/// Runs after which pools and caches are full.
const FEW_RUNS: u64 = 100;

/// Prints the instructions per run, rounded.
pub async fn print_instructions() -> Result<(), String> {
    process::prepare_driver()?;
    // Start and stop differ by a million instructions from process to process, so the difference should be of many runs.
    let runs = number("RUNS", "800")?;
    let few = count(FEW_RUNS).await?;
    let many = count(FEW_RUNS + runs).await?;
    println!("{}", many.saturating_sub(few) / runs);
    Ok(())
}

/// Returns the instructions of a process that serves `runs` runs, one after another on one connection.
async fn count(runs: u64) -> Result<u64, String> {
    let output = std::env::temp_dir().join(format!("diglot-bench-{}.callgrind", std::process::id()));
    let file = format!("--callgrind-out-file={}", output.display());
    let valgrind = ["taskset", "-c", process::PROXY_CORE, "valgrind", "--tool=callgrind", &file].map(String::from);
    let (_agent, setup) = start_agent(valgrind.to_vec())?;
    let gateway = setup.start(ProxyKind::Diglot, "")?;
    let spec = LoadSpec {
        port: gateway.port,
        types: ProxyKind::Diglot.types(),
        authorization: gateway.authorization.clone(),
        connections: 1,
        // How many reads several writes take depends on time.
        plan: StreamPlan { batch: usize::MAX >> 1, ..short_run() },
        runs: RunCount::Times(runs),
    };
    run_load(&spec).await?;
    // Stops it, so that callgrind writes its file.
    drop(gateway);
    let text = read_to_string(&output).map_err(|error| format!("{}: {error}", output.display()))?;
    let _ = std::fs::remove_file(&output);
    let total = text.lines().rev().find_map(|line| line.strip_prefix("totals:")?.trim().parse().ok());
    total.ok_or_else(|| "callgrind's file has no total".to_owned())
}
