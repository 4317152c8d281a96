//! The attributes that a request's span begins with.

use crate::telemetry::label::RequestMethod;

#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestAttributes<'a> {
    pub(crate) method: RequestMethod,
    /// as configured; empty if no route matched
    pub(crate) route: &'a str,
    pub(crate) path: &'a str,
    pub(crate) tls: bool,
}
