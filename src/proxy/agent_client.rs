//! How an agent is asked: in one step, whose answer is the stream, or in two.
//!
//! ```text
//!   POST the run ──▶ 2xx, JSON ──▶ GET its events ──▶ the stream ── breaks ──▶ GET what is behind the last id
//!                    names ids       all of them                                 (a few times)
//! ```
//! The events are asked for without an id first: an agent of two steps keeps what it said since the POST and begins there,
//! so nothing is lost in between (`seeds/004`, §1: "从 Redis Stream 读取并输出 SSE").

use super::agent_response::{check_stream_response, read_start_response};
use super::upstream::{AgentOperation, Cluster, Connector, EndpointRef, Session, UpstreamRequest};
use crate::codec::Framing;
use crate::config::PathTemplate;
use crate::error::{Rejection, RejectionKind};
use crate::telemetry::trace::UpstreamSpanBuilder;
use crate::translate::RunIds;
use bytes::Bytes;
use http::HeaderMap;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// How long is waited before each request to go on, as long as none brings anything new. So many are made.
const RECONNECT_DELAYS: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_millis(300), Duration::from_secs(1)];

/// Most of what an agent asks to wait (`retry`).
const RETRY_LIMIT: Duration = Duration::from_secs(5);

/// Who asks, and whom.
#[derive(Clone)]
pub(super) struct AgentClient {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) connector: Arc<Connector>,
    pub(crate) request_id: String,
    /// what makes the spans of what is asked
    pub(crate) spans: UpstreamSpanBuilder,
    /// what the agent hears about the caller, in both steps
    pub(crate) fields: Arc<HeaderMap>,
}

impl AgentClient {
    /// Asks for a run, and gives its stream.
    pub(super) async fn run_one_step(
        self,
        body: Bytes,
        framings: &[Framing],
    ) -> Result<(Box<Session>, Framing), Rejection> {
        let mut session = self.cluster.send(&self.connector, &self.upstream_request(AgentOperation::Run(body))).await?;
        let judged = check_stream_response(&mut session, framings).await;
        let framing = judged.inspect_err(|why| session.finish(Some(why)))?;
        Ok((session, framing))
    }

    /// Starts a run, and gives the place of its events.
    pub(super) async fn run_two_step(
        self,
        body: Bytes,
        ids: &RunIds,
        template: &PathTemplate,
    ) -> Result<AgentEventSource, Rejection> {
        let (thread_id, run_id) = (ids.thread_id.text().unwrap_or_default(), ids.run_id.text().unwrap_or_default());
        let own = template.fill(&thread_id, &run_id).ok_or_else(|| {
            Rejection::from(RejectionKind::InvalidRequest)
                .with_detail("The ids of the run cannot stand in the path of its events.")
        })?;
        let mut session =
            self.cluster.send(&self.connector, &self.upstream_request(AgentOperation::Start(body))).await?;
        let named = read_start_response(&mut session).await.inspect_err(|why| session.finish(Some(why)))?;
        let at = session.endpoint();
        self.cluster.release(&self.connector, session).await;
        let path = if named.thread_id.is_none() && named.run_id.is_none() {
            own
        } else {
            let thread_id = named.thread_id.map_or(thread_id, Cow::Owned);
            let run_id = named.run_id.as_deref().unwrap_or(&run_id);
            template.fill(&thread_id, run_id).ok_or_else(|| {
                let what = "The agent named its run with an id that cannot stand in a path.";
                Rejection::from(RejectionKind::UpstreamContentType).with_detail(what)
            })?
        };
        Ok(AgentEventSource { client: self, endpoint: at, path, run_id: named.run_id })
    }

    fn upstream_request<'a>(&'a self, errand: AgentOperation<'a>) -> UpstreamRequest<'a> {
        UpstreamRequest { operation: errand, request_id: &self.request_id, spans: &self.spans, fields: &self.fields }
    }
}

/// The events of a run that was started.
pub(super) struct AgentEventSource {
    client: AgentClient,
    endpoint: EndpointRef,
    path: String,
    /// what the agent calls the run, when it said so
    pub(crate) run_id: Option<String>,
}

impl AgentEventSource {
    /// Asks for the events, all of them or those behind the id.
    pub(super) async fn open_stream(&self, behind: Option<&str>) -> Result<Box<Session>, Rejection> {
        let AgentClient { cluster, connector, .. } = &self.client;
        let request = self.client.upstream_request(AgentOperation::Events { path: &self.path, last_event_id: behind });
        let mut session = cluster.send_to(connector, &self.endpoint, &request).await?;
        // Ids, and so going on, are SSE's.
        check_stream_response(&mut session, &[Framing::Sse]).await.inspect_err(|why| session.finish(Some(why)))?;
        Ok(session)
    }
}

/// How often the agent was asked to go on from where it is.
#[derive(Debug, Default)]
pub(super) struct ReconnectBudget {
    last_event_id: Option<Box<str>>,
    attempts: usize,
}

impl ReconnectBudget {
    /// How long to wait before the agent is asked for what is behind `id`, and `None` when it was asked often enough.
    /// Whatever new came since the last time makes it worth as many tries again.
    pub(super) fn next_delay(&mut self, id: &str, retry: Option<Duration>) -> Option<Duration> {
        if self.last_event_id.as_deref() != Some(id) {
            (self.last_event_id, self.attempts) = (Some(id.into()), 0);
        }
        let wait = *RECONNECT_DELAYS.get(self.attempts)?;
        self.attempts += 1;
        Some(wait.max(retry.unwrap_or_default().min(RETRY_LIMIT)))
    }
}

/// Whether a failed attempt to go on leaves hope: an agent that answers, but no stream, has said that it will not.
pub(super) fn is_retryable(failure: &Rejection) -> bool {
    matches!(
        failure.kind,
        RejectionKind::UpstreamUnreachable
            | RejectionKind::UpstreamTimeout
            | RejectionKind::UpstreamReset
            | RejectionKind::UpstreamTruncated
    )
}

/// Whether a stream that ended so broke off, and may go on over another connection.
pub(super) fn is_stream_break(failure: &Rejection) -> bool {
    matches!(failure.kind, RejectionKind::UpstreamReset | RejectionKind::UpstreamTruncated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_retries_and_resets_them_after_progress() {
        let mut tries = ReconnectBudget::default();
        for wait in RECONNECT_DELAYS {
            assert_eq!(tries.next_delay("1", None), Some(wait));
        }
        assert_eq!(tries.next_delay("1", None), None);
        assert_eq!(tries.next_delay("2", Some(Duration::from_secs(2))), Some(Duration::from_secs(2)));
        assert_eq!(tries.next_delay("2", Some(Duration::MAX)), Some(RETRY_LIMIT));
    }
}
