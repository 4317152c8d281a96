//! Authentication, authorisation and limits of callers: checked values of `auth`, `rate_limits`, `redis` and the
//! keys of a route that are about its callers.

use http::{HeaderName, HeaderValue};
use ipnet::IpNet;
use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use super::duration::format_duration;
pub use super::file::AccessConfig;
pub(crate) use super::file::{ApiKeyConfig, ApiKeyListConfig, CorsConfig, RequireConfig};

/// Text that no log, error or page may show. Its `Debug` is `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps `text` to itself.
    #[must_use]
    pub(crate) fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text. Whoever asks for it answers for where it goes.
    #[must_use]
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// One issuer of JSON Web Tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IssuerConfig {
    /// In routes, metrics and logs.
    pub(crate) name: String,
    /// `iss`, compared exactly.
    pub(crate) issuer: String,
    /// One of these has to stand in `aud`. Never empty.
    pub(crate) audiences: Vec<String>,
    pub(crate) keys: IssuerKeysConfig,
    /// The accepted signature algorithms. Never empty; of one family with `keys` (HMAC with a secret, signatures with
    /// public keys).
    pub(crate) algorithms: Vec<Algorithm>,
    /// The accepted `typ` values, in lower case and without `application/`. A token without `typ` is accepted.
    pub(crate) types: Vec<String>,
    /// The tolerated clock skew; at most 60 s.
    pub(crate) leeway: Duration,
    pub(crate) claims: ClaimNames,
}

/// The source of an issuer's keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IssuerKeysConfig {
    /// `jwks_uri` of `<issuer>/.well-known/openid-configuration`
    Discovery,
    /// a JWKS at a URL; https, or http on loopback
    Url(String),
    /// a JWKS in a file, read again when it changes
    JwksFile(PathBuf),
    /// one or more public keys in PEM, read again when the file changes
    PemFile(PathBuf),
    /// a shared secret in a file, read again when it changes; white space at its end is not part of it
    SecretFile(PathBuf),
    /// a shared secret from the environment
    Secret(Secret),
}

/// Names of claims; a dot steps into an object (`realm_access.roles`), unless the whole name is a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClaimNames {
    /// who calls; `sub` by default
    pub(crate) subject: String,
    /// on whose behalf
    pub(crate) tenant: Option<String>,
    /// which of the quotas
    pub(crate) tier: Option<String>,
    /// a text with blanks between, or a list; `scope` by default
    pub(crate) scopes: String,
}

macro_rules! algorithms {
    ($($name:ident $family:ident),+ $(,)?) => {
        /// A signature algorithm of JSON Web Tokens (RFC 7518 §3.1, RFC 8037 §3.1). There is no `none`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "named by the RFCs")]
        pub enum Algorithm { $($name),+ }

        impl Algorithm {
            /// Every algorithm.
            pub(crate) const ALL: &'static [Algorithm] = &[$(Algorithm::$name),+];

            /// As the header of a token spells it.
            #[must_use]
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Algorithm::$name => stringify!($name)),+ }
            }

            /// Returns whether signing and verification use one shared secret.
            #[must_use]
            pub(crate) const fn is_shared(self) -> bool {
                match self { $(Algorithm::$name => algorithms!(@shared $family)),+ }
            }
        }
    };
    (@shared secret) => { true };
    (@shared public) => { false };
}

algorithms! {
    HS256 secret, HS384 secret, HS512 secret,
    RS256 public, RS384 public, RS512 public,
    PS256 public, PS384 public, PS512 public,
    ES256 public, ES384 public,
    EdDSA public,
}

/// The policy for a run whose caller's token expires.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum OnExpiry {
    /// it goes on to its end
    #[default]
    Finish,
    /// it ends with RUN_ERROR, and the body cleanly
    RunError,
    /// its connection is cut, without a word
    Close,
}

/// The format of error responses to callers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum RouteErrorFormat {
    /// a status and a problem document
    #[default]
    Http,
    /// 200 and a stream of one RUN_ERROR
    RunError,
}

/// A field that the agent gets from the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UpstreamHeaderConfig {
    /// its name
    pub(crate) name: HeaderName,
    /// what it says
    pub(crate) value: UpstreamHeaderValue,
}

