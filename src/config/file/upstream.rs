//! What the operator writes about agents: where they are, how they are spoken to, and when one is left out.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::{Scalar, Spanned, Text, kind, synthetic_text};

/// Where the agents of a route are: one of them, or a list.
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
    #[schemars(required)]
    pub(crate) url: Option<Scalar<kind::AgentUrl>>,
    /// Its share of the runs beside the other upstreams of the route, from 1 to 1000.
    #[serde(default = "weight")]
    pub(crate) weight: Scalar<kind::Weight>,
    /// Which HTTP it is spoken to in: `1`, `2` (by prior knowledge, over TLS by ALPN), or `auto`: HTTP/1.1, and over TLS
    /// what it prefers.
    #[serde(default = "http")]
    pub(crate) http: Scalar<kind::Http>,
}

fn weight() -> Scalar<kind::Weight> {
    synthetic_text("1")
}

fn http() -> Scalar<kind::Http> {
    synthetic_text("auto")
}

/// What TLS connections to agents are made with. Files are read again when they change.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpstreamTlsSpec {
    /// A file with the certificates that an agent's one has to come from, in PEM. Those of the system when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ca: Option<Scalar<kind::FileName>>,
    /// A file with the gateway's own certificate, and those between it and its root, in PEM; with `key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cert: Option<Scalar<kind::FileName>>,
    /// A file with the key of `cert`, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<Scalar<kind::FileName>>,
    /// The name that an agent's certificate has to be for. The host of its URL when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server_name: Option<Scalar<kind::Text>>,
}

/// How agents are asked whether they are well.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct HealthCheckSpec {
    /// What is asked for with GET; an answer of 2xx means that the agent is well. Without it a connection is enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<Scalar<kind::Path>>,
    /// How long after one check the next one comes.
    pub(crate) interval: Scalar<kind::Duration>,
    /// How long an agent may take to answer.
    pub(crate) timeout: Scalar<kind::Duration>,
    /// How many checks in a row have to pass until an agent that failed gets runs again.
    pub(crate) healthy: Scalar<kind::Count>,
    /// How many have to fail until it gets none.
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

/// When an agent that fails is left out for a while.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EjectionSpec {
    /// How many runs in a row have to fail at one address: no connection, no answer, or 502, 503 or 504.
    pub(crate) failures: Scalar<kind::Count>,
    /// How long it is left out then; twice as long each time that it fails again on its return, at most 5 minutes.
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
