//! Keys for agents: addresses, protocols, health checks and ejection.

use crate::config::kind;
use crate::config::section::{Required, section};
use crate::config::text::{OneOrList, Scalar, scalar_or_mapping, text};

/// One upstream or a list.
pub(crate) type UpstreamListSpec = OneOrList<UpstreamSpec>;

scalar_or_mapping! {
    /// One upstream: its URL alone, or a mapping.
    pub(crate) enum UpstreamSpec {
        /// `http://127.0.0.1:9001/chat`
        Url(kind::AgentUrl),
        /// `{url: http://127.0.0.1:9001/chat, weight: 3}`
        Mapping(UpstreamMapping),
    }
    const FORMS: &'static str = "a URL or a mapping such as {url: URL, weight: 3}";
    const LIST_FORMS: &'static str = "a URL, a mapping such as {url: URL, weight: 3}, or a list of them";
}

section! {
    /// The mapping form of an upstream.
    pub(crate) struct UpstreamMapping {
        /// An `http` or `https` URL, or `unix:/run/agent.sock:/chat`. Required.
        pub(crate) url: Required<Scalar<kind::AgentUrl>>, required "the URL of the agent, such as `url: http://127.0.0.1:9001/chat`";
        /// Its share of the runs relative to the other upstreams of the route, from 1 to 1000.
        pub(crate) weight: Scalar<kind::Weight> = text("1");
        /// The HTTP version: `1`, `2` (with prior knowledge, over TLS by ALPN), or `auto`: HTTP/1.1, and over TLS the
        /// version that the upstream prefers.
        pub(crate) http: Scalar<kind::Http> = text("auto");
    }
}

section! {
    /// TLS settings for connections to agents. Files are reloaded when they change.
    pub(crate) struct UpstreamTlsSpec {
        /// A file with the certificate authorities for agents' certificates, in PEM. Defaults to the system's root
        /// certificates.
        pub(crate) ca: Option<Scalar<kind::FileName>>;
        /// A file with the gateway's client certificate and the intermediate certificates, in PEM; requires `key`.
        pub(crate) cert: Option<Scalar<kind::FileName>>;
        /// A file with the private key of `cert`, in PEM.
        pub(crate) key: Option<Scalar<kind::FileName>>;
        /// The expected server name in the agent's certificate. Defaults to the host of its URL.
        pub(crate) server_name: Option<Scalar<kind::ServerName>>;
    }
}

section! {
    /// Active health checks of upstreams.
    pub(crate) struct HealthCheckSpec => pub(crate) HealthCheckConfig {
        /// The path that is requested with GET; a 2xx response means healthy. Without it, a successful connection is
        /// enough.
        pub(crate) path: Option<Scalar<kind::HealthPath>>;
        /// Time between two checks.
        pub(crate) interval: Scalar<kind::Duration> = text("10s");
        /// Timeout of a check.
        pub(crate) timeout: Scalar<kind::Duration> = text("2s");
        /// Consecutive successful checks after which a failed upstream receives runs again.
        pub(crate) healthy: Scalar<kind::Count> = text("2");
        /// Consecutive failed checks after which an upstream receives no more runs.
        pub(crate) unhealthy: Scalar<kind::Count> = text("3");
    }
}

section! {
    /// Ejection of failing upstreams.
    pub(crate) struct EjectionSpec => #[derive(Copy)] pub(crate) EjectionConfig {
        /// Consecutive failed runs after which an address is ejected: no connection, no response, or 502, 503 or 504.
        pub(crate) failures: Scalar<kind::Count> = text("5");
        /// Time for which it is ejected; doubled each time it fails again after its return, to at most 5 minutes.
        /// After failures of one caller's runs only, a run of another caller may try it earlier.
        pub(crate) duration as "for": Scalar<kind::Duration> = text("30s");
    }
}
