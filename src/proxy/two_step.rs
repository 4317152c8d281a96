//! Where clients of two steps find their events: a run gets its place before the agent is asked, and a GET takes it there.

use super::accept;
use super::gateway::{Body, Route, whole};
use super::lifecycle::{Permit, Watch};
use super::pipe::Reader;
use super::respond;
use super::waiting::{Seat, Waiting};
use crate::codec::Framing;
use crate::config::field::LAST_EVENT_ID;
use crate::config::{self, Template};
use crate::error::{Kind, Rejection};
use crate::guard::Permits;
use crate::telemetry::metric::Active;
use crate::telemetry::occurrence::{self, Which};
use crate::translate::Ids;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// What is held while a client takes part in a run.
pub(super) type Held = (Permit, Active, Permits);

/// Where a route's clients of two steps find their events, and the runs that wait for them there.
#[derive(Debug)]
pub(super) struct Desk {
    pub path: Template,
    waiting: Waiting<Reader<Held>>,
    patience: Duration,
}

/// A run's place among those that wait, and where its client finds it.
pub(super) struct Seated {
    seat: Seat<Reader<Held>>,
    events: String,
    patience: Duration,
}

impl Desk {
    /// The desk of a route, if it has one. Runs that wait at the one before wait here.
    pub(super) fn new(route: &config::Route, before: Option<&Desk>) -> Option<Self> {
        let path = route.events_path.clone()?;
        let waiting = before.map(|desk| desk.waiting.clone()).unwrap_or_default();
        Some(Desk { path, waiting, patience: route.timeouts.reader })
    }

    /// Where the events of a run are found.
    ///
    /// # Errors
    /// Its client could not ask for them.
    pub(super) fn place(&self, ids: &Ids) -> Result<String, Rejection> {
        let thread_id = ids.thread_id.text().unwrap_or_default();
        // What cannot be asked for again is not begun.
        let own = |path: &String| self.path.thread_id(path).flatten().as_deref() == Some(&*thread_id);
        self.path.fill(&thread_id, "").filter(own).ok_or_else(|| {
            Rejection::from(Kind::InvalidRequest).detail("/threadId: cannot stand in the path of the run's events")
        })
    }

    /// Takes the place of a run.
    ///
    /// # Errors
    /// Its client could not ask for it, another run of the thread waits, or too many wait.
    pub(super) fn seat(&self, ids: &Ids) -> Result<Seated, Rejection> {
        let events = self.place(ids)?;
        let thread_id = ids.thread_id.text().unwrap_or_default().into_owned();
        let seat = self.waiting.reserve(thread_id)?;
        Ok(Seated { seat, events, patience: self.patience })
    }
}

impl Seated {
    /// The answer to the first step.
    pub(super) fn accepted(&self, ids: &Ids) -> Response<Body> {
        respond::accepted(ids, &self.events).map(whole)
    }

    /// Leaves the run to whoever comes for it in time.
    pub(super) fn offer(
        self,
        reader: Reader<Held>,
        run: JoinHandle<()>,
        lifecycle: Watch,
        (route, request_id, ids): (Arc<str>, String, Ids),
    ) {
        let Seated { seat, patience, .. } = self;
        seat.offer(reader, run, patience, lifecycle, move |reader| {
            let run = Which { route: &route, request_id: &request_id, ids: &ids };
            occurrence::Unread { run }.emit();
            reader.give_up();
        });
    }
}

/// What a GET of events may be, where runs end with their clients.
pub(super) fn reading(route: &Route, method: &Method, headers: &HeaderMap) -> Result<Framing, Rejection> {
    if *method != Method::GET {
        return Err(Kind::EventsMethod.into());
    }
    let framing = accept::framing(headers, route.client)?;
    // Silently beginning in the middle would lose what the client has not read.
    if headers.get(LAST_EVENT_ID).is_some_and(|id| !id.is_empty()) {
        return Err(Kind::ResumptionUnsupported.into());
    }
    Ok(framing)
}

/// The second step: the stream of a run that waits for it.
///
/// # Errors
/// It is no GET, asks for what there is not, or nothing waits there.
pub(super) fn events(
    route: &Route,
    thread_id: Option<&str>,
    request: &Request<Incoming>,
) -> Result<Response<Body>, Rejection> {
    let framing = reading(route, request.method(), request.headers())?;
    // A run that waits is open: it may be read while the gateway drains.
    let waiting = route.desk.as_ref().map(|desk| &desk.waiting);
    let reader = waiting.zip(thread_id).and_then(|(waiting, thread_id)| waiting.take(thread_id));
    let reader = reader.ok_or(Kind::NothingToRead)?;
    reader.attach(request.version());
    Ok(respond::stream(reader.boxed_unsync(), framing))
}
