//! Begins the captures of runs, and of requests that are refused, so that an operator who looks for a run finds why
//! there is none.

use super::deadlines::now_millis;
use super::gateway::Gateway;
use super::responses;
use super::routes::{PathMatch, PathTarget, RouteEntry};
use crate::codec::Framing;
use crate::config::inspect::CaptureMode;
use crate::dialect::PeerDialect;
use crate::error::Rejection;
use crate::inspect::{CaptureStore, CapturedRequests, Redaction, RunCapture, RunHead, StreamSettings};
use crate::policy::CallerContext;
use crate::replay::RunToken;
use crate::telemetry::RunTimeline;
use crate::translate::request::TranslatedRequest;
use crate::translate::{ConversationState, RunIds};
use bytes::Bytes;
use http::{Extensions, Request};
use std::sync::Arc;
use tokio::time::Instant;

/// A request that starts a run.
pub(super) struct RunStart<'a> {
    pub(super) mode: CaptureMode,
    pub(super) request_id: &'a str,
    pub(super) caller: &'a CallerContext,
    pub(super) started_at: Instant,
    pub(super) timeline: Option<Arc<RunTimeline>>,
    /// the client's body, if it is to be captured
    pub(super) body: Option<Bytes>,
}

/// A request for a run on a route whose runs are captured.
pub(super) struct CapturedRequest {
    captures: Arc<CaptureStore>,
    head: RunHead,
    settings: StreamSettings,
    timeline: Arc<RunTimeline>,
}

impl CapturedRequest {
    /// Records that the request was refused: a run that ended before it began.
    pub(super) fn record_refusal(mut self, caller: &CallerContext, rejection: &Rejection) {
        self.head.caller = caller.identity().map(|identity| identity.subject.clone());
        self.timeline.record_refusal(rejection.kind.code());
        let (captures, conversation) = (self.captures, ConversationState::default());
        let run = captures.begin_run(self.head, self.settings, conversation, self.timeline, None, None);
        run.record_end("refused", Some(rejection.kind.code().to_owned()), Some(rejection.message_and_hint()));
    }
}

impl Gateway {
    pub(super) fn stream_settings(
        &self,
        route: &RouteEntry,
        client: PeerDialect,
        agent: PeerDialect,
        ids: RunIds,
        framing: Framing,
        token: Option<RunToken>,
    ) -> StreamSettings {
        let tools = route.tools.clone();
        let frame_token = token.map(|token| token.as_str().into());
        let settings = StreamSettings::for_route(&route.config, self.limits.frame, tools, client, agent, ids);
        StreamSettings { framing, frame_token, ..settings }
    }

    /// Returns the mode of a run that begins now: as an operator has set it, or else the route, or the listener.
    pub(super) fn capture_mode(&self, route: &RouteEntry, extensions: &Extensions) -> CaptureMode {
        let listener = || extensions.get::<CaptureMode>().copied();
        self.captures.mode(&route.name, route.config.inspect.or_else(listener).unwrap_or_default())
    }

    /// Begins to capture a run, if its route's runs are captured.
    pub(super) fn begin_capture(
        &self,
        route: &RouteEntry,
        start: RunStart<'_>,
        settings: &StreamSettings,
        request: &TranslatedRequest,
    ) -> Option<RunCapture> {
        let mode = start.mode;
        if mode == CaptureMode::Off {
            return None;
        }
        // From before the gates, unless the capture was switched on meanwhile.
        let timeline = start.timeline.unwrap_or_else(|| RunTimeline::new(start.started_at, false));
        let started_at = timeline.started_at;
        let head = RunHead {
            route: Arc::clone(&route.name),
            caller: start.caller.identity().map(|identity| identity.subject.clone()),
            request_id: start.request_id.to_owned(),
            mode,
            started_ms: now_millis() - i64::try_from(started_at.elapsed().as_millis()).unwrap_or(0),
            started_at,
        };
        let agent = || Bytes::copy_from_slice(request.body.as_bytes());
        let requests = start.body.map(|client| CapturedRequests { client, agent: agent() });
        let redaction = Redaction::new(&route.config.redact);
        let mut conversation = request.conversation.clone();
        if redaction.is_some() {
            conversation.mask_contents();
        }
        Some(self.captures.begin_run(head, settings.clone(), conversation, timeline, requests, redaction))
    }

    /// Returns the data that the capture of a refusal needs, if the route's runs are captured.
    pub(super) fn capture_request<B>(
        &self,
        found: &PathMatch<'_>,
        request: &mut Request<B>,
    ) -> Option<CapturedRequest> {
        let PathMatch { route, target: PathTarget::Run, .. } = found else { return None };
        let mode = self.capture_mode(route, request.extensions());
        if mode == CaptureMode::Off {
            return None;
        }
        let head = RunHead {
            route: Arc::clone(&route.name),
            caller: None,
            request_id: responses::request_id(request.headers()).to_owned(),
            mode,
            started_ms: now_millis(),
            started_at: Instant::now(),
        };
        // A pattern of `redact` could match in any field.
        let keeps_heads = mode == CaptureMode::Full && route.config.redact.is_empty();
        let timeline = RunTimeline::new(head.started_at, keeps_heads);
        timeline.record_client_head(request.method(), request.uri(), request.headers());
        // The gates and the run add to it.
        request.extensions_mut().insert(Arc::clone(&timeline));
        let settings = self.stream_settings(route, route.client, route.agent, RunIds::new("", ""), Framing::Sse, None);
        Some(CapturedRequest { captures: Arc::clone(&self.captures), head, settings, timeline })
    }
}
