//! Captures requests that are refused, so that whoever looks for a run finds why there is none.

use super::deadlines::now_millis;
use super::gateway::Gateway;
use super::routes::{PathMatch, PathTarget};
use crate::codec::Framing;
use crate::codec::sse::SseLimits;
use crate::config::inspect::CaptureMode;
use crate::error::Rejection;
use crate::inspect::{CaptureStore, RunHead, StreamSettings};
use crate::policy::CallerContext;
use crate::translate::{ConversationState, RunIds};
use http::Request;
use std::sync::Arc;
use tokio::time::Instant;

/// A request for a run on a route whose runs are captured.
pub(super) struct CapturedRequest {
    captures: Arc<CaptureStore>,
    head: RunHead,
    settings: StreamSettings,
}

impl CapturedRequest {
    /// Records that the request was refused: a run that ended before it began.
    pub(super) fn record_refusal(mut self, caller: &CallerContext, rejection: &Rejection) {
        self.head.caller = caller.identity().map(|identity| identity.subject.clone());
        let run = self.captures.begin_run(self.head, self.settings, ConversationState::default(), None, None);
        let message = format!("{} {}", rejection.message(), rejection.hint());
        run.record_end("refused", Some(rejection.kind.code().to_owned()), Some(message));
    }
}

impl Gateway {
    /// Returns what is needed to capture a refusal of the request, if somebody wants to look at it.
    pub(super) fn capture_request<B>(&self, request: &Request<B>, request_id: &str) -> Option<CapturedRequest> {
        let PathMatch { route, target: PathTarget::Run, .. } = self.find(request.uri().path())? else { return None };
        let mode = self.captures.mode(&route.name, route.config.inspect);
        if mode == CaptureMode::Off {
            return None;
        }
        let head = RunHead {
            route: Arc::clone(&route.name),
            caller: None,
            request_id: request_id.to_owned(),
            mode,
            started_ms: now_millis(),
            started_at: Instant::now(),
        };
        let settings = StreamSettings {
            agent: route.agent,
            client: route.client,
            ids: RunIds::new("", ""),
            limits: SseLimits::default(),
            guard: route.config.guard,
            tools: None,
            max_events: None,
            max_bytes: None,
            framing: Framing::Sse,
            frame_token: None,
        };
        Some(CapturedRequest { captures: Arc::clone(&self.captures), head, settings })
    }
}
