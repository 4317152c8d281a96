//! The policy in front of a run, and the leaf that starts one.
//!
//! A client of two steps gets its run from the leaf as well, and the events by another path; see [`super::waiting`].

use super::accept;
use super::lifecycle::{Lifecycle, Permit, Phase};
use super::pipe::{CutOff, Reader, pipe};
use super::refusal::Answer;
use super::respond::{self, REQUEST_ID};
use super::run::{Head, Plan, Run};
use super::upstream::{Cluster, Connector, LAST_EVENT_ID};
use super::waiting::{Seat, Waiting};
use crate::codec::Framing;
use crate::codec::sse::Limits as FrameLimits;
use crate::config::{Config, Limits, Template};
use crate::dialect::{AG_UI, Dialect, Side};
use crate::error::{Kind, Rejection};
use crate::guard::cors::Pages;
use crate::guard::upstream::is_nominated;
use crate::guard::{self, Guard, Matched, Permits, Standings, Who};
use crate::telemetry::label::{AuthMethod, AuthReason};
use crate::telemetry::metric::Active;
use crate::telemetry::{Metrics, RouteMetrics, occurrence};
use crate::translate::{Ids, Mode, Stream, Tools, detect, request};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::num::NonZero;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tower::{Service, ServiceBuilder, service_fn};
use uuid::Uuid;

/// Most room that is made for a body before any of it has come.
const FIRST_PIECE: usize = 64 << 10;

/// How much of a refused body is still read, and for how long.
const DISCARD_LIMIT: usize = 64 << 20;
const DISCARD_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a client of two steps is held for the agent's refusal before it is told that its run has begun. Most
/// refusals come at once, and are of more use here than as RUN_ERROR in a stream that has to be asked for.
const START_GRACE: Duration = Duration::from_secs(1);

/// Longest request id that is taken over from a client.
const REQUEST_ID_LIMIT: usize = 128;

/// W3C trace context of a request, on both sides.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The body of every answer.
pub type Body = UnsyncBoxBody<Bytes, CutOff>;

/// What is held while a client takes part in a run.
type Held = (Permit, Active, Permits);

/// Everything that requests are answered with.
#[derive(Debug)]
pub struct Gateway {
    routes: HashMap<String, Route>,
    limits: Limits,
    keep_alive: Duration,
    connector: Arc<Connector>,
    pub(super) metrics: Arc<Metrics>,
    lifecycle: Lifecycle,
    guard: Arc<Guard>,
}

