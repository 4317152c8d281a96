//! Coming back to a run that goes on without its client, or that has ended and is kept.
//!
//! ```text
//!   POST path, Last-Event-ID, same ids ─────╮                        ╭─▶ behind the event: what was missed, then what comes
//!   POST path, same ids, same body ─────────┼─▶ the run of the key ──┤
//!   GET  path/runs/{runId}/events ──────────╯    of this caller      ╰─▶ without one: a prelude, then what comes
//!   POST path/runs/{runId}/stop ─────────────────────────────────────▶ it ends, `cancelled`
//! ```
//! A run is found by its route, its caller and its id. Whose it is not, for them there is no such run.

use super::deadlines::now_millis;
use super::gateway::{Gateway, ResponseBody, RouteEntry, full_body};
use super::lifecycle::LifecyclePhase;
use super::log_body::LogBody;
use super::negotiation;
use super::responses;
use crate::codec::Framing;
use crate::config::PathTemplate;
use crate::config::header_names::{LAST_EVENT_ID, REQUEST_ID};
use crate::dialect::PeerDialect;
use crate::error::{Rejection, RejectionKind};
use crate::guard::{CallerContext, RouteMatch};
use crate::net::digest;
use crate::replay::{
    Cursor, JoinError, ReadFrom, ReplayKey, ReplicationUnavailable, RunLookupError, RunQuery, RunToken, StoredRun,
};
use crate::telemetry::internal_event::{self, RunInfo};
use crate::translate::RunIds;
use futures_util::FutureExt;
use http::{HeaderMap, Method, Request, Response, Version};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// Where runs of a route are found that outlive their clients.
#[derive(Debug)]
pub(super) struct ResumeRoutes {
    pub(crate) events: PathTemplate,
    pub(crate) stop: PathTemplate,
    /// how long they go on without anybody
    pub(crate) abandon_after: Duration,
    /// what the guard knows of the route, for whoever comes back
    pub(crate) join_match: Arc<RouteMatch>,
    pub(crate) stop_match: Arc<RouteMatch>,
}

impl ResumeRoutes {
    pub(super) fn new(
        path: &str,
        abandon_after: Duration,
        join_match: Arc<RouteMatch>,
        stop_match: Arc<RouteMatch>,
    ) -> Self {
        let [events, stop] = PathTemplate::for_runs(path);
        ResumeRoutes { events, stop, abandon_after, join_match, stop_match }
    }
}

/// By what a run, its thread and what was asked of it are known again.
pub(super) struct RunKeys {
    pub(crate) run: ReplayKey,
    pub(crate) thread: ReplayKey,
    pub(crate) body: ReplayKey,
}

impl RunKeys {
    pub(super) fn new(route: &RouteEntry, caller: &CallerContext, ids: &RunIds, body: ReplayKey) -> Self {
        let (run_id, thread_id) = (ids.run_id.text().unwrap_or_default(), ids.thread_id.text().unwrap_or_default());
        RunKeys { run: run_key(route, caller, &run_id), thread: thread_key(route, caller, &thread_id), body }
    }
}

/// The same id of another caller, or on another route, is another run.
fn run_key(route: &RouteEntry, caller: &CallerContext, id: &str) -> ReplayKey {
    hash_key("run", route, caller, id)
}

fn thread_key(route: &RouteEntry, caller: &CallerContext, id: &str) -> ReplayKey {
    hash_key("thread", route, caller, id)
}

fn hash_key(what: &str, route: &RouteEntry, caller: &CallerContext, id: &str) -> ReplayKey {
    let who = caller.identity();
    let (source, subject) = (who.map(|who| &*who.source), who.map(|who| who.subject.as_str()));
    let tenant = who.and_then(|who| who.tenant.as_deref());
    digest::sha256_parts(&[Some(what), Some(&route.name), source, tenant, subject, Some(id)])
}

/// A token that nobody guesses.
pub(super) fn new_token() -> RunToken {
    RunToken::new(RandomState::new().hash_one(Uuid::now_v7()))
}

/// Behind which event a client wants to read on.
///
/// # Errors
/// That it is no event of ours.
pub(super) fn parse_cursor(headers: &HeaderMap) -> Result<Option<Cursor>, Rejection> {
    let mut lines = headers.get_all(LAST_EVENT_ID).iter().filter(|line| !line.is_empty());
    let Some(line) = lines.next() else { return Ok(None) };
    let cursor = line.to_str().ok().and_then(Cursor::parse).filter(|_| lines.next().is_none());
    cursor.map(Some).ok_or_else(|| RejectionKind::InvalidCursor.into())
}

