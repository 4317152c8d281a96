//! Where Diglot listens.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_saphyr::{Location, Spanned};

use super::{Text, kind, text};

/// Listeners, each an IP address and a port such as `0.0.0.0:8787` or `[::1]:8787` (port 0 takes a free one), a Unix socket
/// such as `unix:/run/diglot/data.sock`, or a mapping with one of them as its `address`.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Listeners {
    /// The data plane: what clients connect to. One listener or a list.
    #[schemars(with = "Sockets")]
    pub data: Spanned<Sockets>,
    /// Liveness, readiness and metrics, and nothing else. One listener or a list; `[]` turns it off. Loopback unless
    /// set: a deployment puts it on the wildcard (`0.0.0.0:8788`), where kubelet and Prometheus reach it.
    #[schemars(with = "Sockets")]
    pub status: Spanned<Sockets>,
}

impl Default for Listeners {
    fn default() -> Listeners {
        let one = |address: &str| {
            let socket = Sockets::One(SocketEntry::Address(address.to_owned()));
            Spanned::new(socket, Location::UNKNOWN, Location::UNKNOWN)
        };
        Listeners { data: one("127.0.0.1:8787"), status: one("127.0.0.1:8788") }
    }
}

/// One listener or a list of them.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Sockets {
    /// `data: 127.0.0.1:8787`, or a mapping
    One(SocketEntry),
    /// `data: [127.0.0.1:8787, {address: 0.0.0.0:8443, tls: …}]`
    Many(#[schemars(with = "Vec<SocketEntry>")] Vec<Spanned<SocketEntry>>),
}

/// A listener: its address alone, or a mapping.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum SocketEntry {
    /// `127.0.0.1:8787`
    Address(#[schemars(with = "kind::Address")] String),
    /// `{address: 0.0.0.0:8443, tls: {cert: tls.crt, key: tls.key}}`
    Mapping(Box<SocketMapping>),
}

/// The mapping form of a listener.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SocketMapping {
    /// An IP address and a port, or `unix:` and the absolute path of a socket. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::Address")]
    pub address: Option<Text>,
    /// Who may open a Unix socket, as its file's permissions in octal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Mode>")]
    pub mode: Option<Text>,
    /// A certificate: then the listener speaks TLS, and nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<TlsFiles>")]
    pub tls: Option<Spanned<TlsFiles>>,
    /// Whether each connection has to begin with a header of the PROXY protocol, version 1 or 2: `true` or `false`. The
    /// address that it names is that of the client if the connection comes from one of `trusted_proxies`.
    #[serde(default = "proxy_protocol")]
    #[schemars(with = "kind::Truth")]
    pub proxy_protocol: Text,
}

/// What a listener shows and asks for in TLS. The files are read again when they change.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// A file with the certificate in PEM, and behind it those of the authorities between it and the root. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::FileName")]
    pub cert: Option<Text>,
    /// A file with its private key in PEM. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::FileName")]
    pub key: Option<Text>,
    /// A file with the authorities in PEM whose certificates clients show. Clients need none when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::FileName>")]
    pub client_ca: Option<Text>,
    /// Whether a client without a certificate is turned away (`required`, what counts when left out) or not (`optional`);
    /// one with a certificate of somebody else always is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::ClientAuth>")]
    pub client_auth: Option<Text>,
}

fn proxy_protocol() -> Text {
    text("false")
}

// serde's `untagged` buffers what it reads and thereby forgets where it stood, so the choices are made by hand.

/// The scalars that YAML can make of what is meant as an address. A bare port is a number to it; it is kept, so that
/// `check` can say what to write instead.
macro_rules! scalars {
    ($($visit:ident: $scalar:ty),+ => $value:ty, $make:expr) => {
        $(fn $visit<E: Error>(self, one: $scalar) -> Result<$value, E> {
            Ok($make(SocketEntry::Address(one.to_string())))
        })+
    };
}

fn mapping<'de, A: MapAccess<'de>>(map: A) -> Result<SocketEntry, A::Error> {
    let mapping = SocketMapping::deserialize(MapAccessDeserializer::new(map))?;
    Ok(SocketEntry::Mapping(Box::new(mapping)))
}

impl<'de> Deserialize<'de> for SocketEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SocketEntry, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = SocketEntry;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an address or a mapping such as {address: ADDRESS}")
            }
            scalars!(visit_str: &str, visit_u64: u64, visit_i64: i64, visit_f64: f64, visit_bool: bool
                => SocketEntry, std::convert::identity);
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SocketEntry, A::Error> {
                mapping(map)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl<'de> Deserialize<'de> for Sockets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Sockets, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Sockets;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an address, a mapping such as {address: ADDRESS}, or a list of them")
            }
            scalars!(visit_str: &str, visit_u64: u64, visit_i64: i64, visit_f64: f64, visit_bool: bool
                => Sockets, Sockets::One);
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Sockets, A::Error> {
                mapping(map).map(Sockets::One)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Sockets, A::Error> {
                let mut many = Vec::new();
                while let Some(one) = list.next_element()? {
                    many.push(one);
                }
                Ok(Sockets::Many(many))
            }
        }
        deserializer.deserialize_any(Either)
    }
}
