//! Keys for callers: authentication, authorisation, rate limits and run limits.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::kind;
use crate::config::section::{Derived, Required, section};
use crate::config::text::{Scalar, ScalarOrList, Spanned, scalar_or_mapping, text};

section! {
    /// Authentication: the issuers of tokens and the lists of API keys that the gateway accepts.
    pub(crate) struct AuthSpec => #[derive(Default)] pub(crate) AuthConfig, cross-checked {
        /// The gateway's own URL, for protected resource metadata (RFC 9728) and `WWW-Authenticate`.
        pub(crate) resource: Option<Scalar<kind::Resource>>;
        /// Issuers of JSON Web Tokens.
        pub(crate) issuers: Vec<Spanned<IssuerSpec>>;
        /// Lists of API keys.
        pub(crate) api_keys: Vec<Spanned<ApiKeyListSpec>>;
    }
}

section! {
    /// One issuer of JSON Web Tokens. Its keys are found by OIDC discovery unless one of `jwks_url`, `jwks_file`,
    /// `public_key_file`, `secret_file` and `secret` is set. Files are reloaded when they change.
    pub(crate) struct IssuerSpec {
        /// The name of the issuer in routes, metrics and logs. Required.
        pub(crate) name: Required<Scalar<kind::MethodName>>, required "the name that routes use, such as `name: staff`";
        /// The exact value of `iss`. Required.
        pub(crate) issuer: Required<Scalar<kind::Issuer>>, required "the `iss` claim of its tokens, such as `issuer: https://login.example.com`";
        /// The accepted audiences, one of which `aud` must contain: a value or a list. Required.
        pub(crate) audience: Required<Spanned<ScalarOrList<kind::Text>>>, required "the value that `aud` must contain, such as `audience: https://agents.example.com`";
        /// A JWKS at an https URL (http on loopback).
        pub(crate) jwks_url: Option<Scalar<kind::Url>>;
        /// A JWKS in a file.
        pub(crate) jwks_file: Option<Scalar<kind::FileName>>;
        /// Public keys in PEM.
        pub(crate) public_key_file: Option<Scalar<kind::FileName>>;
        /// A file with a shared secret, for HS256, HS384 and HS512.
        pub(crate) secret_file: Option<Scalar<kind::FileName>>;
        /// A shared secret; write it as a variable: `${TOKEN_SECRET}`.
        pub(crate) secret: Option<Scalar<kind::Secret>>;
        /// The accepted signature algorithms. Defaults to every algorithm that fits its keys.
        pub(crate) algorithms: Vec<Scalar<kind::Algorithm>>;
        /// The accepted values of `typ`; defaults to `[JWT, at+jwt]`. A token without `typ` is accepted.
        pub(crate) types: Vec<Scalar<kind::TokenType>> = vec![text("JWT"), text("at+jwt")];
        /// The tolerated clock skew; at most 60s.
        pub(crate) leeway: Scalar<kind::Leeway> = text("5s");
        /// The claim that identifies the caller.
        pub(crate) subject_claim: Scalar<kind::Text> = text("sub");
        /// The claim that identifies the caller's tenant. A dot selects a member of an object: `org.id`.
        pub(crate) tenant_claim: Option<Scalar<kind::Text>>;
        /// The claim that names the caller's tier.
        pub(crate) tier_claim: Option<Scalar<kind::Text>>;
        /// The claim that lists scopes: a space-separated string, or a list.
        pub(crate) scopes_claim: Scalar<kind::Text> = text("scope");
    }
}

section! {
    /// A list of API keys: in a file of its own, here, or both.
    pub(crate) struct ApiKeyListSpec => pub(crate) ApiKeyListConfig, cross-checked {
        /// The name of the list in routes, metrics and logs. Required.
        pub(crate) name: Required<Scalar<kind::MethodName>>, required "the name that routes use, such as `name: partners`";
        /// The header field that carries the key; with `authorization` the key is a bearer token.
        pub(crate) header: Scalar<kind::Field> = text("x-api-key");
        /// A YAML file with `keys`, as below. It is reloaded when it changes.
        pub(crate) file: Option<Scalar<kind::FileName>>;
        /// Keys in this file.
        pub(crate) keys: Vec<Spanned<ApiKeySpec>>;
    }
}

