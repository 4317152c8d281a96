//! What the operator writes about agents: where they are, how they are spoken to, and when one is left out.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_saphyr::Spanned;

use super::{Text, kind, text};

/// Where the agents of a route are: one of them, or a list.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Upstreams {
    /// `upstream: http://127.0.0.1:9001/chat`
    One(Upstream),
    /// `upstream: [http://10.0.0.1/chat, {url: http://10.0.0.2/chat, weight: 3}]`
    Many(#[schemars(with = "Vec<Upstream>")] Vec<Spanned<Upstream>>),
}

/// One upstream: its URL alone, or a mapping.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Upstream {
    /// `http://127.0.0.1:9001/chat`
    Url(#[schemars(with = "kind::AgentUrl")] String),
    /// `{url: http://127.0.0.1:9001/chat, weight: 3}`
    Mapping(Box<UpstreamMapping>),
}

/// The mapping form of an upstream.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpstreamMapping {
    /// An `http` or `https` URL, or `unix:/run/agent.sock:/chat`. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::AgentUrl")]
    pub url: Option<Text>,
    /// Its share of the runs beside the other upstreams of the route, from 1 to 1000.
    #[serde(default = "weight")]
    #[schemars(with = "kind::Weight")]
    pub weight: Text,
    /// Which HTTP it is spoken to in: `1`, `2` (by prior knowledge, over TLS by ALPN), or `auto`: HTTP/1.1, and over TLS
    /// what it prefers.
    #[serde(default = "http")]
    #[schemars(with = "kind::Http")]
    pub http: Text,
}

fn weight() -> Text {
    text("1")
}

fn http() -> Text {
    text("auto")
}

/// What TLS connections to agents are made with. Files are read again when they change.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpstreamTls {
    /// A file with the certificates that an agent's one has to come from, in PEM. Those of the system when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::FileName>")]
    pub ca: Option<Text>,
    /// A file with the gateway's own certificate, and those between it and its root, in PEM; with `key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::FileName>")]
    pub cert: Option<Text>,
    /// A file with the key of `cert`, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::FileName>")]
    pub key: Option<Text>,
    /// The name that an agent's certificate has to be for. The host of its URL when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Text>")]
    pub server_name: Option<Text>,
}

/// How agents are asked whether they are well.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Health {
    /// What is asked for with GET; an answer of 2xx means that the agent is well. Without it a connection is enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Path>")]
    pub path: Option<Text>,
    /// How long after one check the next one comes.
    #[schemars(with = "kind::Duration")]
    pub interval: Text,
    /// How long an agent may take to answer.
    #[schemars(with = "kind::Duration")]
    pub timeout: Text,
    /// How many checks in a row have to pass until an agent that failed gets runs again.
    #[schemars(with = "kind::Count")]
    pub healthy: Text,
    /// How many have to fail until it gets none.
    #[schemars(with = "kind::Count")]
    pub unhealthy: Text,
}

impl Default for Health {
    fn default() -> Health {
        Health { path: None, interval: text("10s"), timeout: text("2s"), healthy: text("2"), unhealthy: text("3") }
    }
}

/// When an agent that fails is left out for a while.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ejection {
    /// How many runs in a row have to fail at one address: no connection, no answer, or 502, 503 or 504.
    #[schemars(with = "kind::Count")]
    pub failures: Text,
    /// How long it is left out then; twice as long each time that it fails again on its return, at most 5 minutes.
    #[serde(rename = "for")]
    #[schemars(with = "kind::Duration")]
    pub duration: Text,
}

impl Default for Ejection {
    fn default() -> Ejection {
        Ejection { failures: text("5"), duration: text("30s") }
    }
}

// serde's `untagged` buffers what it reads and thereby forgets where it stood, so the choices are made by hand.

impl<'de> Deserialize<'de> for Upstreams {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Upstreams, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Upstreams;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a URL, a mapping such as {url: URL, weight: 3}, or a list of them")
            }
            fn visit_str<E: Error>(self, url: &str) -> Result<Upstreams, E> {
                Ok(Upstreams::One(Upstream::Url(url.to_owned())))
            }
            // A bare port is a number to YAML; it is kept, so that `check` can say what to write instead.
            fn visit_u64<E: Error>(self, port: u64) -> Result<Upstreams, E> {
                self.visit_str(&port.to_string())
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Upstreams, A::Error> {
                mapping(map).map(Upstreams::One)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Upstreams, A::Error> {
                let mut many = Vec::new();
                while let Some(one) = list.next_element::<Spanned<Upstream>>()? {
                    many.push(one);
                }
                Ok(Upstreams::Many(many))
            }
        }
        deserializer.deserialize_any(Each)
    }
}

impl<'de> Deserialize<'de> for Upstream {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Upstream, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Upstream;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a URL or a mapping such as {url: URL, weight: 3}")
            }
            fn visit_str<E: Error>(self, url: &str) -> Result<Upstream, E> {
                Ok(Upstream::Url(url.to_owned()))
            }
            fn visit_u64<E: Error>(self, port: u64) -> Result<Upstream, E> {
                self.visit_str(&port.to_string())
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Upstream, A::Error> {
                mapping(map)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

fn mapping<'de, A: MapAccess<'de>>(map: A) -> Result<Upstream, A::Error> {
    UpstreamMapping::deserialize(MapAccessDeserializer::new(map)).map(|mapping| Upstream::Mapping(Box::new(mapping)))
}