/// What a path leads to.
pub(super) enum Found<'g> {
    /// a POST starts a run
    Run(&'g Route),
    /// a GET reads the run of this thread; none where the segment is no id
    Events(&'g Route, Option<String>),
}

/// Where a route's clients of two steps find their events, and the runs that wait for them there.
#[derive(Debug)]
pub(super) struct Desk {
    path: Template,
    waiting: Waiting<Reader<Held>>,
    patience: Duration,
}

#[derive(Debug)]
pub(super) struct Route {
    name: Arc<str>,
    /// what the guard knows of it, for a run and for its events
    pub(super) matched: [Arc<Matched>; 2],
    pub(super) desk: Option<Desk>,
    pub(super) client: Side,
    agent: Side,
    /// what the agent turned out to speak, where the route leaves it open: later requests are written in that
    learned: Arc<OnceLock<&'static Dialect>>,
    guard: Mode,
    /// the only tools that may be used
    tools: Option<Arc<Tools>>,
    cluster: Arc<Cluster>,
    metrics: Arc<RouteMetrics>,
}

impl Route {
    /// What the agent speaks, as far as that is known.
    fn agent(&self) -> Side {
        match self.learned.get() {
            Some(dialect) => Side { auto: true, ..Side::new(dialect) },
            None => self.agent,
        }
    }

    /// The refusal of a request that cannot be taken as it is; one that offers what is not allowed is counted.
    fn unfit(&self, refused: &request::Refused, who: &Who) -> Rejection {
        if !refused.tool {
            return Rejection::from(Kind::InvalidRequest).detail(refused.to_string());
        }
        let method = who.known().map_or(AuthMethod::None, |identity| identity.method);
        self.metrics.authenticated(method, AuthReason::Tool);
        Rejection::from(Kind::ToolNotAllowed).detail(refused.to_string())
    }
}

/// What the client of a request speaks, and what it was told by where the route leaves it open.
fn client_of(route: &Route, framing: Framing, body: &[u8]) -> (Side, Option<&'static str>) {
    if !route.client.auto {
        return (route.client, None);
    }
    let found = match framing {
        Framing::Proto => detect::Found { side: Side::new(&AG_UI), because: "it accepts protobuf (AG-UI 1.0)" },
        // What is no UTF-8 is refused in a moment.
        Framing::Sse => detect::request(std::str::from_utf8(body).unwrap_or_default()),
    };
    (found.side, Some(found.because))
}

/// A body that is known whole.
pub(super) fn whole(body: Full<Bytes>) -> Body {
    body.map_err(|never| match never {}).boxed_unsync()
}

impl Gateway {
    /// A gateway for the routes of `config`. Their hosts are not resolved yet; see [`Gateway::clusters`].
    #[must_use]
    pub fn new(config: &Config, metrics: Arc<Metrics>, lifecycle: Lifecycle, guard: Arc<Guard>) -> Self {
        let route = |route: &crate::config::Route, name: Arc<str>, metrics: Arc<RouteMetrics>| Route {
            matched: [false, true].map(|reads| {
                Arc::new(Matched {
                    name: Arc::clone(&name),
                    path: route.path.clone(),
                    access: Arc::clone(&route.access),
                    metrics: Arc::clone(&metrics),
                    reads,
                })
            }),
            name,
            desk: route.events_path.clone().map(|path| Desk {
                path,
                waiting: Waiting::default(),
                patience: route.timeouts.reader,
            }),
            client: route.client,
            agent: route.agent,
            learned: Arc::default(),
            guard: route.guard,
            tools: route.access.tools.as_ref().map(|names| Arc::new(Tools::new(names.iter().map(String::as_str)))),
            cluster: Arc::new(Cluster::new(route)),
            metrics,
        };
        let routes = config.routes.iter().map(|one| {
            let handles = metrics.route(&one.name, one.client, one.agent);
            (one.path.clone(), route(one, one.name.as_str().into(), handles))
        });
        Gateway {
            routes: routes.collect(),
            limits: config.limits,
            keep_alive: config.keep_alive,
            connector: Arc::new(Connector::default()),
            metrics,
            lifecycle,
            guard,
        }
    }

    /// The agents of every route.
    #[must_use]
    pub fn clusters(&self) -> Vec<Arc<Cluster>> {
        self.routes.values().map(|route| Arc::clone(&route.cluster)).collect()
    }

    /// What a path leads to. Exact paths come first; no template reads one of them.
    pub(super) fn find(&self, path: &str) -> Option<Found<'_>> {
        if let Some(route) = self.routes.get(path) {
            return Some(Found::Run(route));
        }
        self.routes.values().find_map(|route| {
            let thread_id = route.desk.as_ref()?.path.thread_id(path)?;
            Some(Found::Events(route, thread_id))
        })
    }
}

impl Found<'_> {
    fn matched(&self) -> Arc<Matched> {
        match self {
            Found::Run(route) => Arc::clone(&route.matched[0]),
            Found::Events(route, _) => Arc::clone(&route.matched[1]),
        }
    }
}

/// The stack in front of the gateway, outermost first.
pub fn stack(
    gateway: Arc<Gateway>,
) -> impl Service<
    Request<Incoming>,
    Response = Response<Body>,
    Error = Infallible,
    Future = impl Future<Output = Result<Response<Body>, Infallible>> + Send,
