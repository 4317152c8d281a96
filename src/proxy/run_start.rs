//! Starts the run of a request that has passed the gates, and returns the head of its response.
//!
//! ```text
//!   admit ─▶ read_body ─▶ rewrite ─▶ claim the thread ─▶ register ─▶ spawn_run ─▶ await_start ─▶ the stream, or its location
//!                            │                          (two-step)
//!                            ╰─▶ a run that outlives its client and is kept: join_existing
//! ```
//! Every step may refuse, which releases what the run holds so far.

use super::deadlines::now_millis;
use super::gateway::{Gateway, ResponseBody, RouteEntry, full_body};
use super::lifecycle::{LifecyclePhase, RunPermit};
use super::log_body::LogBody;
use super::negotiation;
use super::pipe::pipe;
use super::request_body;
use super::responses;
use super::resume::{self, ResumeRoutes, RunKeys};
use super::run::RunTask;
use super::run_context::{AgentRequest, RunContext};
use super::run_output::{LoggedOutput, RunOutput};
use super::run_record::{RunRecord, RunRecordState};
use super::two_step::ClientPermits;
use crate::codec::Framing;
use crate::codec::sse::SseLimits as FrameLimits;
use crate::config::header_names::REQUEST_ID;
use crate::dialect::{AG_UI, PeerDialect};
use crate::error::{Rejection, RejectionKind};
use crate::guard::{CallerContext, StreamPermit};
use crate::net::digest;
use crate::replay::{
    ClaimResult, InsertOutcome, NewRun, ReadFrom, ReplicatedRuns, ReplicationUnavailable, RunDescriptor, RunToken,
    StoredRun,
};
use crate::telemetry::internal_event::{self, RunInfo};
use crate::telemetry::label::{AuthMethod, AuthReason, RequestMethod as Asking};
use crate::telemetry::metric::RunTotals;
use crate::telemetry::trace::{RequestAttributes, RequestSpan, TraceExtension};
use crate::translate::recap::Recap;
use crate::translate::request::{self, RequestRefusal, TranslatedRequest};
use crate::translate::{RunIds, Stream, detect};
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

/// How long a two-step client waits for a refusal before its run is reported as started. Most refusals come at once,
/// and are more useful here than as RUN_ERROR in a stream that must be requested.
const START_GRACE: Duration = Duration::from_secs(1);

/// A request whose head allows a run.
struct AdmittedRequest {
    run_request: RunRequestHead,
    /// both are held while the client takes part, which may be longer than this request
    permit: RunPermit,
    permits: StreamPermit,
}

struct RunRequestHead {
    parts: Parts,
    /// of the client's stream
    framing: Framing,
    caller: CallerContext,
    started_at: Instant,
}

struct RewrittenRequest {
    client: PeerDialect,
    agent: PeerDialect,
    request: TranslatedRequest,
}

pub(super) struct RunPreview {
    pub(crate) framing: Framing,
    /// the evidence, if the route leaves the client's dialect open
    pub(crate) detected_by: Option<&'static str>,
    /// if there was a body
    pub(crate) translation: Option<(PeerDialect, PeerDialect, TranslatedRequest)>,
}

struct SpawnedRun {
    task: JoinHandle<()>,
    start_rx: oneshot::Receiver<Result<(), Rejection>>,
}

