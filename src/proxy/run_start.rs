//! From a request that has passed the gates to a run of its own, and the head of its answer.
//!
//! ```text
//!   admit ─▶ read ─▶ translate ─▶ thread ─▶ seat ─▶ spawn ─▶ heard ─▶ the stream, or where it will be
//!                        │                (two steps)
//!                        ╰─▶ a run that goes on without its client, or is kept: it is joined
//! ```
//! Every step may refuse. What is held for the run so far is let go with the refusal.

use super::accept;
use super::account::{Account, Line};
use super::audience::{Any, Audience};
use super::clock::now;
use super::desk::Held;
use super::gateway::{Body, Gateway, Route, whole};
use super::lifecycle::{Permit, Phase};
use super::pipe::pipe;
use super::plan::{Plan, Question};
use super::rejoin::{self, Keys, Resumable};
use super::request_body;
use super::respond;
use super::run::{Head, Run};
use super::tail::Tail;
use crate::codec::Framing;
use crate::codec::sse::Limits as FrameLimits;
use crate::config::field::REQUEST_ID;
use crate::dialect::{AG_UI, Side};
use crate::error::{Kind, Rejection};
use crate::guard::{Permits, Who, digest};
use crate::replay::{About, Away, Claimed, Entered, Fresh, From, Kept, Shared, Token};
use crate::telemetry::label::{AuthMethod, AuthReason, Method as Asking};
use crate::telemetry::metric::Totals;
use crate::telemetry::occurrence::{self, Which};
use crate::telemetry::trace::{Arrival, Trace, Traced};
use crate::translate::recap::Recap;
use crate::translate::request::{self, Refused, Translated};
use crate::translate::{Ids, Stream, detect};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, Version};
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
    asker: Asker,
    /// held, with the next, for as long as the client takes part, which may be longer than this request
    permit: Permit,
    permits: Permits,
}

/// Who sent it, and what its head says.
struct Asker {
    head: Parts,
    /// how the client is told events
    framing: Framing,
    who: Who,
    began: Instant,
}

/// Its body for the agent, and who speaks what.
struct Rewritten {
    client: Side,
    agent: Side,
    request: Translated,
}

/// What a request would become.
pub(super) struct Rehearsed {
    pub framing: Framing,
    /// by which sign the client's dialect was told, where the route leaves it open
    pub told_by: Option<&'static str>,
    /// who speaks what, and the body for the agent, where there was one
    pub rewritten: Option<(Side, Side, Translated)>,
}

/// A run, and what it is answered from.
struct Started {
    run: JoinHandle<()>,
    answered: oneshot::Receiver<Head>,
}

impl Gateway {
    /// Starts a run and waits for the head of its answer, as long as a client can be left without a byte.
    ///
    /// # Errors
    /// Why there is no run, or why the agent did not take it.
    pub(super) async fn start(&self, route: &Route, request: Request<Incoming>) -> Result<Response<Body>, Rejection> {
        let (admitted, body) = self.admit(route, request)?;
        let Admitted { asker, permit, mut permits } = admitted;
        let body = request_body::read(&self.limits, &asker.head.headers, body).await?;
        // What has no ids cannot be come back to.
        let resumable = route.resumable.as_ref().filter(|_| asker.framing == Framing::Sse);
        let body_key = resumable.map(|_| digest::of(&body));
        let rewritten = asker.rewritten(route, body, resumable.is_some())?;
        let ids = &rewritten.request.ids;
        let keys = body_key.map(|body| Keys::new(route, &asker.who, ids, body));
        if let Some(keys) = &keys {
            let cursor = rejoin::cursor(&asker.head.headers)?;
            if let Some(kept) = self.known(route, rewritten.client, keys, cursor).await? {
                return self.joined(route, &asker, ids, &kept, rejoin::from(cursor));
            }
        }
        // A run that comes to nothing from here on leaves the thread with its caller: what the agent got to see of it is not
        // known, and who comes back is the caller, or another one who has no business here.
        self.guard.threads.claim(&route.starting, asker.who.known(), &ids.thread_id).await?;
        if route.resumable.is_some() {
            permits = self.guard.seat(&asker.head, &route.starting)?;
        }
        route.metrics.downgraded(rewritten.request.downgraded);
        let held = (permit, route.metrics.open(), permits);
        match resumable.zip(keys) {
            Some((resumable, keys)) => self.start_kept(route, (resumable, keys), asker, rewritten, held).await,
            None => self.start_alone(route, asker, rewritten, held).await,
        }
    }

    /// Starts a run that is its client's alone.
    async fn start_alone(
        &self,
        route: &Route,
        asker: Asker,
        rewritten: Rewritten,
        held: Held,
    ) -> Result<Response<Body>, Rejection> {
        let (framing, version, ids) = (asker.framing, asker.head.version, rewritten.request.ids.clone());
        let seated = route.desk.as_ref().map(|desk| desk.seat(&ids)).transpose()?;
        let request_id = asker.request_id().to_owned();
        let (writer, reader) = pipe(self.limits.client_buffer, held);
        let Started { run, answered } = self.spawn(route, asker, rewritten, None, Audience::One(writer, framing));
        let Some(seated) = seated else {
            // An agent that takes its time must not cost the client its connection: after one keep-alive interval the
            // stream begins, and a refusal that comes later is a RUN_ERROR.
            self.heard(route, answered, self.keep_alive).await?;
            reader.attach(version);
            return Ok(respond::stream(reader.boxed_unsync(), framing));
        };
        let accepted = seated.accepted(&ids);
        self.heard(route, answered, START_GRACE.min(self.keep_alive)).await?;
        seated.offer(reader, run, self.lifecycle.watch(), (Arc::clone(&route.name), request_id, ids));
        Ok(accepted)
    }

