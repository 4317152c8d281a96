//! Explains what would happen to a request without sending it.
//!
//! Opens no connections and resolves no names. Masks values that may be secrets.

use super::gateway::Gateway;
use super::resume;
use super::routes::{PathMatch, PathTarget, RouteEntry};
use super::run_start::RunPreview;
use super::stack;
use super::two_step;
use super::upstream::{AgentOperation, AgentRequestHead, UpstreamRequest};
use crate::config::access::{AccessConfig, OnExpiry};
use crate::config::header_names::{METHOD, REQUEST_ID, SCOPES, SUBJECT, TENANT, TIER, TRACEPARENT, TRACESTATE};
use crate::config::replay::OnDisconnect;
use crate::config::{UpstreamConfig, did_you_mean, enum_values, format_duration};
use crate::dialect::{self, PeerDialect, RequestTarget};
use crate::error::{Rejection, RejectionKind};
use crate::policy::dry_run::{DryRun, GateReport, GateVerdict, ReportedRejection};
use crate::policy::{self, CallerContext, RouteMatch};
use crate::replay::ReplayKey;
use crate::translate::{EventLoss, LossCounts, client_limits};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, Request, Response, header};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use tower::service_fn;

const MASK: &str = "***";

/// Maximum number of paths listed in the hint for an unknown path.
const HINT_PATHS: usize = 20;

#[derive(Debug, Serialize)]
pub(crate) struct RouteExplanation {
    pub(crate) method: String,
    /// without the query
    pub(crate) path: String,
    pub(crate) outcome: ExplainedOutcome,
    pub(crate) route: Option<ExplainedRoute>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExplainedOutcome {
    /// the gateway itself would respond
    Answered(&'static str),
    /// the request would pass under these conditions
    Passes(Vec<&'static str>),
    Refused(ReportedRejection),
    /// no route matches; includes a hint
    NoRoute(ReportedRejection, String),
}

#[derive(Debug, Serialize)]
pub(crate) struct ExplainedRoute {
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) purpose: &'static str,
    /// present if the preflight request's origin is allowed
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) preflight: Option<BTreeMap<String, String>>,
    pub(crate) gates: Vec<GateReport>,
    pub(crate) client: ExplainedDialect,
    pub(crate) agent: ExplainedDialect,
    /// content that reaches a client which does not show it, if the agent sends it
    pub(crate) not_shown: Vec<ExplainedLoss>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<&'static str>,
    /// requests to the agent, one for each step
    pub(crate) agent_requests: Vec<ExplainedRequest>,
    /// values by configuration key
    pub(crate) settings: BTreeMap<&'static str, String>,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct ExplainedDialect {
    pub(crate) configured: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) detected: Option<&'static str>,
    /// why the dialect was detected
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) detected_by: Option<&'static str>,
}

impl ExplainedDialect {
    /// Returns the detected dialect, or the configured one.
    pub(crate) fn name(&self) -> &'static str {
        self.detected.unwrap_or(self.configured)
    }

    pub(crate) fn is_undetected(&self) -> bool {
        self.name() == dialect::AUTO
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct ExplainedLoss {
    pub(crate) loss: &'static str,
    pub(crate) meaning: &'static str,
    /// the dialects of the clients, several if the dialect will be detected
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) clients: Vec<&'static str>,
    /// present if it was counted
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) count: Option<u64>,
}

