//! Documents of issuers, over HTTP: small, soon, and from where the configuration says, or not at all.

use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, join, split};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Most time for a document, from the look-up of its host to its last byte: one that drips is given up as well.
const FETCH_DEADLINE: Duration = Duration::from_secs(5);

/// The largest document.
const MAX_BODY: usize = 1 << 20;

/// Most that is read for a document: its head, interim responses before it and the frames of its chunks as well, none of
/// which has an end of its own.
const MAX_READ: u64 = 4 << 20;

/// What a request says about the sender.
const USER_AGENT: &str = concat!("diglot/", env!("CARGO_PKG_VERSION"));

/// Where a document is. Only `https`, or `http` on this machine, where nobody listens in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FetchUrl {
    tls: bool,
    host: String,
    port: u16,
    authority: String,
    path: String,
}

impl FetchUrl {
    /// Reads a URL.
    ///
    /// # Errors
    /// Why nothing is fetched from there.
    pub(crate) fn parse(text: &str) -> Result<FetchUrl, String> {
        let uri: Uri = text.parse().map_err(|_| "is no URL")?;
        let authority = uri.authority().ok_or("is no absolute URL")?;
        if authority.as_str().contains('@') {
            return Err("holds a name or a password".to_owned());
        }
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err("is no https URL".to_owned()),
        };
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let url = FetchUrl {
            tls,
            port: authority.port_u16().unwrap_or(if tls { 443 } else { 80 }),
            authority: authority.as_str().to_owned(),
            path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
            host,
        };
        if !url.tls && !url.is_loopback() {
            return Err("is no https URL, which every host but this one has to be asked by".to_owned());
        }
        Ok(url)
    }

    /// Whether this machine itself is asked.
    pub(crate) fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
    }
}

/// A document, and for how long it may be kept.
#[derive(Debug)]
pub(crate) struct FetchedDocument {
    pub(crate) body: Bytes,
    pub(crate) max_age: Option<Duration>,
}

/// Fetches documents.
#[derive(Clone, Default)]
pub(crate) struct HttpFetcher {
    /// made when it is first needed: most gateways have no issuer elsewhere, and reading certificates takes its time
    tls: Arc<OnceLock<TlsConnector>>,
}

impl fmt::Debug for HttpFetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fetcher")
    }
}

impl HttpFetcher {
    /// Fetches a document. A redirect is a failure: it leads to where the configuration does not say.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn get(&self, url: &FetchUrl) -> Result<FetchedDocument, String> {
        let fetched = tokio::time::timeout(FETCH_DEADLINE, self.fetch(url)).await;
        fetched.unwrap_or_else(|_| Err(format!("no whole answer within {} s", FETCH_DEADLINE.as_secs())))
    }

    async fn fetch(&self, url: &FetchUrl) -> Result<FetchedDocument, String> {
        let stream = connect(url).await?;
        if !url.tls {
            return exchange(stream, url).await;
        }
        let name = ServerName::try_from(url.host.clone()).map_err(|error| error.to_string())?;
        let stream = self.tls_connector()?.connect(name, stream).await;
        exchange(stream.map_err(|error| format!("TLS: {error}"))?, url).await
    }

    /// TLS with the certificates that the system trusts, or those of `SSL_CERT_FILE` and `SSL_CERT_DIR`.
    fn tls_connector(&self) -> Result<&TlsConnector, String> {
        if let Some(tls) = self.tls.get() {
            return Ok(tls);
        }
        let mut roots = RootCertStore::empty();
        // One that cannot be used is left out; an issuer that would have needed it is then said not to be trusted.
        let (usable, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if usable == 0 {
            return Err("TLS: this machine trusts no certificates; set SSL_CERT_FILE".to_owned());
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
        let config = config.with_root_certificates(roots).with_no_client_auth();
        Ok(self.tls.get_or_init(|| TlsConnector::from(Arc::new(config))))
    }
}

async fn connect(url: &FetchUrl) -> Result<TcpStream, String> {
    let found = tokio::net::lookup_host((url.host.as_str(), url.port)).await;
    let found = found.map_err(|error| format!("the host is not found: {error}"))?;
    // Plain HTTP stays on this machine, whatever the hosts file calls local.
    let addresses: Vec<SocketAddr> = found.filter(|address| url.tls || address.ip().is_loopback()).collect();
    TcpStream::connect(&addresses[..]).await.map_err(|error| format!("cannot be connected to: {error}"))
}

async fn exchange<S>(stream: S, url: &FetchUrl) -> Result<FetchedDocument, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken = |error: hyper::Error| format!("the exchange broke: {error}");
    let request = Request::get(&url.path)
        .header(header::HOST, &url.authority)
        .header(header::ACCEPT, "application/json, application/jwk-set+json")
        .header(header::ACCEPT_ENCODING, "identity")
        .header(header::USER_AGENT, USER_AGENT)
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let (reads, writes) = split(stream);
    let stream = join(reads.take(MAX_READ), writes);
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let answered = async {
        let response = sender.send_request(request).await.map_err(broken)?;
        read_response(response).await
    };
    // Driven here and not in a task, so that giving up closes the connection.
    tokio::pin!(answered);
    tokio::select! {
        document = &mut answered => document,
        ended = connection => {
            ended.map_err(broken)?;
            answered.await
        }
    }
}

