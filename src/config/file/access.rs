//! What the operator writes about callers: whom the gateway believes, who may call, how often and how much.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Serialize};
use serde_saphyr::Spanned;

use super::{ScalarOrList, SpannedText, kind, synthetic_text};

/// Whom the gateway believes.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AuthSpec {
    /// The gateway's own URL, for protected resource metadata (RFC 9728) and `WWW-Authenticate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Url>")]
    pub(crate) resource: Option<SpannedText>,
    /// Issuers of JSON Web Tokens.
    #[schemars(with = "Vec<IssuerSpec>")]
    pub(crate) issuers: Vec<Spanned<IssuerSpec>>,
    /// Lists of API keys.
    #[schemars(with = "Vec<ApiKeyListSpec>")]
    pub(crate) api_keys: Vec<Spanned<ApiKeyListSpec>>,
}

/// One issuer of JSON Web Tokens. Its keys are found by OIDC discovery unless one of `jwks_url`, `jwks_file`,
/// `public_key_file`, `secret_file` and `secret` says otherwise. Files are read again when they change.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IssuerSpec {
    /// The issuer in routes, metrics and logs. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::Text")]
    pub(crate) name: Option<SpannedText>,
    /// What `iss` has to say, to the letter. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::Text")]
    pub(crate) issuer: Option<SpannedText>,
    /// What `aud` has to hold: one value, or a list of which one is enough. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::ScalarOrListKind<kind::Text>")]
    pub(crate) audience: Option<Spanned<ScalarOrList>>,
    /// A JWKS at an https URL (http on loopback).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Url>")]
    pub(crate) jwks_url: Option<SpannedText>,
    /// A JWKS in a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::FileName>")]
    pub(crate) jwks_file: Option<SpannedText>,
    /// Public keys in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::FileName>")]
    pub(crate) public_key_file: Option<SpannedText>,
    /// A file with a shared secret, for HS256, HS384 and HS512.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::FileName>")]
    pub(crate) secret_file: Option<SpannedText>,
    /// A shared secret; write it as a variable: `${TOKEN_SECRET}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Text>")]
    pub(crate) secret: Option<SpannedText>,
    /// What its tokens may be signed with. Every algorithm that its keys have when left out.
    #[serde(default)]
    #[schemars(with = "Vec<kind::Algorithm>")]
    pub(crate) algorithms: Vec<SpannedText>,
    /// What `typ` may say; `[JWT, at+jwt]` when left out. A token without `typ` is taken.
    #[serde(default = "types")]
    #[schemars(with = "Vec<kind::Text>")]
    pub(crate) types: Vec<SpannedText>,
    /// How far clocks may differ; at most 60s.
    #[serde(default = "leeway")]
    #[schemars(with = "kind::Duration")]
    pub(crate) leeway: SpannedText,
    /// The claim that says who calls.
    #[serde(default = "subject_claim")]
    #[schemars(with = "kind::Text")]
    pub(crate) subject_claim: SpannedText,
    /// The claim that says on whose behalf. A dot steps into an object: `org.id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Text>")]
    pub(crate) tenant_claim: Option<SpannedText>,
    /// The claim that names the caller's tier.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Text>")]
    pub(crate) tier_claim: Option<SpannedText>,
    /// The claim that lists scopes: a text with blanks between, or a list.
    #[serde(default = "scopes_claim")]
    #[schemars(with = "kind::Text")]
    pub(crate) scopes_claim: SpannedText,
}

fn types() -> Vec<SpannedText> {
    vec![synthetic_text("JWT"), synthetic_text("at+jwt")]
}

fn leeway() -> SpannedText {
    synthetic_text("5s")
}

fn subject_claim() -> SpannedText {
    synthetic_text("sub")
}

fn scopes_claim() -> SpannedText {
    synthetic_text("scope")
}

/// A list of API keys: in a file of its own, here, or both.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApiKeyListSpec {
    /// The list in routes, metrics and logs. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::Text")]
    pub(crate) name: Option<SpannedText>,
    /// The field that callers put their key in; `authorization` takes it as a bearer token.
    #[serde(default = "key_header")]
    #[schemars(with = "kind::Field")]
    pub(crate) header: SpannedText,
    /// A YAML file with `keys`, as below. It is read again when it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::FileName>")]
    pub(crate) file: Option<SpannedText>,
    /// Keys that stand here.
    #[serde(default)]
    #[schemars(with = "Vec<ApiKeySpec>")]
    pub(crate) keys: Vec<Spanned<ApiKeySpec>>,
}

fn key_header() -> SpannedText {
    synthetic_text("x-api-key")
}

/// One API key. `diglot token --api-key` makes one and prints its entry.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApiKeySpec {
    /// The key in logs, never the key itself. Required, unique in its list.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::Text")]
    pub(crate) id: Option<SpannedText>,
    /// SHA-256 of the key, 64 hexadecimal digits. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::Digest")]
    pub(crate) sha256: Option<SpannedText>,
    /// Who calls; the `id` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Text>")]
    pub(crate) subject: Option<SpannedText>,
    /// On whose behalf.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Text>")]
    pub(crate) tenant: Option<SpannedText>,
    /// The caller's tier.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Text>")]
    pub(crate) tier: Option<SpannedText>,
    /// What it may do.
    #[serde(default)]
    #[schemars(with = "Vec<kind::Text>")]
    pub(crate) scopes: Vec<SpannedText>,
    /// From when on it is refused: `2027-01-31` or `2027-01-31T12:00:00Z`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Moment>")]
    pub(crate) expires: Option<SpannedText>,
}

