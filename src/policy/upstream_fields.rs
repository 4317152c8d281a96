//! Header fields for the agent: forwarded, configured, and with the caller's identity.
//!
//! A request to an agent starts without fields, so a client's cookies, credentials or forged `x-diglot-*` fields never
//! reach it unless they are added here.

use super::auth::Authenticator;
use super::client_addr::ClientAddrResolver;
use super::identity::{CallerContext, Identity};
use super::route_match::RouteMatch;
use crate::config::Config;
use crate::config::access::{UpstreamHeaderConfig, UpstreamHeaderValue};
use crate::config::header_names::{
    METHOD, SCOPES, SUBJECT, TENANT, TIER, X_FORWARDED_FOR, X_FORWARDED_HOST, X_FORWARDED_PROTO,
};
use crate::net::file_watcher::{ContentError, WatchError, Watched};
use crate::telemetry::internal_event::report_watched_files;
use http::header::{self, HeaderName};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Version};
use std::fmt::Write;
use std::path::PathBuf;

pub(crate) struct UpstreamFields {
    secret_files: Vec<SecretFile>,
}

/// A header value read from a file.
struct SecretFile {
    path: PathBuf,
    prefix: String,
    value: Watched<HeaderValue>,
}

impl UpstreamFields {
    pub(crate) fn new(config: &Config) -> Result<Self, WatchError> {
        let mut files: Vec<SecretFile> = Vec::new();
        for UpstreamHeaderConfig { value, .. } in config.routes.iter().flat_map(|route| &route.access.upstream_headers)
        {
            let UpstreamHeaderValue::File { prefix, path } = value else { continue };
            if !files.iter().any(|file| file.path == *path && file.prefix == *prefix) {
                let before = prefix.clone();
                let value = Watched::open(path, move |content| parse_secret(&before, content))?;
                files.push(SecretFile { path: path.clone(), prefix: prefix.clone(), value });
            }
        }
        Ok(UpstreamFields { secret_files: files })
    }

    /// Watches the files; returns only if there are none.
    pub(crate) async fn watch_files(&self) {
        futures_util::future::join_all(self.secret_files.iter().map(|file| file.value.watch(report_watched_files)))
            .await;
    }

    fn configured_value(&self, value: &UpstreamHeaderValue) -> Option<HeaderValue> {
        match value {
            UpstreamHeaderValue::Text(text) => Some(text.clone()),
            UpstreamHeaderValue::File { prefix, path } => {
                let file = self.secret_files.iter().find(|file| file.path == *path && file.prefix == *prefix)?;
                Some(HeaderValue::clone(&file.value.get()))
            }
        }
    }
}

fn parse_secret(prefix: &str, content: &[u8]) -> Result<HeaderValue, ContentError> {
    let content = content.trim_ascii_end();
    if content.is_empty() {
        return Err("is empty".into());
    }
    let value = HeaderValue::from_bytes(&[prefix.as_bytes(), content].concat());
    let mut value = value.map_err(|_| "contains bytes that a header field cannot have")?;
    value.set_sensitive(true);
    Ok(value)
}

impl UpstreamFields {
    pub(super) fn for_request(
        &self,
        head: &Parts,
        matched: &RouteMatch,
        addresses: &ClientAddrResolver,
        auth: &Authenticator,
    ) -> HeaderMap {
        let access = &matched.access;
        let mut fields = HeaderMap::new();
        for name in &access.forward_headers {
            copy_field(name, head, &mut fields);
        }
        if access.forward_credentials {
            copy_field(&header::AUTHORIZATION, head, &mut fields);
            for name in auth.key_fields(matched).into_iter().filter(|name| **name != header::AUTHORIZATION) {
                copy_field(name, head, &mut fields);
            }
        }
        add_forwarded(head, addresses, &mut fields);
        if let Some(identity) = CallerContext::identity_from(head) {
            add_identity(identity, &mut fields);
        }
        // Last, so that configured fields win.
        for UpstreamHeaderConfig { name, value } in &access.upstream_headers {
            if let Some(value) = self.configured_value(value) {
                fields.insert(name, value);
            }
        }
        fields
    }
}

