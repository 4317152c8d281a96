//! Log events for the audit of the inspector.

use super::sanitize;

log_events! {
    /// A run was read through the inspector.
    info RunInspected<'a> {
        /// the part that was read: `run` (with its requests), `rows` or `recording`
        what: &'static str,
        route: &'a str,
        request_id: &'a str,
    } (what, route, request_id) "run inspected";

    /// A reader began to follow all runs of some routes.
    info RunsTapped<'a> {
        routes: &'a str,
    } (routes = sanitize(routes)) "runs tapped";

    /// The playground of the inspector's page sent a request to the data plane.
    info PlaygroundRequestSent<'a> {
        /// address of the browser
        peer: &'a str,
        method: &'a str,
        path: &'a str,
        request_id: &'a str,
    } (peer, method, path = sanitize(path), request_id) "playground request sent";

    /// The capture mode of some routes was set.
    info CaptureModeSet<'a> {
        routes: &'a str,
        /// `None` if the routes are captured as configured again
        mode: Option<&'static str>,
        seconds: u64,
    } (routes = sanitize(routes), mode, seconds) "capture mode set";
}
