//! Checks the request target and `Host`.
//!
//! Routing ignores `Host`, but agents, proxies and log readers may use it, and could disagree about a request that
//! names two hosts.

use super::dry_run::GateReport;
use super::gate::Gate;
use crate::config::Config;
use crate::error::{Rejection, RejectionKind};
use http::header::{CONNECTION, HOST, TRANSFER_ENCODING};
use http::request::Parts;
use http::uri::Scheme;
use http::{HeaderValue, Method, Uri, Version};
use std::net::Ipv6Addr;
use std::sync::Arc;

pub(crate) struct HeadRules {
    /// maximum number of header fields, which hyper limits only for HTTP/1
    max_fields: usize,
}

impl HeadRules {
    pub(crate) fn new(config: &Config) -> Self {
        HeadRules { max_fields: config.limits.headers.get() }
    }

    pub(super) fn check(&self, head: &Parts) -> Result<(), Rejection> {
        let most = self.max_fields;
        // The gateway itself adds one more field, the request id.
        if head.headers.len() > most + 1 {
            let detail = format!("The request has more than {most} fields.");
            return Err(Rejection::from(RejectionKind::HeadersTooLarge).with_detail(detail));
        }
        check_head(head).map_err(|wrong| {
            // The sender may disagree about where such a request ends.
            Rejection::from(RejectionKind::InvalidRequest)
                .with_detail(wrong)
                .with_header(CONNECTION, HeaderValue::from_static("close"))
        })
    }
}

#[derive(Clone)]
pub(crate) struct HostGate(pub(crate) Arc<HeadRules>);

impl Gate for HostGate {
    async fn pass(&self, head: &mut Parts) -> Result<(), Rejection> {
        self.0.check(head)
    }

    fn dry_run(&self, head: &Parts) -> GateReport {
        let most = self.0.max_fields;
        let wants = format!("a path or an http URL, one Host, at most {most} fields");
        GateReport::from_result("host", vec![wants], &self.0.check(head))
    }
}

fn check_head(head: &Parts) -> Result<(), &'static str> {
    // The authority form is only for CONNECT, and the asterisk form only for OPTIONS to the server itself [RFC 9112
    // §3.2]; the gateway supports neither.
    if head.method == Method::CONNECT {
        return Err("CONNECT is not served.");
    }
    if !head.uri.path().starts_with('/') {
        return Err("The request target has to be a path or an absolute URL.");
    }
    // A client that requests, say, an FTP URL has mistaken the gateway for a forward proxy.
    if head.uri.scheme().is_some_and(|scheme| ![Scheme::HTTP, Scheme::HTTPS].contains(scheme)) {
        return Err("The request target has to be a path or an http or https URL.");
    }
    check_transfer_coding(head)?;
    let mut lines = head.headers.get_all(HOST).iter();
    let host = lines.next();
    // "A server MUST respond with a 400 (Bad Request) status code to any HTTP/1.1 request message that lacks a Host
    // header field and to any request message that contains more than one Host header field line or a Host header field
    // with an invalid field value." [RFC 9112 §3.2]
    if lines.next().is_some() {
        return Err("There is more than one Host field.");
    }
    // [RFC 9113 §8.3.1] puts the same in `:authority`, which is the authority of the target here.
    let target = head.uri.authority().map(http::uri::Authority::as_str);
    if host.is_none() && head.version >= Version::HTTP_11 && (head.version < Version::HTTP_2 || target.is_none()) {
        return Err("The Host field is missing.");
    }
    let host = host.map(|host| host.to_str().unwrap_or_default());
    if ![host, target].into_iter().flatten().all(is_authority) {
        return Err("The Host field or the request target has no valid host.");
    }
    match (host, target) {
        // "A server SHOULD treat a request as malformed if it contains a Host header field that identifies an entity
        // that differs from the entity in the ':authority' pseudo-header field." [RFC 9113 §8.3.1] The absolute form of
        // HTTP/1 overrules Host [RFC 9112 §3.2.2]; two different hosts are likely an attack.
        (Some(host), Some(target)) if !is_same_host(host, target, &head.uri) => {
            Err("The request target and the Host field name different hosts.")
        }
        _ => Ok(()),
    }
}

/// Refuses transfer codings other than `chunked`: hyper accepts lists that end in `chunked`, but decodes only that one.
fn check_transfer_coding(head: &Parts) -> Result<(), &'static str> {
    let mut lines = head.headers.get_all(TRANSFER_ENCODING).iter();
    let Some(coding) = lines.next() else { return Ok(()) };
    // "A sender MUST NOT apply the chunked transfer coding more than once to a message body." [RFC 9112 §6.1]
    if lines.next().is_some() || !coding.as_bytes().eq_ignore_ascii_case(b"chunked") {
        return Err("The only accepted transfer coding is `chunked`, once.");
    }
    Ok(())
}

