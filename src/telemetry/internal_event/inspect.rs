//! Log events about who looked at what: the audit of the inspector.

use super::sanitize;

log_events! {
    /// Somebody looked at a run.
    info RunInspected<'a> {
        /// what of it: `run` (with its requests) or `rows`
        what: &'static str,
        route: &'a str,
        request_id: &'a str,
    } (what, route, request_id) "run inspected";

    /// Somebody began to read all runs of some routes.
    info RunsTapped<'a> {
        routes: &'a str,
    } (routes = sanitize(routes)) "runs tapped";

    /// Somebody set how much is captured of the runs of some routes.
    info CaptureModeSet<'a> {
        routes: &'a str,
        /// `None` if the routes are captured as configured again
        mode: Option<&'static str>,
        seconds: u64,
    } (routes = sanitize(routes), mode, seconds) "capture mode set";
}
