//! `diglot healthcheck`: says whether a gateway is well, for what starts and stops processes.

use super::{CliExit, print_error, print_line};
use crate::admin::{ProbeTarget, probe};
use crate::config::admin_endpoints::AdminEndpointsConfig;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A gateway that is well answers in milliseconds. Whatever waits for this command has to wait longer: the image's own health
/// check does, a kubelet's has to be told to.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(clap::Args)]
#[command(
    after_help = "Asks the first listener of `listeners.status` that answers (0.0.0.0 as 127.0.0.1, in TLS without looking at the\n\
                  certificate), else the socket in `run_dir`, for two seconds at the most. Of the configuration these two keys\n\
                  alone are read: a file with mistakes, which a reload refused, does not make a gateway ill.\n\
                  \n\
                  Exit codes: 0 well, 1 not, or nobody answers, 2 usage."
)]
pub(super) struct HealthcheckArgs {
    /// Configuration file of the gateway
    #[arg(long, short, env = "DIGLOT_CONFIG", value_name = "FILE", required_unless_present = "url")]
    config: Option<PathBuf>,

    /// The gateway's status listener, in place of a configuration: http://127.0.0.1:8788
    #[arg(long, value_name = "URL", value_parser = ProbeTarget::parse_url)]
    url: Option<ProbeTarget>,

    /// Ask whether it takes runs (/readyz), not whether it lives (/livez)
    #[arg(long)]
    ready: bool,
}

pub(super) fn run(arguments: &HealthcheckArgs) -> CliExit {
    let ways = match (&arguments.url, &arguments.config) {
        (Some(way), _) => vec![way.clone()],
        (None, Some(file)) => targets_from_file(file),
        (None, None) => return CliExit::Usage,
    };
    if ways.is_empty() {
        print_error("`listeners.status` is [] and `run_dir` is not set, so nobody can be asked");
        return CliExit::Problems;
    }
    let path = if arguments.ready { "/readyz" } else { "/livez" };
    match probe(ways, path, PROBE_TIMEOUT) {
        Ok((way, answer)) => {
            let said = format!("{way}{path}: {} {}", answer.status, answer.body.trim_end());
            if answer.status == 200 {
                print_line(said);
                return CliExit::Ok;
            }
            print_error(said);
        }
        Err(why) => print_error(why),
    }
    CliExit::Problems
}

/// The ways that the file names. One that cannot be read at all, as while it is being written, leaves the default address:
/// the gateway that was started with it goes on.
fn targets_from_file(file: &Path) -> Vec<ProbeTarget> {
    let reach = AdminEndpointsConfig::read(file).or_else(|problems| {
        print_error(format_args!("{problems}\nasking at the default address"));
        AdminEndpointsConfig::from_defaults()
    });
    reach.map(ProbeTarget::from_reach).unwrap_or_default()
}
