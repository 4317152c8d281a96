//! Label values as closed enums. Client or agent text never becomes a label.

use crate::error::RejectionKind;
use crate::translate::{EventLoss, EventRepair};
use std::fmt;

/// A metric label with a closed list of values.
pub(crate) trait Label: Copy + fmt::Debug + Send + Sync + 'static {
    const VALUES: &'static [Self];

    /// Returns the position in [`Label::VALUES`].
    fn index(self) -> usize;

    fn text(self) -> &'static str;

    fn texts() -> Vec<&'static str> {
        Self::VALUES.iter().map(|label| label.text()).collect()
    }
}

macro_rules! impl_label {
    ($($name:ident: $text:ident),+) => {
        $(impl Label for $name {
            const VALUES: &'static [$name] = $name::ALL;

            fn index(self) -> usize {
                self as usize
            }

            fn text(self) -> &'static str {
                self.$text()
            }
        })+
    };
}

impl_label! { RejectionKind: code, EventRepair: label, EventLoss: label }

macro_rules! labels {
    ($($(#[$doc:meta])* $name:ident { $($(#[$row:meta])* $variant:ident = $label:literal),+ $(,)? })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "most labels explain themselves")]
        pub enum $name { $($(#[$row])* $variant),+ }

        impl $name {
            /// All variants.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The label used in metrics and logs.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self { $($name::$variant => $label),+ }
            }
        }

        impl_label! { $name: label }
    )+};
}

labels! {
    /// Outcome of a run, as seen by its client.
    RunOutcome {
        Finished = "finished",
        AgentError = "agent_error",
        /// the agent failed; the gateway sent RUN_ERROR or rejected the request
        UpstreamError = "upstream_error",
        /// the run's task ended without a final event
        GatewayError = "gateway_error",
        ClientGone = "client_gone",
        /// no client requested the run's events in time
        Unread = "unread",
        Drained = "drained",
        /// the caller's credential expired during the run
        Expired = "expired",
        Limited = "limited",
        Cancelled = "cancelled",
    }

    RequestMethod {
        Get = "GET",
        Post = "POST",
        Head = "HEAD",
        /// CORS preflight; other OPTIONS requests are not served
        Options = "OPTIONS",
        Put = "PUT",
        Delete = "DELETE",
        Patch = "PATCH",
        Other = "OTHER",
    }

    EventDirection {
        FromAgent = "from_agent",
        ToClient = "to_client",
    }

    PlaneKind {
        Data = "data",
        /// for kubelets and Prometheus
        Status = "status",
        /// for operators on this machine
        Inspector = "inspector",
    }

    /// Result of authentication and authorisation.
    AuthResult {
        Accepted = "accepted",
        Refused = "refused",
    }

    AuthMethod {
        None = "none",
        Jwt = "jwt",
        ApiKey = "api_key",
    }

    /// Reason for accepting or rejecting a credential.
    AuthReason {
        Accepted = "accepted",
        Missing = "missing",
        Ambiguous = "ambiguous",
        /// not in a known credential format
        Malformed = "malformed",
        TooLarge = "too_large",
        /// unsigned, or signed with an algorithm that does not fit the key
        Algorithm = "algorithm",
        /// `typ` does not denote an access token
        Type = "type",
        /// an unsupported critical extension (`crit`, `b64`, `zip`), or a key embedded in the token
        Critical = "critical",
        Issuer = "issuer",
        UnknownKey = "unknown_key",
        Signature = "signature",
        Expired = "expired",
        NotYetValid = "not_yet_valid",
        Audience = "audience",
        /// a claim is missing, duplicated or of the wrong type
        Claims = "claims",
        /// the issuer's keys could not be fetched
        KeysUnavailable = "keys_unavailable",
        UnknownApiKey = "unknown_api_key",
        Scope = "scope",
        Claim = "claim",
        Tenant = "tenant",
        Tool = "tool",
        Thread = "thread",
    }

    LimitDecision {
        Allowed = "allowed",
        Refused = "refused",
        /// shared quota unavailable; limited by this replica only
        Local = "local",
        /// shared quota unavailable; allowed
        Unchecked = "unchecked",
        /// shared quota unavailable; refused
        Unavailable = "unavailable",
    }

    JwksRefresh {
        Fetched = "fetched",
        /// the previous keys stay in use
        Failed = "failed",
    }

    ConnectionRejectReason {
        Limit = "limit",
        AddressLimit = "address_limit",
        /// PROXY protocol header missing or malformed
        ProxyHeader = "proxy_header",
        /// PROXY protocol header not complete in time
        ProxyTimeout = "proxy_timeout",
        /// not TLS, or an unsupported TLS version
        TlsHandshake = "tls_handshake",
        /// no client certificate, or an untrusted one
        TlsCertificate = "tls_certificate",
        TlsTimeout = "tls_timeout",
        /// too few bytes arrived in time to detect the protocol
        NoData = "silent",
        /// a request head over `limits.header_bytes` or `limits.headers`, over HTTP/1.1
        HeadTooLarge = "head_too_large",
        /// neither HTTP/1.1 nor HTTP/2, or an invalid request head
        NotHttp = "not_http",
    }

    CertificateReload {
        Applied = "taken",
        /// unusable; the previous certificates stay in use
        Refused = "refused",
    }

    /// Reason for removing a run from the replay log or making it non-resumable.
    EvictionReason {
        Age = "age",
        /// too many runs; newer ones are kept
        Runs = "runs",
        Bytes = "bytes",
        RunBytes = "run_bytes",
        Replaced = "replaced",
    }

    SpanLoss {
        QueueFull = "queue_full",
        ExportFailed = "not_taken",
    }

    /// Outcome of one request to an agent, up to the response head.
    UpstreamOutcome {
        /// response with a status other than 502, 503 and 504
        Answered = "answered",
        /// status 502, 503 or 504
        Unavailable = "unavailable",
        Unreachable = "unreachable",
        /// TLS handshake failed
        Tls = "tls",
        TimedOut = "timed_out",
        /// broken connection or non-HTTP response
        Broken = "broken",
        Abandoned = "abandoned",
    }
}

impl RunOutcome {
    /// Returns whether a label is that of a run that the agent itself ended.
    pub(crate) fn is_end_by_agent(label: &str) -> bool {
        [RunOutcome::Finished, RunOutcome::AgentError].iter().any(|own| own.label() == label)
    }

    /// Returns whether a label is that of a run that failed, rather than one that a person or a plan ended.
    pub(crate) fn is_failure(label: &str) -> bool {
        let failures = [
            RunOutcome::AgentError,
            RunOutcome::UpstreamError,
            RunOutcome::GatewayError,
            RunOutcome::Expired,
            RunOutcome::Limited,
        ];
        failures.iter().any(|own| own.label() == label)
    }
}

impl RequestMethod {
    /// Parses an HTTP method name, which is case-sensitive [RFC 9110 §9.1].
    pub(crate) fn from_name(name: &str) -> RequestMethod {
        RequestMethod::ALL.iter().copied().find(|one| one.label() == name).unwrap_or(RequestMethod::Other)
    }
}
