//! `diglot top`: routes and runs of this machine's gateway, drawn every second.

mod sample;
mod top_table;
mod screen;

use self::sample::{RouteCounts, TopSample, rate};
use self::screen::{KeyResult, ScreenContent, ScreenState};
use self::top_table::{ROUTE_COLUMNS, RUN_COLUMNS, SampleWindow, SortOrder, format_table, route_rows, run_rows};
use super::local_gateway::{self, RunDirArgs};
use super::metrics_text::parse_metrics;
use super::output::{CliExit, CliResult, print_result, with_plural};
use super::run_line::{RunLine, fetch_runs};
use super::terminal_text::escape_text;
use crate::admin;
use http::Method;
use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

const REDRAW_INTERVAL: Duration = Duration::from_secs(1);

/// Longest time for which a gateway that does not answer stops the keys.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Number of samples for events per second.
const RATE_SAMPLES: usize = 5;

/// Number of samples for times to the first event: a minute.
const KEPT_SAMPLES: usize = 60;

const AFTER_HELP: &str = "\
Reads /metrics and the captured runs over the gateway's admin socket. Keys: s sorts, r reverses, / filters, p pauses, ? \
helps, q quits. Runs are listed on routes that are captured: `inspect` of the configuration, or `diglot inspect on`.

Exit codes: 0 ok, 2 usage, 69 no gateway is running there, 78 the configuration is invalid or has no `run_dir`.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct TopArgs {
    #[command(flatten)]
    place: RunDirArgs,

    /// Print the tables once, as text; without a terminal this is the default
    #[arg(long)]
    once: bool,
}

/// The answers of the gateway at one time.
#[derive(Debug)]
struct TopAnswer {
    sample: TopSample,
    runs: Vec<RunLine>,
}

pub(super) fn run(arguments: &TopArgs) -> CliResult {
    let run_dir = arguments.place.run_dir()?;
    if arguments.once || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return local_gateway::block_on(print_once(&run_dir));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliExit::Unavailable.failure(error))?;
    let terminate = runtime.block_on(async { signal(SignalKind::terminate()) });
    let mut terminate = terminate.map_err(|error| CliExit::Unavailable.failure(error))?;
    // Before the terminal changes, so that the message stays on it.
    let first =
        runtime.block_on(fetch(&run_dir)).map_err(|error| local_gateway::connection_failure(&run_dir, &error))?;
    let mut terminal = ratatui::try_init().map_err(|error| CliExit::Unavailable.failure(error))?;
    let result = show(&run_dir, &runtime, first, &mut terminal, &mut terminate);
    ratatui::restore();
    result
}

async fn print_once(run_dir: &Path) -> CliResult {
    let failure = |error: io::Error| local_gateway::connection_failure(run_dir, &error);
    let before = fetch(run_dir).await.map_err(failure)?;
    tokio::time::sleep(REDRAW_INTERVAL).await;
    let now = fetch(run_dir).await.map_err(failure)?;
    let window = SampleWindow { now: &now.sample, recent: Some(&before.sample), earlier: None };
    let routes = route_rows(window, &now.runs, "", SortOrder::default());
    let runs = run_rows(&now.runs, "");
    let listed = if runs.is_empty() { uncaptured_hint() } else { format_table(RUN_COLUMNS, &runs) };
    let routes = format_table(ROUTE_COLUMNS, &routes);
    print_result(format_args!("{}\n\n{routes}\n\n{listed}", format_summary(window, run_dir)))
}

fn uncaptured_hint() -> String {
    "No run is captured. `diglot inspect on` captures those that begin from then on.".to_owned()
}

fn show(
    run_dir: &Path,
    runtime: &Runtime,
    first: TopAnswer,
    terminal: &mut ratatui::DefaultTerminal,
    terminate: &mut Signal,
) -> CliResult {
    let failure = |error: io::Error| CliExit::Unavailable.failure(error);
    let mut state = ScreenState::default();
    let mut samples = VecDeque::from([first.sample]);
    let mut runs = first.runs;
    let mut is_answering = true;
    let mut next = Instant::now() + REDRAW_INTERVAL;
    loop {
        let content = build_content(run_dir, &samples, &runs, &state, is_answering);
        terminal.draw(|frame| state.draw(frame, &content)).map_err(failure)?;
        let left = next.saturating_duration_since(Instant::now());
        if crossterm::event::poll(left).map_err(failure)? {
            if let crossterm::event::Event::Key(key) = crossterm::event::read().map_err(failure)?
                && state.handle_key(key) == KeyResult::Quit
            {
                return Ok(CliExit::Ok);
            }
            continue;
        }
        next = Instant::now() + REDRAW_INTERVAL;
        // The runtime sees the signal only while it waits.
        if runtime.block_on(async { timeout(Duration::from_millis(1), terminate.recv()).await }).is_ok() {
            return Ok(CliExit::Ok);
        }
        if state.is_paused {
            continue;
        }
        let answer = runtime.block_on(fetch(run_dir));
        is_answering = answer.is_ok();
        if let Ok(answer) = answer {
            samples.push_back(answer.sample);
            runs = answer.runs;
            if samples.len() > KEPT_SAMPLES {
                samples.pop_front();
            }
        }
    }
}

fn build_content(
    run_dir: &Path,
    samples: &VecDeque<TopSample>,
    runs: &[RunLine],
    state: &ScreenState,
    is_answering: bool,
) -> ScreenContent {
    let Some(now) = samples.back() else { return ScreenContent::default() };
    let recent = samples.get(samples.len().saturating_sub(RATE_SAMPLES + 1)).filter(|_| samples.len() > 1);
    let window = SampleWindow { now, recent, earlier: samples.front() };
    let mut summary = format_summary(window, run_dir);
    if !is_answering {
        summary = format!("NO ANSWER, tried every second; before that: {summary}");
    }
    ScreenContent {
        summary,
        routes: route_rows(window, runs, &state.filter, state.order),
        runs: run_rows(runs, &state.filter),
        hint: if runs.is_empty() { uncaptured_hint() } else { "No captured run contains the filter.".to_owned() },
    }
}

/// Describes the process in one line.
fn format_summary(window: SampleWindow<'_>, run_dir: &Path) -> String {
    let SampleWindow { now, recent, .. } = window;
    let active: u64 = now.routes.values().map(|route| route.active).sum();
    let mut text = format!("diglot {}  {}", now.version, with_plural(active, "run"));
    if let Some(recent) = recent {
        let seconds = (now.at - recent.at).as_secs_f64();
        let total = |sample: &TopSample, count: fn(&RouteCounts) -> u64| sample.routes.values().map(count).sum();
        let per_second = |count| rate(total(recent, count), total(now, count), seconds);
        let (incoming, outgoing) = (per_second(|route| route.events_in), per_second(|route| route.events_out));
        text += &format!("  {incoming:.0} events/s in  {outgoing:.0} out");
    }
    let draining = if now.is_draining { "  draining" } else { "" };
    let run_dir = escape_text(&run_dir.to_string_lossy());
    format!("{text}  {} MiB{draining}  {run_dir}", now.memory >> 20)
}

/// Reads the metrics and the captured runs.
async fn fetch(run_dir: &Path) -> io::Result<TopAnswer> {
    let work = async {
        let metrics = admin::request(run_dir, Method::GET, "/metrics", String::new()).await?;
        let sample = TopSample::new(Instant::now(), &parse_metrics(&metrics.body));
        let runs = fetch_runs(run_dir).await?;
        Ok(TopAnswer { sample, runs })
    };
    timeout(ANSWER_TIMEOUT, work).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
