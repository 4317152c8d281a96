//! `diglot demo`: runs a gateway with built-in agents, and prints example requests.

use super::output::{CliExit, CliResult, print_line};
use crate::app::{App, StartError, StartMode};
use crate::config::load;
use crate::demo;
use crate::dialect::{self, AG_UI, ALL, HAI, PeerDialect, TextFormat};
use crate::telemetry::log;
use std::net::SocketAddr;
use std::time::Duration;

#[derive(clap::Args)]
pub(super) struct DemoArgs {
    /// Address of the gateway; port 0 chooses a free port
    #[arg(long, default_value = "127.0.0.1:8787", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Address of /livez, /readyz and /metrics
    #[arg(long, default_value = "127.0.0.1:8788", value_name = "ADDRESS")]
    status: SocketAddr,
    /// Address of the page that shows what both sides of a run said
    #[arg(long, default_value = "127.0.0.1:8789", value_name = "ADDRESS")]
    inspector: SocketAddr,
    /// Milliseconds between two events of an agent
    #[arg(long, default_value_t = 40, value_name = "MS")]
    pace: u64,
}

struct DemoRoute {
    name: String,
    agent: PeerDialect,
    /// the client and the agent, as written in a configuration
    client_side: &'static str,
    agent_side: String,
    description: String,
}

const HAI_BLOCKS: &str = "{dialect: hai, content: blocks}";
const HAI_STRINGS: &str = "{dialect: hai, content: string}";

/// Returns a route for each dialect, plus routes that show more of HAI and AG-UI.
fn demo_routes() -> Vec<DemoRoute> {
    let route = |name: &str, client_side, agent_side: &str, description: &str| DemoRoute {
        name: name.to_owned(),
        agent: match agent_side {
            HAI_BLOCKS => PeerDialect { text_format: TextFormat::Blocks, ..PeerDialect::new(&HAI) },
            name => PeerDialect::new(dialect::find_by_name(name).unwrap_or(&AG_UI)),
        },
        client_side,
        agent_side: agent_side.to_owned(),
        description: description.to_owned(),
    };
    let others = ALL.iter().filter(|dialect| ![&AG_UI, &HAI].contains(dialect));
    let others = others.map(|dialect| {
        let description = format!("an AG-UI client talks to {}", dialect.demo_agent.description);
        route(&format!("{}-agent", dialect.name), "ag-ui", dialect.name, &description)
    });
    [
        route("hai-agent", "ag-ui", "hai", "an AG-UI client talks to a HAI agent that writes text as strings"),
        route(
            "hai-agent-blocks",
            "ag-ui",
            HAI_BLOCKS,
            "an AG-UI client talks to a HAI agent that writes text as output blocks",
        ),
        route(
            "ag-ui-agent",
            "hai",
            "ag-ui",
            "for HAI clients only: one that reads output blocks talks to an AG-UI agent",
        ),
        route(
            "ag-ui-agent-string",
            HAI_STRINGS,
            "ag-ui",
            "for HAI clients only: one that reads strings talks to an AG-UI agent",
        ),
        route("pass", "ag-ui", "ag-ui", "both speak AG-UI: passed through, guarded"),
    ]
    .into_iter()
    .chain(others)
    .collect()
}

pub(super) fn run(arguments: &DemoArgs) -> CliResult {
    let _log = log::init();
    let routes = demo_routes();
    let app = bind_demo(arguments, &routes)
        .map_err(|error| CliExit::Unavailable.failure(describe_start_error(error.as_ref())))?;
    print_routes(arguments, &routes, &app);
    app.serve()?;
    Ok(CliExit::Ok)
}

fn bind_demo(arguments: &DemoArgs, routes: &[DemoRoute]) -> Result<App, Box<dyn std::error::Error>> {
    let agents = spawn_agents(routes, Duration::from_millis(arguments.pace))?;
    let config =
        load::from_str("demo", &config_text(arguments, routes, &agents)).map_err(|problems| problems.to_string())?;
    Ok(App::bind(config, None, StartMode::NewSockets)?)
}

