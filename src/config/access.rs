//! Checked settings for authentication, authorisation and rate limits.

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

/// Text that is never shown. Its `Debug` is `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    #[must_use]
    pub(crate) fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// Returns the secret text, which the caller must not log.
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IssuerConfig {
    pub(crate) name: String,
    /// The expected `iss`, compared exactly.
    pub(crate) issuer: String,
    /// The accepted `aud` values; a token needs one of them. Never empty.
    pub(crate) audiences: Vec<String>,
    pub(crate) keys: IssuerKeysConfig,
    /// Never empty. All match the key type: HMAC for a secret, signatures for public keys.
    pub(crate) algorithms: Vec<Algorithm>,
    /// The accepted `typ` values in lower case, without `application/`. A token without `typ` is accepted.
    pub(crate) types: Vec<String>,
    /// At most 60 s.
    pub(crate) leeway: Duration,
    pub(crate) claims: ClaimNames,
}

/// The source of an issuer's keys. Changed files are reloaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IssuerKeysConfig {
    /// `jwks_uri` of `<issuer>/.well-known/openid-configuration`
    Discovery,
    /// a JWKS URL; https, or http on loopback
    Url(String),
    /// a JWKS file
    JwksFile(PathBuf),
    /// a PEM file with one or more public keys
    PemFile(PathBuf),
    /// a shared secret in a file, without trailing white space
    SecretFile(PathBuf),
    /// a shared secret from the environment
    Secret(Secret),
}

/// Claim names. A dot selects an object member (`realm_access.roles`), unless the whole name is a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClaimNames {
    /// `sub` by default
    pub(crate) subject: String,
    pub(crate) tenant: Option<String>,
    pub(crate) tier: Option<String>,
    /// a space-separated string or a list; `scope` by default
    pub(crate) scopes: String,
}

macro_rules! algorithms {
    ($($name:ident $family:ident),+ $(,)?) => {
        /// A JSON Web Token signature algorithm (RFC 7518 §3.1, RFC 8037 §3.1). There is no `none`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "named by the RFCs")]
        pub enum Algorithm { $($name),+ }

        impl Algorithm {
            pub(crate) const ALL: &'static [Algorithm] = &[$(Algorithm::$name),+];

            /// Returns the `alg` value in a token header.
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
    #[default]
    Finish,
    /// a final RUN_ERROR, and a clean end of the body
    RunError,
    /// the connection is cut without an event
    Close,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum RouteErrorFormat {
    /// a status and a problem document
    #[default]
    Http,
    /// status 200 and a stream with one RUN_ERROR
    RunError,
}

/// A header field that the gateway adds to requests to the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UpstreamHeaderConfig {
    pub(crate) name: HeaderName,
    pub(crate) value: UpstreamHeaderValue,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UpstreamHeaderValue {
    /// marked as sensitive
    Text(HeaderValue),
    /// `prefix` followed by the content of a file, which is reloaded when it changes
    File {
        /// such as `Bearer `
        prefix: String,
        /// trailing white space in the file is removed
        path: PathBuf,
    },
}

/// Rate limits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RateLimitsConfig {
    /// Names are unique.
    pub(crate) policies: Vec<RateLimitPolicy>,
    /// Sends `X-RateLimit-*` in addition to `RateLimit`.
    pub(crate) legacy_headers: bool,
    /// Set if replicas share a policy.
    pub redis: Option<RedisConfig>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RateLimitPolicy {
    pub(crate) name: String,
    pub(crate) key: RateLimitKey,
    /// The quota for callers whose tier is not in `tiers`.
    pub(crate) quota: RateLimitQuota,
    /// Quotas by tier name.
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RateLimitKey {
    /// a subject within a tenant, or the address of an anonymous caller
    Caller,
    Tenant,
    Claim(String),
    /// an IPv4 address or an IPv6 /64 network
    Address,
    Header(HeaderName),
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

/// Allows `requests` per period `per`, with bursts of up to `burst`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateLimitQuota {
    pub(crate) requests: NonZeroU32,
    /// never zero; at most a day
    pub(crate) per: Duration,
    /// defaults to `requests`
    pub(crate) burst: NonZeroU32,
}

impl fmt::Display for RateLimitQuota {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RateLimitQuota { requests, per, burst } = self;
        let plural = if requests.get() == 1 { "" } else { "s" };
        write!(out, "{requests} request{plural} in {}, {burst} at once", format_duration(*per))
    }
}

/// The Redis server through which replicas share quotas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisConfig {
    /// `redis://` or `rediss://`, with its password
    pub(crate) url: Secret,
    /// the URL without the password, for logs
    pub display_url: String,
    /// the prefix of all keys in Redis
    pub(crate) prefix: String,
    /// timeout for a response
    pub(crate) deadline: Duration,
    pub(crate) on_error: OnError,
}

/// The policy while the shared quotas are unavailable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum OnError {
    /// each replica counts separately
    #[default]
    Local,
    Allow,
    Deny,
}

/// Proxies trusted to report client addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TrustedProxies {
    pub(crate) networks: Vec<IpNet>,
    /// trusts every peer on a Unix socket
    pub(crate) unix: bool,
}

impl TrustedProxies {
    /// Returns whether `address` is trusted. A dual-stack listener reports IPv4 as a mapped address, which is treated
    /// as IPv4.
    #[must_use]
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.iter().any(|network| network.contains(&address))
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum TrustedProxy {
    Network(IpNet),
    /// any peer on a Unix socket
    Unix,
}