> + Clone
+ Send
+ Sync
+ 'static {
    let (matching, answering) = (Arc::clone(&gateway), Arc::clone(&gateway));
    let (guard, metrics) = (Arc::clone(&gateway.guard), Arc::clone(&gateway.metrics));
    let asked = Arc::clone(&guard);
    // The leaf: body, translation, run.
    let leaf = service_fn(move |request| {
        let gateway = Arc::clone(&gateway);
        async move { gateway.answer(request).await }
    });
    ServiceBuilder::new()
        // An id first, so that everything below, refusals too, is answered and logged with one.
        .map_request(with_request_id)
        // Then the route: everything below asks what it wants.
        .map_request(move |request| matching.with_route(request))
        // Pages: outside of the next, so that they can read refusals as well.
        .layer_fn(move |inner| Pages { guard: Arc::clone(&asked), metrics: Arc::clone(&metrics), inner })
        // The one place where a refusal becomes an answer, is logged and counted.
        .layer_fn(move |inner| Answer { inner, gateway: Arc::clone(&answering) })
        // Policy, gate by gate.
        .service(guard::gates(&guard, leaf))
}

fn with_request_id(mut request: Request<Incoming>) -> Request<Incoming> {
    let usable = |id: &HeaderValue| {
        id.len() <= REQUEST_ID_LIMIT && !id.is_empty() && id.as_bytes().iter().all(u8::is_ascii_graphic)
    };
    if !request.headers().get(REQUEST_ID).is_some_and(usable) {
        let id = Uuid::now_v7().to_string();
        // A UUID is always a header value.
        if let Ok(id) = HeaderValue::from_str(&id) {
            request.headers_mut().insert(REQUEST_ID, id);
        }
    }
    request
}

