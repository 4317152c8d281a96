//! Which address a request comes from, and by way of which proxies.
//!
//! ```text
//!   Forwarded: for=<said by the client>, for=<the client>, for=<trusted>        the peer: trusted
//!                                          ◀── found ──────── on ◀───────────────── on ◀── begin
//! ```
//! Each proxy writes whom it heard behind what came to it. So the list is read from its end, and only as far as a trusted
//! proxy wrote it: what stands before is the client's own word. What cannot be read ends the walk at the last trusted hop.

use super::{CallerContext, Gate, GateReport, RequestPolicy};
use crate::config::Config;
use crate::config::access::TrustedProxies;
use crate::config::header_names::X_FORWARDED_FOR;
use crate::error::Rejection;
use http::header::FORWARDED;
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// Most proxies on the way of a request that are looked at. More than any real chain has; a longer list is somebody's
/// attempt to keep us busy.
const MAX_HOPS: usize = 32;

/// The other end of the connection, among the extensions of every request.
#[derive(Clone, Copy, Debug)]
pub struct PeerInfo {
    /// who it is
    pub addr: PeerAddr,
    /// whether the connection is one of TLS
    pub tls: bool,
}

/// Who connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerAddr {
    /// somebody at this address, as the network or a trusted proxy's PROXY protocol says
    Tcp(SocketAddr),
    /// somebody who may open a Unix socket. To whatever counts by address all of them are one
    Unix,
}

/// The client's address: that of the peer, or what a trusted proxy says. Among the extensions behind [`Address`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientAddr(pub(crate) IpAddr);

/// Whose word about clients is taken.
#[derive(Debug)]
pub(crate) struct ClientAddrResolver {
    trusted_proxies: TrustedProxies,
}

impl ClientAddrResolver {
    /// As configured.
    #[must_use]
    pub(crate) fn new(config: &Config) -> Self {
        ClientAddrResolver { trusted_proxies: config.trusted_proxies.clone() }
    }

    /// Whether the other end of the connection is a trusted proxy.
    pub(super) fn trusts_peer(&self, head: &Parts) -> bool {
        peer_addr(head).is_some_and(|origin| self.trusts_addr(origin))
    }

    /// The addresses that the request came by, the client first and the peer last. Empty where there is no peer's address.
    ///
    /// `Forwarded` and `X-Forwarded-For` may both be there, and a proxy that writes one of them passes the other on as its
    /// client sent it. So they are believed where they say the same; where they differ one of them is forged, and nobody
    /// knows which: then the peer is all that is known.
    pub(super) fn address_chain(&self, head: &Parts) -> Vec<IpAddr> {
        let Some(origin) = peer_addr(head) else { return Vec::new() };
        let headers = &head.headers;
        let mut chain = match (headers.contains_key(FORWARDED), headers.contains_key(X_FORWARDED_FOR)) {
            _ if !self.trusts_addr(origin) => Vec::new(),
            (false, false) => Vec::new(),
            (true, false) => self.trusted_hops(parse_forwarded(headers)),
            (false, true) => self.trusted_hops(parse_x_forwarded_for(headers)),
            (true, true) => {
                let chain = self.trusted_hops(parse_forwarded(headers));
                if chain == self.trusted_hops(parse_x_forwarded_for(headers)) { chain } else { Vec::new() }
            }
        };
        chain.reverse();
        // A listener of both families shows IPv4 as a mapped address; to us it is one peer.
        chain.extend(match origin {
            PeerAddr::Tcp(address) => Some(address.ip().to_canonical()),
            PeerAddr::Unix => None,
        });
        chain
    }

    /// The hops that trusted proxies vouch for, the nearest first.
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

    /// Whether what the other end says about its clients is believed.
    fn trusts_addr(&self, origin: PeerAddr) -> bool {
        match origin {
            PeerAddr::Tcp(address) => self.trusts_ip(address.ip()),
            PeerAddr::Unix => self.trusted_proxies.unix,
        }
    }
}

/// The gate that finds the address.
#[derive(Clone, Debug)]
pub(crate) struct ClientAddrGate(pub(crate) Arc<RequestPolicy>);

impl Gate for ClientAddrGate {
    async fn pass(&self, head: &mut Parts) -> Result<(), Rejection> {
        if let Some(client) = self.0.addresses.address_chain(head).first() {
            head.extensions.insert(ClientAddr(*client));
            if let Some(who) = head.extensions.get::<CallerContext>() {
                who.set_address(*client);
            }
        }
        Ok(())
    }

