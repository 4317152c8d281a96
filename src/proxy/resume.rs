//! Resumes a run that continues without its client, or that has ended and is still stored.
//!
//! ```text
//!   POST path, Last-Event-ID, same ids ─────╮                        ╭─▶ after the event: missed events, then new ones
//!   POST path, same ids, same body ─────────┼─▶ the run of the key ──┤
//!   GET  path/runs/{runId}/events ──────────╯    of this caller      ╰─▶ without an event: a recap, then new ones
//!   POST path/runs/{runId}/stop ─────────────────────────────────────▶ it ends, `cancelled`
//! ```
//! Runs are found by route, caller and id, so that callers cannot see each other's runs.

use super::deadlines::now_millis;
use super::gateway::Gateway;
use super::lifecycle::LifecyclePhase;
use super::log_body::LogBody;
use super::negotiation;
use super::request_body::RequestBody;
use super::responses::{self, ResponseBody};
use super::routes::RouteEntry;
use super::run_keys::{caller_key, caller_of, run_key, thread_key};
use crate::codec::Framing;
use crate::config::header_names::LAST_EVENT_ID;
use crate::dialect::PeerDialect;
use crate::error::{Rejection, RejectionKind};
use crate::replay::{
    Cursor, JoinError, ReadFrom, ReplayKey, ReplicationUnavailable, RunKeys, RunLookupError, RunQuery, StoredRun,
};
use crate::telemetry::internal_event::{self, RunInfo};
use futures_util::FutureExt;
use http::{HeaderMap, Method, Request, Response, Version};
use http_body_util::BodyExt;
use std::sync::Arc;

pub(super) fn parse_cursor(headers: &HeaderMap) -> Result<Option<Cursor>, Rejection> {
    let mut lines = headers.get_all(LAST_EVENT_ID).iter().filter(|line| !line.is_empty());
    let Some(line) = lines.next() else { return Ok(None) };
    let cursor = line.to_str().ok().and_then(Cursor::parse).filter(|_| lines.next().is_none());
    cursor.map(Some).ok_or_else(|| RejectionKind::InvalidCursor.into())
}

pub(super) fn reader_start(cursor: Option<Cursor>) -> ReadFrom {
    cursor.map_or_else(|| ReadFrom::Recap(now_millis()), ReadFrom::Cursor)
}

impl Gateway {
    pub(super) async fn find_joinable(
        &self,
        route: &RouteEntry,
        client: PeerDialect,
        keys: &RunKeys,
        cursor: Option<Cursor>,
    ) -> Result<Option<Arc<StoredRun>>, Rejection> {
        let kept = match self.find_kept(route, client, keys.caller, &keys.run, cursor).await {
            Ok(kept) => kept,
            // A run that may exist elsewhere is started again rather than not at all.
            Err(rejection) if rejection.kind == RejectionKind::ReplayUnavailable && cursor.is_none() => None,
            Err(rejection) => return Err(rejection),
        };
        match (kept, cursor) {
            (Some(kept), Some(_)) if kept.keys.thread == keys.thread => Ok(Some(kept)),
            (_, Some(_)) => Err(RejectionKind::RunNotFound.into()),
            (Some(kept), None) if kept.keys.body == keys.body => Ok(Some(kept)),
            (Some(kept), None) if kept.log.is_open() => Err(RejectionKind::RunIdTaken.into()),
            (_, None) => Ok(None),
        }
    }

    async fn find_kept(
        &self,
        route: &RouteEntry,
        client: PeerDialect,
        caller: ReplayKey,
        run: &ReplayKey,
        cursor: Option<Cursor>,
    ) -> Result<Option<Arc<StoredRun>>, Rejection> {
        let own = self.replay.find(run).filter(|kept| !kept.is_remote);
        let Some(replication) = self.replication.as_ref().filter(|_| route.resumable.is_some()) else {
            return Ok(own);
        };
        if let Some(own) = own
            && !replication.forget_replaced(&own).await
        {
            return Ok(Some(own));
        }
        let cut = self.lifecycle.watch().wait_cut().boxed();
        replication.find(RunQuery { caller, run: *run, side: client, cursor }, cut).await.map_err(|error| match error {
            RunLookupError::Unavailable => ReplicationUnavailable.into(),
            RunLookupError::TooLarge => RejectionKind::RunNotKept.into(),
        })
    }

    pub(super) async fn join_run(
        &self,
        route: &RouteEntry,
        run_id: Option<&str>,
        request: &Request<RequestBody>,
    ) -> Result<Response<ResponseBody>, Rejection> {
        let cursor = check_join_request(route, request.method(), request.headers())?;
        let run = run_key(&route.name, caller_of(request), run_id.ok_or(RejectionKind::RunNotFound)?);
        let caller = caller_key(caller_of(request));
        let kept =
            self.find_kept(route, route.client, caller, &run, cursor).await?.ok_or(RejectionKind::RunNotFound)?;
        self.join(route, &kept, reader_start(cursor), request.headers(), request.version())
    }