impl Gateway {
    /// The request, with what it leads to and a place for who calls among its extensions.
    fn with_route(&self, mut request: Request<Incoming>) -> Request<Incoming> {
        if let Some(matched) = self.find(request.uri().path()).map(|found| found.matched()) {
            request.extensions_mut().insert(matched);
        }
        request.extensions_mut().insert(Who::default());
        request
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Body>, Rejection> {
        let path = request.uri().path();
        let Some(found) = self.find(path) else {
            // Whoever is to learn how to show who it is cannot show it yet.
            let reads = matches!(*request.method(), Method::GET | Method::HEAD);
            let document = self.guard.auth().metadata(path).filter(|_| reads);
            return Ok(respond::metadata(document.ok_or(Kind::RouteNotFound)?).map(whole));
        };
        match found {
            Found::Run(route) => {
                let standings = Standings::fields(request.extensions());
                announced(self.start(route, request).await, standings)
            }
            Found::Events(route, thread_id) => {
                let who = request.extensions().get::<Who>().and_then(Who::known);
                self.guard.threads.read(&route.matched[1], who, thread_id.as_deref())?;
                events(route, thread_id.as_deref(), request.method(), request.headers())
            }
        }
    }

    /// Starts a run and waits for the head of its answer, as long as a client can be left without a byte.
    async fn start(&self, route: &Route, request: Request<Incoming>) -> Result<Response<Body>, Rejection> {
        let began = Instant::now();
        check(request.method(), request.headers())?;
        let framing = match route.desk {
            Some(_) => accept::start(request.headers(), route.client)?,
            None => accept::framing(request.headers(), route.client)?,
        };
        // First counted, then asked: a request whose body is still on its way is not forgotten by a drain that begins.
        let permit = self.lifecycle.enter();
        if self.lifecycle.phase() != Phase::Serving {
            return Err(Kind::Draining.into());
        }
        let (mut head, body) = request.into_parts();
        // Held for as long as the client takes part, which may be longer than this request.
        let permits = head.extensions.remove::<Permits>().unwrap_or_default();
        let who = head.extensions.get::<Who>().cloned().unwrap_or_default();
        let body = self.read(&head.headers, body).await?;
        let fresh = Ids::new(&Uuid::now_v7().to_string(), &Uuid::now_v7().to_string());
        let (client, because) = client_of(route, framing, &body);
        let agent = route.agent();
        let translated = request::translate_allowing(&body, client, agent, &fresh, route.tools.as_deref())
            .map_err(|refused| route.unfit(&refused, &who))?;
        if let Some(because) = because {
            let request_id = head.headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).unwrap_or_default();
            let dialect = client.dialect.name;
            occurrence::Detected { route: &route.name, request_id, side: "client", dialect, because }.emit();
        }
        drop(body);
        // A run that comes to nothing from here on leaves the thread with its caller: what the agent got to see of it is not
        // known, and who comes back is the caller, or another one who has no business here.
        self.guard.threads.claim(&route.matched[0], who.known(), &translated.ids.thread_id).await?;
        route.metrics.downgraded(translated.downgraded);
        let desk = route.desk.as_ref().map(|desk| desk.seat(&translated.ids)).transpose()?;

        let limits = FrameLimits { line: self.limits.frame, frame: self.limits.frame };
        let stream = Stream::new(agent, client, Some(translated.ids.clone()), limits);
        let access = &route.matched[0].access;
        let (events, bytes) = (access.run.events.map(NonZero::get), access.run.bytes.map(NonZero::get));
        let stream = stream.guarded(route.guard).knowing(translated.known);
        let mut stream = stream.allowing(route.tools.clone()).within(events, bytes);
        stream.write_as(framing);
        let held = (permit, route.metrics.open(), permits);
        let (writer, reader) = pipe(self.limits.client_buffer, held);
        let (answer, answered) = oneshot::channel();
        let plan = Plan {
            route: Arc::clone(&route.name),
            cluster: Arc::clone(&route.cluster),
            connector: Arc::clone(&self.connector),
            metrics: Arc::clone(&route.metrics),
            lifecycle: self.lifecycle.watch(),
            keep_alive: self.keep_alive,
            request_id: head.headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).unwrap_or_default().to_owned(),
            traceparent: head.headers.get(&TRACEPARENT).filter(|_| !is_nominated(&head.headers, &TRACEPARENT)).cloned(),
            fields: Arc::new(self.guard.fields(&head, &route.matched[0])),
            framing,
            agent_framings: accept::framings(route.agent),
            learned: Arc::clone(&route.learned),
            ids: translated.ids,
            body: translated.body.into(),
            began,
            access: Arc::clone(access),
            who,
        };
        let Some(seated) = desk else {
            tokio::spawn(Box::new(Run::new(plan, stream, writer, answer)).go());
            // An agent that takes its time must not cost the client its connection: after one keep-alive interval the
            // stream begins, and a refusal that comes later is a RUN_ERROR.
            heard(answered, self.keep_alive).await.map_err(|rejection| self.challenged(route, rejection))?;
            return Ok(respond::stream(reader.boxed_unsync(), framing));
        };
        let (ids, request_id) = (plan.ids.clone(), plan.request_id.clone());
        let run = tokio::spawn(Box::new(Run::new(plan, stream, writer, answer)).go());
        let head = heard(answered, START_GRACE.min(self.keep_alive)).await;
        head.map_err(|rejection| self.challenged(route, rejection))?;
        let (name, thread_id) = (Arc::clone(&route.name), seated.thread_id);
        seated.seat.offer(reader, run, seated.patience, self.lifecycle.watch(), move || {
            occurrence::Unread { route: &name, request_id: &request_id, thread_id: &thread_id }.emit();
        });
        Ok(respond::accepted(&ids, &seated.events).map(whole))
    }

    /// A refusal by a run whose caller's credential expired before its stream began says how to come with a new one.
    fn challenged(&self, route: &Route, rejection: Rejection) -> Rejection {
        match rejection.kind {
            Kind::TokenExpired => self.guard.auth().refusal(&route.matched[0], AuthMethod::Jwt, AuthReason::Expired),
            _ => rejection,
        }
    }

    async fn read(&self, headers: &HeaderMap, mut body: Incoming) -> Result<Bytes, Rejection> {
        let limit = self.limits.request_body;
        let too_large =
            || Rejection::from(Kind::BodyTooLarge).detail(format!("The request body is larger than {limit} bytes."));
        let announced =
            headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
        if announced.is_some_and(|length| length > limit) {
            // A client that waits to be asked for the body is not asked.
            if !headers.contains_key(header::EXPECT) {
                tokio::spawn(discard(body));
            }
            return Err(too_large());
        }
        let mut whole = Vec::with_capacity(announced.unwrap_or_default().min(FIRST_PIECE));
        let reading = async {
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| {
                    Rejection::from(Kind::InvalidRequest).detail("The request body broke off.").cause(error)
                })?;
                let Ok(data) = frame.into_data() else { continue };
                if whole.len() + data.len() > limit {
                    return Err(too_large());
                }
                whole.extend_from_slice(&data);
            }
            Ok(())
        };
        match tokio::time::timeout(self.limits.body_timeout, reading).await {
            Err(_) => Err(Kind::RequestTimeout.into()),
            Ok(Ok(())) => Ok(whole.into()),
            Ok(Err(rejection)) => {
                tokio::spawn(discard(body));
                Err(rejection)
            }
        }
    }
}