/// Where a client begins to read that may know the run.
pub(super) fn reader_start(cursor: Option<Cursor>) -> ReadFrom {
    cursor.map_or_else(|| ReadFrom::Prelude(now_millis()), ReadFrom::Cursor)
}

impl Gateway {
    /// The run that a request for one joins, if it joins any.
    ///
    /// # Errors
    /// It wants to read on in a run that there is not, or begin another one under the id of a run that goes on.
    pub(super) async fn find_joinable(
        &self,
        route: &RouteEntry,
        client: PeerDialect,
        keys: &RunKeys,
        cursor: Option<Cursor>,
    ) -> Result<Option<Arc<StoredRun>>, Rejection> {
        let kept = match self.find_kept(route, client, &keys.run, cursor).await {
            Ok(kept) => kept,
            // A run that may have been asked for elsewhere is asked for again rather than not at all.
            Err(why) if why.kind == RejectionKind::ReplayUnavailable && cursor.is_none() => None,
            Err(away) => return Err(away),
        };
        match (kept, cursor) {
            (Some(kept), Some(_)) if kept.thread == keys.thread => Ok(Some(kept)),
            (_, Some(_)) => Err(RejectionKind::RunNotFound.into()),
            (Some(kept), None) if kept.body == keys.body => Ok(Some(kept)),
            (Some(kept), None) if kept.log.is_open() => Err(RejectionKind::RunIdTaken.into()),
            (_, None) => Ok(None),
        }
    }

    /// A run of this replica, or of another one.
    ///
    /// # Errors
    /// That it may exist.
    async fn find_kept(
        &self,
        route: &RouteEntry,
        client: PeerDialect,
        run: &ReplayKey,
        cursor: Option<Cursor>,
    ) -> Result<Option<Arc<StoredRun>>, Rejection> {
        if let Some(kept) = self.replay.find(run).filter(|kept| !kept.is_remote) {
            return Ok(Some(kept));
        }
        let Some(shared) = self.replication.as_ref().filter(|_| route.resumable.is_some()) else { return Ok(None) };
        let mut lifecycle = self.lifecycle.watch();
        let cut = async move { lifecycle.wait_cut().await };
        let found = shared.find(RunQuery { run: *run, side: client, cursor }, cut.boxed()).await;
        found.map_err(|why| match why {
            RunLookupError::Unavailable => unavailable_rejection(ReplicationUnavailable),
            RunLookupError::TooLarge => RejectionKind::RunNotKept.into(),
        })
    }

    /// GET of a run by its id.
    ///
    /// # Errors
    /// It is no GET, or there is no such run for the caller, or it cannot be read from there on.
    pub(super) async fn join_run(
        &self,
        route: &RouteEntry,
        run_id: Option<&str>,
        request: &Request<Incoming>,
    ) -> Result<Response<ResponseBody>, Rejection> {
        let cursor = check_join_request(route, request.method(), request.headers())?;
        let run = run_key(route, caller_of(request), run_id.ok_or(RejectionKind::RunNotFound)?);
        let kept = self.find_kept(route, route.client, &run, cursor).await?.ok_or(RejectionKind::RunNotFound)?;
        self.join(route, &kept, reader_start(cursor), request.headers(), request.version())
    }

    /// GET of the last run of a thread, on a route of two steps. `None` where no run of the thread is kept.
    ///
    /// # Errors
    /// As [`Gateway::join_again`].
    pub(super) async fn join_last_run(
        &self,
        route: &RouteEntry,
        thread_id: Option<&str>,
        request: &Request<Incoming>,
    ) -> Result<Option<Response<ResponseBody>>, Rejection> {
        if route.resumable.is_none() {
            return Ok(None);
        }
        let cursor = check_join_request(route, request.method(), request.headers())?;
        let thread = thread_id.map(|id| thread_key(route, caller_of(request), id));
        let mut kept = thread.and_then(|thread| self.replay.last_of_thread(&thread));
        if let (None, Some(shared), Some(thread)) = (&kept, &self.replication, thread)
            && let Some(run) = shared.last_of_thread(&thread).await.map_err(unavailable_rejection)?
        {
            kept = self.find_kept(route, route.client, &run, cursor).await?;
        }
        let Some(kept) = kept else {
            return if cursor.is_some() { Err(RejectionKind::RunNotFound.into()) } else { Ok(None) };
        };
        // Who comes first has heard nothing, and gets what was said as it was said.
        let from = if kept.log.had_readers() {
            reader_start(cursor)
        } else {
            cursor.map_or(ReadFrom::Start(now_millis()), ReadFrom::Cursor)
        };
        self.join(route, &kept, from, request.headers(), request.version()).map(Some)
    }

