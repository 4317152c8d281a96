//! The loads that are compared, and how one is measured.

use super::load::{LoadSpec, RunCount, open_streams, run_load};
use super::process::{cpu_nanos, resident_kib};
use super::proxy::{ProxyKind, ProxySetup, RunningProxy};
use super::script::StreamPlan;
use std::time::Duration;
use tokio::time::sleep;

/// Deltas of a short run, which has 42 events with its other ones.
const SHORT_RUN: u64 = 32;

/// What the streams of a scenario do.
#[derive(Clone, Copy)]
pub enum LoadKind {
    /// Send deltas: `batch` in one write, `rate` per second or, with 0, as fast as they are read.
    Deltas { batch: usize, rate: u64 },
    /// Short runs, one after another on each connection.
    Runs,
    /// Stay open after their first delta.
    Idle,
}

/// One row of the table.
pub struct Scenario {
    pub name: &'static str,
    pub title: &'static str,
    pub streams: usize,
    pub kind: LoadKind,
    /// Further lines of Diglot's route.
    pub route_keys: &'static str,
}

const fn row(name: &'static str, title: &'static str, streams: usize, kind: LoadKind) -> Scenario {
    Scenario { name, title, streams, kind, route_keys: "" }
}

pub const SCENARIOS: [Scenario; 9] = [
    row("b32", "64 streams, 32 events per write", 64, LoadKind::Deltas { batch: 32, rate: 0 }),
    row("f64", "64 streams, one event per write", 64, LoadKind::Deltas { batch: 1, rate: 0 }),
    row("live", "1,000 streams × 50 events/s", 1_000, LoadKind::Deltas { batch: 1, rate: 50 }),
    Scenario {
        route_keys: "    inspect: events\n",
        ..row("inspect", "`live` with `inspect: events`", 1_000, LoadKind::Deltas { batch: 1, rate: 50 })
    },
    row("p100", "100 streams × 20 events/s", 100, LoadKind::Deltas { batch: 1, rate: 20 }),
    row("p1000", "1,000 streams × 5 events/s", 1_000, LoadKind::Deltas { batch: 1, rate: 5 }),
    row("runs", "runs of 42 events, 32 connections", 32, LoadKind::Runs),
    row("idle", "2,000 idle streams", 2_000, LoadKind::Idle),
    Scenario {
        route_keys: "    on_disconnect: continue for 5m\n",
        ..row("kept", "`idle` with `on_disconnect: continue for 5m`", 2_000, LoadKind::Idle)
    },
];

/// The figures of one proxy in one scenario of one round.
#[derive(Debug)]
pub struct Measurement {
    pub round: usize,
    pub scenario: &'static str,
    pub proxy: &'static str,
    /// Microseconds of CPU per event or per run, or KiB per idle stream.
    pub cost: f64,
    /// Microseconds from the agent's write to the client's read, if the agent paces its events.
    pub p50: Option<f64>,
    pub p99: Option<f64>,
    /// Resident memory before the idle streams, in MiB.
    pub base: Option<f64>,
    pub runs: u64,
    pub events: u64,
}

/// Starts a proxy for this scenario alone, so that none inherits the memory or the connections of another, warms it up and
/// measures it.
pub async fn measure(
    setup: &ProxySetup,
    kind: ProxyKind,
    scenario: &Scenario,
    time: Duration,
    round: usize,
) -> Result<Measurement, String> {
    let running = setup.start(kind, scenario.route_keys)?;
    let spec = load_spec(&running, kind, scenario, time);
    run_load(&warm_up(&spec)).await?;
    sleep(Duration::from_millis(500)).await;
    let mut found = Measurement {
        round,
        scenario: scenario.name,
        proxy: kind.name(),
        cost: 0.0,
        p50: None,
        p99: None,
        base: None,
        runs: 0,
        events: 0,
    };
    let pid = running.process.0.id();
    if let LoadKind::Idle = scenario.kind {
        let before = resident_kib(pid);
        let streams = open_streams(&spec).await?;
        sleep(Duration::from_secs(1)).await;
        found.cost = resident_kib(pid).saturating_sub(before) as f64 / streams.len() as f64;
        found.base = Some(before as f64 / 1024.0);
        found.runs = streams.len() as u64;
        return Ok(found);
    }
    let before = cpu_nanos(pid);
    let mut result = run_load(&spec).await?;
    // The ends of the runs are logged and counted after the client has them.
    sleep(Duration::from_millis(200)).await;
    let micros = (cpu_nanos(pid) - before) as f64 / 1e3;
    let divisor = if matches!(scenario.kind, LoadKind::Runs) { result.runs } else { result.events };
    if micros == 0.0 || divisor == 0 {
        return Err(format!("{}: nothing was measured; /proc/*/task/*/schedstat is needed", scenario.name));
    }
    result.latencies.sort_unstable();
    let quantile = |share: f64| {
        let at = (result.latencies.len() as f64 * share) as usize;
        result.latencies.get(at).map(|micros| f64::from(*micros))
    };
    found.cost = micros / divisor as f64;
    (found.p50, found.p99) = (quantile(0.5), quantile(0.99));
    (found.runs, found.events) = (result.runs, result.events);
    Ok(found)
}

fn load_spec(running: &RunningProxy, kind: ProxyKind, scenario: &Scenario, time: Duration) -> LoadSpec {
    let (plan, runs) = match scenario.kind {
        LoadKind::Deltas { batch, rate: 0 } => {
            (StreamPlan { deltas: 1 << 40, batch, rate: 0, limit: time }, RunCount::Times(1))
        }
        LoadKind::Deltas { batch, rate } => {
            (StreamPlan { deltas: rate * time.as_secs(), batch, rate, limit: Duration::ZERO }, RunCount::Times(1))
        }
        LoadKind::Runs => (short_run(), RunCount::For(time)),
        LoadKind::Idle => (StreamPlan { deltas: 0, ..short_run() }, RunCount::Times(1)),
    };
    LoadSpec {
        port: running.port,
        types: kind.types(),
        authorization: running.authorization.clone(),
        connections: scenario.streams,
        plan,
        runs,
    }
}

/// Returns the plan of a run of 42 events.
pub fn short_run() -> StreamPlan {
    StreamPlan { deltas: SHORT_RUN, batch: SHORT_RUN as usize, rate: 0, limit: Duration::ZERO }
}

/// Returns a load that fills caches and pools: short runs, and half a second of what will be measured.
fn warm_up(spec: &LoadSpec) -> LoadSpec {
    let time = Duration::from_millis(500);
    let (plan, runs) = match spec.plan {
        plan if plan.rate > 0 => (StreamPlan { deltas: plan.rate, ..plan }, spec.runs),
        plan if !plan.limit.is_zero() => (StreamPlan { limit: time, ..plan }, spec.runs),
        _ if spec.plan.deltas == 0 => (short_run(), RunCount::Times(1)),
        plan => (plan, RunCount::For(time)),
    };
    LoadSpec { connections: spec.connections.min(64), plan, runs, ..spec.clone() }
}
