//! `diglot explain-route`: explains how the gateway would handle a request.

use super::input;
use super::output::{CliExit, CliResult, ReportFormat, print_line};
use crate::config::load;
use crate::policy::RequestPolicy;
use crate::policy::dry_run::{GateReport, GateVerdict};
use crate::proxy::explanation::{
    ExplainedDialect, ExplainedLoss, ExplainedOutcome, ExplainedRequest, ExplainedRoute, RouteExplanation,
};
use crate::proxy::{Gateway, Lifecycle};
use crate::telemetry::Metrics;
use crate::telemetry::trace::TraceProvider;
use bytes::Bytes;
use http::request::Parts;
use http::{Request, header};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const AFTER_HELP: &str = "\
Sends nothing to agents, issuers or Redis, and counts no quota: what depends on them is left open. Secrets are printed as ***.

Examples:
  diglot explain-route diglot.yaml /agents/chat
  diglot explain-route diglot.yaml /agents/chat \\
    --header 'authorization: Bearer x' --body run.json
  diglot explain-route diglot.yaml /agents/chat --method OPTIONS \\
    --header 'origin: https://app.example.com' \\
    --header 'access-control-request-method: POST'
  diglot explain-route diglot.yaml /agents/chat/runs/r1/events \\
    --method GET --format json

Exit codes: 0 a route matches the request, even if it refuses it, 1 no route matches, 2 usage, 69 the body cannot be read, \
78 invalid configuration.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ExplainRouteArgs {
    /// Configuration file
    #[arg(value_name = "FILE")]
    config: PathBuf,

    /// Path of the request, such as /agents/chat
    path: String,

    /// Method of the request
    #[arg(long, short = 'X', default_value = "POST")]
    method: String,

    /// Header of the request, such as `origin: https://app.example.com`; may be repeated
    #[arg(long = "header", short = 'H', value_name = "NAME: VALUE")]
    headers: Vec<String>,

    /// Body of the request, `-` for stdin; without it, results that depend on the body are left out
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,

    /// Output format
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    format: ReportFormat,
}

pub(super) fn run(arguments: &ExplainRouteArgs) -> CliResult {
    let head = request_head(arguments).map_err(|why| CliExit::Usage.failure(why))?;
    let body = match &arguments.body {
        None => None,
        Some(file) => match input::read_all(file) {
            Ok(bytes) => Some(Bytes::from(bytes)),
            Err(failure) => return failure.into_result(file, CliExit::Unavailable),
        },
    };
    let explained = explain(&arguments.config, head, body).map_err(|problems| CliExit::Config.failure(problems))?;
    match arguments.format {
        ReportFormat::Text => print_line(format_text(&explained).trim_end()),
        // Serializing plain data cannot fail.
        ReportFormat::Json => print_line(serde_json::to_string_pretty(&explained).unwrap_or_default()),
    };
    Ok(if is_routed(&explained) { CliExit::Ok } else { CliExit::Problems })
}

/// Returns whether a route matches the request's path and method.
fn is_routed(explained: &RouteExplanation) -> bool {
    match &explained.outcome {
        ExplainedOutcome::NoRoute(..) => false,
        ExplainedOutcome::Refused(refusal) => refusal.status != 405,
        ExplainedOutcome::Answered(_) | ExplainedOutcome::Passes(_) => true,
    }
}

fn request_head(arguments: &ExplainRouteArgs) -> Result<Parts, String> {
    let path = &arguments.path;
    if !path.starts_with('/') && !path.contains("://") && path != "*" {
        return Err(format!("the path must begin with `/`: /{path}"));
    }
    let mut request = Request::builder().method(arguments.method.as_str()).uri(&arguments.path);
    let mut has_host = false;
    for field in &arguments.headers {
        let Some((name, value)) = field.split_once(':') else {
            return Err(format!("`{field}` is not a header: write NAME: VALUE"));
        };
        has_host |= name.trim().eq_ignore_ascii_case("host");
        request = request.header(name.trim(), value.trim());
    }
    if !has_host {
        request = request.header(header::HOST, "localhost");
    }
    let request = request.body(()).map_err(|error| format!("invalid request: {error}"))?;
    Ok(request.into_parts().0)
}

fn explain(config: &Path, head: Parts, body: Option<Bytes>) -> Result<RouteExplanation, String> {
    let file = config.display();
    let config = load::from_path(config).map_err(|problems| problems.to_string())?;
    let metrics = Arc::new(Metrics::new().map_err(|error| error.to_string())?);
    let policy = RequestPolicy::new(&config, &metrics).map_err(|why| format!("{file}: {why}"))?;
    let gateway = Gateway::new(&config, metrics, Lifecycle::default(), Arc::new(policy), TraceProvider::default());
    Ok(gateway.map_err(|why| format!("{file}: {why}"))?.explain(head, body))
}

