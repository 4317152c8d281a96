//! `diglot tap`: both sides of the runs of this machine's gateway, while they are in progress.

mod tap_line;
mod source;
mod run_counts;
mod pair_text;
mod tap_writer;

use self::pair_text::PairText;
use self::run_counts::RunCounts;
use self::source::{TapEvent, TapRequest, open_tap};
use self::tap_line::{RowLine, TapFilter, TapLine, TapSide};
use self::tap_writer::{FrameWriter, RunKey, TapWriter};
use super::capture_modes::{self, RouteCapture};
use super::capture_switch::{CaptureSwitch, RENEWAL};
use super::inspect::DEFAULT_TIME;
use super::local_gateway::{self, RunDirArgs};
use super::output::{CliExit, CliFailure, CliResult, print_error};
use super::run_line::{RunLine, fetch_runs};
use super::terminal_text::escape_text;
use crate::admin;
use crate::config;
use crate::inspect::matches_glob;
use http::{Method, StatusCode};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::path::Path;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, interval_at, sleep_until};

/// Columns of text that is not for a terminal.
const FILE_COLUMNS: u16 = 160;

/// Runs of which an unknown id may have been meant.
const SHOWN_RUNS: usize = 5;

const AFTER_HELP: &str = "\
Shows runs that begin from now on, on routes that are captured: `inspect` of the configuration, `diglot inspect on`, or \
--on. Each row is an event of the agent on the left, what the client was sent because of it on the right, and the cause \
between them: same, changed, split (several events), held (part of a later event), dropped, gateway (made by the gateway), \
end (of the agent's stream), disconnect (the client closed the connection), mark (neither side sent anything), \
unrecorded (the rest is not kept). A refused request is a run without rows.

