//! The labels of all metrics, and where their values come from.

use super::catalogue::{LabelSource, LabelSpec};
use crate::dialect;
use crate::error::RejectionKind;
use crate::telemetry::label::{
    AuthMethod, AuthReason, AuthResult, CertificateReload, ConnectionRejectReason, EventDirection, EvictionReason,
    JwksRefresh, Label, LimitDecision, PlaneKind, RequestMethod, RunOutcome, SpanLoss, UpstreamOutcome,
};
use crate::translate::{EventLoss, EventRepair};

type LabelListFn = fn() -> Vec<&'static str>;

const DIALECTS: LabelListFn = || dialect::ALL.iter().map(|one| one.name).collect();

/// Lists the event types of all built-in dialects without duplicates.
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
pub(super) const DIRECTION: LabelSpec = label_spec("direction", LabelSource::Closed(EventDirection::texts));
pub(super) const DIALECT: LabelSpec = label_spec("dialect", LabelSource::Open(DIALECTS, OWN_DIALECT));
pub(super) const CLIENT: LabelSpec = label_spec("client", LabelSource::Open(DIALECTS, OWN_DIALECT));
pub(super) const AGENT: LabelSpec = label_spec("agent", LabelSource::Open(DIALECTS, OWN_DIALECT));
pub(super) const TYPE: LabelSpec = label_spec(
    "type",
    LabelSource::Open(EVENT_TYPES, "the types of the operator's own dialects (`dialects.*.events`)"),
);
pub(super) const OUTCOME: LabelSpec = label_spec("outcome", LabelSource::Closed(RunOutcome::texts));
pub(super) const METHOD: LabelSpec = label_spec("method", LabelSource::Closed(RequestMethod::texts));
pub(super) const CODE: LabelSpec = label_spec("code", LabelSource::Generated("the status of the answer, three digits"));
pub(super) const REFUSAL: LabelSpec = label_spec("reason", LabelSource::Closed(RejectionKind::texts));
pub(super) const REPAIR: LabelSpec = label_spec("repair", LabelSource::Closed(EventRepair::texts));
pub(super) const LOSS: LabelSpec = label_spec("reason", LabelSource::Closed(EventLoss::texts));
pub(super) const AUTH_METHOD: LabelSpec = label_spec("method", LabelSource::Closed(AuthMethod::texts));
pub(super) const AUTH_RESULT: LabelSpec = label_spec("result", LabelSource::Closed(AuthResult::texts));
pub(super) const AUTH_REASON: LabelSpec = label_spec("reason", LabelSource::Closed(AuthReason::texts));
pub(super) const POLICY: LabelSpec = label_spec(
    "policy",
    LabelSource::Open(
        || vec!["streams:all", "streams:route", "streams:caller"],
        "`name` of a rate limit (`rate_limits`)",
    ),
);
pub(super) const DECISION: LabelSpec = label_spec("decision", LabelSource::Closed(LimitDecision::texts));
pub(super) const ISSUER: LabelSpec =
    label_spec("issuer", LabelSource::Configured("`name` of an issuer (`auth.issuers`)"));
pub(super) const REFRESH: LabelSpec = label_spec("result", LabelSource::Closed(JwksRefresh::texts));
pub(super) const PLANE: LabelSpec = label_spec("plane", LabelSource::Closed(PlaneKind::texts));
pub(super) const LISTENER: LabelSpec =
    label_spec("listener", LabelSource::Configured("the address of a listener (`listeners`)"));
pub(super) const REJECT_REASON: LabelSpec = label_spec("reason", LabelSource::Closed(ConnectionRejectReason::texts));
pub(super) const RELOAD: LabelSpec = label_spec("result", LabelSource::Closed(CertificateReload::texts));
pub(super) const EVICTION: LabelSpec = label_spec("reason", LabelSource::Closed(EvictionReason::texts));
pub(super) const UPSTREAM: LabelSpec =
    label_spec("upstream", LabelSource::Configured("`upstream` of a route, as scheme, host and port, or its socket"));
pub(super) const UPSTREAM_OUTCOME: LabelSpec = label_spec("outcome", LabelSource::Closed(UpstreamOutcome::texts));
pub(super) const SPAN_LOSS: LabelSpec = label_spec("reason", LabelSource::Closed(SpanLoss::texts));
pub(super) const HASH: LabelSpec =
    label_spec("hash", LabelSource::Generated("the beginning of the SHA-256 of the file of the configuration"));
pub(super) const VERSION: LabelSpec = label_spec("version", LabelSource::Generated("the version of the program"));