section! {
    /// One API key. `diglot token --api-key` creates one and prints its entry.
    pub(crate) struct ApiKeySpec => pub(crate) ApiKeyConfig, cross-checked {
        /// The name of the key in logs, never the key itself. Required, unique in its list.
        pub(crate) id: Required<Scalar<kind::Name>>, required "the name that logs show, such as `id: alice-1`";
        /// SHA-256 of the key, 64 hexadecimal digits. Required.
        pub(crate) sha256: Required<Scalar<kind::Digest>>, required "the SHA-256 digest of the key: `printf %s KEY | sha256sum`";
        /// The caller's subject; defaults to the `id`.
        pub(crate) subject: Derived<Scalar<kind::Text>>;
        /// The caller's tenant.
        pub(crate) tenant: Option<Scalar<kind::Text>>;
        /// The caller's tier.
        pub(crate) tier: Option<Scalar<kind::Text>>;
        /// The caller's scopes.
        pub(crate) scopes: Vec<Scalar<kind::Scope>>;
        /// The time from which the key is refused: `2027-01-31` or `2027-01-31T12:00:00Z`.
        pub(crate) expires: Option<Scalar<kind::Moment>>;
    }
}

section! {
    /// A file of API keys.
    pub(crate) struct ApiKeyFile {
        /// The keys.
        pub(crate) keys: Vec<Spanned<ApiKeySpec>>;
    }
}

section! {
    /// Requirements for callers. A caller must meet all of them.
    pub(crate) struct RequireSpec => #[derive(Default)] pub(crate) RequireConfig {
        /// Token claims: each must equal or contain one of the values. A dot selects a member of an object.
        pub(crate) claims: BTreeMap<String, Spanned<ScalarOrList<kind::Text>>>;
        /// Required scopes; the caller needs all of them.
        pub(crate) scopes: Vec<Scalar<kind::Scope>>;
        /// Accepted tenants; the caller must belong to one of them.
        pub(crate) tenants: Vec<Scalar<kind::Text>>;
    }
}

section! {
    /// Limits on each run; a run that exceeds one ends with `RUN_ERROR`. Unlimited unless set.
    pub(crate) struct RunLimitsSpec => #[derive(Copy, Default)] pub(crate) RunLimitsConfig {
        /// The maximum number of events sent to the client.
        pub(crate) events: Option<Scalar<kind::EventCount>>;
        /// The maximum number of bytes sent to the client.
        pub(crate) bytes: Option<Scalar<kind::ByteCount>>;
        /// The maximum time from the request to the end of the run.
        pub(crate) duration: Option<Scalar<kind::Duration>>;
    }
}

section! {
    /// Cross-origin access for browsers.
    pub(crate) struct CorsSpec => pub(crate) CorsConfig, cross-checked {
        /// The allowed origins, such as `https://app.example.com`, or `*` for any. Required.
        pub(crate) origins: Required<Spanned<ScalarOrList<kind::WebOrigin>>>, required "the pages that may call, such as `origins: [https://app.example.com]`";
        /// Allows browsers to send cookies: `true` or `false`. Not with `*`.
        pub(crate) credentials: Scalar<kind::Truth> = text("false");
        /// Time that a browser may cache the response to a preflight.
        pub(crate) max_age: Scalar<kind::MaxAge> = text("10m");
    }
}

scalar_or_mapping! {
    /// A header field for the agent: its value, or a file that contains it.
    pub(crate) enum UpstreamHeaderSpec {
        /// `authorization: Bearer ${AGENT_TOKEN}`
        Text(kind::FieldValue),
        /// `authorization: {file: /run/secrets/agent, prefix: "Bearer "}`
        File(UpstreamHeaderMapping),
    }
    const FORMS: &'static str = "a value or a mapping such as {file: PATH}";
    // A type error would quote the number, which may be a secret.
    const ACCEPTS_ANY_SCALAR: bool = false;
}