fn format_text(explained: &RouteExplanation) -> String {
    let mut out = format!("{} {}\n", explained.method, explained.path);
    match &explained.outcome {
        ExplainedOutcome::Answered(what) => {
            line(&mut out, "outcome", &format!("answered by the gateway itself: {what}"));
        }
        ExplainedOutcome::Passes(open) if open.is_empty() => line(&mut out, "outcome", "passes"),
        ExplainedOutcome::Passes(open) => {
            line(&mut out, "outcome", "passes, depending on:");
            open.iter().for_each(|condition| line(&mut out, "", condition));
        }
        ExplainedOutcome::Refused(refusal) => {
            line(&mut out, "outcome", &format!("refused with {} {}", refusal.status, refusal.code));
            line(&mut out, "why", &refusal.message);
            line(&mut out, "hint", &refusal.hint);
        }
        ExplainedOutcome::NoRoute(refusal, hint) => {
            line(&mut out, "outcome", &format!("no route: {} {}", refusal.status, refusal.code));
            line(&mut out, "hint", hint);
        }
    }
    if let Some(route) = &explained.route {
        format_route(&mut out, route);
    }
    out
}

/// Writes `  key  value` with aligned values.
fn line(out: &mut String, key: &str, value: &str) {
    // Writing into memory cannot fail.
    let _ = writeln!(out, "  {key:<18} {value}");
}

fn format_route(out: &mut String, route: &ExplainedRoute) {
    line(out, "route", &format!("{}, at {}", route.name, route.path));
    line(out, "request", route.purpose);
    line(out, "client", &format_dialect(&route.client, "from each request; --body FILE shows the result"));
    line(out, "agent", &format_dialect(&route.agent, "from the events of each run"));
    line(out, "translation", &format_translation(route));
    if let Some(answer) = route.answer {
        line(out, "answer", answer);
    }
    for (name, value) in route.preflight.iter().flatten() {
        line(out, "preflight", &format!("{name}: {value}"));
    }
    // A preflight request is answered before the gates and starts no run.
    if route.preflight.is_some() {
        return;
    }
    out.push_str("gates, in order\n");
    let mut is_refused = false;
    for gate in &route.gates {
        let reached = if is_refused { "not reached; by itself it " } else { "" };
        line(out, gate.gate, &format!("{reached}{}", format_verdict(gate)));
        is_refused |= matches!(gate.verdict, GateVerdict::Refuses(_));
        gate.requirements.iter().for_each(|requirement| line(out, "", &format!("requires {requirement}")));
    }
    for step in route.agent_requests.iter().filter(|_| !is_refused) {
        format_agent_request(out, step);
    }
    if !route.not_shown.is_empty() {
        out.push_str("not shown to the client's user, if the agent sends it\n");
        route.not_shown.iter().for_each(|loss| format_loss(out, loss, route.client.is_undetected()));
    }
    out.push_str("run settings\n");
    for (key, value) in &route.settings {
        let _ = writeln!(out, "  {key}: {value}");
    }
}

fn format_agent_request(out: &mut String, step: &ExplainedRequest) {
    out.push_str("request to the agent\n");
    for (index, url) in step.urls.iter().enumerate() {
        line(out, if index == 0 { &step.method } else { "or at" }, url);
    }
    for (name, value, from) in &step.fields {
        let _ = writeln!(out, "  {name}: {value}   (from {from})");
    }
    if let Some(bytes) = step.body_bytes {
        let _ = writeln!(out, "  body: {bytes} bytes of JSON");
    }
    if !step.losses.is_empty() {
        out.push_str("lost in the request\n");
        step.losses.iter().for_each(|loss| format_loss(out, loss, false));
    }
}

fn format_loss(out: &mut String, loss: &ExplainedLoss, with_clients: bool) {
    let ExplainedLoss { loss, meaning, clients, count } = loss;
    let count = count.map(|count| format!(" {count}")).unwrap_or_default();
    let clients = if with_clients { format!(" (clients of {})", clients.join(", ")) } else { String::new() };
    let _ = writeln!(out, "  {:<22} {meaning}{clients}", format!("{loss}{count}"));
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

/// `detection` says from what the dialect will be detected.
fn format_dialect(dialect: &ExplainedDialect, detection: &str) -> String {
    let configured = dialect.configured;
    match (dialect.detected, dialect.detected_by) {
        (Some(detected), Some(evidence)) => format!("{configured}: {detected}, since {evidence}"),
        _ if dialect.is_undetected() => format!("{configured}: detected {detection}"),
        _ => configured.to_owned(),
    }
}

fn format_translation(route: &ExplainedRoute) -> String {
    let name = |dialect: &ExplainedDialect, unknown| if dialect.is_undetected() { unknown } else { dialect.name() };
    let client = name(&route.client, "the client's dialect");
    let agent = name(&route.agent, "the agent's dialect");
    if client == agent {
        return format!("both sides use {client}; the guard enforces the rules of a run");
    }
    format!("requests from {client} to {agent}, events from {agent} to {client}")
}