impl Gateway {
    /// Starts a run and waits for the start of its response, at most one keep-alive interval.
    ///
    /// # Errors
    /// The run was refused by the gateway or by its agent.
    pub(super) async fn start_run(
        &self,
        route: &RouteEntry,
        request: Request<Incoming>,
    ) -> Result<Response<ResponseBody>, Rejection> {
        let (admitted, body) = self.admit(route, request)?;
        let AdmittedRequest { run_request: asker, permit, mut permits } = admitted;
        let body = request_body::read_body(&self.limits, &asker.parts.headers, body).await?;
        // Only SSE has ids to resume from.
        let resumable = route.resumable.as_ref().filter(|_| asker.framing == Framing::Sse);
        let body_key = resumable.map(|_| digest::sha256(&body));
        let rewritten = asker.rewrite(route, body, resumable.is_some())?;
        let ids = &rewritten.request.ids;
        let keys = body_key.map(|body| RunKeys::new(route, &asker.caller, ids, body));
        if let Some(keys) = &keys {
            let cursor = resume::parse_cursor(&asker.parts.headers)?;
            if let Some(kept) = self.find_joinable(route, rewritten.client, keys, cursor).await? {
                return self.join_existing(route, &asker, ids, &kept, resume::reader_start(cursor));
            }
        }
        // From here on a failed run leaves the thread with its caller: it is unknown what the agent saw of it, and a
        // retry comes from this caller.
        self.guard.threads.claim(&route.start_match, asker.caller.identity(), &ids.thread_id).await?;
        if route.resumable.is_some() {
            permits = self.guard.acquire_stream(&asker.parts, &route.start_match)?;
        }
        route.metrics.inc_downgraded(rewritten.request.downgraded);
        let held = (permit, route.metrics.open_run(), permits);
        match resumable.zip(keys) {
            Some((resumable, keys)) => self.start_logged(route, (resumable, keys), asker, rewritten, held).await,
            None => self.start_direct(route, asker, rewritten, held).await,
        }
    }

    /// Starts a run that ends with its client.
    async fn start_direct(
        &self,
        route: &RouteEntry,
        run_request: RunRequestHead,
        rewritten: RewrittenRequest,
        permits: ClientPermits,
    ) -> Result<Response<ResponseBody>, Rejection> {
        let (framing, version, ids) = (run_request.framing, run_request.parts.version, rewritten.request.ids.clone());
        let seated = route.two_step.as_ref().map(|desk| desk.register(&ids)).transpose()?;
        let request_id = run_request.request_id().to_owned();
        let (writer, reader) = pipe(self.limits.client_buffer, permits);
        let SpawnedRun { task: run, start_rx: answered } =
            self.spawn_run(route, run_request, rewritten, None, RunOutput::Direct(writer, framing));
        let Some(seated) = seated else {
            // A slow agent must not cost the client its connection: after one keep-alive interval the stream begins,
            // and a later refusal is a RUN_ERROR.
            self.await_start(route, answered, self.keep_alive).await?;
            reader.attach(version);
            return Ok(responses::event_stream(reader.boxed_unsync(), framing));
        };
        let accepted = seated.accepted_response(&ids);
        self.await_start(route, answered, START_GRACE.min(self.keep_alive)).await?;
        seated.offer(reader, run, self.lifecycle.watch(), (Arc::clone(&route.name), request_id, ids));
        Ok(accepted)
    }

