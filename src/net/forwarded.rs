//! Parses `Forwarded` [RFC 7239] and `X-Forwarded-For` backwards, from the nearest proxy.

use http::HeaderValue;
use http::header::GetAll;
use std::net::{IpAddr, Ipv6Addr};

/// Yields the `for=` address of each element in reverse order, or `None` for an element without one.
pub(crate) fn parse_forwarded(lines: GetAll<'_, HeaderValue>) -> impl Iterator<Item = Option<IpAddr>> {
    lines.into_iter().rev().flat_map(|line| {
        // If any part of a line is invalid, the whole line is: after a quotation mark that a client left open, the
        // client's text and the proxy's cannot be distinguished.
        let elements = line.to_str().ok().and_then(parse_elements).unwrap_or_else(|| vec![None]);
        elements.into_iter().rev()
    })
}

/// Parses `Forwarded = 1#( [ forwarded-pair ] *( ";" [ forwarded-pair ] ) )` [RFC 7239 §4].
fn parse_elements(line: &str) -> Option<Vec<Option<IpAddr>>> {
    let mut elements = Vec::new();
    let mut rest = line;
    loop {
        let mut found = None;
        let mut pairs = 0;
        rest = rest.trim_start_matches([' ', '\t']);
        while !rest.is_empty() && !rest.starts_with([',', ';']) {
            let (name, value, after) = parse_pair(rest)?;
            pairs += 1;
            if name.eq_ignore_ascii_case("for") {
                // "Each parameter MUST NOT occur more than once per field-value" [RFC 7239 §4]
                if found.replace(parse_node(&value)).is_some() {
                    return None;
                }
            }
            rest = after.trim_start_matches([' ', '\t']);
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

/// Splits `forwarded-pair = token "=" ( token / quoted-string )` from the remaining text.
fn parse_pair(text: &str) -> Option<(&str, String, &str)> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let (name, rest) = text.split_once('=')?;
    if name.is_empty() || !name.chars().all(is_token) {
        return None;
    }
    let Some(quoted) = rest.strip_prefix('"') else {
        // Many proxies omit the quotation marks around an address with a port, although that is not a token.
        let end = rest.find(|c| !is_token(c) && !matches!(c, ':' | '[' | ']')).unwrap_or(rest.len());
        return (end > 0).then(|| (name, rest[..end].to_owned(), &rest[end..]));
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    loop {
        match chars.next()? {
            (at, '"') => return Some((name, value, &quoted[at + 1..])),
            (_, '\\') => value.push(chars.next()?.1),
            (_, c) => value.push(c),
        }
    }
}

/// Yields the entries of `X-Forwarded-For` in reverse order, or `None` for one that is not an address.
pub(crate) fn parse_x_forwarded_for(lines: GetAll<'_, HeaderValue>) -> impl Iterator<Item = Option<IpAddr>> {
    lines.into_iter().rev().flat_map(|line| {
        let line = line.to_str().unwrap_or("unknown");
        let hops: Vec<_> = line.rsplit(',').map(str::trim).filter(|hop| !hop.is_empty()).map(parse_node).collect();
        hops
    })
}

/// Parses `node = nodename [ ":" node-port ]` [RFC 7239 §6] if the name is an address. IPv6 needs no brackets, as in
/// `X-Forwarded-For`.
fn parse_node(text: &str) -> Option<IpAddr> {
    let address = if let Some(bracketed) = text.strip_prefix('[') {
        let (address, after) = bracketed.split_once(']')?;
        let port = after.strip_prefix(':');
        if !after.is_empty() && !port.is_some_and(is_node_port) {
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

/// Checks `node-port = port / obfport` [RFC 7239 §6].
fn is_node_port(text: &str) -> bool {
    let hidden = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
    text.parse::<u16>().is_ok() || text.strip_prefix('_').is_some_and(|rest| !rest.is_empty() && hidden(rest))
}
