//! Events of the export to a trace collector.

use super::sanitize;

log_events! {
    /// The collector does not accept spans: they are dropped and counted. Logged once, until it accepts some again.
    warn CollectorUnavailable { cause: String }
        (cause = sanitize(&cause)) "the trace collector does not accept spans; they are dropped";
}

pub(crate) struct CollectorRecovered;

impl CollectorRecovered {
    pub(crate) fn emit(self) {
        tracing::info!("the trace collector accepts spans again");
    }
}