    /// Starts a run that outlives its client.
    async fn start_logged(
        &self,
        route: &RouteEntry,
        (resumable, keys): (&ResumeRoutes, RunKeys),
        run_request: RunRequestHead,
        mut rewritten: RewrittenRequest,
        held: ClientPermits,
    ) -> Result<Response<ResponseBody>, Rejection> {
        let ids = rewritten.request.ids.clone();
        let events = route.two_step.as_ref().map(|desk| desk.events_path(&ids)).transpose()?;
        let RunKeys { run, thread, body } = keys;
        let token = resume::new_token();
        let messages = rewritten.request.messages.take();
        let about = RunDescriptor { run, thread, body, token, side: rewritten.client, ids: ids.clone() };
        let claimed = match &self.replication {
            Some(shared) => {
                let mut asked = ClaimGuard(Some((shared, &about)));
                let claimed = shared.claim(&about, messages.as_deref()).await;
                asked.0 = None;
                claimed
            }
            None => ClaimResult::Unconfirmed,
        };
        match claimed {
            ClaimResult::Acquired | ClaimResult::Unconfirmed => {}
            // The same request came to two replicas at once, or twice to one.
            ClaimResult::Duplicate => {
                let keys = RunKeys { run, thread, body };
                let kept = self.find_joinable(route, rewritten.client, &keys, None).await?;
                let kept = kept.ok_or_else(|| resume::unavailable_rejection(ReplicationUnavailable))?;
                return self.join_existing(route, &run_request, &ids, &kept, resume::reader_start(None));
            }
            ClaimResult::Conflict => return Err(RejectionKind::RunIdTaken.into()),
        }
        let recap = Recap::new(rewritten.client, &ids, messages);
        let fresh = NewRun {
            run,
            thread,
            body,
            ids: ids.clone(),
            token,
            recap,
            abandon_after: resumable.abandon_after,
            remote_through: None,
        };
        let writer = match self.replay.insert(fresh) {
            InsertOutcome::New(writer) => writer,
            refused => {
                if let (Some(shared), ClaimResult::Acquired) = (&self.replication, claimed) {
                    shared.release(&about).await;
                }
                match refused {
                    // The same request came twice at once.
                    InsertOutcome::Existing(kept) => {
                        return self.join_existing(route, &run_request, &ids, &kept, resume::reader_start(None));
                    }
                    InsertOutcome::Conflict => return Err(RejectionKind::RunIdTaken.into()),
                    _ => return self.start_direct(route, run_request, rewritten, held).await,
                }
            }
        };
        if let Some(shared) = &self.replication {
            shared.replicate(about, writer.log(), claimed, self.lifecycle.enter());
        }
        let log = Arc::clone(writer.log());
        let version = run_request.parts.version;
        // Before the run writes, so that nothing is missed and an early disconnect is noticed.
        let reader = match events {
            Some(_) => None,
            None => Some(log.join(ReadFrom::Start(now_millis()), version == Version::HTTP_2, self.lifecycle.enter())),
        };
        let reader = reader.transpose().map_err(resume::join_rejection)?;
        let audience = RunOutput::Logged(Box::new(LoggedOutput { writer, permits: held }));
        let SpawnedRun { start_rx: answered, .. } =
            self.spawn_run(route, run_request, rewritten, Some(token), audience);
        let patience = if reader.is_some() { self.keep_alive } else { START_GRACE.min(self.keep_alive) };
        self.await_start(route, answered, patience).await?;
        Ok(match reader {
            Some(reader) => responses::event_stream(LogBody(reader).boxed_unsync(), Framing::Sse),
            None => responses::run_accepted(&ids, events.as_deref().unwrap_or_default()).map(full_body),
        })
    }

    /// Responds to a request for a run that was started already.
    fn join_existing(
        &self,
        route: &RouteEntry,
        run_request: &RunRequestHead,
        ids: &RunIds,
        kept: &StoredRun,
        from: ReadFrom,
    ) -> Result<Response<ResponseBody>, Rejection> {
        match &route.two_step {
            Some(desk) => Ok(responses::run_accepted(ids, &desk.events_path(ids)?).map(full_body)),
            None => self.join(route, kept, from, &run_request.parts.headers, run_request.parts.version),
        }
    }

    /// Checks what the head allows before the body is read.
    fn admit(&self, route: &RouteEntry, request: Request<Incoming>) -> Result<(AdmittedRequest, Incoming), Rejection> {
        let began = Instant::now();
        let framing = check_run_request(route, request.method(), request.headers())?;
        // Counted before the check: a request whose body is still arriving delays a drain that begins.
        let permit = self.lifecycle.enter();
        if self.lifecycle.phase() == LifecyclePhase::Cut {
            return Err(RejectionKind::Draining.into());
        }
        let (mut head, body) = request.into_parts();
        let permits = head.extensions.remove::<StreamPermit>().unwrap_or_default();
        let who = head.extensions.get::<CallerContext>().cloned().unwrap_or_default();
        Ok((
            AdmittedRequest {
                run_request: RunRequestHead { parts: head, framing, caller: who, started_at: began },
                permit,
                permits,
            },
            body,
        ))
    }