    fn dry_run(&self, _: &Parts) -> GateReport {
        let TrustedProxies { networks, unix } = &self.0.addresses.trusted_proxies;
        let mut trusted: Vec<String> = networks.iter().map(ToString::to_string).collect();
        trusted.extend(unix.then(|| "whoever may open a Unix socket".to_owned()));
        let wants = match trusted.as_slice() {
            [] => "the address of the connection; what proxies say of their clients is not believed".to_owned(),
            _ => format!("the address of the client, as {} say it; else that of the connection", trusted.join(", ")),
        };
        GateReport::passes("address", vec![wants])
    }
}

/// What of an address its user cannot choose: all of IPv4, however it is written; of IPv6 the /64 network.
#[must_use]
pub(crate) fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}

fn peer_addr(head: &Parts) -> Option<PeerAddr> {
    head.extensions.get::<PeerInfo>().map(|peer| peer.addr)
}

/// `for=` of each element, the last first; `None` for what says no address.
fn parse_forwarded(headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
    headers.get_all(FORWARDED).iter().rev().flat_map(|line| {
        // A line is read as a whole or not at all: behind a quotation mark that a client left open stands what a proxy
        // wrote, and must not be taken for the client's text, nor that for the proxy's.
        let elements = line.to_str().ok().and_then(parse_elements).unwrap_or_else(|| vec![None]);
        elements.into_iter().rev()
    })
}

/// `Forwarded = 1#( [ forwarded-pair ] *( ";" [ forwarded-pair ] ) )` [RFC 7239 §4]
fn parse_elements(line: &str) -> Option<Vec<Option<IpAddr>>> {
    let (mut elements, mut rest) = (Vec::new(), line);
    loop {
        let (mut found, mut pairs) = (None, 0);
        rest = rest.trim_start_matches([' ', '\t']);
        while !rest.is_empty() && !rest.starts_with([',', ';']) {
            let (name, value, behind) = parse_pair(rest)?;
            pairs += 1;
            if name.eq_ignore_ascii_case("for") {
                // "Each parameter MUST NOT occur more than once per field-value" [RFC 7239 §4]
                if found.replace(parse_node(&value)).is_some() {
                    return None;
                }
            }
            rest = behind.trim_start_matches([' ', '\t']);
            match rest.strip_prefix(';') {
                Some(next) => rest = next.trim_start_matches([' ', '\t']),
                None => break,
            }
        }
        // "A recipient MUST parse and ignore a reasonable number of empty list elements" [RFC 9110 §5.6.1.2]
        if pairs > 0 {
            elements.push(found.flatten());
        }
        match rest.strip_prefix(',') {
            Some(next) => rest = next,
            None => return rest.is_empty().then_some(elements),
        }
    }
}

/// `forwarded-pair = token "=" ( token / quoted-string )`, and what stands behind it.
fn parse_pair(text: &str) -> Option<(&str, String, &str)> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let (name, rest) = text.split_once('=')?;
    if name.is_empty() || !name.chars().all(is_token) {
        return None;
    }
    let Some(quoted) = rest.strip_prefix('"') else {
        // Many proxies leave the quotation marks of an address with a port away, which is no token.
        let end = rest.find(|c| !is_token(c) && !matches!(c, ':' | '[' | ']')).unwrap_or(rest.len());
        return (end > 0).then(|| (name, rest[..end].to_owned(), &rest[end..]));
    };
    let (mut value, mut chars) = (String::new(), quoted.char_indices());
    loop {
        match chars.next()? {
            (at, '"') => return Some((name, value, &quoted[at + 1..])),
            (_, '\\') => value.push(chars.next()?.1),
            (_, c) => value.push(c),
        }
    }
}

/// The members of `X-Forwarded-For`, the last first.
fn parse_x_forwarded_for(headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
    let text = |line: &'_ HeaderValue| line.to_str().ok().map(str::to_owned);
    headers.get_all(X_FORWARDED_FOR).iter().rev().flat_map(move |line| {
        let line = text(line).unwrap_or_else(|| "unknown".to_owned());
        let hops: Vec<_> = line.rsplit(',').map(str::trim).filter(|hop| !hop.is_empty()).map(parse_node).collect();
        hops
    })
}

