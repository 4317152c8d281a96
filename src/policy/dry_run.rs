//! Reports what the gates would do with a request, without counting or fetching anything.
//!
//! Each gate reports for itself (`Gate::dry_run`), in the order of [`super::gates`]. Decisions that depend on quotas,
//! signatures or the caller are left open.

use crate::error::Rejection;
use crate::telemetry::{CheckDecision, RunTimeline};
use http::request::Parts;
use serde::Serialize;
use tower::util::ServiceFn;

/// A gate's requirements, and its decision about a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GateReport {
    pub(crate) gate: &'static str,
    /// human-readable requirements; empty if every request passes
    pub(crate) requirements: Vec<String>,
    pub(crate) verdict: GateVerdict,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GateVerdict {
    Passes,
    Refuses(ReportedRejection),
    /// undecided; depends on this
    Depends(&'static str),
}

/// A rejection as the caller would see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ReportedRejection {
    pub(crate) status: u16,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) hint: String,
}

impl From<&Rejection> for ReportedRejection {
    fn from(rejection: &Rejection) -> ReportedRejection {
        ReportedRejection {
            status: rejection.status(),
            code: rejection.kind.code(),
            message: rejection.message().to_owned(),
            hint: rejection.hint().to_owned(),
        }
    }
}

impl GateReport {
    pub(super) fn from_result(
        gate: &'static str,
        requirements: Vec<String>,
        decided: &Result<(), Rejection>,
    ) -> GateReport {
        let refuses = |rejection: &Rejection| GateVerdict::Refuses(rejection.into());
        GateReport { gate, requirements, verdict: decided.as_ref().err().map_or(GateVerdict::Passes, refuses) }
    }

    /// Reports an open decision, or a pass if the gate has no requirements.
    pub(super) fn depends_on(gate: &'static str, requirements: Vec<String>, on: &'static str) -> GateReport {
        let verdict = if requirements.is_empty() { GateVerdict::Passes } else { GateVerdict::Depends(on) };
        GateReport { gate, requirements, verdict }
    }

    /// Records what the gate has decided. A gate that requires nothing of the route's requests is left out.
    pub(super) fn record_decision(self, decided: &Result<(), Rejection>, timeline: &RunTimeline) {
        let requirements = (!self.requirements.is_empty()).then(|| self.requirements.join("; "));
        match decided {
            Ok(()) if requirements.is_none() => {}
            Ok(()) => timeline.record_verdict(self.gate, CheckDecision::Passed, requirements),
            Err(rejection) => {
                timeline.record_verdict(self.gate, CheckDecision::Refused(rejection.kind.code()), requirements);
            }
        }
    }
}

/// A service behind gates that can report their decisions.
pub trait DryRun {
    /// Appends each gate's report, outermost first.
    fn dry_run_all(&self, head: &Parts, all: &mut Vec<GateReport>);
}

/// Reports nothing, since the leaf has no gates.
impl<F> DryRun for ServiceFn<F> {
    fn dry_run_all(&self, _: &Parts, _: &mut Vec<GateReport>) {}
}