    /// Translates a request without starting, counting or sending anything.
    ///
    /// # Errors
    /// The request would be refused.
    pub(super) fn preview_run(
        &self,
        route: &RouteEntry,
        head: Parts,
        body: Option<Bytes>,
    ) -> Result<RunPreview, Rejection> {
        let framing = check_run_request(route, &head.method, &head.headers)?;
        let Some(body) = body else { return Ok(RunPreview { framing, detected_by: None, translation: None }) };
        request_body::check_length(&self.limits, body.len())?;
        let (_, told_by) = detect_client(route, framing, &body);
        let keeping = route.resumable.is_some() && framing == Framing::Sse;
        let asker =
            RunRequestHead { parts: head, framing, caller: CallerContext::default(), started_at: Instant::now() };
        let RewrittenRequest { client, agent, request } = asker.rewrite(route, body, keeping)?;
        Ok(RunPreview { framing, detected_by: told_by, translation: Some((client, agent, request)) })
    }

    fn spawn_run(
        &self,
        route: &RouteEntry,
        run_request: RunRequestHead,
        rewritten: RewrittenRequest,
        token: Option<RunToken>,
        output: RunOutput,
    ) -> SpawnedRun {
        let RewrittenRequest { client, agent, request } = rewritten;
        let access = &route.start_match.access;
        let limits = FrameLimits { line: self.limits.frame, frame: self.limits.frame };
        let (events, bytes) = (access.run.events.map(NonZero::get), access.run.bytes.map(NonZero::get));
        let stream = Stream::new(agent, client, Some(request.ids.clone()), limits);
        let stream = stream.with_guard_mode(route.guard).with_conversation(request.conversation);
        let mut stream = stream.with_allowed_tools(route.tools.clone()).with_budget(events, bytes);
        stream.write_as(run_request.framing);
        if let Some(token) = token {
            stream = stream.with_frame_ids(token.as_str());
        }
        let (head, trace) = (&run_request.parts, self.take_trace(&run_request.parts));
        let question = AgentRequest {
            fields: self.guard.upstream_fields(head, &route.start_match),
            spans: trace.upstream_spans(),
            body: request.body.into(),
            framings: negotiation::supported_framings(route.agent),
        };
        let account = RunRecord {
            route: Arc::clone(&route.name),
            request_id: run_request.request_id().to_owned(),
            ids: request.ids,
            caller: run_request.caller,
            started_at: run_request.started_at,
            metrics: Arc::clone(&route.metrics),
            client_dialect: client.dialect.name,
            agent_dialect: agent.dialect.name,
            upstream: None,
            status: if route.two_step.is_some() { 202 } else { 200 },
            first_event: None,
            totals: RunTotals::default(),
            bytes_read: 0,
            bytes_written: 0,
            reconnects: 0,
            reader_count: None,
            state: RunRecordState::Pending(trace),
        };
        let plan = RunContext {
            cluster: Arc::clone(&route.cluster),
            connector: Arc::clone(&self.connector),
            lifecycle: self.lifecycle.watch(),
            keep_alive: self.keep_alive,
            detected_dialect: Arc::clone(&route.detected_dialect),
            access: Arc::clone(access),
            record: account,
        };
        let (start_tx, start_rx) = oneshot::channel();
        let run = Box::new(RunTask::new(plan, stream, output)).run(Box::new(question), start_tx);
        SpawnedRun { task: tokio::spawn(run), start_rx }
    }

    /// Takes the request's span, which the run owns from now on.
    fn take_trace(&self, head: &Parts) -> RequestSpan {
        let traced = head.extensions.get::<TraceExtension>().and_then(TraceExtension::take);
        // Every request has one.
        let arrival =
            RequestAttributes { method: Asking::from_name(head.method.as_str()), route: ("", ""), tls: false };
        traced.unwrap_or_else(|| self.tracing.begin(None, arrival))
    }

