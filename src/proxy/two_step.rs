//! Two-step clients: a POST reserves a run before calling the agent, and a GET reads the run's events.

use super::lifecycle::RunPermit;
use super::negotiation;
use super::pending_runs::{PendingKey, PendingRuns, RunReservation};
use super::pipe::PipeReader;
use super::request_body::RequestBody;
use super::responses::{self, ResponseBody};
use super::run_keys::{caller_key, caller_of, thread_key};
use crate::codec::Framing;
use crate::config::header_names::LAST_EVENT_ID;
use crate::config::{self, PathTemplate};
use crate::dialect::PeerDialect;
use crate::error::{Rejection, RejectionKind};
use crate::policy::{CallerContext, StreamPermit};
use crate::telemetry::metric::OpenRunGuard;
use crate::translate::RunIds;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::BodyExt;
use std::time::Duration;

pub(super) struct ClientPermits {
    pub(super) _run: RunPermit,
    pub(super) _open_run: OpenRunGuard,
    pub(super) _stream: StreamPermit,
}

pub(super) struct TwoStepEvents {
    route: String,
    pub(crate) path: PathTemplate,
    pending: PendingRuns<PipeReader>,
    reader_timeout: Duration,
}

impl TwoStepEvents {
    pub(super) fn new(route: &config::RouteConfig, before: Option<&TwoStepEvents>) -> Option<Self> {
        let path = route.events_path.clone()?;
        let pending = before.map(|before| before.pending.clone()).unwrap_or_default();
        Some(TwoStepEvents { route: route.name.clone(), path, pending, reader_timeout: route.timeouts.reader })
    }

    pub(super) fn events_path(&self, ids: &RunIds) -> Result<String, Rejection> {
        let thread_id = ids.thread_id.text().unwrap_or_default();
        // A run is not started if its events could not be requested.
        let path = self.path.fill(&thread_id, "");
        path.filter(|path| self.path.extract_id(path).is_some_and(|id| id.as_deref() == Ok(&*thread_id))).ok_or_else(
            || {
                Rejection::from(RejectionKind::InvalidRequest)
                    .with_detail("/threadId: does not fit into the path of the run's events")
            },
        )
    }

    pub(super) fn reserve(
        &self,
        caller: &CallerContext,
        ids: &RunIds,
    ) -> Result<RunReservation<PipeReader>, Rejection> {
        let thread_id = ids.thread_id.text().unwrap_or_default();
        let thread = thread_key(&self.route, caller, &thread_id);
        self.pending.reserve(PendingKey { thread, caller: caller_key(caller) }, self.reader_timeout)
    }

    /// Takes the run that the request's caller has started in this thread.
    fn take(&self, thread_id: &str, request: &Request<RequestBody>) -> Option<PipeReader> {
        self.pending.take(&thread_key(&self.route, caller_of(request), thread_id))
    }
}

/// Checks a GET request for events on a route whose runs end when their clients disconnect.
pub(super) fn check_events_request(
    client: PeerDialect,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Framing, Rejection> {
    if *method != Method::GET {
        return Err(RejectionKind::EventsMethodNotAllowed.into());
    }
    let framing = negotiation::negotiate(headers, client)?;
    // Silently starting in the middle would lose what the client has not read.
    if headers.get(LAST_EVENT_ID).is_some_and(|id| !id.is_empty()) {
        return Err(RejectionKind::ResumptionUnsupported.into());
    }
    Ok(framing)
}

pub(super) fn serve_events(
    events: Option<&TwoStepEvents>,
    client: PeerDialect,
    thread_id: Option<&str>,
    request: &Request<RequestBody>,
) -> Result<Response<ResponseBody>, Rejection> {
    let framing = check_events_request(client, request.method(), request.headers())?;
    // Waiting runs are open, so they can be read while the gateway drains.
    let reader = events.zip(thread_id).and_then(|(events, thread_id)| events.take(thread_id, request));
    let reader = reader.ok_or(RejectionKind::EventsNotFound)?;
    reader.attach(request.version());
    Ok(responses::event_stream(reader.boxed_unsync(), framing))
}
