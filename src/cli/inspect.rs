//! `diglot inspect`: switches the capture of runs, and shows the captured routes and the address of the page.

use super::capture_modes::{self, CaptureModes, RouteCapture};
use super::local_gateway::{self, RunDirArgs};
use super::output::{CliExit, CliFailure, CliResult, print_error, print_result};
use super::terminal_text::{fit_text, text_width};
use crate::admin;
use crate::config;
use http::Method;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const AFTER_HELP: &str = "\
Captured runs are read with `diglot tap`; they stay in the gateway's memory, within `inspect` of its configuration. No \
credential and no cookie is captured. With --full, both requests are, with their bodies and the names of all their headers; only \
headers that cannot hold a credential, such as `content-type`, keep their values.

  diglot inspect on --route chat --for 10m --config diglot.yaml
  diglot tap --config diglot.yaml

Exit codes: 0 ok, 1 no route matches or the page has no listener, 2 usage, 69 no gateway is running there, 78 the configuration is invalid or has no \
`run_dir`.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct InspectArgs {
    /// Action
    #[arg(value_enum)]
    action: InspectAction,

    #[command(flatten)]
    place: RunDirArgs,

    /// Routes, by name; `*` stands for any characters
    #[arg(long, value_name = "GLOB", default_value = "*")]
    route: String,

    /// Time after which the routes are captured as configured again; at most a day [default: 10m]
    #[arg(long = "for", value_name = "DURATION", value_parser = config::parse_duration)]
    time: Option<Duration>,

    /// Also capture the bodies of both requests
    #[arg(long)]
    full: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum InspectAction {
    /// capture the runs that begin from now on
    On,
    /// capture as configured again; with --for, nothing for that time
    Off,
    /// show which routes are captured
    Status,
    /// print the address of the inspector's page, with its token
    Url,
}

/// Time for which a mode is set by default.
pub(super) const DEFAULT_TIME: Duration = Duration::from_secs(600);

pub(super) fn run(arguments: &InspectArgs) -> CliResult {
    let InspectArgs { action, route, time, full, .. } = arguments;
    let has_options = match action {
        InspectAction::On => false,
        InspectAction::Off => *full,
        InspectAction::Status | InspectAction::Url => *full || time.is_some(),
    };
    if has_options {
        return Err(CliExit::Usage.failure("--for and --full belong to `inspect on`, and --for to `inspect off`"));
    }
    let run_dir = arguments.place.run_dir()?;
    if *action == InspectAction::Url {
        let url = local_gateway::block_on(fetch_url(&run_dir))?;
        return print_result(url);
    }
    let modes = local_gateway::block_on(async {
        let limit = time.unwrap_or(DEFAULT_TIME);
        match action {
            InspectAction::On => {
                let mode = if *full { "full" } else { "events" };
                capture_modes::set_mode(&run_dir, route, Some(mode), limit).await
            }
            InspectAction::Off => capture_modes::set_mode(&run_dir, route, time.map(|_| "off"), limit).await,
            InspectAction::Status | InspectAction::Url => capture_modes::fetch_modes(&run_dir, route).await,
        }
    })?;
    let is_captured = |one: &&RouteCapture| one.is_captured();
    if let (InspectAction::Off, Some(one)) = (action, modes.routes.iter().find(is_captured)) {
        print_error(format_args!(
            "`inspect: {}` in the configuration still captures {}; --for switches it off for some time",
            one.configured, one.route
        ));
    }
    print_result(format_modes(&modes, unix_millis()))
}

async fn fetch_url(run_dir: &Path) -> Result<String, CliFailure> {
    let answer = admin::request(run_dir, Method::GET, "/inspect/v1/url", String::new()).await;
    let answer = answer.map_err(|error| local_gateway::connection_failure(run_dir, &error))?;
    let text = answer.body.trim_end();
    if answer.status == 200 { Ok(text.to_owned()) } else { Err(CliExit::Problems.failure(text)) }
}

fn unix_millis() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

fn format_modes(modes: &CaptureModes, now_ms: u64) -> String {
    let longest = modes.routes.iter().map(|one| text_width(&one.route)).max().unwrap_or_default().max("ROUTE".len());
    let mut lines = vec![format!("{}  CONFIGURED  NOW     FOR", fit_text("ROUTE", longest))];
    for one in &modes.routes {
        let left =
            one.until_ms.map_or_else(|| "-".to_owned(), |until| format_seconds(until.saturating_sub(now_ms) / 1000));
        lines.push(format!("{}  {:<10}  {:<6}  {left}", fit_text(&one.route, longest), one.configured, one.mode));
    }
    if modes.used_bytes > 0 {
        lines.push(format!("captured runs take {} KiB", modes.used_bytes.div_ceil(1024)));
    }
    lines.join("\n")
}

fn format_seconds(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds:02}s"),
        (hours, minutes, _) => format!("{hours}h{minutes:02}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_routes_with_the_time_that_is_left() {
        let route = |name: &str, mode: &str, until_ms| RouteCapture {
            route: name.to_owned(),
            configured: "off".to_owned(),
            mode: mode.to_owned(),
            until_ms,
        };
        let routes = vec![route("chat", "events", Some(600_000)), route("search-你好", "off", None)];
        let text = format_modes(&CaptureModes { routes, used_bytes: 2049 }, 1_000);
        assert_eq!(
            text,
            "ROUTE        CONFIGURED  NOW     FOR\n\
             chat         off         events  9m59s\n\
             search-你好  off         off     -\n\
             captured runs take 3 KiB"
        );
    }
}
