//! Splits an absolute `http` or `https` URL into host, port and path.
//!
//! Uses the `http` crate's parser, since that of `url` would normalise the URL and change the request.

use http::Uri;
use std::borrow::Cow;
use std::net::IpAddr;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpUrl {
    pub(crate) tls: bool,
    /// in lower case; IPv6 without brackets
    pub(crate) host: String,
    /// explicit, or the scheme's default
    pub(crate) port: u16,
    /// host and port as written, for the `Host` header
    pub(crate) authority: String,
    /// path and query, starting with `/`
    pub(crate) path: String,
}

/// Each message continues a sentence that begins with the URL or its setting, and does not quote the URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HttpUrlError {
    #[error("is not a valid URL")]
    Malformed,
    #[error("is not an absolute URL")]
    NotAbsolute,
    #[error("contains a user name or a password")]
    UserInfo,
    #[error("is not an http or https URL")]
    Scheme,
}

impl HttpUrl {
    pub(crate) fn parse(text: &str) -> Result<HttpUrl, HttpUrlError> {
        HttpUrl::from_uri(&text.parse().map_err(|_| HttpUrlError::Malformed)?)
    }

    pub(crate) fn from_uri(uri: &Uri) -> Result<HttpUrl, HttpUrlError> {
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            Some(_) => return Err(HttpUrlError::Scheme),
            None => return Err(HttpUrlError::NotAbsolute),
        };
        let authority = uri.authority().ok_or(HttpUrlError::NotAbsolute)?;
        if authority.as_str().contains('@') {
            return Err(HttpUrlError::UserInfo);
        }
        Ok(HttpUrl {
            tls,
            host: authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase(),
            port: authority.port_u16().unwrap_or(implied_port(tls)),
            authority: authority.as_str().to_owned(),
            path: match uri.path_and_query().map_or("/", |path| path.as_str()) {
                query if query.starts_with('?') => format!("/{query}"),
                path => path.to_owned(),
            },
        })
    }
}

/// Returns whether a host is this machine's loopback name or address, without using DNS.
pub(crate) fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// Returns the scheme's default port.
/// RFC 9110 §4.2: "If the port subcomponent is empty or not given, TCP port 80 (443) is the default."
pub(crate) fn implied_port(tls: bool) -> u16 {
    if tls { 443 } else { 80 }
}

/// Writes a host as in a URL, with IPv6 in brackets.
pub(crate) fn bracket_host(host: &str) -> Cow<'_, str> {
    if host.contains(':') { format!("[{host}]").into() } else { host.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_absolute_urls() {
        let url = HttpUrl::parse("https://[2001:db8::1]/keys?a=b").expect("a URL");
        assert_eq!(
            (&*url.host, url.port, &*url.authority, &*url.path),
            ("2001:db8::1", 443, "[2001:db8::1]", "/keys?a=b")
        );
        let url = HttpUrl::parse("http://Collector:4318").expect("a URL");
        assert_eq!((url.tls, &*url.host, url.port, &*url.path), (false, "collector", 4318, "/"));
        assert_eq!(HttpUrl::parse("http://collector?tenant=1").map(|url| url.path), Ok("/?tenant=1".to_owned()));
    }

    #[test]
    fn rejects_relative_urls_other_schemes_and_credentials() {
        for (text, error) in [
            ("", HttpUrlError::Malformed),
            ("/keys", HttpUrlError::NotAbsolute),
            ("idp.example", HttpUrlError::NotAbsolute),
            ("collector:4318", HttpUrlError::NotAbsolute),
            ("ftp://127.0.0.1/", HttpUrlError::Scheme),
            ("https://user:secret@idp.example/", HttpUrlError::UserInfo),
            ("http://127.0.0.1@idp.example/", HttpUrlError::UserInfo),
        ] {
            assert_eq!(HttpUrl::parse(text), Err(error), "{text}");
        }
    }
}
