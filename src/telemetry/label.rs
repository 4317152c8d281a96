//! Closed lists of labels, one enum each: nothing that a client or an agent sends can become another.

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
    /// How a run ended, as its client saw it.
    RunOutcome {
        /// the agent said RUN_FINISHED
        Finished = "finished",
        /// the agent said RUN_ERROR
        AgentError = "agent_error",
        /// the agent failed, and the gateway said RUN_ERROR or refused
        UpstreamError = "upstream_error",
        /// the gateway failed: its task ended without an end of the run
        GatewayError = "gateway_error",
        /// the client left before the end
        ClientGone = "client_gone",
        /// nobody came for the events of a run in two steps
        Unread = "unread",
        /// the gateway was shutting down
        Drained = "drained",
        /// the caller's credential expired, and the route lets no run outlive it
        Expired = "expired",
        /// the run got as large or as long as the route lets it
        Limited = "limited",
        /// the caller stopped it
        Cancelled = "cancelled",
    }
}

labels! {
    /// How a request was asked.
    RequestMethod {
        /// for events of a run
        Get = "GET",
        /// for a run, or its end
        Post = "POST",
        /// as GET, for the head alone
        Head = "HEAD",
        /// a browser's question before a request of a page, or nothing that is served
        Options = "OPTIONS",
        /// nothing that is served
        Put = "PUT",
        /// nothing that is served
        Delete = "DELETE",
        /// nothing that is served
        Patch = "PATCH",
        /// every other
        Other = "OTHER",
    }
}

impl RequestMethod {
    /// The label of a method of HTTP. Names of methods are compared as they are written [RFC 9110 §9.1].
    #[must_use]
    pub(crate) fn from_name(name: &str) -> RequestMethod {
        RequestMethod::ALL.iter().copied().find(|one| one.label() == name).unwrap_or(RequestMethod::Other)
    }
}

labels! {
    /// Which way events go.
    EventDirection {
        /// from the agent into the gateway
        FromAgent = "from_agent",
        /// from the gateway to the client
        ToClient = "to_client",
    }
}

labels! {
    /// Whom a listener is for.
    PlaneKind {
        /// clients
        Data = "data",
        /// kubelets and Prometheus
        Status = "status",
    }
}

labels! {
    /// Whether a caller was let in.
    AuthResult {
        /// it was
        Accepted = "accepted",
        /// it was not
        Refused = "refused",
    }
}

labels! {
    /// How a caller showed who it is.
    AuthMethod {
        /// it showed nothing
        None = "none",
        /// a JSON Web Token
        Jwt = "jwt",
        /// an API key
        ApiKey = "api_key",
    }
}

labels! {
    /// Why a caller was believed and let in, or not.
    AuthReason {
        /// believed, and allowed to call
        Accepted = "accepted",
        /// no credential came
        Missing = "missing",
        /// several credentials came
        Ambiguous = "ambiguous",
        /// what came is no credential of a form that is known
        Malformed = "malformed",
        /// longer than any credential
        TooLarge = "too_large",
        /// signed in a way that its key is not for, or not at all
        Algorithm = "algorithm",
        /// a token for something else, by its `typ`
        Type = "type",
        /// an extension that has to be understood and is not (`crit`, `b64`, `zip`), or a key that comes with the token
        Critical = "critical",
        /// of nobody whom the route believes
        Issuer = "issuer",
        /// of a key that the issuer does not have
        UnknownKey = "unknown_key",
        /// the signature is wrong
        Signature = "signature",
        /// no longer valid
        Expired = "expired",
        /// not valid yet
        NotYetValid = "not_yet_valid",
        /// for somebody else
        Audience = "audience",
        /// a claim is missing, of a wrong type, or there twice
        Claims = "claims",
        /// the issuer's keys could not be had
        KeysUnavailable = "keys_unavailable",
        /// no such API key
        UnknownApiKey = "unknown_api_key",
        /// lacks a scope
        Scope = "scope",
        /// lacks the value of a claim
        Claim = "claim",
        /// of a tenant that may not call here
        Tenant = "tenant",
        /// offers a tool that is not allowed
        Tool = "tool",
        /// asks for somebody else's thread
        Thread = "thread",
    }
}

labels! {
    /// What became of a request at a limit.
    LimitDecision {
        /// within it
        Allowed = "allowed",
        /// over it
        Refused = "refused",
        /// the shared quota could not be asked; counted by this replica alone
        Local = "local",
        /// the shared quota could not be asked; let pass
        Unchecked = "unchecked",
        /// the shared quota could not be asked; refused
        Unavailable = "unavailable",
    }
}

labels! {
    /// What became of an attempt to fetch an issuer's keys.
    JwksRefresh {
        /// keys came
        Fetched = "fetched",
        /// none came; those from before stay in use
        Failed = "failed",
    }
}

labels! {
    /// Why a connection was closed instead of a request being read from it.
    ConnectionRejectReason {
        /// there are as many as the gateway takes
        Limit = "limit",
        /// there are as many of its address as one may have
        AddressLimit = "address_limit",
        /// it began with no header of the PROXY protocol, or with a broken one
        ProxyHeader = "proxy_header",
        /// that header did not come in time
        ProxyTimeout = "proxy_timeout",
        /// what it said is no TLS, or none that we speak
        TlsHandshake = "tls_handshake",
        /// its client showed no certificate, or none that is believed
        TlsCertificate = "tls_certificate",
        /// it did not finish the handshake in time
        TlsTimeout = "tls_timeout",
        /// it did not say in time what it speaks
        NoData = "silent",
        /// what it said is no HTTP/1, or a head that is larger than the gateway takes
        NotHttp = "not_http",
    }
}

labels! {
    /// What became of certificate files that changed.
    CertificateReload {
        /// they are in use
        Applied = "taken",
        /// they cannot be used; those from before stay
        Refused = "refused",
    }
}

labels! {
    /// Why a run is kept no longer, or can be come back to no longer.
    EvictionReason {
        /// it ended long ago
        Age = "age",
        /// others are newer, and only so many are kept
        Runs = "runs",
        /// all together would take too much
        Bytes = "bytes",
        /// it alone takes too much
        RunBytes = "run_bytes",
        /// another run has its id now
        Replaced = "replaced",
    }
}

labels! {
    /// Why a collector of traces never gets a span.
    SpanLoss {
        /// too many wait for it
        QueueFull = "queue_full",
        /// it did not take it
        ExportFailed = "not_taken",
    }
}

labels! {
    /// What became of one request to an agent, up to the head of its answer.
    UpstreamOutcome {
        /// it answered, whatever it said
        Answered = "answered",
        /// it answered that it cannot (502, 503 and 504)
        Unavailable = "unavailable",
        /// no connection
        Unreachable = "unreachable",
        /// no TLS that both sides accept
        Tls = "tls",
        /// no answer in time
        TimedOut = "timed_out",
        /// the connection broke, or it answered what is no HTTP
        Broken = "broken",
        /// the client left before the answer
        Abandoned = "abandoned",
    }
}