    /// Starts a run that outlives its client.
    async fn start_kept(
        &self,
        route: &Route,
        (resumable, keys): (&Resumable, Keys),
        asker: Asker,
        mut rewritten: Rewritten,
        held: Held,
    ) -> Result<Response<Body>, Rejection> {
        let ids = rewritten.request.ids.clone();
        let events = route.desk.as_ref().map(|desk| desk.place(&ids)).transpose()?;
        let Keys { run, thread, body } = keys;
        let token = rejoin::token();
        let messages = rewritten.request.messages.take();
        let about = About { run, thread, body, token, side: rewritten.client, ids: ids.clone() };
        let claimed = match &self.shared {
            Some(shared) => {
                let mut asked = Asked(Some((shared, &about)));
                let claimed = shared.claim(&about, messages.as_deref()).await;
                asked.0 = None;
                claimed
            }
            None => Claimed::Alone,
        };
        match claimed {
            Claimed::Mine | Claimed::Alone => {}
            // The same request came to two replicas at once, or twice to one.
            Claimed::Known => {
                let keys = Keys { run, thread, body };
                let kept = self.known(route, rewritten.client, &keys, None).await?;
                let kept = kept.ok_or_else(|| rejoin::away(Away))?;
                return self.joined(route, &asker, &ids, &kept, rejoin::from(None));
            }
            Claimed::Taken => return Err(Kind::RunIdTaken.into()),
        }
        let recap = Recap::new(rewritten.client, &ids, messages);
        let fresh = Fresh { run, thread, body, ids: ids.clone(), token, recap, alone: resumable.alone, follows: None };
        let writer = match self.replay.enter(fresh) {
            Entered::New(writer) => writer,
            refused => {
                if let (Some(shared), Claimed::Mine) = (&self.shared, claimed) {
                    shared.release(&about).await;
                }
                match refused {
                    // The same request came twice at once.
                    Entered::Known(kept) => return self.joined(route, &asker, &ids, &kept, rejoin::from(None)),
                    Entered::Taken => return Err(Kind::RunIdTaken.into()),
                    _ => return self.start_alone(route, asker, rewritten, held).await,
                }
            }
        };
        if let Some(shared) = &self.shared {
            shared.broadcast(about, writer.log(), claimed, self.lifecycle.enter());
        }
        let log = Arc::clone(writer.log());
        let version = asker.head.version;
        // It is there before the run speaks: nothing is missed, and who leaves before the answer has left.
        let reader = match events {
            Some(_) => None,
            None => Some(log.join(From::Start(now()), version == Version::HTTP_2, self.lifecycle.enter())),
        };
        let reader = reader.transpose().map_err(rejoin::unjoined)?;
        let audience = Audience::Any(Box::new(Any { writer, held }));
        let Started { answered, .. } = self.spawn(route, asker, rewritten, Some(token), audience);
        let patience = if reader.is_some() { self.keep_alive } else { START_GRACE.min(self.keep_alive) };
        self.heard(route, answered, patience).await?;
        Ok(match reader {
            Some(reader) => respond::stream(Tail(reader).boxed_unsync(), Framing::Sse),
            None => respond::accepted(&ids, events.as_deref().unwrap_or_default()).map(whole),
        })
    }

    /// The answer to a request for a run that was started already.
    fn joined(
        &self,
        route: &Route,
        asker: &Asker,
        ids: &Ids,
        kept: &Kept,
        from: From,
    ) -> Result<Response<Body>, Rejection> {
        match &route.desk {
            Some(desk) => Ok(respond::accepted(ids, &desk.place(ids)?).map(whole)),
            None => self.join(route, kept, from, &asker.head.headers, asker.head.version),
        }
    }

    /// Looks at what can be said about a request before its body is read, and gives the body back.
    fn admit(&self, route: &Route, request: Request<Incoming>) -> Result<(Admitted, Incoming), Rejection> {
        let began = Instant::now();
        let framing = fit(route, request.method(), request.headers())?;
        // First counted, then asked: a request whose body is still on its way is not forgotten by a drain that begins.
        let permit = self.lifecycle.enter();
        if self.lifecycle.phase() == Phase::Cut {
            return Err(Kind::Draining.into());
        }
        let (mut head, body) = request.into_parts();
        let permits = head.extensions.remove::<Permits>().unwrap_or_default();
        let who = head.extensions.get::<Who>().cloned().unwrap_or_default();
        Ok((Admitted { asker: Asker { head, framing, who, began }, permit, permits }, body))
    }