impl ExplainedLoss {
    fn new(loss: EventLoss) -> ExplainedLoss {
        ExplainedLoss { loss: loss.label(), meaning: loss.description(), clients: Vec::new(), count: None }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct ExplainedRequest {
    pub(crate) method: String,
    /// candidate upstream URLs, one of which is chosen
    pub(crate) urls: Vec<String>,
    /// name, value or mask, and source
    pub(crate) fields: Vec<(String, String, &'static str)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) body_bytes: Option<usize>,
    /// what the agent cannot accept or does not see of the body
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) losses: Vec<ExplainedLoss>,
}

impl Gateway {
    pub(crate) fn explain(&self, mut head: Parts, body: Option<Bytes>) -> RouteExplanation {
        let method = head.method.to_string();
        let path = head.uri.path().to_owned();
        let Some(found) = self.find(&path) else {
            return RouteExplanation { method, outcome: self.explain_no_route(&head), path, route: None };
        };
        head.extensions.insert(Arc::clone(found.route_match));
        head.extensions.insert(CallerContext::default());
        let preflight = self.policy.cors().preflight_headers(&mut head, found.route_match);
        let gates = if preflight.is_some() { Vec::new() } else { self.gate_reports(&head) };
        let (refusal, preview) = match self.check_leaf(&found, &head, body) {
            Ok(preview) => (None, preview),
            Err(rejection) => (Some(ReportedRejection::from(&rejection)), None),
        };
        let outcome = match (&preflight, first_refusal(&gates).or(refusal.as_ref())) {
            (Some(_), _) => ExplainedOutcome::Answered("a preflight from an allowed origin"),
            (None, Some(refusal)) => ExplainedOutcome::Refused(refusal.clone()),
            (None, None) => ExplainedOutcome::Passes(open_conditions(&gates)),
        };
        let preflight = preflight.as_ref().map(headers_to_map);
        let route = Some(self.explain_route(&found, &head, gates, preflight, preview));
        RouteExplanation { method, path, outcome, route }
    }

    fn gate_reports(&self, head: &Parts) -> Vec<GateReport> {
        let leaf = service_fn(async |_: Request<()>| Ok::<_, Rejection>(Response::new(())));
        let mut reports = Vec::new();
        policy::gates(&self.policy, leaf).dry_run_all(head, &mut reports);
        reports
    }

    fn check_leaf(
        &self,
        found: &PathMatch<'_>,
        head: &Parts,
        body: Option<Bytes>,
    ) -> Result<Option<RunPreview>, Rejection> {
        let PathMatch { route, target, .. } = found;
        match target {
            PathTarget::Run => self.preview_run(route, head.clone(), body).map(Some),
            PathTarget::Events(_) if route.resumable.is_none() => {
                two_step::check_events_request(route.client, &head.method, &head.headers).map(|_| None)
            }
            PathTarget::Events(_) | PathTarget::Join(_) => {
                resume::check_join_request(route, &head.method, &head.headers).map(|_| None)
            }
            PathTarget::Stop(_) => resume::check_stop_request(&head.method).map(|()| None),
        }
    }

    fn explain_no_route(&self, head: &Parts) -> ExplainedOutcome {
        let path = head.uri.path();
        if self.policy.auth.resource_metadata(path).is_some() && matches!(head.method.as_str(), "GET" | "HEAD") {
            return ExplainedOutcome::Answered("protected resource metadata (RFC 9728)");
        }
        let refusal = ReportedRejection::from(&Rejection::from(RejectionKind::RouteNotFound));
        let mut known: Vec<_> = self.routes.keys().map(String::as_str).collect();
        known.sort_unstable();
        let shorter = path.trim_end_matches('/');
        let hint = if let Some(found) = self.find(shorter).filter(|_| shorter != path) {
            format!("without the trailing slash it matches the route {}", found.route_match.name)
        } else if let Some(other) = known.iter().find(|other| other.eq_ignore_ascii_case(path)) {
            format!("paths are case-sensitive: `{other}`")
        } else if let Some(other) = known.iter().find(|other| is_below(path, other)) {
            format!("`{other}` is a route, but paths below it are not: each path needs its own route")
        } else {
            known.truncate(HINT_PATHS);
            did_you_mean(path, &known)
        };
        ExplainedOutcome::NoRoute(refusal, hint)
    }

    fn explain_route(
        &self,
        found: &PathMatch<'_>,
        head: &Parts,
        gates: Vec<GateReport>,
        preflight: Option<BTreeMap<String, String>>,
        preview: Option<RunPreview>,
    ) -> ExplainedRoute {
        let PathMatch { route, route_match: matched, target } = found;
        let detected = preview.as_ref().and_then(|preview| preview.translation.as_ref()).map(|sides| sides.client);
        ExplainedRoute {
            name: route.name.to_string(),
            path: route.config.path.clone(),
            purpose: match target {
                PathTarget::Run if route.resumable.is_some() => "a run, new or resumed",
                PathTarget::Run => "a run",
                PathTarget::Events(_) => "the events of a started run",
                PathTarget::Join(_) => "to resume a run",
                PathTarget::Stop(_) => "to stop a run",
            },
            preflight,
            gates,
            client: ExplainedDialect {
                configured: route.client.name(),
                detected: detected.filter(|_| route.client.is_auto).map(|client| client.dialect.name),
                detected_by: preview.as_ref().and_then(|preview| preview.detected_by),
            },
            agent: ExplainedDialect { configured: route.agent.name(), ..ExplainedDialect::default() },
            not_shown: list_not_shown(detected.unwrap_or(route.client)),
            answer: preview.as_ref().map(|preview| match route.two_step {
                Some(_) => "application/json",
                None => preview.framing.media_type(),
            }),
            agent_requests: preview
                .map(|preview| self.explain_requests(route, matched, head, &preview))
                .unwrap_or_default(),
            settings: self.effective_settings(route),
        }
    }

    fn explain_requests(
        &self,
        route: &RouteEntry,
        matched: &RouteMatch,
        head: &Parts,
        preview: &RunPreview,
    ) -> Vec<ExplainedRequest> {
        let request = preview.translation.as_ref().map(|rewritten| &rewritten.request);
        let body = Bytes::from(request.map(|request| request.body.clone()).unwrap_or_default());
        let bytes = request.map(|_| body.len());
        let template = route.cluster.settings.events.as_ref();
        let target = request.map(|request| &request.target);
        let first = if template.is_some() { AgentOperation::Start(body) } else { AgentOperation::Run(body) };
        let losses = request.map(|request| count_losses(&request.losses)).unwrap_or_default();
        let mut steps =
            vec![ExplainedRequest { losses, ..self.explain_request(route, matched, head, first, target, bytes) }];
        if let Some(template) = template {
            let ids = request.map(|request| (request.ids.thread_id.text(), request.ids.run_id.text()));
            let (thread_id, run_id) = ids.unwrap_or_default();
            let path = template.fill_agent_path(&thread_id.unwrap_or("THREAD".into()), &run_id.unwrap_or("RUN".into()));
            // Without a path, the run is refused.
            steps.extend(path.map(|path| {
                let operation = AgentOperation::Events { path: &path, last_event_id: None };
                self.explain_request(route, matched, head, operation, None, None)
            }));
        }
        steps
    }

    fn explain_request(
        &self,
        route: &RouteEntry,
        matched: &RouteMatch,
        head: &Parts,
        operation: AgentOperation<'_>,
        target: Option<&RequestTarget>,
        bytes: Option<usize>,
    ) -> ExplainedRequest {
        let fields = self.policy.upstream_fields(head, matched);
        let request_id =
            head.headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).unwrap_or("(generated by the gateway)");
        let spans = stack::start_trace(&self.tracing, &head.method, &head.headers, &head.extensions).upstream_spans();
        let caller = ReplayKey::default();
        let request =
            UpstreamRequest { operation, target, request_id, caller, spans: &spans, fields: &fields, timeline: None };
        let mut explained = Vec::new();
        let mut method = String::new();
        if let Some(upstream) = route.cluster.settings.upstreams.first()
            && let Ok(sent) = AgentRequestHead::for_request(upstream, &request, &request.start_span(upstream, ""))
        {
            method = sent.method.to_string();
            let known = sent.fields.iter().filter(|(name, _)| *name != header::CONTENT_LENGTH || bytes.is_some());
            explained.extend(
                known.map(|(name, value)| self.explain_field(matched, target, name, value.to_str().unwrap_or(MASK))),
            );
        }
        if !matched.access.methods.is_empty() {
            let identity = [SUBJECT, TENANT, SCOPES, METHOD, TIER];
            explained
                .extend(identity.map(|name| (name.to_string(), MASK.to_owned(), "identity of the caller, if known")));
        }
        explained.sort();
        explained.dedup();
        let url = |upstream| request_url(upstream, &request.method_and_path(upstream).1);
        let urls = route.cluster.settings.upstreams.iter().map(url).collect();
        ExplainedRequest { method, urls, fields: explained, body_bytes: bytes, losses: Vec::new() }
    }

    /// Returns a header field and its source. Values that the gateway does not set are masked.
    fn explain_field(
        &self,
        matched: &RouteMatch,
        target: Option<&RequestTarget>,
        name: &HeaderName,
        value: &str,
    ) -> (String, String, &'static str) {
        let access = &matched.access;
        let is_credential = *name == header::AUTHORIZATION || self.policy.auth.key_fields(matched).contains(&name);
        let (value, from) = if access.upstream_headers.iter().any(|own| own.name == *name) {
            (MASK, "the configuration")
        } else if access.forward_headers.contains(name) {
            (MASK, "the client")
        } else if access.forward_credentials && is_credential {
            (MASK, "the client's credential")
        } else if target.is_some_and(|target| target.headers.iter().any(|(own, _)| name == &**own)) {
            (MASK, "the dialect file")
        } else if *name == TRACESTATE {
            (value, "the client")
        } else {
            // Each request gets its own trace unless it arrives with one.
            (if *name == TRACEPARENT { "(a span of the request's trace)" } else { value }, "the gateway")
        };
        (name.to_string(), value.to_owned(), from)
    }

    fn effective_settings(&self, route: &RouteEntry) -> BTreeMap<&'static str, String> {
        let config = &route.config;
        let access: &AccessConfig = &config.access;
        let timeouts = &config.timeouts;
        let run = &access.run;
        let mut settings = BTreeMap::from([
            ("timeouts.connect", format_duration(timeouts.connect)),
            ("timeouts.first_byte", format_duration(timeouts.first_byte)),
            ("timeouts.first_event", format_duration(timeouts.first_event_limit(config.events.is_some()))),
            ("timeouts.idle", format_duration(timeouts.idle)),
            ("timeouts.ping_only", format_duration(timeouts.ping_only_limit())),
            ("keep_alive", format_duration(self.keep_alive)),
            ("guard", enum_values::name_of(enum_values::GUARD, &config.guard).to_owned()),
            ("agent_errors", enum_values::name_of(enum_values::AGENT_ERRORS, &config.agent_errors).to_owned()),
            ("errors", enum_values::name_of(enum_values::ERRORS, &access.errors).to_owned()),
            ("threads", enum_values::name_of(enum_values::THREADS, &access.own_threads).to_owned()),
            (
                "on_disconnect",
                match config.on_disconnect {
                    OnDisconnect::Abort => "abort".to_owned(),
                    OnDisconnect::Continue(limit) => format!("continue for {}", format_duration(limit)),
                },
            ),
            ("limits.request_body", format!("{} bytes", self.limits.request_body)),
            ("limits.request_bodies", format!("{} bytes", self.limits.request_bodies)),
            ("limits.client_buffers", format!("{} bytes", self.limits.client_buffers)),
            ("limits.run_memory", format!("{} bytes", self.limits.run_memory)),
        ]);
        let mut insert = |key, value: Option<String>| {
            if let Some(value) = value {
                settings.insert(key, value);
            }
        };
        insert("timeouts.reader", route.two_step.as_ref().map(|_| format_duration(timeouts.reader)));
        let forwarded: Vec<&str> = access.forward_headers.iter().map(HeaderName::as_str).collect();
        insert("forward_headers", (!forwarded.is_empty()).then(|| format!("[{}]", forwarded.join(", "))));
        insert("forward_credentials", access.forward_credentials.then(|| "true".to_owned()));
        insert("tools", access.tools.as_ref().map(|tools| format!("[{}]", tools.join(", "))));
        insert("run_limits.events", run.events.map(|most| most.to_string()));
        insert("run_limits.bytes", run.bytes.map(|most| format!("{most} bytes")));
        insert("run_limits.duration", run.duration.map(format_duration));
        let expiry = Some(access.on_token_expiry).filter(|expiry| *expiry != OnExpiry::Finish);
        let expiry = expiry.map(|expiry| enum_values::name_of(enum_values::ON_TOKEN_EXPIRY, &expiry).to_owned());
        insert("on_token_expiry", expiry);
        settings
    }
}