/// Returns whether `text` is `uri-host [ ":" port ]` [RFC 9110 §7.2] and has only host name characters.
pub(super) fn is_authority(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, rest)) if address.parse::<Ipv6Addr>().is_ok() => {
                ("ip", rest.strip_prefix(':').or(Some(rest)))
            }
            _ => return false,
        },
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let is_name = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'-' | b'_' | b'~');
    // "A recipient that processes such a URI reference [an empty host] MUST reject it as invalid" [RFC 9110 §4.2.1].
    !host.is_empty() && host.bytes().all(is_name) && port.is_none_or(|port| port.is_empty() || is_port(port))
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|c| c.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

fn is_same_host(host: &str, target: &str, uri: &Uri) -> bool {
    let implied = if uri.scheme() == Some(&Scheme::HTTPS) { ":443" } else { ":80" };
    let bare =
        |text: &'_ str| text.strip_suffix(implied).or(text.strip_suffix(':')).unwrap_or(text).to_ascii_lowercase();
    bare(host) == bare(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_accepted(version: Version, method: &str, target: &str, fields: &[(&str, &str)]) -> bool {
        let mut request = http::Request::builder().method(method).uri(target).version(version);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        check_head(&request.body(()).expect("a request").into_parts().0).is_ok()
    }

    #[test]
    fn requires_exactly_one_valid_host() {
        let good = ["a", "A.example:8080", "127.0.0.1", "[::1]", "[::1]:80", "a_b-c.d:", "xn--bcher-kva.example"];
        let bad = [
            "", ":80", "u@a", "u:p@a", "a/b", "/a", "a,b", "a b", "a?b", "a#b", "a\\b", "a%2eb", "[::1", "[a]",
            "[::1]x", "a:b", "a:99999", "a:1:2", "::1", "http://a", "a:+8", "a\u{e9}",
        ];
        for (hosts, expected) in [(&good[..], true), (&bad[..], false)] {
            for host in hosts {
                assert_eq!(is_accepted(Version::HTTP_11, "POST", "/run", &[("host", host)]), expected, "{host:?}");
            }
        }
        assert!(!is_accepted(Version::HTTP_11, "POST", "/run", &[]));
        assert!(!is_accepted(Version::HTTP_11, "POST", "/run", &[("host", "a"), ("host", "a")]));
        assert!(is_accepted(Version::HTTP_10, "POST", "/run", &[]));
        assert!(!is_accepted(Version::HTTP_2, "POST", "/run", &[]));
        assert!(is_accepted(Version::HTTP_2, "POST", "/run", &[("host", "a")]));
        assert!(is_accepted(Version::HTTP_2, "POST", "http://a/run", &[]));
    }

    #[test]
    fn requires_target_and_host_field_to_agree() {
        for version in [Version::HTTP_11, Version::HTTP_2] {
            let rows = [
                ("http://a/run", "a", true),
                ("http://A:80/run", "a", true),
                ("https://a/run", "a:443", true),
                ("http://a/run", "a:443", false),
                ("http://a/run", "b", false),
                ("http://a/run", "a.b", false),
                ("http://a:81/run", "a", false),
                ("http://u@a/run", "a", false),
                ("ftp://a/run", "a", false),
            ];
            for (target, host, expected) in rows {
                assert_eq!(is_accepted(version, "POST", target, &[("host", host)]), expected, "{target} {host}");
            }
        }
        assert!(!is_accepted(Version::HTTP_11, "CONNECT", "a:443", &[("host", "a:443")]));
        assert!(!is_accepted(Version::HTTP_11, "OPTIONS", "*", &[("host", "a")]));
    }

    #[test]
    fn refuses_transfer_codings_other_than_chunked() {
        let rows = [
            (&["chunked"][..], true),
            (&["Chunked"], true),
            (&["chunked", "chunked"], false),
            (&["chunked, chunked"], false),
            (&["gzip, chunked"], false),
            (&["identity"], false),
            (&["chunked;a=b"], false),
        ];
        for (codings, expected) in rows {
            let mut fields = vec![("host", "a")];
            fields.extend(codings.iter().map(|coding| ("transfer-encoding", *coding)));
            assert_eq!(is_accepted(Version::HTTP_11, "POST", "/run", &fields), expected, "{codings:?}");
        }
    }
}
