//! The labels of the table, and where the values of each come from.

use super::catalogue::{LabelSource, LabelSpec};
use crate::dialect;
use crate::error;
use crate::telemetry::label::{
    AuthMethod, AuthReason, AuthResult, CertificateReload, ConnectionRejectReason, EventDirection, EvictionReason,
    JwksRefresh, LimitDecision, PlaneKind, RequestMethod, RunOutcome, SpanLoss, UpstreamOutcome,
};
use crate::translate::{EventLoss, EventRepair};

/// A closed list of labels.
pub(super) type LabelListFn = fn() -> Vec<&'static str>;

pub(super) const REPAIRS: LabelListFn = || EventRepair::ALL.iter().map(|one| one.label()).collect();
pub(super) const LOSSES: LabelListFn = || EventLoss::ALL.iter().map(|one| one.label()).collect();
pub(super) const REFUSALS: LabelListFn = || error::RejectionKind::ALL.iter().map(|one| one.code()).collect();

const DIALECTS: LabelListFn = || dialect::ALL.iter().map(|one| one.name).collect();

/// Every type of every dialect that is built in, once.
const EVENT_TYPES: LabelListFn = || {
    let mut all: Vec<_> = dialect::ALL.iter().flat_map(|one| one.labels()).collect();
    all.sort_unstable();
    all.dedup();
    all
};

const OWN_DIALECT: &str = "dialects of the operator's own (`dialects`)";

const fn label_spec(name: &'static str, values: LabelSource) -> LabelSpec {
    LabelSpec { name, values }
}

pub(super) const ROUTE: LabelSpec = label_spec("route", LabelSource::Configured("`name` of a route, or its `path`"));
pub(super) const MATCHED_ROUTE: LabelSpec =
    label_spec("route", LabelSource::Configured("`name` of a route, or its `path`; empty where none matched"));
pub(super) const DIRECTION: LabelSpec = label_spec("direction", LabelSource::Closed(EventDirection::names));
pub(super) const DIALECT: LabelSpec = label_spec("dialect", LabelSource::Open(DIALECTS, OWN_DIALECT));
pub(super) const CLIENT: LabelSpec = label_spec("client", LabelSource::Open(DIALECTS, OWN_DIALECT));
pub(super) const AGENT: LabelSpec = label_spec("agent", LabelSource::Open(DIALECTS, OWN_DIALECT));
pub(super) const TYPE: LabelSpec = label_spec(
    "type",
    LabelSource::Open(EVENT_TYPES, "the types of the operator's own dialects (`dialects.*.events`)"),
);
pub(super) const OUTCOME: LabelSpec = label_spec("outcome", LabelSource::Closed(RunOutcome::names));
pub(super) const METHOD: LabelSpec = label_spec("method", LabelSource::Closed(RequestMethod::names));
pub(super) const CODE: LabelSpec = label_spec("code", LabelSource::Generated("the status of the answer, three digits"));
pub(super) const REFUSAL: LabelSpec = label_spec("reason", LabelSource::Closed(REFUSALS));
pub(super) const REPAIR: LabelSpec = label_spec("repair", LabelSource::Closed(REPAIRS));
pub(super) const LOSS: LabelSpec = label_spec("reason", LabelSource::Closed(LOSSES));
pub(super) const AUTH_METHOD: LabelSpec = label_spec("method", LabelSource::Closed(AuthMethod::names));
pub(super) const AUTH_RESULT: LabelSpec = label_spec("result", LabelSource::Closed(AuthResult::names));
pub(super) const AUTH_REASON: LabelSpec = label_spec("reason", LabelSource::Closed(AuthReason::names));
pub(super) const POLICY: LabelSpec = label_spec(
    "policy",
    LabelSource::Open(
        || vec!["streams:all", "streams:route", "streams:caller"],
        "`name` of a rate limit (`rate_limits`)",
    ),
);
pub(super) const DECISION: LabelSpec = label_spec("decision", LabelSource::Closed(LimitDecision::names));
pub(super) const ISSUER: LabelSpec =
    label_spec("issuer", LabelSource::Configured("`name` of an issuer (`auth.issuers`)"));
pub(super) const REFRESH: LabelSpec = label_spec("result", LabelSource::Closed(JwksRefresh::names));
pub(super) const PLANE: LabelSpec = label_spec("plane", LabelSource::Closed(PlaneKind::names));
pub(super) const LISTENER: LabelSpec =
    label_spec("listener", LabelSource::Configured("the address of a listener (`listeners`)"));
pub(super) const REJECT_REASON: LabelSpec = label_spec("reason", LabelSource::Closed(ConnectionRejectReason::names));
pub(super) const RELOAD: LabelSpec = label_spec("result", LabelSource::Closed(CertificateReload::names));
pub(super) const EVICTION: LabelSpec = label_spec("reason", LabelSource::Closed(EvictionReason::names));
pub(super) const UPSTREAM: LabelSpec =
    label_spec("upstream", LabelSource::Configured("`upstream` of a route, as scheme, host and port, or its socket"));
pub(super) const UPSTREAM_OUTCOME: LabelSpec = label_spec("outcome", LabelSource::Closed(UpstreamOutcome::names));
pub(super) const SPAN_LOSS: LabelSpec = label_spec("reason", LabelSource::Closed(SpanLoss::names));
pub(super) const HASH: LabelSpec =
    label_spec("hash", LabelSource::Generated("the beginning of the SHA-256 of the file of the configuration"));
pub(super) const VERSION: LabelSpec = label_spec("version", LabelSource::Generated("the version of the program"));
