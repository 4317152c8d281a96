//! `diglot demo`: a gateway with agents of its own, and what to type at it.

use super::{Exit, complain, say, serve};
use crate::app::{App, Start, StartError};
use crate::config::load;
use crate::demo::{self, Agent};
use crate::telemetry::log;
use std::net::SocketAddr;
use std::time::Duration;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Address of the gateway; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:8787", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Address of /livez, /readyz and /metrics
    #[arg(long, default_value = "127.0.0.1:8788", value_name = "ADDRESS")]
    status: SocketAddr,
    /// Milliseconds between two events of the agents
    #[arg(long, default_value_t = 40, value_name = "MS")]
    pace: u64,
}

/// One route of the demo.
struct Row {
    name: &'static str,
    agent: Agent,
    client_side: &'static str,
    agent_side: &'static str,
    what: &'static str,
}

const ROWS: &[Row] = &[
    Row {
        name: "hai-agent",
        agent: Agent::HaiString,
        client_side: "ag-ui",
        agent_side: "hai",
        what: "an AG-UI client talks to a HAI agent that writes text as strings",
    },
    Row {
        name: "hai-agent-blocks",
        agent: Agent::HaiBlocks,
        client_side: "ag-ui",
        agent_side: "{dialect: hai, content: blocks}",
        what: "an AG-UI client talks to a HAI agent that writes text as output blocks",
    },
    Row {
        name: "ag-ui-agent",
        agent: Agent::AgUi,
        client_side: "{dialect: hai, content: blocks}",
        agent_side: "ag-ui",
        what: "for HAI clients only: one that reads output blocks talks to an AG-UI agent",
    },
    Row {
        name: "ag-ui-agent-string",
        agent: Agent::AgUi,
        client_side: "hai",
        agent_side: "ag-ui",
        what: "for HAI clients only: one that reads strings talks to an AG-UI agent",
    },
    Row {
        name: "pass",
        agent: Agent::AgUi,
        client_side: "ag-ui",
        agent_side: "ag-ui",
        what: "both speak AG-UI: passed through, guarded",
    },
    Row {
        name: "ag-ui-0-agent",
        agent: Agent::AgUi0,
        client_side: "ag-ui",
        agent_side: "ag-ui-0",
        what: "an AG-UI client talks to an agent of AG-UI 0.x",
    },
    Row {
        name: "ag-ui-snake-agent",
        agent: Agent::AgUiSnake,
        client_side: "ag-ui",
        agent_side: "ag-ui-snake",
        what: "an AG-UI client talks to an agent with snake_case ids and words of its own",
    },
    Row {
        name: "cloudbase-agent",
        agent: Agent::Cloudbase,
        client_side: "ag-ui",
        agent_side: "cloudbase",
        what: "an AG-UI client talks to a CloudBase agent",
    },
    Row {
        name: "social-app-agent",
        agent: Agent::SocialApp,
        client_side: "ag-ui",
        agent_side: "social-app",
        what: "an AG-UI client talks to an agent that says its text whole",
    },
];

pub(super) fn run(arguments: &Arguments) -> Exit {
    let _log = log::init();
    match start(arguments) {
        Ok(app) => {
            announce(arguments, &app);
            serve::serve(Ok(app))
        }
        Err(error) => {
            complain(in_own_words(error.as_ref()));
            Exit::Unavailable
        }
    }
}

fn start(arguments: &Arguments) -> Result<App, Box<dyn std::error::Error>> {
    let agents = spawn_agents(Duration::from_millis(arguments.pace))?;
    let config = load::from_str("demo", &configuration(arguments, &agents)).map_err(|problems| problems.to_string())?;
    Ok(App::bind(config, None, Start::Fresh)?)
}

/// The demo has no configuration to change: an address that is taken is named by the option that moves it.
fn in_own_words(error: &(dyn std::error::Error + 'static)) -> String {
    let Some(StartError::Bind { plane, address, error }) = error.downcast_ref() else { return error.to_string() };
    let option = if *plane == "data" { "--listen" } else { "--status" };
    format!(
        "cannot listen on {address} ({option}): {error}; free it or name other addresses with --listen and --status:\n  \
         make demo ARGS=\"--listen 127.0.0.1:9090 --status 127.0.0.1:9091\""
    )
}

/// Serves every agent on a free port of its own, on threads that end with the process.
fn spawn_agents(pace: Duration) -> std::io::Result<Vec<SocketAddr>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mut addresses = Vec::new();
    for row in ROWS {
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))?;
        addresses.push(listener.local_addr()?);
        runtime.spawn(demo::serve(listener, demo::router(row.agent, pace), std::future::pending()));
    }
    // The gateway blocks the main thread until the end, so the agents' runtime lives on one of its own.
    std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    Ok(addresses)
}

fn configuration(arguments: &Arguments, agents: &[SocketAddr]) -> String {
    let mut text = format!(
        "listeners: {{data: \"{}\", status: \"{}\"}}\ndrain_grace: 0s\ndrain_timeout: 1s\nroutes:\n",
        arguments.listen, arguments.status
    );
    for (row, agent) in ROWS.iter().zip(agents) {
        let Row { name, client_side, agent_side, .. } = row;
        text += &format!(
            "  - {{name: {name}, path: /{name}, client: {client_side}, agent: {agent_side}, upstream: \"http://{agent}/\"}}\n"
        );
    }
    text
}

/// Prints what runs where. `route NAME URL` and `status URL` are for programs too.
fn announce(arguments: &Arguments, app: &App) {
    let data = app.data().unwrap_or(arguments.listen);
    say("diglot demo: a gateway and its agents on this machine. Ctrl-C ends it.\n");
    for row in ROWS {
        say(format_args!("route {} http://{data}/{}", row.name, row.name));
        say(format_args!("      {}", row.what));
    }
    if let Some(status) = app.status() {
        say(format_args!("\nstatus http://{status}\n      /livez, /readyz, /metrics"));
    }
    say("\nTo see what an AG-UI client gets from a HAI agent, and a HAI client from an AG-UI agent:\n");
    for name in ["hai-agent", "ag-ui-agent"] {
        say(format_args!("{}\n", curl(data, name)));
    }
}

/// A command that can be pasted into a shell.
fn curl(data: SocketAddr, name: &str) -> String {
    format!(
        "curl -N http://{data}/{name} -H 'Content-Type: application/json' -d \
         '{{\"threadId\":\"t1\",\"runId\":\"r1\",\"messages\":[{{\"id\":\"u1\",\"role\":\"user\",\"content\":\"帮我部署\"}}],\
         \"tools\":[],\"context\":[],\"forwardedProps\":{{}}}}'"
    )
}
