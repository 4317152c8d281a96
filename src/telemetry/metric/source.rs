//! The labels of the table, and where the values of each come from.

use super::catalogue::{Label, Values};
use crate::dialect;
use crate::error;
use crate::telemetry::label::{
    AuthMethod, AuthReason, AuthResult, Decision, Direction, Eviction, Method, Outcome, Plane, Refresh, Reload,
    SpanLoss, Turned, UpstreamOutcome,
};
use crate::translate::{Loss, Repair};

/// A closed list of labels.
pub(super) type List = fn() -> Vec<&'static str>;

pub(super) const REPAIRS: List = || Repair::ALL.iter().map(|one| one.label()).collect();
pub(super) const LOSSES: List = || Loss::ALL.iter().map(|one| one.label()).collect();
pub(super) const REFUSALS: List = || error::Kind::ALL.iter().map(|one| one.code()).collect();

const DIALECTS: List = || dialect::ALL.iter().map(|one| one.name).collect();

/// Every type of every dialect that is built in, once.
const TYPES: List = || {
    let mut all: Vec<_> = dialect::ALL.iter().flat_map(|one| one.labels()).collect();
    all.sort_unstable();
    all.dedup();
    all
};

const OWN_DIALECT: &str = "dialects of the operator's own (`dialects`)";

const fn label(name: &'static str, values: Values) -> Label {
    Label { name, values }
}

pub(super) const ROUTE: Label = label("route", Values::Configured("`name` of a route, or its `path`"));
pub(super) const MATCHED: Label =
    label("route", Values::Configured("`name` of a route, or its `path`; empty where none matched"));
pub(super) const DIRECTION: Label = label("direction", Values::Closed(Direction::names));
pub(super) const DIALECT: Label = label("dialect", Values::Open(DIALECTS, OWN_DIALECT));
pub(super) const CLIENT: Label = label("client", Values::Open(DIALECTS, OWN_DIALECT));
pub(super) const AGENT: Label = label("agent", Values::Open(DIALECTS, OWN_DIALECT));
pub(super) const TYPE: Label =
    label("type", Values::Open(TYPES, "the types of the operator's own dialects (`dialects.*.events`)"));
pub(super) const OUTCOME: Label = label("outcome", Values::Closed(Outcome::names));
pub(super) const METHOD: Label = label("method", Values::Closed(Method::names));
pub(super) const CODE: Label = label("code", Values::Made("the status of the answer, three digits"));
pub(super) const REFUSAL: Label = label("reason", Values::Closed(REFUSALS));
pub(super) const REPAIR: Label = label("repair", Values::Closed(REPAIRS));
pub(super) const LOSS: Label = label("reason", Values::Closed(LOSSES));
pub(super) const AUTH_METHOD: Label = label("method", Values::Closed(AuthMethod::names));
pub(super) const AUTH_RESULT: Label = label("result", Values::Closed(AuthResult::names));
pub(super) const AUTH_REASON: Label = label("reason", Values::Closed(AuthReason::names));
pub(super) const POLICY: Label = label(
    "policy",
    Values::Open(|| vec!["streams:all", "streams:route", "streams:caller"], "`name` of a rate limit (`rate_limits`)"),
);
pub(super) const DECISION: Label = label("decision", Values::Closed(Decision::names));
pub(super) const ISSUER: Label = label("issuer", Values::Configured("`name` of an issuer (`auth.issuers`)"));
pub(super) const REFRESH: Label = label("result", Values::Closed(Refresh::names));
pub(super) const PLANE: Label = label("plane", Values::Closed(Plane::names));
pub(super) const LISTENER: Label = label("listener", Values::Configured("the address of a listener (`listeners`)"));
pub(super) const TURNED: Label = label("reason", Values::Closed(Turned::names));
pub(super) const RELOAD: Label = label("result", Values::Closed(Reload::names));
pub(super) const EVICTION: Label = label("reason", Values::Closed(Eviction::names));
pub(super) const UPSTREAM: Label =
    label("upstream", Values::Configured("`upstream` of a route, as scheme, host and port, or its socket"));
pub(super) const UPSTREAM_OUTCOME: Label = label("outcome", Values::Closed(UpstreamOutcome::names));
pub(super) const SPAN_LOSS: Label = label("reason", Values::Closed(SpanLoss::names));
pub(super) const HASH: Label =
    label("hash", Values::Made("the beginning of the SHA-256 of the file of the configuration"));
pub(super) const VERSION: Label = label("version", Values::Made("the version of the program"));
