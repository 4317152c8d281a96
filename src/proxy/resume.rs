//! Coming back to a run that goes on without its client, or that has ended and is kept.
//!
//! ```text
//!   POST path, Last-Event-ID, same ids ─────╮                        ╭─▶ behind the event: what was missed, then what comes
//!   POST path, same ids, same body ─────────┼─▶ the run of the key ──┤
//!   GET  path/runs/{runId}/events ──────────╯    of this caller      ╰─▶ without one: a prelude, then what comes
//!   POST path/runs/{runId}/stop ─────────────────────────────────────▶ it ends, `cancelled`
//! ```
//! A run is found by its route, its caller and its id. Whose it is not, for them there is no such run.

use super::accept;
use super::clock::now;
use super::gateway::{Body, Gateway, Route, whole};
use super::lifecycle::Phase;
use super::respond;
use super::tail::Tail;
use crate::codec::Framing;
use crate::config::Template;
use crate::config::field::{LAST_EVENT_ID, REQUEST_ID};
use crate::dialect::Side;
use crate::error::{Kind, Rejection};
use crate::guard::{Matched, Who, digest};
use crate::replay::{Away, Cursor, From, Kept, Key, Token, Unfound, Unjoined, Wanted};
use crate::telemetry::occurrence::{self, Which};
use crate::translate::Ids;
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
pub(super) struct Resumable {
    pub events: Template,
    pub stop: Template,
    /// how long they go on without anybody
    pub alone: Duration,
    /// what the guard knows of the route, for whoever comes back
    pub joining: Arc<Matched>,
    pub stopping: Arc<Matched>,
}

impl Resumable {
    pub(super) fn new(path: &str, alone: Duration, joining: Arc<Matched>, stopping: Arc<Matched>) -> Self {
        let [events, stop] = Template::of_runs(path);
        Resumable { events, stop, alone, joining, stopping }
    }
}

/// By what a run, its thread and what was asked of it are known again.
pub(super) struct Keys {
    pub run: Key,
    pub thread: Key,
    pub body: Key,
}

impl Keys {
    pub(super) fn new(route: &Route, who: &Who, ids: &Ids, body: Key) -> Self {
        let (run_id, thread_id) = (ids.run_id.text().unwrap_or_default(), ids.thread_id.text().unwrap_or_default());
        Keys { run: run_key(route, who, &run_id), thread: thread_key(route, who, &thread_id), body }
    }
}

/// The same id of another caller, or on another route, is another run.
fn run_key(route: &Route, who: &Who, id: &str) -> Key {
    key("run", route, who, id)
}

fn thread_key(route: &Route, who: &Who, id: &str) -> Key {
    key("thread", route, who, id)
}

fn key(what: &str, route: &Route, who: &Who, id: &str) -> Key {
    let who = who.known();
    let (source, subject) = (who.map(|who| &*who.source), who.map(|who| who.subject.as_str()));
    let tenant = who.and_then(|who| who.tenant.as_deref());
    digest::of_parts(&[Some(what), Some(&route.name), source, tenant, subject, Some(id)])
}

/// A token that nobody guesses.
pub(super) fn token() -> Token {
    Token::new(RandomState::new().hash_one(Uuid::now_v7()))
}

/// Behind which event a client wants to read on.
///
/// # Errors
/// That it is no event of ours.
pub(super) fn cursor(headers: &HeaderMap) -> Result<Option<Cursor>, Rejection> {
    let mut lines = headers.get_all(LAST_EVENT_ID).iter().filter(|line| !line.is_empty());
    let Some(line) = lines.next() else { return Ok(None) };
    let cursor = line.to_str().ok().and_then(Cursor::parse).filter(|_| lines.next().is_none());
    cursor.map(Some).ok_or_else(|| Kind::InvalidCursor.into())
}

/// Where a client begins to read that may know the run.
pub(super) fn from(cursor: Option<Cursor>) -> From {
    cursor.map_or_else(|| From::Prelude(now()), From::Cursor)
}