    /// What a request would become, up to where a run would begin: nothing is counted, held or sent.
    ///
    /// # Errors
    /// Why there would be no run.
    pub(super) fn rehearse(&self, route: &Route, head: Parts, body: Option<Bytes>) -> Result<Rehearsed, Rejection> {
        let framing = fit(route, &head.method, &head.headers)?;
        let Some(body) = body else { return Ok(Rehearsed { framing, told_by: None, rewritten: None }) };
        request_body::fits(&self.limits, body.len())?;
        let (_, told_by) = client_of(route, framing, &body);
        let keeping = route.resumable.is_some() && framing == Framing::Sse;
        let asker = Asker { head, framing, who: Who::default(), began: Instant::now() };
        let Rewritten { client, agent, request } = asker.rewritten(route, body, keeping)?;
        Ok(Rehearsed { framing, told_by, rewritten: Some((client, agent, request)) })
    }

    /// Starts the task of the run.
    fn spawn(
        &self,
        route: &Route,
        asker: Asker,
        rewritten: Rewritten,
        token: Option<Token>,
        audience: Audience,
    ) -> Started {
        let Rewritten { client, agent, request } = rewritten;
        let access = &route.starting.access;
        let limits = FrameLimits { line: self.limits.frame, frame: self.limits.frame };
        let (events, bytes) = (access.run.events.map(NonZero::get), access.run.bytes.map(NonZero::get));
        let stream = Stream::new(agent, client, Some(request.ids.clone()), limits);
        let stream = stream.guarded(route.guard).knowing(request.known);
        let mut stream = stream.allowing(route.tools.clone()).within(events, bytes);
        stream.write_as(asker.framing);
        if let Some(token) = token {
            stream = stream.numbered(token.as_str());
        }
        let (head, trace) = (&asker.head, self.trace(&asker.head));
        let question = Question {
            fields: self.guard.fields(head, &route.starting),
            calls: trace.calls(),
            body: request.body.into(),
            framings: accept::framings(route.agent),
        };
        let account = Account {
            route: Arc::clone(&route.name),
            request_id: asker.request_id().to_owned(),
            ids: request.ids,
            who: asker.who,
            began: asker.began,
            metrics: Arc::clone(&route.metrics),
            dialects: (client.dialect.name, agent.dialect.name),
            upstream: None,
            status: if route.desk.is_some() { 202 } else { 200 },
            first_event: None,
            totals: Totals::default(),
            bytes: (0, 0),
            resumed: 0,
            readers: None,
            line: Line::Due(trace),
        };
        let plan = Plan {
            cluster: Arc::clone(&route.cluster),
            connector: Arc::clone(&self.connector),
            lifecycle: self.lifecycle.watch(),
            keep_alive: self.keep_alive,
            learned: Arc::clone(&route.learned),
            access: Arc::clone(access),
            account,
        };
        let (answer, answered) = oneshot::channel();
        let run = tokio::spawn(Box::new(Run::new(plan, stream, audience, answer)).go(Box::new(question)));
        Started { run, answered }
    }

    /// The span of a request, which is its run's from now on.
    fn trace(&self, head: &Parts) -> Trace {
        let traced = head.extensions.get::<Traced>().and_then(Traced::take);
        // No request comes here without one.
        let arrival = Arrival { method: Asking::of(head.method.as_str()), route: ("", ""), tls: false };
        traced.unwrap_or_else(|| self.tracing.begin(None, arrival))
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

/// A claim that has no answer yet. Its client may leave before that: then nobody begins the run, and whoever asks for it again
/// must not be told to wait for it.
struct Asked<'a>(Option<(&'a Arc<Shared>, &'a About)>);

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let Some((shared, about)) = self.0.take() else { return };
        let (shared, about) = (Arc::clone(shared), about.clone());
        tokio::spawn(async move { shared.release(&about).await });
    }
}

impl Asker {
    fn request_id(&self) -> &str {
        self.head.headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).unwrap_or_default()
    }

    /// The body in the agent's words.
    fn rewritten(&self, route: &Route, body: Bytes, keeping: bool) -> Result<Rewritten, Rejection> {
        let fresh = Ids::new(&Uuid::now_v7().to_string(), &Uuid::now_v7().to_string());
        let (client, because) = client_of(route, self.framing, &body);
        let agent = route.agent();
        let translate = if keeping { request::translate_keeping } else { request::translate_allowing };
        let request = translate(&body, client, agent, &fresh, route.tools.as_deref())
            .map_err(|refused| self.unfit(route, &refused))?;
        if let Some(because) = because {
            let run = Which { route: &route.name, request_id: self.request_id(), ids: &request.ids };
            occurrence::Detected { run, side: "client", dialect: client.dialect.name, because }.emit();
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

/// How the client is told events, where the head of its request is that of one for a run.
fn fit(route: &Route, method: &Method, headers: &HeaderMap) -> Result<Framing, Rejection> {
    if *method != Method::POST {
        return Err(Kind::MethodNotAllowed.into());
    }
    request_body::check(headers)?;
    match route.desk {
        Some(_) => accept::start(headers, route.client),
        None => accept::framing(headers, route.client),
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
