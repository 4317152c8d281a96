//! The route that a request matched, and the request's purpose.

use crate::config::access::AccessConfig;
use crate::telemetry::RouteMetrics;
use std::sync::Arc;

/// The matched route, an extension of the request before the first gate.
pub struct RouteMatch {
    /// name in metrics and logs
    pub name: Arc<str>,
    /// path as configured
    pub path: String,
    /// requirements for callers
    pub access: Arc<AccessConfig>,
    /// metrics of the route
    pub metrics: Arc<RouteMetrics>,
    /// purpose of the request
    pub request_kind: RequestKind,
}

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// starts a run
    Start,
    /// starts a run or joins one, which only the body shows; so the permit is acquired after reading it
    StartOrJoin,
    /// reads a run that an earlier request started and was counted for
    Read,
    /// reads a run again; counted each time
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
