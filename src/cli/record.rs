//! `diglot record`: writes the runs of the gateway on this machine to files.
//!
//! It sets the capture mode for a minute at a time, so that a recorder that is killed leaves nothing switched on.

use super::capture_switch::{CaptureSwitch, RENEWAL};
use super::local_gateway::{RunDirArgs, block_on, connection_failure, is_unreachable};
use super::output::{CliExit, CliFailure, CliResult, print_error, print_line, with_plural};
use super::recording_target::RecordingTarget;
use super::run_line::RunLine;
use crate::admin::{self, LineStream};
use crate::config;
use crate::inspect::matches_glob;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, interval_at, sleep, sleep_until};

/// Interval and number of attempts to find the gateway again after it has restarted.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(500);
const RECONNECT_ATTEMPTS: u32 = 40;

/// The last line of a recording of a run that was evicted meanwhile.
const GONE_LINE: &[u8] = b"{\"gone\":true}";

const AFTER_HELP: &str = "\
Captures the runs that begin from now on, on the routes that match, and writes each one when it has ended. In the end the routes are \
captured as before. A file holds one run, so --output FILE records the next run; a folder gets a file for each.

Without --full, a recording has requests only if its route is captured in full already; `diglot replay --as client` needs them. Headers \
are never recorded, but what callers and agents say is: keep recordings as carefully as the conversations.

Examples:
  diglot record -c diglot.yaml --route chat -o run.ndjson
  diglot record -c diglot.yaml --route 'chat*' -o runs/ --for 10m --full

Exit codes: 0 ok, 1 no run was recorded, 2 usage, 69 no gateway is running there or the output cannot be written, 78 the \
configuration is invalid or has no `run_dir`.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct RecordArgs {
    #[command(flatten)]
    place: RunDirArgs,

    /// Name of the routes, in which `*` stands for any characters
    #[arg(long, default_value = "*", value_name = "GLOB")]
    route: String,

    /// File for the next run, or folder (existing, or with `/` at its end) for a file per run
    #[arg(long, short, value_name = "FILE|FOLDER")]
    output: PathBuf,

    /// Stop after so many runs [default: 1 for a file, no limit for a folder]
    #[arg(long, value_name = "NUMBER")]
    limit: Option<NonZero<u64>>,

    /// Stop after this time, such as 10m [default: when it is interrupted]
    #[arg(long = "for", value_parser = config::parse_duration, value_name = "DURATION")]
    duration: Option<Duration>,

    /// Record the requests, too
    #[arg(long)]
    full: bool,
}

/// A line about a run that is no longer kept.
#[derive(Debug, Deserialize)]
struct GoneRun {
    id: u64,
    gone: bool,
}

pub(super) fn run(arguments: &RecordArgs) -> CliResult {
    let run_dir = arguments.place.run_dir()?;
    let target = RecordingTarget::new(&arguments.output)?;
    let limit = match (target.is_folder(), arguments.limit) {
        (false, Some(limit)) if limit.get() > 1 => {
            return Err(CliExit::Usage.failure(format_args!(
                "a file holds one run; for {limit} runs, name a folder: --output {}/",
                arguments.output.display()
            )));
        }
        (false, _) => 1,
        (true, limit) => limit.map_or(u64::MAX, NonZero::get),
    };
    block_on(async {
        let mut recorder = Recorder {
            run_dir: &run_dir,
            modes: CaptureSwitch::new(&run_dir, &arguments.route, arguments.full),
            routes: &arguments.route,
            target,
            limit,
            recorded: 0,
            known: BTreeSet::new(),
            running: BTreeSet::new(),
        };
        let recorded = recorder.record_until(arguments.duration.map(|time| Instant::now() + time)).await;
        let restored = recorder.modes.restore().await;
        recorded.and(restored)?;
        if recorder.recorded == 0 {
            return Err(CliExit::Problems.failure("no run ended, so nothing was recorded"));
        }
        print_error(format_args!("recorded {}", with_plural(recorder.recorded, "run")));
        Ok(CliExit::Ok)
    })
}

struct Recorder<'a> {
    run_dir: &'a Path,
    modes: CaptureSwitch<'a>,
    routes: &'a str,
    target: RecordingTarget,
    limit: u64,
    recorded: u64,
    /// runs that began earlier or are recorded
    known: BTreeSet<u64>,
    /// runs that are to be recorded when they end
    running: BTreeSet<u64>,
}