    /// Waits for the start of the response, at most `wait_limit`.
    async fn await_start(
        &self,
        route: &RouteEntry,
        mut answered: oneshot::Receiver<Result<(), Rejection>>,
        wait_limit: Duration,
    ) -> Result<(), Rejection> {
        let head = match tokio::time::timeout(wait_limit, &mut answered).await {
            Ok(Ok(head)) => head,
            Ok(Err(_)) => Err(Rejection::from(RejectionKind::Internal).with_cause("the run ended without an answer")),
            Err(_) => {
                // The start may have been sent between the timeout and this line.
                answered.close();
                answered.try_recv().unwrap_or(Ok(()))
            }
        };
        head.map_err(|rejection| match rejection.kind {
            // The challenge tells the caller how to return with a new credential.
            RejectionKind::TokenExpired => {
                self.guard.authenticator().rejection_for(&route.start_match, AuthMethod::Jwt, AuthReason::Expired)
            }
            _ => rejection,
        })
    }
}

/// Releases a claim whose client disconnected before its result: no run begins, and a later request for it must not
/// wait.
struct ClaimGuard<'a>(Option<(&'a Arc<ReplicatedRuns>, &'a RunDescriptor)>);

impl Drop for ClaimGuard<'_> {
    fn drop(&mut self) {
        let Some((shared, about)) = self.0.take() else { return };
        let (shared, about) = (Arc::clone(shared), about.clone());
        tokio::spawn(async move { shared.release(&about).await });
    }
}

impl RunRequestHead {
    fn request_id(&self) -> &str {
        self.parts.headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).unwrap_or_default()
    }

    /// Translates the body for the agent.
    fn rewrite(&self, route: &RouteEntry, body: Bytes, keeping: bool) -> Result<RewrittenRequest, Rejection> {
        let fresh = RunIds::new(&Uuid::now_v7().to_string(), &Uuid::now_v7().to_string());
        let (client, because) = detect_client(route, self.framing, &body);
        let agent = route.current_agent();
        let translate = if keeping { request::translate_with_messages } else { request::translate_with_tools };
        let request = translate(&body, client, agent, &fresh, route.tools.as_deref())
            .map_err(|refused| self.translation_rejection(route, &refused))?;
        if let Some(because) = because {
            let run = RunInfo { route: &route.name, request_id: self.request_id(), ids: &request.ids };
            internal_event::DialectDetected { run, side: "client", dialect: client.dialect.name, because }.emit();
        }
        Ok(RewrittenRequest { client, agent, request })
    }

    /// Returns the refusal of a body; a forbidden tool is counted as an authorisation failure.
    fn translation_rejection(&self, route: &RouteEntry, refused: &RequestRefusal) -> Rejection {
        if !refused.is_forbidden_tool {
            return Rejection::from(RejectionKind::InvalidRequest).with_detail(refused.to_string());
        }
        let method = self.caller.identity().map_or(AuthMethod::None, |identity| identity.method);
        route.metrics.inc_auth(method, AuthReason::Tool);
        Rejection::from(RejectionKind::ToolNotAllowed).with_detail(refused.to_string())
    }
}

/// Checks the head of a request for a run and returns the client's framing.
fn check_run_request(route: &RouteEntry, method: &Method, headers: &HeaderMap) -> Result<Framing, Rejection> {
    if *method != Method::POST {
        return Err(RejectionKind::MethodNotAllowed.into());
    }
    request_body::check_content_type(headers)?;
    match route.two_step {
        Some(_) => negotiation::negotiate_start(headers, route.client),
        None => negotiation::negotiate(headers, route.client),
    }
}

/// Returns the client's dialect, and the evidence if it was detected.
fn detect_client(route: &RouteEntry, framing: Framing, body: &[u8]) -> (PeerDialect, Option<&'static str>) {
    if !route.client.is_auto {
        return (route.client, None);
    }
    let found = match framing {
        Framing::Proto => {
            detect::DetectedDialect { peer: PeerDialect::new(&AG_UI), evidence: "it accepts protobuf (AG-UI 1.0)" }
        }
        // Invalid UTF-8 is refused by the translation.
        Framing::Sse => detect::detect_request(std::str::from_utf8(body).unwrap_or_default()),
    };
    (found.peer, Some(found.evidence))
}
