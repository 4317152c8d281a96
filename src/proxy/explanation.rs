//! What would become of a request: found by the gateway, asked of its gates and rewritten as any other, and sent nowhere.
//!
//! Nobody is connected to and no name is looked up. Values of fields that may be secrets are masked.

use super::desk;
use super::gateway::{Found, Gateway, Route};
use super::rejoin;
use super::stack;
use super::start::Rehearsed;
use super::upstream::{self, Errand, Outgoing};
use crate::config::access::{Access, OnExpiry};
use crate::config::field::{METHOD, REQUEST_ID, SCOPES, SUBJECT, TENANT, TIER, TRACEPARENT, TRACESTATE};
use crate::config::replay::OnDisconnect;
use crate::config::{Upstream, did_you_mean, spelt, words};
use crate::dialect::Side;
use crate::error::{Kind, Rejection};
use crate::guard::told::{Refusal, Telling, Told, Verdict};
use crate::guard::{self, Matched, Who};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, Request, Response, header};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use tower::service_fn;

/// What is shown in place of a value that may be a secret.
const MASK: &str = "***";

/// How many paths are named where none fits.
const KNOWN: usize = 20;

/// What would become of a request.
#[derive(Debug, Serialize)]
pub struct Explained {
    /// its method
    pub method: String,
    /// its path, without the query, which plays no part
    pub path: String,
    /// what became of it, as far as that can be told
    pub outcome: Outcome,
    /// what it leads to
    pub route: Option<Leads>,
}