/// An answer or a refusal, with fields that the gates have to say in both.
fn announced<B>(
    answer: Result<Response<B>, Rejection>,
    fields: Vec<(HeaderName, HeaderValue)>,
) -> Result<Response<B>, Rejection> {
    match answer {
        Ok(mut response) => {
            response.headers_mut().extend(fields);
            Ok(response)
        }
        Err(mut rejection) => {
            rejection.headers.extend(fields);
            Err(rejection)
        }
    }
}

/// A run's place among those that wait, and where its client finds it.
struct Seated {
    seat: Seat<Reader<Held>>,
    thread_id: String,
    events: String,
    patience: Duration,
}

impl Desk {
    fn seat(&self, ids: &Ids) -> Result<Seated, Rejection> {
        let thread_id = ids.thread_id.text().unwrap_or_default().into_owned();
        // What cannot be asked for again is not begun.
        let events =
            self.path.fill(&thread_id, "").filter(|path| self.path.thread_id(path) == Some(Some(thread_id.clone())));
        let unfit =
            || Rejection::from(Kind::InvalidRequest).detail("/threadId: cannot stand in the path of the run's events");
        let events = events.ok_or_else(unfit)?;
        let seat = self.waiting.reserve(thread_id.clone())?;
        Ok(Seated { seat, thread_id, events, patience: self.patience })
    }
}

/// The second step of a client of two steps: the stream of a run that waits for it.
fn events(
    route: &Route,
    thread_id: Option<&str>,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Response<Body>, Rejection> {
    if *method != Method::GET {
        return Err(Kind::EventsMethod.into());
    }
    let framing = accept::framing(headers, route.client)?;
    // Silently beginning in the middle would lose what the client has not read.
    if headers.get(LAST_EVENT_ID).is_some_and(|id| !id.is_empty()) {
        return Err(Kind::ResumptionUnsupported.into());
    }
    // A run that waits is open: it may be read while the gateway drains.
    let waiting = route.desk.as_ref().map(|desk| &desk.waiting);
    let reader = waiting.zip(thread_id).and_then(|(waiting, thread_id)| waiting.take(thread_id));
    Ok(respond::stream(reader.ok_or(Kind::NothingToRead)?.boxed_unsync(), framing))
}

/// Waits for what the agent answers, but no longer than `patience`.
async fn heard(mut answered: oneshot::Receiver<Head>, patience: Duration) -> Result<(), Rejection> {
    match tokio::time::timeout(patience, &mut answered).await {
        Ok(Ok(head)) => head,
        Ok(Err(_)) => Err(Rejection::from(Kind::Internal).cause("the run ended without an answer")),
        Err(_) => {
            // An answer that came between the time-out and this line was given, so it has to be heard.
            answered.close();
            answered.try_recv().unwrap_or(Ok(()))
        }
    }
}

/// Reads on for a while after a refusal: a client that still sends would otherwise find the connection broken before it
/// has read why.
async fn discard(mut body: Incoming) {
    let rest = async {
        let mut left = DISCARD_LIMIT;
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                return;
            }
        }
    };
    // Whatever is left after that is not waited for.
    let _ = tokio::time::timeout(DISCARD_TIMEOUT, rest).await;
}

/// What can be said about a request before its body is read.
fn check(method: &Method, headers: &HeaderMap) -> Result<(), Rejection> {
    if *method != Method::POST {
        return Err(Kind::MethodNotAllowed.into());
    }
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default().to_ascii_lowercase());
    // The AG-UI client merges a type that the application set with its own into one list.
    let json = |kind: &String| kind.contains("application/json") || kind.contains("+json");
    if !text(header::CONTENT_TYPE).as_ref().is_none_or(json) {
        return Err(Kind::UnsupportedMediaType.into());
    }
    if text(header::CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
        return Err(Kind::UnsupportedMediaType.into());
    }
    Ok(())
}
