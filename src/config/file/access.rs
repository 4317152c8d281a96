//! Keys of the file about callers: authentication, authorisation, rate limits and run limits.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Serialize};

use super::{Scalar, ScalarOrList, Spanned, Text, kind, synthetic_text};

/// Authentication: the issuers of tokens and the lists of API keys that the gateway accepts.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AuthSpec {
    /// The gateway's own URL, for protected resource metadata (RFC 9728) and `WWW-Authenticate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resource: Option<Scalar<kind::Url>>,
    /// Issuers of JSON Web Tokens.
    pub(crate) issuers: Vec<Spanned<IssuerSpec>>,
    /// Lists of API keys.
    pub(crate) api_keys: Vec<Spanned<ApiKeyListSpec>>,
}

/// One issuer of JSON Web Tokens. Its keys are found by OIDC discovery unless one of `jwks_url`, `jwks_file`,
/// `public_key_file`, `secret_file` and `secret` is set. Files are reloaded when they change.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct IssuerSpec {
    /// The name of the issuer in routes, metrics and logs. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Scalar<kind::Text>")]
    pub(crate) name: Option<Scalar<kind::Text>>,
    /// The exact value of `iss`. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Scalar<kind::Issuer>")]
    pub(crate) issuer: Option<Scalar<kind::Issuer>>,
    /// The accepted audiences, of which `aud` has to contain one: a value or a list. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Spanned<ScalarOrList<kind::Text>>")]
    pub(crate) audience: Option<Spanned<ScalarOrList<kind::Text>>>,
    /// A JWKS at an https URL (http on loopback).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) jwks_url: Option<Scalar<kind::Url>>,
    /// A JWKS in a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) jwks_file: Option<Scalar<kind::FileName>>,
    /// Public keys in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) public_key_file: Option<Scalar<kind::FileName>>,
    /// A file with a shared secret, for HS256, HS384 and HS512.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) secret_file: Option<Scalar<kind::FileName>>,
    /// A shared secret; write it as a variable: `${TOKEN_SECRET}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<Scalar<kind::Secret>>,
    /// The accepted signature algorithms. When left out: every algorithm that fits its keys.
    #[serde(default)]
    pub(crate) algorithms: Vec<Scalar<kind::Algorithm>>,
    /// The accepted values of `typ`; `[JWT, at+jwt]` when left out. A token without `typ` is accepted.
    #[serde(default = "types")]
    pub(crate) types: Vec<Scalar<kind::Text>>,
    /// The tolerated clock skew; at most 60s.
    #[serde(default = "leeway")]
    pub(crate) leeway: Scalar<kind::Duration>,
    /// The claim that identifies the caller.
    #[serde(default = "subject_claim")]
    pub(crate) subject_claim: Scalar<kind::Text>,
    /// The claim that identifies the caller's tenant. A dot selects a member of an object: `org.id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tenant_claim: Option<Scalar<kind::Text>>,
    /// The claim that names the caller's tier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tier_claim: Option<Scalar<kind::Text>>,
    /// The claim that lists scopes: a text separated by spaces, or a list.
    #[serde(default = "scopes_claim")]
    pub(crate) scopes_claim: Scalar<kind::Text>,
}

fn types() -> Vec<Scalar<kind::Text>> {
    vec![synthetic_text("JWT"), synthetic_text("at+jwt")]
}

fn leeway() -> Scalar<kind::Duration> {
    synthetic_text("5s")
}

fn subject_claim() -> Scalar<kind::Text> {
    synthetic_text("sub")
}

fn scopes_claim() -> Scalar<kind::Text> {
    synthetic_text("scope")
}

/// A list of API keys: in a file of its own, here, or both.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApiKeyListSpec {
    /// The name of the list in routes, metrics and logs. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Scalar<kind::Text>")]
    pub(crate) name: Option<Scalar<kind::Text>>,
    /// The header field that carries the key; with `authorization` the key is a bearer token.
    #[serde(default = "key_header")]
    pub(crate) header: Scalar<kind::Field>,
    /// A YAML file with `keys`, as below. It is reloaded when it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<Scalar<kind::FileName>>,
    /// Keys in this file.
    #[serde(default)]
    pub(crate) keys: Vec<Spanned<ApiKeySpec>>,
}

