//! Starts a run for a request that has passed the gates, and returns the head of its response.
//!
//! ```text
//!   check ─▶ read_body ─▶ rewrite ─▶ claim the thread ─▶ register ─▶ create_run ─▶ await_start ─▶ the stream, or its location
//!                            │                          (two-step)
//!                            ╰─▶ a run that outlives its client and is kept: join_existing
//! ```
//! If a step rejects the request, everything acquired so far is released.

use super::agent_client::AgentClient;
use super::claim_guard::ClaimGuard;
use super::deadlines::now_millis;
use super::gateway::Gateway;
use super::lifecycle::LifecyclePhase;
use super::log_body::LogBody;
use super::negotiation;
use super::pipe::pipe;
use super::relayed_run::{RelayedRun, RelayedRunSlot, RunExecution};
use super::request_body::{self, RequestBody};
use super::responses::{self, ResponseBody};
use super::resume;
use super::routes::{ResumeRoutes, RouteEntry};
use super::run::{OptionalCapture, RunTask};
use super::run_captures::RunStart;
use super::run_context::{AgentRequest, RunContext};
use super::run_keys::{caller_key, new_token, run_keys};
use super::run_output::{LoggedOutput, RunOutput};
use super::run_record::RunRecord;
use super::run_request::{RewrittenRequest, RunRequestHead};
use super::thread_store::KeptThread;
use super::two_step::ClientPermits;
use crate::codec::Framing;
use crate::config::inspect::CaptureMode;
use crate::error::{Rejection, RejectionKind};
use crate::inspect::{Redaction, RunCapture};
use crate::net::cpu_work::wait_for_large_work;
use crate::net::digest;
use crate::policy::{CallerContext, StreamPermit};
use crate::replay::{
    ClaimResult, InsertOutcome, NewRun, ReadFrom, ReplicationUnavailable, RunDescriptor, RunKeys, RunToken, StoredRun,
};
use crate::telemetry::internal_event::{self, RunInfo, RunSummary};
use crate::telemetry::label::{AuthMethod, AuthReason, RequestMethod};
use crate::telemetry::trace::{RequestAttributes, RequestSpan, TraceExtension, UpstreamSpanBuilder};
use crate::translate::RunIds;
use crate::translate::recap::{Recap, RecapInput};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, Version};
use http_body_util::BodyExt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Time that a two-step start waits for a rejection. Most arrive immediately, and are more useful here than as
/// RUN_ERROR in the stream.
const START_GRACE: Duration = Duration::from_secs(1);

pub(super) struct RunPreview {
    pub(crate) framing: Framing,
    /// why the dialect was detected, if it was
    pub(crate) detected_by: Option<&'static str>,
    /// present if the request had a body
    pub(crate) translation: Option<RewrittenRequest>,
}

struct NewRunTask {
    run: BoxFuture<'static, ()>,
    start_rx: StartReceiver,
}

type StartReceiver = oneshot::Receiver<Result<(), Rejection>>;

