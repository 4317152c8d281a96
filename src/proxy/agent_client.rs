//! How an agent is asked: in one step, whose answer is the stream, or in two.
//!
//! ```text
//!   POST the run ──▶ 2xx, JSON ──▶ GET its events ──▶ the stream ── breaks ──▶ GET what is behind the last id
//!                    names ids       all of them                                 (a few times)
//! ```
//! The events are asked for without an id first: an agent of two steps keeps what it said since the POST and begins there,
//! so nothing is lost in between (`seeds/004`, §1: "从 Redis Stream 读取并输出 SSE").

use super::answer::{judge, started};
use super::upstream::{Cluster, Connector, Errand, Outgoing, Place, Session};
use crate::codec::Framing;
use crate::config::Template;
use crate::error::{Kind, Rejection};
use crate::telemetry::trace::Calls;
use crate::translate::Ids;
use bytes::Bytes;
use http::HeaderMap;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// How long is waited before each request to go on, as long as none brings anything new. So many are made.
const PATIENCE: [Duration; 3] = [Duration::from_millis(100), Duration::from_millis(300), Duration::from_secs(1)];

/// Most of what an agent asks to wait (`retry`).
const RETRY_LIMIT: Duration = Duration::from_secs(5);

/// Who asks, and whom.
#[derive(Clone)]
pub(super) struct Call {
    pub cluster: Arc<Cluster>,
    pub connector: Arc<Connector>,
    pub request_id: String,
    /// what makes the spans of what is asked
    pub calls: Calls,
    /// what the agent hears about the caller, in both steps
    pub fields: Arc<HeaderMap>,
}

impl Call {
    /// Asks for a run, and gives its stream.
    pub(super) async fn run(self, body: Bytes, framings: &[Framing]) -> Result<(Box<Session>, Framing), Rejection> {
        let mut session = self.cluster.send(&self.connector, &self.outgoing(Errand::Run(body))).await?;
        let judged = judge(&mut session, framings).await;
        let framing = judged.inspect_err(|why| session.over(Some(why)))?;
        Ok((session, framing))
    }

    /// Starts a run, and gives the place of its events.
    pub(super) async fn start(self, body: Bytes, ids: &Ids, template: &Template) -> Result<Events, Rejection> {
        let (thread_id, run_id) = (ids.thread_id.text().unwrap_or_default(), ids.run_id.text().unwrap_or_default());
        let own = template.fill(&thread_id, &run_id).ok_or_else(|| {
            Rejection::from(Kind::InvalidRequest).detail("The ids of the run cannot stand in the path of its events.")
        })?;
        let mut session = self.cluster.send(&self.connector, &self.outgoing(Errand::Start(body))).await?;
        let named = started(&mut session).await.inspect_err(|why| session.over(Some(why)))?;
        let at = session.at();
        self.cluster.release(&self.connector, session).await;
        let path = if named.thread_id.is_none() && named.run_id.is_none() {
            own
        } else {
            let thread_id = named.thread_id.map_or(thread_id, Cow::Owned);
            let run_id = named.run_id.as_deref().unwrap_or(&run_id);
            template.fill(&thread_id, run_id).ok_or_else(|| {
                let what = "The agent named its run with an id that cannot stand in a path.";
                Rejection::from(Kind::UpstreamContentType).detail(what)
            })?
        };
        Ok(Events { call: self, at, path, run_id: named.run_id })
    }

    fn outgoing<'a>(&'a self, errand: Errand<'a>) -> Outgoing<'a> {
        Outgoing { errand, request_id: &self.request_id, calls: &self.calls, fields: &self.fields }
    }
}

/// The events of a run that was started.
pub(super) struct Events {
    call: Call,
    at: Place,
    path: String,
    /// what the agent calls the run, when it said so
    pub run_id: Option<String>,
}

impl Events {
    /// Asks for the events, all of them or those behind the id.
    pub(super) async fn open(&self, behind: Option<&str>) -> Result<Box<Session>, Rejection> {
        let Call { cluster, connector, .. } = &self.call;
        let request = self.call.outgoing(Errand::Events { path: &self.path, behind });
        let mut session = cluster.fetch(connector, &self.at, &request).await?;
        // Ids, and so going on, are SSE's.
        judge(&mut session, &[Framing::Sse]).await.inspect_err(|why| session.over(Some(why)))?;
        Ok(session)
    }
}

/// How often the agent was asked to go on from where it is.
#[derive(Debug, Default)]
pub(super) struct Tries {
    behind: Option<Box<str>>,
    made: usize,
}

impl Tries {
    /// How long to wait before the agent is asked for what is behind `id`, and `None` when it was asked often enough.
    /// Whatever new came since the last time makes it worth as many tries again.
    pub(super) fn next(&mut self, id: &str, retry: Option<Duration>) -> Option<Duration> {
        if self.behind.as_deref() != Some(id) {
            (self.behind, self.made) = (Some(id.into()), 0);
        }
        let wait = *PATIENCE.get(self.made)?;
        self.made += 1;
        Some(wait.max(retry.unwrap_or_default().min(RETRY_LIMIT)))
    }
}

/// Whether a failed attempt to go on leaves hope: an agent that answers, but no stream, has said that it will not.
pub(super) fn may_come_back(failure: &Rejection) -> bool {
    matches!(
        failure.kind,
        Kind::UpstreamUnreachable | Kind::UpstreamTimeout | Kind::UpstreamReset | Kind::UpstreamTruncated
    )
}

/// Whether a stream that ended so broke off, and may go on over another connection.
pub(super) fn is_break(failure: &Rejection) -> bool {
    matches!(failure.kind, Kind::UpstreamReset | Kind::UpstreamTruncated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_asked_a_few_times_and_again_when_it_went_on() {
        let mut tries = Tries::default();
        for wait in PATIENCE {
            assert_eq!(tries.next("1", None), Some(wait));
        }
        assert_eq!(tries.next("1", None), None);
        assert_eq!(tries.next("2", Some(Duration::from_secs(2))), Some(Duration::from_secs(2)));
        assert_eq!(tries.next("2", Some(Duration::MAX)), Some(RETRY_LIMIT));
    }
}