--format json prints lines of {\"run\": ...} when a run began and ended, and {\"id\": of the run, \"row\": ...}. What was \
evicted before tap read it, such as for a slow reader, is {\"missed_runs\": number}, or for the rest of a run {\"id\": of \
the run, \"gone\": true, \"last_row\": number}; `diglot_inspect_missed_runs_total` counts both. --format sse \
prints the events of one side, one run after another:
  diglot tap --run-dir /run/diglot --format sse | diglot verify --dialect ag-ui

--type compares the names that rows show, as the page's filter `type:` does. The label `type` of metrics has OTHER for names \
that no table or rule has, and the AG-UI type for events that a dialect file reads.

tap continues when the gateway restarts or is upgraded; with --run and a number it ends, as the new process counts anew.

Exit codes: 0 ok, 1 no route or with --kept no run matches, or the gateway of run #N ended before the run did, 2 usage, 69 no gateway is running there, 78 the configuration is invalid or has no \
`run_dir`.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct TapArgs {
    #[command(flatten)]
    place: RunDirArgs,

    /// Routes, by name; `*` stands for any characters
    #[arg(long, value_name = "GLOB", default_value = "*")]
    route: String,

    /// Only this run, to its end, also if it is kept already: its number, as in #5, or the run id of its request
    #[arg(long, value_name = "ID")]
    run: Option<String>,

    /// Only rows with an event of one of these types, as a shown side names it; `*` stands for any characters
    #[arg(long = "type", value_name = "GLOB", value_delimiter = ',')]
    kinds: Vec<String>,

    /// Side to show [default: both; client with --format sse]
    #[arg(long, value_enum)]
    side: Option<TapSide>,

    /// Only runs of this caller, by subject
    #[arg(long, value_name = "ID")]
    caller: Option<String>,

    /// End after so many rows: pairs of events, not runs
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    /// Format of the output [default: text on a terminal, json otherwise]
    #[arg(long, value_enum)]
    format: Option<TapFormat>,

    /// Capture the routes while tapping, unless they are captured already
    #[arg(long, conflicts_with = "kept")]
    on: bool,

    /// Longest time to tap with --on [default: 10m]
    #[arg(long = "for", value_name = "DURATION", requires = "on", value_parser = config::parse_duration)]
    time: Option<Duration>,

    /// Show the runs that the gateway has kept, and end
    #[arg(long)]
    kept: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum TapFormat {
    /// pairs of events, for people
    Text,
    /// one JSON object per line
    Json,
    /// the frames of one side
    Sse,
}

pub(super) fn run(arguments: &TapArgs) -> CliResult {
    let is_terminal = io::stdout().is_terminal();
    let format = arguments.format.unwrap_or(if is_terminal { TapFormat::Text } else { TapFormat::Json });
    let side = arguments.side.unwrap_or(if format == TapFormat::Sse { TapSide::Client } else { TapSide::Both });
    if format == TapFormat::Sse && side == TapSide::Both {
        return Err(CliExit::Usage.failure("an event stream has one side: add `--side agent` or `--side client`"));
    }
    let colored = is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let writer = match format {
        TapFormat::Text => TapWriter::Text(PairText { columns: usize::from(FILE_COLUMNS), colored, side }),
        TapFormat::Json => TapWriter::Json,
        TapFormat::Sse => TapWriter::Sse(FrameWriter::new(side, is_terminal)),
    };
    let output = TapOutput {
        out: BufWriter::new(io::stdout().lock()),
        writer,
        filter: TapFilter {
            kinds: arguments.kinds.iter().map(|kind| kind.to_lowercase()).collect(),
            side,
            caller: arguments.caller.clone(),
        },
        open: BTreeMap::new(),
        runs_left: u64::MAX,
        rows_left: arguments.limit.unwrap_or(u64::MAX),
        is_terminal,
        has_runs: false,
        has_output: false,
    };
    let request = TapRequest {
        run_dir: arguments.place.run_dir()?,
        routes: arguments.route.clone(),
        run: arguments.run.clone(),
        kept: arguments.kept,
    };
    local_gateway::block_on(tap(arguments, request, output))
}

async fn tap(arguments: &TapArgs, request: TapRequest, mut output: TapOutput<'_>) -> CliResult {
    let TapRequest { run_dir, routes, .. } = request.clone();
    let mut capture = TapCapture {
        run_dir: &run_dir,
        routes: &routes,
        switch: arguments.on.then(|| CaptureSwitch::new(&run_dir, &routes, false)),
    };
    if arguments.kept {
        capture_modes::fetch_modes(&run_dir, &routes).await?;
    } else {
        capture.renew().await?;
    }
    if let Some(id) = &arguments.run {
        // The one that is awaited, or those that are kept.
        output.runs_left = report_unknown_run(&request, id, &output.filter).await?.max(1);
    }
    let until = arguments.on.then(|| Instant::now() + arguments.time.unwrap_or(DEFAULT_TIME));
    let with_refusals = matches!(output.writer, TapWriter::Text(_));
    let events = open_tap(request, with_refusals);
    let result = tokio::select! {
        result = read_events(events, &mut capture, &mut output) => result,
        () = wait_for_signal() => Ok(CliExit::Ok),
        () = wait_until(until) => {
            print_error("the time of --on is over; set a longer one with --for");
            Ok(CliExit::Ok)
        }
    };
    // Fails only if stdout is closed, which ends the tap quietly.
    let _ = output.out.flush();
    capture.restore().await;
    result
}

async fn read_events(
    mut events: Receiver<TapEvent>,
    capture: &mut TapCapture<'_>,
    output: &mut TapOutput<'_>,
) -> CliResult {
    let mut is_lost = false;
    let mut renewal = interval_at(Instant::now() + RENEWAL, RENEWAL);
    loop {
        let event = tokio::select! {
            _ = renewal.tick(), if capture.switch.is_some() => {
                capture.renew_or_report().await;
                continue;
            }
            event = events.recv() => event,
        };
        let Some(event) = event else { return Ok(CliExit::Ok) };
        let is_open = match event {
            TapEvent::Line { process, line } => output.write_line(process, &String::from_utf8_lossy(&line)).is_ok(),
            TapEvent::Refused { code, count } => output.writer.write_refusals(&mut output.out, &code, count).is_ok(),
            TapEvent::Connected { process: 1 } => true,
            TapEvent::Connected { .. } => {
                print_error("reading the gateway's new process");
                is_lost = false;
                capture.renew_or_report().await;
                true
            }
            TapEvent::Lost if is_lost => true,
            TapEvent::Lost => {
                print_error("the gateway has closed the connection; waiting for it to come back");
                is_lost = true;
                true
            }
            TapEvent::Ended => {
                return match (output.has_runs, output.has_output) {
                    (true, true) => Ok(CliExit::Ok),
                    (true, false) => {
                        Err(CliExit::Problems.failure("none of the kept runs, or of their rows, is selected"))
                    }
                    (false, _) => Err(CliExit::Problems.failure(
                        "no captured run is kept: none was captured, or all were evicted, by default 15 minutes after their \
                         end (`inspect.age`); `diglot inspect on` captures those that begin from then on",
                    )),
                };
            }
            TapEvent::NumberEnded => {
                return Err(CliExit::Problems.failure(
                    "the gateway of this run has ended, and another one begins its numbers again; name a run that spans both by its run id",
                ));
            }
            TapEvent::Failed(error) => return Err(local_gateway::connection_failure(capture.run_dir, &error)),
        };
        if !is_open || output.rows_left == 0 || output.runs_left == 0 {
            return Ok(CliExit::Ok);
        }
        if events.is_empty() && output.out.flush().is_err() {
            return Ok(CliExit::Ok);
        }
    }
}

async fn wait_for_signal() {
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
}

async fn wait_until(end: Option<Instant>) {
    match end {
        Some(end) => sleep_until(end).await,
        None => std::future::pending().await,
    }
}

/// The capture of the routes that are tapped.
struct TapCapture<'a> {
    run_dir: &'a Path,
    routes: &'a str,
    /// with `--on`
    switch: Option<CaptureSwitch<'a>>,
}

impl TapCapture<'_> {
    /// Switches the capture on, or reports on stderr if nothing is captured.
    async fn renew(&mut self) -> Result<(), CliFailure> {
        match &mut self.switch {
            Some(switch) => switch.set().await,
            None => {
                let modes = capture_modes::fetch_modes(self.run_dir, self.routes).await?;
                report_uncaptured(&modes.routes, self.routes);
                Ok(())
            }
        }
    }

    async fn renew_or_report(&mut self) {
        if let Err(failure) = self.renew().await {
            failure.report();
        }
    }

    async fn restore(mut self) {
        if let Some(switch) = &mut self.switch {
            // Best effort: what it has set ends by itself.
            let _ = switch.restore().await;
        }
    }
}

