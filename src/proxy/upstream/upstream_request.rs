//! A request of a run to its agent.

use crate::config::UpstreamConfig;
use crate::dialect::RequestTarget;
use crate::replay::ReplayKey;
use crate::telemetry::RunTimeline;
use crate::telemetry::label::RequestMethod;
use crate::telemetry::trace::{UpstreamSpan, UpstreamSpanBuilder};
use bytes::Bytes;
use std::borrow::Cow;

pub(in crate::proxy) struct UpstreamRequest<'a> {
    pub(crate) operation: AgentOperation<'a>,
    /// what a dialect file adds to the URL and to the fields of a POST
    pub(crate) target: Option<&'a RequestTarget>,
    pub(crate) request_id: &'a str,
    pub(crate) caller: ReplayKey,
    pub(crate) spans: &'a UpstreamSpanBuilder,
    /// header fields from the caller; the request's own fields take precedence
    pub(crate) fields: &'a http::HeaderMap,
    /// present if the run is captured
    pub(crate) timeline: Option<&'a RunTimeline>,
}

pub(in crate::proxy) enum AgentOperation<'a> {
    Run(Bytes),
    /// starts a run whose events are requested later; the body is JSON
    Start(Bytes),
    /// requests the events of a started run
    Events {
        /// path and query
        path: &'a str,
        /// `None` requests all events
        last_event_id: Option<&'a str>,
    },
}

impl UpstreamRequest<'_> {
    pub(in crate::proxy) fn method_and_path<'l>(
        &'l self,
        upstream: &'l UpstreamConfig,
    ) -> (http::Method, Cow<'l, str>) {
        let own = upstream.path_and_query.as_str();
        match &self.operation {
            AgentOperation::Run(_) | AgentOperation::Start(_) => {
                (http::Method::POST, self.target.map_or(Cow::Borrowed(own), |target| target.join(own)))
            }
            AgentOperation::Events { path, .. } => (http::Method::GET, Cow::Borrowed(path)),
        }
    }

    pub(in crate::proxy) fn start_span(&self, upstream: &UpstreamConfig, label: &str) -> UpstreamSpan {
        let (method, path) = self.method_and_path(upstream);
        let path = path.split_once('?').map_or(&*path, |(path, _)| path);
        self.spans.begin(RequestMethod::from_name(method.as_str()), label, path)
    }
}
