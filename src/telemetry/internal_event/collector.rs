//! Events of the export to a trace collector.

use super::sanitize;

log_events! {
    /// The collector does not accept spans: they are dropped and counted. Logged once, until it accepts some again.
    warn CollectorUnavailable { cause: String }
        (cause = sanitize(&cause)) "the trace collector does not accept spans; they are dropped";

    info CollectorRecovered {} () "the trace collector accepts spans again";
}
