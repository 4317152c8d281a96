//! What the gates would do with a request, said and not done: nothing is counted, nobody is asked, no time is looked at.
//!
//! Each gate says it itself ([`Gate::told`]), by what it decides with, and the stack of [`super::gates`] is walked in its own
//! order. What only the moment knows (a quota, a signature, whoever is behind a credential) is left open.

use crate::error::Rejection;
use http::request::Parts;
use serde::Serialize;
use tower::util::ServiceFn;

/// What one gate asks of a request, and what it would do with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GateReport {
    /// what it is about, in one word
    pub(crate) gate: &'static str,
    /// what it wants, a sentence each; nothing where it lets all pass
    pub(crate) wants: Vec<String>,
    /// what it would do
    pub(crate) verdict: GateVerdict,
}

/// What a gate would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GateVerdict {
    /// it lets the request pass
    Passes,
    /// it does not
    Refuses(ReportedRejection),
    /// that depends on this
    Depends(&'static str),
}

/// A refusal, as its caller would hear it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ReportedRejection {
    /// HTTP status
    pub(crate) status: u16,
    /// as problem documents have it
    pub(crate) code: &'static str,
    /// what is wrong
    pub(crate) message: String,
    /// the way out
    pub(crate) hint: &'static str,
}

impl From<&Rejection> for ReportedRejection {
    fn from(rejection: &Rejection) -> ReportedRejection {
        let (kind, message) = (rejection.kind, rejection.message().to_owned());
        ReportedRejection { status: rejection.status(), code: kind.code(), message, hint: kind.hint() }
    }
}

impl GateReport {
    /// A gate that lets the request pass, whatever else comes.
    pub(super) fn passes(gate: &'static str, wants: Vec<String>) -> GateReport {
        GateReport { gate, wants, verdict: GateVerdict::Passes }
    }

    /// A gate that has decided.
    pub(super) fn from_result(gate: &'static str, wants: Vec<String>, decided: &Result<(), Rejection>) -> GateReport {
        let refuses = |rejection: &Rejection| GateVerdict::Refuses(rejection.into());
        GateReport { gate, wants, verdict: decided.as_ref().err().map_or(GateVerdict::Passes, refuses) }
    }

    /// A gate that would look at something that is not here; one that wants nothing lets all pass.
    pub(super) fn depends_on(gate: &'static str, wants: Vec<String>, on: &'static str) -> GateReport {
        let verdict = if wants.is_empty() { GateVerdict::Passes } else { GateVerdict::Depends(on) };
        GateReport { gate, wants, verdict }
    }
}

/// Gates in front of something, asked in their order.
pub trait DryRun {
    /// Adds what each of them says.
    fn dry_run_all(&self, head: &Parts, all: &mut Vec<GateReport>);
}

/// Behind the last gate.
impl<F> DryRun for ServiceFn<F> {
    fn dry_run_all(&self, _: &Parts, _: &mut Vec<GateReport>) {}
}
