//! Finds the client's address and the proxies between it and the gateway.
//!
//! ```text
//!   Forwarded: for=<sent by the client>, for=<the client>, for=<trusted>        the peer: trusted
//!                                          ◀── found ──────── next ◀─────────────── next ◀── begin
//! ```
//! Each proxy appends the address from which it received the request. Only entries written by trusted proxies are read,
//! starting at the end, because the client can put anything before them. An unreadable entry ends the search at the
//! last trusted hop.

use super::dry_run::GateReport;
use super::gate::Gate;
use super::host;
use super::identity::CallerContext;
use crate::config::Config;
use crate::config::access::TrustedProxies;
use crate::config::header_names::{X_FORWARDED_FOR, X_FORWARDED_HOST, X_FORWARDED_PROTO};
use crate::error::Rejection;
use crate::net::forwarded::{parse_forwarded, parse_x_forwarded_for};
use crate::net::peer_addr::{PeerAddr, PeerInfo};
use http::header::{self, FORWARDED, HeaderName, HeaderValue};
use http::request::Parts;
use std::net::IpAddr;
use std::sync::Arc;

/// Maximum number of entries to read, more than any real chain of proxies has.
const MAX_HOPS: usize = 32;

/// The client's address: the peer's, or one reported by a trusted proxy. [`ClientAddrGate`] adds this extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientAddr(pub(crate) IpAddr);

pub(crate) struct ClientAddrResolver {
    trusted_proxies: TrustedProxies,
}

impl ClientAddrResolver {
    pub(crate) fn new(config: &Config) -> Self {
        ClientAddrResolver { trusted_proxies: config.trusted_proxies.clone() }
    }

    pub(super) fn trusts_peer(&self, head: &Parts) -> bool {
        peer_addr(head).is_some_and(|origin| self.trusts_addr(origin))
    }

    /// Returns the addresses from the client to the peer, or an empty list if the peer has no address.
    ///
    /// A proxy that writes only `Forwarded` or only `X-Forwarded-For` passes the other on unchanged. If they disagree,
    /// one may be forged, so only the peer is returned.
    pub(super) fn address_chain(&self, head: &Parts) -> Vec<IpAddr> {
        let Some(origin) = peer_addr(head) else { return Vec::new() };
        let headers = &head.headers;
        let mut chain = match (headers.contains_key(FORWARDED), headers.contains_key(X_FORWARDED_FOR)) {
            _ if !self.trusts_addr(origin) => Vec::new(),
            (false, false) => Vec::new(),
            (true, false) => self.trusted_hops(parse_forwarded(headers.get_all(FORWARDED))),
            (false, true) => self.trusted_hops(parse_x_forwarded_for(headers.get_all(X_FORWARDED_FOR))),
            (true, true) => {
                let chain = self.trusted_hops(parse_forwarded(headers.get_all(FORWARDED)));
                if chain == self.trusted_hops(parse_x_forwarded_for(headers.get_all(X_FORWARDED_FOR))) {
                    chain
                } else {
                    Vec::new()
                }
            }
        };
        chain.reverse();
        // A dual-stack listener shows IPv4 peers as mapped addresses.
        chain.extend(match origin {
            PeerAddr::Tcp(address) => Some(address.ip().to_canonical()),
            PeerAddr::Unix => None,
        });
        chain
    }

    /// Returns the hops written by trusted proxies, nearest first.
    fn trusted_hops(&self, hops: impl Iterator<Item = Option<IpAddr>>) -> Vec<IpAddr> {
        let mut chain = Vec::new();
        for hop in hops.take(MAX_HOPS) {
            let Some(address) = hop else { break };
            chain.push(address);
            if !self.trusts_ip(address) {
                break;
            }
        }
        chain
    }

    fn trusts_ip(&self, address: IpAddr) -> bool {
        self.trusted_proxies.contains(address)
    }

    fn trusts_addr(&self, origin: PeerAddr) -> bool {
        match origin {
            PeerAddr::Tcp(address) => self.trusts_ip(address.ip()),
            PeerAddr::Unix => self.trusted_proxies.unix,
        }
    }

    /// Returns the requested host, as reported by a trusted proxy or in the request's own `Host`.
    pub(super) fn requested_host<'h>(&self, head: &'h Parts) -> Option<&'h str> {
        let field = |name: &HeaderName| last_line(head, name).and_then(|host| host.to_str().ok());
        field(&X_FORWARDED_HOST)
            .filter(|host| self.trusts_peer(head) && host::is_authority(host))
            .or_else(|| field(&header::HOST))
            .or_else(|| head.uri.authority().map(http::uri::Authority::as_str))
    }

    /// Returns the client's scheme, as reported by a trusted proxy or else the connection's.
    pub(super) fn requested_scheme(&self, head: &Parts) -> &'static str {
        let secure = match last_line(head, &X_FORWARDED_PROTO).filter(|_| self.trusts_peer(head)) {
            Some(scheme) => scheme.as_bytes().eq_ignore_ascii_case(b"https"),
            None => head.extensions.get::<PeerInfo>().is_some_and(|peer| peer.tls),
        };
        if secure { "https" } else { "http" }
    }
}