/// Describes why the start failed. If an address is in use, names the option that sets it, since the demo has no
/// configuration file.
fn describe_start_error(error: &(dyn std::error::Error + 'static)) -> String {
    let Some(StartError::Bind { plane, address, error }) = error.downcast_ref() else { return error.to_string() };
    let option = match *plane {
        "data" => "--listen",
        "status" => "--status",
        _ => "--inspector",
    };
    // The program as it was started, which `make demo` does with its path.
    let program =
        std::env::args_os().next().map_or_else(|| "diglot".to_owned(), |path| path.to_string_lossy().into_owned());
    format!(
        "cannot listen on {address} ({option}): {error}; free it or name other addresses with --listen, --status and \
         --inspector:\n  \
         {program} demo --listen 127.0.0.1:9090 --status 127.0.0.1:9091 --inspector 127.0.0.1:9092"
    )
}

/// Serves each agent on a free port, using threads that end with the process.
fn spawn_agents(routes: &[DemoRoute], pace: Duration) -> std::io::Result<Vec<SocketAddr>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mut addresses = Vec::new();
    for row in routes {
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))?;
        addresses.push(listener.local_addr()?);
        runtime.spawn(demo::serve(listener, demo::router(row.agent, pace), std::future::pending()));
    }
    // The gateway blocks the main thread, so the agents' runtime gets its own.
    std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    Ok(addresses)
}

fn config_text(arguments: &DemoArgs, routes: &[DemoRoute], agents: &[SocketAddr]) -> String {
    let mut text = format!(
        "listeners: {{data: \"{}\", status: \"{}\", inspector: \"{}\"}}\ndrain_grace: 0s\ndrain_timeout: 1s\nroutes:\n",
        arguments.listen, arguments.status, arguments.inspector
    );
    for (row, agent) in routes.iter().zip(agents) {
        let DemoRoute { name, client_side, agent_side, .. } = row;
        text += &format!(
            "  - {{name: {name}, path: /{name}, client: {client_side}, agent: {agent_side}, upstream: \"http://{agent}/\", inspect: full}}\n"
        );
    }
    text
}

/// Prints the addresses. Programs may parse the lines `route NAME URL` and `status URL`.
fn print_routes(arguments: &DemoArgs, routes: &[DemoRoute], app: &App) {
    let data = app.data_address().unwrap_or(arguments.listen);
    print_line("diglot demo: a gateway and its agents on this machine. Ctrl-C ends it.\n");
    for row in routes {
        print_line(format_args!("route {} http://{data}/{}", row.name, row.name));
        print_line(format_args!("      {}", row.description));
    }
    if let Some(status) = app.status_address() {
        print_line(format_args!("\nstatus http://{status}\n      /livez, /readyz, /metrics"));
    }
    if let Some(inspector) = app.inspector_url() {
        print_line(format_args!("\ninspector {inspector}\n      what both sides of each run said, in a browser"));
    }
    print_line("\nTo see what an AG-UI client gets from a HAI agent, and a HAI client from an AG-UI agent:\n");
    for (name, request) in [("hai-agent", AG_UI_REQUEST), ("ag-ui-agent", HAI_REQUEST)] {
        print_line(format_args!("{}\n", curl_command(data, name, request)));
    }
}

/// A request with all members that AG-UI's client sends.
const AG_UI_REQUEST: &str = r#"{"threadId":"t1","runId":"r1","protocolVersion":"1.0","state":{},"messages":[{"id":"u1","role":"user","content":"帮我部署"}],"tools":[],"context":[],"forwardedProps":{}}"#;

/// A request with the members of the HAI document (§3.3.1), which prints no `state`.
const HAI_REQUEST: &str = r#"{"threadId":"t1","runId":"r1","messages":[{"id":"u1","role":"user","content":"帮我部署"}],"tools":[],"context":[],"forwardedProps":{}}"#;

/// Returns a `curl` command to copy and paste.
fn curl_command(data: SocketAddr, name: &str, request: &str) -> String {
    format!("curl -N http://{data}/{name} -H 'Content-Type: application/json' -d '{request}'")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::detect;

    #[test]
    fn example_requests_are_of_their_clients_dialect() {
        for (request, dialect) in [(AG_UI_REQUEST, "ag-ui"), (HAI_REQUEST, "hai")] {
            assert_eq!(detect::detect_request(request).peer.dialect.name, dialect);
        }
    }
}