impl Gateway {
    /// The run that a request for one joins, if it joins any.
    ///
    /// # Errors
    /// It wants to read on in a run that there is not, or begin another one under the id of a run that goes on.
    pub(super) async fn known(
        &self,
        route: &Route,
        client: Side,
        keys: &Keys,
        cursor: Option<Cursor>,
    ) -> Result<Option<Arc<Kept>>, Rejection> {
        let kept = match self.kept(route, client, &keys.run, cursor).await {
            Ok(kept) => kept,
            // A run that may have been asked for elsewhere is asked for again rather than not at all.
            Err(why) if why.kind == Kind::ReplayUnavailable && cursor.is_none() => None,
            Err(away) => return Err(away),
        };
        match (kept, cursor) {
            (Some(kept), Some(_)) if kept.thread == keys.thread => Ok(Some(kept)),
            (_, Some(_)) => Err(Kind::RunNotFound.into()),
            (Some(kept), None) if kept.body == keys.body => Ok(Some(kept)),
            (Some(kept), None) if kept.log.is_open() => Err(Kind::RunIdTaken.into()),
            (_, None) => Ok(None),
        }
    }

    /// A run of this replica, or of another one.
    ///
    /// # Errors
    /// That it may exist.
    async fn kept(
        &self,
        route: &Route,
        client: Side,
        run: &Key,
        cursor: Option<Cursor>,
    ) -> Result<Option<Arc<Kept>>, Rejection> {
        if let Some(kept) = self.replay.find(run).filter(|kept| !kept.elsewhere) {
            return Ok(Some(kept));
        }
        let Some(shared) = self.shared.as_ref().filter(|_| route.resumable.is_some()) else { return Ok(None) };
        let mut lifecycle = self.lifecycle.watch();
        let cut = async move { lifecycle.cut().await };
        let found = shared.find(Wanted { run: *run, side: client, cursor }, cut.boxed()).await;
        found.map_err(|why| match why {
            Unfound::Away => away(Away),
            Unfound::TooLarge => Kind::RunNotKept.into(),
        })
    }

    /// GET of a run by its id.
    ///
    /// # Errors
    /// It is no GET, or there is no such run for the caller, or it cannot be read from there on.
    pub(super) async fn join_again(
        &self,
        route: &Route,
        run_id: Option<&str>,
        request: &Request<Incoming>,
    ) -> Result<Response<Body>, Rejection> {
        let cursor = reading(route, request.method(), request.headers())?;
        let run = run_key(route, who(request), run_id.ok_or(Kind::RunNotFound)?);
        let kept = self.kept(route, route.client, &run, cursor).await?.ok_or(Kind::RunNotFound)?;
        self.join(route, &kept, from(cursor), request.headers(), request.version())
    }

    /// GET of the last run of a thread, on a route of two steps. `None` where no run of the thread is kept.
    ///
    /// # Errors
    /// As [`Gateway::join_again`].
    pub(super) async fn events_again(
        &self,
        route: &Route,
        thread_id: Option<&str>,
        request: &Request<Incoming>,
    ) -> Result<Option<Response<Body>>, Rejection> {
        if route.resumable.is_none() {
            return Ok(None);
        }
        let cursor = reading(route, request.method(), request.headers())?;
        let thread = thread_id.map(|id| thread_key(route, who(request), id));
        let mut kept = thread.and_then(|thread| self.replay.last(&thread));
        if let (None, Some(shared), Some(thread)) = (&kept, &self.shared, thread)
            && let Some(run) = shared.last(&thread).await.map_err(away)?
        {
            kept = self.kept(route, route.client, &run, cursor).await?;
        }
        let Some(kept) = kept else {
            return if cursor.is_some() { Err(Kind::RunNotFound.into()) } else { Ok(None) };
        };
        // Who comes first has heard nothing, and gets what was said as it was said.
        let from = if kept.log.was_read() { from(cursor) } else { cursor.map_or(From::Start(now()), From::Cursor) };
        self.join(route, &kept, from, request.headers(), request.version()).map(Some)
    }