/// `node = nodename [ ":" node-port ]` [RFC 7239 §6], where the name is an address; `unknown` and `_obfuscated` are none.
/// `X-Forwarded-For` has IPv6 without brackets as well.
fn parse_node(text: &str) -> Option<IpAddr> {
    let address = if let Some(bracketed) = text.strip_prefix('[') {
        let (address, behind) = bracketed.split_once(']')?;
        let port = behind.strip_prefix(':');
        if !behind.is_empty() && !port.is_some_and(is_node_port) {
            return None;
        }
        IpAddr::V6(address.parse::<Ipv6Addr>().ok()?)
    } else {
        match text.split_once(':') {
            Some((address, port)) if is_node_port(port) && !address.is_empty() => IpAddr::V4(address.parse().ok()?),
            _ => text.parse().ok()?,
        }
    };
    Some(address.to_canonical())
}

/// `node-port = port / obfport` [RFC 7239 §6]
fn is_node_port(text: &str) -> bool {
    let hidden = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
    text.parse::<u16>().is_ok() || text.strip_prefix('_').is_some_and(|rest| !rest.is_empty() && hidden(rest))
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
            // A socket of both families shows the same peer so.
            assert_eq!(chain("[::ffff:10.0.0.1]:1", &[(field, value)]), ["198.51.100.7", "10.0.0.1"]);
        }
        assert_eq!(chain(TRUSTED, &[]), ["10.0.0.1"]);
        assert_eq!(chain(TRUSTED, &[("x-real-ip", "6.6.6.6")]), ["10.0.0.1"]);
    }

    /// Who opens a Unix socket has no address, and is heard where `unix` is trusted.
    #[test]
    fn trusts_unix_peers_only_where_configured() {
        let said = [("x-forwarded-for", "6.6.6.6, 198.51.100.7, 10.0.0.2")];
        let mut addresses = addresses(&["10.0.0.0/8"]);
        assert_eq!(chain_of(&addresses, PeerAddr::Unix, &said), ["198.51.100.7", "10.0.0.2"]);
        assert!(chain_of(&addresses, PeerAddr::Unix, &[]).is_empty());
        addresses.trusted_proxies.unix = false;
        assert!(chain_of(&addresses, PeerAddr::Unix, &said).is_empty());
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
            // What cannot be read ends the walk at the last trusted hop.
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
        // Several lines are one list.
        let lines = [("x-forwarded-for", "6.6.6.6, 198.51.100.7"), ("x-forwarded-for", "10.0.0.2")];
        assert_eq!(chain(TRUSTED, &lines), ["198.51.100.7", "10.0.0.2", "10.0.0.1"]);
    }

    #[test]
    fn parses_forwarded_as_rfc_7239_says() {
        let rows: &[(&str, &[&str])] = &[
            // Examples of RFC 7239 §4 and §7.1.
            ("for=\"_gazonk\"", &["10.0.0.1"]),
            ("For=\"[2001:db8:cafe::17]:4711\"", &["2001:db8:cafe::17", "10.0.0.1"]),
            ("for=192.0.2.60;proto=http;by=203.0.113.43", &["192.0.2.60", "10.0.0.1"]),
            ("for=192.0.2.43, for=198.51.100.17", &["198.51.100.17", "10.0.0.1"]),
            ("for=192.0.2.43,for=\"[2001:db8:cafe::17]\",for=unknown", &["10.0.0.1"]),
            // A name is written in any case, a value may be quoted, a port may be hidden.
            ("by=a;FOR=\"192.0.2.60:_p\"", &["192.0.2.60", "10.0.0.1"]),
            ("for=\"192.0.2.\\60\"", &["192.0.2.60", "10.0.0.1"]),
            ("for=6.6.6.6 , ; for=192.0.2.60 ; host=\"a,b;for=7.7.7.7\"", &["10.0.0.1"]),
            ("for=6.6.6.6, for=192.0.2.60;host=\"a,b;for=7.7.7.7\"", &["192.0.2.60", "10.0.0.1"]),
            ("for=6.6.6.6, for=198.51.100.7, for=10.0.0.2", &["198.51.100.7", "10.0.0.2", "10.0.0.1"]),
            // An element without `for` says nobody.
            ("for=6.6.6.6, proto=https", &["10.0.0.1"]),
            ("for=6.6.6.6;for=7.7.7.7", &["10.0.0.1"]),
            ("for=", &["10.0.0.1"]),
            ("6.6.6.6", &["10.0.0.1"]),
            // A quotation mark that the client left open, and what a proxy wrote behind it.
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