impl Gateway {
    /// Starts a run and waits for its response, for at most one keep-alive interval.
    pub(super) async fn start_run(
        &self,
        route: &RouteEntry,
        request: Request<RequestBody>,
    ) -> Result<Response<ResponseBody>, Rejection> {
        let started_at = Instant::now();
        let framing = check_run_request(route, request.method(), request.headers())?;
        // Counted before the check: a request whose body is still arriving delays a drain that begins.
        let permit = self.lifecycle.enter();
        if self.lifecycle.phase() == LifecyclePhase::Cut {
            return Err(RejectionKind::Draining.into());
        }
        let (mut parts, body) = request.into_parts();
        let mut stream_permit = parts.extensions.remove::<StreamPermit>().unwrap_or_default();
        let caller = parts.extensions.get::<CallerContext>().cloned().unwrap_or_default();
        let caller_key = caller_key(&caller);
        let body_permit = self.bodies.start_body(caller_key, &parts)?;
        let memory = self.run_memory.start_run(caller_key);
        let captured_body = None;
        let mut head =
            RunRequestHead { parts, body_permit, memory, framing, caller, caller_key, started_at, captured_body };
        let body = request_body::read_body(&self.limits, &head.parts.headers, body, &mut head.body_permit).await?;
        head.timeline().inspect(|timeline| timeline.record("body", Some(format!("{} bytes", body.len()))));
        if self.capture_mode(route, &head.parts.extensions) == CaptureMode::Full {
            head.captured_body = Some(body.clone());
        }
        // Only SSE has event ids from which to resume.
        let resumable = route.resumable.as_ref().filter(|_| head.framing == Framing::Sse);
        let body_key = resumable.map(|_| digest::sha256(&body));
        let work = wait_for_large_work(body.len()).await;
        let rewritten = self.rewrite(route, &mut head, body, resumable.is_some()).await?;
        drop(work);
        let ids = &rewritten.request.ids;
        let keys = body_key.map(|body| run_keys(&route.name, &head.caller, ids, body));
        if let Some(keys) = &keys {
            let cursor = resume::parse_cursor(&head.parts.headers)?;
            if let Some(kept) = self.find_joinable(route, rewritten.client, keys, cursor).await? {
                return self.join_existing(route, &head, ids, &kept, resume::reader_start(cursor));
            }
        }
        head.memory.reserve(rewritten.request.retained_bytes())?;
        if route.resumable.is_some() {
            stream_permit = self.policy.streams.acquire(&head.parts, &route.start_match)?;
        }
        // After all that may refuse the run. From here on the thread belongs to its caller even if the run fails: it is
        // unknown what the agent saw of the run, and a retry comes from this caller.
        self.policy.threads.claim(&route.start_match, head.caller.identity(), &ids.thread_id).await?;
        let permits = ClientPermits { _run: permit, _open_run: route.metrics.open_run(), _stream: stream_permit };
        match resumable.zip(keys) {
            Some((resumable, keys)) => self.start_logged(route, resumable, keys, head, rewritten, permits).await,
            None => self.start_direct(route, head, rewritten, permits).await,
        }
    }

    /// Translates a request, with what other replicas kept of its thread if the agent's dialect keeps anything.
    async fn rewrite(
        &self,
        route: &RouteEntry,
        head: &mut RunRequestHead,
        body: Bytes,
        is_kept: bool,
    ) -> Result<RewrittenRequest, Rejection> {
        let decoded = head.decode(route, &body)?;
        let mapping = route.agent.dialect.mapping.filter(|mapping| !mapping.thread_names.is_empty());
        if let (Some(mapping), Some(redis), Some(thread_id)) = (mapping, self.policy.redis(), decoded.named_thread()) {
            self.threads.load(&redis, mapping, &route.name, &head.caller, thread_id).await;
        }
        head.rewrite(route, &self.threads, decoded, &body, is_kept)
    }