/// Returns the last line of a field: the nearest proxy appends its own to those of the client.
fn last_line<'h>(head: &'h Parts, name: &HeaderName) -> Option<&'h HeaderValue> {
    head.headers.get_all(name).iter().next_back()
}

#[derive(Clone)]
pub(crate) struct ClientAddrGate(pub(crate) Arc<ClientAddrResolver>);

impl Gate for ClientAddrGate {
    async fn pass(&self, head: &mut Parts) -> Result<(), Rejection> {
        if let Some(client) = self.0.address_chain(head).first() {
            head.extensions.insert(ClientAddr(*client));
            if let Some(context) = head.extensions.get::<CallerContext>() {
                context.set_address(*client);
            }
        }
        Ok(())
    }

    fn dry_run(&self, _: &Parts) -> GateReport {
        let TrustedProxies { networks, unix } = &self.0.trusted_proxies;
        let mut trusted: Vec<String> = networks.iter().map(ToString::to_string).collect();
        trusted.extend(unix.then(|| "any process that can open a Unix socket".to_owned()));
        let wants = match trusted.as_slice() {
            [] => "the connection's address; forwarding headers are ignored".to_owned(),
            _ => format!(
                "the client address reported by {}; otherwise the address of the connection",
                trusted.join(", ")
            ),
        };
        GateReport::from_result("address", vec![wants], &Ok(()))
    }
}