async fn read_response(response: http::Response<Incoming>) -> Result<FetchedDocument, String> {
    let (head, body) = response.into_parts();
    if head.status != StatusCode::OK {
        let more = if head.status.is_redirection() { ", and redirects are not followed" } else { "" };
        return Err(format!("status {}{more}", head.status.as_u16()));
    }
    if head.headers.get(header::CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
        return Err("a content coding that was not asked for".to_owned());
    }
    let body = Limited::new(body, MAX_BODY).collect().await;
    let body = body.map_err(|error| match error.is::<http_body_util::LengthLimitError>() {
        true => format!("larger than {MAX_BODY} bytes"),
        false => format!("the body broke off: {error}"),
    })?;
    Ok(FetchedDocument { body: body.to_bytes(), max_age: parse_max_age(&head.headers) })
}

/// RFC 9111, section 5.2.2.1: "max-age"; a document that is not to be kept at all (5.2.2.4 and 5.2.2.5) is old at once.
fn parse_max_age(headers: &http::HeaderMap) -> Option<Duration> {
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
    use tokio::io::AsyncWriteExt;

    /// hyper reads as many interim responses as come, and a server that sends them fast leaves no time to look at a clock.
    #[tokio::test]
    async fn aborts_on_a_flood_of_interim_responses() {
        let url = FetchUrl::parse("http://127.0.0.1/keys").expect("a URL");
        for (flood, good) in [(3, true), (1 << 16, false)] {
            let (client, mut server) = tokio::io::duplex(1 << 16);
            let answer = async {
                // hyper takes what comes before it asked for something for a broken connection.
                let asked = server.read(&mut [0; 1024]).await?;
                assert!(asked > 0);
                let early = "HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload; as=style; nopush; x=0123456789\r\n\r\n";
                for _ in 0..flood {
                    server.write_all(early.as_bytes()).await?;
                }
                server.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await
            };
            let (_, document) = tokio::join!(answer, exchange(client, &url));
            assert_eq!(document.is_ok(), good, "{document:?}");
        }
    }

    #[test]
    fn accepts_only_https_or_loopback_urls() {
        for good in ["https://idp.example/keys?a=b", "http://127.0.0.1:1/", "http://[::1]:80/k", "http://localhost/"] {
            assert!(FetchUrl::parse(good).is_ok(), "{good}");
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
            let why = FetchUrl::parse(bad).expect_err(bad);
            assert!(!why.contains("secret"), "{why}");
        }
        let url = FetchUrl::parse("https://[2001:db8::1]/keys?a=b").expect("a URL");
        assert_eq!(
            (&*url.host, url.port, &*url.authority, &*url.path),
            ("2001:db8::1", 443, "[2001:db8::1]", "/keys?a=b")
        );
    }

    #[test]
    fn reads_max_age_from_cache_control() {
        let said = |text: &'static str| {
            let mut headers = http::HeaderMap::new();
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
            assert_eq!(said(text), seconds, "{text}");
        }
        assert_eq!(parse_max_age(&http::HeaderMap::new()), None);
    }
}
