//! What the operator writes about callers: whom the gateway believes, who may call, how often and how much.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Serialize};
use serde_saphyr::Spanned;

use super::{OneOrMany, Text, kind, text};

/// Whom the gateway believes.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Auth {
    /// The gateway's own URL, for protected resource metadata (RFC 9728) and `WWW-Authenticate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Url>")]
    pub resource: Option<Text>,
    /// Issuers of JSON Web Tokens.
    #[schemars(with = "Vec<Issuer>")]
    pub issuers: Vec<Spanned<Issuer>>,
    /// Lists of API keys.
    #[schemars(with = "Vec<KeySource>")]
    pub api_keys: Vec<Spanned<KeySource>>,
}

/// One issuer of JSON Web Tokens. Its keys are found by OIDC discovery unless one of `jwks_url`, `jwks_file`,
/// `public_key_file`, `secret_file` and `secret` says otherwise. Files are read again when they change.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Issuer {
    /// The issuer in routes, metrics and logs. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::Text")]
    pub name: Option<Text>,
    /// What `iss` has to say, to the letter. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::Text")]
    pub issuer: Option<Text>,
    /// What `aud` has to hold: one value, or a list of which one is enough. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::OneOrMany<kind::Text>")]
    pub audience: Option<Spanned<OneOrMany>>,
    /// A JWKS at an https URL (http on loopback).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Url>")]
    pub jwks_url: Option<Text>,
    /// A JWKS in a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::FileName>")]
    pub jwks_file: Option<Text>,
    /// Public keys in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::FileName>")]
    pub public_key_file: Option<Text>,
    /// A file with a shared secret, for HS256, HS384 and HS512.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::FileName>")]
    pub secret_file: Option<Text>,
    /// A shared secret; write it as a variable: `${TOKEN_SECRET}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Text>")]
    pub secret: Option<Text>,
    /// What its tokens may be signed with. Every algorithm that its keys have when left out.
    #[serde(default)]
    #[schemars(with = "Vec<kind::Algorithm>")]
    pub algorithms: Vec<Text>,
    /// What `typ` may say; `[JWT, at+jwt]` when left out. A token without `typ` is taken.
    #[serde(default = "types")]
    #[schemars(with = "Vec<kind::Text>")]
    pub types: Vec<Text>,
    /// How far clocks may differ; at most 60s.
    #[serde(default = "leeway")]
    #[schemars(with = "kind::Duration")]
    pub leeway: Text,
    /// The claim that says who calls.
    #[serde(default = "subject_claim")]
    #[schemars(with = "kind::Text")]
    pub subject_claim: Text,
    /// The claim that says on whose behalf. A dot steps into an object: `org.id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Text>")]
    pub tenant_claim: Option<Text>,
    /// The claim that names the caller's tier.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Text>")]
    pub tier_claim: Option<Text>,
    /// The claim that lists scopes: a text with blanks between, or a list.
    #[serde(default = "scopes_claim")]
    #[schemars(with = "kind::Text")]
    pub scopes_claim: Text,
}

fn types() -> Vec<Text> {
    vec![text("JWT"), text("at+jwt")]
}

fn leeway() -> Text {
    text("5s")
}

fn subject_claim() -> Text {
    text("sub")
}

fn scopes_claim() -> Text {
    text("scope")
}

/// A list of API keys: in a file of its own, here, or both.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeySource {
    /// The list in routes, metrics and logs. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::Text")]
    pub name: Option<Text>,
    /// The field that callers put their key in; `authorization` takes it as a bearer token.
    #[serde(default = "key_header")]
    #[schemars(with = "kind::Field")]
    pub header: Text,
    /// A YAML file with `keys`, as below. It is read again when it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::FileName>")]
    pub file: Option<Text>,
    /// Keys that stand here.
    #[serde(default)]
    #[schemars(with = "Vec<ApiKey>")]
    pub keys: Vec<Spanned<ApiKey>>,
}

fn key_header() -> Text {
    text("x-api-key")
}

/// One API key. `diglot token --api-key` makes one and prints its entry.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApiKey {
    /// The key in logs, never the key itself. Required, unique in its list.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::Text")]
    pub id: Option<Text>,
    /// SHA-256 of the key, 64 hexadecimal digits. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::Digest")]
    pub sha256: Option<Text>,
    /// Who calls; the `id` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Text>")]
    pub subject: Option<Text>,
    /// On whose behalf.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Text>")]
    pub tenant: Option<Text>,
    /// The caller's tier.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Text>")]
    pub tier: Option<Text>,
    /// What it may do.
    #[serde(default)]
    #[schemars(with = "Vec<kind::Text>")]
    pub scopes: Vec<Text>,
    /// From when on it is refused: `2027-01-31` or `2027-01-31T12:00:00Z`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Moment>")]
    pub expires: Option<Text>,
}

/// A file of API keys.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KeyFile {
    /// The keys.
    #[schemars(with = "Vec<ApiKey>")]
    pub keys: Vec<Spanned<ApiKey>>,
}

/// What has to be true of a caller. Each key that is written has to hold.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Require {
    /// Claims of its token: each has to be, or hold, one of the values. A dot steps into an object.
    #[schemars(with = "BTreeMap<String, kind::OneOrMany<kind::Text>>")]
    pub claims: BTreeMap<String, Spanned<OneOrMany>>,
    /// Scopes, all of them.
    #[schemars(with = "Vec<kind::Text>")]
    pub scopes: Vec<Text>,
    /// Tenants, one of them.
    #[schemars(with = "Vec<kind::Text>")]
    pub tenants: Vec<Text>,
}