    /// Lets a client read a run.
    ///
    /// # Errors
    /// It cannot be read from there on, or too many read it, or the process is at its end.
    pub(super) fn join(
        &self,
        route: &RouteEntry,
        kept: &StoredRun,
        from: ReadFrom,
        headers: &HeaderMap,
        version: Version,
    ) -> Result<Response<ResponseBody>, Rejection> {
        // First counted, then asked, as for a run.
        let permit = self.lifecycle.enter();
        if self.lifecycle.phase() == LifecyclePhase::Cut {
            return Err(RejectionKind::Draining.into());
        }
        let reader = kept.log.join(from, version == Version::HTTP_2, permit).map_err(join_rejection)?;
        let behind = if let ReadFrom::Cursor(cursor) = from { Some(cursor.number) } else { None };
        let token = kept.log.token();
        let run = RunInfo { route: &route.name, request_id: request_id(headers), ids: &kept.ids };
        internal_event::ReaderJoined { run, token: token.as_str(), after_number: behind }.emit();
        Ok(responses::event_stream(LogBody(reader).boxed_unsync(), Framing::Sse))
    }

    /// POST that stops a run. One that has ended stays as it is.
    ///
    /// # Errors
    /// It is no POST, or there is no such run for the caller.
    pub(super) async fn stop_run(
        &self,
        route: &RouteEntry,
        run_id: Option<&str>,
        request: &Request<Incoming>,
    ) -> Result<Response<ResponseBody>, Rejection> {
        check_stop_request(request.method())?;
        let run = run_key(route, caller_of(request), run_id.ok_or(RejectionKind::RunNotFound)?);
        let Some(kept) = self.replay.find(&run) else {
            let shared = self.replication.as_ref().ok_or(RejectionKind::RunNotFound)?;
            let known = shared.stop(&run).await.map_err(unavailable_rejection)?;
            return if known {
                Ok(responses::run_stopped().map(full_body))
            } else {
                Err(RejectionKind::RunNotFound.into())
            };
        };
        let log = &kept.log;
        if log.is_open() {
            let run = RunInfo { route: &route.name, request_id: request_id(request.headers()), ids: &kept.ids };
            internal_event::RunStopRequested { run, token: log.token().as_str() }.emit();
            log.stop();
        }
        Ok(responses::run_stopped().map(full_body))
    }
}

/// The refusal of somebody who asks for a run that may be another replica's.
pub(super) fn unavailable_rejection(ReplicationUnavailable: ReplicationUnavailable) -> Rejection {
    Rejection { retry_after: Some("1".to_owned()), ..RejectionKind::ReplayUnavailable.into() }
}

/// What a GET of events may be, and from where on it reads.
pub(super) fn check_join_request(
    route: &RouteEntry,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Option<Cursor>, Rejection> {
    if *method != Method::GET {
        return Err(RejectionKind::EventsMethodNotAllowed.into());
    }
    match negotiation::negotiate(headers, route.client)? {
        Framing::Sse => parse_cursor(headers),
        // Runs are kept as they left, and that wire has no ids.
        Framing::Proto => Err(RejectionKind::NotAcceptable.into()),
    }
}

/// Refuses what asks for the end of a run in another way than it is asked for.
pub(super) fn check_stop_request(method: &Method) -> Result<(), Rejection> {
    if *method != Method::POST {
        return Err(Rejection::from(RejectionKind::MethodNotAllowed).with_detail("A run is stopped with POST."));
    }
    Ok(())
}

fn caller_of(request: &Request<Incoming>) -> &CallerContext {
    static ANONYMOUS: std::sync::LazyLock<CallerContext> = std::sync::LazyLock::new(CallerContext::default);
    request.extensions().get::<CallerContext>().unwrap_or(&ANONYMOUS)
}

fn request_id(headers: &HeaderMap) -> &str {
    headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).unwrap_or_default()
}

/// The refusal of somebody who cannot join.
pub(super) fn join_rejection(why: JoinError) -> Rejection {
    match why {
        JoinError::Cursor => RejectionKind::CursorGone,
        JoinError::Full => RejectionKind::TooManyReaders,
        JoinError::Discarded => RejectionKind::RunNotKept,
    }
    .into()
}