/// The value of a header field for the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UpstreamHeaderValue {
    /// as it was written; marked as sensitive
    Text(HeaderValue),
    /// the content of a file behind `prefix`, read again when it changes
    File {
        /// such as `Bearer `
        prefix: String,
        /// white space at its end is not part of it
        path: PathBuf,
    },
}

/// Rate limits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RateLimitsConfig {
    /// No two share a name.
    pub(crate) policies: Vec<RateLimitPolicy>,
    /// Set if `X-RateLimit-*` are sent in addition to `RateLimit`.
    pub(crate) legacy_headers: bool,
    /// The Redis through which replicas share quotas. Present when a policy is shared.
    pub redis: Option<RedisConfig>,
}

/// A rate limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RateLimitPolicy {
    /// In routes, metrics, logs and answers.
    pub(crate) name: String,
    /// The key by which requests are counted.
    pub(crate) key: RateLimitKey,
    /// For everybody, or for those whose tier is not among `tiers`.
    pub(crate) quota: RateLimitQuota,
    /// By the name of the tier.
    pub(crate) tiers: Vec<(String, RateLimitQuota)>,
    /// Set if replicas share the quota.
    pub(crate) shared: bool,
}

impl fmt::Display for RateLimitPolicy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RateLimitPolicy { name, key, quota, tiers, shared } = self;
        write!(out, "{name}: {quota} of {key}")?;
        for (tier, quota) in tiers {
            write!(out, "; tier {tier}: {quota}")?;
        }
        if *shared { out.write_str("; all replicas together") } else { Ok(()) }
    }
}

/// The key by which requests are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RateLimitKey {
    /// one subject of one tenant; the address where nobody has to say who it is
    Caller,
    /// one tenant
    Tenant,
    /// one value of a claim
    Claim(String),
    /// one address; of IPv6 the /64 network
    Address,
    /// one value of a field of the request
    Header(HeaderName),
    /// all requests of a route
    Route,
}

impl fmt::Display for RateLimitKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RateLimitKey::Caller => out.write_str("one caller"),
            RateLimitKey::Tenant => out.write_str("one tenant"),
            RateLimitKey::Claim(claim) => write!(out, "one value of the claim {claim}"),
            RateLimitKey::Address => out.write_str("one address"),
            RateLimitKey::Header(field) => write!(out, "one value of {field}"),
            RateLimitKey::Route => out.write_str("the route"),
        }
    }
}

/// `requests` in each `per`, `burst` of them at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateLimitQuota {
    /// how many come back in `per`
    pub(crate) requests: NonZeroU32,
    /// never zero; at most a day
    pub(crate) per: Duration,
    /// how many may come at once; `requests` unless set
    pub(crate) burst: NonZeroU32,
}

impl fmt::Display for RateLimitQuota {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RateLimitQuota { requests, per, burst } = self;
        write!(out, "{requests} requests in {}, {burst} at once", format_duration(*per))
    }
}

/// The Redis through which replicas share quotas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisConfig {
    /// `redis://` or `rediss://`, with its password
    pub(crate) url: Secret,
    /// the same for logs, without it
    pub display_url: String,
    /// what keys begin with
    pub(crate) prefix: String,
    /// longest wait for an answer
    pub(crate) deadline: Duration,
    /// what is done without one
    pub(crate) on_error: OnError,
}

/// The policy while the shared quotas are unavailable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum OnError {
    /// each replica counts by itself
    #[default]
    Local,
    /// everybody may call
    Allow,
    /// nobody may
    Deny,
}

/// The trusted proxies, whose information about their clients is used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TrustedProxies {
    /// these addresses
    pub(crate) networks: Vec<IpNet>,
    /// whoever may open a Unix socket
    pub(crate) unix: bool,
}

impl TrustedProxies {
    /// Returns whether they contain an address. A dual-stack listener reports IPv4 as a mapped address, which is
    /// treated as IPv4.
    #[must_use]
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.iter().any(|network| network.contains(&address))
    }
}

/// One entry of the list.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TrustedProxy {
    /// an address or a network
    Network(IpNet),
    /// whoever may open a Unix socket
    Unix,
}
