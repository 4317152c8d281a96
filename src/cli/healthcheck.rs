//! `diglot healthcheck`: checks whether a gateway is healthy, for supervisors and container runtimes.

use super::output::{CliExit, CliResult, print_error, print_result};
use crate::admin::{ProbeTarget, probe};
use crate::config::admin_endpoints::AdminEndpointsConfig;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A healthy gateway responds within milliseconds. Callers of this command need a longer timeout: the image's health
/// check has one, but a kubelet's must be configured.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

const AFTER_HELP: &str = "\
Sends a request to the first listener of `listeners.status` that answers (0.0.0.0 as 127.0.0.1, TLS without verifying the \
certificate), else to the socket in `run_dir`, and waits at most two seconds. Only these two keys of the configuration are \
read: other mistakes in the file, which a reload refused, do not matter. If the file cannot be read, the default address is \
checked.

Exit codes: 0 healthy, 1 unhealthy or no answer, 2 usage.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct HealthcheckArgs {
    /// Configuration file of the gateway
    #[arg(long, short, env = "DIGLOT_CONFIG", value_name = "FILE", required_unless_present = "url")]
    config: Option<PathBuf>,

    /// URL of the gateway's status listener, instead of a configuration: http://127.0.0.1:8788
    #[arg(long, value_name = "URL", value_parser = ProbeTarget::parse_url)]
    url: Option<ProbeTarget>,

    /// Check that it accepts runs (/readyz), not only that it is alive (/livez)
    #[arg(long)]
    ready: bool,
}

pub(super) fn run(arguments: &HealthcheckArgs) -> CliResult {
    let targets = match (&arguments.url, &arguments.config) {
        (Some(target), _) => vec![target.clone()],
        (None, Some(file)) => targets_from_file(file),
        (None, None) => return Ok(CliExit::Usage),
    };
    if targets.is_empty() {
        return Err(CliExit::Problems.failure(
            "there is no health endpoint: `listeners.status` is [] and `run_dir` is not set; set one of them",
        ));
    }
    let path = if arguments.ready { "/readyz" } else { "/livez" };
    let (target, answer) = probe(targets, path, PROBE_TIMEOUT)
        .map_err(|why| CliExit::Problems.failure(format_args!("{why}; is the gateway running?")))?;
    let result = format!("{target}{path}: {} {}", answer.status, answer.body.trim_end());
    if answer.status == 200 { print_result(result) } else { Err(CliExit::Problems.failure(result)) }
}

/// Returns the endpoints from the file. If it cannot be read, for example while it is being written, returns the
/// default address, because the gateway that was started with it is still running.
fn targets_from_file(file: &Path) -> Vec<ProbeTarget> {
    let reach = AdminEndpointsConfig::read(file).or_else(|problems| {
        print_error(format_args!("{problems}\nchecking the default address instead; name another one with --url"));
        AdminEndpointsConfig::from_defaults()
    });
    reach.map(ProbeTarget::from_reach).unwrap_or_default()
}