/// How large and long one run may get; over it the run ends with `RUN_ERROR`. No limits unless set.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunLimits {
    /// Events for the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Count>")]
    pub events: Option<Text>,
    /// Bytes for the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Size>")]
    pub bytes: Option<Text>,
    /// From the request to the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Duration>")]
    pub duration: Option<Text>,
}

/// Pages of which origins may call.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cors {
    /// Such as `https://app.example.com`, or `*` for any. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::OneOrMany<kind::WebOrigin>")]
    pub origins: Option<Spanned<OneOrMany>>,
    /// Whether browsers send cookies along: `true` or `false`. Never with `*`.
    #[serde(default = "credentials")]
    #[schemars(with = "kind::Truth")]
    pub credentials: Text,
    /// How long a browser may keep the answer to a preflight.
    #[serde(default = "max_age")]
    #[schemars(with = "kind::Duration")]
    pub max_age: Text,
}

fn credentials() -> Text {
    text("false")
}

fn max_age() -> Text {
    text("10m")
}

/// A field for the agent: its value, or the file that holds it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum UpstreamHeader {
    /// `authorization: Bearer ${AGENT_TOKEN}`
    Text(#[schemars(with = "kind::FieldValue")] String),
    /// `authorization: {file: /run/secrets/agent, prefix: "Bearer "}`
    File(Box<UpstreamFile>),
}

/// The mapping form of a field for the agent.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpstreamFile {
    /// What stands before the content.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Text>")]
    pub prefix: Option<Text>,
    /// The file; white space at its end is not part of the value, and it is read again when it changes. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::FileName")]
    pub file: Option<Text>,
}

/// A rate limit.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateLimit {
    /// The limit in routes, metrics, logs and answers. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::Text")]
    pub name: Option<Text>,
    /// Whose requests are counted together: `caller` (a subject of a tenant; the address where nobody has to say who it
    /// is), `tenant`, `claim:<name>`, `address` (of IPv6 the /64 network), `header:<name>`, or `route`.
    #[serde(default = "limit_key")]
    #[schemars(with = "kind::LimitKey")]
    pub key: Text,
    /// How many requests come back in `per`. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::Count")]
    pub requests: Option<Text>,
    /// In what time. A duration of at most a day.
    #[serde(default = "per")]
    #[schemars(with = "kind::Duration")]
    pub per: Text,
    /// How many may come at once; `requests` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Count>")]
    pub burst: Option<Text>,
    /// Other quotas for callers of a tier, by its name.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Tier>")]
    pub tiers: BTreeMap<String, Spanned<Tier>>,
    /// Whether replicas count together, in `redis`: `true` or `false`.
    #[serde(default = "shared")]
    #[schemars(with = "kind::Truth")]
    pub shared: Text,
}

fn limit_key() -> Text {
    text("caller")
}

fn per() -> Text {
    text("1m")
}

fn shared() -> Text {
    text("false")
}

/// The quota of a tier.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tier {
    /// How many requests come back in `per` of the rate limit. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::Count")]
    pub requests: Option<Text>,
    /// How many may come at once. When left out, the `burst` of the rate limit where that is written, else `requests`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Count>")]
    pub burst: Option<Text>,
}

/// A Redis or Valkey.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Redis {
    /// `redis://host:6379/0`, or `rediss://` for TLS. Put a password in through a variable or `password_file`. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::RedisUrl")]
    pub url: Option<Text>,
    /// A file with the password.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::FileName>")]
    pub password_file: Option<Text>,
    /// What the names of our keys begin with.
    #[serde(default = "prefix")]
    #[schemars(with = "kind::Text")]
    pub prefix: Text,
    /// How long an answer may take before it is done without.
    #[serde(default = "deadline")]
    #[schemars(with = "kind::Duration")]
    pub deadline: Text,
    /// What is done then: each replica counts by itself (`local`), everybody may call (`allow`), or nobody (`deny`).
    #[serde(default = "on_error")]
    #[schemars(with = "kind::OnError")]
    pub on_error: Text,
}

fn prefix() -> Text {
    text("diglot:")
}

fn deadline() -> Text {
    text("20ms")
}

fn on_error() -> Text {
    text("local")
}

impl<'de> Deserialize<'de> for UpstreamHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<UpstreamHeader, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = UpstreamHeader;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a value or a mapping such as {file: PATH}")
            }
            fn visit_str<E: Error>(self, value: &str) -> Result<UpstreamHeader, E> {
                Ok(UpstreamHeader::Text(value.to_owned()))
            }
            // The reader would repeat a number or a truth value in its message, and it may be a secret.
            fn visit_bool<E: Error>(self, _: bool) -> Result<UpstreamHeader, E> {
                Err(E::invalid_type(Unexpected::Other("a truth value"), &self))
            }
            fn visit_u64<E: Error>(self, _: u64) -> Result<UpstreamHeader, E> {
                Err(E::invalid_type(Unexpected::Other("a number"), &self))
            }
            fn visit_i64<E: Error>(self, _: i64) -> Result<UpstreamHeader, E> {
                Err(E::invalid_type(Unexpected::Other("a number"), &self))
            }
            fn visit_f64<E: Error>(self, _: f64) -> Result<UpstreamHeader, E> {
                Err(E::invalid_type(Unexpected::Other("a number"), &self))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<UpstreamHeader, A::Error> {
                UpstreamFile::deserialize(MapAccessDeserializer::new(map))
                    .map(|file| UpstreamHeader::File(Box::new(file)))
            }
        }
        deserializer.deserialize_any(Either)
    }
}
