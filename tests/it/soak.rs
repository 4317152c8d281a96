//! A mixed load for a long time (`make soak`): every dialect towards every other, clients that leave, come back and stop,
//! agents and Redis that die, reloads and upgrades. Every transcript is judged, and at quiet points the gateways must be
//! as they were.
//!
//! - `agents`: the agents of the load.
//! - `connection`: requests of clients, and what they have received.
//! - `fleet`: the replicas, their reloads and upgrades, and what they use.
//! - `judge`: the rules for transcripts.
//! - `plan`: what one run does.
//! - `report`: counts, and the evidence of what is wrong.
//! - `scenarios`: what clients do.
//! - `situation`: what is broken at a time.
//!
//! The seed gives the same plans and clients; the times of what happens to them are those of the machine.

mod agents;
mod connection;
mod fleet;
mod judge;
mod plan;
mod report;
mod scenarios;
mod situation;

use super::auth::idp::Signer;
use super::laws::dice::Dice;
use super::support::redis::Redis;
use agents::{LoadAgent, PlanBook};
use fleet::{FleetConfig, ProcessUsage, Replica};
use futures_util::FutureExt;
use report::SoakReport;
use scenarios::LoadContext;
use situation::Situation;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::RwLock;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Clients at once.
const CLIENTS: usize = 40;

/// Time for the last streams and kept runs to go: `replay.age`, and runs that continue without their client.
const QUIET_DEADLINE: Duration = Duration::from_secs(90);

/// A process may have more of these at a quiet point than at the first. The allocator keeps pages that were used at once,
/// and the kernel counts them; a leak of 100 bytes for each run is 16 MiB within an hour.
const MORE_MEMORY: usize = 16 << 20;
const MORE_DESCRIPTORS: usize = 24;
/// Threads of the blocking pool that nobody needs stay for 10 s.
const MORE_THREADS: usize = 16;

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Everything that the soak breaks.
struct SoakWorld {
    context: Arc<LoadContext>,
    config: FleetConfig,
    /// the first is upgraded, the second lives as long as the soak
    replicas: [Replica; 2],
    agents: [LoadAgent; 2],
    redis: Redis,
    dice: Dice,
    /// what the second replica used at the first quiet point
    first: Option<ProcessUsage>,
    /// held by clients, and by a quiet point alone
    gate: Arc<RwLock<()>>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: `make soak`"]
async fn judges_every_transcript_of_a_mixed_load() {
    let clock = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock").as_secs();
    let (seconds, seed) = (variable("SOAK_SECONDS", 600), variable("SOAK_SEED", clock()));
    let report = Arc::new(SoakReport::new(seed));
    report.print(&format!("soak of {seconds} s, SEED={seed}"));
    let mut world = SoakWorld::start(seed, &report).await;
    let (over, next) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (watched, watching) = (Arc::clone(&world.context), Arc::clone(&report));
    let watch = tokio::spawn(async move { watched.situation.watch_stalls(&watching).await });
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(run_client(
            Arc::clone(&world.context),
            Arc::clone(&world.gate),
            Arc::clone(&over),
            Arc::clone(&next),
        ));
    }
    let end = Instant::now() + Duration::from_secs(seconds);
    let between_quiets = Duration::from_secs((seconds / 6).clamp(20, 300));
    let (mut quiet_at, mut report_at) = (Instant::now() + between_quiets, Instant::now());
    while Instant::now() < end {
        if Instant::now() >= report_at {
            report.print_progress();
            report_at = Instant::now() + Duration::from_secs(60);
        }
        if Instant::now() >= quiet_at {
            go_on_after_panics(&world.context.clone(), world.check_quiet()).await;
            quiet_at = Instant::now() + between_quiets;
        }
        go_on_after_panics(&world.context.clone(), world.disturb()).await;
    }
    over.store(true, Ordering::SeqCst);
    clients.join_all().await;
    world.check_quiet().await;
    world.drain().await;
    watch.abort();
    let summary = report.summary();
    println!("{summary}");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/target/soak");
    std::fs::write(format!("{path}/{seed}-report.txt"), &summary).expect("a file");
    assert_eq!(report.violations(), 0, "violations; see {path}/{seed}-*.txt");
}

/// Awaits a step that has deadlines: one that is missed is a violation, unless the machine stalled, and not the end.
async fn go_on_after_panics(context: &LoadContext, step: impl Future<Output = ()>) {
    let start = Instant::now();
    if AssertUnwindSafe(step).catch_unwind().await.is_err() {
        match context.situation.stalls.overlap(start) {
            true => context.report.count("steps given up in a stall"),
            false => context.report.add_violation("a step missed its deadline", "see the panic above"),
        }
    }
}