/// How far a request comes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// the gateway answers it by itself
    Answered(&'static str),
    /// it comes through, if these come out well
    Passes(Vec<&'static str>),
    /// it is refused
    Refused(Refusal),
    /// no route takes it, and what was perhaps meant
    NoRoute(Refusal, String),
}

/// A route, and what a request gets there.
#[derive(Debug, Serialize)]
pub struct Leads {
    /// its name
    pub name: String,
    /// its path
    pub path: String,
    /// what the request wants of it
    pub errand: &'static str,
    /// the answer to a preflight, if it is one of a page that may call
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preflight: Option<BTreeMap<String, String>>,
    /// the gates in their order; none of them is asked about a preflight that is answered
    pub gates: Vec<Told>,
    /// who speaks what
    pub client: Speaks,
    /// the same of the agent
    pub agent: Speaks,
    /// the media type of the answer
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<&'static str>,
    /// what the agent is asked, a step each
    pub agent_gets: Vec<Step>,
    /// what holds for the run, by key of the configuration
    pub settings: BTreeMap<&'static str, String>,
}

/// A dialect, and how it is known.
#[derive(Debug, Serialize)]
pub struct Speaks {
    /// as configured
    pub configured: &'static str,
    /// what it turned out to be
    #[serde(skip_serializing_if = "Option::is_none")]
    pub told: Option<&'static str>,
    /// by what
    #[serde(skip_serializing_if = "Option::is_none")]
    pub told_by: Option<&'static str>,
}

/// A request to the agent.
#[derive(Debug, Serialize)]
pub struct Step {
    /// its method
    pub method: String,
    /// where it may go: one of these
    pub urls: Vec<String>,
    /// its fields: name, value or mask, and where it is from
    pub fields: Vec<(String, String, &'static str)>,
    /// how long its body is, where there is one
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_bytes: Option<usize>,
}

impl Gateway {
    /// What would become of a request of this head and, where it is known, this body.
    #[must_use]
    pub fn explain(&self, mut head: Parts, body: Option<Bytes>) -> Explained {
        let (method, path) = (head.method.to_string(), head.uri.path().to_owned());
        let Some(found) = self.find(&path) else {
            return Explained { method, outcome: self.nowhere(&head), path, route: None };
        };
        head.extensions.insert(Arc::clone(found.matched()));
        head.extensions.insert(Who::default());
        let preflight = self.guard.preflighted(&mut head, found.matched());
        let gates = if preflight.is_some() { Vec::new() } else { self.gates(&head) };
        let (leaf, rehearsed) = match self.leaf(&found, &head, body) {
            Ok(rehearsed) => (None, rehearsed),
            Err(rejection) => (Some(Refusal::from(&rejection)), None),
        };
        let outcome = match (&preflight, refused(&gates).or(leaf.as_ref())) {
            (Some(_), _) => Outcome::Answered("a preflight of a page that may call"),
            (None, Some(refusal)) => Outcome::Refused(refusal.clone()),
            (None, None) => Outcome::Passes(open(&gates)),
        };
        let preflight = preflight.as_ref().map(shown);
        let route = Some(self.leads(&found, &head, gates, preflight, rehearsed));
        Explained { method, path, outcome, route }
    }

    /// What the gates say, in the order in which a request passes them.
    fn gates(&self, head: &Parts) -> Vec<Told> {
        let leaf = service_fn(async |_: Request<()>| Ok::<_, Rejection>(Response::new(())));
        let mut told = Vec::new();
        guard::gates(&self.guard, leaf).tell(head, &mut told);
        told
    }

    /// What stands behind the gates, up to where somebody would be asked.
    fn leaf(&self, found: &Found<'_>, head: &Parts, body: Option<Bytes>) -> Result<Option<Rehearsed>, Rejection> {
        match found {
            Found::Run(route) => self.rehearse(route, head.clone(), body).map(Some),
            Found::Events(route, _) if route.resumable.is_none() => {
                desk::reading(route, &head.method, &head.headers).map(|_| None)
            }
            Found::Events(route, _) | Found::Join(route, ..) => {
                rejoin::reading(route, &head.method, &head.headers).map(|_| None)
            }
            Found::Stop(..) => rejoin::stopping(&head.method).map(|()| None),
        }
    }

    /// Why no route has a path, and what was perhaps meant.
    fn nowhere(&self, head: &Parts) -> Outcome {
        let path = head.uri.path();
        if self.guard.auth().metadata(path).is_some() && matches!(head.method.as_str(), "GET" | "HEAD") {
            return Outcome::Answered("protected resource metadata (RFC 9728)");
        }
        let refusal = Refusal::from(&Rejection::from(Kind::RouteNotFound));
        let mut known = self.paths();
        known.sort_unstable();
        let shorter = path.trim_end_matches('/');
        let hint = if let Some(found) = self.find(shorter).filter(|_| shorter != path) {
            format!("without the slash at its end it leads to the route {}", found.matched().name)
        } else if let Some(other) = known.iter().find(|other| other.eq_ignore_ascii_case(path)) {
            format!("paths are compared with their case: `{other}`")
        } else if let Some(other) = known.iter().find(|other| below(path, other)) {
            format!("`{other}` leads to a route, and what is below it does not: each path is a route of its own")
        } else {
            known.truncate(KNOWN);
            did_you_mean(path, &known)
        };
        Outcome::NoRoute(refusal, hint)
    }

    fn leads(
        &self,
        found: &Found<'_>,
        head: &Parts,
        gates: Vec<Told>,
        preflight: Option<BTreeMap<String, String>>,
        rehearsed: Option<Rehearsed>,
    ) -> Leads {
        let (route, matched) = (found.route(), found.matched());
        let told = rehearsed.as_ref().and_then(|told| told.rewritten.as_ref());
        let speaks = |side: Side, told: Option<Side>, told_by| Speaks {
            configured: side.name(),
            told: told.filter(|_| side.auto).map(|told| told.dialect.name),
            told_by,
        };
        let by = rehearsed.as_ref().and_then(|told| told.told_by);
        Leads {
            name: route.name.to_string(),
            path: route.settings.path.clone(),
            errand: match found {
                Found::Run(_) if route.resumable.is_some() => "a run, or to come back to one",
                Found::Run(_) => "a run",
                Found::Events(..) => "the events of a run that was started",
                Found::Join(..) => "to come back to a run",
                Found::Stop(..) => "the end of a run",
            },
            preflight,
            gates,
            client: speaks(route.client, told.map(|(client, ..)| *client), by),
            agent: speaks(route.agent, None, None),
            answer: rehearsed.as_ref().map(|told| match route.desk {
                Some(_) => "application/json",
                None => told.framing.media_type(),
            }),
            agent_gets: match (found, &rehearsed) {
                (Found::Run(_), Some(rehearsed)) => self.steps(route, matched, head, rehearsed),
                _ => Vec::new(),
            },
            settings: self.settings(route),
        }
    }

    /// The requests that the agent would get.
    fn steps(&self, route: &Route, matched: &Matched, head: &Parts, rehearsed: &Rehearsed) -> Vec<Step> {
        let request = rehearsed.rewritten.as_ref().map(|(.., request)| request);
        let body = Bytes::from(request.map(|request| request.body.clone()).unwrap_or_default());
        let bytes = request.map(|_| body.len());
        let template = route.cluster.events();
        let first = if template.is_some() { Errand::Start(body) } else { Errand::Run(body) };
        let mut steps = vec![self.step(route, matched, head, first, bytes)];
        if let Some(template) = template {
            let ids = request.map(|request| (request.ids.thread_id.text(), request.ids.run_id.text()));
            let (thread_id, run_id) = ids.unwrap_or_default();
            let path = template.fill(&thread_id.unwrap_or("THREAD".into()), &run_id.unwrap_or("RUN".into()));
            let errand = Errand::Events { path: &path.unwrap_or_default(), behind: None };
            steps.push(self.step(route, matched, head, errand, None));
        }
        steps
    }

    fn step(&self, route: &Route, matched: &Matched, head: &Parts, errand: Errand<'_>, bytes: Option<usize>) -> Step {
        let fields = self.guard.fields(head, matched);
        let request_id =
            head.headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).unwrap_or("(made by the gateway)");
        let calls = stack::trace(&self.tracing, &head.method, &head.headers, &head.extensions).calls();
        let request = Outgoing { errand, request_id, calls: &calls, fields: &fields };
        let path = if let Errand::Events { path, .. } = &request.errand { Some(*path) } else { None };
        let mut shown = Vec::new();
        let mut method = String::new();
        if let Some(upstream) = route.cluster.upstreams().first()
            && let Ok(sent) = upstream::head(upstream, &request, &request.call(upstream, ""))
        {
            method = sent.method.to_string();
            let without = |name: &HeaderName| *name == header::CONTENT_LENGTH && bytes.is_none();
            let names = sent.headers.iter().filter(|(name, _)| !without(name));
            shown.extend(names.map(|(name, value)| self.field(matched, name, value.to_str().unwrap_or(MASK))));
        }
        if !matched.access.methods.is_empty() {
            let identity = [SUBJECT, TENANT, SCOPES, METHOD, TIER];
            shown.extend(identity.map(|name| (name.to_string(), MASK.to_owned(), "whoever calls, where it is known")));
        }
        shown.sort();
        shown.dedup();
        let urls = route.cluster.upstreams().iter().map(|upstream| url(upstream, path)).collect();
        Step { method, urls, fields: shown, body_bytes: bytes }
    }

    /// A field for the agent: its value where that is the gateway's own, and where it is from.
    fn field(&self, matched: &Matched, name: &HeaderName, value: &str) -> (String, String, &'static str) {
        let access = &matched.access;
        let (value, from) = if access.upstream_headers.iter().any(|own| own.name == *name) {
            (MASK, "the configuration")
        } else if access.forward_headers.contains(name) {
            (MASK, "the client")
        } else if access.forward_credentials && self.guard.carries_credentials(name, access) {
            (MASK, "the client's credential")
        } else if *name == TRACESTATE {
            (value, "the client")
        } else {
            // Every request has a trace of its own, unless it comes with one.
            (if *name == TRACEPARENT { "(a span of the request's trace)" } else { value }, "the gateway")
        };
        (name.to_string(), value.to_owned(), from)
    }

    fn settings(&self, route: &Route) -> BTreeMap<&'static str, String> {
        let config = &route.settings;
        let access: &Access = &config.access;
        let (timeouts, run) = (&config.timeouts, &access.run);
        let mut settings = BTreeMap::from([
            ("timeouts.connect", spelt(timeouts.connect)),
            ("timeouts.first_byte", spelt(timeouts.first_byte)),
            ("timeouts.idle", spelt(timeouts.idle)),
            ("keep_alive", spelt(self.keep_alive)),
            ("guard", words::of(words::GUARD, &config.guard).to_owned()),
            ("errors", words::of(words::ERRORS, &access.errors).to_owned()),
            ("threads", words::of(words::THREADS, &access.own_threads).to_owned()),
            (
                "on_disconnect",
                match config.on_disconnect {
                    OnDisconnect::Abort => "abort".to_owned(),
                    OnDisconnect::Continue(alone) => format!("continue for {}", spelt(alone)),
                },
            ),
            ("limits.request_body", format!("{} bytes", self.limits.request_body)),
        ]);
        let mut also = |key, value: Option<String>| {
            if let Some(value) = value {
                settings.insert(key, value);
            }
        };
        also("timeouts.first_event", timeouts.first_event.map(spelt));
        also("timeouts.reader", route.desk.as_ref().map(|_| spelt(timeouts.reader)));
        let forwarded: Vec<&str> = access.forward_headers.iter().map(HeaderName::as_str).collect();
        also("forward_headers", (!forwarded.is_empty()).then(|| format!("[{}]", forwarded.join(", "))));
        also("forward_credentials", access.forward_credentials.then(|| "true".to_owned()));
        also("tools", access.tools.as_ref().map(|tools| format!("[{}]", tools.join(", "))));
        also("run_limits.events", run.events.map(|most| most.to_string()));
        also("run_limits.bytes", run.bytes.map(|most| format!("{most} bytes")));
        also("run_limits.duration", run.duration.map(spelt));
        let ends = Some(access.on_token_expiry).filter(|what| *what != OnExpiry::Finish);
        also("on_token_expiry", ends.map(|what| words::of(words::ON_TOKEN_EXPIRY, &what).to_owned()));
        settings
    }
}