fn report_uncaptured(routes: &[RouteCapture], pattern: &str) {
    if !routes.iter().any(RouteCapture::is_captured) {
        let names: Vec<_> = routes.iter().map(|one| one.route.as_str()).collect();
        let option = if pattern == "*" { String::new() } else { format!(" --route '{pattern}'") };
        print_error(format_args!(
            "no run will appear: {} is not captured; run `diglot inspect on{option}`, or tap with --on",
            names.join(", ")
        ));
    }
}

/// Returns how many kept runs have this id, and reports if there is none, which with `--kept` is a failure.
async fn report_unknown_run(request: &TapRequest, id: &str, filter: &TapFilter) -> Result<u64, CliFailure> {
    let runs = fetch_runs(&request.run_dir)
        .await
        .map_err(|error| local_gateway::connection_failure(&request.run_dir, &error))?;
    let is_selected = |run: &&RunLine| matches_glob(&request.routes, &run.route) && filter.accepts_run(run);
    let runs: Vec<_> = runs.iter().filter(is_selected).collect();
    let found = runs.iter().filter(|run| run.is_named(id)).count() as u64;
    if found > 0 {
        return Ok(found);
    }
    if let Some(evicted) = find_evicted_run(&request.run_dir, id).await? {
        return Err(CliExit::Problems.failure(evicted));
    }
    let latest: Vec<_> = runs.into_iter().rev().take(SHOWN_RUNS).collect();
    if request.kept {
        return Err(CliExit::Problems.failure(describe_unknown_run(id, "", &latest)));
    }
    print_error(describe_unknown_run(id, " waiting for it;", &latest));
    Ok(0)
}

/// Returns why the gateway does not keep the run with a number any more, if it has had it.
async fn find_evicted_run(run_dir: &Path, id: &str) -> Result<Option<String>, CliFailure> {
    let Ok(number) = id.strip_prefix('#').unwrap_or(id).parse::<u64>() else { return Ok(None) };
    let answer = admin::request(run_dir, Method::GET, &format!("/inspect/v1/runs/{number}"), String::new())
        .await
        .map_err(|error| local_gateway::connection_failure(run_dir, &error))?;
    let problem = serde_json::from_str::<MissingRunLine>(&answer.body);
    Ok(problem.ok().filter(|_| answer.status == StatusCode::GONE.as_u16()).map(|problem| problem.detail))
}

/// The gateway's answer for a run that it does not have.
#[derive(Debug, Deserialize)]
struct MissingRunLine {
    detail: String,
}

