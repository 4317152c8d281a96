//! The route that a request matched, and its purpose.

use crate::config::access::AccessConfig;
use crate::telemetry::RouteMetrics;
use std::sync::Arc;

/// The matched route, added to the request as an extension before the first gate.
pub struct RouteMatch {
    /// name in metrics and logs
    pub name: Arc<str>,
    /// path as configured
    pub path: String,
    /// requirements that callers must meet
    pub access: Arc<AccessConfig>,
    /// the route's metrics
    pub metrics: Arc<RouteMetrics>,
    /// purpose of the request
    pub request_kind: RequestKind,
}

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// starts a run
    Start,
    /// starts or joins a run; only the body shows which, so the permit is acquired after reading it
    StartOrJoin,
    /// reads a run that was counted when an earlier request started it
    Read,
    /// reads a run again; counted every time
    Join,
    /// stops a run
    Stop,
}

impl RequestKind {
    pub(crate) const fn method(self) -> &'static str {
        match self {
            RequestKind::Start | RequestKind::StartOrJoin | RequestKind::Stop => "POST",
            RequestKind::Read | RequestKind::Join => "GET",
        }
    }
}
