//! One POST to the collector of traces: small, soon, over a connection of its own.

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use opentelemetry_http::{HttpClient, HttpError};
use parking_lot::Mutex;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Most of an answer that is read: it says how many spans were taken.
const ANSWER_LIMIT: usize = 64 << 10;

/// What a request says about the sender.
const USER_AGENT: &str = concat!("diglot/", env!("CARGO_PKG_VERSION"));

/// Where a collector is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CollectorAddress {
    tls: bool,
    host: String,
    port: u16,
}

/// Reads the place in a URL.
///
/// # Errors
/// Why nothing is sent there; the URL is not in it.
pub(super) fn parse_address(url: &str) -> Result<CollectorAddress, String> {
    let uri: Uri = url.parse().map_err(|_| "is no URL")?;
    let tls = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return Err("is no http or https URL".to_owned()),
    };
    let authority = uri.authority().ok_or("names no host")?;
    if authority.as_str().contains('@') {
        return Err("holds a name or a password, which belong into OTEL_EXPORTER_OTLP_HEADERS".to_owned());
    }
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = authority.port_u16().unwrap_or(if tls { 443 } else { 80 });
    Ok(CollectorAddress { tls, host, port })
}

/// Sends batches.
#[derive(Clone)]
pub(super) struct ExporterClient(Arc<ExporterClientInner>);

struct ExporterClientInner {
    timeout: Duration,
    /// made when it is first needed
    tls: OnceLock<TlsConnector>,
    /// why the last one was not sent
    failure: Mutex<Option<String>>,
}

impl fmt::Debug for ExporterClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Post")
    }
}

impl ExporterClient {
    /// Each may take that long, from the look-up of the host to the last byte of the answer.
    pub(super) fn new(timeout: Duration) -> ExporterClient {
        ExporterClient(Arc::new(ExporterClientInner { timeout, tls: OnceLock::new(), failure: Mutex::default() }))
    }

    /// Why the last one failed, once.
    pub(super) fn take_failure(&self) -> Option<String> {
        self.0.failure.lock().take()
    }

    fn set_failure(&self, why: &str) {
        *self.0.failure.lock() = Some(why.to_owned());
    }

    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, String> {
        let place = parse_address(&request.uri().to_string())?;
        let stream = TcpStream::connect((place.host.as_str(), place.port)).await;
        let stream = stream.map_err(|error| format!("{}:{}: {error}", place.host, place.port))?;
        if !place.tls {
            return send_over(stream, request).await;
        }
        let name = ServerName::try_from(place.host).map_err(|error| error.to_string())?;
        let stream = self.tls_connector()?.connect(name, stream).await;
        send_over(stream.map_err(|error| format!("TLS: {error}"))?, request).await
    }

    /// TLS with the certificates that the system trusts, or those of `SSL_CERT_FILE` and `SSL_CERT_DIR`.
    fn tls_connector(&self) -> Result<&TlsConnector, String> {
        if let Some(tls) = self.0.tls.get() {
            return Ok(tls);
        }
        let mut roots = RootCertStore::empty();
        // One that cannot be used is left out; a collector that would have needed it is then said not to be trusted.
        let (usable, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if usable == 0 {
            return Err("TLS: this machine trusts no certificates; set SSL_CERT_FILE".to_owned());
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
        let config = config.with_root_certificates(roots).with_no_client_auth();
        Ok(self.0.tls.get_or_init(|| TlsConnector::from(Arc::new(config))))
    }
}

#[async_trait]
impl HttpClient for ExporterClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sent = tokio::time::timeout(self.0.timeout, self.send(request)).await;
        let sent = sent.unwrap_or_else(|_| Err(format!("no answer within {:?}", self.0.timeout)));
        match &sent {
            Ok(response) if !response.status().is_success() => {
                self.set_failure(&format!("the collector answered {}", response.status()));
            }
            Ok(_) => {}
            Err(why) => self.set_failure(why),
        }
        sent.map_err(HttpError::from)
    }
}

async fn send_over<S>(stream: S, mut request: Request<Bytes>) -> Result<Response<Bytes>, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken = |error: hyper::Error| format!("the exchange broke: {error}");
    let uri = request.uri().clone();
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let host = HeaderValue::from_str(authority).map_err(|error| error.to_string())?;
    *request.uri_mut() = uri.path_and_query().map_or("/", |path| path.as_str()).parse().unwrap_or_default();
    let headers = request.headers_mut();
    headers.insert(header::HOST, host);
    headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let answered = async {
        let (head, body) = sender.send_request(request.map(Full::<Bytes>::from)).await.map_err(broken)?.into_parts();
        let body = Limited::new(body, ANSWER_LIMIT).collect().await;
        let body = body.map_err(|error| format!("the answer broke off: {error}"))?;
        Ok(Response::from_parts(head, body.to_bytes()))
    };
    // Driven here and not in a task, so that giving up closes the connection.
    tokio::pin!(answered);
    tokio::select! {
        response = &mut answered => response,
        ended = connection => {
            ended.map_err(broken)?;
            answered.await
        }
    }
}