/// Names runs that are kept in place of an unknown one. Clients choose their ids.
fn describe_unknown_run(id: &str, next: &str, latest: &[&RunLine]) -> String {
    let name = |run: &&RunLine| format!("#{} {}", run.id, run.run_id).trim_end().to_owned();
    let latest = latest.iter().map(name).collect::<Vec<_>>().join(", ");
    let kept = if latest.is_empty() { "none is kept".to_owned() } else { format!("the latest are {latest}") };
    escape_text(&format!("no kept run is `{id}`;{next} {kept}"))
}

/// A run whose end has not been shown.
#[derive(Debug)]
struct OpenRun {
    run: RunLine,
    /// the gateway's line, until it is shown
    begin: Option<String>,
    counts: RunCounts,
}

struct TapOutput<'a> {
    out: BufWriter<StdoutLock<'a>>,
    writer: TapWriter,
    filter: TapFilter,
    open: BTreeMap<RunKey, OpenRun>,
    /// runs that have not ended, with `--run`
    runs_left: u64,
    rows_left: u64,
    is_terminal: bool,
    /// whether the gateway has sent a run
    has_runs: bool,
    /// whether one of them, or a row, was selected
    has_output: bool,
}

impl TapOutput<'_> {
    fn write_line(&mut self, process: u32, line: &str) -> io::Result<()> {
        let Ok(found) = serde_json::from_str::<TapLine>(line) else {
            print_error("a line of the gateway is not known; it may be of another version");
            return Ok(());
        };
        if let (true, TapWriter::Text(text)) = (self.is_terminal, &mut self.writer) {
            let columns = crossterm::terminal::size().map_or(FILE_COLUMNS, |(columns, _)| columns);
            text.columns = usize::from(columns);
        }
        if found.missed_runs > 0 {
            return self.writer.write_missed(&mut self.out, found.missed_runs, line);
        }
        let key = RunKey { process, id: found.run.as_ref().map_or(found.id, |run| run.id) };
        match found {
            TapLine { run: Some(run), .. } => self.write_run(key, run, line),
            TapLine { row: Some(row), .. } => self.write_row(key, &row, line),
            // The rows that were not read could have been among those that are selected.
            TapLine { gone: true, last_row, .. } => match self.open.remove(&key) {
                Some(_) => {
                    self.runs_left -= 1;
                    self.writer.write_gone(&mut self.out, key, last_row, line)
                }
                None => Ok(()),
            },
            TapLine { .. } => Ok(()),
        }
    }

    /// Takes the first line of a run as its begin, and the second as its end.
    fn write_run(&mut self, key: RunKey, run: RunLine, line: &str) -> io::Result<()> {
        self.has_runs = true;
        if let Some(OpenRun { begin, counts, .. }) = self.open.remove(&key) {
            self.runs_left -= 1;
            return match begin {
                None => self.writer.write_end(&mut self.out, key, &run, &counts, line),
                Some(_) => Ok(()),
            };
        }
        if self.filter.accepts_run(&run) {
            self.open.insert(key, OpenRun { run, begin: Some(line.to_owned()), counts: RunCounts::default() });
            if self.filter.accepts_all_rows() {
                return self.show_begin(key);
            }
        }
        Ok(())
    }

    fn write_row(&mut self, key: RunKey, row: &RowLine, line: &str) -> io::Result<()> {
        if !self.open.contains_key(&key) {
            return Ok(());
        }
        let is_shown = self.rows_left > 0 && self.filter.accepts_row(row);
        if is_shown {
            self.rows_left -= 1;
            self.show_begin(key)?;
        }
        let Some(open) = self.open.get_mut(&key) else { return Ok(()) };
        if is_shown {
            self.writer.write_row(&mut self.out, key, row, &open.counts, line)?;
        }
        open.counts.add(row);
        Ok(())
    }

    fn show_begin(&mut self, key: RunKey) -> io::Result<()> {
        let Some(open) = self.open.get_mut(&key) else { return Ok(()) };
        match open.begin.take() {
            Some(begin) => {
                self.has_output = true;
                self.writer.write_begin(&mut self.out, &open.run, &begin)
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_clients_draw_nothing_where_a_run_is_unknown() {
        let run = RunLine { id: 4, run_id: "\x1b[2Jr\u{202e}4".to_owned(), ..RunLine::default() };
        assert_eq!(
            describe_unknown_run("\x1b]0;x", " waiting for it;", &[&run]),
            "no kept run is `␛]0;x`; waiting for it; the latest are #4 ␛[2Jr<U+202E>4"
        );
        assert_eq!(describe_unknown_run("9", "", &[]), "no kept run is `9`; none is kept");
    }
}
