//! One exchange with an agent: the request as it is sent, and its answer as it comes.

use super::failure;
use super::lease::Lease;
use super::peer::Line;
use super::target::Target;
use crate::config::Upstream;
use crate::config::field::{LAST_EVENT_ID, REQUEST_ID, TRACEPARENT, TRACESTATE};
use crate::error::{Kind, Rejection};
use crate::telemetry::label::Method;
use crate::telemetry::trace::{Call, Calls};
use bytes::Bytes;
use http::header;
use pingora_core::BError;
use pingora_core::protocols::http::client::HttpSession;
use pingora_http::{RequestHeader, ResponseHeader};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Most time for writing the head of a request, and again for its body: a connection that takes neither is dead. `first_byte`
/// ends it as well; this is for where the operator made that very long.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long an agent that took no more of a request over HTTP/2 may take to say why.
const WHY_TIMEOUT: Duration = Duration::from_secs(1);

/// What a request says about the sender.
const USER_AGENT: &str = concat!("diglot/", env!("CARGO_PKG_VERSION"));

/// A request on its way to an agent.
pub(in crate::proxy) struct Outgoing<'a> {
    /// what is asked for
    pub errand: Errand<'a>,
    /// the request's id, passed on
    pub request_id: &'a str,
    /// what makes its span, which the agent is told of
    pub calls: &'a Calls,
    /// what the agent hears about the caller; fields of the request itself are not among it, or overruled
    pub fields: &'a http::HeaderMap,
}

/// What an agent is asked for.
pub(in crate::proxy) enum Errand<'a> {
    /// a run, and its events in the answer; JSON
    Run(Bytes),
    /// a run, whose events are asked for afterwards; JSON
    Start(Bytes),
    /// the events of a run that was started
    Events {
        /// path and query
        path: &'a str,
        /// those behind this one; all of them where it is `None`
        behind: Option<&'a str>,
    },
}

impl Outgoing<'_> {
    /// Its method, and its path with its query.
    fn line<'l>(&'l self, upstream: &'l Upstream) -> (http::Method, &'l str) {
        match &self.errand {
            Errand::Run(_) | Errand::Start(_) => (http::Method::POST, upstream.path_and_query.as_str()),
            Errand::Events { path, .. } => (http::Method::GET, path),
        }
    }

    /// Its span, which begins now. A query may hold a secret of the operator's.
    pub(in crate::proxy) fn call(&self, upstream: &Upstream, label: &str) -> Call {
        let (method, path) = self.line(upstream);
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        self.calls.begin(Method::of(method.as_str()), label, path)
    }
}

impl Errand<'_> {
    /// Whether it does no harm to ask twice: reading does not, starting a run does.
    pub(super) fn may_be_repeated(&self) -> bool {
        matches!(self, Errand::Events { .. })
    }
}

/// The address of an agent that took a run, to be asked for more of it.
#[derive(Clone, Debug)]
pub(in crate::proxy) struct Place(pub(super) Arc<Target>);

/// One exchange with an agent. Its run counts as one of the address until it is dropped.
pub(in crate::proxy) struct Session {
    pub(super) line: Line,
    pub(super) lease: Lease,
    pub(super) call: Call,
}

/// Why there is no answer, and what that leaves open.
pub(super) enum Unanswered {
    /// no run can have begun: the agent did not get a whole request, or says that it did nothing with it
    Unprocessed(Rejection),
    /// it may have begun
    Open(Rejection),
}

impl Unanswered {
    pub(super) fn rejection(&self) -> &Rejection {
        match self {
            Unanswered::Unprocessed(rejection) | Unanswered::Open(rejection) => rejection,
        }
    }

    pub(super) fn into_rejection(self) -> Rejection {
        match self {
            Unanswered::Unprocessed(rejection) | Unanswered::Open(rejection) => rejection,
        }
    }
}

impl Session {
    /// Who was asked.
    pub(in crate::proxy) fn at(&self) -> Place {
        Place(Arc::clone(self.lease.target()))
    }

    /// The upstream that was asked, as metrics call it.
    pub(in crate::proxy) fn upstream(&self) -> Arc<str> {
        self.lease.upstream()
    }

    /// The exchange has come to its end, with the agent's words or with another's.
    pub(in crate::proxy) fn over(&mut self, failure: Option<&Rejection>) {
        match failure {
            Some(failure) => self.call.failed(failure),
            None => self.call.end(),
        }
    }