    /// Serves the last run of a thread. Returns `None` if none is stored.
    pub(super) async fn join_last_run(
        &self,
        route: &RouteEntry,
        thread_id: Option<&str>,
        request: &Request<RequestBody>,
    ) -> Result<Option<Response<ResponseBody>>, Rejection> {
        if route.resumable.is_none() {
            return Ok(None);
        }
        let cursor = check_join_request(route, request.method(), request.headers())?;
        let thread = thread_id.map(|id| thread_key(&route.name, caller_of(request), id));
        let mut kept = thread.and_then(|thread| self.replay.last_of_thread(&thread));
        if let (Some(own), Some(replication)) = (&kept, &self.replication)
            && replication.forget_replaced(own).await
        {
            kept = None;
        }
        if let (None, Some(shared), Some(thread)) = (&kept, &self.replication, thread)
            && let Some(run) = shared.last_of_thread(&thread).await?
        {
            kept = self.find_kept(route, route.client, caller_key(caller_of(request)), &run, cursor).await?;
        }
        let Some(kept) = kept else {
            return if cursor.is_some() { Err(RejectionKind::RunNotFound.into()) } else { Ok(None) };
        };
        // The first reader has missed nothing, and gets the events as originally sent.
        let from = if kept.log.had_readers() {
            reader_start(cursor)
        } else {
            cursor.map_or(ReadFrom::Start(now_millis()), ReadFrom::Cursor)
        };
        self.join(route, &kept, from, request.headers(), request.version()).map(Some)
    }

    pub(super) fn join(
        &self,
        route: &RouteEntry,
        kept: &StoredRun,
        from: ReadFrom,
        headers: &HeaderMap,
        version: Version,
    ) -> Result<Response<ResponseBody>, Rejection> {
        // Counted before the check, as when starting a run.
        let _permit = self.lifecycle.enter();
        if self.lifecycle.phase() == LifecyclePhase::Cut {
            return Err(RejectionKind::Draining.into());
        }
        let join = || kept.log.join(from, version == Version::HTTP_2, self.lifecycle.enter());
        let reader = match join() {
            // The run's replica copies it again, such as to a Redis that lost its data.
            Err(JoinError::Empty) if kept.is_remote && kept.log.is_open() => {
                return Err(RejectionKind::ReplayUnavailable.into());
            }
            // Only now: a reader that is refused for another reason must not evict runs.
            Err(JoinError::NoMemory) if self.replay.make_room_for_reader(kept, kept.log.retained_bytes()) => join()?,
            joined => joined?,
        };
        let after_number = if let ReadFrom::Cursor(cursor) = from { Some(cursor.number) } else { None };
        let token = kept.log.token;
        let run = RunInfo { route: &route.name, request_id: responses::request_id(headers), ids: &kept.ids };
        internal_event::ReaderJoined { run, token: token.as_str(), after_number }.emit();
        Ok(responses::event_stream(LogBody(reader).boxed_unsync(), Framing::Sse))
    }

    /// Stops a run unless it has ended.
    pub(super) async fn stop_run(
        &self,
        route: &RouteEntry,
        run_id: Option<&str>,
        request: &Request<RequestBody>,
    ) -> Result<Response<ResponseBody>, Rejection> {
        check_stop_request(request.method())?;
        let run = run_key(&route.name, caller_of(request), run_id.ok_or(RejectionKind::RunNotFound)?);
        let kept = self.replay.find(&run);
        if kept.as_ref().is_none_or(|kept| kept.is_remote) {
            // Even if this process follows the run, since it may stop following before it has sent the request.
            let replication = self.replication.as_ref().ok_or(RejectionKind::RunNotFound)?;
            if !replication.stop(&run).await? {
                return Err(RejectionKind::RunNotFound.into());
            }
        }
        let Some(kept) = kept else { return Ok(responses::run_stopped()) };
        let log = &kept.log;
        if log.is_open() {
            let run =
                RunInfo { route: &route.name, request_id: responses::request_id(request.headers()), ids: &kept.ids };
            internal_event::RunStopRequested { run, token: log.token.as_str() }.emit();
            log.stop();
        }
        Ok(responses::run_stopped())
    }
}

impl From<ReplicationUnavailable> for Rejection {
    fn from(ReplicationUnavailable: ReplicationUnavailable) -> Self {
        RejectionKind::ReplayUnavailable.into()
    }
}

impl From<JoinError> for Rejection {
    fn from(error: JoinError) -> Self {
        let kind = match error {
            JoinError::Cursor | JoinError::Empty => RejectionKind::CursorGone,
            JoinError::Full => RejectionKind::TooManyReaders,
            JoinError::NoMemory => RejectionKind::ReplayMemoryFull,
            JoinError::Discarded => RejectionKind::RunNotKept,
        };
        kind.into()
    }
}

/// Checks a GET request for events and returns its cursor.
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
        // Stored runs are in SSE, and protobuf has no event ids.
        Framing::Proto => Err(RejectionKind::NotAcceptable.into()),
    }
}

pub(super) fn check_stop_request(method: &Method) -> Result<(), Rejection> {
    if *method != Method::POST {
        return Err(Rejection::from(RejectionKind::MethodNotAllowed).with_detail("A run is stopped with POST."));
    }
    Ok(())
}
