//! `diglot replay`: plays one side of a recording again.

use super::mock_agent::serve_agent;
use super::output::{CliExit, CliResult};
use super::recorded_agent::{ReplaySpeed, parse_speed, read_agent};
use super::replay_client::{self, ClientArgs};
use crate::demo;
use std::net::SocketAddr;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
As an agent, it answers any POST with the recorded stream of the agent, at the recorded times: point a route or a client at it.

As a client, it sends the recorded request again, which needs a recording of `diglot record --full`, and prints how what comes differs from \
what was recorded. Times are no difference, nor are ids that differ consistently, unless the request has them.

Examples:
  diglot replay chat.ndjson --as agent --listen 127.0.0.1:9000 --speed 10
  diglot replay chat.ndjson --as client --to http://127.0.0.1:8787/chat \\
    --header 'authorization: Bearer x'

Exit codes: 0 ok, 1 differences, or the file is no recording, 2 usage, 69 unavailable (port, file, URL).";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ReplayArgs {
    /// Recording of `diglot record`
    file: PathBuf,

    /// The side to play
    #[arg(long = "as", value_enum, value_name = "SIDE")]
    side: ReplayedSide,

    /// Address to listen on as an agent; port 0 chooses a free port
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: SocketAddr,

    /// Pace of the agent: `1` as recorded, `10` or another number times faster, `max` without waits
    #[arg(long, default_value = "1", value_parser = parse_speed)]
    speed: ReplaySpeed,

    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ReplayedSide {
    /// serve the agent's stream
    Agent,
    /// send the client's request
    Client,
}

pub(super) fn run(arguments: &ReplayArgs) -> CliResult {
    match arguments.side {
        ReplayedSide::Agent if arguments.client.is_used() => {
            Err(CliExit::Usage.failure("--to and --header are for --as client; an agent listens on --listen"))
        }
        ReplayedSide::Agent => {
            let script = read_agent(&arguments.file, arguments.speed)?;
            let name = arguments.file.display().to_string();
            serve_agent(arguments.listen, &name, &[], demo::replay_router(script))
        }
        ReplayedSide::Client => replay_client::run(&arguments.file, &arguments.client),
    }
}
