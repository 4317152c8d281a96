//! `diglot healthcheck`: says whether a gateway is well, for what starts and stops processes.

use super::{Exit, complain, say};
use crate::admin::{Way, probe};
use crate::config::reach::Reach;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A gateway that is well answers in milliseconds. Whatever waits for this command has to wait longer: the image's own health
/// check does, a kubelet's has to be told to.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(clap::Args)]
#[command(
    after_help = "Asks the first listener of `listeners.status` that answers (0.0.0.0 as 127.0.0.1, in TLS without looking at the\n\
                  certificate), else the socket in `run_dir`, for two seconds at the most. Of the configuration these two keys\n\
                  alone are read: a file with mistakes, which a reload refused, does not make a gateway ill.\n\
                  \n\
                  Exit codes: 0 well, 1 not, or nobody answers, 2 usage."
)]
pub(super) struct Arguments {
    /// Configuration file of the gateway
    #[arg(long, short, env = "DIGLOT_CONFIG", value_name = "FILE", required_unless_present = "url")]
    config: Option<PathBuf>,

    /// The gateway's status listener, in place of a configuration: http://127.0.0.1:8788
    #[arg(long, value_name = "URL", value_parser = Way::url)]
    url: Option<Way>,

    /// Ask whether it takes runs (/readyz), not whether it lives (/livez)
    #[arg(long)]
    ready: bool,
}

pub(super) fn run(arguments: &Arguments) -> Exit {
    let ways = match (&arguments.url, &arguments.config) {
        (Some(way), _) => vec![way.clone()],
        (None, Some(file)) => configured(file),
        (None, None) => return Exit::Usage,
    };
    if ways.is_empty() {
        complain("`listeners.status` is [] and `run_dir` is not set, so nobody can be asked");
        return Exit::Problems;
    }
    let path = if arguments.ready { "/readyz" } else { "/livez" };
    match probe(ways, path, PATIENCE) {
        Ok((way, answer)) => {
            let said = format!("{way}{path}: {} {}", answer.status, answer.text.trim_end());
            if answer.status == 200 {
                say(said);
                return Exit::Ok;
            }
            complain(said);
        }
        Err(why) => complain(why),
    }
    Exit::Problems
}

/// The ways that the file names. One that cannot be read at all, as while it is being written, leaves the default address:
/// the gateway that was started with it goes on.
fn configured(file: &Path) -> Vec<Way> {
    let reach = Reach::read(file).or_else(|problems| {
        complain(format_args!("{problems}\nasking at the default address"));
        Reach::of_defaults()
    });
    reach.map(Way::all).unwrap_or_default()
}
