//! Keys of the file about agents: addresses, protocols, health checks and ejection.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::{Scalar, Spanned, Text, kind, synthetic_text};

/// The upstreams of a route: one of them, or a list.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum UpstreamListSpec {
    /// `upstream: http://127.0.0.1:9001/chat`
    One(UpstreamSpec),
    /// `upstream: [http://10.0.0.1/chat, {url: http://10.0.0.2/chat, weight: 3}]`
    Many(Vec<Spanned<UpstreamSpec>>),
}

/// One upstream: its URL alone, or a mapping.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum UpstreamSpec {
    /// `http://127.0.0.1:9001/chat`
    Url(Text<kind::AgentUrl>),
    /// `{url: http://127.0.0.1:9001/chat, weight: 3}`
    Mapping(Box<UpstreamMapping>),
}

/// The mapping form of an upstream.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpstreamMapping {
    /// An `http` or `https` URL, or `unix:/run/agent.sock:/chat`. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Scalar<kind::AgentUrl>")]
    pub(crate) url: Option<Scalar<kind::AgentUrl>>,
    /// Its share of the runs relative to the other upstreams of the route, from 1 to 1000.
    #[serde(default = "weight")]
    pub(crate) weight: Scalar<kind::Weight>,
    /// The HTTP version: `1`, `2` (with prior knowledge, over TLS by ALPN), or `auto`: HTTP/1.1, and over TLS the
    /// version that the upstream prefers.
    #[serde(default = "http")]
    pub(crate) http: Scalar<kind::Http>,
}

fn weight() -> Scalar<kind::Weight> {
    synthetic_text("1")
}

fn http() -> Scalar<kind::Http> {
    synthetic_text("auto")
}

/// TLS settings for connections to agents. Files are reloaded when they change.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpstreamTlsSpec {
    /// A file with the certificate authorities for agents' certificates, in PEM. The system's root certificates when
    /// left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ca: Option<Scalar<kind::FileName>>,
    /// A file with the gateway's client certificate and the intermediate certificates, in PEM; requires `key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cert: Option<Scalar<kind::FileName>>,
    /// A file with the private key of `cert`, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<Scalar<kind::FileName>>,
    /// The expected server name in the agent's certificate. The host of its URL when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server_name: Option<Scalar<kind::Text>>,
}

/// Active health checks of upstreams.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct HealthCheckSpec {
    /// The path that is requested with GET; a 2xx response means healthy. Without it a successful connection is enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<Scalar<kind::Path>>,
    /// Time between two checks.
    pub(crate) interval: Scalar<kind::Duration>,
    /// Timeout of a check.
    pub(crate) timeout: Scalar<kind::Duration>,
    /// Consecutive successful checks until a failed upstream receives runs again.
    pub(crate) healthy: Scalar<kind::Count>,
    /// Consecutive failed checks until an upstream receives no runs.
    pub(crate) unhealthy: Scalar<kind::Count>,
}

impl Default for HealthCheckSpec {
    fn default() -> HealthCheckSpec {
        HealthCheckSpec {
            path: None,
            interval: synthetic_text("10s"),
            timeout: synthetic_text("2s"),
            healthy: synthetic_text("2"),
            unhealthy: synthetic_text("3"),
        }
    }
}

/// Ejection of failing upstreams.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EjectionSpec {
    /// Consecutive failed runs at one address that eject it: no connection, no response, or 502, 503 or 504.
    pub(crate) failures: Scalar<kind::Count>,
    /// Time that it is ejected; doubled each time it fails again after its return, at most 5 minutes.
    #[serde(rename = "for")]
    pub(crate) duration: Scalar<kind::Duration>,
}

impl Default for EjectionSpec {
    fn default() -> EjectionSpec {
        EjectionSpec { failures: synthetic_text("5"), duration: synthetic_text("30s") }
    }
}

// serde's `untagged` buffers what it reads and thereby forgets where it stood, so the choices are made by hand.

impl<'de> Deserialize<'de> for UpstreamListSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<UpstreamListSpec, D::Error> {
        struct UpstreamListVisitor;
        impl<'de> Visitor<'de> for UpstreamListVisitor {
            type Value = UpstreamListSpec;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a URL, a mapping such as {url: URL, weight: 3}, or a list of them")
            }
            fn visit_str<E: Error>(self, url: &str) -> Result<UpstreamListSpec, E> {
                Ok(UpstreamListSpec::One(UpstreamSpec::Url(Text::new(url))))
            }
            // A bare port is a number to YAML; it is kept, so that `check` can say what to write instead.
            fn visit_u64<E: Error>(self, port: u64) -> Result<UpstreamListSpec, E> {
                self.visit_str(&port.to_string())
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<UpstreamListSpec, A::Error> {
                read_mapping(map).map(UpstreamListSpec::One)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<UpstreamListSpec, A::Error> {
                let mut many = Vec::new();
                while let Some(one) = list.next_element::<Spanned<UpstreamSpec>>()? {
                    many.push(one);
                }
                Ok(UpstreamListSpec::Many(many))
            }
        }
        deserializer.deserialize_any(UpstreamListVisitor)
    }
}

impl<'de> Deserialize<'de> for UpstreamSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<UpstreamSpec, D::Error> {
        struct UpstreamVisitor;
        impl<'de> Visitor<'de> for UpstreamVisitor {
            type Value = UpstreamSpec;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a URL or a mapping such as {url: URL, weight: 3}")
            }
            fn visit_str<E: Error>(self, url: &str) -> Result<UpstreamSpec, E> {
                Ok(UpstreamSpec::Url(Text::new(url)))
            }
            fn visit_u64<E: Error>(self, port: u64) -> Result<UpstreamSpec, E> {
                self.visit_str(&port.to_string())
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<UpstreamSpec, A::Error> {
                read_mapping(map)
            }
        }
        deserializer.deserialize_any(UpstreamVisitor)
    }
}

fn read_mapping<'de, A: MapAccess<'de>>(map: A) -> Result<UpstreamSpec, A::Error> {
    UpstreamMapping::deserialize(MapAccessDeserializer::new(map))
        .map(|mapping| UpstreamSpec::Mapping(Box::new(mapping)))
}