    /// Lets a client read a run.
    ///
    /// # Errors
    /// It cannot be read from there on, or too many read it, or the process is at its end.
    pub(super) fn join(
        &self,
        route: &Route,
        kept: &Kept,
        from: From,
        headers: &HeaderMap,
        version: Version,
    ) -> Result<Response<Body>, Rejection> {
        // First counted, then asked, as for a run.
        let permit = self.lifecycle.enter();
        if self.lifecycle.phase() == Phase::Cut {
            return Err(Kind::Draining.into());
        }
        let reader = kept.log.join(from, version == Version::HTTP_2, permit).map_err(unjoined)?;
        let behind = if let From::Cursor(cursor) = from { Some(cursor.number) } else { None };
        let token = kept.log.token();
        let run = Which { route: &route.name, request_id: request_id(headers), ids: &kept.ids };
        occurrence::Joined { run, token: token.as_str(), behind }.emit();
        Ok(respond::stream(Tail(reader).boxed_unsync(), Framing::Sse))
    }

    /// POST that stops a run. One that has ended stays as it is.
    ///
    /// # Errors
    /// It is no POST, or there is no such run for the caller.
    pub(super) async fn stop(
        &self,
        route: &Route,
        run_id: Option<&str>,
        request: &Request<Incoming>,
    ) -> Result<Response<Body>, Rejection> {
        stopping(request.method())?;
        let run = run_key(route, who(request), run_id.ok_or(Kind::RunNotFound)?);
        let Some(kept) = self.replay.find(&run) else {
            let shared = self.shared.as_ref().ok_or(Kind::RunNotFound)?;
            let known = shared.stop(&run).await.map_err(away)?;
            return if known { Ok(respond::stopped().map(whole)) } else { Err(Kind::RunNotFound.into()) };
        };
        let log = &kept.log;
        if log.is_open() {
            let run = Which { route: &route.name, request_id: request_id(request.headers()), ids: &kept.ids };
            occurrence::Stopped { run, token: log.token().as_str() }.emit();
            log.stop();
        }
        Ok(respond::stopped().map(whole))
    }
}

/// The refusal of somebody who asks for a run that may be another replica's.
pub(super) fn away(Away: Away) -> Rejection {
    Rejection { retry_after: Some("1".to_owned()), ..Kind::ReplayUnavailable.into() }
}

/// What a GET of events may be, and from where on it reads.
pub(super) fn reading(route: &Route, method: &Method, headers: &HeaderMap) -> Result<Option<Cursor>, Rejection> {
    if *method != Method::GET {
        return Err(Kind::EventsMethod.into());
    }
    match accept::framing(headers, route.client)? {
        Framing::Sse => cursor(headers),
        // Runs are kept as they left, and that wire has no ids.
        Framing::Proto => Err(Kind::NotAcceptable.into()),
    }
}

/// Refuses what asks for the end of a run in another way than it is asked for.
pub(super) fn stopping(method: &Method) -> Result<(), Rejection> {
    if *method != Method::POST {
        return Err(Rejection::from(Kind::MethodNotAllowed).detail("A run is stopped with POST."));
    }
    Ok(())
}

fn who(request: &Request<Incoming>) -> &Who {
    static NOBODY: std::sync::LazyLock<Who> = std::sync::LazyLock::new(Who::default);
    request.extensions().get::<Who>().unwrap_or(&NOBODY)
}

fn request_id(headers: &HeaderMap) -> &str {
    headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).unwrap_or_default()
}

/// The refusal of somebody who cannot join.
pub(super) fn unjoined(why: Unjoined) -> Rejection {
    match why {
        Unjoined::Cursor => Kind::CursorGone,
        Unjoined::Full => Kind::TooManyReaders,
        Unjoined::GivenUp => Kind::RunNotKept,
    }
    .into()
}