fn key_header() -> Scalar<kind::Field> {
    synthetic_text("x-api-key")
}

/// One API key. `diglot token --api-key` makes one and prints its entry.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApiKeySpec {
    /// The name of the key in logs, never the key itself. Required, unique in its list.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Scalar<kind::Text>")]
    pub(crate) id: Option<Scalar<kind::Text>>,
    /// SHA-256 of the key, 64 hexadecimal digits. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Scalar<kind::Digest>")]
    pub(crate) sha256: Option<Scalar<kind::Digest>>,
    /// The caller's subject; the `id` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) subject: Option<Scalar<kind::Text>>,
    /// The caller's tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<Scalar<kind::Text>>,
    /// The caller's tier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tier: Option<Scalar<kind::Text>>,
    /// The caller's scopes.
    #[serde(default)]
    pub(crate) scopes: Vec<Scalar<kind::Text>>,
    /// The time from which the key is refused: `2027-01-31` or `2027-01-31T12:00:00Z`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires: Option<Scalar<kind::Moment>>,
}

/// A file of API keys.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ApiKeyFile {
    /// The keys.
    pub(crate) keys: Vec<Spanned<ApiKeySpec>>,
}

/// Requirements for callers. A caller has to meet all of them.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RequireSpec {
    /// Claims of the token: each has to equal or contain one of the values. A dot selects a member of an object.
    pub(crate) claims: BTreeMap<String, Spanned<ScalarOrList<kind::Text>>>,
    /// Required scopes; the caller needs all of them.
    pub(crate) scopes: Vec<Scalar<kind::Text>>,
    /// Accepted tenants; the caller has to belong to one of them.
    pub(crate) tenants: Vec<Scalar<kind::Text>>,
}

/// Limits of one run; a run that exceeds one ends with `RUN_ERROR`. No limits unless set.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RunLimitsSpec {
    /// The most events sent to the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) events: Option<Scalar<kind::Count>>,
    /// The most bytes sent to the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<Scalar<kind::Size>>,
    /// The longest time from the request to the end of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) duration: Option<Scalar<kind::Duration>>,
}

/// Cross-origin access for browsers.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CorsSpec {
    /// The allowed origins, such as `https://app.example.com`, or `*` for any. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Spanned<ScalarOrList<kind::WebOrigin>>")]
    pub(crate) origins: Option<Spanned<ScalarOrList<kind::WebOrigin>>>,
    /// Allows browsers to send cookies: `true` or `false`. Not with `*`.
    #[serde(default = "credentials")]
    pub(crate) credentials: Scalar<kind::Truth>,
    /// Time that a browser may cache the response to a preflight.
    #[serde(default = "max_age")]
    pub(crate) max_age: Scalar<kind::Duration>,
}

fn credentials() -> Scalar<kind::Truth> {
    synthetic_text("false")
}

fn max_age() -> Scalar<kind::Duration> {
    synthetic_text("10m")
}

/// A header field for the agent: its value, or a file that contains it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum UpstreamHeaderSpec {
    /// `authorization: Bearer ${AGENT_TOKEN}`
    Text(Text<kind::FieldValue>),
    /// `authorization: {file: /run/secrets/agent, prefix: "Bearer "}`
    File(Box<UpstreamHeaderMapping>),
}

/// The mapping form of a header field for the agent.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpstreamHeaderMapping {
    /// Text in front of the file's content, such as `Bearer `.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) prefix: Option<Scalar<kind::FieldPrefix>>,
    /// The file with the value; trailing white space is removed. It is reloaded when it changes. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Scalar<kind::FileName>")]
    pub(crate) file: Option<Scalar<kind::FileName>>,
}

