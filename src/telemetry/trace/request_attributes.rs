//! The attributes of a request when its span begins.

use crate::telemetry::label::RequestMethod;

/// A request as routed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestAttributes<'a> {
    pub(crate) method: RequestMethod,
    /// as configured; empty if no route matched
    pub(crate) route: &'a str,
    /// of the route
    pub(crate) path: &'a str,
    pub(crate) tls: bool,
}