    /// Starts a run that ends when its client disconnects.
    async fn start_direct(
        &self,
        route: &RouteEntry,
        head: RunRequestHead,
        rewritten: RewrittenRequest,
        permits: ClientPermits,
    ) -> Result<Response<ResponseBody>, Rejection> {
        let framing = head.framing;
        let version = head.parts.version;
        let ids = rewritten.request.ids.clone();
        // Reserved before the agent is called, so that no run starts without a way to read it.
        let two_step = match &route.two_step {
            Some(events) => Some((events.events_path(&ids)?, events.reserve(&head.caller, &ids)?)),
            None => None,
        };
        let request_id = head.request_id().to_owned();
        let (writer, reader) = pipe(self.limits.client_buffer, permits);
        let NewRunTask { run, start_rx } =
            self.create_run(route, head, rewritten, None, RunOutput::Direct(writer, framing));
        let Some((location, reservation)) = two_step else {
            let relay = reader.relay();
            let mut execution = RunExecution::new(run);
            // A slow agent must not cost the client its connection: after one keep-alive interval the stream begins,
            // and a later rejection is sent as RUN_ERROR.
            let mut start = pin!(self.await_start(route, start_rx, self.keep_alive));
            poll_fn(|cx| {
                execution.poll_run(cx);
                start.as_mut().poll(cx)
            })
            .await?;
            reader.attach(version);
            let mut response = responses::event_stream(reader.boxed_unsync(), framing);
            if version != Version::HTTP_2 {
                let run = RelayedRunSlot::new(RelayedRun::new(execution, relay));
                response.extensions_mut().insert(run);
            }
            return Ok(response);
        };
        let task = tokio::spawn(run);
        self.await_start(route, start_rx, START_GRACE.min(self.keep_alive)).await?;
        let response = responses::run_accepted(&ids, &location);
        let route = Arc::clone(&route.name);
        reservation.offer(reader, task, self.lifecycle.watch(), move |reader| {
            let run = RunInfo { route: &route, request_id: &request_id, ids: &ids };
            internal_event::PendingRunExpired { run }.emit();
            reader.abandon();
        });
        Ok(response)
    }

    /// Starts a run that continues after its client disconnects.
    async fn start_logged(
        &self,
        route: &RouteEntry,
        resumable: &ResumeRoutes,
        keys: RunKeys,
        head: RunRequestHead,
        mut rewritten: RewrittenRequest,
        permits: ClientPermits,
    ) -> Result<Response<ResponseBody>, Rejection> {
        let ids = rewritten.request.ids.clone();
        let location = route.two_step.as_ref().map(|events| events.events_path(&ids)).transpose()?;
        let input = rewritten.request.recap_input.take().unwrap_or_default();
        let descriptor = RunDescriptor { keys, token: new_token(), side: rewritten.client, ids: ids.clone() };
        let claim = self.claim_run(&descriptor, &input).await;
        match claim {
            ClaimResult::Acquired | ClaimResult::Unconfirmed => {}
            // The same request arrived at two replicas at once, or twice at one.
            ClaimResult::Duplicate => {
                let kept = self.find_joinable(route, rewritten.client, &keys, None).await?;
                let kept = kept.ok_or(ReplicationUnavailable)?;
                return self.join_existing(route, &head, &ids, &kept, resume::reader_start(None));
            }
            ClaimResult::Conflict => return Err(RejectionKind::RunIdTaken.into()),
        }
        let inserted = self.replay.insert(NewRun {
            descriptor: descriptor.clone(),
            recap: Recap::new(rewritten.client, &ids, input),
            abandon_after: resumable.abandon_after,
            remote_through: None,
        });
        if let InsertOutcome::New(writer) = inserted {
            if let Some(replication) = &self.replication {
                replication.replicate(descriptor, &writer.log, claim, self.lifecycle.enter());
            }
            return self.run_logged(route, head, rewritten, LoggedOutput::new(writer, permits), location).await;
        }
        if let (Some(replication), ClaimResult::Acquired) = (&self.replication, claim) {
            replication.release(&descriptor).await;
        }
        match inserted {
            // The same request arrived twice at once.
            InsertOutcome::Existing(kept) => self.join_existing(route, &head, &ids, &kept, resume::reader_start(None)),
            InsertOutcome::Conflict => Err(RejectionKind::RunIdTaken.into()),
            InsertOutcome::New(_) | InsertOutcome::Full => self.start_direct(route, head, rewritten, permits).await,
        }
    }

    async fn claim_run(&self, descriptor: &RunDescriptor, input: &RecapInput) -> ClaimResult {
        let Some(replication) = &self.replication else { return ClaimResult::Unconfirmed };
        let mut guard = ClaimGuard(Some((replication, descriptor)));
        let claim = replication.claim(descriptor, input).await;
        guard.0 = None;
        claim
    }

