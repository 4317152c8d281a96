//! Requests to an agent, in one step (the response is the stream) or two.
//!
//! ```text
//!   POST the run ──▶ 2xx, JSON ──▶ GET its events ──▶ the stream ── breaks ──▶ GET the events after the last id
//!                    with its ids      all of them                                (a few times)
//! ```
//! The first GET has no event id: a two-step agent stores events from the POST on and sends them all (`seeds/004`, §1:
//! "从 Redis Stream 读取并输出 SSE").

use super::agent_response::{AgentErrorPolicy, check_stream_response, read_start_response};
use super::upstream::{AgentOperation, Cluster, Connector, EndpointRef, Session, UpstreamRequest};
use crate::codec::Framing;
use crate::config::{AgentErrors, PathTemplate};
use crate::dialect::{ErrorPaths, RequestTarget};
use crate::error::{Rejection, RejectionKind};
use crate::inspect::Redaction;
use crate::replay::ReplayKey;
use crate::telemetry::RunTimeline;
use crate::telemetry::trace::UpstreamSpanBuilder;
use crate::translate::RunIds;
use bytes::Bytes;
use http::HeaderMap;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// Delays between reconnects that make no progress; their number is the limit.
const RECONNECT_DELAYS: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_millis(300), Duration::from_secs(1)];

const UNSAFE_IDS: &str = "/threadId or /runId: would change the path of the run's events at the agent: it is empty, `.` or `..`, or contains `/` or `\\`, plain or percent-encoded.";

/// Maximum delay that an agent may request with `retry`.
const RETRY_LIMIT: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub(super) struct AgentClient {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) connector: Arc<Connector>,
    pub(crate) request_id: String,
    pub(crate) caller: ReplayKey,
    pub(crate) spans: UpstreamSpanBuilder,
    /// header fields for both requests
    pub(crate) fields: Arc<HeaderMap>,
    pub(crate) agent_errors: AgentErrors,
    /// where the agent's errors have their message, if its dialect is described by a file
    pub(crate) error_paths: Option<&'static ErrorPaths>,
    /// whether earlier runs kept something of the thread, which the agent should know
    pub(crate) has_kept_values: bool,
    /// for what is logged of the agent's errors; absent if the route redacts nothing
    pub(crate) redaction: Option<Redaction>,
    /// present if the run is captured
    pub(crate) timeline: Option<Arc<RunTimeline>>,
}

impl AgentClient {
    pub(super) async fn run_one_step(
        self,
        body: Bytes,
        target: &RequestTarget,
        framings: &[Framing],
    ) -> Result<(Box<Session>, Framing), Rejection> {
        let request = UpstreamRequest { target: Some(target), ..self.upstream_request(AgentOperation::Run(body)) };
        let mut session = self.cluster.send(&self.connector, &request).await?;
        let framing = check_stream_response(&mut session, framings, self.error_policy()).await;
        let framing = framing.inspect_err(|rejection| session.finish(Some(rejection)))?;
        Ok((session, framing))
    }

    pub(super) async fn run_two_step(
        self,
        body: Bytes,
        target: &RequestTarget,
        ids: &RunIds,
        template: &PathTemplate,
    ) -> Result<AgentEventSource, Rejection> {
        let thread_id = ids.thread_id.text().unwrap_or_default();
        let run_id = ids.run_id.text().unwrap_or_default();
        let own = template
            .fill_agent_path(&thread_id, &run_id)
            .ok_or_else(|| Rejection::from(RejectionKind::InvalidRequest).with_detail(UNSAFE_IDS))?;
        let request = UpstreamRequest { target: Some(target), ..self.upstream_request(AgentOperation::Start(body)) };
        let mut session = self.cluster.send(&self.connector, &request).await?;
        let named = read_start_response(&mut session, self.error_policy()).await;
        let named = named.inspect_err(|rejection| session.finish(Some(rejection)))?;
        let endpoint = session.endpoint();
        self.cluster.release(&self.connector, session).await;
        let path = if named.thread_id.is_none() && named.run_id.is_none() {
            own
        } else {
            let thread_id = named.thread_id.map_or(thread_id, Cow::Owned);
            let run_id = named.run_id.as_deref().unwrap_or(&run_id);
            template.fill_agent_path(&thread_id, run_id).ok_or_else(|| {
                let what =
                    "The agent's id of the run would change the path of its events: it contains `/`, `\\` or `..`.";
                Rejection::from(RejectionKind::UpstreamContentType).with_detail(what)
            })?
        };
        Ok(AgentEventSource { client: self, endpoint, path, run_id: named.run_id })
    }

    fn error_policy(&self) -> AgentErrorPolicy<'_> {
        AgentErrorPolicy {
            agent_errors: self.agent_errors,
            request_id: &self.request_id,
            paths: self.error_paths,
            has_kept_values: self.has_kept_values,
            redaction: self.redaction.as_ref(),
        }
    }

    fn upstream_request<'a>(&'a self, operation: AgentOperation<'a>) -> UpstreamRequest<'a> {
        UpstreamRequest {
            operation,
            target: None,
            request_id: &self.request_id,
            caller: self.caller,
            spans: &self.spans,
            fields: &self.fields,
            timeline: self.timeline.as_deref(),
        }
    }
}

pub(super) struct AgentEventSource {
    client: AgentClient,
    endpoint: EndpointRef,
    path: String,
    /// the agent's run id, if it sent one
    pub(crate) run_id: Option<String>,
}

impl AgentEventSource {
    /// Requests all events, or those after `last_event_id`.
    pub(super) async fn open_stream(&self, last_event_id: Option<&str>) -> Result<Box<Session>, Rejection> {
        let AgentClient { cluster, connector, .. } = &self.client;
        let request = self.client.upstream_request(AgentOperation::Events { path: &self.path, last_event_id });
        let mut session = cluster.send_to(connector, &self.endpoint, &request).await?;
        // Only SSE has event ids, and so can be resumed.
        let framing = check_stream_response(&mut session, &[Framing::Sse], self.client.error_policy()).await;
        framing.inspect_err(|rejection| session.finish(Some(rejection)))?;
        Ok(session)
    }
}

/// Limits reconnects that make no progress.
#[derive(Debug, Default)]
pub(super) struct ReconnectBudget {
    last_event_id: Option<Box<str>>,
    attempts: usize,
}

/// The stream of a run, for reconnects.
pub(super) struct ReconnectSource {
    pub(crate) events: Arc<AgentEventSource>,
    pub(crate) budget: ReconnectBudget,
}

impl ReconnectBudget {
    /// Returns the delay before the next reconnect, or `None` if the limit is reached. A new `id` resets the count.
    pub(super) fn next_delay(&mut self, id: &str, retry: Option<Duration>) -> Option<Duration> {
        if self.last_event_id.as_deref() != Some(id) {
            self.last_event_id = Some(id.into());
            self.attempts = 0;
        }
        let delay = *RECONNECT_DELAYS.get(self.attempts)?;
        self.attempts += 1;
        Some(delay.max(retry.unwrap_or_default().min(RETRY_LIMIT)))
    }
}

/// Returns whether another reconnect may succeed. Any response that is not a stream is final.
pub(super) fn is_retryable(failure: &Rejection) -> bool {
    matches!(
        failure.kind,
        RejectionKind::UpstreamUnreachable
            | RejectionKind::UpstreamTimeout
            | RejectionKind::UpstreamBusy
            | RejectionKind::UpstreamReset
            | RejectionKind::UpstreamTruncated
    )
}

/// Returns whether the stream may continue over another connection.
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