section! {
    /// The mapping form of a header field for the agent.
    pub(crate) struct UpstreamHeaderMapping {
        /// Text in front of the file's content, such as `Bearer `.
        pub(crate) prefix: Option<Scalar<kind::FieldPrefix>>;
        /// The file with the value; trailing white space is removed. It is reloaded when it changes. Required.
        pub(crate) file: Required<Scalar<kind::FileName>>, required "the file with the value, such as `file: /run/secrets/agent`";
    }
}

section! {
    /// A rate limit.
    pub(crate) struct RateLimitSpec {
        /// The name of the limit in routes, metrics, logs and responses. Required.
        pub(crate) name: Required<Scalar<kind::Name>>, required "the name that routes use, such as `name: standard`";
        /// The key by which requests are counted: `caller` (a subject of a tenant; the address of an anonymous caller),
        /// `tenant`, `claim:<name>`, `address` (of IPv6 the /64 network), `header:<name>`, or `route`.
        pub(crate) key: Scalar<kind::LimitKey> = text("caller");
        /// The number of requests allowed in each `per`. Required.
        pub(crate) requests: Required<Scalar<kind::RequestCount>>, required "the number of requests allowed in each `per`, such as `requests: 60`";
        /// The period of `requests`. A duration of at most a day.
        pub(crate) per: Scalar<kind::Period> = text("1m");
        /// The maximum number of requests in one burst; defaults to `requests`.
        pub(crate) burst: Option<Scalar<kind::RequestCount>>;
        /// Quotas for callers of a tier, by the name of the tier.
        pub(crate) tiers: BTreeMap<String, Spanned<TierSpec>>;
        /// Shares the count among replicas through `redis`: `true` or `false`.
        pub(crate) shared: Scalar<kind::Truth> = text("false");
    }
}

section! {
    /// The quota of a tier.
    pub(crate) struct TierSpec {
        /// The number of requests allowed in each `per` of the rate limit. Required.
        pub(crate) requests: Required<Scalar<kind::RequestCount>>, required "the number of requests allowed in each `per`, such as `requests: 60`";
        /// The maximum number of requests in one burst; defaults to the rate limit's `burst` if that is set, else to
        /// `requests`.
        pub(crate) burst: Option<Scalar<kind::RequestCount>>;
    }
}

section! {
    /// A Redis or Valkey server.
    pub(crate) struct RedisSpec {
        /// `redis://host:6379/0`, or `rediss://` for TLS. Supply a password through a variable or `password_file`.
        /// Required.
        pub(crate) url: Required<Scalar<kind::RedisUrl>>, required "the URL of the server, such as `url: redis://127.0.0.1:6379/0`";
        /// A file with the password.
        pub(crate) password_file: Option<Scalar<kind::FileName>>;
        /// The prefix of all keys that Diglot stores.
        pub(crate) prefix: Scalar<kind::Text> = text("diglot:");
        /// Timeout of a request to Redis.
        pub(crate) deadline: Scalar<kind::Deadline> = text("20ms");
        /// Behaviour after a timeout or an error: each replica counts by itself (`local`), all requests pass (`allow`),
        /// or none pass (`deny`).
        pub(crate) on_error: Scalar<kind::OnError> = text("local");
    }
}

// The issuers and lists of API keys that a route names.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub(crate) struct MethodNames(pub(crate) Option<Spanned<ScalarOrList<kind::Text>>>);

// The rate limits that a route names.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub(crate) struct RateLimitNames(pub(crate) Vec<Scalar<kind::Text>>);

// Header fields by name.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub(crate) struct UpstreamHeaders(pub(crate) BTreeMap<String, Spanned<UpstreamHeaderSpec>>);

impl CorsConfig {
    pub(crate) fn allows_any_origin(&self) -> bool {
        self.origins.iter().any(|origin| origin == "*")
    }
}