/// A file of API keys.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApiKeyFile {
    /// The keys.
    #[schemars(with = "Vec<ApiKeySpec>")]
    pub(crate) keys: Vec<Spanned<ApiKeySpec>>,
}

/// What has to be true of a caller. Each key that is written has to hold.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RequireSpec {
    /// Claims of its token: each has to be, or hold, one of the values. A dot steps into an object.
    #[schemars(with = "BTreeMap<String, kind::ScalarOrListKind<kind::Text>>")]
    pub(crate) claims: BTreeMap<String, Spanned<ScalarOrList>>,
    /// Scopes, all of them.
    #[schemars(with = "Vec<kind::Text>")]
    pub(crate) scopes: Vec<SpannedText>,
    /// Tenants, one of them.
    #[schemars(with = "Vec<kind::Text>")]
    pub(crate) tenants: Vec<SpannedText>,
}

/// How large and long one run may get; over it the run ends with `RUN_ERROR`. No limits unless set.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunLimitsSpec {
    /// Events for the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Count>")]
    pub(crate) events: Option<SpannedText>,
    /// Bytes for the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Size>")]
    pub(crate) bytes: Option<SpannedText>,
    /// From the request to the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Duration>")]
    pub(crate) duration: Option<SpannedText>,
}

/// Pages of which origins may call.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CorsSpec {
    /// Such as `https://app.example.com`, or `*` for any. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::ScalarOrListKind<kind::WebOrigin>")]
    pub(crate) origins: Option<Spanned<ScalarOrList>>,
    /// Whether browsers send cookies along: `true` or `false`. Never with `*`.
    #[serde(default = "credentials")]
    #[schemars(with = "kind::Truth")]
    pub(crate) credentials: SpannedText,
    /// How long a browser may keep the answer to a preflight.
    #[serde(default = "max_age")]
    #[schemars(with = "kind::Duration")]
    pub(crate) max_age: SpannedText,
}

fn credentials() -> SpannedText {
    synthetic_text("false")
}

fn max_age() -> SpannedText {
    synthetic_text("10m")
}

/// A field for the agent: its value, or the file that holds it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum UpstreamHeaderSpec {
    /// `authorization: Bearer ${AGENT_TOKEN}`
    Text(#[schemars(with = "kind::FieldValue")] String),
    /// `authorization: {file: /run/secrets/agent, prefix: "Bearer "}`
    File(Box<UpstreamHeaderMapping>),
}

/// The mapping form of a field for the agent.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpstreamHeaderMapping {
    /// What stands before the content.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Text>")]
    pub(crate) prefix: Option<SpannedText>,
    /// The file; white space at its end is not part of the value, and it is read again when it changes. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::FileName")]
    pub(crate) file: Option<SpannedText>,
}

/// A rate limit.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateLimitSpec {
    /// The limit in routes, metrics, logs and answers. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::Text")]
    pub(crate) name: Option<SpannedText>,
    /// Whose requests are counted together: `caller` (a subject of a tenant; the address where nobody has to say who it
    /// is), `tenant`, `claim:<name>`, `address` (of IPv6 the /64 network), `header:<name>`, or `route`.
    #[serde(default = "limit_key")]
    #[schemars(with = "kind::LimitKey")]
    pub(crate) key: SpannedText,
    /// How many requests come back in `per`. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::Count")]
    pub(crate) requests: Option<SpannedText>,
    /// In what time. A duration of at most a day.
    #[serde(default = "per")]
    #[schemars(with = "kind::Duration")]
    pub(crate) per: SpannedText,
    /// How many may come at once; `requests` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Count>")]
    pub(crate) burst: Option<SpannedText>,
    /// Other quotas for callers of a tier, by its name.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, TierSpec>")]
    pub(crate) tiers: BTreeMap<String, Spanned<TierSpec>>,
    /// Whether replicas count together, in `redis`: `true` or `false`.
    #[serde(default = "shared")]
    #[schemars(with = "kind::Truth")]
    pub(crate) shared: SpannedText,
}

fn limit_key() -> SpannedText {
    synthetic_text("caller")
}

fn per() -> SpannedText {
    synthetic_text("1m")
}

fn shared() -> SpannedText {
    synthetic_text("false")
}

/// The quota of a tier.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TierSpec {
    /// How many requests come back in `per` of the rate limit. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::Count")]
    pub(crate) requests: Option<SpannedText>,
    /// How many may come at once. When left out, the `burst` of the rate limit where that is written, else `requests`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Count>")]
    pub(crate) burst: Option<SpannedText>,
}

/// A Redis or Valkey.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RedisSpec {
    /// `redis://host:6379/0`, or `rediss://` for TLS. Put a password in through a variable or `password_file`. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::RedisUrl")]
    pub(crate) url: Option<SpannedText>,
    /// A file with the password.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::FileName>")]
    pub(crate) password_file: Option<SpannedText>,
    /// What the names of our keys begin with.
    #[serde(default = "prefix")]
    #[schemars(with = "kind::Text")]
    pub(crate) prefix: SpannedText,
    /// How long an answer may take before it is done without.
    #[serde(default = "deadline")]
    #[schemars(with = "kind::Duration")]
    pub(crate) deadline: SpannedText,
    /// What is done then: each replica counts by itself (`local`), everybody may call (`allow`), or nobody (`deny`).
    #[serde(default = "on_error")]
    #[schemars(with = "kind::OnError")]
    pub(crate) on_error: SpannedText,
}

fn prefix() -> SpannedText {
    synthetic_text("diglot:")
}

fn deadline() -> SpannedText {
    synthetic_text("20ms")
}

fn on_error() -> SpannedText {
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
                Ok(UpstreamHeaderSpec::Text(value.to_owned()))
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
