//! What the gates would do with a request, said and not done: nothing is counted, nobody is asked, no time is looked at.
//!
//! Each gate says it itself ([`Gate::told`]), by what it decides with, and the stack of [`super::gates`] is walked in its own
//! order. What only the moment knows (a quota, a signature, whoever is behind a credential) is left open.

use super::gate::{Gate, Gated};
use crate::error::Rejection;
use http::request::Parts;
use serde::Serialize;
use tower::util::ServiceFn;

/// What one gate asks of a request, and what it would do with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Told {
    /// what it is about, in one word
    pub gate: &'static str,
    /// what it wants, a sentence each; nothing where it lets all pass
    pub wants: Vec<String>,
    /// what it would do
    pub verdict: Verdict,
}

/// What a gate would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// it lets the request pass
    Passes,
    /// it does not
    Refuses(Refusal),
    /// that depends on this
    Depends(&'static str),
}

/// A refusal, as its caller would hear it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// HTTP status
    pub status: u16,
    /// as problem documents have it
    pub code: &'static str,
    /// what is wrong
    pub message: String,
    /// the way out
    pub hint: &'static str,
}

impl From<&Rejection> for Refusal {
    fn from(rejection: &Rejection) -> Refusal {
        let (kind, message) = (rejection.kind, rejection.message().to_owned());
        Refusal { status: rejection.status(), code: kind.code(), message, hint: kind.hint() }
    }
}

impl Told {
    /// A gate that lets the request pass, whatever else comes.
    pub(super) fn passes(gate: &'static str, wants: Vec<String>) -> Told {
        Told { gate, wants, verdict: Verdict::Passes }
    }

    /// A gate that has decided.
    pub(super) fn decided(gate: &'static str, wants: Vec<String>, decided: &Result<(), Rejection>) -> Told {
        let refuses = |rejection: &Rejection| Verdict::Refuses(rejection.into());
        Told { gate, wants, verdict: decided.as_ref().err().map_or(Verdict::Passes, refuses) }
    }

    /// A gate that would look at something that is not here; one that wants nothing lets all pass.
    pub(super) fn depends(gate: &'static str, wants: Vec<String>, on: &'static str) -> Told {
        let verdict = if wants.is_empty() { Verdict::Passes } else { Verdict::Depends(on) };
        Told { gate, wants, verdict }
    }
}

/// Gates in front of something, asked in their order.
pub trait Telling {
    /// Adds what each of them says.
    fn tell(&self, head: &Parts, all: &mut Vec<Told>);
}

impl<G: Gate, S: Telling> Telling for Gated<G, S> {
    fn tell(&self, head: &Parts, all: &mut Vec<Told>) {
        all.push(self.gate().told(head));
        self.inner().tell(head, all);
    }
}

/// Behind the last gate.
impl<F> Telling for ServiceFn<F> {
    fn tell(&self, _: &Parts, _: &mut Vec<Told>) {}
}