/// A rate limit.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RateLimitSpec {
    /// The name of the limit in routes, metrics, logs and responses. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Scalar<kind::Text>")]
    pub(crate) name: Option<Scalar<kind::Text>>,
    /// The key by which requests are counted: `caller` (a subject of a tenant; the address of an anonymous caller),
    /// `tenant`, `claim:<name>`, `address` (of IPv6 the /64 network), `header:<name>`, or `route`.
    #[serde(default = "limit_key")]
    pub(crate) key: Scalar<kind::LimitKey>,
    /// Requests that are allowed in each `per`. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Scalar<kind::Count>")]
    pub(crate) requests: Option<Scalar<kind::Count>>,
    /// The period of `requests`. A duration of at most a day.
    #[serde(default = "per")]
    pub(crate) per: Scalar<kind::Duration>,
    /// The most requests in one burst; `requests` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) burst: Option<Scalar<kind::Count>>,
    /// Quotas for callers of a tier, by the name of the tier.
    #[serde(default)]
    pub(crate) tiers: BTreeMap<String, Spanned<TierSpec>>,
    /// Shares the count between replicas, in `redis`: `true` or `false`.
    #[serde(default = "shared")]
    pub(crate) shared: Scalar<kind::Truth>,
}

fn limit_key() -> Scalar<kind::LimitKey> {
    synthetic_text("caller")
}

fn per() -> Scalar<kind::Duration> {
    synthetic_text("1m")
}

fn shared() -> Scalar<kind::Truth> {
    synthetic_text("false")
}

/// The quota of a tier.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TierSpec {
    /// Requests that are allowed in each `per` of the rate limit. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Scalar<kind::Count>")]
    pub(crate) requests: Option<Scalar<kind::Count>>,
    /// The most requests in one burst. When left out: the `burst` of the rate limit if that is set, else `requests`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) burst: Option<Scalar<kind::Count>>,
}

/// A Redis or Valkey server.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RedisSpec {
    /// `redis://host:6379/0`, or `rediss://` for TLS. Supply a password through a variable or `password_file`.
    /// Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Scalar<kind::RedisUrl>")]
    pub(crate) url: Option<Scalar<kind::RedisUrl>>,
    /// A file with the password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) password_file: Option<Scalar<kind::FileName>>,
    /// The prefix of all keys that Diglot stores.
    #[serde(default = "prefix")]
    pub(crate) prefix: Scalar<kind::Text>,
    /// Timeout of a request to Redis.
    #[serde(default = "deadline")]
    pub(crate) deadline: Scalar<kind::Duration>,
    /// Behaviour after a timeout or an error: each replica counts by itself (`local`), all requests pass (`allow`), or
    /// none does (`deny`).
    #[serde(default = "on_error")]
    pub(crate) on_error: Scalar<kind::OnError>,
}

fn prefix() -> Scalar<kind::Text> {
    synthetic_text("diglot:")
}

fn deadline() -> Scalar<kind::Duration> {
    synthetic_text("20ms")
}

fn on_error() -> Scalar<kind::OnError> {
    synthetic_text("local")
}

impl<'de> Deserialize<'de> for UpstreamHeaderSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<UpstreamHeaderSpec, D::Error> {
        struct UpstreamHeaderVisitor;
        impl<'de> Visitor<'de> for UpstreamHeaderVisitor {
            type Value = UpstreamHeaderSpec;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a value or a mapping such as {file: PATH}")
            }
            fn visit_str<E: Error>(self, value: &str) -> Result<UpstreamHeaderSpec, E> {
                Ok(UpstreamHeaderSpec::Text(Text::new(value)))
            }
            // The reader would repeat a number or a truth value in its message, and it may be a secret.
            fn visit_bool<E: Error>(self, _: bool) -> Result<UpstreamHeaderSpec, E> {
                Err(E::invalid_type(Unexpected::Other("a truth value"), &self))
            }
            fn visit_u64<E: Error>(self, _: u64) -> Result<UpstreamHeaderSpec, E> {
                Err(E::invalid_type(Unexpected::Other("a number"), &self))
            }
            fn visit_i64<E: Error>(self, _: i64) -> Result<UpstreamHeaderSpec, E> {
                Err(E::invalid_type(Unexpected::Other("a number"), &self))
            }
            fn visit_f64<E: Error>(self, _: f64) -> Result<UpstreamHeaderSpec, E> {
                Err(E::invalid_type(Unexpected::Other("a number"), &self))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<UpstreamHeaderSpec, A::Error> {
                UpstreamHeaderMapping::deserialize(MapAccessDeserializer::new(map))
                    .map(|file| UpstreamHeaderSpec::File(Box::new(file)))
            }
        }
        deserializer.deserialize_any(UpstreamHeaderVisitor)
    }
}
