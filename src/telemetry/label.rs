//! Closed lists of label values, one enum each. Text from a client or an agent never becomes a label.

use crate::error::RejectionKind;
use crate::translate::{EventLoss, EventRepair};
use std::fmt;

/// A metric label with a closed list of values.
pub(crate) trait Label: Copy + fmt::Debug + Send + Sync + 'static {
    const VALUES: &'static [Self];

    /// Returns the position in [`Label::VALUES`].
    fn index(self) -> usize;

    fn text(self) -> &'static str;
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
        #[allow(missing_docs, reason = "most labels say what they mean")]
        pub enum $name { $($(#[$row])* $variant),+ }

        impl $name {
            /// All values.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The label in metrics and logs.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self { $($name::$variant => $label),+ }
            }
        }

        impl_label! { $name: label }
    )+};
}

labels! {
    /// Outcome of a run, as its client saw it.
    RunOutcome {
        Finished = "finished",
        AgentError = "agent_error",
        /// the agent failed; the gateway sent RUN_ERROR or refused
        UpstreamError = "upstream_error",
        /// the run's task ended without a final event
        GatewayError = "gateway_error",
        ClientGone = "client_gone",
        /// a run whose events were not requested in time
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
        /// CORS preflight; otherwise not served
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

    /// Reason for accepting or refusing a credential.
    AuthReason {
        Accepted = "accepted",
        Missing = "missing",
        Ambiguous = "ambiguous",
        /// not a known form of credential
        Malformed = "malformed",
        TooLarge = "too_large",
        /// unsigned, or signed with an algorithm that the key is not for
        Algorithm = "algorithm",
        /// `typ` is not that of an access token
        Type = "type",
        /// an unsupported critical extension (`crit`, `b64`, `zip`), or a key inside the token
        Critical = "critical",
        Issuer = "issuer",
        UnknownKey = "unknown_key",
        Signature = "signature",
        Expired = "expired",
        NotYetValid = "not_yet_valid",
        Audience = "audience",
        /// a claim is missing, duplicated or of a wrong type
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
        /// shared quota unavailable; counted by this replica alone
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

    /// Reason for closing a connection before its first request.
    ConnectionRejectReason {
        Limit = "limit",
        AddressLimit = "address_limit",
        /// PROXY protocol header missing or malformed
        ProxyHeader = "proxy_header",
        /// PROXY protocol header not complete in time
        ProxyTimeout = "proxy_timeout",
        /// not TLS, or an unsupported version of it
        TlsHandshake = "tls_handshake",
        /// no client certificate, or an untrusted one
        TlsCertificate = "tls_certificate",
        TlsTimeout = "tls_timeout",
        /// too few bytes in time to detect the protocol
        NoData = "silent",
        /// not HTTP/1, or a request head over the size limit
        NotHttp = "not_http",
    }

    CertificateReload {
        Applied = "taken",
        /// unusable; the previous certificates stay in use
        Refused = "refused",
    }

    /// Reason for removing a run from the replay log or ending its resumability.
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
        /// response with any other status
        Answered = "answered",
        /// status 502, 503 or 504
        Unavailable = "unavailable",
        Unreachable = "unreachable",
        /// TLS handshake failed
        Tls = "tls",
        TimedOut = "timed_out",
        /// connection broken, or the response was not HTTP
        Broken = "broken",
        Abandoned = "abandoned",
    }
}

impl RequestMethod {
    /// Maps an HTTP method. Method names are case-sensitive [RFC 9110 §9.1].
    pub(crate) fn from_name(name: &str) -> RequestMethod {
        RequestMethod::ALL.iter().copied().find(|one| one.label() == name).unwrap_or(RequestMethod::Other)
    }
}
