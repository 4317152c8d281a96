//! From a request that has passed the gates to a run of its own, and the head of its answer.
//!
//! ```text
//!   admit ─▶ read ─▶ translate ─▶ thread ─▶ seat ─▶ spawn ─▶ heard ─▶ the stream, or where it will be
//!                                         (two steps)
//! ```
//! Every step may refuse. What is held for the run so far is let go with the refusal.

use super::accept;
use super::desk::Held;
use super::gateway::{Body, Gateway, Route};
use super::lifecycle::{Permit, Phase};
use super::pipe::{Reader, pipe};
use super::plan::Plan;
use super::request_body;
use super::respond;
use super::run::{Head, Run};
use crate::codec::Framing;
use crate::codec::sse::Limits as FrameLimits;
use crate::config::field::{REQUEST_ID, TRACEPARENT};
use crate::dialect::{AG_UI, Side};
use crate::error::{Kind, Rejection};
use crate::guard::upstream::is_nominated;
use crate::guard::{Permits, Who};
use crate::telemetry::label::{AuthMethod, AuthReason};
use crate::telemetry::occurrence;
use crate::translate::request::{self, Refused, Translated};
use crate::translate::{Ids, Stream, detect};
use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use uuid::Uuid;

/// How long a client of two steps is held for the agent's refusal before it is told that its run has begun. Most
/// refusals come at once, and are of more use here than as RUN_ERROR in a stream that has to be asked for.
const START_GRACE: Duration = Duration::from_secs(1);

/// A request that may start a run, as far as its head says.
struct Admitted {
    head: Parts,
    /// how the client is told events
    framing: Framing,
    who: Who,
    began: Instant,
    /// held, with the next, for as long as the client takes part, which may be longer than this request
    permit: Permit,
    permits: Permits,
}

/// Its body for the agent, and who speaks what.
struct Rewritten {
    client: Side,
    agent: Side,
    request: Translated,
}

/// A run, and the ends that it is read and answered from.
struct Started {
    run: JoinHandle<()>,
    reader: Reader<Held>,
    answered: oneshot::Receiver<Head>,
}

impl Gateway {
    /// Starts a run and waits for the head of its answer, as long as a client can be left without a byte.
    ///
    /// # Errors
    /// Why there is no run, or why the agent did not take it.
    pub(super) async fn start(&self, route: &Route, request: Request<Incoming>) -> Result<Response<Body>, Rejection> {
        let (asked, body) = self.admit(route, request)?;
        let body = request_body::read(&self.limits, &asked.head.headers, body).await?;
        let rewritten = asked.rewritten(route, body)?;
        let ids = &rewritten.request.ids;
        // A run that comes to nothing from here on leaves the thread with its caller: what the agent got to see of it is not
        // known, and who comes back is the caller, or another one who has no business here.
        self.guard.threads.claim(&route.starting, asked.who.known(), &ids.thread_id).await?;
        route.metrics.downgraded(rewritten.request.downgraded);
        let Some(desk) = &route.desk else {
            let (framing, version) = (asked.framing, asked.head.version);
            let started = self.spawn(route, asked, rewritten);
            // An agent that takes its time must not cost the client its connection: after one keep-alive interval the
            // stream begins, and a refusal that comes later is a RUN_ERROR.
            self.heard(route, started.answered, self.keep_alive).await?;
            started.reader.attach(version);
            return Ok(respond::stream(started.reader.boxed_unsync(), framing));
        };
        let seated = desk.seat(ids)?;
        let (accepted, request_id) = (seated.accepted(ids), asked.request_id().to_owned());
        let started = self.spawn(route, asked, rewritten);
        self.heard(route, started.answered, START_GRACE.min(self.keep_alive)).await?;
        seated.offer(started.reader, started.run, self.lifecycle.watch(), Arc::clone(&route.name), request_id);
        Ok(accepted)
    }

    /// Looks at what can be said about a request before its body is read, and gives the body back.
    fn admit(&self, route: &Route, request: Request<Incoming>) -> Result<(Admitted, Incoming), Rejection> {
        let began = Instant::now();
        if *request.method() != Method::POST {
            return Err(Kind::MethodNotAllowed.into());
        }
        request_body::check(request.headers())?;
        let framing = match route.desk {
            Some(_) => accept::start(request.headers(), route.client)?,
            None => accept::framing(request.headers(), route.client)?,
        };
        // First counted, then asked: a request whose body is still on its way is not forgotten by a drain that begins.
        let permit = self.lifecycle.enter();
        if self.lifecycle.phase() >= Phase::Draining {
            return Err(Kind::Draining.into());
        }
        let (mut head, body) = request.into_parts();
        let permits = head.extensions.remove::<Permits>().unwrap_or_default();
        let who = head.extensions.get::<Who>().cloned().unwrap_or_default();
        Ok((Admitted { head, framing, who, began, permit, permits }, body))
    }

