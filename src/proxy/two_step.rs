//! Two-step clients: a POST reserves the run before the agent is called, and a GET reads its events.

use super::lifecycle::{LifecycleWatch, RunPermit};
use super::negotiation;
use super::pending_runs::{PendingRuns, RunReservation};
use super::pipe::PipeReader;
use super::responses::{self, ResponseBody, full_body};
use crate::codec::Framing;
use crate::config::header_names::LAST_EVENT_ID;
use crate::config::{self, PathTemplate};
use crate::dialect::PeerDialect;
use crate::error::{Rejection, RejectionKind};
use crate::guard::StreamPermit;
use crate::telemetry::internal_event::{self, RunInfo};
use crate::telemetry::metric::OpenRunGuard;
use crate::translate::RunIds;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Held while a client takes part in a run.
pub(super) struct ClientPermits {
    pub(super) _run: RunPermit,
    pub(super) _open_run: OpenRunGuard,
    pub(super) _stream: StreamPermit,
}

/// The location of a route's two-step events, and the runs that wait there.
pub(super) struct TwoStepEvents {
    pub(crate) path: PathTemplate,
    pending: PendingRuns<PipeReader<ClientPermits>>,
    reader_timeout: Duration,
}

pub(super) struct ReservedRun {
    reservation: RunReservation<PipeReader<ClientPermits>>,
    location: String,
    reader_timeout: Duration,
}

/// Identifies a waiting run in the log.
pub(super) struct RunLabels {
    pub(super) route: Arc<str>,
    pub(super) request_id: String,
    pub(super) ids: RunIds,
}

impl TwoStepEvents {
    /// Builds the events of a two-step route; runs that wait at `before` wait here, too.
    pub(super) fn new(route: &config::RouteConfig, before: Option<&TwoStepEvents>) -> Option<Self> {
        let path = route.events_path.clone()?;
        let pending = before.map(|before| before.pending.clone()).unwrap_or_default();
        Some(TwoStepEvents { path, pending, reader_timeout: route.timeouts.reader })
    }

    /// Returns the path of a run's events.
    ///
    /// # Errors
    /// The thread's id does not fit into the path.
    pub(super) fn events_path(&self, ids: &RunIds) -> Result<String, Rejection> {
        let thread_id = ids.thread_id.text().unwrap_or_default();
        // A run whose events could not be requested is not started.
        let path = self.path.fill(&thread_id, "");
        path.filter(|path| self.path.thread_id(path).flatten().as_deref() == Some(&*thread_id)).ok_or_else(|| {
            Rejection::from(RejectionKind::InvalidRequest)
                .with_detail("/threadId: does not fit into the path of the run's events")
        })
    }

    /// Reserves the entry of a run.
    ///
    /// # Errors
    /// The id does not fit into the path, another run of the thread waits, or too many wait.
    pub(super) fn register(&self, ids: &RunIds) -> Result<ReservedRun, Rejection> {
        let location = self.events_path(ids)?;
        let thread_id = ids.thread_id.text().unwrap_or_default().into_owned();
        let reservation = self.pending.reserve(thread_id)?;
        Ok(ReservedRun { reservation, location, reader_timeout: self.reader_timeout })
    }
}

impl ReservedRun {
    pub(super) fn accepted_response(&self, ids: &RunIds) -> Response<ResponseBody> {
        responses::run_accepted(ids, &self.location).map(full_body)
    }

    /// Offers the run to its client.
    pub(super) fn offer(
        self,
        reader: PipeReader<ClientPermits>,
        run: JoinHandle<()>,
        lifecycle: LifecycleWatch,
        labels: RunLabels,
    ) {
        self.reservation.offer(reader, run, self.reader_timeout, lifecycle, move |reader| {
            let RunLabels { route, request_id, ids } = &labels;
            let run = RunInfo { route, request_id, ids };
            internal_event::PendingRunExpired { run }.emit();
            reader.abandon();
        });
    }
}

/// Negotiates a GET of events on a route whose runs end with their clients.
pub(super) fn check_events_request(
    client: PeerDialect,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Framing, Rejection> {
    if *method != Method::GET {
        return Err(RejectionKind::EventsMethodNotAllowed.into());
    }
    let framing = negotiation::negotiate(headers, client)?;
    // Starting in the middle silently would lose what the client has not read.
    if headers.get(LAST_EVENT_ID).is_some_and(|id| !id.is_empty()) {
        return Err(RejectionKind::ResumptionUnsupported.into());
    }
    Ok(framing)
}

/// Serves the second step: the stream of a waiting run.
///
/// # Errors
/// The method is not GET, the framing is not available, or no run waits.
pub(super) fn serve_events(
    events: Option<&TwoStepEvents>,
    client: PeerDialect,
    thread_id: Option<&str>,
    request: &Request<Incoming>,
) -> Result<Response<ResponseBody>, Rejection> {
    let framing = check_events_request(client, request.method(), request.headers())?;
    // A waiting run is open: it can be read while the gateway drains.
    let reader = events.zip(thread_id).and_then(|(events, thread_id)| events.pending.take(thread_id));
    let reader = reader.ok_or(RejectionKind::EventsNotFound)?;
    reader.attach(request.version());
    Ok(responses::event_stream(reader.boxed_unsync(), framing))
}