fn add_forwarded(head: &Parts, addresses: &ClientAddrResolver, fields: &mut HeaderMap) {
    let mut set = |name: HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            fields.insert(name, value);
        }
    };
    // Only addresses that trusted proxies vouch for. Many agents take the first address as the client's, so anything
    // that the client wrote in front of it must be removed.
    let chain: Vec<_> = addresses.address_chain(head).iter().map(ToString::to_string).collect();
    if !chain.is_empty() {
        set(X_FORWARDED_FOR, &chain.join(", "));
    }
    set(X_FORWARDED_PROTO, addresses.requested_scheme(head));
    if let Some(host) = addresses.requested_host(head) {
        set(X_FORWARDED_HOST, host);
    }
    // "An intermediary [...] MUST send its own Via header field" with the version of the received message [RFC 9110
    // §7.6.3].
    let version = match head.version {
        Version::HTTP_10 => "1.0 diglot",
        Version::HTTP_2 => "2.0 diglot",
        _ => "1.1 diglot",
    };
    set(header::VIA, version);
}

/// Copies all lines of a field, unless `Connection` names it.
///
/// "Intermediaries MUST parse a received Connection header field before a message is forwarded and, for each
/// connection-option in this field, remove any header or trailer field(s) from the message with the same name"
/// [RFC 9110 §7.6.1].
fn copy_field(name: &HeaderName, head: &Parts, fields: &mut HeaderMap) {
    if !is_nominated(&head.headers, name) {
        for line in head.headers.get_all(name) {
            fields.append(name, line.clone());
        }
    }
}

/// Returns whether `Connection` names the field, which makes it hop-by-hop.
pub(crate) fn is_nominated(headers: &HeaderMap, name: &HeaderName) -> bool {
    let lines = headers.get_all(header::CONNECTION).iter();
    let mut options = lines.flat_map(|line| line.to_str().unwrap_or_default().split(','));
    options.any(|option| option.trim().eq_ignore_ascii_case(name.as_str()))
}

fn add_identity(identity: &Identity, fields: &mut HeaderMap) {
    let scopes: Vec<_> = identity.scopes.iter().map(|scope| percent_encode(scope)).collect();
    let values = [
        (SUBJECT, Some(percent_encode(&identity.subject))),
        (TENANT, identity.tenant.as_deref().map(percent_encode)),
        (SCOPES, (!scopes.is_empty()).then(|| scopes.join(" "))),
        (METHOD, Some(identity.method.label().to_owned())),
        (TIER, identity.tier.as_deref().map(percent_encode)),
    ];
    for (name, value) in values {
        if let Some(value) = value.and_then(|value| HeaderValue::try_from(value).ok()) {
            fields.insert(name, value);
        }
    }
}

/// Percent-encodes `%` and all bytes except visible ASCII, so that a name cannot be read as several values or lines.
fn percent_encode(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && byte != b'%' {
            plain.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(plain, "%{byte:02X}");
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_names_as_visible_ascii() {
        for (text, expected) in [
            ("auth0|123", "auth0|123"),
            ("100%", "100%25"),
            ("a b", "a%20b"),
            ("a\r\nX-Diglot-Tier: gold", "a%0D%0AX-Diglot-Tier:%20gold"),
            ("Zoë", "Zo%C3%AB"),
            ("", ""),
        ] {
            assert_eq!(percent_encode(text), expected);
        }
    }

    #[test]
    fn strips_the_line_end_of_a_secret_file() {
        let value = parse_secret("Bearer ", b"abc\n").expect("a value");
        assert_eq!(value.as_bytes(), b"Bearer abc");
        assert!(value.is_sensitive());
        for broken in [&b""[..], b" \n", b"a\nb", b"a\0"] {
            assert!(parse_secret("", broken).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn drops_headers_that_connection_names() {
        let request = http::Request::post("/").header("connection", "close, X-One").header("connection", "x-two");
        let request = request.header("x-one", "1").header("x-two", "2").header("x-three", "3").header("x-three", "4");
        let (head, ()) = request.body(()).expect("a request").into_parts();
        let mut fields = HeaderMap::new();
        for name in ["x-one", "x-two", "x-three"] {
            copy_field(&HeaderName::from_static(name), &head, &mut fields);
        }
        let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        assert_eq!(fields, [("x-three", &b"3"[..]), ("x-three", b"4")]);
    }
}
