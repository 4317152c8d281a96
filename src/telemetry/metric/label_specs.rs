//! The labels of all metrics, and where their values come from.

use super::catalogue::{LabelSource, LabelSpec};
use crate::dialect;
use crate::error::RejectionKind;
use crate::telemetry::label::{
    AuthMethod, AuthReason, AuthResult, CertificateReload, ConnectionRejectReason, EventDirection, EvictionReason,
    JwksRefresh, Label, LimitDecision, PlaneKind, RequestMethod, RunOutcome, SpanLoss, UpstreamOutcome,
};
use crate::translate::{EventLoss, EventRepair};

fn values<L: Label>() -> Vec<&'static str> {
    L::VALUES.iter().map(|label| label.text()).collect()
}

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
pub(super) const DIRECTION: LabelSpec = label_spec("direction", LabelSource::Closed(values::<EventDirection>));
pub(super) const DIALECT: LabelSpec = label_spec("dialect", LabelSource::Open(DIALECTS, OWN_DIALECT));
pub(super) const CLIENT: LabelSpec = label_spec("client", LabelSource::Open(DIALECTS, OWN_DIALECT));
pub(super) const AGENT: LabelSpec = label_spec("agent", LabelSource::Open(DIALECTS, OWN_DIALECT));
pub(super) const TYPE: LabelSpec = label_spec(
    "type",
    LabelSource::Open(EVENT_TYPES, "the types of the operator's own dialects (`dialects.*.events`)"),
);
pub(super) const OUTCOME: LabelSpec = label_spec("outcome", LabelSource::Closed(values::<RunOutcome>));
pub(super) const METHOD: LabelSpec = label_spec("method", LabelSource::Closed(values::<RequestMethod>));
pub(super) const CODE: LabelSpec = label_spec("code", LabelSource::Generated("the status of the answer, three digits"));
pub(super) const REFUSAL: LabelSpec = label_spec("reason", LabelSource::Closed(values::<RejectionKind>));
pub(super) const REPAIR: LabelSpec = label_spec("repair", LabelSource::Closed(values::<EventRepair>));
pub(super) const LOSS: LabelSpec = label_spec("reason", LabelSource::Closed(values::<EventLoss>));
pub(super) const AUTH_METHOD: LabelSpec = label_spec("method", LabelSource::Closed(values::<AuthMethod>));
pub(super) const AUTH_RESULT: LabelSpec = label_spec("result", LabelSource::Closed(values::<AuthResult>));
pub(super) const AUTH_REASON: LabelSpec = label_spec("reason", LabelSource::Closed(values::<AuthReason>));
pub(super) const POLICY: LabelSpec = label_spec(
    "policy",
    LabelSource::Open(
        || vec!["streams:all", "streams:route", "streams:caller"],
        "`name` of a rate limit (`rate_limits`)",
    ),
);
pub(super) const DECISION: LabelSpec = label_spec("decision", LabelSource::Closed(values::<LimitDecision>));
pub(super) const ISSUER: LabelSpec =
    label_spec("issuer", LabelSource::Configured("`name` of an issuer (`auth.issuers`)"));
pub(super) const REFRESH: LabelSpec = label_spec("result", LabelSource::Closed(values::<JwksRefresh>));
pub(super) const PLANE: LabelSpec = label_spec("plane", LabelSource::Closed(values::<PlaneKind>));
pub(super) const LISTENER: LabelSpec =
    label_spec("listener", LabelSource::Configured("the address of a listener (`listeners`)"));
pub(super) const REJECT_REASON: LabelSpec = label_spec("reason", LabelSource::Closed(values::<ConnectionRejectReason>));
pub(super) const RELOAD: LabelSpec = label_spec("result", LabelSource::Closed(values::<CertificateReload>));
pub(super) const EVICTION: LabelSpec = label_spec("reason", LabelSource::Closed(values::<EvictionReason>));
pub(super) const UPSTREAM: LabelSpec =
    label_spec("upstream", LabelSource::Configured("`upstream` of a route, as scheme, host and port, or its socket"));
pub(super) const UPSTREAM_OUTCOME: LabelSpec = label_spec("outcome", LabelSource::Closed(values::<UpstreamOutcome>));
pub(super) const SPAN_LOSS: LabelSpec = label_spec("reason", LabelSource::Closed(values::<SpanLoss>));
pub(super) const HASH: LabelSpec =
    label_spec("hash", LabelSource::Generated("the beginning of the SHA-256 of the file of the configuration"));
pub(super) const VERSION: LabelSpec = label_spec("version", LabelSource::Generated("the version of the program"));
