//! `diglot explain-route`: what would become of a request, and why.

use super::{CliExit, print_error, print_line};
use crate::config::load;
use crate::guard::RequestPolicy;
use crate::guard::dry_run::{GateReport, GateVerdict};
use crate::proxy::explanation::{
    ExplainedDialect, ExplainedOutcome, ExplainedRequest, ExplainedRoute, RouteExplanation,
};
use crate::proxy::{Gateway, Lifecycle};
use crate::telemetry::Metrics;
use crate::telemetry::trace::TraceProvider;
use bytes::Bytes;
use http::request::Parts;
use http::{Request, header};
use std::fmt::Write;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(clap::Args)]
#[command(
    after_help = "Nothing is sent: no agent, issuer or Redis is asked, no quota is counted. What only they know is said to be open.\n\
                  Secrets are shown as ***.\n\
                  \n  \
                  diglot explain-route diglot.yaml /agents/chat\n  \
                  diglot explain-route diglot.yaml /agents/chat --header 'authorization: Bearer x' --body run.json\n  \
                  diglot explain-route diglot.yaml /agents/chat --method OPTIONS \\\n    \
                  --header 'origin: https://app.example.com' --header 'access-control-request-method: POST'\n  \
                  diglot explain-route diglot.yaml /agents/chat/runs/r1/events --method GET --format json\n\
                  \n\
                  Exit codes: 0 a route takes the request, even where it refuses it; 1 none does; 2 usage, 69 the body cannot be\n\
                  read, 78 bad configuration."
)]
pub(super) struct ExplainRouteArgs {
    /// Configuration file
    #[arg(value_name = "FILE")]
    config: PathBuf,

    /// The path that is asked for, such as /agents/chat
    path: String,

    /// The method that it is asked for with
    #[arg(long, short = 'X', default_value = "POST")]
    method: String,

    /// A field of the request, such as 'origin: https://app.example.com'; may be repeated
    #[arg(long = "header", short = 'H', value_name = "NAME: VALUE")]
    headers: Vec<String>,

    /// The body of the request, `-` for stdin; without it what the body tells is not said
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,

    /// How it is said
    #[arg(long, value_enum, default_value_t = ExplainRouteFormat::Text)]
    format: ExplainRouteFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ExplainRouteFormat {
    Text,
    Json,
}

pub(super) fn run(arguments: &ExplainRouteArgs) -> CliExit {
    let head = match request_head(arguments) {
        Ok(head) => head,
        Err(why) => {
            print_error(why);
            return CliExit::Usage;
        }
    };
    let body = match arguments.body.as_deref().map(read_body).transpose() {
        Ok(body) => body,
        Err(why) => {
            print_error(why);
            return CliExit::Unavailable;
        }
    };
    match explain(&arguments.config, head, body) {
        Ok(explained) => {
            match arguments.format {
                ExplainRouteFormat::Text => print_line(format_text(&explained).trim_end()),
                // Plain data can always be written.
                ExplainRouteFormat::Json => print_line(serde_json::to_string_pretty(&explained).unwrap_or_default()),
            };
            if is_routed(&explained) { CliExit::Ok } else { CliExit::Problems }
        }
        Err(problems) => {
            print_error(problems);
            CliExit::Config
        }
    }
}

/// Whether a route takes a request of this path and method.
fn is_routed(explained: &RouteExplanation) -> bool {
    match &explained.outcome {
        ExplainedOutcome::NoRoute(..) => false,
        ExplainedOutcome::Refused(refusal) => refusal.status != 405,
        ExplainedOutcome::Answered(_) | ExplainedOutcome::Passes(_) => true,
    }
}

fn request_head(arguments: &ExplainRouteArgs) -> Result<Parts, String> {
    let mut request = Request::builder().method(arguments.method.as_str()).uri(&arguments.path);
    let mut has_host = false;
    for field in &arguments.headers {
        let Some((name, value)) = field.split_once(':') else {
            return Err(format!("`{field}` is no field: write NAME: VALUE"));
        };
        has_host |= name.trim().eq_ignore_ascii_case("host");
        request = request.header(name.trim(), value.trim());
    }
    if !has_host {
        request = request.header(header::HOST, "localhost");
    }
    let request = request.body(()).map_err(|error| format!("this is no request: {error}"))?;
    Ok(request.into_parts().0)
}

fn read_body(path: &Path) -> Result<Bytes, String> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    read.map(|_| bytes.into()).map_err(|error| format!("{}: {error}", path.display()))
}