impl Recorder<'_> {
    /// Records until the limit, the deadline or a signal.
    async fn record_until(&mut self, deadline: Option<Instant>) -> Result<(), CliFailure> {
        let no_signal = |error| CliExit::Unavailable.failure(format_args!("cannot wait for signals: {error}"));
        let mut terminate = signal(SignalKind::terminate()).map_err(no_signal)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(no_signal)?;
        let deadline = async move {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
            () = deadline => Ok(()),
            recorded = self.record() => recorded,
        }
    }

    /// Records until the limit, also from a gateway that takes the place of this one.
    async fn record(&mut self) -> Result<(), CliFailure> {
        let mut runs = self.begin().await?;
        print_error(format_args!("recording the runs of {} to {}", self.routes, self.target));
        let mut renewal = interval_at(Instant::now() + RENEWAL, RENEWAL);
        while self.recorded < self.limit {
            tokio::select! {
                _ = renewal.tick() => {
                    if runs.is_superseded() {
                        runs = self.begin_again().await?;
                    } else {
                        self.modes.set().await?;
                    }
                }
                line = runs.next_line() => match line {
                    Ok(Some(line)) => self.handle_line(&line).await?,
                    Ok(None) | Err(_) => runs = self.begin_again().await?,
                },
            }
        }
        Ok(())
    }

    /// Switches capture on, and ignores the runs that there are.
    async fn begin(&mut self) -> Result<LineStream, CliFailure> {
        let failed = |error| connection_failure(self.run_dir, &error);
        self.modes.set().await?;
        let mut kept = admin::open_stream(self.run_dir, "/inspect/v1/runs").await.map_err(failed)?;
        self.known.clear();
        self.running.clear();
        while let Some(line) = kept.next_line().await.map_err(failed)? {
            self.known.extend(parse_run(&line).map(|run| run.id));
        }
        admin::open_stream(self.run_dir, "/inspect/v1/runs?follow=1").await.map_err(failed)
    }

    async fn begin_again(&mut self) -> Result<LineStream, CliFailure> {
        print_error("the gateway was restarted; runs that it had not ended are not recorded");
        let mut attempts = 0;
        loop {
            sleep(RECONNECT_INTERVAL).await;
            attempts += 1;
            match self.begin().await {
                Err(failure) if attempts == RECONNECT_ATTEMPTS => return Err(failure),
                Err(_) => {}
                begun => return begun,
            }
        }
    }

    async fn handle_line(&mut self, line: &[u8]) -> Result<(), CliFailure> {
        let Some(run) = parse_run(line) else {
            let gone = serde_json::from_slice::<GoneRun>(line).ok().filter(|run| run.gone);
            if let Some(gone) = gone.filter(|run| self.running.remove(&run.id)) {
                report_forgotten(gone.id);
            }
            return Ok(());
        };
        if !matches_glob(self.routes, &run.route) || self.known.contains(&run.id) {
            return Ok(());
        }
        if run.state != "ended" {
            self.running.insert(run.id);
            return Ok(());
        }
        self.running.remove(&run.id);
        self.known.insert(run.id);
        let mut file = self.target.create(&run.route, run.started_ms, run.id)?;
        let path = format!("/inspect/v1/runs/{}/recording", run.id);
        let mut lines = match admin::open_stream(self.run_dir, &path).await {
            Ok(lines) => lines,
            Err(error) if is_unreachable(&error) => return Err(connection_failure(self.run_dir, &error)),
            // It was evicted meanwhile.
            Err(_) => {
                report_forgotten(run.id);
                return Ok(());
            }
        };
        while let Some(line) = lines.next_line().await.map_err(|error| connection_failure(self.run_dir, &error))? {
            if *line == *GONE_LINE {
                report_forgotten(run.id);
                return Ok(());
            }
            file.write_line(&line)?;
        }
        let path = file.finish()?;
        self.recorded += 1;
        print_line(format_args!(
            "{}: {} {}, {}",
            path.display(),
            run.route,
            run.outcome.unwrap_or_default(),
            with_plural(run.events_in, "event")
        ));
        Ok(())
    }
}

fn report_forgotten(id: u64) {
    print_error(format_args!(
        "run {id} is not recorded: the gateway forgot it before; raise `inspect.bytes` or `inspect.runs` of the gateway"
    ));
}

/// Returns the run in a line; `None` for other lines.
fn parse_run(line: &[u8]) -> Option<RunLine> {
    serde_json::from_slice(line).ok()
}