/// Returns the losses for a client; for the clients of each dialect if the client's is not known.
fn list_not_shown(client: PeerDialect) -> Vec<ExplainedLoss> {
    let clients = if client.is_auto {
        client.possible_dialects().into_iter().map(PeerDialect::new).collect()
    } else {
        vec![client]
    };
    let lists: Vec<_> = clients.iter().map(|client| client_limits::list_not_shown(*client)).collect();
    let explain = |loss: &EventLoss| {
        let lacking = clients.iter().zip(&lists).filter(|(_, list)| list.contains(loss));
        let clients: Vec<_> = lacking.map(|(client, _)| client.dialect.name).collect();
        (!clients.is_empty()).then(|| ExplainedLoss { clients, ..ExplainedLoss::new(*loss) })
    };
    EventLoss::ALL.iter().filter_map(explain).collect()
}

fn count_losses(losses: &LossCounts) -> Vec<ExplainedLoss> {
    let counts = EventLoss::ALL.iter().map(|loss| (*loss, losses[*loss as usize]));
    let counts = counts.filter(|(_, count)| *count > 0);
    counts.map(|(loss, count)| ExplainedLoss { count: Some(count), ..ExplainedLoss::new(loss) }).collect()
}

fn first_refusal(gates: &[GateReport]) -> Option<&ReportedRejection> {
    gates.iter().find_map(|gate| if let GateVerdict::Refuses(refusal) = &gate.verdict { Some(refusal) } else { None })
}

fn open_conditions(gates: &[GateReport]) -> Vec<&'static str> {
    let mut open = Vec::new();
    for gate in gates {
        if let GateVerdict::Depends(on) = gate.verdict
            && !open.contains(&on)
        {
            open.push(on);
        }
    }
    open
}

/// Returns whether `path` begins with the segments of `other` and has more.
fn is_below(path: &str, other: &str) -> bool {
    other.len() > 1 && path.strip_prefix(other).is_some_and(|rest| rest.starts_with('/'))
}

/// Returns the URL of a request, masking the query, since it may contain a secret.
fn request_url(upstream: &UpstreamConfig, path: &str) -> String {
    let (path, query) = match path.split_once('?') {
        Some((path, _)) => (path, "?***"),
        None => (path, ""),
    };
    let socket = if upstream.label().starts_with("unix:") { ":" } else { "" };
    format!("{}{socket}{path}{query}", upstream.label())
}

fn headers_to_map(headers: &HeaderMap) -> BTreeMap<String, String> {
    let fields = headers.iter();
    fields.map(|(name, value)| (name.to_string(), value.to_str().unwrap_or(MASK).to_owned())).collect()
}
