//! Initial attributes of a request's span.

use crate::telemetry::label::RequestMethod;

#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestAttributes<'a> {
    pub(crate) method: RequestMethod,
    /// route name from the configuration; empty if no route matched
    pub(crate) route: &'a str,
    pub(crate) path: &'a str,
    pub(crate) tls: bool,
}