/// One client after the other. A panic of one is a violation, not the end.
async fn run_client(context: Arc<LoadContext>, gate: Arc<RwLock<()>>, over: Arc<AtomicBool>, next: Arc<AtomicU64>) {
    while !over.load(Ordering::SeqCst) {
        let held = Arc::clone(&gate).read_owned().await;
        let (number, start) = (next.fetch_add(1, Ordering::SeqCst), Instant::now());
        let own = Arc::clone(&context);
        let played = tokio::spawn(async move { scenarios::play(&own, number).await }).await;
        match played {
            Err(_) if context.situation.stalls.overlap(start) => {
                context.report.count("clients that gave up in a stall");
            }
            Err(error) => {
                let what = error.into_panic().downcast::<String>().map_or_else(|_| "a panic".to_owned(), |text| *text);
                context.report.add_violation(&format!("client panicked: {what}"), &format!("run {number}"));
            }
            Ok(()) => {}
        }
        drop(held);
        // Some think before they go on.
        sleep(Duration::from_millis(number % 7 * 50)).await;
    }
}

impl SoakWorld {
    async fn start(seed: u64, report: &Arc<SoakReport>) -> SoakWorld {
        let (redis, plans, signer) = (Redis::start().await, Arc::<PlanBook>::default(), Signer::new("soak"));
        let agents = [LoadAgent::start(&plans).await, LoadAgent::start(&plans).await];
        let addresses = [agents[0].address(), agents[1].address()];
        let config = FleetConfig::new(redis.yaml(", deadline: 1s"), addresses, &signer);
        let replicas = [Replica::start("one", &config, report).await, Replica::start("two", &config, report).await];
        let data = [replicas[0].gateway.data, replicas[1].gateway.data];
        let (report, situation) = (Arc::clone(report), Situation::default());
        let context = Arc::new(LoadContext { seed, data, plans, situation, report, signer });
        let (dice, gate) = (Dice::new(seed ^ 0x5eed), Arc::default());
        SoakWorld { context, config, replicas, agents, redis, dice, first: None, gate }
    }

    /// Breaks something, and mends it.
    async fn disturb(&mut self) {
        sleep(Duration::from_millis(2000 + self.dice.below(3000) as u64)).await;
        let (report, situation) = (&self.context.report, &self.context.situation);
        let which = self.dice.below(2);
        match self.dice.below(20) {
            0..6 => self.replicas[which].reload(&self.config, report).await,
            6 => {
                self.replicas[which].reload_mistake(&self.config, report).await;
                sleep(Duration::from_secs(1)).await;
                self.replicas[which].reload(&self.config, report).await;
            }
            7..10 => {
                situation.upgrades.begin();
                self.replicas[0].upgrade(&self.config, report).await;
                situation.upgrades.end();
            }
            10..12 => {
                report.count("kills of Redis");
                situation.redis.begin();
                self.redis.kill().await;
                sleep(Duration::from_millis(self.dice.below(6000) as u64)).await;
                self.redis.restart().await;
                situation.redis.end();
            }
            12 => {
                report.count("hangs of Redis");
                situation.redis.begin();
                self.redis.suspend();
                sleep(Duration::from_millis(self.dice.below(6000) as u64)).await;
                self.redis.continue_running();
                situation.redis.end();
            }
            13..16 => {
                report.count("kills of an agent");
                let time = Duration::from_millis(self.dice.below(2000) as u64);
                self.agents[which].fail_for(time, &situation.agents).await;
            }
            _ => {}
        }
    }

    /// Waits until nothing is in progress, and requires that everything is as it was.
    async fn check_quiet(&mut self) {
        let gate = Arc::clone(&self.gate);
        let _alone = gate.write().await;
        let report = &self.context.report;
        let begin = Instant::now();
        // Connections that the gateways keep end with the agents'.
        for agent in &mut self.agents {
            agent.kill().await;
            agent.restart().await;
        }
        for (at, replica) in self.replicas.iter().enumerate() {
            let (mut busy, mut polls) = (replica.busy_gauges().await, 0);
            while !busy.is_empty() && begin.elapsed() < QUIET_DEADLINE {
                sleep(Duration::from_millis(250)).await;
                busy = replica.busy_gauges().await;
                polls += 1;
                if polls % 80 == 0 {
                    report.print(&format!("not quiet yet: {}", busy.join(", ")));
                }
            }
            if !busy.is_empty() {
                report.add_violation(&format!("not quiet after {QUIET_DEADLINE:?}: {}", busy[0]), &busy.join("\n"));
            }
            let usage = replica.usage();
            let ProcessUsage { memory, descriptors, threads } = usage;
            report.add_sample(format!(
                "quiet after {:.1} s, replica {}: {:.1} MiB, {descriptors} descriptors, {threads} threads, {} runs so far",
                begin.elapsed().as_secs_f64(), replica.name, memory as f64 / 1_048_576.0, report.run_count()
            ));
            if at == 0 {
                continue;
            }
            let first = *self.first.get_or_insert(usage);
            if memory > first.memory + (first.memory / 10).max(MORE_MEMORY)
                || descriptors > first.descriptors + MORE_DESCRIPTORS
                || threads > first.threads + MORE_THREADS
            {
                report.add_violation(
                    "a process uses more than at the first quiet point",
                    &format!("{usage:?}, first {first:?}"),
                );
            }
        }
    }

    /// Ends both replicas.
    async fn drain(&mut self) {
        for replica in &mut self.replicas {
            replica.gateway.process.signal("TERM");
            let status = replica.gateway.process.exit().await;
            if status.code() != Some(0) {
                self.context.report.add_violation("a replica did not end well", &format!("{status:?}"));
            }
        }
    }
}
