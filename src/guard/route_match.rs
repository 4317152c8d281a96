//! The route that a request matched, and what the request is for.

use crate::config::access::AccessConfig;
use crate::telemetry::RouteMetrics;
use std::sync::Arc;

/// The matched route. It is among the request's extensions before the first gate.
pub struct RouteMatch {
    /// the route's name in metrics and logs
    pub name: Arc<str>,
    /// its path, as configured
    pub path: String,
    /// its requirements for callers
    pub access: Arc<AccessConfig>,
    /// its metric handles
    pub metrics: Arc<RouteMetrics>,
    /// the purpose of the request
    pub request_kind: RequestKind,
}

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// starts a run
    Start,
    /// starts a run or joins one; only the body shows which, so the permit is acquired after reading it
    StartOrJoin,
    /// reads the events of a run that an earlier request started and was counted for
    Read,
    /// reads the events of a run again, counted each time
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