fn peer_addr(head: &Parts) -> Option<PeerAddr> {
    head.extensions.get::<PeerInfo>().map(|peer| peer.addr)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(trusted: &[&str]) -> ClientAddrResolver {
        let networks = trusted.iter().map(|network| network.parse().expect("a network")).collect();
        ClientAddrResolver { trusted_proxies: TrustedProxies { networks, unix: true } }
    }

    fn chain(peer: &str, fields: &[(&str, &str)]) -> Vec<String> {
        let origin = peer.parse().map_or(PeerAddr::Unix, PeerAddr::Tcp);
        chain_of(&addresses(&["10.0.0.0/8", "2001:db8:1::/48"]), origin, fields)
    }

    fn chain_of(addresses: &ClientAddrResolver, origin: PeerAddr, fields: &[(&str, &str)]) -> Vec<String> {
        let mut request = http::Request::post("/run");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let (mut head, ()) = request.body(()).expect("a request").into_parts();
        head.extensions.insert(PeerInfo { addr: origin, tls: false });
        let chain = addresses.address_chain(&head);
        chain.iter().map(ToString::to_string).collect()
    }

    const TRUSTED: &str = "10.0.0.1:1";

    #[test]
    fn trusts_forwarding_headers_only_from_trusted_peers() {
        for field in ["x-forwarded-for", "forwarded"] {
            let value = if field == "forwarded" { "for=198.51.100.7" } else { "198.51.100.7" };
            assert_eq!(chain("203.0.113.1:1", &[(field, value)]), ["203.0.113.1"]);
            assert_eq!(chain(TRUSTED, &[(field, value)]), ["198.51.100.7", "10.0.0.1"]);
            // A dual-stack socket shows the same peer like this.
            assert_eq!(chain("[::ffff:10.0.0.1]:1", &[(field, value)]), ["198.51.100.7", "10.0.0.1"]);
        }
        assert_eq!(chain(TRUSTED, &[]), ["10.0.0.1"]);
        assert_eq!(chain(TRUSTED, &[("x-real-ip", "6.6.6.6")]), ["10.0.0.1"]);
    }

    /// Checks that headers from peers on a Unix socket, which have no address, are used only if `unix` is trusted.
    #[test]
    fn trusts_unix_peers_only_where_configured() {
        let fields = [("x-forwarded-for", "6.6.6.6, 198.51.100.7, 10.0.0.2")];
        let mut addresses = addresses(&["10.0.0.0/8"]);
        assert_eq!(chain_of(&addresses, PeerAddr::Unix, &fields), ["198.51.100.7", "10.0.0.2"]);
        assert!(chain_of(&addresses, PeerAddr::Unix, &[]).is_empty());
        addresses.trusted_proxies.unix = false;
        assert!(chain_of(&addresses, PeerAddr::Unix, &fields).is_empty());
    }

    #[test]
    fn walks_the_list_backwards_to_the_first_untrusted_hop() {
        let rows: &[(&str, &[&str])] = &[
            ("6.6.6.6, 198.51.100.7, 10.0.0.2", &["198.51.100.7", "10.0.0.2", "10.0.0.1"]),
            ("10.0.0.3, 10.0.0.2", &["10.0.0.3", "10.0.0.2", "10.0.0.1"]),
            ("198.51.100.7:4711", &["198.51.100.7", "10.0.0.1"]),
            ("2001:db8::7", &["2001:db8::7", "10.0.0.1"]),
            ("[2001:db8::7]:4711", &["2001:db8::7", "10.0.0.1"]),
            ("::ffff:198.51.100.7", &["198.51.100.7", "10.0.0.1"]),
            ("6.6.6.6, 2001:db8:1::5, ::ffff:10.0.0.2", &["6.6.6.6", "2001:db8:1::5", "10.0.0.2", "10.0.0.1"]),
            (",198.51.100.7,,", &["198.51.100.7", "10.0.0.1"]),
            // An unreadable entry ends the search at the last trusted hop.
            ("6.6.6.6, unknown, 10.0.0.2", &["10.0.0.2", "10.0.0.1"]),
            ("6.6.6.6, _hidden", &["10.0.0.1"]),
            ("6.6.6.6, 1.2.3.4.5", &["10.0.0.1"]),
            ("6.6.6.6, 1.2.3.4:99999", &["10.0.0.1"]),
            ("6.6.6.6, [2001:db8::7", &["10.0.0.1"]),
            ("6.6.6.6, [2001:db8::7]4711", &["10.0.0.1"]),
            ("6.6.6.6, [1.2.3.4]", &["10.0.0.1"]),
            ("6.6.6.6, 010.0.0.2", &["10.0.0.1"]),
            ("6.6.6.6, fe80::1%eth0", &["10.0.0.1"]),
            ("6.6.6.6, <script>", &["10.0.0.1"]),
            ("", &["10.0.0.1"]),
        ];
        for (value, expected) in rows {
            assert_eq!(chain(TRUSTED, &[("x-forwarded-for", value)]), *expected, "{value}");
        }
        // Several lines form one list.
        let lines = [("x-forwarded-for", "6.6.6.6, 198.51.100.7"), ("x-forwarded-for", "10.0.0.2")];
        assert_eq!(chain(TRUSTED, &lines), ["198.51.100.7", "10.0.0.2", "10.0.0.1"]);
    }

    #[test]
    fn parses_forwarded_by_rfc_7239() {
        let rows: &[(&str, &[&str])] = &[
            // Examples of RFC 7239 §4 and §7.1.
            ("for=\"_gazonk\"", &["10.0.0.1"]),
            ("For=\"[2001:db8:cafe::17]:4711\"", &["2001:db8:cafe::17", "10.0.0.1"]),
            ("for=192.0.2.60;proto=http;by=203.0.113.43", &["192.0.2.60", "10.0.0.1"]),
            ("for=192.0.2.43, for=198.51.100.17", &["198.51.100.17", "10.0.0.1"]),
            ("for=192.0.2.43,for=\"[2001:db8:cafe::17]\",for=unknown", &["10.0.0.1"]),
            // Names are case-insensitive, values may be quoted, and ports may be obfuscated.
            ("by=a;FOR=\"192.0.2.60:_p\"", &["192.0.2.60", "10.0.0.1"]),
            ("for=\"192.0.2.\\60\"", &["192.0.2.60", "10.0.0.1"]),
            ("for=6.6.6.6 , ; for=192.0.2.60 ; host=\"a,b;for=7.7.7.7\"", &["10.0.0.1"]),
            ("for=6.6.6.6, for=192.0.2.60;host=\"a,b;for=7.7.7.7\"", &["192.0.2.60", "10.0.0.1"]),
            ("for=6.6.6.6, for=198.51.100.7, for=10.0.0.2", &["198.51.100.7", "10.0.0.2", "10.0.0.1"]),
            // An element without `for` names no client.
            ("for=6.6.6.6, proto=https", &["10.0.0.1"]),
            ("for=6.6.6.6;for=7.7.7.7", &["10.0.0.1"]),
            ("for=", &["10.0.0.1"]),
            ("6.6.6.6", &["10.0.0.1"]),
            // A quotation mark that the client left open, followed by what a proxy wrote.
            ("for=6.6.6.6;x=\", for=192.0.2.60", &["10.0.0.1"]),
            ("for=6.6.6.6;x=\", for=\"[2001:db8::7]\"", &["10.0.0.1"]),
        ];
        for (value, expected) in rows {
            assert_eq!(chain(TRUSTED, &[("forwarded", value)]), *expected, "{value}");
        }
        let lines = [("forwarded", "for=6.6.6.6;x=\""), ("forwarded", "for=192.0.2.60")];
        assert_eq!(chain(TRUSTED, &lines), ["192.0.2.60", "10.0.0.1"]);
    }

    #[test]
    fn uses_both_headers_only_where_they_agree() {
        let agreed = [("forwarded", "for=198.51.100.7"), ("x-forwarded-for", "6.6.6.6, 198.51.100.7")];
        assert_eq!(chain(TRUSTED, &agreed), ["198.51.100.7", "10.0.0.1"]);
        let forged = [("forwarded", "for=6.6.6.6"), ("x-forwarded-for", "198.51.100.7")];
        assert_eq!(chain(TRUSTED, &forged), ["10.0.0.1"]);
    }

    #[test]
    fn reads_at_most_max_hops_of_a_list() {
        let many = vec!["10.0.0.9"; 10_000].join(",");
        assert_eq!(chain(TRUSTED, &[("x-forwarded-for", &many)]).len(), MAX_HOPS + 1);
    }
}