    /// Starts the task of the run.
    fn spawn(&self, route: &Route, asked: Admitted, rewritten: Rewritten) -> Started {
        let Rewritten { client, agent, request } = rewritten;
        let access = &route.starting.access;
        let limits = FrameLimits { line: self.limits.frame, frame: self.limits.frame };
        let (events, bytes) = (access.run.events.map(NonZero::get), access.run.bytes.map(NonZero::get));
        let stream = Stream::new(agent, client, Some(request.ids.clone()), limits);
        let stream = stream.guarded(route.guard).knowing(request.known);
        let mut stream = stream.allowing(route.tools.clone()).within(events, bytes);
        stream.write_as(asked.framing);
        let head = &asked.head;
        let plan = Plan {
            route: Arc::clone(&route.name),
            cluster: Arc::clone(&route.cluster),
            connector: Arc::clone(&self.connector),
            metrics: Arc::clone(&route.metrics),
            lifecycle: self.lifecycle.watch(),
            keep_alive: self.keep_alive,
            request_id: asked.request_id().to_owned(),
            traceparent: head.headers.get(TRACEPARENT).filter(|_| !is_nominated(&head.headers, &TRACEPARENT)).cloned(),
            fields: Arc::new(self.guard.fields(head, &route.starting)),
            framing: asked.framing,
            agent_framings: accept::framings(route.agent),
            learned: Arc::clone(&route.learned),
            ids: request.ids,
            body: request.body.into(),
            began: asked.began,
            access: Arc::clone(access),
            who: asked.who,
        };
        let (writer, reader) = pipe(self.limits.client_buffer, (asked.permit, route.metrics.open(), asked.permits));
        let (answer, answered) = oneshot::channel();
        let run = tokio::spawn(Box::new(Run::new(plan, stream, writer, answer)).go());
        Started { run, reader, answered }
    }

    /// Waits for what the agent answers, but no longer than `patience`.
    async fn heard(
        &self,
        route: &Route,
        mut answered: oneshot::Receiver<Head>,
        patience: Duration,
    ) -> Result<(), Rejection> {
        let head = match tokio::time::timeout(patience, &mut answered).await {
            Ok(Ok(head)) => head,
            Ok(Err(_)) => Err(Rejection::from(Kind::Internal).cause("the run ended without an answer")),
            Err(_) => {
                // An answer that came between the time-out and this line was given, so it has to be heard.
                answered.close();
                answered.try_recv().unwrap_or(Ok(()))
            }
        };
        head.map_err(|rejection| match rejection.kind {
            // A caller whose credential expired before its stream began is told how to come with a new one.
            Kind::TokenExpired => self.guard.auth().refusal(&route.starting, AuthMethod::Jwt, AuthReason::Expired),
            _ => rejection,
        })
    }
}

impl Admitted {
    fn request_id(&self) -> &str {
        self.head.headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).unwrap_or_default()
    }

    /// The body in the agent's words.
    fn rewritten(&self, route: &Route, body: Bytes) -> Result<Rewritten, Rejection> {
        let fresh = Ids::new(&Uuid::now_v7().to_string(), &Uuid::now_v7().to_string());
        let (client, because) = client_of(route, self.framing, &body);
        let agent = route.agent();
        let request = request::translate_allowing(&body, client, agent, &fresh, route.tools.as_deref())
            .map_err(|refused| self.unfit(route, &refused))?;
        if let Some(because) = because {
            let (request_id, dialect) = (self.request_id(), client.dialect.name);
            occurrence::Detected { route: &route.name, request_id, side: "client", dialect, because }.emit();
        }
        Ok(Rewritten { client, agent, request })
    }

    /// The refusal of a body that cannot be taken as it is; one that offers what is not allowed is counted.
    fn unfit(&self, route: &Route, refused: &Refused) -> Rejection {
        if !refused.tool {
            return Rejection::from(Kind::InvalidRequest).detail(refused.to_string());
        }
        let method = self.who.known().map_or(AuthMethod::None, |identity| identity.method);
        route.metrics.authenticated(method, AuthReason::Tool);
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