    /// Sends a request and reads the head of its answer.
    pub(super) async fn ask(&mut self, upstream: &Upstream, request: &Outgoing<'_>) -> Result<(), Unanswered> {
        let head = head(upstream, request, &self.call);
        let head = head.map_err(|error| Unanswered::Open(Rejection::from(Kind::Internal).cause(error)))?;
        let inner = self.line.session_mut();
        inner.set_write_timeout(Some(WRITE_TIMEOUT));
        let broken = |error: &BError| Rejection::from(Kind::UpstreamReset).cause(error);
        // Whoever did not even get the head has no request: "only if no byte was sent" that could begin a run.
        let sent = inner.write_request_header(Box::new(head)).await;
        sent.map_err(|error| Unanswered::Unprocessed(broken(&error)))?;
        let sent = async {
            if let Errand::Run(body) | Errand::Start(body) = &request.errand {
                inner.write_request_body(body.clone(), true).await?;
            }
            inner.finish_request_body().await
        };
        if let Err(error) = sent.await {
            return Err(self.refused(&error).await.unwrap_or_else(|| Unanswered::Open(broken(&error))));
        }
        self.head().await
    }

    /// Why an agent takes no more of a request, where it says so.
    async fn refused(&mut self, error: &BError) -> Option<Unanswered> {
        let rejection = Rejection::from(Kind::UpstreamReset).cause(error);
        if failure::is_unprocessed(error) {
            return Some(Unanswered::Unprocessed(rejection));
        }
        let HttpSession::H2(_) = self.line.session() else { return None };
        timeout(WHY_TIMEOUT, self.head()).await.ok()?.err()
    }

    /// Reads the head of the response, past any 1xx.
    async fn head(&mut self) -> Result<(), Unanswered> {
        let inner = self.line.session_mut();
        loop {
            inner.read_response_header().await.map_err(|error| {
                let rejection = failure::head(&error);
                if failure::is_unprocessed(&error) {
                    Unanswered::Unprocessed(rejection)
                } else {
                    Unanswered::Open(rejection)
                }
            })?;
            // With HTTP/2 those before the last are not shown, and it is read once.
            let shown = matches!(inner, HttpSession::H1(_));
            match inner.response_header().map(|head| head.status) {
                Some(status)
                    if shown && status.is_informational() && status != http::StatusCode::SWITCHING_PROTOCOLS => {}
                _ => return Ok(()),
            }
        }
    }

    /// The head that was read.
    pub(in crate::proxy) fn response(&self) -> Option<&ResponseHeader> {
        self.line.session().response_header()
    }

    /// Reads what there is of the body into `take`: at least one piece, `false` at the end. May be dropped while waiting.
    ///
    /// A refusal is boxed, so that runs that wait keep little room for one.
    pub(in crate::proxy) async fn body(&mut self, take: impl FnOnce(&[u8])) -> Result<bool, Box<Rejection>> {
        let read = match self.line.session_mut() {
            HttpSession::H1(session) => match session.read_body_ref().await {
                Ok(Some(piece)) => {
                    take(piece);
                    Ok(true)
                }
                Ok(None) => Ok(false),
                Err(error) => Err(error),
            },
            session => match session.read_response_body().await {
                Ok(Some(piece)) => {
                    take(&piece);
                    Ok(true)
                }
                Ok(None) => Ok(false),
                Err(error) => Err(error),
            },
        };
        read.map_err(|error| Box::new(failure::read(&error)))
    }
}

/// The head of a request, as it goes out.
pub(in crate::proxy) fn head(
    upstream: &Upstream,
    request: &Outgoing<'_>,
    call: &Call,
) -> Result<RequestHeader, BError> {
    let (method, path) = request.line(upstream);
    // "`*/*` or `application/*` admits" protobuf at some agents, so the wish is explicit [specs §4.4].
    let accept = match &request.errand {
        Errand::Run(_) | Errand::Events { .. } => "text/event-stream",
        Errand::Start(_) => "application/json",
    };
    let mut head = RequestHeader::build_no_case(method, path.as_bytes(), Some(8))?;
    for (name, value) in request.fields {
        head.append_header(name, value)?;
    }
    head.insert_header(header::HOST, upstream.authority())?;
    match &request.errand {
        Errand::Run(body) | Errand::Start(body) => {
            head.insert_header(header::CONTENT_TYPE, "application/json")?;
            // Legacy agents often cannot read chunks, so the length is always said.
            head.insert_header(header::CONTENT_LENGTH, body.len().to_string())?;
        }
        Errand::Events { behind: Some(id), .. } => head.insert_header(LAST_EVENT_ID, id.as_bytes())?,
        Errand::Events { behind: None, .. } => {}
    }
    head.insert_header(header::ACCEPT, accept)?;
    head.insert_header(header::ACCEPT_ENCODING, "identity")?;
    head.insert_header(header::USER_AGENT, USER_AGENT)?;
    head.insert_header(REQUEST_ID, request.request_id)?;
    let (traceparent, tracestate) = call.fields();
    for (name, value) in [(TRACEPARENT, traceparent.as_ref()), (TRACESTATE, tracestate)] {
        if let Some(value) = value {
            head.insert_header(name, value)?;
        }
    }
    Ok(head)
}
