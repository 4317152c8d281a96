//! Listeners as the operator writes them.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::{Scalar, Spanned, Text, kind, synthetic_text};

/// Listeners, each an IP address and a port such as `0.0.0.0:8787` or `[::1]:8787` (port 0 takes a free one), a Unix socket
/// such as `unix:/run/diglot/data.sock`, or a mapping with one of them as its `address`.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ListenersSpec {
    /// The data plane, which clients connect to. One listener or a list.
    pub(crate) data: Spanned<SocketListSpec>,
    /// Liveness, readiness and metrics, and nothing else. One listener or a list; `[]` turns it off. Loopback unless
    /// set: a deployment puts it on the wildcard (`0.0.0.0:8788`), where kubelet and Prometheus reach it.
    pub(crate) status: Spanned<SocketListSpec>,
}

impl Default for ListenersSpec {
    fn default() -> ListenersSpec {
        let one = |address: &str| {
            let socket = SocketListSpec::One(SocketSpec::Address(Text::new(address)));
            Spanned::without_position(socket)
        };
        ListenersSpec { data: one("127.0.0.1:8787"), status: one("127.0.0.1:8788") }
    }
}

/// One listener or a list of them.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum SocketListSpec {
    /// `data: 127.0.0.1:8787`, or a mapping
    One(SocketSpec),
    /// `data: [127.0.0.1:8787, {address: 0.0.0.0:8443, tls: …}]`
    Many(Vec<Spanned<SocketSpec>>),
}

/// A listener: its address alone, or a mapping.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum SocketSpec {
    /// `127.0.0.1:8787`
    Address(Text<kind::Address>),
    /// `{address: 0.0.0.0:8443, tls: {cert: tls.crt, key: tls.key}}`
    Mapping(Box<SocketMapping>),
}

/// The mapping form of a listener.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SocketMapping {
    /// An IP address and a port, or `unix:` and the absolute path of a socket. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Scalar<kind::Address>")]
    pub(crate) address: Option<Scalar<kind::Address>>,
    /// Permissions of the Unix socket, in octal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mode: Option<Scalar<kind::Mode>>,
    /// TLS settings. With them the listener accepts only TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tls: Option<Spanned<ListenerTlsSpec>>,
    /// Requires a header of the PROXY protocol, version 1 or 2, at the start of each connection: `true` or `false`. Its
    /// address is used as the client's address if the connection comes from one of `trusted_proxies`.
    #[serde(default = "proxy_protocol")]
    pub(crate) proxy_protocol: Scalar<kind::Truth>,
}

/// TLS settings of a listener. The files are reloaded when they change.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListenerTlsSpec {
    /// A file with the certificate in PEM, followed by the intermediate certificates. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Scalar<kind::FileName>")]
    pub(crate) cert: Option<Scalar<kind::FileName>>,
    /// A file with its private key in PEM. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Scalar<kind::FileName>")]
    pub(crate) key: Option<Scalar<kind::FileName>>,
    /// A file with the authorities for client certificates, in PEM. Clients need no certificate when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_ca: Option<Scalar<kind::FileName>>,
    /// Handling of clients without a certificate: refused (`required`, the default) or accepted (`optional`). A
    /// certificate from another authority is always refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_auth: Option<Scalar<kind::ClientAuth>>,
}

fn proxy_protocol() -> Scalar<kind::Truth> {
    synthetic_text("false")
}

// serde's `untagged` buffers what it reads and thereby forgets where it stood, so the choices are made by hand.

/// The scalars that YAML can make of what is meant as an address. A bare port is a number to it; it is kept, so that
/// `check` can say what to write instead.
macro_rules! scalars {
    ($($visit:ident: $scalar:ty),+ => $value:ty, $make:expr) => {
        $(fn $visit<E: Error>(self, one: $scalar) -> Result<$value, E> {
            Ok($make(SocketSpec::Address(Text::new(one.to_string()))))
        })+
    };
}

fn read_mapping<'de, A: MapAccess<'de>>(map: A) -> Result<SocketSpec, A::Error> {
    let mapping = SocketMapping::deserialize(MapAccessDeserializer::new(map))?;
    Ok(SocketSpec::Mapping(Box::new(mapping)))
}

impl<'de> Deserialize<'de> for SocketSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SocketSpec, D::Error> {
        struct SocketVisitor;
        impl<'de> Visitor<'de> for SocketVisitor {
            type Value = SocketSpec;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an address or a mapping such as {address: ADDRESS}")
            }
            scalars!(visit_str: &str, visit_u64: u64, visit_i64: i64, visit_f64: f64, visit_bool: bool
                => SocketSpec, std::convert::identity);
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SocketSpec, A::Error> {
                read_mapping(map)
            }
        }
        deserializer.deserialize_any(SocketVisitor)
    }
}

impl<'de> Deserialize<'de> for SocketListSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SocketListSpec, D::Error> {
        struct SocketListVisitor;
        impl<'de> Visitor<'de> for SocketListVisitor {
            type Value = SocketListSpec;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an address, a mapping such as {address: ADDRESS}, or a list of them")
            }
            scalars!(visit_str: &str, visit_u64: u64, visit_i64: i64, visit_f64: f64, visit_bool: bool
                => SocketListSpec, SocketListSpec::One);
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SocketListSpec, A::Error> {
                read_mapping(map).map(SocketListSpec::One)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<SocketListSpec, A::Error> {
                let mut many = Vec::new();
                while let Some(one) = list.next_element()? {
                    many.push(one);
                }
                Ok(SocketListSpec::Many(many))
            }
        }
        deserializer.deserialize_any(SocketListVisitor)
    }
}
