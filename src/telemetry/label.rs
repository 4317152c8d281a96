//! Closed lists of label values, one enum each. Text from a client or an agent never becomes a label.

use crate::error::RejectionKind;
use crate::translate::{EventLoss, EventRepair};
use std::fmt;

/// An enum of the values of a label.
pub(crate) trait Label: Copy + fmt::Debug + Send + Sync + 'static {
    const VALUES: &'static [Self];

    /// Returns the place in [`Label::VALUES`].
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
    ($(#[$doc:meta])* $name:ident { $($(#[$row:meta])* $variant:ident = $label:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$row])* $variant),+ }

        impl $name {
            /// Every label.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The label in metrics and logs.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self { $($name::$variant => $label),+ }
            }
        }

        impl_label! { $name: label }
    };
}

labels! {
    /// Outcome of a run, as its client saw it.
    RunOutcome {
        /// the agent sent RUN_FINISHED
        Finished = "finished",
        /// the agent sent RUN_ERROR
        AgentError = "agent_error",
        /// the agent failed; the gateway sent RUN_ERROR or refused
        UpstreamError = "upstream_error",
        /// the gateway failed: its task ended without an end of the run
        GatewayError = "gateway_error",
        /// the client left before the end
        ClientGone = "client_gone",
        /// a run in two steps was not read in time
        Unread = "unread",
        /// the gateway was shutting down
        Drained = "drained",
        /// the caller's credential expired, which ends the run on this route
        Expired = "expired",
        /// reached the route's limit of bytes or time
        Limited = "limited",
        /// stopped by the caller
        Cancelled = "cancelled",
    }
}

labels! {
    /// Method of a request.
    RequestMethod {
        /// reads the events of a run
        Get = "GET",
        /// starts or stops a run
        Post = "POST",
        /// GET without the body
        Head = "HEAD",
        /// CORS preflight; otherwise not served
        Options = "OPTIONS",
        /// not served
        Put = "PUT",
        /// not served
        Delete = "DELETE",
        /// not served
        Patch = "PATCH",
        /// any other method
        Other = "OTHER",
    }
}

impl RequestMethod {
    /// Maps an HTTP method. Method names are case-sensitive [RFC 9110 §9.1].
    pub(crate) fn from_name(name: &str) -> RequestMethod {
        RequestMethod::ALL.iter().copied().find(|one| one.label() == name).unwrap_or(RequestMethod::Other)
    }
}

labels! {
    /// Direction of events.
    EventDirection {
        /// from the agent into the gateway
        FromAgent = "from_agent",
        /// from the gateway to the client
        ToClient = "to_client",
    }
}

labels! {
    /// Plane of a listener.
    PlaneKind {
        /// for clients
        Data = "data",
        /// for kubelets and Prometheus
        Status = "status",
    }
}

labels! {
    /// Result of authentication and authorisation.
    AuthResult {
        /// caller accepted
        Accepted = "accepted",
        /// caller refused
        Refused = "refused",
    }
}

labels! {
    /// Kind of credential.
    AuthMethod {
        /// no credential
        None = "none",
        /// a JSON Web Token
        Jwt = "jwt",
        /// an API key
        ApiKey = "api_key",
    }
}

labels! {
    /// Reason for accepting or refusing a caller.
    AuthReason {
        /// authenticated and authorised
        Accepted = "accepted",
        /// no credential
        Missing = "missing",
        /// several credentials
        Ambiguous = "ambiguous",
        /// not a known form of credential
        Malformed = "malformed",
        /// longer than any credential
        TooLarge = "too_large",
        /// unsigned, or signed with an algorithm that the key is not for
        Algorithm = "algorithm",
        /// `typ` names another kind of token
        Type = "type",
        /// an unsupported critical extension (`crit`, `b64`, `zip`), or a key inside the token
        Critical = "critical",
        /// not an issuer that the route accepts
        Issuer = "issuer",
        /// key id unknown to the issuer
        UnknownKey = "unknown_key",
        /// invalid signature
        Signature = "signature",
        /// no longer valid
        Expired = "expired",
        /// not valid yet
        NotYetValid = "not_yet_valid",
        /// for another audience
        Audience = "audience",
        /// a claim is missing, duplicated or of a wrong type
        Claims = "claims",
        /// the issuer's keys could not be fetched
        KeysUnavailable = "keys_unavailable",
        /// unknown API key
        UnknownApiKey = "unknown_api_key",
        /// a required scope is missing
        Scope = "scope",
        /// a required claim value is missing
        Claim = "claim",
        /// tenant not allowed on this route
        Tenant = "tenant",
        /// offers a tool that is not allowed
        Tool = "tool",
        /// the thread belongs to another caller
        Thread = "thread",
    }
}

labels! {
    /// Decision of a limit.
    LimitDecision {
        /// within the limit
        Allowed = "allowed",
        /// over the limit
        Refused = "refused",
        /// the shared quota was unavailable; counted by this replica alone
        Local = "local",
        /// the shared quota was unavailable; allowed
        Unchecked = "unchecked",
        /// the shared quota was unavailable; refused
        Unavailable = "unavailable",
    }
}

labels! {
    /// Result of an attempt to fetch an issuer's keys.
    JwksRefresh {
        /// new keys in use
        Fetched = "fetched",
        /// the previous keys stay in use
        Failed = "failed",
    }
}

labels! {
    /// Reason for closing a connection before its first request.
    ConnectionRejectReason {
        /// connection limit of the gateway
        Limit = "limit",
        /// connection limit of its address
        AddressLimit = "address_limit",
        /// missing or malformed PROXY protocol header
        ProxyHeader = "proxy_header",
        /// no complete PROXY protocol header in time
        ProxyTimeout = "proxy_timeout",
        /// not TLS, or an unsupported version of it
        TlsHandshake = "tls_handshake",
        /// no client certificate, or an untrusted one
        TlsCertificate = "tls_certificate",
        /// handshake not finished in time
        TlsTimeout = "tls_timeout",
        /// not enough bytes in time to detect the protocol
        NoData = "silent",
        /// not HTTP/1, or a head over the size limit
        NotHttp = "not_http",
    }
}

labels! {
    /// Result of reloading changed certificate files.
    CertificateReload {
        /// new certificates in use
        Applied = "taken",
        /// unusable; the previous certificates stay in use
        Refused = "refused",
    }
}

labels! {
    /// Reason for removing a run from the replay log, or for making it non-resumable.
    EvictionReason {
        /// ended too long ago
        Age = "age",
        /// limit of the number of runs; newer ones are kept
        Runs = "runs",
        /// limit of the bytes of all runs
        Bytes = "bytes",
        /// limit of the bytes of one run
        RunBytes = "run_bytes",
        /// a new run has the same id
        Replaced = "replaced",
    }
}

labels! {
    /// Reason for losing a span.
    SpanLoss {
        /// queue full
        QueueFull = "queue_full",
        /// not accepted by the collector
        ExportFailed = "not_taken",
    }
}

labels! {
    /// Outcome of one request to an agent, up to the head of the response.
    UpstreamOutcome {
        /// response with any other status
        Answered = "answered",
        /// status 502, 503 or 504
        Unavailable = "unavailable",
        /// no connection
        Unreachable = "unreachable",
        /// no TLS that both sides accept
        Tls = "tls",
        /// no response in time
        TimedOut = "timed_out",
        /// connection broken, or the response was not HTTP
        Broken = "broken",
        /// the client left before the response
        Abandoned = "abandoned",
    }
}