    async fn run_logged(
        &self,
        route: &RouteEntry,
        head: RunRequestHead,
        rewritten: RewrittenRequest,
        output: LoggedOutput,
        location: Option<String>,
    ) -> Result<Response<ResponseBody>, Rejection> {
        let ids = rewritten.request.ids.clone();
        let log = Arc::clone(&output.writer.log);
        // Before the run writes anything, so that nothing is missed and an early disconnect is noticed.
        let is_h2 = head.parts.version == Version::HTTP_2;
        let reader = match location {
            Some(_) => None,
            None => Some(log.join(ReadFrom::Start(now_millis()), is_h2, self.lifecycle.enter())?),
        };
        let NewRunTask { run, start_rx } =
            self.create_run(route, head, rewritten, Some(log.token), RunOutput::Logged(Box::new(output)));
        tokio::spawn(run);
        let limit = if reader.is_some() { self.keep_alive } else { START_GRACE.min(self.keep_alive) };
        self.await_start(route, start_rx, limit).await?;
        Ok(match reader {
            Some(reader) => responses::event_stream(LogBody(reader).boxed_unsync(), Framing::Sse),
            None => responses::run_accepted(&ids, location.as_deref().unwrap_or_default()),
        })
    }

    fn join_existing(
        &self,
        route: &RouteEntry,
        head: &RunRequestHead,
        ids: &RunIds,
        kept: &StoredRun,
        from: ReadFrom,
    ) -> Result<Response<ResponseBody>, Rejection> {
        match &route.two_step {
            Some(events) => Ok(responses::run_accepted(ids, &events.events_path(ids)?)),
            None => self.join(route, kept, from, &head.parts.headers, head.parts.version),
        }
    }

    pub(super) fn preview_run(
        &self,
        route: &RouteEntry,
        parts: Parts,
        body: Option<Bytes>,
    ) -> Result<RunPreview, Rejection> {
        let framing = check_run_request(route, &parts.method, &parts.headers)?;
        let Some(body) = body else { return Ok(RunPreview { framing, detected_by: None, translation: None }) };
        request_body::check_length(&self.limits, body.len())?;
        let (_, detected_by) = negotiation::detect_client(route.client, framing, &body);
        let is_kept = route.resumable.is_some() && framing == Framing::Sse;
        let caller = CallerContext::default();
        let caller_key = caller_key(&caller);
        let body_permit = self.bodies.start_body(caller_key, &parts)?;
        let memory = self.run_memory.start_run(caller_key);
        let started_at = Instant::now();
        let captured_body = None;
        let mut head =
            RunRequestHead { parts, body_permit, memory, framing, caller, caller_key, started_at, captured_body };
        let decoded = head.decode(route, &body)?;
        let translation = head.rewrite(route, &self.threads, decoded, &body, is_kept)?;
        Ok(RunPreview { framing, detected_by, translation: Some(translation) })
    }

