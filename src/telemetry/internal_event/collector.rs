//! Log events about the trace collector.

use super::sanitize;

log_events! {
    /// The collector rejects spans, which are dropped and counted. Logged once per outage.
    warn CollectorUnavailable { cause: String }
        (cause = sanitize(&cause)) "the trace collector does not accept spans; they are dropped";

    info CollectorRecovered {} () "the trace collector accepts spans again";
}