fn refused(gates: &[Told]) -> Option<&Refusal> {
    gates.iter().find_map(|gate| if let Verdict::Refuses(refusal) = &gate.verdict { Some(refusal) } else { None })
}

/// What the gates leave open, each once.
fn open(gates: &[Told]) -> Vec<&'static str> {
    let mut open = Vec::new();
    for gate in gates {
        if let Verdict::Depends(on) = gate.verdict
            && !open.contains(&on)
        {
            open.push(on);
        }
    }
    open
}

/// Whether a path is one of the segments below another.
fn below(path: &str, other: &str) -> bool {
    other.len() > 1 && path.strip_prefix(other).is_some_and(|rest| rest.starts_with('/'))
}

/// Where a request goes: the upstream's own URL, or another path at the same place; a query may hold a secret.
fn url(upstream: &Upstream, path: Option<&str>) -> String {
    let (path, query) = match path.unwrap_or(&upstream.path_and_query).split_once('?') {
        Some((path, _)) => (path, "?***"),
        None => (path.unwrap_or(&upstream.path_and_query), ""),
    };
    let socket = if upstream.label().starts_with("unix:") { ":" } else { "" };
    format!("{}{socket}{path}{query}", upstream.label())
}

fn shown(headers: &HeaderMap) -> BTreeMap<String, String> {
    let text = |value: &http::HeaderValue| value.to_str().unwrap_or(MASK).to_owned();
    headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}