fn explain(config: &Path, head: Parts, body: Option<Bytes>) -> Result<RouteExplanation, String> {
    let file = config.display();
    let config = load::from_path(config).map_err(|problems| problems.to_string())?;
    let metrics = Arc::new(Metrics::new().map_err(|error| error.to_string())?);
    let guard = RequestPolicy::new(&config, &metrics).map_err(|why| format!("{file}: {why}"))?;
    let gateway = Gateway::new(&config, metrics, Lifecycle::default(), Arc::new(guard), TraceProvider::default());
    Ok(gateway.map_err(|why| format!("{file}: {why}"))?.explain(head, body))
}

fn format_text(explained: &RouteExplanation) -> String {
    let mut out = format!("{} {}\n", explained.method, explained.path);
    let line = |out: &mut String, key: &str, says: &str| {
        // Writing into memory cannot fail.
        let _ = writeln!(out, "  {key:<18} {says}");
    };
    match &explained.outcome {
        ExplainedOutcome::Answered(what) => {
            line(&mut out, "outcome", &format!("answered by the gateway itself: {what}"))
        }
        ExplainedOutcome::Passes(open) if open.is_empty() => line(&mut out, "outcome", "passes"),
        ExplainedOutcome::Passes(open) => {
            line(&mut out, "outcome", &format!("passes, depending on {}", open.join("; ")))
        }
        ExplainedOutcome::Refused(refusal) => {
            line(&mut out, "outcome", &format!("refused with {} {}", refusal.status, refusal.code));
            line(&mut out, "why", &refusal.message);
            line(&mut out, "hint", refusal.hint);
        }
        ExplainedOutcome::NoRoute(refusal, hint) => {
            line(&mut out, "outcome", &format!("no route: {} {}", refusal.status, refusal.code));
            line(&mut out, "hint", hint);
        }
    }
    if let Some(leads) = &explained.route {
        format_route(&mut out, leads, &line);
    }
    out
}

fn format_route(out: &mut String, leads: &ExplainedRoute, line: &impl Fn(&mut String, &str, &str)) {
    line(out, "route", &format!("{}, at {}", leads.name, leads.path));
    line(out, "wants", leads.purpose);
    line(out, "client", &format_dialect(&leads.client));
    line(out, "agent", &format_dialect(&leads.agent));
    if let Some(answer) = leads.answer {
        line(out, "answer", answer);
    }
    for (name, value) in leads.preflight.iter().flatten() {
        line(out, "preflight", &format!("{name}: {value}"));
    }
    // A preflight is answered before them, and no run comes of it.
    if leads.preflight.is_some() {
        return;
    }
    out.push_str("gates, in their order\n");
    for gate in &leads.gates {
        line(out, gate.gate, &format_verdict(gate));
        gate.wants.iter().for_each(|wants| line(out, "", &format!("wants {wants}")));
    }
    for step in &leads.agent_gets {
        format_agent_request(out, step, line);
    }
    out.push_str("what holds for the run\n");
    for (key, value) in &leads.settings {
        let _ = writeln!(out, "  {key}: {value}");
    }
}

fn format_agent_request(out: &mut String, step: &ExplainedRequest, line: &impl Fn(&mut String, &str, &str)) {
    out.push_str("the agent gets\n");
    for (index, url) in step.urls.iter().enumerate() {
        line(out, if index == 0 { &step.method } else { "or at" }, url);
    }
    for (name, value, from) in &step.fields {
        let _ = writeln!(out, "  {name}: {value}   (from {from})");
    }
    if let Some(bytes) = step.body_bytes {
        let _ = writeln!(out, "  and {bytes} bytes of JSON in its dialect");
    }
}

fn format_verdict(gate: &GateReport) -> String {
    match &gate.verdict {
        GateVerdict::Passes => "passes".to_owned(),
        GateVerdict::Refuses(refusal) => {
            format!("refuses with {} {}: {}", refusal.status, refusal.code, refusal.message)
        }
        GateVerdict::Depends(on) => format!("depends on {on}"),
    }
}

fn format_dialect(speaks: &ExplainedDialect) -> String {
    match (speaks.detected, speaks.detected_by) {
        (Some(dialect), Some(by)) => format!("{}: {dialect}, since {by}", speaks.configured),
        _ if speaks.configured == crate::dialect::AUTO => format!("{}: what is said tells it", speaks.configured),
        _ => speaks.configured.to_owned(),
    }
}