    fn create_run(
        &self,
        route: &RouteEntry,
        head: RunRequestHead,
        rewritten: RewrittenRequest,
        token: Option<RunToken>,
        output: RunOutput,
    ) -> NewRunTask {
        let RewrittenRequest { client, agent, mut request } = rewritten;
        let access = &route.start_match.access;
        let settings = self.stream_settings(route, client, agent, request.ids.clone(), head.framing, token);
        let settings = settings.with_thread(request.thread.clone());
        let start = RunStart {
            mode: self.capture_mode(route, &head.parts.extensions),
            request_id: head.request_id(),
            caller: &head.caller,
            started_at: head.started_at,
            timeline: head.timeline().cloned(),
            body: head.captured_body.clone(),
        };
        let capture = self.begin_capture(route, start, &settings, &request);
        let (has_kept_values, mapping) = (request.thread.has_values(), agent.dialect.mapping);
        let thread = KeptThread::new(&self.threads, self.policy.redis(), mapping, &route.name, &head.caller, &request);
        let mut stream = settings
            .create_stream(std::mem::take(&mut request.conversation))
            .with_thread(&request.ids, std::mem::take(&mut request.thread));
        stream.report_mut().add_losses(&request.losses);
        let trace = self.take_trace(&head.parts);
        let request_id = head.request_id().to_owned();
        let agent_request = AgentRequest {
            client: AgentClient {
                has_kept_values,
                ..self.agent_client(route, &head, trace.upstream_spans(), capture.as_ref())
            },
            body: request.body.into(),
            target: request.target,
            body_permit: head.body_permit,
            framings: negotiation::supported_framings(route.agent),
        };
        let record = RunRecord {
            route: Arc::clone(&route.name),
            request_id,
            ids: request.ids,
            caller: head.caller,
            started_at: head.started_at,
            metrics: Arc::clone(&route.metrics),
            summary: RunSummary {
                client_dialect: client.dialect.name,
                agent_dialect: agent.dialect.name,
                status: if route.two_step.is_some() { 202 } else { 200 },
                ..RunSummary::default()
            },
            span: Some(trace),
        };
        let context = RunContext {
            cluster: Arc::clone(&route.cluster),
            connector: Arc::clone(&self.connector),
            lifecycle: self.lifecycle.watch(),
            slow_clients: Arc::clone(&self.slow_clients),
            keep_alive: self.keep_alive,
            access: Arc::clone(access),
            caller_key: head.caller_key,
            record,
            redaction: Redaction::new(&route.config.redact),
            thread,
        };
        let (start_tx, start_rx) = oneshot::channel();
        let task = Box::new(RunTask::new(context, OptionalCapture(capture.map(Box::new)), stream, output, head.memory));
        NewRunTask { run: Box::pin(task.run(Box::new(agent_request), start_tx)), start_rx }
    }

    fn agent_client(
        &self,
        route: &RouteEntry,
        head: &RunRequestHead,
        spans: UpstreamSpanBuilder,
        capture: Option<&RunCapture>,
    ) -> AgentClient {
        AgentClient {
            cluster: Arc::clone(&route.cluster),
            connector: Arc::clone(&self.connector),
            request_id: head.request_id().to_owned(),
            caller: head.caller_key,
            spans,
            fields: Arc::new(self.policy.upstream_fields(&head.parts, &route.start_match)),
            agent_errors: route.config.agent_errors,
            error_paths: route.agent.dialect.mapping.map(|mapping| &mapping.error),
            has_kept_values: false,
            redaction: Redaction::new(&route.config.redact),
            timeline: capture.map(RunCapture::timeline),
        }
    }

    /// Takes the request's span, which the run owns from then on.
    fn take_trace(&self, parts: &Parts) -> RequestSpan {
        let span = parts.extensions.get::<TraceExtension>().and_then(TraceExtension::take);
        // Every request has a span.
        span.unwrap_or_else(|| {
            let method = RequestMethod::from_name(parts.method.as_str());
            self.tracing.begin(None, RequestAttributes { method, route: "", path: "", tls: false })
        })
    }

    async fn await_start(
        &self,
        route: &RouteEntry,
        mut start_rx: StartReceiver,
        wait_limit: Duration,
    ) -> Result<(), Rejection> {
        let start = match tokio::time::timeout(wait_limit, &mut start_rx).await {
            Ok(Ok(start)) => start,
            Ok(Err(_)) => Err(Rejection::from(RejectionKind::Internal).with_cause("the run ended without an answer")),
            Err(_) => {
                // The start may have been sent between the timeout and this line.
                start_rx.close();
                start_rx.try_recv().unwrap_or(Ok(()))
            }
        };
        start.map_err(|rejection| match rejection.kind {
            // The challenge tells the caller how to get a new credential.
            RejectionKind::TokenExpired => {
                self.policy.auth.rejection_for(&route.start_match, AuthMethod::Jwt, AuthReason::Expired)
            }
            _ => rejection,
        })
    }
}

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
