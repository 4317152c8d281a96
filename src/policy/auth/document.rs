//! Fetches issuers' discovery documents and key sets.

use crate::net::http_client::{HttpClient, HttpClientError, HttpLimits};
use crate::net::url::{HttpUrl, HttpUrlError, is_loopback};
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header};
use std::time::Duration;

const MAX_DOCUMENT_BYTES: usize = 1 << 20;

const LIMITS: HttpLimits = HttpLimits {
    timeout: Duration::from_secs(5),
    max_body: MAX_DOCUMENT_BYTES,
    max_error_body: 0,
    max_read: 4 << 20,
    plain_only_to_loopback: true,
};

/// A document's URL: `https`, or `http` to this machine, which cannot be intercepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DocumentUrl {
    text: String,
    pub(super) is_loopback: bool,
}

/// An error whose message completes a sentence that begins with the URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum DocumentUrlError {
    #[error(transparent)]
    Url(#[from] HttpUrlError),
    #[error("is not an https URL, which every host but this machine requires")]
    NotHttps,
}

impl DocumentUrl {
    pub(super) fn parse(text: &str) -> Result<DocumentUrl, DocumentUrlError> {
        let url = HttpUrl::parse(text)?;
        let is_loopback = is_loopback(&url.host);
        if !url.tls && !is_loopback {
            return Err(DocumentUrlError::NotHttps);
        }
        Ok(DocumentUrl { text: text.to_owned(), is_loopback })
    }
}

pub(super) struct FetchedDocument {
    pub(super) body: Bytes,
    pub(super) max_age: Option<Duration>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error(transparent)]
    Http(#[from] HttpClientError),
    #[error("status {}, and redirects are not followed", .0.as_u16())]
    Redirect(StatusCode),
    #[error("status {}", .0.as_u16())]
    Status(StatusCode),
    #[error("the response has a content coding, and none was requested")]
    ContentCoding,
}

#[derive(Clone)]
pub(super) struct DocumentFetcher(HttpClient);

impl DocumentFetcher {
    pub(super) fn new() -> DocumentFetcher {
        DocumentFetcher(HttpClient::new(LIMITS))
    }

    /// Fetches a document. A redirect is an error, since it leads away from the configured URL.
    pub(super) async fn get(&self, url: &DocumentUrl) -> Result<FetchedDocument, FetchError> {
        let request = Request::get(&url.text)
            .header(header::ACCEPT, "application/json, application/jwk-set+json")
            .header(header::ACCEPT_ENCODING, "identity")
            .body(Bytes::new())
            .map_err(HttpClientError::from)?;
        let (head, body) = self.0.send(request).await?.into_parts();
        if head.status.is_redirection() {
            return Err(FetchError::Redirect(head.status));
        }
        if head.status != StatusCode::OK {
            return Err(FetchError::Status(head.status));
        }
        if head.headers.get(header::CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
            return Err(FetchError::ContentCoding);
        }
        Ok(FetchedDocument { body, max_age: parse_max_age(&head.headers) })
    }
}

/// Parses `max-age` [RFC 9111 §5.2.2.1]; `no-store` and `no-cache` (5.2.2.5, 5.2.2.4) count as zero.
fn parse_max_age(headers: &HeaderMap) -> Option<Duration> {
    let fields = headers.get_all(header::CACHE_CONTROL).iter().filter_map(|field| field.to_str().ok());
    let mut directives = fields.flat_map(|field| field.split(',')).map(|one| one.trim().to_ascii_lowercase());
    directives.find_map(|directive| match directive.split_once('=') {
        Some(("max-age", seconds)) => seconds.trim_matches('"').parse().ok().map(Duration::from_secs),
        None if directive == "no-store" || directive == "no-cache" => Some(Duration::ZERO),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_https_or_loopback_urls() {
        for good in ["https://idp.example/keys?a=b", "http://127.0.0.1:1/", "http://[::1]:80/k", "http://localhost/"] {
            assert!(DocumentUrl::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "http://idp.example/keys",
            "http://169.254.169.254/latest",
            "http://localhost.example/",
            "http://127.0.0.1.example/",
            "ftp://127.0.0.1/",
            "file:///etc/passwd",
            "/keys",
            "idp.example",
            "https://user:secret@idp.example/",
            "http://127.0.0.1@idp.example/",
            "",
        ] {
            let error = DocumentUrl::parse(bad).expect_err(bad).to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn reads_max_age_from_cache_control() {
        let max_age = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CACHE_CONTROL, http::HeaderValue::from_static(text));
            parse_max_age(&headers).map(|age| age.as_secs())
        };
        for (text, seconds) in [
            ("public, max-age=600", Some(600)),
            ("Max-Age=\"60\"", Some(60)),
            ("no-store", Some(0)),
            ("s-maxage=5", None),
            ("max-age=soon", None),
            ("max-age=-1", None),
            ("", None),
        ] {
            assert_eq!(max_age(text), seconds, "{text}");
        }
        assert_eq!(parse_max_age(&HeaderMap::new()), None);
    }
}
