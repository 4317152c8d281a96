//! A request for a run that has passed the gates, and its translation for the agent.

use super::body_budget::BodyPermit;
use super::negotiation;
use super::responses;
use super::routes::RouteEntry;
use super::run_memory::RunMemoryShare;
use super::thread_store::ThreadStore;
use crate::codec::Framing;
use crate::dialect::PeerDialect;
use crate::error::{Rejection, RejectionKind};
use crate::event::{Json, RunAgentInput};
use crate::net::cpu_work::run_sized;
use crate::policy::CallerContext;
use crate::replay::ReplayKey;
use crate::telemetry::RunTimeline;
use crate::telemetry::internal_event::{self, RunInfo};
use crate::telemetry::label::{AuthMethod, AuthReason};
use crate::translate::request::{self, RefusalCause, RequestRefusal, TranslatedRequest};
use crate::translate::{RunIds, detect};
use bytes::Bytes;
use http::request::Parts;
use std::sync::Arc;
use tokio::time::Instant;
use uuid::Uuid;

pub(super) struct RunRequestHead {
    pub(super) parts: Parts,
    pub(super) body_permit: BodyPermit,
    pub(super) memory: RunMemoryShare,
    /// framing of the client's stream
    pub(super) framing: Framing,
    pub(super) caller: CallerContext,
    pub(super) caller_key: ReplayKey,
    pub(super) started_at: Instant,
    /// the client's request, if it is captured
    pub(super) captured_body: Option<Bytes>,
}

pub(super) struct RewrittenRequest {
    pub(super) client: PeerDialect,
    pub(super) agent: PeerDialect,
    pub(super) request: TranslatedRequest,
}

/// A request that was decoded, and has yet to be translated.
pub(super) struct DecodedRequest<'b> {
    client: PeerDialect,
    /// why the client's dialect was detected, if it was
    detected_by: Option<&'static str>,
    input: RunAgentInput<'b>,
    names_thread: bool,
}

impl DecodedRequest<'_> {
    /// Returns the thread, unless it is a new one.
    pub(super) fn named_thread(&self) -> Option<&Json<'_>> {
        Some(&self.input.thread_id).filter(|_| self.names_thread)
    }
}

impl RunRequestHead {
    pub(super) fn request_id(&self) -> &str {
        responses::request_id(&self.parts.headers)
    }

    pub(super) fn timeline(&self) -> Option<&Arc<RunTimeline>> {
        self.parts.extensions.get()
    }

    pub(super) fn decode<'b>(&self, route: &RouteEntry, body: &'b [u8]) -> Result<DecodedRequest<'b>, Rejection> {
        let fresh = RunIds::new(&Uuid::now_v7().to_string(), &Uuid::now_v7().to_string());
        let (client, detected_by) = negotiation::detect_client(route.client, self.framing, body);
        let input = run_sized(body.len(), || request::decode_body(body, client, &fresh));
        let input = input.map_err(|refused| self.translation_rejection(route, &refused))?;
        let names_thread = input.thread_id != fresh.thread_id;
        Ok(DecodedRequest { client, detected_by, input, names_thread })
    }

    /// Translates a request with this body.
    pub(super) fn rewrite(
        &mut self,
        route: &RouteEntry,
        threads: &ThreadStore,
        decoded: DecodedRequest<'_>,
        body: &[u8],
        is_kept: bool,
    ) -> Result<RewrittenRequest, Rejection> {
        let DecodedRequest { client, detected_by, input, .. } = decoded;
        let agent = route.agent;
        let tools = route.tools.as_deref();
        let kept = threads.get(agent.dialect.mapping, &route.name, &self.caller, &input.thread_id);
        let translate = || request::translate_decoded(input, client, agent, tools, is_kept, kept);
        let request =
            run_sized(body.len(), translate).map_err(|refused| self.translation_rejection(route, &refused))?;
        self.body_permit.count_rewritten(request.body.len())?;
        let run = RunInfo { route: &route.name, request_id: self.request_id(), ids: &request.ids };
        if let Some(because) = detected_by {
            internal_event::DialectDetected { run, side: "client", dialect: client.dialect.name, because }.emit();
        } else if let Ok(body) = std::str::from_utf8(body)
            && let Some(found) = detect::detect_undeclared_client(body, client)
        {
            internal_event::WrongClientDialect {
                run,
                configured: client.dialect.name,
                looks_like: found.peer.dialect.name,
                because: found.evidence,
            }
            .emit();
        }
        Ok(RewrittenRequest { client, agent, request })
    }

    fn translation_rejection(&self, route: &RouteEntry, refused: &RequestRefusal) -> Rejection {
        match refused.cause {
            RefusalCause::Malformed => {
                return Rejection::from(RejectionKind::InvalidRequest).with_detail(refused.to_string());
            }
            RefusalCause::ConversationLost => return RejectionKind::ConversationLost.into(),
            RefusalCause::ForbiddenTool => {}
        }
        let method = self.caller.identity().map_or(AuthMethod::None, |identity| identity.method);
        route.metrics.inc_auth(method, AuthReason::Tool);
        Rejection::from(RejectionKind::ToolNotAllowed).with_detail(refused.to_string())
    }
}
